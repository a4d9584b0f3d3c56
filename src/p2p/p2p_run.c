/* SPDX-License-Identifier: Apache-2.0 */
/* How an end goes on, waits, and breaks. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <oriel/dev/order.h>
#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "p2p/p2p.h"

#define P2P_STEP_MIN (16u << 10)
#define P2P_PAGE 4096u
#define P2P_LOOK 128u          /* passes in vain between two looks at the clock ... */
#define P2P_LOOK_NS 20000u     /* ... and then at the socket, at most so often */
#define P2P_ASK 64u            /* passes between two looks at the deadline */
#define P2P_QUIET 64u          /* passes that only look, until one looks at all */
#define P2P_SPIN 400u          /* passes in vain before a wait gives the core away */
#define P2P_SLEEPY_NS 5000000u /* ... before it sleeps between them */
#define P2P_SLEEP_NS 50000

enum oriel_status ori_p2p_failed(const struct oriel_p2p *p)
{
	return ori_fail(p->failure, "%s", p->failure_text);
}

void ori_p2p_append(struct p2p_list *list, struct oriel_p2p_request *request)
{
	request->next = NULL;
	*list->last = request;
	list->last = &request->next;
}

bool ori_p2p_take_out(struct p2p_list *list, const struct oriel_p2p_request *request)
{
	struct oriel_p2p_request **at = &list->first;

	while (*at && *at != request)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = request->next;
	if (!*at)
		list->last = at;
	return true;
}

void ori_p2p_finish(struct oriel_p2p *p, struct oriel_p2p_request *r, enum oriel_status status)
{
	ori_mr_ref_drop(p->hub, r);
	r->memory = NULL;
	r->status = status;
}

void ori_p2p_finish_first(struct oriel_p2p *p, struct p2p_list *list, enum oriel_status status)
{
	struct oriel_p2p_request *r = list->first;

	list->first = r->next;
	if (!list->first)
		list->last = &list->first;
	ori_p2p_finish(p, r, status);
}

void ori_p2p_cancel(struct oriel_p2p *p, enum oriel_status status)
{
	for (unsigned channel = 0; channel < p->channels; channel++) {
		ori_out_cancel(p, channel, status);
		ori_in_cancel(p, channel, status);
	}
	p->active_out = p->active_in = 0;
	ori_control_cancel(p, status);
}

enum oriel_status ori_p2p_no_eager(struct oriel_p2p *p, const void *bytes, size_t length,
				   uint32_t immediate, uint64_t *op)
{
	(void)bytes, (void)length, (void)immediate, (void)op;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s carries no bytes", p->backend->name);
}

void ori_p2p_stop_copies(struct oriel_p2p *p, enum oriel_status status)
{
	if (p->hooks.cancel)
		p->hooks.cancel(p->context, status);
	ori_copy_streams_drain(p);
}

enum oriel_status ori_p2p_break(struct oriel_p2p *p, enum oriel_status status)
{
	char text[P2P_TEXT];

	if (p->state == P2P_BROKEN)
		return p->failure;
	snprintf(text, sizeof(text), "%s", oriel_last_error());
	p->state = P2P_BROKEN;
	p->failure = status;
	memcpy(p->failure_text, text, sizeof(text));
	if (!p->is_leaving)
		ori_control_socket_bye(p, status, text);
	ori_p2p_stop_copies(p, status);
	if (p->backend)
		p->backend->sever(p);
	ori_control_socket_close(p);
	ori_p2p_cancel(p, status);
	return ori_p2p_failed(p);
}

uint64_t ori_p2p_word(const struct oriel_p2p *p, unsigned which)
{
	/* Acquire: with the word that the peer, or the adapter for it, has stored. */
	return oriel_dev_load_acquire(&p->segment->board.words[which]);
}

/*
 * Puts have no order: of two of one count, the earlier one could come last. A credit
 * is used before there is another in its place.
 */
static bool p2p_is_under_way(const struct oriel_p2p *p, unsigned which)
{
	return which < P2P_WORD_CREDIT && p->counts_op[which] > p->done;
}

static enum oriel_status p2p_put_word(struct oriel_p2p *p, unsigned which)
{
	uint64_t *desk = &p->segment->desk.words[which], at = which * sizeof(*desk), op;
	struct p2p_local from = p2p_local_control(p, desk);
	struct p2p_remote to = p2p_remote_control(p, at);
	enum oriel_status st;

	if (p2p_is_under_way(p, which))
		return ORIEL_AGAIN;
	st = p->backend->put(p, &from, &to, sizeof(*desk), &op);
	if (st == ORIEL_OK && which < P2P_WORD_CREDIT)
		p->counts_op[which] = op + 1;
	return st;
}

