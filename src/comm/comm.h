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
#include <oriel/dev/types.h>

#include "base/handle.h"
#include "mem/mapping.h"
#include "mem/memory.h"
#include "net/endpoint.h"
#include "net/fdsock.h"
#include "topo/host.h"

#define ORI_GATHER_BYTES 2048u /* of one rank in one round of the mapped gather */
#define ORI_RECORD_BYTES 1024u /* of one rank in the gathers of this library */
#define ORI_VERDICT_TEXT 240u

/* The status of one rank in a collective. Goes over the wire as it is. */
struct ori_verdict {
	uint32_t version; /* ORI_COMM_WIRE */
	int32_t status;   /* enum oriel_status */
	uint32_t call;    /* enum ori_call */
	uint32_t reserved;
	char text[ORI_VERDICT_TEXT];
};

static_assert(sizeof(struct ori_verdict) == 256, "struct ori_verdict goes over the wire");

#define ORI_COMM_WIRE 1u

/* The collective that a rank is in, so that an error names ranks that are out of step. */
enum ori_call {
	ORI_CALL_COMM_CREATE = 1,
	ORI_CALL_COMM_DESTROY,
	ORI_CALL_COMM_BARRIER,
	ORI_CALL_COMM_ALL_GATHER,
	ORI_CALL_COMM_AGREE,
	ORI_CALL_REGION_SHARE,
	ORI_CALL_REGION_UNREGISTER,
	ORI_CALL_WINDOW_CREATE,
	ORI_CALL_WINDOW_SHARE,
	ORI_CALL_WINDOW_DESTROY,
};

const char *ori_call_name(unsigned call);

/* One round of the mapped gather. Written by its owner, read by all. */
struct ori_gather_slot {
	uint32_t call; /* enum ori_call */
	uint32_t reserved;
	uint64_t total; /* bytes of the whole gather, equal on all ranks */
	char bytes[ORI_GATHER_BYTES];
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
	uint64_t reserved1[15];
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

struct ori_gpu_notes;
struct ori_mesh;
struct ori_rdma;
struct ori_rdma_link;
struct ori_heartbeat;
struct ori_p2p_cache;
struct ori_engine;
struct ori_hca_qp_address;
struct ori_links_rank;

/* The addresses where a rank listens for p2p endpoints. Goes over the wire as it is. */
struct ori_listen_address {
	uint8_t name[ORI_FDSOCK_NAME]; /* of the unix socket */
	struct ori_hosts hosts;
	uint32_t port; /* of TCP at these; 0: none */
};

static_assert(sizeof(struct ori_listen_address) == 40,
	      "struct ori_listen_address goes over the wire");

struct oriel_comm {
	struct oriel_bootstrap bootstrap; /* borrowed */
	unsigned rank;
	unsigned size;
	uint64_t timeout_ns;

	struct ori_host *hosts;    /* [size] */
	struct oriel_dev_rank *of; /* [size] */
	uint32_t *domain;          /* [domain_size] */
	char **reasons;            /* [size], why each path */
	unsigned domain_size;
	unsigned domain_index;
	bool has_interrupt, has_at_fault; /* the bootstrap has that op */
	atomic_bool is_in_bootstrap;
	bool is_oversubscribed; /* more threads that poll on this machine than CPUs: see
				   ori_comm_count() */

	struct ori_mem *control_mem;
	struct ori_control *control;     /* this rank's */
	struct ori_mapping *peers;       /* [size], control segments; address NULL if not mapped */
	bool is_mapped_whole;            /* the domain is the job: gathers go through memory */
	struct ori_mesh *mesh;           /* sockets to mapped peers in other processes */
	unsigned rails;                  /* NICs of each rank; the same on all ranks */
	struct ori_rdma *rdma;           /* NULL: no peer is reached by it */
	struct ori_rdma_link **links;    /* [size], NULL where the path is another */
	struct ori_links_rank *ranks;    /* [size], addresses of their NICs; NULL without rdma */
	bool is_lazy;                    /* a link is made at its first use */
	bool is_destroyed_out_of_order;  /* windows were destroyed in different orders */
	bool is_linked_whole;            /* all links are made; the same on all ranks */
	struct ori_heartbeat *heartbeat; /* NULL: no peer is reached by rdma */
	unsigned *expected;              /* [size], descriptors in an exchange; links to make */
	void *records;                   /* [size] of at most ORI_RECORD_BYTES, for gathers */

	struct ori_gpu *gpu;            /* NULL: windows lie in host memory */
	struct ori_paths gpu_paths;     /* as those above, wider where a fabric joins nodes */
	struct ori_gpu_program program; /* kernels/kernels.h; empty: built without */
	struct ori_mem *gpu_ranks;      /* @gpu_paths for kernels */
	struct ori_gpu_notes *notes;    /* where kernels report arguments that they reject */
	bool is_blame_reported;         /* of the watcher */

