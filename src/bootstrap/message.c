/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send and recv of the TCP bootstrap: connections to receivers, inboxes of senders, and waits
 * that serve the listener and watch the tree for failures. tcp.c calls it.
 */
#include "bootstrap/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/late.h"
#include "base/log.h"
#include "bootstrap/dial.h"
#include "bootstrap/ranks.h"

#define MESSAGE_ROOM 65536u /* bytes of memory that a header alone may cost */

/* done <= room <= length, and room <= MESSAGE_ROOM or room <= 2 * done while it arrives */
struct message {
	struct message *next;
	uint32_t tag;
	size_t length, done, room;
	unsigned char *data; /* room bytes */
};

struct ori_message_inbox {
	struct ori_net_conn link; /* fd -1 for the messages of this rank to itself */
	struct message *partial;  /* still arriving */
	struct message *first, **end;
};

enum oriel_status ori_message_open(struct ori_message_service *service, struct ori_tree *tree,
				   struct ori_listener *listener, struct ori_address *addresses)
{
	service->tree = tree;
	service->listener = listener;
	service->out = calloc(tree->size, sizeof(struct ori_net_conn *));
	service->in = calloc(tree->size, sizeof(struct ori_message_inbox *));
	if (!service->out || !service->in)
		return ori_fail_nomem(tree->size * 2 * sizeof(void *), "a job of %u ranks",
				      tree->size);
	service->addresses = addresses;
	return ORIEL_OK;
}

static void message_free(struct message *message)
{
	if (message)
		free(message->data);
	free(message);
}

static void inbox_free(struct ori_message_inbox *inbox)
{
	struct message *message;

	if (!inbox)
		return;
	while ((message = inbox->first)) {
		inbox->first = message->next;
		message_free(message);
	}
	message_free(inbox->partial);
	ori_net_close(&inbox->link);
	free(inbox);
}

void ori_message_close(struct ori_message_service *service)
{
	unsigned i;

	for (i = 0; service->in && i < service->tree->size; i++)
		inbox_free(service->in[i]);
	for (i = 0; service->out && i < service->tree->size; i++) {
		if (service->out[i])
			ori_net_close(service->out[i]);
		free(service->out[i]);
	}
	free(service->in);
	free(service->out);
	free(service->addresses);
	memset(service, 0, sizeof(*service));
}

static enum oriel_status message_no_memory(struct ori_message_service *service, size_t length)
{
	return ori_tree_break(service->tree, ORIEL_ERR_NOMEM, service->tree->rank,
			      "rank %u of %u has no memory for a message of %zu bytes",
			      service->tree->rank, service->tree->size, length);
}

static struct ori_message_inbox *inbox_new(struct ori_message_service *service, unsigned peer)
{
	struct ori_message_inbox *inbox = calloc(1, sizeof(*inbox));

	if (!inbox)
		return NULL;
	ori_net_open(&inbox->link, -1, service->listener->net.traffic);
	inbox->end = &inbox->first;
	service->in[peer] = inbox;
	return inbox;
}

static struct message *message_new(uint32_t tag, size_t length)
{
	struct message *message = malloc(sizeof(*message));

	if (message)
		*message = (struct message){.tag = tag, .length = length};
	return message;
}

/* Make room for its first @room bytes, or for all if it has fewer. False: no memory. */
static bool message_grow(struct message *message, size_t room)
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

static void inbox_add(struct ori_message_inbox *inbox, struct message *message)
{
	*inbox->end = message;
	inbox->end = &message->next;
}

static struct message *inbox_take(struct ori_message_inbox *inbox, uint32_t tag)
{
	struct message **link, *message;

	for (link = &inbox->first; *link; link = &(*link)->next)
		if ((*link)->tag == tag)
			break;
	message = *link;
	if (!message)
		return NULL;
	*link = message->next;
	if (!*link)
		inbox->end = link;
	return message;
}

/* Fetch the connections of senders from the listener. */
static enum oriel_status message_fetch_senders(struct ori_message_service *service)
{
	struct ori_message_inbox *inbox;
	struct ori_pending *pending;

	while ((pending = ori_listener_next(service->listener, ORI_PURPOSE_MESSAGE))) {
		if (pending->hello.rank >= service->tree->size ||
		    service->in[pending->hello.rank]) {
			ori_log(ORIEL_LOG_WARN,
				"a connection from %s is dropped: rank %u connects again",
				pending->from, pending->hello.rank);
			ori_pending_free(pending);
			continue;
		}
		inbox = inbox_new(service, pending->hello.rank);
		if (!inbox) {
			ori_pending_free(pending);
			return message_no_memory(service, sizeof(*inbox));
		}
		ori_net_move(&inbox->link, &pending->link);
		ori_pending_free(pending);
	}
	return ORIEL_OK;
}

