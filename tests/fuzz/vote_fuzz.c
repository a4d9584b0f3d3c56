/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the agreement of survivors: a byte that says whether this rank, of three, leads or
 * follows; then the stream of the other rank, at the listener of the leader, hello included, or as
 * the leader of the one that follows. The third rank is dead. Each input is a few steps, none of
 * which waits.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/vote_peer.h"
#include "fuzz.h"

#define VOTE_RANKS 3u
#define VOTE_STEPS 12u

struct vote_scene {
	struct oriel_comm comm;
	struct ori_host hosts[VOTE_RANKS];
	struct ori_mapping mappings[VOTE_RANKS];
	struct ori_listen_address of[VOTE_RANKS];
	uint64_t births[VOTE_RANKS];
	struct ori_survive survive;
	struct ori_control control;
	struct ori_vote *vote;
};

static unsigned count_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	FUZZ_CHECK(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* No process listens at it; a hello has it. */
static void vote_name(unsigned rank, uint8_t name[ORI_FDSOCK_NAME])
{
	memset(name, (int)('a' + rank), ORI_FDSOCK_NAME);
}

static void vote_choose(void *context, struct ori_vote_value *value)
{
	(void)context, (void)value;
}

static bool vote_is_status(int32_t status)
{
	return status == ORIEL_OK || status == ORIEL_AGAIN ||
	       (status < 0 &&
		strcmp(oriel_status_name((enum oriel_status)status), "unknown status") != 0);
}

static void vote_check_value(const struct ori_vote_value *value)
{
	FUZZ_CHECK(value->number >= 1);
	FUZZ_CHECK(value->leader < VOTE_RANKS);
	FUZZ_CHECK(vote_is_status(value->status));
	FUZZ_CHECK(memchr(value->text, '\0', sizeof(value->text)));
}

static void vote_check(const struct vote_scene *s)
{
	const struct ori_vote *v = s->vote;

	FUZZ_CHECK(s->survive.number >= 1);
	FUZZ_CHECK(s->survive.last.number + 1 == s->survive.number);
	if (s->survive.number > 1)
		vote_check_value(&s->survive.last);
	if (v->has_accepted) {
		vote_check_value(&v->accepted);
		FUZZ_CHECK(v->accepted.number == s->survive.number);
	}
	if (v->is_decided)
		FUZZ_CHECK(!ori_vote_has(s->survive.last.lost, s->comm.rank));
}

static void vote_open(struct vote_scene *s, unsigned rank)
{
	unsigned peer;

	memset(s, 0, sizeof(*s));
	s->comm.rank = rank;
	s->comm.size = VOTE_RANKS;
	s->comm.timeout_ns = ORIEL_TIMEOUT_INFINITE;
	s->comm.hosts = s->hosts;
	s->comm.peers = s->mappings;
	s->comm.control = &s->control;
	s->comm.survive = &s->survive;
	s->survive.of = s->of;
	/* Processes that this one does not see, so that their sockets alone say how they are. */
	s->survive.births = s->births;
	s->survive.number = 1;
	for (peer = 0; peer < VOTE_RANKS; peer++) {
		s->hosts[peer].uid = getuid();
		vote_name(peer, s->of[peer].name);
	}
	ori_net_listener_init(&s->survive.local, NULL, VOTE_RANKS, NULL);
	ori_net_listener_init(&s->survive.tcp, NULL, VOTE_RANKS, NULL);
	FUZZ_CHECK(ori_vote_open(&s->comm, &s->vote) == ORIEL_OK);
	s->vote->choose = vote_choose;
	s->vote->leader = 0;
}

/* The other rank connects, and ends its side. */
static int vote_connect(struct vote_scene *s, const struct fuzz_input *in)
{
	uint8_t name[ORI_FDSOCK_NAME];
	int fd, listener;

	FUZZ_CHECK(ori_fdsock_listen(name, &listener) == ORIEL_OK);
	FUZZ_CHECK(ori_net_listener_open(&s->survive.local, listener) == ORIEL_OK);
	FUZZ_CHECK(ori_fdsock_connect(name, getuid(), getpid(), ORIEL_TIMEOUT_INFINITE, &fd) ==
		   ORIEL_OK);
	fuzz_say(fd, in->at, in->left);
	shutdown(fd, SHUT_WR);
	return fd;
}

static void vote_lead(struct vote_scene *s, const struct fuzz_input *in)
{
	int fd = vote_connect(s, in);
	unsigned step;

	/* Once it is looked for it is dead: no process listens at its name. */
	for (step = 0; step < VOTE_STEPS && !s->vote->peers[1].in; step++)
		ori_vote_serve(s->vote);
	for (step = 0; step < VOTE_STEPS && !s->vote->is_decided && !s->vote->is_removed; step++) {
		FUZZ_CHECK(ori_vote_lead(s->vote) == ORIEL_OK);
		vote_check(s);
	}
	/* This rank is left at least. */
	FUZZ_CHECK(s->vote->is_decided || s->vote->is_removed);
	close(fd);
}

static void vote_follow(struct vote_scene *s, const struct fuzz_input *in)
{
	struct ori_net_conn *conn = malloc(sizeof(*conn));
	unsigned step;
	int ends[2];

	FUZZ_CHECK(conn);
	fuzz_connect(ends);
	ori_net_open(conn, ends[0], NULL);
	s->vote->peers[0].out = conn;
	fuzz_say(ends[1], in->at, in->left);
	shutdown(ends[1], SHUT_WR);
	for (step = 0; step < VOTE_STEPS && ori_vote_is_here(s->vote, 0) && !s->vote->is_decided &&
		       !s->vote->is_removed;
	     step++) {
		FUZZ_CHECK(ori_vote_follow(s->vote, 0) == ORIEL_OK);
		vote_check(s);
	}
	FUZZ_CHECK(!ori_vote_is_here(s->vote, 0) || s->vote->is_decided || s->vote->is_removed);
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct vote_scene scene;
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	unsigned rank = fuzz_byte(&in) & 1, before = count_fds();

	vote_open(&scene, rank);
	if (rank == 0)
		vote_lead(&scene, &in);
	else
		vote_follow(&scene, &in);
	ori_vote_close(scene.vote);
	ori_net_listener_close(&scene.survive.local);
	FUZZ_CHECK(count_fds() == before);
	return 0;
}

static uint8_t *seed_frame(uint8_t *at, enum vote_frame type, const void *body, size_t length)
{
	ori_frame_encode(&(struct ori_frame){.type = type, .length = length}, at);
	if (length)
		memcpy(at + ORI_FRAME_HEADER, body, length);
	return at + ORI_FRAME_HEADER + length;
}

static struct ori_vote_value seed_value(uint32_t number, enum oriel_status status)
{
	struct ori_vote_value value = {.number = number, .status = status, .text = "why"};

	ori_vote_set(value.lost, 2);
	return value;
}

/* Rank 1 joins rank 0; it is at agreement @number, whose value it may have accepted. */
static uint8_t *seed_join(uint8_t *at, uint32_t number, bool has_accepted, enum oriel_status status)
{
	struct vote_hello hello = {.version = ORI_COMM_WIRE, .from = 1, .to = 0};
	struct vote_state state = {.number = number,
				   .has_accepted = has_accepted,
				   .status = status,
				   .text = "it"};

	if (number > 1)
		state.last = seed_value(number - 1, ORIEL_OK);
	if (has_accepted)
		state.accepted = seed_value(number, ORIEL_OK);
	vote_name(0, hello.name);
	at = seed_frame(at, VOTE_JOIN, &hello, sizeof(hello));
	at = seed_frame(at, VOTE_STATE, &state, sizeof(state));
	return seed_frame(at, VOTE_ACCEPT, &number, sizeof(number));
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const enum oriel_status statuses[] = {ORIEL_OK, ORIEL_AGAIN, ORIEL_ERR_STATE};
	struct ori_vote_value value = seed_value(1, statuses[n % 3]);
	uint8_t *at = bytes + 1;

	if (n >= 12)
		return 0;
	bytes[0] = n >= 6;
	if (n < 6) {
		at = seed_join(at, 1 + n / 2, n % 2, n == 3 ? ORIEL_ERR_NOMEM : ORIEL_OK);
		return (size_t)(at - bytes);
	}
	at = seed_frame(at, VOTE_WAIT, NULL, 0);
	if (n == 11)
		return (size_t)(seed_frame(at, VOTE_REMOVED, NULL, 0) - bytes);
	if (n == 10)
		ori_vote_set(value.lost, 1);
	at = seed_frame(at, VOTE_PROPOSE, &value, sizeof(value));
	if (n >= 8)
		at = seed_frame(at, VOTE_DECIDED, &value, sizeof(value));
	return (size_t)(at - bytes);
}
