/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two endpoints that post by calls, of any HCA that takes posts, and the claims
 * that hold for all of them. The tests of each kind of HCA run these.
 */
#ifndef ORI_HCA_CALL_BENCH_TEST_H
#define ORI_HCA_CALL_BENCH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/dev/detail/mlx5.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hca/test_support/soft_cluster.h"

#define CALL_LENGTH (4u << 20)
#define CALL_DEPTH 16u
#define CALL_PATIENCE_NS UINT64_C(30000000000)
#define CALL_STEPS_MOST 20000000u
#define CALL_ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

/* Send and receive CQ are one. */
struct end {
	const struct ori_hca_ops *ops;
	struct ori_soft_cluster *cluster; /* NULL: no test has to step it */
	struct ori_hca *hca;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	char *memory;
};

struct duo {
	struct end a, b;
};

static inline void end_open_qp(struct end *e, uint32_t depth, uint32_t receives)
{
	struct ori_hca_cq_attr cq = {.depth = depth + receives};
	struct ori_hca_qp_attr qp = {.depth = depth, .receives = receives};
	uint32_t cqn;

	assert_int_equal(e->ops->create_cq(e->hca, &cq, &e->cq, &cqn), ORIEL_OK);
	qp.send_cq = qp.receive_cq = e->cq;
	assert_int_equal(e->ops->create_qp(e->hca, &qp, &e->qp, &e->address), ORIEL_OK);
}

static inline void end_close_qp(struct end *e)
{
	e->ops->destroy_qp(e->qp);
	e->ops->destroy_cq(e->cq);
}

static inline void end_open_memory(struct end *e, unsigned access)
{
	e->memory = aligned_alloc(4096, CALL_LENGTH);
	assert_non_null(e->memory);
	memset(e->memory, 0, CALL_LENGTH);
	assert_int_equal(e->ops->register_memory(e->hca, e->memory, CALL_LENGTH, 0, access, &e->mr,
						 &e->keys),
			 ORIEL_OK);
}

/* ops, hca and cluster are set. */
static inline void end_open(struct end *e, unsigned access)
{
	end_open_memory(e, access);
	end_open_qp(e, CALL_DEPTH, CALL_DEPTH);
}

static inline void end_close(struct end *e)
{
	end_close_qp(e);
	e->ops->unregister_memory(e->mr);
	free(e->memory);
}

/* Opens the HCA @name, too. */
static inline void end_start(struct end *e, const struct ori_hca_ops *ops, const char *name)
{
	memset(e, 0, sizeof(*e));
	e->ops = ops;
	assert_int_equal(ops->open(name, 0, &e->hca), ORIEL_OK);
	end_open(e, CALL_ALL);
}

static inline void end_stop(struct end *e)
{
	end_close(e);
	e->ops->close(e->hca);
}

static inline void duo_join(struct duo *d)
{
	assert_int_equal(d->a.ops->connect_qp(d->a.qp, &d->b.address), ORIEL_OK);
	assert_int_equal(d->b.ops->connect_qp(d->b.qp, &d->a.address), ORIEL_OK);
}

/* Poll the next completion at @e. */
static inline void end_next(struct end *e, struct ori_hca_wc *wc)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;
	unsigned count = 0, i;

	for (i = 0; !count; i++) {
		assert_int_equal(e->ops->calls->poll(e->cq, wc, 1, &count), ORIEL_OK);
		if (count)
			break;
		if (e->cluster) {
			assert_true(ori_soft_cluster_step(e->cluster));
			assert_true(i < CALL_STEPS_MOST);
			continue;
		}
		assert_true(ori_clock_ns() < until);
		sched_yield();
	}
}

static inline void end_expect(struct end *e, uint64_t id)
{
	struct ori_hca_wc wc;

	end_next(e, &wc);
	assert_int_equal(wc.status, ORIEL_OK);
	assert_int_equal(wc.syndrome, 0);
	assert_false(wc.is_receive);
	assert_int_equal(wc.qpn, e->address.qpn);
	assert_int_equal(wc.id, id);
}

