/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/mail.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/dial.h"
#include "bootstrap/ranks.h"

#define MAIL_ROOM 65536u /* what a header alone may cost */

/* done <= room <= length, and room <= MAIL_ROOM or room <= 2 * done while it arrives */
struct mail_message {
	struct mail_message *next;
	uint32_t tag;
	size_t length, done, room;
	unsigned char *data; /* room bytes */
};

struct ori_mail_box {
	struct ori_link link;         /* closed for messages to oneself */
	struct mail_message *partial; /* still arriving */
	struct mail_message *first, **end;
};

enum oriel_status ori_mail_open(struct ori_mail *mail, struct ori_tree *tree, struct ori_gate *gate,
				struct ori_address *addresses)
{
	mail->tree = tree;
	mail->gate = gate;
	mail->out = calloc(tree->size, sizeof(struct ori_link *));
	mail->in = calloc(tree->size, sizeof(struct ori_mail_box *));
	if (!mail->out || !mail->in)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a job of %u ranks", tree->size);
	mail->addresses = addresses;
	return ORIEL_OK;
}

static void mail_message_free(struct mail_message *message)
{
	if (message)
		free(message->data);
	free(message);
}

static void mail_box_free(struct ori_mail_box *box)
{
	struct mail_message *message;

	if (!box)
		return;
	while ((message = box->first)) {
		box->first = message->next;
		mail_message_free(message);
	}
	mail_message_free(box->partial);
	ori_link_close(&box->link);
	free(box);
}

void ori_mail_close(struct ori_mail *mail)
{
	unsigned i;

	for (i = 0; mail->in && i < mail->tree->size; i++)
		mail_box_free(mail->in[i]);
	for (i = 0; mail->out && i < mail->tree->size; i++) {
		if (mail->out[i])
			ori_link_close(mail->out[i]);
		free(mail->out[i]);
	}
	free(mail->in);
	free(mail->out);
	free(mail->addresses);
	memset(mail, 0, sizeof(*mail));
}

static enum oriel_status mail_no_memory(struct ori_mail *mail, size_t length)
{
	return ori_tree_break(mail->tree, ORIEL_ERR_NOMEM, mail->tree->rank,
			      "rank %u of %u has no memory for a message of %zu bytes",
			      mail->tree->rank, mail->tree->size, length);
}

static struct ori_mail_box *mail_box_new(struct ori_mail *mail, unsigned peer)
{
	struct ori_mail_box *box = calloc(1, sizeof(*box));

	if (!box)
		return NULL;
	ori_link_open(&box->link, -1, mail->gate->traffic);
	box->end = &box->first;
	mail->in[peer] = box;
	return box;
}

static struct mail_message *mail_message_new(uint32_t tag, size_t length)
{
	struct mail_message *message = malloc(sizeof(*message));

	if (message)
		*message = (struct mail_message){.tag = tag, .length = length};
	return message;
}

/* Room for its first @room bytes, or for all if it has less. False: no memory. */
static bool mail_message_grow(struct mail_message *message, size_t room)
{
	unsigned char *data;

	if (room > message->length)
		room = message->length;
	if (room <= message->room)
		return true;
	data = realloc(message->data, room);
	if (!data)
		return false;
	message->data = data;
	message->room = room;
	return true;
}

static void mail_box_add(struct ori_mail_box *box, struct mail_message *message)
{
	*box->end = message;
	box->end = &message->next;
}

static struct mail_message *mail_box_take(struct ori_mail_box *box, uint32_t tag)
{
	struct mail_message **link, *message;

	for (link = &box->first; *link; link = &(*link)->next)
		if ((*link)->tag == tag)
			break;
	message = *link;
	if (!message)
		return NULL;
	*link = message->next;
	if (!*link)
		box->end = link;
	return message;
}

/* Ranks that have come to the gate to send. */
static enum oriel_status mail_fetch(struct ori_mail *mail)
{
	struct ori_mail_box *box;
	struct ori_guest *guest;

	while ((guest = ori_gate_next(mail->gate, ORI_PURPOSE_MAIL))) {
		if (guest->hello.rank >= mail->tree->size || mail->in[guest->hello.rank]) {
			ori_log(ORIEL_LOG_WARN, "a connection from %s is dropped: rank %u again",
				guest->from, guest->hello.rank);
			ori_guest_free(guest);
			continue;
		}
		box = mail_box_new(mail, guest->hello.rank);
		if (!box) {
			ori_guest_free(guest);
			return mail_no_memory(mail, sizeof(*box));
		}
		box->link = guest->link;
		guest->link.fd = -1;
		ori_guest_free(guest);
	}
	return ORIEL_OK;
}

