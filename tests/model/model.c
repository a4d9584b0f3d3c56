/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model NAME [OPTION NUMBER]...: explores one protocol. Exit status 0: no error, 1: an error was
 * found, 2: wrong usage. CMakeLists.txt lists the runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} models[] = {
	{"ring", ring_model},         {"sleep", sleep_model},   {"barrier", barrier_model},
	{"gather", gather_model},     {"proxy", proxy_model},   {"allgather", allgather_model},
	{"exchange", exchange_model}, {"help", help_model},     {"short", short_model},
	{"reduce", reduce_model},     {"stream", stream_model}, {"tickets", tickets_model},
	{"vote", vote_model},         {"staged", staged_model}, {"hierarchy", hierarchy_model},
	{"fast", fast_model},
};

unsigned model_option(int argc, char **argv, const char *option, unsigned value)
{
	int i;

	for (i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], option) == 0)
			return (unsigned)atoi(argv[i + 1]);
	return value;
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && argc % 2 == 0 && i < sizeof(models) / sizeof(models[0]); i++)
		if (strcmp(argv[1], models[i].name) == 0)
			return models[i].run(argc - 1, argv + 1);
	fputs("usage: model "
	      "ring|sleep|barrier|gather|proxy|allgather|exchange|help|short|reduce|stream|"
	      "tickets|vote|staged|hierarchy|fast [OPTION NUMBER]...\n",
	      stderr);
	return 2;
}
