/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first failure of a communicator in words, for errors and logs, and as JSON. health.c
 * calls it, and users do.
 */
#include "comm/health_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/wait_text.h"
#include "comm/exchange.h"
#include "rdma/rdma.h"

static const char *const call_names[] = {
	[ORI_CALL_COMM_CREATE] = "oriel_comm_create",
	[ORI_CALL_COMM_DESTROY] = "oriel_comm_destroy",
	[ORI_CALL_COMM_BARRIER] = "oriel_comm_barrier",
	[ORI_CALL_COMM_ALL_GATHER] = "oriel_comm_all_gather",
	[ORI_CALL_COMM_AGREE] = "oriel_comm_agree",
	[ORI_CALL_REGION_SHARE] = "oriel_region_share",
	[ORI_CALL_REGION_UNREGISTER] = "oriel_region_unregister",
	[ORI_CALL_WINDOW_CREATE] = "oriel_window_create",
	[ORI_CALL_WINDOW_SHARE] = "oriel_window_share",
	[ORI_CALL_WINDOW_DESTROY] = "oriel_window_destroy",
	[ORI_CALL_ALLGATHER_DESTROY] = "oriel_allgather_destroy",
	[ORI_CALL_ALLTOALL_DESTROY] = "oriel_alltoall_destroy",
	[ORI_CALL_BCAST_DESTROY] = "oriel_bcast_destroy",
	[ORI_CALL_ALLREDUCE_DESTROY] = "oriel_allreduce_destroy",
	[ORI_CALL_REDUCE_SCATTER_DESTROY] = "oriel_reduce_scatter_destroy",
	[ORI_CALL_REDUCE_DESTROY] = "oriel_reduce_destroy",
	[ORI_CALL_GATHER_DESTROY] = "oriel_gather_destroy",
	[ORI_CALL_SCATTER_DESTROY] = "oriel_scatter_destroy",
	[ORI_CALL_COMM_SPLIT] = "oriel_comm_split",
	[ORI_CALL_COMM_GROW] = "oriel_comm_grow",
	[ORI_CALL_COMM_MERGE] = "oriel_comm_merge",
};

const char *ori_call_name(unsigned call)
{
	if (call < sizeof(call_names) / sizeof(call_names[0]) && call_names[call])
		return call_names[call];
	return "an unknown call";
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
 * The error of the NIC: "remote access error (syndrome ...), WQE 17 of queue 0x41", or how far it
 * is when a limit passes.
 */
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
		snprintf(buffer, length,
			 "%s Queue 0x%x has completed %" PRIu64 " of %" PRIu64 " WQEs",
			 oriel_status_text(h->status), h->queue, h->seen, h->expected);
	else
		snprintf(buffer, length, "%s", oriel_status_text(h->status));
}

static bool health_is_own_access(const struct oriel_health *h)
{
	return h->queue && ori_dev_link_is_own_access(
				   ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, h->syndrome, 0, 0));
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

bool ori_health_is_exit(const struct oriel_health *h)
{
	return strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) == 0 ||
	       (h->queue && h->status == ORIEL_ERR_PEER);
}

/* The exit of a rank, and what failed on it: an operation, or else nothing but a heartbeat. */
static size_t health_exit_text(const struct oriel_health *h, const char *queue, char *buffer,
			       size_t length)
{
	bool is_lost = strcmp(h->what, ori_what_name(ORIEL_DEV_LOST)) == 0;

	if (h->rank < 0)
		return (size_t)snprintf(buffer, length,
					"a rank exited while it reported a failure");
	return (size_t)snprintf(buffer, length,
				"rank %d exited before the communicator was destroyed%s%s%s%s",
				h->rank, h->queue ? ": " : "", is_lost ? "" : h->what,
				is_lost ? "" : " failed: ", h->queue ? queue : "");
}

void ori_silent_text(unsigned rank, uint64_t silent_ns, char *text, size_t length)
{
	snprintf(text, length, "; rank %u has not run for %.1f s: it is stopped, or its machine is",
		 rank, (double)silent_ns / 1e9);
}

/*
 * Ends the text of a limit that passed: the rank that stood still, or what a user may do if no rank
 * is stuck. A failed queue has a reason of its own.
 */
static void health_end_text(const struct oriel_health *h, char *buffer, size_t length)
{
	buffer[0] = '\0';
	if (h->status != ORIEL_ERR_TIMEOUT || (h->queue && h->reason[0]))
		return;
	if (h->silent_ns)
		ori_silent_text((unsigned)h->rank, h->silent_ns, buffer, length);
	else
		snprintf(buffer, length, "; raise ORIEL_TIMEOUT if %s only slow",
			 h->rank < 0 && !ori_collective_noun(h->object) ? "they are" : "it is");
}

/* The text of a failure that is not about a window. */
static size_t health_comm_text(const struct oriel_health *h, const char *peer, const char *end,
			       char *buffer, size_t length)
{
	char queue[200];

	health_queue_text(h, queue, sizeof(queue));
	if (health_is_own_access(h))
		return health_own_access_text(h, queue, buffer, length);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_ABORT)) == 0)
		return (size_t)snprintf(buffer, length, "aborted by%s", peer);
	if (ori_health_is_exit(h))
		return health_exit_text(h, queue, buffer, length);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_HEARTBEAT)) == 0)
		return (size_t)snprintf(buffer, length, "ORIEL_HEARTBEAT%s", end);
	if (h->status == ORIEL_ERR_TIMEOUT && h->awaited >= 0 && h->expected &&
	    strcmp(h->what, ori_what_name(ORIEL_DEV_EXCHANGE)) == 0)
		return (size_t)snprintf(buffer, length,
					"rank %d did not enter %s, where rank %u waited until its "
					"limit%s",
					h->awaited, ori_call_name((unsigned)h->expected), h->finder,
					end);
	if (h->status == ORIEL_ERR_TIMEOUT && !h->queue)
		return (size_t)snprintf(buffer, length, "%s with%s timed out%s", h->what,
					h->awaited < 0 ? " the ranks" : peer, end);
	return (size_t)snprintf(buffer, length, "%s %s%s failed: %s%s", h->what,
				h->queue ? "to" : "with", h->rank < 0 ? " the ranks" : peer, queue,
				end);
}

