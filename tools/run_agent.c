/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of `oriel run --hosts`, on one of the hosts: it starts the ranks that its standard
 * input describes, and forwards their output and ends. The launcher decides everything else. When
 * the connection to it ends, or is silent for long, the ranks are killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <oriel/status.h>

#include "measure.h"
#include "run_host.h"
#include "run_task.h"
#include "tool.h"

/*
 * The launcher sends a ping every 5 s. A host whose network is cut learns nothing of it from TCP.
 * The limit is longer than the launcher's, so that a launcher that is stopped for a while, by a
 * debugger, does not lose its job.
 */
#define AGENT_SILENCE_MS 60000u
#define AGENT_BACKLOG (1u << 20) /* with more bytes that wait, outputs are not read */
#define AGENT_READ (32u << 10)
#define AGENT_DRAIN (1u << 20) /* of a rank that has ended: what a pipe can hold */

enum {
	AGENT_POLL_SIGNALS,
	AGENT_POLL_IN,
	AGENT_POLL_OUT,
	AGENT_POLL_INPUT,
	AGENT_POLL_OUTPUTS,
};

struct agent {
	struct run_wire wire;
	struct run_ranks ranks;
	struct run_start start;
	int (*outputs)[2]; /* [ranks.count], -1: at end of file */
	struct pollfd *poll;
	unsigned count; /* of ranks; 0: not started */
	int signals;
	sigset_t mask; /* signal mask that the agent was started with */
	pid_t guard;
	int input; /* of rank 0, non-blocking; -1: closed */
	struct run_bytes typed;
	uint64_t heard_at; /* UINT64_MAX: the launcher is suspended */
	unsigned alive;
	bool is_killed; /* the ranks got SIGKILL */
	bool is_over;
	int code;
};

static void agent_end(struct agent *agent, int code)
{
	agent->is_over = true;
	agent->code = code;
}

static void agent_close_output(struct agent *agent, unsigned i, unsigned which)
{
	const unsigned char encoded[4] = {(unsigned char)which, 0, 0, 0};

	close(agent->outputs[i][which]);
	agent->outputs[i][which] = -1;
	run_wire_send(&agent->wire, RUN_FRAME_OUTPUT, agent->start.first + i, encoded,
		      sizeof(encoded));
}

/* Returns the number of bytes read. */
static size_t agent_read_output(struct agent *agent, unsigned i, unsigned which)
{
	unsigned char bytes[4 + AGENT_READ] = {(unsigned char)which, 0, 0, 0};
	ssize_t got = read(agent->outputs[i][which], bytes + 4, AGENT_READ);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	/* The master of a terminal that no process has open any more says EIO. */
	if (got <= 0) {
		agent_close_output(agent, i, which);
		return 0;
	}
	run_wire_send(&agent->wire, RUN_FRAME_OUTPUT, agent->start.first + i, bytes,
		      4 + (size_t)got);
	return (size_t)got;
}

/* Bounded, because a child of the rank may write faster than this reads. */
static void agent_drain(struct agent *agent, unsigned i)
{
	unsigned which;

	for (which = 0; which < 2; which++) {
		size_t total = 0, got = 1;

		while (agent->outputs[i][which] >= 0 && got > 0 && total < AGENT_DRAIN) {
			got = agent_read_output(agent, i, which);
			total += got;
		}
	}
}

/* The last lines of a rank precede the report of its end. */
static void agent_report(void *context, const struct run_event *event)
{
	struct agent *agent = context;
	struct run_bytes body = {0};

	if (event->what < RUN_EVENT_STOPPED) {
		agent->alive--;
		agent_drain(agent, event->rank - agent->start.first);
	}
	run_bytes_add_number(&body, (uint32_t)event->what);
	run_bytes_add_number(&body, event->status);
	run_bytes_add_number(&body, event->pid);
	run_wire_send(&agent->wire, RUN_FRAME_EVENT, event->rank, body.bytes, body.length);
	run_bytes_free(&body);
}

