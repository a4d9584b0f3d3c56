/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a word, with a deadline and a check of the health of the communicator; and
 * leaving a record for the host when that fails. All waits of oriel/dev.h call it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_WAIT_H
#define ORIEL_DEV_DETAIL_WAIT_H

#include <oriel/dev/detail/answer.h>
#include <oriel/dev/detail/order_gpu.h>
#include <oriel/dev/group.h>

struct oriel_dev_waiter {
	const struct oriel_dev_window *window;
	uint64_t timeout_ns; /* as the caller gave it: 0 = the window's */
	uint64_t start;
	uint32_t polls;
	uint32_t spin; /* polls before the core is yielded */
	uint64_t late; /* on a CPU: the age at which oriel_cpu_late() is called */
};

ORIEL_DEV bool ori_dev_compare(uint64_t seen, uint32_t compare, uint64_t operand)
{
	switch (compare) {
	case ORIEL_EQ:
		return seen == operand;
	case ORIEL_NE:
		return seen != operand;
	case ORIEL_GT:
		return seen > operand;
	case ORIEL_GE:
		return seen >= operand;
	case ORIEL_LT:
		return seen < operand;
	case ORIEL_LE:
		return seen <= operand;
	case ORIEL_DEV_PASSED:
		return (int64_t)(seen - operand) >= 0;
	}
	return false;
}

/* The caller has set @fault to WRITING and writes it alone. */
ORIEL_DEV void ori_dev_fault_write(struct oriel_dev_fault *fault,
				   const struct oriel_dev_fault *record)
{
	fault->status = record->status;
	fault->what = record->what;
	fault->peer = record->peer;
	fault->window = record->window;
	fault->id = record->id;
	fault->expected = record->expected;
	fault->seen = record->seen;
	fault->age_ns = record->age_ns;
	fault->finder = record->finder;
	/* Acquired by any thread that finds the fault FULL. */
	ori_dev_store_release32(&fault->state, ORIEL_DEV_FAULT_FULL);
}

/*
 * Leave @record in @fault unless one has been left before: the first cause is the one worth
 * reading. Any thread.
 */
ORIEL_DEV_COLD void ori_dev_leave(struct oriel_dev_fault *fault,
				  const struct oriel_dev_fault *record)
{
	if (ori_dev_swap_acq_rel32_gpu(&fault->state, ORIEL_DEV_FAULT_EMPTY,
				       ORIEL_DEV_FAULT_WRITING))
		ori_dev_fault_write(fault, record);
}

ORIEL_DEV struct oriel_dev_fault ori_dev_fault_make(uint32_t window, enum oriel_status status,
						    const struct oriel_dev_aim *aim, uint64_t seen,
						    uint64_t age_ns)
{
	struct oriel_dev_fault record = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

	record.status = status;
	record.what = aim->what;
	record.peer = aim->peer;
	record.window = window;
	record.id = aim->id;
	record.expected = aim->operand;
	record.seen = seen;
	record.age_ns = age_ns;
	return record;
}

/*
 * Leave in @fault that @aim was not met. Everything by value, so that a kernel that never calls
 * this keeps all of it in registers.
 */
ORIEL_DEV_COLD void ori_dev_report(struct oriel_dev_fault *fault, uint32_t window,
				   enum oriel_status status, struct oriel_dev_aim aim,
				   uint64_t seen, uint64_t age_ns)
{
	struct oriel_dev_fault record = ori_dev_fault_make(window, status, &aim, seen, age_ns);

	ori_dev_leave(fault, &record);
}

/* The record in a FULL @fault, whose state other threads may still read. */
ORIEL_DEV struct oriel_dev_fault ori_dev_fault_copy(const struct oriel_dev_fault *fault)
{
	struct oriel_dev_fault copy = {ORIEL_DEV_FAULT_FULL,
				       fault->status,
				       fault->what,
				       fault->peer,
				       fault->window,
				       fault->id,
				       fault->expected,
				       fault->seen,
				       fault->age_ns,
				       fault->finder,
				       0,
				       0};

	return copy;
}

/* ORIEL_OK while nothing has broken the communicator. */
ORIEL_DEV enum oriel_status ori_dev_health(const struct oriel_dev_window *w)
{
	if (ori_dev_load_acquire32(&w->health->state) != ORIEL_DEV_FAULT_FULL)
		return ORIEL_OK;
	return (enum oriel_status)w->health->status;
}

/*
 * A leader that spins may occupy the core that a thread of its own team needs: so a team has a
 * limit of its own for its spins.
 */
