/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses, encodes and parses what an agent is to start (run_task.h). */
#include "run_task.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASK_NUMBERS 11
#define TASK_PTY 1u
#define TASK_TERMINAL 2u

void run_task_encode(const struct run_task *task, struct run_bytes *body)
{
	const struct run_start *start = &task->start;
	const struct winsize *window = &start->window;
	char **const lists[] = {task->program, task->variables};
	const char *const texts[] = {start->address, start->key, task->folder};
	uint32_t counts[2] = {0, 0};
	size_t i, j;

	for (i = 0; i < 2; i++)
		while (lists[i][counts[i]])
			counts[i]++;
	run_bytes_add_number(body, task->ranks);
	run_bytes_add_number(body, start->first);
	run_bytes_add_number(body, start->size);
	run_bytes_add_number(body, start->port);
	run_bytes_add_number(body, (task->has_pty ? TASK_PTY : 0) |
					   (start->has_terminal ? TASK_TERMINAL : 0));
	run_bytes_add_number(body, window->ws_row);
	run_bytes_add_number(body, window->ws_col);
	run_bytes_add_number(body, window->ws_xpixel);
	run_bytes_add_number(body, window->ws_ypixel);
	run_bytes_add_number(body, counts[0]);
	run_bytes_add_number(body, counts[1]);
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		run_bytes_add(body, texts[i], strlen(texts[i]) + 1);
	for (i = 0; i < 2; i++)
		for (j = 0; j < counts[i]; j++)
			run_bytes_add(body, lists[i][j], strlen(lists[i][j]) + 1);
}

/* The string at *@at; NULL if it does not end before @end. */
static const char *task_text(const unsigned char **at, const unsigned char *end)
{
	const unsigned char *text = *at;
	const unsigned char *stop = *at < end ? memchr(*at, '\0', (size_t)(end - *at)) : NULL;

	if (!stop)
		return NULL;
	*at = stop + 1;
	return (const char *)text;
}

/* A list of @count strings, which ends with NULL; NULL if it is malformed. */
static char **task_list(const unsigned char **at, const unsigned char *end, uint32_t count)
{
	char **list = NULL;
	uint32_t i;

	/* Each has a byte or more: a small body allocates no large list. */
	if (count <= (size_t)(end - *at))
		list = calloc((size_t)count + 1, sizeof(*list));
	for (i = 0; list && i < count; i++) {
		list[i] = (char *)(uintptr_t)task_text(at, end);
		if (!list[i]) {
			free(list);
			return NULL;
		}
	}
	return list;
}

static bool task_numbers(const uint32_t numbers[TASK_NUMBERS], struct run_task *task)
{
	*task = (struct run_task){
		.ranks = numbers[0],
		.start = {.first = numbers[1],
			  .size = numbers[2],
			  .port = numbers[3],
			  .listener = -1,
			  .meet = "tcp",
			  .has_terminal = numbers[4] & TASK_TERMINAL,
			  .window = {.ws_row = (unsigned short)numbers[5],
				     .ws_col = (unsigned short)numbers[6],
				     .ws_xpixel = (unsigned short)numbers[7],
				     .ws_ypixel = (unsigned short)numbers[8]}},
		.has_pty = numbers[4] & TASK_PTY,
	};
	return task->ranks > 0 && task->start.size <= RUN_MAX_RANKS &&
	       task->start.first < task->start.size &&
	       task->ranks <= task->start.size - task->start.first && task->start.port > 0 &&
	       task->start.port <= 65535 && numbers[9] > 0;
}

bool run_task_parse(const unsigned char *body, size_t length, struct run_task *task)
{
	const struct run_frame head = {.body = body, .length = 4 * TASK_NUMBERS};
	const unsigned char *at = body + head.length, *end = body + length;
	uint32_t numbers[TASK_NUMBERS];

	*task = (struct run_task){0};
	if (length < head.length || !run_frame_numbers(&head, numbers, TASK_NUMBERS) ||
	    !task_numbers(numbers, task))
		return false;
	task->start.address = task_text(&at, end);
	task->start.key = task_text(&at, end);
	task->folder = task_text(&at, end);
	if (!task->folder)
		return false;
	task->program = task_list(&at, end, numbers[9]);
	if (task->program)
		task->variables = task_list(&at, end, numbers[10]);
	if (task->variables && at == end)
		return true;
	run_task_free(task);
	return false;
}

void run_task_free(struct run_task *task)
{
	free(task->program);
	free(task->variables);
	task->program = NULL;
	task->variables = NULL;
}

/* Variables that have a meaning for the launcher or for another job only. */
static bool task_keeps(const char *variable)
{
	static const char *const others[] = {"ORIEL_SSH=", "ORIEL_LISTEN_FD=", "ORIEL_PORT=",
					     "ORIEL_MEET="};
	size_t i;

	if (strncmp(variable, "ORIEL_", strlen("ORIEL_")) != 0)
		return false;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strncmp(variable, others[i], strlen(others[i])) == 0)
			return false;
	return true;
}

static bool task_is_named(const struct run_options *options, const char *variable)
{
	size_t length = strcspn(variable, "=");
	unsigned i;

	for (i = 0; i < options->name_count; i++)
		if (strlen(options->names[i]) == length &&
		    strncmp(options->names[i], variable, length) == 0)
			return true;
	return false;
}

char **run_task_variables(const struct run_options *options)
{
	size_t count = 0, used = 0, i;
	char **list;

	while (environ[count])
		count++;
	list = calloc(count + 1, sizeof(*list));
	for (i = 0; list && i < count; i++)
		if (task_keeps(environ[i]) || task_is_named(options, environ[i]))
			list[used++] = environ[i];
	return list;
}
