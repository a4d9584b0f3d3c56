/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: the next thread that posts or polls executes a request, if its peer is ready. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_objects.h"

struct fake_cq {
	struct ibv_cq base;
	unsigned first, count;
	bool is_dead;
	struct ibv_wc *entries; /* [base.cqe] */
};

struct fake_request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	char data[FAKE_INLINE];
};

struct fake_qp {
	struct ibv_qp base;
	struct fake_qp *next;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	unsigned first, count; /* of requests */
	unsigned receive_first, receive_count;
	struct fake_request *requests; /* [cap.max_send_wr] */
	uint64_t *receives;            /* [cap.max_recv_wr] */
};

static struct fake_qp *qps; /* guarded by fake_lock, as all queues are */
static uint32_t next_qpn = 0x100;

static struct fake_qp *queue_find(uint32_t qpn)
{
	struct fake_qp *qp = qps;

	while (qp && qp->base.qp_num != qpn)
		qp = qp->next;
	return qp;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	(void)channel, (void)vector;
	errno = fake_failure("create_cq");
	if (errno)
		return NULL;
	cq = calloc(1, sizeof(*cq));
	cq->base.context = context;
	cq->base.cq_context = cq_context;
	cq->base.cqe = cqe;
	cq->entries = calloc((size_t)cqe, sizeof(*cq->entries));
	fake_count(1);
	return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *handle)
{
	struct fake_cq *cq = (struct fake_cq *)handle;

	pthread_mutex_lock(&fake_lock);
	fake_forget_events(handle->context, handle);
	pthread_mutex_unlock(&fake_lock);
	free(cq->entries);
	free(cq);
	fake_count(-1);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp;

	errno = fake_failure("create_qp");
	if (!errno && (init->qp_type != IBV_QPT_RC || init->sq_sig_all ||
		       init->cap.max_inline_data > FAKE_INLINE))
		errno = EINVAL;
	if (errno)
		return NULL;
	qp = calloc(1, sizeof(*qp));
	qp->base.context = pd->context;
	qp->base.pd = pd;
	qp->base.send_cq = init->send_cq;
	qp->base.recv_cq = init->recv_cq;
	qp->cap = init->cap;
	qp->requests = calloc(init->cap.max_send_wr, sizeof(*qp->requests));
	qp->receives = calloc(init->cap.max_recv_wr + 1, sizeof(*qp->receives));
	pthread_mutex_lock(&fake_lock);
	qp->base.qp_num = ++next_qpn;
	qp->next = qps;
	qps = qp;
	pthread_mutex_unlock(&fake_lock);
	fake_count(1);
	return &qp->base;
}

/* Completions of a destroyed QP stay in its CQ, as with some providers. */
int ibv_destroy_qp(struct ibv_qp *handle)
{
	struct fake_qp *qp = (struct fake_qp *)handle, **at;

	pthread_mutex_lock(&fake_lock);
	for (at = &qps; *at != qp; at = &(*at)->next)
		;
	*at = qp->next;
	fake_forget_events(handle->context, handle);
	pthread_mutex_unlock(&fake_lock);
	free(qp->requests);
	free(qp->receives);
	free(qp);
	fake_count(-1);
	return 0;
}

static void queue_complete(struct ibv_cq *handle, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)handle;
	struct ibv_async_event event = {.event_type = IBV_EVENT_CQ_ERR, .element.cq = handle};

	if (cq->is_dead)
		return;
	if (cq->count == (unsigned)cq->base.cqe) {
		cq->is_dead = true;
		fake_push_event(handle->context, &event);
		return;
	}
	cq->entries[(cq->first + cq->count++) % (unsigned)cq->base.cqe] = *wc;
}

static void queue_finish(struct fake_qp *qp, const struct fake_request *r,
			 enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	};
	struct ibv_wc wc = {.wr_id = r->wr.wr_id,
			    .status = status,
			    .opcode = status ? (enum ibv_wc_opcode)0x7f : opcodes[r->wr.opcode],
			    .vendor_err = status ? 0x42 : 0,
			    .qp_num = qp->base.qp_num};

	qp->first = (qp->first + 1) % qp->cap.max_send_wr;
	qp->count--;
	if (status || (r->wr.send_flags & IBV_SEND_SIGNALED))
		queue_complete(qp->base.send_cq, &wc);
}

