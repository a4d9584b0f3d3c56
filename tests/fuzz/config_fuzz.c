/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of src/base/config.c and config_table.c: a text as a number, as the value of each
 * setting and as a variable of the environment. A second, different check decides here which texts
 * are valid.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "fuzz.h"
#include "sys/hosts.h"
#include "topo/host.h"

#define TEXT_MAX 4096u
#define SECRET_LONG 100u
#define PREFIX_MAX 32u

static char config_variable[PREFIX_MAX + TEXT_MAX];
static char *config_environ[] = {config_variable, NULL};

static const struct {
	enum ori_setting which;
	const char *name;
} config_names[ORI_SETTINGS] = {
	{ORI_SETTING_TIMEOUT, "ORIEL_TIMEOUT"},
	{ORI_SETTING_LATE, "ORIEL_LATE"},
	{ORI_SETTING_HEARTBEAT, "ORIEL_HEARTBEAT"},
	{ORI_SETTING_HANG_SIGNAL, "ORIEL_HANG_SIGNAL"},
	{ORI_SETTING_NODE, "ORIEL_NODE"},
	{ORI_SETTING_PATHS, "ORIEL_PATHS"},
	{ORI_SETTING_LOG, "ORIEL_LOG"},
	{ORI_SETTING_LOG_FILE, "ORIEL_LOG_FILE"},
	{ORI_SETTING_BOOTSTRAP, "ORIEL_BOOTSTRAP"},
	{ORI_SETTING_MEET, "ORIEL_MEET"},
	{ORI_SETTING_PORT, "ORIEL_PORT"},
	{ORI_SETTING_LISTEN_FD, "ORIEL_LISTEN_FD"},
	{ORI_SETTING_JOB_KEY, "ORIEL_JOB_KEY"},
	{ORI_SETTING_JOB_KEY_FILE, "ORIEL_JOB_KEY_FILE"},
	{ORI_SETTING_INVITATION, "ORIEL_INVITATION"},
	{ORI_SETTING_SSH, "ORIEL_SSH"},
	{ORI_SETTING_HCA, "ORIEL_HCA"},
	{ORI_SETTING_SOFT_HCA, "ORIEL_SOFT_HCA"},
	{ORI_SETTING_CONNECT, "ORIEL_CONNECT"},
	{ORI_SETTING_FABRIC, "ORIEL_FABRIC"},
	{ORI_SETTING_TOPOLOGY, "ORIEL_TOPOLOGY"},
	{ORI_SETTING_TIER, "ORIEL_TIER"},
	{ORI_SETTING_DEVX, "ORIEL_DEVX"},
	{ORI_SETTING_RAILS, "ORIEL_RAILS"},
	{ORI_SETTING_ALLGATHER, "ORIEL_ALLGATHER"},
	{ORI_SETTING_ALLREDUCE, "ORIEL_ALLREDUCE"},
	{ORI_SETTING_REDUCE_FAST, "ORIEL_REDUCE_FAST"},
	{ORI_SETTING_CE_BATCH, "ORIEL_CE_BATCH"},
	{ORI_SETTING_TUNE, "ORIEL_TUNE"},
	{ORI_SETTING_POST, "ORIEL_POST"},
	{ORI_SETTING_NET_ORDER, "ORIEL_NET_ORDER"},
	{ORI_SETTING_PROXY_NEAR, "ORIEL_PROXY_NEAR"},
	{ORI_SETTING_IFACE, "ORIEL_IFACE"},
	{ORI_SETTING_FAMILY, "ORIEL_FAMILY"},
	{ORI_SETTING_P2P_TCP, "ORIEL_P2P_TCP"},
	{ORI_SETTING_IB_GID_INDEX, "ORIEL_IB_GID_INDEX"},
	{ORI_SETTING_IB_TC, "ORIEL_IB_TC"},
	{ORI_SETTING_IB_SL, "ORIEL_IB_SL"},
	{ORI_SETTING_IB_TIMEOUT, "ORIEL_IB_TIMEOUT"},
	{ORI_SETTING_IB_RETRY, "ORIEL_IB_RETRY"},
	{ORI_SETTING_IB_RNR_RETRY, "ORIEL_IB_RNR_RETRY"},
	{ORI_SETTING_IB_MTU, "ORIEL_IB_MTU"},
};

