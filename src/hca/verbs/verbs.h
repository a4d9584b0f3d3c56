/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HCAs of this machine by libibverbs: the objects behind the table. Queues
 * belong to the provider; the host posts by calls.
 */
#ifndef ORI_HCA_VERBS_H
#define ORI_HCA_VERBS_H

#include <pthread.h>
#include <stdatomic.h>

#include "hca/hca.h"
#include "hca/verbs/verbs_pick.h"
#include "sys/ibverbs.h"

#define VERBS_EVENTS 64u
#define VERBS_TABLE_BITS 12u /* QPs of a device: a number is (lap, slot) */
#define VERBS_TABLE (1u << VERBS_TABLE_BITS)
#define VERBS_CHAIN 16u /* requests that one ibv_post_send() takes */
#define VERBS_MAGIC 0x53425256u
#define VERBS_VERSION 2u

/* Address of an HCA; the bytes of ori_hca_qp_address.hca_address, little-endian. */
struct verbs_address {
	uint32_t magic;
	uint16_t version;
	uint16_t lid; /* the base LID; 0 on Ethernet */
	uint8_t gid[16];
	uint8_t is_ethernet; /* RoCE; else InfiniBand */
	uint8_t port;
	uint8_t needs_grh; /* InfiniBand: both ends of its paths have a GRH */
	uint8_t reserved;
	uint16_t pkey; /* of its queues; 0 on Ethernet */
	uint8_t reserved_end[34];
};

static_assert(sizeof(struct verbs_address) == ORI_HCA_ADDRESS, "goes over the wire");

/* The parsed settings ORIEL_IB_.... */
struct verbs_settings {
	int gid_index; /* -1: chosen automatically */
	uint8_t traffic_class, service_level, timeout, retry, rnr_retry;
	uint32_t mtu; /* in bytes, at most */
};

struct verbs_device {
	char name[IBV_SYSFS_NAME_MAX + 16]; /* "mlx5_0:1" */
	char port_text[40];                 /* of the caps */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct verbs_settings settings;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	uint8_t port;
	uint8_t gid_index;
	struct verbs_address address;
	uint32_t mtu;
	uint32_t address_flags; /* enum ori_hca_address_flags */
	unsigned numa_node;     /* plus 1; 0: unknown */

	_Atomic(struct verbs_qp *) qps[VERBS_TABLE]; /* by the low bits of their numbers */
	pthread_mutex_t lock;
	uint32_t lap; /* guarded by lock, as all below */
	uint32_t event_first, event_count;
	struct ori_hca_event events[VERBS_EVENTS];

	pthread_t thread;
	int stop; /* eventfd */
};

/*
 * A poller holds @lock while it looks up the QPs of completions; the
 * destruction of a QP takes it.
 */
struct verbs_cq {
	struct verbs_device *device;
	struct ibv_cq *cq;
	pthread_mutex_t lock;
	atomic_bool is_dead;
};

/*
 * done <= posted <= done + depth; the numbers of requests never wrap. A wr_id
 * is the number of the QP, then the low 31 bits of that of the request, or
 * VERBS_RECEIVE.
 */
struct verbs_qp {
	struct verbs_device *device;
	struct verbs_cq *send_cq, *receive_cq;
	struct ibv_qp *qp;
	uint32_t number;
	uint32_t psn;
	uint32_t depth, receives;
	uint32_t inline_max; /* bytes of data inside a request */
	bool is_connected;
	uint64_t posted;
	_Atomic uint64_t done;
	_Atomic uint64_t receives_posted, receives_done;
	uint64_t id_mask;
	uint64_t ids[]; /* [id_mask + 1] */
};

#define VERBS_RECEIVE 0x80000000u

/* The devices that a table takes, beside the settings' choice, and how it opens them. */
struct verbs_kind {
	bool (*is_meant)(struct ibv_device *device);
	struct ibv_context *(*open)(struct ibv_device *device);
};

