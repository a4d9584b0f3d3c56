/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host-driven transport to one peer, without a communicator: control messages,
 * transfers on channels, puts into exported memory. Everything is begun by a
 * call, goes on while somebody calls progress, test or wait, and ends in a
 * request. The same calls serve whatever path leads to the peer.
 */
#ifndef ORIEL_P2P_H
#define ORIEL_P2P_H

#include <oriel/dev/types.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_p2p_context; /* what the ends of one process share: adapter, staging */
struct oriel_p2p;         /* one end, to one peer */
struct oriel_p2p_memory;  /* memory that a hub has registered */
struct oriel_comm;

#define ORIEL_P2P_ADDRESS 128u   /* bytes of the address of an end */
#define ORIEL_P2P_EXPORT 64u     /* bytes that describe exported memory */
#define ORIEL_P2P_CHANNELS 64u   /* of an end at most */
#define ORIEL_P2P_CONTROL 65536u /* bytes of a control message at most */

/* Where bytes go between the buffers of the two users; the same at both ends. */
enum oriel_p2p_mode {
	/*
	 * Each transfer by what both ends have when it begins: straight into memory
	 * that is registered there, through staging slots into any other.
	 */
	ORIEL_P2P_AUTO,
	/* Straight, but for few bytes; what is not registered is, for the transfer. */
	ORIEL_P2P_ZERO_COPY,
	ORIEL_P2P_COPY_BASED, /* always through staging slots, by pack and unpack */
};

const char *oriel_p2p_mode_name(enum oriel_p2p_mode mode); /* "auto", "zero_copy", ... */

enum oriel_p2p_context_flags {
	/*
	 * Buffers and registered memory may be of the GPU whose context is current in the
	 * calling thread. ORIEL_ERR_UNSUPPORTED: there is none, and why. What is to be sent
	 * is there, and what is received in use by nobody, when the call is made: copies
	 * are in streams of the library's own. What has been received is there for all
	 * that begins afterwards. Control messages are always of the host.
	 */
	ORIEL_P2P_GPU = 1,
	/*
	 * With ORIEL_P2P_GPU: staging slots are memory of that GPU, and hooks are kernels, or
	 * begin copies. A mapped peer needs a hub whose GPU reaches it, else both ends break
	 * with ORIEL_ERR_UNSUPPORTED; one over an adapter needs nothing. The peer's own slots
	 * may be of either kind.
	 */
	ORIEL_P2P_GPU_SLOTS = 2,
};

/* Zero means default for every field. */
struct oriel_p2p_context_attr {
	size_t size;         /* of this struct, as the caller knew it */
	size_t chunk;        /* bytes of a staging slot, 4 KiB to 16 MiB; 0 = 128 KiB */
	unsigned slots;      /* to receive in, shared by all ends; 0 = 128. Half as many to send */
	unsigned paths;      /* 1 << enum oriel_path that may be used; 0 = as ORIEL_PATHS says */
	uint64_t timeout_ns; /* of connect and wait; 0 = ORIEL_TIMEOUT, ORIEL_FOREVER = none */
	unsigned flags;      /* enum oriel_p2p_context_flags */
};

/*
 * Ends of a hub that may receive in staging slots are at most so many as it has
 * slots to receive in, less eight: each keeps one for itself, so that no end
 * waits for the peer of another. @attr may be NULL. Any thread may call what
 * takes a hub, at any time.
 */
enum oriel_status oriel_p2p_context_create(const struct oriel_p2p_context_attr *attr,
					   struct oriel_p2p_context **ctx);

/*
 * Ends and registered memory are gone already; while there are any it does
 * nothing but report that (oriel_last_error). NULL is allowed.
 */
void oriel_p2p_context_destroy(struct oriel_p2p_context *ctx);

/* A part of a transfer in a staging slot. */
struct oriel_p2p_chunk {
	void *slot;   /* @length bytes, of the library; of the GPU with ORIEL_P2P_GPU_SLOTS */
	void *buffer; /* the user's, from @offset on */
	uint64_t offset;
	size_t length;
	unsigned channel;
	uint32_t index; /* in the transfer, from 0 */
	void *user;     /* of the request */
};

