/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that verbs create: posted to by calls, or with rings of the provider. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/dev/detail/mlx5_ring.h>

#include "hca/soft/soft_engine.h"
#include "objects.h"

#define QUEUE_BATCH 16u
#define QUEUE_RECORDS (FAKE5_PAGE / 64) /* of a page that queues share */

struct fake5_qp *fake5_qps;
struct fake5_cq *fake5_cqs;

/* Records of the provider: one page for many, as the real one has. */
static struct records {
	struct records *next;
	char *memory;
	bool taken[QUEUE_RECORDS];
} * records;

static uint32_t *record_take(void)
{
	struct records *r = records;
	unsigned i;

	for (; r; r = r->next)
		for (i = 0; i < QUEUE_RECORDS; i++)
			if (!r->taken[i])
				goto found;
	r = calloc(1, sizeof(*r));
	r->memory = aligned_alloc(FAKE5_PAGE, FAKE5_PAGE);
	r->next = records;
	records = r;
	i = 0;
found:
	r->taken[i] = true;
	memset(r->memory + (size_t)i * 64, 0, 64);
	return (uint32_t *)(void *)(r->memory + (size_t)i * 64);
}

static void record_give(uint32_t *record)
{
	struct records *r = records;

	while ((uintptr_t)record - (uintptr_t)r->memory >= FAKE5_PAGE)
		r = r->next;
	r->taken[((char *)record - r->memory) / 64] = false;
}

struct fake5_qp *fake5_qp_find(const struct fake5_device *d, uint32_t number)
{
	struct fake5_qp *qp = fake5_qps;

	while (qp && (qp->number != number || qp->device != d))
		qp = qp->next;
	return qp;
}

struct fake5_cq *fake5_cq_find(const struct fake5_device *d, uint32_t number)
{
	struct fake5_cq *cq = fake5_cqs;

	while (cq && (cq->number != number || cq->device != d))
		cq = cq->next;
	return cq;
}

static int cq_open(struct fake5_cq *cq, const struct ori_hca_cq_attr *attr)
{
	if (fake5_soft()->create_cq(cq->device->soft, attr, &cq->soft, &cq->number) != ORIEL_OK)
		return ENOMEM;
	cq->next = fake5_cqs;
	fake5_cqs = cq;
	fake5_left_add(1);
	return 0;
}

static void cq_free(struct fake5_cq *cq)
{
	if (cq->ring) {
		free(cq->ring);
		record_give(cq->record);
	}
	free(cq);
}

static struct fake5_cq *cq_new(struct ibv_context *context, void *cq_context)
{
	struct fake5_cq *cq = calloc(1, sizeof(*cq));

	cq->base.context = context;
	cq->base.cq_context = cq_context;
	cq->device = fake5_context_of(context)->device;
	return cq;
}

/*
 * As the provider of real devices: one entry more than asked for, rounded up to
 * a power of two.
 */
static void cq_own_ring(struct fake5_cq *cq, uint32_t asked)
{
	cq->depth = 1u << (32 - (unsigned)__builtin_clz(asked));
	cq->ring = aligned_alloc(FAKE5_PAGE, (size_t)cq->depth * 64 + FAKE5_PAGE -
						     (size_t)cq->depth * 64 % FAKE5_PAGE);
	cq->record = record_take();
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake5_cq *cq = cq_new(context, cq_context);
	struct ori_hca_cq_attr attr = {.depth = (uint32_t)cqe};

	(void)channel, (void)vector;
	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("create_cq");
	if (!errno)
		errno = cq_open(cq, &attr);
	pthread_mutex_unlock(&fake5_lock);
	if (!errno) {
		cq->base.handle = cq->number;
		cq->base.cqe = cqe;
		return &cq->base;
	}
	cq_free(cq);
	return NULL;
}

struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *asked,
				   struct mlx5dv_cq_init_attr *more)
{
	struct fake5_cq *cq = cq_new(context, asked->cq_context);
	struct ori_hca_cq_attr attr;

	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("create_cq_ex");
	/*
	 * A CQ that checks for overruns would wait for a poller that never
	 * updates the record.
	 */
	if (!errno &&
	    (asked->comp_mask != IBV_CQ_INIT_ATTR_MASK_FLAGS ||
	     asked->flags != IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN ||
	     !(more->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) || more->cqe_size != 64))
		errno = EINVAL;
	if (!errno) {
		cq_own_ring(cq, asked->cqe);
		attr = (struct ori_hca_cq_attr){.ring = cq->ring, .depth = cq->depth};
		errno = cq_open(cq, &attr);
	}
	pthread_mutex_unlock(&fake5_lock);
	if (!errno)
		return (struct ibv_cq_ex *)(void *)&cq->base;
	cq_free(cq);
	return NULL;
}

