/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `oriel field-report`: what a machine with a NIC does with each part of the library, in one
 * archive without names and addresses, for those who have no such NIC.
 */
#include <assert.h>
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
#define REPORT_CASES 1024u /* bytes of the names of cases */
#define REPORT_MINUTES 10u
#define REPORT_MINUTES_MAX 1440u

/* Limits of parts in a report of REPORT_MINUTES: 10 of one process, 6 of cases, 6 of times. */
#define REPORT_LIMIT_S 25u
#define REPORT_CASES_S 42u
#define REPORT_CASES_BEGIN_S 30u /* no case begins later, so that the last one can end */
#define REPORT_TIMES_S 15u

static_assert(10 * REPORT_LIMIT_S + 6 * REPORT_CASES_S + 6 * REPORT_TIMES_S <= 60 * REPORT_MINUTES,
	      "the limits are for a report of REPORT_MINUTES");

static const char report_usage[] =
	"usage: oriel field-report [--quick] [--minutes N] [--only PART] [--cases LIST]\n"
	"                          [-o FILE]\n"
	"\n"
	"Writes what this machine and the NIC of ORIEL_HCA do to one archive (ustar), to be\n"
	"sent to developers: doctor's record, the NIC's capabilities, each contract that the\n"
	"library relies on tried by each tier, the conformance suite between two ranks, again\n"
	"by each tier, latencies and bandwidths. Names and addresses of hosts, users,\n"
	"interfaces, devices and files are replaced by placeholders. Every part has a limit of\n"
	"time; a part that fails is a part of the report.\n"
	"\n"
	"For two hosts start it as a rank on each, with RANK, WORLD_SIZE=2, MASTER_ADDR,\n"
	"MASTER_PORT and ORIEL_JOB_KEY set; part I of the report uses port MASTER_PORT + I.\n"
	"\n"
	"  -o, --output FILE  the archive (default: field-report.tar; of rank 1\n"
	"                     field-report-1.tar)\n"
	"      --quick        only what one process can find out\n"
	"      --minutes N    that the report takes at most, 10 (the default) to 1440: with\n"
	"                     more, more cases of the suite are run\n"
	"      --only PART    parts whose names begin so: contracts/, conformance/t1\n"
	"      --cases LIST   of the suite these alone, by parts of their names: data/,fault/old\n"
	"  -h, --help         this text\n";

struct report_part {
	const char *name; /* of the member, in the archive */
	const char *words[REPORT_WORDS];
	const char *settings[3];
	unsigned limit_s;
	bool is_job;
	bool has_cases; /* they are told until when they may begin */
};

struct report_options {
	const char *path;
	const char *only; /* the first letters of parts */
	char *cases;      /* parts of names, with commas; NULL: all that suit the tier */
	unsigned minutes;
	bool is_quick;
};

#define TIERS(part)                                                                         \
	part("auto", "conformance", NULL, NULL),                                            \
		part("t1-commands", "conformance", "ORIEL_TIER=t1", "ORIEL_DEVX=on"),       \
		part("t2-commands", "conformance", "ORIEL_TIER=t2", "ORIEL_DEVX=on"),       \
		part("t1-verbs", "conformance-no-wait", "ORIEL_TIER=t1", "ORIEL_DEVX=off"), \
		part("t2-verbs", "conformance-no-wait", "ORIEL_TIER=t2", "ORIEL_DEVX=off"), \
		part("t3", "conformance", "ORIEL_TIER=t3", NULL)

#define PROBE(tier, cases, one, two)                                                \
	{                                                                           \
		"contracts/" tier, {"field-report", "--part", "probe"}, {one, two}, \
			REPORT_LIMIT_S, false, false                                \
	}
/* Cases fail on purpose, too: with more of the log than errors the results would be far apart. */
#define SUITE(tier, cases, one, two)                                              \
	{                                                                         \
		"conformance/" tier, {"field-report", "--part", cases},           \
			{"ORIEL_LOG=error", one, two}, REPORT_CASES_S, true, true \
	}
#define MEASURE(tier, cases, one, two)                                                         \
	{                                                                                      \
		"times/" tier,                                                                 \
			{"perf", "put_lat", "get_lat", "put_signal_lat", "put_bw",  "--nodes", \
			 "2",    "--reps",  "1",       "--sizes",        "8,4K,1M", "--json"}, \
			{one, two}, REPORT_TIMES_S, true, false                                \
	}

