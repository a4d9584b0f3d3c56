/* SPDX-License-Identifier: Apache-2.0 */
/* HCAs of InfiniBand over the fake: address vectors, subnets, partitions, ports that come up. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "fakeverbs.h"
#include "hca/call_bench_test.h"

#define ANOTHER_SUBNET UINT64_C(0xfe80000000000002)

/* Opens ports that have these attributes. */
static void duo_start(struct duo *d, const struct fake_ib *a, const struct fake_ib *b)
{
	fake_set_ib(0, a);
	fake_set_ib(1, b);
	end_start(&d->a, ori_hca_verbs(), "=fake0");
	end_start(&d->b, ori_hca_verbs(), "=fake1");
}

static void duo_stop(struct duo *d)
{
	end_stop(&d->a);
	end_stop(&d->b);
	assert_int_equal(fake_left(), 0);
}

/* A WRITE in each direction: what one end sends must suit what the other expects. */
static void assert_works(struct duo *d)
{
	struct ori_hca_wr wr = call_wr(&d->a, &d->b, ORI_HCA_WRITE, 0, 0, 64);

	end_post(&d->a, &wr, 1);
	end_expect(&d->a, 0);
	wr = call_wr(&d->b, &d->a, ORI_HCA_WRITE, 0, 0, 64);
	end_post(&d->b, &wr, 1);
	end_expect(&d->b, 0);
}

/* Joins ports with these attributes; the address vector of the first end. */
static struct ibv_ah_attr assert_joined(const struct fake_ib *a, const struct fake_ib *b)
{
	struct ibv_ah_attr ah;
	struct duo d;

	duo_start(&d, a, b);
	duo_join(&d);
	ah = fake_attr(d.a.address.qpn)->ah_attr;
	assert_works(&d);
	duo_stop(&d);
	return ah;
}

static void assert_no_path(const struct fake_ib *a, const struct fake_ib *b, const char *text)
{
	struct duo d;

	duo_start(&d, a, b);
	assert_int_equal(d.a.ops->connect_qp(d.a.qp, &d.b.address), ORIEL_ERR_NO_PATH);
	if (!strstr(oriel_last_error(), text))
		fail_msg("no '%s' in '%s'", text, oriel_last_error());
	assert_int_equal(d.b.ops->connect_qp(d.b.qp, &d.a.address), ORIEL_ERR_NO_PATH);
	duo_stop(&d);
}

static void test_one_subnet_needs_a_lid_and_no_grh(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	struct ibv_ah_attr ah = assert_joined(&a, &b);

	(void)state;
	assert_int_equal(ah.dlid, 8);
	assert_int_equal(ah.src_path_bits, 0);
	assert_int_equal(ah.is_global, 0);
	a.prefix = b.prefix = ANOTHER_SUBNET;
	assert_int_equal(assert_joined(&a, &b).is_global, 0);
}

static void test_both_ends_have_a_grh_if_one_needs_it(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	struct ibv_ah_attr ah;
	struct duo d;

	(void)state;
	b.demands_grh = true;
	ah = assert_joined(&a, &b);
	assert_int_equal(ah.is_global, 1);
	assert_int_equal(ah.dlid, 8);
	/* ORIEL_IB_GID_INDEX of one rank alone. */
	b.demands_grh = false;
	fake_set_ib(0, &a);
	fake_set_ib(1, &b);
	setenv("ORIEL_IB_GID_INDEX", "0", 1);
	end_start(&d.a, ori_hca_verbs(), "=fake0");
	unsetenv("ORIEL_IB_GID_INDEX");
	end_start(&d.b, ori_hca_verbs(), "=fake1");
	duo_join(&d);
	assert_int_equal(fake_attr(d.b.address.qpn)->ah_attr.is_global, 1);
	assert_works(&d);
	duo_stop(&d);
}

static void test_another_subnet_is_reached_by_its_router(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	struct ibv_ah_attr ah;

	(void)state;
	a.flid = 0x1001;
	b.flid = 0x1002;
	b.prefix = ANOTHER_SUBNET;
	ah = assert_joined(&a, &b);
	assert_int_equal(ah.is_global, 1);
	assert_int_equal(ah.dlid, 0x1002);
	assert_int_equal(ah.grh.sgid_index, 1);
	assert_true(ah.grh.hop_limit > 1);
	/* One subnet with a router, which one of the ports does not know. */
	b.prefix = a.prefix;
	b.flid = 0;
	ah = assert_joined(&a, &b);
	assert_int_equal(ah.is_global, 0);
	assert_int_equal(ah.dlid, 8);
}

