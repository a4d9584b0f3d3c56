/* SPDX-License-Identifier: Apache-2.0 */
#include "p2p/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/rdma_host.h"

const char *oriel_p2p_mode_name(enum oriel_p2p_mode mode)
{
	switch (mode) {
	case ORIEL_P2P_AUTO:
		return "auto";
	case ORIEL_P2P_ZERO_COPY:
		return "zero_copy";
	case ORIEL_P2P_COPY_BASED:
		return "copy_based";
	}
	return "unknown mode";
}

#define P2P_CARRYING (1u << ORIEL_PATH_SELF | 1u << ORIEL_PATH_MAPPED)

static enum oriel_status p2p_set_attr(struct oriel_p2p *p, const struct oriel_p2p_attr *attr)
{
	enum oriel_status st;

	if (attr->mode > ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_attr.mode is %u", attr->mode);
	p->mode = (enum oriel_p2p_mode)attr->mode;
	p->channels = attr->channels ? attr->channels : 1;
	if (p->channels > ORIEL_P2P_CHANNELS)
		return ori_fail(ORIEL_ERR_RANGE, "%u channels, not 1 to %u", p->channels,
				ORIEL_P2P_CHANNELS);
	p->depth = attr->depth ? attr->depth : 8;
	if (!attr->depth && p->depth * p->channels > P2P_SLOTS)
		p->depth = P2P_SLOTS / p->channels;
	if (p->depth > P2P_DEPTH || p->depth * p->channels > P2P_SLOTS)
		return ori_fail(ORIEL_ERR_RANGE, "%u channels of depth %u: up to %u, %u together",
				p->channels, p->depth, P2P_DEPTH, P2P_SLOTS);
	p->depth_shift =
		p->depth & (p->depth - 1) ? P2P_NO_SHIFT : (unsigned)__builtin_ctz(p->depth);
	p->queues = attr->queues ? attr->queues : 1;
	if (p->queues > ORI_HOST_QUEUES)
		return ori_fail(ORIEL_ERR_RANGE, "%u queues, not 1 to %u", p->queues,
				ORI_HOST_QUEUES);
	st = ori_attr_read("oriel_p2p_hooks", attr->hooks, &p->hooks, sizeof(p->hooks));
	p->context = attr->context;
	return st;
}

bool ori_p2p_takes_eager(const struct oriel_p2p *p)
{
	return (p->address.paths & P2P_CARRYING) && !p->hub->gpu.ops && !p->hooks.pack &&
	       !p->hooks.unpack;
}

static void p2p_free(struct oriel_p2p *p)
{
	if (p->spare >= 0)
		ori_p2p_context_give_spare(p->hub, p->spare);
	for (unsigned i = 0; i < P2P_PIECES; i++)
		ori_mem_unref(p->given[i].mem);
	ori_control_close(p);
	free(p->offered);
	free(p->in);
	free(p->out);
	ori_copy_streams_close(p);
	ori_p2p_context_unregister(p->hub, &p->area);
	if (p->area.mem)
		ori_area_close(&p->area);
	ori_handle_free(p);
}

static enum oriel_status p2p_fill(struct oriel_p2p *p)
{
	enum oriel_status st;

	p->out = calloc(p->channels, sizeof(*p->out));
	p->in = calloc(p->channels, sizeof(*p->in));
	p->offered = calloc(P2P_SLOTS, sizeof(*p->offered));
	if (!p->out || !p->in || !p->offered)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an end of %u channels",
				p->channels);
	for (unsigned i = 0; i < p->channels; i++) {
		p->out[i].requests.last = &p->out[i].requests.first;
		p->in[i].requests.last = &p->in[i].requests.first;
	}
	st = ori_control_open(p);
	if (st == ORIEL_OK)
		st = ori_area_open(&p->area, ori_p2p_takes_eager(p) ? p2p_segment_length(p)
								    : sizeof(struct p2p_segment));
	if (st == ORIEL_OK && p->mode != ORIEL_P2P_ZERO_COPY)
		st = ori_p2p_context_take_spare(p->hub, &p->spare);
	p->segment = (struct p2p_segment *)(void *)p->area.base;
	return st;
}

