/* SPDX-License-Identifier: Apache-2.0 */
/* The measurement loop of all programs of this folder; each of them links it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peer.h"

#define PEER_SAMPLE_US 20.0
#define PEER_ROW_US 30e3
#define PEER_SAMPLES_MIN 5
#define PEER_SAMPLES_MAX 2000
#define PEER_WARM_BYTES (8u << 20)
#define PEER_PAGE 4096u

double peer_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int peer_order(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double peer_median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), peer_order);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

uint64_t peer_burst(size_t bytes)
{
	uint64_t fit = bytes ? ((uint64_t)64 << 20) / bytes : PEER_BURST;

	return fit > PEER_BURST ? PEER_BURST : fit < 4 ? 4 : fit;
}

char *peer_memory(size_t bytes)
{
	size_t length = (bytes + PEER_PAGE) / PEER_PAGE * PEER_PAGE;
	char *memory = aligned_alloc(PEER_PAGE, length);

	if (!memory) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	return memset(memory, 1, length);
}

void peer_print(const struct peer_job *job, const char *test, const char *mode, size_t bytes,
		double us)
{
	if (job->rank != 0)
		return;
	printf("{\"impl\": \"%s\", \"test\": \"%s\", \"mode\": \"%s\", \"ranks\": %u, "
	       "\"bytes\": %zu, \"median_us\": %.5f}\n",
	       job->impl, test, mode, job->ranks, bytes, us);
	fflush(stdout);
}

static double peer_parts(const struct peer_case *plan, size_t bytes)
{
	switch (plan->parts) {
	case PEER_ONE:
		return 1;
	case PEER_ROUND_TRIP:
		return 2;
	case PEER_MANY:
		return (double)peer_burst(bytes);
	}
	return 1;
}

static uint64_t warm_rounds(const struct peer_case *plan, size_t bytes)
{
	uint64_t moved = plan->parts == PEER_MANY ? bytes * peer_burst(bytes) : bytes;
	uint64_t rounds = moved ? PEER_WARM_BYTES / moved : 2000;

	return rounds < 2 ? 2 : rounds > 2000 ? 2000 : rounds;
}

/* Returns us per round. */
static double run_rounds(const struct peer_job *job, const struct peer_case *plan, size_t bytes,
			 uint64_t *next, uint64_t count)
{
	uint64_t end = *next + count;
	double start = peer_now_us();

	if (job->rank == 0 || !plan->is_origin_only)
		for (; *next < end; ++*next)
			plan->round(bytes, *next);
	if (plan->meets)
		job->meet();
	*next = end;
	return (peer_now_us() - start) / (double)count;
}

void peer_measure(const struct peer_job *job, const struct peer_case *plan, size_t bytes)
{
	uint64_t next = 0, i, batch, samples, warm = (warm_rounds(plan, bytes) + 1) / 2;
	double us[PEER_SAMPLES_MAX], once;

	job->meet();
	run_rounds(job, plan, bytes, &next, warm);
	job->meet();
	once = run_rounds(job, plan, bytes, &next, warm);
	batch = once < PEER_SAMPLE_US ? (uint64_t)(PEER_SAMPLE_US / (once > 1e-3 ? once : 1e-3))
				      : 1;
	batch = job->from_origin(batch);
	samples = (uint64_t)(PEER_ROW_US / (once * (double)batch));
	samples = samples < PEER_SAMPLES_MIN   ? PEER_SAMPLES_MIN
		  : samples > PEER_SAMPLES_MAX ? PEER_SAMPLES_MAX
					       : samples;
	samples = job->from_origin(samples);
	job->meet();
	for (i = 0; i < samples; i++)
		us[i] = run_rounds(job, plan, bytes, &next, batch);
	job->meet();
	peer_print(job, plan->test, plan->mode, bytes,
		   peer_median(us, samples) / peer_parts(plan, bytes));
}
