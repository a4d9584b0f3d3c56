/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job, from its first rank to its last line of output. The first rank that fails decides the
 * exit code and ends the others. run.c calls it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"
#include "run.h"
#include "run_host.h"
#include "tool.h"

#define RUN_DRAIN_MS 200 /* for children of dead ranks that keep the outputs open */
#define RUN_NEVER UINT64_MAX
#define RUN_NAME 600

struct run_job {
	struct run_options options;
	struct run_ranks ranks;     /* on this machine; none with hosts */
	struct run_hosts *hosts;    /* NULL: none */
	pid_t *pids;                /* of ssh, by host */
	bool *has_ended;            /* [ranks] */
	bool *is_stopped;           /* by a signal; the user was told */
	struct run_stream *streams; /* [2 * ranks] */
	struct run_sink sinks[2];
	struct run_input input;
	struct pollfd *poll; /* signals, input, sinks, streams, hosts */
	int signals;
	int port;      /* a socket that keeps the job's port from other jobs, or -1 */
	sigset_t mask; /* signal mask that the launcher was started with */
	pid_t guard;

	int code; /* of the first failure; TOOL_OK until then */
	unsigned alive;
	uint64_t deadline; /* of the job; these three are times in ms, or RUN_NEVER */
	uint64_t kill_at;  /* when ranks still alive get SIGKILL */
	uint64_t drain_at; /* when processes that still keep an output open get SIGKILL */
	bool is_stopping;
	bool is_late;      /* the deadline has passed */
	bool is_suspended; /* by SIGTSTP, with all ranks */
	bool is_given_up;  /* the output cannot be written any more */
	sigset_t sent;     /* signals sent to the ranks: a rank killed by one has not failed */
};

enum {
	RUN_POLL_SIGNALS,
	RUN_POLL_INPUT,
	RUN_POLL_SINKS,
	RUN_POLL_STREAMS = RUN_POLL_SINKS + 2,
};

static const int run_forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

static uint64_t run_after_s(double seconds)
{
	return tool_now_ms() + (uint64_t)(seconds * 1000);
}

static void run_send(struct run_job *job, int number)
{
	if (job->hosts)
		run_hosts_send(job->hosts, number);
	else
		run_ranks_send(&job->ranks, number);
}

static void run_continue(struct run_job *job)
{
	if (job->hosts)
		run_hosts_continue(job->hosts);
	else
		run_ranks_continue(&job->ranks);
}

/* "rank 2", or "rank 2 on node1". */
static const char *run_name(const struct run_job *job, unsigned rank, char text[RUN_NAME])
{
	if (job->hosts)
		snprintf(text, RUN_NAME, "rank %u on %s", rank, run_hosts_name(job->hosts, rank));
	else
		snprintf(text, RUN_NAME, "rank %u", rank);
	return text;
}

/* Write the ranks that are alive as "rank 2" or "ranks 0-2, 5". */
static void run_write_alive(const struct run_job *job, char *text, size_t room)
{
	const unsigned ranks = job->options.ranks;
	int length = snprintf(text, room, job->alive == 1 ? "rank" : "ranks");
	const char *separator = " ";
	unsigned first;
	unsigned last;

	for (first = 0; first < ranks && (size_t)length < room; first = last + 1) {
		last = first;
		if (job->has_ended[first])
			continue;
		while (last + 1 < ranks && !job->has_ended[last + 1])
			last++;
		length += snprintf(text + length, room - (size_t)length,
				   last == first ? "%s%u" : "%s%u-%u", separator, first, last);
		separator = ", ";
	}
}

/* Ask all ranks to end, and set the time by which they must have ended. */
static void run_stop(struct run_job *job)
{
	if (job->is_stopping)
		return;
	job->is_stopping = true;
	job->kill_at = run_after_s(job->options.grace_s);
	sigaddset(&job->sent, SIGTERM);
	run_send(job, SIGTERM);
	run_continue(job); /* a stopped rank does not handle the signal */
}

static void run_kill(struct run_job *job)
{
	job->kill_at = RUN_NEVER;
	job->is_stopping = true;
	sigaddset(&job->sent, SIGKILL);
	run_send(job, SIGKILL);
}

static void run_set_code(struct run_job *job, int code)
{
	if (job->code == TOOL_OK)
		job->code = code;
}

