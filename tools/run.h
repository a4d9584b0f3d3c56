/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `oriel run`: the command line (run), the job (run_job), which starts the ranks
 * (run_spawn), watches them (run_ranks), forwards their output (run_output) and forwards terminal
 * input (run_input). One thread with one poll() does all of it. For ranks of other hosts
 * (run_targets, run_host), an agent there (run_agent) does a part; frames (run_wire, run_task) go
 * between the two.
 */
#ifndef ORIEL_RUN_H
#define ORIEL_RUN_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#define RUN_MAX_RANKS 4096

/* One of --hosts. */
struct run_target {
	char *name;    /* for ssh: "user@host"; an IPv6 address without brackets */
	char *address; /* the part behind the "@" */
	unsigned ranks;
};

struct run_options {
	unsigned count; /* -n; 0: not given */
	unsigned ranks; /* of the job */
	struct run_target *targets;
	unsigned target_count; /* 0: the ranks are on this machine */
	unsigned nodes;        /* virtual nodes; 0: none */
	double timeout_s;      /* for the whole job; 0: no limit */
	double grace_s;        /* between SIGTERM and SIGKILL */
	bool has_prefix;
	bool is_agent;
	bool has_pty;       /* standard output of a rank is a pseudo terminal, else a pipe */
	char **program;     /* with its arguments, for execvp() */
	const char **names; /* of -x: variables for ranks on other hosts; on the heap */
	unsigned name_count;
};

/*
 * Parse the list of --hosts into @options, which then owns it. False: @why has the reason. Free it
 * with run_targets_free() in any case.
 */
bool run_targets_parse(const char *text, struct run_options *options, char *why, size_t room);
void run_targets_free(struct run_options *options);

/* Runs the whole job; returns the exit code of the launcher. */
int run_job(const struct run_options *options);

/*
 * Standard output or standard error of the launcher. Lines are buffered here until they can be
 * written without blocking, so that a stalled reader delays neither signals nor deadlines.
 */
struct run_sink {
	int fd;
	int writer; /* rank whose last line is unfinished, RUN_NO_WRITER if none */
	int error;  /* errno of a failed write; later output is dropped */
	char *bytes;
	size_t start; /* of the bytes to write */
	size_t length;
	size_t room;
};

#define RUN_PREFIX 80 /* longer ones are cut */
#define RUN_NO_WRITER (-1)
#define RUN_LAUNCHER (-2) /* the launcher as the writer of a sink */

