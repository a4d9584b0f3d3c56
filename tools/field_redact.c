/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes names and addresses out of text, for `oriel field-report`: those of this machine by name,
 * all others by form. A form that also fits something harmless takes it out, too.
 */
#include <ctype.h>
#include <dirent.h>
#include <pwd.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "field.h"

#define HEX "[0-9a-f]"

struct redact_form {
	const char *kind;
	const char *form;
	bool has_context; /* the first group only says what comes before, and stays */
};

/* In this order: an earlier form is part of none that comes later. */
static const struct redact_form forms[] = {
	{"uuid", "\\b(" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12})\\b", false},
	{"pci", "\\b((" HEX "{4,8}:)?" HEX "{2}:[01]" HEX "\\.[0-7])\\b", false},
	/* Ethernet, GUIDs, GIDs and IPv6: a gap, or four groups. */
	{"address", "((\\b" HEX "{1,4})(:" HEX "{1,4})*::(" HEX "{1,4}:?)*(\\.[0-9]+)*)", false},
	{"address", "((\\b" HEX "{1,4}:){3,}(:?" HEX "{1,4}\\b)*:*(" HEX "{0,3}(\\.[0-9]+){3})?)",
	 false},
	{"address", "(^|[^[:alnum:]:])(::(" HEX "{1,4}:?)+((\\.[0-9]+){3})?)", true},
	{"address", "\\b(([0-9]{1,3}\\.){3}[0-9]{1,3})\\b", false},
	{"address", "\\b((" HEX "{2}-){5}" HEX "{2})\\b", false},
	{"guid", "\\b((0x)?(" HEX "{32}|" HEX "{16}|" HEX "{12}))\\b", false},
	{"lid", "\\b([sd]?lid[]\"=: ]+)((0x)?" HEX "+)\\b", true},
	{"host", "\\b([oi][nf] host )([[:alnum:]_.-]*[[:alnum:]])", true},
	/* Those of the kernel are alike everywhere. */
	{"path", "(^|[^[:alnum:]_./~-])((~|/)[^]\"'[:space:],;:)}]+)", true},
};

#define REDACT_FORMS (sizeof(forms) / sizeof(forms[0]))

struct redact_name {
	const char *kind;
	char *name;
	unsigned number;
};

struct field_redactor {
	regex_t compiled[REDACT_FORMS];
	unsigned count_compiled;
	struct redact_name
		*names; /* that stand for something; those that were learned come first */
	size_t count, learned;
};

struct field_redactor *field_redactor_create(void)
{
	struct field_redactor *r = calloc(1, sizeof(*r));

	for (; r && r->count_compiled < REDACT_FORMS; r->count_compiled++)
		if (regcomp(&r->compiled[r->count_compiled], forms[r->count_compiled].form,
			    REG_EXTENDED | REG_ICASE) != 0) {
			field_redactor_destroy(r);
			return NULL;
		}
	return r;
}

void field_redactor_destroy(struct field_redactor *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->count_compiled; i++)
		regfree(&r->compiled[i]);
	for (size_t i = 0; i < r->count; i++)
		free(r->names[i].name);
	free(r->names);
	free(r);
}

/* NULL: out of memory. */
static const struct redact_name *redact_name(struct field_redactor *r, const char *kind,
					     const char *name, size_t length)
{
	struct redact_name *names;
	unsigned number = 0;

	for (size_t i = 0; i < r->count; i++) {
		if (strcmp(r->names[i].kind, kind) != 0)
			continue;
		if (strlen(r->names[i].name) == length &&
		    strncasecmp(r->names[i].name, name, length) == 0)
			return &r->names[i];
		number++;
	}
	names = realloc(r->names, (r->count + 1) * sizeof(*names));
	if (!names)
		return NULL;
	r->names = names;
	names[r->count] = (struct redact_name){kind, strndup(name, length), number};
	return names[r->count].name ? &names[r->count++] : NULL;
}

bool field_redactor_learn(struct field_redactor *r, const char *kind, const char *name)
{
	if (strlen(name) < 2)
		return true;
	if (!redact_name(r, kind, name, strlen(name)))
		return false;
	r->learned = r->count;
	return true;
}

