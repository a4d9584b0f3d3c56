/* SPDX-License-Identifier: Apache-2.0 */
/* Values of its GPU that a rank may give, and each mistake in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "topo/overrides.h"

static struct ori_gpu gpu_in_fabric(void)
{
	return (struct ori_gpu){.pci = "0000:17:00.0",
				.flags = ORI_GPU_FABRIC | ORI_GPU_RDMA | ORI_GPU_VMM,
				.fabric = {ORI_FABRIC_READY, 5, {6}}};
}

static uint32_t apply(const char *attribute, struct ori_gpu *gpu)
{
	uint32_t given = UINT32_MAX;

	assert_int_equal(ori_topology_apply(attribute, gpu, &given), ORIEL_OK);
	return given;
}

static void test_nothing_given_changes_nothing(void **state)
{
	struct ori_gpu gpu = gpu_in_fabric(), same = gpu_in_fabric();

	(void)state;
	assert_int_equal(apply(NULL, &gpu), 0);
	assert_int_equal(apply("", &gpu), 0);
	assert_int_equal(apply(NULL, NULL), 0);
	assert_memory_equal(&gpu, &same, sizeof(gpu));
}

static void test_each_value_replaces_its_own(void **state)
{
	static const uint8_t cluster[16] = {0xab, 0xcd, 0x01, [15] = 0xff};
	struct ori_gpu gpu = gpu_in_fabric();

	(void)state;
	assert_int_equal(apply("cluster=ABcd0100-0000-0000-0000-0000000000ff", &gpu),
			 ORI_GIVEN_CLUSTER | ORI_GIVEN_BY_CALLER);
	assert_memory_equal(gpu.fabric.cluster, cluster, sizeof(cluster));
	assert_int_equal(gpu.fabric.clique, 5);
	assert_int_equal(apply("clique=4294967295", &gpu), ORI_GIVEN_CLIQUE | ORI_GIVEN_BY_CALLER);
	assert_int_equal(gpu.fabric.clique, UINT32_MAX);
	assert_memory_equal(gpu.fabric.cluster, cluster, sizeof(cluster));
	assert_int_equal(gpu.flags, gpu_in_fabric().flags);
	assert_int_equal(apply("gpudirect=off", &gpu), ORI_GIVEN_NO_RDMA | ORI_GIVEN_BY_CALLER);
	assert_int_equal(gpu.flags, ORI_GPU_FABRIC | ORI_GPU_VMM | ORI_GPU_NO_RDMA);
	assert_int_equal(gpu.fabric.state, ORI_FABRIC_READY);
	assert_int_equal(apply("peer_access=off", &gpu), ORI_GIVEN_NO_PEERS | ORI_GIVEN_BY_CALLER);
	assert_int_equal(gpu.flags, ORI_GPU_VMM | ORI_GPU_NO_RDMA | ORI_GPU_NO_PEERS);
	assert_int_equal(gpu.fabric.state, ORI_FABRIC_NO_PEERS);
	assert_int_equal(gpu.fabric.clique, 0);
}

static void test_the_attribute_stands_for_the_environment(void **state)
{
	struct ori_gpu gpu = gpu_in_fabric();

	(void)state;
	setenv("ORIEL_TOPOLOGY", "clique=1,gpudirect=off", 1);
	assert_int_equal(apply("clique=2", &gpu), ORI_GIVEN_CLIQUE | ORI_GIVEN_BY_CALLER);
	assert_int_equal(gpu.fabric.clique, 2);
	assert_int_equal(apply("", &gpu), 0);
	assert_int_equal(gpu.flags, gpu_in_fabric().flags);
	assert_int_equal(apply(NULL, &gpu), ORI_GIVEN_CLIQUE | ORI_GIVEN_NO_RDMA);
	assert_int_equal(gpu.fabric.clique, 1);
	unsetenv("ORIEL_TOPOLOGY");
}

static void expect_error(const char *text, const char *part, const char *flaw)
{
	struct ori_gpu gpu = gpu_in_fabric(), same = gpu_in_fabric();
	uint32_t given;

	assert_int_equal(ori_topology_apply(text, &gpu, &given), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "topology is '"));
	assert_non_null(strstr(oriel_last_error(), part));
	assert_non_null(strstr(oriel_last_error(), flaw));
	assert_memory_equal(&gpu, &same, sizeof(gpu));
	setenv("ORIEL_TOPOLOGY", text, 1);
	assert_int_equal(ori_topology_apply(NULL, NULL, &given), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_TOPOLOGY is '"));
	unsetenv("ORIEL_TOPOLOGY");
}

static void test_each_mistake_is_named(void **state)
{
	static const char none[] = "is none of cluster=UUID, clique=NUMBER";
	static const char uuid[] = "is not the UUID of a fabric";

	(void)state;
	expect_error("clique", "'clique'", none);
	expect_error("clique=1,", "''", none);
	expect_error(",clique=1", "''", none);
	expect_error("p2p=off", "'p2p=off'", none);
	expect_error("clique=1,clique=1", "'clique=1'", "is given twice");
	expect_error("clique=", "'clique='", "is not a clique");
	expect_error("clique=4294967296", "'clique=4294967296'", "is not a clique");
	expect_error("gpudirect=off,clique=-1", "'clique=-1'", "is not a clique");
	expect_error("peer_access=on", "'peer_access=on'", "may only be peer_access=off");
	expect_error("gpudirect=", "'gpudirect='", "may only be gpudirect=off");
	expect_error("cluster=12", "'cluster=12'", uuid);
	expect_error("cluster=00000000000000000000000000000000", "0'", uuid);
	expect_error("cluster=0000000000000000000000000000000g", "g'", uuid);
	expect_error("cluster=000000000000000000000000000000001", "1'", uuid);
	expect_error("cluster=-00000000000000000000000000000001", "1'", uuid);
}

static void test_a_fabric_that_is_not_there_has_no_name(void **state)
{
	struct ori_gpu gpu = {.pci = "0000:17:00.0", .fabric = {.state = ORI_FABRIC_OFF}};
	uint32_t given;

	(void)state;
	assert_int_equal(ori_topology_apply("gpudirect=off,clique=1", &gpu, &given),
			 ORIEL_ERR_INVALID);
	assert_string_equal(
		oriel_last_error(),
		"topology is 'gpudirect=off,clique=1': 'clique' names an NVLink fabric, "
		"but GPU 0000:17:00.0 is in none that is ready");
	assert_int_equal(gpu.flags, 0);
	/* A rank without a GPU takes part in none. */
	assert_int_equal(apply("clique=1", NULL), ORI_GIVEN_CLIQUE | ORI_GIVEN_BY_CALLER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_given_changes_nothing),
		cmocka_unit_test(test_each_value_replaces_its_own),
		cmocka_unit_test(test_the_attribute_stands_for_the_environment),
		cmocka_unit_test(test_each_mistake_is_named),
		cmocka_unit_test(test_a_fabric_that_is_not_there_has_no_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
