/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and destroys the gather in the handle of a collective of any kind. Called by
 * allgather.c, alltoall.c and bcast.c.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <oriel/region.h>

#include "base/attr.h"
#include "base/error.h"
#include "coll/gather_internode.h"
#include "coll/gather_leaders.h"
#include "coll/gather_request.h"
#include "coll/reduce_rounds.h"

/* Combines the @joins of all ranks, so that all get the same parts and limits. */
static void make_combine(struct ori_gather *g, const struct ori_gather_request *request,
			 const struct ori_gather_join *joins)
{
	unsigned size = oriel_comm_size(g->comm), peer;
	uint64_t least = UINT64_MAX;
	uint32_t sharers = 1, parts = ORI_GATHER_PARTS;

	for (peer = 0; peer < size; peer++) {
		if (joins[peer].length < least)
			least = joins[peer].length;
		if (joins[peer].sharers > sharers)
			sharers = joins[peer].sharers;
		if (joins[peer].parts < parts)
			parts = joins[peer].parts;
		g->is_narrow |= joins[peer].is_narrow != 0;
	}
	g->parts = g->is_gpu ? parts : 1;
	g->is_sharing = sharers > 1;
	g->bytes_max = g->kind->is_whole ? least : least / size;
	g->chunk = request->attr.chunk;
	g->requested = (enum oriel_algorithm)request->join.algorithm;
	if (g->requested == ORIEL_ALGORITHM_DEFAULT)
		g->requested = (enum oriel_algorithm)request->join.setting;
}

/* @status: the local status, on which all ranks agree first. */
static enum oriel_status make_join(struct ori_gather *g, const struct ori_gather_request *request,
				   enum oriel_status status)
{
	unsigned size = oriel_comm_size(g->comm);
	struct ori_gather_join *joins = calloc(size, sizeof(*joins));

	if (!joins)
		status = ori_fail_nomem(size * sizeof(*joins), "%s of %u ranks", g->kind->name,
					size);
	status = oriel_comm_agree(g->comm, status);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(g->comm, &request->join, joins, sizeof(*joins));
	if (status == ORIEL_OK)
		status = ori_gather_join_compare(joins, size);
	assert(joins || status != ORIEL_OK);
	if (status == ORIEL_OK)
		make_combine(g, request, joins);
	if (status == ORIEL_OK && g->reduction)
		ori_reduction_combine(g, joins);
	free(joins);
	return status;
}

/* Checks that there is a path to every GPU, and counts the ranks on this rank's GPU. */
static enum oriel_status make_query_gpus(const struct ori_gather_kind *kind,
					 const struct oriel_comm *comm,
					 struct ori_gather_join *join)
{
	unsigned size = oriel_comm_size(comm), rank;
	enum oriel_status status;
	struct oriel_peer peer = {.size = sizeof(peer)};

	for (rank = 0; rank < size; rank++) {
		status = oriel_comm_peer(comm, rank, &peer);
		if (status != ORIEL_OK)
			return status;
		if (peer.gpu_path == ORIEL_PATH_NONE)
			return ori_fail(ORIEL_ERR_UNSUPPORTED,
					"%s on GPUs: there is no path to the GPU of rank %u",
					kind->name, rank);
		join->sharers += peer.is_same_gpu;
		join->is_narrow |= !peer.has_gpu_lines;
	}
	join->parts = ori_gather_shared_parts(join->sharers, oriel_comm_gpu_processors(comm));
	return ORIEL_OK;
}

/* Says which algorithms the object has instead of the one that it was asked for. */
static enum oriel_status make_refuse(const struct ori_gather *g)
{
	char names[160] = "";
	size_t used = 0;
	unsigned i;

	for (i = ORIEL_ALGORITHM_DEFAULT + 1; i < ORI_ALGORITHMS && used < sizeof(names); i++)
		if (g->supported >> i & 1)
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "",
						 oriel_algorithm_name((enum oriel_algorithm)i));
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"%s: algorithm %s does not support %s memory of %u domain%s, which has: %s",
			g->kind->name, oriel_algorithm_name(g->requested),
			g->is_gpu ? "GPU" : "host", g->shape.nodes, g->shape.nodes == 1 ? "" : "s",
			names);
}

