/* SPDX-License-Identifier: Apache-2.0 */
/* A program of MPI: without MPI_Init() it gets an error, and needs no launcher. */
#include <oriel/mpi.h>

#include <stdio.h>

int main(void)
{
	struct oriel_comm *comm;

	if (oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm) != ORIEL_ERR_STATE)
		return 1;
	printf("%s %s\n", oriel_version(), oriel_last_error());
	return 0;
}
