/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on the data of a peer: one core for all operations, words of 4 and 8 bytes, and paths.
 * The functions of dev/atomic.h call it with a constant operation, and the library's kernel for
 * streams with any.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_ATOMIC_H
#define ORIEL_DEV_DETAIL_ATOMIC_H

#include <oriel/dev/detail/rdma_atomic.h>

/* One thread: @a on the mapped @word, which is aligned; returns the old value. */
ORIEL_DEV uint64_t ori_dev_atomic_mapped(const struct oriel_dev_atomic *a, void *word)
{
	return a->bytes == 4 ? ori_dev_atomic32(a->op, (uint32_t *)word, (uint32_t)a->value,
						(uint32_t)a->compare)
			     : ori_dev_atomic64(a->op, (uint64_t *)word, a->value, a->compare);
}

/*
 * The same by a load and a store, for a thread that excludes all others. An operation that changes
 * nothing stores nothing.
 */
ORIEL_DEV uint64_t ori_dev_atomic_alone(const struct oriel_dev_atomic *a, void *word)
{
	uint64_t old, value;

	if (a->bytes == 4) {
		old = ori_dev_load_relaxed32((uint32_t *)word);
		value = ori_dev_atomic_apply(a->op, old, a->value, a->compare);
		if (value != old)
			ori_dev_store_release32((uint32_t *)word, (uint32_t)value);
		return old;
	}
	old = oriel_dev_load_relaxed((uint64_t *)word);
	value = ori_dev_atomic_apply(a->op, old, a->value, a->compare);
	if (value != old)
		oriel_dev_store_release((uint64_t *)word, value);
	return old;
}

/* One thread with ticket @number: wait until rank @other does not come before this one. */
ORIEL_DEV enum oriel_status ori_dev_await_turn(const struct oriel_dev_window *w, uint32_t what,
					       const uint64_t *tickets, uint32_t other,
					       uint64_t number)
{
	struct oriel_dev_aim aim = {tickets + other, 0, ORIEL_EQ, what, other, 0};
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, oriel_dev_thread(), 0);
	enum oriel_status status = ORIEL_AGAIN;
	uint64_t seen;

	while (status == ORIEL_AGAIN) {
		/* With the release at the end of that rank's turn. */
		seen = oriel_dev_load_acquire(aim.word);
		if (!seen || (seen > 1 && (seen > number || (seen == number && other > w->rank))))
			return ORIEL_OK;
		status = ori_dev_wait_step(&waiter, &aim, seen);
	}
	return status;
}

/*
 * One thread, this rank's only one here: @a on *@word once no rank with a lower ticket is left:
 * Lamport's bakery (CACM 17(8), 1974), which needs loads and stores alone. 0 is no ticket, 1 one
 * that is being drawn.
 */
ORIEL_DEV enum oriel_status ori_dev_atomic_with_ticket(const struct oriel_dev_window *w,
						       uint64_t *tickets,
						       const struct oriel_dev_atomic *a, void *word,
						       uint64_t *old)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t number = 1, seen;
	uint32_t i;

	oriel_dev_store_relaxed(tickets + w->rank, 1);
	ori_dev_fence_full();
	for (i = 0; i < w->ranks; i++) {
		seen = oriel_dev_load_relaxed(tickets + i);
		number = seen > number ? seen : number;
	}
	number++;
	oriel_dev_store_relaxed(tickets + w->rank, number);
	/* Each of two ranks sees the ticket of the other, or that one sees this. */
	ori_dev_fence_full();
	for (i = 0; i < w->ranks && status == ORIEL_OK; i++)
		if (i != w->rank)
			status = ori_dev_await_turn(w, ori_dev_atomic_what(a->op), tickets, i,
						    number);
	if (status == ORIEL_OK)
		*old = ori_dev_atomic_alone(a, word);
	oriel_dev_store_release(tickets + w->rank, 0);
	return status;
}

/*
 * One thread: @a on *@word of @peer, whose segment is @control. All ranks that map it do so, @peer
 * itself included: atomics of some would not exclude others.
 */
ORIEL_DEV_RARE enum oriel_status ori_dev_atomic_in_turn(const struct oriel_dev_window *w,
							uint32_t peer, char *control,
							const struct oriel_dev_atomic *a,
							void *word, uint64_t *old)
{
	uint64_t *turn = ori_dev_mapped_turns(w) + w->ranks + peer;
	struct oriel_dev_aim aim = {turn, 0, ORIEL_EQ, ori_dev_atomic_what(a->op), peer, 0};
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, oriel_dev_thread(), 0);
	enum oriel_status status;

	while (!ori_dev_swap_acq_rel(turn, 0, 1)) {
		status = ori_dev_wait_step(&waiter, &aim, 1);
		if (status != ORIEL_AGAIN)
			return status;
	}
	status = ori_dev_atomic_with_ticket(w, ori_dev_mapped_tickets(w, control), a, word, old);
	oriel_dev_store_release(turn, 0);
	return status;
}

