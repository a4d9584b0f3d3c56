/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invalid arguments: each call is rejected before it does anything, with a record, and windows
 * work afterwards.
 */
#include "harness.h"

#include <string.h>

/* Arguments of one call of any device function. */
struct call {
	const struct oriel_dev_window *w;
	struct oriel_dev_group group;
	unsigned peer;
	uint32_t id;
	uint64_t at;
};

enum takes {
	TAKES_PEER = 1,
	TAKES_ID = 2,
	NOT_SELF = 4,
	TAKES_OFFSET = 8,
};

/* Every function, and the arguments it takes. */
#define CALLS(ROW)                                                                          \
	ROW(PUT, "put", TAKES_PEER | TAKES_OFFSET)                                          \
	ROW(PUT_PART, "put_part", TAKES_PEER | TAKES_ID | TAKES_OFFSET)                     \
	ROW(PUT_VALUE, "put_value", TAKES_PEER | TAKES_OFFSET)                              \
	ROW(GET, "get", TAKES_PEER | TAKES_OFFSET)                                          \
	ROW(FETCH_ADD, "fetch_add", TAKES_PEER | TAKES_OFFSET)                              \
	ROW(FETCH_ADD_RELAXED, "fetch_add", TAKES_PEER | TAKES_OFFSET)                      \
	ROW(WAIT_LOCAL, "wait_local", 0)                                                    \
	ROW(DRAIN, "drain", 0)                                                              \
	ROW(FLUSH, "flush", 0)                                                              \
	ROW(SIGNAL, "signal", TAKES_PEER | TAKES_ID)                                        \
	ROW(SIGNAL_ALL, "signal_all", TAKES_ID)                                             \
	ROW(PUT_SIGNAL, "put_signal", TAKES_PEER | TAKES_ID | TAKES_OFFSET)                 \
	ROW(READ_SIGNAL, "read_signal", TAKES_ID)                                           \
	ROW(READ_SIGNAL_FROM, "read_signal_from", TAKES_PEER | TAKES_ID)                    \
	ROW(WAIT_SIGNAL, "wait_signal", TAKES_ID)                                           \
	ROW(WAIT_SIGNAL_FROM, "wait_signal_from", TAKES_PEER | TAKES_ID)                    \
	ROW(WAIT_SIGNAL_NEXT, "wait_signal_next", TAKES_PEER | TAKES_ID)                    \
	ROW(RESET_SIGNAL, "reset_signal", TAKES_PEER | TAKES_ID)                            \
	ROW(BARRIER, "barrier", TAKES_ID)                                                   \
	ROW(BARRIER_ARRIVE, "barrier_arrive", TAKES_ID)                                     \
	ROW(BARRIER_WAIT, "barrier_wait", TAKES_ID)                                         \
	ROW(BARRIER_FLAT, "barrier_flat", TAKES_ID)                                         \
	ROW(BARRIER_FLAT_ARRIVE, "barrier_flat_arrive", TAKES_ID)                           \
	ROW(BARRIER_FLAT_WAIT, "barrier_flat_wait", TAKES_ID)                               \
	ROW(BARRIER_PEER, "barrier_peer", TAKES_PEER | TAKES_ID | NOT_SELF)                 \
	ROW(BARRIER_PEER_ARRIVE, "barrier_peer_arrive", TAKES_PEER | TAKES_ID | NOT_SELF)   \
	ROW(BARRIER_PEER_WAIT, "barrier_peer_wait", TAKES_PEER | TAKES_ID | NOT_SELF)       \
	ROW(PUT_COUNTER, "put_counter", TAKES_PEER | TAKES_ID | TAKES_OFFSET)               \
	ROW(PUT_SIGNAL_COUNTER, "put_signal_counter", TAKES_PEER | TAKES_ID | TAKES_OFFSET) \
	ROW(SIGNAL_COUNTER, "signal_counter", TAKES_PEER | TAKES_ID)                        \
	ROW(WAIT_COUNTER, "wait_counter", TAKES_PEER | TAKES_ID)                            \
	ROW(READ_COUNTER, "read_counter", TAKES_PEER | TAKES_ID)                            \
	ROW(RESET_COUNTER, "reset_counter", TAKES_PEER | TAKES_ID)                          \
	ROW(SEND, "send", TAKES_PEER | TAKES_ID | NOT_SELF)                                 \
	ROW(RECV, "recv", TAKES_PEER | TAKES_ID | NOT_SELF)                                 \
	ROW(PEER_RANK, "peer_rank", 0)                                                      \
	ROW(PEER_INDEX, "peer_index", TAKES_PEER | NOT_SELF)                                \
	ROW(DOMAIN_RANK, "domain_rank", 0)                                                  \
	ROW(DOMAIN_FIND, "domain_find", TAKES_PEER)

