/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait to be written to a connection. Each outgoing link has one. */
#ifndef ORI_HCA_SOFT_OUTBOX_H
#define ORI_HCA_SOFT_OUTBOX_H

#include "hca/soft/soft_frame.h"
#include "net/conn.h"

#define SOFT_OUTBOX 64u /* frames */

struct soft_outbox {
	struct soft_frame *frames; /* [SOFT_OUTBOX] */
	unsigned count;
	size_t written; /* bytes of frames[0] */
	bool is_full;   /* the socket takes no more at the moment */
	/* Bytes that count as written and wait for TLS, which encrypts no memory that may vanish.
	 */
	char *stage;
	size_t staged;
};

/* False if there is no memory. */
bool ori_soft_outbox_open(struct soft_outbox *out);
void ori_soft_outbox_close(struct soft_outbox *out);
/* Drop all frames. */
void ori_soft_outbox_clear(struct soft_outbox *out);

/* The result of writing. */
enum soft_written {
	SOFT_WRITTEN_NONE,
	SOFT_WRITTEN,
	SOFT_WRITTEN_LOST,   /* the connection is lost */
	SOFT_WRITTEN_MISSED, /* a payload may not be read: see ori_soft_outbox_drop() */
};

/* Write to @net until it takes no more. */
enum soft_written ori_soft_outbox_write(struct soft_outbox *out, struct ori_net_conn *net);

/*
 * Take out the first frame whose payload may not be read, and copy its header
 * to *@h; also all that its queue sends after it. If the frame has been sent in
 * part, zeros replace the rest. SOFT_WRITTEN_NONE: there is no such frame, and
 * all payloads before have been copied; SOFT_WRITTEN_LOST: the frame in part
 * cannot be finished, for its end would announce bytes that are not there.
 */
enum soft_written ori_soft_outbox_drop(struct soft_outbox *out, struct soft_header *h);

/*
 * Copy payloads of @mr that still wait, before @mr is destroyed. False if there
 * is no memory for them.
 */
bool ori_soft_outbox_detach(struct soft_outbox *out, const struct soft_mr *mr);

#endif
