/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data for --check: every byte depends on its offset, the round and the sending rank, so that
 * stale, shifted and foreign bytes are all detected.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "perf.h"

#define CHECK_REPORTED_MAX 8 /* mismatches that each rank reports */

static uint64_t check_word(uint64_t offset, uint64_t round, unsigned rank)
{
	uint64_t x = (offset + 1) * 0x9e3779b97f4a7c15u + (round << 12 ^ rank);

	x ^= x >> 31;
	return x * 0xbf58476d1ce4e5b9u;
}

void perf_fill(char *to, uint64_t bytes, uint64_t round, unsigned rank)
{
	uint64_t at, word;

	for (at = 0; at < bytes; at += 8) {
		word = check_word(at, round, rank);
		memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
	}
}

static bool check_is_reported(struct perf_rep *rep)
{
	return rep->job->mismatches++ < CHECK_REPORTED_MAX;
}

void perf_compare(struct perf_rep *rep, const char *from, uint64_t bytes, uint64_t round,
		  unsigned rank)
{
	uint64_t at, word;
	size_t length;

	for (at = 0; at < bytes; at += 8) {
		length = bytes - at < 8 ? bytes - at : 8;
		word = check_word(at, round, rank);
		if (memcmp(from + at, &word, length) == 0)
			continue;
		if (check_is_reported(rep))
			fprintf(stderr,
				"oriel perf: %s of %" PRIu64 " bytes, round %" PRIu64
				": rank %u received wrong data from rank %u at byte %" PRIu64 "\n",
				rep->plan->test, rep->bytes, round, rep->job->rank, rank, at);
		return;
	}
}

void perf_compare_word(struct perf_rep *rep, const char *what, uint64_t seen, uint64_t expected,
		       uint64_t round)
{
	if (seen == expected || !check_is_reported(rep))
		return;
	fprintf(stderr,
		"oriel perf: %s, round %" PRIu64 ": %s is %" PRIu64 " on rank %u, not %" PRIu64
		"\n",
		rep->plan->test, round, what, seen, rep->job->rank, expected);
}
