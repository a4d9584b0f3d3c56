/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain structs that host and kernels share: the flat window handle and the tables it
 * points to; every header of oriel/dev uses them. Their layout is the device ABI, counted by
 * ORIEL_DEV_VERSION.
 */
#ifndef ORIEL_DEV_TYPES_H
#define ORIEL_DEV_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#ifdef __CUDACC__
#define ORIEL_DEV static __host__ __device__ __forceinline__
#define ORIEL_DEV_COLD static __host__ __device__ __noinline__ __attribute__((unused))
/* Cold on a CPU. On a GPU a call by address would keep the arguments in local memory. */
#define ORIEL_DEV_RARE ORIEL_DEV
#else
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Where gcc instruments every access, it takes twenty times as long for what it must inline. */
#define ORIEL_DEV static inline
#else
#define ORIEL_DEV static inline __attribute__((always_inline))
#endif
#define ORIEL_DEV_COLD static __attribute__((unused, noinline, cold))
#define ORIEL_DEV_RARE ORIEL_DEV_COLD
#endif

#define ORIEL_DEV_MAGIC 0x4c45524fu /* "OREL", little-endian */
#define ORIEL_DEV_VERSION 14u
/* Magic and version are packed in one word, with room for a path. */
#define ORIEL_DEV_MARK ((ORIEL_DEV_MAGIC & 0xffff0000u) + ORIEL_DEV_VERSION * 256u)

/*
 * Paths that this translation unit can use, as a mask of 1 << enum oriel_path.
 * Define it before including to leave the code of a path out of a kernel; a
 * peer behind a path left out gets ORIEL_ERR_NO_PATH.
 */
#ifndef ORIEL_DEV_PATHS
#define ORIEL_DEV_PATHS 0xfu
#endif

/* Bytes between words that different ranks write: two lines, for the prefetcher. */
#define ORIEL_DEV_LINE 128u

/* NICs that a rank drives at most. A link joins two of one number, its rail. */
#define ORIEL_DEV_RAILS 4u

/*
 * Windows are numbered from 1. The bits from here on name the collective whose window it is:
 * enum oriel_window_flags has them from bit 8 on; 0: none.
 */
#define ORIEL_DEV_COLLECTIVE_BIT 28
#define ORIEL_DEV_WINDOW_NUMBER(number) ((number) & ((1u << ORIEL_DEV_COLLECTIVE_BIT) - 1))

#define ORIEL_DEV_NO_INDEX UINT32_MAX
#define ORIEL_DEV_NO_RANK UINT32_MAX

enum oriel_path {
	ORIEL_PATH_NONE,
	ORIEL_PATH_SELF,   /* the rank itself */
	ORIEL_PATH_MAPPED, /* its memory is mapped here */
	ORIEL_PATH_RDMA,   /* through a NIC */
};

enum oriel_signal_op {
	ORIEL_SIGNAL_ADD,
	ORIEL_SIGNAL_SET,
};

/* "the word OP the operand", on unsigned 64-bit values. */
enum oriel_compare {
	ORIEL_EQ,
	ORIEL_NE,
	ORIEL_GT,
	ORIEL_GE,
	ORIEL_LT,
	ORIEL_LE,
};

