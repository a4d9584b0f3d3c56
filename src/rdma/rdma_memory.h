/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of this process as its NICs know it: registered memory, found by its own
 * addresses; and any other memory that a request names, for as long as the request takes.
 * One cache (mem/cache.h) has the registrations of both, so that memory is not registered
 * twice for one use. A NIC that reaches all memory by one key needs none for requests.
 * Any thread.
 *
 * Memory that a request names and that is not registered
 * - goes through a block of the library's own if it is short: words of a stack, say.
 *   A source is copied when the request is made, a result when it is done.
 * - or is registered meanwhile, which costs microseconds for each page: memory that is
 *   used often belongs in a region.
 */
#ifndef ORI_RDMA_RDMA_MEMORY_H
#define ORI_RDMA_RDMA_MEMORY_H

#include "mem/cache.h"
#include "rdma/rdma.h"
#include "rdma/rdma_proxy.h"

struct ori_memory;

struct ori_memory_attr {
	const struct ori_hca_ops *ops;
	struct ori_hca *hcas[ORIEL_DEV_RAILS];
	unsigned rails;
	bool is_whole;             /* the NICs reach all memory, of GPUs too: no find() */
	const struct ori_gpu *gpu; /* NULL: all memory is of the host */
};

enum oriel_status ori_memory_open(const struct ori_memory_attr *attr, struct ori_memory **memory);
/*
 * All memory has been unregistered, and each sge that find() gave was released. NULL is
 * allowed.
 */
void ori_memory_close(struct ori_memory *memory);

/* For find() of all rails, unless the NICs reach all memory. */
enum oriel_status ori_memory_open_blocks(struct ori_memory *memory);

/* See ori_rdma_register(). */
enum oriel_status ori_memory_register(struct ori_memory *memory, void *address, size_t length,
				      enum ori_rdma_use use, struct ori_rdma_mr **mr,
				      struct oriel_dev_keys *rkeys);
void ori_memory_unregister(struct ori_memory *memory, struct ori_rdma_mr *mr);
/* See ori_rdma_serves(). */
bool ori_memory_serves(struct ori_memory *memory, const void *address, size_t length,
		       enum ori_rdma_use use);
/* The key of all memory, where NICs reach that. Call it before anything is registered. */
void ori_memory_set_whole_lkey(struct ori_memory *memory, unsigned rail, uint32_t lkey);

/* From now on NICs register no memory of the GPU. Call it before anything is registered. */
void ori_memory_reject_gpu(struct ori_memory *memory);

/* Any thread: does registered memory have all the bytes? Then *@found is what a request names. */
bool ori_memory_find(struct ori_memory *memory, unsigned rail, const void *address, uint64_t length,
		     bool is_target, struct ori_dev_rdma_address *found);
/*
 * Any thread: registers them with @rail, for a request whose end the caller may learn late.
 * ori_memory_unref() drops *@ref.
 */
enum oriel_status ori_memory_ref(struct ori_memory *memory, unsigned rail, const void *address,
				 uint64_t length, bool is_target,
				 struct ori_dev_rdma_address *found, struct ori_mr_ref *ref);
void ori_memory_unref(struct ori_memory *memory, const struct ori_mr_ref *ref);

/*
 * find() and release() for the proxy, for requests of @rail. One thread at a time calls
 * find() of a rail.
 */
struct ori_proxy_memory ori_memory_of_rail(struct ori_memory *memory, unsigned rail);

#endif
