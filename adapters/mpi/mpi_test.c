/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_test [environment]: tests of oriel_mpi.c, as a program of MPI with any number of ranks from 2
 * on. With "environment", whether Oriel finds the launcher beside MPI in one process.
 */
#include <oriel/mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 64

static int rank, size, failures;

#define CHECK(claim)                                                                              \
	do {                                                                                      \
		if (!(claim)) {                                                                   \
			fprintf(stderr, "rank %d: line %d: not true: %s; last error: %s\n", rank, \
				__LINE__, #claim, oriel_last_error());                            \
			failures++;                                                               \
		}                                                                                 \
	} while (0)

/* The ranks of @comm are those of @mpi, and reach each other. */
static void check_comm(struct oriel_comm *comm, MPI_Comm mpi)
{
	unsigned all[RANKS_MAX] = {0}, mine;
	int own, ranks, i;

	MPI_Comm_rank(mpi, &own);
	MPI_Comm_size(mpi, &ranks);
	mine = (unsigned)own + 100;
	CHECK(oriel_comm_rank(comm) == (unsigned)own);
	CHECK(oriel_comm_size(comm) == (unsigned)ranks);
	CHECK(oriel_comm_all_gather(comm, &mine, all, sizeof(mine)) == ORIEL_OK);
	for (i = 0; i < ranks; i++)
		CHECK(all[i] == (unsigned)i + 100);
}

static void test_two_communicators_live_at_once(void)
{
	struct oriel_comm *world = NULL, *half = NULL;
	MPI_Comm split;

	CHECK(oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, &world) == ORIEL_OK);
	/* Ranks of the halves are in the reverse order. */
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &split);
	CHECK(oriel_mpi_comm_create(split, NULL, &half) == ORIEL_OK);
	if (!world || !half)
		return;
	check_comm(world, MPI_COMM_WORLD);
	check_comm(half, split);
	MPI_Comm_free(&split);
	CHECK(oriel_comm_barrier(half) == ORIEL_OK);
	CHECK(oriel_comm_destroy(half) == ORIEL_OK);
	check_comm(world, MPI_COMM_WORLD);
	CHECK(oriel_comm_destroy(world) == ORIEL_OK);
}

static void test_a_failure_of_rank_0_is_that_of_all(void)
{
	struct oriel_comm *comm = NULL;

	if (rank == 0)
		setenv("ORIEL_JOB_KEY", "no hex", 1);
	CHECK(oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm) == ORIEL_ERR_CONFIG);
	CHECK(strstr(oriel_last_error(), "rank 0: ORIEL_JOB_KEY may be") != NULL);
	unsetenv("ORIEL_JOB_KEY");
}

static void test_a_bad_attribute_of_one_rank_is_an_error_of_all(void)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .queue_depth = rank == 1 ? 3 : 0};
	struct oriel_comm *comm = NULL;

	CHECK(oriel_mpi_comm_create(MPI_COMM_WORLD, &attr, &comm) == ORIEL_ERR_INVALID);
	CHECK(strstr(oriel_last_error(), "queue_depth is 3") != NULL);
	CHECK(oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, rank == 1 ? NULL : &comm) ==
	      ORIEL_ERR_INVALID);
	CHECK(oriel_mpi_comm_create(MPI_COMM_NULL, NULL, &comm) == ORIEL_ERR_INVALID);
	CHECK(comm == NULL);
}

static void test_an_intercommunicator_is_rejected(void)
{
	struct oriel_comm *comm = NULL;
	MPI_Comm half, inter;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 7, &inter);
	CHECK(oriel_mpi_comm_create(inter, NULL, &comm) == ORIEL_ERR_INVALID);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void test_the_launcher_is_found_beside_mpi(void)
{
	struct oriel_comm *comm = NULL;

	CHECK(oriel_comm_create(NULL, NULL, &comm) == ORIEL_OK);
	if (!comm)
		return;
	check_comm(comm, MPI_COMM_WORLD);
	CHECK(oriel_comm_destroy(comm) == ORIEL_OK);
}

int main(int argc, char **argv)
{
	struct oriel_comm *comm = NULL;
	int all = 0;

	CHECK(oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm) == ORIEL_ERR_STATE);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	CHECK(size >= 2 && size <= RANKS_MAX);
	if (argc > 1 && strcmp(argv[1], "environment") == 0) {
		test_the_launcher_is_found_beside_mpi();
	} else {
		test_two_communicators_live_at_once();
		test_a_failure_of_rank_0_is_that_of_all();
		test_a_bad_attribute_of_one_rank_is_an_error_of_all();
		test_an_intercommunicator_is_rejected();
	}
	MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	CHECK(oriel_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm) == ORIEL_ERR_STATE);
	if (rank == 0 && all + failures == 0)
		printf("all %d ranks pass\n", size);
	return all + failures > 0;
}
