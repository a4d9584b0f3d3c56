/* SPDX-License-Identifier: Apache-2.0 */
/* A breadth-first search over a hash table of all states. */
#include "explore.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PARENT UINT32_MAX

/* States in the order in which they were found; those from @at on have not been expanded. */
struct explore {
	const struct model *model;
	char *states;
	uint32_t *parents;
	uint32_t count;
	uint32_t room;
	uint32_t *table; /* of indices + 1; 0 is empty */
	uint32_t mask;
	uint32_t at;
	uint32_t steps; /* of the state at @at */
	const char *complaint;
	/* While a path is printed: the next state on it, and the step that leads there. */
	const void *wanted;
	const char *what;
	unsigned number;
};

static void *explore_grow(void *memory, size_t count, size_t size)
{
	void *grown = realloc(memory, count * size);

	if (!grown) {
		fputs("model: out of memory\n", stderr);
		exit(2);
	}
	return grown;
}

static const void *explore_state(const struct explore *e, uint32_t index)
{
	return e->states + (size_t)index * e->model->size;
}

static uint32_t explore_hash(const struct explore *e, const void *state)
{
	const unsigned char *bytes = state;
	uint64_t hash = 0x9e3779b97f4a7c15, word;
	size_t i, part;

	for (i = 0; i < e->model->size; i += part) {
		part = e->model->size - i < 8 ? e->model->size - i : 8;
		word = 0;
		memcpy(&word, bytes + i, part);
		hash = (hash ^ word) * 0xff51afd7ed558ccd;
		hash ^= hash >> 32;
	}
	return (uint32_t)hash;
}

/* The slot of @state in the table, or the free one for it. */
static uint32_t *explore_slot(const struct explore *e, const void *state)
{
	uint32_t i = explore_hash(e, state) & e->mask;

	while (e->table[i] && memcmp(explore_state(e, e->table[i] - 1), state, e->model->size) != 0)
		i = (i + 1) & e->mask;
	return &e->table[i];
}

static void explore_widen(struct explore *e)
{
	uint32_t i;

	e->room = e->room ? 2 * e->room : 1024;
	e->states = explore_grow(e->states, e->room, e->model->size);
	e->parents = explore_grow(e->parents, e->room, sizeof(*e->parents));
	e->mask = 2 * e->room - 1;
	e->table = explore_grow(e->table, 2 * (size_t)e->room, sizeof(*e->table));
	memset(e->table, 0, 2 * (size_t)e->room * sizeof(*e->table));
	for (i = 0; i < e->count; i++)
		*explore_slot(e, explore_state(e, i)) = i + 1;
}

static void explore_add(struct explore *e, const void *state, uint32_t parent)
{
	uint32_t *slot;

	if (e->count == e->room)
		explore_widen(e);
	slot = explore_slot(e, state);
	if (*slot)
		return;
	memcpy(e->states + (size_t)e->count * e->model->size, state, e->model->size);
	e->parents[e->count++] = parent;
	*slot = e->count;
}

void explore_to(struct explore *e, const void *next, const char *what, unsigned number,
		const char *complaint)
{
	char state[EXPLORE_STATE_MAX];

	if (e->wanted) {
		if (!e->what && memcmp(next, e->wanted, e->model->size) == 0) {
			e->what = what;
			e->number = number;
		}
		return;
	}
	e->steps++;
	if (e->complaint)
		return;
	/* A copy, since @next may lie in the array that grows. */
	memcpy(state, next, e->model->size);
	explore_add(e, state, e->at);
	if (complaint) {
		e->complaint = complaint;
		e->at = *explore_slot(e, state) - 1;
	}
}

static void explore_expand(struct explore *e, const void *state)
{
	char copy[EXPLORE_STATE_MAX];
	unsigned process;

	memcpy(copy, state, e->model->size);
	for (process = 0; process < e->model->processes; process++)
		e->model->step(e, copy, process);
}

/* Prints the path to state @index, the first step first. */
static void explore_print(struct explore *e, uint32_t index)
{
	if (e->parents[index] == NO_PARENT)
		return;
	explore_print(e, e->parents[index]);
	e->wanted = explore_state(e, index);
	e->what = NULL;
	explore_expand(e, explore_state(e, e->parents[index]));
	printf("  %s %u\n", e->what, e->number);
}

bool explore_run(const struct model *model, const void *start, const char *title)
{
	struct explore e = {.model = model};
	uint32_t ends = 0, at;
	bool is_well;

	explore_add(&e, start, NO_PARENT);
	for (at = 0; at < e.count && !e.complaint; at++) {
		e.at = at;
		e.steps = 0;
		explore_expand(&e, explore_state(&e, at));
		if (e.steps)
			continue;
		ends++;
		e.complaint = model->end(explore_state(&e, at));
	}
	is_well = !e.complaint;
	printf("%s: %u states, %u ends: %s%s\n", title, e.count, ends,
	       is_well ? "nothing goes wrong" : "FOUND: ", is_well ? "" : e.complaint);
	if (!is_well)
		explore_print(&e, e.at);
	free(e.states);
	free(e.parents);
	free(e.table);
	return is_well;
}
