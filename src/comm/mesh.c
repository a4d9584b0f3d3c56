/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix sockets between processes of a domain. comm.c opens the mesh, share.c exchanges
 * descriptors by it, and the watcher polls it.
 */
#include "comm/mesh.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/paths.h"

#define MESH_WARN_NS 1000000000u /* between warnings about dropped connections */

enum mesh_word {
	MESH_FILES = 'F',  /* descriptors come with it */
	MESH_FAILED = 'R', /* the peer failed and gives none */
	MESH_BYE = 'B',    /* the peer leaves in good order; a byte alone */
};

/* The message of a peer in an exchange of descriptors. */
struct mesh_message {
	uint8_t word; /* enum mesh_word */
	uint8_t reserved[3];
	uint32_t exchange; /* its number, from 1: an earlier one is stale */
};

/* The first bytes on a connection, from the rank that connected. */
struct mesh_hello {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t rank;
};

struct ori_mesh {
	int listener;
	int *fd;          /* [size], -1 where there is none */
	uint64_t warn_at; /* earliest time of the next warning about a dropped connection */
	unsigned unsaid;  /* dropped connections since the last warning */
};

enum oriel_status ori_mesh_open(struct oriel_comm *comm, uint8_t name[ORI_FDSOCK_NAME])
{
	enum oriel_status status;
	struct ori_mesh *mesh;
	unsigned i;

	mesh = calloc(1, sizeof(*mesh));
	if (!mesh)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for the mesh");
	mesh->fd = calloc(comm->size, sizeof(*mesh->fd));
	if (!mesh->fd) {
		status =
			ori_fail(ORIEL_ERR_NOMEM, "no memory for the mesh of %u ranks", comm->size);
		goto err_free_mesh;
	}
	for (i = 0; i < comm->size; i++)
		mesh->fd[i] = -1;
	status = ori_fdsock_listen(name, &mesh->listener);
	if (status != ORIEL_OK)
		goto err_free_fds;
	comm->mesh = mesh;
	return ORIEL_OK;

err_free_fds:
	free(mesh->fd);
err_free_mesh:
	free(mesh);
	return status;
}

static enum oriel_status mesh_call(struct oriel_comm *comm, unsigned peer, const uint8_t *name,
				   uint64_t deadline)
{
	const struct ori_host *host = &comm->hosts[peer];
	struct mesh_hello hello = {ORI_COMM_WIRE, comm->rank};
	enum oriel_status status;
	int fd;

	status = ori_fdsock_connect(name, host->uid, (pid_t)host->pid, deadline, &fd);
	if (status != ORIEL_OK)
		return ori_fail(status, "rank %u: %s", peer, oriel_last_error());
	status = ori_fdsock_send(fd, &hello, sizeof(hello), NULL, 0, deadline);
	if (status != ORIEL_OK) {
		close(fd);
		return status;
	}
	comm->mesh->fd[peer] = fd;
	return ORIEL_OK;
}

/* Does this rank expect a connection from process @pid? */
static bool mesh_awaits(const struct oriel_comm *comm, pid_t pid)
{
	unsigned peer;

	for (peer = comm->rank + 1; peer < comm->size; peer++)
		if (comm->mesh->fd[peer] < 0 && ori_comm_is_foreign(comm, peer) &&
		    (pid_t)comm->hosts[peer].pid == pid)
			return true;
	return false;
}

/* One warning a second, with the number of those it stands for: a flood must not fill the log. */
static void mesh_warn(const struct oriel_comm *comm, pid_t pid)
{
	struct ori_mesh *mesh = comm->mesh;

	if (!ori_deadline_passed(mesh->warn_at)) {
		mesh->unsaid++;
		return;
	}
	if (mesh->unsaid)
		ori_log(ORIEL_LOG_WARN,
			"rank %u: dropped a connection of process %d, and %u before it", comm->rank,
			(int)pid, mesh->unsaid);
	else
		ori_log(ORIEL_LOG_WARN, "rank %u: dropped a connection of process %d", comm->rank,
			(int)pid);
	mesh->unsaid = 0;
	mesh->warn_at = ori_deadline(MESH_WARN_NS);
}

/*
 * Accepts the next connection. One that is not from an awaited peer of this job is closed
 * unread: its process might send nothing for ever.
 */
static enum oriel_status mesh_answer(struct oriel_comm *comm, unsigned *missing, uint64_t deadline)
{
	struct mesh_hello hello;
	enum oriel_status status;
	struct ucred cred;
	unsigned none;
	int fd;

	status = ori_fdsock_accept(comm->mesh->listener, deadline, &fd, &cred);
	if (status != ORIEL_OK)
		return status;
	status = ORIEL_ERR_AUTH;
	if (mesh_awaits(comm, cred.pid))
		status = ori_fdsock_recv(fd, &hello, sizeof(hello), NULL, 0, &none, deadline);
	if (status != ORIEL_OK || hello.version != ORI_COMM_WIRE || hello.rank <= comm->rank ||
	    hello.rank >= comm->size || !ori_comm_is_foreign(comm, hello.rank) ||
	    (pid_t)comm->hosts[hello.rank].pid != cred.pid || comm->mesh->fd[hello.rank] >= 0) {
		mesh_warn(comm, cred.pid);
		close(fd);
		/*
		 * Other processes of this user may connect again and again, so that the
		 * deadline is checked here, too.
		 */
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT, "not connected before the deadline");
		return ORIEL_OK;
	}
	comm->mesh->fd[hello.rank] = fd;
	(*missing)--;
	return ORIEL_OK;
}

static unsigned mesh_first_missing(const struct oriel_comm *comm)
{
	unsigned peer = comm->rank + 1;

	while (comm->mesh->fd[peer] >= 0 || !ori_comm_is_foreign(comm, peer))
		peer++;
	return peer;
}

