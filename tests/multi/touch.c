/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touch late|eager|exit|stop: windows in host memory of a job of one node. "late": more than 32
 * ranks map a peer at the first operation on it, all with the handle and with a barrier; "eager":
 * fewer map all as they create the window; "exit", "stop": the touch of a rank that has exited, or
 * is stopped, ends with a status that names it.
 */
#include <oriel/dev.h>
#include <oriel/oriel.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 8192u
#define THREADS 4u

#define MUST(claim)                                                                             \
	((claim) ? (void)0                                                                      \
		 : (fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, oriel_last_error()), \
		    exit(1)))

static struct oriel_comm *comm;
static unsigned rank, size;

static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned count = 0;
	char line[512];

	MUST(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "/memfd:") != NULL;
	fclose(maps);
	return count;
}

static struct oriel_window *create(void *buffer)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = BYTES,
					       .buffer = buffer,
					       .channels = 1};
	struct oriel_window *w;

	MUST(oriel_window_create(comm, &attr, &w) == ORIEL_OK);
	return w;
}

/* Word @at of this rank's memory. */
static uint64_t word(struct oriel_window *w, size_t at)
{
	void *own;

	MUST(oriel_window_buffer(w, 0, &own, NULL) == ORIEL_OK);
	return __atomic_load_n((uint64_t *)own + at, __ATOMIC_ACQUIRE);
}

/* Each rank puts to @distance behind it, and checks what has come. */
static void put_round(struct oriel_window *w, unsigned distance)
{
	const uint64_t value = 1000u * distance + rank;
	unsigned to = (rank + distance) % size, from = (rank + size - distance) % size;

	MUST(oriel_window_put_signal(w, to, oriel_at(0, 8 * from % BYTES), &value, sizeof(value), 0,
				     1) == ORIEL_OK);
	MUST(oriel_window_wait_signal(w, 0, ORIEL_GE, 1, 0) == ORIEL_OK);
	MUST(oriel_window_reset_signals(w) == ORIEL_OK);
	MUST(oriel_comm_barrier(comm) == ORIEL_OK);
}

struct toucher {
	struct oriel_window *w;
	unsigned index;
	pthread_t thread;
};

static void *touch_last(void *argument)
{
	const struct toucher *t = argument;
	const uint64_t one = 1;

	MUST(oriel_window_put(t->w, (rank + size - 1) % size, oriel_at(0, 4608 + 8 * t->index),
			      &one, sizeof(one)) == ORIEL_OK);
	return NULL;
}

