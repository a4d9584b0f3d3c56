/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of the proxy: when it steps the lanes, when it sleeps, and when posters and
 * waiters step them instead. rdma.c starts it; oriel/dev/detail/proxy.h calls it.
 */
#include "rdma/rdma_proxy_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/affinity.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/help.h"
#include "base/log.h"
#include "base/sleep.h"
#include "base/thread.h"
#include "base/yield.h"

#define THREAD_SPIN_NS 50000u          /* without work before it sleeps, if kernels post */
#define THREAD_YIELD_NS 4000000u       /* ... while completions are to be expected */
#define THREAD_SHORT_SLEEP_NS 2000000u /* then, at most */
#define THREAD_KERNEL_SLEEP_NS 50000u  /* when no poster can wake it */
#define THREAD_BESIDE_NS 200000u       /* while posters do its work, at first */
#define THREAD_BESIDE_MOST 2000000u    /* ... and after it was not needed time and again */
#define THREAD_SLEEP_NS 1000000000u
#define THREAD_STEPS 64u /* steps at most, of a lane that is busy */
#define THREAD_MANY 16u  /* entries in flight that are work for two */
#define THREAD_FEW 2u    /* ... and no longer */
#define THREAD_RUN 4u    /* turns with work in a row that only a load makes */
#define THREAD_TURNS 4u  /* that a caller does for others that posted meanwhile */

/* A lane, for the ring that it serves. */
struct thread_seat {
	struct ori_proxy_thread *thread;
	struct ori_proxy_lane *lane;
	bool is_helped; /* posters of the ring wake the thread, or do its work; a kernel does not */
};

/*
 * While the thread sleeps, threads that post and wait do its work. It checks now and then
 * whether they do, and does alone the work that they leave.
 */
struct ori_proxy_thread {
	struct ori_helper helper;
	pthread_mutex_t lock;
	pthread_t thread;
	char name[80];         /* of a NIC */
	unsigned numa_node;    /* plus 1; 0: it runs anywhere */
	atomic_uint waiters;   /* for the lock, without the thread itself */
	atomic_bool is_missed; /* a poster did not get the lock */
	atomic_bool is_beside; /* its sleep is a short one, for there may be work */
	/*
	 * Guarded by lock, as all below. Not in one word with the atomics: gcc reads
	 * several flags at once, with their neighbors, which ThreadSanitizer takes for a
	 * race.
	 */
	uint64_t helps;     /* turns of posters and waiters */
	uint64_t beside_ns; /* for how long it leaves the work to them */
	uint64_t loaded_at; /* when it last had work for many turns in a row */
	bool is_stopping;
	bool is_alone;  /* there is work that no other thread does */
	bool is_loaded; /* there is work enough for it beside others */
	struct thread_seat **seats;
	size_t seat_count, seat_room, kernel_count;
	struct ori_host_link *loopbacks[ORIEL_DEV_RAILS];
	size_t loopback_count;
	uint32_t *asleep; /* in a line of its own, which posters read; not guarded */
};

static void thread_lock(struct ori_proxy_thread *t)
{
	atomic_fetch_add_explicit(&t->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&t->lock);
	atomic_fetch_sub_explicit(&t->waiters, 1, memory_order_relaxed);
}

/* Wakes the thread, so that it sees the change. */
static void thread_unlock(struct ori_proxy_thread *t)
{
	pthread_mutex_unlock(&t->lock);
	oriel_cpu_wake_thread(t->asleep);
}

static bool thread_turn(struct ori_proxy_thread *t)
{
	bool is_busy = false;
	size_t i;

	/* Acquires the entries of posters that did not get the lock before. */
	if (atomic_load_explicit(&t->is_missed, memory_order_relaxed))
		atomic_exchange_explicit(&t->is_missed, false, memory_order_acq_rel);
	for (i = 0; i < t->seat_count; i++)
		is_busy |= ori_proxy_step(t->seats[i]->lane);
	for (i = 0; i < t->loopback_count; i++)
		is_busy |= ori_loopback_step(t->loopbacks[i]);
	return is_busy;
}

static bool thread_has_requests(const struct ori_proxy_thread *t)
{
	size_t i;

	for (i = 0; i < t->seat_count; i++)
		if (ori_proxy_has_requests(t->seats[i]->lane))
			return true;
	return false;
}

