/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for shrink_test.py: survivor [--kill] [--die RANK TEXT | --stop RANK TEXT] [--leave RANK]
 * [--retry] SIZE. The ranks put to each other and meet at a barrier until that fails; then they
 * shrink the communicator, and go on until it has SIZE ranks. Rank RANK, by its first number, ends
 * or stops itself where its log has TEXT. With --retry a shrink that was refused is called again
 * after each line of standard input. The RANK of --leave aborts and destroys the communicator after
 * such a line, prints "destroyed", and lives on.
 *
 * It prints "ready"; for each shrink its status and text, and where it failed the ranks that may
 * still write to memory that was shared twice, to memory that was shared in between, and to other
 * memory; and at the end the first numbers of the ranks that are left.
 */
#include <oriel/oriel.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 64u
#define BYTES 4096u
#define LAST_ROUNDS 20u

static unsigned first_rank; /* of this process, in the first communicator */
/* Memory of the user, of BYTES: other ranks map the first two. */
static void *shared, *between, *private;
static bool is_doomed;
static const char *last_words;
static int last_signal;

static void die(void *context, enum oriel_log_level level, const char *message)
{
	(void)context, (void)level;
	if (getenv("SURVIVOR_TRACE"))
		fprintf(stderr, "%u: %s\n", first_rank, message);
	if (is_doomed && strstr(message, last_words))
		raise(last_signal);
}

static void expect(bool claim, const char *what)
{
	if (claim)
		return;
	printf("broken: %s: %s\n", what, oriel_last_error());
	exit(2);
}

/* The first numbers of all ranks of @comm, by its own. */
static enum oriel_status names(struct oriel_comm *comm, unsigned *of)
{
	return oriel_comm_all_gather(comm, &first_rank, of, sizeof(*of));
}

/* One round: each rank puts its name to all, and finds those of all others. */
static enum oriel_status play(struct oriel_comm *comm, struct oriel_window *window,
			      uint64_t *memory, const unsigned *of, uint64_t round)
{
	unsigned rank = oriel_comm_rank(comm), size = oriel_comm_size(comm), peer;
	enum oriel_status status = ORIEL_OK;
	uint64_t word = round << 32 | first_rank;

	for (peer = 0; peer < size && status == ORIEL_OK; peer++)
		status = oriel_window_put(window, peer, (rank + RANKS * (round & 1)) * sizeof(word),
					  &word, sizeof(word));
	if (status == ORIEL_OK)
		status = oriel_window_flush(window, 0);
	if (status == ORIEL_OK)
		status = oriel_window_barrier(window, 0, 0);
	for (peer = 0; peer < size && status == ORIEL_OK; peer++)
		expect(memory[peer + RANKS * (round & 1)] == (round << 32 | of[peer]),
		       "another rank wrote there");
	return status;
}

static enum oriel_status share(struct oriel_comm *comm, void *memory, struct oriel_region **region)
{
	enum oriel_status status = oriel_region_register(comm, memory, BYTES, region);

	return status == ORIEL_OK ? oriel_region_share(*region) : status;
}

/* Plays until a rank is lost, or, if @rounds is not 0, so often. */
static enum oriel_status work(struct oriel_comm *comm, uint64_t rounds)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = BYTES, .signals = 1};
	struct oriel_window *window = NULL;
	void *const pieces[] = {shared, between, shared};
	struct oriel_region *regions[3] = {NULL};
	enum oriel_status status;
	unsigned of[RANKS], i;
	void *memory;
	uint64_t round;

	status = names(comm, of);
	for (i = 0; i < 3 && status == ORIEL_OK; i++)
		status = share(comm, pieces[i], &regions[i]);
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &window);
	if (status == ORIEL_OK)
		status = oriel_window_buffer(window, 0, &memory, NULL);
	if (status == ORIEL_OK && !rounds) {
		printf("ready\n");
		fflush(stdout);
	}
	for (round = 1; status == ORIEL_OK && (!rounds || round <= rounds); round++)
		status = play(comm, window, memory, of, round);
	expect(oriel_window_destroy(window) == ORIEL_OK, "a window is not destroyed");
	for (i = 0; i < 3; i++)
		expect(oriel_region_unregister(regions[i]) == ORIEL_OK,
		       "a region is not unregistered");
	return status;
}

static void report(struct oriel_comm *comm)
{
	unsigned of[RANKS], rank;

	expect(names(comm, of) == ORIEL_OK, "the survivors do not gather");
	printf("left:");
	for (rank = 0; rank < oriel_comm_size(comm); rank++)
		printf(" %u", of[rank]);
	printf("\n");
}

