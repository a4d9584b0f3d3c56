/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_comm_grow(): rank 0 awaits new ranks, then all meet as the ranks of a part do, and agree.
 * The communicator stays what it was, so that a grow that fails changes nothing. A public function
 * of oriel/comm.h.
 */
#include "comm/grow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tcp.h"
#include "comm/grow_host.h"
#include "comm/split.h"
#include "comm/survive.h"
#include "comm/watcher.h"

#define GROW_RESULT_NS UINT64_C(1000000000) /* at least, and after a failure, for the new ranks */

/* The call of a rank. Goes over the wire as it is. */
struct grow_wish {
	struct ori_verdict verdict;
	uint32_t count;
	uint32_t reserved;
};

struct grow_place {
	struct ori_verdict verdict;
	struct ori_part_offer offer;
	uint32_t extent; /* enum ori_part_extent */
	uint32_t reserved;
};

static_assert(sizeof(struct grow_wish) == 264, "struct grow_wish goes over the wire");
static_assert(sizeof(struct grow_place) == 328, "struct grow_place goes over the wire");
static_assert(sizeof(struct grow_place) <= ORI_RECORD_BYTES, "a place is a record");

struct grow {
	struct oriel_comm *comm;
	const struct oriel_comm_attr *attr; /* of the new communicator */
	unsigned count;                     /* of new ranks */
	struct ori_part_root root;
	struct grow_place place;
	uint64_t deadline; /* of the new ranks' results */
};

enum oriel_status ori_grow_settle(struct oriel_comm *comm, struct oriel_comm *made, unsigned first,
				  uint64_t epoch)
{
	unsigned rank;

	made->origin = malloc(made->size * sizeof(*made->origin));
	if (!made->origin)
		return ori_fail_nomem(made->size * sizeof(*made->origin), "%u ranks", made->size);
	for (rank = 0; rank < made->size; rank++)
		made->origin[rank] =
			comm && rank - first < comm->size ? rank - first : ORIEL_NO_RANK;
	made->epoch = epoch;
	return ORIEL_OK;
}

/* All ranks come to the same answer. */
static enum oriel_status grow_compare(const struct grow_wish *wishes, unsigned size)
{
	unsigned rank;

	for (rank = 1; rank < size; rank++)
		if (wishes[rank].count != wishes[0].count)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"oriel_comm_grow: rank 0 awaits %u new ranks, and rank %u "
					"%u",
					wishes[0].count, rank, wishes[rank].count);
	return ORIEL_OK;
}

/* The timeout and flags of the new communicator, which new ranks may take over. */
static enum oriel_status grow_read_attr(const struct grow *g, struct ori_grow_welcome *welcome)
{
	struct oriel_comm_attr attr;
	enum oriel_status status =
		ori_attr_read("oriel_comm_attr", g->attr ? g->attr : &g->comm->attr, &attr,
			      sizeof(attr));

	if (status != ORIEL_OK)
		return status;
	welcome->flags = attr.flags & ~(unsigned)ORIEL_COMM_GPU;
	welcome->timeout_ns = attr.timeout_ns;
	return attr.timeout_ns ? ORIEL_OK : ori_setting_timeout(&welcome->timeout_ns);
}

/* At rank 0: waits for the new ranks, and makes the place where all meet. */
static enum oriel_status grow_await(struct grow *g)
{
	struct oriel_comm *comm = g->comm;
	enum ori_part_extent extent;
	enum oriel_status status;

	status = ori_invite_await(comm, g->count, ori_deadline(ori_comm_half_timeout(comm)));
	if (status != ORIEL_OK)
		return status;
	extent = ori_invite_extent(comm, ori_split_extent(comm, NULL, comm->size));
	g->place.extent = extent;
	return ori_part_offer(extent, comm->size + g->count, &g->root, &g->place.offer);
}

static enum oriel_status grow_welcome(struct grow *g)
{
	struct ori_grow_welcome welcome = {.version = ORI_COMM_WIRE,
					   .size = g->comm->size + g->count,
					   .extent = g->place.extent,
					   .epoch = g->comm->epoch + 1,
					   .offer = g->place.offer};
	struct ori_key key = {0};
	enum oriel_status status = grow_read_attr(g, &welcome);

	if (status == ORIEL_OK)
		status = ori_comm_read_key(g->comm, &key);
	welcome.key_length = (uint32_t)key.length;
	memcpy(welcome.key, key.bytes, key.length);
	if (status == ORIEL_OK)
		ori_invite_welcome(g->comm, &welcome);
	explicit_bzero(&key, sizeof(key));
	explicit_bzero(&welcome, sizeof(welcome));
	return status;
}

