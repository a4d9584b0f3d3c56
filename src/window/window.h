/* SPDX-License-Identifier: Apache-2.0 */
/* A window from inside. */
#ifndef ORI_WINDOW_WINDOW_H
#define ORI_WINDOW_WINDOW_H

#include <oriel/window.h>

#include "base/live.h"
#include "comm/share.h"

/* What must be equal on all ranks. Goes over the wire as it is. */
struct ori_window_counts {
	uint32_t signals;
	uint32_t barriers;
	uint32_t counters;
	uint32_t channels;
	uint32_t channel_bytes;
	uint32_t buffers;
};

struct oriel_window {
	struct oriel_comm *comm;        /* borrowed */
	struct oriel_dev_window device; /* what oriel_window_device() copies */
	struct oriel_dev_fault fault;   /* what its users left */

	struct ori_mem *mem;          /* control segment, and buffer 0 if allocated here */
	struct ori_mapping *control;  /* [size] */
	struct ori_mapping **buffers; /* [buffers][size]; NULL: not shared, or in control */
	uint32_t shared;              /* buffers in use */

	struct oriel_dev_peer *peers;   /* [size] */
	struct oriel_dev_buffer *table; /* [buffers][size] */
	struct ori_hca_mr *control_mr;  /* the rest of the memory for adapters */
	struct ori_hca_mr *counter_mr;
	struct ori_hca_mr **buffer_mrs; /* [buffers] */
	void *state;                    /* all that the rank keeps for itself */
	struct ori_live live;
};

/* Offsets and strides of @device for its counts; the bytes of a control segment. */
uint64_t ori_window_layout(struct oriel_dev_window *device);

/* What @device, which is complete, says itself of the ranks from @first on. */
void ori_window_near(struct oriel_dev_window *device, uint32_t first,
		     const struct oriel_dev_peer *peers, const struct oriel_dev_buffer *table);

/* Memory for this rank's epochs, bases, cursors and counters, all zero. */
enum oriel_status ori_window_open_state(struct oriel_window *window);

/* The text of @fault, which device functions left. */
void ori_window_fault_text(const struct oriel_dev_window *device,
			   const struct oriel_dev_fault *fault, char *text, size_t length);

#endif
