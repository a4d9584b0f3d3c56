/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes between two endpoints: addresses, the frames of their socket, exported memory,
 * cells of control messages, immediates. Parsers are pure and trust nothing; all files of
 * this folder and the fuzzer use them.
 */
#ifndef ORI_P2P_P2P_WIRE_H
#define ORI_P2P_P2P_WIRE_H

#include <assert.h>

#include <oriel/dev/types.h>
#include <oriel/p2p.h>
#include <oriel/p2p_transport.h>

#include "hca/hca.h"
#include "mem/mapping.h"
#include "net/fdsock.h"
#include "sys/hosts.h"

#define P2P_VERSION 5u
#define P2P_ADDRESS_MAGIC 0x41325032u /* "2P2A", little-endian */
#define P2P_EXPORT_MAGIC 0x45325032u  /* "2P2E" */

#define P2P_DEPTH 16u  /* units of a channel under way */
#define P2P_SLOTS 256u /* ... of all channels */
#define P2P_CELLS 32u
#define P2P_CELL 2048u
#define P2P_CHUNK_MIN 4096u
#define P2P_CHUNK_MAX (16u << 20)
#define P2P_LINK_INFO 72u /* bytes of a struct ori_host_qps */
#define P2P_PIECES 64u    /* of memory, that a peer has mapped at once */
#define P2P_REACH 64u     /* GPUs of a peer whose reachability is asked */

/* Distinguishes one endpoint from all others. */
struct p2p_token {
	uint8_t context[16];
	uint64_t number;
};

#define P2P_MODES 3u                     /* enum oriel_p2p_mode */
#define P2P_UNCACHED (UINT64_C(1) << 32) /* first number that no communicator uses */

/* Number of the endpoint that a rank of a communicator keeps for rank @of. */
static inline uint64_t p2p_cached_number(unsigned of, enum oriel_p2p_mode mode)
{
	return (uint64_t)of * P2P_MODES + mode;
}

#define P2P_PATHS_TRANSPORT (1u << 31) /* a transport of the caller, and no path */

struct p2p_address {
	uint32_t magic;
	uint32_t version;
	uint32_t paths; /* 1 << enum oriel_path, or P2P_PATHS_TRANSPORT */
	uint32_t uid;
	uint64_t kernel; /* equal: one kernel, and unix sockets lead from one to the other */
	uint64_t process;
	struct p2p_token token;
	uint8_t listener[ORI_FDSOCK_NAME]; /* the context's unix socket */
	uint32_t pid;
	uint16_t port; /* the context's TCP port; 0: it has none */
	uint16_t reserved1;
	uint64_t node; /* the virtual node; endpoints treat other nodes as other machines */
	struct ori_hosts hosts;
	uint32_t rails; /* that the context drives */
	uint32_t reserved2[4];
};

static_assert(sizeof(struct p2p_address) == ORIEL_P2P_ADDRESS, "goes over the wire");

enum oriel_status ori_p2p_address_parse(const void *bytes, size_t length,
					struct p2p_address *address);

/* Do unix sockets lead from one to the other? */
bool ori_p2p_address_is_local(const struct p2p_address *a, const struct p2p_address *b);

/* The same at both endpoints. ORIEL_PATH_NONE: no path is common. */
enum oriel_path ori_p2p_address_path(const struct p2p_address *a, const struct p2p_address *b);

/*
 * The rail that joins them, the same at both endpoints: those of one communicator, or of two
 * contexts, use the rails in turn.
 */
unsigned ori_p2p_address_rail(const struct p2p_address *a, const struct p2p_address *b);

/* Does @a connect to @b? Otherwise @b connects to @a; the same at both endpoints. */
bool ori_p2p_address_calls(const struct p2p_address *a, const struct p2p_address *b);

/* 0: they are one endpoint. */
int ori_p2p_token_compare(const struct p2p_token *a, const struct p2p_token *b);

enum p2p_frame_kind {
	P2P_HELLO = 1, /* of the connecting side: the two endpoints that it joins */
	P2P_ENDPOINT,  /* the data with which the peer reaches this endpoint */
	P2P_READY,     /* this endpoint takes puts of the peer */
	P2P_PIECE,     /* memory that the peer may put to; its descriptor comes along */
	P2P_BYE,       /* the end of the connection, and why */
	P2P_WELCOME,   /* over TCP: the context's answer to P2P_HELLO, which means it */
};

struct p2p_hello {
	struct p2p_token to, from;
};

enum p2p_endpoint_flags {
	P2P_ENDPOINT_GPU_SLOTS = 1, /* slots are of its GPU: labels go to the control words */
	P2P_ENDPOINT_EAGER = 2,     /* eager sends may arrive without a credit */
};

