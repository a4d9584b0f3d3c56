/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host-driven transport to one peer, without a communicator: control messages, transfers
 * on channels, puts into exported memory. A call begins an operation, calls of progress,
 * test or wait advance it, and a request reports its end. The same calls serve whatever
 * path leads to the peer.
 *
 * Nothing moves at an endpoint between its own calls. Without a call of the peer a send of few
 * bytes and some control messages are done, a receive or an expect whose bytes have arrived, and
 * what a NIC or an engine has begun. All else needs calls of both: to be joined, a transfer until
 * the receiver has named its memory, or slots of its, each chunk through such slots. A barrier of a
 * communicator advances no endpoint. So a rank whose peer has requests under way calls progress,
 * or drains, before it waits for anything else.
 */
#ifndef ORIEL_P2P_H
#define ORIEL_P2P_H

#include <oriel/dev/types.h>
#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_p2p_context; /* shared by the endpoints of one process: NIC, staging */
struct oriel_p2p;         /* one endpoint, to one peer */
struct oriel_p2p_memory;  /* memory that a context has registered */
struct oriel_comm;
struct oriel_p2p_transport; /* oriel/p2p_transport.h */

#define ORIEL_P2P_ADDRESS 128u   /* bytes of the address of an endpoint */
#define ORIEL_P2P_EXPORT 64u     /* bytes that describe exported memory */
#define ORIEL_P2P_CHANNELS 64u   /* of an endpoint at most */
#define ORIEL_P2P_CONTROL 65536u /* bytes of a control message at most */

/* The route of bytes between the buffers of the two users; the same at both endpoints. */
enum oriel_p2p_mode {
	/*
	 * Each transfer by what both endpoints have when it begins: zero copy into memory
	 * that is registered at the receiver, through staging slots into any other.
	 */
	ORIEL_P2P_AUTO,
	/*
	 * Zero copy, but for few bytes; memory that is not registered is, for the transfer. If
	 * that is impossible, both endpoints break: see oriel_p2p_register().
	 */
	ORIEL_P2P_ZERO_COPY,
	ORIEL_P2P_COPY_BASED, /* always through staging slots, by pack and unpack */
};

const char *oriel_p2p_mode_name(enum oriel_p2p_mode mode); /* "auto", "zero_copy", ... */

enum oriel_p2p_context_flags {
	/*
	 * Buffers and registered memory may belong to the GPU whose context is current in
	 * the calling thread. ORIEL_ERR_UNSUPPORTED: there is none, and why. The data to
	 * be sent is in place, and nothing else uses the buffer of a receive, when the
	 * call is made: copies are in streams of the library's own. Received data is
	 * visible to all that begins afterwards. Control messages are always in host
	 * memory.
	 */
	ORIEL_P2P_GPU = 1,
	/*
	 * With ORIEL_P2P_GPU: staging slots are memory of that GPU, and hooks are kernels,
	 * or begin copies. A mapped peer needs a context whose GPU reaches it, else both
	 * endpoints break with ORIEL_ERR_UNSUPPORTED; a peer over a NIC needs nothing. The
	 * peer's own slots may be of either kind.
	 */
	ORIEL_P2P_GPU_SLOTS = 2,
};

/* Zero means default for every field. */
struct oriel_p2p_context_attr {
	size_t size;    /* of this struct, as the caller knew it */
	size_t chunk;   /* bytes of a staging slot, 4 KiB to 16 MiB; 0 = 128 KiB */
	unsigned slots; /* to receive in, shared by all endpoints; 0 = 128. Half as many to send */
	unsigned paths; /* 1 << enum oriel_path that may be used; 0 = as ORIEL_PATHS says */
	uint64_t timeout_ns; /* of connect and wait; 0 = ORIEL_TIMEOUT, ORIEL_TIMEOUT_INFINITE =
				none */
	unsigned flags;      /* enum oriel_p2p_context_flags */
	unsigned reserved;   /* 0 */
	/*
	 * NULL: the library's paths. Else a table of the caller (oriel/p2p_transport.h), copied,
	 * carries all endpoints: @paths and @flags are 0, an endpoint is not its own peer, and both
	 * endpoints have the same transport (ORIEL_ERR_NO_PATH, ORIEL_ERR_MISMATCH).
	 */
	const struct oriel_p2p_transport *transport;
	void *transport_context; /* of its functions; outlives the context */
};

