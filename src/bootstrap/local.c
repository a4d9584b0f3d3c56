/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap for ranks that are threads of one process: a job is a mutex and the state that
 * it guards. Tests, benchmarks and programs with a thread for each GPU call it.
 */
#include <oriel/bootstrap.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/handle.h"
#include "base/late.h"
#include "base/log.h"
#include "bootstrap/local.h"
#include "bootstrap/ranks.h"

#define LOCAL_TEXT 512

struct local_message {
	struct local_message *next;
	unsigned source;
	uint32_t tag;
	size_t length;
	unsigned char data[];
};

/* One collective; freed by the last rank that reads its result. */
struct local_round {
	size_t length;
	unsigned first; /* the rank that set @length */
	unsigned arrived, readers;
	bool is_done;
	unsigned char *is_here; /* one per rank, behind the data */
	unsigned char data[];
};

struct local_member {
	struct oriel_local_job *job;
	unsigned rank;
	bool is_open, has_left;
	pthread_cond_t message_arrived;
	struct local_message *inbox, **inbox_end;
};

/* The lock guards all fields but size and number, and not the data of a round that is done. */
struct oriel_local_job {
	uint64_t stamp; /* ori_handle_stamp of the creating process; differs in its children */
	uint32_t number;
	pthread_mutex_t lock;
	pthread_cond_t turn; /* a round is done, or the job has failed */
	unsigned size, refs;
	struct local_round *round; /* the current one, or NULL */
	enum oriel_status status;  /* of the job as a whole */
	unsigned at_fault;         /* the rank that caused @status */
	char text[LOCAL_TEXT];
	struct local_member *members; /* [size] */
};

/*
 * Held where a thread looks a job up by its address, until it has a reference, and where the job is
 * shut: the address comes from another thread, which may destroy the job at that moment.
 */
static pthread_mutex_t local_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t local_jobs; /* created up to now; guarded by local_lock */

static void local_cond_open(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* False once @deadline has passed. */
static void local_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};

	if (deadline == ORIEL_TIMEOUT_INFINITE)
		pthread_cond_wait(cond, lock);
	else
		pthread_cond_timedwait(cond, lock, &until);
}

/* Record the first failure of the job, and wake all ranks. The caller has the lock. */
__attribute__((format(printf, 4, 5))) static enum oriel_status
local_break(struct oriel_local_job *job, enum oriel_status status, unsigned rank,
	    const char *format, ...)
{
	va_list args;
	unsigned i;

	if (job->status == ORIEL_OK) {
		va_start(args, format);
		vsnprintf(job->text, sizeof(job->text), format, args);
		va_end(args);
		job->status = status;
		job->at_fault = rank;
		pthread_cond_broadcast(&job->turn);
		for (i = 0; i < job->size; i++)
			pthread_cond_signal(&job->members[i].message_arrived);
	}
	return job->status;
}

static enum oriel_status local_peer_left(struct oriel_local_job *job, unsigned rank)
{
	return local_break(job, ORIEL_ERR_PEER, rank, "rank %u of %u left: it closed its bootstrap",
			   rank, job->size);
}

static enum oriel_status local_check_left(struct oriel_local_job *job)
{
	unsigned i;

	for (i = 0; i < job->size; i++)
		if (job->members[i].has_left)
			return local_peer_left(job, i);
	return job->status;
}

static void local_round_unref(struct oriel_local_job *job, struct local_round *round)
{
	if (--round->readers > 0)
		return;
	if (job->round == round)
		job->round = NULL;
	free(round);
}

/* Enter the current round, or begin one. The caller has the lock. */
static enum oriel_status local_round_enter(struct local_member *member, size_t length,
					   struct local_round **entered)
{
	struct oriel_local_job *job = member->job;
	struct local_round *round = job->round;

