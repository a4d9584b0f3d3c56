/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_host_test [NIC NIC [lossy | cut COMMAND]]: links that the host drives, over
 * software HCAs, by their thread and step by step; or over two NICs of libibverbs. lossy:
 * packets between them are lost, NAKs too, so that the test does not distinguish
 * failures. cut: the test of a COMMAND that cuts the cable alone.
 */
#include "rdma/rdma_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/dev/mlx5_ring.h>
#include <oriel/dev/order.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hca/test_support/soft_cluster.h"

#define LENGTH (1u << 20)
#define HALF (LENGTH / 2)
#define PIECE 4096u
#define SIGNAL (LENGTH - 64) /* words at the end */
#define PATIENCE_NS UINT64_C(30000000000)
#define SEEDS 40u
#define STRIPE 1000u /* bytes that are spread over rails */
#define ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

static const char *hcas[2]; /* of libibverbs; NULL: a software HCA */
static const char *cut_command;

struct side {
	unsigned rails;
	struct ori_hca *hcas[ORIEL_DEV_RAILS];
	struct ori_hca_qp_address hca_addresses[ORIEL_DEV_RAILS];
	struct ori_hca_mr *mrs[ORIEL_DEV_RAILS];
	struct oriel_dev_keys lkeys, rkeys;
	struct ori_host_link *link;
	struct ori_host_qps end;
	char *memory;
};

struct pair {
	const struct ori_hca_ops *ops;
	struct ori_soft_cluster *cluster; /* NULL: its thread steps it */
	struct side a, b;
};

struct pair_attr {
	const char *config; /* of software HCAs */
	const char *last;   /* ... of the last rail of each side; NULL: config */
	uint64_t seed;      /* step by step; 0: by their thread */
	struct ori_host_attr host;
};

static void side_open_rail(struct pair *p, struct side *s, const struct pair_attr *attr,
			   unsigned which, unsigned rail)
{
	const char *config = attr->last && rail + 1 == s->rails ? attr->last : attr->config;
	struct ori_hca_keys keys;

	if (p->cluster)
		assert_int_equal(ori_soft_cluster_open(p->cluster, config, &s->hcas[rail]),
				 ORIEL_OK);
	else
		assert_int_equal(p->ops->open(hcas[which] ? hcas[which] : config, rail,
					      &s->hcas[rail]),
				 ORIEL_OK);
	assert_int_equal(p->ops->register_memory(s->hcas[rail], s->memory, LENGTH, 0, ALL,
						 &s->mrs[rail], &keys),
			 ORIEL_OK);
	s->lkeys.rail[rail] = keys.lkey;
	s->rkeys.rail[rail] = keys.rkey;
	p->ops->describe(s->hcas[rail], &s->hca_addresses[rail]);
}

static void side_open(struct pair *p, struct side *s, const struct pair_attr *attr, unsigned which)
{
	struct ori_host_attr host = attr->host;

	s->rails = host.rails ? host.rails : 1;
	s->memory = aligned_alloc(4096, LENGTH);
	assert_non_null(s->memory);
	memset(s->memory, 0, LENGTH);
	for (unsigned rail = 0; rail < s->rails; rail++)
		side_open_rail(p, s, attr, which, rail);
	host.ops = p->ops;
	memcpy(host.hcas, s->hcas, sizeof(host.hcas));
	if (!host.piece)
		host.piece = PIECE;
	assert_int_equal(ori_host_create(&host, &s->link, &s->end), ORIEL_OK);
}

static void side_close(struct pair *p, struct side *s)
{
	ori_host_destroy(s->link);
	for (unsigned rail = 0; rail < s->rails; rail++) {
		p->ops->unregister_memory(s->mrs[rail]);
		p->ops->close(s->hcas[rail]);
	}
	free(s->memory);
}

static void pair_open(struct pair *p, const struct pair_attr *attr)
{
	memset(p, 0, sizeof(*p));
	p->ops = hcas[0] ? ori_hca_verbs() : &ori_hca_soft_ops;
	if (attr->seed)
		assert_int_equal(ori_soft_cluster_create(attr->seed, &p->cluster), ORIEL_OK);
	side_open(p, &p->a, attr, 0);
	side_open(p, &p->b, attr, 1);
	assert_int_equal(ori_host_connect(p->a.link, p->b.hca_addresses, &p->b.end), ORIEL_OK);
	assert_int_equal(ori_host_connect(p->b.link, p->a.hca_addresses, &p->a.end), ORIEL_OK);
}

static void pair_close(struct pair *p)
{
	side_close(p, &p->a);
	side_close(p, &p->b);
	ori_soft_cluster_destroy(p->cluster);
}

/* Lets the HCA or other threads work, but not for ever. */
static void pair_turn(struct pair *p, uint64_t until)
{
	assert_true(ori_clock_ns() < until);
	if (p->cluster)
		assert_true(ori_soft_cluster_step(p->cluster));
	else
		sched_yield();
}

