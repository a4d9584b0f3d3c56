/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a reduction: rows of elements of each rank, in windows or in the staging, and the
 * rounds through the latter; dev/reduction.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_REDUCTION_H
#define ORIEL_DEV_DETAIL_REDUCTION_H

#include <oriel/dev/detail/fold.h>
#include <oriel/dev/detail/gather.h>

/*
 * The types that models have most are known to the compiler in @statement, which reads @f, and so
 * is that there are no factors, the code for which costs 0.2 us even where it is not executed. The
 * others share one text.
 */
#define ORIEL_FOLD_BY_TYPE(f, statement)                       \
	switch ((f).factors ? 0 : (f).type) {                  \
		ORIEL_FOLD_CASE(f, ORIEL_TYPE_FP32, statement) \
		ORIEL_FOLD_CASE(f, ORIEL_TYPE_BF16, statement) \
		ORIEL_FOLD_CASE(f, ORIEL_TYPE_FP16, statement) \
	default:                                               \
		statement;                                     \
	}
#define ORIEL_FOLD_CASE(f, known, statement)            \
	case known:                                     \
		(f).type = known;                       \
		(f).factors = NULL;                     \
		(f).is_sum = ori_dev_fold_is_sum(&(f)); \
		statement;                              \
		break;

/*
 * The first @length bytes of a vector at any address. A call, so that its many instructions do not
 * lie between those for aligned vectors.
 */
ORIEL_DEV_COLD struct oriel_dev_vector ori_dev_vector_load_odd(const char *at, uint32_t length)
{
	struct oriel_dev_vector v = {{0}};
	uint32_t i;

	if (length == 16 && !((uintptr_t)at & 3)) {
		ORIEL_DEV_UNROLL
		for (i = 0; i < 4; i++)
			v.word[i] = *(const uint32_t *)(const void *)(at + 4 * i);
		return v;
	}
	ORIEL_DEV_UNROLL
	for (i = 0; i < 16; i++)
		if (i < length)
			v.word[i / 4] |= (uint32_t)(unsigned char)at[i] << i % 4 * 8;
	return v;
}

ORIEL_DEV_COLD void ori_dev_vector_store_odd(char *at, struct oriel_dev_vector v, uint32_t length)
{
	uint32_t i;

	if (length == 16 && !((uintptr_t)at & 3)) {
		ORIEL_DEV_UNROLL
		for (i = 0; i < 4; i++)
			*(uint32_t *)(void *)(at + 4 * i) = v.word[i];
		return;
	}
	ORIEL_DEV_UNROLL
	for (i = 0; i < 16; i++)
		if (i < length)
			at[i] = (char)(v.word[i / 4] >> i % 4 * 8);
}

ORIEL_DEV struct oriel_dev_vector ori_dev_vector_load_any(const char *at, uint32_t length)
{
	if (ORIEL_DEV_OFTEN(!((uintptr_t)at & 15) & (length == 16)))
		return ori_dev_vector_load(at);
	return ori_dev_vector_load_odd(at, length);
}

ORIEL_DEV void ori_dev_vector_store_any(char *at, struct oriel_dev_vector v, uint32_t length)
{
	if (ORIEL_DEV_OFTEN(!((uintptr_t)at & 15) & (length == 16)))
		ori_dev_vector_store(at, v);
	else
		ori_dev_vector_store_odd(at, v, length);
}

ORIEL_DEV struct oriel_dev_vector ori_dev_vector_of(uint64_t low, uint64_t high)
{
	struct oriel_dev_vector v = {
		{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};

	return v;
}

/* The first @length bytes of a vector that is most often one or two words at their addresses. */
ORIEL_DEV struct oriel_dev_vector ori_dev_vector_load_words(const char *at, uint32_t length)
{
	const uint64_t *word = (const uint64_t *)(const void *)at;

	if (ORIEL_DEV_OFTEN(!(((uintptr_t)at | length) & 7) & (length > 0)))
		return ori_dev_vector_of(word[0], length > 8 ? word[1] : 0);
	return ori_dev_vector_load_odd(at, length);
}

ORIEL_DEV void ori_dev_vector_store_words(char *at, struct oriel_dev_vector v, uint32_t length)
{
	uint64_t *word = (uint64_t *)(void *)at;

	if (ORIEL_DEV_OFTEN(!(((uintptr_t)at | length) & 7) & (length > 0))) {
		word[0] = v.word[0] | (uint64_t)v.word[1] << 32;
		if (length > 8)
			word[1] = v.word[2] | (uint64_t)v.word[3] << 32;
		return;
	}
	ori_dev_vector_store_odd(at, v, length);
}

/* The byte @at of mapped @rank, which exists. */
ORIEL_DEV char *ori_dev_reduce_address(const struct oriel_dev_window *w, uint32_t rank, uint64_t at)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	const struct oriel_dev_buffer *entry = &w->table[buffer * w->ranks + rank];
#ifdef __CUDA_ARCH__
	uint64_t base;

	if (!buffer && ori_dev_is_inline(w, rank))
		return ori_dev_inline_of(w, rank)->base + offset;
	/* As ori_dev_table_buffer(), but moved ahead of loops. */
	asm("ld.global.nc.u64 %0, [%1];" : "=l"(base) : "l"(entry));
	return (char *)base + offset;
#else
	return entry->base + offset;
#endif
}

