/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the frames of soft_frame.h, which objects of the software HCA hold, too. */
#ifndef ORI_HCA_SOFT_HEADER_H
#define ORI_HCA_SOFT_HEADER_H

#include <assert.h>
#include <stdint.h>

#define SOFT_WIRE_MAGIC 0x4843u
#define SOFT_WIRE_VERSION 5u

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
	SOFT_ACK,    /* acknowledges all up to psn */
	SOFT_NAK,    /* code 0: psn is awaited; else the syndrome for it, 0x16: no receive for it */
	SOFT_DATA,   /* of a READ */
	SOFT_OLD,    /* of an atomic, in operand */
	SOFT_ASK,    /* question number operand; never lost on purpose */
	SOFT_ANSWER, /* to that question; never lost on purpose */
	SOFT_FRAME_TYPES,
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

#endif
