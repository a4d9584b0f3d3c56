/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of some ranks of another one: their numbering, their lives, and what they share. */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>

/* Each rank of @part puts a word to all others, and finds theirs. */
static void part_works(struct rank *r, struct oriel_comm *part)
{
	unsigned size = oriel_comm_size(part), own = oriel_comm_rank(part), i;
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = size * sizeof(uint64_t)};
	struct oriel_window *window;
	void *memory;

	if (!CHECK_OK(r, oriel_window_create(part, &attr, &window)))
		return;
	CHECK_OK(r, oriel_window_buffer(window, 0, &memory, NULL));
	for (i = 0; i < size; i++)
		CHECK_OK(r, oriel_window_put_value(window, i, own * sizeof(uint64_t), 1000 + own));
	CHECK_OK(r, oriel_window_flush(window, 0));
	CHECK_OK(r, oriel_comm_barrier(part));
	for (i = 0; i < size; i++)
		CHECK_EQ(r, ((const uint64_t *)memory)[i], 1000 + i);
	CHECK_OK(r, oriel_comm_barrier(part));
	CHECK_OK(r, oriel_window_destroy(window));
}

static void part_has(struct rank *r, struct oriel_comm *part, unsigned rank, unsigned size)
{
	CHECK_EQ(r, oriel_comm_rank(part), rank);
	CHECK_EQ(r, oriel_comm_size(part), size);
	CHECK_EQ(r, oriel_comm_timeout(part), oriel_comm_timeout(r->comm));
}

/* Two parts of every other rank, the last rank first. */
static void parts_are_numbered_by_key(struct rank *r)
{
	unsigned colour = r->rank % 2, size = (r->size + 1 - colour) / 2, i, origin;
	struct oriel_comm *part;

	if (!CHECK_OK(r, oriel_comm_split(r->comm, colour, -(int)r->rank, NULL, &part)))
		return;
	part_has(r, part, size - 1 - r->rank / 2, size);
	for (i = 0; i < size; i++) {
		CHECK_OK(r, oriel_comm_origin(part, i, &origin));
		CHECK_EQ(r, origin, (size - 1 - i) * 2 + colour);
	}
	CHECK_STATUS(r, oriel_comm_origin(part, size, &origin), ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_comm_origin(r->comm, r->rank, &origin));
	CHECK_EQ(r, origin, r->rank);
	part_works(r, part);
	CHECK_OK(r, oriel_comm_destroy(part));
}

static void equal_keys_keep_the_order(struct rank *r)
{
	struct oriel_comm *part;

	if (!CHECK_OK(r, oriel_comm_split(r->comm, 12345, 7, NULL, &part)))
		return;
	part_has(r, part, r->rank, r->size);
	part_works(r, part);
	CHECK_OK(r, oriel_comm_destroy(part));
}

static void a_rank_may_be_in_no_part(struct rank *r)
{
	struct oriel_comm *part = r->comm;

	if (r->rank == 0) {
		CHECK_OK(r, oriel_comm_split(r->comm, ORIEL_SPLIT_NONE, 0, NULL, &part));
		CHECK(r, part == NULL);
		CHECK_OK(r, oriel_comm_split(r->comm, ORIEL_SPLIT_NONE, 0, NULL, NULL));
		return;
	}
	if (CHECK_OK(r, oriel_comm_split(r->comm, 3, 0, NULL, &part))) {
		part_has(r, part, r->rank - 1, r->size - 1);
		part_works(r, part);
		CHECK_OK(r, oriel_comm_destroy(part));
	}
	CHECK_OK(r, oriel_comm_split(r->comm, ORIEL_SPLIT_NONE, 0, NULL, NULL));
}

static void a_domain_is_a_part(struct rank *r)
{
	unsigned size = oriel_comm_domain_size(r->comm), i, origin, expected;
	struct oriel_comm *part;

	if (!CHECK_OK(r, oriel_comm_split(r->comm, ORIEL_SPLIT_DOMAIN, 0, NULL, &part)))
		return;
	part_has(r, part, oriel_comm_domain_index(r->comm), size);
	CHECK_EQ(r, oriel_comm_domain_size(part), size);
	for (i = 0; i < size; i++) {
		CHECK_OK(r, oriel_comm_origin(part, i, &origin));
		CHECK_OK(r, oriel_comm_domain_rank(r->comm, i, &expected));
		CHECK_EQ(r, origin, expected);
	}
	part_works(r, part);
	CHECK_OK(r, oriel_comm_destroy(part));
}

/* Halves of halves, until each rank is alone. */
static void parts_are_split_again(struct rank *r)
{
	struct oriel_comm *parts[8] = {r->comm};
	unsigned depth = 0, size, rank;

	while ((size = oriel_comm_size(parts[depth])) > 1 && depth < 7) {
		rank = oriel_comm_rank(parts[depth]);
		if (!CHECK_OK(r, oriel_comm_split(parts[depth], rank < size / 2, 0, NULL,
						  &parts[depth + 1])))
			break;
		depth++;
		part_works(r, parts[depth]);
	}
	/* The largest goes first. */
	for (unsigned i = 1; i <= depth; i++)
		CHECK_OK(r, oriel_comm_destroy(parts[i]));
}

struct beside {
	struct rank *r;
	struct oriel_comm *part;
	enum oriel_status status;
};

static void *beside_run(void *context)
{
	struct beside *b = context;

	for (unsigned i = 0; i < 50 && b->status == ORIEL_OK; i++)
		b->status = oriel_comm_barrier(b->part);
	return NULL;
}

