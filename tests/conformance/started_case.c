/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that were started in host memory, which the thread of the communicator executes:
 * results are complete, in order, and no other byte changes. The conformance program runs this
 * suite for every transport.
 */
#include "lengths.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 0x5a
#define ROUNDS 24u
#define LIMIT_NS 2000000u

static const size_t sizes[] = {1, 8, 100, 0, 1000, 4097, SHARE};

enum { GATHER, ALLTOALL, BCAST, ALLTOALLV, KINDS };

/* An object of each kind, each over memory of its own, but for the two all-to-alls. */
struct object {
	char *memory; /* the view; GUARD behind the result */
	char *send;
	uint64_t round;
	size_t bytes;  /* of the execution that was started */
	unsigned root; /* of that */
};

struct site {
	struct oriel_allgather *gather;
	struct oriel_alltoall *alltoall, *alltoallv;
	struct oriel_bcast *bcast;
	struct object objects[KINDS];
	struct oriel_dev_alltoallv *layout;
	size_t length;
};

static bool site_open(struct rank *r, struct site *s, unsigned algorithm)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr), .chunk = 4096};
	struct oriel_view views[KINDS];
	unsigned i;

	memset(s, 0, sizeof(*s));
	s->length = (size_t)r->size * SHARE;
	s->layout = calloc(r->size, sizeof(*s->layout));
	for (i = 0; i < KINDS; i++) {
		views[i] = (struct oriel_view){.size = sizeof(views[i]),
					       .kind = ORIEL_VIEW_BUFFER,
					       .length = s->length};
		CHECK_OK(r, oriel_memory_alloc(s->length, 0, &views[i].buffer));
		s->objects[i].memory = views[i].buffer;
		s->objects[i].send = malloc(s->length);
		s->objects[i].round = i * 1000;
		CHECK(r, s->objects[i].send && s->layout);
	}
	CHECK_OK(r, oriel_alltoall_create(r->comm, &views[ALLTOALL], &attr, &s->alltoall));
	CHECK_OK(r, oriel_alltoall_create(r->comm, &views[ALLTOALLV], &attr, &s->alltoallv));
	attr.algorithm = algorithm;
	CHECK_OK(r, oriel_allgather_create(r->comm, &views[GATHER], &attr, &s->gather));
	return CHECK_OK(r, oriel_bcast_create(r->comm, &views[BCAST], &attr, &s->bcast));
}

static void site_close(struct rank *r, struct site *s)
{
	unsigned i;

	CHECK_OK(r, oriel_bcast_destroy(s->bcast));
	CHECK_OK(r, oriel_allgather_destroy(s->gather));
	CHECK_OK(r, oriel_alltoall_destroy(s->alltoallv));
	CHECK_OK(r, oriel_alltoall_destroy(s->alltoall));
	for (i = 0; i < KINDS; i++) {
		free(s->objects[i].send);
		oriel_memory_free(s->objects[i].memory);
	}
	free(s->layout);
}

/* Prepares the messages of the next execution of @kind, of @bytes. */
static void prepare(struct rank *r, struct site *s, unsigned kind, size_t bytes)
{
	struct object *o = &s->objects[kind];
	unsigned rank;

	o->round++;
	o->bytes = bytes;
	/* The same one several times, so that it could run ahead. */
	o->root = (unsigned)(o->round / 4) % r->size;
	memset(o->memory, GUARD, s->length);
	for (rank = 0; kind == ALLTOALL && rank < r->size; rank++)
		fill(o->send + rank * bytes, bytes, seed_of(o->round, r->rank, rank));
	if (kind == GATHER || (kind == BCAST && r->rank == o->root))
		fill(o->send, bytes, seed_of(o->round, r->rank, 0));
	if (kind == ALLTOALLV)
		layout_fill(r, o->round, s->layout, o->send);
}

static enum oriel_status start(struct site *s, unsigned kind)
{
	const struct object *o = &s->objects[kind];

