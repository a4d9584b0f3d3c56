/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's side of --hosts. Each ssh executes an agent, `oriel run --agent`; everything that
 * it is to know goes through its standard input, so that no secret is in a command line. The agent
 * of rank 0 listens, and its port goes to all. run_job.c calls this file.
 */
#include "run_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <oriel/status.h>

#include "measure.h"
#include "run_task.h"
#include "tool.h"

#define HOST_PING_MS 5000u  /* between signs of life */
#define HOST_LOST_MS 20000u /* a host that does not answer for so long is lost */
#define HOST_WORDS 64       /* of ORIEL_SSH */

enum host_state {
	HOST_CONNECTING, /* no sign of an agent yet */
	HOST_READY,      /* the agent waits for its task */
	HOST_STARTING,   /* it has the task */
	HOST_RUNNING,    /* it has started its ranks */
	HOST_ENDED,      /* its last frame has arrived, or it is lost */
};

struct run_host {
	const struct run_target *target; /* borrowed */
	unsigned first;                  /* rank */
	enum host_state state;
	pid_t pid; /* of ssh; a zombie until the end, so that its number is not reused */
	bool has_exited;
	int code;    /* of ssh, then; 128 + n if signal n killed it */
	int in, out; /* of the agent; -1: closed */
	struct run_wire wire;
	struct run_stream err;
	struct run_stream other; /* what comes before the greeting: no agent wrote it */
	bool has_greeting;
	uint64_t unanswered_at; /* when the first ping without an answer was sent; 0: none */
};

struct run_hosts {
	const struct run_options *options;
	struct run_hosts_calls calls;
	struct run_sink *sink;
	struct run_host *all; /* [target_count] */
	unsigned count;
	unsigned port; /* of rank 0; 0: not known yet */
	char address[256];
	char key[RUN_KEY_TEXT + 1];
	struct run_start start;
	char *folder;
	bool is_input_wanted;
	bool is_suspended; /* by SIGTSTP: no pings */
	uint64_t ping_at;
};

/* "ranks 2-3" */
static const char *host_ranks(const struct run_host *host, char text[32])
{
	if (host->target->ranks == 1)
		snprintf(text, 32, "rank %u", host->first);
	else
		snprintf(text, 32, "ranks %u-%u", host->first,
			 host->first + host->target->ranks - 1);
	return text;
}

/* No rank of @host is waited for any more; the job counts those that have not ended as lost. */
static void host_give_up(struct run_hosts *hosts, struct run_host *host, int code)
{
	if (host->state == HOST_ENDED)
		return;
	host->state = HOST_ENDED;
	hosts->calls.lost(hosts->calls.context, host->first, host->target->ranks, code);
}

static void host_close_input(struct run_host *host)
{
	if (host->in >= 0)
		close(host->in);
	host->in = -1;
	host->wire.out = -1;
}

/* Its agent, which loses the connection, kills what runs there. */
static void host_kill(struct run_host *host)
{
	host_close_input(host);
	if (host->pid > 0)
		kill(-host->pid, SIGKILL);
}

static void host_send_task(struct run_hosts *hosts, struct run_host *host)
{
	struct run_task task = {.ranks = host->target->ranks,
				.start = hosts->start,
				.has_pty = hosts->options->has_pty,
				.folder = hosts->folder,
				.program = hosts->options->program,
				.variables = run_task_variables(hosts->options)};
	struct run_bytes body = {0};

	task.start.first = host->first;
	task.start.port = hosts->port;
	if (task.variables)
		run_task_encode(&task, &body);
	free(task.variables);
	host->state = HOST_STARTING;
	if (!task.variables || body.is_broken || body.length > RUN_WIRE_BODY) {
		run_sink_say(hosts->sink,
			     "arguments and variables for host %s have more than %u MiB",
			     host->target->name, RUN_WIRE_BODY >> 20);
		host_kill(host);
		host_give_up(hosts, host, TOOL_FAILED);
	} else {
		run_wire_send(&host->wire, RUN_FRAME_TASK, 0, body.bytes + body.start, body.length);
	}
	run_bytes_free(&body);
}

/* The agent of rank 0 has chosen the port: all others can start. */
static void hosts_have_port(struct run_hosts *hosts, unsigned port)
{
	unsigned i;

	hosts->port = port;
	for (i = 0; i < hosts->count; i++)
		if (hosts->all[i].state == HOST_READY)
			host_send_task(hosts, &hosts->all[i]);
}