struct p2p_endpoint_info {
	uint32_t path;        /* enum oriel_path; ORIEL_PATH_NONE: a transport of the caller */
	uint16_t mode;        /* enum oriel_p2p_mode */
	uint16_t flags;       /* enum p2p_endpoint_flags */
	uint16_t channels;    /* of the protocol: of whole transfers, and of slots for chunks */
	uint16_t chunk_slots; /* of each channel of whole transfers */
	uint32_t depth;
	uint64_t chunk;            /* bytes of a staging slot without its label */
	uint64_t stride;           /* ... from one to the next */
	uint32_t slots;            /* of the pool */
	uint32_t hca_kind;         /* of rdma: enum ori_hca_kind; else 0 */
	uint8_t gpu[ORI_GPU_UUID]; /* of the context; 0: none */
	union {
		struct {
			struct ori_hca_qp_address
				nics[ORIEL_DEV_RAILS]; /* of the rails that are there */
			uint8_t link[P2P_LINK_INFO];
			struct oriel_dev_keys segment_rkeys, pool_rkeys;
		} rdma;
		struct {
			struct ori_mem_blob segment, pool;
		} mapped;
		struct {
			struct oriel_p2p_target segment, pool;
			char name[ORIEL_P2P_TRANSPORT_NAME]; /* ended by a NUL */
		} transport;
	};
};

struct p2p_ready {
	uint32_t reaches_gpu; /* 1: it accepts memory of the peer's GPU as the target of its puts */
	uint32_t reserved;
};

struct p2p_piece {
	uint32_t number; /* its table slot, and how often that has been used */
	uint32_t reserved;
	struct ori_mem_blob blob;
};

struct p2p_bye {
	int32_t status; /* ORIEL_OK or a failure */
	char text[492]; /* ended by a NUL */
};

#define P2P_BODY 672u

/* A frame of src/net whose type is @kind; the rest is its body. */
struct p2p_frame {
	uint32_t kind; /* enum p2p_frame_kind */
	union {
		struct p2p_hello hello;
		struct p2p_endpoint_info info;
		struct p2p_ready ready;
		struct p2p_piece piece;
		struct p2p_bye bye;
		uint8_t bytes[P2P_BODY];
	};
};

static_assert(sizeof(struct p2p_hello) == 48 && sizeof(struct p2p_bye) == 496 &&
		      sizeof(struct p2p_endpoint_info) == P2P_BODY &&
		      sizeof(struct p2p_frame) == 8 + P2P_BODY,
	      "bodies of frames go over the wire");

/* Bytes of the body of a frame of @kind. */
size_t ori_p2p_frame_length(enum p2p_frame_kind kind);
/* A checked copy; the caller checks numbers of the peer that must fit its own. */
enum oriel_status ori_p2p_frame_parse(unsigned kind, const void *body, size_t length,
				      struct p2p_frame *frame);

struct p2p_export {
	uint32_t magic;
	uint32_t version;
	uint32_t path;
	uint32_t piece;
	uint64_t address, length;
	uint64_t to; /* ori_p2p_token_brief() of the endpoint that may use it */
	struct oriel_dev_keys keys;
	uint32_t reserved[2];
};

static_assert(sizeof(struct p2p_export) == ORIEL_P2P_EXPORT, "is given to users");

enum oriel_status ori_p2p_export_parse(const void *bytes, size_t length, struct p2p_export *e);

/* The value that names @token in memory exported to it. */
uint64_t ori_p2p_token_brief(const struct p2p_token *token);

/* The head of a cell; its part of the message follows. */
struct p2p_cell {
	uint64_t tag;
	uint32_t total;  /* bytes of the message */
	uint32_t at;     /* where in it */
	uint32_t length; /* of this part */
	uint32_t reserved;
};

#define P2P_CELL_DATA (P2P_CELL - (uint32_t)sizeof(struct p2p_cell))

static_assert(sizeof(struct p2p_cell) == 24, "goes over the wire");

/*
 * @bytes are P2P_CELL long. The parser does not check that the cell continues the message
 * before it.
 */
enum oriel_status ori_p2p_cell_parse(const void *bytes, struct p2p_cell *cell);

/*
 * The target memory of a zero-copy transfer. It lies in the sender's control words; the
 * sender compares @number and @length.
 */
struct p2p_offer {
	uint64_t address, length, number;
	struct oriel_dev_keys keys;
	uint32_t piece, reserved;
};

static_assert(sizeof(struct p2p_offer) == 48, "goes over the wire");

static_assert(sizeof(((struct oriel_p2p_remote *)0)->keys) == sizeof(struct oriel_dev_keys) &&
		      sizeof(((struct oriel_p2p_request *)0)->keys) ==
			      sizeof(struct oriel_dev_keys),
	      "a key for each rail");

static inline unsigned p2p_piece_slot(uint32_t number)
{
	return number % P2P_PIECES;
}

/* Number of the piece that reuses the slot once no transfer needs @number any more. */
static inline uint32_t p2p_piece_after(uint32_t number)
{
	return (number + P2P_PIECES) & INT32_MAX;
}

#define P2P_NO_PIECE UINT32_MAX /* of a thread of this process: the address is usable as it is */
#define P2P_KEY_GPU 1u          /* its first key: of a GPU, else 0 */

