/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libibverbs of one process: two RoCE adapters in memory, fake0 with one port,
 * fake1 with two, the second of which is down. What arrives is done at once, in
 * the thread that posts or polls. Tests make it fail.
 */
#ifndef FAKEVERBS_H
#define FAKEVERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

/* Call number @after (0: the next) of @call, "create_qp", fails with @error. */
FAKE_EXPORT void fake_fail(const char *call, unsigned after, int error);

/* Objects that were made and not destroyed. */
FAKE_EXPORT int fake_left(void);

/* The attributes that QP @qpn has been given; NULL if there is no such QP. */
FAKE_EXPORT const struct ibv_qp_attr *fake_attr(uint32_t qpn);

/* Tell @type of QP @qpn, or of its send CQ, or port. */
FAKE_EXPORT void fake_tell(enum ibv_event_type type, uint32_t qpn);

/* Tell @type of port @port of the adapter that QP @qpn is of. */
FAKE_EXPORT void fake_tell_port(enum ibv_event_type type, uint32_t qpn, uint8_t port);

/* What the ports are like from now on. */
FAKE_EXPORT void fake_lose_gids(bool are_lost);
FAKE_EXPORT void fake_set_mtu(const char *device, enum ibv_mtu mtu);
FAKE_EXPORT void fake_set_sysfs(const char *directory);

/*
 * Requests of @device fail with IBV_WC_LOC_QP_OP_ERR from now on, as rxe's when its
 * cable is cut, until they do not; whether its ports are down then.
 */
FAKE_EXPORT void fake_cut(const char *device, bool is_cut, bool is_down);

/*
 * What is written to memory that was registered by dma-buf is there for who looks at that
 * memory once fake_flush() was called, and not before, from now on: as with GPUs that want
 * a flush.
 */
FAKE_EXPORT void fake_hold(bool holds);
FAKE_EXPORT void fake_flush(void);

#endif
