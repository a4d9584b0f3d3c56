/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: level, sink and the line on standard error. error.c and every module that has a
 * record to write call ori_log().
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fork.h"

#define LOG_LENGTH 1200

static const char *const log_names[] = {"error", "warn", "info", "debug"};

/* Held for reading while a sink runs: once oriel_log_set_sink() returns, the old one is idle. */
static pthread_rwlock_t log_lock = PTHREAD_RWLOCK_INITIALIZER;
static oriel_log_sink *log_sink; /* guarded by log_lock */
static void *log_context;        /* guarded by log_lock */

/* A read lock, because the thread that forks may be inside a sink. */
static void log_fork_prepare(void)
{
	pthread_rwlock_rdlock(&log_lock);
}

static void log_fork_parent(void)
{
	pthread_rwlock_unlock(&log_lock);
}

/*
 * The other readers do not exist in the child and never unlock, so the lock is made anew. The
 * unlock before that keeps tools that track locks quiet.
 */
static void log_fork_child(void)
{
	pthread_rwlock_unlock(&log_lock);
	pthread_rwlock_init(&log_lock, NULL);
}

/* A level that does not parse counts as warn; oriel_settings_check() reports it. */
static enum oriel_log_level log_threshold(void)
{
	const char *text = ori_setting_text(ORI_SETTING_LOG);
	unsigned i;

	for (i = 0; i < sizeof(log_names) / sizeof(log_names[0]); i++)
		if (strcmp(text, log_names[i]) == 0)
			return (enum oriel_log_level)i;
	return ORIEL_LOG_WARN;
}

/* One write(), so that lines of many processes on one terminal stay whole. */
static void log_write(enum oriel_log_level level, const char *message)
{
	char line[LOG_LENGTH + 32], *c;
	int length;

	length = snprintf(line, sizeof(line), "oriel: %s: %s\n", log_names[level], message);
	for (c = line; c < line + length - 1; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	while (write(STDERR_FILENO, line, (size_t)length) < 0 && errno == EINTR)
		;
}

void ori_log(enum oriel_log_level level, const char *format, ...)
{
	char message[LOG_LENGTH];
	int number = errno;
	va_list args;

	if (level > log_threshold())
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);

	pthread_rwlock_rdlock(&log_lock);
	if (log_sink)
		log_sink(log_context, level, message);
	else
		log_write(level, message);
	pthread_rwlock_unlock(&log_lock);
	errno = number;
}

void oriel_log_set_sink(oriel_log_sink *sink, void *context)
{
	static const struct ori_fork_hook hook = {.prepare = log_fork_prepare,
						  .parent = log_fork_parent,
						  .child = log_fork_child};

	ori_fork_add(ORI_FORK_LOG, &hook);
	pthread_rwlock_wrlock(&log_lock);
	log_sink = sink;
	log_context = context;
	pthread_rwlock_unlock(&log_lock);
}
