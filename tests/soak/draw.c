/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the operations of an epoch and applies them to the model; every rank draws the same. */
#include "soak.h"

static const char *const kind_names[] = {
	[SOAK_PUT] = "put",
	[SOAK_PUT_VALUE] = "put_value",
	[SOAK_GET] = "get",
	[SOAK_PUT_SIGNAL] = "put_signal",
	[SOAK_PUT_COUNTER] = "put_counter",
	[SOAK_PUT_SIGNAL_COUNTER] = "put_signal_counter",
	[SOAK_SIGNAL_COUNTER] = "signal_counter",
	[SOAK_ADD] = "signal ADD",
	[SOAK_SET] = "signal SET",
	[SOAK_SIGNAL_ALL] = "signal_all",
	[SOAK_WAIT_SIGNAL] = "wait_signal_from",
	[SOAK_WAIT_NEXT] = "wait_signal_next",
	[SOAK_WAIT_SUM] = "wait_signal",
	[SOAK_WAIT_COUNTER] = "wait_counter",
	[SOAK_WAIT_LOCAL] = "wait_local",
	[SOAK_FETCH_ADD] = "fetch_add",
	[SOAK_SEND] = "send",
	[SOAK_RECV] = "recv",
	[SOAK_STREAM] = "send and recv",
	[SOAK_BARRIER] = "barrier",
	[SOAK_SPLIT] = "barrier_arrive and _wait",
	[SOAK_FLAT] = "barrier_flat",
	[SOAK_PAIR] = "barrier_peer",
	[SOAK_DRAIN] = "drain",
	[SOAK_FLUSH] = "flush",
	[SOAK_BAD] = "put beyond the end",
};

const char *soak_kind_name(enum soak_kind kind)
{
	return kind_names[kind];
}

struct soak_signal *soak_signal_of(const struct soak_world *world, unsigned window, unsigned at,
				   unsigned source, unsigned id)
{
	const struct soak_window *w = &world->window[window];

	return &w->signals[(at * SOAK_RANKS + source) * w->attr.signals + id];
}

struct soak_counter *soak_counter_of(const struct soak_world *world, unsigned window, unsigned rank,
				     unsigned peer, unsigned counter)
{
	const struct soak_window *w = &world->window[window];

	return &w->counters[(rank * SOAK_RANKS + peer) * w->attr.counters + counter];
}

struct soak_stream *soak_stream_of(const struct soak_world *world, unsigned window, unsigned from,
				   unsigned to, unsigned channel)
{
	const struct soak_window *w = &world->window[window];

	return &w->streams[(from * SOAK_RANKS + to) * w->attr.channels + channel];
}

uint64_t soak_stream_key(const struct soak_world *world, unsigned window, unsigned from,
			 unsigned to, unsigned channel)
{
	return soak_word(world->plan->seed ^ world->window[window].number << 32 ^
				 (uint64_t)world->plan->life << 56,
			 (from * SOAK_RANKS + to) * 4096ull + channel);
}

static uint32_t draw_length(struct soak_random *random, uint32_t limit)
{
	static const uint32_t most[] = {1, 17, 17, 257, 257, 4097, 4097, 65537};
	uint32_t below = most[soak_below(random, 8)];

	return (uint32_t)soak_below(random, below < limit + 1 ? below : limit + 1);
}

/* Draw an index of those that belong to @lane; @count if it has none. */
static uint32_t draw_own(const struct soak_world *world, struct soak_random *random, uint32_t count,
			 unsigned lane)
{
	unsigned lanes = world->plan->lanes;
	uint32_t own = lane < count ? (count - lane + lanes - 1) / lanes : 0;

	return own ? lane + (uint32_t)soak_below(random, own) * lanes : count;
}

/* Take @length bytes from the arena of a lane; false if it is full. */
static bool draw_slice(struct soak_world *world, unsigned rank, unsigned lane, uint32_t length,
		       uint32_t *slice)
{
	uint32_t at = (world->arena[rank][lane] + 63) / 64 * 64;

	if (length + 64 > SOAK_ARENA - at)
		return false;
	*slice = at + (uint32_t)soak_below(&world->random, 9);
	world->arena[rank][lane] = *slice + length;
	return true;
}

