/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a non-blocking socket: of TCP, with TLS if the job has a key, or of unix, with
 * descriptors. The owners of connections call it; they poll() when it returns ORIEL_AGAIN.
 */
#include "net/conn.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CONN_TLS_ALERT 0x15 /* the first byte of a record of TLS */
#define CONN_TLS_HANDSHAKE 0x16
#define CONN_ALERT_LENGTH 7
#define CONN_HANDSHAKE_FAILURE 40 /* alerts of TLS (RFC 8446, section 6) */
#define CONN_UNKNOWN_PSK_IDENTITY 115
#define CONN_CERTIFICATE_REQUIRED 116
#define CONN_DRAIN 8 /* reads before a connection is closed with bytes unread */

void ori_net_open(struct ori_net_conn *conn, int fd, struct ori_traffic *traffic)
{
	conn->state = fd < 0 ? ORI_NET_CLOSED : ORI_NET_OPEN;
	conn->fd = fd;
	conn->peer = 0;
	conn->is_local = fd >= 0 && ori_fdsock_is(fd);
	conn->is_connector = conn->lacks_key = conn->is_mid_frame = false;
	conn->context = NULL;
	conn->tls = NULL;
	conn->traffic = traffic;
	conn->doubt = NULL;
	conn->fds.count = 0;
	conn->start = conn->end = 0;
}

bool ori_net_dial(struct ori_net_conn *conn, const struct ori_address *address,
		  struct ori_tls_context *context, struct ori_traffic *traffic)
{
	ori_net_open(conn, ori_endpoint_begin(address), traffic);
	if (conn->fd < 0)
		return false;
	conn->state = ORI_NET_CONNECTING;
	conn->is_connector = true;
	/* A unix socket has credentials, and no way between its ends. */
	conn->context = conn->is_local ? NULL : context;
	return true;
}

void ori_net_accept(struct ori_net_conn *conn, int fd, struct ori_tls_context *context,
		    struct ori_traffic *traffic)
{
	ori_net_open(conn, fd, traffic);
	conn->state = ORI_NET_TLS;
	conn->context = context;
}

void ori_net_close(struct ori_net_conn *conn)
{
	if (conn->fd >= 0) {
		ori_tls_destroy(conn->tls);
		ori_fds_close(&conn->fds);
		close(conn->fd);
	}
	conn->tls = NULL;
	conn->fd = -1;
	conn->state = ORI_NET_CLOSED;
}

void ori_net_move(struct ori_net_conn *to, struct ori_net_conn *from)
{
	*to = *from;
	ori_net_open(from, -1, from->traffic);
}

const char *ori_net_doubt(const struct ori_net_conn *conn)
{
	return conn->doubt ? conn->doubt : "has no right to connect";
}

static enum oriel_status conn_doubt(struct ori_net_conn *conn, const char *doubt)
{
	conn->doubt = doubt;
	return ORIEL_ERR_AUTH;
}

static enum oriel_status conn_begin_tls(struct ori_net_conn *conn)
{
	conn->state = ORI_NET_TLS;
	conn->tls = ori_tls_create(conn->context, conn->fd, conn->is_connector,
				   conn->traffic ? &conn->traffic->bytes : NULL);
	return conn->tls ? ORIEL_OK : ORIEL_ERR_NOMEM;
}

static enum oriel_status conn_connect(struct ori_net_conn *conn)
{
	int error = ori_endpoint_outcome(conn->fd);

	if (error == EINPROGRESS)
		return ORIEL_AGAIN;
	if (error) {
		errno = error;
		return ORIEL_ERR_PEER;
	}
	if (conn->context)
		return conn_begin_tls(conn);
	conn->state = ORI_NET_OPEN;
	return ORIEL_OK;
}

/*
 * Refuse a peer that speaks TLS where this side does not, or the other way round, by an alert
 * that both understand. Unread bytes would turn close() into a reset, which destroys the alert.
 */
