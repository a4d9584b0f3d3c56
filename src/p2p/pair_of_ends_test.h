/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of this process and one thread that drives both, for tests. */
#ifndef ORI_P2P_PAIR_OF_ENDS_TEST_H
#define ORI_P2P_PAIR_OF_ENDS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/oriel.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define ENDS_PATIENCE_NS UINT64_C(60000000000)

/* @to is @from where an end is its own peer. */
struct ends {
	struct oriel_p2p_hub *hubs[2];
	struct oriel_p2p *a, *b;
};

static inline void ends_turn(struct ends *e)
{
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

/* By this path; both of one hub where it is self. */
static inline void ends_create(struct ends *e, enum oriel_path path,
			       const struct oriel_p2p_hub_attr *hub,
			       const struct oriel_p2p_attr *attr)
{
	struct oriel_p2p_hub_attr h = {.size = sizeof(h)};

	memset(e, 0, sizeof(*e));
	if (hub)
		h = *hub;
	h.paths = 1u << path;
	for (unsigned i = 0; i < (path == ORIEL_PATH_SELF ? 1 : 2); i++)
		assert_int_equal(oriel_p2p_hub_create(&h, &e->hubs[i]), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(e->hubs[0], attr, &e->a), ORIEL_OK);
	e->b = e->a;
	if (e->hubs[1])
		assert_int_equal(oriel_p2p_create(e->hubs[1], attr, &e->b), ORIEL_OK);
}

static inline void ends_open(struct ends *e, enum oriel_path path,
			     const struct oriel_p2p_hub_attr *hub,
			     const struct oriel_p2p_attr *attr)
{
	ends_create(e, path, hub, attr);
	ends_join(e);
}

static inline void ends_close_hubs(struct ends *e)
{
	for (unsigned i = 0; i < 2; i++) {
		oriel_p2p_hub_destroy(e->hubs[i]);
		assert_string_equal(oriel_last_error(), "");
	}
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
