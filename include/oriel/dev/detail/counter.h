/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where counters lie; dev/counter.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_COUNTER_H
#define ORIEL_DEV_DETAIL_COUNTER_H

#include <oriel/dev/types.h>

ORIEL_DEV uint64_t *ori_dev_counter(const struct oriel_dev_window *w, uint32_t peer,
				    uint32_t counter)
{
	return &w->counter_words[(size_t)peer * w->counters + counter];
}

#endif
