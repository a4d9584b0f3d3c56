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

#include <stdlib.h>

#include "base/error.h"
#include "comm/ask.h"
#include "comm/mesh.h"
#include "comm/paths.h"
#include "net/listen.h"

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
static void lend_answer(struct oriel_comm *comm, const struct lend_ask *ask,
			struct ori_net_conn *conn)
{
	const struct ori_loan *loan;
	const struct ori_frame frame = {.type = LEND_ANSWER, .length = sizeof(struct lend_answer)};
	struct lend_answer answer = {.status = ORIEL_ERR_STATE};
	int fds[ORI_SHARE_PIECES * ORI_MEM_FDS];
	unsigned i, count = 0;
	size_t done = 0;

	pthread_mutex_lock(&comm->loans_lock);
	loan = comm->loans;
	while (loan && loan->number != ask->number)
		loan = loan->next;
	for (i = 0; loan && i < ORI_SHARE_PIECES; i++)
		if (loan->mem[i])
			count += ori_mem_fds(loan->mem[i], fds + count);
	if (loan)
		answer.status = ORIEL_OK;
	(void)ori_net_write_fds(conn, &frame, &answer, fds, count, &done);
	pthread_mutex_unlock(&comm->loans_lock);
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
		if (lend_parse(comm, arrived, &ask))
			lend_answer(comm, &ask, &arrived->conn);
		else
			ori_net_listener_warn(listener, arrived->from,
					      "it is no rank of this job that maps a window");
		ori_net_pending_free(arrived);
	}
	ori_error_restore(&before);
}

/* A peer that has exited breaks the communicator, by the mesh. */
static enum oriel_status lend_ask(struct ori_ask *ask, uint32_t number)
{
	const struct ori_host *host = &ask->comm->hosts[ask->peer];
	const struct lend_ask question = {ORI_COMM_WIRE, ask->comm->rank, number, 0};
	struct lend_answer answer;
	const struct ori_ask_frames frames = {LEND_ASK,         LEND_ANSWER, &question,
					      sizeof(question), &answer,     sizeof(answer)};
	enum oriel_status status;
	struct ori_error before;

	ori_error_save(&before);
	for (;;) {
		status = ori_ask_dial(ask, ori_mesh_name(ask->comm, ask->peer), host->pid);
		if (status == ORIEL_OK)
			status = ori_ask_once(ask, &frames);
		if (status != ORIEL_AGAIN && status != ORIEL_ERR_PEER)
			break;
		ori_error_restore(&before);
		ori_net_close(&ask->conn);
		status = ori_ask_may_retry(ask);
		if (status != ORIEL_OK)
			return status;
	}
	if (status == ORIEL_OK && answer.status != ORIEL_OK)
		return ori_fail(ORIEL_ERR_STATE, "rank %u has no window %u any more", ask->peer,
				number);
	return status;
}

/* The descriptors of the answer, in the order of the pieces. */
static enum oriel_status lend_map(const struct ori_ask *ask, uint32_t number,
				  const struct ori_mem_blob *blobs, struct ori_mapping *maps)
{
	const struct ori_fds *fds = &ask->conn.fds;
	enum oriel_status status = ORIEL_OK;
	unsigned i, at = 0;

	for (i = 0; i < ORI_SHARE_PIECES && status == ORIEL_OK; i++) {
		if (!blobs[i].length)
			continue;
		if (at == fds->count)
			status = ori_fail(ORIEL_ERR_PROTOCOL,
					  "rank %u sent %u descriptors of its window %u", ask->peer,
					  fds->count, number);
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
	enum oriel_status status;
	struct ori_ask ask;

	ori_ask_begin(&ask, comm, peer, "maps its window %u", number);
	status = lend_ask(&ask, number);
	if (status == ORIEL_OK)
		status = lend_map(&ask, number, blobs, maps);
	ori_ask_end(&ask);
	return status;
}
