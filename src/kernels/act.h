/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operation of each entry of ORI_KERNELS on the fields of its call: one text for kernels in
 * streams (stream.cu) and for threads of the host (src/window). If a counter says when the
 * caller may reuse its bytes, the function has it incremented; else they may be reused when
 * this returns.
 */
#ifndef ORI_KERNELS_ACT_H
#define ORI_KERNELS_ACT_H

#include <oriel/dev.h>

#include "kernels/kernels.h"
#include "kernels/trial.h"

/* The window and the group of an operation; @limit 0 is that of the handle. */
struct ori_act {
	const struct oriel_dev_window *w;
	struct oriel_dev_group group;
	uint32_t part; /* of c.parts, where it is split */
	uint64_t limit;
};

#define ORI_ACT(name)                                                       \
	ORIEL_DEV enum oriel_status ori_act_##name(const struct ori_act *a, \
						   const struct ori_kernel_call *c)

/* The end of an operation that has given @posted and @ticket: the caller may reuse its memory. */
ORIEL_DEV enum oriel_status ori_act_done(const struct ori_act *a, enum oriel_status posted,
					 struct oriel_dev_ticket ticket)
{
	return posted == ORIEL_OK ? oriel_dev_wait_local(a->w, a->group, ticket, 0) : posted;
}

ORI_ACT(put)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status posted =
		oriel_dev_put(a->w, a->group, c->peer, c->at, c->memory, c->length, &ticket);

	return ori_act_done(a, posted, ticket);
}

ORI_ACT(get)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status posted =
		oriel_dev_get(a->w, a->group, c->peer, c->at, c->memory, c->length, &ticket);

	return ori_act_done(a, posted, ticket);
}

ORI_ACT(put_signal)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	enum oriel_status posted = oriel_dev_put_signal(a->w, a->group, c->peer, c->at, c->memory,
							c->length, c->id, c->value, &ticket);

	return ori_act_done(a, posted, ticket);
}

ORI_ACT(put_value)
{
	return oriel_dev_put_value(a->w, c->peer, c->at, c->value, NULL);
}

ORI_ACT(atomic)
{
	struct oriel_dev_atomic atomic =
		ori_dev_atomic_of((enum oriel_dev_atomic_op)c->op, c->bytes, c->value, c->compare);
	uint64_t old = 0;
	enum oriel_status status = ori_dev_atomic(a->w, c->peer, c->at, atomic, &old, true);

	if (status != ORIEL_OK || !c->memory)
		return status;
	if (c->bytes == sizeof(uint32_t))
		*(uint32_t *)c->memory = (uint32_t)old;
	else
		*(uint64_t *)c->memory = old;
	return ORIEL_OK;
}

ORI_ACT(put_counter)
{
	return oriel_dev_put_counter(a->w, a->group, c->peer, c->at, c->memory, c->length,
				     c->counter, NULL);
}

ORI_ACT(put_signal_counter)
{
	return oriel_dev_put_signal_counter(a->w, a->group, c->peer, c->at, c->memory, c->length,
					    c->id, c->value, c->counter, NULL);
}

ORI_ACT(signal_counter)
{
	return oriel_dev_signal_counter(a->w, a->group, c->peer, c->id, c->value, c->counter, NULL);
}

ORI_ACT(signal)
{
	return oriel_dev_signal(a->w, a->group, c->peer, c->id, (enum oriel_signal_op)c->op,
				c->value, NULL);
}

ORI_ACT(signal_all)
{
	return oriel_dev_signal_all(a->w, a->group, c->id, (enum oriel_signal_op)c->op, c->value);
}

ORI_ACT(wait_signal)
{
	return oriel_dev_wait_signal(a->w, a->group, c->id, (enum oriel_compare)c->op, c->value,
				     a->limit);
}

ORI_ACT(wait_signal_from)
{
	return oriel_dev_wait_signal_from(a->w, a->group, c->peer, c->id, (enum oriel_compare)c->op,
					  c->value, a->limit);
}

ORI_ACT(wait_signal_next)
{
	return oriel_dev_wait_signal_next(a->w, a->group, c->peer, c->id, c->value, a->limit);
}

ORI_ACT(wait_counter)
{
	return oriel_dev_wait_counter(a->w, a->group, c->peer, c->counter,
				      (enum oriel_compare)c->op, c->value, a->limit);
}

