/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mode of the floating-point unit: a program may have told its thread to flush subnormal
 * numbers to 0 or to round in another way, which would change bits of a reduction. fold.c sets the
 * default for the time of the arithmetic.
 */
#include "reduce/fold.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

/*
 * Intel SDM volume 1, 10.2.3: after a reset MXCSR is 0x1f80, all exceptions masked, to nearest, no
 * flush to zero (bit 15), no denormals-are-zeros (bit 6). The low six bits are sticky flags.
 */
#define MODE_DEFAULT 0x1f80u
#define MODE_FLAGS 0x3fu

uint64_t ori_fold_mode_begin(void)
{
	unsigned before = _mm_getcsr();

	if ((before & ~MODE_FLAGS) != MODE_DEFAULT)
		_mm_setcsr(MODE_DEFAULT);
	return before;
}

void ori_fold_mode_end(uint64_t before)
{
	/* The flags, too: a program that looks for them did none of this arithmetic. */
	_mm_setcsr((unsigned)before);
}
#elif defined(__aarch64__)
/* Arm ARM, FPCR: 0 is to nearest, no flush to zero, no default NaN, no traps. */
uint64_t ori_fold_mode_begin(void)
{
	uint64_t before;

	asm volatile("mrs %0, fpcr" : "=r"(before));
	if (before)
		asm volatile("msr fpcr, %0" : : "r"((uint64_t)0));
	return before;
}

void ori_fold_mode_end(uint64_t before)
{
	if (before)
		asm volatile("msr fpcr, %0" : : "r"(before));
}
#else
uint64_t ori_fold_mode_begin(void)
{
	return 0;
}

void ori_fold_mode_end(uint64_t before)
{
	(void)before;
}
#endif
