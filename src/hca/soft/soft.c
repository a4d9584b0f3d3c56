/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the software HCA: each call checks its arguments, takes the lock
 * of the engine and calls the module that does the work.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory_probe.h"
#include "hca/soft/soft_address.h"
#include "hca/soft/soft_call.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_engine.h"
#include "hca/soft/soft_link.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_node.h"
#include "hca/soft/soft_qp.h"
#include "hca/soft/soft_stray.h"
#include "hca/soft/soft_wire.h"

static struct soft_node *to_node(const struct ori_hca *hca)
{
	return (struct soft_node *)(uintptr_t)hca;
}

static struct soft_qp *to_qp(struct ori_hca_qp *qp)
{
	return (struct soft_qp *)qp;
}

static struct soft_cq *to_cq(struct ori_hca_cq *cq)
{
	return (struct soft_cq *)cq;
}

/* Peers that no unix socket reaches connect over TCP. */
static enum oriel_status soft_listen(struct ori_hca *hca)
{
	struct soft_engine *e = to_node(hca)->engine;
	enum oriel_status status;

	ori_soft_engine_lock(e);
	status = ori_soft_link_listen_tcp(e);
	ori_soft_engine_unlock(e);
	return status;
}

/* One more HCA of this process; the rail does not matter. */
static enum oriel_status soft_open(const char *config, unsigned rail, struct ori_hca **hca)
{
	struct soft_engine *e;
	struct soft_node *node;
	enum oriel_status status;

	status = ori_soft_engine_ref(&e);
	if (status != ORIEL_OK)
		return status;
	status = ori_soft_node_open(e, config, &node);
	if (status != ORIEL_OK) {
		ori_soft_engine_unref(e);
		return status;
	}
	if (node->scenario.tcp || node->scenario.ipv6)
		status = soft_listen((struct ori_hca *)node);
	if (status != ORIEL_OK) {
		ori_soft_node_close(node);
		ori_soft_engine_unref(e);
		return status;
	}
	ori_log(ORIEL_LOG_DEBUG, "%s, rail %u, is a software HCA, for development: no NIC is used",
		node->name, rail);
	*hca = (struct ori_hca *)node;
	return ORIEL_OK;
}

static void soft_close(struct ori_hca *hca)
{
	struct soft_engine *e;

	if (!hca)
		return;
	e = to_node(hca)->engine;
	ori_soft_node_close(to_node(hca));
	ori_soft_engine_unref(e);
}

static enum oriel_status soft_use_gpu(struct ori_hca *hca, const struct ori_gpu *gpu)
{
	struct soft_node *node = to_node(hca);
	struct soft_remote *remote;
	enum oriel_status status;

	status = ori_soft_remote_open(gpu, &remote);
	if (status != ORIEL_OK)
		return status;
	/* The engine asks how long it may sleep. */
	ori_soft_engine_lock(node->engine);
	node->remote = remote;
	ori_soft_engine_unlock(node->engine);
	return ORIEL_OK;
}

static enum oriel_status soft_doorbell_page(struct ori_hca *hca, void **page)
{
	struct soft_node *node = to_node(hca);
	uint32_t *added;

	ori_soft_engine_lock(node->engine);
	added = ori_soft_node_add_page(node);
	ori_soft_engine_unlock(node->engine);
	if (!added)
		return ori_fail_nomem(SOFT_PAGE, "a page of doorbells");
	*page = added;
	return ORIEL_OK;
}

static const struct ori_hca_rings soft_rings = {.doorbell_page = soft_doorbell_page};

