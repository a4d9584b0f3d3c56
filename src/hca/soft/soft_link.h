/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-way stream sockets between engines: each engine sends over connections it
 * made itself, lazily, and receives over those it accepted. A lost connection
 * stays lost, and takes the one of the other direction with it: frames sent to
 * it fall into a black hole. The engine and the wire call these functions.
 *
 * A connection accepted over TCP is pending until its connector has proved
 * itself (soft_greet.h). Few are pending at a time, each for a limited time;
 * beyond that the oldest makes room, and its connector dials again if it is a
 * peer. Over unix sockets the kernel names the connector's user.
 */
#ifndef ORI_HCA_SOFT_LINK_H
#define ORI_HCA_SOFT_LINK_H

#include "hca/soft/soft_tcp.h"
#include "hca/soft/soft_wire.h"

/* Open the unix listener and fill in its address. */
enum oriel_status ori_soft_link_listen(struct soft_engine *e);

/* The same for TCP, for peers that no unix socket reaches. Twice is fine. */
enum oriel_status ori_soft_link_listen_tcp(struct soft_engine *e);

/* Close all links and listeners. */
void ori_soft_link_close_all(struct soft_engine *e);

/* The outgoing link to the engine at @address, created at the first request. */
enum oriel_status ori_soft_link_to(struct soft_engine *e, const struct soft_address *address,
				   enum soft_road road, struct soft_link **link);

/* The same link if there is one already, else NULL. */
struct soft_link *ori_soft_link_find(struct soft_engine *e, uint64_t cookie);

/* A frame to fill in, NULL while the outbox is full; push() sends it. */
struct soft_frame *ori_soft_link_room(struct soft_link *link);
void ori_soft_link_push(struct soft_link *link);
bool ori_soft_link_is_lost(const struct soft_link *link);
/* The reason of the loss; "" if it is not lost. */
const char *ori_soft_link_why(const struct soft_link *link);

/* Write the pushed frames; true if any byte left. */
bool ori_soft_link_flush(struct soft_engine *e);

/* Take the bytes that have arrived, without waiting; true if there were any. */
bool ori_soft_link_poll(struct soft_engine *e);

/* Earliest deadline of a connection that is being made or proved, or of a listener that rests. */
uint64_t ori_soft_link_due(const struct soft_engine *e);

/* No link sends from, or receives into, the memory of @mr any more. */
void ori_soft_link_forget(struct soft_engine *e, const struct soft_mr *mr);

/* Nothing that arrives for @qp goes to its memory any more. */
void ori_soft_link_divert(struct soft_engine *e, const struct soft_qp *qp);

#endif
