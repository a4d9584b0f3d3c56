/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the user that other processes map, of a communicator that may be shrunk. */
#ifndef ORI_COMM_UNSAFE_H
#define ORI_COMM_UNSAFE_H

#include "comm/comm.h"

/*
 * The process of mapped @rank, or with ORIEL_NO_RANK of each, has, or gets, a mapping of this
 * memory. share.c and the endpoints of p2p call it. Any thread.
 */
enum oriel_status ori_unsafe_note(struct oriel_comm *comm, unsigned rank, const struct ori_mem *mem,
				  const void *address, size_t length);

#endif
