/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the bootstrap's tree: bytes with the number of ranks, this rank and the length
 * of each rank's data; then for each neighbour the length of its stream (two bytes) and the
 * stream, after which the neighbour closes unless the stream is valid.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/tree.h"
#include "fuzz.h"

#define TREE_RANKS 16u
#define TREE_PIECE 31u

struct tree_scene {
	struct ori_tree tree;
	struct ori_listener listener;
	struct ori_traffic traffic;
	int peer_fds[ORI_TREE_LINKS]; /* sockets of the neighbours, -1: none */
	const uint8_t *said[ORI_TREE_LINKS];
	enum oriel_status due[ORI_TREE_LINKS]; /* the status that the stream causes */
	size_t piece;
	uint8_t all[TREE_RANKS * TREE_PIECE];
};

/* Skips beats: frames WAIT without a body, which may come at any time. */
static void tree_skip_beats(const uint8_t **at, size_t *left)
{
	struct ori_frame frame;

	while (*left >= ORI_FRAME_HEADER && ori_frame_parse(*at, &frame) == ORIEL_OK &&
	       frame.type == ORI_FRAME_WAIT && !frame.length) {
		*at += ORI_FRAME_HEADER;
		*left -= ORI_FRAME_HEADER;
	}
}

/* The status due to a neighbour that may send only a failure; @silent if it has sent none. */
static enum oriel_status tree_expect_silence(const uint8_t *at, size_t left,
					     enum oriel_status silent)
{
	struct ori_failure failure;
	struct ori_frame frame;

	tree_skip_beats(&at, &left);
	if (left < ORI_FRAME_HEADER)
		return silent;
	if (ori_frame_parse(at, &frame) != ORIEL_OK || frame.type != ORI_FRAME_FAILURE ||
	    frame.length > ORI_FAILURE_LENGTH)
		return ORIEL_ERR_PROTOCOL;
	if (frame.length > left - ORI_FRAME_HEADER)
		return silent;
	if (!ori_failure_parse(at + ORI_FRAME_HEADER, frame.length, &failure))
		return ORIEL_ERR_PROTOCOL;
	return failure.status;
}

/* The status due to a child whose data is @length bytes. */
static enum oriel_status tree_expect(const uint8_t *at, size_t left, size_t length, bool *is_proper)
{
	struct ori_frame frame;

	*is_proper = false;
	tree_skip_beats(&at, &left);
	if (left < ORI_FRAME_HEADER || ori_frame_parse(at, &frame) != ORIEL_OK ||
	    frame.type != ORI_FRAME_GATHER)
		return tree_expect_silence(at, left, ORIEL_ERR_PEER);
	if (frame.length != length)
		return ORIEL_ERR_MISMATCH;
	if (length > left - ORI_FRAME_HEADER)
		return ORIEL_ERR_PEER;
	*is_proper = true;
	return tree_expect_silence(at + ORI_FRAME_HEADER + length, left - ORI_FRAME_HEADER - length,
				   ORIEL_OK);
}

/* The next stream of the input comes from @rank. */
static size_t tree_join(struct tree_scene *s, unsigned i, unsigned rank, struct fuzz_input *in)
{
	size_t length = fuzz_byte(in);
	int ends[2];

	length |= (size_t)fuzz_byte(in) << 8;
	if (length > in->left)
		length = in->left;
	fuzz_connect(ends);
	fuzz_say(ends[1], in->at, length);
	ori_net_open(&s->tree.links[i], ends[0], &s->traffic);
	s->tree.links[i].peer = rank;
	s->peer_fds[i] = ends[1];
	s->said[i] = in->at;
	in->at += length;
	in->left -= length;
	return length;
}

static void tree_join_child(struct tree_scene *s, unsigned i, struct fuzz_input *in)
{
	const struct ori_tree_place *place = &s->tree.place;
	size_t length = tree_join(s, i, place->child[i], in);
	bool is_proper;

	s->due[i] = tree_expect(s->said[i], length,
				(place->child_end[i] - place->child[i]) * s->piece, &is_proper);
	if (!is_proper)
		shutdown(s->peer_fds[i], SHUT_WR);
}

static void tree_join_parent(struct tree_scene *s, struct fuzz_input *in)
{
	unsigned i = ORI_TREE_ARITY;
	size_t length = tree_join(s, i, s->tree.place.parent, in);

	s->due[i] = tree_expect_silence(s->said[i], length, ORIEL_ERR_PEER);
	shutdown(s->peer_fds[i], SHUT_WR);
}

/* Success only if every stream is valid, otherwise the failure that one of them causes. */
static void tree_check_status(const struct tree_scene *s, enum oriel_status status)
{
	bool is_due = status == ORIEL_OK;
	unsigned i;

	for (i = 0; i < ORI_TREE_LINKS; i++) {
		if (status == ORIEL_OK)
			FUZZ_CHECK(s->due[i] == ORIEL_OK);
		is_due = is_due || s->due[i] == status;
	}
	FUZZ_CHECK(is_due);
}