static void host_is_ready(struct run_hosts *hosts, struct run_host *host)
{
	host->state = HOST_READY;
	if (hosts->port)
		host_send_task(hosts, host);
	else if (host->first == 0)
		run_wire_send_number(&host->wire, RUN_FRAME_LISTEN, hosts->start.port);
}

static bool host_take_version(struct run_hosts *hosts, struct run_host *host,
			      const struct run_frame *frame)
{
	const char *here = oriel_version();

	if (host->state != HOST_CONNECTING)
		return false;
	/* The ranks find out whether their libraries fit; the tools need only the same frames. */
	if (frame->length != strlen(here) || memcmp(frame->body, here, frame->length) != 0)
		run_sink_say(hosts->sink, "host %s has Oriel %.*s, this one has %s",
			     host->target->name, (int)(frame->length < 100 ? frame->length : 100),
			     (const char *)frame->body, here);
	host_is_ready(hosts, host);
	return true;
}

static bool host_has_rank(const struct run_host *host, unsigned rank)
{
	return rank >= host->first && rank - host->first < host->target->ranks;
}

static bool host_take_event(struct run_hosts *hosts, const struct run_host *host,
			    const struct run_frame *frame)
{
	uint32_t numbers[3];
	struct run_event event;

	if (!run_frame_numbers(frame, numbers, 3) || !host_has_rank(host, frame->rank) ||
	    numbers[0] < RUN_EVENT_EXITED || numbers[0] > RUN_EVENT_CONTINUED || numbers[1] > 255)
		return false;
	event = (struct run_event){.what = (enum run_event_kind)numbers[0],
				   .rank = frame->rank,
				   .status = numbers[1],
				   .pid = numbers[2]};
	hosts->calls.event(hosts->calls.context, &event);
	return true;
}

static bool host_take_output(struct run_hosts *hosts, const struct run_host *host,
			     const struct run_frame *frame)
{
	uint32_t which;

	if (frame->length < 4 || !host_has_rank(host, frame->rank))
		return false;
	which = run_number(frame->body);
	if (which > 1)
		return false;
	hosts->calls.output(hosts->calls.context, frame->rank, which, frame->body + 4,
			    frame->length - 4);
	return true;
}

/* The agent has started no rank, and standard error has its reason. */
static bool host_take_failure(struct run_hosts *hosts, struct run_host *host,
			      const struct run_frame *frame)
{
	uint32_t code;
	char ranks[32];

	if (!run_frame_numbers(frame, &code, 1) || code == 0 || code > 255)
		return false;
	run_sink_say(hosts->sink, "host %s has not started %s", host->target->name,
		     host_ranks(host, ranks));
	host_give_up(hosts, host, (int)code);
	host_close_input(host);
	return true;
}

/* False: the frame is malformed, or comes at a wrong time. */
static bool host_take(struct run_hosts *hosts, struct run_host *host, const struct run_frame *frame)
{
	uint32_t port;

	switch (frame->type) {
	case RUN_FRAME_VERSION:
		return host_take_version(hosts, host, frame);
	case RUN_FRAME_PORT:
		if (host->state != HOST_READY || hosts->port || host->first != 0 ||
		    !run_frame_numbers(frame, &port, 1) || port == 0 || port > 65535)
			return false;
		hosts_have_port(hosts, port);
		return true;
	case RUN_FRAME_FAILED:
		return host_take_failure(hosts, host, frame);
	case RUN_FRAME_STARTED:
		if (host->state != HOST_STARTING)
			return false;
		host->state = HOST_RUNNING;
		return true;
	case RUN_FRAME_OUTPUT:
		return host->state == HOST_RUNNING && host_take_output(hosts, host, frame);
	case RUN_FRAME_EVENT:
		return host->state == HOST_RUNNING && host_take_event(hosts, host, frame);
	case RUN_FRAME_TAKEN:
		hosts->is_input_wanted = true;
		return host->first == 0;
	case RUN_FRAME_PONG:
		return true;
	case RUN_FRAME_END:
		if (host->state != HOST_RUNNING)
			return false;
		host_give_up(hosts, host, TOOL_FAILED);
		host_close_input(host);
		return true;
	default:
		return false;
	}
}

/*
 * Find the greeting. A login script may print lines before it, which go to standard error. False:
 * it has not arrived.
 */
