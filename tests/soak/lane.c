/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane is one group of threads of a rank; it does its operations of an epoch and checks the
 * results.
 */
#include "soak.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LANE_USED 0xdb /* overwrites a source once the lane may reuse it */

struct lane {
	struct soak_rank *r;
	const struct soak_world *world;
	unsigned index;
	struct oriel_team team;
	uint8_t *arena;
	int doing;                        /* operation of the leader, -1 at the end of an epoch */
	int seen[SOAK_RANKS][SOAK_LANES]; /* operations whose bytes have been checked */
	bool is_pending[SOAK_OPS];
	struct oriel_dev_ticket ticket[SOAK_OPS];
};

struct lane_thread {
	struct lane *lane;
	unsigned index;
	pthread_t thread;
};

/* One operation, for one thread of the lane. */
struct lane_step {
	struct lane *lane;
	const struct soak_op *op;
	int i;
	struct oriel_dev_group g;
	const struct soak_window *w;
	uint8_t *slice;
	uint64_t at; /* the offset at the peer */
};

static bool lane_is_put(const struct soak_op *op)
{
	return op->kind == SOAK_PUT || op->kind == SOAK_PUT_VALUE || op->kind == SOAK_PUT_SIGNAL ||
	       op->kind == SOAK_PUT_COUNTER || op->kind == SOAK_PUT_SIGNAL_COUNTER;
}

/* The beginning of a failure text: "@what, seen after operation 7 (barrier 2)". */
static const char *lane_what(const struct lane *lane, const char *what)
{
	static _Thread_local char text[128];
	const struct soak_op *op = &lane->world->ops[lane->doing < 0 ? 0 : lane->doing];

	if (lane->doing < 0)
		snprintf(text, sizeof(text), "%s, seen at the end of the epoch", what);
	else
		snprintf(text, sizeof(text), "%s, seen after operation %d (%s of rank %u, id %u)",
			 what, lane->doing, soak_kind_name((enum soak_kind)op->kind), op->rank,
			 op->id);
	return text;
}

static void lane_count(const struct lane *lane, uint64_t bytes)
{
	atomic_fetch_add_explicit(&lane->r->bytes_checked, bytes, memory_order_relaxed);
}

/* Check the bytes that operation @i put to this rank. */
static void lane_check_target(const struct lane *lane, int i)
{
	const struct soak_world *world = lane->world;
	const struct soak_op *op = &world->ops[i];
	const struct soak_window *w = &world->window[op->window];
	const char *at = w->base[op->buffer] + op->offset;
	size_t wrong;

	if (!op->length)
		return;
	wrong = soak_first_wrong(at, op->length, op->key, 0);
	if (wrong < op->length)
		soak_wrong_bytes(world, i, lane_what(lane, "its target"), wrong, at + wrong,
				 w->buffer[op->buffer][op->peer]->bytes + op->offset + wrong,
				 op->length - wrong);
	lane_count(lane, op->length);
}

/*
 * The puts of @source_lane of @source to this rank up to operation @upto are visible: check
 * them.
 */
static void lane_see(struct lane *lane, unsigned source, unsigned source_lane, int upto)
{
	int *seen = &lane->seen[source][source_lane];

	for (; *seen <= upto; ++*seen) {
		const struct soak_op *op = &lane->world->ops[*seen];

		if (op->rank == source && op->lane == source_lane &&
		    op->peer == lane->world->rank && lane_is_put(op))
			lane_check_target(lane, *seen);
	}
}

static void lane_see_all(struct lane *lane, unsigned source_lane, int upto)
{
	unsigned source;

	for (source = 0; source < lane->world->plan->ranks; source++)
		lane_see(lane, source, source_lane, upto);
}

/* Operation @i has completed locally: the lane may reuse its bytes. */
static void lane_done(struct lane *lane, int i)
{
	const struct soak_world *world = lane->world;
	const struct soak_op *op = &world->ops[i];
	uint8_t *slice = lane->arena + op->slice;
	const uint8_t *should;
	size_t wrong = 0;

	if (!lane->is_pending[i])
		return;
	lane->is_pending[i] = false;
	if (op->kind != SOAK_GET) {
		memset(slice, LANE_USED, op->length);
		return;
	}
	if (!op->length)
		return;
	should = world->window[op->window].buffer[op->buffer][op->peer]->bytes + op->offset;
	if (memcmp(slice, should, op->length) != 0) {
		while (slice[wrong] == should[wrong])
			wrong++;
		soak_wrong_bytes(world, i, lane_what(lane, "what was got"), wrong, slice + wrong,
				 should + wrong, op->length - wrong);
	}
	lane_count(lane, op->length);
}