/* The most entries in flight in one lane, or 1 if only a loopback link has some. */
static uint64_t thread_most(const struct ori_proxy_thread *t)
{
	uint64_t most = 0, other;
	size_t i;

	for (i = 0; i < t->seat_count; i++) {
		other = ori_proxy_in_flight(t->seats[i]->lane);
		if (other > most)
			most = other;
	}
	for (i = 0; i < t->loopback_count && !most; i++)
		most = ori_host_in_flight(t->loopbacks[i]) > 0;
	return most;
}

/*
 * Call it unlocked. A poster that misses the lock sets is_missed, does a full fence and
 * tries the lock again; the thread that had the lock does a full fence and reads
 * is_missed: one of the two sees the other's change.
 */
static bool thread_has_missed(const struct ori_proxy_thread *t)
{
	ori_dev_fence_full();
	return atomic_load_explicit(&t->is_missed, memory_order_relaxed);
}

/*
 * For how long it goes on without having found work. A load that has ended mostly comes
 * again: to wake the thread for each post costs the poster more than all else.
 */
static uint64_t thread_patience(struct ori_proxy_thread *t, uint64_t now)
{
	uint64_t most = thread_most(t);

	t->is_alone = t->is_alone && most;
	t->is_loaded = most > (t->is_loaded ? THREAD_FEW : THREAD_MANY) ||
		       now - t->loaded_at < THREAD_SPIN_NS;
	if (!t->kernel_count && !t->is_alone && !t->is_loaded)
		return 0;
	return most ? THREAD_YIELD_NS : THREAD_SPIN_NS;
}

/*
 * On a machine with as many ranks as cores, each check of the thread takes the core from
 * one of them, in a virtual machine for longer than a message takes: a put of 8 bytes by Soft-RoCE
 * took 30 to 150 us, and 29 to 31 with sleeps ten times as long.
 */
static uint64_t thread_sleep_ns(struct ori_proxy_thread *t, uint64_t idle, bool was_helped)
{
	uint64_t most = thread_most(t);

	if (most && (t->kernel_count || t->is_alone || t->is_loaded))
		return idle / 32 < THREAD_SHORT_SLEEP_NS ? idle / 32 : THREAD_SHORT_SLEEP_NS;
	if (t->kernel_count)
		return THREAD_KERNEL_SLEEP_NS;
	if (!most && !was_helped)
		return THREAD_SLEEP_NS;
	t->beside_ns = was_helped ? 2 * t->beside_ns : THREAD_BESIDE_NS;
	if (t->beside_ns < THREAD_BESIDE_NS)
		t->beside_ns = THREAD_BESIDE_NS;
	if (t->beside_ns > THREAD_BESIDE_MOST)
		t->beside_ns = THREAD_BESIDE_MOST;
	return t->beside_ns;
}

/*
 * Posters publish, do a full fence and read asleep; this function sets asleep, does a
 * full fence and reads the rings: one of the two sees the other's change. Returns how
 * many turns others had done before.
 */
static uint64_t thread_sleep(struct ori_proxy_thread *t, uint64_t idle, uint64_t helps)
{
	uint64_t sleep_ns = thread_sleep_ns(t, idle, t->helps != helps);

	helps = t->helps;
	atomic_store_explicit(&t->is_beside, sleep_ns < THREAD_SLEEP_NS, memory_order_relaxed);
	ori_dev_store_release32(t->asleep, 1);
	ori_dev_fence_full();
	if (!thread_has_requests(t)) {
		pthread_mutex_unlock(&t->lock);
		if (!thread_has_missed(t))
			ori_sleep_until_woken(t->asleep, sleep_ns);
		pthread_mutex_lock(&t->lock);
		t->is_alone = t->helps == helps;
	}
	ori_dev_store_release32(t->asleep, 0);
	return helps;
}

/* Mutexes are not fair: without this a caller could wait for as long as there is work. */
static void thread_yield_lock(struct ori_proxy_thread *t, bool is_busy)
{
	pthread_mutex_unlock(&t->lock);
	if (!is_busy)
		ori_yield();
	while (atomic_load_explicit(&t->waiters, memory_order_relaxed))
		ori_yield();
	pthread_mutex_lock(&t->lock);
}

