/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of those that ask: a byte of choices, then the bytes that a hostile acceptor answers
 * with, to a hello of the bootstrap or to a question between communicators (comm/ask.h). A rank
 * goes on only if the first frame is the answer it asked for, and else has a text, or connects
 * again.
 */
#include <ctype.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/dial.h"
#include "comm/ask.h"
#include "fuzz.h"

#define ANSWER_TYPE 7u
#define ANSWER_LENGTH 24u

enum answer_choice {
	ANSWER_ASKS = 1,   /* to a question of a communicator; else to a hello */
	ANSWER_FRAMES = 2, /* the input is the body of a frame; else it is the whole stream */
	ANSWER_TYPES = 60, /* of that frame */
};

/* Says the input, and no more. Returns the frame that it begins with; type 0: none. */
static struct ori_frame answer_say(int end, unsigned choices, const struct fuzz_input *in)
{
	struct ori_frame frame = {.type = (choices & ANSWER_TYPES) >> 2, .length = in->left},
			 none = {0};
	unsigned char header[ORI_FRAME_HEADER];

	if (choices & ANSWER_FRAMES) {
		ori_frame_encode(&frame, header);
		fuzz_say(end, header, sizeof(header));
	}
	fuzz_say(end, in->at, in->left);
	FUZZ_CHECK(shutdown(end, SHUT_WR) == 0);
	if (choices & ANSWER_FRAMES)
		return frame;
	if (in->left < ORI_FRAME_HEADER || ori_frame_parse(in->at, &frame) != ORIEL_OK ||
	    frame.length > in->left - ORI_FRAME_HEADER)
		return none;
	return frame;
}

/* The rank goes on if that is right, and a text does not upset a terminal. */
static void answer_check(enum oriel_status status, bool is_right)
{
	FUZZ_CHECK((status == ORIEL_OK) == is_right);
	if (status == ORIEL_OK || status == ORIEL_AGAIN)
		return;
	FUZZ_CHECK(status < 0 && strcmp(oriel_status_name(status), "unknown status") != 0);
	for (const char *c = oriel_last_error(); *c; c++)
		FUZZ_CHECK(isprint((unsigned char)*c));
	FUZZ_CHECK(status == ORIEL_ERR_PEER || *oriel_last_error());
}

static void answer_hello(struct ori_net_conn *link, const struct ori_frame *frame,
			 const uint8_t *body)
{
	static const struct ori_address address = {.family = 4, .port = 1, .ip = {127, 0, 0, 1}};
	struct ori_credentials own = {0};
	struct ori_traffic traffic;
	struct ori_listener listener;
	struct ori_hello hello = {.rank = 1, .size = 2};
	bool is_answer = frame->type == ORI_FRAME_ANSWER && frame->length == 1;
	enum oriel_status status;

	ori_listener_init(&listener, &own, 2, &traffic);
	status = ori_dial_hello(link, &address, &listener, &hello, ORIEL_TIMEOUT_INFINITE);
	answer_check(status, is_answer && *body == ORI_ANSWER_IN);
	FUZZ_CHECK((status == ORIEL_AGAIN) == (is_answer && *body == ORI_ANSWER_LATER));
	ori_listener_close(&listener);
}

static void answer_question(struct ori_net_conn *link, const struct ori_frame *frame,
			    const uint8_t *body)
{
	struct oriel_comm comm = {.size = 2};
	struct ori_ask ask = {.comm = &comm, .peer = 1};
	uint8_t answer[ANSWER_LENGTH];
	const struct ori_ask_frames frames = {1, ANSWER_TYPE, "what", 4, answer, sizeof(answer)};
	enum oriel_status status;

	ori_net_move(&ask.conn, link);
	status = ori_ask_once(&ask, &frames);
	answer_check(status, frame->type == ANSWER_TYPE && frame->length == sizeof(answer));
	FUZZ_CHECK(status != ORIEL_OK || memcmp(answer, body, sizeof(answer)) == 0);
	ori_ask_end(&ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX};
	unsigned choices = fuzz_byte(&in);
	struct ori_net_conn link;
	struct ori_frame frame;
	const uint8_t *body;
	int ends[2];

	fuzz_connect(ends);
	frame = answer_say(ends[1], choices, &in);
	body = choices & ANSWER_FRAMES ? in.at : in.at + ORI_FRAME_HEADER;
	ori_net_open(&link, ends[0], NULL);
	ori_error_clear();
	if (choices & ANSWER_ASKS)
		answer_question(&link, &frame, body);
	else
		answer_hello(&link, &frame, body);
	ori_net_close(&link);
	close(ends[1]);
	return 0;
}

/* Each answer to a hello, as a body and as a stream, a failure, and an answer to a question. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct ori_failure failure = {.status = ORIEL_ERR_MISMATCH,
					    .rank = 1,
					    .text = "another job"};
	unsigned type = n / 2 < 3 ? ORI_FRAME_ANSWER : n / 2 == 3 ? ORI_FRAME_FAILURE : ANSWER_TYPE;
	struct ori_frame frame = {.type = type, .length = 1};
	unsigned char body[ORI_FAILURE_LENGTH] = {(unsigned char)(n / 2)};
	uint8_t *at = bytes;

	if (n >= 10)
		return 0;
	if (type == ORI_FRAME_FAILURE)
		frame.length = ori_failure_encode(&failure, body);
	else if (type == ANSWER_TYPE)
		frame.length = ANSWER_LENGTH;
	*at++ = (uint8_t)((type << 2 & ANSWER_TYPES) | (type == ANSWER_TYPE ? ANSWER_ASKS : 0) |
			  (n % 2 ? 0 : ANSWER_FRAMES));
	if (n % 2) {
		ori_frame_encode(&frame, at);
		at += ORI_FRAME_HEADER;
	}
	memcpy(at, body, frame.length);
	return (size_t)(at - bytes) + frame.length;
}
