/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of rank 0 of a communicator that grows: a byte that says how many new ranks it
 * awaits, then what up to three processes do, which have its invitation or pose so: each step is a
 * byte, and the bytes it takes. Rank 0 looks after each step, with a deadline that has passed, and
 * never waits. Once all have come the steps that are left follow the welcome.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <oriel/bootstrap.h>

#include "base/count_fds.h"
#include "base/error.h"
#include "comm/comm.h"
#include "comm/grow_host.h"
#include "fuzz.h"
#include "net/fdsock.h"

#define HOST_PEERS 3u
#define HOST_ALERT 7 /* bytes */

enum host_step { HOST_HELLO, HOST_RESULT, HOST_SAY, HOST_CLOSE };

/* A process that is to join. */
struct host_peer {
	int fd;                             /* -1: it has not connected */
	unsigned said;                      /* steps in which it has sent bytes */
	bool has_hello;                     /* the first of them was @hello */
	bool may_have_result;               /* the second may be the result of a success */
	unsigned frames[ORI_GROW_DONE + 1]; /* that it has got, by type */
	struct ori_grow_hello hello;
	struct ori_grow_welcome welcome;
};

struct host_scene {
	struct oriel_comm *comm;
	struct ori_invitation invitation;
	struct host_peer peers[HOST_PEERS];
	unsigned count; /* of new ranks */
};

static struct oriel_comm *host_comm;

/* A communicator that lives until the process ends. */
static void host_open(void)
{
	static struct oriel_bootstrap bootstrap;
	struct oriel_local_job *job;

	if (host_comm)
		return;
	FUZZ_CHECK(setenv("ORIEL_MEET", "unix", 1) == 0);
	FUZZ_CHECK(oriel_local_job_create(1, &job) == ORIEL_OK);
	FUZZ_CHECK(oriel_bootstrap_open_local(job, 0, &bootstrap) == ORIEL_OK);
	FUZZ_CHECK(oriel_comm_create(&bootstrap, NULL, &host_comm) == ORIEL_OK);
}

static void host_connect(struct host_scene *s, struct host_peer *p)
{
	if (p->fd >= 0)
		return;
	p->fd = ori_fdsock_begin(s->invitation.addresses[0].ip, getuid());
	FUZZ_CHECK(p->fd >= 0);
}

