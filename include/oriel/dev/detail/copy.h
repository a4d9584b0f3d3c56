/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a GPU group copy bytes together: 16 bytes at a time, several loads under way
 * in each thread, whatever the alignment. oriel/dev/detail/mapped.h calls it. Plain C, so that it
 * is tested on a CPU, where memcpy() does this work better.
 *
 * No byte outside of the source is read and none outside of the target is written.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_COPY_H
#define ORIEL_DEV_DETAIL_COPY_H

#include <string.h>

#include <oriel/dev/detail/types.h>

/* 16 bytes. Only aligned ones are loaded and stored. */
struct oriel_dev_vector {
	uint32_t word[4];
};

ORIEL_DEV struct oriel_dev_vector ori_dev_vector_load(const char *at)
{
	struct oriel_dev_vector v;

#ifdef __CUDA_ARCH__
	uint4 four = *(const uint4 *)at;

	v.word[0] = four.x;
	v.word[1] = four.y;
	v.word[2] = four.z;
	v.word[3] = four.w;
#else
	memcpy(&v, at, sizeof(v));
#endif
	return v;
}

ORIEL_DEV void ori_dev_vector_store(char *at, struct oriel_dev_vector v)
{
#ifdef __CUDA_ARCH__
	*(uint4 *)at = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
#else
	memcpy(at, &v, sizeof(v));
#endif
}

/* The low 32 bits of {high, low} shifted right by @bits, 0 to 31. */
ORIEL_DEV uint32_t ori_dev_word_shift(uint32_t low, uint32_t high, uint32_t bits)
{
#ifdef __CUDA_ARCH__
	return __funnelshift_r(low, high, bits);
#else
	return (uint32_t)(((uint64_t)high << 32 | low) >> bits);
#endif
}

/* 16 bytes from byte @shift on of the 32 bytes {first, second}. */
ORIEL_DEV struct oriel_dev_vector
ori_dev_vector_join(struct oriel_dev_vector first, struct oriel_dev_vector second, uint32_t shift)
{
	uint32_t w0 = first.word[0], w1 = first.word[1], w2 = first.word[2], w3 = first.word[3];
	uint32_t w4 = second.word[0], w5 = second.word[1], w6 = second.word[2];
	uint32_t w7 = second.word[3], bits = shift % 4 * 8;
	struct oriel_dev_vector v;

	/* Selections, since registers cannot be indexed. */
	if (shift & 8) {
		w0 = w2;
		w1 = w3;
		w2 = w4;
		w3 = w5;
		w4 = w6;
		w5 = w7;
	}
	if (shift & 4) {
		w0 = w1;
		w1 = w2;
		w2 = w3;
		w3 = w4;
		w4 = w5;
	}
	v.word[0] = ori_dev_word_shift(w0, w1, bits);
	v.word[1] = ori_dev_word_shift(w1, w2, bits);
	v.word[2] = ori_dev_word_shift(w2, w3, bits);
	v.word[3] = ori_dev_word_shift(w3, w4, bits);
	return v;
}

/*
 * Vectors that one thread has under way: eight while there are so many, then four, then the
 * rest, up to four. The last are guarded and not a loop of single ones, for then each would
 * wait for the one before; and they begin as zeros, since a variable that is written only in
 * some cases keeps its registers for ever.
 */
#define ORIEL_COPY_MANY 8u
#define ORIEL_COPY_SOME 4u

/* Copy @vectors of each thread, all of which exist. A constant, at most ORIEL_COPY_MANY. */
ORIEL_DEV void ori_dev_copy_round(char *to, const char *from, uint32_t step, uint32_t vectors)
{
	struct oriel_dev_vector v[ORIEL_COPY_MANY];
	uint32_t k;

	ORIEL_DEV_UNROLL
	for (k = 0; k < vectors; k++, from += step)
		v[k] = ori_dev_vector_load(from);
	ORIEL_DEV_UNROLL
	for (k = 0; k < vectors; k++, to += step)
		ori_dev_vector_store(to, v[k]);
}

