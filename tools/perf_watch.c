/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The person in front of a run: progress on the terminal, and ^C, which ends the run behind the
 * repetition that is being measured, so that the rows until then are reported.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"

static volatile sig_atomic_t watch_is_interrupted;
static int watch_terminal = -1;

static void watch_interrupt(int number)
{
	(void)number;
	watch_is_interrupted = 1;
}

/* The second SIGINT has its usual effect: SA_RESETHAND. */
void perf_watch_open(bool has_progress)
{
	struct sigaction action = {.sa_handler = watch_interrupt,
				   .sa_flags = SA_RESTART | (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	if (has_progress)
		watch_terminal = open("/dev/tty", O_WRONLY | O_CLOEXEC | O_NOCTTY);
}

bool perf_watch_is_interrupted(void)
{
	return watch_is_interrupted;
}

static void watch_write(const char *text)
{
	if (watch_terminal >= 0 && write(watch_terminal, text, strlen(text)) < 0) {
		close(watch_terminal);
		watch_terminal = -1;
	}
}

/* The cursor stays at the beginning, so that a row that comes through the launcher overwrites it.
 */
void perf_watch_show(size_t row, size_t rows, unsigned rep, unsigned reps, const char *test)
{
	char text[128];

	snprintf(text, sizeof(text), "\r\033[Krow %zu of %zu, repetition %u of %u: %s\r", row, rows,
		 rep, reps, test);
	watch_write(text);
}

void perf_watch_clear(void)
{
	watch_write("\r\033[K");
}

void perf_watch_die(void)
{
	signal(SIGINT, SIG_DFL);
	raise(SIGINT);
}
