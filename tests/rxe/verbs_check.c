/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_check [--delayed | --lossy | --answers ROUNDS] DEVICE [DEVICE]: does RC
 * between two HCAs (or one and itself) behave as Oriel needs? Both sides are in
 * this process, each test has queue pairs of its own. --delayed: packets take a
 * millisecond or more, so that an order that only a fence ensures must break
 * without one. --lossy: some packets are lost. --answers: only count how many
 * atomics end without their answer, which is a fault.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_side.h"

#define ROUNDS 50
#define ANSWERS 8u /* atomics in flight, of those that are counted */

static bool is_delayed;

static bool test_write(void)
{
	static const uint32_t lengths[] = {1, 8, 1023, 1024, 1025, 4096, 262144};
	struct request r;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		buffer_fill(&local_side, (unsigned)i);
		memset(remote_side.buffer, 0, BUFFER);
		request_fill(&r, IBV_WR_RDMA_WRITE, 12345, lengths[i]);
		CHECK(request_do(&r) == IBV_WC_SUCCESS);
		CHECK(buffers_agree(12345, lengths[i]));
		CHECK(remote_side.buffer[12344] == 0 &&
		      remote_side.buffer[12345 + lengths[i]] == 0);
	}
	return true;
}

static bool test_write_imm(void)
{
	struct ibv_recv_wr receive = {.wr_id = 77}, *bad;
	uint32_t length;
	struct request r;
	struct ibv_wc wc;

	buffer_fill(&local_side, 0);
	for (length = 0; length <= 256; length += 256) {
		memset(remote_side.buffer, 0, BUFFER);
		CHECK(ibv_post_recv(remote_side.qp, &receive, &bad) == 0);
		request_fill(&r, IBV_WR_RDMA_WRITE_WITH_IMM, 64, length);
		r.wr.imm_data = htonl(0xabcd1234);
		CHECK(request_do(&r) == IBV_WC_SUCCESS);
		CHECK(completion_wait(&remote_side, &wc));
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 77);
		CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags & IBV_WC_WITH_IMM);
		CHECK(ntohl(wc.imm_data) == 0xabcd1234 && wc.byte_len == length);
		CHECK(buffers_agree(64, length));
	}
	return true;
}

static bool test_read(void)
{
	struct request r;

	buffer_fill(&remote_side, 3);
	memset(local_side.buffer, 0, BUFFER);
	request_fill(&r, IBV_WR_RDMA_READ, 777, 70000);
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(buffers_agree(777, 70000));
	CHECK(local_side.buffer[776] == 0 && local_side.buffer[777 + 70000] == 0);
	return true;
}

static bool test_fetch_add(void)
{
	struct request r;

	word_set(&remote_side, 128, 1000);
	request_fill(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 128, 8);
	r.wr.wr.atomic.compare_add = 42;
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(word_at(&local_side, 128) == 1000 && word_at(&remote_side, 128) == 1042);
	r.wr.wr.atomic.compare_add = (uint64_t)-43;
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(word_at(&local_side, 128) == 1042 && word_at(&remote_side, 128) == 999);
	return true;
}

static bool test_compare_swap(void)
{
	struct request r;

	word_set(&remote_side, 128, 1000);
	request_fill(&r, IBV_WR_ATOMIC_CMP_AND_SWP, 128, 8);
	r.wr.wr.atomic.compare_add = 1000;
	r.wr.wr.atomic.swap = 7;
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(word_at(&local_side, 128) == 1000 && word_at(&remote_side, 128) == 7);
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(word_at(&local_side, 128) == 7 && word_at(&remote_side, 128) == 7);
	return true;
}

/* The responder executes atomics of many requests one after the other. */
static bool test_many_fetch_adds(void)
{
	struct request r;
	struct ibv_wc wc;
	unsigned i;

	word_set(&remote_side, 128, 0);
	request_fill(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 128, 8);
	r.wr.wr.atomic.compare_add = 3;
	for (i = 0; i < QUEUE / 2; i++)
		CHECK(request_post(&r) == 0);
	for (i = 0; i < QUEUE / 2; i++)
		CHECK(completion_wait(&local_side, &wc) && wc.status == IBV_WC_SUCCESS);
	CHECK(word_at(&remote_side, 128) == 3 * QUEUE / 2);
	CHECK(word_at(&local_side, 128) == 3 * (QUEUE / 2 - 1));
	return true;
}

