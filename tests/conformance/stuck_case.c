/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that cannot succeed: with a timeout of their own they break nothing, with the default
 * one they break the communicator, and an abort ends all of them.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER 60u /* a signal that no rank sends */
#define ABSENT_SLOT 1u
#define ABSENT_TRIES 20000u
#define LONELY 7u /* a slot at which only this rank arrives, a counter, a channel */

enum wait {
	WAIT_SIGNAL,
	WAIT_FROM,
	WAIT_NEXT,
	WAIT_BARRIER,
	WAIT_FLAT,
	WAIT_PAIR,
	WAIT_COUNTER,
	WAIT_SEND,
	WAIT_RECV,
	WAITS
};

#define CHANNEL 4096u
#define PART (CHANNEL / 8)

/*
 * Fill the staging, which no rank reads; a send that times out before its first byte moves none.
 * On a broken communicator parts are still stored while there is room, whatever status is
 * returned.
 */
CASE enum oriel_status send_until_timeout(struct rank *r, const struct oriel_dev_window *w,
					  unsigned peer, uint64_t timeout_ns)
{
	RANK_ARRAY(r, char, part, PART);
	unsigned i;

	group_flood(r->group, part, PART, 0);
	for (i = 0; i < 8; i++)
		(void)oriel_dev_send(w, r->group, peer, LONELY, part, PART, MOMENT_NS);
	return oriel_dev_send(w, r->group, peer, LONELY, part, PART, timeout_ns);
}

/* The peer is in a wait of its own and never answers. */
CASE enum oriel_status wait_until_timeout(struct rank *r, const struct oriel_dev_window *w,
					  int kind, unsigned peer, uint64_t timeout_ns)
{
	struct oriel_dev_group g = r->group;
	RANK_ARRAY(r, char, byte, 1);

	switch (kind) {
	case WAIT_SIGNAL:
		return oriel_dev_wait_signal(w, g, NEVER, ORIEL_GE, 11, timeout_ns);
	case WAIT_FROM:
		return oriel_dev_wait_signal_from(w, g, peer, NEVER, ORIEL_GE, 12, timeout_ns);
	case WAIT_NEXT:
		return oriel_dev_wait_signal_next(w, g, peer, NEVER, 13, timeout_ns);
	case WAIT_BARRIER:
		return oriel_dev_barrier(w, g, LONELY + w->rank, timeout_ns);
	case WAIT_FLAT:
		return oriel_dev_barrier_flat(w, g, LONELY + w->rank, timeout_ns);
	case WAIT_PAIR:
		return oriel_dev_barrier_peer(w, g, peer, LONELY + w->rank, timeout_ns);
	case WAIT_COUNTER:
		return oriel_dev_wait_counter(w, g, peer, LONELY, ORIEL_GE, 14, timeout_ns);
	case WAIT_SEND:
		return send_until_timeout(r, w, peer, timeout_ns);
	case WAIT_RECV:
		return oriel_dev_recv(w, g, peer, LONELY + 1, byte, 1, timeout_ns);
	}
	return ORIEL_OK;
}

static const struct {
	const char *what;
	bool has_peer;
	uint32_t id; /* for slots the rank is added */
	uint64_t expected;
} records[WAITS] = {
	{"wait_signal", false, NEVER, 11},     {"wait_signal_from", true, NEVER, 12},
	{"wait_signal_next", true, NEVER, 13}, {"barrier", true, LONELY, 1},
	{"barrier_flat", false, LONELY, 1},    {"barrier_peer", true, LONELY, 1},
	{"wait_counter", true, LONELY, 14},    {"send", true, LONELY, 1},
	{"recv", true, LONELY + 1, 1},
};

static bool is_slot(int kind)
{
	return kind == WAIT_BARRIER || kind == WAIT_FLAT || kind == WAIT_PAIR;
}

/* WaitSignalTimeout; afterwards every operation of the communicator still works. */
CASE void own_timeouts_break_nothing(struct rank *r)
{
	int kind;

	for (kind = 0; kind < WAITS; kind++)
		CHECK_STATUS(r, wait_until_timeout(r, &r->dev, kind, rank_next(r), MOMENT_NS),
			     ORIEL_ERR_TIMEOUT);
	rank_check_healthy(r);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
	CHECK_OK(r, rank_barrier(r));
}