/*
 * A context with N slots to receive in serves at most N - 8 endpoints that may receive in
 * staging slots: each keeps one slot for itself, so that no endpoint waits for the peer of
 * another. ORIEL_ERR_NOMEM from oriel_p2p_create(): there are as many, or transfers hold all
 * slots now. @attr may be NULL. Any thread may call the functions that take a context, at any
 * time.
 */
enum oriel_status oriel_p2p_context_create(const struct oriel_p2p_context_attr *attr,
					   struct oriel_p2p_context **ctx);

/*
 * The caller has destroyed all endpoints and unregistered all memory; while there are any,
 * the call returns ORIEL_ERR_STATE.
 */
enum oriel_status oriel_p2p_context_destroy(struct oriel_p2p_context *ctx);

/* A part of a transfer in a staging slot. */
struct oriel_p2p_chunk {
	void *slot;   /* @length bytes, of the library; of the GPU with ORIEL_P2P_GPU_SLOTS */
	void *buffer; /* the user's, from @offset on */
	uint64_t offset;
	size_t length;
	unsigned channel;
	uint32_t index; /* in the transfer, from 0; of a chunk call: round * chunk_slots + slot */
	void *user;     /* of the request */
};

/*
 * Hooks that move bytes into staging slots and out of them, where that is not a copy by the CPU,
 * or by an engine of the context's GPU. The calls that make progress call the hooks, in
 * any order of the chunks; ORIEL_AGAIN: begun, ask again with the same chunk. A failure
 * ends the connection at both endpoints. A NULL member is the copy, or nothing.
 *
 * cancel: the endpoint has ended, for the reason @status. Called once; on return no
 * operation that was begun touches a slot or a buffer.
 */
struct oriel_p2p_hooks {
	size_t size; /* of this struct, as the caller knew it */
	enum oriel_status (*pack)(void *context, const struct oriel_p2p_chunk *chunk);
	enum oriel_status (*unpack)(void *context, const struct oriel_p2p_chunk *chunk);
	void (*cancel)(void *context, enum oriel_status status);
};

/* Threads of the caller that pack and unpack: oriel/dev/copy_group.h. */
struct oriel_p2p_copy_group;

/* Zero means default for every field. */
struct oriel_p2p_copy_group_attr {
	size_t size;         /* of this struct, as the caller knew it */
	unsigned workers;    /* of each side, up to 64; 0 = 1 */
	unsigned depth;      /* chunks announced at once, up to 256; 0 = 64 */
	uint64_t timeout_ns; /* of the waits of workers; 0 = the context's */
};

/*
 * For one endpoint: the caller passes the hooks and the copy group, as their context, to
 * oriel_p2p_create(); ORIEL_ERR_STATE there: it serves another one. Kernels can be workers if @ctx
 * has a GPU. @ctx must outlive the copy group, and the copy group the endpoint (ORIEL_ERR_STATE),
 * so that endpoints of oriel_comm_p2p() have none. An endpoint that sends needs all workers of
 * ORIEL_DEV_PACK, one that receives those of ORIEL_DEV_UNPACK: a chunk is done when each of them
 * has reported it. A worker leaves before its thread or kernel ends, and is sent away, with
 * ORIEL_ERR_ABORTED, when the endpoint is destroyed, which waits for that.
 */
enum oriel_status oriel_p2p_copy_group_create(struct oriel_p2p_context *ctx,
					      const struct oriel_p2p_copy_group_attr *attr,
					      struct oriel_p2p_copy_group **group);
