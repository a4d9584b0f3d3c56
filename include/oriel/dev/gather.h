/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather: each rank has a message of the same length, and all come to have
 * them all, one behind the other in the order of the ranks. With a stride, all-to-all:
 * each rank has a message for each rank. Two ways of one execution; docs/allgather.md
 * says why they are correct. See oriel/dev.h for what holds for all device functions.
 *
 * Several groups of a rank may share an execution: each passes the same arguments
 * but for @part, from 0 below @parts, and groups of one part know nothing of those
 * of another. None begins before the result of the execution before is no longer
 * read, and the result is complete when all have returned. All ranks make the same
 * executions in one order, with equal lengths and parts.
 */
#ifndef ORIEL_DEV_GATHER_H
#define ORIEL_DEV_GATHER_H

#include <oriel/dev/ll128.h>
#include <oriel/dev/signal.h>

/* How the lines of oriel_dev_gather_lines() are written. */
enum oriel_dev_lines {
	ORIEL_DEV_LINES_LL,    /* dev/ll.h */
	ORIEL_DEV_LINES_LL128, /* dev/ll128.h */
};

/*
 * What executions of one series have in common, equal on all ranks but for
 * addresses. Its signals and its staging belong to it alone.
 */
struct oriel_dev_gather {
	uint64_t to;      /* place of the result in the window of every rank */
	char *result;     /* where this rank sees its own */
	uint64_t staging; /* place in buffer 0, of whole lines of 128 bytes and zero at first */
	uint64_t slot;    /* bytes in it for what one part sends to one rank; whole lines */
	uint64_t stride;  /* 0: all get one message; else that of rank r lies r * stride behind */
	uint32_t lines;   /* enum oriel_dev_lines */
	uint32_t id;      /* two signals for each part, from this one on */
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

/* The bytes of a message that @part handles: [*begin, *begin + result). */
ORIEL_DEV uint64_t oriel_gather_part(uint32_t part, uint32_t parts, uint64_t length,
				     uint64_t *begin)
{
	struct oriel_dev_group all = {part, parts, ORIEL_DEV_THREAD, 0, NULL};

	return oriel_dev_part(all, length, begin);
}

/* The signals of @part exist, and there is such a part. */
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
 * Executions by lines that @part has ended. The base of a signal that this rank
 * never raises at itself; so it lasts over launches and replays.
 */
ORIEL_DEV uint64_t *oriel_gather_count(const struct oriel_dev_window *w,
				       const struct oriel_dev_gather *c, uint32_t part)
{
	return &w->signal_bases[(size_t)w->rank * w->signals + c->id + 2 * part];
}

/* Where the lines from @source for @part go that have @epoch. */
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

/* Each thread for its own lines; not synchronised. */
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
 * Those of the group that look after one peer, or after every @teams-th, from
 * oriel_dev_rank_after(@first) on: whole warps of a block, if there are enough for all
 * peers, whose lines come side by side then. They never synchronise.
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
 * Whole group: one execution by lines that say themselves that they have come.
 * Nobody is waited for but the lines of the others: they go to one half of the
 * staging and then to the other, and that the lines of one execution have all come
 * says that all ranks have taken those of the one before. Without a stride @from may
 * be this rank's place in the result. All ranks must be mapped: ORIEL_ERR_NO_PATH else.
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
	/* Never the flag of a line that nobody has written. */
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
	/* All have loaded the count, and have done their parts. */
	status = oriel_dev_vote(g, status);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(oriel_gather_count(w, c, part), epoch);
	return status;
}

/* Whole group: a message to place @to of @peer, and word of it. */
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
 * Whole group: what @part has of the message to @peer, in turns; and of this rank's own
 * to @own, unless that is NULL, a turn of it after each: the link is at work for some
 * groups while others copy, and what both get is still in the cache.
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

/* Whole group: what @part has of all messages. To one peer after the other. */
ORIEL_DEV int64_t oriel_gather_put_all(const struct oriel_dev_window *w, struct oriel_dev_group g,
				       const struct oriel_dev_gather *c, uint32_t part,
				       uint32_t parts, const char *text, uint64_t length)
{
	uint64_t here = (uint64_t)w->rank * length;
	const char *mine = text + w->rank * c->stride;
	char *own = c->result + here;
	int64_t posted = 0;
	uint32_t i, peer;

	own = own == mine ? NULL : own;
	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && posted >= 0; i++) {
		peer = oriel_dev_rank_after(w, i);
		if (oriel_gather_is_rdma(w, peer)) {
			/* In one piece, for each is a post. */
			posted = oriel_dev_put_part(w, g, part, parts, peer, c->to + here,
						    text + peer * c->stride, length);
			continue;
		}
		posted = oriel_gather_put_turns(w, g, part, parts, peer, c->to + here,
						text + peer * c->stride, length, own, mine);
		own = NULL;
	}
	if (own)
		oriel_mapped_copy_turns(g, part, parts, own, mine, length);
	return posted;
}

/*
 * Whole group: one execution by puts into the results of the others. Each rank
 * tells the others that its result of before is no longer read, by one signal, and
 * puts once all have told it so; another signal says that the puts are complete.
 * @from is the caller's again on return; without a stride it may be this rank's place
 * in the result, and it overlaps no other part of that.
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
