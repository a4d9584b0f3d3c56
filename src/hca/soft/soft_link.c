/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between engines: listen, dial, accept, prove, time out, close.
 * The engine polls them and the wire sends over them.
 */
#include "hca/soft/soft_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "hca/soft/soft_address.h"
#include "hca/soft/soft_wire.h"
#include "net/fdsock.h"

#define LINK_CONNECT_NS UINT64_C(2000000000) /* for one address */
#define LINK_ANSWER_NS UINT64_C(5000000000)  /* for the acceptor's answer; it may be slow */
#define LINK_DIAL_NS UINT64_C(30000000000)   /* while acceptors close the connection */
#define LINK_PAUSE_NS UINT64_C(10000000)     /* between two rounds of addresses */
#define LINK_PENDING 64u                     /* connections */
#define LINK_PENDING_NS UINT64_C(5000000000)
#define LINK_GRACE_NS UINT64_C(20000000) /* that a pending connection has in any case */
#define LINK_LOG_NS UINT64_C(1000000000)
#define LINK_ACCEPTS 16u /* of one listener in one turn */
#define LINK_EVENTS 32

static enum oriel_status link_watch(struct soft_engine *e, int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	if (epoll_ctl(e->poll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch a socket");
	return ORIEL_OK;
}

enum oriel_status ori_soft_link_listen(struct soft_engine *e)
{
	enum oriel_status status;

	static_assert(sizeof(e->address.socket) == ORI_FDSOCK_NAME, "a name fits");
	ori_key_read(&e->key);
	e->pending_ns = LINK_PENDING_NS;
	status = ori_fdsock_listen(e->address.socket, &e->listeners[0]);
	if (status == ORIEL_OK)
		status = link_watch(e, e->listeners[0], EPOLLIN, &e->listeners[0]);
	return status;
}

enum oriel_status ori_soft_link_listen_tcp(struct soft_engine *e)
{
	enum oriel_status status;
	uint16_t port;
	int fd;

	/* HCAs of a cluster connect without sockets. */
	if (e->listeners[1] >= 0 || e->is_virtual)
		return ORIEL_OK;
	status = ori_soft_tcp_listen(&fd, &port);
	if (status != ORIEL_OK)
		return status;
	status = link_watch(e, fd, EPOLLIN, &e->listeners[1]);
	if (status != ORIEL_OK) {
		close(fd);
		return status;
	}
	e->listeners[1] = fd;
	e->address.port = port;
	return ORIEL_OK;
}

static void link_free(struct soft_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	ori_soft_outbox_close(&link->out);
	ori_soft_inbox_close(&link->in);
	free(link);
}

void ori_soft_link_close_all(struct soft_engine *e)
{
	while (e->links) {
		struct soft_link *link = e->links;

		e->links = link->next;
		link_free(link);
	}
	for (unsigned i = 0; i < 2; i++)
		if (e->listeners[i] >= 0)
			close(e->listeners[i]);
}

/*
 * QPs still refer to the link, so it is not freed. The shutdown ends
 * the peer's sending link; frames that the peer has sent already are still received.
 */
static void link_lose_out(struct soft_link *link, const char *why)
{
	struct soft_link *in;

	ori_soft_outbox_clear(&link->out);
	link->state = SOFT_LINK_LOST;
	link->deadline = SOFT_NEVER;
	snprintf(link->why, sizeof(link->why), "%s", why);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	for (in = link->engine->links; in; in = in->next)
		if (!in->is_out && in->in.cookie == link->address.cookie)
			(void)shutdown(in->fd, SHUT_WR);
}

/*
 * link_sweep() frees it later: the caller may be iterating over the list, or
 * over a batch of events that names it.
 */
static void link_lose_in(struct soft_link *link, const char *why)
{
	uint64_t cookie = link->in.cookie;
	/* A connection that was not proved, or never used, has no counterpart. */
	struct soft_link *out = cookie ? soft_link_find(link->engine, cookie) : NULL;

	close(link->fd);
	link->fd = -1;
	link->state = SOFT_LINK_LOST;
	link->deadline = 0;
	link->in.cookie = 0;
	if (out && out->state != SOFT_LINK_LOST)
		link_lose_out(out, why);
}

static void link_lose(struct soft_link *link, const char *why)
{
	ori_log(ORIEL_LOG_INFO, "software HCA: a connection is lost: %s", why);
	if (link->is_out)
		link_lose_out(link, why);
	else
		link_lose_in(link, why);
}

/* Any process that connects can cause the warning, so only one line a second is logged. */
static void link_warn(struct soft_engine *e, const char *what, const char *whom, const char *why)
{
	char more[48] = "";

	if (e->now < e->log_after) {
		e->unlogged_rejections++;
		return;
	}
	if (e->unlogged_rejections)
		snprintf(more, sizeof(more), " (and %u more since the last one)",
			 e->unlogged_rejections);
	ori_log(ORIEL_LOG_WARN, "software HCA: %s %s: %s%s", what, whom, why, more);
	e->unlogged_rejections = 0;
	e->log_after = e->now + LINK_LOG_NS;
}

static struct soft_link *link_make(struct soft_engine *e, bool is_out, int fd, bool is_tcp)
{
	struct soft_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->engine = e;
	link->is_out = is_out;
	link->deadline = SOFT_NEVER;
	link->fd = -1;
	if (is_out ? !ori_soft_outbox_open(&link->out)
		   : !ori_soft_inbox_open(&link->in, e, fd, is_tcp)) {
		link_free(link);
		return NULL;
	}
	link->fd = fd;
	link->next = e->links;
	e->links = link;
	return link;
}

static bool link_is_pending(const struct soft_link *link)
{
	return !link->is_out && link->state == SOFT_LINK_UP && link->in.is_tcp && !link->in.claimed;
}

/* The oldest pending connection, and their number. The list is newest first. */
static struct soft_link *link_find_pending(struct soft_engine *e, unsigned *count)
{
	struct soft_link *oldest = NULL;

	*count = 0;
	for (struct soft_link *link = e->links; link; link = link->next) {
		if (!link_is_pending(link))
			continue;
		oldest = link;
		++*count;
	}
	return oldest;
}

/* Close the connection. A peer may dial again, unless it got a rejection. */
static void link_turn_away(struct soft_link *link, const char *why)
{
	char whom[SOFT_TCP_TEXT];

	link_warn(link->engine, "turned away the connection from",
		  ori_soft_tcp_text(link->fd, whom), why);
	link_lose_in(link, why);
}

static bool link_is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/*
 * Close a pending connection, so that this process can still connect. False:
 * none is pending.
 */
static bool link_free_descriptor(struct soft_engine *e)
{
	unsigned count;
	struct soft_link *oldest = link_find_pending(e, &count);

	if (oldest)
		link_turn_away(oldest, "no file descriptors are left");
	return oldest != NULL;
}

static enum oriel_status link_connect_unix(struct soft_link *link)
{
	struct soft_frame *hello = &link->out.frames[link->out.count++];
	enum oriel_status status;

	*hello = (struct soft_frame){
		.h = ori_soft_hello(link->engine->address.cookie, link->address.cookie)};
	do
		status = ori_fdsock_connect(link->address.socket, geteuid(), 0, 0, &link->fd);
	while (status == ORIEL_ERR_NOMEM && link_free_descriptor(link->engine));
	if (status != ORIEL_OK)
		return status;
	ori_soft_tcp_tune(link->fd, false);
	link->state = SOFT_LINK_UP;
	return link_watch(link->engine, link->fd, EPOLLOUT | EPOLLRDHUP | EPOLLET, link);
}

/*
 * All addresses have been tried. A silent acceptor may be a slow peer; one that
 * closes a pending connection has too many of them, but not for ever.
 */
static void link_end_round(struct soft_link *link)
{
	struct soft_engine *e = link->engine;

	if (!link->was_silent && !(link->was_cut && e->now < link->dial_until)) {
		link_lose(link, link->refusal ? link->refusal : "no address of the peer answers");
		return;
	}
	link->attempt = 0;
	link->was_silent = link->was_cut = false;
	link->refusal = NULL;
	link->deadline = e->now + LINK_PAUSE_NS;
}

/* Try the next address. */
static void link_connect_tcp(struct soft_link *link)
{
	struct soft_engine *e = link->engine;
	bool has_address;

	if (link->fd >= 0)
		close(link->fd);
	link->state = SOFT_LINK_CONNECTING;
	do
		has_address = ori_soft_tcp_connect(&link->address, &e->address, link->road,
						   link->attempt, &link->fd);
	while (has_address && link->fd < 0 && link_is_short(errno) && link_free_descriptor(e));
	link->attempt++;
	if (!has_address) {
		link_end_round(link);
		return;
	}
	if (link->fd < 0 && link_is_short(errno)) {
		link->refusal = "no file descriptors are left";
		link->was_cut = true;
	}
	link->deadline = link->fd < 0 ? e->now : e->now + LINK_CONNECT_NS;
	if (link->fd >= 0 &&
	    link_watch(e, link->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, link) != ORIEL_OK)
		link_lose(link, "cannot watch its socket");
}

enum oriel_status ori_soft_link_to(struct soft_engine *e, const struct soft_address *address,
				   enum soft_road road, struct soft_link **out)
{
	struct soft_link *link = soft_link_find(e, address->cookie);
	bool is_unix =
		road == SOFT_ROAD_BEST && ori_soft_address_is_intranode(address, &e->address);

	if (link) {
		*out = link;
		return ORIEL_OK;
	}
	if (!is_unix && !address->port)
		return ori_fail(
			ORIEL_ERR_NO_PATH,
			"the peer's software HCA listens on no TCP port: it takes all "
			"peers for processes of its own machine, or ORIEL_SOFT_HCA differs");
	link = link_make(e, true, -1, !is_unix);
	if (!link)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a connection of a software HCA");
	link->address = *address;
	link->road = road;
	link->dial_until = e->now + LINK_DIAL_NS;
	if (!is_unix)
		link_connect_tcp(link);
	else if (link_connect_unix(link) != ORIEL_OK)
		link_lose(link, oriel_last_error());
	*out = link;
	return ORIEL_OK;
}

/* The memory of a request was unmapped after the request had been checked. */
static void link_miss(struct soft_link *link)
{
	struct soft_header h;
	enum soft_written dropped = ori_soft_outbox_drop(&link->out, &h);

	if (dropped != SOFT_WRITTEN_NONE)
		ori_soft_frame_miss(link->engine, &h);
	if (dropped == SOFT_WRITTEN_LOST)
		link_lose(link,
			  "memory of a WRITE with immediate data was unmapped while it was sent");
}

static bool link_write(struct soft_link *link)
{
	switch (ori_soft_outbox_write(&link->out, link->fd)) {
	case SOFT_WRITTEN_NONE:
		return false;
	case SOFT_WRITTEN_LOST:
		link_lose(link, "cannot send to the peer");
		break;
	case SOFT_WRITTEN_MISSED:
		link_miss(link);
		break;
	case SOFT_WRITTEN:
		break;
	}
	return true;
}

static void link_reject(struct soft_link *link, const char *why)
{
	if (link->in.is_tcp)
		ori_soft_greet_reject(link->fd);
	link_turn_away(link, why);
}

static void link_expire(struct soft_link *link)
{
	if (!link->is_out) {
		link_turn_away(link, "it proved nothing in time");
		return;
	}
	link->was_silent |= link->state == SOFT_LINK_GREETING;
	link_connect_tcp(link);
}

/*
 * Runs after arrived frames were taken: a passed deadline alone says nothing if
 * this process did not run.
 */
static void link_sweep(struct soft_engine *e)
{
	struct soft_link **at = &e->links;

	for (struct soft_link *link = e->links; link; link = link->next)
		if (link->state != SOFT_LINK_LOST && link->deadline <= e->now)
			link_expire(link);
	while (*at) {
		struct soft_link *link = *at;

		if (link->is_out || link->state != SOFT_LINK_LOST) {
			at = &link->next;
			continue;
		}
		*at = link->next;
		link_free(link);
	}
	e->is_overdue = false;
}

static void link_rest(struct soft_engine *e, unsigned which, uint64_t until)
{
	struct epoll_event event = {.events = until == SOFT_NEVER ? EPOLLIN : 0,
				    .data.ptr = &e->listeners[which]};

	e->accept_at[which] = until;
	(void)epoll_ctl(e->poll, EPOLL_CTL_MOD, e->listeners[which], &event);
}

bool ori_soft_link_flush(struct soft_engine *e)
{
	bool is_any = false;

	for (struct soft_link *link = e->links; link; link = link->next) {
		e->is_overdue |= link->deadline <= e->now;
		if (link->is_out && link->state == SOFT_LINK_UP)
			is_any |= link_write(link);
	}
	for (unsigned i = 0; i < 2; i++)
		if (e->accept_at[i] <= e->now)
			link_rest(e, i, SOFT_NEVER);
	return is_any;
}

uint64_t ori_soft_link_due(const struct soft_engine *e)
{
	uint64_t due = e->accept_at[0] < e->accept_at[1] ? e->accept_at[0] : e->accept_at[1];

	for (struct soft_link *link = e->links; link; link = link->next)
		if (link->deadline < due)
			due = link->deadline;
	return due;
}

/* Take the acceptor's answer; no frame leaves before the proof. */
static void link_greet(struct soft_link *link)
{
	struct soft_engine *e = link->engine;
	char whom[SOFT_TCP_TEXT];
	const char *why = NULL;

	switch (ori_soft_greet_connect(&link->greet, e, link->address.cookie, link->fd, &why)) {
	case SOFT_GREETING_AGAIN:
		return;
	case SOFT_GREETING_DONE:
		link->state = SOFT_LINK_UP;
		link->deadline = SOFT_NEVER;
		return;
	case SOFT_GREETING_CUT:
		link->was_cut = true;
		break;
	case SOFT_GREETING_REJECTED:
		link->refusal = why;
		link_warn(e, "no connection to", ori_soft_tcp_text(link->fd, whom), why);
		break;
	}
	link_connect_tcp(link);
}

static void link_out_event(struct soft_link *link, uint32_t events)
{
	int error = 0;
	socklen_t length = sizeof(error);

	link->out.is_full = false;
	if (link->state == SOFT_LINK_CONNECTING) {
		(void)getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error || (events & (EPOLLERR | EPOLLHUP))) {
			link->deadline = link->engine->now;
		} else if (events & EPOLLOUT) {
			link->state = SOFT_LINK_GREETING;
			link->deadline = link->engine->now + LINK_ANSWER_NS;
			link->greet = (struct soft_greet){.length = 0};
		}
	}
	if (link->state == SOFT_LINK_GREETING)
		link_greet(link);
	if (link->state == SOFT_LINK_UP && (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)))
		link_lose(link, "the peer closed the connection");
}

