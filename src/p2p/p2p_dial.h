/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call to a hub over TCP, where no unix socket leads: its addresses are tried one
 * after the other, until one is found behind which a hub proves that it is the one
 * that is meant and knows the job key. Nothing waits.
 */
#ifndef ORI_P2P_P2P_DIAL_H
#define ORI_P2P_P2P_DIAL_H

#include "net/auth.h"
#include "p2p/p2p_wire.h"

/* Zeroed storage but for @fd: not begun. */
struct p2p_dial {
	int fd; /* of the address that is tried; -1: none */
	bool is_challenged;
	unsigned attempt;                  /* number of the address */
	unsigned refused, silent, strange; /* addresses of this round */
	uint64_t deadline;                 /* of this address; of a pause between rounds */
	struct ori_auth auth;
	struct p2p_frame in;
	size_t in_length;
};

/*
 * The socket, and what is to be said next. ORIEL_AGAIN: not yet; ORIEL_ERR_PEER:
 * nobody listens there; ORIEL_ERR_AUTH: another hub does, or one with another key.
 */
enum oriel_status ori_p2p_dial(struct p2p_dial *dial, const struct ori_key *key,
			       const struct p2p_address *from, const struct p2p_address *to,
			       int *fd, struct p2p_hello *hello);

/* Does anybody listen there? ORIEL_OK and ORIEL_ERR_PEER say so, ORIEL_AGAIN: not known yet. */
enum oriel_status ori_p2p_probe(struct p2p_dial *dial, const struct p2p_address *from,
				const struct p2p_address *to);

void ori_p2p_dial_close(struct p2p_dial *dial);

/* How texts name the process at @to: by its number, and from afar by where it listens. */
#define P2P_NAME 88u
void ori_p2p_name(const struct p2p_address *from, const struct p2p_address *to,
		  char text[P2P_NAME]);

/* The other side of a call: what a hub answers to a challenge, and whether a hello is right. */
enum oriel_status ori_p2p_prove(const struct ori_key *key, const struct p2p_token *own,
				struct ori_auth *auth, const struct p2p_challenge *challenge,
				struct p2p_proof *proof);
enum oriel_status ori_p2p_check_hello(const struct ori_key *key, const struct ori_auth *auth,
				      const struct p2p_hello *hello);

/* A machine that is cut off is noticed on @fd after half a minute, also while nobody speaks. */
void ori_p2p_tune(int fd);

#endif
