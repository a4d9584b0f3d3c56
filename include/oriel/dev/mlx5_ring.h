/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send queue of mlx5 that any number of threads post to, and its completion queue that any number
 * of threads poll. Needs no window: the limits of a wait are arguments. Links post to it.
 *
 * Indices count WQEs from the first ever and never wrap:
 *   done <= ready <= resv, and for all threads that may fill their slots resv <= done + depth
 * where ready is the index in the word turn. Every WQE is one block and makes one CQE, so CQE i is
 * that of WQE i.
 *
 * A post is reserve, fill the slots, post. Between the first and the last the poster does not wait
 * for anything: publication is in order of the indices, so one thread that is held up holds up all
 * behind it. In particular it holds no reservations on two queues. Post in two halves, publish and
 * ring, for more than one: ring all published WQEs before you reserve again, since reserve waits
 * for completions of WQEs for which perhaps no thread has rung.
 */
#ifndef ORIEL_DEV_MLX5_RING_H
#define ORIEL_DEV_MLX5_RING_H

#include <oriel/dev/mlx5.h>
#include <oriel/dev/order_gpu.h>

/* Results of 8-byte atomics are big-endian. */
#define ORIEL_MLX5_ATOMICS_SWAPPED 1u

/* Why a queue is dead. */
enum oriel_queue_state {
	ORIEL_QUEUE_OK,
	ORIEL_QUEUE_ERROR_CQE, /* the HCA reported it in the CQE of the WQE */
	ORIEL_QUEUE_STRAY_CQE, /* the CQE of the WQE names another one */
	ORIEL_QUEUE_ABANDONED, /* a thread gave up after it had reserved the WQE */
	ORIEL_QUEUE_CONDEMNED, /* the host declared it dead */
};

/* The state of the doorbell: whether a thread rings it for the published WQEs. */
enum oriel_mlx5_doorbell_state {
	ORIEL_MLX5_RUNG,    /* the HCA knows of all below ready */
	ORIEL_MLX5_RINGING, /* a thread rings, also for WQEs that are published meanwhile */
	ORIEL_MLX5_UNRUNG,  /* no thread has rung yet */
};

/*
 * Lives in memory that posters and pollers reach, which are the threads of one GPU or those of the
 * CPU, aligned to ORIEL_DEV_LINE, so that each word that is written has a line of its own.
 */
struct oriel_mlx5_queue {
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
	uint64_t turn; /* ready << 2 | enum oriel_mlx5_doorbell_state; all below ready are filled in
			*/
	uint64_t reserved2[15];
	uint64_t done; /* all below have completed */
	uint64_t reserved3[15];
	uint64_t err; /* oriel_queue_err(); 0 while the queue works; the first cause stays */
	uint64_t reserved4[15];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_mlx5_queue) == 5 * ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct oriel_mlx5_queue, resv) == ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct oriel_mlx5_queue, err) == 4 * ORIEL_DEV_LINE);

/* The limits of a wait. */
struct oriel_link_wait_limits {
	const struct oriel_dev_fault *health; /* broken once FULL; NULL if there is none */
	uint64_t timeout_ns;                  /* ORIEL_FOREVER for none */
	uint32_t spin;                        /* polls before a CPU thread yields */
	uint32_t reserved;
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_link_wait_limits) == 24);

ORIEL_DEV uint64_t oriel_mlx5_turn(uint64_t ready, uint32_t doorbell)
{
	return ready << 2 | doorbell;
}

ORIEL_DEV uint64_t oriel_mlx5_turn_ready(uint64_t turn)
{
	return turn >> 2;
}

ORIEL_DEV uint32_t oriel_mlx5_turn_doorbell(uint64_t turn)
{
	return (uint32_t)turn & 3;
}

/* All below have been published. */
ORIEL_DEV uint64_t oriel_mlx5_ready(const struct oriel_mlx5_queue *q)
{
	return oriel_mlx5_turn_ready(oriel_dev_load_relaxed_gpu(&q->turn));
}

