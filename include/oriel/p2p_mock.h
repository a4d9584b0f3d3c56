/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends that are joined by nothing but a script: what one puts reaches the other
 * when the test says so, in which order it says, or not at all. For unit tests of
 * programs over oriel/p2p.h; a seed brings the same run again.
 */
#ifndef ORIEL_P2P_MOCK_H
#define ORIEL_P2P_MOCK_H

#include <oriel/p2p.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_p2p_mock;

enum oriel_p2p_mock_order {
	ORIEL_P2P_MOCK_IN_ORDER, /* all that was put arrives with the next progress of either end */
	ORIEL_P2P_MOCK_SHUFFLED, /* ... some of it, in an order that the seed chooses */
	ORIEL_P2P_MOCK_MANUAL,   /* only by oriel_p2p_mock_deliver() */
};

/* Zero means default for every field. */
struct oriel_p2p_mock_attr {
	size_t size;    /* of this struct, as the caller knew it */
	unsigned order; /* enum oriel_p2p_mock_order */
	uint64_t seed;  /* of the order, and of how much arrives at once */
	const struct oriel_p2p_context_attr *context; /* of the hub of both ends; NULL = defaults */
	const struct oriel_p2p_attr *endpoints;       /* of both; NULL = defaults */
};

/* The ends are joined on return. All of it, ends included, belongs to one thread. */
enum oriel_status oriel_p2p_mock_create(const struct oriel_p2p_mock_attr *attr,
					struct oriel_p2p_mock **mock);
/* Destroys ends and hub; memory is unregistered before. NULL is allowed. */
void oriel_p2p_mock_destroy(struct oriel_p2p_mock *mock);

/*
 * @endpoint 0 or 1. The mock's: only oriel_p2p_mock_destroy() destroys them. NULL of what is no
 * live mock; see oriel_last_error().
 */
struct oriel_p2p *oriel_p2p_mock_endpoint(const struct oriel_p2p_mock *mock, unsigned endpoint);
struct oriel_p2p_context *oriel_p2p_mock_context(const struct oriel_p2p_mock *mock);

/* Something that is on its way. */
struct oriel_p2p_mock_event {
	unsigned from;      /* which end put it */
	size_t length;      /* bytes */
	bool has_immediate; /* the other end is told of it; else it sees the bytes alone */
	/* False of one that is told while something untold before it has not arrived. */
	bool may_arrive;
	uint32_t immediate; /* what it is told */
};

/* 0 of what is no live mock. */
unsigned oriel_p2p_mock_count(const struct oriel_p2p_mock *mock);
/* From the oldest, 0, on. ORIEL_ERR_RANGE past the last. */
enum oriel_status oriel_p2p_mock_peek(const struct oriel_p2p_mock *mock, unsigned index,
				      struct oriel_p2p_mock_event *event);
/* The bytes are read and written now. ORIEL_ERR_STATE: it may not arrive yet. */
enum oriel_status oriel_p2p_mock_deliver(struct oriel_p2p_mock *mock, unsigned index);

/* While held, @endpoint does not hear that what it put is done. */
void oriel_p2p_mock_hold_completions(struct oriel_p2p_mock *mock, unsigned endpoint, bool is_held);
/* The next @count puts of @endpoint find no room. */
void oriel_p2p_mock_fill_queue(struct oriel_p2p_mock *mock, unsigned endpoint, unsigned count);
/* The link of @endpoint fails with @status, a failure. What was on its way is lost. */
void oriel_p2p_mock_fail(struct oriel_p2p_mock *mock, unsigned endpoint, enum oriel_status status);

#ifdef __cplusplus
}
#endif

#endif
