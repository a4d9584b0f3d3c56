/* SPDX-License-Identifier: Apache-2.0 */
/* A rank for the tests of how jobs begin: job_helper MODE. Says what has come of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <oriel/oriel.h>

#define JOB_ROUNDS 20

struct mode {
	const char *name;
	int (*run)(void);
};

static int failed(const char *what, enum oriel_status status)
{
	printf("%s: %s: %s\n", what, oriel_status_name(status), oriel_last_error());
	return 1;
}

static int said(const char *text)
{
	printf("%s\n", text);
	return 0;
}

static enum oriel_status meet(const struct oriel_bootstrap *b)
{
	return b->ops->barrier(b->context, 100000000000u);
}

static int listener(void)
{
	const char *text = getenv("ORIEL_LISTEN_FD");

	return text ? atoi(text) : -1;
}

/* A file of the program's own gets the number that was the listener's. */
static bool keep_number(int number, struct stat *mine)
{
	int fd = open("/dev/null", O_RDONLY);

	return fd >= 0 && dup2(fd, number) == number && fstat(number, mine) == 0;
}

static bool has_kept_number(int number, const struct stat *mine)
{
	struct stat now;

	return fstat(number, &now) == 0 && now.st_ino == mine->st_ino &&
	       now.st_rdev == mine->st_rdev;
}

/* rounds: the same ranks open job after job at one port */
static int run_rounds(void)
{
	int number = listener(), round;
	struct oriel_bootstrap b;
	enum oriel_status status;
	struct stat mine;

	for (round = 0; round < JOB_ROUNDS; round++) {
		status = oriel_bootstrap_open_env(0, &b);
		if (status != ORIEL_OK)
			return failed("open", status);
		if (getenv("ORIEL_LISTEN_FD"))
			return !said("ORIEL_LISTEN_FD is still there");
		if (round == 0 && number >= 0 && fcntl(number, F_GETFD) != FD_CLOEXEC)
			return !said("a program started now would inherit the listener");
		status = meet(&b);
		if (status != ORIEL_OK)
			return failed("barrier", status);
		oriel_bootstrap_close(&b);
		if (round == 0 && number >= 0 && fcntl(number, F_GETFD) >= 0)
			return !said("the listener is still open");
		if (round == 0 && number >= 0 && !keep_number(number, &mine))
			return !said("no file of the number");
		if (number >= 0 && !has_kept_number(number, &mine))
			return !said("the file of the program is closed");
	}
	return said("all rounds");
}

/* both: a second job at the port while the first one is open */
static int run_both(void)
{
	struct oriel_bootstrap first, second;
	enum oriel_status status = oriel_bootstrap_open_env(0, &first);

	if (status != ORIEL_OK)
		return failed("first", status);
	status = oriel_bootstrap_open_env(0, &second);
	failed("second", status);
	status = meet(&first);
	if (status != ORIEL_OK)
		return failed("barrier", status);
	oriel_bootstrap_close(&first);
	status = oriel_bootstrap_open_env(0, &second);
	if (status != ORIEL_OK)
		return failed("third", status);
	oriel_bootstrap_close(&second);
	return 0;
}

static const struct mode modes[] = {
	{"rounds", run_rounds},
	{"both", run_both},
};

int main(int argc, char **argv)
{
	size_t i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, argv[1]) == 0)
			return modes[i].run();
	fprintf(stderr, "job_helper: no such mode\n");
	return 100;
}
