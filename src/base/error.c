/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last error of each thread: its status and its text. The function that decides that
 * something is an error records it here; oriel_last_error() is the program's view.
 */
#define ORI_ERROR_DEFINED /* for analyzers, too: not by the macros */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <oriel/dev/detail/cpu.h>

#include "base/log.h"
#include "base/wait_text.h"

static _Thread_local struct ori_error error_last;

static void error_log(enum oriel_log_level level)
{
	ori_log(level, "%s: %s", oriel_status_name(error_last.status), error_last.text);
}

#define ERROR_RANKS 1024u /* of a barrier that are named */

/*
 * The wait of a device function that has passed its limit. A program may poll by such waits, so
 * that the text is written only when it is asked for. Newer than error_last while FULL.
 */
static _Thread_local struct {
	struct oriel_dev_fault record;
	uint32_t compare;
	bool is_own;    /* the limit is the caller's, not ORIEL_TIMEOUT */
	uint32_t ranks; /* of a barrier whose absent ranks are known; else 0 */
	uint64_t absent[ERROR_RANKS / 64];
} error_wait;

void oriel_cpu_expire(const struct oriel_dev_fault *record, uint32_t compare, bool is_own)
{
	error_wait.record = *record;
	error_wait.record.state = ORIEL_DEV_FAULT_FULL;
	error_wait.compare = compare;
	error_wait.is_own = is_own;
	error_wait.ranks = 0;
}

void oriel_cpu_absent(uint32_t peer, uint32_t ranks)
{
	if (!error_wait.ranks)
		memset(error_wait.absent, 0, sizeof(error_wait.absent));
	error_wait.ranks = ranks;
	if (peer < ERROR_RANKS)
		error_wait.absent[peer / 64] |= UINT64_C(1) << peer % 64;
}

static bool error_is_absent(uint32_t peer)
{
	return peer < ERROR_RANKS && error_wait.absent[peer / 64] >> peer % 64 & 1;
}

/* "; of 8 ranks these had not arrived: 2, 5-7". Nothing where the ranks are not known. */
static void error_write_absent(char *text, size_t length)
{
	const char *comma = "";
	uint32_t peer, end;
	size_t used;

	text[0] = '\0';
	if (!error_wait.ranks || error_wait.ranks > ERROR_RANKS)
		return;
	used = (size_t)snprintf(text, length,
				"; of %u ranks these had not arrived:", error_wait.ranks);
	for (peer = 0; peer < error_wait.ranks && used < length; peer = end + 1) {
		end = peer;
		if (!error_is_absent(peer))
			continue;
		while (error_is_absent(end + 1))
			end++;
		used += (size_t)snprintf(text + used, length - used, "%s %u", comma, peer);
		if (end > peer && used < length)
			used += (size_t)snprintf(text + used, length - used, "-%u", end);
		comma = ",";
	}
}

void ori_error_absent(char *text, size_t length)
{
	text[0] = '\0';
	if (error_wait.record.state == ORIEL_DEV_FAULT_FULL)
		error_write_absent(text, length);
}

/* Makes error_last the last error of all. */
static void error_settle(void)
{
	char text[ORI_WAIT_TEXT], absent[ORI_WAIT_TEXT];

	if (error_wait.record.state != ORIEL_DEV_FAULT_FULL)
		return;
	error_wait.record.state = ORIEL_DEV_FAULT_EMPTY;
	ori_wait_text(&error_wait.record, error_wait.compare, text, sizeof(text));
	error_write_absent(absent, sizeof(absent));
	error_last.status = ORIEL_ERR_TIMEOUT;
	snprintf(error_last.text, sizeof(error_last.text), "%s within %.3g s%s%s", text,
		 (double)error_wait.record.age_ns / 1e9,
		 error_wait.is_own ? ", the limit of the call"
				   : " (ORIEL_TIMEOUT), and the communicator is broken",
		 absent);
}

