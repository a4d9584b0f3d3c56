/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between two ranks: send and recv of the TCP bootstrap. Each direction has a
 * connection of its own, which the sender opens at first use. A message that arrives before its
 * receive waits in an inbox. tcp.c calls it; one thread at a time.
 */
#ifndef ORI_BOOTSTRAP_MESSAGE_H
#define ORI_BOOTSTRAP_MESSAGE_H

#include "bootstrap/tree.h"

struct ori_message_inbox; /* messages from one rank */

/* The connections and inboxes of one rank. */
struct ori_message_service {
	struct ori_tree *tree;         /* borrowed; it spreads failures */
	struct ori_listener *listener; /* borrowed */
	struct ori_address *addresses; /* of all ranks; owned */
	struct ori_net_conn **out;     /* per rank, NULL until used */
	struct ori_message_inbox **in; /* per rank, NULL until used */
};

/* Takes over @addresses if it succeeds. */
enum oriel_status ori_message_open(struct ori_message_service *service, struct ori_tree *tree,
				   struct ori_listener *listener, struct ori_address *addresses);
/* A zeroed @service is allowed. */
void ori_message_close(struct ori_message_service *service);

enum oriel_status ori_message_send(struct ori_message_service *service, unsigned peer, uint32_t tag,
				   const void *data, size_t length, uint64_t timeout_ns);
enum oriel_status ori_message_recv(struct ori_message_service *service, unsigned peer, uint32_t tag,
				   void *data, size_t length, uint64_t timeout_ns);

#endif