enum oriel_status ori_p2p_set_word(struct oriel_p2p *p, unsigned which, uint64_t value)
{
	enum oriel_status st;

	if (p->is_leaving)
		return ORIEL_OK;
	oriel_dev_store_release(&p->segment->desk.words[which], value);
	st = p2p_put_word(p, which);
	if (st != ORIEL_AGAIN)
		return st;
	p->dirty[which / 64] |= UINT64_C(1) << which % 64;
	p->is_dirty = true;
	return ORIEL_OK;
}

static enum oriel_status p2p_put_dirty(struct oriel_p2p *p)
{
	bool is_left = false;

	if (!p->is_dirty || p->is_leaving)
		return ORIEL_OK;
	for (unsigned i = 0; i < sizeof(p->dirty) / sizeof(p->dirty[0]); i++) {
		for (uint64_t left = p->dirty[i]; left; left &= left - 1) {
			unsigned which = i * 64 + (unsigned)__builtin_ctzll(left);
			enum oriel_status st;

			if (p2p_is_under_way(p, which)) {
				is_left = true;
				continue;
			}
			st = p2p_put_word(p, which);
			if (st != ORIEL_OK)
				return st == ORIEL_AGAIN ? ORIEL_OK : st;
			p->dirty[i] &= ~(UINT64_C(1) << which % 64);
		}
	}
	p->is_dirty = is_left;
	return ORIEL_OK;
}

size_t ori_p2p_step(const struct oriel_p2p *p, uint64_t length)
{
	/* Four chunks of what is not long: the copies at both ends go on beside each other. */
	uint64_t step = (length / 4 + P2P_PAGE - 1) / P2P_PAGE * P2P_PAGE;

	if (step < P2P_STEP_MIN)
		step = P2P_STEP_MIN;
	return step < p->chunk ? (size_t)step : p->chunk;
}

static enum oriel_status p2p_dispatch(struct oriel_p2p *p, uint32_t immediate)
{
	switch (immediate >> 30) {
	case P2P_IMM_CELL:
		return ori_control_arrived(p, immediate);
	case P2P_IMM_UNIT:
		return ori_in_arrived(p, immediate);
	case P2P_IMM_OFFER:
		return ori_out_offered(p, immediate);
	case P2P_IMM_EAGER:
		/* take() has seen to it. */
		if (p->backend->carries)
			return ORIEL_OK;
	}
	return ori_fail(ORIEL_ERR_PROTOCOL, "the peer tells 0x%08x", immediate);
}

static enum oriel_status p2p_take_all(struct oriel_p2p *p, bool *has_moved)
{
	uint32_t immediate;
	enum oriel_status st;

	while ((st = p->backend->take(p, &immediate)) == ORIEL_OK) {
		*has_moved = true;
		st = p2p_dispatch(p, immediate);
		if (st != ORIEL_OK)
			return st;
	}
	return st == ORIEL_AGAIN ? ORIEL_OK : st;
}

static enum oriel_status p2p_run(struct oriel_p2p *p, bool *has_moved)
{
	enum oriel_status st;

	p->is_due = p->is_pending = false;
	st = ori_control_run(p, has_moved);
	for (uint64_t left = p->active_in; left && st == ORIEL_OK; left &= left - 1)
		st = ori_in_run(p, (unsigned)__builtin_ctzll(left), has_moved);
	for (uint64_t left = p->active_out; left && st == ORIEL_OK && !p->is_leaving;
	     left &= left - 1)
		st = ori_out_run(p, (unsigned)__builtin_ctzll(left), has_moved);
	for (uint64_t left = p->untold; left && st == ORIEL_OK; left &= left - 1)
		st = ori_in_report(p, (unsigned)__builtin_ctzll(left));
	return st;
}

/* What this thread's last error tells ends the link; what has come is still taken. */
static void p2p_start_leaving(struct oriel_p2p *p, enum oriel_status status)
{
	if (p->is_leaving)
		return;
	p->is_leaving = true;
	p->leaving = status;
	snprintf(p->failure_text, sizeof(p->failure_text), "%s", oriel_last_error());
}

/* A look at the socket is a call of the system, which takes as long as a message. */
static bool p2p_is_time_to_look(struct oriel_p2p *p)
{
	uint64_t now;

	if (p->is_leaving || ++p->looks % P2P_LOOK)
		return false;
	now = ori_clock_ns();
	if (now - p->looked < P2P_LOOK_NS)
		return false;
	p->looked = now;
	return true;
}

/* A peer who waits with something else sees what is waited for here. */
static enum oriel_status p2p_tell_granted(struct oriel_p2p *p)
{
	enum oriel_status st = ORIEL_OK;