	if (!round) {
		if (length > (SIZE_MAX / 2 - job->size - sizeof(*round)) / job->size)
			return local_break(job, ORIEL_ERR_NOMEM, member->rank,
					   "no memory for %zu bytes of %u ranks", length,
					   job->size);
		round = calloc(1, sizeof(*round) + job->size * length + job->size);
		if (!round)
			return local_break(job, ORIEL_ERR_NOMEM, member->rank,
					   "no memory for %zu bytes of %u ranks", length,
					   job->size);
		round->length = length;
		round->first = member->rank;
		round->is_here = round->data + job->size * length;
		job->round = round;
	}
	if (round->length != length)
		return local_break(job, ORIEL_ERR_MISMATCH, ORIEL_NO_RANK,
				   "all_gather: rank %u gives %zu bytes, rank %u gives %zu",
				   member->rank, length, round->first, round->length);
	round->readers++;
	*entered = round;
	return ORIEL_OK;
}

static struct ori_ranks local_missing(const struct oriel_local_job *job,
				      const struct local_round *round)
{
	struct ori_ranks missing = {0};
	unsigned i;

	for (i = 0; i < job->size; i++)
		if (!round->is_here[i])
			ori_ranks_add(&missing, i);
	return missing;
}

static enum oriel_status local_late(struct oriel_local_job *job, const struct local_round *round,
				    uint64_t timeout_ns)
{
	struct ori_ranks missing = local_missing(job, round);
	char text[ORI_RANKS_LENGTH];

	return local_break(job, ORIEL_ERR_TIMEOUT, missing.first[0],
			   "%s did not take part within %g s " ORI_LATE_LIMIT,
			   ori_ranks_text(&missing, job->size, text), ori_seconds(timeout_ns));
}

static void local_warn(const struct oriel_local_job *job, const struct local_round *round,
		       const struct ori_late *late, uint64_t timeout_ns)
{
	struct ori_ranks missing = local_missing(job, round);
	char text[ORI_RANKS_LENGTH];

	ori_late_warn(late, timeout_ns, "%s did not take part in a collective",
		      ori_ranks_text(&missing, job->size, text));
}

static enum oriel_status local_round_wait(struct oriel_local_job *job, struct local_round *round,
					  uint64_t timeout_ns)
{
	uint64_t deadline = ori_deadline(timeout_ns);
	struct ori_late late;

	ori_late_begin(&late);
	while (!round->is_done) {
		if (local_check_left(job) != ORIEL_OK)
			return job->status;
		if (ori_deadline_passed(deadline))
			return local_late(job, round, timeout_ns);
		if (ori_late_is_due(&late))
			local_warn(job, round, &late, timeout_ns);
		local_wait(&job->turn, &job->lock, deadline < late.at ? deadline : late.at);
	}
	return ORIEL_OK;
}

static enum oriel_status local_gather(struct local_member *member, const void *mine, size_t length,
				      uint64_t timeout_ns, struct local_round **done)
{
	struct oriel_local_job *job = member->job;
	struct local_round *round = NULL;
	enum oriel_status status;

	if (local_check_left(job) != ORIEL_OK)
		return job->status;
	status = local_round_enter(member, length, &round);
	if (status != ORIEL_OK)
		return status;
	assert(round);
	if (length)
		memcpy(round->data + member->rank * length, mine, length);
	round->is_here[member->rank] = 1;
	if (++round->arrived == job->size) {
		round->is_done = true;
		job->round = NULL;
		pthread_cond_broadcast(&job->turn);
	}
	status = local_round_wait(job, round, timeout_ns);
	if (status != ORIEL_OK)
		local_round_unref(job, round);
	else
		*done = round;
	return status;
}

/* Make the failure of the job the last error of this thread. */
static enum oriel_status local_report(struct oriel_local_job *job, enum oriel_status status)
{
	char text[LOCAL_TEXT];

	if (status == ORIEL_OK)
		return ORIEL_OK;
	pthread_mutex_lock(&job->lock);
	memcpy(text, job->text, sizeof(text));
	pthread_mutex_unlock(&job->lock);
	return ori_fail(status, "%s", text);
}

