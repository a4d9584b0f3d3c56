/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unix socket to each mapped peer in another process: passes descriptors,
 * and its end tells that the peer is gone.
 */
#ifndef ORI_COMM_MESH_H
#define ORI_COMM_MESH_H

#include "comm/comm.h"
#include "mem/fdsock.h"

/* Local: start listening. @name goes to the peers. */
enum oriel_status ori_mesh_open(struct oriel_comm *comm, uint8_t name[ORI_FDSOCK_NAME]);

/*
 * Connect to all mapped peers in other processes; they do the same. @names
 * holds the peers' names, @stride bytes apart.
 */
enum oriel_status ori_mesh_connect(struct oriel_comm *comm, const void *names, size_t stride,
				   uint64_t deadline);

/* Watch over the peers from now on: one that goes without a word breaks @comm. */
enum oriel_status ori_mesh_watch(struct oriel_comm *comm);

enum oriel_status ori_mesh_send_fds(struct oriel_comm *comm, unsigned peer, const int *fds,
				    unsigned count, uint64_t deadline);
enum oriel_status ori_mesh_recv_fds(struct oriel_comm *comm, unsigned peer, int *fds,
				    unsigned count, uint64_t deadline);

/* Says good-bye to the peers where @is_orderly. A comm without mesh is fine. */
void ori_mesh_close(struct oriel_comm *comm, bool is_orderly);

#endif
