/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of a job, all at once, and checks that they run. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"

/* State that all ranks of a job share. */
struct spawn {
	const struct run_options *options;
	const sigset_t *mask;
	struct run_start *start;
	int input;       /* of rank 0, borrowed */
	int nothing;     /* standard input of the other ranks */
	int failures[2]; /* a pipe with the errno of each failed exec */
	pid_t launcher;
	struct rlimit files; /* limits that the ranks get */
	bool has_pty;        /* ranks get pseudo terminals; false once one could not be made */
};

/* Variables that describe another job, in case the launcher is part of one. */
static const char *const spawn_unset[] = {"ORIEL_LISTEN_FD", "ORIEL_PORT",
					  "TORCHELASTIC_USE_AGENT_STORE"};

static int spawn_fail(const char *what)
{
	fprintf(stderr, "oriel run: cannot %s: %s\n", what, strerror(errno));
	return TOOL_FAILED;
}

/* Two pipes per rank need descriptors; the ranks themselves keep their original limit. */
static void spawn_raise_limit(struct spawn *spawn)
{
	struct rlimit wanted;

	if (getrlimit(RLIMIT_NOFILE, &spawn->files) != 0)
		return;
	wanted = spawn->files;
	wanted.rlim_cur = wanted.rlim_max;
	setrlimit(RLIMIT_NOFILE, &wanted);
}

