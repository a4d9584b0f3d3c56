/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One endpoint from inside: the files of this folder include it. Only the thread that uses
 * the endpoint touches it, but for the control words, which the peer writes, and for
 * fields that name their lock.
 */
#ifndef ORI_P2P_P2P_H
#define ORI_P2P_P2P_H

#include <stdatomic.h>

#include "comm/health_text.h"
#include "p2p/p2p_backend.h"
#include "p2p/p2p_context.h"
#include "p2p/p2p_dial.h"
#include "p2p/p2p_wire.h"

#define P2P_TEXT 240u

/* Immediates of a peer that follows the rules and that are not taken: this many at most. */
#define P2P_IMMEDIATES (2 * P2P_SLOTS + P2P_CELLS)

/* Copies by engines of the context's GPU. Copies of one use complete in order. */
enum p2p_copy_use {
	P2P_COPY_OUT, /* to the peer, or to the slot that a put reads */
	P2P_COPY_IN,  /* out of slots of this context */
	P2P_COPY_STREAMS,
};

struct p2p_copy_stream {
	void *stream;   /* NULL: the context has no GPU */
	uint64_t *word; /* copies that are done; @begun of them have been begun */
	uint64_t begun;
	uint32_t tests;
};

#define P2P_RING 1024u

/*
 * An immediate of a mapped peer, in one line: {low 24 bits of its number + 1, bytes that
 * come along, immediate}, stored last.
 */
struct p2p_imm_entry {
	uint64_t what;
	char bytes[P2P_IMM_BYTES];
};

static_assert(sizeof(struct p2p_imm_entry) == 64, "a line");

/* The words, offers, cells and labels that the peer writes. */
struct p2p_remote_control {
	uint64_t words[P2P_WORDS];
	uint64_t reserved[7];
	struct p2p_offer offers[P2P_SLOTS]; /* [channel * depth + slot] */
	char cells[P2P_CELLS][P2P_CELL];
	struct p2p_label labels[P2P_SLOTS]; /* the same, for slots in memory of a GPU */
};

static_assert(offsetof(struct p2p_remote_control, offers) % 64 == 0, "offers keep to lines");

/*
 * The control words that the peer writes, and those that this endpoint fills and the NIC writes
 * to the peer: the same fields at the same offsets. A word may change while the NIC reads it:
 * either value is right. Offers and cells stay until their put is done.
 */
struct p2p_segment {
	struct p2p_remote_control remote_control;
	struct p2p_remote_control local_control;
	/* The fields below serve the mapped backend. */
	uint32_t closing; /* by this endpoint: the peer may not write here any more */
	uint32_t reserved1[31];
	uint32_t busy; /* by the peer: it may be writing to memory of this endpoint */
	uint32_t reserved2[31];
	uint64_t taken; /* by this endpoint: immediates so far */
	uint64_t reserved3[15];
	uint64_t flying; /* by this endpoint: copies of its GPU to the peer, begun so far */
	uint64_t reserved4[15];
	struct {
		uint64_t count; /* by the GPU of this endpoint: copies of this stream done */
		uint64_t reserved[15];
	} flown[P2P_COPY_STREAMS];
	struct p2p_imm_entry ring[P2P_RING]; /* by the peer */
	char eager_buffers[];                /* ... [channel * depth + slot][p2p_eager_limit()] */
};

static_assert(P2P_IMMEDIATES <= P2P_RING, "the ring takes what the rules allow");

struct p2p_list {
	struct oriel_p2p_request *first, **last;
};

enum p2p_kind {
	P2P_SEND = 1,
	P2P_PUT,
	P2P_RECV,
	P2P_EXPECT,
	P2P_SEND_CONTROL,
	P2P_RECV_CONTROL,
};

enum p2p_send_state {
	P2P_SEND_NEW,   /* needs a slot to be packed in, if its path uses one */
	P2P_SEND_PACK,  /* the hook packs it */
	P2P_SEND_READY, /* needs its credit, and to be posted */
	P2P_SEND_POSTED,
	P2P_SEND_DONE,
};

