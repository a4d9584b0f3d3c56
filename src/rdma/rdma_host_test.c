/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_host_test [NIC NIC [lossy | cut COMMAND]]: links that the host drives, over
 * software HCAs, by their thread and step by step; or over two NICs of libibverbs. lossy:
 * packets between them are lost, NAKs too, so that the test does not distinguish
 * failures. cut: the test of a COMMAND that cuts the cable alone.
 */
#include <sched.h>

#include "rdma/host_test.h"

static const char *cut_command;

/* An inline request needs no key. */
static void test_short_puts_may_go_inside(void **state)
{
	char data[ORI_HCA_INLINE_MAX + 1];
	struct ori_host_move put;
	struct pair p;
	uint64_t op;

	(void)state;
	pair_open(&p, &(struct pair_attr){.host = {.queues = 2}});
	fill(p.a.memory, LENGTH, 5);
	for (unsigned length = 1; length <= sizeof(data); length++) {
		put = move_of(&p, 100, 1000, length);
		fill(data, sizeof(data), length);
		memset(p.b.memory, 0x77, 2000);
		put.data = data;
		if (length <= ORI_HCA_INLINE_MAX)
			put.local = (struct ori_host_address){0};
		else
			memcpy(p.a.memory + 100, data, length);
		assert_int_equal(ori_host_put_signal(p.a.link, &put,
						     &(struct ori_host_address){0, put.remote.keys},
						     1, &op),
				 ORIEL_OK);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
		assert_memory_equal(p.b.memory + 1000, data, length);
		assert_int_equal(p.b.memory[1000 + length], 0x77);
	}
	/* A put that is cut sends its last piece inside the request. */
	put = move_of(&p, 100, 1000, 2 * PIECE + 5);
	put.data = p.a.memory + 100;
	fill(p.a.memory, LENGTH, 6);
	assert_int_equal(ori_host_put(p.a.link, &put, &op), ORIEL_OK);
	assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	assert_memory_equal(p.b.memory + 1000, p.a.memory + 100, 2 * PIECE + 5);
	pair_close(&p);
}

static void test_puts_and_gets_of_any_size(void **state)
{
	(void)state;
	for (unsigned queues = 1; queues <= 3; queues++)
		puts_and_gets_of_any_size(
			&(struct pair_attr){.host = {.queues = queues, .depth = 4}});
}

static void test_a_signal_covers_all_before_it(void **state)
{
	(void)state;
	for (unsigned queues = 1; queues <= 4; queues += 3) {
		signal_covers_all(&(struct pair_attr){.host = {.queues = queues}}, 200);
		signal_covers_all(&(struct pair_attr){.host = {.queues = queues, .depth = 2}},
				  9 * PIECE);
		signal_covers_all(&(struct pair_attr){.host = {.queues = queues}}, 0);
	}
}

static void test_a_signal_covers_all_before_it_step_by_step(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS && !hcas[0]; seed++)
		signal_covers_all(
			&(struct pair_attr){.config = seed % 2 ? "delay=50us,gather=20us"
							       : "drop=0.05,dup=0.05,ack=1ms,"
								 "retry=100,late_cqe=20us",
					    .seed = seed,
					    .host = {.queues = 3, .depth = 4}},
			seed % 3 ? 200 : 3 * PIECE);
}

static void test_immediates_arrive_in_order_behind_their_data(void **state)
{
	struct pair_attr attr = {.host = {.queues = 2, .immediates = 4}};

	(void)state;
	immediates_come_in_order(&attr);
	attr.host.queues = 1;
	immediates_come_in_order(&attr);
	for (attr.seed = 1; attr.seed <= 10 && !hcas[0]; attr.seed++) {
		attr.config = "delay=20us,rnr=30us,drop=0.02,ack=1ms,retry=100";
		immediates_come_in_order(&attr);
	}
}