void run_sink_open(struct run_sink *sink, int fd);
void run_sink_close(struct run_sink *sink);
bool run_sink_is_empty(const struct run_sink *sink);
bool run_sink_is_full(const struct run_sink *sink); /* streams should stop reading */
void run_sink_poll(const struct run_sink *sink, struct pollfd *entry);
/* Call it after poll() has reported that the write will not block. */
void run_sink_write(struct run_sink *sink);
/* Writes a line of the launcher itself; adds the newline. */
void run_sink_say(struct run_sink *sink, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The read end of one rank's standard output or standard error: a pipe, or the master of a
 * pseudo terminal.
 */
struct run_stream {
	bool is_open; /* not at end of file */
	int fd;       /* -1: its bytes come by run_stream_put() */
	unsigned rank;
	char prefix[RUN_PREFIX]; /* of its lines */
	struct run_sink *sink;
	char *bytes; /* an unfinished line */
	size_t length;
	size_t room;
};

/* Takes ownership of @fd, which must be non-blocking, or is -1. */
void run_stream_open(struct run_stream *stream, int fd, unsigned rank, const char *prefix,
		     struct run_sink *sink);
/* The next bytes of a stream without a descriptor. */
void run_stream_put(struct run_stream *stream, const void *bytes, size_t length);
/* Writes what is buffered, even without an end of line. */
void run_stream_close(struct run_stream *stream);
void run_stream_poll(const struct run_stream *stream, struct pollfd *entry);
void run_stream_read(struct run_stream *stream);
/* Reads all that the rank has written by now, even if the sink is full. */
void run_stream_drain(struct run_stream *stream);

/*
 * Standard input of rank 0. Rank 0 inherits a file or a pipe directly. A terminal delivers input
 * only to its foreground process group, which is the launcher's: so the launcher reads and
 * forwards it while it is in the foreground.
 */
struct run_input {
	int from; /* -1: nothing to forward */
	int to;
	char bytes[4096];
	size_t start;
	size_t length;
};

/*
 * The next two return the descriptor that becomes rank 0's input, -1 with errno on failure: that of
 * a pipe, whose other end *@to does not block, and that of the launcher's own input, by a pipe if
 * it is a terminal. The agent of a host calls the first one.
 */
int run_input_pipe(int *to);
int run_input_open(struct run_input *input);
void run_input_close(struct run_input *input);
void run_input_poll(const struct run_input *input, struct pollfd *entry);
void run_input_move(struct run_input *input);

/* A rank has ended, is stopped, or goes on. */
enum run_event_kind {
	RUN_EVENT_EXITED = 1,
	RUN_EVENT_KILLED,
	RUN_EVENT_DUMPED, /* killed by a signal that left a core file */
	RUN_EVENT_STOPPED,
	RUN_EVENT_CONTINUED,
};

struct run_event {
	enum run_event_kind what;
	unsigned rank;
	unsigned status; /* the exit code, or the signal */
	unsigned pid;
};

typedef void run_event_report(void *context, const struct run_event *event);

/* The processes of the ranks @first to @first + @count - 1, on this machine. */
struct run_ranks {
	unsigned first;
	unsigned count;
	bool is_started; /* all pids are set */
	pid_t *pids;
	bool *has_ended;
	bool *is_stopped; /* by a signal; it was reported */
};

/* False: no memory; close it in any case. */
bool run_ranks_open(struct run_ranks *ranks, unsigned first, unsigned count);
/* Waits for the processes, which have been killed. */
void run_ranks_close(struct run_ranks *ranks);
void run_ranks_send(const struct run_ranks *ranks, int number);
/* Continue the ranks that are stopped. */
void run_ranks_continue(const struct run_ranks *ranks);
/*
 * Report what has changed since the last call. One SIGCHLD can stand for several deaths. It names
 * @first, which is reported first: the others may have failed because of it.
 */
void run_ranks_check(struct run_ranks *ranks, pid_t first, run_event_report *report, void *context);

/* Values that all ranks on this machine start with. */
struct run_start {
	unsigned first, size; /* number of the first rank here, number of ranks of the job */
	int listener;         /* rank 0 inherits it: no other job can bind its port; or -1 */
	const char *meet;     /* ORIEL_MEET of the ranks, unless the environment has one */
	unsigned port;
	const char *address;   /* of rank 0 */
	const char *key;       /* of the job; "": the ranks read it themselves */
	bool has_terminal;     /* the launcher's standard output is one */
	struct winsize window; /* of that terminal */
};

#define RUN_KEY_TEXT 511 /* digits of a job's key, at most */

/*
 * Make a key, or read that of ORIEL_JOB_KEY_FILE=fd:N; "" where ORIEL_JOB_KEY or a file has one.
 * Reports errors, and returns the exit code.
 */
int run_key_make(char text[RUN_KEY_TEXT + 1]);
/* The ranks have it, and /proc/PID/environ of the launcher need not show it while they run. */
void run_key_forget(char text[RUN_KEY_TEXT + 1]);

/*
 * Find a port at 127.0.0.1, or make the listener at all addresses, at the port of @start unless it
 * is 0. They report errors, and return the exit code. On this machine ranks meet by unix
 * sockets: *@port is a socket that only keeps the port from other jobs, unless ORIEL_MEET is tcp,
 * when @start has a listener.
 */
int run_start_here(struct run_start *start, int *port);
int run_start_listen_all(struct run_start *start);

/*
 * Start the ranks of @options here, each in a process group of its own. They start with the signals
 * of @mask blocked, rank 0 with @input as its standard input. Their pids go to @pids[ranks], the
 * non-blocking read ends of their outputs to @outputs[ranks][2]. Returns TOOL_OK when all of them
 * run the program; otherwise reports the reason, leaves no process behind, and returns the exit
 * code. The listener of @start is closed, except in rank 0.
 */
int run_spawn_all(const struct run_options *options, struct run_start *start, const sigset_t *mask,
		  int input, pid_t *pids, int (*outputs)[2]);

/*
 * Starts a process that outlives the launcher only to kill the remaining processes of the ranks'
 * groups if the launcher is killed. Returns its pid, -1 with errno on failure.
 */
pid_t run_guard_start(const pid_t *pids, unsigned count);
void run_guard_stop(pid_t guard);

#endif
