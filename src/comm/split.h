/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a communicator: where some of its ranks can meet. shrink.c and grow.c call it. */
#ifndef ORI_COMM_SPLIT_H
#define ORI_COMM_SPLIT_H

#include "bootstrap/part.h"
#include "comm/comm.h"

/* The extent of the part that the @count ranks @ranks of @comm make; NULL: all of its ranks. */
enum ori_part_extent ori_split_extent(const struct oriel_comm *comm, const uint32_t *ranks,
				      unsigned count);

/* ori_part_open() with the key of @comm; join->key is NULL. */
enum oriel_status ori_comm_join_part(const struct oriel_comm *comm, struct ori_part_join *join,
				     struct oriel_bootstrap *own);

#endif