static bool config_is_number(const char *text, uint64_t max, uint64_t *value)
{
	if (!*text || strspn(text, "0123456789") != strlen(text))
		return false;
	errno = 0;
	*value = strtoull(text, NULL, 10);
	return errno == 0 && *value <= max;
}

/* 31 digits at most before the dot, 1 to 9 behind it. */
static bool config_is_seconds(const char *text, uint64_t *ns)
{
	size_t whole = strspn(text, "0123456789"), decimals = 0, i;
	uint64_t seconds, part = 0;

	errno = 0;
	seconds = strtoull(text, NULL, 10);
	if (whole == 0 || whole > 31 || errno || seconds > 1000000000)
		return false;
	if (text[whole] == '.') {
		decimals = strspn(text + whole + 1, "0123456789");
		if (decimals == 0 || decimals > 9)
			return false;
		part = strtoull(text + whole + 1, NULL, 10);
		whole += 1 + decimals;
	}
	for (i = decimals; i < 9; i++)
		part *= 10;
	*ns = seconds * 1000000000 + part;
	return !text[whole];
}

static bool config_is_timeout(const char *text, uint64_t *ns)
{
	if (config_is_seconds(text, ns))
		return *ns > 0;
	*ns = ORIEL_TIMEOUT_INFINITE;
	return strcmp(text, "infinite") == 0;
}

static bool config_is_list(const char *text, unsigned *mask)
{
	static char copy[TEXT_MAX + 1];
	char *rest = strcpy(copy, text), *word;

	*mask = 0;
	while ((word = strsep(&rest, ","))) {
		if (strcmp(word, "mapped") == 0)
			*mask |= 1u << ORIEL_PATH_MAPPED;
		else if (strcmp(word, "rdma") == 0)
			*mask |= 1u << ORIEL_PATH_RDMA;
		else
			return false;
	}
	return true;
}

static bool config_is_name(const char *text)
{
	size_t i;

	for (i = 0; text[i]; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 127)
			return false;
	return i <= 63;
}

/* Is @text, of letters alone, one of @words, each of which has a space behind it? */
static bool config_is_word(const char *text, const char *words)
{
	size_t length = strlen(text);

	for (; *words; words = strchr(words, ' ') + 1)
		if (strncmp(words, text, length) == 0 && words[length] == ' ')
			return true;
	return false;
}

/* The name must fit once each letter is replaced. */
static bool config_is_pattern(const char *text)
{
	char host[256] = "";
	size_t length = 0;

	gethostname(host, sizeof(host) - 1);
	for (; *text; text++) {
		if (*text != '%') {
			length++;
			continue;
		}
		text++;
		if (*text == 'h')
			length += strlen(host);
		else if (*text == 'p')
			length += (size_t)snprintf(NULL, 0, "%d", (int)getpid());
		else if (*text == '%')
			length++;
		else
			return false;
	}
	return length < 1024;
}

/* ^ and = once each, in this order, then names of 1 to 15 characters with a comma between two. */
static bool config_is_interfaces(const char *text)
{
	unsigned length = 0;

	if (*text == '^')
		text++;
	if (*text == '=')
		text++;
	for (; *text; text++) {
		if (*text == ',' && !length)
			return false;
		if (strchr("^= \t\n", *text))
			return false;
		length = *text == ',' ? 0 : length + 1;
		if (length > 15)
			return false;
	}
	return length > 0;
}

