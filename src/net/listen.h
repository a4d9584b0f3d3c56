/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener, of TCP or of a unix socket, and its pending connections: those that have not proved
 * the job key or sent their first frame. A connection that stays silent, fails the proof or sends
 * malformed bytes is dropped with a warning and delays no other. The owner fetches a connection
 * with its first frame, and decides about it. The listener of the bootstrap, the mesh of src/comm,
 * p2p contexts and the software HCA call it; one thread at a time.
 *
 * Unproven connections never use the last descriptors of the process: the oldest of them are
 * closed first, silent ones before all others. Its connector dials again.
 */
#ifndef ORI_NET_LISTEN_H
#define ORI_NET_LISTEN_H

#include "net/conn.h"

/* A connection that the listener has accepted and its owner has not fetched yet. */
struct ori_net_pending {
	struct ori_net_pending *next;
	struct ori_net_conn conn;       /* once fetched, ori_net_take() returns the first frame */
	uint64_t deadline;              /* of its first frame */
	int pid;                        /* its process; 0 over TCP */
	char from[ORI_ENDPOINT_LENGTH]; /* its address, for texts */
};

#define ORI_NET_TEXT 320

/* Lines of the log, of one kind: at most one a second. */
struct ori_net_lines {
	uint64_t next;       /* no line before */
	unsigned suppressed; /* since the last line */
};

struct ori_net_listener {
	int fd;                          /* listening socket; -1: no connection is expected */
	bool is_local;                   /* a unix socket: processes of this user alone */
	int epoll;                       /* readable when ori_net_listener_serve() has work */
	struct ori_tls_context *context; /* borrowed; NULL: plain */
	struct ori_traffic *traffic;     /* borrowed; NULL: not counted */
	struct ori_net_pending *waiting; /* newest first */
	struct ori_net_pending *arrived; /* with their first frame */
	unsigned capacity;               /* connections that the owner expects at once */
	unsigned pending_count;          /* length of the list waiting */
	unsigned most;         /* its limit; lowered when descriptors are few until it is empty */
	uint64_t paused_until; /* no connection is accepted before; 0: not paused */
	struct ori_net_lines warnings;
	struct ori_net_lines refusals; /* apart, so that no probe hides a rank with another key */
	struct ori_net_lines notes;    /* at level debug */
	/* The number of refused connections, and the status and text of the first of them. */
	unsigned refused;
	enum oriel_status refused_status;
	char refused_text[ORI_NET_TEXT];
};

/* Set up a listener without a socket; ori_net_listener_close() accepts it, too. */
void ori_net_listener_init(struct ori_net_listener *listener, struct ori_tls_context *context,
			   unsigned capacity, struct ori_traffic *traffic);
/* Takes over @fd, also on failure. */
enum oriel_status ori_net_listener_open(struct ori_net_listener *listener, int fd);
void ori_net_listener_close(struct ori_net_listener *listener);

/* Advance all pending connections; never blocks, and accepts a few connections at most. */
void ori_net_listener_serve(struct ori_net_listener *listener);
/* Fetch a connection with its first frame, or NULL; the caller frees it. */
struct ori_net_pending *ori_net_listener_next(struct ori_net_listener *listener);
void ori_net_pending_free(struct ori_net_pending *pending);

/* The time when ori_net_listener_serve() has work that epoll does not report; UINT64_MAX: none. */
uint64_t ori_net_listener_due(const struct ori_net_listener *listener);
/* Close one unproven connection, so that its descriptor is free; false if there is none. */
bool ori_net_listener_make_room(struct ori_net_listener *listener);

/* Warn that a connection from @from is dropped; at most one warning a second. */
void ori_net_listener_warn(struct ori_net_listener *listener, const char *from, const char *why);
/*
 * Warn that @who is rejected with @status; at most one such warning a second. The first such text
 * becomes refused_text.
 */
void ori_net_listener_refuse(struct ori_net_listener *listener, const char *who,
			     enum oriel_status status, const char *why);

#endif