	if (kind == GATHER)
		return oriel_allgather_start(s->gather, o->send, o->bytes);
	if (kind == ALLTOALL)
		return oriel_alltoall_start(s->alltoall, o->send, o->bytes);
	if (kind == BCAST)
		return oriel_bcast_start(s->bcast, o->root, o->send, o->bytes);
	return oriel_alltoall_start_v(s->alltoallv, o->send, s->layout);
}

static enum oriel_status run(struct site *s, unsigned kind)
{
	const struct object *o = &s->objects[kind];

	if (kind == GATHER)
		return oriel_allgather_run(s->gather, o->send, o->bytes);
	if (kind == ALLTOALL)
		return oriel_alltoall_run(s->alltoall, o->send, o->bytes);
	if (kind == BCAST)
		return oriel_bcast_run(s->bcast, o->root, o->send, o->bytes);
	return oriel_alltoall_run_v(s->alltoallv, o->send, s->layout);
}

static enum oriel_status test(struct site *s, unsigned kind)
{
	if (kind == GATHER)
		return oriel_allgather_test(s->gather);
	if (kind == BCAST)
		return oriel_bcast_test(s->bcast);
	return oriel_alltoall_test(kind == ALLTOALL ? s->alltoall : s->alltoallv);
}

static enum oriel_status wait(struct site *s, unsigned kind, uint64_t timeout_ns)
{
	if (kind == GATHER)
		return oriel_allgather_wait(s->gather, timeout_ns);
	if (kind == BCAST)
		return oriel_bcast_wait(s->bcast, timeout_ns);
	return oriel_alltoall_wait(kind == ALLTOALL ? s->alltoall : s->alltoallv, timeout_ns);
}

static enum oriel_status destroy(struct site *s, unsigned kind)
{
	if (kind == GATHER)
		return oriel_allgather_destroy(s->gather);
	if (kind == BCAST)
		return oriel_bcast_destroy(s->bcast);
	return oriel_alltoall_destroy(kind == ALLTOALL ? s->alltoall : s->alltoallv);
}

/* @but: a rank whose message is missing. */
static void check_lengths(struct rank *r, const struct site *s, unsigned but)
{
	const struct object *o = &s->objects[ALLTOALLV];
	size_t end = o->round % 3;
	unsigned rank;

	for (rank = 0; rank < r->size; rank++) {
		end += length_of(o->round, rank, r->rank);
		if (rank != but)
			CHECK_EQ(r,
				 wrong(o->memory + s->layout[rank].recv_displacement,
				       length_of(o->round, rank, r->rank),
				       seed_of(o->round, rank, r->rank)),
				 0);
	}
	CHECK_EQ(r, not_all(o->memory + end, s->length - end, GUARD), 0);
}

static void check_result(struct rank *r, const struct site *s, unsigned kind)
{
	const struct object *o = &s->objects[kind];
	unsigned rank, count = kind == BCAST ? 1 : r->size;

	if (kind == ALLTOALLV) {
		check_lengths(r, s, r->size);
		return;
	}
	for (rank = 0; rank < count; rank++)
		CHECK_EQ(r,
			 wrong(o->memory + rank * o->bytes, o->bytes,
			       seed_of(o->round, kind == BCAST ? o->root : rank,
				       kind == ALLTOALL ? r->rank : 0)),
			 0);
	CHECK_EQ(r, not_all(o->memory + count * o->bytes, s->length - count * o->bytes, GUARD), 0);
}

static enum oriel_status poll_end(struct site *s, unsigned kind)
{
	enum oriel_status status;

	while ((status = test(s, kind)) == ORIEL_AGAIN)
		oriel_cpu_back_off(1000);
	return status;
}

/* Started executions, with blocking ones between them. */
static void run_kind(struct rank *r, struct site *s, unsigned kind)
{
	size_t i;

	CHECK_OK(r, test(s, kind));
	CHECK_OK(r, wait(s, kind, ORIEL_TIMEOUT_INFINITE));
	for (i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]) && !r->failures; i++) {
		prepare(r, s, kind, sizes[i / 3]);
		if (i % 3 == 2) {
			CHECK_OK(r, run(s, kind));
		} else {
			CHECK_OK(r, start(s, kind));
			CHECK_OK(r, i % 2 ? poll_end(s, kind) : wait(s, kind, 0));
		}
		check_result(r, s, kind);
		/* The caller may reuse it. */
		memset(s->objects[kind].send, GUARD, SHARE);
	}
}