	struct ori_listen_address *listen_addresses; /* [size] */
	int listener;             /* listener of this rank, -1 once the p2p context has it */
	int listener_tcp;         /* of TCP; -1: none, or as above */
	pthread_mutex_t p2p_lock; /* guards those up to close_p2p, which src/p2p sets */
	struct ori_p2p_cache *p2p;
	bool (*has_memory)(struct oriel_comm *comm); /* that the user has registered */
	void (*close_p2p)(struct oriel_comm *comm);

	pthread_mutex_t engine_lock; /* guards the next three, which src/progress sets */
	struct ori_engine *engine;   /* NULL: no job was ever posted */
	void (*close_engine)(struct oriel_comm *comm);
	struct ori_copy_streams *copy_streams; /* of all its copies; NULL: there are none */

	uint32_t exchanges;  /* exchanges of descriptors up to now; the same on all ranks */
	atomic_uint windows; /* numbers given out */
};

/* ORIEL_OK, or the failure that broke @comm, with its text. */
enum oriel_status ori_comm_check(const struct oriel_comm *comm);
bool ori_comm_is_well(const struct oriel_comm *comm);

/* Records a failure of @comm unless there is one already; @peer is ORIEL_DEV_NO_RANK if none. */
void ori_comm_break(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
		    unsigned peer);
void ori_comm_break_for(struct oriel_comm *comm, const struct oriel_dev_fault *record);

/* The failure of @comm, which is broken, as a record for other ranks. */
struct oriel_dev_fault ori_comm_record(const struct oriel_comm *comm);

/* The same in the health of every rank of the domain, this one included. */
void ori_comm_break_all(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
			unsigned peer);

/*
 * Passes the failure of this rank on to its domain: without it the peers would only see
 * that this rank exited.
 */
void ori_comm_pass_on(struct oriel_comm *comm);

/* Collective: @length bytes of every rank into @all, in rank order. */
enum oriel_status ori_comm_gather(struct oriel_comm *comm, enum ori_call call, const void *mine,
				  void *all, size_t length);

/*
 * The communicator is broken: ends a call of the bootstrap that another thread of this
 * rank waits in. The bootstrap is of no more use. The watcher calls it.
 */
void ori_comm_interrupt(struct oriel_comm *comm);

/*
 * Collective, where @object of @call is destroyed; its number is the same on all ranks.
 * No rank returns before all have called. A failure is this thread's last error; a
 * communicator that was broken before is not reported again, and no rank waits. Ranks in
 * different calls, or with different numbers, are misuse: see ori_misuse(). After
 * different numbers @comm is out of order: memory that this rank still uses may be
 * destroyed at a peer, so that it can no longer be read.
 */
void ori_comm_meet(struct oriel_comm *comm, enum ori_call call, uint32_t object);

/* The verdict of this thread's last failure, or of success. */
void ori_verdict_fill(struct ori_verdict *verdict, enum ori_call call, enum oriel_status status);

/*
 * The common result of @count verdicts, @stride bytes apart: the failure of the lowest
 * rank that caused one, with its text; if there is none, of the lowest rank with a
 * consequence of another failure (timeout, peer, protocol). Ranks in different calls, or
 * of a different wire version, are a failure too.
 */
enum oriel_status ori_verdict_judge(const void *verdicts, size_t stride, unsigned count,
				    unsigned rank);

/* Collective: oriel_comm_agree() for @call. */
enum oriel_status ori_comm_agree(struct oriel_comm *comm, enum ori_call call,
				 enum oriel_status status);

/*
 * comm_gpu.c. Kernels read the health of @comm, which aborts of peers change, and write
 * their own failures to another record: in host memory, atomics of a GPU and of the CPU
 * do not exclude each other.
 */
enum oriel_status ori_comm_gpu_open(struct oriel_comm *comm);
/* Pins the control segment, so that the GPU reaches it. */
enum oriel_status ori_comm_gpu_pin(struct oriel_comm *comm);
/* Copies the paths, which are known by now, to the GPU. */
enum oriel_status ori_comm_gpu_publish(struct oriel_comm *comm);
/*
 * Moves a failure that kernels of a rank reported to its health; any rank that maps
 * @control may call it.
 */
void ori_comm_gpu_collect(struct ori_control *control);
/* The same for this rank, with a report to the peers. The watcher calls it. */
void ori_comm_gpu_watch(struct oriel_comm *comm);
/* Gives a record for arguments that kernels of one window reject. */
enum oriel_status ori_comm_gpu_note(struct oriel_comm *comm, struct oriel_dev_fault **note);
void ori_comm_gpu_forget(struct oriel_comm *comm, struct oriel_dev_fault *note);
/* Kernels use nothing of @comm any more. */
void ori_comm_gpu_close(struct oriel_comm *comm);

/*
 * links.c: the NICs and a link to each rdma peer, if there is any; connected unless @comm
 * is lazy. Collective.
 */
enum oriel_status ori_links_open(struct oriel_comm *comm);
/* Connects the links that are not, within @call. Collective. On failure they stay so. */
enum oriel_status ori_links_connect_all(struct oriel_comm *comm, enum ori_call call);
/* The link to @peer is connected at both ends. Local. */
void ori_links_begin(struct oriel_comm *comm, unsigned peer);
/* Can this rank reach @peer now? Any thread. */
bool ori_links_is_connected(const struct oriel_comm *comm, unsigned peer);
/* The rail of the link to @peer, if there is one. */
unsigned ori_links_rail(const struct oriel_comm *comm, unsigned peer);
/* The address of @peer's NIC at the other end of their link. */
const struct ori_hca_qp_address *ori_links_peer_hca(const struct oriel_comm *comm, unsigned peer);
/* Polls links and NICs once; a failure breaks @comm. */
void ori_links_watch(struct oriel_comm *comm);
/* @comm is broken: the NICs stop using all memory that users registered. */
void ori_links_fail(struct oriel_comm *comm);
/* For device functions: the link to @peer, connected or not; NULL if the path is another. */
const struct oriel_dev_link *ori_links_device(const struct oriel_comm *comm, unsigned peer);
/* The same for kernels, in memory of the GPU. */
const struct oriel_dev_link *ori_links_kernel(const struct oriel_comm *comm, unsigned peer);
/*
 * Waits until the requests of kernels are done, unless @comm breaks or its timeout
 * passes: their keys may be unregistered afterwards.
 */
void ori_links_drain_kernels(struct oriel_comm *comm);
/* Keys of all memory of this process, for @comm with rdma peers. */
const struct oriel_dev_keys *ori_links_whole_lkeys(const struct oriel_comm *comm);
/* See ori_rdma_finds_own(). */
bool ori_links_find_own(const struct oriel_comm *comm);
/* See ori_rdma_reach(); does nothing without NICs. */
enum oriel_status ori_links_reach(const struct oriel_comm *comm, const void *address);
/* No thread posts any more. */
void ori_links_close(struct oriel_comm *comm);

/*
 * heartbeat.c: ranks that are reached by rdma report failures to each other, and show
 * each other that they are alive. The watcher posts and polls.
 */
enum oriel_status ori_heartbeat_open(struct oriel_comm *comm);
/* Keys of the table where peers report, once it is open. */
const struct oriel_dev_keys *ori_heartbeat_rkeys(const struct oriel_comm *comm);
/* The link to @peer is ready; @rkeys are of its table. */
void ori_heartbeat_join(struct oriel_comm *comm, unsigned peer, const struct oriel_dev_keys *rkeys);
/* One turn of the watcher; true if the next one should be soon. */
bool ori_heartbeat_watch(struct oriel_comm *comm);
/*
 * Sends no more beats and waits, for a second at most, until none is in flight: peers may
 * close their links then.
 */
void ori_heartbeat_stop(struct oriel_comm *comm);
/* Waits, for a second at most, until the failure of @comm is reported to all peers. */
void ori_heartbeat_await_reports(struct oriel_comm *comm);
/* Links and watcher are closed. */
void ori_heartbeat_close(struct oriel_comm *comm);

/* For @path[peer] == ORIEL_PATH_MAPPED: does @peer live in another process? */
bool ori_comm_is_foreign(const struct oriel_comm *comm, unsigned peer);

/* The path to @peer for windows on a GPU, which @comm has. */
enum oriel_path ori_comm_gpu_path(const struct oriel_comm *comm, unsigned peer);
/* Is @peer's memory mapped by an NVLink fabric alone, so that no descriptor can reach it? */
bool ori_comm_is_fabric_peer(const struct oriel_comm *comm, unsigned peer);

/* Does each of @threads polling threads of every rank have a CPU of its own? */
void ori_comm_count(struct oriel_comm *comm, unsigned threads);
/* Polls that a waiting CPU thread makes before it yields the core. */
uint32_t ori_comm_spin(const struct oriel_comm *comm);

/* The limit of a step before an agreement: it leaves as much for the agreement. */
uint64_t ori_comm_half_timeout(const struct oriel_comm *comm);

/* select.c: paths, reasons and domains from the hosts. Local. */
enum oriel_status ori_comm_select(struct oriel_comm *comm);
void ori_paths_close(struct ori_paths *paths, unsigned size);

/* health.c: called when the health is read for the host. */
void ori_health_read(const struct oriel_comm *comm, struct oriel_health *health);
const char *ori_what_name(uint32_t what);

#endif
