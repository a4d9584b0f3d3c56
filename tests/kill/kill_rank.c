/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_rank PHASE VICTIM STEPS ROUND: a rank of a job that kill_test.py lets fail. All ranks do
 * what comes before PHASE, then PHASE, and leave. The victim arms kill_shim.c where PHASE begins,
 * or at its ROUND if it is a loop, to fail STEPS calls later. Each rank prints how it ended:
 *
 *     END <status> <phase> <seconds in the call that failed>|<text>|<text of its health>|<its rank>
 *     DONE <seconds until all was destroyed>
 *
 * The text is "device" where a device function failed, which has none.
 */
#include <oriel/dev.h>
#include <oriel/oriel.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 8u
#define LENGTH_MAX (1u << 20)
#define ROUNDS 200u     /* of loops in which each round waits for the peers */
#define ROUNDS_PUT 500u /* of others, which a barrier ends */

struct job {
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm, *part, *grown;
	struct oriel_region *region;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	struct oriel_allgather *gather;
	struct oriel_alltoall *alltoall;
	struct oriel_allreduce *allreduce;
	struct oriel_scatter *scatter;
	struct oriel_p2p *p2p[RANKS_MAX];
	struct oriel_p2p_request sent[RANKS_MAX], received[RANKS_MAX];
	void *shared, *exchanged; /* memory of the region, of exchanges */
	char *bytes;              /* that endpoints send, and behind them what each receives */
	unsigned rank, size;
	bool is_p2p; /* loops move bytes by endpoints */
	bool is_victim;
	bool is_device;  /* the last call was of a device function */
	bool is_growing; /* the part fails, or what it has grown to */
	long steps;
	unsigned round;
	const char *phase; /* that is to fail */
};

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The shim, which the victim alone has, defines them. */
extern void kill_shim_arm(long steps) __attribute__((weak));
extern void kill_shim_end(void) __attribute__((weak));

static void arm(const struct job *j)
{
	if (j->is_victim && kill_shim_arm)
		kill_shim_arm(j->steps);
}

static void disarm(const struct job *j)
{
	if (j->is_victim && kill_shim_end)
		kill_shim_end();
}

static enum oriel_status join(struct job *j)
{
	return oriel_bootstrap_open_env(0, &j->bootstrap);
}

static enum oriel_status comm_create(struct job *j)
{
	const struct oriel_comm_attr shrinking = {.size = sizeof(shrinking),
						  .flags = ORIEL_COMM_SHRINK};
	bool shrinks = strcmp(j->phase, "shrink") == 0;
	enum oriel_status status =
		oriel_comm_create(&j->bootstrap, shrinks ? &shrinking : NULL, &j->comm);

	if (status != ORIEL_OK)
		return status;
	j->rank = oriel_comm_rank(j->comm);
	j->size = oriel_comm_size(j->comm);
	return ORIEL_OK;
}

static enum oriel_status comm_split(struct job *j)
{
	return oriel_comm_split(j->comm, 0, 0, NULL, &j->part);
}

/* Without the victim, if that fails before the others have agreed. */
static enum oriel_status comm_shrink(struct job *j)
{
	struct oriel_comm *survivors;
	enum oriel_status status = oriel_comm_shrink(j->comm, NULL, &survivors);

	if (status != ORIEL_OK)
		return status;
	(void)oriel_comm_destroy(j->comm);
	j->comm = survivors;
	return ORIEL_OK;
}

/* The ranks from @first on are new to a part of those before; their ranks there are the same. */
static enum oriel_status take_in(struct job *j, unsigned first, bool merges)
{
	struct oriel_invitation mine = {{0}}, all[RANKS_MAX];
	enum oriel_status status = oriel_comm_split(j->comm, j->rank >= first, 0, NULL, &j->part);

	if (status != ORIEL_OK)
		return status;
	j->is_growing = true;
	arm(j);
	if (j->rank == 0)
		status = oriel_comm_invite(j->part, &mine);
	if (status != ORIEL_OK)
		oriel_comm_abort(j->comm, "no invitation");
	else
		status = oriel_comm_all_gather(j->comm, &mine, all, sizeof(mine));
	if (status != ORIEL_OK)
		return status;
	if (j->rank < first)
		return oriel_comm_grow(j->part, j->size - first, NULL, &j->grown);
	return merges ? oriel_comm_merge(j->part, &all[0], NULL, &j->grown)
		      : oriel_comm_join(&all[0], NULL, &j->grown);
}

