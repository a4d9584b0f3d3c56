/* SPDX-License-Identifier: Apache-2.0 */
/* How memory of requests is found, with HCAs and a GPU that only keep books. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/memory.h"
#include "rdma/rdma_memory.h"

#define PAGE 4096u
#define RAILS 2u
#define BOOKS 4096u
#define GPU_AT ((char *)0x700000000000)
#define GPU_LENGTH (16 * PAGE)

/* A registration; its lkey is its index + 1, its rkey that + BOOKS. */
struct book {
	bool is_open;
	unsigned rail;
	uint64_t address, length, iova;
	unsigned access;
	bool is_dmabuf;
};

static struct book books[BOOKS];
static unsigned used;
static pthread_mutex_t books_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int open_books;
static int rails[RAILS];                     /* their addresses are those of HCAs */
static bool has_peermem, has_dmabuf;         /* of the GPU */
static enum oriel_status failure = ORIEL_OK; /* of all registrations */
static unsigned fails_from;                  /* ... by this rail and those behind it */
static bool is_only_read;                    /* nothing may be registered for writing */
static uint64_t gpu_id = 1;

static enum oriel_status book_open(struct ori_hca *hca, struct book book, struct ori_hca_mr **mr,
				   struct ori_hca_keys *keys)
{
	book.rail = (unsigned)((int *)hca - rails);
	if (failure != ORIEL_OK && book.rail >= fails_from)
		return ori_fail(failure, "as the test requested");
	pthread_mutex_lock(&books_lock);
	assert_true(used < BOOKS);
	book.is_open = true;
	books[used] = book;
	*mr = (struct ori_hca_mr *)&books[used++];
	*keys = (struct ori_hca_keys){used, used + BOOKS};
	pthread_mutex_unlock(&books_lock);
	atomic_fetch_add(&open_books, 1);
	return ORIEL_OK;
}

static enum oriel_status book_register(struct ori_hca *hca, void *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				       struct ori_hca_keys *keys)
{
	struct book book = {.address = (uintptr_t)address,
			    .length = length,
			    .iova = iova,
			    .access = access};

	/* The kernel requires it, too. */
	assert_int_equal((book.address ^ iova) % PAGE, 0);
	if (((char *)address >= GPU_AT && !has_peermem) || (is_only_read && access))
		return ori_fail(ORIEL_ERR_SYSTEM, "bad address");
	return book_open(hca, book, mr, keys);
}

static enum oriel_status book_register_dmabuf(struct ori_hca *hca, int fd, uint64_t offset,
					      size_t length, uint64_t iova, unsigned access,
					      struct ori_hca_mr **mr, struct ori_hca_keys *keys)
{
	struct book book = {.length = length, .iova = iova, .access = access, .is_dmabuf = true};

	assert_int_equal(offset, 0);
	assert_int_equal(iova % PAGE, 0);
	assert_int_equal(pread(fd, &book.address, 8, 0), 8);
	return book_open(hca, book, mr, keys);
}

static void book_unregister(struct ori_hca_mr *mr)
{
	struct book *book = (struct book *)mr;

	assert_true(book->is_open);
	book->is_open = false;
	atomic_fetch_sub(&open_books, 1);
}

static const struct ori_hca_ops book_ops = {
	.kind = "books",
	.register_memory = book_register,
	.register_dmabuf = book_register_dmabuf,
	.unregister_memory = book_unregister,
};

static enum oriel_status book_query(const struct ori_gpu *gpu, const void *address,
				    struct ori_gpu_memory_info *info)
{
	(void)gpu;
	*info = (struct ori_gpu_memory_info){.kind = ORI_GPU_PAGEABLE};
	if ((const char *)address >= GPU_AT && (const char *)address < GPU_AT + GPU_LENGTH)
		*info = (struct ori_gpu_memory_info){ORI_GPU_LEGACY, GPU_AT, GPU_LENGTH, 0, gpu_id};
	return ORIEL_OK;
}

/* The descriptor contains the address that it is of. */
static enum oriel_status book_export(const struct ori_gpu *gpu, void *address, size_t length,
				     int *fd)
{
	(void)gpu;
	assert_int_equal((uintptr_t)address % PAGE, 0);
	assert_int_equal(length % PAGE, 0);
	if (!has_dmabuf)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "no dma-buf here");
	*fd = memfd_create("rdma_memory_test", MFD_CLOEXEC);
	assert_int_equal(write(*fd, &address, 8), 8);
	return ORIEL_OK;
}

static const struct ori_gpu_ops book_gpu_ops = {.query = book_query, .export_dmabuf = book_export};
static const struct ori_gpu book_gpu = {.ops = &book_gpu_ops};

static struct ori_memory *memory_start(const struct ori_gpu *gpu)
{
	struct ori_memory_attr attr = {
		.ops = &book_ops,
		.hcas = {(struct ori_hca *)&rails[0], (struct ori_hca *)&rails[1]},
		.rails = RAILS,
		.gpu = gpu,
	};
	struct ori_memory *m;

