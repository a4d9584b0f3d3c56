/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one RDMA link: a main queue to the peer, and a companion that
 * loops back to the own adapter and may wait for completions of the main one.
 * All memory is the caller's and named as the adapter knows it: an address and
 * a key. Windows are built on this; it also serves without one.
 *
 * Groups, tickets and timeouts are as in oriel/dev.h: what is posted returns a
 * ticket or a negative status, 0 is the link's own limit, which breaks the
 * communicator when it passes. The leader posts for its group.
 *
 * What is posted to a link is executed at the peer in the order of posting: a
 * signal comes after the puts before it. Puts of one link need no fence, but
 * the target of a get may be the source of a put only once its ticket is
 * waited for.
 *
 * A link that is not connected yet refuses what is posted to it, and waits for
 * it, with ORIEL_ERR_NO_PATH; nothing is broken by that. It may be connected
 * while others look at it.
 */
#ifndef ORIEL_DEV_LINK_H
#define ORIEL_DEV_LINK_H

#include <oriel/dev/mlx5_ring.h>
#include <oriel/dev/wait.h>

#define ORIEL_LINK_CAUSE_NS 200000000u
#define ORIEL_LINK_CLOSE_NS 3000000000u

#define ORIEL_LINK_ANSWERS 64u

/*
 * Words for what atomics bring back to kernels, whose stacks no adapter reaches:
 * bit i of @taken is set as long as word i is some thread's.
 */
struct oriel_link_answers {
	uint64_t taken;
	uint64_t reserved[15];
	uint64_t words[ORIEL_LINK_ANSWERS];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_link_answers) == 5 * ORIEL_DEV_LINE);

struct oriel_dev_link {
	struct oriel_mlx5_queue *main;      /* NULL until connected; see oriel_link_main() */
	struct oriel_mlx5_queue *companion; /* of the same time; NULL: no counters */
	struct oriel_dev_fault *health;     /* of the communicator; NULL if there is none */
	struct oriel_dev_fault *blame;      /* where failures are left, as in a window's handle */
	struct oriel_link_answers *answers; /* NULL: threads have stacks that adapters reach */
	uint64_t timeout_ns;
	uint32_t spin; /* polls before a CPU thread yields */
	uint32_t peer; /* rank, for the health record */
	uint32_t rail; /* which adapter, at both ends: which key of a table */
	uint32_t reserved;
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_link) == 64);

/*
 * Any thread: the main queue, NULL while @l is not connected. Acquires what
 * oriel_link_connected() released: the queues and all the constants in them.
 */
ORIEL_DEV struct oriel_mlx5_queue *oriel_link_main(const struct oriel_dev_link *l)
{
	return (struct oriel_mlx5_queue *)oriel_dev_load_acquire_pointer(&l->main);
}

/* The host: from now on anybody may post; both ends are ready. */
ORIEL_DEV void oriel_link_connected(struct oriel_dev_link *l, struct oriel_mlx5_queue *q,
				    struct oriel_mlx5_queue *companion)
{
	l->companion = companion;
	oriel_dev_store_release_pointer(&l->main, q);
}

ORIEL_DEV struct oriel_mlx5_limits oriel_link_limits(const struct oriel_dev_link *l,
						     uint64_t timeout_ns)
{
	struct oriel_mlx5_limits limits = {l->health, timeout_ns ? timeout_ns : l->timeout_ns,
					   l->spin, 0};

	return limits;
}

