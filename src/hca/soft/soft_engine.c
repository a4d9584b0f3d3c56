/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of a process: its thread serves doorbells, queues, packets and
 * timers of all nodes in turns. The table of soft.c takes its lock.
 */
#include "hca/soft/soft_engine.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/sleep.h"
#include "base/thread.h"
#include "base/yield.h"
#include "hca/soft/soft_address.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_link.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_qp.h"
#include "hca/soft/soft_stray.h"
#include "hca/soft/soft_wire.h"

#define ENGINE_SPIN_NS 50000u      /* without work before it sleeps */
#define ENGINE_GPU_SLEEP_NS 50000u /* if posters cannot wake the engine */
#define ENGINE_SLEEP_NS UINT64_C(1000000000)
#define ENGINE_WQES 32u /* of one QP in one turn */
#define ENGINE_PACKETS 16u
#define ENGINE_TRIES 64u /* of a caller to get the lock, before it sleeps */

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soft_engine *engine_running; /* guarded by engine_lock */
static unsigned engine_refs;               /* guarded by engine_lock */

static void engine_announce(struct soft_engine *e, uint32_t asleep)
{
	for (unsigned i = 0; i < SOFT_NODES; i++)
		for (unsigned k = 0; e->nodes[i] && k < e->nodes[i]->page_count; k++)
			ori_dev_store_release32(e->nodes[i]->pages[k], asleep);
}

static uint64_t engine_due_cq(const struct soft_cq *cq)
{
	return cq->late_count ? cq->late[0].due : SOFT_NEVER;
}

static uint64_t engine_due_qp(struct soft_qp *qp)
{
	uint64_t due = ori_soft_sq_due(qp), other = ori_soft_requester_due(qp);
	if (other < due)
		due = other;
	other = engine_due_cq(qp->cq);
	if (other < due)
		due = other;
	other = qp->receive_cq ? engine_due_cq(qp->receive_cq) : SOFT_NEVER;
	if (other < due)
		due = other;
	other = ori_soft_egress_due(qp);
	return other < due ? other : due;
}

/* Work of a halted HCA waits for the end of the halt. */
static uint64_t engine_due_node(const struct soft_node *node)
{
	uint64_t due = ori_soft_held_due(node), other = ori_soft_stray_due(node);

	if (node->halt_until > node->engine->now)
		return node->halt_until;
	if (node->atomic.qp)
		return node->atomic.due;
	if (other < due)
		due = other;
	for (struct soft_qp *qp = node->qp_list; qp; qp = qp->next) {
		other = engine_due_qp(qp);
		if (other < due)
			due = other;
	}
	return due;
}

uint64_t ori_soft_engine_due(const struct soft_engine *e)
{
	uint64_t due = ori_soft_link_due(e), other;

	for (unsigned i = 0; i < SOFT_NODES; i++) {
		other = e->nodes[i] ? engine_due_node(e->nodes[i]) : SOFT_NEVER;
		if (other < due)
			due = other;
	}
	return due;
}

bool ori_soft_engine_is_halted(struct soft_node *node)
{
	const struct soft_scenario *s = &node->scenario;

	if (s->halt && !node->has_halted && node->counters.packets >= s->halt_at) {
		node->has_halted = true;
		node->halt_until = node->engine->now + s->halt;
		node->counters.halted++;
	}
	return node->halt_until > node->engine->now;
}

static bool engine_turn_qp(struct soft_qp *qp)
{
	bool is_busy = ori_soft_doorbell_poll(qp);
	unsigned i;

	for (i = 0; i < ENGINE_WQES && ori_soft_sq_step(qp); i++)
		is_busy = true;
	for (i = 0; i < ENGINE_PACKETS && ori_soft_egress(qp); i++)
		is_busy = true;
	return ori_soft_cq_flush_of(qp, qp->node->engine->now) || is_busy;
}