static void host_send(struct host_scene *s, struct host_peer *p, const void *bytes, size_t length)
{
	host_connect(s, p);
	p->said += length > 0;
	/* Rank 0 may have closed it. */
	if (length)
		(void)!send(p->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void host_send_frame(struct host_scene *s, struct host_peer *p, unsigned type,
			    const void *body, size_t length)
{
	uint8_t bytes[ORI_FRAME_HEADER + ORI_GROW_BODY];

	ori_frame_encode(&(struct ori_frame){.type = type, .length = length}, bytes);
	memcpy(bytes + ORI_FRAME_HEADER, body, length);
	host_send(s, p, bytes, ORI_FRAME_HEADER + length);
}

/* Takes the place and the bits of @bytes that change. */
static void host_spoil(struct fuzz_input *in, uint8_t *bytes, size_t length)
{
	unsigned at = fuzz_byte(in), bits = fuzz_byte(in);

	if (at < length)
		bytes[at] ^= (uint8_t)bits;
}

static void host_step_hello(struct host_scene *s, struct host_peer *p, struct fuzz_input *in)
{
	struct ori_grow_hello hello = {.version = ORI_COMM_WIRE,
				       .count = fuzz_byte(in),
				       .epoch = host_comm->epoch,
				       .pid = (uint32_t)getpid(),
				       .hostname = "host"};

	memcpy(hello.token, s->invitation.token, sizeof(hello.token));
	host_spoil(in, (uint8_t *)&hello, sizeof(hello));
	host_send_frame(s, p, ORI_GROW_HELLO, &hello, sizeof(hello));
	if (p->said > 1)
		return;
	p->hello = hello;
	p->has_hello = true;
}

static void host_step_result(struct host_scene *s, struct host_peer *p, struct fuzz_input *in)
{
	struct ori_grow_done done = {.status = -(int32_t)fuzz_byte(in), .text = "it says"};

	host_spoil(in, (uint8_t *)&done, sizeof(done));
	host_send_frame(s, p, ORI_GROW_RESULT, &done, sizeof(done));
	if (p->said == 2)
		p->may_have_result = done.status == ORIEL_OK;
}

static void host_step_say(struct host_scene *s, struct host_peer *p, struct fuzz_input *in)
{
	size_t length = fuzz_byte(in);

	if (length > in->left)
		length = in->left;
	host_send(s, p, in->at, length);
	/* It may be a piece of a result. */
	p->may_have_result |= p->said == 2 && length;
	in->at += length;
	in->left -= length;
}

static void host_step(struct host_scene *s, struct fuzz_input *in)
{
	unsigned byte = fuzz_byte(in);
	struct host_peer *p = &s->peers[(byte & 3) % HOST_PEERS];

	switch (byte >> 2 & 3) {
	case HOST_HELLO:
		host_step_hello(s, p, in);
		break;
	case HOST_RESULT:
		host_step_result(s, p, in);
		break;
	case HOST_SAY:
		host_step_say(s, p, in);
		break;
	default:
		if (p->fd >= 0)
			shutdown(p->fd, SHUT_WR);
		break;
	}
}

static void host_check_text(void)
{
	const char *text = oriel_last_error(), *c;

	FUZZ_CHECK(*text);
	for (c = text; *c; c++)
		FUZZ_CHECK(isprint((unsigned char)*c));
}

/* Has this process an invitation that rank 0 may take? */
static bool host_may_admit(const struct host_scene *s, const struct host_peer *p)
{
	const struct ori_frame frame = {.type = ORI_GROW_HELLO, .length = sizeof(p->hello)};

	return p->has_hello && !ori_grow_hello_doubt(&frame, &p->hello) &&
	       p->hello.count <= s->count && p->hello.epoch == s->comm->epoch &&
	       memcmp(p->hello.token, s->invitation.token, sizeof(p->hello.token)) == 0;
}

static void host_hear(struct host_peer *p)
{
	static const size_t lengths[ORI_GROW_DONE + 1] = {[ORI_GROW_WELCOME] =
								  sizeof(struct ori_grow_welcome),
							  [ORI_GROW_DONE] =
								  sizeof(struct ori_grow_done)};
	uint8_t bytes[2048];
	struct ori_frame frame;
	ssize_t got;
	size_t at;

	got = recv(p->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	/* A process that says no hello gets an alert of TLS at most. */
	if (!p->has_hello)
		FUZZ_CHECK(got <= HOST_ALERT);
	for (at = 0; p->has_hello && got > 0 && at < (size_t)got;
	     at += ORI_FRAME_HEADER + frame.length) {
		FUZZ_CHECK((size_t)got - at >= ORI_FRAME_HEADER);
		FUZZ_CHECK(ori_frame_parse(bytes + at, &frame) == ORIEL_OK);
		FUZZ_CHECK(frame.type == ORI_GROW_WAIT || frame.type == ORI_GROW_WELCOME ||
			   frame.type == ORI_GROW_DONE);
		FUZZ_CHECK(frame.length == lengths[frame.type]);
		FUZZ_CHECK((size_t)got - at >= ORI_FRAME_HEADER + frame.length);
		/* A done is the last frame, and a welcome comes once. */
		FUZZ_CHECK(!p->frames[ORI_GROW_DONE]);
		FUZZ_CHECK(frame.type == ORI_GROW_DONE || !p->frames[ORI_GROW_WELCOME]);
		p->frames[frame.type]++;
		if (frame.type == ORI_GROW_WELCOME)
			memcpy(&p->welcome, bytes + at + ORI_FRAME_HEADER, sizeof(p->welcome));
	}
}

/* All that are welcome have the invitation, and ranks of their own, all @count together. */
static void host_check_welcomes(struct host_scene *s, bool have_come)
{
	unsigned i, ranks = 0, taken = 0, rank;
	const struct host_peer *p;

	for (i = 0; i < HOST_PEERS; i++) {
		p = &s->peers[i];
		if (!p->frames[ORI_GROW_WELCOME])
			continue;
		FUZZ_CHECK(host_may_admit(s, p));
		FUZZ_CHECK(p->welcome.first >= 1 && p->welcome.size == 1 + s->count);
		FUZZ_CHECK(p->welcome.first + p->hello.count <= p->welcome.size);
		for (rank = p->welcome.first; rank < p->welcome.first + p->hello.count; rank++) {
			FUZZ_CHECK(!(taken & 1u << rank));
			taken |= 1u << rank;
		}
		ranks += p->hello.count;
	}
	FUZZ_CHECK(ranks == (have_come ? s->count : 0));
}

static enum oriel_status host_await(struct host_scene *s, struct fuzz_input *in)
{
	enum oriel_status status = ORIEL_ERR_TIMEOUT;

	while (status == ORIEL_ERR_TIMEOUT && in->left) {
		host_step(s, in);
		status = ori_invite_await(s->comm, s->count, 0);
		FUZZ_CHECK(status == ORIEL_OK || status == ORIEL_ERR_TIMEOUT);
		if (status != ORIEL_OK)
			host_check_text();
	}
	return status;
}

static void host_welcome(struct host_scene *s)
{
	const struct ori_grow_welcome welcome = {.version = ORI_COMM_WIRE,
						 .size = 1 + s->count,
						 .extent = ori_invite_extent(s->comm, 0),
						 .epoch = s->comm->epoch + 1,
						 .timeout_ns = 1};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	FUZZ_CHECK(welcome.extent == ORI_PART_MACHINE || welcome.extent == ORI_PART_NETWORK);
	ori_invite_welcome(s->comm, &welcome);
	FUZZ_CHECK(ori_invite_watch(s->comm, epoll) == ORIEL_OK);
	close(epoll);
}

static enum oriel_status host_results(struct host_scene *s, struct fuzz_input *in)
{
	enum oriel_status status = ori_invite_results(s->comm, 0);

	while (status == ORIEL_ERR_TIMEOUT && in->left) {
		host_check_text();
		host_step(s, in);
		status = ori_invite_results(s->comm, 0);
	}
	if (status != ORIEL_OK)
		host_check_text();
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	static struct host_scene scene;
	struct oriel_invitation invitation;
	enum oriel_status status;
	unsigned before, i;
	bool have_come;

	host_open();
	before = count_fds();
	scene = (struct host_scene){.comm = host_comm, .count = 1 + fuzz_byte(&in) % 4};
	for (i = 0; i < HOST_PEERS; i++)
		scene.peers[i].fd = -1;
	FUZZ_CHECK(oriel_comm_invite(host_comm, &invitation) == ORIEL_OK);
	FUZZ_CHECK(ori_invitation_parse(&invitation, &scene.invitation));
	status = host_await(&scene, &in);
	have_come = status == ORIEL_OK;
	if (have_come) {
		host_welcome(&scene);
		status = host_results(&scene, &in);
	}
	ori_invite_end(host_comm, status);
	for (i = 0; i < HOST_PEERS; i++)
		if (scene.peers[i].fd >= 0)
			host_hear(&scene.peers[i]);
	host_check_welcomes(&scene, have_come);
	for (i = 0; i < HOST_PEERS; i++) {
		if (scene.peers[i].frames[ORI_GROW_WELCOME] && status == ORIEL_OK)
			FUZZ_CHECK(scene.peers[i].may_have_result &&
				   scene.peers[i].frames[ORI_GROW_DONE]);
		if (scene.peers[i].fd >= 0)
			close(scene.peers[i].fd);
	}
	ori_invite_close(host_comm);
	FUZZ_CHECK(oriel_comm_barrier(host_comm) == ORIEL_OK);
	FUZZ_CHECK(count_fds() == before);
	return 0;
}

static uint8_t *seed_step(uint8_t *at, unsigned peer, enum host_step step, unsigned a)
{
	*at++ = (uint8_t)(peer | step << 2);
	if (step == HOST_CLOSE)
		return at;
	*at++ = (uint8_t)a;
	if (step == HOST_SAY) {
		memset(at, 'O', a);
		return at + a;
	}
	*at++ = 0; /* the place of a change, and no bits */
	*at++ = 0;
	return at;
}

/* All come and are well; one fails, is lost, says too much, is one too many, has another token. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	unsigned peers = 1 + n % HOST_PEERS, last = peers - 1, i;
	uint8_t *at = bytes;

	if (n >= 8 * HOST_PEERS)
		return 0;
	*at++ = (uint8_t)(peers - 1);
	for (i = 0; i < peers; i++) {
		at = seed_step(at, i, HOST_HELLO, 1);
		if (n / HOST_PEERS == 1) {
			at[-2] = offsetof(struct ori_grow_hello, token);
			at[-1] = i == 0;
		}
		if (n / HOST_PEERS == 2 && i == 0)
			at = seed_step(at, i, HOST_CLOSE, 0);
		if (n / HOST_PEERS == 3 && i == 0)
			at = seed_step(at, i, HOST_SAY, 30);
		if (n / HOST_PEERS == 4)
			at[-3] = 2;
	}
	for (i = 0; i < last; i++)
		at = seed_step(at, i, HOST_RESULT, 0);
	if (n / HOST_PEERS == 5)
		at = seed_step(at, last, HOST_RESULT, 3);
	else if (n / HOST_PEERS == 6)
		at = seed_step(at, last, HOST_CLOSE, 0);
	else if (n / HOST_PEERS == 7)
		at = seed_step(at, last, HOST_SAY, 100);
	else
		at = seed_step(at, last, HOST_RESULT, 0);
	return (size_t)(at - bytes);
}
