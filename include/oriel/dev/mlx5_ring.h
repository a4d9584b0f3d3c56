/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send queue of mlx5 that any number of threads post to, and its completion
 * queue that any number of threads poll. Needs no window: what bounds a wait is
 * passed along.
 *
 * Indices count WQEs from the first ever and never wrap:
 *   done <= posted <= ready <= resv, resv of those let through <= done + depth
 * Every WQE is one block and makes one CQE, so CQE i is that of WQE i.
 *
 * A post is reserve, fill the slots, publish, ring. Between reserve and publish
 * do nothing that can wait: publication is in order of the indices, so one
 * thread that is held up holds up all behind it. In particular hold no
 * reservations on two queues. Ring what you have published before you reserve
 * again: reserve waits for completions of what nobody may have rung.
 */
#ifndef ORIEL_DEV_MLX5_RING_H
#define ORIEL_DEV_MLX5_RING_H

#include <oriel/dev/mlx5.h>

/* Results of 8-byte atomics come big-endian. */
#define ORIEL_MLX5_ATOMICS_SWAPPED 1u

/* Why a queue is dead. */
enum oriel_mlx5_state {
	ORIEL_MLX5_WELL,
	ORIEL_MLX5_ERROR_CQE, /* the adapter said so in the CQE of the WQE */
	ORIEL_MLX5_STRAY_CQE, /* the CQE of the WQE names another one */
	ORIEL_MLX5_ABANDONED, /* a thread gave up after it had reserved the WQE */
	ORIEL_MLX5_CONDEMNED, /* the host says so */
};

/*
 * Lives in memory that posters, pollers and the host reach, aligned to
 * ORIEL_DEV_LINE, so that each word that is written has a line of its own.
 */
struct oriel_mlx5_queue {
	/* Never changes while anybody posts. */
	char *sq;           /* [depth] WQEs */
	const char *cq;     /* [depth] CQEs */
	uint32_t *record;   /* doorbell record {receive, send} */
	uint64_t *doorbell; /* of this queue alone */
	uint32_t *asleep;   /* see oriel_cpu_wake(); NULL if the adapter never sleeps */
	uint32_t qpn;
	uint32_t cqn;
	uint32_t log_depth; /* depth is at most ORIEL_MLX5_DEPTH_MAX, at least 2 */
	uint32_t sink_lkey; /* of 8 bytes at address 0, for results nobody reads */
	uint32_t flags;
	uint32_t reserved0[17];

	uint64_t resv; /* the next to hand out */
	uint64_t reserved1[15];
	uint64_t ready; /* all below are filled in */
	uint64_t reserved2[15];
	uint64_t posted; /* all below are rung; written by the holder of the lock */
	uint64_t reserved3[15];
	uint32_t lock; /* of the doorbell; nobody ever waits for it */
	uint32_t reserved4[31];
	uint64_t done; /* all below have completed */
	uint64_t reserved5[15];
	uint64_t err; /* oriel_mlx5_err(); 0 while well; the first cause stays */
	uint64_t reserved6[15];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_mlx5_queue) == 7 * ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct oriel_mlx5_queue, resv) == ORIEL_DEV_LINE);
ORIEL_DEV_ASSERT(offsetof(struct oriel_mlx5_queue, err) == 6 * ORIEL_DEV_LINE);

/* What bounds a wait. */
struct oriel_mlx5_limits {
	const struct oriel_dev_fault *health; /* broken once FULL; NULL if there is none */
	uint64_t timeout_ns;                  /* ORIEL_FOREVER for none */
	uint32_t spin;                        /* polls before a CPU thread yields */
	uint32_t reserved;
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_mlx5_limits) == 24);

/* Begin with WQE @first. The constants are set; nobody uses the queue yet. */
ORIEL_DEV void oriel_mlx5_queue_begin(struct oriel_mlx5_queue *q, uint64_t first)
{
	q->resv = q->ready = q->posted = q->done = first;
	q->err = 0;
	q->lock = 0;
}

ORIEL_DEV uint64_t oriel_mlx5_depth(const struct oriel_mlx5_queue *q)
{
	return (uint64_t)1 << q->log_depth;
}

/* @wqe keeps its low 40 bits. */
ORIEL_DEV uint64_t oriel_mlx5_err(uint32_t state, uint32_t syndrome, uint32_t vendor, uint64_t wqe)
{
	return (uint64_t)state << 56 | (uint64_t)syndrome << 48 | (uint64_t)vendor << 40 |
	       (wqe & (((uint64_t)1 << 40) - 1));
}

ORIEL_DEV uint32_t oriel_mlx5_err_state(uint64_t err)
{
	return (uint32_t)(err >> 56);
}

ORIEL_DEV uint32_t oriel_mlx5_err_syndrome(uint64_t err)
{
	return err >> 48 & 0xff;
}

