/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One round of the soak: a program of operations that all ranks draw from one seed, so that each
 * knows the value of every byte, signal, counter and message of the others. soak.py starts the
 * rounds.
 *
 * The operations of an epoch are in one list, and every lane does its own in the order of the
 * list. A wait is for an operation before it, and an operation of two sides has one entry: so
 * the first operation not yet done can always be done, and nothing hangs. Within an epoch no
 * operation writes a byte twice, or reads a written byte without a wait.
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
/* A number below @limit; 0 if that is 0. */
uint64_t soak_below(struct soak_random *random, uint64_t limit);
bool soak_chance(struct soak_random *random, unsigned one_in);

/* Bytes of the endless text @key, from byte @from on; the first byte that differs from it. */
uint64_t soak_word(uint64_t key, uint64_t index);
void soak_fill(void *at, size_t length, uint64_t key, uint64_t from);
size_t soak_first_wrong(const void *at, size_t length, uint64_t key, uint64_t from);

enum soak_fate {
	SOAK_SURVIVES,
	SOAK_ABORT,      /* a rank calls oriel_comm_abort() */
	SOAK_KILL,       /* a rank dies */
	SOAK_STOP,       /* a rank makes no more calls */
	SOAK_FAIL_WQE,   /* QPs fail */
	SOAK_BLACK_HOLE, /* packets of QPs are dropped */
};

/* A round that broke may go on. */
enum soak_heal {
	SOAK_ENDS,
	SOAK_SHRINKS,  /* the ranks that are left go on by oriel_comm_shrink() */
	SOAK_REPLACES, /* then new processes come by oriel_comm_grow() */
};

/*
 * The round that a seed determines. A communicator of it is a life: the first one may break, the
 * second one has the ranks that are left, the third one new ranks, too. No rank of a later life
 * fails.
 */
struct soak_plan {
	uint64_t seed;
	unsigned life;
	unsigned ranks, nodes;
	bool is_threads;
	bool is_lazy, has_connect; /* links made by the first window, or by a call before it */
	bool is_proxied;           /* a thread of the host posts what kernels would */
	enum soak_fate fate;
	unsigned victim; /* the rank that the fate concerns */
	enum soak_heal heal;
	unsigned newcomers; /* processes of the third life that are new */
	unsigned epochs;
	unsigned fatal_epoch, fatal_op;
	unsigned lanes;
	unsigned teams[SOAK_RANKS][SOAK_LANES]; /* threads of each */
	char hca[SOAK_TEXT];                    /* value of ORIEL_SOFT_HCA */
};

void soak_plan_draw(struct soak_plan *plan, uint64_t seed);
/* The plan of the life after that of @before, which has @ranks. */
void soak_plan_follow(const struct soak_plan *before, unsigned ranks, struct soak_plan *plan);
const char *soak_fate_name(enum soak_fate fate);
const char *soak_heal_name(enum soak_heal heal);
/* Whether every rank must end with a status. All ranks must end alike in any case. */
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
	SOAK_BAD, /* beyond the end: must be rejected */
	SOAK_KINDS,
};

const char *soak_kind_name(enum soak_kind kind);

struct soak_op {
	uint8_t kind, window, rank, lane, peer;
	bool is_host;    /* by a host function */
	bool is_patient; /* sleeps before the call */
	uint32_t id;     /* signal, channel, slot, or the operation waited for */
	uint32_t counter;
	uint32_t buffer, offset, length;
	uint32_t taken;         /* bytes that the peer takes out of a stream */
	uint32_t slice;         /* offset in the arena of the lane ... */
	uint32_t slice_of_peer; /* ... and in that of the peer's lane */
	int32_t upto;   /* the puts of the source up to this operation are visible after it; -1:
			 * none */
	uint64_t value; /* operand; offset in a stream */
	uint64_t key;   /* of the bytes */
};

