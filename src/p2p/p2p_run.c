/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one loop that drives an endpoint: a request begins here, a pass advances all of them,
 * and an endpoint that breaks ends here. The public calls make passes.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/yield.h"
#include "comm/health.h"
#include "comm/silence.h"
#include "p2p/p2p.h"

#define P2P_WATCH 128u            /* passes without progress between two reads of the clock ... */
#define P2P_WATCH_NS 20000u       /* ... and then a poll of the socket, at most this often */
#define P2P_REPORT_NS 1000000000u /* for the report of a rank that left */
#define P2P_QUIET 64u             /* passes that only poll the ring, until a whole one */

/*
 * Does no thread or engine of the peer write here any more, since its process has exited or
 * severed this endpoint? Its farewell, with or without a failure, says only that it is about to:
 * engines copy on until then.
 */
static bool p2p_has_left(struct oriel_p2p *p2p)
{
	if (p2p_is_same_process(p2p))
		return false;
	if (p2p->control_socket.conn.fd >= 0)
		return ori_net_is_ending(&p2p->control_socket.conn);
	return p2p->is_leaving || ori_p2p_watch(p2p) != ORIEL_OK || p2p->is_leaving;
}

void ori_p2p_abandon(struct oriel_p2p *p2p, enum oriel_status status)
{
	if (p2p->backend)
		p2p->backend->sever(p2p);
	p2p->has_ended = true;
	ori_p2p_hang_up(&p2p->control_socket.conn);
	/* Requests end last: with its status the caller owns the memory of a request again. */
	for (unsigned channel = 0; channel < p2p->channels; channel++) {
		ori_send_cancel(p2p, channel, status);
		ori_recv_cancel(p2p, channel, status);
	}
	p2p->active_out = p2p->active_in = 0;
	ori_control_cancel(p2p, status);
}

enum oriel_status ori_p2p_end(struct oriel_p2p *p2p, enum oriel_status status, uint64_t deadline)
{
	void (*cancel)(void *context, enum oriel_status status) = p2p->hooks.cancel;

	/* It is called once. No copy runs while mappings are closed. */
	p2p->hooks.cancel = NULL;
	if (cancel)
		cancel(p2p->context, status);
	ori_copy_streams_drain(p2p);
	while (p2p->backend && p2p->backend->close(p2p) == ORIEL_AGAIN && !p2p_has_left(p2p)) {
		if (ori_deadline_passed(deadline))
			return ORIEL_AGAIN;
		ori_yield();
	}
	ori_p2p_abandon(p2p, status);
	return ORIEL_OK;
}

/*
 * Breaks @p2p with this thread's last error: the peer cannot reach memory here any more,
 * and all requests end, or do so later if the peer is within a write now.
 */
static enum oriel_status p2p_break(struct oriel_p2p *p2p, enum oriel_status status)
{
	char text[P2P_TEXT];

	if (p2p->state == P2P_BROKEN)
		return p2p->failure;
	/* A copy: the calls below may fail, and would replace the reason. */
	if (*p2p->peer_name && !strstr(oriel_last_error(), p2p->peer_name))
		snprintf(text, sizeof(text), "endpoint to %s: %s", p2p->peer_name,
			 oriel_last_error());
	else
		snprintf(text, sizeof(text), "%s", oriel_last_error());
	/*
	 * From here on every call of the user fails with the reason, also one that a hook makes.
	 */
	p2p->state = P2P_BROKEN;
	p2p->failure = status;
	memcpy(p2p->failure_text, text, sizeof(text));
	/* The process of the peer exited: no rank of the job need find that out for itself. */
	if (p2p->comm && status == ORIEL_ERR_PEER && !p2p->is_leaving)
		ori_comm_break(p2p->comm, status, ORIEL_DEV_LOST, p2p->peer_rank, 0);
	if (!p2p->is_leaving || p2p->has_lost_link)
		ori_control_socket_bye(p2p, status, text);
	/* A pass tries it again, for the requests go on until then. */
	if (ori_p2p_end(p2p, status, ori_deadline(p2p->ctx->timeout_ns)) != ORIEL_OK)
		ori_log(ORIEL_LOG_WARN,
			"%s has not stopped writing within %g s (the context's timeout): its "
			"requests go on until it has",
			p2p->peer_name, (double)p2p->ctx->timeout_ns / 1e9);
	return ori_p2p_failed(p2p);
}

