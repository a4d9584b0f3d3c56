/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/rdma_proxy_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/nap.h"

#define THREAD_SPIN_NS 50000u       /* without work before it sleeps */
#define THREAD_YIELD_NS 4000000u    /* ... while ends are to be expected */
#define THREAD_NAP_NS 2000000u      /* then, at most */
#define THREAD_KERNEL_NAP_NS 50000u /* when nobody can wake it */
#define THREAD_SLEEP_NS 1000000000u
#define THREAD_LOOKS 64u /* steps at most, of a lane that is busy */

struct thread_lane {
	struct ori_proxy_lane *lane;
	bool wakes;
};

struct ori_proxy_thread {
	pthread_mutex_t lock;
	pthread_t thread;
	atomic_uint waiters; /* for the lock, but for the thread */
	/* Guarded by lock, as all below. */
	bool is_stopping;
	struct thread_lane *lanes;
	size_t lane_count, lane_room;
	struct ori_tally *tallies[ORIEL_DEV_RAILS];
	size_t tally_count;
	uint32_t *asleep; /* in a line of its own, which posters look at; not guarded */
};

static void thread_lock(struct ori_proxy_thread *t)
{
	atomic_fetch_add_explicit(&t->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&t->lock);
	atomic_fetch_sub_explicit(&t->waiters, 1, memory_order_relaxed);
}

/* Makes sure that what was changed is seen. */
static void thread_unlock(struct ori_proxy_thread *t)
{
	pthread_mutex_unlock(&t->lock);
	oriel_cpu_wake_thread(t->asleep);
}

static bool thread_turn(struct ori_proxy_thread *t)
{
	bool is_busy = false;
	size_t i;

	for (i = 0; i < t->lane_count; i++)
		is_busy |= ori_proxy_step(t->lanes[i].lane);
	for (i = 0; i < t->tally_count; i++)
		is_busy |= ori_tally_step(t->tallies[i]);
	return is_busy;
}

static bool thread_is_asked(const struct ori_proxy_thread *t)
{
	size_t i;

	for (i = 0; i < t->lane_count; i++)
		if (ori_proxy_is_asked(t->lanes[i].lane))
			return true;
	return false;
}

static bool thread_is_waiting(const struct ori_proxy_thread *t)
{
	size_t i;

	for (i = 0; i < t->lane_count; i++)
		if (ori_proxy_is_waiting(t->lanes[i].lane))
			return true;
	for (i = 0; i < t->tally_count; i++)
		if (ori_tally_is_waiting(t->tallies[i]))
			return true;
	return false;
}

static uint64_t thread_nap(const struct ori_proxy_thread *t, uint64_t idle)
{
	size_t i;

	if (thread_is_waiting(t))
		return idle / 32 < THREAD_NAP_NS ? idle / 32 : THREAD_NAP_NS;
	for (i = 0; i < t->lane_count; i++)
		if (!t->lanes[i].wakes)
			return THREAD_KERNEL_NAP_NS;
	return THREAD_SLEEP_NS;
}

/*
 * Posters publish, do a full fence and look at asleep; this sets asleep, does a full
 * fence and looks at the rings: one of the two sees what the other did.
 */
static void thread_sleep(struct ori_proxy_thread *t, uint64_t idle)
{
	uint64_t nap;

	oriel_dev_store_release32(t->asleep, 1);
	oriel_dev_fence_full();
	if (!thread_is_asked(t)) {
		nap = thread_nap(t, idle);
		pthread_mutex_unlock(&t->lock);
		ori_nap(t->asleep, nap);
		pthread_mutex_lock(&t->lock);
	}
	oriel_dev_store_release32(t->asleep, 0);
}

/* Mutexes are not fair: without this a caller could wait for as long as there is work. */
static void thread_step_aside(struct ori_proxy_thread *t, bool is_busy)
{
	pthread_mutex_unlock(&t->lock);
	if (!is_busy)
		sched_yield();
	while (atomic_load_explicit(&t->waiters, memory_order_relaxed))
		sched_yield();
	pthread_mutex_lock(&t->lock);
}