/* Begin with WQE @first. The constants are set; no thread uses the queue yet. */
ORIEL_DEV void oriel_mlx5_queue_begin(struct oriel_mlx5_queue *q, uint64_t first)
{
	q->resv = q->done = first;
	q->turn = oriel_mlx5_turn(first, ORIEL_MLX5_RUNG);
	q->err = 0;
}

ORIEL_DEV uint64_t oriel_mlx5_depth(const struct oriel_mlx5_queue *q)
{
	return (uint64_t)1 << q->log_depth;
}

/*
 * The constants of a queue that a post needs, loaded once: each acquire on the way of a post would
 * make a GPU load them again.
 */
struct oriel_mlx5_constants {
	char *sq;
	uint32_t *record;
	uint64_t *doorbell;
	uint32_t qpn;
	uint32_t log_depth;
	uint32_t sink_lkey;
};

ORIEL_DEV struct oriel_mlx5_constants oriel_mlx5_constants_of(const struct oriel_mlx5_queue *q)
{
	struct oriel_mlx5_constants c = {q->sq,  q->record,    q->doorbell,
					 q->qpn, q->log_depth, q->sink_lkey};

	return c;
}

/* @wqe keeps its low 40 bits. */
ORIEL_DEV uint64_t oriel_queue_err(uint32_t state, uint32_t syndrome, uint32_t vendor, uint64_t wqe)
{
	return (uint64_t)state << 56 | (uint64_t)syndrome << 48 | (uint64_t)vendor << 40 |
	       (wqe & (((uint64_t)1 << 40) - 1));
}

ORIEL_DEV uint32_t oriel_queue_err_state(uint64_t err)
{
	return (uint32_t)(err >> 56);
}

ORIEL_DEV uint32_t oriel_queue_err_syndrome(uint64_t err)
{
	return err >> 48 & 0xff;
}

ORIEL_DEV uint32_t oriel_queue_err_vendor(uint64_t err)
{
	return err >> 40 & 0xff;
}

ORIEL_DEV uint64_t oriel_queue_err_index(uint64_t err)
{
	return err & (((uint64_t)1 << 40) - 1);
}

/* The status of an err word for the caller. */
ORIEL_DEV_COLD enum oriel_status oriel_queue_err_status(uint64_t err)
{
	switch (oriel_queue_err_state(err)) {
	case ORIEL_QUEUE_OK:
		return ORIEL_OK;
	case ORIEL_QUEUE_ABANDONED:
		return ORIEL_ERR_TIMEOUT;
	case ORIEL_QUEUE_CONDEMNED:
		return ORIEL_ERR_STATE;
	case ORIEL_QUEUE_STRAY_CQE:
		return ORIEL_ERR_PROTOCOL;
	}
	switch (oriel_queue_err_syndrome(err)) {
	case ORIEL_MLX5_RETRY_EXCEEDED:
	case ORIEL_MLX5_NOT_READY_EXCEEDED:
	case ORIEL_MLX5_REMOTE_OPERATION:
	case ORIEL_MLX5_REMOTE_ABORTED:
		return ORIEL_ERR_PEER;
	case ORIEL_MLX5_FLUSHED:
		return ORIEL_ERR_STATE;
	}
	return ORIEL_ERR_ACCESS;
}

/* Any thread: @q fails with @err, unless it has failed before. */
ORIEL_DEV_COLD void oriel_mlx5_condemn(struct oriel_mlx5_queue *q, uint64_t err)
{
	uint64_t well = 0;

	(void)oriel_dev_swap_acq_rel_gpu(&q->err, &well, err);
}

/* ORIEL_OK while the queue works. */
ORIEL_DEV enum oriel_status oriel_mlx5_health(const struct oriel_mlx5_queue *q)
{
	uint64_t err = oriel_dev_load_relaxed_gpu(&q->err);

	return err ? oriel_queue_err_status(err) : ORIEL_OK;
}

ORIEL_DEV void *oriel_mlx5_slot_of(const struct oriel_mlx5_constants *c, uint64_t index)
{
	return c->sq + (index & (((uint64_t)1 << c->log_depth) - 1)) * ORIEL_MLX5_BLOCK;
}

