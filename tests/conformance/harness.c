/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The harness: it joins the ranks, runs the cases that the command line selects, and agrees on
 * their results. conformance.h has conformance_main(), harness.h what backends and cases call.
 */
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct oriel_window_attr small_window = {
	.size = sizeof(small_window),
	.length = 65536,
	.channels = 4,
	.channel_bytes = 4096,
};

/* The request of the command line; the same for all ranks. */
struct plan {
	const struct backend *backend;
	unsigned threads; /* 0: this process is one rank */
	unsigned nodes;   /* that threads are split into; 0: not at all */
	unsigned seconds; /* after which no case begins; 0: no limit, and no report of suites */
	bool is_by_rdma;  /* also to mapped peers */
	char **filters;
	int filter_count;
};

static bool comm_is_mapped(const struct rank *r, unsigned from, unsigned to)
{
	enum oriel_path path = ORIEL_PATH_NONE;

	oriel_comm_path_between(r->comm, from, to, &path);
	return path == ORIEL_PATH_SELF || path == ORIEL_PATH_MAPPED;
}

bool rank_is_mapped(const struct rank *r, unsigned from, unsigned to)
{
	return r->is_by_rdma ? from == to : comm_is_mapped(r, from, to);
}

bool rank_is_in_domain(const struct rank *r, unsigned peer)
{
	return comm_is_mapped(r, r->rank, peer);
}

unsigned rank_rail(const struct rank *r, unsigned peer)
{
	struct oriel_peer found = {.size = sizeof(found)};

	oriel_comm_peer(r->comm, peer, &found);
	return found.rail;
}

bool rank_is_foreign(const struct rank *r, unsigned from, unsigned to)
{
	struct oriel_peer a = {.size = sizeof(a)}, b = {.size = sizeof(b)};

	return comm_is_mapped(r, from, to) && oriel_comm_peer(r->comm, from, &a) == ORIEL_OK &&
	       oriel_comm_peer(r->comm, to, &b) == ORIEL_OK && a.pid != b.pid;
}

void rank_flush_barrier(struct rank *r)
{
	CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

enum oriel_status rank_barrier(struct rank *r)
{
	return oriel_comm_barrier(r->comm);
}

enum oriel_status rank_device(struct rank *r, struct oriel_dev_window *w)
{
	return oriel_window_device(r->window, w);
}

enum oriel_status host_fault(struct rank *r, struct oriel_dev_fault *fault)
{
	return r->region ? oriel_comm_device_fault(r->comm, fault)
			 : oriel_window_fault(r->window, fault);
}

enum oriel_status rank_fault(struct rank *r, struct oriel_dev_fault *fault)
{
	enum oriel_status status = host_fault(r, fault);

	/* This call puts its own text where those of failed claims are. */
	check_begin();
	return status;
}

void rank_abort(struct rank *r)
{
	oriel_comm_abort(r->comm, "the test aborts");
}

void *rank_alloc(struct rank *r, size_t length)
{
	void *memory = malloc(length);

	if (!memory)
		give_up(r, "malloc");
	return memory;
}

void rank_free(struct rank *r, void *memory)
{
	(void)r;
	free(memory);
}

static enum oriel_status join(struct rank *r, const char *node, unsigned flags)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .flags = r->backend->comm_flags | flags,
				       .timeout_ns = LONG_NS,
				       .node = node ? node : r->node};

	r->has_handle = false;
	return oriel_comm_create(&r->bootstrap, &attr, &r->comm);
}

enum oriel_status rank_join(struct rank *r, const char *node)
{
	return join(r, node, r->is_by_rdma ? ORIEL_COMM_BOTH_PATHS : 0);
}

enum oriel_status rank_join_with(struct rank *r, unsigned flags)
{
	return join(r, NULL, flags);
}

