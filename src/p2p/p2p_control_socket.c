/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of an endpoint: two endpoints meet over it, and it shows that the
 * peer is alive. Frames travel over a unix socket, with descriptors, or over TCP. One
 * endpoint connects to the context of the other. Each sends P2P_ENDPOINT, and P2P_READY
 * once it has received the peer's and can be put to; no put is made before that has
 * arrived.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "p2p/p2p.h"

#define SOCKET_FDS ORI_MEM_FDS /* with a frame */
#define SOCKET_PROBE_LOCAL_NS UINT64_C(50000000)
#define SOCKET_PROBE_REMOTE_NS UINT64_C(1000000000)

union socket_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SOCKET_FDS * sizeof(int))];
};

static struct p2p_frame socket_frame(enum p2p_frame_kind kind)
{
	struct p2p_frame frame = {.magic = P2P_FRAME_MAGIC,
				  .version = P2P_VERSION,
				  .kind = (uint16_t)kind};

	return frame;
}

static void socket_drop_fds(struct p2p_control_socket *control_socket)
{
	while (control_socket->nfds)
		close(control_socket->fds[--control_socket->nfds]);
}

/* Unread bytes would make TCP reset the connection and drop the last frame sent. */
static void socket_hang_up(struct p2p_control_socket *control_socket)
{
	char rest[sizeof(control_socket->in)];

	if (control_socket->is_local || shutdown(control_socket->fd, SHUT_WR) != 0)
		return;
	while (recv(control_socket->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

void ori_control_socket_close(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;

	socket_drop_fds(control_socket);
	ori_p2p_dial_close(&control_socket->dial);
	if (control_socket->fd >= 0) {
		socket_hang_up(control_socket);
		close(control_socket->fd);
	}
	control_socket->fd = -1;
}

/* Send as much of @bytes as the socket takes, @fds with the first of them. */
static enum oriel_status socket_push(int fd, const void *bytes, size_t length, const int *fds,
				     unsigned nfds, size_t *pushed)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	union socket_control control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	if (nfds) {
		struct cmsghdr *c;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* ETOOMANYREFS: the peer has yet to receive descriptors that were sent (unix(7)). */
	if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS))
		return ORIEL_AGAIN;
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		return ori_fail(ORIEL_ERR_PEER, "the peer has closed its socket");
	if (n < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot send to the peer");
	*pushed = (size_t)n;
	return ORIEL_OK;
}

/* Send the rest of the last frame. */
static enum oriel_status socket_flush(struct p2p_control_socket *control_socket)
{
	while (control_socket->out_left) {
		const char *at = (const char *)&control_socket->out + sizeof(control_socket->out) -
				 control_socket->out_left;
		size_t pushed = 0;
		enum oriel_status status = socket_push(control_socket->fd, at,
						       control_socket->out_left, NULL, 0, &pushed);

		if (status != ORIEL_OK)
			return status;
		control_socket->out_left -= pushed;
	}
	return ORIEL_OK;
}

static enum oriel_status socket_send(struct oriel_p2p *p2p, const struct p2p_frame *frame,
				     const int *fds, unsigned nfds)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status = socket_flush(control_socket);
	size_t pushed = 0;

	if (status != ORIEL_OK)
		return status;
	status = socket_push(control_socket->fd, frame, sizeof(*frame), fds, nfds, &pushed);
	if (status != ORIEL_OK)
		return status;
	control_socket->out = *frame;
	control_socket->out_left = sizeof(*frame) - pushed;
	return ORIEL_OK;
}

enum oriel_status ori_control_socket_send(struct oriel_p2p *p2p, const struct p2p_frame *frame,
					  const int *fds, unsigned nfds)
{
	struct p2p_frame whole = *frame;

	whole.magic = P2P_FRAME_MAGIC;
	whole.version = P2P_VERSION;
	return socket_send(p2p, &whole, fds, nfds);
}

void ori_control_socket_bye(struct oriel_p2p *p2p, enum oriel_status status, const char *text)
{
	struct p2p_frame frame = socket_frame(P2P_BYE);

	if (p2p->control_socket.fd < 0)
		return;
	frame.status = status;
	snprintf(frame.text, sizeof(frame.text), "%s", text);
	/* Best effort: the closed socket says the same, without the reason. */
	(void)socket_send(p2p, &frame, NULL, 0);
}

static void socket_store_fds(struct p2p_control_socket *control_socket, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fds[SOCKET_FDS];

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || count > SOCKET_FDS)
			continue;
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		for (size_t i = 0; i < count; i++) {
			if (control_socket->nfds <
			    sizeof(control_socket->fds) / sizeof(control_socket->fds[0]))
				control_socket->fds[control_socket->nfds++] = fds[i];
			else
				close(fds[i]);
		}
	}
}

