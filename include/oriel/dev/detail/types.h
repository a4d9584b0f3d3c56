/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs behind the window handle, and macros of the device functions; all headers of
 * oriel/dev/detail use them, and so does the host, which fills the tables. Their layout is part of
 * the device ABI, counted by ORIEL_DEV_VERSION.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_TYPES_H
#define ORIEL_DEV_DETAIL_TYPES_H

#include <oriel/dev/types.h>

/*
 * Before a loop whose arrays must become registers; and before one around such
 * loops, which nvcc would else unroll to four times the registers.
 */
#ifdef __CUDA_ARCH__
#define ORIEL_DEV_UNROLL _Pragma("unroll")
#define ORIEL_DEV_UNROLL_FEW _Pragma("unroll 4")
#define ORIEL_DEV_ROLL _Pragma("unroll 1")
#else
#define ORIEL_DEV_UNROLL
#define ORIEL_DEV_UNROLL_FEW
#define ORIEL_DEV_ROLL
#endif

/* The likely branch: its code follows at once, the other branch's lies elsewhere. */
#define ORIEL_DEV_OFTEN(claim) __builtin_expect(!!(claim), 1)

/*
 * Always 0. If all threads of a warp add the same, nvcc adds once for all of them, at the cost
 * of a dozen instructions, which a thread that adds alone spends for nothing; nvcc does not
 * know that they add the same if each adds this too.
 */
#ifdef __CUDA_ARCH__
#define ORIEL_DEV_OWN ((uint64_t)(threadIdx.x >> 31))
#endif

struct oriel_dev_link;

/* Properties of a rank of a window, beside its path. */
enum oriel_dev_peer_flags {
	/* Its link reaches own buffers by their keys, see ori_dev_rdma_own(). */
	ORIEL_DEV_PEER_OWN_KEYS = 1,
	/*
	 * Mapped over a bus that passes no atomics to its memory: the words of this rank there
	 * change by stores alone, see ori_dev_mapped_serial_add().
	 */
	ORIEL_DEV_PEER_SERIAL = 2,
	/* Mapped over a bus that splits lines, which LL128 needs whole. */
	ORIEL_DEV_PEER_NARROW = 4,
	/* Some rank is serial to it: fetch_add() there excludes others, see
	 * ori_dev_atomic_in_turn().
	 */
	ORIEL_DEV_PEER_TURNS = 8,
};

/* With ORIEL_DEV_PEER_SERIAL: number of this rank's word in its flat barriers. */
#define ORIEL_DEV_PEER_FLAT_SHIFT 8
#define ORIEL_DEV_SERIAL_FLATS 11u

/* One rank of a window. */
struct oriel_dev_peer {
	char *control;                     /* its control segment, mapped here; NULL if not */
	uint32_t path;                     /* enum oriel_path */
	uint32_t flags;                    /* enum oriel_dev_peer_flags, and a number behind them */
	const struct oriel_dev_link *link; /* of the rdma path, or of atomics */
	struct oriel_dev_keys control_rkeys; /* of its control segment, from address 0 on */
};

/* One buffer of one rank. */
struct oriel_dev_buffer {
	char *base;       /* mapped here; some other address where it is not; NULL if not shared */
	uint64_t length;  /* in bytes */
	uint64_t address; /* of the first byte, as NICs know it */
	struct oriel_dev_keys rkeys; /* of the own rank: lkeys */
};

#define ORIEL_DEV_HAS_SERIAL (1u << 31)
/*
 * One NIC of each rank executes all atomics on its data, those of mapped ranks and its own, too.
 * Behind the @peers of a handle are their links to it.
 */
#define ORIEL_DEV_ATOMICS_BY_NIC (1u << 30)

/*
 * Set in the epoch of a barrier, full, flat or pairwise, while this rank has arrived
 * for that epoch and a limit of the caller's own ended its wait. The next call waits
 * for the same epoch and does not arrive again; a wait that succeeds clears the bit.
 */
#define ORIEL_DEV_PENDING ((uint64_t)1 << 63)

/* Barrier epochs of one slot: how often this rank has arrived there. */
struct oriel_dev_slot {
	uint64_t epoch;
	uint64_t flat;
	uint64_t reserved[6];
};

/* The use of a channel: its first message or stream decides. */
enum oriel_dev_form {
	ORIEL_DEV_FORM_STREAM, /* dev/channel.h */
	ORIEL_DEV_FORM_LL,     /* messages in lines of dev/ll.h */
	ORIEL_DEV_FORM_LL128,  /* ... of dev/ll128.h */
};

/* This rank's ends of one channel. Each end belongs to one group at a time. */
struct oriel_dev_sender {
	uint64_t sent;  /* bytes, since the window was made */
	uint64_t freed; /* last seen of the peer's credit word */
	uint64_t form;  /* enum oriel_dev_form */
	uint64_t reserved[5];
};
struct oriel_dev_receiver {
	uint64_t received;
	uint64_t credited; /* last written to the sender */
	uint64_t form;
	uint64_t reserved[5];
};

/*
 * The words of one channel that a peer writes into this rank's control
 * segment. One writer each.
 */
struct oriel_dev_channel {
	uint64_t ready; /* bytes the peer has put into my staging */
	uint64_t reserved0[15];
	uint64_t freed; /* bytes the peer has taken out of its staging for me */
	uint64_t reserved1[15];
};

ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_peer) == 40);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_buffer) == 40);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_slot) == 64);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_sender) == 64);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_receiver) == 64);
ORIEL_DEV_ASSERT(sizeof(struct oriel_dev_channel) == 2 * ORIEL_DEV_LINE);

#endif