static void queue_receive(struct fake_qp *qp, const struct ibv_send_wr *wr, uint32_t length,
			  enum ibv_wc_status status)
{
	struct ibv_wc wc = {.wr_id = qp->receives[qp->receive_first],
			    .status = status,
			    .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
			    .qp_num = qp->base.qp_num};

	if (wr) {
		wc.byte_len = length;
		wc.imm_data = wr->imm_data;
		wc.wc_flags = IBV_WC_WITH_IMM;
	}
	qp->receive_first = (qp->receive_first + 1) % qp->cap.max_recv_wr;
	qp->receive_count--;
	queue_complete(qp->base.recv_cq, &wc);
}

static void queue_flush(struct fake_qp *qp)
{
	qp->base.state = IBV_QPS_ERR;
	while (qp->count)
		queue_finish(qp, &qp->requests[qp->first], IBV_WC_WR_FLUSH_ERR);
	while (qp->receive_count)
		queue_receive(qp, NULL, 0, IBV_WC_WR_FLUSH_ERR);
}

/* Do packets of @a arrive at @b? Those of RoCE go by their GID alone. */
static bool queue_arrives(const struct fake_qp *a, const struct fake_qp *b)
{
	const struct fake_device *from = fake_device_of(a->base.context);
	const struct fake_device *to = fake_device_of(b->base.context);
	union ibv_gid gid;

	if (from->is_ib || to->is_ib)
		return from->is_ib && to->is_ib &&
		       fake_ib_arrives(&from->ib, &a->attr, &to->ib, &b->attr);
	fake_gid(b->base.context, a->attr.ah_attr.grh.dgid.raw[14], &gid);
	return memcmp(&gid, &a->attr.ah_attr.grh.dgid, sizeof(gid)) == 0;
}

/* Do these two form one connection, with the same packets and numbers? */
static bool queue_is_joined(const struct fake_qp *a, const struct fake_qp *b)
{
	return queue_arrives(a, b) && b->attr.dest_qp_num == a->base.qp_num &&
	       a->attr.path_mtu == b->attr.path_mtu &&
	       a->attr.path_mtu <= fake_device_of(b->base.context)->mtu &&
	       b->attr.rq_psn == a->attr.sq_psn &&
	       a->attr.max_rd_atomic <= b->attr.max_dest_rd_atomic;
}

