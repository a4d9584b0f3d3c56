/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which handles are alive, so that a handle destroyed twice is an error with a
 * text and not a crash. For destroy and the like, not for hot paths. Any thread.
 */
#ifndef ORI_BASE_LIVE_H
#define ORI_BASE_LIVE_H

#include <stdbool.h>

#include <oriel/status.h>

struct ori_live {
	struct ori_live *next;
	const void *handle;
	const void *parent;
	const char *noun; /* "window" */
};

/*
 * @entry lies in the object that @handle points to and leaves with it. @parent is the
 * handle that must outlive it, NULL if none does.
 */
void ori_live_add(struct ori_live *entry, const void *handle, const void *parent, const char *noun);

/* Is @handle alive? False, and the reason with the name of the @call, if no @noun is there. */
bool ori_live_check(const void *handle, const char *noun, const char *call);

/*
 * Take @handle out; false, and the reason behind oriel_last_error(), if no
 * @noun of that address is alive.
 */
bool ori_live_remove(const void *handle, const char *noun);

/* The noun of the youngest that is alive and borrows @parent, NULL if none does. */
const char *ori_live_child(const void *parent);

#endif
