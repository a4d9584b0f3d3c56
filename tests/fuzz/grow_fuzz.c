/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of invitations and of the frames between rank 0 of a communicator that grows and new
 * ranks: a byte that says which, a type, a number; then the bytes. A second check here says what
 * may be accepted.
 */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "comm/grow_frame.h"
#include "fuzz.h"

enum grow_kind { GROW_BYTES, GROW_TEXT, GROW_HELLO, GROW_WELCOME, GROW_DONE, GROW_KINDS };

static void grow_check_invitation(const struct ori_invitation *in)
{
	unsigned i;

	FUZZ_CHECK(in->count >= 1 && in->count <= ORI_JOB_ID_ADDRESSES);
	for (i = 0; i < in->count; i++)
		FUZZ_CHECK(in->addresses[i].port != 0 ||
			   (in->addresses[i].family == ORI_ADDRESS_UNIX && in->count == 1));
}

static void grow_bytes(const struct fuzz_input *in)
{
	struct oriel_invitation bytes = {{0}}, again;
	char text[ORIEL_INVITATION_TEXT];
	struct ori_invitation found;
	enum oriel_status status;

	memcpy(bytes.bytes, in->at, in->left < sizeof(bytes) ? in->left : sizeof(bytes));
	FUZZ_CHECK(oriel_invitation_text(&bytes, text) == ORIEL_OK);
	status = oriel_invitation_read(text, &again);
	if (!ori_invitation_parse(&bytes, &found)) {
		FUZZ_CHECK(status == ORIEL_ERR_INVALID);
		return;
	}
	FUZZ_CHECK(status == ORIEL_OK && memcmp(&bytes, &again, sizeof(bytes)) == 0);
	grow_check_invitation(&found);
	ori_invitation_encode(&found, &again);
	FUZZ_CHECK(memcmp(&bytes, &again, sizeof(bytes)) == 0);
}

static void grow_text(const struct fuzz_input *in)
{
	char text[ORIEL_INVITATION_TEXT + 8] = "", again[ORIEL_INVITATION_TEXT];
	struct oriel_invitation bytes;

	memcpy(text, in->at, in->left < sizeof(text) ? in->left : sizeof(text) - 1);
	if (oriel_invitation_read(text, &bytes) == ORIEL_OK) {
		FUZZ_CHECK(oriel_invitation_text(&bytes, again) == ORIEL_OK);
		FUZZ_CHECK(strcmp(text, again) == 0);
	} else {
		/* It is a secret. */
		FUZZ_CHECK(strlen(text) < 16 || !strstr(oriel_last_error(), text));
	}
}

static bool grow_is_plain(const char *text, size_t size)
{
	size_t length = strnlen(text, size), i;

	for (i = 0; i < length; i++)
		if (!isprint((unsigned char)text[i]))
			return false;
	return length < size;
}

static void grow_hello(const struct ori_frame *frame, const struct ori_grow_hello *body)
{
	const char *doubt = ori_grow_hello_doubt(frame, body);

	FUZZ_CHECK((doubt == NULL) ==
		   (frame->type == ORI_GROW_HELLO && frame->length == sizeof(*body) &&
		    body->version == ORI_COMM_WIRE && body->count >= 1 && body->count <= 1u << 20 &&
		    body->extent <= 2 && !body->reserved &&
		    grow_is_plain(body->hostname, sizeof(body->hostname))));
}

static void grow_welcome(const struct ori_frame *frame, const struct ori_grow_welcome *body,
			 unsigned count)
{
	unsigned i;

	if (!ori_grow_welcome_is_valid(frame, body, count))
		return;
	FUZZ_CHECK(frame->type == ORI_GROW_WELCOME && frame->length == sizeof(*body));
	FUZZ_CHECK(body->first >= 1 && (uint64_t)body->first + count <= body->size);
	FUZZ_CHECK(body->size <= 1u << 20 && body->epoch && body->timeout_ns);
	FUZZ_CHECK(body->key_length <= sizeof(body->key));
	for (i = body->key_length; i < sizeof(body->key); i++)
		FUZZ_CHECK(!body->key[i]);
	/* ori_part_open() of a thread reads an address from it. */
	FUZZ_CHECK(body->extent != ORI_PART_PROCESS);
}

