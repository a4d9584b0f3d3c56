/* SPDX-License-Identifier: Apache-2.0 */
/* Failed links of one rank, and which of them breaks its communicator. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/handle.h"
#include "comm/health.h"
#include "comm/heartbeat.h"
#include "comm/silence.h"
#include "rdma/rdma.h"

#define RANKS 3u /* rank 0 has the communicator, the others an end of a link to it */
#define LENGTH 65536u
#define ROW 64u /* bytes of a rank in a table of heartbeat.c; the last word is the beat */
#define LONG_NS 60000000000u

struct end {
	struct ori_rdma *rdma;
	struct ori_rdma_link *link;
	struct ori_rdma_mr *mr;
	struct oriel_dev_keys rkeys;
	char *memory;
};

struct job {
	struct oriel_comm *comm;
	struct ori_control control;
	struct oriel_dev_rank paths[RANKS];
	struct ori_mapping peers[RANKS];
	struct ori_rdma_link *links[ORI_LINK_ROWS * RANKS];
	struct end ends[RANKS]; /* of ranks 1 and up */
};

static struct ori_rdma *open_rdma(struct oriel_dev_fault *health)
{
	const struct ori_rdma_attr attr = {.rails = 1};
	const struct ori_rdma_links_attr links = {.depth = 16,
						  .health = health,
						  .timeout_ns = LONG_NS,
						  .spin = 100};
	struct ori_rdma *rdma;

	assert_int_equal(ori_rdma_open(&attr, &rdma), ORIEL_OK);
	assert_int_equal(ori_rdma_open_links(rdma, &links), ORIEL_OK);
	return rdma;
}

