/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a communicator: the first failure, recorded for this rank, passed on to
 * its domain, and read for users. heartbeat.c reports it to rdma peers.
 */
#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <oriel/dev/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "rdma/rdma.h"

#define HEALTH_WRITE_NS 1000000000u /* only a dead thread takes so long to write a record */
#define HEALTH_WRITER_AT 8          /* bit of the state where the rank that writes is, plus 1 */
#define HEALTH_STATE ((1u << HEALTH_WRITER_AT) - 1)

static const char *const what_names[] = {
	[ORIEL_DEV_NOTHING] = "nothing",
	[ORIEL_DEV_PUT] = "put",
	[ORIEL_DEV_PUT_VALUE] = "put_value",
	[ORIEL_DEV_GET] = "get",
	[ORIEL_DEV_FETCH_ADD] = "fetch_add",
	[ORIEL_DEV_SIGNAL] = "signal",
	[ORIEL_DEV_WAIT_SIGNAL] = "wait_signal",
	[ORIEL_DEV_WAIT_SIGNAL_FROM] = "wait_signal_from",
	[ORIEL_DEV_WAIT_SIGNAL_NEXT] = "wait_signal_next",
	[ORIEL_DEV_BARRIER] = "barrier",
	[ORIEL_DEV_BARRIER_FLAT] = "barrier_flat",
	[ORIEL_DEV_BARRIER_PEER] = "barrier_peer",
	[ORIEL_DEV_COUNTER] = "counter",
	[ORIEL_DEV_WAIT_COUNTER] = "wait_counter",
	[ORIEL_DEV_SEND] = "send",
	[ORIEL_DEV_RECV] = "recv",
	[ORIEL_DEV_WAIT_LOCAL] = "wait_local",
	[ORIEL_DEV_FLUSH] = "flush",
	[ORIEL_DEV_EXCHANGE] = "exchange",
	[ORIEL_DEV_LINK] = "link",
	[ORIEL_DEV_ABORT] = "abort",
	[ORIEL_DEV_LOST] = "lost",
	[ORIEL_DEV_PUT_LL] = "put_ll",
	[ORIEL_DEV_WAIT_LL] = "wait_ll",
	[ORIEL_DEV_ALLTOALLV] = "exchange",
	[ORIEL_DEV_JOB] = "job",
};

const char *ori_what_name(uint32_t what)
{
	if (what < sizeof(what_names) / sizeof(what_names[0]) && what_names[what])
		return what_names[what];
	return "unknown";
}

const char *oriel_path_name(enum oriel_path path)
{
	switch (path) {
	case ORIEL_PATH_NONE:
		return "none";
	case ORIEL_PATH_SELF:
		return "self";
	case ORIEL_PATH_MAPPED:
		return "mapped";
	case ORIEL_PATH_RDMA:
		return "rdma";
	}
	return "unknown";
}

static enum oriel_path health_path(const struct oriel_comm *comm, unsigned from, unsigned to)
{
	enum oriel_path path = (enum oriel_path)comm->host_paths.of[to].path;

	if (from != comm->rank)
		oriel_comm_path_between(comm, from, to, &path);
	return path;
}

static void health_read_queue(const struct oriel_dev_fault *fault, struct oriel_health *health)
{
	health->queue = fault->id;
	health->reason = ori_rdma_error_text(fault->seen);
	health->syndrome = oriel_queue_err_syndrome(fault->seen);
	health->vendor = oriel_queue_err_vendor(fault->seen);
	health->request = oriel_queue_err_index(fault->seen);
}

/* The rank that found it caused it: no peer is to blame. */
static void health_read_own_access(const struct oriel_comm *comm,
				   const struct oriel_dev_fault *fault, struct oriel_health *health)
{
	health_read_queue(fault, health);
	health->rank = (int)health->finder;
	health->path = health_path(comm, comm->rank, health->finder);
	health->address = fault->expected;
	health->length = fault->age_ns;
}

/*
 * The peer that is writing, if @state says; threads of this rank finish their records
 * before it exits.
 */
