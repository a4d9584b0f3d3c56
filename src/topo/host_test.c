/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a process: its bytes, its fields, and each way to be invalid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/host.h"

#define BOTH ORI_HOST_PATHS

static struct ori_host describe(const char *node)
{
	struct ori_host h;

	assert_int_equal(ori_host_describe(node, BOTH, &h), ORIEL_OK);
	return h;
}

static void test_description_survives_the_wire(void **state)
{
	struct ori_host sent = describe("left"), received;

	(void)state;
	assert_int_equal(ori_host_parse(&sent, sizeof(sent), &received), ORIEL_OK);
	assert_memory_equal(&sent, &received, sizeof(sent));
	assert_string_equal(received.node, "left");
	assert_int_equal(received.pid, getpid());
	assert_int_equal(received.uid, geteuid());
	assert_int_equal(received.paths, BOTH);
	assert_int_equal(received.hca_count, 0);
}

static void test_description_does_not_change(void **state)
{
	struct ori_host once = describe(NULL), again = describe("");

	(void)state;
	assert_memory_equal(&once, &again, sizeof(once));
	assert_string_equal(once.node, "");
}

static void test_description_names_a_cpu(void **state)
{
	struct ori_host h = describe(NULL);
	uint64_t any = 0;

	(void)state;
	for (unsigned i = 0; i < ORI_HOST_CPUS / 64; i++)
		any |= h.cpus[i];
	assert_true(any != 0);
}

static void test_forked_child_has_another_token_but_one_machine(void **state)
{
	struct ori_host parent = describe(NULL), child;
	int status, ends[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		ori_host_describe(NULL, BOTH, &child);
		_exit(write(ends[1], &child, sizeof(child)) == sizeof(child) ? 0 : 1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);

	assert_true(child.token != parent.token);
	assert_int_equal(child.pid, pid);
	assert_memory_equal(child.boot_id, parent.boot_id, sizeof(child.boot_id));
	assert_true(child.pid_ns == parent.pid_ns && child.net_ns == parent.net_ns);
}

static void test_bad_node_names_are_rejected(void **state)
{
	char name[ORI_HOST_NAME + 1];
	struct ori_host h;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[ORI_HOST_NAME] = '\0';
	assert_int_equal(ori_host_describe(name, BOTH, &h), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "63 bytes"));
	name[ORI_HOST_NAME - 1] = '\0';
	assert_int_equal(ori_host_describe(name, BOTH, &h), ORIEL_OK);
	assert_int_equal(ori_host_describe("a\nb", BOTH, &h), ORIEL_ERR_INVALID);
}

static void test_every_other_length_is_rejected(void **state)
{
	char bytes[sizeof(struct ori_host) + 1] = {0};
	struct ori_host h = describe(NULL), out;

	(void)state;
	memcpy(bytes, &h, sizeof(h));
	for (size_t length = 0; length <= sizeof(bytes); length++)
		assert_int_equal(ori_host_parse(bytes, length, &out),
				 length == sizeof(h) ? ORIEL_OK : ORIEL_ERR_PROTOCOL);
}

#define FIELD(f) offsetof(struct ori_host, f)

static void test_each_bad_field_is_rejected(void **state)
{
	static const struct {
		size_t at;
		uint32_t value;
		enum oriel_status status;
	} table[] = {
		{FIELD(magic), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(version), ORI_HOST_VERSION + 1, ORIEL_ERR_VERSION},
		{FIELD(length), 12, ORIEL_ERR_VERSION},
		{FIELD(paths), 1u << ORIEL_PATH_SELF, ORIEL_ERR_PROTOCOL},
		{FIELD(paths), UINT32_MAX, ORIEL_ERR_PROTOCOL},
		{FIELD(pid), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(pid), 1u << 31, ORIEL_ERR_PROTOCOL},
		{FIELD(page_size), 0, ORIEL_ERR_PROTOCOL},
		{FIELD(page_size), 4097, ORIEL_ERR_PROTOCOL},
		{FIELD(page_size), 1, ORIEL_ERR_PROTOCOL},
		{FIELD(hostname), 0x0a0a0a0a, ORIEL_ERR_PROTOCOL},
		{FIELD(node), 0x61610761, ORIEL_ERR_PROTOCOL},
	};
	struct ori_host good = describe(NULL), bad, out = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		bad = good;
		memcpy((char *)&bad + table[i].at, &table[i].value, sizeof(table[i].value));
		assert_int_equal(ori_host_parse(&bad, sizeof(bad), &out), table[i].status);
	}
	bad = good;
	bad.token = 0;
	assert_int_equal(ori_host_parse(&bad, sizeof(bad), &out), ORIEL_ERR_PROTOCOL);
	assert_int_equal(out.magic, 0);
}

