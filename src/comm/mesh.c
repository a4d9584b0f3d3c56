/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix sockets between processes of a domain. comm.c opens the mesh, share.c exchanges
 * descriptors by it, lend.c answers at its listener, and the watcher polls it.
 */
#include "comm/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tcp.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/mesh_watch.h"
#include "comm/paths.h"
#include "net/listen.h"

/* The types of frames. The tag of an exchange's is its number, from 1: an earlier one is stale. */
enum mesh_frame {
	MESH_HELLO = 1, /* the first one, from the rank that connected */
	MESH_FILES,     /* descriptors come with it */
	MESH_FAILED,    /* the peer failed and gives none */
	MESH_BYE,       /* the peer leaves in good order */
};

struct mesh_hello {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t rank;
};

struct ori_mesh {
	struct ori_net_listener listener;
	struct ori_net_conn **conn;        /* [size], NULL where there is none */
	uint8_t (*names)[ORI_FDSOCK_NAME]; /* [size]; NULL: the listener is closed */
};

enum oriel_status ori_mesh_open(struct oriel_comm *comm, uint8_t name[ORI_FDSOCK_NAME])
{
	struct ori_mesh *mesh = calloc(1, sizeof(*mesh));
	enum oriel_status status;
	int fd;

	if (!mesh)
		return ori_fail_nomem(sizeof(*mesh), "the mesh");
	ori_net_listener_init(&mesh->listener, NULL, comm->size, NULL);
	mesh->conn = calloc(comm->size, sizeof(struct ori_net_conn *));
	if (!mesh->conn) {
		status = ori_fail_nomem(comm->size * sizeof(struct ori_net_conn *),
					"the mesh of %u ranks", comm->size);
		goto err_free_mesh;
	}
	status = ori_fdsock_listen(name, &fd);
	if (status == ORIEL_OK)
		status = ori_net_listener_open(&mesh->listener, fd);
	if (status != ORIEL_OK)
		goto err_close;
	comm->mesh = mesh;
	return ORIEL_OK;

err_close:
	ori_net_listener_close(&mesh->listener);
	free(mesh->conn);
err_free_mesh:
	free(mesh);
	return status;
}

/* Before the watcher runs nothing else finds a rank that stands still. */
static uint64_t mesh_limit(const struct oriel_comm *comm)
{
	return comm->watcher.is_running ? ori_comm_half_timeout(comm) : ori_comm_answer_limit(comm);
}

/* NULL: there is no memory. */
static struct ori_net_conn *mesh_add(struct oriel_comm *comm, unsigned peer)
{
	struct ori_net_conn *conn = malloc(sizeof(*conn));

	if (conn)
		ori_net_open(conn, -1, NULL);
	else
		(void)ori_fail_nomem(sizeof(*conn), "a connection to rank %u", peer);
	comm->mesh->conn[peer] = conn;
	return conn;
}

static enum oriel_status mesh_call(struct oriel_comm *comm, unsigned peer, const uint8_t *name,
				   uint64_t deadline)
{
	const struct ori_host *host = &comm->hosts[peer];
	struct mesh_hello hello = {ORI_COMM_WIRE, comm->rank};
	struct ori_net_conn *conn = mesh_add(comm, peer);
	enum oriel_status status;
	int fd;

	if (!conn)
		return ORIEL_ERR_NOMEM;
	status = ori_fdsock_connect(name, host->uid, (pid_t)host->pid, deadline, &fd);
	if (status == ORIEL_ERR_TIMEOUT)
		return ori_fail(status,
				"rank %u accepts no unix connection within %g s: half of "
				"ORIEL_TIMEOUT, or ORIEL_HEARTBEAT",
				peer, mesh_limit(comm) / 1e9);
	if (status != ORIEL_OK)
		return ori_fail(status, "rank %u: %s", peer, oriel_last_error());
	ori_net_open(conn, fd, NULL);
	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "connected to the unix socket of rank %u", peer);
	status = ori_net_send(conn, MESH_HELLO, &hello, sizeof(hello));
	return status == ORIEL_OK ? status
				  : ori_fail(status, "rank %u has closed its unix socket", peer);
}

