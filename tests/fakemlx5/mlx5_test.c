/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the queues of ConnectX HCAs, as commands and verbs create them, over the fake. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <oriel/dev/mlx5_ring.h>

#include "fakemlx5.h"
#include "hca/call_bench_test.h"
#include "hca/mlx5/mlx5.h"

#define RING_DEPTH 64u
#define RING_LENGTH (1u << 20)

static const struct oriel_link_wait_limits patient = {NULL, CALL_PATIENCE_NS, 1, 0};

/* One side of a pair of rings. */
struct side {
	struct ori_hca *hca;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	struct ori_hca_queue_memory place;
	_Alignas(128) struct oriel_mlx5_queue queue;
	char *memory;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	uint32_t cqn;
};

static const struct ori_hca_ops *ops(void)
{
	return ori_hca_mlx5();
}

static void side_open_queue(struct side *s, uint32_t depth, bool is_companion)
{
	struct ori_hca_cq_attr cq = {.depth = depth, .has_own_ring = true};
	struct ori_hca_qp_attr qp = {.depth = depth,
				     .has_own_ring = true,
				     .is_companion = is_companion};
	struct ori_hca_caps caps;

	assert_int_equal(ops()->create_cq(s->hca, &cq, &s->cq, &s->cqn), ORIEL_OK);
	qp.send_cq = s->cq;
	if (ops()->create_qp(s->hca, &qp, &s->qp, &s->address) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	ops()->caps(s->hca, &caps);
	caps.rings->place(s->qp, &s->place);
	memset(&s->queue, 0, sizeof(s->queue));
	s->queue.sq = s->place.sq;
	s->queue.cq = s->place.cq;
	s->queue.record = s->place.record;
	s->queue.doorbell = s->place.doorbell;
	s->queue.asleep = s->place.asleep;
	s->queue.qpn = s->address.qpn;
	s->queue.cqn = s->cqn;
	s->queue.log_depth = 31 - (unsigned)__builtin_clz(depth);
	s->queue.flags = caps.is_atomic_host_endian ? 0 : ORIEL_MLX5_ATOMICS_SWAPPED;
	oriel_mlx5_queue_begin(&s->queue, 0);
}

static void side_close_queue(struct side *s)
{
	ops()->destroy_qp(s->qp);
	ops()->destroy_cq(s->cq);
}

static void side_open(struct side *s, const char *name)
{
	memset(s, 0, sizeof(*s));
	if (ops()->open(name, 0, &s->hca) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	s->memory = aligned_alloc(4096, RING_LENGTH);
	memset(s->memory, 0, RING_LENGTH);
	assert_int_equal(ops()->register_memory(s->hca, s->memory, RING_LENGTH, 0, CALL_ALL, &s->mr,
						&s->keys),
			 ORIEL_OK);
	side_open_queue(s, RING_DEPTH, false);
}

static void side_close(struct side *s)
{
	side_close_queue(s);
	ops()->unregister_memory(s->mr);
	ops()->close(s->hca);
	free(s->memory);
}

static enum oriel_status side_join(struct side *a, struct side *b)
{
	enum oriel_status status = ops()->connect_qp(a->qp, &b->address);

	return status == ORIEL_OK ? ops()->connect_qp(b->qp, &a->address) : status;
}

static struct oriel_rdma_address side_address(const struct side *s, uint64_t at)
{
	return (struct oriel_rdma_address){at, s->keys.lkey};
}

static enum oriel_status side_write(struct side *from, const struct side *to, uint64_t at,
				    uint64_t peer, uint32_t length)
{
	enum oriel_status status;
	uint64_t base = 0;

	status = oriel_mlx5_reserve(&from->queue, 1, &patient, &base);
	if (status != ORIEL_OK)
		return status;
	oriel_mlx5_wqe_write(oriel_mlx5_slot(&from->queue, base),
			     oriel_mlx5_head_of(&from->queue, base, ORIEL_MLX5_FENCE_NONE),
			     side_address(to, peer), side_address(from, at), length);
	status = oriel_mlx5_post(&from->queue, base, 1, &patient);
	return status == ORIEL_OK ? oriel_mlx5_wait(&from->queue, base, &patient) : status;
}

static uint64_t side_add(struct side *from, const struct side *to, uint64_t at, uint64_t value)
{
	uint64_t base = 0, *result = (uint64_t *)(void *)(from->memory + 4096);

	assert_int_equal(oriel_mlx5_reserve(&from->queue, 1, &patient, &base), ORIEL_OK);
	oriel_mlx5_wqe_fetch_add(oriel_mlx5_slot(&from->queue, base),
				 oriel_mlx5_head_of(&from->queue, base, ORIEL_MLX5_FENCE_NONE),
				 side_address(to, at), side_address(from, 4096), value);
	assert_int_equal(oriel_mlx5_post(&from->queue, base, 1, &patient), ORIEL_OK);
	assert_int_equal(oriel_mlx5_wait(&from->queue, base, &patient), ORIEL_OK);
	return oriel_mlx5_atomic_result(&from->queue, *result);
}

/* Bytes move both ways, in more WQEs than the ring holds, and the atomic counts. */
static void sides_move(struct side *a, struct side *b)
{
	for (unsigned i = 0; i < 3 * RING_DEPTH; i++) {
		struct side *from = i % 2 ? b : a, *to = i % 2 ? a : b;
		uint32_t length = i % 5 == 0 ? 40000 : 1 + i;

		call_fill(from->memory + 8192, length, i);
		assert_int_equal(side_write(from, to, 8192, 65536, length), ORIEL_OK);
		assert_memory_equal(from->memory + 8192, to->memory + 65536, length);
		assert_int_equal(side_add(a, b, 0, 3), 3 * i);
	}
}

static void assert_pair_works(const char *first, const char *second)
{
	struct side a, b;

	side_open(&a, first);
	side_open(&b, second);
	if (side_join(&a, &b) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	sides_move(&a, &b);
	side_close(&a);
	side_close(&b);
	assert_int_equal(fake5_left(), 0);
}

static void assert_report(enum ori_mlx5_tier tier, bool is_devx, const char *doorbells)
{
	struct ori_mlx5_report report;

	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_int_equal(report.tier, tier);
	assert_int_equal(report.is_devx, is_devx);
	assert_string_equal(report.doorbells, doorbells);
	for (unsigned t = 0; t < ORI_MLX5_TIERS; t++)
		assert_int_equal(report.why[t][0] != 0, t < tier);
}

static void test_rings_by_commands_move_bytes(void **state)
{
	struct fake5_counters before = fake5_counters(), after;

	(void)state;
	assert_report(ORI_MLX5_T1, true, "dedicated");
	assert_pair_works("=mlx5_0", "=mlx5_0");
	assert_pair_works("=mlx5_0", "=mlx5_1");
	after = fake5_counters();
	assert_int_equal(after.refused, before.refused);
	assert_int_equal(after.recovered, before.recovered);
	assert_int_equal(after.stray, before.stray);
	assert_true(after.rung > before.rung);
}

static void test_rings_by_verbs_move_bytes(void **state)
{
	struct fake5_counters before = fake5_counters(), after;

	(void)state;
	setenv("ORIEL_DEVX", "off", 1);
	assert_report(ORI_MLX5_T3, false, "of verbs");
	setenv("ORIEL_TIER", "t1", 1);
	assert_report(ORI_MLX5_T1, false, "of verbs");
	assert_pair_works("=mlx5_0", "=mlx5_1");
	assert_pair_works("=mlx5_2", "=mlx5_2");
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
	after = fake5_counters();
	assert_int_equal(after.commands, before.commands);
	assert_true(after.rung > before.rung);
}

/* Each side may have its own route and tier. */
static void test_sides_of_different_routes_and_tiers_connect(void **state)
{
	struct side a, b;

	(void)state;
	side_open(&a, "=mlx5_0");
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t2", 1);
	side_open(&b, "=mlx5_1");
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
	assert_int_equal(side_join(&a, &b), ORIEL_OK);
	sides_move(&a, &b);
	side_close(&a);
	side_close(&b);
}

static void test_infiniband_has_a_grh_where_it_must(void **state)
{
	struct ori_prm_rtr rtr;
	uint8_t in[ORI_PRM_MODIFY_LENGTH];

	(void)state;
	assert_pair_works("=mlx5_2", "=mlx5_2");
	assert_int_equal(fake5_command(ORI_PRM_INIT2RTR_QP, in, sizeof(in)), sizeof(in));
	assert_int_equal(ori_prm_decode_init2rtr(in, sizeof(in), &rtr), ORIEL_OK);
	assert_false(rtr.path.has_grh);
	assert_int_equal(rtr.mtu, 2048);
	/* A port that demands a GRH, and a peer behind a router. */
	assert_pair_works("=mlx5_3", "=mlx5_3");
	assert_pair_works("=mlx5_2", "=mlx5_4");
	assert_int_equal(fake5_command(ORI_PRM_INIT2RTR_QP, in, sizeof(in)), sizeof(in));
	assert_int_equal(ori_prm_decode_init2rtr(in, sizeof(in), &rtr), ORIEL_OK);
	assert_true(rtr.path.has_grh);
}

static void command_of(enum ori_prm_opcode opcode, void *in, unsigned length)
{
	assert_int_equal(fake5_command(opcode, in, length), length);
}

static void test_commands_carry_the_attributes_and_settings(void **state)
{
	uint8_t create[ORI_PRM_CREATE_LENGTH], modify[ORI_PRM_MODIFY_LENGTH];
	struct ori_prm_init init;
	struct ori_prm_cq cq;
	struct ori_prm_qp qp;
	struct ori_prm_rtr rtr;
	struct ori_prm_rts rts;
	struct side a, b;

	(void)state;
	setenv("ORIEL_IB_TC", "106", 1);
	setenv("ORIEL_IB_SL", "3", 1);
	setenv("ORIEL_IB_TIMEOUT", "14", 1);
	setenv("ORIEL_IB_RETRY", "5", 1);
	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_1");
	command_of(ORI_PRM_CREATE_CQ, create, sizeof(create));
	assert_int_equal(ori_prm_decode_create_cq(create, sizeof(create), &cq), ORIEL_OK);
	assert_true(cq.ignores_overrun);
	assert_false(cq.is_collapsed);
	assert_int_equal(cq.depth, RING_DEPTH);
	command_of(ORI_PRM_CREATE_QP, create, sizeof(create));
	assert_int_equal(ori_prm_decode_create_qp(create, sizeof(create), &qp), ORIEL_OK);
	assert_false(qp.is_companion);
	assert_int_equal(qp.depth, RING_DEPTH);
	assert_int_equal(qp.send_cqn, b.cqn);
	assert_int_equal(qp.timestamps, ORI_PRM_TIMESTAMPS_DEFAULT);
	command_of(ORI_PRM_RST2INIT_QP, modify, sizeof(modify));
	assert_int_equal(ori_prm_decode_rst2init(modify, sizeof(modify), &init), ORIEL_OK);
	assert_int_equal(init.port, 1);
	assert_true(init.allows_read && init.allows_write && init.allows_atomic);
	assert_int_equal(side_join(&a, &b), ORIEL_OK);
	/* The last to connect was b. */
	command_of(ORI_PRM_INIT2RTR_QP, modify, sizeof(modify));
	assert_int_equal(ori_prm_decode_init2rtr(modify, sizeof(modify), &rtr), ORIEL_OK);
	assert_int_equal(rtr.qpn, b.address.qpn);
	assert_int_equal(rtr.remote_qpn, a.address.qpn);
	assert_int_equal(rtr.receive_psn, a.address.psn);
	assert_int_equal(rtr.mtu, 1024);
	assert_int_equal(rtr.max_rd_atomic, 16);
	assert_int_equal(rtr.path.traffic_class, 106);
	assert_int_equal(rtr.path.service_level, 3);
	assert_int_equal(rtr.path.gid_index, 2);
	assert_int_equal(rtr.path.hop_limit, 255);
	assert_true(rtr.path.udp_source_port >= 0xc000);
	command_of(ORI_PRM_RTR2RTS_QP, modify, sizeof(modify));
	assert_int_equal(ori_prm_decode_rtr2rts(modify, sizeof(modify), &rts), ORIEL_OK);
	assert_int_equal(rts.send_psn, b.address.psn);
	assert_int_equal(rts.ack_timeout, 14);
	assert_int_equal(rts.retry_count, 5);
	assert_int_equal(rts.rnr_retry, 7);
	assert_int_equal(rts.max_rd_atomic, 16);
	unsetenv("ORIEL_IB_TC");
	unsetenv("ORIEL_IB_SL");
	unsetenv("ORIEL_IB_TIMEOUT");
	unsetenv("ORIEL_IB_RETRY");
	side_close(&a);
	side_close(&b);
}

/* A companion increments a counter when a WRITE is complete, with no thread that polls. */
static void companion_counts(struct side *a, struct side *b)
{
	struct side companion = *a, responder = *a;
	uint64_t base = 0, *count = (uint64_t *)(void *)(a->memory + 512);
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;

	side_open_queue(&companion, 2 * RING_DEPTH, true);
	side_open_queue(&responder, 4, false);
	assert_int_equal(side_join(&companion, &responder), ORIEL_OK);
	*count = 0;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(oriel_mlx5_reserve(&companion.queue, 2, &patient, &base),
				 ORIEL_OK);
		oriel_mlx5_wqe_wait(oriel_mlx5_slot(&companion.queue, base),
				    oriel_mlx5_head_of(&companion.queue, base, 0), a->cqn,
				    a->queue.resv);
		oriel_mlx5_wqe_fetch_add(oriel_mlx5_slot(&companion.queue, base + 1),
					 oriel_mlx5_head_of(&companion.queue, base + 1, 0),
					 side_address(a, 512), side_address(a, 4096), 1);
		assert_int_equal(oriel_mlx5_post(&companion.queue, base, 2, &patient), ORIEL_OK);
		usleep(2000);
		assert_int_equal(oriel_dev_load_acquire(count), i);
		assert_int_equal(side_write(a, b, 8192, 65536, 100), ORIEL_OK);
		while (oriel_dev_load_acquire(count) != i + 1) {
			assert_int_equal(oriel_mlx5_health(&companion.queue), ORIEL_OK);
			assert_true(ori_clock_ns() < until);
			sched_yield();
		}
	}
	assert_int_equal(oriel_mlx5_wait(&companion.queue, base + 1, &patient), ORIEL_OK);
	side_close_queue(&companion);
	side_close_queue(&responder);
}

static void test_a_companion_waits(void **state)
{
	static const char *const lacks[] = {"", "master", "stamps", "master,stamps"};
	struct ori_hca_caps caps;
	struct side a, b;

	(void)state;
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		fake5_without(lacks[i]);
		side_open(&a, "=mlx5_0");
		side_open(&b, "=mlx5_1");
		ops()->caps(a.hca, &caps);
		assert_true(caps.has_wait);
		assert_int_equal(side_join(&a, &b), ORIEL_OK);
		companion_counts(&a, &b);
		side_close(&a);
		side_close(&b);
	}
	fake5_without("");
	assert_int_equal(fake5_left(), 0);
}

static void test_cd_master_is_set_if_the_device_accepts_it(void **state)
{
	uint8_t in[ORI_PRM_CREATE_LENGTH];
	struct ori_prm_qp qp;
	struct side a, companion;

	(void)state;
	side_open(&a, "=mlx5_0");
	companion = a;
	side_open_queue(&companion, 8, true);
	command_of(ORI_PRM_CREATE_QP, in, sizeof(in));
	assert_int_equal(ori_prm_decode_create_qp(in, sizeof(in), &qp), ORIEL_OK);
	assert_true(qp.is_companion);
	side_close_queue(&companion);
	side_close(&a);
}

static void assert_tier(const char *lacks, enum ori_mlx5_tier tier, bool is_devx,
			const char *doorbells, unsigned which, const char *why)
{
	struct ori_mlx5_report report;

	fake5_without(lacks);
	assert_report(tier, is_devx, doorbells);
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	if (why && !strstr(report.why[which], why))
		fail_msg("no '%s' in '%s'", why, report.why[which]);
	if (tier < ORI_MLX5_T3)
		assert_pair_works("=mlx5_0", "=mlx5_1");
	fake5_without("");
}

static void test_tiers_are_found_by_trial(void **state)
{
	(void)state;
	assert_tier("", ORI_MLX5_T1, true, "dedicated", ORI_MLX5_T0, "no GPU");
	assert_tier("dedicated", ORI_MLX5_T1, true, "uncached", 0, NULL);
	assert_tier("dedicated,uncached", ORI_MLX5_T1, true, "combining", 0, NULL);
	assert_tier("devx", ORI_MLX5_T3, false, "of verbs", ORI_MLX5_T1,
		    "queues of verbs cannot WAIT");
	assert_tier("oi", ORI_MLX5_T3, false, "of verbs", ORI_MLX5_T2,
		    "queues of verbs cannot WAIT");
	assert_tier("wait", ORI_MLX5_T3, true, "dedicated", ORI_MLX5_T1, "its queues cannot WAIT");
	assert_tier("devx,sizes", ORI_MLX5_T3, false, "of verbs", ORI_MLX5_T1, "QUERY_HCA_CAP");
	assert_tier("odp", ORI_MLX5_T3, false, "", ORI_MLX5_T1, "on-demand paging");
}

#define REGISTERS_AT 0x800u /* offset in a page; registers follow it */

/*
 * Offset in its page of the doorbell of the first queue: a register, or a word
 * that stands for one.
 */
static unsigned first_doorbell(void)
{
	struct side a;
	unsigned found;

	side_open(&a, "=mlx5_0");
	found = (unsigned)((uintptr_t)a.place.doorbell % 4096);
	side_close(&a);
	return found;
}

static void test_a_requested_tier_is_used_or_rejected(void **state)
{
	struct ori_mlx5_report report;
	struct ori_hca *hca;

	(void)state;
	assert_true(first_doorbell() >= REGISTERS_AT);
	setenv("ORIEL_TIER", "t2", 1);
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_int_equal(report.tier, ORI_MLX5_T2);
	assert_true(first_doorbell() < REGISTERS_AT);
	assert_pair_works("=mlx5_0", "=mlx5_1");
	setenv("ORIEL_DEVX", "off", 1);
	assert_pair_works("=mlx5_0", "=mlx5_1");
	unsetenv("ORIEL_DEVX");
	setenv("ORIEL_TIER", "t3", 1);
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_int_equal(report.tier, ORI_MLX5_T3);
	fake5_without("odp");
	setenv("ORIEL_TIER", "t1", 1);
	assert_int_equal(ops()->open("mlx5_0", 0, &hca), ORIEL_ERR_UNSUPPORTED);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_TIER demands t1: mlx5_0:1: no on-dem"));
	fake5_without("");
	unsetenv("ORIEL_TIER");
	assert_int_equal(fake5_left(), 0);
}

static void test_devices_that_are_not_mlx5_are_skipped(void **state)
{
	struct ori_hca_caps caps;
	struct ori_hca *hca;

	(void)state;
	assert_int_equal(ops()->open("", 0, &hca), ORIEL_OK);
	ops()->caps(hca, &caps);
	assert_string_equal(caps.name, "mlx5_0:1");
	assert_string_equal(caps.kind, "mlx5");
	/* Each ring has a doorbell of its own. */
	assert_true(caps.rings && caps.rings->place && !caps.rings->doorbell_page);
	ops()->close(hca);
	assert_int_equal(ops()->open("other0", 0, &hca), ORIEL_ERR_NO_PATH);
	assert_int_equal(ori_hca_verbs()->open("other0", 0, &hca), ORIEL_OK);
	ori_hca_verbs()->close(hca);
	assert_int_equal(fake5_left(), 0);
}

static void test_a_failure_leaks_nothing(void **state)
{
	static const struct {
		const char *call;
		unsigned after;
		int error;
		enum oriel_status status;
	} cases[] = {
		{"CREATE_CQ", 0, ENOMEM, ORIEL_ERR_NOMEM},
		{"CREATE_QP", 0, EREMOTEIO, ORIEL_OK}, /* tried once more without time stamps */
		{"modify_qp", 0, EIO, ORIEL_ERR_SYSTEM},
		{"umem_reg", 0, ENOMEM, ORIEL_ERR_NOMEM},
	};
	struct ori_hca_cq_attr cq = {.depth = 32768, .has_own_ring = true};
	struct ori_hca_qp_attr qp = {.depth = 32768, .has_own_ring = true};
	struct ori_hca_qp_address address;
	struct ori_hca_qp *made;
	struct ori_hca *hca;
	uint32_t cqn;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum oriel_status status;
		int left;

		assert_int_equal(ops()->open("mlx5_0", 0, &hca), ORIEL_OK);
		left = fake5_left();
		fake5_fail(cases[i].call, cases[i].after, cases[i].error);
		status = ops()->create_cq(hca, &cq, &qp.send_cq, &cqn);
		if (status == ORIEL_OK) {
			status = ops()->create_qp(hca, &qp, &made, &address);
			if (status == ORIEL_OK)
				ops()->destroy_qp(made);
			ops()->destroy_cq(qp.send_cq);
		}
		assert_int_equal(status, cases[i].status);
		assert_true(fake5_left() - left <= 2); /* chunks of rings, kept for later queues */
		ops()->close(hca);
		assert_int_equal(fake5_left(), 0);
	}
}

