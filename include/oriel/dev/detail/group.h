/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the threads of a cluster and of a CPU team meet; dev/group.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_GROUP_H
#define ORIEL_DEV_DETAIL_GROUP_H

#include <oriel/dev/detail/order.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/*
 * Also a fence for the writes of the threads, to memory of any kind (PTX ISA 8.8,
 * barrier.cluster).
 */
static __device__ __forceinline__ void ori_dev_cluster_sync(void)
{
	asm volatile("barrier.cluster.arrive.release;\n\t"
		     "barrier.cluster.wait.acquire;"
		     :
		     :
		     : "memory");
}

/*
 * The shared address at which block @block of the cluster has its copy of the variable @mine.
 */
static __device__ __forceinline__ uint32_t ori_dev_cluster_address(const void *mine, uint32_t block)
{
	uint32_t address;

	asm("mapa.shared::cluster.u32 %0, %1, %2;"
	    : "=r"(address)
	    : "r"((uint32_t)__cvta_generic_to_shared(mine)), "r"(block));
	return address;
}

static __device__ __forceinline__ uint64_t ori_dev_cluster_share(struct oriel_dev_group g,
								 uint64_t value)
{
	__shared__ uint64_t word;
	uint32_t block;

	/* All threads have read the value shared before. */
	ori_dev_cluster_sync();
	for (block = 0; g.rank == 0 && block < g.size / blockDim.x; block++)
		asm volatile("st.shared::cluster.u64 [%0], %1;"
			     :
			     : "r"(ori_dev_cluster_address(&word, block)), "l"(value)
			     : "memory");
	ori_dev_cluster_sync();
	return word;
}

static __device__ __forceinline__ enum oriel_status ori_dev_cluster_vote(struct oriel_dev_group g,
									 enum oriel_status status)
{
	__shared__ int vote;
	uint32_t block;

	/* All threads of the block have read the vote before. */
	__syncthreads();
	if (threadIdx.x == 0)
		vote = ORIEL_OK;
	ori_dev_cluster_sync();
	for (block = 0; status != ORIEL_OK && block < g.size / blockDim.x; block++)
		asm volatile("red.shared::cluster.min.s32 [%0], %1;"
			     :
			     : "r"(ori_dev_cluster_address(&vote, block)), "r"((int)status)
			     : "memory");
	ori_dev_cluster_sync();
	return (enum oriel_status)vote;
}
#endif

#ifndef __CUDA_ARCH__
ORIEL_DEV_COLD void ori_dev_team_wait(struct oriel_team *team, uint64_t generation)
{
	uint64_t start = 0, now;
	uint32_t polls = 0;

	while (oriel_dev_load_relaxed(&team->generation) == generation) {
		if (++polls < team->spin) {
			oriel_dev_relax();
			continue;
		}
		now = oriel_dev_clock_ns();
		if (!start)
			start = now;
		ori_dev_back_off(now - start);
	}
	/* Acquires the writes that the last thread to arrive released in ori_dev_team_sync(). */
	(void)oriel_dev_load_acquire(&team->generation);
}

ORIEL_DEV void ori_dev_team_sync(struct oriel_team *team)
{
	uint64_t generation = oriel_dev_load_relaxed(&team->generation);

	/* Acquire and release: the last to arrive passes on the writes that all released. */
	if (ori_dev_fetch_add_acq_rel(&team->arrived, 1) + 1 < team->size) {
		ori_dev_team_wait(team, generation);
		return;
	}
	oriel_dev_store_relaxed(&team->arrived, 0);
	oriel_dev_store_relaxed(&team->vote[(generation + 1) & 1], 0);
	oriel_dev_store_release(&team->generation, generation + 1);
}
#endif

#endif