static void run_report_signal(struct run_job *job, const struct run_event *event)
{
	const char *name = sigabbrev_np((int)event->status);
	char rank[RUN_NAME];
	const char *dumped = event->what == RUN_EVENT_DUMPED ? " (core dumped)" : "";
	struct run_sink *err = &job->sinks[1];

	if (name)
		run_sink_say(err, "%s was killed by SIG%s%s", run_name(job, event->rank, rank),
			     name, dumped);
	else
		run_sink_say(err, "%s was killed by signal %u%s", run_name(job, event->rank, rank),
			     event->status, dumped);
}

static void run_count_end(struct run_job *job, unsigned rank)
{
	job->has_ended[rank] = true;
	job->alive--;
	if (job->alive == 0)
		job->drain_at = tool_now_ms() + RUN_DRAIN_MS;
	if (job->alive == 0 && job->is_late) /* leave the remaining time for writing the output */
		job->deadline = job->drain_at + (uint64_t)(job->options.grace_s * 1000);
}

static void run_rank_ended(struct run_job *job, const struct run_event *event)
{
	const unsigned rank = event->rank;
	char name[RUN_NAME];

	if (job->has_ended[rank]) /* an agent has said so twice */
		return;
	run_count_end(job, rank);
	run_stream_drain(&job->streams[2 * rank]);
	run_stream_drain(&job->streams[2 * rank + 1]);

	if (event->what == RUN_EVENT_EXITED && event->status == 0)
		return;
	if (event->what == RUN_EVENT_EXITED) {
		run_sink_say(&job->sinks[1], "%s exited with code %u", run_name(job, rank, name),
			     event->status);
		run_set_code(job, (int)event->status);
	} else {
		if (!sigismember(&job->sent, (int)event->status))
			run_report_signal(job, event);
		run_set_code(job, TOOL_SIGNALLED + (int)event->status);
	}
	run_stop(job);
}

/*
 * A rank that another process stops makes the other ranks wait, so the log names it, and says when
 * it goes on if it has said that it is stopped.
 */
static void run_report_stop(struct run_job *job, const struct run_event *event)
{
	const bool is_stop = event->what == RUN_EVENT_STOPPED;
	char rank[RUN_NAME];

	if (job->is_stopping || job->is_suspended || is_stop == job->is_stopped[event->rank])
		return;
	/* Agents report it when the launcher goes on already. */
	if (is_stop && event->status == SIGTSTP && sigismember(&job->sent, SIGTSTP))
		return;
	job->is_stopped[event->rank] = is_stop;
	if (is_stop)
		run_sink_say(&job->sinks[1],
			     "%s is stopped by SIG%s; `kill -CONT %u` lets it go on",
			     run_name(job, event->rank, rank), sigabbrev_np((int)event->status),
			     event->pid);
	else
		run_sink_say(&job->sinks[1], "%s goes on", run_name(job, event->rank, rank));
}

static void run_handle_event(void *context, const struct run_event *event)
{
	if (event->what == RUN_EVENT_STOPPED || event->what == RUN_EVENT_CONTINUED)
		run_report_stop(context, event);
	else
		run_rank_ended(context, event);
}

static void run_handle_output(void *context, unsigned rank, unsigned which, const void *bytes,
			      size_t length)
{
	struct run_job *job = context;
	struct run_stream *stream = &job->streams[2 * rank + which];

	if (length > 0)
		run_stream_put(stream, bytes, length);
	else
		run_stream_close(stream);
}

/* Their host reports them no more. If it has not reported their ends, they are lost. */
static void run_handle_lost(void *context, unsigned first, unsigned count, int code)
{
	struct run_job *job = context;
	bool is_any = false;
	unsigned i;

	for (i = first; i < first + count; i++) {
		run_stream_close(&job->streams[2 * i]);
		run_stream_close(&job->streams[2 * i + 1]);
		if (job->has_ended[i])
			continue;
		is_any = true;
		run_count_end(job, i);
	}
	if (!is_any)
		return;
	run_set_code(job, code);
	run_stop(job);
}