static void test_invalid_attributes_are_rejected(void **state)
{
	struct ori_hca_cq_attr cq = {.depth = 48, .has_own_ring = true};
	struct ori_hca_qp_attr qp = {.depth = 8, .has_own_ring = true};
	struct ori_hca_qp_address address;
	struct ori_hca_cq *called;
	struct ori_hca_qp *made;
	struct ori_hca_wr wr = {0};
	struct ori_hca_wc wc;
	unsigned count;
	uint32_t cqn;
	struct side a;

	(void)state;
	side_open(&a, "mlx5_0");
	assert_int_equal(ops()->create_cq(a.hca, &cq, &called, &cqn), ORIEL_ERR_INVALID);
	cq.depth = 65536;
	assert_int_equal(ops()->create_cq(a.hca, &cq, &called, &cqn), ORIEL_ERR_INVALID);
	cq.depth = 8;
	cq.is_for_gpu = true;
	assert_int_equal(ops()->create_cq(a.hca, &cq, &called, &cqn), ORIEL_ERR_INVALID);
	cq = (struct ori_hca_cq_attr){.depth = 8, .ring = a.memory};
	assert_int_equal(ops()->create_cq(a.hca, &cq, &called, &cqn), ORIEL_ERR_UNSUPPORTED);
	qp.send_cq = a.cq; /* of another depth */
	assert_int_equal(ops()->create_qp(a.hca, &qp, &made, &address), ORIEL_ERR_INVALID);
	qp.depth = RING_DEPTH;
	qp.has_own_ring = false;
	assert_int_equal(ops()->create_qp(a.hca, &qp, &made, &address), ORIEL_ERR_INVALID);
	assert_int_equal(ops()->calls->post(a.qp, &wr, 1, &count), ORIEL_ERR_INVALID);
	assert_int_equal(ops()->calls->post_receives(a.qp, 1), ORIEL_ERR_INVALID);
	assert_int_equal(ops()->calls->poll(a.cq, &wc, 1, &count), ORIEL_ERR_INVALID);
	side_close(&a);
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t1", 1);
	side_open(&a, "mlx5_0");
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
	qp = (struct ori_hca_qp_attr){.depth = RING_DEPTH,
				      .has_own_ring = true,
				      .send_cq = a.cq,
				      .is_companion = true};
	assert_int_equal(ops()->create_qp(a.hca, &qp, &made, &address), ORIEL_ERR_UNSUPPORTED);
	side_close(&a);
	assert_int_equal(fake5_left(), 0);
}

