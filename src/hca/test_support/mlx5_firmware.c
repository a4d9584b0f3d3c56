/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders of commands and encoders of answers, by the visit functions that the
 * library's encoders and decoders use. The fake mlx5 HCA and mlx5_prm_test call
 * them.
 */
#include "hca/test_support/mlx5_firmware.h"

#include <string.h>

#include "base/error.h"
#include "hca/mlx5/mlx5_prm_codec.h"

#define LONGEST ORI_PRM_CREATE_LENGTH

/*
 * Bytes that mean more than the parameters hold would be executed without the
 * rest: what encodes to other bytes is rejected.
 */
static enum oriel_status command_decode(const struct ori_prm_message *m, const void *in,
					size_t length, void *parameters)
{
	uint64_t found[32] = {0};
	uint8_t plain[LONGEST];
	enum oriel_status status = ori_prm_message_decode(m, in, length, found);

	if (status == ORIEL_OK)
		status = ori_prm_message_encode(m, found, plain, length);
	if (status == ORIEL_OK && memcmp(in, plain, length) != 0)
		status = ori_fail(ORIEL_ERR_PROTOCOL, "PRM: %s has bits that it may not have",
				  m->name);
	if (status == ORIEL_OK)
		memcpy(parameters, found, m->size);
	return status;
}

enum oriel_status ori_prm_decode_create_cq(const void *in, size_t length, struct ori_prm_cq *cq)
{
	return command_decode(&ori_prm_create_cq_message, in, length, cq);
}

enum oriel_status ori_prm_decode_create_qp(const void *in, size_t length, struct ori_prm_qp *qp)
{
	return command_decode(&ori_prm_create_qp_message, in, length, qp);
}

enum oriel_status ori_prm_decode_rst2init(const void *in, size_t length, struct ori_prm_init *init)
{
	return command_decode(&ori_prm_rst2init_message, in, length, init);
}

enum oriel_status ori_prm_decode_init2rtr(const void *in, size_t length, struct ori_prm_rtr *rtr)
{
	return command_decode(&ori_prm_init2rtr_message, in, length, rtr);
}

enum oriel_status ori_prm_decode_rtr2rts(const void *in, size_t length, struct ori_prm_rts *rts)
{
	return command_decode(&ori_prm_rtr2rts_message, in, length, rts);
}

enum oriel_status ori_prm_decode_object(const void *in, size_t length,
					struct ori_prm_object *object)
{
	return command_decode(&ori_prm_object_message, in, length, object);
}

enum oriel_status ori_prm_decode_query_caps(const void *in, size_t length,
					    struct ori_prm_query_caps *query)
{
	return command_decode(&ori_prm_query_caps_message, in, length, query);
}

static void cq_state_visit(struct ori_codec *c, void *parameters)
{
	struct ori_prm_cq_state *state = parameters;
	struct ori_prm_view outer;

	ori_codec_answer(c, ORI_PRM_QUERY_CQ_OUT_REPLY);
	outer = ori_codec_enter(c, ORI_PRM_QUERY_CQ_OUT_CQC);
	ori_codec_u32(c, ORI_PRM_CQC_STATUS, &state->status);
	ori_codec_u32(c, ORI_PRM_CQC_CONSUMER_COUNTER, &state->consumer);
	ori_codec_u32(c, ORI_PRM_CQC_PRODUCER_COUNTER, &state->producer);
	c->at = outer;
}

static const struct ori_prm_message cq_state_message = {
	.name = "cq_state",
	.layout = ORI_PRM_QUERY_CQ_OUT,
	.size = sizeof(struct ori_prm_cq_state),
	.visit = cq_state_visit,
};

enum oriel_status ori_prm_encode_reply(const struct ori_prm_reply *reply, void *out, size_t length)
{
	return ori_prm_message_encode(&ori_prm_reply_message, reply, out, length);
}

enum oriel_status ori_prm_encode_caps(const struct ori_prm_caps *caps, void *out, size_t length)
{
	return ori_prm_message_encode(&ori_prm_caps_message, caps, out, length);
}

enum oriel_status ori_prm_encode_paging_caps(const struct ori_prm_paging_caps *caps, void *out,
					     size_t length)
{
	return ori_prm_message_encode(&ori_prm_paging_caps_message, caps, out, length);
}

enum oriel_status ori_prm_encode_atomic_caps(const struct ori_prm_atomic_caps *caps, void *out,
					     size_t length)
{
	return ori_prm_message_encode(&ori_prm_atomic_caps_message, caps, out, length);
}

enum oriel_status ori_prm_encode_qp_state(const struct ori_prm_qp_state *state, void *out,
					  size_t length)
{
	return ori_prm_message_encode(&ori_prm_qp_state_message, state, out, length);
}

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

enum oriel_status ori_prm_command_opcode(const void *in, size_t length, enum ori_prm_opcode *opcode)
{
	uint8_t head[ORI_PRM_COMMAND_LENGTH];
	struct ori_prm_view view = {ORI_PRM_COMMAND, head};
	enum oriel_status status;
	uint32_t found;

	if (length < sizeof(head))
		return ori_fail(ORIEL_ERR_PROTOCOL, "PRM: a command has %zu bytes: too few",
				length);
	memcpy(head, in, sizeof(head));
	status = ori_prm_get(view, ORI_PRM_COMMAND_OPCODE, &found);
	if (status == ORIEL_OK)
		*opcode = (enum ori_prm_opcode)found;
	return status;
}
