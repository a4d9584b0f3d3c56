/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts to a link, request by request: begin, add, end. Between begin and end the poster does
 * not wait for anything: posters behind it are held up. The operations of oriel/dev/detail/link.h
 * are made of these.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_LINK_POST_H
#define ORIEL_DEV_DETAIL_LINK_POST_H

#include <oriel/dev/detail/link_queue.h>
#include <oriel/dev/detail/mlx5_ring.h>

/* Bytes that one request moves, by a ring or by the proxy. */
#define ORIEL_LINK_LENGTH_MAX ORIEL_MLX5_LENGTH_MAX

/* One post: reserved slots [next, end) of which next is the one to fill in. */
struct ori_dev_link_post {
	struct ori_dev_link_queue queue;
	struct ori_dev_mlx5_constants constants; /* of a ring */
	uint64_t base;
	uint64_t next;
	enum oriel_status status;
};

/* The constants of a ring; none of a proxy. */
ORIEL_DEV struct ori_dev_mlx5_constants ori_dev_link_constants(struct ori_dev_link_queue q)
{
	struct ori_dev_mlx5_constants none = {NULL, NULL, NULL, 0, 0, 0};

	return q.ring && !ori_dev_link_is_proxied(q) ? ori_dev_mlx5_constants_of(q.ring) : none;
}

/* One thread. @q: empty if the link is not connected. */
ORIEL_DEV struct ori_dev_link_post ori_dev_link_begin(const struct oriel_dev_link *l,
						      struct ori_dev_link_queue q, uint32_t what,
						      uint32_t count)
{
	struct ori_dev_link_wait_limits limits = ori_dev_link_limits(l, 0);
	struct ori_dev_link_post post = {q, {NULL, NULL, NULL, 0, 0, 0}, 0, 0, ORIEL_ERR_NO_PATH};

	if (!ori_dev_link_has(q)) {
		post.status = ori_dev_link_missing(l);
		return post;
	}
	post.constants = ori_dev_link_constants(q);
	post.status = ori_dev_link_is_proxied(q)
			      ? ori_dev_proxy_reserve(q.proxy, count, &limits, &post.base)
			      : ori_dev_mlx5_reserve(q.ring, count, &limits, &post.base);
	post.next = post.base;
	if (post.status != ORIEL_OK)
		post.status = ori_dev_link_failed(l, q, what, post.status, false);
	return post;
}

/* Publish the requests and ring; returns the ticket of the last one. */
ORIEL_DEV int64_t ori_dev_link_end(const struct oriel_dev_link *l, uint32_t what,
				   const struct ori_dev_link_post *post)
{
	struct ori_dev_link_wait_limits limits = ori_dev_link_limits(l, 0);
	uint32_t count = (uint32_t)(post->next - post->base);
	enum oriel_status status;

	if (ori_dev_link_is_proxied(post->queue)) {
		ori_dev_proxy_publish(post->queue.proxy, post->base, count);
		return (int64_t)(post->next - 1);
	}
	status = ori_dev_mlx5_post_with(post->queue.ring, &post->constants, post->base, count,
					&limits);
	if (status != ORIEL_OK)
		return ori_dev_link_failed(l, post->queue, what, status, false);
	return (int64_t)(post->next - 1);
}

ORIEL_DEV struct ori_dev_rdma_address ori_dev_link_at(struct ori_dev_rdma_address base,
						      uint64_t offset)
{
	base.address += offset;
	return base;
}

/* The slot of the next request of @post, to a ring, and then the head of its WQE. */
ORIEL_DEV void *ori_dev_link_slot(const struct ori_dev_link_post *post)
{
	return ori_dev_mlx5_slot_of(&post->constants, post->next);
}

ORIEL_DEV struct ori_dev_mlx5_head ori_dev_link_head(const struct ori_dev_link_post *post,
						     uint32_t fence)
{
	struct ori_dev_mlx5_head head = {post->next, post->constants.qpn, fence};

	return head;
}

ORIEL_DEV void ori_dev_link_add_part(struct ori_dev_link_post *post, struct ori_dev_rdma_address to,
				     struct ori_dev_rdma_address from, uint32_t length)
{
	if (ori_dev_link_is_proxied(post->queue))
		ori_dev_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_WRITE,
				   ORIEL_PROXY_FENCE_NONE, to, from, 0, length);
	else
		ori_dev_mlx5_wqe_write(ori_dev_link_slot(post),
				       ori_dev_link_head(post, ORIEL_MLX5_FENCE_NONE), to, from,
				       length);
	post->next++;
}

ORIEL_DEV void ori_dev_link_add_write(struct ori_dev_link_post *post,
				      struct ori_dev_rdma_address to,
				      struct ori_dev_rdma_address from, uint64_t length)
{
	uint64_t part;

