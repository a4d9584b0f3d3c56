/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: the types and operations that oriel/allreduce.h, oriel/reduce_scatter.h and
 * oriel/reduce_root.h share, and the order of the additions, which is the same in every execution.
 * docs/reductions.md says why all algorithms keep it. Users include those headers.
 *
 * The order. The ranks form blocks of oriel_reduction.block consecutive ranks; the last one may be
 * shorter. For each element, the operation is applied from the left to the values of the ranks of a
 * block in the order of the ranks, and then from the left to the results of the blocks in their
 * order. With four ranks in blocks of two a sum is (x0 + x1) + (x2 + x3); in one block it is
 * ((x0 + x1) + x2) + x3. Block 0 follows the domains, so that the bits of a sum of floats change
 * with the placement of the ranks: give a block of your own where they may not.
 *
 * The precision. Each value is converted exactly to the accumulation type, each operation is done
 * and rounded in that type, and its results stay in it, also where they travel between ranks. The
 * end result alone is rounded to the type of the elements. Accumulation types: float for FP8, FP16,
 * BF16 and FP32; double for FP64; of integers their own type, and for averages the 64-bit type of
 * their sign. Rounding is to nearest, ties to even, with subnormal numbers, whatever mode of the
 * processor the calling thread has set; no multiplication is fused with an addition.
 *
 * Special values. A NaN in any rank makes a NaN of every operation on floating-point numbers. A NaN
 * as the end result has the bits 0x7fc00000, 0x7ff8000000000000, 0x7e00 (FP16), 0x7fc0 (BF16) or
 * 0x7f (FP8), whatever NaN the ranks had. Minimum and maximum are those of IEEE 754-2019, with
 * -0 < +0. Beyond the largest number FP8_E4M3 becomes NaN, since it has no infinity, and the other
 * types infinity. Integers wrap around modulo 2^bits.
 *
 * So the bits of a result depend on the values, the number of ranks, the block and the reduction
 * alone: not on the algorithm, the number of elements, addresses, timing, earlier calls, the form
 * of the call or the processor.
 */
#ifndef ORIEL_REDUCE_H
#define ORIEL_REDUCE_H

#include <oriel/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

enum oriel_reduce_flags {
	/*
	 * All-reduces may add in another order where that is faster: host memory of several
	 * domains, operations other than USER. The algorithms RING and RECURSIVE need it. All ranks
	 * get the same bits, and the same ones each time from the same algorithm, but not those
	 * above, and other ones for other numbers of elements. docs/reductions.md has the orders.
	 * The setting ORIEL_REDUCE_FAST, off unless set, is this flag of all reductions.
	 */
	ORIEL_REDUCE_FAST = 1,
};

/* A reduction. Fields that a field's comment does not limit are 0. */
struct oriel_reduction {
	size_t size;    /* of this struct, as the caller knew it */
	unsigned type;  /* enum oriel_type; equal on all ranks */
	unsigned op;    /* enum oriel_op; equal on all ranks */
	unsigned block; /* consecutive ranks that are added first; equal on all ranks. 0: the
			   ranks of a domain, which on GPUs may be another one than on their hosts,
			   if all domains are equally many consecutive ranks, else all ranks. The
			   query functions return it. */
	unsigned flags; /* enum oriel_reduce_flags; equal on all ranks */

	/*
	 * PREMUL_SUM: the factor of this rank, of the accumulation type, aligned to its size. Read
	 * by the create function. Ranks may have different ones.
	 */
	const void *factor;

	/*
	 * USER: for each i below @count, replaces element i of @left by (element i of @left) OP
	 * (element i of @right), the same on all ranks. Both are aligned to 64 bytes. The
	 * accumulation type is the type itself, and NaNs stay as the function leaves them. The
	 * elements of one call, and their number, differ from execution to execution, so the
	 * operation must be one on single elements. The thread that executes calls it: the caller
	 * of a run function, or the thread of the communicator. It calls no function of the
	 * library.
	 */
	void (*function)(void *context, void *left, const void *right, size_t count);
	void *context; /* borrowed until the object is destroyed */
};

const char *oriel_type_name(enum oriel_type type); /* "fp32", ... "unknown" */
const char *oriel_op_name(enum oriel_op op);       /* "sum", ... "unknown" */
size_t oriel_type_size(enum oriel_type type);      /* in bytes; 0 if it is not a type */

/* The accumulation type of @type with @op; ORIEL_TYPE_NONE if the type does not have the @op. */
enum oriel_type oriel_type_accumulation(enum oriel_type type, enum oriel_op op);

#ifdef __cplusplus
}
#endif

#endif
