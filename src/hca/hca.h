/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA HCA behind tables: real (verbs, mlx5) or in software (soft). Its
 * caller is src/rdma; p2p uses only the address type and a kind. It knows neither ranks nor peers;
 * addresses are bytes. Queues either are mlx5 rings, in memory of the caller or
 * of the HCA, to which oriel/dev/detail/mlx5.h posts, or they have no visible ring and
 * the caller posts by calls. Each of the two kinds has a table for what it alone
 * needs: ori_hca_rings, ori_hca_calls.
 */
#ifndef ORI_HCA_HCA_H
#define ORI_HCA_HCA_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#define ORI_HCA_ADDRESS 64u /* bytes of the address of an HCA */

/* May be combined; a local buffer of a WRITE needs none of them. */
enum ori_hca_access {
	ORI_HCA_LOCAL_WRITE = 1, /* results of READs and atomics land here */
	ORI_HCA_REMOTE_WRITE = 2,
	ORI_HCA_REMOTE_READ = 4,
	ORI_HCA_REMOTE_ATOMIC = 8,
	ORI_HCA_RELAXED_ORDERING = 16, /* payload only, never signals */
	ORI_HCA_ANY_MEMORY = 32,       /* not one buffer: memory there may be the GPU's or not */
};

struct ori_hca_rings;

/* Do requests of one QP reach the peer in the order of posting? */
enum ori_hca_order {
	ORI_HCA_ORDER_UNKNOWN,   /* as any RC network was built to do */
	ORI_HCA_ORDERED,         /* the NIC says so */
	ORI_HCA_REORDERED,       /* the NIC says that they may not */
	ORI_HCA_ORDER_MULTIPATH, /* unknown, and there are several paths */
};

struct ori_hca_caps {
	const char *kind;   /* "soft", "verbs", "mlx5" */
	const char *name;   /* of the device, "soft0", "mlx5_0" */
	const char *tier;   /* "T0" to "T3" of docs/hardware.md; "" for the software HCA */
	const char *port;   /* "RoCE, GID 3"; NULL for the software HCA */
	unsigned numa_node; /* its NUMA node plus 1; 0: unknown */
	uint32_t depth_max;
	uint32_t mtu;                      /* in bytes */
	uint32_t length_max;               /* bytes that one request may move */
	uint32_t max_rd_atomic;            /* READs and atomics outstanding per QP */
	uint64_t first;                    /* first index of a queue; 0 except in tests of wraps */
	const struct ori_hca_rings *rings; /* NULL: no queue may have a ring */
	bool reaches_all;           /* ORI_HCA_ANY_MEMORY of all addresses is one registration */
	bool reaches_gpu;           /* ... and covers memory of GPUs, with no difference */
	bool has_wait;              /* the companion QP may WAIT on a CQ */
	bool is_atomic_host_endian; /* for results of 8-byte atomics */
	bool has_masked;  /* rings may post masked additions of 8 bytes, and it executes them */
	bool is_software; /* for development and tests */
	bool is_sink;     /* completes work requests and moves nothing */
	bool writes_late; /* its writes may be seen after the atomics that follow them */
	enum ori_hca_order order; /* of what it sends */
};

struct ori_gpu;
struct ori_hca;
struct ori_hca_mr;
struct ori_hca_cq;
struct ori_hca_qp;

