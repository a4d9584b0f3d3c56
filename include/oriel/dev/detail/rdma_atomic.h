/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on the data of a peer that is reached by rdma, and with ORIEL_ATOMICS_HCA of any rank;
 * oriel/dev/detail/atomic.h calls them.
 *
 * Every one of them is executed by the NIC of the peer on an aligned word of 8 bytes, so that it
 * is atomic with all others there, whatever the initiators' NICs can do and however wide the
 * operands are: an operand of 4 bytes is a field of its word. No public text says whether a
 * ConnectX excludes an atomic of 4 bytes from one of 8 on the same word.
 *
 * One request does an addition, a fetch and a compare_swap of 8 bytes, and with masked atomics an
 * exclusive or, and additions of 4 bytes, whose carry a boundary stops. All others take
 * COMPARE_SWAPs, until one finds the value that it expects. The masked COMPARE_SWAP of 8 bytes
 * that would do them at once has two blocks, and rings have one CQE for each block
 * (ori_dev_mlx5_wqe_masked_swap64()).
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_RDMA_ATOMIC_H
#define ORIEL_DEV_DETAIL_RDMA_ATOMIC_H

#include <oriel/dev/detail/order_atomic.h>
#include <oriel/dev/detail/rdma.h>

/* An operation on a word of 4 or 8 bytes. */
struct oriel_dev_atomic {
	enum oriel_dev_atomic_op op;
	uint32_t bytes;
	uint64_t value;
	uint64_t compare; /* of a COMPARE_SWAP */
};

ORIEL_DEV struct oriel_dev_atomic ori_dev_atomic_of(enum oriel_dev_atomic_op op, uint32_t bytes,
						    uint64_t value, uint64_t compare)
{
	struct oriel_dev_atomic a = {op, bytes, value, compare};

	return a;
}

/* The first bit of the operand at @at in its word of 8 bytes, and the bits that it has there. */
ORIEL_DEV uint32_t ori_dev_atomic_shift(const struct oriel_dev_atomic *a, uint64_t at)
{
	return a->bytes == 4 ? (uint32_t)(at & 4) * 8 : 0;
}

ORIEL_DEV uint64_t ori_dev_atomic_mask(const struct oriel_dev_atomic *a)
{
	return a->bytes == 4 ? UINT32_MAX : UINT64_MAX;
}

/* The word of 8 bytes that held @word, after @a on the operand at @at. */
ORIEL_DEV uint64_t ori_dev_atomic_in_word(const struct oriel_dev_atomic *a, uint64_t at,
					  uint64_t word)
{
	uint32_t shift = ori_dev_atomic_shift(a, at);
	uint64_t mask = ori_dev_atomic_mask(a);
	uint64_t value =
		ori_dev_atomic_apply(a->op, word >> shift & mask, a->value, a->compare) & mask;

	return (word & ~(mask << shift)) | value << shift;
}

/* Is @a one COMPARE_SWAP? */
ORIEL_DEV bool ori_dev_atomic_is_plain_swap(const struct oriel_dev_atomic *a)
{
	return a->op == ORIEL_DEV_ATOMIC_COMPARE_SWAP && a->bytes == 8;
}

/* Is @a one FETCH_ADD? A carry out of the upper 4 bytes goes nowhere. */
ORIEL_DEV bool ori_dev_atomic_is_plain_add(const struct oriel_dev_atomic *a, uint64_t at)
{
	return a->op == ORIEL_DEV_ATOMIC_FETCH ||
	       (a->op == ORIEL_DEV_ATOMIC_ADD && (a->bytes == 8 || at & 4));
}

/* The entry of @peers whose link the atomics on the data of @peer take. */
ORIEL_DEV uint32_t ori_dev_rdma_atomic_entry(const struct oriel_dev_window *w, uint32_t peer)
{
	return w->inline_wide & ORIEL_DEV_ATOMICS_BY_NIC ? w->ranks + peer : peer;
}

/* Where NICs find the word at @at of the rank of @entry, which may be the rank itself. */
ORIEL_DEV struct ori_dev_rdma_address ori_dev_rdma_atomic_at(const struct oriel_dev_window *w,
							     uint32_t entry, uint64_t at)
{
	uint32_t rank = entry < w->ranks ? entry : entry - w->ranks;
	uint64_t buffer = at >> ORIEL_AT_BITS, column = buffer * w->ranks + rank;

	/* The other entry of the rank itself is for posts that read and write its memory. */
	if (rank == w->rank)
		column = (uint64_t)w->buffers * w->ranks + buffer;
	return ori_dev_rdma_in(w, entry, &w->table[column], at);
}