const struct oriel_p2p_hooks *oriel_p2p_copy_group_hooks(void);
/*
 * The handle that workers get; see oriel/dev/copy_group.h. Version and size as in
 * oriel_window_device_as().
 */
enum oriel_status oriel_p2p_copy_group_device_as(const struct oriel_p2p_copy_group *group,
						 uint32_t version, size_t size,
						 struct oriel_dev_copy_group *device);
static inline enum oriel_status
oriel_p2p_copy_group_device(const struct oriel_p2p_copy_group *group,
			    struct oriel_dev_copy_group *device)
{
	return oriel_p2p_copy_group_device_as(group, ORIEL_DEV_VERSION, sizeof(*device), device);
}
/*
 * Its endpoint is destroyed, else ORIEL_ERR_STATE, and no worker enters any more. NULL is
 * allowed.
 */
enum oriel_status oriel_p2p_copy_group_destroy(struct oriel_p2p_copy_group *group);

/*
 * Zero means default for every field. Mode, channels, chunk_slots, depth and queues are equal at
 * both endpoints.
 */
struct oriel_p2p_attr {
	size_t size;        /* of this struct, as the caller knew it */
	unsigned mode;      /* enum oriel_p2p_mode */
	unsigned channels;  /* 1 to ORIEL_P2P_CHANNELS; 0 = 1 */
	unsigned depth;     /* chunks of a channel under way, 1 to 16; 0 = 8, or 256 / channels */
	unsigned reserved1; /* 0 */
	const struct oriel_p2p_hooks *hooks; /* copied; NULL = copies */
	void *context;                       /* of the hooks */
	/* of a link by rdma over all rails, up to 8, that long transfers are spread over; each
	 * rail has one at least
	 */
	unsigned queues;
	unsigned paths;       /* 1 << enum oriel_path that may be used; 0 = those of the context */
	void *transport_data; /* for open() of the context's transport, by oriel_p2p_connect() */
	/*
	 * Slots of each channel for oriel_p2p_send_chunk() and its receive. channels * (1 +
	 * chunk_slots) is ORIEL_P2P_CHANNELS at most, and counts where @depth has channels.
	 */
	unsigned chunk_slots;
	unsigned reserved2; /* 0 */
};

/*
 * One endpoint. Unless said otherwise, a call that takes it is made by one thread at a
 * time (debug builds assert that), never blocks, and, once the endpoint is broken, fails
 * with the status and text of what broke it. @ctx must outlive it. @attr may be NULL.
 */
enum oriel_status oriel_p2p_create(struct oriel_p2p_context *ctx, const struct oriel_p2p_attr *attr,
				   struct oriel_p2p **p2p);

/*
 * Notifies the peer and gives up what is not done: those requests end with
 * ORIEL_ERR_ABORTED, or with what has broken the endpoint, those of the peer with ORIEL_ERR_PEER.
 * On return neither side touches memory of any request. A caller that wants its operations to
 * arrive drains first; where both do, they meet between draining and this, by a message or a
 * barrier. Blocks no longer than the peer takes for its current copy. ORIEL_ERR_TIMEOUT: a mapped
 * peer stood still within a write to memory here for the context's timeout. Then the endpoint is
 * broken but lives, its requests go on, and the call is made again later. NULL is allowed.
 */
enum oriel_status oriel_p2p_destroy(struct oriel_p2p *p2p);

/* ORIEL_P2P_ADDRESS bytes that the peer needs; the caller carries them to it. */
enum oriel_status oriel_p2p_address(const struct oriel_p2p *p2p, void *bytes);

/*
 * Join this endpoint to the one at @address, while that one joins itself to this; its own
 * address makes an endpoint its own peer. Returns at once: operations that begin before
 * both are joined wait. ORIEL_ERR_MISMATCH at both endpoints: mode, channels, chunk_slots, depth
 * or queues differ. ORIEL_ERR_NO_PATH: no path leads there. @timeout_ns 0 is the context's.
 */
enum oriel_status oriel_p2p_connect(struct oriel_p2p *p2p, const void *address, size_t length,
				    uint64_t timeout_ns);

