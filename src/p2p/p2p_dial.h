/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection to a context, where no unix socket leads: the endpoint tries the addresses one
 * after the other, until the context behind one, which knows the job key if there is one, answers
 * its hello. No call waits. The meeting of endpoints calls it.
 */
#ifndef ORI_P2P_P2P_DIAL_H
#define ORI_P2P_P2P_DIAL_H

#include "net/conn.h"
#include "p2p/p2p_wire.h"

/* Zeroed storage: not begun. */
struct p2p_dial {
	bool is_greeted;                   /* the hello is sent */
	unsigned attempt;                  /* number of the address */
	unsigned refused, silent, strange; /* addresses of this round, by how they failed */
	uint64_t deadline;                 /* of this address; of a pause between rounds */
	const char *doubt; /* why the last context that answered was not the peer's; NULL: none */
};

/*
 * ORIEL_OK: @conn, closed before, is connected and the hello is answered. ORIEL_AGAIN: not yet;
 * ORIEL_ERR_PEER: nothing listens there; ORIEL_ERR_AUTH: another context does, or one with another
 * key. @tls NULL: plain.
 */
enum oriel_status ori_p2p_dial(struct p2p_dial *dial, struct ori_net_conn *conn,
			       struct ori_tls_context *tls, const struct p2p_address *from,
			       const struct p2p_address *to);

/*
 * Does a process listen there? ORIEL_OK: yes; ORIEL_ERR_PEER: no; ORIEL_AGAIN: not known
 * yet.
 */
enum oriel_status ori_p2p_probe(struct p2p_dial *dial, struct ori_net_conn *conn,
				const struct p2p_address *from, const struct p2p_address *to);

/* The name of the process at @to in texts: its number, and on another machine its address. */
#define P2P_NAME 88u
void ori_p2p_name(const struct p2p_address *from, const struct p2p_address *to,
		  char text[P2P_NAME]);

/* The kernel probes the machine of the peer of @fd while the connection is idle. */
void ori_p2p_tune(int fd);

#endif
