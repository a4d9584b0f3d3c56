/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: 64-bit words of this rank that each source rank changes, one row per source. Kernels
 * and threads of the CPU call them; see oriel/dev.h for what holds for all device functions.
 */
#ifndef ORIEL_DEV_SIGNAL_H
#define ORIEL_DEV_SIGNAL_H

#include <oriel/dev/detail/signal.h>
#include <oriel/dev/domain.h>
#include <oriel/dev/wait.h>

/*
 * Whole group: signal @id of @peer, by adding @value to this rank's word there or by setting
 * it. Comes after all the group's earlier puts to @peer. ADD is atomic among the groups of this
 * rank; SET overwrites earlier values.
 */
ORIEL_DEV enum oriel_status oriel_dev_signal(const struct oriel_dev_window *w,
					     struct oriel_dev_group g, uint32_t peer, uint32_t id,
					     enum oriel_signal_op op, uint64_t value,
					     struct oriel_dev_ticket *ticket)
{
	enum oriel_status status;
	uint64_t *word;

	ori_dev_ticket_clear(ticket);
	if (!ORIEL_DEV_OFTEN(ori_dev_fast_signal(w, peer, id, op, &word))) {
		status = ori_dev_check_signal(w, peer, id, op);
		if (status != ORIEL_OK)
			return status;
		oriel_dev_sync(g);
		return ori_dev_apply_signal(w, g, peer, id, op, value, true, ticket);
	}
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		ori_dev_mapped_apply_signal(word, op, value, true);
	return ORIEL_OK;
}

/*
 * Whole group: the same, but it orders no puts: a thread that waits for it learns that it
 * arrived and nothing else. Over NVLink in half the time.
 */
ORIEL_DEV enum oriel_status oriel_dev_signal_relaxed(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint32_t peer,
						     uint32_t id, enum oriel_signal_op op,
						     uint64_t value,
						     struct oriel_dev_ticket *ticket)
{
	enum oriel_status status;
	uint64_t *word;

	ori_dev_ticket_clear(ticket);
	if (!ORIEL_DEV_OFTEN(ori_dev_fast_signal(w, peer, id, op, &word))) {
		status = ori_dev_check_signal(w, peer, id, op);
		if (status != ORIEL_OK)
			return status;
		return ori_dev_apply_signal(w, g, peer, id, op, value, false, ticket);
	}
	if (oriel_dev_is_leader(g))
		ori_dev_mapped_apply_signal(word, op, value, false);
	return ORIEL_OK;
}

/* Whole group: signal to every other rank. The group's threads share the work. */
ORIEL_DEV enum oriel_status oriel_dev_signal_all(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t id,
						 enum oriel_signal_op op, uint64_t value)
{
	enum oriel_status status, signaled;
	uint32_t i;

	status = ori_dev_check_any(w, ORIEL_DEV_SIGNAL, id, w->signals);
	if (status == ORIEL_OK)
		status = ori_dev_check_choice(w, ORIEL_DEV_SIGNAL, (uint32_t)op, ORIEL_SIGNAL_SET);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	for (i = 1 + g.rank; i < w->ranks; i += g.size) {
		signaled = ori_dev_apply_signal(w, oriel_dev_thread(), ori_dev_rank_after(w, i), id,
						op, value, true, NULL);
		if (signaled != ORIEL_OK)
			status = signaled;
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: put, then add @value to signal @id of the same peer. The group that wrote
 * signals; a thread that has waited for the signal sees all of the put.
 */
ORIEL_DEV enum oriel_status oriel_dev_put_signal(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t peer,
						 uint64_t to, const void *from, uint64_t length,
						 uint32_t id, uint64_t value,
						 struct oriel_dev_ticket *ticket)
{
	bool is_message = g.kind == ORIEL_DEV_BLOCK && length <= ORIEL_DEV_MESSAGE;
	struct oriel_dev_group some = g;
	enum oriel_status status = ORIEL_OK;
	struct oriel_dev_target remote;

	ori_dev_ticket_clear(ticket);
	remote.peer.control = NULL;
	if (!is_message || ori_dev_is_copier(g.rank, (uint32_t)length)) {
		if (is_message)
			some.size = ori_dev_copiers(g, (uint32_t)length);
		status = ori_dev_check_put_signal(w, peer, to, length, id, &remote);
		if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
			ori_dev_mapped_copy(some, remote.base, from, length);
	}
	/* If all threads have checked, all have the same status. */
	if (is_message && !ori_dev_is_copier(g.size - 1, (uint32_t)length))
		status = oriel_dev_vote(g, status);
	else
		oriel_dev_sync(g);
	if (!ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA) || status != ORIEL_AGAIN)
			return status;
		return ori_dev_rdma_put_signal(w, g, peer, to, from, length, id, value, ticket);
	}
	if (oriel_dev_is_leader(g))
		ori_dev_mapped_put_signal(w, peer, remote.peer.control, id, value);
	return ORIEL_OK;
}

