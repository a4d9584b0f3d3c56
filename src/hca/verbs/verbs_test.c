/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_test [DEVICE DEVICE]: the claims that hold for all HCAs posted to by
 * calls, over whichever libibverbs is loaded: that of tests/fakeverbs, or one
 * with real devices. Skipped (77) if there are none.
 */
#include "hca/call_bench_test.h"

#include <stdio.h>

static const char *names[2] = {"=fake0", "=fake1"};

static void run_cases(const char *a, const char *b)
{
	struct duo d;

	for (size_t i = 0; i < CALL_CASES; i++) {
		print_message("%s to %s: %s\n", a, b, call_cases[i].name);
		memset(&d, 0, sizeof(d));
		end_start(&d.a, ori_hca_verbs(), a);
		end_start(&d.b, ori_hca_verbs(), b);
		duo_join(&d);
		call_cases[i].run(&d);
		end_stop(&d.a);
		end_stop(&d.b);
	}
}

static void test_all_cases_hold_between_two_hcas(void **state)
{
	(void)state;
	run_cases(names[0], names[1]);
}

static void test_all_cases_hold_on_one_hca(void **state)
{
	(void)state;
	run_cases(names[0], names[0]);
}

static void test_caps_report_the_limits_of_an_hca(void **state)
{
	const struct ori_hca_ops *ops = ori_hca_verbs();
	struct ori_hca_qp_address address;
	struct ori_hca_caps caps;
	struct ori_hca *hca;

	(void)state;
	assert_int_equal(ops->open(names[0], 0, &hca), ORIEL_OK);
	ops->caps(hca, &caps);
	assert_string_equal(caps.kind, "verbs");
	assert_non_null(strstr(caps.name, names[0] + 1));
	assert_true(!caps.rings && !caps.is_software);
	assert_true(caps.mtu >= 256 && caps.mtu <= 4096);
	assert_true(caps.depth_max > 0 && caps.length_max > 0 && caps.max_rd_atomic > 0);
	ops->describe(hca, &address);
	assert_int_equal(address.version, ORI_HCA_ADDRESS_VERSION);
	assert_int_equal(address.qpn, 0);
	ops->close(hca);
}

/* A request to a destroyed QP fails, even if its HCA still runs. */
static void test_a_request_to_a_destroyed_peer_fails(void **state)
{
	struct ori_hca_wc wc;
	struct ori_hca_wr wr;
	struct duo d;

	(void)state;
	memset(&d, 0, sizeof(d));
	end_start(&d.a, ori_hca_verbs(), names[0]);
	end_start(&d.b, ori_hca_verbs(), names[1]);
	duo_join(&d);
	end_close_qp(&d.b);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
	wr.id = 3;
	end_post(&d.a, &wr, 1);
	end_next(&d.a, &wc);
	assert_int_equal(wc.id, 3);
	assert_int_equal(wc.status, ORIEL_ERR_PEER);
	assert_int_equal(wc.syndrome, ORIEL_SYNDROME_RETRY_EXCEEDED);
	end_open_qp(&d.b, CALL_DEPTH, CALL_DEPTH);
	end_stop(&d.a);
	end_stop(&d.b);
}

static bool is_there(void)
{
	struct ori_hca *hca;

	if (ori_hca_verbs()->open(names[0], 0, &hca) != ORIEL_OK) {
		fprintf(stderr, "verbs_test: skipped: %s\n", oriel_last_error());
		return false;
	}
	ori_hca_verbs()->close(hca);
	return true;
}

int main(int argc, char **argv)
{
	static char given[2][64];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_caps_report_the_limits_of_an_hca),
		cmocka_unit_test(test_all_cases_hold_between_two_hcas),
		cmocka_unit_test(test_all_cases_hold_on_one_hca),
		cmocka_unit_test(test_a_request_to_a_destroyed_peer_fails),
	};

	for (int i = 1; i < argc && i < 3; i++) {
		snprintf(given[i - 1], sizeof(given[0]), "=%.60s", argv[i]);
		names[0] = given[0];
		names[1] = given[i - 1];
	}
	setenv("ORIEL_IB_TIMEOUT", "12", 0);
	setenv("ORIEL_IB_RETRY", "3", 0);
	if (!is_there())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