static unsigned health_writer(const struct oriel_comm *comm, uint32_t state)
{
	unsigned writer = (state >> HEALTH_WRITER_AT) - 1;

	return writer < comm->size && writer != comm->rank ? writer : ORIEL_DEV_NO_RANK;
}

/* The writer of @health is dead: its record is lost, but not that something broke. */
static void health_finish(struct oriel_dev_fault *health, unsigned writer)
{
	const struct oriel_dev_fault record = {.status = ORIEL_ERR_PEER,
					       .what = ORIEL_DEV_LOST,
					       .peer = writer};

	oriel_dev_fault_write(health, &record);
}

/*
 * Is there a record? If another thread, maybe a peer's, is writing one, this waits for
 * its end: a thread that failed, and found that another one was first, must not read that
 * all is well.
 */
static bool health_has_record(const struct oriel_comm *comm)
{
	struct oriel_dev_fault *health = &comm->control->health;
	uint64_t deadline = 0;
	uint32_t state;

	ori_comm_gpu_collect(comm->control);
	for (;;) {
		state = oriel_dev_load_acquire32(&health->state);
		if ((state & HEALTH_STATE) != ORIEL_DEV_FAULT_WRITING)
			return state == ORIEL_DEV_FAULT_FULL;
		if (!deadline)
			deadline = ori_deadline(HEALTH_WRITE_NS);
		else if (ori_deadline_passed(deadline))
			health_finish(health, health_writer(comm, state));
		sched_yield();
	}
}

/*
 * The control segment is written by peers, so that nothing in it is trusted beyond its
 * type: numbers out of range become "unknown", not a crash.
 */
void ori_health_read(const struct oriel_comm *comm, struct oriel_health *health)
{
	const struct oriel_dev_fault *fault = &comm->control->health;

	memset(health, 0, sizeof(*health));
	health->what = ori_what_name(ORIEL_DEV_NOTHING);
	health->rank = -1;
	health->finder = comm->rank;
	health->reason = "";
	if (!health_has_record(comm))
		return;
	health->status = fault->status < 0 ? (enum oriel_status)fault->status : ORIEL_ERR_PROTOCOL;
	health->what = ori_what_name(fault->what);
	if (fault->finder != 0 && fault->finder <= comm->size)
		health->finder = fault->finder - 1;
	if (fault->peer < comm->size) {
		health->rank = (int)fault->peer;
		/* For a rank that reports itself, the path is the one from this rank. */
		health->path =
			health_path(comm,
				    health->finder == fault->peer ? comm->rank : health->finder,
				    fault->peer);
	}
	health->object = fault->window;
	if (health->object == 0 && fault->id != 0 && oriel_link_is_own_access(fault->seen)) {
		health_read_own_access(comm, fault, health);
		return;
	}
	health->expected = fault->expected;
	health->age_ns = fault->age_ns;
	if (health->object == 0 && fault->id != 0) {
		health_read_queue(fault, health);
	} else {
		health->id = fault->id;
		health->seen = fault->seen;
	}
}

enum oriel_status oriel_comm_health(const struct oriel_comm *comm, struct oriel_health *health)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status == ORIEL_OK)
		ori_health_read(comm, health);
	return status;
}

/* The error of the NIC: "remote access error (syndrome ...), WQE 17 of queue 0x41". */
static void health_queue_text(const struct oriel_health *h, char *buffer, size_t length)
{
	char codes[48] = "";

	if (h->syndrome)
		snprintf(codes, sizeof(codes), " (syndrome 0x%02x, vendor 0x%02x)", h->syndrome,
			 h->vendor);
	if (h->queue && h->reason[0])
		snprintf(buffer, length, "%s%s, WQE %" PRIu64 " of queue 0x%x", h->reason, codes,
			 h->request, h->queue);
	else if (h->queue)
		snprintf(buffer, length, "%s Queue 0x%x", oriel_status_text(h->status), h->queue);
	else
		snprintf(buffer, length, "%s", oriel_status_text(h->status));
}

static bool health_is_own_access(const struct oriel_health *h)
{
	return h->queue &&
	       oriel_link_is_own_access(oriel_queue_err(ORIEL_QUEUE_ERROR_CQE, h->syndrome, 0, 0));
}

