/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forked [--threads|--orphan NODES]: ranks that fork workers while they communicate, as the data
 * loader of a training program does. Each worker calls host and device functions on inherited
 * objects, which must not change anything and never hang. It also reads the memory of the
 * window, makes a communicator of its own, writes to its parent through a pipe and exits, by
 * exit() or _exit(). The ranks continue, and check at the end that no operation of a worker
 * arrived. CTest runs it under `oriel run`, or with two ranks as threads, on NODES nodes.
 */
#include <oriel/dev.h>
#include <oriel/dev/copy_group.h>
#include <oriel/oriel.h>

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE 100 /* seconds; it ends only a process that hangs */
#define WORKERS 2
#define ROUNDS_MIN 3000u
#define POSTS 3000u /* by each worker: more than any queue has room for */

/* Offsets in buffer 0 of each rank. */
#define AT_ROUND 0u     /* written by the peer, round by round */
#define AT_WORKER 4096u /* a worker tries to write it */
#define AT_PATTERN 8192u
#define LENGTH 16384u

/* Signal ids. */
#define SIGNAL_ROUND 0u
#define SIGNAL_WORKER 1u

struct rank {
	const struct oriel_bootstrap *bootstrap;
	const char *node;
	bool is_forking;
	struct oriel_bootstrap own;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	struct oriel_region *region;
	struct oriel_p2p_context *context;
	struct oriel_p2p *endpoint;
	struct oriel_p2p_copy_group *copy_group;
	struct oriel_dev_copy_group dev_copy_group;
	char *memory;
	unsigned rank, size, peer;
	atomic_bool is_over; /* the workers have exited */
};

static void fail(const char *what, int line, const char *detail)
{
	fprintf(stderr, "forked (%d): line %d: %s: %s\n", (int)getpid(), line, what, detail);
	_exit(1);
}

