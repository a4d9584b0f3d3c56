/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that all ranks of a job run together, each over a fresh window. A rank
 * is a thread of one process or a process of its own; the cases cannot tell.
 */
#ifndef CONFORMANCE_HARNESS_H
#define CONFORMANCE_HARNESS_H

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define LONG_NS 60000000000u /* of every wait that should end well */
#define MOMENT_NS 1000000u   /* of every wait that cannot end well */

struct rank {
	unsigned rank;
	unsigned size;
	const struct oriel_bootstrap *master; /* of the harness alone */
	struct oriel_bootstrap bootstrap;     /* of communicators */
	bool is_thread;
	const char *node; /* of a thread among virtual nodes; NULL = ORIEL_NODE */
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev; /* of @window */
	struct oriel_dev_group group;
	char *base; /* buffer 0 of @window */
	size_t length;

	const char *suite;
	const char *name;
	uint32_t failures; /* of the running case; raised by any thread */
};

enum case_flags {
	OWN_COMM = 1,          /* starts without a communicator and leaves none */
	BREAKS_COMM = 2,       /* nobody needs the communicator afterwards */
	NO_WINDOW = 4,         /* makes its own */
	NEEDS_ONE_MACHINE = 8, /* joins all ranks in one domain */
	NEEDS_ADAPTER = 16,    /* ranks of different nodes must reach each other */
	NEEDS_NO_ADAPTER = 32, /* they must not */
	NEEDS_MAPPED = 64      /* all ranks see each other's memory */
};

struct test_case {
	const char *name; /* the claim */
	void (*run)(struct rank *r);
	const struct oriel_window_attr *window; /* NULL: small_window */
	unsigned min_ranks;
	unsigned flags;
};

struct suite {
	const char *name;
	const struct test_case *cases;
	size_t count;
};

#define SUITE(noun)                                                                 \
	{                                                                           \
#noun, noun##_cases, sizeof(noun##_cases) / sizeof(noun##_cases[0]) \
	}

extern const struct suite barrier_suite, channel_suite, connect_suite, counter_suite, data_suite,
	fault_suite, host_suite, ll_suite, ll128_suite, order_suite, region_suite, signal_suite,
	stuck_suite, team_suite, topo_suite, window_suite;

/* 64 KiB, 4 channels of 4 KiB, defaults. */
extern const struct oriel_window_attr small_window;

/*
 * A claim that does not hold is printed and counted; the case goes on, so that
 * the peers need not wait for a rank that has left. They return the claim.
 */
#define CHECK(r, claim) check_claim(r, claim, __FILE__, __LINE__, #claim)
#define CHECK_EQ(r, got, expected) \
	check_equal(r, (uint64_t)(got), (uint64_t)(expected), __FILE__, __LINE__, #got)
#define CHECK_STATUS(r, got, expected) check_status(r, got, expected, __FILE__, __LINE__, #got)
#define CHECK_OK(r, got) CHECK_STATUS(r, got, ORIEL_OK)
/* A ticket, not a status. */
#define CHECK_POSTED(r, got) check_posted(r, got, __FILE__, __LINE__, #got)
#define CHECK_TEXT(r, text, part) check_text(r, text, part, __FILE__, __LINE__)

bool check_claim(struct rank *r, bool claim, const char *file, int line, const char *what);
bool check_equal(struct rank *r, uint64_t got, uint64_t expected, const char *file, int line,
		 const char *what);
bool check_status(struct rank *r, int64_t got, enum oriel_status expected, const char *file,
		  int line, const char *what);
bool check_posted(struct rank *r, int64_t got, const char *file, int line, const char *what);
bool check_text(struct rank *r, const char *text, const char *part, const char *file, int line);

unsigned rank_next(const struct rank *r);
unsigned rank_prev(const struct rank *r);
/* Does @from see the memory of @to? */
bool rank_is_mapped(const struct rank *r, unsigned from, unsigned to);
/* By which rail @peer is reached, which is not mapped. */
unsigned rank_rail(const struct rank *r, unsigned peer);
/* The same, and @to is not @from itself: only files pass memory between the two. */
bool rank_is_foreign(const struct rank *r, unsigned from, unsigned to);

/* Collective: what all ranks put before is visible to all after. */
void rank_settle(struct rank *r);

/* Collective, whatever is broken: nobody returns before all have called. */
void rank_meet_anyway(struct rank *r);

/* Collective: what comes after an aborted communicator, whose bootstrap may be broken. */
enum oriel_status rank_renew_bootstrap(struct rank *r);

/* Collective: a new communicator on the bootstrap; @node NULL: the rank's own. */
enum oriel_status rank_join(struct rank *r, const char *node);

/* Run @run in @count threads, which get 0 .. @count - 1, and wait for them. */
void rank_fork(struct rank *r, unsigned count,
	       void (*run)(struct rank *r, unsigned index, void *context), void *context);
/* The same as a team of @size. */
void rank_team(struct rank *r, uint32_t size,
	       void (*run)(struct rank *r, struct oriel_dev_group g, void *context), void *context);

/* Bytes that differ for every @seed; how many of those at @at are others. */
void fill(void *at, size_t length, uint64_t seed);
size_t wrong(const void *at, size_t length, uint64_t seed);
size_t not_all(const void *at, size_t length, unsigned char value);

#endif
