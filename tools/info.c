/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel info`: the features of the machine, the settings, and, under a launcher, the paths
 * between the ranks.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/bootstrap.h>
#include <oriel/comm.h>
#include <oriel/status.h>

#include "info.h"
#include "json.h"
#include "table.h"
#include "tool.h"

static const char info_usage[] =
	"usage: oriel info [--config] [--gpu] [--json]\n"
	"\n"
	"Prints which features this machine has for Oriel. Under a launcher, such as\n"
	"`oriel run -n 4 oriel info`, rank 0 also prints the path between each two ranks,\n"
	"why it is no better one, and the RDMA NIC that it uses.\n"
	"\n"
	"      --config   also every setting, its value, and the source of the value\n"
	"      --gpu      with a job: also the GPUs of the ranks, what each rank says of its\n"
	"                 own (ORIEL_TOPOLOGY), and the domains and reasons of GPU memory;\n"
	"                 rank r uses GPU r, modulo the number of GPUs\n"
	"      --json     the same as one JSON object\n"
	"  -h, --help     this text\n";

static int info_fail(void)
{
	fprintf(stderr, "oriel info: %s\n", oriel_last_error());
	return TOOL_FAILED;
}

static int info_no_memory(void)
{
	fprintf(stderr, "oriel info: out of memory\n");
	return TOOL_FAILED;
}

static int features_print(void)
{
	static const char *const head[] = {"feature", "here", "good for", "found"};
	struct table table = {.columns = 4};
	bool is_added = table_add(&table, head);
	struct oriel_feature feature = {.size = sizeof(feature)};
	unsigned i;

	for (i = 0; is_added && oriel_feature_get(i, &feature) == ORIEL_OK; i++) {
		const char *cells[] = {feature.name, feature.is_present ? "yes" : "no",
				       feature.serves, feature.detail};

		is_added = table_add(&table, cells);
	}
	table_print(&table, stdout);
	table_free(&table);
	return is_added ? TOOL_OK : info_no_memory();
}

static int settings_print(void)
{
	static const char *const head[] = {"setting", "value", "source", "meaning"};
	struct table table = {.columns = 4};
	bool is_added = table_add(&table, head);
	struct oriel_setting setting = {.size = sizeof(setting)};
	unsigned i;

	for (i = 0; is_added && oriel_setting_get(i, &setting) == ORIEL_OK; i++) {
		const char *cells[] = {setting.name, setting.value, setting.source, setting.help};

		is_added = table_add(&table, cells);
	}
	printf("\n");
	table_print(&table, stdout);
	table_free(&table);
	return is_added ? TOOL_OK : info_no_memory();
}

static int info_print(const struct info_job *job, bool has_settings)
{
	int code;

	printf("oriel %s\n\n", oriel_version());
	code = features_print();
	if (code == TOOL_OK && has_settings)
		code = settings_print();
	if (code == TOOL_OK && job->comm && !info_job_print(job))
		code = info_no_memory();
	return code;
}

static void features_write(struct json *json)
{
	struct oriel_feature feature = {.size = sizeof(feature)};
	unsigned i;

	json_open_array(json, "features");
	for (i = 0; oriel_feature_get(i, &feature) == ORIEL_OK; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", feature.name);
		json_bool(json, "present", feature.is_present);
		json_text(json, "detail", feature.detail);
		json_text(json, "serves", feature.serves);
		json_close_object(json);
	}
	json_close_array(json);
}

static void settings_write(struct json *json)
{
	struct oriel_setting setting = {.size = sizeof(setting)};
	unsigned i;

	json_open_array(json, "settings");
	for (i = 0; oriel_setting_get(i, &setting) == ORIEL_OK; i++) {
		json_open_object(json, NULL);
		json_text(json, "name", setting.name);
		json_text(json, "value", setting.value);
		json_text(json, "source", setting.source);
		json_text(json, "help", setting.help);
		json_close_object(json);
	}
	json_close_array(json);
}

static void info_write(const struct info_job *job)
{
	struct json json = {.to = stdout};

	json_open_object(&json, NULL);
	json_text(&json, "version", oriel_version());
	features_write(&json);
	settings_write(&json);
	if (job->comm)
		info_job_write(job, &json);
	json_close_object(&json);
	printf("\n");
}

/* The library reports an invalid WORLD_SIZE. */
static bool info_is_in_job(void)
{
	const char *size = getenv("WORLD_SIZE");

	return size && strcmp(size, "1") != 0;
}

static int info_report(bool has_settings, bool is_gpu, bool is_json)
{
	struct info_job job = {.comm = NULL};
	int code = TOOL_OK;

	if (info_is_in_job() && info_job_open(&job, is_gpu) != ORIEL_OK) {
		code = info_fail();
	} else if (job.rank == 0 && is_json) {
		info_write(&job);
	} else if (job.rank == 0) {
		code = info_print(&job, has_settings);
	}
	info_job_close(&job);
	return code;
}

int oriel_tool_info(int argc, char **argv)
{
	static const struct option names[] = {
		{"config", no_argument, NULL, 'c'},
		{"gpu", no_argument, NULL, 'g'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	char name[] = "oriel info";
	bool has_settings = false;
	bool is_gpu = false;
	bool is_json = false;
	int option;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (option == 'h') {
			fputs(info_usage, stdout);
			return TOOL_OK;
		}
		if (option == '?')
			goto usage;
		has_settings |= option == 'c';
		is_gpu |= option == 'g';
		is_json |= option == 'j';
	}
	if (optind < argc) {
		fprintf(stderr, "oriel info: unknown argument '%s'\n", argv[optind]);
		goto usage;
	}
	return info_report(has_settings, is_gpu, is_json);

usage:
	fprintf(stderr, "Try `oriel help info`.\n");
	return TOOL_USAGE;
}
