/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data-parallel training of a small network that learns y = x0 * x1. Each rank computes the
 * gradient of its part of a batch, and an all-reduce adds them. Its additions have one order, so
 * the weights have the same bits on all ranks, on any nodes, and in a job that was stopped at any
 * step and continued from its checkpoint. Rank 0 prints a digest of them.
 * usage: train STEPS [CHECKPOINT]. Continues from CHECKPOINT, if that is there, up to step STEPS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>

enum { INPUTS = 2, HIDDEN = 24, BATCH = 96, CHECKPOINT_EVERY = 10 };

struct network {
	float hidden[HIDDEN][INPUTS], bias[HIDDEN];
	float output[HIDDEN], output_bias;
};

enum { WEIGHTS = sizeof(struct network) / sizeof(float) };

/* All that the next step depends on: what a checkpoint holds. */
struct state {
	unsigned steps; /* done */
	float loss;     /* of the last one */
	struct network weights, speed;
};

static void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "train: %s\n", oriel_last_error());
	exit(1);
}

static void stop(const char *what, const char *path)
{
	fprintf(stderr, "train: cannot %s %s\n", what, path);
	exit(1);
}

/* A number in [-1, 1) that depends on @index alone: samples need no state in the checkpoint. */
static float noise(uint64_t index)
{
	index = (index + 1) * 0x9e3779b97f4a7c15u;
	index = (index ^ index >> 30) * 0xbf58476d1ce4e5b9u;
	index = (index ^ index >> 27) * 0x94d049bb133111ebu;
	return (float)(index >> 40) / (1 << 23) - 1;
}

static void begin(struct state *s)
{
	float *weight = (float *)&s->weights;
	unsigned i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < WEIGHTS; i++)
		weight[i] = noise(i) / 2;
}

/* Adds the gradient of one sample to @gradient. Returns its share of the loss. */
static float learn(const struct network *n, const float *x, struct network *gradient)
{
	float y[HIDDEN], sum = n->output_bias, error, back;
	unsigned i, k;

	for (i = 0; i < HIDDEN; i++) {
		y[i] = n->bias[i];
		for (k = 0; k < INPUTS; k++)
			y[i] += n->hidden[i][k] * x[k];
		y[i] = y[i] > 0 ? y[i] : 0;
		sum += n->output[i] * y[i];
	}
	error = (sum - x[0] * x[1]) / BATCH;
	gradient->output_bias += error;
	for (i = 0; i < HIDDEN; i++) {
		gradient->output[i] += error * y[i];
		back = y[i] > 0 ? error * n->output[i] : 0;
		gradient->bias[i] += back;
		for (k = 0; k < INPUTS; k++)
			gradient->hidden[i][k] += back * x[k];
	}
	return error * error * BATCH;
}

/* [step] */
/* @sums is the view of @reduce: the gradient, and behind it the loss. */
static void step(struct state *s, struct oriel_allreduce *reduce, float *sums, unsigned rank,
		 unsigned ranks)
{
	float *weight = (float *)&s->weights, *speed = (float *)&s->speed, x[INPUTS];
	uint64_t sample;
	unsigned i, k;

	memset(sums, 0, (WEIGHTS + 1) * sizeof(*sums));
	for (i = BATCH * rank / ranks; i < BATCH * (rank + 1) / ranks; i++) {
		sample = WEIGHTS + ((uint64_t)s->steps * BATCH + i) * INPUTS;
		for (k = 0; k < INPUTS; k++)
			x[k] = noise(sample + k);
		sums[WEIGHTS] += learn(&s->weights, x, (struct network *)sums);
	}
	must(oriel_allreduce_run(reduce, sums, WEIGHTS + 1));
	for (i = 0; i < WEIGHTS; i++) {
		speed[i] = 0.9f * speed[i] - 0.1f * sums[i];
		weight[i] += speed[i];
	}
	s->loss = sums[WEIGHTS];
	s->steps++;
}
/* [/step] */

/* A reader finds the old checkpoint or the new one, and never a part. */
static void write_checkpoint(const struct state *s, const char *path)
{
	char name[4096];
	FILE *file;

	snprintf(name, sizeof(name), "%s.new", path);
	file = fopen(name, "wb");
	if (!file || fwrite(s, sizeof(*s), 1, file) != 1 || fclose(file) != 0 ||
	    rename(name, path) != 0)
		stop("write", path);
}

static void read_checkpoint(struct state *s, const char *path)
{
	FILE *file = fopen(path, "rb");

	if (!file)
		return;
	if (fread(s, sizeof(*s), 1, file) != 1)
		stop("read", path);
	fclose(file);
}

/* FNV-1a of the weights; ends the job if ranks differ in one bit. */
static uint64_t digest(struct oriel_comm *comm, const struct network *weights)
{
	const unsigned char *byte = (const unsigned char *)weights;
	uint64_t own = 0xcbf29ce484222325u, first;
	size_t i;

	for (i = 0; i < sizeof(*weights); i++)
		own = (own ^ byte[i]) * 0x100000001b3u;
	must(oriel_bcast_once(comm, 0, &own, &first, sizeof(own)));
	if (first != own)
		stop("go on: its weights differ from those of", "rank 0");
	return own;
}

int main(int argc, char **argv)
{
	/* Blocks of two ranks, wherever they are: the default would be the ranks of a domain. */
	const struct oriel_reduction reduction = {.size = sizeof(reduction),
						  .type = ORIEL_TYPE_FP32,
						  .op = ORIEL_OP_SUM,
						  .block = 2};
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = (WEIGHTS + 1) * sizeof(float)};
	unsigned rank, ranks, steps = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	const char *path = argc > 2 ? argv[2] : NULL;
	struct oriel_allreduce *reduce;
	struct oriel_comm *comm;
	struct state s;
	uint64_t bits;

	if (!steps || argc > 3) {
		fprintf(stderr, "usage: train STEPS [CHECKPOINT]\n");
		return 2;
	}
	must(oriel_comm_create(NULL, NULL, &comm));
	rank = oriel_comm_rank(comm);
	ranks = oriel_comm_size(comm);
	must(oriel_memory_alloc(view.length, 0, &view.buffer));
	must(oriel_allreduce_create(comm, &view, &reduction, NULL, &reduce));
	begin(&s);
	if (rank == 0 && path)
		read_checkpoint(&s, path);
	must(oriel_bcast_once(comm, 0, &s, &s, sizeof(s)));
	while (s.steps < steps) {
		step(&s, reduce, view.buffer, rank, ranks);
		if (s.steps % CHECKPOINT_EVERY && s.steps < steps)
			continue;
		if (rank == 0 && path)
			write_checkpoint(&s, path);
		if (rank == 0)
			printf("step %u: loss %.5f\n", s.steps, (double)s.loss);
	}
	bits = digest(comm, &s.weights);
	if (rank == 0)
		printf("step %u: digest %016llx\n", s.steps, (unsigned long long)bits);
	must(oriel_allreduce_destroy(reduce));
	must(oriel_memory_free(view.buffer));
	must(oriel_comm_destroy(comm));
	return 0;
}
