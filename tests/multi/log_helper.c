/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for log_test.py: log_helper, in a job of the environment; log_helper relaxed, with that
 * net_order in its attributes; log_helper THREADS, with threads as ranks; log_helper THREADS table,
 * the same with a bootstrap table of its own. A rank makes a communicator, a region, a window and
 * an all-gather. Prints failures.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>

enum { LOG_THREADS = 16, LOG_BYTES = 65536 };

struct log_rank {
	struct oriel_local_job *job;
	struct oriel_bootstrap_ops ops; /* a table of its own */
	unsigned rank;
	bool has_table;
	int code;
};

static enum oriel_status use_all(struct oriel_comm *comm, void *memory)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr), .length = LOG_BYTES};
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .buffer = memory,
				  .length = LOG_BYTES};
	struct oriel_allgather *gather = NULL;
	struct oriel_region *region = NULL;
	struct oriel_window *window = NULL;
	enum oriel_status status;

	status = oriel_region_register(comm, memory, LOG_BYTES, &region);
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &window);
	if (status == ORIEL_OK)
		status = oriel_allgather_create(comm, &view, NULL, &gather);
	oriel_allgather_destroy(gather);
	oriel_window_destroy(window);
	oriel_region_unregister(region);
	return status;
}

static unsigned net_order; /* of the attributes */

static enum oriel_status run_rank(const struct oriel_bootstrap *bootstrap)
{
	const struct oriel_comm_attr attr = {.size = sizeof(attr), .net_order = net_order};
	struct oriel_comm *comm = NULL;
	enum oriel_status status;
	void *memory = NULL;

	status = oriel_memory_alloc(LOG_BYTES, 0, &memory);
	if (status == ORIEL_OK)
		status = oriel_comm_create(bootstrap, &attr, &comm);
	if (status == ORIEL_OK)
		status = use_all(comm, memory);
	oriel_comm_destroy(comm);
	oriel_memory_free(memory);
	return status;
}

static int finish(enum oriel_status status, struct oriel_bootstrap *bootstrap)
{
	if (status == ORIEL_OK)
		status = run_rank(bootstrap);
	if (status != ORIEL_OK)
		printf("log_helper: %s: %s\n", oriel_status_name(status), oriel_last_error());
	oriel_bootstrap_close(bootstrap);
	return status == ORIEL_OK ? 0 : 1;
}

static void *run_thread(void *argument)
{
	struct oriel_bootstrap bootstrap = {0};
	struct log_rank *r = argument;
	enum oriel_status status = oriel_bootstrap_open_local(r->job, r->rank, &bootstrap);

	if (status == ORIEL_OK && r->has_table) {
		r->ops = *bootstrap.ops;
		bootstrap.ops = &r->ops;
	}
	r->code = finish(status, &bootstrap);
	return NULL;
}

static int run_threads(unsigned count, bool has_table)
{
	struct log_rank ranks[LOG_THREADS];
	pthread_t threads[LOG_THREADS];
	struct oriel_local_job *job;
	int code = 0;
	unsigned i;

	if (count > LOG_THREADS || oriel_local_job_create(count, &job) != ORIEL_OK)
		return 1;
	for (i = 0; i < count; i++) {
		ranks[i] = (struct log_rank){.job = job, .rank = i, .has_table = has_table};
		if (pthread_create(&threads[i], NULL, run_thread, &ranks[i]) != 0)
			return 1;
	}
	for (i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		code |= ranks[i].code;
	}
	oriel_local_job_destroy(job);
	return code;
}

int main(int argc, char **argv)
{
	struct oriel_bootstrap bootstrap = {0};
	enum oriel_status status;

	if (argc > 1 && strcmp(argv[1], "relaxed") == 0)
		net_order = ORIEL_NET_ORDER_RELAXED;
	else if (argc > 1)
		return run_threads((unsigned)atoi(argv[1]), argc > 2);
	status = oriel_bootstrap_open_env(0, &bootstrap);
	return finish(status, &bootstrap);
}
