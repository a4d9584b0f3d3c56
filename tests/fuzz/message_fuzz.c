/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the bootstrap's messages: a byte with the number of receives, for each of them a
 * tag and a length, then the peer's stream. A second parser reads here which messages are due.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/message.h"
#include "fuzz.h"

#define MESSAGE_ASKED 15u
#define MESSAGE_SEEN 512u

struct message_seen {
	struct ori_frame frame;
	const uint8_t *body;
	bool is_taken;
};

/* The sending side. */
struct message_peer {
	int fd;
	struct fuzz_input left; /* the bytes not sent yet */
};

/* Parse the complete messages of a stream, up to the first frame that is no message. */
static unsigned message_read(const struct fuzz_input *stream,
			     struct message_seen seen[MESSAGE_SEEN])
{
	struct fuzz_input in = *stream;
	unsigned count = 0;

	while (count < MESSAGE_SEEN && in.left >= ORI_FRAME_HEADER) {
		struct message_seen *s = &seen[count];

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

static struct message_seen *message_find(struct message_seen *seen, unsigned count, uint32_t tag)
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

/* Receive one message and check the result; false once the job has failed. */
static bool message_ask(struct ori_message_service *service, struct message_seen *expected,
			uint32_t tag, size_t length)
{
	uint8_t bytes[256] = {0};
	enum oriel_status status;

	status = ori_message_recv(service, 1, tag, bytes, length, ORIEL_TIMEOUT_INFINITE);
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
	/* The failure is permanent, and every later receive has it. */
	FUZZ_CHECK(ori_tree_check(service->tree) == status);
	FUZZ_CHECK(ori_message_recv(service, 1, tag, bytes, length, ORIEL_TIMEOUT_INFINITE) ==
		   status);
	return false;
}

/*
 * Send the stream up to the end of the awaited message and @more bytes; if none is awaited, send
 * all of it and close. So messages arrive one by one, and no receive waits for ever.
 */
static void message_say(struct message_peer *peer, const struct message_seen *awaited, size_t more)
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

/* An admitted connection of a sender. */
static struct ori_pending *message_pending(struct message_peer *peer, struct ori_traffic *traffic)
{
	struct ori_pending *pending = calloc(1, sizeof(*pending));
	int ends[2];

	FUZZ_CHECK(pending);
	fuzz_connect(ends);
	peer->fd = ends[1];
	ori_net_open(&pending->link, ends[0], traffic);
	pending->link.peer = pending->hello.rank = 1;
	pending->hello.purpose = ORI_PURPOSE_MESSAGE;
	return pending;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct message_seen seen[MESSAGE_SEEN];
	static struct ori_tree tree;
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	uint8_t asked = fuzz_byte(&in) & MESSAGE_ASKED, tags[MESSAGE_ASKED], lengths[MESSAGE_ASKED];
	struct ori_traffic traffic = {0};
	struct ori_message_service service = {0};
	struct message_seen *awaited;
	struct message_peer peer;
	struct ori_listener listener;
	unsigned i, count;

	for (i = 0; i < asked; i++) {
		tags[i] = fuzz_byte(&in);
		lengths[i] = fuzz_byte(&in);
	}
	count = message_read(&in, seen);
	ori_listener_init(&listener, NULL, 2, &traffic);
	ori_tree_init(&tree, 0, 2, &listener);
	peer.left = in;
	listener.admitted = message_pending(&peer, &traffic);
	FUZZ_CHECK(ori_message_open(&service, &tree, &listener, NULL) == ORIEL_OK);
	for (i = 0; i < asked; i++) {
		awaited = message_find(seen, count, tags[i]);
		message_say(&peer, awaited, lengths[i] & 31);
		if (!message_ask(&service, awaited, tags[i], lengths[i]))
			break;
	}
	close(peer.fd);
	ori_message_close(&service);
	ori_tree_close(&tree);
	ori_listener_close(&listener);
	return 0;
}

/* So many messages that a header wraps around the buffer of the link; only the last is received. */
static size_t message_seed_many(uint8_t *bytes)
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

/* Messages of many lengths, received in order, in reverse, and with a wrong length. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	unsigned asked = 1 + n, i, tag;
	uint8_t *at = bytes;

	if (asked == MESSAGE_ASKED + 1)
		return message_seed_many(bytes);
	if (asked > MESSAGE_ASKED)
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
