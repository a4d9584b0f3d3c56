/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the hello of each connection that src/net's listener hands over: whether it belongs to
 * the job, and as which rank. join.c, tree.c and the module of messages poll it while they wait,
 * and fetch the admitted ones.
 */
#include "bootstrap/listener.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define LISTENER_POLLED 18

void ori_listener_init(struct ori_listener *listener, const struct ori_credentials *own,
		       unsigned size, struct ori_traffic *traffic)
{
	*listener = (struct ori_listener){.interrupt_fd = -1, .own = own, .size = size};
	ori_net_listener_init(&listener->net, own ? own->tls : NULL, size, traffic);
}

enum oriel_status ori_listener_enable_interrupt(struct ori_listener *listener)
{
	listener->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (listener->interrupt_fd < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "eventfd");
	return ORIEL_OK;
}

void ori_listener_interrupt(struct ori_listener *listener)
{
	/* That fails only after 2^64 calls. */
	(void)eventfd_write(listener->interrupt_fd, 1);
}

void ori_pending_free(struct ori_pending *pending)
{
	if (pending)
		ori_net_close(&pending->link);
	free(pending);
}

void ori_listener_close(struct ori_listener *listener)
{
	struct ori_pending *pending;

	while ((pending = listener->admitted)) {
		listener->admitted = pending->next;
		ori_pending_free(pending);
	}
	ori_net_listener_close(&listener->net);
	if (listener->interrupt_fd >= 0)
		close(listener->interrupt_fd);
	free(listener->rank_owners);
	ori_listener_init(listener, NULL, 0, NULL);
}

void ori_listener_note_rejection(struct ori_listener *listener, const struct ori_pending *pending,
				 enum oriel_status status, const char *why)
{
	char who[32 + ORI_ENDPOINT_LENGTH];

	/* The process id is in the hello. */
	if (pending->hello.pid)
		snprintf(who, sizeof(who), "process %u at %s", pending->hello.pid, pending->from);
	else
		snprintf(who, sizeof(who), "%s", pending->from);
	ori_net_listener_refuse(&listener->net, who, status, why);
}

static void listener_reject(struct ori_listener *listener, struct ori_pending *pending,
			    enum oriel_status status, const char *why)
{
	struct ori_failure rejection = {.status = status, .rank = ORIEL_NO_RANK};

	snprintf(rejection.text, sizeof(rejection.text), "process %d: %s", (int)getpid(), why);
	ori_failure_send(&rejection, &pending->link);
	ori_listener_note_rejection(listener, pending, status, why);
}

static bool listener_has_admitted(const struct ori_listener *listener,
				  const struct ori_hello *hello)
{
	const struct ori_pending *pending;

	for (pending = listener->admitted; pending; pending = pending->next)
		if (pending->hello.purpose == hello->purpose && pending->hello.rank == hello->rank)
			return true;
	return false;
}

/*
 * A hello that joins when the job is complete. ORIEL_AGAIN if it comes from the process that has
 * this rank already: its next job waits for the end of this one.
 */
static enum oriel_status listener_check_late(const struct ori_listener *listener,
					     const struct ori_hello *hello, char why[ORI_NET_TEXT])
{
	const struct ori_rank_owner *owner;

	if (!listener->rank_owners || hello->rank >= listener->size) {
		snprintf(why, ORI_NET_TEXT, "the job of %u ranks here has all of them",
			 listener->size);
		return ORIEL_ERR_CONFIG;
	}
	owner = &listener->rank_owners[hello->rank];
	if (owner->process == hello->process)
		return ORIEL_AGAIN;
	snprintf(why, ORI_NET_TEXT, "rank %u of the job here is process %u at %s already",
		 hello->rank, owner->pid, owner->from);
	return ORIEL_ERR_CONFIG;
}

unsigned ori_listener_awaited(const struct ori_listener *listener, const struct ori_hello *hello)
{
	struct ori_job_name name = ori_job_tag_own_name(&hello->tag);
	unsigned i;

	for (i = 1; i < listener->size; i++)
		if (CRYPTO_memcmp(&listener->awaited[i], &name, sizeof(name)) == 0)
			break;
	return i;
}

/*
 * Is @hello, of a rank of a list, too early? This rank may be in another list, which does not need
 * it, or which is complete. One that rank 0 awaits and that comes to another list fails both.
 */
static bool listener_defers(const struct ori_listener *listener, const struct ori_hello *hello)
{
	if (!listener->awaited)
		return !ori_job_tag_equal(&hello->tag, &listener->own->tag);
	return ori_listener_awaited(listener, hello) == listener->size;
}

/* Check the hello of a proven connection. ORIEL_OK: admit it; ORIEL_AGAIN: it connects later. */
static enum oriel_status listener_check(const struct ori_listener *listener,
					const struct ori_hello *hello, char why[ORI_NET_TEXT])
{
	bool is_listed = hello->purpose == ORI_PURPOSE_JOIN &&
			 hello->tag.kind == ORI_JOB_TAG_LIST &&
			 listener->own->tag.kind == ORI_JOB_TAG_LIST;
	char differ[ORI_JOB_TAG_TEXT];

	if (is_listed && listener_defers(listener, hello))
		return ORIEL_AGAIN;
	if (!is_listed && !ori_job_tag_equal(&hello->tag, &listener->own->tag)) {
		snprintf(why, ORI_NET_TEXT,
			 "it belongs to another job: %s (ranks of one job that are started so need "
			 "an ORIEL_JOB_KEY)",
			 ori_job_tag_differ(&hello->tag, &listener->own->tag, differ));
		return ORIEL_ERR_AUTH;
	}
	/* The key is that of all ranks: a relay could lead a connection to another one. */
	if (hello->to != listener->rank) {
		snprintf(why, ORI_NET_TEXT, "rank %u connects to rank %u, but this is rank %u",
			 hello->rank, hello->to, listener->rank);
		return ORIEL_ERR_PROTOCOL;
	}
	if (hello->purpose == ORI_PURPOSE_JOIN)
		return listener->accepts_joins ? ORIEL_OK
					       : listener_check_late(listener, hello, why);
	if (hello->rank < listener->size && !listener_has_admitted(listener, hello))
		return ORIEL_OK;
	snprintf(why, ORI_NET_TEXT, "rank %u connects %s", hello->rank,
		 hello->rank < listener->size ? "again" : "to a job that has no such rank");
	return ORIEL_ERR_PROTOCOL;
}

