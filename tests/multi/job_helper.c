/* SPDX-License-Identifier: Apache-2.0 */
/* A rank for job_test.py, which tests how jobs begin: job_helper MODE. Prints the outcome. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define JOB_ROUNDS 20
#define JOB_REUSE 9 /* rounds, until the listener is closed by the program */
#define JOB_WINDOWS 5
#define JOB_BARRIERS 400 /* the bootstrap serves its listeners in each */

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

/* Opens a file of the program under the descriptor number that the listener had. */
static bool reuse_number(int number, struct stat *mine)
{
	int fd = open("/dev/null", O_RDONLY);

	return fd >= 0 && dup2(fd, number) == number && fstat(number, mine) == 0;
}

static bool is_still_open(int number, const struct stat *mine)
{
	struct stat now;

	return fstat(number, &now) == 0 && now.st_ino == mine->st_ino &&
	       now.st_rdev == mine->st_rdev;
}

/* rounds: the same ranks open job after job at one port, later without the listener given. */
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
		if (round <= JOB_REUSE && number >= 0 && fcntl(number, F_GETFD) != FD_CLOEXEC)
			return !said("a program started now would inherit the listener");
		status = meet(&b);
		if (status != ORIEL_OK)
			return failed("barrier", status);
		oriel_bootstrap_close(&b);
		if (round == JOB_REUSE && number >= 0 && !reuse_number(number, &mine))
			return !said("cannot open a file under that number");
		if (round >= JOB_REUSE && number >= 0 && !is_still_open(number, &mine))
			return !said("the library closed the file of the program");
	}
	return said("all rounds");
}

/* both: opens a second job at the port while the first one is open. */
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

/* environment: communicators of the environment, one after the other, with one that fails between.
 */
static int run_environment(void)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr)};
	struct oriel_comm *comm;
	enum oriel_status status;
	int round;

	for (round = 0; round < 3; round++) {
		status = oriel_comm_create(NULL, &attr, &comm);
		if (status != ORIEL_OK)
			return failed("create", status);
		status = oriel_comm_barrier(comm);
		if (status != ORIEL_OK)
			return failed("barrier", status);
		/* 3 is no depth, which all ranks learn. */
		attr.queue_depth = oriel_comm_rank(comm) == 1 ? 3 : 0;
		status = oriel_comm_destroy(comm);
		if (status != ORIEL_OK)
			return failed("destroy", status);
		status = oriel_comm_create(NULL, &attr, &comm);
		if (status != ORIEL_ERR_INVALID || !strstr(oriel_last_error(), "queue_depth is 3"))
			return failed("a wrong depth", status);
		attr.queue_depth = 0;
	}
	return said("all rounds");
}

/* waits: the last rank arrives late at a barrier of device functions. */
static int run_waits(void)
{
	struct oriel_dev_window device;
	struct oriel_window *window;
	struct oriel_bootstrap b;
	struct oriel_comm *comm;
	enum oriel_status status = oriel_bootstrap_open_env(0, &b);

	if (status != ORIEL_OK)
		return failed("open", status);
	status = oriel_comm_create(&b, NULL, &comm);
	if (status != ORIEL_OK)
		return failed("create", status);
	status = oriel_window_create(comm, NULL, &window);
	if (status == ORIEL_OK)
		status = oriel_window_device(window, &device);
	if (b.rank == b.size - 1)
		sleep(2);
	if (status == ORIEL_OK)
		status = oriel_dev_barrier(&device, oriel_dev_thread(), 3, 0);
	if (status != ORIEL_OK)
		return failed("barrier", status);
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&b);
	return 0;
}

static enum oriel_status make_windows(struct oriel_comm *comm)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr), .length = 4096, .signals = 1};
	enum oriel_status status = ORIEL_OK;
	struct oriel_window *window;
	unsigned i;

	for (i = 0; i < JOB_WINDOWS && status == ORIEL_OK; i++) {
		status = oriel_window_create(comm, &attr, &window);
		if (status == ORIEL_OK)
			oriel_window_destroy(window);
	}
	return status;
}

/* Each rank sends a byte to the next one, over a connection between the two. */
static enum oriel_status send_to_next(const struct oriel_bootstrap *b)
{
	unsigned next = (b->rank + 1) % b->size, last = (b->rank + b->size - 1) % b->size;
	enum oriel_status status;
	char byte = 1;

	status = b->ops->send(b->context, next, 1, &byte, 1, 100000000000u);
	if (status == ORIEL_OK)
		status = b->ops->recv(b->context, last, 1, &byte, 1, 100000000000u);
	return status;
}

