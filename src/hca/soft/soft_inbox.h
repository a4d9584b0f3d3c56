/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as they arrive over a connection: without TLS a large payload is
 * received straight into its target, if that memory allows it. Links call it,
 * once the peer's engine has said hello.
 */
#ifndef ORI_HCA_SOFT_INBOX_H
#define ORI_HCA_SOFT_INBOX_H

#include "hca/soft/soft_greet.h"

struct soft_inbox {
	struct soft_engine *engine;
	struct ori_net_conn *net; /* borrowed */
	bool is_closed;           /* by the peer, or its bytes are not what it sent */
	bool is_unread;           /* bytes have arrived that epoll does not report */
	uint64_t claimed;         /* cookie of the peer's engine, by its hello */
	/*
	 * The same once that engine uses the connection: a connector that waited
	 * too long for the welcome has left.
	 */
	uint64_t cookie;
	char *buffer;
	size_t start, end; /* of the bytes in it */
	bool has_header;
	struct soft_header header;
	struct soft_mr *mr; /* the memory of @target; NULL: @target is in @scratch */
	char *target;
	size_t left;    /* bytes of the payload */
	bool is_missed; /* the payload could not be received into its target */
	char *scratch;
};

/* False if there is no memory; the caller runs close() all the same. */
bool ori_soft_inbox_open(struct soft_inbox *in, struct soft_engine *e, struct ori_net_conn *net);
void ori_soft_inbox_close(struct soft_inbox *in);

/* Receive and deliver. NULL, or why the connection is no longer of use. */
const char *ori_soft_inbox_take(struct soft_inbox *in);

/* Nothing is received into @mr any more. */
void ori_soft_inbox_forget(struct soft_inbox *in, const struct soft_mr *mr);

#endif