	used = 0;
	has_peermem = has_dmabuf = true;
	assert_int_equal(ori_memory_open(&attr, &m), ORIEL_OK);
	assert_int_equal(ori_memory_open_blocks(m), ORIEL_OK);
	return m;
}

static void memory_stop(struct ori_memory *m)
{
	ori_memory_close(m);
	assert_int_equal(atomic_load(&open_books), 0);
}

/* The sge is for @length bytes from @address on, in the book of the HCA of @rail. */
static const struct book *expect_at(const struct ori_proxy_sge *sge, unsigned rail,
				    const void *address, uint64_t length)
{
	const struct book *book = &books[sge->key - 1];

	assert_true(sge->key >= 1 && sge->key <= used);
	assert_true(book->is_open && book->rail == rail);
	assert_true(sge->address >= book->iova);
	assert_true(sge->address + length <= book->iova + book->length);
	assert_int_equal(book->address + (sge->address - book->iova), (uintptr_t)address);
	return book;
}

static struct ori_proxy_sge find(struct ori_memory *m, unsigned rail, const void *address,
				 uint64_t length, bool is_target)
{
	struct ori_proxy_memory of = ori_memory_of_rail(m, rail);
	struct ori_proxy_sge sge;

	assert_int_equal(of.find(of.context, (uintptr_t)address, length, is_target, &sge),
			 ORIEL_OK);
	return sge;
}

static void release(struct ori_memory *m, unsigned rail, struct ori_proxy_sge sge, bool is_done)
{
	struct ori_proxy_memory of = ori_memory_of_rail(m, rail);

	of.release(of.context, &sge, is_done);
}

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
	assert_false(ori_memory_is_shared(m, memory + 8, 8));
	assert_int_equal(ori_memory_register(m, memory + 8, 6 * PAGE, ORI_RDMA_SHARED, &shared,
					     &keys),
			 ORIEL_OK);
	assert_int_equal(used, blocks + 2 * RAILS);
	assert_true(ori_memory_is_shared(m, memory + 8, 6 * PAGE));
	assert_false(ori_memory_is_shared(m, memory, 16));
	assert_int_equal(ori_memory_register(m, memory + PAGE, PAGE, ORI_RDMA_SHARED, &part,
					     &again),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	ori_rdma_mr_local(part, &address, &lkeys);
	assert_int_equal(address, PAGE);
	assert_int_equal(ori_memory_register(m, memory + 5 * PAGE, PAGE, ORI_RDMA_PASSING, &passing,
					     &again),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	assert_int_equal(used, blocks + 2 * RAILS);
	ori_memory_unregister(m, own);
	ori_memory_unregister(m, shared);
	assert_true(books[keys.rail[0] - BOOKS - 1].is_open);
	assert_false(ori_memory_is_shared(m, memory + 8, 6 * PAGE));
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
	assert_int_equal(ori_memory_register(m, GPU_AT + 100, 8, ORI_RDMA_PASSING, &passing, &keys),
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
	assert_int_equal(ori_memory_register(m, GPU_AT + PAGE, 8, ORI_RDMA_PASSING, &passing,
					     &keys),
			 ORIEL_OK);
	assert_memory_equal(&again, &keys, sizeof(keys));
	ori_memory_unregister(m, owner);
	ori_memory_unregister(m, passing);
	assert_false(books[keys.rail[0] - BOOKS - 1].is_open);
	memory_stop(m);
}

/* The block that a short request goes through. */
static char *block_of(const struct ori_proxy_sge *sge)
{
	const struct book *book = &books[sge->key - 1];

	assert_true(book->is_open && book->access == ORI_HCA_LOCAL_WRITE);
	assert_true(sge->address >= book->iova && sge->address < book->iova + book->length);
	return (char *)(uintptr_t)sge->address;
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
		cmocka_unit_test(test_registered_memory_is_found_by_its_address),
		cmocka_unit_test(test_memory_is_registered_once_for_a_use),
		cmocka_unit_test(test_requests_of_peers_register_allocations_of_a_gpu),
		cmocka_unit_test(test_unregistered_memory_is_no_longer_found),
		cmocka_unit_test(test_words_of_a_stack_go_through_blocks),
		cmocka_unit_test(test_without_a_block_memory_is_registered),
		cmocka_unit_test(test_long_requests_register_their_memory),
		cmocka_unit_test(test_memory_without_access_is_rejected),
		cmocka_unit_test(test_a_registration_that_fails_leaves_nothing),
		cmocka_unit_test(test_memory_that_is_only_read_is_a_source),
		cmocka_unit_test(test_memory_of_a_gpu_is_a_dma_buf),
		cmocka_unit_test(test_without_dma_buf_there_is_peermem),
		cmocka_unit_test(test_gpu_memory_out_of_reach_is_rejected),
		cmocka_unit_test(test_threads_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests_name("rdma_memory", tests, NULL, NULL);
}
