/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints from creation to destruction: attributes, address, the choice of the path.
 * Users call it, and the cache of a communicator and the mock.
 */
#include "p2p/p2p.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/health.h"
#include "rdma/rdma_host.h"

static enum oriel_status p2p_set_attr(struct oriel_p2p *p2p, const struct oriel_p2p_attr *attr)
{
	enum oriel_status status;

	if (attr->mode > ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_create: mode is %u, at most %u (ORIEL_P2P_COPY_BASED)",
				attr->mode, ORIEL_P2P_COPY_BASED);
	p2p->mode = (enum oriel_p2p_mode)attr->mode;
	p2p->whole = attr->channels ? attr->channels : 1;
	if (p2p->whole > ORIEL_P2P_CHANNELS)
		return ori_fail(ORIEL_ERR_RANGE, "%u channels, not 1 to %u", p2p->whole,
				ORIEL_P2P_CHANNELS);
	p2p->chunk_slots = attr->chunk_slots;
	if (p2p->chunk_slots > ORIEL_P2P_CHANNELS / p2p->whole - 1)
		return ori_fail(
			ORIEL_ERR_RANGE,
			"%u channels of %u slots for chunks: channels * (1 + slots) is up to %u",
			p2p->whole, p2p->chunk_slots, ORIEL_P2P_CHANNELS);
	p2p->channels = p2p->whole * (1 + p2p->chunk_slots);
	p2p->depth = attr->depth ? attr->depth : 8;
	/* A default gives way: the control words have P2P_SLOTS slots for all channels. */
	if (!attr->depth && p2p->depth * p2p->channels > P2P_SLOTS)
		p2p->depth = P2P_SLOTS / p2p->channels;
	if (p2p->depth > P2P_DEPTH || p2p->depth * p2p->channels > P2P_SLOTS)
		return ori_fail(ORIEL_ERR_RANGE, "%u channels of depth %u: up to %u, %u together",
				p2p->channels, p2p->depth, P2P_DEPTH, P2P_SLOTS);
	p2p->depth_shift =
		p2p->depth & (p2p->depth - 1) ? P2P_NO_SHIFT : (unsigned)__builtin_ctz(p2p->depth);
	p2p->queues = attr->queues ? attr->queues : 1;
	if (p2p->queues > ORI_HOST_QUEUES)
		return ori_fail(ORIEL_ERR_RANGE, "%u queues, not 1 to %u", p2p->queues,
				ORI_HOST_QUEUES);
	p2p->transport_data = attr->transport_data;
	status = ori_attr_read("oriel_p2p_hooks", attr->hooks, &p2p->hooks, sizeof(p2p->hooks));
	p2p->context = attr->context;
	return status;
}

/*
 * This frees an endpoint that p2p_fill() has left half-made as well. NICs and engines forget the
 * segment before it is freed: peers write to it, and copy streams count their copies in it.
 */
static void p2p_free(struct oriel_p2p *p2p)
{
	if (p2p->spare >= 0)
		ori_p2p_context_give_spare(p2p->ctx, p2p->spare);
	ori_pieces_close(p2p);
	ori_control_close(p2p);
	free(p2p->offered);
	free(p2p->in);
	free(p2p->out);
	ori_copy_streams_close(p2p);
	ori_p2p_context_unregister(p2p->ctx, &p2p->area);
	if (p2p->area.mem)
		ori_area_close(&p2p->area);
	ori_handle_free(p2p);
}

static enum oriel_status p2p_fill(struct oriel_p2p *p2p)
{
	enum oriel_status status;

