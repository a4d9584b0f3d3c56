/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Firmware: commands arrive as bytes, and the decoders are as strict as the
 * encoders. A command that a real device would accept and then execute wrongly
 * is rejected as well, each with a syndrome of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <oriel/dev/detail/mlx5.h>

#include "hca/soft/soft_engine.h"
#include "objects.h"

#define COMMANDS 16u
#define UMEM_HUGE (2u << 20)
#define UMEM_UNITS 64u /* of a page, in offsets */

enum status { STATUS_OK = 0, STATUS_BAD_PARAMETER = 3, STATUS_BAD_STATE = 4, STATUS_SIZE = 0x40 };

enum syndrome {
	BAD_BYTES = 0x100,
	BAD_UMEM,
	BAD_UAR,
	BAD_EQN,
	BAD_PD,
	BAD_CQ,
	BAD_CQES, /* would count as completions */
	BAD_STAMPS,
	BAD_MASTER,
	BAD_NUMBER,
	BAD_STATE,
	BAD_MTU,
	BAD_PATH,
	BAD_GRH,
	BAD_MAC,
	BAD_PORT,
	BAD_RIGHTS,
};

/* The object of obj_create(): @qp comes first, see queue.c. */
struct mlx5dv_devx_obj {
	struct fake5_qp *qp; /* NULL: a CQ */
	struct fake5_cq *cq;
	struct ibv_context *context;
};

static struct fake5_umem *umems;

static struct {
	enum ori_prm_opcode opcode;
	unsigned length;
	uint8_t in[ORI_PRM_CREATE_LENGTH];
} commands[COMMANDS]; /* the last of each opcode */

static void command_keep(enum ori_prm_opcode opcode, const void *in, size_t length)
{
	unsigned i = 0;

	while (commands[i].opcode && commands[i].opcode != opcode)
		i++;
	commands[i].opcode = opcode;
	commands[i].length = (unsigned)length;
	memcpy(commands[i].in, in, length);
}

unsigned fake5_command(enum ori_prm_opcode opcode, void *in, unsigned length)
{
	unsigned found = 0;

	pthread_mutex_lock(&fake5_lock);
	for (unsigned i = 0; i < COMMANDS; i++)
		if (commands[i].opcode == opcode) {
			found = commands[i].length < length ? commands[i].length : length;
			memcpy(in, commands[i].in, found);
		}
	pthread_mutex_unlock(&fake5_lock);
	return found;
}

static struct fake5_umem *umem_find(const struct ibv_context *context, uint32_t id)
{
	struct fake5_umem *u = umems;

	while (u && (u->base.umem_id != id || u->context != context))
		u = u->next;
	return u;
}

static char *umem_at(const struct fake5_umem *u, uint64_t offset, uint64_t length)
{
	return offset <= u->length && length <= u->length - offset ? u->memory + offset : NULL;
}

/* Records are named by their address, in units of 8 bytes. */
static char *umem_record(const struct ibv_context *context, uint32_t id, uint64_t offset)
{
	const struct fake5_umem *u = umem_find(context, id);

	return u && offset % 8 == 0 ? umem_at(u, offset, 8) : NULL;
}

/*
 * A ring begins at a multiple of 1/64 of the page that the kernel chose
 * (page_offset of the PRM has 6 bits; UCX #11103, and gdaki.c
 * uct_rc_gdaki_calc_dev_ep_layout). The older mlx5dv_devx_umem_reg() names no
 * pages, which promises to use no offset at all (Linux devx.c,
 * devx_umem_reg_cmd_alloc); the fake
 * does not have it.
 */
static char *umem_ring(const struct ibv_context *context, uint32_t id, uint64_t offset,
		       uint64_t length)
{
	const struct fake5_umem *u = umem_find(context, id);

	return u && offset % u->unit == 0 ? umem_at(u, offset, length) : NULL;
}

static struct fake5_page *page_find(const struct fake5_device *d, uint32_t id)
{
	struct fake5_page *page = fake5_pages;

	while (page && (page->id != id || page->device != d))
		page = page->next;
	return page;
}

/* Only the driver marks CQEs invalid before the first of them is written. */
static bool cqes_are_blank(const char *ring, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		uint8_t last = (uint8_t)ring[(size_t)i * 64 + 63];

		if (last >> 4 != ORIEL_MLX5_INVALID || !(last & 1))
			return false;
	}
	return true;
}

