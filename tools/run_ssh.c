/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ssh of one host, with pipes to its standard files. run_host.c calls it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_host.h"
#include "tool.h"

#define SSH_WORDS 64 /* of ORIEL_SSH */
#define SSH_SHELL (8u << 10)

/* The words before the host, which stay in @text. Returns 0 if there are none, or too many. */
static int ssh_command(char *text, char *words[SSH_WORDS])
{
	char *state, *word;
	int count = 0;

	for (word = strtok_r(text, " \t", &state); word; word = strtok_r(NULL, " \t", &state)) {
		if (count == SSH_WORDS - 3)
			return 0;
		words[count++] = word;
	}
	return count;
}

/* "exec '/path/oriel' run --agent", for the shell on the host. */
static bool ssh_shell(char text[SSH_SHELL])
{
	char self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1), i;
	size_t at = (size_t)snprintf(text, SSH_SHELL, "exec '");

	if (length < 0)
		return false;
	for (i = 0; i < length && at < SSH_SHELL - 32; i++) {
		if (self[i] == '\'')
			at += (size_t)snprintf(text + at, SSH_SHELL - at, "'\\''");
		else
			text[at++] = self[i];
	}
	snprintf(text + at, SSH_SHELL - at, "' run --agent");
	return i == length;
}

/* Runs in the child. Does not return. The last pipe gets the errno of a failure. */
static void ssh_become(const char *name, const sigset_t *mask, int pipes[4][2])
{
	const char *set = getenv("ORIEL_SSH");
	char *text = strdup(set && *set ? set : "ssh -o BatchMode=yes");
	char *words[SSH_WORDS] = {NULL}, shell[SSH_SHELL];
	int count = text ? ssh_command(text, words) : 0;
	int error = EINVAL;

	words[count] = (char *)(uintptr_t)name;
	words[count + 1] = shell;
	/* The environment of ssh can be read by ps and be sent on by SendEnv. */
	unsetenv("ORIEL_JOB_KEY");
	if (count > 0 && ssh_shell(shell) && setpgid(0, 0) == 0 &&
	    dup2(pipes[0][0], STDIN_FILENO) >= 0 && dup2(pipes[1][1], STDOUT_FILENO) >= 0 &&
	    dup2(pipes[2][1], STDERR_FILENO) >= 0 && sigprocmask(SIG_SETMASK, mask, NULL) == 0) {
		execvp(words[0], words);
		error = errno;
	}
	if (write(pipes[3][1], &error, sizeof(error)) < 0)
		_exit(TOOL_FAILED);
	_exit(TOOL_NOT_FOUND);
}

static void ssh_close_pair(int fds[2])
{
	unsigned i;

	for (i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* 0, or the errno of the child's failure to execute ssh. */
static int ssh_confirm(int failure)
{
	int error = 0;
	ssize_t got;

	do {
		got = read(failure, &error, sizeof(error));
	} while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof(error) ? error : 0;
}

static int ssh_start_failed(const char *name, int error)
{
	const char *set = getenv("ORIEL_SSH");

	if (set && *set)
		fprintf(stderr, "oriel run: cannot run '%s' (ORIEL_SSH) for host %s: %s\n", set,
			name, strerror(error));
	else
		fprintf(stderr,
			"oriel run: cannot run ssh for host %s: %s (ORIEL_SSH names another "
			"command)\n",
			name, strerror(error));
	return error == ENOENT ? TOOL_NOT_FOUND : TOOL_FAILED;
}

int run_ssh_start(const char *name, const sigset_t *mask, pid_t *pid, int files[3])
{
	int pipes[4][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	int error = 0;
	unsigned i;

	for (i = 0; i < 4 && !error; i++)
		error = pipe2(pipes[i], O_CLOEXEC) != 0 ? errno : 0;
	if (!error && (fcntl(pipes[0][1], F_SETFL, O_NONBLOCK) != 0 ||
		       fcntl(pipes[1][0], F_SETFL, O_NONBLOCK) != 0 ||
		       fcntl(pipes[2][0], F_SETFL, O_NONBLOCK) != 0))
		error = errno;
	if (!error) {
		*pid = fork();
		error = *pid < 0 ? errno : 0;
	}
	if (!error && *pid == 0)
		ssh_become(name, mask, pipes);
	if (!error) {
		close(pipes[3][1]);
		pipes[3][1] = -1;
		error = ssh_confirm(pipes[3][0]);
		if (error)
			waitpid(*pid, NULL, 0);
	}
	if (error)
		*pid = 0;
	for (i = 0; i < 4; i++) {
		/* The ends of ssh, and on failure all. */
		if (i < 3 && !error)
			files[i] = pipes[i][i == 0];
		if (i < 3 && !error)
			pipes[i][i == 0] = -1;
		ssh_close_pair(pipes[i]);
	}
	return error ? ssh_start_failed(name, error) : TOOL_OK;
}
