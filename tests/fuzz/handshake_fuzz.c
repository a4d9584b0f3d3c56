/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of TLS between two connections of src/net, with a relay between them that changes
 * what one side receives: a byte of choices, then changes of five bytes each: what is done, where
 * in the stream (2), how many bytes, the value. With another key no side opens, whatever the relay
 * does; and each frame that a side reads is the next one that the other side has sent.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "net/conn.h"

#define SHAKE_TURNS 12u
#define SHAKE_FRAMES 3u
#define SHAKE_CHANGES 16u
#define SHAKE_BODY 40u

enum shake_choice {
	SHAKE_CONNECTOR = 1, /* it receives what is changed; else the acceptor */
	SHAKE_WRONG = 2,     /* the other side has another key */
	SHAKE_BYTEWISE = 4,  /* the relay passes on at most one byte in some turns */
};

enum shake_change { SHAKE_XOR, SHAKE_DROP, SHAKE_REPEAT, SHAKE_INSERT, SHAKE_CHANGE_KINDS };

struct change {
	uint8_t what, count, value;
	uint16_t at;
};

struct side {
	struct ori_net_conn conn;
	int wire; /* the relay's end */
	enum oriel_status status;
	unsigned sent, got;
};

struct scene {
	unsigned choices, count;
	size_t at; /* of the stream to side 0, as it was sent */
	struct change changes[SHAKE_CHANGES];
	struct side side[2]; /* 0 receives what is changed */
	struct ori_traffic traffic;
};

static struct ori_tls_context *shake_right, *shake_wrong;

static void shake_body(unsigned side, unsigned number, unsigned char body[SHAKE_BODY])
{
	memset(body, (int)(16 * side + number), SHAKE_BODY);
}

/* A byte of the stream to side 0, with what the changes make of it. */
static size_t shake_pass(struct scene *s, uint8_t byte, uint8_t out[8])
{
	size_t length = 1;

	out[0] = byte;
	for (unsigned i = 0; i < s->count; i++) {
		const struct change *c = &s->changes[i];

		if (s->at < c->at || s->at - c->at > c->count)
			continue;
		if (c->what == SHAKE_XOR)
			out[0] ^= c->value;
		else if (c->what == SHAKE_DROP)
			length = 0;
		else if (length < 7)
			out[length++] = c->what == SHAKE_REPEAT ? byte : c->value;
	}
	s->at++;
	return length;
}

