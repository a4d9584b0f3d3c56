/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `oriel perf`. A test is a list of cases; a row is a case at one size. A repetition
 * takes samples of one row in a window of its own. A row is measured and reported before the next
 * begins; with --interleave a repetition measures every row once, so that a slow minute of the
 * machine affects all of them.
 *
 * perf.c: the job from its options to its report. perf_tests.c: the tests.
 * perf_options.c: the command line. perf_job.c: this process as a rank.
 * perf_row.c: how a row is measured. perf_check.c: what --check compares.
 * perf_stats.c: median, quantiles, spread. perf_watch.c: progress and ^C. perf_result.c: a row as
 * it is reported, measured or read. perf_report.c: table, JSON, CSV. perf_ratio.c: --compare.
 * perf_plot.c: --plot. perf_pass.h: common steps.
 * perf_put.c, perf_signal.c, perf_counter.c, perf_fan_out.c, perf_sync.c, perf_gather.c,
 * perf_stream.c, perf_wqe.c, perf_p2p.c, perf_limit.c: cases.
 */
#ifndef ORIEL_PERF_H
#define ORIEL_PERF_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#include "measure.h"

#define PERF_SIZES_MAX 64
#define PERF_REPS_MAX 100
#define PERF_BURST 64  /* operations before a bandwidth test waits */
#define PERF_WQES 1024 /* posted in a round, as many as a queue of default depth holds */

struct perf_rep;
struct perf_job;
struct perf_p2p;

/*
 * Run rounds @begin to @end of one case. Every thread of the group calls it; all participating
 * ranks call it with the same rounds.
 */
typedef enum oriel_status perf_pass(struct perf_rep *rep, struct oriel_dev_group g, uint64_t begin,
				    uint64_t end);

/* Take one sample of a case that is not a loop; *@ns gets its time. Collective. */
typedef enum oriel_status perf_once(struct perf_job *job, uint64_t bytes, double *ns);

/* The ranks that run the pass. The others sleep meanwhile. */
enum perf_participants {
	PERF_ORIGIN, /* rank 0; with --check rank 1 as well */
	PERF_PAIR,   /* ranks 0 and 1 */
	PERF_ALL,
};

/* The number of reported units in one round. */
enum perf_round {
	PERF_ONE,
	PERF_ROUND_TRIP, /* two one-way times */
	PERF_MANY,       /* perf_burst(bytes) operations */
	PERF_REPORTED,   /* as many as the pass stores in perf_rep.parts */
};

/* The path to rank 1 that a case requires. */
enum perf_reach {
	PERF_ANY_PATH,
	PERF_BY_MAPPED,
	PERF_BY_RDMA,
};

struct perf_case {
	const char *test; /* name in the report */
	const char *mode;
	const char *limit; /* the test that shows the machine's limit, or NULL */
	enum perf_participants participants;
	enum perf_round round;
	unsigned flows; /* directions of simultaneous transfers, for GB/s */
	unsigned unit;  /* sizes must be multiples of it */
	perf_pass *pass;
	perf_once *once; /* instead of @pass */
	enum perf_reach reach;
};

/* A test, selected by its name on the command line. */
struct perf_test {
	const char *name;
	const char *sizes; /* default, in the syntax of --sizes */
	const struct perf_case *cases;
	unsigned count;
	const char *help;
};

enum perf_pin {
	PERF_PIN_AUTO, /* if there is a core for every thread of every rank */
	PERF_PIN_ON,
	PERF_PIN_OFF,
};

struct perf_options {
	uint64_t sizes[PERF_SIZES_MAX];
	unsigned size_count; /* 0: each test's own */
	uint64_t warmup;     /* rounds; 0: chosen by size */
	uint64_t iters;      /* rounds in a repetition; 0: chosen by time */
	unsigned reps;
	unsigned ranks;   /* to start without a launcher */
	unsigned nodes;   /* virtual nodes to distribute them over; 0: none */
	unsigned threads; /* in the team of each rank; 1: no team */
	enum perf_pin pin;
	bool is_gpu; /* collectives in GPU memory */
	bool is_checked;
	bool is_json;
	bool is_csv;
	bool is_interleaved; /* a repetition measures every row once */
	bool has_progress;
	double tolerance;               /* of --compare */
	const char *compare;            /* file with older rows, or NULL */
	const char *from;               /* file with rows to report instead of measuring, or NULL */
	const char *plot;               /* file to draw, or NULL */
	const struct perf_test **tests; /* terminated by NULL; owned; NULL: no test */
};

