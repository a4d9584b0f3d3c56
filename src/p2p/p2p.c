/* SPDX-License-Identifier: Apache-2.0 */
#include "p2p/p2p.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/dev/order.h>
#include <sched.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"

#define P2P_LENGTH_MAX (UINT64_C(1) << 43) /* chunks of a transfer are counted in 32 bits */
#define P2P_STEP_MIN (16u << 10)
#define P2P_PAGE 4096u
#define P2P_LOOK 64u           /* passes in vain between two looks at the socket */
#define P2P_SPIN 100u          /* passes in vain before a wait gives the core away */
#define P2P_SLEEPY_NS 5000000u /* ... before it sleeps between them */
#define P2P_SLEEP_NS 50000

/* One thread at a time: the claim that debug builds check. */
static void p2p_enter(struct oriel_p2p *p)
{
	bool was_inside = atomic_exchange_explicit(&p->is_inside, true, memory_order_relaxed);

	assert(!was_inside && "an end is used by two threads at once");
	(void)was_inside;
}

static void p2p_leave(struct oriel_p2p *p)
{
	atomic_store_explicit(&p->is_inside, false, memory_order_relaxed);
}

static enum oriel_status p2p_failed(const struct oriel_p2p *p)
{
	return ori_fail(p->failure, "%s", p->failure_text);
}

const char *oriel_p2p_mode_name(enum oriel_p2p_mode mode)
{
	switch (mode) {
	case ORIEL_P2P_AUTO:
		return "auto";
	case ORIEL_P2P_ZERO_COPY:
		return "zero_copy";
	case ORIEL_P2P_COPY_BASED:
		return "copy_based";
	}
	return "unknown mode";
}

void ori_p2p_append(struct p2p_list *list, struct oriel_p2p_request *request)
{
	request->next = NULL;
	*list->last = request;
	list->last = &request->next;
}

