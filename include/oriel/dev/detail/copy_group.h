/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rings of jobs of a copy group; dev/copy_group.h calls it, and the host fills the rings.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_COPY_GROUP_H
#define ORIEL_DEV_DETAIL_COPY_GROUP_H

#include <oriel/dev/detail/order.h>

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

ORIEL_DEV enum oriel_status ori_dev_copy_group_status(const struct oriel_dev_copy_group *group)
{
	return (enum oriel_status)(int64_t)oriel_dev_load_acquire(group->ended);
}

/* The next job of @worker. */
ORIEL_DEV const struct oriel_dev_job *
ori_dev_copy_group_job(const struct oriel_dev_copy_group *group, enum oriel_dev_side side,
		       uint32_t worker, uint64_t *number)
{
	*number = oriel_dev_load_relaxed(&group->records[side][worker].done);
	return &group->jobs[side][*number % group->depth];
}

#define ORIEL_COPY_GROUP_POLLS 64u /* between two reads of the clock, and of the endpoint's end */

/* One thread: wait until job @number is posted, and acquire it. */
ORIEL_DEV enum oriel_status ori_dev_copy_group_wait(const struct oriel_dev_copy_group *group,
						    const struct oriel_dev_job *job,
						    uint64_t number, uint64_t timeout_ns)
{
	uint64_t limit = timeout_ns ? timeout_ns : group->timeout_ns, start = 0, now, seen;
	enum oriel_status status;
	uint32_t polls = 0;

	while ((seen = oriel_dev_load_relaxed(&job->posted)) != number + 1) {
		if (++polls % ORIEL_COPY_GROUP_POLLS) {
			oriel_dev_relax();
			continue;
		}
		status = ori_dev_copy_group_status(group);
		if (status != ORIEL_OK)
			return status;
		now = oriel_dev_clock_ns();
		if (!start)
			start = now;
		if (limit != ORIEL_TIMEOUT_INFINITE && now - start >= limit)
			return ORIEL_ERR_TIMEOUT;
		ori_dev_back_off(now - start);
	}
	(void)ori_dev_acquire(&job->posted, seen);
	return ORIEL_OK;
}

#endif
