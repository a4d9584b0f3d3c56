/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libibverbs of one process: two RoCE HCAs in memory, fake0 with one port,
 * fake1 with two, the second of which is down. The thread that posts or polls
 * executes requests at once. Tests make calls fail.
 * FAKEVERBS_LINK=infiniband in the environment, or fake_set_ib(), makes them
 * HCAs of InfiniBand; fake_ib.c has its rules.
 */
#ifndef FAKEVERBS_H
#define FAKEVERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

#define FAKE_PKEYS 2

/* Attributes of port 1 of an HCA, by its subnet manager and its firmware. */
struct fake_ib {
	uint16_t lid, sm_lid;
	uint8_t lmc;
	uint8_t guid;
	uint16_t flid; /* the LID by which other subnets route to this one; 0: none */
	uint64_t prefix;
	uint16_t pkeys[FAKE_PKEYS];
	bool demands_grh;
	enum ibv_port_state state; /* requests wait until it is active */
};

/* The port of fake0 (@device 0) or fake1 (1) as FAKEVERBS_LINK makes it: one subnet. */
FAKE_EXPORT struct fake_ib fake_ib_default(unsigned device);

/* From now on @device is of InfiniBand, or of RoCE again with NULL. */
FAKE_EXPORT void fake_set_ib(unsigned device, const struct fake_ib *ib);

/* Call number @after (0: the next) of @call, "create_qp", fails with @error. */
FAKE_EXPORT void fake_fail(const char *call, unsigned after, int error);

/* From now on the kernel does not support RDMA, as before ib_uverbs is loaded, or does again. */
FAKE_EXPORT void fake_lose_kernel(bool is_lost);

/* Objects that were created and not destroyed. */
FAKE_EXPORT int fake_left(void);

/* The attributes that QP @qpn was modified with; NULL if there is no such QP. */
FAKE_EXPORT const struct ibv_qp_attr *fake_attr(uint32_t qpn);

/* Report event @type of QP @qpn, or of its send CQ, or port. */
FAKE_EXPORT void fake_report(enum ibv_event_type type, uint32_t qpn);

/* Report event @type of port @port of the HCA of QP @qpn. */
FAKE_EXPORT void fake_report_port(enum ibv_event_type type, uint32_t qpn, uint8_t port);

/* From now on the ports have no GIDs, or have them again. */
FAKE_EXPORT void fake_lose_gids(bool are_lost);
FAKE_EXPORT void fake_set_mtu(const char *device, enum ibv_mtu mtu);
FAKE_EXPORT void fake_set_sysfs(const char *directory);

/*
 * From now on requests of @device fail with IBV_WC_LOC_QP_OP_ERR, as rxe's do
 * when its cable is cut, until @is_cut is false; its ports are down then if
 * @is_down.
 */
FAKE_EXPORT void fake_cut(const char *device, bool is_cut, bool is_down);

/*
 * From now on writes to memory registered by dma-buf become visible at
 * fake_flush(), and not before, as with GPUs that need a flush.
 */
FAKE_EXPORT void fake_hold(bool holds);
FAKE_EXPORT void fake_flush(void);

#endif
