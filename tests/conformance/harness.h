/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that all ranks of a job run together, each over a fresh window. A rank is a thread of
 * one process or a process of its own; the cases cannot tell.
 *
 * A case of a device suite is compiled twice: for CPU threads, and as a kernel (kernels.h),
 * where all threads of a group run it together. So it calls single-thread functions through
 * ALONE(), keeps memory that a peer or a NIC accesses in RANK_ARRAY() or rank_alloc(), and uses
 * the functions below for work that only a host can do.
 */
#ifndef CONFORMANCE_HARNESS_H
#define CONFORMANCE_HARNESS_H

#include <oriel/dev.h>
#include <oriel/oriel.h>

#include "conformance.h"

#define LONG_NS 60000000000u /* timeout of every wait that must succeed */
#define MOMENT_NS 1000000u   /* timeout of every wait that cannot succeed */

#ifdef __cplusplus
extern "C" {
#endif

struct gpu;

struct rank {
	unsigned rank;
	unsigned size;
	const struct oriel_bootstrap *master; /* used by the harness alone */
	struct oriel_bootstrap bootstrap;     /* used by communicators */
	bool is_thread;
	bool is_by_rdma;  /* windows of the harness have ORIEL_WINDOW_RDMA */
	const char *node; /* of a thread among virtual nodes; NULL = ORIEL_NODE */
	const struct backend *backend;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_region *region;
	bool has_handle;             /* @comm: of its own */
	struct oriel_dev_window dev; /* of @window, or of a case ON_REGION that handle */
	struct oriel_dev_group group;
	char *base; /* buffer 0 of @window, or of a case ON_REGION the region */
	size_t length;
	unsigned stream; /* of a case IN_STREAMS: 0 .. STREAMS - 1 */
	uint64_t round;  /* of a case IN_ROUNDS: 1 .. its last */

	const char *suite;
	const char *name;
	uint32_t failures; /* in the running case; any thread increments it */
	uint32_t reported; /* those of this process */

	struct gpu *gpu;       /* NULL where cases run on CPUs */
	struct pinned *pinned; /* in kernels: requests to the host; kernels.h */
	struct grid *grid;     /* in kernels: shared by the groups of one launch */
	char *memory;          /* in kernels: memory of all groups */
	unsigned worker;       /* in kernels: the group's number; 0 runs the case */
	size_t taken;          /* in kernels: bytes used of the group's memory */
};

enum case_flags {
	OWN_COMM = 1,          /* starts without a communicator and leaves none */
	BREAKS_COMM = 2,       /* no code uses the communicator afterwards */
	NO_WINDOW = 4,         /* creates its own windows */
	NEEDS_ONE_MACHINE = 8, /* joins all ranks in one domain */
	NEEDS_HCA = 16,        /* ranks of different nodes reach each other */
	NEEDS_NO_HCA = 32,     /* they must not */
	NEEDS_MAPPED = 64,     /* all ranks see each other's memory */
	IN_ROUNDS = 128,       /* one launch for each round; on a GPU launches of one graph */
	IN_STREAMS = 256,      /* STREAMS launches at once */
	ON_REGION = 512,       /* by the communicator's own handle, which has a region REGION */
};

/*
 * The case makes this number of false claims, and passes if each is reported; it runs only if
 * named.
 */
#define REPORTS_BITS 16
#define REPORTS(count) ((count) << REPORTS_BITS)

#define STREAMS 4u
#define REGION 1u

struct test_case {
	const char *name;                       /* the claim */
	void (*run)(struct rank *r);            /* NULL if the case is a kernel */
	const struct oriel_window_attr *window; /* NULL: small_window */
	unsigned min_ranks;
	unsigned flags;
};

struct suite {
	const char *name;
	const struct test_case *cases;
	size_t count;
	/* Run on the host by host_do() of its cases, and by the thread that serves a kernel. */
	void (*host)(struct rank *r, unsigned what, uint64_t word);
	/* Put case @index into a stream and return a cudaError_t. NULL on CPUs. */
	int (*launch)(const struct rank *r, unsigned index, void *stream);
};

/* The threads or GPUs that run the cases. */
struct backend {
	const struct suite *const *suites;
	size_t count;
	unsigned comm_flags;
	unsigned window_flags;
	void (*open)(struct rank *r); /* before it joins */
	void (*run)(struct rank *r, const struct suite *s, const struct test_case *c);
	void (*close)(struct rank *r);
};

#define SUITE(noun)                                                                             \
	{                                                                                       \
#noun, noun##_cases, sizeof(noun##_cases) / sizeof(noun##_cases[0]), NULL, NULL \
	}

extern const struct suite access_suite, agent_suite, agent_lie_suite, atomic_suite, barrier_suite,
	both_suite, both_lie_suite, cached_suite, channel_suite, connect_suite, counter_suite,
	demand_suite, allgather_suite, data_suite, exchange_suite, fault_suite, fold_suite,
	gather_suite, handle_suite, host_suite, ll_suite, ll128_suite, lie_suite, order_suite,
	reduce_suite, region_suite, replay_suite, series_suite, series_reduce_suite, signal_suite,
	split_suite, started_suite, stuck_host_suite, stuck_suite, team_suite, topo_suite,
	window_suite;

/* 64 KiB, 4 channels of 4 KiB, defaults. */
extern const struct oriel_window_attr small_window;

bool check_claim(struct rank *r, bool claim, const char *file, int line, const char *what);
bool check_equal(struct rank *r, uint64_t got, uint64_t expected, const char *file, int line,
		 const char *what);
bool check_status(struct rank *r, int64_t got, enum oriel_status expected, const char *file,
		  int line, const char *what);
/* Check that no call of this thread has failed since its check_begin(). */
void check_begin(void);
bool check_quiet(struct rank *r, const char *file, int line, const char *what);
bool check_posted(struct rank *r, int64_t got, const char *file, int line, const char *what);
bool check_text(struct rank *r, const char *text, const char *part, const char *file, int line);
/* Check that a team of @size is rejected; nvcc does not know teams in code for GPUs. */
void check_no_team(struct rank *r, uint32_t size);
/* rank_is_mapped(), and @to is another process: only files pass memory between the two. */
bool rank_is_foreign(const struct rank *r, unsigned from, unsigned to);

/* Collective: replace a bootstrap that an aborted communicator may have broken. */
enum oriel_status rank_renew_bootstrap(struct rank *r);

/* oriel_window_fault(), or of a case ON_REGION oriel_comm_device_fault(). */
enum oriel_status host_fault(struct rank *r, struct oriel_dev_fault *fault);

/* Collective, for hosts: rank_meet_anyway(). */
void host_meet(struct rank *r);

/* Collective: a new communicator on the bootstrap; @node NULL: the rank's own. */
enum oriel_status rank_join(struct rank *r, const char *node);
/* The same on the rank's own node, with these enum oriel_comm_flags as well. */
enum oriel_status rank_join_with(struct rank *r, unsigned flags);

/* Is there such an algorithm? They have the numbers from 0 on. */
bool has_algorithm(unsigned algorithm);

/* Drop the log, unless ORIEL_LOG is set: no test reads it. */
void harness_drop_log(void);

/* End the process: the harness itself failed, so ranks cannot agree on a result. */
void give_up(const struct rank *r, const char *what);

ORIEL_DEV unsigned rank_next(const struct rank *r)
{
	return (r->rank + 1) % r->size;
}

ORIEL_DEV unsigned rank_prev(const struct rank *r)
{
	return (r->rank + r->size - 1) % r->size;
}

/* Byte @i of a pattern that differs for every @seed. */
ORIEL_DEV unsigned char pattern(uint64_t seed, size_t i)
{
	return (unsigned char)(seed * 37 + i * 11 + (i >> 8) * 59 + (i >> 16) * 101);
}

/* Do processors execute the atomics of @r on words of @peer, which others may reach by a NIC? */
ORIEL_DEV bool atomics_are_mapped(const struct rank *r, unsigned peer)
{
	return oriel_dev_path(&r->dev, peer) != ORIEL_PATH_RDMA &&
	       !(r->dev.inline_wide & ORIEL_DEV_ATOMICS_BY_NIC);
}

#ifdef __CUDACC__
#include "kernels.h"
#else

#define CASE static        /* functions of cases */
#define CASE_DATA static   /* their tables */
#define CASE_PASSED static /* for functions that take functions of cases */

/*
 * A claim that does not hold is printed and counted; the case continues, so that no peer waits
 * for a rank that left. The checks return the claim.
 */
#define CHECK(r, claim) check_claim(r, claim, __FILE__, __LINE__, #claim)
#define CHECK_EQ(r, got, expected) \
	check_equal(r, (uint64_t)(got), (uint64_t)(expected), __FILE__, __LINE__, #got)
/* Check the status, and that a successful call leaves the last error as it was. */
#define CHECK_STATUS(r, got, expected) \
	check_status(r, (check_begin(), (got)), expected, __FILE__, __LINE__, #got)
#define CHECK_OK(r, got) CHECK_STATUS(r, got, ORIEL_OK)
#define CHECK_QUIET(r, call) (check_begin(), (call), check_quiet(r, __FILE__, __LINE__, #call))
/* Check that @got is a ticket, not an error. */
#define CHECK_POSTED(r, got) check_posted(r, got, __FILE__, __LINE__, #got)
#define CHECK_TEXT(r, text, part) check_text(r, text, part, __FILE__, __LINE__)
/* Check the text of the last failure, or of the last fault that was taken. */
#define CHECK_LAST(r, part) CHECK_TEXT(r, oriel_last_error(), part)

/* Memory that a peer or a NIC accesses; it lives as long as a variable would. */
#define RANK_ARRAY(r, type, name, count) type name[count]
void *rank_alloc(struct rank *r, size_t length);
void rank_free(struct rank *r, void *memory);

/* Let one thread of the group of @r make the call; all of the group get its result. */
#define ALONE(r, call) (call)
/* All threads of the group of @r get the leader's value. */
#define SHARED(r, value) (value)

/* Whether the window of the harness maps the memory of @to at @from. In kernels one of the two is
 * @r. */
bool rank_is_mapped(const struct rank *r, unsigned from, unsigned to);
/* Whether @peer is in the domain of @r for the memory of its handle. */
bool rank_is_in_domain(const struct rank *r, unsigned peer);
/* The rail through which @r reaches @peer, which is not mapped. */
unsigned rank_rail(const struct rank *r, unsigned peer);

/* Collective: puts of any rank from before the call are visible to all ranks after it. */
void rank_flush_barrier(struct rank *r);

/* Collective on a broken communicator, too: no rank returns before all have called. */
#define rank_meet_anyway(r) host_meet(r)

/* oriel_comm_barrier(), oriel_window_device(), the next rejected arguments of the handle. */
enum oriel_status rank_barrier(struct rank *r);
enum oriel_status rank_device(struct rank *r, struct oriel_dev_window *w);
enum oriel_status rank_fault(struct rank *r, struct oriel_dev_fault *fault);
/* oriel_comm_abort(); one thread calls it. */
void rank_abort(struct rank *r);

/* Check that no failure has broken the communicator. */
void rank_check_healthy(struct rank *r);

/* Let the host run @host of the suite with @what and @word. */
#define host_do(r, host, what, word) host(r, what, word)

/* Run @run in @count groups, which get 0 .. @count - 1, and wait for them. */
void rank_fork(struct rank *r, unsigned count,
	       void (*run)(struct rank *r, unsigned index, void *context), void *context);
/* The same as a team of @size; in a kernel by the group of @r, whatever its size. */
void rank_team(struct rank *r, uint32_t size,
	       void (*run)(struct rank *r, struct oriel_dev_group g, void *context), void *context);

/* Write a pattern that differs for every @seed; count the bytes at @at that differ from it. */
void fill(void *at, size_t length, uint64_t seed);
size_t wrong(const void *at, size_t length, uint64_t seed);
size_t not_all(const void *at, size_t length, unsigned char value);
/* The whole group writes, and each of its threads sees all of it afterwards. */
void group_fill(struct oriel_dev_group g, void *at, size_t length, uint64_t seed);
void group_flood(struct oriel_dev_group g, void *at, size_t length, unsigned char value);

#define CASE_ROW(name, window, ranks, flags) {#name, name, window, ranks, flags},
/*
 * A suite of cases that may be kernels: CASES(ROW) is a list of
 * ROW(name, window, ranks, flags), FORKS(ROW) one of what rank_fork() runs.
 */
#define DEVICE_SUITE(noun, CASES, FORKS, host)                                                   \
	static const struct test_case noun##_cases[] = {CASES(CASE_ROW)};                        \
	const struct suite noun##_suite = {#noun, noun##_cases,                                  \
					   sizeof(noun##_cases) / sizeof(noun##_cases[0]), host, \
					   NULL}

#endif

#define NO_FORKS(ROW)

#ifdef __cplusplus
}
#endif

#endif
