/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of log.c: levels, sinks, and the line on standard error. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct heard {
	unsigned records;
	enum oriel_log_level level;
	char message[2000];
};

static void hear(void *context, enum oriel_log_level level, const char *message)
{
	struct heard *heard = context;

	heard->records++;
	heard->level = level;
	strcpy(heard->message, message);
}

static int restore(void **state)
{
	(void)state;
	oriel_log_set_sink(NULL, NULL);
	unsetenv("ORIEL_LOG");
	unsetenv("ORIEL_LOG_FILE");
	return 0;
}

static void test_a_sink_gets_records_of_the_level(void **state)
{
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	struct heard heard = {0};
	unsigned i, level;

	(void)state;
	oriel_log_set_sink(hear, &heard);
	for (i = 0; i < 4; i++) {
		setenv("ORIEL_LOG", levels[i], 1);
		heard.records = 0;
		for (level = 0; level < 4; level++)
			ori_log((enum oriel_log_level)level, "record %u", level);
		assert_int_equal(heard.records, i + 1);
		assert_int_equal(heard.level, i);
	}
	assert_string_equal(heard.message, "rank -: record 3");
}

static void *log_of_rank_2(void *heard)
{
	ori_log(ORIEL_LOG_DEBUG, "of the process");
	assert_string_equal(((struct heard *)heard)->message, "rank 1: of the process");
	ori_log_set_rank(2);
	ori_log(ORIEL_LOG_DEBUG, "of the thread");
	assert_string_equal(((struct heard *)heard)->message, "rank 2: of the thread");
	return NULL;
}

static void *log_of_no_rank(void *heard)
{
	ori_log(ORIEL_LOG_DEBUG, "of either");
	assert_string_equal(((struct heard *)heard)->message, "rank -: of either");
	return NULL;
}

static void test_records_of_level_debug_have_the_rank(void **state)
{
	struct heard heard = {0};
	pthread_t thread;

	(void)state;
	oriel_log_set_sink(hear, &heard);
	setenv("ORIEL_LOG", "debug", 1);
	ori_log_set_rank(1);
	pthread_create(&thread, NULL, log_of_rank_2, &heard);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, log_of_no_rank, &heard);
	pthread_join(thread, NULL);
	ori_log_rank(ORIEL_LOG_INFO, 3, "about another");
	assert_string_equal(heard.message, "rank 3: about another");
	setenv("ORIEL_LOG", "info", 1);
	ori_log(ORIEL_LOG_INFO, "short");
	assert_string_equal(heard.message, "short");
	ori_log_rank(ORIEL_LOG_INFO, 3, "about another");
	assert_string_equal(heard.message, "rank 3: about another");
}

static void test_the_level_is_warn_unless_set(void **state)
{
	struct heard heard = {0};

	(void)state;
	oriel_log_set_sink(hear, &heard);
	ori_log(ORIEL_LOG_INFO, "no");
	assert_int_equal(heard.records, 0);
	ori_log(ORIEL_LOG_WARN, "yes");
	assert_int_equal(heard.records, 1);
	setenv("ORIEL_LOG", "nonsense", 1);
	ori_log(ORIEL_LOG_INFO, "no");
	assert_int_equal(heard.records, 1);
}

/* Log @message and read the line that appears on standard error. */
static void written(const char *message, char *line, size_t size)
{
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t length;

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	errno = EACCES;
	ori_log(ORIEL_LOG_WARN, "%s", message);
	assert_int_equal(errno, EACCES);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	length = read(ends[0], line, size - 1);
	assert_true(length > 0);
	line[length] = '\0';
	close(ends[0]);
}

static void test_a_record_is_one_line(void **state)
{
	char long_text[5000], line[5000];

	(void)state;
	written("two\nlines", line, sizeof(line));
	assert_string_equal(line, "oriel: warn: two lines\n");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	written(long_text, line, sizeof(line));
	assert_true(strchr(line, '\n') == line + strlen(line) - 1);
}

static void test_lines_have_the_time_at_level_debug(void **state)
{
	char line[200];
	int end = 0;

	(void)state;
	setenv("ORIEL_LOG", "debug", 1);
	written("text", line, sizeof(line));
	assert_int_equal(sscanf(line, "oriel: warn: %*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*6dZ rank %n",
				&end),
			 0);
	assert_true(end > 0);
	assert_non_null(strstr(line + end, ": text\n"));
}

static void test_a_file_that_cannot_be_written_is_reported_once(void **state)
{
	char line[200];

	(void)state;
	setenv("ORIEL_LOG_FILE", "/dev/null/log", 1);
	written("text", line, sizeof(line));
	assert_string_equal(line,
			    "oriel: error: ORIEL_LOG_FILE cannot be written: Not a directory\n"
			    "oriel: warn: text\n");
	written("text", line, sizeof(line));
	assert_string_equal(line, "oriel: warn: text\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_sink_gets_records_of_the_level, restore,
						restore),
		cmocka_unit_test_setup_teardown(test_the_level_is_warn_unless_set, restore,
						restore),
		cmocka_unit_test_setup_teardown(test_a_record_is_one_line, restore, restore),
		cmocka_unit_test_setup_teardown(test_records_of_level_debug_have_the_rank, restore,
						restore),
		cmocka_unit_test_setup_teardown(test_lines_have_the_time_at_level_debug, restore,
						restore),
		cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_written_is_reported_once,
						restore, restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