static enum oriel_status mail_begin(struct ori_mail *mail, struct ori_mail_box *box)
{
	enum oriel_status status;
	struct ori_frame frame;

	status = ori_link_peek(&box->link, &frame);
	if (status != ORIEL_OK)
		return status;
	if (frame.type != ORI_FRAME_MESSAGE || frame.length > ORI_MESSAGE_MAX)
		return ORIEL_ERR_PROTOCOL;
	box->partial = mail_message_new(frame.tag, frame.length);
	if (!box->partial)
		return mail_no_memory(mail, frame.length);
	ori_link_skip(&box->link);
	return ORIEL_OK;
}

/*
 * On with a message. Its memory follows what has arrived: the sender has proved
 * that it belongs to the job, not that what its headers say will come.
 */
static enum oriel_status mail_fill(struct ori_mail *mail, struct ori_mail_box *box,
				   struct mail_message *message)
{
	enum oriel_status status = ORIEL_OK;
	size_t room;

	while (status == ORIEL_OK && message->done < message->length) {
		room = message->done < MAIL_ROOM ? MAIL_ROOM : 2 * message->done;
		if (message->done == message->room && !mail_message_grow(message, room))
			return mail_no_memory(mail, message->length);
		status = ori_link_read(&box->link, message->data, message->room, &message->done);
	}
	return status;
}

/* Reads what has arrived: ORIEL_AGAIN, or why there will be no more. */
static enum oriel_status mail_pump(struct ori_mail *mail, struct ori_mail_box *box)
{
	struct mail_message *message;
	enum oriel_status status;

	for (;;) {
		status = box->partial ? ORIEL_OK : mail_begin(mail, box);
		if (status != ORIEL_OK)
			return status;
		message = box->partial;
		status = mail_fill(mail, box, message);
		if (status != ORIEL_OK)
			return status;
		mail_box_add(box, message);
		box->partial = NULL;
	}
}

/* Wait for something to happen: to @link, to the box of @peer, in the tree, at the gate. */
static enum oriel_status mail_wait(struct ori_mail *mail, unsigned peer, struct ori_link *link,
				   uint64_t deadline)
{
	struct pollfd polled[ORI_TREE_LINKS + 2];
	enum oriel_status status;
	struct ori_frame frame;
	unsigned i, n = 0;

	status = ori_tree_overhear(mail->tree);
	if (status != ORIEL_OK)
		return status;
	if (link)
		polled[n++] = (struct pollfd){.fd = link->fd, .events = POLLOUT};
	if (mail->in[peer])
		polled[n++] = (struct pollfd){.fd = mail->in[peer]->link.fd, .events = POLLIN};
	for (i = 0; i < ORI_TREE_LINKS; i++) {
		status = ori_link_peek(&mail->tree->links[i], &frame);
		/* Behind a frame that is not for now only the end is of interest. */
		if (status == ORIEL_AGAIN || status == ORIEL_OK)
			polled[n++] = (struct pollfd){mail->tree->links[i].fd,
						      status == ORIEL_OK ? POLLRDHUP : POLLIN, 0};
	}
	status = ori_gate_poll(mail->gate, polled, n, deadline);
	if (status != ORIEL_OK)
		return ori_tree_stop(mail->tree, status);
	return mail_fetch(mail);
}

static enum oriel_status mail_ready(struct ori_mail *mail, unsigned peer)
{
	if (peer >= mail->tree->size)
		return ori_fail(ORIEL_ERR_RANGE, "there is no rank %u in a job of %u", peer,
				mail->tree->size);
	return ori_tree_check(mail->tree);
}

static enum oriel_status mail_connect(struct ori_mail *mail, unsigned peer, uint64_t deadline)
{
	struct ori_link *link = malloc(sizeof(*link));
	struct ori_hello hello = {
		.purpose = ORI_PURPOSE_MAIL,
		.rank = mail->tree->rank,
		.size = mail->tree->size,
	};
	struct ori_error before;
	enum oriel_status status;

	if (!link)
		return mail_no_memory(mail, sizeof(*link));
	ori_error_save(&before);
	ori_error_clear();
	status = ori_dial(&mail->addresses[peer], mail->gate, &hello, deadline, link);
	if (status != ORIEL_OK) {
		free(link);
		return ori_tree_break(mail->tree, status,
				      status == ORIEL_ERR_ABORTED ? ORIEL_NO_RANK : peer,
				      "rank %u of %u cannot reach rank %u: %s", mail->tree->rank,
				      mail->tree->size, peer,
				      oriel_last_status() ? oriel_last_error() : "it has left");
	}
	ori_error_restore(&before);
	link->rank = peer;
	mail->out[peer] = link;
	return ORIEL_OK;
}

