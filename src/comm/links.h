/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a communicator, to peers that are reached by rdma and to others whose NIC is asked
 * for atomics, once comm_nics.c has made them. Windows, the heartbeat and the watcher call it.
 */
#ifndef ORI_COMM_LINKS_H
#define ORI_COMM_LINKS_H

#include "comm/comm.h"

struct ori_hca_qp_address;
struct ori_rdma_link;

/* Can this rank reach @peer by its path now? Any thread. */
bool ori_links_is_connected(const struct oriel_comm *comm, unsigned peer);
/* The rail of the link to @peer, if there is one. */
unsigned ori_links_rail(const struct oriel_comm *comm, unsigned peer);
/* The address of the NIC at the other end of @link. */
const struct ori_hca_qp_address *ori_links_hca(const struct oriel_comm *comm,
					       const struct ori_rdma_link *link);
/*
 * The watcher: polls NICs, and links to peers that are not @is_known, once. True: one has failed,
 * and *@found is its record; the next call finds others once that one is known.
 */
bool ori_links_poll(struct oriel_comm *comm,
		    bool (*is_known)(const struct oriel_comm *comm, unsigned peer),
		    struct oriel_dev_fault *found);
/* @comm is broken, and the peers of all links that have begun have heard: none begins any more. */
void ori_links_seal(struct oriel_comm *comm);
/* @comm is broken: the NICs stop using all memory that users registered. */
void ori_links_fail(struct oriel_comm *comm);
/*
 * For device functions: the link to @peer, or that by which its NIC executes the atomics of a
 * window; connected or not. NULL if there is none.
 */
const struct oriel_dev_link *ori_links_device(const struct oriel_comm *comm, unsigned peer,
					      bool for_atomics);
/* The same for kernels, in memory of the GPU. */
const struct oriel_dev_link *ori_links_kernel(const struct oriel_comm *comm, unsigned peer,
					      bool for_atomics);
/*
 * Waits until the requests of kernels are done, unless @comm breaks or its timeout
 * passes: their keys may be unregistered afterwards.
 */
void ori_links_drain_kernels(struct oriel_comm *comm);
/* Keys of all memory of this process, for @comm with rdma peers. */
const struct oriel_dev_keys *ori_links_whole_lkeys(const struct oriel_comm *comm);
/* See ori_rdma_finds_own(). */
bool ori_links_find_own(const struct oriel_comm *comm);
/* See ori_rdma_reach(); does nothing without NICs. */
enum oriel_status ori_links_reach(const struct oriel_comm *comm, const void *address);

#endif
