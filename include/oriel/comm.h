/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator: this rank's multi-peer transport. It knows the peers and the path to each,
 * and whether the job is intact. Programs create it first.
 */
#ifndef ORIEL_COMM_H
#define ORIEL_COMM_H

#include <oriel/bootstrap.h>
#include <oriel/dev/types.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * In the child of fork() communicators of the parent, and all that was made on them, are dead:
 * ORIEL_ERR_FORKED. The parent is unharmed. A child makes a communicator of its own, or is
 * started by exec or posix_spawn(). docs/threads.md has the rest.
 */
struct oriel_comm;

/* A stream of CUDA: cudaStream_t and CUstream are pointers to it. */
struct CUstream_st;

/* The time at which links to peers of the rdma path are made. */
enum oriel_connect {
	ORIEL_CONNECT_DEFAULT, /* as ORIEL_CONNECT says: demand unless set */
	ORIEL_CONNECT_EAGER,   /* all of them, with the communicator */
	ORIEL_CONNECT_LAZY,    /* by oriel_comm_connect() or the first window */
	/*
	 * Each by the first operation of a CPU thread on that peer, which a thread of the library
	 * answers there, whatever its program does. If a rank has ORIEL_COMM_GPU all of them are
	 * made with the communicator instead, since kernels cannot wait for a thread of the host.
	 */
	ORIEL_CONNECT_DEMAND,
};

/*
 * Does the network of the rdma path keep the order in which requests are posted to a NIC? If it
 * may not, signals, barriers, values, messages and flushes wait for an acknowledgement of what
 * was posted before, one round trip: see docs/rdma.md.
 */
enum oriel_net_order {
	ORIEL_NET_ORDER_DEFAULT, /* as ORIEL_NET_ORDER says: auto unless set */
	ORIEL_NET_ORDER_AUTO,    /* as the NICs report it */
	ORIEL_NET_ORDER_ORDERED, /* the caller knows that it does */
	ORIEL_NET_ORDER_RELAXED, /* it may not */
};

enum oriel_comm_flags {
	/*
	 * Windows and regions of this rank may lie on the GPU whose CUDA context is
	 * current in the calling thread. The context must outlive the communicator.
	 */
	ORIEL_COMM_GPU = 1,
	/*
	 * Mapped peers have the rdma path as well: NICs are opened and links made to them too, for
	 * windows with ORIEL_WINDOW_RDMA. Equal on all ranks (ORIEL_ERR_MISMATCH). Each pair of
	 * ranks needs a NIC at both ends, else ORIEL_ERR_NO_PATH with the reason. @path of struct
	 * oriel_peer stays what it is without, as do other windows.
	 */
	ORIEL_COMM_BOTH_PATHS = 2,
	/*
	 * oriel_comm_shrink() may be called. Each rank listens for the survivors meanwhile, which
	 * takes a socket, or two where ranks are on several machines. Equal on all ranks. At most
	 * 4096 ranks (ORIEL_ERR_RANGE).
	 */
	ORIEL_COMM_SHRINK = 4,
	/*
	 * With ORIEL_COMM_SHRINK, and equal on all ranks: oriel_comm_shrink() may kill the process
	 * of a rank that does not answer, if it maps memory of a rank that is left, by SIGKILL.
	 * Needs pidfd_open() (Linux 5.3), else ORIEL_ERR_UNSUPPORTED, and a descriptor for each
	 * other rank of this machine.
	 */
	ORIEL_COMM_KILL_SUSPECTS = 8,
};