#define CALL_ID(id, name, takes) CALL_##id,
#define CALL_ROW(id, name, takes) {name, takes},

enum function { CALLS(CALL_ID) FUNCTIONS };

CASE_DATA const struct {
	const char *name;
	unsigned takes;
} functions[FUNCTIONS] = {CALLS(CALL_ROW)};

/* Call @function. It moves nothing, adds nothing and waits for nothing. */
CASE enum oriel_status call_function(enum function function, const struct call *c)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	struct oriel_dev_group g = c->group;
	uint64_t word = 0;
	uint32_t number;

	switch (function) {
	case CALL_PUT:
		return oriel_dev_put(c->w, g, c->peer, c->at, &word, 0, NULL);
	case CALL_PUT_PART:
		return oriel_dev_put_part(c->w, g, c->id, 7, c->peer, c->at, &word, 0, NULL);
	case CALL_PUT_VALUE:
		return oriel_dev_put_value(c->w, c->peer, c->at, 0, NULL);
	case CALL_GET:
		return oriel_dev_get(c->w, g, c->peer, c->at, &word, 0, NULL);
	case CALL_FETCH_ADD:
		return oriel_dev_fetch_add(c->w, c->peer, c->at, 0, &word);
	case CALL_FETCH_ADD_RELAXED:
		return oriel_dev_fetch_add_relaxed(c->w, c->peer, c->at, 0, &word);
	case CALL_WAIT_LOCAL:
		return oriel_dev_wait_local(c->w, g, ticket, 1);
	case CALL_DRAIN:
		return oriel_dev_drain(c->w, g, 1);
	case CALL_FLUSH:
		return oriel_dev_flush(c->w, g, 1);
	case CALL_SIGNAL:
		return oriel_dev_signal(c->w, g, c->peer, c->id, ORIEL_SIGNAL_ADD, 0, NULL);
	case CALL_SIGNAL_ALL:
		return oriel_dev_signal_all(c->w, g, c->id, ORIEL_SIGNAL_ADD, 0);
	case CALL_PUT_SIGNAL:
		return oriel_dev_put_signal(c->w, g, c->peer, c->at, &word, 0, c->id, 0, NULL);
	case CALL_READ_SIGNAL:
		return oriel_dev_read_signal(c->w, c->id, &word);
	case CALL_READ_SIGNAL_FROM:
		return oriel_dev_read_signal_from(c->w, c->peer, c->id, &word);
	case CALL_WAIT_SIGNAL:
		return oriel_dev_wait_signal(c->w, g, c->id, ORIEL_GE, 0, 1);
	case CALL_WAIT_SIGNAL_FROM:
		return oriel_dev_wait_signal_from(c->w, g, c->peer, c->id, ORIEL_GE, 0, 1);
	case CALL_WAIT_SIGNAL_NEXT:
		return oriel_dev_wait_signal_next(c->w, g, c->peer, c->id, 0, 1);
	case CALL_RESET_SIGNAL:
		return oriel_dev_reset_signal(c->w, c->peer, c->id);
	case CALL_BARRIER:
		return oriel_dev_barrier(c->w, g, c->id, 1);
	case CALL_BARRIER_ARRIVE:
		return oriel_dev_barrier_arrive(c->w, g, c->id);
	case CALL_BARRIER_WAIT:
		return oriel_dev_barrier_wait(c->w, g, c->id, 1);
	case CALL_BARRIER_FLAT:
		return oriel_dev_barrier_flat(c->w, g, c->id, 1);
	case CALL_BARRIER_FLAT_ARRIVE:
		return oriel_dev_barrier_flat_arrive(c->w, g, c->id);
	case CALL_BARRIER_FLAT_WAIT:
		return oriel_dev_barrier_flat_wait(c->w, g, c->id, 1);
	case CALL_BARRIER_PEER:
		return oriel_dev_barrier_peer(c->w, g, c->peer, c->id, 1);
	case CALL_BARRIER_PEER_ARRIVE:
		return oriel_dev_barrier_peer_arrive(c->w, g, c->peer, c->id);
	case CALL_BARRIER_PEER_WAIT:
		return oriel_dev_barrier_peer_wait(c->w, g, c->peer, c->id, 1);
	case CALL_PUT_COUNTER:
		return oriel_dev_put_counter(c->w, g, c->peer, c->at, &word, 0, c->id, NULL);
	case CALL_PUT_SIGNAL_COUNTER:
		return oriel_dev_put_signal_counter(c->w, g, c->peer, c->at, &word, 0, 0, 0, c->id,
						    NULL);
	case CALL_SIGNAL_COUNTER:
		return oriel_dev_signal_counter(c->w, g, c->peer, 0, 0, c->id, NULL);
	case CALL_WAIT_COUNTER:
		return oriel_dev_wait_counter(c->w, g, c->peer, c->id, ORIEL_GE, 0, 1);
	case CALL_READ_COUNTER:
		return oriel_dev_read_counter(c->w, c->peer, c->id, &word);
	case CALL_RESET_COUNTER:
		return oriel_dev_reset_counter(c->w, c->peer, c->id);
	case CALL_SEND:
		return oriel_dev_send(c->w, g, c->peer, c->id, &word, 0, 1);
	case CALL_RECV:
		return oriel_dev_recv(c->w, g, c->peer, c->id, &word, 0, 1);
	case CALL_PEER_RANK:
		return oriel_dev_peer_rank(c->w, c->id, &number);
	case CALL_PEER_INDEX:
		return oriel_dev_peer_index(c->w, c->peer, &number);
	case CALL_DOMAIN_RANK:
		return oriel_dev_domain_rank(c->w, c->id, &number);
	case CALL_DOMAIN_FIND:
		return oriel_dev_domain_find(c->w, c->peer, &number);
	case FUNCTIONS:
		break;
	}
	return ORIEL_OK;
}

