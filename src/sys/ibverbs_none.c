/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/ibverbs_built.h"

bool ori_ibverbs_is_built(void)
{
	return false;
}
