/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel tune`: measures the algorithms of collectives, and writes the fastest for each size to a
 * file that the library reads (oriel/tune.h).
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "json.h"
#include "launch.h"
#include "measure.h"
#include "tool.h"
#include "tune.h"

#define TUNE_ALGORITHMS 32u /* bits of oriel_coll_info.supported */
#define TUNE_SAMPLES 7u
#define TUNE_SAMPLE_NS 2e6 /* approximate duration of a sample */
#define TUNE_MARGIN \
	0.97 /* relative time below which an algorithm replaces that of the smaller sizes */

static const char tune_usage[] =
	"usage: oriel tune [-n RANKS] [--nodes NODES] [--gpu] [--most BYTES] [--json]\n"
	"                  [-o FILE]\n"
	"\n"
	"Measures the algorithms of all-gathers, all-to-alls, broadcasts and reductions between\n"
	"the ranks of a job, and writes the fastest for each size to a file: lines for this\n"
	"machine, these ranks and nodes replace older ones. Under a launcher the job is the\n"
	"launcher's; else the command starts one. An algorithm replaces that of the smaller\n"
	"sizes, and at the smallest that of the library, only where it is faster by more than\n"
	"the spread.\n"
	"\n"
	"  -n RANKS       ranks to start; default 2\n"
	"      --nodes N  virtual nodes to distribute them over\n"
	"      --gpu      on GPU memory: rank r uses GPU r, modulo the number of GPUs\n"
	"      --most B   largest size per rank in bytes; default 4194304, on GPUs 67108864\n"
	"      --json     one JSON object a line: each size, then the file\n"
	"  -o FILE        default: ORIEL_TUNE, or the file that the library reads without it\n"
	"  -h, --help     this text\n";

struct tune_options {
	unsigned ranks, nodes;
	size_t most;
	const char *file;
	bool is_gpu;
	bool is_json;
};

/* Quartiles of the time of one execution; 0: not measured. */
struct tune_time {
	double low_ns, high_ns;
};

/* One collective with its handle; the others are NULL. */
struct tune_object {
	struct oriel_allgather *gather;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	struct oriel_allreduce *allreduce;
	struct oriel_reduce_scatter *scatter;
	struct oriel_reduce *reduce;
};

static const struct oriel_reduction tune_sum = {.size = sizeof(tune_sum),
						.type = ORIEL_TYPE_FP32,
						.op = ORIEL_OP_SUM};

static size_t tune_count(size_t bytes)
{
	return bytes / sizeof(float);
}

/* One message may fill the view of the collectives whose results are equal on all ranks. */
static size_t object_length(const struct tune_job *job, enum tune_collective which)
{
	bool is_whole = which == TUNE_BCAST || which == TUNE_ALLREDUCE || which == TUNE_REDUCE;

	return is_whole ? job->most : job->most * job->ranks;
}

static enum oriel_status object_open(struct tune_job *job, enum tune_collective which,
				     unsigned algorithm, struct tune_object *o)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = object_length(job, which),
				  .buffer = job->result,
				  .flags = job->stream ? ORIEL_VIEW_GPU : 0};

	*o = (struct tune_object){.gather = NULL};
	switch (which) {
	case TUNE_ALLGATHER:
		return oriel_allgather_create(job->comm, &view, &attr, &o->gather);
	case TUNE_ALLTOALL:
		return oriel_alltoall_create(job->comm, &view, &attr, &o->alltoall);
	case TUNE_BCAST:
		return oriel_bcast_create(job->comm, &view, &attr, &o->bcast);
	case TUNE_ALLREDUCE:
		return oriel_allreduce_create(job->comm, &view, &tune_sum, &attr, &o->allreduce);
	case TUNE_REDUCE_SCATTER:
		return oriel_reduce_scatter_create(job->comm, &view, &tune_sum, &attr, &o->scatter);
	case TUNE_REDUCE:
		return oriel_reduce_create(job->comm, &view, &tune_sum, &attr, &o->reduce);
	case TUNE_COLLECTIVES:
		break;
	}
	return ORIEL_ERR_INVALID;
}

static void object_close(struct tune_object *o)
{
	oriel_allgather_destroy(o->gather);
	oriel_alltoall_destroy(o->alltoall);
	oriel_bcast_destroy(o->bcast);
	oriel_allreduce_destroy(o->allreduce);
	oriel_reduce_scatter_destroy(o->scatter);
	oriel_reduce_destroy(o->reduce);
}

/* The root rotates, so that no rank gets ahead of the others. */
static enum oriel_status object_run(struct tune_job *job, const struct tune_object *o, size_t bytes,
				    unsigned round)
{
	if (o->gather)
		return oriel_allgather_run(o->gather, job->send, bytes);
	if (o->alltoall)
		return oriel_alltoall_run(o->alltoall, job->send, bytes);
	if (o->allreduce)
		return oriel_allreduce_run(o->allreduce, job->send, tune_count(bytes));
	if (o->scatter)
		return oriel_reduce_scatter_run(o->scatter, job->send, tune_count(bytes));
	if (o->reduce)
		return oriel_reduce_run(o->reduce, round % job->ranks, job->send,
					tune_count(bytes));
	return oriel_bcast_run(o->bcast, round % job->ranks, job->send, bytes);
}

static enum oriel_status object_start(struct tune_job *job, const struct tune_object *o,
				      size_t bytes, unsigned round)
{
	if (!job->stream)
		return object_run(job, o, bytes, round);
	if (o->gather)
		return oriel_allgather_run_on_stream(o->gather, job->send, bytes, job->stream);
	if (o->alltoall)
		return oriel_alltoall_run_on_stream(o->alltoall, job->send, bytes, job->stream);
	if (o->allreduce)
		return oriel_allreduce_run_on_stream(o->allreduce, job->send, tune_count(bytes),
						     job->stream);
	if (o->scatter)
		return oriel_reduce_scatter_run_on_stream(o->scatter, job->send, tune_count(bytes),
							  job->stream);
	return oriel_bcast_run_on_stream(o->bcast, round % job->ranks, job->send, bytes,
					 job->stream);
}

static enum oriel_status object_query(const struct tune_object *o, size_t bytes,
				      struct oriel_coll_info *info)
{
	if (o->gather)
		return oriel_allgather_query(o->gather, bytes, info);
	if (o->alltoall)
		return oriel_alltoall_query(o->alltoall, bytes, info);
	if (o->allreduce)
		return oriel_allreduce_query(o->allreduce, tune_count(bytes), info);
	if (o->scatter)
		return oriel_reduce_scatter_query(o->scatter, tune_count(bytes), info);
	if (o->reduce)
		return oriel_reduce_query(o->reduce, tune_count(bytes), info);
	return oriel_bcast_query(o->bcast, bytes, info);
}

/* Time of one of @rounds executions, on the slowest rank. */
static enum oriel_status tune_sample(struct tune_job *job, const struct tune_object *o,
				     size_t bytes, unsigned rounds, double *ns)
{
	enum oriel_status status = oriel_comm_barrier(job->comm);
	double mine = tool_now_ns();
	unsigned i;

	for (i = 0; i < rounds && status == ORIEL_OK; i++)
		status = object_start(job, o, bytes, i);
	if (status == ORIEL_OK && job->stream)
		status = oriel_tune_gpu_wait(job->stream);
	mine = (tool_now_ns() - mine) / rounds;
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(job->comm, &mine, job->all, sizeof(mine));
	*ns = mine;
	for (i = 0; i < job->ranks && status == ORIEL_OK; i++)
		if (job->all[i] > *ns)
			*ns = job->all[i];
	return status;
}

/*
 * The lower quartile is the time, because other processes may run here too. All ranks know the
 * times of all, so the result is equal on all of them.
 */
static enum oriel_status tune_measure(struct tune_job *job, const struct tune_object *o,
				      size_t bytes, struct tune_time *time)
{
	double samples[TUNE_SAMPLES], once = 0;
	enum oriel_status status;
	unsigned rounds, i;

	status = tune_sample(job, o, bytes, 2, &once);
	if (status == ORIEL_OK)
		status = tune_sample(job, o, bytes, 4, &once);
	rounds = once < TUNE_SAMPLE_NS / 2 ? (unsigned)(TUNE_SAMPLE_NS / (once + 100)) : 2;
	for (i = 0; i < TUNE_SAMPLES && status == ORIEL_OK; i++)
		status = tune_sample(job, o, bytes, rounds, &samples[i]);
	if (status != ORIEL_OK)
		return status;
	qsort(samples, TUNE_SAMPLES, sizeof(samples[0]), tool_order);
	time->low_ns = samples[TUNE_SAMPLES / 4];
	time->high_ns = samples[TUNE_SAMPLES * 3 / 4];
	return ORIEL_OK;
}

/* Times of @algorithm at all sizes that it supports; 0 for the others. */
static enum oriel_status tune_algorithm(struct tune_job *job, enum tune_collective which,
					unsigned algorithm, struct tune_time times[TUNE_SIZES])
{
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct tune_object object;
	enum oriel_status status = object_open(job, which, algorithm, &object);
	unsigned i;

	for (i = 0; i < tune_sizes(job) && status == ORIEL_OK; i++) {
		object_query(&object, tune_size(i), &info);
		/* At sizes beyond its limit the table overrides the choice. */
		if (info.algorithm != algorithm)
			continue;
		status = tune_measure(job, &object, tune_size(i), &times[i]);
	}
	object_close(&object);
	return status;
}

/* Does the algorithm execute messages of any length? A line that says so without is refused. */
static bool tune_has_any(unsigned algorithm)
{
	return algorithm != ORIEL_ALGORITHM_LL && algorithm != ORIEL_ALGORITHM_ONE_SHOT;
}

/*
 * The algorithm with the least time, whatever the spread, of those for any length if @any; 0: none
 * was measured.
 */
static unsigned tune_fastest(struct tune_time times[TUNE_ALGORITHMS][TUNE_SIZES], unsigned size,
			     bool any)
{
	unsigned algorithm, best = 0;

	for (algorithm = 1; algorithm < TUNE_ALGORITHMS; algorithm++)
		if ((!any || tune_has_any(algorithm)) && times[algorithm][size].low_ns > 0 &&
		    (!best || times[algorithm][size].low_ns < times[best][size].low_ns))
			best = algorithm;
	return best;
}

static void tune_print(const struct tune_job *job, enum tune_collective which, unsigned size,
		       struct tune_time times[TUNE_ALGORITHMS][TUNE_SIZES])
{
	unsigned fastest = tune_fastest(times, size, false);
	unsigned algorithm, best = job->best[which][size];

	printf("%-10s %9zu", tune_collective_name(which), tune_size(size));
	for (algorithm = 1; algorithm < TUNE_ALGORITHMS; algorithm++)
		if (times[algorithm][size].low_ns > 0)
			printf("  %s %.2f", oriel_algorithm_name((enum oriel_algorithm)algorithm),
			       times[algorithm][size].low_ns / 1e3);
	printf(" us -> %s\n", oriel_algorithm_name((enum oriel_algorithm)best));
	if (fastest != best)
		printf("%20s  # %s is faster by less than the spread\n", "",
		       oriel_algorithm_name((enum oriel_algorithm)fastest));
}

static void tune_json(const struct tune_job *job, enum tune_collective which, unsigned size,
		      struct tune_time times[TUNE_ALGORITHMS][TUNE_SIZES])
{
	struct json json = {.to = stdout};
	unsigned algorithm;

	json_open_object(&json, NULL);
	json_text(&json, "collective", tune_collective_name(which));
	json_text(&json, "memory", job->stream ? "gpu" : "host");
	json_unsigned(&json, "ranks", job->ranks);
	json_unsigned(&json, "nodes", job->info.nodes);
	json_unsigned(&json, "bytes", tune_size(size));
	json_text(&json, "algorithm",
		  oriel_algorithm_name((enum oriel_algorithm)job->best[which][size]));
	json_text(&json, "fastest",
		  oriel_algorithm_name((enum oriel_algorithm)tune_fastest(times, size, false)));
	json_open_array(&json, "times");
	for (algorithm = 1; algorithm < TUNE_ALGORITHMS; algorithm++) {
		if (times[algorithm][size].low_ns <= 0)
			continue;
		json_open_object(&json, NULL);
		json_text(&json, "algorithm",
			  oriel_algorithm_name((enum oriel_algorithm)algorithm));
		json_number(&json, "low_us", times[algorithm][size].low_ns / 1e3);
		json_number(&json, "high_us", times[algorithm][size].high_ns / 1e3);
		json_close_object(&json);
	}
	json_close_array(&json);
	json_text(&json, "machine", job->info.machine);
	json_close_object(&json);
	putchar('\n');
}

/* Is the difference larger than the spread of both, and worth a change? */
static bool tune_is_faster(const struct tune_time *new, const struct tune_time *old)
{
	return new->high_ns < old->low_ns &&new->low_ns < old->low_ns *TUNE_MARGIN;
}

/*
 * Choose an algorithm per size. That of the smaller sizes stays, or the library's @own where there
 * is none, unless another is clearly faster.
 */
static void tune_pick(struct tune_job *job, enum tune_collective which,
		      const unsigned own[TUNE_SIZES],
		      struct tune_time times[TUNE_ALGORITHMS][TUNE_SIZES])
{
	unsigned i, algorithm, best, stays, last = 0;

	for (i = 0; i < tune_sizes(job); i++) {
		stays = last && times[last][i].low_ns > 0 ? last : own[i];
		if (times[stays][i].low_ns <= 0)
			stays = tune_fastest(times, i, false);
		best = stays;
		for (algorithm = 1; algorithm < TUNE_ALGORITHMS; algorithm++)
			if (times[algorithm][i].low_ns > 0 &&
			    tune_is_faster(&times[algorithm][i], &times[stays][i]) &&
			    times[algorithm][i].low_ns < times[best][i].low_ns)
				best = algorithm;
		job->best[which][i] = last = best;
	}
	job->rest[which] = tune_has_any(last) ? last : tune_fastest(times, i - 1, true);
}

static void tune_report(const struct tune_job *job, enum tune_collective which,
			struct tune_time times[TUNE_ALGORITHMS][TUNE_SIZES])
{
	unsigned i;

	for (i = 0; i < tune_sizes(job); i++)
		if (job->is_json)
			tune_json(job, which, i, times);
		else
			tune_print(job, which, i, times);
	fflush(stdout);
}

static enum oriel_status tune_collective(struct tune_job *job, enum tune_collective which)
{
	struct tune_time times[TUNE_ALGORITHMS][TUNE_SIZES] = {{{0}}};
	unsigned i, algorithm, own[TUNE_SIZES] = {0};
	struct oriel_coll_info info = {.size = sizeof(info)};
	struct tune_object object;
	enum oriel_status status = object_open(job, which, 0, &object);

	if (status != ORIEL_OK)
		return status;
	for (i = tune_sizes(job); i-- > 0;) {
		object_query(&object, tune_size(i), &info);
		own[i] = info.algorithm;
	}
	object_close(&object);
	for (algorithm = 1; algorithm < TUNE_ALGORITHMS && status == ORIEL_OK; algorithm++)
		if (info.supported >> algorithm & 1)
			status = tune_algorithm(job, which, algorithm, times[algorithm]);
	if (status != ORIEL_OK)
		return status;
	tune_pick(job, which, own, times);
	if (job->rank == 0)
		tune_report(job, which, times);
	return ORIEL_OK;
}

static enum oriel_status job_alloc(struct tune_job *job)
{
	size_t length = job->most * job->ranks;
	unsigned flags = job->stream ? ORIEL_MEMORY_DEVICE : 0;
	void *send = NULL, *result = NULL;
	enum oriel_status status;

	job->all = calloc(job->ranks, sizeof(*job->all));
	if (!job->all)
		return ORIEL_ERR_NOMEM;
	status = oriel_memory_alloc(length, flags, &send);
	if (status == ORIEL_OK)
		status = oriel_memory_alloc(length, flags, &result);
	job->send = send;
	job->result = result;
	if (status == ORIEL_OK && !job->stream)
		memset(send, 1, length);
	return status;
}

static enum oriel_status job_open(struct tune_job *job, const struct tune_options *options)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .flags = options->is_gpu ? ORIEL_COMM_GPU : 0};
	enum oriel_status status = oriel_bootstrap_open_env(0, &job->bootstrap);

	if (status != ORIEL_OK)
		return status;
	job->rank = job->bootstrap.rank;
	job->ranks = job->bootstrap.size;
	job->most = options->most;
	job->info.size = sizeof(job->info);
	if (options->is_gpu) {
		status = oriel_tune_gpu_open(job->rank, &job->stream);
		if (status != ORIEL_OK)
			return status;
	}
	status = oriel_comm_create(&job->bootstrap, &attr, &job->comm);
	if (status == ORIEL_OK)
		status = oriel_tune_find(job->comm, options->is_gpu, &job->info);
	if (status == ORIEL_OK)
		status = oriel_comm_agree(job->comm, job_alloc(job));
	return status;
}

static void job_close(struct tune_job *job)
{
	oriel_memory_free(job->send);
	oriel_memory_free(job->result);
	oriel_comm_destroy(job->comm);
	oriel_bootstrap_close(&job->bootstrap);
	oriel_tune_gpu_close(job->stream);
	free(job->all);
}

static bool tune_save(const struct tune_job *job, const char *file)
{
	struct json json = {.to = stdout};

	if (!tune_file_write(job, file))
		return false;
	if (!job->is_json) {
		printf("written to %s\n", file);
		return true;
	}
	json_open_object(&json, NULL);
	json_text(&json, "written", file);
	json_close_object(&json);
	putchar('\n');
	return true;
}

static int tune_run(const struct tune_options *options)
{
	struct tune_job job = {.comm = NULL, .is_json = options->is_json};
	bool can_write, is_written;
	enum oriel_status status;
	unsigned which;

	/* The new table may replace one with errors. */
	setenv("ORIEL_TUNE", "off", 1);
	status = job_open(&job, options);
	if (status != ORIEL_OK)
		fprintf(stderr, "oriel tune: %s: %s\n", oriel_status_name(status),
			oriel_last_error());
	can_write = status == ORIEL_OK && (job.rank || tune_file_check(options->file));
	if (status == ORIEL_OK &&
	    oriel_comm_agree(job.comm, can_write ? ORIEL_OK : ORIEL_ERR_CONFIG) != ORIEL_OK) {
		job_close(&job);
		return TOOL_FAILED;
	}
	for (which = 0; which < tune_collectives(&job) && status == ORIEL_OK; which++) {
		status = tune_collective(&job, (enum tune_collective)which);
		if (status != ORIEL_OK)
			fprintf(stderr, "oriel tune: %s: %s\n", oriel_status_name(status),
				oriel_last_error());
	}
	is_written = status == ORIEL_OK && (job.rank || tune_save(&job, options->file));
	job_close(&job);
	return is_written ? TOOL_OK : TOOL_FAILED;
}

static bool tune_number(const char *text, const char *what, unsigned long long most,
			unsigned long long *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !*value || *value > most) {
		fprintf(stderr, "oriel tune: %s is '%s', but must be a number from 1 to %llu\n",
			what, text, most);
		return false;
	}
	return true;
}

/* The file that the library reads by default. */
static bool tune_find_file(struct tune_options *options, char *room, size_t length)
{
	const char *setting = getenv("ORIEL_TUNE"), *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (options->file)
		return true;
	options->file = room;
	if (setting && *setting && strcmp(setting, "off") != 0)
		return (size_t)snprintf(room, length, "%s", setting) < length;
	if (cache && *cache == '/')
		return (size_t)snprintf(room, length, "%s/oriel/tune", cache) < length;
	if (home && *home == '/')
		return (size_t)snprintf(room, length, "%s/.cache/oriel/tune", home) < length;
	fprintf(stderr, "oriel tune: HOME is not set: name the file with -o\n");
	return false;
}

/* TOOL_OK, or the exit code; *@is_help: help was printed. */
static int tune_read(struct tune_options *options, int argc, char **argv, bool *is_help)
{
	static const struct option names[] = {
		{"nodes", required_argument, NULL, 'N'}, {"gpu", no_argument, NULL, 'g'},
		{"most", required_argument, NULL, 'm'},  {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
	};
	unsigned long long value;
	char name[] = "oriel tune";
	int option;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	while ((option = getopt_long(argc, argv, "n:o:h", names, NULL)) != -1) {
		if (option == 'h') {
			fputs(tune_usage, stdout);
			*is_help = true;
			return TOOL_OK;
		}
		if (option == 'n' && tune_number(optarg, "-n", 4096, &value))
			options->ranks = (unsigned)value;
		else if (option == 'N' && tune_number(optarg, "--nodes", 4096, &value))
			options->nodes = (unsigned)value;
		else if (option == 'm' && tune_number(optarg, "--most", 1u << 30, &value))
			options->most = (size_t)value;
		else if (option == 'o')
			options->file = optarg;
		else if (option == 'g')
			options->is_gpu = true;
		else if (option == 'j')
			options->is_json = true;
		else
			return TOOL_USAGE;
	}
	if (optind < argc) {
		fprintf(stderr, "oriel tune: unknown argument '%s'\n", argv[optind]);
		return TOOL_USAGE;
	}
	if (!options->most)
		options->most = options->is_gpu ? (size_t)64 << 20 : (size_t)4 << 20;
	return TOOL_OK;
}

int oriel_tool_tune(int argc, char **argv)
{
	struct tune_options options = {.ranks = 2};
	bool is_help = false;
	char file[512];
	int code = tune_read(&options, argc, argv, &is_help);

	if (code != TOOL_OK)
		fprintf(stderr, "Try `oriel help tune`.\n");
	if (code != TOOL_OK || is_help)
		return code;
	if (!tune_find_file(&options, file, sizeof(file)))
		return TOOL_FAILED;
	if (!tool_is_launched() && !tune_file_check(options.file))
		return TOOL_FAILED;
	if (!tool_is_launched())
		return tool_launch("tune", options.ranks, options.nodes, argc, argv);
	return tune_run(&options);
}