static void shake_relay(struct scene *s, unsigned from)
{
	uint8_t in[512], out[8 * sizeof(in)];
	size_t most = s->choices & SHAKE_BYTEWISE ? 64 : sizeof(in), length = 0;
	ssize_t n = recv(s->side[from].wire, in, most, MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++) {
		if (from == 1)
			length += shake_pass(s, in[i], out + length);
		else
			out[length++] = in[i];
	}
	/* A side that has failed has closed its end. */
	if (length)
		(void)!send(s->side[1 - from].wire, out, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void shake_open(struct scene *s, unsigned side, bool is_connector,
		       struct ori_tls_context *context)
{
	struct side *x = &s->side[side];
	int ends[2];

	fuzz_connect(ends);
	ori_net_accept(&x->conn, ends[0], context, &s->traffic);
	x->conn.is_local = false;
	if (is_connector) {
		x->conn.state = ORI_NET_CONNECTING;
		x->conn.is_connector = true;
	}
	x->wire = ends[1];
	x->status = ORIEL_AGAIN;
	x->sent = x->got = 0;
}

static void shake_read(struct scene *s, unsigned side)
{
	unsigned char body[ORI_NET_HELLO_MAX], expected[SHAKE_BODY];
	struct side *x = &s->side[side];
	struct ori_frame frame;

	do {
		x->status = ori_net_take(&x->conn, &frame, body, sizeof(body));
		if (x->status != ORIEL_OK)
			break;
		shake_body(1 - side, x->got, expected);
		FUZZ_CHECK(x->got < s->side[1 - side].sent && frame.type == 1 + x->got);
		FUZZ_CHECK(frame.length == SHAKE_BODY && memcmp(body, expected, SHAKE_BODY) == 0);
		x->got++;
	} while (true);
}

/* The connector speaks first: an acceptor is open once it has a frame. */
static void shake_turn(struct scene *s, unsigned side)
{
	struct side *x = &s->side[side];
	unsigned char body[SHAKE_BODY];

	if (x->status != ORIEL_AGAIN)
		return;
	x->status = ori_net_step(&x->conn);
	FUZZ_CHECK(x->status != ORIEL_OK || !(s->choices & SHAKE_WRONG));
	if (x->status == ORIEL_OK && x->sent < SHAKE_FRAMES) {
		shake_body(side, x->sent, body);
		x->status = ori_net_send(&x->conn, 1 + x->sent, body, sizeof(body));
		x->sent += x->status == ORIEL_OK;
	}
	if (x->status == ORIEL_OK)
		shake_read(s, side);
	FUZZ_CHECK(x->status == ORIEL_AGAIN || x->status == ORIEL_ERR_PEER ||
		   x->status == ORIEL_ERR_PROTOCOL || x->status == ORIEL_ERR_VERSION ||
		   x->status == ORIEL_ERR_AUTH);
	if (x->status < 0)
		shutdown(x->conn.fd, SHUT_RDWR);
}

static void shake_read_changes(struct scene *s, struct fuzz_input *in)
{
	for (s->count = 0; in->left && s->count < SHAKE_CHANGES; s->count++) {
		struct change *c = &s->changes[s->count];

		c->what = fuzz_byte(in) % SHAKE_CHANGE_KINDS;
		c->at = fuzz_byte(in);
		c->at = (uint16_t)(c->at | (fuzz_byte(in) & 7) << 8);
		c->count = fuzz_byte(in) & 31;
		c->value = fuzz_byte(in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ori_key key = {16, "the key of it all"},
				    other = {16, "another key, too"};
	struct fuzz_input in = {data, size};
	static struct scene s;
	bool is_connector;

	if (!shake_right)
		FUZZ_CHECK(ori_tls_context_create(&key, &shake_right) == ORIEL_OK &&
			   ori_tls_context_create(&other, &shake_wrong) == ORIEL_OK);
	s.choices = fuzz_byte(&in);
	shake_read_changes(&s, &in);
	s.at = 0;
	is_connector = s.choices & SHAKE_CONNECTOR;
	shake_open(&s, 0, is_connector, shake_right);
	shake_open(&s, 1, !is_connector, s.choices & SHAKE_WRONG ? shake_wrong : shake_right);
	for (unsigned turn = 0; turn < SHAKE_TURNS; turn++)
		for (unsigned side = 0; side < 2; side++) {
			shake_turn(&s, side);
			shake_relay(&s, side);
		}
	/* A stream that is not changed arrives. */
	if (!s.count && s.choices == (s.choices & SHAKE_CONNECTOR))
		FUZZ_CHECK(s.side[0].got == SHAKE_FRAMES && s.side[1].got == SHAKE_FRAMES);
	for (unsigned side = 0; side < 2; side++) {
		ori_net_close(&s.side[side].conn);
		close(s.side[side].wire);
	}
	return 0;
}

/* No change, and one of each kind at places of the handshake and of the frames. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	unsigned at = n / 8 * 24;

	if (n >= 120)
		return 0;
	bytes[0] = (uint8_t)(n % 4 | (n % 8 / 4) * SHAKE_BYTEWISE);
	if (n < 4) /* not bytewise, nothing changed */
		return 1;
	bytes[1] = (uint8_t)(n / 4 % SHAKE_CHANGE_KINDS);
	bytes[2] = (uint8_t)at;
	bytes[3] = (uint8_t)(at >> 8);
	bytes[4] = (uint8_t)(n % 3);
	bytes[5] = (uint8_t)(1u << n % 8);
	return 6;
}