static void lane_done_all(struct lane *lane)
{
	unsigned i;

	for (i = 0; i < lane->world->count; i++)
		lane_done(lane, (int)i);
}

/* The counter covers the operations up to @upto that name it. */
static void lane_done_counted(struct lane *lane, const struct soak_op *waited)
{
	int i;

	for (i = 0; i <= waited->upto; i++) {
		const struct soak_op *op = &lane->world->ops[i];

		if (op->rank == waited->rank && op->lane == waited->lane &&
		    op->peer == waited->peer && op->window == waited->window &&
		    op->counter == waited->counter &&
		    (op->kind == SOAK_PUT_COUNTER || op->kind == SOAK_PUT_SIGNAL_COUNTER))
			lane_done(lane, i);
	}
}

static enum oriel_status step_post_host(const struct lane_step *s)
{
	struct oriel_window *w = s->w->window;
	const struct soak_op *op = s->op;

	switch ((enum soak_kind)op->kind) {
	case SOAK_PUT:
		return oriel_window_put(w, op->peer, s->at, s->slice, op->length);
	case SOAK_PUT_VALUE:
		return oriel_window_put_value(w, op->peer, s->at, soak_word(op->key, 0));
	case SOAK_GET:
		return oriel_window_get(w, op->peer, s->at, s->slice, op->length);
	case SOAK_PUT_SIGNAL:
		return oriel_window_put_signal(w, op->peer, s->at, s->slice, op->length, op->id,
					       op->value);
	case SOAK_ADD:
		return oriel_window_signal(w, op->peer, op->id, ORIEL_SIGNAL_ADD, op->value);
	case SOAK_SET:
		return oriel_window_signal(w, op->peer, op->id, ORIEL_SIGNAL_SET, op->value);
	default:
		return oriel_window_signal_all(w, op->id, ORIEL_SIGNAL_ADD, op->value);
	}
}

static enum oriel_status step_post_dev(const struct lane_step *s, struct oriel_dev_ticket *ticket)
{
	const struct oriel_dev_window *w = &s->w->dev;
	const struct soak_op *op = s->op;

	switch ((enum soak_kind)op->kind) {
	case SOAK_PUT:
		return oriel_dev_put(w, s->g, op->peer, s->at, s->slice, op->length, ticket);
	case SOAK_GET:
		return oriel_dev_get(w, s->g, op->peer, s->at, s->slice, op->length, ticket);
	case SOAK_PUT_SIGNAL:
		return oriel_dev_put_signal(w, s->g, op->peer, s->at, s->slice, op->length, op->id,
					    op->value, ticket);
	case SOAK_PUT_COUNTER:
		return oriel_dev_put_counter(w, s->g, op->peer, s->at, s->slice, op->length,
					     op->counter, ticket);
	case SOAK_PUT_SIGNAL_COUNTER:
		return oriel_dev_put_signal_counter(w, s->g, op->peer, s->at, s->slice, op->length,
						    op->id, op->value, op->counter, ticket);
	case SOAK_SIGNAL_COUNTER:
		return oriel_dev_signal_counter(w, s->g, op->peer, op->id, op->value, op->counter,
						ticket);
	case SOAK_ADD:
		return oriel_dev_signal(w, s->g, op->peer, op->id, ORIEL_SIGNAL_ADD, op->value,
					ticket);
	case SOAK_SET:
		return oriel_dev_signal(w, s->g, op->peer, op->id, ORIEL_SIGNAL_SET, op->value,
					ticket);
	default:
		return oriel_dev_signal_all(w, s->g, op->id, ORIEL_SIGNAL_ADD, op->value);
	}
}

/* Post an operation that moves bytes, or adds to a word, and returns a ticket. */
static enum oriel_status step_post(const struct lane_step *s)
{
	const struct soak_op *op = s->op;
	struct lane *lane = s->lane;
	bool is_leader = oriel_dev_is_leader(s->g);
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status status = ORIEL_OK;

