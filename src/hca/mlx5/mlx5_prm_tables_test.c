/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the tables of fields: offsets, overlaps, and accesses of the wrong kind. */
#include "hca/mlx5/mlx5_prm_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hca/mlx5/mlx5_prm.h"

#define LONGEST ORI_PRM_QUERY_HCA_CAP_LENGTH

static bool bit_is_set(const uint8_t *bytes, size_t bit)
{
	return (bytes[bit / 8] & 0x80 >> bit % 8) != 0;
}

static void test_every_field_has_a_row_inside_its_structure(void **state)
{
	int field;

	(void)state;
	for (field = 0; field < ORI_PRM_FIELDS; field++) {
		const struct ori_prm_row *row = ori_prm_field_row((enum ori_prm_field)field);

		assert_non_null(row->name);
		assert_int_not_equal(row->layout, ORI_PRM_NO_LAYOUT);
		assert_true(row->bit + row->width <= ori_prm_layout_length(row->layout) * 8);
		if (row->inner != ORI_PRM_NO_LAYOUT) {
			assert_int_equal(row->bit % 32, 0);
			assert_int_equal(row->width, ori_prm_layout_length(row->inner) * 8);
		} else if (row->width == 64) {
			assert_int_equal(row->bit % 32, 0);
		} else {
			assert_in_range(row->width, 1, 32);
			assert_int_equal(row->bit / 32, (row->bit + row->width - 1) / 32);
		}
	}
}

static void test_fields_of_one_structure_do_not_overlap(void **state)
{
	static uint8_t taken[LONGEST * 8];
	int layout, field;
	unsigned i;

	(void)state;
	for (layout = 1; layout < ORI_PRM_LAYOUTS; layout++) {
		memset(taken, 0, sizeof(taken));
		for (field = 0; field < ORI_PRM_FIELDS; field++) {
			const struct ori_prm_row *row =
				ori_prm_field_row((enum ori_prm_field)field);

			if ((int)row->layout != layout)
				continue;
			for (i = row->bit; i < row->bit + row->width; i++) {
				if (taken[i])
					fail_msg("%s.%s overlaps at bit %u",
						 ori_prm_layout_name(row->layout), row->name, i);
				taken[i] = 1;
			}
		}
	}
}

static void field_fill(struct ori_prm_view view, enum ori_prm_field field, bool ones)
{
	unsigned width = ori_prm_field_row(field)->width;
	uint64_t all = UINT64_MAX >> (64 - width);
	uint64_t value = ones ? all : 0;
	uint64_t got64 = ~value;
	uint32_t got = ~(uint32_t)value;

	if (width == 64) {
		assert_int_equal(ori_prm_set64(view, field, value), ORIEL_OK);
		assert_int_equal(ori_prm_get64(view, field, &got64), ORIEL_OK);
		assert_true(got64 == value);
	} else {
		assert_int_equal(ori_prm_set(view, field, (uint32_t)value), ORIEL_OK);
		assert_int_equal(ori_prm_get(view, field, &got), ORIEL_OK);
		assert_int_equal(got, value);
	}
}

static void test_a_field_is_set_and_cleared_without_its_neighbours(void **state)
{
	uint8_t bytes[LONGEST];
	int field, ones;
	size_t bit;

	(void)state;
	for (field = 0; field < ORI_PRM_FIELDS; field++) {
		const struct ori_prm_row *row = ori_prm_field_row((enum ori_prm_field)field);
		struct ori_prm_view view = {row->layout, bytes};

		if (row->inner != ORI_PRM_NO_LAYOUT)
			continue;
		for (ones = 0; ones < 2; ones++) {
			memset(bytes, ones ? 0x00 : 0xff, sizeof(bytes));
			field_fill(view, (enum ori_prm_field)field, ones);
			for (bit = 0; bit < sizeof(bytes) * 8; bit++) {
				bool is_own = bit >= row->bit && bit < row->bit + row->width;

				assert_int_equal(bit_is_set(bytes, bit), is_own == (ones == 1));
			}
		}
	}
}

/* A 64-bit store to a one-bit field leaves cd_master 0 in other libraries' code. */
static void test_an_access_of_the_wrong_width_is_rejected(void **state)
{
	uint8_t bytes[0x100] = {0};
	static const uint8_t zero[sizeof(bytes)];
	struct ori_prm_view qpc = {ORI_PRM_QPC, bytes};
	uint64_t got64 = 77;
	uint32_t got = 77;

	(void)state;
	assert_int_equal(ori_prm_set64(qpc, ORI_PRM_QPC_CD_MASTER, 1), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_get64(qpc, ORI_PRM_QPC_CD_MASTER, &got64), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_set64(qpc, ORI_PRM_QPC_DBR_UMEM_ID, 1), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_set(qpc, ORI_PRM_QPC_DBR_ADDR, 1), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_get(qpc, ORI_PRM_QPC_DBR_ADDR, &got), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_set(qpc, ORI_PRM_QPC_PRIMARY_ADDRESS_PATH, 1), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_set(qpc, ORI_PRM_QPC_CD_MASTER, 2), ORIEL_ERR_RANGE);
	assert_int_equal(ori_prm_set(qpc, ORI_PRM_QPC_PD, 1u << 24), ORIEL_ERR_RANGE);
	assert_memory_equal(bytes, zero, sizeof(bytes));
	assert_int_equal(got, 77);
	assert_int_equal(got64, 77);
}

static void test_a_field_of_another_structure_is_rejected(void **state)
{
	uint8_t bytes[LONGEST] = {0};
	static const uint8_t zero[LONGEST];
	int layout, field;
	uint32_t got;
	uint64_t got64;

	(void)state;
	for (layout = 1; layout < ORI_PRM_LAYOUTS; layout++) {
		struct ori_prm_view view = {(enum ori_prm_layout)layout, bytes};
		struct ori_prm_view inner;

		for (field = 0; field < ORI_PRM_FIELDS; field++) {
			enum ori_prm_field f = (enum ori_prm_field)field;

			if ((int)ori_prm_field_row(f)->layout == layout)
				continue;
			assert_int_equal(ori_prm_set(view, f, 1), ORIEL_ERR_INVALID);
			assert_int_equal(ori_prm_set64(view, f, 1), ORIEL_ERR_INVALID);
			assert_int_equal(ori_prm_get(view, f, &got), ORIEL_ERR_INVALID);
			assert_int_equal(ori_prm_get64(view, f, &got64), ORIEL_ERR_INVALID);
			assert_int_equal(ori_prm_inner(view, f, &inner), ORIEL_ERR_INVALID);
		}
	}
	assert_memory_equal(bytes, zero, sizeof(bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_field_has_a_row_inside_its_structure),
		cmocka_unit_test(test_fields_of_one_structure_do_not_overlap),
		cmocka_unit_test(test_a_field_is_set_and_cleared_without_its_neighbours),
		cmocka_unit_test(test_an_access_of_the_wrong_width_is_rejected),
		cmocka_unit_test(test_a_field_of_another_structure_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
