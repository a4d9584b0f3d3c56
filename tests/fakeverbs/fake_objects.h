/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that the files of the fake libibverbs share; fake_lock guards all of it. */
#ifndef FAKE_OBJECTS_H
#define FAKE_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fakeverbs.h"

#define FAKE_DEVICES 2u
#define FAKE_GIDS 3
#define FAKE_MESSAGE (8u << 20)
#define FAKE_INLINE 92u

struct fake_device {
	struct ibv_device base;
	uint8_t ports;
	enum ibv_mtu mtu;
	atomic_bool is_cut, is_down;
	bool is_ib; /* guarded by fake_lock, as ib */
	struct fake_ib ib;
};

#define FAKE_EVENTS 64u

struct fake_context {
	struct ibv_context base;
	int event_fd; /* the write end of async_fd, which gets a byte for each event */
	unsigned count;
	struct ibv_async_event events[FAKE_EVENTS];
	void *unacknowledged; /* object of the event that was taken; one thread takes them */
};

struct fake_mr {
	struct ibv_mr base;
	struct fake_mr *next;
	uint64_t iova;
	unsigned access;
	bool is_mapped;
};

extern pthread_mutex_t fake_lock;

void fake_count(int change);
/* The error that a call must fail with, 0 if none. */
int fake_failure(const char *call);
struct fake_device *fake_device_of(const struct ibv_context *context);
void fake_gid(const struct ibv_context *context, unsigned index, union ibv_gid *gid);
/*
 * The caller holds fake_lock, as for forget(), which waits until the taken
 * event is acknowledged.
 */
void fake_push_event(struct ibv_context *context, const struct ibv_async_event *event);
void fake_forget_events(struct ibv_context *context, void *object);

/* Memory of @pd under @key, NULL if there is none. fake_lock is held. */
char *fake_find(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint64_t length,
		unsigned access);

/* fake_ib.c. The checks return an error number, or 0. */
void fake_ib_gid(const struct fake_ib *ib, unsigned index, union ibv_gid *gid);
void fake_ib_query(const struct fake_ib *ib, struct ibv_port_attr *attr);
int fake_ib_check_init(const struct ibv_qp_attr *attr);
int fake_ib_check_rtr(const struct fake_ib *ib, const struct ibv_qp_attr *attr);
/* Do packets of a queue with @a arrive at one with @b? */
bool fake_ib_arrives(const struct fake_ib *from, const struct ibv_qp_attr *a,
		     const struct fake_ib *to, const struct ibv_qp_attr *b);

/* fake_hold.c, with fake_lock held. False: writes to this memory are not held. */
bool fake_hold_write(char *to, const void *from, size_t length);
/* Make held writes visible: a read arrives behind them. */
void fake_release_held(void);
/* Is @at in memory registered by dma-buf? */
bool fake_is_dmabuf(const char *at);

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);

#endif
