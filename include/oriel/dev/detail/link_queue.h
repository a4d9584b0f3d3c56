/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a link and the queues that posts to it use: see oriel/dev/detail/link.h. It also has
 * the progress of the queues, and the record that a failure leaves for the host.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_LINK_QUEUE_H
#define ORIEL_DEV_DETAIL_LINK_QUEUE_H

#include <oriel/dev/detail/mlx5_queue.h>
#include <oriel/dev/detail/proxy.h>
#include <oriel/dev/detail/wait.h>

/*
 * Kinds of posting that this translation unit can use, as a mask of 1 << enum
 * ori_dev_link_post_kind. Define it before including to leave the code of one out of a kernel; a
 * link of that kind then looks as if it were not connected.
 */
#ifndef ORIEL_DEV_LINK_POSTS
#define ORIEL_DEV_LINK_POSTS 0x3u
#endif

enum ori_dev_link_post_kind {
	ORIEL_LINK_RINGS, /* of mlx5, which the NIC reads */
	ORIEL_LINK_PROXY,
};

#define ORIEL_LINK_CAUSE_NS 200000000u
/* The same of a request that a peer's NIC rejected: the peer may be found dead instead. */
#define ORIEL_LINK_DOUBT_NS 6000000000u
#define ORIEL_LINK_CLOSE_NS 3000000000u

#define ORIEL_LINK_ANSWERS 64u

#define ORIEL_LINK_REACH 256u

/*
 * Memory of the GPU that the host has registered with NICs, besides windows. Empty entries have
 * length 0. Kernels see the entries that existed when they were launched.
 */
struct ori_dev_link_registered {
	uint64_t count;
	uint64_t reserved[7];
	struct oriel_dev_buffer of[ORIEL_LINK_REACH]; /* rkeys are lkeys */
};

struct oriel_dev_link;

/*
 * Words for the results of atomics where no NIC reaches stacks, as those of kernels: bit i of
 * @taken is set as long as a thread holds word i. The NIC knows word 0 as @address of @key, or
 * as its own address if @key is 0.
 */
struct ori_dev_link_answers {
	uint64_t taken;
	uint64_t address;
	uint64_t key;
	const struct ori_dev_link_registered *reach; /* NULL: own buffers need not be looked up */
	/*
	 * For CPU threads, NULL for kernels: how the NIC knows @length bytes at @memory, which the
	 * next request of this thread to @l names, and writes if @is_target; false if it cannot.
	 */
	bool (*find)(const struct oriel_dev_link *l, const void *memory, uint64_t length,
		     bool is_target, struct ori_dev_rdma_address *found);
	uint64_t reserved[11];
	uint64_t words[ORIEL_LINK_ANSWERS];
};

ORIEL_DEV_ASSERT(sizeof(struct ori_dev_link_answers) == 5 * ORIEL_DEV_LINE);

/* The queue that posts go to: one of the two; neither if the link is not connected. */
struct ori_dev_link_queue {
	struct ori_dev_mlx5_queue *ring;
	struct ori_dev_proxy_ring *proxy;
};

ORIEL_DEV bool ori_dev_link_is_proxied(struct ori_dev_link_queue q)
{
	if (!(ORIEL_DEV_LINK_POSTS >> ORIEL_LINK_PROXY & 1))
		return false;
	return !(ORIEL_DEV_LINK_POSTS >> ORIEL_LINK_RINGS & 1) || q.proxy;
}

ORIEL_DEV bool ori_dev_link_has(struct ori_dev_link_queue q)
{
	return q.ring || q.proxy;
}

/*
 * Any thread: the main queue of @l, if it is connected. Acquires what
 * ori_dev_link_connected() released: the queues and all the constants in them.
 */
ORIEL_DEV struct ori_dev_link_queue ori_dev_link_main(const struct oriel_dev_link *l)
{
	struct ori_dev_link_queue q = {NULL, NULL};
	uint32_t kind = l->post_kind;
	void *main = ori_dev_load_acquire_pointer(&l->main);

	if (!(ORIEL_DEV_LINK_POSTS >> kind & 1))
		return q;
	if (kind == ORIEL_LINK_PROXY)
		q.proxy = (struct ori_dev_proxy_ring *)main;
	else
		q.ring = (struct ori_dev_mlx5_queue *)main;
	return q;
}

