/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one RDMA link. What is posted goes to a ring of mlx5 that the
 * adapter reads, beside which a companion loops back to the own adapter and may
 * wait for completions; or to the ring of a proxy, which posts for others.
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
#include <oriel/dev/proxy.h>
#include <oriel/dev/wait.h>

/*
 * Ways of posting that this translation unit can use, as a mask of 1 << enum
 * oriel_link_way. Define it before including to leave the code of one out of a
 * kernel; a link of that way then looks as if it were not connected.
 */
#ifndef ORIEL_DEV_LINK_WAYS
#define ORIEL_DEV_LINK_WAYS 0x3u
#endif

enum oriel_link_way {
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
	uint32_t way;  /* enum oriel_link_way, from the beginning */
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_link) == 64);

/* Where posts go: one of the two; neither if the link is not connected. */
struct oriel_link_queue {
	struct oriel_mlx5_queue *ring;
	struct oriel_proxy_ring *proxy;
};

ORIEL_DEV bool oriel_link_is_proxied(struct oriel_link_queue q)
{
	if (!(ORIEL_DEV_LINK_WAYS >> ORIEL_LINK_PROXY & 1))
		return false;
	return !(ORIEL_DEV_LINK_WAYS >> ORIEL_LINK_RINGS & 1) || q.proxy;
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

	if (!(ORIEL_DEV_LINK_WAYS >> way & 1))
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

/* oriel_mlx5_err(), 0 while the queue is well; acquires what it was found in. */
ORIEL_DEV uint64_t oriel_link_err(struct oriel_link_queue q)
{
	return oriel_dev_load_acquire(oriel_link_is_proxied(q) ? &q.proxy->err : &q.ring->err);
}

ORIEL_DEV enum oriel_status oriel_link_wait_step(struct oriel_link_queue q,
						 struct oriel_mlx5_waiter *waiter)
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

ORIEL_DEV struct oriel_mlx5_limits oriel_link_limits(const struct oriel_dev_link *l,
						     uint64_t timeout_ns)
{
	struct oriel_mlx5_limits limits = {l->health, timeout_ns ? timeout_ns : l->timeout_ns,
					   l->spin, 0};

	return limits;
}

/* What the user asked for with WQE @index, which failed; @what if it does not tell. */
ORIEL_DEV_COLD uint32_t oriel_link_what_wqe(const struct oriel_mlx5_queue *q, uint64_t index,
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
	bool is_told = oriel_mlx5_err_state(err) == ORIEL_MLX5_ERROR_CQE;

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
		return record;
	}
	record.id = q.ring->qpn;
	if (is_told)
		record.what = oriel_link_what_wqe(q.ring, oriel_mlx5_err_wqe(err), what);
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
						   struct oriel_link_queue q, uint32_t what,
						   enum oriel_status status, bool is_own_limit)
{
	struct oriel_dev_fault record;

	if (!l->health || status == ORIEL_ERR_RANGE ||
	    (status == ORIEL_ERR_TIMEOUT && is_own_limit))
		return status;
	if (oriel_mlx5_err_state(oriel_link_err(q)) == ORIEL_MLX5_ERROR_CQE)
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
 * If @q or the communicator is broken: wait until the adapter has let go of request
 * @index. That is soon, because the host then flushes all queues; the limit is
 * for a host that is gone itself.
 */
ORIEL_DEV_COLD void oriel_link_await_close(const struct oriel_dev_link *l,
					   struct oriel_link_queue q, uint64_t index)
{
	uint64_t start = oriel_dev_clock_ns(), waited = 0;