/* The operation in which a fault was found. */
enum oriel_dev_what {
	ORIEL_DEV_NOTHING,
	ORIEL_DEV_PUT,
	ORIEL_DEV_PUT_VALUE,
	ORIEL_DEV_GET,
	ORIEL_DEV_FETCH_ADD,
	ORIEL_DEV_SIGNAL,
	ORIEL_DEV_WAIT_SIGNAL,
	ORIEL_DEV_WAIT_SIGNAL_FROM,
	ORIEL_DEV_WAIT_SIGNAL_NEXT,
	ORIEL_DEV_BARRIER,
	ORIEL_DEV_BARRIER_FLAT,
	ORIEL_DEV_BARRIER_PEER,
	ORIEL_DEV_COUNTER,
	ORIEL_DEV_WAIT_COUNTER,
	ORIEL_DEV_SEND,
	ORIEL_DEV_RECV,
	ORIEL_DEV_WAIT_LOCAL,
	ORIEL_DEV_FLUSH,
	ORIEL_DEV_EXCHANGE, /* a collective call of the host */
	ORIEL_DEV_LINK,     /* an RDMA link has failed */
	ORIEL_DEV_ABORT,    /* oriel_comm_abort() of some rank */
	ORIEL_DEV_LOST,     /* a peer process has exited */
	ORIEL_DEV_PUT_LL,
	ORIEL_DEV_WAIT_LL,
	ORIEL_DEV_ALLTOALLV, /* lengths and displacements of an all-to-all */
	ORIEL_DEV_JOB,       /* oriel/progress.h */
	ORIEL_DEV_DOMAIN_RANK,
	ORIEL_DEV_DOMAIN_FIND,
	ORIEL_DEV_PEER_RANK,
	ORIEL_DEV_PEER_INDEX,
	ORIEL_DEV_FETCH_AND, /* in the order of enum oriel_dev_atomic_op */
	ORIEL_DEV_FETCH_OR,
	ORIEL_DEV_FETCH_XOR,
	ORIEL_DEV_SWAP,
	ORIEL_DEV_COMPARE_SWAP,
	ORIEL_DEV_FETCH,
	ORIEL_DEV_SET,
	ORIEL_DEV_ATOMIC, /* one of these: the request of the NIC that failed does not say which */
	ORIEL_DEV_HEARTBEAT, /* a rank did not run for as long as ORIEL_HEARTBEAT says */
	ORIEL_DEV_REDUCE,
	ORIEL_DEV_NIC, /* a NIC has not completed requests yet: of waits that go on alone */
};

/*
 * An operation that a device function has posted, for oriel_dev_wait_local() of the same window.
 * Zero: nothing of it is under way.
 */
struct oriel_dev_ticket {
	uint64_t index;  /* of its last request to @peer, from 1 on */
	uint32_t peer;   /* rank */
	uint32_t window; /* ori_dev_ticket_window() */
};

/* Set by the thread that moves @state from EMPTY to WRITING; readable once FULL. */
enum oriel_dev_fault_state {
	ORIEL_DEV_FAULT_EMPTY,
	ORIEL_DEV_FAULT_WRITING,
	ORIEL_DEV_FAULT_FULL,
};

/*
 * Device code cannot report to a human what went wrong, so it leaves this. One per communicator
 * holds the fault that broke it (its health), one per window the first arguments that were
 * rejected since the host read it.
 */
struct oriel_dev_fault {
	uint32_t state;  /* enum oriel_dev_fault_state */
	int32_t status;  /* enum oriel_status */
	uint32_t what;   /* enum oriel_dev_what */
	uint32_t peer;   /* ORIEL_DEV_NO_RANK if no peer is concerned */
	uint32_t window; /* number of the window, 0 for the communicator */
	uint32_t id;     /* signal, slot, counter, channel or buffer; of window 0: the queue */
	/*
	 * For a queue that memory of its own rank has ended: the address and length of that memory
	 * are @expected and @age_ns, 0 if unknown, and
	 * @peer is the peer of the queue. For a queue that works, but did not complete its requests
	 * within a limit: @seen is 0, @expected the requests posted and @age_ns those completed,
	 * both counted from the first on that queue.
	 */
	uint64_t expected; /* operand of the wait; the limit that was exceeded */
	uint64_t seen;     /* last value of the word; the argument given; of a queue: its err */
	uint64_t age_ns;   /* how long it had waited */
	uint32_t finder;   /* the rank that reported it, plus 1; 0: this rank found it */
	uint32_t asked; /* of a health: bytes to its answers while a reader asks for them; or 0 */
	uint64_t comm;  /* of a wait that goes on: a name for its communicator in this process */
};

#define ORIEL_TEAM_MAX 64

enum oriel_dev_kind {
	ORIEL_DEV_THREAD,  /* one thread alone */
	ORIEL_DEV_WARP,    /* CUDA */
	ORIEL_DEV_BLOCK,   /* CUDA, 1-D */
	ORIEL_DEV_TEAM,    /* CPU threads around a struct oriel_team */
	ORIEL_DEV_CLUSTER, /* CUDA, 1-D, from sm_90 on */
};

/*
 * The meeting point of the CPU threads of a team. Storage belongs to the caller; shared by the
 * threads, which all live in one process. @generation counts meetings.
 *
 * share[g & 1] and vote[g & 1] belong to meeting g: written before it, read after it. The last
 * thread to arrive clears the vote of the next meeting; no thread can still read that, because
 * all have arrived.
 */
struct oriel_team {
	uint64_t arrived;
	uint64_t reserved0[15];
	uint64_t generation;
	uint64_t reserved1[15];
	uint64_t share[2];
	uint64_t vote[2];
	uint32_t size;
	uint32_t spin;
};

