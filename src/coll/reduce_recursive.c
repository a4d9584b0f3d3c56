/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RECURSIVE: the fold of a balanced tree over the ranks. Pairs of ranks exchange their sums, of
 * 1, 2, 4 ... ranks, and compute that of the lower ranks + that of the upper ones. If the number of
 * ranks is no power of two, the first ones are added in pairs before, by the odd ranks.
 *
 * A short round is exchanged whole, and each rank computes all of it. The ranks of a pair take a
 * half each of a longer one, so that all bytes on the network are about twice the round instead of
 * one round for each exchange; then they exchange the results of these parts, by the same pairs
 * from the last one to the first. Both ways add in the same order.
 */
#include "coll/reduce_fast.h"

/* Up to so many bytes few messages are more than few bytes. */
#define RECURSIVE_WHOLE ((size_t)16 << 10)

enum recursive_phase {
	RECURSIVE_BEGIN,
	RECURSIVE_PAIR,
	RECURSIVE_ADD,
	RECURSIVE_END,
	RECURSIVE_RETURN,
	RECURSIVE_PASS,
	RECURSIVE_REST,
	RECURSIVE_DRAIN
};

/* Exchanges: the largest power of two that is not above the number of ranks is 1 << exchanges. */
static uint32_t recursive_exchanges(uint32_t ranks)
{
	return 31 - (uint32_t)__builtin_clz(ranks);
}

size_t ori_reduce_recursive_round(const struct ori_gather *g)
{
	return ori_reduce_rounds_piece(g) << (recursive_exchanges(g->shape.ranks) - 1);
}

/* Ranks below this one are in pairs. */
static uint32_t recursive_paired(const struct ori_reduce_rounds *r)
{
	return 2 * (r->w->ranks - (1u << recursive_exchanges(r->w->ranks)));
}

static bool recursive_is_paired(const struct ori_reduce_rounds *r)
{
	return r->w->rank < recursive_paired(r);
}

/* Does another rank add the elements of this one? */
static bool recursive_is_added(const struct ori_reduce_rounds *r)
{
	return recursive_is_paired(r) && r->w->rank % 2 == 0;
}

/* Among the ranks that exchange. Those that do not have one, too. */
static uint32_t recursive_number(const struct ori_reduce_rounds *r)
{
	return recursive_is_paired(r) ? r->w->rank / 2 : r->w->rank - recursive_paired(r) / 2;
}

/* The other rank of @exchange. */
static uint32_t recursive_partner(const struct ori_reduce_rounds *r, uint32_t exchange)
{
	uint32_t paired = recursive_paired(r), other = recursive_number(r) ^ 1u << exchange;

	return other < paired / 2 ? 2 * other + 1 : other + paired / 2;
}

static bool recursive_halves(const struct ori_reduce_rounds *r)
{
	return r->length > RECURSIVE_WHOLE || r->length > ori_reduce_rounds_piece(r->job.g);
}

/* The lower half, in whole lines, and not the shorter one. */
static size_t recursive_half(size_t length)
{
	size_t half =
		(length / 2 + length % 2 + ORIEL_DEV_LINE - 1) & ~(size_t)(ORIEL_DEV_LINE - 1);

	return half < length ? half : length;
}

/* The part of the round of which this rank has sums before @exchange, and results behind it. */
static struct ori_reduce_part recursive_range(const struct ori_reduce_rounds *r, uint32_t exchange)
{
	struct ori_reduce_part range = {0, r->length};
	uint32_t i;

	for (i = 0; i < exchange && recursive_halves(r); i++) {
		size_t half = recursive_half(range.length);

		if (recursive_number(r) >> i & 1)
			range = (struct ori_reduce_part){range.begin + half, range.length - half};
		else
			range.length = half;
	}
	return range;
}

/* The part of that range which the partner has behind @exchange. */
static struct ori_reduce_part recursive_given(const struct ori_reduce_rounds *r, uint32_t exchange)
{
	struct ori_reduce_part range = recursive_range(r, exchange);
	struct ori_reduce_part held = recursive_range(r, exchange + 1);

	if (!recursive_halves(r))
		return range;
	if (held.begin == range.begin)
		range.begin += held.length;
	range.length -= held.length;
	return range;
}

/*
 * Where the sums of each rank are before @exchange: those of the rank alone, or of it and the one
 * below it, and then those that came in the exchange before, to which it added its own ones. The
 * halves of all ranks have the places of the longest ones. All of them but the first are no longer
 * than it, as a full round has a whole number of lines for each rank that exchanges.
 */
static uint64_t recursive_place(const struct ori_reduce_rounds *r, uint32_t exchange)
{
	size_t longest = r->length, at = 0;
	uint32_t i;

	if (!recursive_halves(r))
		return ori_reduce_rounds_sum(r, exchange);
	if (!exchange)
		return ori_reduce_rounds_sum(r, 0);
	for (i = 1; i < exchange; i++) {
		longest = recursive_half(longest);
		at += longest;
	}
	return ori_reduce_rounds_sum(r, 1u << (recursive_exchanges(r->w->ranks) - 1)) +
	       ori_reduce_fast_sums(r, at);
}

/* The sum of byte @begin of the round before @exchange. */
static char *recursive_at(const struct ori_reduce_rounds *r, uint32_t exchange, size_t begin)
{
	size_t skip = begin - recursive_range(r, exchange).begin;

	return ori_reduce_fast_at(r, recursive_place(r, exchange) + ori_reduce_fast_sums(r, skip));
}

