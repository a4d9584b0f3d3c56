/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firmware commands that create and connect mlx5 queues, in host
 * terms, and their bytes: encoders of commands, decoders of answers.
 * mlx5_command.c, mlx5_connect.c and mlx5_queue.c call them.
 */
#ifndef ORI_HCA_MLX5_PRM_H
#define ORI_HCA_MLX5_PRM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

enum ori_prm_opcode {
	ORI_PRM_QUERY_HCA_CAP = 0x100,
	ORI_PRM_CREATE_CQ = 0x400,
	ORI_PRM_DESTROY_CQ = 0x401,
	ORI_PRM_QUERY_CQ = 0x402,
	ORI_PRM_CREATE_QP = 0x500,
	ORI_PRM_DESTROY_QP = 0x501,
	ORI_PRM_RST2INIT_QP = 0x502,
	ORI_PRM_INIT2RTR_QP = 0x503,
	ORI_PRM_RTR2RTS_QP = 0x504,
	ORI_PRM_2ERR_QP = 0x507,
	ORI_PRM_2RST_QP = 0x50a,
	ORI_PRM_QUERY_QP = 0x50b,
	ORI_PRM_QUERY_LAG = 0x842,
};

/* Bytes of a command or of its answer; callers pass exactly these. */
#define ORI_PRM_COMMAND_LENGTH 0x10u         /* query, destroy, 2ERR, 2RST */
#define ORI_PRM_CREATE_LENGTH 0x110u         /* create_cq, create_qp */
#define ORI_PRM_MODIFY_LENGTH 0x110u         /* rst2init, init2rtr, rtr2rts */
#define ORI_PRM_REPLY_LENGTH 0x10u           /* of all but the queries */
#define ORI_PRM_QUERY_LENGTH 0x110u          /* answers of query_cq, query_qp */
#define ORI_PRM_QUERY_HCA_CAP_LENGTH 0x1010u /* answer of query_hca_cap */

/* A ring of CQEs of 64 bytes, without compression. */
struct ori_prm_cq {
	uint32_t depth;         /* CQEs, a power of two */
	bool is_collapsed;      /* every CQE is written to entry 0 */
	bool ignores_overrun;   /* the device does not read the consumer index */
	uint32_t uar_page;      /* any valid one */
	uint32_t eqn;           /* event queue */
	uint32_t page_length;   /* of the umem as the device sees it: a power of two, >= 4096 */
	uint32_t umem;          /* umem of the ring */
	uint64_t umem_offset;   /* in bytes */
	uint32_t record_umem;   /* umem of the doorbell record */
	uint64_t record_offset; /* in bytes */
};

enum ori_prm_timestamps {
	ORI_PRM_TIMESTAMPS_FREE_RUNNING, /* the device has no choice */
	ORI_PRM_TIMESTAMPS_DEFAULT,
	ORI_PRM_TIMESTAMPS_REAL_TIME,
};

/* An RC QP that has no receive queue and never scatters to CQEs. */
struct ori_prm_qp {
	uint32_t pd;
	uint32_t depth; /* 64-byte blocks of the send queue, a power of two, <= 32768 */
	uint32_t uar_page;
	uint32_t user_index; /* shows up in its CQEs */
	uint32_t page_length;
	uint32_t send_cqn;
	uint32_t receive_cqn; /* must exist; may be the send CQ */
	enum ori_prm_timestamps timestamps;
	bool is_companion; /* may WAIT on CQs (cd_master) */
	uint32_t umem;
	uint64_t umem_offset;
	uint32_t record_umem;
	uint64_t record_offset;
};

enum ori_prm_atomic_mode {
	ORI_PRM_ATOMIC_NONE = 0,
	ORI_PRM_ATOMIC_IB = 1,      /* 8 bytes, as InfiniBand has them */
	ORI_PRM_ATOMIC_UP_TO_8 = 3, /* extended: masked, and 4 or 8 bytes */
};

/* RST2INIT: the peer's permissions. */
struct ori_prm_init {
	uint32_t qpn;
	uint32_t port; /* from 1 */
	uint32_t pkey_index;
	bool allows_read;
	bool allows_write;
	bool allows_atomic;
	enum ori_prm_atomic_mode atomic_mode;
	uint32_t counter_set; /* 0: none */
	uint32_t user_index;
};

/* The route to the peer. Fields of the other link layer must be 0. */
struct ori_prm_path {
	uint32_t port;
	bool is_ethernet;
	uint32_t service_level; /* on Ethernet the priority, <= 7 */
	uint32_t traffic_class; /* on Ethernet its upper six bits are the DSCP */

	/* The global route: on InfiniBand only if has_grh. */
	uint8_t gid[16];
	uint32_t gid_index; /* of the local GID */
	uint32_t hop_limit;
	uint32_t flow_label;

	/* InfiniBand only; 0 is no LID of a peer. */
	uint32_t lid;
	uint32_t pkey_index;
	bool has_grh; /* the peer is behind a router, or its port demands it */

	/* RoCE v2 only. */
	uint8_t mac[6];
	uint32_t udp_source_port; /* entropy for ECMP, 0xc000 and up */
};

/* INIT2RTR: the peer to receive from. */
struct ori_prm_rtr {
	uint32_t qpn;
	uint32_t mtu; /* in bytes, ori_prm_path_mtu() of both ends */
	uint32_t remote_qpn;
	uint32_t receive_psn;
	uint32_t max_rd_atomic; /* the peer may have outstanding, a power of two */
	uint32_t min_rnr_timer; /* 0..31 */
	struct ori_prm_path path;
};

