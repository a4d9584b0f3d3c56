/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: the collective creation and the destruction. Programs call it, and so do the collectives
 * of src/coll.
 */
#include "window/window.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <oriel/dev.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "comm/connect.h"
#include "comm/health.h"
#include "comm/links.h"
#include "comm/paths.h"

#define WINDOW_BUFFERS_MAX 65535u
#define WINDOW_COUNT_MAX (1u << 20)
#define WINDOW_CHANNEL_MAX (1u << 30)
/* Windows whose program does without atomics, or with few links, unless it asks for more. */
#define WINDOW_NO_LINKS (ORI_WINDOW_COLLECTIVES | ORIEL_WINDOW_SPARSE)
#define WINDOW_FLAGS                                                                         \
	(ORIEL_WINDOW_HUGE | ORIEL_WINDOW_SPARSE | ORIEL_WINDOW_DEVICE | ORIEL_WINDOW_RDMA | \
	 ORI_WINDOW_COLLECTIVES)

/* The record that ranks exchange for a new window. Goes over the wire as it is. */
struct window_join {
	struct ori_offer offer; /* control segment; buffer 0 if the caller gave one */
	struct ori_window_counts counts;
	uint64_t length; /* of buffer 0 */
	uint8_t is_sparse;
	uint8_t has_peers; /* in the attributes */
	uint16_t reserved;
	uint32_t is_rdma;
};

static_assert(sizeof(struct window_join) == 640, "struct window_join goes over the wire");
static_assert(sizeof(struct window_join) <= ORI_RECORD_BYTES, "fits the records");

/* One field of the attributes: its default and limit. */
struct window_field {
	const char *name;
	size_t attr;  /* offset in struct oriel_window_attr */
	size_t count; /* offset in struct ori_window_counts */
	uint32_t fallback;
	uint32_t limit;
};

#define FIELD(name, fallback, limit)                                              \
	{                                                                         \
#name, offsetof(struct oriel_window_attr, name),                  \
			offsetof(struct ori_window_counts, name), fallback, limit \
	}

static const struct window_field window_fields[] = {
	FIELD(signals, 64, WINDOW_COUNT_MAX),
	FIELD(barriers, 16, WINDOW_COUNT_MAX),
	FIELD(counters, 16, WINDOW_COUNT_MAX),
	FIELD(channels, 0, 4096),
	FIELD(channel_bytes, 65536, WINDOW_CHANNEL_MAX),
	FIELD(buffers, 8, WINDOW_BUFFERS_MAX),
	FIELD(atomics, ORIEL_ATOMICS_DEFAULT, ORIEL_ATOMICS_OWNER),
};

#define WINDOW_FIELDS (sizeof(window_fields) / sizeof(window_fields[0]))

static uint32_t *window_count(struct ori_window_counts *counts, const struct window_field *field)
{
	return (void *)((char *)counts + field->count);
}

static enum oriel_status window_read_field(const struct oriel_window_attr *attr,
					   const struct window_field *field,
					   struct ori_window_counts *counts)
{
	uint32_t given;

	memcpy(&given, (const char *)attr + field->attr, sizeof(given));
	if (given == 0)
		given = field->fallback;
	else if (given == ORIEL_NONE)
		given = 0;
	if (given > field->limit)
		return ori_fail(ORIEL_ERR_RANGE, "oriel_window_create: %s is %u, at most %u",
				field->name, given, field->limit);
	*window_count(counts, field) = given;
	return ORIEL_OK;
}

static enum oriel_status window_read_attr(const struct oriel_window *w,
					  const struct oriel_window_attr *caller,
					  struct oriel_window_attr *attr,
					  struct ori_window_counts *counts)
{
	enum oriel_status status;
	size_t i;

