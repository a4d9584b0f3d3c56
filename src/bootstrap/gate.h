/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of a rank: a listener, the guests that still have to prove that they
 * know the job key, and those that did and wait to be fetched. A pending that is
 * silent or talks nonsense is shown out with a warning and keeps nobody waiting.
 *
 * Unproven connections never take the last descriptors of the process: the oldest of
 * them are closed first, those that have said nothing before all others. A rank whose
 * connection is closed so connects again (dial.h).
 */
#ifndef ORI_BOOTSTRAP_LISTENER_H
#define ORI_BOOTSTRAP_LISTENER_H

#include <poll.h>

#include "bootstrap/endpoint.h"
#include "bootstrap/job_tag.h"
#include "bootstrap/link.h"
#include "net/auth.h"

struct ori_pending {
	struct ori_pending *next;
	struct ori_link link;
	struct ori_hello hello; /* once it is in */
	struct ori_auth auth;
	bool was_challenged;
	uint64_t deadline; /* to say hello */
	char from[ORI_ENDPOINT_LENGTH];
};

/* The process that has a rank of a job. */
struct ori_rank_owner {
	uint64_t process;
	uint32_t pid;
	char from[ORI_ENDPOINT_LENGTH];
};

#define ORI_LISTENER_TEXT 320

struct ori_listener {
	int fd;           /* -1: nobody is expected */
	int epoll;        /* readable when ori_listener_serve() has work */
	int interrupt_fd; /* eventfd; readable once this rank is to give up */
	struct ori_address address;
	const struct ori_credentials *own; /* borrowed */
	unsigned size;                     /* ranks of the job */
	struct ori_traffic *traffic;
	struct ori_pending *waiting, *admitted;
	unsigned pending_count;       /* in the list waiting */
	unsigned most;         /* of them; less once descriptors are few, until the list is empty */
	uint64_t paused_until; /* the listener is not looked at before; 0: it is */
	uint64_t warn_at;      /* no sooner, about guests that are shown out */
	unsigned suppressed;   /* of those since the last warning */
	bool accepts_joins;    /* ranks are expected to come together here */
	/* Of a job that has come together here, [size], freed with the listener; else NULL. */
	struct ori_rank_owner *rank_owners;
	unsigned rejected; /* guests; of the first of them: */
	enum oriel_status rejected_status;
	char rejected_text[ORI_LISTENER_TEXT];
};

/* An empty one, which ori_listener_close() takes too. */
void ori_listener_init(struct ori_listener *listener, const struct ori_credentials *own,
		       unsigned size, struct ori_traffic *traffic);
/* From now on ori_listener_interrupt() ends ori_listener_poll(). */
enum oriel_status ori_listener_enable_interrupt(struct ori_listener *listener);
/* Any thread. */
void ori_listener_interrupt(struct ori_listener *listener);
/* Takes @listener, which listens at @listener->address, also on failure. */
enum oriel_status ori_listener_open(struct ori_listener *listener, int fd);
void ori_listener_close(struct ori_listener *listener);

/* Lets in who can be let in now; never blocks, and accepts a few connections at most. */
void ori_listener_serve(struct ori_listener *listener);
/* A pending that is in and has come for @purpose, or NULL; the caller's to free. */
struct ori_pending *ori_listener_next(struct ori_listener *listener, enum ori_purpose purpose);
void ori_pending_free(struct ori_pending *pending);
/* Warns that @pending is not let in, with @status, and keeps that for what fails later. */
void ori_listener_note_rejection(struct ori_listener *listener, const struct ori_pending *pending,
				 enum oriel_status status, const char *why);

/*
 * poll() of @count descriptors (at most 15) while the listener is served; returns
 * once something happened, at the listener or with them, or @deadline has passed.
 * ORIEL_ERR_ABORTED once somebody has rung.
 */
enum oriel_status ori_listener_poll(struct ori_listener *listener, struct pollfd *polled,
				    unsigned count, uint64_t deadline);

#endif