static bool draw_is_free(const struct soak_buffer *b, uint32_t begin, uint32_t end, bool is_write)
{
	unsigned i;

	for (i = 0; i < b->touches; i++)
		if (begin < b->touch[i].end && b->touch[i].begin < end &&
		    (is_write || b->touch[i].is_write))
			return false;
	return true;
}

/* Draw bytes of the peer that no other operation of this epoch conflicts with. */
static bool draw_target(struct soak_world *world, struct soak_op *op, uint32_t most, bool is_write,
			uint32_t align)
{
	struct soak_window *w = &world->window[op->window];
	struct soak_random *random = &world->random;
	struct soak_buffer *b;
	uint32_t first, room;

	op->buffer = (uint32_t)soak_below(random, w->buffers);
	b = w->buffer[op->buffer][op->peer];
	first = op->buffer || b->length < SOAK_WORD_BYTES ? 0 : SOAK_WORD_BYTES;
	room = b->length - first;
	op->length = align > 1 ? align : draw_length(random, room < most ? room : most);
	if (op->length > room || b->touches == SOAK_TOUCHES)
		return false;
	op->offset = first + (uint32_t)soak_below(random, room - op->length + 1) / align * align;
	if (!draw_is_free(b, op->offset, op->offset + op->length, is_write))
		return false;
	if (op->length && !draw_slice(world, op->rank, op->lane, op->length, &op->slice))
		return false;
	b->touch[b->touches++] = (struct soak_touch){op->offset, op->offset + op->length, is_write};
	if (is_write)
		soak_fill(b->bytes + op->offset, op->length, op->key, 0);
	return true;
}

static void draw_add_signal(struct soak_world *world, const struct soak_op *op, unsigned peer)
{
	struct soak_signal *s = soak_signal_of(world, op->window, peer, op->rank, op->id);

	s->value = op->kind == SOAK_SET ? op->value : s->value + op->value;
	s->last = (int32_t)world->count;
}

/* Ids alternate: one takes additions alone, which can be counted, the next one takes all. */
static bool draw_id_counts(const struct soak_world *world, uint32_t id)
{
	return id / world->plan->lanes % 2 == 0;
}

static bool draw_signal(struct soak_world *world, struct soak_op *op)
{
	struct soak_window *w = &world->window[op->window];
	unsigned peer;

	op->id = draw_own(world, &world->random, w->attr.signals, op->lane);
	if (op->id == w->attr.signals)
		return false;
	op->value = 1 + soak_below(&world->random, soak_chance(&world->random, 4) ? 1ull << 36 : 4);
	if (op->kind == SOAK_SET) {
		if (draw_id_counts(world, op->id))
			return false;
		op->value += soak_signal_of(world, op->window, op->peer, op->rank, op->id)->value;
	}
	if (op->kind != SOAK_SIGNAL_ALL) {
		draw_add_signal(world, op, op->peer);
		return true;
	}
	for (peer = 0; peer < world->plan->ranks; peer++)
		if (peer != op->rank)
			draw_add_signal(world, op, peer);
	return true;
}

static bool draw_counter(struct soak_world *world, struct soak_op *op)
{
	struct soak_window *w = &world->window[op->window];
	struct soak_counter *c;

	op->counter = draw_own(world, &world->random, w->attr.counters, op->lane);
	if (op->counter == w->attr.counters)
		return false;
	c = soak_counter_of(world, op->window, op->rank, op->peer, op->counter);
	c->value++;
	c->last = (int32_t)world->count;
	return true;
}

static bool draw_put(struct soak_world *world, struct soak_op *op)
{
	struct soak_window *w = &world->window[op->window];
	bool has_signal = op->kind == SOAK_PUT_SIGNAL || op->kind == SOAK_PUT_SIGNAL_COUNTER;
	bool has_counter = op->kind == SOAK_PUT_COUNTER || op->kind == SOAK_PUT_SIGNAL_COUNTER;

	if ((has_signal && op->lane >= w->attr.signals) ||
	    (has_counter && op->lane >= w->attr.counters))
		return false;
	if (!draw_target(world, op, SOAK_ARENA / 4, true, op->kind == SOAK_PUT_VALUE ? 8 : 1))
		return false;
	return (!has_signal || draw_signal(world, op)) && (!has_counter || draw_counter(world, op));
}

