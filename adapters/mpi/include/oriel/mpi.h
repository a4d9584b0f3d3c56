/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators for programs of MPI, in liboriel_mpi: the ranks of an MPI communicator become those
 * of Oriel. One source serves Open MPI and MPICH; the library is built for one of them.
 */
#ifndef ORIEL_MPI_H
#define ORIEL_MPI_H

#include <mpi.h>

#include <oriel/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Create a communicator of the ranks of @mpi, with their numbers. Collective over @mpi, between
 * MPI_Init() and MPI_Finalize(); all ranks get the same status. The ranks use @mpi during the call
 * alone: rank 0 broadcasts a job id (oriel/bootstrap.h), and they meet by that. No variable of a
 * launcher is read. oriel_comm_destroy() ends @comm, before or after @mpi is freed.
 *
 * ORIEL_ERR_STATE: MPI is not running. ORIEL_ERR_INVALID: @mpi is MPI_COMM_NULL or an
 * intercommunicator, or @comm is NULL. ORIEL_ERR_SYSTEM: MPI has failed, where its error handler
 * returns. Further errors are those of oriel_comm_create().
 */
enum oriel_status oriel_mpi_comm_create(MPI_Comm mpi, const struct oriel_comm_attr *attr,
					struct oriel_comm **comm);

#ifdef __cplusplus
}
#endif

#endif
