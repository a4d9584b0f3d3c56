/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and parses the bootstrap's frames; docs/wire.md has them byte by byte. link.c and the
 * handshake call it. The input may come from any process, so every field is checked.
 */
#include "bootstrap/frame.h"

#include <string.h>

#define FRAME_MAGIC 0x424c524fu /* "ORLB" */

static void frame_put16(unsigned char *p, uint16_t v)
{
	p[0] = (unsigned char)v;
	p[1] = (unsigned char)(v >> 8);
}

static void frame_put32(unsigned char *p, uint32_t v)
{
	frame_put16(p, (uint16_t)v);
	frame_put16(p + 2, (uint16_t)(v >> 16));
}

static void frame_put64(unsigned char *p, uint64_t v)
{
	frame_put32(p, (uint32_t)v);
	frame_put32(p + 4, (uint32_t)(v >> 32));
}

static uint16_t frame_get16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t frame_get32(const unsigned char *p)
{
	return frame_get16(p) | (uint32_t)frame_get16(p + 2) << 16;
}

static uint64_t frame_get64(const unsigned char *p)
{
	return frame_get32(p) | (uint64_t)frame_get32(p + 4) << 32;
}

void ori_frame_encode(const struct ori_frame *frame, unsigned char bytes[ORI_FRAME_HEADER])
{
	frame_put32(bytes, FRAME_MAGIC);
	frame_put16(bytes + 4, ORI_FRAME_VERSION);
	frame_put16(bytes + 6, (uint16_t)frame->type);
	frame_put32(bytes + 8, frame->tag);
	frame_put64(bytes + 12, frame->length);
}

enum oriel_status ori_frame_parse(const unsigned char bytes[ORI_FRAME_HEADER],
				  struct ori_frame *frame)
{
	unsigned type = frame_get16(bytes + 6);

	if (frame_get32(bytes) != FRAME_MAGIC)
		return ORIEL_ERR_PROTOCOL;
	if (frame_get16(bytes + 4) != ORI_FRAME_VERSION)
		return ORIEL_ERR_VERSION;
	if (type < ORI_FRAME_CHALLENGE || type > ORI_FRAME_ANSWER)
		return ORIEL_ERR_PROTOCOL;
	frame->type = (enum ori_frame_type)type;
	frame->tag = frame_get32(bytes + 8);
	frame->length = frame_get64(bytes + 12);
	return ORIEL_OK;
}

void ori_address_encode(const struct ori_address *address, unsigned char bytes[ORI_ADDRESS_LENGTH])
{
	frame_put16(bytes, address->family);
	frame_put16(bytes + 2, address->port);
	memcpy(bytes + 4, address->ip, sizeof(address->ip));
}

bool ori_address_parse(const unsigned char *bytes, size_t length, struct ori_address *address)
{
	uint16_t family;

	if (length != ORI_ADDRESS_LENGTH)
		return false;
	family = frame_get16(bytes);
	if (family != 0 && family != 4 && family != 6)
		return false;
	address->family = family;
	address->port = frame_get16(bytes + 2);
	memcpy(address->ip, bytes + 4, sizeof(address->ip));
	return true;
}

void ori_hello_encode(const struct ori_hello *hello, unsigned char bytes[ORI_HELLO_LENGTH])
{
	unsigned char *p = bytes + ORI_MAC_LENGTH;

	memcpy(bytes, hello->mac, ORI_MAC_LENGTH);
	frame_put32(p, hello->purpose);
	frame_put32(p + 4, hello->rank);
	frame_put32(p + 8, hello->size);
	frame_put32(p + 12, hello->timeout_ms);
	frame_put32(p + 16, hello->left_ms);
	ori_address_encode(&hello->address, p + 20);
	p += 20 + ORI_ADDRESS_LENGTH;
	frame_put64(p, hello->process);
	frame_put32(p + 8, hello->pid);
	frame_put32(p + 12, hello->tag.kind);
	memcpy(p + 16, hello->tag.bytes, ORI_TAG_LENGTH);
}

bool ori_hello_parse(const unsigned char *bytes, size_t length, struct ori_hello *hello)
{
	const unsigned char *p = bytes + ORI_MAC_LENGTH;

	if (length != ORI_HELLO_LENGTH || frame_get32(p) > ORI_PURPOSE_MESSAGE)
		return false;
	memcpy(hello->mac, bytes, ORI_MAC_LENGTH);
	hello->purpose = (enum ori_purpose)frame_get32(p);
	hello->rank = frame_get32(p + 4);
	hello->size = frame_get32(p + 8);
	hello->timeout_ms = frame_get32(p + 12);
	hello->left_ms = frame_get32(p + 16);
	if (!ori_address_parse(p + 20, ORI_ADDRESS_LENGTH, &hello->address))
		return false;
	p += 20 + ORI_ADDRESS_LENGTH;
	hello->process = frame_get64(p);
	hello->pid = frame_get32(p + 8);
	hello->tag.kind = frame_get32(p + 12);
	memcpy(hello->tag.bytes, p + 16, ORI_TAG_LENGTH);
	return true;
}

size_t ori_failure_encode(const struct ori_failure *failure,
			  unsigned char bytes[ORI_FAILURE_LENGTH])
{
	size_t length = strnlen(failure->text, ORI_FAILURE_LENGTH - ORI_FAILURE_HEADER);

	frame_put32(bytes, (uint32_t)-failure->status);
	frame_put32(bytes + 4, failure->rank);
	memcpy(bytes + ORI_FAILURE_HEADER, failure->text, length);
	return ORI_FAILURE_HEADER + length;
}

bool ori_failure_parse(const unsigned char *bytes, size_t length, struct ori_failure *failure)
{
	uint32_t code;
	size_t i;

	if (length < ORI_FAILURE_HEADER || length > ORI_FAILURE_LENGTH)
		return false;
	code = frame_get32(bytes);
	if (code == 0 || code > (uint32_t)-ORIEL_ERR_ACCESS)
		return false;
	failure->status = (enum oriel_status) - (int)code;
	failure->rank = frame_get32(bytes + 4);
	bytes += ORI_FAILURE_HEADER;
	length -= ORI_FAILURE_HEADER;
	for (i = 0; i < length; i++)
		failure->text[i] = bytes[i] >= ' ' ? (char)bytes[i] : '?';
	failure->text[length] = '\0';
	return true;
}
