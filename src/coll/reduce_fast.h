/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces with ORIEL_REDUCE_FAST. Called by reduce_nodes.c. */
#ifndef ORI_COLL_REDUCE_FAST_H
#define ORI_COLL_REDUCE_FAST_H

#include "coll/reduce_rounds.h"

/* go_on() of jobs, which are ori_reduce_rounds; those of the second are is_whole. */
enum oriel_status ori_reduce_ring_go_on(struct ori_gather_job *job);
enum oriel_status ori_reduce_recursive_go_on(struct ori_gather_job *job);

#endif