/* Opens a descriptor that becomes readable where a rank of @comm, or a new one, is lost. */
static enum oriel_status grow_watch(struct grow *g, int *fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	enum oriel_status status;
	int broken;

	status = ori_watcher_broken_fd(g->comm, &broken);
	if (status != ORIEL_OK)
		return status;
	*fd = epoll_create1(EPOLL_CLOEXEC);
	if (*fd < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_create1");
	if (epoll_ctl(*fd, EPOLL_CTL_ADD, broken, &event) != 0)
		status = ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_ctl");
	if (status == ORIEL_OK && g->comm->rank == 0)
		status = ori_invite_watch(g->comm, *fd);
	if (status != ORIEL_OK)
		close(*fd);
	return status;
}

static enum oriel_status grow_meet(struct grow *g, struct oriel_comm **made)
{
	struct oriel_comm *comm = g->comm;
	int lost_fd;
	struct ori_part_join join = {.extent = (enum ori_part_extent)g->place.extent,
				     .offer = &g->place.offer,
				     .root = comm->rank ? NULL : &g->root,
				     .rank = comm->rank,
				     .size = comm->size + g->count,
				     .timeout_ns = ori_comm_answer_limit(comm),
				     .abort_fd = &lost_fd};
	struct oriel_bootstrap own;
	enum oriel_status status = grow_watch(g, &lost_fd);

	if (status != ORIEL_OK)
		return status;
	status = ori_comm_join_part(comm, &join, &own);
	close(lost_fd);
	if (status == ORIEL_OK)
		ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "has met those of a grow");
	if (status == ORIEL_OK)
		status = ori_comm_create_own(&own, g->attr ? g->attr : &comm->attr, made);
	/* Records of this thread are still about the rank that the old communicator has. */
	ori_log_set_rank(comm->rank);
	if (status == ORIEL_OK)
		status = ori_grow_settle(comm, *made, 0, comm->epoch + 1);
	return status;
}

/*
 * At rank 0, which has met the others with @status: how do the new ranks fare? Theirs is the cause,
 * if both have failed and this rank has only lost them.
 */
static enum oriel_status grow_results(struct grow *g, enum oriel_status status)
{
	uint64_t least = ori_deadline(GROW_RESULT_NS), boot, until;
	struct ori_error own;
	enum oriel_status theirs;

	if (status == ORIEL_OK) {
		/* All have met, so that one which says nothing does not run. */
		boot = ori_deadline(ori_comm_boot_limit(g->comm));
		until = g->deadline < boot ? g->deadline : boot;
		return ori_invite_results(g->comm, until > least ? until : least);
	}
	ori_error_save(&own);
	theirs = ori_invite_results(g->comm, least);
	if (theirs != ORIEL_OK && theirs != ORIEL_ERR_TIMEOUT &&
	    (status == ORIEL_ERR_PEER || status == ORIEL_ERR_TIMEOUT))
		return theirs;
	ori_error_restore(&own);
	return status;
}

/* All ranks of @comm, after the new ones have come. */
static enum oriel_status grow_make(struct grow *g, struct oriel_comm **made)
{
	struct oriel_comm *comm = g->comm;
	enum oriel_status status = ORIEL_OK;

	g->deadline = ori_deadline(ori_comm_half_timeout(comm));
	if (comm->rank == 0)
		status = grow_welcome(g);
	if (status == ORIEL_OK)
		status = grow_meet(g, made);
	if (comm->rank == 0)
		status = grow_results(g, status);
	status = ori_comm_agree_after(comm, ORI_CALL_COMM_GROW, status);
	if (status != ORIEL_OK && *made) {
		ori_comm_discard(*made);
		*made = NULL;
	}
	return status;
}

static enum oriel_status grow_run(struct grow *g, enum oriel_status status,
				  struct oriel_comm **made)
{
	struct oriel_comm *comm = g->comm;
	struct grow_wish mine = {.count = g->count}, *wishes;
	struct grow_place *places;

	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_GROW, status);
	wishes = ori_comm_scratch(comm, sizeof(mine));
	status = ori_verdict_gather(comm, ORI_CALL_COMM_GROW, &mine, wishes, sizeof(mine));
	if (status == ORIEL_OK)
		status = grow_compare(wishes, comm->size);
	if (status != ORIEL_OK)
		return status;
	if (comm->rank == 0)
		status = grow_await(g);
	ori_verdict_fill(&g->place.verdict, ORI_CALL_COMM_GROW, status);
	places = ori_comm_scratch(comm, sizeof(*places));
	status = ori_verdict_gather(comm, ORI_CALL_COMM_GROW, &g->place, places, sizeof(*places));
	if (status != ORIEL_OK)
		return status;
	g->place = places[0];
	return grow_make(g, made);
}

static enum oriel_status grow_check(const struct oriel_comm *comm, unsigned count,
				    struct oriel_comm **grown)
{
	if (!grown)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_grow: grown is NULL");
	if (count == 0 || count > ORI_TCP_RANKS_MAX - comm->size)
		return ori_fail(ORIEL_ERR_RANGE, "oriel_comm_grow: %u new ranks to %u", count,
				comm->size);
	if (comm->rank == 0 && !comm->invite)
		return ori_fail(ORIEL_ERR_STATE, "oriel_comm_grow: rank 0 has made no invitation "
						 "(oriel_comm_invite)");
	return ORIEL_OK;
}

enum oriel_status oriel_comm_grow(struct oriel_comm *comm, unsigned count,
				  const struct oriel_comm_attr *attr, struct oriel_comm **grown)
{
	struct grow g = {.comm = comm, .attr = attr, .count = count, .root.listen_fd = -1};
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_comm *made = NULL;

	if (status != ORIEL_OK)
		return status;
	status = grow_run(&g, grow_check(comm, count, grown), &made);
	ori_part_close(&g.root);
	if (comm->invite)
		ori_invite_end(comm, status);
	if (status != ORIEL_OK)
		return status;
	assert(made);
	ori_invite_close(comm);
	ori_survive_pass(comm, made);
	ori_log_rank(ORIEL_LOG_INFO, comm->rank,
		     "is rank %u of the %u of epoch %" PRIu64 ", of which %u are new", made->rank,
		     made->size, made->epoch, count);
	*grown = made;
	return status;
}