static enum syndrome cq_make(struct ibv_context *context, const void *in, size_t length,
			     struct mlx5dv_devx_obj *obj, uint32_t *number)
{
	struct fake5_device *d = fake5_context_of(context)->device;
	struct ori_hca_cq_attr attr = {0};
	struct ori_prm_cq cq;
	char *record;

	if (ori_prm_decode_create_cq(in, length, &cq) != ORIEL_OK)
		return BAD_BYTES;
	if (cq.eqn != FAKE5_EQN)
		return BAD_EQN;
	if (!page_find(d, cq.uar_page))
		return BAD_UAR;
	attr.ring = umem_ring(context, cq.umem, cq.umem_offset, (uint64_t)cq.depth * 64);
	record = umem_record(context, cq.record_umem, cq.record_offset);
	if (!attr.ring || !record)
		return BAD_UMEM;
	if (!cqes_are_blank(attr.ring, cq.depth))
		return BAD_CQES;
	attr.depth = cq.depth;
	attr.is_collapsed = cq.is_collapsed;
	attr.record = cq.ignores_overrun ? NULL : (uint32_t *)(void *)record;
	obj->cq = calloc(1, sizeof(*obj->cq));
	obj->cq->device = d;
	obj->cq->depth = cq.depth;
	if (fake5_soft()->create_cq(d->soft, &attr, &obj->cq->soft, number) != ORIEL_OK) {
		free(obj->cq);
		return BAD_CQ;
	}
	obj->cq->number = *number;
	obj->cq->next = fake5_cqs;
	fake5_cqs = obj->cq;
	fake5_left_add(1);
	return 0;
}

static enum syndrome qp_check(struct ibv_context *context, const struct ori_prm_qp *qp)
{
	struct fake5_context *c = fake5_context_of(context);

	if (qp->pd != c->pdn)
		return BAD_PD;
	if (!page_find(c->device, qp->uar_page))
		return BAD_UAR;
	if (!fake5_cq_find(c->device, qp->send_cqn) || !fake5_cq_find(c->device, qp->receive_cqn))
		return BAD_CQ;
	/* Linux include/linux/mlx5/qp.h, mlx5_get_qp_default_ts(): 0 is all that it has then. */
	if (fake5_lacks("stamps") && qp->timestamps != ORI_PRM_TIMESTAMPS_FREE_RUNNING)
		return BAD_STAMPS;
	if (fake5_lacks("master") && qp->is_companion)
		return BAD_MASTER;
	return 0;
}

static enum syndrome qp_make(struct ibv_context *context, const void *in, size_t length,
			     struct mlx5dv_devx_obj *obj, uint32_t *number)
{
	struct fake5_device *d = fake5_context_of(context)->device;
	struct ori_hca_qp_attr attr = {0};
	enum syndrome syndrome;
	struct fake5_qp *qp;
	struct ori_prm_qp asked;

	if (ori_prm_decode_create_qp(in, length, &asked) != ORIEL_OK)
		return BAD_BYTES;
	syndrome = qp_check(context, &asked);
	if (syndrome)
		return syndrome;
	attr.ring = umem_ring(context, asked.umem, asked.umem_offset, (uint64_t)asked.depth * 64);
	attr.record =
		(uint32_t *)(void *)umem_record(context, asked.record_umem, asked.record_offset);
	if (!attr.ring || !attr.record)
		return BAD_UMEM;
	attr.depth = asked.depth;
	attr.send_cq = fake5_cq_find(d, asked.send_cqn)->soft;
	/*
	 * Linux qp.c sets cd_master for a QP that WAITs, and asks for the capability cd first
	 * (IB_QP_CREATE_CROSS_CHANNEL). DOCA GPUNetIO of NCCL sets it with a setter of 64 bits
	 * that misses the bit, and its companions WAIT: "master". Whether firmware lets a QP
	 * without the bit WAIT is not documented: "plain_wait".
	 */
	attr.is_companion =
		asked.is_companion || (fake5_lacks("master") && !fake5_lacks("plain_wait"));
	qp = calloc(1, sizeof(*qp));
	qp->device = d;
	qp->page = page_find(d, asked.uar_page);
	qp->record = attr.record;
	if (fake5_qp_open(qp, &attr) != 0) {
		free(qp);
		return BAD_NUMBER;
	}
	*number = qp->number;
	obj->qp = qp;
	return 0;
}

