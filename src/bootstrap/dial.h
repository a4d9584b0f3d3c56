/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side of the bootstrap. join.c calls it to reach rank 0 and parents, messages
 * call it to reach a peer. It serves the caller's own listener while it waits.
 */
#ifndef ORI_BOOTSTRAP_DIAL_H
#define ORI_BOOTSTRAP_DIAL_H

#include "bootstrap/listener.h"

/*
 * Connect to @address until the acceptor has proved that it knows the job key. ORIEL_AGAIN, with
 * errno: no process listens there, or TCP has not connected at @connect_by. ORIEL_ERR_PEER, without
 * a last error: the acceptor closes the connection, as it does in a flood.
 */
enum oriel_status ori_dial_connect(struct ori_net_conn *link, const struct ori_address *address,
				   struct ori_listener *listener, uint64_t connect_by,
				   uint64_t deadline);

/* The largest body of an answer, and a NUL behind it. */
#define ORI_DIAL_ANSWER 1024

struct ori_dial_answer {
	struct ori_frame frame;
	unsigned char body[ORI_DIAL_ANSWER];
};

/*
 * Send a frame, @question with @body, over the connected @link, and wait for the answer.
 * ORIEL_ERR_PEER, without a last error, if the acceptor closes the connection. @where is its
 * address, for texts.
 */
enum oriel_status ori_dial_ask(struct ori_net_conn *link, const char *where,
			       struct ori_listener *listener, const struct ori_frame *question,
			       const void *body, struct ori_dial_answer *answer, uint64_t deadline);

/*
 * Send @hello (the credentials of this rank are filled in) over the connected @link, and wait for
 * the answer. ORIEL_OK: admitted. ORIEL_ERR_PEER, without a last error, if the acceptor closes
 * the connection, ORIEL_AGAIN if it asks for another attempt later: the caller connects again.
 */
enum oriel_status ori_dial_hello(struct ori_net_conn *link, const struct ori_address *address,
				 struct ori_listener *listener, struct ori_hello *hello,
				 uint64_t deadline);

/*
 * Both, and repeat them until @deadline if the acceptor closes the connection. ORIEL_ERR_PEER: no
 * process listens there.
 */
enum oriel_status ori_dial(const struct ori_address *address, struct ori_listener *listener,
			   struct ori_hello *hello, uint64_t deadline, struct ori_net_conn *link);

#endif
