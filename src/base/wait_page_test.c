/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of wait_page.c: the waits of threads, as another process reads them. */
#include "base/wait_page.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <oriel/dev/detail/cpu.h>

#include "base/clock.h"
#include "base/count_fds.h"

#define KEY 77u

static const struct ori_wait_comm some_comm = {.key = KEY, .rank = 1, .size = 2, .health_fd = -1};

/* As a communicator begins and ends. */
static void begin(const struct ori_wait_comm *comm)
{
	ori_wait_page_open();
	ori_wait_page_add(comm);
}

static void end(uint64_t key)
{
	ori_wait_page_remove(key);
	ori_wait_page_close();
}

/* No other thread ends a communicator here. */
static const struct ori_wait_page *page_of_all(void)
{
	const struct ori_wait_page *page = ori_wait_page_lock();

	ori_wait_page_unlock();
	return page;
}

/* The waits of rank @rank in the page of this process; the last one is copied. */
static unsigned count_waits(uint32_t rank, struct ori_wait_slot *found)
{
	const struct ori_wait_page *page = page_of_all();
	struct ori_wait_slot slot;
	unsigned i, count = 0;

	for (i = 0; page && i < ORI_WAIT_SLOTS; i++) {
		if (!ori_wait_read(&page->slot[i], &slot) || slot.note.rank != rank)
			continue;
		count++;
		*found = slot;
	}
	return count;
}

static unsigned count_slots(enum ori_wait_state state)
{
	const struct ori_wait_page *page = page_of_all();
	unsigned i, count = 0;

	for (i = 0; i < ORI_WAIT_SLOTS; i++)
		count += __atomic_load_n(&page->slot[i].state, __ATOMIC_ACQUIRE) == state;
	return count;
}

static void *wait_once(void *argument)
{
	const struct ori_wait_note note = {.rank = *(uint32_t *)argument, .expected = 5};

	ori_wait_note(&note);
	oriel_cpu_back_off(1000000000);
	return NULL;
}

static void test_a_note_is_shown_in_the_sleep_and_not_after(void **state)
{
	const struct ori_wait_note note = {.rank = 3, .peer = 9, .expected = 5, .seen = 4};
	struct ori_wait_slot found;

	(void)state;
	begin(&some_comm);
	ori_wait_note(&note);
	assert_int_equal(count_waits(3, &found), 0);
	ori_wait_show();
	assert_int_equal(count_waits(3, &found), 1);
	assert_memory_equal(&found.note, &note, sizeof(note));
	assert_int_equal(found.thread, gettid());
	ori_wait_hide();
	assert_int_equal(count_waits(3, &found), 0);
	/* A sleep of another wait, which has no note. */
	ori_wait_show();
	assert_int_equal(count_waits(3, &found), 0);
	ori_wait_hide();
	ori_wait_begin(&note);
	assert_int_equal(count_waits(3, &found), 1);
	ori_wait_end();
	assert_int_equal(count_waits(3, &found), 0);
	end(KEY);
}

static void test_a_thread_that_exits_frees_its_slot(void **state)
{
	pthread_t threads[8];
	uint32_t rank = 4;
	unsigned i, round, before;

	(void)state;
	begin(&some_comm);
	before = count_slots(ORI_WAIT_FREE);
	for (round = 0; round < ORI_WAIT_SLOTS / 4; round++) {
		for (i = 0; i < 8; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, wait_once, &rank), 0);
		for (i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
	}
	assert_int_equal(count_slots(ORI_WAIT_FREE), before);
	assert_int_equal(page_of_all()->lost, 0);
	end(KEY);
}

/* A wait of a device function calls the library at the age of @age. */
static uint64_t be_late(uint64_t age)
{
	const struct oriel_dev_fault record = {.finder = 7,
					       .what = ORIEL_DEV_BARRIER,
					       .age_ns = age,
					       .comm = KEY};

	return oriel_cpu_late(&record, ORIEL_GE, ORIEL_TIMEOUT_INFINITE);
}