/* Copy those of ORIEL_COPY_SOME vectors of each thread that begin below @left. */
ORIEL_DEV void ori_dev_copy_rest(char *to, const char *from, uint32_t step, uint32_t left)
{
	struct oriel_dev_vector v[ORIEL_COPY_SOME] = {{{0}}, {{0}}, {{0}}, {{0}}};
	uint32_t k;

	ORIEL_DEV_UNROLL
	for (k = 0; k < ORIEL_COPY_SOME; k++)
		if (k * step < left)
			v[k] = ori_dev_vector_load(from + k * step);
	ORIEL_DEV_UNROLL
	for (k = 0; k < ORIEL_COPY_SOME; k++)
		if (k * step < left)
			ori_dev_vector_store(to + k * step, v[k]);
}

/* Whole group: @length bytes, both ends and the length aligned. */
ORIEL_DEV void ori_dev_copy_aligned(struct oriel_dev_group g, char *to, const char *from,
				    uint64_t length)
{
	uint32_t step = g.size * 16, mine = g.rank * 16;

	to += mine;
	from += mine;
	/* One vector each, or none, with as few instructions as possible: a short message. */
	if (length <= step) {
		if (mine < (uint32_t)length)
			ori_dev_vector_store(to, ori_dev_vector_load(from));
		return;
	}
	ORIEL_DEV_ROLL
	for (; length >= (uint64_t)step * ORIEL_COPY_MANY; length -= step * ORIEL_COPY_MANY) {
		ori_dev_copy_round(to, from, step, ORIEL_COPY_MANY);
		to += step * ORIEL_COPY_MANY;
		from += step * ORIEL_COPY_MANY;
	}
	if (length >= step * ORIEL_COPY_SOME) {
		ori_dev_copy_round(to, from, step, ORIEL_COPY_SOME);
		to += step * ORIEL_COPY_SOME;
		from += step * ORIEL_COPY_SOME;
		length -= step * ORIEL_COPY_SOME;
	}
	if (length > mine)
		ori_dev_copy_rest(to, from, step, (uint32_t)length - mine);
}

/* As ori_dev_copy_round(), from byte @shift on; the second loads are served by the cache. */
ORIEL_DEV void ori_dev_copy_round_joined(char *to, const char *from, uint32_t step, uint32_t shift,
					 uint32_t vectors)
{
	struct oriel_dev_vector low[ORIEL_COPY_SOME], high[ORIEL_COPY_SOME];
	uint32_t k;

	ORIEL_DEV_UNROLL
	for (k = 0; k < vectors; k++, from += step) {
		low[k] = ori_dev_vector_load(from);
		high[k] = ori_dev_vector_load(from + 16);
	}
	ORIEL_DEV_UNROLL
	for (k = 0; k < vectors; k++, to += step)
		ori_dev_vector_store(to, ori_dev_vector_join(low[k], high[k], shift));
}

/*
 * Whole group: @length bytes to @to, from byte @shift on of @from; both and the
 * length aligned, 0 < shift < 16, and 16 more bytes at @from may be read.
 */
ORIEL_DEV void ori_dev_copy_joined(struct oriel_dev_group g, char *to, const char *from,
				   uint64_t length, uint32_t shift)
{
	uint32_t step = g.size * 16, mine = g.rank * 16;

	to += mine;
	from += mine;
	ORIEL_DEV_ROLL
	for (; length >= step * ORIEL_COPY_SOME; length -= step * ORIEL_COPY_SOME) {
		ori_dev_copy_round_joined(to, from, step, shift, ORIEL_COPY_SOME);
		to += step * ORIEL_COPY_SOME;
		from += step * ORIEL_COPY_SOME;
	}
	ORIEL_DEV_ROLL
	for (; length > mine; length -= length < step ? length : step) {
		ori_dev_copy_round_joined(to, from, step, shift, 1);
		to += step;
		from += step;
	}
}

