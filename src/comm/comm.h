/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator from inside: windows, regions and collectives build on it. Collective
 * calls of one communicator are made by one thread of a rank at a time, and by all ranks
 * in one order.
 */
#ifndef ORI_COMM_COMM_H
#define ORI_COMM_COMM_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <oriel/comm.h>
#include <oriel/dev/detail/answer.h>
#include <oriel/dev/types.h>

#include "base/handle.h"
#include "mem/mapping.h"
#include "mem/memory.h"
#include "net/endpoint.h"
#include "net/fdsock.h"
#include "net/key.h"
#include "topo/host.h"

#define ORI_GATHER_BYTES 2048u /* of one rank in one round of the mapped gather */
#define ORI_GATHER_FIRST 256u  /* of one rank in the first message of a gather by the bootstrap */

/* The head of a gather is equal on all ranks. It goes over the wire as it is. */
struct ori_gather_head {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t call;    /* enum ori_call */
	uint64_t total;   /* bytes of the whole gather */
};

static_assert(sizeof(struct ori_gather_head) == 16, "struct ori_gather_head goes over the wire");

/* One round of the mapped gather. Written by its owner, read by all. */
struct ori_gather_slot {
	struct ori_gather_head head;
	char bytes[ORI_GATHER_BYTES];
};

/*
 * A gather by the bootstrap begins with this message. Its length is one for all gathers, since
 * bootstraps only know lengths: one of another length would fail with a text of the bootstrap,
 * or, in a table of the user's, in any way. A verdict fits into it.
 */
struct ori_gather_first {
	struct ori_gather_head head;
	char bytes[ORI_GATHER_FIRST]; /* the whole gather where that fits, else nothing */
};

/*
 * The segment that each rank shares with its domain. @round counts the gathers published:
 * round n lies in slot[n & 1]. A rank publishes n + 2 only after it has seen n + 1 of all
 * ranks, and each rank published that after it had read all of n: so no rank still reads
 * the slot that it overwrites.
 */
struct ori_control {
	struct oriel_dev_fault health; /* of the owner; peers write aborts */
	struct oriel_dev_fault blame;  /* written by kernels of the owner's GPU alone */
	uint64_t round;
	uint64_t beat; /* the owner's watcher counts it up: silence.h */
	uint64_t reserved1[14];
	struct oriel_dev_answers answers; /* of kernels of the owner's GPU */
	struct ori_gather_slot slot[2];
};

/* Paths to all ranks, for one kind of memory. */
struct ori_paths {
	struct oriel_dev_rank *of; /* [size] */
	uint32_t *domain;          /* [domain_size] */
	char **reasons;            /* [size], why each path */
	unsigned domain_size;
	unsigned domain_index;
};

struct ori_attachment;
struct ori_demand;
struct ori_gpu_notes;
struct ori_mesh;
struct oriel_window;
struct pollfd;
struct ori_rdma;
struct ori_rdma_link;
struct ori_heartbeat;
struct ori_invite;
struct ori_silence;
struct ori_survive;
struct ori_links_rank;

/* The addresses where a rank listens for p2p endpoints. Goes over the wire as it is. */
struct ori_listen_address {
	uint8_t name[ORI_FDSOCK_NAME]; /* of the unix socket */
	struct ori_hosts hosts;
	uint32_t port; /* of TCP at these; 0: none */
};

static_assert(sizeof(struct ori_listen_address) == 40,
	      "struct ori_listen_address goes over the wire");

/*
 * Objects that modules above make for a communicator at their first use.
 * oriel_comm_destroy() closes them in this order: jobs use copies and p2p endpoints.
 */
enum ori_attached_kind {
	ORI_ATTACHED_ENGINE,
	ORI_ATTACHED_COPY_STREAMS,
	ORI_ATTACHED_P2P,
	ORI_ATTACHED_KINDS
};

struct ori_attached {
	pthread_mutex_t lock; /* guards the others */
	void *object;         /* NULL: not made yet */
	/* The noun of something of the user's in @object, or NULL. May be NULL itself. */
	const char *(*find_child)(void *object);
	void (*close)(struct oriel_comm *comm, void *object);
};

/* The thread of watcher.c. */
struct ori_watcher {
	bool is_running;
	bool has_blamed;    /* a failure that kernels reported is passed on */
	int wake;           /* eventfd */
	struct pollfd *fds; /* [size], of the peers, then @wake, then those of demand.c and
			       lend.c */
	atomic_bool is_closing;
	atomic_int broken; /* eventfd of ori_watcher_broken_fd(), -1: none */
	pthread_t thread;
};

#define ORI_LINK_ROWS 2u /* of struct oriel_comm */

struct oriel_comm {
	struct oriel_bootstrap bootstrap; /* borrowed, unless has_own_bootstrap */
	unsigned rank;
	unsigned size;
	uint64_t timeout_ns;
	struct oriel_comm_attr attr; /* of the caller, for parts; with strings of its own */
	uint32_t *origin; /* [size]: its ranks where it was split from; NULL: it was not */
	uint64_t epoch;   /* oriel_comm_epoch(); the same on all ranks */

	struct ori_host *hosts;           /* [size] */
	struct ori_paths host_paths;      /* control segments and sockets use them as well */
	struct ori_paths gpu_paths;       /* with @gpu; wider where a fabric joins nodes, narrower
					     where GPUs of a node do not reach each other */
	bool has_both_paths;              /* ORIEL_COMM_BOTH_PATHS; the same on all ranks */
	bool has_links;                   /* some rank needs a link; the same on all ranks */
	bool has_interrupt, has_at_fault; /* the bootstrap has that op */
	bool has_own_bootstrap;           /* opened by oriel_comm_create(), closed by the destroy */
	atomic_bool is_in_bootstrap;
	atomic_uint in_call;    /* the enum ori_call of the gather that a thread is in, or 0 */
	bool is_oversubscribed; /* more threads that poll on this machine than CPUs: see
				   ori_comm_count() */

