/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contracts of real HCAs that the fake keeps, each by the public source that it names: what
 * a queue may rely on, and what the library does where a device has less.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fakemlx5.h"
#include "hca/call_bench_test.h"
#include "hca/mlx5/mlx5.h"
#include "hca/mlx5/ring_place_test.h"

#define DEPTH 16u
#define LENGTH 65536u
#define SOURCE 8192u
#define TARGET 32768u

static const struct ori_dev_link_wait_limits patient = {NULL, CALL_PATIENCE_NS, 1, 0};
static const struct ori_dev_link_wait_limits hasty = {NULL, 300000000, 1, 0};

/* A queue pair that is connected to itself. */
struct queue {
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	_Alignas(128) struct ori_dev_mlx5_queue q;
};

struct nic {
	struct ori_hca *hca;
	struct ori_hca_caps caps;
	char *memory;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
};

static const struct ori_hca_ops *ops(void)
{
	return ori_hca_mlx5();
}

static void nic_open(struct nic *n)
{
	if (ops()->open("=mlx5_0", 0, &n->hca) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	ops()->caps(n->hca, &n->caps);
	n->memory = aligned_alloc(4096, LENGTH);
	memset(n->memory, 0, LENGTH);
	assert_int_equal(ops()->register_memory(n->hca, n->memory, LENGTH, 0, CALL_ALL, &n->mr,
						&n->keys),
			 ORIEL_OK);
}

static void nic_close(struct nic *n)
{
	ops()->unregister_memory(n->mr);
	ops()->close(n->hca);
	free(n->memory);
	assert_int_equal(fake5_left(), 0);
}

static void queue_open(struct queue *k, const struct nic *n)
{
	struct ori_hca_cq_attr cq = {.depth = DEPTH, .has_own_ring = true};
	struct ori_hca_qp_attr qp = {.depth = DEPTH, .has_own_ring = true};
	uint32_t cqn;

	memset(k, 0, sizeof(*k));
	if (ops()->create_cq(n->hca, &cq, &k->cq, &cqn) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	qp.send_cq = k->cq;
	if (ops()->create_qp(n->hca, &qp, &k->qp, &k->address) != ORIEL_OK ||
	    ops()->connect_qp(k->qp, &k->address) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	ring_place(&k->q, &n->caps, k->qp, k->address.qpn, cqn, DEPTH);
}

static void queue_close(struct queue *k)
{
	ops()->destroy_qp(k->qp);
	ops()->destroy_cq(k->cq);
}

/* WRITE of 100 bytes from @source, which @lkey names, into the registered memory. */
static enum oriel_status queue_write(struct queue *k, const struct nic *n,
				     struct ori_dev_rdma_address source,
				     const struct ori_dev_link_wait_limits *limits)
{
	enum oriel_status status;
	uint64_t base = 0;

	assert_int_equal(ori_dev_mlx5_reserve(&k->q, 1, limits, &base), ORIEL_OK);
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&k->q, base),
			       ori_dev_mlx5_head_of(&k->q, base, ORIEL_MLX5_FENCE_NONE),
			       (struct ori_dev_rdma_address){TARGET, n->keys.rkey}, source, 100);
	status = ori_dev_mlx5_post(&k->q, base, 1, limits);
	return status == ORIEL_OK ? ori_dev_mlx5_wait(&k->q, base, limits) : status;
}

static void assert_moves(struct queue *k, const struct nic *n, unsigned seed)
{
	const struct ori_dev_rdma_address source = {SOURCE, n->keys.lkey};

	call_fill(n->memory + SOURCE, 100, seed);
	assert_int_equal(queue_write(k, n, source, &patient), ORIEL_OK);
	assert_memory_equal(n->memory + SOURCE, n->memory + TARGET, 100);
}

/* Four of a page, 0x100 apart. */
static void assert_is_register(const uint64_t *doorbell)
{
	unsigned at = (unsigned)((uintptr_t)doorbell % 4096);

	assert_true(at >= 0x800 && at < 0xc00);
	assert_int_equal(at % 0x100, 0);
}

static void test_queues_ring_at_the_beginning_of_registers(void **state)
{
	enum { QUEUES = 9 };
	static struct queue of[QUEUES];
	uint64_t stray = fake5_counters().stray;
	struct nic n;

	(void)state;
	nic_open(&n);
	for (unsigned i = 0; i < QUEUES; i++) {
		queue_open(&of[i], &n);
		assert_is_register(of[i].q.doorbell);
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(of[i].q.doorbell, of[k].q.doorbell);
		assert_moves(&of[i], &n, i);
	}
	assert_int_equal(fake5_counters().stray, stray);
	for (unsigned i = 0; i < QUEUES; i++)
		queue_close(&of[i]);
	nic_close(&n);
}

/* Also the words beside a register, which an earlier version of the library used. */
static void test_a_store_beside_a_register_rings_nothing(void **state)
{
	uint64_t stray = fake5_counters().stray;
	struct ori_dev_rdma_address source;
	struct queue k;
	struct nic n;

	(void)state;
	nic_open(&n);
	queue_open(&k, &n);
	source = (struct ori_dev_rdma_address){SOURCE, n.keys.lkey};
	k.q.doorbell++;
	assert_int_equal(queue_write(&k, &n, source, &hasty), ORIEL_ERR_TIMEOUT);
	assert_int_equal(fake5_counters().stray, stray + 1);
	queue_close(&k);
	nic_close(&n);
}

static void await_event(const struct nic *n, uint32_t qpn)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;
	struct ori_hca_event event;

	while (ops()->poll_event(n->hca, &event) == ORIEL_AGAIN) {
		assert_true(ori_clock_ns() < until);
		sched_yield();
	}
	assert_int_equal(event.qpn, qpn);
}