/* The rank whose hello it is; comm->size: it is not from an awaited peer of this job. */
static unsigned mesh_identify(const struct oriel_comm *comm, struct ori_net_pending *arrived)
{
	struct mesh_hello hello = {0};
	struct ori_frame frame;

	if (ori_net_take(&arrived->conn, &frame, &hello, sizeof(hello)) == ORIEL_OK &&
	    frame.type == MESH_HELLO && frame.length == sizeof(hello) &&
	    hello.version == ORI_COMM_WIRE && hello.rank > comm->rank && hello.rank < comm->size &&
	    ori_comm_is_foreign(comm, hello.rank) && !comm->mesh->conn[hello.rank] &&
	    (int)comm->hosts[hello.rank].pid == arrived->pid)
		return hello.rank;
	return comm->size;
}

/* Takes the peers that have arrived. */
static enum oriel_status mesh_admit(struct oriel_comm *comm, unsigned *missing)
{
	struct ori_net_listener *listener = &comm->mesh->listener;
	enum oriel_status status = ORIEL_OK;
	struct ori_net_pending *arrived;
	struct ori_net_conn *conn;
	unsigned peer;

	ori_net_listener_serve(listener);
	while (status == ORIEL_OK && (arrived = ori_net_listener_next(listener))) {
		peer = mesh_identify(comm, arrived);
		conn = peer < comm->size ? mesh_add(comm, peer) : NULL;
		if (peer == comm->size) {
			ori_net_listener_warn(listener, arrived->from,
					      "it is of no rank that this rank awaits");
		} else if (conn) {
			ori_net_move(conn, &arrived->conn);
			ori_log_rank(ORIEL_LOG_DEBUG, comm->rank,
				     "rank %u connects to its unix socket", peer);
			(*missing)--;
		} else {
			status = ORIEL_ERR_NOMEM;
		}
		ori_net_pending_free(arrived);
	}
	return status;
}

static enum oriel_status mesh_limit_passed(const struct oriel_comm *comm, const char *what)
{
	return ori_fail(ORIEL_ERR_TIMEOUT,
			"no %s within %g s: half of ORIEL_TIMEOUT, or ORIEL_HEARTBEAT", what,
			mesh_limit(comm) / 1e9);
}

/* Has a rank been lost meanwhile, or does one not run (ORIEL_HEARTBEAT)? */
static enum oriel_status mesh_check(const struct oriel_comm *comm)
{
	enum oriel_status status = ori_comm_check(comm);

	return status == ORIEL_OK && ori_tcp_is_own(&comm->bootstrap)
		       ? ori_tcp_check(&comm->bootstrap)
		       : status;
}

static enum oriel_status mesh_wait(const struct oriel_comm *comm, int fd, short events,
				   uint64_t deadline, const char *what)
{
	struct pollfd polled = {.fd = fd, .events = events};
	enum oriel_status status = mesh_check(comm);

	if (status != ORIEL_OK)
		return status;
	if (ori_deadline_passed(deadline))
		return mesh_limit_passed(comm, what);
	if (poll(&polled, 1, ori_deadline_poll_ms(deadline)) < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	return ORIEL_OK;
}

static void mesh_watch_sockets(const struct oriel_comm *comm, struct ori_mesh_watch *watch)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->mesh->conn[peer])
			ori_mesh_watch_socket(watch, peer, comm->mesh->conn[peer]->fd);
}

/* Accepts connections until no peer is missing, until one has ended, or until the deadline. */
static enum oriel_status mesh_answer(struct oriel_comm *comm, unsigned *missing, uint64_t deadline)
{
	const struct ori_net_listener *listener = &comm->mesh->listener;
	enum oriel_status status = mesh_admit(comm, missing);
	struct ori_mesh_watch watch = {0};
	uint64_t paused;