static void spawn_close(struct spawn *spawn)
{
	const int fds[] = {spawn->nothing, spawn->start->listener, spawn->failures[0],
			   spawn->failures[1]};
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int spawn_open(struct spawn *spawn)
{
	spawn->launcher = getpid();
	spawn->has_pty = spawn->options->has_pty;
	spawn_raise_limit(spawn);
	spawn->nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (spawn->nothing < 0)
		return spawn_fail("open /dev/null");
	if (pipe2(spawn->failures, O_CLOEXEC) != 0)
		return spawn_fail("make a pipe");
	return TOOL_OK;
}

static int setenv_unsigned(const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	return setenv(name, text, 1);
}

/*
 * Virtual node k has the ranks from k * ranks / nodes up to the first rank of node k + 1. Find the
 * largest k whose first rank is not beyond @rank.
 */
static int spawn_set_node(const struct run_options *options, unsigned rank)
{
	unsigned nodes = options->nodes ? options->nodes : 1;
	unsigned node = ((rank + 1) * nodes - 1) / options->ranks;
	unsigned first = node * options->ranks / nodes;
	unsigned next = (node + 1) * options->ranks / nodes;
	char name[32];

	snprintf(name, sizeof(name), "node%u", node);
	if (options->nodes && setenv("ORIEL_NODE", name, 1) != 0)
		return -1;
	return setenv_unsigned("LOCAL_RANK", rank - first) ||
	       setenv_unsigned("LOCAL_WORLD_SIZE", next - first);
}

static int spawn_set_environment(const struct spawn *spawn, unsigned rank)
{
	const struct run_start *start = spawn->start;
	size_t i;

	for (i = 0; i < sizeof(spawn_unset) / sizeof(spawn_unset[0]); i++)
		unsetenv(spawn_unset[i]);
	if (start->first + rank == 0 && start->listener >= 0 &&
	    setenv_unsigned("ORIEL_LISTEN_FD", (unsigned)start->listener) != 0)
		return -1;
	if (*start->key &&
	    (setenv("ORIEL_JOB_KEY", start->key, 1) != 0 || unsetenv("ORIEL_JOB_KEY_FILE") != 0))
		return -1;
	if (start->meet && setenv("ORIEL_MEET", start->meet, 0) != 0)
		return -1;
	/* A rank sees a terminal, but its output goes to a file: that should get no colours. */
	if (spawn->has_pty && !start->has_terminal && setenv("TERM", "dumb", 1) != 0)
		return -1;
	return setenv_unsigned("RANK", start->first + rank) ||
	       setenv_unsigned("WORLD_SIZE", start->size) ||
	       setenv("MASTER_ADDR", start->address, 1) ||
	       setenv_unsigned("MASTER_PORT", start->port) || spawn_set_node(spawn->options, rank);
}

static int spawn_set_files(const struct spawn *spawn, unsigned rank, int out, int err)
{
	const bool is_first = spawn->start->first + rank == 0;
	int input = is_first ? spawn->input : spawn->nothing;

	if (dup2(input, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err, STDERR_FILENO) < 0)
		return -1;
	if (is_first && spawn->start->listener >= 0 &&
	    fcntl(spawn->start->listener, F_SETFD, 0) != 0)
		return -1;
	return setrlimit(RLIMIT_NOFILE, &spawn->files);
}

/* Runs in the child. Does not return. */
static void spawn_become(const struct spawn *spawn, unsigned rank, int out, int err)
{
	char **program = spawn->options->program;
	int failure;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		goto failed;
	if (getppid() != spawn->launcher) /* the launcher died before prctl() took effect */
		_exit(TOOL_FAILED);
	if (setpgid(0, 0) != 0 || spawn_set_files(spawn, rank, out, err) != 0 ||
	    spawn_set_environment(spawn, rank) != 0 ||
	    sigprocmask(SIG_SETMASK, spawn->mask, NULL) != 0)
		goto failed;
	execvp(program[0], program);

failed:
	failure = errno;
	if (write(spawn->failures[1], &failure, sizeof(failure)) < 0)
		_exit(TOOL_FAILED);
	_exit(TOOL_NOT_FOUND);
}

/*
 * Standard output of a rank: @out[0] is read here. The C library writes each line at once to
 * a terminal, but holds up to 4 KiB back from a pipe, which an abort loses. The terminal is raw, so
 * that it changes no byte, and controls no process.
 */
static int spawn_open_output(struct spawn *spawn, int out[2])
{
	struct termios raw = {.c_cflag = B38400 | CREAD};

	if (!spawn->has_pty)
		return pipe2(out, O_CLOEXEC);
	cfmakeraw(&raw);
	if (openpty(&out[0], &out[1], NULL, &raw, &spawn->start->window) == 0)
		return fcntl(out[0], F_SETFD, FD_CLOEXEC) || fcntl(out[1], F_SETFD, FD_CLOEXEC);
	fprintf(stderr,
		"oriel run: no pseudo terminal for a rank: %s; pipes are used, and a rank that "
		"aborts loses what it has not flushed (--no-pty is silent)\n",
		strerror(errno));
	spawn->has_pty = false;
	return pipe2(out, O_CLOEXEC);
}

static int spawn_rank(struct spawn *spawn, unsigned rank, pid_t *pid, int outputs[2])
{
	int out[2] = {-1, -1};
	int err[2] = {-1, -1};

	if (spawn_open_output(spawn, out) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
	    fcntl(out[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(err[0], F_SETFL, O_NONBLOCK) != 0)
		goto failed;
	*pid = fork();
	if (*pid < 0)
		goto failed;
	if (*pid == 0)
		spawn_become(spawn, rank, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	outputs[0] = out[0];
	outputs[1] = err[0];
	return TOOL_OK;

failed: /* the launcher exits, which closes the descriptors */
	fprintf(stderr, "oriel run: cannot start rank %u: %s\n", spawn->start->first + rank,
		strerror(errno));
	return TOOL_FAILED;
}

/* The pipe reaches its end when the last child has executed the program or exited. */
static int spawn_confirm(struct spawn *spawn)
{
	const char *program = spawn->options->program[0];
	bool is_found;
	int failure;
	ssize_t got;

	close(spawn->failures[1]);
	spawn->failures[1] = -1;
	do {
		got = read(spawn->failures[0], &failure, sizeof(failure));
	} while (got < 0 && errno == EINTR);
	if (got == 0)
		return TOOL_OK;
	if (got != (ssize_t)sizeof(failure))
		return spawn_fail("learn whether the ranks run");
	fprintf(stderr, "oriel run: cannot run '%s': %s\n", program, strerror(failure));
	is_found = failure != ENOENT && failure != ENOTDIR;
	return is_found ? TOOL_NOT_EXECUTABLE : TOOL_NOT_FOUND;
}

/* A child that has not reached setpgid() yet is not in a group of its own. */
static void spawn_undo(const pid_t *pids, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		kill(-pids[i], SIGKILL);
		kill(pids[i], SIGKILL);
	}
	for (i = 0; i < count; i++)
		waitpid(pids[i], NULL, 0);
}

int run_spawn_all(const struct run_options *options, struct run_start *start, const sigset_t *mask,
		  int input, pid_t *pids, int (*outputs)[2])
{
	struct spawn spawn = {.options = options,
			      .start = start,
			      .mask = mask,
			      .input = input,
			      .nothing = -1,
			      .failures = {-1, -1}};
	unsigned started = 0;
	int code = spawn_open(&spawn);

	while (code == TOOL_OK && started < options->ranks) {
		code = spawn_rank(&spawn, started, &pids[started], outputs[started]);
		if (code == TOOL_OK)
			started++;
		/* Rank 0 has it: no other process shall hold its port when it is done with it. */
		if (start->listener >= 0)
			close(start->listener);
		start->listener = -1;
	}
	if (code == TOOL_OK)
		code = spawn_confirm(&spawn);
	if (code != TOOL_OK)
		spawn_undo(pids, started);
	spawn_close(&spawn);
	return code;
}

pid_t run_guard_start(const pid_t *pids, unsigned count)
{
	const pid_t launcher = getpid();
	sigset_t all;
	unsigned i;
	pid_t guard = fork();
	int got;

	if (guard != 0)
		return guard;

	/*
	 * The guard has a group of its own and blocks all signals: it reacts only to the
	 * launcher's death.
	 */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setpgid(0, 0);
	close_range(0, ~0u, 0);
	sigemptyset(&all);
	sigaddset(&all, SIGUSR1);
	if (prctl(PR_SET_PDEATHSIG, SIGUSR1) != 0)
		_exit(TOOL_FAILED);
	while (getppid() == launcher)
		sigwait(&all, &got);
	for (i = 0; i < count; i++)
		kill(-pids[i], SIGKILL);
	_exit(TOOL_OK);
}

void run_guard_stop(pid_t guard)
{
	if (guard <= 0)
		return;
	kill(guard, SIGKILL);
	waitpid(guard, NULL, 0);
}
