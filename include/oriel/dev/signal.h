/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: 64-bit words of this rank that each source rank changes, one row per source. Kernels
 * and threads of the CPU call them; see oriel/dev.h for what holds for all device functions.
 */
#ifndef ORIEL_DEV_SIGNAL_H
#define ORIEL_DEV_SIGNAL_H

#include <oriel/dev/data.h>

/*
 * Whole group, synchronised and with arguments checked; the leader signals. @is_ordered: the
 * signal comes after everything the group did before.
 */
ORIEL_DEV int64_t oriel_dev_apply_signal(const struct oriel_dev_window *w, struct oriel_dev_group g,
					 uint32_t peer, uint32_t id, enum oriel_signal_op op,
					 uint64_t value, bool is_ordered)
{
	struct oriel_dev_peer remote = oriel_dev_peer_of(w, peer);

	switch (oriel_dev_usable(remote.path)) {
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		if (is_ordered && oriel_dev_is_leader(g))
			oriel_dev_release_begin();
		if (op == ORIEL_SIGNAL_SET)
			return oriel_rdma_ticket(
				peer, oriel_link_write_flag(remote.link, g,
							    oriel_rdma_signal(w, peer, id), value));
		return oriel_rdma_ticket(peer,
					 oriel_link_signal(remote.link, g,
							   oriel_rdma_signal(w, peer, id), value));
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		if (remote.flags & ORIEL_DEV_PEER_SERIAL)
			oriel_mapped_serial_add(w, peer, oriel_mapped_signal(w, remote.control, id),
						op, value, !oriel_dev_is_leader(g));
		else if (oriel_dev_is_leader(g))
			oriel_mapped_apply_signal(oriel_mapped_signal(w, remote.control, id), op,
						  value, is_ordered);
		return 0;
	}
	return ORIEL_ERR_NO_PATH;
}

