/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_comm_split(): communicators of some ranks of another one. Two gathers of the whole
 * communicator make the parts and send each the place where its ranks meet; from then on a part is
 * a communicator as any other, with a bootstrap of its own. A public function of oriel/comm.h.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/part.h"
#include "bootstrap/tcp.h"
#include "comm/comm.h"
#include "comm/exchange.h"
#include "comm/split.h"
#include "comm/watcher.h"
#include "topo/classify.h"

/* The wish of a rank. Goes over the wire as it is. */
struct split_wish {
	struct ori_verdict verdict;
	uint32_t colour;
	uint32_t domain; /* ORIEL_SPLIT_DOMAIN: the lowest rank of its domain; else 0 */
	int32_t key;
	uint32_t reserved;
};

static_assert(sizeof(struct split_wish) == 272, "struct split_wish goes over the wire");

struct split_place {
	struct ori_verdict verdict;
	struct ori_part_offer offer;
};

static_assert(sizeof(struct split_place) == 320, "struct split_place goes over the wire");
static_assert(sizeof(struct split_place) <= ORI_RECORD_BYTES &&
		      sizeof(struct split_wish) <= ORI_RECORD_BYTES,
	      "wishes and places are records");

/* A part as its ranks see it. */
struct split_part {
	uint32_t *origin; /* [size]: its ranks in the communicator that is split */
	unsigned rank, size;
	enum ori_part_extent extent;
};

static bool split_is_in(const struct split_wish *a, const struct split_wish *b)
{
	return a->colour == b->colour && a->domain == b->domain;
}

/* Does rank @a of the communicator come before @b in their part? */
static bool split_is_before(const struct split_wish *wishes, unsigned a, unsigned b)
{
	return wishes[a].key != wishes[b].key ? wishes[a].key < wishes[b].key : a < b;
}

enum ori_part_extent ori_split_extent(const struct oriel_comm *comm, const uint32_t *ranks,
				      unsigned count)
{
	const struct ori_host *first = &comm->hosts[ranks ? ranks[0] : 0];
	enum ori_part_extent extent = ORI_PART_PROCESS;
	unsigned i;

	for (i = 1; i < count; i++) {
		const struct ori_host *host = &comm->hosts[ranks ? ranks[i] : i];

		if (!ori_hosts_share_sockets(host, first))
			return ORI_PART_NETWORK;
		if (host->token != first->token)
			extent = ORI_PART_MACHINE;
	}
	return extent;
}

static const char *split_extent_text(enum ori_part_extent extent)
{
	switch (extent) {
	case ORI_PART_PROCESS:
		return "in its process";
	case ORI_PART_MACHINE:
		return "by loopback";
	case ORI_PART_NETWORK:
		break;
	}
	return "by TCP";
}

/* The part of this rank, by the wishes of all; @part->origin has room for all ranks. */
static void split_find(const struct oriel_comm *comm, const struct split_wish *wishes,
		       struct split_part *part)
{
	const struct split_wish *own = &wishes[comm->rank];
	unsigned rank, at;

	for (rank = 0; rank < comm->size; rank++) {
		if (!split_is_in(&wishes[rank], own))
			continue;
		for (at = part->size; at && split_is_before(wishes, rank, part->origin[at - 1]);
		     at--)
			part->origin[at] = part->origin[at - 1];
		part->origin[at] = rank;
		part->size++;
	}
	for (at = 0; part->origin[at] != comm->rank; at++)
		;
	part->rank = at;
	part->extent = ori_split_extent(comm, part->origin, part->size);
}

enum oriel_status ori_comm_join_part(const struct oriel_comm *comm, struct ori_part_join *join,
				     struct oriel_bootstrap *own)
{
	struct ori_key key = {0};
	enum oriel_status status = ORIEL_OK;

	if (join->extent != ORI_PART_PROCESS)
		status = ori_comm_read_key(comm, &key);
	join->key = &key;
	if (status == ORIEL_OK)
		status = ori_part_open(join, own);
	explicit_bzero(&key, sizeof(key));
	join->key = NULL;
	return status;
}

/*
 * A part fails alone, and its ranks at about the same time, but all ranks of @comm wait for it. A
 * rank that is lost, or does not run, breaks @comm first, and ends the waits of the part.
 */
