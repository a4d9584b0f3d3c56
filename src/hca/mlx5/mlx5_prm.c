/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands: how each field converts between host terms and the PRM's.
 * mlx5_command.c, mlx5_connect.c and mlx5_queue.c call it.
 */
#include "hca/mlx5/mlx5_prm.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "hca/mlx5/mlx5_prm_codec.h"

enum {
	PM_STATE_MIGRATED = 3,
	RQ_TYPE_NONE = 3, /* a receive queue of size zero */
	LOG_MESSAGE_MAX = 30,
	LOG_PAGE_BASE = 12, /* log_page_size counts from 4096 */
	LOG_MTU_BASE = 7,   /* mtu is 1 for 256 */
	MTU_MIN = 256,
	MTU_MAX = 4096,
	OP_MOD_CURRENT = 1, /* as set now, not the maximum */
};

static bool is_mtu(uint32_t mtu)
{
	return mtu >= MTU_MIN && mtu <= MTU_MAX && (mtu & (mtu - 1)) == 0;
}

static void path_mtu(struct ori_codec *c, uint32_t *mtu)
{
	ori_codec_log2(c, ORI_PRM_QPC_MTU, LOG_MTU_BASE, mtu);
	if (c->status == ORIEL_OK && !is_mtu(*mtu))
		c->status = ori_fail(c->is_decoding ? ORIEL_ERR_PROTOCOL : ORIEL_ERR_INVALID,
				     "PRM: no path has an MTU of %u bytes", (unsigned)*mtu);
}

