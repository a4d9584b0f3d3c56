/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of a job meet: a port, whose listener rank 0 may inherit. The job and the agent
 * of a host call it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"

union start_name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/*
 * Reuse is for the connections, which have it from the listener: the port is free for the next job
 * of these ranks. For a port that the kernel chooses it is set only after bind(), which is to find
 * a port of its own.
 */
static bool start_bind(int fd, const union start_name *name, socklen_t length, bool is_chosen)
{
	int on = 1, off = 0;

	/* A socket of IPv6 takes IPv4, too, whatever the default of this machine is (ipv6(7)). */
	if (name->any.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0)
		return false;
	return (!is_chosen || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0) &&
	       bind(fd, &name->any, length) == 0 &&
	       setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0;
}

static int start_open(union start_name *name, socklen_t length, bool is_chosen, bool listens)
{
	int fd = socket(name->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error;

	if (fd >= 0 && start_bind(fd, name, length, is_chosen) &&
	    (!listens || listen(fd, SOMAXCONN) == 0) && getsockname(fd, &name->any, &length) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

int run_start_here(struct run_start *start, int *port)
{
	union start_name name = {
		.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	const char *meet = getenv("ORIEL_MEET");
	const bool listens = meet && strcmp(meet, "tcp") == 0;
	int fd = start_open(&name, sizeof(name.v4), false, listens);

	if (fd < 0) {
		fprintf(stderr, "oriel run: cannot %s 127.0.0.1: %s\n",
			listens ? "listen at" : "find a port at", strerror(errno));
		return TOOL_FAILED;
	}
	/* A program may still listen at it: the other socket does not, and lets it be reused. */
	*port = listens ? -1 : fd;
	start->listener = listens ? fd : -1;
	start->meet = "unix";
	start->address = "127.0.0.1";
	start->port = ntohs(name.v4.sin_port);
	return TOOL_OK;
}

int run_start_listen_all(struct run_start *start)
{
	const bool is_chosen = start->port != 0;
	union start_name name = {
		.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)start->port)}};

	start->listener = start_open(&name, sizeof(name.v6), is_chosen, true);
	/* Some machines have no IPv6. */
	if (start->listener < 0 && errno != EADDRINUSE) {
		name = (union start_name){
			.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)start->port)}};
		start->listener = start_open(&name, sizeof(name.v4), is_chosen, true);
	}
	if (start->listener < 0) {
		fprintf(stderr, "oriel run: cannot listen at port %u: %s\n", start->port,
			strerror(errno));
		return TOOL_FAILED;
	}
	start->meet = "tcp";
	start->port = ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
	return TOOL_OK;
}
