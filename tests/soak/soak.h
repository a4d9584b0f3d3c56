/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One round of the soak: a program of operations that all ranks draw from one
 * seed, so that each knows what every byte, signal, counter and message of the
 * others must be.
 *
 * The operations of an epoch stand in one list, and every lane does its own in
 * the order of the list. A wait is for what stands before it, and those that
 * need two sides have one entry: so the first operation not yet done can always
 * be done, and nothing hangs. Within an epoch nobody writes a byte twice or
 * reads what is written without a wait.
 */
#ifndef SOAK_H
#define SOAK_H

#include <stdatomic.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define SOAK_RANKS 8u
#define SOAK_LANES 3u
#define SOAK_WINDOWS 3u
#define SOAK_BUFFERS 3u
#define SOAK_OPS 256u
#define SOAK_ARENA (512u << 10)
#define SOAK_WORDS 16u /* at the start of buffer 0, for fetch_add */
#define SOAK_WORD_BYTES (SOAK_WORDS * 8u)
#define SOAK_TOUCHES (2u * SOAK_OPS)
#define SOAK_TEXT 256u

struct soak_random {
	uint64_t state;
};

/* splitmix64. */
uint64_t soak_next(struct soak_random *random);
/* Below @limit; 0 if that is 0. */
uint64_t soak_below(struct soak_random *random, uint64_t limit);
bool soak_chance(struct soak_random *random, unsigned one_in);

/* Bytes @from on of the endless text called @key; the first that is not so. */
uint64_t soak_word(uint64_t key, uint64_t index);
void soak_fill(void *at, size_t length, uint64_t key, uint64_t from);
size_t soak_first_wrong(const void *at, size_t length, uint64_t key, uint64_t from);

enum soak_fate {
	SOAK_SURVIVES,
	SOAK_ABORT,      /* a rank calls oriel_comm_abort() */
	SOAK_KILL,       /* a rank dies */
	SOAK_STOP,       /* a rank does not go on */
	SOAK_FAIL_WQE,   /* QPs go into error */
	SOAK_BLACK_HOLE, /* QPs are cut off */
};

/* What a seed says of a round before anybody has started. */
struct soak_plan {
	uint64_t seed;
	unsigned ranks, nodes;
	bool is_threads;
	bool is_lazy, has_connect; /* links made by the first window, or asked for before */
	enum soak_fate fate;
	unsigned victim; /* rank of fate, where it has one */
	unsigned epochs;
	unsigned fatal_epoch, fatal_op;
	unsigned lanes;
	unsigned teams[SOAK_RANKS][SOAK_LANES]; /* threads of each */
	char adapter[SOAK_TEXT];                /* ORIEL_SOFT_HCA */
};

void soak_plan_draw(struct soak_plan *plan, uint64_t seed);
const char *soak_fate_name(enum soak_fate fate);
/* May all ranks end well? They must all end alike in any case. */
bool soak_fate_is_sure(enum soak_fate fate);

enum soak_kind {
	SOAK_PUT,
	SOAK_PUT_VALUE,
	SOAK_GET,
	SOAK_PUT_SIGNAL,
	SOAK_PUT_COUNTER,
	SOAK_PUT_SIGNAL_COUNTER,
	SOAK_SIGNAL_COUNTER,
	SOAK_ADD,
	SOAK_SET,
	SOAK_SIGNAL_ALL,
	SOAK_WAIT_SIGNAL,
	SOAK_WAIT_NEXT,
	SOAK_WAIT_SUM,
	SOAK_WAIT_COUNTER,
	SOAK_WAIT_LOCAL,
	SOAK_FETCH_ADD,
	SOAK_SEND,
	SOAK_RECV,
	SOAK_STREAM, /* send and recv at once, longer than the staging */
	SOAK_BARRIER,
	SOAK_SPLIT,
	SOAK_FLAT,
	SOAK_PAIR,
	SOAK_DRAIN,
	SOAK_FLUSH,
	SOAK_BAD, /* beyond the end: must be refused */
	SOAK_KINDS,
};

const char *soak_kind_name(enum soak_kind kind);

