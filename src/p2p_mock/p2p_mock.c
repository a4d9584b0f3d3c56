/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend whose puts arrive when the test says so, in a library of its own: liboriel knows
 * only that a context may bring its backend. Unit tests and the fuzzer create it.
 */
#include <oriel/p2p_mock.h>

#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/attr.h"
#include "base/error.h"
#include "p2p/p2p.h"
#include "p2p_mock/p2p_mock_peer.h"

#define MOCK_IMMEDIATES 1024u
#define MOCK_AT_ONCE 4u /* events of a shuffled mock that one progress may deliver */

struct mock_event {
	struct p2p_local from;
	uint64_t word; /* as an HCA may have read it when it was put */
	bool is_word;
	char *to;
	size_t length;
	uint64_t op;
	uint32_t immediate;
	uint8_t endpoint;
	bool has_immediate;
};

struct mock_endpoint {
	struct oriel_p2p *p2p;
	unsigned which;
	unsigned refusals;
	bool is_held;
	enum oriel_status failure;
	uint64_t arrived, taken; /* of immediates[] */
	uint32_t immediates[MOCK_IMMEDIATES];
};

static_assert(P2P_IMMEDIATES <= MOCK_IMMEDIATES, "an endpoint takes what the rules allow");

/* Events in the order in which they were put. */
struct oriel_p2p_mock {
	struct oriel_p2p_context *ctx;
	struct mock_endpoint endpoints[2];
	enum oriel_p2p_mock_order order;
	uint64_t random;
	struct mock_event *events;
	unsigned count, room;
};

static struct oriel_p2p_mock *to_mock(const struct oriel_p2p *p2p)
{
	return p2p->ctx->backend_state;
}

static struct mock_endpoint *to_endpoint(const struct oriel_p2p *p2p)
{
	struct oriel_p2p_mock *m = to_mock(p2p);

	return &m->endpoints[p2p == m->endpoints[1].p2p];
}

