/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that all ranks do together with a window, beside barriers. Programs call them, and
 * so do the collectives of src/coll.
 */
#include <string.h>

#include "base/error.h"
#include "comm/health.h"
#include "kernels/act.h"
#include "window/window.h"

/* One rank's bytes, by this thread. A put of bytes that lie at their target already is none. */
static enum oriel_status gather_put_one(struct oriel_window *w, const struct ori_window_put *put,
					uint32_t peer)
{
	const char *from = put->length ? put->from + peer * put->stride : NULL;
	void *own = NULL;

	if (put->table) {
		if (put->table[peer] && put->table[peer] != from && put->length)
			memcpy(put->table[peer], from, put->length);
		return ORIEL_OK;
	}
	if (put->is_domain && w->peers[peer].path == ORIEL_PATH_RDMA)
		return ORIEL_OK;
	if (peer == w->device.rank &&
	    oriel_window_peer_address(w, peer, put->to, &own) == ORIEL_OK && own == from)
		return ORIEL_OK;
	return oriel_window_put(w, peer, put->to, from, put->length);
}

static enum oriel_status gather_check_put(const struct oriel_window *w,
					  const struct ori_window_put *put, const char *call)
{
	if (put->is_table && !put->table)
		return ori_fail(ORIEL_ERR_INVALID, "%s: the table of addresses is NULL", call);
	if (put->length && !put->from)
		return ori_fail(ORIEL_ERR_INVALID, "%s: window %u: the caller's memory is NULL",
				call, ORIEL_DEV_WINDOW_NUMBER(w->device.number));
	return ORIEL_OK;
}

/*
 * Each rank gets its own bytes, @put->stride apart. The caller's memory is its own again on return,
 * or once the stream is done.
 */
static enum oriel_status gather_put_each(struct oriel_window *w, const struct ori_window_put *put,
					 const char *call)
{
	enum oriel_status status = ori_window_check_host(w, call);
	uint32_t ranks, i;

	if (status == ORIEL_OK)
		status = gather_check_put(w, put, call);
	if (status != ORIEL_OK)
		return status;
	ranks = w->device.ranks;
	status = ori_comm_check(w->comm);
	/* Each rank ends with its successors, so that no rank is the first target of all. */
	for (i = 0; i < ranks && status == ORIEL_OK; i++)
		status = gather_put_one(w, put, (w->device.rank + i) % ranks);
	return status;
}

static enum oriel_status gather_put_each_on_stream(struct oriel_window *w,
						   const struct ori_window_put *put,
						   struct CUstream_st *stream, const char *call)
{
	enum oriel_status status = ori_window_check_gpu(w, call);

	if (status == ORIEL_OK)
		status = gather_check_put(w, put, call);
	return status == ORIEL_OK ? ori_window_stream_put_each(w, put, stream) : status;
}

static struct ori_window_put gather_put(uint64_t to, bool is_domain, const void *from,
					size_t stride, size_t length)
{
	return (struct ori_window_put){
		.to = to, .is_domain = is_domain, .from = from, .stride = stride, .length = length};
}

static struct ori_window_put gather_put_table(void *const *to, const void *from, size_t stride,
					      size_t length)
{
	return (struct ori_window_put){
		.is_table = true, .table = to, .from = from, .stride = stride, .length = length};
}

enum oriel_status oriel_window_put_each(struct oriel_window *w, uint64_t to, const void *from,
					size_t stride, size_t length)
{
	const struct ori_window_put put = gather_put(to, false, from, stride, length);

	return gather_put_each(w, &put, __func__);
}

enum oriel_status oriel_window_put_each_on_stream(struct oriel_window *w, uint64_t to,
						  const void *from, size_t stride, size_t length,
						  struct CUstream_st *stream)
{
	const struct ori_window_put put = gather_put(to, false, from, stride, length);

	return gather_put_each_on_stream(w, &put, stream, __func__);
}

enum oriel_status oriel_window_put_all(struct oriel_window *w, uint64_t to, const void *from,
				       size_t length)
{
	const struct ori_window_put put = gather_put(to, false, from, 0, length);

	return gather_put_each(w, &put, __func__);
}

enum oriel_status oriel_window_put_all_on_stream(struct oriel_window *w, uint64_t to,
						 const void *from, size_t length,
						 struct CUstream_st *stream)
{
	const struct ori_window_put put = gather_put(to, false, from, 0, length);

	return gather_put_each_on_stream(w, &put, stream, __func__);
}

enum oriel_status oriel_window_put_each_domain(struct oriel_window *w, uint64_t to,
					       const void *from, size_t stride, size_t length)
{
	const struct ori_window_put put = gather_put(to, true, from, stride, length);

	return gather_put_each(w, &put, __func__);
}