/*
 * The elements of all ranks: at one offset of their windows, or in memory of this rank. A pointer
 * that is the window or NULL would keep the window in local memory.
 */
struct oriel_dev_rows {
	const struct oriel_dev_window *window;
	bool is_in_windows; /* at @at; the next fields count otherwise */
	uint64_t at;
	const char *base; /* the row of rank r lies r * @stride behind */
	uint64_t stride;
	const char *own; /* the row of @rank; NULL: it is one of those */
	uint32_t rank;
	bool is_aligned; /* and there are whole vectors: loads may go beyond the length */
};

ORIEL_DEV const char *ori_dev_reduce_row(const struct oriel_dev_rows *rows, uint32_t rank)
{
	if (rows->is_in_windows)
		return ori_dev_reduce_address(rows->window, rank, rows->at);
	if (rows->own && rank == rows->rank)
		return rows->own;
	return rows->base + rank * rows->stride;
}

/* Where results go: to one offset of the windows of all ranks, or to memory of this rank. */
struct oriel_dev_results {
	const struct oriel_dev_window *window;
	bool is_to_all; /* at @at; else to @to */
	uint64_t at;
	char *to;
};

/* Each rank begins with another one, so that no rank is the first target of all. */
ORIEL_DEV void ori_dev_reduce_store(const struct oriel_dev_results *results, uint64_t at,
				    struct oriel_dev_vector v, uint32_t length)
{
	const struct oriel_dev_window *w = results->window;
	uint32_t i;

	if (!results->is_to_all) {
		ori_dev_vector_store_any(results->to + at, v, length);
		return;
	}
	ORIEL_DEV_ROLL
	for (i = 0; i < w->ranks; i++)
		ori_dev_vector_store_any(ori_dev_reduce_address(w, ori_dev_rank_after(w, i),
								results->at) +
						 at,
					 v, length);
}

/* The sums of one vector of all ranks. */
ORIEL_DEV struct oriel_dev_folding ori_dev_reduce_add(const struct oriel_dev_fold *f,
						      const struct oriel_dev_rows *rows,
						      uint64_t at, uint32_t length)
{
	struct oriel_dev_vector v[ORIEL_FOLD_BATCH] = {{{0}}, {{0}}, {{0}}, {{0}}};
	struct oriel_dev_folding p = ori_dev_fold_begin();
	uint32_t first, k;
	const char *row;

	ORIEL_DEV_ROLL
	for (first = 0; first < f->ranks; first += ORIEL_FOLD_BATCH) {
		ORIEL_DEV_UNROLL
		for (k = 0; k < ORIEL_FOLD_BATCH; k++) {
			if (first + k >= f->ranks)
				continue;
			row = ori_dev_reduce_row(rows, first + k) + at;
			v[k] = rows->is_aligned ? ori_dev_vector_load(row)
						: ori_dev_vector_load_any(row, length);
		}
		ori_dev_fold_batch(f, &p, first, v);
	}
	return p;
}

/* Whole group; not synchronised. A CPU has a group of one thread, or a team. */
ORIEL_DEV void ori_dev_reduce_rows(struct oriel_dev_group g, struct oriel_dev_fold f,
				   const struct oriel_dev_rows *rows,
				   const struct oriel_dev_results *results, uint64_t length)
{
	uint64_t at, step = (uint64_t)g.size * 16;
	struct oriel_dev_folding p;
	uint32_t run;

	ORIEL_DEV_ROLL
	for (at = (uint64_t)g.rank * 16; at < length; at += step) {
		run = length - at < 16 ? (uint32_t)(length - at) : 16;
		p = ori_dev_reduce_add(&f, rows, at, run);
		ori_dev_reduce_store(results, at, ori_dev_fold_end(&f, &p), run);
	}
}

