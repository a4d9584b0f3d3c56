/* SPDX-License-Identifier: Apache-2.0 */
/* Software HCAs posted to by calls: driven by their thread, and step by step. */
#include "hca/call_bench_test.h"

#include <stdio.h>

#define SEEDS 40u

static void duo_open(struct duo *d, const char *config)
{
	memset(d, 0, sizeof(*d));
	d->a.ops = d->b.ops = &ori_hca_soft_ops;
	assert_int_equal(ori_hca_soft_ops.open(config, 0, &d->a.hca), ORIEL_OK);
	assert_int_equal(ori_hca_soft_ops.open(config, 0, &d->b.hca), ORIEL_OK);
	end_open(&d->a, CALL_ALL);
	end_open(&d->b, CALL_ALL);
	duo_join(d);
}

static void duo_open_stepped(struct duo *d, uint64_t seed, const char *config, unsigned access)
{
	memset(d, 0, sizeof(*d));
	d->a.ops = d->b.ops = &ori_hca_soft_ops;
	assert_int_equal(ori_soft_cluster_create(seed, &d->a.cluster), ORIEL_OK);
	d->b.cluster = d->a.cluster;
	assert_int_equal(ori_soft_cluster_open(d->a.cluster, config, &d->a.hca), ORIEL_OK);
	assert_int_equal(ori_soft_cluster_open(d->a.cluster, config, &d->b.hca), ORIEL_OK);
	end_open(&d->a, access);
	end_open(&d->b, access);
	duo_join(d);
}

static void duo_close(struct duo *d)
{
	struct ori_soft_cluster *cluster = d->a.cluster;

	end_close(&d->a);
	end_close(&d->b);
	ori_hca_soft_ops.close(d->a.hca);
	ori_hca_soft_ops.close(d->b.hca);
	ori_soft_cluster_destroy(cluster);
}

static void run_cases(const char *config)
{
	struct duo d;

	for (size_t i = 0; i < CALL_CASES; i++) {
		print_message("%s: %s\n", config, call_cases[i].name);
		duo_open(&d, config);
		call_cases[i].run(&d);
		duo_close(&d);
	}
}

static void test_all_cases_hold(void **state)
{
	(void)state;
	run_cases("");
}

static void test_all_cases_hold_at_wraps_under_faults(void **state)
{
	(void)state;
	run_cases("first=65530,drop=0.02,dup=0.02,delay=20us,ack=2ms,retry=100,late_cqe=50us,"
		  "dup_cqe=0.3,scrub=1,shuffle=1");
	run_cases("first=16777210,db_loss=1,db_delay=20us,gather=20us,mtu=1024");
}

/* Only relaxed writes are held back: the CQE of an immediate still follows its data. */
static void test_all_cases_hold_step_by_step(void **state)
{
	const unsigned relaxed = CALL_ALL | ORI_HCA_RELAXED_ORDERING;
	struct duo d;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct call_case *c = &call_cases[3 + seed % (CALL_CASES - 3)];

		if (c->run == call_immediates_follow_their_data_in_order && seed > 12)
			continue;
		duo_open_stepped(&d, seed,
				 "drop=0.1,dup=0.1,ack=1ms,retry=100,late_cqe=20us,dup_cqe=0.2,"
				 "relaxed=16,rnr=50us",
				 c->run == call_immediates_follow_their_data_in_order ? relaxed
										      : CALL_ALL);
		c->run(&d);
		duo_close(&d);
	}
}

/* A READ delivers bytes that a later WRITE takes as its source. */
static bool forwards_stale_bytes(uint64_t seed, unsigned flags)
{
	struct ori_hca_wr wr[2];
	bool is_stale;
	struct duo d;

	duo_open_stepped(&d, seed, "delay=20us", CALL_ALL);
	memset(d.b.memory, 1, 64);
	wr[0] = call_wr(&d.a, &d.b, ORI_HCA_READ, 0, 0, 64);
	wr[1] = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 4096, 64);
	wr[0].flags = 0;
	wr[1].flags |= flags;
	end_post(&d.a, wr, 2);
	end_expect(&d.a, 0);
	is_stale = d.b.memory[4096] != 1;
	duo_close(&d);
	return is_stale;
}

static void test_a_fence_waits_for_reads(void **state)
{
	unsigned without = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		without += forwards_stale_bytes(seed, 0);
		assert_false(forwards_stale_bytes(seed, ORI_HCA_FENCE));
	}
	assert_true(without > 0);
}

