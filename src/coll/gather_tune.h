/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of `oriel tune`: reads the file that the settings name and finds the row of a collective.
 * Called as objects are created, by oriel_tune_find(), and by gather_choose.c.
 */
#ifndef ORI_COLL_GATHER_TUNE_H
#define ORI_COLL_GATHER_TUNE_H

#include <oriel/coll.h>
#include <oriel/tune.h>

/* One more than the last; no program is compiled with it. gather_tune.c asserts it. */
#define ORI_ALGORITHMS ((unsigned)ORIEL_ALGORITHM_RECURSIVE + 1)

#define ORI_TUNE_ROWS 64u       /* for one key */
#define ORI_TUNE_ANY UINT64_MAX /* bytes of a row for any length */

enum ori_collective {
	ORI_ALLGATHER,
	ORI_ALLTOALL,
	ORI_BCAST,
	ORI_ALLREDUCE,
	ORI_REDUCE_SCATTER,
	ORI_REDUCE,
	ORI_GATHER,
	ORI_SCATTER,
	ORI_COLLECTIVES
};

/* "all-gather", ... */
const char *ori_collective_name(enum ori_collective collective);

struct ori_tune_row {
	enum ori_collective collective;
	enum oriel_algorithm algorithm;
	uint64_t bytes; /* the most, of each rank */
	unsigned line;  /* in the file */
};

/* Selects the rows of a file: all fields must match. */
struct ori_tune_key {
	const char *machine;
	bool is_gpu;
	unsigned ranks, nodes;
};

struct ori_tune {
	struct ori_tune_row rows[ORI_TUNE_ROWS]; /* of each collective in the order of bytes */
	unsigned count;
	uint64_t digest; /* hash of the rows; 0 without rows */
};

/*
 * Parses the @length bytes of @text, read from file @name, and stores the rows that match @key.
 * Every line must be valid; the text of ORIEL_ERR_CONFIG names the first that is not.
 */
enum oriel_status ori_tune_parse(const char *text, size_t length, const char *name,
				 const struct ori_tune_key *key, struct ori_tune *tune);

/*
 * Reads the rows of file @path that match @key. If a setting names the file (@is_requested), every
 * fault of it is ORIEL_ERR_CONFIG. Otherwise a missing file has no rows, and any other fault is a
 * warning, logged once, and no rows. Never blocks: a path that is not a regular file is such
 * a fault.
 */
enum oriel_status ori_tune_read(const char *path, bool is_requested, const struct ori_tune_key *key,
				struct ori_tune *tune);

/* Reads the table that the settings name for @comm on @nodes nodes; @info gets its path. */
enum oriel_status ori_tune_load(const struct oriel_comm *comm, bool is_gpu, unsigned nodes,
				struct ori_tune *tune, struct oriel_tune_info *info);

/* The row of @collective for messages of @bytes; NULL without one. */
const struct ori_tune_row *ori_tune_row(const struct ori_tune *tune, enum ori_collective collective,
					uint64_t bytes);

#endif
