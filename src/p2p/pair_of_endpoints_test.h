/* SPDX-License-Identifier: Apache-2.0 */
/* Two endpoints of this process and one thread that drives both, for the unit tests of p2p. */
#ifndef ORI_P2P_PAIR_OF_ENDPOINTS_TEST_H
#define ORI_P2P_PAIR_OF_ENDPOINTS_TEST_H

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

#ifdef ENDPOINTS_OVER_PIPE
#include <p2p_pipe.h> /* of examples */
#endif

#define ENDPOINTS_PATIENCE_NS UINT64_C(60000000000)

#define CHUNK 4096u
#define LONG (CHUNK * 40 + 5)

/* The path between the endpoints, and whether they are on one node. */
enum endpoints_route {
	ENDPOINTS_SELF,
	ENDPOINTS_MAPPED,
	ENDPOINTS_RDMA,
	ENDPOINTS_INTERNODE, /* by rdma as well, on two virtual nodes: they meet over TCP */
	ENDPOINTS_PIPE,      /* by the transport of examples/p2p_pipe.c */
};

static const enum oriel_path endpoints_path[] = {ORIEL_PATH_SELF, ORIEL_PATH_MAPPED,
						 ORIEL_PATH_RDMA, ORIEL_PATH_RDMA, ORIEL_PATH_NONE};
static const enum oriel_p2p_mode modes[] = {ORIEL_P2P_AUTO, ORIEL_P2P_ZERO_COPY,
					    ORIEL_P2P_COPY_BASED};
static const struct oriel_p2p_context_attr small = {.size = sizeof(small),
						    .chunk = CHUNK,
						    .slots = 24};

#define MODES (sizeof(modes) / sizeof(modes[0]))

/* The routes of this run, and those whose endpoints have another peer than themselves. */
#ifdef ENDPOINTS_OVER_PIPE
static const enum endpoints_route routes[] = {ENDPOINTS_PIPE};
static unsigned routes_first, peers_first;
#else
static const enum endpoints_route routes[] = {ENDPOINTS_SELF, ENDPOINTS_MAPPED, ENDPOINTS_RDMA,
					      ENDPOINTS_INTERNODE};
static unsigned routes_first, peers_first = 1;
#endif

#define ROUTES (sizeof(routes) / sizeof(routes[0]))

/* "rdma": only over the HCAs that ORIEL_HCA names. */
static inline void endpoints_choose(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "rdma") == 0)
		routes_first = peers_first = ENDPOINTS_RDMA;
}

static inline struct oriel_p2p_buffer buffer(void *at, size_t length,
					     struct oriel_p2p_memory *memory)
{
	struct oriel_p2p_buffer b = {at, length, memory};

	return b;
}

#ifdef ENDPOINTS_OVER_PIPE
/*
 * Endpoints connect in pairs, one after the other: the first makes two ends, and the second one
 * takes the other end.
 */
static inline enum oriel_status endpoints_pipe_open(void *context, void *data, void **link)
{
	static struct p2p_pipe_end ends[2];
	static unsigned next;

	(void)data;
	if (!next)
		assert_true(p2p_pipe_pair(ends));
	next = !next;
	return p2p_pipe_transport.open(context, &ends[next], link);
}

/* All contexts of a test have one transport context. */
static inline void endpoints_use_pipe(struct oriel_p2p_context_attr *attr)
{
	static struct oriel_p2p_transport transport;
	static struct p2p_pipe *pipe;

	if (!pipe)
		pipe = p2p_pipe_create();
	assert_non_null(pipe);
	transport = p2p_pipe_transport;
	transport.open = endpoints_pipe_open;
	attr->transport = &transport;
	attr->transport_context = pipe;
	attr->paths = 0;
}
#else
static inline void endpoints_use_pipe(struct oriel_p2p_context_attr *attr)
{
	(void)attr;
}
#endif

/* @a and @b are the same where an endpoint is its own peer. */
struct endpoints {
	struct oriel_p2p_context *contexts[2];
	struct oriel_p2p *a, *b;
};

static inline void endpoints_turn(struct endpoints *e)
{
	/* An errno of an earlier call: the library must not take it for its own. */
	errno = ETIMEDOUT;
	(void)oriel_p2p_progress(e->a);
	if (e->b != e->a)
		(void)oriel_p2p_progress(e->b);
	sched_yield();
}

static inline void endpoints_join(struct endpoints *e)
{
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
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
		endpoints_turn(e);
	}
}

/* By this route; both of one context where it is self. */
static inline void endpoints_create(struct endpoints *e, enum endpoints_route route,
				    const struct oriel_p2p_context_attr *context,
				    const struct oriel_p2p_attr *attr)
{
	struct oriel_p2p_context_attr h = {.size = sizeof(h)};

	memset(e, 0, sizeof(*e));
	if (context)
		h = *context;
	h.paths = 1u << endpoints_path[route];
	if (route == ENDPOINTS_PIPE)
		endpoints_use_pipe(&h);
	for (unsigned i = 0; i < (route == ENDPOINTS_SELF ? 1 : 2); i++) {
		if (route == ENDPOINTS_INTERNODE) {
			setenv("ORIEL_NODE", i ? "there" : "here", 1);
			setenv("ORIEL_P2P_TCP", "on", 1);
		}
		assert_int_equal(oriel_p2p_context_create(&h, &e->contexts[i]), ORIEL_OK);
	}
	unsetenv("ORIEL_NODE");
	unsetenv("ORIEL_P2P_TCP");
	assert_int_equal(oriel_p2p_create(e->contexts[0], attr, &e->a), ORIEL_OK);
	e->b = e->a;
	if (e->contexts[1])
		assert_int_equal(oriel_p2p_create(e->contexts[1], attr, &e->b), ORIEL_OK);
}

static inline void endpoints_open(struct endpoints *e, enum endpoints_route route,
				  const struct oriel_p2p_context_attr *context,
				  const struct oriel_p2p_attr *attr)
{
	endpoints_create(e, route, context, attr);
	endpoints_join(e);
}

/* It has nothing to report, and leaves the last error as it was. */
static inline void endpoints_destroy_context(struct oriel_p2p_context *ctx)
{
	struct ori_error before;

	ori_error_save(&before);
	oriel_p2p_context_destroy(ctx);
	assert_string_equal(oriel_last_error(), before.text);
	assert_int_equal(oriel_last_status(), before.status);
}

static inline void endpoints_close_contexts(struct endpoints *e)
{
	for (unsigned i = 0; i < 2; i++)
		endpoints_destroy_context(e->contexts[i]);
}

static inline void endpoints_close(struct endpoints *e)
{
	oriel_p2p_destroy(e->a);
	if (e->b != e->a)
		oriel_p2p_destroy(e->b);
	endpoints_close_contexts(e);
}

/* Until @request, of either endpoint, is done. */
static inline enum oriel_status endpoints_wait(struct endpoints *e,
					       const struct oriel_p2p_request *request)
{
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);

	while (request->status == ORIEL_AGAIN) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(e);
	}
	return request->status;
}

static inline void endpoints_fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed * 7 + 1);
}

#endif