/* A reduction of the caller over the ranks of @w; ORIEL_ERR_INVALID: kernels do not have it. */
ORIEL_DEV enum oriel_status ori_dev_reduce_check(const struct oriel_dev_window *w,
						 const struct oriel_dev_reduction *r,
						 struct oriel_dev_fold *f)
{
	enum oriel_status status = ori_dev_check_any(w, ORIEL_DEV_REDUCE, 0, 1);
	/* 0 is refused as the one below it is, which no type or operation has. */
	uint32_t last = ori_dev_type_is_float(r->type) ? ORIEL_OP_AVG : ORIEL_OP_BXOR;
	bool has_factors = r->op == ORIEL_OP_PREMUL_SUM && r->factors;
	uint32_t op = has_factors ? (uint32_t)ORIEL_OP_SUM : r->op;

	if (status == ORIEL_OK)
		status = ori_dev_check_choice(w, ORIEL_DEV_REDUCE, r->type - 1,
					      ORIEL_TYPE_FP8_E5M2 - 1);
	if (status == ORIEL_OK)
		status = ori_dev_check_choice(w, ORIEL_DEV_REDUCE, op - 1, last - 1);
	f->type = r->type;
	f->op = r->op;
	f->ranks = w->ranks;
	f->block = r->block ? r->block : w->ranks;
	f->factors = r->op == ORIEL_OP_PREMUL_SUM ? r->factors : NULL;
	f->is_sum = false;
	return status;
}

/* Do @length bytes at @at exist at all ranks, and are they mapped? */
ORIEL_DEV enum oriel_status ori_dev_reduce_check_all(const struct oriel_dev_window *w, uint64_t at,
						     uint64_t length)
{
	struct oriel_dev_target target;
	enum oriel_status status;
	uint32_t rank;

	ORIEL_DEV_ROLL
	for (rank = 0; rank < w->ranks; rank++) {
		status = ori_dev_check_range(w, ORIEL_DEV_REDUCE, rank, at, length, &target);
		if (status != ORIEL_OK)
			return status;
		if (ori_dev_usable(target.peer.path) != ORIEL_PATH_SELF &&
		    ori_dev_usable(target.peer.path) != ORIEL_PATH_MAPPED)
			return ORIEL_ERR_NO_PATH;
	}
	return ORIEL_OK;
}

/* Bytes of @count elements, or more than any window has. */
ORIEL_DEV uint64_t ori_dev_reduce_bytes(const struct oriel_dev_fold *f, uint64_t count)
{
	return count >> 60 ? UINT64_MAX : count * ori_dev_type_size(f->type);
}

/*
 * Whole group: waits until all peers have added up to @value or more to signal @id of this rank,
 * which counts from the creation of the window on. The result for all is that of any thread, or
 * what it came with, its own @status: then it does not wait.
 */
ORIEL_DEV enum oriel_status ori_dev_reduce_await(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t id,
						 uint64_t value, enum oriel_status status,
						 uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, value, ORIEL_GE, ORIEL_DEV_WAIT_SIGNAL_FROM, 0, id};
	uint64_t seen;
	uint32_t i;

	if (ori_dev_awaits(w, g) && ORIEL_DEV_OFTEN(status == ORIEL_OK)) {
		aim.peer = ori_dev_first_peer(w, g);
		for (i = 1 + g.rank;; i += g.size) {
			aim.word = ori_dev_mapped_inbox(w, aim.peer, id);
			status = ori_dev_poll_word(w, g, &aim, timeout_ns, &seen);
			if (ORIEL_DEV_OFTEN(status == ORIEL_OK))
				ori_dev_acquire_each(aim.word);
			if (i + g.size >= w->ranks || status != ORIEL_OK)
				break;
			aim.peer = ori_dev_rank_after(w, i + g.size);
		}
		ori_dev_acquire_all();
	}
	return oriel_dev_vote(g, status);
}

/*
 * Slots of each pair of ranks for one part. Three would do; a GPU divides by four at once, and by
 * three in 0.4 us.
 */
#define ORIEL_REDUCE_DEPTH 4u

/* One execution through the slots of the staging. */
struct oriel_dev_reduce_run {
	const struct oriel_dev_window *w;
	const struct oriel_dev_gather *c;
	struct oriel_dev_fold fold;
	const char *from;
	uint64_t length; /* of a message */
	uint64_t piece;  /* of the message, the most of any rank */
	uint64_t step;   /* between the pieces of two ranks */
	uint64_t chunk;  /* of a piece, in one round */
	uint64_t timeout_ns;
	uint32_t part, parts;
	bool is_to_all; /* each rank reduces a piece and stores it to all; else to its own result */
};