static void test_peers_that_do_not_fit_are_rejected(void **state)
{
	struct ori_hca_qp_address wrong;
	struct side a, b, ib;

	(void)state;
	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_1");
	side_open(&ib, "=mlx5_2");
	assert_int_equal(side_join(&a, &ib), ORIEL_ERR_MISMATCH);
	wrong = b.address;
	wrong.mtu = 1500;
	assert_int_equal(ops()->connect_qp(a.qp, &wrong), ORIEL_ERR_PROTOCOL);
	wrong = b.address;
	wrong.hca_address[8 + 15] ^= 0x40; /* a GID that no port has */
	assert_int_equal(ops()->connect_qp(a.qp, &wrong), ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_IB_GID_INDEX"));
	/* Firmware does not know the MTU that the peer claims. */
	wrong = b.address;
	wrong.mtu = 4096;
	assert_int_equal(ops()->connect_qp(a.qp, &wrong), ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "the firmware rejects INIT2RTR_QP: status 0x3"));
	assert_int_equal(side_join(&a, &b), ORIEL_OK);
	assert_int_equal(ops()->connect_qp(a.qp, &b.address), ORIEL_ERR_STATE);
	side_close(&a);
	side_close(&b);
	side_close(&ib);
	assert_int_equal(fake5_left(), 0);
}

