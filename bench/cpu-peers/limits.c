/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the machine, without any library: plain copies, a store with a flag, an atomic add,
 * a barrier and all-reduces between processes that share memory. run.py calls it. `limits N` starts
 * N ranks; more ranks than cores yield instead of spinning.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

#define LIMITS_MAX ((size_t)16 << 20)
#define LIMITS_RANKS 64
#define LIMITS_REDUCING 4u                  /* ranks of an all-reduce at most */
#define LIMITS_SLICE 1024u                  /* floats: partial sums stay in the nearest cache */
#define LIMITS_FEW 2u                       /* floats that arrive with their step */
#define LIMITS_LINE 16                      /* words of a cache line */
#define LIMITS_COPY_OUT ((uint64_t)1 << 60) /* its flags are above those of other rows */

/* A compiler makes the loops of a function with this for each instruction set. */
#ifdef __x86_64__
#define LIMITS_SIMD __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define LIMITS_SIMD
#endif

struct few {
	_Alignas(LIMITS_LINE * sizeof(uint64_t)) uint64_t step;
	float elements[LIMITS_FEW];
};

/* One word, or a few elements with theirs, in each cache line; rows are ranks. */
struct shared {
	uint64_t flag[LIMITS_RANKS][LIMITS_LINE];
	uint64_t epoch[LIMITS_RANKS][LIMITS_LINE];
	uint64_t sum[LIMITS_LINE];
	uint64_t broadcast;                 /* the value of limits_from_origin() */
	struct few few[2][LIMITS_REDUCING]; /* of even and of odd steps */
};

static struct shared *shared;
static char *payload[LIMITS_REDUCING]; /* of the first ranks, shared */
static char *source, *sink;
static unsigned rank, ranks;
static bool is_oversubscribed;
static uint64_t epoch, step;

static void limits_relax(void)
{
	if (is_oversubscribed)
		sched_yield();
#ifdef __x86_64__
	else
		__builtin_ia32_pause();
#endif
}

static void word_await(const uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		limits_relax();
}

/* Each rank stores its epoch in its own line and reads those of its peers. */
static void limits_barrier(void)
{
	unsigned i;

	__atomic_store_n(&shared->epoch[rank][0], ++epoch, __ATOMIC_RELEASE);
	for (i = 0; i < ranks; i++)
		word_await(&shared->epoch[i][0], epoch);
}

static uint64_t limits_from_origin(uint64_t value)
{
	if (rank == 0)
		shared->broadcast = value;
	limits_barrier();
	value = shared->broadcast;
	limits_barrier();
	return value;
}

static void round_memcpy(size_t bytes, uint64_t round)
{
	(void)round;
	memcpy(payload[0], source, bytes);
	__asm__ volatile("" : : "r"(payload[0]) : "memory");
}

static void flag_send(size_t bytes, uint64_t value)
{
	memcpy(payload[1 - rank], source, bytes);
	__atomic_store_n(&shared->flag[1 - rank][0], value, __ATOMIC_RELEASE);
}

static void round_store_flag(size_t bytes, uint64_t round)
{
	uint64_t value = ((uint64_t)bytes << 32 | round) + 1;

	if (rank == 0)
		flag_send(bytes, value);
	word_await(&shared->flag[rank][0], value);
	if (rank == 1)
		flag_send(bytes, value);
}

/* The least cost of a message through staging: a copy in, the flag, and a copy out. */
static void round_copy_out(size_t bytes, uint64_t round)
{
	uint64_t value = ((uint64_t)bytes << 32 | round) + 1 + LIMITS_COPY_OUT;

	if (rank == 0)
		flag_send(bytes, value);
	word_await(&shared->flag[rank][0], value);
	memcpy(sink, payload[rank], bytes);
	__asm__ volatile("" : : "r"(sink) : "memory");
	if (rank == 1)
		flag_send(bytes, value);
}

static void round_fetch_add(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	__atomic_fetch_add(&shared->sum[0], 1, __ATOMIC_ACQ_REL);
}

static void round_barrier(size_t bytes, uint64_t round)
{
	(void)bytes;
	(void)round;
	limits_barrier();
}

/* The loop of fixed length is one that gcc 12 makes vectors of at -O2. */
static LIMITS_SIMD void floats_add(float *restrict to, const float *left, const float *right,
				   size_t count)
{
	size_t i;

	if (count == LIMITS_SLICE)
		for (i = 0; i < LIMITS_SLICE; i++)
			to[i] = left[i] + right[i];
	else
		for (i = 0; i < count; i++)
			to[i] = left[i] + right[i];
}

/* Returns the sums of the floats of all ranks from @at on, a slice at most, which are in @room. */
static const float *slice_add(float room[2][LIMITS_SLICE], const float *const *inputs, size_t at,
			      size_t count)
{
	const float *sum = inputs[0] + at;
	unsigned i;

	for (i = 1; i < ranks; i++) {
		floats_add(room[i % 2], sum, inputs[i] + at, count);
		sum = room[i % 2];
	}
	return sum;
}

/*
 * Each rank publishes its elements and adds those of all. A rank that writes to a line again has
 * seen the step between of all ranks, which had added before.
 */