/*
 * How bytes come into staging slots and out of them, where that is not a copy by
 * the CPU, or by an engine of the hub's GPU. Called from within the calls that make progress, in
 * any order of the chunks; ORIEL_AGAIN: begun, ask again with the same chunk. A failure ends the
 * transport at both ends. A NULL member is the copy, or nothing.
 *
 * cancel: the end is over, for the reason @status. Once; on return nothing that was
 * begun touches a slot or a buffer.
 */
struct oriel_p2p_hooks {
	size_t size; /* of this struct, as the caller knew it */
	enum oriel_status (*pack)(void *context, const struct oriel_p2p_chunk *chunk);
	enum oriel_status (*unpack)(void *context, const struct oriel_p2p_chunk *chunk);
	void (*cancel)(void *context, enum oriel_status status);
};

struct oriel_p2p_copy_group; /* threads of the caller's that pack and unpack: oriel/dev/copy_group.h
			      */
struct oriel_dev_copy_group;

/* Zero means default for every field. */
struct oriel_p2p_copy_group_attr {
	size_t size;         /* of this struct, as the caller knew it */
	unsigned workers;    /* of each side, up to 64; 0 = 1 */
	unsigned depth;      /* chunks told of at once, up to 256; 0 = 64 */
	uint64_t timeout_ns; /* of what workers wait for; 0 = the hub's */
};

/*
 * For one end: pass the hooks and the crew, as their context, to oriel_p2p_create().
 * Kernels can be workers if @ctx has a GPU. @ctx must outlive the crew, and the crew
 * the end. A worker leaves before its thread or kernel ends.
 */
enum oriel_status oriel_p2p_copy_group_create(struct oriel_p2p_context *ctx,
					      const struct oriel_p2p_copy_group_attr *attr,
					      struct oriel_p2p_copy_group **group);
const struct oriel_p2p_hooks *oriel_p2p_copy_group_hooks(void);
/* What workers are given; see oriel/dev/copy_group.h. */
enum oriel_status oriel_p2p_copy_group_device(const struct oriel_p2p_copy_group *group,
					      struct oriel_dev_copy_group *device);
/* Its end is gone, and nobody enters any more. NULL is allowed. */
void oriel_p2p_copy_group_destroy(struct oriel_p2p_copy_group *group);

/* Zero means default for every field. Mode, channels, depth and queues are equal at both ends. */
struct oriel_p2p_attr {
	size_t size;       /* of this struct, as the caller knew it */
	unsigned mode;     /* enum oriel_p2p_mode */
	unsigned channels; /* 1 to ORIEL_P2P_CHANNELS; 0 = 1 */
	unsigned depth;    /* chunks of a channel under way, 1 to 16; 0 = 8, or 256 / channels */
	const struct oriel_p2p_hooks *hooks; /* copied; NULL = copies */
	void *context;                       /* of the hooks */
	unsigned queues; /* of a link by rdma, 1 to 8, that what is long is spread over; 0 = 1 */
	unsigned paths;  /* 1 << enum oriel_path that may be used; 0 = those of the hub */
};

/*
 * One end. Unless said otherwise, what takes it is called by one thread at a time
 * (debug builds assert that), never blocks, and fails for ever with the status
 * and text of what broke the end once something has. @ctx must outlive it. @attr
 * may be NULL.
 */
enum oriel_status oriel_p2p_create(struct oriel_p2p_context *ctx, const struct oriel_p2p_attr *attr,
				   struct oriel_p2p **p2p);

/*
 * Tells the peer; gives up what is not done, whose requests end with
 * ORIEL_ERR_ABORTED. On return nobody touches memory of any request. Whoever
 * wants what is under way to arrive drains before. Blocks no longer than the
 * peer takes to copy what it is just copying. NULL is allowed.
 */
void oriel_p2p_destroy(struct oriel_p2p *p2p);

/* ORIEL_P2P_ADDRESS bytes that the peer needs; how they come to it is the caller's business. */
enum oriel_status oriel_p2p_address(const struct oriel_p2p *p2p, void *bytes);

/*
 * Join this end to the one at @address, while that one joins itself to this; its
 * own address makes an end its own peer. Returns at once: what is begun before
 * both are joined waits. ORIEL_ERR_MISMATCH at both ends: mode, channels, depth
 * or queues differ. ORIEL_ERR_NO_PATH: nothing leads there. @timeout_ns 0 is the hub's.
 */
enum oriel_status oriel_p2p_connect(struct oriel_p2p *p2p, const void *address, size_t length,
				    uint64_t timeout_ns);

