/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of mapped ranks in GPU memory: posts a kernel that adds while the elements
 * arrive in the staging. gather_make.c and reduction_call.c call it; oriel/dev/reduction.h has the
 * device functions, and docs/reductions.md says why they are correct.
 */
#include <oriel/dev/reduction.h>

#include "coll/reduction.h"

static size_t stream_line(size_t bytes)
{
	return (bytes + ORIEL_DEV_LINE - 1) & ~(size_t)(ORIEL_DEV_LINE - 1);
}

/* Lines first, then slots. The bytes of a message are those of one part of a reduce-scatter. */
size_t ori_reduce_stream_lay_out(struct ori_gather *g)
{
	size_t lines = g->bytes_max < ORI_REDUCE_LINES ? g->bytes_max : ORI_REDUCE_LINES;
	uint32_t ranks = oriel_comm_size(g->comm);
	size_t part = stream_line((lines + g->parts - 1) / g->parts), slot;

	if (part < ORI_REDUCE_LINES_PART)
		part = ORI_REDUCE_LINES_PART;
	g->ll = (struct oriel_dev_gather){.lines = ORIEL_DEV_LINES_LL,
					  .id = ori_gather_id(g, ORI_GATHER_LL),
					  .slot = oriel_dev_gather_slot(ORIEL_DEV_LINES_LL, part,
									1)};
	slot = stream_line(ORI_REDUCE_SLOTS / ranks);
	if (slot > stream_line(g->bytes_max))
		slot = stream_line(g->bytes_max);
	if (!slot)
		slot = ORIEL_DEV_LINE;
	g->puts = (struct oriel_dev_gather){.slot = slot,
					    .staging = oriel_dev_gather_staging(ranks, g->parts,
										g->ll.slot)};
	return g->puts.staging + oriel_dev_reduce_staging(ranks, g->parts, slot);
}

static uint32_t stream_parts(const struct ori_gather *g, size_t bytes, size_t most)
{
	size_t parts = (bytes + most - 1) / most;

	return parts < g->parts ? (uint32_t)parts : g->parts;
}

enum oriel_status ori_reduce_stream(struct ori_gather *g, enum oriel_algorithm algorithm,
				    const void *send, size_t count, void *stream)
{
	const struct oriel_dev_reduction reduction = {.type = g->reduction->fold.type,
						      .op = g->reduction->fold.op,
						      .block = g->reduction->fold.block};
	bool is_scatter = g->kind->number == ORI_REDUCE_SCATTER;
	bool is_lines = algorithm == ORIEL_ALGORITHM_LL;
	struct oriel_dev_gather series = is_lines ? g->ll : g->puts;
	size_t bytes = ori_reduction_bytes(g, count);

	series.stride = is_scatter ? bytes : 0;
	if (is_lines)
		return oriel_window_reduce_lines_on_stream(g->window, &series, &reduction,
							   stream_parts(g, bytes,
									ORI_REDUCE_LINES_PART),
							   send, count, stream);
	if (is_scatter || algorithm == ORIEL_ALGORITHM_ONE_SHOT)
		return oriel_window_reduce_slots_on_stream(g->window, &series, &reduction,
							   stream_parts(g, bytes,
									ORI_REDUCE_STAGED_PART),
							   send, count, stream);
	return oriel_window_reduce_owners_on_stream(g->window, &series, &reduction,
						    stream_parts(g, bytes / g->shape.ranks + 1,
								 ORI_REDUCE_STAGED_PART),
						    send, count, stream);
}