/* Zero means default for every field. */
struct oriel_comm_attr {
	size_t size;         /* of this struct, as the caller knew it */
	uint64_t timeout_ns; /* of every wait; 0 = ORIEL_TIMEOUT, ORIEL_TIMEOUT_INFINITE = none */
	const char *node;    /* name of its virtual node; NULL = ORIEL_NODE, "" (none) unless set */
	unsigned connect;    /* enum oriel_connect, equal on all ranks */
	unsigned flags;      /* enum oriel_comm_flags; ORIEL_COMM_GPU may differ between ranks */
	unsigned net_order;  /* enum oriel_net_order; relaxed at one end of a link: it is */
	unsigned reserved;   /* 0 */
	/*
	 * Replaces what the machine reports of this rank's GPU, in the grammar of
	 * docs/topology.md: "clique=3,peer_access=off"; "" nothing; NULL = ORIEL_TOPOLOGY, ""
	 * unless set. Ranks may differ.
	 */
	const char *topology;
	/*
	 * Requests that a queue to a peer of the rdma path holds: a power of two from
	 * ORIEL_QUEUE_DEPTH_MIN to ORIEL_QUEUE_DEPTH_MAX, 0 = by post_blocks. ORIEL_ERR_RANGE:
	 * the NIC has shorter ones. Each takes 384 bytes of memory for each peer, 64 where a
	 * proxy posts. Ranks may differ.
	 */
	unsigned queue_depth;
	/*
	 * Blocks of kernels, or threads, that post to one peer at once; with queue_depth 0 a
	 * queue holds four requests for each, within the limits above and of the NIC. A
	 * put_signal is two requests, so no block waits for the room of another that is at
	 * its next one. 0 = unknown: 1024 requests. Ranks may differ.
	 */
	unsigned post_blocks;
};

#define ORIEL_QUEUE_DEPTH_MIN 64u
#define ORIEL_QUEUE_DEPTH_MAX 32768u

/*
 * Find a path to every peer. Collective: all ranks call it, and all get the
 * same status. @bootstrap NULL: the job that the environment describes, with the errors of
 * oriel_bootstrap_open_env(); the communicator leaves that job when it is destroyed. Else
 * @bootstrap is borrowed and must outlive the communicator, which
 * is the only one to use it meanwhile. @attr may be NULL.
 *
 * ORIEL_ERR_NO_PATH: two ranks cannot reach each other; the text names both,
 * their hosts and what was tried. ORIEL_ERR_VERSION: ranks have different
 * versions of the library. ORIEL_ERR_MISMATCH: timeout, connect or flags
 * differ. ORIEL_ERR_CONFIG: a setting of some rank is wrong.
 * ORIEL_ERR_STATE: ORIEL_COMM_GPU without a current context. ORIEL_ERR_INVALID:
 * an attribute of some rank is wrong.
 */
enum oriel_status oriel_comm_create(const struct oriel_bootstrap *bootstrap,
				    const struct oriel_comm_attr *attr, struct oriel_comm **comm);

/*
 * The same for the job of @id, as oriel_bootstrap_open_id() joins it, with its errors; the
 * communicator leaves that job when it is destroyed.
 */
enum oriel_status oriel_comm_create_id(const struct oriel_job_id *id, unsigned rank, unsigned size,
				       const struct oriel_comm_attr *attr,
				       struct oriel_comm **comm);

/*
 * The same for ranks that meet in one list after the other, each with an id that it has opened:
 * @ids of all, [@size], that of this rank at [@rank]. They meet at the first. A list with a @number
 * is a job of its own: a rank that comes while the first one still forms another list without it,
 * or is in one, waits for it. ORIEL_ERR_MISMATCH, on all ranks of the list that the first one has,
 * and on the one that differs: a rank that it awaits has come with another list or @number.
 */
enum oriel_status oriel_comm_create_ids(const struct oriel_job_id *ids, unsigned rank,
					unsigned size, uint64_t number,
					const struct oriel_comm_attr *attr,
					struct oriel_comm **comm);

/*
 * Collective; waits for the peers, but no longer than the timeout. Once the communicator is
 * broken it waits only until the peers that are reached by rdma have been notified, two seconds
 * at most. Everything that was created on it and memory that was registered with its p2p
 * context are destroyed before; while any is left the call returns ORIEL_ERR_STATE, and the
 * peers wait for this rank until they time out.
 */
enum oriel_status oriel_comm_destroy(struct oriel_comm *comm);

/* Colours of oriel_comm_split(). */
#define ORIEL_SPLIT_NONE UINT32_MAX         /* this rank is in no part */
#define ORIEL_SPLIT_DOMAIN (UINT32_MAX - 1) /* the part is this rank's domain */