static bool host_greet(struct run_host *host)
{
	static const char greeting[] = RUN_WIRE_GREETING;
	struct run_bytes *received = &host->wire.received;
	const unsigned char *at = received->bytes + received->start;
	const unsigned char *found = memmem(at, received->length, greeting, sizeof(greeting) - 1);
	size_t other = found ? (size_t)(found - at) : 0;

	/* Without it, all but bytes that may be its beginning. */
	if (!found && received->length > sizeof(greeting))
		other = received->length - sizeof(greeting);
	run_stream_put(&host->other, at, other);
	run_bytes_skip(received, other);
	if (!found)
		return false;
	run_bytes_skip(received, sizeof(greeting) - 1);
	host->has_greeting = true;
	return true;
}

static void host_confused(struct run_hosts *hosts, struct run_host *host)
{
	run_sink_say(hosts->sink, "host %s sends something else than `oriel run --agent`",
		     host->target->name);
	host_kill(host);
	host_give_up(hosts, host, TOOL_FAILED);
}

static void host_parse(struct run_hosts *hosts, struct run_host *host)
{
	enum run_wire_next next = RUN_WIRE_MORE;
	struct run_frame frame;

	if (!host->has_greeting && !host_greet(host))
		return;
	while (host->state != HOST_ENDED &&
	       (next = run_wire_next(&host->wire, &frame)) == RUN_WIRE_FRAME)
		if (!host_take(hosts, host, &frame))
			next = RUN_WIRE_MALFORMED;
	if (next == RUN_WIRE_MALFORMED && host->state != HOST_ENDED)
		host_confused(hosts, host);
}

/* ssh has exited and its output is read: why, if its agent has not ended before? */
static void host_explain(struct run_hosts *hosts, struct run_host *host)
{
	const char *name = host->target->name;
	const int code = host->code;
	char ranks[32], self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[length > 0 ? length : 0] = '\0';
	host_ranks(host, ranks);
	if (host->has_greeting)
		run_sink_say(hosts->sink,
			     "the connection to host %s (%s) broke: ssh exited with code %d", name,
			     ranks, code);
	else if (code == TOOL_NOT_FOUND || code == TOOL_NOT_EXECUTABLE)
		run_sink_say(
			hosts->sink,
			"host %s %s %s: `oriel run --hosts` needs this program there, at this path",
			name, code == TOOL_NOT_FOUND ? "has no" : "cannot execute", self);
	else if (code == 255) /* ssh(1), "EXIT STATUS" */
		run_sink_say(hosts->sink,
			     "host %s cannot be reached: ssh exited with code 255; `ssh -o "
			     "BatchMode=yes %s true` has to work",
			     name, name);
	else
		run_sink_say(hosts->sink, "host %s has not started %s: ssh exited with code %d",
			     name, ranks, code);
	host_give_up(hosts, host,
		     code == TOOL_NOT_FOUND || code == TOOL_NOT_EXECUTABLE ? code : TOOL_FAILED);
}

static void host_check_end(struct run_hosts *hosts, struct run_host *host)
{
	if (!host->has_exited || host->out >= 0)
		return;
	run_stream_close(&host->other);
	run_stream_drain(&host->err);
	run_stream_close(&host->err);
	if (host->state != HOST_ENDED)
		host_explain(hosts, host);
}

static void host_read(struct run_hosts *hosts, struct run_host *host)
{
	long got = run_wire_fill(&host->wire);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got > 0) {
		host->unanswered_at = 0;
		host_parse(hosts, host);
		return;
	}
	/* No agent has spoken: these are lines of something else. */
	if (!host->has_greeting)
		run_stream_put(&host->other, host->wire.received.bytes + host->wire.received.start,
			       host->wire.received.length);
	close(host->out);
	host->out = -1;
	host->wire.in = -1;
	host_check_end(hosts, host);
}

static int host_start(struct run_hosts *hosts, struct run_host *host, const sigset_t *mask)
{
	char prefix[RUN_PREFIX];
	int files[3] = {-1, -1, -1};
	int code = run_ssh_start(host->target->name, mask, &host->pid, files);

	if (code != TOOL_OK)
		return code;
	host->in = files[0];
	host->out = files[1];
	run_wire_open(&host->wire, host->out, host->in);
	snprintf(prefix, sizeof(prefix), "%.*s: ", RUN_PREFIX - 3, host->target->name);
	/* Its number as a writer differs from that of ranks, so that no lines are joined. */
	run_stream_open(&host->err, files[2], RUN_MAX_RANKS + host->first, prefix, hosts->sink);
	run_stream_open(&host->other, -1, RUN_MAX_RANKS + host->first, prefix, hosts->sink);
	return TOOL_OK;
}

