/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the subcommands of `oriel` share. Each is one function that gets its
 * own name as argv[0], knows --help, and returns the exit code.
 */
#ifndef ORIEL_TOOL_H
#define ORIEL_TOOL_H

/* Exit codes; `oriel run` passes on those of the ranks beside them. */
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
int oriel_tool_info(int argc, char **argv);
int oriel_tool_perf(int argc, char **argv);
int oriel_tool_run(int argc, char **argv);
int oriel_tool_tune(int argc, char **argv);

#endif
