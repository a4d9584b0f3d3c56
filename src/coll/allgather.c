/* SPDX-License-Identifier: Apache-2.0 */
/* The persistent all-gather: made, started, gone. */
#include <stdlib.h>

#include "base/attr.h"
#include "base/error.h"
#include "coll/gather.h"
#include "coll/gather_far.h"

#define ALLGATHER_CHUNK ((size_t)1 << 20)
#define ALLGATHER_CHUNK_LEAST 4096u
#define START_DIRECT_CHUNK ((size_t)16 << 20) /* a message that nobody passes on goes whole */

enum allgather_telling {
	ALLGATHER_WINDOW, /* part of a window */
	ALLGATHER_BUFFER, /* to be shared */
	ALLGATHER_TABLE,  /* the caller knows where all are */
};

/* What ranks tell each other of a new one. Goes over the wire as it is. */
struct allgather_join {
	uint64_t at;
	uint64_t length;
	uint64_t chunk;
	uint32_t kind; /* enum allgather_telling */
	uint32_t flags;
	uint32_t algorithm;
	uint32_t setting;    /* that of ORIEL_ALLGATHER */
	uint32_t collective; /* enum ori_collective */
	uint32_t leader;     /* the lowest rank whose GPU is mapped; of a view on a GPU */
	uint64_t table;      /* digest of what it chooses by */
};

#define ALLGATHER_BIT(name) (1u << ORIEL_ALGORITHM_##name)
#define ALLGATHER_BY_PLAN (ALLGATHER_BIT(DIRECT) | ALLGATHER_BIT(RING) | ALLGATHER_BIT(DOUBLING))
#define ALLGATHER_MAPPED (ALLGATHER_BIT(LL) | ALLGATHER_BIT(STORE))

static const struct ori_gather_kind allgather_kind = {
	.name = "all-gather",
	.number = ORI_ALLGATHER,
	.host = ALLGATHER_MAPPED | ALLGATHER_BY_PLAN,
	.nodes = ALLGATHER_BY_PLAN,
	.gpus = ALLGATHER_MAPPED | ALLGATHER_BIT(CE),
	.far = ALLGATHER_BY_PLAN,
};

/* A view and attributes that have been read. */
struct allgather_wish {
	struct oriel_view view;
	struct oriel_allgather_attr attr;
	struct allgather_join join;
};

static enum oriel_status wish_kind(struct allgather_wish *wish)
{
	const struct oriel_view *view = &wish->view;

	if (view->flags & ~(unsigned)ORIEL_VIEW_GPU || view->reserved)
		return ori_fail(ORIEL_ERR_INVALID, "a view with unknown flags 0x%x", view->flags);
	if (!view->window == !view->buffer || (view->window && view->peers) ||
	    (!view->window && view->at))
		return ori_fail(ORIEL_ERR_INVALID,
				"a view is part of a window, or a buffer, or a buffer and a table "
				"of all ranks'");
	wish->join.kind = view->window ? ALLGATHER_WINDOW : ALLGATHER_BUFFER;
	if (view->peers)
		wish->join.kind = ALLGATHER_TABLE;
	if (view->peers && view->flags & ORIEL_VIEW_GPU)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"a view on a GPU that the caller has a table of");
	return ORIEL_OK;
}

/* Does the window of the view, if that is one, lie where the flags say, and reach so far? */
static enum oriel_status wish_window(const struct allgather_wish *wish)
{
	const struct oriel_view *view = &wish->view;
	bool is_gpu = view->flags & ORIEL_VIEW_GPU;
	struct oriel_dev_window device;
	enum oriel_status status;
	uint64_t offset;
	void *address;
	size_t length;

	if (!view->window)
		return ORIEL_OK;
	status = oriel_window_device(view->window, &device);
	if (status != ORIEL_OK)
		return status;
	if (is_gpu != (device.blame != device.health))
		return ori_fail(ORIEL_ERR_INVALID,
				"a view %s GPU of window %u, which lies in %s memory",
				is_gpu ? "on a" : "on no", device.number, is_gpu ? "host" : "GPU");
	status = oriel_window_buffer(view->window, (uint32_t)(view->at >> ORIEL_AT_BITS), &address,
				     &length);
	if (status != ORIEL_OK)
		return status;
	offset = view->at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	if (offset > length || view->length > length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"a view of %zu bytes from byte %llu on of a buffer of %zu",
				view->length, (unsigned long long)offset, length);
	return ORIEL_OK;
}

