/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side of the bootstrap's handshake. join.c calls it to reach rank 0 and parents,
 * messages call it to reach a peer. It serves the caller's own listener while it waits.
 */
#ifndef ORI_BOOTSTRAP_DIAL_H
#define ORI_BOOTSTRAP_DIAL_H

#include "bootstrap/listener.h"

/*
 * Over the fresh connection @link: check that the acceptor knows the job key, send @hello (the
 * credentials of this rank are filled in), and wait for the answer. ORIEL_OK: admitted.
 * ORIEL_ERR_PEER, without a last error, if the acceptor closes the connection, ORIEL_AGAIN if it
 * asks for another attempt later: the caller connects again.
 */
enum oriel_status ori_dial_handshake(struct ori_link *link, struct ori_listener *listener,
				     struct ori_hello *hello, uint64_t deadline);

/*
 * Connect to @address and do the handshake; repeat it until @deadline if the acceptor closes the
 * connection, as it does in a flood. ORIEL_ERR_PEER: no process listens there.
 */
enum oriel_status ori_dial(const struct ori_address *address, struct ori_listener *listener,
			   struct ori_hello *hello, uint64_t deadline, struct ori_link *link);

#endif
