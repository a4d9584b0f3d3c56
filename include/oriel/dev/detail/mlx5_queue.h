/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send queue of mlx5 and its completion queue, as memory: their state, and the completions, which
 * any number of threads poll for. oriel/dev/detail/mlx5_ring.h posts to it.
 *
 * Indices count WQEs from the first ever and never wrap:
 *   done <= ready <= resv, and for all threads that may fill their slots resv <= done + depth
 * where ready is the index in the word turn. Every WQE is one block and makes one CQE, so CQE i is
 * that of WQE i.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_MLX5_QUEUE_H
#define ORIEL_DEV_DETAIL_MLX5_QUEUE_H

#include <oriel/dev/detail/mlx5.h>
#include <oriel/dev/detail/order_gpu.h>

/* Results of 8-byte atomics are big-endian. */
#define ORIEL_MLX5_ATOMICS_SWAPPED 1u
/* The NICs at both ends execute masked atomics of 8 bytes. */
#define ORIEL_MLX5_ATOMICS_MASKED 2u

/* The state of the doorbell: whether a thread rings it for the published WQEs. */
enum ori_dev_mlx5_doorbell_state {
	ORIEL_MLX5_RUNG,    /* the HCA knows of all below ready */
	ORIEL_MLX5_RINGING, /* a thread rings, also for WQEs that are published meanwhile */
	ORIEL_MLX5_UNRUNG,  /* no thread has rung yet */
};

/*
 * Lives in memory that posters and pollers reach, which are the threads of one GPU or those of the
 * CPU, aligned to ORIEL_DEV_LINE, so that each word that is written has a line of its own.
 */
struct ori_dev_mlx5_queue {
	/* Never changes while any thread posts. */
	char *sq;           /* [depth] WQEs */
	const char *cq;     /* [depth] CQEs */
	uint32_t *record;   /* doorbell record {receive, send} */
	uint64_t *doorbell; /* of this queue alone */
	uint32_t *asleep;   /* see oriel_cpu_wake(); NULL if the HCA never sleeps */
	uint32_t qpn;
	uint32_t cqn;
	uint32_t log_depth; /* depth is at most ORIEL_MLX5_DEPTH_MAX, at least 2 */
	uint32_t sink_lkey; /* of 8 bytes at address 0, for results that no thread reads */
	uint32_t flags;
	uint32_t reserved0[17];

	uint64_t resv; /* the next to hand out */
	uint64_t reserved1[15];
	uint64_t turn; /* ready << 2 | enum ori_dev_mlx5_doorbell_state; all below ready are filled
			* in
			*/
	uint64_t reserved2[15];
	uint64_t done; /* all below have completed */
	uint64_t reserved3[15];
	uint64_t err; /* ori_dev_queue_err(); 0 while the queue works; the first cause stays */
	uint64_t reserved4[15];
};

ORIEL_DEV_ASSERT(sizeof(struct ori_dev_mlx5_queue) == 5 * ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct ori_dev_mlx5_queue, resv) == ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct ori_dev_mlx5_queue, err) == 4 * ORIEL_DEV_LINE);

ORIEL_DEV uint64_t ori_dev_mlx5_turn(uint64_t ready, uint32_t doorbell)
{
	return ready << 2 | doorbell;
}

ORIEL_DEV uint64_t ori_dev_mlx5_turn_ready(uint64_t turn)
{
	return turn >> 2;
}

ORIEL_DEV uint32_t ori_dev_mlx5_turn_doorbell(uint64_t turn)
{
	return (uint32_t)turn & 3;
}

/* All below have been published. */
ORIEL_DEV uint64_t ori_dev_mlx5_ready(const struct ori_dev_mlx5_queue *q)
{
	return ori_dev_mlx5_turn_ready(ori_dev_load_relaxed_gpu(&q->turn));
}

/* Begin with WQE @first. The constants are set; no thread uses the queue yet. */
ORIEL_DEV void ori_dev_mlx5_queue_begin(struct ori_dev_mlx5_queue *q, uint64_t first)
{
	q->resv = q->done = first;
	q->turn = ori_dev_mlx5_turn(first, ORIEL_MLX5_RUNG);
	q->err = 0;
}

ORIEL_DEV uint64_t ori_dev_mlx5_depth(const struct ori_dev_mlx5_queue *q)
{
	return (uint64_t)1 << q->log_depth;
}

/*
 * The constants of a queue that a post needs, loaded once: each acquire on the way of a post would
 * make a GPU load them again.
 */
struct ori_dev_mlx5_constants {
	char *sq;
	uint32_t *record;
	uint64_t *doorbell;
	uint32_t qpn;
	uint32_t log_depth;
	uint32_t sink_lkey;
};

