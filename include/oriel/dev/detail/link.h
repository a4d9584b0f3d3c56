/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one RDMA link. A post goes to a ring of mlx5 that the NIC reads, beside which a
 * companion QP loops back to the same NIC and may wait for completions; or to the ring of a
 * proxy, which posts on behalf of others. All memory is the caller's and named as the NIC knows
 * it: an address and a key. Windows are built on this; it also serves without one.
 *
 * Groups, tickets and timeouts are as in oriel/dev.h: a post returns a ticket or a negative
 * status, 0 is the link's own limit, which breaks the communicator when it passes. The leader
 * posts for its group.
 *
 * A signal, a flag and a value come after all that was posted before them. Puts come in the
 * order of posting unless the network keeps none (ORIEL_LINK_UNORDERED_NETWORK). The target of a
 * get may be the source of a put only once its ticket is waited for. On a link to unordered
 * memory the words of signals must be readable, for read flushes.
 *
 * A link that is not connected yet rejects posts to it, and waits for it, with
 * ORIEL_ERR_NO_PATH; that breaks nothing. One with ORIEL_LINK_DEMAND is connected by the first CPU
 * thread that posts to it, or returns what broke the communicator. A link may be connected while
 * other threads use it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_LINK_H
#define ORIEL_DEV_DETAIL_LINK_H

#include <oriel/dev/detail/link_post.h>

/* The leader's ticket for the whole group; syncs. */
ORIEL_DEV int64_t ori_dev_link_ticket(struct oriel_dev_group g, int64_t ticket)
{
	return (int64_t)oriel_dev_share(g, (uint64_t)ticket);
}

/*
 * One thread: increment @counter by @amount once request @ticket of the main queue has
 * completed: by a loopback atomic of the companion, or of the proxy.
 */
ORIEL_DEV int64_t ori_dev_link_count(const struct oriel_dev_link *l, uint32_t what, int64_t ticket,
				     struct ori_dev_rdma_address counter, uint64_t amount)
{
	struct ori_dev_link_queue main = ori_dev_link_main(l), companion = {l->companion, NULL};
	struct ori_dev_rdma_address none = {0, 0};
	struct ori_dev_link_post post;
	int64_t counted;

	if (ori_dev_link_is_proxied(main)) {
		post = ori_dev_link_begin(l, main, what, 1);
		if (post.status != ORIEL_OK)
			return post.status;
		ori_dev_proxy_fill(main.proxy, post.next++, ORIEL_PROXY_COUNT,
				   ORIEL_PROXY_FENCE_NONE, counter, none, amount, sizeof(amount));
		counted = ori_dev_link_end(l, what, &post);
		return counted < 0 ? counted : ticket;
	}
	if (!companion.ring)
		return ORIEL_ERR_UNSUPPORTED;
	post = ori_dev_link_begin(l, companion, what, 2);
	if (post.status != ORIEL_OK)
		return post.status;
	/* A main QP that no proxy serves has a ring. NOLINTBEGIN(*-core.NullDereference) */
	ori_dev_mlx5_wqe_wait(ori_dev_link_slot(&post),
			      ori_dev_link_head(&post, ORIEL_MLX5_FENCE_NONE), main.ring->cqn,
			      (uint64_t)ticket);
	/* NOLINTEND(*-core.NullDereference) */
	post.next++;
	ori_dev_link_add_signal(&post, counter, amount, false);
	counted = ori_dev_link_end(l, what, &post);
	return counted < 0 ? counted : ticket;
}

/* Whole group: put @length bytes. */
ORIEL_DEV int64_t ori_dev_link_put(const struct oriel_dev_link *l, struct oriel_dev_group g,
				   struct ori_dev_rdma_address to, struct ori_dev_rdma_address from,
				   uint64_t length)
{
	struct ori_dev_link_post post;
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		post = ori_dev_link_begin(l, ori_dev_link_take(l), ORIEL_DEV_PUT,
					  ori_dev_link_writes(length));
		ticket = post.status;
		if (post.status == ORIEL_OK) {
			ori_dev_link_add_write(&post, to, from, length);
			ticket = ori_dev_link_end(l, ORIEL_DEV_PUT, &post);
		}
	}
	return ori_dev_link_ticket(g, ticket);
}