	p2p->out = calloc(p2p->channels, sizeof(*p2p->out));
	p2p->in = calloc(p2p->channels, sizeof(*p2p->in));
	p2p->offered = calloc(P2P_SLOTS, sizeof(*p2p->offered));
	if (!p2p->out || !p2p->in || !p2p->offered)
		return ori_fail_nomem(p2p->channels * (sizeof(*p2p->out) + sizeof(*p2p->in)) +
					      P2P_SLOTS * sizeof(*p2p->offered),
				      "an endpoint of %u channels", p2p->channels);
	for (unsigned i = 0; i < p2p->channels; i++) {
		p2p->out[i].requests.last = &p2p->out[i].requests.first;
		p2p->in[i].requests.last = &p2p->in[i].requests.first;
	}
	status = ori_control_open(p2p);
	if (status == ORIEL_OK)
		/* Eager buffers take up to 1 MiB, so a segment has them only for eager sends. */
		status = ori_area_open(&p2p->area, p2p_takes_eager(p2p)
							   ? p2p_segment_length(p2p)
							   : sizeof(struct p2p_segment));
	/* Zero copy never receives in staging slots, so it keeps none. */
	if (status == ORIEL_OK && p2p->mode != ORIEL_P2P_ZERO_COPY)
		status = ori_p2p_context_take_spare(p2p->ctx, &p2p->spare);
	p2p->segment = (struct p2p_segment *)(void *)p2p->area.base;
	return status;
}

enum oriel_status ori_p2p_read_attr(const struct oriel_p2p_attr *caller,
				    struct oriel_p2p_attr *attr)
{
	enum oriel_status status = ori_attr_read("oriel_p2p_attr", caller, attr, sizeof(*attr));

	if (status == ORIEL_OK)
		status = ori_attr_check_reserved("oriel_p2p_attr.reserved1", attr->reserved1);
	if (status == ORIEL_OK)
		status = ori_attr_check_reserved("oriel_p2p_attr.reserved2", attr->reserved2);
	return status;
}