static const struct report_part parts[] = {
	{"doctor.record",
	 {"field-report", "--part", "record"},
	 {NULL},
	 REPORT_LIMIT_S,
	 false,
	 false},
	{"doctor.txt", {"doctor"}, {NULL}, REPORT_LIMIT_S, false, false},
	{"info.json", {"info", "--config", "--json"}, {NULL}, REPORT_LIMIT_S, false, false},
	TIERS(PROBE),
	{"contracts/gpu",
	 {"field-report", "--part", "probe-gpu"},
	 {NULL},
	 REPORT_LIMIT_S,
	 false,
	 false},
	TIERS(SUITE),
	TIERS(MEASURE),
};

struct report {
	const struct report_options *options;
	FILE *to;
	struct field_redactor *redactor;
	char *summary; /* a line of JSON for each part */
	size_t summary_length;
	FILE *summary_to;
};

/* Prints why the archive cannot be written; false. */
static bool report_fail(const struct report *r, const char *what)
{
	fprintf(stderr, "oriel field-report: %s: %s: %s\n", r->options->path, what,
		strerror(errno));
	return false;
}

static bool report_add(struct report *r, const char *name, const char *text)
{
	char *clean = field_redact(r->redactor, text);
	bool is_added;

	if (!clean) {
		errno = ENOMEM;
		return report_fail(r, "cannot take names out of the text");
	}
	is_added = field_tar_add(r->to, name, clean, strlen(clean));
	if (!is_added)
		report_fail(r, "cannot write to it");
	free(clean);
	return is_added;
}

/* A limit of the table, in a report of so many minutes. */
static unsigned report_limit(const struct report *r, unsigned limit_s)
{
	return limit_s * r->options->minutes / REPORT_MINUTES;
}

static void report_summarize(struct report *r, const struct report_part *part,
			     const struct field_run *run)
{
	struct json json = {.to = r->summary_to};

	json_open_object(&json, NULL);
	json_text(&json, "part", part->name);
	json_unsigned(&json, "code", (unsigned)run->code);
	json_bool(&json, "is_late", run->is_late);
	json_number(&json, "seconds", run->seconds);
	json_close_object(&json);
	fprintf(r->summary_to, "\n");
}

static bool report_run(struct report *r, const struct report_part *part, unsigned index)
{
	const char *settings[REPORT_SETTINGS] = {"ORIEL_LOG=debug"};
	const char *port = getenv("MASTER_PORT");
	char *words[REPORT_WORDS + 1] = {(char *)(uintptr_t) "oriel"};
	struct field_run run;
	unsigned count = 1, length;
	char own_port[32], seconds[32], cases[REPORT_CASES + 16];
	bool is_added;

	/* Its own port keeps a rank that is late out of the next part. */
	snprintf(own_port, sizeof(own_port), "MASTER_PORT=%lu",
		 (port ? strtoul(port, NULL, 10) : 0) + index);
	for (unsigned i = 0; i < 3 && part->settings[i]; i++)
		settings[count++] = part->settings[i];
	if (part->is_job && tool_is_launched())
		settings[count++] = own_port;
	for (length = 1; length < REPORT_WORDS && part->words[length - 1]; length++)
		words[length] = (char *)(uintptr_t)part->words[length - 1];
	snprintf(seconds, sizeof(seconds), "--seconds=%u", report_limit(r, REPORT_CASES_BEGIN_S));
	snprintf(cases, sizeof(cases), "--cases=%s", r->options->cases ? r->options->cases : "");
	if (part->has_cases)
		words[length++] = seconds;
	if (part->has_cases && r->options->cases)
		words[length] = cases;
	fprintf(stderr, "oriel field-report: %s ...", part->name);
	if (!field_run(words, settings, report_limit(r, part->limit_s), &run)) {
		fprintf(stderr, " cannot start\n");
		return report_fail(r, "cannot start a part");
	}
	fprintf(stderr, " %s, %.1f s\n",
		run.is_late ? "no end"
		: run.code  ? "failed"
			    : "ok",
		run.seconds);
	report_summarize(r, part, &run);
	is_added = report_add(r, part->name, run.text);
	free(run.text);
	return is_added;
}

static bool report_has(const struct report *r, const struct report_part *part)
{
	const char *only = r->options->only;

	return strncmp(part->name, only, strlen(only)) == 0 &&
	       !(part->is_job && r->options->is_quick) && (!part->has_cases || field_has_cases());
}

static void report_lack_cases(struct report *r)
{
	struct json json = {.to = r->summary_to};

	json_open_object(&json, NULL);
	json_text(&json, "part", "conformance");
	json_text(&json, "lacks",
		  "this program does not carry the cases; `make field-report` "
		  "builds one that does");
	json_close_object(&json);
	fprintf(r->summary_to, "\n");
}