#define CHECK(claim)                                                \
	do {                                                        \
		if (!(claim))                                       \
			fail(#claim, __LINE__, oriel_last_error()); \
	} while (0)

#define MUST(call) CHECK((call) == ORIEL_OK)

/* A host function that a child calls: its status, and the text with the reason. */
#define REJECTED(call)                                                              \
	do {                                                                        \
		CHECK((call) == ORIEL_ERR_FORKED);                                  \
		CHECK(oriel_last_status() == ORIEL_ERR_FORKED);                     \
		CHECK(strstr(oriel_last_error(), "this process was forked after")); \
	} while (0)

/* A wait of a child that no operation can complete. */
#define WAIT_FAILS(call) CHECK((call) == ORIEL_ERR_FORKED)

/* The operation of a child moves nothing, or is rejected. */
#define NO_EFFECT(call)                                                   \
	do {                                                              \
		enum oriel_status result = (call);                        \
		if (result != ORIEL_OK && result != ORIEL_ERR_FORKED)     \
			fail(#call, __LINE__, oriel_status_name(result)); \
	} while (0)

static void worker_host(struct rank *r)
{
	struct oriel_p2p_request request;
	struct oriel_health health = {.size = sizeof(health)};
	char bytes[8] = "worker";
	void *made;

	REJECTED(oriel_window_put(r->window, r->peer, AT_WORKER, bytes, 8));
	REJECTED(oriel_window_get(r->window, r->peer, AT_PATTERN, bytes, 8));
	REJECTED(oriel_window_barrier(r->window, 0, 0));
	REJECTED(oriel_window_wait_signal(r->window, SIGNAL_WORKER, ORIEL_GE, 1, 0));
	REJECTED(oriel_window_flush(r->window, 0));
	REJECTED(oriel_window_buffer(r->window, 0, &made, NULL));
	REJECTED(oriel_comm_barrier(r->comm));
	REJECTED(oriel_comm_health(r->comm, &health));
	REJECTED(oriel_window_create(r->comm, NULL, (void *)&made));
	REJECTED(oriel_region_share(r->region));
	REJECTED(oriel_p2p_send_control(r->endpoint, 1, bytes, 8, &request));
	REJECTED(oriel_p2p_progress(r->endpoint));
	REJECTED(oriel_p2p_create(r->context, NULL, (void *)&made));
	CHECK(oriel_comm_rank(r->comm) == ORIEL_NO_RANK);
	CHECK(oriel_comm_size(r->comm) == 0 && oriel_last_status() == ORIEL_ERR_FORKED);
	oriel_comm_abort(r->comm, "the child has no job to abort");
	REJECTED(r->bootstrap->ops->barrier(r->bootstrap->context, 1000000000));
	REJECTED(r->bootstrap->ops->all_gather(r->bootstrap->context, bytes, bytes, 1, 1000000000));
	REJECTED(r->bootstrap->ops->send(r->bootstrap->context, r->peer, 1, bytes, 8, 1000000000));
	REJECTED(r->bootstrap->ops->recv(r->bootstrap->context, r->peer, 1, bytes, 8, 1000000000));
}

static void worker_device(const struct rank *r)
{
	struct oriel_dev_group self = oriel_dev_thread();
	const struct oriel_dev_window *w = &r->dev;
	struct oriel_dev_ticket ticket = {0, 0, 0};
	struct oriel_dev_chunk chunk;
	uint64_t word = 7, old;
	unsigned i, peer;

	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < POSTS; i++) {
			NO_EFFECT(oriel_dev_put(w, self, peer, AT_WORKER, &word, 8, NULL));
			NO_EFFECT(oriel_dev_put_signal(w, self, peer, AT_WORKER, &word, 8,
						       SIGNAL_WORKER, 1, NULL));
		}
		NO_EFFECT(oriel_dev_put_value(w, peer, AT_WORKER, 7, NULL));
		NO_EFFECT(
			oriel_dev_signal(w, self, peer, SIGNAL_WORKER, ORIEL_SIGNAL_ADD, 1, NULL));
		NO_EFFECT(oriel_dev_put_counter(w, self, peer, AT_WORKER, &word, 8, 0, NULL));
		NO_EFFECT(oriel_dev_fetch_add(w, peer, AT_WORKER, 1, &old));
	}
	NO_EFFECT(oriel_dev_send(w, self, r->peer, 0, &word, 8, 0));
	NO_EFFECT(oriel_dev_get(w, self, r->peer, AT_PATTERN, &word, 8, &ticket));
	NO_EFFECT(oriel_dev_wait_local(w, self, ticket, 0));
	NO_EFFECT(oriel_dev_drain(w, self, 0));
	NO_EFFECT(oriel_dev_flush(w, self, 0));
	/* The parent gets the signals; its child does not. */
	WAIT_FAILS(oriel_dev_wait_signal_from(w, self, r->peer, SIGNAL_ROUND, ORIEL_GE, 1, 0));
	WAIT_FAILS(oriel_dev_wait_signal_from(w, self, r->peer, SIGNAL_WORKER, ORIEL_GE, 1000000000,
					      0));
	WAIT_FAILS(oriel_dev_wait_signal(w, self, SIGNAL_WORKER, ORIEL_GE, 1000000000,
					 ORIEL_TIMEOUT_INFINITE));
	WAIT_FAILS(oriel_dev_barrier(w, self, 1, 0));
	WAIT_FAILS(oriel_dev_barrier_flat(w, self, 2, 0));
	WAIT_FAILS(oriel_dev_barrier_peer(w, self, r->peer, 3, 0));
	WAIT_FAILS(oriel_dev_recv(w, self, r->peer, 1, &word, 8, 0));
	WAIT_FAILS(oriel_dev_wait_counter(w, self, r->peer, 1, ORIEL_GE, 1, 0));
	WAIT_FAILS(oriel_dev_copy_group_enter(&r->dev_copy_group, self, ORIEL_DEV_PACK, 0));
	WAIT_FAILS(oriel_dev_copy_group_next(&r->dev_copy_group, self, ORIEL_DEV_PACK, 0,
					     ORIEL_TIMEOUT_INFINITE, &chunk));
}

/* The parent's bytes stay readable; writes of the child stay in the child. */
static void worker_memory(struct rank *r)
{
	unsigned i;

	for (i = 0; i < 256; i++)
		CHECK(r->memory[AT_PATTERN + i] == (char)(i ^ r->rank));
	memset(r->memory + AT_PATTERN, 0x55, 256);
	memset(r->memory + AT_WORKER, 0x55, 256);
	CHECK(r->memory[AT_PATTERN] == 0x55);
}

static void worker_destroy_all(struct rank *r)
{
	oriel_p2p_copy_group_destroy(r->copy_group);
	oriel_p2p_destroy(r->endpoint);
	oriel_p2p_context_destroy(r->context);
	oriel_region_unregister(r->region);
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	CHECK(oriel_last_status() == ORIEL_ERR_FORKED);
	r->own = *r->bootstrap;
	oriel_bootstrap_close(&r->own);
}