/* Keys as the device sees them, not byte-swapped. */
struct ori_hca_keys {
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * @ring holds @depth CQEs of 64 bytes, a power of two, 64-byte aligned; entry i
 * takes CQE i. The HCA marks all of them invalid before create_cq() returns.
 * Without a ring the CQ has room for @depth completions, any number, which
 * poll() takes; one more is an overrun. The rest of this struct is not set
 * then.
 */
struct ori_hca_cq_attr {
	void *ring;
	uint32_t depth;
	uint64_t first; /* index of the first CQE; 0 except in tests of wraps */
	/*
	 * Every CQE goes to the first slot (cc): the owner bit then says
	 * nothing, and the CQEs of flushed WQEs overwrite the error CQE that
	 * explains them.
	 */
	bool is_collapsed;
	/*
	 * Doorbell record: word 0 holds, big-endian, the low 24 bits of the
	 * index of the first CQE not yet polled. The queue is overrun by more
	 * than @depth CQEs beyond it, and an overrun ends the QPs. NULL: the
	 * HCA does not count (oi).
	 */
	const uint32_t *record;
	/* In place of @ring, a ring of the HCA: it does not count, and first is 0. */
	bool has_own_ring;
	bool is_for_gpu; /* kernels use it: the GPU of use_gpu() reaches it */
};

/*
 * @ring holds @depth WQE basic blocks of 64 bytes, a power of two. @record is
 * the doorbell record {receive, send}, which holds @first; @doorbell is an
 * 8-byte slot of a doorbell page. All of it stays until the QP is destroyed.
 * Without a ring the QP takes up to @depth requests by post(); record, doorbell
 * and first are not set then.
 */
struct ori_hca_qp_attr {
	void *ring;
	uint32_t depth;
	uint32_t *record;
	uint64_t *doorbell;
	struct ori_hca_cq *send_cq;
	bool is_companion; /* may WAIT on CQs of this HCA (cd_master) */
	uint64_t first;    /* index of the first WQE; 0 except in tests of wraps */
	/* receives that post_receives() can post; 0: a WRITE_IMM always finds none */
	uint32_t receives;
	struct ori_hca_cq *receive_cq; /* of a QP without a ring; may be send_cq */
	/* In place of @ring, @record and @doorbell those of the HCA, which place() returns. */
	bool has_own_ring;
	bool is_for_gpu; /* kernels use them, and send_cq too */
};

/*
 * Addresses of the parts of a queue, for the code that posts and polls: kernels
 * if it is_for_gpu, else threads of this process. They are valid until the QP
 * is destroyed, those of CQEs until the CQ is.
 */
struct ori_hca_queue_memory {
	char *sq;
	char *cq;
	uint32_t *record;
	uint64_t *doorbell;
	uint32_t *asleep; /* see struct ori_dev_mlx5_queue; NULL if the poster need not wake the HCA
			   */
};

enum ori_hca_opcode {
	ORI_HCA_WRITE,
	ORI_HCA_WRITE_IMM, /* and consume a receive of the peer, which gets @immediate */
	ORI_HCA_READ,
	ORI_HCA_FETCH_ADD, /* of 8 bytes; the old value arrives at @local */
	ORI_HCA_CAS,
};

#define ORI_HCA_INLINE_MAX 28u /* bytes of data that fit inside a request of every HCA */

/* May be combined. */
enum ori_hca_wr_flags {
	ORI_HCA_SIGNALED = 1, /* completes visibly; other requests only if they fail */
	ORI_HCA_FENCE = 2,    /* starts after the completion of earlier READs and atomics */
};

/* A request that is posted by a call. */
struct ori_hca_wr {
	uint64_t id;
	uint64_t local, remote;
	/*
	 * NULL, or for a WRITE or WRITE_IMM the bytes of @local as a CPU reaches them. The
	 * HCA copies them into the request at post if they fit, so it has no
	 * source to look up. ORI_HCA_INLINE_MAX bytes always fit, and need
	 * neither @local nor @lkey.
	 */
	const void *data;
	uint32_t lkey, rkey;
	uint32_t length;
	uint32_t immediate;
	uint64_t operand; /* of atomics: the addend, or the new value */
	uint64_t compare; /* ... the value that a compare-swap expects */
	uint8_t opcode;   /* enum ori_hca_opcode */
	uint8_t flags;    /* enum ori_hca_wr_flags */
};

/* Completion of a request, or of a receive. If it failed, only id, qpn and how are set. */
struct ori_hca_wc {
	uint64_t id; /* 0 for a receive */
	enum oriel_status status;
	uint8_t syndrome; /* enum ori_dev_queue_syndrome; 0 on success */
	uint8_t opcode;   /* enum ori_hca_opcode */
	bool is_receive;
	uint32_t vendor;
	uint32_t qpn;
	uint32_t length;    /* of the received message */
	uint32_t immediate; /* ... and its immediate */
};

enum ori_hca_address_flags {
	ORI_HCA_ADDRESS_MASKED = 1, /* has_masked of its caps */
};

/* The address of a QP, which its peer needs to connect. Goes over the wire as it is. */
struct ori_hca_qp_address {
	uint8_t hca_address[ORI_HCA_ADDRESS];
	uint32_t version; /* ORI_HCA_ADDRESS_VERSION */
	uint32_t qpn;
	uint32_t psn;
	uint32_t mtu;
	uint32_t max_rd_atomic;
	uint32_t flags; /* enum ori_hca_address_flags */
	uint32_t reserved[10];
};

#define ORI_HCA_ADDRESS_VERSION 1u

static_assert(sizeof(struct ori_hca_qp_address) == 128, "goes over the wire");

/* A notification from outside any ring. */
struct ori_hca_event {
	enum oriel_status status;
	uint32_t qpn;     /* 0 if it is about the HCA */
	uint8_t syndrome; /* of the CQE, 0 if none */
	uint8_t vendor;   /* vendor syndrome */
	char text[120];
};

/* Operations of queues with rings. The owner of their memory decides which of the two is NULL. */
struct ori_hca_rings {
	/*
	 * The caller owns it. 4096 bytes of doorbell slots, 8 bytes each from
	 * 0x800 on, which close() frees.
	 */
	enum oriel_status (*doorbell_page)(struct ori_hca *hca, void **page);
	/* The HCA owns it. For a QP that has_own_ring: where the parts are. */
	void (*place)(const struct ori_hca_qp *qp, struct ori_hca_queue_memory *place);
};

/* Operations of queues without rings; every HCA has such queues. */
struct ori_hca_calls {
	/*
	 * Post @count requests to a QP without a ring as one chain, which the
	 * peer executes in order. *@posted is always set: to the number of
	 * requests posted. ORIEL_AGAIN: the caller posts the rest after poll()
	 * has returned completions; a signaled one also completes all requests
	 * before it on its QP. One thread at a time for each QP.
	 */
	enum oriel_status (*post)(struct ori_hca_qp *qp, const struct ori_hca_wr *wrs,
				  unsigned count, unsigned *posted);
	/*
	 * Post @count more receives without a buffer, for WRITE_IMMs; also
	 * before connect_qp(), so that no immediate arrives before its receive.
	 * ORIEL_ERR_RANGE: more than the QP has room for.
	 */
	enum oriel_status (*post_receives)(struct ori_hca_qp *qp, unsigned count);
	/*
	 * Take up to @room completions from a CQ without a ring, in the order
	 * of requests for each QP; *@count may be 0. A failure concerns the CQ:
	 * it was overrun. One thread at a time for each CQ.
	 */
	enum oriel_status (*poll)(struct ori_hca_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				  unsigned *count);
};

/*
 * Operations of HCAs, and of queues of both kinds. Calls of all tables may come
 * from any thread; none blocks for long but destroy_qp() and close(), which
 * wait until the HCA executes none of their work any more. Outputs are written
 * on success only.
 */
struct ori_hca_ops {
	const char *kind;
	const struct ori_hca_calls *calls;

