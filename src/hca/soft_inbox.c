/* SPDX-License-Identifier: Apache-2.0 */
#include "hca/soft_inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"

#define INBOX_BUFFER 16384u   /* bytes read ahead */
#define INBOX_TURN (1u << 21) /* bytes taken before others get their turn */

bool ori_soft_inbox_open(struct soft_inbox *in, struct soft_engine *e)
{
	*in = (struct soft_inbox){
		.engine = e,
		.buffer = malloc(INBOX_BUFFER),
		.scratch = malloc((size_t)SOFT_RUN * SOFT_PAGE),
	};
	return in->buffer && in->scratch;
}

void ori_soft_inbox_close(struct soft_inbox *in)
{
	free(in->buffer);
	free(in->scratch);
}

/* The first header: is it meant for this engine? */
static bool inbox_welcome(struct soft_inbox *in)
{
	const struct soft_header *h = &in->header;

	if (h->magic != SOFT_WIRE_MAGIC || h->type != SOFT_HELLO ||
	    h->packets != SOFT_WIRE_VERSION || h->compare != in->engine->address.cookie ||
	    !h->operand || h->length) {
		ori_log(ORIEL_LOG_WARN, "software HCA: turned a stranger away");
		return false;
	}
	in->cookie = h->operand;
	in->has_header = false;
	return true;
}

/* A header is complete: where does its payload go? */
static bool inbox_begin(struct soft_inbox *in)
{
	const char *flaw;

	in->has_header = true;
	if (!in->cookie)
		return inbox_welcome(in);
	flaw = ori_soft_header_flaw(&in->header);
	if (flaw || in->header.type == SOFT_HELLO) {
		ori_log(ORIEL_LOG_WARN, "software HCA: a peer sent %s", flaw ? flaw : "two hellos");
		return false;
	}
	in->left = in->header.length;
	in->mr = NULL;
	in->target = ori_soft_frame_target(in->engine, in->cookie, &in->header, &in->mr);
	if (!in->target) {
		in->mr = NULL;
		in->target = in->scratch;
	}
	return true;
}

static void inbox_finish(struct soft_inbox *in)
{
	in->has_header = false;
	in->mr = NULL;
	ori_soft_frame_deliver(in->engine, in->cookie, &in->header, in->target - in->header.length);
}

/* Use up what is in the buffer; false if it makes no sense. */
static bool inbox_digest(struct soft_inbox *in)
{
	for (;;) {
		size_t have = in->end - in->start;

		if (!in->has_header) {
			if (have < sizeof(in->header))
				return true;
			memcpy(&in->header, in->buffer + in->start, sizeof(in->header));
			in->start += sizeof(in->header);
			if (!inbox_begin(in))
				return false;
			continue;
		}
		if (have > in->left)
			have = in->left;
		memcpy(in->target, in->buffer + in->start, have);
		in->start += have;
		in->target += have;
		in->left -= have;
		if (in->left)
			return true;
		inbox_finish(in);
	}
}

/* The rest of a payload goes where it belongs, what follows into the buffer. */
static ssize_t inbox_read(struct soft_inbox *in, int fd)
{
	size_t kept = in->end - in->start;
	struct iovec parts[2];
	size_t direct = in->has_header ? in->left : 0;
	ssize_t n;

	memmove(in->buffer, in->buffer + in->start, kept);
	in->start = 0;
	in->end = kept;
	parts[0] = (struct iovec){.iov_base = in->target, .iov_len = direct};
	parts[1] = (struct iovec){.iov_base = in->buffer + kept, .iov_len = INBOX_BUFFER - kept};
	n = readv(fd, direct ? parts : parts + 1, direct ? 2 : 1);
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

/* Take what has come, though not for ever. */
const char *ori_soft_inbox_take(struct soft_inbox *in, int fd)
{
	size_t taken = 0;

	while (taken < INBOX_TURN) {
		ssize_t n = inbox_read(in, fd);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return NULL;
		if (n <= 0)
			return "the peer has closed it";
		taken += (size_t)n;
		if (in->has_header && !in->left)
			inbox_finish(in);
		if (!inbox_digest(in))
			return "its bytes make no sense";
		/* All that was there: asking once more would cost as much as the answer. */
		if ((size_t)n < INBOX_BUFFER)
			return NULL;
	}
	return NULL;
}

/* What is left of a payload is thrown away. */
static void inbox_divert(struct soft_inbox *in)
{
	in->mr = NULL;
	in->target = in->scratch + (in->header.length - in->left);
}

void ori_soft_inbox_forget(struct soft_inbox *in, const struct soft_mr *mr)
{
	if (in->mr == mr)
		inbox_divert(in);
}

void ori_soft_inbox_divert(struct soft_inbox *in, const struct soft_qp *qp)
{
	if (in->mr && in->header.node == qp->node->id && in->header.qpn == qp->qpn)
		inbox_divert(in);
}