static bool draw_wait_signal(struct soak_world *world, struct soak_op *op)
{
	struct soak_window *w = &world->window[op->window];
	struct soak_signal *s;
	unsigned source;

	op->id = (uint32_t)soak_below(&world->random, w->attr.signals);
	if (op->kind == SOAK_WAIT_NEXT) {
		op->id = draw_own(world, &world->random, w->attr.signals, op->lane);
		if (op->id == w->attr.signals || !draw_id_counts(world, op->id))
			return false;
	}
	s = soak_signal_of(world, op->window, op->rank, op->peer, op->id);
	op->value = s->value;
	op->upto = s->last;
	if (op->kind == SOAK_WAIT_NEXT) {
		op->value = soak_below(&world->random, s->value - s->base + 1);
		if (s->base + op->value != s->value)
			op->upto = -1;
		s->base += op->value;
	}
	if (op->kind == SOAK_WAIT_SUM)
		for (op->value = 0, source = 0; source < world->plan->ranks; source++)
			op->value +=
				soak_signal_of(world, op->window, op->rank, source, op->id)->value;
	return true;
}

static bool draw_wait_counter(struct soak_world *world, struct soak_op *op)
{
	struct soak_window *w = &world->window[op->window];
	struct soak_counter *c;

	op->counter = draw_own(world, &world->random, w->attr.counters, op->lane);
	if (op->counter == w->attr.counters)
		return false;
	c = soak_counter_of(world, op->window, op->rank, op->peer, op->counter);
	op->value = c->value;
	op->upto = c->last;
	return true;
}

/* Wait for an earlier operation of the lane. */
static bool draw_wait_local(struct soak_world *world, struct soak_op *op)
{
	unsigned tries;

	for (tries = 0; tries < 8 && world->count; tries++) {
		const struct soak_op *other = &world->ops[soak_below(&world->random, world->count)];

		if (other->rank != op->rank || other->lane != op->lane || other->is_host ||
		    other->kind > SOAK_SIGNAL_COUNTER)
			continue;
		op->id = (uint32_t)(other - world->ops);
		op->window = other->window;
		op->peer = other->peer;
		return true;
	}
	return false;
}

/*
 * Ranks add to a word through mapped memory alone or through NICs alone. Each rank counts in a
 * byte of its own.
 */
static bool draw_fetch_add(struct soak_world *world, struct soak_op *op)
{
	struct soak_buffer *b = world->window[op->window].buffer[0][op->peer];
	uint32_t pair = draw_own(world, &world->random, SOAK_WORDS / 2, op->lane);
	uint64_t word;

	if (b->length < SOAK_WORD_BYTES || pair == SOAK_WORDS / 2)
		return false;
	op->offset = (2 * pair + world->is_rdma[op->rank][op->peer]) * 8;
	memcpy(&word, b->bytes + op->offset, 8);
	if ((word >> 8 * op->rank & 255) == 255)
		return false;
	op->value = word >> 8 * op->rank & 255;
	word += 1ull << 8 * op->rank;
	memcpy(b->bytes + op->offset, &word, 8);
	return true;
}

