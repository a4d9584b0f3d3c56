/* SPDX-License-Identifier: Apache-2.0 */
/* The queries and trials of nics.c, against a fake NIC and a fake GPU (tests/fakenics). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/gpus.h"
#include "sys/nics.h"

static int (*open_objects)(void);

/* The lowest free descriptor number: it changes if a trial leaks a descriptor. */
static int next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static struct ori_nics_item query(const char *refuses)
{
	static struct ori_nics nics;
	int before = next_descriptor();

	assert_int_equal(setenv("FAKE_REFUSES", refuses, 1), 0);
	ori_nics_query(&nics);
	assert_true(nics.has_verbs && nics.has_mlx5);
	assert_int_equal(nics.count, 1);
	assert_string_equal(nics.item[0].name, "mlx5_9");
	assert_int_equal(open_objects(), 0);
	assert_int_equal(next_descriptor(), before);
	return nics.item[0];
}

static void expect(const char *refuses, struct ori_nics_item wanted)
{
	struct ori_nics_item found = query(refuses);

	assert_int_equal(found.mtu, wanted.mtu);
	assert_int_equal(found.opens, wanted.opens);
	assert_int_equal(found.pins, wanted.pins);
	assert_int_equal(found.atomics, wanted.atomics);
	assert_int_equal(found.dmabuf, wanted.dmabuf);
	assert_int_equal(found.devx, wanted.devx);
	assert_int_equal(found.doorbell, wanted.doorbell);
	assert_int_equal(found.umem, wanted.umem);
}

/* A NIC that supports everything, except for the given fields. */
#define BUT(...)                                                                          \
	(struct ori_nics_item)                                                            \
	{                                                                                 \
		.mtu = 4096, .opens = 1, .pins = 1, .atomics = 1, .dmabuf = 1, .devx = 1, \
		.doorbell = 1, .umem = 1, __VA_ARGS__                                     \
	}

#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif

static void test_a_complete_nic_passes_every_trial(void **state)
{
	(void)state;
	expect("", BUT(.mtu = 4096));
}

static void test_a_nic_that_does_not_open_is_not_queried(void **state)
{
	(void)state;
	expect("open", BUT(.mtu = -1, .opens = 0, .pins = -1, .atomics = -1, .dmabuf = -1,
			   .devx = -1, .doorbell = -1, .umem = -1));
}

static void test_each_verbs_failure_clears_its_field(void **state)
{
	(void)state;
	expect("mtu", BUT(.mtu = -1));
	expect("atomics", BUT(.atomics = 0));
	expect("pin", BUT(.pins = 0));
	expect("dmabuf", BUT(.dmabuf = 0));
	expect("sense", BUT(.dmabuf = -1));
	expect("pd", BUT(.pins = -1, .dmabuf = -1));
}

static void test_each_mlx5_failure_clears_its_field(void **state)
{
	(void)state;
	expect("mlx5", BUT(.devx = -1, .doorbell = -1, .umem = -1));
	expect("devx", BUT(.devx = 0, .doorbell = -1, .umem = -1));
	expect("commands", BUT(.devx = 0, .doorbell = -1, .umem = -1));
	expect("uar", BUT(.doorbell = -1));
}

static void test_each_gpu_failure_clears_its_field(void **state)
{
	(void)state;
	expect("registers", BUT(.doorbell = 0));
	expect("memory", BUT(.umem = -1));
	expect("context", BUT(.doorbell = -1, .umem = -1));
	expect("gpu", BUT(.doorbell = -1, .umem = -1));
}

static void test_queues_are_tried_as_dmabuf_then_by_address(void **state)
{
	(void)state;
	expect("umem-dmabuf", BUT(.umem = 1));
	expect("export", BUT(.umem = 1));
	expect("umem-address", BUT(.umem = 1));
	expect("umem-dmabuf umem-address", BUT(.umem = 0));
	expect("export umem-address", BUT(.umem = 0));
}

static void test_a_gpu_is_described(void **state)
{
	struct ori_gpus gpus;

	(void)state;
	assert_int_equal(setenv("FAKE_REFUSES", "", 1), 0);
	ori_gpus_query(&gpus);
	assert_true(gpus.has_library);
	assert_int_equal(gpus.result, 0);
	assert_int_equal(gpus.version, 13000);
	assert_int_equal(gpus.count, 1);
	assert_string_equal(gpus.item[0].pci, "0000:ab:00.0");
	assert_string_equal(gpus.item[0].name, "Fake");
	assert_string_equal(gpus.item[0].reach, "S");
	assert_int_equal(gpus.item[0].capability, 90);
	assert_int_equal(gpus.item[0].dmabuf, 1);

	assert_int_equal(setenv("FAKE_REFUSES", "attributes", 1), 0);
	ori_gpus_query(&gpus);
	assert_int_equal(gpus.item[0].capability, -1);
	assert_int_equal(gpus.item[0].dmabuf, -1);
}

/* Fails if the machine's own libraries were found instead of the fake. */
static int find_fake(void **state)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;

	(void)state;
	symbol = library ? dlsym(library, "fake_open_objects") : NULL;
	memcpy(&open_objects, &symbol, sizeof(symbol));
	return symbol ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_complete_nic_passes_every_trial),
		cmocka_unit_test(test_a_nic_that_does_not_open_is_not_queried),
		cmocka_unit_test(test_each_verbs_failure_clears_its_field),
		cmocka_unit_test(test_each_mlx5_failure_clears_its_field),
		cmocka_unit_test(test_each_gpu_failure_clears_its_field),
		cmocka_unit_test(test_queues_are_tried_as_dmabuf_then_by_address),
		cmocka_unit_test(test_a_gpu_is_described),
	};

	return cmocka_run_group_tests(tests, find_fake, NULL);
}