/* What the user asked for with WQE @index, which failed; @what if it does not tell. */
ORIEL_DEV_COLD uint32_t oriel_link_what(const struct oriel_mlx5_queue *q, uint64_t index,
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

/*
 * The record of a failure with @status that @what met on @q; that of the WQE
 * whose CQE is an error names the operation which that was.
 */
ORIEL_DEV_COLD struct oriel_dev_fault oriel_link_fault(const struct oriel_dev_link *l,
						       const struct oriel_mlx5_queue *q,
						       uint32_t what, enum oriel_status status)
{
	struct oriel_dev_fault record = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	/* Acquires the CQE that oriel_mlx5_failed() looked at; a dead queue keeps it. */
	uint64_t err = oriel_dev_load_acquire(&q->err);

	record.status = status;
	record.what = what;
	record.peer = l->peer;
	record.id = q->qpn;
	record.seen = err;
	if (oriel_mlx5_err_state(err) == ORIEL_MLX5_ERROR_CQE)
		record.what = oriel_link_what(q, oriel_mlx5_err_wqe(err), what);
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
		oriel_dev_give_way(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

/*
 * A failure of @l: what broke a queue, and a default limit that has passed,
 * break the communicator. Returns what broke it first, else @status.
 */
ORIEL_DEV_COLD enum oriel_status oriel_link_failed(const struct oriel_dev_link *l,
						   const struct oriel_mlx5_queue *q, uint32_t what,
						   enum oriel_status status, bool is_own_limit)
{
	struct oriel_dev_fault record;

	if (!l->health || status == ORIEL_ERR_RANGE ||
	    (status == ORIEL_ERR_TIMEOUT && is_own_limit))
		return status;
	if (oriel_mlx5_err_state(oriel_dev_load_relaxed(&q->err)) == ORIEL_MLX5_ERROR_CQE)
		oriel_link_await_cause(l);
	record = oriel_link_fault(l, q, what, status);
	oriel_dev_leave(l->blame, &record);
	if (oriel_dev_load_acquire32(&l->health->state) == ORIEL_DEV_FAULT_FULL)
		return (enum oriel_status)l->health->status;
	return status;
}

/*
 * If @q or the communicator is broken: wait until the adapter has let go of WQE
 * @index. That is soon, because the host then flushes all queues; the limit is
 * for a host that is gone itself.
 */
ORIEL_DEV_COLD void oriel_link_await_close(const struct oriel_dev_link *l,
					   const struct oriel_mlx5_queue *q, uint64_t index)
{
	uint64_t start = oriel_dev_clock_ns(), waited = 0;

	while (!oriel_mlx5_is_over(q, index) && waited < ORIEL_LINK_CLOSE_NS) {
		if (!oriel_dev_load_relaxed(&q->err) &&
		    (!l->health ||
		     oriel_dev_load_acquire32(&l->health->state) != ORIEL_DEV_FAULT_FULL))
			return;
		oriel_dev_give_way(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

/* One post: reserved WQEs [next, end) of which next is the one to fill in. */
struct oriel_link_post {
	struct oriel_mlx5_queue *queue;
	struct oriel_mlx5_constants constants; /* of the queue */
	uint64_t base;
	uint64_t next;
	enum oriel_status status;
};

/* One thread. @q NULL: of a link that is not connected. */
ORIEL_DEV struct oriel_link_post oriel_link_begin(const struct oriel_dev_link *l,
						  struct oriel_mlx5_queue *q, uint32_t what,
						  uint32_t count)
{
	struct oriel_mlx5_limits limits = oriel_link_limits(l, 0);
	struct oriel_link_post post = {q, {NULL, NULL, NULL, 0, 0, 0}, 0, 0, ORIEL_ERR_NO_PATH};

	if (!q)
		return post;
	post.constants = oriel_mlx5_constants_of(q);
	post.status = oriel_mlx5_reserve(q, count, &limits, &post.base);
	post.next = post.base;
	if (post.status != ORIEL_OK)
		post.status = oriel_link_failed(l, q, what, post.status, false);
	return post;
}

/* Publish what was filled in and ring; the ticket of the last WQE. */
ORIEL_DEV int64_t oriel_link_end(const struct oriel_dev_link *l, uint32_t what,
				 const struct oriel_link_post *post)
{
	struct oriel_mlx5_limits limits = oriel_link_limits(l, 0);
	enum oriel_status status;

	status = oriel_mlx5_post_with(post->queue, &post->constants, post->base,
				      (uint32_t)(post->next - post->base), &limits);
	if (status != ORIEL_OK)
		return oriel_link_failed(l, post->queue, what, status, false);
	return (int64_t)(post->next - 1);
}

/* The slot and the head of the WQE to fill in. */
ORIEL_DEV void *oriel_link_slot(const struct oriel_link_post *post)
{
	return oriel_mlx5_slot_of(&post->constants, post->next);
}

ORIEL_DEV struct oriel_mlx5_head oriel_link_head(const struct oriel_link_post *post, uint32_t fence)
{
	struct oriel_mlx5_head head = {post->next, post->constants.qpn, fence};

	return head;
}

ORIEL_DEV struct oriel_mlx5_place oriel_link_at(struct oriel_mlx5_place place, uint64_t offset)
{
	place.address += offset;
	return place;
}

ORIEL_DEV void oriel_link_add_write(struct oriel_link_post *post, struct oriel_mlx5_place to,
				    struct oriel_mlx5_place from, uint64_t length)
{
	uint64_t part;

	do {
		part = length < ORIEL_MLX5_LENGTH_MAX ? length : ORIEL_MLX5_LENGTH_MAX;
		oriel_mlx5_wqe_write(oriel_link_slot(post),
				     oriel_link_head(post, ORIEL_MLX5_FENCE_NONE), to, from,
				     (uint32_t)part);
		post->next++;
		to = oriel_link_at(to, part);
		from = oriel_link_at(from, part);
		length -= part;
	} while (length);
}

ORIEL_DEV void oriel_link_add_signal(struct oriel_link_post *post, struct oriel_mlx5_place word,
				     uint64_t value, uint32_t fence)
{
	struct oriel_mlx5_place sink = {0, post->constants.sink_lkey};

	oriel_mlx5_wqe_fetch_add(oriel_link_slot(post), oriel_link_head(post, fence), word, sink,
				 value);
	post->next++;
}

/* WQEs of a put; a put of nothing is one too, so that it has a ticket. */
ORIEL_DEV uint32_t oriel_link_writes(uint64_t length)
{
	return length ? (uint32_t)((length + ORIEL_MLX5_LENGTH_MAX - 1) / ORIEL_MLX5_LENGTH_MAX)
		      : 1;
}

/* The leader's ticket for the whole group; syncs. */
ORIEL_DEV int64_t oriel_link_ticket(struct oriel_dev_group g, int64_t ticket)
{
	return (int64_t)oriel_dev_share(g, (uint64_t)ticket);
}

/*
 * One thread: raise @counter by @amount, by a loopback atomic of the companion,
 * once WQE @ticket of the main queue has completed.
 */
ORIEL_DEV int64_t oriel_link_count(const struct oriel_dev_link *l, uint32_t what, int64_t ticket,
				   struct oriel_mlx5_place counter, uint64_t amount)
{
	struct oriel_link_post post;
	int64_t counted;

	if (!l->companion)
		return ORIEL_ERR_UNSUPPORTED;
	post = oriel_link_begin(l, l->companion, what, 2);
	if (post.status != ORIEL_OK)
		return post.status;
	oriel_mlx5_wqe_wait(oriel_link_slot(&post), oriel_link_head(&post, ORIEL_MLX5_FENCE_NONE),
			    l->main->cqn, (uint64_t)ticket);
	post.next++;
	oriel_link_add_signal(&post, counter, amount, ORIEL_MLX5_FENCE_NONE);
	counted = oriel_link_end(l, what, &post);
	return counted < 0 ? counted : ticket;
}

/* Whole group: put @length bytes. */
ORIEL_DEV int64_t oriel_link_put(const struct oriel_dev_link *l, struct oriel_dev_group g,
				 struct oriel_mlx5_place to, struct oriel_mlx5_place from,
				 uint64_t length)
{
	struct oriel_link_post post;
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		post = oriel_link_begin(l, oriel_link_main(l), ORIEL_DEV_PUT,
					oriel_link_writes(length));
		ticket = post.status;
		if (post.status == ORIEL_OK) {
			oriel_link_add_write(&post, to, from, length);
			ticket = oriel_link_end(l, ORIEL_DEV_PUT, &post);
		}
	}
	return oriel_link_ticket(g, ticket);
}

/*
 * Whole group: the same, each thread writing the WQE for its part. At most half
 * as many threads as the queue is deep, else ORIEL_ERR_RANGE.
 */
ORIEL_DEV int64_t oriel_link_put_cooperative(const struct oriel_dev_link *l,
					     struct oriel_dev_group g, struct oriel_mlx5_place to,
					     struct oriel_mlx5_place from, uint64_t length)
{
	struct oriel_link_post post = {NULL, {NULL, NULL, NULL, 0, 0, 0}, 0, 0, ORIEL_OK};
	uint64_t begin, part = oriel_dev_part(g, length, &begin);
	struct oriel_mlx5_queue *q;
	int64_t ticket = 0;

	if (part > ORIEL_MLX5_LENGTH_MAX)
		return ORIEL_ERR_RANGE;
	q = oriel_link_main(l);
	if (oriel_dev_is_leader(g))
		post = oriel_link_begin(l, q, ORIEL_DEV_PUT, g.size);
	else if (q)
		post.constants = oriel_mlx5_constants_of(q);
	post.status = oriel_dev_vote(g, post.status);
	if (post.status != ORIEL_OK)
		return post.status;
	/* The leader saw it, and all have met since: who looked too early looks again. */
	if (!q) {
		q = oriel_link_main(l);
		post.constants = oriel_mlx5_constants_of(q);
	}
	post.queue = q;
	post.base = oriel_dev_share(g, post.base);
	post.next = post.base + g.rank;
	oriel_link_add_write(&post, oriel_link_at(to, begin), oriel_link_at(from, begin), part);
	/* All WQEs are filled in before the leader publishes them. */
	oriel_dev_sync(g);
	post.next = post.base + g.size;
	if (oriel_dev_is_leader(g))
		ticket = oriel_link_end(l, ORIEL_DEV_PUT, &post);
	return oriel_link_ticket(g, ticket);
}

/* Whole group: put @value in the 8-byte word at @to; it needs no registered source. */
ORIEL_DEV int64_t oriel_link_put_value(const struct oriel_dev_link *l, struct oriel_dev_group g,
				       struct oriel_mlx5_place to, uint64_t value)
{
	struct oriel_link_post post;
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		post = oriel_link_begin(l, oriel_link_main(l), ORIEL_DEV_PUT_VALUE, 1);
		ticket = post.status;
		if (post.status == ORIEL_OK) {
			oriel_mlx5_wqe_write_inline(oriel_link_slot(&post),
						    oriel_link_head(&post, ORIEL_MLX5_FENCE_NONE),
						    to, &value, sizeof(value));
			post.next++;
			ticket = oriel_link_end(l, ORIEL_DEV_PUT_VALUE, &post);
		}
	}
	return oriel_link_ticket(g, ticket);
}

/* Whole group: get @length bytes, at most 2^30, from @from. */
ORIEL_DEV int64_t oriel_link_get(const struct oriel_dev_link *l, struct oriel_dev_group g,
				 struct oriel_mlx5_place from, struct oriel_mlx5_place to,
				 uint32_t length)
{
	struct oriel_link_post post;
	int64_t ticket = 0;

	if (length > ORIEL_MLX5_LENGTH_MAX)
		return ORIEL_ERR_RANGE;
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		post = oriel_link_begin(l, oriel_link_main(l), ORIEL_DEV_GET, 1);
		ticket = post.status;
		if (post.status == ORIEL_OK) {
			oriel_mlx5_wqe_read(oriel_link_slot(&post),
					    oriel_link_head(&post, ORIEL_MLX5_FENCE_NONE), from, to,
					    length);
			post.next++;
			ticket = oriel_link_end(l, ORIEL_DEV_GET, &post);
		}
	}
	return oriel_link_ticket(g, ticket);
}

/*
 * One thread, the leader of a group that has met: puts and signal in one post.
 * @writes 0: only the signal.
 */
ORIEL_DEV int64_t oriel_link_post_signal(const struct oriel_dev_link *l, uint32_t writes,
					 struct oriel_mlx5_place to, struct oriel_mlx5_place from,
					 uint64_t length, struct oriel_mlx5_place signal,
					 uint64_t value, uint32_t fence)
{
	uint32_t what = writes ? ORIEL_DEV_PUT : ORIEL_DEV_SIGNAL;
	struct oriel_link_post post = oriel_link_begin(l, oriel_link_main(l), what, writes + 1);

	if (post.status != ORIEL_OK)
		return post.status;
	if (writes)
		oriel_link_add_write(&post, to, from, length);
	oriel_link_add_signal(&post, signal, value, fence);
	return oriel_link_end(l, what, &post);
}

/* Whole group: put, then add @value to the peer's word at @signal. */
ORIEL_DEV int64_t oriel_link_put_signal(const struct oriel_dev_link *l, struct oriel_dev_group g,
					struct oriel_mlx5_place to, struct oriel_mlx5_place from,
					uint64_t length, struct oriel_mlx5_place signal,
					uint64_t value)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		ticket = oriel_link_post_signal(l, oriel_link_writes(length), to, from, length,
						signal, value, ORIEL_MLX5_FENCE_NONE);
	return oriel_link_ticket(g, ticket);
}

/* Whole group: put_signal, then raise the own @counter once @from may be reused. */
ORIEL_DEV int64_t oriel_link_put_signal_counter(const struct oriel_dev_link *l,
						struct oriel_dev_group g,
						struct oriel_mlx5_place to,
						struct oriel_mlx5_place from, uint64_t length,
						struct oriel_mlx5_place signal, uint64_t value,
						struct oriel_mlx5_place counter, uint64_t amount)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		ticket = oriel_link_post_signal(l, oriel_link_writes(length), to, from, length,
						signal, value, ORIEL_MLX5_FENCE_NONE);
		if (ticket >= 0)
			ticket = oriel_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	}
	return oriel_link_ticket(g, ticket);
}