/* The last rank comes alone. */
static enum oriel_status comm_grow(struct job *j)
{
	return take_in(j, j->size - 1, false);
}

/* All but rank 0 come as a group. */
static enum oriel_status comm_merge(struct job *j)
{
	return take_in(j, 1, true);
}

static enum oriel_status region_share(struct job *j)
{
	enum oriel_status status = oriel_memory_alloc(4096, 0, &j->shared);

	if (status == ORIEL_OK)
		status = oriel_region_register(j->comm, j->shared, 4096, &j->region);
	return status == ORIEL_OK ? oriel_region_share(j->region) : status;
}

static enum oriel_status window_create(struct job *j)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 1 << 16,
					       .channels = 16};
	enum oriel_status status = oriel_window_create(j->comm, &attr, &j->window);

	return status == ORIEL_OK ? oriel_window_device(j->window, &j->dev) : status;
}

/* Sends to each peer, and receives from each. */
static enum oriel_status p2p_round(struct job *j, size_t length, bool is_control)
{
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	for (peer = 0; peer < j->size && status == ORIEL_OK; peer++) {
		char *into = j->bytes + (1 + peer) * (size_t)LENGTH_MAX;
		struct oriel_p2p_buffer from = {j->bytes, length, NULL}, to = {into, length, NULL};

		if (peer == j->rank)
			continue;
		status = is_control ? oriel_p2p_recv_control(j->p2p[peer], 3, into, length,
							     &j->received[peer])
				    : oriel_p2p_recv(j->p2p[peer], 0, &to, &j->received[peer]);
		if (status == ORIEL_OK)
			status = is_control
					 ? oriel_p2p_send_control(j->p2p[peer], 3, j->bytes, length,
								  &j->sent[peer])
					 : oriel_p2p_send(j->p2p[peer], 0, &from, &j->sent[peer]);
	}
	for (peer = 0; peer < j->size && status == ORIEL_OK; peer++) {
		if (peer == j->rank)
			continue;
		status = oriel_p2p_wait(j->p2p[peer], &j->sent[peer], 0);
		if (status == ORIEL_OK)
			status = oriel_p2p_wait(j->p2p[peer], &j->received[peer], 0);
	}
	return status;
}

static enum oriel_status p2p_open(struct job *j, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	enum oriel_status status = ORIEL_OK;
	size_t length = (1 + RANKS_MAX) * (size_t)LENGTH_MAX;
	unsigned peer;

	if (!j->bytes)
		status = oriel_memory_alloc(length, 0, (void **)&j->bytes);
	for (peer = 0; peer < j->size && status == ORIEL_OK; peer++)
		if (peer != j->rank)
			status = oriel_comm_p2p(j->comm, peer, &attr, &j->p2p[peer]);
	/* Both ends are joined afterwards. */
	return status == ORIEL_OK ? p2p_round(j, 8, true) : status;
}

/* Loops of endpoints, one for each loop of windows. */
static const struct {
	const char *phase;
	enum oriel_p2p_mode mode;
	size_t length;
	bool is_control;
} transfers[] = {
	{"put", ORIEL_P2P_AUTO, 512, false},
	{"signal", ORIEL_P2P_AUTO, 64, true},
	{"barrier", ORIEL_P2P_ZERO_COPY, LENGTH_MAX, false},
	{"channel", ORIEL_P2P_COPY_BASED, 300000, false},
	{"atomic", ORIEL_P2P_AUTO, 65536, false},
	{"p2p_transfer", ORIEL_P2P_AUTO, 200000, false},
};

static enum oriel_status loop_of_transfers(struct job *j)
{
	enum oriel_status status;
	unsigned i, round;

	for (i = 0; strcmp(transfers[i].phase, j->phase) != 0; i++)
		;
	status = p2p_open(j, transfers[i].mode);
	for (round = 0; round < ROUNDS && status == ORIEL_OK; round++) {
		if (round == j->round)
			arm(j);
		status = p2p_round(j, transfers[i].length, transfers[i].is_control);
	}
	return status;
}