ORIEL_DEV struct ori_dev_mlx5_constants
ori_dev_mlx5_constants_of(const struct ori_dev_mlx5_queue *q)
{
	struct ori_dev_mlx5_constants c = {q->sq,  q->record,    q->doorbell,
					   q->qpn, q->log_depth, q->sink_lkey};

	return c;
}

/* Any thread: @q fails with @err, unless it has failed before. */
ORIEL_DEV_COLD void ori_dev_mlx5_condemn(struct ori_dev_mlx5_queue *q, uint64_t err)
{
	uint64_t well = 0;

	(void)ori_dev_swap_acq_rel_gpu(&q->err, &well, err);
}

/* ORIEL_OK while the queue works. */
ORIEL_DEV enum oriel_status ori_dev_mlx5_health(const struct ori_dev_mlx5_queue *q)
{
	uint64_t err = ori_dev_load_relaxed_gpu(&q->err);

	return err ? ori_dev_queue_err_status(err) : ORIEL_OK;
}

ORIEL_DEV void *ori_dev_mlx5_slot_of(const struct ori_dev_mlx5_constants *c, uint64_t index)
{
	return c->sq + (index & (((uint64_t)1 << c->log_depth) - 1)) * ORIEL_MLX5_BLOCK;
}

ORIEL_DEV void *ori_dev_mlx5_slot(const struct ori_dev_mlx5_queue *q, uint64_t index)
{
	return q->sq + (index & (ori_dev_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK;
}

ORIEL_DEV struct ori_dev_mlx5_head ori_dev_mlx5_head_of(const struct ori_dev_mlx5_queue *q,
							uint64_t index, uint32_t fence)
{
	struct ori_dev_mlx5_head head = {index, q->qpn, fence};

	return head;
}

ORIEL_DEV struct ori_dev_rdma_address ori_dev_mlx5_sink(const struct ori_dev_mlx5_queue *q)
{
	struct ori_dev_rdma_address sink = {0, q->sink_lkey};

	return sink;
}

/* The 8 bytes that an atomic returned, in the order of the machine. */
ORIEL_DEV uint64_t ori_dev_mlx5_atomic_result(const struct ori_dev_mlx5_queue *q, uint64_t word)
{
	return q->flags & ORIEL_MLX5_ATOMICS_SWAPPED ? ori_dev_swap_bytes(word) : word;
}

/* A poll found nothing. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status ori_dev_mlx5_wait_step(const struct ori_dev_mlx5_queue *q,
						   struct ori_dev_link_waiter *waiter)
{
	enum oriel_status status = ori_dev_mlx5_health(q);

	return status == ORIEL_OK ? ori_dev_link_wait_again(waiter) : status;
}

/*
 * CQE @index has the owner bit of its lap but is not of that WQE. Either this thread has slept for
 * laps, and then done has moved on, or the rule that CQE i is of WQE i is broken.
 */
ORIEL_DEV_COLD void ori_dev_mlx5_stray(struct ori_dev_mlx5_queue *q, const void *cqe,
				       uint64_t index)
{
	/*
	 * The thread that let a WQE of a later lap into this slot had seen done beyond @index;
	 * acquiring the CQE of that WQE makes done visible here.
	 */
	(void)ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	if (ori_dev_load_acquire_gpu(&q->done) <= index)
		ori_dev_mlx5_condemn(q, ori_dev_queue_err(ORIEL_QUEUE_STRAY_CQE, 0, 0, index));
}

ORIEL_DEV_COLD void ori_dev_mlx5_failed(struct ori_dev_mlx5_queue *q, const void *cqe,
					uint64_t index)
{
	uint32_t error;

	/* The HCA released the word below with the tail. */
	(void)ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	error = ori_dev_load_relaxed32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_ERROR));
	ori_dev_mlx5_condemn(q, ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE,
						  ori_dev_mlx5_error_syndrome(error),
						  ori_dev_mlx5_error_vendor(error), index));
}

/* Has WQE @index completed without an error? */
ORIEL_DEV bool ori_dev_mlx5_check_cqe(struct ori_dev_mlx5_queue *q, const void *cqe, uint64_t index)
{
	uint32_t tail = ori_dev_load_relaxed32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));

	if (ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_INVALID ||
	    ori_dev_mlx5_tail_owner(tail) != (index >> q->log_depth & 1))
		return false;
	if (ori_dev_mlx5_tail_counter(tail) != (index & 0xffff)) {
		ori_dev_mlx5_stray(q, cqe, index);
		return false;
	}
	if (ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_DONE)
		return true;
	ori_dev_mlx5_failed(q, cqe, index);
	return false;
}

/*
 * Any thread: poll the progress of the HCA. It never polls beyond ready: the CQE two laps ahead has
 * the same owner bit.
 */