	if (!p->eager_max || p->is_leaving || p->backend->enter(p) != ORIEL_OK)
		return ORIEL_OK;
	for (uint64_t left = p->active_in; left && st == ORIEL_OK; left &= left - 1)
		st = ori_in_report_granted(p, (unsigned)__builtin_ctzll(left));
	p->backend->leave(p);
	return st;
}

/* Nothing has moved: is the peer still there? */
static enum oriel_status p2p_look(struct oriel_p2p *p)
{
	enum oriel_status st = ORIEL_OK;

	if (p2p_is_time_to_look(p)) {
		st = ori_control_socket_watch(p);
		if (st == ORIEL_OK)
			st = p2p_tell_granted(p);
	}
	if (st != ORIEL_OK || !p->is_leaving)
		return st;
	for (uint64_t left = p->active_in; left; left &= left - 1)
		if (ori_in_is_busy(p, (unsigned)__builtin_ctzll(left)))
			return ORIEL_OK;
	return ori_fail(p->leaving, "%s", p->failure_text);
}

/* The peer lets nobody in any more, and has said why before. */
static enum oriel_status p2p_refused(struct oriel_p2p *p)
{
	enum oriel_status st = ori_control_socket_watch(p);

	if (st == ORIEL_OK && !p->is_leaving) {
		(void)ori_fail(ORIEL_ERR_PEER, "the peer, %s, has destroyed its end", p->whom);
		p2p_start_leaving(p, ORIEL_ERR_PEER);
	}
	return st;
}

/* What is for the link, while there is one. */
static enum oriel_status p2p_advance(struct oriel_p2p *p)
{
	enum oriel_status st = p->backend->progress(p);

	if (st == ORIEL_OK)
		return p2p_put_dirty(p);
	p2p_start_leaving(p, st);
	return ORIEL_OK;
}

/* Is there nothing to do but to wait for the peer? Then a pass is one look at the ring. */
static bool p2p_is_quiet(struct oriel_p2p *p)
{
	return p->backend->is_mapped && !p->active_out && !p->is_dirty && !p->is_due &&
	       !p->is_pending && !p->untold && !p->link.wait_count && !p->is_leaving &&
	       ori_control_is_idle(p) && ++p->quiet % P2P_QUIET;
}

static enum oriel_status p2p_pass_joined(struct oriel_p2p *p, bool *has_moved)
{
	enum oriel_status st = ORIEL_OK;
	bool is_inside;

	if (p2p_is_quiet(p)) {
		st = p2p_take_all(p, has_moved);
		if (st != ORIEL_OK)
			return st;
		if (!p->is_due)
			return *has_moved ? ORIEL_OK : p2p_look(p);
	}
	is_inside = !p->is_leaving && p->backend->enter(p) == ORIEL_OK;
	if (is_inside)
		st = p2p_advance(p);
	else if (!p->is_leaving)
		st = p2p_refused(p);
	if (st == ORIEL_OK)
		st = p2p_take_all(p, has_moved);
	if (st == ORIEL_OK)
		st = p2p_run(p, has_moved);
	if (is_inside)
		p->backend->leave(p);
	return st == ORIEL_OK && !*has_moved ? p2p_look(p) : st;
}

static enum oriel_status p2p_pass_meeting(struct oriel_p2p *p, bool *has_moved)
{
	enum oriel_status st = ori_control_socket_meet(p, has_moved);

	if (st == ORIEL_OK) {
		p->state = P2P_JOINED;
		*has_moved = true;
		return st;
	}
	if (st == ORIEL_AGAIN)
		st = ORIEL_OK;
	if (st == ORIEL_OK && ori_deadline_passed(p->deadline))
		st = ori_fail(ORIEL_ERR_TIMEOUT, "%s has not connected its end in time", p->whom);
	return st;
}

static enum oriel_status p2p_pass(struct oriel_p2p *p, bool *has_moved)
{
	enum oriel_status st = ORIEL_OK;

	*has_moved = false;
	switch (p->state) {
	case P2P_IDLE:
		return ORIEL_OK;
	case P2P_CALLING:
	case P2P_MEETING:
		st = p2p_pass_meeting(p, has_moved);
		break;
	case P2P_JOINED:
		st = p2p_pass_joined(p, has_moved);
		break;
	case P2P_BROKEN:
		return ori_p2p_failed(p);
	}
	return st == ORIEL_OK ? ORIEL_OK : ori_p2p_break(p, st);
}

enum oriel_status oriel_p2p_progress(struct oriel_p2p *p)
{
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool has_moved;

	if (st != ORIEL_OK)
		return st;
	ori_p2p_enter(p);
	st = p2p_pass(p, &has_moved);
	ori_p2p_leave(p);
	return st;
}

