/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meetings of all ranks after an epoch: collectives without an object, an all-reduce whose object
 * stays, and transfers by the endpoints of the communicator. The bytes of each rank are a text that
 * all others know, and so are its floats. rank.c calls it.
 */
#include "soak.h"

#include <stdlib.h>

#define MEET_BYTES (64u << 10) /* of one rank to one other, at most */
#define MEET_ALL (SOAK_RANKS * (MEET_BYTES + 64u))
#define MEET_TIMEOUT_NS 120000000000u

enum meet_kind {
	MEET_ALLGATHER,
	MEET_ALLTOALL,
	MEET_BCAST,
	MEET_GATHER,
	MEET_SCATTER,
	MEET_ALLREDUCE,
	MEET_REDUCE_SCATTER,
	MEET_REDUCE,
	MEET_PERSISTENT, /* an all-reduce by the object that the first one of a life creates */
	MEET_TRANSFER,   /* each rank to another one, by endpoints */
	MEET_KINDS,
};

static const char *const kind_names[] = {
	[MEET_ALLGATHER] = "all-gather",
	[MEET_ALLTOALL] = "all-to-all",
	[MEET_BCAST] = "broadcast",
	[MEET_GATHER] = "gather",
	[MEET_SCATTER] = "scatter",
	[MEET_ALLREDUCE] = "all-reduce",
	[MEET_REDUCE] = "reduce",
	[MEET_REDUCE_SCATTER] = "reduce-scatter",
	[MEET_PERSISTENT] = "persistent all-reduce",
	[MEET_TRANSFER] = "send and recv",
};

/* Memory that ranks map, or of malloc(): of each a source and a result. */
struct soak_meeting {
	void *mapped[2];
	void *own[2];
	struct oriel_allreduce *persistent; /* with a view of its own */
	void *view;
	unsigned block; /* of its order */
};

/* One meeting, as all ranks draw it. */
struct meet {
	struct soak_rank *r;
	enum meet_kind kind;
	unsigned rank, size, root;
	size_t bytes;  /* of one rank to one other */
	bool is_float; /* the elements are fp32, else uint64 */
	unsigned op;
	unsigned block; /* of the order of fp32, 0: the default */
	uint64_t key;
	char *send, *recv;
};

static struct soak_meeting *meeting_new(struct soak_rank *r)
{
	struct soak_meeting *meeting = calloc(1, sizeof(*meeting));
	unsigned i;

	if (meeting && oriel_memory_alloc(MEET_ALL, 0, &meeting->view) != ORIEL_OK)
		soak_wrong(&r->world, -1, "no view to meet: %s", oriel_last_error());
	for (i = 0; meeting && i < 2; i++) {
		meeting->own[i] = malloc(MEET_ALL);
		if (!meeting->own[i] ||
		    oriel_memory_alloc(MEET_ALL, 0, &meeting->mapped[i]) != ORIEL_OK)
			soak_wrong(&r->world, -1, "no memory to meet: %s", oriel_last_error());
	}
	return meeting;
}

void soak_meeting_close(struct soak_rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};
	enum oriel_status status;

	if (!r->meeting || !r->meeting->persistent)
		return;
	status = oriel_allreduce_destroy(r->meeting->persistent);
	r->meeting->persistent = NULL;
	/* A broken communicator says so again. */
	if (status != ORIEL_OK && oriel_comm_health(r->comm, &health) == ORIEL_OK &&
	    health.status == ORIEL_OK)
		soak_wrong(&r->world, -1, "an all-reduce is not destroyed: %s", oriel_last_error());
}

void soak_meeting_free(struct soak_meeting *meeting)
{
	unsigned i;

	if (meeting)
		oriel_memory_free(meeting->view);
	for (i = 0; meeting && i < 2; i++) {
		oriel_memory_free(meeting->mapped[i]);
		free(meeting->own[i]);
	}
	free(meeting);
}

static bool meet_is_reduction(const struct meet *m)
{
	return m->kind >= MEET_ALLREDUCE && m->kind <= MEET_PERSISTENT;
}

static size_t meet_element(const struct meet *m)
{
	return m->is_float ? sizeof(float) : sizeof(uint64_t);
}

/* Ranks may have different memory, at any alignment. */
static void meet_draw(struct soak_rank *r, struct meet *m)
{
	static const unsigned ops[] = {ORIEL_OP_SUM, ORIEL_OP_BXOR, ORIEL_OP_MAX};
	static const size_t most[] = {9, 300, 5000, MEET_BYTES + 1};
	struct soak_random *random = &r->world.random;
	unsigned rank;

	*m = (struct meet){.r = r, .rank = r->world.rank, .size = r->plan.ranks};
	m->kind = soak_chance(random, 4) ? MEET_PERSISTENT
					 : (enum meet_kind)soak_below(random, MEET_KINDS);
	m->root = (unsigned)soak_below(random, m->size);
	m->bytes = soak_below(random, most[soak_below(random, 4)]);
	m->op = ops[soak_below(random, 3)];
	m->key = soak_next(random);
	m->is_float =
		m->kind == MEET_PERSISTENT || (meet_is_reduction(m) && soak_chance(random, 2));
	if (m->is_float) {
		m->op = ORIEL_OP_SUM;
		m->block = 1 + (unsigned)soak_below(random, m->size);
	}
	if (meet_is_reduction(m))
		m->bytes -= m->bytes % meet_element(m);
	for (rank = 0; rank < m->size; rank++) {
		bool is_mapped = soak_chance(random, 2);
		size_t skew = 8 * soak_below(random, 8);

		if (rank != m->rank)
			continue;
		m->send = (char *)(is_mapped ? r->meeting->mapped : r->meeting->own)[0] + skew;
		m->recv = (char *)(is_mapped ? r->meeting->mapped : r->meeting->own)[1] + skew;
		if (m->kind != MEET_PERSISTENT)
			continue;
		m->recv = r->meeting->view;
		/* In place, but for those of other memory. */
		if (is_mapped)
			m->send = m->recv;
	}
}

