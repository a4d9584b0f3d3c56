/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers of all ranks, and the agreement on a status: the steps of which collectives are
 * made. All of this library call them, in one order on all ranks.
 */
#ifndef ORI_COMM_EXCHANGE_H
#define ORI_COMM_EXCHANGE_H

#include "comm/comm.h"

#define ORI_RECORD_BYTES 1024u /* of one rank in ori_comm_scratch() */
#define ORI_VERDICT_TEXT 240u

/* The status of one rank in a collective. Goes over the wire as it is. */
struct ori_verdict {
	uint32_t version; /* ORI_COMM_WIRE */
	int32_t status;   /* enum oriel_status */
	uint32_t call;    /* enum ori_call */
	uint32_t reserved;
	char text[ORI_VERDICT_TEXT];
};

static_assert(sizeof(struct ori_verdict) == 256, "struct ori_verdict goes over the wire");

#define ORI_COMM_WIRE 5u

/* The collective that a rank is in, so that an error names ranks that are out of step. */
enum ori_call {
	ORI_CALL_COMM_CREATE = 1,
	ORI_CALL_COMM_DESTROY,
	ORI_CALL_COMM_BARRIER,
	ORI_CALL_COMM_ALL_GATHER,
	ORI_CALL_COMM_AGREE,
	ORI_CALL_REGION_SHARE,
	ORI_CALL_REGION_UNREGISTER,
	ORI_CALL_WINDOW_CREATE,
	ORI_CALL_WINDOW_SHARE,
	ORI_CALL_WINDOW_DESTROY,
	/* The same where the window is of a collective: in the order of the flags of windows. */
	ORI_CALL_ALLGATHER_DESTROY,
	ORI_CALL_ALLTOALL_DESTROY,
	ORI_CALL_BCAST_DESTROY,
	ORI_CALL_ALLREDUCE_DESTROY,
	ORI_CALL_REDUCE_SCATTER_DESTROY,
	ORI_CALL_REDUCE_DESTROY,
	ORI_CALL_GATHER_DESTROY,
	ORI_CALL_SCATTER_DESTROY,
	ORI_CALL_COMM_SPLIT,
	ORI_CALL_COMM_GROW,
	ORI_CALL_COMM_MERGE,
};

/* The limit of a step before an agreement: it leaves as much for the agreement. */
uint64_t ori_comm_half_timeout(const struct oriel_comm *comm);
/* The limit of a wait inside a creation, which all ranks have begun: ori_setting_boot_limit(). */
uint64_t ori_comm_boot_limit(const struct oriel_comm *comm);
/*
 * The lesser of both: how long a thread asks a peer whose watcher answers at once whatever its rank
 * does. One that does not is as silent as a rank without beats, which no link has brought yet; and
 * ranks that wait for this one get its cause.
 */
uint64_t ori_comm_answer_limit(const struct oriel_comm *comm);

/*
 * Collective: @length bytes of every rank into @all, in rank order. Where ranks differ in
 * @call or @length, all get ORIEL_ERR_MISMATCH, no bytes, and @comm still works.
 */
enum oriel_status ori_comm_gather(struct oriel_comm *comm, enum ori_call call, const void *mine,
				  void *all, size_t length);

/*
 * Overwrites the secret, of at most ORI_GATHER_BYTES, that this rank has published in the gather
 * before the last one: all have read it, since they were in the last one.
 */
void ori_comm_wipe_gather(struct oriel_comm *comm);

/*
 * Zeroed records of @bytes, at most ORI_RECORD_BYTES, one for each rank: in a collective no
 * rank may fail alone for want of memory. They are the caller's until the next collective.
 */
void *ori_comm_scratch(struct oriel_comm *comm, size_t bytes);

/*
 * The communicator is broken: ends a call of the bootstrap that another thread of this
 * rank waits in. The bootstrap is of no more use. The watcher calls it.
 */
void ori_comm_interrupt(struct oriel_comm *comm);

/*
 * Collective, where @object of @call is destroyed; its number is the same on all ranks.
 * No rank returns before all have called. A failure is this thread's last error; a
 * communicator that was broken before is not reported again, and no rank waits. Ranks in
 * different calls, or with different numbers, are misuse: see ori_misuse(). After that
 * @comm is out of order: memory that this rank still uses may be destroyed at a peer, so
 * that it can no longer be read.
 */
void ori_comm_meet(struct oriel_comm *comm, enum ori_call call, uint32_t object);

/* The verdict of this thread's last failure, or of success. */
void ori_verdict_fill(struct ori_verdict *verdict, enum ori_call call, enum oriel_status status);

/*
 * The common result of @count verdicts, @stride bytes apart: the failure of the lowest
 * rank that caused one, with its text; if there is none, of the lowest rank with a
 * consequence of another failure (timeout, peer, protocol). Ranks in different calls, or
 * of a different wire version, are a failure too.
 */
enum oriel_status ori_verdict_judge(const void *verdicts, size_t stride, unsigned count,
				    unsigned rank);

/*
 * Collective: ori_comm_gather() of records that begin with a verdict each, and the common
 * result of those.
 */
enum oriel_status ori_verdict_gather(struct oriel_comm *comm, enum ori_call call, const void *mine,
				     void *all, size_t length);

/* Collective: oriel_comm_agree() for @call. */
enum oriel_status ori_comm_agree(struct oriel_comm *comm, enum ori_call call,
				 enum oriel_status status);
/*
 * The same after a step that began when the last gather of @comm ended, and in which this rank may
 * have waited for others, as by ori_comm_half_timeout(): both together have the limit of one wait.
 */
enum oriel_status ori_comm_agree_after(struct oriel_comm *comm, enum ori_call call,
				       enum oriel_status status);

#endif
