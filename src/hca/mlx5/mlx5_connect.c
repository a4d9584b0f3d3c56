/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State changes of DEVX queue pairs: for QPs of verbs the kernel does this work. mlx5.c and
 * mlx5_queue.c call them.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "hca/mlx5/mlx5_device.h"

#define CONNECT_UDP_PORTS 0xc000u /* dynamic ports: the port only separates flows */
#define CONNECT_PRIORITY_MAX 7u

static enum oriel_status connect_modify(struct mlx5_qp *qp, const char *what, const void *in,
					size_t length)
{
	return ori_mlx5_modify(qp->device, what, qp->object, in, length);
}

bool ori_mlx5_may_mask(const struct mlx5_device *d)
{
	return d->report.is_devx && d->atomic_caps.operations >> 3 & 1 &&
	       d->atomic_caps.sizes_qp & 8;
}

/*
 * The mode of a responder that has masked atomics is that of their longest operand, 8 bytes, as
 * for queues of Linux (drivers/infiniband/hw/mlx5/qp.c, get_atomic_mode()).
 */
enum oriel_status ori_mlx5_initialise(struct mlx5_qp *qp)
{
	const struct ori_prm_init init = {
		.qpn = qp->number,
		.port = qp->device->verbs.port,
		.allows_read = true,
		.allows_write = true,
		.allows_atomic = true,
		.atomic_mode =
			ori_mlx5_may_mask(qp->device) ? ORI_PRM_ATOMIC_UP_TO_8 : ORI_PRM_ATOMIC_IB,
	};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];
	enum oriel_status status = ori_prm_encode_rst2init(&init, in, sizeof(in));

	return status == ORIEL_OK ? connect_modify(qp, "RST2INIT_QP", in, sizeof(in)) : status;
}

/* The kernel resolves the neighbour for an address handle, which is then destroyed. */
static enum oriel_status connect_resolve(struct mlx5_device *d, struct ibv_ah_attr *ah,
					 uint8_t mac[6])
{
	struct mlx5dv_ah found = {0};
	struct mlx5dv_obj obj = {.ah = {.out = &found}};
	int error;

	if (!ori_ibverbs.create_ah || !ori_ibverbs.destroy_ah)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: this libibverbs has no ibv_create_ah",
				d->verbs.name);
	obj.ah.in = ori_ibverbs.create_ah(d->verbs.pd, ah);
	if (!obj.ah.in)
		return ori_verbs_fail(&d->verbs, errno,
				      "no route to the peer (are both NICs on one network, and is "
				      "the GID, ORIEL_IB_GID_INDEX, of that network?)");
	error = ori_mlx5dv.init_obj(&obj, MLX5DV_OBJ_AH);
	if (!error)
		memcpy(mac, found.av->rmac, 6);
	ori_ibverbs.destroy_ah(obj.ah.in);
	return error ? ori_verbs_fail(&d->verbs, error, "cannot read the MAC address of the peer")
		     : ORIEL_OK;
}

/*
 * ECMP may route packets of two queues differently, and those of one queue
 * alike. Both sides need not use the same port.
 */
static uint32_t connect_udp_port(uint32_t qpn, uint32_t peer)
{
	uint64_t mixed = ((uint64_t)qpn << 24 | peer) * UINT64_C(0x9e3779b97f4a7c15);

	return CONNECT_UDP_PORTS | (uint32_t)(mixed >> 50);
}

static enum oriel_status connect_ethernet(struct mlx5_qp *qp, struct ibv_ah_attr *ah,
					  const struct ori_hca_qp_address *peer,
					  struct ori_prm_path *path)
{
	struct mlx5_device *d = qp->device;

	if (ah->sl > CONNECT_PRIORITY_MAX)
		return ori_fail(ORIEL_ERR_CONFIG,
				"%s: ORIEL_IB_SL is %u, but RoCE has priorities up to %u only",
				d->verbs.name, ah->sl, CONNECT_PRIORITY_MAX);
	path->is_ethernet = true;
	path->udp_source_port = connect_udp_port(qp->number, peer->qpn);
	return connect_resolve(d, ah, path->mac);
}

