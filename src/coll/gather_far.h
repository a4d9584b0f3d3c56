/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An all-gather of GPU memory over several nodes, by a job of the communicator's
 * thread: between nodes by puts of p2p, within a node by copy engines. It follows
 * the plans of gather_plan.h.
 */
#ifndef ORI_COLL_GATHER_FAR_H
#define ORI_COLL_GATHER_FAR_H

#include "coll/gather.h"

struct ori_far;

/* Collective; @g has its window, its view and its plans. @length: of the view. */
enum oriel_status ori_far_open(struct oriel_allgather *g, size_t length);
/* Collective. NULL is allowed. Nothing is under way any more, or the communicator is broken. */
void ori_far_close(struct ori_far *far);

/*
 * One execution at its place in @stream; the message is at its place in the view
 * once the stream has come there.
 */
enum oriel_status ori_far_start(struct oriel_allgather *g, const struct ori_plan *plan,
				size_t bytes, size_t chunk, void *stream);

#endif
