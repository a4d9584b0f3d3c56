/* SPDX-License-Identifier: Apache-2.0 */
/* The connecting side of what listener.h accepts. */
#ifndef ORI_BOOTSTRAP_DIAL_H
#define ORI_BOOTSTRAP_DIAL_H

#include "bootstrap/gate.h"

/*
 * Over the fresh connection @link: make sure that the other end knows the job key, then say
 * @hello (what this rank shows of itself is filled in) and wait until it is let in. This
 * rank's own listener is served meanwhile. ORIEL_ERR_PEER, without a text, if the other end
 * closes the connection, and ORIEL_AGAIN if it asks for that: connect again.
 */
enum oriel_status ori_dial_handshake(struct ori_link *link, struct ori_listener *listener,
				     struct ori_hello *hello, uint64_t deadline);

/*
 * Connect to @address and greet, again until @deadline where the other end closes
 * connections, as it does with those of a flood. ORIEL_ERR_PEER: nobody listens there.
 */
enum oriel_status ori_dial(const struct ori_address *address, struct ori_listener *listener,
			   struct ori_hello *hello, uint64_t deadline, struct ori_link *link);

#endif
