/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and parses the frames of run_wire.h, and buffers their bytes. */
#include "run_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WIRE_READ (64u << 10)

void run_wire_open(struct run_wire *wire, int in, int out)
{
	*wire = (struct run_wire){.in = in, .out = out};
}

void run_wire_close(struct run_wire *wire)
{
	run_bytes_free(&wire->received);
	run_bytes_free(&wire->waiting);
	wire->in = wire->out = -1;
}

/* Make room for @length more bytes. */
static bool bytes_grow(struct run_bytes *bytes, size_t length)
{
	size_t wanted = bytes->room ? bytes->room : WIRE_READ;
	unsigned char *grown;

	if (bytes->is_broken)
		return false;
	if (bytes->start > 0 && bytes->start + bytes->length + length > bytes->room) {
		memmove(bytes->bytes, bytes->bytes + bytes->start, bytes->length);
		bytes->start = 0;
	}
	while (wanted < bytes->length + length)
		wanted *= 2;
	if (wanted == bytes->room)
		return true;
	grown = realloc(bytes->bytes, wanted);
	if (!grown) {
		bytes->is_broken = true;
		return false;
	}
	bytes->bytes = grown;
	bytes->room = wanted;
	return true;
}

void run_bytes_add(struct run_bytes *bytes, const void *from, size_t length)
{
	if (length == 0 || !bytes_grow(bytes, length))
		return;
	memcpy(bytes->bytes + bytes->start + bytes->length, from, length);
	bytes->length += length;
}

void run_bytes_add_number(struct run_bytes *bytes, uint32_t number)
{
	const unsigned char encoded[4] = {(unsigned char)number, (unsigned char)(number >> 8),
					  (unsigned char)(number >> 16),
					  (unsigned char)(number >> 24)};

	run_bytes_add(bytes, encoded, sizeof(encoded));
}

void run_bytes_skip(struct run_bytes *bytes, size_t length)
{
	bytes->start += length;
	bytes->length -= length;
	if (bytes->length == 0)
		bytes->start = 0;
}

/* Keys may have been among them. */
void run_bytes_free(struct run_bytes *bytes)
{
	if (bytes->bytes)
		explicit_bzero(bytes->bytes, bytes->room);
	free(bytes->bytes);
	*bytes = (struct run_bytes){0};
}

uint32_t run_number(const unsigned char bytes[4])
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

bool run_frame_numbers(const struct run_frame *frame, uint32_t *numbers, unsigned count)
{
	unsigned i;

	if (frame->length != 4 * (size_t)count)
		return false;
	for (i = 0; i < count; i++)
		numbers[i] = run_number(frame->body + 4 * (size_t)i);
	return true;
}

void run_wire_send(struct run_wire *wire, enum run_frame_type type, unsigned rank, const void *body,
		   size_t length)
{
	if (wire->out < 0)
		return;
	run_bytes_add_number(&wire->waiting, (uint32_t)type);
	run_bytes_add_number(&wire->waiting, rank);
	run_bytes_add_number(&wire->waiting, (uint32_t)length);
	run_bytes_add(&wire->waiting, body, length);
	/* A failure shows at the next flush, too. */
	(void)run_wire_flush(wire);
}

void run_wire_send_number(struct run_wire *wire, enum run_frame_type type, uint32_t number)
{
	const unsigned char encoded[4] = {(unsigned char)number, (unsigned char)(number >> 8),
					  (unsigned char)(number >> 16),
					  (unsigned char)(number >> 24)};

	run_wire_send(wire, type, 0, encoded, sizeof(encoded));
}

bool run_wire_flush(struct run_wire *wire)
{
	struct run_bytes *waiting = &wire->waiting;
	ssize_t done;

	if (waiting->is_broken) {
		errno = ENOMEM;
		return false;
	}
	while (wire->out >= 0 && waiting->length > 0) {
		done = write(wire->out, waiting->bytes + waiting->start, waiting->length);
		if (done < 0)
			return errno == EINTR || errno == EAGAIN;
		run_bytes_skip(waiting, (size_t)done);
	}
	return true;
}

long run_wire_fill(struct run_wire *wire)
{
	struct run_bytes *received = &wire->received;
	ssize_t got;

	if (!bytes_grow(received, WIRE_READ)) {
		errno = ENOMEM;
		return -1;
	}
	got = read(wire->in, received->bytes + received->start + received->length, WIRE_READ);
	if (got > 0)
		received->length += (size_t)got;
	return (long)got;
}

enum run_wire_next run_wire_next(struct run_wire *wire, struct run_frame *frame)
{
	struct run_bytes *received = &wire->received;
	const unsigned char *at = received->bytes + received->start;
	uint32_t type, length;

	if (received->length < RUN_WIRE_HEADER)
		return RUN_WIRE_MORE;
	type = run_number(at);
	length = run_number(at + 8);
	if (type == 0 || type >= RUN_FRAME_TYPES || length > RUN_WIRE_BODY)
		return RUN_WIRE_MALFORMED;
	if (received->length < RUN_WIRE_HEADER + length)
		return RUN_WIRE_MORE;
	*frame = (struct run_frame){.type = (enum run_frame_type)type,
				    .rank = run_number(at + 4),
				    .length = length,
				    .body = at + RUN_WIRE_HEADER};
	/* The body stays where it is until the next bytes are added. */
	run_bytes_skip(received, RUN_WIRE_HEADER + length);
	return RUN_WIRE_FRAME;
}