	status = ori_attr_read("oriel_window_attr", caller, attr, sizeof(*attr));
	if (status == ORIEL_OK)
		status = ori_attr_check_reserved("oriel_window_attr.reserved", attr->reserved);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < WINDOW_FIELDS; i++) {
		status = window_read_field(attr, &window_fields[i], counts);
		if (status != ORIEL_OK)
			return status;
	}
	if (attr->flags & ~(unsigned)WINDOW_FLAGS)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_create: unknown flags 0x%x",
				attr->flags & ~(unsigned)WINDOW_FLAGS);
	if (attr->flags & ORIEL_WINDOW_HUGE && attr->flags & ORIEL_WINDOW_DEVICE)
		return ori_fail(
			ORIEL_ERR_INVALID,
			"oriel_window_create: huge pages are of host memory, not of a GPU's");
	counts->is_device = attr->flags & ORIEL_WINDOW_DEVICE ? 1 : 0;
	if (counts->channels &&
	    (counts->channel_bytes < 4096 || counts->channel_bytes & (counts->channel_bytes - 1)))
		return ori_fail(
			ORIEL_ERR_INVALID,
			"oriel_window_create: channel_bytes is %u, not a power of two from 4096 on",
			counts->channel_bytes);
	if (!counts->buffers)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_create: buffers is 0, at least 1");
	if (attr->length >> ORIEL_AT_BITS)
		return ori_fail(ORIEL_ERR_RANGE, "oriel_window_create: length is %zu, at most %llu",
				attr->length, (1ull << ORIEL_AT_BITS) - 1);
	return ori_window_check_peers(w, attr);
}

/*
 * This frees a window that was never complete as well, on this rank alone: all ranks have agreed.
 * NICs forget memory before it is freed: the counters in the state, and the control segment.
 */
static void window_free(struct oriel_window *w)
{
	uint32_t i;

	ori_window_late_close(w);
	if (w->control)
		ori_share_close(w->control, w->comm->size);
	for (i = 0; w->buffers && i < w->device.buffers; i++) {
		if (w->buffers[i])
			ori_share_close(w->buffers[i], w->comm->size);
		free(w->buffers[i]);
		if (w->buffer_mrs)
			ori_share_unregister(w->comm, w->buffer_mrs[i]);
	}
	ori_share_unregister(w->comm, w->counter_mr);
	ori_share_unregister(w->comm, w->control_mr);
	free(w->buffer_mrs);
	ori_window_gpu_close(w);
	ori_mem_unref(w->mem);
	free(w->state);
	free(w->table);
	free(w->peers);
	free(w->buffers);
	free(w->control);
	ori_handle_free(w);
}

/*
 * One array of maps serves the whole creation: row 0 for the control segments,
 * row 1 for the buffers; row 1 moves to buffers[0].
 */
static enum oriel_status window_open_tables(struct oriel_window *w, uint32_t buffers)
{
	size_t size = w->comm->size;

	/* window_free() frees so many rows, of which only some may exist. */
	w->device.buffers = buffers;
	w->control = calloc(ORI_SHARE_PIECES * size, sizeof(*w->control));
	w->buffers = calloc(buffers, sizeof(*w->buffers));
	w->buffer_mrs = calloc(buffers, sizeof(struct ori_rdma_mr *));
	w->peers = calloc(ori_window_entries(w), sizeof(*w->peers));
	w->table = calloc(buffers * (size + 1), sizeof(*w->table));
	if (w->buffers)
		w->buffers[0] = calloc(size, sizeof(*w->buffers[0]));
	if (w->control && w->buffers && w->buffers[0] && w->buffer_mrs && w->peers && w->table) {
		w->own = w->table + buffers * size;
		return ORIEL_OK;
	}
	return ori_fail_nomem(ORI_SHARE_PIECES * size * sizeof(*w->control) +
				      buffers * (sizeof(*w->buffers) + sizeof(*w->buffer_mrs)) +
				      ori_window_entries(w) * sizeof(*w->peers) +
				      size * sizeof(*w->buffers[0]) +
				      buffers * (size + 1) * sizeof(*w->table),
			      "a window of %zu ranks", size);
}

