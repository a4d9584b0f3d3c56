/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings, for config.c alone. Nothing here reports an error.
 */
#ifndef ORI_BASE_CONFIG_TABLE_H
#define ORI_BASE_CONFIG_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

#define ORI_CONFIG_NAME_MAX 32
#define ORI_CONFIG_TEXT_MAX 255
#define ORI_CONFIG_REQUIRED "required" /* ORIEL_JOB_KEY: no job without a key */
#define ORI_CONFIG_NO_KEY "none"       /* ORIEL_JOB_KEY: no key by munge */
#define ORI_CONFIG_KEY_FD "fd:"        /* ORIEL_JOB_KEY_FILE: the number of a descriptor follows */

struct ori_config_entry {
	const char *name;
	const char *fallback;
	const char *may_be; /* ends "ORIEL_X is 'y', but it may be ..."; NULL: made from @words,
			     * or from @least and @most
			     */
	const char *help;
	/* The check is one of: a function, a list of words, a number from @least to @most. */
	bool (*is_valid)(const char *text);
	const char *words;
	uint64_t least, most;
	bool is_secret;
};

extern const struct ori_config_entry ori_config_entries[ORI_SETTINGS];

/* The text in the environment, or NULL if it is unset or empty. */
const char *ori_config_environment(const struct ori_config_entry *entry);

/* The check of the table. */
bool ori_config_is_valid(const struct ori_config_entry *entry, const char *text);

/* Parsers, which leave the value alone if the text does not fit. */
bool ori_config_digits(const char *text, uint64_t max, uint64_t *value);
bool ori_config_seconds(const char *text, uint64_t *ns);
/* More than 0 seconds, or "infinite". */
bool ori_config_timeout(const char *text, uint64_t *ns);
bool ori_config_paths(const char *text, unsigned *mask);

#endif
