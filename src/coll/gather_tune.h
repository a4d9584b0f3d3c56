/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of `oriel tune`: found, read, looked into. */
#ifndef ORI_COLL_GATHER_TUNE_H
#define ORI_COLL_GATHER_TUNE_H

#include <oriel/allgather.h>
#include <oriel/tune.h>

#define ORI_TUNE_ROWS 64u       /* of one machine */
#define ORI_TUNE_ANY UINT64_MAX /* of a row that takes what there is */

enum ori_collective { ORI_ALLGATHER, ORI_ALLTOALL, ORI_BCAST, ORI_COLLECTIVES };

/* "all-gather", ... */
const char *ori_collective_name(enum ori_collective collective);

struct ori_tune_row {
	enum ori_collective collective;
	enum oriel_algorithm algorithm;
	uint64_t bytes; /* of each rank, at most */
	unsigned line;  /* of the file */
};

/* Which rows are meant. */
struct ori_tune_key {
	const char *machine;
	bool is_gpu;
	unsigned ranks, nodes;
};

struct ori_tune {
	struct ori_tune_row rows[ORI_TUNE_ROWS]; /* of a collective in the order of their bytes */
	unsigned count;
	uint64_t digest; /* of the rows; 0: there are none */
};

/*
 * Those rows of @text, the @length bytes of file @name, that have @key. Every line must
 * be one; ORIEL_ERR_CONFIG names the first that is not.
 */
enum oriel_status ori_tune_parse(const char *text, size_t length, const char *name,
				 const struct ori_tune_key *key, struct ori_tune *tune);

/*
 * The rows of file @path that have @key. Where the user has not asked for the file, one that
 * is missing has no rows, and any other fault of it is a warning, once, and no rows; else
 * both are ORIEL_ERR_CONFIG. Never waits: what is not a regular file is such a fault.
 */
enum oriel_status ori_tune_read(const char *path, bool is_asked_for, const struct ori_tune_key *key,
				struct ori_tune *tune);

/* What the settings say is to be read: @tune for @comm of @nodes, and where that is from. */
enum oriel_status ori_tune_load(const struct oriel_comm *comm, bool is_gpu, unsigned nodes,
				struct ori_tune *tune, struct oriel_tune_info *info);

/* The row of @collective for @bytes; NULL: there is none. */
const struct ori_tune_row *ori_tune_row(const struct ori_tune *tune, enum ori_collective collective,
					uint64_t bytes);

#endif