ORI_ACT(read_signal)
{
	return oriel_dev_read_signal(a->w, c->id, (uint64_t *)c->memory);
}

ORI_ACT(read_signal_from)
{
	return oriel_dev_read_signal_from(a->w, c->peer, c->id, (uint64_t *)c->memory);
}

ORI_ACT(read_counter)
{
	return oriel_dev_read_counter(a->w, c->peer, c->counter, (uint64_t *)c->memory);
}

ORI_ACT(reset_counter)
{
	return oriel_dev_reset_counter(a->w, c->peer, c->counter);
}

ORI_ACT(reset_signals)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t source, id;

	(void)c;
	for (source = 0; source < a->w->ranks && status == ORIEL_OK; source++)
		for (id = a->group.rank; id < a->w->signals && status == ORIEL_OK;
		     id += a->group.size)
			status = oriel_dev_reset_signal(a->w, source, id);
	return status;
}

ORI_ACT(barrier)
{
	return oriel_dev_barrier(a->w, a->group, c->id, a->limit);
}

ORI_ACT(barrier_arrive)
{
	return oriel_dev_barrier_arrive(a->w, a->group, c->id);
}

ORI_ACT(barrier_wait)
{
	return oriel_dev_barrier_wait(a->w, a->group, c->id, a->limit);
}

ORI_ACT(barrier_peer)
{
	return oriel_dev_barrier_peer(a->w, a->group, c->peer, c->id, a->limit);
}

ORI_ACT(barrier_peer_arrive)
{
	return oriel_dev_barrier_peer_arrive(a->w, a->group, c->peer, c->id);
}

ORI_ACT(barrier_peer_wait)
{
	return oriel_dev_barrier_peer_wait(a->w, a->group, c->peer, c->id, a->limit);
}

ORI_ACT(send)
{
	return oriel_dev_send(a->w, a->group, c->peer, c->id, c->memory, c->length, a->limit);
}

ORI_ACT(recv)
{
	return oriel_dev_recv(a->w, a->group, c->peer, c->id, c->memory, c->length, a->limit);
}

ORI_ACT(drain)
{
	(void)c;
	return oriel_dev_drain(a->w, a->group, a->limit);
}

ORI_ACT(flush)
{
	(void)c;
	return oriel_dev_flush(a->w, a->group, a->limit);
}

ORI_ACT(gather_lines)
{
	return oriel_dev_gather_lines(a->w, a->group, &c->gather, a->part, c->parts, c->memory,
				      c->length, a->limit);
}

ORI_ACT(gather_puts)
{
	return oriel_dev_gather_puts(a->w, a->group, &c->gather, a->part, c->parts, c->memory,
				     c->length, a->limit);
}

ORI_ACT(broadcast)
{
	return oriel_dev_broadcast(a->w, a->group, &c->gather, a->part, c->parts, c->peer,
				   c->memory, c->length, a->limit);
}

/* Wrong lengths that are first known on a GPU break the communicator. */
ORIEL_DEV_COLD void ori_act_blame(struct oriel_dev_fault *blame,
				  const struct oriel_dev_fault *found)
{
	struct oriel_dev_fault fault = ori_dev_fault_copy(found);

	ori_dev_leave(blame, &fault);
}

ORI_ACT(exchange)
{
	enum oriel_status status = oriel_dev_exchange(a->w, a->group, &c->gather, a->part, c->parts,
						      c->memory, c->layout, a->limit);

	if ((status == ORIEL_ERR_MISMATCH || status == ORIEL_ERR_RANGE) &&
	    a->w->blame != a->w->health && oriel_dev_is_leader(a->group))
		ori_act_blame(a->w->blame, a->w->fault);
	return status;
}

ORI_ACT(reduce_lines)
{
	return oriel_dev_reduce_lines(a->w, a->group, &c->gather, &c->reduction, a->part, c->parts,
				      c->memory, c->length, a->limit);
}

ORI_ACT(reduce_staged)
{
	return ori_dev_reduce_staged(a->w, a->group, &c->gather, &c->reduction, a->part, c->parts,
				     c->memory, c->length, a->limit, c->op != 0);
}

/*
 * The elements of all ranks lie in memory of this rank; they do not where the communicator failed
 * while the stream waited for them, and a peer may write there still.
 */