ORIEL_DEV void *oriel_mlx5_slot(const struct oriel_mlx5_queue *q, uint64_t index)
{
	return q->sq + (index & (oriel_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK;
}

ORIEL_DEV struct oriel_mlx5_head oriel_mlx5_head_of(const struct oriel_mlx5_queue *q,
						    uint64_t index, uint32_t fence)
{
	struct oriel_mlx5_head head = {index, q->qpn, fence};

	return head;
}

ORIEL_DEV struct oriel_rdma_address oriel_mlx5_sink(const struct oriel_mlx5_queue *q)
{
	struct oriel_rdma_address sink = {0, q->sink_lkey};

	return sink;
}

/* The 8 bytes that an atomic returned, in the order of the machine. */
ORIEL_DEV uint64_t oriel_mlx5_atomic_result(const struct oriel_mlx5_queue *q, uint64_t word)
{
	return q->flags & ORIEL_MLX5_ATOMICS_SWAPPED ? oriel_dev_swap_bytes(word) : word;
}

struct oriel_link_waiter {
	const struct oriel_link_wait_limits *limits;
	uint64_t start;
	uint32_t polls;
};

ORIEL_DEV struct oriel_link_waiter
oriel_link_wait_begin(const struct oriel_link_wait_limits *limits)
{
	struct oriel_link_waiter waiter = {limits, 0, 0};

	return waiter;
}

ORIEL_DEV_RARE enum oriel_status oriel_link_wait_slowly(struct oriel_link_waiter *waiter)
{
	const struct oriel_link_wait_limits *limits = waiter->limits;
	uint64_t now = oriel_dev_clock_ns();

	if (limits->health &&
	    oriel_dev_load_acquire32(&limits->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)limits->health->status;
	if (!waiter->start)
		waiter->start = now;
	if (limits->timeout_ns != ORIEL_FOREVER && now - waiter->start >= limits->timeout_ns)
		return ORIEL_ERR_TIMEOUT;
	oriel_dev_back_off(now - waiter->start);
	return ORIEL_AGAIN;
}

/* A poll found nothing, and nothing has failed. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status oriel_link_wait_again(struct oriel_link_waiter *waiter)
{
	waiter->polls++;
#ifdef __CUDA_ARCH__
	/*
	 * The clock and the host word cost more than a poll; reading them every 64 polls is enough.
	 */
	if (waiter->polls % 64)
		return ORIEL_AGAIN;
#else
	if (waiter->polls < waiter->limits->spin) {
		oriel_dev_relax();
		return ORIEL_AGAIN;
	}
#endif
	return oriel_link_wait_slowly(waiter);
}

/* A poll found nothing. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status oriel_mlx5_wait_step(const struct oriel_mlx5_queue *q,
						 struct oriel_link_waiter *waiter)
{
	enum oriel_status status = oriel_mlx5_health(q);

	return status == ORIEL_OK ? oriel_link_wait_again(waiter) : status;
}

/*
 * CQE @index has the owner bit of its lap but is not of that WQE. Either this thread has slept for
 * laps, and then done has moved on, or the rule that CQE i is of WQE i is broken.
 */
ORIEL_DEV_COLD void oriel_mlx5_stray(struct oriel_mlx5_queue *q, const void *cqe, uint64_t index)
{
	/*
	 * The thread that let a WQE of a later lap into this slot had seen done beyond @index;
	 * acquiring the CQE of that WQE makes done visible here.
	 */
	(void)oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	if (oriel_dev_load_acquire_gpu(&q->done) <= index)
		oriel_mlx5_condemn(q, oriel_queue_err(ORIEL_QUEUE_STRAY_CQE, 0, 0, index));
}

ORIEL_DEV_COLD void oriel_mlx5_failed(struct oriel_mlx5_queue *q, const void *cqe, uint64_t index)
{
	uint32_t error;

	/* The HCA released the word below with the tail. */
	(void)oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	error = oriel_dev_load_relaxed32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_ERROR));
	oriel_mlx5_condemn(q,
			   oriel_queue_err(ORIEL_QUEUE_ERROR_CQE, oriel_mlx5_error_syndrome(error),
					   oriel_mlx5_error_vendor(error), index));
}

