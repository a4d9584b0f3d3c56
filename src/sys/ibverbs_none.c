/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces ibverbs.c in builds without infiniband/verbs.h. */
#include "sys/ibverbs_built.h"

bool ori_ibverbs_is_built(void)
{
	return false;
}
