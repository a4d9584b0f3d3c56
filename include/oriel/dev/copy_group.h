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

#include <oriel/dev/mapped.h>

#define ORIEL_DEV_COPY_GROUP 64u /* workers at most */

enum oriel_dev_side {
	ORIEL_DEV_PACK,   /* from the buffer to the slot */
	ORIEL_DEV_UNPACK, /* from the slot to the buffer */
};

/* A part of a transfer. */
struct oriel_dev_chunk {
	char *slot;
	char *buffer;    /* of the user, from @offset on */
	uint64_t offset; /* in the transfer */
	uint64_t length; /* bytes of both */
	uint64_t user;   /* of the request */
	uint64_t number; /* of this side, from 0 on */
	uint32_t channel;
	uint32_t index; /* in the transfer */
};

/* @posted is @chunk.number + 1, stored last. */
struct oriel_dev_job {
	struct oriel_dev_chunk chunk;
	uint64_t posted;
	uint64_t reserved[8];
};

/* The words that a worker writes; each worker has a line of its own. */
struct oriel_dev_worker {
	uint64_t done;   /* chunks */
	uint64_t inside; /* 1: it has entered, and not left */
	uint64_t reserved[14];
};

/* Passed by value, made by oriel_p2p_copy_group_device(), never changed. */
struct oriel_dev_copy_group {
	uint32_t magic;   /* ORIEL_DEV_MAGIC */
	uint32_t version; /* ORIEL_DEV_VERSION */
	uint32_t workers;
	uint32_t depth;                      /* of each ring */
	struct oriel_dev_job *jobs[2];       /* [enum oriel_dev_side], [depth] */
	struct oriel_dev_worker *records[2]; /* [enum oriel_dev_side], [workers] */
	const uint64_t *ended;               /* not 0: the status with which the endpoint ended */
	uint64_t timeout_ns;
};

ORIEL_DEV enum oriel_status oriel_copy_group_status(const struct oriel_dev_copy_group *group)
{
	return (enum oriel_status)(int64_t)oriel_dev_load_acquire(group->ended);
}

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
		oriel_dev_fence_full();
		status = oriel_copy_group_status(group);
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

/* The next job of @worker. */
ORIEL_DEV const struct oriel_dev_job *oriel_copy_group_job(const struct oriel_dev_copy_group *group,
							   enum oriel_dev_side side,
							   uint32_t worker, uint64_t *number)
{
	*number = oriel_dev_load_relaxed(&group->records[side][worker].done);
	return &group->jobs[side][*number % group->depth];
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
		job = oriel_copy_group_job(group, side, worker, &number);
		if (oriel_dev_load_relaxed(&job->posted) != number + 1) {
			status = oriel_copy_group_status(group);
			status = status == ORIEL_OK ? ORIEL_AGAIN : status;
		}
	}
	return (enum oriel_status)(int64_t)oriel_dev_share(g, (uint64_t)(int64_t)status);
}

#define ORIEL_COPY_GROUP_POLLS 64u /* between two reads of the clock, and of the endpoint's end */

/* One thread: wait until job @number is posted, and acquire it. */
ORIEL_DEV enum oriel_status oriel_copy_group_wait(const struct oriel_dev_copy_group *group,
						  const struct oriel_dev_job *job, uint64_t number,
						  uint64_t timeout_ns)
{
	uint64_t limit = timeout_ns ? timeout_ns : group->timeout_ns, start = 0, now, seen;
	enum oriel_status status;
	uint32_t polls = 0;

	while ((seen = oriel_dev_load_relaxed(&job->posted)) != number + 1) {
		if (++polls % ORIEL_COPY_GROUP_POLLS) {
			oriel_dev_relax();
			continue;
		}
		status = oriel_copy_group_status(group);
		if (status != ORIEL_OK)
			return status;
		now = oriel_dev_clock_ns();
		if (!start)
			start = now;
		if (limit != ORIEL_FOREVER && now - start >= limit)
			return ORIEL_ERR_TIMEOUT;
		oriel_dev_back_off(now - start);
	}
	(void)oriel_dev_acquire(&job->posted, seen);
	return ORIEL_OK;
}

/*
 * Whole group, inside. Wait for the next chunk of @worker, at most @timeout_ns: 0 is the limit
 * of the copy group, ORIEL_FOREVER waits for ever. ORIEL_OK, and then done() must follow;
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
		job = oriel_copy_group_job(group, side, worker, &number);
		status = oriel_copy_group_wait(group, job, number, timeout_ns);
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
 * The part of @length bytes that @worker handles: [*begin, *begin + result). It begins with a
 * line.
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
		oriel_mapped_copy(g, to + begin, from + begin, length);
	oriel_dev_copy_group_done(group, g, side, worker, chunk);
}

#endif