	while (!oriel_link_is_over(q, index) && waited < ORIEL_LINK_CLOSE_NS) {
		if (!oriel_link_err(q) &&
		    (!l->health ||
		     oriel_dev_load_acquire32(&l->health->state) != ORIEL_DEV_FAULT_FULL))
			return;
		oriel_dev_give_way(waited);
		waited = oriel_dev_clock_ns() - start;
	}
}

/* One post: reserved places [next, end) of which next is the one to fill in. */
struct oriel_link_post {
	struct oriel_link_queue queue;
	struct oriel_mlx5_constants constants; /* of a ring */
	uint64_t base;
	uint64_t next;
	enum oriel_status status;
};

/* Of a ring; nothing of a proxy. */
ORIEL_DEV struct oriel_mlx5_constants oriel_link_constants(struct oriel_link_queue q)
{
	struct oriel_mlx5_constants none = {NULL, NULL, NULL, 0, 0, 0};

	return q.ring && !oriel_link_is_proxied(q) ? oriel_mlx5_constants_of(q.ring) : none;
}

/* One thread. @q: none of a link that is not connected. */
ORIEL_DEV struct oriel_link_post oriel_link_begin(const struct oriel_dev_link *l,
						  struct oriel_link_queue q, uint32_t what,
						  uint32_t count)
{
	struct oriel_mlx5_limits limits = oriel_link_limits(l, 0);
	struct oriel_link_post post = {q, {NULL, NULL, NULL, 0, 0, 0}, 0, 0, ORIEL_ERR_NO_PATH};

	if (!oriel_link_has(q))
		return post;
	post.constants = oriel_link_constants(q);
	post.status = oriel_link_is_proxied(q)
			      ? oriel_proxy_reserve(q.proxy, count, &limits, &post.base)
			      : oriel_mlx5_reserve(q.ring, count, &limits, &post.base);
	post.next = post.base;
	if (post.status != ORIEL_OK)
		post.status = oriel_link_failed(l, q, what, post.status, false);
	return post;
}

/* Publish what was filled in and ring; the ticket of the last one. */
ORIEL_DEV int64_t oriel_link_end(const struct oriel_dev_link *l, uint32_t what,
				 const struct oriel_link_post *post)
{
	struct oriel_mlx5_limits limits = oriel_link_limits(l, 0);
	uint32_t count = (uint32_t)(post->next - post->base);
	enum oriel_status status;

	if (oriel_link_is_proxied(post->queue)) {
		oriel_proxy_publish(post->queue.proxy, post->base, count);
		return (int64_t)(post->next - 1);
	}
	status = oriel_mlx5_post_with(post->queue.ring, &post->constants, post->base, count,
				      &limits);
	if (status != ORIEL_OK)
		return oriel_link_failed(l, post->queue, what, status, false);
	return (int64_t)(post->next - 1);
}

ORIEL_DEV struct oriel_mlx5_place oriel_link_at(struct oriel_mlx5_place place, uint64_t offset)
{
	place.address += offset;
	return place;
}

/* Where the next request of @post, to a ring, is written, and what it begins with. */
ORIEL_DEV void *oriel_link_slot(const struct oriel_link_post *post)
{
	return oriel_mlx5_slot_of(&post->constants, post->next);
}

ORIEL_DEV struct oriel_mlx5_head oriel_link_head(const struct oriel_link_post *post, uint32_t fence)
{
	struct oriel_mlx5_head head = {post->next, post->constants.qpn, fence};

	return head;
}

ORIEL_DEV void oriel_link_add_part(struct oriel_link_post *post, struct oriel_mlx5_place to,
				   struct oriel_mlx5_place from, uint32_t length)
{
	if (oriel_link_is_proxied(post->queue))
		oriel_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_WRITE,
				 ORIEL_PROXY_FENCE_NONE, to, from, 0, length);
	else
		oriel_mlx5_wqe_write(oriel_link_slot(post),
				     oriel_link_head(post, ORIEL_MLX5_FENCE_NONE), to, from,
				     length);
	post->next++;
}

ORIEL_DEV void oriel_link_add_write(struct oriel_link_post *post, struct oriel_mlx5_place to,
				    struct oriel_mlx5_place from, uint64_t length)
{
	uint64_t part;

	do {
		part = length < ORIEL_MLX5_LENGTH_MAX ? length : ORIEL_MLX5_LENGTH_MAX;
		oriel_link_add_part(post, to, from, (uint32_t)part);
		to = oriel_link_at(to, part);
		from = oriel_link_at(from, part);
		length -= part;
	} while (length);
}

ORIEL_DEV void oriel_link_add_read(struct oriel_link_post *post, struct oriel_mlx5_place from,
				   struct oriel_mlx5_place to, uint32_t length)
{
	if (oriel_link_is_proxied(post->queue))
		oriel_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_READ,
				 ORIEL_PROXY_FENCE_NONE, from, to, 0, length);
	else
		oriel_mlx5_wqe_read(oriel_link_slot(post),
				    oriel_link_head(post, ORIEL_MLX5_FENCE_NONE), from, to, length);
	post->next++;
}

/* 8 bytes that need no registered source. */
ORIEL_DEV void oriel_link_add_value(struct oriel_link_post *post, struct oriel_mlx5_place to,
				    uint64_t value)
{
	struct oriel_mlx5_place none = {0, 0};

	if (oriel_link_is_proxied(post->queue))
		oriel_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_WRITE_VALUE,
				 ORIEL_PROXY_FENCE_NONE, to, none, value, sizeof(value));
	else
		oriel_mlx5_wqe_write_inline(oriel_link_slot(post),
					    oriel_link_head(post, ORIEL_MLX5_FENCE_NONE), to,
					    &value, sizeof(value));
	post->next++;
}

