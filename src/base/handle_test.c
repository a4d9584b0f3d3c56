/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of handle.c: which addresses pass as live handles, and the texts about the rest. */
#include "base/handle.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KIND ORI_HANDLE_REGION
#define OTHER ORI_HANDLE_COPIES
#define LARGE ORI_HANDLE_LOCAL_JOB

struct object {
	uint64_t words[9];
};

static struct object *object_make(const void *parent)
{
	struct object *o = ori_handle_alloc(KIND, sizeof(*o));
	const struct object zero = {{0}};

	assert_non_null(o);
	assert_memory_equal(o, &zero, sizeof(zero));
	assert_int_equal((uintptr_t)o % 64, 0);
	assert_false(ori_handle_is_live(o, KIND));
	memset(o, 0xff, sizeof(*o));
	ori_handle_open(o, parent);
	return o;
}

static void object_end(struct object *o)
{
	assert_true(ori_handle_shut(o, KIND, "end"));
	ori_handle_free(o);
}

static void check_rejected(const void *handle, enum oriel_status status, const char *reason)
{
	assert_false(ori_handle_is_live(handle, KIND));
	assert_int_equal(ori_handle_check(handle, KIND, "oriel_call"), status);
	assert_int_equal(oriel_last_status(), status);
	assert_non_null(strstr(oriel_last_error(), "oriel_call: "));
	assert_non_null(strstr(oriel_last_error(), "region"));
	assert_non_null(strstr(oriel_last_error(), reason));
}

static void test_only_the_address_of_a_live_object_passes(void **state)
{
	struct object *o = object_make(NULL), *ended = object_make(NULL);
	void *other = ori_handle_alloc(OTHER, 200);
	char *at = (char *)o;
	uint64_t local[16] = {ori_handle_stamp, ori_handle_stamp};
	size_t i;

	(void)state;
	assert_non_null(other);
	ori_handle_open(other, NULL);
	object_end(ended);

	assert_int_equal(ori_handle_check(o, KIND, "oriel_call"), ORIEL_OK);
	check_rejected(NULL, ORIEL_ERR_INVALID, "is NULL");
	check_rejected(ended, ORIEL_ERR_STATE, "it was destroyed");
	check_rejected(other, ORIEL_ERR_STATE, "it is, or was, a copies object");
	check_rejected((char *)other + 8, ORIEL_ERR_STATE, "it lies inside a copies object");
	check_rejected(&local[8], ORIEL_ERR_STATE, "no handle of this library");
	check_rejected((void *)8, ORIEL_ERR_STATE, "no handle of this library");
	check_rejected((void *)-64, ORIEL_ERR_STATE, "no handle of this library");
	for (i = 1; i < 200; i++) {
		assert_false(ori_handle_is_live(at + i, KIND) && at + i != (char *)ended);
		assert_false(ori_handle_is_live(at - i, KIND));
	}
	check_rejected(at + 64, ORIEL_ERR_STATE, "it lies inside a region");
	/* An inaccessible address inside the reserved range: the check does not read there. */
	check_rejected(at + 10000 * ((char *)ended - at), ORIEL_ERR_STATE, "no handle");

	assert_true(ori_handle_shut(other, OTHER, "end"));
	ori_handle_free(other);
	object_end(o);
}

static void test_each_second_destroy_is_reported_once(void **state)
{
	struct object *o = object_make(NULL);

	(void)state;
	assert_false(ori_handle_shut(NULL, KIND, "oriel_end"));
	assert_true(ori_handle_shut(o, KIND, "oriel_end"));
	assert_false(ori_handle_shut(o, KIND, "oriel_end"));
	assert_non_null(strstr(oriel_last_error(), "oriel_end: "));
	assert_non_null(strstr(oriel_last_error(), "is not a live region: it was destroyed"));
	assert_int_equal(oriel_last_status(), ORIEL_ERR_STATE);
	ori_handle_free(o);
	ori_handle_free(NULL);
}

/* A slot waits for 1000 objects before its next use, and the number of slots stays bounded. */
static void test_a_stale_handle_stays_stale_for_long(void **state)
{
	struct object *stale = object_make(NULL);
	uint64_t slots;
	unsigned i;

	(void)state;
	object_end(stale);
	for (i = 0; i < 1000; i++) {
		struct object *o = object_make(NULL);

		assert_ptr_not_equal(o, stale);
		check_rejected(stale, ORIEL_ERR_STATE, "it was destroyed");
		object_end(o);
	}
	for (i = 0; i < 2000; i++)
		object_end(object_make(NULL));
	slots = atomic_load(&ori_handle_pools[KIND].slots);
	for (i = 0; i < 5000; i++)
		object_end(object_make(NULL));
	assert_int_equal(atomic_load(&ori_handle_pools[KIND].slots), slots);
}

