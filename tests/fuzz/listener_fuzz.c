/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the bootstrap's listener: a byte of choices, then the bytes that a pending
 * connection sends instead of its frames. The listener admits none without the key and the job's
 * tag, as a rank that does not exist, or to join a complete job.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/listener.h"
#include "fuzz.h"

enum listener_choice {
	LISTENER_GREETS = 1, /* the input is the body of a hello; else it is the whole stream */
	LISTENER_SHAKES = 2, /* the connector has a key, and sends through TLS */
	LISTENER_KNOWS = 4,  /* it is the right key */
	LISTENER_OPEN = 8,   /* the job has no key */
	LISTENER_LATE = 16,  /* the job is complete */
};

/* The tag of the job, which a valid connector sends. */
static const struct ori_job_tag listener_tag = {ORI_JOB_TAG_TORCH,
						"the hash of the name of the job"};
static const struct ori_key listener_key = {16, "the key of it all"};
static const struct ori_key listener_wrong_key = {16, "another key, too"};

/* The first input makes them, of the right key and of a wrong one. */
static struct ori_tls_context *listener_right, *listener_wrong;

struct listener_scene {
	unsigned choices;
	struct fuzz_input input;
	struct ori_credentials own;
	struct ori_traffic traffic;
	struct ori_listener listener;
	struct ori_net_conn connector; /* the connector's side of the pending connection */
};

/* A listener with one pending connection, and an eventfd in place of its socket. */
static void scene_open(struct listener_scene *s)
{
	struct ori_net_pending *pending = calloc(1, sizeof(*pending));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = pending};
	int ends[2];

	s->own.tls = s->choices & LISTENER_OPEN ? NULL : listener_right;
	s->own.tag = listener_tag;
	ori_listener_init(&s->listener, &s->own, 2, &s->traffic);
	FUZZ_CHECK(pending &&
		   ori_net_listener_open(&s->listener.net, eventfd(0, EFD_CLOEXEC)) == ORIEL_OK);
	fuzz_connect(ends);
	ori_net_accept(&pending->conn, ends[0], s->own.tls, &s->traffic);
	ori_net_open(&s->connector, ends[1], &s->traffic);
	pending->deadline = ORIEL_TIMEOUT_INFINITE;
	FUZZ_CHECK(epoll_ctl(s->listener.net.epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
	s->listener.accepts_joins = !(s->choices & LISTENER_LATE);
	s->listener.net.waiting = pending;
	s->listener.net.pending_count = 1;
}

static void scene_close(struct listener_scene *s)
{
	ori_net_close(&s->connector);
	ori_listener_close(&s->listener);
}

/* Do the handshake of TLS; true if it succeeds. */
static bool scene_shake(struct listener_scene *s)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned turn;

	s->connector.state = ORI_NET_CONNECTING;
	s->connector.is_connector = true;
	s->connector.context = s->choices & LISTENER_KNOWS ? listener_right : listener_wrong;
	for (turn = 0; turn < 4 && status == ORIEL_AGAIN; turn++) {
		status = ori_net_step(&s->connector);
		ori_listener_serve(&s->listener);
	}
	FUZZ_CHECK((status == ORIEL_OK) == (s->own.tls && s->choices & LISTENER_KNOWS));
	if (status != ORIEL_OK)
		FUZZ_CHECK(status == ORIEL_ERR_AUTH && strstr(ori_net_doubt(&s->connector), "KEY"));
	return status == ORIEL_OK;
}

/* Send the input, as a hello or as it is; the body of the hello goes to @hello. */
static void scene_say(struct listener_scene *s, unsigned char hello[ORI_HELLO_LENGTH])
{
	size_t length = s->input.left, done = 0;

	if (s->choices & LISTENER_GREETS) {
		if (length > ORI_HELLO_LENGTH)
			length = ORI_HELLO_LENGTH;
		if (length)
			memcpy(hello, s->input.at, length);
		ori_net_send(&s->connector, ORI_FRAME_HELLO, hello, ORI_HELLO_LENGTH);
	} else if (s->connector.tls && length) {
		(void)ori_net_stream_write(&s->connector, s->input.at, length, &done);
	} else if (!s->connector.tls) {
		fuzz_say(s->connector.fd, s->input.at, length);
	}
}