/* RTR2RTS: how to send. */
struct ori_prm_rts {
	uint32_t qpn;
	uint32_t send_psn;
	uint32_t max_rd_atomic; /* outstanding here, a power of two */
	uint32_t retry_count;   /* 0..7 */
	uint32_t rnr_retry;     /* 0..7, 7 is for ever */
	uint32_t ack_timeout;   /* 4.096 us << ack_timeout */
};

/* A command whose only parameter is an object: query, destroy, 2ERR, 2RST. */
struct ori_prm_object {
	enum ori_prm_opcode opcode;
	uint32_t number; /* QPN or CQN; 0 for query_lag, which concerns the device */
};

enum ori_prm_caps_type {
	ORI_PRM_CAPS_GENERAL = 0,
	ORI_PRM_CAPS_PAGING = 2,
	ORI_PRM_CAPS_ATOMIC = 3,
};

/* QUERY_HCA_CAP: the capabilities as they are set now. */
struct ori_prm_query_caps {
	enum ori_prm_caps_type type;
};

struct ori_prm_reply {
	uint32_t status; /* 0 is success */
	uint32_t syndrome;
	uint32_t number; /* of the created object */
};

/* Bits of the number in the answer to query_lag; 0: no ports are joined. */
#define ORI_PRM_LAG_STATE 0x7u

enum ori_prm_qp_status {
	ORI_PRM_QP_RST,
	ORI_PRM_QP_INIT,
	ORI_PRM_QP_RTR,
	ORI_PRM_QP_RTS,
	ORI_PRM_QP_SQ_ERROR,
	ORI_PRM_QP_SQ_DRAINED,
	ORI_PRM_QP_ERROR,
};

/* The answer to QUERY_QP. */
struct ori_prm_qp_state {
	enum ori_prm_qp_status status;
	uint32_t executed; /* blocks the device has taken, modulo 2^16 */
	uint32_t posted;   /* blocks up to the last doorbell, modulo 2^16 */
	/* Data is placed 0: as IBTA says, 1: READs and WRITEs in any order, 2: all of it. */
	uint32_t ordering;
	bool is_order_forced; /* ... whatever the device does by default */
};

struct ori_prm_caps {
	uint32_t qp_depth_max;
	uint32_t cq_depth_max;
	uint32_t cqe_version; /* the library needs 1 */
	bool can_ignore_overrun;
	bool can_wait;      /* cross-channel: WAIT works */
	bool has_uar_4k;    /* UAR pages of 4096 bytes */
	uint32_t bf_length; /* of a BlueFlame register */
	uint32_t uar_page_length;
};

/* On-demand paging. */
struct ori_prm_paging_caps {
	bool has_memory_faults; /* faults name memory, not a queue that must be the kernel's */
};

/* Masks have bit 0 = compare-swap, 1 = fetch-add, 2 and 3 = the same masked. */
struct ori_prm_atomic_caps {
	uint32_t endianness_mode; /* 0: results of 8 bytes are big-endian, else as the host */
	uint32_t operations;      /* mask */
	uint32_t sizes_qp;        /* sum of the sizes in bytes, 4 and 8 */
	uint32_t sizes_dc;
	uint32_t pci_fetch_add; /* sum of sizes in 4 bytes */
	uint32_t pci_swap;
	uint32_t pci_compare_swap;
};

/*
 * Encoders write all @length bytes, or none on failure: ORIEL_ERR_RANGE for a
 * value beyond its field, ORIEL_ERR_INVALID for an invalid one (a depth that is
 * no power of two, a length that is not the command's).
 *
 * Decoders ignore unknown bits; an answer to a query whose status is not 0 is
 * ORIEL_ERR_SYSTEM.
 */
enum oriel_status ori_prm_encode_create_cq(const struct ori_prm_cq *cq, void *in, size_t length);
enum oriel_status ori_prm_encode_create_qp(const struct ori_prm_qp *qp, void *in, size_t length);
enum oriel_status ori_prm_encode_rst2init(const struct ori_prm_init *init, void *in, size_t length);
enum oriel_status ori_prm_encode_init2rtr(const struct ori_prm_rtr *rtr, void *in, size_t length);
enum oriel_status ori_prm_encode_rtr2rts(const struct ori_prm_rts *rts, void *in, size_t length);
enum oriel_status ori_prm_encode_object(const struct ori_prm_object *object, void *in,
					size_t length);
enum oriel_status ori_prm_encode_query_caps(const struct ori_prm_query_caps *query, void *in,
					    size_t length);
enum oriel_status ori_prm_decode_reply(const void *out, size_t length, struct ori_prm_reply *reply);
enum oriel_status ori_prm_decode_qp_state(const void *out, size_t length,
					  struct ori_prm_qp_state *state);
enum oriel_status ori_prm_decode_caps(const void *out, size_t length, struct ori_prm_caps *caps);
enum oriel_status ori_prm_decode_paging_caps(const void *out, size_t length,
					     struct ori_prm_paging_caps *caps);
enum oriel_status ori_prm_decode_atomic_caps(const void *out, size_t length,
					     struct ori_prm_atomic_caps *caps);

/*
 * The MTU that both sides must use: the smaller of their ports', in bytes (256,
 * 512, 1024, 2048 or 4096). Unequal MTUs lose every full packet silently.
 */
enum oriel_status ori_prm_path_mtu(uint32_t local, uint32_t remote, uint32_t *mtu);

#endif
