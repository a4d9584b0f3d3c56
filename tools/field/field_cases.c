/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance suite for `oriel field-report`, in the program that carries the cases. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/conformance.h"

#include "field.h"
#include "tool.h"

#define CASES_WORDS 40u

/* Windows without counters, which need queues that WAIT. */
static const char *const few[] = {"signal/", "barrier/", "channel/", "order/",
				  "region/", "fault/",   "stuck/",   NULL};

/* Suites that ask for what only the software HCA says are left out. */
static const char *const most[] = {"order/",   "fault/",   "data/",     "signal/",    "counter/",
				   "barrier/", "window/",  "channel/",  "host/",      "team/",
				   "region/",  "connect/", "ll/",       "ll128/",     "gather/",
				   "replay/",  "stuck/",   "exchange/", "allgather/", "topo/",
				   NULL};

bool field_has_cases(void)
{
	return true;
}

/* Returns their number; 0 after a message. */
static int cases_cut(char *names, const char **words, int most_words)
{
	int count = 0;
	char *rest;

	for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (count == most_words) {
			fprintf(stderr, "oriel field-report: --cases has more than %d names\n",
				most_words);
			return 0;
		}
		words[count++] = name;
	}
	if (!count)
		fprintf(stderr, "oriel field-report: --cases has no name\n");
	return count;
}

int field_cases(bool has_wait, const char *seconds, char *names)
{
	const char *words[CASES_WORDS] = {"oriel field-report", "--seconds", seconds};
	const char *const *suite = has_wait ? most : few;
	int count = 3, found;

	if (names) {
		found = cases_cut(names, words + count, (int)CASES_WORDS - count);
		if (!found)
			return TOOL_USAGE;
		count += found;
	} else {
		for (; *suite; suite++)
			words[count++] = *suite;
	}
	return conformance_main(count, (char **)(uintptr_t)words, &conformance_cpus);
}
