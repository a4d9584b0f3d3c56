/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: level, rank, sink, and the line in a file or on standard error. error.c and every
 * module that has a record to write call ori_log().
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/log_file.h"

#define LOG_LENGTH 1200

#define LOG_TIME 40               /* bytes of a time */
#define LOG_MANY (UINT32_MAX - 1) /* threads of the process have been several ranks */

static const char *const log_names[] = {"error", "warn", "info", "debug"};

/* Held for reading while a sink runs: once oriel_log_set_sink() returns, the old one is idle. */
static pthread_rwlock_t log_lock = PTHREAD_RWLOCK_INITIALIZER;
static oriel_log_sink *log_sink; /* guarded by log_lock */
static void *log_context;        /* guarded by log_lock */

static _Thread_local unsigned log_thread_rank = ORI_LOG_NO_RANK;
static atomic_uint log_process_rank = ORI_LOG_NO_RANK; /* or LOG_MANY */

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

bool ori_log_has(enum oriel_log_level level)
{
	return level <= log_threshold();
}

void ori_log_set_rank(unsigned rank)
{
	unsigned of_process = ORI_LOG_NO_RANK;

	log_thread_rank = rank;
	if (!atomic_compare_exchange_strong(&log_process_rank, &of_process, rank) &&
	    of_process != rank)
		atomic_store(&log_process_rank, LOG_MANY);
}

/* "2026-11-24T04:24:23.123456Z ", which orders the lines of several hosts. */
static void log_write_time(char text[LOG_TIME])
{
	struct timespec now;
	struct tm utc;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	used = strftime(text, LOG_TIME, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + used, LOG_TIME - used, ".%06ldZ ", now.tv_nsec / 1000);
}

static void log_write_stderr(const char *line, size_t length)
{
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		;
}

/* Says once that ORIEL_LOG_FILE cannot be written, and goes on with standard error. */
static void log_miss_file(const char *why)
{
	static atomic_flag is_reported = ATOMIC_FLAG_INIT;
	char line[ORI_LOG_FILE_WHY + 80];
	int length;

	if (atomic_flag_test_and_set(&is_reported))
		return;
	length = snprintf(line, sizeof(line),
			  "oriel: error: ORIEL_LOG_FILE cannot be written: %s\n", why);
	log_write_stderr(line, (size_t)length);
}

/* One write(), so that lines of many processes in one file or on one terminal stay whole. */
static void log_write(enum oriel_log_level level, const char *message)
{
	const char *pattern = ori_setting_text(ORI_SETTING_LOG_FILE);
	char line[LOG_LENGTH + LOG_TIME + 32], at[LOG_TIME] = "", why[ORI_LOG_FILE_WHY], *c;
	int length;

	if (ori_log_has(ORIEL_LOG_DEBUG))
		log_write_time(at);
	length = snprintf(line, sizeof(line), "oriel: %s: %s%s\n", log_names[level], at, message);
	for (c = line; c < line + length - 1; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	if (*pattern && ori_log_file_write(pattern, line, (size_t)length, why))
		return;
	if (*pattern)
		log_miss_file(why);
	log_write_stderr(line, (size_t)length);
}

/* The rank at the beginning of a record: always if it is about @rank, else at level debug. */
static size_t log_write_rank(unsigned rank, char *text, size_t length)
{
	if (rank == ORI_LOG_NO_RANK) {
		if (!ori_log_has(ORIEL_LOG_DEBUG))
			return 0;
		rank = log_thread_rank;
	}
	if (rank == ORI_LOG_NO_RANK)
		rank = atomic_load(&log_process_rank);
	if (rank >= LOG_MANY)
		return (size_t)snprintf(text, length, "rank -: ");
	return (size_t)snprintf(text, length, "rank %u: ", rank);
}

static void __attribute__((format(printf, 3, 0)))
log_record(enum oriel_log_level level, unsigned rank, const char *format, va_list args)
{
	char message[LOG_LENGTH];
	int number = errno;
	size_t used;

	used = log_write_rank(rank, message, sizeof(message));
	vsnprintf(message + used, sizeof(message) - used, format, args);
	pthread_rwlock_rdlock(&log_lock);
	if (log_sink)
		log_sink(log_context, level, message);
	else
		log_write(level, message);
	pthread_rwlock_unlock(&log_lock);
	errno = number;
}

void ori_log(enum oriel_log_level level, const char *format, ...)
{
	va_list args;

	if (!ori_log_has(level))
		return;
	va_start(args, format);
	log_record(level, ORI_LOG_NO_RANK, format, args);
	va_end(args);
}

void ori_log_rank(enum oriel_log_level level, unsigned rank, const char *format, ...)
{
	va_list args;

	if (!ori_log_has(level))
		return;
	va_start(args, format);
	log_record(level, rank, format, args);
	va_end(args);
}

void ori_log_begin(unsigned rank)
{
	static atomic_flag has_version = ATOMIC_FLAG_INIT;

	ori_log_set_rank(rank);
	if (rank == 0 && ori_log_has(ORIEL_LOG_INFO) && !atomic_flag_test_and_set(&has_version))
		ori_log_rank(ORIEL_LOG_INFO, rank, "version %s", oriel_version());
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
