/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the arguments of executions between ranks. The start functions call it.
 *
 * All-gathers of host memory, after each execution: the number of bytes is stored at all peers if
 * it differs from that of the execution before the last one, whose word it takes. A rank is at
 * most one execution ahead of a peer that it has messages of, so that the word of an execution
 * stays until it is compared. A rank compares those whose own messages it has received, which
 * came behind their numbers.
 *
 * The others compare before each execution, in debug builds.
 *
 * Host memory: a barrier that carries a number. Two words alternate. A rank writes the word of
 * execution n + 2 after it has the numbers of n + 1 from all ranks, so all ranks have read the
 * number of n in that word before.
 *
 * GPU memory: no rank waits for another. Each rank stores its number at all peers, together with
 * the count of its comparisons, and compares it with the numbers of the peers that were earlier.
 */
#include <stdio.h>

#include <oriel/progress.h>

#include "base/error.h"
#include "coll/gather_job.h"

static void same_text(const struct ori_gather *g, const char *what, uint64_t value, uint32_t peer,
		      uint64_t seen, char *text, size_t length)
{
	snprintf(text, length, "%s: ranks differ in %s: %llu on rank %u, %llu on rank %u",
		 g->kind->name, what, (unsigned long long)value, g->device.rank,
		 (unsigned long long)seen, peer);
}

/* The execution of @peer would wait until its deadline. */
enum oriel_status ori_gather_break(struct ori_gather *g, const char *what, uint64_t value,
				   uint32_t peer, uint64_t seen)
{
	char text[160];

	same_text(g, what, value, peer, seen, text, sizeof(text));
	oriel_comm_abort(g->comm, text);
	return ori_fail(ORIEL_ERR_MISMATCH, "%s", text);
}

enum oriel_status ori_gather_publish(struct ori_gather *g, uint64_t bytes)
{
	const struct oriel_dev_window *w = &g->device;
	uint32_t which = (uint32_t)(g->published_count++ % 2), i;
	enum oriel_status status = ORIEL_OK;

	if (g->published[which] == bytes)
		return ORIEL_OK;
	g->published[which] = bytes;
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++)
		status = oriel_dev_signal(w, oriel_dev_thread(), ori_dev_rank_after(w, i),
					  ORI_GATHER_NUMBER + which, ORIEL_SIGNAL_SET, bytes, NULL);
	/* The stores of messages come after those of the numbers. */
	ori_dev_release_begin();
	return status == ORIEL_OK ? ORIEL_OK : ori_gather_end(g, status);
}

enum oriel_status ori_gather_compare_rank(struct ori_gather *g, uint32_t peer)
{
	uint32_t which = (uint32_t)((g->published_count - 1) % 2);
	uint64_t seen = oriel_dev_load_acquire(
		ori_dev_mapped_inbox(&g->device, peer, ORI_GATHER_NUMBER + which));

	if (seen == g->published[which])
		return ORIEL_OK;
	return ori_gather_break(g, g->kind->number == ORI_REDUCE ? "bytes * 65536 + root" : "bytes",
				g->published[which], peer, seen);
}

enum oriel_status ori_gather_compare(struct ori_gather *g, const struct ori_plan *plan)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i, peer;

	for (i = 1; i < g->device.ranks && status == ORIEL_OK; i++) {
		peer = ori_dev_rank_after(&g->device, i);
		if (!plan || plan->expected[peer])
			status = ori_gather_compare_rank(g, peer);
	}
	return status;
}

#ifndef NDEBUG

/* Stored numbers of a rank: two for each execution that it may be ahead in streams. */
#define SAME_SLOTS (2 * ORIEL_JOBS)
/* Low bits of such a word are the number; those above it are the count of comparisons. */
#define SAME_BITS 48

enum oriel_status ori_gather_same_open(struct ori_gather *g)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .signals = SAME_SLOTS,
					       .barriers = ORIEL_NONE,
					       .counters = ORIEL_NONE,
					       .buffers = 1};

	return g->is_gpu ? oriel_window_create(g->comm, &attr, &g->numbers) : ORIEL_OK;
}

