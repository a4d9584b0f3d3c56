/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-way stream sockets between engines: each engine sends over connections
 * it made itself, lazily, and receives over those it accepted. A connection
 * that is lost stays lost, and takes the one of the other direction with it: what
 * is sent there falls into a black hole.
 *
 * A connection accepted over TCP is pending until its connector has proved itself
 * (soft_greet.h). Few are at a time, each for a limited time; where there are more, the
 * oldest makes room, and its connector dials again if it is a peer. Over unix sockets
 * the kernel names the connector's user.
 */
#ifndef ORI_HCA_SOFT_LINK_H
#define ORI_HCA_SOFT_LINK_H

#include "hca/soft_tcp.h"
#include "hca/soft_wire.h"

/* Open the unix listener and fill in where it is found. */
enum oriel_status ori_soft_link_listen(struct soft_engine *e);

/* The same of TCP, for peers that no unix socket reaches. Twice is fine. */
enum oriel_status ori_soft_link_listen_tcp(struct soft_engine *e);

/* Close all links and listeners. */
void ori_soft_link_close_all(struct soft_engine *e);

/* The way out to the engine at @address, made when first asked for. */
enum oriel_status ori_soft_link_to(struct soft_engine *e, const struct soft_address *address,
				   enum soft_road road, struct soft_link **link);

/* The same if there is one already, else NULL. */
struct soft_link *ori_soft_link_find(struct soft_engine *e, uint64_t cookie);

/* A frame to fill in, NULL while there is no room; push() sends it. */
struct soft_frame *ori_soft_link_room(struct soft_link *link);
void ori_soft_link_push(struct soft_link *link);
bool ori_soft_link_is_lost(const struct soft_link *link);
/* Why it is; "" if it is not. */
const char *ori_soft_link_why(const struct soft_link *link);

/* Write what was pushed; true if anything left. */
bool ori_soft_link_flush(struct soft_engine *e);

/* Take what has come without waiting; true if anything has. */
bool ori_soft_link_poll(struct soft_engine *e);

/* Earliest deadline of a connection that is being made or proved, or of a listener that rests. */
uint64_t ori_soft_link_due(const struct soft_engine *e);

/* Nobody sends from, or receives into, the memory of @mr any more. */
void ori_soft_link_forget(struct soft_engine *e, const struct soft_mr *mr);

/* Nothing that comes for @qp goes to its memory any more. */
void ori_soft_link_divert(struct soft_engine *e, const struct soft_qp *qp);

#endif
