/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every access to memory that another rank, a NIC or another thread of the group touches; all
 * device functions use it. Order and scope stand in the name: scope is the system, relaxed
 * means single-copy atomic and nothing more.
 *
 * A waiter polls relaxed and acquires once, when the value has arrived: on a GPU by a fence
 * after the load (PTX ISA 8.8, "Release and acquire patterns"), on a CPU by loading the word
 * again, which reads the awaited value or a later one of the same release sequence (C11
 * 5.1.2.4).
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_ORDER_H
#define ORIEL_DEV_DETAIL_ORDER_H

#include <oriel/dev/word.h>

#if defined(__SANITIZE_THREAD__)
#define ORIEL_DEV_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ORIEL_DEV_TSAN
#endif
#endif

#ifdef __CUDA_ARCH__
/*
 * @word, computed ahead of the branch that asks whether it may be used; nvcc would compute it
 * behind the branch.
 */
ORIEL_DEV uint64_t *ori_dev_now(uint64_t *word)
{
	asm volatile("" : "+l"(word));
	return word;
}
#endif

/* The pointer at @pointer, of any type. */
ORIEL_DEV void *ori_dev_load_acquire_pointer(const void *pointer)
{
#ifdef __CUDA_ARCH__
	void *value;

	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(pointer) : "memory");
	return value;
#else
	return __atomic_load_n((void *const *)pointer, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV void ori_dev_store_release_pointer(void *pointer, void *value)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(pointer), "l"(value) : "memory");
#else
	__atomic_store_n((void **)pointer, value, __ATOMIC_RELEASE);
#endif
}

ORIEL_DEV uint64_t ori_dev_fetch_add_relaxed_sys(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	uint64_t old;

	asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(value)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV uint64_t ori_dev_fetch_add_acq_rel(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	uint64_t old;

	asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(value)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
#endif
}

/*
 * fence.acquire and fence.release are the part of fence.acq_rel that is needed: the first
 * empties the L1 cache, the second waits until earlier stores are performed.
 */
#if defined(__CUDA_ARCH__) && \
	(__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8))
#define ORIEL_DEV_HALF_FENCES
#endif

/*
 * Make an acquire of the relaxed load that read @seen from @word. Returns the value of the
 * acquire, which may be a later one.
 */
ORIEL_DEV uint64_t ori_dev_acquire(const uint64_t *word, uint64_t seen)
{
#ifdef ORIEL_DEV_HALF_FENCES
	(void)word;
	asm volatile("fence.acquire.sys;" : : : "memory");
	return seen;
#else
	(void)seen;
	return oriel_dev_load_acquire(word);
#endif
}