/* The sum of signal @id over all source ranks; modulo 2^64. One thread. */
ORIEL_DEV enum oriel_status oriel_dev_read_signal(const struct oriel_dev_window *w, uint32_t id,
						  uint64_t *value)
{
	enum oriel_status status;
	uint64_t sum = 0;
	uint32_t i;

	status = ori_dev_check_any(w, ORIEL_DEV_WAIT_SIGNAL, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < w->ranks; i++)
		sum += oriel_dev_load_acquire(ori_dev_mapped_inbox(w, i, id));
	*value = sum;
	return ORIEL_OK;
}

/* Signal @id of @source alone. One thread. */
ORIEL_DEV enum oriel_status oriel_dev_read_signal_from(const struct oriel_dev_window *w,
						       uint32_t source, uint32_t id,
						       uint64_t *value)
{
	enum oriel_status status;

	status = ori_dev_check_id(w, ORIEL_DEV_WAIT_SIGNAL_FROM, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	*value = oriel_dev_load_acquire(ori_dev_mapped_inbox(w, source, id));
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

	if (ori_dev_is_poller(g)) {
		status = ori_dev_check_any(w, ORIEL_DEV_WAIT_SIGNAL, id, w->signals);
		if (status == ORIEL_OK)
			status = ori_dev_check_choice(w, ORIEL_DEV_WAIT_SIGNAL, (uint32_t)compare,
						      ORIEL_LE);
		if (status == ORIEL_OK)
			status = ori_dev_wait_sum(w, g, &aim, timeout_ns);
	}
	return oriel_dev_vote(g, status);
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
	if (ori_dev_is_poller(g)) {
		status = ori_dev_check_wait_from(w, source, id, compare);
		if (ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
			aim.word = ori_dev_mapped_inbox(w, source, id);
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

	if (ori_dev_is_poller(g)) {
		status = ori_dev_check_wait_from(w, source, id, compare);
		if (ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
			aim.word = ori_dev_mapped_inbox(w, source, id);
			status = ori_dev_poll_word(w, g, &aim, timeout_ns, &seen);
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

	status = ori_dev_check_id(w, ORIEL_DEV_WAIT_SIGNAL_NEXT, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	if (oriel_dev_is_leader(g)) {
		uint64_t *base = &w->signal_bases[(size_t)source * w->signals + id];

		aim.word = ori_dev_mapped_inbox(w, source, id);
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

	status = ori_dev_check_any(w, ORIEL_DEV_WAIT_SIGNAL_NEXT, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_awaits(w, g)) {
		aim.peer = ori_dev_first_peer(w, g);
		for (i = 1 + g.rank;; i += g.size) {
			aim.word = ori_dev_mapped_inbox(w, aim.peer, id);
			aim.operand = w->signal_bases[(size_t)aim.peer * w->signals + id] + count;
			status = ori_dev_poll_word(w, g, &aim, timeout_ns, &seen);
			if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
				ori_dev_acquire_each(aim.word);
			if (i + g.size >= w->ranks || status != ORIEL_OK)
				break;
			aim.peer = ori_dev_rank_after(w, i + g.size);
		}
		ori_dev_acquire_all();
	}
	status = oriel_dev_vote(g, status);
	/* A thread that polled for another thread has no base of its own. */
	for (i = 1 + g.rank; i < w->ranks && status == ORIEL_OK; i += g.size)
		w->signal_bases[(size_t)ori_dev_rank_after(w, i) * w->signals + id] += count;
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

	status = ori_dev_check_id(w, ORIEL_DEV_SIGNAL, source, id, w->signals);
	if (status != ORIEL_OK)
		return status;
	w->signal_bases[(size_t)source * w->signals + id] = 0;
	oriel_dev_store_release(ori_dev_mapped_inbox(w, source, id), 0);
	return ORIEL_OK;
}

#endif
