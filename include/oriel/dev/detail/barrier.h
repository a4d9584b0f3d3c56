/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrivals at barriers, their epochs, and the waits for them; dev/barrier.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_BARRIER_H
#define ORIEL_DEV_DETAIL_BARRIER_H

#include <oriel/dev/detail/rdma.h>
#include <oriel/dev/wait.h>

/*
 * Does a call with this limit read the epoch before it arrives? On a GPU an arrival
 * leaves without the epoch: a load ahead of it takes 10 % of a barrier, and only calls
 * with limits of their own, which may have to continue, pay for it.
 */
ORIEL_DEV bool ori_dev_reads_epoch(uint64_t timeout_ns)
{
#ifdef __CUDA_ARCH__
	return timeout_ns != 0;
#else
	(void)timeout_ns;
	return true;
#endif
}

/*
 * Arguments checked: is the arrival that *@word counts pending? *@epoch becomes the
 * count, where a call with this limit reads it now.
 */
ORIEL_DEV bool ori_dev_is_pending(const uint64_t *word, uint64_t timeout_ns, uint64_t *epoch)
{
	uint64_t seen;

	*epoch = 0;
	if (!ori_dev_reads_epoch(timeout_ns))
		return false;
	seen = oriel_dev_load_relaxed(word);
	*epoch = seen & ~ORIEL_DEV_PENDING;
	return !ORIEL_DEV_OFTEN(seen == *epoch);
}

/* The last arrival is pending. Nothing has been done yet. */
ORIEL_DEV enum oriel_status ori_dev_reject_arrival(const struct oriel_dev_window *w, uint32_t what,
						   uint32_t peer, uint32_t slot)
{
	struct oriel_dev_aim aim = {NULL, 0, ORIEL_EQ, what, peer, slot};

	return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_STATE, aim, 1);
}

/*
 * The last arrival was pending on a GPU, and peers have received one arrival too many. Later
 * barriers would end before puts are visible, so the communicator is broken.
 */
ORIEL_DEV enum oriel_status ori_dev_blame_arrival(const struct oriel_dev_window *w,
						  struct oriel_dev_group g, uint32_t what,
						  uint32_t peer, uint32_t slot)
{
	struct oriel_dev_aim aim = {NULL, 0, ORIEL_EQ, what, peer, slot};
	uint32_t zero = ori_dev_opaque_zero();

	if (oriel_dev_is_leader(g))
		ori_dev_report((struct oriel_dev_fault *)((uintptr_t)w->blame + zero),
			       w->number + zero, ORIEL_ERR_STATE, aim, 1, 0);
	return ORIEL_ERR_STATE;
}

/*
 * Whole group, after the vote that gave @status: *@word, the epoch, becomes pending or stops
 * being so. @arrival is the status with which this thread arrived. All threads have read *@word
 * before the vote, and the sync comes before they read it again.
 */
ORIEL_DEV enum oriel_status ori_dev_end_wait(struct oriel_dev_group g, uint64_t *word,
					     bool was_pending, uint64_t timeout_ns,
					     enum oriel_status arrival, enum oriel_status status)
{
	bool is_pending = was_pending && status != ORIEL_OK;

	if (!ORIEL_DEV_OFTEN(status != ORIEL_ERR_TIMEOUT) && timeout_ns) {
		/*
		 * A peer that got no arrival need not arrive itself: there is nothing to
		 * continue.
		 */
		arrival = oriel_dev_vote(g, arrival);
		if (arrival != ORIEL_OK)
			return arrival;
		is_pending = true;
	}
	if (ORIEL_DEV_OFTEN(is_pending == was_pending))
		return status;
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(word, oriel_dev_load_relaxed(word) ^ ORIEL_DEV_PENDING);
	oriel_dev_sync(g);
	return status;
}

/*
 * One thread, arguments checked: notify @peer that this rank has arrived once more than *@count
 * times.
 */