/* Whole group: put, then raise the own @counter once @from may be reused. */
ORIEL_DEV int64_t oriel_link_put_counter(const struct oriel_dev_link *l, struct oriel_dev_group g,
					 struct oriel_mlx5_place to, struct oriel_mlx5_place from,
					 uint64_t length, struct oriel_mlx5_place counter,
					 uint64_t amount)
{
	int64_t ticket = oriel_link_put(l, g, to, from, length);

	if (ticket >= 0 && oriel_dev_is_leader(g))
		ticket = oriel_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	return oriel_link_ticket(g, ticket);
}

/* Whole group: a signal alone, which starts when @fence lets it. */
ORIEL_DEV int64_t oriel_link_signal_after(const struct oriel_dev_link *l, struct oriel_dev_group g,
					  struct oriel_mlx5_place signal, uint64_t value,
					  uint32_t fence)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		ticket = oriel_link_post_signal(l, 0, signal, signal, 0, signal, value, fence);
	return oriel_link_ticket(g, ticket);
}

/* Whole group: add @value to the peer's word at @signal, after all posted before. */
ORIEL_DEV int64_t oriel_link_signal(const struct oriel_dev_link *l, struct oriel_dev_group g,
				    struct oriel_mlx5_place signal, uint64_t value)
{
	return oriel_link_signal_after(l, g, signal, value, ORIEL_MLX5_FENCE_NONE);
}