static void window_fill_device(struct oriel_window *w, const struct ori_window_counts *counts,
			       uint32_t number)
{
	struct oriel_dev_window *d = &w->device;

	d->magic = ORIEL_DEV_MAGIC;
	d->version = ORIEL_DEV_VERSION;
	d->size = sizeof(*d);
	d->number = number;
	d->rank = w->comm->rank;
	d->ranks = w->comm->size;
	d->signals = counts->signals;
	d->barriers = counts->barriers;
	d->counters = counts->counters;
	d->channels = counts->channels;
	d->buffers = counts->buffers;
	d->channel_bytes = counts->channels ? counts->channel_bytes : 0;
	d->spin = ori_comm_spin(w->comm);
	d->timeout_ns = w->comm->timeout_ns;
	d->peers = w->peers;
	d->table = w->table;
	d->fault = &w->fault;
	d->health = &w->comm->control->health;
	d->blame = d->health;
}

/*
 * Registers the counters, which this rank's NIC increments, and gets the keys of memory that
 * NICs read.
 */
static enum oriel_status window_register(struct oriel_window *w)
{
	struct oriel_dev_window *d = &w->device;
	size_t length = (size_t)d->ranks * d->counters * 8;

	if (!w->comm->rdma)
		return ORIEL_OK;
	d->rails = w->comm->rails;
	d->whole_lkeys = *ori_links_whole_lkeys(w->comm);
	if (!length)
		return ORIEL_OK;
	return ori_share_register(w->comm, d->counter_words, length, &w->counter_mr,
				  &d->counter_rkeys);
}

/* The control segment and the memory behind it. */
static enum oriel_status window_alloc(struct oriel_window *w, uint64_t length, unsigned flags)
{
	if (w->gpu)
		return ori_mem_alloc_gpu(w->gpu, length, &w->mem);
	return ori_mem_alloc(length, flags & ORIEL_WINDOW_HUGE ? ORIEL_MEMORY_HUGE : 0, &w->mem);
}

/* Local: memory, tables and the record for the other ranks. */
static enum oriel_status window_prepare(struct oriel_window *w,
					const struct oriel_window_attr *caller, uint32_t number,
					struct oriel_window_attr *attr, struct window_join *join,
					struct ori_offering *offering)
{
	struct ori_piece pieces[ORI_SHARE_PIECES] = {{0}};
	enum oriel_status status;
	uint64_t length;

	status = window_read_attr(w, caller, attr, &join->counts);
	if (status != ORIEL_OK)
		return status;
	status = window_open_tables(w, join->counts.buffers);
	if (status != ORIEL_OK)
		return status;
	/* Faults carry this number, so that the text of a timeout names the collective. */
	number |= (attr->flags & ORI_WINDOW_COLLECTIVES) << (ORIEL_DEV_COLLECTIVE_BIT - 8);
	window_fill_device(w, &join->counts, number);
	length = ori_window_layout(&w->device) + (attr->buffer ? 0 : attr->length);
	w->is_rdma = (attr->flags & ORIEL_WINDOW_RDMA) != 0;
	status = join->counts.is_device ? ori_window_gpu_open(w) : ori_window_open_state(w);
	if (status == ORIEL_OK)
		status = ori_window_check_links(w);
	if (status == ORIEL_OK)
		status = ori_window_choose_atomics(w, join->counts.atomics,
						   !(attr->flags & WINDOW_NO_LINKS));
	if (status == ORIEL_OK)
		ori_window_fill_domain(w);
	if (status == ORIEL_OK)
		status = window_register(w);
	if (status == ORIEL_OK)
		status = window_alloc(w, length, attr->flags);
	if (status != ORIEL_OK)
		return status;
	join->length = attr->length;
	join->has_peers = attr->peers != NULL;
	join->is_sparse = attr->peers || attr->flags & ORIEL_WINDOW_SPARSE;
	join->is_rdma = w->is_rdma;
	pieces[0].address = w->mem->address;
	pieces[0].length = length;
	pieces[1].address = attr->buffer;
	pieces[1].length = attr->buffer ? attr->length : 0;
	pieces[0].use = pieces[1].use = w->gpu ? ORI_USE_GPU : ORI_USE_CPU;
	pieces[0].is_unmapped = pieces[1].is_unmapped = w->is_rdma;
	status = ori_share_offer(w->comm, ORI_CALL_WINDOW_CREATE, ORIEL_OK, pieces,
				 ORI_SHARE_PIECES, offering);
	offering->is_late = ori_window_is_late(w, attr->flags);
	return status;
}