int ibv_destroy_cq(struct ibv_cq *handle)
{
	struct fake5_cq *cq = (struct fake5_cq *)(void *)handle, **at;

	pthread_mutex_lock(&fake5_lock);
	for (at = &fake5_cqs; *at != cq; at = &(*at)->next)
		;
	*at = cq->next;
	fake5_soft()->destroy_cq(cq->soft);
	cq_free(cq);
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}

int fake5_qp_open(struct fake5_qp *qp, const struct ori_hca_qp_attr *attr)
{
	struct ori_hca_qp_attr inner = *attr;
	struct ori_hca_qp_address address;

	if (qp->page) {
		if (!fake5_doorbell_open(qp))
			return ENOMEM;
		inner.doorbell = qp->doorbell;
	}
	if (fake5_soft()->create_qp(qp->device->soft, &inner, &qp->soft, &address) != ORIEL_OK) {
		fake5_doorbell_close(qp);
		return EINVAL;
	}
	qp->number = address.qpn;
	qp->depth = attr->depth;
	qp->next = fake5_qps;
	fake5_qps = qp;
	if (qp->page)
		qp->page->users++;
	fake5_left_add(1);
	return 0;
}

void fake5_qp_close(struct fake5_qp *qp)
{
	struct fake5_qp **at;

	for (at = &fake5_qps; *at != qp; at = &(*at)->next)
		;
	*at = qp->next;
	if (qp->page)
		fake5_page_leave(qp);
	fake5_soft()->destroy_qp(qp->soft);
	fake5_doorbell_close(qp);
	fake5_left_add(-1);
}

/* The software HCA has drawn a number of its own, and accepts the given one as well. */
int fake5_qp_connect(struct fake5_qp *qp, uint32_t send_psn, uint32_t reads)
{
	struct ori_hca_qp_address peer = qp->peer.soft;
	struct soft_qp *soft = (struct soft_qp *)(void *)qp->soft;

	peer.qpn = qp->rtr.remote_qpn;
	peer.psn = qp->rtr.receive_psn;
	peer.max_rd_atomic = reads;
	ori_soft_engine_lock(soft->node->engine);
	soft->next_psn = send_psn;
	ori_soft_engine_unlock(soft->node->engine);
	if (fake5_soft()->connect_qp(qp->soft, &peer) != ORIEL_OK)
		return EINVAL;
	qp->state = FAKE5_RTS;
	return 0;
}

static struct fake5_qp *qp_new(struct ibv_context *context)
{
	struct fake5_qp *qp = calloc(1, sizeof(*qp));

	qp->base.context = context;
	qp->device = fake5_context_of(context)->device;
	return qp;
}

static void qp_free(struct fake5_qp *qp)
{
	if (qp->ring) {
		free(qp->ring);
		record_give(qp->record);
		fake5_page_close(qp->page);
	}
	free(qp);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake5_cq *send_cq = (struct fake5_cq *)(void *)init->send_cq;
	struct fake5_cq *recv_cq = (struct fake5_cq *)(void *)init->recv_cq;
	struct ori_hca_qp_attr attr = {.depth = init->cap.max_send_wr,
				       .send_cq = send_cq->soft,
				       .receives = init->cap.max_recv_wr,
				       .receive_cq = recv_cq->soft};
	struct fake5_qp *qp = qp_new(pd->context);

	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("create_qp");
	if (!errno && init->cap.max_inline_data > ORI_HCA_INLINE_MAX)
		errno = EINVAL;
	if (!errno)
		errno = fake5_qp_open(qp, &attr);
	pthread_mutex_unlock(&fake5_lock);
	if (!errno) {
		qp->base.qp_num = qp->number;
		return &qp->base;
	}
	qp_free(qp);
	return NULL;
}

/*
 * Blocks of a request in the ring of the provider: room for operations that the
 * attributes do not exclude, and for inline data, makes it two.
 */
static uint32_t qp_blocks(const struct ibv_qp_init_attr_ex *init)
{
	const uint64_t plain = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
			       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	bool is_small = init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
			!(init->send_ops_flags & ~plain) && init->cap.max_inline_data == 0;

	return is_small && !fake5_lacks("sizes") ? 1 : 2;
}