static void reduce_one_shot(size_t bytes)
{
	struct few *few = shared->few[++step % 2];
	const float *inputs[LIMITS_REDUCING];
	float room[2][LIMITS_SLICE];
	unsigned i;

	memcpy(few[rank].elements, source, bytes);
	__atomic_store_n(&few[rank].step, step, __ATOMIC_RELEASE);
	for (i = 0; i < ranks; i++) {
		word_await(&few[i].step, step);
		inputs[i] = few[i].elements;
	}
	memcpy(sink, slice_add(room, inputs, 0, bytes / sizeof(float)), bytes);
	__asm__ volatile("" : : "r"(sink) : "memory");
}

/* Each part of the payloads is read by its owner alone, which writes the sums to all of them. */
static void reduce_by_owners(size_t bytes)
{
	size_t part = bytes / ranks, begin = part * rank, end = begin + part, at;
	const float *inputs[LIMITS_REDUCING], *sum;
	float room[2][LIMITS_SLICE];
	unsigned i;

	memcpy(payload[rank], source, begin);
	memcpy(payload[rank] + end, source + end, bytes - end);
	limits_barrier();
	for (i = 0; i < ranks; i++)
		inputs[i] = (const float *)(void *)(i == rank ? source : payload[i]);
	for (at = begin; at < end; at += sizeof(room[0])) {
		sum = slice_add(room, inputs, at / sizeof(float), LIMITS_SLICE);
		for (i = 0; i < ranks; i++)
			memcpy(payload[i] + at, sum, sizeof(room[0]));
	}
	limits_barrier();
}

/* As src/coll/reduce_run.c does it. */
static void round_all_reduce(size_t bytes, uint64_t round)
{
	(void)round;
	if (bytes <= LIMITS_FEW * sizeof(float))
		reduce_one_shot(bytes);
	else
		reduce_by_owners(bytes);
}

static const struct peer_case case_memcpy = {"memcpy", "hot", true, PEER_ONE, round_memcpy, false};
static const struct peer_case case_store_flag = {"put_signal_lat", "one way",        false,
						 PEER_ROUND_TRIP,  round_store_flag, false};
static const struct peer_case case_copy_out = {"send_recv_lat", "one way",      false,
					       PEER_ROUND_TRIP, round_copy_out, false};
static const struct peer_case case_fetch_add = {"fetch_add", "uncontended",   true,
						PEER_ONE,    round_fetch_add, false};
static const struct peer_case case_contended = {"fetch_add", "contended",     false,
						PEER_ONE,    round_fetch_add, true};
static const struct peer_case case_barrier = {"barrier", "all",         false,
					      PEER_ONE,  round_barrier, false};
static const struct peer_case case_all_reduce = {"all_reduce", "fp32 sum",       false,
						 PEER_ONE,     round_all_reduce, false};

static void limits_measure(void)
{
	static const size_t sizes[] = {8, 4096, 65536, 1 << 20, LIMITS_MAX};
	static const size_t reduced[] = {8, 65536, 1 << 20, LIMITS_MAX};
	struct peer_job job = {"limit", rank, ranks, limits_barrier, limits_from_origin};
	size_t i;

	for (i = 0; ranks == 2 && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		peer_measure(&job, &case_memcpy, sizes[i]);
		peer_measure(&job, &case_store_flag, sizes[i]);
	}
	for (i = 0; ranks == 2 && i < 3; i++)
		peer_measure(&job, &case_copy_out, sizes[i]);
	if (ranks == 2) {
		peer_measure(&job, &case_fetch_add, 0);
		peer_measure(&job, &case_contended, 0);
	}
	peer_measure(&job, &case_barrier, 0);
	/* In equal parts. */
	for (i = 0; LIMITS_REDUCING % ranks == 0 && i < sizeof(reduced) / sizeof(reduced[0]); i++)
		peer_measure(&job, &case_all_reduce, reduced[i]);
}

static void *limits_share(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("limits: mmap");
		exit(1);
	}
	return memset(memory, 0, bytes);
}

static void limits_pin(const cpu_set_t *allowed)
{
	unsigned place = rank;
	cpu_set_t one;
	int core;

	for (core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, allowed) || place-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

int main(int argc, char **argv)
{
	cpu_set_t allowed;
	int status, failed = 0;
	unsigned i;

	ranks = argc > 1 ? (unsigned)atoi(argv[1]) : 2;
	if (ranks < 2 || ranks > LIMITS_RANKS) {
		fprintf(stderr, "usage: limits RANKS (2 to %d)\n", LIMITS_RANKS);
		return 2;
	}
	sched_getaffinity(0, sizeof(allowed), &allowed);
	is_oversubscribed = ranks > (unsigned)CPU_COUNT(&allowed);
	shared = limits_share(sizeof(*shared));
	for (i = 0; i < LIMITS_REDUCING; i++)
		payload[i] = limits_share(LIMITS_MAX);
	for (rank = ranks - 1; rank > 0; rank--)
		if (fork() == 0)
			break;
	if (!is_oversubscribed)
		limits_pin(&allowed);
	source = peer_memory(LIMITS_MAX);
	sink = peer_memory(LIMITS_MAX);
	limits_measure();
	while (rank == 0 && wait(&status) > 0)
		failed |= status;
	return failed ? 1 : 0;
}
