/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of different nodes wait for a link to rank 1 that is never made. "absent": rank 1 never
 * calls. "other": rank 1 and the last rank connect with each other only. "abort": rank 0 aborts
 * long before the timeout. A waiting rank gets a status within the timeout, and a text that
 * names the rank it waits for.
 *
 * In the modes "left" and "mute" no rank has a link when rank 0 aborts, and the other ranks
 * learn of it by the bootstrap: "left", at once, because rank 0 leaves the bootstrap too;
 * "mute", where it stays, after their timeout.
 *
 * In the mode "dead" the last of four ranks exits, and the others post to it for the first time.
 *
 * CTest runs it: oriel run -n 3 --nodes 3 connect_late MODE; connect_late MODE 3: ranks are
 * threads.
 */
#include <oriel/dev.h>
#include <oriel/oriel.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_NS 6000000000u /* longer than a rank may be descheduled while all join */
#define LONG_NS 60000000000u
#define BLAME_NS                                                                     \
	5000000000u /* as long as a rank that receives other messages would wait for \
		     * the missing one */
#define RANKS_MOST 16u

static const char *late_mode;

#define CHECK(rank, claim)                                     \
	do {                                                   \
		if (!(claim))                                  \
			late_complain(rank, __LINE__, #claim); \
	} while (0)

static void late_complain(unsigned rank, int line, const char *claim)
{
	fprintf(stderr, "rank %u, line %d: %s: %s: %s\n", rank, line, claim,
		oriel_status_name(oriel_last_status()), oriel_last_error());
	exit(1);
}

static bool late_is(const char *mode)
{
	return strcmp(late_mode, mode) == 0;
}

static void *late_abort(void *argument)
{
	oriel_comm_abort(argument, "rank 1 is late");
	return NULL;
}

/* Abort from a thread while rank 0 waits. */
static void late_give_up(struct oriel_comm *comm, unsigned rank)
{
	struct oriel_health health = {.size = sizeof(health)};
	pthread_t aborter;
	unsigned late = 1;

	CHECK(rank, pthread_create(&aborter, NULL, late_abort, comm) == 0);
	CHECK(rank, oriel_comm_connect(comm, &late, 1) == ORIEL_ERR_ABORTED);
	CHECK(rank, oriel_comm_health(comm, &health) == ORIEL_OK);
	CHECK(rank, health.status == ORIEL_ERR_ABORTED && health.rank == 0);
	pthread_join(aborter, NULL);
}

static void late_wait(struct oriel_comm *comm, unsigned rank)
{
	struct oriel_health health = {.size = sizeof(health)};
	unsigned late = 1;

	CHECK(rank, oriel_comm_connect(comm, &late, 1) == ORIEL_ERR_TIMEOUT);
	CHECK(rank, strstr(oriel_last_error(), "with rank 1: "));
	CHECK(rank, oriel_comm_health(comm, &health) == ORIEL_OK);
	CHECK(rank, health.status == ORIEL_ERR_TIMEOUT && health.rank == 1);
	/* The failure is permanent. */
	CHECK(rank, oriel_comm_connect(comm, &late, 1) == ORIEL_ERR_TIMEOUT);
	CHECK(rank, oriel_comm_barrier(comm) == ORIEL_ERR_TIMEOUT);
}

static void late_pair(struct oriel_comm *comm, unsigned rank, unsigned other)
{
	struct oriel_peer peer = {.size = sizeof(peer)};

	CHECK(rank, oriel_comm_connect(comm, &other, 1) == ORIEL_OK);
	CHECK(rank, oriel_comm_peer(comm, other, &peer) == ORIEL_OK && peer.is_connected);
	CHECK(rank, oriel_comm_peer(comm, 0, &peer) == ORIEL_OK && !peer.is_connected);
}

/* Stay until the job ends. Rank 0 is the rank that is silent, or leaves. */
static enum oriel_status late_stay(const struct oriel_bootstrap *bootstrap)
{
	const struct oriel_bootstrap_ops *ops = bootstrap->ops;
	char never;

	if (late_is("abort"))
		return ops->barrier(bootstrap->context, LONG_NS);
	return ops->recv(bootstrap->context, 0, 0, &never, 1, LONG_NS);
}

/* Rank 0 aborts while no link carries that to the others. */
static void late_unlinked(const struct oriel_bootstrap *bootstrap, struct oriel_comm *comm)
{
	enum oriel_status heard = late_is("left") ? ORIEL_ERR_PEER : ORIEL_ERR_TIMEOUT;
	unsigned rank = bootstrap->rank;
	struct oriel_health health = {.size = sizeof(health)};
	uint64_t began;
	char never;

	if (rank == 0) {
		oriel_comm_abort(comm, "no link carries this abort");
		CHECK(rank, oriel_comm_barrier(comm) == ORIEL_ERR_ABORTED);
		CHECK(rank, late_is("left") || bootstrap->ops->recv(bootstrap->context, 1, 0,
								    &never, 1, LONG_NS) < 0);
		return;
	}
	began = oriel_cpu_clock_ns();
	CHECK(rank, oriel_comm_barrier(comm) == heard);
	CHECK(rank, late_is("mute") || oriel_cpu_clock_ns() - began < BLAME_NS);
	CHECK(rank, oriel_comm_health(comm, &health) == ORIEL_OK);
	CHECK(rank, health.status == heard && health.rank == 0);
}

/*
 * The last rank exits without a word, and the ranks post to it for the first time before the
 * failure of its few links has reached them, or after: they get the same.
 */
static void late_dead(const struct oriel_bootstrap *bootstrap, struct oriel_comm *comm)
{
	unsigned rank = bootstrap->rank, last = bootstrap->size - 1;
	struct oriel_health health = {.size = sizeof(health)};
	struct oriel_window *window;
	enum oriel_status status;
	uint64_t word = 1;

	CHECK(rank, oriel_window_create(comm, NULL, &window) == ORIEL_OK);
	CHECK(rank, oriel_comm_barrier(comm) == ORIEL_OK);
	if (rank == last)
		_exit(0);
	do {
		status = oriel_window_put_signal(window, last, 0, &word, 0, 0, 1);
		if (status == ORIEL_OK)
			status = oriel_window_flush(window, 0);
	} while (status == ORIEL_OK);
	CHECK(rank, status == ORIEL_ERR_PEER);
	CHECK(rank, strstr(oriel_last_error(), "rank 3"));
	CHECK(rank, oriel_comm_health(comm, &health) == ORIEL_OK);
	CHECK(rank, health.status == ORIEL_ERR_PEER && health.rank == (int)last);
	oriel_window_destroy(window);
}

static void late_rank(const struct oriel_bootstrap *bootstrap)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = late_is("abort") || late_is("left") ? LONG_NS
											 : LIMIT_NS,
				       .connect = late_is("dead") ? ORIEL_CONNECT_DEMAND
								  : ORIEL_CONNECT_LAZY};
	unsigned rank = bootstrap->rank, last = bootstrap->size - 1;
	bool has_partner = late_is("other") && (rank == 1 || rank == last);
	struct oriel_comm *comm;
	char node[16];

	snprintf(node, sizeof(node), "late%u", rank);
	attr.node = node;
	/* Ranks may start at very different times. */
	CHECK(rank, bootstrap->ops->barrier(bootstrap->context, LONG_NS) == ORIEL_OK);
	CHECK(rank, oriel_comm_create(bootstrap, &attr, &comm) == ORIEL_OK);
	if (late_is("dead"))
		late_dead(bootstrap, comm);
	else if (late_is("left") || late_is("mute"))
		late_unlinked(bootstrap, comm);
	else if (has_partner)
		late_pair(comm, rank, rank == 1 ? last : 1);
	else if (rank == 0 && late_is("abort"))
		late_give_up(comm, rank);
	else if (rank != 1 && !late_is("abort"))
		late_wait(comm, rank);
	/* A rank that waits for no link stays until the others have failed. */
	if (has_partner || (rank == 1 && (late_is("absent") || late_is("abort"))) ||
	    (late_is("abort") && rank != 0)) {
		CHECK(rank, late_stay(bootstrap) < 0);
		CHECK(rank, oriel_comm_barrier(comm) < 0);
	}
	oriel_comm_destroy(comm);
}