/* Bytes of chunk @index of the piece of @rank, which begins at *@begin of it. */
ORIEL_DEV uint64_t ori_dev_reduce_chunk(const struct oriel_dev_reduce_run *r, uint32_t rank,
					uint64_t index, uint64_t *begin)
{
	uint64_t end = r->piece;

	*begin = index * r->chunk;
	if (r->is_to_all)
		end = rank * r->piece >= r->length             ? 0
		      : r->length - rank * r->piece < r->piece ? r->length - rank * r->piece
							       : r->piece;
	if (*begin >= end)
		return 0;
	return end - *begin < r->chunk ? end - *begin : r->chunk;
}

/*
 * The slot for the elements of @source in round @number. A rank sends those of round n after it has
 * those of round n - 2 of all ranks, which its peers signalled after they had reduced round n - 3:
 * so the slot of that round is free.
 */
ORIEL_DEV uint64_t ori_dev_reduce_slot(const struct oriel_dev_reduce_run *r, uint64_t number,
				       uint32_t source)
{
	uint64_t turn = (uint64_t)r->part * ORIEL_REDUCE_DEPTH + number % ORIEL_REDUCE_DEPTH;

	return r->c->staging + (turn * r->w->ranks + source) * r->c->slot;
}

/* Where the elements of this rank in chunk @index of its own piece are read from. */
ORIEL_DEV const char *ori_dev_reduce_own(const struct oriel_dev_reduce_run *r, uint64_t index)
{
	return r->from + r->w->rank * r->step + index * r->chunk;
}

/* May vectors of this rank's elements be loaded where they are? */
ORIEL_DEV bool ori_dev_reduce_is_plain(const struct oriel_dev_reduce_run *r, uint64_t index,
				       uint64_t length)
{
	return !(((uintptr_t)ori_dev_reduce_own(r, index) | length) & 15);
}

/*
 * Whole group: puts the chunks @index to the slots of their owners, for round @number of this part,
 * which no signal says yet.
 */
ORIEL_DEV enum oriel_status ori_dev_reduce_send(const struct oriel_dev_reduce_run *r,
						struct oriel_dev_group g, uint64_t index,
						uint64_t number)
{
	const struct oriel_dev_window *w = r->w;
	enum oriel_status status = ORIEL_OK;
	uint64_t begin, length;
	uint32_t i, peer;

	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		peer = ori_dev_rank_after(w, i);
		length = ori_dev_reduce_chunk(r, peer, index, &begin);
		status = oriel_dev_put(w, g, peer, ori_dev_reduce_slot(r, number, w->rank),
				       r->from + peer * r->step + begin, length, NULL);
	}
	length = ori_dev_reduce_chunk(r, w->rank, index, &begin);
	if (status == ORIEL_OK && !ori_dev_reduce_is_plain(r, index, length))
		ori_dev_mapped_copy(g,
				    ori_dev_reduce_address(w, w->rank,
							   ori_dev_reduce_slot(r, number, w->rank)),
				    ori_dev_reduce_own(r, index), length);
	return status;
}

/*
 * Whole group: signals to all peers that the chunks of a round are in their slots, and that what
 * was in those of the one before is reduced. The result is that of the calling thread, for the next
 * vote: a barrier here would let the link idle while the stores of the group drain. The last
 * threads do it, since the first ones wait for peers next.
 */
ORIEL_DEV enum oriel_status ori_dev_reduce_signal(const struct oriel_dev_reduce_run *r,
						  struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK, signaled;
	uint32_t i;

	oriel_dev_sync(g);
	for (i = g.size - g.rank; i < r->w->ranks; i += g.size) {
		signaled = ori_dev_apply_signal(r->w, oriel_dev_thread(),
						ori_dev_rank_after(r->w, i), r->c->id + 2 * r->part,
						ORIEL_SIGNAL_ADD, 1, true, NULL);
		if (signaled != ORIEL_OK)
			status = signaled;
	}
	return status;
}

/*
 * Whole group: reduces the chunk @index of this rank's piece, which came in round @number.
 * @signaled is what ori_dev_reduce_signal() gave the thread.
 */