static enum oriel_status wish_read(struct allgather_wish *wish, const struct ori_gather_kind *kind,
				   const struct oriel_view *view,
				   const struct oriel_allgather_attr *attr)
{
	enum oriel_algorithm setting = ORIEL_ALGORITHM_DEFAULT;
	enum oriel_status status;

	if (!view)
		return ori_fail(ORIEL_ERR_INVALID, "%s: view is NULL", kind->name);
	status = ori_attr_read("oriel_view", view, &wish->view, sizeof(wish->view));
	if (status == ORIEL_OK)
		status = ori_attr_read("oriel_allgather_attr", attr, &wish->attr,
				       sizeof(wish->attr));
	if (status == ORIEL_OK)
		status = wish_kind(wish);
	if (status == ORIEL_OK)
		status = wish_window(wish);
	if (status == ORIEL_OK && kind->number == ORI_ALLGATHER)
		status = ori_gather_setting(&setting);
	if (status != ORIEL_OK)
		return status;
	if (!wish->attr.chunk)
		wish->attr.chunk = ALLGATHER_CHUNK;
	if (wish->attr.algorithm >= ORIEL_ALGORITHMS || wish->attr.reserved ||
	    wish->attr.chunk < ALLGATHER_CHUNK_LEAST)
		return ori_fail(ORIEL_ERR_INVALID, "%s: algorithm %u, chunks of %zu bytes",
				kind->name, wish->attr.algorithm, wish->attr.chunk);
	wish->join.at = wish->view.at;
	wish->join.length = wish->view.length;
	wish->join.chunk = wish->attr.chunk;
	wish->join.flags = wish->view.flags;
	wish->join.algorithm = wish->attr.algorithm;
	wish->join.setting = (uint32_t)setting;
	wish->join.collective = (uint32_t)kind->number;
	return ORIEL_OK;
}

static enum oriel_status allgather_differ(const char *what, uint64_t first, uint64_t other,
					  unsigned peer)
{
	return ori_fail(ORIEL_ERR_MISMATCH, "collective: %s %llu on rank 0 and %llu on rank %u",
			what, (unsigned long long)first, (unsigned long long)other, peer);
}

/* Do all ranks wish the same? All come to the same answer. */
static enum oriel_status allgather_compare(const struct allgather_join *joins, unsigned size)
{
	const struct allgather_join *a = joins, *b;
	unsigned peer;

	for (peer = 1; peer < size; peer++) {
		b = &joins[peer];
		if (a->collective != b->collective)
			return allgather_differ("one of kind", a->collective, b->collective, peer);
		if (a->kind != b->kind)
			return allgather_differ("a view of kind", a->kind, b->kind, peer);
		if (a->flags != b->flags)
			return allgather_differ("a view with flags", a->flags, b->flags, peer);
		if (a->at != b->at)
			return allgather_differ("a view at", a->at, b->at, peer);
		if (a->algorithm != b->algorithm)
			return allgather_differ("algorithm", a->algorithm, b->algorithm, peer);
		if (a->setting != b->setting)
			return allgather_differ("ORIEL_ALLGATHER, of the algorithms number",
						a->setting, b->setting, peer);
		if (a->table != b->table)
			return allgather_differ("a table of oriel tune (ORIEL_TUNE) of digest",
						a->table, b->table, peer);
		if (a->chunk != b->chunk)
			return allgather_differ("chunks of", a->chunk, b->chunk, peer);
	}
	return ORIEL_OK;
}

/* What follows from the joins of all. */
static enum oriel_status allgather_join(struct oriel_allgather *g,
					const struct allgather_wish *wish)
{
	unsigned size = oriel_comm_size(g->comm), peer;
	struct allgather_join *joins = calloc(size, sizeof(*joins));
	enum oriel_status status = ORIEL_OK;
	uint64_t least = UINT64_MAX;

	g->leaders = calloc(size, sizeof(*g->leaders));
	if (!joins || !g->leaders)
		status = ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for %u ranks", g->kind->name,
				  size);
	status = oriel_comm_agree(g->comm, status);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(g->comm, &wish->join, joins, sizeof(*joins));
	if (status == ORIEL_OK)
		status = allgather_compare(joins, size);
	if (status == ORIEL_OK) {
		for (peer = 0; peer < size; peer++)
			g->leaders[peer] = joins[peer].leader;
		for (peer = 0; peer < size; peer++)
			if (joins[peer].length < least)
				least = joins[peer].length;
		g->bytes_max = g->kind->is_whole ? least : least / size;
		g->chunk = wish->attr.chunk;
		g->asked = (enum oriel_algorithm)wish->join.algorithm;
		if (g->asked == ORIEL_ALGORITHM_DEFAULT)
			g->asked = (enum oriel_algorithm)wish->join.setting;
	}
	free(joins);
	return status;
}

