/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for killed_test.py: killed WHERE VICTIM. All ranks join, print "ready", and wait at
 * WHERE for VICTIM, which never arrives there but waits for a signal: to be killed, to abort
 * (USR1), to wait until the default timeout (USR2), or to put with a wrong key (HUP). All but a
 * killed one print the status and the text that they get.
 */
#include "killed.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

static enum oriel_status at_wait_signal(struct rank_state *p)
{
	return oriel_window_wait_signal(p->window, 0, ORIEL_NE, 0, 0);
}

static enum oriel_status at_wait_signal_from(struct rank_state *p)
{
	return oriel_window_wait_signal_from(p->window, p->victim, 0, ORIEL_NE, 0, 0);
}

static enum oriel_status at_wait_signal_next(struct rank_state *p)
{
	return oriel_window_wait_signal_next(p->window, p->victim, 0, 1, ORIEL_TIMEOUT_INFINITE);
}

static enum oriel_status at_barrier(struct rank_state *p)
{
	return oriel_window_barrier(p->window, 0, 0);
}

static enum oriel_status at_barrier_that_says(struct rank_state *p)
{
	enum oriel_status status = at_barrier(p);

	say(oriel_last_error());
	return status;
}

/* The put fails by itself, too, while the barrier waits. */
static enum oriel_status at_put_barrier(struct rank_state *p)
{
	static const char bytes[64];
	enum oriel_status posted = oriel_dev_put(&p->dev, oriel_dev_thread(), p->victim, 0, bytes,
						 sizeof(bytes), NULL);

	return posted == ORIEL_OK ? at_barrier(p) : posted;
}

static enum oriel_status at_barrier_flat(struct rank_state *p)
{
	return oriel_dev_barrier_flat(&p->dev, oriel_dev_thread(), 0, 0);
}

static enum oriel_status at_barrier_peer(struct rank_state *p)
{
	return oriel_dev_barrier_peer(&p->dev, oriel_dev_thread(), p->victim, 0, 0);
}

static enum oriel_status at_wait_counter(struct rank_state *p)
{
	return oriel_dev_wait_counter(&p->dev, oriel_dev_thread(), p->victim, 0, ORIEL_NE, 0, 0);
}

static enum oriel_status at_send(struct rank_state *p)
{
	static const char more_than_the_staging[100000];

	return oriel_window_send(p->window, p->victim, 0, more_than_the_staging,
				 sizeof(more_than_the_staging), 0);
}

static enum oriel_status at_recv(struct rank_state *p)
{
	char byte;

	return oriel_window_recv(p->window, p->victim, 0, &byte, 1, 0);
}

/* The victim has sent fewer bytes than its peers receive. */
static enum oriel_status prepare_recv_more(struct rank_state *p)
{
	enum oriel_status status = ORIEL_OK;
	static const char part[100];
	unsigned peer;

	for (peer = 0; peer < p->dev.ranks && status == ORIEL_OK; peer++)
		if (p->dev.rank == p->victim && peer != p->victim)
			status = oriel_window_send(p->window, peer, 0, part, sizeof(part), 0);
	return status;
}

static enum oriel_status at_recv_more(struct rank_state *p)
{
	char whole[200];
	enum oriel_status status =
		oriel_window_recv(p->window, p->victim, 0, whole, sizeof(whole), 0);

	/* The text of the call itself; that of the next call is printed behind it. */
	printf("%s\n", oriel_last_error());
	return status;
}

static enum oriel_status at_comm_barrier(struct rank_state *p)
{
	return oriel_comm_barrier(p->comm);
}

/* The other ranks, which run, wait for the victim as well. */
static enum oriel_status at_comm_barrier_alone(struct rank_state *p)
{
	enum oriel_status status;

	if (p->dev.rank != 0)
		return at_wait_signal_from(p);
	status = at_comm_barrier(p);
	say(oriel_last_error());
	return status;
}

static enum oriel_status at_comm_split(struct rank_state *p)
{
	struct oriel_comm *part;

