/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `oriel run`: the command line (run), the job (run_job), which
 * starts the ranks (run_spawn), brings their lines out (run_output) and the
 * input of a terminal in (run_input). All of it is one thread and one poll().
 */
#ifndef ORIEL_RUN_H
#define ORIEL_RUN_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUN_MAX_RANKS 4096

struct run_options {
	unsigned ranks;
	unsigned nodes;   /* virtual nodes; 0: the machine is not split */
	double timeout_s; /* of the whole job; 0: none */
	double grace_s;   /* between SIGTERM and SIGKILL */
	bool has_prefix;
	char **program; /* with its arguments, as execvp() takes them */
};

/* The whole job; returns the exit code of the launcher. */
int run_job(const struct run_options *options);

/*
 * Standard output or standard error of the launcher. Lines wait here until
 * they can be written without blocking, so that a reader who has stopped
 * reading stops neither signals nor deadlines.
 */
struct run_sink {
	int fd;
	int writer; /* who left its last line unfinished, RUN_NOBODY if nobody */
	int error;  /* errno of a write that failed; what comes later is dropped */
	char *bytes;
	size_t start; /* of what is still to be written */
	size_t length;
	size_t room;
};

#define RUN_NOBODY (-1)
#define RUN_LAUNCHER (-2) /* as the writer of a sink, beside the ranks */

void run_sink_open(struct run_sink *sink, int fd);
void run_sink_close(struct run_sink *sink);
bool run_sink_is_empty(const struct run_sink *sink);
bool run_sink_is_full(const struct run_sink *sink); /* streams should wait */
void run_sink_poll(const struct run_sink *sink, struct pollfd *entry);
/* After poll() has said that it will not block. */
void run_sink_write(struct run_sink *sink);
/* A line of the launcher itself; the newline is added. */
void run_sink_say(struct run_sink *sink, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The reading end of one rank's standard output or standard error. */
struct run_stream {
	int fd; /* -1: has ended */
	unsigned rank;
	bool has_prefix;
	struct run_sink *sink;
	char *bytes; /* a line that has no end yet */
	size_t length;
	size_t room;
};

/* Takes @fd, which must not block. */
void run_stream_open(struct run_stream *stream, int fd, unsigned rank, bool has_prefix,
		     struct run_sink *sink);
/* What is held goes out, with or without an end of line. */
void run_stream_close(struct run_stream *stream);
void run_stream_poll(const struct run_stream *stream, struct pollfd *entry);
void run_stream_read(struct run_stream *stream);
/* All that the pipe holds now, whether the sink is full or not. */
void run_stream_drain(struct run_stream *stream);

/*
 * Standard input of rank 0. A file or pipe it simply inherits. Its process
 * group is not the one a terminal listens to, so from a terminal the launcher
 * reads for it, as long as the launcher itself is in the foreground.
 */
struct run_input {
	int from; /* -1: nothing to carry */
	int to;
	char bytes[4096];
	size_t start;
	size_t length;
};

/* Returns what rank 0 gets as its input, -1 with errno on failure. */
int run_input_open(struct run_input *input);
void run_input_close(struct run_input *input);
void run_input_poll(const struct run_input *input, struct pollfd *entry);
void run_input_move(struct run_input *input);

/*
 * Start all ranks, each in a process group of its own. They start with the
 * signals of @mask blocked, rank 0 with @input as its standard input. Their
 * pids go to @pids[ranks], the reading ends of their outputs, which do not
 * block, to @outputs[ranks][2]. Returns TOOL_OK when all of them run the
 * program; else tells why, leaves none, and returns the exit code.
 */
int run_spawn_all(const struct run_options *options, const sigset_t *mask, int input, pid_t *pids,
		  int (*outputs)[2]);

/*
 * A process that outlives the launcher only to kill what is left in the groups
 * of the ranks when the launcher itself was killed. Returns its pid, -1 with
 * errno on failure.
 */
pid_t run_guard_start(const pid_t *pids, unsigned count);
void run_guard_stop(pid_t guard);

#endif