	if (is_leader && lane_is_put(op))
		soak_fill(s->slice, op->length, op->key, 0);
	if (is_leader && op->kind == SOAK_GET)
		memset(s->slice, LANE_USED, op->length);
	oriel_dev_sync(s->g);
	if (!op->is_host && op->kind != SOAK_PUT_VALUE)
		status = step_post_dev(s, &ticket);
	else if (is_leader && op->is_host)
		status = step_post_host(s);
	else if (is_leader)
		status = oriel_dev_put_value(&s->w->dev, op->peer, s->at, soak_word(op->key, 0),
					     &ticket);
	if (is_leader && status == ORIEL_OK) {
		lane->is_pending[s->i] = op->length != 0;
		lane->ticket[s->i] = ticket;
		if (op->is_host)
			lane_done(lane, s->i);
	}
	return oriel_dev_vote(s->g, status);
}

static enum oriel_status step_wait_for(const struct lane_step *s, uint64_t timeout_ns)
{
	const struct oriel_dev_window *w = &s->w->dev;
	const struct soak_op *op = s->op;

	switch ((enum soak_kind)op->kind) {
	case SOAK_WAIT_SIGNAL:
		return oriel_dev_wait_signal_from(w, s->g, op->peer, op->id, ORIEL_GE, op->value,
						  timeout_ns);
	case SOAK_WAIT_NEXT:
		return oriel_dev_wait_signal_next(w, s->g, op->peer, op->id, op->value, timeout_ns);
	case SOAK_WAIT_SUM:
		return oriel_dev_wait_signal(w, s->g, op->id, ORIEL_GE, op->value, timeout_ns);
	case SOAK_WAIT_COUNTER:
		return oriel_dev_wait_counter(w, s->g, op->peer, op->counter, ORIEL_GE, op->value,
					      timeout_ns);
	default:
		return oriel_dev_recv(w, s->g, op->peer, op->id, s->slice, op->length, timeout_ns);
	}
}

static enum oriel_status step_wait_host(const struct lane_step *s)
{
	struct oriel_window *w = s->w->window;
	const struct soak_op *op = s->op;

	switch ((enum soak_kind)op->kind) {
	case SOAK_WAIT_SIGNAL:
		return oriel_window_wait_signal_from(w, op->peer, op->id, ORIEL_GE, op->value, 0);
	case SOAK_WAIT_NEXT:
		return oriel_window_wait_signal_next(w, op->peer, op->id, op->value, 0);
	case SOAK_WAIT_SUM:
		return oriel_window_wait_signal(w, op->id, ORIEL_GE, op->value, 0);
	default:
		return oriel_window_recv(w, op->peer, op->id, s->slice, op->length, 0);
	}
}

/* A timeout loses nothing: the wait is then made again. */
static enum oriel_status step_wait(const struct lane_step *s)
{
	enum oriel_status status = ORIEL_OK;

	if (s->op->is_host) {
		if (oriel_dev_is_leader(s->g))
			status = step_wait_host(s);
		return oriel_dev_vote(s->g, status);
	}
	if (s->op->is_patient) {
		status = step_wait_for(s, 1);
		if (status != ORIEL_ERR_TIMEOUT)
			return status;
	}
	/* The default timeout, so that a wait that fails breaks the communicator. */
	return step_wait_for(s, 0);
}

static void step_check_stream(const struct lane_step *s, const uint8_t *bytes, uint64_t from,
			      size_t length)
{
	size_t wrong = soak_first_wrong(bytes, length, s->op->key, from), left;
	uint8_t should[16];

	lane_count(s->lane, length);
	if (wrong == length)
		return;
	left = length - wrong < sizeof(should) ? length - wrong : sizeof(should);
	soak_fill(should, left, s->op->key, from + wrong);
	soak_wrong_bytes(s->lane->world, s->i, "what was received", wrong, bytes + wrong, should,
			 left);
}

static void step_seen(const struct lane_step *s)
{
	const struct soak_op *op = s->op;
	unsigned lanes = s->lane->world->plan->lanes;

	switch ((enum soak_kind)op->kind) {
	case SOAK_WAIT_SIGNAL:
	case SOAK_WAIT_NEXT:
		lane_see(s->lane, op->peer, op->id % lanes, op->upto);
		break;
	case SOAK_WAIT_COUNTER:
		lane_done_counted(s->lane, op);
		break;
	case SOAK_RECV:
		step_check_stream(s, s->slice, op->value, op->length);
		lane_see(s->lane, op->peer, op->lane, op->upto);
		break;
	default:
		break;
	}
}

static enum oriel_status step_fetch_add(const struct lane_step *s)
{
	const struct soak_world *world = s->lane->world;
	const struct soak_op *op = s->op;
	uint64_t old = 0, add = 1ull << 8 * op->rank, after;
	enum oriel_status status = ORIEL_OK;
	unsigned r;

