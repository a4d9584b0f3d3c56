/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-way stream sockets between engines: each engine sends over connections it
 * made itself, lazily, and receives over those it accepted. A lost connection
 * stays lost, and takes the one of the other direction with it: frames sent to
 * it fall into a black hole. The engine and the wire call these functions.
 *
 * Both listeners are of src/net, which limits connections that have not said
 * hello; a connector whose connection had to make room dials again. TCP is TLS
 * with a job key; over unix sockets the kernel names the connector's user.
 */
#ifndef ORI_HCA_SOFT_LINK_H
#define ORI_HCA_SOFT_LINK_H

#include "hca/soft/soft_address.h"
#include "hca/soft/soft_inbox.h"
#include "hca/soft/soft_outbox.h"

enum soft_link_state {
	SOFT_LINK_CONNECTING,
	SOFT_LINK_GREETING, /* outgoing: connected, and not welcome yet */
	SOFT_LINK_UP,
	SOFT_LINK_LOST,
};

struct soft_link {
	struct soft_link *next;
	struct soft_engine *engine;
	enum soft_link_state state;
	struct ori_net_conn net;
	bool is_out;
	uint64_t deadline; /* outgoing: of this attempt, or the next look; SOFT_NEVER: none */

	/* outgoing connections */
	struct soft_address address; /* of the peer's engine */
	enum soft_road road;
	bool is_unix;
	unsigned attempt;       /* addresses tried */
	bool was_silent;        /* one of them took the connection, and sent nothing */
	bool was_cut;           /* ... or closed it */
	bool was_unreached;     /* ... or neither took nor refused it */
	char refusal[SOFT_WHY]; /* ... or "", or why an acceptor is not the peer */
	uint64_t dial_until;    /* as long as acceptors close connections, or none is reached */
	bool has_greeted;       /* the hello is sent */
	struct ori_hearing hearing;
	struct soft_outbox out;
	char why[SOFT_WHY]; /* the link is lost */

	struct soft_inbox in;
};

/* The outgoing link to engine @cookie, NULL if there is none yet. */
static inline struct soft_link *soft_link_find(struct soft_engine *e, uint64_t cookie)
{
	struct soft_link *link;

	for (link = e->links; link; link = link->next)
		if (link->is_out && link->address.cookie == cookie)
			return link;
	return NULL;
}

static inline bool soft_link_is_lost(const struct soft_link *link)
{
	return link->state == SOFT_LINK_LOST;
}

/* The reason of the loss; "" if it is not lost. */
static inline const char *soft_link_why(const struct soft_link *link)
{
	return link->why;
}

/* A frame to fill in, NULL while the outbox is full; push() sends it. */
static inline struct soft_frame *soft_link_room(struct soft_link *link)
{
	return link->out.count < SOFT_OUTBOX ? &link->out.frames[link->out.count] : NULL;
}

static inline void soft_link_push(struct soft_link *link)
{
	link->out.count++;
}

/* Open the unix listener and fill in its address. */
enum oriel_status ori_soft_link_listen(struct soft_engine *e);

/* The same for TCP, for peers that no unix socket reaches. Twice is fine. */
enum oriel_status ori_soft_link_listen_tcp(struct soft_engine *e);

/* Close all links and listeners. */
void ori_soft_link_close_all(struct soft_engine *e);

/* The outgoing link to the engine at @address, created at the first request. */
enum oriel_status ori_soft_link_to(struct soft_engine *e, const struct soft_address *address,
				   enum soft_road road, struct soft_link **link);

/* Write the pushed frames; true if any byte left. */
bool ori_soft_link_flush(struct soft_engine *e);

/* Take the bytes that have arrived, without waiting; true if there were any. */
bool ori_soft_link_poll(struct soft_engine *e);

/* Earliest deadline of a connection that is being made, or of a listener. */
uint64_t ori_soft_link_due(const struct soft_engine *e);

/* No link sends from, or receives into, the memory of @mr any more. */
void ori_soft_link_forget(struct soft_engine *e, const struct soft_mr *mr);

#endif
