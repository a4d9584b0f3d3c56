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

/* What came of writing. */
enum soft_written {
	SOFT_WRITTEN_NONE,
	SOFT_WRITTEN,
	SOFT_WRITTEN_LOST,   /* the connection is */
	SOFT_WRITTEN_MISSED, /* a payload may not be read: see ori_soft_outbox_drop() */
};

/* Write to @fd until it is full. */
enum soft_written ori_soft_outbox_write(struct soft_outbox *out, int fd);

/*
 * Take out the first frame whose payload may not be read, whose header becomes *@h, and all
 * that its queue sends after it; of one that has been begun zeros come in the place of what
 * is left. SOFT_WRITTEN_NONE: there is none, and all before has been copied;
 * SOFT_WRITTEN_LOST: what has been begun cannot be finished, for it would tell of bytes that
 * are not there.
 */
enum soft_written ori_soft_outbox_drop(struct soft_outbox *out, struct soft_header *h);

/* What is under way keeps its bytes when @mr goes. False if there is no memory for them. */
bool ori_soft_outbox_detach(struct soft_outbox *out, const struct soft_mr *mr);

#endif
