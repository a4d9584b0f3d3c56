/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_comm_shrink(): a communicator of the ranks that are left. Each of them lets go of all that
 * the old one had, so that no request of anyone reaches its memory; then they agree on the group,
 * kill suspects that map their memory, meet, and agree on the result. A loss on the way begins the
 * next round. A public function of oriel/comm.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/split.h"
#include "comm/vote.h"

#define SHRINK_MEET_NS UINT64_C(30000000000) /* all ranks have just answered */

struct shrink {
	struct oriel_comm *comm;
	const struct oriel_comm_attr *attr; /* of the new communicator */
	struct ori_vote *vote;
	struct ori_part_root root;
	struct ori_vote_value group; /* the decision of this round */
	uint32_t *ranks;             /* of the group, [count] */
	unsigned count;
	bool is_out; /* this rank takes part no more */
};

static void shrink_refuse(struct ori_vote_value *value, enum oriel_status status)
{
	value->status = status;
	strncpy(value->text, oriel_last_error(), sizeof(value->text) - 1);
}

/* The ranks that are not lost. */
static void shrink_list(struct shrink *s, const struct ori_vote_value *value)
{
	unsigned rank;

	s->count = 0;
	for (rank = 0; rank < s->comm->size; rank++)
		if (!ori_vote_has(value->lost, rank))
			s->ranks[s->count++] = rank;
}

/*
 * Where two groups lost sight of each other at most one goes on: the one with more ranks than it
 * suspects, or with as many and the lowest of all that may be alive.
 */
static bool shrink_is_majority(const struct shrink *s, const struct ori_vote_value *value,
			       unsigned *suspects)
{
	unsigned rank, lowest = s->comm->size;

	*suspects = 0;
	for (rank = 0; rank < s->comm->size; rank++) {
		if (ori_vote_has(value->lost, rank) && !ori_vote_has(value->suspect, rank))
			continue;
		*suspects += ori_vote_has(value->suspect, rank);
		if (lowest == s->comm->size)
			lowest = rank;
	}
	return s->count > *suspects || (s->count == *suspects && lowest == s->ranks[0]);
}

/* A rank of the group that maps memory with @suspect; comm->size: none does, so QPs were all. */
static unsigned shrink_mapper(const struct shrink *s, unsigned suspect)
{
	unsigned i;

	for (i = 0; i < s->count; i++)
		if (ori_survive_maps(s->comm, s->ranks[i], suspect))
			return s->ranks[i];
	return s->comm->size;
}

/* May the group remove @suspect? Its process maps memory of @mapper. */
static enum oriel_status shrink_may_remove(const struct shrink *s, unsigned suspect,
					   unsigned mapper)
{
	const struct ori_host *host = &s->comm->hosts[suspect];
	unsigned i;

	for (i = 0; i < s->count; i++)
		if (s->comm->hosts[s->ranks[i]].token == host->token)
			return ori_fail(ORIEL_ERR_STATE,
					"rank %u does not come, and is a thread of the process of "
					"rank %u: it cannot be removed",
					suspect, s->ranks[i]);
	if (!(s->comm->attr.flags & ORIEL_COMM_KILL_SUSPECTS))
		return ori_fail(ORIEL_ERR_STATE,
				"rank %u does not answer, but may still write to memory of rank "
				"%u, which it maps: kill process %u on %s, or create the "
				"communicator with ORIEL_COMM_KILL_SUSPECTS",
				suspect, mapper, host->pid, host->hostname);
	for (i = 0; i < s->count; i++)
		if (ori_survive_may_kill(s->comm, s->ranks[i], suspect))
			return ORIEL_OK;
	return ori_fail(ORIEL_ERR_STATE,
			"rank %u does not answer, but may still write to memory of rank %u, which "
			"it maps, and no rank is left on its machine to kill it: kill process %u "
			"on %s",
			suspect, mapper, host->pid, host->hostname);
}

