/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoints that a communicator keeps. Ranks are threads, on virtual nodes by pairs. */
#include <oriel/oriel.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/links.h"
#include "p2p/p2p.h"

#define RANKS 4u
#define LENGTH 50000u
#define TIMEOUT_NS UINT64_C(60000000000)

struct rank {
	pthread_t thread;
	struct oriel_local_job *job;
	unsigned number;
	bool (*body)(struct rank *r, struct oriel_comm *comm);
	bool is_well;
	char text[300];
	struct oriel_p2p_request requests[RANKS][4];
	struct oriel_p2p_request pairs[RANKS][3][2];
	char data[RANKS][2][LENGTH], words[RANKS][2][32];
};

static struct rank ranks[RANKS];
static uint64_t timeout_ns = TIMEOUT_NS;

/* cmocka's checks are for its own thread. */
#define MUST(claim)                                                                        \
	do {                                                                               \
		if (!(claim)) {                                                            \
			snprintf(r->text, sizeof(r->text), "rank %u, line %d: %s: %.100s", \
				 r->number, __LINE__, #claim, oriel_last_error());         \
			return false;                                                      \
		}                                                                          \
	} while (0)

static bool rank_run(struct rank *r)
{
	struct oriel_bootstrap b;
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = timeout_ns};
	struct oriel_comm *comm;
	char node[16], before[300];
	bool is_well;

	snprintf(node, sizeof(node), "node%u", r->number / 2);
	attr.node = node;
	MUST(oriel_bootstrap_open_local(r->job, r->number, &b) == ORIEL_OK);
	MUST(oriel_comm_create(&b, &attr, &comm) == ORIEL_OK);
	is_well = r->body(r, comm);
	snprintf(before, sizeof(before), "%s", oriel_last_error());
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&b);
	/* A rank whose communicator is closed first is still found. */
	MUST(!is_well || strcmp(before, oriel_last_error()) == 0);
	return is_well;
}

static void *rank_main(void *argument)
{
	struct rank *r = argument;

	r->is_well = rank_run(r);
	return NULL;
}

static void all_ranks(bool (*body)(struct rank *r, struct oriel_comm *comm))
{
	struct oriel_local_job *job;

	assert_int_equal(oriel_local_job_create(RANKS, &job), ORIEL_OK);
	for (unsigned i = 0; i < RANKS; i++) {
		ranks[i] = (struct rank){.job = job, .number = i, .body = body};
		assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
	}
	for (unsigned i = 0; i < RANKS; i++)
		assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
	oriel_local_job_destroy(job);
	for (unsigned i = 0; i < RANKS; i++)
		if (!ranks[i].is_well)
			fail_msg("%s", ranks[i].text);
}

static struct oriel_p2p_buffer buffer(char *at)
{
	struct oriel_p2p_buffer b = {at, LENGTH, NULL};

	return b;
}

/*
 * Each rank begins with every other, in an order of its own; then all of it advances
 * together.
 */
static bool each_rank_with_each(struct rank *r, struct oriel_comm *comm)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .channels = 3};
	struct oriel_p2p *endpoints[RANKS], *again;
	enum oriel_path path;
	struct oriel_p2p_info info = {.size = sizeof(info)};

	for (unsigned i = 0; i < RANKS; i++) {
		unsigned peer = r->number % 2 ? (RANKS - i) % RANKS : (r->number + i) % RANKS;
		struct oriel_p2p_request *q = r->requests[peer];
		struct oriel_p2p_buffer out = buffer(r->data[peer][0]),
					in = buffer(r->data[peer][1]);

		memset(out.address, (int)(r->number * RANKS + peer), LENGTH);
		snprintf(r->words[peer][0], 32, "%u to %u", r->number, peer);
		MUST(oriel_comm_p2p(comm, peer, &attr, &endpoints[peer]) == ORIEL_OK);
		MUST(oriel_comm_p2p(comm, peer, &attr, &again) == ORIEL_OK);
		MUST(again == endpoints[peer]);
		MUST(oriel_p2p_recv(endpoints[peer], 2, &in, &q[0]) == ORIEL_OK);
		MUST(oriel_p2p_send(endpoints[peer], 2, &out, &q[1]) == ORIEL_OK);
		MUST(oriel_p2p_send_control(endpoints[peer], 1, r->words[peer][0], 32, &q[2]) ==
		     ORIEL_OK);
		MUST(oriel_p2p_recv_control(endpoints[peer], 1, r->words[peer][1], 32, &q[3]) ==
		     ORIEL_OK);
	}
	for (unsigned left = RANKS * 4, turns = 0; left; turns++) {
		left = 0;
		for (unsigned i = 0; i < RANKS * 4; i++) {
			enum oriel_status status =
				oriel_p2p_test(endpoints[i / 4], &r->requests[i / 4][i % 4]);

			MUST(status == ORIEL_OK || status == ORIEL_AGAIN);
			left += status == ORIEL_AGAIN;
		}
	}
	for (unsigned peer = 0; peer < RANKS; peer++) {
		char word[32];

		snprintf(word, sizeof(word), "%u to %u", peer, r->number);
		MUST(strcmp(word, r->words[peer][1]) == 0);
		for (unsigned i = 0; i < LENGTH; i++)
			MUST(r->data[peer][1][i] == (char)(peer * RANKS + r->number));
		MUST(oriel_comm_path(comm, peer, &path) == ORIEL_OK);
		MUST(oriel_p2p_describe(endpoints[peer], &info) == ORIEL_OK);
		MUST(info.path == path && info.channels == 3);
		for (unsigned other = 0; other < peer; other++)
			MUST(endpoints[other] != endpoints[peer]);
		MUST(oriel_p2p_drain(endpoints[peer], 0) == ORIEL_OK);
	}
	oriel_p2p_destroy(endpoints[0]);
	MUST(oriel_last_status() == ORIEL_ERR_STATE);
	return true;
}

