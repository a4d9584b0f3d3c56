/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_peer NIC NIC TEST BYTES ROUNDS [...]: links that the host drives, between two processes,
 * each with a NIC of libibverbs and a CPU. run.py calls it. The tests are those of perftest, and
 * count as it does; one line each: TEST BYTES FIGURE.
 *   write_lat   ping-pong of puts, polled in memory; us one way, median
 *   write_bw    puts, as many in flight as perftest has; 10^6 bytes a second
 *   atomic_lat  fetch_add and its result; us, median
 *   p2p_bw      sends from and to registered memory, between p2p endpoints
 *   spread_lat  a put over four queues, a short one and a signal; us until the signal arrives
 */
#include <fcntl.h>
#include <oriel/dev/detail/order.h>
#include <oriel/p2p.h>
#include <oriel/status.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rdma/rdma_host.h"

#define LENGTH (16u << 20)
#define WORDS (LENGTH - 4096) /* signals, and what atomics add to */
#define QUEUES 4u
#define CHANNELS 4u
#define IN_FLIGHT 128u
#define WARM 16u
#define TURNS 4096u /* polls between two reads of the clock */
#define PATIENCE_NS UINT64_C(20000000000)
#define ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

/* The registered memory begins at remote address 0. */
struct peer {
	const struct ori_hca_ops *ops;
	struct ori_hca *hca;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	uint32_t rkey; /* of the other process */
	char *memory;
	char filter[80];
	int other;
	bool is_first;
};

static void need(bool is_well, const char *what)
{
	if (is_well)
		return;
	fprintf(stderr, "host_peer: %s: %s\n", what, oriel_last_error());
	exit(1);
}

/* Sends @mine to the other process and receives its value of the same point. */
static void exchange(const struct peer *p, const void *mine, void *theirs, size_t length)
{
	need(send(p->other, mine, length, 0) == (ssize_t)length &&
		     recv(p->other, theirs, length, MSG_WAITALL) == (ssize_t)length,
	     "the other process exited");
}

static void meet(const struct peer *p)
{
	char mine = 0, theirs;

	exchange(p, &mine, &theirs, 1);
}

static void peer_open(struct peer *p, const char *nic)
{
	snprintf(p->filter, sizeof(p->filter), "=%.60s", nic);
	p->ops = ori_hca_verbs();
	need(p->ops && p->ops->open(p->filter, 0, &p->hca) == ORIEL_OK, nic);
	p->memory = aligned_alloc(4096, LENGTH);
	need(p->memory, "no memory");
	memset(p->memory, 0, LENGTH);
	need(p->ops->register_memory(p->hca, p->memory, LENGTH, 0, ALL, &p->mr, &p->keys) ==
		     ORIEL_OK,
	     "memory");
	exchange(p, &p->keys.rkey, &p->rkey, sizeof(p->rkey));
}

static void peer_close(struct peer *p)
{
	p->ops->unregister_memory(p->mr);
	p->ops->close(p->hca);
	free(p->memory);
}

static struct ori_host_link *join(const struct peer *p, unsigned queues)
{
	struct ori_host_attr attr = {.ops = p->ops, .hcas = {p->hca}, .queues = queues};
	struct ori_hca_qp_address mine, theirs;
	struct ori_host_qps endpoint, peer_endpoint;
	struct ori_host_link *link;

	need(ori_host_create(&attr, &link, &endpoint) == ORIEL_OK, "a link");
	p->ops->describe(p->hca, &mine);
	exchange(p, &mine, &theirs, sizeof(mine));
	exchange(p, &endpoint, &peer_endpoint, sizeof(endpoint));
	need(ori_host_connect(link, &theirs, &peer_endpoint) == ORIEL_OK, "joining the link");
	meet(p);
	return link;
}

static void part(const struct peer *p, struct ori_host_link *link)
{
	meet(p);
	ori_host_destroy(link);
}

