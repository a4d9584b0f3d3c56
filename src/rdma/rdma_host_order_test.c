/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which a link posts its requests. The HCA is a script: it ends requests
 * when the test says so, in the order of each queue, and checks each notification as it
 * is posted.
 */
#include "rdma/rdma_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define QUEUES 4u
#define DEPTH 64u
#define ROOM 4096u /* operations of a test */
#define PIECE 100u
#define STRIDE 100000u /* operation i moves from and to i * STRIDE on */
#define STRIPE 150u
#define KEY_DATA 1u   /* and the number of the rail */
#define KEY_SIGNAL 8u /* ... of the first queue, which alone has it */
/* One thread, so that more seeds show sanitizers nothing more. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 40u
#else
#define SEEDS 150u
#endif

struct request {
	uint64_t op;
	uint64_t id;
	uint8_t opcode, flags;
	bool is_flag; /* a notification or a part of one */
	bool has_data;
};

struct queue {
	struct request of[2 * ROOM];
	unsigned posted, ended;
};

/* An operation that the test has begun, and its requests. */
struct begun {
	unsigned expected, posted; /* requests */
	bool notifies;
};

static struct {
	struct queue queues[QUEUES];
	unsigned made, rails, first_rail;
	struct begun ops[ROOM];
	unsigned begun;
	struct ori_hca_wc completions[2 * ROOM];
	unsigned first_completion, completion_count;
	unsigned most; /* requests that a post() takes */
	uint64_t random;
	bool counts_memory;
	unsigned allocations;
} script;

/* The linker calls the library's malloc() and malloc() itself so (--wrap). */
void *__real_malloc(size_t length);
void *__real_calloc(size_t count, size_t length);
void *__real_aligned_alloc(size_t alignment, size_t length);
void *__wrap_malloc(size_t length);
void *__wrap_calloc(size_t count, size_t length);
void *__wrap_aligned_alloc(size_t alignment, size_t length);

void *__wrap_malloc(size_t length)
{
	script.allocations += script.counts_memory;
	return __real_malloc(length);
}

void *__wrap_calloc(size_t count, size_t length)
{
	script.allocations += script.counts_memory;
	return __real_calloc(count, length);
}

void *__wrap_aligned_alloc(size_t alignment, size_t length)
{
	script.allocations += script.counts_memory;
	return __real_aligned_alloc(alignment, length);
}

static unsigned draw(unsigned below)
{
	script.random = script.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (unsigned)(script.random >> 33) % below;
}

static void script_caps(const struct ori_hca *hca, struct ori_hca_caps *caps)
{
	(void)hca;
	*caps = (struct ori_hca_caps){.name = "script",
				      .depth_max = DEPTH,
				      .length_max = 1u << 30,
				      .is_atomic_host_endian = true};
}

static enum oriel_status script_register(struct ori_hca *hca, void *address, size_t length,
					 uint64_t iova, unsigned access, struct ori_hca_mr **mr,
					 struct ori_hca_keys *keys)
{
	(void)hca, (void)address, (void)length, (void)iova, (void)access;
	*mr = NULL;
	*keys = (struct ori_hca_keys){0};
	return ORIEL_OK;
}

static enum oriel_status script_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
					  struct ori_hca_cq **cq, uint32_t *cqn)
{
	(void)hca, (void)attr;
	*cq = NULL;
	*cqn = 0;
	return ORIEL_OK;
}

static enum oriel_status script_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
					  struct ori_hca_qp **qp,
					  struct ori_hca_qp_address *address)
{
	(void)hca, (void)attr;
	*qp = (struct ori_hca_qp *)&script.queues[script.made++];
	memset(address, 0, sizeof(*address));
	return ORIEL_OK;
}

static void script_destroy_qp(struct ori_hca_qp *qp)
{
	(void)qp;
}

static enum oriel_status script_post_receives(struct ori_hca_qp *qp, unsigned count)
{
	(void)qp, (void)count;
	return ORIEL_OK;
}

/*
 * A notification has the number of its operation as its operand or immediate, or in its
 * address.
 */
static struct request script_request(const struct ori_hca_wr *wr, unsigned rail)
{
	struct request r = {.id = wr->id, .opcode = wr->opcode, .flags = wr->flags};

