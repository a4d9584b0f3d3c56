/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases that transfer words: signals, counters, remote addition. Source and target compute the
 * final value of each word from the same random numbers. demo.c calls demo_verify_words().
 */
#include "demo.h"

#define WORDS_PARTS 4u

struct words_case {
	const char *name;
	enum oriel_status (*send)(const struct demo *d, struct demo_results *r, uint32_t peer);
	/* Called after this rank has sent to all peers; waits without a time limit. */
	enum oriel_status (*receive)(const struct demo *d, struct demo_results *r, uint32_t peer);
};

/* Compute the values that @source adds at @target in this round, and their sum. */
static uint64_t words_parts(const struct demo_results *r, unsigned source, unsigned target,
			    uint64_t parts[WORDS_PARTS])
{
	struct demo_random random = demo_random_of(r, source, target);
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < WORDS_PARTS; i++) {
		parts[i] = demo_random_next(&random) >> 16;
		sum += parts[i];
	}
	return sum;
}

/* The word of @source has arrived: compare it, and reset it to 0 for the next round. */
static enum oriel_status words_take(const struct demo *d, struct demo_results *r, uint32_t source,
				    uint64_t expected, unsigned transfers)
{
	enum oriel_status status;
	uint64_t got = 0;

	status = oriel_dev_read_signal_from(&d->w, source, DEMO_SIGNAL_WORD, &got);
	if (status != ORIEL_OK)
		return status;
	demo_results_received_word(r, source, expected, got, transfers);
	return oriel_dev_reset_signal(&d->w, source, DEMO_SIGNAL_WORD);
}

static enum oriel_status words_send_add(const struct demo *d, struct demo_results *r, uint32_t peer)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, d->w.rank, peer, parts);
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++)
		status = oriel_dev_signal(&d->w, oriel_dev_thread(), peer, DEMO_SIGNAL_WORD,
					  ORIEL_SIGNAL_ADD, parts[i], NULL);
	demo_results_sent(r, peer, &sum, sizeof(sum));
	return status;
}

static enum oriel_status words_receive_add(const struct demo *d, struct demo_results *r,
					   uint32_t source)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, source, d->w.rank, parts);
	enum oriel_status status = oriel_dev_wait_signal_from(&d->w, oriel_dev_thread(), source,
							      DEMO_SIGNAL_WORD, ORIEL_GE, sum, 0);

	return status == ORIEL_OK ? words_take(d, r, source, sum, WORDS_PARTS) : status;
}

static enum oriel_status words_receive_next(const struct demo *d, struct demo_results *r,
					    uint32_t source)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, source, d->w.rank, parts);
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++)
		status = oriel_dev_wait_signal_next(&d->w, oriel_dev_thread(), source,
						    DEMO_SIGNAL_WORD, parts[i], 0);
	return status == ORIEL_OK ? words_take(d, r, source, sum, WORDS_PARTS) : status;
}

/* The sum over all sources is complete only once; then each source's word must be right. */
static enum oriel_status words_receive_sum(const struct demo *d, struct demo_results *r,
					   uint32_t source)
{
	uint64_t parts[WORDS_PARTS], sum = 0;
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	if (source == (d->w.rank + 1) % d->w.ranks) {
		for (i = 0; i < d->w.ranks; i++)
			sum += i == d->w.rank ? 0 : words_parts(r, i, d->w.rank, parts);
		status = oriel_dev_wait_signal(&d->w, oriel_dev_thread(), DEMO_SIGNAL_WORD,
					       ORIEL_EQ, sum, 0);
	}
	sum = words_parts(r, source, d->w.rank, parts);
	return status == ORIEL_OK ? words_take(d, r, source, sum, WORDS_PARTS) : status;
}

static enum oriel_status words_send_set(const struct demo *d, struct demo_results *r, uint32_t peer)
{
	uint64_t parts[WORDS_PARTS];
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	words_parts(r, d->w.rank, peer, parts);
	for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++)
		status = oriel_dev_signal(&d->w, oriel_dev_thread(), peer, DEMO_SIGNAL_WORD,
					  ORIEL_SIGNAL_SET, parts[i], NULL);
	demo_results_sent(r, peer, &parts[WORDS_PARTS - 1], sizeof(parts[0]));
	return status;
}

