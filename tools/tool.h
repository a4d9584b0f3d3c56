/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of the subcommands of `oriel`. Each is one function that gets its own name as
 * argv[0], handles --help, and returns the exit code.
 */
#ifndef ORIEL_TOOL_H
#define ORIEL_TOOL_H

/* Exit codes; `oriel run` also passes on those of its ranks. */
enum {
	TOOL_OK = 0,
	TOOL_FAILED = 1,
	TOOL_USAGE = 2,
	TOOL_TIMEOUT = 124,
	TOOL_NOT_EXECUTABLE = 126,
	TOOL_NOT_FOUND = 127,
	TOOL_SIGNALLED = 128, /* plus the number of the signal */
};

int oriel_tool_demo(int argc, char **argv);
int oriel_tool_doctor(int argc, char **argv);
int oriel_tool_field_report(int argc, char **argv);
int oriel_tool_hang(int argc, char **argv);
int oriel_tool_info(int argc, char **argv);
int oriel_tool_perf(int argc, char **argv);
int oriel_tool_run(int argc, char **argv);
int oriel_tool_tune(int argc, char **argv);

#endif