/* False: it is not admitted, and the caller frees it. */
static bool listener_answer(struct ori_listener *listener, struct ori_pending *pending)
{
	char why[ORI_NET_TEXT];
	enum oriel_status status = listener_check(listener, &pending->hello, why);
	unsigned char answer = status == ORIEL_OK ? ORI_ANSWER_IN : ORI_ANSWER_LATER;

	if (status != ORIEL_OK && status != ORIEL_AGAIN) {
		listener_reject(listener, pending, status, why);
		return false;
	}
	if (ori_net_send(&pending->link, ORI_FRAME_ANSWER, &answer, 1) == ORIEL_OK) {
		ori_log_rank(ORIEL_LOG_DEBUG, listener->rank, "rank %u at %s connects%s",
			     pending->hello.rank, pending->from,
			     status == ORIEL_OK ? "" : ", and is asked to try again later");
		return status == ORIEL_OK;
	}
	ori_net_listener_warn(&listener->net, pending->from, "it was closed before it joined");
	return false;
}

/* Take over @arrived if its first frame is a hello that is admitted. */
static bool listener_admit(struct ori_listener *listener, struct ori_net_pending *arrived,
			   struct ori_pending *pending)
{
	unsigned char body[ORI_NET_HELLO_MAX];
	struct ori_frame frame;

	memcpy(pending->from, arrived->from, sizeof(pending->from));
	if (listener->net.is_local) /* the hello has the process, which texts have as well */
		snprintf(pending->from, sizeof(pending->from), "a unix socket");
	ori_net_move(&pending->link, &arrived->conn);
	if (ori_net_take(&pending->link, &frame, body, sizeof(body)) != ORIEL_OK ||
	    frame.type != ORI_FRAME_HELLO ||
	    !ori_hello_parse(body, frame.length, &pending->hello)) {
		ori_net_listener_warn(&listener->net, pending->from, "it sent a malformed hello");
		return false;
	}
	if (!listener_answer(listener, pending))
		return false;
	pending->link.peer = pending->hello.rank;
	pending->next = listener->admitted;
	listener->admitted = pending;
	return true;
}

void ori_listener_serve(struct ori_listener *listener)
{
	struct ori_net_pending *arrived;
	struct ori_pending *pending;

	ori_net_listener_serve(&listener->net);
	while ((arrived = ori_net_listener_next(&listener->net))) {
		pending = calloc(1, sizeof(*pending));
		if (!pending)
			ori_net_listener_warn(&listener->net, arrived->from,
					      "there is no memory for it");
		else if (!listener_admit(listener, arrived, pending))
			ori_pending_free(pending);
		ori_net_pending_free(arrived);
	}
}

struct ori_pending *ori_listener_next(struct ori_listener *listener, enum ori_purpose purpose)
{
	struct ori_pending **link, *pending;

	for (link = &listener->admitted; *link; link = &(*link)->next) {
		pending = *link;
		if (pending->hello.purpose == purpose) {
			*link = pending->next;
			pending->next = NULL;
			return pending;
		}
	}
	return NULL;
}

enum oriel_status ori_listener_check(const struct ori_listener *listener)
{
	struct pollfd polled = {.fd = listener->abort_fd ? *listener->abort_fd : -1,
				.events = POLLIN};

	if (poll(&polled, 1, 0) <= 0)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_PEER, "a rank exited, or gave up, while others joined");
}

enum oriel_status ori_listener_poll(struct ori_listener *listener, struct pollfd *polled,
				    unsigned count, uint64_t deadline)
{
	struct pollfd all[LISTENER_POLLED];
	int n;

	assert(count < LISTENER_POLLED - 2);
	if (listener->net.paused_until && listener->net.paused_until < deadline)
		deadline = listener->net.paused_until;
	if (count)
		memcpy(all, polled, count * sizeof(*polled));
	all[count] = (struct pollfd){.fd = listener->net.epoll, .events = POLLIN};
	all[count + 1] = (struct pollfd){.fd = listener->interrupt_fd, .events = POLLIN};
	all[count + 2] = (struct pollfd){.fd = listener->abort_fd ? *listener->abort_fd : -1,
					 .events = POLLIN};
	n = poll(all, count + 3, ori_deadline_poll_ms(deadline));
	if (n < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	if (n > 0 && all[count + 1].revents)
		return ori_fail(ORIEL_ERR_ABORTED, "interrupted");
	if (n > 0 && all[count + 2].revents)
		return ori_listener_check(listener);
	for (; count > 0; count--)
		polled[count - 1].revents = (short)(n > 0 ? all[count - 1].revents : 0);
	ori_listener_serve(listener);
	return ORIEL_OK;
}
