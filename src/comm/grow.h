/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a new communicator that both sides of a grow share. newcomer.c calls it. */
#ifndef ORI_COMM_GROW_H
#define ORI_COMM_GROW_H

#include "comm/grow_frame.h"

/*
 * The ranks of @comm, in their order, are those from @first on of @made, which has epoch @epoch;
 * @comm NULL: this process was in none. A communicator that was shrunk before keeps its listeners
 * with @made.
 */
enum oriel_status ori_grow_settle(struct oriel_comm *comm, struct oriel_comm *made, unsigned first,
				  uint64_t epoch);

#endif
