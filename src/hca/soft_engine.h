/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What drives the adapters: one thread per process while any is open.
 */
#ifndef ORI_HCA_SOFT_ENGINE_H
#define ORI_HCA_SOFT_ENGINE_H

#include "hca/soft_objects.h"

/* The engine of this process, started with the first ref. */
enum oriel_status ori_soft_engine_ref(struct soft_engine **engine);
void ori_soft_engine_unref(struct soft_engine *e);

/* One without a thread. */
enum oriel_status ori_soft_engine_create_virtual(uint64_t seed, struct soft_engine **engine);
void ori_soft_engine_destroy_virtual(struct soft_engine *e);

/* What calls of the table do around their work; unlock() makes sure that it is seen. */
void ori_soft_engine_lock(struct soft_engine *e);
void ori_soft_engine_unlock(struct soft_engine *e);

/* When there is something to do by itself, doorbells aside; SOFT_NEVER if not. */
uint64_t ori_soft_engine_due(const struct soft_engine *e);

#endif
