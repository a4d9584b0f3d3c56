/* SPDX-License-Identifier: Apache-2.0 */
/* A rank for the tests of the launcher. It knows nothing of the library. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct mode {
	const char *name;
	int arguments;
	int (*run)(char **arguments);
};

static int rank(void)
{
	return atoi(getenv("RANK"));
}

static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

static void wait_forever(void)
{
	for (;;)
		pause();
}

/* env NAME: NAME=value */
static int print_env(char **arguments)
{
	const char *value = getenv(arguments[0]);

	printf("%s%s%s\n", arguments[0], value ? "=" : " is not set", value ? value : "");
	return 0;
}

static int exit_on_term;

static void on_term(int number)
{
	(void)number;
	_exit(exit_on_term);
}

/* fail RANK CODE THEIRS: that rank exits with CODE, the others with THEIRS on SIGTERM */
static int fail(char **arguments)
{
	if (rank() == atoi(arguments[0]))
		return atoi(arguments[1]);
	exit_on_term = atoi(arguments[2]);
	signal(SIGTERM, on_term);
	wait_forever();
	return 0;
}

/* deaf CODE: rank 0 exits with CODE once the others, who ignore SIGTERM, have said so */
static int deaf(char **arguments)
{
	char byte;

	if (rank() == 0)
		return read(STDIN_FILENO, &byte, 1) == 1 ? atoi(arguments[0]) : 99;
	signal(SIGTERM, SIG_IGN);
	say("deaf");
	wait_forever();
	return 0;
}

/* die RANK SIGNAL: that rank gets SIGNAL, the others wait */
static int die(char **arguments)
{
	const struct rlimit none = {0, 0};

	if (rank() != atoi(arguments[0]))
		wait_forever();
	setrlimit(RLIMIT_CORE, &none);
	signal(atoi(arguments[1]), SIG_DFL);
	raise(atoi(arguments[1]));
	return 0;
}

/* abort: a line that the program does not flush, and then abort() */
static int print_and_abort(char **arguments)
{
	(void)arguments;
	printf("last words of %d\n", rank());
	abort();
}

/* wait: says "ready" and waits */
static int wait_ready(char **arguments)
{
	(void)arguments;
	say("ready");
	wait_forever();
	return 0;
}

/* catch COUNT: says "ready", then the number of each of COUNT signals */
static int catch_signals(char **arguments)
{
	int left = atoi(arguments[0]);
	char text[32];
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	say("ready");
	for (; left > 0 && sigwait(&set, &number) == 0; left--) {
		snprintf(text, sizeof(text), "got %d", number);
		say(text);
	}
	return 0;
}

/* bytes OUT ERR: each without a newline of its own */
static int print_bytes(char **arguments)
{
	fputs(arguments[0], stdout);
	fputs(arguments[1], stderr);
	return 0;
}

/* raw: all 256 values, ten times */
static int print_raw(char **arguments)
{
	int i;

	(void)arguments;
	for (i = 0; i < 2560; i++)
		putchar(i & 0xff);
	return 0;
}

/* flood COUNT: numbered lines of many lengths */
static int flood(char **arguments)
{
	int count = atoi(arguments[0]);
	int i;

	for (i = 0; i < count; i++)
		printf("%d:%0*d\n", i, 1 + i % 300, i);
	return 0;
}

/* long COUNT: one line of COUNT letters, without an end */
static int print_long(char **arguments)
{
	int count = atoi(arguments[0]);
	int i;

	for (i = 0; i < count; i++)
		putchar('a' + i % 26);
	return 0;
}

/* words COUNT: after a byte of input, so many lines, all in one write */
static int say_words(char **arguments)
{
	size_t length = (size_t)atoi(arguments[0]) * strlen("word\n");
	char *words = malloc(length);
	size_t i;

	for (i = 0; words && i < length; i++)
		words[i] = "word\n"[i % strlen("word\n")];
	if (fcntl(STDERR_FILENO, F_SETPIPE_SZ, 1 << 20) < (int)length)
		return 77;
	say("ready");
	if (getchar() == EOF || !words || write(STDERR_FILENO, words, length) != (ssize_t)length)
		return 1;
	free(words);
	return 4;
}

/* orphan: leaves a child that holds the outputs open */
static int leave_orphan(char **arguments)
{
	pid_t child = fork();

	(void)arguments;
	if (child == 0)
		wait_forever();
	say("left");
	return child < 0;
}

/* parent: waits, with a child that waits */
static int wait_with_child(char **arguments)
{
	pid_t child = fork();

	(void)arguments;
	if (child < 0)
		return 1;
	if (child > 0)
		say("ready");
	wait_forever();
	return 0;
}

/* cat: standard input to standard output */
static int copy_input(char **arguments)
{
	int c;

	(void)arguments;
	say("reads");
	while ((c = getchar()) != EOF)
		putchar(c);
	return 0;
}

static int meet_accept(void)
{
	int listener = atoi(getenv("ORIEL_LISTEN_FD"));
	const char *key = getenv("ORIEL_JOB_KEY");
	int left = atoi(getenv("WORLD_SIZE")) - 1;
	char theirs[128];

	for (; left > 0; left--) {
		int fd = accept(listener, NULL, NULL);
		ssize_t got = recv(fd, theirs, sizeof(theirs) - 1, MSG_WAITALL);

		close(fd);
		theirs[got > 0 ? got : 0] = '\0';
		if (strcmp(theirs, key) != 0)
			return 1;
	}
	say("all have met");
	return 0;
}

/* meet: the others send rank 0 their key */
static int meet(char **arguments)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	const char *key = getenv("ORIEL_JOB_KEY");
	int fd;

	(void)arguments;
	if (rank() == 0)
		return meet_accept();
	address.sin_port = htons((uint16_t)atoi(getenv("MASTER_PORT")));
	inet_pton(AF_INET, getenv("MASTER_ADDR"), &address.sin_addr);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return 2;
	return write(fd, key, strlen(key)) == (ssize_t)strlen(key) ? 0 : 3;
}

static const struct mode modes[] = {
	{"env", 1, print_env},       {"fail", 3, fail},
	{"deaf", 1, deaf},           {"die", 2, die},
	{"wait", 0, wait_ready},     {"catch", 1, catch_signals},
	{"bytes", 2, print_bytes},   {"raw", 0, print_raw},
	{"flood", 1, flood},         {"long", 1, print_long},
	{"orphan", 0, leave_orphan}, {"parent", 0, wait_with_child},
	{"cat", 0, copy_input},      {"meet", 0, meet},
	{"words", 1, say_words},     {"abort", 0, print_and_abort},
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, argv[1]) == 0 && modes[i].arguments == argc - 2)
			return modes[i].run(argv + 2);
	fprintf(stderr, "rank_helper: no such mode\n");
	return 100;
}
