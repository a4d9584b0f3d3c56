/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of memory that is mapped at its first touch:
 *
 *     ask, with the number of the window  ->  the owner's watcher
 *                                         <-  answer, with the descriptors
 *
 * Each ask has a connection of its own, to the socket of the mesh. Windows and the watcher call it.
 */
#include "comm/lend.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/late.h"
#include "comm/health.h"
#include "comm/mesh.h"
#include "comm/paths.h"
#include "net/listen.h"

#define LEND_TICK_MS 20        /* between two looks at the health */
#define LEND_PAUSE_NS 10000000 /* before a rank asks again */

enum lend_frame {
	LEND_ASK = 16, /* apart from those of the mesh */
	LEND_ANSWER,
};

/* The next two go over the wire as they are. */
struct lend_ask {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t rank;
	uint32_t number; /* of the window */
	uint32_t reserved;
};

struct lend_answer {
	int32_t status; /* enum oriel_status */
	uint32_t reserved;
};

static_assert(sizeof(struct lend_ask) == 16, "struct lend_ask goes over the wire");
static_assert(sizeof(struct lend_answer) == 8, "struct lend_answer goes over the wire");

/* Guarded by the lock of the loans, as the list is. */
struct ori_loan {
	struct ori_loan *next;
	uint32_t number;
	struct ori_mem *mem[ORI_SHARE_PIECES]; /* NULL: nothing */
};

enum oriel_status ori_lend_begin(struct oriel_comm *comm, uint32_t number,
				 const struct ori_offering *offering, struct ori_loan **out)
{
	struct ori_loan *loan = calloc(1, sizeof(*loan));
	unsigned i;

	if (!loan)
		return ori_fail_nomem(sizeof(*loan), "a window of many ranks");
	loan->number = number;
	for (i = 0; i < offering->count; i++) {
		loan->mem[i] = offering->mem[i];
		if (loan->mem[i])
			ori_mem_ref(loan->mem[i]);
	}
	pthread_mutex_lock(&comm->loans_lock);
	loan->next = comm->loans;
	comm->loans = loan;
	pthread_mutex_unlock(&comm->loans_lock);
	*out = loan;
	return ORIEL_OK;
}

void ori_lend_end(struct oriel_comm *comm, struct ori_loan *loan)
{
	struct ori_loan **at = &comm->loans;
	unsigned i;

	if (!loan)
		return;
	pthread_mutex_lock(&comm->loans_lock);
	while (*at != loan)
		at = &(*at)->next;
	*at = loan->next;
	pthread_mutex_unlock(&comm->loans_lock);
	for (i = 0; i < ORI_SHARE_PIECES; i++)
		ori_mem_unref(loan->mem[i]);
	free(loan);
}

int ori_lend_fd(const struct oriel_comm *comm)
{
	const struct ori_net_listener *listener = ori_mesh_listener(comm);

	return listener ? listener->epoll : -1;
}

/* A full socket buffer, of a new connection, is that of a peer that asks again. */
static void lend_answer_locked(const struct oriel_comm *comm, const struct lend_ask *ask,
			       struct ori_net_conn *conn)
{
	const struct ori_loan *loan = comm->loans;
	const struct ori_frame frame = {.type = LEND_ANSWER, .length = sizeof(struct lend_answer)};
	struct lend_answer answer = {.status = ORIEL_ERR_STATE};
	int fds[ORI_SHARE_PIECES * ORI_MEM_FDS];
	unsigned i, count = 0;
	size_t done = 0;

	while (loan && loan->number != ask->number)
		loan = loan->next;
	for (i = 0; loan && i < ORI_SHARE_PIECES; i++)
		if (loan->mem[i])
			count += ori_mem_fds(loan->mem[i], fds + count);
	if (loan)
		answer.status = ORIEL_OK;
	(void)ori_net_write_fds(conn, &frame, &answer, fds, count, &done);
}

static bool lend_parse(const struct oriel_comm *comm, struct ori_net_pending *arrived,
		       struct lend_ask *ask)
{
	struct ori_frame frame;

	return ori_net_take(&arrived->conn, &frame, ask, sizeof(*ask)) == ORIEL_OK &&
	       frame.type == LEND_ASK && frame.length == sizeof(*ask) &&
	       ask->version == ORI_COMM_WIRE && ask->rank < comm->size &&
	       ori_comm_is_foreign(comm, ask->rank) &&
	       (int)comm->hosts[ask->rank].pid == arrived->pid;
}

void ori_lend_serve(struct oriel_comm *comm)
{
	struct ori_net_listener *listener = ori_mesh_listener(comm);
	struct ori_net_pending *arrived;
	struct ori_error before;
	struct lend_ask ask;

	if (!listener)
		return;
	ori_error_save(&before);
	ori_net_listener_serve(listener);
	while ((arrived = ori_net_listener_next(listener))) {
		pthread_mutex_lock(&comm->loans_lock);
		if (lend_parse(comm, arrived, &ask))
			lend_answer_locked(comm, &ask, &arrived->conn);
		else
			ori_net_listener_warn(listener, arrived->from,
					      "it is no rank of this job that maps a window");
		pthread_mutex_unlock(&comm->loans_lock);
		ori_net_pending_free(arrived);
	}
	ori_error_restore(&before);
}