/* All ranks time out at once; the first one breaks the communicator for all. Check its record. */
static void check_record(struct rank *r, int kind)
{
	struct oriel_health health = {.size = sizeof(health)};
	enum oriel_path path;
	unsigned finder;
	char text[256];

	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK_EQ(r, health.status, (uint64_t)ORIEL_ERR_TIMEOUT);
	CHECK(r, strcmp(health.what, records[kind].what) == 0);
	CHECK_EQ(r, health.object, r->dev.number);
	finder = health.finder;
	CHECK(r, finder < r->size);
	CHECK_EQ(r, health.id, records[kind].id + (is_slot(kind) ? finder : 0));
	CHECK(r, health.age_ns >= MOMENT_NS);
	if (records[kind].has_peer) {
		CHECK_EQ(r, health.rank, (finder + 1) % r->size);
		CHECK_OK(r, oriel_comm_path_between(r->comm, finder, (unsigned)health.rank, &path));
		CHECK_EQ(r, health.path, path);
	} else {
		CHECK_EQ(r, health.rank, (uint64_t)-1);
	}
	if (kind == WAIT_FLAT)
		CHECK_EQ(r, health.expected, r->size - 1);
	else if (kind != WAIT_SEND)
		CHECK_EQ(r, health.expected, records[kind].expected);
	CHECK_EQ(r, health.seen, 0);
	CHECK(r, oriel_health_text(&health, text, sizeof(text)) < sizeof(text));
	CHECK_TEXT(r, text, records[kind].what);
	CHECK(r, oriel_health_json(&health, text, sizeof(text)) < sizeof(text));
	CHECK_TEXT(r, text, "\"status\":\"ORIEL_ERR_TIMEOUT\"");
	CHECK_TEXT(r, text, records[kind].what);
	/*
	 * As in snprintf(), a short buffer holds a terminated prefix, and the length is
	 * returned.
	 */
	CHECK(r, oriel_health_text(&health, text, 4) >= 4 && text[3] == '\0');
}

/* Every host call fails from now on, with the status and text of the first cause. */
static void check_calls_fail(struct rank *r, enum oriel_status cause, const char *text)
{
	struct oriel_window *window = NULL;
	struct oriel_region *region = NULL;
	uint32_t buffer = 0;
	uint64_t word = 0;

	CHECK_STATUS(r, oriel_comm_barrier(r->comm), cause);
	CHECK_TEXT(r, oriel_last_error(), text);
	CHECK_STATUS(r, oriel_comm_agree(r->comm, ORIEL_OK), cause);
	CHECK_STATUS(r, oriel_window_create(r->comm, NULL, &window), cause);
	CHECK_TEXT(r, oriel_last_error(), text);
	CHECK_STATUS(r, oriel_window_share(r->window, NULL, 0, &buffer), cause);
	CHECK_STATUS(r, oriel_region_register(r->comm, &word, 8, &region), cause);
	/* The calls without a stream are for windows in host memory, and check that first. */
	if (r->gpu)
		return;
	CHECK_STATUS(r, oriel_window_put(r->window, rank_next(r), 0, &word, 8), cause);
	CHECK_TEXT(r, oriel_last_error(), text);
	CHECK_STATUS(r, oriel_window_wait_signal(r->window, 0, ORIEL_NE, 0, 0), cause);
	CHECK_STATUS(r, oriel_window_barrier(r->window, 0, 0), cause);
}

static void check_aborted(struct rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};

	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK_EQ(r, health.status, (uint64_t)ORIEL_ERR_ABORTED);
	CHECK_EQ(r, health.rank, 0);
	CHECK(r, strcmp(health.what, "abort") == 0);
	check_calls_fail(r, ORIEL_ERR_ABORTED, "rank 0");
}

static void check_first_cause(struct rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};

	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK_EQ(r, health.status, (uint64_t)ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_TIMEOUT);
}

enum part {
	HOST_RECORD, /* the kind of wait as well */
	HOST_CALLS_FAIL,
	HOST_ABORTED,
	HOST_FIRST_CAUSE,
};

static void stuck_host(struct rank *r, unsigned what, uint64_t kind)
{
	switch ((enum part)what) {
	case HOST_RECORD:
		check_record(r, (int)kind);
		break;
	case HOST_CALLS_FAIL:
		check_calls_fail(r, ORIEL_ERR_TIMEOUT, records[kind].what);
		break;
	case HOST_ABORTED:
		check_aborted(r);
		break;
	case HOST_FIRST_CAUSE:
		check_first_cause(r);
		break;
	}
}

