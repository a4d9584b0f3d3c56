/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the host, posted in chains, and their completions. They are entries of the calls
 * table: src/rdma calls them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <oriel/dev/detail/queue.h>
#include <string.h>

#include "base/error.h"
#include "hca/verbs/verbs.h"

static const enum ibv_wr_opcode call_opcodes[] = {
	[ORI_HCA_WRITE] = IBV_WR_RDMA_WRITE,
	[ORI_HCA_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[ORI_HCA_READ] = IBV_WR_RDMA_READ,
	[ORI_HCA_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[ORI_HCA_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
};

static bool call_is_atomic(const struct ori_hca_wr *wr)
{
	return wr->opcode == ORI_HCA_FETCH_ADD || wr->opcode == ORI_HCA_CAS;
}

static enum oriel_status call_check(const struct verbs_device *d, const struct ori_hca_wr *wr)
{

	if (wr->opcode > ORI_HCA_CAS)
		return ori_fail(ORIEL_ERR_INVALID, "%s: there is no operation %u", d->name,
				wr->opcode);
	if (wr->data && wr->opcode > ORI_HCA_WRITE_IMM)
		return ori_fail(ORIEL_ERR_INVALID, "%s: only WRITEs can have inline data", d->name);
	if (wr->length > d->port_attr.max_msg_sz || (call_is_atomic(wr) && wr->length != 8))
		return ori_fail(
			ORIEL_ERR_INVALID,
			"%s: a request of %u bytes is too long, or does not fit its operation",
			d->name, wr->length);
	return ORIEL_OK;
}

static unsigned call_flags(const struct ori_hca_wr *wr)
{
	return (wr->flags & ORI_HCA_SIGNALED ? (unsigned)IBV_SEND_SIGNALED : 0) |
	       (wr->flags & ORI_HCA_FENCE ? (unsigned)IBV_SEND_FENCE : 0);
}

/*
 * Only the fields of @to that its operation uses are set: to clear the rest
 * costs more than the post.
 */
static void call_translate(const struct verbs_qp *qp, const struct ori_hca_wr *wr,
			   struct ibv_send_wr *to, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){.addr = wr->local, .length = wr->length, .lkey = wr->lkey};
	to->sg_list = sge;
	to->num_sge = wr->length > 0;
	to->opcode = call_opcodes[wr->opcode];
	to->send_flags = call_flags(wr);
	if (wr->data && wr->length > 0 && wr->length <= qp->inline_max) {
		to->send_flags |= IBV_SEND_INLINE;
		sge->addr = (uint64_t)(uintptr_t)wr->data;
	}
	to->imm_data = htonl(wr->immediate);
	if (!call_is_atomic(wr)) {
		to->wr.rdma.remote_addr = wr->remote;
		to->wr.rdma.rkey = wr->rkey;
		return;
	}
	to->wr.atomic.remote_addr = wr->remote;
	to->wr.atomic.rkey = wr->rkey;
	to->wr.atomic.compare_add = wr->opcode == ORI_HCA_CAS ? wr->compare : wr->operand;
	to->wr.atomic.swap = wr->opcode == ORI_HCA_CAS ? wr->operand : 0;
}

static uint64_t call_id(const struct verbs_qp *qp, uint64_t index)
{
	return (uint64_t)qp->number << 32 | (index & ~(uint64_t)VERBS_RECEIVE & UINT32_MAX);
}

static unsigned call_room(const struct verbs_qp *qp)
{
	return qp->depth -
	       (unsigned)(qp->posted - atomic_load_explicit(&qp->done, memory_order_acquire));
}

/*
 * Posts up to VERBS_CHAIN requests, as far as they are valid and there is room;
 * counts those that the device took.
 */
static enum oriel_status call_chain(struct verbs_qp *qp, const struct ori_hca_wr *wrs,
				    unsigned count, unsigned *taken)
{
	struct ibv_send_wr chain[VERBS_CHAIN], *bad = NULL;
	struct ibv_sge sges[VERBS_CHAIN];
	enum oriel_status status = ORIEL_OK;
	unsigned fit, room = call_room(qp);
	int error;

	for (fit = 0; fit < count && fit < VERBS_CHAIN; fit++) {
		uint64_t index = qp->posted + fit;

		status = fit < room ? call_check(qp->device, &wrs[fit]) : ORIEL_AGAIN;
		if (status != ORIEL_OK)
			break;
		call_translate(qp, &wrs[fit], &chain[fit], &sges[fit]);
		chain[fit].wr_id = call_id(qp, index);
		chain[fit].next = &chain[fit + 1];
		qp->ids[index & qp->id_mask] = wrs[fit].id;
	}
	*taken = fit;
	if (fit == 0)
		return status;
	chain[fit - 1].next = NULL;
	error = ibv_post_send(qp->qp, chain, &bad);
	if (error)
		*taken = (unsigned)(bad - chain);
	qp->posted += *taken;
	return error ? ori_verbs_fail(qp->device, error, "cannot post to QP 0x%06x", qp->qp->qp_num)
		     : status;
}

static enum oriel_status call_chains(struct verbs_qp *qp, const struct ori_hca_wr *wrs,
				     unsigned count, unsigned *posted)
{
	enum oriel_status status = ORIEL_OK;
	unsigned taken;

	for (*posted = 0; *posted < count && status == ORIEL_OK; *posted += taken)
		status = call_chain(qp, wrs + *posted, count - *posted, &taken);
	return status;
}

enum oriel_status ori_verbs_post(struct ori_hca_qp *handle, const struct ori_hca_wr *wrs,
				 unsigned count, unsigned *posted)
{
	struct verbs_qp *qp = (struct verbs_qp *)handle;

	if (!qp->is_connected) {
		*posted = 0;
		return ori_fail(ORIEL_ERR_STATE, "%s: QP 0x%06x is not connected", qp->device->name,
				qp->qp->qp_num);
	}
	if (count <= VERBS_CHAIN)
		return call_chain(qp, wrs, count, posted);
	return call_chains(qp, wrs, count, posted);
}

enum oriel_status ori_verbs_post_receives(struct ori_hca_qp *handle, unsigned count)
{
	struct verbs_qp *qp = (struct verbs_qp *)handle;
	uint64_t pending = atomic_load(&qp->receives_posted) - atomic_load(&qp->receives_done);
	struct ibv_recv_wr chain[VERBS_CHAIN], *bad;
	int error;

	if (count > qp->receives - pending)
		return ori_fail(ORIEL_ERR_RANGE,
				"%s: QP 0x%06x has room for %u receives, not for %u more",
				qp->device->name, qp->qp->qp_num, qp->receives, count);
	while (count > 0) {
		unsigned part = count < VERBS_CHAIN ? count : VERBS_CHAIN;

		for (unsigned i = 0; i < part; i++)
			chain[i] = (struct ibv_recv_wr){
				.wr_id = call_id(qp, 0) | VERBS_RECEIVE,
				.next = i + 1 < part ? &chain[i + 1] : NULL,
			};
		error = ibv_post_recv(qp->qp, chain, &bad);
		if (error)
			return ori_verbs_fail(qp->device, error,
					      "cannot post receives to QP 0x%06x", qp->qp->qp_num);
		atomic_fetch_add(&qp->receives_posted, part);
		count -= part;
	}
	return ORIEL_OK;
}

static uint8_t call_syndrome(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_LOC_LEN_ERR:
		return ORIEL_SYNDROME_LOCAL_LENGTH;
	case IBV_WC_LOC_PROT_ERR:
		return ORIEL_SYNDROME_LOCAL_PROTECTION;
	case IBV_WC_WR_FLUSH_ERR:
		return ORIEL_SYNDROME_FLUSHED;
	case IBV_WC_MW_BIND_ERR:
		return ORIEL_SYNDROME_WINDOW_BIND;
	case IBV_WC_BAD_RESP_ERR:
		return ORIEL_SYNDROME_BAD_RESPONSE;
	case IBV_WC_LOC_ACCESS_ERR:
		return ORIEL_SYNDROME_LOCAL_ACCESS;
	case IBV_WC_REM_INV_REQ_ERR:
		return ORIEL_SYNDROME_REMOTE_REQUEST;
	case IBV_WC_REM_ACCESS_ERR:
		return ORIEL_SYNDROME_REMOTE_ACCESS;
	case IBV_WC_REM_OP_ERR:
		return ORIEL_SYNDROME_REMOTE_OPERATION;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return ORIEL_SYNDROME_RETRY_EXCEEDED;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ORIEL_SYNDROME_NOT_READY_EXCEEDED;
	case IBV_WC_REM_ABORT_ERR:
		return ORIEL_SYNDROME_REMOTE_ABORTED;
	default:
		return ORIEL_SYNDROME_LOCAL_OPERATION;
	}
}

static bool call_is_port_up(const struct verbs_device *d)
{
	struct ibv_port_attr port;

	memset(&port, 0, sizeof(port));
	return ori_ibverbs.query_port(d->context, d->port,
				      (struct _compat_ibv_port_attr *)(void *)&port) != 0 ||
	       port.state == IBV_PORT_ACTIVE;
}

/*
 * With its cable cut, rxe cannot send and blames the request; other devices let
 * retries run out.
 */
static uint8_t call_cause(const struct verbs_device *d, enum ibv_wc_status status)
{
	if (status == IBV_WC_LOC_QP_OP_ERR && !call_is_port_up(d))
		return ORIEL_SYNDROME_RETRY_EXCEEDED;
	return call_syndrome(status);
}

static uint8_t call_opcode(enum ibv_wc_opcode opcode, const struct ibv_wc *wc)
{
	switch (opcode) {
	case IBV_WC_RDMA_READ:
		return ORI_HCA_READ;
	case IBV_WC_FETCH_ADD:
		return ORI_HCA_FETCH_ADD;
	case IBV_WC_COMP_SWAP:
		return ORI_HCA_CAS;
	default:
		return wc->wc_flags & IBV_WC_WITH_IMM ? ORI_HCA_WRITE_IMM : ORI_HCA_WRITE;
	}
}

static void call_receive(struct verbs_qp *qp, const struct ibv_wc *from, struct ori_hca_wc *wc)
{
	atomic_fetch_add(&qp->receives_done, 1);
	wc->is_receive = true;
	wc->opcode = ORI_HCA_WRITE_IMM;
	if (from->status != IBV_WC_SUCCESS)
		return;
	wc->length = from->byte_len;
	wc->immediate = ntohl(from->imm_data);
}

/* False: the completion is of a destroyed QP. */
static bool call_read(struct verbs_cq *cq, const struct ibv_wc *from, struct ori_hca_wc *wc)
{
	uint32_t number = (uint32_t)(from->wr_id >> 32), low = (uint32_t)from->wr_id;
	struct verbs_qp *qp = atomic_load(&cq->device->qps[number & (VERBS_TABLE - 1)]);
	uint64_t index;

	if (!qp || qp->number != number)
		return false;
	*wc = (struct ori_hca_wc){.qpn = qp->qp->qp_num,
				  .syndrome = call_cause(cq->device, from->status)};
	if (wc->syndrome) {
		wc->vendor = from->vendor_err;
		wc->status = ori_dev_queue_err_status(
			ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, wc->syndrome, 0, 0));
	}
	if (low & VERBS_RECEIVE) {
		call_receive(qp, from, wc);
		return true;
	}
	index = atomic_load_explicit(&qp->done, memory_order_relaxed);
	index += (low - index) & ~VERBS_RECEIVE;
	wc->id = qp->ids[index & qp->id_mask];
	if (!wc->syndrome)
		wc->opcode = call_opcode(from->opcode, from);
	atomic_store_explicit(&qp->done, index + 1, memory_order_release);
	return true;
}

