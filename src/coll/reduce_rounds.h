/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of several nodes execute in rounds, in each of which every part of the elements has
 * one owner, a rank that computes its end result. reduce_nodes.c and reduce_hierarchy.c have the
 * algorithms, and share what is here.
 *
 * The staging has two halves of one piece for each rank, which alternate. No rank has the end
 * result of its part before all ranks have begun the round: it needs elements of all ranks, and
 * every rank owns a part, which may be empty. A rank begins round k + 1, which is to send its
 * elements, after it has that result of round k. So a rank that begins round k + 2 knows that all
 * ranks have begun round k + 1 and have added those of round k, and that its half of the staging is
 * free everywhere. That holds for any two algorithms in turn.
 *
 * So the elements of a round may travel while the results of the one before do. In a reduction to a
 * root they do not: results wait in the staging until the root, the last to complete a round, has
 * them.
 */
#ifndef ORI_COLL_REDUCE_ROUNDS_H
#define ORI_COLL_REDUCE_ROUNDS_H

#include "coll/gather_job.h"
#include "coll/reduction.h"

/* The signals behind elements, or sums of them, and behind results. */
#define ORI_REDUCE_ELEMENTS ORI_GATHER_CREDIT
#define ORI_REDUCE_RESULTS ORI_GATHER_DATA

struct ori_reduce_rounds {
	struct ori_gather_job job;
	const struct oriel_dev_window *w;
	const char *send;
	size_t bytes; /* of all elements, or of a part of a reduce-scatter */
	uint32_t root;
	size_t most; /* bytes of a round */

	/* The position, from which the next step of a job continues. */
	unsigned phase; /* of the algorithm; 0 begins a round */
	bool is_ahead;  /* the elements of the next round are sent */
	size_t at;
	size_t length; /* of this round */
	uint64_t step;
	uint32_t index; /* of the next peer of a phase */
};

/* Begins the next round. */
void ori_reduce_rounds_next(struct ori_reduce_rounds *r);

/* Bytes of a piece. */
size_t ori_reduce_rounds_piece(const struct ori_gather *g);
/* Bytes of the staging. */
size_t ori_reduce_rounds_staging(const struct ori_gather *g);
/* The offset of piece number @index in the half of this round. */
uint64_t ori_reduce_rounds_offset(const struct ori_reduce_rounds *r, uint32_t index);
/*
 * The same for sums, which lie behind the pieces: HIERARCHICAL has two for each node, RING and
 * RECURSIVE one for each rank. A sum is a piece whose elements have the accumulation type, and is
 * aligned to 64.
 */
uint64_t ori_reduce_rounds_sum(const struct ori_reduce_rounds *r, uint32_t index);

/* The part of a round that @owner owns, and the elements of this rank in it. */
struct ori_reduce_part ori_reduce_rounds_part(const struct ori_reduce_rounds *r, uint32_t owner);
const char *ori_reduce_rounds_elements(const struct ori_reduce_rounds *r, uint32_t owner);

/*
 * Where this rank computes the result of its part: in its view, or in its piece of the staging
 * where a reduction to another root leaves its view alone.
 */
char *ori_reduce_rounds_result(const struct ori_reduce_rounds *r);

/* Does @rank get the results of others? */
bool ori_reduce_rounds_gets(const struct ori_reduce_rounds *r, uint32_t rank);

/* Puts the result of this rank's part to the view of @peer, with a signal behind. */
enum oriel_status ori_reduce_rounds_return(struct ori_reduce_rounds *r, uint32_t peer);

/* Waits for one more signal @id of each peer. ORIEL_AGAIN: posted, and one has not arrived. */
enum oriel_status ori_reduce_rounds_take(struct ori_reduce_rounds *r, uint32_t id);

/* If a phase has ended with ORIEL_OK, @phase is next. Returns @status. */
enum oriel_status ori_reduce_rounds_phase(struct ori_reduce_rounds *r, unsigned phase,
					  enum oriel_status status);
/* The same for the last phase of a round: the next one begins, or @drain is next. */
enum oriel_status ori_reduce_rounds_end(struct ori_reduce_rounds *r, unsigned drain,
					enum oriel_status status);

/* Does what is possible of the phase that is next. */
typedef enum oriel_status ori_reduce_phase(struct ori_reduce_rounds *r);
/* Begins the next round: @send puts its elements, unless they were sent ahead. */
enum oriel_status ori_reduce_rounds_begin(struct ori_reduce_rounds *r, ori_reduce_phase *send);
/* The end result of the own part is there: elements of the next round are sent, if they may be. */
enum oriel_status ori_reduce_rounds_ahead(struct ori_reduce_rounds *r, ori_reduce_phase *send);
/* Goes on with the job of an algorithm, until phase @drain, and awaits what it has posted then. */
enum oriel_status ori_reduce_rounds_go_on(struct ori_gather_job *job, ori_reduce_phase *phase,
					  unsigned drain);

#endif