enum oriel_status ori_p2p_start(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	enum oriel_status status = ORIEL_OK;
	bool has_moved = false, is_inside;

	r->status = ORIEL_AGAIN;
	/*
	 * An eager receive writes nothing to the peer, so it needs no enter() and works after the
	 * peer has left.
	 */
	if (ori_recv_eager(p2p, r))
		return ORIEL_OK;
	is_inside = p2p->state == P2P_JOINED && !p2p->is_leaving &&
		    p2p->backend->enter(p2p) == ORIEL_OK;
	if (is_inside && ori_send_eager(p2p, r)) {
		p2p->backend->leave(p2p);
		return ORIEL_OK;
	}
	/*
	 * Without enter() the request only joins its list: a pass advances it, or finds out why the
	 * peer closes.
	 */
	switch ((enum p2p_kind)r->kind) {
	case P2P_SEND:
	case P2P_PUT:
		ori_send_begin(p2p, r);
		if (is_inside)
			status = ori_send_run(p2p, r->channel, &has_moved);
		break;
	case P2P_RECV:
	case P2P_EXPECT:
		ori_recv_begin(p2p, r);
		if (is_inside)
			status = ori_recv_run(p2p, r->channel, &has_moved);
		break;
	case P2P_SEND_CONTROL:
	case P2P_RECV_CONTROL:
		ori_control_begin(p2p, r);
		if (is_inside)
			status = ori_control_run(p2p, &has_moved);
		break;
	}
	if (is_inside)
		p2p->backend->leave(p2p);
	if (status == ORIEL_OK)
		return ORIEL_OK;
	status = p2p_break(p2p, status);
	/* The peer is within a write: the request has begun, and goes on as all others do. */
	return r->status == ORIEL_AGAIN ? ORIEL_OK : status;
}

static enum oriel_status p2p_deliver(struct oriel_p2p *p2p, const struct p2p_arrival *arrival)
{
	enum oriel_status status;
	uint32_t taken;

	switch (arrival->immediate >> 30) {
	case P2P_IMM_CELL:
		return ori_control_arrived(p2p, arrival->immediate);
	case P2P_IMM_UNIT:
		return ori_recv_arrived(p2p, arrival);
	case P2P_IMM_OFFER:
		return ori_send_offered(p2p, arrival);
	case P2P_IMM_EAGER:
		if (!p2p->backend->has_eager)
			break;
		status = ori_recv_eager_arrived(p2p, arrival, &taken);
		return status == ORIEL_OK
			       ? ori_send_taken(p2p, p2p_imm_channel(arrival->immediate), taken)
			       : status;
	}
	return ori_fail(ORIEL_ERR_PROTOCOL, "the peer wrote immediate 0x%08x, which has no meaning",
			arrival->immediate);
}

static enum oriel_status p2p_take_all(struct oriel_p2p *p2p, bool *has_moved)
{
	struct p2p_arrival arrival;
	enum oriel_status status;

	while ((status = p2p->backend->take(p2p, &arrival)) == ORIEL_OK) {
		*has_moved = true;
		status = p2p_deliver(p2p, &arrival);
		if (status != ORIEL_OK)
			return status;
	}
	return status == ORIEL_AGAIN ? ORIEL_OK : status;
}

static enum oriel_status p2p_run(struct oriel_p2p *p2p, bool *has_moved)
{
	enum oriel_status status;

	p2p->is_due = p2p->is_pending = false;
	status = ori_control_run(p2p, has_moved);
	for (uint64_t left = p2p->active_in; left && status == ORIEL_OK; left &= left - 1)
		status = ori_recv_run(p2p, (unsigned)__builtin_ctzll(left), has_moved);
	for (uint64_t left = p2p->active_out; left && status == ORIEL_OK && !p2p->is_leaving;
	     left &= left - 1)
		status = ori_send_run(p2p, (unsigned)__builtin_ctzll(left), has_moved);
	/* Last: an eager send of this pass has taken the count along, and saves the word. */
	for (uint64_t left = p2p->unreported; left && status == ORIEL_OK; left &= left - 1)
		status = ori_recv_report(p2p, (unsigned)__builtin_ctzll(left));
	return status;
}

/* This thread's last error ends the link; data that has arrived is still taken. */
static void p2p_start_leaving(struct oriel_p2p *p2p, enum oriel_status status)
{
	if (p2p->is_leaving)
		return;
	p2p->is_leaving = true;
	p2p->leaving = status;
	snprintf(p2p->failure_text, sizeof(p2p->failure_text), "%s", oriel_last_error());
}