static inline struct ori_hca_wr call_wr(const struct end *from, const struct end *to,
					enum ori_hca_opcode opcode, uint64_t local, uint64_t remote,
					uint32_t length)
{
	return (struct ori_hca_wr){.opcode = (uint8_t)opcode,
				   .flags = ORI_HCA_SIGNALED,
				   .local = local,
				   .lkey = from->keys.lkey,
				   .remote = remote,
				   .rkey = to->keys.rkey,
				   .length = length};
}

static inline void end_post(struct end *e, const struct ori_hca_wr *wrs, unsigned count)
{
	unsigned posted;

	assert_int_equal(e->ops->calls->post(e->qp, wrs, count, &posted), ORIEL_OK);
	assert_int_equal(posted, count);
}

static inline void call_fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed);
}

static const uint32_t call_sizes[] = {0, 1, 8, 4095, 4096, 4097, 3 * 4096 + 1, 1 << 20};

#define CALL_SIZES (sizeof(call_sizes) / sizeof(call_sizes[0]))

static inline void call_writes_and_reads_of_any_size(struct duo *d)
{
	for (unsigned i = 0; i < CALL_SIZES; i++) {
		uint32_t length = call_sizes[i];
		struct ori_hca_wr wr[2];

		call_fill(d->a.memory, CALL_LENGTH / 2, i);
		memset(d->b.memory, 0x77, CALL_LENGTH);
		wr[0] = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 500, 1000, length);
		wr[1] = call_wr(&d->a, &d->b, ORI_HCA_READ, CALL_LENGTH / 2, 999, length + 2);
		wr[0].id = 10 + i;
		wr[1].id = 100 + i;
		end_post(&d->a, wr, 2);
		end_expect(&d->a, 10 + i);
		end_expect(&d->a, 100 + i);
		assert_memory_equal(d->b.memory + 1000, d->a.memory + 500, length);
		assert_memory_equal(d->a.memory + CALL_LENGTH / 2, d->b.memory + 999, length + 2);
		assert_int_equal(d->b.memory[999], 0x77);
		assert_int_equal(d->b.memory[1000 + length], 0x77);
	}
}

/* More rounds than the queue is deep, so that a slot is used again. */
static inline void call_only_signaled_requests_complete_visibly(struct duo *d)
{
	for (unsigned round = 0; round < 4 * CALL_DEPTH; round++) {
		struct ori_hca_wr wr[5];

		for (unsigned i = 0; i < 5; i++) {
			wr[i] = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 0, 64 * (uint64_t)i, 64);
			wr[i].flags = i == 4 ? ORI_HCA_SIGNALED : 0;
			wr[i].id = round * 5 + i;
		}
		end_post(&d->a, wr, 5);
		end_expect(&d->a, round * 5 + 4);
	}
}

static inline void call_a_full_queue_takes_the_rest_later(struct duo *d)
{
	struct ori_hca_wr wr[2 * CALL_DEPTH];
	unsigned posted, more;

	for (unsigned i = 0; i < 2 * CALL_DEPTH; i++) {
		wr[i] = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 0, 0, 4096);
		wr[i].id = i;
	}
	assert_int_equal(d->a.ops->calls->post(d->a.qp, wr, 2 * CALL_DEPTH, &posted), ORIEL_AGAIN);
	assert_true(posted >= CALL_DEPTH && posted < 2 * CALL_DEPTH);
	assert_int_equal(d->a.ops->calls->post(d->a.qp, wr + posted, 1, &more), ORIEL_AGAIN);
	assert_int_equal(more, 0);
	for (unsigned i = 0; i < CALL_DEPTH; i++)
		end_expect(&d->a, i);
	end_post(&d->a, wr + posted, 2 * CALL_DEPTH - posted);
	for (unsigned i = CALL_DEPTH; i < 2 * CALL_DEPTH; i++)
		end_expect(&d->a, i);
}