/* Is there an aligned word for @a at @at of @peer? */
ORIEL_DEV bool ori_dev_atomic_is_fast(const struct oriel_dev_window *w, uint32_t peer, uint64_t at,
				      const struct oriel_dev_atomic *a,
				      struct oriel_dev_target *target)
{
	return a->bytes == 4 ? ori_dev_fast_word32(w, peer, at, target)
			     : ori_dev_fast_word(w, peer, at, target);
}

ORIEL_DEV enum oriel_status ori_dev_atomic_check(const struct oriel_dev_window *w, uint32_t peer,
						 uint64_t at, const struct oriel_dev_atomic *a,
						 struct oriel_dev_target *target)
{
	uint32_t what = ori_dev_atomic_what(a->op);

	return a->bytes == 4 ? ori_dev_check_word32(w, what, peer, at, target)
			     : ori_dev_check_word(w, what, peer, at, target);
}

/*
 * Does a NIC execute the atomics on words of @peer? Its code may be left out of this unit: then
 * they have no path.
 */
ORIEL_DEV bool ori_dev_atomic_is_by_nic(const struct oriel_dev_window *w,
					const struct oriel_dev_target *target)
{
	return target->peer.path == ORIEL_PATH_RDMA || w->inline_wide & ORIEL_DEV_ATOMICS_BY_NIC;
}

/* One thread: @a on the mapped @word; @is_ordered: see oriel_dev_fetch_add_relaxed(). */
ORIEL_DEV uint64_t ori_dev_atomic_at(const struct oriel_dev_atomic *a, void *word, bool is_ordered)
{
	return is_ordered ? ori_dev_atomic_mapped(a, word)
			  : ori_dev_fetch_add_relaxed_sys((uint64_t *)word, a->value);
}

/*
 * One thread: @a on the word at @at of @peer. The fast path ends by itself, and the other has a
 * number of its own for the peer: so the loops of the other cost an atomic of the fast path 7 to
 * 22 ns less on a GPU (oriel_rows, fetch_add).
 */
ORIEL_DEV enum oriel_status ori_dev_atomic(const struct oriel_dev_window *w, uint32_t peer,
					   uint64_t at, struct oriel_dev_atomic a, uint64_t *old,
					   bool is_ordered)
{
	struct oriel_dev_target remote;
	enum oriel_status status;

	if (ORIEL_DEV_OFTEN(
		    ori_dev_atomic_is_fast(w, peer, at, &a, &remote) &
		    !(w->inline_wide & (ORIEL_DEV_HAS_SERIAL | ORIEL_DEV_ATOMICS_BY_NIC)))) {
		*old = ori_dev_atomic_at(&a, remote.base, is_ordered);
		return ORIEL_OK;
	}
	peer += ori_dev_opaque_zero();
	status = ori_dev_atomic_check(w, peer, at, &a, &remote);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_atomic_is_by_nic(w, &remote))
		return ORIEL_DEV_HAS(ORIEL_PATH_RDMA) ? ori_dev_rdma_atomic(w, peer, at, &a, old)
						      : ORIEL_ERR_NO_PATH;
	if (ori_dev_usable(remote.peer.path) == ORIEL_PATH_NONE)
		return ORIEL_ERR_NO_PATH;
	/* The entry in the handle has no flags. A load needs no turn: each turn stores once. */
	if (a.op != ORIEL_DEV_ATOMIC_FETCH && w->inline_wide & ORIEL_DEV_HAS_SERIAL &&
	    ori_dev_table_peer(w, peer).flags & ORIEL_DEV_PEER_TURNS)
		return ori_dev_atomic_in_turn(w, peer, remote.peer.control, &a, remote.base, old);
	*old = ori_dev_atomic_at(&a, remote.base, is_ordered);
	return ORIEL_OK;
}

ORIEL_DEV enum oriel_status ori_dev_atomic_64(const struct oriel_dev_window *w, uint32_t peer,
					      uint64_t at, enum oriel_dev_atomic_op op,
					      uint64_t value, uint64_t compare, uint64_t *old)
{
	return ori_dev_atomic(w, peer, at, ori_dev_atomic_of(op, 8, value, compare), old, true);
}

ORIEL_DEV enum oriel_status ori_dev_atomic_32(const struct oriel_dev_window *w, uint32_t peer,
					      uint64_t at, enum oriel_dev_atomic_op op,
					      uint32_t value, uint32_t compare, uint32_t *old)
{
	uint64_t wide = 0;
	enum oriel_status status =
		ori_dev_atomic(w, peer, at, ori_dev_atomic_of(op, 4, value, compare), &wide, true);

	if (status == ORIEL_OK)
		*old = (uint32_t)wide;
	return status;
}

#endif