enum oriel_status oriel_window_put_each_domain_on_stream(struct oriel_window *w, uint64_t to,
							 const void *from, size_t stride,
							 size_t length, struct CUstream_st *stream)
{
	const struct ori_window_put put = gather_put(to, true, from, stride, length);

	return gather_put_each_on_stream(w, &put, stream, __func__);
}

enum oriel_status oriel_window_put_all_domain(struct oriel_window *w, uint64_t to, const void *from,
					      size_t length)
{
	const struct ori_window_put put = gather_put(to, true, from, 0, length);

	return gather_put_each(w, &put, __func__);
}

enum oriel_status oriel_window_put_all_domain_on_stream(struct oriel_window *w, uint64_t to,
							const void *from, size_t length,
							struct CUstream_st *stream)
{
	const struct ori_window_put put = gather_put(to, true, from, 0, length);

	return gather_put_each_on_stream(w, &put, stream, __func__);
}

enum oriel_status oriel_window_put_table(struct oriel_window *w, void *const *to, const void *from,
					 size_t stride, size_t length)
{
	const struct ori_window_put put = gather_put_table(to, from, stride, length);

	return gather_put_each(w, &put, __func__);
}

enum oriel_status oriel_window_put_table_on_stream(struct oriel_window *w, void *const *to,
						   const void *from, size_t stride, size_t length,
						   struct CUstream_st *stream)
{
	const struct ori_window_put put = gather_put_table(to, from, stride, length);

	return gather_put_each_on_stream(w, &put, stream, __func__);
}

/* The arguments of one execution by all ranks; @missing names one that is NULL. */
struct gather_given {
	struct ori_kernel_call call;
	const char *missing;
};

static enum oriel_status gather_check_given(const struct gather_given *given, const char *name)
{
	return given->missing ? ori_fail_null(name, given->missing) : ORIEL_OK;
}

static enum oriel_status gather_check_parts(const struct oriel_window *w, uint32_t parts)
{
	/* Each part has signals of its own. */
	if (parts < 1 || parts > w->device.signals)
		return ori_fail(ORIEL_ERR_RANGE, "a gather in %u parts", parts);
	return ORIEL_OK;
}

typedef enum oriel_status gather_act(const struct ori_act *act, const struct ori_kernel_call *c);

/* Is memory of this rank read, if @is_rooted as that of the root alone? */
static bool gather_reads(const struct oriel_window *w, const struct ori_kernel_call *c,
			 bool is_rooted)
{
	uint32_t rank;

	/* A layout for a GPU cannot be read here. */
	for (rank = 0; c->layout && !w->gpu && rank < w->device.ranks; rank++)
		if (c->layout[rank].send_length)
			return true;
	return c->length && (!is_rooted || c->peer == w->device.rank);
}

static enum oriel_status gather_check_memory(const struct oriel_window *w,
					     const struct ori_kernel_call *c, bool is_rooted,
					     const char *name)
{
	if (c->memory || !gather_reads(w, c, is_rooted))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_INVALID, "%s: window %u: the caller's memory is NULL", name,
			ORIEL_DEV_WINDOW_NUMBER(w->device.number));
}

/* Gives the status that device functions returned to a host thread a text. */
static enum oriel_status gather_end(const struct ori_window_call *call,
				    const struct oriel_window *w, enum oriel_status failure,
				    const char *name)
{
	enum oriel_status status;

	/* An argument that was rejected has left its text. */
	if (failure == ORIEL_OK ||
	    (call->fault.state == ORIEL_DEV_FAULT_FULL && call->fault.status == (int32_t)failure))
		return failure;
	status = ori_comm_check(w->comm);
	if (status != ORIEL_OK)
		return status;
	return ori_fail(failure, "%s: window %u: %s", name,
			ORIEL_DEV_WINDOW_NUMBER(w->device.number), oriel_status_text(failure));
}

/* Runs all parts, one after the other. */
static enum oriel_status gather_parts(struct oriel_window *w, gather_act *act,
				      const struct gather_given *given, const char *name)
{
	enum oriel_status status = gather_check_given(given, name), sent = ORIEL_OK;
	const struct ori_kernel_call *c = &given->call;
	struct ori_window_call call;
	struct ori_act a = {.w = &call.device, .group = oriel_dev_thread()};

	if (status == ORIEL_OK)
		status = ori_window_check_host(w, name);
	if (status == ORIEL_OK)
		status = gather_check_parts(w, c->parts);
	if (status == ORIEL_OK)
		status = gather_check_memory(w, c, act == ori_act_broadcast, name);
	if (status == ORIEL_OK)
		status = ori_comm_check(w->comm);
	if (status == ORIEL_OK)
		status = ori_window_touch_all(w);
	if (status != ORIEL_OK)
		return status;
	ori_window_call_open(&call, w);
	/*
	 * All ranks take the parts in this order, so that no part waits for a later one of a
	 * peer. Where lengths differ a part is complete but for one pair, and all other ranks go
	 * on to the next one.
	 */
	for (; a.part < c->parts && status == ORIEL_OK; a.part++) {
		status = act(&a, c);
		if (status == ORIEL_ERR_MISMATCH) {
			sent = status;
			status = ORIEL_OK;
		}
	}
	status = gather_end(&call, w, status, name);
	return status == ORIEL_OK ? sent : status;
}