/* Every wait fails, too. */
CASE void check_waits_fail(struct rank *r, enum oriel_status cause)
{
	int kind;

	for (kind = 0; kind < WAITS; kind++)
		CHECK_STATUS(r, wait_until_timeout(r, &r->dev, kind, rank_next(r), 0), cause);
}

/* The default timeout is the communicator's 60 s; a copy of the handle has a shorter one. */
CASE void break_by(struct rank *r, int kind)
{
	struct oriel_dev_window w = r->dev;
	uint64_t value = 1;

	w.timeout_ns = MOMENT_NS;
	CHECK_STATUS(r, wait_until_timeout(r, &w, kind, rank_next(r), 0), ORIEL_ERR_TIMEOUT);
	host_do(r, stuck_host, HOST_RECORD, (uint64_t)kind);
	/* Calls that do not wait still work. */
	CHECK_OK(r, oriel_dev_read_signal(&r->dev, NEVER, &value));
	CHECK_EQ(r, value, 0);
	check_waits_fail(r, ORIEL_ERR_TIMEOUT);
	host_do(r, stuck_host, HOST_CALLS_FAIL, (uint64_t)kind);
	host_do(r, stuck_host, HOST_RECORD, (uint64_t)kind);
}

CASE void default_limit_of_wait_signal(struct rank *r)
{
	break_by(r, WAIT_SIGNAL);
}

CASE void default_limit_of_wait_signal_from(struct rank *r)
{
	break_by(r, WAIT_FROM);
}

CASE void default_limit_of_wait_signal_next(struct rank *r)
{
	break_by(r, WAIT_NEXT);
}

CASE void default_limit_of_barrier(struct rank *r)
{
	break_by(r, WAIT_BARRIER);
}

CASE void default_limit_of_barrier_flat(struct rank *r)
{
	break_by(r, WAIT_FLAT);
}

CASE void default_limit_of_barrier_peer(struct rank *r)
{
	break_by(r, WAIT_PAIR);
}

CASE void default_limit_of_wait_counter(struct rank *r)
{
	break_by(r, WAIT_COUNTER);
}

CASE void default_limit_of_send(struct rank *r)
{
	break_by(r, WAIT_SEND);
}

CASE void default_limit_of_recv(struct rank *r)
{
	break_by(r, WAIT_RECV);
}

/* Index WAITS waits on the host, in a collective that rank 0 does not join. */
CASE void wait_for_the_abort(struct rank *r, unsigned index, void *context)
{
	const struct oriel_dev_window *w = &r->dev;
	uint64_t value = 0;

	(void)context;
	if (index == WAITS + 1) {
		/*
		 * This group starts last; rank 0 then aborts while all others wait or are about
		 * to.
		 */
		if (r->rank != 0)
			return;
		CHECK_OK(r, oriel_dev_wait_signal(w, r->group, 0, ORIEL_EQ,
						  (uint64_t)r->size * (WAITS + 1), LONG_NS));
		if (oriel_dev_is_leader(r->group))
			rank_abort(r);
		return;
	}
	CHECK_POSTED(r, oriel_dev_signal(w, r->group, 0, 0, ORIEL_SIGNAL_ADD, 1, NULL));
	if (index < WAITS)
		CHECK_STATUS(r,
			     wait_until_timeout(r, w, (int)index, rank_next(r),
						index % 2 ? ORIEL_TIMEOUT_INFINITE : 0),
			     ORIEL_ERR_ABORTED);
	else if (r->rank != 0)
		CHECK_STATUS(r, rank_barrier(r), ORIEL_ERR_ABORTED);
	CHECK_OK(r, oriel_dev_read_signal(w, NEVER, &value));
}

/* DeviceHandleAbortObservesHostAbort: every kind of wait, on all ranks, at once. */
CASE void abort_ends_every_wait_everywhere(struct rank *r)
{
	rank_fork(r, WAITS + 2, wait_for_the_abort, NULL);
	host_do(r, stuck_host, HOST_ABORTED, 0);
	check_waits_fail(r, ORIEL_ERR_ABORTED);
}

