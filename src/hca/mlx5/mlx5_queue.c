/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: with rings by one of two routes, or without, by verbs alone. A poster gets the
 * addresses of the parts from place(). The table of mlx5.c has them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/mlx5.h>

#include "base/error.h"
#include "base/log.h"
#include "hca/mlx5/mlx5_device.h"

#define QUEUE_BLANK 0xff /* byte of a CQE before it is written: invalid, owner 1 */

static bool queue_is_depth(uint32_t depth)
{
	return depth >= 2 && depth <= ORIEL_MLX5_DEPTH_MAX && (depth & (depth - 1)) == 0;
}

static enum oriel_status queue_check(const struct mlx5_device *d, uint32_t depth, bool is_for_gpu,
				     const void *ring)
{
	if (ring)
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"%s: a queue has a ring of the NIC (has_own_ring), not of the caller",
			d->verbs.name);
	if (!queue_is_depth(depth))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: rings have a power of two slots, up to %u, not %u",
				d->verbs.name, ORIEL_MLX5_DEPTH_MAX, depth);
	if (is_for_gpu && !d->gpu)
		return ori_fail(ORIEL_ERR_INVALID, "%s: rings for a GPU need use_gpu() first",
				d->verbs.name);
	return ORIEL_OK;
}

/* Do rings of kernels lie in the GPU's own memory? */
static bool queue_is_on_gpu(const struct mlx5_device *d, bool is_for_gpu)
{
	return is_for_gpu && d->report.tier == ORI_MLX5_T0;
}

/*
 * The page size of a ring is that of its umem. The field of the command is
 * reserved then: DOCA GPUNetIO and UCX (gdaki) leave it 0, that is 4096 bytes.
 */
static enum oriel_status cq_command(struct mlx5_cq *cq)
{
	struct mlx5_device *d = cq->device;
	const struct ori_prm_cq command = {
		.depth = cq->depth,
		.ignores_overrun = true,
		.uar_page = d->uars.of[0].dv->page_id,
		.eqn = d->eqn,
		.page_length = MLX5_PAGE,
		.umem = cq->piece.chunk->umem->umem_id,
		.umem_offset = ori_mlx5_piece_offset(&cq->piece, ori_mlx5_piece_ring(&cq->piece)),
		.record_umem = cq->piece.chunk->umem->umem_id,
		.record_offset =
			ori_mlx5_piece_offset(&cq->piece, ori_mlx5_piece_record(&cq->piece)),
	};
	uint8_t in[ORI_PRM_CREATE_LENGTH];
	enum oriel_status status = ori_prm_encode_create_cq(&command, in, sizeof(in));

	if (status != ORIEL_OK)
		return status;
	return ori_mlx5_create(d, "CREATE_CQ", in, sizeof(in), &cq->object, &cq->number);
}

/* CQEs are marked invalid before the command: from then on the device may write them. */
static enum oriel_status cq_open_devx(struct mlx5_cq *cq)
{
	struct mlx5_device *d = cq->device;
	enum oriel_status status =
		ori_mlx5_piece_open(d, cq->depth, queue_is_on_gpu(d, cq->is_for_gpu), &cq->piece);

	if (status == ORIEL_OK)
		status = ori_mlx5_piece_fill(d, &cq->piece, cq->depth, QUEUE_BLANK);
	if (status == ORIEL_OK)
		status = cq_command(cq);
	if (status == ORIEL_OK)
		cq->ring = ori_mlx5_piece_ring(&cq->piece);
	return status;
}

