/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that have arrived, and that stay invisible until they are flushed. */
#include <stdlib.h>
#include <string.h>

#include "fake_objects.h"

struct fake_held {
	struct fake_held *next;
	char *to;
	size_t length;
	char data[];
};

/* Guarded by fake_lock. */
static struct fake_held *first, **last = &first;
static bool is_holding;

void fake_release_held(void)
{
	while (first) {
		struct fake_held *held = first;

		memcpy(held->to, held->data, held->length);
		first = held->next;
		free(held);
	}
	last = &first;
}

bool fake_hold_write(char *to, const void *from, size_t length)
{
	struct fake_held *held;

	if (!is_holding || !fake_is_dmabuf(to))
		return false;
	held = malloc(sizeof(*held) + length);
	if (!held)
		abort();
	held->next = NULL;
	held->to = to;
	held->length = length;
	memcpy(held->data, from, length);
	*last = held;
	last = &held->next;
	return true;
}

void fake_flush(void)
{
	pthread_mutex_lock(&fake_lock);
	fake_release_held();
	pthread_mutex_unlock(&fake_lock);
}

void fake_hold(bool holds)
{
	pthread_mutex_lock(&fake_lock);
	if (!holds)
		fake_release_held();
	is_holding = holds;
	pthread_mutex_unlock(&fake_lock);
}