/*
 * Make a communicator of the ranks that give the same @colour, one for each colour. Collective:
 * all ranks of @comm call it, by one thread each, and all get the same status; without
 * ORIEL_OK no part is left. In a part ranks are numbered by @key, and by their rank in @comm where
 * keys are equal; oriel_comm_origin() reports which is which. *@part is NULL with ORIEL_SPLIT_NONE,
 * where @part itself may be NULL too. With ORIEL_SPLIT_DOMAIN the ranks of each domain make a part:
 * those that map each other's host memory.
 *
 * A part shares nothing with @comm, so that either may be destroyed first, calls on both may be
 * made by two threads at once, and the failure of a rank breaks the communicators that it is in.
 * @attr is of the part, as for oriel_comm_create(); NULL: the attributes of @comm, where
 * ORIEL_COMM_GPU needs a current CUDA context again. A part of one process meets in memory; ranks
 * of one machine by loopback, others at a TCP port of its rank 0 that the kernel chooses, with the
 * key of the job.
 *
 * ORIEL_ERR_MISMATCH: a rank of @comm is in another collective. ORIEL_ERR_TIMEOUT, _PEER: a rank
 * did not come. The errors of oriel_comm_create() too.
 */
enum oriel_status oriel_comm_split(struct oriel_comm *comm, uint32_t colour, int key,
				   const struct oriel_comm_attr *attr, struct oriel_comm **part);

/*
 * Make a communicator of the ranks of @comm that are left, numbered in their old order;
 * oriel_comm_origin() reports which is which. Collective among them: all that are alive call it, by
 * one thread each, after a failure or at any time. It breaks @comm (ORIEL_ERR_ABORTED, unless it is
 * broken), so that the waits and kernels of the others end and they can come, too. All that was
 * made on @comm, windows, regions, collectives and memory of its p2p context, is destroyed before,
 * else ORIEL_ERR_STATE; its endpoints and that context end with this call. The caller then makes
 * them anew on *@survivors. Afterwards @comm is only to be destroyed. @attr is of the new
 * communicator; NULL: the attributes of @comm, as for oriel_comm_split().
 *
 * A rank is left out
 * - if it is dead: its process has ended, or no longer listens at its address. So it is when it has
 *   destroyed @comm, or exited;
 * - if it is suspected: it did not come, or answer, within the timeout of @comm, or with
 *   ORIEL_HEARTBEAT did not run for as long (three seconds at least; twenty, or twice as long,
 *   once the group is agreed on, while its ranks make the new communicator). Where no rank that is
 *   left maps memory with it, it is fenced: all queues to it are destroyed and all keys are invalid
 *   before any rank returns. Mapped memory cannot be revoked: such a rank is killed where
 *   ORIEL_COMM_KILL_SUSPECTS allows that, and has ended before any rank returns; else all ranks
 *   get ORIEL_ERR_STATE, with a text that says what to do, and may call again.
 * So when the call returns ORIEL_OK no rank, in or out of the group, writes any more by @comm to
 * memory that @comm had. After ORIEL_ERR_STATE oriel_comm_unsafe() reports which memory is unsafe.
 *
 * Ranks that are suspected and not dead can at most be as many as those that are left, and as many
 * only if the lowest of both is left (ORIEL_ERR_STATE): so where a network is cut one side goes on.
 * Ranks that are threads of one process leave with it, or not at all (ORIEL_ERR_STATE). A rank that
 * comes after the others went on without it gets ORIEL_ERR_PEER.
 *
 * All that are left get the same status, whatever ranks are lost meanwhile, rank 0 or several of
 * them; a loss after that breaks *@survivors, which can be shrunk in its turn. Blocks: for ranks
 * that are alive and come late up to the timeout, again for each suspect in turn.
 *
 * ORIEL_ERR_UNSUPPORTED: without ORIEL_COMM_SHRINK. ORIEL_ERR_STATE: it was shrunk already. The
 * errors of oriel_comm_create() too, after which all may call again.
 */
