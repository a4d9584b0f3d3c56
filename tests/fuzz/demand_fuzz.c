/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of links on demand: what a process of this user sends to the unix socket where rank 0
 * listens, as if it were rank 3 of four, to which rank 0 has no link. A byte of choices, then the
 * ask, whose head is right where the choices say so, and then a second frame. Only an ask of this
 * job gets an answer, only a ready behind it begins the link, and no descriptor stays open.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <oriel/bootstrap.h>

#include "base/count_fds.h"
#include "comm/demand.h"
#include "comm/demand_link.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/links.h"
#include "comm/watcher.h"
#include "fuzz.h"
#include "net/frame.h"
#include "rdma/rdma.h"

#define DEMAND_RANKS 4u
#define DEMAND_ASKER 3u /* the links that carry failures are those of ranks one bit apart */
#define DEMAND_TURNS 6u

enum demand_choice {
	DEMAND_FRAMES = 1,  /* the input is the body of an ask; else it is the whole stream */
	DEMAND_HEADS = 2,   /* of a frame: version, ranks and name are right */
	DEMAND_READIES = 4, /* a second frame follows: a ready, or what the last two change of it */
	DEMAND_ENDS = 8,    /* the socket is closed before the rank looks */
	DEMAND_TYPES = 48,
	DEMAND_BODIES = 64,
};

static struct oriel_comm *demand_comms[DEMAND_RANKS];

static void *demand_join(void *argument)
{
	static const char *const nodes[DEMAND_RANKS] = {"a", "b", "c", "d"};
	struct oriel_bootstrap *bootstrap = argument;
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .connect = ORIEL_CONNECT_DEMAND,
				       .node = nodes[bootstrap->rank]};

	FUZZ_CHECK(oriel_comm_create(bootstrap, &attr, &demand_comms[bootstrap->rank]) == ORIEL_OK);
	return NULL;
}

/* Ranks that live until the process ends. Their watchers have ended: the inputs alone are served.
 */
static void demand_open(void)
{
	static struct oriel_bootstrap bootstraps[DEMAND_RANKS];
	struct oriel_local_job *job;
	pthread_t threads[DEMAND_RANKS];
	unsigned i;

	if (demand_comms[0])
		return;
	FUZZ_CHECK(setenv("ORIEL_HCA", "soft", 1) == 0);
	FUZZ_CHECK(oriel_local_job_create(DEMAND_RANKS, &job) == ORIEL_OK);
	for (i = 0; i < DEMAND_RANKS; i++) {
		FUZZ_CHECK(oriel_bootstrap_open_local(job, i, &bootstraps[i]) == ORIEL_OK);
		FUZZ_CHECK(pthread_create(&threads[i], NULL, demand_join, &bootstraps[i]) == 0);
	}
	for (i = 0; i < DEMAND_RANKS; i++)
		FUZZ_CHECK(pthread_join(threads[i], NULL) == 0);
	for (i = 0; i < DEMAND_RANKS; i++)
		ori_watcher_stop(demand_comms[i]);
	FUZZ_CHECK(!ori_rdma_link_is_ready(demand_comms[0]->links[DEMAND_ASKER]));
}

/* One input, as it is sent. */
struct demand_stream {
	uint8_t bytes[2 * ORI_FRAME_HEADER + 4 + FUZZ_INPUT_MAX];
	size_t length;
};

static void stream_frame(struct demand_stream *s, unsigned type, const void *body, size_t length)
{
	const struct ori_frame frame = {.type = type, .length = length};

	ori_frame_encode(&frame, s->bytes + s->length);
	s->length += ORI_FRAME_HEADER;
	if (length)
		memcpy(s->bytes + s->length, body, length);
	s->length += length;
}

/* The head of an ask of @rank: what is in front of its queues. */
static void demand_head(struct demand_ask *ask, unsigned rank)
{
	ask->version = ORI_COMM_WIRE;
	ask->from = rank;
	ask->to = 0;
	memcpy(ask->name, demand_comms[0]->demand->address.name, sizeof(ask->name));
}

static void stream_fill(struct demand_stream *s, unsigned choices, struct fuzz_input *in)
{
	struct demand_ask ask = {0};

	if (!(choices & DEMAND_FRAMES)) {
		memcpy(s->bytes, in->at, in->left);
		s->length = in->left;
	} else if (choices & DEMAND_HEADS) {
		demand_head(&ask, DEMAND_ASKER);
		memcpy(&ask.qps, in->at, in->left < sizeof(ask.qps) ? in->left : sizeof(ask.qps));
		stream_frame(s, DEMAND_ASK, &ask, sizeof(ask));
	} else {
		stream_frame(s, DEMAND_ASK, in->at, in->left);
	}
	if (choices & DEMAND_READIES)
		stream_frame(s, DEMAND_READY ^ (choices & DEMAND_TYPES) >> 4, "body",
			     choices & DEMAND_BODIES ? 4 : 0);
}

