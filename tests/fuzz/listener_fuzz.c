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
	LISTENER_CHALLENGES = 1, /* the connector begins with a valid challenge */
	LISTENER_SIGNS = 2,      /* the input is the body of a hello, which gets a MAC */
	LISTENER_KNOWS = 4,      /* the MAC is made with the right key */
	LISTENER_OPEN = 8,       /* the job has no key */
	LISTENER_LATE = 16,      /* the job is complete */
};

/* The tag of the job, which a valid connector sends. */
static const struct ori_job_tag listener_tag = {ORI_JOB_TAG_TORCH,
						"the hash of the name of the job"};

struct listener_scene {
	unsigned choices;
	struct fuzz_input input;
	struct ori_credentials own;
	struct ori_traffic traffic;
	struct ori_listener listener;
	struct ori_link connector; /* the connector's side of the pending connection */
	struct ori_auth auth;      /* the nonces as the connector knows them */
};

/* A listener with one pending connection, and an eventfd in place of its socket. */
static void scene_open(struct listener_scene *s)
{
	struct ori_pending *pending = calloc(1, sizeof(*pending));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = pending};
	int ends[2];

	s->own.key.length = s->choices & LISTENER_OPEN ? 0 : 16;
	memset(s->own.key.bytes, 'k', s->own.key.length);
	s->own.tag = listener_tag;
	ori_listener_init(&s->listener, &s->own, 2, &s->traffic);
	FUZZ_CHECK(pending && ori_listener_open(&s->listener, eventfd(0, EFD_CLOEXEC)) == ORIEL_OK);
	fuzz_connect(ends);
	ori_link_open(&pending->link, ends[0], &s->traffic);
	ori_link_open(&s->connector, ends[1], &s->traffic);
	pending->deadline = ORIEL_FOREVER;
	FUZZ_CHECK(epoll_ctl(s->listener.epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
	s->listener.accepts_joins = !(s->choices & LISTENER_LATE);
	s->listener.waiting = pending;
	s->listener.pending_count = 1;
}

static void scene_close(struct listener_scene *s)
{
	ori_link_close(&s->connector);
	ori_listener_close(&s->listener);
}

/* The listener must prove that it knows the key, too. */
static void scene_challenge(struct listener_scene *s)
{
	unsigned char proof[ORI_PROOF_LENGTH], mac[ORI_MAC_LENGTH];
	struct ori_frame frame;

	memset(s->auth.connector, 'c', sizeof(s->auth.connector));
	FUZZ_CHECK(ori_link_send(&s->connector, ORI_FRAME_CHALLENGE, s->auth.connector,
				 ORI_NONCE_LENGTH) == ORIEL_OK);
	ori_listener_serve(&s->listener);
	FUZZ_CHECK(ori_link_take(&s->connector, &frame, proof, sizeof(proof)) == ORIEL_OK);
	FUZZ_CHECK(frame.type == ORI_FRAME_PROOF && frame.length == sizeof(proof));
	memcpy(s->auth.acceptor, proof, ORI_NONCE_LENGTH);
	FUZZ_CHECK(ori_auth_mac(&s->own.key, &s->auth, ORI_ROLE_ACCEPTOR, NULL, 0, mac) ==
		   ORIEL_OK);
	FUZZ_CHECK(ori_auth_equal(mac, proof + ORI_NONCE_LENGTH));
}

static void scene_sign(struct listener_scene *s, unsigned char hello[ORI_HELLO_LENGTH])
{
	struct ori_key key = s->own.key;

	if (!(s->choices & LISTENER_KNOWS))
		key.bytes[key.length++] = 'x';
	memset(hello, 0, ORI_HELLO_LENGTH);
	if (s->input.left > ORI_HELLO_LENGTH - ORI_MAC_LENGTH)
		s->input.left = ORI_HELLO_LENGTH - ORI_MAC_LENGTH;
	if (s->input.left)
		memcpy(hello + ORI_MAC_LENGTH, s->input.at, s->input.left);
	FUZZ_CHECK(ori_auth_mac(&key, &s->auth, ORI_ROLE_CONNECTOR, hello + ORI_MAC_LENGTH,
				ORI_HELLO_LENGTH - ORI_MAC_LENGTH, hello) == ORIEL_OK);
	ori_link_send(&s->connector, ORI_FRAME_HELLO, hello, ORI_HELLO_LENGTH);
}

static struct ori_pending *scene_next(struct listener_scene *s)
{
	struct ori_pending *pending = NULL;
	unsigned purpose;

	for (purpose = ORI_PURPOSE_JOIN; purpose <= ORI_PURPOSE_MESSAGE && !pending; purpose++)
		pending = ori_listener_next(&s->listener, (enum ori_purpose)purpose);
	return pending;
}

static void scene_check(struct listener_scene *s, const unsigned char hello[ORI_HELLO_LENGTH])
{
	const unsigned polite = LISTENER_CHALLENGES | LISTENER_SIGNS;
	struct ori_pending *pending;
	struct ori_hello parsed;
	bool is_polite, is_in;

	is_polite = (s->choices & polite) == polite &&
		    ori_hello_parse(hello, ORI_HELLO_LENGTH, &parsed);
	is_in = is_polite && s->choices & LISTENER_KNOWS &&
		ori_job_tag_equal(&parsed.tag, &listener_tag) &&
		(parsed.purpose == ORI_PURPOSE_JOIN ? !(s->choices & LISTENER_LATE)
						    : parsed.rank < 2);
	if (is_polite)
		FUZZ_CHECK(s->listener.rejected == !is_in);
	FUZZ_CHECK(!s->listener.waiting && s->listener.pending_count == 0);
	pending = scene_next(s);
	FUZZ_CHECK(is_in == (pending != NULL));
	if (pending) {
		FUZZ_CHECK(pending->hello.rank == parsed.rank && pending->link.rank == parsed.rank);
		FUZZ_CHECK(pending->hello.purpose == parsed.purpose);
		FUZZ_CHECK(!scene_next(s));
	}
	ori_pending_free(pending);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char hello[ORI_HELLO_LENGTH] = {0};
	struct listener_scene s = {.input = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX}};

	s.choices = fuzz_byte(&s.input);
	scene_open(&s);
	if (s.choices & LISTENER_CHALLENGES)
		scene_challenge(&s);
	if (s.choices & LISTENER_SIGNS)
		scene_sign(&s, hello);
	else
		fuzz_say(s.connector.fd, s.input.at, s.input.left);
	ori_listener_serve(&s.listener);
	shutdown(s.connector.fd, SHUT_WR);
	/* Each call reads one frame; the last call reads the end of the stream. */
	while (s.listener.waiting)
		ori_listener_serve(&s.listener);
	scene_check(&s, hello);
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
	const struct ori_frame frames[] = {
		{ORI_FRAME_CHALLENGE, 0, ORI_NONCE_LENGTH},
		{ORI_FRAME_HELLO, 0, ORI_HELLO_LENGTH},
		{ORI_FRAME_FAILURE, 0, ORI_FAILURE_HEADER},
	};
	unsigned char body[ORI_HELLO_LENGTH];
	const struct ori_frame *frame = &frames[n % 3];

	if (n > 31)
		return 0;
	bytes[0] = (uint8_t)n;
	ori_hello_encode(&hello, body);
	if (n & LISTENER_SIGNS) {
		memcpy(bytes + 1, body + ORI_MAC_LENGTH, sizeof(body) - ORI_MAC_LENGTH);
		return 1 + sizeof(body) - ORI_MAC_LENGTH;
	}
	ori_frame_encode(frame, bytes + 1);
	memcpy(bytes + 1 + ORI_FRAME_HEADER, body, frame->length);
	return 1 + ORI_FRAME_HEADER + frame->length;
}
