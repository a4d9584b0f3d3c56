/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames between rank 0 of a communicator that grows and new ranks, one connection for each
 * process, or group, that joins. grow_host.c and newcomer.c send them; parsing has no side effects.
 */
#ifndef ORI_COMM_GROW_FRAME_H
#define ORI_COMM_GROW_FRAME_H

#include "bootstrap/invitation.h"
#include "bootstrap/part.h"
#include "comm/exchange.h"
#include "net/frame.h"
#include "topo/host.h"

enum ori_grow_frame {
	ORI_GROW_HELLO = 1, /* the first one, of a newcomer */
	ORI_GROW_WAIT,      /* it is one of those that are awaited, each second; empty */
	ORI_GROW_WELCOME,   /* all have come: where they meet */
	ORI_GROW_RESULT,    /* of a newcomer: has it joined? */
	ORI_GROW_DONE,      /* the end, at any time: the status of all */
};

/* The bodies go over the wire as they are. */
struct ori_grow_hello {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t count;   /* ranks of the group */
	uint64_t epoch;   /* of the invitation */
	uint8_t token[ORI_INVITATION_TOKEN];
	uint8_t boot_id[16]; /* these four as in struct ori_host, of the rank that connects */
	uint64_t net_ns;
	uint32_t uid;
	uint32_t pid;
	uint32_t extent; /* enum ori_part_extent, of the group */
	uint32_t reserved;
	char hostname[ORI_HOST_NAME];
};

struct ori_grow_welcome {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t first;   /* the rank of the first of the group */
	uint32_t size;    /* of the new communicator */
	uint32_t extent;  /* enum ori_part_extent: never ORI_PART_PROCESS */
	uint64_t epoch;   /* of the new communicator */
	uint64_t timeout_ns;
	uint32_t flags; /* enum oriel_comm_flags, without ORIEL_COMM_GPU */
	uint32_t key_length;
	struct ori_part_offer offer;
	uint8_t key[ORI_KEY_MAX]; /* of the job; zeros behind @key_length */
};

struct ori_grow_done {
	int32_t status; /* enum oriel_status: ORIEL_OK or a failure */
	uint32_t reserved;
	char text[ORI_VERDICT_TEXT];
};

static_assert(sizeof(struct ori_grow_hello) == 136, "struct ori_grow_hello goes over the wire");
static_assert(sizeof(struct ori_grow_hello) <= ORI_NET_HELLO_MAX, "it is a first frame");
static_assert(sizeof(struct ori_grow_welcome) == 232, "struct ori_grow_welcome goes over the wire");
static_assert(sizeof(struct ori_grow_done) == 248, "struct ori_grow_done goes over the wire");

#define ORI_GROW_BODY 248u /* the largest body */

/* NULL, or the reason why @frame with @body is no hello of a newcomer. */
const char *ori_grow_hello_doubt(const struct ori_frame *frame, const struct ori_grow_hello *body);
/* Is @frame with @body a welcome for a group of @count ranks? */
bool ori_grow_welcome_is_valid(const struct ori_frame *frame, const struct ori_grow_welcome *body,
			       unsigned count);
/* Is @frame of @type, with a result? Its text ends, and has characters for terminals alone then. */
bool ori_grow_done_parse(const struct ori_frame *frame, enum ori_grow_frame type,
			 struct ori_grow_done *body);
/* Fills in @status, with the last error of this thread unless it is a success. */
void ori_grow_done_fill(struct ori_grow_done *body, enum oriel_status status);

#endif
