/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserved [--list]: a reserved field of an attribute struct that is not 0 is refused, with a text
 * that names it: a later version may give it a meaning. --list prints the fields, so that
 * reserved_test.py finds one without a case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>
#include <oriel/p2p_mock.h>

static char bytes[64];
static struct oriel_local_job *job;
static struct oriel_bootstrap end, other;
static struct oriel_comm *comm;
static struct oriel_p2p_context *ctx;
static struct oriel_p2p *p2p;
static const struct oriel_view view = {.size = sizeof(view),
				       .kind = ORIEL_VIEW_BUFFER,
				       .length = sizeof(bytes),
				       .buffer = bytes};
static void *made;

#define OUT(x) (void *)&(x)

/* X(struct, field, number of the case, call) */
#define CASES(X)                                                                               \
	X(oriel_comm_attr, reserved, 1, oriel_comm_create(&other, &attr, OUT(made)))           \
	X(oriel_comm_attr, reserved, 2, oriel_comm_split(comm, 0, 0, &attr, OUT(made)))        \
	X(oriel_window_attr, reserved, 1, oriel_window_create(comm, &attr, OUT(made)))         \
	X(oriel_window_attr, reserved, 2, oriel_comm_device_create(comm, &attr))               \
	X(oriel_coll_attr, reserved, 1, oriel_allgather_create(comm, &view, &attr, OUT(made))) \
	X(oriel_p2p_context_attr, reserved, 1, oriel_p2p_context_create(&attr, OUT(made)))     \
	X(oriel_p2p_attr, reserved1, 1, oriel_p2p_create(ctx, &attr, OUT(made)))               \
	X(oriel_p2p_attr, reserved2, 1, oriel_p2p_create(ctx, &attr, OUT(made)))               \
	/* The communicator has that endpoint already, and compares its attributes. */         \
	X(oriel_p2p_attr, reserved1, 2, oriel_comm_p2p(comm, 0, &attr, OUT(made)))             \
	X(oriel_p2p_attr, reserved2, 2, oriel_comm_p2p(comm, 0, &attr, OUT(made)))             \
	X(oriel_p2p_mock_attr, reserved, 1, oriel_p2p_mock_create(&attr, OUT(made)))

#define DEFINE(type, field, number, call)                              \
	static enum oriel_status type##_##field##_##number(void)       \
	{                                                              \
		struct type attr = {.size = sizeof(attr), .field = 7}; \
                                                                       \
		return call;                                           \
	}

CASES(DEFINE)

#define ENTRY(type, field, number, call) {#type "." #field, #call, type##_##field##_##number},

static const struct {
	const char *field, *call;
	enum oriel_status (*make)(void);
} cases[] = {CASES(ENTRY)};

static void must(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	printf("%s: %s, \"%s\"\n", what, oriel_status_name(status), oriel_last_error());
	exit(1);
}

#define MUST(call) must(call, #call)

int main(int argc, char **argv)
{
	unsigned failures = 0;
	char text[160];
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		printf("%s\n", cases[i].field);
	if (argc > 1)
		return strcmp(argv[1], "--list") != 0;
	setenv("ORIEL_LOG", "error", 1);
	MUST(oriel_local_job_create(1, &job));
	MUST(oriel_bootstrap_open_local(job, 0, &end));
	MUST(oriel_local_job_destroy(job));
	MUST(oriel_comm_create(&end, NULL, &comm));
	MUST(oriel_comm_p2p(comm, 0, NULL, &p2p));
	MUST(oriel_p2p_context_create(NULL, &ctx));
	MUST(oriel_local_job_create(1, &job));
	MUST(oriel_bootstrap_open_local(job, 0, &other));
	MUST(oriel_local_job_destroy(job));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum oriel_status status = cases[i].make();

		snprintf(text, sizeof(text),
			 "%s is 7, but it has no meaning in this version: set it to 0",
			 cases[i].field);
		if (status == ORIEL_ERR_INVALID && strcmp(oriel_last_error(), text) == 0)
			continue;
		printf("%s, %s: %s, \"%s\"\n", cases[i].call, cases[i].field,
		       oriel_status_name(status), status == ORIEL_OK ? "" : oriel_last_error());
		failures++;
	}
	MUST(oriel_p2p_context_destroy(ctx));
	MUST(oriel_comm_destroy(comm));
	MUST(oriel_bootstrap_close(&other));
	MUST(oriel_bootstrap_close(&end));
	printf("%zu cases, %u failures\n", i, failures);
	return failures != 0;
}
