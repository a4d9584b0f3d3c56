/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak --plan SEED: print the plan of the round of SEED, for soak.py. soak SEED: run it, with
 * all ranks as threads, or as one rank of a job. soak --join SEED: one of the ranks that come
 * later, which another rank starts.
 *
 * Exits 0 if the round passed, which for a round with a fault includes that it breaks; 3 if a
 * check failed.
 */
#include "soak.h"

#include <dirent.h>
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

static unsigned count_names(const char *folder)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;
	unsigned count = 0;

	if (!directory)
		abort();
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

/* ThreadSanitizer begins a thread of its own with the first one of a program, which must count. */
static void *thread_first(void *argument)
{
	return argument;
}

/* Counts all that a library may leave behind in a process. */
static void count_all(char text[SOAK_TEXT])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned shared = 0;
	char line[SOAK_TEXT];

	if (!maps)
		abort();
	while (fgets(line, sizeof(line), maps))
		shared += strstr(line, "memfd:") != NULL;
	fclose(maps);
	snprintf(text, SOAK_TEXT, "%u descriptors, %u shared mappings, %u threads",
		 count_names("/proc/self/fd"), shared, count_names("/proc/self/task"));
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
	bool is_join = argc == 3 && strcmp(argv[1], "--join") == 0;
	char before[SOAK_TEXT], after[SOAK_TEXT];
	struct soak_plan plan;
	pthread_t first;
	bool is_well = true;
	char *end = NULL;

	if (argc == 2 || is_plan || is_join)
		soak_plan_draw(&plan, strtoull(argv[argc - 1], &end, 10));
	if (!end || *end || end == argv[argc - 1]) {
		fprintf(stderr, "usage: soak [--plan | --join] SEED\n");
		return 2;
	}
	if (is_plan) {
		printf("ranks=%u nodes=%u threads=%u fate=%s sure=%u victim=%u heal=%s "
		       "newcomers=%u proxied=%u epochs=%u lanes=%u hca=%s\n",
		       plan.ranks, plan.nodes, plan.is_threads, soak_fate_name(plan.fate),
		       soak_fate_is_sure(plan.fate), plan.victim, soak_heal_name(plan.heal),
		       plan.newcomers, plan.is_proxied, plan.epochs, plan.lanes, plan.hca);
		return 0;
	}
	setenv("ORIEL_HCA", "soft", 1);
	setenv("ORIEL_SOFT_HCA", plan.hca, 1);
	if (plan.is_proxied)
		setenv("ORIEL_POST", "proxy", 1);
	if (plan.fate != SOAK_SURVIVES) {
		/*
		 * The launcher signals the other ranks when one dies; they must end by
		 * themselves.
		 */
		signal(SIGTERM, SIG_IGN);
		if (!getenv("ORIEL_LOG"))
			oriel_log_set_sink(drop_log, NULL);
	}
	if (pthread_create(&first, NULL, thread_first, NULL) || pthread_join(first, NULL))
		abort();
	count_all(before);
	if (is_join)
		soak_rank_join(&plan);
	else if (plan.is_threads)
		run_threads(&plan);
	else
		is_well = run_process(&plan);
	count_all(after);
	if (is_well && strcmp(before, after) != 0) {
		fprintf(stderr, "soak: seed %llu: WRONG: %s are left, not %s\n",
			(unsigned long long)plan.seed, after, before);
		is_well = false;
	}
	return is_well ? 0 : 3;
}
