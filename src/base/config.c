/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings, and the parsers and checks of their values. Each module reads its
 * settings through config.h; oriel_settings_check() checks all of them when a job opens.
 */
#include "base/config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define CONFIG_PREFIX "ORIEL_"
#define CONFIG_NAME_MAX 32
#define CONFIG_TEXT_MAX 255
#define CONFIG_SECONDS_MAX 1000000000u

struct config_entry {
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

static bool config_digits(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t sum = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		unsigned digit = (unsigned)*text - '0';

		if (digit > 9 || sum > max / 10 || digit > max - sum * 10)
			return false;
		sum = sum * 10 + digit;
	}
	*value = sum;
	return true;
}

/* Parse seconds with up to nine decimals. strtod() would read them in the program's locale. */
static bool config_seconds(const char *text, uint64_t *ns)
{
	const char *dot = strchrnul(text, '.');
	char whole[CONFIG_NAME_MAX], part[] = "000000000";
	uint64_t seconds, rest;
	size_t decimals;

	if ((size_t)(dot - text) >= sizeof(whole))
		return false;
	memcpy(whole, text, (size_t)(dot - text));
	whole[dot - text] = '\0';
	if (*dot) {
		decimals = strlen(dot + 1);
		if (decimals == 0 || decimals > 9)
			return false;
		memcpy(part, dot + 1, decimals);
	}
	if (!config_digits(whole, CONFIG_SECONDS_MAX, &seconds) ||
	    !config_digits(part, UINT64_MAX, &rest))
		return false;
	*ns = seconds * 1000000000u + rest;
	return true;
}

