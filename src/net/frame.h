/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a frame, which every connection of this module carries, and little-endian numbers
 * for the bodies. Parsing has no side effects. conn.c and the owners of bodies call it.
 */
#ifndef ORI_NET_FRAME_H
#define ORI_NET_FRAME_H

#include <stdint.h>

#include <oriel/status.h>

#define ORI_FRAME_HEADER 20
#define ORI_FRAME_VERSION 4
/*
 * In place of a hello, and empty: "which key has the job?" An acceptor whose key is sealed answers
 * with the same type and the text of the credential, and closes (conn.c).
 */
#define ORI_FRAME_SEALED_KEY 0xffffu

/* A body of length bytes follows. */
struct ori_frame {
	unsigned type; /* 1 .. 65535; the owner of the connection says which */
	uint32_t tag;
	uint64_t length;
};

void ori_frame_encode(const struct ori_frame *frame, unsigned char bytes[ORI_FRAME_HEADER]);
/* ORIEL_ERR_PROTOCOL, or ORIEL_ERR_VERSION if only the version differs. */
enum oriel_status ori_frame_parse(const unsigned char bytes[ORI_FRAME_HEADER],
				  struct ori_frame *frame);

static inline void ori_store16(unsigned char *p, uint16_t v)
{
	p[0] = (unsigned char)v;
	p[1] = (unsigned char)(v >> 8);
}

static inline void ori_store32(unsigned char *p, uint32_t v)
{
	ori_store16(p, (uint16_t)v);
	ori_store16(p + 2, (uint16_t)(v >> 16));
}

static inline void ori_store64(unsigned char *p, uint64_t v)
{
	ori_store32(p, (uint32_t)v);
	ori_store32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t ori_load16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t ori_load32(const unsigned char *p)
{
	return ori_load16(p) | (uint32_t)ori_load16(p + 2) << 16;
}

static inline uint64_t ori_load64(const unsigned char *p)
{
	return ori_load32(p) | (uint64_t)ori_load32(p + 4) << 32;
}

#endif