static uint64_t queue_atomic(const struct ibv_send_wr *wr, uint64_t *at)
{
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return __atomic_fetch_add(at, wr->wr.atomic.compare_add, __ATOMIC_ACQ_REL);
	uint64_t old = wr->wr.atomic.compare_add;

	__atomic_compare_exchange_n(at, &old, wr->wr.atomic.swap, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return old;
}

static unsigned queue_access(enum ibv_wr_opcode opcode)
{
	if (opcode == IBV_WR_RDMA_READ)
		return IBV_ACCESS_REMOTE_READ;
	return opcode < IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;
}

/* A word that a poller may read is stored at once, after earlier bytes. */
static void queue_copy(void *to, const void *from, size_t length)
{
	bool is_aligned = (((uintptr_t)to | (uintptr_t)from) & (length - 1)) == 0;

	if (length == 8 && is_aligned)
		__atomic_store_n((uint64_t *)to,
				 __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else if (length == 4 && is_aligned)
		__atomic_store_n((uint32_t *)to,
				 __atomic_load_n((const uint32_t *)from, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else
		memmove(to, from, length);
}

static enum ibv_wc_status queue_move(struct fake_qp *qp, struct fake_qp *peer,
				     struct fake_request *r)
{
	bool is_atomic = r->wr.opcode > IBV_WR_RDMA_READ;
	bool is_fetching = r->wr.opcode >= IBV_WR_RDMA_READ;
	uint64_t at = is_atomic ? r->wr.wr.atomic.remote_addr : r->wr.wr.rdma.remote_addr;
	uint32_t key = is_atomic ? r->wr.wr.atomic.rkey : r->wr.wr.rdma.rkey;
	uint32_t length = r->wr.num_sge ? r->sge.length : 0;
	char *local = r->data, *remote;
	uint64_t old;

	if (length == 0)
		return IBV_WC_SUCCESS;
	if (!(r->wr.send_flags & IBV_SEND_INLINE))
		local = fake_find(qp->base.pd, r->sge.lkey, r->sge.addr, length,
				  is_fetching ? IBV_ACCESS_LOCAL_WRITE : 0);
	if (!local)
		return IBV_WC_LOC_PROT_ERR;
	remote = fake_find(peer->base.pd, key, at, length, queue_access(r->wr.opcode));
	if (!remote)
		return IBV_WC_REM_ACCESS_ERR;
	if (is_fetching || fake_is_dmabuf(local))
		fake_release_held();
	if (is_atomic) {
		old = queue_atomic(&r->wr, (uint64_t *)(void *)remote);
		queue_copy(local, &old, sizeof(old));
	} else if (is_fetching) {
		queue_copy(local, remote, length);
	} else if (!fake_hold_write(remote, local, length)) {
		queue_copy(remote, local, length);
	}
	return IBV_WC_SUCCESS;
}

static void queue_break(struct fake_qp *qp, struct fake_qp *peer, enum ibv_wc_status status)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_QP_ACCESS_ERR};

	queue_finish(qp, &qp->requests[qp->first], status);
	queue_flush(qp);
	if (status != IBV_WC_REM_ACCESS_ERR)
		return;
	event.element.qp = &peer->base;
	fake_push_event(peer->base.context, &event);
	queue_flush(peer);
}

static bool queue_port_waits(const struct fake_qp *qp)
{
	const struct fake_device *d = fake_device_of(qp->base.context);

	return d->is_ib && d->ib.state != IBV_PORT_ACTIVE;
}

/* The first request of @qp; false if it has to wait. */
static bool queue_step(struct fake_qp *qp)
{
	struct fake_request *r = &qp->requests[qp->first];
	struct fake_qp *peer = queue_find(qp->attr.dest_qp_num);
	bool is_immediate = r->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	enum ibv_wc_status status;

	if (atomic_load(&fake_device_of(qp->base.context)->is_cut)) {
		queue_break(qp, peer, IBV_WC_LOC_QP_OP_ERR);
		return true;
	}
	if (peer && (peer->base.state == IBV_QPS_RESET || peer->base.state == IBV_QPS_INIT))
		return false;
	/* The HCA tries again for a while; here, as long as the port is not active. */
	if (queue_port_waits(qp) || (peer && queue_port_waits(peer)))
		return false;
	if (!peer || peer->base.state == IBV_QPS_ERR || !queue_is_joined(qp, peer)) {
		queue_break(qp, peer, IBV_WC_RETRY_EXC_ERR);
		return true;
	}
	if (is_immediate && peer->receive_count == 0)
		return false;
	status = queue_move(qp, peer, r);
	if (status) {
		queue_break(qp, peer, status);
		return true;
	}
	if (is_immediate)
		queue_receive(peer, &r->wr, r->wr.num_sge ? r->sge.length : 0, IBV_WC_SUCCESS);
	queue_finish(qp, r, IBV_WC_SUCCESS);
	return true;
}

static void queue_run(void)
{
	for (struct fake_qp *qp = qps; qp; qp = qp->next)
		while (qp->base.state == IBV_QPS_RTS && qp->count && queue_step(qp))
			;
}

/* The rules of the link layer of @qp for its next state. */
static int queue_check(const struct fake_qp *qp, const struct ibv_qp_attr *attr)
{
	const struct fake_device *d = fake_device_of(qp->base.context);

	if (attr->qp_state == IBV_QPS_INIT && d->is_ib)
		return fake_ib_check_init(attr);
	if (attr->qp_state != IBV_QPS_RTR)
		return 0;
	if (d->is_ib)
		return fake_ib_check_rtr(&d->ib, attr);
	/* Linux, drivers/infiniband/core/verbs.c, rdma_check_ah_attr(): RoCE has a GRH always. */
	return attr->ah_attr.is_global ? 0 : EINVAL;
}

int ibv_modify_qp(struct ibv_qp *handle, struct ibv_qp_attr *attr, int mask)
{
	static const int needs[] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
				IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
		[IBV_QPS_ERR] = 0,
	};
	struct fake_qp *qp = (struct fake_qp *)handle;
	int error = fake_failure(attr->qp_state == IBV_QPS_RTR   ? "rtr"
				 : attr->qp_state == IBV_QPS_RTS ? "rts"
								 : "modify_qp");

	if (error)
		return error;
	if (attr->qp_state == IBV_QPS_SQD || attr->qp_state == IBV_QPS_SQE ||
	    (mask & ~IBV_QP_STATE) != needs[attr->qp_state] ||
	    (attr->qp_state != IBV_QPS_ERR && attr->qp_state != qp->base.state + 1))
		return EINVAL;
	pthread_mutex_lock(&fake_lock);
	error = queue_check(qp, attr);
	if (error) {
		pthread_mutex_unlock(&fake_lock);
		return error;
	}
	if (attr->qp_state == IBV_QPS_RTS) {
		qp->attr.sq_psn = attr->sq_psn;
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
		qp->attr.timeout = attr->timeout;
		qp->attr.retry_cnt = attr->retry_cnt;
		qp->attr.rnr_retry = attr->rnr_retry;
	} else if (attr->qp_state != IBV_QPS_ERR) {
		uint16_t pkey_index = qp->attr.pkey_index;

		qp->attr = *attr;
		if (attr->qp_state != IBV_QPS_INIT)
			qp->attr.pkey_index = pkey_index;
	}
	qp->base.state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_ERR)
		queue_flush(qp);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

static int queue_take(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct fake_request *r;

	if (qp->base.state != IBV_QPS_RTS && qp->base.state != IBV_QPS_ERR)
		return EINVAL;
	if (qp->count == qp->cap.max_send_wr)
		return ENOMEM;
	r = &qp->requests[(qp->first + qp->count) % qp->cap.max_send_wr];
	*r = (struct fake_request){.wr = *wr};
	if (wr->num_sge)
		r->sge = wr->sg_list[0];
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (r->sge.length > qp->cap.max_inline_data)
			return EINVAL;
		memcpy(r->data, (void *)(uintptr_t)r->sge.addr, r->sge.length);
	}
	qp->count++;
	if (qp->base.state == IBV_QPS_ERR)
		queue_flush(qp);
	return 0;
}