static uint64_t bytes_load(const uint8_t *bytes, unsigned count)
{
	uint64_t value = 0;
	unsigned i;

	for (i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static void bytes_store(uint8_t *bytes, unsigned count, uint64_t value)
{
	while (count-- > 0) {
		bytes[count] = (uint8_t)value;
		value >>= 8;
	}
}

static void path_gid(struct ori_codec *c, uint8_t gid[16])
{
	uint64_t high = bytes_load(gid, 8);
	uint64_t low = bytes_load(gid + 8, 8);

	ori_codec_u64(c, ORI_PRM_ADS_RGID_HIGH, &high);
	ori_codec_u64(c, ORI_PRM_ADS_RGID_LOW, &low);
	bytes_store(gid, 8, high);
	bytes_store(gid + 8, 8, low);
}

static void path_mac(struct ori_codec *c, uint8_t mac[6])
{
	uint32_t high = (uint32_t)bytes_load(mac, 2);
	uint32_t low = (uint32_t)bytes_load(mac + 2, 4);

	ori_codec_u32(c, ORI_PRM_ADS_RMAC_47_32, &high);
	ori_codec_u32(c, ORI_PRM_ADS_RMAC_31_0, &low);
	bytes_store(mac, 2, high);
	bytes_store(mac + 2, 4, low);
}

static void command_visit(struct ori_codec *c, enum ori_prm_field field, enum ori_prm_opcode opcode,
			  uint32_t *number)
{
	struct ori_prm_view outer = ori_codec_enter(c, field);

	ori_codec_constant(c, ORI_PRM_COMMAND_OPCODE, opcode);
	ori_codec_constant(c, ORI_PRM_COMMAND_OP_MOD, 0);
	if (number)
		ori_codec_u32(c, ORI_PRM_COMMAND_NUMBER, number);
	c->at = outer;
}

static void cqc_visit(struct ori_codec *c, struct ori_prm_cq *cq)
{
	struct ori_prm_view outer = ori_codec_enter(c, ORI_PRM_CREATE_CQ_IN_CQC);

	ori_codec_constant(c, ORI_PRM_CQC_DBR_UMEM_VALID, 1);
	ori_codec_constant(c, ORI_PRM_CQC_CQE_SZ, 0);
	ori_codec_constant(c, ORI_PRM_CQC_CQE_COMP_EN, 0);
	ori_codec_flag(c, ORI_PRM_CQC_CC, &cq->is_collapsed);
	ori_codec_flag(c, ORI_PRM_CQC_OI, &cq->ignores_overrun);
	ori_codec_u32(c, ORI_PRM_CQC_DBR_UMEM_ID, &cq->record_umem);
	ori_codec_log2(c, ORI_PRM_CQC_LOG_CQ_SIZE, 0, &cq->depth);
	ori_codec_u32(c, ORI_PRM_CQC_UAR_PAGE, &cq->uar_page);
	ori_codec_u32(c, ORI_PRM_CQC_C_EQN, &cq->eqn);
	ori_codec_log2(c, ORI_PRM_CQC_LOG_PAGE_SIZE, LOG_PAGE_BASE, &cq->page_length);
	ori_codec_u64(c, ORI_PRM_CQC_DBR_ADDR, &cq->record_offset);
	c->at = outer;
}

static void create_cq_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_cq *cq = parameters;

	command_visit(c, ORI_PRM_CREATE_CQ_IN_COMMAND, ORI_PRM_CREATE_CQ, NULL);
	cqc_visit(c, cq);
	ori_codec_u64(c, ORI_PRM_CREATE_CQ_IN_CQ_UMEM_OFFSET, &cq->umem_offset);
	ori_codec_u32(c, ORI_PRM_CREATE_CQ_IN_CQ_UMEM_ID, &cq->umem);
	ori_codec_constant(c, ORI_PRM_CREATE_CQ_IN_CQ_UMEM_VALID, 1);
}

static void qpc_visit(struct ori_codec *c, struct ori_prm_qp *qp)
{
	struct ori_prm_view outer = ori_codec_enter(c, ORI_PRM_CREATE_QP_IN_QPC);
	uint32_t timestamps = qp->timestamps;

	ori_codec_constant(c, ORI_PRM_QPC_ST, 0);
	ori_codec_constant(c, ORI_PRM_QPC_PM_STATE, PM_STATE_MIGRATED);
	ori_codec_u32(c, ORI_PRM_QPC_PD, &qp->pd);
	ori_codec_log2(c, ORI_PRM_QPC_LOG_SQ_SIZE, 0, &qp->depth);
	ori_codec_u32(c, ORI_PRM_QPC_TS_FORMAT, &timestamps);
	ori_codec_u32(c, ORI_PRM_QPC_UAR_PAGE, &qp->uar_page);
	ori_codec_u32(c, ORI_PRM_QPC_USER_INDEX, &qp->user_index);
	ori_codec_log2(c, ORI_PRM_QPC_LOG_PAGE_SIZE, LOG_PAGE_BASE, &qp->page_length);
	ori_codec_u32(c, ORI_PRM_QPC_CQN_SND, &qp->send_cqn);
	ori_codec_flag(c, ORI_PRM_QPC_CD_MASTER, &qp->is_companion);
	ori_codec_u32(c, ORI_PRM_QPC_CQN_RCV, &qp->receive_cqn);
	ori_codec_u64(c, ORI_PRM_QPC_DBR_ADDR, &qp->record_offset);
	ori_codec_constant(c, ORI_PRM_QPC_RQ_TYPE, RQ_TYPE_NONE);
	ori_codec_constant(c, ORI_PRM_QPC_CS_REQ, 0);
	ori_codec_constant(c, ORI_PRM_QPC_CS_RES, 0);
	ori_codec_constant(c, ORI_PRM_QPC_DBR_UMEM_VALID, 1);
	ori_codec_u32(c, ORI_PRM_QPC_DBR_UMEM_ID, &qp->record_umem);

	qp->timestamps = (enum ori_prm_timestamps)timestamps;
	c->at = outer;
}

static void create_qp_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_qp *qp = parameters;

	command_visit(c, ORI_PRM_CREATE_QP_IN_COMMAND, ORI_PRM_CREATE_QP, NULL);
	qpc_visit(c, qp);
	ori_codec_u64(c, ORI_PRM_CREATE_QP_IN_WQ_UMEM_OFFSET, &qp->umem_offset);
	ori_codec_u32(c, ORI_PRM_CREATE_QP_IN_WQ_UMEM_ID, &qp->umem);
	ori_codec_constant(c, ORI_PRM_CREATE_QP_IN_WQ_UMEM_VALID, 1);
}

