/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak --plan SEED: print the plan of the round of SEED, for soak.py. soak SEED: run it, with
 * all ranks as threads, or as one rank of a job.
 *
 * Exits 0 if the round passed, which for a round with a fault includes that it breaks; 3 if a
 * check failed.
 */
#include "soak.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct soak_thread {
	const struct soak_plan *plan;
	struct oriel_local_job *job;
	unsigned rank;
};

static void *thread_main(void *argument)
{
	struct soak_thread *t = argument;
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_local(t->job, t->rank, &bootstrap) != ORIEL_OK)
		abort();
	soak_rank_main(t->plan, &bootstrap);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static void run_threads(const struct soak_plan *plan)
{
	struct soak_thread ranks[SOAK_RANKS];
	pthread_t threads[SOAK_RANKS];
	struct oriel_local_job *job;
	unsigned i;

	if (oriel_local_job_create(plan->ranks, &job) != ORIEL_OK)
		abort();
	for (i = 0; i < plan->ranks; i++) {
		ranks[i] = (struct soak_thread){plan, job, i};
		if (pthread_create(&threads[i], NULL, thread_main, &ranks[i]))
			abort();
	}
	for (i = 0; i < plan->ranks; i++)
		pthread_join(threads[i], NULL);
	oriel_local_job_destroy(job);
}

static bool run_process(const struct soak_plan *plan)
{
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK) {
		fprintf(stderr, "soak: seed %llu: %s\n", (unsigned long long)plan->seed,
			oriel_last_error());
		return false;
	}
	if (bootstrap.size != plan->ranks) {
		fprintf(stderr, "soak: seed %llu wants %u ranks, not %u\n",
			(unsigned long long)plan->seed, plan->ranks, bootstrap.size);
		return false;
	}
	soak_rank_main(plan, &bootstrap);
	oriel_bootstrap_close(&bootstrap);
	return true;
}

/* A round with a fault fills the log; failed checks print texts of their own. */
static void drop_log(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)level;
	(void)message;
}

int main(int argc, char **argv)
{
	bool is_plan = argc == 3 && strcmp(argv[1], "--plan") == 0;
	struct soak_plan plan;
	char *end = NULL;

	if (argc == 2 || is_plan)
		soak_plan_draw(&plan, strtoull(argv[argc - 1], &end, 10));
	if (!end || *end || end == argv[argc - 1]) {
		fprintf(stderr, "usage: soak [--plan] SEED\n");
		return 2;
	}
	if (is_plan) {
		printf("ranks=%u nodes=%u threads=%u fate=%s sure=%u victim=%u epochs=%u lanes=%u "
		       "hca=%s\n",
		       plan.ranks, plan.nodes, plan.is_threads, soak_fate_name(plan.fate),
		       soak_fate_is_sure(plan.fate), plan.victim, plan.epochs, plan.lanes,
		       plan.hca);
		return 0;
	}
	setenv("ORIEL_HCA", "soft", 1);
	setenv("ORIEL_SOFT_HCA", plan.hca, 1);
	if (plan.fate != SOAK_SURVIVES) {
		/*
		 * The launcher signals the other ranks when one dies; they must end by
		 * themselves.
		 */
		signal(SIGTERM, SIG_IGN);
		if (!getenv("ORIEL_LOG"))
			oriel_log_set_sink(drop_log, NULL);
	}
	if (!plan.is_threads)
		return run_process(&plan) ? 0 : 3;
	run_threads(&plan);
	return 0;
}
