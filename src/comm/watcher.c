/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that polls the sockets, the links and the GPU of a communicator, and breaks it
 * when one of them has failed. comm.c starts it.
 */
#include "comm/watcher.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/demand.h"
#include "comm/health.h"
#include "comm/heartbeat.h"
#include "comm/lend.h"
#include "comm/mesh.h"
#include "comm/silence.h"

#define WATCHER_PAUSE_MS 20 /* between two polls of the links */
#define WATCHER_HURRY_MS 1  /* while a thread waits for requests in flight */

/* Passes a failure that kernels of this rank reported on to its peers. */
static void watcher_collect_blame(struct oriel_comm *comm)
{
	if (!comm->gpu || comm->watcher.has_blamed || !ori_health_collect(comm->control))
		return;
	ori_comm_pass_on(comm);
	comm->watcher.has_blamed = true;
}

/* Written again in each turn: a byte more in an eventfd costs nothing. */
static void watcher_show_broken(struct oriel_comm *comm)
{
	int fd = atomic_load(&comm->watcher.broken);

	if (fd >= 0 && !ori_comm_is_well(comm))
		(void)eventfd_write(fd, 1);
}

static void *watcher_main(void *argument)
{
	struct oriel_comm *comm = argument;
	struct ori_watcher *w = &comm->watcher;
	struct oriel_dev_fault record;
	bool is_serving;
	int pause = 0;
	eventfd_t times;
	unsigned peer;

	ori_log_set_rank(comm->rank);
	for (;;) {
		if (poll(w->fds, comm->size + 3, pause) < 0 && errno != EINTR)
			break;
		if (w->fds[comm->size].revents)
			(void)eventfd_read(w->wake, &times);
		if (atomic_load(&w->is_closing))
			break;
		for (peer = 0; peer < comm->size; peer++) {
			if (!w->fds[peer].revents)
				continue;
			w->fds[peer].fd = -1;
			ori_mesh_lost(comm, peer);
		}
		watcher_collect_blame(comm);
		ori_silence_watch(comm);
		if (ori_silence_is_over(comm, &record) && ori_comm_is_well(comm))
			ori_comm_break_for(comm, &record);
		is_serving = ori_demand_serve(comm);
		ori_lend_serve(comm);
		watcher_show_broken(comm);
		pause = ori_heartbeat_watch(comm, is_serving) ? WATCHER_HURRY_MS : WATCHER_PAUSE_MS;
	}
	return NULL;
}

enum oriel_status ori_watcher_start(struct oriel_comm *comm)
{
	struct ori_watcher *w = &comm->watcher;
	enum oriel_status status;
	unsigned peer, count = 0;
	int error;

	for (peer = 0; peer < comm->size; peer++)
		count += ori_mesh_fd(comm, peer) >= 0;
	if (!count && !comm->heartbeat && !comm->gpu)
		return ORIEL_OK;
	/* oriel_comm_destroy() may start it once more. */
	status = comm->silence ? ORIEL_OK : ori_silence_open(comm);
	if (status != ORIEL_OK)
		return status;
	w->fds = calloc(comm->size + 3, sizeof(w->fds[0]));
	if (!w->fds)
		return ori_fail_nomem((comm->size + 3u) * sizeof(w->fds[0]),
				      "descriptors of %u peers to watch", count);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake < 0) {
		status = ori_fail_errno(ORIEL_ERR_SYSTEM, "eventfd");
		goto err_free_fds;
	}
	for (peer = 0; peer < comm->size; peer++) {
		w->fds[peer].fd = ori_mesh_fd(comm, peer);
		w->fds[peer].events = POLLRDHUP;
	}
	w->fds[comm->size].fd = w->wake;
	w->fds[comm->size].events = POLLIN;
	w->fds[comm->size + 1].fd = ori_demand_fd(comm);
	w->fds[comm->size + 1].events = POLLIN;
	w->fds[comm->size + 2].fd = ori_lend_fd(comm);
	w->fds[comm->size + 2].events = POLLIN;
	error = ori_thread_start(&w->thread, watcher_main, comm);
	if (error) {
		errno = error;
		status = ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot start a thread");
		goto err_close_wake;
	}
	w->is_running = true;
	return ORIEL_OK;

err_close_wake:
	close(w->wake);
err_free_fds:
	free(w->fds);
	return status;
}

enum oriel_status ori_watcher_broken_fd(struct oriel_comm *comm, int *fd)
{
	*fd = atomic_load(&comm->watcher.broken);
	if (*fd >= 0)
		return ORIEL_OK;
	*fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (*fd < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "eventfd");
	atomic_store(&comm->watcher.broken, *fd);
	return ORIEL_OK;
}

void ori_watcher_close(struct oriel_comm *comm)
{
	int fd = atomic_load(&comm->watcher.broken);

	if (fd >= 0)
		close(fd);
}

void ori_watcher_stop(struct oriel_comm *comm)
{
	struct ori_watcher *w = &comm->watcher;

	if (!w->is_running)
		return;
	atomic_store(&w->is_closing, true);
	ori_comm_wake(comm);
	pthread_join(w->thread, NULL);
	atomic_store(&w->is_closing, false);
	w->is_running = false;
	close(w->wake);
	free(w->fds);
}