static void qp_own_ring(struct fake5_qp *qp, uint32_t depth)
{
	size_t length = (size_t)depth * 64;

	length += FAKE5_PAGE - 1;
	length -= length % FAKE5_PAGE;
	qp->ring = aligned_alloc(FAKE5_PAGE, length);
	memset(qp->ring, 0xa5, length);
	qp->record = record_take();
	qp->page = fake5_page_open(qp->device);
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *init,
				struct mlx5dv_qp_init_attr *more)
{
	struct fake5_cq *cq = (struct fake5_cq *)(void *)init->send_cq;
	struct fake5_qp *qp = qp_new(context);
	struct ori_hca_qp_attr attr;
	uint32_t depth;

	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("create_qp_ex");
	if (!errno && (!(init->comp_mask & IBV_QP_INIT_ATTR_PD) || init->sq_sig_all ||
		       !(more->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) ||
		       more->create_flags != MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE))
		errno = EINVAL;
	if (!errno) {
		depth = init->cap.max_send_wr * qp_blocks(init);
		qp_own_ring(qp, depth);
		attr = (struct ori_hca_qp_attr){.ring = qp->ring,
						.depth = depth,
						.record = qp->record,
						.send_cq = cq->soft};
		errno = fake5_qp_open(qp, &attr);
	}
	if (errno)
		qp_free(qp);
	pthread_mutex_unlock(&fake5_lock);
	if (errno)
		return NULL;
	qp->base.qp_num = qp->number;
	return &qp->base;
}

/* The kernel checks most parameters of these calls. */
static int qp_receive_from(struct fake5_qp *qp, const struct ibv_qp_attr *attr)
{
	const struct ibv_ah_attr *ah = &attr->ah_attr;
	const struct fake5_device *d = qp->device;
	bool is_found = d->is_ethernet ? fake5_find_gid(ah->grh.dgid.raw, &qp->peer)
				       : fake5_find_lid(ah->dlid, &qp->peer);

	if (!is_found || qp->peer.is_ethernet != d->is_ethernet)
		return ETIMEDOUT;
	qp->rtr.remote_qpn = attr->dest_qp_num;
	qp->rtr.receive_psn = attr->rq_psn;
	qp->rtr.mtu = 128u << attr->path_mtu;
	if (qp->rtr.mtu > d->mtu || qp->rtr.mtu > qp->peer.mtu)
		return EINVAL;
	qp->state = FAKE5_RTR;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *handle, struct ibv_qp_attr *attr, int mask)
{
	struct fake5_qp *qp = (struct fake5_qp *)(void *)handle;
	int error = 0;

	pthread_mutex_lock(&fake5_lock);
	if (!(mask & IBV_QP_STATE))
		error = EINVAL;
	else if (attr->qp_state == IBV_QPS_INIT)
		qp->state = FAKE5_INIT;
	else if (attr->qp_state == IBV_QPS_RTR && qp->state == FAKE5_INIT)
		error = qp_receive_from(qp, attr);
	else if (attr->qp_state == IBV_QPS_RTS && qp->state == FAKE5_RTR)
		error = fake5_qp_connect(qp, attr->sq_psn, attr->max_rd_atomic);
	else if (attr->qp_state == IBV_QPS_ERR)
		fake5_soft()->fail_qp(qp->soft);
	else
		error = EINVAL;
	pthread_mutex_unlock(&fake5_lock);
	return error;
}

static int post_one(struct fake5_qp *qp, const struct ibv_send_wr *wr)
{
	static const uint8_t opcodes[] = {
		[IBV_WR_RDMA_WRITE] = ORI_HCA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = ORI_HCA_WRITE_IMM,
		[IBV_WR_RDMA_READ] = ORI_HCA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = ORI_HCA_CAS,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = ORI_HCA_FETCH_ADD,
	};
	bool is_atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			 wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ori_hca_wr to = {.id = wr->wr_id, .opcode = opcodes[wr->opcode]};
	unsigned posted;

	if (wr->num_sge) {
		to.local = wr->sg_list[0].addr;
		to.lkey = wr->sg_list[0].lkey;
		to.length = wr->sg_list[0].length;
	}
	to.remote = is_atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
	to.rkey = is_atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
	to.operand = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.swap
							     : wr->wr.atomic.compare_add;
	to.compare = wr->wr.atomic.compare_add;
	to.immediate = ntohl(wr->imm_data);
	to.flags = (wr->send_flags & IBV_SEND_SIGNALED ? ORI_HCA_SIGNALED : 0) |
		   (wr->send_flags & IBV_SEND_FENCE ? ORI_HCA_FENCE : 0);
	if (wr->send_flags & IBV_SEND_INLINE)
		to.data = (const void *)(uintptr_t)to.local;
	return fake5_soft()->calls->post(qp->soft, &to, 1, &posted) == ORIEL_OK && posted == 1
		       ? 0
		       : ENOMEM;
}

