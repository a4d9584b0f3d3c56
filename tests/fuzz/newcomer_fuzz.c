/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the side of a new rank where a communicator grows: a byte of choices, then the
 * stream of the process that poses as rank 0. A second thread sends it, ends its side, and reads
 * what the new rank says. The place of a welcome is one where no process listens. Each input is a
 * whole oriel_comm_join(), or oriel_comm_merge() of a group of one rank.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <oriel/bootstrap.h>

#include "base/count_fds.h"
#include "base/error.h"
#include "comm/grow_frame.h"
#include "fuzz.h"
#include "net/endpoint.h"

#define NEWCOMER_EPOCH 3u
#define NEWCOMER_ALERT 21 /* the first byte of an alert of TLS */

enum newcomer_choice { NEWCOMER_MERGES = 1, NEWCOMER_HAS_ATTR = 2 };

/* The meaning of the frames of rank 0, by a check of this file. */
struct newcomer_story {
	bool is_welcome;
	bool is_alert;   /* it speaks TLS where a frame is due: it has a key */
	int32_t failure; /* of the done in place of the welcome, or behind it; 0: there is none */
};

/* The process that poses as rank 0. */
struct newcomer_host {
	int listener;
	const uint8_t *bytes;
	size_t length;
	uint8_t heard[2 * (ORI_FRAME_HEADER + ORI_GROW_BODY)];
	size_t heard_length;
};

static struct oriel_comm *newcomer_group;

/* A group that lives until the process ends. */
static void newcomer_open(void)
{
	struct oriel_local_job *job;
	static struct oriel_bootstrap bootstrap;

	if (newcomer_group)
		return;
	FUZZ_CHECK(oriel_local_job_create(1, &job) == ORIEL_OK);
	FUZZ_CHECK(oriel_bootstrap_open_local(job, 0, &bootstrap) == ORIEL_OK);
	FUZZ_CHECK(oriel_comm_create(&bootstrap, NULL, &newcomer_group) == ORIEL_OK);
}

