/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of signals, and the puts that come with them; dev/signal.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_SIGNAL_H
#define ORIEL_DEV_DETAIL_SIGNAL_H

#include <oriel/dev/detail/rdma.h>

/*
 * Whole group, synchronised and with arguments checked; the leader signals. @is_ordered: the
 * signal comes after everything the group did before.
 */
ORIEL_DEV enum oriel_status ori_dev_apply_signal(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t peer,
						 uint32_t id, enum oriel_signal_op op,
						 uint64_t value, bool is_ordered,
						 struct oriel_dev_ticket *ticket)
{
	struct oriel_dev_peer remote = ori_dev_peer_of(w, peer);

	switch (ori_dev_usable(remote.path)) {
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		if (is_ordered && oriel_dev_is_leader(g))
			ori_dev_release_begin();
		if (op == ORIEL_SIGNAL_SET)
			return ori_dev_rdma_posted(
				w, peer,
				ori_dev_link_write_flag(remote.link, g,
							ori_dev_rdma_signal(w, peer, id), value),
				ticket);
		return ori_dev_rdma_posted(w, peer,
					   ori_dev_link_signal(remote.link, g,
							       ori_dev_rdma_signal(w, peer, id),
							       value),
					   ticket);
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		if (remote.flags & ORIEL_DEV_PEER_SERIAL)
			ori_dev_mapped_serial_add(w, peer,
						  ori_dev_mapped_signal(w, remote.control, id), op,
						  value, !oriel_dev_is_leader(g));
		else if (oriel_dev_is_leader(g))
			ori_dev_mapped_apply_signal(ori_dev_mapped_signal(w, remote.control, id),
						    op, value, is_ordered);
		return ORIEL_OK;
	}
	return ORIEL_ERR_NO_PATH;
}

