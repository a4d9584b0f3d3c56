/* SPDX-License-Identifier: Apache-2.0 */
/* One software HCA of an engine. The table of soft.c and the cluster open nodes. */
#ifndef ORI_HCA_SOFT_NODE_H
#define ORI_HCA_SOFT_NODE_H

#include "hca/soft/soft_objects.h"

/* The engine is the caller's, who keeps it until the node is closed. */
enum oriel_status ori_soft_node_open(struct soft_engine *e, const char *config,
				     struct soft_node **node);
void ori_soft_node_close(struct soft_node *node);

/*
 * A number for a new QP or CQ in @table: the lap makes it differ from earlier
 * numbers of the same slot. 0 if there is no more room.
 */
uint32_t ori_soft_node_number(void *const *table, uint32_t *lap);

/* The caller holds the lock. One more page of doorbells, NULL if there is no memory. */
uint32_t *ori_soft_node_add_page(struct soft_node *node);
/* The caller holds the lock. Is @slot a doorbell of one of these pages? */
bool ori_soft_node_has_slot(const struct soft_node *node, const void *slot);

#endif
