/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first failure of a communicator, recorded for this rank, passed on to its domain, and
 * read for users. heartbeat.c reports it to rdma peers.
 */
#include "comm/health.h"

#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>

#include <oriel/dev/detail/wait.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/wait_text.h"
#include "base/yield.h"
#include "comm/health_text.h"
#include "comm/silence.h"
#include "rdma/rdma.h"
#include "topo/classify.h"

#define HEALTH_WRITE_NS 1000000000u /* only a dead thread takes so long to write a record */
#define HEALTH_WRITER_AT 8          /* bit of the state where the rank that writes is, plus 1 */
#define HEALTH_STATE ((1u << HEALTH_WRITER_AT) - 1)

static enum oriel_path health_path(const struct oriel_comm *comm, unsigned from, unsigned to)
{
	if (from == comm->rank)
		return (enum oriel_path)comm->host_paths.of[to].path;
	return ori_classify(&comm->hosts[from], from, &comm->hosts[to], to, NULL, 0);
}

static void health_read_queue(const struct oriel_dev_fault *fault, struct oriel_health *health)
{
	health->queue = fault->id;
	health->reason = ori_rdma_error_text(fault->seen);
	health->syndrome = ori_dev_queue_err_syndrome(fault->seen);
	health->vendor = ori_dev_queue_err_vendor(fault->seen);
	health->request = ori_dev_queue_err_index(fault->seen);
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

	ori_dev_fault_write(health, &record);
}

bool ori_health_collect(struct ori_control *control)
{
	struct oriel_dev_fault record;

	if (ori_dev_load_acquire32(&control->blame.state) != ORIEL_DEV_FAULT_FULL)
		return false;
	record = ori_dev_fault_copy(&control->blame);
	ori_dev_leave(&control->health, &record);
	return true;
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

	(void)ori_health_collect(comm->control);
	for (;;) {
		state = ori_dev_load_acquire32(&health->state);
		if ((state & HEALTH_STATE) != ORIEL_DEV_FAULT_WRITING)
			return state == ORIEL_DEV_FAULT_FULL;
		if (!deadline)
			deadline = ori_deadline(HEALTH_WRITE_NS);
		else if (ori_deadline_passed(deadline))
			health_finish(health, health_writer(comm, state));
		ori_yield();
	}
}

/* A limit has passed: if a rank did not run meanwhile, that one is to blame, whoever waited for it.
 */
static void health_find_silent(const struct oriel_comm *comm, struct oriel_health *health)
{
	/* A link has half of it: demand.c. */
	bool is_link = strcmp(health->what, ori_what_name(ORIEL_DEV_LINK)) == 0;
	uint64_t limit_ns = is_link ? comm->timeout_ns / 2 : comm->timeout_ns;
	uint64_t age_ns = health->age_ns ? health->age_ns : limit_ns;
	unsigned rank;

	health->awaited = health->rank;
	if (health->status != ORIEL_ERR_TIMEOUT || health->queue)
		return;
	if (strcmp(health->what, ori_what_name(ORIEL_DEV_HEARTBEAT)) == 0) {
		health->silent_ns = health->age_ns;
		return;
	}
	rank = ori_silence_blame(comm, age_ns, &health->silent_ns);
	if (rank == ORIEL_DEV_NO_RANK)
		return;
	health->rank = (int)rank;
	health->path =
		health_path(comm, health->finder == rank ? comm->rank : health->finder, rank);
}

/*
 * The control segment is written by peers, so that nothing in it is trusted beyond its
 * type: numbers out of range become "unknown", not a crash.
 */
static void health_read(const struct oriel_comm *comm, struct oriel_health *health)
{
	const struct oriel_dev_fault *fault = &comm->control->health;

	memset(health, 0, sizeof(*health));
	health->what = ori_what_name(ORIEL_DEV_NOTHING);
	health->rank = -1;
	health->awaited = -1;
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
	if (health->object == 0 && fault->id != 0 && ori_dev_link_is_own_access(fault->seen)) {
		health_read_own_access(comm, fault, health);
		return;
	}
	health->expected = fault->expected;
	if (health->object == 0 && fault->id != 0) {
		health_read_queue(fault, health);
		health->seen = fault->age_ns;
	} else {
		health->id = fault->id;
		health->seen = fault->seen;
		health->age_ns = fault->age_ns;
	}
	health_find_silent(comm, health);
}

