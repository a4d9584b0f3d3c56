/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches ports against ORIEL_HCA, and counts bridges between PCI devices.
 * verbs.c calls it at open.
 */
#include "hca/verbs/verbs_pick.h"

#include <stdlib.h>
#include <string.h>

#define PICK_PORT_MAX 255ul

/* Does one entry, "name" or "name:port", of @length bytes match? */
static bool pick_matches(const char *entry, size_t length, bool is_whole, const char *device,
			 unsigned port)
{
	const char *colon = memchr(entry, ':', length);
	size_t name = colon ? (size_t)(colon - entry) : length;

	if (colon && strtoul(colon + 1, NULL, 10) != port)
		return false;
	if (is_whole && strlen(device) != name)
		return false;
	return strncmp(entry, device, name) == 0;
}

bool ori_verbs_is_meant(const char *filter, const char *device, unsigned port)
{
	bool is_others = *filter == '^', is_whole, is_listed = false;

	filter += is_others;
	is_whole = *filter == '=';
	filter += is_whole;
	if (!*filter)
		return true;
	while (*filter) {
		size_t length = strcspn(filter, ",");

		is_listed |= length > 0 && pick_matches(filter, length, is_whole, device, port);
		filter += length + (filter[length] == ',');
	}
	return is_listed != is_others;
}

static const char *pick_flaw(const char *entry, size_t length)
{
	const char *colon = memchr(entry, ':', length);
	size_t name = colon ? (size_t)(colon - entry) : length;
	char *end;

	if (name == 0)
		return "an entry without a name";
	if (!colon)
		return NULL;
	if (colon[1] < '0' || colon[1] > '9')
		return "a port that is no number";
	if (strtoul(colon + 1, &end, 10) > PICK_PORT_MAX || end != entry + length)
		return "a port that is no number up to 255";
	return NULL;
}

const char *ori_verbs_filter_flaw(const char *filter)
{
	const char *flaw = NULL;

	filter += *filter == '^';
	filter += *filter == '=';
	while (*filter && !flaw) {
		size_t length = strcspn(filter, ",");

		flaw = pick_flaw(filter, length);
		filter += length;
		if (*filter == ',' && !*++filter)
			return "a comma at its end";
	}
	return flaw;
}

/* Number of bytes of the whole components that both paths share. */
static size_t pick_common(const char *a, const char *b)
{
	size_t common = 0, i = 0;

	for (; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			common = i;
	if ((!a[i] || a[i] == '/') && (!b[i] || b[i] == '/'))
		common = i;
	return common;
}

static unsigned pick_components(const char *at)
{
	unsigned count = 0;

	for (; *at; at++)
		count += *at == '/' && at[1] && at[1] != '/';
	return count;
}

unsigned ori_verbs_distance(const char *a, const char *b)
{
	static const char root[] = "/sys/devices/pci";
	size_t common = pick_common(a, b);

	if (common <= strlen(root) || strncmp(a, root, strlen(root)) != 0)
		return ORI_VERBS_UNRELATED;
	return pick_components(a + common) + pick_components(b + common);
}