static void worker_own(void)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 4096, .channels = 16};
	struct oriel_local_job *job;
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;
	struct oriel_window *window;
	void *memory, *address;

	MUST(oriel_local_job_create(1, &job));
	MUST(oriel_bootstrap_open_local(job, 0, &bootstrap));
	MUST(oriel_comm_create(&bootstrap, NULL, &comm));
	MUST(oriel_window_create(comm, &attr, &window));
	MUST(oriel_window_put_signal(window, 0, 0, "own", 4, 0, 1));
	MUST(oriel_window_wait_signal(window, 0, ORIEL_GE, 1, 0));
	MUST(oriel_window_barrier(window, 0, 0));
	MUST(oriel_window_buffer(window, 0, &address, NULL));
	CHECK(strcmp(address, "own") == 0);
	MUST(oriel_memory_alloc(4096, 0, &memory));
	oriel_memory_free(memory);
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&bootstrap);
	oriel_local_job_destroy(job);
}

static void worker(struct rank *r, unsigned number, int out)
{
	alarm(DEADLINE);
	worker_host(r);
	worker_device(r);
	worker_memory(r);
	worker_own();
	/* A grandchild: it owns neither handle. */
	if (number == 0) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (child == 0) {
			alarm(DEADLINE);
			worker_host(r);
			worker_own();
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	worker_destroy_all(r);
	CHECK(write(out, "done", 5) == 5);
	if (number % 2)
		_exit(0);
	exit(0);
}

static void fork_workers(struct rank *r)
{
	pid_t pids[WORKERS];
	int ends[WORKERS][2], status;
	unsigned i;

	for (i = 0; i < WORKERS; i++) {
		char text[8] = "";

		CHECK(pipe(ends[i]) == 0);
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0) {
			close(ends[i][0]);
			worker(r, i, ends[i][1]);
		}
		close(ends[i][1]);
		CHECK(read(ends[i][0], text, 5) == 5 && strcmp(text, "done") == 0);
		close(ends[i][0]);
	}
	for (i = 0; i < WORKERS; i++)
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
}

/*
 * In round n this rank puts n to its peer and waits for n from the peer. Both end with the same
 * round.
 */
static void *communicate(void *context)
{
	struct rank *r = context;
	volatile uint64_t *words = (volatile uint64_t *)(void *)(r->memory + AT_ROUND);
	uint64_t word[2], n;

	for (n = 1;; n++) {
		word[0] = n;
		word[1] = n >= ROUNDS_MIN && atomic_load(&r->is_over);
		MUST(oriel_window_put_signal(r->window, r->peer, AT_ROUND + 16 * (n & 1), word, 16,
					     SIGNAL_ROUND, 1));
		MUST(oriel_window_wait_signal_next(r->window, r->peer, SIGNAL_ROUND, 1, 0));
		CHECK(words[2 * (n & 1)] == n);
		/* No rank is ahead of its peer by more than one round. */
		if (word[1] && words[2 * (n & 1) + 1])
			return NULL;
	}
}

static void rank_open(struct rank *r)
{
	struct oriel_window_attr window = {.size = sizeof(window),
					   .length = LENGTH,
					   .channels = 16};
	struct oriel_comm_attr comm = {.size = sizeof(comm), .node = r->node};
	struct oriel_p2p_copy_group_attr copy_group = {.size = sizeof(copy_group),
						       .timeout_ns = ORIEL_TIMEOUT_INFINITE};
	void *memory;
	unsigned i;

	MUST(oriel_comm_create(r->bootstrap, &comm, &r->comm));
	r->rank = oriel_comm_rank(r->comm);
	r->size = oriel_comm_size(r->comm);
	CHECK(r->size % 2 == 0);
	r->peer = r->rank ^ 1;
	MUST(oriel_window_create(r->comm, &window, &r->window));
	MUST(oriel_window_buffer(r->window, 0, &memory, NULL));
	r->memory = memory;
	for (i = 0; i < 256; i++)
		r->memory[AT_PATTERN + i] = (char)(i ^ r->rank);
	MUST(oriel_window_device(r->window, &r->dev));
	MUST(oriel_region_register(r->comm, r->memory, LENGTH, &r->region));
	MUST(oriel_p2p_context_create(NULL, &r->context));
	MUST(oriel_p2p_create(r->context, NULL, &r->endpoint));
	MUST(oriel_p2p_copy_group_create(r->context, &copy_group, &r->copy_group));
	MUST(oriel_p2p_copy_group_device(r->copy_group, &r->dev_copy_group));
	MUST(oriel_comm_barrier(r->comm));
}

