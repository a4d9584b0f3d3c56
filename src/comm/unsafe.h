/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the user that other processes map, of a communicator that may be shrunk. */
#ifndef ORI_COMM_UNSAFE_H
#define ORI_COMM_UNSAFE_H

#include "comm/comm.h"

/* The process of each mapped rank has, or gets, a mapping of this memory. share.c calls it. */
enum oriel_status ori_unsafe_note(struct oriel_comm *comm, const struct ori_mem *mem,
				  const void *address, size_t length);

#endif