static inline void call_atomics_return_the_old_value(struct duo *d)
{
	uint64_t *word = (uint64_t *)(void *)(d->b.memory + 64);
	uint64_t *old = (uint64_t *)(void *)d->a.memory;
	struct ori_hca_wr wr[3];

	*word = 40;
	wr[0] = call_wr(&d->a, &d->b, ORI_HCA_FETCH_ADD, 0, 64, 8);
	wr[0].operand = 2;
	wr[1] = call_wr(&d->a, &d->b, ORI_HCA_CAS, 8, 64, 8);
	wr[1].compare = 42;
	wr[1].operand = UINT64_C(0x123456789abcdef0);
	wr[2] = wr[1];
	wr[2].local = 16;
	wr[2].operand = 7;
	end_post(&d->a, wr, 3);
	for (unsigned i = 0; i < 3; i++)
		end_expect(&d->a, 0);
	assert_int_equal(old[0], 40);
	assert_int_equal(old[1], 42);
	assert_int_equal(old[2], UINT64_C(0x123456789abcdef0));
	assert_int_equal(*word, UINT64_C(0x123456789abcdef0));
}

static inline void call_inline_data_is_copied_at_once(struct duo *d)
{
	char data[ORI_HCA_INLINE_MAX];
	struct ori_hca_wr wr = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 0, 100, sizeof(data));

	wr.data = data;
	wr.lkey = 0;
	memset(data, 'x', sizeof(data));
	end_post(&d->a, &wr, 1);
	memset(data, 'y', sizeof(data));
	end_expect(&d->a, 0);
	for (unsigned i = 0; i < sizeof(data); i++)
		assert_int_equal(d->b.memory[100 + i], 'x');
	assert_int_equal(d->b.memory[100 + sizeof(data)], 0);
}

/* The data has any length, whatever the HCA does with it. */
static inline void call_data_may_be_inline(struct duo *d)
{
	static const uint32_t lengths[] = {0, 1, 27, 28, 29, 91, 92, 93, 219, 220, 221, 4097};

	call_fill(d->a.memory, CALL_LENGTH, 3);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct ori_hca_wr wr =
			call_wr(&d->a, &d->b, ORI_HCA_WRITE, 40 + i, 100, lengths[i]);

		wr.data = d->a.memory + 40 + i;
		memset(d->b.memory, 0x77, 8192);
		end_post(&d->a, &wr, 1);
		end_expect(&d->a, 0);
		assert_memory_equal(d->b.memory + 100, d->a.memory + 40 + i, lengths[i]);
		assert_int_equal(d->b.memory[99], 0x77);
		assert_int_equal(d->b.memory[100 + lengths[i]], 0x77);
	}
}

/* An immediate says that its data has arrived, and the data of all requests before it. */
static inline void call_immediates_follow_their_data_in_order(struct duo *d)
{
	for (unsigned i = 0; i < CALL_SIZES; i++) {
		uint32_t length = call_sizes[i];
		struct ori_hca_wr wr[3];
		struct ori_hca_wc wc;

		assert_int_equal(d->b.ops->calls->post_receives(d->b.qp, 2), ORIEL_OK);
		call_fill(d->a.memory, CALL_LENGTH / 2, i);
		memset(d->b.memory, 0, CALL_LENGTH);
		wr[0] = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 100, 2u << 20, length);
		wr[1] = call_wr(&d->a, &d->b, ORI_HCA_WRITE_IMM, 500, 1000, length);
		wr[1].immediate = 0xfedc0000 + i;
		wr[2] = call_wr(&d->a, &d->b, ORI_HCA_WRITE_IMM, 0, 0, 0);
		wr[2].immediate = i;
		wr[0].flags = wr[1].flags = 0;
		wr[2].id = 7;
		end_post(&d->a, wr, 3);
		for (unsigned k = 1; k < 3; k++) {
			end_next(&d->b, &wc);
			assert_int_equal(wc.status, ORIEL_OK);
			assert_true(wc.is_receive);
			assert_int_equal(wc.id, 0);
			assert_int_equal(wc.qpn, d->b.address.qpn);
			assert_int_equal(wc.immediate, wr[k].immediate);
			assert_int_equal(wc.length, wr[k].length);
			assert_memory_equal(d->b.memory + 1000, d->a.memory + 500, length);
			assert_memory_equal(d->b.memory + (2u << 20), d->a.memory + 100, length);
		}
		end_expect(&d->a, 7);
	}
}