/* The engine serves a skipped QP another time: that makes the order random. */
static bool engine_turn_node(struct soft_node *node)
{
	bool is_busy;

	if (ori_soft_engine_is_halted(node))
		return false;
	if (node->atomic.qp) {
		if (node->atomic.due > node->engine->now)
			return false;
		ori_soft_atomic_end(node);
	}
	is_busy = ori_soft_held_leak(node);
	is_busy |= ori_soft_stray_step(node);
	for (struct soft_qp *qp = node->qp_list; qp; qp = qp->next)
		if (node->scenario.shuffle && soft_rand_chance(&node->rand, SOFT_CERTAIN / 2))
			is_busy |= oriel_dev_load_relaxed(qp->doorbell) != qp->seen ||
				   qp->fetch < qp->end || ori_soft_responder_has_output(qp);
		else
			is_busy |= engine_turn_qp(qp);
	return is_busy;
}

/* The engine takes arrived frames before a timer may say that none has arrived. */
static bool engine_turn(struct soft_engine *e)
{
	bool is_busy = false;
	unsigned i;

	e->now = ori_clock_ns();
	for (i = 0; i < SOFT_NODES; i++)
		if (e->nodes[i])
			is_busy |= engine_turn_node(e->nodes[i]);
	is_busy |= ori_soft_link_flush(e);
	is_busy |= ori_soft_link_poll(e);
	for (i = 0; i < SOFT_NODES; i++)
		for (struct soft_qp *qp = e->nodes[i] ? e->nodes[i]->qp_list : NULL; qp;
		     qp = qp->next)
			if (qp->node->halt_until <= e->now)
				is_busy |= ori_soft_timer(qp);
	return is_busy;
}

static bool engine_has_doorbells(struct soft_engine *e)
{
	for (unsigned i = 0; i < SOFT_NODES; i++)
		for (struct soft_qp *qp = e->nodes[i] ? e->nodes[i]->qp_list : NULL; qp;
		     qp = qp->next)
			if (ori_soft_doorbell_poll(qp))
				return true;
	return false;
}

static uint64_t engine_sleep_length(const struct soft_engine *e)
{
	uint64_t due = ori_soft_engine_due(e), now = ori_clock_ns(), duration = ENGINE_SLEEP_NS;

	if (due <= now)
		return 0;
	if (due - now < duration)
		duration = due - now;
	for (unsigned i = 0; i < SOFT_NODES; i++)
		if (e->nodes[i] && (e->nodes[i]->scenario.gpu || e->nodes[i]->remote) &&
		    duration > ENGINE_GPU_SLEEP_NS)
			duration = ENGINE_GPU_SLEEP_NS;
	return duration;
}

/*
 * Posters ring, do a full fence and read asleep; this sets asleep, does a full
 * fence and reads the doorbells: one of the two sees the other's store.
 */
static void engine_sleep(struct soft_engine *e)
{
	struct pollfd p = {.fd = e->poll, .events = POLLIN};
	struct timespec duration;
	uint64_t ns;

	engine_announce(e, 1);
	ori_dev_fence_full();
	if (!engine_has_doorbells(e)) {
		ns = engine_sleep_length(e);
		duration.tv_sec = (time_t)(ns / 1000000000u);
		duration.tv_nsec = (long)(ns % 1000000000u);
		e->is_asleep = true;
		pthread_mutex_unlock(&e->lock);
		(void)ppoll(&p, 1, &duration, NULL);
		pthread_mutex_lock(&e->lock);
		e->is_asleep = false;
	}
	engine_announce(e, 0);
}

/* Mutexes are not fair: without this a caller could wait for as long as the engine has work. */
static void engine_yield(struct soft_engine *e, bool is_busy)
{
	pthread_mutex_unlock(&e->lock);
	if (!is_busy)
		ori_yield();
	while (atomic_load_explicit(&e->waiters, memory_order_relaxed))
		ori_yield();
	pthread_mutex_lock(&e->lock);
}