/* The algorithms that these ranks and this memory support. */
static enum oriel_status make_supported(struct ori_gather *g)
{
	if (g->is_gpu)
		g->supported = g->shape.nodes == 1 ? g->kind->gpus : g->kind->gpu_nodes;
	else
		g->supported = g->shape.nodes == 1 ? g->kind->host : g->kind->nodes;
	if (g->reduction && !g->reduction->is_hierarchical)
		g->supported &= ~(1u << ORIEL_ALGORITHM_HIERARCHICAL);
	if (g->reduction && !g->reduction->is_fast)
		g->supported &= ~(1u << ORIEL_ALGORITHM_RING | 1u << ORIEL_ALGORITHM_RECURSIVE);
	if (!g->supported)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: %s memory of %u nodes is not supported",
				g->kind->name, g->is_gpu ? "GPU" : "host", g->shape.nodes);
	if (g->is_gpu && g->reduction && g->reduction->given.op == ORIEL_OP_USER)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: op %s is for host memory",
				g->kind->name,
				oriel_op_name((enum oriel_op)g->reduction->given.op));
	if (g->requested == ORIEL_ALGORITHM_HIERARCHICAL && g->reduction &&
	    !g->reduction->is_hierarchical)
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"%s: algorithm hierarchical needs several nodes, each of them a block of "
			"two or more ranks, whose elements have the bytes of a sum: %u ranks of %u "
			"nodes are in blocks of %u, and a sum of %s is %s",
			g->kind->name, g->shape.ranks, g->shape.nodes, g->reduction->given.block,
			oriel_type_name((enum oriel_type)g->reduction->given.type),
			oriel_type_name(
				oriel_type_accumulation((enum oriel_type)g->reduction->given.type,
							(enum oriel_op)g->reduction->given.op)));
	if (g->reduction && !g->reduction->is_fast &&
	    (g->requested == ORIEL_ALGORITHM_RING || g->requested == ORIEL_ALGORITHM_RECURSIVE))
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"%s: algorithm %s adds in another order: it needs "
			"ORIEL_REDUCE_FAST, an all-reduce of host memory, several nodes and an op "
			"other than user; here are flags 0x%x, %s memory, nodes %u and op %s",
			g->kind->name, oriel_algorithm_name(g->requested),
			g->reduction->given.flags, g->is_gpu ? "GPU" : "host", g->shape.nodes,
			oriel_op_name((enum oriel_op)g->reduction->given.op));
	if (g->requested != ORIEL_ALGORITHM_DEFAULT && !(g->supported >> g->requested & 1))
		return make_refuse(g);
	return ORIEL_OK;
}

/*
 * A broadcast of GPU memory needs them as well: it executes the part of a plan that concerns the
 * block of its root, which is made at each start. An all-to-all in host memory that was started
 * executes DIRECT. An all-reduce of GPU memory gathers the results of the owners.
 */
static unsigned make_planned(const struct ori_gather *g)
{
	if (g->kind->number == ORI_ALLREDUCE)
		return g->is_gpu ? 1u << ORIEL_ALGORITHM_RING | 1u << ORIEL_ALGORITHM_BRUCK : 0;
	return g->kind->number == ORI_ALLGATHER ||
			       g->kind->number == (g->is_gpu ? ORI_BCAST : ORI_ALLTOALL)
		       ? g->supported
		       : 0;
}

static enum oriel_status make_plans(struct ori_gather *g)
{
	unsigned size = oriel_comm_size(g->comm), i;
	enum oriel_status status = ORIEL_OK;

	g->has_credit = calloc(size, sizeof(*g->has_credit));
	g->taken = calloc(size, sizeof(*g->taken));
	g->table = calloc(2 * (size_t)size, sizeof(*g->table));
	if (!g->has_credit || !g->taken || !g->table)
		return ori_fail_nomem(size * (sizeof(*g->has_credit) + sizeof(*g->taken) +
					      2 * sizeof(*g->table)),
				      "%s of %u ranks", g->kind->name, size);
	for (i = ORIEL_ALGORITHM_DIRECT; i < ORI_ALGORITHMS && status == ORIEL_OK; i++)
		if (make_planned(g) >> i & 1)
			status = ori_plan_open(&g->plans[i], &g->shape, (enum oriel_algorithm)i,
					       oriel_comm_rank(g->comm));
	return status;
}

static enum oriel_status make_prepare(struct ori_gather *g)
{
	enum oriel_status status = ori_shape_open(&g->shape, g->leaders, oriel_comm_size(g->comm));

