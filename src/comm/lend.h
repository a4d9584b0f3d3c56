/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that peers map at their first touch: the owner keeps its descriptors, and its watcher
 * gives them to a peer that asks. Windows in host memory call it where more than ORI_LENDING_RANKS
 * ranks are mapped; mesh.c keeps the socket at which peers ask, the watcher answers.
 */
#ifndef ORI_COMM_LEND_H
#define ORI_COMM_LEND_H

#include "comm/share.h"

struct ori_loan;

/*
 * Local, before all ranks agree: peers may ask for window @number from then on. The memory of
 * @offering stays referenced.
 */
enum oriel_status ori_lend_begin(struct oriel_comm *comm, uint32_t number,
				 const struct ori_offering *offering, struct ori_loan **loan);
/* No peer asks any more, unless the communicator is broken. NULL is allowed. */
void ori_lend_end(struct oriel_comm *comm, struct ori_loan *loan);

/*
 * Any thread but the watcher: maps what @peer, of another process, lends for its window @number, as
 * @blobs describe it, to @maps; both have ORI_SHARE_PIECES entries. Waits for half of the timeout
 * at most. On failure nothing is mapped, and the communicator goes on.
 */
enum oriel_status ori_lend_borrow(struct oriel_comm *comm, unsigned peer, uint32_t number,
				  const struct ori_mem_blob *blobs, struct ori_mapping *maps);

/* The descriptor that is readable when ori_lend_serve() has work; -1: this rank does not lend. */
int ori_lend_fd(const struct oriel_comm *comm);
/* The watcher: answers peers that ask. Never waits. */
void ori_lend_serve(struct oriel_comm *comm);

#endif