/* Has WQE @index completed without an error? */
ORIEL_DEV bool oriel_mlx5_check_cqe(struct oriel_mlx5_queue *q, const void *cqe, uint64_t index)
{
	uint32_t tail = oriel_dev_load_relaxed32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));

	if (oriel_mlx5_tail_completion(tail) == ORIEL_MLX5_INVALID ||
	    oriel_mlx5_tail_owner(tail) != (index >> q->log_depth & 1))
		return false;
	if (oriel_mlx5_tail_counter(tail) != (index & 0xffff)) {
		oriel_mlx5_stray(q, cqe, index);
		return false;
	}
	if (oriel_mlx5_tail_completion(tail) == ORIEL_MLX5_DONE)
		return true;
	oriel_mlx5_failed(q, cqe, index);
	return false;
}

/*
 * Any thread: poll the progress of the HCA. It never polls beyond ready: the CQE two laps ahead has
 * the same owner bit.
 */
ORIEL_DEV void oriel_mlx5_progress(struct oriel_mlx5_queue *q)
{
	uint64_t begin = oriel_dev_load_acquire_gpu(&q->done);
	uint64_t end = oriel_mlx5_ready(q), mask = oriel_mlx5_depth(q) - 1, i;
	const char *cqe = NULL;

	for (i = begin; i < end; i++) {
		const char *next = q->cq + (i & mask) * ORIEL_MLX5_BLOCK;

		if (!oriel_mlx5_check_cqe(q, next, i))
			break;
		cqe = next;
	}
	if (!cqe)
		return;
	/*
	 * Acquires the writes of the HCA before the last of these CQEs, which it wrote in order;
	 * done passes them on to any thread that acquires done.
	 */
	(void)oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	oriel_dev_max_release_gpu(&q->done, i);
}

/*
 * Any thread: has WQE @index completed? CQEs are written in order, and after one that failed there
 * are only those of flushed WQEs: so this does not read the CQEs before, each of which a GPU would
 * fetch over the bus, unless this one has an error. An error in an earlier CQE alone, which only an
 * HCA that breaks the rules makes, is found by a CPU at once, and in oriel_mlx5_wait() by a GPU.
 */
