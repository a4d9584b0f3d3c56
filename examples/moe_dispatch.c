/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mixture-of-experts layer: every rank has some experts, and a batch of tokens that go to two
 * experts each, on any rank. The ranks exchange the number of tokens per expert, then the tokens;
 * the experts' results return the same way. The lengths differ in each step and are not known
 * before. The rank compares the results with its own computation. Prints tokens per second and the
 * bytes sent.
 * usage: moe_dispatch [STEPS [TOKENS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/oriel.h>

#define WIDTH 256u /* values of a token */
#define EXPERTS 4u /* of each rank */
#define CHOICES 2u /* experts of each token */
#define STEPS_MAX 100000u
#define TOKENS_MAX 65536u

#define TOKEN_BYTES (WIDTH * sizeof(float))

/* One of a token's experts, and where the rank finds its result. */
struct choice {
	unsigned expert; /* number among all experts */
	unsigned slot;   /* among the tokens that this rank sends */
};

struct layer {
	struct oriel_comm *comm;
	struct oriel_alltoall *counting, *dispatch, *combine;
	unsigned rank, ranks, tokens, steps;

	/*
	 * Tokens per expert: from this rank to all experts, and from all ranks to the experts
	 * here.
	 */
	uint64_t *sent, *expected;
	struct oriel_dev_alltoallv *layout;
	struct choice *choices; /* [tokens][CHOICES] */
	float *batch;           /* [tokens][WIDTH] */
	float *packed;          /* the tokens to send, sorted by expert */
	float *arrived;         /* tokens for the experts here, ordered by rank */
	float *returned;        /* results of the experts, in the order of @packed */
	float *results;         /* results of the experts here, in the order of @arrived */

	uint64_t bytes; /* to other ranks, both ways */
	double seconds;
	uint64_t wrong;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned draw(uint64_t seed)
{
	seed *= 0x9e3779b97f4a7c15;
	return (unsigned)((seed ^ seed >> 29) * 0xbf58476d1ce4e5b9 >> 40);
}

/* Some experts are chosen more often than others, and different ones in each step. */
static unsigned choose_expert(const struct layer *l, unsigned step, unsigned token, unsigned choice)
{
	unsigned count = l->ranks * EXPERTS;
	uint64_t seed = ((uint64_t)step * TOKENS_MAX + token) * 64 + l->rank * 2 + choice;
	unsigned first = draw(seed) % count, second = draw(~seed) % count;

	return ((first < second ? first : second) + step) % count;
}

static float make(unsigned expert, float x)
{
	float y = x * (1.0f + (float)expert * 0.125f) - 0.25f * (float)(expert % 7);

	return y > 0 ? y : 0.01f * y;
}

static void fill_batch(struct layer *l, unsigned step)
{
	size_t i;

	for (i = 0; i < (size_t)l->tokens * WIDTH; i++)
		l->batch[i] =
			(float)((i * 31 + step * 7919 + l->rank * 101) % 1009) / 504.5f - 1.0f;
}

/* Copy the tokens in the order of their experts. */
static void pack(struct layer *l, unsigned step)
{
	unsigned count = l->ranks * EXPERTS, expert, i, slot = 0;

	memset(l->sent, 0, count * sizeof(*l->sent));
	for (i = 0; i < l->tokens * CHOICES; i++)
		l->choices[i].expert = choose_expert(l, step, i / CHOICES, i % CHOICES);
	for (expert = 0; expert < count; expert++)
		for (i = 0; i < l->tokens * CHOICES; i++) {
			if (l->choices[i].expert != expert)
				continue;
			memcpy(l->packed + (size_t)slot * WIDTH,
			       l->batch + (size_t)(i / CHOICES) * WIDTH, TOKEN_BYTES);
			l->choices[i].slot = slot++;
			l->sent[expert]++;
		}
}

static uint64_t sum_of(const uint64_t *counts)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < EXPERTS; i++)
		sum += counts[i];
	return sum;
}

/*
 * Lengths and displacements, by rank on both sides; a result returns to the offset its token was
 * sent from.
 */
static void set_layout(struct layer *l, bool is_back)
{
	uint64_t sent_offset = 0, received_offset = 0, sent, received;
	unsigned rank;

	for (rank = 0; rank < l->ranks; rank++) {
		sent = sum_of(l->sent + rank * EXPERTS) * TOKEN_BYTES;
		received = sum_of(l->expected + rank * EXPERTS) * TOKEN_BYTES;
		l->layout[rank] = is_back ? (struct oriel_dev_alltoallv){received_offset, received,
									 sent_offset, sent}
					  : (struct oriel_dev_alltoallv){sent_offset, sent,
									 received_offset, received};
		sent_offset += sent;
		received_offset += received;
		if (rank != l->rank)
			l->bytes += is_back ? received : sent;
	}
}

/* From each rank the tokens are sorted by expert. */
static void run_experts(struct layer *l)
{
	const float *from = l->arrived;
	float *to = l->results;
	unsigned rank, i;
	uint64_t left;

	for (rank = 0; rank < l->ranks; rank++)
		for (i = 0; i < EXPERTS; i++)
			for (left = l->expected[rank * EXPERTS + i] * WIDTH; left; left--)
				*to++ = make(l->rank * EXPERTS + i, *from++);
}

static uint64_t count_wrong(const struct layer *l)
{
	const struct choice *choice;
	uint64_t wrong = 0;
	const float *x, *y;
	unsigned i, k;

	for (i = 0; i < l->tokens * CHOICES; i++) {
		choice = &l->choices[i];
		x = l->batch + (size_t)(i / CHOICES) * WIDTH;
		y = l->returned + (size_t)choice->slot * WIDTH;
		for (k = 0; k < WIDTH; k++)
			wrong += y[k] != make(choice->expert, x[k]);
	}
	return wrong;
}

static enum oriel_status layer_step(struct layer *l, unsigned step)
{
	enum oriel_status status;
	double begun;

	fill_batch(l, step);
	pack(l, step);
	/* The other ranks' preparation must not count. */
	status = oriel_comm_barrier(l->comm);
	if (status != ORIEL_OK)
		return status;
	begun = now();
	status = oriel_alltoall_run(l->counting, l->sent, EXPERTS * sizeof(*l->sent));
	if (status != ORIEL_OK)
		return status;
	set_layout(l, false);
	status = oriel_alltoall_run_v(l->dispatch, l->packed, l->layout);
	if (status != ORIEL_OK)
		return status;
	run_experts(l);
	set_layout(l, true);
	status = oriel_alltoall_run_v(l->combine, l->results, l->layout);
	l->seconds += now() - begun;
	if (status == ORIEL_OK)
		l->wrong += count_wrong(l);
	return status;
}

/* Create an all-to-all over @length bytes, shared for it. */
static enum oriel_status open_view(struct layer *l, size_t length, void *memory,
				   struct oriel_alltoall **alltoall)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = length,
				  .buffer = memory};

	return oriel_alltoall_create(l->comm, &view, NULL, alltoall);
}

