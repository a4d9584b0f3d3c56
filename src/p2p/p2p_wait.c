/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which users advance an endpoint, and wait for it: progress, test, wait and
 * drain make passes (p2p_run.c).
 */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait_page.h"
#include "base/yield.h"
#include "comm/comm.h"
#include "p2p/p2p.h"

#define WAIT_ASK 64u            /* passes between two checks of the deadline */
#define WAIT_SPIN 400u          /* passes without progress before a wait yields the core */
#define WAIT_SLEEPY_NS 5000000u /* ... before it sleeps between them */
#define WAIT_SLEEP_NS 50000
#define WAIT_NAME 128u

enum oriel_status oriel_p2p_progress(struct oriel_p2p *p2p)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool has_moved;

	if (status != ORIEL_OK)
		return status;
	ori_p2p_enter(p2p);
	status = ori_p2p_pass(p2p, &has_moved);
	ori_p2p_leave(p2p);
	return status;
}

static enum oriel_status wait_result(const struct oriel_p2p *p2p,
				     const struct oriel_p2p_request *request)
{
	enum oriel_status status = request->status;

	if (status >= 0)
		return status;
	if (p2p->state == P2P_BROKEN)
		return ori_p2p_failed(p2p);
	if (status == ORIEL_ERR_ABORTED)
		return ori_fail(status, "the request was cancelled");
	if (status == ORIEL_ERR_MISMATCH && request->kind == P2P_RECV_CONTROL)
		return ori_fail(status,
				"a control message of %zu bytes arrived for a receive of %zu",
				request->length, (size_t)request->address);
	return ori_fail(status, "the call that was to begin the request failed");
}

enum oriel_status oriel_p2p_test(struct oriel_p2p *p2p, const struct oriel_p2p_request *request)
{
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool has_moved;

	if (status != ORIEL_OK)
		return status;
	if (!request)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_test: request is NULL");
	if (request->status == ORIEL_AGAIN) {
		ori_p2p_enter(p2p);
		/* A pass that fails ends all requests, this one as well. */
		(void)ori_p2p_pass(p2p, &has_moved);
		ori_p2p_leave(p2p);
	}
	return wait_result(p2p, request);
}

/* Turns of a wait in which nothing moved. A short wait reads no clock. */
struct wait_patience {
	const struct oriel_p2p *p2p;
	const struct oriel_p2p_request *request; /* NULL: all that have begun */
	bool is_shown;                           /* to `oriel hang` */
	uint64_t timeout_ns, deadline, since;    /* the last two 0: not read yet */
	unsigned turns, passes;
};

/* For `oriel hang`, which knows ranks of communicators. */
static void wait_show(struct wait_patience *patience)
{
	static const uint32_t whats[] = {
		[P2P_SEND] = ORI_WAIT_P2P_SEND,
		[P2P_RECV] = ORI_WAIT_P2P_RECV,
		[P2P_PUT] = ORI_WAIT_P2P_PUT,
		[P2P_EXPECT] = ORI_WAIT_P2P_EXPECT,
		[P2P_SEND_CONTROL] = ORI_WAIT_P2P_SEND_CONTROL,
		[P2P_RECV_CONTROL] = ORI_WAIT_P2P_RECV_CONTROL,
	};
	const struct oriel_p2p *p2p = patience->p2p;
	const struct oriel_p2p_request *r = patience->request;
	struct ori_wait_note note = {.what = ORI_WAIT_P2P_DRAIN,
				     .peer = p2p->peer_rank,
				     .compare = ORIEL_GE,
				     .begun = patience->since,
				     .limit_ns = patience->timeout_ns};

	if (!p2p->comm || patience->is_shown)
		return;
	note.comm = ori_comm_wait_key(p2p->comm);
	note.rank = p2p->comm->rank;
	if (r) {
		bool is_control = r->kind == P2P_SEND_CONTROL || r->kind == P2P_RECV_CONTROL;

		note.what = whats[r->kind];
		note.id = r->channel;
		note.expected = is_control ? r->tag : r->length;
		note.seen = is_control ? 0 : r->done;
	}
	ori_wait_begin(&note);
	patience->is_shown = true;
}

static void wait_hide(struct wait_patience *patience)
{
	if (patience->is_shown)
		ori_wait_end();
	patience->is_shown = false;
}

/*
 * False if the deadline has passed. The peer may be a thread that needs this core, so a wait does
 * not spin for long.
 */
static bool wait_turn(struct wait_patience *patience, bool has_moved)
{
	const struct timespec pause = {.tv_nsec = WAIT_SLEEP_NS};
	uint64_t now;

	if (has_moved) {
		wait_hide(patience);
		patience->turns = 0;
		patience->since = 0;
	}
	if (++patience->passes % WAIT_ASK && ++patience->turns < WAIT_SPIN)
		return true;
	now = ori_clock_ns();
	/* The limit counts from the first look at the clock, after few passes. */
	if (!patience->deadline)
		patience->deadline = ori_deadline(patience->timeout_ns);
	if (patience->deadline != ORIEL_TIMEOUT_INFINITE && now >= patience->deadline)
		return false;
	if (patience->turns < WAIT_SPIN)
		return true;
	if (!patience->since)
		patience->since = now;
	if (now - patience->since < WAIT_SLEEPY_NS) {
		ori_yield();
		return true;
	}
	wait_show(patience);
	nanosleep(&pause, NULL);
	return true;
}

