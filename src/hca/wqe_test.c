/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the encoders of WQEs and the reader of CQEs in oriel/dev, against golden bytes. */
#include "hca/syndrome.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <oriel/dev/detail/mlx5.h>

#define GARBAGE 0xa5

/* The slot held something else before; bytes that a WQE does not use stay as they were. */
struct slot {
	_Alignas(64) unsigned char bytes[ORIEL_MLX5_BLOCK];
};

static struct slot used_slot(void)
{
	struct slot slot;

	memset(slot.bytes, GARBAGE, sizeof(slot.bytes));
	return slot;
}

static void check(const struct slot *slot, const unsigned char *expected, size_t length)
{
	size_t i;

	assert_memory_equal(slot->bytes, expected, length);
	for (i = length; i < sizeof(slot->bytes); i++)
		assert_int_equal(slot->bytes[i], GARBAGE);
}

static const struct ori_dev_rdma_address remote = {0x7f0011223344, 0x00010203};
static const struct ori_dev_rdma_address local = {0x7f5566778899, 0x0a0b0c0d};

#define REMOTE_BYTES 0, 0, 0x7f, 0, 0x11, 0x22, 0x33, 0x44, 0, 1, 2, 3, 0, 0, 0, 0

static void test_write_is_the_golden_vector(void **state)
{
	static const unsigned char expected[] = {
		0x00, 0x12, 0x34, 0x08, 0x00, 0xab, 0xcd, 0x03, 0x00, 0x00, 0x00, 0x08,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7f, 0x00, 0x11, 0x22, 0x33, 0x44,
		0x00, 0x01, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00,
		0x0a, 0x0b, 0x0c, 0x0d, 0x00, 0x00, 0x7f, 0x55, 0x66, 0x77, 0x88, 0x99,
	};
	const struct ori_dev_mlx5_head head = {0x1234, 0x00abcd, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_write(slot.bytes, head, remote, local, 0x1000);
	check(&slot, expected, sizeof(expected));
}

static void test_wait_is_the_golden_vector(void **state)
{
	static const unsigned char expected[] = {
		0x00, 0x00, 0x07, 0x0f, 0x00, 0x00, 0x22, 0x02, 0x00, 0x00, 0x00,
		0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x00, 0x00, 0x04, 0x05,
	};
	const struct ori_dev_mlx5_head head = {7, 0x22, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_wait(slot.bytes, head, 0x405, 0x010203);
	check(&slot, expected, sizeof(expected));
}

static void test_wait_keeps_24_bits_of_its_index(void **state)
{
	const struct ori_dev_mlx5_head head = {0x10007, 0x22, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_wait(slot.bytes, head, 0x405, 0x3fedcba98);
	assert_int_equal(ori_dev_mlx5_get32(slot.bytes, 0x18), 0xdcba98);
	assert_int_equal(ori_dev_mlx5_get32(slot.bytes, 0), 0x70f);
}

static void test_nothing_to_move_has_no_data_segment(void **state)
{
	static const unsigned char written[] = {
		0x00, 0xff, 0xff, 0x08, 0xff, 0xff, 0xff, 0x02,         0,
		0,    0,    0x08, 0,    0,    0,    0,    REMOTE_BYTES,
	};
	static const unsigned char fetched[] = {
		0x00, 0xff, 0xff, 0x10, 0xff, 0xff, 0xff, 0x02,         0,
		0,    0,    0x08, 0,    0,    0,    0,    REMOTE_BYTES,
	};
	const struct ori_dev_mlx5_head head = {0xfffffffff, 0xffffff, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_write(slot.bytes, head, remote, local, 0);
	check(&slot, written, sizeof(written));
	ori_dev_mlx5_wqe_write_inline(slot.bytes, head, remote, NULL, 0);
	check(&slot, written, sizeof(written));
	ori_dev_mlx5_wqe_read(slot.bytes, head, remote, local, 0);
	check(&slot, fetched, sizeof(fetched));
}

static void test_twelve_inline_bytes_fit_one_segment(void **state)
{
	static const unsigned char expected[] = {
		0x00, 0x00, 0x01, 0x08, 0x00, 0x00,         0x02, 0x03, 0,    0,    0,
		0x08, 0,    0,    0,    0,    REMOTE_BYTES, 0x80, 0x00, 0x00, 0x0c, 'a',
		'b',  'c',  'd',  'e',  'f',  'g',          'h',  'i',  'j',  'k',  'l',
	};
	const struct ori_dev_mlx5_head head = {1, 2, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_write_inline(slot.bytes, head, remote, "abcdefghijkl", 12);
	check(&slot, expected, sizeof(expected));
}

static void test_thirteen_inline_bytes_take_two_segments(void **state)
{
	static const unsigned char expected[] = {
		0x00,
		0x00,
		0x01,
		0x08,
		0x00,
		0x00,
		0x02,
		0x04,
		0,
		0,
		0,
		0x08,
		0,
		0,
		0,
		0,
		REMOTE_BYTES,
		0x80,
		0x00,
		0x00,
		0x0d,
		'a',
		'b',
		'c',
		'd',
		'e',
		'f',
		'g',
		'h',
		'i',
		'j',
		'k',
		'l',
		'm',
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
	};
	const struct ori_dev_mlx5_head head = {1, 2, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_write_inline(slot.bytes, head, remote, "abcdefghijklm", 13);
	check(&slot, expected, sizeof(expected));
}

static void test_every_inline_length_is_whole_and_padded(void **state)
{
	static const char data[] = "abcdefghijklmnopqrstuvwxyz01";
	const struct ori_dev_mlx5_head head = {1, 2, ORIEL_MLX5_FENCE_NONE};
	uint32_t length, used, i;
	struct slot slot;

	(void)state;
	for (length = 1; length <= ORIEL_MLX5_INLINE_MAX; length++) {
		slot = used_slot();
		ori_dev_mlx5_wqe_write_inline(slot.bytes, head, remote, data, length);
		used = 32 + (4 + length + 15) / 16 * 16;
		assert_int_equal(slot.bytes[7], used / 16);
		assert_int_equal(ori_dev_mlx5_get32(slot.bytes, 32), 0x80000000u + length);
		assert_memory_equal(slot.bytes + 36, data, length);
		for (i = 36 + length; i < sizeof(slot.bytes); i++)
			assert_int_equal(slot.bytes[i], i < used ? 0 : GARBAGE);
	}
}

static void test_read_names_what_to_fetch_and_where_to_put_it(void **state)
{
	static const unsigned char expected[] = {
		0x00, 0x80, 0x00, 0x10, 0x00, 0x00,         0x99, 0x03, 0,    0,    0,
		0x08, 0,    0,    0,    0,    REMOTE_BYTES, 0x40, 0x00, 0x00, 0x00, 0x0a,
		0x0b, 0x0c, 0x0d, 0x00, 0x00, 0x7f,         0x55, 0x66, 0x77, 0x88, 0x99,
	};
	const struct ori_dev_mlx5_head head = {0x8000, 0x99, ORIEL_MLX5_FENCE_NONE};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_read(slot.bytes, head, remote, local, ORIEL_MLX5_LENGTH_MAX);
	check(&slot, expected, sizeof(expected));
}

static void test_fetch_add_carries_its_addend_first(void **state)
{
	static const unsigned char expected[] = {
		0x00,
		0x00,
		0x00,
		0x12,
		0x00,
		0x00,
		0x99,
		0x04,
		0,
		0,
		0,
		0x48,
		0,
		0,
		0,
		0,
		REMOTE_BYTES,
		0x01,
		0x23,
		0x45,
		0x67,
		0x89,
		0xab,
		0xcd,
		0xef,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x00,
		0x00,
		0x00,
		0x08,
		0x00,
		0x00,
		0x00,
		0x77,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
	};
	const struct ori_dev_mlx5_head head = {0x30000, 0x99, ORIEL_MLX5_FENCE_READS};
	const struct ori_dev_rdma_address sink = {0, 0x77};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_fetch_add(slot.bytes, head, remote, sink, 0x0123456789abcdef);
	check(&slot, expected, sizeof(expected));
}

static void test_compare_swap_carries_the_new_value_before_the_old(void **state)
{
	static const unsigned char expected[] = {
		0x00,
		0x00,
		0x00,
		0x11,
		0x00,
		0x00,
		0x99,
		0x04,
		0,
		0,
		0,
		0x68,
		0,
		0,
		0,
		0,
		REMOTE_BYTES,
		0x00,
		0x00,
		0x00,
		0x00,
		0x00,
		0x00,
		0x01,
		0x02,
		0,
		0,
		0,
		0,
		0,
		0,
		0x03,
		0x04,
		0x00,
		0x00,
		0x00,
		0x08,
		0x00,
		0x00,
		0x00,
		0x77,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x10,
	};
	const struct ori_dev_mlx5_head head = {0, 0x99, ORIEL_MLX5_FENCE_ALL};
	const struct ori_dev_rdma_address result = {0x10, 0x77};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_compare_swap(slot.bytes, head, remote, result, 0x0304, 0x0102);
	check(&slot, expected, sizeof(expected));
}

/* ctrl, raddr, {add, boundary}, data: the modifier 9 is that of 8 bytes. */
static void test_a_masked_addition_has_its_boundary_behind_it(void **state)
{
	static const unsigned char expected[] = {
		0x09,
		0x00,
		0x07,
		0x15,
		0x00,
		0x00,
		0x99,
		0x04,
		0,
		0,
		0,
		0x08,
		0,
		0,
		0,
		0,
		REMOTE_BYTES,
		0x01,
		0x23,
		0x45,
		0x67,
		0x89,
		0xab,
		0xcd,
		0xef,
		0,
		0,
		0,
		0,
		0x80,
		0,
		0,
		0,
		0,
		0,
		0,
		0x08,
		0,
		0,
		0,
		0x77,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x10,
	};
	const struct ori_dev_mlx5_head head = {7, 0x99, ORIEL_MLX5_FENCE_NONE};
	const struct ori_dev_rdma_address result = {0x10, 0x77};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_masked_add64(slot.bytes, head, remote, result, 0x0123456789abcdef,
				      UINT64_C(1) << 31);
	check(&slot, expected, sizeof(expected));
}

static void test_dump_reads_local_bytes_only(void **state)
{
	static const unsigned char expected[] = {
		0x00, 0x00, 0x02, 0x23, 0x00, 0x00, 0x99, 0x02, 0,    0,    0,
		0x88, 0,    0,    0,    0,    0x00, 0x00, 0x00, 0x01, 0x0a, 0x0b,
		0x0c, 0x0d, 0x00, 0x00, 0x7f, 0x55, 0x66, 0x77, 0x88, 0x99,
	};
	const struct ori_dev_mlx5_head head = {2, 0x99, ORIEL_MLX5_FENCE_READS_SMALL};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_dump(slot.bytes, head, local, 1);
	check(&slot, expected, sizeof(expected));
}

static void test_nop_is_a_control_segment(void **state)
{
	static const unsigned char expected[] = {0x00, 0x00, 0x03, 0x00, 0x12, 0x34, 0x56, 0x01,
						 0x00, 0x00, 0x00, 0x28, 0x00, 0x00, 0x00, 0x00};
	const struct ori_dev_mlx5_head head = {3, 0x123456, ORIEL_MLX5_FENCE_SMALL};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_wqe_nop(slot.bytes, head);
	check(&slot, expected, sizeof(expected));
}

static void test_a_doorbell_has_16_bits_of_the_index(void **state)
{
	static const unsigned char doorbell[] = {0x00, 0x00, 0x01, 0x00, 0x00, 0xab, 0xcd, 0x00};
	static const unsigned char record[] = {0x00, 0x00, 0xff, 0xfe};
	uint64_t rung = ori_dev_mlx5_doorbell_value(0xabcd, 0x10001);
	uint32_t recorded = ori_dev_mlx5_record_value(0x2fffe);

	(void)state;
	assert_memory_equal(&rung, doorbell, sizeof(doorbell));
	assert_memory_equal(&recorded, record, sizeof(record));
}

/* Bytes 0x34 to 0x3f of an error CQE that was published. */
static void test_the_golden_error_cqe_is_understood(void **state)
{
	static const unsigned char tail[] = {0x9d, 0x00, 0x53, 0x04, 0x0a, 0x00,
					     0x15, 0x42, 0x00, 0x19, 0xb0, 0xd2};
	struct slot slot = used_slot();
	uint32_t last, error;

	(void)state;
	memcpy(slot.bytes + 0x34, tail, sizeof(tail));
	last = *ori_dev_mlx5_cqe_word(slot.bytes, ORIEL_MLX5_TAIL);
	error = *ori_dev_mlx5_cqe_word(slot.bytes, ORIEL_MLX5_ERROR);
	assert_int_equal(ori_dev_mlx5_tail_completion(last), ORIEL_MLX5_FAILED);
	assert_int_equal(ori_dev_mlx5_tail_owner(last), 0);
	assert_int_equal(ori_dev_mlx5_tail_counter(last), 0x19);
	assert_int_equal(ori_dev_mlx5_error_syndrome(error), ORIEL_SYNDROME_LOCAL_PROTECTION);
	assert_int_equal(ori_dev_mlx5_error_vendor(error), 0x53);
	assert_int_equal(ori_dev_mlx5_get32(slot.bytes, 0x38), 0x0a001542);
}

static void test_a_cqe_is_its_bytes(void **state)
{
	const struct ori_dev_mlx5_cqe failed = {
		0x1c, 0x5abcd, 0x123456, 0, ORIEL_MLX5_FAILED, ORIEL_MLX5_WRITE, 0x15, 0x83, 0};
	const struct ori_dev_mlx5_cqe done = {
		0x14, 0x1ff00, 0x42, 0x1020, ORIEL_MLX5_DONE, ORIEL_MLX5_READ, 0, 0, 0};
	static const unsigned char failed_tail[] = {0x00, 0x00, 0x83, 0x15, 0x08, 0x12,
						    0x34, 0x56, 0xab, 0xcd, 0x00, 0xd1};
	static const unsigned char done_tail[] = {0x00, 0x00, 0x00, 0x00, 0x10, 0x00,
						  0x00, 0x42, 0xff, 0x00, 0x00, 0x00};
	struct slot slot = used_slot();

	(void)state;
	ori_dev_mlx5_cqe_write(slot.bytes, &failed, 2);
	assert_memory_equal(slot.bytes + 0x34, failed_tail, sizeof(failed_tail));
	ori_dev_mlx5_cqe_write(slot.bytes, &done, 3);
	assert_memory_equal(slot.bytes + 0x34, done_tail, sizeof(done_tail));
	assert_int_equal(ori_dev_mlx5_get32(slot.bytes, 0x2c), 0x1020);
}

static void test_a_cleared_cqe_is_invalid_with_the_owner_of_no_first_lap(void **state)
{
	struct slot slot;
	uint32_t tail;

	(void)state;
	ori_dev_mlx5_cqe_clear(slot.bytes);
	tail = *ori_dev_mlx5_cqe_word(slot.bytes, ORIEL_MLX5_TAIL);
	assert_int_equal(ori_dev_mlx5_tail_completion(tail), ORIEL_MLX5_INVALID);
	assert_int_equal(ori_dev_mlx5_tail_owner(tail), 1);
}

static void test_every_syndrome_has_words_of_its_own(void **state)
{
	static const uint8_t known[] = {0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11,
					0x12, 0x13, 0x14, 0x15, 0x16, 0x22};
	const char *unknown = ori_syndrome_text(0);
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(known); i++) {
		assert_string_not_equal(ori_syndrome_text(known[i]), unknown);
		for (j = 0; j < i; j++)
			assert_string_not_equal(ori_syndrome_text(known[i]),
						ori_syndrome_text(known[j]));
	}
	assert_string_equal(ori_syndrome_text(0x23), unknown);
	assert_string_equal(ori_syndrome_text(0xff), unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_is_the_golden_vector),
		cmocka_unit_test(test_wait_is_the_golden_vector),
		cmocka_unit_test(test_wait_keeps_24_bits_of_its_index),
		cmocka_unit_test(test_nothing_to_move_has_no_data_segment),
		cmocka_unit_test(test_twelve_inline_bytes_fit_one_segment),
		cmocka_unit_test(test_thirteen_inline_bytes_take_two_segments),
		cmocka_unit_test(test_every_inline_length_is_whole_and_padded),
		cmocka_unit_test(test_read_names_what_to_fetch_and_where_to_put_it),
		cmocka_unit_test(test_fetch_add_carries_its_addend_first),
		cmocka_unit_test(test_compare_swap_carries_the_new_value_before_the_old),
		cmocka_unit_test(test_a_masked_addition_has_its_boundary_behind_it),
		cmocka_unit_test(test_dump_reads_local_bytes_only),
		cmocka_unit_test(test_nop_is_a_control_segment),
		cmocka_unit_test(test_a_doorbell_has_16_bits_of_the_index),
		cmocka_unit_test(test_the_golden_error_cqe_is_understood),
		cmocka_unit_test(test_a_cqe_is_its_bytes),
		cmocka_unit_test(test_a_cleared_cqe_is_invalid_with_the_owner_of_no_first_lap),
		cmocka_unit_test(test_every_syndrome_has_words_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
