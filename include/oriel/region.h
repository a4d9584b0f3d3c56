/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that ranks work on: allocated so that peers can map it, registered as a source of
 * transfers, shared so that every rank can reach every rank's. Programs and windows use it.
 *
 *   oriel_memory_alloc(length, 0, &address);
 *   oriel_region_register(comm, address, length, &region);
 *   oriel_region_share(region);
 */
#ifndef ORIEL_REGION_H
#define ORIEL_REGION_H

#include <oriel/comm.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum oriel_memory_flags {
	ORIEL_MEMORY_HUGE = 1,   /* huge pages; ORIEL_ERR_UNSUPPORTED with the reason if none */
	ORIEL_MEMORY_DEVICE = 2, /* of the GPU whose CUDA context is current in the caller */
};

/*
 * Zeroed memory that other processes can map: an anonymous file, sealed
 * against shrinking, or with ORIEL_MEMORY_DEVICE an allocation of a GPU, whose
 * address only kernels and copies follow. Local; any thread. @length is rounded
 * up to pages. Neither synchronises a GPU.
 */
enum oriel_status oriel_memory_alloc(size_t length, unsigned flags, void **address);

/*
 * Frees the memory that oriel_memory_alloc() returned. Regions, windows and registrations of
 * oriel/p2p.h over it hold the memory until they are destroyed themselves. ORIEL_ERR_INVALID:
 * @address is not the start of a live allocation.
 */
enum oriel_status oriel_memory_free(void *address);

/*
 * Make memory of the caller's shareable: [@address, @address + @length) is a
 * shared mapping of file @fd from @offset on. The library duplicates nothing:
 * it takes @fd on success, seals it against shrinking
 * (ORIEL_ERR_UNSUPPORTED if the file cannot be sealed) and closes it in
 * oriel_memory_release(), which leaves the mapping to the caller.
 */
enum oriel_status oriel_memory_take_fd(void *address, size_t length, int fd, uint64_t offset);
enum oriel_status oriel_memory_release(void *address);

/*
 * The identity of the memory at [@address, @address + @length): no other memory of this process
 * has had it or will have it. Code that keeps something for an address learns from it whether that
 * memory was freed meanwhile and the address is now that of other memory. 0: memory without one,
 * which is host memory but for that of oriel_memory_alloc(), oriel_memory_take_fd() and windows,
 * until it is freed; @comm needs ORIEL_COMM_GPU to know memory of its GPU. Local, any thread.
 */
enum oriel_status oriel_memory_identity(struct oriel_comm *comm, const void *address, size_t length,
					uint64_t *identity);

struct oriel_region;

/*
 * Make [@address, @address + @length) known to @comm as a source of transfers
 * by this rank. Local. Any readable memory will do; @length > 0. @comm must
 * outlive the region, the memory must stay until it is unregistered.
 *
 * Puts and gets of windows need no such region. It is for memory that is to be shared or published
 * (oriel/comm_device.h), or that is named often: a NIC that reaches registered memory alone has
 * other memory registered, or copied, for each request. Kernels that post to a NIC by themselves
 * find memory of their GPU only if it is registered, as buffers of windows and regions are.
 *
 * ORIEL_ERR_INVALID: @address is NULL, or @length 0. ORIEL_ERR_ACCESS: a NIC may not read all of
 * it.
 */
enum oriel_status oriel_region_register(struct oriel_comm *comm, void *address, size_t length,
					struct oriel_region **region);

/*
 * Let every rank reach @region. Collective: each rank passes its own region; lengths may
 * differ. All ranks get the same status. Once per region (ORIEL_ERR_STATE). If a peer in
 * another process would have to map it, the memory must come from oriel_memory_alloc() or
 * oriel_memory_take_fd(), else ORIEL_ERR_UNSUPPORTED with the reason. Any part of an allocation
 * will do. Where peers are threads of this process, or reached by NICs alone, other host memory
 * will, too, such as that of malloc().
 *
 * With ORIEL_COMM_GPU it may be memory of that GPU: of oriel_memory_alloc(), of cudaMalloc(),
 * or mapped by the caller from allocations that were made with
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. Every rank then needs a GPU. If an NVLink fabric
 * joins nodes, ranks of other nodes reach memory of oriel_memory_alloc(), or one allocation
 * made with CU_MEM_HANDLE_TYPE_FABRIC, which within the node needs no descriptor; else
 * ORIEL_ERR_UNSUPPORTED on all ranks.
 */
enum oriel_status oriel_region_share(struct oriel_region *region);

/*
 * Local for a region that was never shared, nor published (oriel/comm_device.h), else collective.
 * NULL is allowed.
 * Never waits longer than the timeout of the communicator.
 */
enum oriel_status oriel_region_unregister(struct oriel_region *region);

/* Local queries of a shared region; ORIEL_ERR_STATE before it is shared. */
enum oriel_status oriel_region_peer_length(const struct oriel_region *region, unsigned peer,
					   size_t *length);
/*
 * This rank's address of byte @offset of @peer's region; ORIEL_ERR_NO_PATH if the peer is not
 * mapped.
 */
enum oriel_status oriel_region_peer_address(const struct oriel_region *region, unsigned peer,
					    size_t offset, void **address);
/*
 * Addresses and lengths of every rank's region, in @table of the caller's, [ranks]: for a view
 * of it (oriel/allgather.h) or a buffer of a window. It has the keys of the ranks that are reached
 * by rdma, which with ORIEL_COMM_BOTH_PATHS all are. Valid until the region is unregistered.
 */
enum oriel_status oriel_region_table(const struct oriel_region *region,
				     struct oriel_dev_buffer *table);

#ifdef __cplusplus
}
#endif

#endif