static void await_event(struct ori_hca *hca, struct ori_hca_event *event)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;

	while (ops()->poll_event(hca, event) == ORIEL_AGAIN) {
		assert_true(ori_clock_ns() < until);
		sched_yield();
	}
}

static void errors_are_reported(void)
{
	struct ori_hca_event event;
	struct side a, b;

	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_1");
	assert_int_equal(side_join(&a, &b), ORIEL_OK);
	assert_int_equal(ops()->poll_event(a.hca, &event), ORIEL_AGAIN);
	fake5_break("mlx5_0", a.address.qpn);
	await_event(a.hca, &event);
	assert_int_equal(event.status, ORIEL_ERR_ACCESS);
	assert_int_equal(event.qpn, a.address.qpn);
	b.keys.lkey ^= 0x5500;
	assert_int_equal(side_write(&a, &b, 0, 0, 8), ORIEL_ERR_ACCESS);
	assert_int_equal(oriel_queue_err_syndrome(a.queue.err), ORIEL_SYNDROME_REMOTE_ACCESS);
	await_event(b.hca, &event);
	assert_int_equal(event.qpn, b.address.qpn);
	side_close(&a);
	side_close(&b);
	assert_int_equal(fake5_left(), 0);
}

static void test_a_cqe_and_an_event_report_each_error(void **state)
{
	(void)state;
	errors_are_reported();
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t1", 1);
	errors_are_reported();
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
}