ORIEL_DEV void ori_dev_mlx5_progress(struct ori_dev_mlx5_queue *q)
{
	uint64_t begin = ori_dev_load_acquire_gpu(&q->done);
	uint64_t end = ori_dev_mlx5_ready(q), mask = ori_dev_mlx5_depth(q) - 1, i;
	const char *cqe = NULL;

	for (i = begin; i < end; i++) {
		const char *next = q->cq + (i & mask) * ORIEL_MLX5_BLOCK;

		if (!ori_dev_mlx5_check_cqe(q, next, i))
			break;
		cqe = next;
	}
	if (!cqe)
		return;
	/*
	 * Acquires the writes of the HCA before the last of these CQEs, which it wrote in order;
	 * done passes them on to any thread that acquires done.
	 */
	(void)ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	ori_dev_max_release_gpu(&q->done, i);
}

/*
 * Any thread: has WQE @index completed? CQEs are written in order, and after one that failed there
 * are only those of flushed WQEs: so this does not read the CQEs before, each of which a GPU would
 * fetch over the bus, unless this one has an error. An error in an earlier CQE alone, which only an
 * HCA that breaks the rules makes, is found by a CPU at once, and in ori_dev_mlx5_wait() by a GPU.
 */
ORIEL_DEV void ori_dev_mlx5_progress_to(struct ori_dev_mlx5_queue *q, uint64_t index)
{
	const uint32_t *word = ori_dev_mlx5_cqe_word(q->cq + (index & (ori_dev_mlx5_depth(q) - 1)) *
								     ORIEL_MLX5_BLOCK,
						     ORIEL_MLX5_TAIL);
	uint32_t tail;

	/* The CQE two laps ahead has the same owner bit. */
	if (index >= ori_dev_mlx5_ready(q))
		return;
	tail = ori_dev_load_relaxed32(word);
	if (ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_INVALID ||
	    ori_dev_mlx5_tail_owner(tail) != (index >> q->log_depth & 1)) {
#ifndef __CUDA_ARCH__
		ori_dev_mlx5_progress(q);
#endif
		return;
	}
	if (ori_dev_mlx5_tail_completion(tail) != ORIEL_MLX5_DONE ||
	    ori_dev_mlx5_tail_counter(tail) != (index & 0xffff)) {
		ori_dev_mlx5_progress(q);
		return;
	}
	/* As in ori_dev_mlx5_progress(). */
	(void)ori_dev_acquire32(word, tail);
	ori_dev_max_release_gpu(&q->done, index + 1);
}

/* Any thread: has WQE @index completed, as far as any thread has polled? */
ORIEL_DEV bool ori_dev_mlx5_is_done(const struct ori_dev_mlx5_queue *q, uint64_t index)
{
	return ori_dev_load_acquire_gpu(&q->done) > index;
}

/*
 * Any thread: has the HCA released WQE @index, which is published? Also a WQE that failed or was
 * flushed: then nothing reads its source or writes its target any more.
 */
ORIEL_DEV_COLD bool ori_dev_mlx5_is_over(const struct ori_dev_mlx5_queue *q, uint64_t index)
{
	const char *cqe = q->cq + (index & (ori_dev_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK;
	uint32_t tail = ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));

	if (ori_dev_mlx5_is_done(q, index))
		return true;
	return ori_dev_mlx5_tail_completion(tail) != ORIEL_MLX5_INVALID &&
	       ori_dev_mlx5_tail_owner(tail) == (index >> q->log_depth & 1) &&
	       ori_dev_mlx5_tail_counter(tail) == (index & 0xffff);
}

/*
 * Any thread: poll once whether WQE @index has completed. ORIEL_AGAIN if not. A WQE that completed
 * before the queue failed counts as completed.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_poll(struct ori_dev_mlx5_queue *q, uint64_t index)
{
	enum oriel_status status;

	if (ori_dev_mlx5_is_done(q, index))
		return ORIEL_OK;
	ori_dev_mlx5_progress_to(q, index);
	if (ori_dev_mlx5_is_done(q, index))
		return ORIEL_OK;
	status = ori_dev_mlx5_health(q);
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

/*
 * Any thread: wait until WQE @index, for which some thread rings, has completed. Its source may
 * then be written and its result read.
 */
ORIEL_DEV enum oriel_status ori_dev_mlx5_wait(struct ori_dev_mlx5_queue *q, uint64_t index,
					      const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(limits);
	enum oriel_status status;

	for (;;) {
		status = ori_dev_mlx5_poll(q, index);
		if (status != ORIEL_AGAIN)
			return status;
		status = ori_dev_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return status;
		if (waiter.polls % 64 == 0)
			ori_dev_mlx5_progress(q);
	}
}

#endif