enum oriel_status ori_p2p_open(struct oriel_p2p_context *ctx, const struct oriel_p2p_attr *caller,
			       uint64_t number, struct oriel_p2p **out)
{
	struct oriel_p2p_attr attr;
	struct oriel_p2p *p2p;
	struct oriel_p2p_copy_group *group = NULL;
	enum oriel_status status;

	status = ori_p2p_read_attr(caller, &attr);
	if (status != ORIEL_OK)
		return status;
	p2p = ori_handle_alloc(ORI_HANDLE_P2P_ENDPOINT, sizeof(*p2p));
	if (!p2p)
		return ori_fail_nomem(sizeof(*p2p), "an endpoint");
	p2p->ctx = ctx;
	/* 0 is a slot of the pool, which p2p_free() would give back. */
	p2p->spare = -1;
	for (uint32_t i = 0; i < P2P_PIECES; i++)
		p2p->given[i].number = p2p->taken[i].next = i;
	ori_net_open(&p2p->control_socket.conn, -1, NULL);
	p2p->address = ctx->address;
	p2p->address.token.number = number;
	if (attr.paths && p2p_has_transport(ctx))
		status = ori_fail(ORIEL_ERR_INVALID,
				  "oriel_p2p_attr.paths is 0x%x, but the context has transport %s",
				  attr.paths, ctx->transport.name);
	else if (attr.paths)
		p2p->address.paths &= attr.paths;
	if (status == ORIEL_OK)
		status = p2p_set_attr(p2p, &attr);
	if (status == ORIEL_OK)
		status = ori_copy_group_of(ctx, &p2p->hooks, p2p->context, &group);
	if (status == ORIEL_OK)
		status = p2p_fill(p2p);
	if (status != ORIEL_OK) {
		ori_copy_group_give_back(group);
		p2p_free(p2p);
		return status;
	}
	ori_p2p_context_add(ctx, p2p);
	ori_handle_open(p2p, group);
	*out = p2p;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_create(struct oriel_p2p_context *ctx, const struct oriel_p2p_attr *attr,
				   struct oriel_p2p **p2p)
{
	enum oriel_status status = ori_handle_check(ctx, ORI_HANDLE_P2P_CONTEXT, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!p2p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_create: p2p is NULL");
	/*
	 * No number is used twice, so a connection that is late meets no endpoint but the one it
	 * means.
	 */
	return ori_p2p_open(ctx, attr, atomic_fetch_add(&ctx->number, 1), p2p);
}

enum oriel_status oriel_p2p_destroy(struct oriel_p2p *p2p)
{
	if (!ori_handle_may_end(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__))
		return ori_handle_refused(p2p);
	if (p2p->has_owner)
		return ori_misuse("oriel_p2p_destroy: the endpoint belongs to its communicator or "
				  "mock; destroy that one");
	return ori_p2p_close(p2p, false);
}

enum oriel_status ori_p2p_close(struct oriel_p2p *p2p, bool is_forced)
{
	uint64_t timeout_ns = p2p->ctx->timeout_ns;
	enum oriel_status status;

	ori_p2p_enter(p2p);
	if (p2p->state != P2P_BROKEN) {
		/*
		 * Before the segment is closed: a peer that finds it closed reads the reason from
		 * the socket: what has broken the job, if that is why this rank leaves.
		 */
		status = p2p->comm ? ori_comm_check(p2p->comm) : ORIEL_OK;
		ori_control_socket_bye(p2p, status, status == ORIEL_OK ? "" : oriel_last_error());
		p2p->state = P2P_BROKEN;
		p2p->failure = ORIEL_ERR_ABORTED;
		snprintf(p2p->failure_text, sizeof(p2p->failure_text),
			 "endpoint to %s: it is being destroyed", p2p->peer_name);
	}
	if (!p2p->has_ended &&
	    ori_p2p_end(p2p, p2p->failure, ori_deadline(timeout_ns)) != ORIEL_OK) {
		if (!is_forced) {
			ori_p2p_leave(p2p);
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"oriel_p2p_destroy: %s is within a write to memory here, "
					"and has not left it within %g s (the context's timeout): "
					"the endpoint is broken and not destroyed, its requests go "
					"on; call again",
					p2p->peer_name, (double)timeout_ns / 1e9);
		}
		ori_log(ORIEL_LOG_WARN,
			"%s has not stopped writing within %g s (the context's timeout)",
			p2p->peer_name, (double)timeout_ns / 1e9);
		ori_p2p_abandon(p2p, p2p->failure);
	}
	ori_p2p_context_remove(p2p->ctx, p2p);
	/* Not before: hooks may still ask about it. */
	(void)ori_handle_shut(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	p2p_free(p2p);
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_address(const struct oriel_p2p *p2p, void *bytes)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!bytes)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_address: bytes is NULL");
	memcpy(bytes, &p2p->address, sizeof(p2p->address));
	return ORIEL_OK;
}

/* The names of @paths, "self, mapped". */
static const char *p2p_paths_text(uint32_t paths, char *text, size_t length)
{
	size_t used = 0;

	text[0] = 0;
	for (unsigned path = 0; path < 32 && used < length; path++)
		if (paths & 1u << path)
			used += (size_t)snprintf(text + used, length - used, "%s%s",
						 used ? ", " : "",
						 oriel_path_name((enum oriel_path)path));
	return text;
}

static enum oriel_status p2p_no_path(const struct oriel_p2p *p2p)
{
	char mine[64], theirs[64];
	bool has_listener = p2p->control_socket.is_local || p2p->address.port || p2p->peer.port;

	return ori_fail(ORIEL_ERR_NO_PATH,
			"no path from process %u to process %u: this endpoint may use %s, the "
			"peer's %s, and they are on %s%s",
			p2p->address.pid, p2p->peer.pid,
			p2p_paths_text(p2p->address.paths, mine, sizeof(mine)),
			p2p_paths_text(p2p->peer.paths, theirs, sizeof(theirs)),
			p2p->control_socket.is_local ? "one machine"
						     : "two machines, nodes or namespaces",
			has_listener ? "" : ", where neither listens on TCP: see ORIEL_P2P_TCP");
}

/*
 * Both endpoints compute path, rail and the connecting side from the two addresses alone, so that
 * no message is needed before they meet.
 */
enum oriel_status ori_p2p_join(struct oriel_p2p *p2p, const struct p2p_address *peer,
			       uint64_t timeout_ns)
{
	enum oriel_path path = ori_p2p_address_path(&p2p->address, peer);
	const struct p2p_backend *backend = p2p->ctx->backend;
	enum oriel_status status = ORIEL_OK;

	p2p->peer = *peer;
	p2p->rail = ori_p2p_address_rail(&p2p->address, peer);
	ori_p2p_name(&p2p->address, peer, p2p->peer_name);
	p2p->control_socket.is_local = ori_p2p_address_is_local(&p2p->address, peer);
	p2p->timeout_ns = timeout_ns ? timeout_ns : p2p->ctx->timeout_ns;
	p2p->deadline = ori_deadline(p2p->timeout_ns);
	/* A connect that fails here leaves the endpoint idle, and may be called again. */
	if (p2p_has_transport(p2p->ctx)) {
		status = ori_transport_join(p2p);
		p2p->backend = status == ORIEL_OK ? &ori_p2p_transport : NULL;
		p2p->state = status == ORIEL_OK ? P2P_CALLING : P2P_IDLE;
		return status;
	}
	if (!backend && path == ORIEL_PATH_NONE)
		return p2p_no_path(p2p);
	/* If an HCA moves all bytes by itself no stream is needed, and hardware queues are few. */
	if (!backend && (path != ORIEL_PATH_RDMA || p2p->mode != ORIEL_P2P_ZERO_COPY))
		status = ori_copy_streams_open(p2p);
	if (status != ORIEL_OK)
		return status;
	if (path == ORIEL_PATH_SELF && !backend)
		backend = &ori_p2p_self;
	if (backend) {
		/* No other process takes part, so there is nothing to wait for. */
		p2p->backend = backend;
		p2p->state = P2P_JOINED;
		return backend->connect(p2p, NULL, NULL, 0);
	}
	/*
	 * The rest is work of passes: a call that waited here would block a thread that drives
	 * both.
	 */
	p2p->backend = path == ORIEL_PATH_RDMA ? &ori_p2p_rdma : &ori_p2p_mapped;
	p2p->state = P2P_CALLING;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_connect(struct oriel_p2p *p2p, const void *address, size_t length,
				    uint64_t timeout_ns)
{
	struct p2p_address peer;
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!address)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_connect: address is NULL");
	if (p2p->state == P2P_BROKEN)
		return ori_p2p_failed(p2p);
	if (p2p->state != P2P_IDLE)
		return ori_fail(ORIEL_ERR_STATE,
				"oriel_p2p_connect: the endpoint is connected already");
	status = ori_p2p_address_parse(address, length, &peer);
	return status == ORIEL_OK ? ori_p2p_join(p2p, &peer, timeout_ns) : status;
}

enum oriel_status oriel_p2p_check(const struct oriel_p2p *p2p)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (status != ORIEL_OK)
		return status;
	if (p2p->state == P2P_BROKEN)
		return ori_p2p_failed(p2p);
	return p2p->state == P2P_JOINED ? ORIEL_OK : ORIEL_AGAIN;
}