/*
 * ORIEL_OK: joined; ORIEL_AGAIN: not yet; else what broke the endpoint. Makes no progress
 * itself: a caller that waits to be joined calls oriel_p2p_progress() in between.
 */
enum oriel_status oriel_p2p_check(const struct oriel_p2p *p2p);

/*
 * Limits, and the path that was chosen. Before the endpoints are joined @path is
 * ORIEL_PATH_NONE.
 */
struct oriel_p2p_info {
	size_t size;          /* of this struct, as the caller knew it */
	enum oriel_path path; /* ORIEL_PATH_NONE if a transport of the caller joins them */
	enum oriel_p2p_mode mode;
	/* "mapped", "rdma", ..., which live as long as the library, or the transport's name */
	const char *backend;
	unsigned channels;
	unsigned depth;
	size_t chunk; /* bytes of a chunk at most */
	size_t control_max;
	bool is_same_process;
	uint8_t reserved1[3];
	unsigned queues;      /* of a link by rdma, else 0 */
	unsigned chunk_slots; /* of each channel */
	uint32_t reserved2;
};

enum oriel_status oriel_p2p_describe(const struct oriel_p2p *p2p, struct oriel_p2p_info *info);

/*
 * An operation under way. The memory is the caller's; it stays in place from the call that
 * takes it until @status is not ORIEL_AGAIN, and may then be used again. No other call takes
 * it before that, which is not checked. The caller need not set any field before. If that call
 * fails @status is its failure, too; where it returns ORIEL_AGAIN the request is untouched.
 */
struct oriel_p2p_request {
	enum oriel_status status; /* ORIEL_AGAIN: not done */
	uint32_t reserved1;
	size_t length; /* of a control message that arrived: of all of it, also if it did not fit */
	void *user;    /* never touched by the library; for hooks and the caller */

	/* The library's. */
	struct oriel_p2p_request *next;
	void *buffer;
	struct oriel_p2p_memory *memory;
	void *mr_ref;
	uint64_t tag, number, at, unit, address;
	uint32_t keys[4], piece, step, chunks, begun, done;
	uint8_t kind, protocol, channel, has_own_memory;
	uint8_t is_gpu, is_straight, slot, of_channel;
	uint32_t reserved3;
};

/*
 * Control messages: up to ORIEL_P2P_CONTROL bytes with a tag; messages of one tag are
 * received in the order in which they were sent. A send is done when @data may be used
 * again, which up to 32 messages of 2 KiB may be before the peer calls anything. In its calls
 * the receiver keeps 64 unexpected messages, or 126 KiB of them; beyond that the
 * messages behind them wait, whatever their tag, until some are received. A message longer
 * than @room ends its receive with ORIEL_ERR_MISMATCH and is dropped; the connection
 * stays.
 */
