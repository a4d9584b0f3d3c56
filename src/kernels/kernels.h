/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device code of the library itself: operations of a window, one kernel each, for streams of
 * the host. Compiled by nvcc and stored in the library as bytes; src/window launches it.
 */
#ifndef ORI_KERNELS_KERNELS_H
#define ORI_KERNELS_KERNELS_H

#include <oriel/dev/exchange.h>

/*
 * Number, name and threads of a block. Kernel stream_NAME has the arguments (struct
 * oriel_dev_window, struct ori_kernel_call), by value, and does what act.h says.
 */
#define ORI_KERNELS(X)                                 \
	X(PUT, put, 512)                               \
	X(PUT_VALUE, put_value, 1)                     \
	X(GET, get, 512)                               \
	X(ATOMIC, atomic, 1)                           \
	X(PUT_SIGNAL, put_signal, 512)                 \
	X(PUT_COUNTER, put_counter, 512)               \
	X(PUT_SIGNAL_COUNTER, put_signal_counter, 512) \
	X(SIGNAL, signal, 1)                           \
	X(SIGNAL_ALL, signal_all, 32)                  \
	X(SIGNAL_COUNTER, signal_counter, 1)           \
	X(WAIT_SIGNAL, wait_signal, 1)                 \
	X(WAIT_FROM, wait_signal_from, 1)              \
	X(WAIT_NEXT, wait_signal_next, 1)              \
	X(WAIT_COUNTER, wait_counter, 1)               \
	X(READ_SIGNAL, read_signal, 1)                 \
	X(READ_FROM, read_signal_from, 1)              \
	X(READ_COUNTER, read_counter, 1)               \
	X(BARRIER, barrier, 32)                        \
	X(BARRIER_ARRIVE, barrier_arrive, 32)          \
	X(BARRIER_WAIT, barrier_wait, 32)              \
	X(BARRIER_PEER, barrier_peer, 1)               \
	X(BARRIER_PEER_ARRIVE, barrier_peer_arrive, 1) \
	X(BARRIER_PEER_WAIT, barrier_peer_wait, 1)     \
	X(SEND, send, 512)                             \
	X(RECV, recv, 512)                             \
	X(DRAIN, drain, 1)                             \
	X(FLUSH, flush, 1)                             \
	X(RESET, reset_signals, 128)                   \
	X(RESET_COUNTER, reset_counter, 1)             \
	X(GATHER_LINES, gather_lines, 608)             \
	X(GATHER_PUTS, gather_puts, 512)               \
	X(BROADCAST, broadcast, 512)                   \
	X(EXCHANGE, exchange, 512)                     \
	X(REDUCE_LINES, reduce_lines, 320)             \
	X(REDUCE_STAGED, reduce_staged, 512)           \
	X(REDUCE_ROWS, reduce_rows, 512)               \
	X(REDUCE_BLOCK, reduce_block, 512)             \
	X(REDUCE_SUMS, reduce_sums, 512)               \
	X(JOB_BEGIN, job_begin, 1)                     \
	X(JOB_END, job_end, 1)                         \
	X(TRIAL, trial, 1)

#define ORI_KERNEL_NUMBER(number, name, threads) ORI_KERNEL_##number,
#define ORI_KERNEL_NAME(number, name, threads) "stream_" #name,
#define ORI_KERNEL_THREADS(number, name, threads) threads,
enum ori_kernel { ORI_KERNELS(ORI_KERNEL_NUMBER) ORI_KERNEL_COUNT };

/* The arguments that differ between two calls. Zero if an operation has no such argument. */
struct ori_kernel_call {
	uint64_t at;      /* offset in a window */
	uint64_t value;   /* to store, to add, to compare with, to wait for */
	uint64_t compare; /* of an atomic compare_swap, which stores @value */
	uint64_t length;  /* of a reduction elements, else bytes */
	void *memory;     /* of this rank, which the GPU reaches: source, target or result */
	uint32_t peer;
	uint32_t id; /* signal, slot, channel, or block of a reduction */
	uint32_t op; /* enum oriel_signal_op, oriel_compare or oriel_dev_atomic_op; of a staged
			reduction 1 if owners store results to all ranks */
	uint32_t counter;
	uint32_t parts; /* blocks, for those that are launched with several */
	uint32_t bytes; /* of the word of an atomic, and of its result */
	struct oriel_dev_gather gather;
	struct oriel_dev_reduction reduction;
	const struct oriel_dev_alltoallv *layout; /* [ranks], which the GPU reaches */
};

/* A fatbin for every GPU that the library knows; NULL: built without nvcc. */
const void *ori_kernels_image(void);

#endif
