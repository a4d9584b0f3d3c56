/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives without an object: the object of a call is found again, never for other memory, and
 * all ranks agree on it. The conformance program runs this suite for every transport.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define SHARE 20000u /* the most bytes of each rank */
#define GUARD 0x5a
#define MANY (ORIEL_OBJECT_CACHE_MOST + 6)

static struct oriel_object_cache_info info_of(struct rank *r)
{
	struct oriel_object_cache_info info = {.size = sizeof(info)};

	CHECK_OK(r, oriel_object_cache_query(r->comm, &info));
	return info;
}

static char *shared_memory(struct rank *r, size_t length)
{
	char *memory = NULL;

	if (!CHECK_OK(r, oriel_memory_alloc(length, 0, (void **)&memory)))
		give_up(r, "oriel_memory_alloc");
	return memory;
}

static uint64_t message_seed(uint64_t round, unsigned rank)
{
	return round * 131 + rank * 7 + 1;
}

/* One call, whose result is checked. */
static void gather_to(struct rank *r, char *recv, size_t bytes, bool in_place)
{
	char *own = malloc(bytes + 1), *send = in_place ? recv + r->rank * bytes : own + 1;
	unsigned rank;

	r->round++;
	memset(recv, GUARD, r->size * bytes);
	fill(send, bytes, message_seed(r->round, r->rank));
	if (CHECK_OK(r, oriel_allgather_once(r->comm, send, recv, bytes)))
		for (rank = 0; rank < r->size; rank++)
			if (!CHECK_EQ(r,
				      wrong(recv + rank * bytes, bytes,
					    message_seed(r->round, rank)),
				      0))
				break;
	free(own);
}

/* One all-to-all and one broadcast, whose results are checked. */
static void exchange_to(struct rank *r, char *recv, size_t bytes)
{
	char *send = malloc(r->size * bytes);
	unsigned rank, root;

	r->round++;
	root = (unsigned)r->round % r->size;
	memset(recv, GUARD, r->size * bytes);
	for (rank = 0; rank < r->size; rank++)
		fill(send + rank * bytes, bytes, message_seed(r->round, r->rank * 9 + rank));
	if (CHECK_OK(r, oriel_alltoall_once(r->comm, send, recv, bytes)))
		for (rank = 0; rank < r->size; rank++)
			CHECK_EQ(r,
				 wrong(recv + rank * bytes, bytes,
				       message_seed(r->round, rank * 9 + r->rank)),
				 0);
	memset(recv, GUARD, bytes);
	fill(send, bytes, message_seed(r->round, r->rank));
	if (r->rank == root && r->round % 2)
		memcpy(recv, send, bytes);
	if (CHECK_OK(r, oriel_bcast_once(r->comm, root, r->round % 2 ? recv : send, recv, bytes)))
		CHECK_EQ(r, wrong(recv, bytes, message_seed(r->round, root)), 0);
	free(send);
}

/* Each kind has objects of its own for the same memory. */
static void other_collectives_have_objects(struct rank *r)
{
	size_t length = (size_t)r->size * SHARE;
	char *shared = shared_memory(r, length), *private = malloc(length);
	struct oriel_object_cache_info before = info_of(r);
	unsigned i;

	for (i = 0; i < 4; i++) {
		exchange_to(r, shared, 3000);
		gather_to(r, shared, 3000, i % 2);
	}
	CHECK_EQ(r, info_of(r).objects - before.objects, 3);
	CHECK_EQ(r, info_of(r).hits - before.hits, 9);
	for (i = 0; i < 4; i++)
		exchange_to(r, r->rank ? shared : private, 3000);
	CHECK_EQ(r, info_of(r).objects - before.objects, 5);
	CHECK_OK(r, oriel_alltoall_once(r->comm, NULL, NULL, 0));
	CHECK_OK(r, oriel_bcast_once(r->comm, 0, NULL, NULL, 0));
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	free(private);
	oriel_memory_free(shared);
}