static void link_in_event(struct soft_link *link)
{
	const char *why;

	if (link->state == SOFT_LINK_LOST)
		return;
	why = ori_soft_inbox_take(&link->in);
	if (link->in.claimed)
		link->deadline = SOFT_NEVER;
	if (!why)
		return;
	if (!link->in.claimed && !link->in.is_closed)
		link_reject(link, why);
	else
		link_lose(link, why);
}

static void link_admit(struct soft_engine *e, int fd, bool is_tcp)
{
	struct soft_link *link = link_make(e, false, fd, is_tcp);

	if (!link) {
		close(fd);
		return;
	}
	ori_fork_socket(fd);
	link->state = SOFT_LINK_UP;
	if (is_tcp)
		link->deadline = e->now + e->pending_ns;
	if (is_tcp && !ori_soft_greet_challenge(&link->in.auth, fd))
		link_lose(link, "cannot send it a challenge");
	else if (link_watch(e, fd, EPOLLIN, link) != ORIEL_OK)
		link_lose(link, "cannot watch its socket");
}

/*
 * Close a pending connection, so that listener @which has room for another one.
 * False: the listener rests. Each connection has had LINK_GRACE_NS to prove
 * itself, however many arrive.
 */
static bool link_make_room(struct soft_engine *e, unsigned which, const char *why)
{
	uint64_t until = e->now + LINK_PAUSE_NS, grace;
	struct soft_link *oldest;
	unsigned count;

	oldest = link_find_pending(e, &count);
	if (oldest) {
		grace = e->pending_ns < LINK_GRACE_NS ? e->pending_ns : LINK_GRACE_NS;
		until = oldest->deadline - e->pending_ns + grace;
		if (until <= e->now) {
			link_turn_away(oldest, why);
			return true;
		}
	} else {
		link_warn(e, "no connection is accepted", "for now", why);
	}
	link_rest(e, which, until);
	return false;
}