#define P2P_IMM_BYTES 56u /* bytes that come along with an immediate, at most */
#define P2P_FEW 32u       /* bytes that go within the label */

/*
 * Before the bytes in a staging slot, or in the receiver's control words if that slot is
 * of a GPU.
 */
struct p2p_label {
	uint64_t number; /* of the transfer */
	uint64_t total;  /* its bytes */
	uint32_t chunk, length;
	char few[P2P_FEW];
	uint64_t reserved;
};

/*
 * Bytes of an eager send, which needs no credit. A transfer that is not packed anyway is
 * eager only up to the length at which a second copy costs less than a word to the sender
 * and the wait for it.
 */
#define P2P_EAGER_MAX 512u
#define P2P_EAGER_COPIED 4096u
#define P2P_EAGER_INLINE 48u /* ... in the line of the immediate; more go to a buffer */

/* The head of an eager send. Counts are the low halves. */
struct p2p_eager {
	uint32_t number; /* of the transfer */
	uint32_t taken;  /* units of the other direction that the sender has taken */
	union {
		char bytes[P2P_EAGER_INLINE];
		uint32_t length; /* if the bytes are in the eager buffer of this unit */
	};
};

#define P2P_EAGER_HEAD (offsetof(struct p2p_eager, bytes))

static_assert(sizeof(struct p2p_eager) == P2P_IMM_BYTES, "comes along with an immediate");

/* Bytes of the head if the data is in the eager buffer. */
#define P2P_EAGER_BUFFERED (P2P_EAGER_HEAD + sizeof(uint32_t))

#define P2P_LABEL_HEAD (offsetof(struct p2p_label, few))

static_assert(P2P_LABEL_HEAD + P2P_FEW <= P2P_IMM_BYTES, "a label comes along with an immediate");

/* The offsets at which @length bytes begin and end in a slot. */
static inline size_t p2p_slot_begin(size_t length)
{
	return length <= P2P_FEW ? P2P_LABEL_HEAD : sizeof(struct p2p_label);
}

static inline size_t p2p_slot_end(size_t length)
{
	return p2p_slot_begin(length) + length;
}

static_assert(sizeof(struct p2p_label) == 64, "goes over the wire, and keeps slots aligned");

/* Words that the peer writes, each an absolute count: a later value includes an earlier one. */
enum {
	P2P_WORD_CELLS = 0, /* of control messages that have been taken */
	P2P_WORD_SENDS = 1, /* [channels]: transfers that the peer has reported */
	P2P_WORD_TAKEN = P2P_WORD_SENDS + ORIEL_P2P_CHANNELS,  /* [channels]: units */
	P2P_WORD_CREDIT = P2P_WORD_TAKEN + ORIEL_P2P_CHANNELS, /* [channels * depth] */
	P2P_WORDS = P2P_WORD_CREDIT + P2P_SLOTS,
};

/* The way a unit of a channel arrives: one chunk, or all of a transfer. */
enum p2p_protocol {
	P2P_UNKNOWN, /* the peer has not said yet */
	P2P_STAGED,  /* a credit names the staging slot */
	P2P_NOTICE,  /* a credit; the sender knows the target */
	P2P_EAGER,   /* with its immediate; its credit only reports that a receive waits */
	P2P_DIRECT,  /* an offer */
};

/* A credit: the unit, as the lap of its slot from 1 on, and how and where it may arrive. */
static inline uint64_t p2p_credit(uint64_t lap, enum p2p_protocol protocol, uint32_t slot)
{
	return lap << 20 | (uint64_t)protocol << 18 | slot;
}

static inline uint64_t p2p_credit_lap(uint64_t credit)
{
	return credit >> 20;
}

static inline enum p2p_protocol p2p_credit_protocol(uint64_t credit)
{
	return (enum p2p_protocol)(credit >> 18 & 3);
}

static inline uint32_t p2p_credit_slot(uint64_t credit)
{
	return credit & ((1u << 18) - 1);
}

enum p2p_imm_kind {
	P2P_IMM_CELL,  /* a cell of a control message has arrived */
	P2P_IMM_UNIT,  /* a unit has arrived */
	P2P_IMM_OFFER, /* an offer has arrived */
	P2P_IMM_EAGER, /* a unit comes along, or is in its eager buffer */
};

#define P2P_IMM_BUFFERED (1u << 23) /* of P2P_IMM_EAGER: the bytes are in the buffer */

static_assert(P2P_DEPTH <= 1u << 7, "a slot leaves that bit");

/*
 * The kind that arrived, its channel, its slot, and the lap of that slot: never identified
 * by order.
 */
static inline uint32_t p2p_immediate(enum p2p_imm_kind kind, unsigned channel, unsigned slot,
				     uint64_t lap)
{
	return (uint32_t)kind << 30 | channel << 24 | slot << 16 | (uint32_t)(lap & 0xffff);
}

static inline unsigned p2p_imm_channel(uint32_t immediate)
{
	return immediate >> 24 & 0x3f;
}

#endif
