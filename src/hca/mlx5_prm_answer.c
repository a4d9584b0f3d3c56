/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's answers to commands: encoders for the fake firmware of the
 * tests, decoders for mlx5_command.c.
 */
#include "base/error.h"
#include "hca/mlx5_prm.h"
#include "hca/mlx5_prm_codec.h"

#define LOG_PAGE_BASE 12 /* log_uar_page_sz counts from 4096 */

/* The head of an answer that returns more than a status; zero when encoding. */
static void answer_head(struct ori_codec *c, enum ori_prm_field field)
{
	struct ori_prm_view outer = ori_codec_enter(c, field);
	uint32_t status = 0, syndrome = 0;

	ori_codec_u32(c, ORI_PRM_REPLY_STATUS, &status);
	ori_codec_u32(c, ORI_PRM_REPLY_SYNDROME, &syndrome);
	if (c->status == ORIEL_OK && status != 0)
		c->status =
			ori_fail(ORIEL_ERR_SYSTEM,
				 "PRM: the firmware rejected the query: status 0x%x, syndrome 0x%x",
				 (unsigned)status, (unsigned)syndrome);
	c->at = outer;
}

static void reply_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_reply *reply = parameters;

	ori_codec_u32(c, ORI_PRM_REPLY_STATUS, &reply->status);
	ori_codec_u32(c, ORI_PRM_REPLY_SYNDROME, &reply->syndrome);
	ori_codec_u32(c, ORI_PRM_REPLY_NUMBER, &reply->number);
}

static void qp_state_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_qp_state *state = parameters;
	uint32_t status = state->status;
	struct ori_prm_view outer;

	answer_head(c, ORI_PRM_QUERY_QP_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_QP_OUT_QPC);
	ori_codec_u32(c, ORI_PRM_QPC_STATE, &status);
	ori_codec_u32(c, ORI_PRM_QPC_HW_SQ_WQEBB_COUNTER, &state->executed);
	ori_codec_u32(c, ORI_PRM_QPC_SW_SQ_WQEBB_COUNTER, &state->posted);
	state->status = (enum ori_prm_qp_status)status;
	c->at = outer;
}

static void cq_state_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_cq_state *state = parameters;
	struct ori_prm_view outer;

	answer_head(c, ORI_PRM_QUERY_CQ_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_CQ_OUT_CQC);
	ori_codec_u32(c, ORI_PRM_CQC_STATUS, &state->status);
	ori_codec_u32(c, ORI_PRM_CQC_CONSUMER_COUNTER, &state->consumer);
	ori_codec_u32(c, ORI_PRM_CQC_PRODUCER_COUNTER, &state->producer);
	c->at = outer;
}

static void caps_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_caps *caps = parameters;
	struct ori_prm_view outer;

	answer_head(c, ORI_PRM_QUERY_GENERAL_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_GENERAL_OUT_CAPS);
	ori_codec_log2(c, ORI_PRM_GENERAL_CAPS_LOG_MAX_QP_SZ, 0, &caps->qp_depth_max);
	ori_codec_log2(c, ORI_PRM_GENERAL_CAPS_LOG_MAX_CQ_SZ, 0, &caps->cq_depth_max);
	ori_codec_u32(c, ORI_PRM_GENERAL_CAPS_CQE_VERSION, &caps->cqe_version);
	ori_codec_flag(c, ORI_PRM_GENERAL_CAPS_CQ_OI, &caps->can_ignore_overrun);
	ori_codec_flag(c, ORI_PRM_GENERAL_CAPS_CD, &caps->can_wait);
	ori_codec_flag(c, ORI_PRM_GENERAL_CAPS_UAR_4K, &caps->has_uar_4k);
	ori_codec_log2(c, ORI_PRM_GENERAL_CAPS_LOG_BF_REG_SIZE, 0, &caps->bf_length);
	ori_codec_log2(c, ORI_PRM_GENERAL_CAPS_LOG_UAR_PAGE_SZ, LOG_PAGE_BASE,
		       &caps->uar_page_length);
	c->at = outer;
}