static enum oriel_status words_receive_set(const struct demo *d, struct demo_results *r,
					   uint32_t source)
{
	uint64_t parts[WORDS_PARTS], last;
	enum oriel_status status;

	words_parts(r, source, d->w.rank, parts);
	last = parts[WORDS_PARTS - 1];
	status = oriel_dev_wait_signal_from(&d->w, oriel_dev_thread(), source, DEMO_SIGNAL_WORD,
					    ORIEL_EQ, last, 0);
	return status == ORIEL_OK ? words_take(d, r, source, last, WORDS_PARTS) : status;
}

/* Try each comparison with the current value: those that hold return, the others time out. */
static enum oriel_status words_receive_compare(const struct demo *d, struct demo_results *r,
					       uint32_t source)
{
	static const struct {
		enum oriel_compare compare;
		int operand; /* relative to the word */
		enum oriel_status status;
	} claims[] = {
		{ORIEL_EQ, 0, ORIEL_OK},          {ORIEL_NE, 1, ORIEL_OK},
		{ORIEL_GT, -1, ORIEL_OK},         {ORIEL_GE, 0, ORIEL_OK},
		{ORIEL_LT, 1, ORIEL_OK},          {ORIEL_LE, 0, ORIEL_OK},
		{ORIEL_EQ, 1, ORIEL_ERR_TIMEOUT}, {ORIEL_NE, 0, ORIEL_ERR_TIMEOUT},
		{ORIEL_GT, 0, ORIEL_ERR_TIMEOUT}, {ORIEL_GE, 1, ORIEL_ERR_TIMEOUT},
		{ORIEL_LT, 0, ORIEL_ERR_TIMEOUT}, {ORIEL_LE, -1, ORIEL_ERR_TIMEOUT},
	};
	uint64_t parts[WORDS_PARTS], last;
	enum oriel_status status;
	size_t i;

	words_parts(r, source, d->w.rank, parts);
	last = parts[WORDS_PARTS - 1];
	status = oriel_dev_wait_signal_from(&d->w, oriel_dev_thread(), source, DEMO_SIGNAL_WORD,
					    ORIEL_EQ, last, 0);
	for (i = 0; i < sizeof(claims) / sizeof(claims[0]) && status == ORIEL_OK; i++) {
		status = oriel_dev_wait_signal_from(&d->w, oriel_dev_thread(), source,
						    DEMO_SIGNAL_WORD, claims[i].compare,
						    last + (uint64_t)(int64_t)claims[i].operand,
						    claims[i].status == ORIEL_OK ? 0 : 1);
		if (status == ORIEL_OK || status == ORIEL_ERR_TIMEOUT) {
			demo_results_compare(r, source, (uint64_t)claims[i].status,
					     (uint64_t)status);
			status = ORIEL_OK;
		}
	}
	return status == ORIEL_OK ? words_take(d, r, source, last, WORDS_PARTS) : status;
}

/* All ranks get the same value from a source, so the random numbers depend on the source alone. */
static enum oriel_status words_send_all(const struct demo *d, struct demo_results *r, uint32_t peer)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, d->w.rank, d->w.rank, parts);
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	if (peer == (d->w.rank + 1) % d->w.ranks)
		for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++)
			status = oriel_dev_signal_all(&d->w, oriel_dev_thread(), DEMO_SIGNAL_WORD,
						      ORIEL_SIGNAL_ADD, parts[i]);
	demo_results_sent(r, peer, &sum, sizeof(sum));
	return status;
}

static enum oriel_status words_receive_all(const struct demo *d, struct demo_results *r,
					   uint32_t source)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, source, source, parts);
	enum oriel_status status = oriel_dev_wait_signal_from(&d->w, oriel_dev_thread(), source,
							      DEMO_SIGNAL_WORD, ORIEL_GE, sum, 0);

	return status == ORIEL_OK ? words_take(d, r, source, sum, WORDS_PARTS) : status;
}

static enum oriel_status words_send_counted(const struct demo *d, struct demo_results *r,
					    uint32_t peer)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, d->w.rank, peer, parts), count = 0;
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++)
		status = oriel_dev_signal_counter(&d->w, oriel_dev_thread(), peer, DEMO_SIGNAL_WORD,
						  parts[i], DEMO_COUNTER_WORD, NULL);
	if (status == ORIEL_OK)
		status = oriel_dev_wait_counter(&d->w, oriel_dev_thread(), peer, DEMO_COUNTER_WORD,
						ORIEL_GE, WORDS_PARTS, 0);
	if (status == ORIEL_OK)
		status = oriel_dev_read_counter(&d->w, peer, DEMO_COUNTER_WORD, &count);
	if (status == ORIEL_OK)
		status = oriel_dev_reset_counter(&d->w, peer, DEMO_COUNTER_WORD);
	demo_results_compare(r, peer, WORDS_PARTS, count);
	demo_results_sent(r, peer, &sum, sizeof(sum));
	return status;
}

