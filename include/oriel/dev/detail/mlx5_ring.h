/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts of any number of threads to a send queue of mlx5 (oriel/dev/detail/mlx5_queue.h). Needs no
 * window: the limits of a wait are arguments. Links post to it.
 *
 * A post is reserve, fill the slots, post. Between the first and the last the poster does not wait
 * for anything: publication is in order of the indices, so one thread that is held up holds up all
 * behind it. In particular it holds no reservations on two queues. Post in two halves, publish and
 * ring, for more than one: ring all published WQEs before you reserve again, since reserve waits
 * for completions of WQEs for which perhaps no thread has rung.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_MLX5_RING_H
#define ORIEL_DEV_DETAIL_MLX5_RING_H

#include <oriel/dev/detail/mlx5_queue.h>

/* A reservation cannot be returned, so that no later one can ever be published. */
ORIEL_DEV_COLD enum oriel_status ori_dev_mlx5_abandon(struct ori_dev_mlx5_queue *q, uint64_t index,
						      enum oriel_status status)
{
	ori_dev_mlx5_condemn(q, ori_dev_queue_err(ORIEL_QUEUE_ABANDONED, 0, 0, index));
	return status;
}

/*
 * Any thread: move done to @end if the HCA has come that far. If it is far ahead, move done a good
 * deal further, so that not every post has to poll.
 */
ORIEL_DEV void ori_dev_mlx5_make_room(struct ori_dev_mlx5_queue *q, uint64_t end)
{
	ori_dev_mlx5_progress_to(q, end - 1 + ori_dev_mlx5_depth(q) / 4);
	if (ori_dev_load_relaxed_gpu(&q->done) < end)
		ori_dev_mlx5_progress_to(q, end - 1);
}

/*
 * Any thread: @count WQEs from *@base on are the caller's to fill in and to publish. At most half
 * the depth, else ORIEL_ERR_RANGE; after any other failure the queue is dead.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_reserve(struct ori_dev_mlx5_queue *q, uint32_t count,
						 const struct ori_dev_link_wait_limits *limits,
						 uint64_t *base)
{
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(limits);
	uint64_t depth = ori_dev_mlx5_depth(q), first;
	/* A GPU waits 0.2 us for each response of its L2 cache: all loads are issued at once. */
	uint64_t err = ori_dev_load_relaxed_gpu(&q->err);
	uint64_t done = ori_dev_load_relaxed_gpu(&q->done);
	enum oriel_status status;

	/* One WQE fits into any queue, however deep. */
	if (!count || (count > 1 && count > depth / 2))
		return err ? ori_dev_queue_err_status(err) : ORIEL_ERR_RANGE;
	first = ori_dev_fetch_add_relaxed_gpu(&q->resv, count);
	/* No WQE of a dead queue is published any more, reserved or not. */
	if (err)
		return ori_dev_queue_err_status(err);
	while (first + count > done + depth) {
		ori_dev_mlx5_make_room(q, first + count - depth);
		done = ori_dev_load_relaxed_gpu(&q->done);
		if (first + count <= done + depth)
			break;
		status = ori_dev_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return ori_dev_mlx5_abandon(q, first, status);
	}
	/* Acquires that the HCA has read the slots; see ori_dev_mlx5_progress(). */
	(void)ori_dev_acquire_gpu(&q->done, done);
	*base = first;
	return ORIEL_OK;
}

/*
 * Any thread: ori_dev_mlx5_reserve() for a caller that may not wait, neither here nor in
 * ori_dev_mlx5_publish(). ORIEL_AGAIN: there is no room now, or another thread has reserved and not
 * yet published.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_try_reserve(struct ori_dev_mlx5_queue *q, uint32_t count,
						     uint64_t *base)
{
	uint64_t depth = ori_dev_mlx5_depth(q), first, seen;
	enum oriel_status status = ori_dev_mlx5_health(q);

	if (status != ORIEL_OK)
		return status;
	if (!count || count > depth / 2)
		return ORIEL_ERR_RANGE;
	first = ori_dev_mlx5_ready(q);
	/* Acquires that the HCA has read the slots; see ori_dev_mlx5_progress(). */
	if (first + count > ori_dev_load_acquire_gpu(&q->done) + depth) {
		ori_dev_mlx5_make_room(q, first + count - depth);
		if (first + count > ori_dev_load_acquire_gpu(&q->done) + depth)
			return ORIEL_AGAIN;
	}
	/*
	 * ready never passes resv: if resv is still equal to the old ready, no thread is between
	 * the two, and it is the caller's turn to publish.
	 */
	seen = first;
	if (!ori_dev_swap_acq_rel_gpu(&q->resv, &seen, first + count))
		return ORIEL_AGAIN;
	*base = first;
	return ORIEL_OK;
}

/*
 * Wait for the threads that reserved before, then add @count to ready; unless a thread rings
 * already, the doorbell state becomes @doorbell. *@seen is the old value of the word turn. A fence
 * has released the slots of the caller.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_take_turn(struct ori_dev_mlx5_queue *q, uint64_t base,
						   uint32_t count,
						   const struct ori_dev_link_wait_limits *limits,
						   enum ori_dev_mlx5_doorbell_state doorbell,
						   uint64_t *seen)
{
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(limits);
	enum oriel_status status;
	uint32_t next;

#ifdef __CUDA_ARCH__
	/* A load would cost as much as an attempt. */
	*seen = ori_dev_mlx5_turn(base, ORIEL_MLX5_RUNG);
#else
	*seen = oriel_dev_load_relaxed(&q->turn);
