/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel tune`: measures the algorithms of collectives, and writes the fastest for each size to a
 * file that the library reads (oriel/tune.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "launch.h"
#include "tool.h"

#define TUNE_LEAST 8u
#define TUNE_STEP 4u /* factor from one size to the next */
#define TUNE_SAMPLES 7u
#define TUNE_SAMPLE_NS 2e6 /* approximate duration of a sample */
#define TUNE_MARGIN \
	0.97 /* relative time below which an algorithm replaces that of the smaller sizes */
#define TUNE_SIZES 32u

static const char tune_usage[] =
	"usage: oriel tune [-n RANKS] [--nodes NODES] [--gpu] [--most BYTES] [-o FILE]\n"
	"\n"
	"Measures the algorithms of all-gathers, all-to-alls and broadcasts between the ranks of\n"
	"a job, and writes the fastest for each size to a file: lines for this machine, these\n"
	"ranks and nodes replace older ones. Under a launcher the job is the launcher's; else\n"
	"the command starts one.\n"
	"\n"
	"  -n RANKS       ranks to start; default 2\n"
	"      --nodes N  virtual nodes to distribute them over\n"
	"      --gpu      on GPU memory: rank r uses GPU r, modulo the number of GPUs\n"
	"      --most B   largest size per rank in bytes; default 4194304, on GPUs 67108864\n"
	"  -o FILE        default: ORIEL_TUNE, or the file that the library reads without it\n"
	"  -h, --help     this text\n";

struct tune_options {
	unsigned ranks, nodes;
	size_t most;
	const char *file;
	bool is_gpu;
};

/* One collective with its handle; the other two are NULL. */
struct tune_object {
	struct oriel_allgather *gather;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
};

enum tune_collective { TUNE_ALLGATHER, TUNE_ALLTOALL, TUNE_BCAST, TUNE_COLLECTIVES };

static const char *const tune_names[] = {"all-gather", "all-to-all", "broadcast"};

struct tune_job {
	struct oriel_bootstrap bootstrap;
	struct oriel_comm *comm;
	struct oriel_tune_info info;
	void *stream; /* NULL: host memory */
	unsigned rank, ranks;
	char *send, *result; /* bytes per rank of the largest size */
	size_t most;
	double *all; /* times of all ranks */
	unsigned best[TUNE_COLLECTIVES][TUNE_SIZES];
};

static size_t tune_size(unsigned index)
{
	size_t bytes = TUNE_LEAST;

	while (index--)
		bytes *= TUNE_STEP;
	return bytes;
}

static unsigned tune_sizes(const struct tune_job *job)
{
	unsigned count = 0;

	while (count < TUNE_SIZES && tune_size(count) <= job->most)
		count++;
	return count;
}

static double tune_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static enum oriel_status object_open(struct tune_job *job, enum tune_collective which,
				     unsigned algorithm, struct tune_object *o)
{
	struct oriel_allgather_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_view view = {.size = sizeof(view),
				  .length = job->most * job->ranks,
				  .buffer = job->result,
				  .flags = job->stream ? ORIEL_VIEW_GPU : 0};

	*o = (struct tune_object){.gather = NULL};
	if (which == TUNE_ALLGATHER)
		return oriel_allgather_create(job->comm, &view, &attr, &o->gather);
	if (which == TUNE_ALLTOALL)
		return oriel_alltoall_create(job->comm, &view, &attr, &o->alltoall);
	return oriel_bcast_create(job->comm, &view, &attr, &o->bcast);
}

static void object_close(struct tune_object *o)
{
	oriel_allgather_destroy(o->gather);
	oriel_alltoall_destroy(o->alltoall);
	oriel_bcast_destroy(o->bcast);
}

static enum oriel_status object_start(struct tune_job *job, const struct tune_object *o,
				      size_t bytes, unsigned round)
{
	if (o->gather)
		return oriel_allgather_start(o->gather, job->send, bytes, job->stream);
	if (o->alltoall)
		return oriel_alltoall_start(o->alltoall, job->send, bytes, job->stream);
	return oriel_bcast_start(o->bcast, round % job->ranks, job->send, bytes, job->stream);
}

static enum oriel_status object_query(const struct tune_object *o, size_t bytes,
				      struct oriel_allgather_info *info)
{
	if (o->gather)
		return oriel_allgather_query(o->gather, bytes, info);
	if (o->alltoall)
		return oriel_alltoall_query(o->alltoall, bytes, info);
	return oriel_bcast_query(o->bcast, bytes, info);
}

/* Time of one of @rounds executions, on the slowest rank. */
static enum oriel_status tune_sample(struct tune_job *job, const struct tune_object *o,
				     size_t bytes, unsigned rounds, double *ns)
{
	enum oriel_status status = oriel_comm_barrier(job->comm);
	double mine = tune_now_ns();
	unsigned i;

	for (i = 0; i < rounds && status == ORIEL_OK; i++)
		status = object_start(job, o, bytes, i);
	if (status == ORIEL_OK && job->stream)
		status = oriel_tune_gpu_wait(job->stream);
	mine = (tune_now_ns() - mine) / rounds;
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(job->comm, &mine, job->all, sizeof(mine));
	*ns = mine;
	for (i = 0; i < job->ranks && status == ORIEL_OK; i++)
		if (job->all[i] > *ns)
			*ns = job->all[i];
	return status;
}

static int tune_order(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/*
 * A low quantile of the samples, because other processes may run here too. All ranks know the
 * times of all, so the result is equal on all of them.
 */
static enum oriel_status tune_measure(struct tune_job *job, const struct tune_object *o,
				      size_t bytes, double *ns)
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
	qsort(samples, TUNE_SAMPLES, sizeof(samples[0]), tune_order);
	*ns = samples[TUNE_SAMPLES / 4];
	return ORIEL_OK;
}

/* Times of @algorithm at all sizes that it supports; 0 for the others. */
static enum oriel_status tune_algorithm(struct tune_job *job, enum tune_collective which,
					unsigned algorithm, double times[TUNE_SIZES])
{
	struct oriel_allgather_info info;
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

static void tune_print(const struct tune_job *job, enum tune_collective which,
		       double times[ORIEL_ALGORITHMS][TUNE_SIZES])
{
	unsigned i, algorithm;

	for (i = 0; i < tune_sizes(job); i++) {
		printf("%-10s %9zu", tune_names[which], tune_size(i));
		for (algorithm = 1; algorithm < ORIEL_ALGORITHMS; algorithm++)
			if (times[algorithm][i] > 0)
				printf("  %s %.2f",
				       oriel_algorithm_name((enum oriel_algorithm)algorithm),
				       times[algorithm][i] / 1e3);
		printf(" us -> %s\n",
		       oriel_algorithm_name((enum oriel_algorithm)job->best[which][i]));
	}
}

/*
 * Choose the fastest algorithm per size; that of the smaller sizes stays unless another is clearly
 * faster.
 */
static void tune_pick(struct tune_job *job, enum tune_collective which,
		      double times[ORIEL_ALGORITHMS][TUNE_SIZES])
{
	unsigned i, algorithm, last = 0;

	for (i = 0; i < tune_sizes(job); i++) {
		unsigned best = last && times[last][i] > 0 ? last : 0;
		double limit = best ? times[best][i] * TUNE_MARGIN : 0;

		for (algorithm = 1; algorithm < ORIEL_ALGORITHMS; algorithm++)
			if (times[algorithm][i] > 0 && (!best || times[algorithm][i] < limit)) {
				best = algorithm;
				limit = times[algorithm][i];
			}
		job->best[which][i] = last = best;
	}
}

static enum oriel_status tune_collective(struct tune_job *job, enum tune_collective which)
{
	double times[ORIEL_ALGORITHMS][TUNE_SIZES] = {{0}};
	struct oriel_allgather_info info;
	struct tune_object object;
	enum oriel_status status = object_open(job, which, 0, &object);
	unsigned algorithm;

	if (status != ORIEL_OK)
		return status;
	object_query(&object, 8, &info);
	object_close(&object);
	for (algorithm = 1; algorithm < ORIEL_ALGORITHMS && status == ORIEL_OK; algorithm++)
		if (info.supported >> algorithm & 1)
			status = tune_algorithm(job, which, algorithm, times[algorithm]);
	if (status != ORIEL_OK)
		return status;
	tune_pick(job, which, times);
	if (job->rank == 0)
		tune_print(job, which, times);
	return ORIEL_OK;
}

/* Write the rows of this job; an algorithm changes halfway between two sizes. */
static void tune_write_rows(const struct tune_job *job, FILE *to)
{
	unsigned which, i, sizes = tune_sizes(job);
	char bytes[24];

	for (which = 0; which < TUNE_COLLECTIVES; which++)
		for (i = 0; i < sizes; i++) {
			if (i + 1 < sizes && job->best[which][i + 1] == job->best[which][i])
				continue;
			snprintf(bytes, sizeof(bytes), "%zu", tune_size(i) * 2);
			fprintf(to, "%s %s %u %u %s %s %s\n", tune_names[which],
				job->stream ? "gpu" : "host", job->ranks, job->info.nodes,
				i + 1 < sizes ? bytes : "any",
				oriel_algorithm_name((enum oriel_algorithm)job->best[which][i]),
				job->info.machine);
		}
}

/* Is @line, with its newline, about the measured machine, ranks and memory? */
static bool tune_is_ours(const struct tune_job *job, const char *line)
{
	char tail[128], head[48];
	size_t i;

	snprintf(tail, sizeof(tail), " %s\n", job->info.machine);
	if (strlen(line) < strlen(tail) || strcmp(line + strlen(line) - strlen(tail), tail) != 0)
		return false;
	for (i = 0; i < TUNE_COLLECTIVES; i++) {
		snprintf(head, sizeof(head), "%s %s %u %u ", tune_names[i],
			 job->stream ? "gpu" : "host", job->ranks, job->info.nodes);
		if (strncmp(line, head, strlen(head)) == 0)
			return true;
	}
	return false;
}

/* Copy the lines of the file that are about other machines, jobs or memory. */
static void tune_keep_others(const struct tune_job *job, const char *path, FILE *to)
{
	FILE *from = fopen(path, "re");
	char line[512];

	fprintf(to, ORIEL_TUNE_HEAD "\n");
	while (from && fgets(line, sizeof(line), from))
		if (strcmp(line, ORIEL_TUNE_HEAD "\n") != 0 && !tune_is_ours(job, line))
			fputs(line, to);
	if (from)
		fclose(from);
}

static void tune_make_folders(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
}

/* Write a new file and rename it, so that a reader finds either the old or the new one. */
static bool tune_write(const struct tune_job *job, const char *file)
{
	char path[512], draft[544];
	bool is_written;
	FILE *to;

	snprintf(path, sizeof(path), "%s", file);
	snprintf(draft, sizeof(draft), "%s.%ld", path, (long)getpid());
	tune_make_folders(draft);
	to = fopen(draft, "we");
	if (to) {
		tune_keep_others(job, path, to);
		tune_write_rows(job, to);
		is_written = !ferror(to);
		if (fclose(to) == 0 && is_written && rename(draft, path) == 0) {
			printf("written to %s\n", path);
			return true;
		}
	}
	fprintf(stderr, "oriel tune: cannot write %s: %s\n", path, strerror(errno));
	unlink(draft);
	return false;
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

static int tune_run(const struct tune_options *options)
{
	struct tune_job job = {.comm = NULL};
	enum oriel_status status;
	unsigned which;
	bool is_written;

	/* The new table may replace one with errors. */
	setenv("ORIEL_TUNE", "off", 1);
	status = job_open(&job, options);
	for (which = 0; which < TUNE_COLLECTIVES && status == ORIEL_OK; which++)
		status = tune_collective(&job, (enum tune_collective)which);
	if (status != ORIEL_OK)
		fprintf(stderr, "oriel tune: %s: %s\n", oriel_status_name(status),
			oriel_last_error());
	is_written = status == ORIEL_OK && (job.rank || tune_write(&job, options->file));
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
		{"nodes", required_argument, NULL, 'N'},
		{"gpu", no_argument, NULL, 'g'},
		{"most", required_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
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
	if (!tool_is_launched())
		return tool_launch("tune", options.ranks, options.nodes, argc, argv);
	return tune_run(&options);
}