/*
 * The lock keeps the QP of each completion alive. A poll that finds no
 * completion, as most polls do, needs no lock beside the provider's.
 */
static unsigned call_read_all(struct verbs_cq *cq, const struct ibv_wc *found, unsigned count,
			      struct ori_hca_wc *wcs)
{
	unsigned returned = 0, i;

	pthread_mutex_lock(&cq->lock);
	for (i = 0; i < count; i++)
		returned += call_read(cq, &found[i], &wcs[returned]);
	pthread_mutex_unlock(&cq->lock);
	return returned;
}

enum oriel_status ori_verbs_poll(struct ori_hca_cq *handle, struct ori_hca_wc *wcs, unsigned room,
				 unsigned *count)
{
	struct verbs_cq *cq = (struct verbs_cq *)handle;
	struct ibv_wc found[VERBS_CHAIN];
	unsigned returned = 0, part = 0;
	int got = 0;

	while (returned < room && got == (int)part) {
		part = room - returned < VERBS_CHAIN ? room - returned : VERBS_CHAIN;
		got = ibv_poll_cq(cq->cq, (int)part, found);
		if (got <= 0)
			break;
		returned += call_read_all(cq, found, (unsigned)got, &wcs[returned]);
	}
	*count = returned;
	if (returned == 0 && (got < 0 || atomic_load_explicit(&cq->is_dead, memory_order_relaxed)))
		return ori_fail(ORIEL_ERR_STATE, "%s: a CQ has failed: it was overrun",
				cq->device->name);
	return ORIEL_OK;
}
