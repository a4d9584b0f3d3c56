/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of device functions: every function of oriel/dev.h checks them here before it does
 * anything. A rejected argument leaves a record in the window's fault.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_CHECK_H
#define ORIEL_DEV_DETAIL_CHECK_H

#include <oriel/dev/detail/wait.h>

/*
 * Has this translation unit the code for @path? A constant: it leaves out code of which
 * compilers do not see that ori_dev_usable() leaves it out.
 */
#define ORIEL_DEV_HAS(path) (ORIEL_DEV_PATHS >> (path)&1)

/* The rank that follows this one by @count, which is less than the number of ranks. */
ORIEL_DEV uint32_t ori_dev_rank_after(const struct oriel_dev_window *w, uint32_t count)
{
	uint32_t rank = w->rank + count;

	return rank < w->ranks ? rank : rank - w->ranks;
}

/*
 * The first of the peers that this thread of the group notifies and waits for. Threads of a GPU
 * that have none of their own take one of another thread's: a warp that polls as one does not
 * diverge.
 */
ORIEL_DEV uint32_t ori_dev_first_peer(const struct oriel_dev_window *w, struct oriel_dev_group g)
{
	return ori_dev_rank_after(w, 1 + g.rank < w->ranks ? 1 + g.rank : 1);
}

/* Does this thread wait for any peer? */
ORIEL_DEV bool ori_dev_awaits(const struct oriel_dev_window *w, struct oriel_dev_group g)
{
	return 1 + g.rank < w->ranks || (ori_dev_is_poller(g) && w->ranks > 1);
}

/* Says that nothing is posted, or not yet; @ticket may be NULL. */
ORIEL_DEV void ori_dev_ticket_clear(struct oriel_dev_ticket *ticket)
{
	const struct oriel_dev_ticket none = {0, 0, 0};

	if (ticket)
		*ticket = none;
}

/* @path, as far as this translation unit can use it. */
ORIEL_DEV uint32_t ori_dev_usable(uint32_t path)
{
	if ((ORIEL_DEV_HAS(ORIEL_PATH_SELF) && path == ORIEL_PATH_SELF) ||
	    (ORIEL_DEV_HAS(ORIEL_PATH_MAPPED) && path == ORIEL_PATH_MAPPED) ||
	    (ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && path == ORIEL_PATH_RDMA))
		return path;
	return ORIEL_PATH_NONE;
}

/*
 * The handle's entry of @peer, which may be any number; it may be the entry of another rank. It
 * is found by the number alone, and the entry says whether it is of @peer and the handle
 * compatible: each constant that a GPU loads before it acts takes 5 ns, and each that it waits
 * for 20.
 */
ORIEL_DEV const struct oriel_dev_inline_peer *ori_dev_inline_of(const struct oriel_dev_window *w,
								uint32_t peer)
{
	return &w->inline_peers[peer % ORIEL_DEV_INLINE_PEERS];
}

/*
 * Does a GPU find its entry of @peer, which may be any number, in the handle itself? A CPU has
 * the tables in its caches.
 */
ORIEL_DEV bool ori_dev_is_inline(const struct oriel_dev_window *w, uint32_t peer)
{
#ifdef __CUDA_ARCH__
	const struct oriel_dev_inline_peer *entry = ori_dev_inline_of(w, peer);

	/* One branch, where && would make two. */
	return (entry->mark - ORIEL_DEV_MARK < 256u) & (entry->rank == peer);
#else
	(void)w;
	(void)peer;
	return false;
#endif
}

/*
 * Is @peer, which may be any number, this rank or a mapped one, and does the handle itself,
 * which is compatible, describe it? No branch.
 */
ORIEL_DEV bool ori_dev_is_fast(const struct oriel_dev_window *w, uint32_t peer)
{
#ifdef __CUDA_ARCH__
	const struct oriel_dev_inline_peer *entry = ori_dev_inline_of(w, peer);

	if (!ORIEL_DEV_HAS(ORIEL_PATH_SELF) || !ORIEL_DEV_HAS(ORIEL_PATH_MAPPED))
		return false;
	return (entry->mark - ORIEL_DEV_MARK - ORIEL_PATH_SELF <= 1u) & (entry->rank == peer);
#else
	(void)w;
	(void)peer;
	return false;
#endif
}

