/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-modify-writes of words that another rank or another thread changes, at system scope;
 * oriel/dev/detail/atomic.h calls them. The operation is a constant where a program calls a device
 * function, and the switches below leave one instruction.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_ORDER_ATOMIC_H
#define ORIEL_DEV_DETAIL_ORDER_ATOMIC_H

#include <oriel/dev/detail/order.h>

enum oriel_dev_atomic_op {
	ORIEL_DEV_ATOMIC_ADD,
	ORIEL_DEV_ATOMIC_AND,
	ORIEL_DEV_ATOMIC_OR,
	ORIEL_DEV_ATOMIC_XOR,
	ORIEL_DEV_ATOMIC_SWAP,
	ORIEL_DEV_ATOMIC_COMPARE_SWAP,
	ORIEL_DEV_ATOMIC_FETCH, /* changes nothing */
	ORIEL_DEV_ATOMIC_SET,   /* a SWAP without a result */
};

/* The name of the operation in records of faults. */
ORIEL_DEV uint32_t ori_dev_atomic_what(enum oriel_dev_atomic_op op)
{
	return op == ORIEL_DEV_ATOMIC_ADD ? (uint32_t)ORIEL_DEV_FETCH_ADD
					  : (uint32_t)ORIEL_DEV_FETCH_AND - 1 + (uint32_t)op;
}

/* The value of a word that held @old after the operation, in as many bits as the word has. */
ORIEL_DEV uint64_t ori_dev_atomic_apply(enum oriel_dev_atomic_op op, uint64_t old, uint64_t value,
					uint64_t compare)
{
	switch (op) {
	case ORIEL_DEV_ATOMIC_ADD:
		return old + value;
	case ORIEL_DEV_ATOMIC_AND:
		return old & value;
	case ORIEL_DEV_ATOMIC_OR:
		return old | value;
	case ORIEL_DEV_ATOMIC_XOR:
		return old ^ value;
	case ORIEL_DEV_ATOMIC_SWAP:
	case ORIEL_DEV_ATOMIC_SET:
		return value;
	case ORIEL_DEV_ATOMIC_COMPARE_SWAP:
		return old == compare ? value : old;
	case ORIEL_DEV_ATOMIC_FETCH:
		break;
	}
	return old;
}

#ifdef __CUDA_ARCH__
/* @how: order, scope and operation; @c: the constraint of a register of the word's size. */
#define ORIEL_DEV_ATOM(how, c, old, word, value)                     \
	asm volatile("atom.acq_rel.sys.global." how " %0, [%1], %2;" \
		     : "=" c(old)                                    \
		     : "l"(word), c(value)                           \
		     : "memory")
#define ORIEL_DEV_ATOM_CAS(how, c, old, word, compare, value)                \
	asm volatile("atom.acq_rel.sys.global.cas." how " %0, [%1], %2, %3;" \
		     : "=" c(old)                                            \
		     : "l"(word), c(compare), c(value)                       \
		     : "memory")
#endif

/*
 * Acquire and release; returns the old value. A FETCH changes nothing that a release could
 * announce, and a SET reads nothing that could be acquired: they are a load and a store.
 */
ORIEL_DEV uint64_t ori_dev_atomic64(enum oriel_dev_atomic_op op, uint64_t *word, uint64_t value,
				    uint64_t compare)
{
#ifdef __CUDA_ARCH__
	uint64_t old = 0;

	switch (op) {
	case ORIEL_DEV_ATOMIC_ADD:
		return ori_dev_fetch_add_acq_rel(word, value);
	case ORIEL_DEV_ATOMIC_AND:
		ORIEL_DEV_ATOM("and.b64", "l", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_OR:
		ORIEL_DEV_ATOM("or.b64", "l", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_XOR:
		ORIEL_DEV_ATOM("xor.b64", "l", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_SWAP:
		ORIEL_DEV_ATOM("exch.b64", "l", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_COMPARE_SWAP:
		ORIEL_DEV_ATOM_CAS("b64", "l", old, word, compare, value);
		return old;
	case ORIEL_DEV_ATOMIC_FETCH:
		return oriel_dev_load_acquire(word);
	case ORIEL_DEV_ATOMIC_SET:
		oriel_dev_store_release(word, value);
		return 0;
	}
	return old;
#else
	switch (op) {
	case ORIEL_DEV_ATOMIC_ADD:
		return ori_dev_fetch_add_acq_rel(word, value);
	case ORIEL_DEV_ATOMIC_AND:
		return __atomic_fetch_and(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_OR:
		return __atomic_fetch_or(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_XOR:
		return __atomic_fetch_xor(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_SWAP:
		return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_COMPARE_SWAP:
		(void)__atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_ACQ_REL,
						  __ATOMIC_ACQUIRE);
		return compare;
	case ORIEL_DEV_ATOMIC_FETCH:
		return oriel_dev_load_acquire(word);
	case ORIEL_DEV_ATOMIC_SET:
		oriel_dev_store_release(word, value);
		return 0;
	}
	return 0;
#endif
}

/* The same for words of 4 bytes. */
ORIEL_DEV uint32_t ori_dev_atomic32(enum oriel_dev_atomic_op op, uint32_t *word, uint32_t value,
				    uint32_t compare)
{
#ifdef __CUDA_ARCH__
	uint32_t old = 0;

	switch (op) {
	case ORIEL_DEV_ATOMIC_ADD:
		ORIEL_DEV_ATOM("add.u32", "r", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_AND:
		ORIEL_DEV_ATOM("and.b32", "r", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_OR:
		ORIEL_DEV_ATOM("or.b32", "r", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_XOR:
		ORIEL_DEV_ATOM("xor.b32", "r", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_SWAP:
		ORIEL_DEV_ATOM("exch.b32", "r", old, word, value);
		return old;
	case ORIEL_DEV_ATOMIC_COMPARE_SWAP:
		ORIEL_DEV_ATOM_CAS("b32", "r", old, word, compare, value);
		return old;
	case ORIEL_DEV_ATOMIC_FETCH:
		return ori_dev_load_acquire32(word);
	case ORIEL_DEV_ATOMIC_SET:
		ori_dev_store_release32(word, value);
		return 0;
	}
	return old;
#else
	switch (op) {
	case ORIEL_DEV_ATOMIC_ADD:
		return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_AND:
		return __atomic_fetch_and(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_OR:
		return __atomic_fetch_or(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_XOR:
		return __atomic_fetch_xor(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_SWAP:
		return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
	case ORIEL_DEV_ATOMIC_COMPARE_SWAP:
		(void)__atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_ACQ_REL,
						  __ATOMIC_ACQUIRE);
		return compare;
	case ORIEL_DEV_ATOMIC_FETCH:
		return ori_dev_load_acquire32(word);
	case ORIEL_DEV_ATOMIC_SET:
		ori_dev_store_release32(word, value);
		return 0;
	}
	return 0;
#endif
}

#undef ORIEL_DEV_ATOM
#undef ORIEL_DEV_ATOM_CAS

#endif
