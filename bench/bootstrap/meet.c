/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the bootstrap over TCP, and TLS: N ranks, processes of this machine, join a job,
 * gather and exchange messages, with a job key and without one in turn. Build and run:
 *   cc -O2 -Iinclude -o build/meet bench/bootstrap/meet.c -Lbuild/release/lib -loriel \
 *      -Wl,-rpath,$PWD/build/release/lib
 *   build/meet [PASSES]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <oriel/bootstrap.h>

#include "../bench.h"

#define RANKS_MAX 16
#define ROUNDS 200
#define FOREVER UINT64_MAX
#define MIB 1048576u

enum { OPEN, GATHER, SMALL, LARGE, RESULTS };

static const char *const names[RESULTS] = {"open, ms", "all_gather of 64 B, us",
					   "message of 64 B and back, us",
					   "message of 1 MiB and back, us"};

/* The results of all ranks of one job, in shared memory. */
struct shared {
	double start, took[RANKS_MAX][RESULTS];
};

static double gather(struct oriel_bootstrap *b)
{
	char mine[64] = {0}, all[RANKS_MAX * 64];
	double start = now();
	int i;

	for (i = 0; i < ROUNDS; i++)
		check(b->ops->all_gather(b->context, mine, all, sizeof(mine), FOREVER));
	return (now() - start) / ROUNDS;
}

/* Between ranks 0 and 1. */
static double ping(struct oriel_bootstrap *b, size_t length, int rounds)
{
	static char data[MIB];
	double start = 0;
	int i;

	for (i = -1; i < rounds && b->rank < 2; i++) {
		if (i == 0)
			start = now();
		if (b->rank == 0)
			check(b->ops->send(b->context, 1, 1, data, length, FOREVER));
		check(b->ops->recv(b->context, 1 - b->rank, 1, data, length, FOREVER));
		if (b->rank == 1)
			check(b->ops->send(b->context, 0, 1, data, length, FOREVER));
	}
	check(b->ops->barrier(b->context, FOREVER));
	return (now() - start) / rounds;
}

static void run_rank(struct shared *shared, unsigned rank)
{
	double *took = shared->took[rank];
	struct oriel_bootstrap b;
	char text[16];

	snprintf(text, sizeof(text), "%u", rank);
	setenv("RANK", text, 1);
	check(oriel_bootstrap_open_env(60000000000u, &b));
	check(b.ops->barrier(b.context, FOREVER));
	took[OPEN] = (now() - shared->start) / 1e3;
	took[GATHER] = gather(&b);
	took[SMALL] = ping(&b, 64, ROUNDS);
	took[LARGE] = ping(&b, MIB, ROUNDS / 4);
	oriel_bootstrap_close(&b);
}

/* Rank 0's results; for the start those of the last rank. */
static void run_job(struct shared *shared, unsigned size, double took[RESULTS])
{
	unsigned i;

	shared->start = now();
	for (i = 0; i < size; i++) {
		if (fork() == 0) {
			run_rank(shared, i);
			_exit(0);
		}
	}
	join_all();
	memcpy(took, shared->took[0], sizeof(shared->took[0]));
	for (i = 1; i < size; i++)
		if (shared->took[i][OPEN] > took[OPEN])
			took[OPEN] = shared->took[i][OPEN];
}

int main(int argc, char **argv)
{
	static const unsigned sizes[] = {2, 8, 16};
	static double took[2][RESULTS][64], one[RESULTS];
	int passes = argc > 1 ? atoi(argv[1]) : 15, pass, with_key, r;
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char text[16];
	unsigned i;

	if (shared == MAP_FAILED || passes < 1 || passes > 64)
		return 2;
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", "29577", 1);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(text, sizeof(text), "%u", sizes[i]);
		setenv("WORLD_SIZE", text, 1);
		for (pass = 0; pass < passes; pass++) {
			for (with_key = 0; with_key < 2; with_key++) {
				setenv("ORIEL_JOB_KEY",
				       with_key ? "00112233445566778899aabbccddeeff" : "", 1);
				run_job(shared, sizes[i], one);
				for (r = 0; r < RESULTS; r++)
					took[with_key][r][pass] = one[r];
			}
		}
		for (r = 0; r < RESULTS; r++) {
			printf("%2u ranks: %-30s %10.1f without, %10.1f with a key\n", sizes[i],
			       names[r], median(took[0][r], (size_t)passes),
			       median(took[1][r], (size_t)passes));
		}
	}
	return 0;
}
