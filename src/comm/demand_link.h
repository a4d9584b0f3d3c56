/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links on demand: the messages of both sides, and the state of each link. demand.c, which asks,
 * and demand_serve.c, which answers, call it.
 *
 * The lock of the links of a communicator guards all that both threads use; the caller of a
 * function named _locked holds it, and none waits with it.
 */
#ifndef ORI_COMM_DEMAND_LINK_H
#define ORI_COMM_DEMAND_LINK_H

#include "comm/comm.h"
#include "net/listen.h"
#include "rdma/rdma.h"

enum demand_frame {
	DEMAND_ASK = 1,
	DEMAND_ANSWER,
	DEMAND_READY,
};

/* The next two go over the wire as they are. */
struct demand_ask {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t from;
	uint32_t to;
	uint32_t reserved;
	uint8_t name[ORI_FDSOCK_NAME]; /* of the listener of @to: ranks of the job alone know it */
	struct ori_rdma_qps qps;
};

struct demand_answer {
	int32_t status; /* enum oriel_status; ORIEL_AGAIN: the other rank's own ask counts */
	uint32_t reserved;
	struct ori_rdma_qps qps;
};

static_assert(sizeof(struct demand_ask) == 56, "struct demand_ask goes over the wire");
static_assert(sizeof(struct demand_answer) == 32, "struct demand_answer goes over the wire");

enum demand_state {
	DEMAND_IDLE,     /* the link has no queues, or is ready */
	DEMAND_ASKING,   /* a thread of this rank asks the peer */
	DEMAND_ANSWERED, /* the peer has asked; its ready is to come */
};

struct demand_peer {
	enum demand_state state;
	const struct ori_rdma_qps *asked; /* while DEMAND_ASKING: the queues of this end */
	bool is_altered; /* its answer, or its ready, was altered on the way: this rank is broken */
};

/* A peer that was answered. */
struct demand_served {
	struct demand_served *next;
	struct ori_net_conn conn;
	unsigned peer;
};

struct ori_demand {
	struct ori_listen_address address;
	struct ori_tls_context *tls;        /* NULL: the job has no key */
	struct ori_net_listener local, tcp; /* of the watcher, as the next two */
	struct demand_served *served;
	int epoll;              /* of the listeners and of all served */
	pthread_cond_t changed; /* a state; with the lock of the links */
	struct demand_peer peers[];
};

void ori_demand_set_locked(struct oriel_comm *comm, unsigned peer, enum demand_state state);
/* Both ends of the link to @peer are connected. If the links are sealed, its queues are closed. */
void ori_demand_begin_locked(struct oriel_comm *comm, unsigned peer);
/* Closes the queues of the link to @peer, which has not begun. */
void ori_demand_drop_locked(struct oriel_comm *comm, unsigned peer);
/* Gives up the lock until a state has changed, but not for long. */
void ori_demand_wait_locked(struct oriel_comm *comm);

/* The descriptor of ori_demand_fd() becomes readable with @fd. */
enum oriel_status ori_demand_watch(struct ori_demand *d, int fd);
void ori_demand_free(struct demand_served *served);

#endif
