/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a rank of `oriel perf`: joins the job, pins its threads, and allocates the
 * memory to send from.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "perf.h"
#include "perf_p2p.h"
#include "tool.h"

#define JOB_PAGE 4096u

/* The launcher reads the ranks' output through pipes, so it says that this one is a terminal. */
int perf_job_launch(const struct perf_options *options, int argc, char **argv)
{
	char progress[] = "--progress";
	char **all = calloc((size_t)argc + 2, sizeof(*all));
	int code;

	if (!all)
		return TOOL_FAILED;
	memcpy(all, argv, (size_t)argc * sizeof(*all));
	if (argc > 0 && isatty(STDERR_FILENO)) {
		memmove(all + 2, all + 1, (size_t)(argc - 1) * sizeof(*all));
		all[1] = progress;
		argc++;
	}
	code = tool_launch("perf", options->ranks, options->nodes, argc, all);
	free(all);
	return code;
}

bool perf_job_is_oversubscribed(const struct perf_job *job)
{
	return job->ranks * (job->options->threads + job->is_software) > job->cores;
}

/* Find core number @index of those this process may use. */
static bool job_core(const cpu_set_t *allowed, unsigned index, cpu_set_t *one)
{
	int core;

	for (core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, allowed))
			continue;
		if (index-- > 0)
			continue;
		CPU_ZERO(one);
		CPU_SET(core, one);
		return true;
	}
	return false;
}

bool perf_job_is_pinned(const struct perf_job *job)
{
	bool fits = job->ranks * job->options->threads <= job->cores;

	return job->cores &&
	       (job->options->pin == PERF_PIN_ON || (job->options->pin == PERF_PIN_AUTO && fits));
}

void perf_job_pin(const struct perf_job *job, uint32_t thread)
{
	unsigned offset = job->rank * job->options->threads + thread;
	cpu_set_t one;

	if (perf_job_is_pinned(job) && job_core(&job->allowed, offset % job->cores, &one))
		pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void job_append(struct perf_job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Append to the command; text that does not fit is cut off. */
static void job_append(struct perf_job *job, const char *format, ...)
{
	size_t used = strlen(job->command);
	va_list args;

	va_start(args, format);
	vsnprintf(job->command + used, sizeof(job->command) - used, format, args);
	va_end(args);
}

/* Append the settings of the environment that change the results. */
static void job_append_settings(struct perf_job *job)
{
	static const char *const names[] = {"ORIEL_PATHS", "ORIEL_HCA", "ORIEL_SOFT_HCA"};
	struct oriel_setting setting = {.size = sizeof(setting)};
	unsigned i, k;

	for (i = 0; oriel_setting_get(i, &setting) == ORIEL_OK; i++)
		for (k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			if (strcmp(setting.name, names[k]) == 0 &&
			    strcmp(setting.source, "environment") == 0)
				job_append(job, "%s=%s ", setting.name, setting.value);
}

/* Number of virtual nodes; 0 if there are none. */
static unsigned job_nodes(const struct perf_job *job)
{
	struct oriel_peer peer = {.size = sizeof(peer)}, other = {.size = sizeof(other)};
	unsigned rank, i, count = 0;

	for (rank = 0; oriel_comm_peer(job->comm, rank, &peer) == ORIEL_OK && *peer.node; rank++) {
		for (i = 0; i < rank; i++)
			if (oriel_comm_peer(job->comm, i, &other) == ORIEL_OK &&
			    strcmp(peer.node, other.node) == 0)
				break;
		count += i == rank;
	}
	return count;
}

/* The command that reproduces the rows. */
static void job_set_command(struct perf_job *job, int argc, char **argv)
{
	unsigned nodes = job_nodes(job);
	int i;

	job_append_settings(job);
	job_append(job, "oriel run -n %u", job->ranks);
	if (nodes)
		job_append(job, " --nodes %u", nodes);
	job_append(job, " oriel perf");
	for (i = 1; i < argc; i++)
		if (strcmp(argv[i], "--progress") != 0)
			job_append(job, " %s", argv[i]);
}

/* The path between ranks 0 and 1, on which all ranks agree. */
static void job_read_paths(struct perf_job *job)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	if (job->ranks > 1)
		oriel_comm_path_between(job->comm, 0, 1, &job->path);
	if (oriel_comm_nic(job->comm, &nic) != ORIEL_OK)
		return;
	job->is_software = nic.is_software;
	job->is_sink = nic.is_sink;
}

enum oriel_status perf_job_open(struct perf_job *job, const struct perf_options *options, int argc,
				char **argv)
{
	const struct oriel_comm_attr attr = {.size = sizeof(attr),
					     .flags = options->is_gpu ? ORIEL_COMM_GPU : 0};
	double start = tool_now_ns();
	enum oriel_status status;

	*job = (struct perf_job){.options = options};
	if (sched_getaffinity(0, sizeof(job->allowed), &job->allowed) == 0)
		job->cores = (unsigned)CPU_COUNT(&job->allowed);
	status = oriel_bootstrap_open_env(0, &job->bootstrap);
	if (status != ORIEL_OK)
		return status;
	if (options->is_gpu)
		status = oriel_tune_gpu_open(job->bootstrap.rank, &job->stream);
	if (status == ORIEL_OK)
		status = oriel_comm_create(&job->bootstrap, &attr, &job->comm);
	if (status != ORIEL_OK) {
		oriel_tune_gpu_close(job->stream);
		oriel_bootstrap_close(&job->bootstrap);
		return status;
	}
	job->open_ns = tool_now_ns() - start;
	job->rank = oriel_comm_rank(job->comm);
	job->ranks = oriel_comm_size(job->comm);
	job_read_paths(job);
	job_set_command(job, argc, argv);
	perf_job_pin(job, 0);
	return ORIEL_OK;
}

void perf_job_close(struct perf_job *job)
{
	perf_p2p_close(job);
	free(job->source);
	free(job->sink);
	perf_gather_close(job);
	oriel_comm_destroy(job->comm);
	oriel_bootstrap_close(&job->bootstrap);
	oriel_tune_gpu_close(job->stream);
}

/* Written once, so that no timed copy takes a page fault. */
static char *job_memory(uint64_t length)
{
	char *memory = aligned_alloc(JOB_PAGE, length);

	if (memory)
		memset(memory, 1, length);
	return memory;
}

enum oriel_status perf_job_reserve(struct perf_job *job, uint64_t bytes)
{
	uint64_t length = (bytes + JOB_PAGE) / JOB_PAGE * JOB_PAGE;

	job->bytes = length;
	job->source = job_memory(length);
	job->sink = job_memory(length);
	return oriel_comm_agree(job->comm, job->source && job->sink ? ORIEL_OK : ORIEL_ERR_NOMEM);
}