ORIEL_DEV struct oriel_dev_waiter ori_dev_wait_begin(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = {w, timeout_ns, 0, 0, w->spin, 0};

	if (g.team && g.team->spin < waiter.spin)
		waiter.spin = g.team->spin;
	return waiter;
}

/*
 * On a GPU: polls between two reads of the clock, and of the health, which is in host memory: a
 * read of it takes 2 us, about as long as a few polls.
 */
#define ORIEL_DEV_POLLS_PER_CLOCK 64u
#define ORIEL_DEV_POLLS_PER_HEALTH 1024u

/* On a CPU: polls between two parts of the library's work; a turn of a proxy takes as long. */
#define ORIEL_DEV_POLLS_PER_HELP 16u

/*
 * The slow half of a poll: the word did not compare, and it is time to read the clock and the
 * health. ORIEL_AGAIN to go on.
 */
ORIEL_DEV_RARE enum oriel_status ori_dev_wait_slowly(struct oriel_dev_waiter *waiter,
						     const struct oriel_dev_aim *aim, uint64_t seen)
{
	const struct oriel_dev_window *w = waiter->window;
	uint64_t limit = waiter->timeout_ns ? waiter->timeout_ns : w->timeout_ns;
	uint64_t now = oriel_dev_clock_ns();
	enum oriel_status status;
	bool is_over;
#ifdef __CUDA_ARCH__
	uint32_t asked;
#else
	struct oriel_dev_fault record;
#endif

	if (!waiter->start)
		waiter->start = now;
	is_over = limit != ORIEL_TIMEOUT_INFINITE && now - waiter->start >= limit;
#ifdef __CUDA_ARCH__
	if (!is_over && waiter->polls % ORIEL_DEV_POLLS_PER_HEALTH)
		return ORIEL_AGAIN;
	/* Ahead of the health, whose load waits for no other one: both are under way at once. */
	asked = ori_dev_load_relaxed32(&w->health->asked);
#endif
	status = ori_dev_health(w);
	if (status != ORIEL_OK)
		return status;
	if (is_over) {
		/*
		 * A caller that sets its own limit expects that it may pass; if the default
		 * passes, the job is stuck.
		 */
		if (!waiter->timeout_ns)
			ori_dev_report(w->blame, w->number, ORIEL_ERR_TIMEOUT, *aim, seen,
				       now - waiter->start);
#ifndef __CUDA_ARCH__
		record = ori_dev_fault_make(w->number, ORIEL_ERR_TIMEOUT, aim, seen,
					    now - waiter->start);
		oriel_cpu_expire(&record, aim->compare, waiter->timeout_ns != 0);
#endif
		return ORIEL_ERR_TIMEOUT;
	}
#ifdef __CUDA_ARCH__
	ori_dev_answer(w->health, asked, w->number, aim, seen, now - waiter->start);
#else
	if (!ORIEL_DEV_OFTEN(now - waiter->start < waiter->late)) {
		record = ori_dev_fault_make(w->number, ORIEL_ERR_TIMEOUT, aim, seen,
					    now - waiter->start);
		record.finder = w->rank + 1;
		record.comm = (uintptr_t)w->health;
		waiter->late = oriel_cpu_late(&record, aim->compare, limit);
	}
#endif
	ori_dev_back_off(now - waiter->start);
	return ORIEL_AGAIN;
}

/* One poll did not compare. ORIEL_AGAIN: poll again. */
ORIEL_DEV enum oriel_status ori_dev_wait_step(struct oriel_dev_waiter *waiter,
					      const struct oriel_dev_aim *aim, uint64_t seen)
{
	waiter->polls++;
#ifdef __CUDA_ARCH__
	if (ORIEL_DEV_OFTEN(waiter->polls % ORIEL_DEV_POLLS_PER_CLOCK))
		return ORIEL_AGAIN;
#else
	if (waiter->polls < waiter->spin) {
		if (!ORIEL_DEV_OFTEN(waiter->polls % ORIEL_DEV_POLLS_PER_HELP))
			oriel_cpu_help();
		oriel_dev_relax();
		return ORIEL_AGAIN;
	}
#endif
	return ori_dev_wait_slowly(waiter, aim, seen);
}

/*
 * Polls in a row between which a GPU does nothing else: anything else it did there would delay
 * the detection of the word, by half of the time that it takes.
 */
