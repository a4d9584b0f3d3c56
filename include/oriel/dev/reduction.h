/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device functions for reductions, so that a kernel may do something with the elements before or
 * after them: oriel/reduce.h defines the order of the additions and the bits of the results, which
 * are those of the host. Kernels and threads of the CPU call them; oriel/dev.h has the rules of all
 * device functions. A thread of the CPU that calls them has the default mode of the floating-point
 * unit. With the type and the operation as constants a kernel has the code for those alone.
 *
 * oriel_dev_reduce() and oriel_dev_reduce_all() read the windows of all ranks, and the caller
 * synchronises: a barrier before, so that all elements are there, and one behind, before any rank
 * changes them. The other three are whole executions, with messages of each rank as in
 * oriel/dev/gather.h: several groups share one, each as a @part; all ranks perform the same ones in
 * one order; and with a stride in @c the message of rank r for rank p lies p * stride behind @from,
 * a reduce-scatter.
 *
 * All ranks are mapped, else ORIEL_ERR_NO_PATH. ORIEL_ERR_INVALID: there is no such type, or not
 * with that operation; PREMUL_SUM without factors; USER, which is for the host. Elements are
 * aligned to nothing, but vectors of 16 bytes at aligned addresses are loaded and stored at once.
 */
#ifndef ORIEL_DEV_REDUCTION_H
#define ORIEL_DEV_REDUCTION_H

#include <oriel/dev/detail/reduction_lines.h>
#include <oriel/dev/detail/sums.h>
#include <oriel/dev/gather.h>

/*
 * Whole group: the reduction of the @count elements that lie at @at of the windows of all ranks, to
 * memory @to, which may be this rank's own elements. The group's threads have all done their part
 * only after its next sync, signal or barrier. Groups share the work if each passes a range of its
 * own.
 */
ORIEL_DEV enum oriel_status oriel_dev_reduce(const struct oriel_dev_window *w,
					     struct oriel_dev_group g,
					     const struct oriel_dev_reduction *r, uint64_t at,
					     uint64_t count, void *to)
{
	struct oriel_dev_rows rows = {w, true, at, NULL, 0, NULL, 0, false};
	struct oriel_dev_results results = {w, false, 0, (char *)to};
	struct oriel_dev_fold f;
	enum oriel_status status = ori_dev_reduce_check(w, r, &f);
	uint64_t length = ori_dev_reduce_bytes(&f, count);

	if (status == ORIEL_OK)
		status = ori_dev_reduce_check_all(w, at, length);
	if (status != ORIEL_OK)
		return status;
	ORIEL_FOLD_BY_TYPE(f, ori_dev_reduce_rows(g, f, &rows, &results, length))
	return ORIEL_OK;
}

/*
 * Whole group: the same, to offset @to of the windows of all ranks. A barrier behind it says that
 * the results of all groups are there. If ranks do this for ranges of their own, it is an
 * all-reduce in which each element crosses each link twice.
 */
ORIEL_DEV enum oriel_status oriel_dev_reduce_all(const struct oriel_dev_window *w,
						 struct oriel_dev_group g,
						 const struct oriel_dev_reduction *r, uint64_t at,
						 uint64_t count, uint64_t to)
{
	struct oriel_dev_rows rows = {w, true, at, NULL, 0, NULL, 0, false};
	struct oriel_dev_results results = {w, true, to, NULL};
	struct oriel_dev_fold f;
	enum oriel_status status = ori_dev_reduce_check(w, r, &f);
	uint64_t length = ori_dev_reduce_bytes(&f, count);

	if (status == ORIEL_OK)
		status = ori_dev_reduce_check_all(w, at, length);
	if (status == ORIEL_OK)
		status = ori_dev_reduce_check_all(w, to, length);
	if (status != ORIEL_OK)
		return status;
	ORIEL_FOLD_BY_TYPE(f, ori_dev_reduce_rows(g, f, &rows, &results, length))
	return ORIEL_OK;
}

/*
 * Whole group: one execution by lines of dev/ll.h or dev/ll128.h, each of which carries a flag
 * that shows its arrival; for few bytes. Every rank gets the messages of all ranks for it and
 * reduces them to
 * @c->result as they arrive. The staging of @c is that of oriel_dev_gather_lines(), and so is the
 * reason why two halves of it suffice. @from may be the result, or with a stride this rank's
 * message there. ORIEL_ERR_RANGE: a part does not fit the slots.
 */
