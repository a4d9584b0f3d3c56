/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `oriel perf`. */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "tool.h"

#define OPTIONS_BYTES_MAX ((uint64_t)1 << 40)
#define OPTIONS_RANKS_MAX 4096
#define OPTIONS_FIRST 8u
#define OPTIONS_LAST (16u << 20)

static void options_help(FILE *to)
{
	const struct perf_test *test;

	fprintf(to,
		"usage: oriel perf TEST... [OPTIONS]\n"
		"\n"
		"Measures the operations of a window between the ranks of a job. Without a "
		"launcher\n"
		"it starts itself under `oriel run`. One-way times are half a ping-pong between\n"
		"ranks 0 and 1. TEST is `all` or any of:\n"
		"\n");
	for (test = perf_tests; test->name; test++)
		fprintf(to, "  %-18s %s\n", test->name, test->help);
	fprintf(to,
		"\n"
		"  -n, --ranks N     ranks to start where there is no launcher (default 2)\n"
		"      --nodes N     virtual nodes to put them on: rdma between them\n"
		"      --sizes LIST  bytes: 8,4K,64K,1M or FIRST:LAST by powers of two\n"
		"  -b, -e, -f        the same as a sweep: from bytes -b (default 8) to -e (16M), "
		"times -f (2)\n"
		"      --warmup N    rounds before timing (default: by size)\n"
		"      --iters N     rounds in a repetition (default: about 30 ms of them)\n"
		"      --reps N      repetitions, 1 to 100 (default 5); their medians give the "
		"spread\n"
		"      --interleave  a repetition measures every row once; rows come at the end\n"
		"      --gpu         collectives in GPU memory, on a stream: rank r uses GPU r, "
		"modulo\n"
		"                    the number of GPUs\n"
		"      --group G     thread (default) or team:N, N threads per rank\n"
		"      --pin         rank r on core r, round robin (default where cores suffice)\n"
		"      --no-pin      do not pin\n"
		"      --check       compare data that depends on the round, in rounds of their "
		"own\n"
		"      --json, --csv one object or line of comma-separated values for each row\n"
		"      --compare OLD rows beside those of OLD, a file of --json: exit code 1 if "
		"one is\n"
		"                    slower by more than the 95 %% interval and --tolerance\n"
		"      --tolerance T part of the time (default 0.05)\n"
		"      --plot FILE   draw the rows as SVG, with gnuplot\n"
		"      --from FILE   no TEST: report the rows of FILE, of --json\n"
		"      --progress    on the terminal (default where standard error is one)\n"
		"  -h, --help        this text\n");
}

static int options_error(const char *text, const char *value)
{
	fprintf(stderr, "oriel perf: ");
	fprintf(stderr, text, value);
	fprintf(stderr, "\nTry `oriel help perf`.\n");
	return TOOL_USAGE;
}

static bool options_count(const char *text, uint64_t least, uint64_t most, uint64_t *count)
{
	unsigned long long value;

	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno != 0 || value < least || value > most)
		return false;
	*count = value;
	return true;
}

/* "8", "4K", "1M", "2G"; advances *@text past it. */
static bool size_parse(const char **text, uint64_t *bytes)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*bytes = strtoull(*text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		if (*bytes > OPTIONS_BYTES_MAX)
			return false;
		*bytes <<= 10 * (unit - units + 1);
		end++;
	}
	*text = end;
	return errno == 0 && *bytes > 0 && *bytes <= OPTIONS_BYTES_MAX;
}

/* FIRST:LAST */
static bool sizes_range(uint64_t first, const char *text, uint64_t sizes[PERF_SIZES_MAX],
			unsigned *count)
{
	uint64_t last, bytes;

	if (!size_parse(&text, &last) || *text || last < first)
		return false;
	for (bytes = first, *count = 0; bytes <= last; bytes *= 2)
		sizes[(*count)++] = bytes;
	return true;
}

bool perf_sizes_parse(const char *text, uint64_t sizes[PERF_SIZES_MAX], unsigned *count)
{
	for (*count = 0; *count < PERF_SIZES_MAX; text++) {
		if (!size_parse(&text, &sizes[(*count)++]))
			return false;
		if (!*text)
			return true;
		if (*text == ':' && *count == 1)
			return sizes_range(sizes[0], text + 1, sizes, count);
		if (*text != ',')
			return false;
	}
	return false;
}

static bool options_group(struct perf_options *options, const char *text)
{
	uint64_t threads = 1;

	if (strncmp(text, "team:", 5) == 0) {
		if (!options_count(text + 5, 1, ORIEL_TEAM_MAX, &threads))
			return false;
	} else if (strcmp(text, "thread") != 0) {
		return false;
	}
	options->threads = (unsigned)threads;
	return true;
}