static bool report_write(struct report *r)
{
	if (!field_has_cases())
		report_lack_cases(r);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (report_has(r, &parts[i]) && !report_run(r, &parts[i], i))
			return false;
	if (fflush(r->summary_to) != 0)
		return report_fail(r, "cannot write the summary");
	if (!report_add(r, "summary", r->summary))
		return false;
	return field_tar_end(r->to) || report_fail(r, "cannot write to it");
}

static bool report_open(struct report *r)
{
	r->to = fopen(r->options->path, "wbe");
	if (!r->to)
		return report_fail(r, "cannot create it");
	r->redactor = field_redactor_create();
	errno = ENOMEM;
	if (!r->redactor || !field_redactor_learn_machine(r->redactor))
		return report_fail(r, "cannot learn the names of this machine");
	r->summary_to = open_memstream(&r->summary, &r->summary_length);
	return r->summary_to || report_fail(r, "cannot begin the summary");
}

static int report_create(const struct report_options *options)
{
	struct report r = {.options = options};
	bool is_written = report_open(&r) && report_write(&r);

	if (r.summary_to)
		fclose(r.summary_to);
	free(r.summary);
	field_redactor_destroy(r.redactor);
	if (r.to && fclose(r.to) != 0 && is_written)
		is_written = report_fail(&r, "cannot write to it");
	if (is_written)
		printf("%s\n", options->path);
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

/* One part, in a process of its own; @argv becomes that of its ranks. */
static int report_part(const char *part, const char *seconds, char *cases, int argc, char **argv)
{
	bool has_wait = strcmp(part, "conformance") == 0;

	if (strcmp(part, "probe") == 0)
		return field_probe(false);
	if (strcmp(part, "probe-gpu") == 0)
		return field_probe(true);
	if (strcmp(part, "record") == 0)
		return report_record();
	if (!has_wait && strcmp(part, "conformance-no-wait") != 0) {
		fprintf(stderr, "oriel field-report: there is no part '%s'\n", part);
		return TOOL_USAGE;
	}
	if (!field_has_cases() || tool_is_launched())
		return field_cases(has_wait, seconds, cases);
	return tool_launch("field-report", 2, 2, argc, argv);
}

static bool report_read_minutes(const char *text, unsigned *minutes)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || value < REPORT_MINUTES ||
	    value > REPORT_MINUTES_MAX) {
		fprintf(stderr,
			"oriel field-report: --minutes is '%s', but it may be a number from %u to "
			"%u\n",
			text, REPORT_MINUTES, REPORT_MINUTES_MAX);
		return false;
	}
	*minutes = (unsigned)value;
	return true;
}

static bool report_check_only(const char *only)
{
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strncmp(parts[i].name, only, strlen(only)) == 0)
			return true;
	fprintf(stderr, "oriel field-report: the name of no part begins with '%s'\n", only);
	return false;
}

int oriel_tool_field_report(int argc, char **argv)
{
	static const struct option names[] = {
		{"output", required_argument, NULL, 'o'},
		{"quick", no_argument, NULL, 'q'},
		{"minutes", required_argument, NULL, 'm'},
		{"only", required_argument, NULL, 'n'},
		{"cases", required_argument, NULL, 'c'},
		{"part", required_argument, NULL, 'p'},
		{"seconds", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *rank = getenv("RANK"), *part = NULL, *seconds = "30";
	struct report_options options = {
		.path = rank && strcmp(rank, "0") != 0 ? "field-report-1.tar" : "field-report.tar",
		.only = "",
		.minutes = REPORT_MINUTES,
	};
	char name[] = "oriel field-report";
	int option;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	while ((option = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
		switch (option) {
		case 'o':
			options.path = optarg;
			break;
		case 'q':
			options.is_quick = true;
			break;
		case 'm':
			if (!report_read_minutes(optarg, &options.minutes))
				goto usage;
			break;
		case 'n':
			options.only = optarg;
			if (!report_check_only(optarg))
				goto usage;
			break;
		case 'c':
			options.cases = optarg;
			break;
		case 'p':
			part = optarg;
			break;
		case 's':
			seconds = optarg;
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
	if (options.cases && strlen(options.cases) >= REPORT_CASES) {
		fprintf(stderr, "oriel field-report: --cases has more than %u bytes\n",
			REPORT_CASES - 1);
		goto usage;
	}
	return part ? report_part(part, seconds, options.cases, argc, argv)
		    : report_create(&options);

usage:
	fprintf(stderr, "Try `oriel help field-report`.\n");
	return TOOL_USAGE;
}