	if (status == ORIEL_OK && *missing)
		status = ori_mesh_watch_open(comm, listener->epoll, &watch);
	while (status == ORIEL_OK && *missing) {
		if (ori_deadline_passed(deadline)) {
			status = mesh_limit_passed(comm, "connection");
			break;
		}
		mesh_watch_sockets(comm, &watch);
		/* A listener that pauses is not readable. */
		paused = listener->paused_until;
		status = ori_mesh_watch_wait(comm, &watch,
					     paused && paused < deadline ? paused : deadline);
		if (status == ORIEL_OK)
			status = mesh_check(comm);
		if (status == ORIEL_OK)
			status = mesh_admit(comm, missing);
	}
	ori_mesh_watch_close(comm, &watch);
	return status;
}

static unsigned mesh_first_missing(const struct oriel_comm *comm)
{
	unsigned peer = comm->rank + 1;

	while (comm->mesh->conn[peer] || !ori_comm_is_foreign(comm, peer))
		peer++;
	return peer;
}

/* Peers that wait for this rank see that it gives up, also those that it has not accepted. */
static void mesh_give_up(struct oriel_comm *comm)
{
	unsigned peer;

	ori_net_listener_close(&comm->mesh->listener);
	for (peer = 0; peer < comm->size; peer++)
		if (comm->mesh->conn[peer])
			ori_net_close(comm->mesh->conn[peer]);
}

static enum oriel_status mesh_keep_names(struct oriel_comm *comm, const void *names, size_t stride)
{
	struct ori_mesh *mesh = comm->mesh;
	unsigned peer;

	mesh->names = calloc(comm->size, sizeof(*mesh->names));
	if (!mesh->names)
		return ori_fail_nomem(comm->size * sizeof(*mesh->names), "the mesh of %u ranks",
				      comm->size);
	for (peer = 0; peer < comm->size; peer++)
		memcpy(mesh->names[peer], (const char *)names + peer * stride,
		       sizeof(mesh->names[peer]));
	return ORIEL_OK;
}

static enum oriel_status mesh_connect(struct oriel_comm *comm, const void *names, size_t stride,
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
	status = mesh_answer(comm, &missing, deadline);
	if (status != ORIEL_OK)
		return ori_fail(status, "%u ranks, among them rank %u: %s", missing,
				mesh_first_missing(comm), oriel_last_error());
	if (ori_comm_is_lending(comm))
		return mesh_keep_names(comm, names, stride);
	ori_net_listener_close(&comm->mesh->listener);
	return ORIEL_OK;
}

enum oriel_status ori_mesh_connect(struct oriel_comm *comm, const void *names, size_t stride,
				   uint64_t deadline)
{
	enum oriel_status status = mesh_connect(comm, names, stride, deadline);

	/* The limit is that of all. */
	if (status != ORIEL_OK && status != ORIEL_ERR_TIMEOUT)
		mesh_give_up(comm);
	return status;
}

struct ori_net_listener *ori_mesh_listener(const struct oriel_comm *comm)
{
	return comm->mesh->names ? &comm->mesh->listener : NULL;
}

const uint8_t *ori_mesh_name(const struct oriel_comm *comm, unsigned peer)
{
	return comm->mesh->names[peer];
}

/* Did the peer at the other end of @fd, which is closed, send its BYE? */
static bool mesh_is_bye(int fd)
{
	unsigned char bytes[ORI_FRAME_HEADER];
	struct ori_frame frame;

	return recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT) == sizeof(bytes) &&
	       ori_frame_parse(bytes, &frame) == ORIEL_OK && frame.type == MESH_BYE;
}

int ori_mesh_fd(const struct oriel_comm *comm, unsigned peer)
{
	return comm->mesh->conn[peer] ? comm->mesh->conn[peer]->fd : -1;
}

void ori_mesh_lost(struct oriel_comm *comm, unsigned peer)
{
	if (mesh_is_bye(ori_mesh_fd(comm, peer)))
		return;
	ori_log_rank(ORIEL_LOG_INFO, comm->rank, "rank %u (process %u) exited", peer,
		     comm->hosts[peer].pid);
	ori_comm_break(comm, ORIEL_ERR_PEER, ORIEL_DEV_LOST, peer, 0);
}