struct p2p_send_slot {
	enum p2p_send_state state;
	struct oriel_p2p_request *request;
	uint32_t chunk, length;
	uint64_t offset;
	int staging;   /* slot of the pool that it holds; -1: none */
	bool is_put;   /* and its label, which is written apart, is not */
	char *label;   /* where it is packed, local or at the peer; NULL: it is not */
	uint64_t copy; /* number of the copy that packs it; 0: none */
	uint64_t op;
};

/*
 * The requests of a channel, all lists in the order of the calls. Transfers get units in
 * the order in which they begin: a unit has a number, and travels by slot unit % depth.
 *   first not done <= assign <= last
 */
struct p2p_send_channel {
	struct p2p_list requests;
	struct oriel_p2p_request *resolve; /* first whose protocol is not known */
	struct oriel_p2p_request *assign;  /* first with chunks that have no slot */
	uint64_t number;                   /* of the next transfer */
	uint64_t reported;                 /* transfers that the peer knows of */
	uint64_t unit;                     /* the next that no transfer has */
	uint64_t taken;                    /* units that the peer has taken, as far as known */
	uint32_t first, count;
	struct p2p_send_slot slots[P2P_DEPTH];
};

enum p2p_recv_state {
	P2P_RECV_NONE,
	P2P_RECV_GRANTED,
	P2P_RECV_ARRIVED, /* ... and the hook may be unpacking it */
	P2P_RECV_DONE,
};

struct p2p_recv_slot {
	enum p2p_recv_state state;
	struct oriel_p2p_request *request;
	uint32_t chunk;
	int staging;
	bool is_reported; /* by credit or offer; eager sends arrive without */
	uint64_t copy;    /* number of the copy that unpacks it; 0: none */
	uint64_t op;      /* of the last offer by this slot, + 1 */
};

/* An eager send as it arrived: for a receive that may not have been posted. */
struct p2p_unexpected {
	uint32_t number;
	uint32_t length; /* 0: there is none */
	char bytes[P2P_EAGER_INLINE];
};

/* Units [oldest, unit) have been granted and are not done; unit <= oldest + depth. */
struct p2p_recv_channel {
	struct p2p_list requests;
	struct oriel_p2p_request *assign;
	uint64_t number;
	uint64_t oldest, unit;
	uint64_t reported; /* of @oldest, to the peer */
	struct p2p_recv_slot slots[P2P_DEPTH];
	struct p2p_unexpected unexpected[P2P_DEPTH];
};

#define P2P_BLOCKS 64u /* of unexpected messages */

/* A part of an unexpected message; the first part describes the whole message. */
struct p2p_block {
	uint64_t tag;
	uint32_t total, got;
	uint8_t next;         /* the next part, P2P_NO_BLOCK if none */
	uint8_t next_message; /* of the first part */
	uint8_t last;         /* part, of the first part */
	uint8_t reserved[5];
	struct oriel_p2p_request *request; /* that takes it as soon as it is whole */
	char data[P2P_CELL_DATA];
};

#define P2P_NO_BLOCK UINT8_MAX

/* Cells [., sent) have been put, cells [next, .) have not arrived. */
struct p2p_control {
	struct p2p_list sends, receives;
	uint64_t sent;
	uint64_t ops[P2P_CELLS];     /* of the last put of each, + 1 */
	uint64_t next, reported;     /* next cell to be taken; the peer's knowledge of it */
	uint16_t arrived[P2P_CELLS]; /* lap */
	/*
	 * The message that is arriving: for @request, for the block @message, or it is
	 * dropped.
	 */
	bool is_arriving;
	uint32_t total, got;
	struct oriel_p2p_request *request;
	uint8_t message;

	uint8_t free_block, free_blocks;
	uint8_t first_message, last_message;
	struct p2p_block *blocks; /* [P2P_BLOCKS] */
};

enum p2p_state {
	P2P_IDLE,    /* no address */
	P2P_CALLING, /* no socket */
	P2P_MEETING, /* exchanges P2P_ENDPOINT and P2P_READY */
	P2P_JOINED,
	P2P_BROKEN,
};