static void rank_close(struct rank *r)
{
	uint64_t value;
	unsigned i, source;

	MUST(oriel_window_barrier(r->window, 0, 0));
	for (i = 0; i < 256; i++) {
		CHECK(r->memory[AT_PATTERN + i] == (char)(i ^ r->rank));
		CHECK(r->memory[AT_WORKER + i] == 0);
	}
	for (source = 0; source < r->size; source++) {
		MUST(oriel_window_read_signal_from(r->window, source, SIGNAL_WORKER, &value));
		CHECK(value == 0);
	}
	oriel_p2p_copy_group_destroy(r->copy_group);
	oriel_p2p_destroy(r->endpoint);
	oriel_p2p_context_destroy(r->context);
	oriel_region_unregister(r->region);
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
}

static void *rank_main(void *context)
{
	struct rank *r = context;
	pthread_t thread;

	rank_open(r);
	CHECK(pthread_create(&thread, NULL, communicate, r) == 0);
	if (r->is_forking)
		fork_workers(r);
	atomic_store(&r->is_over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	rank_close(r);
	return NULL;
}

static void run_threads(const char *nodes)
{
	static struct rank ranks[2];
	struct oriel_bootstrap ends[2];
	struct oriel_local_job *job;
	pthread_t threads[2];
	unsigned i;

	MUST(oriel_local_job_create(2, &job));
	for (i = 0; i < 2; i++) {
		MUST(oriel_bootstrap_open_local(job, i, &ends[i]));
		ranks[i].bootstrap = &ends[i];
		ranks[i].node = i && strcmp(nodes, "2") == 0 ? "b" : "a";
		ranks[i].is_forking = true;
		CHECK(pthread_create(&threads[i], NULL, rank_main, &ranks[i]) == 0);
	}
	for (i = 0; i < 2; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		oriel_bootstrap_close(&ends[i]);
	}
	oriel_local_job_destroy(job);
}

/* Bind a port that no other job gets while the socket is open, and at which a rank may listen. */
static unsigned port_hold(void)
{
	const int on = 1;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
	/*
	 * After bind(): the kernel does not give the port to a process that asks for any port,
	 * and a process that names it may have it.
	 */
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	return ntohs(address.sin_port);
}

/* Run one of two ranks: rank 0 is killed, and its worker lives until @end is closed. */
static int orphan_rank(unsigned rank, const char *nodes, int end)
{
	static struct rank r;
	struct oriel_bootstrap bootstrap;
	enum oriel_status status;
	char text[8];

	alarm(DEADLINE);
	setenv("RANK", rank ? "1" : "0", 1);
	r.node = rank && strcmp(nodes, "2") == 0 ? "b" : "a";
	MUST(oriel_bootstrap_open_env(0, &bootstrap));
	r.bootstrap = &bootstrap;
	rank_open(&r);
	if (rank == 0) {
		/* The peer has only to wait for it from here on. */
		MUST(oriel_window_wait_signal(r.window, SIGNAL_ROUND, ORIEL_GE, 1, 0));
		if (fork() == 0)
			_exit(read(end, text, 1) != 0);
		raise(SIGKILL);
	}
	/* Rank 0 may be killed between the signal and its acknowledgement. */
	status = oriel_window_signal(r.window, 0, SIGNAL_ROUND, ORIEL_SIGNAL_ADD, 1);
	CHECK(status == ORIEL_OK || status == ORIEL_ERR_PEER);
	status = oriel_window_wait_signal(r.window, SIGNAL_WORKER, ORIEL_GE, 1, 0);
	CHECK(status == ORIEL_ERR_PEER);
	return 0;
}

/* The death of rank 0 is noticed although a child of it lives. */
static int run_orphan(const char *nodes)
{
	int end[2], status;
	pid_t ranks[2];
	char port[16];
	unsigned i;

	snprintf(port, sizeof(port), "%u", port_hold());
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", port, 1);
	CHECK(pipe(end) == 0);
	for (i = 0; i < 2; i++) {
		ranks[i] = fork();
		CHECK(ranks[i] >= 0);
		if (ranks[i] == 0) {
			close(end[1]);
			_exit(orphan_rank(i, nodes, end[0]));
		}
	}
	CHECK(waitpid(ranks[0], &status, 0) == ranks[0]);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(waitpid(ranks[1], &status, 0) == ranks[1] && status == 0);
	return 0;
}

int main(int argc, char **argv)
{
	static struct rank r;
	struct oriel_bootstrap bootstrap;

	alarm(2 * DEADLINE);
	if (argc == 3 && strcmp(argv[1], "--threads") == 0) {
		run_threads(argv[2]);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--orphan") == 0)
		return run_orphan(argv[2]);
	MUST(oriel_bootstrap_open_env(0, &bootstrap));
	r.bootstrap = &bootstrap;
	r.is_forking = true;
	rank_main(&r);
	oriel_bootstrap_close(&bootstrap);
	return 0;
}