/* Find the CQ that verbs made; no thread may poll it through verbs afterwards. */
static enum oriel_status cq_find(struct mlx5_cq *cq)
{
	struct mlx5_device *d = cq->device;
	struct mlx5dv_cq found = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq->by_verbs.cq, .out = &found}};
	int error = ori_mlx5dv.init_obj(&obj, MLX5DV_OBJ_CQ);
	void *at;

	if (error)
		return ori_verbs_fail(&d->verbs, error, "cannot find the ring of a CQ");
	if (found.cqe_size != ORIEL_MLX5_BLOCK || found.cqe_cnt != cq->depth)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: verbs made a CQ of %u CQEs of 64 bytes with %u of %u (is "
				"MLX5_CQE_SIZE set?)",
				d->verbs.name, cq->depth, found.cqe_cnt, found.cqe_size);
	cq->ring = found.buf;
	cq->number = found.cqn;
	memset(cq->ring, QUEUE_BLANK, (size_t)cq->depth * ORIEL_MLX5_BLOCK);
	if (!cq->is_for_gpu)
		return ORIEL_OK;
	return ori_mlx5_map(d, cq->ring, (size_t)cq->depth * ORIEL_MLX5_BLOCK, false, &cq->mapping,
			    &at);
}

/* Verbs round up one more than the asked depth. */
static enum oriel_status cq_open_verbs(struct mlx5_cq *cq)
{
	struct mlx5_device *d = cq->device;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cq->depth - 1,
		.cq_context = &cq->by_verbs,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct mlx5dv_cq_init_attr more = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
		.cqe_size = ORIEL_MLX5_BLOCK,
	};
	struct ibv_cq_ex *made = ori_mlx5dv.create_cq(d->verbs.context, &attr, &more);

	if (!made)
		return ori_verbs_fail(&d->verbs, errno, "cannot create a CQ of %u entries",
				      cq->depth);
	cq->by_verbs.device = &d->verbs;
	cq->by_verbs.cq = ibv_cq_ex_to_cq(made);
	return cq_find(cq);
}

static void cq_free(struct mlx5_cq *cq)
{
	if (cq->object)
		ori_mlx5dv.obj_destroy(cq->object);
	ori_mlx5_unmap(cq->device, cq->mapping);
	if (cq->by_verbs.cq)
		ori_ibverbs.destroy_cq(cq->by_verbs.cq);
	ori_mlx5_piece_close(cq->device, &cq->piece);
	free(cq);
}

static enum oriel_status cq_open(struct mlx5_cq *cq, const struct ori_hca_cq_attr *attr)
{
	struct mlx5_device *d = cq->device;
	enum oriel_status status;

	if (!attr->has_own_ring && !attr->ring)
		return ori_verbs_create_cq((struct ori_hca *)d, attr, &cq->called, &cq->number);
	status = queue_check(d, attr->depth, attr->is_for_gpu, attr->ring);
	if (status != ORIEL_OK)
		return status;
	cq->depth = attr->depth;
	cq->is_for_gpu = attr->is_for_gpu;
	return d->report.is_devx ? cq_open_devx(cq) : cq_open_verbs(cq);
}

enum oriel_status ori_mlx5_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
				     struct ori_hca_cq **out, uint32_t *cqn)
{
	struct mlx5_device *d = to_mlx5(hca);
	struct mlx5_cq *cq = calloc(1, sizeof(*cq));
	enum oriel_status status;

	if (!cq)
		return ori_fail_nomem(sizeof(*cq), "a CQ of %s", d->verbs.name);
	cq->device = d;
	status = cq_open(cq, attr);
	if (status != ORIEL_OK) {
		cq_free(cq);
		return status;
	}
	*cqn = cq->number;
	*out = (struct ori_hca_cq *)cq;
	return ORIEL_OK;
}

void ori_mlx5_destroy_cq(struct ori_hca_cq *handle)
{
	struct mlx5_cq *cq = (struct mlx5_cq *)handle;

	if (cq->called)
		ori_verbs_destroy_cq(cq->called);
	cq_free(cq);
}

static enum oriel_status qp_command(struct mlx5_qp *qp, struct ori_prm_qp *command)
{
	uint8_t in[ORI_PRM_CREATE_LENGTH];
	enum oriel_status status = ori_prm_encode_create_qp(command, in, sizeof(in));

