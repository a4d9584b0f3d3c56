/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent, in the handle table, of the communicators of a bootstrap. comm.c and bootstrap.c call
 * it.
 */
#ifndef ORI_BOOTSTRAP_PARENT_H
#define ORI_BOOTSTRAP_PARENT_H

#include <stdint.h>

#include <oriel/bootstrap.h>

/*
 * Its context. For a caller's table without one, a number for the table and the rank: ranks may be
 * threads that share the table.
 */
static inline const void *ori_bootstrap_parent(const struct oriel_bootstrap *bootstrap)
{
	if (bootstrap->context)
		return bootstrap->context;
	return (const void *)((uintptr_t)bootstrap->ops + bootstrap->rank);
}

#endif
