/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side, whose accepting side is the listener: connect, prove the key, hello,
 * answer. join.c calls it to reach rank 0 and parents, messages call it to reach a peer.
 */
#include "bootstrap/dial.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/late.h"

#define DIAL_RETRY_MIN_NS 5000000u /* doubles with each attempt */
#define DIAL_RETRY_MAX_NS 200000000u

/* Wait for @events at @link until @until at most, and serve the listener meanwhile. */
static enum oriel_status dial_wait(const struct ori_net_conn *link, short events, const char *where,
				   struct ori_listener *listener, struct ori_late *late,
				   uint64_t until, uint64_t deadline)
{
	struct pollfd polled = {.fd = link->fd, .events = events};
	uint64_t limit = deadline == ORIEL_TIMEOUT_INFINITE ? deadline : deadline - late->begun;

	if (ori_deadline_passed(deadline))
		return ori_fail(ORIEL_ERR_TIMEOUT, "%s accepts connections but does not answer",
				where);
	if (ori_late_is_due(late))
		ori_late_warn(late, limit, "%s accepted a connection but did not answer", where);
	return ori_listener_poll(listener, &polled, 1, until);
}

/* Set the last error if @status, of a call to src/net, is final and has none. */
static enum oriel_status dial_explain(const struct ori_net_conn *link, const char *where,
				      enum oriel_status status)
{
	switch (status) {
	case ORIEL_ERR_AUTH:
		return ori_fail(status, "%s %s", where, ori_net_doubt(link));
	case ORIEL_ERR_VERSION:
		return ori_fail(status, "%s uses another version of Oriel", where);
	case ORIEL_ERR_PROTOCOL:
		return ori_fail(status, "%s does not speak Oriel's protocol", where);
	case ORIEL_ERR_NOMEM:
		return ori_fail(status, "no memory for a connection to %s", where);
	default:
		return status;
	}
}

enum oriel_status ori_dial_connect(struct ori_net_conn *link, const struct ori_address *address,
				   struct ori_listener *listener, uint64_t connect_by,
				   uint64_t deadline)
{
	char where[ORI_ENDPOINT_LENGTH];
	enum oriel_status status;
	struct ori_late late;

	if (!ori_net_dial(link, address, listener->net.context, listener->net.traffic))
		return ORIEL_AGAIN;
	ori_endpoint_text(address, where);
	ori_late_begin(&late);
	while ((status = ori_net_step(link)) == ORIEL_AGAIN) {
		bool is_connecting = link->state == ORI_NET_CONNECTING;

		if (is_connecting && ori_deadline_passed(connect_by)) {
			errno = ETIMEDOUT;
			return ORIEL_AGAIN;
		}
		status = dial_wait(link, ori_net_events(link), where, listener, &late,
				   is_connecting ? connect_by : deadline, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	if (status == ORIEL_ERR_PEER && link->state == ORI_NET_CONNECTING)
		return ORIEL_AGAIN;
	return dial_explain(link, where, status);
}

/* The answer to the hello. ORIEL_OK: admitted; ORIEL_AGAIN: connect again later. */
static enum oriel_status dial_check_answer(const char *where, const struct ori_frame *frame,
					   const unsigned char *body, const struct ori_hello *hello)
{
	struct ori_failure rejection;

	if (frame->type == ORI_FRAME_FAILURE && ori_failure_parse(body, frame->length, &rejection))
		return ori_fail(rejection.status, "rank %u (process %u) is rejected at %s by %s",
				hello->rank, hello->pid, where, rejection.text);
	if (frame->type == ORI_FRAME_ANSWER && frame->length == 1 && body[0] <= ORI_ANSWER_LATER)
		return body[0] == ORI_ANSWER_IN ? ORIEL_OK : ORIEL_AGAIN;
	return ori_fail(ORIEL_ERR_PROTOCOL, "%s answers a hello with frame %u", where, frame->type);
}

enum oriel_status ori_dial_ask(struct ori_net_conn *link, const char *where,
			       struct ori_listener *listener, const struct ori_frame *question,
			       const void *body, struct ori_dial_answer *answer, uint64_t deadline)
{
	enum oriel_status status = ori_net_send(link, question->type, body, question->length);
	struct ori_late late;

	if (status != ORIEL_OK)
		return status;
	memset(answer, 0, sizeof(*answer));
	ori_late_begin(&late);
	while ((status = ori_net_take(link, &answer->frame, answer->body,
				      sizeof(answer->body) - 1)) == ORIEL_AGAIN) {
		status = dial_wait(link, POLLIN, where, listener, &late, deadline, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	return dial_explain(link, where, status);
}

enum oriel_status ori_dial_hello(struct ori_net_conn *link, const struct ori_address *address,
				 struct ori_listener *listener, struct ori_hello *hello,
				 uint64_t deadline)
{
	const struct ori_frame question = {.type = ORI_FRAME_HELLO, .length = ORI_HELLO_LENGTH};
	unsigned char body[ORI_HELLO_LENGTH];
	char where[ORI_ENDPOINT_LENGTH];
	struct ori_dial_answer answer;
	enum oriel_status status;

	ori_endpoint_text(address, where);
	hello->process = listener->own->process;
	hello->pid = (uint32_t)getpid();
	hello->tag = listener->own->tag;
	ori_hello_encode(hello, body);
	status = ori_dial_ask(link, where, listener, &question, body, &answer, deadline);
	return status == ORIEL_OK ? dial_check_answer(where, &answer.frame, answer.body, hello)
				  : status;
}

/* Sleep @pause_ns, and serve the listener meanwhile: a peer may need it to make progress. */
static enum oriel_status dial_pause(struct ori_listener *listener, uint64_t pause_ns,
				    uint64_t deadline)
{
	uint64_t until = ori_deadline(pause_ns);
	enum oriel_status status = ORIEL_OK;

	if (until > deadline)
		until = deadline;
	while (status == ORIEL_OK && !ori_deadline_passed(until))
		status = ori_listener_poll(listener, NULL, 0, until);
	return status;
}

enum oriel_status ori_dial(const struct ori_address *address, struct ori_listener *listener,
			   struct ori_hello *hello, uint64_t deadline, struct ori_net_conn *link)
{
	uint64_t pause_ns = DIAL_RETRY_MIN_NS;
	char text[ORI_ENDPOINT_LENGTH];
	enum oriel_status status;

	for (;;) {
		status = ori_dial_connect(link, address, listener, deadline, deadline);
		/* The backlog of a unix socket is full: unlike TCP, the kernel does not wait. */
		if (status == ORIEL_AGAIN && errno == EAGAIN)
			status = ORIEL_ERR_PEER;
		if (status == ORIEL_AGAIN) {
			status = ori_fail_errno(ORIEL_ERR_PEER, "connecting to %s",
						ori_endpoint_text(address, text));
			ori_net_close(link);
			return status;
		}
		if (status == ORIEL_OK)
			status = ori_dial_hello(link, address, listener, hello, deadline);
		if (status == ORIEL_OK)
			return ORIEL_OK;
		ori_net_close(link);
		if (status != ORIEL_ERR_PEER && status != ORIEL_AGAIN)
			return status;
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%s closed every connection until the deadline",
					ori_endpoint_text(address, text));
		status = dial_pause(listener, pause_ns, deadline);
		if (status != ORIEL_OK)
			return status;
		if (pause_ns < DIAL_RETRY_MAX_NS)
			pause_ns *= 2;
	}
}