int fake_post_send(struct ibv_qp *handle, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)handle;
	int error = 0;

	for (; wr; wr = wr->next) {
		error = fake_failure("post_send");
		pthread_mutex_lock(&fake_lock);
		if (!error)
			error = queue_take(qp, wr);
		pthread_mutex_unlock(&fake_lock);
		if (error)
			break;
	}
	*bad = wr;
	pthread_mutex_lock(&fake_lock);
	queue_run();
	pthread_mutex_unlock(&fake_lock);
	return error;
}

int fake_post_recv(struct ibv_qp *handle, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)handle;
	int error = fake_failure("post_recv");

	pthread_mutex_lock(&fake_lock);
	for (; wr && !error; wr = error ? wr : wr->next) {
		if (qp->base.state == IBV_QPS_RESET)
			error = EINVAL;
		else if (qp->receive_count == qp->cap.max_recv_wr)
			error = ENOMEM;
		if (error)
			break;
		qp->receives[(qp->receive_first + qp->receive_count++) % qp->cap.max_recv_wr] =
			wr->wr_id;
		if (qp->base.state == IBV_QPS_ERR)
			queue_flush(qp);
	}
	*bad = wr;
	queue_run();
	pthread_mutex_unlock(&fake_lock);
	return error;
}

int fake_poll_cq(struct ibv_cq *handle, int room, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)handle;
	int found = 0;

	pthread_mutex_lock(&fake_lock);
	queue_run();
	for (; found < room && cq->count; found++) {
		wc[found] = cq->entries[cq->first];
		cq->first = (cq->first + 1) % (unsigned)cq->base.cqe;
		cq->count--;
	}
	if (found == 0 && cq->is_dead)
		found = -1;
	pthread_mutex_unlock(&fake_lock);
	return found;
}

const struct ibv_qp_attr *fake_attr(uint32_t qpn)
{
	const struct fake_qp *qp;

	pthread_mutex_lock(&fake_lock);
	qp = queue_find(qpn);
	pthread_mutex_unlock(&fake_lock);
	return qp ? &qp->attr : NULL;
}

void fake_report(enum ibv_event_type type, uint32_t qpn)
{
	struct ibv_async_event event = {.event_type = type};
	struct fake_qp *qp;

	pthread_mutex_lock(&fake_lock);
	qp = queue_find(qpn);
	if (type == IBV_EVENT_CQ_ERR)
		event.element.cq = qp->base.send_cq;
	else
		event.element.qp = &qp->base;
	fake_push_event(qp->base.context, &event);
	pthread_mutex_unlock(&fake_lock);
}

void fake_report_port(enum ibv_event_type type, uint32_t qpn, uint8_t port)
{
	struct ibv_async_event event = {.event_type = type, .element.port_num = port};

	pthread_mutex_lock(&fake_lock);
	fake_push_event(queue_find(qpn)->base.context, &event);
	pthread_mutex_unlock(&fake_lock);
}
