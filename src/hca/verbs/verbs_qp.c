/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues by libibverbs: reliable connections, through their states. verbs.c has them in its
 * tables; mlx5 calls those that it shares.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "hca/verbs/verbs.h"

#define QP_PSN_MASK 0x00ffffffu

enum oriel_status ori_verbs_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				      struct ori_hca_cq **out, uint32_t *cqn)
{
	struct verbs_device *d = (struct verbs_device *)hca;
	struct verbs_cq *cq;

	if (attr->ring)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: its queues have no rings: post by calls", d->name);
	if (attr->depth == 0 || attr->depth > (uint32_t)d->attr.max_cqe)
		return ori_fail(ORIEL_ERR_RANGE, "%s: a CQ has 1 to %d entries, not %u", d->name,
				d->attr.max_cqe, attr->depth);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return ori_fail_nomem(sizeof(*cq), "a CQ of %s", d->name);
	cq->device = d;
	cq->cq = ori_ibverbs.create_cq(d->context, (int)attr->depth, cq, NULL, 0);
	if (!cq->cq) {
		int error = errno;

		free(cq);
		return ori_verbs_fail(d, error, "cannot create a CQ of %u entries", attr->depth);
	}
	pthread_mutex_init(&cq->lock, NULL);
	*cqn = cq->cq->handle;
	*out = (struct ori_hca_cq *)cq;
	return ORIEL_OK;
}

void ori_verbs_destroy_cq(struct ori_hca_cq *handle)
{
	struct verbs_cq *cq = (struct verbs_cq *)handle;

	ori_ibverbs.destroy_cq(cq->cq);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
}

/* False if all slots are taken. Numbers return only after many others. */
static bool qp_number(struct verbs_device *d, struct verbs_qp *qp)
{
	bool is_found = false;

	pthread_mutex_lock(&d->lock);
	for (uint32_t i = 0; i < VERBS_TABLE && !is_found; i++) {
		qp->number = ++d->lap;
		is_found = !atomic_load(&d->qps[qp->number & (VERBS_TABLE - 1)]);
	}
	if (is_found)
		atomic_store(&d->qps[qp->number & (VERBS_TABLE - 1)], qp);
	pthread_mutex_unlock(&d->lock);
	return is_found;
}

/*
 * A poller holds the lock while it uses a QP: once the lock was free, the poll
 * that began earlier is over.
 */
static void qp_wait_for_poll(struct verbs_cq *cq)
{
	if (!cq)
		return;
	pthread_mutex_lock(&cq->lock);
	pthread_mutex_unlock(&cq->lock);
}

/* A poller may have found the QP just before this, and still uses it under the lock. */
static void qp_forget(struct verbs_qp *qp)
{
	atomic_store(&qp->device->qps[qp->number & (VERBS_TABLE - 1)], NULL);
	qp_wait_for_poll(qp->send_cq);
	qp_wait_for_poll(qp->receive_cq);
}

static enum oriel_status qp_check(const struct verbs_device *d, const struct ori_hca_qp_attr *attr)
{
	const struct verbs_cq *send_cq = (const struct verbs_cq *)attr->send_cq;
	const struct verbs_cq *receive_cq = (const struct verbs_cq *)attr->receive_cq;

	if (attr->ring)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: its queues have no rings: post by calls", d->name);
	if (attr->depth == 0 || attr->depth > (uint32_t)d->attr.max_qp_wr ||
	    attr->receives > (uint32_t)d->attr.max_qp_wr)
		return ori_fail(ORIEL_ERR_RANGE, "%s: a QP takes 1 to %d requests, not %u", d->name,
				d->attr.max_qp_wr, attr->depth);
	if (!send_cq || send_cq->device != d)
		return ori_fail(ORIEL_ERR_INVALID, "%s: the CQ of a QP is of another NIC", d->name);
	if (attr->receives && (!receive_cq || receive_cq->device != d))
		return ori_fail(ORIEL_ERR_INVALID, "%s: receives need a CQ of their NIC", d->name);
	return ORIEL_OK;
}

