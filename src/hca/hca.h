/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA adapter behind one table: real (verbs, mlx5) or in software (soft). It
 * knows neither ranks nor peers; addresses are bytes. Queues are mlx5 rings, in
 * memory that the caller or the adapter provides, and are posted to with
 * oriel/dev/mlx5.h, or they have none that one could see and are posted to by calls;
 * caps() says which of all this there is.
 */
#ifndef ORI_HCA_HCA_H
#define ORI_HCA_HCA_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#define ORI_HCA_ADDRESS 64u /* bytes of the address of an adapter */

/* May be combined; a local buffer of a WRITE needs none of them. */
enum ori_hca_access {
	ORI_HCA_LOCAL_WRITE = 1, /* results of READs and atomics land here */
	ORI_HCA_REMOTE_WRITE = 2,
	ORI_HCA_REMOTE_READ = 4,
	ORI_HCA_REMOTE_ATOMIC = 8,
	ORI_HCA_RELAXED_ORDERING = 16, /* payload only, never signals */
	ORI_HCA_ANY_MEMORY = 32,       /* no one piece: what lies there may be the GPU's or not */
};

struct ori_hca_caps {
	const char *kind;   /* "soft", "verbs", "mlx5" */
	const char *name;   /* of the device, "soft0", "mlx5_0" */
	const char *tier;   /* "T0" to "T3" of docs/hardware.md; "" in software */
	unsigned numa_node; /* where it is, plus 1; 0: nobody knows */
	uint32_t depth_max;
	uint32_t mtu;               /* in bytes */
	uint32_t length_max;        /* bytes that one request moves */
	uint32_t max_rd_atomic;     /* READs and atomics outstanding per QP */
	uint64_t first;             /* index that queues begin with; 0 but in tests of wraps */
	bool reads_rings;           /* queues may have a ring */
	bool owns_rings;            /* ... which is its own: attributes say has_own_ring */
	bool reaches_all;           /* ORI_HCA_ANY_MEMORY of all addresses is one registration */
	bool reaches_gpu;           /* ... which has memory of GPUs, known like any other */
	bool takes_posts;           /* queues may have none: post() and poll() */
	bool has_wait;              /* the companion QP may WAIT on a CQ */
	bool is_atomic_host_endian; /* results of 8-byte atomics */
	bool is_software;           /* for development and tests */
	bool is_sink;               /* completes work requests and moves nothing */
	bool writes_late;           /* what it writes may be seen after the atomics behind it */
};

struct ori_gpu;
struct ori_hca;
struct ori_hca_mr;
struct ori_hca_cq;
struct ori_hca_qp;