static void conn_alert(const struct ori_net_conn *conn, unsigned char code)
{
	const unsigned char alert[CONN_ALERT_LENGTH] = {CONN_TLS_ALERT, 3, 3, 0, 2, 2, code};
	unsigned char rest[512];
	unsigned left;

	(void)!send(conn->fd, alert, sizeof(alert), MSG_NOSIGNAL | MSG_DONTWAIT);
	for (left = CONN_DRAIN; left && recv(conn->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0;)
		left--;
}

/* The first byte from a connector says whether it speaks TLS. */
static enum oriel_status conn_recognize(struct ori_net_conn *conn)
{
	unsigned char first;
	ssize_t n = recv(conn->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return ORIEL_AGAIN;
	if (n <= 0)
		return ORIEL_ERR_PEER;
	if (first == CONN_TLS_HANDSHAKE && conn->context)
		return conn_begin_tls(conn);
	if (first == CONN_TLS_HANDSHAKE) {
		conn_alert(conn, CONN_UNKNOWN_PSK_IDENTITY);
		return conn_doubt(conn, "has an ORIEL_JOB_KEY, but this process has none");
	}
	conn->lacks_key = conn->context != NULL;
	conn->state = ORI_NET_HELLO;
	return ORIEL_OK;
}

static enum oriel_status conn_shake_hands(struct ori_net_conn *conn)
{
	enum oriel_status status;

	if (!conn->tls)
		return conn_recognize(conn);
	status = ori_tls_handshake(conn->tls, &conn->doubt);
	if (status == ORIEL_OK)
		conn->state = conn->is_connector ? ORI_NET_OPEN : ORI_NET_HELLO;
	return status;
}

static enum oriel_status conn_recv(struct ori_net_conn *conn, void *data, size_t length,
				   size_t *got)
{
	enum oriel_status status;
	ssize_t n;

	if (conn->fd < 0)
		return ORIEL_ERR_PEER;
	if (conn->tls) {
		status = ori_tls_read(conn->tls, data, length, got);
		return status == ORIEL_ERR_AUTH
			       ? conn_doubt(conn, "has bytes that were altered on the way")
			       : status;
	}
	/* Descriptors of an acceptor's first frame are not received: the kernel closes them. */
	if (conn->is_local && conn->state == ORI_NET_OPEN)
		return ori_fdsock_pull(conn->fd, data, length, &conn->fds, got);
	do
		n = recv(conn->fd, data, length, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return ORIEL_AGAIN;
	if (n <= 0)
		return ORIEL_ERR_PEER;
	*got = (size_t)n;
	return ORIEL_OK;
}

/*
 * Receive until the buffer has @least bytes. ORIEL_AGAIN: they have not arrived yet. Over a unix
 * socket no byte behind them is read, so that descriptors arrive with the frame they belong to.
 */
static enum oriel_status conn_fill(struct ori_net_conn *conn, size_t least)
{
	enum oriel_status status;
	size_t got, room;

	if (conn->start == conn->end)
		conn->start = conn->end = 0;
	if (conn->start + least > sizeof(conn->received)) {
		memmove(conn->received, conn->received + conn->start, conn->end - conn->start);
		conn->end -= conn->start;
		conn->start = 0;
	}
	while (conn->end - conn->start < least) {
		room = conn->is_local ? conn->start + least - conn->end
				      : sizeof(conn->received) - conn->end;
		status = conn_recv(conn, conn->received + conn->end, room, &got);
		if (status != ORIEL_OK)
			return status;
		conn->end += got;
	}
	return ORIEL_OK;
}

/* Has the acceptor refused plain bytes with an alert of TLS? See conn_alert(). */
static bool conn_is_refused(const struct ori_net_conn *conn)
{
	return conn->is_connector && !conn->tls && conn->end - conn->start >= CONN_ALERT_LENGTH &&
	       conn->received[conn->start] == CONN_TLS_ALERT;
}

static const char *conn_refusal(unsigned char code)
{
	switch (code) {
	case CONN_UNKNOWN_PSK_IDENTITY:
		return "has no job key by munge, but this process asks for one";
	case CONN_CERTIFICATE_REQUIRED:
		return "has a job key by munge, but this process asks for none";
	default:
		return "has an ORIEL_JOB_KEY, but this process has none";
	}
}

enum oriel_status ori_net_peek(struct ori_net_conn *conn, struct ori_frame *frame)
{
	enum oriel_status status = conn_fill(conn, ORI_FRAME_HEADER);

	if (conn_is_refused(conn))
		return conn_doubt(conn,
				  conn_refusal(
					  conn->received[conn->start + CONN_ALERT_LENGTH - 1]));
	return status == ORIEL_OK ? ori_frame_parse(conn->received + conn->start, frame) : status;
}

/*
 * A connector speaks plainly, and this side has a key; or it asks for a key. Any connector gets the
 * credential: munge opens it for processes of this user alone.
 */
static enum oriel_status conn_answer_plain(struct ori_net_conn *conn, bool asks)
{
	const char *sealed = conn->lacks_key ? ori_tls_context_sealed(conn->context) : NULL;

	if (asks && sealed) {
		(void)ori_net_send_last(conn, ORI_FRAME_SEALED_KEY, sealed, strlen(sealed));
		return ORIEL_ERR_PEER;
	}
	if (asks && !conn->lacks_key) {
		conn_alert(conn, CONN_UNKNOWN_PSK_IDENTITY);
		return conn_doubt(conn, "asks for a job key by munge, but this process has none");
	}
	conn_alert(conn, sealed ? CONN_CERTIFICATE_REQUIRED : CONN_HANDSHAKE_FAILURE);
	return conn_doubt(conn, sealed ? "does not ask for the job key, which is one by munge"
				       : "has no ORIEL_JOB_KEY, but this process has one");
}

/* An acceptor's first frame, whose body stays in the buffer. */
static enum oriel_status conn_expect_hello(struct ori_net_conn *conn)
{
	struct ori_frame frame;
	enum oriel_status status = ori_net_peek(conn, &frame);
	bool asks = status == ORIEL_OK && frame.type == ORI_FRAME_SEALED_KEY && !conn->tls;

	if (status == ORIEL_OK && (conn->lacks_key || asks))
		return conn_answer_plain(conn, asks);
	if (status == ORIEL_OK && frame.length > ORI_NET_HELLO_MAX)
		return ORIEL_ERR_PROTOCOL;
	if (status == ORIEL_OK)
		status = conn_fill(conn, ORI_FRAME_HEADER + frame.length);
	if (status == ORIEL_OK)
		conn->state = ORI_NET_OPEN;
	return status;
}

enum oriel_status ori_net_step(struct ori_net_conn *conn)
{
	enum oriel_status status = conn->fd < 0 ? ORIEL_ERR_PEER : ORIEL_OK;

	while (status == ORIEL_OK && conn->state != ORI_NET_OPEN) {
		if (conn->state == ORI_NET_CONNECTING)
			status = conn_connect(conn);
		else if (conn->state == ORI_NET_TLS)
			status = conn_shake_hands(conn);
		else
			status = conn_expect_hello(conn);
	}
	return status;
}

short ori_net_events(const struct ori_net_conn *conn)
{
	if (conn->state == ORI_NET_CONNECTING)
		return POLLOUT;
	return conn->tls && ori_tls_wants_room(conn->tls) ? POLLOUT : POLLIN;
}

void ori_net_skip(struct ori_net_conn *conn)
{
	assert(conn->end - conn->start >= ORI_FRAME_HEADER);
	conn->start += ORI_FRAME_HEADER;
}

enum oriel_status ori_net_read(struct ori_net_conn *conn, void *data, size_t length, size_t *done)
{
	size_t have = conn->end - conn->start, got;
	enum oriel_status status;

	if (have > length - *done)
		have = length - *done;
	if (have) {
		memcpy((char *)data + *done, conn->received + conn->start, have);
		conn->start += have;
		*done += have;
	}
	while (*done < length) {
		status = conn_recv(conn, (char *)data + *done, length - *done, &got);
		if (status != ORIEL_OK)
			return status;
		*done += got;
	}
	return ORIEL_OK;
}

enum oriel_status ori_net_take(struct ori_net_conn *conn, struct ori_frame *frame, void *body,
			       size_t most)
{
	enum oriel_status status;
	size_t done = 0;

	if (conn->start == conn->end)
		ori_fds_close(&conn->fds);
	status = ori_net_peek(conn, frame);
	assert(most + ORI_FRAME_HEADER <= sizeof(conn->received));
	if (status != ORIEL_OK)
		return status;
	if (frame->length > most)
		return ORIEL_ERR_PROTOCOL;
	status = conn_fill(conn, ORI_FRAME_HEADER + frame->length);
	if (status != ORIEL_OK)
		return status;
	ori_net_skip(conn);
	return ori_net_read(conn, body, frame->length, &done);
}

bool ori_net_is_ending(const struct ori_net_conn *conn)
{
	struct pollfd polled = {.fd = conn->fd, .events = POLLRDHUP};

	return poll(&polled, 1, 0) > 0;
}

enum oriel_status ori_net_seek(struct ori_net_conn *conn, unsigned type)
{
	unsigned char rest[4096];
	enum oriel_status status;
	struct ori_frame frame;
	size_t part, done;

	for (;;) {
		status = ori_net_peek(conn, &frame);
		if (status == ORIEL_AGAIN)
			return ORIEL_ERR_PEER;
		if (status != ORIEL_OK || frame.type == type)
			return status;
		ori_net_skip(conn);
		for (; frame.length; frame.length -= part) {
			part = frame.length < sizeof(rest) ? (size_t)frame.length : sizeof(rest);
			done = 0;
			if (ori_net_read(conn, rest, part, &done) != ORIEL_OK)
				return ORIEL_ERR_PEER;
		}
	}
}

static enum oriel_status conn_write_plain(struct ori_net_conn *conn, struct iovec parts[2],
					  const int *fds, unsigned nfds, size_t *sent)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	union ori_fds_room room;
	ssize_t n;

	if (nfds)
		ori_fdsock_attach(&message, &room, fds, nfds);
	do
		n = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	/* ETOOMANYREFS: the peer has yet to receive descriptors that were sent (unix(7)). */
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS))
		return ORIEL_AGAIN;
	if (n <= 0)
		return ORIEL_ERR_PEER;
	if (conn->traffic)
		conn->traffic->bytes += (uint64_t)n;
	*sent = (size_t)n;
	return ORIEL_OK;
}