ORIEL_DEV bool ori_dev_link_is_connected(const struct oriel_dev_link *l)
{
	return ori_dev_link_has(ori_dev_link_main(l));
}

/* The main queue for a post, which connects the link if it does so by itself. */
ORIEL_DEV struct ori_dev_link_queue ori_dev_link_take(const struct oriel_dev_link *l)
{
	struct ori_dev_link_queue q = ori_dev_link_main(l);

#ifndef __CUDA_ARCH__
	if (!ORIEL_DEV_OFTEN(ori_dev_link_has(q)) && l->unordered & ORIEL_LINK_DEMAND) {
		oriel_cpu_connect(l);
		q = ori_dev_link_main(l);
	}
#endif
	return q;
}

/* The status of a post to @l, which is not connected: that of the communicator if it is broken. */
ORIEL_DEV_RARE enum oriel_status ori_dev_link_missing(const struct oriel_dev_link *l)
{
#ifdef __CUDA_ARCH__
	(void)l;
#else
	if (l->unordered & ORIEL_LINK_DEMAND && l->health &&
	    ori_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)l->health->status;
#endif
	return ORIEL_ERR_NO_PATH;
}

/* Can this thread post to @l? ORIEL_ERR_NO_PATH: not yet. */
ORIEL_DEV enum oriel_status ori_dev_link_reach(const struct oriel_dev_link *l)
{
	return ori_dev_link_has(ori_dev_link_take(l)) ? ORIEL_OK : ori_dev_link_missing(l);
}

/* The host: from now on any thread may post to @main; both ends are ready. */
ORIEL_DEV void ori_dev_link_connected(struct oriel_dev_link *l, void *main,
				      struct ori_dev_mlx5_queue *companion)
{
	l->companion = companion;
	ori_dev_store_release_pointer(&l->main, main);
}

/* Any thread: poll the progress of the NIC. */
ORIEL_DEV void ori_dev_link_progress(struct ori_dev_link_queue q)
{
	if (ori_dev_link_is_proxied(q))
		ori_dev_proxy_progress(q.proxy);
	else
		ori_dev_mlx5_progress(q.ring);
}

/* ori_dev_queue_err(), 0 while the queue works; acquires the writes behind the error. */
ORIEL_DEV uint64_t ori_dev_link_err(struct ori_dev_link_queue q)
{
	return oriel_dev_load_acquire(ori_dev_link_is_proxied(q) ? &q.proxy->err : &q.ring->err);
}

ORIEL_DEV enum oriel_status ori_dev_link_wait_step(struct ori_dev_link_queue q,
						   struct ori_dev_link_waiter *waiter)
{
	return ori_dev_link_is_proxied(q) ? ori_dev_proxy_wait_step(q.proxy, waiter)
					  : ori_dev_mlx5_wait_step(q.ring, waiter);
}

/* The 8 bytes that an atomic returned, in the order of the machine. */
ORIEL_DEV uint64_t ori_dev_link_atomic_result(struct ori_dev_link_queue q, uint64_t word)
{
	return ori_dev_link_is_proxied(q) ? ori_dev_proxy_atomic_result(q.proxy, word)
					  : ori_dev_mlx5_atomic_result(q.ring, word);
}

ORIEL_DEV struct ori_dev_link_wait_limits ori_dev_link_limits(const struct oriel_dev_link *l,
							      uint64_t timeout_ns)
{
	struct ori_dev_link_wait_limits limits = {l, timeout_ns, l->spin, 0};

	return limits;
}

/*
 * The operation that the user called with WQE @index, which failed; @what if the CQE does not
 * say.
 */
ORIEL_DEV_COLD uint32_t ori_dev_link_wqe_what(const struct ori_dev_mlx5_queue *q, uint64_t index,
					      uint32_t what)
{
	const char *cqe = q->cq + (index & (ori_dev_mlx5_depth(q) - 1)) * ORIEL_MLX5_BLOCK;

	switch (ori_dev_load_relaxed32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_ORIGIN)) & 0xff) {
	case ORIEL_MLX5_WRITE:
		return ORIEL_DEV_PUT;
	case ORIEL_MLX5_READ:
		return ORIEL_DEV_GET;
	case ORIEL_MLX5_FETCH_ADD:
		/* The results of signals go to the sink; a dead queue keeps its WQEs. */
		return ori_dev_mlx5_get32(ori_dev_mlx5_slot(q, index), ORIEL_MLX5_ATOMIC_LKEY) ==
				       q->sink_lkey
			       ? ORIEL_DEV_SIGNAL
			       : ORIEL_DEV_FETCH_ADD;
	case ORIEL_MLX5_COMPARE_SWAP:
	case ORIEL_MLX5_MASKED_FETCH_ADD:
		return ORIEL_DEV_ATOMIC;
	case ORIEL_MLX5_WAIT:
		return ORIEL_DEV_COUNTER;
	}
	return what;
}