/* Keys are as the device sees them, not byte-swapped. */
struct ori_hca_keys {
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * @ring holds @depth CQEs of 64 bytes, a power of two, 64-byte aligned; entry
 * i takes CQE i. The adapter marks all of them invalid before it returns. Without
 * a ring there is room for @depth completions, any number, which poll() takes, and
 * the rest of this is not set: more than that are an overrun.
 */
struct ori_hca_cq_attr {
	void *ring;
	uint32_t depth;
	uint64_t first; /* index of the first CQE; 0 but in tests of wraps */
	/*
	 * Every CQE goes to the first place (cc): the owner bit says nothing then,
	 * and an error CQE is overwritten by those of what it flushes.
	 */
	bool is_collapsed;
	/*
	 * Doorbell record: word 0 holds, big-endian, the low 24 bits of the index of
	 * the first CQE not taken yet, and more than @depth beyond it are an overrun,
	 * which ends the QPs. NULL: nobody counts (oi).
	 */
	const uint32_t *record;
	/* In place of @ring, one of the adapter's: nobody counts, and first is 0. */
	bool has_own_ring;
	bool is_for_gpu; /* which is of kernels: the GPU of use_gpu() reaches it */
};

/*
 * @ring holds @depth WQE basic blocks of 64 bytes, a power of two. @record is
 * the doorbell record {receive, send}, which says @first; @doorbell an 8-byte slot of
 * doorbell_page(). All of it stays until the QP is destroyed. Without a ring the QP
 * takes up to @depth requests by post(), and neither record nor doorbell nor first
 * are set.
 */
struct ori_hca_qp_attr {
	void *ring;
	uint32_t depth;
	uint32_t *record;
	uint64_t *doorbell;
	struct ori_hca_cq *send_cq;
	bool is_companion; /* may WAIT on CQs of this adapter (cd_master) */
	uint64_t first;    /* index of the first WQE; 0 but in tests of wraps */
	/* post_receives() keeps up to so many; 0: a WRITE_IMM never finds one here */
	uint32_t receives;
	struct ori_hca_cq *receive_cq; /* without a ring; it may be send_cq */
	/* In place of @ring, @record and @doorbell those of the adapter, which place() tells. */
	bool has_own_ring;
	bool is_for_gpu; /* they are of kernels, and send_cq is, too */
};

/*
 * Where the parts of a queue lie, for who posts to it and polls: kernels if it
 * is_for_gpu, else threads of this process. All of it goes with the QP, but the CQEs
 * with the CQ.
 */
struct ori_hca_queue_memory {
	char *sq;
	char *cq;
	uint32_t *record;
	uint64_t *doorbell;
	uint32_t *asleep; /* see struct oriel_mlx5_queue; NULL if nobody has to look there */
};

enum ori_hca_opcode {
	ORI_HCA_WRITE,
	ORI_HCA_WRITE_IMM, /* and take a receive of the peer, which gets @immediate */
	ORI_HCA_READ,
	ORI_HCA_FETCH_ADD, /* of 8 bytes; the old ones come to @local */
	ORI_HCA_CAS,
};

#define ORI_HCA_INLINE_MAX 28u /* bytes of data that fit inside a request of any adapter */

/* May be combined. */
enum ori_hca_wr_flags {
	ORI_HCA_SIGNALED = 1, /* tells when it is done; all others only if they fail */
	ORI_HCA_FENCE = 2,    /* starts when READs and atomics before it are done */
};

/* A request that is posted by a call. */
struct ori_hca_wr {
	uint64_t id;
	uint64_t local, remote;
	/*
	 * NULL, or of a WRITE what lies at @local, as a CPU reaches it: as much as fits
	 * inside the request goes there when it is posted, so that the adapter has no source
	 * to look for. ORI_HCA_INLINE_MAX bytes do always, and need neither @local nor @lkey.
	 */
	const void *data;
	uint32_t lkey, rkey;
	uint32_t length;
	uint32_t immediate;
	uint64_t operand; /* of atomics: what is added, or stored */
	uint64_t compare; /* ... if this is there */
	uint8_t opcode;   /* enum ori_hca_opcode */
	uint8_t flags;    /* enum ori_hca_wr_flags */
};

/* Its end, or that of a receive. Of one that failed, id, qpn and how are all that is known. */
struct ori_hca_wc {
	uint64_t id; /* 0 of a receive */
	enum oriel_status status;
	uint8_t syndrome; /* enum oriel_mlx5_syndrome, or what is nearest; 0 if well */
	uint8_t opcode;   /* enum ori_hca_opcode */
	bool is_receive;
	uint32_t vendor;
	uint32_t qpn;
	uint32_t length;    /* of what was received */
	uint32_t immediate; /* ... with it */
};

/* What the other end needs to know of a QP. Goes over the wire as it is. */
struct ori_hca_qp_address {
	uint8_t adapter[ORI_HCA_ADDRESS];
	uint32_t version; /* ORI_HCA_ADDRESS_VERSION */
	uint32_t qpn;
	uint32_t psn;
	uint32_t mtu;
	uint32_t max_rd_atomic;
	uint32_t reserved[11];
};

#define ORI_HCA_ADDRESS_VERSION 1u

static_assert(sizeof(struct ori_hca_qp_address) == 128, "goes over the wire");

/* Something that happened outside any ring. */
struct ori_hca_event {
	enum oriel_status status;
	uint32_t qpn;     /* 0 if it is about the adapter */
	uint8_t syndrome; /* of the CQE, 0 if none */
	uint8_t vendor;   /* vendor syndrome */
	char text[120];
};

/*
 * Calls may come from any thread; none blocks for long but destroy_qp() and
 * close(), which wait until nothing of theirs is executed any more. Outputs are
 * written on success only.
 */
struct ori_hca_ops {
	const char *kind;

	/*
	 * The adapter for @rail, which numbers those that one rank drives. @config is
	 * text of the user (ORIEL_SOFT_HCA); NULL or "" = defaults.
	 */
	enum oriel_status (*open)(const char *config, unsigned rail, struct ori_hca **hca);
	/* All objects are gone already. NULL is allowed. */
	void (*close)(struct ori_hca *hca);

	void (*caps)(const struct ori_hca *hca, struct ori_hca_caps *caps);

	/*
	 * From now on memory may be of @gpu, which stays until close(); but for rings
	 * and records. Once, before anything is registered.
	 */
	enum oriel_status (*use_gpu)(struct ori_hca *hca, const struct ori_gpu *gpu);

	/*
	 * From now on addresses lead here also from other hosts and network namespaces:
	 * describe() and create_qp() for a peer there come later. Twice is fine.
	 */
	enum oriel_status (*listen)(struct ori_hca *hca);