ORIEL_DEV void oriel_mlx5_progress_to(struct oriel_mlx5_queue *q, uint64_t index)
{
	const uint32_t *word =
		oriel_mlx5_cqe_word(q->cq + (index & (oriel_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK,
				    ORIEL_MLX5_TAIL);
	uint32_t tail;

	/* The CQE two laps ahead has the same owner bit. */
	if (index >= oriel_mlx5_ready(q))
		return;
	tail = oriel_dev_load_relaxed32(word);
	if (oriel_mlx5_tail_completion(tail) == ORIEL_MLX5_INVALID ||
	    oriel_mlx5_tail_owner(tail) != (index >> q->log_depth & 1)) {
#ifndef __CUDA_ARCH__
		oriel_mlx5_progress(q);
#endif
		return;
	}
	if (oriel_mlx5_tail_completion(tail) != ORIEL_MLX5_DONE ||
	    oriel_mlx5_tail_counter(tail) != (index & 0xffff)) {
		oriel_mlx5_progress(q);
		return;
	}
	/* As in oriel_mlx5_progress(). */
	(void)oriel_dev_acquire32(word, tail);
	oriel_dev_max_release_gpu(&q->done, index + 1);
}

/* Any thread: has WQE @index completed, as far as any thread has polled? */
ORIEL_DEV bool oriel_mlx5_is_done(const struct oriel_mlx5_queue *q, uint64_t index)
{
	return oriel_dev_load_acquire_gpu(&q->done) > index;
}

/*
 * Any thread: has the HCA released WQE @index, which is published? Also a WQE that failed or was
 * flushed: then nothing reads its source or writes its target any more.
 */
ORIEL_DEV_COLD bool oriel_mlx5_is_over(const struct oriel_mlx5_queue *q, uint64_t index)
{
	const char *cqe = q->cq + (index & (oriel_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK;
	uint32_t tail = oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));

	if (oriel_mlx5_is_done(q, index))
		return true;
	return oriel_mlx5_tail_completion(tail) != ORIEL_MLX5_INVALID &&
	       oriel_mlx5_tail_owner(tail) == (index >> q->log_depth & 1) &&
	       oriel_mlx5_tail_counter(tail) == (index & 0xffff);
}

/*
 * Any thread: poll once whether WQE @index has completed. ORIEL_AGAIN if not. A WQE that completed
 * before the queue failed counts as completed.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_poll(struct oriel_mlx5_queue *q, uint64_t index)
{
	enum oriel_status status;

	if (oriel_mlx5_is_done(q, index))
		return ORIEL_OK;
	oriel_mlx5_progress_to(q, index);
	if (oriel_mlx5_is_done(q, index))
		return ORIEL_OK;
	status = oriel_mlx5_health(q);
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

/*
 * Any thread: wait until WQE @index, for which some thread rings, has completed. Its source may
 * then be written and its result read.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_wait(struct oriel_mlx5_queue *q, uint64_t index,
					    const struct oriel_link_wait_limits *limits)
{
	struct oriel_link_waiter waiter = oriel_link_wait_begin(limits);
	enum oriel_status status;

	for (;;) {
		status = oriel_mlx5_poll(q, index);
		if (status != ORIEL_AGAIN)
			return status;
		status = oriel_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return status;
		if (waiter.polls % 64 == 0)
			oriel_mlx5_progress(q);
	}
}

/* A reservation cannot be returned, so that no later one can ever be published. */
ORIEL_DEV_COLD enum oriel_status oriel_mlx5_abandon(struct oriel_mlx5_queue *q, uint64_t index,
						    enum oriel_status status)
{
	oriel_mlx5_condemn(q, oriel_queue_err(ORIEL_QUEUE_ABANDONED, 0, 0, index));
	return status;
}

/*
 * Any thread: move done to @end if the HCA has come that far. If it is far ahead, move done a good
 * deal further, so that not every post has to poll.
 */
ORIEL_DEV void oriel_mlx5_make_room(struct oriel_mlx5_queue *q, uint64_t end)
{
	oriel_mlx5_progress_to(q, end - 1 + oriel_mlx5_depth(q) / 4);
	if (oriel_dev_load_relaxed_gpu(&q->done) < end)
		oriel_mlx5_progress_to(q, end - 1);
}

/*
 * Any thread: @count WQEs from *@base on are the caller's to fill in and to publish. At most half
 * the depth, else ORIEL_ERR_RANGE; after any other failure the queue is dead.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_reserve(struct oriel_mlx5_queue *q, uint32_t count,
					       const struct oriel_link_wait_limits *limits,
					       uint64_t *base)
{
	struct oriel_link_waiter waiter = oriel_link_wait_begin(limits);
	uint64_t depth = oriel_mlx5_depth(q), first;
	/* A GPU waits 0.2 us for each response of its L2 cache: all loads are issued at once. */
	uint64_t err = oriel_dev_load_relaxed_gpu(&q->err);
	uint64_t done = oriel_dev_load_relaxed_gpu(&q->done);
	enum oriel_status status;

	/* One WQE fits into any queue, however deep. */
	if (!count || (count > 1 && count > depth / 2))
		return err ? oriel_queue_err_status(err) : ORIEL_ERR_RANGE;
	first = oriel_dev_fetch_add_relaxed_gpu(&q->resv, count);
	/* No WQE of a dead queue is published any more, reserved or not. */
	if (err)
		return oriel_queue_err_status(err);
	while (first + count > done + depth) {
		oriel_mlx5_make_room(q, first + count - depth);
		done = oriel_dev_load_relaxed_gpu(&q->done);
		if (first + count <= done + depth)
			break;
		status = oriel_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return oriel_mlx5_abandon(q, first, status);
	}
	/* Acquires that the HCA has read the slots; see oriel_mlx5_progress(). */
	(void)oriel_dev_acquire_gpu(&q->done, done);
	*base = first;
	return ORIEL_OK;
}

/*
 * Any thread: oriel_mlx5_reserve() for a caller that may not wait, neither here nor in
 * oriel_mlx5_publish(). ORIEL_AGAIN: there is no room now, or another thread has reserved and not
 * yet published.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_try_reserve(struct oriel_mlx5_queue *q, uint32_t count,
						   uint64_t *base)
{
	uint64_t depth = oriel_mlx5_depth(q), first, seen;
	enum oriel_status status = oriel_mlx5_health(q);

	if (status != ORIEL_OK)
		return status;
	if (!count || count > depth / 2)
		return ORIEL_ERR_RANGE;
	first = oriel_mlx5_ready(q);
	/* Acquires that the HCA has read the slots; see oriel_mlx5_progress(). */
	if (first + count > oriel_dev_load_acquire_gpu(&q->done) + depth) {
		oriel_mlx5_make_room(q, first + count - depth);
		if (first + count > oriel_dev_load_acquire_gpu(&q->done) + depth)
			return ORIEL_AGAIN;
	}
	/*
	 * ready never passes resv: if resv is still equal to the old ready, no thread is between
	 * the two, and it is the caller's turn to publish.
	 */
	seen = first;
	if (!oriel_dev_swap_acq_rel_gpu(&q->resv, &seen, first + count))
		return ORIEL_AGAIN;
	*base = first;
	return ORIEL_OK;
}