/* A poll of the socket is a system call, which takes as long as a message. */
static bool p2p_may_watch(struct oriel_p2p *p2p)
{
	uint64_t now;

	if (p2p->is_leaving || ++p2p->idle_passes % P2P_WATCH)
		return false;
	now = ori_clock_ns();
	if (now - p2p->watched_at < P2P_WATCH_NS)
		return false;
	p2p->watched_at = now;
	return true;
}

/* A peer that waits with another kind of transfer learns which receives wait here. */
static enum oriel_status p2p_report_granted(struct oriel_p2p *p2p)
{
	enum oriel_status status = ORIEL_OK;

	if (!p2p->eager_max || p2p->is_leaving || p2p->backend->enter(p2p) != ORIEL_OK)
		return ORIEL_OK;
	for (uint64_t left = p2p->active_in; left && status == ORIEL_OK; left &= left - 1)
		status = ori_recv_report_granted(p2p, (unsigned)__builtin_ctzll(left));
	p2p->backend->leave(p2p);
	return status;
}

/* A pass without progress: is the peer still there? */
static enum oriel_status p2p_watch(struct oriel_p2p *p2p)
{
	bool was_leaving = p2p->is_leaving;
	enum oriel_status status = ORIEL_OK;

	if (p2p_may_watch(p2p)) {
		status = ori_p2p_watch(p2p);
		if (status == ORIEL_OK)
			status = p2p_report_granted(p2p);
	}
	/*
	 * Data may have arrived since this pass took all that there was: what the peer put before
	 * it left is taken by the next pass, and only then the endpoint ends.
	 */
	if (status != ORIEL_OK || !was_leaving)
		return status;
	for (uint64_t left = p2p->active_in; left; left &= left - 1)
		/*
		 * The channel's bytes are here, and the hook or the copy that takes them needs more
		 * passes.
		 */
		if (ori_recv_is_busy(p2p, (unsigned)__builtin_ctzll(left)))
			return ORIEL_OK;
	if (p2p->doubt_until && !ori_deadline_passed(p2p->doubt_until))
		return ori_p2p_watch(p2p);
	return ori_fail(p2p->leaving, "%s", p2p->failure_text);
}

/* The peer has closed its segment, and has said why on the socket before. */
static enum oriel_status p2p_leave_severed(struct oriel_p2p *p2p)
{
	enum oriel_status status = ori_p2p_watch(p2p);

	if (status == ORIEL_OK && !p2p->is_leaving) {
		(void)ori_fail(ORIEL_ERR_PEER, "the peer, %s, has destroyed its endpoint",
			       p2p->peer_name);
		p2p_start_leaving(p2p, ORIEL_ERR_PEER);
	}
	return status;
}

/* Operations that need the link, while there is one. */
static enum oriel_status p2p_advance(struct oriel_p2p *p2p)
{
	enum oriel_status status = p2p->backend->progress(p2p), reason;
	char text[P2P_TEXT];

	if (status == ORIEL_OK)
		return ori_p2p_put_dirty(p2p);
	/* A NIC names its queue, and no peer. */
	snprintf(text, sizeof(text), "%s", oriel_last_error());
	/* A peer that breaks says why before its end of the link goes. */
	reason = ori_p2p_watch(p2p);
	if (reason != ORIEL_OK)
		return reason;
	(void)ori_fail(status, "the link to the peer, %s, failed: %s", p2p->peer_name, text);
	p2p->has_lost_link = true;
	p2p_start_leaving(p2p, status);
	return ORIEL_OK;
}

/* Is waiting for the peer all that is left to do? Then a pass is one poll of the ring. */
static bool p2p_is_quiet(struct oriel_p2p *p2p)
{
	return p2p->backend->is_mapped && !p2p->active_out && !p2p->is_dirty && !p2p->is_due &&
	       !p2p->is_pending && !p2p->unreported && !p2p->link.wait_count && !p2p->is_leaving &&
	       ori_control_is_idle(p2p) && ++p2p->quiet % P2P_QUIET;
}

static enum oriel_status p2p_pass_joined(struct oriel_p2p *p2p, bool *has_moved)
{
	enum oriel_status status = ORIEL_OK;
	bool is_inside;

