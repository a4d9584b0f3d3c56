/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that CPU threads name in requests which they post to rings themselves, on NICs that do
 * not reach all memory by one key: unregistered memory is registered for the request.
 * rdma_links.c opens it, links lead their posters to it, which call it by oriel/dev/detail/rdma.h.
 *
 * No call reports that such a request has completed. Its registration ends when a thread names
 * other unregistered memory and both are known: the posting thread has come back, and the queue
 * has done all that had been posted then. Or it ends with the link. Until then its pages stay
 * pinned, also if they are unmapped meanwhile, but no other request uses the registration.
 */
#ifndef ORI_RDMA_RDMA_POSTED_H
#define ORI_RDMA_RDMA_POSTED_H

#include <oriel/dev/detail/link.h>

#include "rdma/rdma_memory.h"

struct ori_posted;
struct ori_posted_ref;

enum oriel_status ori_posted_open(struct ori_memory *memory, struct ori_posted **posted);
/* All links are closed. NULL is allowed. */
void ori_posted_close(struct ori_posted *posted);

/* For links of @rail whose posters are CPU threads. */
struct ori_dev_link_answers *ori_posted_answers(const struct ori_posted *posted, unsigned rail);

/*
 * No thread posts to @queue any more: take the registrations for its requests, to drop them
 * once its NIC touches no memory. @posted may be NULL.
 */
struct ori_posted_ref *ori_posted_take(struct ori_posted *posted,
				       const struct ori_dev_mlx5_queue *queue);
void ori_posted_drop(struct ori_posted *posted, struct ori_posted_ref *refs);

#endif
