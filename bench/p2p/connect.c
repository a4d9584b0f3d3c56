/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how two p2p endpoints meet: of two processes of this machine, over TCP between two
 * virtual nodes, with a job key and without one in turn, and over a unix socket. Build and run:
 *   cc -O2 -Iinclude -o build/connect bench/p2p/connect.c -Lbuild/release/lib -loriel \
 *      -Wl,-rpath,$PWD/build/release/lib
 *   build/connect [PASSES]
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <oriel/p2p.h>

#include "../bench.h"

#define PASSES_MAX 1000
#define KEY "00112233445566778899aabbccddeeff"

enum { CONTEXT, CONNECT, RESULTS };

/* One endpoint, connected to that of the process at the other end of @fd. */
static double connect_once(struct oriel_p2p_context *context, int fd)
{
	char mine[ORIEL_P2P_ADDRESS], theirs[ORIEL_P2P_ADDRESS];
	enum oriel_status status;
	struct oriel_p2p *p2p;
	double start;

	check(oriel_p2p_create(context, NULL, &p2p));
	check(oriel_p2p_address(p2p, mine));
	if (send(fd, mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine) ||
	    recv(fd, theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
		_exit(1);
	start = now();
	check(oriel_p2p_connect(p2p, theirs, sizeof(theirs), 0));
	while ((status = oriel_p2p_check(p2p)) == ORIEL_AGAIN) {
		check(oriel_p2p_progress(p2p));
		sched_yield();
	}
	check(status);
	start = now() - start;
	/* Neither leaves before both have met. */
	if (send(fd, mine, 1, MSG_NOSIGNAL) != 1 || recv(fd, theirs, 1, MSG_WAITALL) != 1)
		_exit(1);
	oriel_p2p_destroy(p2p);
	return start;
}

static void run_process(int fd, const char *node, unsigned passes, double *took[RESULTS])
{
	const struct oriel_p2p_context_attr attr = {.size = sizeof(attr), .slots = 16};
	struct oriel_p2p_context *context;
	double start;

	setenv("ORIEL_NODE", node, 1);
	setenv("ORIEL_HCA", "soft", 0);
	for (unsigned pass = 0; pass < passes; pass++) {
		start = now();
		check(oriel_p2p_context_create(&attr, &context));
		took[CONTEXT][pass] = now() - start;
		took[CONNECT][pass] = connect_once(context, fd);
		oriel_p2p_context_destroy(context);
	}
}

static void run_pair(const char *what, const char *node, const char *key, unsigned passes)
{
	static double values[RESULTS][PASSES_MAX];
	double *took[RESULTS] = {values[0], values[1]};
	int fds[2];

	setenv("ORIEL_JOB_KEY", key, 1);
	setenv("ORIEL_P2P_TCP", "on", 1);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
		exit(1);
	if (fork() == 0) {
		close(fds[0]);
		run_process(fds[1], node, passes, took);
		_exit(0);
	}
	close(fds[1]);
	if (fork() == 0) {
		run_process(fds[0], "here", passes, took);
		printf("%-20s context %8.1f us, connect %8.1f us\n", what,
		       median(values[CONTEXT], passes), median(values[CONNECT], passes));
		fflush(stdout);
		_exit(0);
	}
	close(fds[0]);
	join_all();
}

int main(int argc, char **argv)
{
	int passes = argc > 1 ? atoi(argv[1]) : 200;

	if (passes < 1 || passes > PASSES_MAX)
		return 2;
	for (int turn = 0; turn < 3; turn++) {
		run_pair("unix socket", "here", "", (unsigned)passes);
		run_pair("TCP, no key", "there", "", (unsigned)passes);
		run_pair("TCP, with a key", "there", KEY, (unsigned)passes);
	}
	return 0;
}
