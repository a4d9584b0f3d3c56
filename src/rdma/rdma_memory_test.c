/* SPDX-License-Identifier: Apache-2.0 */
/* How memory of requests that no owner has registered is found. */
#include "rdma/memory_test.h"

/* The block that a short request goes through. */
static char *block_of(const struct ori_proxy_sge *sge)
{
	const struct book *book = &books[sge->key - 1];

	assert_true(book->is_open && book->access == ORI_HCA_LOCAL_WRITE);
	assert_true(sge->address >= book->iova && sge->address < book->iova + book->length);
	return (char *)(uintptr_t)sge->address;
}

static void test_words_of_a_stack_go_through_blocks(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	uint64_t source = 77, result = 1, given_up = 2;
	struct ori_proxy_sge from, to, none;
	unsigned before = used;

	(void)state;
	from = find(m, 0, &source, 8, false);
	source = 78;
	assert_int_equal(*(uint64_t *)(void *)block_of(&from), 77);
	assert_ptr_equal(from.data, block_of(&from));
	to = find(m, 0, &result, 8, true);
	none = find(m, 0, &given_up, 8, true);
	assert_ptr_not_equal(block_of(&to), block_of(&from));
	*(uint64_t *)(void *)block_of(&to) = 99;
	*(uint64_t *)(void *)block_of(&none) = 98;
	assert_int_equal(result, 1);
	release(m, 0, to, true);
	assert_int_equal(result, 99);
	release(m, 0, none, false);
	assert_int_equal(given_up, 2);
	*(uint64_t *)(void *)block_of(&from) = 5;
	release(m, 0, from, true);
	assert_int_equal(source, 78);
	assert_int_equal(used, before);
	memory_stop(m);
}

static void test_without_a_block_memory_is_registered(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	struct ori_proxy_sge blocks[ORI_MEMORY_BLOCKS], more;
	char memory[16] = "0123456789abcde";
	unsigned i, before = used;

	(void)state;
	for (i = 0; i < ORI_MEMORY_BLOCKS; i++)
		blocks[i] = find(m, 0, memory, sizeof(memory), false);
	assert_int_equal(used, before);
	more = find(m, 0, memory, sizeof(memory), false);
	assert_int_equal(used, before + 1);
	expect_at(&more, 0, memory, sizeof(memory));
	release(m, 0, more, true);
	assert_false(books[before].is_open);
	for (i = 0; i < ORI_MEMORY_BLOCKS; i++)
		release(m, 0, blocks[i], i % 2);
	more = find(m, 0, memory, sizeof(memory), false);
	assert_int_equal(used, before + 1);
	release(m, 0, more, false);
	memory_stop(m);
}

static void test_long_requests_register_their_memory(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	char *memory = aligned_alloc(PAGE, 8 * PAGE);
	struct ori_proxy_sge a, b;
	const struct book *book;

	(void)state;
	a = find(m, 1, memory + 7, 3 * PAGE, true);
	book = expect_at(&a, 1, memory + 7, 3 * PAGE);
	assert_int_equal(book->address, (uintptr_t)memory);
	assert_int_equal(book->length, 4 * PAGE);
	assert_int_equal(book->access, ORI_HCA_LOCAL_WRITE);
	b = find(m, 1, memory + PAGE, 2 * PAGE, false);
	assert_int_equal(a.key, b.key);
	release(m, 1, a, true);
	assert_true(book->is_open);
	release(m, 1, b, false);
	assert_false(book->is_open);
	memory_stop(m);
	free(memory);
}

static void test_memory_without_access_is_rejected(void **state)
{
	struct ori_memory *m = memory_start(NULL);
	struct ori_proxy_memory of = ori_memory_of_rail(m, 0);
	struct ori_proxy_sge sge;
	char *fixed = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned i;

	(void)state;
	assert_true(fixed != MAP_FAILED);
	assert_int_equal(mprotect(fixed + PAGE, PAGE, PROT_NONE), 0);
	/* Each failure gives the block back. */
	for (i = 0; i < 2 * ORI_MEMORY_BLOCKS; i++) {
		assert_int_equal(of.find(of.context, (uintptr_t)fixed, 8, true, &sge),
				 ORIEL_ERR_ACCESS);
		assert_int_equal(of.find(of.context, (uintptr_t)fixed + PAGE - 4, 8, false, &sge),
				 ORIEL_ERR_ACCESS);
	}
	sge = find(m, 0, fixed, 8, false);
	block_of(&sge);
	release(m, 0, sge, true);
	failure = ORIEL_ERR_SYSTEM;
	assert_int_equal(of.find(of.context, (uintptr_t)fixed, 2 * PAGE, false, &sge),
			 ORIEL_ERR_SYSTEM);
	failure = ORIEL_OK;
	munmap(fixed, 2 * PAGE);
	memory_stop(m);
}