static void test_ranks_meet_in_any_order(void **state)
{
	(void)state;
	all_ranks(each_rank_with_each);
}

/*
 * Ranks 0 and 1, by memory, and 0 and 2, by rdma: one of them asks for zero_copy, the
 * other not.
 */
static bool modes_that_clash(struct rank *r, struct oriel_comm *comm)
{
	const struct oriel_p2p_attr zero = {.size = sizeof(zero), .mode = ORIEL_P2P_ZERO_COPY};
	struct oriel_p2p *endpoints[2], *q;
	unsigned count = r->number == 3 ? 0 : r->number ? 1 : 2;
	struct oriel_p2p_context *ctx;

	for (unsigned i = 0; i < count; i++) {
		unsigned peer = r->number ? 0 : i + 1;

		MUST(oriel_comm_p2p(comm, peer, r->number ? NULL : &zero, &endpoints[i]) ==
		     ORIEL_OK);
		MUST(oriel_p2p_recv_control(endpoints[i], 0, r->data, 1, &r->requests[i][0]) ==
		     ORIEL_OK);
	}
	for (unsigned i = 0; i < count; i++) {
		unsigned peer = r->number ? 0 : i + 1;

		while (oriel_p2p_test(endpoints[i], &r->requests[i][0]) == ORIEL_AGAIN) {
			MUST(oriel_p2p_progress(endpoints[count - 1 - i]) != ORIEL_ERR_TIMEOUT);
			usleep(1000); /* seconds of it */
		}
		MUST(r->requests[i][0].status == ORIEL_ERR_MISMATCH);
		MUST(oriel_p2p_check(endpoints[i]) == ORIEL_ERR_MISMATCH);
		MUST(strstr(oriel_last_error(), "zero_copy") && strstr(oriel_last_error(), "auto"));
		/* The status and the endpoint stay the same. */
		MUST(oriel_comm_p2p(comm, peer, r->number ? NULL : &zero, &q) == ORIEL_OK);
		MUST(q == endpoints[i] && oriel_p2p_check(q) == ORIEL_ERR_MISMATCH);
	}
	MUST(oriel_comm_p2p(comm, RANKS, NULL, &q) == ORIEL_ERR_RANGE);
	MUST(oriel_comm_p2p_context(comm, &ctx) == ORIEL_OK);
	return true;
}

static void test_both_ranks_report_modes_that_clash(void **state)
{
	(void)state;
	/*
	 * Half of it until one rank reports the clash, and half for the other to receive
	 * that.
	 */
	timeout_ns = UINT64_C(12000000000);
	all_ranks(modes_that_clash);
	timeout_ns = TIMEOUT_NS;
}

/*
 * Endpoints of all modes with every rank, created in orders that differ: each mode has its
 * own.
 */
