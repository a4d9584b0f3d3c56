/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling a failure once: the function that decides something is an error
 * calls ori_fail(), callers pass the status on.
 */
#ifndef ORI_BASE_ERROR_H
#define ORI_BASE_ERROR_H

#include <oriel/status.h>

/*
 * Keeps the text for oriel_last_error() of this thread, logs it at level
 * info (a caller may expect the failure), returns @status.
 */
enum oriel_status ori_fail(enum oriel_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same with ": strerror(errno)" behind it; errno is read first. */
enum oriel_status ori_fail_errno(enum oriel_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Refuses with ORIEL_ERR_STATE what a function that returns nothing is asked for. At level
 * warn: its caller need not look.
 */
void ori_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with another status. */
void ori_misuse_with(enum oriel_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Forgets the text, so that a later oriel_last_error() cannot show a stale one. */
void ori_error_clear(void);

#define ORI_ERROR_LENGTH 1024

/* The last failure of this thread, kept while what it has left is cleared away. */
struct ori_error {
	enum oriel_status status;
	char text[ORI_ERROR_LENGTH];
};

void ori_error_save(struct ori_error *error);
void ori_error_restore(const struct ori_error *error);

#endif
