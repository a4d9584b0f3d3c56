/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between two ranks, over a connection of their own per direction that
 * the sender opens on first use. What arrives before it is asked for is kept.
 */
#ifndef ORI_BOOTSTRAP_MAIL_H
#define ORI_BOOTSTRAP_MAIL_H

#include "bootstrap/tree.h"

struct ori_mail_box; /* what came from one rank */

struct ori_mail {
	struct ori_tree *tree;         /* borrowed; failures are told through it */
	struct ori_gate *gate;         /* borrowed */
	struct ori_address *addresses; /* of all ranks; owned */
	struct ori_link **out;         /* per rank, NULL until used */
	struct ori_mail_box **in;      /* per rank, NULL until used */
};

/* Takes @addresses once it succeeds. */
enum oriel_status ori_mail_open(struct ori_mail *mail, struct ori_tree *tree, struct ori_gate *gate,
				struct ori_address *addresses);
/* A zeroed one is fine. */
void ori_mail_close(struct ori_mail *mail);

enum oriel_status ori_mail_send(struct ori_mail *mail, unsigned peer, uint32_t tag,
				const void *data, size_t length, uint64_t timeout_ns);
enum oriel_status ori_mail_recv(struct ori_mail *mail, unsigned peer, uint32_t tag, void *data,
				size_t length, uint64_t timeout_ns);

#endif
