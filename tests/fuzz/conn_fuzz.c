/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of src/net's connections: a byte of choices, a byte with the length of the pieces in
 * which the rest arrives, then the stream of a peer that has no key. With a key no such stream
 * opens a connection; without one a second parser reads here which frames are due. Descriptors
 * that come with the pieces of a unix socket are closed with the connection at the latest.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/count_fds.h"
#include "fuzz.h"
#include "net/conn.h"

#define CONN_BODY_MAX 1024u

enum conn_choice {
	CONN_CONNECTS = 1, /* the side under test is the connector */
	CONN_HAS_KEY = 2,
	CONN_IS_TCP = 4,
	CONN_BRINGS = 8, /* each piece comes with a descriptor */
	CONN_MANY = 16,  /* ... or with as many as its first byte says */
};

struct conn_scene {
	unsigned choices;
	struct ori_traffic traffic;
	struct ori_net_conn conn;
	int peer;
	struct fuzz_input due; /* the part of the stream that no frame was read from yet */
	enum oriel_status status;
};

static void send_piece(const struct conn_scene *s, const uint8_t *bytes, size_t length)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	unsigned count = s->choices & CONN_MANY ? bytes[0] % (ORI_FDSOCK_FDS + 1) : 1;
	int brought[ORI_FDSOCK_FDS];
	union ori_fds_room room;

	for (unsigned i = 0; i < count; i++)
		brought[i] = STDERR_FILENO;
	if (s->choices & CONN_BRINGS && count)
		ori_fdsock_attach(&message, &room, brought, count);
	/* A connection that has failed is closed already. */
	(void)!sendmsg(s->peer, &message, MSG_NOSIGNAL);
}

static void scene_open(struct conn_scene *s)
{
	static const struct ori_key key = {16, "the key of it all"};
	static struct ori_tls_context *context;
	int ends[2];

	if (!context)
		FUZZ_CHECK(ori_tls_context_create(&key, &context) == ORIEL_OK);
	fuzz_connect(ends);
	s->peer = ends[1];
	ori_net_accept(&s->conn, ends[0], s->choices & CONN_HAS_KEY ? context : NULL, &s->traffic);
	s->conn.is_local = !(s->choices & CONN_IS_TCP);
	if (s->choices & CONN_CONNECTS) {
		s->conn.state = ORI_NET_CONNECTING;
		s->conn.is_connector = true;
	}
	s->status = ORIEL_AGAIN;
}

/* The frame that was read is the next one of the stream. */
static void scene_check_frame(struct conn_scene *s, const struct ori_frame *frame,
			      const unsigned char *body)
{
	struct ori_frame due;

	FUZZ_CHECK(s->due.left >= ORI_FRAME_HEADER + frame->length);
	FUZZ_CHECK(ori_frame_parse(s->due.at, &due) == ORIEL_OK);
	FUZZ_CHECK(due.type == frame->type && due.tag == frame->tag);
	FUZZ_CHECK(due.length == frame->length && frame->length <= CONN_BODY_MAX);
	FUZZ_CHECK(memcmp(body, s->due.at + ORI_FRAME_HEADER, frame->length) == 0);
	s->due.at += ORI_FRAME_HEADER + frame->length;
	s->due.left -= ORI_FRAME_HEADER + frame->length;
}

/* Read what has arrived, until the connection waits or fails. */
static void scene_read(struct conn_scene *s)
{
	unsigned char body[CONN_BODY_MAX];
	struct ori_frame frame;

	s->status = ori_net_step(&s->conn);
	FUZZ_CHECK(s->status != ORIEL_OK || s->conn.state == ORI_NET_OPEN);
	FUZZ_CHECK(s->status != ORIEL_OK || !(s->choices & CONN_HAS_KEY));
	while (s->status == ORIEL_OK) {
		s->status = ori_net_take(&s->conn, &frame, body, sizeof(body));
		if (s->status == ORIEL_OK)
			scene_check_frame(s, &frame, body);
	}
	FUZZ_CHECK(s->status == ORIEL_AGAIN || s->status == ORIEL_ERR_PEER ||
		   s->status == ORIEL_ERR_PROTOCOL || s->status == ORIEL_ERR_VERSION ||
		   s->status == ORIEL_ERR_AUTH);
}

/* At the end of the stream no whole frame is left unread. */
static void scene_check_end(struct conn_scene *s)
{
	size_t most = s->conn.state == ORI_NET_OPEN ? CONN_BODY_MAX : ORI_NET_HELLO_MAX;
	struct ori_frame due;

	FUZZ_CHECK(s->status < 0);
	if (s->status != ORIEL_ERR_PEER || s->choices & CONN_HAS_KEY ||
	    s->due.left < ORI_FRAME_HEADER || ori_frame_parse(s->due.at, &due) != ORIEL_OK)
		return;
	FUZZ_CHECK(due.length > s->due.left - ORI_FRAME_HEADER && due.length <= most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	static struct conn_scene s;
	size_t piece;
	unsigned before;

	s.choices = fuzz_byte(&in);
	piece = 1 + (size_t)fuzz_byte(&in) * 16;
	before = s.choices & CONN_BRINGS ? count_fds() : 0;
	scene_open(&s);
	for (s.due = in; in.left && s.status == ORIEL_AGAIN; in.left -= piece) {
		piece = piece < in.left ? piece : in.left;
		send_piece(&s, in.at, piece);
		in.at += piece;
		scene_read(&s);
	}
	shutdown(s.peer, SHUT_WR);
	if (s.status == ORIEL_AGAIN)
		scene_read(&s);
	scene_check_end(&s);
	ori_net_close(&s.conn);
	close(s.peer);
	FUZZ_CHECK(!(s.choices & CONN_BRINGS) || count_fds() == before);
	return 0;
}

/* The first message of a connector with another key, as it dials. */
static size_t seed_tls(uint8_t *bytes)
{
	static const struct ori_key key = {16, "another key, too"};
	struct ori_tls_context *context;
	struct ori_traffic traffic;
	struct ori_net_conn conn;
	ssize_t length;
	int ends[2];

	FUZZ_CHECK(ori_tls_context_create(&key, &context) == ORIEL_OK);
	fuzz_connect(ends);
	ori_net_accept(&conn, ends[0], context, &traffic);
	conn.state = ORI_NET_CONNECTING;
	conn.is_connector = true;
	FUZZ_CHECK(ori_net_step(&conn) == ORIEL_AGAIN);
	length = recv(ends[1], bytes, 1024, 0);
	FUZZ_CHECK(length > 0);
	ori_net_close(&conn);
	close(ends[1]);
	ori_tls_context_destroy(context);
	return (size_t)length;
}

/* Frames, alerts and a first message of TLS, for both sides, with and without a key. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 115};
	const struct ori_frame frame = {.type = 1 + n, .tag = n, .length = 10 * (size_t)n};
	uint8_t *at = bytes + 2;
	unsigned i;

	if (n > 63)
		return 0;
	bytes[0] = (uint8_t)n;
	bytes[1] = (uint8_t)(n % 7);
	if (n % 8 >= 6)
		return 2 + seed_tls(at);
	if (n % 8 >= 4) {
		memcpy(at, alert, sizeof(alert));
		return 2 + sizeof(alert);
	}
	for (i = 0; i < 3; i++) {
		ori_frame_encode(&frame, at);
		memset(at + ORI_FRAME_HEADER, (int)i, frame.length);
		at += ORI_FRAME_HEADER + frame.length;
	}
	return (size_t)(at - bytes);
}
