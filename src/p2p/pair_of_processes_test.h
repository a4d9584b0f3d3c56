/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of two processes, a test and its child, for the tests of p2p between processes. The
 * words of their programs:
 * PROGRAM [rdma | nodes NETNS HCA NETNS HCA ...]: rdma: not through memory. nodes: over libibverbs,
 * and each in a network namespace of its own.
 */
#ifndef ORI_P2P_PAIR_OF_PROCESSES_TEST_H
#define ORI_P2P_PAIR_OF_PROCESSES_TEST_H

#include <oriel/oriel.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

#define LENGTH (1u << 20)
#define CHUNK 16384u
#define TIMEOUT_NS UINT64_C(60000000000)

/*
 * The route between them: internode is rdma between two virtual nodes, which meet over
 * TCP.
 */
enum route { ROUTE_MAPPED, ROUTE_RDMA, ROUTE_INTERNODE, ROUTES };

static const enum oriel_path paths[] = {ORIEL_PATH_MAPPED, ORIEL_PATH_RDMA, ORIEL_PATH_RDMA};
static unsigned first_route; /* of this run */

/* Namespaces and HCAs of the parent and the child; NULL: two virtual nodes. */
static char **nodes;
static int home; /* the namespace of the cable */

/* Enter network namespace @name, with @hca alone. */
static inline void enter_namespace(const char *name, const char *hca)
{
	char text[128];
	int fd;

	snprintf(text, sizeof(text), "/run/netns/%s", name);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(setns(fd, CLONE_NEWNET), 0);
	close(fd);
	snprintf(text, sizeof(text), "=%s", hca);
	setenv("ORIEL_HCA", text, 1);
}

static inline void routes_choose(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "rdma") == 0)
		first_route = ROUTE_RDMA;
	if (argc < 6 || strcmp(argv[1], "nodes") != 0)
		return;
	first_route = ROUTE_INTERNODE;
	nodes = argv + 2;
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	enter_namespace(nodes[0], nodes[1]);
}

/* Attributes that both processes share. */
struct job {
	enum route route;
	unsigned mode;
	int steps; /* of the child; the program gives them a meaning */
	unsigned channels, chunk_slots;
	uint64_t timeout_ns; /* of the parent; 0: TIMEOUT_NS */
};

struct party {
	struct job job;
	pid_t child; /* 0 in the child */
	int fd;
	const struct oriel_p2p_hooks *hooks;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *p2p;
	char *memory; /* received bytes, then bytes to send */
};

static inline struct oriel_p2p_buffer part(const struct party *t, unsigned which, size_t length)
{
	struct oriel_p2p_buffer b = {t->memory + (size_t)which * LENGTH, length, NULL};

	return b;
}

static inline void party_open(struct party *t)
{
	const struct oriel_p2p_context_attr context = {.size = sizeof(context),
						       .chunk = CHUNK,
						       .paths = 1u << paths[t->job.route],
						       .timeout_ns = t->job.timeout_ns
									     ? t->job.timeout_ns
									     : TIMEOUT_NS};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = t->job.mode,
					    .channels = t->job.channels,
					    .chunk_slots = t->job.chunk_slots,
					    .hooks = t->hooks};
	char mine[ORIEL_P2P_ADDRESS], theirs[ORIEL_P2P_ADDRESS];
	void *memory;

	if (t->job.route == ROUTE_INTERNODE) {
		if (!getenv("ORIEL_HCA") || getenv("ORIEL_HCA")[0] != '=')
			setenv("ORIEL_NODE", t->child ? "parent" : "child", 1);
		setenv("ORIEL_P2P_TCP", "on", 1);
	}
	assert_int_equal(oriel_memory_alloc(2 * (size_t)LENGTH, 0, &memory), ORIEL_OK);
	t->memory = memory;
	/* The library takes ORIEL_JOB_KEY out of the environment: no exec() passes it on. */
	if (getenv("TEST_JOB_KEY"))
		setenv("ORIEL_JOB_KEY", getenv("TEST_JOB_KEY"), 1);
	assert_int_equal(oriel_p2p_context_create(&context, &t->ctx), ORIEL_OK);
	unsetenv("ORIEL_NODE");
	unsetenv("ORIEL_P2P_TCP");
	assert_int_equal(oriel_p2p_create(t->ctx, &attr, &t->p2p), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(t->p2p, mine), ORIEL_OK);
	assert_int_equal(send(t->fd, mine, sizeof(mine), MSG_NOSIGNAL), sizeof(mine));
	assert_int_equal(recv(t->fd, theirs, sizeof(theirs), MSG_WAITALL), sizeof(theirs));
	assert_int_equal(oriel_p2p_connect(t->p2p, theirs, sizeof(theirs), 0), ORIEL_OK);
}

static inline void party_close(struct party *t)
{
	struct ori_error before;

	ori_error_save(&before);
	oriel_p2p_destroy(t->p2p);
	oriel_p2p_context_destroy(t->ctx);
	assert_string_equal(oriel_last_error(), before.text);
	oriel_memory_free(t->memory);
	close(t->fd);
}

/* This program again, as the child, and the endpoint of the parent. */
static inline void party_start(struct party *t, const struct job *job)
{
	int endpoints[2];
	char words[48];

	*t = (struct party){.job = *job};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, endpoints), 0);
	snprintf(words, sizeof(words), "%d %d %u %d %u %u", endpoints[1], (int)job->route,
		 job->mode, job->steps, job->channels, job->chunk_slots);
	t->child = fork();
	assert_true(t->child >= 0);
	if (t->child == 0) {
		/* A parent whose check has failed leaves no child behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(endpoints[0]);
		if (nodes)
			enter_namespace(nodes[2], nodes[3]);
		execl("/proc/self/exe", "child_of_p2p_test", "child", words, (char *)NULL);
		_exit(127);
	}
	close(endpoints[1]);
	t->fd = endpoints[0];
	party_open(t);
}

static inline bool is_child(int argc, char **argv)
{
	return argc == 3 && strcmp(argv[1], "child") == 0;
}

/* The party of the child, not open yet. */
static inline void party_of_child(struct party *t, char **argv)
{
	int route;

	*t = (struct party){0};
	assert_int_equal(sscanf(argv[2], "%d %d %u %d %u %u", &t->fd, &route, &t->job.mode,
				&t->job.steps, &t->job.channels, &t->job.chunk_slots),
			 6);
	t->job.route = (enum route)route;
}

static inline void party_join(struct party *t, bool is_killed)
{
	int status;

	assert_int_equal(waitpid(t->child, &status, 0), t->child);
	assert_true(is_killed ? WIFSIGNALED(status)
			      : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