ORIEL_DEV uint32_t oriel_mlx5_err_vendor(uint64_t err)
{
	return err >> 40 & 0xff;
}

ORIEL_DEV uint64_t oriel_mlx5_err_wqe(uint64_t err)
{
	return err & (((uint64_t)1 << 40) - 1);
}

/* What an err word means to the caller. */
ORIEL_DEV_COLD enum oriel_status oriel_mlx5_err_status(uint64_t err)
{
	switch (oriel_mlx5_err_state(err)) {
	case ORIEL_MLX5_WELL:
		return ORIEL_OK;
	case ORIEL_MLX5_ABANDONED:
		return ORIEL_ERR_TIMEOUT;
	case ORIEL_MLX5_CONDEMNED:
		return ORIEL_ERR_STATE;
	case ORIEL_MLX5_STRAY_CQE:
		return ORIEL_ERR_PROTOCOL;
	}
	switch (oriel_mlx5_err_syndrome(err)) {
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

/* Any thread: @q is dead of @err, unless it is of something else already. */
ORIEL_DEV_COLD void oriel_mlx5_condemn(struct oriel_mlx5_queue *q, uint64_t err)
{
	(void)oriel_dev_swap_acq_rel(&q->err, 0, err);
}

/* ORIEL_OK while the queue is well. */
ORIEL_DEV enum oriel_status oriel_mlx5_health(const struct oriel_mlx5_queue *q)
{
	uint64_t err = oriel_dev_load_relaxed(&q->err);

	return err ? oriel_mlx5_err_status(err) : ORIEL_OK;
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

ORIEL_DEV struct oriel_mlx5_place oriel_mlx5_sink(const struct oriel_mlx5_queue *q)
{
	struct oriel_mlx5_place sink = {0, q->sink_lkey};

	return sink;
}

/* The 8 bytes that an atomic returned, in the order of the machine. */
ORIEL_DEV uint64_t oriel_mlx5_atomic_result(const struct oriel_mlx5_queue *q, uint64_t word)
{
	return q->flags & ORIEL_MLX5_ATOMICS_SWAPPED ? oriel_dev_swap_bytes(word) : word;
}

struct oriel_mlx5_waiter {
	const struct oriel_mlx5_limits *limits;
	uint64_t start;
	uint32_t polls;
};

ORIEL_DEV struct oriel_mlx5_waiter oriel_mlx5_wait_begin(const struct oriel_mlx5_limits *limits)
{
	struct oriel_mlx5_waiter waiter = {limits, 0, 0};

	return waiter;
}

ORIEL_DEV_COLD enum oriel_status oriel_mlx5_wait_slowly(struct oriel_mlx5_waiter *waiter)
{
	const struct oriel_mlx5_limits *limits = waiter->limits;
	uint64_t now = oriel_dev_clock_ns();

	if (limits->health &&
	    oriel_dev_load_acquire32(&limits->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)limits->health->status;
	if (!waiter->start)
		waiter->start = now;
	if (limits->timeout_ns != ORIEL_FOREVER && now - waiter->start >= limits->timeout_ns)
		return ORIEL_ERR_TIMEOUT;
	oriel_dev_give_way(now - waiter->start);
	return ORIEL_AGAIN;
}

/* What was looked for is not there. ORIEL_AGAIN: look again. */
ORIEL_DEV enum oriel_status oriel_mlx5_wait_step(const struct oriel_mlx5_queue *q,
						 struct oriel_mlx5_waiter *waiter)
{
	enum oriel_status status = oriel_mlx5_health(q);

	if (status != ORIEL_OK)
		return status;
	waiter->polls++;
#ifdef __CUDA_ARCH__
	/* The clock and the host word cost more than a poll; one look in 64 is enough. */
	if (waiter->polls % 64)
		return ORIEL_AGAIN;
#else
	if (waiter->polls < waiter->limits->spin) {
		oriel_dev_relax();
		return ORIEL_AGAIN;
	}
#endif
	return oriel_mlx5_wait_slowly(waiter);
}

/*
 * CQE @index has the owner bit of its lap but is not of that WQE. Either this
 * thread has slept for laps, and then done has moved on, or somebody breaks the
 * rule that CQE i is of WQE i.
 */
ORIEL_DEV_COLD void oriel_mlx5_stray(struct oriel_mlx5_queue *q, const void *cqe, uint64_t index)
{
	/*
	 * Whoever let a WQE of a later lap into this slot had seen done beyond
	 * @index; its CQE, acquired, brings that here.
	 */
	(void)oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	if (oriel_dev_load_acquire(&q->done) <= index)
		oriel_mlx5_condemn(q, oriel_mlx5_err(ORIEL_MLX5_STRAY_CQE, 0, 0, index));
}

ORIEL_DEV_COLD void oriel_mlx5_failed(struct oriel_mlx5_queue *q, const void *cqe, uint64_t index)
{
	uint32_t error;

	/* The adapter released the word below with the tail. */
	(void)oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	error = oriel_dev_load_relaxed32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_ERROR));
	oriel_mlx5_condemn(q, oriel_mlx5_err(ORIEL_MLX5_ERROR_CQE, oriel_mlx5_error_syndrome(error),
					     oriel_mlx5_error_vendor(error), index));
}

/* Has WQE @index completed well? */
ORIEL_DEV bool oriel_mlx5_look(struct oriel_mlx5_queue *q, const void *cqe, uint64_t index)
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
 * Any thread: look how far the adapter has come. Never looks beyond ready: the
 * CQE two laps ahead has the same owner bit.
 */
ORIEL_DEV void oriel_mlx5_progress(struct oriel_mlx5_queue *q)
{
	uint64_t begin = oriel_dev_load_acquire(&q->done);
	uint64_t end = oriel_dev_load_relaxed(&q->ready), mask = oriel_mlx5_depth(q) - 1, i;
	const char *cqe = NULL;

	for (i = begin; i < end; i++) {
		const char *next = q->cq + (i & mask) * ORIEL_MLX5_BLOCK;

		if (!oriel_mlx5_look(q, next, i))
			break;
		cqe = next;
	}
	if (!cqe)
		return;
	/*
	 * Acquires what the adapter did before the last of these CQEs, which it
	 * wrote in order; done passes that on to whoever acquires done.
	 */
	(void)oriel_dev_load_acquire32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	oriel_dev_max_release(&q->done, i);
}

/* Any thread: has WQE @index completed, as far as anybody has looked? */
ORIEL_DEV bool oriel_mlx5_is_done(const struct oriel_mlx5_queue *q, uint64_t index)
{
	return oriel_dev_load_acquire(&q->done) > index;
}

/*
 * Any thread: has the adapter let go of WQE @index, which is published? Of one
 * that failed or was flushed as well: then nothing reads its source or writes
 * its target any more.
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
 * Any thread: look once whether WQE @index has completed. ORIEL_AGAIN if not.
 * What completed before the queue died counts as completed.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_poll(struct oriel_mlx5_queue *q, uint64_t index)
{
	enum oriel_status status;

	if (oriel_mlx5_is_done(q, index))
		return ORIEL_OK;
	oriel_mlx5_progress(q);
	if (oriel_mlx5_is_done(q, index))
		return ORIEL_OK;
	status = oriel_mlx5_health(q);
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

/*
 * Any thread: wait until WQE @index, which somebody rings, has completed. Its
 * source may then be written and its result read.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_wait(struct oriel_mlx5_queue *q, uint64_t index,
					    const struct oriel_mlx5_limits *limits)
{
	struct oriel_mlx5_waiter waiter = oriel_mlx5_wait_begin(limits);
	enum oriel_status status;

	for (;;) {
		status = oriel_mlx5_poll(q, index);
		if (status != ORIEL_AGAIN)
			return status;
		status = oriel_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return status;
	}
}

/* A reservation cannot be given back, so that no later one can ever be published. */
ORIEL_DEV_COLD enum oriel_status oriel_mlx5_abandon(struct oriel_mlx5_queue *q, uint64_t index,
						    enum oriel_status status)
{
	oriel_mlx5_condemn(q, oriel_mlx5_err(ORIEL_MLX5_ABANDONED, 0, 0, index));
	return status;
}

/*
 * Any thread: @count WQEs from *@base on are the caller's to fill in and to
 * publish. At most half the depth, else ORIEL_ERR_RANGE; after any other failure
 * the queue is dead.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_reserve(struct oriel_mlx5_queue *q, uint32_t count,
					       const struct oriel_mlx5_limits *limits,
					       uint64_t *base)
{
	struct oriel_mlx5_waiter waiter = oriel_mlx5_wait_begin(limits);
	uint64_t depth = oriel_mlx5_depth(q), first;
	enum oriel_status status = oriel_mlx5_health(q);

	if (status != ORIEL_OK)
		return status;
	if (!count || count > depth / 2)
		return ORIEL_ERR_RANGE;
	first = oriel_dev_fetch_add_relaxed(&q->resv, count);
	/* Acquires that the adapter has read the slots; see oriel_mlx5_progress(). */
	while (first + count > oriel_dev_load_acquire(&q->done) + depth) {
		oriel_mlx5_progress(q);
		if (first + count <= oriel_dev_load_relaxed(&q->done) + depth)
			continue;
		status = oriel_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return oriel_mlx5_abandon(q, first, status);
	}
	*base = first;
	return ORIEL_OK;
}

/*
 * Any thread: oriel_mlx5_reserve() for one who may not wait, neither here nor in
 * oriel_mlx5_publish(). ORIEL_AGAIN: there is no room now, or another thread has
 * reserved and not yet published.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_try_reserve(struct oriel_mlx5_queue *q, uint32_t count,
						   uint64_t *base)
{
	uint64_t depth = oriel_mlx5_depth(q), first;
	enum oriel_status status = oriel_mlx5_health(q);

	if (status != ORIEL_OK)
		return status;
	if (!count || count > depth / 2)
		return ORIEL_ERR_RANGE;
	first = oriel_dev_load_relaxed(&q->ready);
	/* Acquires that the adapter has read the slots; see oriel_mlx5_progress(). */
	if (first + count > oriel_dev_load_acquire(&q->done) + depth) {
		oriel_mlx5_progress(q);
		if (first + count > oriel_dev_load_acquire(&q->done) + depth)
			return ORIEL_AGAIN;
	}
	/*
	 * ready never passes resv: if resv is still what ready was, nobody is
	 * between the two, and it is the caller's turn to publish.
	 */
	if (!oriel_dev_swap_acq_rel(&q->resv, first, first + count))
		return ORIEL_AGAIN;
	*base = first;
	return ORIEL_OK;
}