static void *late_thread(void *argument)
{
	struct oriel_bootstrap *bootstrap = argument;

	late_rank(bootstrap);
	oriel_bootstrap_close(bootstrap);
	return NULL;
}

static void late_threads(unsigned size)
{
	struct oriel_bootstrap ends[RANKS_MOST];
	pthread_t threads[RANKS_MOST];
	struct oriel_local_job *job;
	unsigned i;

	CHECK(0, oriel_local_job_create(size, &job) == ORIEL_OK);
	/* All ends are open before the first one may leave. */
	for (i = 0; i < size; i++)
		CHECK(i, oriel_bootstrap_open_local(job, i, &ends[i]) == ORIEL_OK);
	for (i = 0; i < size; i++)
		CHECK(i, pthread_create(&threads[i], NULL, late_thread, &ends[i]) == 0);
	for (i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
	oriel_local_job_destroy(job);
}

int main(int argc, char **argv)
{
	unsigned size = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	struct oriel_bootstrap bootstrap;

	if (argc < 2 || size > RANKS_MOST) {
		fprintf(stderr,
			"usage: connect_late absent|other|abort|left|mute|dead [THREADS]\n");
		return 2;
	}
	late_mode = argv[1];
	if (size) {
		late_threads(size);
		return 0;
	}
	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK) {
		fprintf(stderr, "%s\n", oriel_last_error());
		return 1;
	}
	late_rank(&bootstrap);
	oriel_bootstrap_close(&bootstrap);
	return 0;
}
