/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of ranks and seconds for error texts of the bootstraps. The files of the module call
 * it.
 */
#ifndef ORI_BOOTSTRAP_RANKS_H
#define ORI_BOOTSTRAP_RANKS_H

#include <stddef.h>
#include <stdint.h>

#define ORI_RANKS_NAMED 8
#define ORI_RANKS_LENGTH 160

struct ori_ranks {
	unsigned count;
	unsigned first[ORI_RANKS_NAMED];
};

void ori_ranks_add(struct ori_ranks *ranks, unsigned rank);

/* Write "rank 2 of 4", "ranks 1, 2 of 4", "ranks 1, .. 8 and 12 more of 64"; returns @text. */
const char *ori_ranks_text(const struct ori_ranks *ranks, unsigned size,
			   char text[ORI_RANKS_LENGTH]);

static inline double ori_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

#endif
