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

#include <oriel/dev/detail/gather.h>

/*
 * Any thread, and the host: bytes of the staging for @ranks ranks and @parts parts, each with slots
 * of @slot bytes.
 */
ORIEL_DEV uint64_t oriel_dev_gather_staging(uint32_t ranks, uint32_t parts, uint64_t slot)
{
	return 2 * (uint64_t)ranks * parts * slot;
}

/*
 * Any thread, and the host: bytes of a slot for messages of @length bytes in @parts parts; @lines
 * is an enum oriel_dev_lines.
 */
ORIEL_DEV uint64_t oriel_dev_gather_slot(uint32_t lines, uint64_t length, uint32_t parts)
{
	uint64_t mine = ((length + parts - 1) / parts + 63) & ~(uint64_t)63;

	return lines == ORIEL_DEV_LINES_LL128 ? oriel_dev_ll128_length(mine)
					      : oriel_dev_ll_length(mine);
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
	uint64_t begin, mine = ori_dev_gather_part(part, parts, length, &begin), epoch;
	enum oriel_status status = ori_dev_gather_check(w, c, part, parts);
	const char *text = (const char *)from + begin;
	struct ori_dev_gather_team team;
	uint32_t flag, i;
	char *own;

	if (status != ORIEL_OK || !mine)
		return status;
	if (oriel_dev_gather_slot(c->lines, mine, 1) > c->slot)
		return ORIEL_ERR_RANGE;
	epoch = oriel_dev_load_relaxed(ori_dev_gather_count(w, c, part)) + 1;
	/* Never 0, which is the flag of a line that no rank has written. */
	flag = (uint32_t)(epoch % UINT32_MAX) + 1;
	team = ori_dev_gather_team_of(w, g);
	ORIEL_DEV_ROLL
	for (i = team.first; i < w->ranks && status == ORIEL_OK; i += team.teams)
		status = ori_dev_gather_put_lines(w, team.group, c, ori_dev_rank_after(w, i),
						  ori_dev_gather_lines_offset(w, c, part, epoch,
									      w->rank),
						  text + ori_dev_rank_after(w, i) * c->stride, mine,
						  flag);
	own = c->result + (uint64_t)w->rank * length + begin;
	text += w->rank * c->stride;
	if (own != text)
		ori_dev_mapped_copy(g, own, text, mine);
	ORIEL_DEV_ROLL
	for (i = team.first; i < w->ranks && status == ORIEL_OK; i += team.teams) {
		uint32_t source = ori_dev_rank_after(w, w->ranks - i);

		status = ori_dev_gather_await_lines(
			w, team.group, c, ori_dev_gather_lines_offset(w, c, part, epoch, source),
			c->result + (uint64_t)source * length + begin, mine, flag, timeout_ns);
	}
	/* The vote synchronises the group: all threads have loaded the count and done their share.
	 */
	status = oriel_dev_vote(g, status);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(ori_dev_gather_count(w, c, part), epoch);
	return status;
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
	enum oriel_status status = ori_dev_gather_check(w, c, part, parts);
	uint32_t id = c->id + 2 * part;

	if (status != ORIEL_OK || !length)
		return status;
	status = oriel_dev_signal_all(w, g, id, ORIEL_SIGNAL_ADD, 1);
	if (status == ORIEL_OK)
		status = oriel_dev_wait_signal_next_all(w, g, id, 1, timeout_ns);
	if (status == ORIEL_OK)
		status = ori_dev_gather_put_all(w, g, c, part, parts, (const char *)from, length);
	if (status == ORIEL_OK)
		status = oriel_dev_signal_all(w, g, id + 1, ORIEL_SIGNAL_ADD, 1);
	if (status == ORIEL_OK)
		status = oriel_dev_wait_signal_next_all(w, g, id + 1, 1, timeout_ns);
	if (status == ORIEL_OK && w->rails)
		status = oriel_dev_drain(w, g, timeout_ns);
	return status;
}

#endif
