/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data for --check: every byte depends on its place, the round and the rank
 * that sent it, so that stale, shifted and foreign bytes all show.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "perf.h"

#define CHECK_TOLD_MAX 8 /* mismatches that are described, per rank */

static uint64_t check_word(uint64_t place, uint64_t round, unsigned rank)
{
	uint64_t x = (place + 1) * 0x9e3779b97f4a7c15u + (round << 12 ^ rank);

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

static bool check_is_told(struct perf_shot *shot)
{
	return shot->job->mismatches++ < CHECK_TOLD_MAX;
}

void perf_compare(struct perf_shot *shot, const char *from, uint64_t bytes, uint64_t round,
		  unsigned rank)
{
	uint64_t at, word;
	size_t length;

	for (at = 0; at < bytes; at += 8) {
		length = bytes - at < 8 ? bytes - at : 8;
		word = check_word(at, round, rank);
		if (memcmp(from + at, &word, length) == 0)
			continue;
		if (check_is_told(shot))
			fprintf(stderr,
				"oriel perf: %s of %" PRIu64 " bytes, round %" PRIu64
				": rank %u got wrong data from rank %u at byte %" PRIu64 "\n",
				shot->plan->test, shot->bytes, round, shot->job->rank, rank, at);
		return;
	}
}

void perf_compare_word(struct perf_shot *shot, const char *what, uint64_t seen, uint64_t expected,
		       uint64_t round)
{
	if (seen == expected || !check_is_told(shot))
		return;
	fprintf(stderr,
		"oriel perf: %s, round %" PRIu64 ": %s is %" PRIu64 " on rank %u, not %" PRIu64
		"\n",
		shot->plan->test, round, what, seen, shot->job->rank, expected);
}
