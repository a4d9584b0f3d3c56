/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of `oriel run --hosts`: one ssh for each, with an agent (run_agent) behind it that
 * starts the ranks there. The job (run_job) calls it, from its poll() loop; no function waits.
 */
#ifndef ORIEL_RUN_HOST_H
#define ORIEL_RUN_HOST_H

#include <stdint.h>

#include "run.h"

#define RUN_HOST_POLL 3 /* entries of poll() for each host */

struct run_hosts;

/* Calls into the job. */
struct run_hosts_calls {
	void *context;
	run_event_report *event;
	/* Bytes of standard output (@which 0) or error (1) of @rank; @length 0: its end. */
	void (*output)(void *context, unsigned rank, unsigned which, const void *bytes,
		       size_t length);
	/* No event of these ranks comes any more. If some have not ended, the reason was reported.
	 */
	void (*lost)(void *context, unsigned first, unsigned count, int code);
};

/*
 * Start ssh for each host of @options. @pids gets the processes, [target_count], each with a group
 * of its own. Texts go to @err. On failure the exit code, which was reported.
 */
int run_hosts_open(const struct run_options *options, const sigset_t *mask, struct run_sink *err,
		   const struct run_hosts_calls *calls, pid_t *pids, struct run_hosts **hosts);
/* Kills what is left of ssh; an agent without it kills its ranks. */
void run_hosts_close(struct run_hosts *hosts);

/* The name of the host of @rank, as the user gave it. */
const char *run_hosts_name(const struct run_hosts *hosts, unsigned rank);

/* Hosts that start no ranks yet are given up where the signal ends ranks. */
void run_hosts_send(struct run_hosts *hosts, int number);
void run_hosts_continue(struct run_hosts *hosts);

/* May input for rank 0 be given now? */
bool run_hosts_want_input(const struct run_hosts *hosts);
/* @length 0: the end of it. */
void run_hosts_input(struct run_hosts *hosts, const void *bytes, size_t length);

/* @has_room: the sinks take more output. */
void run_hosts_poll(struct run_hosts *hosts, bool has_room, struct pollfd *entries);
void run_hosts_serve(struct run_hosts *hosts, const struct pollfd *entries);
/* A child has exited. */
void run_hosts_reap(struct run_hosts *hosts);
/* The time in ms at which run_hosts_tick() has work; UINT64_MAX: none. */
uint64_t run_hosts_due(const struct run_hosts *hosts);
void run_hosts_tick(struct run_hosts *hosts, uint64_t now);
/* Have all agents ended, or are they lost? */
bool run_hosts_are_done(const struct run_hosts *hosts);

/*
 * Start the ssh of host @name, in a process group of its own, which executes an agent there.
 * @files gets the non-blocking ends of its standard input, output and error. On failure the exit
 * code, which was reported, and no process.
 */
int run_ssh_start(const char *name, const sigset_t *mask, pid_t *pid, int files[3]);

/* The agent: `oriel run --agent`. Returns the exit code. */
int run_agent(void);

#endif
