/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernels.h. The host has looked at the arguments. There is nobody
 * to tell of a failure but the communicator: a wait takes its limit from the
 * handle, so that passing it breaks that. Plain C, also for the CPU: tests.
 */
#include <oriel/dev.h>

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define STREAM_KERNEL extern "C" __global__ void
#define STREAM_WARP oriel_dev_warp()
#define STREAM_BLOCK oriel_dev_block()
#else
#define STREAM_KERNEL void
#define STREAM_WARP oriel_dev_thread()
#define STREAM_BLOCK oriel_dev_thread()
#endif

/* What each block does, one after the other where there are none. */
#ifdef __CUDACC__
#define STREAM_PARTS(part, c) part = blockIdx.x;
#else
#define STREAM_PARTS(part, c) for (part = 0; part < (c).parts; part++)
#endif

#define STREAM_DECLARE(number, name, threads) \
	STREAM_KERNEL name(struct oriel_dev_window w, struct ori_kernel_call c);
ORI_KERNELS(STREAM_DECLARE)

/* In the order of the stream: what comes behind may write to the memory. */
STREAM_KERNEL stream_put(struct oriel_dev_window w, struct ori_kernel_call c)
{
	struct oriel_dev_group g = STREAM_BLOCK;

	oriel_dev_wait_local(&w, g, c.peer, oriel_dev_put(&w, g, c.peer, c.at, c.memory, c.length),
			     0);
}

STREAM_KERNEL stream_get(struct oriel_dev_window w, struct ori_kernel_call c)
{
	struct oriel_dev_group g = STREAM_BLOCK;

	oriel_dev_wait_local(&w, g, c.peer, oriel_dev_get(&w, g, c.peer, c.at, c.memory, c.length),
			     0);
}

STREAM_KERNEL stream_put_signal(struct oriel_dev_window w, struct ori_kernel_call c)
{
	struct oriel_dev_group g = STREAM_BLOCK;

	oriel_dev_wait_local(&w, g, c.peer,
			     oriel_dev_put_signal(&w, g, c.peer, c.at, c.memory, c.length, c.id,
						  c.value),
			     0);
}

/* Here the counter tells when. */
STREAM_KERNEL stream_put_counter(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_put_counter(&w, STREAM_BLOCK, c.peer, c.at, c.memory, c.length, c.counter);
}

STREAM_KERNEL stream_put_signal_counter(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_put_signal_counter(&w, STREAM_BLOCK, c.peer, c.at, c.memory, c.length, c.id,
				     c.value, c.counter);
}

STREAM_KERNEL stream_signal_counter(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_signal_counter(&w, oriel_dev_thread(), c.peer, c.id, c.value, c.counter);
}

STREAM_KERNEL stream_fetch_add(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_fetch_add(&w, c.peer, c.at, c.value, (uint64_t *)c.memory);
}

STREAM_KERNEL stream_wait_counter(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_wait_counter(&w, oriel_dev_thread(), c.peer, c.counter, (enum oriel_compare)c.op,
			       c.value, 0);
}

STREAM_KERNEL stream_read_signal(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_read_signal(&w, c.id, (uint64_t *)c.memory);
}

STREAM_KERNEL stream_read_signal_from(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_read_signal_from(&w, c.peer, c.id, (uint64_t *)c.memory);
}

STREAM_KERNEL stream_read_counter(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_read_counter(&w, c.peer, c.counter, (uint64_t *)c.memory);
}

STREAM_KERNEL stream_reset_counter(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_reset_counter(&w, c.peer, c.counter);
}

STREAM_KERNEL stream_drain(struct oriel_dev_window w, struct ori_kernel_call c)
{
	(void)c;
	oriel_dev_drain(&w, oriel_dev_thread(), 0);
}

STREAM_KERNEL stream_flush(struct oriel_dev_window w, struct ori_kernel_call c)
{
	(void)c;
	oriel_dev_flush(&w, oriel_dev_thread(), 0);
}

STREAM_KERNEL stream_put_value(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_put_value(&w, c.peer, c.at, c.value);
}

STREAM_KERNEL stream_signal(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_signal(&w, oriel_dev_thread(), c.peer, c.id, (enum oriel_signal_op)c.op, c.value);
}

STREAM_KERNEL stream_signal_all(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_signal_all(&w, STREAM_WARP, c.id, (enum oriel_signal_op)c.op, c.value);
}

STREAM_KERNEL stream_wait_signal(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_wait_signal(&w, oriel_dev_thread(), c.id, (enum oriel_compare)c.op, c.value, 0);
}

STREAM_KERNEL stream_wait_signal_from(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_wait_signal_from(&w, oriel_dev_thread(), c.peer, c.id, (enum oriel_compare)c.op,
				   c.value, 0);
}

STREAM_KERNEL stream_wait_signal_next(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_wait_signal_next(&w, oriel_dev_thread(), c.peer, c.id, c.value, 0);
}

STREAM_KERNEL stream_barrier(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_barrier(&w, STREAM_WARP, c.id, 0);
}

STREAM_KERNEL stream_send(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_send(&w, STREAM_BLOCK, c.peer, c.id, c.memory, c.length, 0);
}

STREAM_KERNEL stream_recv(struct oriel_dev_window w, struct ori_kernel_call c)
{
	oriel_dev_recv(&w, STREAM_BLOCK, c.peer, c.id, c.memory, c.length, 0);
}

STREAM_KERNEL stream_reset_signals(struct oriel_dev_window w, struct ori_kernel_call c)
{
	struct oriel_dev_group g = STREAM_BLOCK;
	uint32_t source, id;

	(void)c;
	for (source = 0; source < w.ranks; source++)
		for (id = g.rank; id < w.signals; id += g.size)
			oriel_dev_reset_signal(&w, source, id);
}

STREAM_KERNEL stream_gather_lines(struct oriel_dev_window w, struct ori_kernel_call c)
{
	uint32_t part;

	STREAM_PARTS(part, c)
	oriel_dev_gather_lines(&w, STREAM_BLOCK, &c.gather, part, c.parts, c.memory, c.length, 0);
}

STREAM_KERNEL stream_gather_puts(struct oriel_dev_window w, struct ori_kernel_call c)
{
	uint32_t part;

	STREAM_PARTS(part, c)
	oriel_dev_gather_puts(&w, STREAM_BLOCK, &c.gather, part, c.parts, c.memory, c.length, 0);
}

STREAM_KERNEL stream_broadcast(struct oriel_dev_window w, struct ori_kernel_call c)
{
	uint32_t part;

	STREAM_PARTS(part, c)
	oriel_dev_broadcast(&w, STREAM_BLOCK, &c.gather, part, c.parts, c.peer, c.memory, c.length,
			    0);
}

/* Lengths are known here first, so what is wrong with them breaks the communicator. */
ORIEL_DEV_COLD void stream_blame(struct oriel_dev_window w)
{
	struct oriel_dev_fault fault = oriel_dev_fault_copy(w.fault);

	oriel_dev_leave(w.blame, &fault);
}

STREAM_KERNEL stream_exchange(struct oriel_dev_window w, struct ori_kernel_call c)
{
	struct oriel_dev_group g = STREAM_BLOCK;
	enum oriel_status status;
	uint32_t part;

	STREAM_PARTS(part, c)
	{
		status = oriel_dev_exchange(&w, g, &c.gather, part, c.parts, c.memory, c.portions,
					    0);
		if ((status == ORIEL_ERR_MISMATCH || status == ORIEL_ERR_RANGE) &&
		    oriel_dev_is_leader(g))
			stream_blame(w);
	}
}