static void soft_caps(const struct ori_hca *hca, struct ori_hca_caps *caps)
{
	const struct soft_node *node = to_node(hca);

	*caps = (struct ori_hca_caps){
		.kind = "soft",
		.name = node->name,
		.depth_max = ORIEL_MLX5_DEPTH_MAX,
		.mtu = (uint32_t)node->scenario.mtu,
		.length_max = ORIEL_MLX5_LENGTH_MAX,
		.max_rd_atomic = (uint32_t)node->scenario.reads,
		.first = node->scenario.first,
		.rings = &soft_rings,
		.reaches_all = true,
		.reaches_gpu = true,
		.tier = "",
		.has_wait = true,
		.is_atomic_host_endian = !node->scenario.big_endian,
		.has_masked = node->scenario.masked,
		.is_software = true,
		.is_sink = node->scenario.sink,
		.writes_late = node->scenario.below_owner != 0,
		.order = node->scenario.reorder ? ORI_HCA_REORDERED : ORI_HCA_ORDERED,
	};
}

/*
 * A registration of any memory may cover host and GPU at once, so each access
 * asks for its side.
 */
static enum soft_side soft_side(const struct soft_node *node, const char *address, unsigned access)
{
	if (!node->remote)
		return SOFT_LOCAL;
	if (access & ORI_HCA_ANY_MEMORY)
		return SOFT_EITHER;
	return ori_soft_remote_has(node->remote, address) ? SOFT_REMOTE : SOFT_LOCAL;
}

static enum oriel_status soft_register(struct ori_hca *hca, void *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **out,
				       struct ori_hca_keys *keys)
{
	struct soft_node *node = to_node(hca);
	enum oriel_status status;
	enum soft_side side;
	struct soft_mr *mr;

	if (!address || length == 0 || iova > UINT64_MAX - length)
		return ori_fail(ORIEL_ERR_INVALID, "cannot register %zu bytes at iova 0x%llx",
				length, (unsigned long long)iova);
	side = soft_side(node, address, access);
	/* A NIC pins the pages, and fails if there are none. */
	if (side == SOFT_LOCAL && !(access & ORI_HCA_ANY_MEMORY) &&
	    !ori_probe_looks_readable(address, length))
		return ori_fail(ORIEL_ERR_ACCESS,
				"%s: cannot register %zu bytes at %p: they may not be read",
				node->name, length, address);
	mr = malloc(sizeof(*mr));
	if (!mr)
		return ori_fail_nomem(sizeof(*mr), "a registration");
	*mr = (struct soft_mr){.node = node,
			       .base = address,
			       .iova = iova,
			       .length = length,
			       .access = access,
			       .side = side};
	ori_soft_engine_lock(node->engine);
	status = ori_soft_keys_add(&node->keys, mr);
	ori_soft_engine_unlock(node->engine);
	if (status != ORIEL_OK) {
		free(mr);
		return status;
	}
	keys->lkey = keys->rkey = mr->key;
	*out = (struct ori_hca_mr *)mr;
	return ORIEL_OK;
}

static enum oriel_status soft_register_dmabuf(struct ori_hca *hca, int fd, uint64_t offset,
					      size_t length, uint64_t iova, unsigned access,
					      struct ori_hca_mr **out, struct ori_hca_keys *keys)
{
	(void)fd, (void)offset, (void)length, (void)iova, (void)access, (void)out, (void)keys;
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"%s accesses memory of its process: it takes no dma-buf",
			to_node(hca)->name);
}

/* WQEs that still use the memory fail, as they would on a NIC. */
static void soft_unregister(struct ori_hca_mr *handle)
{
	struct soft_mr *mr = (struct soft_mr *)handle;
	struct soft_node *node = mr->node;

	ori_soft_engine_lock(node->engine);
	ori_soft_atomic_end(node);
	ori_soft_stray_place(node, NULL);
	ori_soft_held_drain(node);
	for (struct soft_qp *qp = node->qp_list; qp; qp = qp->next)
		ori_soft_flight_forget(qp, mr);
	ori_soft_link_forget(node->engine, mr);
	ori_soft_keys_remove(&node->keys, mr);
	ori_soft_engine_unlock(node->engine);
	free(mr);
}

static bool soft_is_ring(const void *ring, uint32_t depth)
{
	return ring && (uintptr_t)ring % ORIEL_MLX5_BLOCK == 0 && depth > 0 &&
	       depth <= ORIEL_MLX5_DEPTH_MAX && (depth & (depth - 1)) == 0;
}

