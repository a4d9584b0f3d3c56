/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a thread of a GPU that is asked what it waits for. A record of each wait would cost
 * registers; so a thread that has polled for long looks whether a reader asks, and stores what it
 * waits for, again and again for as long as it is asked. detail/wait.h calls it; src/comm/answers.h
 * asks, and reads.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_ANSWER_H
#define ORIEL_DEV_DETAIL_ANSWER_H

#include <oriel/dev/detail/order.h>

#define ORIEL_DEV_ANSWERS 128u

/*
 * All threads that wait for the same thing write one entry, and so may others meanwhile: an entry
 * whose @check is not that of its fields is none. @expected, @seen and @age_ns are those of any of
 * these threads.
 */
struct oriel_dev_answer {
	uint32_t window; /* number of the window, with the bits of its collective */
	uint32_t what;   /* enum oriel_dev_what, and enum oriel_compare above; 0: no answer */
	uint32_t peer;
	uint32_t id;
	uint32_t reserved0;
	uint32_t check; /* ori_dev_answer_check() */
	uint64_t expected;
	uint64_t seen;
	uint64_t age_ns;
	uint64_t reserved1[2];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_answer) == 64);

/* The table, in the segment that begins with the health. */
struct oriel_dev_answers {
	struct oriel_dev_answer of_ranks[ORIEL_DEV_ANSWERS]; /* what waits for ranks */
	uint64_t of_nics; /* ori_dev_answer_nic() of the last thread that wrote it */
	uint64_t reserved[7];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_answers) == 8256);

#define ORIEL_DEV_ANSWER_COMPARE_AT 16 /* bit of @what */

/* Its low bits choose the entry: peers in a row have different ones. */
ORIEL_DEV uint32_t ori_dev_answer_check(uint32_t window, uint32_t what, uint32_t peer, uint32_t id)
{
	return ((what * 31 + window) * 31 + id) * 31 + peer;
}

/*
 * Any thread that waits: answers if @asked is not 0, which is that of @health. On a GPU without a
 * branch, since each one in the loop of a wait changes what ptxas makes of the whole kernel. And
 * ptxas does not know that zero is 0, so that it keeps nothing in a register throughout the loop
 * that only the stores need. By bench/gpu/registers.py, which compares 71 kernels (nvcc 13.0,
 * sm_90), nine need more registers than without answers, and seven fewer; with plain stores 18
 * need more, with a call 25.
 */
ORIEL_DEV void ori_dev_answer(const struct oriel_dev_fault *health, uint32_t asked, uint32_t window,
			      const struct oriel_dev_aim *aim, uint64_t seen, uint64_t age_ns)
{
	uint32_t what = aim->what | aim->compare << ORIEL_DEV_ANSWER_COMPARE_AT;
#ifdef __CUDA_ARCH__
	ORIEL_DEV_ASSERT(ORIEL_DEV_ANSWERS == 128);
	asm volatile("{\n\t"
		     ".reg .pred asked;\n\t"
		     ".reg .u32 zero, check, entry, value;\n\t"
		     ".reg .u64 at, zero64, value64;\n\t"
		     "setp.ne.u32 asked, %0, 0;\n\t"
		     "shr.u32 zero, %0, 31;\n\t"
		     "cvt.u64.u32 zero64, zero;\n\t"
		     "mad.lo.u32 check, zero, 31, %3;\n\t"
		     "mad.lo.u32 check, check, 31, %2;\n\t"
		     "mad.lo.u32 check, check, 31, %5;\n\t"
		     "mad.lo.u32 check, check, 31, %4;\n\t"
		     "and.b32 entry, check, 127;\n\t"
		     "mad.lo.u32 entry, entry, 64, %0;\n\t"
		     "cvt.u64.u32 at, entry;\n\t"
		     "add.u64 at, %1, at;\n\t"
		     "@asked st.relaxed.sys.global.u32 [at + 20], check;\n\t"
		     "@asked st.relaxed.sys.global.u64 [at + 40], %8;\n\t"
		     "add.u64 value64, zero64, %7;\n\t"
		     "@asked st.relaxed.sys.global.u64 [at + 32], value64;\n\t"
		     "add.u64 value64, zero64, %6;\n\t"
		     "@asked st.relaxed.sys.global.u64 [at + 24], value64;\n\t"
		     "add.u32 value, zero, %2;\n\t"
		     "@asked st.relaxed.sys.global.u32 [at], value;\n\t"
		     "add.u32 value, zero, %3;\n\t"
		     "@asked st.relaxed.sys.global.u32 [at + 4], value;\n\t"
		     "add.u32 value, zero, %4;\n\t"
		     "@asked st.relaxed.sys.global.u32 [at + 8], value;\n\t"
		     "add.u32 value, zero, %5;\n\t"
		     "@asked st.relaxed.sys.global.u32 [at + 12], value;\n\t"
		     "}"
		     :
		     : "r"(asked), "l"(health), "r"(window), "r"(what), "r"(aim->peer),
		       "r"(aim->id), "l"(aim->operand), "l"(seen), "l"(age_ns)
		     : "memory");
#else
	uint32_t check = ori_dev_answer_check(window, what, aim->peer, aim->id);
	struct oriel_dev_answer *answer =
		(struct oriel_dev_answer *)((uintptr_t)health + asked) + check % ORIEL_DEV_ANSWERS;

	if (!asked)
		return;
	__atomic_store_n(&answer->check, check, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->age_ns, age_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->seen, seen, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->expected, aim->operand, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->window, window, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->what, what, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->peer, aim->peer, __ATOMIC_RELAXED);
	__atomic_store_n(&answer->id, aim->id, __ATOMIC_RELAXED);
#endif
}

#define ORIEL_DEV_ANSWER_AGE_AT 20 /* bit of an age in ns, of which the rest is the answer's */

/*
 * Any thread that waits for a NIC to complete requests for @peer: one word, so that it costs a
 * register in few kernels. Threads with other peers overwrite it, and a reader sees them in turn.
 */
ORIEL_DEV void ori_dev_answer_nic(const struct oriel_dev_fault *health, uint32_t asked,
				  uint32_t peer, uint64_t age_ns)
{
	uint64_t word = (uint64_t)(peer + 1) << 32 | (uint32_t)(age_ns >> ORIEL_DEV_ANSWER_AGE_AT);

#ifdef __CUDA_ARCH__
	asm volatile("{\n\t"
		     ".reg .pred asked;\n\t"
		     ".reg .u64 at;\n\t"
		     "setp.ne.u32 asked, %0, 0;\n\t"
		     "cvt.u64.u32 at, %0;\n\t"
		     "add.u64 at, at, %1;\n\t"
		     "@asked st.relaxed.sys.global.u64 [at + 8192], %2;\n\t"
		     "}"
		     :
		     : "r"(asked), "l"(health), "l"(word)
		     : "memory");
#else
	struct oriel_dev_answers *answers = (struct oriel_dev_answers *)((uintptr_t)health + asked);

	if (asked)
		__atomic_store_n(&answers->of_nics, word, __ATOMIC_RELAXED);
#endif
}

#endif
