/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in turns; dev/data.h and collectives call it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_DATA_H
#define ORIEL_DEV_DETAIL_DATA_H

#include <oriel/dev/detail/rdma.h>

/*
 * Bytes that one of the groups that put together puts before it is the next one's turn: all
 * write to one area of the target. 132 blocks put 370 GB/s from one H200 to another that way,
 * and 348 if each has a part of 256 MiB to itself (oriel_rows, put_bw).
 */
#define ORIEL_DEV_TURN 65536u

/* Whole group: every @parts-th turn of a copy, from turn @part on. */
ORIEL_DEV void ori_dev_mapped_copy_turns(struct oriel_dev_group g, uint32_t part, uint32_t parts,
					 char *to, const char *from, uint64_t length)
{
	uint64_t at, step = (uint64_t)parts * ORIEL_DEV_TURN;

	ORIEL_DEV_ROLL
	for (at = (uint64_t)part * ORIEL_DEV_TURN; at < length; at += step)
		ori_dev_mapped_copy(g, to + at, from + at,
				    length - at < ORIEL_DEV_TURN ? length - at : ORIEL_DEV_TURN);
}

#endif