static enum oriel_status message_begin(struct ori_message_service *service,
				       struct ori_message_inbox *inbox)
{
	enum oriel_status status;
	struct ori_frame frame;

	status = ori_net_peek(&inbox->link, &frame);
	if (status != ORIEL_OK)
		return status;
	if (frame.type != ORI_FRAME_MESSAGE || frame.length > ORI_MESSAGE_MAX)
		return ORIEL_ERR_PROTOCOL;
	inbox->partial = message_new(frame.tag, frame.length);
	if (!inbox->partial)
		return message_no_memory(service, frame.length);
	ori_net_skip(&inbox->link);
	return ORIEL_OK;
}

/*
 * Continue to read a message. Its memory grows with the bytes that have arrived: the sender has
 * proved that it belongs to the job, not that the length in its header is true.
 */
static enum oriel_status message_fill(struct ori_message_service *service,
				      struct ori_message_inbox *inbox, struct message *message)
{
	enum oriel_status status = ORIEL_OK;
	size_t room;

	while (status == ORIEL_OK && message->done < message->length) {
		room = message->done < MESSAGE_ROOM ? MESSAGE_ROOM : 2 * message->done;
		if (message->done == message->room && !message_grow(message, room))
			return message_no_memory(service, message->length);
		status = ori_net_read(&inbox->link, message->data, message->room, &message->done);
	}
	return status;
}

/* Read all that has arrived. ORIEL_AGAIN, or the reason why no more will arrive. */
static enum oriel_status message_progress(struct ori_message_service *service,
					  struct ori_message_inbox *inbox)
{
	struct message *message;
	enum oriel_status status;

	for (;;) {
		status = inbox->partial ? ORIEL_OK : message_begin(service, inbox);
		if (status != ORIEL_OK)
			return status;
		message = inbox->partial;
		status = message_fill(service, inbox, message);
		if (status != ORIEL_OK)
			return status;
		inbox_add(inbox, message);
		inbox->partial = NULL;
	}
}

/*
 * Wait for an event: room in @link, bytes for the inbox of @peer, a failure in the tree, or a
 * connection at the listener.
 */
static enum oriel_status message_wait(struct ori_message_service *service, unsigned peer,
				      struct ori_net_conn *link, uint64_t deadline)
{
	struct pollfd polled[ORI_TREE_LINKS + 2];
	enum oriel_status status;
	unsigned n = 0;

	status = ori_tree_poll_failure(service->tree);
	if (status != ORIEL_OK)
		return status;
	if (link)
		polled[n++] = (struct pollfd){.fd = link->fd, .events = POLLOUT};
	if (service->in[peer])
		polled[n++] = (struct pollfd){.fd = service->in[peer]->link.fd, .events = POLLIN};
	n += ori_tree_poll_fds(service->tree, polled + n);
	status = ori_listener_poll(service->listener, polled, n, deadline);
	if (status != ORIEL_OK)
		return ori_tree_stop(service->tree, status);
	return message_fetch_senders(service);
}

static enum oriel_status message_check(struct ori_message_service *service, unsigned peer)
{
	if (peer >= service->tree->size)
		return ori_fail(ORIEL_ERR_RANGE, "there is no rank %u in a job of %u", peer,
				service->tree->size);
	return ori_tree_check(service->tree);
}

static enum oriel_status message_connect(struct ori_message_service *service, unsigned peer,
					 uint64_t deadline)
{
	struct ori_net_conn *link = malloc(sizeof(*link));
	struct ori_hello hello = {
		.purpose = ORI_PURPOSE_MESSAGE,
		.rank = service->tree->rank,
		.to = peer,
		.size = service->tree->size,
	};
	struct ori_error before;
	enum oriel_status status;

	if (!link)
		return message_no_memory(service, sizeof(*link));
	ori_error_save(&before);
	ori_error_clear();
	status = ori_dial(&service->addresses[peer], service->listener, &hello, deadline, link);
	if (ori_error_end(&before, status) != ORIEL_OK) {
		free(link);
		return ori_tree_break(service->tree, status,
				      status == ORIEL_ERR_ABORTED ? ORIEL_NO_RANK : peer,
				      "rank %u of %u cannot reach rank %u: %s", service->tree->rank,
				      service->tree->size, peer,
				      oriel_last_status() ? oriel_last_error() : "it has left");
	}
	link->peer = peer;
	service->out[peer] = link;
	return ORIEL_OK;
}