void give_up(const struct rank *r, const char *what)
{
	fprintf(stderr, "rank %u of %u, %s/%s: %s: %s: %s\n", r->rank, r->size,
		r->suite ? r->suite : "", r->name ? r->name : "", what,
		oriel_status_name(oriel_last_status()), oriel_last_error());
	fflush(NULL);
	_exit(1);
}

/* Abort before the destruction: on a broken communicator no rank waits for another. */
static void rank_leave(struct rank *r)
{
	if (r->comm) {
		oriel_comm_abort(r->comm, "the case is over");
		CHECK_QUIET(r, oriel_window_destroy(r->window));
		CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	}
	r->window = NULL;
	r->comm = NULL;
}

static void rank_open_window(struct rank *r, const struct test_case *c)
{
	struct oriel_window_attr attr = c->window ? *c->window : small_window;

	attr.flags |= r->backend->window_flags | (r->is_by_rdma ? ORIEL_WINDOW_RDMA : 0);
	if (oriel_window_create(r->comm, &attr, &r->window) ||
	    oriel_window_device(r->window, &r->dev) ||
	    oriel_window_buffer(r->window, 0, (void **)&r->base, &r->length))
		give_up(r, "cannot make a window");
}

/* A communicator has one handle, from the first of these cases on. */
static void rank_open_region(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .flags = r->backend->window_flags |
						  (r->is_by_rdma ? ORIEL_WINDOW_RDMA : 0)};
	unsigned flags = attr.flags & ORIEL_WINDOW_DEVICE ? ORIEL_MEMORY_DEVICE : 0;
	uint32_t number = 0;

	r->length = small_window.length;
	if ((!r->has_handle && oriel_comm_device_create(r->comm, &attr)) ||
	    oriel_comm_device(r->comm, &r->dev) ||
	    oriel_memory_alloc(r->length, flags, (void **)&r->base) ||
	    oriel_region_register(r->comm, r->base, r->length, &r->region) ||
	    oriel_region_publish(r->region, &number) || number != REGION)
		give_up(r, "cannot publish a region");
	r->has_handle = true;
}

static void rank_close_region(struct rank *r)
{
	if (!r->region)
		return;
	oriel_region_unregister(r->region);
	oriel_memory_free(r->base);
	r->region = NULL;
}

/* Set a last error that a successful call must leave alone. */
static void rank_fail_once(const struct rank *r)
{
	struct oriel_setting setting = {.size = sizeof(setting)};

	if (oriel_setting_get(UINT32_MAX, &setting) != ORIEL_ERR_RANGE)
		give_up(r, "there are more settings than can be");
}

static bool rank_has_one_machine(const struct rank *r)
{
	struct oriel_peer own = {.size = sizeof(own)}, peer = {.size = sizeof(peer)};
	unsigned i;

	if (oriel_comm_peer(r->comm, r->rank, &own) != ORIEL_OK)
		return false;
	for (i = 0; i < r->size; i++)
		if (oriel_comm_peer(r->comm, i, &peer) != ORIEL_OK ||
		    strcmp(peer.host, own.host) != 0)
			return false;
	return true;
}

static bool job_has_hca(void)
{
	const char *hca = getenv("ORIEL_HCA");

	return !hca || strcmp(hca, "none") != 0;
}

/* Return the same on all ranks, else some would wait for the others. */
static const char *case_why_not(const struct rank *r, const struct test_case *c)
{
	if (r->size < c->min_ranks)
		return "too few ranks";
	if (c->flags & NEEDS_ONE_MACHINE && !rank_has_one_machine(r))
		return "ranks of different machines have no memory in common";
	if (c->flags & NEEDS_MAPPED && (r->is_by_rdma || oriel_comm_domain_size(r->comm) < r->size))
		return "messages that carry their flags go through mapped memory alone";
	if (c->flags & NEEDS_HCA && !job_has_hca())
		return "different nodes have no path without a NIC";
	if (c->flags & NEEDS_NO_HCA && job_has_hca())
		return "a NIC is a path between different nodes";
	return NULL;
}