struct soak_op {
	uint8_t kind, window, rank, lane, peer;
	bool is_host;    /* the host call, where there is one */
	bool is_patient; /* a rest before it */
	uint32_t id;     /* signal, channel, slot, or the operation waited for */
	uint32_t counter;
	uint32_t buffer, offset, length;
	uint32_t taken;         /* bytes that the peer takes out of a stream */
	uint32_t slice;         /* where in the arena of the lane its bytes are ... */
	uint32_t slice_of_peer; /* ... and in that of the peer's lane */
	int32_t upto;   /* what the source did up to this operation is visible after; -1: nothing */
	uint64_t value; /* operand; place in a stream */
	uint64_t key;   /* of its bytes */
};

/* Who touched bytes of a buffer in this epoch. */
struct soak_touch {
	uint32_t begin, end;
	bool is_write;
};

/* What must be, after all drawn so far. */
struct soak_buffer {
	uint8_t *bytes;
	uint32_t length;
	unsigned touches;
	struct soak_touch touch[SOAK_TOUCHES];
};

struct soak_signal {
	uint64_t value, base;
	int32_t raised; /* by which operation of this epoch, -1: none */
};

struct soak_counter {
	uint64_t value;
	int32_t raised;
};

struct soak_stream {
	uint64_t sent, received;
	int32_t last; /* operation of this epoch that sent, -1: none */
};

struct soak_window {
	bool is_live;
	uint64_t number; /* of all windows of the round */
	struct oriel_window_attr attr;
	bool has_own_memory; /* buffer 0 is the caller's */
	unsigned buffers;
	struct soak_buffer *buffer[SOAK_BUFFERS][SOAK_RANKS];
	struct soak_signal *signals;   /* [at][source][id] */
	struct soak_counter *counters; /* [rank][peer][counter] */
	struct soak_stream *streams;   /* [from][to][channel] */

	/* this rank's */
	struct oriel_window *window;
	struct oriel_dev_window dev;
	char *base[SOAK_BUFFERS];
	void *memory[SOAK_BUFFERS]; /* to be freed */
};

struct soak_world {
	const struct soak_plan *plan;
	unsigned rank; /* whose copy this is */
	struct soak_random random;
	bool is_rdma[SOAK_RANKS][SOAK_RANKS];
	uint64_t windows_made;
	struct soak_window window[SOAK_WINDOWS];
	unsigned epoch, count;
	struct soak_op ops[SOAK_OPS];
	uint32_t arena[SOAK_RANKS][SOAK_LANES]; /* used */
};

struct soak_signal *soak_signal_of(const struct soak_world *world, unsigned window, unsigned at,
				   unsigned source, unsigned id);
struct soak_counter *soak_counter_of(const struct soak_world *world, unsigned window, unsigned rank,
				     unsigned peer, unsigned counter);
struct soak_stream *soak_stream_of(const struct soak_world *world, unsigned window, unsigned from,
				   unsigned to, unsigned channel);
uint64_t soak_stream_key(const struct soak_world *world, unsigned window, unsigned from,
			 unsigned to, unsigned channel);

/* The operations of the next epoch, and what must be after them. */
void soak_draw(struct soak_world *world);

struct soak_rank {
	struct soak_world world;
	struct oriel_bootstrap *bootstrap;
	struct oriel_comm *comm;
	/* Of the lanes. An adapter may use them until a broken communicator is gone. */
	uint8_t *arena[SOAK_LANES];
	atomic_uint_fast64_t ops_done, bytes_checked;
	atomic_int failure; /* enum oriel_status of the first lane that ended early */
	atomic_int failed_op;
};

/* Collective: windows and buffers come and go, as the world draws. */
enum oriel_status soak_windows_change(struct soak_rank *r);
void soak_windows_close(struct soak_rank *r);
/* All that this rank has must be as the world says. Nobody may be writing. */
void soak_check_all(struct soak_rank *r);

/* This rank's part of the epoch that was drawn last. */
enum oriel_status soak_lanes_run(struct soak_rank *r);

/* A round of one rank; does not return if something is wrong. */
void soak_rank_main(const struct soak_plan *plan, struct oriel_bootstrap *bootstrap);

/* Tells what is wrong and ends the process. @i: the operation, -1 if none. */
_Noreturn void soak_wrong(const struct soak_world *world, int i, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same of bytes: those at @at should be those at @should. */
_Noreturn void soak_wrong_bytes(const struct soak_world *world, int i, const char *what,
				size_t place, const void *at, const void *should, size_t count);

#endif