/*
 * The compiler cannot know the arguments of the code below: else it would compute the addresses
 * of a copy in a loop ahead of the loop, and keep them in more registers than there are.
 */
ORIEL_DEV void ori_dev_copy_begin(struct oriel_dev_group *g, char **to, const char **from,
				  uint64_t *length)
{
#ifdef __CUDA_ARCH__
	asm volatile("" : "+r"(g->rank), "+r"(g->size), "+l"(*to), "+l"(*from), "+l"(*length));
#else
	(void)g;
	(void)to;
	(void)from;
	(void)length;
#endif
}

/* Whole group: a few bytes, in the largest units that all of it is aligned to. */
ORIEL_DEV void ori_dev_copy_few(struct oriel_dev_group g, char *to, const char *from,
				uint64_t length)
{
	uint64_t skew = ((uintptr_t)to | (uintptr_t)from | length) & 7, i;

	if (!skew) {
		ORIEL_DEV_ROLL
		for (i = (uint64_t)g.rank * 8; i < length; i += (uint64_t)g.size * 8)
			*(uint64_t *)(void *)(to + i) = *(const uint64_t *)(const void *)(from + i);
	} else if (!(skew & 3)) {
		ORIEL_DEV_ROLL
		for (i = (uint64_t)g.rank * 4; i < length; i += (uint64_t)g.size * 4)
			*(uint32_t *)(void *)(to + i) = *(const uint32_t *)(const void *)(from + i);
	} else {
		ORIEL_DEV_ROLL
		for (i = g.rank; i < length; i += g.size)
			to[i] = from[i];
	}
}

#define ORIEL_COPY_FEW 64u

/*
 * Whole group, @size threads of which this is @rank: a copy that is not aligned. It moves
 * vectors from the first byte on where the target is aligned and the source vectors needed lie
 * inside the source; before and after that less than 32 bytes. A call, so that its many
 * instructions do not lie between the few of a put.
 */
ORIEL_DEV_COLD void ori_dev_copy_odd(uint32_t rank, uint32_t size, char *to, const char *from,
				     uint64_t length)
{
	struct oriel_dev_group g = {rank, size, ORIEL_DEV_THREAD, 0, NULL};
	uint64_t head, body;
	uint32_t shift;

	if (length < ORIEL_COPY_FEW) {
		ori_dev_copy_few(g, to, from, length);
		return;
	}
	head = (0 - (uintptr_t)to) & 15;
	shift = ((uintptr_t)from + head) & 15;
	if (head < shift)
		head += 16;
	if (head)
		ori_dev_copy_few(g, to, from, head);
	to += head;
	from += head;
	length -= head;
	body = ((length + shift) & ~(uint64_t)15) - (shift ? 16 : 0);
	if (shift)
		ori_dev_copy_joined(g, to, from - shift, body, shift);
	else
		ori_dev_copy_aligned(g, to, from, body);
	if (body < length)
		ori_dev_copy_few(g, to + body, from + body, length - body);
}

/* Whole group: target and source do not overlap. */
ORIEL_DEV void ori_dev_copy_wide(struct oriel_dev_group g, void *target, const void *source,
				 uint64_t length)
{
	char *to = (char *)target;
	const char *from = (const char *)source;
	uint32_t skew;

	ori_dev_copy_begin(&g, &to, &from, &length);
	skew = (uint32_t)((uintptr_t)to | (uintptr_t)from | length);
	if (!(skew & 15)) {
		ori_dev_copy_aligned(g, to, from, length);
	} else if (!(skew & 7) && length <= (uint64_t)g.size * 8) {
		if (g.rank * 8 < (uint32_t)length)
			*(uint64_t *)(void *)(to + g.rank * 8) =
				*(const uint64_t *)(const void *)(from + g.rank * 8);
	} else {
		ori_dev_copy_odd(g.rank, g.size, to, from, length);
	}
}

#endif
