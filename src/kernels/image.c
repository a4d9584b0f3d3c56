/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the library as bytes: a fatbin that nvcc has made, linked in as it is. src/comm
 * loads it through ori_kernels_image().
 */
#include "kernels/kernels.h"

/* ORI_KERNELS_FILE is the fatbin, as the build has made it. */
__asm__(".pushsection .rodata\n"
	".balign 16\n"
	".hidden ori_kernels_bytes\n"
	".globl ori_kernels_bytes\n"
	"ori_kernels_bytes:\n"
	".incbin \"" ORI_KERNELS_FILE "\"\n"
	".popsection\n");

extern const unsigned char ori_kernels_bytes[];

const void *ori_kernels_image(void)
{
	return ori_kernels_bytes;
}
