/* SPDX-License-Identifier: Apache-2.0 */
#include "hca/soft_outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

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
}

void ori_soft_outbox_close(struct soft_outbox *out)
{
	ori_soft_outbox_clear(out);
	free(out->frames);
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

int ori_soft_outbox_write(struct soft_outbox *out, int fd)
{
	struct iovec parts[2 * SOFT_OUTBOX];
	struct msghdr msg = {.msg_iov = parts};
	int is_any = 0;

	while (out->count > 0 && !out->is_full) {
		ssize_t n;

		msg.msg_iovlen = (size_t)outbox_gather(out, parts);
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
		if (n > 0) {
			outbox_advance(out, (size_t)n);
			is_any = 1;
		} else if (errno == EAGAIN) {
			out->is_full = true;
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return is_any;
}

bool ori_soft_outbox_detach(struct soft_outbox *out, const struct soft_mr *mr)
{
	for (unsigned i = 0; i < out->count; i++) {
		struct soft_frame *f = &out->frames[i];

		if (f->mr != mr)
			continue;
		f->copy = malloc(f->h.length);
		if (!f->copy)
			return false;
		memcpy(f->copy, f->payload, f->h.length);
		f->payload = f->copy;
		f->mr = NULL;
	}
	return true;
}