	if (status != ORIEL_OK)
		return status;
	return ori_mlx5_create(qp->device, "CREATE_QP", in, sizeof(in), &qp->object, &qp->number);
}

/*
 * Older firmware without a choice of time stamps wants the field to be 0. Linux asks first, for
 * qp_ts_format of the RoCE capabilities or sq_ts_format of the general ones
 * (mlx5_get_qp_default_ts()); UCX does not ask and sets 1. The answer to the command is that
 * choice without the queries; no thread reads the time stamp of a CQE. Some firmware rejects
 * cd_master although WAITs work on the QP.
 */
static enum oriel_status qp_try_all(struct mlx5_qp *qp, struct ori_prm_qp *command)
{
	enum oriel_status status = qp_command(qp, command);

	if (status == ORIEL_OK)
		return status;
	command->timestamps = ORI_PRM_TIMESTAMPS_FREE_RUNNING;
	status = qp_command(qp, command);
	if (status == ORIEL_OK)
		qp->device->report.has_no_stamps = true;
	if (status == ORIEL_OK || !command->is_companion)
		return status;
	ori_log(ORIEL_LOG_DEBUG, "%s: the firmware rejects cd_master: a QP without it will WAIT",
		qp->device->verbs.name);
	command->is_companion = false;
	status = qp_command(qp, command);
	qp->device->report.has_no_master |= status == ORIEL_OK;
	return status;
}

/* Errors of earlier attempts are dropped if a later one succeeds. */
static enum oriel_status qp_try(struct mlx5_qp *qp, struct ori_prm_qp *command)
{
	struct ori_error before;

	ori_error_save(&before);
	return ori_error_end(&before, qp_try_all(qp, command));
}

/* A QP needs a receive CQ though it has no receives: its send CQ serves as both. */
static enum oriel_status qp_make_devx(struct mlx5_qp *qp, uint32_t depth, bool is_companion)
{
	struct mlx5_device *d = qp->device;
	const struct mlx5_piece *piece = &qp->piece;
	struct ori_prm_qp command = {
		.pd = d->pd,
		.depth = depth,
		.uar_page = qp->uar->dv->page_id,
		.page_length = MLX5_PAGE,
		.send_cqn = qp->cq->number,
		.receive_cqn = qp->cq->number,
		.timestamps = ORI_PRM_TIMESTAMPS_DEFAULT,
		.is_companion = is_companion,
		.umem = piece->chunk->umem->umem_id,
		.umem_offset = ori_mlx5_piece_offset(piece, ori_mlx5_piece_ring(piece)),
		.record_umem = piece->chunk->umem->umem_id,
		.record_offset = ori_mlx5_piece_offset(piece, ori_mlx5_piece_record(piece)),
	};

	return qp_try(qp, &command);
}

static enum oriel_status qp_open_devx(struct mlx5_qp *qp, const struct ori_hca_qp_attr *attr)
{
	struct mlx5_device *d = qp->device;
	enum oriel_status status =
		ori_mlx5_piece_open(d, attr->depth, queue_is_on_gpu(d, qp->is_for_gpu), &qp->piece);

	if (status == ORIEL_OK)
		status = ori_mlx5_piece_fill(d, &qp->piece, attr->depth, 0);
	if (status == ORIEL_OK)
		status = ori_verbs_draw_psn(&qp->psn);
	qp->uar = ori_mlx5_uar_take(d);
	if (status == ORIEL_OK)
		status = qp_make_devx(qp, attr->depth, attr->is_companion);
	if (status != ORIEL_OK)
		return status;
	ori_mlx5_subscribe(d, qp->object, qp->number);
	status = ori_mlx5_initialise(qp);
	if (status != ORIEL_OK)
		return status;
	qp->reg = qp->uar->dv->reg_addr;
	qp->place = (struct ori_hca_queue_memory){.sq = ori_mlx5_piece_ring(&qp->piece),
						  .cq = qp->cq->ring,
						  .record = ori_mlx5_piece_record(&qp->piece)};
	return ORIEL_OK;
}