	return oriel_comm_split(p->comm, 0, 0, NULL, &part);
}

static enum oriel_status at_window_create(struct rank_state *p)
{
	struct oriel_window *window = NULL;

	return oriel_window_create(p->comm, NULL, &window);
}

static enum oriel_status at_region_share(struct rank_state *p)
{
	struct oriel_region *region = NULL;
	enum oriel_status status;
	void *memory = NULL;

	status = oriel_memory_alloc(4096, 0, &memory);
	if (status == ORIEL_OK)
		status = oriel_region_register(p->comm, memory, 4096, &region);
	if (status == ORIEL_OK)
		status = oriel_region_share(region);
	oriel_region_unregister(region);
	oriel_memory_free(memory);
	return status;
}

/* An operation that does not wait for the victim is repeated until it fails. */
static enum oriel_status at_fetch_add(struct rank_state *p)
{
	enum oriel_status status;
	uint64_t old;

	do
		status = oriel_window_fetch_add(p->window, p->victim, 0, 1, &old);
	while (status == ORIEL_OK);
	return status;
}

static enum oriel_status at_get(struct rank_state *p)
{
	enum oriel_status status;
	uint64_t word;

	do
		status = oriel_window_get(p->window, p->victim, 0, &word, sizeof(word));
	while (status == ORIEL_OK);
	return status;
}

static enum oriel_status flush_within(struct rank_state *p, uint64_t limit_ns)
{
	struct oriel_dev_group g = oriel_dev_thread();
	enum oriel_status status;
	uint64_t word = 1;

	do {
		status = oriel_dev_put(&p->dev, g, p->victim, 0, &word, sizeof(word), NULL);
		if (status == ORIEL_OK)
			status = oriel_window_flush(p->window, limit_ns);
	} while (status == ORIEL_OK);
	return status;
}

static enum oriel_status at_flush(struct rank_state *p)
{
	return flush_within(p, 0);
}

/* The caller's own limit passes first. */
static enum oriel_status at_flush_twice(struct rank_state *p)
{
	flush_within(p, 500000000);
	say(oriel_last_error());
	return flush_within(p, 0);
}

/* Put to the first peer that is reached by rdma, with a key that it never exported. */
static enum oriel_status put_with_a_wrong_key(struct rank_state *p)
{
	struct oriel_dev_window w = p->dev;
	struct oriel_dev_buffer *table = calloc(w.ranks, sizeof(*table));
	enum oriel_status status = ORIEL_ERR_NO_PATH;
	uint64_t word = 1;
	struct oriel_dev_ticket ticket;
	unsigned peer, rail;

	memcpy(table, w.table, w.ranks * sizeof(*table));
	w.table = table;
	for (peer = 0; peer < w.ranks; peer++)
		if (w.peers[peer].path == ORIEL_PATH_RDMA)
			break;
	if (peer < w.ranks) {
		for (rail = 0; rail < w.rails; rail++)
			table[peer].rkeys.rail[rail] += 0x5500;
		status = oriel_dev_put(&w, oriel_dev_thread(), peer, 0, &word, sizeof(word),
				       &ticket);
		if (status == ORIEL_OK)
			status = oriel_dev_wait_local(&w, oriel_dev_thread(), ticket, 0);
	}
	free(table);
	return status;
}

#define REJECTED 1 /* signal */

/* The NIC of the victim rejects a request, and the victim may exit: see be_rejecting(). */
static enum oriel_status at_rejected(struct rank_state *p)
{
	enum oriel_status status = oriel_dev_signal(&p->dev, oriel_dev_thread(), p->victim,
						    REJECTED, ORIEL_SIGNAL_ADD, 1, NULL);

	return status == ORIEL_OK ? put_with_a_wrong_key(p) : status;
}

/* A rank that does not wait gets the status from its next call. */
static enum oriel_status at_idle(struct rank_state *p)
{
	struct oriel_health health = {.size = sizeof(health)};

