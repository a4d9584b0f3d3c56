/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation of the queues of ConnectX HCAs over the fake: the attributes that commands carry,
 * the tiers, and what is rejected.
 */
#include <errno.h>

#include "mlx5_side.h"

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
	assert_tier("master", ORI_MLX5_T1, true, "dedicated", 0, NULL);
	assert_tier("master,plain_wait", ORI_MLX5_T3, true, "dedicated", ORI_MLX5_T1,
		    "a WAIT and a FETCH_ADD of a companion do not complete");
	assert_tier("odp", ORI_MLX5_T3, false, "", ORI_MLX5_T1, "on-demand paging");
}

/* The reason against queues by commands comes before what queues of verbs lack. */
static void test_the_report_says_why_commands_fail(void **state)
{
	struct ori_mlx5_report report;

	(void)state;
	fake5_without("doorbells");
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	for (unsigned t = ORI_MLX5_T1; t <= ORI_MLX5_T2; t++)
		if (!strstr(report.why[t], "do not complete: ") ||
		    !strstr(report.why[t], "; queues of verbs cannot WAIT"))
			fail_msg("%s", report.why[t]);
	fake5_without("");
}

static void test_queues_by_commands_can_be_demanded(void **state)
{
	static const char *const lacks[][2] = {
		{"devx", "on): mlx5_0:1: "},
		{"doorbells", "do not complete"},
		{"wait", "its queues cannot WAIT"},
		{"odp", "on-demand paging"},
	};
	struct ori_mlx5_report report;
	struct ori_hca *hca;

	(void)state;
	setenv("ORIEL_DEVX", "on", 1);
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_true(report.is_devx);
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		fake5_without(lacks[i][0]);
		assert_int_equal(ops()->open("mlx5_0", 0, &hca), ORIEL_ERR_UNSUPPORTED);
		if (!strstr(oriel_last_error(), "ORIEL_DEVX demands queues by commands") ||
		    !strstr(oriel_last_error(), lacks[i][1]))
			fail_msg("%s", oriel_last_error());
	}
	/* A demanded tier does without WAIT, but not without commands. */
	setenv("ORIEL_TIER", "t1", 1);
	fake5_without("wait");
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_true(report.is_devx && report.tier == ORI_MLX5_T1);
	fake5_without("doorbells");
	assert_int_equal(ops()->open("mlx5_0", 0, &hca), ORIEL_ERR_UNSUPPORTED);
	fake5_without("");
	unsetenv("ORIEL_TIER");
	unsetenv("ORIEL_DEVX");
	assert_int_equal(fake5_left(), 0);
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
	found = (unsigned)((uintptr_t)a.queue.doorbell % 4096);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infiniband_has_a_grh_where_it_must),
		cmocka_unit_test(test_commands_carry_the_attributes_and_settings),
		cmocka_unit_test(test_cd_master_is_set_if_the_device_accepts_it),
		cmocka_unit_test(test_tiers_are_found_by_trial),
		cmocka_unit_test(test_the_report_says_why_commands_fail),
		cmocka_unit_test(test_queues_by_commands_can_be_demanded),
		cmocka_unit_test(test_a_requested_tier_is_used_or_rejected),
		cmocka_unit_test(test_devices_that_are_not_mlx5_are_skipped),
		cmocka_unit_test(test_a_failure_leaks_nothing),
		cmocka_unit_test(test_invalid_attributes_are_rejected),
		cmocka_unit_test(test_peers_that_do_not_fit_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
