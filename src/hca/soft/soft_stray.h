/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strays: parts of WRITEs that a network which keeps no order brings late (the setting
 * reorder). The responder sets them aside; the engine places them in random order. Later
 * requests of their QP are executed meanwhile, but none is acknowledged before all parts of
 * that QP are placed. The lock of the engine is held.
 */
#ifndef ORI_HCA_SOFT_STRAY_H
#define ORI_HCA_SOFT_STRAY_H

#include "hca/soft/soft_objects.h"

enum oriel_status ori_soft_stray_open(struct soft_node *node);
void ori_soft_stray_close(struct soft_node *node);

/* May a WRITE to @to, of @mr, come late? Memory of a GPU takes every write at once. */
bool ori_soft_stray_takes(const struct soft_mr *mr, const char *to);
/* Each part of the @length bytes at @from, for @qp, waits for a time of its own. */
void ori_soft_stray_keep(struct soft_qp *qp, struct soft_mr *mr, char *to, const char *from,
			 size_t length);

/* Places the parts that are due; false if there is none. */
bool ori_soft_stray_step(struct soft_node *node);
uint64_t ori_soft_stray_due(const struct soft_node *node); /* of the first; SOFT_NEVER: none */
/* Places all parts of @qp; of all QPs of @node if it is NULL. */
void ori_soft_stray_place(struct soft_node *node, const struct soft_qp *qp);

#endif