static void queue_fails(void)
{
	struct side a, b;
	uint64_t base = 0;

	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_1");
	/* The peer never answers: posted WQEs stay until the retries end. */
	assert_int_equal(ops()->connect_qp(a.qp, &b.address), ORIEL_OK);
	assert_int_equal(oriel_mlx5_reserve(&a.queue, 1, &patient, &base), ORIEL_OK);
	oriel_mlx5_wqe_write(oriel_mlx5_slot(&a.queue, base), oriel_mlx5_head_of(&a.queue, base, 0),
			     side_address(&b, 0), side_address(&a, 0), 64);
	assert_int_equal(oriel_mlx5_post(&a.queue, base, 1, &patient), ORIEL_OK);
	usleep(5000);
	ops()->fail_qp(a.qp);
	ops()->fail_qp(a.qp);
	assert_true(oriel_mlx5_wait(&a.queue, base, &patient) < 0);
	assert_int_equal(oriel_queue_err_syndrome(a.queue.err), ORIEL_SYNDROME_FLUSHED);
	side_close(&a);
	side_close(&b);
}

static void test_a_failed_queue_is_flushed(void **state)
{
	(void)state;
	queue_fails();
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t1", 1);
	queue_fails();
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
}

/*
 * More than half as many queues as a page has registers, and rings that are
 * created and destroyed.
 */
