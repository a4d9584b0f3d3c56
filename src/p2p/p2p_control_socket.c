/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two ends meet, and that the peer is still there: frames over a unix socket,
 * with descriptors, or over TCP. One end calls the hub of the other.
 * Each says P2P_ENDPOINT, and once it has heard the peer's and can be put to, P2P_READY;
 * nothing is put before that has come.
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

#define DOOR_FDS ORI_MEM_FDS /* with a frame */
#define DOOR_KNOCK_NS UINT64_C(50000000)
#define DOOR_KNOCK_FAR_NS UINT64_C(1000000000)

union door_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(DOOR_FDS * sizeof(int))];
};

static struct p2p_frame door_frame(enum p2p_frame_kind kind)
{
	struct p2p_frame frame = {.magic = P2P_FRAME_MAGIC,
				  .version = P2P_VERSION,
				  .kind = (uint16_t)kind};

	return frame;
}

static void door_drop_fds(struct p2p_control_socket *door)
{
	while (door->nfds)
		close(door->fds[--door->nfds]);
}

/* What has come and is not read would make TCP take back what was said last. */
static void door_hang_up(struct p2p_control_socket *door)
{
	char rest[sizeof(door->in)];

	if (door->is_near || shutdown(door->fd, SHUT_WR) != 0)
		return;
	while (recv(door->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

void ori_control_socket_close(struct oriel_p2p *p)
{
	struct p2p_control_socket *door = &p->door;

	door_drop_fds(door);
	ori_p2p_dial_close(&door->dial);
	if (door->fd >= 0) {
		door_hang_up(door);
		close(door->fd);
	}
	door->fd = -1;
}

/* As much of @bytes as the socket takes, @fds with the first of them. */
static enum oriel_status door_push(int fd, const void *bytes, size_t length, const int *fds,
				   unsigned nfds, size_t *pushed)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	union door_control control = {0};
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
	if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS))
		return ORIEL_AGAIN;
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		return ori_fail(ORIEL_ERR_PEER, "the peer has gone");
	if (n < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot send to the peer");
	*pushed = (size_t)n;
	return ORIEL_OK;
}

/* What is left of the frame before. */
static enum oriel_status door_flush(struct p2p_control_socket *door)
{
	while (door->out_left) {
		const char *at = (const char *)&door->out + sizeof(door->out) - door->out_left;
		size_t pushed = 0;
		enum oriel_status st = door_push(door->fd, at, door->out_left, NULL, 0, &pushed);

		if (st != ORIEL_OK)
			return st;
		door->out_left -= pushed;
	}
	return ORIEL_OK;
}

static enum oriel_status door_send(struct oriel_p2p *p, const struct p2p_frame *frame,
				   const int *fds, unsigned nfds)
{
	struct p2p_control_socket *door = &p->door;
	enum oriel_status st = door_flush(door);
	size_t pushed = 0;

	if (st != ORIEL_OK)
		return st;
	st = door_push(door->fd, frame, sizeof(*frame), fds, nfds, &pushed);
	if (st != ORIEL_OK)
		return st;
	door->out = *frame;
	door->out_left = sizeof(*frame) - pushed;
	return ORIEL_OK;
}

enum oriel_status ori_control_socket_send(struct oriel_p2p *p, const struct p2p_frame *frame,
					  const int *fds, unsigned nfds)
{
	struct p2p_frame whole = *frame;

	whole.magic = P2P_FRAME_MAGIC;
	whole.version = P2P_VERSION;
	return door_send(p, &whole, fds, nfds);
}

void ori_control_socket_bye(struct oriel_p2p *p, enum oriel_status status, const char *text)
{
	struct p2p_frame frame = door_frame(P2P_BYE);

	if (p->door.fd < 0)
		return;
	frame.status = status;
	snprintf(frame.text, sizeof(frame.text), "%s", text);
	/* Best effort: the end of the socket says the same, without the reason. */
	(void)door_send(p, &frame, NULL, 0);
}

static void door_keep_fds(struct p2p_control_socket *door, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fds[DOOR_FDS];

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || count > DOOR_FDS)
			continue;
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		for (size_t i = 0; i < count; i++) {
			if (door->nfds < sizeof(door->fds) / sizeof(door->fds[0]))
				door->fds[door->nfds++] = fds[i];
			else
				close(fds[i]);
		}
	}
}