/* The lowest rank of the domain that @rank is in. */
static enum oriel_status allgather_leader(const struct oriel_allgather *g, unsigned rank,
					  uint32_t *leader)
{
	enum oriel_path path = ORIEL_PATH_NONE;
	enum oriel_status status;
	unsigned other;

	for (other = 0; other < rank; other++) {
		status = oriel_comm_path_between(g->comm, other, rank, &path);
		if (status != ORIEL_OK)
			return status;
		if (path == ORIEL_PATH_MAPPED)
			break;
	}
	*leader = other;
	return ORIEL_OK;
}

static enum oriel_status allgather_shape(struct oriel_allgather *g)
{
	unsigned size = oriel_comm_size(g->comm), rank;
	enum oriel_status status = ORIEL_OK;

	/* Of GPUs each rank knows its own alone. */
	for (rank = 0; rank < size && !g->is_gpu && status == ORIEL_OK; rank++)
		status = allgather_leader(g, rank, &g->leaders[rank]);
	return status == ORIEL_OK ? ori_shape_open(&g->shape, g->leaders, size) : status;
}

/* The lowest rank whose GPU is mapped here, this one's at the latest. */
static enum oriel_status allgather_gpu_leader(const struct ori_gather_kind *kind,
					      const struct oriel_comm *comm, uint32_t *leader)
{
	unsigned size = oriel_comm_size(comm), rank;
	uint32_t lowest = oriel_comm_rank(comm);
	enum oriel_status status;
	struct oriel_peer peer;

	for (rank = 0; rank < size; rank++) {
		status = oriel_comm_peer(comm, rank, &peer);
		if (status != ORIEL_OK)
			return status;
		if (peer.gpu_path == ORIEL_PATH_NONE)
			return ori_fail(ORIEL_ERR_UNSUPPORTED,
					"%s on GPUs: no path leads to that of rank %u", kind->name,
					rank);
		if (peer.gpu_path == ORIEL_PATH_MAPPED && rank < lowest)
			lowest = rank;
	}
	*leader = lowest;
	return ORIEL_OK;
}

/* What these ranks and this memory allow. */
static enum oriel_status allgather_abilities(struct oriel_allgather *g)
{
	if (g->is_gpu)
		g->able = g->shape.nodes == 1 ? g->kind->gpus : g->kind->far;
	else
		g->able = g->shape.nodes == 1 ? g->kind->host : g->kind->nodes;
	if (!g->able)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: not of GPU memory of %u nodes",
				g->kind->name, g->shape.nodes);
	if (g->asked != ORIEL_ALGORITHM_DEFAULT && !(g->able >> g->asked & 1))
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: %s is not for %s memory of %u nodes",
				g->kind->name, oriel_algorithm_name(g->asked),
				g->is_gpu ? "GPU" : "host", g->shape.nodes);
	return ORIEL_OK;
}

static enum oriel_status allgather_plans(struct oriel_allgather *g)
{
	unsigned size = oriel_comm_size(g->comm), i;
	enum oriel_status status = ORIEL_OK;

	g->has_credit = calloc(size, sizeof(*g->has_credit));
	g->taken = calloc(size, sizeof(*g->taken));
	g->table = calloc(2 * (size_t)size, sizeof(*g->table));
	if (!g->has_credit || !g->taken || !g->table)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for %u ranks", g->kind->name, size);
	for (i = ORIEL_ALGORITHM_DIRECT; i < ORIEL_ALGORITHMS && status == ORIEL_OK; i++)
		if (g->able >> i & 1 && g->kind->number == ORI_ALLGATHER)
			status = ori_plan_open(&g->plans[i], &g->shape, (enum oriel_algorithm)i,
					       oriel_comm_rank(g->comm));
	return status;
}