static void many_queues_work(void)
{
	enum { PAIRS = 140 };
	static struct side of[2 * PAIRS];
	struct side a, b;
	int left = 0;

	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_0");
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < PAIRS; i++) {
			of[2 * i] = a;
			of[2 * i + 1] = b;
			side_open_queue(&of[2 * i], 4, false);
			side_open_queue(&of[2 * i + 1], 4, false);
			assert_int_equal(side_join(&of[2 * i], &of[2 * i + 1]), ORIEL_OK);
			assert_ptr_not_equal(of[2 * i].place.doorbell, a.place.doorbell);
		}
		/* Later rings reuse the chunks of destroyed ones. */
		assert_true(round == 0 || fake5_left() == left);
		left = fake5_left();
		for (unsigned i = 0; i < PAIRS; i++) {
			call_fill(a.memory + 8192, 300, i + round);
			assert_int_equal(side_write(&of[2 * i], &of[2 * i + 1], 8192, 65536, 300),
					 ORIEL_OK);
			assert_memory_equal(a.memory + 8192, b.memory + 65536, 300);
		}
		for (unsigned i = 0; i < 2 * PAIRS; i++)
			side_close_queue(&of[i]);
	}
	side_close(&a);
	side_close(&b);
	assert_int_equal(fake5_left(), 0);
}