enum {
	OPTION_NODES = 256,
	OPTION_SIZES,
	OPTION_WARMUP,
	OPTION_ITERS,
	OPTION_REPS,
	OPTION_GPU,
	OPTION_GROUP,
	OPTION_PIN,
	OPTION_NO_PIN,
	OPTION_CHECK,
	OPTION_JSON,
	OPTION_CSV,
	OPTION_INTERLEAVE,
	OPTION_PROGRESS,
	OPTION_COMPARE,
	OPTION_TOLERANCE,
	OPTION_PLOT,
	OPTION_FROM,
};

/* -b, -e and -f as they are read; 0: not given. */
struct options_sweep {
	uint64_t first, last, factor;
};

static const struct option options_long[] = {
	{"ranks", required_argument, NULL, 'n'},
	{"nodes", required_argument, NULL, OPTION_NODES},
	{"sizes", required_argument, NULL, OPTION_SIZES},
	{"warmup", required_argument, NULL, OPTION_WARMUP},
	{"iters", required_argument, NULL, OPTION_ITERS},
	{"reps", required_argument, NULL, OPTION_REPS},
	{"gpu", no_argument, NULL, OPTION_GPU},
	{"group", required_argument, NULL, OPTION_GROUP},
	{"pin", no_argument, NULL, OPTION_PIN},
	{"no-pin", no_argument, NULL, OPTION_NO_PIN},
	{"check", no_argument, NULL, OPTION_CHECK},
	{"json", no_argument, NULL, OPTION_JSON},
	{"csv", no_argument, NULL, OPTION_CSV},
	{"interleave", no_argument, NULL, OPTION_INTERLEAVE},
	{"progress", no_argument, NULL, OPTION_PROGRESS},
	{"compare", required_argument, NULL, OPTION_COMPARE},
	{"tolerance", required_argument, NULL, OPTION_TOLERANCE},
	{"plot", required_argument, NULL, OPTION_PLOT},
	{"from", required_argument, NULL, OPTION_FROM},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int options_sweep(struct options_sweep *sweep, int option, const char *value)
{
	uint64_t *bytes = option == 'b' ? &sweep->first : &sweep->last;
	const char *end = value;

	assert(value);
	if (option == 'f')
		return options_count(value, 2, 1024, &sweep->factor)
			       ? TOOL_OK
			       : options_error("-f takes a factor from 2 to 1024, not '%s'", value);
	if (!size_parse(&end, bytes) || *end)
		return options_error("-b and -e take bytes as 8, 4K or 1M, not '%s'", value);
	return TOOL_OK;
}

/* The sizes of -b, -e and -f. */
static int options_set_sweep(struct perf_options *options, const struct options_sweep *sweep)
{
	uint64_t bytes = sweep->first ? sweep->first : OPTIONS_FIRST;
	uint64_t last = sweep->last ? sweep->last : OPTIONS_LAST;

	if (!sweep->first && !sweep->last && !sweep->factor)
		return TOOL_OK;
	if (options->size_count)
		return options_error("%s", "--sizes and -b, -e, -f exclude each other");
	if (bytes > last)
		return options_error("%s", "-b is above -e (8 and 16M without them)");
	for (; bytes <= last && options->size_count < PERF_SIZES_MAX;
	     bytes *= sweep->factor ? sweep->factor : 2)
		options->sizes[options->size_count++] = bytes;
	return TOOL_OK;
}

static bool options_tolerance(struct perf_options *options, const char *value)
{
	char *end;

	options->tolerance = strtod(value, &end);
	return end != value && !*end && options->tolerance >= 0 && options->tolerance < 100;
}

/* An option that names a file, or how to report. */
static int options_report(struct perf_options *options, int option, const char *value)
{
	switch (option) {
	case OPTION_COMPARE:
		options->compare = value;
		return TOOL_OK;
	case OPTION_PLOT:
		options->plot = value;
		return TOOL_OK;
	case OPTION_FROM:
		options->from = value;
		return TOOL_OK;
	case OPTION_TOLERANCE:
		if (!options_tolerance(options, value))
			return options_error("--tolerance takes a part of the time, as 0.05, not "
					     "'%s'",
					     value);
		return TOOL_OK;
	}
	return TOOL_USAGE;
}

/* An option that takes a value. */
static int options_value(struct perf_options *options, int option, const char *value)
{
	uint64_t count = 0;

	switch (option) {
	case 'n':
		if (!options_count(value, 2, OPTIONS_RANKS_MAX, &count))
			return options_error("-n takes a number of ranks from 2 to 4096, not '%s'",
					     value);
		options->ranks = (unsigned)count;
		return TOOL_OK;
	case OPTION_NODES:
		if (!options_count(value, 1, OPTIONS_RANKS_MAX, &count))
			return options_error("--nodes takes a number from 1 to 4096, not '%s'",
					     value);
		options->nodes = (unsigned)count;
		return TOOL_OK;
	case OPTION_SIZES:
		if (!perf_sizes_parse(value, options->sizes, &options->size_count))
			return options_error("--sizes takes 8,4K,1M or 8:1M, not '%s'", value);
		return TOOL_OK;
	case OPTION_WARMUP:
		if (!options_count(value, 1, UINT32_MAX, &options->warmup))
			return options_error("--warmup takes a number above 0, not '%s'", value);
		return TOOL_OK;
	case OPTION_ITERS:
		if (!options_count(value, 1, UINT32_MAX, &options->iters))
			return options_error("--iters takes a number above 0, not '%s'", value);
		return TOOL_OK;
	case OPTION_REPS:
		if (!options_count(value, 1, PERF_REPS_MAX, &count))
			return options_error("--reps takes a number from 1 to 100, not '%s'",
					     value);
		options->reps = (unsigned)count;
		return TOOL_OK;
	case OPTION_GROUP:
		if (!options_group(options, value))
			return options_error(
				"--group takes thread or team:N with N up to 64, not '%s'", value);
		return TOOL_OK;
	}
	return options_report(options, option, value);
}

static int options_flag(struct perf_options *options, int option)
{
	switch (option) {
	case OPTION_GPU:
		options->is_gpu = true;
		return TOOL_OK;
	case OPTION_PIN:
		options->pin = PERF_PIN_ON;
		return TOOL_OK;
	case OPTION_NO_PIN:
		options->pin = PERF_PIN_OFF;
		return TOOL_OK;
	case OPTION_CHECK:
		options->is_checked = true;
		return TOOL_OK;
	case OPTION_JSON:
		options->is_json = true;
		return TOOL_OK;
	case OPTION_CSV:
		options->is_csv = true;
		return TOOL_OK;
	case OPTION_INTERLEAVE:
		options->is_interleaved = true;
		return TOOL_OK;
	case OPTION_PROGRESS:
		options->has_progress = true;
		return TOOL_OK;
	}
	return options_error("%s", "unknown option");
}

static const struct perf_test *options_find(const char *name)
{
	const struct perf_test *test;

	for (test = perf_tests; test->name; test++)
		if (strcmp(test->name, name) == 0)
			return test;
	return NULL;
}

static int options_tests(struct perf_options *options, int argc, char **argv)
{
	const struct perf_test *test;
	size_t count = 0;
	int i;

	if (argc == 0)
		return options_error("%s", "which test?");
	for (test = perf_tests; test->name; test++)
		count++;
	options->tests = calloc(count + (size_t)argc + 1, sizeof(const struct perf_test *));
	if (!options->tests)
		return TOOL_FAILED;
	for (i = 0, count = 0; i < argc; i++) {
		if (strcmp(argv[i], "all") == 0) {
			for (test = perf_tests, count = 0; test->name; test++)
				options->tests[count++] = test;
			options->tests[count] = NULL;
			return TOOL_OK;
		}
		options->tests[count] = options_find(argv[i]);
		if (!options->tests[count++])
			return options_error("unknown test '%s'", argv[i]);
	}
	return TOOL_OK;
}

/* Check and complete the options once all of them are known. */
static int options_finish(struct perf_options *options, const struct options_sweep *sweep, int argc,
			  char **argv)
{
	int code = options_set_sweep(options, sweep);

	if (code != TOOL_OK)
		return code;
	if (options->is_json && options->is_csv)
		return options_error("%s", "--json and --csv exclude each other");
	/* An old file and a new one differ by slow minutes as well, which every row must share. */
	if (options->compare)
		options->is_interleaved = true;
	if (!options->from)
		return options_tests(options, argc, argv);
	if (argc > 0)
		return options_error("--from reports rows of a file, it does not measure '%s'",
				     argv[0]);
	return TOOL_OK;
}

int perf_options_read(struct perf_options *options, int argc, char **argv)
{
	struct options_sweep sweep = {.first = 0};
	int option, code;

	*options = (struct perf_options){.reps = 5, .ranks = 2, .threads = 1, .tolerance = 0.05};
	optind = 1;
	while ((option = getopt_long(argc, argv, "n:b:e:f:h", options_long, NULL)) != -1) {
		if (option == 'h') {
			options_help(stdout);
			return TOOL_OK;
		}
		if (option == '?') /* getopt_long() has printed the error */
			return TOOL_USAGE;
		if (option == 'b' || option == 'e' || option == 'f')
			code = options_sweep(&sweep, option, optarg);
		else
			code = optarg ? options_value(options, option, optarg)
				      : options_flag(options, option);
		if (code != TOOL_OK)
			return code;
	}
	return options_finish(options, &sweep, argc - optind, argv + optind);
}

void perf_options_close(struct perf_options *options)
{
	free(options->tests);
}
