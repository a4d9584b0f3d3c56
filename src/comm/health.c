/* SPDX-License-Identifier: Apache-2.0 */
/* What broke a communicator: kept, told, and passed on to the peers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <oriel/dev/wait.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"

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

/*
 * The control segment is written by peers, so nothing in it is trusted beyond
 * its type: numbers out of range become "unknown", not a crash.
 */
void ori_health_read(const struct oriel_comm *comm, struct oriel_health *health)
{
	const struct oriel_dev_fault *fault = &comm->control->health;

	memset(health, 0, sizeof(*health));
	health->what = ori_what_name(ORIEL_DEV_NOTHING);
	health->rank = -1;
	if (oriel_dev_load_acquire32(&fault->state) != ORIEL_DEV_FAULT_FULL)
		return;
	health->status = fault->status < 0 ? (enum oriel_status)fault->status : ORIEL_ERR_PROTOCOL;
	health->what = ori_what_name(fault->what);
	if (fault->peer < comm->size) {
		health->rank = (int)fault->peer;
		health->path = (enum oriel_path)comm->of[fault->peer].path;
	}
	health->object = fault->window;
	health->id = fault->id;
	health->expected = fault->expected;
	health->seen = fault->seen;
	health->age_ns = fault->age_ns;
}

enum oriel_status oriel_comm_health(const struct oriel_comm *comm, struct oriel_health *health)
{
	ori_health_read(comm, health);
	return ORIEL_OK;
}

size_t oriel_health_text(const struct oriel_health *h, char *buffer, size_t length)
{
	char who[48] = "";

	if (h->rank >= 0)
		snprintf(who, sizeof(who), " rank %d (%s)", h->rank, oriel_path_name(h->path));
	if (h->status == ORIEL_OK)
		return (size_t)snprintf(buffer, length, "all is well");
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) == 0)
		return (size_t)snprintf(buffer, length, "rank %d has gone without the others",
					h->rank);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_ABORT)) == 0)
		return (size_t)snprintf(buffer, length, "aborted by%s", who);
	if (h->object == 0)
		return (size_t)snprintf(buffer, length, "%s with%s failed: %s", h->what,
					h->rank < 0 ? " the ranks" : who,
					oriel_status_text(h->status));
	return (size_t)
		snprintf(buffer, length,
			 "%s waited %.1f s in vain for%s: window %u, id %u, expected %" PRIu64
			 ", seen %" PRIu64,
			 h->what, (double)h->age_ns / 1e9, h->rank < 0 ? " all ranks" : who,
			 h->object, h->id, h->expected, h->seen);
}

size_t oriel_health_json(const struct oriel_health *h, char *buffer, size_t length)
{
	return (size_t)snprintf(buffer, length,
				"{\"status\":\"%s\",\"what\":\"%s\",\"rank\":%d,\"path\":\"%s\","
				"\"object\":%u,\"id\":%u,\"expected\":%" PRIu64 ",\"seen\":%" PRIu64
				",\"age_ns\":%" PRIu64 "}",
				oriel_status_name(h->status), h->what, h->rank,
				oriel_path_name(h->path), h->object, h->id, h->expected, h->seen,
				h->age_ns);
}

enum oriel_status ori_comm_check(const struct oriel_comm *comm)
{
	struct oriel_health health;
	char text[256];

	/* Before the control segment exists there is nothing to be broken. */
	if (!comm->control ||
	    oriel_dev_load_acquire32(&comm->control->health.state) != ORIEL_DEV_FAULT_FULL)
		return ORIEL_OK;
	ori_health_read(comm, &health);
	oriel_health_text(&health, text, sizeof(text));
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

	/* Before the control segment exists a failed create is all there is. */
	if (comm->control)
		oriel_dev_leave(&comm->control->health, &record);
}

static void health_spread(struct oriel_comm *comm, const struct oriel_dev_fault *record)
{
	unsigned i;

	for (i = 0; i < comm->size; i++) {
		struct ori_control *control = comm->peers[i].address;

		if (control)
			oriel_dev_leave(&control->health, record);
	}
}

void ori_comm_break_all(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
			unsigned peer)
{
	struct oriel_dev_fault record = health_record(status, what, peer);

	health_spread(comm, &record);
}

void ori_comm_pass_on(struct oriel_comm *comm)
{
	struct oriel_dev_fault record;

	if (oriel_dev_load_acquire32(&comm->control->health.state) != ORIEL_DEV_FAULT_FULL)
		return;
	record = oriel_dev_fault_copy(&comm->control->health);
	health_spread(comm, &record);
}

void oriel_comm_abort(struct oriel_comm *comm, const char *why)
{
	ori_log(ORIEL_LOG_WARN, "rank %u aborts the communicator: %s", comm->rank,
		why ? why : "no reason given");
	ori_comm_break_all(comm, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, comm->rank);
}
