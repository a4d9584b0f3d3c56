/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on words of a peer's data, of 8 bytes and, with the suffix _32, of 4. Kernels and threads
 * of the CPU call them; see oriel/dev.h for what holds for all device functions.
 *
 * The word at offset @at of @peer is aligned to its size and lies in a buffer that begins at a
 * multiple of 8 bytes (ORIEL_ERR_INVALID); for a word of 4 bytes the buffer has all of the aligned
 * 8 bytes around it (ORIEL_ERR_RANGE), which keep their other half.
 * *@old is the value before the operation, written on success; the call waits for it.
 *
 * Each is one atomic step among all atomics of its size on that word, and acquire and release,
 * but that fetch releases and set acquires nothing. That orders loads and stores of the calling
 * thread, not its puts: before an atomic that announces puts, as the end of a lock does, the caller
 * flushes them (oriel/dev.h).
 *
 * The atomics of processors and of each NIC are not atomic with each other, nor are puts to the
 * word with any of them. A window has one agent for all its words (enum oriel_atomics), or
 * oriel_window_atomics() returns ORIEL_ATOMICS_DEFAULT: then ranks that change one word must all
 * reach it by mapped memory or all by one rail, or the window asks for an agent. With
 * ORIEL_ATOMICS_HCA all that is said below of rdma holds for mapped peers and the rank itself, too;
 * without the code of that path (ORIEL_DEV_PATHS) they are ORIEL_ERR_NO_PATH.
 *
 * Where some rank of the domain is joined to @peer by a bus without atomics, ranks take turns; a
 * rank that does not end its turn is a timeout for the others. By rdma one request does fetch_add,
 * fetch, fetch_32 and compare_swap, and where both NICs have masked atomics fetch_xor, fetch_xor_32
 * and fetch_add_32; without these fetch_add_32 of the upper half of its 8 bytes is one, too. All
 * others are a loop of compare-and-swaps of the NIC: one round trip if the word was 0, two if no
 * other rank changes the 8 bytes meanwhile.
 */
#ifndef ORIEL_DEV_ATOMIC_H
#define ORIEL_DEV_ATOMIC_H

#include <oriel/dev/detail/atomic.h>

/* One thread: add @value, modulo 2^64. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_add(const struct oriel_dev_window *w, uint32_t peer,
						uint64_t at, uint64_t value, uint64_t *old)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_ADD, value, 0, old);
}

/* One thread: the same for 4 bytes, modulo 2^32. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_add_32(const struct oriel_dev_window *w, uint32_t peer,
						   uint64_t at, uint32_t value, uint32_t *old)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_ADD, value, 0, old);
}

/*
 * One thread: add @value to a word of 8 bytes, and order nothing else: for numbers and for turns
 * that guard no memory. Over NVLink in half the time.
 */
ORIEL_DEV enum oriel_status oriel_dev_fetch_add_relaxed(const struct oriel_dev_window *w,
							uint32_t peer, uint64_t at, uint64_t value,
							uint64_t *old)
{
	return ori_dev_atomic(w, peer, at, ori_dev_atomic_of(ORIEL_DEV_ATOMIC_ADD, 8, value, 0),
			      old, false);
}

/* One thread: clear the bits that are not in @value. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_and(const struct oriel_dev_window *w, uint32_t peer,
						uint64_t at, uint64_t value, uint64_t *old)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_AND, value, 0, old);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_and_32(const struct oriel_dev_window *w, uint32_t peer,
						   uint64_t at, uint32_t value, uint32_t *old)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_AND, value, 0, old);
}

/* One thread: set the bits of @value. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_or(const struct oriel_dev_window *w, uint32_t peer,
					       uint64_t at, uint64_t value, uint64_t *old)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_OR, value, 0, old);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_or_32(const struct oriel_dev_window *w, uint32_t peer,
						  uint64_t at, uint32_t value, uint32_t *old)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_OR, value, 0, old);
}

/* One thread: flip the bits of @value. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_xor(const struct oriel_dev_window *w, uint32_t peer,
						uint64_t at, uint64_t value, uint64_t *old)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_XOR, value, 0, old);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_xor_32(const struct oriel_dev_window *w, uint32_t peer,
						   uint64_t at, uint32_t value, uint32_t *old)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_XOR, value, 0, old);
}

/* One thread: store @value. */
ORIEL_DEV enum oriel_status oriel_dev_swap(const struct oriel_dev_window *w, uint32_t peer,
					   uint64_t at, uint64_t value, uint64_t *old)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_SWAP, value, 0, old);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_swap_32(const struct oriel_dev_window *w, uint32_t peer,
					      uint64_t at, uint32_t value, uint32_t *old)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_SWAP, value, 0, old);
}

/* One thread: store @value if the word is @compare, which *@old then is. */
ORIEL_DEV enum oriel_status oriel_dev_compare_swap(const struct oriel_dev_window *w, uint32_t peer,
						   uint64_t at, uint64_t compare, uint64_t value,
						   uint64_t *old)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_COMPARE_SWAP, value, compare, old);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_compare_swap_32(const struct oriel_dev_window *w,
						      uint32_t peer, uint64_t at, uint32_t compare,
						      uint32_t value, uint32_t *old)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_COMPARE_SWAP, value, compare, old);
}

/* One thread: load the word, *@value. */
ORIEL_DEV enum oriel_status oriel_dev_fetch(const struct oriel_dev_window *w, uint32_t peer,
					    uint64_t at, uint64_t *value)
{
	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_FETCH, 0, 0, value);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_fetch_32(const struct oriel_dev_window *w, uint32_t peer,
					       uint64_t at, uint32_t *value)
{
	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_FETCH, 0, 0, value);
}

/*
 * One thread: store @value; in place of a put_value() where others change the word by atomics. To a
 * mapped word it is a store with release; where a NIC stores it, the call returns after that.
 */
ORIEL_DEV enum oriel_status oriel_dev_set(const struct oriel_dev_window *w, uint32_t peer,
					  uint64_t at, uint64_t value)
{
	uint64_t old;

	return ori_dev_atomic_64(w, peer, at, ORIEL_DEV_ATOMIC_SET, value, 0, &old);
}

/* One thread: the same for 4 bytes. */
ORIEL_DEV enum oriel_status oriel_dev_set_32(const struct oriel_dev_window *w, uint32_t peer,
					     uint64_t at, uint32_t value)
{
	uint32_t old;

	return ori_dev_atomic_32(w, peer, at, ORIEL_DEV_ATOMIC_SET, value, 0, &old);
}

#endif
