/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener of a rank: src/net's listener, and what decides about the hello of a connection
 * that it hands over. Joining, the tree and messages poll it while they wait, and fetch the
 * connections that are admitted. A rank whose connection is closed to make room connects again
 * (dial.h).
 */
#ifndef ORI_BOOTSTRAP_LISTENER_H
#define ORI_BOOTSTRAP_LISTENER_H

#include <poll.h>

#include "bootstrap/job_tag.h"
#include "net/listen.h"

/* A connection whose hello is valid, and that no module has fetched yet. */
struct ori_pending {
	struct ori_pending *next;
	struct ori_net_conn link;
	struct ori_hello hello;
	char from[ORI_ENDPOINT_LENGTH]; /* its address, for texts */
};

/* The process that has joined the job as one rank. */
struct ori_rank_owner {
	uint64_t process;
	uint32_t pid;
	char from[ORI_ENDPOINT_LENGTH];
};

struct ori_listener {
	struct ori_net_listener net;
	int interrupt_fd;    /* eventfd; readable once ori_listener_interrupt() was called */
	const int *abort_fd; /* of struct ori_tcp_job or ori_tcp_abort_by(); or NULL */
	struct ori_address address;
	const struct ori_credentials *own; /* borrowed */
	unsigned rank, size;               /* of the listener; ranks of the job */
	struct ori_pending *admitted;
	bool accepts_joins; /* rank 0 while it waits for the ranks of its job */
	/*
	 * Rank 0 while it waits for the ranks of a list: the names of their ids, [size], borrowed;
	 * all zeros of one that has failed here. Else NULL.
	 */
	const struct ori_job_name *awaited;
	/* Rank 0 of a complete job: the process of each rank, [size], owned; else NULL. */
	struct ori_rank_owner *rank_owners;
};

/* Set up a listener without a socket; ori_listener_close() accepts it, too. */
void ori_listener_init(struct ori_listener *listener, const struct ori_credentials *own,
		       unsigned size, struct ori_traffic *traffic);
/* From now on ori_listener_interrupt() ends ori_listener_poll(). */
enum oriel_status ori_listener_enable_interrupt(struct ori_listener *listener);
/* End ori_listener_poll() with ORIEL_ERR_ABORTED, now and later. Any thread. */
void ori_listener_interrupt(struct ori_listener *listener);
void ori_listener_close(struct ori_listener *listener);

/* Advance all pending connections; never blocks, and accepts a few connections at most. */
void ori_listener_serve(struct ori_listener *listener);
/* Fetch an admitted connection for @purpose, or NULL; the caller frees it. */
struct ori_pending *ori_listener_next(struct ori_listener *listener, enum ori_purpose purpose);
void ori_pending_free(struct ori_pending *pending);
/* The rank in the list of rank 0 of the id with which @hello joins; size: none that is awaited. */
unsigned ori_listener_awaited(const struct ori_listener *listener, const struct ori_hello *hello);
/*
 * Warn that @pending is rejected with @status. The first rejection becomes part of the error if
 * the job fails later because a rank did not join.
 */
void ori_listener_note_rejection(struct ori_listener *listener, const struct ori_pending *pending,
				 enum oriel_status status, const char *why);

/* ORIEL_ERR_PEER once abort_fd is readable, else ORIEL_OK; never waits. */
enum oriel_status ori_listener_check(const struct ori_listener *listener);
/*
 * poll() @count descriptors (at most 15) and serve the listener meanwhile. Returns after an event
 * at the listener or at one of them, or once @deadline has passed. ORIEL_ERR_ABORTED after
 * ori_listener_interrupt(); ORIEL_ERR_PEER once abort_fd is readable.
 */
enum oriel_status ori_listener_poll(struct ori_listener *listener, struct pollfd *polled,
				    unsigned count, uint64_t deadline);

#endif
