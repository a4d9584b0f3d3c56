/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the two ends of a TCP connection between engines prove themselves before any
 * other frame: the acceptor sends a challenge, the connector its hello with a MAC, the
 * acceptor a welcome with its own MAC, or a refusal. So a connection that proves
 * nothing gets no MAC from which a weak key could be found. A job without a key
 * uses an empty one.
 */
#ifndef ORI_HCA_SOFT_GREET_H
#define ORI_HCA_SOFT_GREET_H

#include "hca/soft_wire.h"
#include "net/auth.h"

/* The payload of a hello over TCP. */
struct soft_proof {
	uint8_t nonce[ORI_NONCE_LENGTH];
	uint8_t mac[ORI_MAC_LENGTH];
};

static_assert(sizeof(struct soft_proof) == 64, "goes over the wire");

/* What the acceptor sends. */
struct soft_challenge {
	struct soft_header h;
	uint8_t nonce[ORI_NONCE_LENGTH];
};

struct soft_welcome {
	struct soft_header h;
	uint8_t mac[ORI_MAC_LENGTH];
};

static_assert(sizeof(struct soft_challenge) == sizeof(struct soft_welcome), "read alike");

/* The connector's side of one connection. Zeroed: nothing has come yet. */
struct soft_greet {
	struct ori_auth auth;
	struct soft_header hello;
	bool has_sent; /* the hello */
	size_t length; /* of what has come */
	union {
		struct soft_header h;
		struct soft_challenge challenge;
		struct soft_welcome welcome;
		uint8_t bytes[sizeof(struct soft_challenge)];
	} in;
};

enum soft_greeting {
	SOFT_GREETING_AGAIN,   /* more has to come */
	SOFT_GREETING_DONE,    /* both ends have proved themselves */
	SOFT_GREETING_CUT,     /* the other end has closed the connection, which says nothing */
	SOFT_GREETING_REFUSED, /* one end does not take the other for its peer */
};

/* The hello of engine @from to engine @to. */
struct soft_header ori_soft_hello(uint64_t from, uint64_t to);

/* Connector: take what has come over @fd and answer it. *@why is set when REFUSED. */
enum soft_greeting ori_soft_greet_connect(struct soft_greet *g, const struct soft_engine *e,
					  uint64_t to, int fd, const char **why);

/* Acceptor: send the challenge over the new @fd; false if the connection is of no use. */
bool ori_soft_greet_challenge(struct ori_auth *auth, int fd);

/* What is wrong with @hello, its payload aside, or NULL. */
const char *ori_soft_hello_flaw(const struct soft_engine *e, const struct soft_header *hello);

/* Acceptor: answer @hello and its @proof over @fd. NULL, or why it is refused. */
const char *ori_soft_greet_accept(struct ori_auth *auth, const struct soft_engine *e,
				  const struct soft_header *hello, const struct soft_proof *proof,
				  int fd);

/* Acceptor: say so, and no more. */
void ori_soft_greet_refuse(int fd);

#endif