static enum oriel_status local_all_gather(void *context, const void *mine, void *all, size_t length,
					  uint64_t timeout_ns)
{
	struct local_member *member = context;
	struct oriel_local_job *job = member->job;
	struct local_round *round = NULL;
	enum oriel_status status;

	status = ori_handle_check_stamp(job->stamp, "local job");
	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&job->lock);
	status = local_gather(member, mine, length, timeout_ns, &round);
	pthread_mutex_unlock(&job->lock);
	if (status != ORIEL_OK)
		return local_report(job, status);

	/* No rank writes to a round that is done, so a reader needs no lock. */
	if (length)
		memcpy(all, round->data, job->size * length);
	pthread_mutex_lock(&job->lock);
	assert(round);
	local_round_unref(job, round);
	pthread_mutex_unlock(&job->lock);
	return ORIEL_OK;
}

static enum oriel_status local_barrier(void *context, uint64_t timeout_ns)
{
	return local_all_gather(context, NULL, NULL, 0, timeout_ns);
}

static enum oriel_status local_check_peer(const struct local_member *member, unsigned peer)
{
	enum oriel_status status = ori_handle_check_stamp(member->job->stamp, "local job");

	if (status != ORIEL_OK)
		return status;
	if (peer >= member->job->size)
		return ori_fail(ORIEL_ERR_RANGE, "there is no rank %u in a job of %u", peer,
				member->job->size);
	return ORIEL_OK;
}

static enum oriel_status local_deliver(struct oriel_local_job *job, unsigned peer,
				       struct local_message *message)
{
	struct local_member *to = &job->members[peer];

	if (job->status != ORIEL_OK)
		return job->status;
	if (to->has_left)
		return local_peer_left(job, peer);
	*to->inbox_end = message;
	to->inbox_end = &message->next;
	pthread_cond_signal(&to->message_arrived);
	return ORIEL_OK;
}

static enum oriel_status local_send(void *context, unsigned peer, uint32_t tag, const void *data,
				    size_t length, uint64_t timeout_ns)
{
	struct local_member *member = context;
	struct local_message *message;
	enum oriel_status status = local_check_peer(member, peer);

	(void)timeout_ns; /* a copy never waits for the receiver */
	if (status != ORIEL_OK)
		return status;
	message = malloc(sizeof(*message) + length);
	if (!message)
		return ori_fail_nomem(sizeof(*message) + length, "a message");
	*message = (struct local_message){.source = member->rank, .tag = tag, .length = length};
	if (length)
		memcpy(message->data, data, length);
	pthread_mutex_lock(&member->job->lock);
	status = local_deliver(member->job, peer, message);
	pthread_mutex_unlock(&member->job->lock);
	if (status != ORIEL_OK)
		free(message);
	return local_report(member->job, status); /* NOLINT(*-unix.Malloc): the inbox has it */
}

static struct local_message *local_take(struct local_member *member, unsigned source, uint32_t tag)
{
	struct local_message **link, *message;

	for (link = &member->inbox; *link; link = &(*link)->next)
		if ((*link)->source == source && (*link)->tag == tag)
			break;
	message = *link;
	if (!message)
		return NULL;
	*link = message->next;
	if (!*link)
		member->inbox_end = link;
	return message;
}

static enum oriel_status local_receive(struct local_member *member, unsigned peer, uint32_t tag,
				       uint64_t timeout_ns, struct local_message **message)
{
	struct oriel_local_job *job = member->job;
	uint64_t deadline = ori_deadline(timeout_ns);
	struct ori_late late;

	ori_late_begin(&late);
	for (;;) {
		if (job->status != ORIEL_OK)
			return job->status;
		*message = local_take(member, peer, tag);
		if (*message)
			return ORIEL_OK;
		if (job->members[peer].has_left)
			return local_peer_left(job, peer);
		if (ori_deadline_passed(deadline))
			return local_break(job, ORIEL_ERR_TIMEOUT, peer,
					   "rank %u of %u sent rank %u nothing with tag %u within "
					   "%g s " ORI_LATE_LIMIT,
					   peer, job->size, member->rank, tag,
					   ori_seconds(timeout_ns));
		if (ori_late_is_due(&late))
			ori_late_warn(&late, timeout_ns,
				      "rank %u of %u sent rank %u nothing with tag %u", peer,
				      job->size, member->rank, tag);
		local_wait(&member->message_arrived, &job->lock,
			   deadline < late.at ? deadline : late.at);
	}
}