enum oriel_status oriel_comm_shrink(struct oriel_comm *comm, const struct oriel_comm_attr *attr,
				    struct oriel_comm **survivors);

/*
 * Local; any thread. May a rank write to memory of the caller after oriel_comm_shrink() was
 * refused? *@rank is the lowest suspect that maps a part of [@address, @address + @length), which
 * the caller had shared as a region or a window of @comm, or had as the buffer of an endpoint to
 * that rank: the memory must not be used again before that process has ended. Else *@rank is
 * ORIEL_NO_RANK, as it is for all memory once @comm was shrunk. Memory that a window had allocated
 * itself is not used again. Not while another thread shrinks @comm.
 */
enum oriel_status oriel_comm_unsafe(const struct oriel_comm *comm, const void *address,
				    size_t length, unsigned *rank);

/*
 * An invitation lets new ranks into a communicator: it has the addresses where rank 0 awaits them,
 * a random key of those connections, and the epoch of the communicator. It is a secret. The user,
 * or a launcher, hands it to the new processes as bytes, or as text.
 */
#define ORIEL_INVITATION_LENGTH 144

struct oriel_invitation {
	unsigned char bytes[ORIEL_INVITATION_LENGTH];
};

#define ORIEL_INVITATION_TEXT (2 * ORIEL_INVITATION_LENGTH + 1) /* hex digits and a NUL */

/* Local, any thread. ORIEL_ERR_INVALID: @text is not that of an invitation. */
enum oriel_status oriel_invitation_text(const struct oriel_invitation *invitation,
					char text[ORIEL_INVITATION_TEXT]);
enum oriel_status oriel_invitation_read(const char *text, struct oriel_invitation *invitation);

/*
 * Make an invitation to @comm. Local; rank 0 alone calls it (ORIEL_ERR_STATE), by the thread that
 * makes its collective calls. The process listens, at ports that the kernel chooses, or with
 * ORIEL_MEET=unix by a unix socket, until oriel_comm_grow() has succeeded, @comm is shrunk or
 * destroyed, or this is called again, which makes the invitation before void. ORIEL_ERR_SYSTEM: it
 * cannot listen.
 */
enum oriel_status oriel_comm_invite(struct oriel_comm *comm, struct oriel_invitation *invitation);

/*
 * Make a communicator of the ranks of @comm, in their order, and @count new ones behind them, which
 * come by oriel_comm_join(), or oriel_comm_merge(), with the invitation of rank 0; they are
 * numbered in the order in which they arrive, and a group that joins keeps its own. Collective: all
 * ranks of @comm call it with one @count, by one thread each, and all get the same status. *@grown
 * shares nothing with @comm, which stays as it is and may be destroyed first; oriel_comm_epoch() of
 * *@grown is higher by one.
 * @attr is of the new communicator; NULL: the attributes of @comm, as for oriel_comm_split().
 * oriel_comm_origin() of a new rank is ORIEL_NO_RANK. The key of the job is that of @comm, which
 * the new ranks get from rank 0 by a connection that is encrypted, or a unix socket.
 *
 * ORIEL_ERR_TIMEOUT: fewer than @count came within half of the timeout of @comm; the text says how
 * many of how many, and which. A process that comes without the invitation, or with that of another
 * epoch, is rejected and changes nothing. ORIEL_ERR_PEER: a new rank was lost after it had arrived;
 * the text names its process. After these @comm works, and its invitation counts, so that all may
 * call again. If a rank of @comm is lost, @comm is broken, and the text names that rank.
 * ORIEL_ERR_STATE: rank 0 has no invitation. ORIEL_ERR_MISMATCH: ranks differ in @count, or one is
 * in another collective. The errors of oriel_comm_create() too.
 */
enum oriel_status oriel_comm_grow(struct oriel_comm *comm, unsigned count,
				  const struct oriel_comm_attr *attr, struct oriel_comm **grown);