/*
 * Whole group: the same, each thread writing the request for its part. At most half
 * as many threads as the queue is deep, else ORIEL_ERR_RANGE.
 */
ORIEL_DEV int64_t ori_dev_link_put_cooperative(const struct oriel_dev_link *l,
					       struct oriel_dev_group g,
					       struct ori_dev_rdma_address to,
					       struct ori_dev_rdma_address from, uint64_t length)
{
	struct ori_dev_link_post post = {{NULL, NULL}, {NULL, NULL, NULL, 0, 0, 0}, 0, 0, ORIEL_OK};
	uint64_t begin, part = oriel_dev_part(g, length, &begin);
	struct ori_dev_link_queue q;
	int64_t ticket = 0;

	if (part > ORIEL_LINK_LENGTH_MAX)
		return ORIEL_ERR_RANGE;
	q = oriel_dev_is_leader(g) ? ori_dev_link_take(l) : ori_dev_link_main(l);
	if (oriel_dev_is_leader(g))
		post = ori_dev_link_begin(l, q, ORIEL_DEV_PUT, g.size);
	else
		post.constants = ori_dev_link_constants(q);
	post.status = oriel_dev_vote(g, post.status);
	if (post.status != ORIEL_OK)
		return post.status;
	/*
	 * The leader saw a connected queue, and all have met since: a thread that loaded the
	 * queue too early loads it again.
	 */
	if (!ori_dev_link_has(q)) {
		q = ori_dev_link_main(l);
		post.constants = ori_dev_link_constants(q);
	}
	post.queue = q;
	post.base = oriel_dev_share(g, post.base);
	post.next = post.base + g.rank;
	ori_dev_link_add_write(&post, ori_dev_link_at(to, begin), ori_dev_link_at(from, begin),
			       part);
	/* All requests are filled in before the leader publishes them. */
	oriel_dev_sync(g);
	post.next = post.base + g.size;
	if (oriel_dev_is_leader(g))
		ticket = ori_dev_link_end(l, ORIEL_DEV_PUT, &post);
	return ori_dev_link_ticket(g, ticket);
}

/* Whole group; @is_flag: the word announces earlier puts. */
ORIEL_DEV int64_t ori_dev_link_post_value(const struct oriel_dev_link *l, struct oriel_dev_group g,
					  struct ori_dev_rdma_address to, uint64_t value,
					  bool is_flag)
{
	struct ori_dev_link_queue q;
	struct ori_dev_link_post post;
	int64_t ticket = 0;
	bool is_fenced;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		q = ori_dev_link_take(l);
		post = ori_dev_link_begin(l, q, ORIEL_DEV_PUT_VALUE,
					  is_flag ? 1 + ori_dev_link_read_flushes(l) : 1);
		ticket = post.status;
		if (post.status == ORIEL_OK) {
			/* A value that is written twice ends as the newer one. */
			is_fenced = is_flag ? ori_dev_link_add_read_flush(l, &post, to)
					    : ori_dev_link_is_reordered(l);
			ori_dev_link_add_value(&post, to, value, is_fenced);
			ticket = ori_dev_link_end(l, ORIEL_DEV_PUT_VALUE, &post);
		}
	}
	return ori_dev_link_ticket(g, ticket);
}

/* Whole group: put @value in the 8-byte word at @to; it needs no registered source. */
ORIEL_DEV int64_t ori_dev_link_put_value(const struct oriel_dev_link *l, struct oriel_dev_group g,
					 struct ori_dev_rdma_address to, uint64_t value)
{
	return ori_dev_link_post_value(l, g, to, value, false);
}

/* Whole group: the same, for a word that announces the earlier puts to the peer. */
ORIEL_DEV int64_t ori_dev_link_write_flag(const struct oriel_dev_link *l, struct oriel_dev_group g,
					  struct ori_dev_rdma_address to, uint64_t value)
{
	return ori_dev_link_post_value(l, g, to, value, true);
}

