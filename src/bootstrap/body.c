/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and parses the bodies of the bootstrap's frames; docs/wire.md has them byte by byte. All
 * other files of the bootstrap call it. The input may come from any process, so every field is
 * checked.
 */
#include "bootstrap/body.h"

#include <string.h>

#include "base/error.h"

void ori_address_encode(const struct ori_address *address, unsigned char bytes[ORI_ADDRESS_LENGTH])
{
	ori_store16(bytes, address->family);
	ori_store16(bytes + 2, address->port);
	memcpy(bytes + 4, address->ip, sizeof(address->ip));
}

bool ori_address_parse(const unsigned char *bytes, size_t length, struct ori_address *address)
{
	uint16_t family;

	if (length != ORI_ADDRESS_LENGTH)
		return false;
	family = ori_load16(bytes);
	if (family != 0 && family != 4 && family != 6 && family != ORI_ADDRESS_UNIX)
		return false;
	address->family = family;
	address->port = ori_load16(bytes + 2);
	memcpy(address->ip, bytes + 4, sizeof(address->ip));
	return true;
}

void ori_hello_encode(const struct ori_hello *hello, unsigned char bytes[ORI_HELLO_LENGTH])
{
	unsigned char *p = bytes;

	ori_store32(p, hello->purpose);
	ori_store32(p + 4, hello->rank);
	ori_store32(p + 8, hello->to);
	ori_store32(p + 12, hello->size);
	ori_store32(p + 16, hello->timeout_ms);
	ori_store32(p + 20, hello->left_ms);
	ori_address_encode(&hello->address, p + 24);
	p += 24 + ORI_ADDRESS_LENGTH;
	ori_store64(p, hello->process);
	ori_store32(p + 8, hello->pid);
	ori_store32(p + 12, hello->tag.kind);
	memcpy(p + 16, hello->tag.bytes, ORI_TAG_LENGTH);
}

bool ori_hello_parse(const unsigned char *bytes, size_t length, struct ori_hello *hello)
{
	const unsigned char *p = bytes;

	if (length != ORI_HELLO_LENGTH || ori_load32(p) > ORI_PURPOSE_MESSAGE)
		return false;
	hello->purpose = (enum ori_purpose)ori_load32(p);
	hello->rank = ori_load32(p + 4);
	hello->to = ori_load32(p + 8);
	hello->size = ori_load32(p + 12);
	hello->timeout_ms = ori_load32(p + 16);
	hello->left_ms = ori_load32(p + 20);
	if (!ori_address_parse(p + 24, ORI_ADDRESS_LENGTH, &hello->address))
		return false;
	p += 24 + ORI_ADDRESS_LENGTH;
	hello->process = ori_load64(p);
	hello->pid = ori_load32(p + 8);
	hello->tag.kind = ori_load32(p + 12);
	memcpy(hello->tag.bytes, p + 16, ORI_TAG_LENGTH);
	return true;
}

size_t ori_failure_encode(const struct ori_failure *failure,
			  unsigned char bytes[ORI_FAILURE_LENGTH])
{
	size_t length = strnlen(failure->text, ORI_FAILURE_LENGTH - ORI_FAILURE_HEADER);

	ori_store32(bytes, (uint32_t)-failure->status);
	ori_store32(bytes + 4, failure->rank);
	memcpy(bytes + ORI_FAILURE_HEADER, failure->text, length);
	return ORI_FAILURE_HEADER + length;
}

bool ori_failure_parse(const unsigned char *bytes, size_t length, struct ori_failure *failure)
{
	uint32_t code;

	if (length < ORI_FAILURE_HEADER || length > ORI_FAILURE_LENGTH)
		return false;
	code = ori_load32(bytes);
	if (!ori_status_is_failure(-(int64_t)code))
		return false;
	failure->status = (enum oriel_status) - (int)code;
	failure->rank = ori_load32(bytes + 4);
	bytes += ORI_FAILURE_HEADER;
	length -= ORI_FAILURE_HEADER;
	memcpy(failure->text, bytes, length);
	ori_error_clean(failure->text, length + 1);
	return true;
}

void ori_failure_send(const struct ori_failure *failure, struct ori_net_conn *conn)
{
	unsigned char body[ORI_FAILURE_LENGTH];

	ori_net_send_last(conn, ORI_FRAME_FAILURE, body, ori_failure_encode(failure, body));
}