static bool config_is_good(enum ori_setting which, const char *text)
{
	uint64_t number;
	unsigned mask;
	size_t i;

	switch (which) {
	case ORI_SETTING_TIMEOUT:
		return config_is_timeout(text, &number);
	case ORI_SETTING_LATE:
	case ORI_SETTING_HEARTBEAT:
		return config_is_seconds(text, &number);
	case ORI_SETTING_NODE:
		return config_is_name(text);
	case ORI_SETTING_PATHS:
		return config_is_list(text, &mask);
	case ORI_SETTING_LOG:
		return strcmp(text, "error") == 0 || strcmp(text, "warn") == 0 ||
		       strcmp(text, "info") == 0 || strcmp(text, "debug") == 0;
	case ORI_SETTING_LOG_FILE:
		return strlen(text) <= 255 && config_is_pattern(text);
	case ORI_SETTING_PORT:
		return config_is_number(text, 65535, &number) && number > 0;
	case ORI_SETTING_LISTEN_FD:
		return config_is_number(text, INT32_MAX, &number);
	case ORI_SETTING_JOB_KEY:
		return strcmp(text, "required") == 0 || strcmp(text, "none") == 0 ||
		       (strlen(text) % 2 == 0 && strlen(text) >= 32 && strlen(text) <= 254 &&
			strspn(text, "0123456789abcdefABCDEF") == strlen(text));
	case ORI_SETTING_INVITATION:
		return strlen(text) == 288 && strspn(text, "0123456789abcdef") == strlen(text);
	case ORI_SETTING_JOB_KEY_FILE:
		if (text[0] == 'f' && text[1] == 'd' && text[2] == ':')
			return config_is_number(text + 3, INT32_MAX, &number);
		return strlen(text) <= 255;
	case ORI_SETTING_HCA:
		for (i = 0; text[i]; i++)
			if (text[i] <= ' ' || text[i] >= 127 || text[i] == ';')
				return false;
		return i <= 255;
	case ORI_SETTING_TOPOLOGY:
	case ORI_SETTING_SOFT_HCA:
		return strlen(text) <= 255;
	case ORI_SETTING_TUNE:
		return strlen(text) <= 255;
	case ORI_SETTING_MEET:
		return strcmp(text, "auto") == 0 || strcmp(text, "unix") == 0 ||
		       strcmp(text, "tcp") == 0;
	case ORI_SETTING_SSH:
		return *text != '\0';
	case ORI_SETTING_HANG_SIGNAL:
		return *text && !strchr(text, ' ') &&
		       config_is_word(text, "off SIGUSR1 SIGUSR2 SIGQUIT ");
	case ORI_SETTING_CONNECT:
		return strcmp(text, "demand") == 0 || strcmp(text, "eager") == 0 ||
		       strcmp(text, "lazy") == 0;
	case ORI_SETTING_FABRIC:
		return strcmp(text, "auto") == 0 || strcmp(text, "off") == 0 ||
		       strcmp(text, "require") == 0;
	case ORI_SETTING_TIER:
		return strcmp(text, "auto") == 0 ||
		       (strlen(text) == 2 && text[0] == 't' && strchr("0123", text[1]));
	case ORI_SETTING_PROXY_NEAR:
		return strcmp(text, "auto") == 0 || strcmp(text, "off") == 0;
	case ORI_SETTING_IFACE:
		return config_is_interfaces(text);
	case ORI_SETTING_FAMILY:
		return strcmp(text, "auto") == 0 || strcmp(text, "ipv4") == 0 ||
		       strcmp(text, "ipv6") == 0;
	case ORI_SETTING_DEVX:
	case ORI_SETTING_P2P_TCP:
		return strcmp(text, "auto") == 0 || strcmp(text, "on") == 0 ||
		       strcmp(text, "off") == 0;
	case ORI_SETTING_BOOTSTRAP:
		return strspn(text, "abcdefghijklmnopqrstuvwxyz") == strlen(text) && *text &&
		       config_is_word(text, "auto env pmix slurm kubernetes local ");
	case ORI_SETTING_POST:
		return strcmp(text, "auto") == 0 || strcmp(text, "rings") == 0 ||
		       strcmp(text, "proxy") == 0;
	case ORI_SETTING_NET_ORDER:
		return strcmp(text, "auto") == 0 || strcmp(text, "ordered") == 0 ||
		       strcmp(text, "relaxed") == 0;
	case ORI_SETTING_ALLGATHER:
		return strspn(text, "abcdefghijklmnopqrstuvwxyz") == strlen(text) && *text &&
		       config_is_word(text, "auto ll store ce direct ring bruck ");
	case ORI_SETTING_ALLREDUCE:
		return strspn(text, "abcdefghijklmnopqrstuvwxyz_") == strlen(text) && *text &&
		       config_is_word(text, "auto one_shot owner hierarchical ring recursive ");
	case ORI_SETTING_REDUCE_FAST:
		return strcmp(text, "on") == 0 || strcmp(text, "off") == 0;
	case ORI_SETTING_CE_BATCH:
		return config_is_number(text, UINT32_MAX, &number);
	case ORI_SETTING_RAILS:
		return config_is_number(text, 4, &number) && number > 0;
	case ORI_SETTING_IB_GID_INDEX:
	case ORI_SETTING_IB_TC:
		return config_is_number(text, 255, &number);
	case ORI_SETTING_IB_SL:
		return config_is_number(text, 15, &number);
	case ORI_SETTING_IB_TIMEOUT:
		return config_is_number(text, 31, &number);
	case ORI_SETTING_IB_RETRY:
	case ORI_SETTING_IB_RNR_RETRY:
		return config_is_number(text, 7, &number);
	case ORI_SETTING_IB_MTU:
		return config_is_number(text, 4096, &number) && number >= 256 &&
		       (number & (number - 1)) == 0;
	default:
		FUZZ_CHECK(which == ORI_SETTINGS); /* each of the table has a rule */
		return false;
	}
}