enum oriel_status oriel_p2p_send_control(struct oriel_p2p *p2p, uint64_t tag, const void *data,
					 size_t length, struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_recv_control(struct oriel_p2p *p2p, uint64_t tag, void *data,
					 size_t room, struct oriel_p2p_request *request);

/*
 * Register memory, so that bytes move to it and from it without staging. It stays
 * registered until unregistered. With ORIEL_P2P_BACKGROUND the call returns at once and a
 * thread of the context registers it. check: ORIEL_OK, ORIEL_AGAIN while that is under
 * way, or its failure. If the peer is another process on the same machine, zero copy needs
 * memory of oriel_memory_alloc() or oriel_memory_take_fd() at the receiver; of a GPU also of
 * cudaMalloc(), and mapped as oriel_region_share() has it, if the context of the peer has a GPU
 * that reaches it. Other memory can be registered as well: ORIEL_P2P_AUTO receives into it by
 * staging, and in ORIEL_P2P_ZERO_COPY such a receive breaks both endpoints with
 * ORIEL_ERR_UNSUPPORTED.
 */
enum oriel_p2p_register_flags {
	ORIEL_P2P_BACKGROUND = 1,
};

enum oriel_status oriel_p2p_register(struct oriel_p2p_context *ctx, void *address, size_t length,
				     unsigned flags, struct oriel_p2p_memory **memory);
enum oriel_status oriel_p2p_memory_check(const struct oriel_p2p_memory *memory);
/*
 * ORIEL_ERR_STATE: requests under way name it. The caller ensures that no put to an export of it
 * is under way. NULL is allowed.
 */
enum oriel_status oriel_p2p_unregister(struct oriel_p2p_memory *memory);

struct oriel_p2p_buffer {
	void *address;
	size_t length;
	struct oriel_p2p_memory *memory; /* that holds all of it; NULL: not registered */
};

/*
 * Transfers. The nth send of a channel matches its nth receive at the other endpoint; both
 * have the same length, else both endpoints break with ORIEL_ERR_MISMATCH. Channels do not
 * wait for each other. A transfer of no bytes has no chunks: both requests are done at
 * once, and nothing is written to the peer. A send is done when its buffer may be used
 * again, which for few bytes (4 KiB at most) may be before the peer has begun to receive;
 * a receive is done when all bytes have arrived. So a send that is done or drained does not say
 * that the peer has received: the endpoint may still break, with ORIEL_ERR_MISMATCH for example. A
 * program that must know has the receiver say so by a control message.
 *
 * ORIEL_ERR_RANGE: no such channel, or memory that does not hold the buffer.
 * ORIEL_ERR_ACCESS: a NIC would read or write a buffer that is not registered, and whose
 * ends or holes in between it may not access; the next transfer proceeds as if this one
 * had not been.
 */
enum oriel_status oriel_p2p_send(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *from,
				 struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_recv(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *to,
				 struct oriel_p2p_request *request);

/*
 * Chunks: a transfer whose parts a producer hands on, and a consumer takes, one by one, in any
 * order. They travel beside the whole transfers of a channel, in slots of their own
 * (oriel_p2p_attr): a slot moves one chunk at a time, and counts its chunks in rounds from 0 on.
 * The chunk of a slot and round that is sent meets the one that is received with the same numbers,
 * whatever the other slots do; both have the same length, as transfers have. A chunk is of up to
 * oriel_p2p_info.chunk bytes, and moves at once, uncut.
 *
 * ORIEL_AGAIN: the chunk of the round before is under way: nothing was begun. ORIEL_ERR_STATE: the
 * endpoints are not joined yet, or @round is not the next of the slot, which the text names.
 * ORIEL_ERR_RANGE: no such slot, or too many bytes. All else is as for transfers; a chunk that
 * is cancelled has its round once more.
 */
enum oriel_status oriel_p2p_send_chunk(struct oriel_p2p *p2p, unsigned channel, unsigned slot,
				       uint64_t round, const struct oriel_p2p_buffer *from,
				       struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_recv_chunk(struct oriel_p2p *p2p, unsigned channel, unsigned slot,
				       uint64_t round, const struct oriel_p2p_buffer *to,
				       struct oriel_p2p_request *request);

/*
 * Memory of one endpoint as bytes, ORIEL_P2P_EXPORT of them, and those bytes as memory
 * that the other endpoint can put to. Once the endpoints are joined (ORIEL_ERR_STATE
 * before). Not for ORIEL_P2P_COPY_BASED. The memory stays registered until the other endpoint puts
 * to it no more: until the expect of its last put is done, or the endpoint is destroyed.
 */
struct oriel_p2p_remote {
	uint64_t address, length;
	uint32_t keys[4]; /* of each NIC */
	uint32_t piece, reserved;
};

enum oriel_status oriel_p2p_export(struct oriel_p2p *p2p, const struct oriel_p2p_buffer *buffer,
				   void *bytes);
enum oriel_status oriel_p2p_import(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   struct oriel_p2p_remote *remote);

/*
 * Put @from into @to from @offset on, and then complete what the other endpoint expects on
 * @channel: puts and expects pair up as, and together with, sends and receives do. At
 * least one byte. A put waits until it is expected. A put is done as a send is, an expect when
 * all bytes of the put have arrived.
 */
enum oriel_status oriel_p2p_put(struct oriel_p2p *p2p, unsigned channel,
				const struct oriel_p2p_buffer *from,
				const struct oriel_p2p_remote *to, uint64_t offset,
				struct oriel_p2p_request *request);
enum oriel_status oriel_p2p_expect(struct oriel_p2p *p2p, unsigned channel,
				   struct oriel_p2p_request *request);

/*
 * Once the endpoints are joined, the first receives of a channel, up to its depth, cannot be
 * cancelled, nor can the first send that waits but in zero_copy: they end by the peer's part, or
 * with their endpoint. A transfer that may be given up needs a channel or an endpoint of its own.
 *
 * Give up @request, as if it had never been begun: requests behind it move up, and pair
 * with what it would have met. On ORIEL_OK it has ORIEL_ERR_ABORTED, and its memory is the
 * caller's. That can be done while the peer knows nothing of it:
 *   any request                 until the endpoints are joined;
 *   a send or put in zero_copy  until the peer has named its memory, or the request has left
 *                               without that, as few bytes may;
 *   ... in other modes          while one before it waits for the peer, which knows the first
 *                               that waits, and may keep slots for it; in copy_based while
 *                               those before it take up the depth of the channel;
 *   a receive, an expect        while those before it take up the depth of the channel;
 *   a control message           until a part of it has left;
 *   a receive of one            until a part of a message is in its buffer.
 * ORIEL_ERR_STATE: it is done, or it is too late, and it goes on.
 */
enum oriel_status oriel_p2p_cancel(struct oriel_p2p *p2p, struct oriel_p2p_request *request);

/* Advance all operations under way, each until it waits for the peer or the NIC. */
enum oriel_status oriel_p2p_progress(struct oriel_p2p *p2p);

/* Poll once: the status of @request after some progress, if it was not done. */
enum oriel_status oriel_p2p_test(struct oriel_p2p *p2p, const struct oriel_p2p_request *request);

/*
 * Make progress until @request is done, or ORIEL_ERR_TIMEOUT: it goes on then, and its status
 * is ORIEL_AGAIN. Blocks. @timeout_ns 0 is the context's.
 */
enum oriel_status oriel_p2p_wait(struct oriel_p2p *p2p, const struct oriel_p2p_request *request,
				 uint64_t timeout_ns);

/*
 * Make progress until all that was begun here is done, except receives for which nothing
 * has arrived, and has left this endpoint. Blocks, as wait does.
 */
enum oriel_status oriel_p2p_drain(struct oriel_p2p *p2p, uint64_t timeout_ns);

/*
 * The endpoint of this mode for rank @peer, this rank itself included, that @comm keeps:
 * the first call makes it and begins to join it (oriel_p2p_check()), every other call gets the
 * same one, until @comm is destroyed, which alone destroys it. Local, any thread: no rank waits in
 * it for the other rank to call as well, and there is no order between pairs, or modes. @attr as
 * for oriel_p2p_create() and equal in every call for @peer and the mode, ORIEL_ERR_MISMATCH here;
 * equal on both ranks, else the endpoints break with ORIEL_ERR_MISMATCH on both. They break in the
 * same way if each of two ranks waits for an endpoint of another mode of the other one, once half
 * of the communicator's timeout, or 10 s, has passed. The path is that of @comm.
 */
enum oriel_status oriel_comm_p2p(struct oriel_comm *comm, unsigned peer,
				 const struct oriel_p2p_attr *attr, struct oriel_p2p **p2p);

/*
 * The context of those endpoints, to register memory with. It is @comm's, which alone
 * destroys it.
 */
enum oriel_status oriel_comm_p2p_context(struct oriel_comm *comm, struct oriel_p2p_context **ctx);

#ifdef __cplusplus
}
#endif

#endif
