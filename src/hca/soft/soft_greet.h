/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutual proof at the start of a TCP connection between engines, before any
 * other frame: the acceptor sends a challenge, the connector its hello with a
 * MAC, the acceptor a welcome with its own MAC, or a rejection. So a connection
 * that proves nothing gets no MAC, from which a weak key could be found. A job
 * without a key uses an empty one. Links and inboxes call these functions.
 */
#ifndef ORI_HCA_SOFT_GREET_H
#define ORI_HCA_SOFT_GREET_H

#include "hca/soft/soft_frame.h"
#include "net/auth.h"

/* The payload of a hello over TCP. */
struct soft_proof {
	uint8_t nonce[ORI_NONCE_LENGTH];
	uint8_t mac[ORI_MAC_LENGTH];
};

static_assert(sizeof(struct soft_proof) == 64, "goes over the wire");

/* The acceptor's first frame. */
struct soft_challenge {
	struct soft_header h;
	uint8_t nonce[ORI_NONCE_LENGTH];
};

struct soft_welcome {
	struct soft_header h;
	uint8_t mac[ORI_MAC_LENGTH];
};

static_assert(sizeof(struct soft_challenge) == sizeof(struct soft_welcome), "read alike");

/* The connector's side of one connection. Zeroed: no byte has arrived yet. */
struct soft_greet {
	struct ori_auth auth;
	struct soft_header hello;
	bool has_sent; /* the connector has sent the hello */
	size_t length; /* of the bytes that have arrived */
	union {
		struct soft_header h;
		struct soft_challenge challenge;
		struct soft_welcome welcome;
		uint8_t bytes[sizeof(struct soft_challenge)];
	} in;
};

enum soft_greeting {
	SOFT_GREETING_AGAIN,    /* more bytes have to arrive */
	SOFT_GREETING_DONE,     /* both sides have proved themselves */
	SOFT_GREETING_CUT,      /* the peer has closed the connection without an answer */
	SOFT_GREETING_REJECTED, /* one side does not accept the other as its peer */
};

/* The hello of engine @from to engine @to. */
struct soft_header ori_soft_hello(uint64_t from, uint64_t to);

/*
 * Connector: take the bytes that arrived over @fd and answer them. *@why is set
 * when REFUSED.
 */
enum soft_greeting ori_soft_greet_connect(struct soft_greet *g, const struct soft_engine *e,
					  uint64_t to, int fd, const char **why);

/* Acceptor: send the challenge over the new @fd; false if the connection cannot be used. */
bool ori_soft_greet_challenge(struct ori_auth *auth, int fd);

/* NULL, or what is wrong with @hello; its payload is not checked. */
const char *ori_soft_hello_flaw(const struct soft_engine *e, const struct soft_header *hello);

/* Acceptor: answer @hello and its @proof over @fd. NULL, or why it is rejected. */
const char *ori_soft_greet_accept(struct ori_auth *auth, const struct soft_engine *e,
				  const struct soft_header *hello, const struct soft_proof *proof,
				  int fd);

/* Acceptor: send a rejection, and nothing else. */
void ori_soft_greet_reject(int fd);

#endif