CASE void team_waits_in_vain(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct oriel_dev_window *w = &r->dev;

	(void)context;
	/* Some threads of the team may see the abort later than its leader; all get the status. */
	if (g.rank == 0)
		CHECK_POSTED(r, oriel_dev_signal(w, oriel_dev_thread(), 0, 0, ORIEL_SIGNAL_ADD, 1,
						 NULL));
	if (g.rank == g.size - 1 && r->rank == 0) {
		CHECK_OK(r, oriel_dev_wait_signal(w, oriel_dev_thread(), 0, ORIEL_EQ, r->size,
						  LONG_NS));
		rank_abort(r);
	}
	CHECK_STATUS(r, oriel_dev_barrier(w, g, LONELY + r->rank, 0), ORIEL_ERR_ABORTED);
	CHECK_STATUS(r, oriel_dev_wait_signal(w, g, NEVER, ORIEL_NE, 0, 0), ORIEL_ERR_ABORTED);
	CHECK_STATUS(r, oriel_dev_barrier_flat(w, g, LONELY + r->rank, 0), ORIEL_ERR_ABORTED);
	CHECK_STATUS(r, oriel_dev_recv(w, g, rank_next(r), 0, r->base, 1, 0), ORIEL_ERR_ABORTED);
}

CASE void abort_ends_the_waits_of_teams(struct rank *r)
{
	rank_team(r, 8, team_waits_in_vain, NULL);
}

/* The first cause is retained, whatever fails later. */
CASE void the_first_cause_is_retained(struct rank *r)
{
	struct oriel_dev_window w = r->dev;

	w.timeout_ns = MOMENT_NS;
	CHECK_STATUS(r, wait_until_timeout(r, &w, WAIT_RECV, rank_next(r), 0), ORIEL_ERR_TIMEOUT);
	/* All ranks have broken their own communicator before one of them aborts. */
	rank_meet_anyway(r);
	if (oriel_dev_is_leader(r->group))
		rank_abort(r);
	host_do(r, stuck_host, HOST_FIRST_CAUSE, 0);
}

/*
 * Destroy the broken objects before the harness does: the calls neither hang nor use an object
 * twice.
 */
static void destroy_works_on_a_broken_communicator(struct rank *r)
{
	struct oriel_region *region = NULL;
	void *memory = NULL;

	CHECK_OK(r, oriel_memory_alloc(4096, 0, &memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory, 4096, &region));
	CHECK_OK(r, oriel_region_share(region));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_comm_abort(r->comm, "the test aborts");
	CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_ABORTED);
	host_meet(r);
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	r->window = NULL;
	r->comm = NULL;
}

#ifndef __CUDACC__
#define NOT_BECOME(noun, of) noun " %u of " of ", which is 0, did not become "