/* Rank 0 waits for a line of input. */
static bool waits_for_line(void)
{
	int c;

	if (strcmp(getenv("RANK"), "0") != 0)
		return true;
	while ((c = getchar()) != EOF && c != '\n')
		;
	return c == '\n';
}

/*
 * whole: a job from its start to its end. Before each of its two halves rank 0 waits for a line of
 * input, and the other ranks wait for rank 0.
 */
static int run_whole(void)
{
	struct oriel_bootstrap b;
	struct oriel_comm *comm;
	enum oriel_status status;
	unsigned i;

	printf("begins %d\n", (int)getpid());
	if (!waits_for_line())
		return !said("no input");
	status = oriel_bootstrap_open_env(0, &b);
	if (status != ORIEL_OK)
		return failed("open", status);
	for (i = 0; i < JOB_BARRIERS && status == ORIEL_OK; i++)
		status = meet(&b);
	if (status != ORIEL_OK)
		return failed("barrier", status);
	status = send_to_next(&b);
	if (status != ORIEL_OK)
		return failed("send", status);
	if (!waits_for_line())
		return !said("no input");
	status = oriel_comm_create(&b, NULL, &comm);
	if (status != ORIEL_OK)
		return failed("oriel_comm_create", status);
	status = make_windows(comm);
	if (status == ORIEL_OK)
		status = oriel_comm_barrier(comm);
	if (status != ORIEL_OK)
		return failed("windows", status);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&b);
	return said("ends");
}

/* hold: joins, prints that, and waits for a line of input before it closes the bootstrap. */
static int run_hold(void)
{
	struct oriel_bootstrap b;
	enum oriel_status status = oriel_bootstrap_open_env(0, &b);

	if (status != ORIEL_OK)
		return failed("open", status);
	said("joined");
	/* Rank 0 waits inside a call, in which it serves new connections. */
	if (b.rank != 0 && getchar() == EOF)
		return !said("no input");
	status = meet(&b);
	if (status != ORIEL_OK)
		return failed("barrier", status);
	oriel_bootstrap_close(&b);
	return said("ends");
}

/* Prints @text, and waits for a line of input. */
static bool pauses(const char *text)
{
	int c;

	said(text);
	while ((c = getchar()) != EOF && c != '\n')
		;
	return c == '\n';
}

/*
 * key: two jobs, the second by the key that the process keeps, and one without it. The process
 * pauses in each, and behind each: its memory is searched then.
 */
static int run_key(void)
{
	struct oriel_bootstrap b;
	struct oriel_comm *comm;
	enum oriel_status status;
	int round;

	for (round = 0; round < 3; round++) {
		if (round == 2 && (unsetenv("ORIEL_JOB_KEY") || unsetenv("ORIEL_JOB_KEY_FILE")))
			return !said("cannot unset the key");
		status = oriel_bootstrap_open_env(0, &b);
		if (status != ORIEL_OK)
			return failed("open", status);
		status = oriel_comm_create(&b, NULL, &comm);
		if (status != ORIEL_OK)
			return failed("create", status);
		if (!pauses("joined"))
			return !said("no input");
		oriel_comm_destroy(comm);
		oriel_bootstrap_close(&b);
		if (!pauses("closed"))
			return !said("no input");
	}
	return said("ends");
}

static void invert(struct oriel_job_id *id)
{
	size_t i;

	for (i = 0; i < sizeof(id->bytes); i++)
		id->bytes[i] ^= 0xff;
}

/*
 * adopt: a job by an id with a key, whose bytes the program prints. It pauses with the id open and
 * closed, and has no copy of the bytes then.
 */
static int run_adopt(void)
{
	struct oriel_job_id id;
	struct oriel_bootstrap b;
	enum oriel_status status = oriel_job_id_open(&id);

	if (status != ORIEL_OK)
		return failed("oriel_job_id_open", status);
	status = oriel_bootstrap_open_id(&id, 0, 1, 0, &b);
	if (status != ORIEL_OK)
		return failed("open", status);
	if (write(STDOUT_FILENO, id.bytes, sizeof(id.bytes)) != sizeof(id.bytes))
		return !said("no output");
	oriel_bootstrap_close(&b);
	invert(&id);
	if (!pauses("open"))
		return !said("no input");
	invert(&id);
	oriel_job_id_close(&id);
	explicit_bzero(&id, sizeof(id));
	return pauses("closed") ? 0 : !said("no input");
}

static const struct mode modes[] = {
	{"whole", run_whole}, {"hold", run_hold},   {"rounds", run_rounds},
	{"both", run_both},   {"waits", run_waits}, {"environment", run_environment},
	{"key", run_key},     {"adopt", run_adopt},
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