	do {
		part = length < ORIEL_LINK_LENGTH_MAX ? length : ORIEL_LINK_LENGTH_MAX;
		ori_dev_link_add_part(post, to, from, (uint32_t)part);
		to = ori_dev_link_at(to, part);
		from = ori_dev_link_at(from, part);
		length -= part;
	} while (length);
}

ORIEL_DEV void ori_dev_link_add_read(struct ori_dev_link_post *post,
				     struct ori_dev_rdma_address from,
				     struct ori_dev_rdma_address to, uint32_t length)
{
	if (ori_dev_link_is_proxied(post->queue))
		ori_dev_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_READ,
				   ORIEL_PROXY_FENCE_NONE, from, to, 0, length);
	else
		ori_dev_mlx5_wqe_read(ori_dev_link_slot(post),
				      ori_dev_link_head(post, ORIEL_MLX5_FENCE_NONE), from, to,
				      length);
	post->next++;
}

/* 8 bytes that need no registered source. @is_fenced: as below. */
ORIEL_DEV void ori_dev_link_add_value(struct ori_dev_link_post *post,
				      struct ori_dev_rdma_address to, uint64_t value,
				      bool is_fenced)
{
	struct ori_dev_rdma_address none = {0, 0};

	if (ori_dev_link_is_proxied(post->queue))
		ori_dev_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_WRITE_VALUE,
				   is_fenced ? ORIEL_PROXY_FENCE_ALL : ORIEL_PROXY_FENCE_NONE, to,
				   none, value, sizeof(value));
	else
		ori_dev_mlx5_wqe_write_inline(ori_dev_link_slot(post),
					      ori_dev_link_head(post,
								is_fenced ? ORIEL_MLX5_FENCE_ALL
									  : ORIEL_MLX5_FENCE_NONE),
					      to, &value, sizeof(value));
	post->next++;
}

/*
 * Adds @value to *@word; the old value goes to @result. @is_fenced: starts when everything before
 * it has completed. @opcode: of a proxy.
 */
ORIEL_DEV void ori_dev_link_add_fetch_add(struct ori_dev_link_post *post, uint32_t opcode,
					  struct ori_dev_rdma_address word,
					  struct ori_dev_rdma_address result, uint64_t value,
					  bool is_fenced)
{
	if (ori_dev_link_is_proxied(post->queue))
		ori_dev_proxy_fill(post->queue.proxy, post->next, opcode,
				   is_fenced ? ORIEL_PROXY_FENCE_ALL : ORIEL_PROXY_FENCE_NONE, word,
				   result, value, sizeof(value));
	else
		ori_dev_mlx5_wqe_fetch_add(ori_dev_link_slot(post),
					   ori_dev_link_head(post, is_fenced
									   ? ORIEL_MLX5_FENCE_ALL
									   : ORIEL_MLX5_FENCE_NONE),
					   word, result, value);
	post->next++;
}

/* An atomic on 8 bytes, whose old value goes to a result. */
struct ori_dev_link_atomic {
	uint32_t opcode;  /* enum ori_dev_mlx5_opcode; to a proxy FETCH_ADD or COMPARE_SWAP */
	uint64_t value;   /* to add, or the new value */
	uint64_t compare; /* the expected value; of a masked addition the boundary */
};

/* Does the NIC at either end of @q execute masked atomics? */
ORIEL_DEV bool ori_dev_link_has_masked(struct ori_dev_link_queue q)
{
	return !ori_dev_link_is_proxied(q) && q.ring->flags & ORIEL_MLX5_ATOMICS_MASKED;
}

/* @is_fenced: as above. */
ORIEL_DEV void ori_dev_link_add_atomic(struct ori_dev_link_post *post,
				       const struct ori_dev_link_atomic *a,
				       struct ori_dev_rdma_address word,
				       struct ori_dev_rdma_address result, bool is_fenced)
{
	struct ori_dev_mlx5_head head =
		ori_dev_link_head(post, is_fenced ? ORIEL_MLX5_FENCE_ALL : ORIEL_MLX5_FENCE_NONE);

	if (a->opcode == ORIEL_MLX5_FETCH_ADD) {
		ori_dev_link_add_fetch_add(post, ORIEL_PROXY_FETCH_ADD, word, result, a->value,
					   is_fenced);
		return;
	}
	if (ori_dev_link_is_proxied(post->queue)) {
		ori_dev_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_COMPARE_SWAP,
				   is_fenced ? ORIEL_PROXY_FENCE_ALL : ORIEL_PROXY_FENCE_NONE, word,
				   result, a->value, sizeof(a->value));
		ori_dev_proxy_expect(post->queue.proxy, post->next, a->compare);
	} else if (a->opcode == ORIEL_MLX5_COMPARE_SWAP) {
		ori_dev_mlx5_wqe_compare_swap(ori_dev_link_slot(post), head, word, result,
					      a->compare, a->value);
	} else {
		ori_dev_mlx5_wqe_masked_add64(ori_dev_link_slot(post), head, word, result, a->value,
					      a->compare);
	}
	post->next++;
}