struct p2p_control_socket {
	struct ori_net_conn conn;
	struct p2p_frame out;
	size_t out_done;   /* bytes of it, with its header */
	bool has_out;      /* the rest of it is not sent */
	uint64_t probe_at; /* when to probe a peer that has to connect */
	uint64_t clash; /* of a communicator's: when to look for a peer of another mode; 0: never */
	struct p2p_dial dial;
	struct ori_hearing hearing; /* of a peer on another machine */
	bool is_local;
	bool has_info, has_sent_info, has_sent_ready, is_ready;
};

/* A piece of memory that the peer has mapped, or is to map. */
struct p2p_given {
	struct ori_mem *mem; /* referenced; NULL: none */
	uint32_t number;
	bool is_sent;
};

/* A piece of the peer. */
struct p2p_taken {
	struct ori_mapping map;
	uint32_t next; /* number of the piece that replaces it */
};

struct oriel_p2p {
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *next; /* in the context, guarded by its lock */
	struct oriel_p2p_hooks hooks;
	void *context;
	void *transport_data; /* the caller's, for its transport */
	enum oriel_p2p_mode mode;
	/*
	 * Channels of the protocol: first the user's, @whole of them, then one for each of
	 * @chunk_slots slots of each.
	 */
	unsigned channels;
	unsigned whole, chunk_slots;
	unsigned depth, queues;
	unsigned depth_shift; /* depth is 1 << this; P2P_NO_SHIFT: it is no power of two */
	bool has_owner;       /* a communicator or a mock, which alone destroys it */
	atomic_bool is_inside;

	enum p2p_state state;
	enum oriel_status failure;
	char failure_text[P2P_TEXT];
	bool is_leaving;    /* the peer left or the link failed: what arrived is still taken */
	bool has_lost_link; /* it is the link that failed here; the peer may not know */
	bool has_ended;     /* ori_p2p_end() is done */
	/* The peer's NIC has rejected a request: until then its socket may say that it exited. */
	uint64_t doubt_until;
	enum oriel_status leaving;
	uint64_t timeout_ns, deadline; /* to be joined */
	struct p2p_address address, peer;
	struct oriel_comm *comm;       /* whose cache has it; NULL: none */
	unsigned peer_rank;            /* of @comm */
	char peer_name[24 + P2P_NAME]; /* the peer in texts, with its rank where it has one */
	struct p2p_control_socket control_socket;
	uint32_t idle_passes; /* passes in which nothing moved */
	uint64_t watched_at;  /* when the socket was polled */
	uint32_t quiet;       /* passes in which there was nothing to do but to wait */
	size_t eager_max;     /* bytes that both endpoints take without a credit; 0: they do not */
	bool is_due;          /* something arrived that needs a whole pass */
	bool is_piece_due;    /* a send waits for memory that comes over the socket */
	bool is_pending;      /* an operation waits for something other than the peer */
	uint64_t unreported;  /* channels whose taken units have to be reported to the peer */

	const struct p2p_backend *backend;
	struct p2p_link link;
	unsigned rail;                          /* the first of the link, if it is over NICs */
	struct p2p_area area;                   /* the segment's */
	struct p2p_segment *segment;            /* in it */
	struct p2p_remote remote_control, pool; /* the peer's control words and slots */
	uint64_t pool_stride;
	uint32_t pool_slots;
	size_t chunk;         /* bytes of a chunk at most */
	uint64_t begun, done; /* ops: those before @done are done */
	int spare;            /* a slot to receive in that is never given back; -1: none */
	bool is_spare_used;
	struct p2p_copy_stream copy_streams[P2P_COPY_STREAMS];
	uint8_t peer_gpu[ORI_GPU_UUID]; /* 0: none */
	bool is_gpu_reached;            /* by the peer */
	bool may_flush, is_flush_due;   /* memory of GPUs that the NIC writes to */