static void a_started_execution_of_each_kind_ends(struct rank *r)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_DIRECT,
					      ORIEL_ALGORITHM_RING, ORIEL_ALGORITHM_BRUCK};
	unsigned i, kind;
	struct site s;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]) && !r->failures; i++) {
		if (!site_open(r, &s, algorithms[i]))
			return;
		for (kind = 0; kind < KINDS; kind++)
			run_kind(r, &s, kind);
		site_close(r, &s);
	}
}

/* Some ranks check a result late, while their peers have started the next execution. */
static void a_result_stays_until_the_next_call(struct rank *r)
{
	unsigned round, kind;
	struct site s;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	for (kind = 0; kind < KINDS; kind++)
		for (round = 0; round < ROUNDS && !r->failures; round++) {
			prepare(r, &s, kind, 9000);
			CHECK_OK(r, start(&s, kind));
			CHECK_OK(r, wait(&s, kind, 0));
			if ((round + r->rank) % 3 == 0)
				oriel_cpu_back_off(1000000);
			check_result(r, &s, kind);
		}
	site_close(r, &s);
}

/* Ranks start the objects in different orders, and wait for them in others. */
static void objects_of_all_kinds_execute_at_once(struct rank *r)
{
	unsigned i, round, kind;
	struct site s;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	for (round = 0; round < ROUNDS && !r->failures; round++) {
		for (i = 0; i < KINDS; i++) {
			kind = (i + r->rank + round) % KINDS;
			prepare(r, &s, kind, 1 + (round * 811 + kind * 97) % SHARE);
			CHECK_OK(r, start(&s, kind));
		}
		for (i = 0; i < KINDS; i++)
			CHECK_OK(r, wait(&s, (i + r->rank) % KINDS, 0));
		for (kind = 0; kind < KINDS; kind++)
			check_result(r, &s, kind);
	}
	site_close(r, &s);
}

/* The caller may write the next layout while the execution of the last one runs. */
static void a_layout_is_copied(struct rank *r)
{
	struct oriel_dev_alltoallv *copy = calloc(r->size, sizeof(*copy));
	struct site s;
	unsigned i;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT) || !CHECK(r, copy))
		return;
	for (i = 0; i < ROUNDS && !r->failures; i++) {
		prepare(r, &s, ALLTOALLV, 0);
		memcpy(copy, s.layout, r->size * sizeof(*copy));
		CHECK_OK(r, start(&s, ALLTOALLV));
		memset(s.layout, 0xff, r->size * sizeof(*copy));
		CHECK_OK(r, wait(&s, ALLTOALLV, 0));
		memcpy(s.layout, copy, r->size * sizeof(*copy));
		check_result(r, &s, ALLTOALLV);
	}
	free(copy);
	site_close(r, &s);
}

/* The thread that executes says for whom it waits once it does, which a limit may precede. */
static void wait_until_named(struct rank *r, struct site *s, unsigned kind)
{
	unsigned tries = LONG_NS / LIMIT_NS;

	do
		CHECK_STATUS(r, wait(s, kind, LIMIT_NS), ORIEL_ERR_TIMEOUT);
	while (!strstr(oriel_last_error(), "(it waits for rank 1)") && --tries && !r->failures);
	CHECK_LAST(r, "(it waits for rank 1); it goes on");
}

/*
 * The last rank starts when its peers have waited up to a limit of their own: that breaks nothing,
 * and meanwhile the object does nothing else.
 */