	if (status == ORIEL_OK && g->reduction)
		ori_reduction_order(g);
	if (status == ORIEL_OK)
		status = make_supported(g);
	if (status == ORIEL_OK && g->reduction)
		status = ori_reduction_open(g);
	if (status == ORIEL_OK && g->is_gpu && g->shape.nodes == 1)
		return ORIEL_OK;
	return status == ORIEL_OK ? make_plans(g) : status;
}

/* Bytes of a slot of the staging. @bytes: the longest message that these lines send. */
static size_t make_slot(const struct ori_gather *g, enum oriel_dev_lines lines, size_t bytes)
{
	size_t part = (bytes + g->parts - 1) / g->parts;

	if (part < ori_gather_lines_part(g, lines))
		part = ori_gather_lines_part(g, lines);
	return oriel_dev_gather_slot(lines, part, 1);
}

/* Lays out both kinds of lines in the staging. Returns their length. */
static size_t make_lay_out_lines(struct ori_gather *g)
{
	enum oriel_dev_lines longer = g->is_narrow ? ORIEL_DEV_LINES_LL : ORIEL_DEV_LINES_LL128;
	uint32_t ranks = oriel_comm_size(g->comm);
	size_t longest = ori_gather_lines_max(g->is_gpu), length;

	if (longest > g->bytes_max)
		longest = g->bytes_max;
	if (!(g->supported >> ORIEL_ALGORITHM_LL & 1))
		return 0;
	g->ll = (struct oriel_dev_gather){.lines = ORIEL_DEV_LINES_LL,
					  .id = ori_gather_id(g, ORI_GATHER_LL)};
	if (!g->is_gpu) {
		g->ll.slot = oriel_dev_gather_slot(ORIEL_DEV_LINES_LL, longest, 1);
		return oriel_dev_gather_staging(ranks, g->parts, g->ll.slot);
	}
	g->ll.slot = make_slot(g, ORIEL_DEV_LINES_LL,
			       longest < ORI_GATHER_LL_MOST ? longest : ORI_GATHER_LL_MOST);
	length = oriel_dev_gather_staging(ranks, g->parts, g->ll.slot);
	g->ll128 = (struct oriel_dev_gather){.lines = longer,
					     .id = ori_gather_id(g, ORI_GATHER_LL128),
					     .slot = make_slot(g, longer, longest),
					     .staging = length};
	return length + oriel_dev_gather_staging(ranks, g->parts, g->ll128.slot);
}

/* Lays out the staging: lines, then notes. Returns its length. */
static size_t make_lay_out(struct ori_gather *g)
{
	uint32_t ranks = oriel_comm_size(g->comm);
	size_t length;

	if (ori_gather_has_jobs(g))
		return ori_internode_staging(g);
	if (g->reduction && g->is_gpu)
		return ori_reduce_stream_lay_out(g);
	if (g->reduction)
		return g->shape.nodes > 1 ? ori_reduce_rounds_staging(g) : ori_reduction_staging(g);
	length = make_lay_out_lines(g);
	g->notes = (struct oriel_dev_gather){.id = ori_gather_id(g, ORI_GATHER_NOTES),
					     .staging = length};
	if (!g->kind->has_notes)
		return length;
	return length + oriel_dev_exchange_staging(ranks, ori_gather_exchange_parts(g));
}

static const unsigned make_flags[ORI_COLLECTIVES] = {
	[ORI_ALLGATHER] = ORIEL_WINDOW_ALLGATHER,
	[ORI_ALLTOALL] = ORIEL_WINDOW_ALLTOALL,
	[ORI_BCAST] = ORIEL_WINDOW_BCAST,
	[ORI_ALLREDUCE] = ORIEL_WINDOW_ALLREDUCE,
	[ORI_REDUCE_SCATTER] = ORIEL_WINDOW_REDUCE_SCATTER,
	[ORI_REDUCE] = ORIEL_WINDOW_REDUCE,
	[ORI_GATHER] = ORIEL_WINDOW_GATHER,
	[ORI_SCATTER] = ORIEL_WINDOW_SCATTER,
};

static enum oriel_status make_open_windows(struct ori_gather *g)
{
	size_t length = make_lay_out(g);
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = g->reduction ? ori_reduction_lay_out(g, length)
								: length,
					 .flags = make_flags[g->kind->number] |
						  (g->is_gpu ? ORIEL_WINDOW_DEVICE : 0),
					 .signals = ori_gather_id(g, ORI_GATHER_KINDS),
					 .barriers = 1,
					 .counters = ORIEL_NONE,
					 .buffers = 2};
	enum oriel_status status = oriel_window_create(g->comm, &attr, &g->window);

	return status == ORIEL_OK ? ori_gather_same_open(g) : status;
}