	struct p2p_send_channel *out; /* [channels] */
	struct p2p_recv_channel *in;
	uint64_t active_out, active_in; /* channels with requests */
	uint32_t *offered;              /* [P2P_SLOTS]: offers that have arrived, and their laps */
	uint64_t dirty[(P2P_WORDS + 63) / 64];
	bool is_dirty;
	uint64_t counts_op[P2P_WORD_CREDIT]; /* the last put of each of these words, + 1 */
	uint64_t labels_op[P2P_SLOTS];       /* ... of each label of the remote control */
	struct p2p_control control;

	struct p2p_given given[P2P_PIECES]; /* to the peer */
	struct p2p_taken taken[P2P_PIECES]; /* from it */
};

#define P2P_NO_SHIFT UINT32_MAX

/*
 * The slot by which @unit travels, and its lap there. Depths are powers of two but for a
 * few, and a division costs more than a shift.
 */
static inline unsigned p2p_slot(const struct oriel_p2p *p2p, uint64_t unit)
{
	return (unsigned)(p2p->depth_shift != P2P_NO_SHIFT ? unit & (p2p->depth - 1)
							   : unit % p2p->depth);
}

static inline uint64_t p2p_lap(const struct oriel_p2p *p2p, uint64_t unit)
{
	return (p2p->depth_shift != P2P_NO_SHIFT ? unit >> p2p->depth_shift : unit / p2p->depth) +
	       1;
}

/*
 * @at of this endpoint's local control, and an offset in the peer's control words, for the
 * backend.
 */
static inline struct p2p_local p2p_local_control(const struct oriel_p2p *p2p, void *at)
{
	return (struct p2p_local){.at = at,
				  .address = (uint64_t)((char *)at - p2p->area.base),
				  .lkeys = p2p->area.lkeys};
}

static inline struct p2p_remote p2p_remote_control(const struct oriel_p2p *p2p, uint64_t offset)
{
	return (struct p2p_remote){.at = p2p->remote_control.at ? p2p->remote_control.at + offset
								: NULL,
				   .address = p2p->remote_control.address + offset,
				   .keys = p2p->remote_control.keys};
}

/* The number by which hooks know chunk @chunk of @r. */
static inline uint32_t p2p_chunk_index(const struct oriel_p2p *p2p,
				       const struct oriel_p2p_request *r, uint32_t chunk)
{
	return r->slot ? (uint32_t)(r->number * p2p->chunk_slots + r->slot - 1) : chunk;
}

static inline bool p2p_is_same_process(const struct oriel_p2p *p2p)
{
	return p2p->peer.process == p2p->address.process;
}

/* One thread at a time is between these two calls: debug builds check it. */
static inline void ori_p2p_enter(struct oriel_p2p *p2p)
{
#ifndef NDEBUG
	bool was_inside = atomic_exchange_explicit(&p2p->is_inside, true, memory_order_relaxed);

	assert(!was_inside && "two threads use an endpoint at once");
#else
	(void)p2p;
#endif
}

static inline void ori_p2p_leave(struct oriel_p2p *p2p)
{
#ifndef NDEBUG
	atomic_store_explicit(&p2p->is_inside, false, memory_order_relaxed);
#else
	(void)p2p;
#endif
}

/*
 * Does @r travel with its notification? Both endpoints decide alike if they agree on its
 * length.
 */
