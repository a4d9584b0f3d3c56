/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the ranks that agree. vote.c calls it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/vote_peer.h"

#define DIAL_PATIENCE_NS UINT64_C(3000000000) /* with an address of TCP */
#define DIAL_PAUSE_NS 100000000u              /* before a rank is dialled again */

void ori_vote_hang_up(struct ori_net_conn **conn)
{
	if (*conn)
		ori_net_close(*conn);
	free(*conn);
	*conn = NULL;
}

void ori_vote_doubt(struct ori_vote *v, unsigned peer, const struct ori_net_conn *conn,
		    enum oriel_status status)
{
	struct vote_peer *p = &v->peers[peer];
	const char *doubt = "has sent malformed bytes";

	if (status == ORIEL_ERR_AUTH)
		doubt = ori_net_doubt(conn);
	else if (status != ORIEL_ERR_PROTOCOL)
		return;
	if (!p->doubt || strcmp(p->doubt, doubt) != 0)
		ori_log_rank(ORIEL_LOG_WARN, v->comm->rank,
			     "agreement %u: rank %u, or its connection with rank %u, %s",
			     v->comm->survive->number, peer, v->comm->rank, doubt);
	p->doubt = doubt;
}

void ori_vote_drop(struct vote_peer *p)
{
	ori_vote_hang_up(&p->out);
	p->dial_at = ori_deadline(DIAL_PAUSE_NS);
}

enum oriel_status ori_vote_watch(struct ori_vote *v, int *fd)
{
	/*
	 * No frame is on its way between two agreements, so that one shows that the other rank is
	 * in the next agreement already.
	 */
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
	const struct ori_net_conn *conn;
	unsigned peer;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_create1");
	for (peer = 0; peer < v->comm->size; peer++) {
		conn = peer == v->leader ? v->peers[peer].out : NULL;
		if (v->is_leading)
			conn = v->peers[peer].in;
		if (!conn || epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event) == 0)
			continue;
		(void)ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_ctl");
		close(epoll);
		return ORIEL_ERR_SYSTEM;
	}
	*fd = epoll;
	return ORIEL_OK;
}

/* One address leads nowhere; after the last of them the rank pauses. */
static enum oriel_status dial_next(struct vote_peer *p, unsigned count, bool is_refused)
{
	unsigned refused;

	ori_vote_hang_up(&p->out);
	p->refused += is_refused;
	p->address++;
	if (p->address < count)
		return ORIEL_AGAIN;
	refused = p->refused;
	p->address = p->refused = 0;
	p->dial_at = ori_deadline(DIAL_PAUSE_NS);
	/*
	 * The kernel of that machine says so at every address: the listener is closed, which is the
	 * last act of a process. An address that leads nowhere proves nothing.
	 */
	return count && refused == count ? ORIEL_ERR_PEER : ORIEL_AGAIN;
}

static enum oriel_status dial_hello(struct ori_vote *v, unsigned peer, enum vote_frame type)
{
	struct vote_hello hello = {.version = ORI_COMM_WIRE, .from = v->comm->rank, .to = peer};
	struct vote_peer *p = &v->peers[peer];

	memcpy(hello.name, v->comm->survive->of[peer].name, sizeof(hello.name));
	if (ori_net_send(p->out, type, &hello, sizeof(hello)) == ORIEL_OK) {
		p->address = p->refused = 0;
		return ORIEL_OK;
	}
	ori_vote_drop(p);
	return ORIEL_AGAIN;
}

/*
 * @error of the last connect(). A name of a unix socket has one owner: another user's shows that
 * the rank has closed its own.
 */
static bool dial_is_refused(const struct ori_address *address, int error)
{
	return error == ECONNREFUSED ||
	       (error == EADDRINUSE && address->family == ORI_ADDRESS_UNIX);
}

/* Begins with the next address. */
static enum oriel_status dial_begin(struct ori_vote *v, struct vote_peer *p,
				    const struct ori_address *addresses, unsigned count)
{
	if (!ori_deadline_passed(p->dial_at))
		return ORIEL_AGAIN;
	if (!count)
		return dial_next(p, 0, false);
	p->out = malloc(sizeof(*p->out));
	if (!p->out)
		return ori_fail_nomem(sizeof(*p->out), "a connection to a rank");
	p->patient_until = ori_deadline(DIAL_PATIENCE_NS);
	if (ori_net_dial(p->out, &addresses[p->address], v->comm->survive->tls, NULL))
		return ORIEL_OK;
	return dial_next(p, count, dial_is_refused(&addresses[p->address], errno));
}

