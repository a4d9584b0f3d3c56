/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernels.h, which src/window launches. The host has checked the arguments. A
 * failure can be reported only through the communicator: a wait takes its limit from the
 * handle, so that passing it breaks the communicator. Plain C, also for the CPU: tests.
 */
#include "kernels/act.h"

#ifdef __CUDACC__

/* A block for each part. */
#define STREAM_KERNEL extern "C" __global__ void

/* So that the registers of a multiprocessor suffice for a block. */
#define STREAM_BOUNDS(threads) __launch_bounds__((threads) > 32 ? (threads) : 512, 1)
#define STREAM_PARTS(part, c) part = blockIdx.x;

/* Launched before the previous kernel in the stream has ended: waits for that. */
ORIEL_DEV void stream_begin(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

ORIEL_DEV struct oriel_dev_group stream_group(int threads)
{
	if (threads == 1)
		return oriel_dev_thread();
	return threads == 32 ? oriel_dev_warp() : oriel_dev_block();
}

#else

#define STREAM_KERNEL void
#define STREAM_BOUNDS(threads)
#define STREAM_PARTS(part, c) for (part = 0; part == 0 || part < (c).parts; part++)

static inline void stream_begin(void)
{
}

static inline struct oriel_dev_group stream_group(int threads)
{
	(void)threads;
	return oriel_dev_thread();
}

#endif

#define STREAM_DEFINE(number, name, threads)                                              \
	STREAM_KERNEL stream_##name(struct oriel_dev_window w, struct ori_kernel_call c); \
	STREAM_KERNEL STREAM_BOUNDS(threads)                                              \
		stream_##name(struct oriel_dev_window w, struct ori_kernel_call c)        \
	{                                                                                 \
		uint32_t part;                                                            \
                                                                                          \
		stream_begin();                                                           \
		STREAM_PARTS(part, c)                                                     \
		{                                                                         \
			const struct ori_act act = {&w, stream_group(threads), part, 0};  \
                                                                                          \
			ori_act_##name(&act, &c);                                         \
		}                                                                         \
	}
ORI_KERNELS(STREAM_DEFINE)
