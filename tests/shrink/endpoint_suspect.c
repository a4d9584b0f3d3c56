/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for shrink_test.py, of two on one machine: rank 1 sends to an endpoint of rank 0, without
 * a copy, and stops. Rank 0 prints the status of its shrink, and the ranks that may still write to
 * the memory that it received into, and to other memory; rank 1 is killed, and it prints both
 * again.
 */
#include <oriel/oriel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define LENGTH ((size_t)1 << 20)

static void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	printf("broken: %s\n", oriel_last_error());
	exit(2);
}

/* The rank that may still write to @memory, -1: none. */
static int writer(const struct oriel_comm *comm, const char *memory)
{
	unsigned rank;

	must(oriel_comm_unsafe(comm, memory, LENGTH, &rank));
	return (int)rank;
}

static void shrink(struct oriel_comm *comm, const char *received, const char *other)
{
	struct oriel_comm *survivors = NULL;
	enum oriel_status status = oriel_comm_shrink(comm, NULL, &survivors);

	printf("%s %d %d\n", oriel_status_name(status), writer(comm, received),
	       writer(comm, other));
	must(oriel_comm_destroy(survivors));
}

static void exchange(struct oriel_comm *comm, void *memory)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	struct oriel_p2p_buffer buffer = {memory, LENGTH, NULL};
	unsigned rank = oriel_comm_rank(comm);
	struct oriel_p2p_request request;
	struct oriel_p2p *p2p;

	must(oriel_comm_p2p(comm, !rank, &attr, &p2p));
	must(rank ? oriel_p2p_send(p2p, 0, &buffer, &request)
		  : oriel_p2p_recv(p2p, 0, &buffer, &request));
	must(oriel_p2p_wait(p2p, &request, 0));
}

int main(void)
{
	const struct oriel_comm_attr attr = {.size = sizeof(attr), .flags = ORIEL_COMM_SHRINK};
	void *memory = NULL, *other = NULL;
	struct oriel_comm *comm;
	pid_t pids[2], pid = getpid();

	must(oriel_comm_create(NULL, &attr, &comm));
	must(oriel_memory_alloc(LENGTH, 0, &memory));
	must(oriel_memory_alloc(LENGTH, 0, &other));
	must(oriel_comm_all_gather(comm, &pid, pids, sizeof(pid)));
	exchange(comm, memory);
	if (oriel_comm_rank(comm) == 1)
		raise(SIGSTOP);
	shrink(comm, memory, other);
	kill(pids[1], SIGKILL);
	shrink(comm, memory, other);
	must(oriel_comm_destroy(comm));
	oriel_memory_free(memory);
	oriel_memory_free(other);
	return 0;
}