static enum oriel_status same_send(struct ori_gather *g, uint32_t id, uint64_t value)
{
	const struct oriel_dev_window *w = &g->device;
	enum oriel_status status = ORIEL_OK;
	uint32_t i, peer;

	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		peer = ori_dev_rank_after(w, i);
		status = oriel_dev_signal(w, oriel_dev_thread(), peer, id, ORIEL_SIGNAL_SET, value,
					  NULL);
		if (status == ORIEL_OK)
			status = oriel_dev_signal(w, oriel_dev_thread(), peer, ORI_GATHER_SAME,
						  ORIEL_SIGNAL_ADD, 1, NULL);
	}
	return status;
}

static enum oriel_status same_begin(struct ori_gather *g, struct ori_same *s)
{
	s->id = ORI_GATHER_NUMBER + (uint32_t)(g->compared++ % 2);
	s->index = 1;
	s->other = g->device.rank;
	s->is_sent = true;
	return same_send(g, s->id, s->value);
}

/* The wait is for all ranks even after a difference, so the next call begins in step. */
enum oriel_status ori_gather_same_go_on(struct ori_gather_job *job, struct ori_same *s)
{
	struct ori_gather *g = job->g;
	enum oriel_status status = s->is_sent ? ORIEL_OK : same_begin(g, s);
	uint64_t seen = 0;
	char text[160];
	uint32_t peer;

	for (; s->index < g->device.ranks && status == ORIEL_OK; s->index += status == ORIEL_OK) {
		peer = ori_dev_rank_after(&g->device, s->index);
		status = ori_gather_take(job, peer, ORI_GATHER_SAME, 1);
		if (status == ORIEL_OK)
			status = oriel_dev_read_signal_from(&g->device, peer, s->id, &seen);
		if (status == ORIEL_OK && seen != s->value) {
			s->other = peer;
			s->differs = seen;
		}
	}
	if (status != ORIEL_OK)
		return status == ORIEL_AGAIN ? status : ori_gather_end(g, status);
	if (s->other == g->device.rank)
		return ORIEL_OK;
	same_text(g, s->what, s->value, s->other, s->differs, text, sizeof(text));
	return ori_fail(ORIEL_ERR_MISMATCH, "%s", text);
}

static enum oriel_status same_host(struct ori_gather *g, const char *what, uint64_t value)
{
	struct ori_gather_job job = {.g = g};
	struct ori_same same = {.what = what, .value = value};

	return ori_gather_same_go_on(&job, &same);
}

static enum oriel_status same_publish(const struct oriel_dev_window *w, uint32_t id, uint64_t word)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	for (i = 1; i < w->ranks && status == ORIEL_OK; i++)
		status = oriel_dev_signal(w, oriel_dev_thread(), ori_dev_rank_after(w, i), id,
					  ORIEL_SIGNAL_SET, word, NULL);
	if (status != ORIEL_OK)
		return status;
	/*
	 * Each rank reads the words of its peers after its own word has arrived there. So of two
	 * ranks that call at once at least one sees the word of the other. The flush waits for
	 * NICs, not for ranks.
	 */
	return oriel_dev_flush(w, oriel_dev_thread(), 0);
}

static enum oriel_status same_gpu(struct ori_gather *g, const char *what, uint64_t value)
{
	const uint64_t mask = ((uint64_t)1 << SAME_BITS) - 1;
	uint64_t number = ++g->compared, word = number << SAME_BITS | (value & mask), seen = 0;
	uint32_t id = (uint32_t)(number % SAME_SLOTS), i, peer;
	struct oriel_dev_window w;
	enum oriel_status status = oriel_window_device(g->numbers, &w);

	if (status == ORIEL_OK)
		status = same_publish(&w, id, word);
	for (i = 1; i < g->device.ranks && status == ORIEL_OK; i++) {
		peer = ori_dev_rank_after(&w, i);
		status = oriel_dev_read_signal_from(&w, peer, id, &seen);
		/*
		 * Otherwise the peer has not called yet, and will compare; or it is ahead by too
		 * many calls.
		 */
		if (status == ORIEL_OK && seen >> SAME_BITS == word >> SAME_BITS && seen != word)
			return ori_gather_break(g, what, value, peer, seen & mask);
	}
	return ori_gather_end(g, status);
}

enum oriel_status ori_gather_same(struct ori_gather *g, const char *what, uint64_t value)
{
	return g->is_gpu ? same_gpu(g, what, value) : same_host(g, what, value);
}

#endif