/*
 * The thread that reserved, or the leader of its group once all have met: the
 * slots are filled in. It waits for those who reserved before.
 */
ORIEL_DEV enum oriel_status oriel_mlx5_publish(struct oriel_mlx5_queue *q, uint64_t base,
					       uint32_t count,
					       const struct oriel_mlx5_limits *limits)
{
	struct oriel_mlx5_waiter waiter = oriel_mlx5_wait_begin(limits);
	enum oriel_status status;

	while (oriel_dev_load_relaxed(&q->ready) != base) {
		status = oriel_mlx5_wait_step(q, &waiter);
		if (status != ORIEL_AGAIN)
			return oriel_mlx5_abandon(q, base, status);
	}
	/*
	 * Acquires the slots of all before and releases them with the caller's:
	 * whoever acquires ready in oriel_mlx5_ring() may ring for all of them.
	 */
	(void)oriel_dev_load_acquire(&q->ready);
	oriel_dev_store_release(&q->ready, base + count);
	return ORIEL_OK;
}

/* The holder of the lock: tell the adapter of all below @end. */
ORIEL_DEV void oriel_mlx5_tell(struct oriel_mlx5_queue *q, uint64_t end)
{
	oriel_dev_wqe_before_record();
	oriel_dev_record(&q->record[1], oriel_mlx5_record_value(end));
	oriel_dev_record_before_doorbell();
	oriel_dev_doorbell(q->doorbell, oriel_mlx5_doorbell_value(q->qpn, end));
	oriel_dev_store_relaxed(&q->posted, end);
}