	do {
		oriel_comm_health(p->comm, &health);
		usleep(1000);
	} while (health.status == ORIEL_OK);
	return health.status;
}

/* Create and destroy many times without a failure: the log must stay empty. */
static enum oriel_status create_again(struct rank_state *p)
{
	enum oriel_status status = ORIEL_OK;
	struct oriel_window *window;
	struct oriel_comm *comm;
	int i;

	for (i = 0; i < 200 && status == ORIEL_OK; i++) {
		status = oriel_comm_create(p->bootstrap, NULL, &comm);
		if (status != ORIEL_OK)
			break;
		window = NULL;
		if (i % 4 == 0)
			status = oriel_window_create(comm, NULL, &window);
		if (window)
			status = oriel_window_barrier(window, 0, 0);
		oriel_window_destroy(window);
		oriel_comm_destroy(comm);
	}
	return status;
}

/* No rank waits for another one, and none fails. */
static enum oriel_status at_nothing(struct rank_state *p)
{
	return oriel_window_barrier(p->window, 0, 0);
}

static const struct killed_wait waits[] = {
	{"wait_signal", at_wait_signal, NULL, false},
	{"wait_signal_from", at_wait_signal_from, NULL, false},
	{"wait_signal_next", at_wait_signal_next, NULL, false},
	{"barrier", at_barrier, NULL, false},
	{"barrier_that_says", at_barrier_that_says, NULL, false},
	{"put_barrier", at_put_barrier, NULL, false},
	{"barrier_flat", at_barrier_flat, NULL, false},
	{"barrier_peer", at_barrier_peer, NULL, false},
	{"wait_counter", at_wait_counter, NULL, false},
	{"send", at_send, NULL, false},
	{"recv", at_recv, NULL, false},
	{"recv_more", at_recv_more, prepare_recv_more, false},
	{"comm_barrier", at_comm_barrier, NULL, false},
	{"comm_barrier_alone", at_comm_barrier_alone, NULL, false},
	{"comm_split", at_comm_split, NULL, false},
	{"window_create", at_window_create, NULL, false},
	{"region_share", at_region_share, NULL, false},
	{"fetch_add", at_fetch_add, NULL, false},
	{"get", at_get, NULL, false},
	{"flush", at_flush, NULL, false},
	{"flush_twice", at_flush_twice, NULL, false},
	{"rejected", at_rejected, NULL, false},
	{"rejected_by_the_dead", at_rejected, NULL, false},
	{"idle", at_idle, NULL, false},
	{"nothing", at_nothing, NULL, false},
	{NULL, NULL, NULL, false},
};

/* The signals that the victim waits for; blocked before there are other threads. */
static sigset_t victim_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGHUP);
	return set;
}

static int wait_to_be_killed(void)
{
	sigset_t set = victim_signals();
	int signal = 0;

	say("ready");
	sigwait(&set, &signal);
	return signal;
}

/* The test has stopped the victim before others wait for it. */
static void await_go(void)
{
	sigset_t set;
	int signal;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &signal);
}

/* No rank sends that signal. */
static enum oriel_status wait_until_timeout(struct rank_state *p)
{
	struct oriel_dev_window w = p->dev;

	w.timeout_ns = 1000000;
	return oriel_dev_wait_signal(&w, oriel_dev_thread(), 1, ORIEL_NE, 0, 0);
}

/* The peer's request is rejected by now: the victim lives on, or is killed before its next beats.
 */
static enum oriel_status be_rejecting(struct rank_state *p, bool is_dying)
{
	enum oriel_status status = oriel_window_wait_signal(p->window, REJECTED, ORIEL_GE, 1, 0);

	usleep(20000);
	if (status == ORIEL_OK && is_dying)
		raise(SIGKILL);
	return status == ORIEL_OK ? at_idle(p) : status;
}