	if (!oriel_dev_is_leader(s->g))
		return oriel_dev_vote(s->g, ORIEL_OK);
	status = op->is_host ? oriel_window_fetch_add(s->w->window, op->peer, op->offset, add, &old)
			     : oriel_dev_fetch_add(&s->w->dev, op->peer, op->offset, add, &old);
	memcpy(&after, s->w->buffer[0][op->peer]->bytes + op->offset, 8);
	for (r = 0; status == ORIEL_OK && r < world->plan->ranks; r++)
		if ((old >> 8 * r & 255) > (after >> 8 * r & 255) ||
		    (r == op->rank && (old >> 8 * r & 255) != op->value))
			soak_wrong(world, s->i,
				   "the word was 0x%016llx, 0x%016llx after all; rank %u had added "
				   "%llu times",
				   (unsigned long long)old, (unsigned long long)after, op->rank,
				   (unsigned long long)op->value);
	return oriel_dev_vote(s->g, status);
}

static enum oriel_status step_send(const struct lane_step *s)
{
	const struct soak_op *op = s->op;
	enum oriel_status status = ORIEL_OK;

	if (oriel_dev_is_leader(s->g))
		soak_fill(s->slice, op->length, op->key, op->value);
	oriel_dev_sync(s->g);
	if (!op->is_host)
		status =
			oriel_dev_send(&s->w->dev, s->g, op->peer, op->id, s->slice, op->length, 0);
	else if (oriel_dev_is_leader(s->g))
		status = oriel_window_send(s->w->window, op->peer, op->id, s->slice, op->length, 0);
	status = oriel_dev_vote(s->g, status);
	if (status == ORIEL_OK && oriel_dev_is_leader(s->g))
		memset(s->slice, LANE_USED, op->length);
	return status;
}

static enum oriel_status step_stream(const struct lane_step *s)
{
	const struct soak_op *op = s->op;
	uint8_t *to = s->lane->arena + op->slice_of_peer;
	enum oriel_status status;

	if (s->lane->world->rank == op->rank)
		return step_send(s);
	status = oriel_dev_recv(&s->w->dev, s->g, op->rank, op->id, to, op->taken, 0);
	if (status == ORIEL_OK && oriel_dev_is_leader(s->g)) {
		step_check_stream(s, to, op->value + op->length - op->taken, op->taken);
		lane_see(s->lane, op->rank, op->lane, op->upto);
	}
	return status;
}

static enum oriel_status step_barrier(const struct lane_step *s)
{
	const struct oriel_dev_window *w = &s->w->dev;
	const struct soak_op *op = s->op;
	enum oriel_status status = ORIEL_OK;
	unsigned me = s->lane->world->rank;

	switch ((enum soak_kind)op->kind) {
	case SOAK_BARRIER:
		if (!op->is_host)
			return oriel_dev_barrier(w, s->g, op->id, 0);
		if (oriel_dev_is_leader(s->g))
			status = oriel_window_barrier(s->w->window, op->id, 0);
		return oriel_dev_vote(s->g, status);
	case SOAK_SPLIT:
		status = oriel_dev_barrier_arrive(w, s->g, op->id);
		return status == ORIEL_OK ? oriel_dev_barrier_wait(w, s->g, op->id, 0) : status;
	case SOAK_FLAT:
		status = oriel_dev_flush(w, s->g, 0);
		return status == ORIEL_OK ? oriel_dev_barrier_flat(w, s->g, op->id, 0) : status;
	default:
		return oriel_dev_barrier_peer(w, s->g, me == op->rank ? op->peer : op->rank, op->id,
					      0);
	}
}

static void step_met(const struct lane_step *s)
{
	const struct soak_op *op = s->op;
	unsigned me = s->lane->world->rank;

#ifdef __SANITIZE_THREAD__
	/*
	 * The second arrival of a mapped rank may stand in for that of a slow one, whose puts it
	 * comes after: but it is made in another process, which ThreadSanitizer does not see.
	 */
	if (op->kind == SOAK_FLAT)
		return;
#endif
	if (op->kind == SOAK_PAIR)
		lane_see(s->lane, me == op->rank ? op->peer : op->rank, op->lane, op->upto);
	else
		lane_see_all(s->lane, op->lane, op->upto);
}

static enum oriel_status step_complete(const struct lane_step *s)
{
	const struct oriel_dev_window *w = &s->w->dev;
	const struct soak_op *op = s->op;
	enum oriel_status status = ORIEL_OK;
	struct oriel_dev_ticket ticket;

