/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection to a context, where no unix socket leads: the endpoint tries the
 * addresses one after the other, until the context behind one proves that it is the one
 * that is meant and knows the job key. No call waits.
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
	unsigned refused, silent, strange; /* addresses of this round, by how they failed */
	uint64_t deadline;                 /* of this address; of a pause between rounds */
	struct ori_auth auth;
	struct p2p_frame in;
	size_t in_length;
};

/*
 * The socket, and the hello to send on it. ORIEL_AGAIN: not yet; ORIEL_ERR_PEER: nothing
 * listens there; ORIEL_ERR_AUTH: another context does, or one with another key.
 */
enum oriel_status ori_p2p_dial(struct p2p_dial *dial, const struct ori_key *key,
			       const struct p2p_address *from, const struct p2p_address *to,
			       int *fd, struct p2p_hello *hello);

/*
 * Does a process listen there? ORIEL_OK: yes; ORIEL_ERR_PEER: no; ORIEL_AGAIN: not known
 * yet.
 */
enum oriel_status ori_p2p_probe(struct p2p_dial *dial, const struct p2p_address *from,
				const struct p2p_address *to);

void ori_p2p_dial_close(struct p2p_dial *dial);

/* How texts name the process at @to: by its number, and on another machine by its address. */
#define P2P_NAME 88u
void ori_p2p_name(const struct p2p_address *from, const struct p2p_address *to,
		  char text[P2P_NAME]);

/* The accepting side: the context's answer to a challenge, and whether a hello is right. */
enum oriel_status ori_p2p_prove(const struct ori_key *key, const struct p2p_token *own,
				struct ori_auth *auth, const struct p2p_challenge *challenge,
				struct p2p_proof *proof);
enum oriel_status ori_p2p_check_hello(const struct ori_key *key, const struct ori_auth *auth,
				      const struct p2p_hello *hello);

/*
 * Let the kernel report a machine that is cut off on @fd after half a minute, also while
 * the connection is idle.
 */
void ori_p2p_tune(int fd);

#endif