ORIEL_DEV enum oriel_status ori_dev_reduce_fold(const struct oriel_dev_reduce_run *r,
						struct oriel_dev_group g, uint64_t index,
						uint64_t number, enum oriel_status signaled)
{
	const struct oriel_dev_window *w = r->w;
	uint32_t id = r->c->id + 2 * r->part;
	enum oriel_status status = ori_dev_reduce_await(w, g, id, number, signaled, r->timeout_ns);
	uint64_t begin, length = ori_dev_reduce_chunk(r, w->rank, index, &begin);
	struct oriel_dev_rows rows = {w, false, 0, NULL, r->c->slot, NULL, w->rank, true};
	struct oriel_dev_results results = {w, r->is_to_all, 0, NULL};
	struct oriel_dev_fold f = r->fold;

	if (status != ORIEL_OK)
		return status;
	rows.base = ori_dev_reduce_address(w, w->rank, ori_dev_reduce_slot(r, number, 0));
	if (ori_dev_reduce_is_plain(r, index, length))
		rows.own = ori_dev_reduce_own(r, index);
	if (r->is_to_all)
		results.at = r->c->to + w->rank * r->step + begin;
	else
		results.to = r->c->result + begin;
	if (length)
		ORIEL_FOLD_BY_TYPE(f, ori_dev_reduce_rows(g, f, &rows, &results, length))
	return ORIEL_OK;
}

/*
 * Whole group: all rounds of a part. A rank sends the chunks of a round before it reduces those of
 * the one before, and signals them after that: the link has bytes meanwhile, and the stores drain.
 * @is_to_all: the result is complete when all owners have signalled the number of the last round,
 * behind their stores.
 */
ORIEL_DEV enum oriel_status ori_dev_reduce_rounds(const struct oriel_dev_reduce_run *r,
						  struct oriel_dev_group g)
{
	uint64_t *count = ori_dev_gather_count(r->w, r->c, r->part);
	uint64_t number = oriel_dev_load_relaxed(count), index = r->part, last;
	enum oriel_status status = ORIEL_OK, signaled = ORIEL_OK;
	uint32_t id = r->c->id + 2 * r->part + 1;
	bool is_first = true, is_sending;

	if (index * r->chunk >= r->piece)
		return ORIEL_OK;
	last = number;
	ORIEL_DEV_ROLL
	for (; status == ORIEL_OK; index += r->parts) {
		is_sending = index * r->chunk < r->piece;
		if (is_sending)
			status = ori_dev_reduce_send(r, g, index, ++last);
		if (!is_first && status == ORIEL_OK)
			status = ori_dev_reduce_fold(r, g, index - r->parts, ++number, signaled);
		if (!is_sending)
			break;
		if (status == ORIEL_OK)
			signaled = ori_dev_reduce_signal(r, g);
		is_first = false;
	}
	/* All threads have loaded it, and synchronised since. */
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(count, last);
	if (status == ORIEL_OK && r->is_to_all)
		status = oriel_dev_signal_all(r->w, g, id, ORIEL_SIGNAL_SET, last);
	if (status == ORIEL_OK && r->is_to_all)
		status = ori_dev_reduce_await(r->w, g, id, last, ORIEL_OK, r->timeout_ns);
	/* Results of other threads are complete as well. */
	return oriel_dev_vote(g, status);
}

/*
 * Whole group: oriel_dev_reduce_owners() if each rank reduces a piece for all, else
 * oriel_dev_reduce_slots(): one text of the loops, where a kernel has both.
 */
ORIEL_DEV enum oriel_status
ori_dev_reduce_staged(const struct oriel_dev_window *w, struct oriel_dev_group g,
		      const struct oriel_dev_gather *c, const struct oriel_dev_reduction *r,
		      uint32_t part, uint32_t parts, const void *from, uint64_t count,
		      uint64_t timeout_ns, bool is_to_all)
{
	struct oriel_dev_reduce_run run = {w,
					   c,
					   {0, 0, 0, 0, NULL, false},
					   (const char *)from,
					   0,
					   0,
					   0,
					   0,
					   timeout_ns,
					   part,
					   parts,
					   is_to_all};
	enum oriel_status status = ori_dev_reduce_check(w, r, &run.fold);

	if (status == ORIEL_OK)
		status = ori_dev_gather_check(w, c, part, parts);
	/* The rounds wait for no NIC, and one of the owners stores to addresses of all. */
	if (status == ORIEL_OK && w->rails)
		status = ori_dev_reduce_check_all(w, 0, 0);
	if (status != ORIEL_OK || !count)
		return status;
	run.length = ori_dev_reduce_bytes(&run.fold, count);
	run.piece = run.length;
	run.step = c->stride;
	if (is_to_all)
		run.step = run.piece =
			((run.length + w->ranks - 1) / w->ranks + 127) & ~(uint64_t)127;
	run.chunk = ((run.piece + parts - 1) / parts + 127) & ~(uint64_t)127;
	/* The first of several rounds and the last overlap with none: they are short. */
	if (run.chunk > c->slot)
		run.chunk = (c->slot / 2 + 127) & ~(uint64_t)127;
	return ori_dev_reduce_rounds(&run, g);
}

#endif
