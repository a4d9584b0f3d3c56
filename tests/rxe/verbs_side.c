/* SPDX-License-Identifier: Apache-2.0 */
/* The sides, queue pairs and requests of verbs_check, over libibverbs. */
#include "verbs_side.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define GIDS 64

/* 4.1 us << 16 is 0.27 s, for a guest that is emulated. */
#define ACK_TIMEOUT 16

struct side local_side, remote_side;
bool is_lossy;
char why[256];

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
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

bool side_open(struct side *side, const char *name)
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

void side_close(struct side *side)
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

bool pair_open(enum retries retries)
{
	return qp_create(&local_side) && qp_create(&remote_side) &&
	       qp_connect(&local_side, &remote_side, retries) &&
	       qp_connect(&remote_side, &local_side, retries);
}

void pair_close(void)
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

bool completion_wait(struct side *side, struct ibv_wc *wc)
{
	double deadline = now() + WAIT_S;
	int found;

	while ((found = ibv_poll_cq(side->cq, 1, wc)) == 0 && now() < deadline)
		;
	return found == 1;
}

void request_fill(struct request *r, enum ibv_wr_opcode opcode, size_t offset, uint32_t length)
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

int request_post(struct request *r)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(local_side.qp, &r->wr, &bad);
}

int request_do(struct request *r)
{
	struct ibv_wc wc;

	if (request_post(r) != 0)
		return -1;
	return completion_wait(&local_side, &wc) ? (int)wc.status : -2;
}

bool is_refused(int status, enum ibv_wc_status why_not)
{
	return status == (int)why_not || (is_lossy && status == IBV_WC_RETRY_EXC_ERR);
}

void buffer_fill(struct side *side, unsigned seed)
{
	for (unsigned i = 0; i < BUFFER; i++)
		side->buffer[i] = (char)(i * 7 + i / 251 + seed);
}

bool buffers_agree(size_t offset, size_t length)
{
	return memcmp(local_side.buffer + offset, remote_side.buffer + offset, length) == 0;
}