/*
 * Shares the view in @window, where the library has to: a plain buffer, or a view that kernels
 * find by a table in GPU memory.
 */
static enum oriel_status make_share(struct ori_gather *g, const struct ori_gather_request *request)
{
	void *address = request->view.buffer;
	enum oriel_status status = ORIEL_OK;
	uint32_t buffer;

	if (request->view.peers && g->is_gpu)
		status = oriel_window_share_table(g->window, request->view.peers, &buffer);
	if (request->view.window)
		status = oriel_window_peer_address(request->view.window, oriel_comm_rank(g->comm),
						   request->view.at, &address);
	g->result = address;
	/* The kind is equal on all ranks, so all of them share or none does. */
	if (request->join.kind == ORIEL_VIEW_TABLE ||
	    (request->join.kind == ORIEL_VIEW_WINDOW && !g->is_gpu))
		return status;
	status = oriel_comm_agree(g->comm, status);
	if (status != ORIEL_OK)
		return status;
	return oriel_window_share(g->window, address, request->view.length, &buffer);
}

/* Host memory: builds the table of g->device from the mapping that the view has already. */
static enum oriel_status make_table(struct ori_gather *g, const struct ori_gather_request *request)
{
	uint32_t ranks = oriel_comm_size(g->comm), number, rank;
	const struct oriel_dev_buffer *entries = request->view.peers;
	struct oriel_dev_buffer *view = g->table + ranks;
	struct oriel_dev_window other;
	enum oriel_status status;
	uint64_t offset = 0;

	status = oriel_window_device(g->window, &g->device);
	if (status != ORIEL_OK || g->is_gpu)
		return status;
	if (request->join.kind == ORIEL_VIEW_BUFFER)
		entries = g->device.table + ranks;
	if (request->join.kind == ORIEL_VIEW_WINDOW) {
		status = oriel_window_device(request->view.window, &other);
		if (status != ORIEL_OK)
			return status;
		number = (uint32_t)(request->view.at >> ORIEL_AT_BITS);
		offset = request->view.at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
		entries = other.table + (size_t)number * ranks;
	}
	for (rank = 0; rank < ranks; rank++) {
		g->table[rank] = g->device.table[rank];
		view[rank] = entries[rank];
		view[rank].base += offset;
		view[rank].address += offset;
		view[rank].length -= offset;
	}
	g->device.table = g->table;
	g->device.buffers = 2;
	return ORIEL_OK;
}

static void make_close(struct ori_gather *g)
{
	unsigned i;

	ori_gather_await(g);
	ori_internode_close(g->internode);
	oriel_window_destroy(g->window);
	oriel_window_destroy(g->numbers);
	for (i = 0; i < ORI_ALGORITHMS; i++)
		ori_plan_close(&g->plans[i]);
	ori_shape_close(&g->shape);
	free(g->has_credit);
	free(g->taken);
	free(g->table);
	free(g->leaders);
	ori_reduction_free(g->reduction);
	ori_handle_free(g);
}

static void make_log(const struct ori_gather *g, const struct ori_gather_request *request,
		     const struct oriel_tune_info *table)
{
	char why[400];

	if (request->join.algorithm != ORIEL_ALGORITHM_DEFAULT)
		snprintf(why, sizeof(why), "by its attr");
	else if (g->requested != ORIEL_ALGORITHM_DEFAULT)
		snprintf(why, sizeof(why), "by %s", ori_gather_setting_name(g->kind->number));
	else if (ori_tune_row(&g->tune, g->kind->number, 1))
		snprintf(why, sizeof(why), "by the lines of %s for '%s'", table->path,
			 table->machine);
	else if (!table->path[0])
		snprintf(why, sizeof(why), "by the library's table: there is no table of the user");
	else
		snprintf(why, sizeof(why),
			 "by the library's table: %s has no line for ranks %u, nodes %u, '%s'",
			 table->path, oriel_comm_size(g->comm), g->shape.nodes, table->machine);
	ori_gather_log_choice(g, why);
}

/*
 * Finds what an object can execute; creates nothing that peers see. Every collective step, here and
 * below, follows an agreement on the local steps before it, so that a rank that fails alone does
 * not leave its peers waiting.
 */