static enum oriel_status allgather_prepare(struct oriel_allgather *g)
{
	enum oriel_status status = allgather_shape(g);

	if (status == ORIEL_OK)
		status = allgather_abilities(g);
	if (status == ORIEL_OK && g->is_gpu && g->shape.nodes == 1)
		return ORIEL_OK;
	return status == ORIEL_OK ? allgather_plans(g) : status;
}

/* Where the lines of both kinds go, in the staging; their length. */
static size_t allgather_lay_lines(struct oriel_allgather *g)
{
	uint32_t ranks = oriel_comm_size(g->comm), parts = g->is_gpu ? ORI_GATHER_PARTS : 1;
	size_t longest = ori_gather_lines_max(g->is_gpu), length = 0;

	if (longest > g->bytes_max)
		longest = g->bytes_max;
	if (!(g->able >> ORIEL_ALGORITHM_LL & 1))
		return 0;
	g->ll = (struct oriel_dev_gather){.lines = ORIEL_DEV_LINES_LL, .id = ORI_GATHER_LL};
	g->ll.slot = oriel_gather_slot(ORIEL_DEV_LINES_LL, longest, 1);
	if (!g->is_gpu)
		return oriel_gather_staging(ranks, parts, g->ll.slot);
	g->ll.slot = oriel_gather_slot(ORIEL_DEV_LINES_LL, ORI_GATHER_LL_PART, 1);
	length = oriel_gather_staging(ranks, parts, g->ll.slot);
	g->ll128 = (struct oriel_dev_gather){.lines = ORIEL_DEV_LINES_LL128,
					     .id = ORI_GATHER_LL128,
					     .staging = length};
	g->ll128.slot = oriel_gather_slot(ORIEL_DEV_LINES_LL128, longest, parts);
	if (g->ll128.slot < oriel_gather_slot(ORIEL_DEV_LINES_LL128, ORI_GATHER_LL128_PART, 1))
		g->ll128.slot = oriel_gather_slot(ORIEL_DEV_LINES_LL128, ORI_GATHER_LL128_PART, 1);
	return length + oriel_gather_staging(ranks, parts, g->ll128.slot);
}

/* The staging: lines, and behind them notes; its length. */
static size_t allgather_lay(struct oriel_allgather *g)
{
	uint32_t ranks = oriel_comm_size(g->comm), parts = g->is_gpu ? ORI_GATHER_PARTS : 1;
	size_t length = allgather_lay_lines(g);

	g->notes = (struct oriel_dev_gather){.id = ORI_GATHER_NOTES, .staging = length};
	if (!g->kind->has_notes)
		return length;
	return length + oriel_exchange_staging(ranks, parts);
}

static enum oriel_status allgather_open_window(struct oriel_allgather *g)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = allgather_lay(g),
					 .flags = g->is_gpu ? ORIEL_WINDOW_DEVICE : 0,
					 .signals = ORI_GATHER_SIGNALS,
					 .barriers = 1,
					 .counters = ORIEL_NONE,
					 .channels = ORIEL_NONE,
					 .buffers = 2};

	return oriel_window_create(g->comm, &attr, &g->window);
}

/* Of a view that the library shares, which a table in GPU memory must know as well. */
static enum oriel_status allgather_share(struct oriel_allgather *g,
					 const struct allgather_wish *wish)
{
	void *address = wish->view.buffer;
	enum oriel_status status = ORIEL_OK;
	uint32_t buffer;

	if (wish->view.window)
		status = oriel_window_peer_address(wish->view.window, oriel_comm_rank(g->comm),
						   wish->view.at, &address);
	g->result = address;
	/* All ranks share or none does. */
	if (wish->join.kind == ALLGATHER_TABLE ||
	    (wish->join.kind == ALLGATHER_WINDOW && !g->is_gpu))
		return status;
	status = oriel_comm_agree(g->comm, status);
	if (status != ORIEL_OK)
		return status;
	return oriel_window_share(g->window, address, wish->view.length, &buffer);
}