static void an_own_limit_leaves_the_execution_alone(struct rank *r)
{
	bool is_late = r->rank + 1 == r->size;
	struct site s;
	unsigned kind;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DIRECT))
		return;
	for (kind = 0; kind < KINDS; kind++) {
		prepare(r, &s, kind, 3000);
		s.objects[kind].root = r->size - 1;
		if (is_late && kind == BCAST)
			fill(s.objects[kind].send, 3000,
			     seed_of(s.objects[kind].round, r->rank, 0));
		if (!is_late) {
			CHECK_OK(r, start(&s, kind));
			CHECK_STATUS(r, test(&s, kind), ORIEL_AGAIN);
			CHECK_STATUS(r, wait(&s, kind, LIMIT_NS), ORIEL_ERR_TIMEOUT);
			CHECK_LAST(r, "the execution that was started has not ended within 0.002");
			CHECK_STATUS(r, start(&s, kind), ORIEL_ERR_STATE);
			CHECK_STATUS(r, run(&s, kind), ORIEL_ERR_STATE);
			CHECK_LAST(r, "has not ended: wait for it");
			CHECK_STATUS(r, destroy(&s, kind), ORIEL_ERR_STATE);
			CHECK_LAST(r, "_destroy: rank");
			CHECK_STATUS(r, wait(&s, kind, LIMIT_NS), ORIEL_ERR_TIMEOUT);
			if (r->size == 2)
				wait_until_named(r, &s, kind);
			rank_check_healthy(r);
		}
		host_meet(r);
		if (is_late)
			CHECK_OK(r, start(&s, kind));
		CHECK_OK(r, wait(&s, kind, ORIEL_TIMEOUT_DEFAULT));
		check_result(r, &s, kind);
		host_meet(r);
	}
	site_close(r, &s);
}

/* Both ranks of the pair get the error, all other messages arrive, and the next one succeeds. */
static void started_lengths_that_differ_are_reported(struct rank *r)
{
	unsigned last = r->size - 1, i;
	struct site s;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	s.objects[ALLTOALLV].round = 3049;
	prepare(r, &s, ALLTOALLV, 0);
	if (r->rank == 0)
		s.layout[last].send_length += 3;
	CHECK_OK(r, start(&s, ALLTOALLV));
	if (r->rank == 0 || r->rank == last) {
		for (i = 0; i < 2; i++) {
			CHECK_STATUS(r, wait(&s, ALLTOALLV, 0), ORIEL_ERR_MISMATCH);
			CHECK_LAST(r, r->rank ? "rank 0 sends" : "bytes sent to rank");
		}
		check_lengths(r, &s, r->rank ? 0 : last);
	} else {
		CHECK_OK(r, wait(&s, ALLTOALLV, 0));
		check_lengths(r, &s, r->size);
	}
	rank_check_healthy(r);
	for (i = 0; i < 2; i++) {
		prepare(r, &s, ALLTOALLV, 0);
		CHECK_OK(r, i ? run(&s, ALLTOALLV) : start(&s, ALLTOALLV));
		CHECK_OK(r, wait(&s, ALLTOALLV, 0));
		check_result(r, &s, ALLTOALLV);
	}
	site_close(r, &s);
}

