/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging, parts and puts of an all-gather; dev/gather.h and dev/exchange.h call it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_GATHER_H
#define ORIEL_DEV_DETAIL_GATHER_H

#include <oriel/dev/data.h>
#include <oriel/dev/ll.h>
#include <oriel/dev/ll128.h>
#include <oriel/dev/signal.h>

/* The bytes of a message that @part handles: [*begin, *begin + return value). */
ORIEL_DEV uint64_t ori_dev_gather_part(uint32_t part, uint32_t parts, uint64_t length,
				       uint64_t *begin)
{
	struct oriel_dev_group all = {part, parts, ORIEL_DEV_THREAD, 0, NULL};

	return oriel_dev_part(all, length, begin);
}

/* Rejects a @part that is not below @parts, or whose signals do not exist. */
ORIEL_DEV enum oriel_status ori_dev_gather_check(const struct oriel_dev_window *w,
						 const struct oriel_dev_gather *c, uint32_t part,
						 uint32_t parts)
{
	enum oriel_status status = ori_dev_check_any(w, ORIEL_DEV_SIGNAL, part, parts);

	if (status != ORIEL_OK)
		return status;
	return ori_dev_check_any(w, ORIEL_DEV_SIGNAL, c->id + 2 * part + 1, w->signals);
}

/*
 * Counts the executions of @part by lines or with notes. It is stored in the base of a signal that
 * this rank never sends to itself, so it lasts over launches and replays.
 */
ORIEL_DEV uint64_t *ori_dev_gather_count(const struct oriel_dev_window *w,
					 const struct oriel_dev_gather *c, uint32_t part)
{
	return &w->signal_bases[(size_t)w->rank * w->signals + c->id + 2 * part];
}

/* Offset of the lines from @source for @part in execution @epoch. */
ORIEL_DEV uint64_t ori_dev_gather_lines_offset(const struct oriel_dev_window *w,
					       const struct oriel_dev_gather *c, uint32_t part,
					       uint64_t epoch, uint32_t source)
{
	return c->staging + (((uint64_t)part * 2 + (epoch & 1)) * w->ranks + source) * c->slot;
}

ORIEL_DEV enum oriel_status ori_dev_gather_put_lines(const struct oriel_dev_window *w,
						     struct oriel_dev_group g,
						     const struct oriel_dev_gather *c,
						     uint32_t peer, uint64_t to, const void *from,
						     uint64_t length, uint32_t flag)
{
	if (c->lines == ORIEL_DEV_LINES_LL128)
		return oriel_dev_put_ll128(w, g, peer, to, from, length, flag);
	return oriel_dev_put_ll(w, g, peer, to, from, length, flag);
}

/* Whole group. Each thread waits for its own lines; the group is not synchronised. */
ORIEL_DEV enum oriel_status ori_dev_gather_await_lines(const struct oriel_dev_window *w,
						       struct oriel_dev_group g,
						       const struct oriel_dev_gather *c,
						       uint64_t at, void *to, uint64_t length,
						       uint32_t flag, uint64_t timeout_ns)
{
	if (c->lines == ORIEL_DEV_LINES_LL128)
		return ori_dev_ll128_await(w, g, at, to, length, flag, timeout_ns);
	return ori_dev_ll_await(w, g, at, to, length, flag, timeout_ns);
}

/*
 * The part of a group that serves one peer, or every @teams-th peer from
 * ori_dev_rank_after(@first) on. If a block has enough warps, each peer gets whole warps of its
 * own, so the lines of all peers are sent at the same time. Teams never synchronise.
 */
struct ori_dev_gather_team {
	struct oriel_dev_group group;
	uint32_t first;
	uint32_t teams;
};

ORIEL_DEV struct ori_dev_gather_team ori_dev_gather_team_of(const struct oriel_dev_window *w,
							    struct oriel_dev_group g)
{
	struct ori_dev_gather_team team = {g, 1, 1};
#ifdef __CUDA_ARCH__
	uint32_t size = w->ranks > 2 ? g.size / (w->ranks - 1) & ~31u : 0;