static void soft_begin_cq(struct soft_cq *cq, const struct ori_hca_cq_attr *attr)
{
	cq->ring = attr->ring;
	cq->log_depth = (uint32_t)__builtin_ctz(attr->depth);
	cq->next = attr->first;
	cq->is_collapsed = attr->is_collapsed;
	cq->record = attr->record;
}

static void soft_free_cq(struct soft_cq *cq)
{
	ori_soft_call_close_cq(cq);
	free(cq);
}

static enum oriel_status soft_create_cq(struct ori_hca *hca, const struct ori_hca_cq_attr *attr,
					struct ori_hca_cq **out, uint32_t *cqn)
{
	struct soft_node *node = to_node(hca);
	enum oriel_status status;
	struct soft_cq *cq;

	if (attr->ring && !soft_is_ring(attr->ring, attr->depth))
		return ori_fail(ORIEL_ERR_INVALID,
				"a CQ needs an aligned ring of a power of two CQEs, not %u",
				attr->depth);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return ori_fail_nomem(sizeof(*cq), "a CQ");
	cq->node = node;
	cq->error_at = SOFT_NEVER;
	status = attr->ring ? ORIEL_OK : ori_soft_call_open_cq(cq, attr->depth);
	if (status != ORIEL_OK) {
		free(cq);
		return status;
	}
	if (attr->ring)
		soft_begin_cq(cq, attr);
	ori_soft_cq_clear(cq);
	ori_soft_engine_lock(node->engine);
	cq->cqn = ori_soft_node_number(node->cqs, &node->cq_lap);
	if (cq->cqn)
		node->cqs[cq->cqn & (SOFT_TABLE - 1)] = cq;
	ori_soft_engine_unlock(node->engine);
	if (!cq->cqn) {
		soft_free_cq(cq);
		return ori_fail(ORIEL_ERR_NOMEM, "a software HCA has %u CQs at most", SOFT_TABLE);
	}
	*cqn = cq->cqn;
	*out = (struct ori_hca_cq *)cq;
	return ORIEL_OK;
}

static void soft_destroy_cq(struct ori_hca_cq *handle)
{
	struct soft_cq *cq = to_cq(handle);
	struct soft_node *node = cq->node;

	ori_soft_engine_lock(node->engine);
	node->cqs[cq->cqn & (SOFT_TABLE - 1)] = NULL;
	ori_soft_engine_unlock(node->engine);
	soft_free_cq(cq);
}

/*
 * The engine polls a doorbell until its QP is destroyed, so the slot must lie
 * in a page that the node keeps.
 */
static bool soft_is_doorbell(const struct soft_node *node, const void *slot)
{
	bool is_slot;

	ori_soft_engine_lock(node->engine);
	is_slot = ori_soft_node_has_slot(node, slot);
	ori_soft_engine_unlock(node->engine);
	return is_slot;
}

static enum oriel_status soft_check_ring(const struct soft_node *node,
					 const struct ori_hca_qp_attr *attr)
{
	if (!soft_is_ring(attr->ring, attr->depth))
		return ori_fail(ORIEL_ERR_INVALID,
				"a QP needs an aligned ring of a power of two WQEs, not %u",
				attr->depth);
	if (!attr->record || (uintptr_t)attr->record % 8)
		return ori_fail(ORIEL_ERR_INVALID, "a doorbell record is 8 bytes, aligned");
	if (!soft_is_doorbell(node, attr->doorbell))
		return ori_fail(ORIEL_ERR_INVALID, "a doorbell is no slot of a doorbell page");
	return ORIEL_OK;
}

/* Checks for QPs posted to by rings and by calls. */
static enum oriel_status soft_check_qp(const struct soft_node *node,
				       const struct ori_hca_qp_attr *attr)
{
	const struct soft_cq *receive_cq = to_cq(attr->receive_cq);

	if (!attr->send_cq || to_cq(attr->send_cq)->node != node)
		return ori_fail(ORIEL_ERR_INVALID, "the CQ of a QP is of another HCA");
	if (to_cq(attr->send_cq)->is_called != !attr->ring)
		return ori_fail(ORIEL_ERR_INVALID,
				"a QP and its CQ must both have a ring, or neither");
	if (attr->receives && (!receive_cq || receive_cq->node != node || !receive_cq->is_called))
		return ori_fail(ORIEL_ERR_INVALID,
				"receives need a CQ of their HCA that has no ring");
	return ORIEL_OK;
}