/* A thread that asks. */
struct lend_call {
	struct oriel_comm *comm;
	unsigned peer;
	uint32_t number;
	uint64_t limit_ns;
	uint64_t deadline;
	struct ori_late late;
	struct ori_net_conn conn;
};

/* ORIEL_OK: try on. A peer that has exited breaks the communicator, by the mesh. */
static enum oriel_status lend_may_wait(struct lend_call *c)
{
	if (!ori_comm_is_well(c->comm))
		return ori_comm_check(c->comm);
	if (ori_deadline_passed(c->deadline))
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"rank %u did not answer rank %u, which maps its window %u, within "
				"%g s: half of ORIEL_TIMEOUT, or ORIEL_HEARTBEAT",
				c->peer, c->comm->rank, c->number, (double)c->limit_ns / 1e9);
	if (ori_late_is_due(&c->late))
		ori_late_warn(&c->late, c->limit_ns,
			      "rank %u does not answer rank %u, which maps its window %u", c->peer,
			      c->comm->rank, c->number);
	return ORIEL_OK;
}

/* ORIEL_AGAIN: no process listens, or it has closed the connection. */
static enum oriel_status lend_ask_once(struct lend_call *c, struct lend_answer *answer)
{
	const struct ori_host *host = &c->comm->hosts[c->peer];
	const struct lend_ask ask = {ORI_COMM_WIRE, c->comm->rank, c->number, 0};
	uint64_t until = ori_deadline(LEND_TICK_MS * UINT64_C(1000000));
	enum oriel_status status;
	struct ori_frame frame;
	int fd;

	status = ori_fdsock_connect(ori_mesh_name(c->comm, c->peer), host->uid, (pid_t)host->pid,
				    until, &fd);
	if (status != ORIEL_OK)
		return status == ORIEL_ERR_TIMEOUT || status == ORIEL_ERR_PEER ? ORIEL_AGAIN
									       : status;
	ori_net_open(&c->conn, fd, NULL);
	if (ori_net_send(&c->conn, LEND_ASK, &ask, sizeof(ask)) != ORIEL_OK)
		return ORIEL_AGAIN;
	while ((status = ori_net_take(&c->conn, &frame, answer, sizeof(*answer))) == ORIEL_AGAIN) {
		struct pollfd polled = {.fd = fd, .events = POLLIN};

		if (poll(&polled, 1, LEND_TICK_MS) < 0 && errno != EINTR)
			return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
		status = lend_may_wait(c);
		if (status != ORIEL_OK)
			return status;
	}
	if (status == ORIEL_ERR_PEER)
		return ORIEL_AGAIN;
	if (status == ORIEL_ERR_NOMEM)
		return ori_fail(status,
				"descriptors of rank %u were lost: raise the limit of open files "
				"(ulimit -n)",
				c->peer);
	if (status != ORIEL_OK || frame.type != LEND_ANSWER || frame.length != sizeof(*answer))
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u sent no answer to rank %u", c->peer,
				c->comm->rank);
	if (answer->status == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_STATE, "rank %u has no window %u any more", c->peer, c->number);
}

static enum oriel_status lend_ask(struct lend_call *c)
{
	const struct timespec pause = {0, LEND_PAUSE_NS};
	struct lend_answer answer;
	enum oriel_status status;
	struct ori_error before;

	for (;;) {
		ori_error_save(&before);
		status = lend_ask_once(c, &answer);
		if (status != ORIEL_AGAIN)
			return status;
		ori_error_restore(&before);
		ori_net_close(&c->conn);
		status = lend_may_wait(c);
		if (status != ORIEL_OK)
			return status;
		nanosleep(&pause, NULL);
	}
}

/* The descriptors of the answer, in the order of the pieces. */
static enum oriel_status lend_map(const struct lend_call *c, const struct ori_mem_blob *blobs,
				  struct ori_mapping *maps)
{
	const struct ori_fds *fds = &c->conn.fds;
	enum oriel_status status = ORIEL_OK;
	unsigned i, at = 0;

	for (i = 0; i < ORI_SHARE_PIECES && status == ORIEL_OK; i++) {
		if (!blobs[i].length)
			continue;
		if (at == fds->count)
			status = ori_fail(ORIEL_ERR_PROTOCOL,
					  "rank %u sent %u descriptors of its window %u", c->peer,
					  fds->count, c->number);
		else
			status = ori_mem_import(&blobs[i], fds->of[at++], &maps[i]);
	}
	if (status != ORIEL_OK)
		ori_share_close(maps, ORI_SHARE_PIECES);
	return status;
}

enum oriel_status ori_lend_borrow(struct oriel_comm *comm, unsigned peer, uint32_t number,
				  const struct ori_mem_blob *blobs, struct ori_mapping *maps)
{
	uint64_t half = ori_comm_half_timeout(comm), boot = ori_comm_boot_limit(comm);
	struct lend_call c = {.comm = comm,
			      .peer = peer,
			      .number = number,
			      .limit_ns = boot < half ? boot : half};
	enum oriel_status status;

	c.deadline = ori_deadline(c.limit_ns);
	ori_net_open(&c.conn, -1, NULL);
	ori_late_begin(&c.late);
	status = lend_ask(&c);
	if (status == ORIEL_OK)
		status = lend_map(&c, blobs, maps);
	ori_net_close(&c.conn);
	return status;
}