/* Did memory of this rank that may not be read, or written, and not a peer, end a queue? */
ORIEL_DEV bool ori_dev_link_is_own_access(uint64_t err)
{
	uint32_t syndrome = ori_dev_queue_err_syndrome(err);

	return ori_dev_queue_err_state(err) == ORIEL_QUEUE_ERROR_CQE &&
	       (syndrome == ORIEL_SYNDROME_LOCAL_PROTECTION ||
		syndrome == ORIEL_SYNDROME_LOCAL_ACCESS);
}

/* Is @opcode of an atomic of one block? */
ORIEL_DEV bool ori_dev_link_is_atomic(uint32_t opcode)
{
	return opcode == ORIEL_MLX5_FETCH_ADD || opcode == ORIEL_MLX5_COMPARE_SWAP ||
	       opcode == ORIEL_MLX5_MASKED_FETCH_ADD;
}

/* If that is so, the memory that the failed request on @q named goes into @record. */
ORIEL_DEV_COLD void ori_dev_link_own_access(struct ori_dev_link_queue q,
					    struct oriel_dev_fault *record)
{
	const char *wqe;
	uint32_t opcode, at;

	if (!ori_dev_link_is_own_access(record->seen))
		return;
	if (ori_dev_link_is_proxied(q)) {
		record->expected = oriel_dev_load_relaxed(&q.proxy->words->failed_at);
		record->age_ns = oriel_dev_load_relaxed(&q.proxy->words->failed_length);
		return;
	}
	/* A dead queue keeps its WQEs. */
	wqe = (const char *)ori_dev_mlx5_slot(q.ring, ori_dev_queue_err_index(record->seen));
	opcode = ori_dev_mlx5_get32(wqe, 0) & 0xff;
	at = ori_dev_link_is_atomic(opcode) ? ORIEL_MLX5_ATOMIC_DATA : ORIEL_MLX5_DATA;
	if (opcode != ORIEL_MLX5_WRITE && opcode != ORIEL_MLX5_READ &&
	    !ori_dev_link_is_atomic(opcode))
		return;
	record->expected = ori_dev_mlx5_get64(wqe, at + 8);
	record->age_ns = ori_dev_mlx5_get32(wqe, at);
}

/* All requests below this index have been posted, or their posters are about to post them. */
ORIEL_DEV uint64_t ori_dev_link_posted(struct ori_dev_link_queue q)
{
	if (!ori_dev_link_has(q))
		return 0;
	return ori_dev_link_is_proxied(q) ? ori_dev_proxy_reserved(q.proxy)
					  : ori_dev_mlx5_ready(q.ring);
}

/* All requests below this index have completed, as far as any thread has polled. */
ORIEL_DEV uint64_t ori_dev_link_completed(struct ori_dev_link_queue q)
{
	if (!ori_dev_link_has(q))
		return 0;
	return ori_dev_load_relaxed_gpu(ori_dev_link_is_proxied(q) ? &q.proxy->done
								   : &q.ring->done);
}

/* A function of its own, so that kernels do not spill for it. */
ORIEL_DEV_COLD void ori_dev_link_counts(struct ori_dev_link_queue q, struct oriel_dev_fault *record)
{
	record->expected = ori_dev_link_posted(q);
	record->age_ns = ori_dev_link_completed(q);
}

/*
 * Makes @record, which is 0, the record of a failure with @status that @what met on @q; the request
 * that the NIC rejected says which operation that was.
 */
ORIEL_DEV_COLD void ori_dev_link_fault(const struct oriel_dev_link *l, struct ori_dev_link_queue q,
				       uint32_t what, enum oriel_status status,
				       struct oriel_dev_fault *record)
{
	/*
	 * Acquires the state that ori_dev_mlx5_failed(), or the proxy, read; it does not change
	 * any more.
	 */
	uint64_t err = ori_dev_link_err(q);
	bool is_reported = ori_dev_queue_err_state(err) == ORIEL_QUEUE_ERROR_CQE;