/* Origins name the ranks in the communicator before. */
static void check_origins(struct oriel_comm *before, struct oriel_comm *comm, unsigned own)
{
	unsigned rank, origin, last = 0;

	for (rank = 0; rank < oriel_comm_size(comm); rank++) {
		expect(oriel_comm_origin(comm, rank, &origin) == ORIEL_OK, "no origin");
		expect(origin < oriel_comm_size(before) && (rank == 0 || origin > last),
		       "origins are not in order");
		expect((origin == own) == (rank == oriel_comm_rank(comm)), "not its own origin");
		last = origin;
	}
}

/* The rank that may still write to @memory, -1: none. */
static int writer(struct oriel_comm *comm, const void *memory)
{
	unsigned rank;

	expect(oriel_comm_unsafe(comm, memory, BYTES, &rank) == ORIEL_OK, "no answer");
	return (int)rank;
}

static enum oriel_status shrink(struct oriel_comm **comm, bool has_retry)
{
	struct oriel_comm *survivors = NULL;
	enum oriel_status status;
	char line[16];

	do {
		status = oriel_comm_shrink(*comm, NULL, &survivors);
		printf("%s %s\n", oriel_status_name(status),
		       status == ORIEL_OK ? "" : oriel_last_error());
		if (status != ORIEL_OK)
			printf("unsafe: %d %d %d\n", writer(*comm, shared), writer(*comm, between),
			       writer(*comm, private));
		else
			expect(writer(*comm, shared) == -1, "memory of survivors is not safe");
		fflush(stdout);
	} while (status == ORIEL_ERR_STATE && has_retry && fgets(line, sizeof(line), stdin));
	if (status == ORIEL_OK)
		check_origins(*comm, survivors, oriel_comm_rank(*comm));
	expect(oriel_comm_destroy(*comm) == ORIEL_OK, "it is not destroyed");
	*comm = survivors;
	return status;
}

static void *leave(void *comm)
{
	char line[16];

	if (fgets(line, sizeof(line), stdin))
		oriel_comm_abort(comm, "it leaves");
	return NULL;
}

/* Works until the communicator ends by that, and lives on without it. */
static void stay(struct oriel_comm *comm)
{
	pthread_t thread;

	expect(pthread_create(&thread, NULL, leave, comm) == 0, "no thread");
	work(comm, 0);
	pthread_join(thread, NULL);
	expect(oriel_comm_destroy(comm) == ORIEL_OK, "it is not destroyed");
	printf("destroyed\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .flags = ORIEL_COMM_SHRINK};
	struct oriel_comm *comm;
	unsigned size, doomed = UINT32_MAX, leaver = UINT32_MAX;
	bool has_retry = false;
	int i = 1;

	for (; i < argc - 1; i++) {
		if (strcmp(argv[i], "--kill") == 0) {
			attr.flags |= ORIEL_COMM_KILL_SUSPECTS;
		} else if (strcmp(argv[i], "--retry") == 0) {
			has_retry = true;
		} else if (strcmp(argv[i], "--leave") == 0) {
			leaver = (unsigned)atoi(argv[++i]);
		} else {
			last_signal = strcmp(argv[i], "--stop") == 0 ? SIGSTOP : SIGKILL;
			doomed = (unsigned)atoi(argv[i + 1]);
			last_words = argv[i + 2];
			i += 2;
		}
	}
	size = (unsigned)atoi(argv[i]);
	oriel_log_set_sink(die, NULL);
	expect(oriel_comm_create(NULL, &attr, &comm) == ORIEL_OK, "no communicator");
	first_rank = oriel_comm_rank(comm);
	expect(oriel_memory_alloc(BYTES, 0, &shared) == ORIEL_OK, "no memory");
	expect(oriel_memory_alloc(BYTES, 0, &between) == ORIEL_OK, "no memory");
	expect(oriel_memory_alloc(BYTES, 0, &private) == ORIEL_OK, "no memory");
	if (first_rank == leaver)
		stay(comm);
	work(comm, 0);
	is_doomed = first_rank == doomed;
	do {
		if (shrink(&comm, has_retry) != ORIEL_OK)
			return 1;
	} while (work(comm, LAST_ROUNDS) != ORIEL_OK || oriel_comm_size(comm) > size);
	report(comm);
	oriel_memory_free(shared);
	oriel_memory_free(between);
	oriel_memory_free(private);
	expect(oriel_comm_destroy(comm) == ORIEL_OK, "it is not destroyed");
	return 0;
}
