/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a link is and where posts to it go: see oriel/dev/link.h. How far it has
 * come, and what is left for the host when it fails.
 */
#ifndef ORIEL_DEV_LINK_QUEUE_H
#define ORIEL_DEV_LINK_QUEUE_H

#include <oriel/dev/mlx5_ring.h>
#include <oriel/dev/proxy.h>
#include <oriel/dev/wait.h>

/*
 * Ways of posting that this translation unit can use, as a mask of 1 << enum
 * oriel_link_post_kind. Define it before including to leave the code of one out of a
 * kernel; a link of that way then looks as if it were not connected.
 */
#ifndef ORIEL_DEV_LINK_POSTS
#define ORIEL_DEV_LINK_POSTS 0x3u
#endif

enum oriel_link_post_kind {
	ORIEL_LINK_RINGS, /* of mlx5, which the adapter reads */
	ORIEL_LINK_PROXY,
};

#define ORIEL_LINK_CAUSE_NS 200000000u
#define ORIEL_LINK_CLOSE_NS 3000000000u

#define ORIEL_LINK_ANSWERS 64u

#define ORIEL_LINK_REACH 256u

/*
 * Memory of the GPU that the host has made known to adapters, but for windows. Places
 * that are empty have no length. Kernels see what was there when they were launched.
 */
struct oriel_link_reach {
	uint64_t count;
	uint64_t reserved[7];
	struct oriel_dev_buffer of[ORIEL_LINK_REACH]; /* rkeys are lkeys */
};

/*
 * Words for what atomics bring back to kernels, whose stacks no adapter reaches:
 * bit i of @taken is set as long as word i is some thread's. The adapter knows word 0
 * as @address of @key, or as its own address where @key is 0.
 */
struct oriel_link_answers {
	uint64_t taken;
	uint64_t address;
	uint64_t key;
	const struct oriel_link_reach *reach; /* NULL: own buffers need not be looked for */
	uint64_t reserved[12];
	uint64_t words[ORIEL_LINK_ANSWERS];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_link_answers) == 5 * ORIEL_DEV_LINE);

/*
 * Whose memory is late: what an adapter writes there may be seen after the word that tells
 * of it. So are GPUs that do not order such writes; see docs/hardware.md.
 */
#define ORIEL_LINK_UNORDERED_LOCAL 1u
#define ORIEL_LINK_UNORDERED_REMOTE 2u

struct oriel_dev_link {
	void *main; /* NULL until connected; of the type that @way says: see oriel_link_main() */
	struct oriel_mlx5_queue *companion; /* of the same time; NULL: rings without counters */
	struct oriel_dev_fault *health;     /* of the communicator; NULL if there is none */
	struct oriel_dev_fault *blame;      /* where failures are left, as in a window's handle */
	struct oriel_link_answers *answers; /* NULL: threads have stacks that adapters reach */
	uint64_t timeout_ns;
	uint32_t spin; /* polls before a CPU thread yields */
	uint32_t peer; /* rank, for the health record */
	uint32_t rail; /* which adapter, at both ends: which key of a table */
	uint16_t way;  /* enum oriel_link_post_kind, from the beginning */
	uint16_t late; /* ORIEL_LINK_LATE_..., as long as it has been connected */
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_link) == 64);

/* Where posts go: one of the two; neither if the link is not connected. */
struct oriel_link_queue {
	struct oriel_mlx5_queue *ring;
	struct oriel_proxy_ring *proxy;
};

ORIEL_DEV bool oriel_link_is_proxied(struct oriel_link_queue q)
{
	if (!(ORIEL_DEV_LINK_POSTS >> ORIEL_LINK_PROXY & 1))
		return false;
	return !(ORIEL_DEV_LINK_POSTS >> ORIEL_LINK_RINGS & 1) || q.proxy;
}

ORIEL_DEV bool oriel_link_has(struct oriel_link_queue q)
{
	return q.ring || q.proxy;
}

/*
 * Any thread: the main queue of @l, if it is connected. Acquires what
 * oriel_link_connected() released: the queues and all the constants in them.
 */
ORIEL_DEV struct oriel_link_queue oriel_link_main(const struct oriel_dev_link *l)
{
	struct oriel_link_queue q = {NULL, NULL};
	uint32_t way = l->way;
	void *main = oriel_dev_load_acquire_pointer(&l->main);

	if (!(ORIEL_DEV_LINK_POSTS >> way & 1))
		return q;
	if (way == ORIEL_LINK_PROXY)
		q.proxy = (struct oriel_proxy_ring *)main;
	else
		q.ring = (struct oriel_mlx5_queue *)main;
	return q;
}

