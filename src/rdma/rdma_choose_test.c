/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs that ori_choose() takes, and whether ranks agree on their kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "mem/memory.h"
#include "rdma/rdma_choose.h"

/* On this machine or on one that has NICs. */
static bool has_verbs(void)
{
	return ori_hca_verbs_ports("") > 0;
}

static struct ori_hca_choice chosen(const char *hca, const char *scenario,
				    const struct ori_gpu *gpu)
{
	struct ori_hca_choice choice;

	setenv("ORIEL_HCA", hca, 1);
	setenv("ORIEL_SOFT_HCA", scenario, 1);
	assert_int_equal(ori_choose(gpu, 1, &choice), ORIEL_OK);
	unsetenv("ORIEL_HCA");
	unsetenv("ORIEL_SOFT_HCA");
	return choice;
}

static void test_the_setting_chooses_the_hca(void **state)
{
	struct ori_hca_choice choice = chosen("soft", "seed=7", NULL);

	(void)state;
	assert_int_equal(choice.kind, ORI_HCA_KIND_SOFT);
	assert_ptr_equal(choice.ops, &ori_hca_soft_ops);
	assert_string_equal(choice.config, "seed=7");
	assert_string_equal(choice.lack, "");
	choice = chosen("", "", NULL);
	assert_int_equal(choice.kind, has_verbs() ? ORI_HCA_KIND_VERBS : ORI_HCA_KIND_SOFT);
	assert_int_equal(choice.lack[0] != '\0', !has_verbs());
	choice = chosen("auto", "seed=7", NULL);
	assert_int_equal(choice.kind, ORI_HCA_KIND_SOFT);
	assert_string_equal(choice.config, "seed=7");
	assert_string_equal(choice.lack, "");
}

static void test_names_choose_the_hcas(void **state)
{
	struct ori_gpu gpu = {.pci = "0000:3b:00.0"};
	struct ori_hca_choice choice;

	(void)state;
	if (!ori_hca_verbs()) {
		setenv("ORIEL_HCA", "verbs", 1);
		assert_int_equal(ori_choose(NULL, 1, &choice), ORIEL_ERR_UNSUPPORTED);
		unsetenv("ORIEL_HCA");
		return;
	}
	choice = chosen("verbs", "seed=7", NULL);
	assert_int_equal(choice.kind, ORI_HCA_KIND_VERBS);
	assert_ptr_equal(choice.ops, ori_hca_verbs());
	assert_string_equal(choice.config, "");
	choice = chosen("^mlx5_1:1,mlx5_2", "", NULL);
	assert_int_equal(choice.kind, ORI_HCA_KIND_VERBS);
	assert_string_equal(choice.config, "^mlx5_1:1,mlx5_2");
	choice = chosen("=rxe0", "", &gpu);
	assert_string_equal(choice.config, "=rxe0;near=0000:3b:00.0");
}

static void test_the_software_hca_has_no_tier(void **state)
{
	struct ori_hca_choice choice;

	(void)state;
	setenv("ORIEL_HCA", "soft", 1);
	setenv("ORIEL_TIER", "t0", 1);
	assert_int_equal(ori_choose(NULL, 1, &choice), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_TIER is 't0', but this rank has the "
						   "software HCA (ORIEL_HCA is 'soft')"));
	setenv("ORIEL_TIER", "auto", 1);
	assert_int_equal(ori_choose(NULL, 1, &choice), ORIEL_OK);
	unsetenv("ORIEL_TIER");
	unsetenv("ORIEL_HCA");
}

/* Calls in place of the rings that a setting demands would be a silent fallback. */
static void test_settings_that_demand_rings_do_not_get_calls(void **state)
{
	static const char *const demands[][2] = {{"ORIEL_TIER", "t1"}, {"ORIEL_DEVX", "on"}};
	struct ori_hca_choice choice;

	(void)state;
	if (!ori_hca_verbs())
		return;
	setenv("ORIEL_HCA", "=no_such_nic", 1);
	for (size_t i = 0; i < sizeof(demands) / sizeof(demands[0]); i++) {
		setenv(demands[i][0], demands[i][1], 1);
		assert_int_equal(ori_choose(NULL, 1, &choice), ORIEL_ERR_UNSUPPORTED);
		assert_non_null(strstr(oriel_last_error(), "'=no_such_nic' has no rings"));
		unsetenv(demands[i][0]);
	}
	assert_int_equal(ori_choose(NULL, 1, &choice), ORIEL_OK);
	assert_ptr_equal(choice.ops, ori_hca_verbs());
	unsetenv("ORIEL_HCA");
}

struct entry {
	uint64_t before;
	uint32_t kind;
};

static void test_all_ranks_drive_one_kind(void **state)
{
	struct entry all[] = {{1, ORI_HCA_KIND_NONE},
			      {1, ORI_HCA_KIND_VERBS},
			      {1, ORI_HCA_KIND_NONE},
			      {1, ORI_HCA_KIND_VERBS}};

	(void)state;
	assert_int_equal(ori_choices_agree(&all[0].kind, sizeof(all[0]), 4), ORIEL_OK);
	assert_int_equal(ori_choices_agree(&all[0].kind, sizeof(all[0]), 1), ORIEL_OK);
	all[3].kind = ORI_HCA_KIND_SOFT;
	assert_int_equal(ori_choices_agree(&all[0].kind, sizeof(all[0]), 3), ORIEL_OK);
	assert_int_equal(ori_choices_agree(&all[0].kind, sizeof(all[0]), 4), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), "rank 1 drives NICs of libibverbs, rank 3 "
						   "the software HCA"));
	all[0].kind = 9;
	assert_int_equal(ori_choices_agree(&all[0].kind, sizeof(all[0]), 4), ORIEL_ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_setting_chooses_the_hca),
		cmocka_unit_test(test_names_choose_the_hcas),
		cmocka_unit_test(test_the_software_hca_has_no_tier),
		cmocka_unit_test(test_settings_that_demand_rings_do_not_get_calls),
		cmocka_unit_test(test_all_ranks_drive_one_kind),
	};

	return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