static void rst2init_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_init *init = parameters;
	uint32_t atomic_mode = init->atomic_mode;
	struct ori_prm_view outer;

	command_visit(c, ORI_PRM_MODIFY_QP_IN_COMMAND, ORI_PRM_RST2INIT_QP, &init->qpn);
	outer = ori_codec_enter(c, ORI_PRM_MODIFY_QP_IN_QPC);
	ori_codec_constant(c, ORI_PRM_QPC_PM_STATE, PM_STATE_MIGRATED);
	ori_codec_u32(c, ORI_PRM_QPC_COUNTER_SET_ID, &init->counter_set);
	ori_codec_u32(c, ORI_PRM_QPC_USER_INDEX, &init->user_index);
	ori_codec_u32(c, ORI_PRM_QPC_ATOMIC_MODE, &atomic_mode);
	ori_codec_flag(c, ORI_PRM_QPC_RRE, &init->allows_read);
	ori_codec_flag(c, ORI_PRM_QPC_RWE, &init->allows_write);
	ori_codec_flag(c, ORI_PRM_QPC_RAE, &init->allows_atomic);
	init->atomic_mode = (enum ori_prm_atomic_mode)atomic_mode;

	ori_codec_enter(c, ORI_PRM_QPC_PRIMARY_ADDRESS_PATH);
	ori_codec_u32(c, ORI_PRM_ADS_PKEY_INDEX, &init->pkey_index);
	ori_codec_u32(c, ORI_PRM_ADS_VHCA_PORT_NUM, &init->port);
	c->at = outer;
}

/* An address path does not name its link layer, but only InfiniBand has a LID. */
static void path_link_layer(struct ori_codec *c, struct ori_prm_path *path)
{
	ori_codec_u32(c, ORI_PRM_ADS_RLID, &path->lid);
	if (c->is_decoding)
		path->is_ethernet = path->lid == 0;
	else if (c->status == ORIEL_OK && path->is_ethernet != (path->lid == 0))
		c->status = ori_fail(ORIEL_ERR_INVALID, "PRM: a path over %s cannot have LID 0x%x",
				     path->is_ethernet ? "Ethernet" : "InfiniBand",
				     (unsigned)path->lid);
}

static void path_visit(struct ori_codec *c, struct ori_prm_path *path)
{
	struct ori_prm_view outer = ori_codec_enter(c, ORI_PRM_QPC_PRIMARY_ADDRESS_PATH);

	path_link_layer(c, path);
	ori_codec_u32(c, ORI_PRM_ADS_VHCA_PORT_NUM, &path->port);
	ori_codec_u32(c, ORI_PRM_ADS_SRC_ADDR_INDEX, &path->gid_index);
	ori_codec_u32(c, ORI_PRM_ADS_HOP_LIMIT, &path->hop_limit);
	ori_codec_u32(c, ORI_PRM_ADS_TCLASS, &path->traffic_class);
	ori_codec_u32(c, ORI_PRM_ADS_FLOW_LABEL, &path->flow_label);
	path_gid(c, path->gid);
	if (path->is_ethernet) {
		/*
		 * The caller sets these fields: mlx5_set_path() of the kernel
		 * does not run for DEVX queue pairs.
		 */
		ori_codec_u32(c, ORI_PRM_ADS_ETH_PRIO, &path->service_level);
		ori_codec_constant(c, ORI_PRM_ADS_DSCP, path->traffic_class >> 2);
		ori_codec_u32(c, ORI_PRM_ADS_UDP_SPORT, &path->udp_source_port);
		path_mac(c, path->mac);
	} else {
		ori_codec_u32(c, ORI_PRM_ADS_PKEY_INDEX, &path->pkey_index);
		ori_codec_flag(c, ORI_PRM_ADS_GRH, &path->has_grh);
		ori_codec_u32(c, ORI_PRM_ADS_SL, &path->service_level);
	}
	c->at = outer;
}