static bool case_reports(const struct test_case *c)
{
	return c->flags >> REPORTS_BITS;
}

static void rank_join_again(struct rank *r)
{
	if (rank_renew_bootstrap(r) != ORIEL_OK || rank_join(r, NULL) != ORIEL_OK)
		give_up(r, "cannot join again");
}

/* Collective. Return whether the case passed on all ranks. */
static bool case_run(struct rank *r, const struct suite *s, const struct test_case *c)
{
	bool leaves = c->flags & (OWN_COMM | BREAKS_COMM);
	enum oriel_status status;

	r->failures = 0;
	r->reported = 0;
	rank_fail_once(r);
	if (c->flags & OWN_COMM) {
		CHECK_QUIET(r, oriel_comm_destroy(r->comm));
		r->comm = NULL;
	} else if (c->flags & ON_REGION) {
		CHECK_QUIET(r, rank_open_region(r));
	} else if (!(c->flags & NO_WINDOW)) {
		CHECK_QUIET(r, rank_open_window(r, c));
	}
	r->backend->run(r, s, c);
	if (case_reports(c))
		r->failures = r->reported != (unsigned)c->flags >> REPORTS_BITS;
	if (c->flags & BREAKS_COMM)
		rank_meet_anyway(r);
	if (leaves) {
		rank_leave(r);
		CHECK_QUIET(r, rank_join_again(r));
	}
	CHECK_QUIET(r, rank_close_region(r));
	CHECK_QUIET(r, oriel_window_destroy(r->window));
	r->window = NULL;
	status = oriel_comm_agree(r->comm, r->failures ? ORIEL_ERR_STATE : ORIEL_OK);
	if (status != ORIEL_OK && status != ORIEL_ERR_STATE)
		give_up(r, "cannot agree");
	return status == ORIEL_OK;
}

static bool case_is_wanted(const struct plan *plan, const struct suite *s,
			   const struct test_case *c)
{
	char full[160];
	int i;

	snprintf(full, sizeof(full), "%s/%s", s->name, c->name);
	for (i = 0; i < plan->filter_count; i++)
		if (strstr(full, plan->filters[i]))
			return true;
	return plan->filter_count == 0 && !case_reports(c);
}

struct totals {
	unsigned passed;
	unsigned failed;
	unsigned skipped;
	unsigned late; /* not begun: the time of their suite was over */
};

static void case_account(struct rank *r, const struct suite *s, const struct test_case *c,
			 uint64_t end, struct totals *totals)
{
	const char *why_not = case_why_not(r, c);
	bool passed;

	r->suite = s->name;
	r->name = c->name;
	if (why_not) {
		totals->skipped++;
		return;
	}
	/* The last line of a report that its limit ended names the case that hung. */
	if (end && r->rank == 0) {
		printf("run  %s/%s\n", s->name, c->name);
		fflush(stdout);
	}
	passed = case_run(r, s, c);
	if (passed)
		totals->passed++;
	else
		totals->failed++;
	if (r->rank == 0) {
		printf("%s %s/%s\n", passed ? "ok  " : "FAIL", s->name, c->name);
		fflush(stdout);
	}
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Collective: the first rank whose clock is at @end ends the suite for all. @end 0: never. */
static bool suite_is_over(const struct rank *r, uint64_t end)
{
	enum oriel_status status;

	if (!end)
		return false;
	status = oriel_comm_agree(r->comm, clock_ns() < end ? ORIEL_OK : ORIEL_ERR_TIMEOUT);
	if (status != ORIEL_OK && status != ORIEL_ERR_TIMEOUT)
		give_up(r, "cannot agree on the time");
	return status != ORIEL_OK;
}

static void suite_run(const struct plan *plan, struct rank *r, const struct suite *s, uint64_t end,
		      struct totals *totals)
{
	bool is_over = false, is_first = true;
	size_t i;

	for (i = 0; i < s->count; i++) {
		if (!case_is_wanted(plan, s, &s->cases[i]))
			continue;
		is_over = is_over || (!is_first && suite_is_over(r, end));
		is_first = false;
		if (is_over)
			totals->late++;
		else
			case_account(r, s, &s->cases[i], end, totals);
	}
}

static unsigned suite_wanted(const struct plan *plan, const struct suite *s)
{
	unsigned count = 0;

	for (size_t i = 0; i < s->count; i++)
		count += case_is_wanted(plan, s, &s->cases[i]);
	return count;
}

static void report_nic(const struct rank *r)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	if (oriel_comm_nic(r->comm, &nic) != ORIEL_OK)
		printf("nic none\n");
	else
		printf("nic %s %s: tier %s, posted to by %s, network %s, %s\n", nic.kind, nic.name,
		       *nic.tier ? nic.tier : "-", nic.is_proxied ? "a proxy" : "callers",
		       nic.is_reordered ? "relaxed" : "ordered",
		       nic.has_wait ? "queues WAIT" : "no queue WAITs");
}