/*
 * The counterpart: join the communicator that @invitation is of, as one new rank, once its ranks
 * call oriel_comm_grow(). Any thread; several of a process may be ranks. oriel_comm_origin() of
 * *@grown is ORIEL_NO_RANK. A timeout of 0 in @attr is that of the ranks that invite, and so are
 * the flags but ORIEL_COMM_GPU where @attr is NULL; other attributes that all ranks have in common
 * must be equal here, too (ORIEL_ERR_MISMATCH). The call waits for the others up to the timeout of
 * @attr, or ORIEL_TIMEOUT; for a rank 0 that has taken it in and does not run no longer than twice
 * ORIEL_HEARTBEAT, twenty seconds at least.
 *
 * oriel_comm_create() without a bootstrap joins by ORIEL_INVITATION, the text of an invitation,
 * where that is set; a success takes it out of the environment, so no other thread may read the
 * environment meanwhile.
 *
 * ORIEL_ERR_INVALID: @invitation has not been made by oriel_comm_invite(). ORIEL_ERR_PEER: no
 * process listens for it any more: rank 0 has exited, or the invitation is used or void.
 * ORIEL_ERR_TIMEOUT: those that invite did not come; or fewer than they await. ORIEL_ERR_AUTH:
 * another process listens there now. ORIEL_ERR_STATE: it is of another epoch; the ranks are more
 * than are still awaited. Any failure of oriel_comm_grow() there.
 */
enum oriel_status oriel_comm_join(const struct oriel_invitation *invitation,
				  const struct oriel_comm_attr *attr, struct oriel_comm **grown);

/*
 * The same for a group: all ranks of @comm join, in their order, so that two communicators merge.
 * Collective: all ranks of @comm call it, by one thread each, and all get the same status; the
 * invitation of its rank 0 counts. *@grown shares nothing with @comm, which stays as it is;
 * oriel_comm_origin() gives the ranks of @comm, and ORIEL_NO_RANK for all others. The call waits
 * for half of the timeout of @comm, and @attr NULL begins with the attributes of @comm.
 *
 * The errors of oriel_comm_join(). ORIEL_ERR_AUTH: the communicator has a job key, and @comm has
 * none but is on several machines, where it would pass the key on unencrypted. ORIEL_ERR_MISMATCH:
 * a rank of @comm is in another collective.
 */
enum oriel_status oriel_comm_merge(struct oriel_comm *comm,
				   const struct oriel_invitation *invitation,
				   const struct oriel_comm_attr *attr, struct oriel_comm **grown);

/*
 * Local; any thread. How often ranks were removed from or added to the communicator that began with
 * oriel_comm_create() or oriel_comm_split(): 0 there, and one more with each shrink and grow. Equal
 * on all ranks. A handle that is no live communicator gives 0.
 */
uint64_t oriel_comm_epoch(const struct oriel_comm *comm);

/*
 * Local; any thread. The rank that @rank has in the communicator that @comm was split, shrunk or
 * grown from; @rank itself if it was not. ORIEL_NO_RANK: it has none there. ORIEL_ERR_RANGE: there
 * is no such rank.
 */
enum oriel_status oriel_comm_origin(const struct oriel_comm *comm, unsigned rank, unsigned *origin);

/*
 * Local queries; any thread, at any time in the life of @comm. A handle that is no live
 * communicator gives rank ORIEL_NO_RANK, size 0, timeout 0; see oriel_last_error().
 */
unsigned oriel_comm_rank(const struct oriel_comm *comm);
unsigned oriel_comm_size(const struct oriel_comm *comm);
uint64_t oriel_comm_timeout(const struct oriel_comm *comm); /* ns or ORIEL_TIMEOUT_INFINITE */

/*
 * The path by which bytes reach @peer; ORIEL_ERR_RANGE if there is no such rank. This and the
 * domain are those of host memory. GPUs that an NVLink fabric joins over nodes are mapped as
 * well: struct oriel_peer says so, and handles of memory on GPUs have that domain.
 */
enum oriel_status oriel_comm_path(const struct oriel_comm *comm, unsigned peer,
				  enum oriel_path *path);
const char *oriel_path_name(enum oriel_path path); /* "self", "mapped", "rdma", "none" */