static void *engine_main(void *context)
{
	struct soft_engine *e = context;
	uint64_t idle_since = 0;

	pthread_mutex_lock(&e->lock);
	while (!e->is_stopping) {
		bool is_busy = engine_turn(e);

		if (is_busy)
			idle_since = e->now;
		if (e->now - idle_since > ENGINE_SPIN_NS)
			engine_sleep(e);
		else
			engine_yield(e, is_busy);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

struct soft_engine *ori_soft_engine_make(void)
{
	struct soft_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	pthread_mutex_init(&e->lock, NULL);
	e->poll = e->event = -1;
	e->silent_looks_max = ORI_HEARING_MOST;
	for (unsigned i = 0; i < 2; i++)
		ori_net_listener_init(&e->listeners[i], NULL, 0, NULL);
	e->trace = UINT64_C(0xcbf29ce484222325);
	return e;
}

void ori_soft_engine_free(struct soft_engine *e)
{
	ori_soft_link_close_all(e);
	if (e->event >= 0)
		close(e->event);
	if (e->poll >= 0)
		close(e->poll);
	pthread_mutex_destroy(&e->lock);
	ori_secret_free(e->key, sizeof(*e->key));
	free(e);
}

static enum oriel_status engine_open_sockets(struct soft_engine *e)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &e->event};

	e->poll = epoll_create1(EPOLL_CLOEXEC);
	e->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (e->poll < 0 || e->event < 0 || epoll_ctl(e->poll, EPOLL_CTL_ADD, e->event, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch sockets");
	return ori_soft_link_listen(e);
}

static enum oriel_status engine_start(struct soft_engine *e)
{
	if (ori_thread_start(&e->thread, engine_main, e) != 0)
		return ori_fail(ORIEL_ERR_NOMEM, "cannot start the thread of the software HCA");
	return ORIEL_OK;
}

static enum oriel_status engine_open(struct soft_engine **engine)
{
	struct soft_engine *e = ori_soft_engine_make();
	enum oriel_status status;

	if (!e)
		return ori_fail_nomem(sizeof(*e), "a software HCA");
	status = ori_soft_address_describe(&e->address);
	if (status == ORIEL_OK)
		status = engine_open_sockets(e);
	if (status == ORIEL_OK) {
		e->now = ori_clock_ns();
		ori_nap_wake_by(e->event);
		status = engine_start(e);
	}
	if (status != ORIEL_OK) {
		ori_soft_engine_free(e);
		return status;
	}
	*engine = e;
	return ORIEL_OK;
}

/* The child has no engine thread: the next open() starts one. */
static void engine_fork_child(void)
{
	engine_running = NULL;
	engine_refs = 0;
	ori_nap_wake_by(-1);
}

enum oriel_status ori_soft_engine_ref(struct soft_engine **engine)
{
	static const struct ori_fork_hook hook = {.lock = &engine_lock, .child = engine_fork_child};
	enum oriel_status status = ORIEL_OK;

	ori_fork_add(ORI_FORK_SOFT, &hook);
	pthread_mutex_lock(&engine_lock);
	if (engine_refs == 0)
		status = engine_open(&engine_running);
	if (status == ORIEL_OK) {
		engine_refs++;
		*engine = engine_running;
	}
	pthread_mutex_unlock(&engine_lock);
	return status;
}

void ori_soft_engine_unref(struct soft_engine *e)
{
	if (e->is_virtual)
		return;
	pthread_mutex_lock(&engine_lock);
	if (--engine_refs == 0) {
		engine_running = NULL;
		ori_soft_engine_lock(e);
		e->is_stopping = true;
		ori_soft_engine_unlock(e);
		pthread_join(e->thread, NULL);
		ori_soft_engine_free(e);
	}
	pthread_mutex_unlock(&engine_lock);
}

/*
 * A turn of the engine takes about a microsecond, after which it yields to
 * waiters: to sleep until then and be woken takes several.
 */
void ori_soft_engine_lock(struct soft_engine *e)
{
	unsigned tries;

	atomic_fetch_add_explicit(&e->waiters, 1, memory_order_relaxed);
	for (tries = 0; pthread_mutex_trylock(&e->lock) != 0; tries++) {
		if (tries == ENGINE_TRIES) {
			pthread_mutex_lock(&e->lock);
			break;
		}
		ori_yield();
	}
	atomic_fetch_sub_explicit(&e->waiters, 1, memory_order_relaxed);
	if (!e->is_virtual)
		e->now = ori_clock_ns();
}

void ori_soft_engine_unlock(struct soft_engine *e)
{
	const uint64_t once = 1;

	if (e->is_asleep)
		(void)!write(e->event, &once, sizeof(once));
	pthread_mutex_unlock(&e->lock);
}