static void test_another_subnet_without_a_router_is_no_path(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);

	(void)state;
	b.prefix = ANOTHER_SUBNET;
	assert_no_path(&a, &b, "ORIEL_HCA");
}

static void test_another_partition_is_no_path(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);

	(void)state;
	b.pkeys[0] = 0x8001;
	assert_no_path(&a, &b, "partition");
	/* A limited member reaches full ones only. */
	b.pkeys[0] = 0x7fff;
	assert_joined(&a, &b);
	a.pkeys[0] = 0x7fff;
	assert_no_path(&a, &b, "full member");
	fake_set_ib(0, &a);
	fake_fail("query_pkey", 0, EIO);
	assert_int_equal(ori_hca_verbs()->open("=fake0", 0, &(struct ori_hca *){NULL}),
			 ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "partition key"));
	assert_int_equal(fake_left(), 0);
}

static void test_a_port_without_a_lid_is_no_path(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	struct ori_hca_qp_address wrong;
	struct duo d;

	(void)state;
	duo_start(&d, &a, &b);
	wrong = d.b.address;
	wrong.hca_address[6] = wrong.hca_address[7] = 0;
	assert_int_equal(d.a.ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "subnet manager"));
	wrong.hca_address[7] = 0xc0; /* multicast */
	assert_int_equal(d.a.ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_NO_PATH);
	duo_stop(&d);
}

static void test_infiniband_and_roce_do_not_mix(void **state)
{
	struct fake_ib a = fake_ib_default(0);
	struct duo d;

	(void)state;
	duo_start(&d, &a, NULL);
	assert_int_equal(d.a.ops->connect_qp(d.a.qp, &d.b.address), ORIEL_ERR_MISMATCH);
	assert_int_equal(d.b.ops->connect_qp(d.b.qp, &d.a.address), ORIEL_ERR_MISMATCH);
	duo_stop(&d);
}

static void test_the_port_is_described(void **state)
{
	struct fake_ib a = fake_ib_default(0);
	struct ori_hca_caps caps;
	struct ori_hca *hca;

	(void)state;
	fake_set_ib(0, &a);
	assert_int_equal(ori_hca_verbs()->open("=fake0", 0, &hca), ORIEL_OK);
	ori_hca_verbs()->caps(hca, &caps);
	assert_string_equal(caps.port, "InfiniBand, LID 5, GID 0");
	ori_hca_verbs()->close(hca);
}

static void test_a_port_comes_up_with_its_subnet_manager(void **state)
{
	static const enum ibv_port_state unusable[] = {IBV_PORT_DOWN, IBV_PORT_INIT,
						       IBV_PORT_ARMED};
	static const char *const texts[] = {"fake0:1 is down, ",
					    "fake0:1 is waiting for a subnet manager, ",
					    "fake0:1 is armed, "};
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	char why[88];

	(void)state;
	b.state = IBV_PORT_DOWN;
	fake_set_ib(1, &b);
	for (unsigned i = 0; i < 3; i++) {
		a.state = unusable[i];
		a.lid = a.sm_lid = 0;
		fake_set_ib(0, &a);
		assert_int_equal(ori_hca_verbs_ports(""), 0);
		ori_hca_verbs_lack(1, why, sizeof(why));
		assert_memory_equal(why, texts[i], strlen(texts[i]));
	}
	a = fake_ib_default(0);
	fake_set_ib(0, &a);
	assert_int_equal(ori_hca_verbs_ports(""), 1);
}

/* The state that the next event on @hca has after this one of port 1; AGAIN: it is ignored. */
static enum oriel_status status_after(struct end *e, enum ibv_event_type type)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;
	struct ori_hca_event event;

	fake_report_port(type, e->address.qpn, 1);
	/* Events arrive in order: this one ends the wait if the other one is ignored. */
	fake_report(IBV_EVENT_QP_FATAL, e->address.qpn);
	while (e->ops->poll_event(e->hca, &event) == ORIEL_AGAIN) {
		assert_true(ori_clock_ns() < until);
		sched_yield();
	}
	if (event.qpn)
		return ORIEL_AGAIN;
	assert_non_null(strstr(event.text, "fake0:1"));
	while (e->ops->poll_event(e->hca, &(struct ori_hca_event){0}) == ORIEL_AGAIN)
		assert_true(ori_clock_ns() < until);
	return event.status;
}

