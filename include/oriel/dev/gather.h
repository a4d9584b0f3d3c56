/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device functions for an all-gather: each rank has a message of the same length, and every rank
 * receives all of them, in the order of the ranks. With a stride it is an all-to-all: each rank
 * has a message for each rank. There are two methods, by lines and by puts; docs/allgather.md says
 * why they are correct. Kernels and host threads call them; oriel/dev.h has the rules of all
 * device functions.
 *
 * Several groups of a rank may share an execution: each passes the same arguments except for
 * @part, which is 0 up to @parts - 1, and groups of different parts do not synchronise. The caller
 * starts no group before it has finished reading the previous result, and the result is complete
 * when all groups have returned. All ranks perform the same executions in one order, with equal
 * lengths and parts.
 */
#ifndef ORIEL_DEV_GATHER_H
#define ORIEL_DEV_GATHER_H

#include <oriel/dev/ll128.h>
#include <oriel/dev/signal.h>

/* The format of the lines of oriel_dev_gather_lines(). */
enum oriel_dev_lines {
	ORIEL_DEV_LINES_LL,    /* dev/ll.h */
	ORIEL_DEV_LINES_LL128, /* dev/ll128.h */
};

/*
 * A series of executions, with signals and a staging of its own. Equal on all ranks, except for
 * addresses.
 */
struct oriel_dev_gather {
	uint64_t to;      /* oriel_at() of the result, in the window of every rank */
	char *result;     /* local address of the result */
	uint64_t staging; /* offset in buffer 0; a multiple of 128; zeroed at first */
	uint64_t slot;    /* staging bytes for one part and one rank; whole lines */
	uint64_t stride;  /* 0: one message for all; else rank r's lies r * stride behind */
	uint32_t lines;   /* enum oriel_dev_lines */
	uint32_t id;      /* the first of its signals, two for each part */
};

/* Bytes of the staging for @parts parts, each with slots of @slot bytes. */
ORIEL_DEV uint64_t oriel_gather_staging(uint32_t ranks, uint32_t parts, uint64_t slot)
{
	return 2 * (uint64_t)ranks * parts * slot;
}

/* Bytes of a slot for messages of @length bytes in @parts parts. */
ORIEL_DEV uint64_t oriel_gather_slot(uint32_t lines, uint64_t length, uint32_t parts)
{
	uint64_t mine = ((length + parts - 1) / parts + 63) & ~(uint64_t)63;

	return lines == ORIEL_DEV_LINES_LL128 ? oriel_ll128_length(mine) : oriel_ll_length(mine);
}

/* The bytes of a message that @part handles: [*begin, *begin + return value). */
ORIEL_DEV uint64_t oriel_gather_part(uint32_t part, uint32_t parts, uint64_t length,
				     uint64_t *begin)
{
	struct oriel_dev_group all = {part, parts, ORIEL_DEV_THREAD, 0, NULL};

	return oriel_dev_part(all, length, begin);
}

/* Rejects a @part that is not below @parts, or whose signals do not exist. */
ORIEL_DEV enum oriel_status oriel_gather_check(const struct oriel_dev_window *w,
					       const struct oriel_dev_gather *c, uint32_t part,
					       uint32_t parts)
{
	enum oriel_status status = oriel_dev_check_any(w, ORIEL_DEV_SIGNAL, part, parts);

	if (status != ORIEL_OK)
		return status;
	return oriel_dev_check_any(w, ORIEL_DEV_SIGNAL, c->id + 2 * part + 1, w->signals);
}

/*
 * Counts the executions of @part by lines or with notes. It is stored in the base of a signal that
 * this rank never sends to itself, so it lasts over launches and replays.
 */
ORIEL_DEV uint64_t *oriel_gather_count(const struct oriel_dev_window *w,
				       const struct oriel_dev_gather *c, uint32_t part)
{
	return &w->signal_bases[(size_t)w->rank * w->signals + c->id + 2 * part];
}

/* Offset of the lines from @source for @part in execution @epoch. */
ORIEL_DEV uint64_t oriel_gather_lines_offset(const struct oriel_dev_window *w,
					     const struct oriel_dev_gather *c, uint32_t part,
					     uint64_t epoch, uint32_t source)
{
	return c->staging + (((uint64_t)part * 2 + (epoch & 1)) * w->ranks + source) * c->slot;
}

ORIEL_DEV int64_t oriel_gather_put_lines(const struct oriel_dev_window *w, struct oriel_dev_group g,
					 const struct oriel_dev_gather *c, uint32_t peer,
					 uint64_t to, const void *from, uint64_t length,
					 uint32_t flag)
{
	if (c->lines == ORIEL_DEV_LINES_LL128)
		return oriel_dev_put_ll128(w, g, peer, to, from, length, flag);
	return oriel_dev_put_ll(w, g, peer, to, from, length, flag);
}

