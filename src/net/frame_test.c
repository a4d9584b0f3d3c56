/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of frame.c: encode and parse are inverse, and malformed bytes are rejected. */
#include "net/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_a_header_is_what_was_encoded(void **state)
{
	const struct ori_frame frame = {7, 0x01020304, 0x1122334455667788};
	static const unsigned char expected[ORI_FRAME_HEADER] = {'O',  'R',  'L',  'B',  4,
								 0,    7,    0,    4,    3,
								 2,    1,    0x88, 0x77, 0x66,
								 0x55, 0x44, 0x33, 0x22, 0x11};
	unsigned char bytes[ORI_FRAME_HEADER];
	struct ori_frame got;

	(void)state;
	ori_frame_encode(&frame, bytes);
	assert_memory_equal(bytes, expected, sizeof(bytes));
	assert_int_equal(ori_frame_parse(bytes, &got), ORIEL_OK);
	assert_int_equal(got.type, frame.type);
	assert_int_equal(got.tag, frame.tag);
	assert_int_equal(got.length, frame.length);
}

static void test_a_malformed_header_is_rejected(void **state)
{
	const struct ori_frame frame = {.type = 1};
	unsigned char bytes[ORI_FRAME_HEADER];
	struct ori_frame got;

	(void)state;
	ori_frame_encode(&frame, bytes);
	bytes[0] ^= 1;
	assert_int_equal(ori_frame_parse(bytes, &got), ORIEL_ERR_PROTOCOL);
	bytes[0] ^= 1;
	bytes[4]++;
	assert_int_equal(ori_frame_parse(bytes, &got), ORIEL_ERR_VERSION);
	bytes[4]--;
	bytes[6] = 0;
	assert_int_equal(ori_frame_parse(bytes, &got), ORIEL_ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_header_is_what_was_encoded),
		cmocka_unit_test(test_a_malformed_header_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
