/* SPDX-License-Identifier: Apache-2.0 */
/* `oriel run`: the command line; run_job() runs the job, run_agent() a part on another host. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "run_host.h"
#include "tool.h"

static const char run_usage[] =
	"usage: oriel run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n"
	"       oriel run --hosts HOST[:RANKS],... [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n"
	"\n"
	"Starts N ranks of PROGRAM on this machine, or ranks on each host by ssh, with RANK,\n"
	"WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and ORIEL_JOB_KEY in\n"
	"their environment.\n"
	"\n"
	"  -n, --ranks N     number of ranks, 1 to 4096\n"
	"      --hosts LIST  HOST[:RANKS],... instead of -n: hosts, USER@HOST and [IPv6] allowed,\n"
	"                    and how many ranks each has (default 1). `oriel`, PROGRAM and this\n"
	"                    folder must be there at the same paths\n"
	"      --nodes M     split them into M virtual nodes (ORIEL_NODE)\n"
	"      --timeout S   end the job after S seconds, code 124; 0 = never (default)\n"
	"      --grace S     seconds between SIGTERM and SIGKILL (default 3)\n"
	"      --no-prefix   print the lines of the ranks without \"[rank] \"\n"
	"      --no-pty      standard output of the ranks is a pipe: the C library then holds\n"
	"                    lines back, and a rank that aborts loses them\n"
	"  -x NAME           with --hosts: the ranks have the variable NAME of this\n"
	"                    environment, too; may be given several times\n"
	"  -h, --help        this text\n"
	"\n"
	"SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT go to all ranks; a\n"
	"second SIGINT kills them. When a rank fails the others are ended, and its exit code\n"
	"is the launcher's, 128 + n if signal n killed it. 127: the program was not found,\n"
	"126: it cannot be executed, 2: the command line is invalid.\n"
	"\n"
	"With --hosts, ssh must log in without a question; ORIEL_SSH is another command for it,\n"
	"such as \"ssh -p 2222\". Variables with ORIEL_ and those of -x go to the ranks,\n"
	"others do not. MASTER_ADDR is the first host, and MASTER_PORT a free port there, unless\n"
	"they are set.\n";

static bool parse_count(const char *text, unsigned max, unsigned *count)
{
	unsigned long value;
	char *end;

	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno != 0 || value == 0 || value > max)
		return false;
	*count = (unsigned)value;
	return true;
}

static bool parse_seconds(const char *text, double *seconds)
{
	double value;
	char *end;

	if (!*text || strspn(text, "0123456789.") != strlen(text))
		return false;
	value = strtod(text, &end);
	if (*end || value > 1e9)
		return false;
	*seconds = value;
	return true;
}

__attribute__((format(printf, 1, 2))) static int usage_error(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "oriel run: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\nTry `oriel help run`.\n");
	return TOOL_USAGE;
}

/* Variables that the launcher sets for each rank itself. */
static bool is_own_name(const char *name)
{
	static const char *const own[] = {"RANK",        "WORLD_SIZE",
					  "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
					  "MASTER_ADDR", "MASTER_PORT"};
	size_t i;

	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcmp(name, own[i]) == 0)
			return true;
	return strncmp(name, "ORIEL_", strlen("ORIEL_")) == 0;
}

static int parse_name(struct run_options *options, const char *name)
{
	const char **names;

	if (!*name || strchr(name, '='))
		return usage_error("-x takes the name of a variable, whose value is that of this "
				   "environment, not '%s'",
				   name);
	if (is_own_name(name))
		return usage_error("-x %s: ranks get ORIEL_ variables and those of the job "
				   "without -x",
				   name);
	if (!getenv(name))
		return usage_error("-x %s: this environment has no such variable", name);
	names = realloc(options->names, (options->name_count + 1) * sizeof(*names));
	if (!names) {
		fprintf(stderr, "oriel run: no memory for the name of a variable\n");
		return TOOL_FAILED;
	}
	options->names = names;
	names[options->name_count++] = name;
	return TOOL_OK;
}