static bool every_mode_has_an_endpoint(struct rank *r, struct oriel_comm *comm)
{
	struct oriel_p2p *endpoints[RANKS][3], *again;
	char words[RANKS][3][2];

	for (unsigned i = 0; i < RANKS * 3; i++) {
		unsigned which = r->number % 2 ? RANKS * 3 - 1 - i : i;
		unsigned peer = which / 3, mode = which % 3;
		struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};
		struct oriel_p2p_request *q;

		MUST(oriel_comm_p2p(comm, peer, &attr, &endpoints[peer][mode]) == ORIEL_OK);
		MUST(oriel_comm_p2p(comm, peer, &attr, &again) == ORIEL_OK);
		MUST(again == endpoints[peer][mode]);
		attr.channels = 3;
		MUST(oriel_comm_p2p(comm, peer, &attr, &again) == ORIEL_ERR_MISMATCH);
		MUST(strstr(oriel_last_error(), oriel_p2p_mode_name(mode)));
		words[peer][mode][0] = (char)(r->number * 3 + mode);
		q = r->pairs[peer][mode];
		MUST(oriel_p2p_send_control(endpoints[peer][mode], 0, &words[peer][mode][0], 1,
					    &q[0]) == ORIEL_OK);
		MUST(oriel_p2p_recv_control(endpoints[peer][mode], 0, &words[peer][mode][1], 1,
					    &q[1]) == ORIEL_OK);
	}
	for (unsigned left = 1; left;) {
		left = 0;
		for (unsigned i = 0; i < RANKS * 6; i++) {
			enum oriel_status status =
				oriel_p2p_test(endpoints[i / 6][i / 2 % 3],
					       &r->pairs[i / 6][i / 2 % 3][i % 2]);

			MUST(status == ORIEL_OK || status == ORIEL_AGAIN);
			left += status == ORIEL_AGAIN;
		}
	}
	for (unsigned peer = 0; peer < RANKS; peer++) {
		MUST(endpoints[peer][0] != endpoints[peer][1] &&
		     endpoints[peer][1] != endpoints[peer][2]);
		for (unsigned mode = 0; mode < 3; mode++) {
			MUST(words[peer][mode][1] == (char)(peer * 3 + mode));
			MUST(oriel_p2p_drain(endpoints[peer][mode], 0) == ORIEL_OK);
		}
	}
	return true;
}

static void test_every_mode_has_an_endpoint(void **state)
{
	(void)state;
	all_ranks(every_mode_has_an_endpoint);
}

/*
 * One of two ranks asks for the endpoint, and never uses it: its waits end with its own
 * timeout, the missing rank is named, and the endpoint goes with the communicator.
 */
static bool unanswered(struct rank *r, struct oriel_comm *comm)
{
	struct oriel_p2p *p2p;

	if (r->number == 1)
		return true;
	for (unsigned peer = 0; peer < RANKS; peer++) {
		MUST(oriel_comm_p2p(comm, peer, NULL, &p2p) == ORIEL_OK);
		MUST(oriel_p2p_recv_control(p2p, 0, r->data, 1, &r->requests[peer][0]) == ORIEL_OK);
		MUST(oriel_p2p_progress(p2p) == ORIEL_OK);
		if (peer != 1)
			continue;
		MUST(oriel_p2p_wait(p2p, &r->requests[peer][0], 1000000) == ORIEL_ERR_TIMEOUT);
		MUST(strstr(oriel_last_error(),
			    "the control message of tag 0 from rank 1, process "));
	}
	return true;
}

static void test_endpoints_without_a_peer_end_with_the_communicator(void **state)
{
	(void)state;
	all_ranks(unanswered);
	for (unsigned i = 0; i < RANKS; i++)
		for (unsigned k = 0; k < RANKS && i != 1; k++)
			assert_int_equal(ranks[i].requests[k][0].status, ORIEL_ERR_ABORTED);
}

/* The memory would outlive its context: no rank gets as far as the others. */
static bool memory_is_forgotten(struct rank *r, struct oriel_comm *comm)
{
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .hooks = oriel_p2p_copy_group_hooks()};
	struct oriel_p2p_copy_group *group;
	struct oriel_p2p_memory *memory;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *p2p;

	MUST(oriel_comm_p2p_context(comm, &ctx) == ORIEL_OK);
	MUST(oriel_p2p_register(ctx, r->data, sizeof(r->data), 0, &memory) == ORIEL_OK);
	MUST(oriel_comm_destroy(comm) == ORIEL_ERR_STATE);
	MUST(strstr(oriel_last_error(), "still has its registered memory"));
	MUST(oriel_p2p_copy_group_create(ctx, NULL, &group) == ORIEL_OK);
	attr.context = group;
	MUST(oriel_comm_p2p(comm, r->number, &attr, &p2p) == ORIEL_ERR_INVALID);
	MUST(oriel_p2p_copy_group_destroy(group) == ORIEL_OK);
	MUST(oriel_comm_barrier(comm) == ORIEL_OK);
	oriel_p2p_unregister(memory);
	return true;
}

static void test_memory_is_unregistered_before_the_communicator(void **state)
{
	(void)state;
	all_ranks(memory_is_forgotten);
}