/*
 * The doorbell slot may still hold the value of an earlier queue: only a change
 * of it is a ring.
 */
static void soft_begin_qp(struct soft_qp *qp, struct soft_node *node,
			  const struct ori_hca_qp_attr *attr)
{
	uint64_t first = attr->ring ? attr->first : node->scenario.first;

	qp->node = node;
	qp->cq = to_cq(attr->send_cq);
	qp->is_companion = attr->is_companion;
	qp->receive_cq = to_cq(attr->receive_cq);
	qp->receive_room = attr->receives;
	qp->first = qp->fetch = qp->retired = qp->sending = qp->end = first;
	qp->posted = qp->polled = first;
	qp->rung = (uint16_t)first;
	qp->seen = oriel_dev_load_acquire(qp->doorbell);
	qp->recover_at = SOFT_NEVER;
	qp->timer = SOFT_NEVER;
}

static enum oriel_status soft_open_ring(struct soft_qp *qp, const struct ori_hca_qp_attr *attr)
{
	if (!attr->ring)
		return ori_soft_call_open_qp(qp, attr->depth);
	qp->ring = attr->ring;
	qp->depth = attr->depth;
	qp->record = attr->record;
	qp->doorbell = attr->doorbell;
	return ORIEL_OK;
}

static void soft_free_qp(struct soft_qp *qp)
{
	ori_soft_call_close_qp(qp);
	free(qp);
}

static bool soft_add_qp(struct soft_qp *qp)
{
	struct soft_node *node = qp->node;

	ori_soft_engine_lock(node->engine);
	qp->qpn = ori_soft_node_number(node->qps, &node->qp_lap);
	if (qp->qpn) {
		qp->number = node->qps_made++;
		qp->next_psn = (uint32_t)soft_rand_next(&node->rand) & SOFT_PSN_MASK;
		node->qps[qp->qpn & (SOFT_TABLE - 1)] = qp;
		qp->next = node->qp_list;
		node->qp_list = qp;
	}
	ori_soft_engine_unlock(node->engine);
	return qp->qpn != 0;
}

static void soft_describe(const struct ori_hca *hca, struct ori_hca_qp_address *address)
{
	const struct soft_node *node = to_node(hca);
	struct soft_address hca_address;

	ori_soft_engine_lock(node->engine);
	hca_address = node->engine->address;
	ori_soft_engine_unlock(node->engine);
	hca_address.node = node->id;
	*address = (struct ori_hca_qp_address){
		.version = ORI_HCA_ADDRESS_VERSION,
		.mtu = (uint32_t)node->scenario.mtu,
		.max_rd_atomic = (uint32_t)node->scenario.reads,
		.flags = node->scenario.masked ? ORI_HCA_ADDRESS_MASKED : 0,
	};
	memcpy(address->hca_address, &hca_address, sizeof(hca_address));
}

static enum oriel_status soft_create_qp(struct ori_hca *hca, const struct ori_hca_qp_attr *attr,
					struct ori_hca_qp **out, struct ori_hca_qp_address *address)
{
	struct soft_node *node = to_node(hca);
	enum oriel_status status = attr->ring ? soft_check_ring(node, attr) : ORIEL_OK;
	struct soft_qp *qp;

	if (status == ORIEL_OK)
		status = soft_check_qp(node, attr);
	if (status != ORIEL_OK)
		return status;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ori_fail_nomem(sizeof(*qp), "a QP");
	status = soft_open_ring(qp, attr);
	if (status != ORIEL_OK) {
		free(qp);
		return status;
	}
	soft_begin_qp(qp, node, attr);
	if (!soft_add_qp(qp)) {
		soft_free_qp(qp);
		return ori_fail(ORIEL_ERR_NOMEM, "a software HCA has %u QPs at most", SOFT_TABLE);
	}
	soft_describe(hca, address);
	address->qpn = qp->qpn;
	address->psn = qp->next_psn;
	*out = (struct ori_hca_qp *)qp;
	return ORIEL_OK;
}

