/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the frames of ranks that join. grow_host.c and newcomer.c call it. */
#include "comm/grow_frame.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/tcp.h"

static bool grow_is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

const char *ori_grow_hello_doubt(const struct ori_frame *frame, const struct ori_grow_hello *body)
{
	const char *c;

	if (frame->type != ORI_GROW_HELLO || frame->length != sizeof(*body))
		return "it is no new rank";
	if (body->version != ORI_COMM_WIRE)
		return "it speaks another version";
	if (body->count == 0 || body->count > ORI_TCP_RANKS_MAX || body->reserved ||
	    body->extent > ORI_PART_NETWORK || !grow_is_text(body->hostname, ORI_HOST_NAME))
		return "its hello is malformed";
	for (c = body->hostname; *c; c++)
		if (!isprint((unsigned char)*c))
			return "its hello is malformed";
	return NULL;
}

bool ori_grow_welcome_is_valid(const struct ori_frame *frame, const struct ori_grow_welcome *body,
			       unsigned count)
{
	uint32_t i;

	if (frame->type != ORI_GROW_WELCOME || frame->length != sizeof(*body) ||
	    body->version != ORI_COMM_WIRE || body->size > ORI_TCP_RANKS_MAX || body->first == 0 ||
	    body->first > body->size || body->size - body->first < count ||
	    (body->extent != ORI_PART_MACHINE && body->extent != ORI_PART_NETWORK) ||
	    body->epoch == 0 || body->timeout_ns == 0 || body->key_length > ORI_KEY_MAX)
		return false;
	for (i = body->key_length; i < ORI_KEY_MAX; i++)
		if (body->key[i])
			return false;
	return true;
}

bool ori_grow_done_parse(const struct ori_frame *frame, enum ori_grow_frame type,
			 struct ori_grow_done *body)
{
	if (frame->type != (unsigned)type || frame->length != sizeof(*body) ||
	    (body->status != ORIEL_OK && !ori_status_is_failure(body->status)))
		return false;
	ori_error_clean(body->text, sizeof(body->text));
	return true;
}

void ori_grow_done_fill(struct ori_grow_done *body, enum oriel_status status)
{
	*body = (struct ori_grow_done){.status = status};
	if (status != ORIEL_OK)
		strncpy(body->text, oriel_last_error(), sizeof(body->text) - 1);
}