static void check_atomics(const char *config)
{
	struct pair_attr attr = {.config = config};
	uint64_t old[40], op = 0;
	struct pair p;

	pair_open(&p, &attr);
	*word_of(&p.b, SIGNAL) = UINT64_C(0x1122334455667788);
	for (unsigned i = 0; i < 40; i++) {
		struct ori_host_address word = remote(&p, SIGNAL);

		assert_int_equal(ori_host_fetch_add(p.a.link, &word, i, &old[i], &op), ORIEL_OK);
	}
	assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	for (uint64_t i = 0, sum = UINT64_C(0x1122334455667788); i < 40; sum += i++)
		assert_int_equal(old[i], sum);
	pair_close(&p);
}

static void test_atomics_return_the_old_value(void **state)
{
	(void)state;
	check_atomics("");
	check_atomics("big_endian=1");
}

static void test_a_full_link_completes_its_operations_in_order(void **state)
{
	/* The HCA is slow, or it may end each operation before the next one. */
	struct pair_attr attr = {.config = "delay=20ms",
				 .host = {.queues = 3, .depth = 2, .operations = 8}};
	uint64_t ops[64], op, until = ori_clock_ns() + PATIENCE_NS;
	unsigned begun = 0, rejected = 0;
	struct pair p;

	(void)state;
	pair_open(&p, &attr);
	while (begun < 64) {
		struct ori_host_move move =
			move_of(&p, 0, 0, begun % 3 ? 16 : (uint64_t)(begun % 7) * PIECE);
		enum oriel_status status = ori_host_put(p.a.link, &move, &op);

		if (status == ORIEL_AGAIN) {
			rejected++;
			assert_int_equal(ori_host_progress(p.a.link), ORIEL_OK);
			pair_turn(&p, until);
			continue;
		}
		assert_int_equal(status, ORIEL_OK);
		assert_int_equal(op, begun);
		ops[begun++] = op;
		/* An operation that is done has all operations before it done. */
		for (unsigned i = 1; i < begun; i++)
			if (ori_host_test(p.a.link, ops[i]) == ORIEL_OK)
				assert_int_equal(ori_host_test(p.a.link, ops[i - 1]), ORIEL_OK);
	}
	assert_int_equal(pair_wait(&p, ops[63]), ORIEL_OK);
	assert_true(rejected > 0 || hcas[0]);
	pair_close(&p);
}

/* Payload stays below the owner of its memory until a READ: a put that is done shows nothing. */
static bool is_seen(uint64_t seed, bool has_flush)
{
	struct pair_attr attr = {.config = "below_owner=10s", .seed = seed, .host = {.queues = 2}};
	struct ori_host_address word;
	struct ori_host_move move;
	struct pair p;
	uint64_t op;
	bool seen;

	pair_open(&p, &attr);
	move = move_of(&p, 0, 0, 3 * PIECE);
	word = remote(&p, SIGNAL);
	memset(p.a.memory, 7, 3 * PIECE);
	assert_int_equal(ori_host_put(p.a.link, &move, &op), ORIEL_OK);
	if (has_flush)
		assert_int_equal(ori_host_flush(p.a.link, &word, &op), ORIEL_OK);
	assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	seen = memcmp(p.a.memory, p.b.memory, 3 * PIECE) == 0;
	pair_close(&p);
	return seen;
}

static void test_a_flush_makes_puts_visible(void **state)
{
	unsigned without = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS && !hcas[0]; seed++) {
		without += is_seen(seed, false);
		assert_true(is_seen(seed, true));
	}
	assert_true(without < SEEDS);
}

/*
 * The peer overwrites the source of the READ as soon as the notification says that the
 * READ is done.
 */
