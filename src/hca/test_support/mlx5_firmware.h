/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of the commands of mlx5_prm.h: what a firmware decodes and
 * answers. The fake mlx5 HCA and mlx5_prm_test call it; decode(encode(x)) is x.
 */
#ifndef ORI_HCA_TEST_SUPPORT_MLX5_FIRMWARE_H
#define ORI_HCA_TEST_SUPPORT_MLX5_FIRMWARE_H

#include "hca/mlx5/mlx5_prm.h"

/* The answer to QUERY_CQ. */
struct ori_prm_cq_state {
	uint32_t status;   /* 0, 9 overrun, 10 write failed */
	uint32_t consumer; /* modulo 2^24 */
	uint32_t producer; /* modulo 2^24 */
};

/* Strict: a bit that the encoder would not have set is ORIEL_ERR_PROTOCOL. */
enum oriel_status ori_prm_decode_create_cq(const void *in, size_t length, struct ori_prm_cq *cq);
enum oriel_status ori_prm_decode_create_qp(const void *in, size_t length, struct ori_prm_qp *qp);
enum oriel_status ori_prm_decode_rst2init(const void *in, size_t length, struct ori_prm_init *init);
enum oriel_status ori_prm_decode_init2rtr(const void *in, size_t length, struct ori_prm_rtr *rtr);
enum oriel_status ori_prm_decode_rtr2rts(const void *in, size_t length, struct ori_prm_rts *rts);
enum oriel_status ori_prm_decode_object(const void *in, size_t length,
					struct ori_prm_object *object);
enum oriel_status ori_prm_decode_query_caps(const void *in, size_t length,
					    struct ori_prm_query_caps *query);

/* As the encoders and decoders of mlx5_prm.h. */
enum oriel_status ori_prm_encode_reply(const struct ori_prm_reply *reply, void *out, size_t length);
enum oriel_status ori_prm_encode_caps(const struct ori_prm_caps *caps, void *out, size_t length);
enum oriel_status ori_prm_encode_paging_caps(const struct ori_prm_paging_caps *caps, void *out,
					     size_t length);
enum oriel_status ori_prm_encode_atomic_caps(const struct ori_prm_atomic_caps *caps, void *out,
					     size_t length);
enum oriel_status ori_prm_encode_qp_state(const struct ori_prm_qp_state *state, void *out,
					  size_t length);
enum oriel_status ori_prm_encode_cq_state(const struct ori_prm_cq_state *state, void *out,
					  size_t length);
enum oriel_status ori_prm_decode_cq_state(const void *out, size_t length,
					  struct ori_prm_cq_state *state);

/* The opcode of @in, by which an executor chooses the decoder to call. */
enum oriel_status ori_prm_command_opcode(const void *in, size_t length,
					 enum ori_prm_opcode *opcode);

#endif