ORIEL_DEV uint32_t ori_dev_acquire32(const uint32_t *word, uint32_t seen)
{
#ifdef ORIEL_DEV_HALF_FENCES
	(void)word;
	asm volatile("fence.acquire.sys;" : : : "memory");
	return seen;
#elif defined(__CUDA_ARCH__)
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
	return seen;
#else
	(void)seen;
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/*
 * The same for a waiter of several words: this for each of them, the next function after the
 * last, which is all of it on a GPU.
 */
ORIEL_DEV void ori_dev_acquire_each(const uint64_t *word)
{
#ifdef ORIEL_DEV_HALF_FENCES
	(void)word;
#else
	(void)oriel_dev_load_acquire(word);
#endif
}

ORIEL_DEV void ori_dev_acquire_all(void)
{
#ifdef ORIEL_DEV_HALF_FENCES
	asm volatile("fence.acquire.sys;" : : : "memory");
#endif
}

/*
 * A release in two halves, so that a GPU may do something between them: begin,
 * then store or add. On a CPU the second half is all of it.
 */
ORIEL_DEV void ori_dev_release_begin(void)
{
#if defined(ORIEL_DEV_HALF_FENCES)
	asm volatile("fence.release.sys;" : : : "memory");
#elif defined(__CUDA_ARCH__)
	asm volatile("fence.acq_rel.sys;" : : : "memory");
#endif
}

/*
 * The same if @word, not NULL, is known to be the target of the second half. The fence takes
 * the word as an operand, since ptxas would else compute it behind the fence, for some 20 ns more.
 */
ORIEL_DEV void ori_dev_release_begin_at(const uint64_t *word)
{
#ifdef ORIEL_DEV_HALF_FENCES
	asm volatile("{\n\t"
		     ".reg .pred there;\n\t"
		     "setp.ne.u64 there, %0, 0;\n\t"
		     "@there fence.release.sys;\n\t"
		     "}"
		     :
		     : "l"(word)
		     : "memory");
#else
	(void)word;
	ori_dev_release_begin();
#endif
}

ORIEL_DEV void ori_dev_release_store(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	oriel_dev_store_relaxed(word, value);
#else
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

ORIEL_DEV void ori_dev_release_add(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	oriel_dev_add_relaxed(word, value);
#else
	__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
#endif
}

/* Increase @word to @value, unless it has reached that already. */
ORIEL_DEV void ori_dev_max_release(uint64_t *word, uint64_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("red.release.sys.global.max.u64 [%0], %1;"
		     :
		     : "l"(word), "l"(value)
		     : "memory");
#else
	uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (seen < value && !__atomic_compare_exchange_n(word, &seen, value, true,
							    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
#endif
}

/* Did @word hold @expected, so that it holds @value now? */
ORIEL_DEV bool ori_dev_swap_acq_rel(uint64_t *word, uint64_t expected, uint64_t value)
{
#ifdef __CUDA_ARCH__
	uint64_t old;

	asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(word), "l"(expected), "l"(value)
		     : "memory");
	return old == expected;
#else
	return __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
#endif
}

/*
 * Are all threads of this warp that are here done? It ends a loop that threads leave at different
 * times: where a loop ends by what one thread alone sees, ptxas 13.0 expects the threads of a warp
 * to part, and lets them meet again around each loop of the kernel, which makes a signal 20 to 70
 * ns slower on an H200 also where that loop is not executed (oriel_rows). Those that are done wait
 * in the loop, so they must have let go by then of what others wait for.
 */
ORIEL_DEV bool ori_dev_all_done(bool is_done)
{
#ifdef __CUDA_ARCH__
	return __all_sync(__activemask(), is_done);
#else
	return is_done;
#endif
}

/*
 * Two neighbouring words, aligned to 16 bytes, in one access where the machine
 * has one. Each word is single-copy atomic, the pair is not (PTX ISA 8.8, "Vector
 * data types": a vector access is one access for each element, in no order).
 */
ORIEL_DEV void ori_dev_store_pair_relaxed(uint64_t *pair, uint64_t first, uint64_t second)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
		     :
		     : "l"(pair), "l"(first), "l"(second)
		     : "memory");
#else
	__atomic_store_n(&pair[0], first, __ATOMIC_RELAXED);
	__atomic_store_n(&pair[1], second, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV void ori_dev_load_pair_relaxed(const uint64_t *pair, uint64_t *first, uint64_t *second)
{
#ifdef __CUDA_ARCH__
	uint64_t low, high;

	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(low), "=l"(high)
		     : "l"(pair)
		     : "memory");
	*first = low;
	*second = high;
#else
	*first = __atomic_load_n(&pair[0], __ATOMIC_RELAXED);
	*second = __atomic_load_n(&pair[1], __ATOMIC_RELAXED);
#endif
}

/* The same if @is_wanted, without a branch, so that several loads are under way at once. */
ORIEL_DEV void ori_dev_load_pair_if(const uint64_t *pair, bool is_wanted, uint64_t *first,
				    uint64_t *second)
{
#ifdef __CUDA_ARCH__
	asm volatile("{\n\t"
		     ".reg .pred wanted;\n\t"
		     "setp.ne.u32 wanted, %3, 0;\n\t"
		     "@wanted ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];\n\t"
		     "}"
		     : "+l"(*first), "+l"(*second)
		     : "l"(pair), "r"((uint32_t)is_wanted)
		     : "memory");
#else
	if (is_wanted)
		ori_dev_load_pair_relaxed(pair, first, second);
#endif
}

ORIEL_DEV uint32_t ori_dev_load_relaxed32(const uint32_t *word)
{
#ifdef __CUDA_ARCH__
	uint32_t value;

	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV uint32_t ori_dev_load_acquire32(const uint32_t *word)
{
#ifdef __CUDA_ARCH__
	uint32_t value;

	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV void ori_dev_store_release32(uint32_t *word, uint32_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
#else
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/* Returns the old value of @word, which becomes @value. */
ORIEL_DEV uint32_t ori_dev_exchange_acquire32(uint32_t *word, uint32_t value)
{
#ifdef __CUDA_ARCH__
	uint32_t old;

	asm volatile("atom.acquire.sys.global.exch.b32 %0, [%1], %2;"
		     : "=r"(old)
		     : "l"(word), "r"(value)
		     : "memory");
	return old;
#else
	return __atomic_exchange_n(word, value, __ATOMIC_ACQUIRE);
#endif
}

/*
 * All this thread wrote before is visible to every rank before anything it
 * reads or writes after.
 */
ORIEL_DEV void ori_dev_fence_full(void)
{
#if defined(__CUDA_ARCH__)
	asm volatile("fence.sc.sys;" : : : "memory");
#elif defined(ORIEL_DEV_TSAN)
	/* TSAN does not know fences; a read-modify-write has the same effect on x86 and AArch64. */
	uint64_t word = 0;

	__atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/*
 * A NIC fetches by DMA the WQEs that a doorbell announces. The next three stand between stores
 * that others must see in this order: payload and WQEs, then the word by which another poster
 * may ring for them, or the doorbell record, then the doorbell. Threads that poll in the NIC's
 * place acquire the record and the doorbell, which are stored with release.
 *
 * Each fence makes a release pattern of the store after it (PTX ISA 8.8, "Release and acquire
 * patterns"), which includes everything this thread has acquired before. None of them acquires,
 * which would empty the L1 cache.
 *
 * x86 keeps stores in order; only a doorbell page mapped write-combining needs the sfence.
 * AArch64 must say that the observer is outside the inner domain.
 */
ORIEL_DEV void ori_dev_wqe_before_turn(void)
{
#if defined(ORIEL_DEV_HALF_FENCES)
	asm volatile("fence.release.gpu;" : : : "memory");
#elif defined(__CUDA_ARCH__)
	asm volatile("fence.acq_rel.gpu;" : : : "memory");
#endif
}

ORIEL_DEV void ori_dev_wqe_before_record(void)
{
#if defined(ORIEL_DEV_HALF_FENCES)
	asm volatile("fence.release.sys;" : : : "memory");
#elif defined(__CUDA_ARCH__)
	asm volatile("fence.acq_rel.sys;" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshst" : : : "memory");
#endif
}

ORIEL_DEV void ori_dev_record_before_doorbell(void)
{
#if defined(ORIEL_DEV_HALF_FENCES)
	asm volatile("fence.release.sys;" : : : "memory");
#elif defined(__CUDA_ARCH__)
	asm volatile("fence.acq_rel.sys;" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshst" : : : "memory");
#elif defined(__x86_64__)
	__builtin_ia32_sfence();
#endif
}

/* The doorbell record: a word of memory that the NIC reads. */
ORIEL_DEV void ori_dev_record(uint32_t *record, uint32_t value)
{
#ifdef __CUDA_ARCH__
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(record), "r"(value) : "memory");
#else
	__atomic_store_n(record, value, __ATOMIC_RELEASE);
#endif
}

/* The doorbell: a register of the NIC. One store of 8 bytes, never read. */
ORIEL_DEV void ori_dev_doorbell(uint64_t *doorbell, uint64_t value)
{
#if defined(__CUDA_ARCH__) && \
	(__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 2))
	asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;"
		     :
		     : "l"(doorbell), "l"(value)
		     : "memory");
#elif defined(__CUDA_ARCH__)
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;"
		     :
		     : "l"(doorbell), "l"(value)
		     : "memory");
#else
	__atomic_store_n(doorbell, value, __ATOMIC_RELEASE);
#endif
}

/* From the order of this machine to the order of the wire and back. */
ORIEL_DEV uint32_t ori_dev_swap_bytes32(uint32_t value)
{
#ifdef __CUDA_ARCH__
	return __byte_perm(value, 0, 0x0123);
#else
	return __builtin_bswap32(value);
#endif
}

ORIEL_DEV uint64_t ori_dev_swap_bytes(uint64_t value)
{
	return (uint64_t)ori_dev_swap_bytes32((uint32_t)value) << 32 |
	       ori_dev_swap_bytes32((uint32_t)(value >> 32));
}

/* Between two polls of a wait that has lasted @waited_ns. */
ORIEL_DEV void ori_dev_back_off(uint64_t waited_ns)
{
#ifdef __CUDA_ARCH__
	(void)waited_ns;
#else
	oriel_cpu_back_off(waited_ns);
#endif
}

#endif