static void test_a_notifying_request_follows_gets(void **state)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS && !hcas[0]; seed++) {
		struct pair_attr attr = {.config = "delay=20us,mtu=256", .seed = seed};
		struct ori_host_address word;
		struct ori_host_move move;
		struct pair p;
		uint64_t op;

		pair_open(&p, &attr);
		move = move_of(&p, 0, 0, PIECE);
		word = remote(&p, SIGNAL);
		memset(p.b.memory, 1, PIECE);
		assert_int_equal(ori_host_get(p.a.link, &move, &op), ORIEL_OK);
		assert_int_equal(ori_host_fetch_add(p.a.link, &word, 1, NULL, &op), ORIEL_OK);
		while (oriel_dev_load_acquire(word_of(&p.b, SIGNAL)) == 0) {
			assert_int_equal(ori_host_progress(p.a.link), ORIEL_OK);
			pair_turn(&p, until);
		}
		memset(p.b.memory, 2, PIECE);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
		for (unsigned i = 0; i < PIECE; i++)
			assert_int_equal(p.a.memory[i], 1);
		pair_close(&p);
	}
}

static void test_a_failure_is_reported_and_stays(void **state)
{
	struct pair_attr attr = {.host = {.queues = 2}};
	struct ori_host_move good, wrong;
	uint64_t first, op, last;
	uint32_t immediate;
	struct pair p;

	(void)state;
	pair_open(&p, &attr);
	good = move_of(&p, 0, 0, 64);
	wrong = good;
	wrong.remote.address = LENGTH;
	assert_int_equal(ori_host_put(p.a.link, &good, &first), ORIEL_OK);
	assert_int_equal(pair_wait(&p, first), ORIEL_OK);
	assert_int_equal(ori_host_put(p.a.link, &wrong, &op), ORIEL_OK);
	if (ori_host_put(p.a.link, &good, &last) == ORIEL_OK)
		assert_int_equal(pair_wait(&p, last), ORIEL_ERR_ACCESS);
	assert_int_equal(pair_wait(&p, op), ORIEL_ERR_ACCESS);
	assert_non_null(strstr(oriel_last_error(), "remote access error"));
	assert_int_equal(ori_host_put(p.a.link, &good, &last), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_host_progress(p.a.link), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_host_take(p.a.link, &immediate), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_host_test(p.a.link, first), ORIEL_OK);
	pair_close(&p);
}

static void test_mismatched_ends_are_rejected(void **state)
{
	struct ori_host_attr attr = {.queues = ORI_HOST_QUEUES + 1};
	struct ori_host_link *link;
	struct ori_host_qps end;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct pair_attr){.host = {.queues = 2}});
	end = p.b.end;
	end.version++;
	assert_int_equal(ori_host_connect(p.a.link, p.b.hca_addresses, &end), ORIEL_ERR_VERSION);
	end = p.b.end;
	end.queues = 1;
	assert_int_equal(ori_host_connect(p.a.link, p.b.hca_addresses, &end), ORIEL_ERR_MISMATCH);
	end = p.b.end;
	end.rails = 2;
	assert_int_equal(ori_host_connect(p.a.link, p.b.hca_addresses, &end), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), "2 rails"));
	end = p.b.end;
	end.first_rail = 1;
	assert_int_equal(ori_host_connect(p.a.link, p.b.hca_addresses, &end), ORIEL_ERR_MISMATCH);
	attr.ops = p.ops;
	attr.hcas[0] = p.a.hcas[0];
	assert_int_equal(ori_host_create(&attr, &link, &end), ORIEL_ERR_RANGE);
	attr.queues = 1;
	attr.depth = 1;
	assert_int_equal(ori_host_create(&attr, &link, &end), ORIEL_ERR_RANGE);
	attr.depth = 0;
	attr.rails = ORIEL_DEV_RAILS + 1;
	assert_int_equal(ori_host_create(&attr, &link, &end), ORIEL_ERR_RANGE);
	attr.rails = attr.first_rail = 1;
	assert_int_equal(ori_host_create(&attr, &link, &end), ORIEL_ERR_RANGE);
	pair_close(&p);
}

#define SLOTS 4096u /* puts of 8 bytes each way, each to a word of its own */
#define SLOTS_BEFORE 50u