static void count_missing_events(void *context, enum oriel_log_level level, const char *message)
{
	unsigned *reported = context;

	(void)level;
	/* Threads of the software HCA log, too. */
	if (strstr(message, "does not report events"))
		(*reported)++;
}

/*
 * The other types are still reported: that of fake5_break() is 5. @times: for each device that
 * is open the log names once, however many queues it makes, what is missing.
 */
static void queues_work_without(const char *lacks, bool is_reported, unsigned times)
{
	struct ori_hca_event event;
	struct queue k, another;
	unsigned reported = 0;
	struct nic n;

	fake5_without(lacks);
	setenv("ORIEL_LOG", "debug", 1);
	oriel_log_set_sink(count_missing_events, &reported);
	nic_open(&n);
	queue_open(&another, &n);
	queue_close(&another);
	assert_string_equal(n.caps.tier, "T1");
	assert_true(n.caps.has_wait);
	queue_open(&k, &n);
	assert_moves(&k, &n, 1);
	fake5_break("mlx5_0", k.address.qpn);
	if (is_reported) {
		await_event(&n, k.address.qpn);
	} else {
		usleep(2000);
		assert_int_equal(ops()->poll_event(n.hca, &event), ORIEL_AGAIN);
	}
	assert_int_equal(reported, times);
	oriel_log_set_sink(NULL, NULL);
	unsetenv("ORIEL_LOG");
	queue_close(&k);
	nic_close(&n);
	fake5_without("");
}

static void test_queues_work_where_events_are_refused(void **state)
{
	(void)state;
	queues_work_without("", true, 0);
	queues_work_without("event_05", false, 1);
	queues_work_without("event_07", true, 1);
	queues_work_without("event_10", true, 1);
	queues_work_without("event_11", true, 1);
	queues_work_without("event_07,event_10,event_11", true, 3);
	queues_work_without("event_05,event_07,event_10,event_11", false, 4);
	queues_work_without("events", false, 1);
}

