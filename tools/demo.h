/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `oriel demo`: the command and a rank's main function (demo), random data and the
 * comparison of sent with received data (demo_results), the operations that transfer bytes
 * (demo_ops) and their rounds (demo_data), those that transfer words (demo_words), and the table
 * of times (demo_bench).
 */
#ifndef ORIEL_DEMO_H
#define ORIEL_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define DEMO_MAX_RANKS 64
#define DEMO_BLOCK 131072u  /* bytes that each rank has at each other rank */
#define DEMO_LARGE 1048576u /* the largest transfer that is timed */
#define DEMO_ROUNDS 8u
#define DEMO_FILL 0xa5 /* content of an inbox before each round */

/* The uses of barrier slots, signals and counters. */
enum { DEMO_SLOT_ROUND, DEMO_SLOT_CASE, DEMO_SLOT_BENCH, DEMO_SLOTS };
enum { DEMO_SIGNAL_DATA, DEMO_SIGNAL_WORD, DEMO_SIGNAL_BENCH, DEMO_SIGNALS };
enum { DEMO_COUNTER_DATA, DEMO_COUNTER_WORD, DEMO_COUNTERS };

/* One transfer: bytes [offset, offset + length) of the block of source at target. */
struct demo_range {
	uint32_t offset;
	uint32_t length;
};

/*
 * A rank. Its window has an inbox and an outbox, both [ranks][DEMO_BLOCK], and then a line of
 * words; two more buffers are shared, each an inbox.
 */
struct demo {
	uint64_t seed;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window w;
	char *inbox[3]; /* by buffer number */
	char *outbox;
	char *local; /* DEMO_LARGE bytes or more of registered, ordinary memory */
	struct oriel_region *region;
	char *shared[2]; /* allocations that hold the other two buffers */
	struct demo_range outgoing[DEMO_MAX_RANKS]; /* by target */
	struct demo_range incoming[DEMO_MAX_RANKS]; /* by source */
};

/* Returns the block of @rank in an inbox or outbox. */
static inline char *demo_block(char *blocks, unsigned rank)
{
	return blocks + (size_t)rank * DEMO_BLOCK;
}

/* Offsets in the window, the same on all ranks. */
static inline uint64_t demo_outbox_at(const struct demo *d, unsigned target)
{
	return ((uint64_t)d->w.ranks + target) * DEMO_BLOCK;
}

static inline uint64_t demo_words_at(const struct demo *d)
{
	return 2ull * d->w.ranks * DEMO_BLOCK;
}

/* A transfer from this rank to @peer. @from may be overwritten once the operation permits it. */
struct demo_transfer {
	uint32_t peer;
	uint64_t to;
	char *from;
	uint64_t length;
};

#define DEMO_TEAM 3u /* threads */

struct demo_case {
	const char *name;
	unsigned threads; /* 1 or DEMO_TEAM */
	uint32_t buffer;  /* number of the target buffer */
	unsigned unit;    /* ranges are multiples of it */
	/* Whole group. Post one transfer; a negative status on failure. */
	enum oriel_status (*post)(struct demo *d, struct oriel_dev_group g,
				  const struct demo_transfer *transfer);
	/* Whole group. On return all transfers to this rank have arrived. */
	enum oriel_status (*wait)(struct demo *d, struct oriel_dev_group g);
};

extern const struct demo_case demo_cases[];
extern const size_t demo_case_count;

/* The results of one rank for a case; exchanged between the ranks. */
struct demo_record {
	uint64_t failures; /* detected on this rank */
	uint64_t transfers;
	uint64_t bytes;
	uint64_t sent[DEMO_MAX_RANKS];     /* checksum of all data sent, by target */
	uint64_t received[DEMO_MAX_RANKS]; /* checksum of all data received, by source */
};

/* One case: an operation, repeated between all pairs for several rounds. */
struct demo_results {
	const struct demo *d;
	const char *name;
	unsigned round;
	struct demo_record record;
};

/* Random numbers that source and target of a transfer both compute. */
struct demo_random {
	uint64_t state;
};

struct demo_random demo_random_of(const struct demo_results *r, unsigned source, unsigned target);
uint64_t demo_random_next(struct demo_random *random);

/*
 * Compute the DEMO_BLOCK bytes of @source at @target after this round. Begin and end of the range
 * are random too, in multiples of @unit bytes. With @image NULL only the range is computed.
 */
struct demo_range demo_image(const struct demo_results *r, unsigned source, unsigned target,
			     unsigned unit, char *image);

void demo_results_open(struct demo_results *r, const struct demo *d, const char *name);
void demo_results_sent(struct demo_results *r, unsigned target, const void *data, size_t length);
/* Adds to the checksum and compares; reports the first wrong byte. */
void demo_results_received(struct demo_results *r, unsigned source, const void *expected,
			   const void *got, size_t length);
/* The same for a word that was received in @transfers of 8 bytes each. */
void demo_results_received_word(struct demo_results *r, unsigned source, uint64_t expected,
				uint64_t got, unsigned transfers);
/* Counts a failure of the case if the two differ. */
void demo_results_compare(struct demo_results *r, unsigned peer, uint64_t expected, uint64_t got);
/*
 * Collective. Compares all checksums; rank 0 prints the line of the case. If @status says that the
 * operation failed on this rank, reports that and aborts the job.
 */
enum oriel_status demo_results_close(struct demo_results *r, enum oriel_status status);

/*
 * The operation failed on this rank: report the known causes, and abort the job so that no peer
 * waits for this rank.
 */
void demo_abort(const struct demo_results *r, enum oriel_status status);

/* Collective: all cases. The status is equal on all ranks unless a rank died. */
enum oriel_status demo_verify_data(struct demo *d);
enum oriel_status demo_verify_words(struct demo *d);
/* Collective: rank 0 prints the table. */
enum oriel_status demo_bench(struct demo *d);

#endif
