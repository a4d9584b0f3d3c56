/* SPDX-License-Identifier: Apache-2.0 */
/* One rank from joining to leaving, and the texts of its failures. soak.c calls it. */
#include "soak.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RANK_TIMEOUT_NS 120000000000u /* of a round that needs no timeout */
#define RANK_FATAL_NS                                                         \
	10000000000u /* of a round that a timeout ends; all ranks join within \
		      * it */
#define RANK_DEADLINE_NS 60000000000u

static void wrong_where(const struct soak_world *world, int i, char *text, size_t length)
{
	const struct soak_op *op = &world->ops[i < 0 ? 0 : i];
	int used = snprintf(text, length, "soak: seed %llu, rank %u of %u, epoch %u",
			    (unsigned long long)world->plan->seed, world->rank, world->plan->ranks,
			    world->epoch);

	if (i >= 0 && used > 0 && (size_t)used < length)
		snprintf(text + used, length - (size_t)used,
			 ", operation %d: %s%s of rank %u lane %u to rank %u, window %u buffer %u "
			 "offset %u length %u id %u",
			 i, op->is_host ? "host " : "", soak_kind_name((enum soak_kind)op->kind),
			 op->rank, op->lane, op->peer, op->window, op->buffer, op->offset,
			 op->length, op->id);
}

/* Several lanes may fail at once: each prints its text by one write. */
_Noreturn static void wrong_report(const struct soak_world *world, int i, const char *what)
{
	char where[384];

	wrong_where(world, i, where, sizeof(where));
	fprintf(stderr, "%s: WRONG: %s\n", where, what);
	fflush(NULL);
	_exit(3);
}

