/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that call a device function together; every device function that has a group
 * takes it from here. A group is a value; all its threads make the same calls in the same order
 * with the same arguments.
 */
#ifndef ORIEL_DEV_GROUP_H
#define ORIEL_DEV_GROUP_H

#include <oriel/dev/detail/group.h>

/* One thread calls it, of a kernel or of the CPU: the group that is this thread alone. */
ORIEL_DEV struct oriel_dev_group oriel_dev_thread(void)
{
	struct oriel_dev_group g = {0, 1, ORIEL_DEV_THREAD, 0, NULL};

	return g;
}

#ifdef __CUDACC__
/*
 * Each lane of a full warp of a 1-D block: the group of all lanes. Parts of a warp are no group:
 * all 32 lanes must make every call.
 */
static __device__ __forceinline__ struct oriel_dev_group oriel_dev_warp(void)
{
	struct oriel_dev_group g = {threadIdx.x % 32, 32, ORIEL_DEV_WARP, 0, NULL};

	return g;
}

/* Each thread of a 1-D block calls it: the group of all of them. */
static __device__ __forceinline__ struct oriel_dev_group oriel_dev_block(void)
{
	struct oriel_dev_group g = {threadIdx.x, blockDim.x, ORIEL_DEV_BLOCK, 0, NULL};

	return g;
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/*
 * Each thread of a cluster of 1-D blocks: the group of all of them; only where the kernel is built
 * for sm_90 or later.
 */
static __device__ __forceinline__ struct oriel_dev_group oriel_dev_cluster(void)
{
	struct oriel_dev_group g = {0, 0, ORIEL_DEV_CLUSTER, 0, NULL};
	uint32_t block, blocks;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
	asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
	g.rank = block * blockDim.x + threadIdx.x;
	g.size = blocks * blockDim.x;
	return g;
}
#endif

#ifndef __CUDA_ARCH__
/*
 * One thread, before the others use it: prepare @team for @size threads, 1 to ORIEL_TEAM_MAX.
 * @is_oversubscribed: there may be more threads than cores, so that polling costs the others time.
 */
ORIEL_DEV enum oriel_status oriel_team_open(struct oriel_team *team, uint32_t size,
					    bool is_oversubscribed)
{
	if (size < 1 || size > ORIEL_TEAM_MAX)
		return ORIEL_ERR_RANGE;
	team->arrived = 0;
	team->generation = 0;
	team->share[0] = team->share[1] = 0;
	team->vote[0] = team->vote[1] = 0;
	team->size = size;
	team->spin = is_oversubscribed ? 1 : 2000;
	return ORIEL_OK;
}

/* Each thread of the team, with its own @rank: the team as a group. */
ORIEL_DEV struct oriel_dev_group oriel_dev_team(struct oriel_team *team, uint32_t rank)
{
	struct oriel_dev_group g = {rank, team->size, ORIEL_DEV_TEAM, 0, team};

	return g;
}
#endif

/* Any thread of @g: is it the one that acts for the group? */
ORIEL_DEV bool oriel_dev_is_leader(struct oriel_dev_group g)
{
	return g.rank == 0;
}

/*
 * Whole group. Everything that any of its threads wrote before is visible to all of them after.
 * It has no deadline of its own: any wait of a thread of the group between two syncs has one.
 */
ORIEL_DEV void oriel_dev_sync(struct oriel_dev_group g)
{
#ifdef __CUDA_ARCH__
	if (g.kind == ORIEL_DEV_WARP)
		__syncwarp();
	else if (g.kind == ORIEL_DEV_BLOCK)
		__syncthreads();
#if __CUDA_ARCH__ >= 900
	else if (g.kind == ORIEL_DEV_CLUSTER)
		ori_dev_cluster_sync();
#endif
#else
	if (g.kind == ORIEL_DEV_TEAM)
		ori_dev_team_sync(g.team);
#endif
}

/* Whole group; syncs. All threads get the value that the leader passes. */
ORIEL_DEV uint64_t oriel_dev_share(struct oriel_dev_group g, uint64_t value)
{
#ifdef __CUDA_ARCH__
	if (g.kind == ORIEL_DEV_WARP)
		return __shfl_sync(0xffffffffu, (unsigned long long)value, 0);
	if (g.kind == ORIEL_DEV_BLOCK) {
		__shared__ uint64_t word;

		__syncthreads();
		if (g.rank == 0)
			word = value;
		__syncthreads();
		return word;
	}
#if __CUDA_ARCH__ >= 900
	if (g.kind == ORIEL_DEV_CLUSTER)
		return ori_dev_cluster_share(g, value);
#endif
#else
	if (g.kind == ORIEL_DEV_TEAM) {
		uint64_t *share = &g.team->share[oriel_dev_load_relaxed(&g.team->generation) & 1];

		if (g.rank == 0)
			oriel_dev_store_relaxed(share, value);
		ori_dev_team_sync(g.team);
		return oriel_dev_load_relaxed(share);
	}
#endif
	return value;
}

/*
 * Whole group; syncs. ORIEL_OK if all threads pass that, else one of the
 * failures, the same for all.
 */
ORIEL_DEV enum oriel_status oriel_dev_vote(struct oriel_dev_group g, enum oriel_status status)
{
#ifdef __CUDA_ARCH__
	if (g.kind == ORIEL_DEV_WARP) {
		unsigned failed = __ballot_sync(0xffffffffu, status != ORIEL_OK);

		if (!failed)
			return ORIEL_OK;
		return (enum oriel_status)__shfl_sync(0xffffffffu, (int)status, __ffs(failed) - 1);
	}
	if (g.kind == ORIEL_DEV_BLOCK) {
		__shared__ int vote;

		if (!__syncthreads_or(status != ORIEL_OK))
			return ORIEL_OK;
		if (status != ORIEL_OK)
			vote = status;
		__syncthreads();
		return (enum oriel_status)vote;
	}
#if __CUDA_ARCH__ >= 900
	if (g.kind == ORIEL_DEV_CLUSTER)
		return ori_dev_cluster_vote(g, status);
#endif
#else
	if (g.kind == ORIEL_DEV_TEAM) {
		uint64_t *vote = &g.team->vote[oriel_dev_load_relaxed(&g.team->generation) & 1];

		if (status != ORIEL_OK)
			oriel_dev_store_relaxed(vote, (uint64_t)(int64_t)status);
		ori_dev_team_sync(g.team);
		return (enum oriel_status)(int64_t)oriel_dev_load_relaxed(vote);
	}
#endif
	return status;
}

/*
 * Any thread of @g: the part of @length bytes that it handles: [*begin, *begin + result).
 * Parts are multiples of 64 bytes but for the last.
 */
ORIEL_DEV uint64_t oriel_dev_part(struct oriel_dev_group g, uint64_t length, uint64_t *begin)
{
	uint64_t part = ((length + g.size - 1) / g.size + 63) & ~(uint64_t)63;
	uint64_t from = part * g.rank;

	if (from >= length) {
		*begin = length;
		return 0;
	}
	*begin = from;
	return length - from < part ? length - from : part;
}

#endif