ORIEL_DEV bool oriel_link_is_connected(const struct oriel_dev_link *l)
{
	return oriel_link_has(oriel_link_main(l));
}

/* The host: from now on anybody may post to @main; both ends are ready. */
ORIEL_DEV void oriel_link_connected(struct oriel_dev_link *l, void *main,
				    struct oriel_mlx5_queue *companion)
{
	l->companion = companion;
	oriel_dev_store_release_pointer(&l->main, main);
}

/* Any thread: look how far the adapter has come. */
ORIEL_DEV void oriel_link_progress(struct oriel_link_queue q)
{
	if (oriel_link_is_proxied(q))
		oriel_proxy_progress(q.proxy);
	else
		oriel_mlx5_progress(q.ring);
}

/* oriel_queue_err(), 0 while the queue is well; acquires what it was found in. */
ORIEL_DEV uint64_t oriel_link_err(struct oriel_link_queue q)
{
	return oriel_dev_load_acquire(oriel_link_is_proxied(q) ? &q.proxy->err : &q.ring->err);
}

ORIEL_DEV enum oriel_status oriel_link_wait_step(struct oriel_link_queue q,
						 struct oriel_link_waiter *waiter)
{
	return oriel_link_is_proxied(q) ? oriel_proxy_wait_step(q.proxy, waiter)
					: oriel_mlx5_wait_step(q.ring, waiter);
}

/* The 8 bytes that an atomic returned, in the order of the machine. */
ORIEL_DEV uint64_t oriel_link_atomic_result(struct oriel_link_queue q, uint64_t word)
{
	return oriel_link_is_proxied(q) ? oriel_proxy_atomic_result(q.proxy, word)
					: oriel_mlx5_atomic_result(q.ring, word);
}

ORIEL_DEV struct oriel_link_wait_limits oriel_link_limits(const struct oriel_dev_link *l,
							  uint64_t timeout_ns)
{
	struct oriel_link_wait_limits limits = {l->health, timeout_ns ? timeout_ns : l->timeout_ns,
						l->spin, 0};

	return limits;
}