static struct ori_reduce_part recursive_all(const struct ori_reduce_rounds *r)
{
	return (struct ori_reduce_part){0, r->length};
}

static enum oriel_status recursive_begin(struct ori_reduce_rounds *r)
{
	char *own;

	ori_reduce_rounds_next(r);
	own = recursive_at(r, 0, 0);
	if (!recursive_is_paired(r) || recursive_is_added(r))
		ori_reduce_fast_begin(r, recursive_all(r), own);
	if (!recursive_is_added(r))
		return ORIEL_OK;
	return ori_reduce_fast_put(r, r->w->rank + 1, recursive_place(r, 0), own, r->length);
}

/* The rank below has sent its elements. */
static enum oriel_status recursive_pair(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ori_reduce_fast_take(r, r->w->rank - 1, ORI_REDUCE_ELEMENTS);

	if (status == ORIEL_OK)
		ori_reduce_fast_add(r, recursive_all(r), recursive_at(r, 0, 0));
	return status;
}

static enum oriel_status recursive_send(struct ori_reduce_rounds *r, uint32_t exchange)
{
	struct ori_reduce_part given = recursive_given(r, exchange);

	return ori_reduce_fast_put(r, recursive_partner(r, exchange),
				   recursive_place(r, exchange + 1),
				   recursive_at(r, exchange, given.begin), given.length);
}

static enum oriel_status recursive_take(struct ori_reduce_rounds *r, uint32_t exchange)
{
	const struct ori_fold *fold = ori_reduce_fast_fold(r);
	struct ori_reduce_part held = recursive_range(r, exchange + 1);
	char *own = recursive_at(r, exchange, held.begin);
	char *other = recursive_at(r, exchange + 1, held.begin);
	bool is_upper = recursive_number(r) >> exchange & 1;
	enum oriel_status status =
		ori_reduce_fast_take(r, recursive_partner(r, exchange), ORI_REDUCE_ELEMENTS);

	if (status == ORIEL_OK)
		ori_fold_two(fold, is_upper ? other : own, is_upper ? own : other, other,
			     held.length / fold->size);
	return status;
}

/* Exchanges sums; @index is 1 ahead of the first exchange, and has two steps for each. */
static enum oriel_status recursive_add(struct ori_reduce_rounds *r)
{
	uint32_t steps = 2 * recursive_exchanges(r->w->ranks);
	enum oriel_status status = ORIEL_OK;

	for (; r->index <= steps && status == ORIEL_OK; r->index += status == ORIEL_OK)
		status = r->index % 2 ? recursive_send(r, r->index / 2)
				      : recursive_take(r, r->index / 2 - 1);
	return status;
}

/* The same for results. */
static enum oriel_status recursive_return(struct ori_reduce_rounds *r)
{
	uint32_t exchanges = recursive_exchanges(r->w->ranks), exchange, partner;
	enum oriel_status status = ORIEL_OK;

	if (!recursive_halves(r))
		return ORIEL_OK;
	for (; r->index <= 2 * exchanges && status == ORIEL_OK; r->index += status == ORIEL_OK) {
		exchange = exchanges - 1 - (r->index - 1) / 2;
		partner = recursive_partner(r, exchange);
		status = r->index % 2 ? ori_reduce_fast_put_result(r, partner,
								   recursive_range(r, exchange + 1))
				      : ori_reduce_fast_take(r, partner, ORI_REDUCE_RESULTS);
	}
	return status;
}

static void recursive_end(struct ori_reduce_rounds *r)
{
	uint32_t exchanges = recursive_exchanges(r->w->ranks);
	struct ori_reduce_part own = recursive_range(r, exchanges);

	ori_reduce_fast_end(r, own, recursive_at(r, exchanges, own.begin));
}

static enum oriel_status recursive_phase(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;

	switch ((enum recursive_phase)r->phase) {
	case RECURSIVE_BEGIN:
		return ori_reduce_rounds_phase(r,
					       recursive_is_added(r) ? RECURSIVE_REST
								     : RECURSIVE_PAIR,
					       recursive_begin(r));
	case RECURSIVE_PAIR:
		if (recursive_is_paired(r))
			status = recursive_pair(r);
		return ori_reduce_rounds_phase(r, RECURSIVE_ADD, status);
	case RECURSIVE_ADD:
		return ori_reduce_rounds_phase(r, RECURSIVE_END, recursive_add(r));
	case RECURSIVE_END:
		recursive_end(r);
		return ori_reduce_rounds_phase(r, RECURSIVE_RETURN, ORIEL_OK);
	case RECURSIVE_RETURN:
		return ori_reduce_rounds_phase(r, RECURSIVE_PASS, recursive_return(r));
	case RECURSIVE_PASS:
		if (recursive_is_paired(r))
			status = ori_reduce_fast_put_result(r, r->w->rank - 1, recursive_all(r));
		return ori_reduce_rounds_end(r, RECURSIVE_DRAIN, status);
	case RECURSIVE_REST:
		return ori_reduce_rounds_end(r, RECURSIVE_DRAIN,
					     ori_reduce_fast_take(r, r->w->rank + 1,
								  ORI_REDUCE_RESULTS));
	case RECURSIVE_DRAIN:
		break;
	}
	return ORIEL_OK;
}

enum oriel_status ori_reduce_recursive_go_on(struct ori_gather_job *job)
{
	return ori_reduce_rounds_go_on(job, recursive_phase, RECURSIVE_DRAIN);
}