static void run_interrupt(struct run_job *job, int number)
{
	if (job->alive == 0) { /* only output remains, and nothing reads it */
		job->is_given_up = true;
		run_set_code(job, TOOL_SIGNALLED + number);
		return;
	}
	if (number == SIGINT && sigismember(&job->sent, SIGINT)) {
		run_sink_say(&job->sinks[1], "second SIGINT: the ranks are killed");
		run_set_code(job, TOOL_SIGNALLED + number);
		run_kill(job);
		return;
	}
	run_sink_say(&job->sinks[1], "SIG%s goes to all ranks%s", sigabbrev_np(number),
		     number == SIGINT ? "; a second one kills them" : "");
	sigaddset(&job->sent, number);
	run_send(job, number);
}

static void run_signal(struct run_job *job, const struct signalfd_siginfo *info)
{
	const int number = (int)info->ssi_signo;

	switch (number) {
	case SIGCHLD:
		if (job->hosts)
			run_hosts_reap(job->hosts);
		else
			run_ranks_check(&job->ranks, (pid_t)info->ssi_pid, run_handle_event, job);
		return;
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
		run_interrupt(job, number);
		return;
	case SIGTSTP: /* the launcher stops as well, until SIGCONT */
		job->is_suspended = true;
		sigaddset(&job->sent, number);
		run_send(job, number);
		kill(getpid(), SIGSTOP);
		return;
	case SIGCONT:
		job->is_suspended = false;
		run_send(job, number);
		return;
	default:
		run_send(job, number);
	}
}

static void run_read_signals(struct run_job *job)
{
	struct signalfd_siginfo info;

	while (read(job->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		run_signal(job, &info);
}

static void run_time_out(struct run_job *job)
{
	char ranks[256];

	job->deadline = RUN_NEVER;
	job->is_late = true;
	run_set_code(job, TOOL_TIMEOUT);
	if (job->alive == 0) {
		job->is_given_up = true;
		return;
	}
	run_write_alive(job, ranks, sizeof(ranks));
	run_sink_say(&job->sinks[1], "the job did not end within %g s: %s still %s",
		     job->options.timeout_s, ranks, job->alive == 1 ? "runs" : "run");
	run_stop(job);
}

static void run_lose_patience(struct run_job *job)
{
	char ranks[256];

	run_write_alive(job, ranks, sizeof(ranks));
	run_sink_say(&job->sinks[1], "%s did not end within %g s of SIGTERM: killed", ranks,
		     job->options.grace_s);
	run_kill(job);
}

static void run_close_streams(struct run_job *job)
{
	unsigned i;

	for (i = 0; i < 2 * job->options.ranks; i++) {
		if (job->streams[i].is_open)
			run_stream_drain(&job->streams[i]);
		run_stream_close(&job->streams[i]);
	}
}

static void run_check_time(struct run_job *job)
{
	const uint64_t now = tool_now_ms();

	if (now >= job->deadline)
		run_time_out(job);
	if (now >= job->kill_at && job->alive > 0)
		run_lose_patience(job);
	if (now >= job->drain_at) {
		job->drain_at = RUN_NEVER;
		run_send(job, SIGKILL);
		if (!job->hosts) /* an agent has more of the output, and its end */
			run_close_streams(job);
	}
	if (job->hosts)
		run_hosts_tick(job->hosts, now);
}

/* If output cannot be written, the job ends. */
static void run_check_sinks(struct run_job *job)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (!job->sinks[i].error || job->is_stopping)
			continue;
		if (job->sinks[i].error == EPIPE) {
			run_set_code(job, TOOL_SIGNALLED + SIGPIPE);
		} else {
			run_sink_say(&job->sinks[1], "cannot write the output of the ranks: %s",
				     strerror(job->sinks[i].error));
			run_set_code(job, TOOL_FAILED);
		}
		run_stop(job);
	}
}

