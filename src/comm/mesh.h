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

/* The socket of @peer; -1: there is none. It becomes readable when the peer closes its end. */
int ori_mesh_fd(const struct oriel_comm *comm, unsigned peer);
/* The socket of @peer became readable: @comm breaks unless the peer sent a BYE. */
void ori_mesh_lost(struct oriel_comm *comm, unsigned peer);

/* Gets what the peers give in an exchange. */
struct ori_mesh_taker {
	/* The number of descriptors that @peer has announced. */
	unsigned (*count)(const void *context, unsigned peer);
	/* Takes them: the caller closes @fds afterwards. */
	enum oriel_status (*take)(void *context, unsigned peer, const int *fds);
	void *context;
};

/*
 * Local, but all ranks do it: gives @count descriptors to every mapped peer in another
 * process, and passes those that each of them gives to @taker. A rank that failed before, or fails
 * here, reports it to its peers, which then fail at once; the caller agrees afterwards, and has
 * half of the timeout left for it. At most ORI_MESH_FDS at a time.
 */
#define ORI_MESH_FDS 122u

enum oriel_status ori_mesh_exchange(struct oriel_comm *comm, const int *fds, unsigned count,
				    const struct ori_mesh_taker *taker);

/*
 * Where peers ask for what they map at their first touch (comm/lend.h), from ori_mesh_connect() to
 * ori_mesh_close(), and the name of @peer's; NULL where this rank does not lend.
 */
struct ori_net_listener;
struct ori_net_listener *ori_mesh_listener(const struct oriel_comm *comm);
const uint8_t *ori_mesh_name(const struct oriel_comm *comm, unsigned peer);

/* Sends a BYE to the peers if @is_orderly. A comm without mesh is fine. */
void ori_mesh_close(struct oriel_comm *comm, bool is_orderly);

#endif