/* Call all functions that take @takes; each must return @expected and, if asked, leave a record. */
CASE void check_all(struct rank *r, const struct call *call, unsigned takes,
		    enum oriel_status expected, bool records)
{
	const char *name = r->name;
	struct oriel_dev_fault fault;
	int i;

	for (i = 0; i < FUNCTIONS; i++) {
		if ((functions[i].takes & takes) != takes)
			continue;
		r->name = functions[i].name;
		CHECK_STATUS(r, call_function((enum function)i, call), expected);
		CHECK_STATUS(r, rank_fault(r, &fault), records ? ORIEL_OK : ORIEL_AGAIN);
		if (records)
			CHECK_EQ(r, fault.status, expected);
	}
	r->name = name;
}

/* Change the marks in @w, as a library with other marks would have written them. */
CASE void mark_otherwise(struct oriel_dev_window *w, uint32_t by)
{
	unsigned i;

	for (i = 0; i < ORIEL_DEV_INLINE_PEERS; i++)
		w->inline_peers[i].mark += by;
}

CASE void foreign_handles_are_rejected(struct rank *r)
{
	struct oriel_dev_window w = r->dev;
	struct call call = {&w, r->group, 0, 0, 0};

	w.magic++;
	mark_otherwise(&w, 1u << 16);
	check_all(r, &call, 0, ORIEL_ERR_VERSION, false);
	CHECK(r, oriel_dev_address(&w, 0, 0) == NULL);
	w = r->dev;
	w.version++;
	mark_otherwise(&w, 1u << 8);
	check_all(r, &call, 0, ORIEL_ERR_VERSION, false);
	CHECK(r, oriel_dev_address(&w, 0, 0) == NULL);
	w = r->dev;
	w.size -= 8;
	mark_otherwise(&w, 1u << 31);
	check_all(r, &call, 0, ORIEL_ERR_VERSION, false);
	CHECK(r, oriel_dev_address(&w, 0, 0) == NULL);
	memset(&w, 0, sizeof(w));
	check_all(r, &call, 0, ORIEL_ERR_VERSION, false);
}