/* Whole group. Each thread waits for its own lines; the group is not synchronised. */
ORIEL_DEV enum oriel_status oriel_gather_await_lines(const struct oriel_dev_window *w,
						     struct oriel_dev_group g,
						     const struct oriel_dev_gather *c, uint64_t at,
						     void *to, uint64_t length, uint32_t flag,
						     uint64_t timeout_ns)
{
	if (c->lines == ORIEL_DEV_LINES_LL128)
		return oriel_ll128_await(w, g, at, to, length, flag, timeout_ns);
	return oriel_ll_await(w, g, at, to, length, flag, timeout_ns);
}

/*
 * The part of a group that serves one peer, or every @teams-th peer from
 * oriel_dev_rank_after(@first) on. If a block has enough warps, each peer gets whole warps of its
 * own, so the lines of all peers are sent at the same time. Teams never synchronise.
 */
struct oriel_gather_team {
	struct oriel_dev_group group;
	uint32_t first;
	uint32_t teams;
};

ORIEL_DEV struct oriel_gather_team oriel_gather_team_of(const struct oriel_dev_window *w,
							struct oriel_dev_group g)
{
	struct oriel_gather_team team = {g, 1, 1};
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

/*
 * Whole group: one execution by lines, each of which carries a flag that shows its arrival. A rank
 * waits only for the lines of its peers. The two halves of the staging alternate: once all lines
 * of one execution have arrived, all ranks have read the lines of the execution before, so that
 * half may be written again. Without a stride @from may be this rank's part of the result. All
 * ranks must be mapped: otherwise ORIEL_ERR_NO_PATH.
 */
ORIEL_DEV enum oriel_status oriel_dev_gather_lines(const struct oriel_dev_window *w,
						   struct oriel_dev_group g,
						   const struct oriel_dev_gather *c, uint32_t part,
						   uint32_t parts, const void *from,
						   uint64_t length, uint64_t timeout_ns)
{
	uint64_t begin, mine = oriel_gather_part(part, parts, length, &begin), epoch;
	enum oriel_status status = oriel_gather_check(w, c, part, parts);
	const char *text = (const char *)from + begin;
	struct oriel_gather_team team;
	int64_t posted = 0;
	uint32_t flag, i;
	char *own;

	if (status != ORIEL_OK || !mine)
		return status;
	if (oriel_gather_slot(c->lines, mine, 1) > c->slot)
		return ORIEL_ERR_RANGE;
	epoch = oriel_dev_load_relaxed(oriel_gather_count(w, c, part)) + 1;
	/* Never 0, which is the flag of a line that no rank has written. */
	flag = (uint32_t)(epoch % UINT32_MAX) + 1;
	team = oriel_gather_team_of(w, g);
	ORIEL_DEV_ROLL
	for (i = team.first; i < w->ranks && posted >= 0; i += team.teams)
		posted = oriel_gather_put_lines(w, team.group, c, oriel_dev_rank_after(w, i),
						oriel_gather_lines_offset(w, c, part, epoch,
									  w->rank),
						text + oriel_dev_rank_after(w, i) * c->stride, mine,
						flag);
	if (posted < 0)
		status = (enum oriel_status)posted;
	own = c->result + (uint64_t)w->rank * length + begin;
	text += w->rank * c->stride;
	if (own != text)
		oriel_mapped_copy(g, own, text, mine);
	ORIEL_DEV_ROLL
	for (i = team.first; i < w->ranks && status == ORIEL_OK; i += team.teams) {
		uint32_t source = oriel_dev_rank_after(w, w->ranks - i);

		status = oriel_gather_await_lines(
			w, team.group, c, oriel_gather_lines_offset(w, c, part, epoch, source),
			c->result + (uint64_t)source * length + begin, mine, flag, timeout_ns);
	}
	/* The vote synchronises the group: all threads have loaded the count and done their share.
	 */
	status = oriel_dev_vote(g, status);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(oriel_gather_count(w, c, part), epoch);
	return status;
}

/* Whole group: puts a message to @to of @peer, with a signal behind it. */
ORIEL_DEV int64_t oriel_gather_send(const struct oriel_dev_window *w, struct oriel_dev_group g,
				    const struct oriel_dev_gather *c, uint32_t part, uint32_t parts,
				    uint32_t peer, uint64_t to, const void *from, uint64_t length)
{
	uint32_t id = c->id + 2 * part + 1;
	int64_t posted;

	if (parts == 1)
		return oriel_dev_put_signal(w, g, peer, to, from, length, id, 1);
	posted = oriel_dev_put_part(w, g, part, parts, peer, to, from, length);
	return posted < 0 ? posted : oriel_dev_signal(w, g, peer, id, ORIEL_SIGNAL_ADD, 1);
}

ORIEL_DEV bool oriel_gather_is_rdma(const struct oriel_dev_window *w, uint32_t peer)
{
	return ORIEL_DEV_HAS(ORIEL_PATH_RDMA) && w->rails &&
	       oriel_dev_peer_of(w, peer).path == ORIEL_PATH_RDMA;
}

/*
 * Whole group: puts the turns of @part of the message to @peer. Unless @own is NULL, it also copies
 * this rank's own message from @mine to @own, one turn after each put: so some groups use the link
 * while others copy, and the source is still in the cache.
 */
ORIEL_DEV int64_t oriel_gather_put_turns(const struct oriel_dev_window *w, struct oriel_dev_group g,
					 uint32_t part, uint32_t parts, uint32_t peer, uint64_t to,
					 const char *from, uint64_t length, char *own,
					 const char *mine)
{
	uint64_t turn = length, run, at;
	int64_t posted = 0;

	if (parts > 1) {
		turn = ((length + parts - 1) / parts + 127) & ~(uint64_t)127;
		turn = turn < ORIEL_DEV_TURN ? turn : ORIEL_DEV_TURN;
	}
	ORIEL_DEV_ROLL
	for (at = part * turn; at < length && posted >= 0; at += parts * turn) {
		run = length - at < turn ? length - at : turn;
		posted = oriel_dev_put(w, g, peer, to + at, from + at, run);
		if (own)
			oriel_mapped_copy(g, own + at, mine + at, run);
	}
	return posted;
}

/* Whole group: puts the bytes of @part of all messages, to one peer after the other. */
ORIEL_DEV int64_t oriel_gather_put_all(const struct oriel_dev_window *w, struct oriel_dev_group g,
				       const struct oriel_dev_gather *c, uint32_t part,
				       uint32_t parts, const char *text, uint64_t length)
{
	uint64_t offset = (uint64_t)w->rank * length;
	const char *mine = text + w->rank * c->stride;
	char *own = c->result + offset;
	int64_t posted = 0;
	uint32_t i, peer;

	own = own == mine ? NULL : own;
	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && posted >= 0; i++) {
		peer = oriel_dev_rank_after(w, i);
		if (oriel_gather_is_rdma(w, peer)) {
			/* In one piece, since each put to a NIC is a post. */
			posted = oriel_dev_put_part(w, g, part, parts, peer, c->to + offset,
						    text + peer * c->stride, length);
			continue;
		}
		posted = oriel_gather_put_turns(w, g, part, parts, peer, c->to + offset,
						text + peer * c->stride, length, own, mine);
		own = NULL;
	}
	if (own)
		oriel_mapped_copy_turns(g, part, parts, own, mine, length);
	return posted;
}