/* The text has the object, the rank, the value and the limit, for device functions as well. */
static void own_limits_have_texts(struct rank *r)
{
	static const char *const clauses[WAITS] = {
		[WAIT_SIGNAL] = NOT_BECOME("signal", "all ranks") ">= 11",
		[WAIT_FROM] = NOT_BECOME("signal", "rank %u") ">= 12",
		[WAIT_NEXT] = NOT_BECOME("signal", "rank %u") ">= 13",
		[WAIT_BARRIER] = "did not arrive at barrier slot %u",
		[WAIT_FLAT] = NOT_BECOME("barrier slot", "all ranks") ">= ",
		[WAIT_PAIR] = "did not arrive at barrier slot %u",
		[WAIT_COUNTER] = NOT_BECOME("counter", "rank %u") ">= 14",
		[WAIT_SEND] = "made no room in channel %u",
		[WAIT_RECV] = "did not send to channel %u what is due",
	};
	char text[160];
	uint32_t id;
	int kind;

	for (kind = 0; kind < WAITS; kind++) {
		CHECK_STATUS(r, wait_until_timeout(r, &r->dev, kind, rank_next(r), MOMENT_NS),
			     ORIEL_ERR_TIMEOUT);
		CHECK_EQ(r, oriel_last_status(), ORIEL_ERR_TIMEOUT);
		snprintf(text, sizeof(text), "%s: window %u: ", records[kind].what, r->dev.number);
		CHECK_LAST(r, text);
		id = records[kind].id + (is_slot(kind) ? r->rank : 0);
		snprintf(text, sizeof(text), clauses[kind], id, rank_next(r));
		CHECK_LAST(r, text);
		snprintf(text, sizeof(text), "rank %u", rank_next(r));
		if (records[kind].has_peer)
			CHECK_LAST(r, text);
		CHECK_LAST(r, "s, the limit of the call");
	}
	CHECK_STATUS(r,
		     oriel_window_wait_signal_from(r->window, rank_next(r), NEVER, ORIEL_NE, 0,
						   MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	snprintf(text, sizeof(text),
		 "wait_signal_from: window %u: signal %u of rank %u, which is 0, did not become "
		 "!= 0 within ",
		 r->dev.number, NEVER, rank_next(r));
	CHECK_LAST(r, text);
	rank_check_healthy(r);
	CHECK_OK(r, rank_barrier(r));
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text);

	return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Rank 0 is late, and the others have arrived, which takes a moment over a NIC. */
static void a_barrier_names_all_absent_ranks(struct rank *r)
{
	enum oriel_status status;
	unsigned tries = 0;
	char text[80];

	snprintf(text, sizeof(text), "the limit of the call; of %u ranks these had not arrived: 0",
		 r->size);
	if (r->rank != 0)
		CHECK_OK(r, oriel_window_barrier_arrive(r->window, ABSENT_SLOT));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	do
		status = r->rank ? oriel_window_barrier_wait(r->window, ABSENT_SLOT, MOMENT_NS)
				 : ORIEL_OK;
	while (status == ORIEL_ERR_TIMEOUT && !ends_with(oriel_last_error(), text) &&
	       ++tries < ABSENT_TRIES);
	if (r->rank != 0) {
		CHECK_STATUS(r, status, ORIEL_ERR_TIMEOUT);
		CHECK(r, ends_with(oriel_last_error(), text));
		CHECK_LAST(r, "rank 0 did not arrive at barrier slot");
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank == 0)
		CHECK_OK(r, oriel_window_barrier(r->window, ABSENT_SLOT, LONG_NS));
	else
		CHECK_OK(r, oriel_window_barrier_wait(r->window, ABSENT_SLOT, LONG_NS));
	rank_check_healthy(r);
}

/* A thread of the CPU reads the text at once; the record stays for oriel_window_fault(). */
static void rejected_arguments_have_texts(struct rank *r)
{
	struct oriel_dev_fault fault;
	char text[80];

	CHECK_STATUS(r, oriel_dev_put(&r->dev, r->group, r->size, 0, text, 8, NULL),
		     ORIEL_ERR_RANGE);
	snprintf(text, sizeof(text), "put: rank %u of %u", r->size, r->size);
	CHECK_LAST(r, text);
	CHECK_STATUS(r, oriel_window_get(r->window, 0, (uint64_t)-8, text, 8), ORIEL_ERR_RANGE);
	CHECK_LAST(r, "get: offset -8 of rank 0 is negative");
	CHECK_STATUS(r, oriel_dev_get(&r->dev, r->group, 0, oriel_at(9, 16), text, 8, NULL),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "get: offset 0x9000000000010 of rank 0 is in buffer 9 (oriel_at()), the "
		      "window has 8");
	CHECK_EQ(r, rank_fault(r, &fault), ORIEL_OK);
	CHECK_LAST(r, "put: rank ");
	CHECK_EQ(r, rank_fault(r, &fault), (uint64_t)ORIEL_AGAIN);
}
#endif

#ifndef __CUDACC__ /* windows of a GPU are destroyed in two steps */
/* Rank 0 and its peers are in different gathers: each gets a text with both. */
static void check_out_of_step(struct rank *r, const char *format, const char *mine,
			      const char *theirs)
{
	char text[160];

	snprintf(text, sizeof(text), format, r->rank, r->rank ? theirs : mine, r->rank ? 0 : 1,
		 r->rank ? mine : theirs);
	CHECK_LAST(r, text);
}

/*
 * Rank 0 is in another collective than its peers, or passes another length. All ranks get the
 * failure, no rank gets bytes that were meant for another call, and the communicator still works.
 */
static void collectives_out_of_step_are_named(struct rank *r)
{
	static const char calls[] = "rank %u calls oriel_%s, rank %u calls oriel_%s";
	static const char lengths[] = "oriel_comm_all_gather: rank %u passes %s bytes, rank %u "
				      "passes %s";
	static const struct {
		size_t mine, theirs;
		const char *mine_text, *theirs_text;
	} unequal[] = {{8, 4, "8", "4"}, {0, 8, "0", "8"}, {1000, 4, "1000", "4"}};
	struct oriel_window *window = NULL;
	char *all = calloc(r->size, 1000), bytes[1000] = {0};
	unsigned i;

	CHECK_OK(r, oriel_window_create(r->comm, NULL, &window));
	if (r->rank == 0)
		CHECK_STATUS(r, oriel_comm_all_gather(r->comm, bytes, all, 4), ORIEL_ERR_MISMATCH);
	else
		oriel_window_destroy(window);
	check_out_of_step(r, calls, "comm_all_gather", "window_destroy");
	if (r->rank == 0)
		oriel_window_destroy(window);
	else
		CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_MISMATCH);
	check_out_of_step(r, calls, "window_destroy", "comm_barrier");
	if (r->rank == 0)
		CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_MISMATCH);
	else
		CHECK_STATUS(r, oriel_comm_all_gather(r->comm, bytes, all, 4), ORIEL_ERR_MISMATCH);
	check_out_of_step(r, calls, "comm_barrier", "comm_all_gather");
	for (i = 0; i < sizeof(unequal) / sizeof(unequal[0]); i++) {
		CHECK_STATUS(r,
			     oriel_comm_all_gather(r->comm, bytes, all,
						   r->rank ? unequal[i].theirs : unequal[i].mine),
			     ORIEL_ERR_MISMATCH);
		check_out_of_step(r, lengths, unequal[i].mine_text, unequal[i].theirs_text);
	}
	rank_check_healthy(r);
	CHECK_OK(r, oriel_window_barrier(r->window, 0, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	free(all);
}
#endif

static const struct oriel_window_attr stuck_window = {.size = sizeof(stuck_window),
						      .length = 4096,
						      .barriers = 64,
						      .channels = 9,
						      .channel_bytes = CHANNEL};

#define STUCK_CASES(ROW)                                                      \
	ROW(own_timeouts_break_nothing, &stuck_window, 2, 0)                  \
	ROW(default_limit_of_wait_signal, &stuck_window, 2, BREAKS_COMM)      \
	ROW(default_limit_of_wait_signal_from, &stuck_window, 2, BREAKS_COMM) \
	ROW(default_limit_of_wait_signal_next, &stuck_window, 2, BREAKS_COMM) \
	ROW(default_limit_of_barrier, &stuck_window, 2, BREAKS_COMM)          \
	ROW(default_limit_of_barrier_flat, &stuck_window, 2, BREAKS_COMM)     \
	ROW(default_limit_of_barrier_peer, &stuck_window, 2, BREAKS_COMM)     \
	ROW(default_limit_of_wait_counter, &stuck_window, 2, BREAKS_COMM)     \
	ROW(default_limit_of_send, &stuck_window, 2, BREAKS_COMM)             \
	ROW(default_limit_of_recv, &stuck_window, 2, BREAKS_COMM)             \
	ROW(abort_ends_every_wait_everywhere, &stuck_window, 2, BREAKS_COMM)  \
	ROW(abort_ends_the_waits_of_teams, &stuck_window, 2, BREAKS_COMM)     \
	ROW(the_first_cause_is_retained, &stuck_window, 2, BREAKS_COMM)

#define STUCK_FORKS(ROW) ROW(wait_for_the_abort)

DEVICE_SUITE(stuck, STUCK_CASES, STUCK_FORKS, stuck_host);

static const struct test_case stuck_host_cases[] = {
#ifndef __CUDACC__ /* texts are of a thread of the CPU */
	{"own_limits_have_texts", own_limits_have_texts, &stuck_window, 2, 0},
	{"a_barrier_names_all_absent_ranks", a_barrier_names_all_absent_ranks, &stuck_window, 2, 0},
	{"rejected_arguments_have_texts", rejected_arguments_have_texts, &stuck_window, 1, 0},
	{"collectives_out_of_step_are_named", collectives_out_of_step_are_named, &stuck_window, 2,
	 0},
#endif
	{"destroy_works_on_a_broken_communicator", destroy_works_on_a_broken_communicator,
	 &stuck_window, 1, BREAKS_COMM},
};

const struct suite stuck_host_suite = {"stuck", stuck_host_cases,
				       sizeof(stuck_host_cases) / sizeof(stuck_host_cases[0]), NULL,
				       NULL};
