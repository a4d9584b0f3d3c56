/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the software HCA. An engine drives the nodes (HCAs) of a
 * process, a node has keys, completion queues and QPs. The lock of the engine
 * guards everything here; rings, records, doorbells and registered memory are
 * shared with posters and only accessed through oriel/dev/detail/order.h.
 *
 * Indices of WQEs and CQEs are 64-bit and never wrap:
 *   retired <= fetch <= end <= retired + depth
 * where [retired, fetch) are the flights of a QP.
 */
#ifndef ORI_HCA_SOFT_OBJECTS_H
#define ORI_HCA_SOFT_OBJECTS_H

#include <oriel/dev/detail/mlx5.h>
#include <pthread.h>
#include <stdatomic.h>

#include "hca/hca.h"
#include "hca/soft/soft_header.h"
#include "hca/soft/soft_rand.h"
#include "hca/soft/soft_scenario.h"
#include "hca/soft/soft_wqe.h"
#include "net/listen.h"

#define SOFT_NEVER UINT64_MAX
#define SOFT_NODES 256u     /* of an engine */
#define SOFT_TABLE_BITS 12u /* QPs, and CQs, of a node: a number is (lap, slot) */
#define SOFT_TABLE (1u << SOFT_TABLE_BITS)
#define SOFT_FLIGHTS 256u /* WQEs of a QP in flight */
#define SOFT_REPLIES 32u  /* replies that a QP has to send */
#define SOFT_REPLAYS 32u  /* results of atomics kept for repeated requests */
#define SOFT_WINDOW 2048u /* packets not yet acknowledged */
#define SOFT_RUN 64u      /* packets of one message that travel as one frame */
#define SOFT_SMALL 64u    /* bytes of payload that are copied into the frame */
#define SOFT_AHEAD 16384u /* bytes read ahead from a socket */
#define SOFT_EVENTS 64u
#define SOFT_CHUNK 256u /* bytes that relaxed ordering moves as one */
#define SOFT_LATE 32u   /* CQEs of a queue that may be late */
#define SOFT_PAGE 4096u
#define SOFT_DOORBELLS_AT 0x800u /* of the first in a doorbell page */
#define SOFT_PSN_MASK 0x00ffffffu

struct soft_link;
struct soft_remote;

/* Address of an HCA; the bytes of ori_hca_qp_address.hca_address. */
struct soft_address {
	uint32_t magic;
	uint16_t version;
	uint16_t port;    /* of TCP, 0: it does not listen over TCP */
	uint32_t node;    /* of its engine */
	uint32_t is_ipv6; /* @hosts is one address of IPv6; else up to four of IPv4 (0: none) */
	uint64_t cookie;  /* random: names the engine; a sender that knows it got it by bootstrap */
	uint64_t scope;   /* hash of boot id and network namespace */
	uint8_t socket[16]; /* name of the unix socket */
	uint32_t hosts[4];  /* network order */
};

static_assert(sizeof(struct soft_address) == ORI_HCA_ADDRESS, "goes over the wire");

/* Kinds of memory. GPU memory is remote: no CPU loads or stores reach it. */
enum soft_side {
	SOFT_LOCAL,
	SOFT_REMOTE,
	SOFT_EITHER, /* the driver has to be asked for each address */
};

struct soft_mr {
	struct soft_node *node;
	char *base;
	uint64_t iova;
	uint64_t length;
	uint32_t key;
	unsigned access;
	enum soft_side side;
};

struct soft_key {
	struct soft_mr *mr; /* NULL: unregistered, the variant is that of the last */
	uint32_t next;      /* next free slot */
	uint8_t variant;
};

struct soft_keys {
	struct soft_key *table;
	uint32_t count, capacity;
	uint32_t free, last; /* the slots unused for longest come first */
	uint32_t salt;       /* so that keys of another node are invalid at this one */
};

struct soft_late {
	struct ori_dev_mlx5_cqe cqe;
	uint64_t due;
};

struct soft_cq {
	struct soft_node *node;
	char *ring;
	uint32_t log_depth;
	uint32_t cqn;
	uint64_t next;     /* index of the next CQE */
	uint64_t error_at; /* index of the first error CQE, SOFT_NEVER if none */
	bool is_collapsed;
	uint32_t is_overrun;    /* read without the lock as well */
	const uint32_t *record; /* NULL: cannot be overrun */
	/* polled by calls: the HCA owns the ring and counts */
	bool is_called;
	uint64_t polled; /* read without the lock as well */
	uint32_t own_record;
	uint32_t late_count;
	struct soft_late late[SOFT_LATE]; /* in the order of their indices */
};

/* One write that is held back. */
struct soft_posted {
	char *target;
	uint64_t due; /* if only time holds it back */
	uint64_t length;
	char data[SOFT_CHUNK];
};

