/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `oriel field-report`: an archive, text without names and addresses, commands with a
 * limit of time, the NIC's own report, and cases. tools/field_report.c puts them together.
 */
#ifndef ORIEL_FIELD_H
#define ORIEL_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Append the file @name, of less than 100 bytes, to a ustar archive. False with errno. */
bool field_tar_add(FILE *to, const char *name, const char *data, size_t length);
/* The end of the archive. False with errno. */
bool field_tar_end(FILE *to);

/* Knows each name and address by its placeholder: one stands for the same in all members. */
struct field_redactor;

/* NULL: out of memory. */
struct field_redactor *field_redactor_create(void);
void field_redactor_destroy(struct field_redactor *r); /* NULL is allowed */
/*
 * From now on the word @name becomes @kind and a number ("host0"). Names of less than two
 * characters are left alone. False: out of memory.
 */
bool field_redactor_learn(struct field_redactor *r, const char *kind, const char *name);
/* Learn this machine's host, users, interfaces, and NICs with names of their own. */
bool field_redactor_learn_machine(struct field_redactor *r);
/*
 * @text without what was learned, paths, and addresses of any kind (PCI, Ethernet, IP, GID, GUID,
 * LID, UUID). The caller frees it. NULL: out of memory.
 */
char *field_redact(struct field_redactor *r, const char *text);

/* One command, what it wrote to both outputs, and how it ended. */
struct field_run {
	char *text; /* the caller frees it */
	int code;   /* as a shell's: 128 and the signal */
	bool is_late;
	double seconds;
};

/*
 * Run this program with @arguments, which end with NULL, and the settings @settings, "NAME=VALUE",
 * which end with NULL; kill it with all that it started after @limit_s seconds. False with errno:
 * it did not start.
 */
bool field_run(char *const *arguments, const char *const *settings, unsigned limit_s,
	       struct field_run *run);

/*
 * Print what the NIC that ORIEL_HCA names is and does, for threads or for kernels of the first GPU,
 * as JSON lines; returns the exit code.
 */
int field_probe(bool is_for_gpu);

/* Does this program carry the conformance suite? The one that `make field-report` builds does. */
bool field_has_cases(void);
/*
 * Run its cases as a rank of a job, those without counters if not @has_wait, for about @seconds,
 * decimal digits; @names, which it cuts at commas, selects cases by parts of their names, NULL: no
 * selection. Prints as conformance_main() does, and returns the exit code.
 */
int field_cases(bool has_wait, const char *seconds, char *names);

#endif
