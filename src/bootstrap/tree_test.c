/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the shape of the tree: subtrees, depths, and how flat it is. */
#include "bootstrap/tree.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The positions of @rank and of its children in the tree agree. */
static void check_place(unsigned size, unsigned rank)
{
	struct ori_tree_place place, child;
	unsigned i, next = rank + 1, height = 0;

	ori_tree_place(size, rank, &place);
	for (i = 0; i < place.children; i++) {
		assert_int_equal(place.child[i], next);
		ori_tree_place(size, place.child[i], &child);
		assert_int_equal(child.parent, rank);
		assert_int_equal(child.depth, place.depth + 1);
		assert_int_equal(child.end, place.child_end[i]);
		assert_true(child.end > place.child[i]);
		if (child.height + 1 > height)
			height = child.height + 1;
		next = child.end;
	}
	assert_int_equal(place.end, next);
	assert_int_equal(place.height, height);
	assert_true(place.depth + place.height <= place.total_height);
}

static void test_subtrees_are_ranges_that_cover_all_ranks(void **state)
{
	static const unsigned sizes[] = {1, 2, 3, 8, 9, 10, 11, 64, 73, 74, 512, 585, 586, 4096};
	struct ori_tree_place root;
	unsigned i, rank;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ori_tree_place(sizes[i], 0, &root);
		assert_int_equal(root.end, sizes[i]);
		assert_int_equal(root.depth, 0);
		for (rank = 0; rank < sizes[i]; rank++)
			check_place(sizes[i], rank);
	}
}

static void test_the_tree_is_flat(void **state)
{
	struct ori_tree_place place;

	(void)state;
	ori_tree_place(9, 0, &place);
	assert_int_equal(place.total_height, 1);
	ori_tree_place(512, 0, &place);
	assert_int_equal(place.total_height, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_subtrees_are_ranges_that_cover_all_ranks),
		cmocka_unit_test(test_the_tree_is_flat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
