/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes memory of all ranks reachable to all: bytes by a gather, descriptors by the mesh.
 * Windows and regions call it.
 */
#ifndef ORI_COMM_SHARE_H
#define ORI_COMM_SHARE_H

#include "comm/exchange.h"

struct ori_rdma_mr;

/* The processors that are to reach shared memory. The same on all ranks. */
enum ori_use {
	ORI_USE_CPU,
	ORI_USE_GPU, /* kernels; host memory, which is pinned for them, by the CPU as well */
	ORI_USE_ANY, /* each memory by its own kind */
};

/* The memory that one rank offers: any part of live memory, or nothing (length 0). */
struct ori_piece {
	void *address;
	size_t length;
	enum ori_use use;
	bool is_unmapped; /* no peer maps it: NICs reach it alone. The same on all ranks */
};

/* The first gather of a share: a verdict and the blobs of the pieces. */
#define ORI_SHARE_PIECES 2u

struct ori_offer {
	struct ori_verdict verdict;
	struct ori_mem_blob blob[ORI_SHARE_PIECES];    /* length 0: nothing */
	struct oriel_dev_keys rkeys[ORI_SHARE_PIECES]; /* of the rdma path */
	uint64_t addresses[ORI_SHARE_PIECES];          /* ... of the first byte */
};

/* Memory of a peer as NICs know it. */
struct ori_remote {
	uint64_t address; /* of the first byte */
	struct oriel_dev_keys rkeys;
};

/* Keeps offered memory and its descriptors alive until all ranks have imported it. */
struct ori_offering {
	struct ori_offer offer;
	struct ori_mem *mem[ORI_SHARE_PIECES];
	struct ori_rdma_mr *mr[ORI_SHARE_PIECES]; /* the caller takes those that stay */
	enum ori_use use[ORI_SHARE_PIECES];
	bool is_unmapped[ORI_SHARE_PIECES];
	bool is_late; /* of the caller, before the import: peers in other processes map nothing yet.
			 The same on all ranks of a domain */
	struct oriel_comm *comm;
	unsigned count;
};

/*
 * Local: describes up to ORI_SHARE_PIECES @pieces, if @status, the result of the caller's
 * step before, is ORIEL_OK. A failure is in the offer as well as returned, so that the
 * caller goes on to the gather either way.
 */
enum oriel_status ori_share_offer(struct oriel_comm *comm, enum ori_call call,
				  enum oriel_status status, const struct ori_piece *pieces,
				  unsigned count, struct ori_offering *offering);
void ori_share_withdraw(struct ori_offering *offering);

/*
 * Local, but all ranks do it: exchanges descriptors with the mapped peers and maps the
 * memory that they offered. @offers has one struct ori_offer per rank, @stride bytes
 * apart (often ori_comm_scratch(), which an agreement overwrites); @maps is [count][size],
 * zeroed; own entries are filled in too. On failure nothing stays mapped. The caller
 * agrees afterwards.
 */
enum oriel_status ori_share_import(struct oriel_comm *comm, const struct ori_offering *offering,
				   const void *offers, size_t stride, struct ori_mapping *maps);

void ori_share_close(struct ori_mapping *maps, size_t count);

/*
 * Offer, gather, import and agreement, for one piece. Collective. @remotes is [size];
 * *@mr goes to ori_share_unregister() when the sharing ends.
 */
enum oriel_status ori_share_one(struct oriel_comm *comm, enum ori_call call,
				enum oriel_status status, const struct ori_piece *piece,
				struct ori_mapping *maps, struct ori_remote *remotes,
				struct ori_rdma_mr **mr);

/* The remote memory of piece @i that the peer of @offer offers. */
struct ori_remote ori_share_remote(const struct ori_offer *offer, unsigned i);

/* Registers memory with the NICs of @comm, which it has; see ori_rdma_register(). */
enum oriel_status ori_share_register(struct oriel_comm *comm, void *address, size_t length,
				     struct ori_rdma_mr **mr, struct oriel_dev_keys *rkeys);
/* See ori_rdma_mr_local(). */
void ori_share_local(const struct ori_rdma_mr *mr, uint64_t *address, struct oriel_dev_keys *lkeys);
/* NULL is allowed. */
void ori_share_unregister(struct oriel_comm *comm, struct ori_rdma_mr *mr);

#endif