int fake5_post_send(struct ibv_qp *handle, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake5_qp *qp = (struct fake5_qp *)(void *)handle;
	int error = 0;

	for (; wr && !error; wr = error ? wr : wr->next)
		error = post_one(qp, wr);
	*bad = wr;
	return error;
}

int fake5_post_recv(struct ibv_qp *handle, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake5_qp *qp = (struct fake5_qp *)(void *)handle;
	unsigned count = 0;

	for (*bad = wr; wr; wr = wr->next, count++)
		qp->receive_id = wr->wr_id;
	return fake5_soft()->calls->post_receives(qp->soft, count) == ORIEL_OK ? 0 : ENOMEM;
}

static enum ibv_wc_status poll_status(uint8_t syndrome)
{
	switch (syndrome) {
	case 0:
		return IBV_WC_SUCCESS;
	case ORIEL_SYNDROME_LOCAL_LENGTH:
		return IBV_WC_LOC_LEN_ERR;
	case ORIEL_SYNDROME_LOCAL_PROTECTION:
		return IBV_WC_LOC_PROT_ERR;
	case ORIEL_SYNDROME_FLUSHED:
		return IBV_WC_WR_FLUSH_ERR;
	case ORIEL_SYNDROME_REMOTE_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	case ORIEL_SYNDROME_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case ORIEL_SYNDROME_RETRY_EXCEEDED:
		return IBV_WC_RETRY_EXC_ERR;
	case ORIEL_SYNDROME_NOT_READY_EXCEEDED:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

static void poll_translate(const struct fake5_device *d, const struct ori_hca_wc *from,
			   struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[ORI_HCA_WRITE] = IBV_WC_RDMA_WRITE, [ORI_HCA_WRITE_IMM] = IBV_WC_RDMA_WRITE,
		[ORI_HCA_READ] = IBV_WC_RDMA_READ,   [ORI_HCA_FETCH_ADD] = IBV_WC_FETCH_ADD,
		[ORI_HCA_CAS] = IBV_WC_COMP_SWAP,
	};
	const struct fake5_qp *qp = fake5_qp_find(d, from->qpn);

	*wc = (struct ibv_wc){.wr_id = from->id,
			      .status = poll_status(from->syndrome),
			      .opcode = opcodes[from->opcode],
			      .vendor_err = from->vendor,
			      .qp_num = from->qpn};
	if (from->opcode == ORI_HCA_WRITE_IMM)
		wc->wc_flags = IBV_WC_WITH_IMM;
	if (!from->is_receive)
		return;
	wc->wr_id = qp ? qp->receive_id : 0;
	wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	wc->byte_len = from->length;
	wc->imm_data = htonl(from->immediate);
}

int fake5_poll_cq(struct ibv_cq *handle, int room, struct ibv_wc *wc)
{
	struct fake5_cq *cq = (struct fake5_cq *)(void *)handle;
	struct ori_hca_wc found[QUEUE_BATCH];
	unsigned count = 0;

	if (room > (int)QUEUE_BATCH)
		room = QUEUE_BATCH;
	if (fake5_soft()->calls->poll(cq->soft, found, (unsigned)room, &count) != ORIEL_OK)
		return -1;
	if (!count)
		return 0;
	pthread_mutex_lock(&fake5_lock);
	for (unsigned i = 0; i < count; i++)
		poll_translate(cq->device, &found[i], &wc[i]);
	pthread_mutex_unlock(&fake5_lock);
	return (int)count;
}

/* An event in the pipe, until it is taken, or its object is destroyed. */
struct event {
	struct ibv_async_event of;
	uint32_t number; /* of its queue, since another one may get its memory */
};

static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

static void event_push(const struct fake5_qp *qp, enum ibv_event_type type)
{
	struct event event = {.of = {.element.qp = (struct ibv_qp *)&qp->base, .event_type = type},
			      .number = qp->number};

	(void)!write(fake5_context_of(qp->base.context)->event_fd, &event, sizeof(event));
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct event found;
	struct fake5_qp *qp;

	if (read(context->async_fd, &found, sizeof(found)) != (ssize_t)sizeof(found))
		return -1;
	pthread_mutex_lock(&fake5_lock);
	qp = fake5_qp_find(fake5_context_of(context)->device, found.number);
	if (qp)
		qp->unacknowledged++;
	pthread_mutex_unlock(&fake5_lock);
	*event = found.of;
	return qp ? 0 : -1;
}

/* The destruction of the queue waits for it: see ibv_destroy_qp(). */
void ibv_ack_async_event(struct ibv_async_event *event)
{
	pthread_mutex_lock(&fake5_lock);
	((struct fake5_qp *)(void *)event->element.qp)->unacknowledged--;
	pthread_cond_broadcast(&acknowledged);
	pthread_mutex_unlock(&fake5_lock);
}

/* As libibverbs: a thread that took an event of the QP may still read it. */
int ibv_destroy_qp(struct ibv_qp *handle)
{
	struct fake5_qp *qp = (struct fake5_qp *)(void *)handle;

	pthread_mutex_lock(&fake5_lock);
	fake5_qp_close(qp);
	while (qp->unacknowledged > 0)
		pthread_cond_wait(&acknowledged, &fake5_lock);
	qp_free(qp);
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}

struct devx_event {
	uint64_t cookie;
	uint8_t entry[64]; /* of the event queue */
};

void fake5_report(struct fake5_qp *qp, enum ibv_event_type type, uint8_t devx_type)
{
	struct devx_event event = {.cookie = qp->cookie, .entry = {[1] = devx_type}};

	if (qp->channel && !(qp->events >> devx_type & 1))
		return;
	if (qp->channel)
		(void)!write((int)(intptr_t)qp->base.qp_context, &event, sizeof(event));
	else if (qp->base.context)
		event_push(qp, type);
}

void fake5_break(const char *device, uint32_t number)
{
	struct fake5_qp *qp;

	pthread_mutex_lock(&fake5_lock);
	for (qp = fake5_qps;
	     qp && (qp->number != number || strcmp(qp->device->base.name, device) != 0);
	     qp = qp->next)
		;
	if (qp)
		fake5_report(qp, IBV_EVENT_QP_FATAL, 0x05);
	pthread_mutex_unlock(&fake5_lock);
}

struct channel {
	struct mlx5dv_devx_event_channel base;
	int event_fd;
};

struct mlx5dv_devx_event_channel *
mlx5dv_devx_create_event_channel(struct ibv_context *context,
				 enum mlx5dv_devx_create_event_channel_flags flags)
{
	struct channel *c;
	int fds[2];

