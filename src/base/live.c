/* SPDX-License-Identifier: Apache-2.0 */
#include "base/live.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ori_live *live_first; /* guarded by live_lock */

void ori_live_add(struct ori_live *entry, const void *handle, const void *parent, const char *noun)
{
	entry->handle = handle;
	entry->parent = parent;
	entry->noun = noun;
	pthread_mutex_lock(&live_lock);
	entry->next = live_first;
	live_first = entry;
	pthread_mutex_unlock(&live_lock);
}

/* Where the entry is linked; at the end a link to none. */
static struct ori_live **live_find_locked(const void *handle, const char *noun)
{
	struct ori_live **link = &live_first;

	while (*link && !((*link)->handle == handle && strcmp((*link)->noun, noun) == 0))
		link = &(*link)->next;
	return link;
}

bool ori_live_check(const void *handle, const char *noun, const char *call)
{
	bool found;

	pthread_mutex_lock(&live_lock);
	found = *live_find_locked(handle, noun) != NULL;
	pthread_mutex_unlock(&live_lock);
	if (!found)
		ori_fail(ORIEL_ERR_STATE, "%s: %p is not a live %s", call, handle, noun);
	return found;
}

bool ori_live_remove(const void *handle, const char *noun)
{
	struct ori_live **link;
	bool found;

	pthread_mutex_lock(&live_lock);
	link = live_find_locked(handle, noun);
	found = *link != NULL;
	if (found)
		*link = (*link)->next;
	pthread_mutex_unlock(&live_lock);
	if (!found)
		ori_misuse("%p is not a live %s: destroyed twice?", handle, noun);
	return found;
}

const char *ori_live_child(const void *parent)
{
	const struct ori_live *entry;
	const char *noun = NULL;

	pthread_mutex_lock(&live_lock);
	for (entry = live_first; entry && !noun; entry = entry->next)
		if (entry->parent == parent)
			noun = entry->noun;
	pthread_mutex_unlock(&live_lock);
	return noun;
}