/* A queue of the context's NIC that is no link's, and fails: its communicator lives on. */
static bool queue_fails(struct rank *r, struct ori_rdma *rdma)
{
	const struct ori_hca_ops *ops = ori_rdma_ops(rdma);
	struct ori_hca *hca = ori_rdma_hca(rdma, 0);
	const struct ori_hca_cq_attr cq_attr = {.depth = 4};
	const struct ori_hca_wr bad = {.rkey = 0xdead00,
				       .length = 1,
				       .data = r->words,
				       .opcode = ORI_HCA_WRITE,
				       .flags = ORI_HCA_SIGNALED};
	struct ori_hca_qp_address addresses[2];
	struct ori_hca_qp_attr attr = {.depth = 4};
	struct ori_hca_qp *qps[2];
	struct ori_hca_wc wc;
	unsigned count = 0;
	uint32_t cqn;

	MUST(ops->create_cq(hca, &cq_attr, &attr.send_cq, &cqn) == ORIEL_OK);
	attr.receive_cq = attr.send_cq;
	for (unsigned i = 0; i < 2; i++)
		MUST(ops->create_qp(hca, &attr, &qps[i], &addresses[i]) == ORIEL_OK);
	for (unsigned i = 0; i < 2; i++)
		MUST(ops->connect_qp(qps[i], &addresses[!i]) == ORIEL_OK);
	MUST(ops->calls->post(qps[0], &bad, 1, &count) == ORIEL_OK && count == 1);
	for (count = 0; !count;)
		MUST(ops->calls->poll(attr.send_cq, &wc, 1, &count) == ORIEL_OK);
	MUST(wc.status == ORIEL_ERR_ACCESS);
	/* The watcher sees the event. */
	usleep(300000);
	for (unsigned i = 0; i < 2; i++)
		ops->destroy_qp(qps[i]);
	ops->destroy_cq(attr.send_cq);
	return true;
}

/*
 * A communicator and its endpoints have one rdma context, with all rails; what a window has
 * registered serves p2p, and the rail of an endpoint is that of the link to the rank.
 */
static bool one_rdma_context(struct rank *r, struct oriel_comm *comm)
{
	char *memory = aligned_alloc(4096, 65536), word[2] = {(char)r->number, 0};
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .buffer = memory,
					       .length = 65536};
	unsigned peer = (r->number + 2) % RANKS;
	struct oriel_p2p_memory *inside, *beside;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p_request q[2];
	struct oriel_window *window;
	struct oriel_p2p *p2p;

	MUST(memory && oriel_window_create(comm, &attr, &window) == ORIEL_OK);
	MUST(oriel_comm_p2p_context(comm, &ctx) == ORIEL_OK);
	MUST(oriel_comm_p2p(comm, peer, NULL, &p2p) == ORIEL_OK);
	MUST(oriel_p2p_register(ctx, memory + 5000, 100, 0, &inside) == ORIEL_OK);
	MUST(oriel_p2p_send_control(p2p, 0, &word[0], 1, &q[0]) == ORIEL_OK);
	MUST(oriel_p2p_recv_control(p2p, 0, &word[1], 1, &q[1]) == ORIEL_OK);
	for (unsigned i = 0; i < 2; i++)
		MUST(oriel_p2p_wait(p2p, &q[i], 0) == ORIEL_OK);
	MUST(word[1] == (char)peer);
	MUST(ctx->rdma == comm->rdma && ori_rdma_rails(ctx->rdma) == 2);
	MUST(p2p->rail == ori_links_rail(comm, peer));
	/* One registration has one key, and the window's is for all of its memory. */
	MUST(ori_rdma_serves(ctx->rdma, memory, 65536, ORI_RDMA_SHARED));
	MUST(inside->iova == 5000);
	MUST(oriel_p2p_register(ctx, memory, 65536, 0, &beside) == ORIEL_OK);
	MUST(memcmp(&inside->rkeys, &beside->rkeys, sizeof(inside->rkeys)) == 0);
	oriel_p2p_unregister(beside);
	oriel_p2p_unregister(inside);
	oriel_window_destroy(window);
	MUST(!ori_rdma_serves(ctx->rdma, memory, 65536, ORI_RDMA_SHARED));
	free(memory);
	return queue_fails(r, ctx->rdma) && oriel_comm_barrier(comm) == ORIEL_OK;
}

static void test_a_communicator_and_its_endpoints_share_nics(void **state)
{
	(void)state;
	setenv("ORIEL_RAILS", "2", 1);
	all_ranks(one_rdma_context);
	unsetenv("ORIEL_RAILS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_meet_in_any_order),
		cmocka_unit_test(test_both_ranks_report_modes_that_clash),
		cmocka_unit_test(test_every_mode_has_an_endpoint),
		cmocka_unit_test(test_endpoints_without_a_peer_end_with_the_communicator),
		cmocka_unit_test(test_memory_is_unregistered_before_the_communicator),
		cmocka_unit_test(test_a_communicator_and_its_endpoints_share_nics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
