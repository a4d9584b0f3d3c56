/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached objects: a collective without an object, such as oriel_allgather_once(), executes a
 * persistent object that the communicator keeps for the next such call with the same memory. Here a
 * program sees how many are kept, and lets them go before it frees the memory. docs/allgather.md
 * says how ranks agree on an object.
 */
#ifndef ORIEL_OBJECT_CACHE_H
#define ORIEL_OBJECT_CACHE_H

#include <oriel/comm.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The most objects that are kept. A call that creates one more destroys the object that was not
 * used for the longest time. Those of captured calls are destroyed by oriel_object_cache_release()
 * and oriel_comm_destroy() alone; they do not count for the first limit, and a call fails if they
 * reach the second.
 */
#define ORIEL_OBJECT_CACHE_MOST 64u
#define ORIEL_OBJECT_CACHE_CAPTURED_MOST 512u

/*
 * Collective: destroys the cached objects whose memory, on any rank, overlaps [@memory, @memory +
 * @length) of that rank; with NULL all objects. Ranks may pass different memory, also none (length
 * 0), and get the same status. It waits for the executions that were posted to streams; graphs in
 * which such calls were captured are not launched again. The caller of oriel_memory_take_fd() calls
 * it before it passes another file for the same addresses, and that of cudaMalloc() before it frees
 * memory that ranks of other processes have mapped; memory of oriel_memory_alloc() is only freed
 * later without it.
 */
enum oriel_status oriel_object_cache_release(struct oriel_comm *comm, void *memory, size_t length);

struct oriel_object_cache_info {
	size_t size;       /* of this struct, as the caller knew it */
	unsigned objects;  /* kept now; equal on all ranks, as the others are */
	unsigned captured; /* of these, by calls in graphs */
	uint64_t calls;    /* with at least 1 byte, that executed an object */
	uint64_t hits;     /* of these, with an object that was there */
};

/* Local; not while another thread is in a collective call of @comm. */
enum oriel_status oriel_object_cache_query(struct oriel_comm *comm,
					   struct oriel_object_cache_info *info);

#ifdef __cplusplus
}
#endif

#endif
