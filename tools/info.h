/* SPDX-License-Identifier: Apache-2.0 */
/* The job as `oriel info` prints it: ranks, the paths between them, and the reasons. */
#ifndef ORIEL_INFO_H
#define ORIEL_INFO_H

#include <stdbool.h>

#include <oriel/bootstrap.h>
#include <oriel/comm.h>

#include "json.h"

#define INFO_REASON 240

/* Pairs of ranks that are not mapped to each other for the same reason. */
struct info_reason {
	uint32_t path;
	unsigned pairs;
	unsigned from; /* one of these pairs */
	unsigned to;
	char text[INFO_REASON];
};

struct info_job {
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;    /* NULL without a job */
	struct CUstream_st *stream; /* of this rank's GPU; NULL without --gpu */
	unsigned rank;
	unsigned size;
	struct info_reason *reasons; /* of all pairs, on rank 0 */
	unsigned reason_count;
};

/*
 * Collective. After a failure oriel_last_error() has the cause, and the job must be closed
 * nevertheless.
 */
enum oriel_status info_job_open(struct info_job *job, bool is_gpu);
void info_job_close(struct info_job *job);

/* False without memory. */
bool info_job_print(const struct info_job *job);
void info_job_write(const struct info_job *job, struct json *json);

/* The GPUs of the ranks of a job that was opened with them. */
bool info_gpus_print(const struct info_job *job);
void info_gpus_write(const struct info_job *job, struct json *json);

#endif