/* @is_fenced: starts when everything before it has completed. */
ORIEL_DEV void oriel_link_add_signal(struct oriel_link_post *post, struct oriel_mlx5_place word,
				     uint64_t value, bool is_fenced)
{
	struct oriel_mlx5_place none = {0, 0}, sink = {0, post->constants.sink_lkey};

	if (oriel_link_is_proxied(post->queue))
		oriel_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_ADD,
				 is_fenced ? ORIEL_PROXY_FENCE_ALL : ORIEL_PROXY_FENCE_NONE, word,
				 none, value, sizeof(value));
	else
		oriel_mlx5_wqe_fetch_add(oriel_link_slot(post),
					 oriel_link_head(post, is_fenced ? ORIEL_MLX5_FENCE_ALL
									 : ORIEL_MLX5_FENCE_NONE),
					 word, sink, value);
	post->next++;
}

/* What was there goes to @result. */
ORIEL_DEV void oriel_link_add_fetch_add(struct oriel_link_post *post, struct oriel_mlx5_place word,
					struct oriel_mlx5_place result, uint64_t value)
{
	if (oriel_link_is_proxied(post->queue))
		oriel_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_FETCH_ADD,
				 ORIEL_PROXY_FENCE_NONE, word, result, value, sizeof(value));
	else
		oriel_mlx5_wqe_fetch_add(oriel_link_slot(post),
					 oriel_link_head(post, ORIEL_MLX5_FENCE_NONE), word, result,
					 value);
	post->next++;
}

/* Requests of a put; a put of nothing is one too, so that it has a ticket. */
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
 * One thread: raise @counter by @amount once request @ticket of the main queue has
 * completed: by a loopback atomic of the companion, or of the proxy.
 */
ORIEL_DEV int64_t oriel_link_count(const struct oriel_dev_link *l, uint32_t what, int64_t ticket,
				   struct oriel_mlx5_place counter, uint64_t amount)
{
	struct oriel_link_queue main = oriel_link_main(l), companion = {l->companion, NULL};
	struct oriel_mlx5_place none = {0, 0};
	struct oriel_link_post post;
	int64_t counted;

	if (oriel_link_is_proxied(main)) {
		post = oriel_link_begin(l, main, what, 1);
		if (post.status != ORIEL_OK)
			return post.status;
		oriel_proxy_fill(main.proxy, post.next++, ORIEL_PROXY_COUNT, ORIEL_PROXY_FENCE_NONE,
				 counter, none, amount, sizeof(amount));
		counted = oriel_link_end(l, what, &post);
		return counted < 0 ? counted : ticket;
	}
	if (!companion.ring)
		return ORIEL_ERR_UNSUPPORTED;
	post = oriel_link_begin(l, companion, what, 2);
	if (post.status != ORIEL_OK)
		return post.status;
	oriel_mlx5_wqe_wait(oriel_link_slot(&post), oriel_link_head(&post, ORIEL_MLX5_FENCE_NONE),
			    main.ring->cqn, (uint64_t)ticket);
	post.next++;
	oriel_link_add_signal(&post, counter, amount, false);
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
 * Whole group: the same, each thread writing the request for its part. At most half
 * as many threads as the queue is deep, else ORIEL_ERR_RANGE.
 */
ORIEL_DEV int64_t oriel_link_put_cooperative(const struct oriel_dev_link *l,
					     struct oriel_dev_group g, struct oriel_mlx5_place to,
					     struct oriel_mlx5_place from, uint64_t length)
{
	struct oriel_link_post post = {{NULL, NULL}, {NULL, NULL, NULL, 0, 0, 0}, 0, 0, ORIEL_OK};
	uint64_t begin, part = oriel_dev_part(g, length, &begin);
	struct oriel_link_queue q;
	int64_t ticket = 0;