/* The names in a directory of the kernel, but those that it gives to every machine. */
static bool learn_directory(struct field_redactor *r, const char *path, const char *kind,
			    const char *usual)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	bool is_learned = true;

	while (directory && is_learned && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strncmp(entry->d_name, usual, strlen(usual)) != 0)
			is_learned = field_redactor_learn(r, kind, entry->d_name);
	if (directory)
		closedir(directory);
	return is_learned;
}

bool field_redactor_learn_machine(struct field_redactor *r)
{
	const struct passwd *user = getpwuid(getuid());
	const char *names[] = {getenv("USER"), getenv("LOGNAME"), getenv("SUDO_USER"),
			       user ? user->pw_name : NULL};
	const char *master = getenv("MASTER_ADDR");
	const char *home = getenv("HOME");
	char host[256] = "";
	bool is_learned;

	gethostname(host, sizeof(host) - 1);
	is_learned = (!home || field_redactor_learn(r, "path", home)) &&
		     field_redactor_learn(r, "host", host);
	host[strcspn(host, ".")] = '\0';
	is_learned = is_learned && field_redactor_learn(r, "host", host);
	if (master && strcmp(master, "localhost") != 0)
		is_learned = is_learned && field_redactor_learn(r, "host", master);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i] && strcmp(names[i], "root") != 0)
			is_learned = is_learned && field_redactor_learn(r, "user", names[i]);
	return is_learned && learn_directory(r, "/sys/class/net", "net", "lo") &&
	       learn_directory(r, "/sys/class/infiniband", "nic", "mlx5_");
}

static bool is_part(int c)
{
	return isalnum(c) || c == '_';
}

/* Learned names at the boundaries of words, with what qualifies a host. */
static bool redact_learned(const struct field_redactor *r, const char *text, FILE *to)
{
	for (const char *at = text; *at;) {
		const struct redact_name *best = NULL;

		for (size_t i = 0; i < r->learned && (at == text || !is_part(at[-1])); i++) {
			const struct redact_name *n = &r->names[i];
			size_t length = strlen(n->name);

			if (strncasecmp(at, n->name, length) == 0 && !is_part(at[length]) &&
			    (!best || length > strlen(best->name)))
				best = n;
		}
		if (!best) {
			fputc(*at++, to);
			continue;
		}
		fprintf(to, "%s%u", best->kind, best->number);
		at += strlen(best->name);
		while (strcmp(best->kind, "host") == 0 && *at == '.' && isalnum(at[1]))
			at += 1 + strspn(at + 1,
					 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
					 "YZ0123456789-");
	}
	return !ferror(to);
}

static bool is_of_kernel(const char *path)
{
	return strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 ||
	       strncmp(path, "/dev/", 5) == 0;
}

static bool redact_form(struct field_redactor *r, unsigned form, const char *text, FILE *to)
{
	regmatch_t found[2];

	while (regexec(&r->compiled[form], text, 2, found, 0) == 0 && found[0].rm_eo > 0) {
		size_t begin = (size_t)(forms[form].has_context ? found[1].rm_eo : found[0].rm_so);
		size_t length = (size_t)found[0].rm_eo - begin;
		const struct redact_name *name;

		fwrite(text, 1, begin, to);
		if (strcmp(forms[form].kind, "path") == 0 && is_of_kernel(text + begin)) {
			fwrite(text + begin, 1, length, to);
		} else {
			name = redact_name(r, forms[form].kind, text + begin, length);
			if (!name)
				return false;
			fprintf(to, "%s%u", name->kind, name->number);
		}
		text += found[0].rm_eo;
	}
	fputs(text, to);
	return !ferror(to);
}

char *field_redact(struct field_redactor *r, const char *text)
{
	char *before = NULL;

	/* Pass 0 is by name, the others by form. */
	for (unsigned i = 0; i <= REDACT_FORMS; i++) {
		size_t length;
		char *after = NULL;
		FILE *to = open_memstream(&after, &length);
		bool is_done =
			to && (i ? redact_form(r, i - 1, before, to) : redact_learned(r, text, to));

		free(before);
		if ((to && fclose(to) != 0) || !is_done) {
			free(after);
			return NULL;
		}
		before = after;
	}
	return before;
}
