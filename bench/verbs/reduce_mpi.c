/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_mpi BYTES...: the medians of MPI_Allreduce of fp32 in us, as the rows that peer.h prints.
 * reduce.py runs it in the virtual machine, where a call takes milliseconds: a second each will do.
 */
#include <mpi.h>
#include <stdlib.h>

#include "peer.h"

#define REDUCE_WARM 10
#define REDUCE_ROUNDS 200
#define REDUCE_US 1e6

static void measure(const struct peer_job *job, size_t bytes)
{
	char *from = peer_memory(bytes), *to = peer_memory(bytes);
	double us[REDUCE_ROUNDS], begin, sum = 0;
	int rounds = -REDUCE_WARM, is_done = 0;

	while (!is_done) {
		MPI_Barrier(MPI_COMM_WORLD);
		begin = peer_now_us();
		MPI_Allreduce(from, to, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
			      MPI_COMM_WORLD);
		if (rounds >= 0) {
			us[rounds] = peer_now_us() - begin;
			sum += us[rounds];
		}
		rounds++;
		is_done = rounds == REDUCE_ROUNDS || (rounds > 0 && sum > REDUCE_US);
		MPI_Bcast(&is_done, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	peer_print(job, "all_reduce", "fp32 sum", bytes, peer_median(us, (size_t)rounds));
	free(from);
	free(to);
}

int main(int argc, char **argv)
{
	struct peer_job job = {.impl = "openmpi"};
	int rank, ranks, i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	job.rank = (unsigned)rank;
	job.ranks = (unsigned)ranks;
	for (i = 1; i < argc; i++)
		measure(&job, strtoul(argv[i], NULL, 10));
	MPI_Finalize();
	return 0;
}
