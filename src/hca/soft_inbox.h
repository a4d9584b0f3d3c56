/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as they come from a socket: large payloads are received where they
 * belong, if what they are for allows it.
 */
#ifndef ORI_HCA_SOFT_INBOX_H
#define ORI_HCA_SOFT_INBOX_H

#include "hca/soft_wire.h"

struct soft_inbox {
	struct soft_engine *engine;
	uint64_t cookie; /* of the engine at the other end; 0: not told yet */
	char *buffer;
	size_t start, end; /* what is in it */
	bool has_header;
	struct soft_header header;
	struct soft_mr *mr; /* that @target lies in; NULL: in @scratch */
	char *target;
	size_t left; /* bytes of the payload */
	char *scratch;
};

/* False if there is no memory; close() all the same. */
bool ori_soft_inbox_open(struct soft_inbox *in, struct soft_engine *e);
void ori_soft_inbox_close(struct soft_inbox *in);

/* Receive from @fd and deliver. NULL, or why the connection is of no more use. */
const char *ori_soft_inbox_take(struct soft_inbox *in, int fd);

/* Nothing is received into @mr any more, nor for @qp into its memory. */
void ori_soft_inbox_forget(struct soft_inbox *in, const struct soft_mr *mr);
void ori_soft_inbox_divert(struct soft_inbox *in, const struct soft_qp *qp);

#endif