/* The next frame. ORIEL_AGAIN: not all of it is there; ORIEL_ERR_PEER: none comes any more. */
static enum oriel_status door_hear(struct oriel_p2p *p, struct p2p_frame *frame)
{
	struct p2p_control_socket *door = &p->door;
	union door_control control;
	struct iovec part = {.iov_base = (char *)&door->in + door->in_length,
			     .iov_len = sizeof(door->in) - door->in_length};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(door->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return ORIEL_AGAIN;
	if (n == 0 ||
	    (n < 0 && (errno == ECONNRESET || errno == ETIMEDOUT || errno == EHOSTUNREACH)))
		return ori_fail(ORIEL_ERR_PEER, "the peer, %s, has gone without a word", p->whom);
	if (n < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot hear the peer");
	door_keep_fds(door, &message);
	door->in_length += (size_t)n;
	if (door->in_length < sizeof(door->in))
		return ORIEL_AGAIN;
	door->in_length = 0;
	return ori_p2p_frame_parse(&door->in, sizeof(door->in), frame);
}

static enum oriel_status door_take_bye(const struct oriel_p2p *p, const struct p2p_frame *frame)
{
	if (frame->status == ORIEL_OK)
		return ori_fail(ORIEL_ERR_PEER, "the peer, %s, has destroyed its end", p->whom);
	return ori_fail((enum oriel_status)frame->status, "the end of the peer, %s, is broken: %s",
			p->whom, frame->text);
}

/* Does the hub of a peer that has not called still listen? It takes a knock for nothing. */
static enum oriel_status door_knock(struct oriel_p2p *p)
{
	struct p2p_control_socket *door = &p->door;
	enum oriel_status st = ORIEL_ERR_TIMEOUT;
	int fd;

	if (!ori_deadline_passed(door->knock) || (!door->is_near && !p->peer.port))
		return ORIEL_AGAIN;
	if (door->is_near)
		st = ori_fdsock_connect(p->peer.door, p->peer.uid, (pid_t)p->peer.pid, 1, &fd);
	else
		st = ori_p2p_probe(&door->dial, &p->address, &p->peer);
	if (st == ORIEL_AGAIN)
		return st;
	door->knock = ori_deadline(door->is_near ? DOOR_KNOCK_NS : DOOR_KNOCK_FAR_NS);
	if (st == ORIEL_OK && door->is_near)
		close(fd);
	return st == ORIEL_OK || st == ORIEL_ERR_TIMEOUT ? ORIEL_AGAIN : st;
}

/* ORIEL_AGAIN: there is no socket yet. */
static enum oriel_status door_call(struct oriel_p2p *p)
{
	struct p2p_control_socket *door = &p->door;
	enum oriel_status st;

	if (!ori_p2p_address_calls(&p->address, &p->peer)) {
		st = ori_p2p_context_answer(p->hub, &p->peer.token, &p->address.token, &door->fd);
		if (st == ORIEL_AGAIN && door->clash && ori_deadline_passed(door->clash))
			st = ori_p2p_context_find_clash(p->hub, p);
		return st == ORIEL_AGAIN ? door_knock(p) : st;
	}
	door->hello = (struct p2p_hello){.to = p->peer.token, .from = p->address.token};
	if (door->is_near)
		st = ori_fdsock_connect(p->peer.door, p->peer.uid, (pid_t)p->peer.pid, 1,
					&door->fd);
	else
		st = ori_p2p_dial(&door->dial, &p->hub->key, &p->address, &p->peer, &door->fd,
				  &door->hello);
	if (st == ORIEL_ERR_TIMEOUT)
		return ORIEL_AGAIN;
	door->is_hello_due = st == ORIEL_OK;
	return st;
}

static enum oriel_status door_check_end(const struct oriel_p2p *p,
					const struct p2p_endpoint_info *e)
{
	if (e->mode != p->mode)
		return ori_fail(ORIEL_ERR_MISMATCH, "this end is of mode %s, the peer's of mode %s",
				oriel_p2p_mode_name(p->mode),
				oriel_p2p_mode_name((enum oriel_p2p_mode)e->mode));
	if (e->channels != p->channels || e->depth != p->depth)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"this end has %u channels of depth %u, the peer's %u of depth %u",
				p->channels, p->depth, e->channels, e->depth);
	if (e->path != p->backend->path)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's end has path %u, not %u", e->path,
				p->backend->path);
	return ORIEL_OK;
}

static enum oriel_status door_say_end(struct oriel_p2p *p)
{
	const struct p2p_pool *pool = &p->hub->pool;
	struct p2p_frame frame = door_frame(P2P_ENDPOINT);
	unsigned nfds = 0;
	int fds[DOOR_FDS];
	enum oriel_status st;

	frame.end.path = p->backend->path;
	frame.end.mode = p->mode;
	frame.end.channels = p->channels;
	frame.end.depth = p->depth;
	frame.end.chunk = pool->chunk;
	frame.end.stride = pool->stride;
	frame.end.slots = pool->receive;
	memcpy(frame.end.gpu, p->hub->gpu.uuid, sizeof(frame.end.gpu));
	st = p->backend->open(p, &frame.end, fds, &nfds);
	if (p->backend->carries && ori_p2p_takes_eager(p))
		frame.end.flags |= P2P_ENDPOINT_EAGER;
	return st == ORIEL_OK ? door_send(p, &frame, fds, nfds) : st;
}

static enum oriel_status door_take_end(struct oriel_p2p *p, const struct p2p_endpoint_info *end)
{
	enum oriel_status st;

