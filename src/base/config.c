/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of settings with the errors about them. Each module reads its settings through
 * config.h; oriel_settings_check() checks all of them when a job opens.
 */
#include "base/config.h"
#include "base/attr.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config_table.h"
#include "base/error.h"
#include "base/job_key.h"
#include "base/log_file.h"

#define CONFIG_PREFIX "ORIEL_"
#define CONFIG_BOOT_NS UINT64_C(10000000000)

/* Write the list @words, "a,b,c", as "a, b or c". */
static void config_enumerate(const char *words, char *text, size_t size)
{
	const char *end = strchr(words, ','), *joint;
	size_t at = 0;

	for (; end; words = end + 1, end = strchr(words, ',')) {
		joint = strchr(end + 1, ',') ? ", " : " or ";
		at += (size_t)snprintf(text + at, size - at, "%.*s%s", (int)(end - words), words,
				       joint);
		assert(at < size);
	}
	snprintf(text + at, size - at, "%s", words);
}

static void config_may_be(const struct ori_config_entry *entry, char *text, size_t size)
{
	if (entry->may_be)
		snprintf(text, size, "%s", entry->may_be);
	else if (entry->words)
		config_enumerate(entry->words, text, size);
	else
		snprintf(text, size, "a number from %" PRIu64 " to %" PRIu64, entry->least,
			 entry->most);
}

static enum oriel_status config_bad(const struct ori_config_entry *entry, const char *text)
{
	char may_be[ORI_CONFIG_NAME_MAX + ORI_CONFIG_TEXT_MAX];

	config_may_be(entry, may_be, sizeof(may_be));
	if (entry->is_secret)
		return ori_fail(ORIEL_ERR_CONFIG, "%s may be %s", entry->name, may_be);
	return ori_fail(ORIEL_ERR_CONFIG, "%s is '%s', but it may be %s", entry->name, text,
			may_be);
}

enum oriel_status ori_setting_timeout(uint64_t *timeout_ns)
{
	const char *text = ori_setting_text(ORI_SETTING_TIMEOUT);
	uint64_t ns;

	if (!ori_config_timeout(text, &ns))
		return config_bad(&ori_config_entries[ORI_SETTING_TIMEOUT], text);
	*timeout_ns = ns;
	return ORIEL_OK;
}

static uint64_t config_seconds_of(enum ori_setting which)
{
	uint64_t ns;

	if (!ori_config_seconds(ori_setting_text(which), &ns))
		ori_config_seconds(ori_config_entries[which].fallback, &ns);
	return ns;
}

uint64_t ori_setting_late(void)
{
	return config_seconds_of(ORI_SETTING_LATE);
}

uint64_t ori_setting_heartbeat(void)
{
	return config_seconds_of(ORI_SETTING_HEARTBEAT);
}

uint64_t ori_setting_boot_limit(uint64_t timeout_ns)
{
	uint64_t limit = ori_setting_heartbeat();

	if (!limit)
		return timeout_ns;
	/* A rank that opens GPUs and NICs meanwhile says nothing for seconds. */
	if (limit < CONFIG_BOOT_NS)
		limit = CONFIG_BOOT_NS;
	return limit < timeout_ns ? limit : timeout_ns;
}

enum oriel_status ori_setting_unsigned(enum ori_setting which, uint64_t max, uint64_t *value)
{
	const struct ori_config_entry *entry = &ori_config_entries[which];
	const char *text = ori_setting_text(which);

	if (!ori_config_is_valid(entry, text) || !ori_config_digits(text, max, value))
		return config_bad(entry, text);
	return ORIEL_OK;
}

enum oriel_status ori_setting_paths(unsigned *mask)
{
	const char *text = ori_setting_text(ORI_SETTING_PATHS);

	if (!ori_config_paths(text, mask))
		return config_bad(&ori_config_entries[ORI_SETTING_PATHS], text);
	return ORIEL_OK;
}

enum oriel_status ori_setting_open_log(void)
{
	const char *pattern = ori_setting_text(ORI_SETTING_LOG_FILE);
	char name[ORI_LOG_FILE_NAME], why[ORI_LOG_FILE_WHY];

	if (!*pattern || ori_log_file_write(pattern, NULL, 0, why))
		return ORIEL_OK;
	if (!ori_log_file_name(pattern, name))
		return config_bad(&ori_config_entries[ORI_SETTING_LOG_FILE], pattern);
	return ori_fail(ORIEL_ERR_CONFIG, "ORIEL_LOG_FILE: cannot open '%s': %s", name, why);
}

enum ori_hca_request ori_setting_hca(const char **filter)
{
	static const struct {
		const char *word;
		enum ori_hca_request wish;
	} words[] = {{"auto", ORI_HCA_REQUEST_AUTO},
		     {"none", ORI_HCA_REQUEST_NONE},
		     {"soft", ORI_HCA_REQUEST_SOFT},
		     {"verbs", ORI_HCA_REQUEST_VERBS}};
	const char *text = ori_setting_text(ORI_SETTING_HCA);
	size_t i;