/*
 * Receive the next frame. ORIEL_AGAIN: not all of it has arrived; ORIEL_ERR_PEER: the peer
 * has closed the socket.
 */
static enum oriel_status socket_recv(struct oriel_p2p *p2p, struct p2p_frame *frame)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	union socket_control control;
	struct iovec part = {.iov_base = (char *)&control_socket->in + control_socket->in_length,
			     .iov_len = sizeof(control_socket->in) - control_socket->in_length};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(control_socket->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return ORIEL_AGAIN;
	if (n == 0 ||
	    (n < 0 && (errno == ECONNRESET || errno == ETIMEDOUT || errno == EHOSTUNREACH)))
		return ori_fail(ORIEL_ERR_PEER,
				"the peer, %s, exited or closed its socket without a reason",
				p2p->peer_name);
	if (n < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot receive from the peer");
	socket_store_fds(control_socket, &message);
	control_socket->in_length += (size_t)n;
	if (control_socket->in_length < sizeof(control_socket->in))
		return ORIEL_AGAIN;
	control_socket->in_length = 0;
	return ori_p2p_frame_parse(&control_socket->in, sizeof(control_socket->in), frame);
}

static enum oriel_status socket_take_bye(const struct oriel_p2p *p2p, const struct p2p_frame *frame)
{
	if (frame->status == ORIEL_OK)
		return ori_fail(ORIEL_ERR_PEER, "the peer, %s, has destroyed its endpoint",
				p2p->peer_name);
	return ori_fail((enum oriel_status)frame->status,
			"the endpoint of the peer, %s, is broken: %s", p2p->peer_name, frame->text);
}

/*
 * Does the context of a peer that has not connected still listen? It ignores a connection
 * that sends nothing.
 */
static enum oriel_status socket_probe(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status = ORIEL_ERR_TIMEOUT;
	int fd;

	if (!ori_deadline_passed(control_socket->probe_at) ||
	    (!control_socket->is_local && !p2p->peer.port))
		return ORIEL_AGAIN;
	if (control_socket->is_local)
		status = ori_fdsock_connect(p2p->peer.listener, p2p->peer.uid, (pid_t)p2p->peer.pid,
					    1, &fd);
	else
		status = ori_p2p_probe(&control_socket->dial, &p2p->address, &p2p->peer);
	if (status == ORIEL_AGAIN)
		return status;
	control_socket->probe_at = ori_deadline(control_socket->is_local ? SOCKET_PROBE_LOCAL_NS
									 : SOCKET_PROBE_REMOTE_NS);
	if (status == ORIEL_OK && control_socket->is_local)
		close(fd);
	return status == ORIEL_OK || status == ORIEL_ERR_TIMEOUT ? ORIEL_AGAIN : status;
}

/* ORIEL_AGAIN: there is no socket yet. */
static enum oriel_status socket_connect(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status;

	if (!ori_p2p_address_calls(&p2p->address, &p2p->peer)) {
		status = ori_p2p_context_answer(p2p->ctx, &p2p->peer.token, &p2p->address.token,
						&control_socket->fd);
		if (status == ORIEL_AGAIN && control_socket->clash &&
		    ori_deadline_passed(control_socket->clash))
			status = ori_p2p_context_find_clash(p2p->ctx, p2p);
		return status == ORIEL_AGAIN ? socket_probe(p2p) : status;
	}
	control_socket->hello =
		(struct p2p_hello){.to = p2p->peer.token, .from = p2p->address.token};
	if (control_socket->is_local)
		status = ori_fdsock_connect(p2p->peer.listener, p2p->peer.uid, (pid_t)p2p->peer.pid,
					    1, &control_socket->fd);
	else
		status = ori_p2p_dial(&control_socket->dial, &p2p->ctx->key, &p2p->address,
				      &p2p->peer, &control_socket->fd, &control_socket->hello);
	if (status == ORIEL_ERR_TIMEOUT)
		return ORIEL_AGAIN;
	control_socket->is_hello_due = status == ORIEL_OK;
	return status;
}

static enum oriel_status socket_check_info(const struct oriel_p2p *p2p,
					   const struct p2p_endpoint_info *e)
{
	if (e->mode != p2p->mode)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"this endpoint is of mode %s, the peer's of mode %s",
				oriel_p2p_mode_name(p2p->mode),
				oriel_p2p_mode_name((enum oriel_p2p_mode)e->mode));
	if (e->channels != p2p->channels || e->depth != p2p->depth)
		return ori_fail(
			ORIEL_ERR_MISMATCH,
			"this endpoint has %u channels of depth %u, the peer's %u of depth %u",
			p2p->channels, p2p->depth, e->channels, e->depth);
	if (e->path != p2p->backend->path)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's endpoint has path %u, not %u",
				e->path, p2p->backend->path);
	return ORIEL_OK;
}