/* Parse one option. TOOL_OK, or the exit code. */
static int parse_option(struct run_options *options, int option, const char *value)
{
	char why[512];

	switch (option) {
	case 'n':
		if (!parse_count(value, RUN_MAX_RANKS, &options->count))
			return usage_error("-n takes a number of ranks from 1 to 4096, not '%s'",
					   value);
		return TOOL_OK;
	case 'm':
		if (!parse_count(value, RUN_MAX_RANKS, &options->nodes))
			return usage_error("--nodes takes a number from 1 to 4096, not '%s'",
					   value);
		return TOOL_OK;
	case 't':
		if (!parse_seconds(value, &options->timeout_s))
			return usage_error("--timeout takes seconds, not '%s'", value);
		return TOOL_OK;
	case 'g':
		if (!parse_seconds(value, &options->grace_s))
			return usage_error("--grace takes seconds, not '%s'", value);
		return TOOL_OK;
	case 'p':
		options->has_prefix = false;
		return TOOL_OK;
	case 'y':
		options->has_pty = false;
		return TOOL_OK;
	case 'x':
		return parse_name(options, value);
	case 'a':
		options->is_agent = true;
		return TOOL_OK;
	case 'o':
		run_targets_free(options);
		if (!run_targets_parse(value, options, why, sizeof(why)))
			return usage_error("%s", why);
		return TOOL_OK;
	default: /* getopt_long() has printed the error */
		fprintf(stderr, "Try `oriel help run`.\n");
		return TOOL_USAGE;
	}
}

/* @is_done: help was requested and printed. */
static int parse_options(struct run_options *options, int argc, char **argv, bool *is_done)
{
	static const struct option names[] = {
		{"ranks", required_argument, NULL, 'n'},   {"nodes", required_argument, NULL, 'm'},
		{"timeout", required_argument, NULL, 't'}, {"grace", required_argument, NULL, 'g'},
		{"no-prefix", no_argument, NULL, 'p'},     {"no-pty", no_argument, NULL, 'y'},
		{"help", no_argument, NULL, 'h'},          {"hosts", required_argument, NULL, 'o'},
		{"agent", no_argument, NULL, 'a'},         {NULL, 0, NULL, 0},
	};
	char name[] = "oriel run";
	int option;
	int code;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	*options = (struct run_options){.grace_s = 3, .has_prefix = true, .has_pty = true};
	while ((option = getopt_long(argc, argv, "+n:x:h", names, NULL)) != -1) {
		if (option == 'h') {
			fputs(run_usage, stdout);
			*is_done = true;
			return TOOL_OK;
		}
		code = parse_option(options, option, optarg);
		if (code != TOOL_OK)
			return code;
	}
	if (options->is_agent) /* undocumented: the launcher starts it on other hosts */
		return optind == argc ? TOOL_OK : usage_error("--agent takes no program");
	if (options->targets && (options->count > 0 || options->nodes > 0))
		return usage_error(
			"--hosts has the ranks of each host: give no -n, and no --nodes");
	if (options->names && !options->targets)
		return usage_error("-x is for --hosts: ranks of this machine have all variables");
	if (!options->targets)
		options->ranks = options->count;
	if (options->ranks == 0)
		return usage_error("the number of ranks is missing: give -n N, or --hosts");
	if (options->nodes > options->ranks)
		return usage_error("there cannot be more nodes than ranks");
	if (optind == argc || !*argv[optind])
		return usage_error("the program is missing");
	options->program = argv + optind;
	return TOOL_OK;
}

int oriel_tool_run(int argc, char **argv)
{
	struct run_options options;
	bool is_done = false;
	int code;

	code = parse_options(&options, argc, argv, &is_done);
	if (code == TOOL_OK && !is_done)
		code = options.is_agent ? run_agent() : run_job(&options);
	run_targets_free(&options);
	free(options.names);
	return code;
}
