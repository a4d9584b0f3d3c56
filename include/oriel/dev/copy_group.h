/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of a copy group: they pack the bytes that an endpoint of oriel/p2p.h sends through
 * staging slots, and unpack those that it receives. A worker is a group of threads, of a kernel
 * or of the CPU. The host posts chunks to a ring; each worker handles all of them in their
 * order, and a chunk is done when all workers have reported it.
 *
 *   enter, { next, its part, done } any number of times, leave
 *
 * Slots are pinned memory of the host, or of the GPU (ORIEL_P2P_GPU_SLOTS), whose kernels alone
 * are workers then. The workers decide which part of a chunk each of them handles. Kernels may
 * begin and end anywhere between two chunks.
 */
#ifndef ORIEL_DEV_COPY_GROUP_H
#define ORIEL_DEV_COPY_GROUP_H

#include <oriel/dev/detail/copy_group.h>
#include <oriel/dev/detail/mapped.h>

/*
 * Whole group, as worker @worker of @side, which no other group is meanwhile. ORIEL_OK, and
 * then leave() must follow; or the status of an endpoint that has ended, whose slots and
 * buffers this worker must not touch; ORIEL_ERR_VERSION, ORIEL_ERR_RANGE.
 */
ORIEL_DEV enum oriel_status oriel_dev_copy_group_enter(const struct oriel_dev_copy_group *group,
						       struct oriel_dev_group g,
						       enum oriel_dev_side side, uint32_t worker)
{
	enum oriel_status status = ORIEL_OK;

	if (group->magic != ORIEL_DEV_MAGIC || group->version != ORIEL_DEV_VERSION)
		return ORIEL_ERR_VERSION;
	if (worker >= group->workers)
		return ORIEL_ERR_RANGE;
	if (oriel_dev_is_leader(g)) {
		uint64_t *inside = &group->records[side][worker].inside;

		oriel_dev_store_relaxed(inside, 1);
		/*
		 * The host stores ended, does a full fence as well, and then reads inside of
		 * all workers.
		 */
		ori_dev_fence_full();
		status = ori_dev_copy_group_status(group);
		if (status != ORIEL_OK)
			oriel_dev_store_release(inside, 0);
	}
	return oriel_dev_vote(g, status);
}

/* Whole group. From here on this worker touches neither slots nor buffers. */
ORIEL_DEV void oriel_dev_copy_group_leave(const struct oriel_dev_copy_group *group,
					  struct oriel_dev_group g, enum oriel_dev_side side,
					  uint32_t worker)
{
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_release(&group->records[side][worker].inside, 0);
}

/*
 * Whole group, inside. Has the next chunk of @worker been posted? ORIEL_AGAIN: not yet; the
 * status of the endpoint if it has ended: nothing but leave() may follow then.
 */
ORIEL_DEV enum oriel_status oriel_dev_copy_group_test(const struct oriel_dev_copy_group *group,
						      struct oriel_dev_group g,
						      enum oriel_dev_side side, uint32_t worker)
{
	enum oriel_status status = ORIEL_OK;
	const struct oriel_dev_job *job;
	uint64_t number;

	if (oriel_dev_is_leader(g)) {
		job = ori_dev_copy_group_job(group, side, worker, &number);
		if (oriel_dev_load_relaxed(&job->posted) != number + 1) {
			status = ori_dev_copy_group_status(group);
			status = status == ORIEL_OK ? ORIEL_AGAIN : status;
		}
	}
	return (enum oriel_status)(int64_t)oriel_dev_share(g, (uint64_t)(int64_t)status);
}

/*
 * Whole group, inside. Wait for the next chunk of @worker, at most @timeout_ns: 0 is the limit
 * of the copy group, ORIEL_TIMEOUT_INFINITE waits for ever. ORIEL_OK, and then done() must follow;
 * ORIEL_ERR_TIMEOUT: nothing has happened; the status of the endpoint if it has ended: nothing
 * but leave() may follow then.
 */
ORIEL_DEV enum oriel_status oriel_dev_copy_group_next(const struct oriel_dev_copy_group *group,
						      struct oriel_dev_group g,
						      enum oriel_dev_side side, uint32_t worker,
						      uint64_t timeout_ns,
						      struct oriel_dev_chunk *chunk)
{
	struct oriel_dev_chunk c = {NULL, NULL, 0, 0, 0, 0, 0, 0};
	enum oriel_status status = ORIEL_OK;
	const struct oriel_dev_job *job;
	uint64_t number;

	/* Only the leader reads the ring, which lies across the bus. */
	if (oriel_dev_is_leader(g)) {
		job = ori_dev_copy_group_job(group, side, worker, &number);
		status = ori_dev_copy_group_wait(group, job, number, timeout_ns);
		if (status == ORIEL_OK)
			c = job->chunk;
	}
	status = oriel_dev_vote(g, status);
	if (status != ORIEL_OK)
		return status;
	chunk->slot = (char *)(uintptr_t)oriel_dev_share(g, (uintptr_t)c.slot);
	chunk->buffer = (char *)(uintptr_t)oriel_dev_share(g, (uintptr_t)c.buffer);
	chunk->offset = oriel_dev_share(g, c.offset);
	chunk->length = oriel_dev_share(g, c.length);
	chunk->user = oriel_dev_share(g, c.user);
	chunk->number = oriel_dev_share(g, c.number);
	number = oriel_dev_share(g, (uint64_t)c.channel << 32 | c.index);
	chunk->channel = (uint32_t)(number >> 32);
	chunk->index = (uint32_t)number;
	return ORIEL_OK;
}

/* Whole group. This worker has read and written its part of @chunk. */
ORIEL_DEV void oriel_dev_copy_group_done(const struct oriel_dev_copy_group *group,
					 struct oriel_dev_group g, enum oriel_dev_side side,
					 uint32_t worker, const struct oriel_dev_chunk *chunk)
{
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_release(&group->records[side][worker].done, chunk->number + 1);
}

/*
 * One thread: the part of @length bytes that @worker handles: [*begin, *begin + result). It begins
 * with a line.
 */
ORIEL_DEV uint64_t oriel_dev_copy_group_part(const struct oriel_dev_copy_group *group,
					     uint32_t worker, uint64_t length, uint64_t *begin)
{
	uint64_t part = ((length + group->workers - 1) / group->workers + 127) & ~(uint64_t)127;

	*begin = part * worker < length ? part * worker : length;
	return length - *begin < part ? length - *begin : part;
}

/* Whole group: copy the part of @worker of @chunk as it is, and then done(). */
ORIEL_DEV void oriel_dev_copy_group_copy(const struct oriel_dev_copy_group *group,
					 struct oriel_dev_group g, enum oriel_dev_side side,
					 uint32_t worker, const struct oriel_dev_chunk *chunk)
{
	uint64_t begin, length = oriel_dev_copy_group_part(group, worker, chunk->length, &begin);
	char *to = side == ORIEL_DEV_PACK ? chunk->slot : chunk->buffer;
	const char *from = side == ORIEL_DEV_PACK ? chunk->buffer : chunk->slot;

	if (length)
		ori_dev_mapped_copy(g, to + begin, from + begin, length);
	oriel_dev_copy_group_done(group, g, side, worker, chunk);
}

#endif
