/* SPDX-License-Identifier: Apache-2.0 */
/* One rank from joining to leaving, and the texts of its failures. soak.c calls it. */
#include "soak.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANK_TIMEOUT_NS 120000000000u /* of a round that needs no timeout */
#define RANK_FATAL_NS                                                         \
	10000000000u /* of a round that a timeout ends; all ranks join within \
		      * it */
#define RANK_DEADLINE_NS 60000000000u

static void wrong_where(const struct soak_world *world, int i, char *text, size_t length)
{
	const struct soak_op *op = &world->ops[i < 0 ? 0 : i];
	int used = snprintf(text, length, "soak: seed %llu, life %u, rank %u of %u, epoch %u",
			    (unsigned long long)world->plan->seed, world->plan->life, world->rank,
			    world->plan->ranks, world->epoch);

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

static void rank_attr(const struct soak_plan *plan, struct oriel_comm_attr *attr)
{
	*attr = (struct oriel_comm_attr){.size = sizeof(*attr), .timeout_ns = RANK_TIMEOUT_NS};
	if (plan->fate == SOAK_STOP || plan->fate == SOAK_BLACK_HOLE)
		attr->timeout_ns = RANK_FATAL_NS;
	attr->connect = plan->is_lazy ? ORIEL_CONNECT_LAZY : ORIEL_CONNECT_EAGER;
	if (plan->heal != SOAK_ENDS)
		attr->flags = ORIEL_COMM_SHRINK;
}

static enum oriel_status rank_create(struct soak_rank *r, const struct oriel_bootstrap *bootstrap)
{
	const struct soak_plan *plan = &r->plan;
	struct oriel_comm_attr attr;
	char node[16];

	rank_attr(plan, &attr);
	snprintf(node, sizeof(node), "%u", bootstrap->rank * plan->nodes / plan->ranks);
	if (plan->is_threads && plan->nodes > 1)
		attr.node = node;
	return oriel_comm_create(bootstrap, &attr, &r->comm);
}

/* Begins the life of @plan on the communicator that there is now. */
static enum oriel_status rank_begin(struct soak_rank *r)
{
	static const unsigned peers[SOAK_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
	const struct soak_plan *plan = &r->plan;
	enum oriel_status status = ORIEL_OK;
	enum oriel_path path;
	unsigned from, to;

	memset(&r->world, 0, sizeof(r->world));
	r->world.plan = plan;
	r->world.rank = oriel_comm_rank(r->comm);
	r->world.random.state = soak_word(plan->seed, 1 + plan->life);
	atomic_store(&r->ops_done, 0);
	atomic_store(&r->bytes_checked, 0);
	atomic_store(&r->failure, ORIEL_OK);
	atomic_store(&r->failed_op, -1);
	if (oriel_comm_size(r->comm) != plan->ranks)
		soak_wrong(&r->world, -1, "it has %u ranks", oriel_comm_size(r->comm));
	if (oriel_comm_epoch(r->comm) != plan->life)
		soak_wrong(&r->world, -1, "its epoch is %llu",
			   (unsigned long long)oriel_comm_epoch(r->comm));
	if (plan->has_connect)
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
	status = soak_meet(r);
	if (status != ORIEL_OK)
		return status;
	return oriel_comm_barrier(r->comm);
}

static void rank_print(const struct soak_rank *r, const char *end, const char *text)
{
	printf("soak: life %u rank %u %s, %llu operations, %llu bytes%s%s\n", r->plan.life,
	       r->world.rank, end, (unsigned long long)atomic_load(&r->ops_done),
	       (unsigned long long)atomic_load(&r->bytes_checked), *text ? ": " : "", text);
	fflush(stdout);
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
	rank_print(r, "broken", text);
}

static void rank_destroy(struct soak_rank *r, struct oriel_comm *comm)
{
	uint64_t start = oriel_cpu_clock_ns();

	if (oriel_comm_destroy(comm) != ORIEL_OK)
		soak_wrong(&r->world, -1, "it cannot leave: %s", oriel_last_error());
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

static struct soak_rank *rank_new(const struct soak_plan *plan)
{
	struct soak_rank *r = rank_calloc(sizeof(*r));
	unsigned l;

	for (l = 0; l < SOAK_LANES; l++)
		r->arena[l] = rank_calloc(SOAK_ARENA);
	r->plan = *plan;
	r->world.plan = &r->plan;
	return r;
}

static void rank_free(struct soak_rank *r)
{
	unsigned l;

	soak_meeting_free(r->meeting);
	for (l = 0; l < SOAK_LANES; l++)
		free(r->arena[l]);
	free(r);
}

/* One life. It ends with windows and collectives closed, and the communicator as it is. */
static void rank_live(struct soak_rank *r)
{
	enum oriel_status status = rank_begin(r);
	unsigned epoch;

	for (epoch = 0; epoch < r->plan.epochs && status == ORIEL_OK; epoch++)
		status = rank_epoch(r);
	if (status != ORIEL_OK)
		rank_check_broken(r, status);
	else
		rank_print(r, "ok", "");
	soak_meeting_close(r);
	soak_windows_close(r);
}

/* Goes on with the communicator @next, which was made with @status. */
static void rank_go_on(struct soak_rank *r, enum oriel_status status, struct oriel_comm *next,
		       unsigned ranks)
{
	struct soak_plan before = r->plan;

	if (status != ORIEL_OK)
		soak_wrong(&r->world, -1, "no rank goes on: %s: %s", oriel_status_name(status),
			   oriel_last_error());
	rank_destroy(r, r->comm);
	r->comm = next;
	soak_plan_follow(&before, ranks, &r->plan);
	rank_live(r);
}

static void rank_shrink(struct soak_rank *r)
{
	struct oriel_comm *next = NULL;
	enum oriel_status status = oriel_comm_shrink(r->comm, NULL, &next);

	rank_go_on(r, status, next, r->plan.ranks - (r->plan.fate == SOAK_KILL));
}

/* Rank 0 of the second life starts a process of the third one, on some node. */
static pid_t rank_invite(struct soak_rank *r, unsigned newcomer)
{
	struct oriel_invitation invitation;
	char text[ORIEL_INVITATION_TEXT], node[16], seed[32];
	const char *old = getenv("ORIEL_NODE");
	char name[] = "soak", join[] = "--join", *const words[] = {name, join, seed, NULL};
	pid_t pid;

	if (newcomer == 0 && oriel_comm_invite(r->comm, &invitation) != ORIEL_OK)
		soak_wrong(&r->world, -1, "no invitation: %s", oriel_last_error());
	if (newcomer == 0 && oriel_invitation_text(&invitation, text) == ORIEL_OK)
		setenv("ORIEL_INVITATION", text, 1);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)r->plan.seed);
	snprintf(node, sizeof(node), "new%u", newcomer);
	if (r->plan.nodes > 1)
		setenv("ORIEL_NODE", node, 1);
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ))
		soak_wrong(&r->world, -1, "no process");
	if (old)
		setenv("ORIEL_NODE", old, 1);
	return pid;
}