static enum oriel_status p2p_connect(struct job *j)
{
	return p2p_open(j, ORIEL_P2P_AUTO);
}

static enum oriel_status loop(struct job *j, unsigned rounds,
			      enum oriel_status (*act)(struct job *j, unsigned round))
{
	enum oriel_status status = ORIEL_OK;
	unsigned round;

	for (round = 0; round < rounds && status == ORIEL_OK; round++) {
		if (round == j->round)
			arm(j);
		status = act(j, round);
	}
	if (status != ORIEL_OK)
		return status;
	j->is_device = false;
	return oriel_window_barrier(j->window, 1, 0);
}

static unsigned next(const struct job *j, unsigned by)
{
	return (j->rank + by) % j->size;
}

static enum oriel_status act_put(struct job *j, unsigned round)
{
	static const char bytes[8192];
	enum oriel_status status = oriel_window_put(j->window, next(j, 1 + round % (j->size - 1)),
						    0, bytes, sizeof(bytes));

	return status == ORIEL_OK ? oriel_window_flush(j->window, 0) : status;
}

static enum oriel_status loop_of_puts(struct job *j)
{
	return j->is_p2p ? loop_of_transfers(j) : loop(j, ROUNDS_PUT, act_put);
}

static enum oriel_status act_signal(struct job *j, unsigned round)
{
	const struct oriel_dev_window *w = &j->dev;
	struct oriel_dev_group g = oriel_dev_thread();
	static const char bytes[512];
	enum oriel_status status;

	j->is_device = true;
	status = oriel_dev_put_signal(w, g, next(j, 1), 0, bytes, sizeof(bytes), 0, 1, NULL);
	if (status != ORIEL_OK)
		return status;
	j->is_device = false;
	return oriel_window_wait_signal_from(j->window, next(j, j->size - 1), 0, ORIEL_GE,
					     round + 1, 0);
}

static enum oriel_status loop_of_signals(struct job *j)
{
	return j->is_p2p ? loop_of_transfers(j) : loop(j, ROUNDS, act_signal);
}

static enum oriel_status act_barrier(struct job *j, unsigned round)
{
	j->is_device = round % 2;
	return round % 2 ? oriel_dev_barrier_flat(&j->dev, oriel_dev_thread(), 0, 0)
			 : oriel_window_barrier(j->window, 0, 0);
}

static enum oriel_status loop_of_barriers(struct job *j)
{
	return j->is_p2p ? loop_of_transfers(j) : loop(j, ROUNDS, act_barrier);
}

static enum oriel_status act_channel(struct job *j, unsigned round)
{
	static char bytes[1000], received[1000];
	enum oriel_status status;

	(void)round;
	status = oriel_window_send(j->window, next(j, 1), 0, bytes, sizeof(bytes), 0);
	if (status != ORIEL_OK)
		return status;
	return oriel_window_recv(j->window, next(j, j->size - 1), 0, received, sizeof(received), 0);
}

static enum oriel_status loop_of_messages(struct job *j)
{
	return j->is_p2p ? loop_of_transfers(j) : loop(j, ROUNDS, act_channel);
}

static enum oriel_status act_atomic(struct job *j, unsigned round)
{
	uint64_t old;

	return oriel_window_fetch_add(j->window, next(j, 1 + round % (j->size - 1)), 0, 1, &old);
}

static enum oriel_status loop_of_atomics(struct job *j)
{
	return j->is_p2p ? loop_of_transfers(j) : loop(j, ROUNDS_PUT, act_atomic);
}

static enum oriel_status act_meet(struct job *j, unsigned round)
{
	(void)round;
	return oriel_comm_barrier(j->comm);
}

static enum oriel_status loop_of_meetings(struct job *j)
{
	return loop(j, ROUNDS, act_meet);
}

#define GATHERED 500u /* bytes of each rank */