	if (!size || g.kind != ORIEL_DEV_BLOCK)
		return team;
	team.first = 1 + g.rank / size;
	team.teams = w->ranks - 1;
	team.group.rank = g.rank % size;
	team.group.size = size;
#else
	(void)w;
#endif
	return team;
}

/* Whole group: puts a message to @to of @peer, with a signal behind it. */
ORIEL_DEV enum oriel_status ori_dev_gather_send(const struct oriel_dev_window *w,
						struct oriel_dev_group g,
						const struct oriel_dev_gather *c, uint32_t part,
						uint32_t parts, uint32_t peer, uint64_t to,
						const void *from, uint64_t length)
{
	uint32_t id = c->id + 2 * part + 1;
	enum oriel_status status;

	if (parts == 1)
		return oriel_dev_put_signal(w, g, peer, to, from, length, id, 1, NULL);
	status = oriel_dev_put_part(w, g, part, parts, peer, to, from, length, NULL);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_signal(w, g, peer, id, ORIEL_SIGNAL_ADD, 1, NULL);
}

ORIEL_DEV bool ori_dev_gather_is_rdma(const struct oriel_dev_window *w, uint32_t peer)
{
	return ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && w->rails &&
	       ori_dev_peer_of(w, peer).path == ORIEL_PATH_RDMA;
}

/*
 * Whole group: puts the turns of @part of the message to @peer. Unless @own is NULL, it also copies
 * this rank's own message from @mine to @own, one turn after each put: so some groups use the link
 * while others copy, and the source is still in the cache.
 */
ORIEL_DEV enum oriel_status ori_dev_gather_put_turns(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint32_t part,
						     uint32_t parts, uint32_t peer, uint64_t to,
						     const char *from, uint64_t length, char *own,
						     const char *mine)
{
	uint64_t turn = length, run, at;
	enum oriel_status status = ORIEL_OK;

	if (parts > 1) {
		turn = ((length + parts - 1) / parts + 127) & ~(uint64_t)127;
		turn = turn < ORIEL_DEV_TURN ? turn : ORIEL_DEV_TURN;
	}
	ORIEL_DEV_ROLL
	for (at = part * turn; at < length && status == ORIEL_OK; at += parts * turn) {
		run = length - at < turn ? length - at : turn;
		status = oriel_dev_put(w, g, peer, to + at, from + at, run, NULL);
		if (own)
			ori_dev_mapped_copy(g, own + at, mine + at, run);
	}
	return status;
}

/* Whole group: puts the bytes of @part of all messages, to one peer after the other. */
ORIEL_DEV enum oriel_status ori_dev_gather_put_all(const struct oriel_dev_window *w,
						   struct oriel_dev_group g,
						   const struct oriel_dev_gather *c, uint32_t part,
						   uint32_t parts, const char *text,
						   uint64_t length)
{
	uint64_t offset = (uint64_t)w->rank * length;
	const char *mine = text + w->rank * c->stride;
	char *own = c->result + offset;
	enum oriel_status status = ORIEL_OK;
	uint32_t i, peer;

	own = own == mine ? NULL : own;
	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		peer = ori_dev_rank_after(w, i);
		if (ori_dev_gather_is_rdma(w, peer)) {
			/* In one piece, since each put to a NIC is a post. */
			status = oriel_dev_put_part(w, g, part, parts, peer, c->to + offset,
						    text + peer * c->stride, length, NULL);
			continue;
		}
		status = ori_dev_gather_put_turns(w, g, part, parts, peer, c->to + offset,
						  text + peer * c->stride, length, own, mine);
		own = NULL;
	}
	if (own)
		ori_dev_mapped_copy_turns(g, part, parts, own, mine, length);
	return status;
}

#endif