/* Find the ring that verbs made, which may be mapped for kernels. */
static enum oriel_status qp_find(struct mlx5_qp *qp, uint32_t depth)
{
	struct mlx5_device *d = qp->device;
	struct mlx5dv_qp found = {0};
	struct mlx5dv_obj obj = {.qp = {.in = qp->verbs->qp, .out = &found}};
	int error = ori_mlx5dv.init_obj(&obj, MLX5DV_OBJ_QP);
	enum oriel_status status;
	void *at;

	if (error)
		return ori_verbs_fail(&d->verbs, error, "cannot find the ring of a QP");
	if (found.sq.stride != ORIEL_MLX5_BLOCK || found.sq.wqe_cnt != depth)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: verbs made a ring of %u WQEs of 64 bytes with %u of %u",
				d->verbs.name, depth, found.sq.wqe_cnt, found.sq.stride);
	qp->reg = found.bf.reg;
	qp->place = (struct ori_hca_queue_memory){.sq = found.sq.buf,
						  .cq = qp->cq->ring,
						  .record = (uint32_t *)found.dbrec};
	memset(qp->place.sq, 0, (size_t)depth * ORIEL_MLX5_BLOCK);
	if (!qp->is_for_gpu)
		return ORIEL_OK;
	status = ori_mlx5_map(d, qp->place.sq, (size_t)depth * ORIEL_MLX5_BLOCK, false,
			      &qp->mappings[1], &at);
	if (status == ORIEL_OK)
		status = ori_mlx5_map(d, qp->place.record, 8, false, &qp->mappings[2], &at);
	return status;
}

static enum oriel_status qp_open_verbs(struct mlx5_qp *qp, const struct ori_hca_qp_attr *attr)
{
	struct mlx5_device *d = qp->device;
	struct ori_hca_qp_address address;
	/* More operations, or inline data, would make each WQE slot bigger. */
	struct ibv_qp_init_attr_ex init = {
		.send_cq = qp->cq->by_verbs.cq,
		.recv_cq = qp->cq->by_verbs.cq,
		.cap = {.max_send_wr = attr->depth, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d->verbs.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
	struct mlx5dv_qp_init_attr more = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};
	struct ibv_qp *made = ori_mlx5dv.create_qp(d->verbs.context, &init, &more);
	enum oriel_status status;

	if (!made)
		return ori_verbs_fail(&d->verbs, errno, "cannot create a QP of %u requests",
				      attr->depth);
	status = ori_verbs_adopt_qp(&d->verbs, made, &qp->verbs, &address);
	if (status != ORIEL_OK)
		return status;
	qp->number = address.qpn;
	qp->psn = address.psn;
	return qp_find(qp, attr->depth);
}

/*
 * The word that the poster writes: the register if kernels map it, or a word
 * that stands for it.
 */
static enum oriel_status qp_place_doorbell(struct mlx5_qp *qp)
{
	struct mlx5_device *d = qp->device;
	enum oriel_status status;
	void *at;

