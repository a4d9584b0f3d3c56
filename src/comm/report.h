/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that a communicator logs at level info as it is created (docs/logging.md). Rank 0
 * logs what holds for the job; another rank logs only what differs from rank 0. For that, the
 * first records that ranks exchange have digests of such lines. comm.c and comm_nics.c call it.
 */
#ifndef ORI_COMM_REPORT_H
#define ORI_COMM_REPORT_H

#include "comm/comm.h"

#define ORI_REPORT_SETTINGS 62u

/* Equal numbers: equal lines. Goes over the wire as it is. */
struct ori_report {
	uint32_t settings[ORI_REPORT_SETTINGS]; /* of each value, by its index; 0 beyond */
	uint32_t memory;
	uint32_t limits;
};

static_assert(sizeof(struct ori_report) == 256, "struct ori_report goes over the wire");

/* Values that the caller of oriel_comm_create() may have set instead of the environment. */
struct ori_report_given {
	const char *node;
	const char *topology; /* NULL: not set */
	const char *connect;  /* as ORIEL_CONNECT has it */
};

/* The digests of this rank. */
void ori_report_make(const struct oriel_comm *comm, const struct ori_report_given *given,
		     struct ori_report *report);

/* @comm has its hosts: logs settings, host, memory and limits. */
void ori_report_join(const struct oriel_comm *comm, const struct ori_report_given *given,
		     const struct ori_report *mine, const struct ori_report *of_rank_0);

/* Logs the paths, whose reasons name the kind of the NICs once these are open. */
void ori_report_paths(const struct oriel_comm *comm);

/* The digest of the line about the NICs of this rank, of which @nic is the first. */
uint32_t ori_report_nics_digest(const struct oriel_comm *comm, const struct oriel_nic *nic);
/* @of_rank_0: that digest of rank 0; 0 if it has no NICs. */
void ori_report_nics(const struct oriel_comm *comm, const struct oriel_nic *nic,
		     uint32_t of_rank_0);

/* @comm is complete: logs its domain and CPUs. */
void ori_report_end(const struct oriel_comm *comm);

#endif
