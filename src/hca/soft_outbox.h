/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait to be written to a socket. */
#ifndef ORI_HCA_SOFT_OUTBOX_H
#define ORI_HCA_SOFT_OUTBOX_H

#include "hca/soft_wire.h"

#define SOFT_OUTBOX 64u /* frames */

struct soft_outbox {
	struct soft_frame *frames; /* [SOFT_OUTBOX] */
	unsigned count;
	size_t written; /* bytes of frames[0] */
	bool is_full;   /* the socket takes no more at the moment */
};

/* False if there is no memory. */
bool ori_soft_outbox_open(struct soft_outbox *out);
void ori_soft_outbox_close(struct soft_outbox *out);
/* Forget all frames. */
void ori_soft_outbox_clear(struct soft_outbox *out);

/* Write to @fd until it is full; -1: the connection is lost, 1: something was written. */
int ori_soft_outbox_write(struct soft_outbox *out, int fd);

/* What is under way keeps its bytes when @mr goes. False if there is no memory for them. */
bool ori_soft_outbox_detach(struct soft_outbox *out, const struct soft_mr *mr);

#endif