	switch ((enum soak_kind)op->kind) {
	case SOAK_WAIT_LOCAL:
		/* The leader has written the ticket; it writes no other before this has been read.
		 */
		oriel_dev_sync(s->g);
		ticket = s->lane->ticket[op->id];
		status = oriel_dev_wait_local(w, s->g, ticket, 0);
		if (status == ORIEL_OK && oriel_dev_is_leader(s->g))
			lane_done(s->lane, (int)op->id);
		return status;
	case SOAK_DRAIN:
		if (!op->is_host)
			status = oriel_dev_drain(w, s->g, 0);
		else if (oriel_dev_is_leader(s->g))
			status = oriel_window_drain(s->w->window, 0);
		break;
	default:
		if (!op->is_host)
			status = oriel_dev_flush(w, s->g, 0);
		else if (oriel_dev_is_leader(s->g))
			status = oriel_window_flush(s->w->window, 0);
		break;
	}
	status = oriel_dev_vote(s->g, status);
	if (status == ORIEL_OK && oriel_dev_is_leader(s->g))
		lane_done_all(s->lane);
	return status;
}

static enum oriel_status step_bad(const struct lane_step *s)
{
	uint64_t end = s->w->buffer[0][s->op->peer]->length;
	enum oriel_status status =
		oriel_dev_put(&s->w->dev, s->g, s->op->peer, end < 4 ? 0 : end - 4, s->lane->arena,
			      end + 8, NULL);

	if (status != ORIEL_ERR_RANGE)
		soak_wrong(s->lane->world, s->i, "it returned %s", oriel_status_name(status));
	return ORIEL_OK;
}

static enum oriel_status step_run(const struct lane_step *s)
{
	enum oriel_status status;

	switch ((enum soak_kind)s->op->kind) {
	case SOAK_WAIT_SIGNAL:
	case SOAK_WAIT_NEXT:
	case SOAK_WAIT_SUM:
	case SOAK_WAIT_COUNTER:
	case SOAK_RECV:
		status = step_wait(s);
		if (status == ORIEL_OK && oriel_dev_is_leader(s->g))
			step_seen(s);
		return status;
	case SOAK_FETCH_ADD:
		return step_fetch_add(s);
	case SOAK_SEND:
		return step_send(s);
	case SOAK_STREAM:
		return step_stream(s);
	case SOAK_BARRIER:
	case SOAK_SPLIT:
	case SOAK_FLAT:
	case SOAK_PAIR:
		status = step_barrier(s);
		if (status == ORIEL_OK && oriel_dev_is_leader(s->g))
			step_met(s);
		return status;
	case SOAK_WAIT_LOCAL:
	case SOAK_DRAIN:
	case SOAK_FLUSH:
		return step_complete(s);
	case SOAK_BAD:
		return step_bad(s);
	default:
		return step_post(s);
	}
}

static bool lane_takes_part(const struct lane *lane, const struct soak_op *op)
{
	if (op->lane != lane->index)
		return false;
	if (op->kind == SOAK_BARRIER || op->kind == SOAK_SPLIT || op->kind == SOAK_FLAT)
		return true;
	return op->rank == lane->world->rank ||
	       (op->peer == lane->world->rank &&
		(op->kind == SOAK_STREAM || op->kind == SOAK_PAIR));
}

/* Carry out the fate of the plan at operation @i; true if this lane stops there. */
static bool lane_meets_fate(const struct lane *lane, struct oriel_dev_group g, unsigned i)
{
	const struct soak_plan *plan = lane->world->plan;

	if (lane->world->epoch != plan->fatal_epoch + 1 || lane->world->rank != plan->victim ||
	    i < plan->fatal_op)
		return false;
	if (plan->fate == SOAK_STOP)
		return true;
	if (plan->fate == SOAK_ABORT && oriel_dev_is_leader(g))
		oriel_comm_abort(lane->r->comm, "the soak aborts");
	if (plan->fate == SOAK_KILL)
		kill(getpid(), SIGKILL);
	return false;
}

/* Wait until each counter of this lane has the value that the model expects. */
static enum oriel_status lane_wait_counters(const struct lane *lane, struct oriel_dev_group g)
{
	const struct soak_world *world = lane->world;
	enum oriel_status status = ORIEL_OK;
	unsigned n, peer, c;