ORIEL_DEV enum oriel_status ori_dev_arrive_at(const struct oriel_dev_window *w, uint32_t peer,
					      uint64_t at, uint32_t slot, const uint64_t *count)
{
	struct oriel_dev_peer remote = ori_dev_peer_of(w, peer);
	uint64_t *word;
	int64_t ticket;

	switch (ori_dev_usable(remote.path)) {
	case ORIEL_PATH_MAPPED:
		word = ori_dev_mapped_arrival(w, remote.control, at, w->rank, slot);
		if (remote.flags & ORIEL_DEV_PEER_SERIAL &&
		    !ORIEL_DEV_OFTEN(!(*count & ORIEL_DEV_PENDING)))
			return ORIEL_ERR_STATE;
		ori_dev_release_begin_at(word);
		/*
		 * Acquired by the peer's wait. The word has one writer, so store and add mean
		 * the same.
		 */
#ifdef __CUDA_ARCH__
		/* The add leaves without the count, for which a store would wait. */
		if (!(remote.flags & ORIEL_DEV_PEER_SERIAL))
			ori_dev_release_add(word, 1);
		else
			ori_dev_release_store(word, *count + 1);
#else
		ori_dev_release_store(word, *count + 1);
#endif
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		if (!ORIEL_DEV_OFTEN(!(*count & ORIEL_DEV_PENDING)))
			return ORIEL_ERR_STATE;
		ori_dev_release_begin();
		at += (uint64_t)w->rank * w->barrier_stride + (uint64_t)slot * 8;
		ticket = ori_dev_link_write_flag(remote.link, oriel_dev_thread(),
						 ori_dev_rdma_control(w, peer, at), *count + 1);
		return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * The word at which this thread notifies the first of its peers, if that peer is its own and is
 * on the fast path; else NULL.
 */
ORIEL_DEV uint64_t *ori_dev_fast_arrival(const struct oriel_dev_window *w, struct oriel_dev_group g,
					 uint32_t slot)
{
#ifdef __CUDA_ARCH__
	uint32_t peer;
	uint64_t *word;

	/* Whole warps that notify no peer have nothing to load. */
	if (!ori_dev_awaits(w, g))
		return NULL;
	peer = ori_dev_first_peer(w, g);
	word = ori_dev_mapped_arrival(w, ori_dev_inline_of(w, peer)->control, w->arrivals_at,
				      w->rank, slot);
	return (1 + g.rank < w->ranks) & ori_dev_is_fast(w, peer) ? word : NULL;
#else
	(void)w;
	(void)g;
	(void)slot;
	return NULL;
#endif
}

/*
 * Whole group, arguments checked: arrive at @slot once more than *@epoch times, which then is
 * the epoch to wait for. Every thread loads the epoch, so that none waits for the leader to
 * share it; the leader stores the next one after all have. If a call with this limit has not
 * read the epoch, on a GPU, it reads it once the arrivals are on their way, the first of which
 * goes to @first: see ori_dev_fast_arrival().
 */
ORIEL_DEV enum oriel_status ori_dev_enter(const struct oriel_dev_window *w,
					  struct oriel_dev_group g, uint32_t slot, uint64_t *first,
					  uint64_t timeout_ns, uint64_t *epoch)
{
	enum oriel_status status = ORIEL_OK, arrival;
	uint64_t *word = &w->slots[slot].epoch;
#ifdef __CUDA_ARCH__
	const uint64_t *count = word;
#else
	const uint64_t before = *epoch, *count = &before;
#endif
	uint32_t i;

	/* The parts that all threads put come before any thread's arrival. */
	oriel_dev_sync(g);
	if (first) {
		ori_dev_release_begin();
		ori_dev_release_add(first, 1);
	}
	/* All peers that can be reached are notified: they may have links to each other. */
	ORIEL_DEV_ROLL
	for (i = 1 + g.rank + (first ? g.size : 0); i < w->ranks; i += g.size) {
		arrival =
			ori_dev_arrive_at(w, ori_dev_rank_after(w, i), w->arrivals_at, slot, count);
		if (arrival != ORIEL_OK && (status == ORIEL_OK || status == ORIEL_ERR_NO_PATH))
			status = arrival;
	}
#ifdef __CUDA_ARCH__
	if (!ori_dev_reads_epoch(timeout_ns)) {
		*epoch = oriel_dev_load_relaxed(word);
		if (!ORIEL_DEV_OFTEN(!(*epoch & ORIEL_DEV_PENDING)))
			status = ori_dev_blame_arrival(w, g, ORIEL_DEV_BARRIER, ORIEL_DEV_NO_RANK,
						       slot);
	}
	oriel_dev_sync(g);
#else
	(void)timeout_ns;
#endif
	++*epoch;
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(word, *epoch);
	return status;
}

#ifndef __CUDA_ARCH__
/* The wait of this thread for @epoch has expired: the text of its error names all absent ranks. */
ORIEL_DEV_RARE void ori_dev_name_absent(const struct oriel_dev_window *w, uint32_t slot,
					uint64_t epoch)
{
	uint32_t peer;
	uint64_t seen;

	for (peer = 0; peer < w->ranks; peer++) {
		seen = oriel_dev_load_relaxed(
			ori_dev_mapped_arrival(w, w->control, w->arrivals_at, peer, slot));
		if (peer != w->rank && !ori_dev_compare(seen, ORIEL_DEV_PASSED, epoch))
			oriel_cpu_absent(peer, w->ranks);
	}
}
#endif

/*
 * Whole group, arguments checked, each thread with the status of its own @arrival;
 * @was_pending: the arrival was in an earlier call.
 */
ORIEL_DEV enum oriel_status ori_dev_leave_at(const struct oriel_dev_window *w,
					     struct oriel_dev_group g, uint32_t slot,
					     uint64_t epoch, bool was_pending,
					     enum oriel_status arrival, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, epoch, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER, 0, slot};
	enum oriel_status status = arrival;
	uint64_t seen;
	uint32_t i;

	if (ori_dev_awaits(w, g) && ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
		aim.peer = ori_dev_first_peer(w, g);
		for (i = 1 + g.rank;; i += g.size) {
			aim.word = ori_dev_mapped_arrival(w, w->control, w->arrivals_at, aim.peer,
							  slot);
			status = ori_dev_poll_word(w, g, &aim, timeout_ns, &seen);
			if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
				ori_dev_acquire_each(aim.word);
			if (i + g.size >= w->ranks || status != ORIEL_OK)
				break;
			aim.peer = ori_dev_rank_after(w, i + g.size);
		}
		ori_dev_acquire_all();
#ifndef __CUDA_ARCH__
		if (!ORIEL_DEV_OFTEN(status != ORIEL_ERR_TIMEOUT))
			ori_dev_name_absent(w, slot, epoch);
#endif
	}
	return ori_dev_end_wait(g, &w->slots[slot].epoch, was_pending, timeout_ns, arrival,
				oriel_dev_vote(g, status));
}

/*
 * One thread: count this rank in its own word of the flat barrier @flat of @peer, @flags: there are
 * only so many such words.
 */
ORIEL_DEV enum oriel_status ori_dev_arrive_serially(const struct oriel_dev_window *w, uint32_t peer,
						    uint64_t *flat, uint32_t flags)
{
	uint32_t index = flags >> ORIEL_DEV_PEER_FLAT_SHIFT;

	if (index >= ORIEL_DEV_SERIAL_FLATS)
		return ORIEL_ERR_NO_PATH;
	ori_dev_mapped_serial_add(w, peer, ori_dev_mapped_serial_flat(flat, index),
				  ORIEL_SIGNAL_ADD, 1, false);
	return ORIEL_OK;
}

/* One thread, arguments checked: count this rank at @peer. */
ORIEL_DEV enum oriel_status ori_dev_arrive_flat(const struct oriel_dev_window *w, uint32_t peer,
						uint32_t slot)
{
	struct oriel_dev_peer remote = ori_dev_peer_of(w, peer);
	uint64_t *word;
	int64_t ticket;

	switch (ori_dev_usable(remote.path)) {
	case ORIEL_PATH_MAPPED:
		word = ori_dev_mapped_flat(w, remote.control, slot);
		if (remote.flags & ORIEL_DEV_PEER_SERIAL)
			return ori_dev_arrive_serially(w, peer, word, remote.flags);
		ori_dev_release_begin_at(word);
		ori_dev_release_add(word, 1);
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		ori_dev_release_begin();
		ticket = ori_dev_link_signal(remote.link, oriel_dev_thread(),
					     ori_dev_rdma_flat(w, peer, slot), 1);
		return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * Whole group, arguments checked: arrive at the flat barrier of @slot once more than
 * @epoch times. As ori_dev_enter().
 */
ORIEL_DEV enum oriel_status ori_dev_enter_flat(const struct oriel_dev_window *w,
					       struct oriel_dev_group g, uint32_t slot,
					       uint64_t timeout_ns, uint64_t epoch)
{
	uint64_t *word = &w->slots[slot].flat;
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	oriel_dev_sync(g);
	for (i = 1 + g.rank; i < w->ranks && status == ORIEL_OK; i += g.size)
		status = ori_dev_arrive_flat(w, ori_dev_rank_after(w, i), slot);
	if (oriel_dev_is_leader(g)) {
		if (!ori_dev_reads_epoch(timeout_ns))
			epoch = oriel_dev_load_relaxed(word);
		if (!ORIEL_DEV_OFTEN(!(epoch & ORIEL_DEV_PENDING)))
			status = ori_dev_blame_arrival(w, g, ORIEL_DEV_BARRIER_FLAT,
						       ORIEL_DEV_NO_RANK, slot);
		oriel_dev_store_relaxed(word, epoch + 1);
	}
	return oriel_dev_vote(g, status);
}

/* Words of a flat barrier that serial peers may count in. */
ORIEL_DEV uint32_t ori_dev_serial_flats(const struct oriel_dev_window *w)
{
	return w->inline_wide & ORIEL_DEV_HAS_SERIAL ? ORIEL_DEV_SERIAL_FLATS : 0;
}

/*
 * Sum of the words of a flat barrier: the one of mapped peers, one of each rail, and one of each
 * serial peer.
 */
ORIEL_DEV uint64_t ori_dev_sum_flat(const struct oriel_dev_window *w, uint64_t *word)
{
	uint64_t sum = oriel_dev_load_relaxed(word);
	uint32_t rail, i;

	for (rail = 0; rail < w->rails; rail++)
		sum += oriel_dev_load_relaxed(word + ORIEL_MAPPED_FLAT_NIC + rail);
	for (i = 0; i < ori_dev_serial_flats(w); i++)
		sum += oriel_dev_load_relaxed(ori_dev_mapped_serial_flat(word, i));
	return sum;
}

/* One thread, the leader: wait for the sum of a flat barrier. */
ORIEL_DEV enum oriel_status ori_dev_wait_flat(const struct oriel_dev_window *w,
					      struct oriel_dev_group g,
					      const struct oriel_dev_aim *aim, uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, g, timeout_ns);
	uint64_t *flat = ori_dev_mapped_flat(w, w->control, aim->id);
	enum oriel_status status;
	uint64_t sum;
	uint32_t rail, i;

	for (;;) {
		sum = ori_dev_sum_flat(w, flat);
		if (ori_dev_compare(sum, aim->compare, aim->operand))
			break;
		status = ori_dev_wait_step(&waiter, aim, sum);
		if (status != ORIEL_AGAIN)
			return status;
	}
	(void)ori_dev_acquire(aim->word, sum);
	for (rail = 0; rail < w->rails; rail++)
		(void)ori_dev_acquire(aim->word + ORIEL_MAPPED_FLAT_NIC + rail, sum);
	for (i = 0; i < ori_dev_serial_flats(w); i++)
		(void)ori_dev_acquire(ori_dev_mapped_serial_flat(flat, i), sum);
	return ORIEL_OK;
}

/*
 * One thread, the leader of its group, arguments checked: arrive at the pairwise barrier
 * of @slot once more than *@epoch times. As ori_dev_enter().
 */
ORIEL_DEV enum oriel_status ori_dev_enter_pair(const struct oriel_dev_window *w, uint32_t peer,
					       uint32_t slot, uint64_t timeout_ns, uint64_t *epoch)
{
	uint64_t *word = &w->pair_epochs[(size_t)peer * w->barriers + slot];
#ifdef __CUDA_ARCH__
	const uint64_t *count = word;
#else
	const uint64_t before = *epoch, *count = &before;
#endif
	enum oriel_status status = ori_dev_arrive_at(w, peer, w->pairs_at, slot, count);

	if (!ori_dev_reads_epoch(timeout_ns)) {
		*epoch = oriel_dev_load_relaxed(word);
		if (!ORIEL_DEV_OFTEN(!(*epoch & ORIEL_DEV_PENDING)))
			return ori_dev_blame_arrival(w, oriel_dev_thread(), ORIEL_DEV_BARRIER_PEER,
						     peer, slot);
	}
	++*epoch;
	/* A peer that could not be notified is not waited for, now or later. */
	if (status == ORIEL_OK)
		oriel_dev_store_relaxed(word, *epoch);
	return status;
}

/* One thread, the leader of @g, arguments checked: wait for @peer. As ori_dev_leave_at(). */
ORIEL_DEV enum oriel_status ori_dev_leave_pair(const struct oriel_dev_window *w,
					       struct oriel_dev_group g, uint32_t peer,
					       uint32_t slot, uint64_t epoch, bool was_pending,
					       uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, epoch, ORIEL_DEV_PASSED, ORIEL_DEV_BARRIER_PEER,
				    peer, slot};

	aim.word = ori_dev_mapped_arrival(w, w->control, w->pairs_at, peer, slot);
	/* No other thread reads that epoch. */
	return ori_dev_end_wait(oriel_dev_thread(),
				&w->pair_epochs[(size_t)peer * w->barriers + slot], was_pending,
				timeout_ns, ORIEL_OK, oriel_dev_wait_word(w, g, &aim, timeout_ns));
}

#endif