#endif
	for (;;) {
		while (ori_dev_mlx5_turn_ready(*seen) != base) {
			status = ori_dev_mlx5_wait_step(q, &waiter);
			if (status != ORIEL_AGAIN)
				return ori_dev_mlx5_abandon(q, base, status);
			*seen = ori_dev_load_relaxed_gpu(&q->turn);
		}
		next = ori_dev_mlx5_turn_doorbell(*seen);
		if (next != ORIEL_MLX5_RINGING)
			next = doorbell;
		/*
		 * Acquires the slots of all before and releases them with the caller's: a thread
		 * that acquires turn, here or in ori_dev_mlx5_ring(), may ring for all of them.
		 */
		if (ori_dev_swap_after_fence_gpu(&q->turn, seen,
						 ori_dev_mlx5_turn(base + count, next)))
			return ORIEL_OK;
	}
}

/*
 * The thread that reserved, or the leader of its group after a sync: the slots are filled in. It
 * waits for the threads that reserved before.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_publish(struct ori_dev_mlx5_queue *q, uint64_t base,
						 uint32_t count,
						 const struct ori_dev_link_wait_limits *limits)
{
	uint64_t seen;

	ori_dev_wqe_before_turn();
	return ori_dev_mlx5_take_turn(q, base, count, limits, ORIEL_MLX5_UNRUNG, &seen);
}

/*
 * The ringing thread: write the doorbell for all below @end, and for WQEs that are published while
 * it does so. @is_visible: the HCA already sees the WQEs.
 *
 * No WQE is left behind: a thread that publishes and leaves has found the state RINGING in the same
 * word that it changed, so that the exchange of the ringing thread fails, which ends only at an
 * index for which it has rung. tests/model explores all of this.
 */
ORIEL_DEV void ori_dev_mlx5_ring_doorbell(struct ori_dev_mlx5_queue *q,
					  const struct ori_dev_mlx5_constants *c, uint64_t end,
					  bool is_visible)
{
	bool is_over;
	uint64_t seen;

	do {
		if (!is_visible)
			ori_dev_wqe_before_record();
		ori_dev_record(&c->record[1], ori_dev_mlx5_record_value(end));
		ori_dev_record_before_doorbell();
		ori_dev_doorbell(c->doorbell, ori_dev_mlx5_doorbell_value(c->qpn, end));
		seen = ori_dev_mlx5_turn(end, ORIEL_MLX5_RINGING);
		/*
		 * Acquired by the next ringing thread: doorbells do not overtake each other. If it
		 * fails it acquires the slots for which it is to ring.
		 */
		is_over = ori_dev_swap_acq_rel_gpu(&q->turn, &seen,
						   ori_dev_mlx5_turn(end, ORIEL_MLX5_RUNG));
#ifndef __CUDA_ARCH__
		/*
		 * The HCA sets asleep, does a full fence and reads the doorbell once more; here the
		 * doorbell comes first, then the fence, then the read of asleep. One of the two
		 * sees the other's write.
		 */
		if (q->asleep) {
			ori_dev_fence_full();
			if (ori_dev_load_relaxed32(q->asleep))
				oriel_cpu_wake(q->asleep);
		}
#endif
		end = ori_dev_mlx5_turn_ready(seen);
		is_visible = false;
	} while (!is_over);
}

/*
 * Any thread: afterwards the HCA knows of all that has been published, or another thread is about
 * to ring for it. Never waits.
 */
ORIEL_DEV void ori_dev_mlx5_ring(struct ori_dev_mlx5_queue *q)
{
	struct ori_dev_mlx5_constants c = ori_dev_mlx5_constants_of(q);
	uint64_t seen = ori_dev_load_relaxed_gpu(&q->turn);

	while (ori_dev_mlx5_turn_doorbell(seen) == ORIEL_MLX5_UNRUNG)
		/* Acquires the slots released in ori_dev_mlx5_take_turn(). */
		if (ori_dev_swap_acquire_gpu(&q->turn, &seen,
					     ori_dev_mlx5_turn(ori_dev_mlx5_turn_ready(seen),
							       ORIEL_MLX5_RINGING))) {
			ori_dev_mlx5_ring_doorbell(q, &c, ori_dev_mlx5_turn_ready(seen), false);
			return;
		}
}

/*
 * Publish and ring in one: a GPU that posts alone does one fence, the one towards the HCA, before
 * it takes its turn, and not another one towards the GPU.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_post_with(struct ori_dev_mlx5_queue *q,
						   const struct ori_dev_mlx5_constants *c,
						   uint64_t base, uint32_t count,
						   const struct ori_dev_link_wait_limits *limits)
{
	enum oriel_status status;
	uint64_t seen;

	ori_dev_wqe_before_record();
	status = ori_dev_mlx5_take_turn(q, base, count, limits, ORIEL_MLX5_RINGING, &seen);
	if (status != ORIEL_OK || ori_dev_mlx5_turn_doorbell(seen) == ORIEL_MLX5_RINGING)
		return status;
	/*
	 * WQEs that other threads have published without ringing were released to this GPU alone.
	 */
	ori_dev_mlx5_ring_doorbell(q, c, base + count,
				   ori_dev_mlx5_turn_doorbell(seen) == ORIEL_MLX5_RUNG);
	return ORIEL_OK;
}

ORIEL_DEV enum oriel_status ori_dev_mlx5_post(struct ori_dev_mlx5_queue *q, uint64_t base,
					      uint32_t count,
					      const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_mlx5_constants c = ori_dev_mlx5_constants_of(q);

	return ori_dev_mlx5_post_with(q, &c, base, count, limits);
}

#endif
