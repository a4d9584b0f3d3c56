/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection that carries frames. No function blocks: ORIEL_AGAIN means poll() first.
 * ORIEL_ERR_PEER means that the connection is closed. No function sets the last error: only the
 * caller knows which rank the peer is. Handshakes, the tree and messages call it.
 */
#ifndef ORI_BOOTSTRAP_LINK_H
#define ORI_BOOTSTRAP_LINK_H

#include "bootstrap/frame.h"

/* The traffic that one rank has sent. */
struct ori_traffic {
	uint64_t frames;
	uint64_t bytes;
};

struct ori_link {
	int fd; /* -1: closed */
	unsigned rank;
	bool is_mid_frame; /* a part of a frame is written, the rest is not */
	struct ori_traffic *traffic;
	size_t start, end; /* of the received bytes that no call has read yet */
	unsigned char received[4096];
};

/* Takes over @fd, which is non-blocking. */
void ori_link_open(struct ori_link *link, int fd, struct ori_traffic *traffic);
void ori_link_close(struct ori_link *link);

/* Parse the header of the next frame, which stays in the buffer. */
enum oriel_status ori_link_peek(struct ori_link *link, struct ori_frame *frame);
/* Consume the header that ori_link_peek() has returned. */
void ori_link_skip(struct ori_link *link);
/* Continue to read a body at *@done; ORIEL_OK once *@done is @length. */
enum oriel_status ori_link_read(struct ori_link *link, void *data, size_t length, size_t *done);

/*
 * Read a whole frame with a body of at most @most bytes; ORIEL_AGAIN until all of it has
 * arrived, ORIEL_ERR_PROTOCOL if it is longer. @most is less than the buffer of a link.
 */
enum oriel_status ori_link_take(struct ori_link *link, struct ori_frame *frame, void *body,
				size_t most);

/* Has the peer closed its side? All that it sent has arrived then, read or not. */
bool ori_link_is_ending(const struct ori_link *link);
/*
 * On a link that is ending: skip all frames before a FAILURE, which stays in the buffer.
 * ORIEL_ERR_PEER if there is none.
 */
enum oriel_status ori_link_seek_failure(struct ori_link *link);

/* Continue to write a frame at *@done, which counts the header, too. ORIEL_OK once it is sent. */
enum oriel_status ori_link_write(struct ori_link *link, const struct ori_frame *frame,
				 const void *body, size_t *done);

/*
 * Send a small frame at once, or give it up (ORIEL_ERR_PEER): a full socket buffer means that the
 * peer does not read. No frame follows a FAILURE.
 */
enum oriel_status ori_link_send(struct ori_link *link, enum ori_frame_type type, const void *body,
				size_t length);

#endif