static void agent_read_signals(struct agent *agent)
{
	struct signalfd_siginfo info;

	while (read(agent->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			run_ranks_check(&agent->ranks, (pid_t)info.ssi_pid, agent_report, agent);
		else
			agent_end(agent, TOOL_SIGNALLED + (int)info.ssi_signo);
	}
}

static bool agent_alloc(struct agent *agent, unsigned count)
{
	agent->outputs = calloc(count, sizeof(*agent->outputs));
	agent->poll = realloc(agent->poll,
			      (AGENT_POLL_OUTPUTS + 2 * (size_t)count) * sizeof(*agent->poll));
	return run_ranks_open(&agent->ranks, agent->start.first, count) && agent->outputs &&
	       agent->poll;
}

/* Enter the launcher's folder, with its variables. */
static bool agent_set_scene(const struct run_task *task)
{
	char **variable;

	if (chdir(task->folder) != 0) {
		fprintf(stderr, "oriel run: cannot enter the folder '%s': %s\n", task->folder,
			strerror(errno));
		return false;
	}
	/* A command in the place of ssh may pass on the launcher's own. */
	unsetenv("ORIEL_MEET");
	/*
	 * A copy, which the environment has then, since the frame that they are in is not kept.
	 */
	/* NOLINTNEXTLINE(*-unix.Malloc) */
	for (variable = task->variables; *variable; variable++) {
		char *copy = strdup(*variable);

		if (!copy || putenv(copy) != 0) {
			fprintf(stderr, "oriel run: no memory for variables\n");
			free(copy);
			return false;
		}
	}
	return true;
}

static int agent_spawn(struct agent *agent, const struct run_task *task)
{
	const struct run_options options = {.ranks = task->ranks,
					    .has_pty = task->has_pty,
					    .program = task->program};
	struct run_start start = task->start;
	int input, code;

	start.listener = agent->start.listener;
	agent->start = start;
	if (!agent_alloc(agent, task->ranks) || !agent_set_scene(task))
		return TOOL_FAILED;
	input = run_input_pipe(&agent->input);
	if (input < 0) {
		fprintf(stderr, "oriel run: cannot make a pipe: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	code = run_spawn_all(&options, &start, &agent->mask, input, agent->ranks.pids,
			     agent->outputs);
	agent->start.listener = start.listener;
	close(input);
	return code;
}

static void agent_take_task(struct agent *agent, const struct run_frame *frame)
{
	struct run_task task;
	int code;

	if (agent->count > 0 || !run_task_parse(frame->body, frame->length, &task)) {
		fprintf(stderr, "oriel run: the launcher has sent a malformed task\n");
		agent_end(agent, TOOL_FAILED);
		return;
	}
	code = agent_spawn(agent, &task);
	if (code != TOOL_OK) {
		run_wire_send_number(&agent->wire, RUN_FRAME_FAILED, (uint32_t)code);
		agent_end(agent, code);
	} else {
		agent->ranks.is_started = true;
		agent->count = agent->alive = task.ranks;
		agent->guard = run_guard_start(agent->ranks.pids, agent->count);
		if (agent->guard < 0)
			fprintf(stderr, "oriel run: cannot start the guard: %s\n", strerror(errno));
		run_wire_send(&agent->wire, RUN_FRAME_STARTED, 0, NULL, 0);
	}
	run_task_free(&task);
}

static void agent_take_signal(struct agent *agent, const struct run_frame *frame)
{
	uint32_t number;

	if (!run_frame_numbers(frame, &number, 1) || number == 0 || number > 64) {
		agent_end(agent, TOOL_FAILED);
		return;
	}
	run_ranks_send(&agent->ranks, (int)number);
	if (number == SIGKILL)
		agent->is_killed = true;
	/* The launcher stops, too, and sends no pings until it goes on. */
	if (number == SIGTSTP)
		agent->heard_at = UINT64_MAX;
}

static void agent_close_input(struct agent *agent)
{
	if (agent->input >= 0)
		close(agent->input);
	agent->input = -1;
	run_bytes_free(&agent->typed);
}

static void agent_write_input(struct agent *agent)
{
	ssize_t done =
		write(agent->input, agent->typed.bytes + agent->typed.start, agent->typed.length);

	if (done < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (done < 0)
		agent_close_input(agent);
	else
		run_bytes_skip(&agent->typed, (size_t)done);
	/* Bytes that rank 0 does not read any more are dropped, as by a pipe that is closed. */
	if (agent->typed.length == 0)
		run_wire_send(&agent->wire, RUN_FRAME_TAKEN, 0, NULL, 0);
}

static void agent_take_input(struct agent *agent, const struct run_frame *frame)
{
	if (frame->length == 0 || agent->input < 0) {
		agent_close_input(agent);
		return;
	}
	run_bytes_add(&agent->typed, frame->body, frame->length);
	agent_write_input(agent);
}

static void agent_listen(struct agent *agent, const struct run_frame *frame)
{
	uint32_t port;
	int code;

	if (!run_frame_numbers(frame, &port, 1) || port > 65535 || agent->start.listener >= 0) {
		agent_end(agent, TOOL_FAILED);
		return;
	}
	agent->start.port = port;
	code = run_start_listen_all(&agent->start);
	if (code == TOOL_OK) {
		run_wire_send_number(&agent->wire, RUN_FRAME_PORT, agent->start.port);
		return;
	}
	run_wire_send_number(&agent->wire, RUN_FRAME_FAILED, (uint32_t)code);
	agent_end(agent, code);
}

static void agent_take(struct agent *agent, const struct run_frame *frame)
{
	agent->heard_at = tool_now_ms();
	switch (frame->type) {
	case RUN_FRAME_LISTEN:
		agent_listen(agent, frame);
		return;
	case RUN_FRAME_TASK:
		agent_take_task(agent, frame);
		return;
	case RUN_FRAME_SIGNAL:
		agent_take_signal(agent, frame);
		return;
	case RUN_FRAME_CONTINUE:
		run_ranks_continue(&agent->ranks);
		return;
	case RUN_FRAME_INPUT:
		agent_take_input(agent, frame);
		return;
	case RUN_FRAME_PING:
		run_wire_send(&agent->wire, RUN_FRAME_PONG, 0, NULL, 0);
		return;
	default:
		agent_end(agent, TOOL_FAILED);
	}
}

static void agent_read(struct agent *agent)
{
	long got = run_wire_fill(&agent->wire);
	enum run_wire_next next = RUN_WIRE_MORE;
	struct run_frame frame;

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		agent_end(agent, TOOL_FAILED);
		return;
	}
	while (!agent->is_over && (next = run_wire_next(&agent->wire, &frame)) == RUN_WIRE_FRAME)
		agent_take(agent, &frame);
	if (next == RUN_WIRE_MALFORMED) {
		fprintf(stderr, "oriel run --agent is what `oriel run --hosts` starts on a host: "
				"its standard input has no frames\n");
		agent_end(agent, TOOL_USAGE);
	}
}

static bool agent_has_output(const struct agent *agent)
{
	unsigned i;

	for (i = 0; i < agent->count; i++)
		if (agent->outputs[i][0] >= 0 || agent->outputs[i][1] >= 0)
			return true;
	return false;
}

/* Children of the ranks may keep outputs open; the launcher kills them after a while. */
static void agent_check_end(struct agent *agent)
{
	unsigned i, which;

	if (agent->is_over || agent->count == 0 || agent->alive > 0)
		return;
	for (i = 0; agent->is_killed && i < agent->count; i++) {
		agent_drain(agent, i);
		for (which = 0; which < 2; which++)
			if (agent->outputs[i][which] >= 0)
				agent_close_output(agent, i, which);
	}
	if (agent_has_output(agent))
		return;
	run_wire_send(&agent->wire, RUN_FRAME_END, 0, NULL, 0);
	agent_end(agent, TOOL_OK);
}

static void agent_prepare_poll(struct agent *agent)
{
	const bool has_room = agent->wire.waiting.length < AGENT_BACKLOG;
	struct pollfd *entry = agent->poll;
	unsigned i;

	*entry++ = (struct pollfd){.fd = agent->signals, .events = POLLIN};
	*entry++ = (struct pollfd){.fd = agent->wire.in, .events = POLLIN};
	*entry++ = (struct pollfd){.fd = agent->wire.waiting.length ? agent->wire.out : -1,
				   .events = POLLOUT};
	*entry++ =
		(struct pollfd){.fd = agent->typed.length ? agent->input : -1, .events = POLLOUT};
	for (i = 0; i < 2 * agent->count; i++)
		*entry++ = (struct pollfd){.fd = has_room ? agent->outputs[i / 2][i % 2] : -1,
					   .events = POLLIN};
}

/* Outputs are read before signals: the last lines of a rank precede the report of its end. */
static void agent_serve(struct agent *agent)
{
	const struct pollfd *poll = agent->poll;
	unsigned i;

	for (i = 0; i < 2 * agent->count; i++)
		if (poll[AGENT_POLL_OUTPUTS + i].revents)
			agent_read_output(agent, i / 2, i % 2);
	if (poll[AGENT_POLL_OUT].revents && !run_wire_flush(&agent->wire))
		agent_end(agent, TOOL_FAILED);
	if (poll[AGENT_POLL_INPUT].revents && agent->input >= 0)
		agent_write_input(agent);
	if (poll[AGENT_POLL_SIGNALS].revents)
		agent_read_signals(agent);
	if (poll[AGENT_POLL_IN].revents) /* last: it may replace the entries */
		agent_read(agent);
}

static int agent_poll_ms(const struct agent *agent)
{
	const uint64_t now = tool_now_ms();

	if (agent->heard_at == UINT64_MAX)
		return -1;
	return agent->heard_at + AGENT_SILENCE_MS <= now
		       ? 0
		       : (int)(agent->heard_at + AGENT_SILENCE_MS - now);
}

static bool agent_is_forgotten(const struct agent *agent)
{
	return agent->heard_at != UINT64_MAX && tool_now_ms() >= agent->heard_at + AGENT_SILENCE_MS;
}

static void agent_loop(struct agent *agent)
{
	while (!agent->is_over) {
		agent_prepare_poll(agent);
		if (poll(agent->poll, AGENT_POLL_OUTPUTS + 2 * (nfds_t)agent->count,
			 agent_poll_ms(agent)) > 0)
			agent_serve(agent);
		agent_check_end(agent);
		if (agent_is_forgotten(agent))
			agent_end(agent, TOOL_FAILED);
	}
}

/* The last frames. If the launcher does not read them, it is suspended, lost or full. */
static void agent_say_last(struct agent *agent)
{
	struct pollfd entry = {.fd = agent->wire.out, .events = POLLOUT};

	while (run_wire_flush(&agent->wire) && agent->wire.waiting.length > 0)
		if (poll(&entry, 1, AGENT_SILENCE_MS) <= 0)
			return;
}

static bool agent_open(struct agent *agent)
{
	static const int handled[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
	sigset_t wanted;
	size_t i;

	sigemptyset(&wanted);
	for (i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		sigaddset(&wanted, handled[i]);
	agent->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, dead ranks could not be waited for */
	sigaddset(&wanted, SIGPIPE);
	agent->poll = calloc(AGENT_POLL_OUTPUTS, sizeof(*agent->poll));
	return agent->poll && agent->signals >= 0 &&
	       sigprocmask(SIG_BLOCK, &wanted, &agent->mask) == 0 &&
	       fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) == 0 &&
	       fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK) == 0;
}

int run_agent(void)
{
	static const char greeting[] = RUN_WIRE_GREETING;
	struct agent agent = {.signals = -1,
			      .input = -1,
			      .start = {.listener = -1},
			      .heard_at = tool_now_ms()};
	const char *version = oriel_version();

	if (!agent_open(&agent)) {
		fprintf(stderr, "oriel run --agent: cannot start: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	run_wire_open(&agent.wire, STDIN_FILENO, STDOUT_FILENO);
	run_bytes_add(&agent.wire.waiting, greeting, sizeof(greeting) - 1);
	run_wire_send(&agent.wire, RUN_FRAME_VERSION, 0, version, strlen(version));
	agent_loop(&agent);
	run_ranks_send(&agent.ranks, SIGKILL);
	run_guard_stop(agent.guard);
	agent_say_last(&agent);
	run_ranks_close(&agent.ranks);
	run_wire_close(&agent.wire);
	agent_close_input(&agent);
	free(agent.outputs);
	free(agent.poll);
	return agent.code;
}