static enum oriel_status connect_path(struct mlx5_qp *qp, const struct ori_hca_qp_address *peer,
				      const struct verbs_address *at, struct ori_prm_path *path)
{
	struct mlx5_device *d = qp->device;
	struct ibv_ah_attr ah;
	enum oriel_status status = ori_verbs_ah_attr(&d->verbs, at, &ah);

	if (status != ORIEL_OK)
		return status;
	*path = (struct ori_prm_path){.port = ah.port_num, .service_level = ah.sl};
	if (ah.is_global) {
		memcpy(path->gid, ah.grh.dgid.raw, sizeof(path->gid));
		path->gid_index = ah.grh.sgid_index;
		path->hop_limit = ah.grh.hop_limit;
		path->flow_label = ah.grh.flow_label;
		path->traffic_class = ah.grh.traffic_class;
	}
	if (d->verbs.address.is_ethernet)
		return connect_ethernet(qp, &ah, peer, path);
	path->lid = ah.dlid;
	path->has_grh = ah.is_global;
	return ORIEL_OK;
}

/* Round down to a power of two, the unit of the commands. */
static uint32_t connect_reads(uint32_t most)
{
	return 1u << (31 - (unsigned)__builtin_clz(most));
}

static uint32_t connect_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/*
 * Two fields stay 0:
 * - ece, the options of enhanced connections that both ends would agree on. libmlx5 passes on
 *   what ibv_set_ece() set, which no caller uses for queues of verbs either, so that queues of
 *   all tiers connect to each other alike.
 * - lag_tx_port_affinity, the port of a bond. Linux deals ports out to its own queues while a
 *   bond is active, unless firmware hashes flows (qp.c, get_tx_affinity()); UCX sets a port
 *   of DEVX queues if init2_lag_tx_port_affinity is there and a path is asked for
 *   (uct_ib_mlx5_devx_set_qpc_port_affinity()). Without it firmware chooses: requests arrive all
 *   the same, and a bond that does not hash may send all queues by one port.
 */
static enum oriel_status connect_receive(struct mlx5_qp *qp, const struct ori_hca_qp_address *peer,
					 const struct verbs_address *at)
{
	const struct verbs_device *d = &qp->device->verbs;
	struct ori_prm_rtr rtr = {
		.qpn = qp->number,
		.remote_qpn = peer->qpn,
		.receive_psn = peer->psn,
		.max_rd_atomic = connect_reads((uint32_t)d->attr.max_qp_rd_atom),
		.min_rnr_timer = VERBS_MIN_RNR_TIMER,
	};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];
	enum oriel_status status;

	status = ori_prm_path_mtu(d->mtu, peer->mtu, &rtr.mtu);
	if (status == ORIEL_OK)
		status = connect_path(qp, peer, at, &rtr.path);
	if (status == ORIEL_OK)
		status = ori_prm_encode_init2rtr(&rtr, in, sizeof(in));
	return status == ORIEL_OK ? connect_modify(qp, "INIT2RTR_QP", in, sizeof(in)) : status;
}

static enum oriel_status connect_send(struct mlx5_qp *qp, const struct ori_hca_qp_address *peer)
{
	const struct verbs_device *d = &qp->device->verbs;
	uint32_t reads = connect_least(peer->max_rd_atomic, (uint32_t)d->attr.max_qp_init_rd_atom);
	const struct ori_prm_rts rts = {
		.qpn = qp->number,
		.send_psn = qp->psn,
		.max_rd_atomic = connect_reads(reads),
		.retry_count = d->settings.retry,
		.rnr_retry = d->settings.rnr_retry,
		.ack_timeout = d->settings.timeout,
	};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];
	enum oriel_status status = ori_prm_encode_rtr2rts(&rts, in, sizeof(in));

	return status == ORIEL_OK ? connect_modify(qp, "RTR2RTS_QP", in, sizeof(in)) : status;
}

enum oriel_status ori_mlx5_join(struct mlx5_qp *qp, const struct ori_hca_qp_address *peer)
{
	struct verbs_address at;
	enum oriel_status status;

	if (qp->is_connected)
		return ori_fail(ORIEL_ERR_STATE, "%s: QP 0x%06x is connected already",
				qp->device->verbs.name, qp->number);
	status = ori_verbs_check_peer(&qp->device->verbs, peer, &at);
	if (status == ORIEL_OK)
		status = connect_receive(qp, peer, &at);
	if (status == ORIEL_OK)
		status = connect_send(qp, peer);
	qp->is_connected = status == ORIEL_OK;
	return status;
}

enum oriel_status ori_mlx5_break(struct mlx5_qp *qp)
{
	const struct ori_prm_object object = {ORI_PRM_2ERR_QP, qp->number};
	uint8_t in[ORI_PRM_COMMAND_LENGTH];
	enum oriel_status status = ori_prm_encode_object(&object, in, sizeof(in));

	return status == ORIEL_OK ? connect_modify(qp, "2ERR_QP", in, sizeof(in)) : status;
}