/* Fails as kernel and firmware do: an answer with a status, and errno. */
static int command_end(enum ori_prm_opcode opcode, enum syndrome syndrome, const void *in,
		       size_t length, uint32_t number, void *out, size_t room)
{
	struct ori_prm_reply reply = {syndrome ? (uint32_t)STATUS_BAD_PARAMETER : STATUS_OK,
				      syndrome, number};

	fake5_count.commands++;
	fake5_count.refused += syndrome != 0;
	if (!syndrome)
		command_keep(opcode, in, length);
	if (ori_prm_encode_reply(&reply, out, room) != ORIEL_OK)
		abort();
	return syndrome ? EREMOTEIO : 0;
}

struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in,
					       size_t length, void *out, size_t room)
{
	struct mlx5dv_devx_obj *obj = calloc(1, sizeof(*obj));
	enum ori_prm_opcode opcode = 0;
	enum syndrome syndrome = BAD_BYTES;
	uint32_t number = 0;
	int error;

	pthread_mutex_lock(&fake5_lock);
	(void)ori_prm_command_opcode(in, length, &opcode);
	obj->context = context;
	error = fake5_failure(opcode == ORI_PRM_CREATE_CQ ? "CREATE_CQ" : "CREATE_QP");
	if (!error && !fake5_context_of(context)->has_devx)
		error = EOPNOTSUPP;
	if (!error) {
		if (opcode == ORI_PRM_CREATE_CQ)
			syndrome = cq_make(context, in, length, obj, &number);
		else if (opcode == ORI_PRM_CREATE_QP)
			syndrome = qp_make(context, in, length, obj, &number);
		error = command_end(opcode, syndrome, in, length, number, out, room);
	}
	pthread_mutex_unlock(&fake5_lock);
	if (!error)
		return obj;
	free(obj);
	errno = error;
	return NULL;
}

int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *obj)
{
	struct fake5_cq **at;

	pthread_mutex_lock(&fake5_lock);
	if (obj->qp) {
		fake5_qp_close(obj->qp);
		free(obj->qp);
	} else {
		for (at = &fake5_cqs; *at != obj->cq; at = &(*at)->next)
			;
		*at = obj->cq->next;
		fake5_soft()->destroy_cq(obj->cq->soft);
		free(obj->cq);
		fake5_left_add(-1);
	}
	free(obj);
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}

static enum syndrome modify_init(struct fake5_qp *qp, const void *in, size_t length)
{
	if (ori_prm_decode_rst2init(in, length, &qp->init) != ORIEL_OK)
		return BAD_BYTES;
	if (qp->init.qpn != qp->number)
		return BAD_NUMBER;
	if (qp->state != FAKE5_RESET)
		return BAD_STATE;
	if (qp->init.port != 1)
		return BAD_PORT;
	/* The library uses every permission; firmware would reject requests later. */
	if (!qp->init.allows_read || !qp->init.allows_write || !qp->init.allows_atomic ||
	    qp->init.atomic_mode == ORI_PRM_ATOMIC_NONE)
		return BAD_RIGHTS;
	qp->state = FAKE5_INIT;
	return 0;
}

static enum syndrome path_check_ethernet(struct fake5_qp *qp, const struct ori_prm_path *path)
{
	if (!path->is_ethernet || !fake5_find_gid(path->gid, &qp->peer) || !qp->peer.is_ethernet)
		return BAD_PATH;
	if (memcmp(path->mac, qp->peer.mac, sizeof(path->mac)) != 0)
		return BAD_MAC;
	/*
	 * RoCE v1 has index 0. Source ports are of the dynamic range of IANA (Linux ib_verbs.h,
	 * IB_ROCE_UDP_ENCAP_VALID_PORT_MIN, which rdma_flow_label_to_udp_sport() keeps to).
	 */
	if (path->gid_index == 0 || path->gid_index >= FAKE5_GIDS || path->hop_limit == 0 ||
	    path->udp_source_port < 0xc000)
		return BAD_PATH;
	return 0;
}

static enum syndrome path_check_ib(struct fake5_qp *qp, const struct ori_prm_path *path)
{
	unsigned lid = path->lid;