static void rank_grow(struct soak_rank *r)
{
	unsigned newcomers = r->plan.newcomers, i;
	struct oriel_comm *next = NULL;
	enum oriel_status status;

	for (i = 0; r->world.rank == 0 && i < newcomers; i++)
		r->newcomers[i] = rank_invite(r, i);
	unsetenv("ORIEL_INVITATION");
	status = oriel_comm_grow(r->comm, newcomers, NULL, &next);
	rank_go_on(r, status, next, r->plan.ranks + newcomers);
}

/* They have left when rank 0 has. */
static void rank_await_newcomers(struct soak_rank *r)
{
	unsigned i;
	int code;

	for (i = 0; i < SOAK_RANKS; i++)
		if (r->newcomers[i] &&
		    (waitpid(r->newcomers[i], &code, 0) != r->newcomers[i] || code))
			soak_wrong(&r->world, -1, "a new process ended with status %d", code);
}

void soak_rank_main(const struct soak_plan *plan, const struct oriel_bootstrap *bootstrap)
{
	struct soak_rank *r = rank_new(plan);
	enum oriel_status status = rank_create(r, bootstrap);

	if (status != ORIEL_OK)
		soak_wrong(&r->world, -1, "cannot join: %s: %s", oriel_status_name(status),
			   oriel_last_error());
	rank_live(r);
	if (plan->heal != SOAK_ENDS)
		rank_shrink(r);
	if (plan->heal == SOAK_REPLACES)
		rank_grow(r);
	rank_destroy(r, r->comm);
	rank_await_newcomers(r);
	rank_free(r);
}

void soak_rank_join(const struct soak_plan *plan)
{
	struct soak_rank *r = rank_new(plan);
	unsigned left = plan->ranks - (plan->fate == SOAK_KILL);
	struct oriel_comm_attr attr;
	struct soak_plan second;

	rank_attr(plan, &attr);
	if (oriel_comm_create(NULL, &attr, &r->comm) != ORIEL_OK)
		soak_wrong(&r->world, -1, "cannot join: %s", oriel_last_error());
	soak_plan_follow(plan, left, &second);
	soak_plan_follow(&second, left + plan->newcomers, &r->plan);
	rank_live(r);
	rank_destroy(r, r->comm);
	rank_free(r);
}