/* Two threads of a rank make collective calls at once, each on a communicator of its own. */
static void calls_on_a_part_and_the_whole_go_on_at_once(struct rank *r)
{
	struct beside beside = {.r = r};
	pthread_t thread;

	if (!CHECK_OK(r, oriel_comm_split(r->comm, r->rank / 2, 0, NULL, &beside.part)))
		return;
	CHECK_EQ(r, pthread_create(&thread, NULL, beside_run, &beside), 0);
	for (unsigned i = 0; i < 50; i++)
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_EQ(r, pthread_join(thread, NULL), 0);
	CHECK_OK(r, beside.status);
	CHECK_OK(r, oriel_comm_destroy(beside.part));
}

static void a_part_outlives_the_whole(struct rank *r)
{
	struct oriel_comm *part = NULL;

	if (!CHECK_OK(r, rank_join(r, r->node)))
		return;
	CHECK_OK(r, oriel_comm_split(r->comm, 0, -(int)r->rank, NULL, &part));
	CHECK_OK(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
	if (!part)
		return;
	part_works(r, part);
	CHECK_OK(r, oriel_comm_destroy(part));
}

/* One rank's mistake is told to all, in all parts, and none is left; the whole is well. */
static void one_bad_attribute_fails_all_parts(struct rank *r)
{
	const struct oriel_comm_attr wrong = {.size = sizeof(wrong), .flags = 1u << 30};
	bool is_wrong = r->rank == r->size - 1;
	struct oriel_comm *part = r->comm;

	CHECK_STATUS(r, oriel_comm_split(r->comm, r->rank % 2, 0, is_wrong ? &wrong : NULL, &part),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "unknown flags");
	CHECK(r, part == NULL);
	CHECK_STATUS(r, oriel_comm_split(r->comm, 0, 0, NULL, is_wrong ? NULL : &part),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "part is NULL");
	CHECK(r, part == NULL);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

static void attributes_are_of_the_part(struct rank *r)
{
	const struct oriel_comm_attr attr = {.size = sizeof(attr),
					     .timeout_ns = LONG_NS + 1,
					     .node = r->node};
	struct oriel_comm *part;

	if (!CHECK_OK(r, oriel_comm_split(r->comm, 0, 0, &attr, &part)))
		return;
	CHECK_EQ(r, oriel_comm_timeout(part), LONG_NS + 1);
	CHECK_OK(r, oriel_comm_destroy(part));
}

/* Windows of two communicators have the same number, and the tickets of one are not the other's. */
static void tickets_are_of_one_window(struct rank *r)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = r->size * sizeof(uint64_t)};
	const struct oriel_dev_group self = oriel_dev_thread();
	struct oriel_dev_ticket ticket;
	struct oriel_dev_window dev[2];
	struct oriel_window *window[2];
	struct oriel_comm *part[2];
	uint64_t word = r->rank;
	unsigned peer, i;

	for (i = 0; i < 2; i++) {
		if (!CHECK_OK(r, oriel_comm_split(r->comm, 0, (int)r->rank, NULL, &part[i])) ||
		    !CHECK_OK(r, oriel_window_create(part[i], &attr, &window[i])))
			return;
		CHECK_OK(r, oriel_window_device(window[i], &dev[i]));
	}
	CHECK_EQ(r, dev[0].number, dev[1].number);
	for (peer = 0; peer < r->size; peer++) {
		/* Each has posted as much, so that the index alone does not tell. */
		for (i = 0; i < 2; i++)
			CHECK_OK(r, oriel_dev_put(&dev[i], self, peer, r->rank * sizeof(word),
						  &word, sizeof(word), &ticket));
		CHECK_STATUS(r, oriel_dev_wait_local(&dev[0], self, ticket, LONG_NS),
			     ticket.index ? ORIEL_ERR_INVALID : ORIEL_OK);
		CHECK_OK(r, oriel_dev_wait_local(&dev[1], self, ticket, LONG_NS));
		for (i = 0; i < 2; i++)
			CHECK_OK(r, oriel_dev_drain(&dev[i], self, LONG_NS));
	}
	for (i = 2; i-- > 0;) {
		CHECK_OK(r, oriel_window_destroy(window[i]));
		CHECK_OK(r, oriel_comm_destroy(part[i]));
	}
}

static const struct test_case split_cases[] = {
	{"parts_are_numbered_by_key", parts_are_numbered_by_key, NULL, 1, NO_WINDOW},
	{"equal_keys_keep_the_order", equal_keys_keep_the_order, NULL, 1, NO_WINDOW},
	{"a_rank_may_be_in_no_part", a_rank_may_be_in_no_part, NULL, 2, NO_WINDOW},
	{"a_domain_is_a_part", a_domain_is_a_part, NULL, 1, NO_WINDOW},
	{"parts_are_split_again", parts_are_split_again, NULL, 2, NO_WINDOW},
	{"calls_on_a_part_and_the_whole_go_on_at_once", calls_on_a_part_and_the_whole_go_on_at_once,
	 NULL, 2, NO_WINDOW},
	{"a_part_outlives_the_whole", a_part_outlives_the_whole, NULL, 1, OWN_COMM},
	{"one_bad_attribute_fails_all_parts", one_bad_attribute_fails_all_parts, NULL, 2,
	 NO_WINDOW},
	{"attributes_are_of_the_part", attributes_are_of_the_part, NULL, 1, NO_WINDOW},
	{"tickets_are_of_one_window", tickets_are_of_one_window, NULL, 2, NO_WINDOW},
};

const struct suite split_suite = SUITE(split);