/* Do all ranks want the same window? All ranks get the same answer. */
static enum oriel_status window_compare(struct oriel_window *w, const struct window_join *joins)
{
	struct ori_window_counts first = joins[0].counts, other;
	unsigned peer;
	size_t i;

	for (peer = 1; peer < w->comm->size; peer++) {
		if (joins[peer].is_sparse != joins[0].is_sparse)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"a window is sparse on rank %u and not on rank %u",
					joins[0].is_sparse ? 0 : peer,
					joins[0].is_sparse ? peer : 0);
		if (joins[peer].is_rdma != joins[0].is_rdma)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"a window has ORIEL_WINDOW_RDMA on rank %u and not on "
					"rank %u",
					joins[0].is_rdma ? 0 : peer, joins[0].is_rdma ? peer : 0);
		other = joins[peer].counts;
		if (first.is_device != other.is_device)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"a window in %s memory on rank 0 and in %s memory on "
					"rank %u",
					first.is_device ? "GPU" : "host",
					other.is_device ? "GPU" : "host", peer);
		for (i = 0; i < WINDOW_FIELDS; i++) {
			const struct window_field *field = &window_fields[i];

			if (*window_count(&first, field) == *window_count(&other, field))
				continue;
			return ori_fail(ORIEL_ERR_MISMATCH,
					"a window with %s %u on rank 0 and %u on rank %u",
					field->name, *window_count(&first, field),
					*window_count(&other, field), peer);
		}
	}
	return ORIEL_OK;
}

/*
 * Is the offer of @peer as long as its own numbers say? Operations check their offsets against
 * these numbers alone.
 */
static enum oriel_status window_check_join(const struct oriel_window *w, unsigned peer,
					   const struct window_join *join, uint64_t control_length)
{
	uint64_t given = join->offer.blob[1].length;
	uint64_t wanted = control_length + (given ? 0 : join->length);

	if (join->length >> ORIEL_AT_BITS == 0 && join->offer.blob[0].length >= wanted &&
	    (!given || given == join->length))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u: rank %u offers less than its window needs",
			w->comm->rank, peer);
}

/* @joins of all ranks. */
static enum oriel_status window_fill(struct oriel_window *w, const struct ori_offering *offering,
				     const struct window_join *joins)
{
	uint64_t control_length = ori_window_layout(&w->device);
	unsigned peer, size = w->comm->size;
	enum oriel_status status = ORIEL_OK;

	for (peer = 0; peer < size && status == ORIEL_OK; peer++)
		status = window_check_join(w, peer, &joins[peer], control_length);
	if (status == ORIEL_OK)
		status = ori_share_import(w->comm, offering, joins, sizeof(*joins), w->control);
	if (status == ORIEL_OK && offering->is_late)
		status = ori_window_late_open(w, offering, control_length);
	if (status != ORIEL_OK)
		return status;
	memcpy(w->buffers[0], w->control + size, size * sizeof(*w->control));
	w->device.control = w->control[w->comm->rank].address;
	for (peer = 0; peer < size; peer++) {
		ori_window_fill_peer(w, peer, &joins[peer].offer, joins[peer].length);
		if (w->late)
			ori_window_late_set(w, peer, &joins[peer].offer);
	}
	if (offering->mr[1])
		ori_window_fill_own(&w->table[w->comm->rank], offering->mr[1], 0);
	else
		ori_window_fill_own(&w->table[w->comm->rank], offering->mr[0], control_length);
	/* Threads copy the handle while others map peers: those are in the tables alone. */
	if (!w->late)
		ori_window_fill_inline(&w->device, ori_window_paths(w)->domain[0], w->peers,
				       w->table);
	ori_window_gpu_mark(w);
	w->shared = 1;
	return ori_window_gpu_publish(w, 0, w->device.buffers);
}