static void atomic_caps_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_atomic_caps *caps = parameters;
	struct ori_prm_view outer;

	answer_head(c, ORI_PRM_QUERY_ATOMIC_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_ATOMIC_OUT_CAPS);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_REQ_8B_ENDIANNESS_MODE, &caps->endianness_mode);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_OPERATIONS, &caps->operations);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_SIZE_QP, &caps->sizes_qp);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_SIZE_DC, &caps->sizes_dc);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_FETCH_ADD_PCI, &caps->pci_fetch_add);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_SWAP_PCI, &caps->pci_swap);
	ori_codec_u32(c, ORI_PRM_ATOMIC_CAPS_COMPARE_SWAP_PCI, &caps->pci_compare_swap);
	c->at = outer;
}

static const struct ori_prm_message reply_message = {
	.name = "reply",
	.layout = ORI_PRM_REPLY,
	.size = sizeof(struct ori_prm_reply),
	.visit = reply_visit,
};

enum oriel_status ori_prm_encode_reply(const struct ori_prm_reply *reply, void *out, size_t length)
{
	return ori_prm_message_encode(&reply_message, reply, out, length);
}

enum oriel_status ori_prm_decode_reply(const void *out, size_t length, struct ori_prm_reply *reply)
{
	return ori_prm_message_decode(&reply_message, out, length, reply);
}

static const struct ori_prm_message qp_state_message = {
	.name = "qp_state",
	.layout = ORI_PRM_QUERY_QP_OUT,
	.size = sizeof(struct ori_prm_qp_state),
	.visit = qp_state_visit,
};

enum oriel_status ori_prm_encode_qp_state(const struct ori_prm_qp_state *state, void *out,
					  size_t length)
{
	return ori_prm_message_encode(&qp_state_message, state, out, length);
}

enum oriel_status ori_prm_decode_qp_state(const void *out, size_t length,
					  struct ori_prm_qp_state *state)
{
	return ori_prm_message_decode(&qp_state_message, out, length, state);
}

static const struct ori_prm_message cq_state_message = {
	.name = "cq_state",
	.layout = ORI_PRM_QUERY_CQ_OUT,
	.size = sizeof(struct ori_prm_cq_state),
	.visit = cq_state_visit,
};

enum oriel_status ori_prm_encode_cq_state(const struct ori_prm_cq_state *state, void *out,
					  size_t length)
{
	return ori_prm_message_encode(&cq_state_message, state, out, length);
}

enum oriel_status ori_prm_decode_cq_state(const void *out, size_t length,
					  struct ori_prm_cq_state *state)
{
	return ori_prm_message_decode(&cq_state_message, out, length, state);
}

static const struct ori_prm_message caps_message = {
	.name = "caps",
	.layout = ORI_PRM_QUERY_GENERAL_OUT,
	.size = sizeof(struct ori_prm_caps),
	.visit = caps_visit,
};

enum oriel_status ori_prm_encode_caps(const struct ori_prm_caps *caps, void *out, size_t length)
{
	return ori_prm_message_encode(&caps_message, caps, out, length);
}

enum oriel_status ori_prm_decode_caps(const void *out, size_t length, struct ori_prm_caps *caps)
{
	return ori_prm_message_decode(&caps_message, out, length, caps);
}

static const struct ori_prm_message atomic_caps_message = {
	.name = "atomic_caps",
	.layout = ORI_PRM_QUERY_ATOMIC_OUT,
	.size = sizeof(struct ori_prm_atomic_caps),
	.visit = atomic_caps_visit,
};

enum oriel_status ori_prm_encode_atomic_caps(const struct ori_prm_atomic_caps *caps, void *out,
					     size_t length)
{
	return ori_prm_message_encode(&atomic_caps_message, caps, out, length);
}

enum oriel_status ori_prm_decode_atomic_caps(const void *out, size_t length,
					     struct ori_prm_atomic_caps *caps)
{
	return ori_prm_message_decode(&atomic_caps_message, out, length, caps);
}