struct oriel_dev_group {
	uint32_t rank;
	uint32_t size;
	uint32_t kind; /* enum oriel_dev_kind */
	uint32_t reserved;
	struct oriel_team *team; /* NULL unless a team */
};

/* The condition of a wait; it becomes the record if the wait fails. */
struct oriel_dev_aim {
	const uint64_t *word;
	uint64_t operand;
	uint32_t compare; /* enum oriel_compare, or ORIEL_DEV_PASSED */
	uint32_t what;    /* enum oriel_dev_what */
	uint32_t peer;
	uint32_t id;
};

/* Beyond enum oriel_compare: at or past the operand, modulo 2^64. */
#define ORIEL_DEV_PASSED 6u

/*
 * One entry of an all-to-all with lengths and displacements (oriel_alltoall_run_v()): what a
 * rank sends to one peer, and what it receives from that peer. In bytes.
 */
struct oriel_dev_alltoallv {
	uint64_t send_displacement; /* from the beginning of the send buffer */
	uint64_t send_length;
	uint64_t recv_displacement; /* from the beginning of the result */
	uint64_t recv_length;
};

/* The type of an element of a reduction, which oriel/reduce.h defines. */
enum oriel_type {
	ORIEL_TYPE_NONE, /* refused */
	ORIEL_TYPE_INT8,
	ORIEL_TYPE_INT16,
	ORIEL_TYPE_INT32,
	ORIEL_TYPE_INT64,
	ORIEL_TYPE_UINT8,
	ORIEL_TYPE_UINT16,
	ORIEL_TYPE_UINT32,
	ORIEL_TYPE_UINT64,
	ORIEL_TYPE_FP16, /* binary16 of IEEE 754 */
	ORIEL_TYPE_BF16, /* the upper half of a binary32 */
	ORIEL_TYPE_FP32,
	ORIEL_TYPE_FP64,
	ORIEL_TYPE_FP8_E4M3, /* of the OCP 8-bit floating point specification: no infinity */
	ORIEL_TYPE_FP8_E5M2,
};

/* The operation of a reduction. */
enum oriel_op {
	ORIEL_OP_NONE, /* refused */
	ORIEL_OP_SUM,
	ORIEL_OP_PROD,
	ORIEL_OP_MIN,
	ORIEL_OP_MAX,
	ORIEL_OP_AVG, /* the sum, divided by the number of ranks; of integers towards 0 */
	ORIEL_OP_BAND,
	ORIEL_OP_BOR, /* bits: integers only */
	ORIEL_OP_BXOR,
	ORIEL_OP_PREMUL_SUM, /* the sum of the products of each rank's values and its factor */
	ORIEL_OP_USER,       /* the function of the caller; host memory only */
};

/* A reduction as device functions take it (oriel/dev/reduction.h). */
struct oriel_dev_reduction {
	uint32_t type;  /* enum oriel_type */
	uint32_t op;    /* enum oriel_op, but not USER */
	uint32_t block; /* consecutive ranks that are added first; 0: all */
	uint32_t reserved;

	/*
	 * PREMUL_SUM: a word for each rank, whose first bytes are its factor, of the accumulation
	 * type. Memory of this rank, with the same contents on all ranks. Else it is not read.
	 */
	const uint64_t *factors;
};

/* The format of the lines of oriel_dev_gather_lines(). */
enum oriel_dev_lines {
	ORIEL_DEV_LINES_LL,    /* dev/ll.h */
	ORIEL_DEV_LINES_LL128, /* dev/ll128.h */
};

/*
 * A series of executions, with signals and a staging of its own. Equal on all ranks, except for
 * addresses.
 */
struct oriel_dev_gather {
	uint64_t to;      /* oriel_at() of the result, in the window of every rank */
	char *result;     /* local address of the result */
	uint64_t staging; /* offset in buffer 0; a multiple of 128; zeroed at first; of
			     oriel_dev_gather_staging() or oriel_dev_exchange_staging() bytes */
	uint64_t slot;    /* staging bytes for one part and one rank: oriel_dev_gather_slot() */
	uint64_t stride;  /* 0: one message for all; else rank r's lies r * stride behind */
	uint32_t lines;   /* enum oriel_dev_lines */
	uint32_t id;      /* the first of its signals, two for each part */
};