static void other_mistakes_are_errors_on_all_ranks(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE), send[640] = {0};
	bool is_last = r->rank + 1 == r->size;
	enum oriel_status status;

	CHECK(r, r->size <= 80);
	CHECK_STATUS(r, oriel_alltoall_once(r->comm, is_last ? recv : send, recv, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "all-to-all: the send buffer overlaps the result");
	CHECK_STATUS(r, oriel_bcast_once(r->comm, r->size - 1, is_last ? recv + 1 : NULL, recv, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "broadcast: the send buffer overlaps the result, and is not the part");
	CHECK_STATUS(r, oriel_bcast_once(r->comm, r->size, send, recv, 8), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "broadcast: root");
	status = oriel_bcast_once(r->comm, is_last ? r->size - 1 : 0, send, recv, 8);
	CHECK_EQ(r, status, r->size > 1 ? ORIEL_ERR_MISMATCH : ORIEL_OK);
	if (r->size > 1)
		CHECK_LAST(r, "broadcast: ranks differ in root: 0 on rank 0, ");
	status = is_last ? oriel_alltoall_once(r->comm, send, recv, 8)
			 : oriel_allgather_once(r->comm, send, recv, 8);
	CHECK_EQ(r, status, r->size > 1 ? ORIEL_ERR_MISMATCH : ORIEL_OK);
	if (r->size > 1)
		CHECK_LAST(r, "different collectives: all-gather on rank 0, all-to-all on rank");
	rank_check_healthy(r);
	exchange_to(r, recv, 100);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	oriel_memory_free(recv);
}

/* A call executes the object of the one before it if that has room. */
static void an_object_is_found_again(struct rank *r)
{
	static const size_t sizes[] = {SHARE, 1, 7, 4096, 1000, SHARE};
	struct oriel_object_cache_info before = info_of(r), after;
	size_t length = (size_t)r->size * SHARE, i;
	char *recv = shared_memory(r, length + 64);

	memset(recv + length, GUARD, 64);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		gather_to(r, recv, sizes[i], false);
		gather_to(r, recv, sizes[i], true);
	}
	CHECK_EQ(r, not_all(recv + length, 64, GUARD), 0);
	CHECK_OK(r, oriel_allgather_once(r->comm, NULL, NULL, 0));
	after = info_of(r);
	CHECK_EQ(r, after.calls - before.calls, 12);
	CHECK_EQ(r, after.hits - before.hits, 11);
	CHECK_EQ(r, after.objects, before.objects + 1);
	CHECK_EQ(r, after.captured, 0);
	CHECK_OK(r, oriel_object_cache_release(r->comm, recv, length));
	CHECK_EQ(r, info_of(r).objects, before.objects);
	oriel_memory_free(recv);
}

/* Longer than the object has room for: another one is created, and both are kept. */
static void a_longer_result_has_another_object(struct rank *r)
{
	struct oriel_object_cache_info before = info_of(r);
	char *recv = shared_memory(r, (size_t)r->size * SHARE);

	gather_to(r, recv, 100, false);
	gather_to(r, recv, 200, false);
	gather_to(r, recv, 100, false);
	CHECK_EQ(r, info_of(r).objects - before.objects, 2);
	CHECK_EQ(r, info_of(r).hits - before.hits, 1);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	CHECK_EQ(r, info_of(r).objects, 0);
	oriel_memory_free(recv);
}

/* The memory of one rank is no file, and not even aligned. */
static void any_host_memory_serves(struct rank *r)
{
	char *shared = shared_memory(r, (size_t)r->size * SHARE);
	char *private = malloc((size_t)r->size * SHARE + 1);
	struct oriel_object_cache_info before = info_of(r);
	unsigned i;

	CHECK(r, private);
	for (i = 0; i < 3; i++)
		gather_to(r, r->rank ? shared : private + 1, 100, i == 1);
	gather_to(r, private + 1, 5000, false);
	gather_to(r, private, SHARE, true);
	gather_to(r, private + 1, 5000, true);
	/* It grew twice at most, and the shorter ones are destroyed. */
	CHECK_EQ(r, info_of(r).objects - before.objects, 1);
	CHECK(r, info_of(r).hits - before.hits >= 3);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	free(private);
	oriel_memory_free(shared);
}