/* The number of the operation that @h names. */
static uint32_t health_what(const struct oriel_health *h)
{
	uint32_t what = ORIEL_DEV_JOB;

	while (what && strcmp(h->what, ori_what_name(what)) != 0)
		what--;
	return what;
}

static size_t health_window_text(const struct oriel_health *h, const char *peer, const char *end,
				 char *buffer, size_t length)
{
	const char *noun = ori_collective_noun(h->object);

	/* A barrier reports it: ori_dev_blame_arrival(). */
	if (h->status == ORIEL_ERR_STATE)
		return (size_t)snprintf(
			buffer, length,
			"%s%s: window %u, slot %u: this rank arrived again before it waited "
			"for its last arrival, which a limit ended: continue such a call with a "
			"limit of its own, or with the call that only waits",
			h->what, peer, ORIEL_DEV_WINDOW_NUMBER(h->object), h->id);
	/* Lengths that a kernel finds: ori_act_blame() of kernels/act.h. */
	if (h->status == ORIEL_ERR_MISMATCH)
		return (size_t)snprintf(buffer, length,
					"%s: a message of %" PRIu64 " bytes to or from%s, of which "
					"the receiver expects %" PRIu64,
					noun ? noun : h->what, h->seen, peer, h->expected);
	if (h->status == ORIEL_ERR_RANGE)
		return (size_t)snprintf(buffer, length,
					"%s with%s: the end, byte %" PRIu64
					", is beyond the %" PRIu64 " bytes of the buffer",
					noun ? noun : h->what, peer, h->seen, h->expected);
	if (noun)
		return (size_t)
			snprintf(buffer, length,
				 "%s timed out after %.1f s: %s%s has not started an "
				 "execution that its peers wait in, or is slow: all ranks start "
				 "the same ones in one order, with equal bytes and roots%s",
				 ori_collective_noun(h->object), (double)h->age_ns / 1e9,
				 h->awaited < 0 ? "a rank" : "",
				 h->awaited < 0 ? "" : peer + strlen(" "), end);
	if (strcmp(h->what, ori_what_name(ORIEL_DEV_RECV)) == 0)
		return (size_t)snprintf(buffer, length,
					"recv timed out after %.1f s, waiting for%s: window %u, "
					"channel %u: %" PRIu64
					" bytes arrived in all, byte %" PRIu64
					" did not; the lengths of the sends "
					"and the receives of a channel must add up%s",
					(double)h->age_ns / 1e9, peer, h->object, h->id, h->seen,
					h->expected, end);
	return (size_t)snprintf(buffer, length,
				"%s timed out after %.1f s, waiting for%s: window %u, %s %u, "
				"expected %" PRIu64 ", seen %" PRIu64 "%s",
				h->what, (double)h->age_ns / 1e9,
				h->awaited < 0 ? " all ranks" : peer, h->object,
				ori_what_noun(health_what(h)), h->id, h->expected, h->seen, end);
}

static bool health_is_given(const struct oriel_health *h, const char *buffer, size_t length,
			    const char *call)
{
	if (h && (buffer || !length))
		return true;
	(void)ori_fail_null(call, h ? "buffer" : "health");
	return false;
}

size_t oriel_health_text(const struct oriel_health *h, char *buffer, size_t length)
{
	char peer[48] = "", end[128];

	if (!health_is_given(h, buffer, length, __func__))
		return 0;
	if (h->status == ORIEL_OK)
		return (size_t)snprintf(buffer, length, "all is well");
	if (h->silent_ns && h->awaited >= 0 && h->awaited != h->rank)
		snprintf(peer, sizeof(peer), " rank %d", h->awaited);
	else if (h->rank >= 0)
		snprintf(peer, sizeof(peer), " rank %d (%s)", h->rank, oriel_path_name(h->path));
	health_end_text(h, end, sizeof(end));
	return h->object ? health_window_text(h, peer, end, buffer, length)
			 : health_comm_text(h, peer, end, buffer, length);
}

/* Members of a failed queue, and of a rank that stood still; none where there is neither. */
static void health_more_json(const struct oriel_health *h, char *buffer, size_t length)
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
	if (h->silent_ns)
		snprintf(buffer, length, ",\"awaited\":%d,\"silent_ns\":%" PRIu64, h->awaited,
			 h->silent_ns);
}

size_t oriel_health_json(const struct oriel_health *h, char *buffer, size_t length)
{
	char more[320];

	if (!health_is_given(h, buffer, length, __func__))
		return 0;
	health_more_json(h, more, sizeof(more));
	return (size_t)snprintf(buffer, length,
				"{\"status\":\"%s\",\"what\":\"%s\",\"finder\":%u,"
				"\"rank\":%d,\"path\":\"%s\","
				"\"object\":%u,\"id\":%u,\"expected\":%" PRIu64 ",\"seen\":%" PRIu64
				",\"age_ns\":%" PRIu64 "%s}",
				oriel_status_name(h->status), h->what, h->finder, h->rank,
				oriel_path_name(h->path), ORIEL_DEV_WINDOW_NUMBER(h->object), h->id,
				h->expected, h->seen, h->age_ns, more);
}
