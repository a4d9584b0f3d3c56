/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapped path: this rank can load and store a peer's memory, so a put is a copy and a
 * signal an atomic. It also serves the rank itself. The operations of oriel/dev.h call it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_MAPPED_H
#define ORIEL_DEV_DETAIL_MAPPED_H

#include <string.h>

#include <oriel/dev/detail/copy.h>
#include <oriel/dev/group.h>

/*
 * From some size on memcpy() of the C library bypasses the cache, which the
 * peer is about to read: oriel perf put_signal_lat, 1 MiB, glibc 2.36 on an EPYC
 * of family 26: 19.1 us at once, 16.4 us in
 * pieces; put_flush of 16 MiB: 720 and 430 us.
 */
#define ORIEL_MAPPED_PIECE 524288u
#define ORIEL_MAPPED_LONG 1048576u

/*
 * Whole group: this thread copies its part. Not synchronised at the end: the group does that
 * before any thread relies on the parts of other threads.
 */
ORIEL_DEV void ori_dev_mapped_copy(struct oriel_dev_group g, void *target, const void *source,
				   uint64_t length)
{
#ifdef __CUDA_ARCH__
	ori_dev_copy_wide(g, target, source, length);
#else
	char *to = (char *)target;
	const char *from = (const char *)source;
	uint64_t begin = 0;

	/* The source of an empty copy may be NULL. */
	if (g.kind == ORIEL_DEV_TEAM && length) {
		length = oriel_dev_part(g, length, &begin);
		to += begin;
		from += begin;
	}
	if (length == 8) {
		memcpy(to, from, 8);
		return;
	}
	/* Long copies go in pieces that memcpy() still takes for short. */
	for (; length >= ORIEL_MAPPED_LONG; length -= ORIEL_MAPPED_PIECE) {
		memcpy(to, from, ORIEL_MAPPED_PIECE);
		to += ORIEL_MAPPED_PIECE;
		from += ORIEL_MAPPED_PIECE;
	}
	if (length)
		memcpy(to, from, length);
#endif
}

/*
 * One thread of a CPU has read @length bytes at @from, which no other thread reads or writes before
 * it gives them back: it also becomes the owner of their cache lines. A writer gets lines that it
 * shares with a reader back one by one, and those that the reader has written several at a time:
 * 64 KiB of a ring, written by one core and read by the other of an EPYC of family 26, take 9.5 us
 * to write and 1.7 us to read without the stores, and 1.7 and 2.3 us with them.
 */
#define ORIEL_MAPPED_OWN_MIN 1024u
#define ORIEL_MAPPED_CACHE_LINE 64u

ORIEL_DEV void ori_dev_mapped_own(const void *from, uint64_t length)
{
#ifndef __CUDA_ARCH__
	const uint64_t line = ORIEL_MAPPED_CACHE_LINE;
	char *at = (char *)(((uintptr_t)from + line - 1) & ~(uintptr_t)(line - 1));
	const char *end = (const char *)from + length;

	if (length < ORIEL_MAPPED_OWN_MIN)
		return;
	/* One byte of each, and none of a neighbour's in the first line. */
	for (; at < end; at += line)
		__atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
#else
	(void)from;
	(void)length;
#endif
}

/* This rank's word for signal @id in the signals that begin at @control. */
ORIEL_DEV uint64_t *ori_dev_mapped_signal(const struct oriel_dev_window *w, char *control,
					  uint32_t id)
{
	return (uint64_t *)(void *)(control + (size_t)w->rank * w->signal_stride) + id;
}

/* The word of this rank that @source signals. */
ORIEL_DEV uint64_t *ori_dev_mapped_inbox(const struct oriel_dev_window *w, uint32_t source,
					 uint32_t id)
{
	return (uint64_t *)(void *)(w->control + (size_t)source * w->signal_stride) + id;
}

/* The barrier word @slot of row @source, which lies at byte @at of a control segment. */
ORIEL_DEV uint64_t *ori_dev_mapped_arrival(const struct oriel_dev_window *w, char *control,
					   uint64_t at, uint32_t source, uint32_t slot)
{
	return (uint64_t *)(void *)(control + at + (size_t)source * w->barrier_stride) + slot;
}

/*
 * Distance, in u64, from the word that mapped peers add to: the word for NICs of rail 0, the
 * next for those of rail 1, and so on. The atomics of a NIC are atomic neither with those of
 * CPUs and GPUs nor with another NIC's.
 */