/* Host memory: a handle that finds the view where it lies already. */
static enum oriel_status allgather_table(struct oriel_allgather *g,
					 const struct allgather_wish *wish)
{
	uint32_t ranks = oriel_comm_size(g->comm), number, rank;
	const struct oriel_dev_buffer *entries = wish->view.peers;
	struct oriel_dev_buffer *view = g->table + ranks;
	struct oriel_dev_window other;
	enum oriel_status status;
	uint64_t offset = 0;

	status = oriel_window_device(g->window, &g->device);
	if (status != ORIEL_OK || g->is_gpu)
		return status;
	if (wish->join.kind == ALLGATHER_BUFFER)
		entries = g->device.table + ranks;
	if (wish->join.kind == ALLGATHER_WINDOW) {
		status = oriel_window_device(wish->view.window, &other);
		if (status != ORIEL_OK)
			return status;
		number = (uint32_t)(wish->view.at >> ORIEL_AT_BITS);
		offset = wish->view.at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
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

/* A job ends in the end: it has the timeout of the communicator, and its health. */
static void allgather_await(const struct oriel_allgather *g)
{
	uint64_t begun = oriel_dev_clock_ns();

	while (atomic_load_explicit(&g->begun, memory_order_acquire) == ORIEL_AGAIN)
		oriel_dev_give_way(oriel_dev_clock_ns() - begun);
}

static void allgather_close(struct oriel_allgather *g)
{
	unsigned i;

	allgather_await(g);
	ori_far_close(g->far);
	oriel_window_destroy(g->window);
	for (i = 0; i < ORIEL_ALGORITHMS; i++)
		ori_plan_close(&g->plans[i]);
	ori_shape_close(&g->shape);
	free(g->has_credit);
	free(g->taken);
	free(g->table);
	free(g->leaders);
	free(g);
}

static enum oriel_status allgather_open(struct oriel_allgather *g, struct allgather_wish *wish)
{
	struct oriel_tune_info table;
	enum oriel_status status;

	g->is_gpu = wish->view.flags & ORIEL_VIEW_GPU;
	status = oriel_comm_agree(g->comm, ori_tune_load(g->comm, g->is_gpu, &g->tune, &table));
	if (status != ORIEL_OK)
		return status;
	wish->join.table = g->tune.digest;
	status = allgather_join(g, wish);
	if (status != ORIEL_OK)
		return status;
	status = allgather_prepare(g);
	if (status == ORIEL_OK)
		status = ori_gather_check_table(g, table.path);
	status = oriel_comm_agree(g->comm, status);
	if (status == ORIEL_OK)
		status = allgather_open_window(g);
	if (status == ORIEL_OK)
		status = allgather_share(g, wish);
	if (status == ORIEL_OK)
		status = allgather_table(g, wish);
	if (status == ORIEL_OK && g->is_gpu && g->shape.nodes > 1)
		status = ori_far_open(g, wish->view.length);
	g->puts.id = ORI_GATHER_PUTS;
	g->ll.to = g->ll128.to = g->puts.to = g->notes.to = oriel_at(ORI_GATHER_RESULT, 0);
	g->ll.result = g->ll128.result = g->puts.result = g->notes.result = g->result;
	return status;
}

enum oriel_status ori_gather_create(const struct ori_gather_kind *kind, struct oriel_comm *comm,
				    const struct oriel_view *view,
				    const struct oriel_allgather_attr *attr,
				    struct oriel_allgather **gather)
{
	struct oriel_allgather *g = calloc(1, sizeof(*g));
	struct allgather_wish wish = {.join = {0}};
	enum oriel_status status = wish_read(&wish, kind, view, attr);

	if (status == ORIEL_OK && wish.view.flags & ORIEL_VIEW_GPU)
		status = allgather_gpu_leader(kind, comm, &wish.join.leader);
	if (!g)
		status = ori_fail(ORIEL_ERR_NOMEM, "%s: no memory", kind->name);
	/* A rank that fails alone must not leave the others waiting. */
	status = oriel_comm_agree(comm, status);
	if (status != ORIEL_OK) {
		free(g);
		return status;
	}
	g->kind = kind;
	g->comm = comm;
	status = allgather_open(g, &wish);
	/* Nobody starts before all know that they may. */
	status = oriel_comm_agree(comm, status);
	if (status != ORIEL_OK) {
		allgather_close(g);
		return status;
	}
	ori_live_add(&g->live, g, kind->name);
	*gather = g;
	return ORIEL_OK;
}

void ori_gather_destroy(const struct ori_gather_kind *kind, struct oriel_allgather *g)
{
	if (g && ori_live_remove(g, kind->name))
		allgather_close(g);
}

enum oriel_status oriel_allgather_create(struct oriel_comm *comm, const struct oriel_view *view,
					 const struct oriel_allgather_attr *attr,
					 struct oriel_allgather **gather)
{
	return ori_gather_create(&allgather_kind, comm, view, attr, gather);
}

void oriel_allgather_destroy(struct oriel_allgather *g)
{
	ori_gather_destroy(&allgather_kind, g);
}

enum oriel_status ori_gather_end(const struct oriel_allgather *g, enum oriel_status status)
{
	struct oriel_health health;
	struct oriel_dev_fault fault;
	char text[256];

	if (status == ORIEL_OK)
		return status;
	oriel_comm_health(g->comm, &health);
	if (health.status != ORIEL_OK) {
		oriel_health_text(&health, text, sizeof(text));
		return ori_fail(health.status, "%s: %s", g->kind->name, text);
	}
	/* Operations in streams have left theirs. */
	if (g->is_gpu || oriel_window_fault(g->window, &fault) == ORIEL_OK)
		return status;
	return ori_fail(status, "%s: %s", g->kind->name, oriel_status_text(status));
}

enum oriel_status ori_gather_check(const struct oriel_allgather *g, const void *stream)
{
	enum oriel_status status = oriel_dev_health(&g->device);

	if (status != ORIEL_OK)
		return ori_gather_end(g, status);
	if (g->is_gpu != !!stream)
		return ori_fail(ORIEL_ERR_INVALID,
				g->is_gpu ? "%s of GPU memory: it needs a stream"
					  : "%s of host memory: it takes no stream",
				g->kind->name);
	return ORIEL_OK;
}

static enum oriel_status start_check(const struct oriel_allgather *g, const char *send,
				     size_t bytes, const void *stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, stream);
	size_t all = bytes * g->device.ranks;

	if (status != ORIEL_OK)
		return status;
	if (atomic_load_explicit(&g->begun, memory_order_acquire) == ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_STATE, "%s: one was begun and is not over",
				g->kind->name);
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s of %zu bytes of each rank, at most %zu",
				g->kind->name, bytes, g->bytes_max);
	if (from == to + g->device.rank * bytes)
		return ORIEL_OK;
	if (from < to + all && to < from + bytes)
		return ori_fail(ORIEL_ERR_INVALID,
				"all-gather: what is sent overlaps the result, and is not at its "
				"place there");
	return ORIEL_OK;
}

