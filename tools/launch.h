/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For subcommands that are jobs (demo, perf, tune): are they a rank of one, and how to become one.
 */
#ifndef ORIEL_LAUNCH_H
#define ORIEL_LAUNCH_H

#include <stdbool.h>

/* Has a launcher started this process as a rank? */
bool tool_is_launched(void);
/* Executes `oriel run` on @name with the same arguments; returns the exit code if that fails. */
int tool_launch(const char *name, unsigned ranks, unsigned nodes, int argc, char **argv);

#endif