static void test_retries_to_a_peer_without_receives_end(void **state)
{
	struct soft_counters counters;
	struct ori_hca_wc wc;
	struct ori_hca_wr wr;
	struct duo d;

	(void)state;
	duo_open(&d, "rnr=20us,rnr_retry=3");
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE_IMM, 0, 0, 8);
	wr.id = 5;
	end_post(&d.a, &wr, 1);
	end_next(&d.a, &wc);
	assert_int_equal(wc.id, 5);
	assert_int_equal(wc.status, ORIEL_ERR_PEER);
	assert_int_equal(wc.syndrome, ORIEL_SYNDROME_NOT_READY_EXCEEDED);
	ori_soft_counters(d.b.hca, &counters);
	assert_int_equal(counters.not_ready, 4);
	assert_int_equal(d.b.memory[0], 0);
	duo_close(&d);
}

/* The limit of receives holds per QP, and counts receives that were consumed and polled. */
static void test_a_qp_takes_receives_up_to_its_limit(void **state)
{
	struct ori_hca_wc wc;
	struct ori_hca_wr wr;
	struct duo d;

	(void)state;
	duo_open(&d, "");
	assert_int_equal(ori_hca_soft_ops.calls->post_receives(d.b.qp, CALL_DEPTH), ORIEL_OK);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE_IMM, 0, 0, 8);
	for (unsigned i = 0; i < 3 * CALL_DEPTH; i++) {
		assert_int_equal(ori_hca_soft_ops.calls->post_receives(d.b.qp, 1), ORIEL_ERR_RANGE);
		wr.immediate = i;
		end_post(&d.a, &wr, 1);
		end_next(&d.b, &wc);
		assert_int_equal(wc.immediate, i);
		end_expect(&d.a, 0);
		assert_int_equal(ori_hca_soft_ops.calls->post_receives(d.b.qp, 1), ORIEL_OK);
	}
	duo_close(&d);
}

/* Also if its CQEs are late, and no other work exists. */
static void test_receives_may_have_a_cq_of_their_own(void **state)
{
	struct ori_hca_cq_attr cq = {.depth = CALL_DEPTH};
	struct ori_hca_qp_attr qp = {.depth = CALL_DEPTH, .receives = 1};
	struct ori_hca_cq *send_cq;
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	struct duo d;
	uint32_t cqn;

	(void)state;
	duo_open(&d, "late_cqe=1ms");
	ori_hca_soft_ops.destroy_qp(d.b.qp);
	assert_int_equal(ori_hca_soft_ops.create_cq(d.b.hca, &cq, &send_cq, &cqn), ORIEL_OK);
	qp.send_cq = send_cq;
	qp.receive_cq = d.b.cq;
	assert_int_equal(ori_hca_soft_ops.create_qp(d.b.hca, &qp, &d.b.qp, &d.b.address), ORIEL_OK);
	ori_hca_soft_ops.destroy_qp(d.a.qp);
	ori_hca_soft_ops.destroy_cq(d.a.cq);
	end_open_qp(&d.a, CALL_DEPTH, CALL_DEPTH);
	duo_join(&d);
	assert_int_equal(ori_hca_soft_ops.calls->post_receives(d.b.qp, 1), ORIEL_OK);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE_IMM, 0, 0, 8);
	wr.immediate = 17;
	end_post(&d.a, &wr, 1);
	end_next(&d.b, &wc);
	assert_int_equal(wc.immediate, 17);
	end_expect(&d.a, 0);
	ori_hca_soft_ops.destroy_qp(d.b.qp);
	ori_hca_soft_ops.destroy_cq(send_cq);
	ori_hca_soft_ops.destroy_cq(d.b.cq);
	end_open_qp(&d.b, CALL_DEPTH, CALL_DEPTH);
	duo_close(&d);
}

/* Two QPs of 16 share a CQ of 16 that no thread polls. */
static void test_a_cq_that_is_not_polled_is_overrun(void **state)
{
	struct ori_hca_qp_attr attr = {.depth = 16};
	struct ori_hca_cq_attr cq = {.depth = 16};
	struct ori_hca_qp_address address[2];
	struct ori_hca_wc wc[64];
	enum oriel_status status = ORIEL_OK;
	struct ori_hca_qp *qp[2];
	struct ori_hca_cq *small;
	unsigned posted, count;
	struct ori_hca_wr wr;
	struct duo d;
	uint32_t cqn;

	(void)state;
	duo_open(&d, "");
	assert_int_equal(ori_hca_soft_ops.create_cq(d.a.hca, &cq, &small, &cqn), ORIEL_OK);
	attr.send_cq = small;
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 8);
	wr.rkey = d.a.keys.rkey;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ori_hca_soft_ops.create_qp(d.a.hca, &attr, &qp[i], &address[i]),
				 ORIEL_OK);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ori_hca_soft_ops.connect_qp(qp[i], &address[i]), ORIEL_OK);
		for (unsigned k = 0; k < 16; k++)
			assert_int_equal(ori_hca_soft_ops.calls->post(qp[i], &wr, 1, &posted),
					 ORIEL_OK);
	}
	for (uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS; ori_clock_ns() < until;) {
		struct ori_hca_event event;

		if (ori_hca_soft_ops.poll_event(d.a.hca, &event) == ORIEL_OK)
			break;
		sched_yield();
	}
	assert_int_equal(ori_hca_soft_ops.calls->poll(small, wc, 64, &count), ORIEL_OK);
	assert_int_equal(count, 16);
	status = ori_hca_soft_ops.calls->poll(small, wc, 64, &count);
	assert_int_equal(status, ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "overrun"));
	for (unsigned i = 0; i < 2; i++)
		ori_hca_soft_ops.destroy_qp(qp[i]);
	ori_hca_soft_ops.destroy_cq(small);
	duo_close(&d);
}