/* Tables behind the handles, which device functions alone read: oriel/dev/detail. */
struct oriel_dev_job;
struct oriel_dev_worker;
struct oriel_dev_peer;
struct oriel_dev_buffer;
struct oriel_dev_slot;
struct oriel_dev_sender;
struct oriel_dev_receiver;

#define ORIEL_DEV_COPY_GROUP 64u /* workers at most */

enum oriel_dev_side {
	ORIEL_DEV_PACK,   /* from the buffer to the slot */
	ORIEL_DEV_UNPACK, /* from the slot to the buffer */
};

/* A part of a transfer. */
struct oriel_dev_chunk {
	char *slot;
	char *buffer;    /* of the user, from @offset on */
	uint64_t offset; /* in the transfer */
	uint64_t length; /* bytes of both */
	uint64_t user;   /* of the request */
	uint64_t number; /* of this side, from 0 on */
	uint32_t channel;
	uint32_t index; /* in the transfer */
};

/* Passed by value, made by oriel_p2p_copy_group_device(), never changed. */
struct oriel_dev_copy_group {
	uint32_t magic;   /* ORIEL_DEV_MAGIC */
	uint32_t version; /* ORIEL_DEV_VERSION */
	uint32_t workers;
	uint32_t depth;                      /* of each ring */
	struct oriel_dev_job *jobs[2];       /* [enum oriel_dev_side], [depth] */
	struct oriel_dev_worker *records[2]; /* [enum oriel_dev_side], [workers] */
	const uint64_t *ended;               /* not 0: the status with which the endpoint ended */
	uint64_t timeout_ns;
};

/* A rank as the communicator knows it. */
struct oriel_dev_rank {
	uint32_t path;         /* enum oriel_path; a window with ORIEL_WINDOW_RDMA has its own */
	uint32_t peer_index;   /* ORIEL_DEV_NO_INDEX for the rank itself */
	uint32_t domain_index; /* ORIEL_DEV_NO_INDEX outside the domain */
	uint32_t reserved;
};

/* The keys of one piece of memory for the NIC of each rail; 0 if there is none. */
struct oriel_dev_keys {
	uint32_t rail[ORIEL_DEV_RAILS];
};

/* Ranks that the handle itself describes. */
#define ORIEL_DEV_INLINE_PEERS 8u

/*
 * The fields of @peers and @table for one of them. A kernel has the handle among its constants,
 * while a load from a table takes 165 ns after each acquire.
 */
struct oriel_dev_inline_peer {
	char *control;
	uint64_t *signals; /* those of @control that this rank changes: each constant from which a
			      GPU would compute it takes 5 ns */
	char *base;        /* of buffer 0 */
	uint64_t length;
	uint32_t mark; /* ORIEL_DEV_MARK + path; 0: of no rank */
	uint32_t rank;
};

/*
 * A window, by value. Made by oriel_window_device(), or by oriel_comm_device() for
 * the communicator itself, whose buffers are regions. Never changed by a kernel;
 * everything that must survive a launch lies behind its pointers.
 *
 * Control segment of a rank (R ranks, S signals, B barrier slots, C channels):
 *   signals   [R][S]  u64, rows of signal_stride bytes, row = source rank
 *   arrivals  [R][B]  u64, rows of barrier_stride, epoch of the source rank
 *   pairs     [R][B]  the same for the pairwise barrier
 *   flat      [B]     one line each: a u64 that counts the arrivals of mapped
 *                     peers, and 64 bytes behind it one for each rail; the
 *                     other words count those of one serial peer each
 *   tickets   [R]     u64, of ranks that take turns to add to data here
 *   channels  [R][C]  struct oriel_dev_channel, row = peer
 *   staging   [R][C]  channel_bytes each, row = sending rank
 */
struct oriel_dev_window {
	uint32_t magic;
	uint32_t version;
	uint32_t size;   /* of this struct */
	uint32_t number; /* of this window in its communicator, and ORIEL_DEV_COLLECTIVE_BIT */

	uint32_t rank;
	uint32_t ranks;
	uint32_t signals;
	uint32_t barriers;
	uint32_t counters;
	uint32_t channels;
	uint32_t buffers; /* entries in @table per rank */
	uint32_t spin;    /* polls before a CPU thread yields */

	uint32_t signal_stride;
	uint32_t barrier_stride;
	uint64_t channel_bytes;
	uint64_t timeout_ns; /* default of every wait */

