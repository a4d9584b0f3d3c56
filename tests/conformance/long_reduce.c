/* SPDX-License-Identifier: Apache-2.0 */
/*
 * long_reduce [nodes]: reductions of more than 4 GiB, all bytes of which are compared. Two ranks
 * are threads, which are mapped or, with "nodes", on two virtual nodes. They send a pattern whose
 * period is prime: an offset or a length that lost its upper half gives other bytes. A file of a
 * few MB has it and is mapped again and again, so that the results alone need memory. CTest calls
 * it.
 */
#include <oriel/oriel.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 2u
#define LENGTH ((UINT64_C(1) << 32) + 12345) /* of a result, in bytes, which are the elements */
#define PERIOD 4099u
#define FILE_LENGTH (PERIOD * (size_t)4096) /* whole pages, whole periods */
#define MAPPED_LENGTH ((RANKS * LENGTH / FILE_LENGTH + 1) * FILE_LENGTH)
#define NEEDED (RANKS * LENGTH + (UINT64_C(1) << 30))
#define TIMEOUT_NS 600000000000u

static struct oriel_local_job *job;
static pthread_barrier_t together;
static bool are_nodes;
static const char *patterns[RANKS], *sums;
static int failures;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static void must(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	fail(what);
	exit(1);
}

static unsigned char of_pattern(unsigned rank, unsigned i)
{
	uint32_t x = (i + 1) * 2654435761u ^ (rank + 1) * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	return (unsigned char)(x >> 13);
}

/* Maps the pattern of @rank, or the sum of all, again and again. */
static const char *map_pattern(unsigned rank)
{
	int fd = memfd_create("pattern", MFD_CLOEXEC);
	unsigned char *once = malloc(FILE_LENGTH);
	char *all = mmap(NULL, MAPPED_LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (fd < 0 || !once || all == MAP_FAILED)
		return NULL;
	for (i = 0; i < FILE_LENGTH; i++) {
		unsigned at = (unsigned)(i % PERIOD);

		once[i] = rank < RANKS ? of_pattern(rank, at)
				       : (unsigned char)(of_pattern(0, at) + of_pattern(1, at));
	}
	if (write(fd, once, FILE_LENGTH) != (ssize_t)FILE_LENGTH)
		return NULL;
	free(once);
	for (i = 0; i < MAPPED_LENGTH; i += FILE_LENGTH)
		if (mmap(all + i, FILE_LENGTH, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			return NULL;
	close(fd);
	return all;
}

static void compare(const char *is, const char *should, const char *what)
{
	uint64_t i;

	if (memcmp(is, should, LENGTH) == 0)
		return;
	for (i = 0; is[i] == should[i]; i++)
		;
	fprintf(stderr, "%s: byte %" PRIu64 " of %" PRIu64 " is %d, expected %d\n", what, i, LENGTH,
		(unsigned char)is[i], (unsigned char)should[i]);
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static void reduce(struct oriel_comm *comm, unsigned rank, char *result)
{
	const struct oriel_view view = {.size = sizeof(view),
					.kind = ORIEL_VIEW_BUFFER,
					.buffer = result,
					.length = LENGTH};
	const struct oriel_reduction sum = {.size = sizeof(sum),
					    .type = ORIEL_TYPE_UINT8,
					    .op = ORIEL_OP_SUM};
	const struct oriel_coll_attr owner = {.size = sizeof(owner),
					      .algorithm = ORIEL_ALGORITHM_OWNER};
	struct oriel_allreduce *all;
	struct oriel_reduce_scatter *scatter;

	must(oriel_allreduce_create(comm, &view, &sum, &owner, &all), "allreduce_create");
	must(oriel_reduce_scatter_create(comm, &view, &sum, &owner, &scatter),
	     "reduce_scatter_create");
	memcpy(result, patterns[rank], LENGTH);
	must(oriel_allreduce_run(all, result, LENGTH), "allreduce_run in place");
	compare(result, sums, "all-reduce in place");
	memset(result, 0, LENGTH);
	/* No rank writes to a view that its peer still compares. */
	pthread_barrier_wait(&together);
	must(oriel_reduce_scatter_run(scatter, patterns[rank], LENGTH), "reduce_scatter_run");
	compare(result, sums + rank * LENGTH, "reduce-scatter");
	must(oriel_allreduce_destroy(all), "allreduce_destroy");
	must(oriel_reduce_scatter_destroy(scatter), "reduce_scatter_destroy");
}

static void *run_rank(void *argument)
{
	unsigned rank = (unsigned)(uintptr_t)argument;
	const struct oriel_comm_attr attr = {.size = sizeof(attr),
					     .timeout_ns = TIMEOUT_NS,
					     .node = are_nodes && rank ? "b" : "a"};
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;
	void *result;

	must(oriel_bootstrap_open_local(job, rank, &bootstrap), "bootstrap");
	must(oriel_comm_create(&bootstrap, &attr, &comm), "comm_create");
	must(oriel_memory_alloc(LENGTH, 0, &result), "memory_alloc");
	reduce(comm, rank, result);
	must(oriel_comm_destroy(comm), "comm_destroy");
	oriel_memory_free(result);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

/* Bytes of memory that programs may still take. */
static uint64_t available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t kilobytes = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1)
			break;
	if (file)
		fclose(file);
	return kilobytes << 10;
}

int main(int argc, char **argv)
{
	pthread_t threads[RANKS];
	uintptr_t rank;

	are_nodes = argc > 1 && strcmp(argv[1], "nodes") == 0;
	if (available() < NEEDED) {
		printf("skipped: %" PRIu64 " MiB of memory are available, and it takes %" PRIu64
		       "\n",
		       available() >> 20, NEEDED >> 20);
		return 77;
	}
	for (rank = 0; rank < RANKS; rank++)
		patterns[rank] = map_pattern((unsigned)rank);
	sums = map_pattern(RANKS);
	if (!patterns[0] || !patterns[1] || !sums ||
	    pthread_barrier_init(&together, NULL, RANKS) != 0 ||
	    oriel_local_job_create(RANKS, &job) != ORIEL_OK)
		return 1;
	for (rank = 0; rank < RANKS; rank++)
		if (pthread_create(&threads[rank], NULL, run_rank, (void *)rank) != 0)
			return 1;
	for (rank = 0; rank < RANKS; rank++)
		pthread_join(threads[rank], NULL);
	oriel_local_job_destroy(job);
	return failures != 0;
}
