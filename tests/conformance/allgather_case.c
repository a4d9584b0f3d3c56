/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check before the creation of an all-gather says what the creation does, and views have one
 * kind. The conformance program runs this suite for every transport.
 */
#include "harness.h"

#include <stdlib.h>

#define BYTES 20000u /* more than lines carry */

static enum oriel_status check(struct rank *r, const struct oriel_view *view, unsigned algorithm,
			       size_t bytes, struct oriel_coll_info *info)
{
	const struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};

	return oriel_allgather_check(r->comm, view, &attr, bytes, info);
}

/* Creates the object as well, and compares what the two say. */
static void check_and_create(struct rank *r, const struct oriel_view *view, unsigned algorithm,
			     size_t bytes)
{
	const struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_coll_info expected = {.size = sizeof(expected)};
	struct oriel_coll_info info = {.size = sizeof(info), .bytes_max = 1};
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
	/* The object has addresses of the window's memory. */
	if (view->window) {
		CHECK_STATUS(r, oriel_window_destroy(view->window), ORIEL_ERR_STATE);
		CHECK_LAST(r, "is the view of a live all-gather of rank");
	}
	CHECK_OK(r, oriel_allgather_destroy(gather));
}

static void a_check_says_what_a_creation_does(struct rank *r)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_WINDOW,
				  .window = r->window,
				  .length = 64 * (size_t)r->size + r->rank};
	unsigned algorithm;

	for (algorithm = 0; has_algorithm(algorithm); algorithm++)
		check_and_create(r, &view, algorithm, 64);
	view.kind = ORIEL_VIEW_BUFFER;
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
				  .kind = ORIEL_VIEW_WINDOW,
				  .window = r->window,
				  .length = BYTES * (size_t)r->size - (r->rank == 1)};
	struct oriel_coll_info info = {.size = sizeof(info)};

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
	CHECK_TEXT(r, oriel_last_error(), "oriel_coll_info to write to is NULL");
}

static void create_fails(struct rank *r, const struct oriel_view *view, enum oriel_status status,
			 const char *text)
{
	struct oriel_allgather *gather = NULL;

	CHECK_STATUS(r, oriel_allgather_create(r->comm, view, NULL, &gather), status);
	CHECK_LAST(r, text);
	CHECK(r, !gather);
}

/* A view of kind @kind with the fields of @fields, of which the library rejects one. */
static void view_fails(struct rank *r, struct oriel_view fields, unsigned kind, const char *text)
{
	fields.size = sizeof(fields);
	fields.kind = kind;
	fields.length = 8;
	create_fails(r, &fields, ORIEL_ERR_INVALID, text);
}

static void a_view_has_one_kind(struct rank *r)
{
	struct oriel_dev_buffer *table = calloc(r->size, sizeof(*table));
	struct oriel_view part = {.window = r->window}, buffer = {.buffer = r->base};
	struct oriel_view all = {.buffer = r->base, .peers = table};

	view_fails(r, part, 0, "oriel_view: kind is 0: set it to ORIEL_VIEW_WINDOW, ");
	view_fails(r, part, ORIEL_VIEW_TABLE + 1, "oriel_view: unknown kind 4");
	view_fails(r, buffer, ORIEL_VIEW_WINDOW, "ORIEL_VIEW_WINDOW, but window is NULL");
	view_fails(r, part, ORIEL_VIEW_BUFFER, "ORIEL_VIEW_BUFFER, which has no field window");
	view_fails(r, all, ORIEL_VIEW_BUFFER, "ORIEL_VIEW_BUFFER, which has no field peers");
	view_fails(r, buffer, ORIEL_VIEW_TABLE, "ORIEL_VIEW_TABLE, but peers is NULL");
	buffer.at = 8;
	view_fails(r, buffer, ORIEL_VIEW_BUFFER, "ORIEL_VIEW_BUFFER, which has no field at");
	part.buffer = r->base;
	view_fails(r, part, ORIEL_VIEW_WINDOW, "ORIEL_VIEW_WINDOW, which has no field buffer");
	all.buffer = NULL;
	view_fails(r, all, ORIEL_VIEW_TABLE, "ORIEL_VIEW_TABLE, but buffer is NULL");
	/* Each rank's view is valid, and one is of another kind. */
	all = (struct oriel_view){.size = sizeof(all), .kind = ORIEL_VIEW_WINDOW, .length = 8};
	all.window = r->window;
	if (r->rank == 1) {
		all.kind = ORIEL_VIEW_BUFFER;
		all.window = NULL;
		all.buffer = r->base;
	}
	if (r->size > 1)
		create_fails(r, &all, ORIEL_ERR_MISMATCH,
			     "the kind of view: 1 on rank 0, 2 on rank 1");
	free(table);
}

static const struct oriel_window_attr wide = {
	.size = sizeof(wide),
	.length = (size_t)1 << 20,
};

static const struct test_case allgather_cases[] = {
	{"a_check_says_what_a_creation_does", a_check_says_what_a_creation_does, &wide, 1, 0},
	{"a_check_says_why_not", a_check_says_why_not, &wide, 2, 0},
	{"a_view_has_one_kind", a_view_has_one_kind, &wide, 1, 0},
};

const struct suite allgather_suite = SUITE(allgather);
