/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each process of a job is a rank of a communicator of processes, and at the same time its threads
 * are the ranks of a communicator of their own: both work at once, and neither notices the other.
 */
#include <oriel/oriel.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 3u
#define ROUNDS 200u

#define MUST(claim)                                                                             \
	((claim) ? (void)0                                                                      \
		 : (fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, oriel_last_error()), \
		    exit(1)))

struct seat {
	struct oriel_local_job *job;
	unsigned rank;
	pthread_t thread;
};

/* Each rank puts the number of the round to the next one, whose memory has it after the barrier. */
static void use(struct oriel_comm *comm)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr), .length = sizeof(uint64_t)};
	unsigned rank = oriel_comm_rank(comm), size = oriel_comm_size(comm);
	struct oriel_window *window;
	void *memory;

	MUST(oriel_window_create(comm, &attr, &window) == ORIEL_OK);
	MUST(oriel_window_buffer(window, 0, &memory, NULL) == ORIEL_OK);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		MUST(oriel_window_put_value(window, (rank + 1) % size, 0, round * 100 + rank) ==
		     ORIEL_OK);
		MUST(oriel_window_flush(window, 0) == ORIEL_OK);
		MUST(oriel_comm_barrier(comm) == ORIEL_OK);
		MUST(*(volatile uint64_t *)memory == round * 100 + (rank + size - 1) % size);
		MUST(oriel_comm_barrier(comm) == ORIEL_OK);
	}
	MUST(oriel_window_destroy(window) == ORIEL_OK);
}

static void *sit(void *context)
{
	struct seat *seat = context;
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;

	MUST(oriel_bootstrap_open_local(seat->job, seat->rank, &bootstrap) == ORIEL_OK);
	MUST(oriel_comm_create(&bootstrap, NULL, &comm) == ORIEL_OK);
	MUST(oriel_comm_size(comm) == THREADS);
	use(comm);
	MUST(oriel_comm_destroy(comm) == ORIEL_OK);
	MUST(oriel_bootstrap_close(&bootstrap) == ORIEL_OK);
	return NULL;
}

int main(void)
{
	struct oriel_local_job *job;
	struct seat seats[THREADS];
	struct oriel_comm *comm;

	MUST(oriel_comm_create(NULL, NULL, &comm) == ORIEL_OK);
	MUST(oriel_local_job_create(THREADS, &job) == ORIEL_OK);
	for (unsigned i = 0; i < THREADS; i++) {
		seats[i] = (struct seat){.job = job, .rank = i};
		MUST(pthread_create(&seats[i].thread, NULL, sit, &seats[i]) == 0);
	}
	use(comm);
	for (unsigned i = 0; i < THREADS; i++)
		MUST(pthread_join(seats[i].thread, NULL) == 0);
	MUST(oriel_local_job_destroy(job) == ORIEL_OK);
	use(comm);
	MUST(oriel_comm_destroy(comm) == ORIEL_OK);
	return 0;
}