static uint64_t meet_key(const struct meet *m, unsigned rank)
{
	return soak_word(m->key, rank);
}

static void meet_check(const struct meet *m, const char *at, unsigned rank, size_t from)
{
	size_t wrong = soak_first_wrong(at, m->bytes, meet_key(m, rank), from);
	uint8_t should[16];

	atomic_fetch_add(&m->r->bytes_checked, m->bytes);
	if (wrong == m->bytes)
		return;
	soak_fill(should, sizeof(should), meet_key(m, rank), from + wrong);
	soak_wrong_bytes(&m->r->world, -1, kind_names[m->kind], wrong, at + wrong, should,
			 m->bytes - wrong < 16 ? m->bytes - wrong : 16);
}

/* A float of which sums have other bits in another order. */
static float meet_float(const struct meet *m, unsigned rank, size_t index)
{
	uint64_t word = soak_word(meet_key(m, rank), index);

	return (float)(int32_t)word * (float)(1u << (word >> 40) % 20);
}

/* The bits of the sum in the order of docs/reductions.md: of each block, and then of the blocks. */
static uint64_t meet_sum(const struct meet *m, size_t index)
{
	volatile float total = 0, part = 0;
	float value;
	uint32_t bits;
	unsigned rank;

	for (rank = 0; rank < m->size; rank++) {
		value = meet_float(m, rank, index);
		part = rank % m->block ? part + value : value;
		if ((rank + 1) % m->block && rank + 1 < m->size)
			continue;
		total = rank < m->block ? part : total + part;
	}
	value = total;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Folds the words of all ranks at @index. */
static uint64_t meet_fold(const struct meet *m, size_t index)
{
	uint64_t sum = soak_word(meet_key(m, 0), index), word;
	unsigned rank;

	if (m->is_float)
		return meet_sum(m, index);
	for (rank = 1; rank < m->size; rank++) {
		word = soak_word(meet_key(m, rank), index);
		if (m->op == ORIEL_OP_SUM)
			sum += word;
		else if (m->op == ORIEL_OP_BXOR)
			sum ^= word;
		else if (word > sum)
			sum = word;
	}
	return sum;
}

static void meet_check_fold(const struct meet *m, size_t first)
{
	size_t i, size = meet_element(m), count = m->bytes / size;
	uint64_t is = 0, should;

	atomic_fetch_add(&m->r->bytes_checked, m->bytes);
	for (i = 0; i < count; i++) {
		memcpy(&is, m->recv + i * size, size);
		should = meet_fold(m, first + i);
		if (is != should)
			soak_wrong_bytes(&m->r->world, -1, kind_names[m->kind], i * size, &is,
					 &should, size);
	}
}

static void meet_check_all(const struct meet *m)
{
	size_t mine = m->rank * m->bytes;
	unsigned from;

	switch (m->kind) {
	case MEET_ALLGATHER:
	case MEET_GATHER:
		for (from = 0; from < m->size; from++)
			if (m->kind == MEET_ALLGATHER || m->rank == m->root)
				meet_check(m, m->recv + from * m->bytes, from, 0);
		break;
	case MEET_ALLTOALL:
		for (from = 0; from < m->size; from++)
			meet_check(m, m->recv + from * m->bytes, from, mine);
		break;
	case MEET_BCAST:
		meet_check(m, m->recv, m->root, 0);
		break;
	case MEET_SCATTER:
		meet_check(m, m->recv, m->root, mine);
		break;
	case MEET_REDUCE:
		if (m->rank != m->root)
			break;
		/* fallthrough */
	case MEET_ALLREDUCE:
	case MEET_PERSISTENT:
		meet_check_fold(m, 0);
		break;
	case MEET_REDUCE_SCATTER:
		meet_check_fold(m, mine / meet_element(m));
		break;
	default:
		/* The root is how far away the receiver is. */
		meet_check(m, m->recv, (m->rank + m->size - m->root) % m->size, 0);
	}
}

static enum oriel_status meet_transfer(const struct meet *m)
{
	struct oriel_p2p *to = NULL, *from = NULL;
	struct oriel_p2p_buffer source = {m->send, m->bytes, NULL},
				sink = {m->recv, m->bytes, NULL};
	struct oriel_p2p_request send, recv;
	struct oriel_comm *comm = m->r->comm;
	uint64_t begun = oriel_cpu_clock_ns();
	enum oriel_status status;

	status = oriel_comm_p2p(comm, (m->rank + m->root) % m->size, NULL, &to);
	if (status == ORIEL_OK)
		status = oriel_comm_p2p(comm, (m->rank + m->size - m->root) % m->size, NULL, &from);
	if (status == ORIEL_OK)
		status = oriel_p2p_recv(from, 0, &sink, &recv);
	if (status != ORIEL_OK)
		return status;
	status = oriel_p2p_send(to, 0, &source, &send);
	/* Each of them waits for a rank that waits, too. */
	while (status == ORIEL_OK || status == ORIEL_AGAIN) {
		status = oriel_p2p_test(to, &send);
		if (status != ORIEL_OK && status != ORIEL_AGAIN)
			break;
		if (oriel_p2p_test(from, &recv) != ORIEL_OK)
			status = recv.status;
		if (status == ORIEL_OK)
			break;
		if (oriel_cpu_clock_ns() - begun > MEET_TIMEOUT_NS)
			soak_wrong(&m->r->world, -1, "a transfer hangs");
		oriel_cpu_back_off(oriel_cpu_clock_ns() - begun);
	}
	return status;
}

/* The order of the object has blocks of its default. */
static enum oriel_status meet_run_persistent(struct meet *m)
{
	const struct oriel_reduction sum = {.size = sizeof(sum),
					    .type = ORIEL_TYPE_FP32,
					    .op = ORIEL_OP_SUM};
	const struct oriel_view view = {.size = sizeof(view),
					.kind = ORIEL_VIEW_BUFFER,
					.buffer = m->r->meeting->view,
					.length = MEET_BYTES};
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct soak_meeting *meeting = m->r->meeting;
	enum oriel_status status = ORIEL_OK;

	if (!meeting->persistent) {
		status =
			oriel_allreduce_create(m->r->comm, &view, &sum, NULL, &meeting->persistent);
		if (status == ORIEL_OK)
			status = oriel_allreduce_query(meeting->persistent, 1, &info);
		meeting->block = info.block;
	}
	m->block = meeting->block;
	if (status != ORIEL_OK)
		return status;
	return oriel_allreduce_run(meeting->persistent, m->send, m->bytes / sizeof(float));
}

static enum oriel_status meet_run(struct meet *m)
{
	struct oriel_comm *comm = m->r->comm;
	size_t count = m->bytes / meet_element(m);
	const struct oriel_reduction fold = {.size = sizeof(fold),
					     .type = m->is_float ? ORIEL_TYPE_FP32
								 : ORIEL_TYPE_UINT64,
					     .op = m->op,
					     .block = m->block};

	switch (m->kind) {
	case MEET_ALLGATHER:
		return oriel_allgather_once(comm, m->send, m->recv, m->bytes);
	case MEET_ALLTOALL:
		return oriel_alltoall_once(comm, m->send, m->recv, m->bytes);
	case MEET_BCAST:
		return oriel_bcast_once(comm, m->root, m->send, m->recv, m->bytes);
	case MEET_GATHER:
		return oriel_gather_once(comm, m->root, m->send, m->recv, m->bytes);
	case MEET_SCATTER:
		return oriel_scatter_once(comm, m->root, m->send, m->recv, m->bytes);
	case MEET_ALLREDUCE:
		return oriel_allreduce_once(comm, m->send, m->recv, count, &fold);
	case MEET_REDUCE_SCATTER:
		return oriel_reduce_scatter_once(comm, m->send, m->recv, count, &fold);
	case MEET_REDUCE:
		return oriel_reduce_once(comm, m->root, m->send, m->recv, count, &fold);
	case MEET_PERSISTENT:
		return meet_run_persistent(m);
	default:
		return meet_transfer(m);
	}
}

/* Writes the elements that this rank sends to all ranks. */
static void meet_fill(const struct meet *m)
{
	size_t i, length = m->size * m->bytes;
	float value;

	memset(m->recv, 0xcc, length);
	if (!m->is_float)
		soak_fill(m->send, length, meet_key(m, m->rank), 0);
	for (i = 0; m->is_float && i < length / sizeof(value); i++) {
		value = meet_float(m, m->rank, i);
		memcpy(m->send + i * sizeof(value), &value, sizeof(value));
	}
}

enum oriel_status soak_meet(struct soak_rank *r)
{
	unsigned times = (unsigned)soak_below(&r->world.random, 5);
	enum oriel_status status = ORIEL_OK;
	struct meet m;

	if (!r->meeting)
		r->meeting = meeting_new(r);
	for (; times && status == ORIEL_OK; times--) {
		meet_draw(r, &m);
		/* A queue of an endpoint that fails breaks the endpoint, and not the communicator.
		 */
		if (m.kind == MEET_TRANSFER && r->plan.fate >= SOAK_FAIL_WQE)
			continue;
		meet_fill(&m);
		status = meet_run(&m);
		if (status == ORIEL_OK)
			meet_check_all(&m);
		atomic_fetch_add(&r->ops_done, 1);
	}
	return status;
}
