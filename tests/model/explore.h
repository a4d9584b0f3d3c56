/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of a few processes that share a small state. Breadth
 * first, so that the way to what goes wrong is a shortest one.
 *
 * A process steps atomically: one access to what the others can change, then
 * anything that only it can see.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>

#define EXPLORE_STATE_MAX 128u

struct explore;

struct model {
	size_t size; /* of a state, in bytes without padding */
	unsigned processes;
	/* Calls explore_to() once for each thing that @process may do in @state. */
	void (*step)(struct explore *e, const void *state, unsigned process);
	/* NULL, or what is wrong with @state, where nobody can do anything. */
	const char *(*end)(const void *state);
};

/*
 * From step(): the process may @what @number, and then @next holds. @complaint
 * is what is wrong with that, or NULL.
 */
void explore_to(struct explore *e, const void *next, const char *what, unsigned number,
		const char *complaint);

/* Whether nothing goes wrong, from @start on. Says so; if not, prints the way there. */
bool explore_run(const struct model *model, const void *start, const char *title);

/* The models: exit status; @argv as in main(), from the name of the model on. */
int ring_model(int argc, char **argv);
int sleep_model(int argc, char **argv);
int barrier_model(int argc, char **argv);
int gather_model(int argc, char **argv);
int allgather_model(int argc, char **argv);
int exchange_model(int argc, char **argv);
int proxy_model(int argc, char **argv);
int stream_model(int argc, char **argv);
int help_model(int argc, char **argv);
int short_model(int argc, char **argv);

/* The number after @option in @argv, @value if it is not there. */
unsigned model_option(int argc, char **argv, const char *option, unsigned value);

#endif
