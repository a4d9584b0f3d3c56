/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/launch.md: a communicator of all ranks of MPI. */
#include <oriel/mpi.h>

#include <stdio.h>

/* [main] */
int main(int argc, char **argv)
{
	struct oriel_comm *comm;

	MPI_Init(&argc, &argv);
	if (oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm) != ORIEL_OK) {
		fprintf(stderr, "%s\n", oriel_last_error());
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	printf("rank %u of %u\n", oriel_comm_rank(comm), oriel_comm_size(comm));
	oriel_comm_destroy(comm);
	MPI_Finalize();
	return 0;
}
/* [/main] */