/* At the leader: may this group be the new communicator, and where does it meet? */
static void shrink_choose_group(void *context, struct ori_vote_value *value)
{
	struct shrink *s = context;
	enum oriel_status status = ORIEL_OK;
	unsigned rank, mapper, suspects;

	shrink_list(s, value);
	if (value->status != ORIEL_OK)
		return;
	if (!shrink_is_majority(s, value, &suspects)) {
		for (rank = 0; !ori_vote_has(value->suspect, rank); rank++)
			;
		status = ori_fail(ORIEL_ERR_STATE,
				  "%u ranks do not answer, rank %u among them, and may go on "
				  "without the %u that are here: more than half of those that are "
				  "not known to be dead are needed",
				  suspects, rank, s->count);
	}
	for (rank = 0; rank < s->comm->size && status == ORIEL_OK; rank++) {
		if (!ori_vote_has(value->suspect, rank))
			continue;
		mapper = shrink_mapper(s, rank);
		if (mapper < s->comm->size)
			status = shrink_may_remove(s, rank, mapper);
	}
	if (status == ORIEL_OK) {
		ori_part_close(&s->root);
		status = ori_part_offer(ori_split_extent(s->comm, s->ranks, s->count), s->count,
					&s->root, &value->offer);
	}
	if (status != ORIEL_OK)
		shrink_refuse(value, status);
}

/* At the leader: has the group lost a rank since it was agreed on? */
static void shrink_choose_result(void *context, struct ori_vote_value *value)
{
	const struct shrink *s = context;

	if (memcmp(value->lost, s->group.lost, sizeof(value->lost)) != 0)
		value->status = ORIEL_AGAIN;
}

/* Kills the suspects on this machine that map memory of the group. */
static enum oriel_status shrink_kill(const struct shrink *s)
{
	enum oriel_status status = ORIEL_OK;
	unsigned rank;

	for (rank = 0; rank < s->comm->size && status == ORIEL_OK; rank++)
		if (ori_vote_has(s->group.suspect, rank) &&
		    shrink_mapper(s, rank) < s->comm->size &&
		    ori_survive_may_kill(s->comm, s->comm->rank, rank))
			status = ori_survive_kill(s->comm, rank);
	return status;
}

static enum oriel_status shrink_meet(struct shrink *s, struct oriel_comm **made)
{
	struct oriel_comm *comm = s->comm;
	uint64_t limit = ori_comm_answer_limit(comm);
	struct ori_part_join join = {.extent = ori_split_extent(comm, s->ranks, s->count),
				     .offer = &s->group.offer,
				     .size = s->count,
				     .timeout_ns = limit < SHRINK_MEET_NS ? limit : SHRINK_MEET_NS};
	struct oriel_bootstrap own;
	enum oriel_status status;
	unsigned i;
	int lost_fd;

	while (s->ranks[join.rank] != comm->rank)
		join.rank++;
	join.root = join.rank ? NULL : &s->root;
	/* It was lost after the value had been proposed: the next round has another group. */
	for (i = 0; i < s->count; i++)
		if (!ori_vote_is_here(s->vote, s->ranks[i]))
			return ori_fail(ORIEL_ERR_PEER,
					"rank %u, which was to meet the others, is lost",
					s->ranks[i]);
	status = ori_vote_watch(s->vote, &lost_fd);
	if (status != ORIEL_OK)
		return status;
	join.abort_fd = &lost_fd;
	status = ori_comm_join_part(comm, &join, &own);
	close(lost_fd);
	if (status == ORIEL_OK)
		status = ori_comm_create_own(&own, s->attr ? s->attr : &comm->attr, made);
	/* Records of this thread are still about the rank that the old communicator has. */
	ori_log_set_rank(comm->rank);
	return status;
}

/* One step of a round: brings @status, returns what all have agreed on. */
static enum oriel_status shrink_agree(struct shrink *s, enum oriel_status status,
				      ori_vote_choose *choose, struct ori_vote_value *value)
{
	/* The others get the text: it says whose it is. */
	if (status != ORIEL_OK)
		status = ori_fail(status, "rank %u: %s", s->comm->rank, oriel_last_error());
	status = ori_vote_agree(s->vote, status, choose, s, value);
	s->is_out |= status != ORIEL_OK;
	ori_error_clean(value->text, sizeof(value->text));
	if (status == ORIEL_OK && value->status != ORIEL_OK && value->status != ORIEL_AGAIN)
		status = ori_fail((enum oriel_status)value->status, "%s", value->text);
	return status == ORIEL_OK ? (enum oriel_status)value->status : status;
}

