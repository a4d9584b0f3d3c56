/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data movement: put, get, one word, and the waits for them. Kernels and threads of the CPU
 * call it; see oriel/dev.h for what holds for all device functions, and oriel/dev/atomic.h for
 * atomics.
 */
#ifndef ORIEL_DEV_DATA_H
#define ORIEL_DEV_DATA_H

#include <oriel/dev/atomic.h>
#include <oriel/dev/detail/data.h>

/*
 * Whole group: copy @length bytes at @from to @to of @peer. Returns at once; @from stays the
 * group's until the ticket is waited for or drained. The group's threads have all done their
 * part only after its next sync, signal or flush. @from must not overlap the target. Groups
 * that put one buffer together call oriel_dev_put_part().
 */
ORIEL_DEV enum oriel_status oriel_dev_put(const struct oriel_dev_window *w,
					  struct oriel_dev_group g, uint32_t peer, uint64_t to,
					  const void *from, uint64_t length,
					  struct oriel_dev_ticket *ticket)
{
	struct oriel_dev_target remote;
	enum oriel_status status;

	ori_dev_ticket_clear(ticket);
	if (ORIEL_DEV_OFTEN(ori_dev_fast_range(w, peer, to, length, &remote))) {
		ori_dev_mapped_copy(g, remote.base, from, length);
		return ORIEL_OK;
	}
	status = ori_dev_check_range(w, ORIEL_DEV_PUT, peer, to, length, &remote);
	if (status != ORIEL_OK)
		return status;
	switch (ori_dev_usable(remote.peer.path)) {
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		ori_dev_mapped_copy(g, remote.base, from, length);
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		return ori_dev_rdma_put(w, g, peer, &remote.peer, to, from, length, ticket);
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * Whole group: part @part, from 0, of a put that @parts groups do together; each passes the
 * same put. The groups do not synchronise: each signals its own part, and a peer that needs all
 * of it waits for the sum.
 */
ORIEL_DEV enum oriel_status oriel_dev_put_part(const struct oriel_dev_window *w,
					       struct oriel_dev_group g, uint32_t part,
					       uint32_t parts, uint32_t peer, uint64_t to,
					       const void *from, uint64_t length,
					       struct oriel_dev_ticket *ticket)
{
	struct oriel_dev_group all = {part, parts, ORIEL_DEV_THREAD, 0, NULL};
	struct oriel_dev_target remote;
	enum oriel_status status;
	uint64_t begin;

	ori_dev_ticket_clear(ticket);
	status = ori_dev_check_any(w, ORIEL_DEV_PUT, part, parts);
	if (status == ORIEL_OK)
		status = ori_dev_check_range(w, ORIEL_DEV_PUT, peer, to, length, &remote);
	if (status != ORIEL_OK)
		return status;
	switch (ori_dev_usable(remote.peer.path)) {
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		ori_dev_mapped_copy_turns(g, part, parts, remote.base, (const char *)from, length);
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		/* In one piece, since each piece is a post. */
		length = oriel_dev_part(all, length, &begin);
		if (!length)
			return ORIEL_OK;
		return ori_dev_rdma_put(w, g, peer, &remote.peer, to + begin,
					(const char *)from + begin, length, ticket);
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * One thread: store @value in the aligned 8-byte word at @to of @peer. The word
 * changes as a whole, so that the peer may poll it with
 * oriel_dev_load_relaxed(); but only a signal orders it after other puts.
 */
ORIEL_DEV enum oriel_status oriel_dev_put_value(const struct oriel_dev_window *w, uint32_t peer,
						uint64_t to, uint64_t value,
						struct oriel_dev_ticket *ticket)
{
	struct oriel_dev_target remote;
	enum oriel_status status;

	ori_dev_ticket_clear(ticket);
	if (!ORIEL_DEV_OFTEN(ori_dev_fast_word(w, peer, to, &remote))) {
		status = ori_dev_check_word(w, ORIEL_DEV_PUT_VALUE, peer, to, &remote);
		if (status != ORIEL_OK)
			return status;
		if (ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && remote.peer.path == ORIEL_PATH_RDMA)
			return ori_dev_rdma_put_value(w, peer, &remote.peer, to, value, ticket);
		if (ori_dev_usable(remote.peer.path) == ORIEL_PATH_NONE)
			return ORIEL_ERR_NO_PATH;
	}
	oriel_dev_store_relaxed((uint64_t *)(void *)remote.base, value);
	return ORIEL_OK;
}

/*
 * Whole group: copy @length bytes at @from of @peer to local memory @to, which is complete once
 * the ticket is waited for or drained.
 */
ORIEL_DEV enum oriel_status oriel_dev_get(const struct oriel_dev_window *w,
					  struct oriel_dev_group g, uint32_t peer, uint64_t from,
					  void *to, uint64_t length,
					  struct oriel_dev_ticket *ticket)
{
	struct oriel_dev_target remote;
	enum oriel_status status;

	ori_dev_ticket_clear(ticket);
	status = ori_dev_check_range(w, ORIEL_DEV_GET, peer, from, length, &remote);
	if (status != ORIEL_OK)
		return status;
	switch (ori_dev_usable(remote.peer.path)) {
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		ori_dev_mapped_copy(g, to, remote.base, length);
		return ORIEL_OK;
	case ORIEL_PATH_RDMA:
		if (!ORIEL_DEV_HAS(ORIEL_PATH_RDMA))
			break;
		return ori_dev_rdma_posted(w, peer, ori_dev_rdma_get(w, g, peer, from, to, length),
					   ticket);
	}
	return ORIEL_ERR_NO_PATH;
}

/*
 * This rank's address of the byte at @at of @peer, NULL if there is no such byte or the peer is
 * not mapped. One thread.
 */
ORIEL_DEV void *oriel_dev_address(const struct oriel_dev_window *w, uint32_t peer, uint64_t at)
{
	struct oriel_dev_target remote;

	if (!ori_dev_locate(w, oriel_dev_is_compatible(w), peer, at, 1, &remote))
		return NULL;
	switch (ori_dev_usable(remote.peer.path)) {
	case ORIEL_PATH_SELF:
	case ORIEL_PATH_MAPPED:
		return remote.base;
	}
	return NULL;
}

/*
 * Whole group: wait until the operation of @ticket is done locally: the source of a put may be
 * reused, the target of a get is complete. It does not cover the counter that the same call
 * increments: wait for that, or drain. The memory is the caller's again also when it fails, unless
 * only a limit of the caller's own has passed.
 *
 * ORIEL_ERR_INVALID: a ticket of another window, or one that this handle's operations have not
 * issued; nothing is waited for. With the ticket that is zero the group synchronises and is done.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_local(const struct oriel_dev_window *w,
						 struct oriel_dev_group g,
						 struct oriel_dev_ticket ticket,
						 uint64_t timeout_ns)
{
	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	if (ticket.index)
		return ori_dev_rdma_wait_local(w, g, ticket, timeout_ns);
	/* A mapped copy is done when each thread has returned from it. */
	oriel_dev_sync(g);
	return ORIEL_OK;
}

/*
 * Whole group: wait_local for all that the group posted to any peer, and for the counters that
 * it increments with that: a thread ordered after this reads their final values, and may reset
 * them.
 */
ORIEL_DEV enum oriel_status oriel_dev_drain(const struct oriel_dev_window *w,
					    struct oriel_dev_group g, uint64_t timeout_ns)
{
	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	oriel_dev_sync(g);
	return ori_dev_rdma_fence_all(w, g, false, timeout_ns);
}

/*
 * Whole group: wait until all that the group put to any peer is visible at that peer, before
 * anything the group does afterwards. It covers everything that drain does, counters as well.
 */
ORIEL_DEV enum oriel_status oriel_dev_flush(const struct oriel_dev_window *w,
					    struct oriel_dev_group g, uint64_t timeout_ns)
{
	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	/* The fence orders each thread's own copies; the sync makes that hold for the group. */
	ori_dev_fence_full();
	oriel_dev_sync(g);
	return ori_dev_rdma_fence_all(w, g, true, timeout_ns);
}

#endif
