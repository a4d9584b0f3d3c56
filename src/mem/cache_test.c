/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the registration cache with a fake NIC and a fake GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "mem/cache.h"

#define PAGE 4096u
#define GPU_AT 0x700000000000u /* base of its memory: allocations of GPU_ALLOCATION bytes */
#define GPU_ALLOCATION 0x10000u
#define GPU_ALLOCATIONS 8u
#define IDLE 3u

/* A registration, as the NIC has it. */
struct made {
	struct ori_cache_range range;
	uint64_t generation; /* generation of the host memory when it was registered */
};

struct fake {
	struct ori_cache *cache;
	pthread_mutex_t lock;
	uint64_t ids[GPU_ALLOCATIONS];
	uint64_t next_id;
	_Atomic uint64_t generation;
	unsigned entered, left;
	unsigned failures; /* how many of the next calls fail for lack of memory */
	unsigned refusals;
};

static enum oriel_status fake_find(struct fake *f, uint64_t address, uint64_t length,
				   struct ori_cache_range *range)
{
	uint64_t allocation = (address - GPU_AT) / GPU_ALLOCATION;

	if (address < GPU_AT)
		return ori_cache_pages(address, length, range);
	if (allocation >= GPU_ALLOCATIONS)
		return ori_fail(ORIEL_ERR_INVALID, "nothing is there");
	pthread_mutex_lock(&f->lock);
	*range = (struct ori_cache_range){GPU_AT + allocation * GPU_ALLOCATION, GPU_ALLOCATION,
					  f->ids[allocation], 0};
	pthread_mutex_unlock(&f->lock);
	return ORIEL_OK;
}

static enum oriel_status fake_reg(void *context, const struct ori_cache_range *range,
				  void **registration)
{
	struct fake *f = context;
	struct made *made = malloc(sizeof(*made));
	enum oriel_status status = ORIEL_OK;

	assert_non_null(made);
	*made = (struct made){*range, atomic_load(&f->generation)};
	pthread_mutex_lock(&f->lock);
	if (f->failures)
		f->failures--, status = ORIEL_ERR_NOMEM;
	else if (f->refusals)
		f->refusals--, status = ORIEL_ERR_ACCESS;
	else
		f->entered++;
	pthread_mutex_unlock(&f->lock);
	if (status != ORIEL_OK) {
		free(made);
		return ori_fail(status, "as was asked for");
	}
	*registration = made;
	return ORIEL_OK;
}

static void fake_dereg(void *context, void *registration)
{
	struct fake *f = context;

	pthread_mutex_lock(&f->lock);
	f->left++;
	pthread_mutex_unlock(&f->lock);
	free(registration);
}

static struct fake *fake_open(void)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct ori_cache_attr attr = {f, fake_reg, fake_dereg, IDLE};

	assert_non_null(f);
	pthread_mutex_init(&f->lock, NULL);
	for (unsigned i = 0; i < GPU_ALLOCATIONS; i++)
		f->ids[i] = ++f->next_id;
	assert_int_equal(ori_cache_create(&attr, &f->cache), ORIEL_OK);
	return f;
}

