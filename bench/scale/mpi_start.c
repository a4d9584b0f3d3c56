/* SPDX-License-Identifier: Apache-2.0 */
/* Open MPI: what start.c does, by MPI's functions. run.py starts it. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LENGTH 4096

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	const char *start = getenv("START_NS");
	double begun = start ? strtod(start, NULL) / 1e3 : now(), ready, last;
	uint64_t word = 1;
	int rank, size;
	MPI_Win window;
	void *memory;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Win_allocate(LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	MPI_Win_lock_all(0, window);
	MPI_Put(&word, 8, MPI_BYTE, (rank + size / 2) % size, 0, 8, MPI_BYTE, window);
	MPI_Win_flush_all(window);
	ready = now() - begun;
	MPI_Reduce(&ready, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"ranks\": %d, \"as\": \"mpirun\", \"ready_us_max\": %.0f}\n", size, last);
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
