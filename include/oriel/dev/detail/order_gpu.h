/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of oriel/dev/detail/order.h for words that only the threads of one GPU share, or
 * only those of the CPU: the host reads copies of the former. Rings call them. They end at the L2
 * of the GPU, where those of system scope may wait for the bus.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_ORDER_GPU_H
#define ORIEL_DEV_DETAIL_ORDER_GPU_H

#include <oriel/dev/detail/order.h>

ORIEL_DEV uint64_t ori_dev_load_relaxed_gpu(const uint64_t *word)
{
#ifdef __CUDA_ARCH__
	uint64_t value;

	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return oriel_dev_load_relaxed(word);
#endif
}

ORIEL_DEV uint64_t ori_dev_load_acquire_gpu(const uint64_t *word)
{
#ifdef __CUDA_ARCH__
	uint64_t value;

	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return oriel_dev_load_acquire(word);
#endif
}

/* Make an acquire of the relaxed load that read @seen from @word; see ori_dev_acquire(). */
ORIEL_DEV uint64_t ori_dev_acquire_gpu(const uint64_t *word, uint64_t seen)
{
#ifdef ORIEL_DEV_HALF_FENCES
	(void)word;
	asm volatile("fence.acquire.gpu;" : : : "memory");
	return seen;
#else
	(void)seen;
	return ori_dev_load_acquire_gpu(word);
#endif
}

ORIEL_DEV uint64_t ori_dev_fetch_add_relaxed_gpu(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	uint64_t old;

	asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(value)
		     : "memory");
	return old;
#else
	return ori_dev_fetch_add_relaxed_sys(word, value);
#endif
}

/* Increase @word to @value, unless it has reached that already. */
ORIEL_DEV void ori_dev_max_release_gpu(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("red.release.gpu.global.max.u64 [%0], %1;"
		     :
		     : "l"(word), "l"(value)
		     : "memory");
#else
	ori_dev_max_release(word, value);
#endif
}

/* Did @word hold *@seen, so that it holds @value now? *@seen becomes its old value. */
ORIEL_DEV bool ori_dev_swap_acquire_gpu(uint64_t *word, uint64_t *seen, uint64_t value)
{
#ifdef __CUDA_ARCH__
	uint64_t old;
	bool has_swapped;

	asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(word), "l"(*seen), "l"(value)
		     : "memory");
	has_swapped = old == *seen;
	*seen = old;
	return has_swapped;
#else
	return __atomic_compare_exchange_n(word, seen, value, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_ACQUIRE);
#endif
}

/*
 * The same, also a release: on a GPU together with the fence before it, which is
 * ori_dev_wqe_before_turn() or ori_dev_wqe_before_record().
 */
ORIEL_DEV bool ori_dev_swap_after_fence_gpu(uint64_t *word, uint64_t *seen, uint64_t value)
{
#ifdef __CUDA_ARCH__
	return ori_dev_swap_acquire_gpu(word, seen, value);
#else
	return __atomic_compare_exchange_n(word, seen, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV bool ori_dev_swap_acq_rel_gpu(uint64_t *word, uint64_t *seen, uint64_t value)
{
#ifdef __CUDA_ARCH__
	uint64_t old;
	bool has_swapped;

	asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(word), "l"(*seen), "l"(value)
		     : "memory");
	has_swapped = old == *seen;
	*seen = old;
	return has_swapped;
#else
	return __atomic_compare_exchange_n(word, seen, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
#endif
}

/*
 * Did @word hold @expected, so that it holds @value now? Among the threads of one GPU or of the
 * CPU: atomics of GPU and CPU on host memory are not atomic with each other.
 */
ORIEL_DEV bool ori_dev_swap_acq_rel32_gpu(uint32_t *word, uint32_t expected, uint32_t value)
{
#ifdef __CUDA_ARCH__
	uint32_t old;

	asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
		     : "=r"(old)
		     : "l"(word), "r"(expected), "r"(value)
		     : "memory");
	return old == expected;
#else
	return __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
#endif
}

#endif