	if (p->door.has_end)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer describes its end twice");
	st = door_check_end(p, end);
	if (st != ORIEL_OK)
		return st;
	p->pool_stride = end->stride;
	p->pool_slots = end->slots;
	if ((end->flags & P2P_ENDPOINT_EAGER) && p->backend->carries && ori_p2p_takes_eager(p))
		p->eager_max = p2p_eager_limit(p);
	memcpy(p->peer_gpu, end->gpu, sizeof(p->peer_gpu));
	p->chunk = end->chunk < p->hub->pool.chunk ? (size_t)end->chunk : p->hub->pool.chunk;
	st = p->backend->connect(p, end, p->door.fds, p->door.nfds);
	door_drop_fds(&p->door);
	p->door.has_end = st == ORIEL_OK;
	return st;
}

static enum oriel_status door_take_piece(struct oriel_p2p *p, const struct p2p_piece *piece)
{
	struct p2p_taken *taken = &p->taken[p2p_piece_slot(piece->number)];
	enum oriel_status st = ORIEL_ERR_PROTOCOL;

	if (p->backend->path == ORIEL_PATH_MAPPED && piece->number == taken->next) {
		ori_mapping_close(&taken->map);
		st = ori_p2p_import(p, &piece->blob, p->door.fds, p->door.nfds, &taken->map);
		taken->next = p2p_piece_after(piece->number);
	} else {
		st = ori_fail(st, "the peer gives memory that nobody asked for");
	}
	door_drop_fds(&p->door);
	return st;
}

static enum oriel_status door_take(struct oriel_p2p *p, const struct p2p_frame *frame)
{
	switch ((enum p2p_frame_kind)frame->kind) {
	case P2P_ENDPOINT:
		return door_take_end(p, &frame->end);
	case P2P_READY:
		if (!p->door.has_end)
			break;
		p->door.is_ready = true;
		p->is_gpu_reached = frame->ready.reaches_gpu;
		return ORIEL_OK;
	case P2P_PIECE:
		return door_take_piece(p, &frame->piece);
	case P2P_BYE:
		return door_take_bye(p, frame);
	case P2P_HELLO:
	case P2P_CHALLENGE:
	case P2P_PROOF:
		break;
	}
	return ori_fail(ORIEL_ERR_PROTOCOL, "the peer sends frame %u at the wrong time",
			frame->kind);
}

/* Each step once: nothing is sent twice because something else did not fit. */
static enum oriel_status door_say(struct oriel_p2p *p)
{
	struct p2p_control_socket *door = &p->door;
	struct p2p_frame frame = door_frame(P2P_HELLO);
	enum oriel_status st = ORIEL_OK;

	if (door->is_hello_due) {
		frame.hello = door->hello;
		st = door_send(p, &frame, NULL, 0);
		door->is_hello_due = st == ORIEL_AGAIN;
	}
	if (st == ORIEL_OK && !door->has_sent_end) {
		st = door_say_end(p);
		door->has_sent_end = st == ORIEL_OK;
	}
	if (st == ORIEL_OK && door->has_end && !door->has_sent_ready) {
		frame = door_frame(P2P_READY);
		frame.ready.reaches_gpu = ori_p2p_context_reaches(p->hub, p->peer_gpu);
		st = door_send(p, &frame, NULL, 0);
		door->has_sent_ready = st == ORIEL_OK;
	}
	return st == ORIEL_OK ? door_flush(door) : st;
}

enum oriel_status ori_control_socket_meet(struct oriel_p2p *p, bool *has_moved)
{
	struct p2p_frame frame;
	enum oriel_status st = ORIEL_OK;

	if (p->state == P2P_CALLING) {
		st = door_call(p);
		if (st != ORIEL_OK)
			return st;
		ori_p2p_dial_close(&p->door.dial);
		if (!p->door.is_near)
			ori_p2p_tune(p->door.fd);
		p->state = P2P_MEETING;
		*has_moved = true;
	}
	while (st == ORIEL_OK && !(p->door.is_ready && p->door.has_sent_ready)) {
		st = door_say(p);
		/* A peer that does not fit has said so before it left. */
		if (st == ORIEL_OK || st == ORIEL_AGAIN || st == ORIEL_ERR_PEER)
			st = door_hear(p, &frame);
		if (st == ORIEL_OK)
			st = door_take(p, &frame);
		*has_moved |= st == ORIEL_OK;
	}
	return st;
}

enum oriel_status ori_control_socket_watch(struct oriel_p2p *p)
{
	struct p2p_frame frame;
	enum oriel_status st;

	if (p->door.fd < 0 || p->is_leaving)
		return ORIEL_OK;
	st = door_flush(&p->door);
	while (st == ORIEL_OK || st == ORIEL_AGAIN || st == ORIEL_ERR_PEER) {
		st = door_hear(p, &frame);
		if (st != ORIEL_OK)
			break;
		st = door_take(p, &frame);
		if (frame.kind == P2P_BYE)
			break;
	}
	if (st == ORIEL_AGAIN)
		return ORIEL_OK;
	/* What it has put before is there, and still taken. */
	if (st == ORIEL_ERR_PEER) {
		p->is_leaving = true;
		p->leaving = st;
		snprintf(p->failure_text, sizeof(p->failure_text), "%s", oriel_last_error());
		return ORIEL_OK;
	}
	return st;
}
