/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers: one arrival word per source rank, written on the same path as its
 * puts. See oriel/dev.h for what holds for all device functions.
 */
#ifndef ORIEL_DEV_BARRIER_H
#define ORIEL_DEV_BARRIER_H

#include <oriel/dev/check.h>
#include <oriel/dev/rdma.h>

/*
 * One thread, arguments checked: tell @peer that this rank has come once more
 * than *@count times.
 */
ORIEL_DEV enum oriel_status oriel_dev_arrive_at(const struct oriel_dev_window *w, uint32_t peer,
						uint64_t at, uint32_t slot, const uint64_t *count)
{
	struct oriel_dev_peer there = oriel_dev_peer_of(w, peer);
	uint64_t *word;
	int64_t ticket;

	switch (oriel_dev_usable(there.path)) {
	case ORIEL_PATH_MAPPED:
		word = oriel_mapped_arrival(w, there.control, at, w->rank, slot);
		oriel_dev_release_begin_at(word);
		/* Acquired by the peer's wait. One writer, so that both mean the same. */
#ifdef __CUDA_ARCH__
		/* Leaves without the count, for which it would wait. */
		oriel_dev_release_add(word, 1);
#else
		oriel_dev_release_store(word, *count + 1);
#endif
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		oriel_dev_release_begin();
		at += (uint64_t)w->rank * w->barrier_stride + (uint64_t)slot * 8;
		ticket = oriel_link_tell_value(there.link, oriel_dev_thread(),
					       oriel_rdma_control(w, peer, at), *count + 1);
		return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * Where this thread tells the first of its peers, if that peer is its own and lies
 * at hand; else NULL.
 */
ORIEL_DEV uint64_t *oriel_dev_near_arrival(const struct oriel_dev_window *w,
					   struct oriel_dev_group g, uint32_t slot)
{
#ifdef __CUDA_ARCH__
	uint32_t peer;
	uint64_t *word;

	/* Whole warps that tell nobody have nothing to look at. */
	if (!oriel_dev_awaits(w, g))
		return NULL;
	peer = oriel_dev_first_peer(w, g);
	word = oriel_mapped_arrival(w, oriel_dev_near_of(w, peer)->control, w->arrivals_at, w->rank,
				    slot);
	return (1 + g.rank < w->ranks) & oriel_dev_is_at_hand(w, peer) ? word : NULL;
#else
	(void)w;
	(void)g;
	(void)slot;
	return NULL;
#endif
}

/*
 * Whole group, arguments checked: arrive at @slot for the *@epoch-th time. Every
 * thread loads the epoch, so that none waits for the leader to share it; the
 * leader stores the next one after all have. A GPU asks for it once the arrivals
 * are on their way, the first of which is to @near: see oriel_dev_near_arrival().
 */
ORIEL_DEV enum oriel_status oriel_dev_enter(const struct oriel_dev_window *w,
					    struct oriel_dev_group g, uint32_t slot, uint64_t *near,
					    uint64_t *epoch)
{
	enum oriel_status status = ORIEL_OK, told;
#ifdef __CUDA_ARCH__
	const uint64_t *count = &w->slots[slot].epoch;
#else
	uint64_t before = oriel_dev_load_relaxed(&w->slots[slot].epoch), *count = &before;
#endif
	uint32_t i;

	/* The parts that all threads put come before any thread's arrival. */
	oriel_dev_sync(g);
	if (near) {
		oriel_dev_release_begin();
		oriel_dev_release_add(near, 1);
	}
	/* All are told that can be: they may have links to each other. */
	ORIEL_DEV_ROLL
	for (i = 1 + g.rank + (near ? g.size : 0); i < w->ranks; i += g.size) {
		told = oriel_dev_arrive_at(w, oriel_dev_rank_after(w, i), w->arrivals_at, slot,
					   count);
		if (told != ORIEL_OK && (status == ORIEL_OK || status == ORIEL_ERR_NO_PATH))
			status = told;
	}
#ifdef __CUDA_ARCH__
	*epoch = oriel_dev_load_relaxed(count) + 1;
	oriel_dev_sync(g);
#else
	*epoch = before + 1;
#endif
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(&w->slots[slot].epoch, *epoch);
	return status;
}

/* Whole group, arguments checked, each thread with what it knows already. */
ORIEL_DEV enum oriel_status oriel_dev_leave_at(const struct oriel_dev_window *w,
					       struct oriel_dev_group g, uint32_t slot,
					       uint64_t epoch, enum oriel_status status,
					       uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, epoch, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER, 0, slot};
	uint64_t seen;
	uint32_t i;

	if (oriel_dev_awaits(w, g) && ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
		aim.peer = oriel_dev_first_peer(w, g);
		for (i = 1 + g.rank;; i += g.size) {
			aim.word =
				oriel_mapped_arrival(w, w->control, w->arrivals_at, aim.peer, slot);
			status = oriel_dev_poll_word(w, g, &aim, timeout_ns, &seen);
			if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
				oriel_dev_acquire_each(aim.word);
			if (i + g.size >= w->ranks || status != ORIEL_OK)
				break;
			aim.peer = oriel_dev_rank_after(w, i + g.size);
		}
		oriel_dev_acquire_all();
	}
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: arrive at barrier @slot. The group's puts to all ranks are
 * announced with it. Each arrival must be waited for before the next.
 * ORIEL_ERR_NO_PATH where a peer is not connected: all others have been told,
 * so that they need not wait, and it counts as an arrival.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_arrive(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint32_t slot)
{
	uint64_t *near = oriel_dev_near_arrival(w, g, slot), epoch;
	enum oriel_status status;

	status = oriel_dev_check_any(w, ORIEL_DEV_BARRIER, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_vote(g, oriel_dev_enter(w, g, slot, near, &epoch));
}

/*
 * Whole group: wait until every rank has come to @slot as often as this one.
 * Afterwards everything that any rank put here before its arrival is visible.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_wait(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t slot,
						   uint64_t timeout_ns)
{
	enum oriel_status status;

	status = oriel_dev_check_any(w, ORIEL_DEV_BARRIER, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_leave_at(w, g, slot, oriel_dev_load_relaxed(&w->slots[slot].epoch),
				  ORIEL_OK, timeout_ns);
}

/*
 * Whole group: arrive, then wait. @timeout_ns holds for each rank waited for;
 * once it has passed go on with oriel_dev_barrier_wait(), for this would arrive
 * a second time.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier(const struct oriel_dev_window *w,
					      struct oriel_dev_group g, uint32_t slot,
					      uint64_t timeout_ns)
{
	uint64_t *near = oriel_dev_near_arrival(w, g, slot), epoch;
	enum oriel_status status;

	status = oriel_dev_check_any(w, ORIEL_DEV_BARRIER, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	status = oriel_dev_enter(w, g, slot, near, &epoch);
	return oriel_dev_leave_at(w, g, slot, epoch, status, timeout_ns);
}

/* One thread, arguments checked: count this rank at @peer. */
ORIEL_DEV enum oriel_status oriel_dev_arrive_flat(const struct oriel_dev_window *w, uint32_t peer,
						  uint32_t slot)
{
	struct oriel_dev_peer there = oriel_dev_peer_of(w, peer);
	uint64_t *word;
	int64_t ticket;

	switch (oriel_dev_usable(there.path)) {
	case ORIEL_PATH_MAPPED:
		word = oriel_mapped_flat(w, there.control, slot);
		oriel_dev_release_begin_at(word);
		oriel_dev_release_add(word, 1);
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		oriel_dev_release_begin();
		ticket = oriel_link_signal(there.link, oriel_dev_thread(),
					   oriel_rdma_flat(w, peer, slot), 1);
		return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * Whole group: arrive at the flat barrier of @slot: all ranks add to one line
 * of each peer, those that come through a NIC to a word of its own. A slot
 * where it has returned ORIEL_ERR_NO_PATH to some rank is of no more use: that
 * arrival is missing from the sum for ever.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_flat_arrive(const struct oriel_dev_window *w,
							  struct oriel_dev_group g, uint32_t slot)
{
	enum oriel_status status;
	uint32_t i;

	status = oriel_dev_check_any(w, ORIEL_DEV_BARRIER_FLAT, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	for (i = 1 + g.rank; i < w->ranks && status == ORIEL_OK; i += g.size)
		status = oriel_dev_arrive_flat(w, oriel_dev_rank_after(w, i), slot);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(&w->slots[slot].flat,
					oriel_dev_load_relaxed(&w->slots[slot].flat) + 1);
	return oriel_dev_vote(g, status);
}

/* The words of a flat barrier: of mapped peers, and of each rail. */
ORIEL_DEV uint64_t oriel_dev_sum_flat(const struct oriel_dev_window *w, const uint64_t *word)
{
	uint64_t sum = oriel_dev_load_relaxed(word);
	uint32_t rail;

	for (rail = 0; rail < w->rails; rail++)
		sum += oriel_dev_load_relaxed(word + ORIEL_MAPPED_FLAT_NIC + rail);
	return sum;
}

/* One thread, the leader: wait for the sum of a flat barrier. */
ORIEL_DEV enum oriel_status oriel_dev_wait_flat(const struct oriel_dev_window *w,
						struct oriel_dev_group g,
						const struct oriel_dev_aim *aim,
						uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = oriel_dev_wait_begin(w, g, timeout_ns);
	enum oriel_status status;
	uint64_t sum;
	uint32_t rail;

	for (;;) {
		sum = oriel_dev_sum_flat(w, aim->word);
		if (oriel_dev_compare(sum, aim->compare, aim->operand))
			break;
		status = oriel_dev_wait_step(&waiter, aim, sum);
		if (status != ORIEL_AGAIN)
			return status;
	}
	(void)oriel_dev_acquire(aim->word, sum);
	for (rail = 0; rail < w->rails; rail++)
		(void)oriel_dev_acquire(aim->word + ORIEL_MAPPED_FLAT_NIC + rail, sum);
	return ORIEL_OK;
}

/*
 * Whole group: wait for as many arrivals as all ranks make in the rounds that
 * this one has made; few words, whatever the number of ranks. A weaker promise
 * than oriel_dev_barrier(): a fast rank's next arrival may stand in for a slow
 * rank's, whose puts here are then not yet visible. It bounds how far ranks run
 * apart, no more.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_flat_wait(const struct oriel_dev_window *w,
							struct oriel_dev_group g, uint32_t slot,
							uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {
		NULL, 0, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, slot};
	enum oriel_status status;

	status = oriel_dev_check_any(w, ORIEL_DEV_BARRIER_FLAT, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	aim.word = oriel_mapped_flat(w, w->control, slot);
	aim.operand = oriel_dev_load_relaxed(&w->slots[slot].flat) * (w->ranks - 1);
	if (oriel_dev_is_leader(g))
		status = oriel_dev_wait_flat(w, g, &aim, timeout_ns);
	return oriel_dev_vote(g, status);
}

ORIEL_DEV enum oriel_status oriel_dev_barrier_flat(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t slot,
						   uint64_t timeout_ns)
{
	enum oriel_status status = oriel_dev_barrier_flat_arrive(w, g, slot);

	return status == ORIEL_OK ? oriel_dev_barrier_flat_wait(w, g, slot, timeout_ns) : status;
}

/*
 * Whole group: meet @peer alone at @slot, with the promise of
 * oriel_dev_barrier() between the two. Its words are its own: it may be used
 * beside the full barrier on the same slot. Not with the rank itself.
 */
ORIEL_DEV enum oriel_status oriel_dev_barrier_peer(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t peer,
						   uint32_t slot, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, 0, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER_PEER, peer, slot};
	enum oriel_status status;
	uint64_t *epoch;

	status = oriel_dev_check_other(w, ORIEL_DEV_BARRIER_PEER, peer, slot, w->barriers);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		epoch = &w->pair_epochs[(size_t)peer * w->barriers + slot];
		aim.word = oriel_mapped_arrival(w, w->control, w->pairs_at, peer, slot);
		status = oriel_dev_arrive_at(w, peer, w->pairs_at, slot, epoch);
		aim.operand = oriel_dev_load_relaxed(epoch) + 1;
		/* Who could not be told is not waited for, now or later. */
		if (status == ORIEL_OK) {
			oriel_dev_store_relaxed(epoch, aim.operand);
			status = oriel_dev_wait_word(w, g, &aim, timeout_ns);
		}
	}
	return oriel_dev_vote(g, status);
}

#endif