	*filter = "";
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i].word) == 0)
			return words[i].wish;
	*filter = text;
	return ORI_HCA_REQUEST_VERBS;
}

enum oriel_status ori_parse_unsigned(const char *name, const char *text, uint64_t max,
				     uint64_t *value)
{
	if (!ori_config_digits(text, max, value))
		return ori_fail(ORIEL_ERR_CONFIG,
				"%s is '%s', but it may be a number from 0 to %llu", name, text,
				(unsigned long long)max);
	return ORIEL_OK;
}

enum oriel_status oriel_setting_get(unsigned index, struct oriel_setting *setting)
{
	enum oriel_status status = ori_info_check("oriel_setting", setting);
	const struct ori_config_entry *entry;
	struct oriel_setting found = {0};
	const char *text;

	if (status != ORIEL_OK)
		return status;
	if (index >= ORI_SETTINGS)
		return ori_fail_at_end("there is no setting %u, only %u", index,
				       (unsigned)ORI_SETTINGS);
	entry = &ori_config_entries[index];
	text = ori_config_environment(entry);
	found.name = entry->name;
	found.value = text ? text : entry->fallback;
	/* Once it is read, the environment has it no more. */
	if (entry->is_secret && (text || (index == ORI_SETTING_JOB_KEY && ori_job_key_is_taken())))
		text = found.value = "(hidden)";
	found.source = text ? "environment" : "default";
	found.help = entry->help;
	ori_info_write(setting, &found, sizeof(found));
	return ORIEL_OK;
}

/* The Levenshtein distance: letters to insert, delete or change to get from @a to @b. */
static unsigned config_distance(const char *a, size_t length, const char *b)
{
	unsigned row[ORI_CONFIG_NAME_MAX + 1], diagonal, above;
	size_t i, j, width = strlen(b);

	for (j = 0; j <= width; j++)
		row[j] = (unsigned)j;
	for (i = 1; i <= length; i++) {
		diagonal = row[0];
		row[0] = (unsigned)i;
		for (j = 1; j <= width; j++) {
			above = row[j];
			row[j] = diagonal + (a[i - 1] != b[j - 1]);
			if (above + 1 < row[j])
				row[j] = above + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			diagonal = above;
		}
	}
	return row[width];
}

/* The setting that may be meant; NULL if half of the name differs from every one. */
static const char *config_nearest(const char *name, size_t length)
{
	unsigned i, distance, least = (unsigned)(length - strlen(CONFIG_PREFIX)) / 2 + 1;
	const char *nearest = NULL;

	/* The names that other libraries have for it. */
	if (strncmp(name, "ORIEL_DEBUG=", length + 1) == 0 ||
	    strncmp(name, "ORIEL_LOG_LEVEL=", length + 1) == 0)
		return "ORIEL_LOG=info";
	for (i = 0; i < ORI_SETTINGS; i++) {
		distance = config_distance(name, length, ori_config_entries[i].name);
		if (distance < least) {
			least = distance;
			nearest = ori_config_entries[i].name;
		}
	}
	return nearest;
}

/*
 * @variable is "NAME=value" as in environ. An unknown ORIEL_ name is an error: a setting with a
 * typing error would be ignored without a word.
 */
static enum oriel_status config_check_name(const char *variable)
{
	size_t length = strcspn(variable, "=");
	const char *nearest;
	unsigned i;

	if (strncmp(variable, CONFIG_PREFIX, strlen(CONFIG_PREFIX)) != 0)
		return ORIEL_OK;
	for (i = 0; i < ORI_SETTINGS; i++)
		if (strlen(ori_config_entries[i].name) == length &&
		    memcmp(variable, ori_config_entries[i].name, length) == 0)
			return ORIEL_OK;
	nearest = config_nearest(variable, length);
	if (!nearest)
		return ori_fail(ORIEL_ERR_CONFIG,
				"%.*s is no setting of Oriel: oriel info --config lists all",
				(int)length, variable);
	return ori_fail(ORIEL_ERR_CONFIG, "%.*s is no setting of Oriel; is %s meant?", (int)length,
			variable, nearest);
}

enum oriel_status oriel_settings_check(void)
{
	const char *text;
	char **variable;
	unsigned i;

	for (variable = environ; variable && *variable; variable++)
		if (config_check_name(*variable) != ORIEL_OK)
			return ORIEL_ERR_CONFIG;
	for (i = 0; i < ORI_SETTINGS; i++) {
		if (i == ORI_SETTING_JOB_KEY)
			continue;
		text = ori_config_environment(&ori_config_entries[i]);
		if (text && !ori_config_is_valid(&ori_config_entries[i], text))
			return config_bad(&ori_config_entries[i], text);
	}
	return ori_job_key_check();
}
