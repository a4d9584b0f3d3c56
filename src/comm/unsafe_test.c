/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the user that mapped ranks map is remembered once, and as long as it exists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/region.h>
#include <stdlib.h>

#include "comm/survive.h"
#include "comm/unsafe.h"

#define BYTES 4096u

static void share(struct oriel_comm *comm, void *memory, size_t length)
{
	struct ori_mem *mem = NULL;
	size_t offset;

	assert_int_equal(ori_mem_find(memory, length, &mem, &offset), ORIEL_OK);
	assert_int_equal(ori_unsafe_note(comm, ORIEL_NO_RANK, mem, memory, length), ORIEL_OK);
	ori_mem_unref(mem);
}

static void *allocate(void)
{
	void *memory = NULL;

	assert_int_equal(oriel_memory_alloc(BYTES, 0, &memory), ORIEL_OK);
	return memory;
}

static void test_memory_that_is_shared_twice_is_remembered_once(void **state)
{
	struct ori_survive survive = {.pieces_lock = PTHREAD_MUTEX_INITIALIZER};
	struct oriel_comm comm = {.survive = &survive};
	void *memory = allocate(), *other = allocate();

	(void)state;
	share(&comm, memory, BYTES);
	share(&comm, other, BYTES);
	share(&comm, memory, BYTES);
	assert_int_equal(survive.piece_count, 2);
	assert_ptr_equal(survive.pieces[0].address, other);
	assert_ptr_equal(survive.pieces[1].address, memory);
	/* Another part of it is another piece. */
	share(&comm, memory, BYTES / 2);
	assert_int_equal(survive.piece_count, 3);
	share(&comm, memory, BYTES / 2);
	assert_int_equal(survive.piece_count, 3);
	oriel_memory_free(memory);
	oriel_memory_free(other);
	free(survive.pieces);
}

static void test_memory_that_was_freed_is_forgotten(void **state)
{
	struct ori_survive survive = {.pieces_lock = PTHREAD_MUTEX_INITIALIZER};
	struct oriel_comm comm = {.survive = &survive};
	void *memory = allocate(), *other = allocate();

	(void)state;
	share(&comm, memory, BYTES);
	oriel_memory_free(memory);
	share(&comm, other, BYTES);
	assert_int_equal(survive.piece_count, 1);
	assert_ptr_equal(survive.pieces[0].address, other);
	oriel_memory_free(other);
	free(survive.pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_that_is_shared_twice_is_remembered_once),
		cmocka_unit_test(test_memory_that_was_freed_is_forgotten),
	};

	return cmocka_run_group_tests_name("unsafe", tests, NULL, NULL);
}