static void test_the_youngest_child_is_named(void **state)
{
	struct object *parent = object_make(NULL), *first, *second;
	void *other;

	(void)state;
	assert_null(ori_handle_child(parent));
	first = object_make(parent);
	other = ori_handle_alloc(OTHER, 200);
	ori_handle_open(other, parent);
	second = object_make(parent);
	assert_string_equal(ori_handle_child(parent), "region");
	object_end(second);
	assert_string_equal(ori_handle_child(parent), "copies object");
	object_end(first);
	assert_string_equal(ori_handle_child(parent), "copies object");
	assert_true(ori_handle_shut(other, OTHER, "end"));
	ori_handle_free(other);
	assert_null(ori_handle_child(parent));
	other = ori_handle_alloc(OTHER, 200);
	ori_handle_borrow(other, parent);
	ori_handle_open(other, NULL);
	assert_string_equal(ori_handle_child(parent), "copies object");
	assert_true(ori_handle_shut(other, OTHER, "end"));
	ori_handle_free(other);
	other = ori_handle_alloc(OTHER, 200);
	ori_handle_open(other, NULL);
	assert_null(ori_handle_child(parent));
	assert_true(ori_handle_shut(other, OTHER, "end"));
	ori_handle_free(other);
	object_end(parent);
}

static void test_large_objects_are_zero_when_reused(void **state)
{
	const size_t size = 100000;
	unsigned i;

	(void)state;
	for (i = 0; i < 1500; i++) {
		unsigned char *o = ori_handle_alloc(LARGE, size);

		assert_non_null(o);
		assert_true(o[0] == 0 && o[size / 2] == 0 && o[size - 1] == 0);
		memset(o, 0xff, size);
		ori_handle_open(o, NULL);
		assert_true(ori_handle_shut(o, LARGE, "end"));
		ori_handle_free(o);
	}
}

#define THREADS 4
#define OBJECTS 2000

static void *shared[OBJECTS];
static atomic_uint shut;

static void *shut_all(void *context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < OBJECTS; i++)
		atomic_fetch_add(&shut, ori_handle_shut(shared[i], KIND, "end"));
	for (i = 0; i < 200; i++)
		object_end(object_make(NULL));
	return NULL;
}

static void test_one_of_many_threads_destroys_an_object(void **state)
{
	pthread_t threads[THREADS];
	unsigned i;

	(void)state;
	for (i = 0; i < OBJECTS; i++)
		shared[i] = object_make(NULL);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, shut_all, NULL), 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shut, OBJECTS);
	for (i = 0; i < OBJECTS; i++)
		ori_handle_free(shared[i]);
}

/* Runs in a child: with a limit on addresses the pool is small, and allocation fails at its end. */
static int with_few_addresses(void)
{
	const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
	void *last = NULL, *o;
	unsigned count = 0;

	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 77;
	while ((o = ori_handle_alloc(ORI_HANDLE_P2P_MEMORY, 64))) {
		ori_handle_open(o, NULL);
		last = o;
		count++;
	}
	if (count < 10000 || !ori_handle_shut(last, ORI_HANDLE_P2P_MEMORY, "end"))
		return 1;
	ori_handle_free(last);
	return ori_handle_alloc(ORI_HANDLE_P2P_MEMORY, 64) == last ? 0 : 2;
}

static void test_few_addresses_are_enough(void **state)
{
	int status;
	pid_t child;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* sanitizers reserve more addresses than the limit */
#endif
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(with_few_addresses());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_address_of_a_live_object_passes),
		cmocka_unit_test(test_each_second_destroy_is_reported_once),
		cmocka_unit_test(test_a_stale_handle_stays_stale_for_long),
		cmocka_unit_test(test_the_youngest_child_is_named),
		cmocka_unit_test(test_large_objects_are_zero_when_reused),
		cmocka_unit_test(test_one_of_many_threads_destroys_an_object),
		cmocka_unit_test(test_few_addresses_are_enough),
	};

	setenv("ORIEL_LOG", "error", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
