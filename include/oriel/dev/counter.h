/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: this rank's own words, incremented when its put is done locally. Kernels and
 * threads of the CPU call them. See oriel/dev.h for what holds for all device functions.
 *
 * A counter is incremented some time after the call that names it: wait_counter() waits for
 * that. oriel_dev_drain() and oriel_dev_flush() wait until all counters of the group's earlier
 * calls have been incremented, and oriel_window_destroy() for those of all groups.
 * oriel_dev_wait_local() for the ticket of the call does not: the source may be reused before
 * the counter says so.
 */
#ifndef ORIEL_DEV_COUNTER_H
#define ORIEL_DEV_COUNTER_H

#include <oriel/dev/data.h>
#include <oriel/dev/detail/counter.h>
#include <oriel/dev/signal.h>

/*
 * Whole group: put, then increment this rank's own @counter for @peer by one once @from may be
 * reused.
 */
ORIEL_DEV enum oriel_status oriel_dev_put_counter(const struct oriel_dev_window *w,
						  struct oriel_dev_group g, uint32_t peer,
						  uint64_t to, const void *from, uint64_t length,
						  uint32_t counter, struct oriel_dev_ticket *ticket)
{
	enum oriel_status status;
	struct oriel_dev_target remote;

	ori_dev_ticket_clear(ticket);
	status = ori_dev_check_id(w, ORIEL_DEV_COUNTER, peer, counter, w->counters);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_is_rdma(w, peer)) {
		status = ori_dev_check_range(w, ORIEL_DEV_PUT, peer, to, length, &remote);
		if (status != ORIEL_OK)
			return status;
		return ori_dev_rdma_put_counter(w, g, peer, to, from, length, counter, ticket);
	}
	status = oriel_dev_put(w, g, peer, to, from, length, ticket);
	if (status != ORIEL_OK)
		return status;
	oriel_dev_sync(g);
	/* Acquired in oriel_dev_wait_counter(). */
	if (oriel_dev_is_leader(g))
		oriel_dev_add_release(ori_dev_counter(w, peer, counter), 1);
	return ORIEL_OK;
}

/* Whole group: put_signal, then increment @counter once @from may be reused. */
ORIEL_DEV enum oriel_status oriel_dev_put_signal_counter(const struct oriel_dev_window *w,
							 struct oriel_dev_group g, uint32_t peer,
							 uint64_t to, const void *from,
							 uint64_t length, uint32_t id,
							 uint64_t value, uint32_t counter,
							 struct oriel_dev_ticket *ticket)
{
	enum oriel_status status;
	struct oriel_dev_target remote;

	ori_dev_ticket_clear(ticket);
	status = ori_dev_check_id(w, ORIEL_DEV_COUNTER, peer, counter, w->counters);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_is_rdma(w, peer)) {
		status = ori_dev_check_id(w, ORIEL_DEV_SIGNAL, peer, id, w->signals);
		if (status == ORIEL_OK)
			status = ori_dev_check_range(w, ORIEL_DEV_PUT, peer, to, length, &remote);
		if (status != ORIEL_OK)
			return status;
		return ori_dev_rdma_put_signal_counter(w, g, peer, to, from, length, id, value,
						       counter, ticket);
	}
	status = oriel_dev_put_signal(w, g, peer, to, from, length, id, value, ticket);
	if (status != ORIEL_OK)
		return status;
	if (oriel_dev_is_leader(g))
		oriel_dev_add_release(ori_dev_counter(w, peer, counter), 1);
	return ORIEL_OK;
}

/* Whole group: signal (ADD), then increment @counter once it has been delivered. */
ORIEL_DEV enum oriel_status oriel_dev_signal_counter(const struct oriel_dev_window *w,
						     struct oriel_dev_group g, uint32_t peer,
						     uint32_t id, uint64_t value, uint32_t counter,
						     struct oriel_dev_ticket *ticket)
{
	enum oriel_status status;

	ori_dev_ticket_clear(ticket);
	status = ori_dev_check_id(w, ORIEL_DEV_COUNTER, peer, counter, w->counters);
	if (status != ORIEL_OK)
		return status;
	if (ori_dev_is_rdma(w, peer)) {
		status = ori_dev_check_id(w, ORIEL_DEV_SIGNAL, peer, id, w->signals);
		if (status != ORIEL_OK)
			return status;
		return ori_dev_rdma_signal_counter(w, g, peer, id, value, counter, ticket);
	}
	status = oriel_dev_signal(w, g, peer, id, ORIEL_SIGNAL_ADD, value, ticket);
	if (status != ORIEL_OK)
		return status;
	if (oriel_dev_is_leader(g))
		oriel_dev_add_release(ori_dev_counter(w, peer, counter), 1);
	return ORIEL_OK;
}

/* Whole group: wait until this rank's @counter for @peer compares. */
ORIEL_DEV enum oriel_status oriel_dev_wait_counter(const struct oriel_dev_window *w,
						   struct oriel_dev_group g, uint32_t peer,
						   uint32_t counter, enum oriel_compare compare,
						   uint64_t operand, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, operand, (uint32_t)compare, ORIEL_DEV_WAIT_COUNTER,
				    peer, counter};
	enum oriel_status status;

	status = ori_dev_check_id(w, ORIEL_DEV_WAIT_COUNTER, peer, counter, w->counters);
	if (status == ORIEL_OK)
		status = ori_dev_check_choice(w, ORIEL_DEV_WAIT_COUNTER, (uint32_t)compare,
					      ORIEL_LE);
	if (status != ORIEL_OK)
		return status;
	aim.word = ori_dev_counter(w, peer, counter);
	return ori_dev_wait_led(w, g, &aim, timeout_ns);
}

/* One thread. */
ORIEL_DEV enum oriel_status oriel_dev_read_counter(const struct oriel_dev_window *w, uint32_t peer,
						   uint32_t counter, uint64_t *value)
{
	enum oriel_status status;

	status = ori_dev_check_id(w, ORIEL_DEV_COUNTER, peer, counter, w->counters);
	if (status == ORIEL_OK)
		*value = oriel_dev_load_acquire(ori_dev_counter(w, peer, counter));
	return status;
}

/*
 * One thread, while no operation that increments the counter is under way: after a drain or
 * flush by each group that has posted one, or after a wait_counter() that has seen all of them.
 * An operation that is still in flight increments it from 0, or is lost.
 */
ORIEL_DEV enum oriel_status oriel_dev_reset_counter(const struct oriel_dev_window *w, uint32_t peer,
						    uint32_t counter)
{
	enum oriel_status status;

	status = ori_dev_check_id(w, ORIEL_DEV_COUNTER, peer, counter, w->counters);
	if (status == ORIEL_OK)
		oriel_dev_store_release(ori_dev_counter(w, peer, counter), 0);
	return status;
}

#endif
