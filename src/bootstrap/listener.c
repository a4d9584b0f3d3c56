/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections, checks that each knows the job key and belongs to the job, and hands
 * the admitted ones to join.c, tree.c and the module of messages, which poll it while they wait.
 */
#include "bootstrap/listener.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define LISTENER_POLLED 17
#define LISTENER_EVENTS 64
#define LISTENER_SPARE 128             /* unproven connections beyond the ranks of the job */
#define LISTENER_ROUND 8               /* connections accepted before pending ones are read */
#define LISTENER_RESERVE 64            /* descriptors left to the process, at most a quarter */
#define LISTENER_PAUSE_NS 10000000u    /* without descriptors */
#define LISTENER_HELLO_NS 10000000000u /* from accept to hello; a text has it, too */
#define LISTENER_WARN_NS 1000000000u   /* between warnings about dropped connections */

void ori_listener_init(struct ori_listener *listener, const struct ori_credentials *own,
		       unsigned size, struct ori_traffic *traffic)
{
	*listener = (struct ori_listener){
		.fd = -1,
		.epoll = -1,
		.interrupt_fd = -1,
		.own = own,
		.size = size,
		.most = size + LISTENER_SPARE,
		.traffic = traffic,
	};
}

static enum oriel_status listener_watch(struct ori_listener *listener, int fd,
					struct ori_pending *pending)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = pending};

	if (epoll_ctl(listener->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch a connection (epoll_ctl)");
	return ORIEL_OK;
}

enum oriel_status ori_listener_open(struct ori_listener *listener, int fd)
{
	listener->fd = fd;
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (listener->epoll < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_create1");
	return listener_watch(listener, fd, NULL);
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
	/* It fails only after 2^64 calls. */
	(void)eventfd_write(listener->interrupt_fd, 1);
}

void ori_pending_free(struct ori_pending *pending)
{
	if (pending)
		ori_link_close(&pending->link);
	free(pending);
}

static void listener_free_all(struct ori_pending *pending)
{
	struct ori_pending *next;

	for (; pending; pending = next) {
		next = pending->next;
		ori_pending_free(pending);
	}
}

void ori_listener_close(struct ori_listener *listener)
{
	listener_free_all(listener->waiting);
	listener_free_all(listener->admitted);
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->interrupt_fd >= 0)
		close(listener->interrupt_fd);
	if (listener->fd >= 0)
		close(listener->fd);
	free(listener->rank_owners);
	ori_listener_init(listener, NULL, 0, NULL);
}

static void listener_unlink(struct ori_listener *listener, struct ori_pending *pending)
{
	struct ori_pending **link;

	for (link = &listener->waiting; *link != pending; link = &(*link)->next)
		;
	*link = pending->next;
	pending->next = NULL;
	listener->pending_count--;
	if (!listener->waiting)
		listener->most = listener->size + LISTENER_SPARE;
}

/* One warning a second, with the number of those it stands for: a flood must not fill the log. */
static void listener_warn(struct ori_listener *listener, const struct ori_pending *pending,
			  const char *why)
{
	if (!ori_deadline_passed(listener->warn_at)) {
		listener->suppressed++;
		return;
	}
	if (listener->suppressed)
		ori_log(ORIEL_LOG_WARN, "a connection from %s is dropped: %s; so were %u before it",
			pending->from, why, listener->suppressed);
	else
		ori_log(ORIEL_LOG_WARN, "a connection from %s is dropped: %s", pending->from, why);
	listener->suppressed = 0;
	listener->warn_at = ori_deadline(LISTENER_WARN_NS);
}

static void listener_drop(struct ori_listener *listener, struct ori_pending *pending)
{
	listener_unlink(listener, pending);
	ori_pending_free(pending);
}

static void listener_warn_and_drop(struct ori_listener *listener, struct ori_pending *pending,
				   const char *why)
{
	listener_warn(listener, pending, why);
	listener_drop(listener, pending);
}

void ori_listener_note_rejection(struct ori_listener *listener, const struct ori_pending *pending,
				 enum oriel_status status, const char *why)
{
	char text[ORI_LISTENER_TEXT];

	/* The process id is in the hello. */
	if (pending->hello.pid)
		snprintf(text, sizeof(text), "process %u at %s is rejected: %s", pending->hello.pid,
			 pending->from, why);
	else
		snprintf(text, sizeof(text), "%s is rejected: %s", pending->from, why);
	ori_log(ORIEL_LOG_WARN, "%s", text);
	if (listener->rejected++)
		return;
	listener->rejected_status = status;
	memcpy(listener->rejected_text, text, sizeof(text));
}

static void listener_reject(struct ori_listener *listener, struct ori_pending *pending,
			    enum oriel_status status, const char *why)
{
	struct ori_failure rejection = {.status = status, .rank = ORIEL_NO_RANK};
	unsigned char body[ORI_FAILURE_LENGTH];

	snprintf(rejection.text, sizeof(rejection.text), "process %d: %s", (int)getpid(), why);
	ori_link_send(&pending->link, ORI_FRAME_FAILURE, body,
		      ori_failure_encode(&rejection, body));
	ori_listener_note_rejection(listener, pending, status, why);
	listener_drop(listener, pending);
}

/*
 * The connection that makes room for another: the one that has been silent for longest; if none
 * is silent, the oldest one. The list is newest first.
 */
static struct ori_pending *listener_oldest(const struct ori_listener *listener)
{
	struct ori_pending *pending, *silent = NULL, *last = NULL;

	for (pending = listener->waiting; pending; pending = pending->next) {
		if (!pending->was_challenged)
			silent = pending;
		last = pending;
	}
	return silent ? silent : last;
}

static void listener_make_room(struct ori_listener *listener)
{
	listener_warn_and_drop(listener, listener_oldest(listener),
			       "there are too many silent connections");
}

static enum oriel_status listener_send_proof(struct ori_listener *listener,
					     struct ori_pending *pending)
{
	unsigned char proof[ORI_PROOF_LENGTH];

	if (ori_auth_nonce(pending->auth.acceptor) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	memcpy(proof, pending->auth.acceptor, ORI_NONCE_LENGTH);
	if (ori_auth_mac(&listener->own->key, &pending->auth, ORI_ROLE_ACCEPTOR, NULL, 0,
			 proof + ORI_NONCE_LENGTH) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	pending->was_challenged = true;
	return ori_link_send(&pending->link, ORI_FRAME_PROOF, proof, sizeof(proof));
}

/* Parse the hello and check its MAC. ORIEL_ERR_AUTH: the connector has another key. */
static enum oriel_status listener_check_key(struct ori_listener *listener,
					    struct ori_pending *pending, const unsigned char *body,
					    size_t length)
{
	unsigned char mac[ORI_MAC_LENGTH];

	if (!ori_hello_parse(body, length, &pending->hello))
		return ORIEL_ERR_PROTOCOL;
	if (ori_auth_mac(&listener->own->key, &pending->auth, ORI_ROLE_CONNECTOR,
			 body + ORI_MAC_LENGTH, length - ORI_MAC_LENGTH, mac) != ORIEL_OK)
		return ORIEL_ERR_SYSTEM;
	return ori_auth_equal(mac, pending->hello.mac) ? ORIEL_OK : ORIEL_ERR_AUTH;
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
					     const struct ori_hello *hello,
					     char why[ORI_LISTENER_TEXT])
{
	const struct ori_rank_owner *owner;

	if (!listener->rank_owners || hello->rank >= listener->size) {
		snprintf(why, ORI_LISTENER_TEXT, "the job of %u ranks here has all of them",
			 listener->size);
		return ORIEL_ERR_CONFIG;
	}
	owner = &listener->rank_owners[hello->rank];
	if (owner->process == hello->process)
		return ORIEL_AGAIN;
	snprintf(why, ORI_LISTENER_TEXT, "rank %u of the job here is process %u at %s already",
		 hello->rank, owner->pid, owner->from);
	return ORIEL_ERR_CONFIG;
}

/* Check the hello of a proven connection. ORIEL_OK: admit it; ORIEL_AGAIN: it connects later. */
static enum oriel_status listener_check(const struct ori_listener *listener,
					const struct ori_hello *hello, char why[ORI_LISTENER_TEXT])
{
	char differ[ORI_JOB_TAG_TEXT];

	if (!ori_job_tag_equal(&hello->tag, &listener->own->tag)) {
		snprintf(why, ORI_LISTENER_TEXT,
			 "it belongs to another job: %s (ranks of one job that are started so need "
			 "an ORIEL_JOB_KEY)",
			 ori_job_tag_differ(&hello->tag, &listener->own->tag, differ));
		return ORIEL_ERR_AUTH;
	}
	if (hello->purpose == ORI_PURPOSE_JOIN)
		return listener->accepts_joins ? ORIEL_OK
					       : listener_check_late(listener, hello, why);
	if (hello->rank < listener->size && !listener_has_admitted(listener, hello))
		return ORIEL_OK;
	snprintf(why, ORI_LISTENER_TEXT, "rank %u connects %s", hello->rank,
		 hello->rank < listener->size ? "again" : "to a job that has no such rank");
	return ORIEL_ERR_PROTOCOL;
}

static void listener_answer(struct ori_listener *listener, struct ori_pending *pending)
{
	char why[ORI_LISTENER_TEXT];
	enum oriel_status status = listener_check(listener, &pending->hello, why);
	unsigned char answer = status == ORIEL_OK ? ORI_ANSWER_IN : ORI_ANSWER_LATER;

	if (status != ORIEL_OK && status != ORIEL_AGAIN) {
		listener_reject(listener, pending, status, why);
		return;
	}
	if (ori_link_send(&pending->link, ORI_FRAME_ANSWER, &answer, 1) != ORIEL_OK) {
		listener_warn_and_drop(listener, pending, "it was closed before it joined");
		return;
	}
	if (status == ORIEL_AGAIN) {
		listener_drop(listener, pending);
		return;
	}
	epoll_ctl(listener->epoll, EPOLL_CTL_DEL, pending->link.fd, NULL);
	listener_unlink(listener, pending);
	pending->link.rank = pending->hello.rank;
	pending->next = listener->admitted;
	listener->admitted = pending;
}

/* ORIEL_OK: the hello is valid and the key is right. ORIEL_ERR_AUTH: the key is another one. */
static enum oriel_status listener_receive(struct ori_listener *listener,
					  struct ori_pending *pending)
{
	unsigned char body[ORI_FAILURE_LENGTH];
	enum oriel_status status;
	struct ori_frame frame;

	status = ori_link_take(&pending->link, &frame, body, sizeof(body));
	if (status != ORIEL_OK)
		return status;
	if (frame.type == ORI_FRAME_HELLO && pending->was_challenged)
		return listener_check_key(listener, pending, body, frame.length);
	if (frame.type == ORI_FRAME_FAILURE && pending->was_challenged)
		return ORIEL_ERR_AUTH;
	if (frame.type != ORI_FRAME_CHALLENGE || pending->was_challenged ||
	    frame.length != ORI_NONCE_LENGTH)
		return ORIEL_ERR_PROTOCOL;
	memcpy(pending->auth.connector, body, ORI_NONCE_LENGTH);
	status = listener_send_proof(listener, pending);
	return status == ORIEL_OK ? ORIEL_AGAIN : status;
}

static void listener_advance(struct ori_listener *listener, struct ori_pending *pending)
{
	enum oriel_status status = listener_receive(listener, pending);

	switch (status) {
	case ORIEL_AGAIN:
		break;
	case ORIEL_OK:
		listener_answer(listener, pending);
		break;
	case ORIEL_ERR_AUTH:
		listener_reject(listener, pending, ORIEL_ERR_AUTH, "it has another ORIEL_JOB_KEY");
		break;
	case ORIEL_ERR_PEER:
		listener_warn_and_drop(listener, pending, "it was closed before it joined");
		break;
	case ORIEL_ERR_VERSION:
		listener_warn_and_drop(listener, pending, "it uses another version of Oriel");
		break;
	default:
		listener_warn_and_drop(listener, pending, "it sent a malformed frame");
		break;
	}
}

static void listener_expire(struct ori_listener *listener)
{
	struct ori_pending *pending, *next;

	for (pending = listener->waiting; pending; pending = next) {
		next = pending->next;
		if (ori_deadline_passed(pending->deadline))
			listener_warn_and_drop(listener, pending, "it sent no hello within 10 s");
	}
}

/* The kernel assigns the lowest free number: is @fd one of the last that the process may have? */
static bool listener_is_scarce(int fd)
{
	struct rlimit files;
	rlim_t reserve;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
		return false;
	reserve = files.rlim_cur / 4 < LISTENER_RESERVE ? files.rlim_cur / 4 : LISTENER_RESERVE;
	return (rlim_t)fd >= files.rlim_cur - reserve;
}

static void listener_add(struct ori_listener *listener, int fd, struct ori_pending *pending)
{
	struct ori_address from;

	ori_link_open(&pending->link, fd, listener->traffic);
	if (ori_endpoint_remote(fd, &from) != ORIEL_OK ||
	    listener_watch(listener, fd, pending) != ORIEL_OK) {
		ori_pending_free(pending); /* the peer has closed it already */
		return;
	}
	ori_endpoint_text(&from, pending->from);
	pending->deadline = ori_deadline(LISTENER_HELLO_NS);
	pending->next = listener->waiting;
	listener->waiting = pending;
	listener->pending_count++;
	/* The challenge is usually here already; once it is read, the connection is not silent. */
	listener_advance(listener, pending);
	/*
	 * The limit stays: the next connection gets the number of a closed one, and
	 * listener_is_scarce() would not see how few are left.
	 */
	if (listener->pending_count > 1 && listener_is_scarce(fd))
		listener->most = listener->pending_count - 1;
	if (listener->pending_count > listener->most)
		listener_make_room(listener);
}

static void listener_set_events(struct ori_listener *listener, uint32_t events)
{
	struct epoll_event event = {.events = events};

	epoll_ctl(listener->epoll, EPOLL_CTL_MOD, listener->fd, &event);
}

/*
 * No descriptor or memory is left to accept the next connection. An unproven connection makes
 * room. If there is none, the listener pauses: its socket stays readable, so that poll() would
 * return at once without any progress.
 */
static void listener_run_short(struct ori_listener *listener, int error)
{
	struct pollfd polled = {.fd = listener->fd, .events = POLLIN};

	/* accept() fails for want of a descriptor even if no connection waits. */
	if (poll(&polled, 1, 0) <= 0)
		return;
	if (listener->waiting) {
		listener_make_room(listener);
		return;
	}
	if (ori_deadline_passed(listener->warn_at)) {
		ori_log(ORIEL_LOG_WARN, "cannot accept a connection: %s", strerror(error));
		listener->warn_at = ori_deadline(LISTENER_WARN_NS);
	}
	listener->paused_until = ori_deadline(LISTENER_PAUSE_NS);
	listener_set_events(listener, 0);
}

static void listener_accept(struct ori_listener *listener)
{
	struct ori_pending *pending;
	unsigned left;
	int fd, error;

	for (left = LISTENER_ROUND; left && !listener->paused_until; left--) {
		pending = calloc(1, sizeof(*pending));
		fd = pending ? ori_endpoint_accept(listener->fd) : -1;
		error = errno;
		if (fd >= 0) {
			listener_add(listener, fd, pending);
			continue;
		}
		free(pending);
		if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
			listener_run_short(listener, error);
		else if (error != ECONNABORTED && error != EINTR)
			return;
	}
}

void ori_listener_serve(struct ori_listener *listener)
{
	struct epoll_event events[LISTENER_EVENTS];
	bool is_readable = false;
	int i, n;

	if (listener->epoll < 0)
		return;
	if (listener->paused_until && ori_deadline_passed(listener->paused_until)) {
		listener->paused_until = 0;
		listener_set_events(listener, EPOLLIN);
	}
	n = epoll_wait(listener->epoll, events, LISTENER_EVENTS, 0);
	for (i = 0; i < n; i++) {
		if (events[i].data.ptr)
			listener_advance(listener, events[i].data.ptr);
		else
			is_readable = true;
	}
	listener_expire(listener);
	if (is_readable)
		listener_accept(listener);
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

enum oriel_status ori_listener_poll(struct ori_listener *listener, struct pollfd *polled,
				    unsigned count, uint64_t deadline)
{
	struct pollfd all[LISTENER_POLLED];
	int n;

	assert(count < LISTENER_POLLED - 1);
	if (listener->paused_until && listener->paused_until < deadline)
		deadline = listener->paused_until;
	if (count)
		memcpy(all, polled, count * sizeof(*polled));
	all[count] = (struct pollfd){.fd = listener->epoll, .events = POLLIN};
	all[count + 1] = (struct pollfd){.fd = listener->interrupt_fd, .events = POLLIN};
	n = poll(all, count + 2, ori_deadline_poll_ms(deadline));
	if (n < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	if (n > 0 && all[count + 1].revents)
		return ori_fail(ORIEL_ERR_ABORTED, "interrupted");
	for (; count > 0; count--)
		polled[count - 1].revents = n > 0 ? all[count - 1].revents : 0;
	ori_listener_serve(listener);
	return ORIEL_OK;
}