/*
 * An entry of a table, which does not change while a kernel runs. A GPU loads all of it at once
 * and past the caches that an acquire empties; so does the next function.
 */
ORIEL_DEV struct oriel_dev_peer ori_dev_table_peer(const struct oriel_dev_window *w, uint32_t peer)
{
#ifdef __CUDA_ARCH__
	struct oriel_dev_peer copy = {NULL, ORIEL_PATH_NONE, 0, NULL, {{0}}};
	uint64_t control;

	asm volatile("ld.global.nc.u64 %0, [%3];\n\t"
		     "ld.global.nc.v2.u32 {%1, %2}, [%3 + 8];"
		     : "=l"(control), "=r"(copy.path), "=r"(copy.flags)
		     : "l"(&w->peers[peer]));
	copy.control = (char *)control;
	if (ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && copy.path == ORIEL_PATH_RDMA)
		copy.link = w->peers[peer].link;
	return copy;
#else
	return w->peers[peer];
#endif
}

ORIEL_DEV struct oriel_dev_buffer ori_dev_table_buffer(const struct oriel_dev_window *w,
						       uint32_t peer, uint64_t buffer)
{
	const struct oriel_dev_buffer *entry = &w->table[buffer * w->ranks + peer];
#ifdef __CUDA_ARCH__
	struct oriel_dev_buffer copy = {NULL, 0, 0, {{0}}};
	uint64_t base;

	asm volatile("ld.global.nc.u64 %0, [%2];\n\t"
		     "ld.global.nc.u64 %1, [%2 + 8];"
		     : "=l"(base), "=l"(copy.length)
		     : "l"(entry));
	copy.base = (char *)base;
	return copy;
#else
	return *entry;
#endif
}

/* The next two: @peer exists. Its link is set if its path is rdma. */
ORIEL_DEV struct oriel_dev_peer ori_dev_inline_copy(const struct oriel_dev_window *w, uint32_t peer)
{
	const struct oriel_dev_inline_peer *entry = ori_dev_inline_of(w, peer);
	struct oriel_dev_peer copy = {entry->control, entry->mark - ORIEL_DEV_MARK, 0, NULL, {{0}}};

	if (ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && copy.path == ORIEL_PATH_RDMA)
		copy.link = w->peers[peer].link;
	return copy;
}

ORIEL_DEV struct oriel_dev_peer ori_dev_peer_of(const struct oriel_dev_window *w, uint32_t peer)
{
	return ori_dev_is_inline(w, peer) ? ori_dev_inline_copy(w, peer)
					  : ori_dev_table_peer(w, peer);
}

/* Is @peer behind a NIC, and is there code for that? */
ORIEL_DEV bool ori_dev_is_rdma(const struct oriel_dev_window *w, uint32_t peer)
{
	return ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && ori_dev_peer_of(w, peer).path == ORIEL_PATH_RDMA;
}

/*
 * The fields of a window that the rejecting functions need, by value: a kernel whose window had
 * to be in memory for their sake would always read it from there.
 */
struct oriel_dev_reporter {
	struct oriel_dev_fault *fault;
	uint32_t number;
	uint32_t ranks;
#ifndef __CUDA_ARCH__
	const struct oriel_dev_window *window;
#endif
};

/*
 * Zero, which the compiler does not know before this runs. The arguments of a rejection are
 * made with it, for the compiler of GPUs fetches constants for a call ahead of the branches
 * that lead to the call: 32 warps that fetch seven for a call that is not made take 0.1 to 0.4
 * us (oriel_rows, put_signal and put_ll128 by 1024 threads).
 */
ORIEL_DEV uint32_t ori_dev_opaque_zero(void)
{
#ifdef __CUDA_ARCH__
	uint64_t cycles;

	/* Not volatile: a check inside of a loop may be moved ahead of the loop. */
	asm("mov.u64 %0, %%clock64;" : "=l"(cycles));
	return (uint32_t)(cycles >> 63);
#else
	return 0;
#endif
}