enum oriel_status oriel_comm_health(const struct oriel_comm *comm, struct oriel_health *health)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_health found = {0};

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_health", health);
	if (status != ORIEL_OK)
		return status;
	health_read(comm, &found);
	ori_info_write(health, &found, sizeof(found));
	return ORIEL_OK;
}

bool ori_comm_is_well(const struct oriel_comm *comm)
{
	/* Before the control segment exists nothing can be broken. */
	if (!comm->control)
		return true;
	return !health_has_record(comm);
}

bool ori_comm_is_silent(const struct oriel_comm *comm)
{
	return ori_dev_load_acquire32(&comm->control->health.state) == ORIEL_DEV_FAULT_FULL &&
	       comm->control->health.what == ORIEL_DEV_HEARTBEAT;
}

/* Did another rank find it, which the text alone does not say? */
static bool health_is_others(const struct oriel_comm *comm, const struct oriel_health *h)
{
	return h->finder != comm->rank && h->finder != (unsigned)h->rank && !ori_health_is_exit(h);
}

enum oriel_status ori_comm_check(const struct oriel_comm *comm)
{
	struct oriel_health health;
	char text[512];

	if (ori_comm_is_well(comm))
		return ORIEL_OK;
	health_read(comm, &health);
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
		    unsigned peer, uint64_t expected)
{
	struct oriel_dev_fault record = health_record(status, what, peer);

	record.expected = expected;
	ori_comm_break_for(comm, &record);
}

void ori_comm_break_for(struct oriel_comm *comm, const struct oriel_dev_fault *record)
{
	/* Before the control segment exists only create() can fail, which returns its status. */
	if (comm->control)
		ori_dev_leave(&comm->control->health, record);
}

/*
 * ori_dev_leave() at any rank. The first word names the writer, in case it dies while
 * it writes.
 */
static void health_leave(struct oriel_dev_fault *health, const struct oriel_dev_fault *record,
			 unsigned writer)
{
	const size_t body = offsetof(struct oriel_dev_fault, status);
	uint32_t writing = ORIEL_DEV_FAULT_WRITING | (writer + 1) << HEALTH_WRITER_AT;

	if (!ori_dev_swap_acq_rel32_gpu(&health->state, ORIEL_DEV_FAULT_EMPTY, writing))
		return;
	memcpy((char *)health + body, (const char *)record + body, sizeof(*record) - body);
	/* Acquired by a reader that finds the record FULL. */
	ori_dev_store_release32(&health->state, ORIEL_DEV_FAULT_FULL);
}

static void health_spread(struct oriel_comm *comm, const struct oriel_dev_fault *record)
{
	unsigned i;

	for (i = 0; i < comm->size; i++) {
		struct ori_control *control = comm->peers[i].address;

		if (!control)
			continue;
		/* A failure that kernels of that rank found came first. */
		(void)ori_health_collect(control);
		health_leave(&control->health, record, comm->rank);
	}
}

void ori_comm_break_all(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
			unsigned peer, uint64_t expected)
{
	struct oriel_dev_fault record = health_record(status, what, peer);

	record.finder = comm->rank + 1;
	record.expected = expected;
	health_spread(comm, &record);
}

struct oriel_dev_fault ori_comm_record(const struct oriel_comm *comm)
{
	struct oriel_dev_fault record = ori_dev_fault_copy(&comm->control->health);

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

bool ori_comm_wake(struct oriel_comm *comm)
{
	if (!comm->watcher.is_running)
		return false;
	/* An eventfd that is too full to take more wakes as well. */
	(void)eventfd_write(comm->watcher.wake, 1);
	return true;
}
