/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers: one arrival word per source rank, written on the same path as its puts. Kernels and
 * threads of the CPU call them; see oriel/dev.h for what holds for all device functions.
 *
 * After ORIEL_ERR_TIMEOUT by a limit of the caller's own the arrival stands. The same call made
 * again, or the form that only waits, continues the wait and does not arrive a second time;
 * what the group puts in between belongs to the next barrier. On a GPU the call that continues
 * has a limit of its own, ORIEL_TIMEOUT_INFINITE if no other: one with the default limit returns
 * ORIEL_ERR_STATE and breaks the communicator. So does arriving, in the split forms, while the
 * wait for the last arrival is outstanding; on a CPU that is rejected with ORIEL_ERR_STATE
 * before anything is done.
 */
#ifndef ORIEL_DEV_BARRIER_H
#define ORIEL_DEV_BARRIER_H

#include <oriel/dev/detail/barrier.h>

/*
 * Whole group: arrive at barrier @slot. The arrival announces the group's puts to all ranks.
 * Each arrival must be waited for before the next: ORIEL_ERR_STATE while the wait for the last
 * one has only ended by a limit of the caller's own. ORIEL_ERR_NO_PATH if a peer is not
 * connected: all other peers have been notified, so that they need not wait, and it counts as
 * an arrival.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_arrive(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint32_t slot)
{
	uint64_t *first = ori_dev_fast_arrival(w, g, slot), epoch;
	enum oriel_status status;

	status = ori_dev_check_any(w, ORIEL_DEV_BARRIER, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_is_pending(&w->slots[slot].epoch, 0, &epoch))
		return ori_dev_reject_arrival(w, ORIEL_DEV_BARRIER, ORIEL_DEV_NO_RANK, slot);
	return oriel_dev_vote(g, ori_dev_enter(w, g, slot, first, 0, &epoch));
}

/*
 * Whole group: wait until every rank has arrived at @slot as often as this one. Afterwards
 * everything that any rank put to this rank before its arrival is visible.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_wait(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t slot,
						   uint64_t timeout_ns)
{
	enum oriel_status status;
	uint64_t epoch;

	status = ori_dev_check_any(w, ORIEL_DEV_BARRIER, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	epoch = oriel_dev_load_relaxed(&w->slots[slot].epoch);
	return ori_dev_leave_at(w, g, slot, epoch & ~ORIEL_DEV_PENDING, epoch & ORIEL_DEV_PENDING,
				ORIEL_OK, timeout_ns);
}

/*
 * Whole group: arrive, unless an arrival is pending, then wait. @timeout_ns holds for each rank
 * waited for; once it has passed, call this again, or oriel_dev_barrier_wait().
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier(const struct oriel_dev_window *w,
					      struct oriel_dev_group g, uint32_t slot,
					      uint64_t timeout_ns)
{
	uint64_t *first = ori_dev_fast_arrival(w, g, slot), epoch;
	enum oriel_status status;
	bool was_pending;

	status = ori_dev_check_any(w, ORIEL_DEV_BARRIER, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	was_pending = ori_dev_is_pending(&w->slots[slot].epoch, timeout_ns, &epoch);
	if (ORIEL_DEV_OFTEN(!was_pending))
		status = ori_dev_enter(w, g, slot, first, timeout_ns, &epoch);
	return ori_dev_leave_at(w, g, slot, epoch, was_pending, status, timeout_ns);
}

/*
 * Whole group: arrive at the flat barrier of @slot: all ranks add to one line of each peer,
 * those that use a NIC to a word of its own. A slot for which it has returned ORIEL_ERR_NO_PATH
 * to some rank is of no more use: that arrival is missing from the sum for ever.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_flat_arrive(const struct oriel_dev_window *w,
							  struct oriel_dev_group g, uint32_t slot)
{
	enum oriel_status status;
	uint64_t epoch;

	status = ori_dev_check_any(w, ORIEL_DEV_BARRIER_FLAT, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_is_pending(&w->slots[slot].flat, 0, &epoch))
		return ori_dev_reject_arrival(w, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, slot);
	return ori_dev_enter_flat(w, g, slot, 0, epoch);
}

/*
 * Whole group: wait for as many arrivals as all ranks make in the rounds that this one has
 * made; few words, whatever the number of ranks. The promise is weaker than that of
 * oriel_dev_barrier(): a fast rank's next arrival may stand in for a slow rank's, whose puts to
 * this rank are then not yet visible. It bounds how far ranks run apart, no more.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_flat_wait(const struct oriel_dev_window *w,
							struct oriel_dev_group g, uint32_t slot,
							uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {
		NULL, 0, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, slot};
	enum oriel_status status;
	uint64_t epoch;

	status = ori_dev_check_any(w, ORIEL_DEV_BARRIER_FLAT, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	epoch = oriel_dev_load_relaxed(&w->slots[slot].flat);
	aim.word = ori_dev_mapped_flat(w, w->control, slot);
	aim.operand = (epoch & ~ORIEL_DEV_PENDING) * (w->ranks - 1);
	if (oriel_dev_is_leader(g))
		status = ori_dev_wait_flat(w, g, &aim, timeout_ns);
	return ori_dev_end_wait(g, &w->slots[slot].flat, epoch & ORIEL_DEV_PENDING, timeout_ns,
				ORIEL_OK, oriel_dev_vote(g, status));
}

/* Whole group: arrive, unless an arrival is pending, then wait. */
ORIEL_DEV enum oriel_status oriel_dev_barrier_flat(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t slot,
						   uint64_t timeout_ns)
{
	enum oriel_status status;
	uint64_t epoch;

	status = ori_dev_check_any(w, ORIEL_DEV_BARRIER_FLAT, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	if (ORIEL_DEV_OFTEN(!ori_dev_is_pending(&w->slots[slot].flat, timeout_ns, &epoch)))
		status = ori_dev_enter_flat(w, g, slot, timeout_ns, epoch);
	return status == ORIEL_OK ? oriel_dev_barrier_flat_wait(w, g, slot, timeout_ns) : status;
}

/*
 * Whole group: meet @peer alone at @slot, with the promise of oriel_dev_barrier() between the
 * two. It has words of its own, so it may be used beside the full barrier on the same slot. Not
 * with the rank itself. The call arrives, unless an arrival is pending, then waits.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_peer(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t peer,
						   uint32_t slot, uint64_t timeout_ns)
{
	enum oriel_status status;
	bool was_pending;
	uint64_t epoch;

	status = ori_dev_check_other(w, ORIEL_DEV_BARRIER_PEER, peer, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		was_pending = ori_dev_is_pending(&w->pair_epochs[(size_t)peer * w->barriers + slot],
						 timeout_ns, &epoch);
		if (ORIEL_DEV_OFTEN(!was_pending))
			status = ori_dev_enter_pair(w, peer, slot, timeout_ns, &epoch);
		if (status == ORIEL_OK)
			status = ori_dev_leave_pair(w, g, peer, slot, epoch, was_pending,
						    timeout_ns);
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: the first half of oriel_dev_barrier_peer(). Each arrival must be waited for
 * before the next, as in oriel_dev_barrier_arrive(). ORIEL_ERR_NO_PATH if @peer is not
 * connected: that is no arrival.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_peer_arrive(const struct oriel_dev_window *w,
							  struct oriel_dev_group g, uint32_t peer,
							  uint32_t slot)
{
	enum oriel_status status;
	uint64_t epoch;

	status = ori_dev_check_other(w, ORIEL_DEV_BARRIER_PEER, peer, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		if (ori_dev_is_pending(&w->pair_epochs[(size_t)peer * w->barriers + slot], 0,
				       &epoch))
			status = ori_dev_reject_arrival(w, ORIEL_DEV_BARRIER_PEER, peer, slot);
		else
			status = ori_dev_enter_pair(w, peer, slot, 0, &epoch);
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: wait until @peer has arrived for this rank at @slot as often as this rank for
 * it.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_peer_wait(const struct oriel_dev_window *w,
							struct oriel_dev_group g, uint32_t peer,
							uint32_t slot, uint64_t timeout_ns)
{
	enum oriel_status status;
	uint64_t epoch;

	status = ori_dev_check_other(w, ORIEL_DEV_BARRIER_PEER, peer, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	if (oriel_dev_is_leader(g)) {
		epoch = oriel_dev_load_relaxed(&w->pair_epochs[(size_t)peer * w->barriers + slot]);
		status = ori_dev_leave_pair(w, g, peer, slot, epoch & ~ORIEL_DEV_PENDING,
					    epoch & ORIEL_DEV_PENDING, timeout_ns);
	}
	return oriel_dev_vote(g, status);
}

#endif