/* PSNs count packets, so sides of different MTUs would disagree on the bytes of each packet. */
static enum oriel_status soft_check_peer(const struct soft_node *node,
					 const struct ori_hca_qp_address *peer)
{
	if (peer->version != ORI_HCA_ADDRESS_VERSION)
		return ori_fail(ORIEL_ERR_VERSION, "the address of a QP has version %u, not %u",
				peer->version, ORI_HCA_ADDRESS_VERSION);
	if (peer->mtu != node->scenario.mtu)
		return ori_fail(
			ORIEL_ERR_MISMATCH,
			"the peer has MTU %u, this HCA %llu: set the same mtu in ORIEL_SOFT_HCA",
			peer->mtu, (unsigned long long)node->scenario.mtu);
	if (peer->max_rd_atomic == 0 || peer->qpn > SOFT_PSN_MASK || peer->psn > SOFT_PSN_MASK)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the address of QP 0x%x is invalid", peer->qpn);
	return ORIEL_OK;
}

static enum soft_road soft_road(const struct soft_scenario *s)
{
	if (s->ipv6)
		return SOFT_ROAD_IPV6;
	return s->tcp ? SOFT_ROAD_TCP : SOFT_ROAD_BEST;
}

/* The caller holds the lock. */
static enum oriel_status soft_join(struct soft_qp *qp, const struct ori_hca_qp_address *peer,
				   const struct soft_address *hca_address)
{
	struct soft_node *node = qp->node;
	struct soft_engine *e = node->engine;
	enum oriel_status status = ORIEL_OK;

	if (qp->state != SOFT_INIT)
		return ori_fail(ORIEL_ERR_STATE, "QP 0x%06x is connected already", qp->qpn);
	if (hca_address->cookie != e->address.cookie && e->is_virtual)
		return ori_fail(ORIEL_ERR_NO_PATH, "the peer is not in this cluster");
	if (hca_address->cookie != e->address.cookie)
		status = ori_soft_link_to(e, hca_address, soft_road(&node->scenario), &qp->link);
	if (status != ORIEL_OK)
		return status;
	qp->peer_cookie = hca_address->cookie;
	qp->peer_node = hca_address->node;
	qp->peer_qpn = peer->qpn;
	qp->expected = peer->psn;
	qp->reads_max = peer->max_rd_atomic < node->scenario.reads ? peer->max_rd_atomic
								   : (uint32_t)node->scenario.reads;
	qp->state = SOFT_READY;
	return ORIEL_OK;
}

static enum oriel_status soft_connect_qp(struct ori_hca_qp *handle,
					 const struct ori_hca_qp_address *peer)
{
	struct soft_qp *qp = to_qp(handle);
	struct soft_engine *e = qp->node->engine;
	struct soft_address hca_address;
	enum oriel_status status;

	status = soft_check_peer(qp->node, peer);
	if (status == ORIEL_OK)
		status = ori_soft_address_parse(peer->hca_address, &hca_address);
	if (status != ORIEL_OK)
		return status;
	ori_soft_engine_lock(e);
	status = soft_join(qp, peer, &hca_address);
	ori_soft_engine_unlock(e);
	return status;
}

/* The doorbell is polled first: WQEs that were posted before this call get error CQEs, too. */
static void soft_fail_qp(struct ori_hca_qp *handle)
{
	struct soft_qp *qp = to_qp(handle);
	struct soft_engine *e = qp->node->engine;

	ori_soft_engine_lock(e);
	ori_soft_doorbell_poll(qp);
	ori_soft_atomic_end(qp->node);
	qp->replies_count = 0;
	qp->has_ack = qp->has_nak = false;
	ori_soft_qp_flush(qp, ORIEL_SYNDROME_FLUSHED);
	ori_soft_engine_unlock(e);
}

