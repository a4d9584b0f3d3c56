/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of oriel/p2p.h in one thread, each with a GPU or not. */
#ifndef FAKECUDA_ENDS_H
#define FAKECUDA_ENDS_H

#include <sched.h>

#include "rank.h"

#define CHUNK 4096u
#define LONG (CHUNK * 23 + 5)

static inline void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed * 7 + 1);
}

static inline bool is_filled(const char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != (char)(i * 31 + i / 251 + seed * 7 + 1))
			return false;
	return true;
}

/* An end is its own peer by path self. */
struct ends {
	struct oriel_p2p_hub *hubs[2];
	struct oriel_p2p *of[2];
	unsigned count;
};

static inline void turn(struct ends *e)
{
	for (unsigned i = 0; i < e->count; i++)
		(void)oriel_p2p_progress(e->of[i]);
	sched_yield();
}

static inline enum oriel_status wait_for(struct ends *e, const struct oriel_p2p_request *request)
{
	uint64_t begin = oriel_cpu_clock_ns();

	while (request->status == ORIEL_AGAIN && oriel_cpu_clock_ns() - begin < LONG_NS)
		turn(e);
	return request->status;
}

static inline void ends_open(struct rank *r, struct ends *e, enum oriel_path path,
			     const struct oriel_p2p_attr *attr, const unsigned flags[2])
{
	char address[2][ORIEL_P2P_ADDRESS];
	uint64_t begin = oriel_cpu_clock_ns();

	*e = (struct ends){.count = path == ORIEL_PATH_SELF ? 1 : 2};
	for (unsigned i = 0; i < e->count; i++) {
		struct oriel_p2p_hub_attr hub = {.size = sizeof(hub),
						 .chunk = CHUNK,
						 .slots = 24,
						 .paths = 1u << path,
						 .timeout_ns = LONG_NS,
						 .flags = flags[i]};

		r->rank = i;
		rank_use_gpu(r);
		CHECK_OK(r, oriel_p2p_hub_create(&hub, &e->hubs[i]));
		CHECK_OK(r, oriel_p2p_create(e->hubs[i], attr, &e->of[i]));
		CHECK_OK(r, oriel_p2p_address(e->of[i], address[i]));
	}
	for (unsigned i = 0; i < e->count; i++)
		CHECK_OK(r, oriel_p2p_connect(e->of[i], address[e->count - 1 - i],
					      ORIEL_P2P_ADDRESS, 0));
	for (unsigned i = 0; i < e->count; i++)
		while (oriel_p2p_check(e->of[i]) == ORIEL_AGAIN &&
		       oriel_cpu_clock_ns() - begin < LONG_NS)
			turn(e);
	for (unsigned i = 0; i < e->count; i++)
		CHECK_OK(r, oriel_p2p_check(e->of[i]));
}

static inline void ends_close_ends(struct ends *e)
{
	for (unsigned i = 0; i < e->count; i++)
		oriel_p2p_destroy(e->of[i]);
}

static inline void ends_close_hubs(struct ends *e)
{
	for (unsigned i = 0; i < e->count; i++)
		oriel_p2p_hub_destroy(e->hubs[i]);
}

static inline void ends_close(struct ends *e)
{
	ends_close_ends(e);
	ends_close_hubs(e);
}

#endif
