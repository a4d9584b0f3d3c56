/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flat handle: the layout of segments and state, and the texts of the records that the host
 * reads back from it. window.c calls it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/dev/detail/rdma.h>
#include <oriel/dev/detail/wait.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/wait_text.h"
#include "window/window.h"

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/*
 * All ranks compute the layout from equal counts, so an offset in this rank's control segment
 * is valid in that of every peer, and none travels with the records.
 */
uint64_t ori_window_layout(struct oriel_dev_window *d)
{
	uint64_t ranks = d->ranks;
	uint64_t at;

	d->signal_stride = (uint32_t)round_up(d->signals * 8ull, ORIEL_DEV_LINE);
	d->barrier_stride = (uint32_t)round_up(d->barriers * 8ull, ORIEL_DEV_LINE);
	at = ranks * d->signal_stride;
	d->arrivals_at = at;
	at += ranks * d->barrier_stride;
	d->pairs_at = at;
	at += ranks * d->barrier_stride;
	d->flat_at = at;
	at += (uint64_t)d->barriers * ORIEL_DEV_LINE;
	/* The tickets. */
	at += round_up(ranks * 8, ORIEL_DEV_LINE);
	d->channels_at = at;
	at += ranks * d->channels * sizeof(struct oriel_dev_channel);
	/* A page at least: a segment always exists, and a buffer behind it is aligned. */
	at = at ? round_up(at, 4096) : 4096;
	d->staging_at = at;
	return at + ranks * d->channels * d->channel_bytes;
}

/* @count words of 8 bytes, in lines of their own. */
static size_t state_words(size_t count)
{
	return round_up(count * 8, ORIEL_DEV_LINE);
}

/* The parts that ori_window_place_state() lays out. Only this rank, and its NICs, write them. */
size_t ori_window_state_length(const struct oriel_dev_window *d)
{
	size_t ranks = d->ranks;

	return state_words(ranks * d->counters) + state_words(ranks * d->signals) +
	       state_words(ranks * d->barriers) + d->barriers * sizeof(*d->slots) +
	       ranks * d->channels * (sizeof(*d->senders) + sizeof(*d->receivers)) +
	       state_words(2 * ranks);
}

void ori_window_place_state(struct oriel_dev_window *d, char *at)
{
	size_t ranks = d->ranks;

	/* Counters come first: they alone are registered, from the beginning of a page on. */
	d->counter_words = (void *)at;
	at += state_words(ranks * d->counters);
	d->signal_bases = (void *)at;
	at += state_words(ranks * d->signals);
	d->pair_epochs = (void *)at;
	at += state_words(ranks * d->barriers);
	d->slots = (void *)at;
	at += d->barriers * sizeof(*d->slots);
	d->senders = (void *)at;
	at += ranks * d->channels * sizeof(*d->senders);
	d->receivers = (void *)at;
}

void ori_window_fill_inline(struct oriel_dev_window *device, uint32_t first,
			    const struct oriel_dev_peer *peers,
			    const struct oriel_dev_buffer *table)
{
	uint32_t rank;

	for (rank = first; rank < device->ranks && rank - first < ORIEL_DEV_INLINE_PEERS; rank++)
		/* The remainder is the place, so that device code finds a rank without a search. */
		device->inline_peers[rank % ORIEL_DEV_INLINE_PEERS] =
			(struct oriel_dev_inline_peer){
				.control = peers[rank].control,
				.signals = peers[rank].control
						   ? ori_dev_mapped_signal(device,
									   peers[rank].control, 0)
						   : NULL,
				.base = table[rank].base,
				.length = table[rank].length,
				/* The fast path has atomics. */
				.mark = peers[rank].flags & ORIEL_DEV_PEER_SERIAL
						? 0
						: ORIEL_DEV_MARK + peers[rank].path,
				.rank = rank,
			};
}

enum oriel_status ori_window_open_state(struct oriel_window *window)
{
	/* Whole pages: NICs know the words at the beginning from address 0 on. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t length = ori_window_state_length(&window->device) + page;

	/* Fresh pages are zero and cost nothing until they are used. */
	window->state = calloc(1, length);
	if (!window->state)
		return ori_fail_nomem(length, "window state");
	ori_window_place_state(&window->device, (char *)round_up((uintptr_t)window->state, page));
	return ORIEL_OK;
}

enum oriel_status ori_window_copy_device(const struct oriel_window *window, uint32_t version,
					 size_t size, struct oriel_dev_window *device,
					 const char *call)
{
	enum oriel_status status = ori_device_check(call, device, version, size, sizeof(*device));

	/* Its users load and store without a question. */
	if (status == ORIEL_OK)
		status = ori_window_touch_all(window);
	if (status == ORIEL_OK)
		*device = window->device;
	return status;
}

