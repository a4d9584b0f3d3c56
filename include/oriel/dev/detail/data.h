/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in turns, and additions to the data of a peer; dev/data.h and collectives call it.
 *
 * No API: this may change in any release.
 */
#ifndef ORIEL_DEV_DETAIL_DATA_H
#define ORIEL_DEV_DETAIL_DATA_H

#include <oriel/dev/detail/rdma.h>

/*
 * Bytes that one of the groups that put together puts before it is the next one's turn: all
 * write to one area of the target. 132 blocks put 370 GB/s from one H200 to another that way,
 * and 348 if each has a part of 256 MiB to itself (oriel_rows, put_bw).
 */
#define ORIEL_DEV_TURN 65536u

/* Whole group: every @parts-th turn of a copy, from turn @part on. */
ORIEL_DEV void ori_dev_mapped_copy_turns(struct oriel_dev_group g, uint32_t part, uint32_t parts,
					 char *to, const char *from, uint64_t length)
{
	uint64_t at, step = (uint64_t)parts * ORIEL_DEV_TURN;

	ORIEL_DEV_ROLL
	for (at = (uint64_t)part * ORIEL_DEV_TURN; at < length; at += step)
		ori_dev_mapped_copy(g, to + at, from + at,
				    length - at < ORIEL_DEV_TURN ? length - at : ORIEL_DEV_TURN);
}

/* One thread with ticket @number: wait until rank @other does not come before this one. */
ORIEL_DEV enum oriel_status ori_dev_await_turn(const struct oriel_dev_window *w,
					       const uint64_t *tickets, uint32_t other,
					       uint64_t number)
{
	struct oriel_dev_aim aim = {tickets + other, 0, ORIEL_EQ, ORIEL_DEV_FETCH_ADD, other, 0};
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
 * One thread, this rank's only one here: add to *@word once no rank with a lower ticket is left:
 * Lamport's bakery (CACM 17(8), 1974), which needs loads and stores alone. 0 is no ticket, 1 one
 * that is being drawn.
 */
ORIEL_DEV enum oriel_status ori_dev_add_with_ticket(const struct oriel_dev_window *w,
						    uint64_t *tickets, uint64_t *word,
						    uint64_t value, uint64_t *old)
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
			status = ori_dev_await_turn(w, tickets, i, number);
	if (status == ORIEL_OK) {
		*old = oriel_dev_load_relaxed(word);
		oriel_dev_store_release(word, *old + value);
	}
	oriel_dev_store_release(tickets + w->rank, 0);
	return status;
}

/*
 * One thread: fetch_add() on *@word of @peer, whose segment is @control. All ranks that map it do
 * so, @peer itself included: atomics of some would not exclude others.
 */
ORIEL_DEV_RARE enum oriel_status ori_dev_add_in_turn(const struct oriel_dev_window *w,
						     uint32_t peer, char *control, uint64_t *word,
						     uint64_t value, uint64_t *old)
{
	uint64_t *turn = ori_dev_mapped_turns(w) + w->ranks + peer;
	struct oriel_dev_aim aim = {turn, 0, ORIEL_EQ, ORIEL_DEV_FETCH_ADD, peer, 0};
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, oriel_dev_thread(), 0);
	enum oriel_status status;

	while (!ori_dev_swap_acq_rel(turn, 0, 1)) {
		status = ori_dev_wait_step(&waiter, &aim, 1);
		if (status != ORIEL_AGAIN)
			return status;
	}
	status = ori_dev_add_with_ticket(w, ori_dev_mapped_tickets(w, control), word, value, old);
	oriel_dev_store_release(turn, 0);
	return status;
}

ORIEL_DEV enum oriel_status ori_dev_fetch_add_as(const struct oriel_dev_window *w, uint32_t peer,
						 uint64_t at, uint64_t value, uint64_t *old,
						 bool is_ordered)
{
	struct oriel_dev_target remote;
	enum oriel_status status;
	uint64_t *word;

	if (!ORIEL_DEV_OFTEN(ori_dev_fast_word(w, peer, at, &remote) &
			     !(w->inline_wide & ORIEL_DEV_HAS_SERIAL))) {
		status = ori_dev_check_word(w, ORIEL_DEV_FETCH_ADD, peer, at, &remote);
		if (status != ORIEL_OK)
			return status;
		if (ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && remote.peer.path == ORIEL_PATH_RDMA)
			return ori_dev_rdma_fetch_add(w, peer, at, value, old);
		if (ori_dev_usable(remote.peer.path) == ORIEL_PATH_NONE)
			return ORIEL_ERR_NO_PATH;
		word = (uint64_t *)(void *)remote.base;
		/* The entry in the handle has no flags. */
		if (w->inline_wide & ORIEL_DEV_HAS_SERIAL &&
		    ori_dev_table_peer(w, peer).flags & ORIEL_DEV_PEER_TURNS)
			return ori_dev_add_in_turn(w, peer, remote.peer.control, word, value, old);
	}
	word = (uint64_t *)(void *)remote.base;
	*old = is_ordered ? ori_dev_fetch_add_acq_rel(word, value)
			  : ori_dev_fetch_add_relaxed_sys(word, value);
	return ORIEL_OK;
}

#endif
