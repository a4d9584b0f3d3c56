/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of oriel/window.h by threads of the host: each method, size, alignment and form has
 * the bits of the scalar folds of reductions.h, and no other byte changes. The conformance program
 * runs this suite for every transport.
 */
#include "reductions.h"
#include "series.h"

#define COUNT_MAX 20001u /* elements of the longest message */
#define SLOT 4096u       /* of the staging: the longest messages take many rounds */

static const size_t counts[] = {1, 3, 0, 13, 24, 1025, COUNT_MAX};

#define COUNTS (sizeof(counts) / sizeof(counts[0]))

typedef enum oriel_status reduce_call(struct oriel_window *window,
				      const struct oriel_dev_gather *gather,
				      const struct oriel_dev_reduction *reduction, uint32_t parts,
				      const void *from, size_t count);

/* Where the messages lie: all ranks have the same way in each round. */
enum way { APART, IN_PLACE, FOR_EACH, WAYS };

struct reducer {
	struct series series;
	struct site site; /* what the results are */
	struct oriel_dev_reduction reduction;
	reduce_call *call;
	uint64_t *factors;
};

static void reducer_open(struct rank *r, struct reducer *x, unsigned which, unsigned block)
{
	struct site *site = &x->site;
	double factor;
	unsigned rank;

	memset(site, 0, sizeof(*site));
	site->reduction = reduction_of(which, &site->factor, block);
	site->size = oriel_type_size((enum oriel_type)site->reduction.type);
	site->block = block ? block : r->size;
	site->algorithm = ORIEL_ALGORITHM_OWNER;
	site->expected = malloc(COUNT_MAX * site->size);
	x->factors = calloc(r->size, sizeof(*x->factors));
	if (!site->expected || !x->factors)
		give_up(r, "memory");
	for (rank = 0; rank < r->size; rank++) {
		factor = factor_of(rank);
		memcpy(&x->factors[rank], &factor, sizeof(factor));
	}
	x->reduction = (struct oriel_dev_reduction){.type = site->reduction.type,
						    .op = site->reduction.op,
						    .block = block,
						    .factors = x->factors};
}

static void reducer_close(struct reducer *x)
{
	free(x->site.expected);
	free(x->factors);
}

static void reduce_once(struct rank *r, struct reducer *x, enum way way, size_t count)
{
	struct series *s = &x->series;
	size_t size = x->site.size, length = count * size;
	char *send = way == IN_PLACE ? s->result : s->send + s->round % 2;

	x->site.round = ++s->round;
	memset(s->result, GUARD, length + BEHIND);
	s->gather.stride = way == FOR_EACH ? length : 0;
	fill_own(r, &x->site, send, way == FOR_EACH ? r->size * count : count);
	expect(r, &x->site, way == FOR_EACH ? r->rank * count : 0, count);
	if (!CHECK_OK(r, x->call(s->window, &s->gather, &x->reduction, s->parts, send, count)))
		return;
	/* The caller may reuse the buffer on return. */
	if (way != IN_PLACE)
		memset(send, GUARD, (way == FOR_EACH ? r->size : 1) * length);
	series_linger(r, s);
	CHECK_EQ(r, memcmp(s->result, x->site.expected, length), 0);
	CHECK_EQ(r, not_all(s->result + length, BEHIND, GUARD), 0);
}

/* Owners have no messages for each rank. */
static void reduce_counts(struct rank *r, struct reducer *x)
{
	unsigned ways = x->call == oriel_window_reduce_owners ? FOR_EACH : WAYS, i;

	for (i = 0; i < ways * COUNTS; i++)
		reduce_once(r, x, (enum way)(i % ways), counts[i / ways]);
	for (i = 0; i < 20; i++)
		reduce_once(r, x, (enum way)(i % ways), 1 + i * 37 % 300);
}

/* With slots of @slot bytes. The result has room for the messages of all ranks. */
static void reduce_by(struct rank *r, struct reducer *x, enum oriel_dev_lines lines, uint32_t parts,
		      uint64_t slot, uint64_t staging)
{
	series_open(r, &x->series, (size_t)r->size * COUNT_MAX * x->site.size, parts, staging);
	x->series.gather.lines = lines;
	x->series.gather.slot = slot;
	reduce_counts(r, x);
	series_close(r, &x->series);
}

static void reduce_lines(struct rank *r, struct reducer *x, enum oriel_dev_lines lines,
			 uint32_t parts)
{
	uint64_t slot = oriel_dev_gather_slot(lines, COUNT_MAX * x->site.size, parts);

	reduce_by(r, x, lines, parts, slot, oriel_dev_gather_staging(r->size, parts, slot));
}

static void reduce_staged(struct rank *r, struct reducer *x, uint32_t parts)
{
	reduce_by(r, x, ORIEL_DEV_LINES_LL, parts, SLOT,
		  oriel_dev_reduce_staging(r->size, parts, SLOT));
}