static void test_events_matter_if_they_change_what_is_in_use(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	struct duo d;

	(void)state;
	duo_start(&d, &a, &b);
	assert_int_equal(status_after(&d.a, IBV_EVENT_PORT_ACTIVE), ORIEL_AGAIN);
	assert_int_equal(status_after(&d.a, IBV_EVENT_SM_CHANGE), ORIEL_AGAIN);
	assert_int_equal(status_after(&d.a, IBV_EVENT_CLIENT_REREGISTER), ORIEL_AGAIN);
	assert_int_equal(status_after(&d.a, IBV_EVENT_LID_CHANGE), ORIEL_AGAIN);
	assert_int_equal(status_after(&d.a, IBV_EVENT_PKEY_CHANGE), ORIEL_AGAIN);
	assert_int_equal(status_after(&d.a, IBV_EVENT_GID_CHANGE), ORIEL_AGAIN);
	a.pkeys[1] = 0x8002;
	fake_set_ib(0, &a);
	assert_int_equal(status_after(&d.a, IBV_EVENT_PKEY_CHANGE), ORIEL_AGAIN);
	a.pkeys[0] = 0x8002;
	fake_set_ib(0, &a);
	assert_int_equal(status_after(&d.a, IBV_EVENT_PKEY_CHANGE), ORIEL_ERR_NO_PATH);
	a.lid = 6;
	fake_set_ib(0, &a);
	assert_int_equal(status_after(&d.a, IBV_EVENT_LID_CHANGE), ORIEL_ERR_NO_PATH);
	a.prefix = ANOTHER_SUBNET;
	fake_set_ib(0, &a);
	assert_int_equal(status_after(&d.a, IBV_EVENT_GID_CHANGE), ORIEL_ERR_NO_PATH);
	assert_int_equal(status_after(&d.a, IBV_EVENT_PORT_ERR), ORIEL_ERR_NO_PATH);
	duo_stop(&d);
}

/* Requests wait for a port, as long as the NIC tries again, and arrive when it is back. */
static void test_a_connection_survives_a_short_absence_of_its_port(void **state)
{
	struct fake_ib a = fake_ib_default(0), b = fake_ib_default(1);
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	unsigned count;
	struct duo d;

	(void)state;
	duo_start(&d, &a, &b);
	duo_join(&d);
	b.state = IBV_PORT_INIT;
	fake_set_ib(1, &b);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
	end_post(&d.a, &wr, 1);
	assert_int_equal(d.a.ops->calls->poll(d.a.cq, &wc, 1, &count), ORIEL_OK);
	assert_int_equal(count, 0);
	b.state = IBV_PORT_ACTIVE;
	fake_set_ib(1, &b);
	end_expect(&d.a, 0);
	duo_stop(&d);
	/* With another LID packets go astray; queues that are made now work. */
	duo_start(&d, &a, &b);
	duo_join(&d);
	b.lid = 16;
	fake_set_ib(1, &b);
	end_post(&d.a, &wr, 1);
	end_next(&d.a, &wc);
	assert_int_equal(wc.syndrome, ORIEL_SYNDROME_RETRY_EXCEEDED);
	duo_stop(&d);
	assert_int_equal(assert_joined(&a, &b).dlid, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_subnet_needs_a_lid_and_no_grh),
		cmocka_unit_test(test_both_ends_have_a_grh_if_one_needs_it),
		cmocka_unit_test(test_another_subnet_is_reached_by_its_router),
		cmocka_unit_test(test_another_subnet_without_a_router_is_no_path),
		cmocka_unit_test(test_another_partition_is_no_path),
		cmocka_unit_test(test_a_port_without_a_lid_is_no_path),
		cmocka_unit_test(test_infiniband_and_roce_do_not_mix),
		cmocka_unit_test(test_the_port_is_described),
		cmocka_unit_test(test_a_port_comes_up_with_its_subnet_manager),
		cmocka_unit_test(test_events_matter_if_they_change_what_is_in_use),
		cmocka_unit_test(test_a_connection_survives_a_short_absence_of_its_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
