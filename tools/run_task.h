/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a job that an agent starts on its host: the body of RUN_FRAME_TASK. The launcher's
 * hosts encode it, the agent parses it.
 */
#ifndef ORIEL_RUN_TASK_H
#define ORIEL_RUN_TASK_H

#include "run.h"
#include "run_wire.h"

struct run_task {
	unsigned ranks;         /* on this host */
	struct run_start start; /* without its listener */
	bool has_pty;
	const char *folder; /* the launcher's, and that of the ranks */
	char **program;     /* with its arguments */
	char **variables;   /* "NAME=value", ends with NULL */
};

/*
 * The variables of this environment that go to ranks on other hosts: those with ORIEL_ and those of
 * -x. Ends with NULL; the caller frees the list. NULL: no memory.
 */
char **run_task_variables(const struct run_options *options);

/* Append it to @body. */
void run_task_encode(const struct run_task *task, struct run_bytes *body);
/*
 * False: the bytes are malformed, or there is no memory. The strings are in @body, which must stay;
 * run_task_free() frees the two lists of them.
 */
bool run_task_parse(const unsigned char *body, size_t length, struct run_task *task);
void run_task_free(struct run_task *task);

#endif