CASE void invalid_ranks_are_rejected(struct rank *r)
{
	struct call call = {&r->dev, r->group, r->size, 0, 0};

	check_all(r, &call, TAKES_PEER, ORIEL_ERR_RANGE, true);
	call.peer = UINT32_MAX;
	check_all(r, &call, TAKES_PEER, ORIEL_ERR_RANGE, true);
	call.peer = 1u << 31;
	check_all(r, &call, TAKES_PEER, ORIEL_ERR_RANGE, true);
}

/* W9: counter ids, and the signal id of put_signal, were not checked. */
CASE void ids_out_of_range_are_rejected(struct rank *r)
{
	struct call call = {&r->dev, r->group, rank_next(r), 7, 0};

	/* The window of this case has 7 of everything. */
	check_all(r, &call, TAKES_ID, ORIEL_ERR_RANGE, true);
	call.id = UINT32_MAX;
	check_all(r, &call, TAKES_ID, ORIEL_ERR_RANGE, true);
}

CASE void the_own_rank_is_rejected_as_partner(struct rank *r)
{
	struct call call = {&r->dev, r->group, r->rank, 0, 0};

	check_all(r, &call, NOT_SELF, ORIEL_ERR_INVALID, true);
}

CASE void invalid_buffers_are_rejected(struct rank *r)
{
	struct call call = {&r->dev, r->group, rank_next(r), 0, r->length + 8};

	check_all(r, &call, TAKES_OFFSET, ORIEL_ERR_RANGE, true);
	call.at = oriel_at(0, (1ull << ORIEL_AT_BITS) - 8);
	check_all(r, &call, TAKES_OFFSET, ORIEL_ERR_RANGE, true);
	call.at = oriel_at(r->dev.buffers, 0);
	check_all(r, &call, TAKES_OFFSET, ORIEL_ERR_RANGE, true);
	call.at = UINT64_MAX - 7;
	check_all(r, &call, TAKES_OFFSET, ORIEL_ERR_RANGE, true);
	call.at = oriel_at(1, 0);
	check_all(r, &call, TAKES_OFFSET, ORIEL_ERR_STATE, true);
}

/*
 * W9: an operation that would pass the end is rejected whole; sums that wrap do not become
 * small.
 */
CASE void nothing_passes_the_end_of_the_target(struct rank *r)
{
	static const uint64_t lengths[] = {
		1, 2, 8, 65536, 1ull << 47, 1ull << 63, UINT64_MAX - 1, UINT64_MAX};
	unsigned peer = rank_next(r);
	struct oriel_dev_fault fault;
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t length = lengths[i];
		uint64_t at = length <= r->length ? r->length - length + 1 : 1;

		CHECK_STATUS(r, oriel_dev_put(&r->dev, r->group, peer, at, r->base, length, NULL),
			     ORIEL_ERR_RANGE);
		CHECK_OK(r, rank_fault(r, &fault));
		CHECK_EQ(r, fault.what, ORIEL_DEV_PUT);
		CHECK_EQ(r, fault.peer, peer);
		CHECK_EQ(r, fault.window, r->dev.number);
		CHECK_EQ(r, fault.id, 0);
		CHECK_EQ(r, fault.expected, r->length);
		CHECK_EQ(r, fault.seen, at + length < length ? UINT64_MAX : at + length);
		CHECK_LAST(r, "put");
		CHECK_STATUS(r, oriel_dev_get(&r->dev, r->group, peer, at, r->base, length, NULL),
			     ORIEL_ERR_RANGE);
		CHECK_STATUS(r,
			     oriel_dev_put_signal(&r->dev, r->group, peer, at, r->base, length, 0,
						  1, NULL),
			     ORIEL_ERR_RANGE);
		CHECK_OK(r, rank_fault(r, &fault));
		CHECK_EQ(r, fault.what, ORIEL_DEV_GET);
	}
	rank_flush_barrier(r);
	CHECK_EQ(r, not_all(r->base, r->length, 0), 0);
	CHECK_STATUS(r, oriel_dev_wait_signal(&r->dev, r->group, 0, ORIEL_NE, 0, 1),
		     ORIEL_ERR_TIMEOUT);
}