/* Rank by rank frees its memory and allocates it again, while the peers keep theirs. */
static void freed_memory_has_no_object(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE);
	struct oriel_object_cache_info before = info_of(r), after;
	unsigned i;

	for (i = 0; i < 2 * r->size; i++) {
		gather_to(r, recv, 3000, false);
		gather_to(r, recv, 3000, true);
		if (i % r->size == r->rank) {
			oriel_memory_free(recv);
			recv = shared_memory(r, (size_t)r->size * SHARE);
		}
	}
	gather_to(r, recv, 3000, false);
	after = info_of(r);
	CHECK_EQ(r, after.calls - before.calls, 4 * r->size + 1);
	CHECK_EQ(r, after.hits - before.hits, 2 * r->size);
	/* The object of freed memory is destroyed when the next one is created. */
	CHECK_EQ(r, after.objects - before.objects, 1);
	oriel_memory_free(recv);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
}

/* Only the last rank names the memory; it goes on all ranks. */
static void released_objects_are_destroyed(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE);
	bool is_last = r->rank + 1 == r->size;
	struct oriel_object_cache_info before = info_of(r);

	gather_to(r, recv, 500, false);
	CHECK_EQ(r, info_of(r).objects - before.objects, 1);
	/* Beside the result: nothing. */
	CHECK_OK(r, oriel_object_cache_release(r->comm, recv + r->size * 500, 8));
	CHECK_OK(r, oriel_object_cache_release(r->comm, recv, 0));
	CHECK_EQ(r, info_of(r).objects - before.objects, 1);
	CHECK_OK(r, oriel_object_cache_release(r->comm, recv + r->size * 500 - 1, is_last));
	CHECK_EQ(r, info_of(r).objects, before.objects);
	gather_to(r, recv, 500, false);
	CHECK_EQ(r, info_of(r).hits, before.hits);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	oriel_memory_free(recv);
}

/* The object that was not used for the longest time makes room. */
static void the_oldest_object_goes_first(struct rank *r)
{
	size_t step = (size_t)r->size * 64;
	char *recv = shared_memory(r, MANY * step);
	struct oriel_object_cache_info before;
	unsigned i;

	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	for (i = 0; i < ORIEL_OBJECT_CACHE_MOST; i++)
		gather_to(r, recv + i * step, 64, false);
	gather_to(r, recv, 64, false);
	CHECK_EQ(r, info_of(r).objects, ORIEL_OBJECT_CACHE_MOST);
	for (; i < MANY; i++)
		gather_to(r, recv + i * step, 64, false);
	CHECK_EQ(r, info_of(r).objects, ORIEL_OBJECT_CACHE_MOST);
	before = info_of(r);
	gather_to(r, recv, 64, false);
	CHECK_EQ(r, info_of(r).hits - before.hits, 1);
	gather_to(r, recv + 7 * step, 64, false);
	CHECK_EQ(r, info_of(r).hits - before.hits, 2);
	gather_to(r, recv + step, 64, false);
	CHECK_EQ(r, info_of(r).hits - before.hits, 2);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	oriel_memory_free(recv);
}