/* The properties of a rank. The strings live as long as @comm. */
struct oriel_peer {
	size_t size; /* of this struct, as the caller knew it */
	unsigned rank;
	enum oriel_path path;
	const char *reason; /* why this path, and why no better one */
	const char *host;   /* name of its machine */
	const char *node;   /* its virtual node, "" if none */
	uint64_t pid;
	bool is_same_process;
	bool is_connected; /* may be reached now by each of its paths; of rdma: its link is made */
	uint8_t reserved1[2];
	unsigned rail;            /* of the rdma path: number of the NIC of either end, from 0 */
	enum oriel_path gpu_path; /* of windows on GPUs; @path without ORIEL_COMM_GPU */
	uint32_t reserved2;
	const char *gpu_reason;
	bool is_same_gpu; /* its GPU is this rank's; false without ORIEL_COMM_GPU */
	/*
	 * False only if @gpu_path is mapped: PCIe passes no atomics between the two GPUs, so that
	 * signals and oriel_dev_fetch_add() cost round trips; a bus other than NVLink splits LL128
	 * lines.
	 */
	bool has_gpu_atomics;
	bool has_gpu_lines;
	uint8_t reserved3[5];
};

enum oriel_status oriel_comm_peer(const struct oriel_comm *comm, unsigned rank,
				  struct oriel_peer *peer);

/*
 * Facts about the GPU of a rank, and the source of each: "machine", "environment" (ORIEL_TOPOLOGY)
 * or "attribute" (topology of struct oriel_comm_attr). The strings live as long as @comm.
 */
struct oriel_peer_gpu {
	size_t size;     /* of this struct, as the caller knew it */
	const char *pci; /* its PCI address, "" if that rank has no ORIEL_COMM_GPU */
	unsigned domain; /* lowest rank of those that map each other's GPU memory */
	uint32_t reserved1;
	const char *fabric; /* of NVLink, over nodes: "ready", or why it is not used */
	unsigned clique;    /* of the fabric, 0 unless ready */
	unsigned char cluster[16];
	bool is_peer_access_off;
	bool is_gpudirect_off;
	uint8_t reserved2[2];
	const char *cluster_source;
	const char *clique_source;
	const char *peer_access_source;
	const char *gpudirect_source;
};

/* Local query, as oriel_comm_peer(). */
enum oriel_status oriel_comm_peer_gpu(const struct oriel_comm *comm, unsigned rank,
				      struct oriel_peer_gpu *gpu);

/*
 * The path between any two ranks as this one classifies them: the entry
 * (from, to) of the peer x path matrix. Symmetric by construction.
 */
enum oriel_status oriel_comm_path_between(const struct oriel_comm *comm, unsigned from, unsigned to,
					  enum oriel_path *path);

/*
 * The domain: this rank and all that it reaches by mapped memory, in rank order. The relation
 * is symmetric and transitive; that is checked at creation. A handle that is no live
 * communicator gives size 0, index ORIEL_NO_RANK.
 */
unsigned oriel_comm_domain_size(const struct oriel_comm *comm);
unsigned oriel_comm_domain_index(const struct oriel_comm *comm); /* of this rank */
/* The rank with index @index in the domain; ORIEL_ERR_RANGE beyond its size. */
enum oriel_status oriel_comm_domain_rank(const struct oriel_comm *comm, unsigned index,
					 unsigned *rank);
/* The index of @rank in the domain; ORIEL_ERR_NO_PATH if it is not a member. */
enum oriel_status oriel_comm_domain_find(const struct oriel_comm *comm, unsigned rank,
					 unsigned *index);

/*
 * Peers are numbered 0 .. size-2 in rank order without this rank.
 * ORIEL_ERR_RANGE beyond; ORIEL_ERR_INVALID for this rank itself.
 */
enum oriel_status oriel_comm_peer_rank(const struct oriel_comm *comm, unsigned index,
				       unsigned *rank);
enum oriel_status oriel_comm_peer_index(const struct oriel_comm *comm, unsigned rank,
					unsigned *index);