/*
 * A report that its limit ends has no lines of the suites behind the case that hung: these lines
 * name them.
 */
static void report_plan(const struct plan *plan)
{
	const struct backend *b = plan->backend;
	unsigned count;

	for (size_t i = 0; i < b->count; i++) {
		count = suite_wanted(plan, b->suites[i]);
		if (count)
			printf("plan %s: %u cases\n", b->suites[i]->name, count);
	}
	fflush(stdout);
}

static void report_suite(const struct suite *s, const struct totals *t, uint64_t ns)
{
	printf("suite %s: %u passed, %u failed, %u do not apply, %u had no time, %.1f s\n", s->name,
	       t->passed, t->failed, t->skipped, t->late, (double)ns / 1e9);
	fflush(stdout);
}

static void run_suites(const struct plan *plan, struct rank *r, struct totals *totals)
{
	uint64_t begin, end = clock_ns() + plan->seconds * UINT64_C(1000000000);
	const struct backend *b = plan->backend;
	unsigned left = 0;
	size_t i;

	for (i = 0; i < b->count; i++)
		left += suite_wanted(plan, b->suites[i]) > 0;
	for (i = 0; i < b->count; i++) {
		struct totals t = {0};
		uint64_t share;

		if (!suite_wanted(plan, b->suites[i]))
			continue;
		begin = clock_ns();
		share = begin < end ? (end - begin) / left : 0;
		left--;
		suite_run(plan, r, b->suites[i], plan->seconds ? begin + share : 0, &t);
		if (plan->seconds && r->rank == 0)
			report_suite(b->suites[i], &t, clock_ns() - begin);
		totals->passed += t.passed;
		totals->failed += t.failed;
		totals->skipped += t.skipped;
		totals->late += t.late;
	}
}

/* Run one rank from its bootstrap to its end. */
static bool rank_main(const struct plan *plan, const struct oriel_bootstrap *master)
{
	struct rank r = {.rank = master->rank,
			 .size = master->size,
			 .master = master,
			 .backend = plan->backend,
			 .is_thread = plan->threads,
			 .is_by_rdma = plan->is_by_rdma,
			 .group = oriel_dev_thread()};
	struct totals totals = {0};
	char node[16];

	/* Nodes hold blocks of ranks, as in oriel run. */
	snprintf(node, sizeof(node), "node%u", (unsigned)((uint64_t)r.rank * plan->nodes / r.size));
	r.node = plan->nodes ? node : NULL;
	if (r.backend->open)
		r.backend->open(&r);
	if (rank_renew_bootstrap(&r) != ORIEL_OK || rank_join(&r, NULL) != ORIEL_OK)
		give_up(&r, "cannot join");
	if (plan->seconds && r.rank == 0) {
		report_nic(&r);
		report_plan(plan);
	}
	run_suites(plan, &r, &totals);
	oriel_comm_destroy(r.comm);
	oriel_bootstrap_close(&r.bootstrap);
	if (r.backend->close)
		r.backend->close(&r);
	if (r.rank == 0)
		printf("%u ranks: %u cases passed, %u failed, %u do not apply, %u had no time\n",
		       r.size, totals.passed, totals.failed, totals.skipped, totals.late);
	return totals.failed == 0 && totals.passed > 0;
}

