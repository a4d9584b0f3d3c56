/* SPDX-License-Identifier: Apache-2.0 */
/* The program `oriel`: finds the subcommand and calls it. */
#include <stdio.h>
#include <string.h>

#include <oriel/status.h>

#include "tool.h"

struct tool {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

static const struct tool tools[] = {
	{"demo", oriel_tool_demo, "verify and time every operation between the ranks of a job"},
	{"doctor", oriel_tool_doctor,
	 "check what the paths need of this machine, and how to fix it"},
	{"field-report", oriel_tool_field_report,
	 "write what this machine and its NIC do to an archive, without names"},
	{"hang", oriel_tool_hang,
	 "print which ranks of a job wait for which, by a process of this host"},
	{"info", oriel_tool_info, "print features of this machine, settings, and paths of a job"},
	{"perf", oriel_tool_perf, "measure one operation: latency, bandwidth, rate"},
	{"run", oriel_tool_run, "start the ranks of a job, on this machine or by ssh on several"},
	{"tune", oriel_tool_tune, "measure which algorithm of each collective is the fastest"},
};

static const struct tool *tool_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (strcmp(tools[i].name, name) == 0)
			return &tools[i];
	return NULL;
}

static void tool_list(FILE *to)
{
	size_t i;

	fprintf(to, "usage: oriel COMMAND [ARGUMENTS...]\n\n");
	for (i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		fprintf(to, "  %-12s %s\n", tools[i].name, tools[i].help);
	fprintf(to, "\n`oriel help COMMAND` prints its options; `oriel --version` prints the "
		    "version.\n");
}

static int tool_unknown(const char *name)
{
	fprintf(stderr, "oriel: unknown command '%s'\n\n", name);
	tool_list(stderr);
	return TOOL_USAGE;
}

static int tool_help(int argc, char **argv)
{
	char option[] = "--help";
	char *arguments[] = {NULL, option, NULL};
	const struct tool *tool;

	if (argc < 2) {
		tool_list(stdout);
		return TOOL_OK;
	}
	tool = tool_find(argv[1]);
	if (!tool)
		return tool_unknown(argv[1]);
	arguments[0] = argv[1];
	return tool->run(2, arguments);
}

static int tool_dispatch(int argc, char **argv)
{
	const struct tool *tool;

	if (argc < 2) {
		tool_list(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "-h") == 0)
		return tool_help(argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0) {
		printf("oriel %s\n", oriel_version());
		return TOOL_OK;
	}
	tool = tool_find(argv[1]);
	if (!tool)
		return tool_unknown(argv[1]);
	return tool->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int code = tool_dispatch(argc, argv);

	if ((fflush(stdout) != 0 || ferror(stdout)) && code == TOOL_OK) {
		perror("oriel: cannot write the output");
		return TOOL_FAILED;
	}
	return code;
}