/* Whole group: get @length bytes, at most 2^30, from @from. */
ORIEL_DEV int64_t ori_dev_link_get(const struct oriel_dev_link *l, struct oriel_dev_group g,
				   struct ori_dev_rdma_address from, struct ori_dev_rdma_address to,
				   uint32_t length)
{
	struct ori_dev_link_queue q;
	struct ori_dev_link_post post;
	int64_t ticket = 0;

	if (length > ORIEL_LINK_LENGTH_MAX)
		return ORIEL_ERR_RANGE;
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		q = ori_dev_link_take(l);
		post = ori_dev_link_begin(l, q, ORIEL_DEV_GET,
					  length ? 1 + ori_dev_link_dma_flushes(l, q) : 1);
		ticket = post.status;
		if (post.status == ORIEL_OK) {
			ori_dev_link_add_read(&post, from, to, length);
			if (length)
				ori_dev_link_add_dma_flush(l, &post, to);
			ticket = ori_dev_link_end(l, ORIEL_DEV_GET, &post);
		}
	}
	return ori_dev_link_ticket(g, ticket);
}

/*
 * One thread, the leader of a group that has synchronised: puts and signal in one post. @writes
 * 0: only the signal.
 */
ORIEL_DEV int64_t ori_dev_link_post_signal(const struct oriel_dev_link *l, uint32_t writes,
					   struct ori_dev_rdma_address to,
					   struct ori_dev_rdma_address from, uint64_t length,
					   struct ori_dev_rdma_address signal, uint64_t value,
					   bool is_fenced)
{
	uint32_t what = writes ? ORIEL_DEV_PUT : ORIEL_DEV_SIGNAL;
	struct ori_dev_link_queue q = ori_dev_link_take(l);
	struct ori_dev_link_post post =
		ori_dev_link_begin(l, q, what, writes + ori_dev_link_read_flushes(l) + 1);

	if (post.status != ORIEL_OK)
		return post.status;
	if (writes)
		ori_dev_link_add_write(&post, to, from, length);
	if (ori_dev_link_add_read_flush(l, &post, signal))
		is_fenced = true;
	ori_dev_link_add_signal(&post, signal, value, is_fenced);
	return ori_dev_link_end(l, what, &post);
}

/* Whole group: put, then add @value to the peer's word at @signal. */
ORIEL_DEV int64_t ori_dev_link_put_signal(const struct oriel_dev_link *l, struct oriel_dev_group g,
					  struct ori_dev_rdma_address to,
					  struct ori_dev_rdma_address from, uint64_t length,
					  struct ori_dev_rdma_address signal, uint64_t value)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		ticket = ori_dev_link_post_signal(l, ori_dev_link_writes(length), to, from, length,
						  signal, value, false);
	return ori_dev_link_ticket(g, ticket);
}

/* Whole group: put_signal, then increment this rank's @counter once @from may be reused. */
ORIEL_DEV int64_t ori_dev_link_put_signal_counter(
	const struct oriel_dev_link *l, struct oriel_dev_group g, struct ori_dev_rdma_address to,
	struct ori_dev_rdma_address from, uint64_t length, struct ori_dev_rdma_address signal,
	uint64_t value, struct ori_dev_rdma_address counter, uint64_t amount)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		ticket = ori_dev_link_post_signal(l, ori_dev_link_writes(length), to, from, length,
						  signal, value, false);
		if (ticket >= 0)
			ticket = ori_dev_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	}
	return ori_dev_link_ticket(g, ticket);
}

/* Whole group: put, then increment this rank's @counter once @from may be reused. */
ORIEL_DEV int64_t ori_dev_link_put_counter(const struct oriel_dev_link *l, struct oriel_dev_group g,
					   struct ori_dev_rdma_address to,
					   struct ori_dev_rdma_address from, uint64_t length,
					   struct ori_dev_rdma_address counter, uint64_t amount)
{
	int64_t ticket = ori_dev_link_put(l, g, to, from, length);