CASE void invalid_enumerators_are_rejected(struct rank *r)
{
	enum oriel_compare compare = (enum oriel_compare)(ORIEL_LE + 1);
	enum oriel_signal_op op = (enum oriel_signal_op)(ORIEL_SIGNAL_SET + 1);
	struct oriel_dev_fault fault;

	CHECK_STATUS(r, oriel_dev_wait_signal(&r->dev, r->group, 0, compare, 0, LONG_NS),
		     ORIEL_ERR_INVALID);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_WAIT_SIGNAL);
	CHECK_LAST(r, "no comparison or operation 6");
	CHECK_STATUS(r,
		     oriel_dev_wait_signal_from(&r->dev, r->group, r->rank, 0, compare, 0, LONG_NS),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_dev_wait_counter(&r->dev, r->group, r->rank, 0, compare, 0, LONG_NS),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_dev_signal(&r->dev, r->group, r->rank, 0, op, 1, NULL),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_dev_signal_all(&r->dev, r->group, 0, op, 1), ORIEL_ERR_INVALID);
	CHECK_OK(r, rank_fault(r, &fault));
}

CASE void check_no_ticket(struct rank *r, struct oriel_dev_ticket ticket, const char *text)
{
	struct oriel_dev_fault fault;

	CHECK_STATUS(r, oriel_dev_wait_local(&r->dev, r->group, ticket, LONG_NS),
		     ORIEL_ERR_INVALID);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_WAIT_LOCAL);
	CHECK_EQ(r, fault.status, (uint64_t)ORIEL_ERR_INVALID);
	CHECK_EQ(r, fault.peer, ticket.peer);
	CHECK_EQ(r, fault.id, ticket.window);
	CHECK_EQ(r, fault.seen, ticket.index);
	CHECK_LAST(r, text);
}

/* Put a word to @peer, and compare the ticket with the path. */
CASE struct oriel_dev_ticket ticket_of_put(struct rank *r, unsigned peer)
{
	struct oriel_dev_ticket ticket = {7, 7, 7};

	CHECK_OK(r,
		 oriel_dev_put(&r->dev, r->group, peer, r->rank * 8, r->base + 1024, 8, &ticket));
	if (rank_is_mapped(r, r->rank, peer)) {
		CHECK(r, !ticket.index && !ticket.peer && !ticket.window);
	} else {
		CHECK(r, ticket.index);
		CHECK_EQ(r, ticket.peer, peer);
		CHECK_EQ(r, ticket.window, ori_dev_ticket_window(&r->dev));
	}
	return ticket;
}

/* A wait for such a ticket would end at once, with the source still in use. */
CASE void tickets_that_were_never_issued_are_rejected(struct rank *r)
{
	static const uint64_t later[] = {1u << 20, (uint64_t)1 << 48, INT64_MAX, UINT64_MAX};
	unsigned peer;
	size_t i;

	for (peer = 0; peer < r->size; peer++) {
		struct oriel_dev_ticket ticket = ticket_of_put(r, peer), wrong = ticket;

		wrong.peer = peer;
		wrong.window = ori_dev_ticket_window(&r->dev);
		for (i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
			wrong.index = later[i];
			check_no_ticket(r, wrong,
					ticket.index ? "is not issued yet" : "nothing was posted");
		}
		wrong.index = ticket.index ? ticket.index : 1;
		wrong.window++;
		check_no_ticket(r, wrong, "not of window");
		wrong.window--;
		wrong.peer = r->size;
		check_no_ticket(r, wrong, "is of rank");
		CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, ticket, LONG_NS));
	}
	rank_check_healthy(r);
}