	r.has_data = wr->rkey >= KEY_DATA && wr->rkey < KEY_SIGNAL;
	r.is_flag = !r.has_data || wr->opcode == ORI_HCA_WRITE_IMM;
	if (r.has_data) {
		assert_int_equal(wr->rkey, KEY_DATA + rail);
		assert_int_equal(wr->lkey, KEY_DATA + rail);
	}
	if (wr->opcode == ORI_HCA_WRITE_IMM)
		r.op = wr->immediate;
	else if (wr->opcode == ORI_HCA_FETCH_ADD)
		r.op = wr->operand;
	else
		r.op = wr->remote / STRIDE;
	return r;
}

static bool is_read(const struct request *r)
{
	return r->opcode == ORI_HCA_READ && !r->is_flag;
}

/*
 * An immediate that has a part on each queue: the first one changes what is expected. All
 * pieces that are not on the first queue come before the part on their queue.
 */
static void check_part(const struct queue *q, const struct request *r)
{
	unsigned which = (unsigned)(q - script.queues);
	struct begun *b = &script.ops[r->op];

	if (which == 1)
		b->expected += script.made - 2;
	assert_int_equal(b->expected - b->posted, which ? script.made + 1 - which : 1);
	assert_int_equal(r->has_data, which == 0);
	for (uint64_t op = 0; op < r->op; op++)
		assert_int_equal(script.ops[op].posted, script.ops[op].expected);
	for (unsigned i = q->ended; i < q->posted; i++)
		if (is_read(&q->of[i]))
			assert_true(r->flags & ORI_HCA_FENCE);
}

/*
 * All operations before @r are done, or in flight before it on its queue @q: READs behind
 * a fence.
 */
static void check_notify(const struct queue *q, const struct request *r)
{
	if (r->has_data || q != script.queues) {
		check_part(q, r);
		return;
	}
	for (uint64_t op = 0; op < r->op; op++)
		assert_int_equal(script.ops[op].posted, script.ops[op].expected);
	assert_int_equal(script.ops[r->op].posted, script.ops[r->op].expected - 1);
	for (const struct queue *other = script.queues; other < script.queues + QUEUES; other++)
		for (unsigned i = other->ended; i < other->posted; i++) {
			const struct request *before = &other->of[i];

			if (before->op > r->op)
				continue;
			assert_ptr_equal(other, q);
			if (is_read(before))
				assert_true(r->flags & ORI_HCA_FENCE);
		}
}

static unsigned rail_of(const struct queue *q)
{
	return (script.first_rail + (unsigned)(q - script.queues)) % script.rails;
}

static enum oriel_status script_post(struct ori_hca_qp *qp, const struct ori_hca_wr *wrs,
				     unsigned count, unsigned *posted)
{
	struct queue *q = (struct queue *)(void *)qp;

	for (*posted = 0; *posted < count; ++*posted) {
		struct request r = script_request(&wrs[*posted], rail_of(q));

		if (q->posted - q->ended == DEPTH || *posted == script.most)
			return ORIEL_AGAIN;
		assert_in_range(r.op, 0, script.begun - 1);
		if (r.is_flag)
			check_notify(q, &r);
		script.ops[r.op].posted++;
		assert_in_range(script.ops[r.op].posted, 1, script.ops[r.op].expected);
		q->of[q->posted++] = r;
		if (script.most && script.random && draw(8) == 0)
			script.most = 1 + draw(2);
	}
	return ORIEL_OK;
}

/* Ends the next @count requests of queue @which. */
static void finish(unsigned which, unsigned count)
{
	struct queue *q = &script.queues[which];

	for (; count && q->ended < q->posted; count--) {
		const struct request *r = &q->of[q->ended++];

		if (r->flags & ORI_HCA_SIGNALED)
			script.completions[script.completion_count++] =
				(struct ori_hca_wc){.id = r->id};
	}
}

static enum oriel_status script_poll(struct ori_hca_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				     unsigned *count)
{
	(void)cq;
	for (*count = 0; *count < room && script.first_completion < script.completion_count;
	     ++*count)
		wcs[*count] = script.completions[script.first_completion++];
	return ORIEL_OK;
}

static const struct ori_hca_calls script_calls = {
	.post = script_post,
	.post_receives = script_post_receives,
	.poll = script_poll,
};

static const struct ori_hca_ops script_ops = {
	.kind = "script",
	.calls = &script_calls,
	.caps = script_caps,
	.register_memory = script_register,
	.create_cq = script_create_cq,
	.create_qp = script_create_qp,
	.destroy_qp = script_destroy_qp,
	.fail_qp = script_destroy_qp,
};

static struct ori_host_link *start_on(unsigned rails, unsigned queues, uint32_t operations)
{
	struct ori_host_attr attr = {.ops = &script_ops,
				     .rails = rails,
				     .first_rail = rails - 1,
				     .queues = queues,
				     .depth = DEPTH,
				     .operations = operations,
				     .piece = PIECE,
				     .stripe = STRIPE};
	struct ori_host_link *link;
	struct ori_host_qps end;