static enum oriel_status p2p_result(const struct oriel_p2p *p,
				    const struct oriel_p2p_request *request)
{
	enum oriel_status st = request->status;

	if (st >= 0)
		return st;
	if (p->state == P2P_BROKEN)
		return ori_p2p_failed(p);
	if (st == ORIEL_ERR_ABORTED)
		return ori_fail(st, "the request was cancelled");
	return ori_fail(st, "a control message of %zu bytes came for a receive of %zu",
			request->length, (size_t)request->address);
}

enum oriel_status oriel_p2p_test(struct oriel_p2p *p, const struct oriel_p2p_request *request)
{
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool has_moved;

	if (st != ORIEL_OK)
		return st;
	if (!request)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_test: request is NULL");
	if (request->status == ORIEL_AGAIN) {
		ori_p2p_enter(p);
		(void)p2p_pass(p, &has_moved);
		ori_p2p_leave(p);
	}
	return p2p_result(p, request);
}

/* Turns of a wait in which nothing moved. Who waits for little asks no clock. */
struct p2p_patience {
	uint64_t timeout_ns, deadline, since; /* the last two 0: not asked yet */
	unsigned turns, passes;
};

/* False if the deadline has passed. */
static bool p2p_wait_turn(struct p2p_patience *patience, bool has_moved)
{
	const struct timespec pause = {.tv_nsec = P2P_SLEEP_NS};
	uint64_t now;

	if (has_moved) {
		patience->turns = 0;
		patience->since = 0;
	}
	if (++patience->passes % P2P_ASK && ++patience->turns < P2P_SPIN)
		return true;
	now = ori_clock_ns();
	if (!patience->deadline)
		patience->deadline = ori_deadline(patience->timeout_ns);
	if (patience->deadline != ORIEL_FOREVER && now >= patience->deadline)
		return false;
	if (patience->turns < P2P_SPIN)
		return true;
	if (!patience->since)
		patience->since = now;
	if (now - patience->since < P2P_SLEEPY_NS)
		sched_yield();
	else
		nanosleep(&pause, NULL);
	return true;
}

static struct p2p_patience p2p_patience(const struct oriel_p2p *p, uint64_t timeout_ns)
{
	struct p2p_patience patience = {.timeout_ns = timeout_ns ? timeout_ns : p->hub->timeout_ns};

	return patience;
}

enum oriel_status oriel_p2p_wait(struct oriel_p2p *p, const struct oriel_p2p_request *request,
				 uint64_t timeout_ns)
{
	struct p2p_patience patience;
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);
	bool has_moved = true, has_time = true;

	if (st != ORIEL_OK)
		return st;
	if (!request)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_wait: request is NULL");
	patience = p2p_patience(p, timeout_ns);
	ori_p2p_enter(p);
	while (request->status == ORIEL_AGAIN && has_time) {
		(void)p2p_pass(p, &has_moved);
		if (request->status == ORIEL_AGAIN)
			has_time = p2p_wait_turn(&patience, has_moved);
	}
	ori_p2p_leave(p);
	if (request->status == ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_TIMEOUT, "a request to %s is not done in time", p->whom);
	return p2p_result(p, request);
}

static bool p2p_is_drained(const struct oriel_p2p *p)
{
	if (p->active_out || !ori_control_is_idle(p))
		return false;
	for (uint64_t left = p->active_in; left; left &= left - 1) {
		unsigned channel = (unsigned)__builtin_ctzll(left);
		const struct oriel_p2p_request *first = p->in[channel].requests.first;

		if ((first && first->done) || ori_in_is_busy(p, channel))
			return false;
	}
	return p->done == p->begun && !p->is_dirty;
}

enum oriel_status oriel_p2p_drain(struct oriel_p2p *p, uint64_t timeout_ns)
{
	struct p2p_patience patience;
	bool has_moved = true, has_time = true;
	enum oriel_status st = ori_handle_check(p, ORI_HANDLE_P2P_ENDPOINT, __func__);

	if (st != ORIEL_OK)
		return st;
	patience = p2p_patience(p, timeout_ns);
	ori_p2p_enter(p);
	st = p2p_pass(p, &has_moved);
	while (st == ORIEL_OK && has_time && !p2p_is_drained(p)) {
		has_time = p2p_wait_turn(&patience, has_moved);
		st = p2p_pass(p, &has_moved);
	}
	ori_p2p_leave(p);
	if (st == ORIEL_OK && !p2p_is_drained(p))
		return ori_fail(ORIEL_ERR_TIMEOUT, "not all for %s is done in time", p->whom);
	return st;
}
