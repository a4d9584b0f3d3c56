/* SPDX-License-Identifier: Apache-2.0 */
/* Implements tools/launch.h: finds this program and executes it as `oriel run`. */
#include "launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

bool tool_is_launched(void)
{
	return getenv("WORLD_SIZE") != NULL;
}

int tool_launch(const char *name, unsigned ranks_wanted, unsigned nodes_wanted, int argc,
		char **argv)
{
	char self[4096], ranks[16], nodes[16];
	char run[] = "run", count[] = "-n", split[] = "--nodes", plain[] = "--no-prefix";
	char end[] = "--", command[16];
	char *head[10] = {self, run, plain, count, ranks}, *tail[] = {end, self, command};
	size_t heads = 5;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char **all;

	if (length < 0) {
		fprintf(stderr, "oriel %s: cannot find its own program: %s\n", name,
			strerror(errno));
		return TOOL_FAILED;
	}
	self[length] = '\0';
	snprintf(command, sizeof(command), "%s", name);
	snprintf(ranks, sizeof(ranks), "%u", ranks_wanted);
	if (nodes_wanted) {
		snprintf(nodes, sizeof(nodes), "%u", nodes_wanted);
		head[heads++] = split;
		head[heads++] = nodes;
	}
	memcpy(head + heads, tail, sizeof(tail));
	heads += sizeof(tail) / sizeof(tail[0]);
	all = calloc(heads + (size_t)argc, sizeof(*all));
	if (!all) {
		fprintf(stderr, "oriel %s: no memory\n", name);
		return TOOL_FAILED;
	}
	memcpy(all, head, heads * sizeof(*all));
	memcpy(all + heads, argv + 1, (size_t)(argc - 1) * sizeof(*all));
	execv(self, all);
	fprintf(stderr, "oriel %s: cannot start `oriel run`: %s\n", name, strerror(errno));
	free(all);
	return TOOL_FAILED;
}
