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
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BUFFER (1u << 20)
#define QUEUE 64u
#define INLINE 64u
#define ROUNDS 50
#define GIDS 64
#define WAIT_S 10.0
#define ALL                                                                          \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* 4.1 us << 16 is 0.27 s, for a guest that is emulated. */
#define ACK_TIMEOUT 16

/*
 * Seven retries are endless with rxe. Six are too few for long messages if
 * packets are lost, since rxe counts those of a whole message. But if the
 * answer to a rejected request is lost, the queue that rejected it never
 * answers again, so the retries must end.
 */
enum retries {
	FEW = 2,
	SOME = 6,
	ENDLESS = 7,
};

/* One side of the connection. */
struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_mr *based; /* the same buffer from address 0 on */
	char *buffer;
	union ibv_gid gid;
	uint8_t gid_index;
	struct ibv_qp *qp; /* of the running test */
};

static struct side local_side, remote_side;
static bool is_delayed, is_lossy;
static char why[256]; /* of a failed test */

#define ANSWERS 8u /* atomics in flight, of those that are counted */

#define CHECK(claim)                                                                 \
	do {                                                                         \
		if (!(claim)) {                                                      \
			snprintf(why, sizeof(why), "line %d: %s", __LINE__, #claim); \
			return false;                                                \
		}                                                                    \
	} while (0)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t word_at(const struct side *side, size_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(side->buffer + offset), __ATOMIC_ACQUIRE);
}

static void word_set(struct side *side, size_t offset, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)(side->buffer + offset), value, __ATOMIC_RELEASE);
}

static struct ibv_context *device_open(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int count = 0, i;

	list = ibv_get_device_list(&count);
	for (i = 0; list && i < count && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

/* The GID of RoCE v2 with an IPv4 address: ::ffff:10.9.0.1. */
static bool side_find_gid(struct side *side)
{
	struct ibv_gid_entry gids[GIDS];
	ssize_t count = ibv_query_gid_table(side->context, gids, GIDS, 0);
	ssize_t i;

	for (i = 0; i < count; i++) {
		if (gids[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    gids[i].gid.global.subnet_prefix != 0 || gids[i].gid.raw[10] != 0xff)
			continue;
		side->gid = gids[i].gid;
		side->gid_index = (uint8_t)gids[i].gid_index;
		return true;
	}
	return false;
}

static bool side_open(struct side *side, const char *name)
{
	side->context = device_open(name);
	CHECK(side->context);
	CHECK(side_find_gid(side));
	side->pd = ibv_alloc_pd(side->context);
	CHECK(side->pd);
	side->channel = ibv_create_comp_channel(side->context);
	CHECK(side->channel);
	side->cq = ibv_create_cq(side->context, 4 * QUEUE, NULL, side->channel, 0);
	CHECK(side->cq);
	side->buffer =
		mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(side->buffer != MAP_FAILED);
	side->mr = ibv_reg_mr(side->pd, side->buffer, BUFFER, ALL);
	CHECK(side->mr);
	side->based = ibv_reg_mr_iova(side->pd, side->buffer, BUFFER, 0, ALL);
	CHECK(side->based);
	return true;
}

static void side_close(struct side *side)
{
	if (side->based)
		ibv_dereg_mr(side->based);
	if (side->mr)
		ibv_dereg_mr(side->mr);
	if (side->buffer && side->buffer != MAP_FAILED)
		munmap(side->buffer, BUFFER);
	if (side->cq)
		ibv_destroy_cq(side->cq);
	if (side->channel)
		ibv_destroy_comp_channel(side->channel);
	if (side->pd)
		ibv_dealloc_pd(side->pd);
	if (side->context)
		ibv_close_device(side->context);
}

static bool qp_create(struct side *side)
{
	struct ibv_qp_init_attr init = {
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = QUEUE,
			.max_recv_wr = QUEUE,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = INLINE},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	side->qp = ibv_create_qp(side->pd, &init);
	CHECK(side->qp);
	CHECK(ibv_modify_qp(side->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
	return true;
}

static bool qp_connect(struct side *side, const struct side *peer, enum retries retries)
{
	struct ibv_qp_attr to_rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = 0xfffff0, /* wraps soon */
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid,
				    .sgid_index = side->gid_index,
				    .hop_limit = 64}},
	};
	struct ibv_qp_attr to_rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0xfffff0,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = (uint8_t)retries,
		.rnr_retry = (uint8_t)retries,
		.max_rd_atomic = 16,
	};

	CHECK(ibv_modify_qp(side->qp, &to_rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
	CHECK(ibv_modify_qp(side->qp, &to_rts,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
	return true;
}

static bool pair_open(enum retries retries)
{
	return qp_create(&local_side) && qp_create(&remote_side) &&
	       qp_connect(&local_side, &remote_side, retries) &&
	       qp_connect(&remote_side, &local_side, retries);
}

static void pair_close(void)
{
	struct ibv_wc wc;

	if (local_side.qp)
		ibv_destroy_qp(local_side.qp);
	if (remote_side.qp)
		ibv_destroy_qp(remote_side.qp);
	local_side.qp = remote_side.qp = NULL;
	while (ibv_poll_cq(local_side.cq, 1, &wc) > 0 || ibv_poll_cq(remote_side.cq, 1, &wc) > 0)
		;
}

static bool completion_wait(struct side *side, struct ibv_wc *wc)
{
	double deadline = now() + WAIT_S;
	int found;

	while ((found = ibv_poll_cq(side->cq, 1, wc)) == 0 && now() < deadline)
		;
	return found == 1;
}

/* A request that goes from @offset of the local buffer to the same offset of the remote one. */
struct request {
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

static void request_fill(struct request *r, enum ibv_wr_opcode opcode, size_t offset,
			 uint32_t length)
{
	memset(r, 0, sizeof(*r));
	r->sge.addr = (uintptr_t)local_side.buffer + offset;
	r->sge.length = length;
	r->sge.lkey = local_side.mr->lkey;
	r->wr.sg_list = &r->sge;
	r->wr.num_sge = length ? 1 : 0;
	r->wr.opcode = opcode;
	r->wr.send_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		r->wr.wr.atomic.remote_addr = (uintptr_t)remote_side.buffer + offset;
		r->wr.wr.atomic.rkey = remote_side.mr->rkey;
	} else {
		r->wr.wr.rdma.remote_addr = (uintptr_t)remote_side.buffer + offset;
		r->wr.wr.rdma.rkey = remote_side.mr->rkey;
	}
}

static int request_post(struct request *r)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(local_side.qp, &r->wr, &bad);
}

/* Returns its status; -1: it was not posted, -2: no completion arrived. */
static int request_do(struct request *r)
{
	struct ibv_wc wc;

	if (request_post(r) != 0)
		return -1;
	return completion_wait(&local_side, &wc) ? (int)wc.status : -2;
}

/* The answer that gives the cause may be lost. */
static bool is_refused(int status, enum ibv_wc_status why_not)
{
	return status == (int)why_not || (is_lossy && status == IBV_WC_RETRY_EXC_ERR);
}

static void buffer_fill(struct side *side, unsigned seed)
{
	for (unsigned i = 0; i < BUFFER; i++)
		side->buffer[i] = (char)(i * 7 + i / 251 + seed);
}

static bool buffers_agree(size_t offset, size_t length)
{
	return memcmp(local_side.buffer + offset, remote_side.buffer + offset, length) == 0;
}

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
