/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for killed_test.py: killed WHERE VICTIM. All ranks join, say "ready",
 * and wait at WHERE for VICTIM, which never comes there but waits to be killed.
 * The others print the status and the text that they get.
 */
#include <oriel/dev.h>
#include <oriel/oriel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	unsigned victim;
};

static enum oriel_status at_wait_signal(struct place *p)
{
	return oriel_window_wait_signal(p->window, 0, ORIEL_NE, 0, 0, NULL);
}

static enum oriel_status at_wait_signal_from(struct place *p)
{
	return oriel_window_wait_signal_from(p->window, p->victim, 0, ORIEL_NE, 0, 0, NULL);
}

static enum oriel_status at_wait_signal_next(struct place *p)
{
	return oriel_window_wait_signal_next(p->window, p->victim, 0, 1, ORIEL_FOREVER, NULL);
}

static enum oriel_status at_barrier(struct place *p)
{
	return oriel_window_barrier(p->window, 0, 0, NULL);
}

static enum oriel_status at_barrier_flat(struct place *p)
{
	return oriel_dev_barrier_flat(&p->dev, oriel_dev_thread(), 0, 0);
}

static enum oriel_status at_barrier_peer(struct place *p)
{
	return oriel_dev_barrier_peer(&p->dev, oriel_dev_thread(), p->victim, 0, 0);
}

static enum oriel_status at_wait_counter(struct place *p)
{
	return oriel_dev_wait_counter(&p->dev, oriel_dev_thread(), p->victim, 0, ORIEL_NE, 0, 0);
}

static enum oriel_status at_send(struct place *p)
{
	static const char more_than_the_staging[100000];

	return oriel_window_send(p->window, p->victim, 0, more_than_the_staging,
				 sizeof(more_than_the_staging), 0, NULL);
}

static enum oriel_status at_recv(struct place *p)
{
	char byte;

	return oriel_window_recv(p->window, p->victim, 0, &byte, 1, 0, NULL);
}

static enum oriel_status at_comm_barrier(struct place *p)
{
	return oriel_comm_barrier(p->comm);
}

static enum oriel_status at_window_create(struct place *p)
{
	struct oriel_window *window = NULL;

	return oriel_window_create(p->comm, NULL, &window);
}

static enum oriel_status at_region_share(struct place *p)
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

/* Nobody waits for anybody: all is well. */
static enum oriel_status at_nothing(struct place *p)
{
	return oriel_window_barrier(p->window, 0, 0, NULL);
}

static const struct {
	const char *name;
	enum oriel_status (*wait)(struct place *p);
} places[] = {
	{"wait_signal", at_wait_signal},
	{"wait_signal_from", at_wait_signal_from},
	{"wait_signal_next", at_wait_signal_next},
	{"barrier", at_barrier},
	{"barrier_flat", at_barrier_flat},
	{"barrier_peer", at_barrier_peer},
	{"wait_counter", at_wait_counter},
	{"send", at_send},
	{"recv", at_recv},
	{"comm_barrier", at_comm_barrier},
	{"window_create", at_window_create},
	{"region_share", at_region_share},
	{"nothing", at_nothing},
};

static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

static void wait_to_be_killed(void)
{
	say("ready");
	for (;;)
		pause();
}

/* The text of a device wait is that of the next host call. */
static int tell(struct oriel_comm *comm, enum oriel_status status)
{
	if (status != ORIEL_OK && comm)
		oriel_comm_barrier(comm);
	printf("%s %s\n", oriel_status_name(status), status == ORIEL_OK ? "" : oriel_last_error());
	fflush(stdout);
	return status == ORIEL_OK ? 0 : 1;
}

static int wait_at(const struct oriel_bootstrap *bootstrap, const char *where, struct place *p)
{
	enum oriel_status status;
	int code = 1;
	size_t i;

	status = oriel_comm_create(bootstrap, NULL, &p->comm);
	if (status != ORIEL_OK)
		return tell(NULL, status);
	status = oriel_window_create(p->comm, NULL, &p->window);
	if (status == ORIEL_OK)
		status = oriel_window_device(p->window, &p->dev);
	if (status == ORIEL_OK && bootstrap->rank == p->victim)
		wait_to_be_killed();
	say("ready");
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (status == ORIEL_OK && strcmp(places[i].name, where) == 0)
			code = tell(p->comm, places[i].wait(p));
	oriel_window_destroy(p->window);
	oriel_comm_destroy(p->comm);
	return code;
}

int main(int argc, char **argv)
{
	struct oriel_bootstrap bootstrap;
	struct place place = {0};
	enum oriel_status status;
	int code;

	if (argc != 3)
		return 2;
	/* No rank for a number that is none: "-". */
	place.victim = argv[2][0] == '-' ? ORIEL_DEV_NO_RANK : (unsigned)atoi(argv[2]);
	status = oriel_bootstrap_open_env(0, &bootstrap);
	if (status != ORIEL_OK)
		return tell(NULL, status);
	if (strcmp(argv[1], "comm_create") == 0 && bootstrap.rank == place.victim)
		wait_to_be_killed();
	if (strcmp(argv[1], "comm_create") == 0)
		say("ready");
	code = wait_at(&bootstrap, argv[1], &place);
	oriel_bootstrap_close(&bootstrap);
	return code;
}