/* The samples of a row, one repetition after the other. */
struct perf_series {
	double *ns;
	size_t count;
	size_t room;
	double medians[PERF_REPS_MAX];
	unsigned reps;
};

struct perf_row {
	const struct perf_case *plan;
	uint64_t bytes;
	uint64_t batch;   /* rounds in a sample; 0 until calibrated */
	uint64_t samples; /* in a repetition */
	uint64_t wrong;   /* messages with wrong data, on all ranks */
	struct perf_series series;
};

enum perf_collective {
	PERF_ALLGATHER,
	PERF_ALLTOALL,
	PERF_BCAST,
	PERF_ALLREDUCE,
	PERF_REDUCE_SCATTER,
	PERF_REDUCE,
	PERF_GATHER,
	PERF_SCATTER
};

/* The collective to measure: one of the handles, for messages of @bytes. */
struct perf_gather {
	struct oriel_allgather *allgather;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	struct oriel_allreduce *allreduce;
	struct oriel_reduce_scatter *reduce_scatter;
	struct oriel_reduce *reduce;
	struct oriel_gather *gather;
	struct oriel_scatter *scatter;
	enum perf_collective which;
	uint64_t bytes;
	char *source, *result; /* of the host; on a GPU for --check. result NULL: not allocated */
	const char *send;      /* what executions send: @source, or on a GPU the begin of @window */
	uint64_t length;       /* of the result */
	struct oriel_window *window; /* on the GPU; it has the message, and the result behind */
};

/* This process as a rank. */
struct perf_job {
	const struct perf_options *options;
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;
	struct CUstream_st *stream; /* of --gpu; else NULL */
	unsigned rank;
	unsigned ranks;
	enum oriel_path path;      /* to the peer of a pair */
	bool is_software;          /* the rdma path uses the software HCA */
	bool is_sink;              /* the software HCA discards all data */
	double open_ns;            /* time to join the job and create the communicator */
	cpu_set_t allowed;         /* cores that the process was started with */
	unsigned cores;            /* their number, 0 if unknown */
	char *source;              /* private memory for the largest row */
	char *sink;                /* the same */
	uint64_t bytes;            /* size of the largest row */
	struct perf_p2p *p2p;      /* NULL until a row needs it */
	uint64_t mismatches;       /* found by --check on this rank */
	struct perf_gather gather; /* perf_gather.c */
	char skipped[512];         /* tests that the paths or the memory do not allow */
	char command[512];
};

/* One repetition of one row on this rank. */
struct perf_rep {
	struct perf_job *job;
	const struct perf_case *plan;
	struct oriel_window *window;
	struct oriel_dev_window w;
	struct oriel_team team;
	uint64_t bytes;
	uint64_t words_offset; /* window offset behind the payload, for words of the case */
	uint32_t peer;         /* 1 on rank 0, 0 on the others */
	bool is_origin;        /* rank 0 */
	bool is_checked;       /* these rounds fill in and compare data */
	uint64_t parts;  /* of a PERF_REPORTED round; written by the leader, as are those below */
	double idle_ns;  /* part of the sample's time that does not count */
	double gross_ns; /* time of a round of the last phase, idle time included */
	char *source;    /* private memory, if the case has no other */
	char *sink;      /* private memory */
	char *target;    /* this rank's window */
	char *remote;    /* the peer's window as mapped by this process, or NULL */
};

/* Signal ids of a repetition. */
enum {
	PERF_SIGNAL, /* measured */
	PERF_READY,  /* this and the next are for --check */
	PERF_DONE,
	PERF_SIGNALS,
};

enum { PERF_COUNTER, PERF_COUNTERS };

/* perf_options.c: TOOL_OK, or the exit code. No tests are selected if help was requested. */
int perf_options_read(struct perf_options *options, int argc, char **argv);
void perf_options_close(struct perf_options *options);
bool perf_sizes_parse(const char *text, uint64_t sizes[PERF_SIZES_MAX], unsigned *count);

/* perf_tests.c */
extern const struct perf_test perf_tests[]; /* the last one has name NULL */

