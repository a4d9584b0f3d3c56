/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explores every interleaving of a few processes that share a small state. The search is breadth
 * first, so the path to an error is a shortest one. Called by the models.
 *
 * A process steps atomically: one access to state that other processes can change, then anything
 * that only it can see.
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
	/* Calls explore_to() once for each step that @process may take in @state. */
	void (*step)(struct explore *e, const void *state, unsigned process);
	/* NULL, or the error of @state, in which no process can take a step. */
	const char *(*end)(const void *state);
};

/*
 * Called from step(): the process may do @what to @number, which leads to @next. @complaint is the
 * error of that step, or NULL.
 */
void explore_to(struct explore *e, const void *next, const char *what, unsigned number,
		const char *complaint);

/* Explores all states from @start on and prints the result. False: prints the path to an error. */
bool explore_run(const struct model *model, const void *start, const char *title);

/* The models. They return the exit status; @argv is that of main() from the name of the model on.
 */
int ring_model(int argc, char **argv);
int sleep_model(int argc, char **argv);
int barrier_model(int argc, char **argv);
int gather_model(int argc, char **argv);
int allgather_model(int argc, char **argv);
int exchange_model(int argc, char **argv);
int fast_model(int argc, char **argv);
int hierarchy_model(int argc, char **argv);
int reduce_model(int argc, char **argv);
int proxy_model(int argc, char **argv);
int stream_model(int argc, char **argv);
int help_model(int argc, char **argv);
int short_model(int argc, char **argv);
int tickets_model(int argc, char **argv);
int vote_model(int argc, char **argv);
int staged_model(int argc, char **argv);

/* Returns the number after @option in @argv, or @value without that option. */
unsigned model_option(int argc, char **argv, const char *option, unsigned value);

#endif
