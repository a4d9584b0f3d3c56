/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two bootstraps for each rank: communicators use one, and may break it. The harness alone uses
 * the other: ranks meet through it when all else is broken, and make themselves a new one of the
 * first kind.
 */
#include "harness.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Rank 0 sends it to the others, so that they open a new bootstrap. */
struct meeting_place {
	struct oriel_local_job *job; /* of threads */
	uint16_t port;               /* of processes, beside MASTER_ADDR */
};

void host_meet(struct rank *r)
{
	CHECK_OK(r, r->master->ops->barrier(r->master->context, LONG_NS));
}

static int meeting_bind(sa_family_t family)
{
	struct sockaddr_storage at = {.ss_family = family};
	socklen_t length =
		family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int fd = socket(family, SOCK_STREAM, 0);

	if (fd < 0 || (bind(fd, (struct sockaddr *)&at, length) == 0 && listen(fd, 64) == 0))
		return fd;
	close(fd);
	return -1;
}

/* Open a listener at a port that no other process has, by IPv6 and IPv4 where there is IPv6. */
static int meeting_listen(uint16_t *port)
{
	struct sockaddr_in6 at;
	socklen_t length = sizeof(at);
	int fd = meeting_bind(AF_INET6);

	if (fd < 0)
		fd = meeting_bind(AF_INET);
	if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &length) != 0)
		abort();
	/* Both kinds of address have the port at one place. */
	*port = ntohs(at.sin6_port);
	return fd;
}

static void meeting_set(const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	if (setenv(name, text, 1) != 0)
		abort();
}

static enum oriel_status meeting_open_env(struct rank *r, struct meeting_place *place, int fd)
{
	unsetenv("ORIEL_PORT");
	unsetenv("ORIEL_LISTEN_FD");
	unsetenv("TORCHELASTIC_USE_AGENT_STORE"); /* the port is not torchrun's */
	/* The first bootstrap of `oriel run` is over unix sockets, this one over TCP. */
	setenv("ORIEL_MEET", "tcp", 1);
	meeting_set("MASTER_PORT", place->port);
	if (fd >= 0)
		meeting_set("ORIEL_LISTEN_FD", (unsigned)fd);
	return oriel_bootstrap_open_env(LONG_NS, &r->bootstrap);
}

static enum oriel_status meeting_open_local(struct rank *r, struct meeting_place *place)
{
	enum oriel_status status = oriel_bootstrap_open_local(place->job, r->rank, &r->bootstrap);

	/* All have opened their ends before the maker closes its job. */
	if (status == ORIEL_OK)
		status = r->master->ops->barrier(r->master->context, LONG_NS);
	if (r->rank == 0)
		oriel_local_job_destroy(place->job);
	return status;
}

enum oriel_status rank_renew_bootstrap(struct rank *r)
{
	struct meeting_place mine = {NULL, 0}, *all = calloc(r->size, sizeof(*all));
	enum oriel_status status;
	int fd = -1;

	if (!all)
		abort();
	oriel_bootstrap_close(&r->bootstrap);
	if (r->rank == 0 && r->is_thread && oriel_local_job_create(r->size, &mine.job) != ORIEL_OK)
		abort();
	if (r->rank == 0 && !r->is_thread && r->size > 1)
		fd = meeting_listen(&mine.port);
	status = r->master->ops->all_gather(r->master->context, &mine, all, sizeof(mine), LONG_NS);
	if (status == ORIEL_OK)
		status = r->is_thread ? meeting_open_local(r, &all[0])
				      : meeting_open_env(r, &all[0], fd);
	free(all);
	return status;
}
