/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one warning of a wait that takes long, with the time that is left. base/late.h names the
 * callers.
 */
#include "base/late.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include <oriel/dev/detail/cpu.h>
#include <oriel/status.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/wait_page.h"
#include "base/wait_text.h"

#define LATE_DEFAULT_NS 30000000000u

static _Atomic uint64_t late_after = LATE_DEFAULT_NS; /* 0: never */

void ori_late_read(void)
{
	atomic_store_explicit(&late_after, ori_setting_late(), memory_order_relaxed);
}

void ori_late_begin(struct ori_late *late)
{
	uint64_t after = atomic_load_explicit(&late_after, memory_order_relaxed);

	late->begun = ori_clock_ns();
	late->at = after ? late->begun + after : ORIEL_TIMEOUT_INFINITE;
}

bool ori_late_is_due(struct ori_late *late)
{
	if (late->at == ORIEL_TIMEOUT_INFINITE || !ori_deadline_passed(late->at))
		return false;
	late->at = ORIEL_TIMEOUT_INFINITE;
	return true;
}

void ori_late_warn(const struct ori_late *late, uint64_t timeout_ns, const char *format, ...)
{
	char text[384], limit[48] = "for ever";
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (timeout_ns != ORIEL_TIMEOUT_INFINITE)
		snprintf(limit, sizeof(limit), "until %g s have passed", (double)timeout_ns / 1e9);
	ori_log(ORIEL_LOG_WARN, "%s within %.3g s; this rank goes on waiting, %s (ORIEL_TIMEOUT)",
		text, (double)(ori_clock_ns() - late->begun) / 1e9, limit);
}

/* The device wait that this thread is in. */
static _Thread_local struct {
	bool is_warned, is_found;
	uint32_t rank; /* its own, if it is_found */
} late_mine;

/* A wait for a NIC does not know it. */
static uint32_t late_rank(const struct oriel_dev_fault *record)
{
	if (record->finder)
		return record->finder - 1;
	if (!late_mine.is_found) {
		late_mine.rank = ori_wait_page_rank(record->comm);
		late_mine.is_found = true;
	}
	return late_mine.rank;
}

static void late_note(const struct oriel_dev_fault *record, uint32_t rank, uint32_t compare,
		      uint64_t timeout_ns)
{
	const struct ori_wait_note note = {
		.comm = record->comm,
		.rank = rank,
		.what = record->what,
		.peer = record->peer,
		.window = record->window,
		.id = record->id,
		.compare = compare,
		.expected = record->expected,
		.seen = record->seen,
		.begun = ori_clock_ns() - record->age_ns,
		.limit_ns = timeout_ns,
	};

	ori_wait_note(&note);
}

/* Each wait calls it at age 0, and then, once it is old enough for a record, before each sleep. */
uint64_t oriel_cpu_late(const struct oriel_dev_fault *record, uint32_t compare, uint64_t timeout_ns)
{
	uint64_t after = atomic_load_explicit(&late_after, memory_order_relaxed);
	const struct ori_late late = {.begun = ori_clock_ns() - record->age_ns};
	char text[ORI_WAIT_TEXT], who[24] = "a rank of this process";
	uint32_t rank;

	if (record->age_ns < ORI_WAIT_RECORD_NS) {
		late_mine.is_warned = late_mine.is_found = false;
		return ORI_WAIT_RECORD_NS;
	}
	rank = late_rank(record);
	late_note(record, rank, compare, timeout_ns);
	if (after && record->age_ns >= after && !late_mine.is_warned) {
		late_mine.is_warned = true;
		ori_wait_text(record, compare, text, sizeof(text));
		if (rank != ORIEL_DEV_NO_RANK)
			snprintf(who, sizeof(who), "rank %u", rank);
		ori_late_warn(&late, timeout_ns, "%s: %s", who, text);
	}
	return record->age_ns;
}
