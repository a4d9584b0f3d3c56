/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waits of kernels at the barriers of a window in GPU memory. A kernel that arrives counts that
 * in the state of the window before it waits, so that this rank waits for each peer that has
 * arrived less often. The words of signals and channels do not show what is waited for.
 * comm/kernel_waits.c calls it, in a thread of its own, while kernels run.
 */
#include <stdlib.h>

#include <oriel/dev/detail/barrier.h>

#include "base/clock.h"
#include "base/wait_page.h"
#include "window/window.h"

/* Copies of the words, in the order of the originals. */
struct waits_words {
	const struct oriel_window *window;
	char *control; /* from the arrivals to the channels */
	char *state;   /* from the pair epochs to the senders */
};

static uint64_t waits_count(uint64_t epoch)
{
	return epoch & ~ORIEL_DEV_PENDING;
}

static void waits_add(const struct waits_words *words, uint32_t what, uint32_t peer, uint32_t slot,
		      uint64_t expected, uint64_t seen)
{
	const struct oriel_window *w = words->window;
	const struct ori_wait_note note = {
		.comm = ori_comm_wait_key(w->comm),
		.rank = w->comm->rank,
		.what = what,
		.peer = peer,
		.window = w->device.number,
		.id = slot,
		.compare = ORIEL_DEV_PASSED,
		.expected = expected,
		.seen = seen,
		.begun = ori_clock_ns(),
	};

	if (!ori_dev_compare(seen, ORIEL_DEV_PASSED, expected))
		ori_wait_add_kernel(&note);
}

/* @at: ori_dev_mapped_arrival() of the copy. */
static uint64_t waits_arrival(const struct waits_words *words, uint64_t at, uint32_t peer,
			      uint32_t slot)
{
	const struct oriel_dev_window *d = &words->window->device;
	const char *row = words->control + (at - d->arrivals_at) + (size_t)peer * d->barrier_stride;

	return ((const uint64_t *)(const void *)row)[slot];
}

static void waits_add_slot(const struct waits_words *words, uint32_t slot)
{
	const struct oriel_dev_window *d = &words->window->device;
	const uint64_t *pairs = (const void *)words->state;
	const struct oriel_dev_slot *own =
		(const void *)(words->state +
			       ((const char *)d->slots - (const char *)d->pair_epochs));
	uint64_t *flat = (void *)(words->control + (d->flat_at - d->arrivals_at) +
				  (size_t)slot * ORIEL_DEV_LINE);
	uint32_t peer;

	for (peer = 0; peer < d->ranks; peer++) {
		if (peer == d->rank)
			continue;
		waits_add(words, ORIEL_DEV_BARRIER, peer, slot, waits_count(own[slot].epoch),
			  waits_arrival(words, d->arrivals_at, peer, slot));
		waits_add(words, ORIEL_DEV_BARRIER_PEER, peer, slot,
			  waits_count(pairs[(size_t)peer * d->barriers + slot]),
			  waits_arrival(words, d->pairs_at, peer, slot));
	}
	waits_add(words, ORIEL_DEV_BARRIER_FLAT, ORIEL_DEV_NO_RANK, slot,
		  waits_count(own[slot].flat) * (d->ranks - 1), ori_dev_sum_flat(d, flat));
}

void ori_window_write_waits(const struct ori_kernel_waits *waits)
{
	const struct oriel_window *w =
		(const void *)((const char *)waits - offsetof(struct oriel_window, waits));
	const struct oriel_dev_window *d = &w->device;
	size_t control = d->channels_at - d->arrivals_at;
	size_t state = (size_t)((char *)d->senders - (char *)d->pair_epochs);
	struct waits_words words = {.window = w,
				    .control = malloc(control),
				    .state = malloc(state)};
	uint32_t slot;

	/*
	 * The state comes first: an arrival that a peer makes meanwhile ends a wait, and one that
	 * this rank makes meanwhile is not counted.
	 */
	if (words.control && words.state && control && state &&
	    w->gpu->ops->copy(w->gpu, words.state, d->pair_epochs, state) == ORIEL_OK &&
	    w->gpu->ops->copy(w->gpu, words.control, d->control + d->arrivals_at, control) ==
		    ORIEL_OK)
		for (slot = 0; slot < d->barriers; slot++)
			waits_add_slot(&words, slot);
	free(words.control);
	free(words.state);
}
