/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a peer's program: one process per GPU, and an identifier that rank 0 makes and
 * all ranks need. nccl_rows.cu and nvshmem_rows.cu call it, before anything touches CUDA.
 */
#ifndef BENCH_GPU_START_H
#define BENCH_GPU_START_H

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_RANKS_MAX 8
#define START_SECONDS 60 /* a program that hangs ends then */

/* In memory that all processes share. */
template <typename Id> struct meeting_place {
	Id id;
	int is_there;
};

template <typename Id> static struct meeting_place<Id> *start_place(void) {
	void *at = mmap(NULL, sizeof(struct meeting_place<Id>), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(2);
	return (struct meeting_place<Id> *)at;
}

/* Returns the rank in each of @ranks new processes; the first process exits after all of them. */
static int
start_ranks(int ranks)
{
	int rank, status, failed = 0;

	if (ranks < 2 || ranks > START_RANKS_MAX)
		exit(2);
	for (rank = 0; rank < ranks; rank++)
		if (fork() == 0) {
			alarm(START_SECONDS);
			return rank;
		}
	while (wait(&status) > 0)
		failed |= status != 0;
	exit(failed);
}

template <typename Id> static void start_publish(struct meeting_place<Id> *place)
{
	__atomic_store_n(&place->is_there, 1, __ATOMIC_RELEASE);
}

template <typename Id> static void start_await(const struct meeting_place<Id> *place)
{
	while (!__atomic_load_n(&place->is_there, __ATOMIC_ACQUIRE))
		usleep(1000);
}

#endif
