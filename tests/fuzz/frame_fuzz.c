/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of src/net/frame.c and src/bootstrap/body.c: each of their four parsers gets the
 * input, and the encoder of each result makes the same bytes.
 */
#include <string.h>

#include "bootstrap/body.h"
#include "fuzz.h"

static void frame_refuses_other_versions(const uint8_t *bytes)
{
	unsigned char other[ORI_FRAME_HEADER];
	struct ori_frame out;
	unsigned bit;

	for (bit = 0; bit < 16; bit++) {
		memcpy(other, bytes, sizeof(other));
		other[4 + bit / 8] ^= (unsigned char)(1u << bit % 8);
		FUZZ_CHECK(ori_frame_parse(other, &out) == ORIEL_ERR_VERSION);
	}
}

static void frame_header(const uint8_t *bytes, size_t length)
{
	unsigned char again[ORI_FRAME_HEADER];
	enum oriel_status status;
	struct ori_frame frame;

	if (length < ORI_FRAME_HEADER)
		return;
	status = ori_frame_parse(bytes, &frame);
	FUZZ_CHECK(status == ORIEL_OK || status == ORIEL_ERR_PROTOCOL ||
		   status == ORIEL_ERR_VERSION);
	if (status != ORIEL_OK)
		return;
	FUZZ_CHECK(frame.type != 0);
	ori_frame_encode(&frame, again);
	FUZZ_CHECK(memcmp(again, bytes, sizeof(again)) == 0);
	frame_refuses_other_versions(bytes);
}

static void frame_address(const uint8_t *bytes, size_t length)
{
	unsigned char again[ORI_ADDRESS_LENGTH];
	struct ori_address address;

	if (!ori_address_parse(bytes, length, &address))
		return;
	FUZZ_CHECK(length == ORI_ADDRESS_LENGTH);
	FUZZ_CHECK(address.family == 0 || address.family == 4 || address.family == 6 ||
		   address.family == ORI_ADDRESS_UNIX);
	ori_address_encode(&address, again);
	FUZZ_CHECK(memcmp(again, bytes, length) == 0);
}

static void frame_hello(const uint8_t *bytes, size_t length)
{
	unsigned char again[ORI_HELLO_LENGTH];
	struct ori_hello hello;

	if (!ori_hello_parse(bytes, length, &hello))
		return;
	FUZZ_CHECK(length == ORI_HELLO_LENGTH && hello.purpose <= ORI_PURPOSE_MESSAGE);
	ori_hello_encode(&hello, again);
	FUZZ_CHECK(memcmp(again, bytes, length) == 0);
}

static void frame_failure(const uint8_t *bytes, size_t length)
{
	unsigned char again[ORI_FAILURE_LENGTH];
	struct ori_failure failure, back;
	size_t i, text, count;

	if (!ori_failure_parse(bytes, length, &failure))
		return;
	FUZZ_CHECK(length >= ORI_FAILURE_HEADER && length <= ORI_FAILURE_LENGTH);
	FUZZ_CHECK(failure.status < 0 && failure.status >= ORIEL_ERR_FORKED);
	text = strnlen((const char *)bytes + ORI_FAILURE_HEADER, length - ORI_FAILURE_HEADER);
	FUZZ_CHECK(strlen(failure.text) == text);
	for (i = 0; i < text; i++)
		FUZZ_CHECK(failure.text[i] >= ' ' && failure.text[i] <= '~');
	count = ori_failure_encode(&failure, again);
	FUZZ_CHECK(count == ORI_FAILURE_HEADER + text &&
		   memcmp(again, bytes, ORI_FAILURE_HEADER) == 0);
	FUZZ_CHECK(ori_failure_parse(again, count, &back) && back.status == failure.status);
	FUZZ_CHECK(strcmp(back.text, failure.text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	frame_header(data, size);
	frame_address(data, size);
	frame_hello(data, size);
	frame_failure(data, size);
	return 0;
}

static size_t frame_seed_failure(enum oriel_status status, uint8_t *bytes)
{
	struct ori_failure failure = {.status = status, .rank = 3};

	memset(failure.text, 'x', status == ORIEL_ERR_FORKED ? ORI_FAILURE_LENGTH - 9 : 20);
	return ori_failure_encode(&failure, bytes);
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct ori_hello hello = {
		.purpose = (enum ori_purpose)(n % 3),
		.rank = n,
		.to = n / 2,
		.size = 64,
		.timeout_ms = 30000,
		.left_ms = 29000,
		.address = {.family = (uint16_t)(n % 2 ? 4 : 6), .port = 29500, .ip = {127}},
		.process = 0x0123456789abcdef,
		.pid = 4711,
		.tag = {n % 5, {4, 5, 6}},
	};
	const struct ori_frame frame = {n, n, 4096 * n};

	if (n == 0) {
		ori_address_encode(&hello.address, bytes);
		return ORI_ADDRESS_LENGTH;
	}
	if (n <= ORI_FRAME_ANSWER) {
		ori_frame_encode(&frame, bytes);
		return ORI_FRAME_HEADER;
	}
	if (n <= ORI_FRAME_ANSWER + 3) {
		ori_hello_encode(&hello, bytes);
		return ORI_HELLO_LENGTH;
	}
	if (n <= ORI_FRAME_ANSWER + 5)
		return frame_seed_failure(n % 2 ? ORIEL_ERR_FORKED : ORIEL_ERR_PEER, bytes);
	return 0;
}
