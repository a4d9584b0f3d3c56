/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the software HCA's wire: a socket between two processes, without any library.
 * `wire unix` or `wire tcp`. run.py calls it and compares each row with the row of `oriel perf` of
 * the same name.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

#define WIRE_LARGEST ((size_t)1 << 20)
#define WIRE_POLLS 2000u /* half a millisecond; after that the peer may need the core */

static unsigned rank;
static int wire, meeting; /* the measured socket, and the one for barriers */
static char *memory;

static void wire_fail(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The flags of the next call, after one that moved @moved bytes. Exits on any error but EAGAIN. */
static int wire_flags(ssize_t moved, unsigned *polls, const char *what)
{
	if (moved == 0 || (moved < 0 && errno != EAGAIN))
		wire_fail(what);
	*polls = moved > 0 ? 0 : *polls + 1;
	return *polls < WIRE_POLLS ? MSG_DONTWAIT : 0;
}

static void wire_send(int fd, const void *from, size_t length)
{
	const char *at = from, *end = at + length;
	int flags = MSG_DONTWAIT;
	unsigned polls = 0;
	ssize_t sent;

	while (at < end) {
		sent = send(fd, at, (size_t)(end - at), flags | MSG_NOSIGNAL);
		flags = wire_flags(sent, &polls, "send");
		at += sent > 0 ? sent : 0;
	}
}

static void wire_recv(int fd, void *to, size_t length)
{
	char *at = to, *end = at + length;
	int flags = MSG_DONTWAIT;
	unsigned polls = 0;
	ssize_t got;

	while (at < end) {
		got = recv(fd, at, (size_t)(end - at), flags);
		flags = wire_flags(got, &polls, "recv");
		at += got > 0 ? got : 0;
	}
}

static uint64_t wire_from_origin(uint64_t value)
{
	if (rank == 0)
		wire_send(meeting, &value, sizeof(value));
	else
		wire_recv(meeting, &value, sizeof(value));
	return value;
}

static void wire_meet(void)
{
	char byte = 0;

	wire_send(meeting, &byte, 1);
	wire_recv(meeting, &byte, 1);
}

static void round_ping_pong(size_t bytes, uint64_t round)
{
	(void)round;
	if (rank == 0)
		wire_send(wire, memory, bytes);
	wire_recv(wire, memory, bytes);
	if (rank == 1)
		wire_send(wire, memory, bytes);
}

/* A burst one way, then eight bytes back. */
static void round_stream(size_t bytes, uint64_t round)
{
	uint64_t i, burst = peer_burst(bytes), word = round;

	for (i = 0; i < burst; i++) {
		if (rank == 0)
			wire_send(wire, memory, bytes);
		else
			wire_recv(wire, memory, bytes);
	}
	if (rank == 0)
		wire_recv(wire, &word, sizeof(word));
	else
		wire_send(wire, &word, sizeof(word));
}

static const struct peer_case ping_pong = {"put_signal_lat",    "one way",       false,
					   PEER_THERE_AND_BACK, round_ping_pong, false};
static const struct peer_case stream = {"put_bw",  "64 a flush", false,
					PEER_MANY, round_stream, false};

static void pair_tcp(int pair[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, i;
	socklen_t length = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || pair[0] < 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
	    connect(pair[0], (struct sockaddr *)&address, length) != 0)
		wire_fail("tcp");
	pair[1] = accept(listener, NULL, NULL);
	for (i = 0; i < 2; i++)
		if (setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
			wire_fail("TCP_NODELAY");
	close(listener);
}

static void pair_unix(int pair[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		wire_fail("socketpair");
}

/* Pins rank r to core r, as `oriel perf` does, if there are enough cores. */
static void wire_pin(void)
{
	cpu_set_t allowed, one;
	unsigned seen = 0;
	int core;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2)
		return;
	for (core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, &allowed) || seen++ != rank)
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void wire_measure(const char *impl)
{
	static const size_t sizes[] = {8, 4096, 65536, WIRE_LARGEST};
	struct peer_job job = {impl, rank, 2, wire_meet, wire_from_origin};
	size_t i;

	wire_pin();
	memory = peer_memory(WIRE_LARGEST);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(&job, &ping_pong, sizes[i]);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		peer_measure(&job, &stream, sizes[i]);
	wire_meet();
}

int main(int argc, char **argv)
{
	int pair[2], control[2], status = 0;
	pid_t child;

	if (argc != 2 || (strcmp(argv[1], "unix") != 0 && strcmp(argv[1], "tcp") != 0)) {
		fprintf(stderr, "usage: wire unix|tcp\n");
		return 2;
	}
	if (strcmp(argv[1], "tcp") == 0)
		pair_tcp(pair);
	else
		pair_unix(pair);
	pair_unix(control);
	child = fork();
	if (child < 0)
		wire_fail("fork");
	rank = child == 0;
	wire = pair[rank];
	meeting = control[rank];
	/* The surviving rank must notice that the other one exited. */
	close(pair[!rank]);
	close(control[!rank]);
	wire_measure(argv[1]);
	if (rank == 1)
		return 0;
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