	if (ticket >= 0 && oriel_dev_is_leader(g))
		ticket = ori_dev_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	return ori_dev_link_ticket(g, ticket);
}

/* Whole group: a signal alone; @is_fenced: see ori_dev_link_signal_with_fence(). */
ORIEL_DEV int64_t ori_dev_link_signal_after(const struct oriel_dev_link *l,
					    struct oriel_dev_group g,
					    struct ori_dev_rdma_address signal, uint64_t value,
					    bool is_fenced)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		ticket =
			ori_dev_link_post_signal(l, 0, signal, signal, 0, signal, value, is_fenced);
	return ori_dev_link_ticket(g, ticket);
}

/* Whole group: add @value to the peer's word at @signal, after all posted before. */
ORIEL_DEV int64_t ori_dev_link_signal(const struct oriel_dev_link *l, struct oriel_dev_group g,
				      struct ori_dev_rdma_address signal, uint64_t value)
{
	return ori_dev_link_signal_after(l, g, signal, value, false);
}

/*
 * The same, and the NIC starts it only when everything before has completed: also across a
 * network that does not keep the order of packets.
 */
ORIEL_DEV int64_t ori_dev_link_signal_with_fence(const struct oriel_dev_link *l,
						 struct oriel_dev_group g,
						 struct ori_dev_rdma_address signal, uint64_t value)
{
	return ori_dev_link_signal_after(l, g, signal, value, true);
}

/* Whole group: signal, then increment this rank's @counter once it has been delivered. */
ORIEL_DEV int64_t ori_dev_link_signal_counter(const struct oriel_dev_link *l,
					      struct oriel_dev_group g,
					      struct ori_dev_rdma_address signal, uint64_t value,
					      struct ori_dev_rdma_address counter, uint64_t amount)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		ticket = ori_dev_link_post_signal(l, 0, signal, signal, 0, signal, value, false);
		if (ticket >= 0)
			ticket = ori_dev_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	}
	return ori_dev_link_ticket(g, ticket);
}

/* One thread: wait until request @index of @q has completed. */
ORIEL_DEV enum oriel_status ori_dev_link_wait(struct ori_dev_link_queue q, uint64_t index,
					      const struct ori_dev_link_wait_limits *limits)
{
	if (!ori_dev_link_has(q))
		return ORIEL_ERR_NO_PATH;
	return ori_dev_link_is_proxied(q) ? ori_dev_proxy_wait(q.proxy, index, limits)
					  : ori_dev_mlx5_wait(q.ring, index, limits);
}

/*
 * One thread: wait until request @index of @q, which is the main queue of @l, has completed.
 * The NIC does not touch the memory named in it any more, whatever is returned, but for
 * ORIEL_ERR_TIMEOUT of the caller's own limit.
 */
ORIEL_DEV enum oriel_status ori_dev_link_await(const struct oriel_dev_link *l,
					       struct ori_dev_link_queue q, uint64_t index,
					       uint64_t timeout_ns)
{
	struct ori_dev_link_wait_limits limits = ori_dev_link_limits(l, timeout_ns);
	enum oriel_status status = ori_dev_link_wait(q, index, &limits);

	if (ori_dev_link_has(q) && status != ORIEL_OK) {
		status = ori_dev_link_failed(l, q, ORIEL_DEV_WAIT_LOCAL, status, timeout_ns != 0);
		ori_dev_link_await_close(l, q, index);
	}
	return status;
}

/*
 * One thread: has request @index of @q been posted? A ticket that its holder has rightly
 * received is always below: its post came before.
 */
ORIEL_DEV bool ori_dev_link_is_issued(struct ori_dev_link_queue q, uint64_t index)
{
	return index < ori_dev_link_posted(q);
}

/*
 * Whole group: wait until the request of @ticket has completed; for counters see
 * ori_dev_link_fence(). A negative ticket is returned as the status that it is, one that @l has
 * not issued is ORIEL_ERR_INVALID. The NIC does not touch the memory named in it any more,
 * whatever else is returned, but for ORIEL_ERR_TIMEOUT of the caller's own limit.
 */
