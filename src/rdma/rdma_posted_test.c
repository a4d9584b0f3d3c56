/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations for requests that threads post to rings, with an HCA that only keeps books. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "rdma/rdma_posted.h"

#define PAGE 4096u
#define DEPTH 16u

/* A registration: keys count from 1. */
struct book {
	uint64_t address, length, iova;
	unsigned access;
	bool is_open;
};

static struct book books[64];
static uint32_t used;
static unsigned open_books;
static bool is_only_read; /* nothing new may be registered for writing */

static enum oriel_status book_register(struct ori_hca *hca, void *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				       struct ori_hca_keys *keys)
{
	(void)hca;
	if (is_only_read && access)
		return ori_fail(ORIEL_ERR_ACCESS, "it is only read");
	books[used] = (struct book){(uintptr_t)address, length, iova, access, true};
	*mr = (struct ori_hca_mr *)&books[used++];
	*keys = (struct ori_hca_keys){used, used};
	open_books++;
	return ORIEL_OK;
}

static void book_unregister(struct ori_hca_mr *mr)
{
	assert_true(((struct book *)mr)->is_open);
	((struct book *)mr)->is_open = false;
	open_books--;
}

static const struct ori_hca_ops book_ops = {
	.register_memory = book_register,
	.unregister_memory = book_unregister,
};

/* A link and its queue, whose requests complete when the test says so. */
struct side {
	struct ori_memory *memory;
	struct ori_posted *posted;
	_Alignas(ORIEL_DEV_LINE) struct ori_dev_mlx5_queue queue;
	char cqes[DEPTH * ORIEL_MLX5_BLOCK];
	struct oriel_dev_link link;
	char *pages;
	unsigned open; /* registrations without those of requests */
};

static void side_start(struct side *s)
{
	struct ori_memory_attr attr = {.ops = &book_ops, .rails = 1};

	memset(s, 0, sizeof(*s));
	used = 0;
	assert_int_equal(ori_memory_open(&attr, &s->memory), ORIEL_OK);
	assert_int_equal(ori_posted_open(s->memory, &s->posted), ORIEL_OK);
	memset(s->cqes, 0xff, sizeof(s->cqes));
	s->queue.cq = s->cqes;
	s->queue.log_depth = 4;
	ori_dev_mlx5_queue_begin(&s->queue, 0);
	s->link.answers = ori_posted_answers(s->posted, 0);
	ori_dev_link_connected(&s->link, &s->queue, NULL);
	s->pages = mmap(NULL, 4 * (size_t)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	assert_ptr_not_equal(s->pages, MAP_FAILED);
	s->open = open_books;
}

static void side_stop(struct side *s)
{
	ori_posted_close(s->posted);
	ori_memory_close(s->memory);
	munmap(s->pages, 4 * (size_t)PAGE);
	assert_int_equal(open_books, 0);
}

/* The book by which the NIC finds @length bytes at @memory. */
static const struct book *find(struct side *s, const void *memory, uint64_t length)
{
	struct ori_dev_rdma_address found = {0, 0};
	const struct book *book;

	assert_true(s->link.answers->find(&s->link, memory, length, false, &found));
	book = &books[found.key - 1];
	assert_true(book->is_open);
	assert_int_equal(found.address - book->iova, (uintptr_t)memory - book->address);
	assert_true(found.address - book->iova + length <= book->length);
	return book;
}

/* One request is posted, and done if @is_done. */
static void post(struct side *s, bool is_done)
{
	s->queue.resv++;
	s->queue.turn = ori_dev_mlx5_turn(s->queue.resv, ORIEL_MLX5_RUNG);
	if (is_done)
		s->queue.done = s->queue.resv;
}

static void test_a_registration_ends_after_its_request(void **state)
{
	struct side s;

	(void)state;
	side_start(&s);
	assert_int_equal(find(&s, s.pages + 100, PAGE)->length, 2 * PAGE);
	post(&s, false);
	assert_int_equal(open_books, s.open + 1);
	/* The first is under way, the second is not posted yet. */
	find(&s, s.pages, 8);
	assert_int_equal(open_books, s.open + 2);
	post(&s, true);
	find(&s, s.pages, 8);
	assert_int_equal(open_books, s.open + 1);
	side_stop(&s);
}

/* Another mapping may be there by then. */
static void test_no_request_shares_the_registration_of_another(void **state)
{
	const struct book *first;
	struct side s;

	(void)state;
	side_start(&s);
	first = find(&s, s.pages, PAGE);
	post(&s, false);
	assert_ptr_not_equal(find(&s, s.pages, PAGE), first);
	side_stop(&s);
}

static void test_registered_memory_needs_no_registration(void **state)
{
	struct oriel_dev_keys rkeys;
	struct ori_rdma_mr *mr;
	struct side s;

	(void)state;
	side_start(&s);
	assert_int_equal(ori_memory_register(s.memory, s.pages, 2 * PAGE, ORI_RDMA_OWN, &mr,
					     &rkeys),
			 ORIEL_OK);
	find(&s, s.pages + 8, PAGE);
	assert_int_equal(open_books, s.open + 1);
	/* Not all of these bytes are in it. */
	find(&s, s.pages + PAGE, 2 * PAGE);
	assert_int_equal(open_books, s.open + 2);
	ori_memory_unregister(s.memory, mr);
	side_stop(&s);
}

static void test_sources_alone_need_not_be_writable(void **state)
{
	struct ori_dev_rdma_address found;
	struct side s;

	(void)state;
	side_start(&s);
	is_only_read = true;
	assert_int_equal(find(&s, s.pages, 8)->access, 0);
	assert_false(s.link.answers->find(&s.link, s.pages, 8, true, &found));
	is_only_read = false;
	side_stop(&s);
}

static void *find_from_elsewhere(void *context)
{
	struct side *s = context;

	find(s, s->pages + PAGE, 8);
	return NULL;
}

/* Whether a thread has posted that has not come back is unknown. */
static void test_a_registration_outlives_what_others_post(void **state)
{
	pthread_t other;
	struct side s;

	(void)state;
	side_start(&s);
	find(&s, s.pages, 8);
	for (unsigned i = 0; i < 3; i++) {
		post(&s, true);
		assert_int_equal(pthread_create(&other, NULL, find_from_elsewhere, &s), 0);
		pthread_join(other, NULL);
	}
	assert_true(open_books >= s.open + 2);
	ori_posted_drop(s.posted, ori_posted_take(s.posted, &s.queue));
	assert_int_equal(open_books, s.open);
	side_stop(&s);
}

static void test_results_of_atomics_have_words_that_the_nic_knows(void **state)
{
	const struct ori_dev_link_answers *answers;
	const struct book *book;
	struct side s;

	(void)state;
	side_start(&s);
	answers = s.link.answers;
	book = &books[answers->key - 1];
	assert_true(book->is_open && book->access & ORI_HCA_LOCAL_WRITE);
	assert_int_equal(answers->address - book->iova, (uintptr_t)answers->words - book->address);
	side_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_registration_ends_after_its_request),
		cmocka_unit_test(test_no_request_shares_the_registration_of_another),
		cmocka_unit_test(test_registered_memory_needs_no_registration),
		cmocka_unit_test(test_sources_alone_need_not_be_writable),
		cmocka_unit_test(test_a_registration_outlives_what_others_post),
		cmocka_unit_test(test_results_of_atomics_have_words_that_the_nic_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