/* The rank whose ask @s begins with, by a check of this file; 0: it is none. */
static unsigned stream_asker(const struct demand_stream *s)
{
	struct demand_ask ask = {0}, right = {0};
	struct ori_frame frame;
	size_t head = offsetof(struct demand_ask, qps);

	if (s->length < ORI_FRAME_HEADER + sizeof(ask) ||
	    ori_frame_parse(s->bytes, &frame) != ORIEL_OK || frame.type != DEMAND_ASK ||
	    frame.length != sizeof(ask))
		return 0;
	memcpy(&ask, s->bytes + ORI_FRAME_HEADER, sizeof(ask));
	demand_head(&right, ask.from);
	right.reserved = ask.reserved;
	return memcmp(&ask, &right, head) == 0 && ask.from < DEMAND_RANKS ? ask.from : 0;
}

/* Does the ready follow? A connection that ended lets the link go, too. */
static bool stream_is_ready(const struct demand_stream *s)
{
	const uint8_t *at = s->bytes + ORI_FRAME_HEADER + sizeof(struct demand_ask);
	struct ori_frame frame;

	return s->bytes + s->length >= at + ORI_FRAME_HEADER &&
	       ori_frame_parse(at, &frame) == ORIEL_OK && frame.type == DEMAND_READY &&
	       frame.length == 0;
}

/* The rank has sent one answer, or nothing. */
static bool demand_has_answer(int fd, struct demand_answer *answer)
{
	uint8_t bytes[2 * (ORI_FRAME_HEADER + sizeof(*answer))];
	ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	struct ori_frame frame;

	if (got <= 0)
		return false;
	FUZZ_CHECK(got == ORI_FRAME_HEADER + sizeof(*answer));
	FUZZ_CHECK(ori_frame_parse(bytes, &frame) == ORIEL_OK && frame.type == DEMAND_ANSWER);
	memcpy(answer, bytes + ORI_FRAME_HEADER, sizeof(*answer));
	return true;
}

static void demand_serve(void)
{
	for (unsigned i = 0; i < DEMAND_TURNS; i++)
		(void)ori_demand_serve(demand_comms[0]);
}

/* The link to the asker as it was: one that has begun is not closed. */
static void demand_renew(void)
{
	struct oriel_comm *comm = demand_comms[0];

	ori_rdma_link_destroy(comm->links[DEMAND_ASKER]);
	FUZZ_CHECK(ori_rdma_link_create(comm->rdma, DEMAND_ASKER,
					ori_links_rail(comm, DEMAND_ASKER),
					&comm->links[DEMAND_ASKER]) == ORIEL_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	static struct demand_stream stream;
	struct demand_answer answer = {0};
	struct oriel_comm *comm;
	unsigned choices, asker, before;
	bool is_answered, is_ready;
	int fd;

	demand_open();
	comm = demand_comms[0];
	before = count_fds();
	choices = fuzz_byte(&in);
	stream.length = 0;
	stream_fill(&stream, choices, &in);
	asker = stream_asker(&stream);
	FUZZ_CHECK(ori_fdsock_connect(comm->demand->address.name, getuid(), getpid(),
				      ORIEL_TIMEOUT_INFINITE, &fd) == ORIEL_OK);
	fuzz_say(fd, stream.bytes, stream.length);
	if (choices & DEMAND_ENDS)
		shutdown(fd, SHUT_WR);
	demand_serve();
	is_answered = demand_has_answer(fd, &answer);
	FUZZ_CHECK(is_answered == (asker != 0));
	/* The links to ranks 1 and 2 are there. */
	if (asker && asker != DEMAND_ASKER)
		FUZZ_CHECK(answer.status == ORIEL_AGAIN);
	is_ready = ori_rdma_link_is_ready(comm->links[DEMAND_ASKER]);
	FUZZ_CHECK(is_ready == (asker == DEMAND_ASKER && answer.status == ORIEL_OK &&
				stream_is_ready(&stream)));
	if (is_ready)
		demand_renew();
	close(fd);
	demand_serve();
	FUZZ_CHECK(!comm->demand->served && ori_comm_is_well(comm));
	FUZZ_CHECK(comm->demand->peers[DEMAND_ASKER].state == DEMAND_IDLE);
	FUZZ_CHECK(count_fds() == before);
	return 0;
}

/* Whole asks, with and without a ready; queues alone; of other ranks, versions and listeners. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct demand_stream s = {.length = 0};
	struct demand_ask ask = {.qps = {0}};

	demand_open();
	if (n >= 32)
		return 0;
	bytes[0] = (uint8_t)(n & (DEMAND_READIES | DEMAND_ENDS));
	if (n < 8) {
		bytes[0] |= DEMAND_FRAMES | DEMAND_HEADS | (n & 3) << 4;
		memset(bytes + 1, (int)n, sizeof(ask.qps));
		return 1 + sizeof(ask.qps);
	}
	demand_head(&ask, n % 4);
	ask.version += n >= 24;
	ask.name[0] ^= n >= 16 && n < 24;
	memset(&ask.qps, (int)n, sizeof(ask.qps));
	if (n % 2) {
		bytes[0] |= DEMAND_FRAMES;
		memcpy(bytes + 1, &ask, sizeof(ask));
		return 1 + sizeof(ask);
	}
	stream_frame(&s, DEMAND_ASK, &ask, sizeof(ask));
	memcpy(bytes + 1, s.bytes, s.length);
	return 1 + s.length;
}
