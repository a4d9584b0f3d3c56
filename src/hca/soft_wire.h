/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between software adapters: frames, each a header of 64 bytes
 * (little-endian) and payload. A frame is a run of packets of one message: one
 * packet as soon as the wire is to lose or delay some.
 *
 * Nothing gets lost on a socket, and a peer that is slow is not one that is
 * gone. So a timer does not send anything again: it asks whether all before the
 * question has been looked at. The answer comes after all that the peer's QP had
 * to say, so what is not acknowledged by then has been lost: only that is sent
 * again, and counts as a try. Who is not connected yet answers when he is. A
 * connection that breaks ends the waiting for answers.
 */
#ifndef ORI_HCA_SOFT_WIRE_H
#define ORI_HCA_SOFT_WIRE_H

#include "hca/soft_objects.h"

#define SOFT_WIRE_MAGIC 0x4843u
#define SOFT_WIRE_VERSION 4u

enum soft_frame_type {
	SOFT_HELLO =
		1, /* packets: version; operand: cookie of the sender, compare: of the receiver */
	SOFT_WRITE,
	SOFT_WRITE_IMM, /* compare: the immediate data */
	SOFT_READ,
	SOFT_ADD,
	SOFT_SWAP,
	SOFT_MASKED_ADD, /* the payload is struct soft_masks */
	SOFT_MASKED_SWAP,
	SOFT_ACK,    /* of all up to psn */
	SOFT_NAK,    /* code 0: psn is awaited; else the syndrome for it, 0x16: not ready for it */
	SOFT_DATA,   /* of a READ */
	SOFT_OLD,    /* of an atomic, in operand */
	SOFT_ASK,    /* question number operand; never lost on purpose */
	SOFT_ANSWER, /* to it; the same */
	SOFT_FRAME_TYPES,
	SOFT_CHALLENGE = 64, /* before all others, over TCP: see soft_greet.h */
	SOFT_WELCOME,
	SOFT_REFUSED,
};

struct soft_header {
	uint16_t magic;
	uint8_t type; /* enum soft_frame_type */
	uint8_t code;
	uint32_t packets;
	uint32_t node, qpn;               /* of the receiver */
	uint32_t source_node, source_qpn; /* of the sender */
	uint32_t psn;                     /* of the first packet */
	uint32_t length;                  /* of the payload */
	uint64_t address;                 /* of the message */
	uint32_t rkey;
	uint32_t total; /* length of the message */
	uint64_t operand, compare;
};

static_assert(sizeof(struct soft_header) == 64, "goes over the wire");

struct soft_masks {
	uint64_t mask; /* what is compared, or where carries stop */
	uint64_t swap_mask;
};

static_assert(sizeof(struct soft_masks) == 16, "goes over the wire");

/* What follows the header is at @payload, or in @small if it is that short. */
struct soft_frame {
	struct soft_header h;
	const char *payload;
	struct soft_mr *mr; /* of the payload, NULL if it is elsewhere */
	char *copy;         /* NULL, or the payload is this, to be freed */
	bool is_here;       /* it is delivered in this process */
	uint64_t small[SOFT_SMALL / 8];
};

static inline const char *soft_frame_payload(const struct soft_frame *f)
{
	return f->h.length <= SOFT_SMALL ? (const char *)f->small : f->payload;
}

/* Begin a frame of @qp to its peer. */
void ori_soft_frame_begin(struct soft_frame *f, const struct soft_qp *qp, enum soft_frame_type type,
			  uint32_t psn);

/*
 * The payload is [@at, @at + @length) of @mr (NULL: of nothing registered). False:
 * it cannot be read. What goes by a socket may still prove so when it is written there:
 * see ori_soft_frame_miss().
 */
bool ori_soft_frame_attach(struct soft_frame *f, struct soft_mr *mr, const char *at,
			   uint32_t length);

/* Pure: what is wrong with a header that came over a socket, or NULL. */
const char *ori_soft_header_flaw(const struct soft_header *h);

/*
 * A frame has come from engine @cookie. @payload may be where
 * ori_soft_frame_target() has told to put it; NULL where there are bytes: they could not be
 * put there.
 */
void ori_soft_frame_deliver(struct soft_engine *e, uint64_t cookie, const struct soft_header *h,
			    const char *payload);

/*
 * Where the payload of @h may be received into directly, and whose memory that
 * is; NULL if it has to be looked at first.
 */
char *ori_soft_frame_target(struct soft_engine *e, uint64_t cookie, const struct soft_header *h,
			    struct soft_mr **mr);

/*
 * The socket has found that the payload of @h may not be read: the request that it is of
 * fails here, or the READ at the peer. Nothing of @h is sent.
 */
void ori_soft_frame_miss(struct soft_engine *e, const struct soft_header *h);

/* Send the next packet of @qp; false if there is none or it may not go yet. */
bool ori_soft_egress(struct soft_qp *qp);

/* Ask the peer question @qp->asked, if there is room for it now. */
void ori_soft_ask(struct soft_qp *qp);

/* Packets that a frame of @qp may take. */
uint32_t ori_soft_run(const struct soft_qp *qp);

#endif
