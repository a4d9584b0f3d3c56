/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections to contexts of other machines; the meeting of endpoints calls it. */
#include "p2p/p2p_dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define DIAL_PATIENCE_NS UINT64_C(3000000000) /* for an address */
#define DIAL_PAUSE_NS UINT64_C(100000000)     /* between rounds */

/* Address number @attempt of the context at @to; family 0: there are no more. */
static struct ori_address dial_address(const struct p2p_address *from, const struct p2p_address *to,
				       unsigned attempt)
{
	/* The same kernel: two virtual nodes of one machine. */
	return ori_endpoint_attempt(&to->hosts, to->port, from->kernel == to->kernel, attempt);
}

void ori_p2p_name(const struct p2p_address *from, const struct p2p_address *to, char text[P2P_NAME])
{
	struct ori_address first = dial_address(from, to, 0);
	char where[ORI_ENDPOINT_LENGTH];

	if (ori_p2p_address_is_local(from, to) || !to->port || !first.family)
		snprintf(text, P2P_NAME, "process %u", to->pid);
	else
		snprintf(text, P2P_NAME, "process %u at %s", to->pid,
			 ori_endpoint_text(&first, where));
}

/* End a round in which all addresses have been tried. */
static enum oriel_status dial_end_round(struct p2p_dial *d, const struct p2p_address *from,
					const struct p2p_address *to)
{
	struct ori_address first = dial_address(from, to, 0);
	char text[ORI_ENDPOINT_LENGTH];

	if (d->strange)
		return ori_fail(ORIEL_ERR_AUTH, "the context of process %u at %s %s", to->pid,
				ori_endpoint_text(&first, text),
				d->doubt ? d->doubt : "is not there: another process answers");
	if (!d->attempt)
		return ori_fail(ORIEL_ERR_PEER,
				"process %u has no address that other machines reach", to->pid);
	if (!d->silent)
		return ori_fail(ORIEL_ERR_PEER, "process %u has exited: no process listens at %s",
				to->pid, ori_endpoint_text(&first, text));
	/* An address that stayed silent may answer later: the next round begins after a pause. */
	*d = (struct p2p_dial){.deadline = ori_deadline(DIAL_PAUSE_NS)};
	return ORIEL_AGAIN;
}

/* Give up this address. */
static enum oriel_status dial_give_up(struct p2p_dial *d, struct ori_net_conn *conn, unsigned *why)
{
	ori_net_close(conn);
	d->is_greeted = false;
	++*why;
	d->attempt++;
	d->deadline = 0;
	return ORIEL_AGAIN;
}

/* A refused connection proves that no process listens; other errors may be the network. */
static unsigned *dial_reason(struct p2p_dial *d, int error)
{
	return error == ECONNREFUSED ? &d->refused : &d->silent;
}

/* The outcome of a step of @conn: ORIEL_OK and failures of this process stay as they are. */
static enum oriel_status dial_judge(struct p2p_dial *d, struct ori_net_conn *conn,
				    enum oriel_status status)
{
	switch (status) {
	case ORIEL_OK:
		return status;
	case ORIEL_AGAIN:
		return ori_deadline_passed(d->deadline) ? dial_give_up(d, conn, &d->silent)
							: status;
	case ORIEL_ERR_PEER:
		return dial_give_up(d, conn,
				    conn->state == ORI_NET_CONNECTING ? dial_reason(d, errno)
								      : &d->silent);
	case ORIEL_ERR_NOMEM:
		return ori_fail(status, "no memory for a connection");
	case ORIEL_ERR_AUTH:
		d->doubt = ori_net_doubt(conn);
		return dial_give_up(d, conn, &d->strange);
	default:
		return dial_give_up(d, conn, &d->strange);
	}
}

/* ORIEL_OK: connected, and both sides have proved the key. */
static enum oriel_status dial_connect(struct p2p_dial *d, struct ori_net_conn *conn,
				      struct ori_tls_context *tls, const struct p2p_address *from,
				      const struct p2p_address *to)
{
	struct ori_address address;

	if (conn->fd < 0) {
		if (d->deadline && !ori_deadline_passed(d->deadline))
			return ORIEL_AGAIN;
		address = dial_address(from, to, d->attempt);
		if (!address.family)
			return dial_end_round(d, from, to);
		d->deadline = ori_deadline(DIAL_PATIENCE_NS);
		if (!ori_net_dial(conn, &address, tls, NULL))
			return dial_give_up(d, conn, dial_reason(d, errno));
	}
	return dial_judge(d, conn, ori_net_step(conn));
}

/* The address that was given up last has another process, or a relay on the way to it. */
static void dial_warn(const struct p2p_dial *d, const struct p2p_address *from,
		      const struct p2p_address *to)
{
	struct ori_address address = dial_address(from, to, d->attempt - 1);
	char text[ORI_ENDPOINT_LENGTH];

	ori_log(ORIEL_LOG_WARN, "no connection to process %u at %s: it %s", to->pid,
		ori_endpoint_text(&address, text),
		d->doubt ? d->doubt : "does not speak Oriel's protocol, or is another process");
}

static enum oriel_status dial_step(struct p2p_dial *d, struct ori_net_conn *conn,
				   struct ori_tls_context *tls, const struct p2p_address *from,
				   const struct p2p_address *to)
{
	const struct p2p_hello hello = {.to = to->token, .from = from->token};
	enum oriel_status status = dial_connect(d, conn, tls, from, to);
	unsigned char body[P2P_BODY];
	struct ori_frame answer;

	if (status == ORIEL_OK && !d->is_greeted) {
		status = dial_judge(d, conn, ori_net_send(conn, P2P_HELLO, &hello, sizeof(hello)));
		d->is_greeted = status == ORIEL_OK;
	}
	if (status == ORIEL_OK)
		status = dial_judge(d, conn, ori_net_take(conn, &answer, body, sizeof(body)));
	/*
	 * The port may have passed to another context: the next address may still be the right
	 * one.
	 */
	if (status == ORIEL_OK && answer.type != P2P_WELCOME)
		status = dial_give_up(d, conn, &d->strange);
	return status;
}

enum oriel_status ori_p2p_dial(struct p2p_dial *d, struct ori_net_conn *conn,
			       struct ori_tls_context *tls, const struct p2p_address *from,
			       const struct p2p_address *to)
{
	unsigned strange = d->strange;
	enum oriel_status status = dial_step(d, conn, tls, from, to);

	if (d->strange > strange)
		dial_warn(d, from, to);
	return status;
}

/* Plain, and closed at once: that a process accepts is all there is to find out. */
enum oriel_status ori_p2p_probe(struct p2p_dial *d, struct ori_net_conn *conn,
				const struct p2p_address *from, const struct p2p_address *to)
{
	enum oriel_status status = dial_connect(d, conn, NULL, from, to);

	if (status == ORIEL_OK) {
		ori_net_close(conn);
		*d = (struct p2p_dial){0};
	}
	return status;
}

void ori_p2p_tune(int fd)
{
	/*
	 * The kernel's probes of an idle connection are for ori_hearing_lost(), which decides long
	 * before so many of them: at a loss of 20 % each way every third stays unanswered.
	 */
	int on = 1, idle = 10, interval = 3, count = 127;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}