/* A FETCH_ADD without a result. The constants of a proxied queue are zero, and so is its sink. */
ORIEL_DEV void ori_dev_link_add_signal(struct ori_dev_link_post *post,
				       struct ori_dev_rdma_address word, uint64_t value,
				       bool is_fenced)
{
	struct ori_dev_rdma_address sink = {0, post->constants.sink_lkey};

	ori_dev_link_add_fetch_add(post, ORIEL_PROXY_ADD, word, sink, value, is_fenced);
}

/* Requests of ori_dev_link_add_read_flush(). The caller has loaded the main queue before. */
ORIEL_DEV uint32_t ori_dev_link_read_flushes(const struct oriel_dev_link *l)
{
	return l->unordered & ORIEL_LINK_UNORDERED_REMOTE ? 1 : 0;
}

/* Must a request that replaces a word start behind those before it? */
ORIEL_DEV bool ori_dev_link_is_reordered(const struct oriel_dev_link *l)
{
	return l->unordered & ORIEL_LINK_UNORDERED_NETWORK;
}

/*
 * Read 8 bytes of the peer at @word, which pushes in everything written there before. Where the
 * network keeps no order the READ starts behind those writes.
 */
ORIEL_DEV void ori_dev_link_add_flush(const struct oriel_dev_link *l,
				      struct ori_dev_link_post *post,
				      struct ori_dev_rdma_address word)
{
	struct ori_dev_rdma_address none = {0, 0}, sink = {0, post->constants.sink_lkey};
	bool is_fenced = ori_dev_link_is_reordered(l);

	if (ori_dev_link_is_proxied(post->queue))
		ori_dev_proxy_fill(post->queue.proxy, post->next, ORIEL_PROXY_READ_FLUSH,
				   is_fenced ? ORIEL_PROXY_FENCE_ALL : ORIEL_PROXY_FENCE_NONE, word,
				   none, 0, sizeof(uint64_t));
	else
		ori_dev_mlx5_wqe_read(ori_dev_link_slot(post),
				      ori_dev_link_head(post, is_fenced ? ORIEL_MLX5_FENCE_ALL
									: ORIEL_MLX5_FENCE_NONE),
				      word, sink, sizeof(uint64_t));
	post->next++;
}

/*
 * Before a request that announces earlier ones: if memory of the peer is unordered, a read
 * flush, behind whose response any request may announce what was written. No wait of the peer
 * needs to know. Returns whether the next request has to be fenced.
 */
ORIEL_DEV bool ori_dev_link_add_read_flush(const struct oriel_dev_link *l,
					   struct ori_dev_link_post *post,
					   struct ori_dev_rdma_address word)
{
	if (ORIEL_DEV_OFTEN(
		    !(l->unordered & (ORIEL_LINK_UNORDERED_REMOTE | ORIEL_LINK_UNORDERED_NETWORK))))
		return false;
	if (!ori_dev_link_read_flushes(l))
		return ori_dev_link_is_reordered(l);
	ori_dev_link_add_flush(l, post, word);
	return true;
}

/*
 * Requests of ori_dev_link_add_dma_flush(). A proxy flushes by itself the bytes that it brings,
 * before it reports that it is done.
 */
ORIEL_DEV uint32_t ori_dev_link_dma_flushes(const struct oriel_dev_link *l,
					    struct ori_dev_link_queue q)
{
	return l->unordered & ORIEL_LINK_UNORDERED_LOCAL && !ori_dev_link_is_proxied(q) ? 1 : 0;
}

/* If local memory is unordered: the bytes written to @to are visible when this is done. */
ORIEL_DEV void ori_dev_link_add_dma_flush(const struct oriel_dev_link *l,
					  struct ori_dev_link_post *post,
					  struct ori_dev_rdma_address to)
{
	if (!ori_dev_link_dma_flushes(l, post->queue))
		return;
	ori_dev_mlx5_wqe_dump(ori_dev_link_slot(post),
			      ori_dev_link_head(post, ORIEL_MLX5_FENCE_READS), to, 1);
	post->next++;
}

/* Requests of a put; a put of nothing is one too, so that it has a ticket. */
ORIEL_DEV uint32_t ori_dev_link_writes(uint64_t length)
{
	return length ? (uint32_t)((length + ORIEL_LINK_LENGTH_MAX - 1) / ORIEL_LINK_LENGTH_MAX)
		      : 1;
}

#endif