/* splitmix64 */
static uint64_t mock_random(struct oriel_p2p_mock *m)
{
	uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The rule of a real link: puts have no order, an immediate arrives after earlier puts. */
static bool mock_may_arrive(const struct oriel_p2p_mock *m, unsigned index)
{
	if (!m->events[index].has_immediate)
		return true;
	for (unsigned i = 0; i < index; i++)
		if (m->events[i].endpoint == m->events[index].endpoint &&
		    !m->events[i].has_immediate)
			return false;
	return true;
}

/* Operations complete in their order: up to the first that has not arrived. */
static void mock_complete(const struct oriel_p2p_mock *m, struct mock_endpoint *e)
{
	uint64_t done = e->p2p->begun;

	if (e->is_held)
		return;
	for (unsigned i = 0; i < m->count; i++)
		if (m->events[i].endpoint == e->which && m->events[i].op < done)
			done = m->events[i].op;
	e->p2p->done = done;
}

static bool mock_is_gpu(const struct oriel_p2p_mock *m, const struct mock_event *event)
{
	bool is_gpu = event->from.is_gpu;

	return is_gpu || (ori_p2p_context_query(m->ctx, event->to, &is_gpu) == ORIEL_OK && is_gpu);
}

static void mock_copy(const struct oriel_p2p_mock *m, const struct mock_event *event)
{
	if (event->is_word)
		oriel_dev_store_release((uint64_t *)(void *)event->to, event->word);
	else if (event->length && mock_is_gpu(m, event))
		(void)m->ctx->gpu.ops->copy(&m->ctx->gpu, event->to, event->from.at, event->length);
	else if (event->length)
		memcpy(event->to, event->from.at, event->length);
}

static void mock_deliver(struct oriel_p2p_mock *m, unsigned index)
{
	struct mock_event event = m->events[index];
	struct mock_endpoint *peer = &m->endpoints[!event.endpoint];

	mock_copy(m, &event);
	if (event.has_immediate)
		peer->immediates[peer->arrived++ % MOCK_IMMEDIATES] = event.immediate;
	memmove(&m->events[index], &m->events[index + 1],
		(--m->count - index) * sizeof(m->events[0]));
}

static void mock_deliver_some(struct oriel_p2p_mock *m)
{
	uint64_t some = mock_random(m) % MOCK_AT_ONCE;

	while (m->order == ORIEL_P2P_MOCK_IN_ORDER && m->count)
		mock_deliver(m, 0);
	while (m->order == ORIEL_P2P_MOCK_SHUFFLED && m->count && some--) {
		unsigned which = (unsigned)(mock_random(m) % m->count);

		if (mock_may_arrive(m, which))
			mock_deliver(m, which);
	}
}

static enum oriel_status mock_open(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine, int *fds,
				   unsigned *nfds)
{
	(void)p2p, (void)mine, (void)fds, (void)nfds;
	return ori_fail(ORIEL_ERR_STATE, "the endpoints of a mock are joined from the start");
}

/* Control sockets exchange these fields otherwise. */
static enum oriel_status mock_connect(struct oriel_p2p *p2p, const struct p2p_endpoint_info *theirs,
				      const int *fds, unsigned nfds)
{
	const struct p2p_pool *pool = &p2p->ctx->pool;
	const struct oriel_p2p *peer = to_mock(p2p)->endpoints[!to_endpoint(p2p)->which].p2p;

	(void)theirs, (void)fds, (void)nfds;
	p2p->remote_control.address = (uintptr_t)&peer->segment->remote_control;
	p2p->pool.address = (uintptr_t)pool->area.base;
	p2p->pool_stride = pool->stride;
	p2p->pool_slots = pool->receive;
	p2p->chunk = pool->chunk;
	return ORIEL_OK;
}

static void mock_sever(struct oriel_p2p *p2p)
{
	struct oriel_p2p_mock *m = to_mock(p2p);
	struct mock_endpoint *e = to_endpoint(p2p), *peer = &m->endpoints[!e->which];

	/* Events point into memory of both endpoints, which may be freed now. */
	m->count = 0;
	if (e->failure == ORIEL_OK)
		e->failure = ORIEL_ERR_PEER;
	if (peer->failure == ORIEL_OK)
		peer->failure = ORIEL_ERR_PEER;
}

static enum oriel_status mock_nothing(struct oriel_p2p *p2p)
{
	(void)p2p;
	return ORIEL_OK;
}

static void mock_leave(struct oriel_p2p *p2p)
{
	(void)p2p;
}

static enum oriel_status mock_begin(struct oriel_p2p *p2p, const struct mock_event *event,
				    uint64_t *op)
{
	struct mock_endpoint *e = to_endpoint(p2p);
	struct oriel_p2p_mock *m = to_mock(p2p);

	if (e->failure != ORIEL_OK)
		return ORIEL_AGAIN;
	if (e->refusals) {
		e->refusals--;
		return ORIEL_AGAIN;
	}
	if (m->count == m->room) {
		unsigned room = m->room ? 2 * m->room : 64;
		struct mock_event *events = realloc(m->events, room * sizeof(*events));

		if (!events)
			return ori_fail_nomem(room * sizeof(*events), "%u events of a mock", room);
		m->events = events;
		m->room = room;
	}
	m->events[m->count] = *event;
	m->events[m->count].endpoint = (uint8_t)e->which;
	m->events[m->count].op = p2p->begun;
	m->count++;
	*op = p2p->begun++;
	return ORIEL_OK;
}

static bool mock_is_word(const struct oriel_p2p *p2p, const char *at)
{
	const char *words = (const char *)p2p->segment->local_control.words;

	return at >= words && at < words + sizeof(p2p->segment->local_control.words);
}

static enum oriel_status mock_put(struct oriel_p2p *p2p, const struct p2p_local *from,
				  const struct p2p_remote *to, size_t length, uint64_t *op)
{
	struct mock_event event = {.from = *from,
				   .to = (char *)(uintptr_t)to->address,
				   .length = length};

	event.is_word = mock_is_word(p2p, from->at);
	if (event.is_word)
		event.word = oriel_dev_load_acquire((uint64_t *)(void *)from->at);
	return mock_begin(p2p, &event, op);
}

static enum oriel_status mock_write_imm(struct oriel_p2p *p2p, const struct p2p_local *from,
					const struct p2p_remote *to, size_t length,
					uint32_t immediate, uint64_t *op)
{
	struct mock_event event = {.from = *from,
				   .to = (char *)(uintptr_t)to->address,
				   .length = length,
				   .has_immediate = true,
				   .immediate = immediate};

	return mock_begin(p2p, &event, op);
}

static enum oriel_status mock_progress(struct oriel_p2p *p2p)
{
	struct mock_endpoint *e = to_endpoint(p2p);

	if (e->failure != ORIEL_OK)
		return ori_fail(e->failure, "the link of endpoint %u of a mock has failed",
				e->which);
	mock_deliver_some(to_mock(p2p));
	mock_complete(to_mock(p2p), e);
	return ORIEL_OK;
}

static enum oriel_status mock_take(struct oriel_p2p *p2p, struct p2p_arrival *arrival)
{
	struct mock_endpoint *e = to_endpoint(p2p);

	if (e->taken == e->arrived)
		return ORIEL_AGAIN;
	*arrival = (struct p2p_arrival){.immediate = e->immediates[e->taken++ % MOCK_IMMEDIATES]};
	return ORIEL_OK;
}

static enum oriel_status mock_export(struct oriel_p2p *p2p, const struct oriel_p2p_memory *memory,
				     const void *at, size_t length, struct p2p_offer *offer)
{
	(void)p2p, (void)memory, (void)length;
	offer->address = (uintptr_t)at;
	offer->piece = P2P_NO_PIECE;
	return ORIEL_OK;
}

static enum oriel_status mock_import(struct oriel_p2p *p2p, const struct p2p_offer *offer,
				     struct p2p_remote *remote)
{
	(void)p2p;
	/* Both endpoints live in this process, so an offer is an address. */
	*remote = (struct p2p_remote){.address = offer->address};
	return ORIEL_OK;
}

static const struct p2p_backend mock_backend = {
	.name = "mock",
	.path = ORIEL_PATH_RDMA,
	.open = mock_open,
	.connect = mock_connect,
	.close = mock_nothing,
	.sever = mock_sever,
	.enter = mock_nothing,
	.leave = mock_leave,
	.put = mock_put,
	.write_imm = mock_write_imm,
	.send_eager = ori_p2p_no_eager,
	.progress = mock_progress,
	.take = mock_take,
	.export = mock_export,
	.import = mock_import,
};

static void mock_close(struct oriel_p2p_mock *m)
{
	for (unsigned i = 0; i < 2; i++)
		if (m->endpoints[i].p2p)
			(void)ori_p2p_close(m->endpoints[i].p2p, true);
	oriel_p2p_context_destroy(m->ctx);
	free(m->events);
	ori_handle_free(m);
}

enum oriel_status oriel_p2p_mock_create(const struct oriel_p2p_mock_attr *caller,
					struct oriel_p2p_mock **mock)
{
	struct oriel_p2p_mock_attr attr;
	struct oriel_p2p_mock *m;
	enum oriel_status status =
		ori_attr_read("oriel_p2p_mock_attr", caller, &attr, sizeof(attr));

	if (status == ORIEL_OK)
		status = ori_attr_check_reserved("oriel_p2p_mock_attr.reserved", attr.reserved);
	if (status != ORIEL_OK)
		return status;
	if (!mock)
		return ori_fail_null(__func__, "mock");
	if (attr.order > ORIEL_P2P_MOCK_MANUAL)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_mock_create: order %u", attr.order);
	m = ori_handle_alloc(ORI_HANDLE_P2P_MOCK, sizeof(*m));
	if (!m)
		return ori_fail_nomem(sizeof(*m), "a mock");
	m->order = (enum oriel_p2p_mock_order)attr.order;
	m->random = attr.seed;
	status = oriel_p2p_context_create(attr.context, &m->ctx);
	if (status == ORIEL_OK) {
		m->ctx->backend = &mock_backend;
		m->ctx->backend_state = m;
	}
	for (unsigned i = 0; i < 2 && status == ORIEL_OK; i++) {
		m->endpoints[i].which = i;
		status = oriel_p2p_create(m->ctx, attr.endpoints, &m->endpoints[i].p2p);
	}
	for (unsigned i = 0; i < 2 && status == ORIEL_OK; i++) {
		status = ori_p2p_join(m->endpoints[i].p2p, &m->endpoints[!i].p2p->address, 0);
		m->endpoints[i].p2p->has_owner = true;
	}
	if (status != ORIEL_OK) {
		mock_close(m);
		return status;
	}
	ori_handle_open(m, NULL);
	*mock = m;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_mock_destroy(struct oriel_p2p_mock *m)
{
	if (!ori_handle_shut(m, ORI_HANDLE_P2P_MOCK, __func__))
		return ori_handle_refused(m);
	mock_close(m);
	return ORIEL_OK;
}

struct oriel_p2p *oriel_p2p_mock_endpoint(const struct oriel_p2p_mock *mock, unsigned endpoint)
{
	if (!ori_handle_use(mock, ORI_HANDLE_P2P_MOCK, __func__))
		return NULL;
	return endpoint < 2 ? mock->endpoints[endpoint].p2p : NULL;
}

struct oriel_p2p_context *oriel_p2p_mock_context(const struct oriel_p2p_mock *mock)
{
	return ori_handle_use(mock, ORI_HANDLE_P2P_MOCK, __func__) ? mock->ctx : NULL;
}

unsigned oriel_p2p_mock_count(const struct oriel_p2p_mock *mock)
{
	return ori_handle_use(mock, ORI_HANDLE_P2P_MOCK, __func__) ? mock->count : 0;
}

enum oriel_status oriel_p2p_mock_peek(const struct oriel_p2p_mock *mock, unsigned index,
				      struct oriel_p2p_mock_event *event)
{
	enum oriel_status status = ori_handle_check(mock, ORI_HANDLE_P2P_MOCK, __func__);
	const struct mock_event *e;

	if (status == ORIEL_OK && !event)
		status = ori_fail_null(__func__, "event");
	if (status != ORIEL_OK)
		return status;
	if (index >= mock->count)
		return ori_fail(ORIEL_ERR_RANGE, "event %u of %u", index, mock->count);
	e = &mock->events[index];
	*event = (struct oriel_p2p_mock_event){
		.from = e->endpoint,
		.length = e->length,
		.has_immediate = e->has_immediate,
		.may_arrive = mock_may_arrive(mock, index),
		.immediate = e->immediate,
	};
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_mock_deliver(struct oriel_p2p_mock *mock, unsigned index)
{
	enum oriel_status status = ori_handle_check(mock, ORI_HANDLE_P2P_MOCK, __func__);

	if (status != ORIEL_OK)
		return status;
	if (index >= mock->count)
		return ori_fail(ORIEL_ERR_RANGE, "event %u of %u", index, mock->count);
	if (!mock_may_arrive(mock, index))
		return ori_fail(ORIEL_ERR_STATE,
				"event %u has an immediate, and an earlier put has not arrived",
				index);
	mock_deliver(mock, index);
	return ORIEL_OK;
}

void ori_p2p_mock_write_imm(struct oriel_p2p_mock *mock, unsigned endpoint, uint32_t immediate)
{
	struct mock_endpoint *e = &mock->endpoints[endpoint];

	if (e->arrived - e->taken < MOCK_IMMEDIATES)
		e->immediates[e->arrived++ % MOCK_IMMEDIATES] = immediate;
}

void oriel_p2p_mock_hold_completions(struct oriel_p2p_mock *mock, unsigned endpoint, bool is_held)
{
	if (ori_handle_use(mock, ORI_HANDLE_P2P_MOCK, __func__))
		mock->endpoints[endpoint & 1].is_held = is_held;
}

void oriel_p2p_mock_fill_queue(struct oriel_p2p_mock *mock, unsigned endpoint, unsigned count)
{
	if (ori_handle_use(mock, ORI_HANDLE_P2P_MOCK, __func__))
		mock->endpoints[endpoint & 1].refusals = count;
}

void oriel_p2p_mock_fail(struct oriel_p2p_mock *mock, unsigned endpoint, enum oriel_status status)
{
	if (!ori_handle_use(mock, ORI_HANDLE_P2P_MOCK, __func__))
		return;
	mock->endpoints[endpoint & 1].failure = status;
	mock->count = 0;
}
