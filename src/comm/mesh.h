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

/* Nobody watches until the next ori_mesh_watch(): links may go. */
void ori_mesh_rest(struct oriel_comm *comm);

/* Any thread: have the watcher look now. False if there is none. */
bool ori_mesh_wake(struct oriel_comm *comm);

/* Takes what @peer gave: @fds are closed by the caller afterwards. */
typedef enum oriel_status ori_mesh_take(void *context, unsigned peer, const int *fds);

/*
 * Local, but all ranks do it: give @count descriptors to every mapped peer in
 * another process, and pass what each of them gives, expected[peer] descriptors,
 * to @take. A rank that has failed before, or fails here, tells the others, who
 * then fail at once; the caller agrees afterwards, and has half of the timeout
 * left for it. At most ORI_MESH_FDS at a time.
 */
#define ORI_MESH_FDS 122u

enum oriel_status ori_mesh_exchange(struct oriel_comm *comm, const int *fds, unsigned count,
				    const unsigned *expected, ori_mesh_take *take, void *context);

/* Says good-bye to the peers where @is_orderly. A comm without mesh is fine. */
void ori_mesh_close(struct oriel_comm *comm, bool is_orderly);

#endif