#define MANY_TICKETS 3000u

/* There are more tickets than a ring holds: a completed one stays completed. */
CASE void old_tickets_are_done(struct rank *r)
{
	struct oriel_dev_ticket first = {0, 0, 0}, ticket = {0, 0, 0};
	unsigned i;

	for (i = 0; i < MANY_TICKETS; i++) {
		ticket = ticket_of_put(r, rank_next(r));
		if (!i)
			first = ticket;
	}
	CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, first, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, ticket, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, first, LONG_NS));
}

/* The tickets are those of every operation without a counter, an empty part among them. */
CASE void all_tickets_are_accepted(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	struct oriel_dev_group g = r->group;
	struct oriel_dev_ticket t[8];
	char *own = r->base + 1024;
	uint64_t at = r->rank * 8;
	unsigned peer, i;

	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_dev_put(w, g, peer, 0, own, 0, &t[0]));
		CHECK_OK(r, oriel_dev_put_part(w, g, 0, 2, peer, at, own, 8, &t[1]));
		CHECK_OK(r, oriel_dev_put_part(w, g, 1, 2, peer, at, own, 0, &t[2]));
		CHECK_OK(r, oriel_dev_get(w, g, peer, at, own, 8, &t[3]));
		CHECK_OK(r, oriel_dev_signal(w, g, peer, 0, ORIEL_SIGNAL_ADD, 1, &t[4]));
		CHECK_OK(r, oriel_dev_signal(w, g, peer, 1, ORIEL_SIGNAL_SET, 1, &t[5]));
		CHECK_OK(r, oriel_dev_signal_relaxed(w, g, peer, 0, ORIEL_SIGNAL_ADD, 1, &t[6]));
		CHECK_OK(r, oriel_dev_put_signal(w, g, peer, at, own, 8, 0, 1, &t[7]));
		for (i = 0; i < 8; i++)
			CHECK_OK(r, oriel_dev_wait_local(w, g, t[i], LONG_NS));
		t[0].index = t[0].peer = t[0].window = 0;
		if (oriel_dev_is_leader(g)) {
			CHECK_OK(r, oriel_dev_put_value(w, peer, at, 0, &t[0]));
			CHECK_OK(r, oriel_dev_wait_local(w, oriel_dev_thread(), t[0], LONG_NS));
		}
	}
}

CASE void words_must_be_aligned(struct rank *r)
{
	struct oriel_dev_fault fault;
	uint64_t at, old = 5;

	for (at = 1; at < 8; at++) {
		CHECK_STATUS(r,
			     ALONE(r, oriel_dev_put_value(&r->dev, rank_next(r), 8 + at, 1, NULL)),
			     ORIEL_ERR_INVALID);
		CHECK_OK(r, rank_fault(r, &fault));
		CHECK_EQ(r, fault.what, ORIEL_DEV_PUT_VALUE);
		CHECK_LAST(r, "not aligned to 8 bytes");
		CHECK_STATUS(r, oriel_dev_fetch_add(&r->dev, rank_next(r), 8 + at, 1, &old),
			     ORIEL_ERR_INVALID);
		CHECK_OK(r, rank_fault(r, &fault));
	}
	CHECK_STATUS(r,
		     ALONE(r, oriel_dev_put_value(&r->dev, rank_next(r), r->length - 4, 1, NULL)),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, ALONE(r, oriel_dev_put_value(&r->dev, rank_next(r), r->length, 1, NULL)),
		     ORIEL_ERR_RANGE);
	CHECK_EQ(r, old, 5);
	rank_flush_barrier(r);
	CHECK_EQ(r, not_all(r->base, r->length, 0), 0);
}