static struct wait_patience wait_patience(const struct oriel_p2p *p2p,
					  const struct oriel_p2p_request *request,
					  uint64_t timeout_ns)
{
	struct wait_patience patience = {.p2p = p2p,
					 .request = request,
					 .timeout_ns =
						 timeout_ns ? timeout_ns : p2p->ctx->timeout_ns};

	return patience;
}

/* Texts name the limit's setting, unless the call brought the limit. */
static const char *wait_limit(uint64_t timeout_ns)
{
	return timeout_ns ? "" : " (the context's timeout, by default ORIEL_TIMEOUT)";
}

/* "the receive of 4096 bytes on channel 0 from", and the name of the peer follows. */
static const char *wait_name(const struct oriel_p2p_request *r, char text[WAIT_NAME])
{
	static const struct {
		const char *noun, *side;
	} kinds[] = {
		[P2P_SEND] = {"send", "to"},
		[P2P_RECV] = {"receive", "from"},
		[P2P_PUT] = {"put", "to"},
		[P2P_EXPECT] = {"expected put", "from"},
		[P2P_SEND_CONTROL] = {"control message", "to"},
		[P2P_RECV_CONTROL] = {"control message", "from"},
	};
	const char *noun = kinds[r->kind].noun, *side = kinds[r->kind].side;
	char place[P2P_PLACE];

	if (r->kind == P2P_SEND_CONTROL || r->kind == P2P_RECV_CONTROL)
		snprintf(text, WAIT_NAME, "the %s of tag %llu %s", noun, (unsigned long long)r->tag,
			 side);
	else if (r->kind == P2P_EXPECT)
		snprintf(text, WAIT_NAME, "the %s on %s %s", noun, ori_p2p_place(r, place), side);
	else
		snprintf(text, WAIT_NAME, "the %s of %zu bytes on %s %s", noun, r->length,
			 ori_p2p_place(r, place), side);
	return text;
}

enum oriel_status oriel_p2p_wait(struct oriel_p2p *p2p, const struct oriel_p2p_request *request,
				 uint64_t timeout_ns)
{
	struct wait_patience patience;
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool has_moved = true, has_time = true;
	char silent[ORI_SILENT_TEXT], name[WAIT_NAME];

	if (status != ORIEL_OK)
		return status;
	if (!request)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_wait: request is NULL");
	patience = wait_patience(p2p, request, timeout_ns);
	ori_p2p_enter(p2p);
	while (request->status == ORIEL_AGAIN && has_time) {
		(void)ori_p2p_pass(p2p, &has_moved);
		if (request->status == ORIEL_AGAIN)
			has_time = wait_turn(&patience, has_moved);
	}
	wait_hide(&patience);
	ori_p2p_leave(p2p);
	if (request->status == ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_TIMEOUT, "%s %s is not done after %g s%s%s",
				wait_name(request, name), p2p->peer_name, patience.timeout_ns / 1e9,
				wait_limit(timeout_ns),
				ori_p2p_silent(p2p, patience.timeout_ns, silent));
	return wait_result(p2p, request);
}

static bool wait_is_drained(const struct oriel_p2p *p2p)
{
	if (p2p->active_out || !ori_control_is_idle(p2p))
		return false;
	for (uint64_t left = p2p->active_in; left; left &= left - 1) {
		unsigned channel = (unsigned)__builtin_ctzll(left);
		const struct oriel_p2p_request *first = p2p->in[channel].requests.first;

		/*
		 * The peer may never send what a receive waits for, unless a part of it has
		 * arrived.
		 */
		if ((first && first->done) || ori_recv_is_busy(p2p, channel))
			return false;
	}
	/* The peer waits for credits and counts as much as for bytes: they have left, too. */
	return p2p->done == p2p->begun && !p2p->is_dirty;
}

enum oriel_status oriel_p2p_drain(struct oriel_p2p *p2p, uint64_t timeout_ns)
{
	struct wait_patience patience;
	bool has_moved = true, has_time = true;
	char silent[ORI_SILENT_TEXT];
	enum oriel_status status = ori_handle_check(p2p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (status != ORIEL_OK)
		return status;
	patience = wait_patience(p2p, NULL, timeout_ns);
	ori_p2p_enter(p2p);
	status = ori_p2p_pass(p2p, &has_moved);
	while (status == ORIEL_OK && has_time && !wait_is_drained(p2p)) {
		has_time = wait_turn(&patience, has_moved);
		status = ori_p2p_pass(p2p, &has_moved);
	}
	wait_hide(&patience);
	ori_p2p_leave(p2p);
	if (status == ORIEL_OK && !wait_is_drained(p2p))
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"drain to %s: some requests are not done after %g s%s%s",
				p2p->peer_name, patience.timeout_ns / 1e9, wait_limit(timeout_ns),
				ori_p2p_silent(p2p, patience.timeout_ns, silent));
	return status;
}
