/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives frames from one socket and delivers them to the engine. Links call
 * it when epoll reports bytes.
 */
#include "hca/soft/soft_inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "hca/soft/soft_link.h"
#include "hca/soft/soft_wire.h"

#define INBOX_TURN (1u << 21) /* bytes taken before others get their turn */

bool ori_soft_inbox_open(struct soft_inbox *in, struct soft_engine *e, int fd, bool is_tcp)
{
	*in = (struct soft_inbox){
		.engine = e,
		.fd = fd,
		.is_tcp = is_tcp,
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

/* Check the first header: is it meant for this engine? */
static const char *inbox_begin_hello(struct soft_inbox *in)
{
	const char *flaw = ori_soft_hello_flaw(in->engine, &in->header);

	if (flaw)
		return flaw;
	if (in->header.length != (in->is_tcp ? sizeof(struct soft_proof) : 0))
		return "its hello does not prove anything";
	inbox_aim(in);
	return NULL;
}

/* accept() has checked the user of the peer of a unix socket. */
static const char *inbox_finish_hello(struct soft_inbox *in)
{
	const char *flaw = NULL;
	struct soft_proof proof;

	if (in->is_tcp) {
		memcpy(&proof, in->scratch, sizeof(proof));
		flaw = ori_soft_greet_accept(&in->auth, in->engine, &in->header, &proof, in->fd);
	} else {
		in->cookie = in->header.operand;
	}
	if (!flaw)
		in->claimed = in->header.operand;
	return flaw;
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
	if (!in->claimed)
		return inbox_begin_hello(in);
	flaw = ori_soft_header_flaw(&in->header);
	if (!flaw && in->header.type == SOFT_HELLO)
		flaw = "a second hello";
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

static const char *inbox_finish(struct soft_inbox *in)
{
	in->has_header = false;
	in->mr = NULL;
	if (!in->claimed)
		return inbox_finish_hello(in);
	ori_soft_frame_deliver(in->engine, in->cookie, &in->header,
			       in->is_missed ? NULL : in->target - in->header.length);
	return NULL;
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
		memcpy(in->target, in->buffer + in->start, have);
		in->start += have;
		in->target += have;
		in->left -= have;
		if (in->left)
			return NULL;
		flaw = inbox_finish(in);
		if (flaw)
			return flaw;
	}
}

/* Discard the rest of a payload. */
static void inbox_divert(struct soft_inbox *in)
{
	in->mr = NULL;
	in->target = in->scratch + (in->header.length - in->left);
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
	parts[0] = (struct iovec){.iov_base = in->target, .iov_len = direct};
	parts[1] = (struct iovec){.iov_base = in->buffer + rest, .iov_len = SOFT_AHEAD - rest};
	n = readv(in->fd, direct ? parts : parts + 1, direct ? 2 : 1);
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
	const char *flaw = NULL;
	size_t taken = 0;

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
			return "the peer closed the connection";
		taken += (size_t)n;
		if (in->has_header && !in->left)
			flaw = inbox_finish(in);
		if (!flaw)
			flaw = inbox_digest(in);
		if (flaw)
			return flaw;
		/* The socket had no more: another read would cost as much as this one. */
		if ((size_t)n < SOFT_AHEAD)
			return NULL;
	}
	return NULL;
}

void ori_soft_inbox_forget(struct soft_inbox *in, const struct soft_mr *mr)
{
	if (in->mr == mr)
		inbox_divert(in);
}
