/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that joins, makes a communicator and a window, puts eight bytes to one rank of another
 * node, or to START_PEERS of the environment, and flushes them. Rank 0 prints the time of the
 * slowest rank and what ranks hold then, as one JSON object. run.py starts it: as a rank of the job
 * that the environment describes, or, as `start N`, N ranks as threads of one process. START_NS of
 * the environment is CLOCK_MONOTONIC from which it counts.
 */
#include <dirent.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>

#include "../bench.h"

#define LENGTH 4096u

/* Numbers of a rank. */
struct held {
	double ready_us;  /* since START_NS until the put is complete */
	double create_us; /* ... until the communicator exists */
	double rss_kib, pss_kib, dirty_kib, space_kib, files, threads, links;
};

#define HELD (sizeof(struct held) / sizeof(double))

static const char *const names[HELD] = {"ready_us",  "create_us", "rss_kib", "pss_kib", "dirty_kib",
					"space_kib", "files",     "threads", "links"};

static double begun; /* in us */

/* The number behind @name in a file of /proc/self. */
static double proc_field(const char *file, const char *name)
{
	char line[256];
	double value = 0;
	FILE *f = fopen(file, "r");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtod(line + strlen(name), NULL);
	if (f)
		fclose(f);
	return value;
}

static double count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	double count = -3; /* "." and ".." and the directory itself */

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static double count_links(const struct oriel_comm *comm, unsigned size)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	double count = 0;
	unsigned i;

	for (i = 0; i < size; i++)
		if (oriel_comm_peer(comm, i, &peer) == ORIEL_OK && peer.path == ORIEL_PATH_RDMA)
			count += peer.is_connected;
	return count;
}

/* The numbers of this process, of which a rank has a part if it has several @ranks. */
static void measure(struct held *held, unsigned ranks)
{
	held->rss_kib = proc_field("/proc/self/smaps_rollup", "Rss:") / ranks;
	held->pss_kib = proc_field("/proc/self/smaps_rollup", "Pss:") / ranks;
	held->dirty_kib = proc_field("/proc/self/smaps_rollup", "Private_Dirty:") / ranks;
	held->space_kib = proc_field("/proc/self/status", "VmSize:") / ranks;
	held->threads = proc_field("/proc/self/status", "Threads:") / ranks;
	held->files = count_files() / ranks;
}

static void print(const struct held *all, unsigned size, unsigned domain, bool has_threads)
{
	double *values = calloc(size, sizeof(*values));
	unsigned i, rank;

	printf("{\"ranks\": %u, \"domain\": %u, \"as\": \"%s\"", size, domain,
	       has_threads ? "threads" : "processes");
	for (i = 0; i < HELD; i++) {
		for (rank = 0; rank < size; rank++)
			memcpy(&values[rank], (const char *)&all[rank] + i * sizeof(double),
			       sizeof(double));
		printf(", \"%s\": %.1f", names[i], median(values, size));
		printf(", \"%s_max\": %.1f", names[i], values[size - 1]);
	}
	printf("}\n");
	free(values);
}

/* All ranks return together, so that none ends while another measures. */
static void run_rank(const struct oriel_bootstrap *bootstrap, bool has_threads)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = LENGTH};
	struct oriel_window *window;
	struct held held = {0}, *all;
	struct oriel_comm *comm;
	const char *given = getenv("START_PEERS");
	unsigned rank, size, i, peers = given ? (unsigned)atoi(given) : 1;
	uint64_t word = 1;

	check(oriel_comm_create(bootstrap, NULL, &comm));
	held.create_us = now() - begun;
	rank = oriel_comm_rank(comm);
	size = oriel_comm_size(comm);
	check(oriel_window_create(comm, &attr, &window));
	for (i = 0; i < peers; i++)
		check(oriel_window_put(window, (rank + size / 2 + i) % size, 0, &word,
				       sizeof(word)));
	check(oriel_window_flush(window, 0));
	held.ready_us = now() - begun;
	check(oriel_comm_barrier(comm));
	held.links = count_links(comm, size);
	/* Each reading of a large process takes it a while: one rank does it for all threads. */
	if (rank == 0 || !has_threads)
		measure(&held, has_threads ? size : 1);
	check(oriel_comm_barrier(comm));
	all = calloc(size, sizeof(*all));
	check(oriel_comm_all_gather(comm, &held, all, sizeof(held)));
	for (i = 1; i < size && has_threads; i++)
		memcpy(&all[i].rss_kib, &all[0].rss_kib,
		       offsetof(struct held, links) - offsetof(struct held, rss_kib));
	if (rank == 0)
		print(all, size, oriel_comm_domain_size(comm), has_threads);
	free(all);
	check(oriel_window_destroy(window));
	check(oriel_comm_destroy(comm));
}

struct thread {
	pthread_t id;
	struct oriel_local_job *job;
	unsigned rank;
};

static void *run_thread(void *argument)
{
	struct thread *thread = argument;
	struct oriel_bootstrap bootstrap;

	check(oriel_bootstrap_open_local(thread->job, thread->rank, &bootstrap));
	run_rank(&bootstrap, true);
	check(oriel_bootstrap_close(&bootstrap));
	return NULL;
}

static void run_threads(unsigned size)
{
	struct thread *threads = calloc(size, sizeof(*threads));
	struct oriel_local_job *job;
	unsigned i;

	check(oriel_local_job_create(size, &job));
	for (i = 0; i < size; i++) {
		threads[i].job = job;
		threads[i].rank = i;
		if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0) {
			fprintf(stderr, "cannot start thread %u of %u\n", i, size);
			exit(1);
		}
	}
	for (i = 0; i < size; i++)
		pthread_join(threads[i].id, NULL);
	check(oriel_local_job_destroy(job));
	free(threads);
}

int main(int argc, char **argv)
{
	const char *start = getenv("START_NS");

	begun = start ? strtod(start, NULL) / 1e3 : now();
	if (argc > 1)
		run_threads((unsigned)atoi(argv[1]));
	else
		run_rank(NULL, false);
	return 0;
}