/* After the agreement: all ranks come here, or none. @names: NULL if no rank names its peers. */
static enum oriel_status window_connect(struct oriel_window *w,
					const struct oriel_window_attr *attr, bool is_sparse,
					const struct ori_window_names *names)
{
	enum oriel_status status = ORIEL_OK;

	if (names)
		status = ori_window_connect_peers(w, attr, names);
	else if (!is_sparse)
		status = ori_links_connect_all(w->comm, ORI_CALL_WINDOW_CREATE);
	if (status == ORIEL_OK && ori_window_has_nic_atomics(w))
		status = ori_links_connect_atomics(w->comm, ORI_CALL_WINDOW_CREATE);
	return status;
}

static enum oriel_status window_join(struct oriel_window *w, const struct oriel_window_attr *caller)
{
	struct oriel_comm *comm = w->comm;
	struct oriel_window_attr attr = {0};
	bool has_peers = false;
	unsigned peer;
	uint32_t number = atomic_fetch_add(&comm->windows, 1) + 1;
	struct ori_offering offering = {0};
	struct ori_window_names names = {0};
	struct window_join mine = {0}, *joins;
	enum oriel_status status;

	/* A rank that fails here sends its failure with the record: the others wait for one. */
	status = window_prepare(w, caller, number, &attr, &mine, &offering);
	mine.offer = offering.offer;
	ori_verdict_fill(&mine.offer.verdict, ORI_CALL_WINDOW_CREATE, status);
	joins = ori_comm_scratch(comm, sizeof(*joins));
	status = ori_verdict_gather(comm, ORI_CALL_WINDOW_CREATE, &mine, joins, sizeof(mine));
	if (status == ORIEL_OK)
		status = window_compare(w, joins);
	/* The agreement takes the place of @joins. */
	for (peer = 0; peer < comm->size; peer++)
		has_peers |= joins[peer].has_peers != 0;
	if (status == ORIEL_OK) {
		status = window_fill(w, &offering, joins);
		if (status == ORIEL_OK && has_peers)
			status = ori_window_names_open(w, &names);
		status = ori_comm_agree(comm, ORI_CALL_WINDOW_CREATE, status);
	}
	if (status == ORIEL_OK) {
		w->control_mr = offering.mr[0];
		w->buffer_mrs[0] = offering.mr[1];
		offering.mr[0] = offering.mr[1] = NULL;
	}
	ori_share_withdraw(&offering);
	if (status == ORIEL_OK)
		status = window_connect(w, &attr, mine.is_sparse, has_peers ? &names : NULL);
	free(names.peers);
	return status;
}

/*
 * There is no memory even for the object: the other ranks still wait for this rank's record. It
 * takes a number, too, so that the next window has the same on all ranks.
 */
static enum oriel_status window_decline(struct oriel_comm *comm)
{
	struct window_join mine = {0};

	atomic_fetch_add(&comm->windows, 1);
	ori_verdict_fill(&mine.offer.verdict, ORI_CALL_WINDOW_CREATE,
			 ori_fail_nomem(sizeof(struct oriel_window), "a window"));
	return ori_verdict_gather(comm, ORI_CALL_WINDOW_CREATE, &mine,
				  ori_comm_scratch(comm, sizeof(mine)), sizeof(mine));
}