static enum oriel_status conn_write_tls(struct ori_net_conn *conn, const struct iovec parts[2],
					size_t *sent)
{
	enum oriel_status status = ori_tls_write(conn->tls, parts, sent);

	/* These bytes are sealed: no other frame may follow before them. */
	if (status == ORIEL_AGAIN)
		conn->is_mid_frame = true;
	return status == ORIEL_ERR_AUTH ? ORIEL_ERR_PEER : status;
}

enum oriel_status ori_net_write_fds(struct ori_net_conn *conn, const struct ori_frame *frame,
				    const void *body, const int *fds, unsigned nfds, size_t *done)
{
	size_t total = ORI_FRAME_HEADER + frame->length, into, sent = 0;
	unsigned char header[ORI_FRAME_HEADER];
	enum oriel_status status;
	struct iovec parts[2];

	if (conn->fd < 0)
		return ORIEL_ERR_PEER;
	ori_frame_encode(frame, header);
	while (*done < total) {
		into = *done < ORI_FRAME_HEADER ? 0 : *done - ORI_FRAME_HEADER;
		parts[0].iov_len = *done < ORI_FRAME_HEADER ? ORI_FRAME_HEADER - *done : 0;
		parts[0].iov_base = header + ORI_FRAME_HEADER - parts[0].iov_len;
		parts[1].iov_len = frame->length - into;
		parts[1].iov_base = parts[1].iov_len ? (char *)(uintptr_t)body + into : NULL;
		status = conn->tls ? conn_write_tls(conn, parts, &sent)
				   : conn_write_plain(conn, parts, fds, *done ? 0 : nfds, &sent);
		if (status != ORIEL_OK)
			return status;
		*done += sent;
		conn->is_mid_frame = *done < total;
	}
	if (conn->traffic)
		conn->traffic->frames++;
	return ORIEL_OK;
}

