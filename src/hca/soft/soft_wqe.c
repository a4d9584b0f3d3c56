/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a WQE by the rules of the PRM and rejects what real hardware might
 * accept by chance. The send queue calls it.
 */
#include "hca/soft/soft_wqe.h"

#include <oriel/dev/detail/mlx5.h>
#include <stdio.h>
#include <string.h>

#define WQE_FENCE_MOST 4u
#define WQE_UNITS_MOST 5u

static uint32_t wqe_word(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t wqe_long(const uint8_t *at)
{
	return (uint64_t)wqe_word(at) << 32 | wqe_word(at + 4);
}

static bool wqe_is_zero(const uint8_t *at, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (at[i])
			return false;
	return true;
}

/* ctrl: index and queue, length, fence, and whether the WQE is signaled. */
static const char *wqe_control(const uint8_t *b, uint64_t index, uint32_t qpn, struct soft_wqe *w)
{
	uint32_t units = b[7] & 0x3f;

	if (b[0] && w->opcode == ORIEL_MLX5_WAIT)
		return "a WAIT for data or time, an operation modifier that is not supported";
	if (b[0] && !ori_soft_wqe_is_masked(w))
		return "an operation modifier, which is not supported";
	if ((wqe_word(b) >> 8 & 0xffff) != (index & 0xffff))
		return "the index of another WQE: stale, or written to the wrong slot";
	if (wqe_word(b + 4) >> 8 != qpn)
		return "the number of another QP";
	if (b[7] & 0xc0)
		return "reserved bits beside the length";
	if (units == 0 || units > WQE_UNITS_MOST)
		return "a length that is not 1 to 5 units of 16 bytes";
	if (b[8])
		return "a signature, which this QP does not use";
	if (!wqe_is_zero(b + 9, 2) ||
	    (w->opcode != ORIEL_MLX5_WRITE_IMM && !wqe_is_zero(b + 12, 4)))
		return "reserved bytes that are not zero";
	if (b[11] & 0x11)
		return "reserved bits beside the fence";
	w->fence = b[11] >> 5;
	if (w->fence > WQE_FENCE_MOST)
		return "an unknown fence";
	switch (b[11] & 0x0c) {
	case 0x00:
		w->is_signaled = false;
		return NULL;
	case 0x08:
		w->is_signaled = true;
		return NULL;
	}
	return "a completion mode other than on error and always";
}

static const char *wqe_remote(const uint8_t *b, struct soft_wqe *w)
{
	w->remote = wqe_long(b);
	w->rkey = wqe_word(b + 8);
	return wqe_is_zero(b + 12, 4) ? NULL : "reserved bytes behind the remote key";
}

static const char *wqe_data(const uint8_t *b, struct soft_wqe *w)
{
	w->length = wqe_word(b);
	w->lkey = wqe_word(b + 4);
	w->local = wqe_long(b + 8);
	if (w->length == 0)
		return "a byte count of 0, which means 2^31 bytes";
	if (w->length > SOFT_WQE_MOST)
		return "a byte count beyond 2^30";
	return NULL;
}

/* @units that a WQE with @length inline bytes must have. */
static uint32_t wqe_inline_units(uint32_t length)
{
	return 2 + (4 + length + 15) / 16;
}

static const char *wqe_inline(const uint8_t *b, uint32_t units, struct soft_wqe *w)
{
	uint32_t length = wqe_word(b) & 0x7fffffff;

	if (length == 0 || length > SOFT_WQE_INLINE)
		return "inline data that is not 1 to 28 bytes";
	if (units != wqe_inline_units(length))
		return "a length that does not fit its inline data";
	if (!wqe_is_zero(b + 4 + length, (units - 2) * 16 - 4 - length))
		return "padding of inline data that is not zero";
	w->length = length;
	w->is_inline = true;
	memcpy(w->data, b + 4, length);
	return NULL;
}

static const char *wqe_move(const uint8_t *b, uint32_t units, struct soft_wqe *w)
{
	const char *flaw = units < 2 ? "no remote address" : wqe_remote(b + 16, w);

	if (flaw || units == 2)
		return flaw;
	if (ori_soft_wqe_is_writing(w) && (b[32] & 0x80))
		return wqe_inline(b + 32, units, w);
	if (units != 3)
		return "a length that is not that of its operation";
	return wqe_data(b + 32, w);
}

static const char *wqe_atomic(const uint8_t *b, uint32_t units, struct soft_wqe *w)
{
	const char *flaw;

	if (units != 4)
		return "a length that is not that of its operation";
	flaw = wqe_remote(b + 16, w);
	if (flaw)
		return flaw;
	w->operand = wqe_long(b + 32);
	w->compare = wqe_long(b + 40);
	if (w->opcode == ORIEL_MLX5_FETCH_ADD && w->compare)
		return "a compare value in a fetch-and-add";
	flaw = wqe_data(b + 48, w);
	if (!flaw && w->length != 8)
		return "a result of an atomic that is not 8 bytes";
	return flaw;
}

/* The operands of a masked atomic of 4 bytes. */
static void wqe_masks_short(const uint8_t *b, struct soft_wqe *w)
{
	bool is_add = w->opcode == ORIEL_MLX5_MASKED_FETCH_ADD;

	w->operand = wqe_word(b);
	w->compare = is_add ? 0 : wqe_word(b + 4);
	w->swap_mask = is_add ? 0 : wqe_word(b + 8);
	w->mask = is_add ? wqe_word(b + 4) : wqe_word(b + 12);
}

static void wqe_masks_long(const uint8_t *b, struct soft_wqe *w)
{
	bool is_add = w->opcode == ORIEL_MLX5_MASKED_FETCH_ADD;

	w->operand = wqe_long(b);
	w->compare = is_add ? 0 : wqe_long(b + 8);
	w->swap_mask = is_add ? 0 : wqe_long(b + 16);
	w->mask = is_add ? wqe_long(b + 8) : wqe_long(b + 24);
}

static const char *wqe_masked(const uint8_t *b, uint32_t units, struct soft_wqe *w)
{
	bool is_add = w->opcode == ORIEL_MLX5_MASKED_FETCH_ADD;
	bool is_long = b[0] == ORIEL_MLX5_MASKED_64;
	const char *flaw;

	if (!is_long && b[0] != ORIEL_MLX5_MASKED_32)
		return "an operation modifier that is neither for 4 nor for 8 bytes";
	if (units != (is_long && !is_add ? 5 : 4))
		return "a length that is not that of its operation";
	flaw = wqe_remote(b + 16, w);
	if (flaw)
		return flaw;
	if (is_long)
		wqe_masks_long(b + 32, w);
	else
		wqe_masks_short(b + 32, w);
	if (is_add && !is_long && !wqe_is_zero(b + 40, 8))
		return "reserved bytes behind a field boundary";
	flaw = wqe_data(b + 16 * (units - 1), w);
	if (!flaw && w->length != (is_long ? 8 : 4))
		return "a result of an atomic that is not as long as its operand";
	return flaw;
}

static const char *wqe_wait(const uint8_t *b, uint32_t units, struct soft_wqe *w)
{
	if (units != 2)
		return "a length that is not that of its operation";
	if (!wqe_is_zero(b + 16, 8) || b[24] || b[28])
		return "reserved bytes of a WAIT that are not zero";
	w->wait_index = wqe_word(b + 24);
	w->wait_cqn = wqe_word(b + 28);
	return NULL;
}

unsigned ori_soft_wqe_blocks(const uint8_t first[64])
{
	uint32_t units = first[7] & 0x3f;

	return units > 4 && units <= WQE_UNITS_MOST ? 2 : 1;
}

const char *ori_soft_wqe_parse(const uint8_t *bytes, unsigned blocks, uint64_t index, uint32_t qpn,
			       struct soft_wqe *wqe)
{
	uint32_t units = bytes[7] & 0x3f;
	const char *flaw;

	*wqe = (struct soft_wqe){.opcode = bytes[3], .is_signaled = true};
	flaw = wqe_control(bytes, index, qpn, wqe);
	if (flaw)
		return flaw;
	if (ori_soft_wqe_blocks(bytes) > blocks)
		return "a length beyond what is posted";
	switch (wqe->opcode) {
	case ORIEL_MLX5_NOP:
		return units == 1 ? NULL : "a length that is not that of its operation";
	case ORIEL_MLX5_WRITE_IMM:
		wqe->immediate = wqe_word(bytes + ORIEL_MLX5_WQE_IMMEDIATE);
		return wqe_move(bytes, units, wqe);
	case ORIEL_MLX5_WRITE:
	case ORIEL_MLX5_READ:
		return wqe_move(bytes, units, wqe);
	case ORIEL_MLX5_FETCH_ADD:
	case ORIEL_MLX5_COMPARE_SWAP:
		return wqe_atomic(bytes, units, wqe);
	case ORIEL_MLX5_MASKED_FETCH_ADD:
	case ORIEL_MLX5_MASKED_COMPARE_SWAP:
		return wqe_masked(bytes, units, wqe);
	case ORIEL_MLX5_WAIT:
		return wqe_wait(bytes, units, wqe);
	case ORIEL_MLX5_DUMP:
		if (units != 2)
			return "a length that is not that of its operation";
		return wqe_data(bytes + 16, wqe);
	}
	return "an operation that is not supported";
}

bool ori_soft_wqe_is_masked(const struct soft_wqe *wqe)
{
	return wqe->opcode == ORIEL_MLX5_MASKED_FETCH_ADD ||
	       wqe->opcode == ORIEL_MLX5_MASKED_COMPARE_SWAP;
}

bool ori_soft_wqe_is_writing(const struct soft_wqe *wqe)
{
	return wqe->opcode == ORIEL_MLX5_WRITE || wqe->opcode == ORIEL_MLX5_WRITE_IMM;
}

bool ori_soft_wqe_is_double(const struct soft_wqe *wqe)
{
	return wqe->opcode == ORIEL_MLX5_MASKED_COMPARE_SWAP && wqe->length == 8;
}

bool ori_soft_wqe_is_fetching(const struct soft_wqe *wqe)
{
	return wqe->opcode == ORIEL_MLX5_READ || wqe->opcode == ORIEL_MLX5_FETCH_ADD ||
	       wqe->opcode == ORIEL_MLX5_COMPARE_SWAP || ori_soft_wqe_is_masked(wqe);
}

bool ori_soft_wqe_is_remote(const struct soft_wqe *wqe)
{
	return ori_soft_wqe_is_writing(wqe) || ori_soft_wqe_is_fetching(wqe);
}

void ori_soft_wqe_dump(const uint8_t bytes[64], char *text, size_t size)
{
	size_t used = 0;

	for (unsigned i = 0; i < 64 && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%02x",
					 i == 0        ? ""
					 : i % 16 == 0 ? " / "
						       : " ",
					 bytes[i]);
}