	if (part > ORIEL_MLX5_LENGTH_MAX)
		return ORIEL_ERR_RANGE;
	q = oriel_link_main(l);
	if (oriel_dev_is_leader(g))
		post = oriel_link_begin(l, q, ORIEL_DEV_PUT, g.size);
	else
		post.constants = oriel_link_constants(q);
	post.status = oriel_dev_vote(g, post.status);
	if (post.status != ORIEL_OK)
		return post.status;
	/* The leader saw it, and all have met since: who looked too early looks again. */
	if (!oriel_link_has(q)) {
		q = oriel_link_main(l);
		post.constants = oriel_link_constants(q);
	}
	post.queue = q;
	post.base = oriel_dev_share(g, post.base);
	post.next = post.base + g.rank;
	oriel_link_add_write(&post, oriel_link_at(to, begin), oriel_link_at(from, begin), part);
	/* All requests are filled in before the leader publishes them. */
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
			oriel_link_add_value(&post, to, value);
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
			oriel_link_add_read(&post, from, to, length);
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
					 uint64_t value, bool is_fenced)
{
	uint32_t what = writes ? ORIEL_DEV_PUT : ORIEL_DEV_SIGNAL;
	struct oriel_link_post post = oriel_link_begin(l, oriel_link_main(l), what, writes + 1);

	if (post.status != ORIEL_OK)
		return post.status;
	if (writes)
		oriel_link_add_write(&post, to, from, length);
	oriel_link_add_signal(&post, signal, value, is_fenced);
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
						signal, value, false);
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
						signal, value, false);
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

/* Whole group: a signal alone; @is_fenced: see oriel_link_signal_with_fence(). */
ORIEL_DEV int64_t oriel_link_signal_after(const struct oriel_dev_link *l, struct oriel_dev_group g,
					  struct oriel_mlx5_place signal, uint64_t value,
					  bool is_fenced)
{
	int64_t ticket = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		ticket = oriel_link_post_signal(l, 0, signal, signal, 0, signal, value, is_fenced);
	return oriel_link_ticket(g, ticket);
}

/* Whole group: add @value to the peer's word at @signal, after all posted before. */
ORIEL_DEV int64_t oriel_link_signal(const struct oriel_dev_link *l, struct oriel_dev_group g,
				    struct oriel_mlx5_place signal, uint64_t value)
{
	return oriel_link_signal_after(l, g, signal, value, false);
}

/*
 * The same, and the adapter starts it only when everything before has completed:
 * also behind a network that does not keep the order of packets.
 */
ORIEL_DEV int64_t oriel_link_signal_with_fence(const struct oriel_dev_link *l,
					       struct oriel_dev_group g,
					       struct oriel_mlx5_place signal, uint64_t value)
{
	return oriel_link_signal_after(l, g, signal, value, true);
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
		ticket = oriel_link_post_signal(l, 0, signal, signal, 0, signal, value, false);
		if (ticket >= 0)
			ticket = oriel_link_count(l, ORIEL_DEV_COUNTER, ticket, counter, amount);
	}
	return oriel_link_ticket(g, ticket);
}

/* One thread: wait until request @index of @q has completed. */
ORIEL_DEV enum oriel_status oriel_link_wait(struct oriel_link_queue q, uint64_t index,
					    const struct oriel_mlx5_limits *limits)
{
	if (!oriel_link_has(q))
		return ORIEL_ERR_NO_PATH;
	return oriel_link_is_proxied(q) ? oriel_proxy_wait(q.proxy, index, limits)
					: oriel_mlx5_wait(q.ring, index, limits);
}

/* All requests below have been posted, or their posters are about to. */
ORIEL_DEV uint64_t oriel_link_posted(struct oriel_link_queue q)
{
	if (!oriel_link_has(q))
		return 0;
	return oriel_link_is_proxied(q) ? oriel_proxy_reserved(q.proxy) : oriel_mlx5_ready(q.ring);
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
	struct oriel_link_queue q = oriel_link_main(l);
	enum oriel_status status = ORIEL_OK;

	if (ticket < 0)
		return (enum oriel_status)ticket;
	if (oriel_dev_is_leader(g)) {
		status = oriel_link_wait(q, (uint64_t)ticket, &limits);
		if (oriel_link_has(q) && status != ORIEL_OK) {
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
	uint64_t posted = 0;

	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		posted = oriel_link_posted(oriel_link_main(l));
	posted = oriel_dev_share(g, posted);
	return posted ? oriel_link_wait_local(l, g, (int64_t)(posted - 1), timeout_ns) : ORIEL_OK;
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
	struct oriel_link_queue q = oriel_link_main(l);
	enum oriel_status status = oriel_link_has(q) ? ORIEL_OK : ORIEL_ERR_NO_PATH;

	if (oriel_link_has(q) && oriel_dev_is_leader(g)) {
		while (oriel_dev_load_relaxed(word) < least) {
			/* An error CQE that nobody waits for would never be seen. */
			oriel_link_progress(q);
			status = oriel_link_wait_step(q, &waiter);
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
