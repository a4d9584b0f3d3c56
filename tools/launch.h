/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands that are jobs: started by a launcher, or becoming `oriel run` themselves. */
#ifndef ORIEL_LAUNCH_H
#define ORIEL_LAUNCH_H

#include <stdbool.h>

bool tool_is_launched(void);
/* Becomes `oriel run` of @name with the same arguments; what to exit with if that fails. */
int tool_launch(const char *name, unsigned ranks, unsigned nodes, int argc, char **argv);

#endif
