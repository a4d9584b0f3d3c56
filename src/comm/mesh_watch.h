/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that accepts its peers sees that one of them ends meanwhile. mesh.c calls it. */
#ifndef ORI_COMM_MESH_WATCH_H
#define ORI_COMM_MESH_WATCH_H

#include "comm/comm.h"

struct ori_mesh_watch {
	struct pollfd *fds; /* [1 + size]: the listener, then one descriptor of each rank, or -1 */
};

/* @listen_fd is borrowed. The caller closes @watch, also after a failure: a peer has ended. */
enum oriel_status ori_mesh_watch_open(const struct oriel_comm *comm, int listen_fd,
				      struct ori_mesh_watch *watch);
/* A watch of zeros is fine. */
void ori_mesh_watch_close(const struct oriel_comm *comm, struct ori_mesh_watch *watch);

/* @peer has connected by @fd, which is borrowed, and may have been reported before. */
void ori_mesh_watch_socket(struct ori_mesh_watch *watch, unsigned peer, int fd);

/* Waits for a connection, until @deadline at the latest. ORIEL_ERR_PEER: a rank has ended. */
enum oriel_status ori_mesh_watch_wait(const struct oriel_comm *comm, struct ori_mesh_watch *watch,
				      uint64_t deadline);

#endif