static bool run_is_done(const struct run_job *job)
{
	unsigned i;

	if (job->alive > 0)
		return false;
	if (job->is_given_up)
		return true;
	for (i = 0; i < 2 * job->options.ranks; i++)
		if (job->streams[i].is_open)
			return false;
	if (job->hosts && !run_hosts_are_done(job->hosts))
		return false;
	return run_sink_is_empty(&job->sinks[0]) && run_sink_is_empty(&job->sinks[1]);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int run_poll_ms(const struct run_job *job)
{
	const uint64_t kill_at = job->alive > 0 ? job->kill_at : RUN_NEVER;
	const uint64_t due = job->hosts ? run_hosts_due(job->hosts) : RUN_NEVER;
	const uint64_t until =
		earliest(earliest(job->deadline, kill_at), earliest(job->drain_at, due));
	const uint64_t now = tool_now_ms();

	if (until == RUN_NEVER)
		return -1;
	if (until <= now)
		return 0;
	return (int)earliest(until - now, 1000000);
}

/* poll() skips entries without a descriptor, so each entry has a fixed index. */
static void run_prepare_poll(struct run_job *job)
{
	struct pollfd *entry = job->poll;
	unsigned i;

	*entry++ = (struct pollfd){.fd = job->signals, .events = POLLIN};
	if (job->hosts)
		*entry++ = (struct pollfd){.fd = run_hosts_want_input(job->hosts) ? job->input.from
										  : -1,
					   .events = POLLIN};
	else
		run_input_poll(&job->input, entry++);
	for (i = 0; i < 2; i++)
		run_sink_poll(&job->sinks[i], entry++);
	for (i = 0; i < 2 * job->options.ranks; i++)
		run_stream_poll(&job->streams[i], entry++);
	if (job->hosts)
		run_hosts_poll(job->hosts,
			       !run_sink_is_full(&job->sinks[0]) &&
				       !run_sink_is_full(&job->sinks[1]),
			       entry);
}

/* Input for a rank of another host is read here, whatever it is. */
static void run_read_input(struct run_job *job)
{
	char bytes[4096];
	ssize_t got = read(job->input.from, bytes, sizeof(bytes));

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	run_hosts_input(job->hosts, bytes, got > 0 ? (size_t)got : 0);
	if (got <= 0)
		job->input.from = -1;
}

/* Streams are read before signals: the last lines of a rank precede the report of its end. */
static void run_serve(struct run_job *job)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		if (job->poll[RUN_POLL_SINKS + i].revents)
			run_sink_write(&job->sinks[i]);
	for (i = 0; i < 2 * job->options.ranks; i++)
		if (job->poll[RUN_POLL_STREAMS + i].revents)
			run_stream_read(&job->streams[i]);
	if (job->hosts)
		run_hosts_serve(job->hosts,
				job->poll + RUN_POLL_STREAMS + 2 * (size_t)job->options.ranks);
	if (job->poll[RUN_POLL_INPUT].revents && job->hosts)
		run_read_input(job);
	else if (job->poll[RUN_POLL_INPUT].revents)
		run_input_move(&job->input);
	if (job->poll[RUN_POLL_SIGNALS].revents)
		run_read_signals(job);
}

static nfds_t run_poll_count(const struct run_options *options)
{
	return RUN_POLL_STREAMS + 2 * (nfds_t)options->ranks +
	       RUN_HOST_POLL * (nfds_t)options->target_count;
}

static void run_loop(struct run_job *job)
{
	const nfds_t count = run_poll_count(&job->options);

	while (!run_is_done(job)) {
		run_prepare_poll(job);
		if (poll(job->poll, count, run_poll_ms(job)) > 0)
			run_serve(job);
		run_check_sinks(job);
		run_check_time(job);
	}
}

/* Keep pipes from getting descriptors 0 to 2. */
static int run_open_standard(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return -1;
	return close(fd);
}

/* SIGPIPE and SIGTTIN are blocked, so that they become errors of write() and read(). */
static int run_open_signals(struct run_job *job)
{
	sigset_t wanted;
	size_t i;

	sigemptyset(&job->sent);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	for (i = 0; i < sizeof(run_forwarded) / sizeof(run_forwarded[0]); i++)
		sigaddset(&wanted, run_forwarded[i]);
	job->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	if (job->signals < 0)
		return -1;
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, dead ranks could not be waited for */
	sigaddset(&wanted, SIGPIPE);
	sigaddset(&wanted, SIGTTIN);
	return sigprocmask(SIG_BLOCK, &wanted, &job->mask);
}

static bool run_alloc(struct run_job *job)
{
	const unsigned ranks = job->options.ranks;
	job->has_ended = calloc(ranks, sizeof(*job->has_ended));
	job->is_stopped = calloc(ranks, sizeof(*job->is_stopped));
	job->streams = calloc(2 * (size_t)ranks, sizeof(*job->streams));
	job->poll = calloc(run_poll_count(&job->options), sizeof(*job->poll));
	job->pids = calloc(job->options.target_count + 1, sizeof(*job->pids));
	return run_ranks_open(&job->ranks, 0, job->options.targets ? 0 : ranks) && job->pids &&
	       job->has_ended && job->is_stopped && job->streams && job->poll;
}