/*
 * The same, and the adapter starts it only when everything before has completed:
 * also behind a network that does not keep the order of packets.
 */
ORIEL_DEV int64_t oriel_link_signal_with_fence(const struct oriel_dev_link *l,
					       struct oriel_dev_group g,
					       struct oriel_mlx5_place signal, uint64_t value)
{
	return oriel_link_signal_after(l, g, signal, value, ORIEL_MLX5_FENCE_ALL);
}

/* Whole group: signal, then raise the own @counter once it has been delivered. */
ORIEL_DEV int64_t oriel_link_signal_counter(const struct oriel_dev_link *l,
					    struct oriel_dev_group g,
					    struct oriel_mlx5_place signal, uint64_t value,
					    struct oriel_mlx5_place counter, uint64_t amount)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		ticket = oriel_link_post_signal(l, 0, signal, signal, 0, signal, value,
						ORIEL_MLX5_FENCE_NONE);
		if (ticket >= 0)
			ticket = oriel_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	}
	return oriel_link_ticket(g, ticket);
}

/*
 * Whole group: wait until what @ticket stands for has completed. A negative
 * ticket is returned as the status that it is. Memory named in it is the
 * adapter's no more, whatever is returned, but for ORIEL_ERR_TIMEOUT of the
 * caller's own limit.
 */