static const char *p2p_backend_name(const struct oriel_p2p *p2p)
{
	return p2p_has_transport(p2p->ctx) ? p2p->ctx->transport.name : p2p->backend->name;
}

enum oriel_status oriel_p2p_describe(const struct oriel_p2p *p2p, struct oriel_p2p_info *info)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	struct oriel_p2p_info found;
	bool is_joined;

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_p2p_info", info);
	if (status != ORIEL_OK)
		return status;
	is_joined = p2p->state == P2P_JOINED;
	found = (struct oriel_p2p_info){
		.path = is_joined ? p2p->backend->path : ORIEL_PATH_NONE,
		.mode = p2p->mode,
		.backend = is_joined ? p2p_backend_name(p2p) : "none",
		.channels = p2p->whole,
		.chunk_slots = p2p->chunk_slots,
		.depth = p2p->depth,
		/* The meeting takes the smaller chunk of the two contexts. */
		.chunk = is_joined ? p2p->chunk : p2p->ctx->pool.chunk,
		.control_max = ORIEL_P2P_CONTROL,
		.is_same_process = p2p_is_same_process(p2p),
		.queues = is_joined && p2p->backend->path == ORIEL_PATH_RDMA ? p2p->link.queues : 0,
	};
	ori_info_write(info, &found, sizeof(found));
	return ORIEL_OK;
}