enum oriel_status oriel_window_device_as(const struct oriel_window *window, uint32_t version,
					 size_t size, struct oriel_dev_window *device)
{
	enum oriel_status status = ori_handle_check(window, ORI_HANDLE_WINDOW, __func__);

	if (status != ORIEL_OK)
		return status;
	return ori_window_copy_device(window, version, size, device, __func__);
}

static bool fault_is_about_bytes(const struct oriel_dev_fault *fault)
{
	return fault->what == ORIEL_DEV_PUT || fault->what == ORIEL_DEV_PUT_VALUE ||
	       fault->what == ORIEL_DEV_GET || fault->what == ORIEL_DEV_FETCH_ADD ||
	       (fault->what >= ORIEL_DEV_FETCH_AND && fault->what <= ORIEL_DEV_SET) ||
	       fault->what == ORIEL_DEV_PUT_LL || fault->what == ORIEL_DEV_WAIT_LL ||
	       fault->what == ORIEL_DEV_ALLTOALLV || fault->what == ORIEL_DEV_REDUCE;
}

static bool fault_is_about_channel(const struct oriel_dev_fault *fault)
{
	return fault->what == ORIEL_DEV_SEND || fault->what == ORIEL_DEV_RECV;
}

static bool fault_is_about_barrier(const struct oriel_dev_fault *fault)
{
	return fault->what == ORIEL_DEV_BARRIER || fault->what == ORIEL_DEV_BARRIER_FLAT ||
	       fault->what == ORIEL_DEV_BARRIER_PEER;
}

static const char *fault_form(uint64_t form)
{
	switch (form) {
	case ORIEL_DEV_FORM_STREAM:
		return "a stream";
	case ORIEL_DEV_FORM_LL:
		return "messages of LL";
	case ORIEL_DEV_FORM_LL128:
		return "messages of LL128";
	}
	return "an unknown form";
}

static void fault_range_text(const struct oriel_dev_window *d, const struct oriel_dev_fault *fault,
			     char *text, size_t length)
{
	const char *what = ori_what_name(fault->what);

	/*
	 * A rejected id may come with a rank that does not exist: the limit says which one was
	 * found.
	 */
	if (fault->peer >= d->ranks && fault->seen == fault->peer && fault->expected == d->ranks)
		snprintf(text, length, "%s: rank %" PRIu64 " of %" PRIu64, what, fault->seen,
			 fault->expected);
	else if (fault_is_about_channel(fault) && fault->id < d->channels)
		snprintf(text, length,
			 "%s: a message of %" PRIu64
			 " bytes, channel %u with rank %u takes %" PRIu64 " at most",
			 what, fault->seen, fault->id, fault->peer, fault->expected);
	else if (fault_is_about_channel(fault) && !d->channels)
		snprintf(text, length, "%s: the window has no channels (oriel_window_attr)", what);
	else if (!fault_is_about_bytes(fault))
		snprintf(text, length, "%s: %s %" PRIu64 " of %" PRIu64, what,
			 ori_what_noun(fault->what), fault->seen, fault->expected);
	else if (fault->id >= d->buffers && (int64_t)fault->seen < 0)
		snprintf(text, length, "%s: offset %" PRId64 " of rank %u is negative%s", what,
			 (int64_t)fault->seen, fault->peer,
			 fault->seen == UINT64_MAX ? ", or oriel_at() got too large a number" : "");
	else if (fault->id >= d->buffers)
		snprintf(text, length,
			 "%s: offset 0x%" PRIx64 " of rank %u is in buffer %u (oriel_at()), the "
			 "window has %" PRIu64,
			 what, fault->seen, fault->peer, fault->id, fault->expected);
	else
		snprintf(text, length,
			 "%s: the end, byte %" PRIu64 ", is beyond the %" PRIu64
			 " bytes of buffer %u of rank %u",
			 what, fault->seen, fault->expected, fault->id, fault->peer);
}

/* A word that is not aligned, by its offset or since its buffer is not. */
static void fault_word_text(const struct oriel_dev_fault *fault, char *text, size_t length)
{
	uint64_t offset = fault->seen & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	const char *what = ori_what_name(fault->what);

	if (fault->expected && offset % fault->expected == 0)
		snprintf(text, length,
			 "%s: the word at offset %" PRIu64
			 " of buffer %u is not aligned: the buffer does not begin at a multiple of "
			 "8",
			 what, offset, fault->id);
	else
		snprintf(text, length,
			 "%s: the word at offset %" PRIu64
			 " of buffer %u is not aligned to %u bytes",
			 what, offset, fault->id, fault->expected == 4 ? 4 : 8);
}

