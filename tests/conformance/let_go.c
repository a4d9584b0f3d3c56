/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in flight when the communicator breaks: an operation that has ended, with success or
 * not, leaves no memory of the caller in use by the HCA. Two ranks are threads on two virtual
 * nodes; ORIEL_SOFT_HCA=delay=... keeps requests in flight while rank 0 aborts, for long enough
 * that a thread may be descheduled meanwhile. AddressSanitizer finds a read by the HCA that
 * comes too late.
 */
#include <oriel/dev.h>
#include <oriel/oriel.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 4096u
#define TIMEOUT_NS 60000000000u
#define ABORT_AFTER_US 30000u
#define LATER_US 4500000u /* for packets that would still arrive, to the peer and back */

static struct oriel_local_job *job;
static pthread_barrier_t together;
static void (*attempt)(const struct oriel_dev_window *w);
static bool is_posted; /* whether the operation is in flight, where posting it takes time */
static int failures;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static void check(bool claim, const char *what)
{
	if (!claim)
		fail(what);
}

/* Frames of earlier calls were here. */
static __attribute__((noinline)) void check_stack_is_unchanged(void)
{
	volatile unsigned char frame[LENGTH];
	unsigned i, touched = 0;

	for (i = 0; i < LENGTH; i++)
		frame[i] = 0xaa;
	usleep(LATER_US);
	for (i = 0; i < LENGTH; i++)
		touched += frame[i] != 0xaa;
	check(!touched, "the answer of a fetch_add came after it had ended");
}

static __attribute__((noinline)) void try_fetch_add(const struct oriel_dev_window *w)
{
	uint64_t old = 0;

	check(oriel_dev_fetch_add(w, 1, 0, 1, &old) != ORIEL_OK, "a fetch_add is not ended");
}

static void fetch_add_leaves_the_stack(const struct oriel_dev_window *w)
{
	try_fetch_add(w);
	check_stack_is_unchanged();
}

static void drain_ends_a_get(const struct oriel_dev_window *w)
{
	unsigned char *target = malloc(LENGTH);
	unsigned i, touched = 0;

	check(oriel_dev_get(w, oriel_dev_thread(), 1, 0, target, LENGTH, NULL) >= 0, "get");
	check(oriel_dev_drain(w, oriel_dev_thread(), 0) != ORIEL_OK, "a drain is not ended");
	memset(target, 0xaa, LENGTH);
	usleep(LATER_US);
	for (i = 0; i < LENGTH; i++)
		touched += target[i] != 0xaa;
	check(!touched, "a get went on after the drain");
	free(target);
}

static void drain_ends_a_put(const struct oriel_dev_window *w)
{
	unsigned char *source = calloc(1, LENGTH);

	check(oriel_dev_put(w, oriel_dev_thread(), 1, 0, source, LENGTH, NULL) >= 0, "put");
	check(oriel_dev_drain(w, oriel_dev_thread(), 0) != ORIEL_OK, "a drain is not ended");
	free(source);
	usleep(LATER_US);
}

static void send_ends_with_its_source(const struct oriel_dev_window *w)
{
	unsigned char *source = calloc(4, LENGTH);

	/* The second part, of the whole staging, has to wait for room in the middle. */
	check(oriel_dev_send(w, oriel_dev_thread(), 1, 0, source, 4 * LENGTH, 0) != ORIEL_OK,
	      "a send is not ended");
	free(source);
	usleep(LATER_US);
}

/* The put has completed, its counter has not: packets of the HCA to itself take as long. */
static void drain_ends_a_counter(const struct oriel_dev_window *w)
{
	struct oriel_dev_ticket ticket = {0, 0, 0};
	uint64_t value = 0;

	check(oriel_dev_put_counter(w, oriel_dev_thread(), 1, 0, NULL, 0, 0, &ticket) == ORIEL_OK &&
		      oriel_dev_wait_local(w, oriel_dev_thread(), ticket, 0) == ORIEL_OK,
	      "put_counter");
	check(oriel_dev_read_counter(w, 1, 0, &value) == ORIEL_OK && !value,
	      "the counter comes too early for this test");
	__atomic_store_n(&is_posted, true, __ATOMIC_RELEASE);
	check(oriel_dev_drain(w, oriel_dev_thread(), 0) != ORIEL_OK, "a drain is not ended");
	check(oriel_dev_reset_counter(w, 1, 0) == ORIEL_OK, "reset_counter");
	usleep(LATER_US);
	check(oriel_dev_read_counter(w, 1, 0, &value) == ORIEL_OK && !value,
	      "a counter was raised after the drain");
}

static void *abort_soon(void *comm)
{
	while (attempt == drain_ends_a_counter && !__atomic_load_n(&is_posted, __ATOMIC_ACQUIRE))
		usleep(1000);
	usleep(ABORT_AFTER_US);
	oriel_comm_abort(comm, "a test");
	return NULL;
}

static void run_rank_0(struct oriel_comm *comm, const struct oriel_dev_window *w)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, abort_soon, comm) != 0) {
		fail("pthread_create");
		return;
	}
	attempt(w);
	pthread_join(thread, NULL);
}

static void *run_rank(void *argument)
{
	unsigned rank = (unsigned)(uintptr_t)argument;
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = TIMEOUT_NS,
				       .node = rank ? "b" : "a"};
	struct oriel_window_attr shape = {.size = sizeof(shape),
					  .length = LENGTH,
					  .channels = 1,
					  .channel_bytes = LENGTH};
	struct oriel_window *window = NULL;
	struct oriel_dev_window device;
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm = NULL;

	if (oriel_bootstrap_open_local(job, rank, &bootstrap) != ORIEL_OK ||
	    oriel_comm_create(&bootstrap, &attr, &comm) != ORIEL_OK ||
	    oriel_window_create(comm, &shape, &window) != ORIEL_OK) {
		fail("set-up");
		exit(1);
	}
	oriel_window_device(window, &device);
	pthread_barrier_wait(&together);
	if (rank == 0)
		run_rank_0(comm, &device);
	pthread_barrier_wait(&together);
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static int run(void (*claim)(const struct oriel_dev_window *w))
{
	pthread_t threads[2];
	uintptr_t rank;

	attempt = claim;
	if (pthread_barrier_init(&together, NULL, 2) != 0 ||
	    oriel_local_job_create(2, &job) != ORIEL_OK)
		return 1;
	for (rank = 0; rank < 2; rank++)
		if (pthread_create(&threads[rank], NULL, run_rank, (void *)rank) != 0)
			return 1;
	for (rank = 0; rank < 2; rank++)
		pthread_join(threads[rank], NULL);
	oriel_local_job_destroy(job);
	pthread_barrier_destroy(&together);
	return failures != 0;
}

static void (*const claims[])(const struct oriel_dev_window *w) = {
	fetch_add_leaves_the_stack, drain_ends_a_get,     drain_ends_a_put,
	send_ends_with_its_source,  drain_ends_a_counter,
};

#define CLAIMS (sizeof(claims) / sizeof(claims[0]))

/*
 * The claims run at once, since they sleep; in processes, since an HCA seeds its random numbers
 * by its number.
 */
int main(void)
{
	pid_t children[CLAIMS];
	int how, code = 0;
	size_t i;

	for (i = 0; i < CLAIMS; i++) {
		children[i] = fork();
		if (children[i] == 0)
			return run(claims[i]);
		if (children[i] < 0)
			return 1;
	}
	for (i = 0; i < CLAIMS; i++)
		if (waitpid(children[i], &how, 0) != children[i] || how != 0)
			code = 1;
	return code;
}
