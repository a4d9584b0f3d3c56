/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as they come from a socket: large payloads are received where they
 * belong, if what they are for allows it. Nothing is delivered before the engine at
 * the other end has said hello, and over TCP has proved itself.
 */
#ifndef ORI_HCA_SOFT_INBOX_H
#define ORI_HCA_SOFT_INBOX_H

#include "hca/soft_greet.h"

struct soft_inbox {
	struct soft_engine *engine;
	bool is_tcp;
	bool is_closed; /* by the other end */
	int fd;
	struct ori_auth auth; /* over TCP */
	uint64_t claimed;     /* cookie of the engine at the other end once it is proved; else 0 */
	/*
	 * The same once the connection is the one that engine uses: over TCP not before a
	 * frame follows, since a connector that waited too long for the welcome has left.
	 */
	uint64_t cookie;
	char *buffer;
	size_t start, end; /* what is in it */
	bool has_header;
	struct soft_header header;
	struct soft_mr *mr; /* that @target lies in; NULL: in @scratch */
	char *target;
	size_t left;    /* bytes of the payload */
	bool is_missed; /* it could not be received where it belongs */
	char *scratch;
};

/* Of @fd, which is borrowed. False if there is no memory; close() all the same. */
bool ori_soft_inbox_open(struct soft_inbox *in, struct soft_engine *e, int fd, bool is_tcp);
void ori_soft_inbox_close(struct soft_inbox *in);

/* Receive and deliver. NULL, or why the connection is of no more use. */
const char *ori_soft_inbox_take(struct soft_inbox *in);

/* Nothing is received into @mr any more, nor for @qp into its memory. */
void ori_soft_inbox_forget(struct soft_inbox *in, const struct soft_mr *mr);
void ori_soft_inbox_divert(struct soft_inbox *in, const struct soft_qp *qp);

#endif