ORIEL_DEV enum oriel_status oriel_dev_check_signal(const struct oriel_dev_window *w, uint32_t peer,
						   uint32_t id, enum oriel_signal_op op)
{
	enum oriel_status status;

	status = oriel_dev_check_id(w, ORIEL_DEV_SIGNAL, peer, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_check_choice(w, ORIEL_DEV_SIGNAL, (uint32_t)op, ORIEL_SIGNAL_SET);
}

/* The fast path of a signal, whose word is *@word then: see oriel_dev_fast_range(). */
ORIEL_DEV bool oriel_dev_fast_signal(const struct oriel_dev_window *w, uint32_t peer, uint32_t id,
				     enum oriel_signal_op op, uint64_t **word)
{
#ifdef __CUDA_ARCH__
	*word = oriel_dev_now(oriel_dev_inline_of(w, peer)->signals + id);
	return oriel_dev_is_fast(w, peer) & (id < w->signals) & ((uint32_t)op <= ORIEL_SIGNAL_SET);
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
 * Whole group: signal @id of @peer, by adding @value to this rank's word there or by setting
 * it. Comes after all the group's earlier puts to @peer. ADD is atomic among the groups of this
 * rank; SET overwrites earlier values.
 */
ORIEL_DEV int64_t oriel_dev_signal(const struct oriel_dev_window *w, struct oriel_dev_group g,
				   uint32_t peer, uint32_t id, enum oriel_signal_op op,
				   uint64_t value)
{
	enum oriel_status status;
	uint64_t *word;

	if (!ORIEL_DEV_OFTEN(oriel_dev_fast_signal(w, peer, id, op, &word))) {
		status = oriel_dev_check_signal(w, peer, id, op);
		if (status != ORIEL_OK)
			return status;
		oriel_dev_sync(g);
		return oriel_dev_apply_signal(w, g, peer, id, op, value, true);
	}
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		oriel_mapped_apply_signal(word, op, value, true);
	return 0;
}

/*
 * Whole group: the same, but it orders no puts: a thread that waits for it learns that it
 * arrived and nothing else. Over NVLink in half the time.
 */
ORIEL_DEV int64_t oriel_dev_signal_relaxed(const struct oriel_dev_window *w,
					   struct oriel_dev_group g, uint32_t peer, uint32_t id,
					   enum oriel_signal_op op, uint64_t value)
{
	enum oriel_status status;
	uint64_t *word;

	if (!ORIEL_DEV_OFTEN(oriel_dev_fast_signal(w, peer, id, op, &word))) {
		status = oriel_dev_check_signal(w, peer, id, op);
		if (status != ORIEL_OK)
			return status;
		return oriel_dev_apply_signal(w, g, peer, id, op, value, false);
	}
	if (oriel_dev_is_leader(g))
		oriel_mapped_apply_signal(word, op, value, false);
	return 0;
}

/*
 * Whole group: signal to every other rank. The group's threads share the work. The result is no
 * ticket: 0, or a status.
 */
ORIEL_DEV int64_t oriel_dev_signal_all(const struct oriel_dev_window *w, struct oriel_dev_group g,
				       uint32_t id, enum oriel_signal_op op, uint64_t value)
{
	enum oriel_status status;
	int64_t ticket = 0;
	uint32_t i;

	status = oriel_dev_check_any(w, ORIEL_DEV_SIGNAL, id, w->signals);
	if (status == ORIEL_OK)
		status =
			oriel_dev_check_choice(w, ORIEL_DEV_SIGNAL, (uint32_t)op, ORIEL_SIGNAL_SET);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	for (i = 1 + g.rank; i < w->ranks; i += g.size) {
		int64_t posted =
			oriel_dev_apply_signal(w, oriel_dev_thread(), oriel_dev_rank_after(w, i),
					       id, op, value, true);

		if (posted < 0)
			ticket = posted;
	}
	status = oriel_dev_vote(g, ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK);
	return status;
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
ORIEL_DEV bool oriel_dev_is_copier(uint32_t rank, uint32_t length)
{
	/* The leader's warp always loads the target. */
	return (rank < ORIEL_DEV_MESSAGE_THREADS) &
	       ((rank < 32) | (rank / 32 * 32 * ORIEL_DEV_MESSAGE_EACH < length));
}

/* Number of threads of @g, a block, that are. */
ORIEL_DEV uint32_t oriel_dev_copiers(struct oriel_dev_group g, uint32_t length)
{
	uint32_t some = ORIEL_DEV_MESSAGE_THREADS;

	if (length < ORIEL_DEV_MESSAGE_THREADS * ORIEL_DEV_MESSAGE_EACH)
		some = (length + 32 * ORIEL_DEV_MESSAGE_EACH - 1) / (32 * ORIEL_DEV_MESSAGE_EACH) *
		       32;
	some = some ? some : 32;
	return some < g.size ? some : g.size;
}

/*
 * Check and locate the targets of a put and of a signal. ORIEL_AGAIN: the peer needs a NIC, or its
 * signal turns.
 */
ORIEL_DEV enum oriel_status oriel_dev_check_put_signal(const struct oriel_dev_window *w,
						       uint32_t peer, uint64_t to, uint64_t length,
						       uint32_t id, struct oriel_dev_target *remote)
{
	enum oriel_status status;

	if (ORIEL_DEV_OFTEN(oriel_dev_fast_range(w, peer, to, length, remote) & (id < w->signals)))
		return ORIEL_OK;
	status = oriel_dev_check_id(w, ORIEL_DEV_SIGNAL, peer, id, w->signals);
	if (status == ORIEL_OK)
		status = oriel_dev_check_room(w, true, ORIEL_DEV_PUT, peer, to, length, remote);
	if (status != ORIEL_OK)
		return status;
	switch (oriel_dev_usable(remote->peer.path)) {
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		return remote->peer.flags & ORIEL_DEV_PEER_SERIAL ? ORIEL_AGAIN : ORIEL_OK;
	case ORIEL_PATH_RDMA:
		return ORIEL_AGAIN;
	}
	return ORIEL_ERR_NO_PATH;
}

/* Whole group, arguments checked: oriel_dev_put_signal() to a serial peer. */
ORIEL_DEV int64_t oriel_dev_put_signal_serially(const struct oriel_dev_window *w,
						struct oriel_dev_group g, uint32_t peer,
						uint64_t to, const void *from, uint64_t length,
						uint32_t id, uint64_t value)
{
	struct oriel_dev_target remote;

	/* Only the threads that copy short messages have located it. */
	(void)oriel_dev_locate(w, true, peer, to, length, &remote);
	oriel_mapped_copy(g, remote.base, from, length);
	oriel_dev_sync(g);
	oriel_mapped_serial_add(w, peer, oriel_mapped_signal(w, remote.peer.control, id),
				ORIEL_SIGNAL_ADD, value, !oriel_dev_is_leader(g));
	return 0;
}

/*
 * Whole group: put, then add @value to signal @id of the same peer. The group that wrote
 * signals; a thread that has waited for the signal sees all of the put.
 */
ORIEL_DEV int64_t oriel_dev_put_signal(const struct oriel_dev_window *w, struct oriel_dev_group g,
				       uint32_t peer, uint64_t to, const void *from,
				       uint64_t length, uint32_t id, uint64_t value)
{
	bool is_message = g.kind == ORIEL_DEV_BLOCK && length <= ORIEL_DEV_MESSAGE;
	struct oriel_dev_group some = g;
	enum oriel_status status = ORIEL_OK;
	struct oriel_dev_target remote;

	remote.peer.control = NULL;
	if (!is_message || oriel_dev_is_copier(g.rank, (uint32_t)length)) {
		if (is_message)
			some.size = oriel_dev_copiers(g, (uint32_t)length);
		status = oriel_dev_check_put_signal(w, peer, to, length, id, &remote);
		if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
			oriel_mapped_copy(some, remote.base, from, length);
	}
	/* If all threads have checked, all have the same status. */
	if (is_message && !oriel_dev_is_copier(g.size - 1, (uint32_t)length))
		status = oriel_dev_vote(g, status);
	else
		oriel_dev_sync(g);
	if (!ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
		if (status == ORIEL_AGAIN && oriel_dev_is_serial(w, peer))
			return oriel_dev_put_signal_serially(w, g, peer, to, from, length, id,
							     value);
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA) || status != ORIEL_AGAIN)
			return status;
		return oriel_rdma_ticket(
			peer, oriel_link_put_signal(oriel_dev_peer_of(w, peer).link, g,
						    oriel_rdma_remote(w, peer, to),
						    oriel_rdma_source(w, g, peer, from, length),
						    length, oriel_rdma_signal(w, peer, id), value));
	}
	if (oriel_dev_is_leader(g))
		oriel_mapped_apply_signal(oriel_mapped_signal(w, remote.peer.control, id),
					  ORIEL_SIGNAL_ADD, value, true);
	return 0;
}

/* The sum of signal @id over all source ranks; modulo 2^64. One thread. */
ORIEL_DEV enum oriel_status oriel_dev_read_signal(const struct oriel_dev_window *w, uint32_t id,
						  uint64_t *value)
{
	enum oriel_status status;
	uint64_t sum = 0;
	uint32_t i;

	status = oriel_dev_check_any(w, ORIEL_DEV_WAIT_SIGNAL, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < w->ranks; i++)
		sum += oriel_dev_load_acquire(oriel_mapped_inbox(w, i, id));
	*value = sum;
	return ORIEL_OK;
}

/* Signal @id of @source alone. One thread. */
ORIEL_DEV enum oriel_status oriel_dev_read_signal_from(const struct oriel_dev_window *w,
						       uint32_t source, uint32_t id,
						       uint64_t *value)
{
	enum oriel_status status;

	status = oriel_dev_check_id(w, ORIEL_DEV_WAIT_SIGNAL_FROM, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	*value = oriel_dev_load_acquire(oriel_mapped_inbox(w, source, id));
	return ORIEL_OK;
}

/* One thread; the leader's part of oriel_dev_wait_signal(). */
ORIEL_DEV enum oriel_status oriel_dev_wait_sum(const struct oriel_dev_window *w,
					       struct oriel_dev_group g,
					       const struct oriel_dev_aim *aim, uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = oriel_dev_wait_begin(w, g, timeout_ns);
	enum oriel_status status;
	uint64_t sum;
	uint32_t i;

	for (;;) {
		sum = 0;
		/* Two at a time, so that one load does not wait for the other. */
		for (i = 0; i + 1 < w->ranks; i += 2) {
			uint64_t one = oriel_dev_load_relaxed(oriel_mapped_inbox(w, i, aim->id));
			uint64_t two =
				oriel_dev_load_relaxed(oriel_mapped_inbox(w, i + 1, aim->id));

			sum += one + two;
		}
		if (i < w->ranks)
			sum += oriel_dev_load_relaxed(oriel_mapped_inbox(w, i, aim->id));
		if (oriel_dev_compare(sum, aim->compare, aim->operand))
			break;
		status = oriel_dev_wait_step(&waiter, aim, sum);
		if (status != ORIEL_AGAIN)
			return status;
	}
	for (i = 0; i < w->ranks; i++)
		(void)oriel_dev_acquire(oriel_mapped_inbox(w, i, aim->id), 0);
	return ORIEL_OK;
}

/*
 * Whole group: wait until the sum of signal @id over all source ranks compares. The sum counts
 * arrivals: it says how many arrived, not from which rank, and it is no snapshot, so a value
 * that holds only for a moment (EQ, LT, LE while peers still add) may be missed. Each source's
 * puts before the value seen are visible afterwards.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_signal(const struct oriel_dev_window *w,
						  struct oriel_dev_group g, uint32_t id,
						  enum oriel_compare compare, uint64_t operand,
						  uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {
		NULL, operand, (uint32_t)compare, ORIEL_DEV_WAIT_SIGNAL, ORIEL_DEV_NO_RANK, id};
	enum oriel_status status = ORIEL_OK;

	if (oriel_dev_is_poller(g)) {
		status = oriel_dev_check_any(w, ORIEL_DEV_WAIT_SIGNAL, id, w->signals);
		if (status == ORIEL_OK)
			status = oriel_dev_check_choice(w, ORIEL_DEV_WAIT_SIGNAL, (uint32_t)compare,
							ORIEL_LE);
		if (status == ORIEL_OK)
			status = oriel_dev_wait_sum(w, g, &aim, timeout_ns);
	}
	return oriel_dev_vote(g, status);
}

ORIEL_DEV enum oriel_status oriel_dev_check_wait_from(const struct oriel_dev_window *w,
						      uint32_t source, uint32_t id,
						      enum oriel_compare compare)
{
	enum oriel_status status;

	status = oriel_dev_check_id(w, ORIEL_DEV_WAIT_SIGNAL_FROM, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_check_choice(w, ORIEL_DEV_WAIT_SIGNAL_FROM, (uint32_t)compare, ORIEL_LE);
}

/*
 * Whole group: wait until signal @id of @source compares. Everything that @source put to this
 * rank before the value seen is visible afterwards.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_signal_from(const struct oriel_dev_window *w,
						       struct oriel_dev_group g, uint32_t source,
						       uint32_t id, enum oriel_compare compare,
						       uint64_t operand, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL,   operand, (uint32_t)compare, ORIEL_DEV_WAIT_SIGNAL_FROM,
				    source, id};
	enum oriel_status status = ORIEL_OK;

	/* The other threads of a group of many warps only vote here. */
	if (oriel_dev_is_poller(g)) {
		status = oriel_dev_check_wait_from(w, source, id, compare);
		if (ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
			aim.word = oriel_mapped_inbox(w, source, id);
			status = oriel_dev_wait_word(w, g, &aim, timeout_ns);
		}
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: the same, but nothing is acquired: it makes no put of @source visible. For
 * signals that say nothing but that they arrived.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_signal_relaxed(const struct oriel_dev_window *w,
							  struct oriel_dev_group g, uint32_t source,
							  uint32_t id, enum oriel_compare compare,
							  uint64_t operand, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL,   operand, (uint32_t)compare, ORIEL_DEV_WAIT_SIGNAL_FROM,
				    source, id};
	enum oriel_status status = ORIEL_OK;
	uint64_t seen;

	if (oriel_dev_is_poller(g)) {
		status = oriel_dev_check_wait_from(w, source, id, compare);
		if (ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
			aim.word = oriel_mapped_inbox(w, source, id);
			status = oriel_dev_poll_word(w, g, &aim, timeout_ns, &seen);
		}
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: wait until @source has added @count to signal @id since the last successful call
 * for that pair. The base lies in the window, so nothing needs resetting between launches.
 * After a timeout, call again to continue.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_signal_next(const struct oriel_dev_window *w,
						       struct oriel_dev_group g, uint32_t source,
						       uint32_t id, uint64_t count,
						       uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL,   0, ORIEL_DEV_PASSED, ORIEL_DEV_WAIT_SIGNAL_NEXT,
				    source, id};
	enum oriel_status status;

	status = oriel_dev_check_id(w, ORIEL_DEV_WAIT_SIGNAL_NEXT, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	if (oriel_dev_is_leader(g)) {
		uint64_t *base = &w->signal_bases[(size_t)source * w->signals + id];

		aim.word = oriel_mapped_inbox(w, source, id);
		aim.operand = *base + count;
		status = oriel_dev_wait_word(w, g, &aim, timeout_ns);
		if (status == ORIEL_OK)
			*base = aim.operand;
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: oriel_dev_wait_signal_next() for every other rank, whose words the group's
 * threads poll in parallel. After a timeout the bases are those before the call: call again to
 * continue.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_signal_next_all(const struct oriel_dev_window *w,
							   struct oriel_dev_group g, uint32_t id,
							   uint64_t count, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, 0, ORIEL_DEV_PASSED, ORIEL_DEV_WAIT_SIGNAL_NEXT, 0, id};
	enum oriel_status status;
	uint64_t seen;
	uint32_t i;

	status = oriel_dev_check_any(w, ORIEL_DEV_WAIT_SIGNAL_NEXT, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	if (oriel_dev_awaits(w, g)) {
		aim.peer = oriel_dev_first_peer(w, g);
		for (i = 1 + g.rank;; i += g.size) {
			aim.word = oriel_mapped_inbox(w, aim.peer, id);
			aim.operand = w->signal_bases[(size_t)aim.peer * w->signals + id] + count;
			status = oriel_dev_poll_word(w, g, &aim, timeout_ns, &seen);
			if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
				oriel_dev_acquire_each(aim.word);
			if (i + g.size >= w->ranks || status != ORIEL_OK)
				break;
			aim.peer = oriel_dev_rank_after(w, i + g.size);
		}
		oriel_dev_acquire_all();
	}
	status = oriel_dev_vote(g, status);
	/* A thread that polled for another thread has no base of its own. */
	for (i = 1 + g.rank; i < w->ranks && status == ORIEL_OK; i += g.size)
		w->signal_bases[(size_t)oriel_dev_rank_after(w, i) * w->signals + id] += count;
	return status;
}

/*
 * Set signal @id of @source at this rank to 0, and the base of wait_signal_next with it. One
 * thread, while @source is known not to signal it.
 */
ORIEL_DEV enum oriel_status oriel_dev_reset_signal(const struct oriel_dev_window *w,
						   uint32_t source, uint32_t id)
{
	enum oriel_status status;

	status = oriel_dev_check_id(w, ORIEL_DEV_SIGNAL, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	w->signal_bases[(size_t)source * w->signals + id] = 0;
	oriel_dev_store_release(oriel_mapped_inbox(w, source, id), 0);
	return ORIEL_OK;
}

#endif
