/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a part of `oriel field-report` in a process of its own, so that no NIC or driver that
 * hangs or crashes ends the report.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "field.h"
#include "measure.h"

#define RUN_TEXT_MAX (4u << 20)

static void run_child(int to, char *const *arguments, const char *const *settings)
{
	setpgid(0, 0);
	/* In a group of its own it would outlive a report that a key interrupts. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		_exit(126);
	if (dup2(to, STDOUT_FILENO) < 0 || dup2(to, STDERR_FILENO) < 0)
		_exit(126);
	for (; *settings; settings++)
		putenv((char *)(uintptr_t)*settings);
	execv("/proc/self/exe", arguments);
	_exit(127);
}

/* Until all that the command started has closed its outputs; false after @end. */
static bool run_read(int from, FILE *to, double end)
{
	size_t total = 0;

	for (;;) {
		struct pollfd ready = {.fd = from, .events = POLLIN};
		double left = end - 1e-9 * tool_now_ns();
		char piece[4096];
		ssize_t got;

		if (left <= 0)
			return false;
		if (poll(&ready, 1, (int)(left * 1e3) + 1) <= 0)
			continue;
		got = read(from, piece, sizeof(piece));
		if (got <= 0)
			return true;
		for (ssize_t i = 0; i < got; i++)
			if (!piece[i])
				piece[i] = '?';
		if (total < RUN_TEXT_MAX)
			fwrite(piece, 1, (size_t)got, to);
		total += (size_t)got;
	}
}

bool field_run(char *const *arguments, const char *const *settings, unsigned limit_s,
	       struct field_run *run)
{
	double begin = 1e-9 * tool_now_ns();
	int status = 0, ends[2];
	size_t length;
	FILE *to;
	pid_t pid;

	*run = (struct field_run){.text = NULL};
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	to = open_memstream(&run->text, &length);
	fflush(stdout);
	pid = to ? fork() : -1;
	if (pid == 0) {
		close(ends[0]);
		run_child(ends[1], arguments, settings);
	}
	close(ends[1]);
	if (pid > 0) {
		setpgid(pid, pid);
		run->is_late = !run_read(ends[0], to, begin + limit_s);
		/* Ranks of `oriel run` have groups of their own, and end with it. */
		kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		run->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		run->seconds = 1e-9 * tool_now_ns() - begin;
	}
	close(ends[0]);
	if (to && fclose(to) == 0 && pid > 0)
		return true;
	free(run->text);
	run->text = NULL;
	return false;
}