static inline bool p2p_is_eager(const struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
{
	return r->length <= p2p->eager_max && (r->kind == P2P_SEND || r->kind == P2P_RECV);
}

/* Bytes of an eager send between two endpoints of this mode, for which they keep buffers. */
static inline size_t p2p_eager_limit(const struct oriel_p2p *p2p)
{
	return p2p->mode == ORIEL_P2P_COPY_BASED ? P2P_EAGER_COPIED : P2P_EAGER_MAX;
}

/* The offset at which the eager buffer of a unit lies, in either segment. */
static inline uint64_t p2p_eager_buffer(const struct oriel_p2p *p2p, unsigned channel,
					unsigned slot)
{
	return offsetof(struct p2p_segment, eager_buffers) +
	       (uint64_t)(channel * p2p->depth + slot) * p2p_eager_limit(p2p);
}

/* Bytes of the segment of an endpoint with its eager buffers. */
static inline uint64_t p2p_segment_length(const struct oriel_p2p *p2p)
{
	return p2p_eager_buffer(p2p, p2p->channels, 0);
}

/* Paths whose backends have eager sends. */
#define P2P_EAGER_PATHS (1u << ORIEL_PATH_SELF | 1u << ORIEL_PATH_MAPPED)

/* May this endpoint, by itself, take eager sends? Transfers by hooks and GPUs use slots. */
static inline bool p2p_takes_eager(const struct oriel_p2p *p2p)
{
	return (p2p->address.paths & P2P_EAGER_PATHS) && !p2p->ctx->gpu.ops && !p2p->hooks.pack &&
	       !p2p->hooks.unpack;
}

/* Functions by file, in the order of the calls: a file calls only those before it. */

/* p2p_gpu.c */
/* Do nothing without a GPU. After a failure of open() none is open. */
enum oriel_status ori_copy_streams_open(struct oriel_p2p *p2p);
void ori_copy_streams_close(struct oriel_p2p *p2p);
/* On return the GPU touches no memory for this endpoint. */
void ori_copy_streams_drain(struct oriel_p2p *p2p);
/* *@copy is its number, from 1 on; of a failed copy too. */
enum oriel_status ori_copy_stream_copy(struct oriel_p2p *p2p, enum p2p_copy_use use, void *to,
				       const void *from, size_t length, uint64_t *copy);
/* ORIEL_AGAIN: not done yet. */
enum oriel_status ori_copy_stream_test(struct oriel_p2p *p2p, enum p2p_copy_use use, uint64_t copy);

/* p2p_request.c */
/* Fail once more with the status and text of what broke @p2p. */
enum oriel_status ori_p2p_failed(const struct oriel_p2p *p2p);
/* Adds to @list. */
void ori_p2p_append(struct p2p_list *list, struct oriel_p2p_request *request);
/* Removes @request from @list, wherever it is; false if it is not there. */
bool ori_p2p_take_out(struct p2p_list *list, const struct oriel_p2p_request *request);
void ori_p2p_finish(struct oriel_p2p *p2p, struct oriel_p2p_request *request,
		    enum oriel_status status);
/* Takes the first out, and completes it. */
void ori_p2p_finish_first(struct oriel_p2p *p2p, struct p2p_list *list, enum oriel_status status);
/* Bytes of the chunks of @request, of its length; the same at both endpoints. */
size_t ori_p2p_step(const struct oriel_p2p *p2p, const struct oriel_p2p_request *request);
#define P2P_PLACE 40u
/* The channel of @request, and its slot if it is a chunk, as texts name them: @text. */
const char *ori_p2p_place(const struct oriel_p2p_request *request, char text[P2P_PLACE]);

/* p2p_word.c */
uint64_t ori_p2p_word(const struct oriel_p2p *p2p, unsigned which);
/* Write a word of the peer's control, at the latest with the next progress. */
enum oriel_status ori_p2p_set_word(struct oriel_p2p *p2p, unsigned which, uint64_t value);
/* Put the words that had to wait, as far as they may now. */
enum oriel_status ori_p2p_put_dirty(struct oriel_p2p *p2p);

/* p2p_transport.c */
/* Begin to join @p2p to its peer by the context's transport; frames go over it from then on. */
enum oriel_status ori_transport_join(struct oriel_p2p *p2p);
/* As the two of the control socket. */
enum oriel_status ori_transport_send(struct oriel_p2p *p2p, const struct p2p_frame *frame);
enum oriel_status ori_transport_recv(struct oriel_p2p *p2p, struct p2p_frame *frame);

/* p2p_control_socket.c, or the transport of the caller in its place. No call waits. */
/* Is there a connection to the peer? */
bool ori_control_socket_is_open(const struct oriel_p2p *p2p);
/* Send the rest of the last frame. */
enum oriel_status ori_control_socket_flush(struct oriel_p2p *p2p);
/* ORIEL_ERR_PEER: the peer's host is lost. */
enum oriel_status ori_control_socket_look(struct oriel_p2p *p2p, uint64_t now);
/* ORIEL_AGAIN: the socket takes nothing now. Copies of @fds are sent. */
enum oriel_status ori_control_socket_send(struct oriel_p2p *p2p, const struct p2p_frame *frame,
					  const int *fds, unsigned nfds);
/*
 * The next frame, whose descriptors are those of the connection. ORIEL_AGAIN: not all of it has
 * arrived; ORIEL_ERR_PEER: the peer has closed the socket.
 */
enum oriel_status ori_control_socket_recv(struct oriel_p2p *p2p, struct p2p_frame *frame);
void ori_control_socket_bye(struct oriel_p2p *p2p, enum oriel_status status, const char *text);
/* Close a connection, so that the peer receives the last frame that was sent. */
void ori_p2p_hang_up(struct ori_net_conn *conn);

/* p2p_piece.c */
/* Memory of the peer, with descriptors as they arrived, if it is of another process. */
enum oriel_status ori_piece_import(struct oriel_p2p *p2p, const struct ori_mem_blob *blob,
				   const int *fds, unsigned nfds, struct ori_mapping *mapping);
/* The number by which the peer knows @mem. ORIEL_AGAIN: the peer has not got it yet. */
enum oriel_status ori_piece_give(struct oriel_p2p *p2p, struct ori_mem *mem, uint32_t *number);
/* A piece arrives on the control socket. */
enum oriel_status ori_piece_take(struct oriel_p2p *p2p, const struct p2p_piece *piece);
/* Piece @number of the peer. ORIEL_AGAIN: the next pass looks whether it has arrived. */
enum oriel_status ori_piece_find(struct oriel_p2p *p2p, uint32_t number,
				 const struct ori_mapping **piece);
void ori_pieces_unmap(struct oriel_p2p *p2p);
void ori_pieces_close(struct oriel_p2p *p2p);

/* p2p_meet.c. No call waits. */
/* ORIEL_AGAIN: the two endpoints have not met yet. */
enum oriel_status ori_p2p_meet(struct oriel_p2p *p2p, bool *has_moved);
/* Poll the socket of endpoints that are joined. */
enum oriel_status ori_p2p_watch(struct oriel_p2p *p2p);

/* p2p_control.c */
enum oriel_status ori_control_open(struct oriel_p2p *p2p);
void ori_control_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
enum oriel_status ori_control_run(struct oriel_p2p *p2p, bool *has_moved);
/* Take @request out if the peer knows nothing of it; false: it is too late. */
bool ori_control_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
enum oriel_status ori_control_arrived(struct oriel_p2p *p2p, uint32_t immediate);
void ori_control_cancel(struct oriel_p2p *p2p, enum oriel_status status);
bool ori_control_is_idle(const struct oriel_p2p *p2p);
void ori_control_close(struct oriel_p2p *p2p);

/* p2p_recv_eager.c */
/*
 * Begin @r, if it is eager and no request before it waits: nothing is written to the peer.
 * False: it goes by ori_recv_begin().
 */
bool ori_recv_eager(struct oriel_p2p *p2p, struct oriel_p2p_request *r);
/*
 * An eager send arrived; its bytes begin as struct p2p_eager does. *@taken: units of sends
 * from here that the peer has taken.
 */
enum oriel_status ori_recv_eager_arrived(struct oriel_p2p *p2p, const struct p2p_arrival *arrival,
					 uint32_t *taken);
/* Did the data for the next receive of @length bytes arrive before the peer left? */
bool ori_recv_is_left(const struct oriel_p2p *p2p, unsigned channel, size_t length);

/* p2p_recv.c: receives of one channel. */
void ori_recv_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
/* Advance them as far as they can go now. */
enum oriel_status ori_recv_run(struct oriel_p2p *p2p, unsigned channel, bool *has_moved);
enum oriel_status ori_recv_arrived(struct oriel_p2p *p2p, const struct p2p_arrival *arrival);
/* The count of taken units that is sent along with a message. */
uint32_t ori_recv_taken(struct oriel_p2p *p2p, unsigned channel);
/* Report to the peer which units are taken, or that a receive waits for an eager send. */
enum oriel_status ori_recv_report(struct oriel_p2p *p2p, unsigned channel);
enum oriel_status ori_recv_report_granted(struct oriel_p2p *p2p, unsigned channel);
/* Has a unit arrived that is not taken out of its slot yet? */
bool ori_recv_is_busy(const struct oriel_p2p *p2p, unsigned channel);
/* As ori_control_take_back(). */
bool ori_recv_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
void ori_recv_cancel(struct oriel_p2p *p2p, unsigned channel, enum oriel_status status);

/* p2p_send_eager.c */
/*
 * Send all of @r, which has not begun, if it is eager and no request is before it: it is
 * done then. False: it goes by ori_send_begin().
 */
bool ori_send_eager(struct oriel_p2p *p2p, struct oriel_p2p_request *r);
/* The peer has taken @taken units, modulo 2^32. */
enum oriel_status ori_send_taken(struct oriel_p2p *p2p, unsigned channel, uint32_t taken);

/* p2p_send.c: sends and puts of one channel. */
void ori_send_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
/* Advance them as far as they can go now. */
enum oriel_status ori_send_run(struct oriel_p2p *p2p, unsigned channel, bool *has_moved);
enum oriel_status ori_send_offered(struct oriel_p2p *p2p, const struct p2p_arrival *arrival);
/* As ori_control_take_back(). */
bool ori_send_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
void ori_send_cancel(struct oriel_p2p *p2p, unsigned channel, enum oriel_status status);

/*
 * Ends the text of a limit of @age_ns, in @text: the rank that stands still, for which the peer may
 * only have waited, too. "" without a communicator, or if all its ranks run.
 */
const char *ori_p2p_silent(const struct oriel_p2p *p2p, uint64_t age_ns,
			   char text[ORI_SILENT_TEXT]);

/* p2p_run.c */
/* Begin @request, and advance it as far as it can go at once. */
enum oriel_status ori_p2p_start(struct oriel_p2p *p2p, struct oriel_p2p_request *request);
/* Advance @p2p as far as it can go now. */
enum oriel_status ori_p2p_pass(struct oriel_p2p *p2p, bool *has_moved);
/*
 * The peer, hooks and the GPU touch no memory for @p2p any more, the socket is closed, and all
 * requests end with @status. It waits for writes of the peer; ORIEL_AGAIN: it was within one at
 * the deadline, no request has ended, and the call may be repeated.
 */
enum oriel_status ori_p2p_end(struct oriel_p2p *p2p, enum oriel_status status, uint64_t deadline);
/* All of that but the wait. */
void ori_p2p_abandon(struct oriel_p2p *p2p, enum oriel_status status);

/*
 * p2p.c, for the cache and the mock: a copy of the attributes of a caller, whose reserved fields
 * are 0; an endpoint of this number; and its way to @peer, by the backend that the context brings,
 * or that the path decides.
 */
enum oriel_status ori_p2p_read_attr(const struct oriel_p2p_attr *caller,
				    struct oriel_p2p_attr *attr);
enum oriel_status ori_p2p_open(struct oriel_p2p_context *ctx, const struct oriel_p2p_attr *attr,
			       uint64_t number, struct oriel_p2p **p2p);
/*
 * ORIEL_ERR_TIMEOUT: the peer is within a write to memory of @p2p, which is broken and goes on.
 * @is_forced: then it is closed all the same, and the log says so.
 */
enum oriel_status ori_p2p_close(struct oriel_p2p *p2p, bool is_forced);
enum oriel_status ori_p2p_join(struct oriel_p2p *p2p, const struct p2p_address *peer,
			       uint64_t timeout_ns);

#endif
