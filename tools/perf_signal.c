/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of signals and atomics: one-way times by ping-pong, fetch_add at the initiator. */
#include "perf.h"
#include "perf_pass.h"

static enum oriel_status signal_await(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	return oriel_dev_wait_signal_from(&s->w, g, s->peer, PERF_SIGNAL, ORIEL_GE, round + 1, 0);
}

static enum oriel_status signal_put(struct perf_rep *s, struct oriel_dev_group g)
{
	return oriel_dev_put_signal(&s->w, g, s->peer, 0, s->source, s->bytes, PERF_SIGNAL, 1,
				    NULL);
}

enum oriel_status perf_put_signal_lat(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				      uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = perf_prepare(s, g, round);
		if (s->is_origin && status == ORIEL_OK)
			status = signal_put(s, g);
		if (status == ORIEL_OK)
			status = signal_await(s, g, round);
		perf_received(s, g, s->target, s->bytes, round);
		if (status == ORIEL_OK && !s->is_origin)
			status = signal_put(s, g);
	}
	return status;
}

static inline enum oriel_status signal_rounds(struct perf_rep *s, struct oriel_dev_group g,
					      uint64_t begin, uint64_t end, enum oriel_signal_op op)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round, value;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		value = op == ORIEL_SIGNAL_SET ? round + 1 : 1;
		if (s->is_origin)
			status = oriel_dev_signal(&s->w, g, s->peer, PERF_SIGNAL, op, value, NULL);
		if (status == ORIEL_OK)
			status = signal_await(s, g, round);
		if (status == ORIEL_OK && !s->is_origin)
			status = oriel_dev_signal(&s->w, g, s->peer, PERF_SIGNAL, op, value, NULL);
	}
	return status;
}

enum oriel_status perf_signal_add(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				  uint64_t end)
{
	return signal_rounds(s, g, begin, end, ORIEL_SIGNAL_ADD);
}

enum oriel_status perf_signal_set(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				  uint64_t end)
{
	return signal_rounds(s, g, begin, end, ORIEL_SIGNAL_SET);
}

enum oriel_status perf_fetch_add(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round, old = 0;

	if (!s->is_origin || !oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = oriel_dev_fetch_add(&s->w, s->peer, s->words_offset, 1, &old);
		if (s->is_checked)
			perf_compare_word(s, "the word", old, round, round);
	}
	return status;
}

/* Each swap takes the round before; the word is of the origin alone. */
enum oriel_status perf_swap(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			    uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round, old = 0;

	if (!s->is_origin || !oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = oriel_dev_swap(&s->w, s->peer, s->words_offset, round + 1, &old);
		if (s->is_checked)
			perf_compare_word(s, "the word", old, round, round);
	}
	return status;
}

enum oriel_status perf_compare_swap(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				    uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round, old = 0;

	if (!s->is_origin || !oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = oriel_dev_compare_swap(&s->w, s->peer, s->words_offset, round, round + 1,
						&old);
		if (s->is_checked)
			perf_compare_word(s, "the word", old, round, round);
	}
	return status;
}

/* Both ranks have added @end times: check the word of rank 0. */
static enum oriel_status contended_verify(struct perf_rep *s, uint64_t end)
{
	const uint64_t *sum = (const uint64_t *)(const void *)(s->target + s->words_offset);

	if (s->is_origin)
		perf_compare_word(s, "the sum", oriel_dev_load_relaxed(sum), 2 * end, end);
	return oriel_dev_barrier_peer(&s->w, oriel_dev_thread(), s->peer, 0, 0);
}

/*
 * The ranks synchronize after each pass: the hardware may let one run ahead, whose additions would
 * then look uncontended.
 */
enum oriel_status perf_fetch_add_contended(struct perf_rep *s, struct oriel_dev_group g,
					   uint64_t begin, uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round, old = 0;

	if (!oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (round = begin; round < end && status == ORIEL_OK; round++)
		status = oriel_dev_fetch_add(&s->w, 0, s->words_offset, 1, &old);
	if (status == ORIEL_OK)
		status = oriel_dev_barrier_peer(&s->w, oriel_dev_thread(), s->peer, 0, 0);
	return s->is_checked && status == ORIEL_OK ? contended_verify(s, end) : status;
}