static bool test_inline(void)
{
	char source[INLINE];
	struct request r;
	struct ibv_wc wc;

	memset(remote_side.buffer, 0, BUFFER);
	memset(source, 'q', sizeof(source));
	request_fill(&r, IBV_WR_RDMA_WRITE, 512, INLINE);
	r.sge.addr = (uintptr_t)source;
	r.sge.lkey = 0;
	r.wr.send_flags |= IBV_SEND_INLINE;
	CHECK(request_post(&r) == 0);
	memset(source, 0, sizeof(source)); /* the caller may reuse it at once */
	CHECK(completion_wait(&local_side, &wc) && wc.status == IBV_WC_SUCCESS);
	for (unsigned i = 0; i < INLINE; i++)
		CHECK(remote_side.buffer[512 + i] == 'q');
	r.sge.addr = (uintptr_t)local_side.buffer;
	r.sge.length = BUFFER / 2;
	CHECK(request_post(&r) != 0);
	return true;
}

/* Memory with keys from address 0 on: an offset is an address, and the sink lies there. */
static bool test_address_zero(void)
{
	struct request r;

	buffer_fill(&local_side, 5);
	memset(remote_side.buffer, 0, BUFFER);
	request_fill(&r, IBV_WR_RDMA_WRITE, 4321, 100);
	r.wr.wr.rdma.remote_addr = 4321;
	r.wr.wr.rdma.rkey = remote_side.based->rkey;
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(buffers_agree(4321, 100));

	word_set(&remote_side, 0, 10);
	request_fill(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	r.sge.addr = 0;
	r.sge.lkey = local_side.based->lkey;
	r.wr.wr.atomic.remote_addr = 0;
	r.wr.wr.atomic.rkey = remote_side.based->rkey;
	r.wr.wr.atomic.compare_add = 5;
	CHECK(request_do(&r) == IBV_WC_SUCCESS);
	CHECK(word_at(&local_side, 0) == 10 && word_at(&remote_side, 0) == 15);
	return true;
}

/* The kernel wants address and buffer at the same offset of a page, whatever the HCA. */
static bool test_address_zero_wants_a_page(void)
{
	errno = 0;
	CHECK(!ibv_reg_mr_iova(remote_side.pd, remote_side.buffer + 64, 4096, 0, ALL));
	CHECK(errno == EINVAL);
	return true;
}

/* How often a WRITE that follows a READ into its source carries the old bytes. */
static int count_stale(unsigned fence)
{
	struct request get, put;
	int stale = 0;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		word_set(&remote_side, 4096, i);
		word_set(&local_side, 4096, 0);
		request_fill(&get, IBV_WR_RDMA_READ, 4096, 8);
		request_fill(&put, IBV_WR_RDMA_WRITE, 4096, 8);
		get.wr.send_flags = 0;
		get.wr.next = &put.wr;
		put.wr.wr.rdma.remote_addr += 4096;
		put.wr.send_flags |= fence;
		if (request_do(&get) != IBV_WC_SUCCESS)
			return -1;
		stale += word_at(&remote_side, 8192) != i;
	}
	return stale;
}

static bool test_fence(void)
{
	CHECK(count_stale(IBV_SEND_FENCE) == 0);
	return true;
}

static bool test_without_a_fence_stale_bytes_appear(void)
{
	CHECK(!is_delayed || count_stale(0) > 0);
	return true;
}

/* As a kernel waits: a word that is written after the data appears in memory. */
static bool test_data_arrives_before_its_flag(void)
{
	const size_t word = 65536;
	struct request data, flag;
	struct ibv_wc wc;
	double deadline;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		memset(local_side.buffer, (int)i, 16384);
		word_set(&local_side, word, i);
		request_fill(&data, IBV_WR_RDMA_WRITE, 0, 16384);
		request_fill(&flag, IBV_WR_RDMA_WRITE, word, 8);
		data.wr.send_flags = 0;
		data.wr.next = &flag.wr;
		CHECK(request_post(&data) == 0);
		for (deadline = now() + WAIT_S; word_at(&remote_side, word) != i;)
			CHECK(now() < deadline);
		CHECK(buffers_agree(0, 16384));
		CHECK(completion_wait(&local_side, &wc) && wc.status == IBV_WC_SUCCESS);
	}
	return true;
}