static enum oriel_status act_as_victim(struct rank_state *p, const char *where)
{
	if (strncmp(where, "rejected", 8) == 0) {
		say("ready");
		return be_rejecting(p, strcmp(where, "rejected_by_the_dead") == 0);
	}
	switch (wait_to_be_killed()) {
	case SIGUSR1:
		oriel_comm_abort(p->comm, "the test aborts");
		return oriel_comm_barrier(p->comm);
	case SIGUSR2:
		return wait_until_timeout(p);
	case SIGHUP:
		return put_with_a_wrong_key(p);
	}
	return ORIEL_ERR_INVALID;
}

/* The text of a failed device wait is the text of the next host call. */
static int print_status(struct oriel_comm *comm, enum oriel_status status)
{
	if (status != ORIEL_OK && comm)
		oriel_comm_barrier(comm);
	printf("%s %s\n", oriel_status_name(status), status == ORIEL_OK ? "" : oriel_last_error());
	fflush(stdout);
	return status == ORIEL_OK ? 0 : 1;
}

static void *act_as_its_peers(void *argument)
{
	struct rank_state *p = argument;

	p->wait(p);
	return NULL;
}

static const struct killed_wait *wait_of(const struct killed_wait *wait, const char *where)
{
	while (wait->name && strcmp(wait->name, where) != 0)
		wait++;
	return wait->name ? wait : NULL;
}

/* All ranks prepare for the wait at @where; the victim may begin with it. */
static enum oriel_status prepare(struct rank_state *p, const char *where)
{
	const struct killed_wait *wait = wait_of(waits, where);
	enum oriel_status status = ORIEL_OK;
	pthread_t thread;

	if (!wait)
		wait = wait_of(killed_collectives, where);
	if (!wait)
		return ORIEL_ERR_INVALID;
	p->wait = wait->wait;
	if (wait->prepare)
		status = wait->prepare(p);
	if (status == ORIEL_OK && wait->is_running && p->dev.rank == p->victim &&
	    pthread_create(&thread, NULL, act_as_its_peers, p))
		return ORIEL_ERR_SYSTEM;
	return status;
}

static int wait_at(const struct oriel_bootstrap *bootstrap, const char *where, struct rank_state *p)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 4096,
					       .channels = 16};
	enum oriel_status status;
	int code;

	p->bootstrap = bootstrap;
	if (strcmp(where, "again") == 0)
		return print_status(NULL, create_again(p));
	status = oriel_comm_create(bootstrap, NULL, &p->comm);
	if (status != ORIEL_OK)
		return print_status(NULL, status);
	status = oriel_window_create(p->comm, &attr, &p->window);
	if (status == ORIEL_OK)
		status = oriel_window_device(p->window, &p->dev);
	if (status == ORIEL_OK)
		status = prepare(p, where);
	if (status != ORIEL_OK) {
		code = print_status(NULL, status);
	} else if (bootstrap->rank == p->victim) {
		code = print_status(p->comm, act_as_victim(p, where));
	} else {
		say("ready");
		if (getenv("KILLED_GO"))
			await_go();
		code = print_status(p->comm, p->wait(p));
	}
	killed_collectives_destroy(p);
	oriel_window_destroy(p->window);
	oriel_comm_destroy(p->comm);
	return code;
}

int main(int argc, char **argv)
{
	struct oriel_bootstrap bootstrap;
	struct rank_state state = {0};
	enum oriel_status status;
	sigset_t set = victim_signals();
	int code;

	if (argc != 3)
		return 2;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* "-" is no rank. */
	state.victim = argv[2][0] == '-' ? ORIEL_DEV_NO_RANK : (unsigned)atoi(argv[2]);
	status = oriel_bootstrap_open_env(0, &bootstrap);
	if (status != ORIEL_OK)
		return print_status(NULL, status);
	if (strcmp(argv[1], "comm_create") == 0 && bootstrap.rank == state.victim)
		wait_to_be_killed();
	if (strcmp(argv[1], "comm_create") == 0)
		say("ready");
	code = wait_at(&bootstrap, argv[1], &state);
	oriel_bootstrap_close(&bootstrap);
	return code;
}
