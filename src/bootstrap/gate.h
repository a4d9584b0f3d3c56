/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of a rank: a listener, the guests that still have to prove that they
 * know the job key, and those that did and wait to be fetched. A guest that is
 * silent or talks nonsense is shown out with a warning and keeps nobody waiting.
 *
 * Unproven connections never take the last descriptors of the process: the oldest of
 * them are closed first, those that have said nothing before all others. A rank whose
 * connection is closed so connects again (dial.h).
 */
#ifndef ORI_BOOTSTRAP_GATE_H
#define ORI_BOOTSTRAP_GATE_H

#include <poll.h>

#include "bootstrap/endpoint.h"
#include "bootstrap/job_tag.h"
#include "bootstrap/link.h"
#include "net/auth.h"

struct ori_guest {
	struct ori_guest *next;
	struct ori_link link;
	struct ori_hello hello; /* once it is in */
	struct ori_auth auth;
	bool was_challenged;
	uint64_t deadline; /* to say hello */
	char from[ORI_ENDPOINT_LENGTH];
};

/* The process that has a rank of a job. */
struct ori_holder {
	uint64_t process;
	uint32_t pid;
	char from[ORI_ENDPOINT_LENGTH];
};

#define ORI_GATE_TEXT 320

struct ori_gate {
	int listener; /* -1: nobody is expected */
	int epoll;    /* readable when ori_gate_serve() has work */
	int bell;     /* eventfd; readable once this rank is to give up */
	struct ori_address address;
	const struct ori_credentials *own; /* borrowed */
	unsigned size;                     /* ranks of the job */
	struct ori_traffic *traffic;
	struct ori_guest *waiting, *in;
	unsigned guests;     /* in the list waiting */
	unsigned most;       /* of them; less once descriptors are few, until the list is empty */
	uint64_t rest_until; /* the listener is not looked at before; 0: it is */
	uint64_t warn_at;    /* no sooner, about guests that are shown out */
	unsigned unsaid;     /* of those since the last warning */
	bool takes_joins;    /* ranks are expected to come together here */
	/* Of a job that has come together here, [size], freed with the gate; else NULL. */
	struct ori_holder *holders;
	unsigned refused; /* guests; of the first of them: */
	enum oriel_status refused_status;
	char refused_text[ORI_GATE_TEXT];
};

/* An empty one, which ori_gate_close() takes too. */
void ori_gate_init(struct ori_gate *gate, const struct ori_credentials *own, unsigned size,
		   struct ori_traffic *traffic);
/* From now on ori_gate_ring() ends ori_gate_poll(). */
enum oriel_status ori_gate_hang(struct ori_gate *gate);
/* Any thread. */
void ori_gate_ring(struct ori_gate *gate);
/* Takes @listener, which listens at @gate->address, also on failure. */
enum oriel_status ori_gate_open(struct ori_gate *gate, int listener);
void ori_gate_close(struct ori_gate *gate);

/* Lets in who can be let in now; never blocks, and accepts a few connections at most. */
void ori_gate_serve(struct ori_gate *gate);
/* A guest that is in and has come for @purpose, or NULL; the caller's to free. */
struct ori_guest *ori_gate_next(struct ori_gate *gate, enum ori_purpose purpose);
void ori_guest_free(struct ori_guest *guest);
/* Warns that @guest is not let in, with @status, and keeps that for what fails later. */
void ori_gate_note_refusal(struct ori_gate *gate, const struct ori_guest *guest,
			   enum oriel_status status, const char *why);

/*
 * poll() of @count descriptors (at most 15) while the gate is served; returns
 * once something happened, at the gate or with them, or @deadline has passed.
 * ORIEL_ERR_ABORTED once somebody has rung.
 */
enum oriel_status ori_gate_poll(struct ori_gate *gate, struct pollfd *polled, unsigned count,
				uint64_t deadline);

#endif
