/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two endpoints that only a script joins: the puts of one reach the other when the test
 * says so, in the order that it says, or not at all. For unit tests of programs over
 * oriel/p2p.h; the same seed repeats a run. Programs link liboriel_p2p_mock.a, and the static
 * library below it: oriel::p2p_mock of the CMake package brings both.
 */
#ifndef ORIEL_P2P_MOCK_H
#define ORIEL_P2P_MOCK_H

#include <oriel/p2p.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_p2p_mock;

enum oriel_p2p_mock_order {
	ORIEL_P2P_MOCK_IN_ORDER, /* all puts arrive with the next progress of either endpoint */
	ORIEL_P2P_MOCK_SHUFFLED, /* ... some of it, in an order that the seed chooses */
	ORIEL_P2P_MOCK_MANUAL,   /* only by oriel_p2p_mock_deliver() */
};

/* Zero means default for every field. */
struct oriel_p2p_mock_attr {
	size_t size;       /* of this struct, as the caller knew it */
	unsigned order;    /* enum oriel_p2p_mock_order */
	unsigned reserved; /* 0 */
	uint64_t seed;     /* of the order, and of how much arrives at once */
	const struct oriel_p2p_context_attr *context; /* of both endpoints; NULL = defaults */
	const struct oriel_p2p_attr *endpoints;       /* of both; NULL = defaults */
};

/* The endpoints are joined on return. All of it, endpoints included, belongs to one thread. */
enum oriel_status oriel_p2p_mock_create(const struct oriel_p2p_mock_attr *attr,
					struct oriel_p2p_mock **mock);
/* Destroys endpoints and context; the caller has unregistered memory. NULL is allowed. */
enum oriel_status oriel_p2p_mock_destroy(struct oriel_p2p_mock *mock);

/*
 * @endpoint 0 or 1. The mock owns them: only oriel_p2p_mock_destroy() destroys them. NULL
 * if @mock is no live mock; see oriel_last_error().
 */
struct oriel_p2p *oriel_p2p_mock_endpoint(const struct oriel_p2p_mock *mock, unsigned endpoint);
struct oriel_p2p_context *oriel_p2p_mock_context(const struct oriel_p2p_mock *mock);

/* A put that has not arrived. */
struct oriel_p2p_mock_event {
	unsigned from;      /* the endpoint that put it */
	size_t length;      /* bytes */
	bool has_immediate; /* the other endpoint is notified; else it sees the bytes alone */
	/* False if it has an immediate while an event without one before it has not arrived. */
	bool may_arrive;
	uint32_t immediate; /* that the other endpoint gets */
};

/* 0 if @mock is no live mock. */
unsigned oriel_p2p_mock_count(const struct oriel_p2p_mock *mock);
/* From the oldest, 0, on. ORIEL_ERR_RANGE past the last. */
enum oriel_status oriel_p2p_mock_peek(const struct oriel_p2p_mock *mock, unsigned index,
				      struct oriel_p2p_mock_event *event);
/* The bytes are read and written now. ORIEL_ERR_STATE: it may not arrive yet. */
enum oriel_status oriel_p2p_mock_deliver(struct oriel_p2p_mock *mock, unsigned index);

/* While held, @endpoint gets no completions of its puts. */
void oriel_p2p_mock_hold_completions(struct oriel_p2p_mock *mock, unsigned endpoint, bool is_held);
/* The next @count puts of @endpoint find no room. */
void oriel_p2p_mock_fill_queue(struct oriel_p2p_mock *mock, unsigned endpoint, unsigned count);
/* The link of @endpoint fails with @status, a failure. Puts that have not arrived are lost. */
void oriel_p2p_mock_fail(struct oriel_p2p_mock *mock, unsigned endpoint, enum oriel_status status);

#ifdef __cplusplus
}
#endif

#endif
