/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of hostlist.c: lists as Slurm writes them, and malformed ones. */
#include "bootstrap/hostlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void test_the_first_host_is_found(void **state)
{
	static const char *const lists[][2] = {
		{"node7", "node7"},
		{"node7,node9", "node7"},
		{"node[7]", "node7"},
		{"node[7-9]", "node7"},
		{"node[007-123,200],login", "node007"},
		{"node[3,1-2]", "node3"},
		{"rack[2-3]-node[05-08,11]", "rack2-node05"},
		{"rack[2-3]n[05-08].cluster.example", "rack2n05.cluster.example"},
		{"a-b[1,2]", "a-b1"},
		{"[1-4]x", "1x"},
	};
	char host[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		assert_true(ori_hostlist_first(lists[i][0], host, sizeof(host)));
		assert_string_equal(host, lists[i][1]);
	}
}

static void test_a_malformed_list_is_rejected(void **state)
{
	static const char *const lists[] = {"",        ",a",         "node[",    "node[1",
					    "node[]",  "node[1-]",   "node[-1]", "node[1,]",
					    "node[a]", "node]",      "node[1-2", "node[1;2]",
					    "no de",   "node[1-2-3]"};
	char host[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		assert_false(ori_hostlist_first(lists[i], host, sizeof(host)));
}

static void test_a_name_that_does_not_fit_is_rejected(void **state)
{
	char host[6];

	(void)state;
	assert_true(ori_hostlist_first("node[1-2]", host, sizeof(host)));
	assert_string_equal(host, "node1");
	assert_false(ori_hostlist_first("node[11-12]", host, sizeof(host)));
	assert_false(ori_hostlist_first("node11", host, sizeof(host)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_first_host_is_found),
		cmocka_unit_test(test_a_malformed_list_is_rejected),
		cmocka_unit_test(test_a_name_that_does_not_fit_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
