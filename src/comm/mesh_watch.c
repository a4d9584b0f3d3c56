/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the ranks that are to connect, by handles of their processes, and those that have, by
 * their sockets. mesh.c calls it.
 */
#include "comm/mesh_watch.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/paths.h"

static enum oriel_status watch_ended(const struct oriel_comm *comm, unsigned peer)
{
	return ori_fail(ORIEL_ERR_PEER, "rank %u (process %u) exited", peer, comm->hosts[peer].pid);
}

/*
 * A pidfd is readable once the process has ended (pidfd_open(2), Linux 5.3). Where there is none
 * the limit ends the wait.
 */
static enum oriel_status watch_process(const struct oriel_comm *comm, unsigned peer, int *fd)
{
	const struct ori_host *own = &comm->hosts[comm->rank], *host = &comm->hosts[peer];

	if (!own->pid_ns || host->pid_ns != own->pid_ns || !ori_comm_is_foreign(comm, peer))
		return ORIEL_OK;
	*fd = (int)syscall(SYS_pidfd_open, host->pid, 0);
	return *fd < 0 && errno == ESRCH ? watch_ended(comm, peer) : ORIEL_OK;
}

enum oriel_status ori_mesh_watch_open(const struct oriel_comm *comm, int listen_fd,
				      struct ori_mesh_watch *watch)
{
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	watch->fds = malloc((1 + comm->size) * sizeof(*watch->fds));
	if (!watch->fds)
		return ori_fail_nomem((1 + comm->size) * sizeof(*watch->fds),
				      "the mesh of %u ranks", comm->size);
	watch->fds[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
	for (peer = 0; peer < comm->size; peer++)
		watch->fds[1 + peer] = (struct pollfd){.fd = -1, .events = POLLIN};
	/* Lower ranks have been connected to. */
	for (peer = comm->rank + 1; peer < comm->size && status == ORIEL_OK; peer++)
		status = watch_process(comm, peer, &watch->fds[1 + peer].fd);
	return status;
}

static void watch_drop(struct pollfd *polled)
{
	if (polled->fd >= 0 && polled->events == POLLIN)
		close(polled->fd);
	polled->fd = -1;
}

void ori_mesh_watch_close(const struct oriel_comm *comm, struct ori_mesh_watch *watch)
{
	unsigned peer;

	for (peer = 0; watch->fds && peer < comm->size; peer++)
		watch_drop(&watch->fds[1 + peer]);
	free(watch->fds);
	watch->fds = NULL;
}

void ori_mesh_watch_socket(struct ori_mesh_watch *watch, unsigned peer, int fd)
{
	struct pollfd *polled = &watch->fds[1 + peer];

	if (polled->events == POLLRDHUP)
		return;
	watch_drop(polled);
	/* Frames that are not taken yet may have arrived: only the end counts. */
	*polled = (struct pollfd){.fd = fd, .events = POLLRDHUP};
}

enum oriel_status ori_mesh_watch_wait(const struct oriel_comm *comm, struct ori_mesh_watch *watch,
				      uint64_t deadline)
{
	unsigned peer;
	int count;

	count = poll(watch->fds, 1 + comm->size, ori_deadline_poll_ms(deadline));
	if (count < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	for (peer = 0; count > 0 && peer < comm->size; peer++) {
		if (!watch->fds[1 + peer].revents)
			continue;
		if (watch->fds[1 + peer].events == POLLIN)
			return watch_ended(comm, peer);
		return ori_fail(ORIEL_ERR_PEER, "rank %u has closed its unix socket", peer);
	}
	return ORIEL_OK;
}