/*
 * Signals and arrivals of peers still reach the file of the control segment: without a view of
 * it no wait of the child succeeds by chance. Buffer 0 behind it stays readable, unless pages
 * are too large to separate the two.
 */
static void window_fork_one(void *object)
{
	const int both = PROT_READ | PROT_WRITE;
	const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | MAP_ANONYMOUS;
	struct oriel_window *w = object;

	if (!w->gpu &&
	    mmap(w->mem->address, ori_window_layout(&w->device), both, flags, -1, 0) == MAP_FAILED)
		(void)mmap(w->mem->address, w->mem->length, both, flags, -1, 0);
}

static void window_fork_child(void)
{
	ori_handle_each(ORI_HANDLE_WINDOW, window_fork_one);
}

enum oriel_status oriel_window_create(struct oriel_comm *comm, const struct oriel_window_attr *attr,
				      struct oriel_window **out)
{
	static const struct ori_fork_hook hook = {.child = window_fork_child};
	struct oriel_window *w;
	enum oriel_status status;

	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_create: window is NULL");
	status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	if (status == ORIEL_OK)
		status = ori_comm_check(comm);
	if (status != ORIEL_OK)
		return status;
	w = ori_handle_alloc(ORI_HANDLE_WINDOW, sizeof(*w));
	if (!w)
		return window_decline(comm);
	w->comm = comm;
	status = window_join(w, attr);
	if (status != ORIEL_OK) {
		window_free(w);
		return status;
	}
	ori_fork_add(ORI_FORK_WINDOW, &hook);
	ori_handle_open(w, comm);
	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank,
		     "window %u is created: %s memory%s, %u buffers, %u signals, %u barriers, "
		     "%u counters, %u channels",
		     ORIEL_DEV_WINDOW_NUMBER(w->device.number), w->gpu ? "GPU" : "host",
		     w->is_rdma ? " by rdma" : "", w->device.buffers, w->device.signals,
		     w->device.barriers, w->device.counters, w->device.channels);
	*out = w;
	return ORIEL_OK;
}

void ori_window_quiet(struct oriel_window *w)
{
	if (w->gpu || w->comm->is_destroyed_out_of_order)
		ori_links_drain_kernels(w->comm);
	else
		oriel_dev_flush(&w->device, oriel_dev_thread(), 0);
}

enum oriel_status oriel_window_destroy(struct oriel_window *w)
{
	unsigned call = ORI_CALL_WINDOW_DESTROY;
	struct oriel_comm *comm;
	const char *user;
	uint32_t number;
	bool is_gpu;

	if (!ori_handle_may_end(w, ORI_HANDLE_WINDOW, __func__))
		return ori_handle_refused(w);
	user = ori_handle_child(w);
	if (user)
		return ori_misuse(
			"oriel_window_destroy: window %u is the view of a live %s of rank "
			"%u: destroy that one before",
			ORIEL_DEV_WINDOW_NUMBER(w->device.number), user, w->comm->rank);
	if (!ori_handle_shut(w, ORI_HANDLE_WINDOW, __func__))
		return ori_handle_refused(w);
	comm = w->comm;
	/*
	 * A broken communicator does not wait: memory that peers still map stays theirs.
	 * Operations under way through a NIC would find their key invalid at the peer.
	 */
	number = w->device.number;
	ori_window_quiet(w);
	call += number >> ORIEL_DEV_COLLECTIVE_BIT;
	ori_comm_meet(comm, (enum ori_call)call, number);
	is_gpu = w->gpu != NULL;
	window_free(w);
	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "window %u is destroyed",
		     ORIEL_DEV_WINDOW_NUMBER(number));
	/*
	 * Freeing memory of a GPU may wait for all of its work, also for that of other threads
	 * of this process: no rank begins anything that would wait for a rank that is still in
	 * this call.
	 */
	if (is_gpu)
		ori_comm_meet(comm, (enum ori_call)call, number);
	return ORIEL_OK;
}