static void init2rtr_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_rtr *rtr = parameters;
	struct ori_prm_view outer;

	assert(rtr);
	command_visit(c, ORI_PRM_MODIFY_QP_IN_COMMAND, ORI_PRM_INIT2RTR_QP, &rtr->qpn);
	outer = ori_codec_enter(c, ORI_PRM_MODIFY_QP_IN_QPC);
	path_mtu(c, &rtr->mtu);
	ori_codec_constant(c, ORI_PRM_QPC_LOG_MSG_MAX, LOG_MESSAGE_MAX);
	ori_codec_u32(c, ORI_PRM_QPC_REMOTE_QPN, &rtr->remote_qpn);
	ori_codec_u32(c, ORI_PRM_QPC_NEXT_RCV_PSN, &rtr->receive_psn);
	ori_codec_log2(c, ORI_PRM_QPC_LOG_RRA_MAX, 0, &rtr->max_rd_atomic);
	ori_codec_u32(c, ORI_PRM_QPC_MIN_RNR_NAK, &rtr->min_rnr_timer);
	path_visit(c, &rtr->path);
	c->at = outer;
}

static void rtr2rts_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_rts *rts = parameters;
	struct ori_prm_view outer;

	command_visit(c, ORI_PRM_MODIFY_QP_IN_COMMAND, ORI_PRM_RTR2RTS_QP, &rts->qpn);
	outer = ori_codec_enter(c, ORI_PRM_MODIFY_QP_IN_QPC);
	ori_codec_constant(c, ORI_PRM_QPC_LOG_ACK_REQ_FREQ, 0);
	ori_codec_u32(c, ORI_PRM_QPC_NEXT_SEND_PSN, &rts->send_psn);
	ori_codec_log2(c, ORI_PRM_QPC_LOG_SRA_MAX, 0, &rts->max_rd_atomic);
	ori_codec_u32(c, ORI_PRM_QPC_RETRY_COUNT, &rts->retry_count);
	ori_codec_u32(c, ORI_PRM_QPC_RNR_RETRY, &rts->rnr_retry);

	ori_codec_enter(c, ORI_PRM_QPC_PRIMARY_ADDRESS_PATH);
	ori_codec_u32(c, ORI_PRM_ADS_ACK_TIMEOUT, &rts->ack_timeout);
	c->at = outer;
}

static bool opcode_names_object(uint32_t opcode)
{
	switch (opcode) {
	case ORI_PRM_DESTROY_CQ:
	case ORI_PRM_QUERY_CQ:
	case ORI_PRM_DESTROY_QP:
	case ORI_PRM_2ERR_QP:
	case ORI_PRM_2RST_QP:
	case ORI_PRM_QUERY_QP:
	case ORI_PRM_QUERY_LAG:
		return true;
	default:
		return false;
	}
}

static void object_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_object *object = parameters;
	uint32_t opcode = object->opcode;

	ori_codec_u32(c, ORI_PRM_COMMAND_OPCODE, &opcode);
	if (c->status == ORIEL_OK && !opcode_names_object(opcode))
		c->status = ori_fail(c->is_decoding ? ORIEL_ERR_PROTOCOL : ORIEL_ERR_INVALID,
				     "PRM: command 0x%x does not name exactly one object",
				     (unsigned)opcode);
	ori_codec_u32(c, ORI_PRM_COMMAND_NUMBER, &object->number);
	object->opcode = (enum ori_prm_opcode)opcode;
}

static void query_caps_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_query_caps *query = parameters;
	uint32_t op_mod = (uint32_t)query->type << 1 | OP_MOD_CURRENT;

	ori_codec_constant(c, ORI_PRM_COMMAND_OPCODE, ORI_PRM_QUERY_HCA_CAP);
	ori_codec_u32(c, ORI_PRM_COMMAND_OP_MOD, &op_mod);
	query->type = (enum ori_prm_caps_type)(op_mod >> 1);
	if (c->status == ORIEL_OK && query->type != ORI_PRM_CAPS_GENERAL &&
	    query->type != ORI_PRM_CAPS_PAGING && query->type != ORI_PRM_CAPS_ATOMIC)
		c->status = ori_fail(ORIEL_ERR_UNSUPPORTED,
				     "PRM: the library does not query capabilities of type %u",
				     (unsigned)query->type);
}

