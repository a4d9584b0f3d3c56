/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the text of a scenario by one table of keys. Nodes call it at open. */
#include "hca/soft/soft_scenario.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "hca/soft/soft_rand.h"

#define SCENARIO_WORD 32u /* bytes of a value, its NUL included */

enum scenario_kind {
	SCENARIO_COUNT,
	SCENARIO_CHANCE,
	SCENARIO_TIME,
	SCENARIO_FLAG,
};

struct scenario_key {
	const char *name;
	size_t at;
	uint64_t least, most, fallback;
	enum scenario_kind kind;
};

#define SCENARIO_SECOND UINT64_C(1000000000)

/* A key of the text has the name of its field. */
#define SCENARIO_KEY(field, kind, least, most, fallback)                              \
	{                                                                             \
#field, offsetof(struct soft_scenario, field), least, most, fallback, \
			SCENARIO_##kind                                               \
	}

static const struct scenario_key scenario_keys[] = {
	SCENARIO_KEY(seed, COUNT, 0, UINT64_MAX, 1),
	SCENARIO_KEY(drop, CHANCE, 0, SOFT_CERTAIN, 0),
	SCENARIO_KEY(dup, CHANCE, 0, SOFT_CERTAIN, 0),
	SCENARIO_KEY(delay, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(reorder, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(black_hole, COUNT, 0, UINT64_MAX, SOFT_OFF),
	SCENARIO_KEY(stall, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(stall_rate, CHANCE, 0, SOFT_CERTAIN, SOFT_CERTAIN / 64),
	SCENARIO_KEY(gather, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(shuffle, FLAG, 0, 1, 0),
	SCENARIO_KEY(fail_wqe, COUNT, 0, UINT64_MAX, SOFT_OFF),
	SCENARIO_KEY(scrub, FLAG, 0, 1, 0),
	SCENARIO_KEY(halt, TIME, 0, 100 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(halt_at, COUNT, 0, UINT64_MAX, 0),
	SCENARIO_KEY(sink, FLAG, 0, 1, 0),
	SCENARIO_KEY(relaxed, COUNT, 0, 4096, 0),
	SCENARIO_KEY(late_read, FLAG, 0, 1, 0),
	SCENARIO_KEY(late_cqe, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(dup_cqe, CHANCE, 0, SOFT_CERTAIN, 0),
	SCENARIO_KEY(below_owner, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(invisible, TIME, 0, 10 * SCENARIO_SECOND, 0),
	SCENARIO_KEY(slow_atomic, TIME, 0, SCENARIO_SECOND / 100, 0),
	SCENARIO_KEY(db_loss, CHANCE, 0, SOFT_CERTAIN, 0),
	SCENARIO_KEY(db_delay, TIME, 0, 10 * SCENARIO_SECOND, SCENARIO_SECOND / 10000),
	SCENARIO_KEY(double_ring, FLAG, 0, 1, 0),
	SCENARIO_KEY(qp, COUNT, 0, UINT64_MAX, SOFT_OFF),
	SCENARIO_KEY(ack, TIME, 1000, 100 * SCENARIO_SECOND, SCENARIO_SECOND / 20),
	SCENARIO_KEY(retry, COUNT, 0, 1000, 7),
	SCENARIO_KEY(rnr, TIME, 1000, SCENARIO_SECOND, SCENARIO_SECOND / 10000),
	SCENARIO_KEY(rnr_retry, COUNT, 0, 7, SOFT_FOR_EVER),
	SCENARIO_KEY(mtu, COUNT, 256, 4096, 4096),
	SCENARIO_KEY(reads, COUNT, 1, 16, 16),
	SCENARIO_KEY(big_endian, FLAG, 0, 1, 0),
	SCENARIO_KEY(masked, FLAG, 0, 1, 1),
	SCENARIO_KEY(tcp, FLAG, 0, 1, 0),
	SCENARIO_KEY(ipv6, FLAG, 0, 1, 0),
	SCENARIO_KEY(first, COUNT, 0, UINT64_C(1) << 39, 0),
	SCENARIO_KEY(gpu, FLAG, 0, 1, 0),
	SCENARIO_KEY(policy_b, FLAG, 0, 1, 0),
};

#define SCENARIO_KEYS (sizeof(scenario_keys) / sizeof(scenario_keys[0]))

static uint64_t *scenario_field(struct soft_scenario *s, const struct scenario_key *key)
{
	return (uint64_t *)(void *)((char *)s + key->at);
}

static bool scenario_digits(const char *text, uint64_t *value)
{
	size_t length = strspn(text, "0123456789");
	uint64_t v = 0;

	for (size_t i = 0; i < length; i++) {
		unsigned digit = (unsigned)(text[i] - '0');

		if (v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*value = v;
	return length > 0 && text[length] == '\0';
}

/* Digits with at most one point, times @unit, rounded down. */
static bool scenario_decimal(const char *text, size_t length, uint64_t unit, uint64_t *value)
{
	uint64_t whole = 0, part = 0, scale = 1;
	bool has_point = false, has_digit = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '.' && !has_point) {
			has_point = true;
			continue;
		}
		if (text[i] < '0' || text[i] > '9' || whole > 1000000 || scale >= 1000000000)
			return false;
		has_digit = true;
		if (has_point) {
			scale *= 10;
			part = part * 10 + (uint64_t)(text[i] - '0');
		} else {
			whole = whole * 10 + (uint64_t)(text[i] - '0');
		}
	}
	*value = whole * unit + part * unit / scale;
	return has_digit;
}

static bool scenario_time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", SCENARIO_SECOND}};
	size_t length = strspn(text, "0123456789.");

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(text + length, units[i].name) == 0)
			return scenario_decimal(text, length, units[i].ns, ns);
	return false;
}

static bool scenario_value(const struct scenario_key *key, const char *text, uint64_t *value)
{
	switch (key->kind) {
	case SCENARIO_CHANCE:
		return scenario_decimal(text, strlen(text), SOFT_CERTAIN, value);
	case SCENARIO_TIME:
		return scenario_time(text, value);
	default:
		return scenario_digits(text, value);
	}
}

static const char *scenario_may_be(const struct scenario_key *key)
{
	switch (key->kind) {
	case SCENARIO_CHANCE:
		return "a chance from 0 to 1";
	case SCENARIO_TIME:
		return "a time such as 20us, 5ms or 1s";
	case SCENARIO_FLAG:
		return "0 or 1";
	default:
		return "a number within its limits";
	}
}

static const struct scenario_key *scenario_find(const char *name, size_t length)
{
	for (size_t i = 0; i < SCENARIO_KEYS; i++)
		if (strlen(scenario_keys[i].name) == length &&
		    memcmp(scenario_keys[i].name, name, length) == 0)
			return &scenario_keys[i];
	return NULL;
}

/* One "key=value" of @length bytes. */
static enum oriel_status scenario_set(struct soft_scenario *s, const char *text, size_t length)
{
	const char *equal = memchr(text, '=', length);
	size_t name = equal ? (size_t)(equal - text) : length;
	const struct scenario_key *key = scenario_find(text, name);
	char word[SCENARIO_WORD] = "";
	uint64_t value;

	if (!key)
		return ori_fail(ORIEL_ERR_CONFIG, "the software HCA has no setting '%.*s'",
				(int)(name < 80 ? name : 80), text);
	if (equal && length - name - 1 < sizeof(word))
		memcpy(word, equal + 1, length - name - 1);
	if (!scenario_value(key, word, &value) || value < key->least || value > key->most)
		return ori_fail(ORIEL_ERR_CONFIG,
				"the setting '%.*s' of the software HCA must be %s",
				(int)(length < 80 ? length : 80), text, scenario_may_be(key));
	*scenario_field(s, key) = value;
	return ORIEL_OK;
}

enum oriel_status ori_soft_scenario_parse(const char *text, struct soft_scenario *scenario)
{
	struct soft_scenario s;

	for (size_t i = 0; i < SCENARIO_KEYS; i++)
		*scenario_field(&s, &scenario_keys[i]) = scenario_keys[i].fallback;
	while (text && *text) {
		size_t length = strcspn(text, ",");
		enum oriel_status status = scenario_set(&s, text, length);

		if (status != ORIEL_OK)
			return status;
		text += length + (text[length] == ',');
	}
	if (s.mtu & (s.mtu - 1))
		return ori_fail(ORIEL_ERR_CONFIG, "mtu=%llu of the software HCA is no power of two",
				(unsigned long long)s.mtu);
	*scenario = s;
	return ORIEL_OK;
}