/* One WQE in flight. */
struct soft_flight {
	uint64_t index;
	uint64_t ready_at; /* local data is not read earlier */
	struct soft_wqe wqe;
	struct soft_mr *mr; /* of the local buffer, NULL if there is none */
	char *local;
	uint32_t psn;     /* of its first packet */
	uint32_t packets; /* 0: the WQE needs no wire */
	uint32_t sent;    /* packets */
	uint32_t acked;
	uint8_t syndrome; /* failed before it was sent */
	bool is_rest;     /* second block of the WQE before */
};

/* A reply that the peer is to get. */
struct soft_reply {
	uint8_t type; /* enum soft_frame_type */
	uint32_t psn;
	uint32_t packets;
	uint32_t sent;
	uint32_t rkey;
	uint32_t total;
	uint64_t address;
	uint64_t value;
};

struct soft_replay {
	uint32_t psn;
	bool is_valid;
	uint64_t value;
};

enum soft_state {
	SOFT_INIT,
	SOFT_READY,
	SOFT_ERROR,
};

struct soft_qp {
	struct soft_node *node;
	struct soft_qp *next; /* of the node */
	uint64_t number;      /* of its creation */
	uint32_t qpn;
	enum soft_state state;

	char *ring;
	uint32_t *record;
	uint64_t *doorbell;
	struct soft_cq *cq;
	uint32_t depth;
	bool is_companion;

	/* the peer */
	uint64_t peer_cookie;
	uint32_t peer_node;
	uint32_t peer_qpn;
	uint32_t reads_max;
	struct soft_link *link; /* NULL: in this process */

	/* doorbell */
	uint64_t seen;       /* last value of the doorbell */
	uint64_t recover_at; /* poll the record then; SOFT_NEVER: no doorbell is lost */
	uint64_t end;        /* WQEs below are posted */
	uint16_t rung;       /* index in the last doorbell */

	/* requester */
	uint64_t first;
	uint64_t fetch;
	uint64_t retired;
	uint64_t stall_until;
	uint64_t resume_at;  /* the peer had no receive: no packet is sent earlier */
	uint64_t not_ready;  /* consecutive times that it had none */
	struct soft_wqe wqe; /* fetched, and gated */
	bool has_wqe;
	bool is_stopped;  /* a flight has failed: the QP fetches no more WQEs */
	uint32_t reads;   /* READs and atomics in flight */
	uint64_t sending; /* flights below are sent */
	uint32_t next_psn;
	uint64_t timer; /* SOFT_NEVER: no answer is awaited */
	uint64_t tries;
	uint64_t questions; /* questions asked since connect */
	uint64_t asked;     /* number of the unanswered one, 0 if there is none */
	struct soft_flight flights[SOFT_FLIGHTS]; /* WQE i in slot i % SOFT_FLIGHTS */

	/* responder */
	uint32_t expected; /* PSN */
	bool has_ack;      /* to be sent */
	bool has_nak;
	bool is_gap;       /* a packet is missing, and a NAK has said so */
	bool is_not_ready; /* the NAK to be sent says that there is no receive */
	uint8_t refusal;   /* syndrome of the request that broke this QP, 0 if none */
	uint32_t refusal_psn;
	uint64_t answer; /* to be sent to this question, 0 if there is none */
	uint32_t replies_head, replies_count;
	struct soft_reply replies[SOFT_REPLIES];
	uint32_t replay_next;
	struct soft_replay replays[SOFT_REPLAYS];
	uint32_t strays; /* parts that were set aside: nothing is acknowledged */

	/* posted to by calls: ids is NULL if the QP is not */
	uint64_t *ids;         /* [depth] of the WQEs */
	uint64_t posted;       /* WQEs below have been posted */
	uint64_t polled;       /* ... and polled */
	uint64_t own_doorbell; /* its doorbell, and its record */
	uint32_t own_record[2];
	struct soft_cq *receive_cq;
	uint32_t receive_room;
	/* receives_polled <= receives_taken <= receives_posted <= receives_polled + receive_room */
	uint64_t receives_posted, receives_taken, receives_polled;

	/* outgoing packets */
	uint64_t delayed_until;
	bool is_delayed; /* the next packet has been delayed */
	uint64_t packets;
};