	if (path->is_ethernet)
		return BAD_PATH;
	/* A router takes it on, which looks at the GID alone. */
	if (lid >> 8 == FAKE5_FLID >> 8) {
		if (!path->has_grh || !fake5_find_gid(path->gid, &qp->peer) || path->hop_limit < 2)
			return BAD_GRH;
		return (lid & 0xff) == qp->peer.gid[5] ? 0 : BAD_PATH;
	}
	if (!fake5_find_lid((uint16_t)lid, &qp->peer) || qp->peer.is_ethernet ||
	    qp->peer.gid[7] != qp->device->subnet)
		return BAD_PATH;
	if (!path->has_grh)
		return qp->device->demands_grh ? BAD_GRH : 0;
	return memcmp(path->gid, qp->peer.gid, 16) == 0 && path->hop_limit ? 0 : BAD_GRH;
}

static enum syndrome modify_rtr(struct fake5_qp *qp, const void *in, size_t length)
{
	enum syndrome syndrome;

	if (ori_prm_decode_init2rtr(in, length, &qp->rtr) != ORIEL_OK)
		return BAD_BYTES;
	if (qp->rtr.qpn != qp->number)
		return BAD_NUMBER;
	if (qp->state != FAKE5_INIT)
		return BAD_STATE;
	if (qp->rtr.path.port != 1)
		return BAD_PORT;
	syndrome = qp->device->is_ethernet ? path_check_ethernet(qp, &qp->rtr.path)
					   : path_check_ib(qp, &qp->rtr.path);
	if (syndrome)
		return syndrome;
	/* A larger MTU would lose full packets. */
	if (qp->rtr.mtu > qp->device->mtu || qp->rtr.mtu > qp->peer.mtu)
		return BAD_MTU;
	qp->state = FAKE5_RTR;
	return 0;
}

static enum syndrome modify_rts(struct fake5_qp *qp, const void *in, size_t length)
{
	struct ori_prm_rts rts;

	if (ori_prm_decode_rtr2rts(in, length, &rts) != ORIEL_OK)
		return BAD_BYTES;
	if (rts.qpn != qp->number)
		return BAD_NUMBER;
	if (qp->state != FAKE5_RTR)
		return BAD_STATE;
	return fake5_qp_connect(qp, rts.send_psn, rts.max_rd_atomic) == 0 ? 0 : BAD_PATH;
}

static enum syndrome modify_object(struct fake5_qp *qp, const void *in, size_t length)
{
	struct ori_prm_object object;

	if (ori_prm_decode_object(in, length, &object) != ORIEL_OK)
		return BAD_BYTES;
	if (object.number != qp->number || object.opcode != ORI_PRM_2ERR_QP)
		return BAD_NUMBER;
	fake5_soft()->fail_qp(qp->soft);
	qp->state = FAKE5_ERROR;
	return 0;
}

int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *obj, const void *in, size_t length, void *out,
			   size_t room)
{
	enum ori_prm_opcode opcode = 0;
	enum syndrome syndrome = BAD_BYTES;
	int error;

	pthread_mutex_lock(&fake5_lock);
	(void)ori_prm_command_opcode(in, length, &opcode);
	if (!obj->qp)
		syndrome = BAD_NUMBER;
	else if (opcode == ORI_PRM_RST2INIT_QP)
		syndrome = modify_init(obj->qp, in, length);
	else if (opcode == ORI_PRM_INIT2RTR_QP)
		syndrome = modify_rtr(obj->qp, in, length);
	else if (opcode == ORI_PRM_RTR2RTS_QP)
		syndrome = modify_rts(obj->qp, in, length);
	else if (opcode == ORI_PRM_2ERR_QP)
		syndrome = modify_object(obj->qp, in, length);
	error = fake5_failure("modify_qp");
	if (!error)
		error = command_end(opcode, syndrome, in, length, 0, out, room);
	pthread_mutex_unlock(&fake5_lock);
	return error;
}

/*
 * dp_ordering_0 says that WRITEs and READs are placed in any order, dp_ordering_force that the
 * context decides and not the default of the port (UCX ib_mlx5_dv.c,
 * uct_ib_mlx5_devx_set_qpc_dp_ordering(); capability dp_ordering_force of Linux mlx5_ifc.h). A
 * device without these fields leaves them 0.
 */