static void *thread_main(void *context)
{
	struct ori_proxy_thread *t = context;
	uint64_t idle_since = ori_clock_ns(), helps = 0, now;
	unsigned run = 0;

	if (t->numa_node && ori_affinity_bind((int)t->numa_node - 1))
		ori_log(ORIEL_LOG_DEBUG, "%s: its proxy stays on NUMA node %u", t->name,
			t->numa_node - 1);
	pthread_mutex_lock(&t->lock);
	while (!t->is_stopping) {
		bool is_busy = thread_turn(t);

		now = ori_clock_ns();
		run = is_busy ? run + 1 : 0;
		if (is_busy)
			idle_since = now;
		if (run >= THREAD_RUN)
			t->loaded_at = now;
		if (!is_busy && now - idle_since >= thread_patience(t, now))
			helps = thread_sleep(t, now - idle_since, helps);
		else
			thread_yield_lock(t, is_busy);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* With the lock: is there too much in flight to leave the thread asleep for the rest of its sleep?
 */
static bool thread_is_wanted(const struct ori_proxy_thread *t, const struct ori_proxy_lane *lane)
{
	uint64_t count = ori_proxy_in_flight(lane);

	return count > THREAD_MANY ||
	       (count && !atomic_load_explicit(&t->is_beside, memory_order_relaxed));
}

/* Does the work of posters that did not get the lock meanwhile. */
static void thread_make_up(struct ori_proxy_thread *t)
{
	unsigned turns;

	for (turns = 0; thread_has_missed(t); turns++) {
		if (turns == THREAD_TURNS) {
			oriel_cpu_wake_thread(t->asleep);
			return;
		}
		if (pthread_mutex_trylock(&t->lock) != 0)
			return;
		(void)thread_turn(t);
		pthread_mutex_unlock(&t->lock);
	}
}

/* With the lock: a turn for one ring; true if the thread should wake. */
static bool thread_help(struct thread_seat *seat)
{
	struct ori_proxy_thread *t = seat->thread;
	bool has_counted = false;
	size_t i;

	(void)ori_proxy_step(seat->lane);
	for (i = 0; i < t->loopback_count; i++)
		has_counted |= ori_loopback_step(t->loopbacks[i]);
	if (has_counted)
		(void)ori_proxy_step(seat->lane);
	t->helps++;
	return thread_is_wanted(t, seat->lane);
}

void oriel_cpu_ask_proxy(void *at)
{
	struct thread_seat *seat = at;
	struct ori_proxy_thread *t = seat->thread;
	bool is_wanted;

	if (pthread_mutex_trylock(&t->lock) != 0) {
		/* thread_turn() of the thread that does the missed work acquires it. */
		atomic_store_explicit(&t->is_missed, true, memory_order_release);
		ori_dev_fence_full();
		if (pthread_mutex_trylock(&t->lock) != 0)
			return;
	}
	is_wanted = thread_help(seat);
	pthread_mutex_unlock(&t->lock);
	if (is_wanted)
		oriel_cpu_wake_thread(t->asleep);
	thread_make_up(t);
}

void oriel_cpu_help_proxy(void *at)
{
	struct thread_seat *seat = at;
	struct ori_proxy_thread *t = seat->thread;

	if (pthread_mutex_trylock(&t->lock) != 0)
		return;
	(void)thread_help(seat);
	pthread_mutex_unlock(&t->lock);
	thread_make_up(t);
}

/* A thread that sleeps for long has nothing to do, and one that is awake does its work itself. */
static void thread_help_all(struct ori_helper *helper)
{
	struct ori_proxy_thread *t = (struct ori_proxy_thread *)(void *)helper;

	if (!ori_dev_load_relaxed32(t->asleep) ||
	    !atomic_load_explicit(&t->is_beside, memory_order_relaxed) ||
	    pthread_mutex_trylock(&t->lock) != 0)
		return;
	(void)thread_turn(t);
	t->helps++;
	pthread_mutex_unlock(&t->lock);
	thread_make_up(t);
}

/* The child of a fork has no thread: posters there must not find it asleep and do its work. */
static void thread_forked(struct ori_helper *helper)
{
	ori_dev_store_release32(((struct ori_proxy_thread *)(void *)helper)->asleep, 0);
}

static void thread_free(struct ori_proxy_thread *t)
{
	pthread_mutex_destroy(&t->lock);
	free(t->asleep);
	free(t->seats);
	free(t);
}

enum oriel_status ori_proxy_thread_start(unsigned numa_node, const char *name,
					 struct ori_proxy_thread **out)
{
	struct ori_proxy_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return ori_fail_nomem(sizeof(*t), "a proxy");
	if (strcmp(ori_setting_text(ORI_SETTING_PROXY_NEAR), "off") != 0)
		t->numa_node = numa_node;
	snprintf(t->name, sizeof(t->name), "%s", name);
	pthread_mutex_init(&t->lock, NULL);
	t->asleep = aligned_alloc(ORIEL_DEV_LINE, ORIEL_DEV_LINE);
	if (!t->asleep) {
		thread_free(t);
		return ori_fail_nomem(ORIEL_DEV_LINE, "a proxy");
	}
	*t->asleep = 0;
	if (ori_thread_start(&t->thread, thread_main, t) != 0) {
		thread_free(t);
		return ori_fail(ORIEL_ERR_NOMEM, "cannot start the thread of a proxy");
	}
	t->helper.help = thread_help_all;
	t->helper.forked = thread_forked;
	ori_help_add(&t->helper);
	*out = t;
	return ORIEL_OK;
}

void ori_proxy_thread_stop(struct ori_proxy_thread *t)
{
	if (!t)
		return;
	ori_help_remove(&t->helper);
	thread_lock(t);
	assert(t->seat_count == 0 && t->loopback_count == 0);
	t->is_stopping = true;
	thread_unlock(t);
	pthread_join(t->thread, NULL);
	thread_free(t);
}

uint32_t *ori_proxy_thread_asleep(struct ori_proxy_thread *t)
{
	return t->asleep;
}

/* With the lock: room for one more, in @seat. */
static enum oriel_status thread_grow(struct ori_proxy_thread *t, struct thread_seat **seat)
{
	size_t room = t->seat_room ? 2 * t->seat_room : 16;
	struct thread_seat **more = t->seats;

	*seat = calloc(1, sizeof(**seat));
	if (*seat && t->seat_count == t->seat_room)
		more = realloc(t->seats, room * sizeof(*more));
	if (!*seat || !more) {
		free(*seat);
		return ori_fail_nomem(sizeof(**seat) + room * sizeof(*more),
				      "a proxy of %zu queues", room);
	}
	if (t->seat_count == t->seat_room)
		t->seat_room = room;
	t->seats = more;
	return ORIEL_OK;
}

enum oriel_status ori_proxy_thread_add(struct ori_proxy_thread *t, struct ori_proxy_lane *lane,
				       bool is_helped, void **out)
{
	struct thread_seat *seat;
	enum oriel_status status;

	thread_lock(t);
	status = thread_grow(t, &seat);
	if (status == ORIEL_OK) {
		*seat = (struct thread_seat){t, lane, is_helped};
		t->seats[t->seat_count++] = seat;
		t->kernel_count += !is_helped;
		*out = seat;
	}
	thread_unlock(t);
	return status;
}

void ori_proxy_thread_poll(struct ori_proxy_thread *t, struct ori_proxy_lane *lane)
{
	unsigned i;

	thread_lock(t);
	for (i = 0; i < THREAD_STEPS && ori_proxy_step(lane); i++)
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
	for (i = 0; t->seats[i]->lane != lane; i++)
		;
	t->kernel_count -= !t->seats[i]->is_helped;
	free(t->seats[i]);
	t->seats[i] = t->seats[--t->seat_count];
	thread_unlock(t);
}

enum oriel_status ori_proxy_thread_add_loopback(struct ori_proxy_thread *t,
						struct ori_host_link *loopback)
{
	thread_lock(t);
	assert(t->loopback_count < ORIEL_DEV_RAILS);
	t->loopbacks[t->loopback_count++] = loopback;
	thread_unlock(t);
	return ORIEL_OK;
}

void ori_proxy_thread_remove_loopback(struct ori_proxy_thread *t, struct ori_host_link *loopback)
{
	size_t i;

	thread_lock(t);
	for (i = 0; t->loopbacks[i] != loopback; i++)
		;
	t->loopbacks[i] = t->loopbacks[--t->loopback_count];
	thread_unlock(t);
}