static enum oriel_status collective_create(struct job *j)
{
	struct oriel_dev_buffer table[RANKS_MAX];
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_TABLE,
				  .length = GATHERED * j->size,
				  .peers = table};
	struct oriel_view memory = {.size = sizeof(memory),
				    .kind = ORIEL_VIEW_BUFFER,
				    .length = GATHERED * j->size};
	const struct oriel_reduction sum = {.size = sizeof(sum),
					    .type = ORIEL_TYPE_FP32,
					    .op = ORIEL_OP_SUM};
	enum oriel_status status;
	unsigned rank;

	for (rank = 0; rank < j->size; rank++)
		table[rank] = j->dev.table[rank];
	view.buffer = table[j->rank].base;
	status = oriel_allgather_create(j->comm, &view, NULL, &j->gather);
	if (status == ORIEL_OK)
		status = oriel_memory_alloc(memory.length, 0, &j->exchanged);
	memory.buffer = j->exchanged;
	if (status == ORIEL_OK)
		status = oriel_alltoall_create(j->comm, &memory, NULL, &j->alltoall);
	if (status == ORIEL_OK)
		status = oriel_allreduce_create(j->comm, &memory, &sum, NULL, &j->allreduce);
	if (status == ORIEL_OK)
		status = oriel_scatter_create(j->comm, &memory, NULL, &j->scatter);
	return status;
}

static enum oriel_status act_collective(struct job *j, unsigned round)
{
	static const char message[GATHERED * RANKS_MAX];

	switch (round % 4) {
	case 0:
		return oriel_allgather_run(j->gather, message, GATHERED);
	case 1:
		return oriel_alltoall_run(j->alltoall, message, GATHERED);
	case 2:
		return oriel_allreduce_run(j->allreduce, message, GATHERED / sizeof(float));
	default:
		return oriel_scatter_run(j->scatter, round / 4 % j->size, message, GATHERED);
	}
}

static enum oriel_status loop_of_collectives(struct job *j)
{
	return loop(j, ROUNDS, act_collective);
}

/* Ranks destroy collectives in one order, too: they are not what fails. */
static enum oriel_status collective_destroy(struct job *j)
{
	enum oriel_status all[4], status = ORIEL_OK;
	unsigned i;

	all[0] = oriel_allgather_destroy(j->gather);
	all[1] = oriel_alltoall_destroy(j->alltoall);
	all[2] = oriel_allreduce_destroy(j->allreduce);
	all[3] = oriel_scatter_destroy(j->scatter);
	for (i = 0; i < 4 && status == ORIEL_OK; i++)
		status = all[i];
	j->gather = NULL;
	j->alltoall = NULL;
	j->allreduce = NULL;
	j->scatter = NULL;
	return status;
}

static enum oriel_status window_destroy(struct job *j)
{
	enum oriel_status status = oriel_window_destroy(j->window);

	j->window = NULL;
	return status;
}

static enum oriel_status comm_destroy(struct job *j)
{
	enum oriel_status status;

	status = oriel_region_unregister(j->region);
	j->region = NULL;
	if (status == ORIEL_OK)
		status = oriel_comm_destroy(j->grown);
	j->grown = NULL;
	if (status == ORIEL_OK)
		status = oriel_comm_destroy(j->part);
	j->part = NULL;
	if (status == ORIEL_OK)
		status = oriel_comm_destroy(j->comm);
	j->comm = NULL;
	return status;
}

static enum oriel_status bootstrap_close(struct job *j)
{
	enum oriel_status status = oriel_bootstrap_close(&j->bootstrap);

	memset(&j->bootstrap, 0, sizeof(j->bootstrap));
	return status;
}

enum when { ALWAYS, ALONE };

static const struct phase {
	const char *name;
	enum oriel_status (*run)(struct job *j);
	enum when when; /* ALONE: only where it is to fail */
	bool arms;      /* by itself: a loop */
	bool is_end;    /* no rank waits for the others afterwards */
} phases[] = {
	{"join", join, ALWAYS, false, false},
	{"comm_create", comm_create, ALWAYS, false, false},
	{"comm_split", comm_split, ALONE, false, false},
	{"shrink", comm_shrink, ALONE, false, false},
	{"grow", comm_grow, ALONE, true, false},
	{"merge", comm_merge, ALONE, true, false},
	{"region_share", region_share, ALONE, false, false},
	{"window_create", window_create, ALWAYS, false, false},
	{"put", loop_of_puts, ALONE, true, false},
	{"signal", loop_of_signals, ALONE, true, false},
	{"barrier", loop_of_barriers, ALONE, true, false},
	{"channel", loop_of_messages, ALONE, true, false},
	{"atomic", loop_of_atomics, ALONE, true, false},
	{"comm_barrier", loop_of_meetings, ALONE, true, false},
	{"collective_create", collective_create, ALWAYS, false, false},
	{"collective_run", loop_of_collectives, ALONE, true, false},
	{"p2p_connect", p2p_connect, ALONE, false, false},
	{"p2p_transfer", loop_of_transfers, ALONE, true, false},
	{"collective_destroy", collective_destroy, ALWAYS, false, true},
	{"window_destroy", window_destroy, ALWAYS, false, true},
	{"comm_destroy", comm_destroy, ALWAYS, false, true},
	{"bootstrap_close", bootstrap_close, ALWAYS, false, true},
};