void soak_wrong(const struct soak_world *world, int i, const char *format, ...)
{
	char what[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	wrong_report(world, i, what);
}

static void wrong_hex(char *text, const uint8_t *bytes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

void soak_wrong_bytes(const struct soak_world *world, int i, const char *what, size_t from,
		      const void *at, const void *should, size_t count)
{
	char is[33] = "", ought[33] = "";

	count = count < 16 ? count : 16;
	wrong_hex(is, at, count);
	wrong_hex(ought, should, count);
	soak_wrong(world, i, "%s: from byte %zu on %s, should be %s", what, from, is, ought);
}

static enum oriel_status rank_join(struct soak_rank *r)
{
	static const unsigned peers[SOAK_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
	const struct soak_plan *plan = r->world.plan;
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = RANK_TIMEOUT_NS};
	unsigned from, to;
	enum oriel_path path;
	enum oriel_status status;
	char node[16];

	snprintf(node, sizeof(node), "%u", r->world.rank * plan->nodes / plan->ranks);
	if (plan->is_threads && plan->nodes > 1)
		attr.node = node;
	if (plan->fate == SOAK_STOP || plan->fate == SOAK_BLACK_HOLE)
		attr.timeout_ns = RANK_FATAL_NS;
	attr.connect = plan->is_lazy ? ORIEL_CONNECT_LAZY : ORIEL_CONNECT_EAGER;
	status = oriel_comm_create(r->bootstrap, &attr, &r->comm);
	if (status == ORIEL_OK && plan->has_connect)
		status = oriel_comm_connect(r->comm, peers, plan->ranks);
	for (from = 0; from < plan->ranks && status == ORIEL_OK; from++) {
		for (to = 0; to < plan->ranks && status == ORIEL_OK; to++) {
			status = oriel_comm_path_between(r->comm, from, to, &path);
			if (status == ORIEL_OK)
				r->world.is_rdma[from][to] = path == ORIEL_PATH_RDMA;
		}
	}
	return status;
}

static enum oriel_status rank_epoch(struct soak_rank *r)
{
	enum oriel_status status = soak_windows_change(r);

	if (status != ORIEL_OK)
		return status;
	soak_draw(&r->world);
	status = soak_lanes_run(r);
	if (status == ORIEL_OK)
		status = oriel_comm_barrier(r->comm);
	if (status != ORIEL_OK)
		return status;
	soak_check_all(r);
	return oriel_comm_barrier(r->comm);
}

/* A rank that stopped by plan waits until the others notice it. */
static void rank_wait_until_broken(struct soak_rank *r)
{
	uint64_t deadline = oriel_cpu_clock_ns() + RANK_DEADLINE_NS;
	struct oriel_health health = {.size = sizeof(health)};

	while (oriel_comm_health(r->comm, &health) == ORIEL_OK && health.status == ORIEL_OK) {
		if (oriel_cpu_clock_ns() > deadline)
			soak_wrong(&r->world, -1, "no rank has noticed that this rank stopped");
		usleep(1000);
	}
}

/* After a failure every call must fail, and the health must have the cause. */
static void rank_check_broken(struct soak_rank *r, enum oriel_status status)
{
	const struct soak_plan *plan = r->world.plan;
	struct oriel_health health = {.size = sizeof(health)};
	char text[512];

	if (plan->fate == SOAK_SURVIVES)
		soak_wrong(&r->world, atomic_load(&r->failed_op), "%s: %s",
			   oriel_status_name(status), oriel_last_error());
	if (plan->fate == SOAK_STOP && r->world.rank == plan->victim)
		rank_wait_until_broken(r);
	if (oriel_comm_health(r->comm, &health) != ORIEL_OK || health.status >= ORIEL_OK)
		soak_wrong(&r->world, atomic_load(&r->failed_op),
			   "it returned %s (%s), but the communicator is healthy",
			   oriel_status_name(status), oriel_last_error());
	if (oriel_comm_barrier(r->comm) == ORIEL_OK)
		soak_wrong(&r->world, -1, "a barrier succeeds on a broken communicator");
	oriel_health_text(&health, text, sizeof(text));
	printf("soak: rank %u broken, %llu operations, %llu bytes: %s\n", r->world.rank,
	       (unsigned long long)atomic_load(&r->ops_done),
	       (unsigned long long)atomic_load(&r->bytes_checked), text);
}

static void rank_leave(struct soak_rank *r)
{
	uint64_t start = oriel_cpu_clock_ns();

	soak_windows_close(r);
	oriel_comm_destroy(r->comm);
	if (oriel_cpu_clock_ns() - start > RANK_TIMEOUT_NS)
		soak_wrong(&r->world, -1, "leaving took longer than the timeout");
}

static void *rank_calloc(size_t length)
{
	void *memory = calloc(1, length);

	if (!memory)
		abort();
	return memory;
}

void soak_rank_main(const struct soak_plan *plan, struct oriel_bootstrap *bootstrap)
{
	struct soak_rank *r = rank_calloc(sizeof(*r));
	enum oriel_status status;
	unsigned epoch, l;

	for (l = 0; l < plan->lanes; l++)
		r->arena[l] = rank_calloc(SOAK_ARENA);
	r->bootstrap = bootstrap;
	r->world.plan = plan;
	r->world.rank = bootstrap->rank;
	r->world.random.state = soak_word(plan->seed, 1);
	atomic_init(&r->failed_op, -1);
	status = rank_join(r);
	if (status != ORIEL_OK)
		soak_wrong(&r->world, -1, "cannot join: %s: %s", oriel_status_name(status),
			   oriel_last_error());
	for (epoch = 0; epoch < plan->epochs && status == ORIEL_OK; epoch++)
		status = rank_epoch(r);
	if (status != ORIEL_OK)
		rank_check_broken(r, status);
	else
		printf("soak: rank %u ok, %llu operations, %llu bytes\n", r->world.rank,
		       (unsigned long long)atomic_load(&r->ops_done),
		       (unsigned long long)atomic_load(&r->bytes_checked));
	fflush(stdout);
	rank_leave(r);
	for (l = 0; l < plan->lanes; l++)
		free(r->arena[l]);
	free(r);
}
