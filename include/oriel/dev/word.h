/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of memory that another rank or another thread changes: kernels and threads of the CPU
 * read and write them with these. Order stands in the name, the scope is the system, and relaxed
 * means single-copy atomic and nothing more. Any number of threads may call them at once, on any
 * word.
 */
#ifndef ORIEL_DEV_WORD_H
#define ORIEL_DEV_WORD_H

#include <oriel/dev/detail/cpu.h>
#include <oriel/dev/detail/types.h>

/*
 * All of these but the last two declare to a GPU that words lie in global memory. A load that might
 * be from a thread's own memory may give each thread of a warp another value, so that the warp
 * diverges in all that depends on it.
 */

/* Any thread. */
ORIEL_DEV uint64_t oriel_dev_load_relaxed(const uint64_t *word)
{
#ifdef __CUDA_ARCH__
	uint64_t value;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

/* Any thread. */
ORIEL_DEV uint64_t oriel_dev_load_acquire(const uint64_t *word)
{
#ifdef __CUDA_ARCH__
	uint64_t value;

	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/* Any thread. */
ORIEL_DEV void oriel_dev_store_relaxed(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
}

/* Any thread. */
ORIEL_DEV void oriel_dev_store_release(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/* Any thread. */
ORIEL_DEV void oriel_dev_add_relaxed(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;"
		     :
		     : "l"(word), "l"(value + ORIEL_DEV_OWN)
		     : "memory");
#else
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

/* Any thread. */
ORIEL_DEV void oriel_dev_add_release(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("red.release.sys.global.add.u64 [%0], %1;"
		     :
		     : "l"(word), "l"(value + ORIEL_DEV_OWN)
		     : "memory");
#else
	__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
#endif
}

/* Any thread: a monotonic time in ns. Comparable only within one device or one machine. */
ORIEL_DEV uint64_t oriel_dev_clock_ns(void)
{
#ifdef __CUDA_ARCH__
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
	return now;
#else
	return oriel_cpu_clock_ns();
#endif
}

/* Any thread: a short pause between two polls. */
ORIEL_DEV void oriel_dev_relax(void)
{
#if defined(__CUDA_ARCH__)
	/* The load of the poll is the pause: a sleep would add to every wake-up. */
#elif defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" : : : "memory");
#endif
}

#endif
