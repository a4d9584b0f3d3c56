/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel field-report`: what a machine with a NIC does with each part of the library, in one
 * archive without names and addresses, for those who have no such NIC.
 */
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include <oriel/status.h>

#include "field.h"
#include "json.h"
#include "launch.h"
#include "tool.h"

#define REPORT_WORDS 20u
#define REPORT_SETTINGS 8u
#define REPORT_RECORD_MAX 65536u
#define REPORT_LIMIT_S 25u /* of a part: all 22 end within ten minutes */

static const char report_usage[] =
	"usage: oriel field-report [--quick] [-o FILE]\n"
	"\n"
	"Writes what this machine and the NIC of ORIEL_HCA do to one archive (ustar), to be\n"
	"sent to developers: doctor's record, the NIC's capabilities, each contract that the\n"
	"library relies on tried by each tier, all operations verified between two ranks,\n"
	"latencies and bandwidths. Names and addresses of hosts, users, interfaces, devices\n"
	"and files are replaced by placeholders. Every part has a limit of time; a part that\n"
	"fails is a part of the report.\n"
	"\n"
	"For two hosts start it as a rank on each, with RANK, WORLD_SIZE=2, MASTER_ADDR,\n"
	"MASTER_PORT and ORIEL_JOB_KEY set; part I of the report uses port MASTER_PORT + I.\n"
	"\n"
	"  -o, --output FILE  the archive (default: field-report.tar; of rank 1\n"
	"                     field-report-1.tar)\n"
	"      --quick        only what one process can find out\n"
	"  -h, --help         this text\n";

struct report_part {
	const char *name; /* of the member, in the archive */
	const char *words[REPORT_WORDS];
	const char *settings[3];
	unsigned limit_s;
	bool is_job;
};

#define TIERS(part)                                                                      \
	part("auto", NULL, NULL), part("t1-commands", "ORIEL_TIER=t1", "ORIEL_DEVX=on"), \
		part("t2-commands", "ORIEL_TIER=t2", "ORIEL_DEVX=on"),                   \
		part("t1-verbs", "ORIEL_TIER=t1", "ORIEL_DEVX=off"),                     \
		part("t2-verbs", "ORIEL_TIER=t2", "ORIEL_DEVX=off"),                     \
		part("t3", "ORIEL_TIER=t3", NULL)

#define PROBE(tier, one, two)                                                       \
	{                                                                           \
		"contracts/" tier, {"field-report", "--part", "probe"}, {one, two}, \
			REPORT_LIMIT_S, false                                       \
	}
#define VERIFY(tier, one, two)                                                                 \
	{                                                                                      \
		"operations/" tier, {"perf",       "put_lat",     "get_lat", "put_signal_lat", \
				     "signal_lat", "atomic_rate", "barrier", "--check",        \
				     "--nodes",    "2",           "--iters", "20",             \
				     "--reps",     "1",           "--sizes", "8,4K",           \
				     "--json"},                                                \
			{one, two}, REPORT_LIMIT_S, true                                       \
	}
#define MEASURE(tier, one, two)                                                                \
	{                                                                                      \
		"times/" tier,                                                                 \
			{"perf", "put_lat", "get_lat", "put_signal_lat", "put_bw",  "--nodes", \
			 "2",    "--reps",  "1",       "--sizes",        "8,4K,1M", "--json"}, \
			{one, two}, REPORT_LIMIT_S, true                                       \
	}

static const struct report_part parts[] = {
	{"doctor.record", {"field-report", "--part", "record"}, {NULL}, REPORT_LIMIT_S, false},
	{"doctor.txt", {"doctor"}, {NULL}, REPORT_LIMIT_S, false},
	{"info.json", {"info", "--config", "--json"}, {NULL}, REPORT_LIMIT_S, false},
	TIERS(PROBE),
	{"contracts/gpu", {"field-report", "--part", "probe-gpu"}, {NULL}, REPORT_LIMIT_S, false},
	TIERS(VERIFY),
	TIERS(MEASURE),
};

struct report {
	FILE *to;
	struct field_redactor *redactor;
	char *summary; /* a line of JSON for each part */
	size_t summary_length;
	FILE *summary_to;
};

static bool report_add(struct report *r, const char *name, const char *text)
{
	char *clean = field_redact(r->redactor, text);
	bool is_added = clean && field_tar_add(r->to, name, clean, strlen(clean));

	free(clean);
	return is_added;
}

static bool report_run(struct report *r, const struct report_part *part, unsigned index)
{
	const char *settings[REPORT_SETTINGS] = {"ORIEL_LOG=debug"};
	const char *port = getenv("MASTER_PORT");
	char *words[REPORT_WORDS + 1] = {(char *)(uintptr_t) "oriel"};
	struct json json = {.to = r->summary_to};
	struct field_run run;
	unsigned count = 1;
	char own_port[32];
	bool is_added;

	/* Its own port keeps a rank that is late out of the next part. */
	snprintf(own_port, sizeof(own_port), "MASTER_PORT=%lu",
		 (port ? strtoul(port, NULL, 10) : 0) + index);
	for (unsigned i = 0; i < 3 && part->settings[i]; i++)
		settings[count++] = part->settings[i];
	if (part->is_job && tool_is_launched())
		settings[count++] = own_port;
	for (unsigned i = 0; i + 1 < REPORT_WORDS && part->words[i]; i++)
		words[i + 1] = (char *)(uintptr_t)part->words[i];
	fprintf(stderr, "oriel field-report: %s ...", part->name);
	if (!field_run(words, settings, part->limit_s, &run))
		return false;
	fprintf(stderr, " %s, %.1f s\n",
		run.is_late ? "no end"
		: run.code  ? "failed"
			    : "ok",
		run.seconds);
	json_open_object(&json, NULL);
	json_text(&json, "part", part->name);
	json_unsigned(&json, "code", (unsigned)run.code);
	json_bool(&json, "is_late", run.is_late);
	json_number(&json, "seconds", run.seconds);
	json_close_object(&json);
	fprintf(r->summary_to, "\n");
	is_added = report_add(r, part->name, run.text);
	free(run.text);
	return is_added;
}

static bool report_write(struct report *r, bool is_quick)
{
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if ((!is_quick || !parts[i].is_job) && !report_run(r, &parts[i], i))
			return false;
	return fflush(r->summary_to) == 0 && report_add(r, "summary", r->summary) &&
	       field_tar_end(r->to);
}

static int report_create(const char *path, bool is_quick)
{
	struct report r = {.to = fopen(path, "wbe"), .redactor = field_redactor_create()};
	bool is_written = false;

	r.summary_to = open_memstream(&r.summary, &r.summary_length);
	if (r.to && r.summary_to && r.redactor && field_redactor_learn_machine(r.redactor))
		is_written = report_write(&r, is_quick);
	if (!is_written)
		fprintf(stderr, "oriel field-report: %s: %s\n", path, strerror(errno));
	if (r.summary_to)
		fclose(r.summary_to);
	free(r.summary);
	field_redactor_destroy(r.redactor);
	if (r.to && fclose(r.to) != 0 && is_written) {
		fprintf(stderr, "oriel field-report: %s: %s\n", path, strerror(errno));
		is_written = false;
	}
	if (is_written)
		printf("%s\n", path);
	return is_written ? TOOL_OK : TOOL_FAILED;
}

static int report_record(void)
{
	static char text[REPORT_RECORD_MAX];
	struct ori_machine *machine;

	if (ori_machine_create(&machine) != ORIEL_OK) {
		fprintf(stderr, "oriel field-report: %s\n", oriel_last_error());
		return TOOL_FAILED;
	}
	ori_machine_export(machine, text, sizeof(text));
	fputs(text, stdout);
	ori_machine_destroy(machine);
	return TOOL_OK;
}

int oriel_tool_field_report(int argc, char **argv)
{
	static const struct option names[] = {
		{"output", required_argument, NULL, 'o'},
		{"quick", no_argument, NULL, 'q'},
		{"part", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *rank = getenv("RANK");
	const char *path =
		rank && strcmp(rank, "0") != 0 ? "field-report-1.tar" : "field-report.tar";
	char name[] = "oriel field-report";
	const char *part = NULL;
	bool is_quick = false;
	int option;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	while ((option = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
		switch (option) {
		case 'o':
			path = optarg;
			break;
		case 'q':
			is_quick = true;
			break;
		case 'p':
			part = optarg;
			break;
		case 'h':
			fputs(report_usage, stdout);
			return TOOL_OK;
		default:
			goto usage;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "oriel field-report: unknown argument '%s'\n", argv[optind]);
		goto usage;
	}
	if (!part)
		return report_create(path, is_quick);
	if (strcmp(part, "probe") == 0)
		return field_probe(false);
	if (strcmp(part, "probe-gpu") == 0)
		return field_probe(true);
	if (strcmp(part, "record") == 0)
		return report_record();
	fprintf(stderr, "oriel field-report: there is no part '%s'\n", part);

usage:
	fprintf(stderr, "Try `oriel help field-report`.\n");
	return TOOL_USAGE;
}