/* @text may be formatted from the last error, so the last error changes only here. */
static enum oriel_status error_record(enum oriel_status status, const char *text,
				      enum oriel_log_level level)
{
	error_wait.record.state = ORIEL_DEV_FAULT_EMPTY;
	error_last.status = status;
	snprintf(error_last.text, sizeof(error_last.text), "%s", text);
	error_log(level == ORIEL_LOG_INFO && error_last.is_quiet ? ORIEL_LOG_DEBUG : level);
	return status;
}

static void error_format(enum oriel_status status, enum oriel_log_level level, const char *format,
			 va_list args) __attribute__((format(printf, 3, 0)));

static void error_format(enum oriel_status status, enum oriel_log_level level, const char *format,
			 va_list args)
{
	char text[ORI_ERROR_LENGTH];

	vsnprintf(text, sizeof(text), format, args);
	error_record(status, text, level);
}

enum oriel_status ori_fail(enum oriel_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_format(status, ORIEL_LOG_INFO, format, args);
	va_end(args);
	return status;
}

enum oriel_status ori_fail_errno(enum oriel_status status, const char *format, ...)
{
	char text[ORI_ERROR_LENGTH], reason[128];
	int number = errno;
	va_list args;
	size_t used;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	used = strlen(text);
	snprintf(text + used, sizeof(text) - used, ": %s%s",
		 strerror_r(number, reason, sizeof(reason)),
		 number == EMFILE ? " (raise ulimit -n)" : "");
	error_record(status, text, ORIEL_LOG_INFO);
	errno = number;
	return status;
}

enum oriel_status ori_fail_nomem(size_t length, const char *format, ...)
{
	char text[ORI_ERROR_LENGTH];
	va_list args;
	int used;

	used = snprintf(text, sizeof(text), "no memory for %zu bytes of ", length);
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - (size_t)used, format, args);
	va_end(args);
	return error_record(ORIEL_ERR_NOMEM, text, ORIEL_LOG_INFO);
}

enum oriel_status ori_fail_at_end(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_format(ORIEL_ERR_RANGE, ORIEL_LOG_DEBUG, format, args);
	va_end(args);
	return ORIEL_ERR_RANGE;
}

enum oriel_status ori_fail_null(const char *call, const char *parameter)
{
	return ori_fail(ORIEL_ERR_INVALID, "%s: %s is NULL", call, parameter);
}

enum oriel_status ori_misuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_format(ORIEL_ERR_STATE, ORIEL_LOG_WARN, format, args);
	va_end(args);
	return ORIEL_ERR_STATE;
}

void ori_misuse_with(enum oriel_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_format(status, ORIEL_LOG_WARN, format, args);
	va_end(args);
}

void ori_error_clean(char *text, size_t length)
{
	text[length - 1] = '\0';
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void ori_error_clear(void)
{
	error_wait.record.state = ORIEL_DEV_FAULT_EMPTY;
	error_last.status = ORIEL_OK;
	error_last.text[0] = '\0';
}

void ori_error_save(struct ori_error *error)
{
	error_settle();
	*error = error_last;
	error_last.is_quiet = true;
}

void ori_error_restore(const struct ori_error *error)
{
	error_wait.record.state = ORIEL_DEV_FAULT_EMPTY;
	error_last = *error;
}

enum oriel_status ori_error_end(const struct ori_error *error, enum oriel_status status)
{
	if (status == ORIEL_OK) {
		ori_error_restore(error);
		return status;
	}
	error_last.is_quiet = error->is_quiet;
	if (!error_last.is_quiet)
		error_log(ORIEL_LOG_INFO);
	return status;
}

const char *oriel_last_error(void)
{
	error_settle();
	return error_last.text;
}

enum oriel_status oriel_last_status(void)
{
	error_settle();
	return error_last.status;
}

enum oriel_status oriel_error_set(enum oriel_status status, const char *text)
{
	if (status >= 0)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_error_set: status %d is no failure: %s",
				status, text ? text : "");
	return ori_fail(status, "%s", text ? text : "");
}
