/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection that carries frames. Nothing here blocks: ORIEL_AGAIN means
 * poll() first. ORIEL_ERR_PEER means that the connection is closed. Statuses
 * come without a text: only the caller knows who is at the other end.
 */
#ifndef ORI_BOOTSTRAP_LINK_H
#define ORI_BOOTSTRAP_LINK_H

#include "bootstrap/frame.h"

/* What one rank has sent. */
struct ori_traffic {
	uint64_t frames;
	uint64_t bytes;
};

struct ori_link {
	int fd; /* -1: closed */
	unsigned rank;
	bool is_mid_frame; /* a part of a frame is written, the rest is not */
	struct ori_traffic *traffic;
	size_t start, end; /* of what was received and not yet taken */
	unsigned char received[4096];
};

/* Takes @fd, which is non-blocking. */
void ori_link_open(struct ori_link *link, int fd, struct ori_traffic *traffic);
void ori_link_close(struct ori_link *link);

/* The header of the next frame, which stays. */
enum oriel_status ori_link_peek(struct ori_link *link, struct ori_frame *frame);
/* Past the header that ori_link_peek() has shown. */
void ori_link_skip(struct ori_link *link);
/* On with the body; ORIEL_OK once *done is @length. */
enum oriel_status ori_link_read(struct ori_link *link, void *data, size_t length, size_t *done);

/*
 * The whole frame if its body is here, at most @most bytes long; a longer one
 * is ORIEL_ERR_PROTOCOL. @most is less than the buffer of a link.
 */
enum oriel_status ori_link_take(struct ori_link *link, struct ori_frame *frame, void *body,
				size_t most);

/* Has the other end said all that it will say? It is here then, taken or not. */
bool ori_link_is_ending(const struct ori_link *link);
/*
 * Of a link that is ending: past all frames before a FAILURE, which stays.
 * ORIEL_ERR_PEER if there is none.
 */
enum oriel_status ori_link_seek_failure(struct ori_link *link);

/* On with a frame; *done counts the header too. ORIEL_OK once all is written. */
enum oriel_status ori_link_write(struct ori_link *link, const struct ori_frame *frame,
				 const void *body, size_t *done);

/* A small frame, now or (ORIEL_ERR_PEER) never; nothing follows a FAILURE. */
enum oriel_status ori_link_send(struct ori_link *link, enum ori_frame_type type, const void *body,
				size_t length);

#endif
