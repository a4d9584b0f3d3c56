/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `oriel demo`: the command and what a rank does (demo), random
 * data and the comparison of what was sent with what came (demo_results), the
 * operations that transfer bytes (demo_ops) in rounds (demo_data), those that transfer
 * words (demo_words), and the table of times (demo_bench).
 */
#ifndef ORIEL_DEMO_H
#define ORIEL_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define DEMO_MAX_RANKS 64
#define DEMO_BLOCK 131072u  /* bytes that each rank has at each other */
#define DEMO_LARGE 1048576u /* the largest transfer that is timed */
#define DEMO_ROUNDS 8u
#define DEMO_FILL 0xa5 /* what lies there before */

/* Which slots and ids belong to what. */
enum { DEMO_SLOT_ROUND, DEMO_SLOT_CASE, DEMO_SLOT_BENCH, DEMO_SLOTS };
enum { DEMO_SIGNAL_DATA, DEMO_SIGNAL_WORD, DEMO_SIGNAL_BENCH, DEMO_SIGNALS };
enum { DEMO_COUNTER_DATA, DEMO_COUNTER_WORD, DEMO_COUNTERS };

/* One transfer: bytes [offset, offset + length) of the room of source at target. */
struct demo_range {
	uint32_t offset;
	uint32_t length;
};

/*
 * A rank. Its window has an inbox and an outbox, both [ranks][DEMO_BLOCK], and
 * then a line of words; two more buffers are shared, each an inbox.
 */
struct demo {
	uint64_t seed;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window w;
	char *inbox[3]; /* by number of the buffer */
	char *outbox;
	char *local; /* DEMO_LARGE bytes at least of ordinary memory, registered */
	struct oriel_region *region;
	char *shared[2];                            /* allocations behind the other two buffers */
	struct demo_range outgoing[DEMO_MAX_RANKS]; /* by target */
	struct demo_range incoming[DEMO_MAX_RANKS]; /* by source */
};

/* The room of @rank in an inbox or outbox. */
static inline char *demo_block(char *blocks, unsigned rank)
{
	return blocks + (size_t)rank * DEMO_BLOCK;
}

/* Places in the window, the same on all ranks. */
uint64_t demo_outbox_at(const struct demo *d, unsigned target);
uint64_t demo_words_at(const struct demo *d);

/*
 * Bytes from here to @peer. @from may be scribbled on as soon as the operation
 * promises that.
 */
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
	uint32_t buffer;  /* into which the bytes go */
	unsigned unit;    /* cuts are multiples of it */
	/* Whole group. Send one range; the status if negative. */
	int64_t (*post)(struct demo *d, struct oriel_dev_group g,
			const struct demo_transfer *transfer);
	/* Whole group. On return all that was sent here has come. */
	enum oriel_status (*wait)(struct demo *d, struct oriel_dev_group g);
};

extern const struct demo_case demo_cases[];
extern const size_t demo_case_count;

/* What one rank knows of a case when it is over. Travels between the ranks. */
struct demo_record {
	uint64_t failures; /* seen here */
	uint64_t transfers;
	uint64_t bytes;
	uint64_t sent[DEMO_MAX_RANKS]; /* checksum of all that left, by target */
	uint64_t got[DEMO_MAX_RANKS];  /* and of all that came, by source */
};

/* One case: an operation, tried between all pairs in several rounds. */
struct demo_results {
	const struct demo *d;
	const char *name;
	unsigned round;
	struct demo_record record;
};

/* Random numbers that source and target of a transfer both can make. */
struct demo_random {
	uint64_t state;
};

struct demo_random demo_random_of(const struct demo_results *r, unsigned source, unsigned target);
uint64_t demo_random_next(struct demo_random *random);

/*
 * What DEMO_BLOCK bytes of @source at @target hold after this round. Where the
 * range begins and ends is random too, in multiples of @unit bytes. A NULL
 * image is not painted.
 */
struct demo_range demo_image(const struct demo_results *r, unsigned source, unsigned target,
			     unsigned unit, char *image);

void demo_results_open(struct demo_results *r, const struct demo *d, const char *name);
void demo_results_sent(struct demo_results *r, unsigned target, const void *data, size_t length);
/* Compares too; tells of the first byte that is wrong. */
void demo_results_received(struct demo_results *r, unsigned source, const void *expected,
			   const void *got, size_t length);
/* The same for a word that came in @transfers of 8 bytes each. */
void demo_results_received_word(struct demo_results *r, unsigned source, uint64_t expected,
				uint64_t got, unsigned transfers);
/* A failure of the case, if the two differ. */
void demo_results_compare(struct demo_results *r, unsigned peer, uint64_t expected, uint64_t got);
/*
 * Collective. Compares all checksums, prints the line of the case on rank 0. If
 * @status tells that the operation failed here, says so and ends the job.
 */
enum oriel_status demo_results_close(struct demo_results *r, enum oriel_status status);

/* An operation failed here: tell what can be known, do not leave the others waiting. */
void demo_abort(const struct demo_results *r, enum oriel_status status);

/* Collective: all cases. The status is the same on all ranks unless one of them died. */
enum oriel_status demo_verify_data(struct demo *d);
enum oriel_status demo_verify_words(struct demo *d);
/* Collective: rank 0 prints the table. */
enum oriel_status demo_bench(struct demo *d);

#endif
