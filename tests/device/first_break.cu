/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator breaks while kernels and streams wait: by a limit that passes, or by an abort.
 * gpu_first calls its tests.
 */
#include "first_rank.h"

#define BRIEF_NS 3000000000ull

/* No rank signals signal 9. */
__global__ void stuck_kernel(struct oriel_dev_window w, struct report *report)
{
	report->status =
		oriel_dev_wait_signal_from(&w, oriel_dev_thread(), w.rank, 9, ORIEL_GE, 1, 0);
}

/* Rank 0 waits until all others are about to wait for ever. */
__global__ void gather_kernel(struct oriel_dev_window w, struct report *report)
{
	report->status =
		oriel_dev_wait_signal(&w, oriel_dev_thread(), 8, ORIEL_GE, w.ranks - 1, LONG_NS);
}

/* Waits for ever, after it has signalled rank 0; only a broken communicator ends it. */
__global__ void forever_kernel(struct oriel_dev_window w, struct report *report)
{
	if (w.rank != 0)
		oriel_dev_signal(&w, oriel_dev_thread(), 0, 8, ORIEL_SIGNAL_ADD, 1, NULL);
	report->status = oriel_dev_wait_signal_from(&w, oriel_dev_thread(), w.rank, 9, ORIEL_GE, 1,
						    ORIEL_TIMEOUT_INFINITE);
}

void warm_up_break(struct rank *r, const struct oriel_dev_window *closed)
{
	stuck_kernel<<<1, 1, 0, r->stream>>>(*closed, r->report);
	gather_kernel<<<1, 1, 0, r->stream>>>(*closed, r->report);
	forever_kernel<<<1, 1, 0, r->stream>>>(*closed, r->report);
}

/* No rank ends this wait: a kernel breaks the communicator, and its peers are notified. */
void test_blame(struct rank *r)
{
	struct oriel_health health = {};
	char text[256];

	open_window(r, BRIEF_NS);
	report_clear(r);
	if (r->rank == 0)
		stuck_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
	else
		forever_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
	must_cuda(r, "stuck kernel", cudaGetLastError());
	must_cuda(r, "stuck kernel", cudaStreamSynchronize(r->stream));
	verdict(r, "a wait that no signal ends ends in time, on all ranks",
		r->report->status == ORIEL_ERR_TIMEOUT,
		oriel_status_name((enum oriel_status)r->report->status));
	health.size = sizeof(health);
	must(r, "oriel_comm_health", oriel_comm_health(r->comm, &health));
	oriel_health_text(&health, text, sizeof(text));
	verdict(r, "the health names the wait that timed out",
		health.status == ORIEL_ERR_TIMEOUT &&
			strcmp(health.what, "wait_signal_from") == 0 && health.id == 9 &&
			health.object == 1 && health.age_ns >= BRIEF_NS,
		text);
	verdict(r, "and every call returns that status",
		oriel_comm_barrier(r->comm) == ORIEL_ERR_TIMEOUT, "the barrier succeeded");
	close_window(r);
}

/* A limit of the host's own passes in a stream: only the communicator can report it. */
void test_stream_limit(struct rank *r)
{
	open_window(r, LONG_NS);
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must(r, "wait_signal_from",
	     oriel_window_wait_signal_from_on_stream(r->window, r->rank, 9, ORIEL_GE, 1,
						     r->rank ? ORIEL_TIMEOUT_INFINITE : 100000000,
						     r->stream));
	must_cuda(r, "limit", cudaStreamSynchronize(r->stream));
	verdict(r, "a limit that passes in a stream breaks the communicator, for all ranks",
		oriel_window_barrier_on_stream(r->window, 0, 0, r->stream) == ORIEL_ERR_TIMEOUT,
		"the barrier succeeded");
	close_window(r);
}

/* An abort by the host of rank 0 ends kernels everywhere. */
void test_abort(struct rank *r)
{
	open_window(r, LONG_NS);
	report_clear(r);
	if (r->rank == 0) {
		gather_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
		finish(r, "all ranks wait in kernels", 0);
	}
	forever_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
	must_cuda(r, "abort", cudaGetLastError());
	if (r->rank == 0)
		oriel_comm_abort(r->comm, "a test");
	must_cuda(r, "abort", cudaStreamSynchronize(r->stream));
	verdict(r, "an abort ends waiting kernels on all ranks",
		r->report->status == ORIEL_ERR_ABORTED,
		oriel_status_name((enum oriel_status)r->report->status));
	close_window(r);
}