static enum oriel_status socket_send_info(struct oriel_p2p *p2p)
{
	const struct p2p_pool *pool = &p2p->ctx->pool;
	struct p2p_frame frame = socket_frame(P2P_ENDPOINT);
	unsigned nfds = 0;
	int fds[SOCKET_FDS];
	enum oriel_status status;

	frame.info.path = p2p->backend->path;
	frame.info.mode = p2p->mode;
	frame.info.channels = p2p->channels;
	frame.info.depth = p2p->depth;
	frame.info.chunk = pool->chunk;
	frame.info.stride = pool->stride;
	frame.info.slots = pool->receive;
	memcpy(frame.info.gpu, p2p->ctx->gpu.uuid, sizeof(frame.info.gpu));
	status = p2p->backend->open(p2p, &frame.info, fds, &nfds);
	if (p2p->backend->has_eager && p2p_takes_eager(p2p))
		frame.info.flags |= P2P_ENDPOINT_EAGER;
	return status == ORIEL_OK ? socket_send(p2p, &frame, fds, nfds) : status;
}

static enum oriel_status socket_take_info(struct oriel_p2p *p2p,
					  const struct p2p_endpoint_info *info)
{
	enum oriel_status status;

	if (p2p->control_socket.has_info)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer describes its endpoint twice");
	status = socket_check_info(p2p, info);
	if (status != ORIEL_OK)
		return status;
	p2p->pool_stride = info->stride;
	p2p->pool_slots = info->slots;
	if ((info->flags & P2P_ENDPOINT_EAGER) && p2p->backend->has_eager && p2p_takes_eager(p2p))
		p2p->eager_max = p2p_eager_limit(p2p);
	memcpy(p2p->peer_gpu, info->gpu, sizeof(p2p->peer_gpu));
	p2p->chunk =
		info->chunk < p2p->ctx->pool.chunk ? (size_t)info->chunk : p2p->ctx->pool.chunk;
	status =
		p2p->backend->connect(p2p, info, p2p->control_socket.fds, p2p->control_socket.nfds);
	/* Mappings outlive the descriptors. */
	socket_drop_fds(&p2p->control_socket);
	p2p->control_socket.has_info = status == ORIEL_OK;
	return status;
}

static enum oriel_status socket_take_piece(struct oriel_p2p *p2p, const struct p2p_piece *piece)
{
	struct p2p_taken *taken = &p2p->taken[p2p_piece_slot(piece->number)];
	enum oriel_status status = ORIEL_ERR_PROTOCOL;

	if (p2p->backend->path == ORIEL_PATH_MAPPED && piece->number == taken->next) {
		ori_mapping_close(&taken->map);
		status = ori_p2p_import(p2p, &piece->blob, p2p->control_socket.fds,
					p2p->control_socket.nfds, &taken->map);
		taken->next = p2p_piece_after(piece->number);
	} else {
		status = ori_fail(status, "the peer sends memory that is not due");
	}
	socket_drop_fds(&p2p->control_socket);
	return status;
}