	/*
	 * Open the HCA for @rail, which numbers the HCAs that one rank drives.
	 * @config is the user's text (ORIEL_SOFT_HCA); NULL or "" = defaults.
	 */
	enum oriel_status (*open)(const char *config, unsigned rail, struct ori_hca **hca);
	/* The caller has destroyed all objects. NULL is allowed. */
	void (*close)(struct ori_hca *hca);

	void (*caps)(const struct ori_hca *hca, struct ori_hca_caps *caps);

	/*
	 * From now on registered memory may be of @gpu, which stays until
	 * close(); rings and records may not. Called once, before any
	 * registration.
	 */
	enum oriel_status (*use_gpu)(struct ori_hca *hca, const struct ori_gpu *gpu);

	/*
	 * From now on addresses are reachable also from other hosts and network
	 * namespaces. The caller runs describe() and create_qp() for such a
	 * peer afterwards. Twice is fine.
	 */
	enum oriel_status (*listen)(struct ori_hca *hca);

	/* The part that the addresses of all QPs of @hca have in common; qpn and psn are 0. */
	void (*describe)(const struct ori_hca *hca, struct ori_hca_qp_address *address);

	/* The peers address [@address, @address + @length) as [@iova, ...). */
	enum oriel_status (*register_memory)(struct ori_hca *hca, void *address, size_t length,
					     uint64_t iova, unsigned access, struct ori_hca_mr **mr,
					     struct ori_hca_keys *keys);
	/*
	 * The same for the bytes of a dma-buf from @offset on: memory of a GPU,
	 * say. @fd stays the caller's.
	 */
	enum oriel_status (*register_dmabuf)(struct ori_hca *hca, int fd, uint64_t offset,
					     size_t length, uint64_t iova, unsigned access,
					     struct ori_hca_mr **mr, struct ori_hca_keys *keys);
	void (*unregister_memory)(struct ori_hca_mr *mr);