	memset(&script, 0, sizeof(script));
	script.rails = rails;
	script.first_rail = rails - 1;
	script.most = 2 * DEPTH;
	assert_int_equal(ori_host_create(&attr, &link, &end), ORIEL_OK);
	script.counts_memory = true;
	return link;
}

static struct ori_host_link *start(unsigned queues, uint32_t operations)
{
	return start_on(1, queues, operations);
}

static void stop(struct ori_host_link *link)
{
	script.counts_memory = false;
	assert_int_equal(script.allocations, 0);
	ori_host_destroy(link);
}

enum what { PUT, GET, PUT_SIGNAL, PUT_IMMEDIATE, FETCH_ADD, FLUSH, KINDS };

static enum oriel_status begin_one(struct ori_host_link *link, enum what what, uint64_t length,
				   uint64_t *op)
{
	uint64_t i = script.begun - 1;
	const struct oriel_dev_keys keys = {{KEY_DATA, KEY_DATA + 1, KEY_DATA + 2, KEY_DATA + 3}};
	struct ori_host_move move = {{i * STRIDE, keys}, {i * STRIDE, keys}, length, NULL, false};
	struct ori_host_address word = {i * STRIDE, {{0}}};

	word.keys.rail[script.first_rail] = KEY_SIGNAL;
	switch (what) {
	case PUT:
		return ori_host_put(link, &move, op);
	case GET:
		return ori_host_get(link, &move, op);
	case PUT_SIGNAL:
		return ori_host_put_signal(link, &move, &word, i, op);
	case PUT_IMMEDIATE:
		return ori_host_put_immediate(link, &move, (uint32_t)i, op);
	case FETCH_ADD:
		return ori_host_fetch_add(link, &word, i, NULL, op);
	default:
		return ori_host_flush(link, &word, op);
	}
}

static unsigned pieces(uint64_t length)
{
	uint64_t piece = PIECE, share = (length + script.rails - 1) / script.rails;

	if (script.rails > 1 && length >= STRIPE && (share + 63) / 64 * 64 < piece)
		piece = (share + 63) / 64 * 64;
	return (unsigned)((length + piece - 1) / piece);
}

/* The operation is expected before the link may post it. */
static bool begin(struct ori_host_link *link, enum what what, uint64_t length)
{
	struct begun *b = &script.ops[script.begun++];
	enum oriel_status status;
	uint64_t op;

	b->notifies = what >= PUT_SIGNAL;
	b->expected = b->notifies;
	if (what < FETCH_ADD)
		b->expected += pieces(length);
	status = begin_one(link, what, length, &op);
	if (status == ORIEL_AGAIN) {
		script.begun--;
		return false;
	}
	assert_int_equal(status, ORIEL_OK);
	assert_int_equal(op, script.begun - 1);
	return true;
}

static bool is_posted(unsigned op)
{
	return script.ops[op].posted == script.ops[op].expected;
}

static unsigned in_flight(unsigned queue)
{
	return script.queues[queue].posted - script.queues[queue].ended;
}

/* An operation is done when its last request has ended, and all operations before it are done. */
static bool is_done(unsigned op)
{
	if (!is_posted(op))
		return false;
	for (unsigned q = 0; q < QUEUES; q++)
		for (unsigned i = script.queues[q].ended; i < script.queues[q].posted; i++)
			if (script.queues[q].of[i].op <= op)
				return false;
	return op == 0 || is_done(op - 1);
}

static void finish_all(struct ori_host_link *link)
{
	for (unsigned turns = 0; !is_done(script.begun - 1); turns++) {
		assert_true(turns < ROOM);
		for (unsigned q = 0; q < QUEUES; q++)
			finish(q, ROOM);
		assert_int_equal(ori_host_progress(link), ORIEL_OK);
	}
	assert_int_equal(ori_host_test(link, script.begun - 1), ORIEL_OK);
}

static void test_a_short_put_and_its_signal_are_one_chain(void **state)
{
	struct ori_host_link *link = start(QUEUES, 0);
	const struct queue *q = &script.queues[0];

	(void)state;
	assert_true(begin(link, PUT, PIECE));
	assert_true(begin(link, PUT_SIGNAL, PIECE));
	assert_int_equal(q->posted, 3);
	assert_int_equal(q->of[1].flags, 0);
	assert_int_equal(q->of[2].flags, ORI_HCA_SIGNALED);
	finish(0, 1);
	assert_int_equal(ori_host_test(link, 0), ORIEL_OK);
	assert_int_equal(ori_host_test(link, 1), ORIEL_AGAIN);
	finish(0, 2);
	assert_int_equal(ori_host_test(link, 1), ORIEL_OK);
	stop(link);
}