static enum oriel_status socket_take(struct oriel_p2p *p2p, const struct p2p_frame *frame)
{
	switch ((enum p2p_frame_kind)frame->kind) {
	case P2P_ENDPOINT:
		return socket_take_info(p2p, &frame->info);
	case P2P_READY:
		if (!p2p->control_socket.has_info)
			break;
		p2p->control_socket.is_ready = true;
		p2p->is_gpu_reached = frame->ready.reaches_gpu;
		return ORIEL_OK;
	case P2P_PIECE:
		return socket_take_piece(p2p, &frame->piece);
	case P2P_BYE:
		return socket_take_bye(p2p, frame);
	case P2P_HELLO:
	case P2P_CHALLENGE:
	case P2P_PROOF:
		break;
	}
	return ori_fail(ORIEL_ERR_PROTOCOL, "the peer sends frame %u at the wrong time",
			frame->kind);
}

/* Each step once: no frame is sent twice because another one did not fit. */
static enum oriel_status socket_send_due(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	struct p2p_frame frame = socket_frame(P2P_HELLO);
	enum oriel_status status = ORIEL_OK;

	if (control_socket->is_hello_due) {
		frame.hello = control_socket->hello;
		status = socket_send(p2p, &frame, NULL, 0);
		control_socket->is_hello_due = status == ORIEL_AGAIN;
	}
	if (status == ORIEL_OK && !control_socket->has_sent_info) {
		status = socket_send_info(p2p);
		control_socket->has_sent_info = status == ORIEL_OK;
	}
	if (status == ORIEL_OK && control_socket->has_info && !control_socket->has_sent_ready) {
		frame = socket_frame(P2P_READY);
		frame.ready.reaches_gpu = ori_p2p_context_reaches(p2p->ctx, p2p->peer_gpu);
		status = socket_send(p2p, &frame, NULL, 0);
		control_socket->has_sent_ready = status == ORIEL_OK;
	}
	return status == ORIEL_OK ? socket_flush(control_socket) : status;
}

enum oriel_status ori_control_socket_meet(struct oriel_p2p *p2p, bool *has_moved)
{
	struct p2p_frame frame;
	enum oriel_status status = ORIEL_OK;

	if (p2p->state == P2P_CALLING) {
		status = socket_connect(p2p);
		if (status != ORIEL_OK)
			return status;
		ori_p2p_dial_close(&p2p->control_socket.dial);
		if (!p2p->control_socket.is_local)
			ori_p2p_tune(p2p->control_socket.fd);
		p2p->state = P2P_MEETING;
		*has_moved = true;
	}
	while (status == ORIEL_OK &&
	       !(p2p->control_socket.is_ready && p2p->control_socket.has_sent_ready)) {
		status = socket_send_due(p2p);
		/* A peer whose attributes differ has sent the reason before it left. */
		if (status == ORIEL_OK || status == ORIEL_AGAIN || status == ORIEL_ERR_PEER)
			status = socket_recv(p2p, &frame);
		if (status == ORIEL_OK)
			status = socket_take(p2p, &frame);
		*has_moved |= status == ORIEL_OK;
	}
	return status;
}

enum oriel_status ori_control_socket_watch(struct oriel_p2p *p2p)
{
	struct p2p_frame frame;
	enum oriel_status status;

	if (p2p->control_socket.fd < 0 || p2p->is_leaving)
		return ORIEL_OK;
	status = socket_flush(&p2p->control_socket);
	while (status == ORIEL_OK || status == ORIEL_AGAIN || status == ORIEL_ERR_PEER) {
		status = socket_recv(p2p, &frame);
		if (status != ORIEL_OK)
			break;
		status = socket_take(p2p, &frame);
		if (frame.kind == P2P_BYE)
			break;
	}
	if (status == ORIEL_AGAIN)
		return ORIEL_OK;
	/* Puts that the peer made before have arrived, and are still taken. */
	if (status == ORIEL_ERR_PEER) {
		p2p->is_leaving = true;
		p2p->leaving = status;
		snprintf(p2p->failure_text, sizeof(p2p->failure_text), "%s", oriel_last_error());
		return ORIEL_OK;
	}
	return status;
}