/*
 * Make the links to @peers that are not made. Both ends of a link call it, each naming the
 * other: by the thread that makes the collective calls, between the same two of these. The
 * lists of ranks may differ otherwise, and have any order and duplicates; a rank that needs no
 * link (mapped, this rank itself, connected before) is allowed and costs nothing. @count 0 does
 * nothing. Other threads may use windows meanwhile. With ORIEL_CONNECT_DEMAND one end alone may
 * call it, ahead of its first operation on those peers; the other end does nothing.
 *
 * ORIEL_ERR_RANGE: there is no such rank, nothing was done. Any failure after that, a peer that
 * does not call within the timeout among them, breaks @comm; the text names the peer.
 */
enum oriel_status oriel_comm_connect(struct oriel_comm *comm, const unsigned *peers,
				     unsigned count);

/*
 * Collective among all ranks, on the host: it returns only after all have called. Orders everything
 * host threads did before it; it does not flush windows. ORIEL_ERR_MISMATCH: ranks are in different
 * collectives of @comm; @comm still works. ORIEL_ERR_STATE: another thread of this rank is in one.
 */
enum oriel_status oriel_comm_barrier(struct oriel_comm *comm);

/*
 * Collective: size * @length bytes into @all, in rank order; after a failure
 * part of them may be written. ORIEL_ERR_MISMATCH: ranks differ in @length, or are in
 * different collectives of @comm, which all get this status; @comm still works. For setting
 * things up; oriel/allgather.h is for speed.
 */
enum oriel_status oriel_comm_all_gather(struct oriel_comm *comm, const void *mine, void *all,
					size_t length);

/*
 * Collective: all ranks get the failure of the lowest rank that failed, with its text behind
 * oriel_last_error(), or ORIEL_OK if none did. It serves a rank that fails alone, so that the
 * others do not wait for it.
 */
enum oriel_status oriel_comm_agree(struct oriel_comm *comm, enum oriel_status status);

/*
 * An object that code above keeps for @comm: @key is any address of its own, of which there is one
 * object at a time (ORIEL_ERR_STATE). oriel_comm_destroy() first calls @close of each, the last
 * attached first, also where it then reports that something else is left. @close may destroy what
 * was created on @comm and make other collective calls, if all ranks have attached the same in one
 * order. Local, any thread. attached() gives NULL where there is none.
 */
enum oriel_status oriel_comm_attach(struct oriel_comm *comm, const void *key, void *object,
				    void (*close)(struct oriel_comm *comm, void *object));
enum oriel_status oriel_comm_attached(struct oriel_comm *comm, const void *key, void **object);

/*
 * The failure that broke the communicator. The first cause stays; from then on every wait and
 * every host call on @comm returns @status.
 */
struct oriel_health {
	size_t size;              /* of this struct, as the caller knew it */
	enum oriel_status status; /* ORIEL_OK while it is not broken */
	uint32_t reserved1;
	const char *what;     /* the operation that failed: "wait_signal_from"; a static text */
	int rank;             /* the rank concerned, -1: none; @finder itself: see @address */
	unsigned finder;      /* the rank that found it */
	enum oriel_path path; /* from @finder to @rank */
	unsigned object;      /* ORIEL_DEV_WINDOW_NUMBER() of it; 0 = the communicator */
	unsigned id;          /* signal, barrier slot, counter or channel */
	uint32_t reserved2;
	uint64_t expected; /* or, if @queue has no @reason, the requests posted to it */
	uint64_t seen;     /* or those of them that the NIC had completed */
	uint64_t age_ns;   /* how long it had waited */

	/* For the rdma path, if a queue to @rank has failed or a limit passed there. */
	unsigned queue; /* its number, 0 if none has */
	uint32_t reserved3;
	uint64_t request; /* index of the request that failed, counted from the first on that queue
			   */
	const char *reason; /* a static text, "" if it has only timed out */
	unsigned syndrome;  /* of the NIC, 0 if it reported none */
	unsigned vendor;    /* the vendor's addition to that */

	/*
	 * If @rank has ended its queue itself, by naming memory of its own that may not be read
	 * or written: that memory, 0 if it is not known. Else 0.
	 */
	uint64_t address;
	uint64_t length; /* in bytes */

