/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a test on GPUs: threads of one process, or this process is one of several. The
 * programs of this folder use it.
 */
#ifndef TESTS_DEVICE_RANKS_H
#define TESTS_DEVICE_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

/*
 * The body of a rank; @node is that of a thread, NULL: not set. Returns claims that do not
 * hold.
 */
typedef unsigned rank_function(const struct oriel_bootstrap *bootstrap, const char *node);

/* A call that is no claim but must succeed; in functions that have a rank @r. */
#define MUST(call) rank_must((r)->rank, call, __LINE__)

static inline void rank_must(unsigned rank, enum oriel_status status, int line)
{
	if (status == ORIEL_OK)
		return;
	printf("FAIL rank %u: line %d: %s: %s\n", rank, line, oriel_status_name(status),
	       oriel_last_error());
	exit(1);
}

#if defined(__CUDACC__) || defined(FAKECUDA_RUNTIME)
#define CUDA(call) rank_must_cuda((r)->rank, call, __LINE__)

static inline void rank_must_cuda(unsigned rank, cudaError_t error, int line)
{
	if (error == cudaSuccess)
		return;
	printf("FAIL rank %u: line %d: %s\n", rank, line, cudaGetErrorString(error));
	exit(1);
}
#endif

struct rank_thread {
	rank_function *run;
	struct oriel_local_job *job;
	unsigned rank;
	char node[16];
	unsigned failures;
	pthread_t id;
};

static void *rank_thread_main(void *argument)
{
	struct rank_thread *t = (struct rank_thread *)argument;
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_local(t->job, t->rank, &bootstrap) != ORIEL_OK) {
		printf("FAIL rank %u: %s\n", t->rank, oriel_last_error());
		exit(1);
	}
	t->failures = t->run(&bootstrap, t->node);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static unsigned run_threads(rank_function *run, unsigned count, unsigned nodes)
{
	struct rank_thread *threads = (struct rank_thread *)calloc(count, sizeof(*threads));
	struct oriel_local_job *job;
	unsigned failures = 0;

	if (!threads || oriel_local_job_create(count, &job) != ORIEL_OK)
		exit(1);
	for (unsigned i = 0; i < count; i++) {
		threads[i].run = run;
		threads[i].job = job;
		threads[i].rank = i;
		snprintf(threads[i].node, sizeof(threads[i].node), "node %u", i * nodes / count);
		if (pthread_create(&threads[i].id, NULL, rank_thread_main, &threads[i]))
			exit(1);
	}
	for (unsigned i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		failures += threads[i].failures;
	}
	oriel_local_job_destroy(job);
	free(threads);
	return failures;
}

static unsigned run_process(rank_function *run)
{
	struct oriel_bootstrap bootstrap;
	unsigned failures;

	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK) {
		printf("FAIL %s\n", oriel_last_error());
		exit(1);
	}
	failures = run(&bootstrap, NULL);
	oriel_bootstrap_close(&bootstrap);
	return failures;
}

/* PROGRAM THREADS [NODES], or PROGRAM alone for a process of oriel run. */
static int run_ranks(rank_function *run, int argc, char **argv)
{
	/*
	 * Modules that are loaded at the first launch would wait for kernels that wait for it.
	 */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	/* And so would kernels of several ranks in one queue of one GPU. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	/* Claims that hold are printed at once, also if the program is killed later. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2)
		return run_process(run) ? 1 : 0;
	return run_threads(run, (unsigned)atoi(argv[1]), argc > 2 ? (unsigned)atoi(argv[2]) : 1)
		       ? 1
		       : 0;
}

#endif
