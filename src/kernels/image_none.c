/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

const void *ori_kernels_image(void)
{
	return NULL;
}