static void test_many_queues_share_a_page(void **state)
{
	(void)state;
	many_queues_work();
	setenv("ORIEL_TIER", "t2", 1);
	many_queues_work();
	unsetenv("ORIEL_TIER");
}

static void test_results_of_atomics_are_read_in_the_byte_order_of_the_hca(void **state)
{
	struct ori_hca_caps caps;
	struct side a;

	(void)state;
	side_open(&a, "=mlx5_0");
	ops()->caps(a.hca, &caps);
	assert_true(caps.is_atomic_host_endian);
	side_close(&a);
	setenv("FAKEMLX5_SOFT", "big_endian=1", 1);
	side_open(&a, "=mlx5_0");
	ops()->caps(a.hca, &caps);
	assert_false(caps.is_atomic_host_endian);
	side_close(&a);
	assert_pair_works("=mlx5_0", "=mlx5_1");
	unsetenv("FAKEMLX5_SOFT");
}

/* The same HCA also takes posts by calls. */
static void test_posts_by_calls(void **state)
{
	struct duo d;

	(void)state;
	for (unsigned i = 0; i < CALL_CASES; i++) {
		memset(&d, 0, sizeof(d));
		d.a.ops = d.b.ops = ops();
		assert_int_equal(ops()->open("=mlx5_0", 0, &d.a.hca), ORIEL_OK);
		assert_int_equal(ops()->open("=mlx5_1", 0, &d.b.hca), ORIEL_OK);
		end_open(&d.a, CALL_ALL);
		end_open(&d.b, CALL_ALL);
		duo_join(&d);
		call_cases[i].run(&d);
		end_close(&d.a);
		end_close(&d.b);
		ops()->close(d.a.hca);
		ops()->close(d.b.hca);
		assert_int_equal(fake5_left(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings_by_commands_move_bytes),
		cmocka_unit_test(test_rings_by_verbs_move_bytes),
		cmocka_unit_test(test_sides_of_different_routes_and_tiers_connect),
		cmocka_unit_test(test_infiniband_has_a_grh_where_it_must),
		cmocka_unit_test(test_commands_carry_the_attributes_and_settings),
		cmocka_unit_test(test_a_companion_waits),
		cmocka_unit_test(test_cd_master_is_set_if_the_device_accepts_it),
		cmocka_unit_test(test_tiers_are_found_by_trial),
		cmocka_unit_test(test_a_requested_tier_is_used_or_rejected),
		cmocka_unit_test(test_devices_that_are_not_mlx5_are_skipped),
		cmocka_unit_test(test_a_failure_leaks_nothing),
		cmocka_unit_test(test_invalid_attributes_are_rejected),
		cmocka_unit_test(test_peers_that_do_not_fit_are_rejected),
		cmocka_unit_test(test_a_cqe_and_an_event_report_each_error),
		cmocka_unit_test(test_a_failed_queue_is_flushed),
		cmocka_unit_test(test_many_queues_share_a_page),
		cmocka_unit_test(test_results_of_atomics_are_read_in_the_byte_order_of_the_hca),
		cmocka_unit_test(test_posts_by_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
