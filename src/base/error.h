/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each failure is recorded once: the function that decides that something is an error calls
 * ori_fail(), and its callers pass the status on.
 */
#ifndef ORI_BASE_ERROR_H
#define ORI_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

/*
 * Record the text for oriel_last_error() of this thread, log it at level info (a caller may
 * expect the failure) or, after ori_error_save(), debug, and return @status.
 */
enum oriel_status ori_fail(enum oriel_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same with ": strerror(errno)" behind the text. errno is read first and stays as it is. */
enum oriel_status ori_fail_errno(enum oriel_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Record ORIEL_ERR_NOMEM for an allocation: "no memory for @length bytes of ...". @format says
 * what the bytes are for, such as "a job of %u ranks".
 */
enum oriel_status ori_fail_nomem(size_t length, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Record ORIEL_ERR_RANGE for an index past the last of a list, at which each loop over the list
 * ends, so it is logged at level debug.
 */
enum oriel_status ori_fail_at_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Record ORIEL_ERR_INVALID: "@call: @parameter is NULL". */
enum oriel_status ori_fail_null(const char *call, const char *parameter);

/*
 * Record ORIEL_ERR_STATE for a destroy function that refuses. The level is warn, since its
 * caller may never look at the status.
 */
enum oriel_status ori_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with another status. */
void ori_misuse_with(enum oriel_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * A text that another process has sent, in an array of @length: it ends there, and what may upset a
 * terminal becomes '?'.
 */
void ori_error_clean(char *text, size_t length);

/* status.c: is @number, which may come from a peer, a status of a failure? */
bool ori_status_is_failure(int64_t number);

/* Clear the last error, so that a later oriel_last_error() cannot return a stale one. */
void ori_error_clear(void);

/*
 * The ranks that a barrier of this thread waited for when its limit passed: "; of 8 ranks these had
 * not arrived: 2, 5-7", or "". Before any other text is recorded.
 */
void ori_error_absent(char *text, size_t length);

#define ORI_ERROR_LENGTH 1024

/* A saved last error of this thread, for code that may fail without a consequence. */
struct ori_error {
	enum oriel_status status;
	bool is_quiet; /* the state to return to: failures are logged at level debug */
	char text[ORI_ERROR_LENGTH];
};

/* Each save is followed by a restore or an end. */
void ori_error_save(struct ori_error *error);
void ori_error_restore(const struct ori_error *error);
/*
 * Ends attempts since the save, of which @status is the outcome: after a success the last error
 * is restored, after a failure that one stays, and is logged at level info. Returns @status.
 */
enum oriel_status ori_error_end(const struct ori_error *error, enum oriel_status status);

/* Analyzers see one file, and so not that a failure has the status that it was recorded with. */
#if defined(ORI_ANALYZE) && !defined(ORI_ERROR_DEFINED)
#define ori_fail(status, ...) (ori_fail(status, __VA_ARGS__), (status))
#define ori_fail_errno(status, ...) (ori_fail_errno(status, __VA_ARGS__), (status))
#define ori_fail_nomem(...) (ori_fail_nomem(__VA_ARGS__), ORIEL_ERR_NOMEM)
#define ori_fail_at_end(...) (ori_fail_at_end(__VA_ARGS__), ORIEL_ERR_RANGE)
#define ori_fail_null(...) (ori_fail_null(__VA_ARGS__), ORIEL_ERR_INVALID)
#define ori_misuse(...) (ori_misuse(__VA_ARGS__), ORIEL_ERR_STATE)
#endif

#endif
