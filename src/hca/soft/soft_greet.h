/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello by which a connector names itself and the engine that it means: the first frame of a
 * connection of src/net, which over TCP has proved the job key. The acceptor answers with a welcome
 * or a rejection; the stream follows. Links call these functions.
 */
#ifndef ORI_HCA_SOFT_GREET_H
#define ORI_HCA_SOFT_GREET_H

#include "hca/soft/soft_frame.h"
#include "net/conn.h"

#define SOFT_WHY 96u /* bytes of a reason */

/* Types of these frames. */
enum soft_greeting {
	SOFT_GREETING_HELLO = 1, /* struct soft_header */
	SOFT_GREETING_WELCOME,
	SOFT_GREETING_REFUSED,
};

/* The hello of engine @from to engine @to. */
struct soft_header ori_soft_hello(uint64_t from, uint64_t to);

/*
 * Connector: continue the greeting of the engine at the other end of @net; *@has_sent, false at
 * first, belongs to it. ORIEL_OK: that engine awaits the stream. ORIEL_ERR_PEER: it has closed the
 * connection without an answer, or is not there. Another failure: @why says why the two do not
 * connect.
 */
enum oriel_status ori_soft_greet_connect(struct ori_net_conn *net, const struct soft_engine *e,
					 uint64_t to, bool *has_sent, char why[SOFT_WHY]);

/*
 * Acceptor: take the hello that has arrived. NULL and *@from, the connector's cookie, or why it
 * is rejected; it knows then. The welcome is the caller's to send.
 */
const char *ori_soft_greet_accept(struct ori_net_conn *net, const struct soft_engine *e,
				  uint64_t *from);
bool ori_soft_greet_welcome(struct ori_net_conn *net);

#endif