ORIEL_DEV enum oriel_status oriel_dev_reduce_lines(const struct oriel_dev_window *w,
						   struct oriel_dev_group g,
						   const struct oriel_dev_gather *c,
						   const struct oriel_dev_reduction *r,
						   uint32_t part, uint32_t parts, const void *from,
						   uint64_t count, uint64_t timeout_ns)
{
	struct oriel_dev_fold f;
	enum oriel_status status = ori_dev_reduce_check(w, r, &f);
	uint64_t begin = 0, mine, epoch;
	const char *text = (const char *)from;
	struct oriel_dev_line_rows lines = {NULL, c->slot, NULL, NULL, 0, 0, w->rank};
	struct ori_dev_gather_team team;
	uint32_t i;

	if (status == ORIEL_OK)
		status = ori_dev_gather_check(w, c, part, parts);
	if (status != ORIEL_OK)
		return status;
	mine = ori_dev_gather_part(part, parts, ori_dev_reduce_bytes(&f, count), &begin);
	if (!mine)
		return ORIEL_OK;
	if (oriel_dev_gather_slot(c->lines, mine, 1) > c->slot)
		return ORIEL_ERR_RANGE;
	epoch = oriel_dev_load_relaxed(ori_dev_gather_count(w, c, part)) + 1;
	text += begin;
	/* Never 0, which is the flag of a line that no rank has written. */
	lines.flag = (uint32_t)(epoch % UINT32_MAX) + 1;
	lines.lines = (uint32_t)(mine + 7) / 8;
	lines.own = text + w->rank * c->stride;
	lines.to = c->result + begin;
	lines.base = ori_dev_reduce_address(w, w->rank,
					    ori_dev_gather_lines_offset(w, c, part, epoch, 0));
	team = ori_dev_gather_team_of(w, g);
	ORIEL_DEV_ROLL
	for (i = team.first; i < w->ranks && status == ORIEL_OK; i += team.teams)
		status = ori_dev_gather_put_lines(w, team.group, c, ori_dev_rank_after(w, i),
						  ori_dev_gather_lines_offset(w, c, part, epoch,
									      w->rank),
						  text + ori_dev_rank_after(w, i) * c->stride, mine,
						  lines.flag);
	/* All threads have loaded the count, and the elements that results may overwrite. */
	status = oriel_dev_vote(g, status);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(ori_dev_gather_count(w, c, part), epoch);
	if (status == ORIEL_OK && c->lines == ORIEL_DEV_LINES_LL128)
		ORIEL_FOLD_BY_TYPE(f, status = ori_dev_reduce_take_lines(w, g, f, &lines, mine,
									 timeout_ns, true))
	else if (status == ORIEL_OK)
		ORIEL_FOLD_BY_TYPE(f, status = ori_dev_reduce_take_lines(w, g, f, &lines, mine,
									 timeout_ns, false))
	return oriel_dev_vote(g, status);
}

/*
 * Any thread, and the host: bytes of the staging of the next two functions for @ranks ranks and
 * @parts parts, with slots of @slot bytes.
 */
ORIEL_DEV uint64_t oriel_dev_reduce_staging(uint32_t ranks, uint32_t parts, uint64_t slot)
{
	return ORIEL_REDUCE_DEPTH * (uint64_t)ranks * parts * slot;
}

/*
 * Whole group: one execution in rounds through the slots of the staging: every rank puts its
 * messages there, with a signal behind them, and reduces those of all ranks for it to @c->result.
 * The staging has oriel_dev_reduce_staging() bytes, with slots of any length that is a multiple of
 * 128. @from may be the result, or with a stride this rank's message there, or begin where it
 * does.
 */
ORIEL_DEV enum oriel_status oriel_dev_reduce_slots(const struct oriel_dev_window *w,
						   struct oriel_dev_group g,
						   const struct oriel_dev_gather *c,
						   const struct oriel_dev_reduction *r,
						   uint32_t part, uint32_t parts, const void *from,
						   uint64_t count, uint64_t timeout_ns)
{
	return ori_dev_reduce_staged(w, g, c, r, part, parts, from, count, timeout_ns, false);
}

/*
 * Whole group: one execution of an all-reduce by owners: the message has a piece for each rank,
 * which reduces it as above and stores it to @c->to of all ranks. The stride is not read. @from may
 * be the result, @c->result.
 */
ORIEL_DEV enum oriel_status oriel_dev_reduce_owners(const struct oriel_dev_window *w,
						    struct oriel_dev_group g,
						    const struct oriel_dev_gather *c,
						    const struct oriel_dev_reduction *r,
						    uint32_t part, uint32_t parts, const void *from,
						    uint64_t count, uint64_t timeout_ns)
{
	return ori_dev_reduce_staged(w, g, c, r, part, parts, from, count, timeout_ns, true);
}

#endif