static void query_qp(struct fake5_qp *qp, void *out, size_t room)
{
	static const enum ori_prm_qp_status states[] = {
		[FAKE5_RESET] = ORI_PRM_QP_RST,   [FAKE5_INIT] = ORI_PRM_QP_INIT,
		[FAKE5_RTR] = ORI_PRM_QP_RTR,     [FAKE5_RTS] = ORI_PRM_QP_RTS,
		[FAKE5_ERROR] = ORI_PRM_QP_ERROR,
	};
	struct soft_qp *soft = (struct soft_qp *)(void *)qp->soft;
	struct ori_prm_qp_state state = {.status = states[qp->state],
					 .ordering = fake5_lacks("order"),
					 .is_order_forced = fake5_lacks("default_order")};

	ori_soft_engine_lock(soft->node->engine);
	if (soft->state == SOFT_ERROR)
		state.status = ORI_PRM_QP_ERROR;
	state.executed = (uint16_t)soft->fetch;
	state.posted = (uint16_t)soft->end;
	ori_soft_engine_unlock(soft->node->engine);
	if (ori_prm_encode_qp_state(&state, out, room) != ORIEL_OK)
		abort();
}

static void query_cq(struct fake5_cq *cq, void *out, size_t room)
{
	struct soft_cq *soft = (struct soft_cq *)(void *)cq->soft;
	struct ori_prm_cq_state state = {0};

	ori_soft_engine_lock(soft->node->engine);
	state.producer = (uint32_t)soft->next & 0xffffff;
	ori_soft_engine_unlock(soft->node->engine);
	if (ori_prm_encode_cq_state(&state, out, room) != ORIEL_OK)
		abort();
}

int mlx5dv_devx_obj_query(struct mlx5dv_devx_obj *obj, const void *in, size_t length, void *out,
			  size_t room)
{
	struct ori_prm_object object;
	int error = EREMOTEIO;

	pthread_mutex_lock(&fake5_lock);
	memset(out, 0, room);
	if (ori_prm_decode_object(in, length, &object) == ORIEL_OK) {
		if (obj->qp && object.opcode == ORI_PRM_QUERY_QP && !fake5_lacks("contexts") &&
		    object.number == obj->qp->number) {
			query_qp(obj->qp, out, room);
			error = 0;
		} else if (obj->cq && object.opcode == ORI_PRM_QUERY_CQ &&
			   object.number == obj->cq->number) {
			query_cq(obj->cq, out, room);
			error = 0;
		}
	}
	pthread_mutex_unlock(&fake5_lock);
	return error;
}

static const struct ori_prm_caps general = {
	.qp_depth_max = 32768,
	.cq_depth_max = 1u << 22,
	.cqe_version = 1,
	.can_ignore_overrun = true,
	.can_wait = true,
	.has_uar_4k = true,
	.bf_length = 512,
	.uar_page_length = 4096,
};

static const struct ori_prm_atomic_caps atomics = {
	.operations = 0xf,
	.sizes_qp = 0xc,
	.sizes_dc = 0xc,
};

static bool command_caps(const struct ori_prm_query_caps *query, void *out, size_t room)
{
	const struct ori_prm_paging_caps paging = {!fake5_lacks("faults")};
	struct ori_prm_atomic_caps atomic = atomics;
	struct ori_prm_caps caps = general;
	const char *scenario = getenv("FAKEMLX5_SOFT");

	/*
	 * Linux (qp.c, cq.c) rejects what needs a capability that is not there: cd for queues that
	 * WAIT, cq_oi for CQs that ignore overruns.
	 */
	caps.can_wait = !fake5_lacks("wait");
	caps.can_ignore_overrun = !fake5_lacks("oi");
	atomic.endianness_mode = !scenario || !strstr(scenario, "big_endian=1");
	if (query->type == ORI_PRM_CAPS_GENERAL)
		return ori_prm_encode_caps(&caps, out, room) == ORIEL_OK;
	if (query->type == ORI_PRM_CAPS_PAGING)
		return ori_prm_encode_paging_caps(&paging, out, room) == ORIEL_OK;
	return ori_prm_encode_atomic_caps(&atomic, out, room) == ORIEL_OK;
}

