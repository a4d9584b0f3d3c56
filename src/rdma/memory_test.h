/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HCAs and a GPU that only keep books, for rdma_memory_test and rdma_registration_test: the
 * registrations of an ori_memory over them.
 */
#ifndef ORI_RDMA_MEMORY_TEST_H
#define ORI_RDMA_MEMORY_TEST_H

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
#include "rdma/rdma_blocks.h"
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

static inline enum oriel_status book_open(struct ori_hca *hca, struct book book,
					  struct ori_hca_mr **mr, struct ori_hca_keys *keys)
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

static inline enum oriel_status book_register(struct ori_hca *hca, void *address, size_t length,
					      uint64_t iova, unsigned access,
					      struct ori_hca_mr **mr, struct ori_hca_keys *keys)
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

static inline enum oriel_status book_register_dmabuf(struct ori_hca *hca, int fd, uint64_t offset,
						     size_t length, uint64_t iova, unsigned access,
						     struct ori_hca_mr **mr,
						     struct ori_hca_keys *keys)
{
	struct book book = {.length = length, .iova = iova, .access = access, .is_dmabuf = true};

	assert_int_equal(offset, 0);
	assert_int_equal(iova % PAGE, 0);
	assert_int_equal(pread(fd, &book.address, 8, 0), 8);
	return book_open(hca, book, mr, keys);
}

static inline void book_unregister(struct ori_hca_mr *mr)
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

static inline enum oriel_status book_query(const struct ori_gpu *gpu, const void *address,
					   struct ori_gpu_memory_info *info)
{
	(void)gpu;
	*info = (struct ori_gpu_memory_info){.kind = ORI_GPU_PAGEABLE};
	if ((const char *)address >= GPU_AT && (const char *)address < GPU_AT + GPU_LENGTH)
		*info = (struct ori_gpu_memory_info){ORI_GPU_LEGACY, GPU_AT, GPU_LENGTH, 0, gpu_id};
	return ORIEL_OK;
}

/* The descriptor contains the address that it is of. */
static inline enum oriel_status book_export(const struct ori_gpu *gpu, void *address, size_t length,
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

static inline struct ori_memory *memory_start(const struct ori_gpu *gpu)
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

static inline void memory_stop(struct ori_memory *m)
{
	ori_memory_close(m);
	assert_int_equal(atomic_load(&open_books), 0);
}

/* The sge is for @length bytes from @address on, in the book of the HCA of @rail. */
static inline const struct book *expect_at(const struct ori_proxy_sge *sge, unsigned rail,
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

static inline struct ori_proxy_sge find(struct ori_memory *m, unsigned rail, const void *address,
					uint64_t length, bool is_target)
{
	struct ori_proxy_memory of = ori_memory_of_rail(m, rail);
	struct ori_proxy_sge sge;

	assert_int_equal(of.find(of.context, (uintptr_t)address, length, is_target, &sge),
			 ORIEL_OK);
	return sge;
}

static inline void release(struct ori_memory *m, unsigned rail, struct ori_proxy_sge sge,
			   bool is_done)
{
	struct ori_proxy_memory of = ori_memory_of_rail(m, rail);

	of.release(of.context, &sge, is_done);
}

#endif
