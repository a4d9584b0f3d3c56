/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first host of a list of Slurm. The grammar is that of its manual
 * (https://slurm.schedmd.com/scontrol.html, "show hostnames"): hosts separated by commas, each with
 * any number of brackets, which hold numbers and ranges of numbers; leading zeros count. The first
 * host has the first number of each bracket. launch_slurm.c calls it.
 */
#include "bootstrap/hostlist.h"

#include <string.h>

#define HOSTLIST_DIGITS "0123456789"

static bool hostlist_add(const char *text, size_t length, char *host, size_t size, size_t *at)
{
	if (length >= size - *at)
		return false;
	memcpy(host + *at, text, length);
	*at += length;
	return true;
}

/*
 * Parse "01-03,7]" at *@list, and move it behind the bracket. The first number is *@length digits
 * at the old *@list.
 */
static bool hostlist_numbers(const char **list, size_t *length)
{
	const char *p = *list;

	*length = strspn(p, HOSTLIST_DIGITS);
	for (;; p++) {
		size_t digits = strspn(p, HOSTLIST_DIGITS);

		p += digits;
		if (digits && *p == '-') {
			digits = strspn(p + 1, HOSTLIST_DIGITS);
			p += 1 + digits;
		}
		if (!digits)
			return false;
		if (*p != ',')
			break;
	}
	*list = p + 1;
	return *p == ']';
}

bool ori_hostlist_first(const char *list, char *host, size_t size)
{
	size_t at = 0, length;

	while (*list && *list != ',') {
		const char *part = list;

		if (*list == '[') {
			list++;
			part++;
			if (!hostlist_numbers(&list, &length))
				return false;
		} else {
			length = strcspn(list, "[,] \t");
			list += length;
			if (length == 0)
				return false;
		}
		if (!hostlist_add(part, length, host, size, &at))
			return false;
	}
	host[at] = '\0';
	return at > 0;
}
