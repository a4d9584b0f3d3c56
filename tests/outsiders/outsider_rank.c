/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a job of two that outsiders flood: outsider_rank FOLDER. Before each phase rank 1 waits
 * for the file FOLDER/PHASE, while rank 0 is in the phase already and waits for rank 1.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <oriel/oriel.h>
#include <oriel/p2p.h>

#define ROUNDS 200
#define PATIENCE 200000000000u /* ns */

static const char *folder;
static unsigned rank;

static void must(const char *phase, enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	printf("%s: %s %s\n", phase, oriel_status_name(status), oriel_last_error());
	fflush(stdout);
	_Exit(1);
}

static void say(const char *what, const char *phase)
{
	printf("%s %s\n", what, phase);
	fflush(stdout);
}

static void begin(const char *phase)
{
	const struct timespec pause = {0, 5000000};
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, phase);
	say("begins", phase);
	while (rank == 1 && access(path, F_OK) != 0)
		nanosleep(&pause, NULL);
}

static void run(struct oriel_comm *comm, struct oriel_window *window)
{
	unsigned long mine, *inbox;
	void *buffer;

	must("run", oriel_window_buffer(window, 0, &buffer, NULL));
	inbox = buffer;
	begin("run");
	for (mine = 1; mine <= ROUNDS; mine++) {
		must("run",
		     oriel_window_put_signal(window, 1 - rank, 0, &mine, sizeof(mine), 0, 1));
		must("run", oriel_window_wait_signal_next(window, 1 - rank, 0, 1, 0));
		if (*inbox < mine)
			must("run", ORIEL_ERR_PROTOCOL);
		must("run", oriel_comm_barrier(comm));
	}
	say("ends", "run");
}

/* Endpoints of contexts without a communicator, which meet over TCP. */
static void talk(struct oriel_comm *comm)
{
	unsigned char mine[ORIEL_P2P_ADDRESS], all[2][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_request out, in;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *p2p;
	char word[8] = "";

	must("p2p", oriel_p2p_context_create(NULL, &ctx));
	must("p2p", oriel_p2p_create(ctx, NULL, &p2p));
	must("p2p", oriel_p2p_address(p2p, mine));
	must("p2p", oriel_comm_all_gather(comm, mine, all, sizeof(mine)));
	begin("p2p");
	must("p2p", oriel_p2p_connect(p2p, all[1 - rank], sizeof(mine), 0));
	must("p2p", oriel_p2p_send_control(p2p, 1, "well", 5, &out));
	must("p2p", oriel_p2p_recv_control(p2p, 1, word, sizeof(word), &in));
	must("p2p", oriel_p2p_wait(p2p, &in, 0));
	must("p2p", oriel_p2p_wait(p2p, &out, 0));
	say("ends", "p2p");
	must("p2p", oriel_comm_barrier(comm));
	must("p2p", oriel_p2p_destroy(p2p));
	must("p2p", oriel_p2p_context_destroy(ctx));
}

/* Both are left; the listeners of both are open from the beginning of the job. */
static struct oriel_comm *shrink(struct oriel_comm *comm)
{
	struct oriel_comm *survivors;

	begin("shrink");
	must("shrink", oriel_comm_shrink(comm, NULL, &survivors));
	must("shrink", oriel_comm_destroy(comm));
	must("shrink", oriel_comm_barrier(survivors));
	say("ends", "shrink");
	return survivors;
}

static void *be_new(void *invitation)
{
	struct oriel_comm *grown;

	must("grow", oriel_comm_join(invitation, NULL, &grown));
	must("grow", oriel_comm_barrier(grown));
	must("grow", oriel_comm_destroy(grown));
	return NULL;
}

/* The new rank is a thread of rank 1. */
static void grow(struct oriel_comm *comm)
{
	struct oriel_invitation mine = {{0}}, all[2];
	struct oriel_comm *grown;
	pthread_t thread;

	if (rank == 0)
		must("grow", oriel_comm_invite(comm, &mine));
	must("grow", oriel_comm_all_gather(comm, &mine, all, sizeof(mine)));
	begin("grow");
	if (rank == 1 && pthread_create(&thread, NULL, be_new, &all[0]) != 0)
		must("grow", ORIEL_ERR_NOMEM);
	must("grow", oriel_comm_grow(comm, 1, NULL, &grown));
	must("grow", oriel_comm_barrier(grown));
	say("ends", "grow");
	must("grow", oriel_comm_destroy(grown));
	if (rank == 1)
		pthread_join(thread, NULL);
}

static void job(const char *join)
{
	struct oriel_comm_attr may_shrink = {.size = sizeof(may_shrink),
					     .flags = ORIEL_COMM_SHRINK};
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 4096};
	struct oriel_bootstrap b;
	struct oriel_window *window;
	struct oriel_comm *comm;

	begin(join);
	must(join, oriel_bootstrap_open_env(0, &b));
	must(join, b.ops->barrier(b.context, PATIENCE));
	say("ends", join);
	if (strcmp(join, "second") == 0) {
		oriel_bootstrap_close(&b);
		return;
	}
	begin("comm");
	must("comm", oriel_comm_create(&b, &may_shrink, &comm));
	say("ends", "comm");
	begin("window");
	must("window", oriel_window_create(comm, &attr, &window));
	say("ends", "window");
	run(comm, window);
	talk(comm);
	must("window", oriel_window_destroy(window));
	comm = shrink(comm);
	grow(comm);
	must("comm", oriel_comm_destroy(comm));
	oriel_bootstrap_close(&b);
}

int main(int argc, char **argv)
{
	const char *number = getenv("RANK");

	if (argc != 2 || !number)
		return 2;
	folder = argv[1];
	rank = (unsigned)atoi(number);
	job("join");
	job("second");
	say("ends", "all");
	return 0;
}
