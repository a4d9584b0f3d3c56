/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that travel between software HCAs: each a header of 64 bytes
 * (little-endian) and payload. A frame is a run of packets of one message: one
 * packet as soon as the scenario loses or delays some.
 */
#ifndef ORI_HCA_SOFT_FRAME_H
#define ORI_HCA_SOFT_FRAME_H

#include "hca/soft/soft_objects.h"

struct soft_masks {
	uint64_t mask; /* bits to compare, or at which carries stop */
	uint64_t swap_mask;
};

static_assert(sizeof(struct soft_masks) == 16, "goes over the wire");

/* The bytes after the header are at @payload, or in @small if they are that few. */
struct soft_frame {
	struct soft_header h;
	const char *payload;
	struct soft_mr *mr; /* of the payload, NULL if it is not registered memory */
	char *copy;         /* NULL, or the payload is this, to be freed */
	bool is_local;      /* the receiver is in this process */
	uint64_t small[SOFT_SMALL / 8];
};

static inline const char *soft_frame_payload(const struct soft_frame *f)
{
	return f->h.length <= SOFT_SMALL ? (const char *)f->small : f->payload;
}

static inline bool soft_is_write(const struct soft_header *h)
{
	return h->type == SOFT_WRITE || h->type == SOFT_WRITE_IMM;
}

/* Begin a frame of @qp to its peer. */
void ori_soft_frame_begin(struct soft_frame *f, const struct soft_qp *qp, enum soft_frame_type type,
			  uint32_t psn);

/*
 * The payload is [@at, @at + @length) of @mr (NULL: of nothing registered).
 * False: it cannot be read. A payload for a socket may turn out unreadable
 * later, when it is written there: see ori_soft_frame_miss().
 */
bool ori_soft_frame_attach(struct soft_frame *f, struct soft_mr *mr, const char *at,
			   uint32_t length);

/* Pure: NULL, or what is wrong with a header that arrived over a socket. */
const char *ori_soft_header_flaw(const struct soft_header *h);

/* Packets that a frame of @qp may hold. */
uint32_t ori_soft_run(const struct soft_qp *qp);

#endif