#ifdef __CUDA_ARCH__
#define ORIEL_DEV_POLLS_PER_TURN ORIEL_DEV_POLLS_PER_CLOCK
#else
#define ORIEL_DEV_POLLS_PER_TURN 1u
#endif

/* ORIEL_DEV_POLLS_PER_TURN polls did not compare. ORIEL_AGAIN: poll again, as often. */
ORIEL_DEV enum oriel_status ori_dev_wait_turn(struct oriel_dev_waiter *waiter,
					      const struct oriel_dev_aim *aim, uint64_t seen)
{
	/* Up to the next read of the clock, whatever steps there were. */
	waiter->polls |= ORIEL_DEV_POLLS_PER_TURN - 1;
	return ori_dev_wait_step(waiter, aim, seen);
}

/*
 * One thread of @g. Poll until *aim->word compares, at most @timeout_ns (0 = the window's).
 * *@seen is its value then. Nothing is acquired.
 */
ORIEL_DEV enum oriel_status ori_dev_poll_word(const struct oriel_dev_window *w,
					      struct oriel_dev_group g,
					      const struct oriel_dev_aim *aim, uint64_t timeout_ns,
					      uint64_t *seen)
{
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, g, timeout_ns);
	enum oriel_status status;
	uint32_t i;

	for (;;) {
		ORIEL_DEV_UNROLL_FEW
		for (i = 0; i < ORIEL_DEV_POLLS_PER_TURN; i++) {
			*seen = oriel_dev_load_relaxed(aim->word);
			if (ORIEL_DEV_OFTEN(ori_dev_compare(*seen, aim->compare, aim->operand)))
				return ORIEL_OK;
		}
		status = ori_dev_wait_turn(&waiter, aim, *seen);
		if (status != ORIEL_AGAIN)
			return status;
	}
}

/* The same; this thread then sees everything written before the word was released. */
ORIEL_DEV enum oriel_status ori_dev_wait_value(const struct oriel_dev_window *w,
					       struct oriel_dev_group g,
					       const struct oriel_dev_aim *aim, uint64_t timeout_ns,
					       uint64_t *seen)
{
	enum oriel_status status = ori_dev_poll_word(w, g, aim, timeout_ns, seen);

	if (status == ORIEL_OK)
		*seen = ori_dev_acquire(aim->word, *seen);
	return status;
}

/*
 * Is this thread one of those that wait for the group? The leader; on a GPU all of its warp,
 * whose polls are one instruction, so that it does not diverge.
 */
ORIEL_DEV bool ori_dev_is_poller(struct oriel_dev_group g)
{
#ifdef __CUDA_ARCH__
	return g.rank < 32;
#else
	return g.rank == 0;
#endif
}

/* Whole group: the threads that poll for it wait, and all get the status. */
ORIEL_DEV enum oriel_status ori_dev_wait_led(const struct oriel_dev_window *w,
					     struct oriel_dev_group g,
					     const struct oriel_dev_aim *aim, uint64_t timeout_ns)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t seen;

	if (ori_dev_is_poller(g))
		status = ori_dev_wait_value(w, g, aim, timeout_ns, &seen);
	return oriel_dev_vote(g, status);
}

/*
 * Whole group; syncs. The leader's result: it returns the leader's @status to all, and *@value
 * becomes the leader's for all.
 */
ORIEL_DEV enum oriel_status ori_dev_share_result(struct oriel_dev_group g, enum oriel_status status,
						 uint64_t *value)
{
#ifdef __CUDA_ARCH__
	if (g.kind == ORIEL_DEV_BLOCK) {
		__shared__ uint64_t word;

		status = oriel_dev_vote(g, g.rank == 0 ? status : ORIEL_OK);
		if (g.rank == 0)
			word = *value;
		__syncthreads();
		*value = word;
		return status;
	}
#else
	if (g.kind == ORIEL_DEV_TEAM) {
		uint64_t turn = oriel_dev_load_relaxed(&g.team->generation) & 1;

		if (g.rank == 0) {
			oriel_dev_store_relaxed(&g.team->share[turn], *value);
			oriel_dev_store_relaxed(&g.team->vote[turn], (uint64_t)(int64_t)status);
		}
		ori_dev_team_sync(g.team);
		*value = oriel_dev_load_relaxed(&g.team->share[turn]);
		return (enum oriel_status)(int64_t)oriel_dev_load_relaxed(&g.team->vote[turn]);
	}
#endif
	*value = oriel_dev_share(g, *value);
	return (enum oriel_status)(int64_t)oriel_dev_share(g, (uint64_t)(int64_t)status);
}

#endif