/* By copy engines, between a barrier that lets all be written to and one that ends it. */
static enum oriel_status start_engines(struct oriel_allgather *g, const void *send, size_t bytes,
				       void *stream)
{
	uint64_t to = oriel_at(ORI_GATHER_RESULT, g->device.rank * bytes);
	enum oriel_status status = oriel_window_barrier(g->window, 0, 0, stream);

	if (status == ORIEL_OK)
		status = oriel_window_put_all(g->window, to, send, bytes, stream);
	return status == ORIEL_OK ? oriel_window_barrier(g->window, 0, 0, stream) : status;
}

/* Parts of at most @most bytes each, as far as there may be so many. */
static uint32_t start_parts(size_t bytes, size_t most)
{
	size_t parts = (bytes + most - 1) / most;

	return parts < ORI_GATHER_PARTS ? (uint32_t)parts : ORI_GATHER_PARTS;
}

/* Over nodes: the message to its place, from where it goes on. */
static enum oriel_status start_far(struct oriel_allgather *g, const char *send, size_t bytes,
				   void *stream)
{
	enum oriel_algorithm algorithm = ori_gather_choose(g, bytes);
	size_t own = g->device.rank * bytes;
	size_t chunk = algorithm == ORIEL_ALGORITHM_DIRECT && bytes < START_DIRECT_CHUNK ? bytes
											 : g->chunk;
	enum oriel_status status = ORIEL_OK;

	if (send != g->result + own)
		status = oriel_window_put(g->window, g->device.rank,
					  oriel_at(ORI_GATHER_RESULT, own), send, bytes, stream);
	return status == ORIEL_OK ? ori_far_start(g, &g->plans[algorithm], bytes, chunk, stream)
				  : status;
}

uint32_t ori_gather_turns(size_t bytes)
{
	return start_parts(bytes, ORIEL_DEV_TURN);
}