static bool test_completion_event(void)
{
	struct pollfd ready = {.fd = local_side.channel->fd, .events = POLLIN};
	struct ibv_cq *cq = NULL;
	void *context;
	struct request r;
	struct ibv_wc wc;

	CHECK(ibv_req_notify_cq(local_side.cq, 0) == 0);
	CHECK(poll(&ready, 1, 0) == 0);
	request_fill(&r, IBV_WR_RDMA_WRITE, 0, 8);
	CHECK(request_post(&r) == 0);
	CHECK(poll(&ready, 1, (int)(WAIT_S * 1000)) == 1);
	CHECK(ibv_get_cq_event(local_side.channel, &cq, &context) == 0 && cq == local_side.cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(completion_wait(&local_side, &wc) && wc.status == IBV_WC_SUCCESS);
	return true;
}

static bool local_qp_is_in_error(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(local_side.qp, &attr, IBV_QP_STATE, &init) == 0 &&
	       attr.qp_state == IBV_QPS_ERR;
}

static bool test_wrong_remote_key(void)
{
	struct request r;

	request_fill(&r, IBV_WR_RDMA_WRITE, 0, 64);
	r.wr.wr.rdma.rkey ^= 0x55;
	CHECK(is_refused(request_do(&r), IBV_WC_REM_ACCESS_ERR));
	CHECK(local_qp_is_in_error());
	return true;
}

static bool test_beyond_the_end(void)
{
	struct request r;

	request_fill(&r, IBV_WR_RDMA_WRITE, 0, 64);
	r.wr.wr.rdma.remote_addr += BUFFER - 32;
	CHECK(is_refused(request_do(&r), IBV_WC_REM_ACCESS_ERR));
	return true;
}

static bool test_wrong_local_key(void)
{
	struct request r;
	int status;

	request_fill(&r, IBV_WR_RDMA_WRITE, 0, 64);
	r.sge.lkey ^= 0x33;
	status = request_do(&r);
	CHECK(status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR);
	return true;
}

static bool test_an_unaligned_atomic_is_rejected(void)
{
	struct request r;
	int status;

	request_fill(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8);
	status = request_do(&r);
	CHECK(status == -1 || is_refused(status, IBV_WC_REM_INV_REQ_ERR) ||
	      is_refused(status, IBV_WC_REM_ACCESS_ERR));
	return true;
}

/* Requests after a failed one are flushed, in the order of posting. */
static bool test_flush_is_in_order(void)
{
	static const enum ibv_wc_status expected[] = {IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR,
						      IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR,
						      IBV_WC_WR_FLUSH_ERR};
	struct request r[5];
	struct ibv_wc wc;
	unsigned i;

	word_set(&remote_side, 64, 0);
	word_set(&local_side, 64, 9);
	for (i = 0; i < 5; i++) {
		request_fill(&r[i], IBV_WR_RDMA_WRITE, i < 2 ? 0 : 64, 8);
		r[i].wr.wr_id = i;
		r[i].wr.next = i < 3 ? &r[i + 1].wr : NULL;
	}
	r[1].wr.wr.rdma.rkey ^= 0x55;
	CHECK(request_post(&r[0]) == 0);
	for (i = 0; i < 5; i++) {
		if (i == 4) /* also later posts */
			CHECK(request_post(&r[4]) == 0);
		CHECK(completion_wait(&local_side, &wc));
		CHECK(wc.wr_id == i);
		CHECK(wc.status == expected[i] || (i == 1 && is_refused(wc.status, expected[i])));
	}
	CHECK(word_at(&remote_side, 64) == 0);
	return true;
}

/* Unused receives are flushed when their queue is put into error. */
static bool test_receives_are_flushed(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr receive = {.wr_id = 0}, *bad;
	struct ibv_wc wc;

	for (unsigned i = 0; i < 3; i++) {
		receive.wr_id = i;
		CHECK(ibv_post_recv(remote_side.qp, &receive, &bad) == 0);
	}
	CHECK(ibv_modify_qp(remote_side.qp, &attr, IBV_QP_STATE) == 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(completion_wait(&remote_side, &wc));
		CHECK(wc.wr_id == i && wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	return true;
}

static bool test_a_destroyed_peer_gives_no_answer(void)
{
	struct request r;

	CHECK(ibv_destroy_qp(remote_side.qp) == 0);
	remote_side.qp = NULL;
	request_fill(&r, IBV_WR_RDMA_WRITE, 0, 8);
	CHECK(request_do(&r) == IBV_WC_RETRY_EXC_ERR);
	return true;
}

static const struct {
	const char *claim;
	bool (*run)(void);
	enum retries retries;
} tests[] = {
	{"WRITE, up to 256 KiB and across packets", test_write, ENDLESS},
	{"WRITE_WITH_IMM, also of nothing", test_write_imm, ENDLESS},
	{"READ", test_read, ENDLESS},
	{"FETCH_AND_ADD", test_fetch_add, ENDLESS},
	{"CMP_AND_SWP that hits, and misses", test_compare_swap, ENDLESS},
	{"many FETCH_AND_ADDs at once", test_many_fetch_adds, ENDLESS},
	{"inline WRITE, its source reused at once", test_inline, ENDLESS},
	{"memory from address 0 on", test_address_zero, ENDLESS},
	{"address 0 wants the begin of a page", test_address_zero_wants_a_page, ENDLESS},
	{"a fenced WRITE of what was READ", test_fence, ENDLESS},
	{"without a fence stale bytes appear (if delayed)", test_without_a_fence_stale_bytes_appear,
	 ENDLESS},
	{"data arrives before the flag after it", test_data_arrives_before_its_flag, ENDLESS},
	{"a completion event", test_completion_event, ENDLESS},
	{"a wrong remote key", test_wrong_remote_key, SOME},
	{"beyond the end of memory", test_beyond_the_end, SOME},
	{"a wrong local key", test_wrong_local_key, SOME},
	{"an atomic that is not aligned", test_an_unaligned_atomic_is_rejected, SOME},
	{"requests after an error are flushed in order", test_flush_is_in_order, SOME},
	{"receives are flushed in order", test_receives_are_flushed, ENDLESS},
	{"a destroyed peer", test_a_destroyed_peer_gives_no_answer, FEW},
};

static bool test_run(bool (*run)(void), enum retries retries)
{
	bool is_fine = pair_open(retries) && run();

	pair_close();
	return is_fine;
}

static int tests_run(void)
{
	unsigned failed = 0, i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		double from = now();
		bool is_fine = test_run(tests[i].run, tests[i].retries);

		printf("%s %s (%.2f s)%s%s\n", is_fine ? "ok  " : "FAIL", tests[i].claim,
		       now() - from, is_fine ? "" : ": ", is_fine ? "" : why);
		fflush(stdout);
		failed += !is_fine;
	}
	printf("%u of %u failed\n", failed, i);
	return failed != 0;
}

/*
 * Atomics, each with a WRITE after it. False: some failed. *@lost: atomics
 * without an answer.
 */
static bool answers_round(uint64_t round, uint64_t *lost)
{
	struct request add, write;
	struct ibv_wc wc;
	unsigned i;

	for (i = 0; i < ANSWERS; i++) {
		word_set(&local_side, 4096 + 64 * i, UINT64_MAX);
		request_fill(&add, IBV_WR_ATOMIC_FETCH_AND_ADD, 4096 + 64 * i, 8);
		add.wr.wr.atomic.compare_add = 1;
		request_fill(&write, IBV_WR_RDMA_WRITE, 256, 8);
		CHECK(request_post(&add) == 0 && request_post(&write) == 0);
	}
	for (i = 0; i < 2 * ANSWERS; i++)
		CHECK(completion_wait(&local_side, &wc) && wc.status == IBV_WC_SUCCESS);
	for (i = 0; i < ANSWERS; i++) {
		uint64_t answer = word_at(&local_side, 4096 + 64 * i);

		CHECK(word_at(&remote_side, 4096 + 64 * i) == round + 1);
		CHECK(answer == round || answer == UINT64_MAX);
		*lost += answer != round;
	}
	return true;
}

/* Counts atomics of @rounds that complete although no answer has arrived. */
static int answers_count(uint64_t rounds)
{
	uint64_t round, lost = 0;
	bool is_fine = pair_open(ENDLESS);

	memset(remote_side.buffer + 4096, 0, 64 * ANSWERS);
	for (round = 0; round < rounds && is_fine; round++)
		is_fine = answers_round(round, &lost);
	printf("%lu of %lu atomics ended without their answer%s%s\n", (unsigned long)lost,
	       (unsigned long)(round * ANSWERS), is_fine ? "" : "; then ", is_fine ? "" : why);
	pair_close();
	return !is_fine;
}

int main(int argc, char **argv)
{
	uint64_t rounds = 0;
	int code = 2;

	is_delayed = argc > 1 && strcmp(argv[1], "--delayed") == 0;
	is_lossy = argc > 1 && strcmp(argv[1], "--lossy") == 0;
	if (is_delayed || is_lossy) {
		argc--;
		argv++;
	}
	if (argc > 2 && strcmp(argv[1], "--answers") == 0) {
		rounds = strtoull(argv[2], NULL, 10);
		argc -= 2;
		argv += 2;
	}
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: verbs_check [--delayed | --lossy | --answers ROUNDS] "
				"DEVICE [DEVICE]\n");
		return code;
	}
	if (side_open(&local_side, argv[1]) && side_open(&remote_side, argv[argc - 1]))
		code = rounds ? answers_count(rounds) : tests_run();
	else
		fprintf(stderr, "verbs_check: %s: %s\n", why, strerror(errno));
	side_close(&local_side);
	side_close(&remote_side);
	return code;
}