static void fault_ticket_text(const struct oriel_dev_window *d, const struct oriel_dev_fault *fault,
			      char *text, size_t length)
{
	const char *what = ori_what_name(fault->what);

	if (fault->id != ori_dev_ticket_window(d))
		snprintf(text, length,
			 "%s: the ticket (index %" PRIu64 ", rank %u) is of another window, not of "
			 "window %u",
			 what, fault->seen, fault->peer, ORIEL_DEV_WINDOW_NUMBER(d->number));
	else if (fault->peer >= d->ranks)
		snprintf(text, length, "%s: the ticket is of rank %u, and there are %u ranks", what,
			 fault->peer, d->ranks);
	else if (!fault->expected)
		snprintf(text, length,
			 "%s: the ticket with index %" PRIu64
			 " is of rank %u, to which nothing was posted by rdma",
			 what, fault->seen, fault->peer);
	else
		snprintf(text, length,
			 "%s: the ticket with index %" PRIu64
			 " of rank %u is not issued yet: the last is %" PRIu64,
			 what, fault->seen, fault->peer, fault->expected);
}

/*
 * A record has numbers alone, since kernels leave it: their meaning follows from the status and the
 * operation, as oriel/dev/detail/check.h fills it in.
 */
void ori_window_fault_text(const struct oriel_dev_window *d, const struct oriel_dev_fault *fault,
			   char *text, size_t length)
{
	const char *what = ori_what_name(fault->what);

	if (fault->status == ORIEL_ERR_RANGE)
		fault_range_text(d, fault, text, length);
	else if (fault->status == ORIEL_ERR_MISMATCH && fault->id)
		snprintf(text, length,
			 "%s: rank %u sends %" PRIu64 " bytes, and %" PRIu64 " are expected", what,
			 fault->peer, fault->seen, fault->expected);
	else if (fault->status == ORIEL_ERR_MISMATCH)
		snprintf(text, length,
			 "%s: %" PRIu64 " bytes sent to rank %u, which expects %" PRIu64, what,
			 fault->seen, fault->peer, fault->expected);
	else if (fault->status == ORIEL_ERR_STATE && fault_is_about_channel(fault))
		snprintf(text, length, "%s: channel %u with rank %u carries %s, not %s", what,
			 fault->id, fault->peer, fault_form(fault->seen),
			 fault_form(fault->expected));
	else if (fault->status == ORIEL_ERR_STATE && fault_is_about_barrier(fault))
		snprintf(text, length,
			 "%s: slot %u: the last arrival is still pending, since a limit passed "
			 "before all ranks had arrived; wait for it first",
			 what, fault->id);
	else if (fault->status == ORIEL_ERR_STATE)
		snprintf(text, length, "%s: buffer %u of rank %u is not shared", what, fault->id,
			 fault->peer);
	else if (fault->status == ORIEL_ERR_INVALID && fault->what == ORIEL_DEV_REDUCE)
		snprintf(text, length,
			 "%s: there is no such type, operation or block; device functions have no "
			 "ORIEL_OP_USER, and ORIEL_OP_PREMUL_SUM needs factors",
			 what);
	else if (fault->status == ORIEL_ERR_INVALID && fault_is_about_bytes(fault))
		fault_word_text(fault, text, length);
	else if (fault->what == ORIEL_DEV_WAIT_LOCAL)
		fault_ticket_text(d, fault, text, length);
	else if (fault->peer == ORIEL_DEV_NO_RANK)
		snprintf(text, length, "%s: there is no comparison or operation %" PRIu64, what,
			 fault->seen);
	else
		snprintf(text, length, "%s: rank %u is the rank itself", what, fault->peer);
}

/* Records @fault as the last error of this thread. */
static void fault_fail(const struct oriel_dev_window *device, const struct oriel_dev_fault *fault)
{
	char text[192];

	ori_window_fault_text(device, fault, text, sizeof(text));
	(void)ori_fail((enum oriel_status)fault->status, "%s", text);
}

/* Threads that call device functions get the text at once, and need not ask for the record. */
void oriel_cpu_reject(const struct oriel_dev_window *w, const struct oriel_dev_fault *record)
{
	fault_fail(w, record);
}

enum oriel_status oriel_window_fault(struct oriel_window *window, struct oriel_dev_fault *fault)
{
	enum oriel_status status = ori_handle_check(window, ORI_HANDLE_WINDOW, __func__);
	struct oriel_dev_fault *record;

	if (status != ORIEL_OK)
		return status;
	if (!fault)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_fault: fault is NULL");
	record = window->device.fault;
	if (ori_dev_load_acquire32(&record->state) != ORIEL_DEV_FAULT_FULL)
		return ORIEL_AGAIN;
	/* The thread that moves it back to WRITING owns the record. */
	if (!ori_dev_swap_acq_rel32_gpu(&record->state, ORIEL_DEV_FAULT_FULL,
					ORIEL_DEV_FAULT_WRITING))
		return ORIEL_AGAIN;
	/* From EMPTY on any user of the window may overwrite the record, so the copy is first. */
	*fault = ori_dev_fault_copy(record);
	ori_dev_store_release32(&record->state, ORIEL_DEV_FAULT_EMPTY);
	fault_fail(&window->device, fault);
	return ORIEL_OK;
}
