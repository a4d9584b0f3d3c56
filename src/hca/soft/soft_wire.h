/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of frames from QP to QP, in this process or over sockets.
 *
 * A socket loses nothing, and a slow peer is not a lost one. So a timer does
 * not send packets again: it asks whether the peer has processed all before the
 * question. The answer follows all that the peer's QP had to send, so a packet
 * that is unacknowledged by then has been lost: only that one is sent again,
 * and counts as a try. A peer that is not connected yet answers once it is. A
 * broken connection ends the wait for answers.
 */
#ifndef ORI_HCA_SOFT_WIRE_H
#define ORI_HCA_SOFT_WIRE_H

#include "hca/soft/soft_frame.h"

/*
 * A frame has arrived from engine @cookie. @payload may be the address that
 * ori_soft_frame_target() returned; NULL with a length: the bytes could not be
 * stored there.
 */
void ori_soft_frame_deliver(struct soft_engine *e, uint64_t cookie, const struct soft_header *h,
			    const char *payload);

/*
 * The address at which the payload of @h may be received directly, and its
 * memory; NULL if the payload has to be checked first.
 */
char *ori_soft_frame_target(struct soft_engine *e, uint64_t cookie, const struct soft_header *h,
			    struct soft_mr **mr);

/* Does a QP still want the payload of @h at the address of ori_soft_frame_target()? */
bool ori_soft_frame_is_awaited(struct soft_engine *e, uint64_t cookie, const struct soft_header *h);

/*
 * The socket has found that the payload of @h may not be read: the local
 * request that sent it fails, or the READ at the peer. No byte of @h is sent.
 */
void ori_soft_frame_miss(struct soft_engine *e, const struct soft_header *h);

/* Send the next packet of @qp; false if there is none or it may not leave yet. */
bool ori_soft_egress(struct soft_qp *qp);
/* When the next packet of @qp that waits may leave; SOFT_NEVER if none does. */
uint64_t ori_soft_egress_due(struct soft_qp *qp);

/* Ask for packets that are late, or send those that are lost again, if it is time. */
bool ori_soft_timer(struct soft_qp *qp);

#endif