static void test_short_waits_are_not_recorded(void **state)
{
	struct ori_wait_slot found;

	(void)state;
	begin(&some_comm);
	assert_int_equal(be_late(0), ORI_WAIT_RECORD_NS);
	assert_int_equal(be_late(ORI_WAIT_RECORD_NS - 1), ORI_WAIT_RECORD_NS);
	ori_wait_show();
	assert_int_equal(count_waits(6, &found), 0);
	ori_wait_hide();
	assert_true(be_late(ORI_WAIT_RECORD_NS) <=
		    ORI_WAIT_RECORD_NS); /* at each poll from now on */
	ori_wait_show();
	assert_int_equal(count_waits(6, &found), 1);
	assert_true(ori_clock_ns() - found.note.begun >= ORI_WAIT_RECORD_NS);
	assert_int_equal(found.note.comm, KEY);
	ori_wait_hide();
	end(KEY);
}

/* It has the parent's descriptor, and writes to a page of its own. */
static void test_a_child_does_not_write_to_the_page_of_its_parent(void **state)
{
	const struct ori_wait_page *page;
	const struct ori_wait_note note = {.rank = 5};
	struct ori_wait_slot found;
	int code;
	pid_t child;

	(void)state;
	begin(&some_comm);
	page = page_of_all();
	ori_wait_begin(&note);
	child = fork();
	if (child == 0) {
		if (page_of_all())
			_exit(1);
		ori_wait_end();
		begin(&some_comm);
		if (page_of_all() == page || page_of_all()->process != getpid())
			_exit(2);
		ori_wait_begin(&note);
		_exit(count_waits(5, &found) == 1 ? 0 : 3);
	}
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
	assert_int_equal(count_waits(5, &found), 1);
	ori_wait_end();
	end(KEY);
}

static void test_communicators_come_and_are_removed(void **state)
{
	const struct ori_wait_comm other = {.key = KEY + 1, .size = 1, .health_fd = -1};
	const struct ori_wait_note note = {.rank = 8};
	const struct ori_wait_page *page;
	unsigned i, count = 0, fds = count_fds();
	struct ori_wait_slot found;

	(void)state;
	assert_null(page_of_all());
	begin(&some_comm);
	page = page_of_all();
	for (i = 0; i < 3 * ORI_WAIT_COMMS; i++) {
		begin(&other);
		end(other.key);
	}
	for (i = 0; i < ORI_WAIT_COMMS; i++)
		count += page->comm[i].key != 0;
	assert_int_equal(count, 1);
	ori_wait_begin(&note);
	end(KEY);
	/* The last one takes the page along, with the slots of threads; the next one makes another.
	 */
	assert_null(page_of_all());
	assert_int_equal(count_fds(), fds);
	ori_wait_end();
	begin(&some_comm);
	assert_int_equal(count_waits(8, &found), 0);
	ori_wait_begin(&note);
	assert_int_equal(count_waits(8, &found), 1);
	ori_wait_end();
	end(KEY);
	assert_int_equal(count_fds(), fds);
}

/* Its ranks meet before it has a name to be added by, and another communicator ends meanwhile. */
static void test_a_communicator_may_wait_before_it_is_added(void **state)
{
	const struct ori_wait_note note = {.rank = 9};
	struct ori_wait_slot found;

	(void)state;
	begin(&some_comm);
	ori_wait_page_open();
	end(KEY);
	ori_wait_begin(&note);
	assert_int_equal(count_waits(9, &found), 1);
	ori_wait_end();
	ori_wait_page_close();
	assert_null(page_of_all());
}

/* A file of that size would end the process by SIGXFSZ. */
static void test_a_limit_of_files_leaves_waits_out(void **state)
{
	const struct rlimit few = {4096, RLIM_INFINITY};
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	begin(&some_comm);
	assert_null(page_of_all());
	end(KEY);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_note_is_shown_in_the_sleep_and_not_after),
		cmocka_unit_test(test_a_thread_that_exits_frees_its_slot),
		cmocka_unit_test(test_short_waits_are_not_recorded),
		cmocka_unit_test(test_a_child_does_not_write_to_the_page_of_its_parent),
		cmocka_unit_test(test_communicators_come_and_are_removed),
		cmocka_unit_test(test_a_communicator_may_wait_before_it_is_added),
		cmocka_unit_test(test_a_limit_of_files_leaves_waits_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
