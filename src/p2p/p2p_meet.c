/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two endpoints meet over their control socket, and it shows that the peer is alive. One
 * endpoint connects to the context of the other. Each sends P2P_ENDPOINT, and P2P_READY
 * once it has received the peer's and can be put to; no put is made before that has
 * arrived. The passes of p2p_run.c call it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "p2p/p2p.h"

#define MEET_PROBE_LOCAL_NS UINT64_C(50000000)
#define MEET_PROBE_REMOTE_NS UINT64_C(1000000000)

static enum oriel_status meet_take_bye(const struct oriel_p2p *p2p, const struct p2p_frame *frame)
{
	if (frame->bye.status == ORIEL_OK)
		return ori_fail(ORIEL_ERR_PEER, "the peer, %s, has destroyed its endpoint",
				p2p->peer_name);
	return ori_fail((enum oriel_status)frame->bye.status,
			"the endpoint of the peer, %s, is broken: %s", p2p->peer_name,
			frame->bye.text);
}

/*
 * Does the context of a peer that has not connected still listen? It ignores a connection
 * that sends nothing.
 */
static enum oriel_status meet_probe(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status;
	int fd = -1;

	if (!ori_deadline_passed(control_socket->probe_at) ||
	    (!control_socket->is_local && !p2p->peer.port))
		return ORIEL_AGAIN;
	if (control_socket->is_local)
		status = ori_fdsock_connect(p2p->peer.listener, p2p->peer.uid, (pid_t)p2p->peer.pid,
					    1, &fd);
	else
		status = ori_p2p_probe(&control_socket->dial, &control_socket->conn, &p2p->address,
				       &p2p->peer);
	if (status == ORIEL_AGAIN)
		return status;
	control_socket->probe_at =
		ori_deadline(control_socket->is_local ? MEET_PROBE_LOCAL_NS : MEET_PROBE_REMOTE_NS);
	if (fd >= 0)
		close(fd);
	/* A full backlog is no sign that the process exited. */
	return status == ORIEL_OK || status == ORIEL_ERR_TIMEOUT ? ORIEL_AGAIN : status;
}

/* Few bytes are sent whole on a new socket, and no context answers them over a unix socket. */
static enum oriel_status meet_connect_local(struct oriel_p2p *p2p)
{
	const struct p2p_frame hello = {.kind = P2P_HELLO,
					.hello = {.to = p2p->peer.token,
						  .from = p2p->address.token}};
	enum oriel_status status;
	int fd;

	status =
		ori_fdsock_connect(p2p->peer.listener, p2p->peer.uid, (pid_t)p2p->peer.pid, 1, &fd);
	if (status != ORIEL_OK)
		return status == ORIEL_ERR_TIMEOUT ? ORIEL_AGAIN : status;
	ori_net_open(&p2p->control_socket.conn, fd, NULL);
	return ori_control_socket_send(p2p, &hello, NULL, 0);
}

/* The texts of src/net and of the dial name no rank. */
static enum oriel_status meet_name(const struct oriel_p2p *p2p, enum oriel_status status)
{
	char text[P2P_TEXT];

	if (status != ORIEL_ERR_PEER && status != ORIEL_ERR_AUTH)
		return status;
	snprintf(text, sizeof(text), "%s", oriel_last_error());
	return ori_fail(status, "the peer, %s, cannot be reached: %s", p2p->peer_name, text);
}

/* ORIEL_AGAIN: there is no connection yet. */
static enum oriel_status meet_try(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status;

	if (!ori_p2p_address_calls(&p2p->address, &p2p->peer)) {
		status = ori_p2p_context_answer(p2p->ctx, &p2p->peer.token, &p2p->address.token,
						&control_socket->conn);
		if (status == ORIEL_AGAIN && control_socket->clash &&
		    ori_deadline_passed(control_socket->clash))
			status = ori_p2p_context_find_clash(p2p->ctx, p2p);
		return status == ORIEL_AGAIN ? meet_probe(p2p) : status;
	}
	if (control_socket->is_local)
		return meet_connect_local(p2p);
	return ori_p2p_dial(&control_socket->dial, &control_socket->conn, p2p->ctx->tls,
			    &p2p->address, &p2p->peer);
}