ORIEL_DEV struct oriel_dev_reporter ori_dev_reporter_of(const struct oriel_dev_window *w)
{
	uint32_t zero = ori_dev_opaque_zero();
	struct oriel_dev_reporter reporter = {
		(struct oriel_dev_fault *)((uintptr_t)w->fault + zero),
		w->number + zero,
		w->ranks + zero,
#ifndef __CUDA_ARCH__
		w,
#endif
	};

	return reporter;
}

/*
 * An argument is invalid: @seen is beyond aim.operand. One thread. The communicator stays
 * usable.
 */
ORIEL_DEV enum oriel_status ori_dev_reject(struct oriel_dev_reporter reporter,
					   enum oriel_status status, struct oriel_dev_aim aim,
					   uint64_t seen)
{
#ifndef __CUDA_ARCH__
	struct oriel_dev_fault record = ori_dev_fault_make(reporter.number, status, &aim, seen, 0);

	oriel_cpu_reject(reporter.window, &record);
#endif
	ori_dev_report(reporter.fault, reporter.number, status, aim, seen, 0);
	return status;
}

/* A handle that is not compatible gives no address at which to leave a record. */
ORIEL_DEV_COLD enum oriel_status ori_dev_reject_id(struct oriel_dev_reporter reporter,
						   bool is_compatible, uint32_t what, uint32_t peer,
						   uint32_t id, uint32_t limit)
{
	struct oriel_dev_aim aim = {NULL, limit, ORIEL_LT, what, peer, id};

	if (!is_compatible)
		return ORIEL_ERR_VERSION;
	if (id < limit) {
		aim.operand = reporter.ranks;
		return ori_dev_reject(reporter, ORIEL_ERR_RANGE, aim, peer);
	}
	return ori_dev_reject(reporter, ORIEL_ERR_RANGE, aim, id);
}

/* Is there a @peer, and an @id below @limit? */
ORIEL_DEV enum oriel_status ori_dev_check_id(const struct oriel_dev_window *w, uint32_t what,
					     uint32_t peer, uint32_t id, uint32_t limit)
{
	bool is_compatible = oriel_dev_is_compatible(w), is_peer = peer < w->ranks;
	uint32_t zero;

	/* One branch, where && would make three. */
	if (ORIEL_DEV_OFTEN(is_compatible & is_peer & (id < limit)))
		return ORIEL_OK;
	zero = ori_dev_opaque_zero();
	return ori_dev_reject_id(ori_dev_reporter_of(w), is_compatible, what, peer + zero, id,
				 limit + zero);
}

/* The same where no single peer is meant. */
ORIEL_DEV enum oriel_status ori_dev_check_any(const struct oriel_dev_window *w, uint32_t what,
					      uint32_t id, uint32_t limit)
{
	bool is_compatible = oriel_dev_is_compatible(w);

	if (ORIEL_DEV_OFTEN(is_compatible & (id < limit)))
		return ORIEL_OK;
	return ori_dev_reject_id(ori_dev_reporter_of(w), is_compatible, what, ORIEL_DEV_NO_RANK, id,
				 limit + ori_dev_opaque_zero());
}

/* The same where the rank itself would wait for itself. */
ORIEL_DEV enum oriel_status ori_dev_check_other(const struct oriel_dev_window *w, uint32_t what,
						uint32_t peer, uint32_t id, uint32_t limit)
{
	enum oriel_status status = ori_dev_check_id(w, what, peer, id, limit);
	struct oriel_dev_aim aim = {NULL, w->rank, ORIEL_NE, what, peer, id};

	if (status == ORIEL_OK && peer == w->rank)
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_INVALID, aim, peer);
	return status;
}

/* The window has no @ticket; its peer has issued @issued of them. */
ORIEL_DEV_COLD enum oriel_status ori_dev_reject_ticket(struct oriel_dev_reporter reporter,
						       struct oriel_dev_ticket ticket,
						       uint64_t issued)
{
	struct oriel_dev_aim aim = {NULL,        issued,       ORIEL_LE, ORIEL_DEV_WAIT_LOCAL,
				    ticket.peer, ticket.window};

	return ori_dev_reject(reporter, ORIEL_ERR_INVALID, aim, ticket.index);
}