/*
 * Whole group: one execution by puts to the results of all peers. Each rank sends its peers a
 * signal, the credit, that says that its previous result is no longer read, and puts once it has
 * the credits of all. Another signal says that its puts are complete. The caller may reuse @from
 * on return. Without a stride @from may be this rank's part of the result; it overlaps no other
 * part of it.
 */
ORIEL_DEV enum oriel_status oriel_dev_gather_puts(const struct oriel_dev_window *w,
						  struct oriel_dev_group g,
						  const struct oriel_dev_gather *c, uint32_t part,
						  uint32_t parts, const void *from, uint64_t length,
						  uint64_t timeout_ns)
{
	enum oriel_status status = oriel_gather_check(w, c, part, parts);
	uint32_t id = c->id + 2 * part;
	int64_t posted = 0;

	if (status != ORIEL_OK || !length)
		return status;
	posted = oriel_dev_signal_all(w, g, id, ORIEL_SIGNAL_ADD, 1);
	if (posted < 0)
		return (enum oriel_status)posted;
	status = oriel_dev_wait_signal_next_all(w, g, id, 1, timeout_ns);
	if (status != ORIEL_OK)
		return status;
	posted = oriel_gather_put_all(w, g, c, part, parts, (const char *)from, length);
	if (posted >= 0)
		posted = oriel_dev_signal_all(w, g, id + 1, ORIEL_SIGNAL_ADD, 1);
	if (posted < 0)
		return (enum oriel_status)posted;
	status = oriel_dev_wait_signal_next_all(w, g, id + 1, 1, timeout_ns);
	if (status == ORIEL_OK && w->rails)
		status = oriel_dev_drain(w, g, timeout_ns);
	return status;
}

#endif