/* Puts of @from from @area on; ori_host_test() has reported all before @done as done. */
struct stream {
	struct side *from, *to;
	uint64_t area, begun, done;
	enum oriel_status status;
};

static void stream_go_on(struct stream *s)
{
	uint64_t at = s->area + s->begun * sizeof(uint64_t), op;
	struct ori_host_move move = {.local = {at, s->from->lkeys},
				     .remote = {at, s->to->rkeys},
				     .length = sizeof(uint64_t)};

	if (s->status != ORIEL_OK)
		return;
	if (s->begun < SLOTS) {
		*word_of(s->from, at) = s->begun + 1;
		s->begun += ori_host_put(s->from->link, &move, &op) == ORIEL_OK;
	}
	while (s->done < s->begun && ori_host_test(s->from->link, s->done) == ORIEL_OK)
		s->done++;
	s->status = ori_host_progress(s->from->link);
	if (s->status != ORIEL_OK)
		assert_non_null(strstr(oriel_last_error(), "the peer does not answer"));
}

/* Puts that were reported as done are there, and still done. */
static void stream_check(const struct stream *s)
{
	for (uint64_t i = 0; i < s->done; i++)
		assert_int_equal(*word_of(s->to, s->area + i * sizeof(uint64_t)), i + 1);
	assert_true(s->done < s->begun);
	assert_int_equal(ori_host_test(s->from->link, s->done - 1), ORIEL_OK);
	assert_int_equal(ori_host_test(s->from->link, s->done), ORIEL_ERR_PEER);
}

static void test_a_cut_cable_fails_both_ends(void **state)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;
	struct stream streams[2] = {0};
	struct pair p;

	(void)state;
	pair_open(&p, &(struct pair_attr){0});
	streams[0] = (struct stream){.from = &p.a, .to = &p.b};
	streams[1] = (struct stream){.from = &p.b, .to = &p.a, .area = HALF};
	while (streams[0].done < SLOTS_BEFORE || streams[1].done < SLOTS_BEFORE) {
		stream_go_on(&streams[0]);
		stream_go_on(&streams[1]);
		pair_turn(&p, until);
	}
	assert_int_equal(system(cut_command), 0);
	while (streams[0].status == ORIEL_OK || streams[1].status == ORIEL_OK) {
		stream_go_on(&streams[0]);
		stream_go_on(&streams[1]);
		pair_turn(&p, until);
	}
	stream_check(&streams[0]);
	stream_check(&streams[1]);
	pair_close(&p);
}

static void take_hcas(char **argv)
{
	static char names[2][64];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(names[i], sizeof(names[i]), "=%.60s", argv[1 + i]);
		hcas[i] = names[i];
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_puts_and_gets_of_any_size),
		cmocka_unit_test(test_short_puts_may_go_inside),
		cmocka_unit_test(test_a_signal_covers_all_before_it),
		cmocka_unit_test(test_a_signal_covers_all_before_it_step_by_step),
		cmocka_unit_test(test_immediates_arrive_in_order_behind_their_data),
		cmocka_unit_test(test_atomics_return_the_old_value),
		cmocka_unit_test(test_a_full_link_completes_its_operations_in_order),
		cmocka_unit_test(test_a_flush_makes_puts_visible),
		cmocka_unit_test(test_a_notifying_request_follows_gets),
		cmocka_unit_test(test_a_failure_is_reported_and_stays),
		cmocka_unit_test(test_mismatched_ends_are_rejected),
	};

	const struct CMUnitTest cut[] = {
		cmocka_unit_test(test_a_cut_cable_fails_both_ends),
	};

	if (argc >= 3)
		take_hcas(argv);
	if (argc == 4 && strcmp(argv[3], "lossy") == 0)
		cmocka_set_skip_filter("test_a_failure_*");
	if (argc == 5 && strcmp(argv[3], "cut") == 0) {
		cut_command = argv[4];
		return cmocka_run_group_tests(cut, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