/* Both ends of the link between ranks 0 and @peer. */
static void connect_link(struct job *job, unsigned peer)
{
	struct ori_rdma *rdmas[2] = {job->comm->rdma, job->ends[peer].rdma};
	struct ori_rdma_link **links[2] = {&job->links[peer], &job->ends[peer].link};
	struct ori_hca_qp_address addresses[2];
	struct ori_rdma_qps qps[2];
	unsigned i;

	for (i = 0; i < 2; i++) {
		ori_rdma_describe(rdmas[i], 0, &addresses[i]);
		assert_int_equal(ori_rdma_link_create(rdmas[i], i ? 0 : peer, 0, links[i]),
				 ORIEL_OK);
		assert_int_equal(ori_rdma_link_open(*links[i], &qps[i]), ORIEL_OK);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(ori_rdma_link_connect(*links[i], &addresses[!i], &qps[!i]),
				 ORIEL_OK);
	for (i = 0; i < 2; i++)
		ori_rdma_link_begin(*links[i]);
}

static void open_end(struct job *job, unsigned peer)
{
	struct end *end = &job->ends[peer];

	end->rdma = open_rdma(NULL);
	end->memory = aligned_alloc(4096, LENGTH);
	assert_non_null(end->memory);
	memset(end->memory, 0, LENGTH);
	assert_int_equal(ori_rdma_register(end->rdma, end->memory, LENGTH, ORI_RDMA_SHARED,
					   &end->mr, &end->rkeys),
			 ORIEL_OK);
	connect_link(job, peer);
	ori_heartbeat_join(job->comm, peer, &end->rkeys);
}

static struct job *open_job(void)
{
	struct job *job = calloc(1, sizeof(*job));
	struct oriel_comm *comm = ori_handle_alloc(ORI_HANDLE_COMM, sizeof(*comm));
	unsigned peer;

	assert_non_null(job);
	assert_non_null(comm);
	ori_handle_open(comm, NULL);
	job->comm = comm;
	comm->control = &job->control;
	comm->size = RANKS;
	comm->rails = 1;
	comm->timeout_ns = LONG_NS;
	comm->host_paths.of = job->paths;
	comm->peers = job->peers;
	comm->links = job->links;
	pthread_mutex_init(&comm->links_lock, NULL);
	comm->rdma = open_rdma(&job->control.health);
	assert_int_equal(ori_silence_open(comm), ORIEL_OK);
	assert_int_equal(ori_heartbeat_open(comm), ORIEL_OK);
	for (peer = 1; peer < RANKS; peer++)
		open_end(job, peer);
	return job;
}

static void close_job(struct job *job)
{
	struct oriel_comm *comm = job->comm;
	unsigned peer;

	for (peer = 1; peer < RANKS; peer++) {
		ori_rdma_link_destroy(job->links[peer]);
		ori_rdma_link_destroy(job->ends[peer].link);
		ori_rdma_unregister(job->ends[peer].rdma, job->ends[peer].mr);
		ori_rdma_close(job->ends[peer].rdma);
		free(job->ends[peer].memory);
	}
	ori_heartbeat_close(comm);
	ori_silence_close(comm);
	ori_rdma_close(comm->rdma);
	pthread_mutex_destroy(&comm->links_lock);
	assert_true(ori_handle_shut(comm, ORI_HANDLE_COMM, "close_job"));
	ori_handle_free(comm);
	free(job);
}

static void await_failed_link(struct job *job, unsigned peer)
{
	struct ori_dev_link_queue q = ori_dev_link_main(ori_rdma_link_device(job->links[peer]));
	uint64_t deadline = ori_deadline(LONG_NS);

	while (!ori_dev_link_err(q)) {
		ori_dev_link_progress(q);
		assert_false(ori_deadline_passed(deadline));
		usleep(1000);
	}
}

/* Rank 0 puts a word to @at of @peer, and its NIC reports that this failed. */
static void put_fails(struct job *job, unsigned peer, uint64_t at)
{
	const struct ori_dev_rdma_address to = {at, job->ends[peer].rkeys.rail[0]};

	assert_true(ori_dev_link_put_value(ori_rdma_link_device(job->links[peer]),
					   oriel_dev_thread(), to, 1) >= 0);
	await_failed_link(job, peer);
}

/* A beat of @peer, in its row of the table of rank 0. */
static void send_beat(struct job *job, unsigned peer, uint64_t beat)
{
	const struct ori_rdma_piece piece = {peer * ROW + ROW - sizeof(beat), &beat, sizeof(beat)};
	struct ori_rdma_heartbeat *queue = ori_rdma_link_heartbeat(job->ends[peer].link);

	if (ori_rdma_heartbeat_poll(queue) == ORIEL_OK)
		assert_int_equal(ori_rdma_heartbeat_post(queue, ori_heartbeat_rkeys(job->comm),
							 &piece, 1),
				 ORIEL_OK);
}

static void turn(struct job *job)
{
	ori_silence_watch(job->comm);
	(void)ori_heartbeat_watch(job->comm, false);
	usleep(1000);
}

/* The failure that breaks the communicator, while rank @beating beats; 0: none does. */
static struct oriel_dev_fault await_cause(struct job *job, unsigned beating)
{
	uint64_t deadline = ori_deadline(LONG_NS), beat = 0;

	while (ori_comm_is_well(job->comm)) {
		if (beating)
			send_beat(job, beating, ++beat);
		turn(job);
		assert_false(ori_deadline_passed(deadline));
	}
	return ori_comm_record(job->comm);
}

/* Rank 1, which does not beat, may have exited; rank 2 has ended its link. */
static void test_a_certain_failure_waits_for_no_doubt_about_another_rank(void **state)
{
	struct job *job = open_job();
	struct oriel_dev_fault cause;

	(void)state;
	put_fails(job, 1, LENGTH);
	turn(job);
	assert_true(ori_comm_is_well(job->comm));
	ori_rdma_link_fail(job->ends[2].link);
	put_fails(job, 2, 0);
	cause = await_cause(job, 0);
	assert_int_equal(cause.peer, 2);
	assert_int_not_equal(cause.status, ORIEL_ERR_ACCESS);
	close_job(job);
}

/* Both reject a request, and rank 2 lives on. */
static void test_each_rank_has_a_doubt_of_its_own(void **state)
{
	struct job *job = open_job();
	struct oriel_dev_fault cause;

	(void)state;
	put_fails(job, 1, LENGTH);
	put_fails(job, 2, LENGTH);
	turn(job);
	assert_true(ori_comm_is_well(job->comm));
	cause = await_cause(job, 2);
	assert_int_equal(cause.peer, 2);
	assert_int_equal(cause.status, ORIEL_ERR_ACCESS);
	close_job(job);
}

/* A NIC that answers, for a process that beats no more. */
static void test_a_rank_that_rejects_a_request_and_beats_no_more_has_exited(void **state)
{
	struct job *job = open_job();
	struct oriel_dev_fault cause;

	(void)state;
	job->comm->timeout_ns = 1000000000; /* which limits a doubt, too */
	put_fails(job, 1, LENGTH);
	cause = await_cause(job, 2);
	assert_int_equal(cause.peer, 1);
	assert_int_equal(cause.status, ORIEL_ERR_PEER);
	close_job(job);
}

static int use_software_hcas(void **state)
{
	(void)state;
	return setenv("ORIEL_HCA", "soft", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_certain_failure_waits_for_no_doubt_about_another_rank),
		cmocka_unit_test(test_each_rank_has_a_doubt_of_its_own),
		cmocka_unit_test(test_a_rank_that_rejects_a_request_and_beats_no_more_has_exited),
	};

	return cmocka_run_group_tests(tests, use_software_hcas, NULL);
}