	struct ori_mem *control_mem;
	struct ori_control *control; /* this rank's */
	struct ori_mapping *peers;   /* [size], control segments; address NULL if not mapped */
	bool is_mapped_whole;        /* the domain is the job: gathers go through memory */
	struct ori_mesh *mesh;       /* sockets to mapped peers in other processes */
	pthread_mutex_t loans_lock;
	struct ori_loan *loans; /* of lend.c; guarded by its lock */
	struct ori_watcher watcher;
	unsigned rails;                 /* NICs of each rank; the same on all ranks */
	enum oriel_net_order net_order; /* of the attributes */
	uint32_t queue_depth;           /* of the attributes; 0: by post_blocks */
	uint32_t post_blocks;           /* of the attributes; 0: unknown */
	struct ori_rdma *rdma;          /* NULL: no peer is reached by it */
	/*
	 * [ORI_LINK_ROWS][size]. The first row has those that paths need, of the rails in turn.
	 * NICs execute all atomics of a window by links of rail 0, to each rank: if that is the
	 * only rail, those to mapped peers and to the rank itself are in the first row, too, else
	 * the second row has those that the first one has not. They are connected for the first
	 * such window.
	 */
	struct ori_rdma_link **links;
	struct ori_links_rank *ranks;    /* [size], addresses of their NICs; NULL without rdma */
	pthread_mutex_t links_lock;      /* of links that begin, or are given up */
	struct ori_demand *demand;       /* NULL unless is_on_demand */
	bool are_links_sealed;           /* guarded by @links_lock: no link begins any more */
	bool is_lazy;                    /* windows make links */
	bool is_on_demand;               /* the first post to a peer makes its link */
	bool is_destroyed_out_of_order;  /* a peer may have destroyed a window that this rank has */
	bool is_linked_whole;            /* all links that the paths need are made, and */
	bool is_linked_for_atomics;      /* ... all others; both the same on all ranks */
	struct ori_heartbeat *heartbeat; /* NULL: no peer is reached by rdma */
	struct ori_silence *silence;     /* NULL before there is a watcher */
	struct ori_survive *survive;     /* NULL without ORIEL_COMM_SHRINK, or once it is shrunk */
	struct ori_survive *past;        /* of those that were shrunk to this one */
	struct ori_invite *invite;       /* of rank 0: NULL: none, or it is used */
	void *scratch;                   /* see ori_comm_scratch() */
	struct ori_gather_first *firsts; /* [size], of the gather by the bootstrap under way */

	struct ori_gpu *gpu;            /* NULL: windows lie in host memory */
	struct ori_gpu_program program; /* kernels/kernels.h; empty: built without */
	struct ori_mem *gpu_ranks;      /* @gpu_paths for kernels */
	struct ori_gpu_notes *notes;    /* where kernels report arguments that they reject */

	struct ori_listen_address *listen_addresses; /* [size] */
	int listener;     /* listener of this rank, -1 once the p2p context has it */
	int listener_tcp; /* of TCP; -1: none, or as above */
	struct ori_attached attached[ORI_ATTACHED_KINDS];
	pthread_mutex_t attachments_lock;
	struct ori_attachment *attachments; /* of oriel_comm_attach(); guarded by its lock */

	struct oriel_window *window;                   /* oriel/comm_device.h; NULL: none */
	void (*close_window)(struct oriel_comm *comm); /* NULL: none was made */

	uint64_t bootstrap_gathers; /* up to now; the same on all ranks */
	uint64_t gathered_at;       /* ns: when the last gather ended */
	uint32_t exchanges;         /* exchanges of descriptors up to now; the same on all ranks */
	atomic_uint windows;        /* numbers given out */
};

/* oriel_comm_create() on @bootstrap. */
enum oriel_status ori_comm_create_on(const struct oriel_bootstrap *bootstrap,
				     const struct oriel_comm_attr *attr, struct oriel_comm **comm);
/* oriel_comm_create() on @own, which the communicator owns; a failure closes it, too. */
enum oriel_status ori_comm_create_own(struct oriel_bootstrap *own,
				      const struct oriel_comm_attr *attr, struct oriel_comm **comm);

/*
 * Destroys @made, which not all ranks keep, without waiting for any of them; the last error stays.
 */
void ori_comm_discard(struct oriel_comm *made);

/*
 * The name of @comm in the notes of waits of this process (base/wait_page.h): the address of its
 * struct oriel_dev_fault, which begins the segment; 0 before there is one.
 */
static inline uint64_t ori_comm_wait_key(const struct oriel_comm *comm)
{
	return (uintptr_t)comm->control;
}

/*
 * Breaks @comm, unless it is broken, and gives up all that it has of other ranks, and they of this
 * one: links, endpoints, and NICs with their keys. The user has destroyed all that was made on it,
 * else ORIEL_ERR_STATE.
 */
enum oriel_status ori_comm_let_go(struct oriel_comm *comm);

/* The key that all ranks have by the bootstrap; NULL: none, or the bootstrap is a caller's. */
const struct ori_key *ori_comm_key(const struct oriel_comm *comm);
/* The same, or the key of the process where the bootstrap is a caller's. The caller wipes it. */
enum oriel_status ori_comm_read_key(const struct oriel_comm *comm, struct ori_key *key);

#endif