/* Is @choice, a comparison or an operation, one of those up to @last? */
ORIEL_DEV enum oriel_status ori_dev_check_choice(const struct oriel_dev_window *w, uint32_t what,
						 uint32_t choice, uint32_t last)
{
	struct oriel_dev_aim aim = {NULL, last, ORIEL_LE, what, ORIEL_DEV_NO_RANK, 0};

	if (ORIEL_DEV_OFTEN(choice <= last))
		return ORIEL_OK;
	return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_INVALID, aim, choice);
}

/* @table: of the window, with @buffers entries for each rank. */
ORIEL_DEV_COLD enum oriel_status ori_dev_reject_range(struct oriel_dev_reporter reporter,
						      const struct oriel_dev_buffer *table,
						      uint32_t buffers, uint32_t what,
						      uint32_t peer, uint64_t at, uint64_t length)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	struct oriel_dev_aim aim = {NULL, reporter.ranks, ORIEL_LT, what, peer, (uint32_t)buffer};

	if (peer >= reporter.ranks)
		return ori_dev_reject(reporter, ORIEL_ERR_RANGE, aim, peer);
	if (buffer >= buffers) {
		aim.operand = buffers;
		return ori_dev_reject(reporter, ORIEL_ERR_RANGE, aim, at);
	}
	table += buffer * reporter.ranks + peer;
	aim.operand = table->length;
	if (buffer && !table->base)
		return ori_dev_reject(reporter, ORIEL_ERR_STATE, aim, offset);
	/* The end of the range; all ones if the sum wraps. */
	return ori_dev_reject(reporter, ORIEL_ERR_RANGE, aim,
			      offset + length < length ? UINT64_MAX : offset + length);
}

/* The target of an operation on a peer. */
struct oriel_dev_target {
	struct oriel_dev_peer peer;
	char *base; /* the first byte, if it is mapped */
};

/* The target is the byte @at of a peer on the fast path. */
ORIEL_DEV void ori_dev_aim_at(const struct oriel_dev_inline_peer *entry, uint64_t at,
			      struct oriel_dev_target *target)
{
	target->peer.control = entry->control;
	target->peer.path = entry->mark - ORIEL_DEV_MARK;
	target->peer.flags = 0;
	target->peer.link = NULL;
	target->base = entry->base + at;
}

/*
 * The fast path of an operation on @length bytes at @at: @peer is inline and the bytes exist.
 * All loads are issued at once and there is no branch, since a GPU waits for both. Otherwise
 * the caller takes the slow path, which handles all peers and reports an invalid argument.
 */
ORIEL_DEV bool ori_dev_fast_range(const struct oriel_dev_window *w, uint32_t peer, uint64_t at,
				  uint64_t length, struct oriel_dev_target *target)
{
#ifdef __CUDA_ARCH__
	const struct oriel_dev_inline_peer *entry = ori_dev_inline_of(w, peer);
	bool is_there = (length <= entry->length) & (at <= entry->length - length);

	ori_dev_aim_at(entry, at, target);
	return ori_dev_is_fast(w, peer) & is_there;
#else
	(void)w;
	(void)peer;
	(void)at;
	(void)length;
	(void)target;
	return false;
#endif
}

/* The same of one 8-byte word, which must be aligned. */
ORIEL_DEV bool ori_dev_fast_word(const struct oriel_dev_window *w, uint32_t peer, uint64_t at,
				 struct oriel_dev_target *target)
{
#ifdef __CUDA_ARCH__
	const struct oriel_dev_inline_peer *entry = ori_dev_inline_of(w, peer);

	ori_dev_aim_at(entry, at, target);
	/* The last byte of an aligned word is compared: that needs no sum, which could wrap. */
	return ori_dev_is_fast(w, peer) & ((at | 7) < entry->length) &
	       !(((uintptr_t)target->base | at) & 7);
#else
	return ori_dev_fast_range(w, peer, at, 8, target);
#endif
}

/* The same of one word of 4 bytes, for an atomic; see ori_dev_check_word32(). */
ORIEL_DEV bool ori_dev_fast_word32(const struct oriel_dev_window *w, uint32_t peer, uint64_t at,
				   struct oriel_dev_target *target)
{
#ifdef __CUDA_ARCH__
	const struct oriel_dev_inline_peer *entry = ori_dev_inline_of(w, peer);