ORIEL_DEV enum oriel_status ori_dev_link_wait_local(const struct oriel_dev_link *l,
						    struct oriel_dev_group g, int64_t ticket,
						    uint64_t timeout_ns)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_dev_link_queue q;

	if (ticket < 0)
		return (enum oriel_status)ticket;
	if (oriel_dev_is_leader(g)) {
		q = ori_dev_link_main(l);
		if (!ori_dev_link_has(q))
			status = ORIEL_ERR_NO_PATH;
		else if (!ori_dev_link_is_issued(q, (uint64_t)ticket))
			status = ORIEL_ERR_INVALID;
		else
			status = ori_dev_link_await(l, q, (uint64_t)ticket, timeout_ns);
	}
	return oriel_dev_vote(g, status);
}

/*
 * One thread: the index after the last request for counters under way in the companion of @l,
 * which is connected; 0 if there are none. A link without counters pays for two loads.
 */
ORIEL_DEV uint64_t ori_dev_link_counted(const struct oriel_dev_link *l)
{
	const struct ori_dev_mlx5_queue *companion = l->companion;
	uint64_t posted, done;

	if (!(ORIEL_DEV_LINK_POSTS >> ORIEL_LINK_RINGS & 1) || !companion)
		return 0;
	posted = ori_dev_mlx5_ready(companion);
	done = ori_dev_load_relaxed_gpu(&companion->done);
	if (done < posted)
		return posted;
	/*
	 * Acquires the writes of the NIC before its completion was seen; 0: no request is under
	 * way.
	 */
	if (posted)
		(void)ori_dev_acquire_gpu(&companion->done, done);
	return 0;
}

/*
 * One thread: wait until the companion of @l has done all below @end. @status: the result of
 * the wait for the main queue. If that failed, this waits only for the NIC's last access to the
 * counters: the companion may stand behind the main queue for ever.
 */
ORIEL_DEV_RARE enum oriel_status ori_dev_link_await_counters(const struct oriel_dev_link *l,
							     uint64_t end, enum oriel_status status,
							     uint64_t timeout_ns)
{
	struct ori_dev_link_wait_limits limits = ori_dev_link_limits(l, timeout_ns);
	struct ori_dev_link_queue companion = {l->companion, NULL};

	if (status == ORIEL_OK) {
		status = ori_dev_mlx5_wait(companion.ring, end - 1, &limits);
		if (status == ORIEL_OK)
			return ORIEL_OK;
		status = ori_dev_link_failed(l, companion, ORIEL_DEV_COUNTER, status,
					     timeout_ns != 0);
	}
	ori_dev_link_await_close(l, companion, end - 1);
	return status;
}

/*
 * One thread: ori_dev_link_fence(). A call on CPUs: inlined, it takes 0.6 ns of a flush where
 * all peers are mapped (put_flush, 8.4 ns).
 */
ORIEL_DEV_RARE enum oriel_status ori_dev_link_await_all(const struct oriel_dev_link *l,
							uint64_t timeout_ns)
{
	struct ori_dev_link_queue q = ori_dev_link_main(l);
	enum oriel_status status = ORIEL_OK;
	uint64_t counted, posted;

	if (!ori_dev_link_has(q))
		return ORIEL_OK;
	/*
	 * In this order: the requests for which these counters wait are among the posted ones.
	 */
	counted = ori_dev_link_counted(l);
	posted = ori_dev_link_posted(q);
	if (posted)
		status = ori_dev_link_await(l, q, posted - 1, timeout_ns);
	return counted ? ori_dev_link_await_counters(l, counted, status, timeout_ns) : status;
}

/*
 * Whole group: wait for all that any thread has posted to @l before, and for the counters that
 * it increments; a link that is not connected has none. Each of the two queues has the limit to
 * itself.
 */
ORIEL_DEV enum oriel_status ori_dev_link_fence(const struct oriel_dev_link *l,
					       struct oriel_dev_group g, uint64_t timeout_ns)
{
	enum oriel_status status = ORIEL_OK;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		status = ori_dev_link_await_all(l, timeout_ns);
	return oriel_dev_vote(g, status);
}

