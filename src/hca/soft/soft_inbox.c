/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives frames from one connection and delivers them to the engine. Links call
 * it when epoll reports bytes.
 */
#include "hca/soft/soft_inbox.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/memory_probe.h"
#include "hca/soft/soft_link.h"
#include "hca/soft/soft_wire.h"

#define INBOX_TURN (1u << 21) /* bytes taken before others get their turn */

bool ori_soft_inbox_open(struct soft_inbox *in, struct soft_engine *e, struct ori_net_conn *net)
{
	*in = (struct soft_inbox){
		.engine = e,
		.net = net,
		.buffer = malloc(SOFT_AHEAD),
		.scratch = malloc((size_t)SOFT_RUN * SOFT_PAGE),
	};
	return in->buffer && in->scratch;
}

void ori_soft_inbox_close(struct soft_inbox *in)
{
	free(in->buffer);
	free(in->scratch);
}

/* A payload that has no better place goes to the scratch buffer. */
static void inbox_aim(struct soft_inbox *in)
{
	in->left = in->header.length;
	in->mr = NULL;
	in->target = in->scratch;
}

/* A connection is useless if the one of the other direction has been lost. */
static bool inbox_claim(struct soft_inbox *in)
{
	const struct soft_link *out = soft_link_find(in->engine, in->claimed);

	in->cookie = in->claimed;
	return !out || !soft_link_is_lost(out);
}

/* A header is complete: choose where its payload goes. NULL, or what is wrong. */
static const char *inbox_begin(struct soft_inbox *in)
{
	const char *flaw;

	in->has_header = true;
	flaw = ori_soft_header_flaw(&in->header);
	if (flaw) {
		ori_log(ORIEL_LOG_WARN, "software HCA: a peer sent %s", flaw);
		return flaw;
	}
	if (!in->cookie && !inbox_claim(in))
		return "the connection to the peer is lost";
	inbox_aim(in);
	in->is_missed = false;
	in->target = ori_soft_frame_target(in->engine, in->cookie, &in->header, &in->mr);
	if (!in->target)
		inbox_aim(in);
	return NULL;
}

static void inbox_finish(struct soft_inbox *in)
{
	in->has_header = false;
	in->mr = NULL;
	ori_soft_frame_deliver(in->engine, in->cookie, &in->header,
			       in->is_missed ? NULL : in->target - in->header.length);
}

/* Discard the rest of a payload. */
static void inbox_divert(struct soft_inbox *in)
{
	in->mr = NULL;
	in->target = in->scratch + (in->header.length - in->left);
}

/* As a NIC does: a thread that polls an aligned word of 8 bytes sees all of it or nothing. */
static void inbox_copy(char *target, const char *from, size_t length)
{
	uint64_t word;

	if (length != sizeof(word) || (uintptr_t)target % sizeof(word)) {
		memcpy(target, from, length);
		return;
	}
	memcpy(&word, from, sizeof(word));
	atomic_store_explicit((_Atomic(uint64_t) *)(void *)target, word, memory_order_release);
}

/*
 * Store bytes of the buffer. Without TLS they are the first ones of a payload, whose target has
 * been probed just now.
 */
static void inbox_store(struct soft_inbox *in, size_t length)
{
	const char *from = in->buffer + in->start;

	if (in->mr && in->net->tls && !ori_probe_write(in->target, from, length)) {
		inbox_divert(in);
		in->is_missed = true;
	}
	if (!in->mr || !in->net->tls)
		inbox_copy(in->target, from, length);
	in->start += length;
	in->target += length;
	in->left -= length;
}

/* Consume the bytes of the buffer; NULL, or what is wrong with them. */
static const char *inbox_digest(struct soft_inbox *in)
{
	const char *flaw;

	for (;;) {
		size_t have = in->end - in->start;

		if (!in->has_header) {
			if (have < sizeof(in->header))
				return NULL;
			memcpy(&in->header, in->buffer + in->start, sizeof(in->header));
			in->start += sizeof(in->header);
			flaw = inbox_begin(in);
			if (flaw)
				return flaw;
			continue;
		}
		if (have > in->left)
			have = in->left;
		inbox_store(in, have);
		if (in->left)
			return NULL;
		inbox_finish(in);
	}
}

/* The bytes of TLS go into the buffer; as readv(). */
static ssize_t inbox_read_tls(struct soft_inbox *in)
{
	size_t got = 0;

	switch (ori_net_stream_read(in->net, in->buffer + in->end, SOFT_AHEAD - in->end, &got)) {
	case ORIEL_OK:
		in->end += got;
		return (ssize_t)got;
	case ORIEL_AGAIN:
		errno = EAGAIN;
		return -1;
	default:
		return 0;
	}
}

/* The rest of a payload goes to its target, the bytes after it into the buffer. */
static ssize_t inbox_read(struct soft_inbox *in)
{
	size_t rest = in->end - in->start;
	struct iovec parts[2];
	size_t direct = in->has_header ? in->left : 0;
	ssize_t n;

	/* A QP that has failed meanwhile writes no memory. */
	if (in->mr && !ori_soft_frame_is_awaited(in->engine, in->cookie, &in->header))
		inbox_divert(in);
	memmove(in->buffer, in->buffer + in->start, rest);
	in->start = 0;
	in->end = rest;
	if (in->net->tls)
		return inbox_read_tls(in);
	parts[0] = (struct iovec){.iov_base = in->target, .iov_len = direct};
	parts[1] = (struct iovec){.iov_base = in->buffer + rest, .iov_len = SOFT_AHEAD - rest};
	n = readv(in->net->fd, direct ? parts : parts + 1, direct ? 2 : 1);
	if (n <= 0)
		return n;
	if ((size_t)n < direct)
		direct = (size_t)n;
	if (in->has_header) {
		in->target += direct;
		in->left -= direct;
	}
	in->end += (size_t)n - direct;
	return n;
}

/* Take the bytes that have arrived, up to INBOX_TURN, so that other links get their turn. */
const char *ori_soft_inbox_take(struct soft_inbox *in)
{
	const char *flaw;
	size_t taken = 0;

	in->is_unread = false;
	while (taken < INBOX_TURN) {
		ssize_t n = inbox_read(in);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return NULL;
		if (n < 0 && errno == EFAULT && in->mr) {
			inbox_divert(in);
			in->is_missed = true;
			continue;
		}
		in->is_closed = n <= 0;
		if (in->is_closed)
			return in->net->doubt ? "the connection has bytes that were altered on "
						"the way"
					      : "the peer closed the connection";
		taken += (size_t)n;
		if (in->has_header && !in->left)
			inbox_finish(in);
		flaw = inbox_digest(in);
		if (flaw)
			return flaw;
		/* The socket had no more: another read would cost as much as this one. */
		if (in->net->tls ? !ori_net_stream_holds(in->net) : (size_t)n < SOFT_AHEAD)
			return NULL;
	}
	in->is_unread = in->net->tls != NULL;
	in->engine->is_unread |= in->is_unread;
	return NULL;
}

void ori_soft_inbox_forget(struct soft_inbox *in, const struct soft_mr *mr)
{
	if (in->mr == mr)
		inbox_divert(in);
}