/* ORIEL_OK: joined; ORIEL_AGAIN: not yet; else what broke the end. Does nothing itself. */
enum oriel_status oriel_p2p_check(const struct oriel_p2p *p2p);

/* Limits, and what was found. Before the ends are joined @path is ORIEL_PATH_NONE. */
struct oriel_p2p_info {
	enum oriel_path path;
	enum oriel_p2p_mode mode;
	const char *backend; /* "mapped", "rdma", ...; lives as long as the library */
	unsigned channels;
	unsigned depth;
	size_t chunk; /* bytes of a chunk at most */
	size_t control_max;
	bool is_same_process;
	unsigned queues; /* of a link by rdma, else 0 */
};

enum oriel_status oriel_p2p_describe(const struct oriel_p2p *p2p, struct oriel_p2p_info *info);

/*
 * Something under way. The caller's; stays where it is from the call that takes it
 * until @status is not ORIEL_AGAIN, and may then be used again. Nothing of it has
 * to be set before.
 */
struct oriel_p2p_request {
	enum oriel_status status; /* ORIEL_AGAIN: not done */
	uint32_t reserved1;
	size_t length; /* of a control message that came: of all of it, also if it did not fit */
	void *user;    /* never touched by the library; for hooks and the caller */

	/* The library's. */
	struct oriel_p2p_request *next;
	void *buffer;
	struct oriel_p2p_memory *memory;
	void *mr_ref;
	uint64_t tag, number, at, unit, address;
	uint32_t key, piece, step, chunks, begun, done;
	uint8_t kind, protocol, channel, has_own_memory;
	uint8_t is_gpu, is_straight, reserved2[2];
	uint32_t reserved3[2];
};

/*
 * Control messages: up to ORIEL_P2P_CONTROL bytes with a tag; what has the same tag
 * is received in the order in which it was sent. A send is done when @data may be
 * used again. A message for which no receive waits is kept, 64 of them or 126 KiB;
 * beyond that those behind it wait, whatever their tag, until some are received.
 * A message longer than @room ends its receive with ORIEL_ERR_MISMATCH and is
 * gone; the transport lives on.
 */
