/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A codec that visits the fields of a command and either writes or reads them:
 * one function per command serves encoder and decoder, which thus cannot
 * disagree. Used by one thread.
 */
#ifndef ORI_HCA_MLX5_PRM_CODEC_H
#define ORI_HCA_MLX5_PRM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#include "hca/mlx5/mlx5_prm_tables.h"

struct ori_codec {
	struct ori_prm_view at;
	bool is_decoding;
	enum oriel_status status; /* of the first step that failed; later steps do nothing */
};

void ori_codec_u32(struct ori_codec *c, enum ori_prm_field field, uint32_t *value);
void ori_codec_u64(struct ori_codec *c, enum ori_prm_field field, uint64_t *value);
void ori_codec_flag(struct ori_codec *c, enum ori_prm_field field, bool *is_set);

/* Written when encoding, demanded when decoding. */
void ori_codec_constant(struct ori_codec *c, enum ori_prm_field field, uint32_t value);

/* A power of two @count, as its logarithm above @base. */
void ori_codec_log2(struct ori_codec *c, enum ori_prm_field field, uint32_t base, uint32_t *count);

/* Enter the structure @field; returns the view to restore afterwards. */
struct ori_prm_view ori_codec_enter(struct ori_codec *c, enum ori_prm_field field);

/*
 * The head of an answer that returns more than a status; zero when encoding. A
 * status that is not 0 is ORIEL_ERR_SYSTEM.
 */
void ori_codec_answer(struct ori_codec *c, enum ori_prm_field field);

/* A command or an answer, and the struct that holds it in host terms. */
struct ori_prm_message {
	const char *name;
	enum ori_prm_layout layout;
	size_t size; /* of the struct */
	void (*visit)(struct ori_codec *c, void *parameters);
};

/* Nothing is written on failure. @length must be that of the message. */
enum oriel_status ori_prm_message_encode(const struct ori_prm_message *m, const void *parameters,
					 void *bytes, size_t length);
enum oriel_status ori_prm_message_decode(const struct ori_prm_message *m, const void *bytes,
					 size_t length, void *parameters);

/* The messages of mlx5_prm.c and mlx5_prm_answer.c, for the firmware's side. */
extern const struct ori_prm_message ori_prm_create_cq_message;
extern const struct ori_prm_message ori_prm_create_qp_message;
extern const struct ori_prm_message ori_prm_rst2init_message;
extern const struct ori_prm_message ori_prm_init2rtr_message;
extern const struct ori_prm_message ori_prm_rtr2rts_message;
extern const struct ori_prm_message ori_prm_object_message;
extern const struct ori_prm_message ori_prm_query_caps_message;
extern const struct ori_prm_message ori_prm_reply_message;
extern const struct ori_prm_message ori_prm_qp_state_message;
extern const struct ori_prm_message ori_prm_caps_message;
extern const struct ori_prm_message ori_prm_paging_caps_message;
extern const struct ori_prm_message ori_prm_atomic_caps_message;

#endif
