/* SPDX-License-Identifier: Apache-2.0 */
#include "hca/soft_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "hca/soft_address.h"
#include "hca/soft_inbox.h"
#include "hca/soft_outbox.h"
#include "mem/fdsock.h"

#define LINK_CONNECT_NS UINT64_C(2000000000) /* for one address */
#define LINK_EVENTS 32

enum link_state {
	LINK_CONNECTING,
	LINK_UP,
	LINK_LOST,
};

struct soft_link {
	struct soft_link *next;
	struct soft_engine *engine;
	enum link_state state;
	int fd;
	bool is_out;

	/* out */
	struct soft_address address; /* of the engine at the other end */
	enum soft_road road;
	unsigned attempt;  /* addresses tried */
	uint64_t deadline; /* of this attempt */
	struct soft_outbox out;

	struct soft_inbox in;
};

static enum oriel_status link_watch(struct soft_engine *e, int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	if (epoll_ctl(e->poll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch a socket");
	return ORIEL_OK;
}

enum oriel_status ori_soft_link_listen(struct soft_engine *e)
{
	enum oriel_status st;

	static_assert(sizeof(e->address.socket) == ORI_FDSOCK_NAME, "a name fits");
	st = ori_fdsock_listen(e->address.socket, &e->listeners[0]);
	if (st == ORIEL_OK)
		st = link_watch(e, e->listeners[0], EPOLLIN, &e->listeners[0]);
	return st;
}

enum oriel_status ori_soft_link_listen_tcp(struct soft_engine *e)
{
	enum oriel_status st;
	uint16_t port;
	int fd;

	/* Adapters of a cluster meet without sockets. */
	if (e->listeners[1] >= 0 || e->is_virtual)
		return ORIEL_OK;
	st = ori_soft_tcp_listen(&fd, &port);
	if (st != ORIEL_OK)
		return st;
	st = link_watch(e, fd, EPOLLIN, &e->listeners[1]);
	if (st != ORIEL_OK) {
		close(fd);
		return st;
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

struct soft_link *ori_soft_link_find(struct soft_engine *e, uint64_t cookie)
{
	struct soft_link *link;

	for (link = e->links; link; link = link->next)
		if (link->is_out && link->address.cookie == cookie)
			return link;
	return NULL;
}

/*
 * QPs hold on to it. The peer hears of it where it sends; what it has sent
 * already is still taken.
 */
static void link_lose_out(struct soft_link *link)
{
	struct soft_link *in;

	ori_soft_outbox_clear(&link->out);
	link->state = LINK_LOST;
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	for (in = link->engine->links; in; in = in->next)
		if (!in->is_out && in->in.cookie == link->address.cookie)
			(void)shutdown(in->fd, SHUT_WR);
}

static void link_lose_in(struct soft_link *link)
{
	struct soft_link **at = &link->engine->links;
	struct soft_link *out = ori_soft_link_find(link->engine, link->in.cookie);

	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	link_free(link);
	if (out && out->state != LINK_LOST)
		link_lose_out(out);
}

static void link_lose(struct soft_link *link, const char *why)
{
	ori_log(ORIEL_LOG_INFO, "software HCA: a connection is lost: %s", why);
	if (link->is_out)
		link_lose_out(link);
	else
		link_lose_in(link);
}

static struct soft_link *link_make(struct soft_engine *e, bool is_out)
{
	struct soft_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->engine = e;
	link->is_out = is_out;
	link->fd = -1;
	if (is_out ? !ori_soft_outbox_open(&link->out) : !ori_soft_inbox_open(&link->in, e)) {
		link_free(link);
		return NULL;
	}
	link->next = e->links;
	e->links = link;
	return link;
}

static void link_hello(struct soft_link *link)
{
	struct soft_frame *f = &link->out.frames[link->out.count++];

	*f = (struct soft_frame){.h = {.magic = SOFT_WIRE_MAGIC,
				       .type = SOFT_HELLO,
				       .packets = SOFT_WIRE_VERSION,
				       .operand = link->engine->address.cookie,
				       .compare = link->address.cookie}};
}

static enum oriel_status link_connect_unix(struct soft_link *link)
{
	enum oriel_status st;

	st = ori_fdsock_connect(link->address.socket, geteuid(), 0, 0, &link->fd);
	if (st != ORIEL_OK)
		return st;
	ori_soft_tcp_tune(link->fd, false);
	link->state = LINK_UP;
	return link_watch(link->engine, link->fd, EPOLLOUT | EPOLLRDHUP | EPOLLET, link);
}

/* Begin with the next address; the link is lost if there is none. */
static void link_connect_tcp(struct soft_link *link)
{
	struct soft_engine *e = link->engine;

	if (link->fd >= 0)
		close(link->fd);
	if (!ori_soft_tcp_connect(&link->address, &e->address, link->road, link->attempt++,
				  &link->fd)) {
		link_lose(link, "no address of the peer answers");
		return;
	}
	link->deadline = link->fd < 0 ? e->now : e->now + LINK_CONNECT_NS;
	if (link->fd >= 0 &&
	    link_watch(e, link->fd, EPOLLOUT | EPOLLRDHUP | EPOLLET, link) != ORIEL_OK)
		link_lose(link, "it cannot be watched");
}

enum oriel_status ori_soft_link_to(struct soft_engine *e, const struct soft_address *address,
				   enum soft_road road, struct soft_link **out)
{
	struct soft_link *link = ori_soft_link_find(e, address->cookie);
	bool is_unix = road == SOFT_ROAD_BEST && ori_soft_address_is_near(address, &e->address);

	if (link) {
		*out = link;
		return ORIEL_OK;
	}
	if (!is_unix && !address->port)
		return ori_fail(
			ORIEL_ERR_NO_PATH,
			"the peer's software HCA listens on no TCP port: it takes all "
			"peers for processes of its own machine, or ORIEL_SOFT_HCA differs");
	link = link_make(e, true);
	if (!link)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a connection of a software HCA");
	link->address = *address;
	link->road = road;
	link_hello(link);
	if (!is_unix)
		link_connect_tcp(link);
	else if (link_connect_unix(link) != ORIEL_OK)
		link_lose(link, oriel_last_error());
	*out = link;
	return ORIEL_OK;
}

bool ori_soft_link_is_lost(const struct soft_link *link)
{
	return link->state == LINK_LOST;
}

struct soft_frame *ori_soft_link_room(struct soft_link *link)
{
	return link->out.count < SOFT_OUTBOX ? &link->out.frames[link->out.count] : NULL;
}

void ori_soft_link_push(struct soft_link *link)
{
	link->out.count++;
}

static bool link_write(struct soft_link *link)
{
	int written = ori_soft_outbox_write(&link->out, link->fd);

	if (written < 0)
		link_lose(link, "the peer does not take any more");
	return written != 0;
}

bool ori_soft_link_flush(struct soft_engine *e)
{
	bool is_any = false;

	for (struct soft_link *link = e->links; link; link = link->next) {
		if (!link->is_out)
			continue;
		if (link->state == LINK_CONNECTING && link->deadline <= e->now)
			link_connect_tcp(link);
		if (link->state == LINK_UP)
			is_any |= link_write(link);
	}
	return is_any;
}

uint64_t ori_soft_link_due(const struct soft_engine *e)
{
	uint64_t due = SOFT_NEVER;

	for (struct soft_link *link = e->links; link; link = link->next)
		if (link->is_out && link->state == LINK_CONNECTING && link->deadline < due)
			due = link->deadline;
	return due;
}

static void link_out_event(struct soft_link *link, uint32_t events)
{
	int error = 0;
	socklen_t length = sizeof(error);

	link->out.is_full = false;
	if (link->state == LINK_CONNECTING) {
		(void)getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error || (events & (EPOLLERR | EPOLLHUP)))
			link->deadline = link->engine->now;
		else if (events & EPOLLOUT)
			link->state = LINK_UP;
	} else if (link->state == LINK_UP && (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))) {
		link_lose(link, "the peer has closed it");
	}
}

static void link_in_event(struct soft_link *link)
{
	const char *why = ori_soft_inbox_take(&link->in, link->fd);

	if (why)
		link_lose(link, why);
}

static void link_accept(struct soft_engine *e, unsigned which)
{
	struct soft_link *link;
	struct ucred peer;
	int fd = -1;

	if (which == 0 && ori_fdsock_accept(e->listeners[0], 0, &fd, &peer) != ORIEL_OK)
		return;
	if (which == 1)
		fd = accept4(e->listeners[1], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	link = link_make(e, false);
	if (!link) {
		close(fd);
		return;
	}
	link->fd = fd;
	link->state = LINK_UP;
	if (link_watch(e, fd, EPOLLIN, link) != ORIEL_OK)
		link_lose(link, "it cannot be watched");
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
	return count > 0;
}

void ori_soft_link_forget(struct soft_engine *e, const struct soft_mr *mr)
{
	for (struct soft_link *link = e->links; link; link = link->next)
		if (!link->is_out)
			ori_soft_inbox_forget(&link->in, mr);
		else if (!ori_soft_outbox_detach(&link->out, mr))
			link_lose(link, "no memory to finish what it began");
}

void ori_soft_link_divert(struct soft_engine *e, const struct soft_qp *qp)
{
	for (struct soft_link *link = e->links; link; link = link->next)
		if (!link->is_out)
			ori_soft_inbox_divert(&link->in, qp);
}