static void fake_close(struct fake *f)
{
	ori_cache_destroy(f->cache);
	assert_int_equal(f->entered, f->left);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static uint64_t gpu_at(unsigned allocation, uint64_t offset)
{
	return GPU_AT + allocation * (uint64_t)GPU_ALLOCATION + offset;
}

/* cudaFree(), then a cudaMalloc() that returns the same address. */
static void fake_replace(struct fake *f, unsigned allocation)
{
	pthread_mutex_lock(&f->lock);
	f->ids[allocation] = ++f->next_id;
	pthread_mutex_unlock(&f->lock);
}

static enum oriel_status try_ref(struct fake *f, uint64_t address, uint64_t length,
				 struct ori_mr_ref *hold)
{
	struct ori_cache_range range;
	enum oriel_status status = fake_find(f, address, length, &range);

	return status == ORIEL_OK ? ori_cache_ref(f->cache, &range, hold) : status;
}

static struct ori_mr_ref ref(struct fake *f, uint64_t address, uint64_t length)
{
	struct ori_mr_ref hold;
	const struct made *made;

	assert_int_equal(try_ref(f, address, length, &hold), ORIEL_OK);
	made = hold.registration;
	assert_true(made->range.base <= address &&
		    made->range.base + made->range.length >= address + length);
	return hold;
}

static void unref(struct fake *f, struct ori_mr_ref hold)
{
	ori_cache_unref(f->cache, &hold);
}

static void test_pages_are_whole(void **state)
{
	struct ori_cache_range range;

	(void)state;
	assert_int_equal(ori_cache_pages(PAGE + 1, 2 * PAGE, &range), ORIEL_OK);
	assert_int_equal(range.base, PAGE);
	assert_int_equal(range.length, 3 * PAGE);
	assert_int_equal(range.id, 0);
	assert_int_equal(ori_cache_pages(PAGE, PAGE, &range), ORIEL_OK);
	assert_int_equal(range.length, PAGE);
	assert_int_equal(ori_cache_pages(UINT64_MAX - PAGE, PAGE, &range), ORIEL_ERR_RANGE);
	assert_int_equal(ori_cache_pages(PAGE, UINT64_MAX - PAGE, &range), ORIEL_ERR_RANGE);
	assert_int_equal(ori_cache_pages(UINT64_MAX - 5, 1, &range), ORIEL_ERR_RANGE);
}

static void test_one_allocation_is_registered_once(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref a, b;

	(void)state;
	a = ref(f, gpu_at(0, 100), 8);
	b = ref(f, gpu_at(0, 5000), 8);
	assert_ptr_equal(a.registration, b.registration);
	unref(f, a);
	unref(f, b);
	a = ref(f, gpu_at(0, 0), GPU_ALLOCATION);
	assert_int_equal(f->entered, 1);
	unref(f, a);
	assert_int_equal(f->left, 0);
	fake_close(f);
}

static void test_an_allocation_at_an_old_address_is_a_new_one(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref a, b;
	const struct made *made;

	(void)state;
	unref(f, ref(f, gpu_at(1, 0), 8));
	fake_replace(f, 1);
	a = ref(f, gpu_at(1, 0), 8);
	made = a.registration;
	assert_int_equal(made->range.id, f->ids[1]);
	/*
	 * The idle entry of the old allocation is not kept: it would pin memory that has been
	 * freed.
	 */
	assert_int_equal(f->left, 1);
	assert_int_equal(ori_cache_count(f->cache), 1);

	/* An entry in use is deregistered with its last reference. */
	fake_replace(f, 1);
	b = ref(f, gpu_at(1, 0), 8);
	assert_ptr_not_equal(a.registration, b.registration);
	assert_int_equal(f->left, 1);
	assert_int_equal(ori_cache_count(f->cache), 1);
	unref(f, a);
	assert_int_equal(f->left, 2);
	unref(f, b);
	fake_close(f);
}

/* An entry serves those who need no more rights, and an owner's entry those of its memory. */
static void test_an_entry_serves_fewer_rights(void **state)
{
	struct fake *f = fake_open();
	struct ori_cache_range all = {16 * PAGE, 4 * PAGE, 0, 3}, few = {17 * PAGE, 8, 0, 1};
	struct ori_cache_range owner = {gpu_at(1, 64), 128, 0, 3},
			       inside = {gpu_at(1, 64), 8, 0, 2};
	struct ori_mr_ref a, b, c, d;

	(void)state;
	assert_false(ori_cache_find(f->cache, &few, &b));
	assert_int_equal(ori_cache_ref(f->cache, &few, &b), ORIEL_OK);
	assert_int_equal(ori_cache_ref(f->cache, &all, &a), ORIEL_OK);
	assert_ptr_not_equal(a.entry, b.entry);
	unref(f, b);
	assert_true(ori_cache_find(f->cache, &few, &b));
	assert_ptr_equal(a.entry, b.entry);
	unref(f, b);
	few.rights = 4;
	assert_false(ori_cache_find(f->cache, &few, &b));
	unref(f, a);
	assert_int_equal(ori_cache_ref(f->cache, &owner, &a), ORIEL_OK);
	/* The whole allocation, registered beside it, does not hide it. */
	d = ref(f, gpu_at(1, 0), 8);
	assert_true(ori_cache_find(f->cache, &inside, &b));
	assert_ptr_equal(a.entry, b.entry);
	unref(f, a);
	assert_false(ori_cache_find(f->cache, &inside, &c));
	unref(f, b);
	assert_int_equal(ori_cache_count(f->cache), 1);
	unref(f, d);
	fake_close(f);
}

static void test_the_entry_idle_longest_is_evicted(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref held = ref(f, gpu_at(7, 0), 8);
	unsigned i;

	(void)state;
	for (i = 0; i < IDLE; i++)
		unref(f, ref(f, gpu_at(i, 0), 8));
	unref(f, ref(f, gpu_at(0, 0), 8));
	assert_int_equal(f->left, 0);
	unref(f, ref(f, gpu_at(5, 0), 8));
	assert_int_equal(f->left, 1);
	assert_int_equal(ori_cache_count(f->cache), IDLE + 1);
	unref(f, ref(f, gpu_at(0, 0), 8));
	unref(f, ref(f, gpu_at(2, 0), 8));
	unref(f, ref(f, gpu_at(5, 0), 8));
	assert_int_equal(f->entered, IDLE + 2);
	unref(f, ref(f, gpu_at(1, 0), 8));
	assert_int_equal(f->entered, IDLE + 3);
	unref(f, held);
	assert_int_equal(ori_cache_count(f->cache), IDLE);
	fake_close(f);
}

static void test_host_memory_stays_only_while_it_is_referenced(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref a, b;

	(void)state;
	a = ref(f, 10 * PAGE + 5, 3 * PAGE);
	b = ref(f, 11 * PAGE, 8);
	assert_ptr_equal(a.registration, b.registration);
	unref(f, b);
	assert_int_equal(f->left, 0);
	unref(f, a);
	assert_int_equal(f->left, 1);
	assert_int_equal(ori_cache_count(f->cache), 0);
	fake_close(f);
}

/*
 * Pages 10 to 13 are registered for a; b needs only page 11. Once a has dropped its reference, its
 * owner may unmap page 10, and the page mapped there next is not the registered one.
 */
static void test_a_part_does_not_keep_the_whole_open(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref a, b, c;

	(void)state;
	a = ref(f, 10 * PAGE, 4 * PAGE);
	b = ref(f, 11 * PAGE, 8);
	unref(f, a);
	assert_int_equal(f->left, 0);
	c = ref(f, 10 * PAGE, 8);
	assert_ptr_not_equal(c.registration, b.registration);
	unref(f, c);
	unref(f, b);
	assert_int_equal(f->left, 2);

	/* Another reference that spans all of it keeps it open for sharing. */
	a = ref(f, 10 * PAGE, 4 * PAGE);
	b = ref(f, 10 * PAGE + 1, 4 * PAGE - 1);
	unref(f, a);
	c = ref(f, 12 * PAGE, 8);
	assert_ptr_equal(c.registration, b.registration);
	unref(f, b);
	unref(f, c);
	assert_int_equal(f->entered, 3);
	assert_int_equal(ori_cache_count(f->cache), 0);
	fake_close(f);
}

static void test_short_entries_do_not_hide_a_long_one(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref inner[8], longest, found;
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++)
		inner[i] = ref(f, (101 + 2 * i) * PAGE, PAGE);
	longest = ref(f, 100 * PAGE, 50 * PAGE);
	found = ref(f, 148 * PAGE, 2 * PAGE);
	assert_ptr_equal(found.registration, longest.registration);
	unref(f, found);
	found = ref(f, 150 * PAGE, PAGE);
	assert_ptr_not_equal(found.registration, longest.registration);
	unref(f, found);
	found = ref(f, 149 * PAGE, 2 * PAGE);
	assert_ptr_not_equal(found.registration, longest.registration);
	unref(f, found);
	unref(f, inner[0]);
	inner[0] = ref(f, 160 * PAGE, PAGE);
	found = ref(f, 120 * PAGE, 10 * PAGE);
	assert_ptr_equal(found.registration, longest.registration);
	unref(f, found);
	for (i = 0; i < 8; i++)
		unref(f, inner[i]);
	unref(f, longest);
	assert_int_equal(ori_cache_count(f->cache), 0);
	fake_close(f);
}

