/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the list of --hosts; run.c calls it. */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define TARGETS_NAME 255 /* characters of a host name, RFC 1035 */

__attribute__((format(printf, 3, 4))) static bool targets_refuse(char *why, size_t room,
								 const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, room, format, arguments);
	va_end(arguments);
	return false;
}

/* ssh must not take it for an option, nor a shell for anything but a word. */
static bool targets_is_name(const char *name, size_t length, const char *also)
{
	size_t i;

	if (length == 0 || length > TARGETS_NAME || name[0] == '-')
		return false;
	for (i = 0; i < length; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr(also, name[i]))
			return false;
	return true;
}

/* Parse the ":RANKS" of a host, up to @end, or nothing. */
static bool targets_ranks(const char *at, const char *end, unsigned *ranks)
{
	char *stop;
	unsigned long value;

	*ranks = 1;
	if (at == end)
		return true;
	if (*at != ':' || end - at < 2 || end - at > 6 || !isdigit((unsigned char)at[1]))
		return false;
	value = strtoul(at + 1, &stop, 10);
	*ranks = (unsigned)value;
	return stop == end && value > 0 && value <= RUN_MAX_RANKS;
}

/* Parse one entry, [@at, @end). False: it is none. */
static bool targets_entry(const char *at, const char *end, struct run_target *target)
{
	const char *host = memrchr(at, '@', (size_t)(end - at));
	const char *name, *stop;
	size_t user = 0;

	if (host) {
		user = (size_t)(host - at) + 1;
		if (!targets_is_name(at, user - 1, "._-\\+"))
			return false;
	}
	name = at + user;
	if (name < end && *name == '[') {
		name++;
		stop = memchr(name, ']', (size_t)(end - name));
		if (!stop || !targets_is_name(name, (size_t)(stop - name), ":.%_-") ||
		    !targets_ranks(stop + 1, end, &target->ranks))
			return false;
	} else {
		stop = memchr(name, ':', (size_t)(end - name));
		if (!stop)
			stop = end;
		if (!targets_is_name(name, (size_t)(stop - name), "._-") ||
		    !targets_ranks(stop, end, &target->ranks))
			return false;
	}
	if (asprintf(&target->name, "%.*s%.*s", (int)user, at, (int)(stop - name), name) < 0)
		target->name = NULL;
	target->address = target->name ? target->name + user : NULL;
	return target->name != NULL;
}

/* A host in two entries would number two ranks there LOCAL_RANK 0. */
static const char *targets_find_twin(const struct run_options *options)
{
	unsigned i, j;

	for (i = 0; i < options->target_count; i++)
		for (j = 0; j < i; j++) {
			assert(options->targets[i].address && options->targets[j].address);
			if (strcmp(options->targets[i].address, options->targets[j].address) == 0)
				return options->targets[i].address;
		}
	return NULL;
}

bool run_targets_parse(const char *text, struct run_options *options, char *why, size_t room)
{
	size_t count = 1;
	const char *at, *end;

	for (at = text; *at; at++)
		count += *at == ',';
	options->targets = calloc(count, sizeof(*options->targets));
	if (!options->targets)
		return targets_refuse(why, room, "no memory for %zu hosts", count);
	options->ranks = 0;
	for (at = text; options->target_count < count; at = end + 1) {
		struct run_target *target = &options->targets[options->target_count];

		end = strchrnul(at, ',');
		if (!targets_entry(at, end, target))
			return targets_refuse(why, room,
					      "--hosts has '%.*s', but takes HOST[:RANKS], "
					      "separated by commas; HOST is a name, USER@HOST or "
					      "[IPv6], RANKS 1 to %d",
					      (int)(end - at), at, RUN_MAX_RANKS);
		options->target_count++;
		options->ranks += target->ranks;
		if (options->ranks > RUN_MAX_RANKS)
			return targets_refuse(why, room, "--hosts has more than %d ranks",
					      RUN_MAX_RANKS);
	}
	at = targets_find_twin(options);
	if (at)
		return targets_refuse(why, room,
				      "--hosts has %s twice; %s:2 starts two ranks there", at, at);
	return true;
}

void run_targets_free(struct run_options *options)
{
	unsigned i;

	for (i = 0; i < options->target_count; i++)
		free(options->targets[i].name);
	free(options->targets);
	options->targets = NULL;
	options->target_count = 0;
}