ORIEL_DEV enum oriel_status ori_dev_check_signal(const struct oriel_dev_window *w, uint32_t peer,
						 uint32_t id, enum oriel_signal_op op)
{
	enum oriel_status status;

	status = ori_dev_check_id(w, ORIEL_DEV_SIGNAL, peer, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	return ori_dev_check_choice(w, ORIEL_DEV_SIGNAL, (uint32_t)op, ORIEL_SIGNAL_SET);
}

/* The fast path of a signal, whose word is *@word then: see ori_dev_fast_range(). */
ORIEL_DEV bool ori_dev_fast_signal(const struct oriel_dev_window *w, uint32_t peer, uint32_t id,
				   enum oriel_signal_op op, uint64_t **word)
{
#ifdef __CUDA_ARCH__
	*word = ori_dev_now(ori_dev_inline_of(w, peer)->signals + id);
	return ori_dev_is_fast(w, peer) & (id < w->signals) & ((uint32_t)op <= ORIEL_SIGNAL_SET);
#else
	(void)w;
	(void)peer;
	(void)id;
	(void)op;
	*word = NULL;
	return false;
#endif
}

/*
 * The longest message that only some of a block's threads copy, with ORIEL_DEV_MESSAGE_EACH
 * bytes each. Warps that copy nothing need not load the target: each of their instructions
 * takes its turn before those of the others, and 32 warps that all load it take 0.4 us
 * (oriel_rows, put_signal).
 */
#define ORIEL_DEV_MESSAGE 131072u
#define ORIEL_DEV_MESSAGE_EACH 16u
#define ORIEL_DEV_MESSAGE_THREADS 256u

/* Is thread @rank of a block of any size one of those that copy a message of @length bytes? */
ORIEL_DEV bool ori_dev_is_copier(uint32_t rank, uint32_t length)
{
	/* The leader's warp always loads the target. */
	return (rank < ORIEL_DEV_MESSAGE_THREADS) &
	       ((rank < 32) | (rank / 32 * 32 * ORIEL_DEV_MESSAGE_EACH < length));
}

/* Number of threads of @g, a block, that are. */
ORIEL_DEV uint32_t ori_dev_copiers(struct oriel_dev_group g, uint32_t length)
{
	uint32_t some = ORIEL_DEV_MESSAGE_THREADS;

	if (length < ORIEL_DEV_MESSAGE_THREADS * ORIEL_DEV_MESSAGE_EACH)
		some = (length + 32 * ORIEL_DEV_MESSAGE_EACH - 1) / (32 * ORIEL_DEV_MESSAGE_EACH) *
		       32;
	some = some ? some : 32;
	return some < g.size ? some : g.size;
}

/*
 * Check and locate the targets of a put and of a signal. ORIEL_AGAIN: the peer needs a NIC.
 */
ORIEL_DEV enum oriel_status ori_dev_check_put_signal(const struct oriel_dev_window *w,
						     uint32_t peer, uint64_t to, uint64_t length,
						     uint32_t id, struct oriel_dev_target *remote)
{
	enum oriel_status status;

	if (ORIEL_DEV_OFTEN(ori_dev_fast_range(w, peer, to, length, remote) & (id < w->signals)))
		return ORIEL_OK;
	status = ori_dev_check_id(w, ORIEL_DEV_SIGNAL, peer, id, w->signals);
	if (status == ORIEL_OK)
		status = ori_dev_check_room(w, true, ORIEL_DEV_PUT, peer, to, length, remote);
	if (status != ORIEL_OK)
		return status;
	switch (ori_dev_usable(remote->peer.path)) {
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		return ORIEL_AGAIN;
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * One thread, ordered after the whole put to @peer, whose segment is @control: add to its signal.
 */
ORIEL_DEV void ori_dev_mapped_put_signal(const struct oriel_dev_window *w, uint32_t peer,
					 char *control, uint32_t id, uint64_t value)
{
	uint64_t *word = ori_dev_mapped_signal(w, control, id);

	/* The flag of the window is a constant of a kernel, that of the peer a load. */
	if (ORIEL_DEV_OFTEN(!(w->inline_wide & ORIEL_DEV_HAS_SERIAL)) ||
	    !(ori_dev_table_peer(w, peer).flags & ORIEL_DEV_PEER_SERIAL))
		ori_dev_mapped_apply_signal(word, ORIEL_SIGNAL_ADD, value, true);
	else
		ori_dev_mapped_serial_add(w, peer, word, ORIEL_SIGNAL_ADD, value, false);
}

/* One thread; the leader's part of oriel_dev_wait_signal(). */
ORIEL_DEV enum oriel_status ori_dev_wait_sum(const struct oriel_dev_window *w,
					     struct oriel_dev_group g,
					     const struct oriel_dev_aim *aim, uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, g, timeout_ns);
	enum oriel_status status;
	uint64_t sum;
	uint32_t i;

	for (;;) {
		sum = 0;
		/* Two at a time, so that one load does not wait for the other. */
		for (i = 0; i + 1 < w->ranks; i += 2) {
			uint64_t one = oriel_dev_load_relaxed(ori_dev_mapped_inbox(w, i, aim->id));
			uint64_t two =
				oriel_dev_load_relaxed(ori_dev_mapped_inbox(w, i + 1, aim->id));

			sum += one + two;
		}
		if (i < w->ranks)
			sum += oriel_dev_load_relaxed(ori_dev_mapped_inbox(w, i, aim->id));
		if (ori_dev_compare(sum, aim->compare, aim->operand))
			break;
		status = ori_dev_wait_step(&waiter, aim, sum);
		if (status != ORIEL_AGAIN)
			return status;
	}
	for (i = 0; i < w->ranks; i++)
		(void)ori_dev_acquire(ori_dev_mapped_inbox(w, i, aim->id), 0);
	return ORIEL_OK;
}

ORIEL_DEV enum oriel_status ori_dev_check_wait_from(const struct oriel_dev_window *w,
						    uint32_t source, uint32_t id,
						    enum oriel_compare compare)
{
	enum oriel_status status;

	status = ori_dev_check_id(w, ORIEL_DEV_WAIT_SIGNAL_FROM, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	return ori_dev_check_choice(w, ORIEL_DEV_WAIT_SIGNAL_FROM, (uint32_t)compare, ORIEL_LE);
}

#endif
