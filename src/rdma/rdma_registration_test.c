/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that its owner registers: its keys, who shares them, and how requests find it. */
#include "rdma/memory_test.h"

static void test_registered_memory_is_found_by_its_address(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	char *memory = aligned_alloc(PAGE, 16 * PAGE);
	struct ori_rdma_mr *outer, *inner, *odd;
	struct oriel_dev_keys keys, again, lkeys;
	struct ori_proxy_sge sge;
	uint64_t address;
	unsigned rail, blocks = used;

	(void)state;
	assert_int_equal(ori_memory_register(m, memory, 16 * PAGE, ORI_RDMA_SHARED, &outer, &keys),
			 ORIEL_OK);
	for (rail = 0; rail < RAILS; rail++) {
		assert_int_equal(books[keys.rail[rail] - BOOKS - 1].rail, rail);
		assert_int_equal(books[keys.rail[rail] - BOOKS - 1].iova, 0);
		assert_int_equal(books[keys.rail[rail] - BOOKS - 1].access,
				 ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ |
					 ORI_HCA_REMOTE_ATOMIC);
	}
	/* Parts share its registration, each by an address of its own. */
	assert_int_equal(ori_memory_register(m, memory + 100, 3, ORI_RDMA_OWN, &odd, &again),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	ori_rdma_mr_local(odd, &address, &lkeys);
	assert_int_equal(address, 100);
	assert_int_equal(ori_memory_register(m, memory + PAGE, PAGE, ORI_RDMA_SHARED, &inner,
					     &again),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	ori_rdma_mr_local(inner, &address, &lkeys);
	assert_int_equal(address, PAGE);
	assert_int_equal(used, blocks + RAILS);
	for (rail = 0; rail < RAILS; rail++) {
		sge = find(m, rail, memory + 5, 16 * PAGE - 5, true);
		expect_at(&sge, rail, memory + 5, 16 * PAGE - 5);
		assert_null(sge.ref);
		assert_ptr_equal(sge.data, memory + 5);
		sge = find(m, rail, memory + PAGE + 8, 2 * PAGE, false);
		expect_at(&sge, rail, memory + PAGE + 8, 2 * PAGE);
		assert_null(sge.ref);
	}
	ori_memory_unregister(m, outer);
	sge = find(m, 1, memory + 2 * PAGE - 8, 8, false);
	expect_at(&sge, 1, memory + 2 * PAGE - 8, 8);
	assert_null(sge.ref);
	/* One byte more is not covered. */
	sge = find(m, 1, memory + 2 * PAGE - 8, 9, false);
	assert_non_null(sge.ref);
	release(m, 1, sge, true);
	ori_memory_unregister(m, odd);
	ori_memory_unregister(m, inner);
	memory_stop(m);
	free(memory);
}

/*
 * A registration serves others while its owner holds all of it, and stays until the last of
 * them ends; memory registered anew at its addresses gets a new one.
 */
static void test_memory_is_registered_once_for_a_use(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	char *memory = aligned_alloc(PAGE, 8 * PAGE);
	struct ori_rdma_mr *own, *shared, *part, *passing, *anew;
	struct oriel_dev_keys keys, again, lkeys;
	unsigned blocks = used;
	uint64_t address;

	(void)state;
	/* Peers may not name what only this process may: that is registered for them. */
	assert_int_equal(ori_memory_register(m, memory + 8, 6 * PAGE, ORI_RDMA_OWN, &own, &keys),
			 ORIEL_OK);
	assert_false(ori_memory_serves(m, memory + 8, 8, ORI_RDMA_SHARED));
	assert_int_equal(ori_memory_register(m, memory + 8, 6 * PAGE, ORI_RDMA_SHARED, &shared,
					     &keys),
			 ORIEL_OK);
	assert_int_equal(used, blocks + 2 * RAILS);
	assert_true(ori_memory_serves(m, memory + 8, 6 * PAGE, ORI_RDMA_SHARED));
	assert_false(ori_memory_serves(m, memory, 16, ORI_RDMA_SHARED));
	assert_int_equal(ori_memory_register(m, memory + PAGE, PAGE, ORI_RDMA_SHARED, &part,
					     &again),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	ori_rdma_mr_local(part, &address, &lkeys);
	assert_int_equal(address, PAGE);
	assert_int_equal(ori_memory_register(m, memory + 5 * PAGE, PAGE, ORI_RDMA_PASSING_TARGET,
					     &passing, &again),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	assert_int_equal(used, blocks + 2 * RAILS);
	ori_memory_unregister(m, own);
	ori_memory_unregister(m, shared);
	assert_true(books[keys.rail[0] - BOOKS - 1].is_open);
	assert_false(ori_memory_serves(m, memory + 8, 6 * PAGE, ORI_RDMA_SHARED));
	assert_int_equal(ori_memory_register(m, memory + 8, 6 * PAGE, ORI_RDMA_SHARED, &anew,
					     &again),
			 ORIEL_OK);
	assert_int_not_equal(again.rail[0], keys.rail[0]);
	assert_int_equal(used, blocks + 3 * RAILS);
	ori_memory_unregister(m, part);
	assert_true(books[keys.rail[0] - BOOKS - 1].is_open);
	ori_memory_unregister(m, passing);
	assert_false(books[keys.rail[0] - BOOKS - 1].is_open);
	ori_memory_unregister(m, anew);
	memory_stop(m);
	free(memory);
}

/*
 * A request registers the allocation of a GPU for peers, as one for itself does; an owner's
 * registration serves both while it lasts, and does not stay for a later allocation.
 */
static void test_requests_of_peers_register_allocations_of_a_gpu(void **state)
{
	struct ori_memory *m = memory_start(&book_gpu);
	struct ori_rdma_mr *passing, *owner;
	struct oriel_dev_keys keys, again, lkeys;
	uint64_t address;

	(void)state;
	assert_int_equal(ori_memory_register(m, GPU_AT + 100, 8, ORI_RDMA_PASSING_TARGET, &passing,
					     &keys),
			 ORIEL_OK);
	ori_rdma_mr_local(passing, &address, &lkeys);
	assert_int_equal(address, 100);
	assert_int_equal(books[keys.rail[0] - BOOKS - 1].length, GPU_LENGTH);
	ori_memory_unregister(m, passing);
	assert_true(books[keys.rail[0] - BOOKS - 1].is_open);
	gpu_id++;
	assert_int_equal(ori_memory_register(m, GPU_AT, 2 * PAGE, ORI_RDMA_SHARED, &owner, &again),
			 ORIEL_OK);
	assert_int_not_equal(again.rail[0], keys.rail[0]);
	assert_int_equal(ori_memory_register(m, GPU_AT + PAGE, 8, ORI_RDMA_PASSING_TARGET, &passing,
					     &keys),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	ori_memory_unregister(m, owner);
	ori_memory_unregister(m, passing);
	assert_false(books[keys.rail[0] - BOOKS - 1].is_open);
	memory_stop(m);
}

/*
 * A key allows what its use needs; what allows less stays beside what allows more, and serves
 * what needs no more.
 */
static void test_registrations_allow_what_their_use_needs(void **state)
{
	const unsigned written = ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE;
	struct ori_memory *m = memory_start(NULL);
	char *memory = aligned_alloc(PAGE, 8 * PAGE);
	struct ori_rdma_mr *target, *shared, *own, *passing[5];
	struct oriel_dev_keys keys, of_target, of_shared;
	unsigned first = used;

	(void)state;
	assert_int_equal(ori_memory_register(m, memory, 4 * PAGE, ORI_RDMA_TARGET, &target,
					     &of_target),
			 ORIEL_OK);
	assert_int_equal(books[first].access, written);
	assert_int_equal(ori_memory_register(m, memory + PAGE, PAGE, ORI_RDMA_PASSING_TARGET,
					     &passing[0], &keys),
			 ORIEL_OK);
	assert_memory_equal(&keys, &of_target, sizeof(keys));
	assert_false(ori_memory_serves(m, memory, PAGE, ORI_RDMA_SHARED));
	assert_int_equal(ori_memory_register(m, memory, 4 * PAGE, ORI_RDMA_SHARED, &shared,
					     &of_shared),
			 ORIEL_OK);
	assert_int_equal(used, first + 2 * RAILS);
	assert_true(books[of_target.rail[0] - BOOKS - 1].is_open);
	/* For a process alone: it serves sources, and no peers. */
	assert_int_equal(ori_memory_register(m, memory + 4 * PAGE + 8, PAGE, ORI_RDMA_OWN, &own,
					     &keys),
			 ORIEL_OK);
	assert_int_equal(ori_memory_register(m, memory + 4 * PAGE + 8, PAGE,
					     ORI_RDMA_PASSING_SOURCE, &passing[1], &keys),
			 ORIEL_OK);
	assert_int_equal(used, first + 3 * RAILS);
	assert_int_equal(ori_memory_register(m, memory + 4 * PAGE + 8, PAGE,
					     ORI_RDMA_PASSING_TARGET, &passing[2], &keys),
			 ORIEL_OK);
	assert_int_equal(used, first + 4 * RAILS);
	assert_int_equal(books[used - 1].access, written);
	/* A source alone may be only read; the next one on its page needs no more. */
	assert_int_equal(ori_memory_register(m, memory + 7 * PAGE, PAGE, ORI_RDMA_PASSING_SOURCE,
					     &passing[3], &keys),
			 ORIEL_OK);
	assert_int_equal(books[used - 1].access, 0);
	assert_int_equal(ori_memory_register(m, memory + 7 * PAGE + 8, 8, ORI_RDMA_PASSING_SOURCE,
					     &passing[4], &keys),
			 ORIEL_OK);
	assert_int_equal(used, first + 5 * RAILS);
	for (unsigned i = 0; i < 5; i++)
		ori_memory_unregister(m, passing[i]);
	ori_memory_unregister(m, own);
	ori_memory_unregister(m, shared);
	ori_memory_unregister(m, target);
	memory_stop(m);
	free(memory);
}

/* A request is looked up anew after any registration was added or removed. */
static void test_unregistered_memory_is_no_longer_found(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	char *memory = aligned_alloc(PAGE, 4 * PAGE);
	struct oriel_dev_keys before, keys;
	struct ori_rdma_mr *mr, *narrow;
	struct ori_proxy_sge sge;

	(void)state;
	memset(memory, 0, 4 * PAGE);
	assert_int_equal(ori_memory_register(m, memory, 2 * PAGE, ORI_RDMA_OWN, &mr, &before),
			 ORIEL_OK);
	sge = find(m, 0, memory + 8, PAGE, false);
	assert_null(sge.ref);
	/* An address inside is covered, a request beyond the end is not. */
	assert_int_equal(find(m, 0, memory + PAGE + 8, PAGE - 8, true).address, sge.address + PAGE);
	sge = find(m, 0, memory + 2 * PAGE - 8, 16, false);
	assert_non_null(sge.ref);
	release(m, 0, sge, true);

	(void)find(m, 0, memory, 8, false);
	ori_memory_unregister(m, mr);
	sge = find(m, 0, memory, 8, false);
	assert_non_null(sge.ref);
	release(m, 0, sge, true);

	/*
	 * If two cover it, the one that begins last is found, also if it was added after
	 * a lookup.
	 */
	assert_int_equal(ori_memory_register(m, memory, 4 * PAGE, ORI_RDMA_OWN, &mr, &keys),
			 ORIEL_OK);
	sge = find(m, 0, memory + PAGE, 8, false);
	assert_int_equal(ori_memory_register(m, memory + PAGE, PAGE, ORI_RDMA_SHARED, &narrow,
					     &keys),
			 ORIEL_OK);
	assert_int_not_equal(find(m, 0, memory + PAGE, 8, false).key, sge.key);
	ori_memory_unregister(m, narrow);
	assert_int_equal(find(m, 0, memory + PAGE, 8, false).key, sge.key);
	ori_memory_unregister(m, mr);
	free(memory);
	memory_stop(m);
}

static void test_a_registration_that_fails_leaves_nothing(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	struct ori_proxy_sge sge;
	struct oriel_dev_keys keys = {{7, 7}};
	struct ori_rdma_mr *mr;
	char *memory = aligned_alloc(PAGE, PAGE);
	int before = atomic_load(&open_books);

	(void)state;
	failure = ORIEL_ERR_NOMEM;
	for (fails_from = 0; fails_from < RAILS; fails_from++) {
		assert_int_equal(ori_memory_register(m, memory, PAGE, ORI_RDMA_SHARED, &mr, &keys),
				 ORIEL_ERR_NOMEM);
		assert_int_equal(ori_memory_register(m, memory, PAGE, ORI_RDMA_OWN, &mr, &keys),
				 ORIEL_ERR_NOMEM);
		assert_int_equal(keys.rail[0], 7);
		assert_int_equal(atomic_load(&open_books), before);
	}
	fails_from = 0;
	failure = ORIEL_OK;
	sge = find(m, 0, memory, 8, false);
	assert_non_null(sge.ref);
	release(m, 0, sge, false);
	memory_stop(m);
	free(memory);
}

static void test_memory_that_is_only_read_is_a_source(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	char *memory = aligned_alloc(PAGE, PAGE);
	struct ori_proxy_sge sge;
	struct oriel_dev_keys keys;
	struct ori_rdma_mr *mr;

	(void)state;
	is_only_read = true;
	assert_int_equal(ori_memory_register(m, memory, PAGE, ORI_RDMA_SHARED, &mr, &keys),
			 ORIEL_ERR_SYSTEM);
	assert_int_equal(ori_memory_register(m, memory, PAGE, ORI_RDMA_PASSING_TARGET, &mr, &keys),
			 ORIEL_ERR_SYSTEM);
	assert_int_equal(ori_memory_register(m, memory, PAGE, ORI_RDMA_PASSING_SOURCE, &mr, &keys),
			 ORIEL_OK);
	ori_memory_unregister(m, mr);
	assert_int_equal(ori_memory_register(m, memory, PAGE, ORI_RDMA_OWN, &mr, &keys), ORIEL_OK);
	is_only_read = false;
	sge = find(m, 1, memory + 8, 8, false);
	assert_int_equal(expect_at(&sge, 1, memory + 8, 8)->access, 0);
	assert_null(sge.ref);
	sge = find(m, 1, memory + 8, 8, true);
	assert_non_null(sge.ref);
	release(m, 1, sge, true);
	ori_memory_unregister(m, mr);
	memory_stop(m);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registered_memory_is_found_by_its_address),
		cmocka_unit_test(test_memory_is_registered_once_for_a_use),
		cmocka_unit_test(test_requests_of_peers_register_allocations_of_a_gpu),
		cmocka_unit_test(test_registrations_allow_what_their_use_needs),
		cmocka_unit_test(test_unregistered_memory_is_no_longer_found),
		cmocka_unit_test(test_a_registration_that_fails_leaves_nothing),
		cmocka_unit_test(test_memory_that_is_only_read_is_a_source),
	};

	return cmocka_run_group_tests_name("rdma_registration", tests, NULL, NULL);
}