	for (n = 0; n < SOAK_WINDOWS; n++) {
		const struct soak_window *w = &world->window[n];

		for (peer = 0; w->is_live && peer < world->plan->ranks; peer++)
			for (c = lane->index; c < w->attr.counters && status == ORIEL_OK;
			     c += world->plan->lanes)
				status = oriel_dev_wait_counter(
					&w->dev, g, peer, c, ORIEL_GE,
					soak_counter_of(world, n, world->rank, peer, c)->value, 0);
	}
	return status;
}

/* End the epoch: all operations of the lane complete and are visible. */
static enum oriel_status lane_end(struct lane *lane, struct oriel_dev_group g)
{
	const struct soak_world *world = lane->world;
	enum oriel_status status = ORIEL_OK;
	unsigned n = 0;

	if (oriel_dev_is_leader(g))
		lane->doing = -1;
	while (!world->window[n].is_live)
		n++;
	if (world->epoch % 2)
		status = oriel_dev_barrier(&world->window[n].dev, g, lane->index, 0);
	if (status == ORIEL_OK && world->epoch % 2 && oriel_dev_is_leader(g))
		lane_see_all(lane, lane->index, (int)world->count - 1);
	if (status == ORIEL_OK)
		status = lane_wait_counters(lane, g);
	for (n = 0; n < SOAK_WINDOWS && status == ORIEL_OK; n++)
		if (world->window[n].is_live)
			status = oriel_dev_flush(&world->window[n].dev, g, 0);
	if (status == ORIEL_OK && oriel_dev_is_leader(g))
		lane_done_all(lane);
	return status;
}

static void lane_fail(const struct lane *lane, enum oriel_status status, int i)
{
	int none = ORIEL_OK;

	if (atomic_compare_exchange_strong(&lane->r->failure, &none, status))
		atomic_store(&lane->r->failed_op, i);
}

static void *lane_main(void *argument)
{
	struct lane_thread *t = argument;
	struct lane *lane = t->lane;
	const struct soak_world *world = lane->world;
	struct oriel_dev_group g = oriel_dev_team(&lane->team, t->index);
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	if (lane->team.size == 1)
		g = oriel_dev_thread();
	for (i = 0; i < world->count && status == ORIEL_OK; i++) {
		const struct soak_op *op = &world->ops[i];
		struct lane_step step = {.lane = lane, .op = op, .i = (int)i, .g = g};

		if (!lane_takes_part(lane, op))
			continue;
		if (lane_meets_fate(lane, g, i))
			break;
		if (op->is_patient)
			usleep((useconds_t)(op->key % 300));
		if (oriel_dev_is_leader(g))
			lane->doing = (int)i;
		step.w = &world->window[op->window];
		step.slice = lane->arena + op->slice;
		step.at = oriel_at(op->buffer, op->offset);
		status = step_run(&step);
		if (oriel_dev_is_leader(g))
			atomic_fetch_add_explicit(&lane->r->ops_done, 1, memory_order_relaxed);
		if (status != ORIEL_OK)
			lane_fail(lane, status, (int)i);
	}
	if (status == ORIEL_OK && lane_meets_fate(lane, g, SOAK_OPS))
		status = ORIEL_ERR_STATE;
	else if (status == ORIEL_OK)
		status = lane_end(lane, g);
	if (status != ORIEL_OK)
		lane_fail(lane, status, -1);
	return NULL;
}

static void *lane_alloc(size_t length)
{
	void *memory = calloc(1, length);

	if (!memory)
		abort();
	return memory;
}

enum oriel_status soak_lanes_run(struct soak_rank *r)
{
	const struct soak_plan *plan = r->world.plan;
	struct lane_thread *threads = lane_alloc(SOAK_LANES * ORIEL_TEAM_MAX * sizeof(*threads));
	struct lane *lanes = lane_alloc(SOAK_LANES * sizeof(*lanes));
	unsigned l, t, count = 0;

	for (l = 0; l < plan->lanes; l++) {
		unsigned size = plan->teams[r->world.rank][l];

		lanes[l].r = r;
		lanes[l].world = &r->world;
		lanes[l].index = l;
		lanes[l].arena = r->arena[l];
		if (oriel_team_open(&lanes[l].team, size, true) != ORIEL_OK)
			abort();
		for (t = 0; t < size; t++, count++) {
			threads[count].lane = &lanes[l];
			threads[count].index = t;
			if (pthread_create(&threads[count].thread, NULL, lane_main,
					   &threads[count]))
				abort();
		}
	}
	while (count)
		pthread_join(threads[--count].thread, NULL);
	free(lanes);
	free(threads);
	return (enum oriel_status)atomic_load(&r->failure);
}