	(void)context, (void)flags;
	/* Kernels and containers without the object of DEVX events (UCX #7229). */
	if (fake5_lacks("events")) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (pipe(fds) != 0)
		abort();
	c->base.fd = fds[0];
	c->event_fd = fds[1];
	pthread_mutex_lock(&fake5_lock);
	fake5_left_add(1);
	pthread_mutex_unlock(&fake5_lock);
	return &c->base;
}

void mlx5dv_devx_destroy_event_channel(struct mlx5dv_devx_event_channel *channel)
{
	struct channel *c = (struct channel *)channel;

	pthread_mutex_lock(&fake5_lock);
	close(c->base.fd);
	close(c->event_fd);
	free(c);
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
}

/*
 * One type that the device has not among its user_affiliated_events refuses all
 * of the call (Linux devx.c, is_valid_events; "event_07" for type 7 of the PRM).
 */
static bool event_is_valid(uint16_t number)
{
	char word[16];

	snprintf(word, sizeof(word), "event_%02x", number);
	return number < 32 && !fake5_lacks(word);
}

/* Objects are queue pairs here: see command.c. */
int mlx5dv_devx_subscribe_devx_event(struct mlx5dv_devx_event_channel *channel,
				     struct mlx5dv_devx_obj *obj, uint16_t length,
				     uint16_t numbers[], uint64_t cookie)
{
	struct fake5_qp *qp = *(struct fake5_qp **)(void *)obj;

	uint32_t events = 0;
	bool is_valid = qp && length && length % sizeof(numbers[0]) == 0;

	for (unsigned i = 0; is_valid && i < length / sizeof(numbers[0]); i++) {
		is_valid = event_is_valid(numbers[i]);
		events |= 1u << (numbers[i] & 31);
	}
	if (!is_valid) {
		errno = EINVAL;
		return -1;
	}
	pthread_mutex_lock(&fake5_lock);
	qp->events |= events;
	qp->channel = channel;
	qp->base.qp_context = (void *)(intptr_t)((struct channel *)channel)->event_fd;
	qp->cookie = cookie;
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}

ssize_t mlx5dv_devx_get_event(struct mlx5dv_devx_event_channel *channel,
			      struct mlx5dv_devx_async_event_hdr *event, size_t room)
{
	struct devx_event got;

	if (room < sizeof(got) || read(channel->fd, &got, sizeof(got)) != (ssize_t)sizeof(got))
		return -1;
	memcpy(event, &got, sizeof(got));
	return (ssize_t)sizeof(got);
}
