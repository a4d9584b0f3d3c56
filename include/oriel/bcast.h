/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent broadcast: created once over memory of every rank, executed any number of times, with
 * any rank as the root. Users call it; docs/allgather.md has the algorithms and why they are
 * correct.
 *
 *   struct oriel_view view = {.size = sizeof(view), .kind = ORIEL_VIEW_BUFFER,
 *                             .length = bytes, .buffer = result};
 *   oriel_bcast_create(comm, &view, NULL, &bcast);
 *   oriel_bcast_run(bcast, root, send, bytes);
 */
#ifndef ORIEL_BCAST_H
#define ORIEL_BCAST_H

#include <oriel/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_bcast;

/*
 * Collective: the contract and the attributes of oriel_allgather_create() apply, but the setting
 * ORIEL_ALLGATHER does not. Algorithms: DIRECT, from the root to every rank; RING, from one rank to
 * the next, in chunks; BRUCK, along a binomial tree, in chunks. GPUs of one domain have STORE and
 * CE instead, both from the root to every rank. On GPUs of several domains RING and BRUCK go from
 * domain to domain, and one rank of each domain copies to the others.
 */
enum oriel_status oriel_bcast_create(struct oriel_comm *comm, const struct oriel_view *view,
				     const struct oriel_coll_attr *attr,
				     struct oriel_bcast **bcast);

/* The contract of oriel_allgather_destroy() applies. */
enum oriel_status oriel_bcast_destroy(struct oriel_bcast *bcast);

/*
 * One execution: @bytes bytes at @send of rank @root are written to the beginning of the view of
 * every rank, the root included. @root and @bytes are equal on all ranks; @bytes is at most the
 * length of the shortest view. Only the root reads @send, which is the beginning of its view (in
 * place), or does not overlap the view. oriel/coll.h has the contract of each form.
 * ORIEL_ERR_RANGE also if @root is not a rank.
 */
enum oriel_status oriel_bcast_run(struct oriel_bcast *bcast, unsigned root, const void *send,
				  size_t bytes);
enum oriel_status oriel_bcast_run_on_stream(struct oriel_bcast *bcast, unsigned root,
					    const void *send, size_t bytes,
					    struct CUstream_st *stream);
enum oriel_status oriel_bcast_start(struct oriel_bcast *bcast, unsigned root, const void *send,
				    size_t bytes);
enum oriel_status oriel_bcast_test(struct oriel_bcast *bcast);
enum oriel_status oriel_bcast_wait(struct oriel_bcast *bcast, uint64_t timeout_ns);

/*
 * These make one execution without an object: see oriel/coll.h. @recv of every rank gets
 * the @bytes bytes at @send of the root, which is its @recv (in place), or does not overlap that.
 */
enum oriel_status oriel_bcast_once(struct oriel_comm *comm, unsigned root, const void *send,
				   void *recv, size_t bytes);
enum oriel_status oriel_bcast_once_on_stream(struct oriel_comm *comm, unsigned root,
					     const void *send, void *recv, size_t bytes,
					     struct CUstream_st *stream);

/* Local. */
enum oriel_status oriel_bcast_query(const struct oriel_bcast *bcast, size_t bytes,
				    struct oriel_coll_info *info);

#ifdef __cplusplus
}
#endif

#endif