static enum oriel_status gather_parts_on_stream(struct oriel_window *w, enum ori_kernel kernel,
						const struct gather_given *given,
						struct CUstream_st *stream, const char *name)
{
	enum oriel_status status = gather_check_given(given, name);

	if (status == ORIEL_OK)
		status = ori_window_check_gpu(w, name);
	if (status == ORIEL_OK)
		status = gather_check_parts(w, given->call.parts);
	if (status == ORIEL_OK)
		status = gather_check_memory(w, &given->call, kernel == ORI_KERNEL_BROADCAST, name);
	if (status != ORIEL_OK)
		return status;
	return ori_window_stream_gather(w, kernel, &given->call, stream);
}

static struct gather_given gather_call(const struct oriel_dev_gather *gather, uint32_t parts,
				       const void *from, size_t length)
{
	struct gather_given given = {.call = {.memory = (void *)(uintptr_t)from,
					      .length = length,
					      .parts = parts},
				     .missing = gather ? NULL : "gather"};

	if (gather)
		given.call.gather = *gather;
	return given;
}

static struct gather_given gather_call_broadcast(const struct oriel_dev_gather *gather,
						 uint32_t parts, unsigned root, const void *from,
						 size_t length)
{
	struct gather_given given = gather_call(gather, parts, from, length);

	given.call.peer = root;
	return given;
}

static struct gather_given gather_call_exchange(const struct oriel_dev_gather *gather,
						uint32_t parts, const void *from,
						const struct oriel_dev_alltoallv *layout)
{
	struct gather_given given = gather_call(gather, parts, from, 0);

	given.call.layout = layout;
	if (!layout)
		given.missing = "layout";
	return given;
}

enum oriel_status oriel_window_gather_lines(struct oriel_window *w,
					    const struct oriel_dev_gather *gather, uint32_t parts,
					    const void *from, size_t length)
{
	const struct gather_given given = gather_call(gather, parts, from, length);

	return gather_parts(w, ori_act_gather_lines, &given, __func__);
}

enum oriel_status oriel_window_gather_lines_on_stream(struct oriel_window *w,
						      const struct oriel_dev_gather *gather,
						      uint32_t parts, const void *from,
						      size_t length, struct CUstream_st *stream)
{
	const struct gather_given given = gather_call(gather, parts, from, length);

	return gather_parts_on_stream(w, ORI_KERNEL_GATHER_LINES, &given, stream, __func__);
}

enum oriel_status oriel_window_gather_puts(struct oriel_window *w,
					   const struct oriel_dev_gather *gather, uint32_t parts,
					   const void *from, size_t length)
{
	const struct gather_given given = gather_call(gather, parts, from, length);

	return gather_parts(w, ori_act_gather_puts, &given, __func__);
}

enum oriel_status oriel_window_gather_puts_on_stream(struct oriel_window *w,
						     const struct oriel_dev_gather *gather,
						     uint32_t parts, const void *from,
						     size_t length, struct CUstream_st *stream)
{
	const struct gather_given given = gather_call(gather, parts, from, length);

	return gather_parts_on_stream(w, ORI_KERNEL_GATHER_PUTS, &given, stream, __func__);
}

enum oriel_status oriel_window_broadcast(struct oriel_window *w,
					 const struct oriel_dev_gather *gather, uint32_t parts,
					 unsigned root, const void *from, size_t length)
{
	const struct gather_given given = gather_call_broadcast(gather, parts, root, from, length);

	return gather_parts(w, ori_act_broadcast, &given, __func__);
}

enum oriel_status oriel_window_broadcast_on_stream(struct oriel_window *w,
						   const struct oriel_dev_gather *gather,
						   uint32_t parts, unsigned root, const void *from,
						   size_t length, struct CUstream_st *stream)
{
	const struct gather_given given = gather_call_broadcast(gather, parts, root, from, length);

	return gather_parts_on_stream(w, ORI_KERNEL_BROADCAST, &given, stream, __func__);
}

