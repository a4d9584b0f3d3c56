/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel doctor`: checks what the paths need of this machine, and prints how to fix what is
 * missing. The verdicts come from doctor/doctor.h.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include <oriel/status.h>

#include "json.h"
#include "table.h"
#include "tool.h"

#define DOCTOR_RECORD_MAX 65536u

static const char doctor_usage[] =
	"usage: oriel doctor [--json] [--record FILE | --from FILE]\n"
	"\n"
	"Checks the requirements of Oriel's paths on this machine: pass, fail, unknown (not\n"
	"determined) or skip (not applicable). For each failure it prints the consequence\n"
	"and the command that fixes it. Then it lists the data paths: which ones jobs use\n"
	"on this machine, and why not a better one.\n"
	"\n"
	"      --json         the same as one JSON object\n"
	"      --record FILE  write the facts of this machine to a file\n"
	"      --from FILE    check the machine of such a file instead of this one\n"
	"  -h, --help         this text\n"
	"\n"
	"Exit code: 1 if a data path that this library implements, the settings allow and\n"
	"the hardware supports lacks a requirement, else 0.\n";

struct doctor_options {
	const char *record, *from;
	bool is_json;
};

static int doctor_fail(void)
{
	fprintf(stderr, "oriel doctor: %s\n", oriel_last_error());
	return TOOL_FAILED;
}

static int doctor_file_fail(const char *path)
{
	fprintf(stderr, "oriel doctor: %s: %s\n", path, strerror(errno));
	return TOOL_FAILED;
}

static bool findings_print(const struct ori_machine *machine)
{
	static const char *const head[] = {"check", "verdict", "found"};
	struct table table = {.columns = 3};
	bool is_added = table_add(&table, head);
	struct ori_finding f;
	unsigned i;

	for (i = 0; is_added && ori_machine_finding(machine, i, &f) == ORIEL_OK; i++) {
		const char *cells[] = {f.name, ori_doctor_verdict_name(f.verdict), f.found};

		is_added = table_add(&table, cells);
	}
	table_print(&table, stdout);
	table_free(&table);
	return is_added;
}

/* "stops: T3, T2" */
static void data_paths_print(const struct ori_machine *machine, const char *what, unsigned mask)
{
	const char *between = "";
	struct ori_data_path_view p;
	unsigned i;

	if (!mask)
		return;
	printf("    %s ", what);
	for (i = 0; ori_machine_data_path(machine, i, &p) == ORIEL_OK; i++) {
		if (!(mask & 1u << p.path))
			continue;
		printf("%s%s", between, p.tag);
		between = ", ";
	}
	printf("\n");
}

static void failures_print(const struct ori_machine *machine)
{
	struct ori_finding f;
	unsigned i;

	for (i = 0; ori_machine_finding(machine, i, &f) == ORIEL_OK; i++) {
		if (f.verdict != ORI_DOCTOR_FAIL)
			continue;
		printf("\n  %s: %s\n    means: %s\n", f.name, f.found, f.means);
		data_paths_print(machine, "stops:", f.needs);
		data_paths_print(machine, "slows:", f.helps);
		printf("    fix:   %s\n", *f.fix ? f.fix : "no command");
	}
}

static bool states_print(const struct ori_machine *machine)
{
	static const char *const head[] = {"data path", "verdict", "used", "why"};
	struct table table = {.columns = 4};
	bool is_added = table_add(&table, head);
	struct ori_data_path_view p;
	unsigned i;

	for (i = 0; is_added && ori_machine_data_path(machine, i, &p) == ORIEL_OK; i++) {
		const char *cells[] = {p.name, ori_doctor_verdict_name(p.verdict),
				       p.is_used ? "yes" : "no", *p.why ? p.why : "-"};

		is_added = table_add(&table, cells);
	}
	printf("\n");
	table_print(&table, stdout);
	table_free(&table);
	return is_added;
}

/* Print the used ones of the data paths [@first, @last) by name. */
static void use_print(const struct ori_machine *machine, const char *peers, unsigned first,
		      unsigned last)
{
	const char *between = "";
	struct ori_data_path_view p;
	unsigned i;

	printf("  %s: ", peers);
	for (i = first; i < last && ori_machine_data_path(machine, i, &p) == ORIEL_OK; i++) {
		if (!p.is_used)
			continue;
		printf("%s%s%s", between, p.name,
		       p.verdict == ORI_DOCTOR_UNKNOWN ? " (if it works)" : "");
		between = "; ";
	}
	printf("%s\n", *between ? "" : "none");
}

static int doctor_print(const struct ori_machine *machine, const char *from)
{
	printf("oriel %s: %s\n\n", oriel_version(), from ? from : "this machine");
	if (!findings_print(machine))
		goto no_memory;
	failures_print(machine);
	if (!states_print(machine))
		goto no_memory;
	printf("\n");
	use_print(machine, "peers on this machine", ORI_DATA_PATH_MEMORY, ORI_DATA_PATH_FABRIC);
	use_print(machine, "peers on other machines", ORI_DATA_PATH_FABRIC, ORI_DATA_PATH_COUNT);
	return TOOL_OK;

no_memory:
	fprintf(stderr, "oriel doctor: out of memory\n");
	return TOOL_FAILED;
}

static void data_paths_write(struct json *json, const char *key, const struct ori_machine *machine,
			     unsigned mask)
{
	struct ori_data_path_view p;
	unsigned i;

	json_open_array(json, key);
	for (i = 0; ori_machine_data_path(machine, i, &p) == ORIEL_OK; i++)
		if (mask & 1u << p.path)
			json_text(json, NULL, p.tag);
	json_close_array(json);
}

static void findings_write(struct json *json, const struct ori_machine *machine)
{
	struct ori_finding f;
	unsigned i;

	json_open_array(json, "checks");
	for (i = 0; ori_machine_finding(machine, i, &f) == ORIEL_OK; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", f.name);
		json_text(json, "verdict", ori_doctor_verdict_name(f.verdict));
		json_text(json, "found", f.found);
		json_text(json, "means", f.means);
		json_text(json, "mend", f.fix);
		data_paths_write(json, "needed_by", machine, f.needs);
		data_paths_write(json, "helps", machine, f.helps);
		json_close_object(json);
	}
	json_close_array(json);
}

static void states_write(struct json *json, const struct ori_machine *machine)
{
	struct ori_data_path_view p;
	unsigned i;

	json_open_array(json, "ways");
	for (i = 0; ori_machine_data_path(machine, i, &p) == ORIEL_OK; i++) {
		json_open_object(json, NULL);
		json_text(json, "tag", p.tag);
		json_text(json, "name", p.name);
		json_text(json, "verdict", ori_doctor_verdict_name(p.verdict));
		json_bool(json, "is_built", p.is_built);
		json_bool(json, "is_used", p.is_used);
		json_text(json, "why", p.why);
		json_close_object(json);
	}
	json_close_array(json);
}

static void doctor_write(const struct ori_machine *machine)
{
	struct json json = {.to = stdout};

	json_open_object(&json, NULL);
	json_text(&json, "version", oriel_version());
	json_bool(&json, "is_well", ori_machine_is_well(machine));
	findings_write(&json, machine);
	states_write(&json, machine);
	json_close_object(&json);
	printf("\n");
}

static int machine_from(const char *path, struct ori_machine **machine)
{
	FILE *file = fopen(path, "re");
	char *text = malloc(DOCTOR_RECORD_MAX);
	size_t length = 0;
	int code = TOOL_OK;

	if (!file || !text) {
		code = doctor_file_fail(path);
		goto out;
	}
	length = fread(text, 1, DOCTOR_RECORD_MAX, file);
	if (ferror(file)) {
		code = doctor_file_fail(path);
	} else if (length == DOCTOR_RECORD_MAX) {
		fprintf(stderr, "oriel doctor: %s: too long for a record\n", path);
		code = TOOL_FAILED;
	} else if (ori_machine_import(text, length, machine) != ORIEL_OK) {
		fprintf(stderr, "oriel doctor: %s: %s\n", path, oriel_last_error());
		code = TOOL_FAILED;
	}
out:
	free(text);
	if (file)
		fclose(file);
	return code;
}

static int machine_record(const struct ori_machine *machine, const char *path)
{
	size_t length = ori_machine_export(machine, NULL, 0) + 1;
	char *text = malloc(length);
	FILE *file = fopen(path, "we");
	int code = TOOL_OK;

	if (!text || !file) {
		code = doctor_file_fail(path);
	} else {
		ori_machine_export(machine, text, length);
		if (fputs(text, file) == EOF)
			code = doctor_file_fail(path);
	}
	free(text);
	if (file && fclose(file) != 0 && code == TOOL_OK)
		code = doctor_file_fail(path);
	return code;
}

static int doctor_report(const struct doctor_options *options)
{
	struct ori_machine *machine = NULL;
	int code = TOOL_OK;

	if (options->from)
		code = machine_from(options->from, &machine);
	else if (ori_machine_create(&machine) != ORIEL_OK)
		code = doctor_fail();
	if (code == TOOL_OK && options->record)
		code = machine_record(machine, options->record);
	if (code == TOOL_OK && options->is_json)
		doctor_write(machine);
	else if (code == TOOL_OK)
		code = doctor_print(machine, options->from);
	if (code == TOOL_OK && !ori_machine_is_well(machine))
		code = TOOL_FAILED;
	ori_machine_destroy(machine);
	return code;
}

int oriel_tool_doctor(int argc, char **argv)
{
	static const struct option names[] = {
		{"json", no_argument, NULL, 'j'},
		{"record", required_argument, NULL, 'r'},
		{"from", required_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct doctor_options options = {0};
	char name[] = "oriel doctor";
	int option;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		switch (option) {
		case 'j':
			options.is_json = true;
			break;
		case 'r':
			options.record = optarg;
			break;
		case 'f':
			options.from = optarg;
			break;
		case 'h':
			fputs(doctor_usage, stdout);
			return TOOL_OK;
		default:
			goto usage;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "oriel doctor: unknown argument '%s'\n", argv[optind]);
		goto usage;
	}
	if (options.record && options.from) {
		fprintf(stderr, "oriel doctor: --record writes this machine, --from reads another: "
				"give one of them\n");
		goto usage;
	}
	return doctor_report(&options);

usage:
	fprintf(stderr, "Try `oriel help doctor`.\n");
	return TOOL_USAGE;
}