/* A rejected call has started nothing. */
static void invalid_starts_are_rejected(struct rank *r)
{
	struct object *o;
	struct site s;
	unsigned kind;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	for (kind = 0; kind < ALLTOALLV; kind++) {
		o = &s.objects[kind];
		o->bytes = s.length + 1;
		o->root = r->rank;
		CHECK_STATUS(r, start(&s, kind), ORIEL_ERR_RANGE);
	}
	CHECK_STATUS(r, oriel_bcast_start(s.bcast, r->size, s.layout, 8), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_alltoall_start(s.alltoall, s.objects[ALLTOALL].memory, 8),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_alltoall_start_v(s.alltoallv, NULL, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_allgather_start(s.gather, NULL, 8), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_alltoall_start(s.alltoall, NULL, 8), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_bcast_start(s.bcast, r->rank, NULL, 8), ORIEL_ERR_INVALID);
	prepare(r, &s, ALLTOALLV, 0);
	s.layout[0].send_length = 1;
	CHECK_STATUS(r, oriel_alltoall_start_v(s.alltoallv, NULL, s.layout), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "all-to-all: send is NULL");
	s.objects[ALLTOALLV].round--;
	prepare(r, &s, ALLTOALLV, 0);
	s.layout[0].recv_displacement = s.length;
	s.layout[0].recv_length = 1;
	CHECK_STATUS(r, start(&s, ALLTOALLV), ORIEL_ERR_RANGE);
	s.objects[ALLTOALLV].round--;
	for (kind = 0; kind < KINDS; kind++) {
		CHECK_OK(r, test(&s, kind));
		prepare(r, &s, kind, 100);
		CHECK_OK(r, start(&s, kind));
		CHECK_OK(r, wait(&s, kind, 0));
		check_result(r, &s, kind);
	}
	CHECK_STATUS(r, oriel_bcast_test(NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_alltoall_wait((void *)s.bcast, 0), ORIEL_ERR_STATE);
	site_close(r, &s);
}

/* Rank 0 does not start. An object whose execution was not waited for is destroyed. */
static void an_abort_ends_started_executions(struct rank *r)
{
	struct site s;
	unsigned kind;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	for (kind = 0; kind < KINDS; kind++) {
		prepare(r, &s, kind, 5000);
		s.objects[kind].root = 0;
		if (r->rank)
			CHECK_OK(r, start(&s, kind));
	}
	host_meet(r);
	oriel_comm_abort(r->comm, "no more starting");
	CHECK_OK(r, destroy(&s, ALLTOALLV));
	s.alltoallv = NULL;
	for (kind = 0; kind < ALLTOALLV && r->rank; kind++) {
		CHECK_STATUS(r, wait(&s, kind, 0), ORIEL_ERR_ABORTED);
		CHECK_LAST(r, "aborted by rank");
	}
	site_close(r, &s);
}

#ifndef NDEBUG
/* Debug builds: all ranks get the error of a rank whose root or bytes differ, and nothing broke. */
static void started_arguments_that_differ_are_reported(struct rank *r)
{
	bool is_last = r->rank + 1 == r->size;
	unsigned kind;
	struct site s;

	if (!site_open(r, &s, ORIEL_ALGORITHM_DEFAULT))
		return;
	prepare(r, &s, ALLTOALL, 100 + is_last);
	CHECK_OK(r, start(&s, ALLTOALL));
	CHECK_STATUS(r, wait(&s, ALLTOALL, 0), ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "all-to-all: ranks differ in bytes: ");
	prepare(r, &s, BCAST, 100);
	s.objects[BCAST].root = is_last;
	CHECK_OK(r, start(&s, BCAST));
	CHECK_STATUS(r, wait(&s, BCAST, 0), ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "broadcast: ranks differ in root: ");
	rank_check_healthy(r);
	for (kind = ALLTOALL; kind <= BCAST; kind++) {
		/* An execution of 0 bytes has ended, with a status of its own. */
		prepare(r, &s, kind, 0);
		CHECK_OK(r, start(&s, kind));
		run_kind(r, &s, kind);
	}
	site_close(r, &s);
}
#endif

static const struct test_case started_cases[] = {
	{"a_started_execution_of_each_kind_ends", a_started_execution_of_each_kind_ends, NULL, 1,
	 NO_WINDOW},
	{"a_result_stays_until_the_next_call", a_result_stays_until_the_next_call, NULL, 2,
	 NO_WINDOW},
	{"objects_of_all_kinds_execute_at_once", objects_of_all_kinds_execute_at_once, NULL, 1,
	 NO_WINDOW},
	{"a_layout_is_copied", a_layout_is_copied, NULL, 1, NO_WINDOW},
	{"an_own_limit_leaves_the_execution_alone", an_own_limit_leaves_the_execution_alone, NULL,
	 2, NO_WINDOW},
	{"started_lengths_that_differ_are_reported", started_lengths_that_differ_are_reported, NULL,
	 2, NO_WINDOW},
	{"invalid_starts_are_rejected", invalid_starts_are_rejected, NULL, 1, NO_WINDOW},
#ifndef NDEBUG
	{"started_arguments_that_differ_are_reported", started_arguments_that_differ_are_reported,
	 NULL, 2, NO_WINDOW},
#endif
	{"an_abort_ends_started_executions", an_abort_ends_started_executions, NULL, 2,
	 NO_WINDOW | BREAKS_COMM},
};

const struct suite started_suite = SUITE(started);
