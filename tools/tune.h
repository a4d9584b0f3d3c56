/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `oriel tune`. tune.c: options and measuring. tune_file.c: the file. */
#ifndef ORIEL_TUNE_TOOL_H
#define ORIEL_TUNE_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include <oriel/oriel.h>

#define TUNE_SIZES 32u

enum tune_collective {
	TUNE_ALLGATHER,
	TUNE_ALLTOALL,
	TUNE_BCAST,
	TUNE_ALLREDUCE,      /* on GPUs of one node only */
	TUNE_REDUCE_SCATTER, /* the same */
	TUNE_REDUCE,         /* host memory only */
	TUNE_COLLECTIVES
};

struct tune_job {
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;
	struct oriel_tune_info info;
	struct CUstream_st *stream; /* NULL: host memory */
	unsigned rank, ranks;
	char *send, *result; /* bytes per rank of the largest size */
	size_t most;
	double *all; /* times of all ranks */
	bool is_json;
	unsigned best[TUNE_COLLECTIVES][TUNE_SIZES];
	unsigned rest[TUNE_COLLECTIVES]; /* beyond the largest size */
};

/* "all-gather", as the file has it. */
const char *tune_collective_name(enum tune_collective which);
/* How many of them there are in the memory that is measured, from the first on. */
unsigned tune_collectives(const struct tune_job *job);
/* The sizes that are measured, from small to large. */
size_t tune_size(unsigned index);
unsigned tune_sizes(const struct tune_job *job);

/* Can @file be written? It stays as it is; missing folders are created. Prints the reason. */
bool tune_file_check(const char *file);
/* Replace the lines of @job in @file, and keep all others. */
bool tune_file_write(const struct tune_job *job, const char *file);

#endif