/* perf_job.c */
/* Executes `oriel run`; returns the exit code if that fails. */
int perf_job_launch(const struct perf_options *options, int argc, char **argv);
enum oriel_status perf_job_open(struct perf_job *job, const struct perf_options *options, int argc,
				char **argv);
void perf_job_close(struct perf_job *job);
void perf_job_pin(const struct perf_job *job, uint32_t thread); /* pins the calling thread */
/* Has each thread of each rank a core of its own that it is pinned to, or shares by --pin? */
bool perf_job_is_pinned(const struct perf_job *job);
/* Are there fewer cores than threads of all ranks? Each rank's software HCA is one more thread. */
bool perf_job_is_oversubscribed(const struct perf_job *job);
/* Collective: allocate sources and sinks for @bytes. */
enum oriel_status perf_job_reserve(struct perf_job *job, uint64_t bytes);

/* perf_gather.c */
void perf_gather_close(struct perf_job *job); /* collective */
bool perf_is_collective(const struct perf_case *plan);

/* perf_row.c: collective. */
enum oriel_status perf_row_measure(struct perf_row *row, struct perf_job *job);

/* perf_check.c: called by the leader of a group. */
void perf_fill(char *to, uint64_t bytes, uint64_t round, unsigned rank);
/* Count and report differences from perf_fill() by @rank in @round. */
void perf_compare(struct perf_rep *rep, const char *from, uint64_t bytes, uint64_t round,
		  unsigned rank);
void perf_compare_word(struct perf_rep *rep, const char *what, uint64_t seen, uint64_t expected,
		       uint64_t round);

/* perf_stats.c */
bool perf_series_add(struct perf_series *series, const double *ns, size_t count);
double perf_series_median(const struct perf_series *series);             /* of the medians */
double perf_series_quantile(const struct perf_series *series, double q); /* of all samples */
/* Largest minus smallest median, as a part of the median. */
double perf_series_spread(const struct perf_series *series);
void perf_series_close(struct perf_series *series);

/* perf_watch.c */
/*
 * From now on SIGINT only sets what perf_watch_is_interrupted() returns. With @has_progress, show
 * progress on the terminal that controls the process, if there is one.
 */
void perf_watch_open(bool has_progress);
bool perf_watch_is_interrupted(void);
void perf_watch_show(size_t row, size_t rows, unsigned rep, unsigned reps, const char *test);
void perf_watch_clear(void); /* before a row is printed */
/* End by the SIGINT that was caught, as the launcher expects of an interrupted rank. */
void perf_watch_die(void);

/* Operations of a PERF_MANY round: 64, or fewer for large messages. */
static inline uint64_t perf_burst(uint64_t bytes)
{
	uint64_t fit = bytes ? ((uint64_t)64 << 20) / bytes : PERF_BURST;

	return fit > PERF_BURST ? PERF_BURST : fit < 4 ? 4 : fit;
}

/* From one copy of a payload in the target to the next. */
static inline uint64_t perf_copy_stride(uint64_t bytes)
{
	return (bytes + ORIEL_DEV_LINE - 1) / ORIEL_DEV_LINE * ORIEL_DEV_LINE;
}

static inline enum oriel_status perf_posted(int64_t ticket)
{
	return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
}

perf_pass perf_put_flush, perf_put_flush_each, perf_put_lat, perf_put_poll_lat, perf_put_bw;
perf_pass perf_get_lat;
perf_pass perf_put_signal_lat, perf_signal_add, perf_signal_set;
perf_pass perf_signal_all_flush, perf_signal_all_answered;
perf_pass perf_fetch_add, perf_fetch_add_contended, perf_swap, perf_compare_swap;
perf_pass perf_barrier, perf_barrier_flat;
perf_pass perf_allgather, perf_alltoall, perf_bcast, perf_allreduce, perf_reduce_scatter,
	perf_reduce, perf_gather, perf_scatter;
perf_pass perf_put_local, perf_put_counter, perf_put_signal_counter;
perf_pass perf_fan_out_put, perf_fan_out_signal, perf_fan_out_drain, perf_fan_out_counter;
perf_pass perf_wqe_1, perf_wqe_2, perf_wqe_4, perf_wqe_8, perf_wqe_16, perf_wqe_32;
perf_pass perf_wqe_cooperative;
perf_once perf_window_create, perf_launch;
perf_pass perf_send_recv_lat, perf_send_recv_bw, perf_send_recv_both;
perf_pass perf_memcpy, perf_store_flag;

#endif
