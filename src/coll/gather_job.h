/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions in host memory that continue where they stopped: the calling thread waits where it has
 * to, the thread of the communicator, which has other jobs, returns instead and continues at the
 * next step. gather_run.c, bcast_run.c and exchange_run.c have the executions, gather_job.c the
 * job around them.
 */
#ifndef ORI_COLL_GATHER_JOB_H
#define ORI_COLL_GATHER_JOB_H

#include "coll/gather.h"

/* A comparison between ranks: see gather_same.c. */
struct ori_same {
	const char *what; /* in texts; NULL: nothing is compared */
	uint64_t value;

	/* The position, from which the next step continues. */
	bool is_sent;
	uint32_t id;      /* the signal that carries the values */
	uint32_t index;   /* of the next peer */
	uint32_t other;   /* a rank whose value differs; the own rank: none */
	uint64_t differs; /* its value */
};

#define ORI_GATHER_SAMES 2u

/* The first member of an execution. */
struct ori_gather_job {
	struct ori_gather *g;
	/* Continues. ORIEL_AGAIN: only if @is_posted, and the call is to be repeated. */
	enum oriel_status (*go_on)(struct ori_gather_job *job);
	bool is_posted; /* the thread of the communicator executes it */
	bool has_moved; /* since its step began */
	uint64_t moved_ns;
	uint32_t compared;                      /* of @same */
	struct ori_same same[ORI_GATHER_SAMES]; /* compared before go_on(), by debug builds */
};

/*
 * Posts @job, which belongs to the library on success and is freed with free(). g->started holds
 * its status until the next one is posted.
 */
enum oriel_status ori_gather_post(struct ori_gather_job *job);

/* The same for an execution of 0 bytes, which has ended. */
enum oriel_status ori_gather_start_nothing(struct ori_gather *g);

/*
 * gather_start.c: waits for @count more signals @id of @source. ORIEL_AGAIN: posted, and they have
 * not arrived.
 */
enum oriel_status ori_gather_take(struct ori_gather_job *job, uint32_t source, uint32_t id,
				  uint64_t count);
/* Waits until NICs no longer read the send buffer. ORIEL_AGAIN as above. */
enum oriel_status ori_gather_drain(const struct ori_gather_job *job);

/* gather_same.c: one comparison of host memory, by a barrier. ORIEL_AGAIN as above. */
#ifndef NDEBUG
enum oriel_status ori_gather_same_go_on(struct ori_gather_job *job, struct ori_same *same);
#endif

/*
 * gather_run.c: one execution of @plan, an all-gather or, with a @stride between the messages of
 * @send for the ranks, an all-to-all. The first function blocks, the second posts.
 */
enum oriel_status ori_gather_run(struct ori_gather *g, const struct ori_plan *plan,
				 const void *send, size_t bytes, size_t chunk);
enum oriel_status ori_gather_start(struct ori_gather *g, const struct ori_plan *plan,
				   const void *send, size_t stride, size_t bytes);

/* bcast_run.c: the same for a broadcast. @algorithm: DIRECT, RING or BRUCK. */
enum oriel_status ori_bcast_run(struct ori_gather *g, enum oriel_algorithm algorithm, uint32_t root,
				const void *send, size_t bytes);
enum oriel_status ori_bcast_start(struct ori_gather *g, enum oriel_algorithm algorithm,
				  uint32_t root, const void *send, size_t bytes);

/* exchange_run.c: posts an all-to-all of any lengths, and copies @layout. */
enum oriel_status ori_exchange_start(struct ori_gather *g, const void *send,
				     const struct oriel_dev_alltoallv *layout);

#endif
