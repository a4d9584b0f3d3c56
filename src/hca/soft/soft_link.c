/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between engines: listen, dial, accept, greet, time out, close.
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
#include "base/secret.h"
#include "hca/soft/soft_wire.h"
#include "net/endpoint.h"
#include "net/fdsock.h"

#define LINK_CONNECT_NS UINT64_C(2000000000) /* for one address */
#define LINK_ANSWER_NS UINT64_C(10000000000) /* for TLS and the welcome, of a slow peer */
#define LINK_DIAL_NS UINT64_C(30000000000)   /* until one of the addresses must admit it */
#define LINK_PAUSE_NS UINT64_C(10000000)     /* between two rounds of addresses */
#define LINK_REST_NS UINT64_C(250000000)     /* ... one of which the network did not reach */
#define LINK_PEERS 64u                       /* whose connections may arrive at once */
#define LINK_LOG_NS UINT64_C(1000000000)
#define LINK_EVENTS 32
#define LINK_SOCKET_BYTES (1 << 20)

static enum oriel_status link_watch(struct soft_engine *e, int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	if (epoll_ctl(e->poll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch a socket");
	return ORIEL_OK;
}

/* Takes over @fd, also on failure. */
static enum oriel_status link_serve(struct soft_engine *e, struct ori_net_listener *listener,
				    struct ori_tls_context *tls, int fd)
{
	enum oriel_status status;

	ori_net_listener_init(listener, tls, LINK_PEERS, NULL);
	status = ori_net_listener_open(listener, fd);
	if (status == ORIEL_OK)
		status = link_watch(e, listener->epoll, EPOLLIN, listener);
	if (status != ORIEL_OK)
		ori_net_listener_close(listener);
	return status;
}

enum oriel_status ori_soft_link_listen(struct soft_engine *e)
{
	enum oriel_status status;
	int fd;

	static_assert(sizeof(e->address.socket) == ORI_FDSOCK_NAME, "a name fits");
	e->key = ori_secret_alloc(sizeof(*e->key));
	if (!e->key)
		return ori_fail_nomem(sizeof(*e->key), "the job key");
	status = ori_key_read(e->key);
	if (status != ORIEL_OK)
		return status;
	status = ori_fdsock_listen(e->address.socket, &fd);
	return status == ORIEL_OK ? link_serve(e, &e->listeners[0], NULL, fd) : status;
}

/* Before the first connection over TCP. */
static enum oriel_status link_prepare_tls(struct soft_engine *e)
{
	return e->key->length && !e->tls ? ori_tls_context_create(e->key, &e->tls) : ORIEL_OK;
}

enum oriel_status ori_soft_link_listen_tcp(struct soft_engine *e)
{
	struct ori_hosts hosts;
	enum oriel_status status;
	uint16_t port;
	int fd;

	/* HCAs of a cluster connect without sockets. */
	if (e->listeners[1].fd >= 0 || e->is_virtual)
		return ORIEL_OK;
	status = link_prepare_tls(e);
	if (status == ORIEL_OK)
		status = ori_endpoint_listen_all(&hosts, &port, &fd);
	if (status == ORIEL_OK)
		status = link_serve(e, &e->listeners[1], e->tls, fd);
	if (status == ORIEL_OK)
		e->address.port = port;
	return status;
}

static void link_free(struct soft_link *link)
{
	ori_net_close(&link->net);
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
		ori_net_listener_close(&e->listeners[i]);
	ori_tls_context_destroy(e->tls);
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
	ori_net_close(&link->net);
	for (in = link->engine->links; in; in = in->next)
		if (!in->is_out && in->in.claimed == link->address.cookie)
			(void)shutdown(in->net.fd, SHUT_WR);
}

/*
 * link_sweep() frees it later: the caller may be iterating over the list, or
 * over a batch of events that names it.
 */
static void link_lose_in(struct soft_link *link, const char *why)
{
	uint64_t cookie = link->in.cookie;
	/* A connection without a hello, or never used, has no counterpart. */
	struct soft_link *out = cookie ? soft_link_find(link->engine, cookie) : NULL;

	ori_net_close(&link->net);
	link->state = SOFT_LINK_LOST;
	link->deadline = 0;
	link->in.cookie = 0;
	if (out && out->state != SOFT_LINK_LOST)
		link_lose_out(out, why);
}

static void link_lose(struct soft_link *link, const char *why)
{
	bool is_doubtful = link->net.doubt != NULL;

	ori_log(is_doubtful ? ORIEL_LOG_WARN : ORIEL_LOG_DEBUG,
		"software HCA: a connection is lost: %s", why);
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

static struct soft_link *link_make(struct soft_engine *e, bool is_out)
{
	struct soft_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	ori_net_open(&link->net, -1, NULL);
	link->engine = e;
	link->is_out = is_out;
	link->deadline = SOFT_NEVER;
	if (is_out ? !ori_soft_outbox_open(&link->out)
		   : !ori_soft_inbox_open(&link->in, e, &link->net)) {
		link_free(link);
		return NULL;
	}
	link->next = e->links;
	e->links = link;
	return link;
}

static bool link_is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Without this option a socket is slower, not wrong. */
static void link_tune(int fd)
{
	int bytes = LINK_SOCKET_BYTES;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static void link_await_look(struct soft_link *link)
{
	link->hearing.at = link->engine->now;
	link->deadline = link->hearing.at + ORI_HEARING_NS;
}

static void link_look(struct soft_link *link)
{
	struct soft_engine *e = link->engine;
	bool is_lost = ori_hearing_lost(&link->hearing, link->net.fd, e->now, e->silent_looks_max);

	link_await_look(link);
	if (!is_lost)
		return;
	snprintf(link->refusal, SOFT_WHY, "the peer's host has acknowledged nothing for %u s",
		 link->hearing.silent);
	link_lose(link, link->refusal);
}

/* Close an unproven connection, so that this process can still connect. False: there is none. */
static bool link_make_room(struct soft_engine *e)
{
	return ori_net_listener_make_room(&e->listeners[1]) ||
	       ori_net_listener_make_room(&e->listeners[0]);
}

/*
 * All addresses have been tried. A silent acceptor may be a slow peer; one that closes a pending
 * connection has too many of them, but not for ever. A network that did not carry one attempt may
 * carry the next.
 */
static void link_end_round(struct soft_link *link)
{
	struct soft_engine *e = link->engine;
	bool may_admit = (link->was_cut || link->was_unreached) && e->now < link->dial_until;

	if (!link->was_silent && !may_admit) {
		if (!*link->refusal)
			snprintf(link->refusal, SOFT_WHY, "%s",
				 link->was_unreached ? "no address of the peer answers"
						     : "no process listens at the peer's port");
		link_lose(link, link->refusal);
		return;
	}
	link->deadline = e->now + (link->was_unreached ? LINK_REST_NS : LINK_PAUSE_NS);
	link->attempt = 0;
	link->was_silent = link->was_cut = link->was_unreached = false;
	link->refusal[0] = '\0';
}

/*
 * No connection of TCP to this address. A refusal proves that no process listens there; all else
 * may be the network. In LINK_CONNECT_NS TCP sends its first packet twice (RFC 6298: after 1 s).
 * Where every fifth packet is lost each way, 57 of 1000 such attempts failed, and 24 of 100 that
 * had to ask for the machine first (ARP).
 */
static void link_miss_address(struct soft_link *link, int error)
{
	struct soft_engine *e = link->engine;
	struct ori_address to =
		ori_soft_address_on(link->road, &link->address, &e->address, link->attempt - 1);
	char whom[ORI_ENDPOINT_LENGTH];

	link->was_unreached |= error != ECONNREFUSED;
	ori_log(ORIEL_LOG_DEBUG, "software HCA: no connection to %s: %s",
		ori_endpoint_text(&to, whom), strerror(error));
}

static bool link_dial_unix(struct soft_link *link)
{
	enum oriel_status status;
	int fd;

	do
		status = ori_fdsock_connect(link->address.socket, geteuid(), 0, 0, &fd);
	while (status == ORIEL_ERR_NOMEM && link_make_room(link->engine));
	if (status == ORIEL_OK) {
		ori_net_open(&link->net, fd, NULL);
		return true;
	}
	/* There is no other address: unless this one is busy, the peer has exited. */
	link->was_cut = status == ORIEL_ERR_NOMEM;
	link->was_silent = status == ORIEL_ERR_TIMEOUT;
	snprintf(link->refusal, SOFT_WHY, "%s", oriel_last_error());
	return false;
}

static bool link_dial_tcp(struct soft_link *link, const struct ori_address *to)
{
	struct soft_engine *e = link->engine;
	bool is_begun;

	do
		is_begun = ori_net_dial(&link->net, to, e->tls, NULL);
	while (!is_begun && link_is_short(errno) && link_make_room(e));
	if (!is_begun && link_is_short(errno)) {
		snprintf(link->refusal, SOFT_WHY, "no file descriptors are left");
		link->was_cut = true;
	} else if (!is_begun) {
		link_miss_address(link, errno);
	}
	return is_begun;
}

/* Try the next address; there is one unix socket. */
static void link_connect(struct soft_link *link)
{
	struct soft_engine *e = link->engine;
	unsigned attempt = link->attempt++;
	struct ori_address to =
		ori_soft_address_on(link->road, &link->address, &e->address, attempt);
	bool is_begun;

	ori_net_close(&link->net);
	link->state = SOFT_LINK_CONNECTING;
	link->has_greeted = false;
	if (link->is_unix ? attempt > 0 : !to.family) {
		link_end_round(link);
		return;
	}
	is_begun = link->is_unix ? link_dial_unix(link) : link_dial_tcp(link, &to);
	link->deadline = is_begun ? e->now + LINK_CONNECT_NS : e->now;
	if (!is_begun)
		return;
	link_tune(link->net.fd);
	if (link_watch(e, link->net.fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, link) !=
	    ORIEL_OK)
		link_lose(link, "cannot watch its socket");
}

enum oriel_status ori_soft_link_to(struct soft_engine *e, const struct soft_address *address,
				   enum soft_road road, struct soft_link **out)
{
	struct soft_link *link = soft_link_find(e, address->cookie);
	bool is_unix =
		road == SOFT_ROAD_BEST && ori_soft_address_is_intranode(address, &e->address);
	enum oriel_status status;

	if (link) {
		*out = link;
		return ORIEL_OK;
	}
	if (!is_unix && !address->port)
		return ori_fail(
			ORIEL_ERR_NO_PATH,
			"the peer's software HCA listens on no TCP port: it takes all "
			"peers for processes of its own machine, or ORIEL_SOFT_HCA differs");
	status = is_unix ? ORIEL_OK : link_prepare_tls(e);
	if (status != ORIEL_OK)
		return status;
	link = link_make(e, true);
	if (!link)
		return ori_fail_nomem(sizeof(*link), "a connection of a software HCA");
	link->address = *address;
	link->road = road;
	link->dial_until = e->now + LINK_DIAL_NS;
	link->is_unix = is_unix;
	link_connect(link);
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
	switch (ori_soft_outbox_write(&link->out, &link->net)) {
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

/* The deadline of @link has passed. */
static void link_expire(struct soft_link *link)
{
	bool is_dialling = link->state == SOFT_LINK_CONNECTING && !link->is_unix;

	if (link->state == SOFT_LINK_UP) {
		link_look(link);
		return;
	}
	/* Between two attempts there is no socket. */
	if (is_dialling && link->net.fd >= 0)
		link_miss_address(link, ETIMEDOUT);
	link->was_silent |= link->state == SOFT_LINK_GREETING;
	link_connect(link);
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

bool ori_soft_link_flush(struct soft_engine *e)
{
	bool is_any = false;

	for (struct soft_link *link = e->links; link; link = link->next) {
		e->is_overdue |= link->deadline <= e->now;
		if (link->is_out && link->state == SOFT_LINK_UP)
			is_any |= link_write(link);
	}
	return is_any;
}

uint64_t ori_soft_link_due(const struct soft_engine *e)
{
	uint64_t due = ori_net_listener_due(&e->listeners[0]);
	uint64_t other = ori_net_listener_due(&e->listeners[1]);

	if (other < due)
		due = other;
	for (struct soft_link *link = e->links; link; link = link->next)
		if (link->deadline < due)
			due = link->deadline;
	return due;
}

static void link_warn_refusal(struct soft_link *link)
{
	char whom[ORI_ENDPOINT_LENGTH] = "the peer";
	struct ori_address at;

	if (ori_endpoint_remote(link->net.fd, &at) == ORIEL_OK)
		ori_endpoint_text(&at, whom);
	link_warn(link->engine, "no connection to", whom, link->refusal);
}

/* Connect, prove the key over TCP, await the welcome: no frame leaves before. */
static void link_greet(struct soft_link *link)
{
	struct soft_engine *e = link->engine;
	enum oriel_status status = ori_soft_greet_connect(&link->net, e, link->address.cookie,
							  &link->has_greeted, link->refusal);

	if (link->state == SOFT_LINK_CONNECTING && link->net.state != ORI_NET_CONNECTING) {
		link->state = SOFT_LINK_GREETING;
		link->deadline = e->now + LINK_ANSWER_NS;
	}
	if (status == ORIEL_AGAIN)
		return;
	if (status == ORIEL_OK) {
		link->state = SOFT_LINK_UP;
		link->deadline = SOFT_NEVER;
		if (!link->is_unix)
			link_await_look(link);
		return;
	}
	if (status != ORIEL_ERR_PEER)
		link_warn_refusal(link);
	else if (link->state == SOFT_LINK_GREETING)
		link->was_cut = true;
	else
		link_miss_address(link, errno);
	link_connect(link);
}

/* The peer sends nothing but an alert of TLS: it has received bytes that this side did not send. */
static bool link_has_alert(struct soft_link *link)
{
	size_t got;
	char byte;

	return link->net.tls &&
	       ori_net_stream_read(&link->net, &byte, sizeof(byte), &got) == ORIEL_ERR_AUTH;
}

static void link_end(struct soft_link *link)
{
	int error = ori_endpoint_outcome(link->net.fd);

	if (!error || error == EINPROGRESS) {
		link_lose(link, "the peer closed the connection");
		return;
	}
	snprintf(link->refusal, SOFT_WHY, "the connection broke: %s", strerror(error));
	link_lose(link, link->refusal);
}

static void link_out_event(struct soft_link *link, uint32_t events)
{
	link->out.is_full = false;
	if (link->state == SOFT_LINK_CONNECTING || link->state == SOFT_LINK_GREETING)
		link_greet(link);
	if (link->state != SOFT_LINK_UP)
		return;
	if (link_has_alert(link))
		link_lose(link, "the connection has bytes that were altered on the way");
	else if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))
		link_end(link);
}

static void link_in_event(struct soft_link *link)
{
	const char *why;

	if (link->state == SOFT_LINK_LOST)
		return;
	why = ori_soft_inbox_take(&link->in);
	if (why)
		link_lose(link, why);
}

/* The hello of a peer has arrived. Without a welcome it dials again, unless it is refused. */
static void link_admit(struct soft_engine *e, struct ori_net_listener *listener,
		       struct ori_net_pending *arrived)
{
	struct soft_link *link;
	uint64_t from;
	const char *flaw = ori_soft_greet_accept(&arrived->conn, e, &from);

	if (flaw) {
		ori_net_listener_refuse(listener, arrived->from, ORIEL_ERR_PROTOCOL, flaw);
		return;
	}
	link = link_make(e, false);
	if (!link)
		return;
	ori_net_move(&link->net, &arrived->conn);
	link->in.claimed = from;
	link->state = SOFT_LINK_UP;
	if (link_watch(e, link->net.fd, EPOLLIN, link) != ORIEL_OK)
		link_lose(link, "cannot watch its socket");
	else if (!ori_soft_greet_welcome(&link->net))
		link_lose(link, "the peer closed the connection");
}

static void link_accept(struct soft_engine *e, struct ori_net_listener *listener)
{
	struct ori_net_pending *arrived;

	ori_net_listener_serve(listener);
	while ((arrived = ori_net_listener_next(listener))) {
		link_admit(e, listener, arrived);
		ori_net_pending_free(arrived);
	}
}

/* Links whose inbox has not taken all that it holds. */
static void link_take_rest(struct soft_engine *e)
{
	e->is_unread = false;
	for (struct soft_link *link = e->links; link; link = link->next)
		if (!link->is_out && link->in.is_unread)
			link_in_event(link);
}

bool ori_soft_link_poll(struct soft_engine *e)
{
	struct epoll_event events[LINK_EVENTS];
	int count = epoll_wait(e->poll, events, LINK_EVENTS, 0);
	bool is_unread = e->is_unread;

	if (is_unread)
		link_take_rest(e);
	for (int i = 0; i < count; i++) {
		void *what = events[i].data.ptr;

		if (what == &e->event) {
			uint64_t times;

			(void)!read(e->event, &times, sizeof(times));
		} else if (what == &e->listeners[0] || what == &e->listeners[1]) {
			link_accept(e, what);
		} else {
			struct soft_link *link = what;

			if (link->is_out)
				link_out_event(link, events[i].events);
			else
				link_in_event(link);
		}
	}
	for (unsigned i = 0; i < 2; i++)
		if (ori_net_listener_due(&e->listeners[i]) <= e->now)
			link_accept(e, &e->listeners[i]);
	if (e->is_overdue)
		link_sweep(e);
	return count > 0 || is_unread;
}

void ori_soft_link_forget(struct soft_engine *e, const struct soft_mr *mr)
{
	for (struct soft_link *link = e->links; link; link = link->next)
		if (!link->is_out)
			ori_soft_inbox_forget(&link->in, mr);
		else if (!ori_soft_outbox_detach(&link->out, mr))
			link_lose(link, "no memory for the rest of a payload");
}
