/* SPDX-License-Identifier: Apache-2.0 */
/* This process as a rank: started, joined, pinned, with memory to send from. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"
#include "tool.h"

#define JOB_PAGE 4096u

bool perf_job_is_launched(void)
{
	return getenv("WORLD_SIZE") != NULL;
}

int perf_job_launch(const struct perf_options *options, int argc, char **argv)
{
	char self[4096], ranks[16];
	char run[] = "run", count[] = "-n", plain[] = "--no-prefix", end[] = "--", perf[] = "perf";
	char *head[] = {self, run, count, ranks, plain, end, self, perf};
	size_t heads = sizeof(head) / sizeof(head[0]);
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char **all;

	if (length < 0) {
		fprintf(stderr, "oriel perf: cannot find its own program: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	self[length] = '\0';
	snprintf(ranks, sizeof(ranks), "%u", options->ranks);
	all = calloc(heads + (size_t)argc, sizeof(*all));
	if (!all) {
		fprintf(stderr, "oriel perf: no memory\n");
		return TOOL_FAILED;
	}
	memcpy(all, head, sizeof(head));
	memcpy(all + heads, argv + 1, (size_t)(argc - 1) * sizeof(*all));
	execv(self, all);
	fprintf(stderr, "oriel perf: cannot start `oriel run`: %s\n", strerror(errno));
	free(all);
	return TOOL_FAILED;
}

bool perf_job_is_crowded(const struct perf_job *job)
{
	return job->ranks * job->options->threads > job->cores;
}

/* Core number @index of those this process may use. */
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

void perf_job_pin(const struct perf_job *job, uint32_t thread)
{
	unsigned place = job->rank * job->options->threads + thread;
	cpu_set_t one;

	if (job->options->pin == PERF_PIN_OFF ||
	    (job->options->pin == PERF_PIN_AUTO && perf_job_is_crowded(job)))
		return;
	if (job->cores && job_core(&job->allowed, place % job->cores, &one))
		pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

/* As somebody would type it to get the same rows. */
static void job_tell_command(struct perf_job *job, int argc, char **argv)
{
	size_t room = sizeof(job->command);
	size_t used;
	int i;

	used = (size_t)snprintf(job->command, room, "oriel run -n %u oriel perf", job->ranks);
	for (i = 1; i < argc && used < room; i++)
		used += (size_t)snprintf(job->command + used, room - used, " %s", argv[i]);
}

enum oriel_status perf_job_open(struct perf_job *job, const struct perf_options *options, int argc,
				char **argv)
{
	double start = perf_now_ns();
	enum oriel_status status;

	*job = (struct perf_job){.options = options};
	if (sched_getaffinity(0, sizeof(job->allowed), &job->allowed) == 0)
		job->cores = (unsigned)CPU_COUNT(&job->allowed);
	status = oriel_bootstrap_open_env(0, &job->bootstrap);
	if (status != ORIEL_OK)
		return status;
	status = oriel_comm_create(&job->bootstrap, NULL, &job->comm);
	if (status != ORIEL_OK) {
		oriel_bootstrap_close(&job->bootstrap);
		return status;
	}
	job->open_ns = perf_now_ns() - start;
	job->rank = oriel_comm_rank(job->comm);
	job->ranks = oriel_comm_size(job->comm);
	job_tell_command(job, argc, argv);
	perf_job_pin(job, 0);
	return ORIEL_OK;
}

void perf_job_close(struct perf_job *job)
{
	free(job->source);
	free(job->sink);
	oriel_comm_destroy(job->comm);
	oriel_bootstrap_close(&job->bootstrap);
}

/* Written once, so that no timed copy meets a page for the first time. */
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

	job->source = job_memory(length);
	job->sink = job_memory(length);
	return oriel_comm_agree(job->comm, job->source && job->sink ? ORIEL_OK : ORIEL_ERR_NOMEM);
}