static unsigned list_two_peers(const struct ori_gpu *gpu, struct ori_gpu_reach *reach,
			       unsigned room)
{
	(void)gpu;
	assert_true(room == ORI_HOST_REACH);
	reach[0] = (struct ori_gpu_reach){{7}, ORI_GPU_ACCESS | ORI_GPU_ATOMICS};
	reach[1] = (struct ori_gpu_reach){{8}, 0};
	return 2;
}

static struct ori_host describe_gpu(void)
{
	static const struct ori_gpu_ops ops = {.list_peers = list_two_peers};
	const struct ori_gpu gpu = {.ops = &ops,
				    .uuid = {9},
				    .pci = "0000:1b:00.0",
				    .fabric = {ORI_FABRIC_READY, 5, {6}}};
	struct ori_host h = describe(NULL);

	ori_host_set_gpu(&h, &gpu, ORI_GIVEN_CLIQUE | ORI_GIVEN_BY_CALLER);
	return h;
}

static void test_a_gpu_survives_the_wire(void **state)
{
	struct ori_host sent = describe_gpu(), received;

	(void)state;
	assert_int_equal(ori_host_parse(&sent, sizeof(sent), &received), ORIEL_OK);
	assert_memory_equal(&sent, &received, sizeof(sent));
	assert_int_equal(received.gpu.uuid[0], 9);
	assert_int_equal(received.gpu.count, 2);
	assert_int_equal(received.gpu.given, ORI_GIVEN_CLIQUE | ORI_GIVEN_BY_CALLER);
	assert_int_equal(received.gpu.reach[1].uuid[0], 8);
	assert_string_equal(received.gpu.pci, "0000:1b:00.0");
	assert_int_equal(received.gpu.fabric.clique, 5);
	assert_int_equal(received.gpu.fabric.cluster[0], 6);
}

static void test_bad_gpus_are_rejected(void **state)
{
	struct ori_host good = describe_gpu(), bad, out;

	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		bad = good;
		switch (i) {
		case 0:
			bad.gpu.pci[0] = '\0';
			break;
		case 1:
			memset(bad.gpu.pci, 'g', sizeof(bad.gpu.pci));
			break;
		case 2:
			bad.gpu.pci[3] = '\n';
			break;
		case 3:
			bad.gpu.count = ORI_HOST_REACH + 1;
			break;
		case 4:
			bad.gpu.count = 1;
			break;
		case 5:
			bad.gpu.reach[1].flags = 8;
			break;
		case 6:
			bad.gpu.fabric.state = ORI_FABRIC_STATES;
			break;
		case 7:
			bad.gpu.fabric.cluster[0] = 0;
			break;
		case 8:
			bad.gpu.fabric.state = ORI_FABRIC_LOCAL;
			break;
		case 9:
			bad.gpu.domain = 1;
			break;
		case 10:
			bad.gpu.given = ORI_GIVEN_ALL + 1;
			break;
		default:
			bad.gpu.reserved = 1;
		}
		assert_int_equal(ori_host_parse(&bad, sizeof(bad), &out), ORIEL_ERR_PROTOCOL);
	}
}

static void test_names_without_a_nul_are_rejected(void **state)
{
	struct ori_host bad = describe(NULL), out;

	(void)state;
	memset(bad.hostname, 'h', sizeof(bad.hostname));
	assert_int_equal(ori_host_parse(&bad, sizeof(bad), &out), ORIEL_ERR_PROTOCOL);
	bad = describe(NULL);
	memset(bad.node, 'n', sizeof(bad.node));
	assert_int_equal(ori_host_parse(&bad, sizeof(bad), &out), ORIEL_ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_description_survives_the_wire),
		cmocka_unit_test(test_description_does_not_change),
		cmocka_unit_test(test_description_names_a_cpu),
		cmocka_unit_test(test_forked_child_has_another_token_but_one_machine),
		cmocka_unit_test(test_bad_node_names_are_rejected),
		cmocka_unit_test(test_every_other_length_is_rejected),
		cmocka_unit_test(test_each_bad_field_is_rejected),
		cmocka_unit_test(test_a_gpu_survives_the_wire),
		cmocka_unit_test(test_bad_gpus_are_rejected),
		cmocka_unit_test(test_names_without_a_nul_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
