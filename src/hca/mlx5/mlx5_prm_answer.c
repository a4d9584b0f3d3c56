/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of the firmware to commands. mlx5_command.c decodes them. */
#include "hca/mlx5/mlx5_prm.h"
#include "hca/mlx5/mlx5_prm_codec.h"

#define LOG_PAGE_BASE 12 /* log_uar_page_sz counts from 4096 */

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
	uint32_t status = state->status, low = state->ordering & 1, high = state->ordering >> 1;
	struct ori_prm_view outer;

	ori_codec_answer(c, ORI_PRM_QUERY_QP_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_QP_OUT_QPC);
	ori_codec_u32(c, ORI_PRM_QPC_STATE, &status);
	ori_codec_u32(c, ORI_PRM_QPC_HW_SQ_WQEBB_COUNTER, &state->executed);
	ori_codec_u32(c, ORI_PRM_QPC_SW_SQ_WQEBB_COUNTER, &state->posted);
	ori_codec_u32(c, ORI_PRM_QPC_DP_ORDERING_0, &low);
	ori_codec_u32(c, ORI_PRM_QPC_DP_ORDERING_1, &high);
	ori_codec_flag(c, ORI_PRM_QPC_DP_ORDERING_FORCE, &state->is_order_forced);
	state->status = (enum ori_prm_qp_status)status;
	state->ordering = high << 1 | low;
	c->at = outer;
}

static void caps_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_caps *caps = parameters;
	struct ori_prm_view outer;

	ori_codec_answer(c, ORI_PRM_QUERY_GENERAL_OUT_REPLY);
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

static void paging_caps_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_paging_caps *caps = parameters;
	struct ori_prm_view outer;

	ori_codec_answer(c, ORI_PRM_QUERY_PAGING_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_PAGING_OUT_CAPS);
	ori_codec_flag(c, ORI_PRM_PAGING_CAPS_MEM_PAGE_FAULT, &caps->has_memory_faults);
	c->at = outer;
}

static void atomic_caps_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_atomic_caps *caps = parameters;
	struct ori_prm_view outer;

	ori_codec_answer(c, ORI_PRM_QUERY_ATOMIC_OUT_REPLY);
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

const struct ori_prm_message ori_prm_reply_message = {
	.name = "reply",
	.layout = ORI_PRM_REPLY,
	.size = sizeof(struct ori_prm_reply),
	.visit = reply_visit,
};

enum oriel_status ori_prm_decode_reply(const void *out, size_t length, struct ori_prm_reply *reply)
{
	return ori_prm_message_decode(&ori_prm_reply_message, out, length, reply);
}

const struct ori_prm_message ori_prm_qp_state_message = {
	.name = "qp_state",
	.layout = ORI_PRM_QUERY_QP_OUT,
	.size = sizeof(struct ori_prm_qp_state),
	.visit = qp_state_visit,
};

enum oriel_status ori_prm_decode_qp_state(const void *out, size_t length,
					  struct ori_prm_qp_state *state)
{
	return ori_prm_message_decode(&ori_prm_qp_state_message, out, length, state);
}

const struct ori_prm_message ori_prm_caps_message = {
	.name = "caps",
	.layout = ORI_PRM_QUERY_GENERAL_OUT,
	.size = sizeof(struct ori_prm_caps),
	.visit = caps_visit,
};

enum oriel_status ori_prm_decode_caps(const void *out, size_t length, struct ori_prm_caps *caps)
{
	return ori_prm_message_decode(&ori_prm_caps_message, out, length, caps);
}

const struct ori_prm_message ori_prm_paging_caps_message = {
	.name = "paging_caps",
	.layout = ORI_PRM_QUERY_PAGING_OUT,
	.size = sizeof(struct ori_prm_paging_caps),
	.visit = paging_caps_visit,
};

enum oriel_status ori_prm_decode_paging_caps(const void *out, size_t length,
					     struct ori_prm_paging_caps *caps)
{
	return ori_prm_message_decode(&ori_prm_paging_caps_message, out, length, caps);
}

const struct ori_prm_message ori_prm_atomic_caps_message = {
	.name = "atomic_caps",
	.layout = ORI_PRM_QUERY_ATOMIC_OUT,
	.size = sizeof(struct ori_prm_atomic_caps),
	.visit = atomic_caps_visit,
};

enum oriel_status ori_prm_decode_atomic_caps(const void *out, size_t length,
					     struct ori_prm_atomic_caps *caps)
{
	return ori_prm_message_decode(&ori_prm_atomic_caps_message, out, length, caps);
}