#define ORIEL_MAPPED_FLAT_NIC 8u

ORIEL_DEV uint64_t *ori_dev_mapped_flat(const struct oriel_dev_window *w, char *control,
					uint32_t slot)
{
	return (uint64_t *)(void *)(control + w->flat_at + (size_t)slot * ORIEL_DEV_LINE);
}

/*
 * The word of a flat barrier that one serial peer changes; @index counts the peers of that kind:
 * the words between those of mapped peers and of NICs, and behind them.
 */
ORIEL_DEV uint64_t *ori_dev_mapped_serial_flat(uint64_t *flat, uint32_t index)
{
	return flat + 1 + index + (index < ORIEL_MAPPED_FLAT_NIC - 1 ? 0 : ORIEL_DEV_RAILS);
}

/* The words of @channel that rank @row writes, in a control segment. */
ORIEL_DEV struct oriel_dev_channel *ori_dev_mapped_channel(const struct oriel_dev_window *w,
							   char *control, uint32_t row,
							   uint32_t channel)
{
	return (struct oriel_dev_channel *)(void *)(control + w->channels_at) +
	       (size_t)row * w->channels + channel;
}

ORIEL_DEV char *ori_dev_mapped_staging(const struct oriel_dev_window *w, char *control,
				       uint32_t row, uint32_t channel)
{
	return control + w->staging_at + ((size_t)row * w->channels + channel) * w->channel_bytes;
}

/*
 * One thread. @is_ordered: a whole release; else its first half, the fence of a GPU, is left
 * out. ADD is atomic among the threads of this rank; no other rank writes here.
 */
ORIEL_DEV void ori_dev_mapped_apply_signal(uint64_t *word, enum oriel_signal_op op, uint64_t value,
					   bool is_ordered)
{
	if (is_ordered)
		ori_dev_release_begin_at(word);
	/* Acquired by the waiter in ori_dev_wait_value(). */
	if (op == ORIEL_SIGNAL_SET)
		ori_dev_release_store(word, value);
	else
		ori_dev_release_add(word, value);
}

/* [2][ranks]: see @receivers of struct oriel_dev_window. */
ORIEL_DEV uint64_t *ori_dev_mapped_turns(const struct oriel_dev_window *w)
{
	return (uint64_t *)(void *)(w->receivers + (size_t)w->ranks * w->channels);
}

/* The tickets of all ranks in a control segment. */
ORIEL_DEV uint64_t *ori_dev_mapped_tickets(const struct oriel_dev_window *w, char *control)
{
	return ori_dev_mapped_flat(w, control, w->barriers);
}

/*
 * Threads of a group, of which one is not @is_done: add @value to *@word of a peer, or to 0 if @op
 * is SET, without an atomic. No other rank writes there, and the threads of this rank take turns
 * by *@turn, a word of their own memory; a turn is one load and one store. The owner may have reset
 * the word, so it is read, over the bus. Always ordered. Not inline: a put_signal to any other peer
 * takes up to 35 ns less without this loop beside it (oriel_rows, a block).
 */
ORIEL_DEV_COLD void ori_dev_add_in_turn(uint64_t *turn, uint64_t *word, enum oriel_signal_op op,
					uint64_t value, bool is_done)
{
	uint64_t sum = value;

	do {
		/* Acquires what the thread before wrote to the word, by its release of the turn. */
		if (!is_done && ori_dev_swap_acq_rel(turn, 0, 1)) {
			if (op == ORIEL_SIGNAL_ADD)
				sum += oriel_dev_load_relaxed(word);
			ori_dev_release_begin_at(word);
			/* Acquired by the waiter in ori_dev_wait_value(). */
			ori_dev_release_store(word, sum);
			oriel_dev_store_release(turn, 0);
			is_done = true;
		} else if (!is_done) {
			ori_dev_back_off(0);
		}
	} while (!ori_dev_all_done(is_done));
}

/* The same for @peer, which is serial to this rank. */
ORIEL_DEV void ori_dev_mapped_serial_add(const struct oriel_dev_window *w, uint32_t peer,
					 uint64_t *word, enum oriel_signal_op op, uint64_t value,
					 bool is_done)
{
	ori_dev_add_in_turn(ori_dev_mapped_turns(w) + peer, word, op, value, is_done);
}

#endif
