/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a non-blocking TCP socket. Handshakes, the tree and messages call it; they poll()
 * when it returns ORIEL_AGAIN.
 */
#include "bootstrap/link.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void ori_link_open(struct ori_link *link, int fd, struct ori_traffic *traffic)
{
	link->fd = fd;
	link->rank = 0;
	link->is_mid_frame = false;
	link->traffic = traffic;
	link->start = link->end = 0;
}

void ori_link_close(struct ori_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

static enum oriel_status link_recv(struct ori_link *link, void *data, size_t length, size_t *got)
{
	ssize_t n;

	if (link->fd < 0)
		return ORIEL_ERR_PEER;
	do
		n = recv(link->fd, data, length, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return ORIEL_AGAIN;
	if (n <= 0)
		return ORIEL_ERR_PEER;
	*got = (size_t)n;
	return ORIEL_OK;
}

/* Receive until the buffer has @least bytes. ORIEL_AGAIN: they have not arrived yet. */
static enum oriel_status link_fill(struct ori_link *link, size_t least)
{
	enum oriel_status status;
	size_t got;

	if (link->start == link->end)
		link->start = link->end = 0;
	if (link->start + least > sizeof(link->received)) {
		memmove(link->received, link->received + link->start, link->end - link->start);
		link->end -= link->start;
		link->start = 0;
	}
	while (link->end - link->start < least) {
		status = link_recv(link, link->received + link->end,
				   sizeof(link->received) - link->end, &got);
		if (status != ORIEL_OK)
			return status;
		link->end += got;
	}
	return ORIEL_OK;
}

enum oriel_status ori_link_peek(struct ori_link *link, struct ori_frame *frame)
{
	enum oriel_status status = link_fill(link, ORI_FRAME_HEADER);

	return status == ORIEL_OK ? ori_frame_parse(link->received + link->start, frame) : status;
}

void ori_link_skip(struct ori_link *link)
{
	assert(link->end - link->start >= ORI_FRAME_HEADER);
	link->start += ORI_FRAME_HEADER;
}

enum oriel_status ori_link_read(struct ori_link *link, void *data, size_t length, size_t *done)
{
	size_t have = link->end - link->start, got;
	enum oriel_status status;

	if (have > length - *done)
		have = length - *done;
	if (have) {
		memcpy((char *)data + *done, link->received + link->start, have);
		link->start += have;
		*done += have;
	}
	while (*done < length) {
		status = link_recv(link, (char *)data + *done, length - *done, &got);
		if (status != ORIEL_OK)
			return status;
		*done += got;
	}
	return ORIEL_OK;
}

enum oriel_status ori_link_take(struct ori_link *link, struct ori_frame *frame, void *body,
				size_t most)
{
	enum oriel_status status = ori_link_peek(link, frame);
	size_t done = 0;

	assert(most + ORI_FRAME_HEADER <= sizeof(link->received));
	if (status != ORIEL_OK)
		return status;
	if (frame->length > most)
		return ORIEL_ERR_PROTOCOL;
	status = link_fill(link, ORI_FRAME_HEADER + frame->length);
	if (status != ORIEL_OK)
		return status;
	ori_link_skip(link);
	return ori_link_read(link, body, frame->length, &done);
}

bool ori_link_is_ending(const struct ori_link *link)
{
	struct pollfd polled = {.fd = link->fd, .events = POLLRDHUP};

	return poll(&polled, 1, 0) > 0;
}

enum oriel_status ori_link_seek_failure(struct ori_link *link)
{
	unsigned char rest[4096];
	enum oriel_status status;
	struct ori_frame frame;
	size_t part, done;

	for (;;) {
		status = ori_link_peek(link, &frame);
		if (status == ORIEL_AGAIN)
			return ORIEL_ERR_PEER;
		if (status != ORIEL_OK || frame.type == ORI_FRAME_FAILURE)
			return status;
		ori_link_skip(link);
		for (; frame.length; frame.length -= part) {
			part = frame.length < sizeof(rest) ? (size_t)frame.length : sizeof(rest);
			done = 0;
			if (ori_link_read(link, rest, part, &done) != ORIEL_OK)
				return ORIEL_ERR_PEER;
		}
	}
}

enum oriel_status ori_link_write(struct ori_link *link, const struct ori_frame *frame,
				 const void *body, size_t *done)
{
	unsigned char header[ORI_FRAME_HEADER];
	size_t total = ORI_FRAME_HEADER + frame->length, into;
	struct iovec parts[2];
	struct msghdr message = {.msg_iov = parts};
	ssize_t n;

	ori_frame_encode(frame, header);
	while (*done < total) {
		message.msg_iovlen = 0;
		if (*done < ORI_FRAME_HEADER)
			parts[message.msg_iovlen++] =
				(struct iovec){header + *done, ORI_FRAME_HEADER - *done};
		into = *done < ORI_FRAME_HEADER ? 0 : *done - ORI_FRAME_HEADER;
		if (into < frame->length)
			parts[message.msg_iovlen++] = (struct iovec){(char *)(uintptr_t)body + into,
								     frame->length - into};
		n = link->fd < 0 ? -1 : sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && link->fd >= 0 && errno == EINTR)
			continue;
		if (n < 0 && link->fd >= 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return ORIEL_AGAIN;
		if (n <= 0)
			return ORIEL_ERR_PEER;
		*done += (size_t)n;
		link->is_mid_frame = *done < total;
		link->traffic->bytes += (size_t)n;
	}
	link->traffic->frames++;
	return ORIEL_OK;
}

enum oriel_status ori_link_send(struct ori_link *link, enum ori_frame_type type, const void *body,
				size_t length)
{
	const struct ori_frame frame = {.type = type, .length = length};
	size_t done = 0;

	if (link->is_mid_frame || ori_link_write(link, &frame, body, &done) != ORIEL_OK)
		return ORIEL_ERR_PEER;
	/* The end of the stream is visible to poll() even behind frames that the peer leaves. */
	if (type == ORI_FRAME_FAILURE)
		shutdown(link->fd, SHUT_WR);
	return ORIEL_OK;
}
