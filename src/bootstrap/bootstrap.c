/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that all bootstraps share: oriel_bootstrap_close(), and the lists of ranks in error
 * texts.
 */
#include <oriel/bootstrap.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/handle.h"
#include "bootstrap/parent.h"
#include "bootstrap/ranks.h"

enum oriel_status oriel_bootstrap_close(struct oriel_bootstrap *bootstrap)
{
	const char *child;

	if (!bootstrap || !bootstrap->ops)
		return ORIEL_OK;
	/* A communicator would go on with a context that is freed. */
	child = ori_handle_child(ori_bootstrap_parent(bootstrap));
	if (child)
		return ori_misuse("oriel_bootstrap_close: rank %u still has its %s: destroy that "
				  "first; the bootstrap stays open",
				  bootstrap->rank, child);
	bootstrap->ops->close(bootstrap->context);
	memset(bootstrap, 0, sizeof(*bootstrap));
	return ORIEL_OK;
}

void ori_ranks_add(struct ori_ranks *ranks, unsigned rank)
{
	if (ranks->count < ORI_RANKS_NAMED)
		ranks->first[ranks->count] = rank;
	ranks->count++;
}

const char *ori_ranks_text(const struct ori_ranks *ranks, unsigned size,
			   char text[ORI_RANKS_LENGTH])
{
	unsigned named = ranks->count < ORI_RANKS_NAMED ? ranks->count : ORI_RANKS_NAMED;
	int used = snprintf(text, ORI_RANKS_LENGTH, "%s", ranks->count == 1 ? "rank" : "ranks");
	unsigned i;

	for (i = 0; i < named; i++)
		used += snprintf(text + used, ORI_RANKS_LENGTH - (size_t)used, "%s %u",
				 i ? "," : "", ranks->first[i]);
	if (ranks->count > named)
		used += snprintf(text + used, ORI_RANKS_LENGTH - (size_t)used, " and %u more",
				 ranks->count - named);
	snprintf(text + used, ORI_RANKS_LENGTH - (size_t)used, " of %u", size);
	return text;
}