static enum oriel_status make_decide(struct ori_gather *g, struct ori_gather_request *request,
				     struct oriel_tune_info *table)
{
	enum oriel_status status;

	g->is_gpu = request->view.flags & ORIEL_VIEW_GPU;
	status = ori_leaders_find(g->comm, g->is_gpu, &g->leaders);
	if (status == ORIEL_OK)
		status = ori_tune_load(g->comm, g->is_gpu,
				       ori_leaders_count(g->leaders, oriel_comm_size(g->comm)),
				       &g->tune, table);
	request->join.table = g->tune.digest;
	status = make_join(g, request, status);
	if (status != ORIEL_OK)
		return status;
	status = make_prepare(g);
	if (status == ORIEL_OK)
		status = ori_gather_check_table(g, table->path);
	return oriel_comm_agree(g->comm, status);
}

static enum oriel_status make_open(struct ori_gather *g, struct ori_gather_request *request)
{
	struct oriel_tune_info table = {0};
	enum oriel_status status = make_decide(g, request, &table);

	if (status == ORIEL_OK)
		status = make_open_windows(g);
	if (status == ORIEL_OK)
		status = make_share(g, request);
	if (status == ORIEL_OK) {
		status = make_table(g, request);
		if (ori_gather_has_jobs(g))
			status = ori_internode_open(g, request->view.length, status);
	}
	if (status == ORIEL_OK && g->reduction)
		status = ori_reduction_copy_factors(g);
	g->puts.id = ori_gather_id(g, ORI_GATHER_PUTS);
	g->ll.to = g->ll128.to = g->puts.to = g->notes.to = oriel_at(ORI_GATHER_RESULT, 0);
	g->ll.result = g->ll128.result = g->puts.result = g->notes.result = g->result;
	if (status == ORIEL_OK)
		make_log(g, request, &table);
	return status;
}

/* Threads of the CPU reach mapped ranks by the addresses of the window in which the view lies. */
static enum oriel_status make_check_view(const struct ori_gather_kind *kind,
					 const struct oriel_comm *comm,
					 const struct oriel_view *view)
{
	unsigned index, rank, size = oriel_comm_domain_size(comm);
	enum oriel_status status = ORIEL_OK;
	void *address;

	for (index = 0; view->window && index < size && status == ORIEL_OK; index++) {
		status = oriel_comm_domain_rank(comm, index, &rank);
		if (status == ORIEL_OK && oriel_window_peer_address(view->window, rank, view->at,
								    &address) == ORIEL_ERR_NO_PATH)
			status =
				ori_fail(ORIEL_ERR_UNSUPPORTED,
					 "%s: the window of the view reaches mapped ranks by rdma "
					 "(ORIEL_WINDOW_RDMA): pass the memory itself, or a window "
					 "without",
					 kind->name);
	}
	return status;
}

/* Reads the arguments. @gather is a gather without contents, on all ranks or on none. */
static enum oriel_status make_begin(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				    const struct oriel_view *view,
				    const struct oriel_reduction *reduction,
				    const struct oriel_coll_attr *attr, const char *call,
				    struct ori_gather_request *request, struct ori_gather **gather)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, call);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = ori_handle_alloc(kind->handle, sizeof(*g));
	status = ori_gather_request_read(request, kind, view, reduction, attr);
	if (status == ORIEL_OK && request->view.flags & ORIEL_VIEW_GPU)
		status = make_query_gpus(kind, comm, &request->join);
	else if (status == ORIEL_OK)
		status = make_check_view(kind, comm, &request->view);
	if (g && status == ORIEL_OK && kind->is_reduction) {
		g->reduction = ori_reduction_alloc(&request->reduction, oriel_comm_size(comm));
		if (!g->reduction)
			status = ori_fail_nomem(sizeof(*g->reduction), "%s", kind->name);
	}
	if (!g)
		status = ori_fail_nomem(sizeof(*g), "the object of %s", kind->name);
	/* A rank that fails alone must not leave the others waiting. */
	status = oriel_comm_agree(comm, status);
	if (status != ORIEL_OK) {
		if (g)
			ori_reduction_free(g->reduction);
		ori_handle_free(g);
		return status;
	}
	assert(g);
	g->kind = kind;
	g->comm = comm;
	*gather = g;
	return ORIEL_OK;
}