	/*
	 * If a limit has passed and a rank had not run at all for half of that time (it was
	 * stopped, or its machine stood still), @rank is that rank and this how long it had not,
	 * as far as this rank sees the others' beats. Else 0.
	 */
	uint64_t silent_ns;
	int awaited; /* the rank that @finder waited for: @rank unless @silent_ns; -1: any, or all
		      */
	uint32_t reserved4;
};

/* Local, any thread. Always returns ORIEL_OK for a live @comm. */
enum oriel_status oriel_comm_health(const struct oriel_comm *comm, struct oriel_health *health);

/*
 * @health as one line of text or one JSON object. Returns the length that was
 * needed, as snprintf() does; 0 if @health is NULL, or @buffer is and @length
 * is not 0: see oriel_last_error().
 */
size_t oriel_health_text(const struct oriel_health *health, char *buffer, size_t length);
size_t oriel_health_json(const struct oriel_health *health, char *buffer, size_t length);

/*
 * Local call with an effect on all ranks: waits on every rank end with ORIEL_ERR_ABORTED, @why
 * goes to the log. Any thread, also while others wait. Returns when all reachable ranks have
 * been notified, at the latest after a second. A collective call that is inside the bootstrap
 * ends too if that can be interrupted, at the latest with its timeout; the bootstrap is then
 * broken as well.
 */
void oriel_comm_abort(struct oriel_comm *comm, const char *why);

/*
 * Local: the model of this rank's GPU, NULL without ORIEL_COMM_GPU; and the multiprocessors of
 * it that this process may use, 0 without. A handle that is no live communicator gives the
 * same; see oriel_last_error().
 */
const char *oriel_comm_gpu_name(const struct oriel_comm *comm);
unsigned oriel_comm_gpu_processors(const struct oriel_comm *comm);

/*
 * A feature that this machine offers to the library or lacks. Local; no communicator is needed.
 * ORIEL_ERR_RANGE past the last. The strings live as long as the library.
 */
struct oriel_feature {
	size_t size;      /* of this struct, as the caller knew it */
	const char *name; /* "memfd", "huge pages", "libcuda" */
	bool is_present;
	uint8_t reserved[7];
	const char *detail; /* the version or path found; why it is missing */
	const char *serves; /* the use of it */
};

enum oriel_status oriel_feature_get(unsigned index, struct oriel_feature *feature);

/*
 * The NICs through which this rank reaches peers by the rdma path: one for each rail; this
 * describes the first, the others are of its kind.
 */
struct oriel_nic {
	size_t size;              /* of this struct, as the caller knew it */
	const char *kind;         /* "soft", "verbs", "mlx5" */
	const char *name;         /* of the device: "soft0", "mlx5_0" */
	uint32_t mtu;             /* in bytes */
	uint32_t depth_max;       /* work requests that one queue may hold */
	uint32_t depth;           /* work requests that a queue to a peer does hold */
	uint32_t outstanding_max; /* gets and atomics of one queue under way at once */
	bool has_wait;            /* it increments counters by itself, without a CPU */
	bool is_software;         /* no NIC: for development and tests */
	bool is_sink;             /* it is set to complete work requests and move nothing */
	uint8_t reserved1;
	unsigned rails;  /* how many there are (ORIEL_RAILS) */
	bool is_proxied; /* a thread of the host posts to it for all (ORIEL_POST) */
	uint8_t reserved2[7];
	const char *tier;  /* its tier: "T0" to "T3" (docs/rdma.md); "" in software */
	bool is_reordered; /* its network may keep no order (ORIEL_NET_ORDER) */
	uint8_t reserved3[7];
	const char *port; /* "RoCE, GID 3", "InfiniBand, LID 5, GID 0"; "" in software */
};

/*
 * Local. The strings live as long as @comm. ORIEL_ERR_NO_PATH: none is open,
 * since no peer is reached that way.
 */
enum oriel_status oriel_comm_nic(const struct oriel_comm *comm, struct oriel_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