static enum oriel_status local_recv(void *context, unsigned peer, uint32_t tag, void *data,
				    size_t length, uint64_t timeout_ns)
{
	struct local_member *member = context;
	struct oriel_local_job *job = member->job;
	struct local_message *message = NULL;
	enum oriel_status status = local_check_peer(member, peer);

	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&job->lock);
	status = local_receive(member, peer, tag, timeout_ns, &message);
	if (status == ORIEL_OK && message->length != length)
		status = local_break(job, ORIEL_ERR_MISMATCH, ORIEL_NO_RANK,
				     "rank %u sent %zu bytes with tag %u, rank %u takes %zu", peer,
				     message->length, tag, member->rank, length);
	pthread_mutex_unlock(&job->lock);
	if (status == ORIEL_OK && length)
		memcpy(data, message->data, length);
	free(message);
	return local_report(job, status);
}

static void local_free(struct oriel_local_job *job)
{
	struct local_message *message;
	unsigned i;

	for (i = 0; i < job->size; i++) {
		while ((message = job->members[i].inbox)) {
			job->members[i].inbox = message->next;
			free(message);
		}
		pthread_cond_destroy(&job->members[i].message_arrived);
	}
	pthread_cond_destroy(&job->turn);
	pthread_mutex_destroy(&job->lock);
	free(job->round);
	free(job->members);
	ori_handle_free(job);
}

static void local_unref(struct oriel_local_job *job)
{
	bool is_last;

	pthread_mutex_lock(&job->lock);
	is_last = --job->refs == 0;
	pthread_mutex_unlock(&job->lock);
	if (is_last)
		local_free(job);
}

static void local_interrupt(void *context)
{
	struct local_member *member = context;

	if (member->job->stamp != ori_handle_stamp)
		return;
	pthread_mutex_lock(&member->job->lock);
	/* No rank is at fault here: the caller of interrupt() knows of a failure elsewhere. */
	local_break(member->job, ORIEL_ERR_ABORTED, ORIEL_NO_RANK, "rank %u of %u was interrupted",
		    member->rank, member->job->size);
	pthread_mutex_unlock(&member->job->lock);
}

static unsigned local_at_fault(void *context)
{
	struct oriel_local_job *job = ((struct local_member *)context)->job;
	unsigned rank;

	if (job->stamp != ori_handle_stamp)
		return ORIEL_NO_RANK;
	pthread_mutex_lock(&job->lock);
	rank = job->status == ORIEL_OK ? ORIEL_NO_RANK : job->at_fault;
	pthread_mutex_unlock(&job->lock);
	return rank;
}

static void local_close(void *context)
{
	struct local_member *member = context;
	struct oriel_local_job *job = member->job;
	unsigned i;

	/* A thread of the parent, which this child does not have, may hold the lock. */
	if (job->stamp != ori_handle_stamp)
		return;
	pthread_mutex_lock(&job->lock);
	member->has_left = true;
	pthread_cond_broadcast(&job->turn);
	for (i = 0; i < job->size; i++)
		if (job->members[i].is_open)
			pthread_cond_signal(&job->members[i].message_arrived);
	pthread_mutex_unlock(&job->lock);
	local_unref(job);
}

static const struct oriel_bootstrap_ops local_ops = {
	.size = sizeof(local_ops),
	.all_gather = local_all_gather,
	.barrier = local_barrier,
	.send = local_send,
	.recv = local_recv,
	.close = local_close,
	.interrupt = local_interrupt,
	.at_fault = local_at_fault,
};

enum oriel_status oriel_local_job_create(unsigned size, struct oriel_local_job **job)
{
	static const struct ori_fork_hook hook = {.lock = &local_lock};
	struct oriel_local_job *j;
	unsigned i;

