/* SPDX-License-Identifier: Apache-2.0 */
/* The features that oriel_probe() finds: one result for all threads, each feature named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include <oriel/comm.h>

#define MOST 64
#define THREADS 8

static unsigned read_features(struct oriel_feature features[MOST])
{
	unsigned count = 0;

	for (; count < MOST; count++) {
		features[count].size = sizeof(*features);
		if (oriel_feature_get(count, &features[count]) != ORIEL_OK)
			break;
	}
	return count;
}

static void *read_first(void *feature)
{
	((struct oriel_feature *)feature)->size = sizeof(struct oriel_feature);
	return oriel_feature_get(0, feature) == ORIEL_OK ? feature : NULL;
}

/* Runs first, so that the threads also race to probe. */
static void test_all_threads_see_one_result(void **state)
{
	struct oriel_feature seen[THREADS];
	pthread_t threads[THREADS];
	void *result;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_first, &seen[i]), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_non_null(result);
		assert_ptr_equal(seen[i].detail, seen[0].detail);
		assert_true(strlen(seen[i].detail) > 0);
	}
}

static void test_every_feature_is_complete_and_named_once(void **state)
{
	struct oriel_feature features[MOST];
	unsigned count = read_features(features);

	(void)state;
	assert_in_range(count, 10, MOST - 1);
	for (unsigned i = 0; i < count; i++) {
		assert_true(strlen(features[i].name) > 0);
		assert_true(strlen(features[i].detail) > 0);
		assert_true(strlen(features[i].serves) > 0);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(features[i].name, features[j].name);
	}
}

static void test_an_index_past_the_last_feature_is_an_error(void **state)
{
	struct oriel_feature features[MOST], none = {.size = sizeof(none), .name = "untouched"};
	unsigned count = read_features(features);

	(void)state;
	assert_int_equal(oriel_feature_get(count, &none), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_feature_get(UINT32_MAX, &none), ORIEL_ERR_RANGE);
	assert_string_equal(none.name, "untouched");
	assert_int_equal(oriel_feature_get(0, NULL), ORIEL_ERR_INVALID);
}

static void test_required_features_are_present(void **state)
{
	struct oriel_feature features[MOST];
	unsigned count = read_features(features), found = 0;

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(features[i].name, "memfd") == 0 ||
		    strcmp(features[i].name, "unix sockets") == 0 ||
		    strcmp(features[i].name, "CPUs") == 0) {
			assert_true(features[i].is_present);
			found++;
		}
	}
	assert_int_equal(found, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_threads_see_one_result),
		cmocka_unit_test(test_every_feature_is_complete_and_named_once),
		cmocka_unit_test(test_an_index_past_the_last_feature_is_an_error),
		cmocka_unit_test(test_required_features_are_present),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
