/* SPDX-License-Identifier: Apache-2.0 */
/* Records of facts as text: each kind of value, and each error with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "doctor/facts.h"

#define HEAD "oriel-doctor 1\n"

static struct ori_facts facts;

static enum oriel_status parse(const char *text)
{
	return ori_facts_parse(text, strlen(text), &facts);
}

static void expect_error(const char *text, enum oriel_status status, const char *why)
{
	assert_int_equal(parse(text), status);
	assert_string_equal(oriel_last_error(), why);
}

static void test_a_fact_without_a_line_is_unknown(void **state)
{
	(void)state;
	assert_int_equal(parse(HEAD), ORIEL_OK);
	assert_int_equal(facts.memlock, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.gpu[15].dmabuf, ORI_FACT_UNKNOWN);
	assert_int_equal(facts.nic[31].umem, ORI_FACT_UNKNOWN);
	assert_string_equal(facts.kernel, "");
	assert_int_equal(facts.gpu_count, 0);
}

static void test_each_kind_of_value_is_read(void **state)
{
	(void)state;
	assert_int_equal(parse("# a remark\n\n" HEAD "kernel 6.1 x\nmemlock unlimited\nshm 0\n"
			       "memfd yes\ncuda no\nfiles 9223372036854775806\n"
			       "gpu.15.reach SA\nnic.31.mtu 4096"),
			 ORIEL_OK);
	assert_string_equal(facts.kernel, "6.1 x");
	assert_int_equal(facts.memlock, ORI_FACT_UNLIMITED);
	assert_int_equal(facts.shm, 0);
	assert_int_equal(facts.memfd, ORI_FACT_YES);
	assert_int_equal(facts.cuda, ORI_FACT_NO);
	assert_int_equal(facts.files, INT64_MAX - 1);
	assert_int_equal(facts.gpu_count, 16);
	assert_string_equal(facts.gpu[15].reach, "SA");
	assert_int_equal(facts.nic_count, 32);
	assert_int_equal(facts.nic[31].mtu, 4096);
}

static void test_a_written_record_equals_the_one_read(void **state)
{
	static const char text[] = HEAD "arch x86_64\nmemfd no\nmemlock unlimited\nshm 7\n"
					"gpu.0.name NVIDIA H100\ngpu.2.dmabuf yes\n"
					"nic.1.mtu.net 1500\n";
	char out[sizeof(text)];
	size_t length;

	(void)state;
	assert_int_equal(parse(text), ORIEL_OK);
	assert_int_equal(ori_facts_write(&facts, out, sizeof(out)), sizeof(text) - 1);
	assert_string_equal(out, text);
	for (length = 1; length < sizeof(text); length++) {
		memset(out, 'x', sizeof(out));
		assert_int_equal(ori_facts_write(&facts, out, length), sizeof(text) - 1);
		assert_int_equal(strlen(out), length - 1);
		assert_memory_equal(out, text, length - 1);
	}
	assert_int_equal(ori_facts_write(&facts, NULL, 0), sizeof(text) - 1);
}

static void test_an_error_names_its_line(void **state)
{
	(void)state;
	expect_error("", ORIEL_ERR_PROTOCOL,
		     "no record of a machine: it does not begin with 'oriel-doctor 1'");
	expect_error("kernel 6.1\n", ORIEL_ERR_PROTOCOL,
		     "no record of a machine: it does not begin with 'oriel-doctor 1'");
	expect_error("#\noriel-doctor 2\n", ORIEL_ERR_VERSION,
		     "line 2: a record of version 2, this library reads 1");
	expect_error(HEAD "kernel\n", ORIEL_ERR_PROTOCOL, "line 2: a name without a value");
	expect_error(HEAD "\nkernle 6\n", ORIEL_ERR_PROTOCOL, "line 3: unknown fact 'kernle'");
	expect_error(HEAD "gpu.0.colour red\n", ORIEL_ERR_PROTOCOL,
		     "line 2: unknown fact 'gpu.0.colour'");
	expect_error(HEAD "shm 1\nshm 1\n", ORIEL_ERR_PROTOCOL, "line 3: shm appears twice");
	expect_error(HEAD "nic.3.name a\nnic.3.name b\n", ORIEL_ERR_PROTOCOL,
		     "line 3: nic.3.name appears twice");
	expect_error(HEAD "gpu.16.name a\n", ORIEL_ERR_PROTOCOL,
		     "line 2: GPU 16, but a record has 16 at most");
	expect_error(HEAD "nic.32.name a\n", ORIEL_ERR_PROTOCOL,
		     "line 2: NIC 32, but a record has 32 at most");
	expect_error(HEAD "memfd 1\n", ORIEL_ERR_PROTOCOL, "line 2: memfd must be yes or no");
	expect_error(HEAD "kernel  6\n", ORIEL_ERR_PROTOCOL,
		     "line 2: kernel must be a text of 1 to 63 printable characters");
}

static void test_numbers_have_one_text(void **state)
{
	static const char *const none[] = {"",
					   "-1",
					   "01",
					   "1 ",
					   "0x10",
					   "1e3",
					   "a",
					   "yes",
					   "+1",
					   " 1",
					   "99999999999999999999",
					   "9223372036854775807"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		snprintf(text, sizeof(text), HEAD "shm %s\n", none[i]);
		expect_error(text, ORIEL_ERR_PROTOCOL, "line 2: shm must be a number or unlimited");
	}
}

static void test_texts_that_are_set_can_be_written(void **state)
{
	ori_fact_text fact;
	char many[200];

	(void)state;
	ori_fact_set(&fact, " \tRoCE\x01 v2 \n");
	assert_string_equal(fact, "RoCE v2");
	memset(many, 'n', sizeof(many));
	many[sizeof(many) - 1] = '\0';
	ori_fact_set(&fact, many);
	assert_int_equal(strlen(fact), ORI_FACT_TEXT - 1);
	ori_fact_set(&fact, "\x80 ");
	assert_string_equal(fact, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_fact_without_a_line_is_unknown),
		cmocka_unit_test(test_each_kind_of_value_is_read),
		cmocka_unit_test(test_a_written_record_equals_the_one_read),
		cmocka_unit_test(test_an_error_names_its_line),
		cmocka_unit_test(test_numbers_have_one_text),
		cmocka_unit_test(test_texts_that_are_set_can_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