/* @d is zeroed. @kind NULL: all devices, as libibverbs opens them. */
enum oriel_status ori_verbs_device_open(struct verbs_device *d, const char *config, unsigned rail,
					const struct verbs_kind *kind);
void ori_verbs_device_close(struct verbs_device *d);
/* Requests of a queue: it has a CQ of as many entries. */
static inline uint32_t ori_verbs_depth_max(const struct verbs_device *d)
{
	return (uint32_t)(d->attr.max_cqe < d->attr.max_qp_wr ? d->attr.max_cqe
							      : d->attr.max_qp_wr);
}

/* Fail with the device of @hca and @format in "...: what: errno". */
enum oriel_status ori_verbs_fail(const struct verbs_device *d, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* They ask the port of @d, and return 0 or an error number. */
int ori_verbs_query_port(const struct verbs_device *d, struct ibv_port_attr *attr);
int ori_verbs_query_pkey(const struct verbs_device *d, uint16_t *pkey);

enum oriel_status ori_verbs_events_start(struct verbs_device *d);
void ori_verbs_events_stop(struct verbs_device *d);
enum oriel_status ori_verbs_poll_event(struct ori_hca *hca, struct ori_hca_event *event);

enum oriel_status ori_verbs_register(struct ori_hca *hca, void *address, size_t length,
				     uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				     struct ori_hca_keys *keys);
enum oriel_status ori_verbs_register_dmabuf(struct ori_hca *hca, int fd, uint64_t offset,
					    size_t length, uint64_t iova, unsigned access,
					    struct ori_hca_mr **mr, struct ori_hca_keys *keys);
void ori_verbs_unregister(struct ori_hca_mr *mr);

enum oriel_status ori_verbs_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				      struct ori_hca_cq **cq, uint32_t *cqn);
void ori_verbs_destroy_cq(struct ori_hca_cq *cq);
enum oriel_status ori_verbs_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				      struct ori_hca_qp **qp, struct ori_hca_qp_address *address);
enum oriel_status ori_verbs_connect_qp(struct ori_hca_qp *qp,
				       const struct ori_hca_qp_address *peer);
void ori_verbs_fail_qp(struct ori_hca_qp *qp);
void ori_verbs_destroy_qp(struct ori_hca_qp *qp);
enum oriel_status ori_verbs_listen(struct ori_hca *hca);
void ori_verbs_describe(const struct ori_hca *hca, struct ori_hca_qp_address *address);

/*
 * For a module that makes its QPs itself. adopt() takes a QP that verbs know
 * and that is still in RESET; connect_qp(), fail_qp() and destroy_qp() then
 * work on it. On failure adopt() destroys it.
 */
enum oriel_status ori_verbs_adopt_qp(struct verbs_device *d, struct ibv_qp *made,
				     struct verbs_qp **qp, struct ori_hca_qp_address *address);
enum oriel_status ori_verbs_draw_psn(uint32_t *psn);
enum oriel_status ori_verbs_check_peer(const struct verbs_device *d,
				       const struct ori_hca_qp_address *peer,
				       struct verbs_address *at);
/* verbs_path.c: the address vector of a path from @d to @at; ORIEL_ERR_NO_PATH: there is none. */
enum oriel_status ori_verbs_ah_attr(const struct verbs_device *d, const struct verbs_address *at,
				    struct ibv_ah_attr *ah);
/* The LID by which other subnets route to the port of @gid, of InfiniBand; 0: none. */
uint16_t ori_verbs_flid(const uint8_t gid[16]);

#define VERBS_MIN_RNR_TIMER 12u /* 0.64 ms until the request is sent again */

enum oriel_status ori_verbs_post(struct ori_hca_qp *qp, const struct ori_hca_wr *wrs,
				 unsigned count, unsigned *posted);
enum oriel_status ori_verbs_post_receives(struct ori_hca_qp *qp, unsigned count);
enum oriel_status ori_verbs_poll(struct ori_hca_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				 unsigned *count);

#endif