static enum oriel_status message_send_to_self(struct ori_message_service *service, uint32_t tag,
					      const void *data, size_t length)
{
	unsigned self = service->tree->rank;
	struct ori_message_inbox *inbox =
		service->in[self] ? service->in[self] : inbox_new(service, self);
	struct message *message = inbox ? message_new(tag, length) : NULL;

	if (!message || !message_grow(message, length)) {
		message_free(message);
		return message_no_memory(service, length);
	}
	assert(message->data || !length);
	if (length)
		memcpy(message->data, data, length);
	inbox_add(inbox, message);
	return ORIEL_OK;
}

static enum oriel_status message_write(struct ori_message_service *service, unsigned peer,
				       const struct ori_frame *frame, const void *data,
				       uint64_t timeout_ns, uint64_t deadline)
{
	struct ori_net_conn *link = service->out[peer];
	enum oriel_status status;
	size_t done = 0;

	while ((status = ori_net_write(link, frame, data, &done)) == ORIEL_AGAIN) {
		if (ori_deadline_passed(deadline))
			return ori_tree_break(
				service->tree, ORIEL_ERR_TIMEOUT, peer,
				"rank %u of %u did not receive the message of rank %u within %g s",
				peer, service->tree->size, service->tree->rank,
				ori_seconds(timeout_ns));
		/* The peer may send as much to this rank and wait in turn: read, so that it ends.
		 */
		if (service->in[peer])
			message_progress(service, service->in[peer]);
		status = message_wait(service, peer, link, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	return status == ORIEL_OK ? status : ori_tree_lost(service->tree, peer);
}

enum oriel_status ori_message_send(struct ori_message_service *service, unsigned peer, uint32_t tag,
				   const void *data, size_t length, uint64_t timeout_ns)
{
	const struct ori_frame frame = {
		.type = ORI_FRAME_MESSAGE,
		.tag = tag,
		.length = length,
	};
	uint64_t deadline = ori_deadline(timeout_ns);
	enum oriel_status status = message_check(service, peer);

	if (status != ORIEL_OK)
		return status;
	if (length > ORI_MESSAGE_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "a message of %zu bytes is longer than %llu",
				length, ORI_MESSAGE_MAX);
	if (peer == service->tree->rank)
		return message_send_to_self(service, tag, data, length);
	if (!service->out[peer])
		status = message_connect(service, peer, deadline);
	if (status != ORIEL_OK)
		return status;
	return message_write(service, peer, &frame, data, timeout_ns, deadline);
}

/* Wait until a message with @tag has arrived. */
static enum oriel_status message_receive(struct ori_message_service *service, unsigned peer,
					 uint32_t tag, uint64_t timeout_ns,
					 struct message **message)
{
	uint64_t deadline = ori_deadline(timeout_ns);
	enum oriel_status status = message_fetch_senders(service);
	struct ori_late late;

	ori_late_begin(&late);
	for (; status == ORIEL_OK; status = message_wait(service, peer, NULL, deadline)) {
		struct ori_message_inbox *inbox = service->in[peer];

		if (inbox && inbox->link.fd >= 0)
			status = message_progress(service, inbox);
		*message = inbox ? inbox_take(inbox, tag) : NULL;
		if (*message)
			return ORIEL_OK;
		if (status < 0)
			return ori_tree_link_failed(service->tree, &inbox->link, status);
		if (ori_deadline_passed(deadline))
			return ori_tree_break(service->tree, ORIEL_ERR_TIMEOUT, peer,
					      "rank %u of %u sent rank %u nothing with tag %u "
					      "within %g s " ORI_LATE_LIMIT,
					      peer, service->tree->size, service->tree->rank, tag,
					      ori_seconds(timeout_ns));
		if (ori_late_is_due(&late))
			ori_late_warn(&late, timeout_ns,
				      "rank %u of %u sent rank %u nothing with tag %u", peer,
				      service->tree->size, service->tree->rank, tag);
	}
	return status;
}

enum oriel_status ori_message_recv(struct ori_message_service *service, unsigned peer, uint32_t tag,
				   void *data, size_t length, uint64_t timeout_ns)
{
	enum oriel_status status = message_check(service, peer);
	struct message *message = NULL;

	if (status == ORIEL_OK)
		status = message_receive(service, peer, tag, timeout_ns, &message);
	if (status != ORIEL_OK)
		return status;
	assert(message);
	if (message->length != length)
		status = ori_tree_break(
			service->tree, ORIEL_ERR_MISMATCH, ORIEL_NO_RANK,
			"rank %u of %u sent %zu bytes with tag %u, rank %u takes %zu", peer,
			service->tree->size, message->length, tag, service->tree->rank, length);
	else if (length)
		memcpy(data, message->data, length);
	message_free(message);
	return status;
}
