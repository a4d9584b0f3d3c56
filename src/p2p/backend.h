/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path must be able to do for an end: bytes into memory of the peer, and a
 * word to it that they are there. All calls come from the thread of the end and
 * none waits, but for sever().
 */
#ifndef ORI_P2P_BACKEND_H
#define ORI_P2P_BACKEND_H

#include <stdbool.h>

#include "p2p/p2p_wire.h"

struct oriel_p2p;
struct p2p_mock_endpoint;
struct ori_host_link;

/* Memory here, as its owner and as the adapter know it. */
struct p2p_local {
	char *at;
	uint64_t address;
	uint32_t lkey;
	bool is_gpu;
};

/* Memory of the peer. @at is set where the backend is mapped. */
struct p2p_remote {
	char *at;
	uint64_t address;
	uint32_t key;
	bool is_gpu; /* ... and @at is a GPU's */
};

#define P2P_WAITS 64u

/* An operation that ends with copies of a GPU. */
struct p2p_wait {
	uint64_t op, copy;
	uint32_t immediate;
	bool has_immediate;
};

/* What the backends keep in an end. */
struct p2p_link {
	struct ori_host_link *host;
	uint8_t host_end[P2P_LINK_INFO];
	struct ori_mapping segment, pool; /* the peer's */
	struct p2p_segment *peer;         /* in it */
	struct p2p_mock_endpoint *mock;
	/* Of the mapped backend: immediates told and taken, and what the peer had taken last. */
	uint64_t reported, taken, seen;
	uint32_t last; /* place of the rings, which are of a power of two */
	/* What waits, in its order; and how many of that are to tell. */
	struct p2p_wait waits[P2P_WAITS];
	uint32_t first_wait, wait_count, imm_count;
};

struct p2p_backend {
	const char *name;
	enum oriel_path path;
	bool is_mapped;  /* what is staged is copied into the slot of the peer at once */
	bool needs_keys; /* sources too are registered */
	bool has_eager;  /* tell() takes few bytes to wherever the immediate says */

	/* Describe this end. @fds, at most two, stay this end's; *@nfds of them. */
	enum oriel_status (*open)(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine, int *fds,
				  unsigned *nfds);
	/* The peer's end, which has been checked; sets @p2p's board and pool. */
	enum oriel_status (*connect)(struct oriel_p2p *p2p, const struct p2p_endpoint_info *theirs,
				     const int *fds, unsigned nfds);
	/* May wait for what the peer is writing. Nobody writes here for the peer afterwards. */
	void (*sever)(struct oriel_p2p *p2p);

	/*
	 * What may write to memory of the peer lies between these two. ORIEL_ERR_PEER:
	 * it does not allow that any more.
	 */
	enum oriel_status (*enter)(struct oriel_p2p *p2p);
	void (*leave)(struct oriel_p2p *p2p);

	/*
	 * ORIEL_AGAIN: no room now, or the link has failed, which progress() tells. *@op
	 * is the number of what was begun; ops are done in their order, and an aligned
	 * word of 8 bytes is written whole. Puts have no order; an immediate comes after
	 * all that was put before it.
	 */
	enum oriel_status (*put)(struct oriel_p2p *p2p, const struct p2p_local *from,
				 const struct p2p_remote *to, size_t length, uint64_t *op);
	enum oriel_status (*write_imm)(struct oriel_p2p *p2p, const struct p2p_local *from,
				       const struct p2p_remote *to, size_t length,
				       uint32_t immediate, uint64_t *op);
	/*
	 * The same of P2P_IMM_BYTES bytes at most, which are copied now and put by the peer
	 * where ori_in_address() has it. Of those that carry.
	 */
	enum oriel_status (*send_eager)(struct oriel_p2p *p2p, const void *bytes, size_t length,
					uint32_t immediate, uint64_t *op);
	/* Advances p->done; the failure of the link. What has come can still be taken. */
	enum oriel_status (*progress)(struct oriel_p2p *p2p);
	/* ORIEL_AGAIN: no immediate is there. Bytes that came along have been taken, too. */
	enum oriel_status (*take)(struct oriel_p2p *p2p, uint32_t *immediate);

	/*
	 * How the peer reaches @at of @memory, as an offer or in exported memory has
	 * it. ORIEL_AGAIN: not yet; ORIEL_ERR_UNSUPPORTED: it cannot, and why.
	 */
	enum oriel_status (*export)(struct oriel_p2p *p2p, const struct oriel_p2p_memory *memory,
				    const void *at, size_t length, struct p2p_offer *offer);
	/* The same from the peer's. ORIEL_AGAIN: what it needs is still to come. */
	enum oriel_status (*import)(struct oriel_p2p *p2p, const struct p2p_offer *offer,
				    struct p2p_remote *remote);
};

/* Of those that do not carry. */
enum oriel_status ori_p2p_no_eager(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   uint32_t immediate, uint64_t *op);

extern const struct p2p_backend ori_p2p_mapped, ori_p2p_self, ori_p2p_rdma;

#endif