enum oriel_status ori_gather_create(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				    const struct oriel_view *view,
				    const struct oriel_reduction *reduction,
				    const struct oriel_coll_attr *attr, void **handle,
				    const char *call)
{
	struct ori_gather_request request = {.join = {0}};
	struct ori_gather *g = NULL;
	enum oriel_status status;

	if (!handle)
		return ori_fail(ORIEL_ERR_INVALID, "%s: the output pointer is NULL", call);
	status = make_begin(kind, comm, view, reduction, attr, call, &request, &g);
	if (status != ORIEL_OK)
		return status;
	status = make_open(g, &request);
	/* A rank must not start an execution before all ranks know that the creation succeeded. */
	status = oriel_comm_agree(comm, status);
	if (status != ORIEL_OK) {
		make_close(g);
		return status;
	}
	ori_handle_borrow(g, request.view.window);
	ori_handle_open(g, comm);
	*handle = g;
	return ORIEL_OK;
}

/* Can all ranks reach the buffers? Shares them for a moment. */
static enum oriel_status make_try_share(struct ori_gather *g,
					const struct ori_gather_request *request)
{
	struct oriel_region *region = NULL;
	enum oriel_status status;

	/* A region has bytes; a view without any is not shared by NICs or mapped either. */
	if (request->join.kind != ORIEL_VIEW_BUFFER || !g->bytes_max)
		return ORIEL_OK;
	status =
		oriel_region_register(g->comm, request->view.buffer, request->view.length, &region);
	status = oriel_comm_agree(g->comm, status);
	if (status == ORIEL_OK)
		status = oriel_region_share(region);
	oriel_region_unregister(region);
	return status;
}

/* Does an object of these agreed values execute @bytes, by the algorithm that was requested? */
static enum oriel_status make_check_bytes(const struct ori_gather *g, size_t bytes)
{
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE,
				"%s: %zu bytes of each of %u ranks do not fit the shortest view, "
				"which has room for %zu",
				g->kind->name, bytes, g->shape.ranks, g->bytes_max);
	if (g->requested == ORIEL_ALGORITHM_LL && bytes > ori_gather_lines_max(g->is_gpu))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: algorithm ll sends at most %zu bytes in %s memory, not %zu",
				g->kind->name, ori_gather_lines_max(g->is_gpu),
				g->is_gpu ? "GPU" : "host", bytes);
	return ORIEL_OK;
}

enum oriel_status ori_gather_try(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				 const struct oriel_view *view, const struct oriel_coll_attr *attr,
				 size_t bytes, struct oriel_coll_info *info, const char *call)
{
	struct ori_gather_request request = {.join = {0}};
	enum oriel_status status = ori_info_check("oriel_coll_info", info);
	struct oriel_coll_info found;
	struct oriel_tune_info table;
	struct ori_gather *g = NULL;

	if (status != ORIEL_OK)
		return status;
	status = make_begin(kind, comm, view, NULL, attr, call, &request, &g);
	if (status != ORIEL_OK)
		return status;
	status = make_decide(g, &request, &table);
	if (status == ORIEL_OK)
		status = oriel_comm_agree(comm, make_check_bytes(g, bytes));
	if (status == ORIEL_OK)
		status = make_try_share(g, &request);
	if (status == ORIEL_OK) {
		found = ori_gather_info(g, bytes);
		ori_info_write(info, &found, sizeof(found));
	}
	make_close(g);
	return status;
}

/*
 * A caller that destroys an object whose execution runs has forgotten to wait: peers would still
 * read and write its memory. Once the communicator is broken the execution ends by itself.
 */
static enum oriel_status make_check_ended(const struct ori_gather *g, const char *call)
{
	if (!ori_gather_is_running(g) || ori_dev_health(&g->device) != ORIEL_OK)
		return ORIEL_OK;
	return ori_misuse("%s: rank %u: the execution that was started has not ended: wait for it",
			  call, g->device.rank);
}

enum oriel_status ori_gather_destroy(const struct ori_gather_kind *kind, void *handle,
				     const char *call)
{
	enum oriel_status status;

	if (!ori_handle_may_end(handle, kind->handle, call))
		return ori_handle_refused(handle);
	status = make_check_ended(handle, call);
	if (status != ORIEL_OK)
		return status;
	if (!ori_handle_shut(handle, kind->handle, call))
		return ori_handle_refused(handle);
	make_close(handle);
	return ORIEL_OK;
}