enum oriel_status ori_vote_dial(struct ori_vote *v, unsigned peer, enum vote_frame hello)
{
	struct ori_address addresses[ORI_SURVIVE_ADDRESSES];
	struct vote_peer *p = &v->peers[peer];
	enum oriel_status status = ORIEL_OK;
	unsigned count;

	if (p->out && p->out->state == ORI_NET_OPEN)
		return ORIEL_OK;
	count = ori_survive_addresses(v->comm, peer, addresses);
	if (!p->out)
		status = dial_begin(v, p, addresses, count);
	if (status != ORIEL_OK)
		return status;
	status = ori_net_step(p->out);
	/* The same for a name that another process of this user has. */
	if (status == ORIEL_OK && p->out->is_local &&
	    ori_survive_is_another(v->comm, peer, p->out->fd))
		return dial_next(p, count, true);
	if (status == ORIEL_OK)
		return dial_hello(v, peer, hello);
	if (status == ORIEL_AGAIN && !ori_deadline_passed(p->patient_until))
		return ORIEL_AGAIN;
	ori_vote_doubt(v, peer, p->out, status);
	return dial_next(p, count,
			 status == ORIEL_ERR_PEER && p->out->state == ORI_NET_CONNECTING &&
				 errno == ECONNREFUSED);
}

static bool dial_parse(const struct ori_vote *v, struct ori_net_conn *conn, struct ori_frame *frame,
		       struct vote_hello *hello)
{
	const struct oriel_comm *comm = v->comm;

	return ori_net_take(conn, frame, hello, sizeof(*hello)) == ORIEL_OK &&
	       (frame->type == VOTE_JOIN || frame->type == VOTE_PROBE) &&
	       frame->length == sizeof(*hello) && hello->version == ORI_COMM_WIRE &&
	       hello->to == comm->rank && hello->from < comm->size && hello->from != comm->rank &&
	       memcmp(hello->name, comm->survive->of[comm->rank].name, sizeof(hello->name)) == 0;
}

/* A rank that was removed is told so. One that looks for this rank learns that it lives. */
static void dial_admit(struct ori_vote *v, struct ori_net_pending *arrived, unsigned from,
		       unsigned type)
{
	struct vote_peer *p = &v->peers[from];

	if (p->is != VOTE_HERE) {
		(void)ori_net_send_last(&arrived->conn, VOTE_REMOVED, NULL, 0);
		return;
	}
	if (type == VOTE_PROBE)
		(void)ori_net_send_last(&arrived->conn, VOTE_WAIT, NULL, 0);
	if (type != VOTE_JOIN || from < v->comm->rank)
		return;
	ori_vote_hang_up(&p->in);
	p->in = malloc(sizeof(*p->in));
	/* Without memory the connection ends, and the rank comes again. */
	if (!p->in)
		return;
	ori_net_move(p->in, &arrived->conn);
	free(p->state);
	p->state = NULL;
	p->accepted = 0;
	/* From now on its silence counts, also if this one stops before it has more to say. */
	if (ori_net_send(p->in, VOTE_WAIT, NULL, 0) != ORIEL_OK)
		ori_vote_hang_up(&p->in);
}

static void dial_serve(struct ori_vote *v, struct ori_net_listener *listener)
{
	struct ori_net_pending *arrived;
	struct vote_hello hello;
	struct ori_frame frame;

	if (listener->fd < 0)
		return;
	ori_net_listener_serve(listener);
	while ((arrived = ori_net_listener_next(listener))) {
		if (dial_parse(v, &arrived->conn, &frame, &hello))
			dial_admit(v, arrived, hello.from, frame.type);
		else
			ori_net_listener_warn(listener, arrived->from,
					      "it is no rank of this communicator");
		ori_net_pending_free(arrived);
	}
}

void ori_vote_serve(struct ori_vote *v)
{
	dial_serve(v, &v->comm->survive->local);
	dial_serve(v, &v->comm->survive->tcp);
}
