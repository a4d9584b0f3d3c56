/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of job_tag.c: which environments and keys make equal tags. */
#include "bootstrap/job_tag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "SLURM_JOB_ID",
				    "SLURM_STEP_ID", "SLURM_STEPID"};

/* @environment is "NAME=value NAME=value ...". */
static struct ori_job_tag tag_of(const char *environment, const char *key)
{
	char copy[200], *word, *rest = copy;
	struct ori_key bytes = {.length = strlen(key)};
	struct ori_job_tag tag;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	strcpy(copy, environment);
	while ((word = strsep(&rest, " "))) {
		char *value = strchr(word, '=');

		if (value) {
			*value = '\0';
			setenv(word, value + 1, 1);
		}
	}
	memcpy(bytes.bytes, key, bytes.length);
	assert_int_equal(ori_job_tag_make(&bytes, &tag), ORIEL_OK);
	return tag;
}

static bool is_same(const char *a, const char *b)
{
	struct ori_job_tag one = tag_of(a, ""), other = tag_of(b, "");

	return ori_job_tag_equal(&one, &other);
}

static void test_the_names_of_launchers_distinguish_jobs(void **state)
{
	(void)state;
	assert_true(is_same("TORCHELASTIC_RUN_ID=7", "TORCHELASTIC_RUN_ID=7"));
	assert_false(is_same("TORCHELASTIC_RUN_ID=7", "TORCHELASTIC_RUN_ID=8"));
	assert_false(is_same("PMIX_NAMESPACE=7", "PMIX_NAMESPACE=8"));
	assert_false(is_same("TORCHELASTIC_RUN_ID=7", "PMIX_NAMESPACE=7"));
	assert_false(is_same("TORCHELASTIC_RUN_ID=7", ""));
	assert_false(is_same("SLURM_JOB_ID=7 SLURM_STEP_ID=0", "SLURM_JOB_ID=7 SLURM_STEP_ID=1"));
	assert_false(is_same("SLURM_JOB_ID=1 SLURM_STEP_ID=23", "SLURM_JOB_ID=12 SLURM_STEP_ID=3"));
	assert_true(is_same("SLURM_JOB_ID=7 SLURM_STEP_ID=1", "SLURM_JOB_ID=7 SLURM_STEPID=1"));
	assert_false(is_same("SLURM_JOB_ID=7", "SLURM_JOB_ID=8"));
	/* The name of the inner launcher counts, not that of the outer one. */
	assert_true(is_same("PMIX_NAMESPACE=a SLURM_JOB_ID=7 SLURM_STEP_ID=0",
			    "PMIX_NAMESPACE=a SLURM_JOB_ID=7"));
	assert_true(is_same("TORCHELASTIC_RUN_ID=7 SLURM_JOB_ID=1",
			    "TORCHELASTIC_RUN_ID=7 SLURM_JOB_ID=2"));
}

static void test_a_job_without_a_name_has_a_tag_of_zeros(void **state)
{
	static const struct ori_job_tag none;
	struct ori_job_tag tag = tag_of("TORCHELASTIC_RUN_ID=none PMIX_NAMESPACE=", "");

	(void)state;
	assert_memory_equal(&tag, &none, sizeof(tag));
	tag = tag_of("SLURM_STEP_ID=0", "");
	assert_memory_equal(&tag, &none, sizeof(tag));
}

/* A key alone makes the tag, so that ranks of different launchers can form one job. */
static void test_a_key_makes_the_tag_and_is_not_in_it(void **state)
{
	struct ori_job_tag one = tag_of("TORCHELASTIC_RUN_ID=7", "secret key"),
			   same = tag_of("SLURM_JOB_ID=7", "secret key"),
			   other = tag_of("", "secret kez"), open = tag_of("", "");

	(void)state;
	assert_int_equal(one.kind, ORI_JOB_TAG_KEY);
	assert_true(ori_job_tag_equal(&one, &same));
	assert_false(ori_job_tag_equal(&one, &other));
	assert_false(ori_job_tag_equal(&one, &open));
	assert_null(memmem(one.bytes, sizeof(one.bytes), "secr", 4));
}

static void test_the_text_names_the_difference(void **state)
{
	struct ori_job_tag a = tag_of("TORCHELASTIC_RUN_ID=7", ""),
			   b = tag_of("TORCHELASTIC_RUN_ID=8", ""),
			   c = tag_of("SLURM_JOB_ID=7", ""), d = {.kind = 99};
	char text[ORI_JOB_TAG_TEXT];

	(void)state;
	assert_string_equal(ori_job_tag_differ(&a, &b, text), "its TORCHELASTIC_RUN_ID differs");
	assert_string_equal(ori_job_tag_differ(&a, &c, text),
			    "its job is named by TORCHELASTIC_RUN_ID, this one by SLURM_JOB_ID or "
			    "SLURM_STEP_ID");
	assert_string_equal(ori_job_tag_differ(&d, &a, text),
			    "its job is named by something unknown, this one by "
			    "TORCHELASTIC_RUN_ID");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_names_of_launchers_distinguish_jobs),
		cmocka_unit_test(test_a_job_without_a_name_has_a_tag_of_zeros),
		cmocka_unit_test(test_a_key_makes_the_tag_and_is_not_in_it),
		cmocka_unit_test(test_the_text_names_the_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