enum oriel_status ori_net_write(struct ori_net_conn *conn, const struct ori_frame *frame,
				const void *body, size_t *done)
{
	return ori_net_write_fds(conn, frame, body, NULL, 0, done);
}

enum oriel_status ori_net_stream_read(struct ori_net_conn *conn, void *data, size_t length,
				      size_t *got)
{
	size_t have = conn->end - conn->start;

	if (!have)
		return conn_recv(conn, data, length, got);
	*got = have < length ? have : length;
	memcpy(data, conn->received + conn->start, *got);
	conn->start += *got;
	return ORIEL_OK;
}

enum oriel_status ori_net_stream_write(struct ori_net_conn *conn, const void *data, size_t length,
				       size_t *done)
{
	struct iovec parts[2] = {
		{.iov_len = 0},
		{.iov_base = (void *)(uintptr_t)data, .iov_len = length},
	};

	if (conn->fd < 0)
		return ORIEL_ERR_PEER;
	return conn->tls ? conn_write_tls(conn, parts, done)
			 : conn_write_plain(conn, parts, NULL, 0, done);
}

bool ori_net_stream_holds(const struct ori_net_conn *conn)
{
	return conn->start < conn->end || (conn->tls && ori_tls_holds(conn->tls));
}

enum oriel_status ori_net_send(struct ori_net_conn *conn, unsigned type, const void *body,
			       size_t length)
{
	const struct ori_frame frame = {.type = type, .length = length};
	size_t done = 0;

	if (conn->is_mid_frame || ori_net_write(conn, &frame, body, &done) != ORIEL_OK)
		return ORIEL_ERR_PEER;
	return ORIEL_OK;
}

enum oriel_status ori_net_send_last(struct ori_net_conn *conn, unsigned type, const void *body,
				    size_t length)
{
	enum oriel_status status = ori_net_send(conn, type, body, length);

	/* The end of the stream is visible to poll() even behind frames that the peer leaves. */
	if (status == ORIEL_OK)
		shutdown(conn->fd, SHUT_WR);
	return status;
}
