/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that the files of the fake share. fake5_lock guards all of it. */
#ifndef FAKEMLX5_OBJECTS_H
#define FAKEMLX5_OBJECTS_H

#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <stdbool.h>

#include "fakemlx5.h"
#include "hca/hca.h"

#define FAKE5_PAGE 4096u
#define FAKE5_DOORBELLS_AT 0x800u
#define FAKE5_WORDS ((FAKE5_PAGE - FAKE5_DOORBELLS_AT) / 8)
#define FAKE5_STRIDE 0x100u /* from one register to the next */
#define FAKE5_REGISTERS 4u  /* of a page: see doorbell.c */
#define FAKE5_GIDS 3
#define FAKE5_FLID 0x2000u    /* and the number of a subnet: the LID of the router to it */
#define FAKE5_GRH_REQUIRED 1u /* IBV_QPF_GRH_REQUIRED */
#define FAKE5_EQN 7u

/* A port, as another process may find it. */
struct fake5_record {
	struct ori_hca_qp_address soft;
	uint8_t gid[16], mac[6];
	uint16_t lid;
	uint32_t mtu;
	bool is_ethernet;
};

/* An HCA, which all contexts of the process share: its queues share one space of numbers. */
struct fake5_device {
	struct ibv_device base;
	bool is_mlx5, is_ethernet, demands_grh;
	uint8_t subnet;
	uint32_t mtu;
	uint32_t id; /* of the HCA among all processes; 0: not opened yet */
	unsigned contexts;
	struct ori_hca *soft;
	struct fake5_record record;
};

struct fake5_context {
	struct fake5_device *device;
	int event_fd; /* the write end of async_fd */
	bool has_devx;
	uint32_t pdn;
	struct fake5_uar *singleton; /* for all callers that ask for an uncached register */
	struct verbs_context base;   /* last */
};

/* Registers: of DEVX, or of the queues that verbs make. */
struct fake5_page {
	struct fake5_page *next;
	struct fake5_device *device;
	struct fake5_context *dedicated; /* its owner, for registers of their own; else NULL */
	char *memory;
	uint32_t id;
	unsigned taken; /* a bit for each register that was handed out */
	unsigned refs;  /* of those who got one */
	unsigned users; /* queue pairs of this page */
	uint64_t seen[FAKE5_WORDS];
};

struct fake5_uar {
	struct mlx5dv_devx_uar base;
	struct fake5_page *page;
	unsigned slot;
	bool is_singleton;
};

struct fake5_umem {
	struct mlx5dv_devx_umem base;
	struct fake5_umem *next;
	struct ibv_context *context;
	char *memory;
	size_t length;
	uint64_t unit; /* of offsets of rings */
	bool is_mapped;
};

enum fake5_state { FAKE5_RESET, FAKE5_INIT, FAKE5_RTR, FAKE5_RTS, FAKE5_ERROR };

struct fake5_cq {
	struct ibv_cq base; /* of verbs */
	struct fake5_cq *next;
	struct fake5_device *device;
	struct ori_hca_cq *soft;
	char *ring; /* of the provider, NULL if there is none or the caller provides it */
	uint32_t *record;
	uint32_t number, depth;
};

struct fake5_qp {
	struct ibv_qp base; /* of verbs */
	struct fake5_qp *next;
	struct fake5_device *device;
	struct fake5_page *page; /* page of its doorbell; NULL: it is posted to by calls */
	struct ori_hca_qp *soft;
	uint64_t *doorbell; /* of the software HCA */
	uint32_t *record, *asleep;
	char *ring; /* of the provider */
	uint32_t number, depth, head;
	bool is_stalled; /* by a page fault that the device does not resolve */
	uint64_t receive_id;
	enum fake5_state state;
	struct ori_prm_init init;
	struct ori_prm_rtr rtr;
	struct fake5_record peer;
	struct mlx5dv_devx_event_channel *channel;
	uint32_t events; /* a bit for each type of event that it subscribed to */
	uint64_t cookie;
	unsigned unacknowledged; /* events that a thread has taken */
};

extern pthread_mutex_t fake5_lock;
extern struct fake5_qp *fake5_qps;
extern struct fake5_cq *fake5_cqs;
extern struct fake5_page *fake5_pages;
extern struct fake5_counters fake5_count;

bool fake5_lacks(const char *word);
int fake5_failure(const char *call);
void fake5_left_add(int change); /* adds to the count of fake5_left() */
struct fake5_context *fake5_context_of(const struct ibv_context *context);
const struct ori_hca_ops *fake5_soft(void);

/* The port with this GID, or with this LID on InfiniBand; false if there is none. */
bool fake5_find_gid(const uint8_t gid[16], struct fake5_record *record);
bool fake5_find_lid(uint16_t lid, struct fake5_record *record);
void fake5_gid(const struct fake5_device *d, unsigned index, uint8_t gid[16]);

/* Keys of on-demand paging: they cover all memory of the host, and none of GPUs. */
void fake5_demand_add(uint32_t key);
void fake5_demand_remove(uint32_t key);

struct fake5_page *fake5_page_open(struct fake5_device *d);
void fake5_page_close(struct fake5_page *page);
/* @qp of that page is destroyed. */
void fake5_page_leave(struct fake5_qp *qp);
void fake5_uar_close(struct fake5_uar *uar);
/* From now on the thread serves the doorbells of @qp: false if there is no memory. */
bool fake5_doorbell_open(struct fake5_qp *qp);
void fake5_doorbell_close(struct fake5_qp *qp);
void fake5_doorbells_forget(const struct fake5_device *d);

/* Creates qp->soft, which needs bell and record, and puts @qp into the list. */
int fake5_qp_open(struct fake5_qp *qp, const struct ori_hca_qp_attr *attr);
void fake5_qp_close(struct fake5_qp *qp);
/* The states RTR and RTS are known. */
int fake5_qp_connect(struct fake5_qp *qp, uint32_t send_psn, uint32_t reads);
struct fake5_qp *fake5_qp_find(const struct fake5_device *d, uint32_t number);
struct fake5_cq *fake5_cq_find(const struct fake5_device *d, uint32_t number);

int fake5_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake5_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake5_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
void fake5_report(struct fake5_qp *qp, enum ibv_event_type type, uint8_t devx_type);
void fake5_bells_start(void);
void fake5_bells_stop(void);

#endif