static void tree_check_gathered(const struct tree_scene *s)
{
	const struct ori_tree_place *place = &s->tree.place;
	unsigned i;

	for (i = 0; i < place->children; i++)
		FUZZ_CHECK(memcmp(s->all + place->child[i] * s->piece,
				  s->said[i] + ORI_FRAME_HEADER,
				  (place->child_end[i] - place->child[i]) * s->piece) == 0);
}

/* Each child has received the data of all ranks. */
static void tree_check_spread(struct tree_scene *s, size_t length)
{
	static uint8_t body[TREE_RANKS * TREE_PIECE];
	struct ori_frame frame;
	struct ori_net_conn link;
	unsigned i;

	for (i = 0; i < s->tree.place.children; i++) {
		ori_net_open(&link, s->peer_fds[i], &s->traffic);
		FUZZ_CHECK(ori_net_take(&link, &frame, body, sizeof(body)) == ORIEL_OK);
		FUZZ_CHECK(frame.type == ORI_FRAME_SPREAD && frame.length == length);
		FUZZ_CHECK(memcmp(body, s->all, length) == 0);
	}
}

static void tree_exchange(struct tree_scene *s, unsigned size)
{
	enum oriel_status status;

	memset(s->all, 0xa5, sizeof(s->all));
	status = ori_tree_exchange(&s->tree, s->all, s->piece, size * s->piece,
				   ORIEL_TIMEOUT_INFINITE);
	tree_check_status(s, status);
	if (status == ORIEL_OK) {
		tree_check_gathered(s);
		tree_check_spread(s, size * s->piece);
		return;
	}
	/* The failure is permanent, and has a text. */
	FUZZ_CHECK(ori_tree_check(&s->tree) == status);
	FUZZ_CHECK(strlen(s->tree.failure.text) < sizeof(s->tree.failure.text));
	FUZZ_CHECK(ori_tree_exchange(&s->tree, s->all, 1, 1, ORIEL_TIMEOUT_INFINITE) == status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tree_scene s;
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	unsigned ranks = 2 + fuzz_byte(&in) % (TREE_RANKS - 1), rank = fuzz_byte(&in) % ranks, i;

	s.piece = fuzz_byte(&in) % TREE_PIECE;
	ori_listener_init(&s.listener, NULL, ranks, &s.traffic);
	ori_tree_init(&s.tree, rank, ranks, &s.listener);
	memset(s.peer_fds, -1, sizeof(s.peer_fds));
	memset(s.due, 0, sizeof(s.due));
	for (i = 0; i < s.tree.place.children; i++)
		tree_join_child(&s, i, &in);
	if (rank > 0)
		tree_join_parent(&s, &in);
	tree_exchange(&s, ranks);
	for (i = 0; i < ORI_TREE_LINKS; i++)
		if (s.peer_fds[i] >= 0)
			close(s.peer_fds[i]);
	ori_tree_close(&s.tree);
	ori_listener_close(&s.listener);
	return 0;
}

static size_t tree_say(uint8_t *at, enum ori_frame_type type, const void *body, size_t length)
{
	at[0] = (uint8_t)(ORI_FRAME_HEADER + length);
	at[1] = (uint8_t)((ORI_FRAME_HEADER + length) >> 8);
	ori_frame_encode(&(struct ori_frame){.type = type, .length = length}, at + 2);
	memcpy(at + 2 + ORI_FRAME_HEADER, body, length);
	return 2 + ORI_FRAME_HEADER + length;
}

/* Children with valid data; in every third job the last one sends a failure. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const struct ori_failure failure = {ORIEL_ERR_TIMEOUT, 7, "rank 7 did not come"};
	unsigned char body[ORI_FAILURE_LENGTH] = {0};
	unsigned ranks = 2 + n, rank = n % 5 == 4 ? 1 : 0, piece = 3 * n % TREE_PIECE, i;
	struct ori_tree_place place;
	uint8_t *at = bytes;

	if (ranks > TREE_RANKS)
		return 0;
	ori_tree_place(ranks, rank, &place);
	*at++ = (uint8_t)n;
	*at++ = (uint8_t)rank;
	*at++ = (uint8_t)piece;
	for (i = 0; i < place.children; i++)
		at += tree_say(at, ORI_FRAME_GATHER, body,
			       (place.child_end[i] - place.child[i]) * piece);
	if (n % 3 == 2)
		at += tree_say(at, ORI_FRAME_FAILURE, body, ori_failure_encode(&failure, body));
	return (size_t)(at - bytes);
}