static void test_pieces_go_to_the_queue_with_the_least_in_flight(void **state)
{
	struct ori_host_link *link = start(QUEUES, 0);

	(void)state;
	assert_true(begin(link, PUT, 9 * PIECE));
	assert_int_equal(in_flight(0), 3);
	assert_int_equal(in_flight(1), 2);
	assert_int_equal(in_flight(2), 2);
	assert_int_equal(in_flight(3), 2);
	finish(2, 2);
	assert_int_equal(ori_host_progress(link), ORIEL_OK);
	assert_true(begin(link, PUT, 3 * PIECE));
	assert_int_equal(in_flight(0), 4);
	assert_int_equal(in_flight(1), 2);
	assert_int_equal(in_flight(2), 2);
	assert_int_equal(in_flight(3), 2);
	finish_all(link);
	stop(link);
}

/* The signal of a spread put, or behind one, is posted when the other queues are done. */
static void signal_waits_for_other_queues_only(bool is_own)
{
	struct ori_host_link *link = start(QUEUES, 0);
	unsigned last = is_own ? 0 : 1;

	if (!is_own)
		assert_true(begin(link, PUT, 9 * PIECE));
	assert_true(begin(link, PUT_SIGNAL, is_own ? 9 * PIECE : PIECE));
	assert_int_equal(script.ops[last].posted, script.ops[last].expected - 1);
	finish(1, 2);
	finish(2, 2);
	finish(3, 1);
	assert_int_equal(ori_host_progress(link), ORIEL_OK);
	assert_false(is_posted(last));
	finish(3, 1);
	assert_int_equal(ori_host_progress(link), ORIEL_OK);
	assert_true(is_posted(last));
	assert_int_equal(script.queues[0].ended, 0);
	finish_all(link);
	stop(link);
}

static void test_a_signal_waits_for_other_queues_only(void **state)
{
	(void)state;
	signal_waits_for_other_queues_only(true);
	signal_waits_for_other_queues_only(false);
}

/* The puts go by other queues, so that they are not behind the signal. */
static void test_puts_behind_a_waiting_signal_begin_at_once(void **state)
{
	struct ori_host_link *link = start(QUEUES, 0);
	unsigned first = 0;

	(void)state;
	assert_true(begin(link, PUT_SIGNAL, 5 * PIECE));
	assert_false(is_posted(0));
	first = script.queues[0].posted;
	assert_true(begin(link, PUT, PIECE));
	assert_true(begin(link, GET, 5 * PIECE));
	assert_true(is_posted(1));
	assert_true(is_posted(2));
	assert_int_equal(script.queues[0].posted, first);
	assert_true(begin(link, PUT_IMMEDIATE, PIECE));
	assert_true(begin(link, PUT, PIECE));
	assert_int_equal(script.ops[3].posted, 0);
	assert_int_equal(script.ops[4].posted, 0);
	for (unsigned i = 1; i < QUEUES; i++)
		finish(i, 1);
	assert_int_equal(ori_host_progress(link), ORIEL_OK);
	assert_true(is_posted(0));
	assert_true(is_posted(3));
	assert_true(is_posted(4));
	assert_int_equal(ori_host_test(link, 1), ORIEL_AGAIN);
	finish_all(link);
	stop(link);
}

/* Slots of operations are used again: their old contents do not matter. */
static void test_a_signal_does_not_wait_for_later_operations(void **state)
{
	struct ori_host_link *link = start(QUEUES, 4);

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_true(begin(link, PUT, PIECE));
	finish_all(link);
	assert_true(begin(link, PUT_SIGNAL, 2 * QUEUES * PIECE));
	finish(1, 1);
	assert_int_equal(ori_host_progress(link), ORIEL_OK);
	assert_true(begin(link, PUT, PIECE));
	assert_true(begin(link, PUT, PIECE));
	finish(1, 1);
	finish(2, 2);
	finish(3, 2);
	assert_int_equal(ori_host_progress(link), ORIEL_OK);
	assert_true(is_posted(4));
	assert_int_equal(in_flight(1) + in_flight(2) + in_flight(3), 2);
	finish_all(link);
	stop(link);
}

