/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of an endpoint: frames over a connection of src/net, or over the transport
 * of the caller, which needs no socket. The meeting sends and
 * receives them, pieces of memory travel over it, and an endpoint that ends says why.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "p2p/p2p.h"

void ori_p2p_hang_up(struct ori_net_conn *conn)
{
	char rest[P2P_BODY];

	/* Unread bytes would make TCP reset the connection and drop the last frame sent. */
	if (conn->fd >= 0 && !conn->is_local && shutdown(conn->fd, SHUT_WR) == 0)
		while (recv(conn->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
			;
	ori_net_close(conn);
}

/* The failure of @status, which src/net has left without a text. */
static enum oriel_status socket_failed(const struct oriel_p2p *p2p, enum oriel_status status)
{
	switch (status) {
	case ORIEL_OK:
	case ORIEL_AGAIN:
		return status;
	case ORIEL_ERR_PEER:
		return ori_fail(status,
				"the peer, %s, exited or closed its socket without a reason",
				p2p->peer_name);
	case ORIEL_ERR_AUTH:
		return ori_fail(status, "the connection with the peer, %s, %s", p2p->peer_name,
				ori_net_doubt(&p2p->control_socket.conn));
	case ORIEL_ERR_NOMEM:
		return ori_fail(status,
				"descriptors of the peer, %s, were lost: raise the limit of open "
				"files (ulimit -n)",
				p2p->peer_name);
	default:
		return ori_fail(status, "the bytes of the peer, %s, are not a frame",
				p2p->peer_name);
	}
}

/* Send what the socket takes of the frame, @fds with its first byte. */
static enum oriel_status socket_push(struct oriel_p2p *p2p, const int *fds, unsigned nfds)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	const struct p2p_frame *out = &control_socket->out;
	const struct ori_frame head = {.type = out->kind,
				       .length = ori_p2p_frame_length(
					       (enum p2p_frame_kind)out->kind)};
	enum oriel_status status = ori_net_write_fds(&control_socket->conn, &head, out->bytes, fds,
						     nfds, &control_socket->out_done);

	control_socket->has_out = control_socket->conn.is_mid_frame;
	return socket_failed(p2p, status);
}

bool ori_control_socket_is_open(const struct oriel_p2p *p2p)
{
	return p2p->control_socket.conn.fd >= 0 || p2p->link.transport;
}

enum oriel_status ori_control_socket_flush(struct oriel_p2p *p2p)
{
	return p2p->control_socket.has_out ? socket_push(p2p, NULL, 0) : ORIEL_OK;
}

enum oriel_status ori_control_socket_send(struct oriel_p2p *p2p, const struct p2p_frame *frame,
					  const int *fds, unsigned nfds)
{
	struct p2p_control_socket *control_socket = &p2p->control_socket;
	enum oriel_status status;

	if (p2p->link.transport)
		return ori_transport_send(p2p, frame);
	status = ori_control_socket_flush(p2p);
	if (status != ORIEL_OK)
		return status;
	control_socket->out = *frame;
	control_socket->out_done = 0;
	status = socket_push(p2p, fds, nfds);
	/* A part is on its way, and the rest follows. */
	return status == ORIEL_AGAIN && control_socket->has_out ? ORIEL_OK : status;
}

/* A host that vanished ends nothing by itself, unlike a process, whose socket the kernel closes. */
enum oriel_status ori_control_socket_look(struct oriel_p2p *p2p, uint64_t now)
{
	struct p2p_control_socket *s = &p2p->control_socket;

	if (s->is_local || s->conn.fd < 0 || now - s->hearing.at < ORI_HEARING_NS ||
	    !ori_hearing_lost(&s->hearing, s->conn.fd, now, ORI_HEARING_MOST))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_PEER,
			"the host of the peer, %s, has acknowledged nothing for %u s",
			p2p->peer_name, s->hearing.silent);
}

void ori_control_socket_bye(struct oriel_p2p *p2p, enum oriel_status status, const char *text)
{
	struct p2p_frame frame = {.kind = P2P_BYE, .bye.status = status};

	if (!ori_control_socket_is_open(p2p))
		return;
	snprintf(frame.bye.text, sizeof(frame.bye.text), "%s", text);
	/* Best effort: the closed socket says the same, without the reason. */
	(void)ori_control_socket_send(p2p, &frame, NULL, 0);
}

enum oriel_status ori_control_socket_recv(struct oriel_p2p *p2p, struct p2p_frame *frame)
{
	unsigned char body[P2P_BODY];
	struct ori_frame head;
	enum oriel_status status;

	if (p2p->link.transport)
		return ori_transport_recv(p2p, frame);
	status = ori_net_take(&p2p->control_socket.conn, &head, body, sizeof(body));
	if (status != ORIEL_OK)
		return socket_failed(p2p, status);
	return ori_p2p_frame_parse(head.type, body, head.length, frame);
}