static void config_numbers(const char *text)
{
	static const uint64_t limits[] = {0, 1, 9, 65535, INT32_MAX, 1u << 20, UINT64_MAX};
	uint64_t value, expected;
	enum oriel_status status;
	size_t i;

	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		value = 0xa5;
		status = ori_parse_unsigned("RANK", text, limits[i], &value);
		if (!config_is_number(text, limits[i], &expected))
			FUZZ_CHECK(status == ORIEL_ERR_CONFIG && value == 0xa5);
		else
			FUZZ_CHECK(status == ORIEL_OK && value == expected);
	}
}

static void config_timeout(const char *text)
{
	uint64_t ns = 0, expected;
	enum oriel_status status = ori_setting_timeout(&ns);

	if (config_is_timeout(text, &expected))
		FUZZ_CHECK(status == ORIEL_OK && ns == expected);
	else
		FUZZ_CHECK(status == ORIEL_ERR_CONFIG && ns == 0);
}

static void config_paths(const char *text)
{
	unsigned mask = 0, expected;
	enum oriel_status status = ori_setting_paths(&mask);

	if (config_is_list(text, &expected))
		FUZZ_CHECK(status == ORIEL_OK && mask == expected && mask);
	else
		FUZZ_CHECK(status == ORIEL_ERR_CONFIG && mask == 0);
}

static void config_number(enum ori_setting which, const char *text, uint64_t max)
{
	uint64_t value = 0, expected;

	if (config_is_good(which, text))
		FUZZ_CHECK(ori_setting_unsigned(which, max, &value) == ORIEL_OK &&
			   config_is_number(text, max, &expected) && value == expected);
	else
		FUZZ_CHECK(ori_setting_unsigned(which, max, &value) == ORIEL_ERR_CONFIG &&
			   value == 0);
}

/* Every value that the settings accept must suit the module that uses it. */
static void config_node(const char *text)
{
	struct ori_host host;

	if (config_is_good(ORI_SETTING_NODE, text))
		FUZZ_CHECK(ori_host_describe(text, 0, &host) == ORIEL_OK &&
			   strcmp(host.node, text) == 0);
}

/* A text that does not parse is the default, @fallback. */
static void config_seconds(const char *text, uint64_t is, uint64_t fallback)
{
	uint64_t ns = 0;

	FUZZ_CHECK(is == (config_is_seconds(text, &ns) ? ns : fallback));
}

static void config_secret(enum ori_setting which, const char *text)
{
	struct oriel_setting setting = {.size = sizeof(setting)};

	FUZZ_CHECK(oriel_setting_get(which, &setting) == ORIEL_OK);
	FUZZ_CHECK(strcmp(setting.value, "(hidden)") == 0);
	/* The text of the error is shorter, so it cannot hold such a key by accident. */
	if (oriel_settings_check() != ORIEL_OK && strlen(text) >= SECRET_LONG)
		FUZZ_CHECK(!strstr(oriel_last_error(), text));
}

