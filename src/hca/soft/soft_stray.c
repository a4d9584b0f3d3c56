/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of WRITEs that are late, and the random order in which they are placed. The
 * responder and the engine call it.
 */
#include "hca/soft/soft_stray.h"

#include <stdlib.h>

#include "base/error.h"
#include "hca/soft/soft_memory.h"

#define STRAYS 64u /* of a node; one more places another one first */

struct soft_stray {
	struct soft_qp *qp;
	struct soft_mr *mr;
	char *to;
	uint64_t due;
	size_t length;
	char data[SOFT_CHUNK];
};

enum oriel_status ori_soft_stray_open(struct soft_node *node)
{
	if (!node->scenario.reorder)
		return ORIEL_OK;
	node->strays = calloc(STRAYS, sizeof(*node->strays));
	return node->strays ? ORIEL_OK
			    : ori_fail_nomem(STRAYS * sizeof(*node->strays),
					     "reordered packets of a software HCA");
}

void ori_soft_stray_close(struct soft_node *node)
{
	free(node->strays);
}

bool ori_soft_stray_takes(const struct soft_mr *mr, const char *to)
{
	return mr->node->strays && mr->side != SOFT_EITHER && !ori_soft_is_remote(mr, to);
}

static void stray_land(struct soft_node *node, uint32_t which)
{
	struct soft_stray *s = &node->strays[which];

	/* Memory of this side that was registered for peers takes every write. */
	(void)ori_soft_write(s->mr, s->to, s->data, s->length);
	s->qp->strays--;
	node->stray_count--;
	if (which != node->stray_count)
		*s = node->strays[node->stray_count];
}

void ori_soft_stray_keep(struct soft_qp *qp, struct soft_mr *mr, char *to, const char *from,
			 size_t length)
{
	struct soft_node *node = qp->node;

	while (length > 0) {
		size_t part = length < SOFT_CHUNK ? length : SOFT_CHUNK;
		struct soft_stray *s;

		if (node->stray_count == STRAYS)
			stray_land(node, (uint32_t)soft_rand_below(&node->rand, STRAYS));
		s = &node->strays[node->stray_count++];
		s->qp = qp;
		s->mr = mr;
		s->to = to;
		s->due = node->engine->now + soft_rand_below(&node->rand, node->scenario.reorder);
		s->length = part;
		ori_soft_copy(s->data, from, part);
		qp->strays++;
		node->counters.reordered++;
		to += part;
		from += part;
		length -= part;
	}
}

bool ori_soft_stray_step(struct soft_node *node)
{
	bool is_any = false;

	for (uint32_t i = node->stray_count; i-- > 0;)
		if (node->strays[i].due <= node->engine->now) {
			stray_land(node, i);
			is_any = true;
		}
	return is_any;
}

uint64_t ori_soft_stray_due(const struct soft_node *node)
{
	uint64_t due = SOFT_NEVER;

	for (uint32_t i = 0; i < node->stray_count; i++)
		if (node->strays[i].due < due)
			due = node->strays[i].due;
	return due;
}

void ori_soft_stray_place(struct soft_node *node, const struct soft_qp *qp)
{
	for (uint32_t i = node->stray_count; i-- > 0;)
		if (!qp || node->strays[i].qp == qp)
			stray_land(node, i);
}
