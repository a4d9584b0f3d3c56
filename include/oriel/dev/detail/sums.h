/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reduction in two steps, with the sums of each block of the order in memory between them;
 * kernels of the library call it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_SUMS_H
#define ORIEL_DEV_DETAIL_SUMS_H

#include <oriel/dev/detail/reduction.h>

/*
 * Vectors of the sums of one vector of elements, in memory. Sums of integers have the bits of their
 * type there, since results need no others, but averages and floats those of the words in which
 * they are added.
 */
ORIEL_DEV uint32_t ori_dev_fold_vectors(const struct oriel_dev_fold *f)
{
	uint32_t size = ori_dev_type_size(f->type);
	bool is_exact = !ori_dev_type_is_float(f->type) && f->op != ORIEL_OP_AVG;

	if (is_exact || size == 8 || (size == 4 && !ori_dev_fold_is_wide(f)))
		return 1;
	return size == 1 ? 4 : 2;
}

/* Vector @index of the sums @s in memory. A NaN of any sign has one result. */
ORIEL_DEV struct oriel_dev_vector ori_dev_fold_save(const struct oriel_dev_fold *f,
						    const struct oriel_dev_sums *s, uint32_t index)
{
	struct oriel_dev_vector v = {{0}};
	uint32_t i;

	if (ori_dev_fold_vectors(f) == 1)
		return ori_dev_fold_narrow(f, s);
	ORIEL_FOLD_EACH(i, 16u)
	if (i / 4 == index)
		v.word[i % 4] = s->word[i];
	return v;
}

/* The sums that lie in vectors @v, of which there are as many as they have. */
ORIEL_DEV struct oriel_dev_sums ori_dev_fold_restore(const struct oriel_dev_fold *f,
						     const struct oriel_dev_vector *v)
{
	struct oriel_dev_sums s = {{0}};
	uint32_t vectors = ori_dev_fold_vectors(f), i;

	if (vectors == 1)
		return ori_dev_fold_widen(f, v);
	ORIEL_FOLD_EACH(i, 4 * vectors)
	s.word[i] = v[i / 4].word[i % 4];
	return s;
}

/*
 * Whole group; not synchronised: the sums of the ranks of @f, which are one block, to @to, aligned
 * to 16. Those of the last vector are whole: nothing reads what is behind the elements.
 */
ORIEL_DEV void ori_dev_reduce_block(struct oriel_dev_group g, struct oriel_dev_fold f,
				    const struct oriel_dev_rows *rows, char *to, uint64_t length)
{
	uint64_t at, step = (uint64_t)g.size * 16;
	uint32_t vectors = ori_dev_fold_vectors(&f), run, k;
	struct oriel_dev_folding p;

	ORIEL_DEV_ROLL
	for (at = (uint64_t)g.rank * 16; at < length; at += step) {
		run = length - at < 16 ? (uint32_t)(length - at) : 16;
		p = ori_dev_reduce_add(&f, rows, at, run);
		ORIEL_DEV_UNROLL
		for (k = 0; k < 4; k++)
			if (k < vectors)
				ori_dev_vector_store(to + at * vectors + 16 * k,
						     ori_dev_fold_save(&f, &p.total, k));
	}
}

/*
 * Whole group; not synchronised: the end results of @length bytes from the sums of all @blocks.
 * Those of block b lie b * @stride behind @from, aligned to 16.
 */
ORIEL_DEV void ori_dev_reduce_sums(struct oriel_dev_group g, struct oriel_dev_fold f,
				   const char *from, uint64_t stride, uint32_t blocks,
				   const struct oriel_dev_results *results, uint64_t length)
{
	uint64_t at, step = (uint64_t)g.size * 16;
	uint32_t vectors = ori_dev_fold_vectors(&f), block, k;

	ORIEL_DEV_ROLL
	for (at = (uint64_t)g.rank * 16; at < length; at += step) {
		struct oriel_dev_vector v[4] = {{{0}}, {{0}}, {{0}}, {{0}}};
		struct oriel_dev_folding p = {{{0}}, {{0}}, 0, false};
		struct oriel_dev_sums sums;

		ORIEL_DEV_ROLL
		for (block = 0; block < blocks; block++) {
			ORIEL_DEV_UNROLL
			for (k = 0; k < 4; k++)
				if (k < vectors)
					v[k] = ori_dev_vector_load(from + block * stride +
								   at * vectors + 16 * k);
			sums = ori_dev_fold_restore(&f, v);
			if (block)
				ori_dev_fold_combine(&f, &p.total, &sums);
			else
				p.total = sums;
		}
		ori_dev_reduce_store(results, at, ori_dev_fold_end(&f, &p),
				     length - at < 16 ? (uint32_t)(length - at) : 16);
	}
}

#endif
