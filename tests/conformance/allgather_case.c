/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check before the creation of an all-gather says what the creation does. The conformance
 * program runs this suite for every transport.
 */
#include "harness.h"

#include <stdlib.h>

#define BYTES 20000u /* more than lines carry */

static enum oriel_status check(struct rank *r, const struct oriel_view *view, unsigned algorithm,
			       size_t bytes, struct oriel_allgather_info *info)
{
	const struct oriel_allgather_attr attr = {.size = sizeof(attr), .algorithm = algorithm};

	return oriel_allgather_check(r->comm, view, &attr, bytes, info);
}

/* Creates the object as well, and compares what the two say. */
static void check_and_create(struct rank *r, const struct oriel_view *view, unsigned algorithm,
			     size_t bytes)
{
	const struct oriel_allgather_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_allgather_info expected = {.size = sizeof(expected)};
	struct oriel_allgather_info info = {.size = sizeof(info), .bytes_max = 1};
	enum oriel_status status = check(r, view, algorithm, bytes, &info);
	struct oriel_allgather *gather = NULL;

	CHECK_STATUS(r, oriel_allgather_create(r->comm, view, &attr, &gather), status);
	if (status != ORIEL_OK) {
		/* Outputs are written only on success. */
		CHECK_EQ(r, info.bytes_max, 1);
		return;
	}
	CHECK_OK(r, oriel_allgather_query(gather, bytes, &expected));
	CHECK_EQ(r, info.bytes_max, expected.bytes_max);
	CHECK_EQ(r, info.nodes, expected.nodes);
	CHECK_EQ(r, info.supported, expected.supported);
	CHECK_EQ(r, info.algorithm, expected.algorithm);
	if (algorithm != ORIEL_ALGORITHM_DEFAULT)
		CHECK_EQ(r, info.algorithm, algorithm);
	oriel_allgather_destroy(gather);
}

static void a_check_says_what_a_creation_does(struct rank *r)
{
	struct oriel_view view = {.size = sizeof(view),
				  .window = r->window,
				  .length = 64 * (size_t)r->size + r->rank};
	unsigned algorithm;

	for (algorithm = 0; algorithm < ORIEL_ALGORITHMS; algorithm++)
		check_and_create(r, &view, algorithm, 64);
	view.window = NULL;
	CHECK_OK(r, oriel_memory_alloc(view.length, 0, &view.buffer));
	check_and_create(r, &view, ORIEL_ALGORITHM_DEFAULT, 64);
	oriel_memory_free(view.buffer);
	/* Private memory, which other processes do not reach. */
	view.buffer = malloc(view.length);
	check_and_create(r, &view, ORIEL_ALGORITHM_DEFAULT, 64);
	free(view.buffer);
}

static void a_check_says_why_not(struct rank *r)
{
	struct oriel_view view = {.size = sizeof(view),
				  .window = r->window,
				  .length = BYTES * (size_t)r->size - (r->rank == 1)};
	struct oriel_allgather_info info = {.size = sizeof(info)};

	CHECK_STATUS(r, check(r, &view, ORIEL_ALGORITHM_CE, 8, &info), ORIEL_ERR_UNSUPPORTED);
	CHECK_TEXT(r, oriel_last_error(), "algorithm ce does not support host memory of");
	/* The view of rank 1 is a byte too short for all. */
	CHECK_STATUS(r, check(r, &view, ORIEL_ALGORITHM_DEFAULT, BYTES, &info), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "do not fit the shortest view, which has room for 19999");
	CHECK_OK(r, check(r, &view, ORIEL_ALGORITHM_DEFAULT, BYTES - 1, &info));
	CHECK_EQ(r, info.bytes_max, BYTES - 1);
	if (info.nodes == 1) {
		CHECK_OK(r, check(r, &view, ORIEL_ALGORITHM_LL, 16384, &info));
		CHECK_STATUS(r, check(r, &view, ORIEL_ALGORITHM_LL, 16385, &info),
			     ORIEL_ERR_UNSUPPORTED);
		CHECK_TEXT(r, oriel_last_error(), "algorithm ll sends at most 16384 bytes");
	}
	if (r->rank == 1)
		view.length = 0;
	CHECK_STATUS(r, check(r, &view, ORIEL_ALGORITHM_DEFAULT, 1, &info), ORIEL_ERR_RANGE);
	if (r->rank == 1)
		view.flags = 1u << 31;
	CHECK_STATUS(r, check(r, &view, ORIEL_ALGORITHM_DEFAULT, 0, &info), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_allgather_check(r->comm, &view, NULL, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_allgather_info to write to is NULL");
}

static const struct oriel_window_attr wide = {
	.size = sizeof(wide),
	.length = (size_t)1 << 20,
};

static const struct test_case allgather_cases[] = {
	{"a_check_says_what_a_creation_does", a_check_says_what_a_creation_does, &wide, 1, 0},
	{"a_check_says_why_not", a_check_says_why_not, &wide, 2, 0},
};

const struct suite allgather_suite = SUITE(allgather);