static void be_patient(uint64_t *until, const char *what)
{
	if (!*until)
		*until = ori_clock_ns() + PATIENCE_NS;
	need(ori_clock_ns() < *until, what);
}

/* Reads the clock only now and then, since an emulated one is slow. */
static void stay(uint64_t *turns, uint64_t *until, const char *what)
{
	if (++*turns % TURNS == 0)
		be_patient(until, what);
}

static void wait_for(struct ori_host_link *link, uint64_t op)
{
	uint64_t turns = 0, until = 0;
	enum oriel_status st;

	while ((st = ori_host_test(link, op)) == ORIEL_AGAIN)
		stay(&turns, &until, "it does not end");
	need(st == ORIEL_OK, "it fails");
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *samples, unsigned count)
{
	qsort(samples, count, sizeof(*samples), compare);
	return samples[count / 2];
}

static struct ori_host_move move_of(const struct peer *p, uint64_t at, uint64_t length)
{
	return (struct ori_host_move){.local = {at, {{p->keys.lkey}}},
				      .remote = {at, {{p->rkey}}},
				      .length = length,
				      .data = p->memory + at};
}

/* Waits until the last byte is @value. Between two reads of the clock it only polls. */
static void wait_for_byte(const struct peer *p, uint64_t at, char value)
{
	const volatile char *byte = p->memory + at;
	uint64_t until = 0;

	for (;;) {
		for (unsigned turns = 0; turns < TURNS; turns++)
			if (*byte == value)
				return;
		be_patient(&until, "nothing comes");
	}
}

/* Each process puts to the half of the peer's memory that the peer does not put from. */
static double write_lat(const struct peer *p, uint64_t bytes, unsigned rounds, double *samples)
{
	struct ori_host_link *link = join(p, 1);
	uint64_t own_offset = p->is_first ? 0 : LENGTH / 2, peer_offset = LENGTH / 2 - own_offset,
		 op;
	struct ori_host_move move = move_of(p, own_offset, bytes);
	uint64_t before = 0;

	move.remote.address = own_offset;
	memset(p->memory, 0, bytes);
	memset(p->memory + LENGTH / 2, 0, bytes);
	meet(p);
	for (unsigned i = 0; i < rounds + WARM; i++) {
		uint64_t now;

		if (!p->is_first || i > 0)
			wait_for_byte(p, peer_offset + bytes - 1, (char)(p->is_first ? i : i + 1));
		p->memory[own_offset + bytes - 1] = (char)(i + 1);
		need(ori_host_put(link, &move, &op) == ORIEL_OK, "put");
		/* Not before the wait, where each read of the clock would be measured. */
		now = ori_clock_ns();
		if (i >= WARM)
			samples[i - WARM] = (double)(now - before) / 2e3;
		before = now;
		wait_for(link, op);
	}
	part(p, link);
	return median(samples, rounds);
}

static double write_bw(const struct peer *p, uint64_t bytes, unsigned rounds)
{
	struct ori_host_link *link = join(p, 1);
	struct ori_host_move move = move_of(p, 0, bytes);
	uint64_t op = 0, oldest = 0, started;

	for (unsigned i = 0; i < WARM && p->is_first; i++)
		need(ori_host_put(link, &move, &op) == ORIEL_OK, "put");
	if (p->is_first)
		wait_for(link, op);
	oldest = op + 1;
	started = ori_clock_ns();
	for (unsigned i = 0; i < rounds && p->is_first; i++) {
		need(ori_host_put(link, &move, &op) == ORIEL_OK, "put");
		if (op - oldest == IN_FLIGHT - 1)
			wait_for(link, oldest++);
	}
	if (p->is_first)
		wait_for(link, op);
	started = ori_clock_ns() - started;
	part(p, link);
	return (double)bytes * rounds / (double)started * 1e3;
}