static bool draw_stream(struct soak_world *world, struct soak_op *op)
{
	struct soak_window *w = &world->window[op->window];
	uint32_t room = w->attr.channel_bytes / 4 * 3 - 1;
	bool is_recv = op->kind == SOAK_RECV;
	struct soak_stream *s;
	unsigned from = is_recv ? op->peer : op->rank, to = is_recv ? op->rank : op->peer;

	op->id = draw_own(world, &world->random, w->attr.channels, op->lane);
	if (op->id == w->attr.channels || op->peer == op->rank)
		return false;
	s = soak_stream_of(world, op->window, from, to, op->id);
	op->key = soak_stream_key(world, op->window, from, to, op->id);
	op->value = is_recv ? s->received : s->sent;
	if (is_recv) {
		op->length = (uint32_t)soak_below(&world->random, s->sent - s->received + 1);
		if (soak_chance(&world->random, 2))
			op->length = (uint32_t)(s->sent - s->received);
		if (!draw_slice(world, op->rank, op->lane, op->length, &op->slice))
			return false;
		s->received += op->length;
		op->upto = s->received == s->sent ? s->last : -1;
		return true;
	}
	room -= (uint32_t)(s->sent - s->received);
	op->length = draw_length(&world->random,
				 op->kind == SOAK_STREAM ? 4 * w->attr.channel_bytes : room);
	op->taken = op->kind == SOAK_STREAM ? (uint32_t)(s->sent - s->received) + op->length : 0;
	if (!draw_slice(world, op->rank, op->lane, op->length, &op->slice) ||
	    !draw_slice(world, op->peer, op->lane, op->taken, &op->slice_of_peer))
		return false;
	if (op->length)
		s->last = (int32_t)world->count;
	op->upto = s->last;
	s->sent += op->length;
	s->received += op->taken;
	return true;
}

static bool draw_barrier(struct soak_world *world, struct soak_op *op)
{
	op->id = draw_own(world, &world->random, world->window[op->window].attr.barriers, op->lane);
	op->upto = (int32_t)world->count;
	return op->id != world->window[op->window].attr.barriers &&
	       (op->kind != SOAK_PAIR || op->peer != op->rank);
}

/* Whether a host function does the same. */
static bool draw_may_be_host(enum soak_kind kind)
{
	return kind != SOAK_PUT_COUNTER && kind != SOAK_PUT_SIGNAL_COUNTER &&
	       kind != SOAK_SIGNAL_COUNTER && kind != SOAK_WAIT_COUNTER &&
	       kind != SOAK_WAIT_LOCAL && kind != SOAK_SPLIT && kind != SOAK_FLAT &&
	       kind != SOAK_PAIR && kind != SOAK_BAD;
}

static bool draw_op(struct soak_world *world, struct soak_op *op)
{
	switch ((enum soak_kind)op->kind) {
	case SOAK_PUT:
	case SOAK_PUT_VALUE:
	case SOAK_PUT_SIGNAL:
	case SOAK_PUT_COUNTER:
	case SOAK_PUT_SIGNAL_COUNTER:
		return draw_put(world, op);
	case SOAK_GET:
		return draw_target(world, op, SOAK_ARENA / 4, false, 1);
	case SOAK_SIGNAL_COUNTER:
		return op->lane < world->window[op->window].attr.counters &&
		       draw_signal(world, op) && draw_counter(world, op);
	case SOAK_ADD:
	case SOAK_SET:
	case SOAK_SIGNAL_ALL:
		return draw_signal(world, op);
	case SOAK_WAIT_SIGNAL:
	case SOAK_WAIT_NEXT:
	case SOAK_WAIT_SUM:
		return draw_wait_signal(world, op);
	case SOAK_WAIT_COUNTER:
		return draw_wait_counter(world, op);
	case SOAK_WAIT_LOCAL:
		return draw_wait_local(world, op);
	case SOAK_FETCH_ADD:
		return draw_fetch_add(world, op);
	case SOAK_SEND:
	case SOAK_RECV:
	case SOAK_STREAM:
		return draw_stream(world, op);
	case SOAK_BARRIER:
	case SOAK_SPLIT:
	case SOAK_FLAT:
	case SOAK_PAIR:
		return draw_barrier(world, op);
	default:
		return true;
	}
}

static enum soak_kind draw_kind(struct soak_random *random)
{
	/* Puts and waits are drawn more often than operations that all ranks enter. */
	static const enum soak_kind often[] = {SOAK_PUT, SOAK_PUT_SIGNAL,  SOAK_WAIT_SIGNAL,
					       SOAK_GET, SOAK_PUT_COUNTER, SOAK_ADD};
	enum soak_kind kind;

