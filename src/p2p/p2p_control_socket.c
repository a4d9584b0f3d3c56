/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of an endpoint: frames over a unix socket, with descriptors, or over
 * TCP. The meeting sends and receives them, pieces of memory travel over it, and an
 * endpoint that ends says why.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "p2p/p2p.h"

#define SOCKET_FDS ORI_MEM_FDS /* with a frame */

union socket_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SOCKET_FDS * sizeof(int))];
};

void ori_control_socket_drop_fds(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;

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

	ori_control_socket_drop_fds(p2p);
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

enum oriel_status ori_control_socket_flush(struct oriel_p2p *p2p)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;

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

enum oriel_status ori_control_socket_send(struct oriel_p2p *p2p, const struct p2p_frame *frame,
					  const int *fds, unsigned nfds)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status = ori_control_socket_flush(p2p);
	size_t pushed = 0;

	if (status != ORIEL_OK)
		return status;
	control_socket->out = *frame;
	control_socket->out.magic = P2P_FRAME_MAGIC;
	control_socket->out.version = P2P_VERSION;
	status = socket_push(control_socket->fd, &control_socket->out, sizeof(control_socket->out),
			     fds, nfds, &pushed);
	if (status == ORIEL_OK)
		control_socket->out_left = sizeof(control_socket->out) - pushed;
	return status;
}

void ori_control_socket_bye(struct oriel_p2p *p2p, enum oriel_status status, const char *text)
{
	struct p2p_frame frame = {.kind = P2P_BYE, .status = status};

	if (p2p->control_socket.fd < 0)
		return;
	snprintf(frame.text, sizeof(frame.text), "%s", text);
	/* Best effort: the closed socket says the same, without the reason. */
	(void)ori_control_socket_send(p2p, &frame, NULL, 0);
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

enum oriel_status ori_control_socket_recv(struct oriel_p2p *p2p, struct p2p_frame *frame)
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