static size_t health_own_access_text(const struct oriel_health *h, const char *queue, char *buffer,
				     size_t length)
{
	char memory[64] = "";

	if (h->length)
		snprintf(memory, sizeof(memory), " of %" PRIu64 " bytes at 0x%" PRIx64, h->length,
			 h->address);
	return (size_t)snprintf(buffer, length,
				"rank %d ended its queue after a local access error of its own: "
				"%s%s: %s",
				h->rank, h->what, memory, queue);
}

/* The text of a failure that is not about a window. */
static size_t health_comm_text(const struct oriel_health *h, const char *peer, char *buffer,
			       size_t length)
{
	char queue[200];

	health_queue_text(h, queue, sizeof(queue));
	if (health_is_own_access(h))
		return health_own_access_text(h, queue, buffer, length);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_ABORT)) == 0)
		return (size_t)snprintf(buffer, length, "aborted by%s", peer);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) == 0 && h->rank < 0)
		return (size_t)snprintf(buffer, length,
					"a rank exited while it reported a failure");
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) == 0 && !h->queue)
		return (size_t)snprintf(buffer, length, "rank %d exited without the others",
					h->rank);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) == 0)
		return (size_t)snprintf(buffer, length, "rank %d exited without the others: %s",
					h->rank, queue);
	return (size_t)snprintf(buffer, length, "%s %s%s failed: %s", h->what,
				h->queue ? "to" : "with", h->rank < 0 ? " the ranks" : peer, queue);
}

static size_t health_window_text(const struct oriel_health *h, const char *peer, char *buffer,
				 size_t length)
{
	/* A barrier reports it: oriel_dev_blame_arrival(). */
	if (h->status == ORIEL_ERR_STATE)
		return (size_t)snprintf(
			buffer, length,
			"%s%s: window %u, slot %u: this rank arrived again before it waited "
			"for its last arrival, which a limit ended: continue such a call with a "
			"limit of its own, or with the call that only waits",
			h->what, peer, h->object, h->id);
	return (size_t)snprintf(
		buffer, length,
		"%s timed out after %.1f s, waiting for%s: window %u, id %u, expected %" PRIu64
		", seen %" PRIu64,
		h->what, (double)h->age_ns / 1e9, h->rank < 0 ? " all ranks" : peer, h->object,
		h->id, h->expected, h->seen);
}

size_t oriel_health_text(const struct oriel_health *h, char *buffer, size_t length)
{
	char peer[48] = "";

	if (h->status == ORIEL_OK)
		return (size_t)snprintf(buffer, length, "all is well");
	if (h->rank >= 0)
		snprintf(peer, sizeof(peer), " rank %d (%s)", h->rank, oriel_path_name(h->path));
	return h->object ? health_window_text(h, peer, buffer, length)
			 : health_comm_text(h, peer, buffer, length);
}

/* Members of a failed queue; none where no queue failed. */
static void health_queue_json(const struct oriel_health *h, char *buffer, size_t length)
{
	int used = 0;

	buffer[0] = '\0';
	if (h->queue)
		used = snprintf(buffer, length,
				",\"queue\":%u,\"request\":%" PRIu64
				",\"reason\":\"%s\",\"syndrome\":%u,\"vendor\":%u",
				h->queue, h->request, h->reason, h->syndrome, h->vendor);
	if (health_is_own_access(h))
		snprintf(buffer + used, length - (size_t)used,
			 ",\"address\":%" PRIu64 ",\"length\":%" PRIu64, h->address, h->length);
}

size_t oriel_health_json(const struct oriel_health *h, char *buffer, size_t length)
{
	char queue[320];

	health_queue_json(h, queue, sizeof(queue));
	return (size_t)snprintf(buffer, length,
				"{\"status\":\"%s\",\"what\":\"%s\",\"finder\":%u,"
				"\"rank\":%d,\"path\":\"%s\","
				"\"object\":%u,\"id\":%u,\"expected\":%" PRIu64 ",\"seen\":%" PRIu64
				",\"age_ns\":%" PRIu64 "%s}",
				oriel_status_name(h->status), h->what, h->finder, h->rank,
				oriel_path_name(h->path), h->object, h->id, h->expected, h->seen,
				h->age_ns, queue);
}

