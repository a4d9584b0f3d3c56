/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSHMEM: measures the operations of Oriel with OpenSHMEM's functions. run.py calls it. Version
 * 1.4 has no put with signal: a put, a fence and a store replace it. With two ranks it runs all
 * tests, with four collectives, with more the barrier alone; `shmem_peer empty` only starts
 * and ends.
 */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"

#define SHMEM_PEER_MAX ((size_t)16 << 20)
#define SHMEM_PEER_GATHERED (1u << 20)

static int rank;
static unsigned ranks;
static char *source, *target, *gathered;
static long syncs[2][SHMEM_SYNC_SIZE]; /* symmetric, as all static data is */
static float work[2][SHMEM_PEER_GATHERED / sizeof(float) / 2 +
		     1]; /* pWrk: half of the elements and one */
static uint64_t *words;  /* each in its own cache line */
enum {
	WORD_FLAG = 0,
	WORD_SUM = 16,
	WORD_SHARED = 32,
	WORDS = 48,
};

static void shmem_meet(void)
{
	shmem_barrier_all();
}

static uint64_t shmem_from_origin(uint64_t value)
{
	int peer;

	shmem_barrier_all();
	if (rank == 0)
		for (peer = 0; peer < shmem_n_pes(); peer++)
			shmem_uint64_p(&words[WORD_SHARED], value, peer);
	shmem_barrier_all();
	return words[WORD_SHARED];
}

static void round_put_flush(size_t bytes, uint64_t round)
{
	(void)round;
	shmem_putmem(target, source, bytes, 1);
	shmem_quiet();
}

static void put_signal(size_t bytes, uint64_t value)
{
	shmem_putmem(target, source, bytes, 1 - rank);
	shmem_fence();
	shmem_uint64_p(&words[WORD_FLAG], value, 1 - rank);
}

static void round_put_signal(size_t bytes, uint64_t round)
{
	uint64_t value = ((uint64_t)bytes << 32 | round) + 1;

	if (rank == 0)
		put_signal(bytes, value);
	shmem_uint64_wait_until(&words[WORD_FLAG], SHMEM_CMP_EQ, value);
	if (rank == 1)
		put_signal(bytes, value);
}

static void round_fetch_add(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	(void)shmem_ulong_atomic_fetch_add(&words[WORD_SUM], 1, 1);
}

static void round_contended(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	(void)shmem_ulong_atomic_fetch_add(&words[WORD_SUM], 1, 0);
}

/* Two arrays in turn, since one is in use until all ranks have returned. */
static void round_allgather(size_t bytes, uint64_t round)
{
	shmem_fcollect64(target, gathered, bytes / 8, 0, 0, (int)ranks, syncs[round % 2]);
}

/* The same, and its work arrays. */
static void round_all_reduce(size_t bytes, uint64_t round)
{
	shmem_float_sum_to_all((float *)(void *)gathered, (float *)(void *)target,
			       (int)(bytes / sizeof(float)), 0, 0, (int)ranks, work[round % 2],
			       syncs[round % 2]);
}

static void round_barrier(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	shmem_barrier_all();
}

static const struct peer_case case_put_flush = {"put_flush", "origin",        true,
						PEER_ONE,    round_put_flush, false};
static const struct peer_case case_put_signal = {"put_signal_lat", "one way",        false,
						 PEER_ROUND_TRIP,  round_put_signal, false};
static const struct peer_case case_fetch_add = {"fetch_add", "uncontended",   true,
						PEER_ONE,    round_fetch_add, false};
static const struct peer_case case_contended = {"fetch_add", "contended",     false,
						PEER_ONE,    round_contended, true};
static const struct peer_case case_barrier = {"barrier", "all",         false,
					      PEER_ONE,  round_barrier, false};

static const struct peer_case case_allgather = {"allgather", "all",           false,
						PEER_ONE,    round_allgather, false};
static const struct peer_case case_all_reduce = {"all_reduce", "fp32 sum",       false,
						 PEER_ONE,     round_all_reduce, false};

static void measure_collectives(const struct peer_job *job)
{
	static const size_t sizes[] = {8, 65536, SHMEM_PEER_GATHERED};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(job, &case_allgather, sizes[i]);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(job, &case_all_reduce, sizes[i]);
}

static void measure_pair(const struct peer_job *job)
{
	static const size_t sizes[] = {8, 4096, 65536, 1 << 20, SHMEM_PEER_MAX};
	size_t i;

	peer_measure(job, &case_put_flush, 8);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(job, &case_put_signal, sizes[i]);
	peer_measure(job, &case_fetch_add, 0);
	peer_measure(job, &case_contended, 0);
}

/* Collective; false without symmetric memory. */
static bool shmem_prepare(bool is_pair)
{
	unsigned i, k;

	words = shmem_malloc(WORDS * sizeof(*words));
	if (!words)
		return false;
	memset(words, 0, WORDS * sizeof(*words));
	if (is_pair) {
		source = peer_memory(SHMEM_PEER_MAX);
		target = shmem_malloc(SHMEM_PEER_MAX);
		if (!target)
			return false;
		memset(target, 0, SHMEM_PEER_MAX);
	}
	if (!is_pair && ranks <= 4)
		target = shmem_malloc(4 * (size_t)SHMEM_PEER_GATHERED);
	if (ranks <= 4) {
		gathered = shmem_malloc(SHMEM_PEER_GATHERED);
		if (!gathered || !target)
			return false;
		memset(gathered, 1, SHMEM_PEER_GATHERED);
	}
	for (k = 0; k < 2; k++)
		for (i = 0; i < SHMEM_SYNC_SIZE; i++)
			syncs[k][i] = SHMEM_SYNC_VALUE;
	shmem_barrier_all();
	return true;
}

int main(int argc, char **argv)
{
	struct peer_job job = {.impl = "openshmem",
			       .meet = shmem_meet,
			       .from_origin = shmem_from_origin};

	(void)argv;
	shmem_init();
	rank = shmem_my_pe();
	job.rank = (unsigned)rank;
	job.ranks = ranks = (unsigned)shmem_n_pes();
	if (argc == 1) {
		if (!shmem_prepare(job.ranks == 2)) {
			fprintf(stderr, "shmem_peer: the symmetric heap is too small\n");
			shmem_global_exit(1);
		}
		if (job.ranks <= 4)
			measure_collectives(&job);
		if (job.ranks == 2)
			measure_pair(&job);
		peer_measure(&job, &case_barrier, 0);
	}
	shmem_finalize();
	return 0;
}