void ori_p2p_finish(struct oriel_p2p *p, struct oriel_p2p_request *r, enum oriel_status status)
{
	(void)p;
	if (r->has_own_memory)
		oriel_p2p_unregister(r->memory);
	r->memory = NULL;
	r->has_own_memory = false;
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

static void p2p_cancel(struct oriel_p2p *p, enum oriel_status status)
{
	for (unsigned channel = 0; channel < p->channels; channel++) {
		ori_out_cancel(p, channel, status);
		ori_in_cancel(p, channel, status);
	}
	p->active_out = p->active_in = 0;
	ori_control_cancel(p, status);
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
		ori_door_bye(p, status, text);
	if (p->backend)
		p->backend->sever(p);
	ori_door_close(p);
	p2p_cancel(p, status);
	return p2p_failed(p);
}

uint64_t ori_p2p_word(const struct oriel_p2p *p, unsigned which)
{
	/* Acquire: with the word that the peer, or the adapter for it, has stored. */
	return oriel_dev_load_acquire(&p->segment->board.words[which]);
}

static enum oriel_status p2p_put_word(struct oriel_p2p *p, unsigned which)
{
	uint64_t *desk = &p->segment->desk.words[which], at = which * sizeof(*desk), op;
	struct p2p_near from = {(char *)desk, (uint64_t)((char *)desk - (char *)p->segment),
				p->area.keys.lkey};
	struct p2p_far to = {p->board.at ? p->board.at + at : NULL, p->board.address + at,
			     p->board.key};

	return p->backend->put(p, &from, &to, sizeof(*desk), &op);
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
	if (!p->is_dirty || p->is_leaving)
		return ORIEL_OK;
	for (unsigned i = 0; i < sizeof(p->dirty) / sizeof(p->dirty[0]); i++) {
		while (p->dirty[i]) {
			unsigned which = i * 64 + (unsigned)__builtin_ctzll(p->dirty[i]);
			enum oriel_status st = p2p_put_word(p, which);

			if (st != ORIEL_OK)
				return st == ORIEL_AGAIN ? ORIEL_OK : st;
			p->dirty[i] &= p->dirty[i] - 1;
		}
	}
	p->is_dirty = false;
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

static enum oriel_status p2p_copy_in(void *context, const struct oriel_p2p_chunk *chunk)
{
	(void)context;
	memcpy(chunk->slot, chunk->buffer, chunk->length);
	return ORIEL_OK;
}

static enum oriel_status p2p_copy_out(void *context, const struct oriel_p2p_chunk *chunk)
{
	(void)context;
	memcpy(chunk->buffer, chunk->slot, chunk->length);
	return ORIEL_OK;
}

static enum oriel_status p2p_set_attr(struct oriel_p2p *p, const struct oriel_p2p_attr *attr)
{
	enum oriel_status st;

	if (attr->mode > ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_attr.mode is %u", attr->mode);
	p->mode = (enum oriel_p2p_mode)attr->mode;
	p->channels = attr->channels ? attr->channels : 1;
	if (p->channels > ORIEL_P2P_CHANNELS)
		return ori_fail(ORIEL_ERR_RANGE, "%u channels, not 1 to %u", p->channels,
				ORIEL_P2P_CHANNELS);
	p->depth = attr->depth ? attr->depth : 8;
	if (!attr->depth && p->depth * p->channels > P2P_SLOTS)
		p->depth = P2P_SLOTS / p->channels;
	if (p->depth > P2P_DEPTH || p->depth * p->channels > P2P_SLOTS)
		return ori_fail(ORIEL_ERR_RANGE, "%u channels of depth %u: up to %u, %u together",
				p->channels, p->depth, P2P_DEPTH, P2P_SLOTS);
	st = ori_attr_read("oriel_p2p_hooks", attr->hooks, &p->hooks, sizeof(p->hooks));
	if (!p->hooks.pack)
		p->hooks.pack = p2p_copy_in;
	if (!p->hooks.unpack)
		p->hooks.unpack = p2p_copy_out;
	p->context = attr->context;
	return st;
}

static void p2p_free(struct oriel_p2p *p)
{
	if (p->spare >= 0)
		ori_hub_give_spare(p->hub, p->spare);
	while (p->given_count)
		ori_mem_unref(p->given[--p->given_count]);
	ori_control_close(p);
	free(p->offered);
	free(p->in);
	free(p->out);
	ori_hub_unregister(p->hub, &p->area);
	if (p->area.mem)
		ori_area_close(&p->area);
	free(p);
}

static enum oriel_status p2p_fill(struct oriel_p2p *p)
{
	enum oriel_status st;

	p->out = calloc(p->channels, sizeof(*p->out));
	p->in = calloc(p->channels, sizeof(*p->in));
	p->offered = calloc(P2P_SLOTS, sizeof(*p->offered));
	if (!p->out || !p->in || !p->offered)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an end of %u channels",
				p->channels);
	for (unsigned i = 0; i < p->channels; i++) {
		p->out[i].requests.last = &p->out[i].requests.first;
		p->in[i].requests.last = &p->in[i].requests.first;
	}
	st = ori_control_open(p);
	if (st == ORIEL_OK)
		st = ori_area_open(&p->area, sizeof(struct p2p_segment));
	if (st == ORIEL_OK && p->mode != ORIEL_P2P_ZERO_COPY)
		st = ori_hub_take_spare(p->hub, &p->spare);
	p->segment = (struct p2p_segment *)(void *)p->area.base;
	return st;
}

enum oriel_status ori_p2p_open(struct oriel_p2p_hub *hub, const struct oriel_p2p_attr *caller,
			       uint64_t number, struct oriel_p2p **out)
{
	struct oriel_p2p_attr attr;
	struct oriel_p2p *p;
	enum oriel_status st;

	st = ori_attr_read("oriel_p2p_attr", caller, &attr, sizeof(attr));
	if (st != ORIEL_OK)
		return st;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an end");
	p->hub = hub;
	p->spare = -1;
	p->door.fd = -1;
	p->address = hub->address;
	p->address.token.number = number;
	st = p2p_set_attr(p, &attr);
	if (st == ORIEL_OK)
		st = p2p_fill(p);
	if (st != ORIEL_OK) {
		p2p_free(p);
		return st;
	}
	ori_hub_add(hub, p);
	*out = p;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_create(struct oriel_p2p_hub *hub, const struct oriel_p2p_attr *attr,
				   struct oriel_p2p **p2p)
{
	if (!hub || !p2p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_create: %s is NULL",
				hub ? "p2p" : "hub");
	return ori_p2p_open(hub, attr, atomic_fetch_add(&hub->number, 1), p2p);
}

void oriel_p2p_destroy(struct oriel_p2p *p)
{
	ori_error_clear();
	if (!p)
		return;
	if (p->has_owner)
		(void)ori_fail(ORIEL_ERR_STATE,
			       "oriel_p2p_destroy: the end belongs to its communicator, or mock");
	else
		ori_p2p_close(p);
}

void ori_p2p_close(struct oriel_p2p *p)
{
	p2p_enter(p);
	if (p->state != P2P_BROKEN) {
		ori_door_bye(p, ORIEL_OK, "");
		if (p->backend)
			p->backend->sever(p);
		ori_door_close(p);
		p2p_cancel(p, ORIEL_ERR_ABORTED);
	}
	ori_hub_remove(p->hub, p);
	p2p_free(p);
}

enum oriel_status oriel_p2p_address(const struct oriel_p2p *p, void *bytes)
{
	if (!p || !bytes)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_address: %s is NULL",
				p ? "bytes" : "p2p");
	memcpy(bytes, &p->address, sizeof(p->address));
	return ORIEL_OK;
}

enum oriel_status ori_p2p_join(struct oriel_p2p *p, const struct p2p_address *peer,
			       uint64_t timeout_ns)
{
	enum oriel_path path = ori_p2p_address_path(&p->address, peer);

	p->peer = *peer;
	p->deadline = ori_deadline(timeout_ns ? timeout_ns : p->hub->timeout_ns);
	switch (path) {
	case ORIEL_PATH_SELF:
		p->backend = &ori_p2p_self;
		p->state = P2P_JOINED;
		return p->backend->connect(p, NULL, NULL, 0);
	case ORIEL_PATH_MAPPED:
		p->backend = &ori_p2p_mapped;
		break;
	case ORIEL_PATH_RDMA:
		p->backend = &ori_p2p_rdma;
		break;
	case ORIEL_PATH_NONE:
		return ori_fail(ORIEL_ERR_NO_PATH,
				"no path from process %u to process %u: this end may use 0x%x, the "
				"peer's 0x%x, and they are on %s",
				p->address.pid, peer->pid, p->address.paths, peer->paths,
				p->address.place == peer->place ? "one machine"
								: "two machines or namespaces");
	}
	p->state = P2P_CALLING;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_connect(struct oriel_p2p *p, const void *address, size_t length,
				    uint64_t timeout_ns)
{
	struct p2p_address peer;
	enum oriel_status st;

	if (!p || !address)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_connect: %s is NULL",
				p ? "address" : "p2p");
	if (p->state == P2P_BROKEN)
		return p2p_failed(p);
	if (p->state != P2P_IDLE)
		return ori_fail(ORIEL_ERR_STATE, "oriel_p2p_connect: it has been called before");
	st = ori_p2p_address_parse(address, length, &peer);
	return st == ORIEL_OK ? ori_p2p_join(p, &peer, timeout_ns) : st;
}

enum oriel_status oriel_p2p_check(const struct oriel_p2p *p)
{
	if (!p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_check: p2p is NULL");
	if (p->state == P2P_BROKEN)
		return p2p_failed(p);
	return p->state == P2P_JOINED ? ORIEL_OK : ORIEL_AGAIN;
}

enum oriel_status oriel_p2p_describe(const struct oriel_p2p *p, struct oriel_p2p_info *info)
{
	bool is_joined;

	if (!p || !info)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_describe: %s is NULL",
				p ? "info" : "p2p");
	is_joined = p->state == P2P_JOINED;
	*info = (struct oriel_p2p_info){
		.path = is_joined ? p->backend->path : ORIEL_PATH_NONE,
		.mode = p->mode,
		.backend = is_joined ? p->backend->name : "none",
		.channels = p->channels,
		.depth = p->depth,
		.chunk = is_joined ? p->chunk : p->hub->pool.chunk,
		.control_max = ORIEL_P2P_CONTROL,
		.is_same_process = p->peer.process == p->address.process,
	};
	return ORIEL_OK;
}

static enum oriel_status p2p_dispatch(struct oriel_p2p *p, uint32_t immediate)
{
	switch (immediate >> 30) {
	case P2P_TELL_CELL:
		return ori_control_arrived(p, immediate);
	case P2P_TELL_UNIT:
		return ori_in_arrived(p, immediate);
	case P2P_TELL_OFFER:
		return ori_out_offered(p, immediate);
	}
	return ori_fail(ORIEL_ERR_PROTOCOL, "the peer tells 0x%08x", immediate);
}

static enum oriel_status p2p_take_all(struct oriel_p2p *p, bool *has_moved)
{
	uint32_t immediate;
	enum oriel_status st;

	while (p->backend->take(p, &immediate) == ORIEL_OK) {
		*has_moved = true;
		st = p2p_dispatch(p, immediate);
		if (st != ORIEL_OK)
			return st;
	}
	return ORIEL_OK;
}

static enum oriel_status p2p_run(struct oriel_p2p *p, bool *has_moved)
{
	enum oriel_status st = ori_control_run(p, has_moved);

	for (uint64_t left = p->active_in; left && st == ORIEL_OK; left &= left - 1)
		st = ori_in_run(p, (unsigned)__builtin_ctzll(left), has_moved);
	for (uint64_t left = p->active_out; left && st == ORIEL_OK && !p->is_leaving;
	     left &= left - 1)
		st = ori_out_run(p, (unsigned)__builtin_ctzll(left), has_moved);
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

/* Nothing has moved: is the peer still there? */
static enum oriel_status p2p_look(struct oriel_p2p *p)
{
	enum oriel_status st = ORIEL_OK;

	if (!p->is_leaving && ++p->looks % P2P_LOOK == 0)
		st = ori_door_watch(p);
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
	enum oriel_status st = ori_door_watch(p);

	if (st == ORIEL_OK && !p->is_leaving) {
		(void)ori_fail(ORIEL_ERR_PEER, "the peer has destroyed its end");
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

static enum oriel_status p2p_pass_joined(struct oriel_p2p *p, bool *has_moved)
{
	bool is_inside = !p->is_leaving && p->backend->enter(p) == ORIEL_OK;
	enum oriel_status st = ORIEL_OK;

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
	enum oriel_status st = ori_door_meet(p, has_moved);

	if (st == ORIEL_OK) {
		p->state = P2P_JOINED;
		*has_moved = true;
		return st;
	}
	if (st == ORIEL_AGAIN)
		st = ORIEL_OK;
	if (st == ORIEL_OK && ori_deadline_passed(p->deadline))
		st = ori_fail(ORIEL_ERR_TIMEOUT, "process %u has not connected its end in time",
			      p->peer.pid);
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
		return p2p_failed(p);
	}
	return st == ORIEL_OK ? ORIEL_OK : ori_p2p_break(p, st);
}

enum oriel_status oriel_p2p_progress(struct oriel_p2p *p)
{
	enum oriel_status st;
	bool has_moved;

	if (!p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_progress: p2p is NULL");
	p2p_enter(p);
	st = p2p_pass(p, &has_moved);
	p2p_leave(p);
	return st;
}

static enum oriel_status p2p_result(const struct oriel_p2p *p,
				    const struct oriel_p2p_request *request)
{
	enum oriel_status st = request->status;

	if (st >= 0)
		return st;
	if (p->state == P2P_BROKEN)
		return p2p_failed(p);
	return ori_fail(st, "a control message of %zu bytes came for a receive of %zu",
			request->length, (size_t)request->address);
}

enum oriel_status oriel_p2p_test(struct oriel_p2p *p, const struct oriel_p2p_request *request)
{
	bool has_moved;

	if (!p || !request)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_test: %s is NULL",
				p ? "request" : "p2p");
	if (request->status == ORIEL_AGAIN) {
		p2p_enter(p);
		(void)p2p_pass(p, &has_moved);
		p2p_leave(p);
	}
	return p2p_result(p, request);
}

/* Turns of a wait in which nothing moved. */
struct p2p_patience {
	uint64_t deadline, since;
	unsigned turns;
};

/* False if the deadline has passed. */
static bool p2p_wait_turn(struct p2p_patience *patience, bool has_moved)
{
	const struct timespec pause = {.tv_nsec = P2P_SLEEP_NS};
	uint64_t now;

	if (has_moved) {
		patience->turns = 0;
		patience->since = 0;
		return true;
	}
	if (++patience->turns < P2P_SPIN)
		return true;
	now = ori_clock_ns();
	if (patience->deadline != ORIEL_FOREVER && now >= patience->deadline)
		return false;
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
	struct p2p_patience patience = {
		.deadline = ori_deadline(timeout_ns ? timeout_ns : p->hub->timeout_ns)};

	return patience;
}

enum oriel_status oriel_p2p_wait(struct oriel_p2p *p, const struct oriel_p2p_request *request,
				 uint64_t timeout_ns)
{
	struct p2p_patience patience;
	bool has_moved = true, has_time = true;

	if (!p || !request)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_wait: %s is NULL",
				p ? "request" : "p2p");
	patience = p2p_patience(p, timeout_ns);
	p2p_enter(p);
	while (request->status == ORIEL_AGAIN && has_time) {
		(void)p2p_pass(p, &has_moved);
		if (request->status == ORIEL_AGAIN)
			has_time = p2p_wait_turn(&patience, has_moved);
	}
	p2p_leave(p);
	if (request->status == ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_TIMEOUT, "a request to process %u is not done in time",
				p->peer.pid);
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
	enum oriel_status st;

	if (!p)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_drain: p2p is NULL");
	patience = p2p_patience(p, timeout_ns);
	p2p_enter(p);
	st = p2p_pass(p, &has_moved);
	while (st == ORIEL_OK && has_time && !p2p_is_drained(p)) {
		has_time = p2p_wait_turn(&patience, has_moved);
		st = p2p_pass(p, &has_moved);
	}
	p2p_leave(p);
	if (st == ORIEL_OK && !p2p_is_drained(p))
		return ori_fail(ORIEL_ERR_TIMEOUT, "not all for process %u is done in time",
				p->peer.pid);
	return st;
}

/* Begins @r, and does at once what can be done at once. */
static enum oriel_status p2p_start(struct oriel_p2p *p, struct oriel_p2p_request *r,
				   void (*begin)(struct oriel_p2p *p, struct oriel_p2p_request *r))
{
	enum oriel_status st = ORIEL_OK;
	bool has_moved = false;

	r->status = ORIEL_AGAIN;
	begin(p, r);
	if (p->state != P2P_JOINED || p->is_leaving || p->backend->enter(p) != ORIEL_OK)
		return ORIEL_OK;
	if (r->kind == P2P_SEND || r->kind == P2P_PUT)
		st = ori_out_run(p, r->channel, &has_moved);
	else if (r->kind == P2P_RECV || r->kind == P2P_EXPECT)
		st = ori_in_run(p, r->channel, &has_moved);
	else
		st = ori_control_run(p, &has_moved);
	p->backend->leave(p);
	return st == ORIEL_OK ? ORIEL_OK : ori_p2p_break(p, st);
}

static enum oriel_status p2p_begin(struct oriel_p2p *p, struct oriel_p2p_request *r,
				   const char *call)
{
	if (!p || !r)
		return ori_fail(ORIEL_ERR_INVALID, "%s: %s is NULL", call, p ? "request" : "p2p");
	return p->state == P2P_BROKEN ? p2p_failed(p) : ORIEL_OK;
}

static enum oriel_status p2p_control(struct oriel_p2p *p, uint64_t tag, void *data, size_t length,
				     struct oriel_p2p_request *r, enum p2p_kind kind)
{
	r->kind = (uint8_t)kind;
	r->tag = tag;
	r->buffer = data;
	r->at = 0;
	r->address = length;
	r->length = length;
	r->memory = NULL;
	r->has_own_memory = false;
	return p2p_start(p, r, kind == P2P_SEND_CONTROL ? ori_control_send : ori_control_recv);
}

enum oriel_status oriel_p2p_send_control(struct oriel_p2p *p, uint64_t tag, const void *data,
					 size_t length, struct oriel_p2p_request *r)
{
	enum oriel_status st = p2p_begin(p, r, "oriel_p2p_send_control");

	if (st != ORIEL_OK)
		return st;
	if (length > ORIEL_P2P_CONTROL)
		return ori_fail(ORIEL_ERR_RANGE, "a control message of %zu bytes, not %u at most",
				length, ORIEL_P2P_CONTROL);
	if (length && !data)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_send_control: data is NULL");
	p2p_enter(p);
	st = p2p_control(p, tag, (void *)(uintptr_t)data, length, r, P2P_SEND_CONTROL);
	p2p_leave(p);
	return st;
}

enum oriel_status oriel_p2p_recv_control(struct oriel_p2p *p, uint64_t tag, void *data, size_t room,
					 struct oriel_p2p_request *r)
{
	enum oriel_status st = p2p_begin(p, r, "oriel_p2p_recv_control");

	if (st != ORIEL_OK)
		return st;
	if (room && !data)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_recv_control: data is NULL");
	p2p_enter(p);
	st = p2p_control(p, tag, data, room, r, P2P_RECV_CONTROL);
	p2p_leave(p);
	return st;
}

static enum oriel_status p2p_check_buffer(const struct oriel_p2p *p,
					  const struct oriel_p2p_buffer *b, const char *call)
{
	const struct oriel_p2p_memory *m;

	if (!b || (b->length && !b->address))
		return ori_fail(ORIEL_ERR_INVALID, "%s: the buffer is NULL", call);
	if (b->length > P2P_LENGTH_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "%s: %zu bytes are too many", call, b->length);
	m = b->memory;
	if (!m)
		return ORIEL_OK;
	if (m->hub != p->hub)
		return ori_fail(ORIEL_ERR_INVALID, "%s: memory of another hub", call);
	if ((uintptr_t)b->address < (uintptr_t)m->address || b->length > m->length ||
	    (uintptr_t)b->address - (uintptr_t)m->address > m->length - b->length)
		return ori_fail(ORIEL_ERR_RANGE,
				"%s: %zu bytes at %p are not within the registered %zu at %p", call,
				b->length, b->address, m->length, (void *)m->address);
	return ORIEL_OK;
}

/* The nth of its channel. */
static enum oriel_status p2p_transfer(struct oriel_p2p *p, unsigned channel,
				      const struct oriel_p2p_buffer *b, struct oriel_p2p_request *r,
				      enum p2p_kind kind)
{
	bool is_out = kind == P2P_SEND || kind == P2P_PUT;
	enum oriel_status st;

	r->kind = (uint8_t)kind;
	r->channel = (uint8_t)channel;
	r->buffer = b->address;
	r->length = b->length;
	r->memory = b->memory;
	r->has_own_memory = false;
	if (!b->length && kind != P2P_EXPECT) {
		is_out ? p->out[channel].number++ : p->in[channel].number++;
		r->status = ORIEL_OK;
		return ORIEL_OK;
	}
	p2p_enter(p);
	st = p2p_start(p, r, is_out ? ori_out_begin : ori_in_begin);
	p2p_leave(p);
	return st;
}

static enum oriel_status p2p_check_channel(const struct oriel_p2p *p, unsigned channel,
					   const char *call)
{
	if (channel < p->channels)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_RANGE, "%s: channel %u of %u", call, channel, p->channels);
}

enum oriel_status oriel_p2p_send(struct oriel_p2p *p, unsigned channel,
				 const struct oriel_p2p_buffer *from, struct oriel_p2p_request *r)
{
	enum oriel_status st = p2p_begin(p, r, "oriel_p2p_send");

	if (st == ORIEL_OK)
		st = p2p_check_channel(p, channel, "oriel_p2p_send");
	if (st == ORIEL_OK)
		st = p2p_check_buffer(p, from, "oriel_p2p_send");
	return st == ORIEL_OK ? p2p_transfer(p, channel, from, r, P2P_SEND) : st;
}

enum oriel_status oriel_p2p_recv(struct oriel_p2p *p, unsigned channel,
				 const struct oriel_p2p_buffer *to, struct oriel_p2p_request *r)
{
	enum oriel_status st = p2p_begin(p, r, "oriel_p2p_recv");

	if (st == ORIEL_OK)
		st = p2p_check_channel(p, channel, "oriel_p2p_recv");
	if (st == ORIEL_OK)
		st = p2p_check_buffer(p, to, "oriel_p2p_recv");
	return st == ORIEL_OK ? p2p_transfer(p, channel, to, r, P2P_RECV) : st;
}

enum oriel_status oriel_p2p_expect(struct oriel_p2p *p, unsigned channel,
				   struct oriel_p2p_request *r)
{
	const struct oriel_p2p_buffer none = {0};
	enum oriel_status st = p2p_begin(p, r, "oriel_p2p_expect");

	if (st == ORIEL_OK)
		st = p2p_check_channel(p, channel, "oriel_p2p_expect");
	return st == ORIEL_OK ? p2p_transfer(p, channel, &none, r, P2P_EXPECT) : st;
}

enum oriel_status oriel_p2p_put(struct oriel_p2p *p, unsigned channel,
				const struct oriel_p2p_buffer *from,
				const struct oriel_p2p_remote *to, uint64_t offset,
				struct oriel_p2p_request *r)
{
	enum oriel_status st = p2p_begin(p, r, "oriel_p2p_put");

	if (st == ORIEL_OK)
		st = p2p_check_channel(p, channel, "oriel_p2p_put");
	if (st == ORIEL_OK)
		st = p2p_check_buffer(p, from, "oriel_p2p_put");
	if (st != ORIEL_OK)
		return st;
	if (!to || !from->length)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_put: %s",
				to ? "no bytes" : "to is NULL");
	if (offset > to->length || from->length > to->length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"oriel_p2p_put: %zu bytes at %llu of exported memory of %llu bytes",
				from->length, (unsigned long long)offset,
				(unsigned long long)to->length);
	r->address = to->address + offset;
	r->key = to->key;
	r->piece = to->piece;
	return p2p_transfer(p, channel, from, r, P2P_PUT);
}

static enum oriel_status p2p_may_export(const struct oriel_p2p *p, const char *call)
{
	if (p->state == P2P_BROKEN)
		return p2p_failed(p);
	if (p->mode == ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_STATE, "%s: the ends are of mode copy_based", call);
	if (p->state != P2P_JOINED)
		return ori_fail(ORIEL_ERR_STATE, "%s: the ends are not joined yet", call);
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_export(struct oriel_p2p *p, const struct oriel_p2p_buffer *b,
				   void *bytes)
{
	struct p2p_export e = {.magic = P2P_EXPORT_MAGIC, .version = P2P_VERSION};
	struct p2p_offer offer = {0};
	enum oriel_status st;

	if (!p || !b || !bytes || !b->length || !b->memory)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_export: %s",
				p && b && bytes ? "no registered bytes" : "NULL");
	st = p2p_may_export(p, "oriel_p2p_export");
	if (st == ORIEL_OK)
		st = p2p_check_buffer(p, b, "oriel_p2p_export");
	if (st == ORIEL_OK)
		st = oriel_p2p_memory_check(b->memory);
	if (st == ORIEL_OK)
		st = p->backend->show(p, b->memory, b->address, b->length, &offer);
	if (st != ORIEL_OK)
		return st;
	e.path = p->backend->path;
	e.address = offer.address;
	e.length = b->length;
	e.key = offer.key;
	e.piece = offer.piece;
	e.to = ori_p2p_token_brief(&p->peer.token);
	memcpy(bytes, &e, sizeof(e));
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_import(struct oriel_p2p *p, const void *bytes, size_t length,
				   struct oriel_p2p_remote *remote)
{
	struct p2p_export e;
	enum oriel_status st;

	if (!p || !bytes || !remote)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_import: NULL");
	st = p2p_may_export(p, "oriel_p2p_import");
	if (st == ORIEL_OK)
		st = ori_p2p_export_parse(bytes, length, &e);
	if (st != ORIEL_OK)
		return st;
	if (e.path != p->backend->path || e.to != ori_p2p_token_brief(&p->address.token))
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_import: the memory was exported to another end");
	*remote = (struct oriel_p2p_remote){e.address, e.length, e.key, e.piece};
	return ORIEL_OK;
}
