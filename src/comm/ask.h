/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that asks the watcher of a peer, over a connection of its own, and waits for the answer.
 * demand.c, which connects links at their first use, and lend.c, which maps memory at its first
 * touch, call it. A connection that ends without an answer is made again.
 */
#ifndef ORI_COMM_ASK_H
#define ORI_COMM_ASK_H

#include "base/late.h"
#include "comm/comm.h"
#include "net/conn.h"

#define ORI_ASK_TICK_MS 20 /* between two looks at the health */

struct ori_ask {
	struct oriel_comm *comm;
	unsigned peer;
	char what[40]; /* that this rank does, for texts */
	uint64_t limit_ns;
	uint64_t deadline;
	struct ori_late late;
	struct ori_net_conn conn;
	const char *doubt; /* of the last connection, or NULL; it is in the log */
};

/* A question and its answer, of one type and length each. */
struct ori_ask_frames {
	unsigned ask_type;
	unsigned answer_type;
	const void *ask;
	size_t ask_length;
	void *answer;
	size_t answer_length;
};

/* @format: what this rank does, as "maps its window 3". */
void ori_ask_begin(struct ori_ask *ask, struct oriel_comm *comm, unsigned peer, const char *format,
		   ...) __attribute__((format(printf, 4, 5)));
void ori_ask_end(struct ori_ask *ask);

/* ORIEL_OK: try on. */
enum oriel_status ori_ask_may_wait(struct ori_ask *ask);
/* The same before the next connection: pauses. */
enum oriel_status ori_ask_may_retry(struct ori_ask *ask);
/* Waits until the connection has work, but not for long. */
enum oriel_status ori_ask_poll(struct ori_ask *ask);

/*
 * Connects to socket @name of the peer's host, of process @pid (0: of any). ORIEL_ERR_PEER: no
 * process listens. ORIEL_AGAIN: not yet.
 */
enum oriel_status ori_ask_dial(struct ori_ask *ask, const uint8_t *name, uint32_t pid);
/* The connection has ended with @status: a line in the log for each new reason to doubt the peer.
 */
void ori_ask_doubt(struct ori_ask *ask, enum oriel_status status);
/* Asks over an open connection. ORIEL_AGAIN: it ended without an answer. */
enum oriel_status ori_ask_once(struct ori_ask *ask, const struct ori_ask_frames *frames);

#endif