/* A receive that is posted late only makes the peer wait. */
static inline void call_an_immediate_waits_for_a_receive(struct duo *d)
{
	struct ori_hca_wr wr = call_wr(&d->a, &d->b, ORI_HCA_WRITE_IMM, 0, 0, 3 * 4096);
	struct ori_hca_wc wc;
	unsigned count;

	wr.immediate = 99;
	end_post(&d->a, &wr, 1);
	for (unsigned i = 0; i < 100; i++) {
		if (d->a.cluster)
			assert_true(ori_soft_cluster_step(d->a.cluster));
		else
			sched_yield();
		assert_int_equal(d->b.ops->calls->poll(d->b.cq, &wc, 1, &count), ORIEL_OK);
		assert_int_equal(count, 0);
		assert_int_equal(d->a.ops->calls->poll(d->a.cq, &wc, 1, &count), ORIEL_OK);
		assert_int_equal(count, 0);
	}
	assert_int_equal(d->b.ops->calls->post_receives(d->b.qp, 1), ORIEL_OK);
	end_next(&d->b, &wc);
	assert_int_equal(wc.immediate, 99);
	assert_int_equal(wc.length, 3 * 4096);
	end_expect(&d->a, 0);
}

/* The failure also ends both queues. */
static inline void call_a_wrong_key_is_rejected_and_the_rest_flushed(struct duo *d)
{
	struct ori_hca_wr wr[3];
	struct ori_hca_wc wc;

	assert_int_equal(d->b.ops->calls->post_receives(d->b.qp, CALL_DEPTH + 1), ORIEL_ERR_RANGE);
	assert_int_equal(d->b.ops->calls->post_receives(d->b.qp, 2), ORIEL_OK);
	for (unsigned i = 0; i < 3; i++) {
		wr[i] = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 0, 0, 64);
		wr[i].flags = i == 1 ? 0 : ORI_HCA_SIGNALED;
		wr[i].id = 70 + i;
	}
	wr[1].rkey ^= 0x5500;
	end_post(&d->a, wr, 3);
	end_expect(&d->a, 70);
	end_next(&d->a, &wc);
	assert_int_equal(wc.id, 71);
	assert_int_equal(wc.status, ORIEL_ERR_ACCESS);
	assert_int_equal(wc.syndrome, ORIEL_SYNDROME_REMOTE_ACCESS);
	end_next(&d->a, &wc);
	assert_int_equal(wc.id, 72);
	assert_int_equal(wc.status, ORIEL_ERR_STATE);
	assert_int_equal(wc.syndrome, ORIEL_SYNDROME_FLUSHED);
	d->b.ops->fail_qp(d->b.qp);
	d->b.ops->fail_qp(d->b.qp);
	for (unsigned i = 0; i < 2; i++) {
		end_next(&d->b, &wc);
		assert_true(wc.is_receive);
		assert_int_equal(wc.status, ORIEL_ERR_STATE);
		assert_int_equal(wc.syndrome, ORIEL_SYNDROME_FLUSHED);
	}
}

struct call_case {
	const char *name;
	void (*run)(struct duo *d);
};

static const struct call_case call_cases[] = {
	{"writes and reads of any size", call_writes_and_reads_of_any_size},
	{"only signaled requests complete visibly", call_only_signaled_requests_complete_visibly},
	{"a full queue takes the rest later", call_a_full_queue_takes_the_rest_later},
	{"atomics return the old value", call_atomics_return_the_old_value},
	{"inline data is copied at once", call_inline_data_is_copied_at_once},
	{"data may be inline", call_data_may_be_inline},
	{"immediates follow their data in order", call_immediates_follow_their_data_in_order},
	{"an immediate waits for a receive", call_an_immediate_waits_for_a_receive},
	{"a wrong key is rejected and the rest flushed",
	 call_a_wrong_key_is_rejected_and_the_rest_flushed},
};

#define CALL_CASES (sizeof(call_cases) / sizeof(call_cases[0]))

#endif