static double atomic_lat(const struct peer *p, unsigned rounds, double *samples)
{
	struct ori_host_address word = {WORDS, {{p->rkey}}};
	struct ori_host_link *link = join(p, 1);
	uint64_t op, old;

	for (unsigned i = 0; i < rounds + WARM && p->is_first; i++) {
		uint64_t started = ori_clock_ns();

		need(ori_host_fetch_add(link, &word, 1, &old, &op) == ORIEL_OK, "fetch_add");
		wait_for(link, op);
		if (i >= WARM)
			samples[i - WARM] = (double)(ori_clock_ns() - started) / 1e3;
	}
	part(p, link);
	return p->is_first ? median(samples, rounds) : 0;
}

/* The second process answers with a signal of its own. */
static double spread_lat(const struct peer *p, uint64_t bytes, unsigned rounds, double *samples)
{
	struct ori_host_link *link = join(p, QUEUES);
	struct ori_host_address word = {WORDS + 64 * (1 + p->is_first), {{p->rkey}}};
	uint64_t *seen = (uint64_t *)(void *)(p->memory + WORDS + 64 * (2 - p->is_first)), op;
	struct ori_host_move all = move_of(p, 0, bytes), few = move_of(p, LENGTH / 2, 8);
	uint64_t base = oriel_dev_load_acquire(seen);

	meet(p);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t started = ori_clock_ns();

		if (p->is_first) {
			need(ori_host_put(link, &all, &op) == ORIEL_OK, "put");
			need(ori_host_put_signal(link, &few, &word, 1, &op) == ORIEL_OK, "signal");
		}
		while (oriel_dev_load_acquire(seen) != base + i + 1) {
			need(ori_host_progress(link) == ORIEL_OK, "progress");
			need(ori_clock_ns() < started + PATIENCE_NS, "no signal");
		}
		if (!p->is_first)
			need(ori_host_fetch_add(link, &word, 1, NULL, &op) == ORIEL_OK, "answer");
		wait_for(link, op);
		samples[i] = (double)(ori_clock_ns() - started) / 1e3;
	}
	part(p, link);
	return median(samples, rounds);
}

/* An endpoint of this process, connected to that of the other one. */
static struct oriel_p2p *connect_by_p2p(const struct peer *p, struct oriel_p2p_context **context)
{
	const struct oriel_p2p_context_attr context_attr = {.size = sizeof(context_attr),
							    .paths = 1u << ORIEL_PATH_RDMA,
							    .timeout_ns = PATIENCE_NS};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_ZERO_COPY,
					    .channels = CHANNELS,
					    .depth = IN_FLIGHT / CHANNELS / 8};
	char mine[ORIEL_P2P_ADDRESS], theirs[ORIEL_P2P_ADDRESS];
	struct oriel_p2p *endpoint;

	need(oriel_p2p_context_create(&context_attr, context) == ORIEL_OK, "a context");
	need(oriel_p2p_create(*context, &attr, &endpoint) == ORIEL_OK, "an endpoint");
	need(oriel_p2p_address(endpoint, mine) == ORIEL_OK, "an address");
	exchange(p, mine, theirs, sizeof(mine));
	need(oriel_p2p_connect(endpoint, theirs, sizeof(theirs), 0) == ORIEL_OK, "connecting");
	return endpoint;
}

static void wait_for_all(struct oriel_p2p *endpoint, const struct oriel_p2p_request *r,
			 unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		need(oriel_p2p_wait(endpoint, &r[i], 0) == ORIEL_OK, "it fails");
}

/*
 * The receiver has little to do, and perftest's has nothing. A receiver that spins would take half
 * of the virtual machine from the kernel, which carries the packets.
 */
static void poll_for_all(struct oriel_p2p *endpoint, const struct oriel_p2p_request *r,
			 unsigned count)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	enum oriel_status st;

	for (unsigned i = 0; i < count; i++) {
		while ((st = oriel_p2p_test(endpoint, &r[i])) == ORIEL_AGAIN)
			nanosleep(&pause, NULL);
		need(st == ORIEL_OK, "it fails");
	}
}