static enum oriel_status pair_wait(struct pair *p, uint64_t op)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;
	enum oriel_status status;

	while ((status = ori_host_test(p->a.link, op)) == ORIEL_AGAIN)
		pair_turn(p, until);
	return status;
}

static struct ori_host_move move_of(const struct pair *p, uint64_t here, uint64_t there,
				    uint64_t length)
{
	return (struct ori_host_move){.local = {here, p->a.lkeys},
				      .remote = {there, p->b.rkeys},
				      .length = length};
}

static struct ori_host_address remote(const struct pair *p, uint64_t at)
{
	return (struct ori_host_address){at, p->b.rkeys};
}

static void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed);
}

static uint64_t *word_of(const struct side *s, uint64_t at)
{
	return (uint64_t *)(void *)(s->memory + at);
}

static const uint32_t sizes[] = {
	0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 3, 40 * PIECE,
};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void puts_and_gets_of_any_size(const struct pair_attr *attr)
{
	struct pair p;
	uint64_t op;

	pair_open(&p, attr);
	for (unsigned i = 0; i < SIZES; i++) {
		struct ori_host_move put = move_of(&p, 100, 1000, sizes[i]);
		struct ori_host_move get = move_of(&p, HALF, 999, sizes[i] + 2);

		fill(p.a.memory, HALF, i);
		memset(p.b.memory, 0x77, LENGTH);
		assert_int_equal(ori_host_put(p.a.link, &put, &op), ORIEL_OK);
		assert_int_equal(op, 2 * i);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
		assert_int_equal(ori_host_get(p.a.link, &get, &op), ORIEL_OK);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
		assert_memory_equal(p.b.memory + 1000, p.a.memory + 100, sizes[i]);
		assert_memory_equal(p.a.memory + HALF, p.b.memory + 999, sizes[i] + 2);
		assert_int_equal(p.b.memory[999], 0x77);
		assert_int_equal(p.b.memory[1000 + sizes[i]], 0x77);
	}
	pair_close(&p);
}

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

/* Links over several rails, each with a first rail and a number of queues of its own. */
static const struct ori_host_attr railed[] = {
	{.rails = 2, .stripe = STRIPE, .depth = 4, .immediates = 4},
	{.rails = 2, .first_rail = 1, .queues = 3, .stripe = STRIPE, .immediates = 4},
	{.rails = 4, .first_rail = 2, .stripe = STRIPE, .depth = 2, .immediates = 4},
	{.rails = 4, .queues = 8, .stripe = STRIPE, .immediates = 4},
};

#define RAILED (sizeof(railed) / sizeof(railed[0]))

static void test_puts_and_gets_of_any_size_over_rails(void **state)
{
	(void)state;
	for (unsigned i = 0; i < RAILED && !hcas[0]; i++)
		puts_and_gets_of_any_size(&(struct pair_attr){.host = railed[i]});
}

/*
 * A spread put, a short one and a put with a signal, whose data is spread as well if
 * @length is long.
 */
static void signal_covers_all(const struct pair_attr *attr, uint32_t length)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS, op = 0;
	struct ori_host_address word;
	struct pair p;

	pair_open(&p, attr);
	word = remote(&p, SIGNAL);
	for (unsigned i = 1; i <= 3; i++) {
		struct ori_host_move moves[3] = {
			move_of(&p, 0, 0, 7 * PIECE),
			move_of(&p, 32 * PIECE, 32 * PIECE, 100),
			move_of(&p, 64 * PIECE, 64 * PIECE, length),
		};

		fill(p.a.memory, HALF, i);
		assert_int_equal(ori_host_put(p.a.link, &moves[0], &op), ORIEL_OK);
		assert_int_equal(ori_host_put(p.a.link, &moves[1], &op), ORIEL_OK);
		assert_int_equal(ori_host_put_signal(p.a.link, &moves[2], &word, 5, &op), ORIEL_OK);
		while (oriel_dev_load_acquire(word_of(&p.b, SIGNAL)) != 5 * i) {
			assert_int_equal(ori_host_progress(p.a.link), ORIEL_OK);
			pair_turn(&p, until);
		}
		for (unsigned k = 0; k < 3; k++)
			assert_memory_equal(p.b.memory + moves[k].remote.address,
					    p.a.memory + moves[k].local.address, moves[k].length);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	}
	pair_close(&p);
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

