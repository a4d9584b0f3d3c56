/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernels.h. The host has looked at the arguments. There is nobody
 * to tell of a failure but the communicator: a wait takes its limit from the
 * handle, so that passing it breaks that. Plain C, also for the CPU: tests.
 */
/* Of a window in GPU memory, self and mapped: no kernel reaches an adapter. */
#define ORIEL_DEV_PATHS 6u

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

#define STREAM_DECLARE(number, name, threads) \
	STREAM_KERNEL name(struct oriel_dev_window w, struct ori_kernel_call c);
ORI_KERNELS(STREAM_DECLARE)

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