static void run_free(struct run_job *job)
{
	run_ranks_close(&job->ranks);
	free(job->pids);
	free(job->has_ended);
	free(job->is_stopped);
	free(job->streams);
	free(job->poll);
}

static void run_open_stream(struct run_job *job, unsigned i, int fd)
{
	char prefix[RUN_PREFIX] = "";

	if (job->options.has_prefix)
		snprintf(prefix, sizeof(prefix), "[%u] ", i / 2);
	run_stream_open(&job->streams[i], fd, i / 2, prefix, &job->sinks[i % 2]);
}

static int run_spawn(struct run_job *job, int input, int (*outputs)[2])
{
	const struct run_options *options = &job->options;
	struct run_start start = {.size = options->ranks, .listener = -1};
	char key[RUN_KEY_TEXT + 1];
	int code;

	start.key = key;
	start.has_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &start.window) == 0;
	code = run_key_make(key);
	if (code == TOOL_OK)
		code = run_start_here(&start, &job->port);
	if (code == TOOL_OK)
		code = run_spawn_all(options, &start, &job->mask, input, job->ranks.pids, outputs);
	job->ranks.is_started = code == TOOL_OK;
	run_key_forget(key);
	return code;
}

static int run_start_hosts(struct run_job *job)
{
	const struct run_hosts_calls calls = {.context = job,
					      .event = run_handle_event,
					      .output = run_handle_output,
					      .lost = run_handle_lost};
	unsigned i;

	for (i = 0; i < 2 * job->options.ranks; i++)
		run_open_stream(job, i, -1);
	job->input = (struct run_input){.from = STDIN_FILENO, .to = -1};
	return run_hosts_open(&job->options, &job->mask, &job->sinks[1], &calls, job->pids,
			      &job->hosts);
}

static int run_start(struct run_job *job)
{
	const struct run_options *options = &job->options;
	int(*outputs)[2] = calloc(options->ranks, sizeof(*outputs));
	int input = run_input_open(&job->input);
	unsigned i;
	int code;

	if (!outputs || input < 0) {
		fprintf(stderr, "oriel run: cannot start: %s\n", strerror(errno));
		free(outputs);
		return TOOL_FAILED;
	}
	code = run_spawn(job, input, outputs);
	if (input != STDIN_FILENO)
		close(input);
	for (i = 0; code == TOOL_OK && i < 2 * options->ranks; i++)
		run_open_stream(job, i, outputs[i / 2][i % 2]);
	free(outputs);
	return code;
}

/* Children of the ranks end with the job. */
static void run_finish(struct run_job *job)
{
	run_send(job, SIGKILL);
	run_close_streams(job);
	run_guard_stop(job->guard);
	run_hosts_close(job->hosts);
}

static int run_whole(struct run_job *job)
{
	int code;

	if (run_open_standard() != 0 || run_open_signals(job) != 0 || !run_alloc(job)) {
		fprintf(stderr, "oriel run: cannot start: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	run_sink_open(&job->sinks[0], STDOUT_FILENO);
	run_sink_open(&job->sinks[1], STDERR_FILENO);
	code = job->options.targets ? run_start_hosts(job) : run_start(job);
	if (code != TOOL_OK)
		return code;

	job->alive = job->options.ranks;
	job->deadline =
		job->options.timeout_s > 0 ? run_after_s(job->options.timeout_s) : RUN_NEVER;
	job->kill_at = RUN_NEVER;
	job->drain_at = RUN_NEVER;
	job->guard = job->hosts ? run_guard_start(job->pids, job->options.target_count)
				: run_guard_start(job->ranks.pids, job->options.ranks);
	if (job->guard < 0) {
		run_sink_say(&job->sinks[1], "cannot start the guard: %s", strerror(errno));
		run_set_code(job, TOOL_FAILED);
		run_stop(job);
	}
	run_loop(job);
	run_finish(job);
	return job->code;
}

int run_job(const struct run_options *options)
{
	struct run_job job = {.options = *options, .signals = -1, .port = -1};
	int code;

	code = run_whole(&job);
	if (job.port >= 0)
		close(job.port);
	run_input_close(&job.input);
	run_sink_close(&job.sinks[0]);
	run_sink_close(&job.sinks[1]);
	run_free(&job);
	return code;
}