enum oriel_status oriel_p2p_send_control(struct oriel_p2p *p2p, uint64_t tag, const void *data,
					 size_t length, struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_recv_control(struct oriel_p2p *p2p, uint64_t tag, void *data,
					 size_t room, struct oriel_p2p_request *request);

/*
 * Make memory known, so that bytes go to it and from it straight. It stays until
 * unregistered. With ORIEL_P2P_BACKGROUND the call returns at once and a thread of
 * the hub does it. check: ORIEL_OK, ORIEL_AGAIN while that is under way, or its failure.
 * Where the peer is another process on the same machine, memory that it may be
 * sent straight into comes from oriel_memory_alloc() or oriel_memory_take_fd(); of a
 * GPU also from cudaMalloc(), and mapped as oriel_region_share() has it, if the hub
 * of the peer has a GPU that reaches it.
 */
enum oriel_p2p_register_flags {
	ORIEL_P2P_BACKGROUND = 1,
};

enum oriel_status oriel_p2p_register(struct oriel_p2p_context *ctx, void *address, size_t length,
				     unsigned flags, struct oriel_p2p_memory **memory);
enum oriel_status oriel_p2p_memory_check(const struct oriel_p2p_memory *memory);
/* No request uses it any more. NULL is allowed. */
void oriel_p2p_unregister(struct oriel_p2p_memory *memory);

struct oriel_p2p_buffer {
	void *address;
	size_t length;
	struct oriel_p2p_memory *memory; /* that holds all of it; NULL: not registered */
};

/*
 * Transfers. The nth send of a channel goes to its nth receive at the other end;
 * both have the same length, else both ends break with ORIEL_ERR_MISMATCH. Channels
 * do not wait for each other. No bytes are no chunks: then both are done at once,
 * without a word to the peer. A send is done when its buffer may be used again, which
 * of few bytes (4 KiB at most) may be before the peer has begun to receive, and a receive
 * when all has come.
 *
 * ORIEL_ERR_RANGE: no such channel, or memory that does not hold the buffer.
 * ORIEL_ERR_ACCESS: an adapter is to read or write a buffer that is not registered, and
 * whose ends or holes in between it may not; the next transfer is as if this had not been.
 */
enum oriel_status oriel_p2p_send(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *from,
				 struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_recv(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *to,
				 struct oriel_p2p_request *request);

/*
 * Memory of one end as bytes, ORIEL_P2P_EXPORT of them, and those bytes as memory that
 * the other end can put to. Once the ends are joined (ORIEL_ERR_STATE before). Not
 * for ORIEL_P2P_COPY_BASED. @memory stays until the end is destroyed.
 */
struct oriel_p2p_remote {
	uint64_t address, length;
	uint32_t key, piece;
};

enum oriel_status oriel_p2p_export(struct oriel_p2p *p2p, const struct oriel_p2p_buffer *buffer,
				   void *bytes);
enum oriel_status oriel_p2p_import(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   struct oriel_p2p_remote *remote);

/*
 * Put @from into @to from @offset on, and then end what the other end expects on
 * @channel: puts and expects pair up as, and together with, sends and receives do.
 * At least one byte. A put waits until it is expected.
 */
enum oriel_status oriel_p2p_put(struct oriel_p2p *p2p, unsigned channel,
				const struct oriel_p2p_buffer *from,
				const struct oriel_p2p_remote *to, uint64_t offset,
				struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_expect(struct oriel_p2p *p2p, unsigned channel,
				   struct oriel_p2p_request *request);

/*
 * Give up @request, as if it had never been begun: what is behind it moves up, and
 * pairs with what it would have met. On ORIEL_OK it has ORIEL_ERR_ABORTED, and its
 * memory is the caller's. That can be done while the peer knows nothing of it:
 *   anything                    until the ends are joined;
 *   a send or put in zero_copy  until the peer has told where that may go, or it has left
 *                               without, as few bytes may;
 *   ... in other modes          while one before it waits for the peer, who is told of the
 *                               first that waits, and may keep slots for it; in
 *                               copy_based while those before it take up the depth of the channel;
 *   a receive, an expect        while those before it take up the depth of the channel;
 *   a control message           until a part of it has left;
 *   a receive of one            until a part of a message has gone into its buffer.
 * ORIEL_ERR_STATE: it is done, or it is too late, and it goes on.
 */
enum oriel_status oriel_p2p_cancel(struct oriel_p2p *p2p, struct oriel_p2p_request *request);

/* Go on with all that is under way, each part until it waits for the peer or the adapter. */
enum oriel_status oriel_p2p_progress(struct oriel_p2p *p2p);

/* Look once: the status of @request after some progress, if it was not done. */
enum oriel_status oriel_p2p_test(struct oriel_p2p *p2p, const struct oriel_p2p_request *request);

/*
 * Make progress until @request is done, or ORIEL_ERR_TIMEOUT: it goes on then. Blocks.
 * @timeout_ns 0 is the hub's.
 */
enum oriel_status oriel_p2p_wait(struct oriel_p2p *p2p, const struct oriel_p2p_request *request,
				 uint64_t timeout_ns);

/*
 * Make progress until all that was begun here is done, receives that nothing has
 * come for aside, and has left this end. Blocks, as wait does.
 */
enum oriel_status oriel_p2p_drain(struct oriel_p2p *p2p, uint64_t timeout_ns);

/*
 * The end of this mode for rank @peer, this rank itself included, that @comm keeps:
 * made and joined by the first call, the same one by every other, until @comm is
 * destroyed, which alone destroys it. Local, any thread: nobody waits for the other
 * rank to call as well, and there is no order between pairs, or modes. @attr as for
 * oriel_p2p_create() and equal in every call for @peer and the mode, ORIEL_ERR_MISMATCH
 * here; equal on both ranks, else the ends break with ORIEL_ERR_MISMATCH on both. So
 * they do where each of two ranks waits for an end of another mode of the other one, once
 * half of the communicator's timeout, or 10 s, has passed. The path is that of @comm.
 */
enum oriel_status oriel_comm_p2p(struct oriel_comm *comm, unsigned peer,
				 const struct oriel_p2p_attr *attr, struct oriel_p2p **p2p);

/* The hub of those ends, to register memory with. @comm's, which alone destroys it. */
enum oriel_status oriel_comm_p2p_context(struct oriel_comm *comm, struct oriel_p2p_context **ctx);

#ifdef __cplusplus
}
#endif

#endif
