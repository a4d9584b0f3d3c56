/* SPDX-License-Identifier: Apache-2.0 */
/* A window from inside. */
#ifndef ORI_WINDOW_WINDOW_H
#define ORI_WINDOW_WINDOW_H

#include <oriel/window.h>

#include "base/handle.h"
#include "comm/share.h"
#include "kernels/kernels.h"

/* What must be equal on all ranks. Goes over the wire as it is. */
struct ori_window_counts {
	uint32_t signals;
	uint32_t barriers;
	uint32_t counters;
	uint32_t channels;
	uint32_t channel_bytes;
	uint32_t buffers;
	uint32_t is_device; /* ORIEL_WINDOW_DEVICE */
	uint32_t reserved;
};

struct oriel_window {
	struct oriel_comm *comm;        /* borrowed */
	struct oriel_dev_window device; /* what oriel_window_device() copies */
	struct oriel_dev_fault fault;   /* what its users left, in host memory */
	const struct ori_gpu *gpu;      /* of the communicator; NULL: all lies in host memory */

	struct ori_mem *mem;          /* control segment, and buffer 0 if allocated here */
	struct ori_mapping *control;  /* [size] */
	struct ori_mapping **buffers; /* [buffers][size]; NULL: not shared, or in control */
	uint32_t shared;              /* buffers in use */

	struct oriel_dev_peer *peers;   /* [size]; those of the handle, or what it is a copy of */
	struct oriel_dev_buffer *table; /* [buffers][size], the same */
	struct ori_rdma_mr *control_mr; /* the rest of the memory for adapters */
	struct ori_rdma_mr *counter_mr;
	struct ori_rdma_mr **buffer_mrs; /* [buffers] */
	void *state;                     /* all that the rank keeps for itself */
	struct ori_mem *gpu_state;       /* the same on a GPU, and the tables */
	size_t batch;                    /* copies of at most so many bytes go at once */
	struct ori_gpu_side_stream lane; /* of oriel_window_put_all(), from its first call on */
};

/* Offsets and strides of @device for its counts; the bytes of a control segment. */
uint64_t ori_window_layout(struct oriel_dev_window *device);

/* What @device, which is complete, says itself of the ranks from @first on. */
void ori_window_near(struct oriel_dev_window *device, uint32_t first,
		     const struct oriel_dev_peer *peers, const struct oriel_dev_buffer *table);

/* Memory for this rank's epochs, bases, cursors and counters, all zero. */
enum oriel_status ori_window_open_state(struct oriel_window *window);

/* Bytes of that memory, from a multiple of ORIEL_DEV_LINE on; @at: where it begins. */
size_t ori_window_state_length(const struct oriel_dev_window *device);
void ori_window_place_state(struct oriel_dev_window *device, char *at);

/* window_gpu.c: the same on the GPU of the communicator, with room for the tables. */
enum oriel_status ori_window_gpu_open(struct oriel_window *window);
/* What stands in the tables goes to the GPU, from @buffer on for @count buffers. */
enum oriel_status ori_window_gpu_publish(struct oriel_window *window, uint32_t buffer,
					 uint32_t count);
/* Which of the ranks that the handle knows have buffer 0 on a GPU. */
void ori_window_gpu_mark(struct oriel_window *window);
void ori_window_gpu_close(struct oriel_window *window);

/*
 * window_stream.c: @kernel for a window on a GPU, in a stream of its context.
 * Arguments are looked at before anything is posted. @timeout_ns of waits, 0 = the
 * default.
 */
enum oriel_status ori_window_stream_call(struct oriel_window *window, enum ori_kernel kernel,
					 const struct ori_kernel_call *call, uint64_t timeout_ns,
					 void *stream);

/* window_gather.c, which has the rest of that: bytes to all ranks by copy engines. */
enum oriel_status ori_window_stream_put_each(struct oriel_window *window, uint64_t to,
					     const void *from, size_t stride, size_t length,
					     void *stream);
/* An execution of a collective, by @kernel, with what it takes. */
enum oriel_status ori_window_stream_gather(struct oriel_window *window, enum ori_kernel kernel,
					   const struct ori_kernel_call *call, void *stream);

/* The text of @fault, which device functions left. */
void ori_window_fault_text(const struct oriel_dev_window *device,
			   const struct oriel_dev_fault *fault, char *text, size_t length);

#endif