/* What the user asked for with WQE @index, which failed; @what if it does not tell. */
ORIEL_DEV_COLD uint32_t oriel_link_wqe_what(const struct oriel_mlx5_queue *q, uint64_t index,
					    uint32_t what)
{
	const char *cqe = q->cq + (index & (oriel_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK;

	switch (oriel_dev_load_relaxed32(oriel_mlx5_cqe_word(cqe, ORIEL_MLX5_ORIGIN)) & 0xff) {
	case ORIEL_MLX5_WRITE:
		return ORIEL_DEV_PUT;
	case ORIEL_MLX5_READ:
		return ORIEL_DEV_GET;
	case ORIEL_MLX5_FETCH_ADD:
		/* The results of signals go to the sink, a dead queue keeps its WQEs. */
		return oriel_mlx5_get32(oriel_mlx5_slot(q, index), ORIEL_MLX5_ATOMIC_LKEY) ==
				       q->sink_lkey
			       ? ORIEL_DEV_SIGNAL
			       : ORIEL_DEV_FETCH_ADD;
	case ORIEL_MLX5_WAIT:
		return ORIEL_DEV_COUNTER;
	}
	return what;
}

/* Memory of this rank that may not be read, or written, not a peer, ended a queue. */
ORIEL_DEV bool oriel_link_is_own_access(uint64_t err)
{
	uint32_t syndrome = oriel_queue_err_syndrome(err);

	return oriel_queue_err_state(err) == ORIEL_QUEUE_ERROR_CQE &&
	       (syndrome == ORIEL_MLX5_LOCAL_PROTECTION || syndrome == ORIEL_MLX5_LOCAL_ACCESS);
}

/* If that is so: which memory the request that failed on @q named goes into @record. */
ORIEL_DEV_COLD void oriel_link_own_access(struct oriel_link_queue q, struct oriel_dev_fault *record)
{
	const char *wqe;
	uint32_t opcode, at;

	if (!oriel_link_is_own_access(record->seen))
		return;
	if (oriel_link_is_proxied(q)) {
		record->expected = oriel_dev_load_relaxed(&q.proxy->words->failed_at);
		record->age_ns = oriel_dev_load_relaxed(&q.proxy->words->failed_length);
		return;
	}
	/* A dead queue keeps its WQEs. */
	wqe = (const char *)oriel_mlx5_slot(q.ring, oriel_queue_err_index(record->seen));
	opcode = oriel_mlx5_get32(wqe, 0) & 0xff;
	at = opcode == ORIEL_MLX5_FETCH_ADD ? ORIEL_MLX5_ATOMIC_DATA : ORIEL_MLX5_DATA;
	if (opcode != ORIEL_MLX5_WRITE && opcode != ORIEL_MLX5_READ &&
	    opcode != ORIEL_MLX5_FETCH_ADD)
		return;
	record->expected = oriel_mlx5_get64(wqe, at + 8);
	record->age_ns = oriel_mlx5_get32(wqe, at);
}

/*
 * The record of a failure with @status that @what met on @q; the request that the
 * adapter refused names the operation which that was.
 */
ORIEL_DEV_COLD struct oriel_dev_fault oriel_link_fault(const struct oriel_dev_link *l,
						       struct oriel_link_queue q, uint32_t what,
						       enum oriel_status status)
{
	struct oriel_dev_fault record = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	/* Acquires what oriel_mlx5_failed(), or the proxy, looked at; it stays. */
	uint64_t err = oriel_link_err(q);
	bool is_told = oriel_queue_err_state(err) == ORIEL_QUEUE_ERROR_CQE;

	record.status = status;
	record.what = what;
	record.peer = l->peer;
	record.seen = err;
	if (oriel_link_is_proxied(q)) {
		record.id = q.proxy->number;
		if (is_told)
			record.what =
				oriel_proxy_what(oriel_dev_load_relaxed(&q.proxy->words->failed),
						 what);
	} else {
		record.id = q.ring->qpn;
		if (is_told)
			record.what = oriel_link_wqe_what(q.ring, oriel_queue_err_index(err), what);
	}
	oriel_link_own_access(q, &record);
	return record;
}

/*
 * The host looks at the same queue, and knows more: what flushed a request, what
 * the peer has said before it closed its end. It gets the time to leave that.
 */
ORIEL_DEV_COLD void oriel_link_await_cause(const struct oriel_dev_link *l)
{
	uint64_t start = oriel_dev_clock_ns(), waited = 0;

	while (oriel_dev_load_acquire32(&l->health->state) != ORIEL_DEV_FAULT_FULL &&
	       waited < ORIEL_LINK_CAUSE_NS) {
		oriel_dev_back_off(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

/*
 * A failure of @l: what broke a queue, and a default limit that has passed,
 * break the communicator. Returns what broke it first, else @status.
 */
ORIEL_DEV_COLD enum oriel_status oriel_link_failed(const struct oriel_dev_link *l,
						   struct oriel_link_queue q, uint32_t what,
						   enum oriel_status status, bool is_own_limit)
{
	struct oriel_dev_fault record;

	if (!l->health || status == ORIEL_ERR_RANGE ||
	    (status == ORIEL_ERR_TIMEOUT && is_own_limit))
		return status;
	if (oriel_queue_err_state(oriel_link_err(q)) == ORIEL_QUEUE_ERROR_CQE)
		oriel_link_await_cause(l);
	record = oriel_link_fault(l, q, what, status);
	oriel_dev_leave(l->blame, &record);
	if (oriel_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)l->health->status;
	return status;
}

/* Has the adapter let go of request @index of @q, which is published? */
ORIEL_DEV_COLD bool oriel_link_is_over(struct oriel_link_queue q, uint64_t index)
{
	return oriel_link_is_proxied(q) ? oriel_proxy_is_over(q.proxy, index)
					: oriel_mlx5_is_over(q.ring, index);
}

/*
 * Is @l broken: its main queue, @q of it, or the communicator? A companion can be well
 * while it is held back for ever by a main queue that is not.
 */
ORIEL_DEV_COLD bool oriel_link_is_broken(const struct oriel_dev_link *l, struct oriel_link_queue q)
{
	return oriel_link_err(q) || oriel_link_err(oriel_link_main(l)) ||
	       (l->health && oriel_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL);
}

/*
 * If @l is broken: wait until the adapter has let go of request @index of @q. That is
 * soon, because the host then flushes all queues; the limit is for a host that is gone
 * itself. In the child of a fork no adapter has the memory.
 */
ORIEL_DEV_COLD void oriel_link_await_close(const struct oriel_dev_link *l,
					   struct oriel_link_queue q, uint64_t index)
{
	uint64_t start = oriel_dev_clock_ns(), waited = 0;

	while (!oriel_link_is_over(q, index) && waited < ORIEL_LINK_CLOSE_NS) {
		if (!oriel_link_is_broken(l, q))
			return;
		if (l->health &&
		    oriel_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL &&
		    l->health->status == ORIEL_ERR_FORKED)
			return;
		oriel_dev_back_off(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

#endif
