/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the filter ORIEL_HCA and of distances between PCI devices. */
#include "hca/verbs/verbs_pick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_a_filter_means_what_it_says(void **state)
{
	static const struct {
		const char *filter, *device;
		unsigned port;
		bool is_meant;
	} cases[] = {
		{"", "mlx5_0", 1, true},
		{"mlx5", "mlx5_0", 1, true},
		{"mlx5", "bnxt_re0", 1, false},
		{"mlx5_1", "mlx5_10", 1, true},
		{"=mlx5_1", "mlx5_10", 1, false},
		{"=mlx5_1", "mlx5_1", 2, true},
		{"mlx5_1:1", "mlx5_1", 1, true},
		{"mlx5_1:1", "mlx5_1", 2, false},
		{"mlx5_1:1", "mlx5_12", 1, true},
		{"=mlx5_0:2,mlx5_3", "mlx5_0", 2, true},
		{"=mlx5_0:2,mlx5_3", "mlx5_0", 1, false},
		{"=mlx5_0:2,mlx5_3", "mlx5_3", 1, true},
		{"^mlx5_1", "mlx5_1", 1, false},
		{"^mlx5_1", "mlx5_10", 1, false},
		{"^=mlx5_1", "mlx5_10", 1, true},
		{"^=mlx5_1:1", "mlx5_1", 1, false},
		{"^=mlx5_1:1", "mlx5_1", 2, true},
		{"^", "mlx5_0", 1, true},
		{"mlx5_0x", "mlx5_0", 1, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(ori_verbs_filter_flaw(cases[i].filter));
		assert_int_equal(ori_verbs_is_meant(cases[i].filter, cases[i].device,
						    cases[i].port),
				 cases[i].is_meant);
	}
}

static void test_a_filter_error_names_its_cause(void **state)
{
	static const char *const wrong[] = {
		"mlx5_0,",    ",mlx5_0",
		"mlx5_0:",    "mlx5_0:x",
		"mlx5_0:1x",  ":1",
		"mlx5_0:256", "a,,b",
		"mlx5_0:1:2", "=,",
		"mlx5_0:-1",  "^=:1",
		"mlx5_0: 1",  "m:18446744073709551617",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_non_null(ori_verbs_filter_flaw(wrong[i]));
}

static void test_the_closest_device_shares_most_bridges(void **state)
{
	static const char gpu[] = "/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0/0000:3b:00.0";
	static const struct {
		const char *nic;
		unsigned distance;
	} cases[] = {
		{"/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0/0000:3b:00.0", 0},
		{"/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0/0000:3c:00.0", 2},
		{"/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0", 1},
		{"/sys/devices/pci0000:30/0000:30:01.0/0000:32:00.0/0000:3c:00.0", 4},
		{"/sys/devices/pci0000:30/0000:30:02.0/0000:41:00.0", 5},
		{"/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", ORI_VERBS_UNRELATED},
		{"/sys/devices/virtual/net/lo", ORI_VERBS_UNRELATED},
		{"", ORI_VERBS_UNRELATED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(ori_verbs_distance(gpu, cases[i].nic), cases[i].distance);
		assert_int_equal(ori_verbs_distance(cases[i].nic, gpu), cases[i].distance);
	}
	/* The same digits, but not the same bridge. */
	assert_int_equal(ori_verbs_distance("/sys/devices/pci0000:30/0000:30:01.0",
					    "/sys/devices/pci0000:30/0000:30:01.1"),
			 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_filter_means_what_it_says),
		cmocka_unit_test(test_a_filter_error_names_its_cause),
		cmocka_unit_test(test_the_closest_device_shares_most_bridges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
