/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of mapped ranks in GPU memory: posts a kernel that adds while the elements
 * arrive in the staging. gather_make.c and reduction_call.c call it; oriel/dev/reduction.h has the
 * device functions, and docs/reductions.md says why they are correct.
 */
#include <oriel/dev/reduction.h>

#include "coll/reduction.h"

/* Bytes of one part by @lines, while there are parts left: a unit for each of some threads. */
static size_t stream_lines_part(uint32_t lines)
{
	return lines == ORIEL_DEV_LINES_LL ? ORI_REDUCE_LL_PART : ORI_REDUCE_LL128_PART;
}

static size_t stream_line(size_t bytes)
{
	return (bytes + ORIEL_DEV_LINE - 1) & ~(size_t)(ORIEL_DEV_LINE - 1);
}

/* A series by lines for messages of up to @most bytes, behind @staging bytes of others. */
static struct oriel_dev_gather stream_lines(const struct ori_gather *g,
					    enum ori_gather_series series,
					    enum oriel_dev_lines lines, size_t most, size_t staging)
{
	size_t bytes = g->bytes_max < most ? g->bytes_max : most;
	size_t part = stream_line((bytes + g->parts - 1) / g->parts);

	if (part < stream_lines_part(lines))
		part = stream_lines_part(lines);
	return (struct oriel_dev_gather){.lines = lines,
					 .id = ori_gather_id(g, series),
					 .slot = oriel_dev_gather_slot(lines, part, 1),
					 .staging = staging};
}

/*
 * Both kinds of lines first, then slots. The bytes of a message are those of one part of a
 * reduce-scatter.
 */
size_t ori_reduce_stream_lay_out(struct ori_gather *g)
{
	enum oriel_dev_lines longer = g->is_narrow ? ORIEL_DEV_LINES_LL : ORIEL_DEV_LINES_LL128;
	uint32_t ranks = oriel_comm_size(g->comm);
	size_t slot, staging;

	g->ll = stream_lines(g, ORI_GATHER_LL, ORIEL_DEV_LINES_LL, ORI_REDUCE_LL, 0);
	staging = oriel_dev_gather_staging(ranks, g->parts, g->ll.slot);
	g->ll128 = stream_lines(g, ORI_GATHER_LL128, longer, ORI_REDUCE_LINES, staging);
	staging += oriel_dev_gather_staging(ranks, g->parts, g->ll128.slot);
	slot = stream_line(ORI_REDUCE_SLOTS / ranks);
	if (slot > stream_line(g->bytes_max))
		slot = stream_line(g->bytes_max);
	if (!slot)
		slot = ORIEL_DEV_LINE;
	g->puts = (struct oriel_dev_gather){.slot = slot, .staging = staging};
	return staging + oriel_dev_reduce_staging(ranks, g->parts, slot);
}

static uint32_t stream_parts(const struct ori_gather *g, size_t bytes, size_t most)
{
	size_t parts = (bytes + most - 1) / most;

	return parts < g->parts ? (uint32_t)parts : g->parts;
}

enum oriel_status ori_reduce_stream(struct ori_gather *g, enum oriel_algorithm algorithm,
				    const void *send, size_t count, void *stream)
{
	const struct oriel_dev_reduction reduction = ori_reduction_device(g);
	bool is_scatter = g->kind->number == ORI_REDUCE_SCATTER;
	bool is_lines = algorithm == ORIEL_ALGORITHM_LL;
	struct oriel_dev_gather series = g->puts;
	size_t bytes = ori_reduction_bytes(g, count);

	if (is_lines)
		series = bytes > ORI_REDUCE_LL ? g->ll128 : g->ll;
	series.stride = is_scatter ? bytes : 0;
	if (is_lines)
		return oriel_window_reduce_lines_on_stream(
			g->window, &series, &reduction,
			stream_parts(g, bytes, stream_lines_part(series.lines)), send, count,
			stream);
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
