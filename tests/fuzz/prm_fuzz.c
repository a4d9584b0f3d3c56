/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the answers of a NIC's firmware to commands: a byte that says which answer, two
 * with its length, or all ones for the right one, then its bytes. A decoder writes all of its
 * output or none; an answer that is no success is never taken for one; sizes are powers of two.
 */
#include <string.h>

#include "fuzz.h"
#include "hca/mlx5/mlx5_prm.h"

#define PRM_RIGHT 0xffffu
#define PRM_UNTOUCHED 0xa5

union answers {
	struct ori_prm_reply reply;
	struct ori_prm_qp_state qp_state;
	struct ori_prm_caps caps;
	struct ori_prm_paging_caps paging;
	struct ori_prm_atomic_caps atomic;
	uint8_t bytes[128];
};

static enum oriel_status decode_reply(const void *out, size_t length, union answers *a)
{
	return ori_prm_decode_reply(out, length, &a->reply);
}

static enum oriel_status decode_qp_state(const void *out, size_t length, union answers *a)
{
	enum oriel_status status = ori_prm_decode_qp_state(out, length, &a->qp_state);

	if (status == ORIEL_OK)
		FUZZ_CHECK(a->qp_state.executed <= 0xffff && a->qp_state.posted <= 0xffff &&
			   a->qp_state.ordering <= 3);
	return status;
}

static bool prm_is_power(uint32_t number)
{
	return number && !(number & (number - 1));
}

static enum oriel_status decode_caps(const void *out, size_t length, union answers *a)
{
	enum oriel_status status = ori_prm_decode_caps(out, length, &a->caps);

	if (status == ORIEL_OK)
		FUZZ_CHECK(prm_is_power(a->caps.qp_depth_max) &&
			   prm_is_power(a->caps.cq_depth_max) && prm_is_power(a->caps.bf_length) &&
			   prm_is_power(a->caps.uar_page_length) &&
			   a->caps.uar_page_length >= 4096);
	return status;
}

static enum oriel_status decode_paging(const void *out, size_t length, union answers *a)
{
	return ori_prm_decode_paging_caps(out, length, &a->paging);
}

static enum oriel_status decode_atomic(const void *out, size_t length, union answers *a)
{
	return ori_prm_decode_atomic_caps(out, length, &a->atomic);
}

static const struct {
	size_t length;
	enum oriel_status (*decode)(const void *out, size_t length, union answers *a);
} decoders[] = {
	{ORI_PRM_REPLY_LENGTH, decode_reply},
	{ORI_PRM_QUERY_LENGTH, decode_qp_state},
	{ORI_PRM_QUERY_HCA_CAP_LENGTH, decode_caps},
	{ORI_PRM_QUERY_HCA_CAP_LENGTH, decode_paging},
	{ORI_PRM_QUERY_HCA_CAP_LENGTH, decode_atomic},
};

#define DECODERS (sizeof(decoders) / sizeof(decoders[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	unsigned which = fuzz_byte(&in) % DECODERS, length = fuzz_byte(&in);
	uint8_t out[ORI_PRM_QUERY_HCA_CAP_LENGTH] = {0};
	union answers found, before;
	enum oriel_status status;

	length |= (unsigned)fuzz_byte(&in) << 8;
	if (length == PRM_RIGHT)
		length = (unsigned)decoders[which].length;
	if (length > sizeof(out))
		length = sizeof(out);
	memcpy(out, in.at, in.left < length ? in.left : length);
	memset(&before, PRM_UNTOUCHED, sizeof(before));
	found = before;
	status = decoders[which].decode(out, length, &found);
	if (status != ORIEL_OK)
		FUZZ_CHECK(memcmp(&found, &before, sizeof(found)) == 0 && *oriel_last_error());
	if (length != decoders[which].length)
		FUZZ_CHECK(status == ORIEL_ERR_INVALID);
	else if (which == 0)
		FUZZ_CHECK(status == ORIEL_OK && found.reply.status == out[0]);
	else if (out[0]) /* the status: the first byte of each answer */
		FUZZ_CHECK(status == ORIEL_ERR_SYSTEM);
	else
		FUZZ_CHECK(status == ORIEL_OK || status == ORIEL_ERR_PROTOCOL);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	size_t length;

	if (n >= 4 * DECODERS)
		return 0;
	length = decoders[n % DECODERS].length;
	memset(bytes, n / DECODERS & 1 ? 0x0a : 0, 3 + length);
	bytes[0] = (uint8_t)(n % DECODERS);
	bytes[1] = bytes[2] = 0xff;
	if (n / DECODERS != 3)
		memset(bytes + 3, 0, 8); /* success */
	return 3 + length;
}
