/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the software HCA's WQE parser: blocks of a send queue that it accepts are equal
 * to those that the encoder makes.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/mlx5.h>

#include "fuzz.h"
#include "hca/soft/soft_wqe.h"

#define BLOCK ORIEL_MLX5_BLOCK
#define QPN 0x00abcdu

struct wqe_blocks {
	_Alignas(64) uint8_t bytes[SOFT_WQE_BLOCKS * BLOCK];
};

static void wqe_encode_atomic(struct wqe_blocks *b, struct ori_dev_mlx5_head head,
			      const struct soft_wqe *w)
{
	const struct ori_dev_rdma_address remote = {w->remote, w->rkey},
					  local = {w->local, w->lkey};
	const struct ori_dev_mlx5_swap swap = {w->operand, w->compare, w->swap_mask, w->mask};
	bool is_short = w->length == 4;

	if (w->opcode == ORIEL_MLX5_FETCH_ADD)
		ori_dev_mlx5_wqe_fetch_add(b->bytes, head, remote, local, w->operand);
	else if (w->opcode == ORIEL_MLX5_COMPARE_SWAP)
		ori_dev_mlx5_wqe_compare_swap(b->bytes, head, remote, local, w->compare,
					      w->operand);
	else if (w->opcode == ORIEL_MLX5_MASKED_FETCH_ADD && is_short)
		ori_dev_mlx5_wqe_masked_add32(b->bytes, head, remote, local, (uint32_t)w->operand,
					      (uint32_t)w->mask);
	else if (w->opcode == ORIEL_MLX5_MASKED_FETCH_ADD)
		ori_dev_mlx5_wqe_masked_add64(b->bytes, head, remote, local, w->operand, w->mask);
	else if (is_short)
		ori_dev_mlx5_wqe_masked_swap32(b->bytes, head, remote, local, &swap);
	else
		ori_dev_mlx5_wqe_masked_swap64(b->bytes, b->bytes + BLOCK, head, remote, local,
					       &swap);
}

static void wqe_encode(struct wqe_blocks *b, struct ori_dev_mlx5_head head,
		       const struct soft_wqe *w)
{
	const struct ori_dev_rdma_address remote = {w->remote, w->rkey},
					  local = {w->local, w->lkey};

	switch (w->opcode) {
	case ORIEL_MLX5_NOP:
		ori_dev_mlx5_wqe_nop(b->bytes, head);
		break;
	case ORIEL_MLX5_WRITE:
		if (w->is_inline)
			ori_dev_mlx5_wqe_write_inline(b->bytes, head, remote, w->data, w->length);
		else
			ori_dev_mlx5_wqe_write(b->bytes, head, remote, local, w->length);
		break;
	case ORIEL_MLX5_WRITE_IMM:
		if (w->is_inline)
			ori_dev_mlx5_wqe_write_inline(b->bytes, head, remote, w->data, w->length);
		else
			ori_dev_mlx5_wqe_write(b->bytes, head, remote, local, w->length);
		ori_dev_mlx5_wqe_immediate(b->bytes, w->immediate);
		break;
	case ORIEL_MLX5_READ:
		ori_dev_mlx5_wqe_read(b->bytes, head, remote, local, w->length);
		break;
	case ORIEL_MLX5_WAIT:
		ori_dev_mlx5_wqe_wait(b->bytes, head, w->wait_cqn, w->wait_index);
		break;
	case ORIEL_MLX5_DUMP:
		ori_dev_mlx5_wqe_dump(b->bytes, head, local, w->length);
		break;
	default:
		FUZZ_CHECK(ori_soft_wqe_is_fetching(w));
		wqe_encode_atomic(b, head, w);
	}
}

static void wqe_check_limits(const struct soft_wqe *w)
{
	FUZZ_CHECK(w->length <= SOFT_WQE_MOST);
	FUZZ_CHECK(w->fence <= 4);
	FUZZ_CHECK(!w->is_inline || w->length <= SOFT_WQE_INLINE);
	FUZZ_CHECK(w->wait_index <= ORIEL_MLX5_CQE_INDEX_MASK);
	FUZZ_CHECK(w->wait_cqn <= 0x00ffffff);
	if (ori_soft_wqe_is_masked(w))
		FUZZ_CHECK(w->length == 4 || w->length == 8);
	else if (ori_soft_wqe_is_fetching(w) && w->opcode != ORIEL_MLX5_READ)
		FUZZ_CHECK(w->length == 8);
}