enum oriel_status ori_mesh_connect(struct oriel_comm *comm, const void *names, size_t stride,
				   uint64_t deadline)
{
	enum oriel_status status;
	unsigned peer, missing = 0;

	/*
	 * Each rank connects to the lower ranks, then accepts the higher ones. Rank 0
	 * only accepts, so that by induction no rank waits for ever on a full backlog.
	 */
	for (peer = 0; peer < comm->rank; peer++) {
		if (!ori_comm_is_foreign(comm, peer))
			continue;
		status = mesh_call(comm, peer, (const uint8_t *)names + peer * stride, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	for (peer = comm->rank + 1; peer < comm->size; peer++)
		missing += ori_comm_is_foreign(comm, peer);
	while (missing) {
		status = mesh_answer(comm, &missing, deadline);
		if (status != ORIEL_OK)
			return ori_fail(status, "%u ranks, among them rank %u: %s", missing,
					mesh_first_missing(comm), oriel_last_error());
	}
	return ORIEL_OK;
}

/* Did the peer at the other end of @fd, which is closed, send its BYE? */
static bool mesh_is_bye(int fd)
{
	char word = 0;

	return recv(fd, &word, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && word == MESH_BYE;
}

int ori_mesh_fd(const struct oriel_comm *comm, unsigned peer)
{
	return comm->mesh->fd[peer];
}

void ori_mesh_lost(struct oriel_comm *comm, unsigned peer)
{
	if (mesh_is_bye(comm->mesh->fd[peer]))
		return;
	ori_log(ORIEL_LOG_INFO, "rank %u: rank %u (process %u) exited", comm->rank, peer,
		comm->hosts[peer].pid);
	ori_comm_break(comm, ORIEL_ERR_PEER, ORIEL_DEV_LOST, peer);
}

static enum oriel_status mesh_give(struct oriel_comm *comm, unsigned peer, const int *fds,
				   unsigned count, enum oriel_status before, uint64_t deadline)
{
	struct mesh_message message = {before == ORIEL_OK ? MESH_FILES : MESH_FAILED,
				       {0},
				       comm->exchanges};

	return ori_fdsock_send(comm->mesh->fd[peer], &message, sizeof(message), fds,
			       before == ORIEL_OK ? count : 0, deadline);
}

static void mesh_close_fds(const int *fds, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++)
		close(fds[i]);
}

/* Receives the message of @peer in this exchange, and drops messages of earlier ones. */
static enum oriel_status mesh_receive(struct oriel_comm *comm, unsigned peer, int *fds,
				      unsigned expected, uint64_t deadline)
{
	struct mesh_message message;
	enum oriel_status status;
	unsigned received;

	for (;;) {
		status = ori_fdsock_recv(comm->mesh->fd[peer], &message, sizeof(message), fds,
					 ORI_MESH_FDS, &received, deadline);
		if (status != ORIEL_OK)
			return ori_fail(status, "descriptors of rank %u: %s", peer,
					oriel_last_error());
		if (message.exchange == comm->exchanges)
			break;
		mesh_close_fds(fds, received);
		if (message.exchange > comm->exchanges)
			return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u is at exchange %u, not %u",
					peer, message.exchange, comm->exchanges);
	}
	if (message.word == MESH_FILES && received == expected)
		return ORIEL_OK;
	mesh_close_fds(fds, received);
	if (message.word == MESH_FAILED)
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u failed and shares nothing", peer);
	return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u sent %u descriptors instead of %u", peer,
			received, expected);
}

static enum oriel_status mesh_take_from(struct oriel_comm *comm, unsigned peer,
					const struct ori_mesh_taker *taker, uint64_t deadline)
{
	unsigned expected = taker->count(taker->context, peer);
	int fds[ORI_MESH_FDS];
	enum oriel_status status = mesh_receive(comm, peer, fds, expected, deadline);

	if (status != ORIEL_OK)
		return status;
	status = taker->take(taker->context, peer, fds);
	mesh_close_fds(fds, expected);
	return status;
}

enum oriel_status ori_mesh_exchange(struct oriel_comm *comm, const int *fds, unsigned count,
				    const struct ori_mesh_taker *taker)
{
	enum oriel_status status = ORIEL_OK, step;
	uint64_t deadline = ori_deadline(ori_comm_half_timeout(comm));
	unsigned d, to, from;

	comm->exchanges++;
	/*
	 * In rounds, so that few descriptors are in flight at once: the kernel rejects
	 * more than a process may have open, counted over the user.
	 */
	for (d = 1; d < comm->size; d++) {
		to = (comm->rank + d) % comm->size;
		from = (comm->rank + comm->size - d) % comm->size;
		step = ORIEL_OK;
		if (ori_comm_is_foreign(comm, to))
			step = mesh_give(comm, to, fds, count, status, deadline);
		if (status == ORIEL_OK)
			status = step;
		if (ori_comm_is_foreign(comm, from)) {
			step = mesh_take_from(comm, from, taker, deadline);
			if (status == ORIEL_OK)
				status = step;
		}
	}
	return status;
}

void ori_mesh_close(struct oriel_comm *comm, bool is_orderly)
{
	struct ori_mesh *mesh = comm->mesh;
	char bye = MESH_BYE;
	unsigned peer;

	if (!mesh)
		return;
	for (peer = 0; peer < comm->size; peer++) {
		if (mesh->fd[peer] < 0)
			continue;
		/* Best effort: a peer that has exited does not need it. */
		if (is_orderly)
			(void)!send(mesh->fd[peer], &bye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(mesh->fd[peer]);
	}
	close(mesh->listener);
	free(mesh->fd);
	free(mesh);
	comm->mesh = NULL;
}