static struct ibv_qp *qp_ask(const struct verbs_qp *qp, uint32_t inline_max)
{
	struct ibv_qp_init_attr init = {
		.send_cq = qp->send_cq->cq,
		.recv_cq = (qp->receive_cq ? qp->receive_cq : qp->send_cq)->cq,
		.cap = {.max_send_wr = qp->depth,
			.max_recv_wr = qp->receives,
			.max_send_sge = 1,
			.max_recv_sge = qp->receives ? 1 : 0,
			.max_inline_data = inline_max},
		.qp_type = IBV_QPT_RC,
	};

	return ori_ibverbs.create_qp(qp->device->pd, &init);
}

/*
 * These bounds fit inside WQEs of 256, 128 and 64 bytes of a ConnectX. Other
 * devices have other bounds, which only a rejection shows, and as many requests
 * may not fit with longer WQEs.
 */
static enum oriel_status qp_make(struct verbs_qp *qp)
{
	static const uint32_t inline_max[3] = {220, 92, ORI_HCA_INLINE_MAX};
	struct verbs_device *d = qp->device;
	unsigned i;

	errno = EINVAL;
	for (i = 0; i < 3 && !qp->qp && errno == EINVAL; i++) {
		qp->inline_max = inline_max[i];
		qp->qp = qp_ask(qp, inline_max[i]);
	}
	if (!qp->qp)
		return ori_verbs_fail(d, errno, "cannot create a QP of %u requests, %u receives",
				      qp->depth, qp->receives);
	return ORIEL_OK;
}

static enum oriel_status qp_move(struct verbs_qp *qp, struct ibv_qp_attr *attr, int mask,
				 const char *state)
{
	int error;

	assert(qp->qp);
	error = ori_ibverbs.modify_qp(qp->qp, attr, mask | IBV_QP_STATE);
	if (!error)
		return ORIEL_OK;
	return ori_verbs_fail(qp->device, error, "QP 0x%06x does not become %s", qp->qp->qp_num,
			      state);
}

/* The QP allows every access: the registration alone decides. */
static enum oriel_status qp_initialise(struct verbs_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = qp->device->port,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	return qp_move(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		       "initialised");
}

/*
 * Packets of an earlier connection with the same QP number must not match, so
 * the first PSN is random.
 */
enum oriel_status ori_verbs_draw_psn(uint32_t *psn)
{
	uint32_t drawn;

	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "no random PSN");
	*psn = drawn & QP_PSN_MASK;
	return ORIEL_OK;
}

/* On failure it destroys what it has created. */
static enum oriel_status qp_open(struct verbs_qp *qp)
{
	enum oriel_status status = ori_verbs_draw_psn(&qp->psn);

	if (status == ORIEL_OK)
		status = qp_initialise(qp);
	if (status == ORIEL_OK && !qp_number(qp->device, qp))
		status = ori_fail(ORIEL_ERR_NOMEM, "%s: %u QPs at most", qp->device->name,
				  VERBS_TABLE);
	if (status != ORIEL_OK)
		ori_ibverbs.destroy_qp(qp->qp);
	return status;
}

static void qp_describe(const struct verbs_qp *qp, struct ori_hca_qp_address *address)
{
	ori_verbs_describe((const struct ori_hca *)qp->device, address);
	address->qpn = qp->qp->qp_num;
	address->psn = qp->psn;
}

enum oriel_status ori_verbs_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				      struct ori_hca_qp **out, struct ori_hca_qp_address *address)
{
	struct verbs_device *d = (struct verbs_device *)hca;
	enum oriel_status status = qp_check(d, attr);
	uint64_t slots = 1;
	struct verbs_qp *qp;