	ori_dev_aim_at(entry, at, target);
	return ori_dev_is_fast(w, peer) & ((at | 7) < entry->length) &
	       !(((uintptr_t)entry->base & 7) | (at & 3));
#else
	return ori_dev_fast_range(w, peer, at, 4, target);
#endif
}

/* Do @length bytes at @at exist at @peer? Then *@target says where they are. */
ORIEL_DEV bool ori_dev_locate(const struct oriel_dev_window *w, bool is_compatible, uint32_t peer,
			      uint64_t at, uint64_t length, struct oriel_dev_target *target)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	struct oriel_dev_buffer entry = {NULL, 0, 0, {{0}}};

	if (is_compatible & ori_dev_is_inline(w, peer) & !buffer) {
		target->peer = ori_dev_inline_copy(w, peer);
		entry.base = ori_dev_inline_of(w, peer)->base;
		entry.length = ori_dev_inline_of(w, peer)->length;
	} else if (is_compatible && peer < w->ranks && buffer < w->buffers) {
		target->peer = ori_dev_peer_of(w, peer);
		entry = ori_dev_table_buffer(w, peer, buffer);
	} else {
		/* No range exists at such a rank or buffer, not even an empty one. */
		target->peer.control = NULL;
		target->peer.path = ORIEL_PATH_NONE;
		target->peer.flags = 0;
		target->peer.link = NULL;
		offset = 1;
	}
	/* Added as a number: there may be no base. */
	target->base = (char *)((uintptr_t)entry.base + offset);
	return length <= entry.length && offset <= entry.length - length && (!buffer || entry.base);
}

/* The same; a range that does not exist is rejected. @is_compatible: the handle is. */
ORIEL_DEV enum oriel_status ori_dev_check_room(const struct oriel_dev_window *w, bool is_compatible,
					       uint32_t what, uint32_t peer, uint64_t at,
					       uint64_t length, struct oriel_dev_target *target)
{
	const struct oriel_dev_buffer *table;
	uint32_t zero;

	if (ORIEL_DEV_OFTEN(ori_dev_locate(w, is_compatible, peer, at, length, target)))
		return ORIEL_OK;
	if (!is_compatible)
		return ORIEL_ERR_VERSION;
	zero = ori_dev_opaque_zero();
	table = (const struct oriel_dev_buffer *)((uintptr_t)w->table + zero);
	return ori_dev_reject_range(ori_dev_reporter_of(w), table, w->buffers + zero, what,
				    peer + zero, at, length);
}

ORIEL_DEV enum oriel_status ori_dev_check_range(const struct oriel_dev_window *w, uint32_t what,
						uint32_t peer, uint64_t at, uint64_t length,
						struct oriel_dev_target *target)
{
	return ori_dev_check_room(w, oriel_dev_is_compatible(w), what, peer, at, length, target);
}

/* The same for one 8-byte word, which must be aligned. */
ORIEL_DEV enum oriel_status ori_dev_check_word(const struct oriel_dev_window *w, uint32_t what,
					       uint32_t peer, uint64_t at,
					       struct oriel_dev_target *target)
{
	struct oriel_dev_aim aim = {NULL, 8, ORIEL_EQ, what, peer, (uint32_t)(at >> ORIEL_AT_BITS)};
	enum oriel_status status = ori_dev_check_range(w, what, peer, at, 8, target);

	if (status != ORIEL_OK)
		return status;
	if (((uintptr_t)target->base | at) & 7)
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_INVALID, aim, at);
	return ORIEL_OK;
}

/*
 * The same for a word of 4 bytes. All of the aligned 8 bytes around it exist: a NIC executes the
 * atomic on those.
 */
ORIEL_DEV enum oriel_status ori_dev_check_word32(const struct oriel_dev_window *w, uint32_t what,
						 uint32_t peer, uint64_t at,
						 struct oriel_dev_target *target)
{
	struct oriel_dev_aim aim = {NULL, 4, ORIEL_EQ, what, peer, (uint32_t)(at >> ORIEL_AT_BITS)};
	enum oriel_status status = ori_dev_check_range(w, what, peer, at & ~(uint64_t)7, 8, target);

	if (status != ORIEL_OK)
		return status;
	if (((uintptr_t)target->base & 7) | (at & 3))
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_INVALID, aim, at);
	target->base += at & 7;
	return ORIEL_OK;
}

#endif
