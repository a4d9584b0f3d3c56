/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shrink_threads: ranks that are threads of this process. If all call, the new communicator has all
 * of them; one that does not come can neither be killed nor be left out while another is left, so
 * the call is refused, and may be made again.
 */
#include <oriel/oriel.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 3u

static struct oriel_local_job *job;
static pthread_barrier_t all, but_one;

static void expect(bool claim, const char *what)
{
	if (claim)
		return;
	printf("broken: %s: %s\n", what, oriel_last_error());
	exit(1);
}

static void shrink_again(struct oriel_comm *comm, struct oriel_comm **survivors)
{
	expect(oriel_comm_shrink(comm, NULL, survivors) == ORIEL_OK, "no shrink");
	expect(oriel_comm_size(*survivors) == RANKS, "a thread is missing");
	expect(oriel_comm_barrier(*survivors) == ORIEL_OK, "no barrier");
	expect(oriel_comm_destroy(comm) == ORIEL_OK, "it is not destroyed");
}

static void *rank_main(void *argument)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .flags = ORIEL_COMM_SHRINK,
				       .timeout_ns = 3000000000};
	unsigned rank = (unsigned)(uintptr_t)argument;
	struct oriel_comm *comm, *survivors, *others;
	struct oriel_bootstrap end;

	expect(oriel_bootstrap_open_local(job, rank, &end) == ORIEL_OK, "no bootstrap");
	expect(oriel_comm_create(&end, &attr, &comm) == ORIEL_OK, "no communicator");
	shrink_again(comm, &survivors);
	if (rank != 1) {
		expect(oriel_comm_shrink(survivors, NULL, &others) == ORIEL_ERR_STATE &&
			       strstr(oriel_last_error(), "rank 1 does not come, and is a thread"),
		       "a thread is left out");
		pthread_barrier_wait(&but_one);
	}
	/* Rank 1 comes once the others were refused. */
	pthread_barrier_wait(&all);
	shrink_again(survivors, &others);
	expect(oriel_comm_destroy(others) == ORIEL_OK, "it is not destroyed");
	oriel_bootstrap_close(&end);
	return NULL;
}

int main(void)
{
	pthread_t threads[RANKS];
	unsigned rank;

	pthread_barrier_init(&all, NULL, RANKS);
	pthread_barrier_init(&but_one, NULL, RANKS - 1);
	expect(oriel_local_job_create(RANKS, &job) == ORIEL_OK, "no job");
	for (rank = 0; rank < RANKS; rank++)
		expect(pthread_create(&threads[rank], NULL, rank_main, (void *)(uintptr_t)rank) ==
			       0,
		       "no thread");
	for (rank = 0; rank < RANKS; rank++)
		pthread_join(threads[rank], NULL);
	expect(oriel_local_job_destroy(job) == ORIEL_OK, "the job is not destroyed");
	return 0;
}