/* The newcomer closes its end at last. */
static void *host_run(void *argument)
{
	struct newcomer_host *h = argument;
	struct pollfd polled = {.fd = h->listener, .events = POLLIN};
	ssize_t got = 1;
	int fd;

	FUZZ_CHECK(poll(&polled, 1, -1) == 1);
	fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	fuzz_say(fd, h->bytes, h->length);
	shutdown(fd, SHUT_WR);
	while (got > 0) {
		FUZZ_CHECK(h->heard_length < sizeof(h->heard));
		got = recv(fd, h->heard + h->heard_length, sizeof(h->heard) - h->heard_length, 0);
		h->heard_length += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	return NULL;
}

/* Take the next whole frame of @in; false: there is none, or it is malformed. */
static bool story_next(struct fuzz_input *in, struct ori_frame *frame, void *body)
{
	if (in->left < ORI_FRAME_HEADER || ori_frame_parse(in->at, frame) != ORIEL_OK ||
	    frame->length > ORI_GROW_BODY || in->left - ORI_FRAME_HEADER < frame->length)
		return false;
	memcpy(body, in->at + ORI_FRAME_HEADER, frame->length);
	in->at += ORI_FRAME_HEADER + frame->length;
	in->left -= ORI_FRAME_HEADER + frame->length;
	return true;
}

static int32_t story_failure(const struct ori_frame *frame, const struct ori_grow_done *done)
{
	struct ori_grow_done copy = *done;

	return ori_grow_done_parse(frame, ORI_GROW_DONE, &copy) ? copy.status : ORIEL_OK;
}

static struct newcomer_story story_read(const uint8_t *bytes, size_t length)
{
	union {
		struct ori_grow_welcome welcome;
		struct ori_grow_done done;
	} body = {.done = {0}};
	struct fuzz_input in = {bytes, length};
	struct newcomer_story story = {.is_welcome = false};
	struct ori_frame frame;
	bool has_frame;

	do
		has_frame = story_next(&in, &frame, &body);
	while (has_frame && frame.type == ORI_GROW_WAIT && !frame.length);
	story.is_welcome = has_frame && ori_grow_welcome_is_valid(&frame, &body.welcome, 1);
	/* Behind a welcome each frame is the last one. */
	if (story.is_welcome)
		has_frame = story_next(&in, &frame, &body);
	if (has_frame)
		story.failure = story_failure(&frame, &body.done);
	else
		story.is_alert = in.left && *in.at == NEWCOMER_ALERT;
	return story;
}

/* No welcome leads to an address of another machine. */
static void story_tame(uint8_t *bytes, size_t length)
{
	const struct ori_hosts own = {.of = {htonl(INADDR_LOOPBACK)}};
	union {
		struct ori_grow_welcome welcome;
		uint8_t bytes[ORI_GROW_BODY];
	} body;
	struct fuzz_input in = {bytes, length};
	struct ori_frame frame;

	while (story_next(&in, &frame, &body)) {
		if (frame.type != ORI_GROW_WELCOME || frame.length != sizeof(body.welcome))
			continue;
		if (body.welcome.extent == ORI_PART_NETWORK) {
			body.welcome.offer.hosts = own;
			body.welcome.offer.port = 1;
		}
		memcpy(bytes + (in.at - bytes) - sizeof(body.welcome), &body, sizeof(body.welcome));
	}
}

static void newcomer_invite(struct newcomer_host *h, struct ori_invitation *in,
			    struct oriel_invitation *invitation)
{
	*in = (struct ori_invitation){.epoch = NEWCOMER_EPOCH,
				      .token = "its-own-token",
				      .count = 1};
	in->addresses[0].family = ORI_ADDRESS_UNIX;
	FUZZ_CHECK(ori_fdsock_listen(in->addresses[0].ip, &h->listener) == ORIEL_OK);
	ori_invitation_encode(in, invitation);
}

/* It says hello, and the result only if it was welcome. Returns the result. */
static enum oriel_status newcomer_check_said(const struct newcomer_host *h,
					     const struct ori_invitation *invitation,
					     bool is_welcome)
{
	union {
		struct ori_grow_hello hello;
		struct ori_grow_done done;
	} body = {.done = {0}};
	struct fuzz_input in = {h->heard, h->heard_length};
	struct ori_frame frame;

	FUZZ_CHECK(story_next(&in, &frame, &body));
	FUZZ_CHECK(!ori_grow_hello_doubt(&frame, &body.hello));
	FUZZ_CHECK(body.hello.count == 1 && body.hello.epoch == NEWCOMER_EPOCH);
	FUZZ_CHECK(memcmp(body.hello.token, invitation->token, sizeof(invitation->token)) == 0);
	if (is_welcome) {
		FUZZ_CHECK(story_next(&in, &frame, &body));
		FUZZ_CHECK(ori_grow_done_parse(&frame, ORI_GROW_RESULT, &body.done));
		/* No process listens where the welcome leads. */
		FUZZ_CHECK(body.done.status != ORIEL_OK);
	}
	FUZZ_CHECK(in.left == 0);
	return (enum oriel_status)body.done.status;
}

static void newcomer_check_text(enum oriel_status status)
{
	const char *text = oriel_last_error(), *c;

	FUZZ_CHECK(oriel_last_status() == status && *text);
	for (c = text; *c; c++)
		FUZZ_CHECK(isprint((unsigned char)*c));
}

/* Is @status what the last frame of rank 0 says, or that there is none? */
static void newcomer_check_heard(enum oriel_status status, const struct newcomer_story *story)
{
	if (story->failure)
		FUZZ_CHECK(status == (enum oriel_status)story->failure);
	else
		FUZZ_CHECK(status == ORIEL_ERR_PEER || status == ORIEL_ERR_PROTOCOL ||
			   status == ORIEL_ERR_VERSION ||
			   (status == ORIEL_ERR_AUTH && story->is_alert));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct oriel_comm_attr attr = {.size = sizeof(attr),
						    .timeout_ns = ORIEL_TIMEOUT_INFINITE};
	static uint8_t bytes[FUZZ_INPUT_MAX];
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	struct newcomer_host host = {.bytes = bytes};
	struct oriel_comm *grown = NULL;
	struct oriel_invitation invitation;
	struct ori_invitation parsed;
	const struct oriel_comm_attr *given;
	struct newcomer_story story;
	enum oriel_status status, own;
	unsigned choices, before;
	pthread_t thread;

	newcomer_open();
	before = count_fds();
	choices = fuzz_byte(&in);
	given = choices & NEWCOMER_HAS_ATTR ? &attr : NULL;
	host.length = in.left;
	memcpy(bytes, in.at, in.left);
	story_tame(bytes, host.length);
	story = story_read(bytes, host.length);
	newcomer_invite(&host, &parsed, &invitation);
	FUZZ_CHECK(pthread_create(&thread, NULL, host_run, &host) == 0);
	status = choices & NEWCOMER_MERGES
			 ? oriel_comm_merge(newcomer_group, &invitation, given, &grown)
			 : oriel_comm_join(&invitation, given, &grown);
	FUZZ_CHECK(pthread_join(thread, NULL) == 0);
	close(host.listener);
	own = newcomer_check_said(&host, &parsed, story.is_welcome);
	FUZZ_CHECK(status != ORIEL_OK && !grown);
	newcomer_check_text(status);
	/* The result counts, unless rank 0 knows the cause. */
	if (!story.is_welcome || status != own)
		newcomer_check_heard(status, &story);
	FUZZ_CHECK(oriel_comm_barrier(newcomer_group) == ORIEL_OK);
	FUZZ_CHECK(count_fds() == before);
	return 0;
}

static uint8_t *seed_frame(uint8_t *at, enum ori_grow_frame type, const void *body, size_t length)
{
	ori_frame_encode(&(struct ori_frame){.type = type, .length = length}, at);
	if (length)
		memcpy(at + ORI_FRAME_HEADER, body, length);
	return at + ORI_FRAME_HEADER + length;
}

/* With and without waits, a welcome, a done, of success or failure. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct ori_grow_welcome welcome = {.version = ORI_COMM_WIRE,
						 .first = 1,
						 .size = 2 + n % 3,
						 .extent = n % 4 ? ORI_PART_MACHINE
								 : ORI_PART_NETWORK,
						 .epoch = NEWCOMER_EPOCH + 1,
						 .timeout_ns = 1000000000,
						 .key_length = n % 5 ? 0 : 16,
						 .key = {n % 5 ? 0 : 7}};
	struct ori_grow_done done;
	uint8_t *at = bytes + 1;

	if (n >= 32)
		return 0;
	bytes[0] = (uint8_t)(n & 3);
	if (n & 4)
		at = seed_frame(seed_frame(at, ORI_GROW_WAIT, NULL, 0), ORI_GROW_WAIT, NULL, 0);
	if (n & 8)
		at = seed_frame(at, ORI_GROW_WELCOME, &welcome, sizeof(welcome));
	ori_grow_done_fill(&done, n & 16 ? ori_fail(n & 1 ? ORIEL_ERR_PEER : ORIEL_ERR_STATE,
						    "rank %u left", n)
					 : ORIEL_OK);
	at = seed_frame(at, ORI_GROW_DONE, &done, sizeof(done));
	return (size_t)(at - bytes);
}
