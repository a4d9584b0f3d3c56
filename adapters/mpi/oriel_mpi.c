/* SPDX-License-Identifier: Apache-2.0 */
/* oriel_mpi_comm_create(): rank 0 of an MPI communicator broadcasts a job id. Programs call it. */
#include <oriel/mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MPI_TEXT 512

/* Broadcast by rank 0: the id, or why there is none. All ranks run one program. */
struct mpi_offer {
	int32_t status;
	char text[MPI_TEXT];
	struct oriel_job_id id;
};

static enum oriel_status mpi_failed(const char *call, int error)
{
	char why[MPI_MAX_ERROR_STRING] = "", text[MPI_TEXT];
	int length;

	(void)MPI_Error_string(error, why, &length);
	snprintf(text, sizeof(text), "oriel_mpi_comm_create: %s: %.400s", call, why);
	return oriel_error_set(ORIEL_ERR_SYSTEM, text);
}

/* All ranks of a program see these alike, so that none of them waits for another. */
static enum oriel_status mpi_check(MPI_Comm mpi)
{
	int is_begun = 0, is_over = 0, is_inter = 0, error;

	(void)MPI_Initialized(&is_begun);
	(void)MPI_Finalized(&is_over);
	if (!is_begun || is_over)
		return oriel_error_set(ORIEL_ERR_STATE,
				       is_over ? "oriel_mpi_comm_create: MPI is finalized"
					       : "oriel_mpi_comm_create: MPI is not initialized");
	if (mpi == MPI_COMM_NULL)
		return oriel_error_set(ORIEL_ERR_INVALID,
				       "oriel_mpi_comm_create: mpi is MPI_COMM_NULL");
	error = MPI_Comm_test_inter(mpi, &is_inter);
	if (error != MPI_SUCCESS)
		return mpi_failed("MPI_Comm_test_inter", error);
	if (is_inter)
		return oriel_error_set(ORIEL_ERR_INVALID,
				       "oriel_mpi_comm_create: mpi is an intercommunicator");
	return ORIEL_OK;
}

/* An argument that is NULL on one rank fails on all: the others would wait for that rank. */
static enum oriel_status mpi_agree(MPI_Comm mpi, bool is_valid)
{
	int mine = is_valid, all = 0, error;

	error = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, mpi);
	if (error != MPI_SUCCESS)
		return mpi_failed("MPI_Allreduce", error);
	if (!all)
		return oriel_error_set(ORIEL_ERR_INVALID,
				       "oriel_mpi_comm_create: comm is NULL on a rank");
	return ORIEL_OK;
}

static void mpi_offer(struct mpi_offer *offer)
{
	memset(offer, 0, sizeof(*offer));
	offer->status = oriel_job_id_open(&offer->id);
	if (offer->status != ORIEL_OK)
		snprintf(offer->text, sizeof(offer->text), "rank 0: %.500s", oriel_last_error());
}

static enum oriel_status mpi_meet(MPI_Comm mpi, int rank, int size,
				  const struct oriel_comm_attr *attr, struct oriel_comm **comm)
{
	struct mpi_offer offer;
	enum oriel_status status;
	int error;

	if (rank == 0)
		mpi_offer(&offer);
	error = MPI_Bcast(&offer, sizeof(offer), MPI_BYTE, 0, mpi);
	if (error != MPI_SUCCESS)
		status = mpi_failed("MPI_Bcast", error);
	else if (offer.status != ORIEL_OK)
		return oriel_error_set((enum oriel_status)offer.status, offer.text);
	else
		status =
			oriel_comm_create_id(&offer.id, (unsigned)rank, (unsigned)size, attr, comm);
	if (rank == 0 && offer.status == ORIEL_OK)
		(void)oriel_job_id_close(&offer.id);
	explicit_bzero(&offer, sizeof(offer)); /* it has the key */
	return status;
}

/* The other functions of this library are not exported. */
__attribute__((visibility("default"))) enum oriel_status
oriel_mpi_comm_create(MPI_Comm mpi, const struct oriel_comm_attr *attr, struct oriel_comm **comm)
{
	enum oriel_status status = mpi_check(mpi);
	int rank, size, error;

	if (status == ORIEL_OK)
		status = mpi_agree(mpi, comm != NULL);
	if (status != ORIEL_OK)
		return status;
	error = MPI_Comm_rank(mpi, &rank);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_size(mpi, &size);
	if (error != MPI_SUCCESS)
		return mpi_failed("MPI_Comm_rank", error);
	return mpi_meet(mpi, rank, size, attr, comm);
}