/* Counters of one HCA, since it was opened. */
struct soft_counters {
	uint64_t doorbells;     /* changes that the HCA saw */
	uint64_t doorbell_lost; /* ... and ignored on purpose */
	uint64_t wqes;          /* fetched */
	uint64_t cqes;          /* written */
	uint64_t packets;       /* sent, or runs of packets */
	uint64_t received;
	uint64_t dropped;
	uint64_t duplicated;
	uint64_t delayed;
	uint64_t swallowed; /* sent into a black hole or over a lost connection */
	uint64_t replayed;  /* requests that had been executed already */
	uint64_t rewound;   /* times that packets were sent again */
	uint64_t timeouts;  /* questions about losses, sent or impossible to send */
	uint64_t lost;      /* times that packets were lost */
	uint64_t refused;   /* requests answered with an error */
	uint64_t not_ready; /* ... put off, since no receive was posted */
	uint64_t stalled;
	uint64_t relaxed;   /* writes held back, for any reason */
	uint64_t reordered; /* parts of WRITEs set aside */
	uint64_t late_cqes;
	uint64_t dup_cqes;
	uint64_t overruns; /* of CQs */
	uint64_t halted;
	uint64_t violations; /* WQEs and doorbells that break the rules */
	uint64_t events_lost;
};

/*
 * An atomic that has loaded its word. The HCA sends nothing before it has stored the value, and
 * stores it before it executes another request.
 */
struct soft_atomic {
	struct soft_qp *qp; /* NULL: there is none */
	struct soft_header header;
	struct soft_mr *mr;
	char *at;
	uint64_t old, value;
	uint64_t due;
};

struct soft_node {
	struct soft_engine *engine;
	uint32_t id;
	char name[16];
	struct soft_scenario scenario;
	struct soft_rand rand;
	uint32_t **pages; /* [page_count] of doorbells; word 0 says whether the engine sleeps */
	unsigned page_count;
	struct soft_keys keys;
	struct soft_remote *remote; /* NULL: no memory of a GPU */
	void *cqs[SOFT_TABLE];      /* struct soft_cq, by the low bits of their numbers */
	void *qps[SOFT_TABLE];      /* struct soft_qp */
	struct soft_qp *qp_list;
	uint32_t qp_lap, cq_lap;
	uint64_t qps_made;
	uint32_t held_count, held_room;
	struct soft_posted *held; /* [held_room] */
	uint32_t stray_count;
	struct soft_stray *strays; /* NULL: the network keeps the order */
	struct soft_atomic atomic;
	bool has_halted;
	uint64_t halt_until;
	uint32_t event_first, event_count;
	struct ori_hca_event events[SOFT_EVENTS];
	struct soft_counters counters;
};

struct soft_engine {
	pthread_mutex_t lock;
	atomic_uint waiters; /* threads that want the lock: the engine yields */
	pthread_t thread;
	bool is_virtual; /* a cluster: no thread, no socket, virtual time */
	bool is_stopping;
	bool is_asleep;
	int poll;  /* epoll of everything below */
	int event; /* eventfd that wakes */
	struct soft_address address;
	struct ori_key *key;                  /* secret; connections over TCP must prove it */
	struct ori_tls_context *tls;          /* of the key; NULL: no key, or no TCP yet */
	struct ori_net_listener listeners[2]; /* unix, TCP */
	struct ori_traffic traffic;           /* over TLS */
	uint64_t log_after;           /* earliest time of the next log line about a rejection */
	unsigned unlogged_rejections; /* rejections since the last such line */
	struct soft_link *links;
	bool is_overdue;           /* the deadline of one of them has passed */
	bool is_unread;            /* one of them has bytes that epoll does not report */
	unsigned silent_looks_max; /* ORI_HEARING_MOST; tests have fewer */
	unsigned nodes_count;
	struct soft_node *nodes[SOFT_NODES];
	uint64_t now;
	uint64_t trace;
	struct soft_rand rand;
};

static inline struct soft_flight *soft_flight(struct soft_qp *qp, uint64_t index)
{
	return &qp->flights[index % SOFT_FLIGHTS];
}

/* Signed distance from PSN @b to PSN @a. */
static inline int32_t soft_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t soft_psn_add(uint32_t psn, uint32_t count)
{
	return (psn + count) & SOFT_PSN_MASK;
}

/* Packets for @length bytes; an empty message takes one. */
static inline uint32_t soft_packets(uint64_t length, uint64_t mtu)
{
	return length ? (uint32_t)((length + mtu - 1) / mtu) : 1;
}

/* Does a counted fault concern @qp? */
static inline bool soft_is_meant(const struct soft_qp *qp)
{
	uint64_t which = qp->node->scenario.qp;

	return which == SOFT_OFF || which == qp->number;
}

/* Add an event to the hash that a replay must reproduce. */
static inline void soft_trace(struct soft_engine *e, uint64_t what, uint64_t a, uint64_t b)
{
	e->trace = (e->trace ^ what) * UINT64_C(0x100000001b3);
	e->trace = (e->trace ^ a) * UINT64_C(0x100000001b3);
	e->trace = (e->trace ^ b) * UINT64_C(0x100000001b3);
}

#endif