	record->status = status;
	record->what = what;
	record->peer = l->peer;
	record->seen = err;
	if (ori_dev_link_is_proxied(q)) {
		record->id = q.proxy->number;
		if (is_reported)
			record->what =
				ori_dev_proxy_what(oriel_dev_load_relaxed(&q.proxy->words->failed),
						   what);
	} else {
		record->id = q.ring->qpn;
		if (is_reported)
			record->what =
				ori_dev_link_wqe_what(q.ring, ori_dev_queue_err_index(err), what);
	}
	if (!err)
		ori_dev_link_counts(q, record);
	ori_dev_link_own_access(q, record);
}

/*
 * The watcher of @l polls the same queue, and knows more: the cause of a flushed request, and the
 * reason that the peer sent before it closed its end. This gives it time to leave its record.
 */
ORIEL_DEV_COLD void ori_dev_link_await_cause(const struct oriel_dev_link *l, uint64_t err)
{
	uint64_t limit = ori_dev_queue_err_syndrome(err) == ORIEL_SYNDROME_REMOTE_ACCESS
				 ? ORIEL_LINK_DOUBT_NS
				 : ORIEL_LINK_CAUSE_NS;
	uint64_t start = oriel_dev_clock_ns(), waited = 0;

	while (ori_dev_load_acquire32(&l->health->state) != ORIEL_DEV_FAULT_FULL &&
	       waited < limit) {
		ori_dev_back_off(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

/*
 * A failure of @l: an error of a queue, and a default limit that has passed, break the
 * communicator. Returns the status that broke it first, else @status.
 */
ORIEL_DEV_COLD enum oriel_status ori_dev_link_failed(const struct oriel_dev_link *l,
						     struct ori_dev_link_queue q, uint32_t what,
						     enum oriel_status status, bool is_own_limit)
{
	struct oriel_dev_fault record = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	uint64_t err;

	if (!l->health || status == ORIEL_ERR_RANGE ||
	    (status == ORIEL_ERR_TIMEOUT && is_own_limit))
		return status;
	err = ori_dev_link_err(q);
	if (l->unordered & ORIEL_LINK_WATCHED &&
	    ori_dev_queue_err_state(err) == ORIEL_QUEUE_ERROR_CQE)
		ori_dev_link_await_cause(l, err);
	ori_dev_link_fault(l, q, what, status, &record);
	ori_dev_leave(l->blame, &record);
	if (ori_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)l->health->status;
	return status;
}

/* Has the NIC released request @index of @q, which is published? */
ORIEL_DEV_COLD bool ori_dev_link_is_over(struct ori_dev_link_queue q, uint64_t index)
{
	return ori_dev_link_is_proxied(q) ? ori_dev_proxy_is_over(q.proxy, index)
					  : ori_dev_mlx5_is_over(q.ring, index);
}

/*
 * Is @l broken: its main queue, @q of it, or the communicator? A companion may be intact while
 * a failed main queue holds it back for ever.
 */
ORIEL_DEV_COLD bool ori_dev_link_is_broken(const struct oriel_dev_link *l,
					   struct ori_dev_link_queue q)
{
	return ori_dev_link_err(q) || ori_dev_link_err(ori_dev_link_main(l)) ||
	       (l->health && ori_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL);
}

/*
 * If @l is broken: wait until the NIC has released request @index of @q. That is soon, because
 * the host then flushes all queues; the limit is for a host that has exited itself. In the
 * child of a fork no NIC has the memory.
 */
ORIEL_DEV_COLD void ori_dev_link_await_close(const struct oriel_dev_link *l,
					     struct ori_dev_link_queue q, uint64_t index)
{
	uint64_t start = oriel_dev_clock_ns(), waited = 0;

	while (!ori_dev_link_is_over(q, index) && waited < ORIEL_LINK_CLOSE_NS) {
		if (!ori_dev_link_is_broken(l, q))
			return;
		if (l->health &&
		    ori_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL &&
		    l->health->status == ORIEL_ERR_FORKED)
			return;
		ori_dev_back_off(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

#endif