enum oriel_status ori_p2p_open(struct oriel_p2p_context *hub, const struct oriel_p2p_attr *caller,
			       uint64_t number, struct oriel_p2p **out)
{
	struct oriel_p2p_attr attr;
	struct oriel_p2p *p;
	enum oriel_status st;

	st = ori_attr_read("oriel_p2p_attr", caller, &attr, sizeof(attr));
	if (st != ORIEL_OK)
		return st;
	p = ori_handle_alloc(ORI_HANDLE_P2P_ENDPOINT, sizeof(*p));
	if (!p)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an end");
	p->hub = hub;
	p->spare = -1;
	for (uint32_t i = 0; i < P2P_PIECES; i++)
		p->given[i].number = p->taken[i].next = i;
	p->door.fd = p->door.dial.fd = -1;
	p->address = hub->address;
	p->address.token.number = number;
	if (attr.paths)
		p->address.paths &= attr.paths;
	st = p2p_set_attr(p, &attr);
	if (st == ORIEL_OK)
		st = p2p_fill(p);
	if (st != ORIEL_OK) {
		p2p_free(p);
		return st;
	}
	ori_p2p_context_add(hub, p);
	ori_handle_open(p, NULL);
	*out = p;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_create(struct oriel_p2p_context *hub, const struct oriel_p2p_attr *attr,
				   struct oriel_p2p **p2p)
{
	enum oriel_status st = ori_handle_check(hub, ORI_HANDLE_P2P_CONTEXT, __func__);

	if (st != ORIEL_OK)
		return st;
	if (!p2p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_create: p2p is NULL");
	return ori_p2p_open(hub, attr, atomic_fetch_add(&hub->number, 1), p2p);
}

void oriel_p2p_destroy(struct oriel_p2p *p)
{
	if (!ori_handle_may_end(p, ORI_HANDLE_P2P_ENDPOINT, __func__))
		return;
	if (p->has_owner)
		ori_misuse("oriel_p2p_destroy: the end belongs to its communicator, or mock");
	else
		ori_p2p_close(p);
}

void ori_p2p_close(struct oriel_p2p *p)
{
	ori_p2p_enter(p);
	if (p->state != P2P_BROKEN) {
		ori_control_socket_bye(p, ORIEL_OK, "");
		ori_p2p_stop_copies(p, ORIEL_ERR_ABORTED);
		if (p->backend)
			p->backend->sever(p);
		ori_control_socket_close(p);
		ori_p2p_cancel(p, ORIEL_ERR_ABORTED);
	}
	ori_p2p_context_remove(p->hub, p);
	/* Not before: hooks may still ask about it. */
	(void)ori_handle_shut(p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	p2p_free(p);
}

enum oriel_status oriel_p2p_address(const struct oriel_p2p *p, void *bytes)
{
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (st != ORIEL_OK)
		return st;
	if (!bytes)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_address: bytes is NULL");
	memcpy(bytes, &p->address, sizeof(p->address));
	return ORIEL_OK;
}

static enum oriel_status p2p_no_path(const struct oriel_p2p *p)
{
	bool has_door = p->door.is_near || p->address.port || p->peer.port;

	return ori_fail(ORIEL_ERR_NO_PATH,
			"no path from process %u to process %u: this end may use 0x%x, the peer's "
			"0x%x, and they are on %s%s",
			p->address.pid, p->peer.pid, p->address.paths, p->peer.paths,
			p->door.is_near ? "one machine" : "two machines, nodes or namespaces",
			has_door ? "" : ", where neither listens on TCP: see ORIEL_P2P_TCP");
}

enum oriel_status ori_p2p_join(struct oriel_p2p *p, const struct p2p_address *peer,
			       uint64_t timeout_ns)
{
	enum oriel_path path = ori_p2p_address_path(&p->address, peer);
	enum oriel_status st = ORIEL_OK;

	/* Where an adapter puts all by itself no stream is needed, and queues of the hardware are
	 * few. */
	if (path != ORIEL_PATH_RDMA || p->mode != ORIEL_P2P_ZERO_COPY)
		st = ori_copy_streams_open(p);
	if (st != ORIEL_OK)
		return st;
	p->peer = *peer;
	ori_p2p_name(&p->address, peer, p->whom);
	p->door.is_near = ori_p2p_address_is_local(&p->address, peer);
	p->deadline = ori_deadline(timeout_ns ? timeout_ns : p->hub->timeout_ns);
	switch (path) {
	case ORIEL_PATH_SELF:
		p->backend = &ori_p2p_self;
		p->state = P2P_JOINED;
		return p->backend->connect(p, NULL, NULL, 0);
	case ORIEL_PATH_MAPPED:
		p->backend = &ori_p2p_mapped;
		break;
	case ORIEL_PATH_RDMA:
		p->backend = &ori_p2p_rdma;
		break;
	case ORIEL_PATH_NONE:
		return p2p_no_path(p);
	}
	p->state = P2P_CALLING;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_connect(struct oriel_p2p *p, const void *address, size_t length,
				    uint64_t timeout_ns)
{
	struct p2p_address peer;
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (st != ORIEL_OK)
		return st;
	if (!address)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_connect: address is NULL");
	if (p->state == P2P_BROKEN)
		return ori_p2p_failed(p);
	if (p->state != P2P_IDLE)
		return ori_fail(ORIEL_ERR_STATE, "oriel_p2p_connect: it has been called before");
	st = ori_p2p_address_parse(address, length, &peer);
	return st == ORIEL_OK ? ori_p2p_join(p, &peer, timeout_ns) : st;
}

enum oriel_status oriel_p2p_check(const struct oriel_p2p *p)
{
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (st != ORIEL_OK)
		return st;
	if (p->state == P2P_BROKEN)
		return ori_p2p_failed(p);
	return p->state == P2P_JOINED ? ORIEL_OK : ORIEL_AGAIN;
}

enum oriel_status oriel_p2p_describe(const struct oriel_p2p *p, struct oriel_p2p_info *info)
{
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool is_joined;

	if (st != ORIEL_OK)
		return st;
	if (!info)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_describe: info is NULL");
	is_joined = p->state == P2P_JOINED;
	*info = (struct oriel_p2p_info){
		.path = is_joined ? p->backend->path : ORIEL_PATH_NONE,
		.mode = p->mode,
		.backend = is_joined ? p->backend->name : "none",
		.channels = p->channels,
		.depth = p->depth,
		.chunk = is_joined ? p->chunk : p->hub->pool.chunk,
		.control_max = ORIEL_P2P_CONTROL,
		.is_same_process = p->peer.process == p->address.process,
		.queues = is_joined && p->backend->path == ORIEL_PATH_RDMA ? p->queues : 0,
	};
	return ORIEL_OK;
}
