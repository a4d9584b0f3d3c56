/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport for oriel/p2p.h over pairs of sockets, which a fork inherits: memory is not shared,
 * and all bytes pass through the kernel. A pattern for transports over other things.
 */
#ifndef P2P_PIPE_H
#define P2P_PIPE_H

#include <oriel/p2p_transport.h>

struct p2p_pipe; /* the memory that links of a process may write to */

struct p2p_pipe *p2p_pipe_create(void); /* NULL: no memory */
void p2p_pipe_destroy(struct p2p_pipe *pipe);

/* The sockets of one endpoint, for oriel_p2p_attr.transport_data: its link closes them. */
struct p2p_pipe_end {
	int puts, messages;
};

/* Two ends that are joined. False: errno says why. */
bool p2p_pipe_pair(struct p2p_pipe_end ends[2]);
void p2p_pipe_close(const struct p2p_pipe_end *end);

/* Its context is a struct p2p_pipe, the data of an endpoint a struct p2p_pipe_end. */
extern const struct oriel_p2p_transport p2p_pipe_transport;

#endif