/* All transfers are posted at once; the depth of the channels limits those in flight. */
static double p2p_bw(const struct peer *p, uint64_t bytes, unsigned rounds)
{
	struct oriel_p2p_request *r = calloc(rounds + WARM, sizeof(*r));
	struct oriel_p2p_memory *memory = NULL;
	struct oriel_p2p_buffer b;
	struct oriel_p2p_context *context;
	struct oriel_p2p *endpoint = connect_by_p2p(p, &context);
	uint64_t started = 0;

	need(r && oriel_p2p_register(context, p->memory, LENGTH, 0, &memory) == ORIEL_OK, "memory");
	b = (struct oriel_p2p_buffer){p->memory, bytes, memory};
	for (unsigned i = 0; i < rounds + WARM; i++) {
		enum oriel_status st;

		if (i == WARM) {
			wait_for_all(endpoint, r, WARM);
			started = ori_clock_ns();
		}
		st = p->is_first ? oriel_p2p_send(endpoint, i % CHANNELS, &b, &r[i])
				 : oriel_p2p_recv(endpoint, i % CHANNELS, &b, &r[i]);
		need(st == ORIEL_OK, "a transfer");
	}
	(p->is_first ? wait_for_all : poll_for_all)(endpoint, r + WARM, rounds);
	started = ori_clock_ns() - started;
	need(oriel_p2p_drain(endpoint, 0) == ORIEL_OK, "draining");
	meet(p);
	oriel_p2p_destroy(endpoint);
	oriel_p2p_unregister(memory);
	oriel_p2p_context_destroy(context);
	free(r);
	return (double)bytes * rounds / (double)started * 1e3;
}

static void measure(const struct peer *p, const char *test, uint64_t bytes, unsigned rounds)
{
	double *samples = calloc(rounds, sizeof(*samples)), figure = 0;

	need(samples, "no memory");
	need(bytes > 0 && bytes <= LENGTH / 4 && rounds > 0,
	     "BYTES is 1 to 4 MiB, ROUNDS from 1 on");
	if (!strcmp(test, "write_lat"))
		figure = write_lat(p, bytes, rounds, samples);
	else if (!strcmp(test, "write_bw"))
		figure = write_bw(p, bytes, rounds);
	else if (!strcmp(test, "atomic_lat"))
		figure = atomic_lat(p, rounds, samples);
	else if (!strcmp(test, "p2p_bw"))
		figure = p2p_bw(p, bytes, rounds);
	else if (!strcmp(test, "spread_lat"))
		figure = spread_lat(p, bytes, rounds, samples);
	else
		need(false, "TEST is write_lat, write_bw, atomic_lat, p2p_bw or spread_lat");
	if (p->is_first) {
		printf("%s %lu %.3f\n", test, (unsigned long)bytes, figure);
		fflush(stdout);
	}
	free(samples);
}

static void run(struct peer *p, char **argv)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(p->is_first ? 0 : 1, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		fprintf(stderr, "host_peer: not on a CPU of its own\n");
	peer_open(p, argv[p->is_first ? 1 : 2]);
	/* A p2p context opens NICs by this setting. */
	setenv("ORIEL_HCA", p->filter, 1);
	for (char **test = argv + 3; *test; test += 3)
		measure(p, test[0], strtoul(test[1], NULL, 0), (unsigned)strtoul(test[2], NULL, 0));
	peer_close(p);
}

int main(int argc, char **argv)
{
	struct peer p = {.is_first = true};
	int ends[2], status = 1;
	pid_t other;

	need(argc >= 6 && argc % 3 == 0, "NIC NIC TEST BYTES ROUNDS [TEST BYTES ROUNDS]...");
	need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
	other = fork();
	need(other >= 0, "fork");
	p.is_first = other != 0;
	p.other = ends[p.is_first];
	close(ends[!p.is_first]);
	if (!p.is_first)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(&p, argv);
	if (p.is_first && (waitpid(other, &status, 0) != other || status != 0))
		return 1;
	return 0;
}