static enum oriel_status mapped_there(struct oriel_allgather *g, struct oriel_dev_gather *series,
				      const void *send, size_t bytes, void *stream)
{
	if (series->id == ORI_GATHER_PUTS)
		return oriel_window_gather_puts(g->window, series, ori_gather_turns(bytes), send,
						bytes, stream);
	return oriel_window_gather_lines(g->window, series,
					 start_parts(bytes, series->id == ORI_GATHER_LL
								    ? ORI_GATHER_LL_PART
								    : ORI_GATHER_LL128_PART),
					 send, bytes, stream);
}

enum oriel_status ori_gather_mapped(struct oriel_allgather *g, enum oriel_algorithm algorithm,
				    const void *send, size_t stride, size_t bytes, void *stream)
{
	struct oriel_dev_group self = oriel_dev_thread();
	struct oriel_dev_gather series = g->puts;

	if (algorithm == ORIEL_ALGORITHM_LL)
		series = g->is_gpu && bytes > ORI_GATHER_LL_MOST ? g->ll128 : g->ll;
	series.stride = stride;
	if (g->is_gpu)
		return mapped_there(g, &series, send, bytes, stream);
	if (algorithm == ORIEL_ALGORITHM_LL)
		return oriel_dev_gather_lines(&g->device, self, &series, 0, 1, send, bytes, 0);
	return oriel_dev_gather_puts(&g->device, self, &series, 0, 1, send, bytes, 0);
}

static enum oriel_status start_any(struct oriel_allgather *g, const void *send, size_t bytes,
				   void *stream)
{
	enum oriel_algorithm algorithm = ori_gather_choose(g, bytes);

	if (g->far)
		return start_far(g, send, bytes, stream);
	switch (algorithm) {
	case ORIEL_ALGORITHM_LL:
	case ORIEL_ALGORITHM_STORE:
		return ori_gather_mapped(g, algorithm, send, 0, bytes, stream);
	case ORIEL_ALGORITHM_CE:
		return start_engines(g, send, bytes, stream);
	case ORIEL_ALGORITHM_DIRECT:
		return ori_gather_run(g, &g->plans[algorithm], send, bytes, bytes);
	default:
		return ori_gather_run(g, &g->plans[algorithm], send, bytes, g->chunk);
	}
}

enum oriel_status oriel_allgather_start(struct oriel_allgather *g, const void *send, size_t bytes,
					void *stream)
{
	enum oriel_status status = start_check(g, send, bytes, stream);

	if (status == ORIEL_OK && bytes && !stream)
		status = ori_gather_same(g, "bytes", bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	return ori_gather_end(g, start_any(g, send, bytes, stream));
}

/* A thread that has other jobs waits for no line and no store: what a plan does, it can leave. */
enum oriel_status oriel_allgather_begin(struct oriel_allgather *g, const void *send, size_t bytes)
{
	enum oriel_algorithm algorithm = ori_gather_choose(g, bytes);
	enum oriel_status status;

	if (g->is_gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"%s of GPU memory: it is started in a stream, not begun",
				g->kind->name);
	status = start_check(g, send, bytes, NULL);
	if (status != ORIEL_OK || !bytes)
		return status;
	if (algorithm != ORIEL_ALGORITHM_RING && algorithm != ORIEL_ALGORITHM_DOUBLING)
		algorithm = ORIEL_ALGORITHM_DIRECT;
	return ori_gather_begin(g, &g->plans[algorithm], send, bytes, g->chunk);
}

enum oriel_status oriel_allgather_test(struct oriel_allgather *g)
{
	enum oriel_status status =
		(enum oriel_status)atomic_load_explicit(&g->begun, memory_order_acquire);

	return status < 0 ? ori_gather_end(g, status) : status;
}

enum oriel_status oriel_allgather_wait(struct oriel_allgather *g)
{
	allgather_await(g);
	return oriel_allgather_test(g);
}

enum oriel_status oriel_allgather_query(const struct oriel_allgather *g, size_t bytes,
					struct oriel_allgather_info *info)
{
	*info = (struct oriel_allgather_info){.bytes_max = g->bytes_max,
					      .nodes = g->shape.nodes,
					      .able = g->able,
					      .algorithm = ori_gather_choose(g, bytes)};
	return ORIEL_OK;
}