/* The state of joined ports lies where other answers have a number (UCX ib_mlx5_ifc.h). */
static bool command_lag(const void *in, size_t length, void *out, size_t room)
{
	const struct ori_prm_reply reply = {.number = fake5_lacks("one_path")};
	enum ori_prm_opcode opcode = 0;

	return ori_prm_command_opcode(in, length, &opcode) == ORIEL_OK &&
	       opcode == ORI_PRM_QUERY_LAG && ori_prm_encode_reply(&reply, out, room) == ORIEL_OK;
}

int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t length, void *out,
			    size_t room)
{
	struct ori_prm_query_caps query;
	int error;

	pthread_mutex_lock(&fake5_lock);
	error = fake5_failure("general_cmd");
	if (!error && !fake5_context_of(context)->has_devx)
		error = EOPNOTSUPP;
	if (!error && !command_lag(in, length, out, room) &&
	    (ori_prm_decode_query_caps(in, length, &query) != ORIEL_OK ||
	     !command_caps(&query, out, room)))
		error = EREMOTEIO;
	pthread_mutex_unlock(&fake5_lock);
	return error;
}

int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn)
{
	if (!fake5_context_of(context)->has_devx || vector != 0)
		return EOPNOTSUPP;
	*eqn = FAKE5_EQN;
	return 0;
}

/*
 * The page that the kernel chooses (Linux devx.c, devx_umem_find_best_pgsize):
 * the largest of @bitmap by which physical addresses are contiguous, then halves
 * of it until the length is a multiple. Memory of the fake is contiguous, as huge
 * or merged pages are. 0: none fits.
 */
static uint64_t umem_page(size_t length, uint64_t bitmap)
{
	uint64_t page = UMEM_HUGE;

	while (page >= FAKE5_PAGE && (!(bitmap & page) || page / 2 >= length))
		page /= 2;
	while (page > FAKE5_PAGE && length % page)
		page /= 2;
	return page >= FAKE5_PAGE ? page : 0;
}

static struct mlx5dv_devx_umem *umem_add(struct ibv_context *context, char *memory, size_t length,
					 uint64_t unit, bool is_mapped)
{
	static uint32_t numbers;
	struct fake5_umem *u = calloc(1, sizeof(*u));

	pthread_mutex_lock(&fake5_lock);
	u->base.umem_id = 0x7000 + ++numbers;
	u->context = context;
	u->memory = memory;
	u->length = length;
	u->unit = unit;
	u->is_mapped = is_mapped;
	u->next = umems;
	umems = u;
	fake5_left_add(1);
	pthread_mutex_unlock(&fake5_lock);
	return &u->base;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
						 struct mlx5dv_devx_umem_in *in)
{
	uint64_t page = umem_page(in->size, in->pgsz_bitmap);
	bool is_dmabuf = in->comp_mask == MLX5DV_UMEM_MASK_DMABUF;
	void *memory = in->addr;
	int error;

	pthread_mutex_lock(&fake5_lock);
	error = fake5_failure("umem_reg");
	pthread_mutex_unlock(&fake5_lock);
	if (!error && (!fake5_context_of(context)->has_devx || (in->comp_mask && !is_dmabuf) ||
		       in->access != IBV_ACCESS_LOCAL_WRITE))
		error = EOPNOTSUPP;
	if (!error && !page)
		error = EINVAL;
	/* Kernel 4.18 of el8 (NVSHMEM #67): EFAULT, while memory registrations by dma-buf work. */
	if (!error && is_dmabuf && fake5_lacks("dmabuf"))
		error = EFAULT;
	if (error) {
		errno = error;
		return NULL;
	}
	if (!is_dmabuf)
		return umem_add(context, memory, in->size, page / UMEM_UNITS, false);
	memory = mmap(NULL, in->size, PROT_READ | PROT_WRITE, MAP_SHARED, in->dmabuf_fd,
		      (off_t)(uintptr_t)in->addr);
	if (memory == MAP_FAILED)
		return NULL;
	return umem_add(context, memory, in->size, page / UMEM_UNITS, true);
}

int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem)
{
	struct fake5_umem *u = (struct fake5_umem *)umem, **at;

	pthread_mutex_lock(&fake5_lock);
	for (at = &umems; *at != u; at = &(*at)->next)
		;
	*at = u->next;
	if (u->is_mapped)
		munmap(u->memory, u->length);
	free(u);
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}