/* Completions of a destroyed QP are dropped. */
static void test_completions_of_a_destroyed_qp_are_dropped(void **state)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;
	struct soft_counters counters;
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	unsigned count = 0;
	struct duo d;

	(void)state;
	duo_open(&d, "");
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 8);
	end_post(&d.a, &wr, 1);
	end_expect(&d.a, 0);
	end_post(&d.a, &wr, 1);
	do {
		assert_true(ori_clock_ns() < until);
		sched_yield();
		ori_soft_counters(d.a.hca, &counters);
	} while (counters.cqes < 2);
	ori_hca_soft_ops.destroy_qp(d.a.qp);
	assert_int_equal(ori_hca_soft_ops.calls->poll(d.a.cq, &wc, 1, &count), ORIEL_OK);
	assert_int_equal(count, 0);
	ori_hca_soft_ops.destroy_cq(d.a.cq);
	end_open_qp(&d.a, CALL_DEPTH, CALL_DEPTH);
	duo_close(&d);
}

static void test_invalid_arguments_are_rejected(void **state)
{
	const struct ori_hca_ops *ops = &ori_hca_soft_ops;
	struct ori_hca_qp_attr attr = {.depth = 16};
	struct ori_hca_cq_attr cq = {.depth = 0};
	struct ori_hca_wr wr, wrong;
	struct ori_hca_cq *made;
	struct end fresh;
	unsigned posted;
	struct duo d;
	uint32_t cqn;

	(void)state;
	duo_open(&d, "");
	fresh = d.a;
	assert_int_equal(ops->create_cq(d.a.hca, &cq, &made, &cqn), ORIEL_ERR_RANGE);
	attr.send_cq = d.b.cq;
	assert_int_equal(ops->create_qp(d.a.hca, &attr, &fresh.qp, &fresh.address),
			 ORIEL_ERR_INVALID);
	attr.send_cq = d.a.cq;
	attr.receives = 1;
	assert_int_equal(ops->create_qp(d.a.hca, &attr, &fresh.qp, &fresh.address),
			 ORIEL_ERR_INVALID);
	end_open_qp(&fresh, 4, 1);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 8);
	assert_int_equal(ops->calls->post(fresh.qp, &wr, 1, &posted), ORIEL_ERR_STATE);
	assert_int_equal(posted, 0);
	end_close_qp(&fresh);
	for (unsigned i = 0; i < 4; i++) {
		struct ori_hca_wr both[2];

		wrong = wr;
		if (i == 0)
			wrong.opcode = ORI_HCA_CAS + 1;
		else if (i == 1)
			wrong.length = ORIEL_MLX5_LENGTH_MAX + 1;
		else if (i == 2)
			wrong.opcode = ORI_HCA_FETCH_ADD, wrong.length = 4;
		else
			wrong.opcode = ORI_HCA_READ, wrong.data = d.a.memory;
		both[0] = wr;
		both[1] = wrong;
		assert_int_equal(ops->calls->post(d.a.qp, both, 2, &posted), ORIEL_ERR_INVALID);
		assert_int_equal(posted, 1);
		end_expect(&d.a, 0);
	}
	duo_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_cases_hold),
		cmocka_unit_test(test_all_cases_hold_at_wraps_under_faults),
		cmocka_unit_test(test_all_cases_hold_step_by_step),
		cmocka_unit_test(test_a_fence_waits_for_reads),
		cmocka_unit_test(test_retries_to_a_peer_without_receives_end),
		cmocka_unit_test(test_a_qp_takes_receives_up_to_its_limit),
		cmocka_unit_test(test_receives_may_have_a_cq_of_their_own),
		cmocka_unit_test(test_a_cq_that_is_not_polled_is_overrun),
		cmocka_unit_test(test_completions_of_a_destroyed_qp_are_dropped),
		cmocka_unit_test(test_invalid_arguments_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
