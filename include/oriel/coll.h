/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types that all persistent collectives share: algorithms, the memory that results are written
 * to, attributes and answers. oriel/allgather.h, oriel/alltoall.h and oriel/bcast.h have the
 * objects. Users include those; docs/allgather.md has the algorithms and why they are correct.
 */
#ifndef ORIEL_COLL_H
#define ORIEL_COLL_H

#include <oriel/comm.h>
#include <oriel/status.h>
#include <oriel/window.h>

#ifdef __cplusplus
extern "C" {
#endif

enum oriel_algorithm {
	ORIEL_ALGORITHM_DEFAULT, /* all-gather: as ORIEL_ALLGATHER says; else by a table */

	/* All ranks are mapped: one domain. */
	ORIEL_ALGORITHM_LL,    /* lines with flags, through a staging buffer: small messages */
	ORIEL_ALGORITHM_STORE, /* stores by the calling thread or by a kernel */
	ORIEL_ALGORITHM_CE,    /* copy engines, which use no SM; GPUs only */

	/* All ranks, except for GPUs of one domain. A node means a domain here. */
	ORIEL_ALGORITHM_DIRECT, /* each rank to every other rank */
	ORIEL_ALGORITHM_RING,   /* from node to node, in chunks; within a node to all ranks */
	ORIEL_ALGORITHM_BRUCK,  /* steps of 1, 2, 4 ... nodes, for any number of nodes */
	ORIEL_ALGORITHMS
};

const char *oriel_algorithm_name(enum oriel_algorithm algorithm); /* "ll", "store", ... */

/* Where the memory of a view comes from. A view without a kind is refused. */
enum oriel_view_kind {
	ORIEL_VIEW_WINDOW = 1, /* a part of a window: @window, @at */
	ORIEL_VIEW_BUFFER,     /* a buffer that the object shares: @buffer */
	ORIEL_VIEW_TABLE,      /* a buffer that all ranks reach already: @buffer, @peers */
};

enum oriel_view_flags {
	ORIEL_VIEW_GPU = 1, /* memory of the communicator's GPU; equal on all ranks */
};

/*
 * The memory of every rank that results are written to. The caller owns it, and the object borrows
 * it until it is destroyed. @kind is equal on all ranks, and says which of the last four fields
 * count; the others are 0 (ORIEL_ERR_INVALID names the field).
 */
struct oriel_view {
	size_t size;    /* of this struct, as the caller knew it */
	unsigned kind;  /* enum oriel_view_kind */
	unsigned flags; /* enum oriel_view_flags */
	size_t length;  /* in bytes; ranks may differ, and the shortest counts */

	/* ORIEL_VIEW_WINDOW: begins at @at of @window (oriel_at()), which is equal on all ranks. */
	struct oriel_window *window;
	uint64_t at;

	/*
	 * ORIEL_VIEW_BUFFER: memory of this rank, which the object shares by the rules of
	 * oriel_region_share(). ORIEL_VIEW_TABLE: memory of this rank.
	 */
	void *buffer;

	/*
	 * ORIEL_VIEW_TABLE: the buffers of all ranks, of a shared region (oriel_region_table()), or
	 * of memory that the caller has mapped. Each entry has @base and @length. @base is the
	 * local address of a mapped buffer, and any address but NULL for another one. The latter
	 * has @address and @rkeys as well, except on GPUs, where the object creates the keys for
	 * the NICs. The table is copied; the memory that it names must stay mapped and registered.
	 */
	const struct oriel_dev_buffer *peers; /* [ranks] */
};

/* Attributes of a new object. Zero means default for every field. Equal on all ranks. */
struct oriel_coll_attr {
	size_t size;        /* of this struct, as the caller knew it */
	unsigned algorithm; /* enum oriel_algorithm; for every execution that supports it */
	unsigned reserved;
	size_t chunk; /* bytes of one internode transfer; default 1 MiB, at least 4 KiB */
};

/* Limits and choices of an object. */
struct oriel_coll_info {
	size_t size;        /* of this struct, as the caller knew it */
	size_t bytes_max;   /* the most of an execution, of each rank */
	unsigned nodes;     /* domains */
	unsigned supported; /* mask of 1 << enum oriel_algorithm */
	unsigned algorithm; /* enum oriel_algorithm that executes the bytes that were asked for */
	unsigned reserved;
};

#ifdef __cplusplus
}
#endif

#endif
