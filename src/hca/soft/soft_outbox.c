/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends frames over one connection, and takes out those whose memory was unmapped. Outgoing
 * links call it.
 */
#include "hca/soft/soft_outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/memory_probe.h"

bool ori_soft_outbox_open(struct soft_outbox *out)
{
	*out = (struct soft_outbox){.frames = calloc(SOFT_OUTBOX, sizeof(*out->frames))};
	return out->frames != NULL;
}

void ori_soft_outbox_clear(struct soft_outbox *out)
{
	for (unsigned i = 0; i < out->count; i++)
		free(out->frames[i].copy);
	out->count = 0;
	out->written = 0;
	out->staged = 0;
}

void ori_soft_outbox_close(struct soft_outbox *out)
{
	ori_soft_outbox_clear(out);
	free(out->frames);
	free(out->stage);
}

/* Headers and payloads of all frames but the first @skip bytes. */
static int outbox_gather(struct soft_outbox *out, struct iovec *parts)
{
	size_t skip = out->written;
	int count = 0;

	for (unsigned i = 0; i < out->count; i++) {
		struct soft_frame *f = &out->frames[i];
		const void *bases[2] = {&f->h, soft_frame_payload(f)};
		size_t lengths[2] = {sizeof(f->h), f->h.length};

		for (unsigned k = 0; k < 2; k++) {
			size_t lead = skip < lengths[k] ? skip : lengths[k];

			skip -= lead;
			if (lengths[k] == lead)
				continue;
			parts[count++] = (struct iovec){
				.iov_base = (char *)(uintptr_t)bases[k] + lead,
				.iov_len = lengths[k] - lead,
			};
		}
	}
	return count;
}

static void outbox_advance(struct soft_outbox *out, size_t n)
{
	unsigned done = 0;

	out->written += n;
	while (done < out->count) {
		struct soft_frame *f = &out->frames[done];
		size_t length = sizeof(f->h) + f->h.length;

		if (out->written < length)
			break;
		out->written -= length;
		free(f->copy);
		done++;
	}
	out->count -= done;
	memmove(out->frames, out->frames + done, out->count * sizeof(*out->frames));
}

/* Copy what one write of TLS takes into the stage. False: the first of them may not be read. */
static bool outbox_stage(struct soft_outbox *out)
{
	size_t skip = out->written;

	for (unsigned i = 0; i < out->count && out->staged < ORI_TLS_BATCH; i++) {
		const struct soft_frame *f = &out->frames[i];
		size_t before = out->staged;
		const char *bases[2] = {(const char *)&f->h, soft_frame_payload(f)};
		size_t lengths[2] = {sizeof(f->h), f->h.length};

		for (unsigned k = 0; k < 2; k++) {
			size_t lead = skip < lengths[k] ? skip : lengths[k];
			size_t length = lengths[k] - lead, room = ORI_TLS_BATCH - out->staged;
			char *to = out->stage + out->staged;

			skip -= lead;
			if (length > room)
				length = room;
			if (length && k == 1 && f->mr) {
				if (!ori_probe_read(to, bases[k] + lead, length)) {
					out->staged = before; /* without its header, either */
					goto done;
				}
			} else if (length) {
				memcpy(to, bases[k] + lead, length);
			}
			out->staged += length;
		}
	}
done:
	if (out->staged)
		outbox_advance(out, out->staged);
	return out->staged > 0;
}

/* A record that TLS has begun to send keeps its bytes, and no others overtake it. */
static enum soft_written outbox_write_tls(struct soft_outbox *out, struct ori_net_conn *net)
{
	enum soft_written written = SOFT_WRITTEN_NONE;

