/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of commands: one visit function per command writes or reads its
 * fields. mlx5_prm.c and mlx5_prm_answer.c call it.
 */
#include "hca/mlx5/mlx5_prm_codec.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "hca/mlx5/mlx5_prm.h"

#define LONGEST ORI_PRM_QUERY_HCA_CAP_LENGTH

union parameters {
	struct ori_prm_cq cq;
	struct ori_prm_qp qp;
	struct ori_prm_init init;
	struct ori_prm_rtr rtr;
	struct ori_prm_rts rts;
	struct ori_prm_object object;
	struct ori_prm_query_caps query_caps;
	struct ori_prm_reply reply;
	struct ori_prm_caps caps;
	struct ori_prm_atomic_caps atomic_caps;
};

void ori_codec_u32(struct ori_codec *c, enum ori_prm_field field, uint32_t *value)
{
	if (c->status == ORIEL_OK)
		c->status = c->is_decoding ? ori_prm_get(c->at, field, value)
					   : ori_prm_set(c->at, field, *value);
}

void ori_codec_u64(struct ori_codec *c, enum ori_prm_field field, uint64_t *value)
{
	if (c->status == ORIEL_OK)
		c->status = c->is_decoding ? ori_prm_get64(c->at, field, value)
					   : ori_prm_set64(c->at, field, *value);
}

void ori_codec_flag(struct ori_codec *c, enum ori_prm_field field, bool *is_set)
{
	uint32_t bit = *is_set;

	ori_codec_u32(c, field, &bit);
	*is_set = bit;
}

void ori_codec_constant(struct ori_codec *c, enum ori_prm_field field, uint32_t value)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	uint32_t found = value;

	ori_codec_u32(c, field, &found);
	if (c->status == ORIEL_OK && found != value)
		c->status = ori_fail(ORIEL_ERR_PROTOCOL, "PRM: %s.%s is 0x%x, must be 0x%x",
				     ori_prm_layout_name(row->layout), row->name, (unsigned)found,
				     (unsigned)value);
}

static void codec_encode_log2(struct ori_codec *c, enum ori_prm_field field, uint32_t base,
			      uint32_t count)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	uint32_t log;

	if (count >> base == 0 || (count & (count - 1)) != 0) {
		c->status =
			ori_fail(ORIEL_ERR_INVALID, "PRM: %s.%s: %u is no power of two from %u up",
				 ori_prm_layout_name(row->layout), row->name, (unsigned)count,
				 1u << base);
		return;
	}
	log = (uint32_t)__builtin_ctz(count) - base;
	ori_codec_u32(c, field, &log);
}

static void codec_decode_log2(struct ori_codec *c, enum ori_prm_field field, uint32_t base,
			      uint32_t *count)
{
	const struct ori_prm_row *row = ori_prm_field_row(field);
	uint32_t log = 0;

	ori_codec_u32(c, field, &log);
	if (c->status != ORIEL_OK)
		return;
	if (log <= 31 - base)
		*count = 1u << (log + base);
	else
		c->status = ori_fail(ORIEL_ERR_PROTOCOL, "PRM: %s.%s is %u, a size beyond 32 bits",
				     ori_prm_layout_name(row->layout), row->name, (unsigned)log);
}

void ori_codec_log2(struct ori_codec *c, enum ori_prm_field field, uint32_t base, uint32_t *count)
{
	if (c->status != ORIEL_OK)
		return;
	if (c->is_decoding)
		codec_decode_log2(c, field, base, count);
	else
		codec_encode_log2(c, field, base, *count);
}

struct ori_prm_view ori_codec_enter(struct ori_codec *c, enum ori_prm_field field)
{
	struct ori_prm_view outer = c->at;

	if (c->status == ORIEL_OK)
		c->status = ori_prm_inner(outer, field, &c->at);
	return outer;
}

void ori_codec_answer(struct ori_codec *c, enum ori_prm_field field)
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

static enum oriel_status message_length(const struct ori_prm_message *m, size_t length)
{
	size_t expected = ori_prm_layout_length(m->layout);

	assert(expected <= LONGEST && m->size <= sizeof(union parameters));
	if (length == expected)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_INVALID, "PRM: %s has %zu bytes, given %zu", m->name, expected,
			length);
}

enum oriel_status ori_prm_message_encode(const struct ori_prm_message *m, const void *parameters,
					 void *bytes, size_t length)
{
	enum oriel_status status = message_length(m, length);
	uint8_t scratch[LONGEST] = {0};
	struct ori_codec c = {.at = {m->layout, scratch}};
	union parameters copy;

	if (status != ORIEL_OK)
		return status;
	memcpy(&copy, parameters, m->size);
	m->visit(&c, &copy);
	if (c.status == ORIEL_OK)
		memcpy(bytes, scratch, length);
	return c.status;
}

enum oriel_status ori_prm_message_decode(const struct ori_prm_message *m, const void *bytes,
					 size_t length, void *parameters)
{
	enum oriel_status status = message_length(m, length);
	uint8_t scratch[LONGEST];
	struct ori_codec c = {.at = {m->layout, scratch}, .is_decoding = true};
	union parameters found;

	if (status != ORIEL_OK)
		return status;
	memcpy(scratch, bytes, length);
	memset(&found, 0, sizeof(found));
	m->visit(&c, &found);
	if (c.status == ORIEL_OK)
		memcpy(parameters, &found, m->size);
	return c.status;
}