/*
 * Wait for the threads that reserved before, then add @count to ready; unless a thread rings
 * already, the doorbell state becomes @doorbell. *@seen is the old value of the word turn. A fence
 * has released the slots of the caller.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_take_turn(struct oriel_mlx5_queue *q, uint64_t base,
						 uint32_t count,
						 const struct oriel_link_wait_limits *limits,
						 enum oriel_mlx5_doorbell_state doorbell,
						 uint64_t *seen)
{
	struct oriel_link_waiter waiter = oriel_link_wait_begin(limits);
	enum oriel_status status;
	uint32_t next;

#ifdef __CUDA_ARCH__
	/* A load would cost as much as an attempt. */
	*seen = oriel_mlx5_turn(base, ORIEL_MLX5_RUNG);
#else
	*seen = oriel_dev_load_relaxed(&q->turn);
#endif
	for (;;) {
		while (oriel_mlx5_turn_ready(*seen) != base) {
			status = oriel_mlx5_wait_step(q, &waiter);
			if (status != ORIEL_AGAIN)
				return oriel_mlx5_abandon(q, base, status);
			*seen = oriel_dev_load_relaxed_gpu(&q->turn);
		}
		next = oriel_mlx5_turn_doorbell(*seen);
		if (next != ORIEL_MLX5_RINGING)
			next = doorbell;
		/*
		 * Acquires the slots of all before and releases them with the caller's: a thread
		 * that acquires turn, here or in oriel_mlx5_ring(), may ring for all of them.
		 */
		if (oriel_dev_swap_after_fence_gpu(&q->turn, seen,
						   oriel_mlx5_turn(base + count, next)))
			return ORIEL_OK;
	}
}

/*
 * The thread that reserved, or the leader of its group after a sync: the slots are filled in. It
 * waits for the threads that reserved before.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_publish(struct oriel_mlx5_queue *q, uint64_t base,
					       uint32_t count,
					       const struct oriel_link_wait_limits *limits)
{
	uint64_t seen;

	oriel_dev_wqe_before_turn();
	return oriel_mlx5_take_turn(q, base, count, limits, ORIEL_MLX5_UNRUNG, &seen);
}

/*
 * The ringing thread: write the doorbell for all below @end, and for WQEs that are published while
 * it does so. @is_visible: the HCA already sees the WQEs.
 *
 * No WQE is left behind: a thread that publishes and leaves has found the state RINGING in the same
 * word that it changed, so that the exchange of the ringing thread fails, which ends only at an
 * index for which it has rung. tests/model explores all of this.
 */