static void test_invalidated_memory_is_deregistered(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref a, b;

	(void)state;
	unref(f, ref(f, gpu_at(0, 0), 8));
	unref(f, ref(f, gpu_at(1, 0), 8));
	unref(f, ref(f, gpu_at(2, 0), 8));
	ori_cache_invalidate(f->cache, gpu_at(1, 0) - 1, 0);
	ori_cache_invalidate(f->cache, gpu_at(3, 0), PAGE);
	assert_int_equal(f->left, 0);
	ori_cache_invalidate(f->cache, gpu_at(1, 0) - 1, 1);
	assert_int_equal(f->left, 1);
	ori_cache_invalidate(f->cache, gpu_at(1, 0) + 5, GPU_ALLOCATION);
	assert_int_equal(f->left, 3);

	/* The present reference keeps its entry; the next caller gets a new one. */
	a = ref(f, 20 * PAGE, 2 * PAGE);
	ori_cache_invalidate(f->cache, 21 * PAGE, 1);
	assert_int_equal(f->left, 3);
	b = ref(f, 20 * PAGE, 2 * PAGE);
	assert_ptr_not_equal(a.registration, b.registration);
	unref(f, a);
	assert_int_equal(f->left, 4);
	unref(f, b);
	fake_close(f);
}

static void test_idle_entries_are_evicted_for_new_ones(void **state)
{
	struct fake *f = fake_open();
	struct ori_mr_ref hold;

	(void)state;
	unref(f, ref(f, gpu_at(0, 0), 8));
	unref(f, ref(f, gpu_at(1, 0), 8));
	f->failures = 2;
	unref(f, ref(f, gpu_at(2, 0), 8));
	assert_int_equal(f->left, 2);
	f->failures = 2;
	assert_int_equal(try_ref(f, gpu_at(3, 0), 8, &hold), ORIEL_ERR_NOMEM);
	assert_int_equal(ori_cache_count(f->cache), 0);

	/* They stay if deregistering them would not help. */
	unref(f, ref(f, gpu_at(0, 0), 8));
	f->refusals = 1;
	assert_int_equal(try_ref(f, gpu_at(3, 0), 8, &hold), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_cache_count(f->cache), 1);
	assert_int_equal(try_ref(f, gpu_at(GPU_ALLOCATIONS, 0), 8, &hold), ORIEL_ERR_INVALID);
	fake_close(f);
}