/* The first fault stays until the host takes it; then there is room for one more. */
CASE void the_first_fault_is_retained(struct rank *r)
{
	struct oriel_dev_fault fault;
	uint32_t i;

	CHECK_STATUS(r, rank_fault(r, &fault), ORIEL_AGAIN);
	for (i = 0; i < 3; i++)
		CHECK_STATUS(r,
			     oriel_dev_signal(&r->dev, r->group, 0, 100 + i, ORIEL_SIGNAL_ADD, 1,
					      NULL),
			     ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_SIGNAL);
	CHECK_EQ(r, fault.status, (uint64_t)ORIEL_ERR_RANGE);
	CHECK_EQ(r, fault.id, 100);
	CHECK_EQ(r, fault.seen, 100);
	CHECK_EQ(r, fault.expected, r->dev.signals);
	CHECK_LAST(r, "signal 100 of 64");
	CHECK_STATUS(r, rank_fault(r, &fault), ORIEL_AGAIN);
	CHECK_STATUS(r, oriel_dev_barrier(&r->dev, r->group, 99, LONG_NS), ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_BARRIER);
}

CASE void fault_often(struct rank *r, unsigned index, void *context)
{
	uint64_t *taken = (uint64_t *)context;
	struct oriel_dev_fault fault;
	int i;

	for (i = 0; i < 300; i++) {
		CHECK_STATUS(r, oriel_dev_put(&r->dev, r->group, r->size + index, 0, "", 1, NULL),
			     ORIEL_ERR_RANGE);
		if (index % 2 == 0 || rank_fault(r, &fault) != ORIEL_OK)
			continue;
		if (oriel_dev_is_leader(r->group))
			oriel_dev_add_relaxed(taken, 1);
		/* The record is that of one fault, not parts of two. */
		CHECK_EQ(r, fault.peer, fault.seen);
		CHECK_EQ(r, fault.expected, r->size);
	}
}

CASE void faults_may_come_from_all_groups(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, taken, 1);
	struct oriel_dev_fault fault;
	bool is_left;

	taken[0] = 0;
	rank_fork(r, 4, fault_often, taken);
	/*
	 * The thread that writes the first record may lose its core until the others are
	 * through.
	 */
	is_left = rank_fault(r, &fault) == ORIEL_OK;
	CHECK(r, taken[0] > 0 || is_left);
}

/* A window and a communicator work after a fault as they did before. */
CASE void windows_work_after_faults(struct rank *r)
{
	CHECK_STATUS(r, oriel_dev_put(&r->dev, r->group, r->size, 0, "", 1, NULL), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_barrier(&r->dev, r->group, 1000, LONG_NS), ORIEL_ERR_RANGE);
	rank_check_healthy(r);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
	CHECK_OK(r, rank_barrier(r));
}

static const struct oriel_window_attr seven_window = {.size = sizeof(seven_window),
						      .length = 64,
						      .signals = 7,
						      .barriers = 7,
						      .counters = 7,
						      .channels = 7,
						      .channel_bytes = 4096};

#define FAULT_CASES(ROW)                                             \
	ROW(foreign_handles_are_rejected, NULL, 1, 0)                \
	ROW(invalid_ranks_are_rejected, NULL, 1, 0)                  \
	ROW(ids_out_of_range_are_rejected, &seven_window, 1, 0)      \
	ROW(the_own_rank_is_rejected_as_partner, NULL, 1, 0)         \
	ROW(invalid_buffers_are_rejected, NULL, 1, 0)                \
	ROW(nothing_passes_the_end_of_the_target, NULL, 1, 0)        \
	ROW(invalid_enumerators_are_rejected, NULL, 1, 0)            \
	ROW(words_must_be_aligned, NULL, 1, 0)                       \
	ROW(tickets_that_were_never_issued_are_rejected, NULL, 1, 0) \
	ROW(old_tickets_are_done, NULL, 1, 0)                        \
	ROW(all_tickets_are_accepted, NULL, 1, 0)                    \
	ROW(the_first_fault_is_retained, NULL, 1, 0)                 \
	ROW(faults_may_come_from_all_groups, NULL, 1, 0)             \
	ROW(windows_work_after_faults, NULL, 1, 0)

#define FAULT_FORKS(ROW) ROW(fault_often)

DEVICE_SUITE(fault, FAULT_CASES, FAULT_FORKS, NULL);