/* Threads that touch a peer at once map it once. */
static void threads_touch(struct oriel_window *w, unsigned each)
{
	unsigned before = mappings(), i;
	struct toucher touchers[THREADS];

	for (i = 0; i < THREADS; i++) {
		touchers[i] = (struct toucher){.w = w, .index = i};
		MUST(pthread_create(&touchers[i].thread, NULL, touch_last, &touchers[i]) == 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(touchers[i].thread, NULL);
	MUST(mappings() == before + each);
}

/* @each: mappings of a peer that is touched; @whole: of all that is not this rank's own. */
static void count_touches(struct oriel_window *w, unsigned before, unsigned each, unsigned whole)
{
	struct oriel_dev_window device;
	uint64_t old;
	void *address;

	MUST(mappings() == before);
	put_round(w, 1);
	MUST(mappings() == before + each);
	put_round(w, 1);
	MUST(mappings() == before + each);
	MUST(oriel_window_fetch_add(w, (rank + 2) % size, oriel_at(0, 4096), 5, &old) == ORIEL_OK);
	MUST(oriel_window_fetch(w, (rank + 3) % size, oriel_at(0, 4096), &old) == ORIEL_OK);
	MUST(oriel_window_peer_address(w, (rank + 4) % size, oriel_at(0, 0), &address) == ORIEL_OK);
	MUST(mappings() == before + 4 * each);
	threads_touch(w, each);
	MUST(oriel_window_put(w, size, oriel_at(0, 0), &old, 8) == ORIEL_ERR_RANGE);
	MUST(mappings() == before + 5 * each);
	MUST(oriel_comm_barrier(comm) == ORIEL_OK);
	MUST(word(w, 512) == 5);
	MUST(oriel_window_device(w, &device) == ORIEL_OK);
	MUST(mappings() == before + whole);
	MUST(oriel_dev_put_value(&device, (rank + 6) % size, oriel_at(0, 4224), rank, NULL) ==
	     ORIEL_OK);
	MUST(oriel_comm_barrier(comm) == ORIEL_OK);
	MUST(word(w, 528) == (rank + size - 6) % size);
	MUST(oriel_window_destroy(w) == ORIEL_OK);
}

static void late(void)
{
	unsigned before = mappings(), i;
	struct oriel_window *w[2];
	void *buffer;

	/* The window's own memory is a mapping; so is a buffer of the program. */
	count_touches(create(NULL), before + 1, 1, size - 1);
	MUST(mappings() == before);
	MUST(oriel_memory_alloc(BYTES, 0, &buffer) == ORIEL_OK);
	memset(buffer, 0, BYTES);
	count_touches(create(buffer), before + 2, 2, 2 * (size - 1));
	MUST(oriel_memory_free(buffer) == ORIEL_OK);
	MUST(mappings() == before);
	/* Two windows at once, and what touches all ranks. */
	for (i = 0; i < 2; i++)
		w[i] = create(NULL);
	MUST(oriel_window_barrier(w[1], 0, 0) == ORIEL_OK);
	MUST(mappings() == before + 2 + size - 1);
	MUST(oriel_window_signal_all(w[0], 3, ORIEL_SIGNAL_ADD, 1) == ORIEL_OK);
	MUST(oriel_window_wait_signal(w[0], 3, ORIEL_GE, size - 1, 0) == ORIEL_OK);
	MUST(mappings() == before + 2 * size);
	for (i = 0; i < 2; i++)
		MUST(oriel_window_destroy(w[i]) == ORIEL_OK);
	MUST(mappings() == before);
}

static void eager(void)
{
	unsigned before = mappings();
	struct oriel_window *w = create(NULL);

	MUST(mappings() == before + size);
	put_round(w, 1);
	MUST(mappings() == before + size);
	MUST(oriel_window_destroy(w) == ORIEL_OK);
}

/* The state of a process (proc(5)): R, S, T if it is stopped, Z; 0: there is none. */
static char state_of(int pid)
{
	char path[64], line[512] = "";
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	stat = fopen(path, "r");
	if (!stat)
		return 0;
	if (!fgets(line, sizeof(line), stat))
		line[0] = '\0';
	fclose(stat);
	return strrchr(line, ')') ? strrchr(line, ')')[2] : 0;
}

/* Rank 0 touches the last rank, which is no more, or stands still. */
static void lost(bool is_stopped)
{
	struct oriel_window *w = create(NULL);
	const uint64_t one = 1;
	struct oriel_health health = {.size = sizeof(health)};
	enum oriel_status status;
	char name[16];
	int pid = getpid();
	int *pids = calloc(size, sizeof(*pids));

	MUST(pids && oriel_comm_all_gather(comm, &pid, pids, sizeof(pid)) == ORIEL_OK);
	snprintf(name, sizeof(name), "rank %u", size - 1);
	if (rank == size - 1) {
		if (!is_stopped)
			_exit(0);
		raise(SIGSTOP);
		_exit(0);
	}
	if (rank == 0) {
		do
			usleep(1000);
		while (is_stopped ? state_of(pids[size - 1]) != 'T'
				  : state_of(pids[size - 1]) && state_of(pids[size - 1]) != 'Z');
		status = oriel_window_put(w, size - 1, oriel_at(0, 0), &one, sizeof(one));
		fprintf(stderr, "%s\n", oriel_last_error());
		MUST(status == (is_stopped ? ORIEL_ERR_TIMEOUT : ORIEL_ERR_PEER));
		MUST(strstr(oriel_last_error(), name));
		/* A stopped peer alone is out of reach. */
		if (is_stopped)
			MUST(oriel_window_put(w, 1, oriel_at(0, 0), &one, sizeof(one)) == ORIEL_OK);
		if (is_stopped)
			MUST(kill(pids[size - 1], SIGCONT) == 0);
	}
	/* The exit breaks the communicator of all. */
	do {
		usleep(10000);
		MUST(oriel_comm_health(comm, &health) == ORIEL_OK);
	} while (health.status == ORIEL_OK);
	free(pids);
	exit(health.status == ORIEL_ERR_PEER ? 0 : 1);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	MUST(oriel_comm_create(NULL, NULL, &comm) == ORIEL_OK);
	rank = oriel_comm_rank(comm);
	size = oriel_comm_size(comm);
	if (!strcmp(argv[1], "late"))
		late();
	else if (!strcmp(argv[1], "eager"))
		eager();
	else
		lost(!strcmp(argv[1], "stop"));
	return oriel_comm_destroy(comm) == ORIEL_OK ? 0 : 1;
}