static enum oriel_status mail_keep(struct ori_mail *mail, uint32_t tag, const void *data,
				   size_t length)
{
	unsigned self = mail->tree->rank;
	struct ori_mail_box *box = mail->in[self] ? mail->in[self] : mail_box_new(mail, self);
	struct mail_message *message = box ? mail_message_new(tag, length) : NULL;

	if (!message || !mail_message_grow(message, length)) {
		mail_message_free(message);
		return mail_no_memory(mail, length);
	}
	if (length)
		memcpy(message->data, data, length);
	mail_box_add(box, message);
	return ORIEL_OK;
}

static enum oriel_status mail_write(struct ori_mail *mail, unsigned peer,
				    const struct ori_frame *frame, const void *data,
				    uint64_t timeout_ns, uint64_t deadline)
{
	struct ori_link *link = mail->out[peer];
	enum oriel_status status;
	size_t done = 0;

	while ((status = ori_link_write(link, frame, data, &done)) == ORIEL_AGAIN) {
		if (ori_deadline_passed(deadline))
			return ori_tree_break(
				mail->tree, ORIEL_ERR_TIMEOUT, peer,
				"rank %u of %u did not take what rank %u sent within %g s", peer,
				mail->tree->size, mail->tree->rank, ori_seconds(timeout_ns));
		/* It may be sending just as much to us, and wait for us in turn. */
		if (mail->in[peer])
			mail_pump(mail, mail->in[peer]);
		status = mail_wait(mail, peer, link, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	return status == ORIEL_OK ? status : ori_tree_lost(mail->tree, peer);
}

enum oriel_status ori_mail_send(struct ori_mail *mail, unsigned peer, uint32_t tag,
				const void *data, size_t length, uint64_t timeout_ns)
{
	const struct ori_frame frame = {
		.type = ORI_FRAME_MESSAGE,
		.tag = tag,
		.length = length,
	};
	uint64_t deadline = ori_deadline(timeout_ns);
	enum oriel_status status = mail_ready(mail, peer);

	if (status != ORIEL_OK)
		return status;
	if (length > ORI_MESSAGE_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "a message of %zu bytes is longer than %llu",
				length, ORI_MESSAGE_MAX);
	if (peer == mail->tree->rank)
		return mail_keep(mail, tag, data, length);
	if (!mail->out[peer])
		status = mail_connect(mail, peer, deadline);
	if (status != ORIEL_OK)
		return status;
	return mail_write(mail, peer, &frame, data, timeout_ns, deadline);
}

/* Waits until a message with @tag is there. */
static enum oriel_status mail_receive(struct ori_mail *mail, unsigned peer, uint32_t tag,
				      uint64_t timeout_ns, struct mail_message **message)
{
	uint64_t deadline = ori_deadline(timeout_ns);
	enum oriel_status status = mail_fetch(mail);

	for (; status == ORIEL_OK; status = mail_wait(mail, peer, NULL, deadline)) {
		struct ori_mail_box *box = mail->in[peer];

		if (box && box->link.fd >= 0)
			status = mail_pump(mail, box);
		*message = box ? mail_box_take(box, tag) : NULL;
		if (*message)
			return ORIEL_OK;
		if (status == ORIEL_ERR_PEER)
			return ori_tree_lost(mail->tree, peer);
		if (status < 0)
			return ori_tree_break(mail->tree, status, peer,
					      "what rank %u of %u says makes no sense", peer,
					      mail->tree->size);
		if (ori_deadline_passed(deadline))
			return ori_tree_break(
				mail->tree, ORIEL_ERR_TIMEOUT, peer,
				"rank %u of %u sent rank %u nothing with tag %u within %g s", peer,
				mail->tree->size, mail->tree->rank, tag, ori_seconds(timeout_ns));
	}
	return status;
}

enum oriel_status ori_mail_recv(struct ori_mail *mail, unsigned peer, uint32_t tag, void *data,
				size_t length, uint64_t timeout_ns)
{
	enum oriel_status status = mail_ready(mail, peer);
	struct mail_message *message = NULL;

	if (status == ORIEL_OK)
		status = mail_receive(mail, peer, tag, timeout_ns, &message);
	if (status != ORIEL_OK)
		return status;
	if (message->length != length)
		status = ori_tree_break(
			mail->tree, ORIEL_ERR_MISMATCH, ORIEL_NO_RANK,
			"rank %u of %u sent %zu bytes with tag %u, rank %u takes %zu", peer,
			mail->tree->size, message->length, tag, mail->tree->rank, length);
	else if (length)
		memcpy(data, message->data, length);
	mail_message_free(message);
	return status;
}