/* Each queue has a part of it behind what it follows; the first one has the data. */
static void test_an_immediate_with_data_does_not_wait(void **state)
{
	struct ori_host_link *link = start_on(2, QUEUES, 0);
	const struct queue *q = script.queues;

	(void)state;
	assert_true(begin(link, PUT_IMMEDIATE, PIECE));
	assert_int_equal(q[0].posted, 2);
	assert_false(q[0].of[1].has_data);
	finish_all(link);
	assert_true(begin(link, PUT_IMMEDIATE, STRIPE));
	assert_true(is_posted(1));
	assert_int_equal(q[0].posted, 3);
	assert_true(q[0].of[2].has_data && q[0].of[2].is_flag);
	assert_int_equal(q[1].posted, 2);
	assert_int_equal(q[2].posted, 1);
	assert_int_equal(q[3].posted, 1);
	/* Behind one that is in flight: a short one too. */
	assert_true(begin(link, PUT_IMMEDIATE, 1));
	assert_true(is_posted(2));
	assert_int_equal(q[3].posted, 2);
	/* Without data it could not be told from one that has no parts. */
	assert_true(begin(link, PUT_IMMEDIATE, 0));
	assert_false(is_posted(3));
	finish_all(link);
	stop(link);
}

/* Short ones go by the first queue; long ones by one request on each rail, if that suffices. */
static void test_a_long_put_has_a_piece_on_each_rail(void **state)
{
	(void)state;
	for (unsigned rails = 1; rails <= QUEUES; rails *= 2) {
		struct ori_host_link *link = start_on(rails, 0, 0);

		assert_true(begin(link, PUT, STRIPE / 2));
		finish_all(link);
		assert_int_equal(script.queues[0].posted, 1);
		assert_true(begin(link, PUT, STRIPE));
		for (unsigned i = 0; i < rails; i++)
			assert_int_equal(in_flight(i), rails == 1 ? 2 : i < 3);
		finish_all(link);
		stop(link);
	}
}

static void test_a_notifying_request_is_fenced_behind_gets(void **state)
{
	struct ori_host_link *link = start(1, 0);
	const struct queue *q = &script.queues[0];

	(void)state;
	assert_true(begin(link, PUT_SIGNAL, PIECE));
	assert_false(q->of[1].flags & ORI_HCA_FENCE);
	assert_true(begin(link, GET, PIECE));
	assert_true(begin(link, PUT_SIGNAL, PIECE));
	assert_false(q->of[3].flags & ORI_HCA_FENCE);
	assert_true(q->of[4].flags & ORI_HCA_FENCE);
	finish_all(link);
	assert_true(begin(link, FETCH_ADD, 0));
	assert_false(q->of[5].flags & ORI_HCA_FENCE);
	finish_all(link);
	stop(link);
}

/* Random operations, ended in random order, by posts that take only a part. */
static void any_order(uint64_t seed)
{
	struct ori_host_link *link =
		start_on(1u << seed % 3, 1 + (unsigned)seed % QUEUES, 1 + (uint32_t)seed % 40);
	unsigned kinds;

	script.random = seed;
	kinds = 1 + draw(KINDS);
	while (script.begun < 200) {
		if (draw(2))
			begin(link, (enum what)draw(kinds),
			      draw(3) ? draw(3) * PIECE / 2 : draw(20 * PIECE));
		if (draw(2))
			finish(draw(QUEUES), 1 + draw(4));
		if (draw(3) == 0)
			assert_int_equal(ori_host_progress(link), ORIEL_OK);
		script.most = draw(4) ? 2 * DEPTH : draw(2);
		for (unsigned i = 0; i < script.begun; i += 1 + draw(20))
			if (ori_host_test(link, i) == ORIEL_OK)
				assert_true(is_done(i));
	}
	script.most = 2 * DEPTH;
	finish_all(link);
	stop(link);
}

static void test_a_notifying_request_follows_all_earlier_operations(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		any_order(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_short_put_and_its_signal_are_one_chain),
		cmocka_unit_test(test_pieces_go_to_the_queue_with_the_least_in_flight),
		cmocka_unit_test(test_a_signal_waits_for_other_queues_only),
		cmocka_unit_test(test_puts_behind_a_waiting_signal_begin_at_once),
		cmocka_unit_test(test_a_signal_does_not_wait_for_later_operations),
		cmocka_unit_test(test_a_long_put_has_a_piece_on_each_rail),
		cmocka_unit_test(test_an_immediate_with_data_does_not_wait),
		cmocka_unit_test(test_a_notifying_request_is_fenced_behind_gets),
		cmocka_unit_test(test_a_notifying_request_follows_all_earlier_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