	if (!out->stage)
		out->stage = malloc(ORI_TLS_BATCH);
	if (!out->stage)
		return SOFT_WRITTEN_LOST;
	while ((out->staged || out->count) && !out->is_full) {
		enum oriel_status status;
		size_t done;

		if (!out->staged && !outbox_stage(out))
			return SOFT_WRITTEN_MISSED;
		status = ori_net_stream_write(net, out->stage, out->staged, &done);
		if (status == ORIEL_OK) {
			out->staged -= done;
			memmove(out->stage, out->stage + done, out->staged);
			written = SOFT_WRITTEN;
		} else if (status == ORIEL_AGAIN) {
			out->is_full = true;
		} else {
			return SOFT_WRITTEN_LOST;
		}
	}
	return written;
}

enum soft_written ori_soft_outbox_write(struct soft_outbox *out, struct ori_net_conn *net)
{
	struct iovec parts[2 * SOFT_OUTBOX];
	struct msghdr msg = {.msg_iov = parts};
	enum soft_written written = SOFT_WRITTEN_NONE;

	if (net->tls)
		return outbox_write_tls(out, net);
	while (out->count > 0 && !out->is_full) {
		ssize_t n;

		msg.msg_iovlen = (size_t)outbox_gather(out, parts);
		n = sendmsg(net->fd, &msg, MSG_NOSIGNAL);
		if (n > 0) {
			outbox_advance(out, (size_t)n);
			written = SOFT_WRITTEN;
		} else if (errno == EAGAIN) {
			out->is_full = true;
		} else if (errno != EINTR) {
			return errno == EFAULT ? SOFT_WRITTEN_MISSED : SOFT_WRITTEN_LOST;
		}
	}
	return written;
}

/* Copy the rest of the payload of frame @i; false if it may not be read. */
static bool outbox_copy(const struct soft_outbox *out, unsigned i)
{
	struct soft_frame *f = &out->frames[i];
	size_t done = i == 0 && out->written > sizeof(f->h) ? out->written - sizeof(f->h) : 0;
	char *copy;

	if (!f->mr)
		return true;
	copy = malloc(f->h.length);
	if (!copy || !ori_probe_read(copy + done, f->payload + done, f->h.length - done)) {
		free(copy);
		return false;
	}
	f->payload = f->copy = copy;
	f->mr = NULL;
	return true;
}

/*
 * The header of the frame has been sent, so the peer waits for its bytes; no
 * notification announces these.
 */
static bool outbox_pad(struct soft_frame *f)
{
	bool is_last = f->h.operand + f->h.length == f->h.total;

	if (f->h.type == SOFT_WRITE_IMM && is_last)
		return false;
	f->copy = calloc(1, f->h.length);
	f->payload = f->copy;
	f->mr = NULL;
	return f->copy;
}

/* Is @h a request, or a reply, of the same queue as @first? */
static bool outbox_follows(const struct soft_header *h, const struct soft_header *first)
{
	bool is_answer = first->type == SOFT_DATA;

	if (h->source_node != first->source_node || h->source_qpn != first->source_qpn)
		return false;
	return is_answer ? h->type == SOFT_DATA || h->type == SOFT_OLD
			 : h->type >= SOFT_WRITE && h->type <= SOFT_MASKED_SWAP;
}

enum soft_written ori_soft_outbox_drop(struct soft_outbox *out, struct soft_header *h)
{
	unsigned first = 0, remaining;

	while (first < out->count && outbox_copy(out, first))
		first++;
	if (first == out->count)
		return SOFT_WRITTEN_NONE;
	*h = out->frames[first].h;
	remaining = first;
	if (first == 0 && out->written > 0 && !outbox_pad(&out->frames[remaining++]))
		return SOFT_WRITTEN_LOST;
	for (unsigned i = remaining; i < out->count; i++) {
		struct soft_frame *f = &out->frames[i];

		if (!outbox_follows(&f->h, h))
			out->frames[remaining++] = *f;
		else
			free(f->copy);
	}
	out->count = remaining;
	return SOFT_WRITTEN;
}

bool ori_soft_outbox_detach(struct soft_outbox *out, const struct soft_mr *mr)
{
	for (unsigned i = 0; i < out->count; i++) {
		struct soft_frame *f = &out->frames[i];

		if (f->mr != mr)
			continue;
		if (!outbox_copy(out, i))
			return false;
	}
	return true;
}