	if (status != ORIEL_OK)
		return status;
	while (slots < attr->depth)
		slots *= 2;
	qp = calloc(1, sizeof(*qp) + slots * sizeof(qp->ids[0]));
	if (!qp)
		return ori_fail_nomem(sizeof(*qp) + slots * sizeof(qp->ids[0]), "a QP of %s",
				      d->name);
	qp->device = d;
	qp->send_cq = (struct verbs_cq *)attr->send_cq;
	qp->receive_cq = (struct verbs_cq *)attr->receive_cq;
	qp->depth = attr->depth;
	qp->id_mask = slots - 1;
	qp->receives = attr->receives;
	status = qp_make(qp);
	if (status == ORIEL_OK)
		status = qp_open(qp);
	if (status != ORIEL_OK) {
		free(qp);
		return status;
	}
	qp_describe(qp, address);
	*out = (struct ori_hca_qp *)qp;
	return ORIEL_OK;
}

enum oriel_status ori_verbs_adopt_qp(struct verbs_device *d, struct ibv_qp *made,
				     struct verbs_qp **out, struct ori_hca_qp_address *address)
{
	struct verbs_qp *qp = calloc(1, sizeof(*qp));
	enum oriel_status status;

	if (!qp) {
		ori_ibverbs.destroy_qp(made);
		return ori_fail_nomem(sizeof(*qp), "a QP of %s", d->name);
	}
	qp->device = d;
	qp->qp = made;
	status = qp_open(qp);
	if (status != ORIEL_OK) {
		free(qp);
		return status;
	}
	qp_describe(qp, address);
	*out = qp;
	return ORIEL_OK;
}

static uint32_t qp_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static enum ibv_mtu qp_mtu(uint32_t bytes)
{
	return (enum ibv_mtu)(__builtin_ctz(bytes) - 7);
}

static enum oriel_status qp_receive_from(struct verbs_qp *qp, const struct ori_hca_qp_address *peer,
					 const struct verbs_address *at)
{
	const struct verbs_device *d = qp->device;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = qp_mtu(qp_least(peer->mtu, d->mtu)),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = (uint8_t)d->attr.max_qp_rd_atom,
		.min_rnr_timer = VERBS_MIN_RNR_TIMER,
	};
	enum oriel_status status = ori_verbs_ah_attr(d, at, &attr.ah_attr);

	if (status != ORIEL_OK)
		return status;
	return qp_move(qp, &attr,
		       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		       "ready to receive (are both NICs on one network, and is the GID, "
		       "ORIEL_IB_GID_INDEX, of that network?)");
}

static enum oriel_status qp_send_to(struct verbs_qp *qp, const struct ori_hca_qp_address *peer)
{
	const struct verbs_device *d = qp->device;
	uint32_t reads = qp_least(peer->max_rd_atomic, (uint32_t)d->attr.max_qp_init_rd_atom);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = qp->psn,
		.max_rd_atomic = (uint8_t)qp_least(reads, 255),
		.timeout = d->settings.timeout,
		.retry_cnt = d->settings.retry,
		.rnr_retry = d->settings.rnr_retry,
	};

	return qp_move(qp, &attr,
		       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			       IBV_QP_RNR_RETRY,
		       "ready to send");
}

enum oriel_status ori_verbs_connect_qp(struct ori_hca_qp *handle,
				       const struct ori_hca_qp_address *peer)
{
	struct verbs_qp *qp = (struct verbs_qp *)handle;
	struct verbs_address at;
	enum oriel_status status;

	if (qp->is_connected)
		return ori_fail(ORIEL_ERR_STATE, "%s: QP 0x%06x is connected already",
				qp->device->name, qp->qp->qp_num);
	status = ori_verbs_check_peer(qp->device, peer, &at);
	if (status == ORIEL_OK)
		status = qp_receive_from(qp, peer, &at);
	if (status == ORIEL_OK)
		status = qp_send_to(qp, peer);
	qp->is_connected = status == ORIEL_OK;
	return status;
}

void ori_verbs_fail_qp(struct ori_hca_qp *handle)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	qp_move((struct verbs_qp *)handle, &attr, 0, "one in error");
}

void ori_verbs_destroy_qp(struct ori_hca_qp *handle)
{
	struct verbs_qp *qp = (struct verbs_qp *)handle;

	qp_forget(qp);
	ori_ibverbs.destroy_qp(qp->qp);
	free(qp);
}