/*
 * One thread: read 8 bytes of the peer at @word, if puts become visible there only by that, or
 * if an acknowledgement proves nothing more than itself, or nothing to a reader by memory, or, by
 * @is_other, by another NIC.
 */
ORIEL_DEV enum oriel_status ori_dev_link_post_read_flush(const struct oriel_dev_link *l,
							 struct ori_dev_rdma_address word,
							 bool is_other)
{
	struct ori_dev_link_queue q = ori_dev_link_main(l);
	struct ori_dev_link_post post;
	int64_t ticket;

	if (!(l->unordered & (ORIEL_LINK_UNORDERED_REMOTE | ORIEL_LINK_UNORDERED_NETWORK |
			      ORIEL_LINK_MAPPED_TOO)) &&
	    !is_other)
		return ORIEL_OK;
	if (!ori_dev_link_posted(q))
		return ORIEL_OK;
	post = ori_dev_link_begin(l, q, ORIEL_DEV_FLUSH, 1);
	if (post.status != ORIEL_OK)
		return post.status;
	ori_dev_link_add_flush(l, &post, word);
	ticket = ori_dev_link_end(l, ORIEL_DEV_FLUSH, &post);
	return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
}

/*
 * Whole group: the same, and the puts are visible at the peer, @is_other: also to its other NICs.
 * @word is 8 bytes there that may be read.
 */
ORIEL_DEV enum oriel_status ori_dev_link_flush(const struct oriel_dev_link *l,
					       struct oriel_dev_group g,
					       struct ori_dev_rdma_address word, bool is_other,
					       uint64_t timeout_ns)
{
	enum oriel_status status = ORIEL_OK, ended;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		status = ori_dev_link_post_read_flush(l, word, is_other);
		ended = ori_dev_link_await_all(l, timeout_ns);
		if (status == ORIEL_OK)
			status = ended;
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: set the peer's word at @signal to 0, once all posted before has
 * completed, and wait for it.
 */
ORIEL_DEV enum oriel_status ori_dev_link_reset_signal(const struct oriel_dev_link *l,
						      struct oriel_dev_group g,
						      struct ori_dev_rdma_address signal,
						      uint64_t timeout_ns)
{
	enum oriel_status status = ori_dev_link_fence(l, g, timeout_ns);

	if (status != ORIEL_OK)
		return status;
	return ori_dev_link_wait_local(l, g, ori_dev_link_put_value(l, g, signal, 0), timeout_ns);
}

/* This rank's word @word, to which a peer's signals add. One thread. */
ORIEL_DEV uint64_t ori_dev_link_read_signal(const uint64_t *word)
{
	return oriel_dev_load_acquire(word);
}

/*
 * Whole group: wait until this rank's @word, which the peer of @l signals, is at least @least.
 * The wait ends with the link's failure if the link fails.
 */
ORIEL_DEV enum oriel_status ori_dev_link_wait_signal(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, const uint64_t *word,
						     uint64_t least, uint64_t timeout_ns)
{
	struct ori_dev_link_wait_limits limits = ori_dev_link_limits(l, timeout_ns);
	struct ori_dev_link_waiter waiter = ori_dev_link_wait_begin(&limits);
	struct ori_dev_link_queue q = ori_dev_link_main(l);
	enum oriel_status status = ori_dev_link_has(q) ? ORIEL_OK : ORIEL_ERR_NO_PATH;

	if (ori_dev_link_has(q) && oriel_dev_is_leader(g)) {
		while (oriel_dev_load_relaxed(word) < least) {
			/* An error CQE would never be seen if no thread polled for it. */
			ori_dev_link_progress(q);
			status = ori_dev_link_wait_step(q, &waiter);
			if (status != ORIEL_AGAIN)
				break;
			status = ORIEL_OK;
		}
		(void)oriel_dev_load_acquire(word);
		if (status != ORIEL_OK)
			status = ori_dev_link_failed(l, q, ORIEL_DEV_WAIT_SIGNAL, status,
						     timeout_ns != 0);
	}
	return oriel_dev_vote(g, status);
}

#endif
