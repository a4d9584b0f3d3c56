/* SPDX-License-Identifier: Apache-2.0 */
/* The claims of the cases, and the byte patterns that they check. Every case calls these. */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAILURES_SHOWN 8u /* of one case and rank */

static _Thread_local char error_before[1024];

/* Whether this failure is one of the first, which are printed. */
static bool rank_fail(struct rank *r)
{
	__atomic_fetch_add(&r->reported, 1, __ATOMIC_RELAXED);
	return __atomic_fetch_add(&r->failures, 1, __ATOMIC_RELAXED) < FAILURES_SHOWN;
}

bool check_claim(struct rank *r, bool claim, const char *file, int line, const char *what)
{
	if (!claim && rank_fail(r))
		fprintf(stderr, "%s:%d: rank %u of %u, %s/%s: not true: %s\n", file, line, r->rank,
			r->size, r->suite, r->name, what);
	return claim;
}

bool check_equal(struct rank *r, uint64_t got, uint64_t expected, const char *file, int line,
		 const char *what)
{
	if (got != expected && rank_fail(r))
		fprintf(stderr,
			"%s:%d: rank %u of %u, %s/%s: %s is %" PRIu64 ", expected %" PRIu64 "\n",
			file, line, r->rank, r->size, r->suite, r->name, what, got, expected);
	return got == expected;
}

void check_begin(void)
{
	snprintf(error_before, sizeof(error_before), "%s", oriel_last_error());
}

bool check_quiet(struct rank *r, const char *file, int line, const char *what)
{
	bool is_quiet = strcmp(error_before, oriel_last_error()) == 0;

	if (!is_quiet && rank_fail(r))
		fprintf(stderr,
			"%s:%d: rank %u of %u, %s/%s: %s has not failed, and made the last error "
			"'%s' of '%s'\n",
			file, line, r->rank, r->size, r->suite, r->name, what, oriel_last_error(),
			error_before);
	return is_quiet;
}

bool check_status(struct rank *r, int64_t got, enum oriel_status expected, const char *file,
		  int line, const char *what)
{
	if (got != expected && rank_fail(r))
		fprintf(stderr,
			"%s:%d: rank %u of %u, %s/%s: %s is %s, expected %s (last error: %s)\n",
			file, line, r->rank, r->size, r->suite, r->name, what,
			oriel_status_name((enum oriel_status)got), oriel_status_name(expected),
			oriel_last_error());
	return got == expected && (got < 0 || check_quiet(r, file, line, what));
}

bool check_posted(struct rank *r, int64_t got, const char *file, int line, const char *what)
{
	if (got < 0 && rank_fail(r))
		fprintf(stderr, "%s:%d: rank %u of %u, %s/%s: %s is %s\n", file, line, r->rank,
			r->size, r->suite, r->name, what,
			oriel_status_name((enum oriel_status)got));
	return got >= 0;
}

bool check_text(struct rank *r, const char *text, const char *part, const char *file, int line)
{
	bool has = strstr(text, part) != NULL;

	if (!has && rank_fail(r))
		fprintf(stderr, "%s:%d: rank %u of %u, %s/%s: '%s' does not say '%s'\n", file, line,
			r->rank, r->size, r->suite, r->name, text, part);
	return has;
}

void check_no_team(struct rank *r, uint32_t size)
{
	struct oriel_team team;

	CHECK_STATUS(r, oriel_team_open(&team, size, true), ORIEL_ERR_RANGE);
}

void rank_check_healthy(struct rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};

	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK_EQ(r, health.status, ORIEL_OK);
}

void fill(void *at, size_t length, uint64_t seed)
{
	unsigned char *bytes = at;
	size_t i;

	for (i = 0; i < length; i++)
		bytes[i] = pattern(seed, i);
}

size_t wrong(const void *at, size_t length, uint64_t seed)
{
	const unsigned char *bytes = at;
	size_t i, count = 0;

	for (i = 0; i < length; i++)
		count += bytes[i] != pattern(seed, i);
	return count;
}

size_t not_all(const void *at, size_t length, unsigned char value)
{
	const unsigned char *bytes = at;
	size_t i, count = 0;

	for (i = 0; i < length; i++)
		count += bytes[i] != value;
	return count;
}

void group_fill(struct oriel_dev_group g, void *at, size_t length, uint64_t seed)
{
	if (oriel_dev_is_leader(g))
		fill(at, length, seed);
	oriel_dev_sync(g);
}

void group_flood(struct oriel_dev_group g, void *at, size_t length, unsigned char value)
{
	if (oriel_dev_is_leader(g))
		memset(at, value, length);
	oriel_dev_sync(g);
}