static enum oriel_status meet_connect(struct oriel_p2p *p2p)
{
	return meet_name(p2p, meet_try(p2p));
}

static enum oriel_status meet_check_info(const struct oriel_p2p *p2p,
					 const struct p2p_endpoint_info *e)
{
	if (e->mode != p2p->mode)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"this endpoint is of mode %s, the peer's of mode %s",
				oriel_p2p_mode_name(p2p->mode),
				oriel_p2p_mode_name((enum oriel_p2p_mode)e->mode));
	if (e->channels != p2p->channels || e->chunk_slots != p2p->chunk_slots ||
	    e->depth != p2p->depth)
		return ori_fail(
			ORIEL_ERR_MISMATCH,
			"this endpoint has %u channels of %u slots and depth %u, the peer's %u of "
			"%u slots and depth %u",
			p2p->whole, p2p->chunk_slots, p2p->depth,
			e->channels / (1u + e->chunk_slots), e->chunk_slots, e->depth);
	if (e->path != p2p->backend->path)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's endpoint has path %s, this one %s",
				oriel_path_name((enum oriel_path)e->path),
				oriel_path_name(p2p->backend->path));
	return ORIEL_OK;
}

static enum oriel_status meet_send_info(struct oriel_p2p *p2p)
{
	const struct p2p_pool *pool = &p2p->ctx->pool;
	struct p2p_frame frame = {.kind = P2P_ENDPOINT};
	unsigned nfds = 0;
	int fds[ORI_MEM_FDS];
	enum oriel_status status;

	frame.info.path = p2p->backend->path;
	frame.info.mode = p2p->mode;
	frame.info.channels = (uint16_t)p2p->channels;
	frame.info.chunk_slots = (uint16_t)p2p->chunk_slots;
	frame.info.depth = p2p->depth;
	frame.info.chunk = pool->chunk;
	frame.info.stride = pool->stride;
	frame.info.slots = pool->receive;
	memcpy(frame.info.gpu, p2p->ctx->gpu.uuid, sizeof(frame.info.gpu));
	status = p2p->backend->open(p2p, &frame.info, fds, &nfds);
	if (p2p->backend->has_eager && p2p_takes_eager(p2p))
		frame.info.flags |= P2P_ENDPOINT_EAGER;
	return status == ORIEL_OK ? ori_control_socket_send(p2p, &frame, fds, nfds) : status;
}

static enum oriel_status meet_take_info(struct oriel_p2p *p2p, const struct p2p_endpoint_info *info)
{
	struct ori_fds *fds = &p2p->control_socket.conn.fds;
	enum oriel_status status;

	if (p2p->control_socket.has_info)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer describes its endpoint twice");
	status = meet_check_info(p2p, info);
	if (status != ORIEL_OK)
		return status;
	p2p->pool_stride = info->stride;
	p2p->pool_slots = info->slots;
	/*
	 * Both take eager sends, or none does. connect() needs the answer: it says how long the
	 * segment of the peer has to be.
	 */
	if ((info->flags & P2P_ENDPOINT_EAGER) && p2p->backend->has_eager && p2p_takes_eager(p2p))
		p2p->eager_max = p2p_eager_limit(p2p);
	memcpy(p2p->peer_gpu, info->gpu, sizeof(p2p->peer_gpu));
	p2p->chunk =
		info->chunk < p2p->ctx->pool.chunk ? (size_t)info->chunk : p2p->ctx->pool.chunk;
	status = p2p->backend->connect(p2p, info, fds->of, fds->count);
	/* Mappings outlive the descriptors. */
	ori_fds_close(fds);
	p2p->control_socket.has_info = status == ORIEL_OK;
	return status;
}