static enum oriel_status layer_open(struct layer *l)
{
	size_t counts = l->ranks * EXPERTS * sizeof(uint64_t);
	size_t batch = l->tokens * CHOICES * TOKEN_BYTES;
	void *expected = NULL, *arrived = NULL, *returned = NULL;
	enum oriel_status status = oriel_memory_alloc(counts, 0, &expected);

	l->expected = expected;
	/* In the worst case all tokens of all ranks go to the experts of one. */
	if (status == ORIEL_OK)
		status = oriel_memory_alloc(batch * l->ranks, 0, &arrived);
	l->arrived = arrived;
	if (status == ORIEL_OK)
		status = oriel_memory_alloc(batch, 0, &returned);
	l->returned = returned;
	l->sent = calloc(1, counts);
	l->layout = calloc(l->ranks, sizeof(*l->layout));
	l->choices = calloc((size_t)l->tokens * CHOICES, sizeof(*l->choices));
	l->batch = calloc(l->tokens, TOKEN_BYTES);
	l->packed = malloc(batch);
	l->results = malloc(batch * l->ranks);
	if (status == ORIEL_OK &&
	    (!l->sent || !l->layout || !l->choices || !l->batch || !l->packed || !l->results))
		status = ORIEL_ERR_NOMEM;
	/* Report a failure of one rank to all. */
	status = oriel_comm_agree(l->comm, status);
	if (status == ORIEL_OK)
		status = open_view(l, counts, l->expected, &l->counting);
	if (status == ORIEL_OK)
		status = open_view(l, batch * l->ranks, l->arrived, &l->dispatch);
	/* All ranks have equally many tokens, so the shortest view suffices. */
	return status == ORIEL_OK ? open_view(l, batch, l->returned, &l->combine) : status;
}

static void layer_close(struct layer *l)
{
	oriel_alltoall_destroy(l->combine);
	oriel_alltoall_destroy(l->dispatch);
	oriel_alltoall_destroy(l->counting);
	oriel_memory_free(l->returned);
	oriel_memory_free(l->arrived);
	oriel_memory_free(l->expected);
	free(l->results);
	free(l->packed);
	free(l->batch);
	free(l->choices);
	free(l->layout);
	free(l->sent);
}

static enum oriel_status layer_run(struct layer *l)
{
	enum oriel_status status = ORIEL_OK;
	unsigned step;

	for (step = 0; step < l->steps && status == ORIEL_OK; step++)
		status = layer_step(l, step);
	if (status != ORIEL_OK)
		return status;
	printf("rank %u of %u: %u steps of %u tokens, %u experts of %u each: "
	       "%.0f tokens/s, %.3f GB/s to other ranks, %llu numbers wrong\n",
	       l->rank, l->ranks, l->steps, l->tokens, CHOICES, l->ranks * EXPERTS,
	       l->steps * l->tokens / l->seconds, (double)l->bytes / l->seconds / 1e9,
	       (unsigned long long)l->wrong);
	return l->wrong ? ORIEL_ERR_PROTOCOL : ORIEL_OK;
}

int main(int argc, char **argv)
{
	static struct layer l;
	enum oriel_status status;

	l.steps = argc > 1 ? (unsigned)atoi(argv[1]) : 20;
	l.tokens = argc > 2 ? (unsigned)atoi(argv[2]) : 512;
	if (l.steps < 1 || l.steps > STEPS_MAX || l.tokens < 1 || l.tokens > TOKENS_MAX) {
		fprintf(stderr, "usage: moe_dispatch [STEPS [TOKENS]], at most %u of %u\n",
			STEPS_MAX, TOKENS_MAX);
		return 2;
	}
	status = oriel_comm_create(NULL, NULL, &l.comm);
	if (status == ORIEL_OK) {
		l.rank = oriel_comm_rank(l.comm);
		l.ranks = oriel_comm_size(l.comm);
		status = layer_open(&l);
	}
	if (status == ORIEL_OK)
		status = layer_run(&l);
	if (status != ORIEL_OK && !l.wrong)
		fprintf(stderr, "rank %u: %s\n", l.rank, oriel_last_error());
	layer_close(&l);
	oriel_comm_destroy(l.comm);
	return status == ORIEL_OK ? 0 : 1;
}