/* A list chooses a name, or its opposite does. */
static void config_iface(const char *text)
{
	char opposite[TEXT_MAX + 2] = "^";

	if (!config_is_good(ORI_SETTING_IFACE, text) || *text == '^')
		return;
	strcat(opposite, text);
	FUZZ_CHECK(ori_hosts_match(text, "eth0") != ori_hosts_match(opposite, "eth0"));
}

static void config_values(enum ori_setting which, const char *text)
{
	switch (which) {
	case ORI_SETTING_TIMEOUT:
		config_timeout(text);
		break;
	case ORI_SETTING_LATE:
		config_seconds(text, ori_setting_late(), 30000000000u);
		break;
	case ORI_SETTING_HEARTBEAT:
		config_seconds(text, ori_setting_heartbeat(), 0);
		break;
	case ORI_SETTING_PATHS:
		config_paths(text);
		break;
	case ORI_SETTING_PORT:
		config_number(which, text, 65535);
		break;
	case ORI_SETTING_LISTEN_FD:
		config_number(which, text, INT32_MAX);
		break;
	case ORI_SETTING_NODE:
		config_node(text);
		break;
	case ORI_SETTING_JOB_KEY:
	case ORI_SETTING_INVITATION:
		config_secret(which, text);
		break;
	case ORI_SETTING_IFACE:
		config_iface(text);
		break;
	default:
		break;
	}
}

static void config_setting(unsigned i, const char *text)
{
	enum oriel_status status;

	strcpy(config_variable, config_names[i].name);
	strcat(config_variable, "=");
	strcat(config_variable, text);
	status = oriel_settings_check();
	if (!*text) {
		FUZZ_CHECK(status == ORIEL_OK);
		return;
	}
	FUZZ_CHECK(strcmp(ori_setting_text(config_names[i].which), text) == 0);
	FUZZ_CHECK(status ==
		   (config_is_good(config_names[i].which, text) ? ORIEL_OK : ORIEL_ERR_CONFIG));
	config_values(config_names[i].which, text);
}

/* The text as a whole variable: the check ignores variables without the prefix ORIEL_. */
static void config_foreign(const char *text)
{
	size_t length = strcspn(text, "="), i;
	bool is_known = strncmp(text, "ORIEL_", 6) != 0;

	strcpy(config_variable, text);
	for (i = 0; i < ORI_SETTINGS && !is_known; i++)
		is_known = strlen(config_names[i].name) == length &&
			   memcmp(text, config_names[i].name, length) == 0;
	if (!is_known)
		FUZZ_CHECK(oriel_settings_check() == ORIEL_ERR_CONFIG);
	else if (text[0] != 'O')
		FUZZ_CHECK(oriel_settings_check() == ORIEL_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[TEXT_MAX + 1];
	char **outer = environ;
	unsigned i;

	if (size > TEXT_MAX)
		size = TEXT_MAX;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	environ = config_environ;
	config_variable[0] = '\0';
	config_numbers(text);
	for (i = 0; i < ORI_SETTINGS; i++)
		config_setting(i, text);
	config_foreign(text);
	environ = outer;
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const char *const seeds[] = {
		"0",
		"infinite",
		"30",
		"0.5",
		"0.000000001",
		"1000000000.999999999",
		"0000000000000000000000000000001",
		"65535",
		"65536",
		"2147483647",
		"2147483648",
		"18446744073709551615",
		"18446744073709551616",
		"+1",
		"-1",
		" 1",
		"1e3",
		"0x10",
		"mapped",
		"rdma",
		"mapped,rdma",
		"rdma,rdma,mapped",
		"mapped,",
		",",
		"error",
		"debug",
		"00112233445566778899aabbccddeeff",
		"00112233445566778899AABBCCDDEEF",
		"node-1",
		"demand",
		"eager",
		"lazy",
		"rings",
		"proxy",
		"ORIEL_TIMEOUT=30",
		"ORIEL_TIMEOUTS=30",
		"ORIEL_=",
		"ORIEL_JOBKEY=00",
		"PATH=/bin",
		"123456789012345678901234567890123456789012345678901234567890123",
		"1234567890123456789012345678901234567890123456789012345678901234",
		("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
		 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg"),
	};

	if (n >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	memcpy(bytes, seeds[n], strlen(seeds[n]));
	return strlen(seeds[n]);
}
