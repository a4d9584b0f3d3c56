/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the machine, without any library: plain copies, a store with a flag, an atomic add
 * and a barrier between processes that share memory. run.py calls it. `limits N` starts N ranks;
 * more ranks than cores yield instead of spinning.
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
#define LIMITS_LINE 16                      /* words of a cache line */
#define LIMITS_COPY_OUT ((uint64_t)1 << 60) /* its flags are above those of other rows */

/* One word in each cache line; rows are ranks. */
struct shared {
	uint64_t flag[LIMITS_RANKS][LIMITS_LINE];
	uint64_t epoch[LIMITS_RANKS][LIMITS_LINE];
	uint64_t sum[LIMITS_LINE];
	uint64_t broadcast; /* the value of limits_from_origin() */
};

static struct shared *shared;
static char *payload[2]; /* of ranks 0 and 1, shared */
static char *source, *sink;
static unsigned rank, ranks;
static bool is_oversubscribed;
static uint64_t epoch;

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

static void limits_measure(void)
{
	static const size_t sizes[] = {8, 4096, 65536, 1 << 20, LIMITS_MAX};
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

	ranks = argc > 1 ? (unsigned)atoi(argv[1]) : 2;
	if (ranks < 2 || ranks > LIMITS_RANKS) {
		fprintf(stderr, "usage: limits RANKS (2 to %d)\n", LIMITS_RANKS);
		return 2;
	}
	sched_getaffinity(0, sizeof(allowed), &allowed);
	is_oversubscribed = ranks > (unsigned)CPU_COUNT(&allowed);
	shared = limits_share(sizeof(*shared));
	payload[0] = limits_share(LIMITS_MAX);
	payload[1] = limits_share(LIMITS_MAX);
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