static bool config_list_has(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool config_paths(const char *text, unsigned *mask)
{
	static const struct {
		const char *name;
		unsigned bit;
	} paths[] = {{"mapped", 1u << 2}, {"rdma", 1u << 3}};
	unsigned found = 0;
	size_t i, length;

	for (;; text += length + 1) {
		length = (size_t)(strchrnul(text, ',') - text);
		for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
			if (config_list_has(text, length, paths[i].name))
				break;
		if (i == sizeof(paths) / sizeof(paths[0]))
			return false;
		found |= paths[i].bit;
		if (!text[length])
			break;
	}
	*mask = found;
	return true;
}

static bool config_is_timeout(const char *text)
{
	uint64_t ns;

	return config_seconds(text, &ns);
}

static bool config_is_node(const char *text)
{
	size_t length = strlen(text), i;

	for (i = 0; i < length; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
			return false;
	return length <= 63;
}

static bool config_is_paths(const char *text)
{
	unsigned mask;

	return config_paths(text, &mask);
}

static bool config_is_key(const char *text)
{
	size_t length = strlen(text);

	/* A peer that poses as rank 0 can try keys offline, so a key has 16 bytes at least. */
	return length % 2 == 0 && length >= 32 && length <= CONFIG_TEXT_MAX &&
	       strspn(text, "0123456789abcdefABCDEF") == length;
}

static bool config_is_hca(const char *text)
{
	size_t i;

	/* The code that looks for HCAs parses the filter in full, and names the error. */
	for (i = 0; text[i]; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == ';')
			return false;
	return i <= CONFIG_TEXT_MAX;
}

/* The software HCA parses the scenario in full when it is opened, and names the error. */
static bool config_is_scenario(const char *text)
{
	return strlen(text) <= CONFIG_TEXT_MAX;
}

/* The create functions of collectives read the file, and name the error. */
static bool config_is_path(const char *text)
{
	return strlen(text) <= CONFIG_TEXT_MAX;
}

static bool config_is_mtu(const char *text)
{
	uint64_t value;

	return config_digits(text, 4096, &value) && value >= 256 && (value & (value - 1)) == 0;
}

static const struct config_entry config_entries[ORI_SETTINGS] = {
	[ORI_SETTING_TIMEOUT] =
		{
			.name = "ORIEL_TIMEOUT",
			.fallback = "600",
			.may_be = "seconds such as 30 or 0.5, or 0 for none",
			.help = "default of every wait, in seconds; 0 waits for ever",
			.is_valid = config_is_timeout,
		},
	[ORI_SETTING_LATE] =
		{
			.name = "ORIEL_LATE",
			.fallback = "30",
			.may_be = "seconds such as 30 or 0.5, or 0 for never",
			.help = "seconds after which the log names the ranks that a rank waits for",
			.is_valid = config_is_timeout,
		},
	[ORI_SETTING_NODE] =
		{
			.name = "ORIEL_NODE",
			.fallback = "",
			.may_be = "a name of up to 63 characters without spaces",
			.help = "name of the virtual node; ranks of different nodes share no "
				"memory",
			.is_valid = config_is_node,
		},
	[ORI_SETTING_PATHS] =
		{
			.name = "ORIEL_PATHS",
			.fallback = "mapped,rdma",
			.may_be = "a list of mapped and rdma, separated by commas",
			.help = "paths that this rank may use",
			.is_valid = config_is_paths,
		},
	[ORI_SETTING_LOG] =
		{
			.name = "ORIEL_LOG",
			.fallback = "warn",
			.help = "least level of the records that are written",
			.words = "error,warn,info,debug",
		},
	[ORI_SETTING_PORT] =
		{
			.name = "ORIEL_PORT",
			.fallback = "",
			.may_be = "a port from 1 to 65535",
			.help = "TCP port of rank 0, instead of MASTER_PORT",
			.least = 1,
			.most = 65535,
		},
	[ORI_SETTING_LISTEN_FD] =
		{
			.name = "ORIEL_LISTEN_FD",
			.fallback = "",
			.may_be = "the number of a file descriptor",
			.help = "listening socket that rank 0 inherits, instead of opening one",
			.most = INT32_MAX,
		},
	[ORI_SETTING_JOB_KEY] =
		{
			.name = "ORIEL_JOB_KEY",
			.fallback = "",
			.may_be = "an even number of hex digits, 32 to 254",
			.help = "secret that the ranks of a job share, in hex",
			.is_valid = config_is_key,
			.is_secret = true,
		},
	[ORI_SETTING_HCA] =
		{
			.name = "ORIEL_HCA",
			.fallback = "auto",
			.may_be = "auto, soft, none, verbs, or names as mlx5_0:1,mlx5_1 or ^mlx5_2 "
				  "or =rxe0",
			.help = "NICs for the rdma path; soft, the software HCA, is for "
				"development; auto takes it where there are no NICs",
			.is_valid = config_is_hca,
		},
	[ORI_SETTING_SOFT_HCA] =
		{
			.name = "ORIEL_SOFT_HCA",
			.fallback = "",
			.may_be = "a scenario such as seed=7,drop=0.01",
			.help = "faults that the software HCA injects",
			.is_valid = config_is_scenario,
		},
	[ORI_SETTING_CONNECT] =
		{
			.name = "ORIEL_CONNECT",
			.fallback = "eager",
			.help = "when links to rdma peers connect: all at once, or each at its "
				"first use",
			.words = "eager,lazy",
		},
	[ORI_SETTING_FABRIC] =
		{
			.name = "ORIEL_FABRIC",
			.fallback = "auto",
			.help = "NVLink between GPUs of different nodes: used if present, never, "
				"or required",
			.words = "auto,off,require",
		},
	[ORI_SETTING_TIER] =
		{
			.name = "ORIEL_TIER",
			.fallback = "auto",
			.help = "how requests are posted to a ConnectX NIC: the best tier that "
				"works, or this one",
			.words = "auto,t0,t1,t2,t3",
		},
	[ORI_SETTING_DEVX] =
		{
			.name = "ORIEL_DEVX",
			.fallback = "auto",
			.help = "queues of a ConnectX NIC are created by commands to its firmware, "
				"or by verbs alone",
			.words = "auto,off",
		},
	[ORI_SETTING_RAILS] =
		{
			.name = "ORIEL_RAILS",
			.fallback = "1",
			.help = "NICs that each rank drives; its links are spread over them",
			.least = 1,
			.most = 4,
		},
	[ORI_SETTING_ALLGATHER] =
		{
			.name = "ORIEL_ALLGATHER",
			.fallback = "auto",
			.help = "algorithm of all-gathers whose attr names none",
			.words = "auto,ll,store,ce,direct,ring,bruck",
		},
	[ORI_SETTING_CE_BATCH] =
		{
			.name = "ORIEL_CE_BATCH",
			.fallback = "0",
			.help = "copy-engine copies to all ranks, of at most so many bytes each, "
				"are handed to the GPU driver in one call; 0: one call each",
			.most = UINT32_MAX,
		},
	[ORI_SETTING_TUNE] =
		{
			.name = "ORIEL_TUNE",
			.fallback = "",
			.may_be = "the path of a file, or off",
			.help = "table of oriel tune from which collectives choose an algorithm; "
				"unset: ~/.cache/oriel/tune if it exists; off: the built-in table",
			.is_valid = config_is_path,
		},
	[ORI_SETTING_POST] =
		{
			.name = "ORIEL_POST",
			.fallback = "auto",
			.help = "requests are posted by the initiator, to the rings of the NIC, or "
				"by a proxy thread; auto: rings where the NIC has them",
			.words = "auto,rings,proxy",
		},
	[ORI_SETTING_PROXY_NEAR] =
		{
			.name = "ORIEL_PROXY_NEAR",
			.fallback = "auto",
			.help = "the proxy thread stays on CPUs of the NUMA node of its NIC, or "
				"runs anywhere",
			.words = "auto,off",
		},
	[ORI_SETTING_P2P_TCP] =
		{
			.name = "ORIEL_P2P_TCP",
			.fallback = "auto",
			.help = "whether a p2p context listens on TCP for endpoints on other "
				"machines; auto: if there is a job key, or ranks on other "
				"machines",
			.words = "auto,on,off",
		},
	[ORI_SETTING_IB_GID_INDEX] =
		{
			.name = "ORIEL_IB_GID_INDEX",
			.fallback = "",
			.help = "GID index of a NIC; unset: the first of RoCE v2, IPv4 before "
				"IPv6",
			.most = 255,
		},
	[ORI_SETTING_IB_TC] =
		{
			.name = "ORIEL_IB_TC",
			.fallback = "0",
			.help = "traffic class of packets",
			.most = 255,
		},
	[ORI_SETTING_IB_SL] =
		{
			.name = "ORIEL_IB_SL",
			.fallback = "0",
			.help = "service level of packets",
			.most = 15,
		},
	[ORI_SETTING_IB_TIMEOUT] =
		{
			.name = "ORIEL_IB_TIMEOUT",
			.fallback = "20",
			.help = "a NIC retransmits after 4.096 us * 2^n; 0 = never",
			.most = 31,
		},
	[ORI_SETTING_IB_RETRY] =
		{
			.name = "ORIEL_IB_RETRY",
			.fallback = "7",
			.help = "retransmissions before the peer counts as failed",
			.most = 7,
		},
	[ORI_SETTING_IB_RNR_RETRY] =
		{
			.name = "ORIEL_IB_RNR_RETRY",
			.fallback = "7",
			.help = "retries, 0.64 ms apart, while the peer has no receive posted; "
				"7 = for ever",
			.most = 7,
		},
	[ORI_SETTING_IB_MTU] =
		{
			.name = "ORIEL_IB_MTU",
			.fallback = "4096",
			.may_be = "256, 512, 1024, 2048 or 4096",
			.help = "largest packet in bytes; the two sides use the smaller value",
			.is_valid = config_is_mtu,
		},
};

/* A setting that is set but empty counts as unset, as shells treat it. */
static const char *config_environment(const struct config_entry *entry)
{
	const char *text = getenv(entry->name);

	return text && *text ? text : NULL;
}

static bool config_is_word(const char *words, const char *text)
{
	size_t length;

	for (;; words += length + 1) {
		length = (size_t)(strchrnul(words, ',') - words);
		if (config_list_has(words, length, text))
			return true;
		if (!words[length])
			return false;
	}
}

static bool config_is_valid(const struct config_entry *entry, const char *text)
{
	uint64_t value;

	if (entry->is_valid)
		return entry->is_valid(text);
	if (entry->words)
		return config_is_word(entry->words, text);
	return config_digits(text, entry->most, &value) && value >= entry->least;
}

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

static void config_may_be(const struct config_entry *entry, char *text, size_t size)
{
	if (entry->may_be)
		snprintf(text, size, "%s", entry->may_be);
	else if (entry->words)
		config_enumerate(entry->words, text, size);
	else
		snprintf(text, size, "a number from %" PRIu64 " to %" PRIu64, entry->least,
			 entry->most);
}

static enum oriel_status config_bad(const struct config_entry *entry, const char *text)
{
	char may_be[CONFIG_NAME_MAX + CONFIG_TEXT_MAX];

	config_may_be(entry, may_be, sizeof(may_be));
	if (entry->is_secret)
		return ori_fail(ORIEL_ERR_CONFIG, "%s may be %s, but is not", entry->name, may_be);
	return ori_fail(ORIEL_ERR_CONFIG, "%s is '%s', but it may be %s", entry->name, text,
			may_be);
}

const char *ori_setting_text(enum ori_setting which)
{
	const char *text = config_environment(&config_entries[which]);

	return text ? text : config_entries[which].fallback;
}

enum oriel_status ori_setting_timeout(uint64_t *timeout_ns)
{
	const char *text = ori_setting_text(ORI_SETTING_TIMEOUT);
	uint64_t ns;

	if (!config_seconds(text, &ns))
		return config_bad(&config_entries[ORI_SETTING_TIMEOUT], text);
	*timeout_ns = ns ? ns : ORIEL_FOREVER;
	return ORIEL_OK;
}

uint64_t ori_setting_late(void)
{
	uint64_t ns;

	if (!config_seconds(ori_setting_text(ORI_SETTING_LATE), &ns))
		config_seconds(config_entries[ORI_SETTING_LATE].fallback, &ns);
	return ns;
}

enum oriel_status ori_setting_unsigned(enum ori_setting which, uint64_t max, uint64_t *value)
{
	const struct config_entry *entry = &config_entries[which];
	const char *text = ori_setting_text(which);

	if (!config_is_valid(entry, text) || !config_digits(text, max, value))
		return config_bad(entry, text);
	return ORIEL_OK;
}

enum oriel_status ori_setting_paths(unsigned *mask)
{
	const char *text = ori_setting_text(ORI_SETTING_PATHS);

	if (!config_paths(text, mask))
		return config_bad(&config_entries[ORI_SETTING_PATHS], text);
	return ORIEL_OK;
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
	if (!config_digits(text, max, value))
		return ori_fail(ORIEL_ERR_CONFIG,
				"%s is '%s', but it may be a number from 0 to %llu", name, text,
				(unsigned long long)max);
	return ORIEL_OK;
}

enum oriel_status oriel_setting_get(unsigned index, struct oriel_setting *setting)
{
	const struct config_entry *entry;
	const char *text;

	if (!setting)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_setting_get: setting is NULL");
	if (index >= ORI_SETTINGS)
		return ori_fail(ORIEL_ERR_RANGE, "there is no setting %u, only %u", index,
				(unsigned)ORI_SETTINGS);
	entry = &config_entries[index];
	text = config_environment(entry);
	setting->name = entry->name;
	setting->value = text ? text : entry->fallback;
	if (text && entry->is_secret)
		setting->value = "(hidden)";
	setting->source = text ? "environment" : "default";
	setting->help = entry->help;
	return ORIEL_OK;
}

/* The Levenshtein distance: letters to insert, delete or change to get from @a to @b. */
static unsigned config_distance(const char *a, size_t length, const char *b)
{
	unsigned row[CONFIG_NAME_MAX + 1], diagonal, above;
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

static const char *config_nearest(const char *name, size_t length)
{
	unsigned i, distance, least = UINT32_MAX;
	const char *nearest = NULL;

	for (i = 0; i < ORI_SETTINGS; i++) {
		distance = config_distance(name, length, config_entries[i].name);
		if (distance < least) {
			least = distance;
			nearest = config_entries[i].name;
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
	unsigned i;

	if (strncmp(variable, CONFIG_PREFIX, strlen(CONFIG_PREFIX)) != 0)
		return ORIEL_OK;
	for (i = 0; i < ORI_SETTINGS; i++)
		if (config_list_has(variable, length, config_entries[i].name))
			return ORIEL_OK;
	return ori_fail(ORIEL_ERR_CONFIG, "%.*s is no setting of Oriel; is %s meant?", (int)length,
			variable, config_nearest(variable, length));
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
		text = config_environment(&config_entries[i]);
		if (text && !config_is_valid(&config_entries[i], text))
			return config_bad(&config_entries[i], text);
	}
	return ORIEL_OK;
}
