/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a peer: a byte for how many are asked for, for each of them a tag
 * and a length, then the peer's stream. What is to come is read here a second time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/mail.h"
#include "fuzz.h"

#define MAIL_ASKED 15u
#define MAIL_SEEN 512u

struct mail_seen {
	struct ori_frame frame;
	const uint8_t *body;
	bool is_taken;
};

/* The peer's end. */
struct mail_peer {
	int fd;
	struct fuzz_input left; /* to say */
};

/* The whole messages of a stream, up to the first thing that is none. */
static unsigned mail_read(const struct fuzz_input *stream, struct mail_seen seen[MAIL_SEEN])
{
	struct fuzz_input in = *stream;
	unsigned count = 0;

	while (count < MAIL_SEEN && in.left >= ORI_FRAME_HEADER) {
		struct mail_seen *s = &seen[count];

		if (ori_frame_parse(in.at, &s->frame) != ORIEL_OK ||
		    s->frame.type != ORI_FRAME_MESSAGE ||
		    s->frame.length > in.left - ORI_FRAME_HEADER)
			break;
		s->body = in.at + ORI_FRAME_HEADER;
		s->is_taken = false;
		in.at += ORI_FRAME_HEADER + s->frame.length;
		in.left -= ORI_FRAME_HEADER + s->frame.length;
		count++;
	}
	return count;
}

static struct mail_seen *mail_find(struct mail_seen *seen, unsigned count, uint32_t tag)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		if (!seen[i].is_taken && seen[i].frame.tag == tag) {
			seen[i].is_taken = true;
			return &seen[i];
		}
	}
	return NULL;
}

/* Is there more to ask for? */
static bool mail_ask(struct ori_message_service *service, struct mail_seen *expected, uint32_t tag,
		     size_t length)
{
	uint8_t bytes[256] = {0};
	enum oriel_status status;

	status = ori_message_recv(service, 1, tag, bytes, length, ORIEL_FOREVER);
	if (!expected) {
		FUZZ_CHECK(status == ORIEL_ERR_PEER || status == ORIEL_ERR_PROTOCOL ||
			   status == ORIEL_ERR_VERSION || status == ORIEL_ERR_NOMEM);
	} else if (expected->frame.length != length) {
		FUZZ_CHECK(status == ORIEL_ERR_MISMATCH);
	} else {
		FUZZ_CHECK(status == ORIEL_OK);
		FUZZ_CHECK(length == 0 || memcmp(bytes, expected->body, length) == 0);
		return true;
	}
	/* For ever, and for all. */
	FUZZ_CHECK(ori_tree_check(service->tree) == status);
	FUZZ_CHECK(ori_message_recv(service, 1, tag, bytes, length, ORIEL_FOREVER) == status);
	return false;
}

/*
 * Nothing more is said than what is awaited, and @more bytes; or all, and that
 * it is all: so that messages come one by one and no receiver waits for ever.
 */
static void mail_say(struct mail_peer *peer, const struct mail_seen *awaited, size_t more)
{
	size_t length = peer->left.left;

	if (awaited) {
		const uint8_t *end = awaited->body + awaited->frame.length + more;

		if (end <= peer->left.at)
			return;
		if ((size_t)(end - peer->left.at) < length)
			length = (size_t)(end - peer->left.at);
	}
	fuzz_say(peer->fd, peer->left.at, length);
	peer->left.at += length;
	peer->left.left -= length;
	if (!awaited)
		shutdown(peer->fd, SHUT_WR);
}

/* A pending that has come in to send. */
static struct ori_pending *mail_guest(struct mail_peer *peer, struct ori_traffic *traffic)
{
	struct ori_pending *pending = calloc(1, sizeof(*pending));
	int ends[2];

	FUZZ_CHECK(pending);
	fuzz_connect(ends);
	peer->fd = ends[1];
	ori_link_open(&pending->link, ends[0], traffic);
	pending->link.rank = pending->hello.rank = 1;
	pending->hello.purpose = ORI_PURPOSE_MESSAGE;
	return pending;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mail_seen seen[MAIL_SEEN];
	static struct ori_tree tree;
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	uint8_t asked = fuzz_byte(&in) & MAIL_ASKED, tags[MAIL_ASKED], lengths[MAIL_ASKED];
	struct ori_traffic traffic = {0};
	struct ori_message_service service = {0};
	struct mail_seen *awaited;
	struct mail_peer peer;
	struct ori_listener listener;
	unsigned i, count;

	for (i = 0; i < asked; i++) {
		tags[i] = fuzz_byte(&in);
		lengths[i] = fuzz_byte(&in);
	}
	count = mail_read(&in, seen);
	ori_listener_init(&listener, NULL, 2, &traffic);
	ori_tree_init(&tree, 0, 2, &listener);
	peer.left = in;
	listener.admitted = mail_guest(&peer, &traffic);
	FUZZ_CHECK(ori_message_open(&service, &tree, &listener, NULL) == ORIEL_OK);
	for (i = 0; i < asked; i++) {
		awaited = mail_find(seen, count, tags[i]);
		mail_say(&peer, awaited, lengths[i] & 31);
		if (!mail_ask(&service, awaited, tags[i], lengths[i]))
			break;
	}
	close(peer.fd);
	ori_message_close(&service);
	ori_tree_close(&tree);
	ori_listener_close(&listener);
	return 0;
}

/* So many that a header lies across the end of a link's buffer; the last one is asked for. */
static size_t mail_seed_many(uint8_t *bytes)
{
	uint8_t *at = bytes;
	unsigned tag;

	*at++ = 1;
	*at++ = 23;
	*at++ = 252;
	for (tag = 0; tag < 24; tag++) {
		ori_frame_encode(&(struct ori_frame){ORI_FRAME_MESSAGE, tag, 252}, at);
		memset(at + ORI_FRAME_HEADER, (int)tag, 252);
		at += ORI_FRAME_HEADER + 252;
	}
	return (size_t)(at - bytes);
}

/* Messages of many lengths, asked for in order, in reverse, and with a wrong length. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	unsigned asked = 1 + n, i, tag;
	uint8_t *at = bytes;

	if (asked == MAIL_ASKED + 1)
		return mail_seed_many(bytes);
	if (asked > MAIL_ASKED)
		return 0;
	*at++ = (uint8_t)asked;
	for (i = 0; i < asked; i++) {
		tag = n % 2 ? asked - 1 - i : i;
		*at++ = (uint8_t)tag;
		*at++ = (uint8_t)(17 * tag + (n == 4 && i == 2));
	}
	for (tag = 0; tag < asked; tag++) {
		ori_frame_encode(&(struct ori_frame){ORI_FRAME_MESSAGE, tag, 17 * tag}, at);
		memset(at + ORI_FRAME_HEADER, (int)tag, 17 * tag);
		at += ORI_FRAME_HEADER + 17 * tag;
	}
	return (size_t)(at - bytes);
}
