/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that drives the software HCAs: one thread per process while any is open. */
#ifndef ORI_HCA_SOFT_ENGINE_H
#define ORI_HCA_SOFT_ENGINE_H

#include "hca/soft/soft_objects.h"

/* The engine of this process, started with the first ref. */
enum oriel_status ori_soft_engine_ref(struct soft_engine **engine);
void ori_soft_engine_unref(struct soft_engine *e);

/* One without thread, sockets and address; NULL if there is no memory. */
struct soft_engine *ori_soft_engine_make(void);
void ori_soft_engine_free(struct soft_engine *e);

/*
 * Calls of the table do their work between these two; unlock() wakes the engine
 * if there is work.
 */
void ori_soft_engine_lock(struct soft_engine *e);
void ori_soft_engine_unlock(struct soft_engine *e);

/* Is the HCA halted now? Its work waits then. */
bool ori_soft_engine_is_halted(struct soft_node *node);

/* The time at which the next action without a doorbell is due; SOFT_NEVER if none is. */
uint64_t ori_soft_engine_due(const struct soft_engine *e);

#endif