bool ori_comm_is_well(const struct oriel_comm *comm)
{
	/* Before the control segment exists nothing can be broken. */
	if (!comm->control)
		return true;
	return !health_has_record(comm);
}

/* Did another rank find it, which the text alone does not say? */
static bool health_is_others(const struct oriel_comm *comm, const struct oriel_health *h)
{
	return h->finder != comm->rank && h->finder != (unsigned)h->rank &&
	       strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) != 0;
}

enum oriel_status ori_comm_check(const struct oriel_comm *comm)
{
	struct oriel_health health;
	char text[512];

	if (ori_comm_is_well(comm))
		return ORIEL_OK;
	ori_health_read(comm, &health);
	oriel_health_text(&health, text, sizeof(text));
	if (health_is_others(comm, &health))
		return ori_fail(health.status, "rank %u: %s", health.finder, text);
	return ori_fail(health.status, "%s", text);
}

static struct oriel_dev_fault health_record(enum oriel_status status, enum oriel_dev_what what,
					    unsigned peer)
{
	struct oriel_dev_fault record = {0};

	record.status = status;
	record.what = what;
	record.peer = peer;
	return record;
}

void ori_comm_break(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
		    unsigned peer)
{
	struct oriel_dev_fault record = health_record(status, what, peer);

	ori_comm_break_for(comm, &record);
}

void ori_comm_break_for(struct oriel_comm *comm, const struct oriel_dev_fault *record)
{
	/* Before the control segment exists only create() can fail, which returns its status. */
	if (comm->control)
		oriel_dev_leave(&comm->control->health, record);
}

/*
 * oriel_dev_leave() at any rank. The first word names the writer, in case it dies while
 * it writes.
 */
static void health_leave(struct oriel_dev_fault *health, const struct oriel_dev_fault *record,
			 unsigned writer)
{
	const size_t body = offsetof(struct oriel_dev_fault, status);
	uint32_t writing = ORIEL_DEV_FAULT_WRITING | (writer + 1) << HEALTH_WRITER_AT;

	if (!oriel_dev_swap_acq_rel32_gpu(&health->state, ORIEL_DEV_FAULT_EMPTY, writing))
		return;
	memcpy((char *)health + body, (const char *)record + body, sizeof(*record) - body);
	/* Acquired by a reader that finds the record FULL. */
	oriel_dev_store_release32(&health->state, ORIEL_DEV_FAULT_FULL);
}

static void health_spread(struct oriel_comm *comm, const struct oriel_dev_fault *record)
{
	unsigned i;

	for (i = 0; i < comm->size; i++) {
		struct ori_control *control = comm->peers[i].address;

		if (!control)
			continue;
		/* A failure that kernels of that rank found came first. */
		ori_comm_gpu_collect(control);
		health_leave(&control->health, record, comm->rank);
	}
}

void ori_comm_break_all(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
			unsigned peer)
{
	struct oriel_dev_fault record = health_record(status, what, peer);

	record.finder = comm->rank + 1;
	health_spread(comm, &record);
}

struct oriel_dev_fault ori_comm_record(const struct oriel_comm *comm)
{
	struct oriel_dev_fault record = oriel_dev_fault_copy(&comm->control->health);

	if (!record.finder)
		record.finder = comm->rank + 1;
	return record;
}

void ori_comm_pass_on(struct oriel_comm *comm)
{
	struct oriel_dev_fault record;

	if (ori_comm_is_well(comm))
		return;
	record = ori_comm_record(comm);
	health_spread(comm, &record);
}

void oriel_comm_abort(struct oriel_comm *comm, const char *why)
{
	if (!ori_handle_use(comm, ORI_HANDLE_COMM, __func__))
		return;
	ori_log(ORIEL_LOG_WARN, "rank %u aborts the communicator: %s", comm->rank,
		why ? why : "no reason given");
	ori_comm_break_all(comm, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, comm->rank);
	/* The caller may exit at once, so that the peers must have the report by now. */
	ori_heartbeat_await_reports(comm);
}