/* A mistake of one rank is an error on all of them, and the communicator goes on. */
static void all_ranks_learn_what_one_does_wrong(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE), send[64] = {0};
	bool is_last = r->rank + 1 == r->size;
	enum oriel_status status;

	CHECK_STATUS(r, oriel_allgather_once(r->comm, is_last ? NULL : send, recv, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "send is NULL");
	CHECK_STATUS(r, oriel_allgather_once(r->comm, send, is_last ? NULL : recv, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "recv is NULL");
	CHECK_STATUS(r,
		     oriel_allgather_once(r->comm, is_last ? recv + 8 * r->rank + 1 : send, recv,
					  8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "overlaps the result");
	CHECK_STATUS(r, oriel_allgather_once(r->comm, send, recv, SIZE_MAX), ORIEL_ERR_INVALID);
	status = is_last ? oriel_allgather_once_on_stream(r->comm, send, recv, 8, (void *)send)
			 : oriel_allgather_once(r->comm, send, recv, 8);
	CHECK_EQ(r, status, ORIEL_ERR_INVALID);
	CHECK_LAST(r, "has no GPU");
	status = oriel_allgather_once(r->comm, send, recv, is_last ? 16 : 8);
	CHECK_EQ(r, status, r->size > 1 ? ORIEL_ERR_MISMATCH : ORIEL_OK);
	if (r->size > 1)
		CHECK_LAST(r, "ranks differ in bytes: 8 on rank 0, 16 on rank");
	/* One gathers nothing, or is in another call. */
	status = oriel_allgather_once(r->comm, send, recv, is_last ? 0 : 8);
	CHECK_EQ(r, status, r->size > 1 ? ORIEL_ERR_MISMATCH : ORIEL_OK);
	if (is_last)
		status = oriel_object_cache_release(r->comm, NULL, 0);
	else
		status = oriel_allgather_once(r->comm, send, recv, 8);
	CHECK_EQ(r, status, r->size > 1 ? ORIEL_ERR_MISMATCH : ORIEL_OK);
	if (r->size > 1)
		CHECK_LAST(r, "all-gather on rank 0, oriel_object_cache_release on rank");
	rank_check_healthy(r);
	gather_to(r, recv, 100, true);
	CHECK_OK(r, oriel_object_cache_release(r->comm, NULL, 0));
	oriel_memory_free(recv);
}

/* Objects of a program stand beside those that are kept. */
static void objects_of_the_program_stay(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE);
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = (size_t)r->size * SHARE,
				  .buffer = recv};
	struct oriel_allgather *gather = NULL;
	unsigned rank, i;

	CHECK_OK(r, oriel_allgather_create(r->comm, &view, NULL, &gather));
	for (i = 0; i < 3; i++) {
		gather_to(r, recv, 1000, true);
		fill(recv + r->rank * 700, 700, message_seed(i, r->rank));
		CHECK_OK(r, oriel_allgather_run(gather, recv + r->rank * 700, 700));
		for (rank = 0; rank < r->size; rank++)
			CHECK_EQ(r, wrong(recv + rank * 700, 700, message_seed(i, rank)), 0);
		CHECK_OK(r, oriel_object_cache_release(r->comm, recv, 1));
	}
	oriel_allgather_destroy(gather);
	oriel_memory_free(recv);
}

/* No call lets them go before. */
static void cached_objects_go_with_the_communicator(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE);

	if (!CHECK_OK(r, rank_join(r, NULL)))
		return;
	gather_to(r, recv, 1000, true);
	gather_to(r, recv, SHARE, true);
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
	oriel_memory_free(recv);
}

static void an_abort_ends_a_call(struct rank *r)
{
	char *recv = shared_memory(r, (size_t)r->size * SHARE), send[8] = {0};
	enum oriel_status status;

	gather_to(r, recv, 8, false);
	/* Its status is not checked: the abort may come while a rank leaves it. */
	(void)oriel_comm_barrier(r->comm);
	if (r->rank + 1 == r->size)
		oriel_comm_abort(r->comm, "test");
	do
		status = oriel_allgather_once(r->comm, send, recv, 8);
	while (status == ORIEL_OK);
	CHECK_EQ(r, status, ORIEL_ERR_ABORTED);
	CHECK_STATUS(r, oriel_object_cache_release(r->comm, NULL, 0), ORIEL_ERR_ABORTED);
	oriel_memory_free(recv);
}

static const struct test_case cached_cases[] = {
	{"an_object_is_found_again", an_object_is_found_again, NULL, 1, NO_WINDOW},
	{"a_longer_result_has_another_object", a_longer_result_has_another_object, NULL, 1,
	 NO_WINDOW},
	{"any_host_memory_serves", any_host_memory_serves, NULL, 1, NO_WINDOW},
	{"freed_memory_has_no_object", freed_memory_has_no_object, NULL, 1, NO_WINDOW},
	{"released_objects_are_destroyed", released_objects_are_destroyed, NULL, 1, NO_WINDOW},
	{"the_oldest_object_goes_first", the_oldest_object_goes_first, NULL, 1, NO_WINDOW},
	{"all_ranks_learn_what_one_does_wrong", all_ranks_learn_what_one_does_wrong, NULL, 1,
	 NO_WINDOW},
	{"other_collectives_have_objects", other_collectives_have_objects, NULL, 1, NO_WINDOW},
	{"other_mistakes_are_errors_on_all_ranks", other_mistakes_are_errors_on_all_ranks, NULL, 1,
	 NO_WINDOW},
	{"objects_of_the_program_stay", objects_of_the_program_stay, NULL, 1, NO_WINDOW},
	{"cached_objects_go_with_the_communicator", cached_objects_go_with_the_communicator, NULL,
	 1, OWN_COMM},
	{"an_abort_ends_a_call", an_abort_ends_a_call, NULL, 2, NO_WINDOW | BREAKS_COMM},
};

const struct suite cached_suite = SUITE(cached);