static void test_a_queue_of_devx_without_memory_faults_reaches_registered_memory(void **state)
{
	uint64_t stalled = fake5_counters().stalled;
	struct ori_mlx5_report report;
	struct queue k;
	struct nic n;

	(void)state;
	nic_open(&n);
	assert_true(n.caps.reaches_all);
	nic_close(&n);
	/* Rings of threads, which register what they name; job.cmake has windows of them. */
	fake5_without("faults");
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_int_equal(report.tier, ORI_MLX5_T1);
	nic_open(&n);
	assert_false(n.caps.reaches_all);
	queue_open(&k, &n);
	assert_moves(&k, &n, 7);
	assert_int_equal(fake5_counters().stalled, stalled);
	queue_close(&k);
	nic_close(&n);
	/* Queues of verbs are the kernel's. */
	setenv("ORIEL_TIER", "t1", 1);
	setenv("ORIEL_DEVX", "off", 1);
	nic_open(&n);
	assert_true(n.caps.reaches_all);
	nic_close(&n);
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
	fake5_without("");
}

/* Here a request names the key of all memory, as the library does not. */
static void test_a_page_fault_of_a_devx_queue_stalls_it(void **state)
{
	uint64_t stalled = fake5_counters().stalled;
	struct ori_hca_keys keys;
	struct ori_hca_mr *mr;
	struct queue k;
	struct nic n;

	(void)state;
	setenv("ORIEL_TIER", "t1", 1);
	for (unsigned i = 0; i < 2; i++) {
		struct ori_dev_rdma_address source;

		fake5_without(i ? "faults" : "");
		nic_open(&n);
		assert_int_equal(ops()->register_memory(n.hca, NULL, 0, 0,
							ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY,
							&mr, &keys),
				 ORIEL_OK);
		source = (struct ori_dev_rdma_address){(uintptr_t)n.memory, keys.lkey};
		queue_open(&k, &n);
		assert_int_equal(queue_write(&k, &n, source, &hasty),
				 i ? ORIEL_ERR_TIMEOUT : ORIEL_OK);
		assert_int_equal(fake5_counters().stalled, stalled + i);
		ops()->unregister_memory(mr);
		queue_close(&k);
		nic_close(&n);
	}
	unsetenv("ORIEL_TIER");
	fake5_without("");
}

static void test_a_tier_whose_doorbells_ring_nothing_is_not_chosen(void **state)
{
	struct ori_mlx5_report report;

	(void)state;
	fake5_without("doorbells");
	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_int_equal(report.tier, ORI_MLX5_T3);
	assert_false(report.is_devx);
	assert_int_equal(fake5_left(), 0);
	fake5_without("");
}

/*
 * dp_ordering of the context (Linux mlx5_ifc.h; UCX, uct_ib_mlx5_devx_set_qpc_dp_ordering()) says
 * what a queue does; without it joined ports are several paths (UCX,
 * uct_ib_mlx5_devx_query_lag()).
 */
static void test_the_order_of_the_network_is_what_the_firmware_says(void **state)
{
	static const struct {
		const char *without;
		enum ori_hca_order order;
	} cases[] = {
		{"", ORI_HCA_ORDER_UNKNOWN},
		{"order", ORI_HCA_REORDERED},
		{"order,one_path", ORI_HCA_REORDERED},
		{"default_order", ORI_HCA_ORDERED},
		{"default_order,one_path", ORI_HCA_ORDERED},
		{"one_path", ORI_HCA_ORDER_MULTIPATH},
		{"contexts", ORI_HCA_ORDER_UNKNOWN},
		{"contexts,order,one_path", ORI_HCA_ORDER_MULTIPATH},
		{"devx,order,one_path", ORI_HCA_ORDER_UNKNOWN},
	};
	struct nic n;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake5_without(cases[i].without);
		nic_open(&n);
		assert_int_equal(n.caps.order, cases[i].order);
		nic_close(&n);
	}
	fake5_without("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queues_ring_at_the_beginning_of_registers),
		cmocka_unit_test(test_a_store_beside_a_register_rings_nothing),
		cmocka_unit_test(test_queues_work_where_events_are_refused),
		cmocka_unit_test(
			test_a_queue_of_devx_without_memory_faults_reaches_registered_memory),
		cmocka_unit_test(test_a_page_fault_of_a_devx_queue_stalls_it),
		cmocka_unit_test(test_a_tier_whose_doorbells_ring_nothing_is_not_chosen),
		cmocka_unit_test(test_the_order_of_the_network_is_what_the_firmware_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
