/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that a path provides to an endpoint: bytes into memory of the peer, and a
 * notification that they have arrived. The thread of the endpoint makes all calls, and
 * none waits.
 */
#ifndef ORI_P2P_P2P_BACKEND_H
#define ORI_P2P_P2P_BACKEND_H

#include <stdbool.h>

#include "p2p/p2p_wire.h"

struct oriel_p2p;
struct ori_host_link;

/* Local memory, as its owner and as the HCA know it. */
struct p2p_local {
	char *at;
	uint64_t address;
	struct oriel_dev_keys lkeys;
	bool is_gpu;
};

/* Memory of the peer. @at is set where the backend is mapped. */
struct p2p_remote {
	char *at;
	uint64_t address;
	struct oriel_dev_keys keys;
	bool is_gpu; /* ... and @at is a GPU's */
};

/* An immediate of the peer, and the bytes that came along. */
struct p2p_arrival {
	uint32_t immediate;
	uint32_t length; /* as the peer says; more than P2P_IMM_BYTES are not there */
	const char *bytes;
};

#define P2P_WAITS 64u

/* An operation that completes with copies of a GPU. */
struct p2p_wait {
	uint64_t op, copy;
	uint32_t immediate;
	bool has_immediate;
};

/* The state of the backends in an endpoint. */
struct p2p_link {
	struct ori_host_link *host;
	uint8_t host_endpoint[P2P_LINK_INFO];
	unsigned queues;                  /* of @host */
	struct ori_mapping segment, pool; /* the peer's */
	struct p2p_segment *peer;         /* in it */
	/*
	 * The mapped backend counts immediates written, taken, and taken as the peer knows;
	 * and the peer's count of taken ones when last read.
	 */
	uint64_t written, taken, reported, seen;
	uint32_t last; /* index mask of the rings, which are of a power of two */
	/*
	 * Operations that wait for copies, in their order; and how many of them have an
	 * immediate.
	 */
	struct p2p_wait waits[P2P_WAITS];
	uint32_t first_wait, wait_count, imm_count;

	void *transport; /* link of the context's transport; NULL: none */
	struct oriel_p2p_target segment_target;
	bool has_segment; /* registered with it */
};

struct p2p_backend {
	const char *name;
	enum oriel_path path;
	bool is_mapped;  /* staged data is copied into the slot of the peer at once */
	bool needs_keys; /* sources too are registered */
	bool has_eager;  /* send_eager() writes few bytes to the address that the immediate names */

	/* Describe this endpoint. @fds, at most two, stay this endpoint's; *@nfds of them. */
	enum oriel_status (*open)(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine, int *fds,
				  unsigned *nfds);
	/* The peer's endpoint, which has been checked; sets @p2p's remote control and pool. */
	enum oriel_status (*connect)(struct oriel_p2p *p2p, const struct p2p_endpoint_info *theirs,
				     const int *fds, unsigned nfds);
	/* End the peer's writes to memory here. ORIEL_AGAIN: it may still be writing. */
	enum oriel_status (*close)(struct oriel_p2p *p2p);
	/* The end of open(), connect() and close(): neither side reaches the other any more. */
	void (*sever)(struct oriel_p2p *p2p);

	/*
	 * Operations that may write to memory of the peer lie between these two.
	 * ORIEL_ERR_PEER: the peer does not allow that any more.
	 */
	enum oriel_status (*enter)(struct oriel_p2p *p2p);
	void (*leave)(struct oriel_p2p *p2p);

	/*
	 * ORIEL_AGAIN: no room now, or the link has failed, which progress() reports. *@op
	 * is the number of the operation; operations complete in their order, and an
	 * aligned word of 8 bytes is written whole. Puts have no order; an immediate
	 * arrives after all that was put before it.
	 */
	enum oriel_status (*put)(struct oriel_p2p *p2p, const struct p2p_local *from,
				 const struct p2p_remote *to, size_t length, uint64_t *op);
	enum oriel_status (*write_imm)(struct oriel_p2p *p2p, const struct p2p_local *from,
				       const struct p2p_remote *to, size_t length,
				       uint32_t immediate, uint64_t *op);
	/*
	 * The same with P2P_IMM_BYTES bytes at most, which are copied now, and which the peer
	 * takes with the immediate. Only backends with eager sends have it.
	 */
	enum oriel_status (*send_eager)(struct oriel_p2p *p2p, const void *bytes, size_t length,
					uint32_t immediate, uint64_t *op);
	/*
	 * Advances p2p->done; returns the failure of the link. Immediates that have
	 * arrived can still be taken.
	 */
	enum oriel_status (*progress)(struct oriel_p2p *p2p);
	/*
	 * ORIEL_AGAIN: no immediate has arrived. Bytes of @arrival stay until the next call,
	 * and the peer may still write to them.
	 */
	enum oriel_status (*take)(struct oriel_p2p *p2p, struct p2p_arrival *arrival);

	/*
	 * Describe how the peer reaches @at of @memory, for an offer or exported memory.
	 * ORIEL_AGAIN: not yet; ORIEL_ERR_UNSUPPORTED: it cannot, and why.
	 */
	enum oriel_status (*export)(struct oriel_p2p *p2p, const struct oriel_p2p_memory *memory,
				    const void *at, size_t length, struct p2p_offer *offer);
	/*
	 * The same for an offer of the peer. ORIEL_AGAIN: memory that it needs has not
	 * arrived yet.
	 */
	enum oriel_status (*import)(struct oriel_p2p *p2p, const struct p2p_offer *offer,
				    struct p2p_remote *remote);
};

/* For backends without eager sends. */
enum oriel_status ori_p2p_no_eager(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   uint32_t immediate, uint64_t *op);

extern const struct p2p_backend ori_p2p_mapped, ori_p2p_self, ori_p2p_rdma, ori_p2p_transport;

#endif