/* @given is exactly @blocks blocks long. */
static void wqe_check(const uint8_t *given, unsigned blocks)
{
	uint64_t index = (uint64_t)given[1] << 8 | given[2];
	struct wqe_blocks again;
	struct soft_wqe w;
	const char *flaw;
	char dump[256];

	ori_soft_wqe_dump(given, dump, sizeof(dump));
	FUZZ_CHECK(strlen(dump) < sizeof(dump) - 1);
	flaw = ori_soft_wqe_parse(given, blocks, index, QPN, &w);
	FUZZ_CHECK(w.opcode == given[3]);
	if (flaw) {
		FUZZ_CHECK(strlen(flaw) > 8);
		return;
	}
	FUZZ_CHECK(ori_soft_wqe_blocks(given) <= blocks);
	wqe_check_limits(&w);
	FUZZ_CHECK(ori_soft_wqe_blocks(given) == (ori_soft_wqe_is_double(&w) ? 2 : 1));
	FUZZ_CHECK(ori_soft_wqe_parse(given, blocks, index + 1, QPN, &w) != NULL);
	FUZZ_CHECK(ori_soft_wqe_parse(given, blocks, index, QPN + 1, &w) != NULL);
	FUZZ_CHECK(!ori_soft_wqe_parse(given, blocks, index, QPN, &w));
	/* The parser ignores bytes behind the last segment, so take these from the input. */
	memcpy(again.bytes, given, (size_t)blocks * BLOCK);
	wqe_encode(&again,
		   (struct ori_dev_mlx5_head){.index = index,
					      .qpn = QPN,
					      .fence = (uint32_t)w.fence << 5 | (given[11] & 2)},
		   &w);
	again.bytes[11] =
		w.is_signaled ? again.bytes[11] : again.bytes[11] & (uint8_t)~ORIEL_MLX5_CQE_ALWAYS;
	FUZZ_CHECK(memcmp(again.bytes, given, (size_t)blocks * BLOCK) == 0);
}

/* A WQE of two blocks is rejected if only its first block is posted. */
static void wqe_needs_both(const uint8_t *given)
{
	uint64_t index = (uint64_t)given[1] << 8 | given[2];
	struct soft_wqe w;

	FUZZ_CHECK(ori_soft_wqe_parse(given, 1, index, QPN, &w) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (unsigned blocks = 1; blocks <= SOFT_WQE_BLOCKS; blocks++) {
		size_t length = (size_t)blocks * BLOCK;
		uint8_t *exact;

		if (size < length)
			break;
		exact = malloc(length);
		FUZZ_CHECK(exact);
		memcpy(exact, data, length);
		wqe_check(exact, blocks);
		free(exact);
	}
	if (size >= sizeof(struct wqe_blocks) && ori_soft_wqe_blocks(data) > 1)
		wqe_needs_both(data);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const struct soft_wqe seeds[] = {
		{.opcode = ORIEL_MLX5_NOP},
		{.opcode = ORIEL_MLX5_WRITE, .length = 4096, .remote = 64, .rkey = 7, .local = 1},
		{.opcode = ORIEL_MLX5_WRITE,
		 .length = 12,
		 .is_inline = true,
		 .data = "one segment"},
		{.opcode = ORIEL_MLX5_WRITE, .length = 28, .is_inline = true, .data = "and two"},
		{.opcode = ORIEL_MLX5_WRITE},
		{.opcode = ORIEL_MLX5_WRITE_IMM, .immediate = 0x1234},
		{.opcode = ORIEL_MLX5_WRITE_IMM, .length = 9, .remote = 64, .rkey = 7, .lkey = 3},
		{.opcode = ORIEL_MLX5_READ, .length = 1, .remote = 64, .rkey = 7, .lkey = 9},
		{.opcode = ORIEL_MLX5_WAIT, .wait_cqn = 0x405, .wait_index = 0x010203},
		{.opcode = ORIEL_MLX5_DUMP, .length = 1, .lkey = 3},
		{.opcode = ORIEL_MLX5_FETCH_ADD, .length = 8, .operand = 1},
		{.opcode = ORIEL_MLX5_COMPARE_SWAP, .length = 8, .operand = 1, .compare = 2},
		{.opcode = ORIEL_MLX5_MASKED_FETCH_ADD, .length = 4, .operand = 1, .mask = 8},
		{.opcode = ORIEL_MLX5_MASKED_FETCH_ADD, .length = 8, .operand = 1, .mask = 8},
		{.opcode = ORIEL_MLX5_MASKED_COMPARE_SWAP, .length = 4, .swap_mask = 3, .mask = 8},
		{.opcode = ORIEL_MLX5_MASKED_COMPARE_SWAP, .length = 8, .swap_mask = 3, .mask = 8},
	};
	struct wqe_blocks b = {.bytes = {0}};

	if (n >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	wqe_encode(&b, (struct ori_dev_mlx5_head){.index = 0x1234, .qpn = QPN, .fence = n % 5 << 5},
		   &seeds[n]);
	memcpy(bytes, b.bytes, sizeof(b.bytes));
	return sizeof(b.bytes);
}