	/* Not every pass polls the socket, where the piece arrives. */
	if (p2p->is_piece_due) {
		p2p->is_piece_due = false;
		status = ori_p2p_watch(p2p);
	}
	if (status != ORIEL_OK)
		return status;
	if (p2p_is_quiet(p2p)) {
		status = p2p_take_all(p2p, has_moved);
		if (status != ORIEL_OK)
			return status;
		if (!p2p->is_due)
			return *has_moved ? ORIEL_OK : p2p_watch(p2p);
	}
	is_inside = !p2p->is_leaving && p2p->backend->enter(p2p) == ORIEL_OK;
	if (is_inside)
		status = p2p_advance(p2p);
	else if (!p2p->is_leaving)
		status = p2p_leave_severed(p2p);
	/* Arrivals are in local memory, so taking them goes on while the peer leaves. */
	if (status == ORIEL_OK)
		status = p2p_take_all(p2p, has_moved);
	if (status == ORIEL_OK)
		status = p2p_run(p2p, has_moved);
	if (is_inside)
		p2p->backend->leave(p2p);
	return status == ORIEL_OK && !*has_moved ? p2p_watch(p2p) : status;
}

const char *ori_p2p_silent(const struct oriel_p2p *p2p, uint64_t age_ns, char text[ORI_SILENT_TEXT])
{
	uint64_t silent_ns;
	unsigned rank =
		p2p->comm ? ori_silence_suspect(p2p->comm, age_ns, &silent_ns) : ORIEL_DEV_NO_RANK;

	text[0] = '\0';
	if (rank != ORIEL_DEV_NO_RANK)
		ori_silent_text(rank, silent_ns, text, ORI_SILENT_TEXT);
	return text;
}

/*
 * The peer of a communicator left before it was joined. A rank that leaves since another one failed
 * has reported that, and the report, which says more, may be on its way.
 */
static enum oriel_status p2p_pass_left(struct oriel_p2p *p2p)
{
	enum oriel_status status = ori_comm_check(p2p->comm);
	char text[P2P_TEXT];

	if (status == ORIEL_OK && !ori_deadline_passed(p2p->doubt_until))
		return ORIEL_OK;
	if (status == ORIEL_OK)
		return ori_fail(ORIEL_ERR_PEER, "%s", p2p->failure_text);
	snprintf(text, sizeof(text), "%s", oriel_last_error());
	return ori_fail(status, "the peer, %s, has left the job: %s", p2p->peer_name, text);
}

static enum oriel_status p2p_pass_meeting(struct oriel_p2p *p2p, bool *has_moved)
{
	char silent[ORI_SILENT_TEXT];
	enum oriel_status status;

	if (p2p->doubt_until)
		return p2p_pass_left(p2p);
	status = ori_p2p_meet(p2p, has_moved);
	if (status == ORIEL_ERR_PEER && p2p->comm) {
		snprintf(p2p->failure_text, sizeof(p2p->failure_text), "%s", oriel_last_error());
		p2p->doubt_until = ori_deadline(P2P_REPORT_NS);
		return ORIEL_OK;
	}
	if (status == ORIEL_OK) {
		p2p->state = P2P_JOINED;
		*has_moved = true;
		return status;
	}
	if (status == ORIEL_AGAIN)
		status = ORIEL_OK;
	if (status == ORIEL_OK && ori_deadline_passed(p2p->deadline))
		status = ori_fail(ORIEL_ERR_TIMEOUT,
				  "%s has not connected its endpoint within %g s (ORIEL_TIMEOUT, "
				  "unless the call has a limit)%s",
				  p2p->peer_name, p2p->timeout_ns / 1e9,
				  ori_p2p_silent(p2p, p2p->timeout_ns, silent));
	return status;
}

enum oriel_status ori_p2p_pass(struct oriel_p2p *p2p, bool *has_moved)
{
	enum oriel_status status = ORIEL_OK;

	*has_moved = false;
	switch (p2p->state) {
	case P2P_IDLE:
		return ORIEL_OK;
	case P2P_CALLING:
	case P2P_MEETING:
		status = p2p_pass_meeting(p2p, has_moved);
		break;
	case P2P_JOINED:
		status = p2p_pass_joined(p2p, has_moved);
		break;
	case P2P_BROKEN:
		if (!p2p->has_ended)
			(void)ori_p2p_end(p2p, p2p->failure, 0);
		return ori_p2p_failed(p2p);
	}
	/* Endpoints outlive other failures of the job, but the peer may wait for that rank. */
	if (status == ORIEL_OK && !*has_moved && p2p->comm && ori_comm_is_silent(p2p->comm))
		status = ori_comm_check(p2p->comm);
	return status == ORIEL_OK ? ORIEL_OK : p2p_break(p2p, status);
}
