/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives operations that fail their texts. window_host.c calls it, and window_stream.c where memory
 * is missing.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/wait_text.h"
#include "comm/health.h"
#include "kernels/act.h"
#include "window/window.h"

#define HOST_NAME(number, name, threads) #name,
static const char *const host_names[] = {ORI_KERNELS(HOST_NAME)};

/* The operation that the user called. */
static const char *host_name(enum ori_kernel kernel, const struct ori_kernel_call *c)
{
	return kernel == ORI_KERNEL_ATOMIC
		       ? ori_what_name(ori_dev_atomic_what((enum oriel_dev_atomic_op)c->op))
		       : host_names[kernel];
}

enum oriel_status ori_window_host_null(const struct oriel_window *w, enum ori_kernel kernel,
				       uint32_t op)
{
	const struct ori_kernel_call c = {.op = op};

	return ori_fail(ORIEL_ERR_INVALID, "%s: window %u: the caller's memory is NULL",
			host_name(kernel, &c), ORIEL_DEV_WINDOW_NUMBER(w->device.number));
}

enum oriel_status ori_window_host_no_access(const struct oriel_window *w, enum ori_kernel kernel,
					    const struct ori_kernel_call *c, bool is_target)
{
	return ori_fail(ORIEL_ERR_ACCESS,
			"%s: window %u: %llu bytes at %p of this rank may not be %s; nothing was "
			"posted to rank %u",
			host_names[kernel], ORIEL_DEV_WINDOW_NUMBER(w->device.number),
			(unsigned long long)c->length, c->memory, is_target ? "written" : "read",
			c->peer);
}

/*
 * The text names the rank that is not reached, or the window if the operation needs all ranks.
 */
static enum oriel_status host_unreached(const struct oriel_window *w, enum ori_kernel kernel,
					unsigned peer)
{
	if (kernel == ORI_KERNEL_BARRIER || kernel == ORI_KERNEL_BARRIER_ARRIVE ||
	    kernel == ORI_KERNEL_SIGNAL_ALL)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"window %u is sparse, and a rank is not connected that this must "
				"reach: call oriel_comm_connect() before",
				ORIEL_DEV_WINDOW_NUMBER(w->device.number));
	return ori_fail(ORIEL_ERR_NO_PATH, "window %u: rank %u is not connected to rank %u",
			ORIEL_DEV_WINDOW_NUMBER(w->device.number), peer, w->device.rank);
}

/* Has the device function left the text of a limit that has passed? */
static bool host_has_text(enum ori_kernel kernel)
{
	return kernel == ORI_KERNEL_WAIT_SIGNAL || kernel == ORI_KERNEL_WAIT_FROM ||
	       kernel == ORI_KERNEL_WAIT_NEXT || kernel == ORI_KERNEL_WAIT_COUNTER ||
	       kernel == ORI_KERNEL_BARRIER || kernel == ORI_KERNEL_BARRIER_WAIT ||
	       kernel == ORI_KERNEL_BARRIER_PEER || kernel == ORI_KERNEL_BARRIER_PEER_WAIT ||
	       kernel == ORI_KERNEL_SEND || kernel == ORI_KERNEL_RECV;
}

/* The first queue of @w that has not completed all its requests, in words; else "". */
static void host_queue_text(const struct oriel_window *w, char *text, size_t length)
{
	struct ori_dev_link_queue q;
	uint64_t posted, completed;
	uint32_t peer;

	*text = '\0';
	for (peer = 0; peer < w->device.ranks && !*text; peer++) {
		if (w->device.peers[peer].path != ORIEL_PATH_RDMA)
			continue;
		q = ori_dev_link_main(w->device.peers[peer].link);
		/* Later requests may be posted meanwhile, and not fewer. */
		completed = ori_dev_link_completed(q);
		posted = ori_dev_link_posted(q);
		if (completed < posted)
			snprintf(text, length,
				 "; the queue to rank %u has completed %" PRIu64 " of %" PRIu64
				 " WQEs",
				 peer, completed, posted);
	}
}

static enum oriel_status host_not_ended(const struct oriel_window *w, const char *name,
					uint64_t timeout_ns)
{
	char queue[96];

	host_queue_text(w, queue, sizeof(queue));
	return ori_fail(ORIEL_ERR_TIMEOUT,
			"%s: window %u: not all operations have ended within %.3g s, the "
			"limit of the call%s",
			name, ORIEL_DEV_WINDOW_NUMBER(w->device.number), (double)timeout_ns / 1e9,
			queue);
}

/* Was it a wait of this rank that broke the communicator? */
static bool host_broke(const struct oriel_window *w)
{
	struct oriel_health health = {.size = sizeof(health)};

	return oriel_comm_health(w->comm, &health) == ORIEL_OK && health.finder == w->device.rank;
}

enum oriel_status ori_window_host_failed(const struct ori_window_call *call,
					 const struct oriel_window *w, enum ori_kernel kernel,
					 const struct ori_kernel_call *c, uint64_t timeout_ns,
					 enum oriel_status failure)
{
	char absent[ORI_WAIT_TEXT];
	enum oriel_status status;

	/*
	 * An argument that was rejected has left its text, and a communicator that broke meanwhile
	 * does not explain it.
	 */
	if (call->fault.state == ORIEL_DEV_FAULT_FULL)
		return failure;
	/*
	 * The default limit breaks the communicator when it passes, and so does a queue that fails:
	 * its text says more than the status of the operation.
	 */
	ori_error_absent(absent, sizeof(absent));
	status = ori_comm_check(w->comm);
	if (status == ORIEL_ERR_TIMEOUT && *absent && host_broke(w))
		return ori_fail(status, "%s%s", oriel_last_error(), absent);
	if (status == ORIEL_ERR_TIMEOUT && kernel == ORI_KERNEL_RECV)
		return ori_fail(status, "%s; this call receives %llu bytes", oriel_last_error(),
				(unsigned long long)c->length);
	if (status != ORIEL_OK)
		return status;
	if (failure == ORIEL_ERR_NO_PATH)
		return host_unreached(w, kernel, c->peer);
	if (failure == ORIEL_ERR_TIMEOUT && host_has_text(kernel))
		return ori_fail(failure, "%s", oriel_last_error());
	if (failure == ORIEL_ERR_TIMEOUT)
		return host_not_ended(w, host_name(kernel, c), timeout_ns);
	return ori_fail(failure, "%s: window %u: %s", host_name(kernel, c),
			ORIEL_DEV_WINDOW_NUMBER(w->device.number), oriel_status_text(failure));
}