static enum oriel_status meet_take(struct oriel_p2p *p2p, const struct p2p_frame *frame)
{
	switch ((enum p2p_frame_kind)frame->kind) {
	case P2P_ENDPOINT:
		return meet_take_info(p2p, &frame->info);
	case P2P_READY:
		/* No put has a target before the peer has described its endpoint. */
		if (!p2p->control_socket.has_info)
			break;
		p2p->control_socket.is_ready = true;
		p2p->is_gpu_reached = frame->ready.reaches_gpu;
		return ORIEL_OK;
	case P2P_PIECE:
		return ori_piece_take(p2p, &frame->piece);
	case P2P_BYE:
		return meet_take_bye(p2p, frame);
	case P2P_HELLO:
	case P2P_WELCOME:
		break;
	}
	return ori_fail(ORIEL_ERR_PROTOCOL, "the peer sends frame %u at the wrong time",
			frame->kind);
}

/* Each step once: no frame is sent twice because another one did not fit. */
static enum oriel_status meet_send_due(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	struct p2p_frame frame = {.kind = P2P_READY};
	enum oriel_status status = ORIEL_OK;

	if (!control_socket->has_sent_info) {
		status = meet_send_info(p2p);
		control_socket->has_sent_info = status == ORIEL_OK;
	}
	if (status == ORIEL_OK && control_socket->has_info && !control_socket->has_sent_ready) {
		frame.ready.reaches_gpu = ori_p2p_context_reaches(p2p->ctx, p2p->peer_gpu);
		status = ori_control_socket_send(p2p, &frame, NULL, 0);
		control_socket->has_sent_ready = status == ORIEL_OK;
	}
	return status == ORIEL_OK ? ori_control_socket_flush(p2p) : status;
}

enum oriel_status ori_p2p_meet(struct oriel_p2p *p2p, bool *has_moved)
{
	struct p2p_frame frame;
	enum oriel_status status = ORIEL_OK;

	if (p2p->state == P2P_CALLING) {
		status = p2p->link.transport ? ORIEL_OK : meet_connect(p2p);
		if (status != ORIEL_OK)
			return status;
		if (!p2p->control_socket.is_local && !p2p->link.transport)
			ori_p2p_tune(p2p->control_socket.conn.fd);
		p2p->state = P2P_MEETING;
		*has_moved = true;
	}
	/* The peer waits for the frame of this endpoint, too, so both have to be on their way. */
	while (status == ORIEL_OK &&
	       !(p2p->control_socket.is_ready && p2p->control_socket.has_sent_ready)) {
		status = meet_send_due(p2p);
		/* A peer whose attributes differ has sent the reason before it left. */
		if (status == ORIEL_OK || status == ORIEL_AGAIN || status == ORIEL_ERR_PEER)
			status = ori_control_socket_recv(p2p, &frame);
		if (status == ORIEL_OK)
			status = meet_take(p2p, &frame);
		*has_moved |= status == ORIEL_OK;
	}
	if (status == ORIEL_OK)
		ori_log(ORIEL_LOG_DEBUG, "p2p endpoint with %s is connected: path %s, mode %s",
			p2p->peer_name, oriel_path_name(p2p->backend->path),
			oriel_p2p_mode_name(p2p->mode));
	return status;
}

enum oriel_status ori_p2p_watch(struct oriel_p2p *p2p)
{
	struct p2p_frame frame;
	enum oriel_status status;

	if (!ori_control_socket_is_open(p2p) || (p2p->is_leaving && !p2p->doubt_until))
		return ORIEL_OK;
	/* A peer that takes no more bytes may have sent its reason before. */
	status = ori_control_socket_flush(p2p);
	while (status == ORIEL_OK || status == ORIEL_AGAIN || status == ORIEL_ERR_PEER) {
		status = ori_control_socket_recv(p2p, &frame);
		if (status != ORIEL_OK)
			break;
		status = meet_take(p2p, &frame);
		if (frame.kind == P2P_BYE)
			break;
	}
	if (status == ORIEL_AGAIN)
		status = ori_control_socket_look(p2p, p2p->watched_at);
	/* Puts that the peer made before have arrived, and are still taken. */
	if (status == ORIEL_ERR_PEER) {
		p2p->is_leaving = true;
		p2p->doubt_until = 0;
		p2p->leaving = status;
		snprintf(p2p->failure_text, sizeof(p2p->failure_text), "%s", oriel_last_error());
		return ORIEL_OK;
	}
	return status;
}
