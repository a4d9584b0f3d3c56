/* SPDX-License-Identifier: Apache-2.0 */
/* Implements oriel/stream_barrier.h by a window with one barrier and no memory. */
#include <assert.h>
#include <oriel/stream_barrier.h>
#include <oriel/window.h>

#include "base/error.h"
#include "base/handle.h"

struct oriel_stream_barrier {
	struct oriel_window *window;
	bool is_gpu; /* ORIEL_STREAM_BARRIER_GPU */
};

enum oriel_status oriel_stream_barrier_create(struct oriel_comm *comm, unsigned flags,
					      struct oriel_stream_barrier **barrier)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .flags = flags & ORIEL_STREAM_BARRIER_GPU
							  ? ORIEL_WINDOW_DEVICE
							  : 0,
					 .signals = ORIEL_NONE,
					 .barriers = 1,
					 .counters = ORIEL_NONE};
	struct oriel_stream_barrier *b;
	enum oriel_status status;

	if (!barrier)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_stream_barrier_create: barrier is NULL");
	status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	if (status != ORIEL_OK)
		return status;
	b = ori_handle_alloc(ORI_HANDLE_STREAM_BARRIER, sizeof(*b));
	if (!b)
		status = ori_fail_nomem(sizeof(*b), "a barrier");
	else if (flags & ~(unsigned)ORIEL_STREAM_BARRIER_GPU)
		status = ori_fail(ORIEL_ERR_INVALID, "a barrier with unknown flags 0x%x", flags);
	/* A rank that fails alone must not leave the others waiting. */
	status = oriel_comm_agree(comm, status);
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &b->window);
	if (status != ORIEL_OK) {
		ori_handle_free(b);
		return status;
	}
	assert(b);
	ori_handle_open(b, comm);
	b->is_gpu = flags & ORIEL_STREAM_BARRIER_GPU;
	*barrier = b;
	return ORIEL_OK;
}

enum oriel_status oriel_stream_barrier_destroy(struct oriel_stream_barrier *b)
{
	if (!ori_handle_shut(b, ORI_HANDLE_STREAM_BARRIER, __func__))
		return ori_handle_refused(b);
	oriel_window_destroy(b->window);
	ori_handle_free(b);
	return ORIEL_OK;
}

enum oriel_status oriel_stream_barrier_run(struct oriel_stream_barrier *b)
{
	enum oriel_status status = ori_handle_check(b, ORI_HANDLE_STREAM_BARRIER, __func__);

	if (status != ORIEL_OK)
		return status;
	if (b->is_gpu)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_stream_barrier_run: the barrier has "
						   "ORIEL_STREAM_BARRIER_GPU: call "
						   "oriel_stream_barrier_run_on_stream()");
	return oriel_window_barrier(b->window, 0, 0);
}

enum oriel_status oriel_stream_barrier_run_on_stream(struct oriel_stream_barrier *b,
						     struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(b, ORI_HANDLE_STREAM_BARRIER, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!b->is_gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_stream_barrier_run_on_stream: the barrier has no "
				"ORIEL_STREAM_BARRIER_GPU: call oriel_stream_barrier_run()");
	return oriel_window_barrier_on_stream(b->window, 0, 0, stream);
}