/* Values that all ranks have in common; MASTER_ADDR and MASTER_PORT are the user's, if set. */
static int hosts_prepare(struct run_hosts *hosts)
{
	/* In a rank of another job they are that job's. */
	const bool is_free = !getenv("RANK");
	const char *address = is_free ? getenv("MASTER_ADDR") : NULL;
	const char *port = is_free ? getenv("MASTER_PORT") : NULL;
	char *end = NULL;
	unsigned long number;

	snprintf(hosts->address, sizeof(hosts->address), "%s",
		 address && *address ? address : hosts->options->targets[0].address);
	hosts->start = (struct run_start){.size = hosts->options->ranks,
					  .listener = -1,
					  .address = hosts->address,
					  .key = hosts->key};
	hosts->start.has_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &hosts->start.window) == 0;
	if (port && *port) {
		number = strtoul(port, &end, 10);
		if (*end || number == 0 || number > 65535) {
			fprintf(stderr,
				"oriel run: MASTER_PORT is '%s', but it may be 1 to 65535\n", port);
			return TOOL_USAGE;
		}
		hosts->start.port = (unsigned)number;
	}
	hosts->folder = getcwd(NULL, 0);
	if (!hosts->folder) {
		fprintf(stderr, "oriel run: this folder has no name: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	return run_key_make(hosts->key);
}

int run_hosts_open(const struct run_options *options, const sigset_t *mask, struct run_sink *err,
		   const struct run_hosts_calls *calls, pid_t *pids, struct run_hosts **opened)
{
	struct run_hosts *hosts = calloc(1, sizeof(*hosts));
	unsigned first = 0, i;
	int code;

	if (hosts)
		hosts->all = calloc(options->target_count, sizeof(*hosts->all));
	if (!hosts || !hosts->all) {
		free(hosts);
		fprintf(stderr, "oriel run: no memory for %u hosts\n", options->target_count);
		return TOOL_FAILED;
	}
	hosts->options = options;
	hosts->calls = *calls;
	hosts->sink = err;
	hosts->is_input_wanted = true;
	hosts->ping_at = tool_now_ms() + HOST_PING_MS;
	code = hosts_prepare(hosts);
	for (i = 0; i < options->target_count && code == TOOL_OK; i++) {
		struct run_host *host = &hosts->all[i];

		*host = (struct run_host){.target = &options->targets[i],
					  .first = first,
					  .in = -1,
					  .out = -1};
		first += host->target->ranks;
		hosts->count++;
		code = host_start(hosts, host, mask);
		pids[i] = host->pid;
	}
	if (code == TOOL_OK)
		*opened = hosts;
	else
		run_hosts_close(hosts);
	return code;
}

void run_hosts_close(struct run_hosts *hosts)
{
	unsigned i;

	if (!hosts)
		return;
	for (i = 0; i < hosts->count; i++)
		host_kill(&hosts->all[i]);
	for (i = 0; i < hosts->count; i++) {
		struct run_host *host = &hosts->all[i];

		if (host->pid > 0)
			waitpid(host->pid, NULL, 0);
		if (host->out >= 0)
			close(host->out);
		run_stream_close(&host->other);
		run_stream_close(&host->err);
		run_wire_close(&host->wire);
	}
	free(hosts->folder);
	free(hosts->all);
	run_key_forget(hosts->key);
	free(hosts);
}

static const struct run_host *hosts_find(const struct run_hosts *hosts, unsigned rank)
{
	unsigned i = 0;

	while (!host_has_rank(&hosts->all[i], rank))
		i++;
	return &hosts->all[i];
}

const char *run_hosts_name(const struct run_hosts *hosts, unsigned rank)
{
	return hosts_find(hosts, rank)->target->name;
}

static bool signal_ends(int number)
{
	return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGKILL;
}

void run_hosts_send(struct run_hosts *hosts, int number)
{
	unsigned i;

	hosts->is_suspended = number == SIGTSTP;
	for (i = 0; i < hosts->count; i++) {
		struct run_host *host = &hosts->all[i];

		/* The launcher goes on: answers that came while it was stopped are not read yet. */
		if (number == SIGCONT)
			host->unanswered_at = 0;
		if (host->state == HOST_STARTING || host->state == HOST_RUNNING) {
			run_wire_send_number(&host->wire, RUN_FRAME_SIGNAL, (uint32_t)number);
		} else if (host->state != HOST_ENDED && signal_ends(number)) {
			host_kill(host);
			host_give_up(hosts, host, TOOL_SIGNALLED + number);
		}
	}
}

void run_hosts_continue(struct run_hosts *hosts)
{
	unsigned i;

	for (i = 0; i < hosts->count; i++)
		if (hosts->all[i].state == HOST_RUNNING)
			run_wire_send(&hosts->all[i].wire, RUN_FRAME_CONTINUE, 0, NULL, 0);
}

bool run_hosts_want_input(const struct run_hosts *hosts)
{
	return hosts->is_input_wanted && hosts->all[0].state == HOST_RUNNING;
}

void run_hosts_input(struct run_hosts *hosts, const void *bytes, size_t length)
{
	hosts->is_input_wanted = false;
	run_wire_send(&hosts->all[0].wire, RUN_FRAME_INPUT, 0, bytes, length);
}

void run_hosts_poll(struct run_hosts *hosts, bool has_room, struct pollfd *entries)
{
	unsigned i;

	for (i = 0; i < hosts->count; i++) {
		struct run_host *host = &hosts->all[i];
		const bool has_waiting = host->in >= 0 && host->wire.waiting.length > 0;

		*entries++ = (struct pollfd){.fd = has_waiting ? host->in : -1, .events = POLLOUT};
		*entries++ = (struct pollfd){.fd = has_room ? host->out : -1, .events = POLLIN};
		run_stream_poll(&host->err, entries++);
		/* Its answers are not read now, so that their absence means nothing. */
		if (!has_room)
			host->unanswered_at = 0;
	}
}

void run_hosts_serve(struct run_hosts *hosts, const struct pollfd *entries)
{
	unsigned i;

	for (i = 0; i < hosts->count; i++, entries += RUN_HOST_POLL) {
		struct run_host *host = &hosts->all[i];

		if (entries[2].revents && host->err.is_open)
			run_stream_read(&host->err);
		/* If ssh does not read any more, its exit will be the reason. */
		if (entries[0].revents && host->in >= 0 && !run_wire_flush(&host->wire))
			host_close_input(host);
		if (entries[1].revents && host->out >= 0)
			host_read(hosts, host);
	}
}

void run_hosts_reap(struct run_hosts *hosts)
{
	unsigned i;

	for (i = 0; i < hosts->count; i++) {
		struct run_host *host = &hosts->all[i];

		siginfo_t info = {.si_pid = 0};

		if (host->has_exited ||
		    waitid(P_PID, (id_t)host->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
		    info.si_pid == 0)
			continue;
		host->has_exited = true;
		host->code = info.si_code == CLD_EXITED ? info.si_status
							: TOOL_SIGNALLED + info.si_status;
		host_check_end(hosts, host);
	}
}

static bool host_is_pinged(const struct run_host *host)
{
	return host->state == HOST_READY || host->state == HOST_STARTING ||
	       host->state == HOST_RUNNING;
}

uint64_t run_hosts_due(const struct run_hosts *hosts)
{
	uint64_t due = hosts->is_suspended ? UINT64_MAX : hosts->ping_at;
	unsigned i;

	for (i = 0; i < hosts->count; i++) {
		const struct run_host *host = &hosts->all[i];
		const uint64_t lost_at = host->unanswered_at + HOST_LOST_MS;

		if (host_is_pinged(host) && host->unanswered_at && lost_at < due)
			due = lost_at;
	}
	return due;
}

static void host_check_silence(struct run_hosts *hosts, struct run_host *host, uint64_t now)
{
	char ranks[32];

	if (!host_is_pinged(host) || !host->unanswered_at ||
	    now < host->unanswered_at + HOST_LOST_MS)
		return;
	run_sink_say(hosts->sink, "host %s (%s) has not answered for %u s", host->target->name,
		     host_ranks(host, ranks), HOST_LOST_MS / 1000);
	host_kill(host);
	host_give_up(hosts, host, TOOL_FAILED);
}

void run_hosts_tick(struct run_hosts *hosts, uint64_t now)
{
	const bool is_time = !hosts->is_suspended && now >= hosts->ping_at;
	unsigned i;

	for (i = 0; i < hosts->count; i++) {
		struct run_host *host = &hosts->all[i];

		host_check_silence(hosts, host, now);
		if (!is_time || !host_is_pinged(host))
			continue;
		run_wire_send(&host->wire, RUN_FRAME_PING, 0, NULL, 0);
		if (!host->unanswered_at)
			host->unanswered_at = now;
	}
	if (is_time)
		hosts->ping_at = now + HOST_PING_MS;
}

bool run_hosts_are_done(const struct run_hosts *hosts)
{
	unsigned i;

	for (i = 0; i < hosts->count; i++)
		if (hosts->all[i].state != HOST_ENDED || !hosts->all[i].has_exited ||
		    hosts->all[i].out >= 0)
			return false;
	return true;
}