static void test_a_signal_covers_all_before_it_on_any_rail(void **state)
{
	struct pair_attr attr = {.config = "delay=20us", .last = "delay=200us"};

	(void)state;
	for (attr.seed = 1; attr.seed <= SEEDS && !hcas[0]; attr.seed++) {
		attr.host = railed[attr.seed % RAILED];
		signal_covers_all(&attr, attr.seed % 3 ? 200 : 3 * PIECE);
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

/* The receiver takes all but a few late: the rest wait for receives. */
static void immediates_come_in_order(const struct pair_attr *attr)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS, op = 0;
	uint32_t immediate;
	struct pair p;

	pair_open(&p, attr);
	fill(p.a.memory, 16 * PIECE, 1);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t at = (uint64_t)(i % 4) * 4 * PIECE;
		struct ori_host_move move =
			move_of(&p, at, (uint64_t)i * 4 * PIECE, (uint64_t)(i % 4) * PIECE);

		assert_int_equal(ori_host_put_immediate(p.a.link, &move, 1000 + i, &op), ORIEL_OK);
	}
	for (unsigned i = 0; i < 20; i++) {
		enum oriel_status status;

		while ((status = ori_host_take(p.b.link, &immediate)) == ORIEL_AGAIN) {
			assert_int_equal(ori_host_progress(p.a.link), ORIEL_OK);
			pair_turn(&p, until);
		}
		assert_int_equal(status, ORIEL_OK);
		assert_int_equal(immediate, 1000 + i);
		assert_memory_equal(p.b.memory + (size_t)i * 4 * PIECE,
				    p.a.memory + (size_t)(i % 4) * 4 * PIECE,
				    (size_t)(i % 4) * PIECE);
	}
	assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	assert_int_equal(ori_host_take(p.b.link, &immediate), ORIEL_AGAIN);
	pair_close(&p);
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

/* The last rail of each side is slow, or the others are. */
static void test_an_immediate_does_not_pass_a_piece_on_another_rail(void **state)
{
	static const char *const configs[][2] = {
		{"", "delay=300us"},
		{"delay=300us", ""},
		{"delay=20us", "delay=20us,drop=0.05,dup=0.05,ack=1ms,retry=100"},
	};
	struct pair_attr attr = {0};

	(void)state;
	for (unsigned i = 0; i < RAILED && !hcas[0]; i++) {
		attr.host = railed[i];
		immediates_come_in_order(&attr);
	}
	for (attr.seed = 1; attr.seed <= SEEDS && !hcas[0]; attr.seed++) {
		attr.host = railed[attr.seed % RAILED];
		attr.config = configs[attr.seed % 3][0];
		attr.last = configs[attr.seed % 3][1];
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

static void test_a_rail_that_dies_fails_the_link(void **state)
{
	struct pair_attr attr = {.last = "black_hole=40,ack=1ms,retry=2",
				 .host = {.rails = 2, .stripe = STRIPE}};
	uint64_t until = ori_clock_ns() + PATIENCE_NS, op = 0;
	const struct ori_host_failure *failure;
	enum oriel_status status = ORIEL_OK;
	struct ori_host_move move;
	struct pair p;

	(void)state;
	if (hcas[0])
		skip();
	pair_open(&p, &attr);
	move = move_of(&p, 0, 0, 3 * PIECE);
	failure = ori_host_failure(p.a.link);
	assert_int_equal(failure->status, ORIEL_OK);
	while (status >= 0) {
		status = ori_host_put_immediate(p.a.link, &move, 1, &op);
		if (status >= 0)
			status = ori_host_progress(p.a.link);
		pair_turn(&p, until);
	}
	assert_int_equal(status, ORIEL_ERR_PEER);
	assert_non_null(strstr(oriel_last_error(), "(rail 1)"));
	assert_true(op > 0);
	assert_int_equal(failure->status, ORIEL_ERR_PEER);
	assert_int_equal(failure->rail, 1);
	assert_int_equal(failure->qpn, p.a.end.of[1].qpn);
	assert_int_equal(oriel_queue_err_syndrome(failure->err), ORIEL_MLX5_RETRY_EXCEEDED);
	assert_in_range(oriel_queue_err_index(failure->err), 1, op);
	assert_int_equal(ori_host_put(p.a.link, &move, &op), ORIEL_ERR_PEER);
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
		cmocka_unit_test(test_puts_and_gets_of_any_size_over_rails),
		cmocka_unit_test(test_short_puts_may_go_inside),
		cmocka_unit_test(test_a_signal_covers_all_before_it),
		cmocka_unit_test(test_a_signal_covers_all_before_it_on_any_rail),
		cmocka_unit_test(test_a_signal_covers_all_before_it_step_by_step),
		cmocka_unit_test(test_immediates_arrive_in_order_behind_their_data),
		cmocka_unit_test(test_an_immediate_does_not_pass_a_piece_on_another_rail),
		cmocka_unit_test(test_atomics_return_the_old_value),
		cmocka_unit_test(test_a_full_link_completes_its_operations_in_order),
		cmocka_unit_test(test_a_flush_makes_puts_visible),
		cmocka_unit_test(test_a_notifying_request_follows_gets),
		cmocka_unit_test(test_a_failure_is_reported_and_stays),
		cmocka_unit_test(test_a_rail_that_dies_fails_the_link),
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