/* An operation of this epoch reads or writes these bytes of a buffer. */
struct soak_touch {
	uint32_t begin, end;
	bool is_write;
};

/* The expected bytes, after all operations drawn until now. */
struct soak_buffer {
	uint8_t *bytes;
	uint32_t length;
	unsigned touches;
	struct soak_touch touch[SOAK_TOUCHES];
};

struct soak_signal {
	uint64_t value, base;
	int32_t last; /* operation of this epoch that changed it, -1: none */
};

struct soak_counter {
	uint64_t value;
	int32_t last;
};

struct soak_stream {
	uint64_t sent, received;
	int32_t last; /* operation of this epoch that sent, -1: none */
};

struct soak_window {
	bool is_live;
	uint64_t number; /* counts the windows of the round */
	struct oriel_window_attr attr;
	bool has_own_memory; /* the caller allocates buffer 0 */
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
	unsigned rank; /* the rank that has this copy */
	struct soak_random random;
	bool is_rdma[SOAK_RANKS][SOAK_RANKS];
	uint64_t windows_made;
	struct soak_window window[SOAK_WINDOWS];
	unsigned epoch, count;
	struct soak_op ops[SOAK_OPS];
	uint32_t arena[SOAK_RANKS][SOAK_LANES]; /* bytes used */
};

struct soak_signal *soak_signal_of(const struct soak_world *world, unsigned window, unsigned at,
				   unsigned source, unsigned id);
struct soak_counter *soak_counter_of(const struct soak_world *world, unsigned window, unsigned rank,
				     unsigned peer, unsigned counter);
struct soak_stream *soak_stream_of(const struct soak_world *world, unsigned window, unsigned from,
				   unsigned to, unsigned channel);
uint64_t soak_stream_key(const struct soak_world *world, unsigned window, unsigned from,
			 unsigned to, unsigned channel);

/* Draw the operations of the next epoch, and apply them to the model. */
void soak_draw(struct soak_world *world);

struct soak_meeting;

struct soak_rank {
	struct soak_world world;
	struct soak_plan plan; /* of this life */
	struct oriel_comm *comm;
	struct soak_meeting *meeting;
	int newcomers[SOAK_RANKS]; /* processes that this one started; 0: none */
	/* Arenas of the lanes. An HCA may access them until a broken communicator is destroyed. */
	uint8_t *arena[SOAK_LANES];
	atomic_uint_fast64_t ops_done, bytes_checked;
	atomic_int failure; /* enum oriel_status of the first lane that ended early */
	atomic_int failed_op;
};

/* Collective: create and destroy windows and buffers, as drawn. */
enum oriel_status soak_windows_change(struct soak_rank *r);
void soak_windows_close(struct soak_rank *r);
/* Compare all memory of this rank with the model. No rank may be writing. */
void soak_check_all(struct soak_rank *r);

/* Run this rank's part of the epoch that was drawn last. */
enum oriel_status soak_lanes_run(struct soak_rank *r);

/* Collective: what all ranks do together after an epoch, as drawn from the world. */
enum oriel_status soak_meet(struct soak_rank *r);
/* Collective: ends what lasts longer than a meeting, before the communicator is destroyed. */
void soak_meeting_close(struct soak_rank *r);
/* No rank reads or writes its memory any more. */
void soak_meeting_free(struct soak_meeting *meeting);

/* Run a round of one rank; it does not return if a check fails. */
void soak_rank_main(const struct soak_plan *plan, const struct oriel_bootstrap *bootstrap);
/* The same of a process that comes by ORIEL_INVITATION, to the third life. */
void soak_rank_join(const struct soak_plan *plan);

/* Print what is wrong and end the process. @i: the operation, -1 if none. */
_Noreturn void soak_wrong(const struct soak_world *world, int i, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for bytes: those at @at should be those at @should. */
_Noreturn void soak_wrong_bytes(const struct soak_world *world, int i, const char *what,
				size_t from, const void *at, const void *should, size_t count);

#endif
