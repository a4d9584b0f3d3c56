/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and parses the header of a frame; docs/wire.md has it byte by byte. conn.c calls it.
 * The input may come from any process.
 */
#include "net/frame.h"

#define FRAME_MAGIC 0x424c524fu /* "ORLB" */

void ori_frame_encode(const struct ori_frame *frame, unsigned char bytes[ORI_FRAME_HEADER])
{
	ori_store32(bytes, FRAME_MAGIC);
	ori_store16(bytes + 4, ORI_FRAME_VERSION);
	ori_store16(bytes + 6, (uint16_t)frame->type);
	ori_store32(bytes + 8, frame->tag);
	ori_store64(bytes + 12, frame->length);
}

enum oriel_status ori_frame_parse(const unsigned char bytes[ORI_FRAME_HEADER],
				  struct ori_frame *frame)
{
	if (ori_load32(bytes) != FRAME_MAGIC)
		return ORIEL_ERR_PROTOCOL;
	if (ori_load16(bytes + 4) != ORI_FRAME_VERSION)
		return ORIEL_ERR_VERSION;
	if (ori_load16(bytes + 6) == 0)
		return ORIEL_ERR_PROTOCOL;
	frame->type = ori_load16(bytes + 6);
	frame->tag = ori_load32(bytes + 8);
	frame->length = ori_load64(bytes + 12);
	return ORIEL_OK;
}