	enum oriel_status (*create_cq)(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				       struct ori_hca_cq **cq, uint32_t *cqn);
	void (*destroy_cq)(struct ori_hca_cq *cq); /* its QPs are destroyed already */

	enum oriel_status (*create_qp)(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				       struct ori_hca_qp **qp, struct ori_hca_qp_address *address);
	/*
	 * Join @qp to the QP at @peer (which may be of this HCA) and make it
	 * ready to post. The peer connects its own side; until then requests to
	 * it count as lost.
	 */
	enum oriel_status (*connect_qp)(struct ori_hca_qp *qp,
					const struct ori_hca_qp_address *peer);
	/*
	 * Flush: every WQE posted and not complete gets an error CQE, and the
	 * HCA reads and writes no memory for it after that. Twice is fine.
	 */
	void (*fail_qp)(struct ori_hca_qp *qp);
	void (*destroy_qp)(struct ori_hca_qp *qp);

	/* Poll once for an event; ORIEL_AGAIN if there is none. */
	enum oriel_status (*poll_event)(struct ori_hca *hca, struct ori_hca_event *event);
};

/*
 * Register whole pages of @gpu, by the method that its driver and the HCA's
 * driver both support. Not for an HCA that reaches_all: it takes such memory
 * like any other.
 */
enum oriel_status ori_hca_register_gpu(const struct ori_hca_ops *ops, struct ori_hca *hca,
				       const struct ori_gpu *gpu, char *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				       struct ori_hca_keys *keys);

extern const struct ori_hca_ops ori_hca_soft_ops;

/* HCAs of this machine; NULL if the library was built without infiniband/verbs.h. */
const struct ori_hca_ops *ori_hca_verbs(void);
/*
 * Number of ports that rails of its open() with @config may use. 0: no port, no
 * library, or @config is invalid.
 */
unsigned ori_hca_verbs_ports(const char *config);
/* Writes why fewer than @rails ports may be used, in the words of `oriel doctor`. */
void ori_hca_verbs_lack(unsigned rails, char *why, size_t length);

/* The ConnectX HCAs among them; NULL without infiniband/mlx5dv.h. See hca/mlx5/mlx5.h. */
const struct ori_hca_ops *ori_hca_mlx5(void);

/*
 * The table of the two that @config, text for their open(), selects with @gpu
 * (or NULL): mlx5 if its rings can be posted to, so a setting that demands more
 * than the machine has fails at open(). NULL: the library was built with
 * neither. @why gets the reasons against each tier that is better, "" if there is none.
 */
const struct ori_hca_ops *ori_hca_choose(const char *config, const struct ori_gpu *gpu, char *why,
					 size_t length);

#endif
