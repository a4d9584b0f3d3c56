/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_helper MODE: ranks of a job that hang, for hang_test.py. Each prints
 * "PID" before it does. "barrier": rank 2 computes for ever, the others are in a barrier of a
 * window. "signals": each rank waits for a signal of the next one, which never comes. "comm": the
 * same as "barrier" in a call of the host. "any": rank 0 waits for a signal of any rank. "flow":
 * all ranks go through barriers for ever, and nothing hangs. "handler": as "barrier", with a
 * handler of SIGUSR2 of the program's own. "p2p": each rank receives by an endpoint from the next
 * one, which sends nothing; "control": the same with control messages. "both": rank 0 receives by
 * an endpoint, and rank 1 waits for a signal. "send": rank 0 sends and drains, and rank 1 computes.
 * "nic": rank 0 signals rank 1 for ever, each time until its NIC has done so. "shrink": as "comm",
 * in a shrink. "grow": all ranks await a new one. "merge": they await the ranks that invite them,
 * which rank 0 plays and do not grow.
 */
#include <oriel/dev.h>
#include <oriel/oriel.h>
#include <oriel/p2p.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(claim)                                                                             \
	((claim) ? (void)0                                                                      \
		 : (fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, oriel_last_error()), \
		    exit(1)))

static int log_of_handler = -1;

static void handle(int number)
{
	(void)number;
	(void)!write(log_of_handler, "handled\n", 8);
}

/* As a program, or torch, that has the signal before there is a communicator. */
static void take_signal(void)
{
	struct sigaction action = {.sa_handler = handle};

	log_of_handler = open(getenv("ORIEL_LOG_FILE"), O_WRONLY | O_APPEND | O_CREAT, 0600);
	MUST(log_of_handler >= 0);
	MUST(sigaction(SIGUSR2, &action, NULL) == 0);
}

static void signal_for_ever(const struct oriel_dev_window *d, uint32_t peer)
{
	struct oriel_dev_group me = oriel_dev_thread();
	struct oriel_dev_ticket ticket;

	do
		MUST(oriel_dev_signal(d, me, peer, 5, ORIEL_SIGNAL_ADD, 1, &ticket) == ORIEL_OK);
	while (oriel_dev_wait_local(d, me, ticket, 0) == ORIEL_OK);
}

/* Rank 2 computes, and does not come. */
static void shrink(struct oriel_comm *comm, struct oriel_window *window)
{
	struct oriel_comm *survivors;

	oriel_comm_abort(comm, "it shrinks");
	MUST(oriel_window_destroy(window) == ORIEL_OK);
	(void)oriel_comm_shrink(comm, NULL, &survivors);
}

/* A test kills it. */
static void compute(void)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
}

/* @how: a mode. Endpoints wait for ever. */
static void wait_by_p2p(struct oriel_comm *comm, const char *how, unsigned peer)
{
	static char bytes[1 << 20];
	struct oriel_p2p_buffer buffer = {bytes, sizeof(bytes), NULL};
	struct oriel_p2p_request request;
	struct oriel_p2p *p2p;

	MUST(oriel_comm_p2p(comm, peer, NULL, &p2p) == ORIEL_OK);
	if (strcmp(how, "control") == 0)
		MUST(oriel_p2p_recv_control(p2p, 7, bytes, sizeof(bytes), &request) == ORIEL_OK);
	else if (strcmp(how, "send") == 0)
		MUST(oriel_p2p_send(p2p, 0, &buffer, &request) == ORIEL_OK);
	else
		MUST(oriel_p2p_recv(p2p, 0, &buffer, &request) == ORIEL_OK);
	if (strcmp(how, "send") == 0)
		(void)oriel_p2p_drain(p2p, 0);
	else
		(void)oriel_p2p_wait(p2p, &request, 0);
}

int main(int argc, char **argv)
{
	struct oriel_dev_group me = oriel_dev_thread();
	struct oriel_dev_window d;
	struct oriel_comm_attr attr = {.size = sizeof(attr)};
	struct oriel_invitation invitation;
	struct oriel_window *window;
	struct oriel_comm *comm, *alone, *made;
	unsigned rank, size;

	MUST(argc == 2);
	if (strcmp(argv[1], "handler") == 0)
		take_signal();
	if (strcmp(argv[1], "shrink") == 0)
		attr.flags = ORIEL_COMM_SHRINK;
	MUST(oriel_comm_create(NULL, &attr, &comm) == ORIEL_OK);
	MUST(oriel_window_create(comm, NULL, &window) == ORIEL_OK);
	MUST(oriel_window_device(window, &d) == ORIEL_OK);
	rank = oriel_comm_rank(comm);
	size = oriel_comm_size(comm);
	/* A barrier that all pass, so that the one that hangs is the second. */
	MUST(oriel_dev_barrier(&d, me, 3, 0) == ORIEL_OK);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	if (strcmp(argv[1], "flow") == 0)
		while (oriel_dev_barrier(&d, me, 3, 0) == ORIEL_OK)
			usleep(1000);
	else if (strcmp(argv[1], "p2p") == 0 || strcmp(argv[1], "control") == 0 ||
		 (rank == 0 && (strcmp(argv[1], "both") == 0 || strcmp(argv[1], "send") == 0)))
		wait_by_p2p(comm, argv[1], (rank + 1) % size);
	else if (strcmp(argv[1], "send") == 0)
		compute();
	else if (strcmp(argv[1], "signals") == 0 || strcmp(argv[1], "both") == 0)
		(void)oriel_dev_wait_signal_from(&d, me, (rank + 1) % size, 5, ORIEL_GE, 2, 0);
	else if (strcmp(argv[1], "nic") == 0 && rank == 0)
		signal_for_ever(&d, 1);
	else if (strcmp(argv[1], "any") == 0 && rank == 0)
		(void)oriel_dev_wait_signal(&d, me, 5, ORIEL_GE, 2, 0);
	else if (strcmp(argv[1], "grow") == 0) {
		if (rank == 0)
			MUST(oriel_comm_invite(comm, &invitation) == ORIEL_OK);
		(void)oriel_comm_grow(comm, 1, NULL, &made);
	} else if (strcmp(argv[1], "merge") == 0) {
		memset(&invitation, 0, sizeof(invitation));
		/* A part of its own, so that it is not the same communicator. */
		MUST(oriel_comm_split(comm, rank, 0, NULL, &alone) == ORIEL_OK);
		if (rank == 0)
			MUST(oriel_comm_invite(alone, &invitation) == ORIEL_OK);
		(void)oriel_comm_merge(comm, &invitation, NULL, &made);
	} else if (rank == 2 || strcmp(argv[1], "any") == 0 || strcmp(argv[1], "nic") == 0)
		compute();
	else if (strcmp(argv[1], "comm") == 0)
		(void)oriel_comm_barrier(comm);
	else if (strcmp(argv[1], "shrink") == 0)
		shrink(comm, window);
	else
		(void)oriel_dev_barrier(&d, me, 3, 0);
	return 1;
}