static enum oriel_status split_open(struct oriel_comm *comm, const struct oriel_comm_attr *attr,
				    const struct split_part *part,
				    const struct ori_part_offer *offer, struct ori_part_root *root,
				    struct oriel_comm **made)
{
	struct oriel_bootstrap own;
	int broken;
	struct ori_part_join join = {.extent = part->extent,
				     .offer = offer,
				     .root = part->rank ? NULL : root,
				     .rank = part->rank,
				     .size = part->size,
				     .timeout_ns = ori_comm_half_timeout(comm),
				     .abort_fd = &broken};
	enum oriel_status status = ori_watcher_broken_fd(comm, &broken);

	if (status == ORIEL_OK)
		status = ori_comm_join_part(comm, &join, &own);
	if (status != ORIEL_OK)
		return status;
	if (ori_tcp_is_own(&own))
		ori_tcp_abort_by(&own, &broken);
	status = ori_comm_create_own(&own, attr ? attr : &comm->attr, made);
	if (status == ORIEL_OK && ori_tcp_is_own(&(*made)->bootstrap))
		ori_tcp_abort_by(&(*made)->bootstrap, NULL);
	return status;
}

/* Sends the ranks of each part the place where they meet, and makes the part there. */
static enum oriel_status split_make(struct oriel_comm *comm, const struct oriel_comm_attr *attr,
				    const struct split_part *part, struct oriel_comm **made)
{
	struct split_place mine = {0}, *places = ori_comm_scratch(comm, sizeof(mine));
	struct ori_part_root root = {.listen_fd = -1};
	struct ori_part_offer offer;
	enum oriel_status status = ORIEL_OK;

	if (part->size && part->rank == 0)
		status = ori_part_offer(part->extent, part->size, &root, &mine.offer);
	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_SPLIT, status);
	status = ori_verdict_gather(comm, ORI_CALL_COMM_SPLIT, &mine, places, sizeof(mine));
	if (status != ORIEL_OK) {
		ori_part_close(&root);
		return status;
	}
	if (part->size) {
		offer = places[part->origin[0]].offer;
		status = split_open(comm, attr, part, &offer, &root, made);
	}
	status = ori_comm_agree_after(comm, ORI_CALL_COMM_SPLIT, status);
	ori_part_close(&root);
	if (status != ORIEL_OK && *made) {
		ori_comm_discard(*made);
		*made = NULL;
	}
	return status;
}

static enum oriel_status split_check(uint32_t colour, struct oriel_comm **part)
{
	if (part)
		*part = NULL;
	if (!part && colour != ORIEL_SPLIT_NONE)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_split: part is NULL, and colour is "
						   "not ORIEL_SPLIT_NONE");
	return ORIEL_OK;
}

enum oriel_status oriel_comm_split(struct oriel_comm *comm, uint32_t colour, int key,
				   const struct oriel_comm_attr *attr, struct oriel_comm **part)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct split_wish mine = {.colour = colour, .key = key}, *wishes;
	struct split_part own = {0};
	struct oriel_comm *made = NULL;

	if (status != ORIEL_OK)
		return status;
	if (colour == ORIEL_SPLIT_DOMAIN)
		mine.domain = comm->host_paths.domain[0];
	status = split_check(colour, part);
	own.origin = calloc(comm->size, sizeof(*own.origin));
	if (status == ORIEL_OK && !own.origin)
		status = ori_fail_nomem(comm->size * sizeof(*own.origin), "a split of %u ranks",
					comm->size);
	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_SPLIT, status);
	wishes = ori_comm_scratch(comm, sizeof(mine));
	status = ori_verdict_gather(comm, ORI_CALL_COMM_SPLIT, &mine, wishes, sizeof(mine));
	if (status != ORIEL_OK)
		goto out;
	assert(own.origin);
	if (colour != ORIEL_SPLIT_NONE)
		split_find(comm, wishes, &own);
	status = split_make(comm, attr, &own, &made);
	/* Records of this thread are still about the rank that the whole knows. */
	ori_log_set_rank(comm->rank);
	if (status == ORIEL_OK && made) {
		ori_log_rank(ORIEL_LOG_INFO, comm->rank,
			     "is rank %u of %u in the part of colour %" PRIu32 ", which meets %s",
			     own.rank, own.size, colour, split_extent_text(own.extent));
		made->origin = own.origin;
		own.origin = NULL;
		*part = made;
	}
out:
	free(own.origin);
	return status;
}