	if (!job)
		return ori_fail_null(__func__, "job");
	if (size == 0)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_local_job_create: a job of no ranks");
	j = ori_handle_alloc(ORI_HANDLE_LOCAL_JOB, sizeof(*j));
	if (j)
		j->members = calloc(size, sizeof(*j->members));
	if (!j || !j->members) {
		ori_handle_free(j);
		return ori_fail_nomem(sizeof(*j) + size * sizeof(*j->members), "a job of %u ranks",
				      size);
	}
	pthread_mutex_init(&j->lock, NULL);
	local_cond_open(&j->turn);
	j->stamp = ori_handle_stamp;
	j->size = size;
	j->refs = 1;
	for (i = 0; i < size; i++) {
		j->members[i].job = j;
		j->members[i].rank = i;
		j->members[i].inbox_end = &j->members[i].inbox;
		local_cond_open(&j->members[i].message_arrived);
	}
	ori_late_read();
	ori_fork_add(ORI_FORK_LOCAL, &hook);
	pthread_mutex_lock(&local_lock);
	j->number = ++local_jobs;
	pthread_mutex_unlock(&local_lock);
	ori_handle_open(j, NULL);
	*job = j;
	return ORIEL_OK;
}

enum oriel_status oriel_local_job_destroy(struct oriel_local_job *job)
{
	bool was_live;

	pthread_mutex_lock(&local_lock);
	was_live = ori_handle_shut(job, ORI_HANDLE_LOCAL_JOB, __func__);
	pthread_mutex_unlock(&local_lock);
	if (!was_live)
		return ori_handle_refused(job);
	local_unref(job);
	return ORIEL_OK;
}

bool ori_local_is_own(const struct oriel_bootstrap *bootstrap)
{
	return bootstrap->ops == &local_ops;
}

uint32_t ori_local_number(const struct oriel_local_job *job)
{
	return job->number;
}

/* The caller has the lock of all jobs, and @job is live. */
static enum oriel_status local_take_seat(struct oriel_local_job *job, unsigned rank)
{
	bool was_open;

	if (rank >= job->size)
		return ori_fail(ORIEL_ERR_RANGE, "there is no rank %u in a job of %u", rank,
				job->size);
	pthread_mutex_lock(&job->lock);
	was_open = job->members[rank].is_open;
	job->members[rank].is_open = true;
	if (!was_open)
		job->refs++;
	pthread_mutex_unlock(&job->lock);
	if (was_open)
		return ori_fail(ORIEL_ERR_STATE, "rank %u of %u was opened before", rank,
				job->size);
	return ORIEL_OK;
}

/* The seat of a rank whose thread has it by local_take_seat(). */
static void local_sit(struct oriel_local_job *job, unsigned rank, struct oriel_bootstrap *bootstrap)
{
	ori_log_begin(rank);
	if (rank == 0)
		ori_log_rank(ORIEL_LOG_INFO, rank, "bootstrap: %u threads of this process",
			     job->size);
	*bootstrap = (struct oriel_bootstrap){
		.ops = &local_ops,
		.context = &job->members[rank],
		.rank = rank,
		.size = job->size,
	};
}

enum oriel_status ori_local_open(struct oriel_local_job *job, uint32_t number, unsigned rank,
				 struct oriel_bootstrap *bootstrap)
{
	enum oriel_status status;

	pthread_mutex_lock(&local_lock);
	if (ori_handle_is_live(job, ORI_HANDLE_LOCAL_JOB) && job->number == number)
		status = local_take_seat(job, rank);
	else
		status = ori_fail(ORIEL_ERR_STATE,
				  "rank %u opens a job of threads that was destroyed", rank);
	pthread_mutex_unlock(&local_lock);
	if (status == ORIEL_OK)
		local_sit(job, rank, bootstrap);
	return status;
}

enum oriel_status oriel_bootstrap_open_local(struct oriel_local_job *job, unsigned rank,
					     struct oriel_bootstrap *bootstrap)
{
	enum oriel_status status;

	pthread_mutex_lock(&local_lock);
	status = ori_handle_check(job, ORI_HANDLE_LOCAL_JOB, __func__);
	if (status == ORIEL_OK && !bootstrap)
		status = ori_fail(ORIEL_ERR_INVALID,
				  "oriel_bootstrap_open_local: bootstrap is NULL");
	if (status == ORIEL_OK)
		status = local_take_seat(job, rank);
	pthread_mutex_unlock(&local_lock);
	if (status == ORIEL_OK)
		local_sit(job, rank, bootstrap);
	return status;
}