static void test_memory_of_a_gpu_is_a_dma_buf(void **state)
{
	struct ori_memory *m = memory_start(&book_gpu);
	struct ori_proxy_sge sge, again;
	struct oriel_dev_keys keys;
	const struct book *book;
	struct ori_rdma_mr *mr;
	uint64_t word = 5;

	(void)state;
	/* Short or long: no CPU copies it, and its allocation is registered as a whole. */
	sge = find(m, 0, GPU_AT + 100, 8, true);
	book = expect_at(&sge, 0, GPU_AT + 100, 8);
	assert_true(book->is_dmabuf);
	assert_int_equal(book->length, GPU_LENGTH);
	release(m, 0, sge, true);
	assert_true(book->is_open);
	again = find(m, 0, GPU_AT + 5 * PAGE, 3 * PAGE, false);
	assert_int_equal(again.key, sge.key);
	release(m, 0, again, true);
	gpu_id++;
	again = find(m, 0, GPU_AT + 100, 8, true);
	assert_int_not_equal(again.key, sge.key);
	assert_false(book->is_open);
	release(m, 0, again, true);

	assert_int_equal(ori_memory_register(m, GPU_AT + PAGE + 24, 16, ORI_RDMA_SHARED, &mr,
					     &keys),
			 ORIEL_OK);
	book = &books[keys.rail[1] - BOOKS - 1];
	assert_true(book->is_dmabuf && book->rail == 1);
	assert_int_equal(book->address, (uintptr_t)GPU_AT + PAGE);
	assert_int_equal(book->length, PAGE);
	assert_int_equal(book->iova, 0);
	sge = find(m, 1, GPU_AT + PAGE + 32, 8, true);
	expect_at(&sge, 1, GPU_AT + PAGE + 32, 8);
	assert_null(sge.data);
	assert_null(sge.ref);
	ori_memory_unregister(m, mr);
	/* Memory of the host goes through a block beside it. */
	sge = find(m, 0, &word, 8, false);
	assert_int_equal(*(uint64_t *)(void *)block_of(&sge), 5);
	release(m, 0, sge, true);
	memory_stop(m);
}

static void test_without_dma_buf_there_is_peermem(void **state)
{
	struct ori_memory *m = memory_start(&book_gpu);
	struct ori_proxy_memory of = ori_memory_of_rail(m, 0);
	struct ori_proxy_sge sge;
	const struct book *book;

	(void)state;
	has_dmabuf = false;
	sge = find(m, 0, GPU_AT + 100, 8, true);
	book = expect_at(&sge, 0, GPU_AT + 100, 8);
	assert_false(book->is_dmabuf);
	release(m, 0, sge, true);
	has_peermem = false;
	gpu_id++;
	assert_int_equal(of.find(of.context, (uintptr_t)GPU_AT, 8, true, &sge),
			 ORIEL_ERR_UNSUPPORTED);
	assert_non_null(strstr(oriel_last_error(), "no dma-buf here"));
	assert_non_null(strstr(oriel_last_error(), "nvidia-peermem"));
	memory_stop(m);
}

static void test_gpu_memory_out_of_reach_is_rejected(void **state)
{
	struct ori_memory *m = memory_start(&book_gpu);
	struct ori_proxy_memory of = ori_memory_of_rail(m, 0);
	struct ori_proxy_sge sge;
	struct oriel_dev_keys keys;
	struct ori_rdma_mr *mr;
	uint64_t word = 5;

	(void)state;
	ori_memory_reject_gpu(m);
	assert_int_equal(ori_memory_register(m, GPU_AT, 16, ORI_RDMA_SHARED, &mr, &keys),
			 ORIEL_ERR_ACCESS);
	assert_non_null(strstr(oriel_last_error(), "no NIC reached memory of that GPU"));
	assert_int_equal(of.find(of.context, (uintptr_t)GPU_AT, 8, true, &sge), ORIEL_ERR_ACCESS);
	sge = find(m, 0, &word, 8, false);
	release(m, 0, sge, true);
	memory_stop(m);
}

#define THREADS 4u
#define ROUNDS 3000u

struct worker {
	struct ori_memory *m;
	unsigned number;
};

/* All threads register and unregister; a thread that has a rail to itself also finds. */
static void *worker_main(void *argument)
{
	struct worker *w = argument;
	struct ori_proxy_memory of = ori_memory_of_rail(w->m, w->number % RAILS);
	char *memory = aligned_alloc(PAGE, 4 * PAGE);
	bool has_rail = w->number < RAILS;
	struct oriel_dev_keys keys;
	struct ori_rdma_mr *mr;
	uint64_t word;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ori_proxy_sge sge;

		if (i % 8 == 0) {
			if (ori_memory_register(w->m, memory, 2 * PAGE, ORI_RDMA_OWN, &mr, &keys) !=
			    ORIEL_OK)
				abort();
			if (has_rail && (of.find(of.context, (uintptr_t)memory + 9, PAGE, true,
						 &sge) != ORIEL_OK ||
					 sge.ref))
				abort();
			ori_memory_unregister(w->m, mr);
		}
		if (!has_rail)
			continue;
		word = i;
		if (of.find(of.context, (uintptr_t)&word, 8, true, &sge) != ORIEL_OK)
			abort();
		if (sge.ref)
			of.release(of.context, &sge, true);
		if (word != i)
			abort();
	}
	free(memory);
	return NULL;
}

static void test_threads_do_not_disturb_each_other(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct ori_memory *m = memory_start(NULL);
	unsigned i;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){m, i};
		assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	memory_stop(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_of_a_stack_go_through_blocks),
		cmocka_unit_test(test_without_a_block_memory_is_registered),
		cmocka_unit_test(test_long_requests_register_their_memory),
		cmocka_unit_test(test_memory_without_access_is_rejected),
		cmocka_unit_test(test_memory_of_a_gpu_is_a_dma_buf),
		cmocka_unit_test(test_without_dma_buf_there_is_peermem),
		cmocka_unit_test(test_gpu_memory_out_of_reach_is_rejected),
		cmocka_unit_test(test_threads_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests_name("rdma_memory", tests, NULL, NULL);
}