enum oriel_status oriel_window_exchange(struct oriel_window *w,
					const struct oriel_dev_gather *gather, uint32_t parts,
					const void *from, const struct oriel_dev_alltoallv *layout)
{
	const struct gather_given given = gather_call_exchange(gather, parts, from, layout);

	return gather_parts(w, ori_act_exchange, &given, __func__);
}

enum oriel_status oriel_window_exchange_on_stream(struct oriel_window *w,
						  const struct oriel_dev_gather *gather,
						  uint32_t parts, const void *from,
						  const struct oriel_dev_alltoallv *layout,
						  struct CUstream_st *stream)
{
	const struct gather_given given = gather_call_exchange(gather, parts, from, layout);

	return gather_parts_on_stream(w, ORI_KERNEL_EXCHANGE, &given, stream, __func__);
}

static struct gather_given gather_call_reduce(const struct oriel_dev_gather *gather,
					      const struct oriel_dev_reduction *reduction,
					      uint32_t parts, const void *from, size_t count,
					      bool by_owners)
{
	struct gather_given given = gather_call(gather, parts, from, count);

	if (reduction)
		given.call.reduction = *reduction;
	else
		given.missing = "reduction";
	given.call.op = by_owners;
	return given;
}

enum oriel_status oriel_window_reduce_lines(struct oriel_window *w,
					    const struct oriel_dev_gather *gather,
					    const struct oriel_dev_reduction *reduction,
					    uint32_t parts, const void *from, size_t count)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	return gather_parts(w, ori_act_reduce_lines, &given, __func__);
}

enum oriel_status oriel_window_reduce_lines_on_stream(struct oriel_window *w,
						      const struct oriel_dev_gather *gather,
						      const struct oriel_dev_reduction *reduction,
						      uint32_t parts, const void *from,
						      size_t count, struct CUstream_st *stream)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	return gather_parts_on_stream(w, ORI_KERNEL_REDUCE_LINES, &given, stream, __func__);
}

enum oriel_status oriel_window_reduce_slots(struct oriel_window *w,
					    const struct oriel_dev_gather *gather,
					    const struct oriel_dev_reduction *reduction,
					    uint32_t parts, const void *from, size_t count)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	return gather_parts(w, ori_act_reduce_staged, &given, __func__);
}

enum oriel_status oriel_window_reduce_slots_on_stream(struct oriel_window *w,
						      const struct oriel_dev_gather *gather,
						      const struct oriel_dev_reduction *reduction,
						      uint32_t parts, const void *from,
						      size_t count, struct CUstream_st *stream)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	return gather_parts_on_stream(w, ORI_KERNEL_REDUCE_STAGED, &given, stream, __func__);
}

enum oriel_status oriel_window_reduce_owners(struct oriel_window *w,
					     const struct oriel_dev_gather *gather,
					     const struct oriel_dev_reduction *reduction,
					     uint32_t parts, const void *from, size_t count)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, true);

	return gather_parts(w, ori_act_reduce_staged, &given, __func__);
}

enum oriel_status oriel_window_reduce_owners_on_stream(struct oriel_window *w,
						       const struct oriel_dev_gather *gather,
						       const struct oriel_dev_reduction *reduction,
						       uint32_t parts, const void *from,
						       size_t count, struct CUstream_st *stream)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, true);

	return gather_parts_on_stream(w, ORI_KERNEL_REDUCE_STAGED, &given, stream, __func__);
}

enum oriel_status oriel_window_reduce_rows_on_stream(struct oriel_window *w,
						     const struct oriel_dev_gather *gather,
						     const struct oriel_dev_reduction *reduction,
						     uint32_t parts, const void *from, size_t count,
						     struct CUstream_st *stream)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	return gather_parts_on_stream(w, ORI_KERNEL_REDUCE_ROWS, &given, stream, __func__);
}

enum oriel_status oriel_window_reduce_block_on_stream(struct oriel_window *w,
						      const struct oriel_dev_gather *gather,
						      const struct oriel_dev_reduction *reduction,
						      uint32_t parts, uint32_t block,
						      const void *from, size_t count,
						      struct CUstream_st *stream)
{
	struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	given.call.id = block;
	return gather_parts_on_stream(w, ORI_KERNEL_REDUCE_BLOCK, &given, stream, __func__);
}

enum oriel_status oriel_window_reduce_sums_on_stream(struct oriel_window *w,
						     const struct oriel_dev_gather *gather,
						     const struct oriel_dev_reduction *reduction,
						     uint32_t parts, const void *from, size_t count,
						     struct CUstream_st *stream)
{
	const struct gather_given given =
		gather_call_reduce(gather, reduction, parts, from, count, false);

	return gather_parts_on_stream(w, ORI_KERNEL_REDUCE_SUMS, &given, stream, __func__);
}