#define THREADS 4u
#define ROUNDS 20000u

struct worker {
	struct fake *fake;
	unsigned number;
	unsigned stale;
};

static uint64_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/*
 * Each thread alone replaces one GPU allocation, and all threads use all of them; each has host
 * pages of its own, which are new pages each time it maps them.
 */
static void *worker_main(void *argument)
{
	struct worker *w = argument;
	struct fake *f = w->fake;
	uint64_t seed = w->number + 1, mine = gpu_at(w->number, 0), own = (1 + w->number) << 30;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t offset = draw(&seed) % 4 * PAGE, length = (1 + draw(&seed) % 4) * PAGE;
		struct ori_mr_ref hold, part, other;
		uint64_t mapped = atomic_fetch_add(&f->generation, 1) + 1;

		if (draw(&seed) % 4 == 0)
			fake_replace(f, w->number);
		if (try_ref(f, mine, 8, &hold) != ORIEL_OK)
			abort();
		w->stale += ((struct made *)hold.registration)->range.id != f->ids[w->number];
		if (try_ref(f, gpu_at((unsigned)draw(&seed) % THREADS, 0), 8, &other) != ORIEL_OK)
			abort();
		unref(f, hold);
		unref(f, other);

		if (try_ref(f, own + offset, length, &hold) != ORIEL_OK ||
		    try_ref(f, own + offset, 8, &part) != ORIEL_OK)
			abort();
		w->stale += ((struct made *)hold.registration)->generation < mapped;
		w->stale += ((struct made *)part.registration)->generation < mapped;
		unref(f, hold);
		unref(f, part);
	}
	return NULL;
}

static void test_no_thread_gets_a_stale_registration(void **state)
{
	struct fake *f = fake_open();
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	unsigned i;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){f, i, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].stale, 0);
	}
	assert_true(ori_cache_count(f->cache) <= IDLE);
	assert_int_equal(f->entered - f->left, ori_cache_count(f->cache));
	fake_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_are_whole),
		cmocka_unit_test(test_one_allocation_is_registered_once),
		cmocka_unit_test(test_an_allocation_at_an_old_address_is_a_new_one),
		cmocka_unit_test(test_an_entry_serves_fewer_rights),
		cmocka_unit_test(test_the_entry_idle_longest_is_evicted),
		cmocka_unit_test(test_host_memory_stays_only_while_it_is_referenced),
		cmocka_unit_test(test_a_part_does_not_keep_the_whole_open),
		cmocka_unit_test(test_short_entries_do_not_hide_a_long_one),
		cmocka_unit_test(test_invalidated_memory_is_deregistered),
		cmocka_unit_test(test_idle_entries_are_evicted_for_new_ones),
		cmocka_unit_test(test_no_thread_gets_a_stale_registration),
	};

	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
