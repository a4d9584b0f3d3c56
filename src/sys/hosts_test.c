/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of network interfaces: ORIEL_IFACE's grammar, and what is told where none is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include <oriel/status.h>

#include "sys/hosts.h"

static void test_names_are_beginnings_unless_whole(void **state)
{
	(void)state;
	assert_true(ori_hosts_match("eth", "eth0"));
	assert_true(ori_hosts_match("ib,eth", "eth0"));
	assert_false(ori_hosts_match("eth1", "eth0"));
	assert_false(ori_hosts_match("eth10", "eth1"));
	assert_true(ori_hosts_match("=eth1", "eth1"));
	assert_false(ori_hosts_match("=eth1", "eth10"));
	assert_true(ori_hosts_match("=ib0,eth1", "eth1"));
	assert_false(ori_hosts_match("=ib0,eth1", "eth10"));
	assert_false(ori_hosts_match("^lo,docker", "docker0"));
	assert_true(ori_hosts_match("^lo,docker", "eth0"));
	assert_true(ori_hosts_match("^=docker", "docker0"));
	assert_false(ori_hosts_match("^=docker0", "docker0"));
	/* Empty names choose nothing. */
	assert_false(ori_hosts_match(",", "eth0"));
	assert_true(ori_hosts_match("^,", "eth0"));
}

static void test_loopback_is_chosen_by_name_alone(void **state)
{
	struct ori_hosts hosts;

	(void)state;
	setenv("ORIEL_IFACE", "=lo", 1);
	assert_int_equal(ori_hosts_list(&hosts), ORIEL_OK);
	assert_int_equal(hosts.is_ipv6, 0);
	assert_int_equal(ntohl(hosts.of[0]), INADDR_LOOPBACK);
	assert_int_equal(hosts.of[1], 0);
	unsetenv("ORIEL_IFACE");
	assert_int_equal(ori_hosts_list(&hosts), ORIEL_OK);
	for (unsigned i = 0; i < ORI_HOSTS && !hosts.is_ipv6; i++)
		assert_int_not_equal(ntohl(hosts.of[i]), INADDR_LOOPBACK);
}

static void test_a_missing_interface_is_named(void **state)
{
	struct ori_hosts hosts;

	(void)state;
	setenv("ORIEL_IFACE", "nosuch", 1);
	setenv("ORIEL_FAMILY", "ipv4", 1);
	assert_int_equal(ori_hosts_list(&hosts), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_IFACE is 'nosuch'"));
	assert_non_null(strstr(oriel_last_error(), "ORIEL_FAMILY ipv4"));
	assert_non_null(strstr(oriel_last_error(), "lo (IPv4)"));
	unsetenv("ORIEL_IFACE");
	unsetenv("ORIEL_FAMILY");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_are_beginnings_unless_whole),
		cmocka_unit_test(test_loopback_is_chosen_by_name_alone),
		cmocka_unit_test(test_a_missing_interface_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