static enum oriel_status mesh_failed(unsigned peer, enum oriel_status status)
{
	if (status == ORIEL_ERR_PEER)
		return ori_fail(status, "rank %u has closed its unix socket", peer);
	if (status == ORIEL_ERR_NOMEM)
		return ori_fail(status,
				"descriptors of rank %u were lost: raise the limit of open files "
				"(ulimit -n)",
				peer);
	return ori_fail(status, "rank %u sent no frame of an exchange", peer);
}

static enum oriel_status mesh_give(struct oriel_comm *comm, unsigned peer, const int *fds,
				   unsigned count, enum oriel_status before, uint64_t deadline)
{
	const struct ori_frame frame = {.type = before == ORIEL_OK ? MESH_FILES : MESH_FAILED,
					.tag = comm->exchanges};
	struct ori_net_conn *conn = comm->mesh->conn[peer];
	enum oriel_status status;
	size_t done = 0;

	if (before != ORIEL_OK)
		count = 0;
	while ((status = ori_net_write_fds(conn, &frame, NULL, fds, count, &done)) == ORIEL_AGAIN) {
		status = mesh_wait(comm, conn->fd, POLLOUT, deadline, "room to send");
		if (status != ORIEL_OK)
			return status;
	}
	return status == ORIEL_OK ? status : mesh_failed(peer, status);
}

/* Receives the frame of @peer in this exchange, and drops those of earlier ones. */
static enum oriel_status mesh_receive(struct oriel_comm *comm, unsigned peer, unsigned expected,
				      uint64_t deadline)
{
	struct ori_net_conn *conn = comm->mesh->conn[peer];
	enum oriel_status status;
	struct ori_frame frame;

	do {
		status = ori_net_take(conn, &frame, NULL, 0);
		if (status == ORIEL_AGAIN) {
			status = mesh_wait(comm, conn->fd, POLLIN, deadline, "descriptors");
			frame.tag = 0;
		} else if (status != ORIEL_OK) {
			(void)mesh_failed(peer, status);
		}
		if (status != ORIEL_OK)
			return ori_fail(status, "descriptors of rank %u: %s", peer,
					oriel_last_error());
	} while (frame.tag < comm->exchanges);
	if (frame.tag > comm->exchanges)
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u is at exchange %u, not %u", peer,
				frame.tag, comm->exchanges);
	if (frame.type == MESH_FAILED)
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u failed and shares nothing", peer);
	if (frame.type == MESH_FILES && conn->fds.count == expected)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u sent %u descriptors instead of %u", peer,
			conn->fds.count, expected);
}

static enum oriel_status mesh_take_from(struct oriel_comm *comm, unsigned peer,
					const struct ori_mesh_taker *taker, uint64_t deadline)
{
	struct ori_fds *fds = &comm->mesh->conn[peer]->fds;
	enum oriel_status status =
		mesh_receive(comm, peer, taker->count(taker->context, peer), deadline);

	if (status == ORIEL_OK)
		status = taker->take(taker->context, peer, fds->of);
	ori_fds_close(fds);
	return status;
}

enum oriel_status ori_mesh_exchange(struct oriel_comm *comm, const int *fds, unsigned count,
				    const struct ori_mesh_taker *taker)
{
	enum oriel_status status = ORIEL_OK, step;
	uint64_t deadline = ori_deadline(mesh_limit(comm));
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
	struct ori_net_conn *conn;
	unsigned peer;

	if (!mesh)
		return;
	for (peer = 0; peer < comm->size; peer++) {
		conn = mesh->conn[peer];
		/* Best effort: a peer that has exited does not need it. */
		if (conn && is_orderly)
			(void)ori_net_send(conn, MESH_BYE, NULL, 0);
		if (conn)
			ori_net_close(conn);
		free(conn);
	}
	ori_net_listener_close(&mesh->listener);
	free(mesh->names);
	free(mesh->conn);
	free(mesh);
	comm->mesh = NULL;
}
