/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an invitation: where rank 0 of a communicator awaits new ranks, the key of those
 * connections, and the epoch that they are to join. comm/grow_host.c makes one, comm/newcomer.c
 * reads it.
 */
#ifndef ORI_BOOTSTRAP_INVITATION_H
#define ORI_BOOTSTRAP_INVITATION_H

#include <oriel/comm.h>

#include "bootstrap/job_id.h"

#define ORI_INVITATION_KEY 32u
#define ORI_INVITATION_TOKEN 16u

struct ori_invitation {
	uint64_t epoch; /* of the communicator that invites */
	/* Random: shows that a new rank has this invitation, also over a unix socket. */
	unsigned char token[ORI_INVITATION_TOKEN];
	unsigned char key[ORI_INVITATION_KEY]; /* random, of TLS */
	struct ori_address addresses[ORI_JOB_ID_ADDRESSES];
	unsigned count; /* of addresses, as in a job id */
};

void ori_invitation_encode(const struct ori_invitation *in, struct oriel_invitation *invitation);
/* False if the bytes are malformed. */
bool ori_invitation_parse(const struct oriel_invitation *invitation, struct ori_invitation *out);

#endif