static enum oriel_status words_host_send(const struct demo *d, struct demo_results *r,
					 uint32_t peer)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, d->w.rank, peer, parts);
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++)
		status = oriel_window_signal(d->window, peer, DEMO_SIGNAL_WORD, ORIEL_SIGNAL_ADD,
					     parts[i]);
	demo_results_sent(r, peer, &sum, sizeof(sum));
	return status;
}

static enum oriel_status words_host_receive(const struct demo *d, struct demo_results *r,
					    uint32_t source)
{
	uint64_t parts[WORDS_PARTS], sum = words_parts(r, source, d->w.rank, parts);
	enum oriel_status status =
		oriel_window_wait_signal_from(d->window, source, DEMO_SIGNAL_WORD, ORIEL_GE, sum,
					      0);

	return status == ORIEL_OK ? words_take(d, r, source, sum, WORDS_PARTS) : status;
}

/* All ranks add to one word at each target; the value it returns must never decrease. */
static enum oriel_status words_send_fetch_add(const struct demo *d, struct demo_results *r,
					      uint32_t peer)
{
	uint64_t parts[WORDS_PARTS], total = 0, before = 0, old = 0;
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	for (i = 0; i < d->w.ranks; i++)
		total += i == peer ? 0 : words_parts(r, i, peer, parts);
	demo_results_sent(r, peer, &total, sizeof(total));

	words_parts(r, d->w.rank, peer, parts);
	for (i = 0; i < WORDS_PARTS && status == ORIEL_OK; i++) {
		status = oriel_dev_fetch_add(&d->w, peer, demo_words_at(d) + r->round * sizeof(old),
					     parts[i], &old);
		demo_results_compare(r, peer, 1, old >= before && old + parts[i] <= total);
		before = old + parts[i];
	}
	return status;
}

static enum oriel_status words_receive_fetch_add(const struct demo *d, struct demo_results *r,
						 uint32_t source)
{
	const uint64_t *word =
		oriel_dev_address(&d->w, d->w.rank, demo_words_at(d) + r->round * sizeof(*word));
	uint64_t parts[WORDS_PARTS], total = 0;
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	if (source == (d->w.rank + 1) % d->w.ranks)
		status = oriel_dev_barrier(&d->w, oriel_dev_thread(), DEMO_SLOT_CASE, 0);
	for (i = 0; i < d->w.ranks; i++)
		total += i == d->w.rank ? 0 : words_parts(r, i, d->w.rank, parts);
	if (status == ORIEL_OK)
		demo_results_received_word(r, source, total, oriel_dev_load_acquire(word),
					   WORDS_PARTS);
	return status;
}

static const struct words_case cases[] = {
	{"signal ADD", words_send_add, words_receive_add},
	{"signal SET", words_send_set, words_receive_set},
	{"signal_all", words_send_all, words_receive_all},
	{"signal_counter", words_send_counted, words_receive_add},
	{"wait_signal (sum)", words_send_add, words_receive_sum},
	{"wait_signal_from, all six", words_send_set, words_receive_compare},
	{"wait_signal_next", words_send_add, words_receive_next},
	{"fetch_add", words_send_fetch_add, words_receive_fetch_add},
	{"host: signal, wait", words_host_send, words_host_receive},
};

/* The first barrier keeps every rank from changing a word before its target has reset it. */
static enum oriel_status words_round(const struct demo *d, const struct words_case *c,
				     struct demo_results *r)
{
	enum oriel_status status = oriel_dev_barrier(&d->w, oriel_dev_thread(), DEMO_SLOT_ROUND, 0);
	uint32_t i;

	for (i = 1; i < d->w.ranks && status == ORIEL_OK; i++)
		status = c->send(d, r, (d->w.rank + i) % d->w.ranks);
	for (i = 1; i < d->w.ranks && status == ORIEL_OK; i++)
		status = c->receive(d, r, (d->w.rank + i) % d->w.ranks);
	return status;
}

enum oriel_status demo_verify_words(struct demo *d)
{
	enum oriel_status status = ORIEL_OK;
	struct demo_results r;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]) && status == ORIEL_OK; i++) {
		demo_results_open(&r, d, cases[i].name);
		for (; r.round < DEMO_ROUNDS && status == ORIEL_OK; r.round++)
			status = words_round(d, &cases[i], &r);
		status = demo_results_close(&r, status);
	}
	return status;
}