	if (d->report.tier == ORI_MLX5_T2 && (qp->is_for_gpu || !d->gpu)) {
		status = ori_mlx5_doorbell_open(d, qp->reg, &qp->doorbell);
		qp->place.doorbell = qp->doorbell.word;
		return status;
	}
	qp->place.doorbell = qp->reg;
	/*
	 * Posters do a full fence where the HCA may sleep; the fence also
	 * drains combined stores.
	 */
	if (!d->report.is_devx || d->uars.is_combining)
		qp->place.asleep = &d->zero;
	if (!qp->is_for_gpu)
		return ORIEL_OK;
	status = ori_mlx5_map(d, qp->reg, 8, true, &qp->mappings[0], &at);
	if (status == ORIEL_OK) {
		qp->place.doorbell = at;
		qp->place.asleep = NULL;
	}
	return status;
}

/*
 * A DEVX queue is destroyed before the doorbell and ring that it uses, a queue of verbs
 * after the mappings of its ring, since verbs free that memory.
 */
static void qp_free(struct mlx5_qp *qp)
{
	struct mlx5_device *d = qp->device;

	if (qp->object)
		ori_mlx5dv.obj_destroy(qp->object);
	ori_mlx5_doorbell_close(d, &qp->doorbell);
	for (size_t i = 0; i < sizeof(qp->mappings) / sizeof(qp->mappings[0]); i++)
		ori_mlx5_unmap(d, qp->mappings[i]);
	if (qp->verbs)
		ori_verbs_destroy_qp((struct ori_hca_qp *)qp->verbs);
	if (qp->uar)
		ori_mlx5_uar_give(d, qp->uar);
	ori_mlx5_piece_close(d, &qp->piece);
	free(qp);
}

static enum oriel_status qp_open_ring(struct mlx5_qp *qp, const struct ori_hca_qp_attr *attr)
{
	struct mlx5_device *d = qp->device;
	enum oriel_status status = queue_check(d, attr->depth, attr->is_for_gpu, attr->ring);

	if (status != ORIEL_OK)
		return status;
	if (!qp->cq || qp->cq->device != d || qp->cq->called || qp->cq->depth != attr->depth ||
	    qp->cq->is_for_gpu != attr->is_for_gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: a QP with a ring needs a CQ of the same NIC that has a ring "
				"of the same depth for the same posters",
				d->verbs.name);
	if (attr->is_companion && !d->report.has_wait)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: no QP of this tier can WAIT",
				d->verbs.name);
	qp->has_ring = true;
	qp->is_for_gpu = attr->is_for_gpu;
	status = d->report.is_devx ? qp_open_devx(qp, attr) : qp_open_verbs(qp, attr);
	return status == ORIEL_OK ? qp_place_doorbell(qp) : status;
}

static enum oriel_status qp_open_called(struct mlx5_qp *qp, const struct ori_hca_qp_attr *attr,
					struct ori_hca_qp_address *address)
{
	struct mlx5_device *d = qp->device;
	const struct mlx5_cq *receive_cq = (const struct mlx5_cq *)attr->receive_cq;
	struct ori_hca_qp_attr inner = *attr;
	struct ori_hca_qp *made;
	enum oriel_status status;

	if (!qp->cq || !qp->cq->called)
		return ori_fail(ORIEL_ERR_INVALID, "%s: a QP without a ring needs a CQ without one",
				d->verbs.name);
	inner.send_cq = qp->cq->called;
	inner.receive_cq = receive_cq ? receive_cq->called : NULL;
	status = ori_verbs_create_qp((struct ori_hca *)d, &inner, &made, address);
	if (status == ORIEL_OK)
		qp->verbs = (struct verbs_qp *)made;
	return status;
}

enum oriel_status ori_mlx5_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
				     struct ori_hca_qp **out, struct ori_hca_qp_address *address)
{
	struct mlx5_device *d = to_mlx5(hca);
	struct mlx5_qp *qp = calloc(1, sizeof(*qp));
	struct ori_hca_qp_address found;
	enum oriel_status status;

	if (!qp)
		return ori_fail_nomem(sizeof(*qp), "a QP of %s", d->verbs.name);
	qp->device = d;
	qp->cq = (struct mlx5_cq *)attr->send_cq;
	if (attr->has_own_ring || attr->ring) {
		status = qp_open_ring(qp, attr);
		ori_verbs_describe(hca, &found);
		found.qpn = qp->number;
		found.psn = qp->psn;
	} else {
		status = qp_open_called(qp, attr, &found);
	}
	if (status != ORIEL_OK) {
		qp_free(qp);
		return status;
	}
	*address = found;
	*out = (struct ori_hca_qp *)qp;
	return ORIEL_OK;
}

void ori_mlx5_destroy_qp(struct ori_hca_qp *handle)
{
	qp_free((struct mlx5_qp *)handle);
}
