/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the cases on CPU threads, for the program conformance and for field reports. */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>

#define ROUNDS 1000u /* of a case IN_ROUNDS */

struct fork_call {
	struct rank *r;
	unsigned index;
	void (*run)(struct rank *r, unsigned index, void *context);
	void *context;
};

static void *fork_main(void *argument)
{
	struct fork_call *call = argument;

	call->run(call->r, call->index, call->context);
	return NULL;
}

void rank_fork(struct rank *r, unsigned count,
	       void (*run)(struct rank *r, unsigned index, void *context), void *context)
{
	struct fork_call *calls = calloc(count, sizeof(*calls));
	pthread_t *threads = calloc(count, sizeof(*threads));
	unsigned i;

	if (!calls || !threads)
		abort();
	for (i = 0; i < count; i++) {
		calls[i] = (struct fork_call){r, i, run, context};
		if (pthread_create(&threads[i], NULL, fork_main, &calls[i]))
			abort();
	}
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	free(calls);
}

struct team_call {
	struct oriel_team team;
	void (*run)(struct rank *r, struct oriel_dev_group g, void *context);
	void *context;
};

static void team_main(struct rank *r, unsigned index, void *context)
{
	struct team_call *call = context;

	call->run(r, oriel_dev_team(&call->team, index), call->context);
}

void rank_team(struct rank *r, uint32_t size,
	       void (*run)(struct rank *r, struct oriel_dev_group g, void *context), void *context)
{
	struct team_call call = {.run = run, .context = context};

	CHECK_OK(r, oriel_team_open(&call.team, size, true));
	rank_fork(r, size, team_main, &call);
}

/* Each round gets a new handle, like a new launch. */
static void run_in_rounds(struct rank *r, const struct test_case *c)
{
	for (r->round = 1; r->round <= ROUNDS && !r->failures; r->round++) {
		CHECK_OK(r, oriel_window_device(r->window, &r->dev));
		c->run(r);
	}
}

/* Each launch counts its own failures. */
struct streams {
	const struct test_case *c;
	struct rank parts[STREAMS];
};

static void run_stream(struct rank *r, unsigned index, void *context)
{
	struct streams *streams = context;

	(void)r;
	streams->c->run(&streams->parts[index]);
}

static void run_in_streams(struct rank *r, const struct test_case *c)
{
	struct streams streams = {.c = c};
	unsigned i;

	for (i = 0; i < STREAMS; i++) {
		streams.parts[i] = *r;
		streams.parts[i].stream = i;
	}
	rank_fork(r, STREAMS, run_stream, &streams);
	for (i = 0; i < STREAMS; i++)
		r->failures += streams.parts[i].failures;
}

static void run(struct rank *r, const struct suite *s, const struct test_case *c)
{
	(void)s;
	if (c->flags & IN_STREAMS)
		run_in_streams(r, c);
	else if (c->flags & IN_ROUNDS)
		run_in_rounds(r, c);
	else
		c->run(r);
}

static const struct suite *const suites[] = {
	&topo_suite,     &region_suite,        &window_suite,   &data_suite,      &atomic_suite,
	&signal_suite,   &host_suite,          &order_suite,    &barrier_suite,   &team_suite,
	&counter_suite,  &channel_suite,       &ll_suite,       &ll128_suite,     &fold_suite,
	&replay_suite,   &fault_suite,         &access_suite,   &stuck_suite,     &stuck_host_suite,
	&connect_suite,  &demand_suite,        &lie_suite,      &allgather_suite, &gather_suite,
	&exchange_suite, &both_suite,          &both_lie_suite, &agent_suite,     &agent_lie_suite,
	&cached_suite,   &handle_suite,        &started_suite,  &split_suite,     &reduce_suite,
	&series_suite,   &series_reduce_suite,
};

const struct backend conformance_cpus = {
	.suites = suites,
	.count = sizeof(suites) / sizeof(suites[0]),
	.run = run,
};
