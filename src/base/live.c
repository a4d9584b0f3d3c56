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

bool ori_live_remove(const void *handle, const char *noun)
{
	struct ori_live **link;
	bool found = false;

	pthread_mutex_lock(&live_lock);
	for (link = &live_first; *link; link = &(*link)->next) {
		if ((*link)->handle == handle && strcmp((*link)->noun, noun) == 0) {
			*link = (*link)->next;
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&live_lock);
	if (!found)
		ori_fail(ORIEL_ERR_STATE, "%p is not a live %s: destroyed twice?", handle, noun);
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