	if (soak_chance(random, 3))
		return often[soak_below(random, sizeof(often) / sizeof(often[0]))];
	kind = (enum soak_kind)soak_below(random, SOAK_KINDS);
	if (kind >= SOAK_BARRIER && kind <= SOAK_FLAT && !soak_chance(random, 3))
		return SOAK_PUT;
	return kind;
}

static void draw_begin(struct soak_world *world)
{
	size_t pairs = SOAK_RANKS * SOAK_RANKS, i;
	unsigned n, b, r;

	for (n = 0; n < SOAK_WINDOWS; n++) {
		struct soak_window *w = &world->window[n];

		if (!w->is_live)
			continue;
		for (i = 0; i < pairs * w->attr.signals; i++)
			w->signals[i].last = -1;
		for (i = 0; i < pairs * w->attr.counters; i++)
			w->counters[i].last = -1;
		for (i = 0; i < pairs * w->attr.channels; i++)
			w->streams[i].last = -1;
		for (b = 0; b < w->buffers; b++)
			for (r = 0; r < world->plan->ranks; r++)
				w->buffer[b][r]->touches = 0;
	}
	memset(world->arena, 0, sizeof(world->arena));
	world->count = 0;
	world->epoch++;
}

static void draw_any(struct soak_world *world, struct soak_op *op)
{
	struct soak_random *random = &world->random;

	op->kind = (uint8_t)draw_kind(random);
	do
		op->window = (uint8_t)soak_below(random, SOAK_WINDOWS);
	while (!world->window[op->window].is_live);
	op->rank = (uint8_t)soak_below(random, world->plan->ranks);
	op->lane = (uint8_t)soak_below(random, world->plan->lanes);
	op->peer = (uint8_t)soak_below(random, world->plan->ranks);
	op->is_host = soak_chance(random, 5) && draw_may_be_host((enum soak_kind)op->kind);
	op->is_patient = soak_chance(random, 16);
	op->key = soak_next(random);
}

/* Whether the operation is a put whose signal lets the peer read it. */
static bool draw_has_signal(const struct soak_op *op)
{
	return op->kind == SOAK_PUT_SIGNAL || op->kind == SOAK_PUT_SIGNAL_COUNTER;
}

/* The wait of the peer for the signal of @signaled, which is the last operation. */
static void draw_answer(const struct soak_world *world, const struct soak_op *signaled,
			struct soak_op *op)
{
	const struct soak_signal *s = soak_signal_of(world, signaled->window, signaled->peer,
						     signaled->rank, signaled->id);

	op->kind = SOAK_WAIT_SIGNAL;
	op->window = signaled->window;
	op->rank = signaled->peer;
	op->peer = signaled->rank;
	op->id = signaled->id;
	op->value = s->value;
	op->upto = s->last;
	op->is_host = op->is_patient = false;
}

/*
 * The lane waits for the counter of @counted, its last operation: then its source may be reused.
 */
static void draw_wait_at_once(const struct soak_world *world, const struct soak_op *counted,
			      struct soak_op *op)
{
	const struct soak_counter *c = soak_counter_of(world, counted->window, counted->rank,
						       counted->peer, counted->counter);

	op->kind = SOAK_WAIT_COUNTER;
	op->window = counted->window;
	op->rank = counted->rank;
	op->lane = counted->lane;
	op->peer = counted->peer;
	op->counter = counted->counter;
	op->value = c->value;
	op->upto = c->last;
	op->is_host = op->is_patient = false;
}

void soak_draw(struct soak_world *world)
{
	struct soak_random *random = &world->random;
	unsigned wanted, tries;

	draw_begin(world);
	wanted = 20 + (unsigned)soak_below(random, SOAK_OPS - 20);
	for (tries = 0; tries < wanted; tries++) {
		struct soak_op *op = &world->ops[world->count];

		memset(op, 0, sizeof(*op));
		op->upto = -1;
		draw_any(world, op);
		if (world->count && draw_has_signal(op - 1) && soak_chance(random, 2))
			draw_answer(world, op - 1, op);
		else if (world->count && op[-1].kind == SOAK_PUT_COUNTER && soak_chance(random, 2))
			draw_wait_at_once(world, op - 1, op);
		else if (!draw_op(world, op))
			continue;
		world->count++;
	}
}