const struct ori_prm_message ori_prm_create_cq_message = {
	.name = "create_cq",
	.layout = ORI_PRM_CREATE_CQ_IN,
	.size = sizeof(struct ori_prm_cq),
	.visit = create_cq_visit,
};

enum oriel_status ori_prm_encode_create_cq(const struct ori_prm_cq *cq, void *in, size_t length)
{
	return ori_prm_message_encode(&ori_prm_create_cq_message, cq, in, length);
}

const struct ori_prm_message ori_prm_create_qp_message = {
	.name = "create_qp",
	.layout = ORI_PRM_CREATE_QP_IN,
	.size = sizeof(struct ori_prm_qp),
	.visit = create_qp_visit,
};

enum oriel_status ori_prm_encode_create_qp(const struct ori_prm_qp *qp, void *in, size_t length)
{
	return ori_prm_message_encode(&ori_prm_create_qp_message, qp, in, length);
}

const struct ori_prm_message ori_prm_rst2init_message = {
	.name = "rst2init",
	.layout = ORI_PRM_MODIFY_QP_IN,
	.size = sizeof(struct ori_prm_init),
	.visit = rst2init_visit,
};

enum oriel_status ori_prm_encode_rst2init(const struct ori_prm_init *init, void *in, size_t length)
{
	return ori_prm_message_encode(&ori_prm_rst2init_message, init, in, length);
}

const struct ori_prm_message ori_prm_init2rtr_message = {
	.name = "init2rtr",
	.layout = ORI_PRM_MODIFY_QP_IN,
	.size = sizeof(struct ori_prm_rtr),
	.visit = init2rtr_visit,
};

enum oriel_status ori_prm_encode_init2rtr(const struct ori_prm_rtr *rtr, void *in, size_t length)
{
	return ori_prm_message_encode(&ori_prm_init2rtr_message, rtr, in, length);
}

const struct ori_prm_message ori_prm_rtr2rts_message = {
	.name = "rtr2rts",
	.layout = ORI_PRM_MODIFY_QP_IN,
	.size = sizeof(struct ori_prm_rts),
	.visit = rtr2rts_visit,
};

enum oriel_status ori_prm_encode_rtr2rts(const struct ori_prm_rts *rts, void *in, size_t length)
{
	return ori_prm_message_encode(&ori_prm_rtr2rts_message, rts, in, length);
}

const struct ori_prm_message ori_prm_object_message = {
	.name = "object",
	.layout = ORI_PRM_COMMAND,
	.size = sizeof(struct ori_prm_object),
	.visit = object_visit,
};

enum oriel_status ori_prm_encode_object(const struct ori_prm_object *object, void *in,
					size_t length)
{
	return ori_prm_message_encode(&ori_prm_object_message, object, in, length);
}

const struct ori_prm_message ori_prm_query_caps_message = {
	.name = "query_caps",
	.layout = ORI_PRM_COMMAND,
	.size = sizeof(struct ori_prm_query_caps),
	.visit = query_caps_visit,
};

enum oriel_status ori_prm_encode_query_caps(const struct ori_prm_query_caps *query, void *in,
					    size_t length)
{
	return ori_prm_message_encode(&ori_prm_query_caps_message, query, in, length);
}

enum oriel_status ori_prm_path_mtu(uint32_t local, uint32_t remote, uint32_t *mtu)
{
	if (!is_mtu(local) || !is_mtu(remote))
		return ori_fail(ORIEL_ERR_INVALID,
				"PRM: MTU %u locally, %u at the peer: no such MTU", (unsigned)local,
				(unsigned)remote);
	*mtu = local < remote ? local : remote;
	return ORIEL_OK;
}
