/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an execution that the kinds share: checks, health, waits, and executions by lines,
 * by stores and by copy engines. Called by allgather.c, alltoall.c and bcast.c, and by executions.
 */
#include <string.h>

#include "base/attr.h"
#include "base/error.h"
#include "coll/gather_job.h"
#include "coll/reduction.h"

struct oriel_coll_info ori_gather_info(const struct ori_gather *g, size_t bytes)
{
	const struct oriel_coll_info info = {.bytes_max = g->bytes_max,
					     .nodes = g->shape.nodes,
					     .supported = g->supported,
					     .algorithm = ori_gather_choose(g, bytes),
					     .block = g->reduction ? g->reduction->fold.block : 0,
					     .accumulation =
						     g->reduction ? g->reduction->fold.sum : 0};

	return info;
}

enum oriel_status ori_gather_query(const struct ori_gather_kind *kind, const void *handle,
				   size_t bytes, struct oriel_coll_info *info, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);

	struct oriel_coll_info found;

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_coll_info", info);
	if (status != ORIEL_OK)
		return status;
	found = ori_gather_info(handle, bytes);
	ori_info_write(info, &found, sizeof(found));
	return ORIEL_OK;
}

enum oriel_status ori_gather_fail(const struct ori_gather *g, enum oriel_status status)
{
	struct oriel_health health = {.size = sizeof(health)};
	struct oriel_dev_fault fault;
	char text[256];

	oriel_comm_health(g->comm, &health);
	if (health.status != ORIEL_OK) {
		oriel_health_text(&health, text, sizeof(text));
		if (strncmp(text, g->kind->name, strlen(g->kind->name)) == 0)
			return ori_fail(health.status, "%s", text);
		return ori_fail(health.status, "%s: %s", g->kind->name, text);
	}
	/* Operations in streams have left a text already. */
	if (g->is_gpu || oriel_window_fault(g->window, &fault) == ORIEL_OK)
		return status;
	return ori_fail(status, "%s: %s", g->kind->name, oriel_status_text(status));
}

/* The length of the name of a call without the form at its end. */
static int start_stem(const char *call)
{
	static const char *const forms[] = {"_on_stream", "_start", "_start_v", "_run", "_run_v"};
	size_t length = strlen(call), end, i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		end = strlen(forms[i]);
		if (length > end && strcmp(call + length - end, forms[i]) == 0)
			return (int)(length - end);
	}
	return (int)length;
}

static enum oriel_status start_other_form(const struct ori_gather *g, const char *call)
{
	int stem = start_stem(call);

	if (!g->is_gpu)
		return ori_fail(ORIEL_ERR_INVALID, "%s of host memory: call %.*s()", g->kind->name,
				stem, call);
	return ori_fail(ORIEL_ERR_INVALID, "%s of GPU memory: call %.*s_run%s_on_stream()",
			g->kind->name, stem, call, strstr(call, "_v") ? "_v" : "");
}

enum oriel_status ori_gather_check(const struct ori_gather *g, const char *call, bool on_stream)
{
	enum oriel_status status = ori_dev_health(&g->device);

	if (status != ORIEL_OK)
		return ori_gather_end(g, status);
	if (g->is_gpu != on_stream)
		return start_other_form(g, call);
	if (ori_gather_is_running(g))
		return ori_fail(ORIEL_ERR_STATE,
				"%s: the execution that was started has not ended: wait for it",
				g->kind->name);
	return ORIEL_OK;
}

enum oriel_status ori_gather_null_send(const struct ori_gather *g)
{
	return ori_fail(ORIEL_ERR_INVALID, "%s: send is NULL", g->kind->name);
}

enum oriel_status ori_gather_check_root(const struct ori_gather_kind *kind, uint32_t root,
					uint32_t ranks)
{
	if (root < ranks)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_RANGE, "%s: root %u, but there are %u ranks", kind->name, root,
			ranks);
}

/*
 * The number is CU_STREAM_LEGACY of cuda.h: "CUDA Driver API", "Data types used by CUDA driver" and
 * "Stream synchronization behavior".
 */
void *ori_gather_stream(struct CUstream_st *stream)
{
	return stream ? stream : (struct CUstream_st *)0x1;
}

enum oriel_status ori_gather_take(struct ori_gather_job *job, uint32_t source, uint32_t id,
				  uint64_t count)
{
	const struct oriel_dev_window *w = &job->g->device;
	uint64_t value = 0, base = w->signal_bases[(size_t)source * w->signals + id];
	enum oriel_status status;

	if (job->is_posted) {
		status = oriel_dev_read_signal_from(w, source, id, &value);
		if (status != ORIEL_OK)
			return status;
		if (value - base < count) {
			atomic_store_explicit(&job->g->awaited, source, memory_order_relaxed);
			return ORIEL_AGAIN;
		}
		job->has_moved = true;
	}
	return oriel_dev_wait_signal_next(w, oriel_dev_thread(), source, id, count, 0);
}