static void grow_done(const struct ori_frame *frame, struct ori_grow_done *body)
{
	if (!ori_grow_done_parse(frame, ORI_GROW_DONE, body))
		return;
	FUZZ_CHECK(frame->type == ORI_GROW_DONE && frame->length == sizeof(*body));
	FUZZ_CHECK(body->status == ORIEL_OK ||
		   (body->status < 0 &&
		    strcmp(oriel_status_name((enum oriel_status)body->status), "unknown status")));
	FUZZ_CHECK(grow_is_plain(body->text, sizeof(body->text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	unsigned kind = fuzz_byte(&in) % GROW_KINDS;
	struct ori_frame frame = {.type = fuzz_byte(&in)};
	unsigned count = 1u + fuzz_byte(&in);
	union {
		struct ori_grow_hello hello;
		struct ori_grow_welcome welcome;
		struct ori_grow_done done;
	} body = {.done = {0}};

	frame.length = in.left;
	memcpy(&body, in.at, in.left < sizeof(body) ? in.left : sizeof(body));
	if (kind == GROW_BYTES)
		grow_bytes(&in);
	else if (kind == GROW_TEXT)
		grow_text(&in);
	else if (kind == GROW_HELLO)
		grow_hello(&frame, &body.hello);
	else if (kind == GROW_WELCOME)
		grow_welcome(&frame, &body.welcome, count);
	else
		grow_done(&frame, &body.done);
	return 0;
}

static size_t grow_seed_invitation(enum grow_kind kind, unsigned count, uint8_t *bytes)
{
	struct ori_invitation in = {.epoch = count, .token = {1}, .key = {2}, .count = count};
	struct oriel_invitation invitation;
	char text[ORIEL_INVITATION_TEXT];
	unsigned i;

	for (i = 0; i < count; i++)
		in.addresses[i] =
			(struct ori_address){.family = i % 2 ? 6 : 4, .port = 9, .ip = {10, 1}};
	ori_invitation_encode(&in, &invitation);
	if (kind == GROW_BYTES) {
		memcpy(bytes, &invitation, sizeof(invitation));
		return sizeof(invitation);
	}
	FUZZ_CHECK(oriel_invitation_text(&invitation, text) == ORIEL_OK);
	memcpy(bytes, text, sizeof(text) - 1);
	return sizeof(text) - 1;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct ori_grow_hello hello = {.version = ORI_COMM_WIRE,
					     .count = 1 + n,
					     .epoch = n,
					     .hostname = "host"};
	const struct ori_grow_welcome welcome = {.version = ORI_COMM_WIRE,
						 .first = 2,
						 .size = 3 + n,
						 .extent = ORI_PART_MACHINE,
						 .epoch = 1,
						 .timeout_ns = 1,
						 .key_length = 16 * (n % 3),
						 .key = {n % 3 ? 7 : 0}};
	struct ori_grow_done done;
	static const uint8_t types[GROW_KINDS] = {0, 0, ORI_GROW_HELLO, ORI_GROW_WELCOME,
						  ORI_GROW_DONE};
	unsigned kind = n % GROW_KINDS;

	if (n >= 4 * GROW_KINDS)
		return 0;
	bytes[0] = (uint8_t)kind;
	bytes[1] = types[kind];
	bytes[2] = 0;
	if (kind <= GROW_TEXT)
		return 3 +
		       grow_seed_invitation((enum grow_kind)kind, 1 + n / GROW_KINDS, bytes + 3);
	if (kind == GROW_HELLO) {
		memcpy(bytes + 3, &hello, sizeof(hello));
		return 3 + sizeof(hello);
	}
	if (kind == GROW_WELCOME) {
		memcpy(bytes + 3, &welcome, sizeof(welcome));
		return 3 + sizeof(welcome);
	}
	ori_grow_done_fill(&done,
			   n > GROW_KINDS ? ori_fail(ORIEL_ERR_PEER, "rank %u", n) : ORIEL_OK);
	memcpy(bytes + 3, &done, sizeof(done));
	return 3 + sizeof(done);
}
