/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that show the machine's limits without the library: a copy into the kind of memory that
 * windows have, and a store with a flag that the peer polls.
 */
#include <string.h>

#include "perf.h"
#include "perf_pass.h"

#define LIMIT_POLLS 20000 /* afterwards the peer may need the core */

enum oriel_status perf_memcpy(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	if (!s->is_origin || !oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = perf_prepare(s, oriel_dev_thread(), round);
		memcpy(s->target, s->source, s->bytes);
		/* Forces the compiler to copy in every round. */
		__asm__ volatile("" : : "r"(s->target) : "memory");
		if (s->is_checked)
			perf_compare(s, s->target, s->bytes, round, s->job->rank);
	}
	return status;
}

static void flag_send(struct perf_rep *s, uint64_t round)
{
	memcpy(s->remote, s->source, s->bytes);
	/* Pairs with the acquire in the peer's flag_await(). */
	oriel_dev_store_release((uint64_t *)(void *)(s->remote + s->words_offset), round + 1);
}

/* Poll for the flag; after many polls hand over to a wait with a deadline. */
static enum oriel_status flag_await(struct perf_rep *s, uint64_t round)
{
	struct oriel_dev_aim aim = {(uint64_t *)(void *)(s->target + s->words_offset),
				    round + 1,
				    ORIEL_EQ,
				    ORIEL_DEV_PUT,
				    s->peer,
				    0};
	unsigned polls;

	for (polls = 0; polls < LIMIT_POLLS; polls++) {
		if (oriel_dev_load_acquire(aim.word) == aim.operand)
			return ORIEL_OK;
		oriel_dev_relax();
	}
	return oriel_dev_wait_word(&s->w, oriel_dev_thread(), &aim, 0);
}

enum oriel_status perf_store_flag(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				  uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	if (!s->remote)
		return ORIEL_ERR_NO_PATH;
	if (!oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = perf_prepare(s, oriel_dev_thread(), round);
		if (s->is_origin && status == ORIEL_OK)
			flag_send(s, round);
		if (status == ORIEL_OK)
			status = flag_await(s, round);
		perf_received(s, oriel_dev_thread(), s->target, s->bytes, round);
		if (!s->is_origin)
			flag_send(s, round);
	}
	return status;
}
