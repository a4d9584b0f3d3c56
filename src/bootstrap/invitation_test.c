/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes and the text of invitations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "bootstrap/invitation.h"

static const struct ori_invitation example = {
	.epoch = UINT64_C(0x0102030405060708),
	.token = {9, 8},
	.key = {7, 6},
	.count = 2,
	.addresses = {{.family = 4, .port = 5, .ip = {10, 0, 0, 1}},
		      {.family = 6, .port = 5, .ip = {0xfd, 1}}},
};

static void test_the_bytes_are_read_back(void **state)
{
	struct oriel_invitation bytes;
	struct ori_invitation out;

	(void)state;
	ori_invitation_encode(&example, &bytes);
	assert_true(ori_invitation_parse(&bytes, &out));
	assert_memory_equal(&example, &out, sizeof(out));
}

static void test_the_text_is_read_back(void **state)
{
	struct oriel_invitation bytes, again;
	char text[ORIEL_INVITATION_TEXT];

	(void)state;
	ori_invitation_encode(&example, &bytes);
	assert_int_equal(oriel_invitation_text(&bytes, text), ORIEL_OK);
	assert_int_equal(strlen(text), ORIEL_INVITATION_TEXT - 1);
	assert_int_equal(oriel_invitation_read(text, &again), ORIEL_OK);
	assert_memory_equal(&bytes, &again, sizeof(bytes));
}

static void test_malformed_bytes_are_rejected(void **state)
{
	static const struct {
		unsigned at;
		unsigned char value;
	} bad[] = {{0, 'o'}, {3, 2}, {4, 0}, {4, 5}, {5, 1}, {64, 7}, {66, 0}, {124, 1}};
	struct oriel_invitation bytes;
	struct ori_invitation out;
	char text[ORIEL_INVITATION_TEXT];
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ori_invitation_encode(&example, &bytes);
		bytes.bytes[bad[i].at] = bad[i].value;
		bytes.bytes[67] = bad[i].at == 66 ? 0 : bytes.bytes[67];
		assert_false(ori_invitation_parse(&bytes, &out));
		assert_int_equal(oriel_invitation_text(&bytes, text), ORIEL_OK);
		assert_int_equal(oriel_invitation_read(text, &bytes), ORIEL_ERR_INVALID);
	}
}

static void test_malformed_texts_are_rejected_without_their_secret(void **state)
{
	struct oriel_invitation bytes, again;
	char text[ORIEL_INVITATION_TEXT + 1];

	(void)state;
	ori_invitation_encode(&example, &bytes);
	assert_int_equal(oriel_invitation_text(&bytes, text), ORIEL_OK);
	strcat(text, "0");
	assert_int_equal(oriel_invitation_read(text, &again), ORIEL_ERR_INVALID);
	text[ORIEL_INVITATION_TEXT - 2] = '\0';
	assert_int_equal(oriel_invitation_read(text, &again), ORIEL_ERR_INVALID);
	assert_null(strstr(oriel_last_error(), "07060000"));
	text[1] = 'F';
	assert_int_equal(oriel_invitation_read(text, &again), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_invitation_read("", &again), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_invitation_read(NULL, &again), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_invitation_text(NULL, text), ORIEL_ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_bytes_are_read_back),
		cmocka_unit_test(test_the_text_is_read_back),
		cmocka_unit_test(test_malformed_bytes_are_rejected),
		cmocka_unit_test(test_malformed_texts_are_rejected_without_their_secret),
	};

	return cmocka_run_group_tests_name("invitation", tests, NULL, NULL);
}
