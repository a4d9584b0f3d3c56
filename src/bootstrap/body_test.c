/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of body.c: encode and parse are inverse, and malformed bytes are rejected. */
#include "bootstrap/body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_a_hello_is_what_was_encoded(void **state)
{
	const struct ori_hello hello = {
		.purpose = ORI_PURPOSE_TREE,
		.rank = 3,
		.to = 2,
		.size = 70000,
		.timeout_ms = 5,
		.left_ms = 4,
		.address = {.family = 6, .port = 65535, .ip = "fedcba987654321"},
		.process = 0x1122334455667788,
		.pid = 4711,
		.tag = {.kind = 3, .bytes = "a hash of the name of the job ."},
	};
	unsigned char bytes[ORI_HELLO_LENGTH + 1], again[ORI_HELLO_LENGTH];
	struct ori_hello got;

	(void)state;
	memset(&got, 0, sizeof(got));
	ori_hello_encode(&hello, bytes);
	assert_true(ori_hello_parse(bytes, ORI_HELLO_LENGTH, &got));
	assert_int_equal(got.rank, 3);
	assert_int_equal(got.to, 2);
	assert_int_equal(got.size, 70000);
	assert_int_equal(got.process, hello.process);
	/* The struct has padding, so the bytes are compared. */
	ori_hello_encode(&got, again);
	assert_memory_equal(again, bytes, sizeof(again));
	assert_false(ori_hello_parse(bytes, ORI_HELLO_LENGTH - 1, &got));
	assert_false(ori_hello_parse(bytes, ORI_HELLO_LENGTH + 1, &got));
	bytes[0] = ORI_PURPOSE_MESSAGE + 1;
	assert_false(ori_hello_parse(bytes, ORI_HELLO_LENGTH, &got));
}

static void test_an_address_is_of_a_known_family(void **state)
{
	const struct ori_address address = {.family = 4, .port = 80, .ip = {127, 0, 0, 1}};
	unsigned char bytes[ORI_ADDRESS_LENGTH];
	struct ori_address got;

	(void)state;
	ori_address_encode(&address, bytes);
	assert_true(ori_address_parse(bytes, sizeof(bytes), &got));
	assert_memory_equal(&got, &address, sizeof(got));
	bytes[0] = 5;
	assert_false(ori_address_parse(bytes, sizeof(bytes), &got));
}

static void test_a_failure_is_a_known_status_and_plain_text(void **state)
{
	struct ori_failure failure = {ORIEL_ERR_PEER, 2, "rank 2\tleft"}, got;
	unsigned char bytes[ORI_FAILURE_LENGTH];
	size_t length;

	(void)state;
	length = ori_failure_encode(&failure, bytes);
	assert_int_equal(length, ORI_FAILURE_HEADER + strlen(failure.text));
	assert_true(ori_failure_parse(bytes, length, &got));
	assert_int_equal(got.status, ORIEL_ERR_PEER);
	assert_int_equal(got.rank, 2);
	assert_string_equal(got.text, "rank 2?left");
	assert_false(ori_failure_parse(bytes, ORI_FAILURE_HEADER - 1, &got));
	assert_false(ori_failure_parse(bytes, ORI_FAILURE_LENGTH + 1, &got));
	bytes[0] = 0;
	assert_false(ori_failure_parse(bytes, length, &got));
	bytes[0] = -ORIEL_ERR_FORKED;
	assert_true(ori_failure_parse(bytes, length, &got));
	assert_int_equal(got.status, ORIEL_ERR_FORKED);
	bytes[0] = 1 - ORIEL_ERR_FORKED;
	assert_false(ori_failure_parse(bytes, length, &got));
	memset(failure.text, 'x', sizeof(failure.text));
	assert_int_equal(ori_failure_encode(&failure, bytes), ORI_FAILURE_LENGTH);
	assert_true(ori_failure_parse(bytes, ORI_FAILURE_LENGTH, &got));
	assert_int_equal(strlen(got.text), ORI_FAILURE_LENGTH - ORI_FAILURE_HEADER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_hello_is_what_was_encoded),
		cmocka_unit_test(test_an_address_is_of_a_known_family),
		cmocka_unit_test(test_a_failure_is_a_known_status_and_plain_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