static struct ori_pending *scene_next(struct listener_scene *s)
{
	struct ori_pending *pending = NULL;
	unsigned purpose;

	for (purpose = ORI_PURPOSE_JOIN; purpose <= ORI_PURPOSE_MESSAGE && !pending; purpose++)
		pending = ori_listener_next(&s->listener, (enum ori_purpose)purpose);
	return pending;
}

/* @is_proven: the key of the connector, or that it has none, is right. */
static void scene_check(struct listener_scene *s, const unsigned char hello[ORI_HELLO_LENGTH],
			bool is_proven)
{
	struct ori_pending *pending;
	struct ori_hello parsed;
	bool is_in;

	FUZZ_CHECK(!s->listener.net.waiting && s->listener.net.pending_count == 0);
	FUZZ_CHECK(!s->listener.net.arrived);
	pending = scene_next(s);
	if (!is_proven)
		FUZZ_CHECK(!pending);
	if (is_proven && s->choices & LISTENER_GREETS) {
		is_in = ori_hello_parse(hello, ORI_HELLO_LENGTH, &parsed) &&
			ori_job_tag_equal(&parsed.tag, &listener_tag) && parsed.to == 0 &&
			(parsed.purpose == ORI_PURPOSE_JOIN ? !(s->choices & LISTENER_LATE)
							    : parsed.rank < 2);
		FUZZ_CHECK(is_in == (pending != NULL));
	}
	if (pending) {
		FUZZ_CHECK(ori_job_tag_equal(&pending->hello.tag, &listener_tag));
		FUZZ_CHECK(pending->link.peer == pending->hello.rank);
		FUZZ_CHECK(!scene_next(s));
	}
	ori_pending_free(pending);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char hello[ORI_HELLO_LENGTH] = {0};
	struct listener_scene s = {.input = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX}};
	bool is_proven;

	if (!listener_right)
		FUZZ_CHECK(ori_tls_context_create(&listener_key, &listener_right) == ORIEL_OK &&
			   ori_tls_context_create(&listener_wrong_key, &listener_wrong) ==
				   ORIEL_OK);
	s.choices = fuzz_byte(&s.input);
	scene_open(&s);
	is_proven = s.choices & LISTENER_SHAKES ? scene_shake(&s) : !s.own.tls;
	if (is_proven || !(s.choices & LISTENER_SHAKES))
		scene_say(&s, hello);
	ori_listener_serve(&s.listener);
	shutdown(s.connector.fd, SHUT_WR);
	/* Each call reads what is there; the last call reads the end of the stream. */
	while (s.listener.net.waiting)
		ori_listener_serve(&s.listener);
	scene_check(&s, hello, is_proven);
	scene_close(&s);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct ori_hello hello = {
		.purpose = (enum ori_purpose)(n % 3),
		.rank = 1,
		.size = 2,
		.timeout_ms = 30000,
		.address = {.family = 4, .port = 29500, .ip = {127, 0, 0, 1}},
		.process = 1,
		.pid = 4711,
		.tag = listener_tag,
	};
	const struct ori_frame frame = {ORI_FRAME_HELLO, 0, ORI_HELLO_LENGTH};
	uint8_t *at = bytes;

	if (n > 31)
		return 0;
	*at++ = (uint8_t)n;
	if (!(n & LISTENER_GREETS)) {
		ori_frame_encode(&frame, at);
		at += ORI_FRAME_HEADER;
	}
	ori_hello_encode(&hello, at);
	return (size_t)(at - bytes) + ORI_HELLO_LENGTH;
}
