/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine, node and process that decide how endpoints reach each other. Contexts
 * and the cache of a communicator call these.
 */
#ifndef ORI_P2P_P2P_HOST_H
#define ORI_P2P_P2P_HOST_H

#include <stdint.h>

#include <oriel/status.h>

struct ori_host;

struct p2p_host {
	uint64_t kernel;  /* equal: unix sockets lead from one to the other */
	uint64_t node;    /* the virtual node; 0: none */
	uint64_t process; /* equal: the same process */
	uint32_t uid, pid;
};

/* As ORIEL_NODE says. */
enum oriel_status ori_p2p_host(struct p2p_host *host);

/* The same of a rank, which may be assigned to another node. */
struct p2p_host ori_p2p_host_of(const struct ori_host *host);

#endif