	/* What the addresses of all QPs of @hca have in common; qpn and psn are 0. */
	void (*describe)(const struct ori_hca *hca, struct ori_hca_qp_address *address);

	/* [@address, @address + @length) is known to the wire as [@iova, ...). */
	enum oriel_status (*register_memory)(struct ori_hca *hca, void *address, size_t length,
					     uint64_t iova, unsigned access, struct ori_hca_mr **mr,
					     struct ori_hca_keys *keys);
	/* The same for what a dma-buf holds from @offset on: of a GPU, say. @fd stays the caller's.
	 */
	enum oriel_status (*register_dmabuf)(struct ori_hca *hca, int fd, uint64_t offset,
					     size_t length, uint64_t iova, unsigned access,
					     struct ori_hca_mr **mr, struct ori_hca_keys *keys);
	void (*unregister_memory)(struct ori_hca_mr *mr);

	enum oriel_status (*create_cq)(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				       struct ori_hca_cq **cq, uint32_t *cqn);
	void (*destroy_cq)(struct ori_hca_cq *cq); /* its QPs are gone */

	enum oriel_status (*create_qp)(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				       struct ori_hca_qp **qp, struct ori_hca_qp_address *address);
	/*
	 * Join @qp to the QP at @peer (which may be of this adapter) and make it
	 * ready to post. The peer connects its own end; what arrives before that
	 * is answered as if it had been lost.
	 */
	enum oriel_status (*connect_qp)(struct ori_hca_qp *qp,
					const struct ori_hca_qp_address *peer);
	/*
	 * Flush: every WQE posted and not done gets an error CQE, and no memory is
	 * read or written for it after that. Twice is fine.
	 */
	void (*fail_qp)(struct ori_hca_qp *qp);
	void (*destroy_qp)(struct ori_hca_qp *qp);

	/*
	 * Post @count requests to a QP without a ring as one chain, done by the peer in
	 * their order. *@posted is set in any case: to how many were. ORIEL_AGAIN: the
	 * rest when poll() has told of the ends of others; a signaled one tells of
	 * those before it on its QP as well. One thread at a time for each QP.
	 */
	enum oriel_status (*post)(struct ori_hca_qp *qp, const struct ori_hca_wr *wrs,
				  unsigned count, unsigned *posted);
	/*
	 * @count more receives without a buffer, for WRITE_IMMs; before connect_qp()
	 * too, so that none comes too early. ORIEL_ERR_RANGE: more than it keeps.
	 */
	enum oriel_status (*post_receives)(struct ori_hca_qp *qp, unsigned count);
	/*
	 * Take up to @room ends from a CQ without a ring, those of a QP in the order of
	 * its requests; *@count may be 0. A failure means the CQ: it was overrun. One
	 * thread at a time for each CQ.
	 */
	enum oriel_status (*poll)(struct ori_hca_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				  unsigned *count);

	/* Of a QP that has_own_ring; only of adapters that own rings. */
	void (*place)(const struct ori_hca_qp *qp, struct ori_hca_queue_memory *place);

	/* 4096 bytes of doorbell slots, 8 bytes each from 0x800 on. Freed by close. */
	enum oriel_status (*doorbell_page)(struct ori_hca *hca, void **page);

	/* Look once for an event; ORIEL_AGAIN if there is none. */
	enum oriel_status (*poll_event)(struct ori_hca *hca, struct ori_hca_event *event);
};

/*
 * Whole pages of @gpu, by whatever its driver and that of the adapter agree on. Not
 * for who reaches_all: there memory is registered as any other.
 */
enum oriel_status ori_hca_register_gpu(const struct ori_hca_ops *ops, struct ori_hca *hca,
				       const struct ori_gpu *gpu, char *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				       struct ori_hca_keys *keys);

extern const struct ori_hca_ops ori_hca_soft_ops;

/* Adapters of this machine; NULL if the library was built without infiniband/verbs.h. */
const struct ori_hca_ops *ori_hca_verbs(void);
/* Ports that rails of its open() with @config may be; 0: none, no library, or no such text. */
unsigned ori_hca_verbs_ports(const char *config);

/* Those of them that are ConnectX; NULL without infiniband/mlx5dv.h. See hca/mlx5.h. */
const struct ori_hca_ops *ori_hca_mlx5(void);

/*
 * Of both, the one for what @config, text for their open(), means with @gpu, or NULL
 * for none: mlx5 where rings can be posted to, so that a setting that asks for more
 * than there is fails at open(). NULL: the library was built with neither.
 */
const struct ori_hca_ops *ori_hca_choose(const char *config, const struct ori_gpu *gpu);

#endif