static void *thread_main(void *context)
{
	struct ori_proxy_thread *t = context;
	uint64_t idle_since = ori_clock_ns(), now, patience;

	pthread_mutex_lock(&t->lock);
	while (!t->is_stopping) {
		bool is_busy = thread_turn(t);

		now = ori_clock_ns();
		if (is_busy)
			idle_since = now;
		patience = thread_is_waiting(t) ? THREAD_YIELD_NS : THREAD_SPIN_NS;
		if (now - idle_since > patience)
			thread_sleep(t, now - idle_since);
		else
			thread_step_aside(t, is_busy);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Signals are for the threads of the program. */
static int thread_create(struct ori_proxy_thread *t)
{
	sigset_t all, old;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	failed = pthread_create(&t->thread, NULL, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return failed;
}

static void thread_free(struct ori_proxy_thread *t)
{
	pthread_mutex_destroy(&t->lock);
	free(t->asleep);
	free(t->lanes);
	free(t);
}

enum oriel_status ori_proxy_thread_start(struct ori_proxy_thread **out)
{
	struct ori_proxy_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a proxy");
	pthread_mutex_init(&t->lock, NULL);
	t->asleep = aligned_alloc(ORIEL_DEV_LINE, ORIEL_DEV_LINE);
	if (!t->asleep) {
		thread_free(t);
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a proxy");
	}
	*t->asleep = 0;
	if (thread_create(t)) {
		thread_free(t);
		return ori_fail(ORIEL_ERR_NOMEM, "cannot start the thread of a proxy");
	}
	*out = t;
	return ORIEL_OK;
}

void ori_proxy_thread_stop(struct ori_proxy_thread *t)
{
	if (!t)
		return;
	thread_lock(t);
	assert(t->lane_count == 0 && t->tally_count == 0);
	t->is_stopping = true;
	thread_unlock(t);
	pthread_join(t->thread, NULL);
	thread_free(t);
}

uint32_t *ori_proxy_thread_asleep(struct ori_proxy_thread *t)
{
	return t->asleep;
}

static enum oriel_status thread_grow(struct ori_proxy_thread *t)
{
	size_t room = t->lane_room ? 2 * t->lane_room : 16;
	struct thread_lane *more = realloc(t->lanes, room * sizeof(*more));

	if (!more)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a proxy of %zu queues", room);
	t->lanes = more;
	t->lane_room = room;
	return ORIEL_OK;
}

enum oriel_status ori_proxy_thread_add(struct ori_proxy_thread *t, struct ori_proxy_lane *lane,
				       bool wakes)
{
	enum oriel_status status = ORIEL_OK;

	thread_lock(t);
	if (t->lane_count == t->lane_room)
		status = thread_grow(t);
	if (status == ORIEL_OK)
		t->lanes[t->lane_count++] = (struct thread_lane){lane, wakes};
	thread_unlock(t);
	return status;
}

void ori_proxy_thread_look(struct ori_proxy_thread *t, struct ori_proxy_lane *lane)
{
	unsigned i;

	thread_lock(t);
	for (i = 0; i < THREAD_LOOKS && ori_proxy_step(lane); i++)
		;
	thread_unlock(t);
}

void ori_proxy_thread_fail(struct ori_proxy_thread *t, struct ori_proxy_lane *lane)
{
	thread_lock(t);
	ori_proxy_fail(lane);
	thread_unlock(t);
}

void ori_proxy_thread_remove(struct ori_proxy_thread *t, struct ori_proxy_lane *lane)
{
	size_t i;

	thread_lock(t);
	ori_proxy_fail(lane);
	for (i = 0; t->lanes[i].lane != lane; i++)
		;
	t->lanes[i] = t->lanes[--t->lane_count];
	thread_unlock(t);
}

enum oriel_status ori_proxy_thread_add_tally(struct ori_proxy_thread *t, struct ori_tally *tally)
{
	thread_lock(t);
	assert(t->tally_count < ORIEL_DEV_RAILS);
	t->tallies[t->tally_count++] = tally;
	thread_unlock(t);
	return ORIEL_OK;
}

void ori_proxy_thread_remove_tally(struct ori_proxy_thread *t, struct ori_tally *tally)
{
	size_t i;

	thread_lock(t);
	for (i = 0; t->tallies[i] != tally; i++)
		;
	t->tallies[i] = t->tallies[--t->tally_count];
	thread_unlock(t);
}
