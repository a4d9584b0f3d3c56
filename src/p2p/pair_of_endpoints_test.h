/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of this process and one thread that drives both, for tests. */
#ifndef ORI_P2P_PAIR_OF_ENDS_TEST_H
#define ORI_P2P_PAIR_OF_ENDS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <oriel/oriel.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define ENDS_PATIENCE_NS UINT64_C(60000000000)

#define CHUNK 4096u
#define LONG (CHUNK * 40 + 5)

/* Over what the ends reach each other. */
enum ends_way {
	ENDS_SELF,
	ENDS_MAPPED,
	ENDS_RDMA,
	ENDS_FAR, /* by rdma as well, on two virtual nodes: they meet over TCP */
};

static const enum oriel_path ends_path[] = {ORIEL_PATH_SELF, ORIEL_PATH_MAPPED, ORIEL_PATH_RDMA,
					    ORIEL_PATH_RDMA};
static const enum oriel_p2p_mode modes[] = {ORIEL_P2P_AUTO, ORIEL_P2P_ZERO_COPY,
					    ORIEL_P2P_COPY_BASED};
static const struct oriel_p2p_context_attr small = {.size = sizeof(small),
						    .chunk = CHUNK,
						    .slots = 24};

#define MODES (sizeof(modes) / sizeof(modes[0]))

/* Those that this run is about, and those of them that have a peer of their own. */
static const enum ends_way ways[] = {ENDS_SELF, ENDS_MAPPED, ENDS_RDMA, ENDS_FAR};
static unsigned ways_first, peers_first = 1;

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* "rdma": over adapters alone, those that ORIEL_HCA says. */
static inline void ends_choose(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "rdma") == 0)
		ways_first = peers_first = ENDS_RDMA;
}

static inline struct oriel_p2p_buffer buffer(void *at, size_t length,
					     struct oriel_p2p_memory *memory)
{
	struct oriel_p2p_buffer b = {at, length, memory};

	return b;
}

/* @to is @from where an end is its own peer. */
struct ends {
	struct oriel_p2p_context *hubs[2];
	struct oriel_p2p *a, *b;
};

static inline void ends_turn(struct ends *e)
{
	/* Of a call before: nobody may take it for his own. */
	errno = ETIMEDOUT;
	(void)oriel_p2p_progress(e->a);
	if (e->b != e->a)
		(void)oriel_p2p_progress(e->b);
	sched_yield();
}

static inline void ends_join(struct ends *e)
{
	uint64_t deadline = ori_deadline(ENDS_PATIENCE_NS);
	char address[2][ORIEL_P2P_ADDRESS];

	assert_int_equal(oriel_p2p_address(e->a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e->b, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e->a, address[1], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	if (e->a != e->b)
		assert_int_equal(oriel_p2p_connect(e->b, address[0], ORIEL_P2P_ADDRESS, 0),
				 ORIEL_OK);
	while (oriel_p2p_check(e->a) != ORIEL_OK || oriel_p2p_check(e->b) != ORIEL_OK) {
		assert_true(oriel_p2p_check(e->a) >= 0 && oriel_p2p_check(e->b) >= 0);
		assert_false(ori_deadline_passed(deadline));
		ends_turn(e);
	}
}

/* By this way; both of one hub where it is self. */
static inline void ends_create(struct ends *e, enum ends_way way,
			       const struct oriel_p2p_context_attr *hub,
			       const struct oriel_p2p_attr *attr)
{
	struct oriel_p2p_context_attr h = {.size = sizeof(h)};

	memset(e, 0, sizeof(*e));
	if (hub)
		h = *hub;
	h.paths = 1u << ends_path[way];
	for (unsigned i = 0; i < (way == ENDS_SELF ? 1 : 2); i++) {
		if (way == ENDS_FAR) {
			setenv("ORIEL_NODE", i ? "there" : "here", 1);
			setenv("ORIEL_P2P_TCP", "on", 1);
		}
		assert_int_equal(oriel_p2p_context_create(&h, &e->hubs[i]), ORIEL_OK);
	}
	unsetenv("ORIEL_NODE");
	unsetenv("ORIEL_P2P_TCP");
	assert_int_equal(oriel_p2p_create(e->hubs[0], attr, &e->a), ORIEL_OK);
	e->b = e->a;
	if (e->hubs[1])
		assert_int_equal(oriel_p2p_create(e->hubs[1], attr, &e->b), ORIEL_OK);
}

static inline void ends_open(struct ends *e, enum ends_way way,
			     const struct oriel_p2p_context_attr *hub,
			     const struct oriel_p2p_attr *attr)
{
	ends_create(e, way, hub, attr);
	ends_join(e);
}

/* It has nothing to tell, and leaves what the last failure has told. */
static inline void ends_destroy_hub(struct oriel_p2p_context *hub)
{
	struct ori_error before;

	ori_error_save(&before);
	oriel_p2p_context_destroy(hub);
	assert_string_equal(oriel_last_error(), before.text);
	assert_int_equal(oriel_last_status(), before.status);
}

static inline void ends_close_hubs(struct ends *e)
{
	for (unsigned i = 0; i < 2; i++)
		ends_destroy_hub(e->hubs[i]);
}

static inline void ends_close(struct ends *e)
{
	oriel_p2p_destroy(e->a);
	if (e->b != e->a)
		oriel_p2p_destroy(e->b);
	ends_close_hubs(e);
}

/* Until @request, of either end, is done. */
static inline enum oriel_status ends_wait(struct ends *e, const struct oriel_p2p_request *request)
{
	uint64_t deadline = ori_deadline(ENDS_PATIENCE_NS);

	while (request->status == ORIEL_AGAIN) {
		assert_false(ori_deadline_passed(deadline));
		ends_turn(e);
	}
	return request->status;
}

static inline void ends_fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed * 7 + 1);
}

#endif
