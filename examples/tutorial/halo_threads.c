/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The halo exchange by device operations on the CPU; the ranks are threads of this process. See
 * docs/tutorial.md.
 */
#include <pthread.h>

#include "line.h"

#define RANKS 4u

static struct oriel_local_job *job;

/* [rank] */
static void *run_rank(void *argument)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 2 * ROOM * sizeof(double)};
	unsigned rank = *(const unsigned *)argument;
	struct oriel_bootstrap bootstrap;
	struct oriel_dev_window device;
	struct oriel_window *window;
	struct oriel_comm *comm;
	double *cells;

	must(oriel_bootstrap_open_local(job, rank, &bootstrap));
	must(oriel_comm_create(&bootstrap, NULL, &comm));
	must(oriel_window_create(comm, &attr, &window));
	must(oriel_window_device(window, &device));

	cells = oriel_dev_address(&device, rank, line_at(0, 0));
	cells[CELLS / 2] = rank + 1;
	for (unsigned s = 0; s < STEPS; s++)
		must(line_step(&device, oriel_dev_thread(), s));
	line_verify(oriel_dev_address(&device, rank, line_at(STEPS, 0)), rank, RANKS);

	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}
/* [/rank] */

/* [main] */
int main(void)
{
	pthread_t threads[RANKS];
	unsigned ranks[RANKS];

	must(oriel_local_job_create(RANKS, &job));
	for (unsigned i = 0; i < RANKS; i++) {
		ranks[i] = i;
		if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]))
			return 1;
	}
	for (unsigned i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
	oriel_local_job_destroy(job);
	return 0;
}
/* [/main] */