struct thread_rank {
	const struct plan *plan;
	struct oriel_local_job *job;
	unsigned rank;
	bool passed;
};

static void *thread_main(void *argument)
{
	struct thread_rank *t = argument;
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_local(t->job, t->rank, &bootstrap) != ORIEL_OK) {
		fprintf(stderr, "rank %u: %s\n", t->rank, oriel_last_error());
		_exit(1);
	}
	t->passed = rank_main(t->plan, &bootstrap);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static bool run_threads(const struct plan *plan)
{
	struct thread_rank *ranks = calloc(plan->threads, sizeof(*ranks));
	pthread_t *threads = calloc(plan->threads, sizeof(*threads));
	struct oriel_local_job *job;
	bool passed = true;
	unsigned i;

	if (!ranks || !threads || oriel_local_job_create(plan->threads, &job) != ORIEL_OK)
		abort();
	for (i = 0; i < plan->threads; i++) {
		ranks[i] = (struct thread_rank){plan, job, i, false};
		if (pthread_create(&threads[i], NULL, thread_main, &ranks[i]))
			abort();
	}
	for (i = 0; i < plan->threads; i++) {
		pthread_join(threads[i], NULL);
		passed = passed && ranks[i].passed;
	}
	oriel_local_job_destroy(job);
	free(threads);
	free(ranks);
	return passed;
}

static bool run_process(const struct plan *plan)
{
	struct oriel_bootstrap bootstrap;
	bool passed;

	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK) {
		fprintf(stderr, "%s\n", oriel_last_error());
		return false;
	}
	passed = rank_main(plan, &bootstrap);
	oriel_bootstrap_close(&bootstrap);
	return passed;
}

/*
 * The aborts and faults of the cases would fill the log; failed claims print texts of their own.
 */
static void log_drop(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)level;
	(void)message;
}

bool has_algorithm(unsigned algorithm)
{
	return strcmp(oriel_algorithm_name((enum oriel_algorithm)algorithm), "unknown") != 0;
}

void harness_drop_log(void)
{
	oriel_log_set_sink(log_drop, NULL);
}

/* Take "--name NUMBER" from the front of the filters; false if the number is missing. */
static bool plan_take(struct plan *plan, const char *name, unsigned *number)
{
	if (plan->filter_count == 0 || strcmp(plan->filters[0], name) != 0)
		return true;
	if (plan->filter_count > 1)
		*number = (unsigned)strtoul(plan->filters[1], NULL, 10);
	plan->filters += 2;
	plan->filter_count -= 2;
	if (!*number)
		fprintf(stderr, "%s needs a number\n", name);
	return *number;
}

int conformance_main(int argc, char **argv, const struct backend *backend)
{
	struct plan plan = {.backend = backend, .filters = argv + 1, .filter_count = argc - 1};

	if (!plan_take(&plan, "--threads", &plan.threads) ||
	    (plan.threads && !plan_take(&plan, "--nodes", &plan.nodes)) ||
	    !plan_take(&plan, "--seconds", &plan.seconds))
		return 2;
	plan.is_by_rdma = plan.filter_count && strcmp(plan.filters[0], "--rdma") == 0;
	plan.filters += plan.is_by_rdma;
	plan.filter_count -= plan.is_by_rdma;
	if (!getenv("ORIEL_LOG"))
		harness_drop_log();
	return (plan.threads ? run_threads(&plan) : run_process(&plan)) ? 0 : 1;
}