/* Each type with one order of the ranks and with another one, and with one part or several. */
static void reduce_types(struct rank *r,
			 void (*reduce)(struct rank *r, struct reducer *x, uint32_t parts),
			 reduce_call *call)
{
	static const unsigned types[] = {SUM_FP32, SUM_BF16, BXOR_UINT8, PREMUL_FP64};
	struct reducer x = {.call = call};
	unsigned i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		reducer_open(r, &x, types[i], i % 2 ? 2 : 0);
		reduce(r, &x, 1 + i % PARTS_MAX);
		reducer_close(&x);
	}
}

static void reduce_ll(struct rank *r, struct reducer *x, uint32_t parts)
{
	reduce_lines(r, x, ORIEL_DEV_LINES_LL, parts);
}

static void reduce_ll128(struct rank *r, struct reducer *x, uint32_t parts)
{
	reduce_lines(r, x, ORIEL_DEV_LINES_LL128, parts);
}

static void lines_are_reduced_in_the_order(struct rank *r)
{
	reduce_types(r, reduce_ll, oriel_window_reduce_lines);
}

static void wide_lines_are_reduced_in_the_order(struct rank *r)
{
	reduce_types(r, reduce_ll128, oriel_window_reduce_lines);
}

static void slots_are_reduced_in_the_order(struct rank *r)
{
	reduce_types(r, reduce_staged, oriel_window_reduce_slots);
}

static void owners_reduce_in_the_order(struct rank *r)
{
	reduce_types(r, reduce_staged, oriel_window_reduce_owners);
}

/* All ranks make each of these calls, and no rank begins an execution. */
static void invalid_reductions_are_rejected(struct rank *r)
{
	struct reducer x = {.call = oriel_window_reduce_lines};
	struct series *s = &x.series;

	reducer_open(r, &x, SUM_FP32, 0);
	series_open(r, s, (size_t)r->size * COUNT_MAX * 4, 1,
		    oriel_dev_reduce_staging(r->size, 1, SLOT));
	s->gather.slot = SLOT;
	CHECK_STATUS(r,
		     oriel_window_reduce_lines(s->window, &s->gather, &x.reduction, 1, s->send,
					       SLOT),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "oriel_window_reduce_lines: window ");
	x.reduction.op = ORIEL_OP_USER;
	CHECK_STATUS(r,
		     oriel_window_reduce_slots(s->window, &s->gather, &x.reduction, 1, s->send, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "there is no such type, operation or block");
	x.reduction.op = ORIEL_OP_SUM;
	CHECK_STATUS(r, oriel_window_reduce_owners(s->window, &s->gather, &x.reduction, 1, NULL, 8),
		     ORIEL_ERR_INVALID);
	CHECK_LAST(r, "the caller's memory is NULL");
	/* The failed calls changed nothing. */
	if (oriel_comm_domain_size(r->comm) == r->size)
		reduce_once(r, &x, IN_PLACE, 100);
	rank_check_healthy(r);
	series_close(r, s);
	reducer_close(&x);
}

/* The last rank is on another node than the first one: each rank has a peer that is not mapped. */
static void reductions_need_mapped_ranks(struct rank *r)
{
	static reduce_call *const calls[] = {oriel_window_reduce_lines, oriel_window_reduce_slots,
					     oriel_window_reduce_owners};
	bool is_whole = oriel_comm_domain_size(r->comm) == r->size;
	struct reducer x;
	struct series *s = &x.series;
	unsigned i;

	reducer_open(r, &x, SUM_FP32, 0);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]) && !is_whole; i++) {
		series_open(r, s, (size_t)r->size * COUNT_MAX * 4, 1,
			    oriel_dev_reduce_staging(r->size, 1, SLOT));
		s->gather.slot = SLOT;
		fill_own(r, &x.site, s->send, 100);
		CHECK_STATUS(r, calls[i](s->window, &s->gather, &x.reduction, 1, s->send, 100),
			     ORIEL_ERR_NO_PATH);
		CHECK_LAST(r, ": window ");
		CHECK_EQ(r, not_all(s->result, 400, GUARD), 0);
		series_close(r, s);
	}
	rank_check_healthy(r);
	reducer_close(&x);
}

static const struct test_case series_reduce_cases[] = {
	{"lines_are_reduced_in_the_order", lines_are_reduced_in_the_order, NULL, 1,
	 NO_WINDOW | NEEDS_MAPPED},
	{"wide_lines_are_reduced_in_the_order", wide_lines_are_reduced_in_the_order, NULL, 1,
	 NO_WINDOW | NEEDS_MAPPED},
	{"slots_are_reduced_in_the_order", slots_are_reduced_in_the_order, NULL, 1,
	 NO_WINDOW | NEEDS_MAPPED},
	{"owners_reduce_in_the_order", owners_reduce_in_the_order, NULL, 1,
	 NO_WINDOW | NEEDS_MAPPED},
	{"invalid_reductions_are_rejected", invalid_reductions_are_rejected, NULL, 1, NO_WINDOW},
	{"reductions_need_mapped_ranks", reductions_need_mapped_ranks, NULL, 2,
	 NO_WINDOW | NEEDS_HCA},
};

const struct suite series_reduce_suite = SUITE(series_reduce);