#define PHASES (sizeof(phases) / sizeof(phases[0]))

/* That in which a call may have failed. */
static struct oriel_comm *comm_of(const struct job *j)
{
	if (j->grown)
		return j->grown;
	return j->is_growing ? j->part : j->comm;
}

static void report(const struct job *j, enum oriel_status status, const char *phase, double took)
{
	struct oriel_health health = {.size = sizeof(health), .rank = -1};
	const char *own = status == ORIEL_OK ? "" : oriel_last_error();
	struct oriel_comm *comm = comm_of(j);
	char text[512] = "";

	/* Reading the health leaves the last error as it is. */
	if (j->is_device)
		own = "device";
	if (comm && oriel_comm_health(comm, &health) == ORIEL_OK && health.status != ORIEL_OK)
		oriel_health_text(&health, text, sizeof(text));
	printf("END %s %s %.1f|%s|%s|%d\n", oriel_status_name(status), phase, took, own, text,
	       health.rank);
	fflush(stdout);
}

/* In a broken job the calls say so again: their statuses do not count. */
static void leave(struct job *j)
{
	oriel_allgather_destroy(j->gather);
	oriel_alltoall_destroy(j->alltoall);
	oriel_allreduce_destroy(j->allreduce);
	oriel_scatter_destroy(j->scatter);
	oriel_window_destroy(j->window);
	oriel_region_unregister(j->region);
	oriel_comm_destroy(j->grown);
	oriel_comm_destroy(j->part);
	oriel_comm_destroy(j->comm);
	oriel_bootstrap_close(&j->bootstrap);
	oriel_memory_free(j->exchanged);
	oriel_memory_free(j->shared);
	oriel_memory_free(j->bytes);
}

static enum oriel_status run_phase(struct job *j, const struct phase *p, bool is_target)
{
	enum oriel_status status;

	if (is_target && !p->arms)
		arm(j);
	status = p->run(j);
	if (!is_target)
		return status;
	disarm(j);
	/* A phase that is over for a rank is not over for all. */
	if (status == ORIEL_OK && !p->is_end)
		status = j->comm ? oriel_comm_barrier(comm_of(j)) : comm_create(j);
	return status;
}

static int usage(void)
{
	size_t i;

	for (i = 0; i < PHASES; i++)
		fprintf(stderr, "%s\n", phases[i].name);
	return 2;
}

int main(int argc, char **argv)
{
	struct job j = {.bootstrap = {0}};
	enum oriel_status status = ORIEL_OK;
	double begun = seconds();
	bool is_past = false;
	const char *path;
	size_t i;

	if (argc != 5)
		return usage();
	j.phase = argv[1];
	j.is_victim = strcmp(argv[2], getenv("RANK") ? getenv("RANK") : "0") == 0;
	j.steps = atol(argv[3]);
	j.round = (unsigned)atoi(argv[4]);
	path = getenv("KILL_PATH");
	j.is_p2p = path && strcmp(path, "p2p") == 0;
	for (i = 0; i < PHASES && status == ORIEL_OK; i++) {
		bool is_target = strcmp(phases[i].name, j.phase) == 0;

		/* A rank leaves without the phases in between. */
		if (!is_target && (phases[i].when == ALONE || (is_past && !phases[i].is_end)))
			continue;
		is_past |= is_target;
		begun = seconds();
		status = run_phase(&j, &phases[i], is_target);
	}
	report(&j, status, i ? phases[i - 1].name : "", seconds() - begun);
	begun = seconds();
	leave(&j);
	printf("DONE %.1f\n", seconds() - begun);
	return status != ORIEL_OK;
}