/* ORIEL_AGAIN: a rank was lost on the way. */
static enum oriel_status shrink_round(struct shrink *s, struct oriel_comm **made)
{
	enum oriel_status status = shrink_agree(s, ORIEL_OK, shrink_choose_group, &s->group);
	struct ori_vote_value value;

	if (status != ORIEL_OK)
		return status;
	shrink_list(s, &s->group);
	status = shrink_agree(s, shrink_kill(s), shrink_choose_result, &value);
	if (status != ORIEL_OK)
		return status;
	status = shrink_agree(s, shrink_meet(s, made), shrink_choose_result, &value);
	if (status != ORIEL_OK && *made) {
		ori_comm_discard(*made);
		*made = NULL;
	}
	return status;
}

/* Was a rank removed that may still run? Those that map memory of the group were killed. */
static bool shrink_has_fenced(const struct shrink *s)
{
	unsigned rank;

	for (rank = 0; rank < s->comm->size; rank++)
		if (ori_vote_has(s->group.suspect, rank) && shrink_mapper(s, rank) == s->comm->size)
			return true;
	return false;
}

static enum oriel_status shrink_run(struct shrink *s, struct oriel_comm **made)
{
	enum oriel_status status;

	s->ranks = calloc(s->comm->size, sizeof(*s->ranks));
	if (!s->ranks)
		return ori_fail_nomem(s->comm->size * sizeof(*s->ranks),
				      "the survivors of %u ranks", s->comm->size);
	status = ori_vote_open(s->comm, &s->vote);
	while (status == ORIEL_OK || status == ORIEL_AGAIN) {
		status = shrink_round(s, made);
		ori_part_close(&s->root);
		if (status == ORIEL_OK)
			break;
	}
	if (!s->is_out && s->vote)
		ori_vote_part(s->vote, status);
	if (status == ORIEL_OK) {
		assert(*made);
		ori_log_rank(ORIEL_LOG_INFO, s->comm->rank,
			     "is rank %u of the %u that are left of %u", (*made)->rank, s->count,
			     s->comm->size);
		(*made)->epoch = s->comm->epoch + 1;
	}
	return status;
}

static enum oriel_status shrink_check(struct oriel_comm *comm, struct oriel_comm **survivors)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, "oriel_comm_shrink");

	if (status != ORIEL_OK)
		return status;
	if (!survivors)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_shrink: survivors is NULL");
	if (!(comm->attr.flags & ORIEL_COMM_SHRINK))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"oriel_comm_shrink: create the communicator with "
				"ORIEL_COMM_SHRINK");
	if (!comm->survive)
		return ori_fail(ORIEL_ERR_STATE,
				"oriel_comm_shrink: rank %u has left this "
				"communicator already, or was removed from it",
				comm->rank);
	return ORIEL_OK;
}

enum oriel_status oriel_comm_shrink(struct oriel_comm *comm, const struct oriel_comm_attr *attr,
				    struct oriel_comm **survivors)
{
	struct shrink s = {.comm = comm, .attr = attr, .root.listen_fd = -1};
	enum oriel_status status = shrink_check(comm, survivors);
	struct oriel_comm *made = NULL;

	if (status == ORIEL_OK)
		status = ori_comm_let_go(comm);
	if (status != ORIEL_OK)
		return status;
	status = shrink_run(&s, &made);
	/*
	 * After a failure that all have agreed on they may try again. A rank that is out for
	 * another reason has let go of all memory: the others find that it does not listen.
	 */
	if (!s.is_out)
		memcpy(comm->survive->suspects, s.group.suspect, sizeof(s.group.suspect));
	ori_vote_close(s.vote);
	if (s.is_out)
		ori_survive_close(comm);
	if (status == ORIEL_OK) {
		ori_survive_bury(comm, made, shrink_has_fenced(&s));
		made->origin = s.ranks;
		*survivors = made;
	} else {
		free(s.ranks);
	}
	return status;
}