	uint64_t arrivals_at; /* signals are at 0 */
	uint64_t pairs_at;
	uint64_t flat_at;
	uint64_t channels_at;
	uint64_t staging_at;

	char *control;                      /* this rank's segment */
	const struct oriel_dev_peer *peers; /* [ranks]; with ORIEL_ATOMICS_HCA then [ranks], by the
					       links of atomics */
	const struct oriel_dev_buffer *table; /* [buffers][ranks]; with ORIEL_ATOMICS_HCA then
						 [buffers], of this rank as its peers see it */

	uint64_t *counter_words;              /* [ranks][counters] */
	uint64_t *signal_bases;               /* [ranks][signals], of wait_signal_next */
	struct oriel_dev_slot *slots;         /* [barriers] */
	uint64_t *pair_epochs;                /* [ranks][barriers], as in a slot */
	struct oriel_dev_sender *senders;     /* [ranks][channels] */
	struct oriel_dev_receiver *receivers; /* [ranks][channels]; then [2][ranks] u64, not 0 while
						 a thread has its turn at a rank: of words that
						 only this rank changes, and of others */

	struct oriel_dev_keys whole_lkeys;   /* of all memory of this process: sources, results */
	struct oriel_dev_keys counter_rkeys; /* of counter_words, from address 0 on */

	/*
	 * A bit for each of inline_peers[]: buffer 0 lies on a GPU, where whole lines arrive at
	 * once. ORIEL_DEV_HAS_SERIAL: some rank has ORIEL_DEV_PEER_SERIAL or _TURNS.
	 * ORIEL_DEV_ATOMICS_BY_NIC: ORIEL_ATOMICS_HCA.
	 */
	uint32_t inline_wide;
	uint32_t rails; /* NICs of each rank; 0: no peer is reached by rdma */
	struct oriel_dev_inline_peer
		inline_peers[ORIEL_DEV_INLINE_PEERS]; /* of rank r in [r % ORIEL_DEV_INLINE_PEERS]
						       */

	struct oriel_dev_fault *fault;  /* rejected arguments, of this window */
	struct oriel_dev_fault *health; /* the fault that broke the communicator */
	/*
	 * Device functions leave here the fault that breaks the communicator: @health itself in
	 * host memory. A GPU only reads that, for its atomics and those of the CPU are not
	 * atomic with each other; the host moves there the record that a GPU leaves here.
	 */
	struct oriel_dev_fault *blame;

	/* Ranks as the communicator knows them, for the memory of the window; dev/domain.h. */
	const struct oriel_dev_rank *topology; /* [ranks] */
	const uint32_t *domain;                /* [domain_size], ranks in order */
	uint32_t domain_size;
	uint32_t domain_index; /* of this rank */
};

#ifdef __cplusplus
#define ORIEL_DEV_ASSERT(claim) static_assert(claim, #claim)
#else
#define ORIEL_DEV_ASSERT(claim) _Static_assert(claim, #claim)
#endif

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_fault) == 64);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_rank) == 16);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_keys) == 16);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_inline_peer) == 40);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_window) == 592);

#define ORIEL_AT_BITS 48 /* of an offset in the result of oriel_at() */

/*
 * Any thread, and the host: an offset that names byte @offset of buffer @buffer of a window. Buffer
 * 0 is the one given or allocated at creation, so that a plain offset below 2^48 means that one.
 * Arguments that do not fit become an offset that no window has, which is rejected where it is
 * used.
 */
ORIEL_DEV uint64_t oriel_at(uint32_t buffer, uint64_t offset)
{
	if (offset >> ORIEL_AT_BITS || buffer >> (64 - ORIEL_AT_BITS))
		return UINT64_MAX;
	return (uint64_t)buffer << ORIEL_AT_BITS | offset;
}

/* Any thread: does the handle come from a library that this text understands? */
ORIEL_DEV bool oriel_dev_is_compatible(const struct oriel_dev_window *w)
{
#ifdef __CUDA_ARCH__
	/* A GPU waits for each branch, which a CPU predicts. */
	return !((w->magic ^ ORIEL_DEV_MAGIC) | (w->version ^ ORIEL_DEV_VERSION) |
		 (w->size ^ (uint32_t)sizeof(*w)));
#else
	return w->magic == ORIEL_DEV_MAGIC && w->version == ORIEL_DEV_VERSION &&
	       w->size == sizeof(*w);
#endif
}

#endif
