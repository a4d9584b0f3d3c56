/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of reductions: folds values of several ranks, in the order and with the bits that
 * oriel/reduce.h defines. Knows no communicator: inputs and outputs are addresses. src/coll calls
 * it. All functions are pure but for the outputs, and any thread may call them.
 */
#ifndef ORI_REDUCE_FOLD_H
#define ORI_REDUCE_FOLD_H

#include <stdbool.h>

#include <oriel/reduce.h>

/* One more than the last of each; no program is compiled with them. fold_type.c asserts both. */
#define ORI_TYPES ((unsigned)ORIEL_TYPE_FP8_E5M2 + 1)
#define ORI_OPS ((unsigned)ORIEL_OP_USER + 1)

/*
 * Loops over elements in plain memory of any alignment. @to is no other argument, and is aligned
 * to 64 where it has the accumulation type.
 */
struct ori_fold_loops {
	/* To the accumulation type; NULL: the element has that type already. */
	void (*widen)(void *to, const void *from, size_t count);
	/* Multiplies @to by *@factor. */
	void (*scale)(void *to, const void *factor, size_t count);
	void (*pair)(void *to, const void *left, const void *right, size_t count);
	/* @to becomes the left operand's result. */
	void (*next)(void *to, const void *right, size_t count);
	/* The end result of @from, a sum of @ranks values. */
	void (*last)(void *to, const void *from, uint32_t ranks, size_t count);
};

/* Loops for one kind of processor. */
struct ori_fold_set {
	const char *name;
	bool (*is_supported)(void);
	/* Those of USER are NULL. */
	struct ori_fold_loops (*find)(enum oriel_type type, enum oriel_op op);
};

/* In order of preference; the last one, plain C, is always supported. Ends with NULL. */
extern const struct ori_fold_set *const ori_fold_sets[];

extern const struct ori_fold_set ori_fold_plain, ori_fold_avx2, ori_fold_avx512;

/* A reduction over @ranks ranks. */
struct ori_fold {
	enum oriel_type type, sum; /* of the elements; of the accumulation */
	enum oriel_op op;
	size_t size, sum_size; /* of these types */
	uint32_t ranks, block;
	const char *factors; /* [ranks] of the type @sum, borrowed; NULL: none */
	void (*function)(void *context, void *left, const void *right, size_t count);
	void *context;
	struct ori_fold_loops loops;
};

/*
 * Checks a reduction of the caller and copies it, of any size that oriel/reduce.h has had. @what
 * names the collective in texts.
 */
enum oriel_status ori_reduction_read(const struct oriel_reduction *given, const char *what,
				     struct oriel_reduction *reduction);

/* @reduction was read, and its block is not 0. @set NULL: the best that is supported. */
void ori_fold_open(struct ori_fold *fold, const struct oriel_reduction *reduction, uint32_t ranks,
		   const char *factors, const struct ori_fold_set *set);

/*
 * The end result of @count elements that begin at @inputs[rank] + @at, to @outs[i] + @at for each
 * of the @copies outputs. An output may be an input, and overlaps none otherwise.
 */
void ori_fold_all(const struct ori_fold *fold, const char *const *inputs, char *const *outs,
		  uint32_t copies, size_t at, size_t count);

/*
 * The left fold of @count elements at inputs[rank], of the ranks from @rank to @end - 1, to @to in
 * the accumulation type; aligned to 64.
 */
void ori_fold_block(const struct ori_fold *fold, const char *const *inputs, uint32_t rank,
		    uint32_t end, char *to, size_t count);

/*
 * The fold of @to, in the accumulation type and aligned to 64, and of the @count elements of @rank
 * at @from: to @to.
 */
void ori_fold_add(const struct ori_fold *fold, char *to, uint32_t rank, const char *from,
		  size_t count);

/* The fold of two in the accumulation type, aligned to 64: to @to, which may be one of them. */
void ori_fold_two(const struct ori_fold *fold, const char *left, const char *right, char *to,
		  size_t count);

/*
 * The end result of @count elements from the folds of all @blocks blocks, which are in the
 * accumulation type and aligned to 64: to @out.
 */
void ori_fold_sums(const struct ori_fold *fold, const char *const *sums, uint32_t blocks, char *out,
		   size_t count);

/*
 * fold_mode.c: the mode of the floating-point unit that the arithmetic needs. end() restores what
 * begin() returned.
 */
uint64_t ori_fold_mode_begin(void);
void ori_fold_mode_end(uint64_t before);

#endif