ORI_ACT(reduce_rows)
{
	struct oriel_dev_rows rows = {a->w, false, 0,    (const char *)c->memory, c->gather.stride,
				      NULL, 0,     false};
	struct oriel_dev_results results = {a->w, false, 0, c->gather.result};
	struct oriel_dev_fold f;
	enum oriel_status status = ori_dev_reduce_check(a->w, &c->reduction, &f);
	uint64_t begin = 0, mine;

	if (status == ORIEL_OK)
		status = ori_dev_health(a->w);
	if (status != ORIEL_OK)
		return status;
	mine = ori_dev_gather_part(a->part, c->parts, ori_dev_reduce_bytes(&f, c->length), &begin);
	rows.base += begin;
	results.to += begin;
	ORIEL_FOLD_BY_TYPE(f, ori_dev_reduce_rows(a->group, f, &rows, &results, mine))
	return ORIEL_OK;
}

/*
 * The ranks of block @c->id, whose rows alone lie at @c->memory, to the sums at @c->gather.result.
 * As above, rows that have not arrived are not read.
 */
ORI_ACT(reduce_block)
{
	struct oriel_dev_rows rows = {a->w, false, 0,    (const char *)c->memory, c->gather.stride,
				      NULL, 0,     false};
	struct oriel_dev_fold f;
	enum oriel_status status = ori_dev_reduce_check(a->w, &c->reduction, &f);
	uint64_t begin = 0, mine, first = (uint64_t)c->id * f.block;

	if (status == ORIEL_OK)
		status = ori_dev_check_choice(a->w, ORIEL_DEV_REDUCE, c->id,
					      (f.ranks - 1) / f.block);
	if (status == ORIEL_OK)
		status = ori_dev_health(a->w);
	if (status != ORIEL_OK)
		return status;
	if (f.ranks - first < f.block)
		f.block = (uint32_t)(f.ranks - first);
	f.ranks = f.block;
	if (f.factors)
		f.factors += first;
	mine = ori_dev_gather_part(a->part, c->parts, ori_dev_reduce_bytes(&f, c->length), &begin);
	rows.base += begin;
	ORIEL_FOLD_BY_TYPE(f,
			   ori_dev_reduce_block(a->group, f, &rows,
						c->gather.result + begin * ori_dev_fold_vectors(&f),
						mine))
	return ORIEL_OK;
}

/* The sums of all blocks, which lie at @c->memory, to the end result. */
ORI_ACT(reduce_sums)
{
	struct oriel_dev_results results = {a->w, false, 0, c->gather.result};
	struct oriel_dev_fold f;
	enum oriel_status status = ori_dev_reduce_check(a->w, &c->reduction, &f);
	const char *from = (const char *)c->memory;
	uint64_t begin = 0, mine;

	if (status == ORIEL_OK)
		status = ori_dev_health(a->w);
	if (status != ORIEL_OK)
		return status;
	mine = ori_dev_gather_part(a->part, c->parts, ori_dev_reduce_bytes(&f, c->length), &begin);
	from += begin * ori_dev_fold_vectors(&f);
	results.to += begin;
	ORIEL_FOLD_BY_TYPE(f, ori_dev_reduce_sums(a->group, f, from, c->gather.stride,
						  (f.ranks - 1) / f.block + 1, &results, mine))
	return ORIEL_OK;
}

/*
 * A job of the host's thread, where streams have no operations for words: memory is the word,
 * NULL in the warm-up. The thread always ends a job that it has begun.
 */
ORI_ACT(job_begin)
{
	(void)a;
	if (c->memory)
		ori_dev_store_release32((uint32_t *)c->memory, 1);
	return ORIEL_OK;
}

ORI_ACT(job_end)
{
	uint32_t *word = (uint32_t *)c->memory;

	(void)a;
	if (!word)
		return ORIEL_OK;
	while (ori_dev_load_acquire32(word) != 1)
		oriel_dev_relax();
	ori_dev_store_release32(word, 0);
	return ORIEL_OK;
}

/* For queues that belong to no window: memory is a struct ori_trial, NULL in the warm-up. */
ORI_ACT(trial)
{
	(void)a;
	return c->memory ? ori_trial_run((struct ori_trial *)c->memory) : ORIEL_OK;
}

#endif
