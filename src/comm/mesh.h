/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unix socket to each mapped peer in another process. It passes descriptors, and its
 * end shows that the peer exited. comm.c opens it; the watcher polls it.
 */
#ifndef ORI_COMM_MESH_H
#define ORI_COMM_MESH_H

#include "comm/comm.h"
#include "net/fdsock.h"

/* Local: starts to listen. @name goes to the peers. */
enum oriel_status ori_mesh_open(struct oriel_comm *comm, uint8_t name[ORI_FDSOCK_NAME]);

/*
 * Connects to all mapped peers in other processes; they do the same. @names holds the
 * peers' names, @stride bytes apart.
 */
enum oriel_status ori_mesh_connect(struct oriel_comm *comm, const void *names, size_t stride,
				   uint64_t deadline);

/* Starts the watcher: a peer that exits without a BYE breaks @comm. */
enum oriel_status ori_mesh_watch(struct oriel_comm *comm);

/* Stops the watcher until the next ori_mesh_watch(): links may be closed. */
void ori_mesh_rest(struct oriel_comm *comm);

/* Any thread: makes the watcher poll now. False if there is none. */
bool ori_mesh_wake(struct oriel_comm *comm);

/* Takes the descriptors of @peer: the caller closes @fds afterwards. */
typedef enum oriel_status ori_mesh_take(void *context, unsigned peer, const int *fds);

/*
 * Local, but all ranks do it: gives @count descriptors to every mapped peer in another
 * process, and passes those that each of them gives, expected[peer] descriptors, to
 * @take. A rank that failed before, or fails here, reports it to its peers, which then fail at
 * once; the caller agrees afterwards, and has half of the timeout left for it. At most
 * ORI_MESH_FDS at a time.
 */
#define ORI_MESH_FDS 122u

enum oriel_status ori_mesh_exchange(struct oriel_comm *comm, const int *fds, unsigned count,
				    const unsigned *expected, ori_mesh_take *take, void *context);

/* Sends a BYE to the peers if @is_orderly. A comm without mesh is fine. */
void ori_mesh_close(struct oriel_comm *comm, bool is_orderly);

#endif