ORIEL_DEV void oriel_mlx5_ring_doorbell(struct oriel_mlx5_queue *q,
					const struct oriel_mlx5_constants *c, uint64_t end,
					bool is_visible)
{
	bool is_over;
	uint64_t seen;

	do {
		if (!is_visible)
			oriel_dev_wqe_before_record();
		oriel_dev_record(&c->record[1], oriel_mlx5_record_value(end));
		oriel_dev_record_before_doorbell();
		oriel_dev_doorbell(c->doorbell, oriel_mlx5_doorbell_value(c->qpn, end));
		seen = oriel_mlx5_turn(end, ORIEL_MLX5_RINGING);
		/*
		 * Acquired by the next ringing thread: doorbells do not overtake each other. If it
		 * fails it acquires the slots for which it is to ring.
		 */
		is_over = oriel_dev_swap_acq_rel_gpu(&q->turn, &seen,
						     oriel_mlx5_turn(end, ORIEL_MLX5_RUNG));
#ifndef __CUDA_ARCH__
		/*
		 * The HCA sets asleep, does a full fence and reads the doorbell once more; here the
		 * doorbell comes first, then the fence, then the read of asleep. One of the two
		 * sees the other's write.
		 */
		if (q->asleep) {
			oriel_dev_fence_full();
			if (oriel_dev_load_relaxed32(q->asleep))
				oriel_cpu_wake(q->asleep);
		}
#endif
		end = oriel_mlx5_turn_ready(seen);
		is_visible = false;
	} while (!is_over);
}

/*
 * Any thread: afterwards the HCA knows of all that has been published, or another thread is about
 * to ring for it. Never waits.
 */
ORIEL_DEV void oriel_mlx5_ring(struct oriel_mlx5_queue *q)
{
	struct oriel_mlx5_constants c = oriel_mlx5_constants_of(q);
	uint64_t seen = oriel_dev_load_relaxed_gpu(&q->turn);

	while (oriel_mlx5_turn_doorbell(seen) == ORIEL_MLX5_UNRUNG)
		/* Acquires the slots released in oriel_mlx5_take_turn(). */
		if (oriel_dev_swap_acquire_gpu(&q->turn, &seen,
					       oriel_mlx5_turn(oriel_mlx5_turn_ready(seen),
							       ORIEL_MLX5_RINGING))) {
			oriel_mlx5_ring_doorbell(q, &c, oriel_mlx5_turn_ready(seen), false);
			return;
		}
}

/*
 * Publish and ring in one: a GPU that posts alone does one fence, the one towards the HCA, before
 * it takes its turn, and not another one towards the GPU.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_post_with(struct oriel_mlx5_queue *q,
						 const struct oriel_mlx5_constants *c,
						 uint64_t base, uint32_t count,
						 const struct oriel_link_wait_limits *limits)
{
	enum oriel_status status;
	uint64_t seen;

	oriel_dev_wqe_before_record();
	status = oriel_mlx5_take_turn(q, base, count, limits, ORIEL_MLX5_RINGING, &seen);
	if (status != ORIEL_OK || oriel_mlx5_turn_doorbell(seen) == ORIEL_MLX5_RINGING)
		return status;
	/*
	 * WQEs that other threads have published without ringing were released to this GPU alone.
	 */
	oriel_mlx5_ring_doorbell(q, c, base + count,
				 oriel_mlx5_turn_doorbell(seen) == ORIEL_MLX5_RUNG);
	return ORIEL_OK;
}

ORIEL_DEV enum oriel_status oriel_mlx5_post(struct oriel_mlx5_queue *q, uint64_t base,
					    uint32_t count,
					    const struct oriel_link_wait_limits *limits)
{
	struct oriel_mlx5_constants c = oriel_mlx5_constants_of(q);

	return oriel_mlx5_post_with(q, &c, base, count, limits);
}

#endif
