/* SPDX-License-Identifier: Apache-2.0 */
/* One execution by the algorithm HIERARCHICAL. reduce_nodes.c calls it. */
#ifndef ORI_COLL_REDUCE_HIERARCHY_H
#define ORI_COLL_REDUCE_HIERARCHY_H

#include "coll/reduce_rounds.h"

/* Continues @job, which is a struct ori_reduce_rounds, as gather_job.h says. */
enum oriel_status ori_reduce_hierarchy_go_on(struct ori_gather_job *job);

#endif
