/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections, limits those that are unproven, and hands over those whose first frame has
 * arrived. The owners of listeners call it: see listen.h.
 */
#include "net/listen.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "net/fdsock.h"

#define LISTEN_EVENTS 64
#define LISTEN_SPARE 128             /* unproven connections beyond the capacity */
#define LISTEN_ROUND 8               /* connections accepted before pending ones are read */
#define LISTEN_RESERVE 64            /* descriptors left to the process, at most a quarter */
#define LISTEN_PAUSE_NS 10000000u    /* without descriptors */
#define LISTEN_HELLO_NS 10000000000u /* from accept to first frame; a text has it, too */
#define LISTEN_LINES_NS 1000000000u  /* between two lines of a kind */

void ori_net_listener_init(struct ori_net_listener *listener, struct ori_tls_context *context,
			   unsigned capacity, struct ori_traffic *traffic)
{
	*listener = (struct ori_net_listener){
		.fd = -1,
		.epoll = -1,
		.context = context,
		.capacity = capacity,
		.most = capacity + LISTEN_SPARE,
		.traffic = traffic,
	};
}

static enum oriel_status listen_watch(struct ori_net_listener *listener, int fd,
				      struct ori_net_pending *pending)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = pending};

	if (epoll_ctl(listener->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch a connection (epoll_ctl)");
	return ORIEL_OK;
}

enum oriel_status ori_net_listener_open(struct ori_net_listener *listener, int fd)
{
	listener->fd = fd;
	listener->is_local = ori_fdsock_is(fd);
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (listener->epoll < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_create1");
	return listen_watch(listener, fd, NULL);
}

/* A flood must not fill the log: a line has the number of those that it stands for. */
static void listen_log(struct ori_net_lines *lines, enum oriel_log_level level, const char *text)
{
	if (!ori_deadline_passed(lines->next)) {
		lines->suppressed++;
		return;
	}
	if (lines->suppressed)
		ori_log(level, "%s; so were %u before it", text, lines->suppressed);
	else
		ori_log(level, "%s", text);
	lines->suppressed = 0;
	lines->next = ori_deadline(LISTEN_LINES_NS);
}

static void listen_warn(struct ori_net_listener *listener, const char *text)
{
	listen_log(&listener->warnings, ORIEL_LOG_WARN, text);
}

/* The count of the last lines of a flood, which no later line would have. */
static void listen_log_rest(struct ori_net_lines *lines, enum oriel_log_level level, bool is_last)
{
	if (!lines->suppressed || !(is_last || ori_deadline_passed(lines->next)))
		return;
	ori_log(level, "%u more connections ended as those of the lines before", lines->suppressed);
	lines->suppressed = 0;
	lines->next = ori_deadline(LISTEN_LINES_NS);
}

static void listen_log_rests(struct ori_net_listener *listener, bool is_last)
{
	listen_log_rest(&listener->warnings, ORIEL_LOG_WARN, is_last);
	listen_log_rest(&listener->refusals, ORIEL_LOG_WARN, is_last);
	listen_log_rest(&listener->notes, ORIEL_LOG_DEBUG, is_last);
}

void ori_net_pending_free(struct ori_net_pending *pending)
{
	if (pending)
		ori_net_close(&pending->conn);
	free(pending);
}

static void listen_free_all(struct ori_net_pending *pending)
{
	struct ori_net_pending *next;

	for (; pending; pending = next) {
		next = pending->next;
		ori_net_pending_free(pending);
	}
}

void ori_net_listener_close(struct ori_net_listener *listener)
{
	listen_log_rests(listener, true);
	listen_free_all(listener->waiting);
	listen_free_all(listener->arrived);
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->fd >= 0)
		close(listener->fd);
	ori_net_listener_init(listener, NULL, 0, NULL);
}

static void listen_unlink(struct ori_net_listener *listener, struct ori_net_pending *pending)
{
	struct ori_net_pending **link;

	assert(pending);
	for (link = &listener->waiting; *link != pending; link = &(*link)->next)
		;
	*link = pending->next;
	pending->next = NULL;
	listener->pending_count--;
	if (!listener->waiting)
		listener->most = listener->capacity + LISTEN_SPARE;
}

void ori_net_listener_warn(struct ori_net_listener *listener, const char *from, const char *why)
{
	char text[ORI_NET_TEXT];

	snprintf(text, sizeof(text), "a connection from %s is dropped: %s", from, why);
	listen_warn(listener, text);
}

void ori_net_listener_refuse(struct ori_net_listener *listener, const char *who,
			     enum oriel_status status, const char *why)
{
	char text[ORI_NET_TEXT];

	snprintf(text, sizeof(text), "%s is rejected: %s", who, why);
	listen_log(&listener->refusals, ORIEL_LOG_WARN, text);
	if (listener->refused++)
		return;
	listener->refused_status = status;
	memcpy(listener->refused_text, text, sizeof(text));
}

static void listen_drop(struct ori_net_listener *listener, struct ori_net_pending *pending,
			const char *why)
{
	ori_net_listener_warn(listener, pending->from, why);
	listen_unlink(listener, pending);
	ori_net_pending_free(pending);
}

/* Has it sent no byte? */
static bool listen_is_silent(const struct ori_net_pending *pending)
{
	return pending->conn.state == ORI_NET_TLS && !pending->conn.tls;
}

/* The peer gives up; one that sent nothing has asked only whether a process listens. */
static void listen_leave(struct ori_net_listener *listener, struct ori_net_pending *pending)
{
	char text[ORI_NET_TEXT];

	snprintf(text, sizeof(text), "%s closed its connection before it joined", pending->from);
	if (!listen_is_silent(pending))
		listen_log(&listener->notes, ORIEL_LOG_DEBUG, text);
	listen_unlink(listener, pending);
	ori_net_pending_free(pending);
}

static void listen_refuse(struct ori_net_listener *listener, struct ori_net_pending *pending)
{
	char why[ORI_NET_TEXT];

	snprintf(why, sizeof(why), "it %s", ori_net_doubt(&pending->conn));
	ori_net_listener_refuse(listener, pending->from, ORIEL_ERR_AUTH, why);
	listen_unlink(listener, pending);
	ori_net_pending_free(pending);
}

/*
 * The connection that makes room for another: the one that has been silent for longest; if none
 * is silent, the oldest one. The list is newest first.
 */
static struct ori_net_pending *listen_oldest(const struct ori_net_listener *listener)
{
	struct ori_net_pending *pending, *silent = NULL, *last = NULL;

	for (pending = listener->waiting; pending; pending = pending->next) {
		if (listen_is_silent(pending))
			silent = pending;
		last = pending;
	}
	return silent ? silent : last;
}

static void listen_make_room(struct ori_net_listener *listener)
{
	listen_drop(listener, listen_oldest(listener), "there are too many silent connections");
}

/* The owner has to fetch it: the listener does not watch it any more. */
static void listen_hand_over(struct ori_net_listener *listener, struct ori_net_pending *pending)
{
	struct ori_net_pending **end;

	epoll_ctl(listener->epoll, EPOLL_CTL_DEL, pending->conn.fd, NULL);
	listen_unlink(listener, pending);
	for (end = &listener->arrived; *end; end = &(*end)->next)
		;
	*end = pending;
}

static void listen_advance(struct ori_net_listener *listener, struct ori_net_pending *pending)
{
	switch (ori_net_step(&pending->conn)) {
	case ORIEL_AGAIN:
		break;
	case ORIEL_OK:
		listen_hand_over(listener, pending);
		break;
	case ORIEL_ERR_AUTH:
		listen_refuse(listener, pending);
		break;
	case ORIEL_ERR_PEER:
		listen_leave(listener, pending);
		break;
	case ORIEL_ERR_VERSION:
		listen_drop(listener, pending, "it uses another version of Oriel");
		break;
	case ORIEL_ERR_NOMEM:
		listen_drop(listener, pending, "there is no memory for it");
		break;
	default:
		listen_drop(listener, pending, "it sent malformed bytes");
		break;
	}
}

static void listen_expire(struct ori_net_listener *listener)
{
	struct ori_net_pending *pending, *next;

	for (pending = listener->waiting; pending; pending = next) {
		next = pending->next;
		if (ori_deadline_passed(pending->deadline))
			listen_drop(listener, pending, "it sent no hello within 10 s");
	}
}

/* The kernel assigns the lowest free number: is @fd one of the last that the process may have? */
static bool listen_is_scarce(int fd)
{
	struct rlimit files;
	rlim_t reserve;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
		return false;
	reserve = files.rlim_cur / 4 < LISTEN_RESERVE ? files.rlim_cur / 4 : LISTEN_RESERVE;
	return (rlim_t)fd >= files.rlim_cur - reserve;
}

/* Abstract names have no permissions, so that processes of other users can connect. */
static bool listen_admits(struct ori_net_listener *listener, struct ori_net_pending *pending)
{
	struct ori_address from;
	struct ucred peer;

	if (!listener->is_local) {
		if (ori_endpoint_remote(pending->conn.fd, &from) != ORIEL_OK)
			return false; /* the peer has closed it already */
		ori_endpoint_text(&from, pending->from);
		return true;
	}
	if (ori_fdsock_peer(pending->conn.fd, &peer) != ORIEL_OK)
		return false;
	pending->pid = peer.pid;
	snprintf(pending->from, sizeof(pending->from), "process %d of user %u", (int)peer.pid,
		 (unsigned)peer.uid);
	if (peer.uid != geteuid())
		ori_net_listener_warn(listener, pending->from, "it is of another user");
	return peer.uid == geteuid();
}

static void listen_add(struct ori_net_listener *listener, int fd, struct ori_net_pending *pending)
{
	ori_net_accept(&pending->conn, fd, listener->context, listener->traffic);
	if (!listen_admits(listener, pending) || listen_watch(listener, fd, pending) != ORIEL_OK) {
		ori_net_pending_free(pending);
		return;
	}
	pending->deadline = ori_deadline(LISTEN_HELLO_NS);
	pending->next = listener->waiting;
	listener->waiting = pending;
	listener->pending_count++;
	/* The first bytes are usually here already; once they are read, it is not silent. */
	listen_advance(listener, pending);
	/*
	 * The limit stays: the next connection gets the number of a closed one, and
	 * listen_is_scarce() would not see how few are left.
	 */
	if (listener->pending_count > 1 && listen_is_scarce(fd))
		listener->most = listener->pending_count - 1;
	if (listener->pending_count > listener->most)
		listen_make_room(listener);
}

static void listen_set_events(struct ori_net_listener *listener, uint32_t events)
{
	struct epoll_event event = {.events = events};

	epoll_ctl(listener->epoll, EPOLL_CTL_MOD, listener->fd, &event);
}

/*
 * No descriptor or memory is left to accept the next connection. An unproven connection makes
 * room. If there is none, the listener pauses: its socket stays readable, so that poll() would
 * return at once without any progress.
 */
static void listen_run_short(struct ori_net_listener *listener, int error)
{
	struct pollfd polled = {.fd = listener->fd, .events = POLLIN};
	char text[ORI_NET_TEXT];

	/* accept() fails for want of a descriptor even if no connection waits. */
	if (poll(&polled, 1, 0) <= 0)
		return;
	if (listener->waiting) {
		listen_make_room(listener);
		return;
	}
	snprintf(text, sizeof(text), "cannot accept a connection: %s", strerror(error));
	listen_warn(listener, text);
	listener->paused_until = ori_deadline(LISTEN_PAUSE_NS);
	listen_set_events(listener, 0);
}

static void listen_accept(struct ori_net_listener *listener)
{
	struct ori_net_pending *pending;
	unsigned left;
	int fd, error;

	for (left = LISTEN_ROUND; left && !listener->paused_until; left--) {
		pending = calloc(1, sizeof(*pending));
		fd = pending ? ori_endpoint_accept(listener->fd) : -1;
		error = errno;
		if (fd >= 0) {
			listen_add(listener, fd, pending);
			continue;
		}
		free(pending);
		if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
			listen_run_short(listener, error);
		else if (error != ECONNABORTED && error != EINTR)
			return;
	}
}

void ori_net_listener_serve(struct ori_net_listener *listener)
{
	struct epoll_event events[LISTEN_EVENTS];
	bool is_readable = false;
	int i, n;

	if (listener->epoll < 0)
		return;
	if (listener->paused_until && ori_deadline_passed(listener->paused_until)) {
		listener->paused_until = 0;
		listen_set_events(listener, EPOLLIN);
	}
	n = epoll_wait(listener->epoll, events, LISTEN_EVENTS, 0);
	for (i = 0; i < n; i++) {
		if (events[i].data.ptr)
			listen_advance(listener, events[i].data.ptr);
		else
			is_readable = true;
	}
	listen_expire(listener);
	listen_log_rests(listener, false);
	if (is_readable)
		listen_accept(listener);
}

static uint64_t listen_lines_due(const struct ori_net_lines *lines, uint64_t due)
{
	return lines->suppressed && lines->next < due ? lines->next : due;
}

uint64_t ori_net_listener_due(const struct ori_net_listener *listener)
{
	const struct ori_net_pending *pending;
	uint64_t due = listener->paused_until ? listener->paused_until : UINT64_MAX;

	for (pending = listener->waiting; pending; pending = pending->next)
		if (pending->deadline < due)
			due = pending->deadline;
	due = listen_lines_due(&listener->warnings, due);
	due = listen_lines_due(&listener->refusals, due);
	return listen_lines_due(&listener->notes, due);
}

bool ori_net_listener_make_room(struct ori_net_listener *listener)
{
	if (!listener->waiting)
		return false;
	listen_drop(listener, listen_oldest(listener), "its descriptor is needed");
	return true;
}

struct ori_net_pending *ori_net_listener_next(struct ori_net_listener *listener)
{
	struct ori_net_pending *pending = listener->arrived;

	if (pending) {
		listener->arrived = pending->next;
		pending->next = NULL;
	}
	return pending;
}