/*
 * The caller may exit as soon as it saw the last signal, but its peer still
 * needs the ACK of that signal.
 */
static void soft_say_goodbye(struct soft_qp *qp)
{
	while (ori_soft_responder_has_output(qp) && ori_soft_egress(qp))
		;
	ori_soft_link_flush(qp->node->engine);
}

/* Late CQEs are written now: after this no turn of the engine knows the QP. */
static void soft_destroy_qp(struct ori_hca_qp *handle)
{
	struct soft_qp *qp = to_qp(handle), **at;
	struct soft_node *node = qp->node;

	ori_soft_engine_lock(node->engine);
	ori_soft_atomic_end(node);
	ori_soft_stray_place(node, qp);
	soft_say_goodbye(qp);
	ori_soft_cq_flush_of(qp, SOFT_NEVER);
	node->qps[qp->qpn & (SOFT_TABLE - 1)] = NULL;
	for (at = &node->qp_list; *at != qp; at = &(*at)->next)
		;
	*at = qp->next;
	ori_soft_engine_unlock(node->engine);
	soft_free_qp(qp);
}

static enum oriel_status soft_post(struct ori_hca_qp *handle, const struct ori_hca_wr *wrs,
				   unsigned count, unsigned *posted)
{
	struct soft_qp *qp = to_qp(handle);
	enum oriel_status status;

	ori_soft_engine_lock(qp->node->engine);
	status = ori_soft_call_post(qp, wrs, count, posted);
	ori_soft_engine_unlock(qp->node->engine);
	return status;
}

static enum oriel_status soft_post_receives(struct ori_hca_qp *handle, unsigned count)
{
	struct soft_qp *qp = to_qp(handle);
	enum oriel_status status;

	ori_soft_engine_lock(qp->node->engine);
	status = ori_soft_call_receive(qp, count);
	ori_soft_engine_unlock(qp->node->engine);
	return status;
}

/* A poll that finds nothing must not keep the HCA from its work. */
static enum oriel_status soft_poll(struct ori_hca_cq *handle, struct ori_hca_wc *wcs, unsigned room,
				   unsigned *count)
{
	struct soft_cq *cq = to_cq(handle);
	enum oriel_status status;

	if (!ori_soft_call_has(cq)) {
		*count = 0;
		return ORIEL_OK;
	}
	ori_soft_engine_lock(cq->node->engine);
	status = ori_soft_call_poll(cq, wcs, room, count);
	ori_soft_engine_unlock(cq->node->engine);
	return status;
}

static enum oriel_status soft_poll_event(struct ori_hca *hca, struct ori_hca_event *event)
{
	struct soft_node *node = to_node(hca);
	enum oriel_status status = ORIEL_AGAIN;

	ori_soft_engine_lock(node->engine);
	if (node->event_count > 0) {
		*event = node->events[node->event_first];
		node->event_first = (node->event_first + 1) % SOFT_EVENTS;
		node->event_count--;
		status = ORIEL_OK;
	}
	ori_soft_engine_unlock(node->engine);
	return status;
}

static const struct ori_hca_calls soft_calls = {
	.post = soft_post,
	.post_receives = soft_post_receives,
	.poll = soft_poll,
};

const struct ori_hca_ops ori_hca_soft_ops = {
	.kind = "soft",
	.calls = &soft_calls,
	.open = soft_open,
	.close = soft_close,
	.caps = soft_caps,
	.use_gpu = soft_use_gpu,
	.listen = soft_listen,
	.describe = soft_describe,
	.register_memory = soft_register,
	.register_dmabuf = soft_register_dmabuf,
	.unregister_memory = soft_unregister,
	.create_cq = soft_create_cq,
	.destroy_cq = soft_destroy_cq,
	.create_qp = soft_create_qp,
	.connect_qp = soft_connect_qp,
	.fail_qp = soft_fail_qp,
	.destroy_qp = soft_destroy_qp,
	.poll_event = soft_poll_event,
};