/*
 * Any thread: the adapter knows, or another thread is about to tell it, of all
 * below @end, which are published. Never waits: who finds the lock taken
 * leaves, since the holder looks at ready once more after it has let go.
 *
 * That holds because of two full fences. The one who leaves has stored ready
 * before F1 and then found the lock taken; the holder has freed the lock before
 * F2 and then reads ready. So if the exchange came before the release of the
 * lock, F1 comes before F2 and the holder sees ready. Only before the first try
 * may posted decide: after it, posted says nothing of what was published since.
 * tests/model explores all of this, and what is lost without either fence.
 */
ORIEL_DEV void oriel_mlx5_ring(struct oriel_mlx5_queue *q, uint64_t end)
{
	uint64_t ready;
	bool is_told;

	oriel_dev_fence_full(); /* F1 */
	if (oriel_dev_load_relaxed(&q->posted) >= end)
		return;
	do {
		if (oriel_dev_exchange_acquire32(&q->lock, 1))
			return;
		/* Acquires the slots released in oriel_mlx5_publish(). */
		ready = oriel_dev_load_acquire(&q->ready);
		is_told = ready > oriel_dev_load_relaxed(&q->posted);
		if (is_told)
			oriel_mlx5_tell(q, ready);
		/* Acquired by the next holder: doorbells do not overtake each other. */
		oriel_dev_store_release32(&q->lock, 0);
		oriel_dev_fence_full(); /* F2 */
#ifndef __CUDA_ARCH__
		/*
		 * The adapter sets asleep, does a full fence and looks at the
		 * doorbell once more; here the doorbell comes first, F2, then asleep.
		 * One of the two sees what the other did.
		 */
		if (is_told && q->asleep && oriel_dev_load_relaxed32(q->asleep))
			oriel_cpu_wake(q->asleep);
#endif
	} while (oriel_dev_load_relaxed(&q->ready) != oriel_dev_load_relaxed(&q->posted));
}

#endif