static bool link_is_full(struct soft_engine *e)
{
	unsigned count;

	(void)link_find_pending(e, &count);
	return count >= LINK_PENDING;
}

static enum oriel_status link_accept_one(struct soft_engine *e, unsigned which, int *fd)
{
	struct ucred peer;

	if (which == 0)
		return ori_fdsock_accept_once(e->listeners[0], fd, &peer);
	*fd = accept4(e->listeners[1], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (*fd >= 0)
		return ORIEL_OK;
	return link_is_short(errno) ? ORIEL_ERR_NOMEM : ORIEL_AGAIN;
}

static void link_accept(struct soft_engine *e, unsigned which)
{
	for (unsigned i = 0; i < LINK_ACCEPTS; i++) {
		enum oriel_status status;
		int fd;

		if (which == 1 && link_is_full(e) &&
		    !link_make_room(e, which, "too many connections are pending"))
			return;
		status = link_accept_one(e, which, &fd);
		if (status == ORIEL_OK)
			link_admit(e, fd, which == 1);
		else if (status != ORIEL_ERR_NOMEM ||
			 !link_make_room(e, which, "no file descriptors are left"))
			return;
	}
}

bool ori_soft_link_poll(struct soft_engine *e)
{
	struct epoll_event events[LINK_EVENTS];
	int count = epoll_wait(e->poll, events, LINK_EVENTS, 0);

	for (int i = 0; i < count; i++) {
		void *what = events[i].data.ptr;

		if (what == &e->event) {
			uint64_t times;

			(void)!read(e->event, &times, sizeof(times));
		} else if (what == &e->listeners[0] || what == &e->listeners[1]) {
			link_accept(e, what == &e->listeners[1]);
		} else {
			struct soft_link *link = what;

			if (link->is_out)
				link_out_event(link, events[i].events);
			else
				link_in_event(link);
		}
	}
	if (e->is_overdue)
		link_sweep(e);
	return count > 0;
}

void ori_soft_link_forget(struct soft_engine *e, const struct soft_mr *mr)
{
	for (struct soft_link *link = e->links; link; link = link->next)
		if (!link->is_out)
			ori_soft_inbox_forget(&link->in, mr);
		else if (!ori_soft_outbox_detach(&link->out, mr))
			link_lose(link, "no memory for the rest of a payload");
}