ORIEL_DEV enum oriel_status oriel_link_wait_local(const struct oriel_dev_link *l,
						  struct oriel_dev_group g, int64_t ticket,
						  uint64_t timeout_ns)
{
	struct oriel_mlx5_limits limits = oriel_link_limits(l, timeout_ns);
	struct oriel_mlx5_queue *q = oriel_link_main(l);
	enum oriel_status status = ORIEL_OK;

	if (ticket < 0)
		return (enum oriel_status)ticket;
	if (oriel_dev_is_leader(g)) {
		status = q ? oriel_mlx5_wait(q, (uint64_t)ticket, &limits) : ORIEL_ERR_NO_PATH;
		if (q && status != ORIEL_OK) {
			status = oriel_link_failed(l, q, ORIEL_DEV_WAIT_LOCAL, status,
						   timeout_ns != 0);
			oriel_link_await_close(l, q, (uint64_t)ticket);
		}
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: wait for all that anybody has posted to @l before; which is
 * nothing where it is not connected.
 */
ORIEL_DEV enum oriel_status oriel_link_fence(const struct oriel_dev_link *l,
					     struct oriel_dev_group g, uint64_t timeout_ns)
{
	const struct oriel_mlx5_queue *q;
	uint64_t ready = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		q = oriel_link_main(l);
		ready = q ? oriel_mlx5_ready(q) : 0;
	}
	ready = oriel_dev_share(g, ready);
	return ready ? oriel_link_wait_local(l, g, (int64_t)(ready - 1), timeout_ns) : ORIEL_OK;
}

/*
 * Whole group: set the peer's word at @signal to 0, once all posted before has
 * completed, and wait for it.
 */
ORIEL_DEV enum oriel_status oriel_link_reset_signal(const struct oriel_dev_link *l,
						    struct oriel_dev_group g,
						    struct oriel_mlx5_place signal,
						    uint64_t timeout_ns)
{
	enum oriel_status status = oriel_link_fence(l, g, timeout_ns);

	if (status != ORIEL_OK)
		return status;
	return oriel_link_wait_local(l, g, oriel_link_put_value(l, g, signal, 0), timeout_ns);
}

/* The own word @word, which a peer's signals raise. One thread. */
ORIEL_DEV uint64_t oriel_link_read_signal(const uint64_t *word)
{
	return oriel_dev_load_acquire(word);
}

/*
 * Whole group: wait until the own word @word, which the peer of @l raises, is at
 * least @least. Ends with the link's failure if it dies.
 */
ORIEL_DEV enum oriel_status oriel_link_wait_signal(const struct oriel_dev_link *l,
						   struct oriel_dev_group g, const uint64_t *word,
						   uint64_t least, uint64_t timeout_ns)
{
	struct oriel_mlx5_limits limits = oriel_link_limits(l, timeout_ns);
	struct oriel_mlx5_waiter waiter = oriel_mlx5_wait_begin(&limits);
	struct oriel_mlx5_queue *q = oriel_link_main(l);
	enum oriel_status status = q ? ORIEL_OK : ORIEL_ERR_NO_PATH;

	if (q && oriel_dev_is_leader(g)) {
		while (oriel_dev_load_relaxed(word) < least) {
			/* An error CQE that nobody waits for would never be seen. */
			oriel_mlx5_progress(q);
			status = oriel_mlx5_wait_step(q, &waiter);
			if (status != ORIEL_AGAIN)
				break;
			status = ORIEL_OK;
		}
		(void)oriel_dev_load_acquire(word);
		if (status != ORIEL_OK)
			status = oriel_link_failed(l, q, ORIEL_DEV_WAIT_SIGNAL, status,
						   timeout_ns != 0);
	}
	return oriel_dev_vote(g, status);
}

#endif