/* A wait with its own limit does not break the communicator, so a job polls with one of 1 ns. */
enum oriel_status ori_gather_drain(const struct ori_gather_job *job)
{
	const struct oriel_dev_window *w = &job->g->device;
	enum oriel_status status;

	if (!w->rails)
		return ORIEL_OK;
	status = oriel_dev_drain(w, oriel_dev_thread(), job->is_posted ? 1 : 0);
	return job->is_posted && status == ORIEL_ERR_TIMEOUT ? ORIEL_AGAIN : status;
}

/* The first barrier is the credit of all views; the second one ends the execution. */
enum oriel_status ori_gather_engines(struct ori_gather *g, const void *send, size_t stride,
				     size_t bytes, void *stream)
{
	uint64_t to = oriel_at(ORI_GATHER_RESULT, g->device.rank * bytes);
	enum oriel_status status = oriel_window_barrier_on_stream(g->window, 0, 0, stream);

	if (status == ORIEL_OK)
		status =
			oriel_window_put_each_on_stream(g->window, to, send, stride, bytes, stream);
	return status == ORIEL_OK ? oriel_window_barrier_on_stream(g->window, 0, 0, stream)
				  : status;
}

/* As many parts as it takes for @most bytes each, but no more than @limit. */
static uint32_t start_parts(size_t bytes, size_t most, uint32_t limit)
{
	size_t parts = (bytes + most - 1) / most;

	return parts < limit ? (uint32_t)parts : limit;
}

uint32_t ori_gather_shared_parts(uint32_t sharers, uint32_t processors)
{
	uint32_t kernels = 2 * sharers - 1, room = processors ? processors - 1 : 0;

	if (room > ORI_GATHER_PARTS)
		room = ORI_GATHER_PARTS;
	return room > kernels ? room / kernels : 1;
}

uint32_t ori_gather_exchange_parts(const struct ori_gather *g)
{
	return g->parts < ORI_GATHER_EXCHANGE_PARTS ? g->parts : ORI_GATHER_EXCHANGE_PARTS;
}

uint32_t ori_gather_turns(const struct ori_gather *g, size_t bytes)
{
	uint32_t most = g->parts < ORI_GATHER_BCAST_PARTS ? g->parts : ORI_GATHER_BCAST_PARTS;

	return start_parts(bytes, ORIEL_DEV_TURN, most);
}

size_t ori_gather_lines_part(const struct ori_gather *g, uint32_t lines)
{
	size_t warp = lines == ORIEL_DEV_LINES_LL ? ORI_GATHER_LL_WARP : ORI_GATHER_LL128_WARP;
	uint32_t ranks = oriel_comm_size(g->comm), warps = ORI_GATHER_WARPS;

	if (ranks > 2 && ranks - 1 <= ORI_GATHER_WARPS)
		warps = ORI_GATHER_WARPS / (ranks - 1);
	/* Parts begin at multiples of a cache line. */
	return warps * warp & ~(size_t)63;
}

static enum oriel_status mapped_gpu(struct ori_gather *g, enum oriel_algorithm algorithm,
				    const struct oriel_dev_gather *series, const void *send,
				    size_t bytes, void *stream)
{
	uint32_t parts;

	if (algorithm != ORIEL_ALGORITHM_LL) {
		parts = start_parts(bytes, ORI_GATHER_PUT_PART, g->parts);
		return oriel_window_gather_puts_on_stream(g->window, series, parts, send, bytes,
							  stream);
	}
	parts = start_parts(bytes, ori_gather_lines_part(g, series->lines), g->parts);
	return oriel_window_gather_lines_on_stream(g->window, series, parts, send, bytes, stream);
}

enum oriel_status ori_gather_mapped(struct ori_gather *g, enum oriel_algorithm algorithm,
				    const void *send, size_t stride, size_t bytes, void *stream)
{
	struct oriel_dev_group self = oriel_dev_thread();
	struct oriel_dev_gather series = g->puts;

	if (algorithm == ORIEL_ALGORITHM_LL)
		series = g->is_gpu && bytes > ORI_GATHER_LL_MOST ? g->ll128 : g->ll;
	series.stride = stride;
	if (g->is_gpu)
		return mapped_gpu(g, algorithm, &series, send, bytes, stream);
	if (algorithm == ORIEL_ALGORITHM_LL)
		return oriel_dev_gather_lines(&g->device, self, &series, 0, 1, send, bytes, 0);
	return oriel_dev_gather_puts(&g->device, self, &series, 0, 1, send, bytes, 0);
}