/* One thread; waits for the response, the whole word of 8 bytes, which goes to @word. */
ORIEL_DEV enum oriel_status ori_dev_rdma_atomic_once(const struct oriel_dev_window *w,
						     uint32_t entry, uint64_t at, uint32_t what,
						     const struct ori_dev_link_atomic *request,
						     uint64_t *word, uint64_t *old)
{
	const struct oriel_dev_link *l = w->peers[entry].link;
	struct ori_dev_rdma_address remote = ori_dev_rdma_atomic_at(w, entry, at);
	struct ori_dev_rdma_address local = ori_dev_rdma_word(w, entry, word);
	struct ori_dev_link_queue q = ori_dev_link_take(l);
	struct ori_dev_link_post post = ori_dev_link_begin(l, q, what,
							   1 + ori_dev_link_read_flushes(l) +
								   ori_dev_link_dma_flushes(l, q));
	enum oriel_status status;

	if (post.status != ORIEL_OK)
		return post.status;
	ori_dev_link_add_atomic(&post, request, remote, local,
				ori_dev_link_add_read_flush(l, &post, remote));
	ori_dev_link_add_dma_flush(l, &post, local);
	/* The NIC has released the word afterwards, with any status. */
	status =
		ori_dev_link_wait_local(l, oriel_dev_thread(), ori_dev_link_end(l, what, &post), 0);
	if (status == ORIEL_OK)
		*old = ori_dev_link_atomic_result(post.queue, oriel_dev_load_relaxed(word));
	return status;
}

/*
 * One thread: COMPARE_SWAPs until one has changed the word, or has found that @a changes nothing.
 * One that fails has lost to an operation that succeeded. The first expects 0, as of locks that
 * are free.
 */
ORIEL_DEV enum oriel_status ori_dev_rdma_atomic_loop(const struct oriel_dev_window *w,
						     uint32_t entry, uint64_t at,
						     const struct oriel_dev_atomic *a,
						     uint64_t *word, uint64_t *old)
{
	struct ori_dev_link_atomic request = {ORIEL_MLX5_COMPARE_SWAP, 0, 0};
	enum oriel_status status;

	*old = 0;
	do {
		request.compare = *old;
		request.value = ori_dev_atomic_in_word(a, at, *old);
		status = ori_dev_rdma_atomic_once(w, entry, at & ~(uint64_t)7,
						  ori_dev_atomic_what(a->op), &request, word, old);
	} while (status == ORIEL_OK && *old != request.compare &&
		 ori_dev_atomic_in_word(a, at, *old) != *old);
	return status;
}

/* One thread. *@old: the whole word of 8 bytes. */
ORIEL_DEV enum oriel_status ori_dev_rdma_atomic_with(const struct oriel_dev_window *w,
						     uint32_t entry, uint64_t at,
						     const struct oriel_dev_atomic *a,
						     struct ori_dev_link_queue q, uint64_t *word,
						     uint64_t *old)
{
	uint32_t shift = ori_dev_atomic_shift(a, at);
	struct ori_dev_link_atomic request = {ORIEL_MLX5_FETCH_ADD, a->value << shift, 0};

	if (a->op == ORIEL_DEV_ATOMIC_FETCH) {
		request.value = 0;
	} else if (ori_dev_atomic_is_plain_swap(a)) {
		request.opcode = ORIEL_MLX5_COMPARE_SWAP;
		request.compare = a->compare;
	} else if (!ori_dev_atomic_is_plain_add(a, at)) {
		if ((a->op != ORIEL_DEV_ATOMIC_XOR && a->op != ORIEL_DEV_ATOMIC_ADD) ||
		    !ori_dev_link_has_masked(q))
			return ori_dev_rdma_atomic_loop(w, entry, at, a, word, old);
		request.opcode = ORIEL_MLX5_MASKED_FETCH_ADD;
		request.compare = a->op == ORIEL_DEV_ATOMIC_XOR ? UINT64_MAX : (uint64_t)1 << 31;
	}
	return ori_dev_rdma_atomic_once(w, entry, at & ~(uint64_t)7, ori_dev_atomic_what(a->op),
					&request, word, old);
}

/* One thread. @peer may be any rank with ORIEL_ATOMICS_HCA. */
ORIEL_DEV enum oriel_status ori_dev_rdma_atomic(const struct oriel_dev_window *w, uint32_t peer,
						uint64_t at, const struct oriel_dev_atomic *a,
						uint64_t *old)
{
	uint32_t entry = ori_dev_rdma_atomic_entry(w, peer);
	const struct oriel_dev_link *l = w->peers[entry].link;
	struct ori_dev_link_queue q = ori_dev_link_take(l);
	uint64_t own = 0, seen = 0, *word;
	enum oriel_status status;

	if (!ori_dev_link_has(q))
		return ori_dev_link_missing(l);
	word = ori_dev_rdma_take_word(l, q, &own, &status);
	if (!word)
		return ori_dev_link_failed(l, q, ori_dev_atomic_what(a->op), status, false);
	status = ori_dev_rdma_atomic_with(w, entry, at, a, q, word, &seen);
	ori_dev_rdma_give_word(l, word);
	if (status == ORIEL_OK)
		*old = seen >> ori_dev_atomic_shift(a, at) & ori_dev_atomic_mask(a);
	return status;
}

#endif
