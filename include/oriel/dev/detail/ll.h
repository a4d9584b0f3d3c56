/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines in the format of dev/ll.h, which calls it, and so do messages.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_LL_H
#define ORIEL_DEV_DETAIL_LL_H

#include <oriel/dev/detail/check.h>
#include <oriel/dev/lines.h>

/* Lines that one thread has under way, if there are more lines than threads. */
#define ORIEL_LL_BATCH 4u

/*
 * The memory for the lines of a message: line i at byte ((first + i) * ORIEL_LL_LINE) & mask of
 * @base, with flag @flag + i * @stride.
 */
struct ori_dev_ll_slot {
	char *base;
	uint64_t first;
	uint64_t mask;
	uint32_t flag;
	uint32_t stride;
};

ORIEL_DEV uint64_t *ori_dev_ll_line(const struct ori_dev_ll_slot *slot, uint32_t line)
{
	return (uint64_t *)(void *)(slot->base +
				    ((slot->first + line) * ORIEL_LL_LINE & slot->mask));
}

ORIEL_DEV uint32_t ori_dev_ll_flag(const struct ori_dev_ll_slot *slot, uint32_t line)
{
	return slot->flag + line * slot->stride;
}

/* A message in the memory of the caller. */
struct ori_dev_ll_text {
	char *at;
	uint32_t length;
	uint32_t lines;
	bool is_even; /* of whole, aligned words */
};

ORIEL_DEV struct ori_dev_ll_text ori_dev_ll_text_of(const void *at, uint64_t length)
{
	struct ori_dev_ll_text text = {(char *)at, (uint32_t)length, (uint32_t)(length + 7) / 8,
				       !(((uintptr_t)at | length) & 7)};

	return text;
}

/* Bytes of @text in line @line. */
ORIEL_DEV uint32_t ori_dev_ll_run(const struct ori_dev_ll_text *text, uint32_t line)
{
	return text->length - line * 8 < 8 ? text->length - line * 8 : 8;
}

ORIEL_DEV uint64_t ori_dev_ll_take(const struct ori_dev_ll_text *text, uint32_t line)
{
	const char *from = text->at + (uint64_t)line * 8;
	uint32_t length, i;
	uint64_t value = 0;

	if (ORIEL_DEV_OFTEN(text->is_even))
		return *(const uint64_t *)(const void *)from;
	length = ori_dev_ll_run(text, line);
	ORIEL_DEV_ROLL
	for (i = 0; i < length; i++)
		value |= (uint64_t)(unsigned char)from[i] << 8 * i;
	return value;
}

ORIEL_DEV void ori_dev_ll_give(const struct ori_dev_ll_text *text, uint32_t line, uint64_t value)
{
	char *to = text->at + (uint64_t)line * 8;
	uint32_t length, i;

	if (ORIEL_DEV_OFTEN(text->is_even)) {
		*(uint64_t *)(void *)to = value;
		return;
	}
	length = ori_dev_ll_run(text, line);
	ORIEL_DEV_ROLL
	for (i = 0; i < length; i++)
		to[i] = (char)(value >> 8 * i);
}

/*
 * Line k of a batch that begins at @line, which exists, and takes every @step-th. For a line
 * that does not exist the last line of all stands in: a load that depends on nothing is under
 * way with the others, and a waiter waits for no more than all.
 */
ORIEL_DEV uint32_t ori_dev_ll_nth(const struct ori_dev_ll_text *text, uint32_t line, uint32_t step,
				  uint32_t k)
{
	uint32_t i = line + k * step;

	return k && i >= text->lines ? text->lines - 1 : i;
}

/* Write the lines of ori_dev_ll_nth() that exist, for each k below @batch, a constant. */
ORIEL_DEV void ori_dev_ll_write_batch(const struct ori_dev_ll_slot *slot,
				      const struct ori_dev_ll_text *text, uint32_t line,
				      uint32_t step, uint32_t batch)
{
	uint64_t value[ORIEL_LL_BATCH];
	uint32_t k;

	ORIEL_DEV_UNROLL
	for (k = 0; k < batch; k++)
		value[k] = ori_dev_ll_take(text, ori_dev_ll_nth(text, line, step, k));
	ORIEL_DEV_UNROLL
	for (k = 0; k < batch; k++) {
		uint32_t i = line + k * step;
		uint64_t flag = (uint64_t)ori_dev_ll_flag(slot, i) << 32;

		if (!k || i < text->lines)
			ori_dev_store_pair_relaxed(ori_dev_ll_line(slot, i),
						   flag | (uint32_t)value[k],
						   flag | value[k] >> 32);
	}
}

/*
 * Whole group: write the lines of @length bytes at @from. The text occurs twice, so that the
 * code for whole words does not ask for each whether it is one.
 */
ORIEL_DEV void ori_dev_ll_write(struct oriel_dev_group g, const struct ori_dev_ll_slot *slot,
				const void *from, uint64_t length)
{
	struct ori_dev_ll_text text = ori_dev_ll_text_of(from, length);
	uint32_t line = g.rank;

	if (!ORIEL_DEV_OFTEN(text.is_even)) {
		ORIEL_DEV_ROLL
		for (; line < text.lines; line += g.size)
			ori_dev_ll_write_batch(slot, &text, line, g.size, 1);
		return;
	}
	text.is_even = true;
	/* With as few instructions as possible, and each on its own: a short message. */
	if (ORIEL_DEV_OFTEN(text.lines <= g.size)) {
		if (line < text.lines)
			ori_dev_ll_write_batch(slot, &text, line, g.size, 1);
		return;
	}
	if (text.lines <= g.size * 2) {
		ori_dev_ll_write_batch(slot, &text, line, g.size, 2);
		return;
	}
	ORIEL_DEV_ROLL
	for (; line < text.lines; line += g.size * ORIEL_LL_BATCH)
		ori_dev_ll_write_batch(slot, &text, line, g.size, ORIEL_LL_BATCH);
}

/* 0 once both words of @line of @slot have arrived. *@value is their data then. */
ORIEL_DEV uint32_t ori_dev_ll_poll_line(const struct ori_dev_ll_slot *slot, uint32_t line,
					uint64_t *value)
{
	uint32_t flag = ori_dev_ll_flag(slot, line);
	uint64_t low, high;

	ori_dev_load_pair_relaxed(ori_dev_ll_line(slot, line), &low, &high);
	*value = high << 32 | (uint32_t)low;
	return ((uint32_t)(low >> 32) ^ flag) | ((uint32_t)(high >> 32) ^ flag);
}

/*
 * One thread: have the lines of ori_dev_ll_write_batch() arrived? Then @value is their data. One
 * line of a thread's own is polled ORIEL_DEV_POLLS_PER_TURN times.
 */
ORIEL_DEV bool ori_dev_ll_arrived(const struct ori_dev_ll_slot *slot,
				  const struct ori_dev_ll_text *text, uint32_t line, uint32_t step,
				  uint32_t batch, uint64_t value[ORIEL_LL_BATCH])
{
	uint32_t missing, i, k;

	ORIEL_DEV_UNROLL_FEW
	for (i = 0; i < (batch == 1 ? ORIEL_DEV_POLLS_PER_TURN : 1); i++) {
		missing = 0;
		ORIEL_DEV_UNROLL
		for (k = 0; k < batch; k++)
			missing |= ori_dev_ll_poll_line(slot, ori_dev_ll_nth(text, line, step, k),
							&value[k]);
		if (ORIEL_DEV_OFTEN(!missing))
			return true;
	}
	return false;
}

/* One thread: wait for the same lines. */
ORIEL_DEV enum oriel_status ori_dev_ll_read_batch(const struct ori_dev_ll_slot *slot,
						  const struct ori_dev_ll_text *text, uint32_t line,
						  uint32_t step, uint32_t batch,
						  struct oriel_dev_waiter *waiter,
						  struct oriel_dev_aim *aim)
{
	uint64_t value[ORIEL_LL_BATCH];
	enum oriel_status status;
	uint32_t k;

	while (!ORIEL_DEV_OFTEN(ori_dev_ll_arrived(slot, text, line, step, batch, value))) {
		aim->operand = ori_dev_ll_flag(slot, line);
		status = batch == 1 ? ori_dev_wait_turn(waiter, aim, line)
				    : ori_dev_wait_step(waiter, aim, line);
		if (status != ORIEL_AGAIN)
			return status;
	}
	ORIEL_DEV_UNROLL
	for (k = 0; k < batch; k++)
		if (!k || line + k * step < text->lines)
			ori_dev_ll_give(text, line + k * step, value[k]);
	return ORIEL_OK;
}

/*
 * Whole group, each thread for its own lines: wait for those of @length bytes and
 * unpack them to @to. Not synchronised at the end.
 */
ORIEL_DEV enum oriel_status ori_dev_ll_read(const struct oriel_dev_window *w,
					    struct oriel_dev_group g,
					    const struct ori_dev_ll_slot *slot, void *to,
					    uint64_t length, struct oriel_dev_aim *aim,
					    uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, g, timeout_ns);
	struct ori_dev_ll_text text = ori_dev_ll_text_of(to, length);
	enum oriel_status status = ORIEL_OK;
	uint32_t line = g.rank;

	if (!ORIEL_DEV_OFTEN(text.is_even)) {
		ORIEL_DEV_ROLL
		for (; line < text.lines && status == ORIEL_OK; line += g.size)
			status = ori_dev_ll_read_batch(slot, &text, line, g.size, 1, &waiter, aim);
		return status;
	}
	text.is_even = true;
	if (ORIEL_DEV_OFTEN(text.lines <= g.size))
		return line < text.lines
			       ? ori_dev_ll_read_batch(slot, &text, line, g.size, 1, &waiter, aim)
			       : ORIEL_OK;
	if (text.lines <= g.size * 2)
		return ori_dev_ll_read_batch(slot, &text, line, g.size, 2, &waiter, aim);
	ORIEL_DEV_ROLL
	for (; line < text.lines && status == ORIEL_OK; line += g.size * ORIEL_LL_BATCH)
		status = ori_dev_ll_read_batch(slot, &text, line, g.size, ORIEL_LL_BATCH, &waiter,
					       aim);
	return status;
}

/* The fast path of dev/ll.h: see ori_dev_fast_range(). */
ORIEL_DEV bool ori_dev_ll_is_fast(const struct oriel_dev_window *w, uint32_t peer, uint64_t at,
				  uint64_t length, struct oriel_dev_target *target)
{
#ifdef __CUDA_ARCH__
	return ori_dev_fast_range(w, peer, at, oriel_dev_ll_length(length), target) &
	       (length <= ORIEL_LL_MAX) & !(((uintptr_t)target->base | at) % ORIEL_LL_LINE);
#else
	return ori_dev_fast_range(w, peer, at, length, target);
#endif
}

/* Does @target have room for @length bytes at @at, which is where a line begins? */
ORIEL_DEV enum oriel_status ori_dev_ll_check(const struct oriel_dev_window *w, uint32_t what,
					     uint32_t peer, uint64_t at, uint64_t length,
					     struct oriel_dev_target *target)
{
	struct oriel_dev_aim aim = {NULL, ORIEL_LL_LINE, ORIEL_EQ,
				    what, peer,          (uint32_t)(at >> ORIEL_AT_BITS)};
	enum oriel_status status;

	/* Longer than any buffer, and rejected as that. */
	if (length > ORIEL_LL_MAX)
		length = UINT64_MAX / ORIEL_LL_LINE;
	status = ori_dev_check_range(w, what, peer, at, oriel_dev_ll_length(length), target);
	if (status != ORIEL_OK)
		return status;
	if (((uintptr_t)target->base | at) % ORIEL_LL_LINE)
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_INVALID, aim, at);
	return ORIEL_OK;
}

/* As oriel_dev_wait_ll(), each thread for its own lines. Not synchronised at the end. */
ORIEL_DEV enum oriel_status ori_dev_ll_await(const struct oriel_dev_window *w,
					     struct oriel_dev_group g, uint64_t at, void *to,
					     uint64_t length, uint32_t epoch, uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL,
				    epoch,
				    ORIEL_EQ,
				    ORIEL_DEV_WAIT_LL,
				    ORIEL_DEV_NO_RANK,
				    (uint32_t)(at >> ORIEL_AT_BITS)};
	struct ori_dev_ll_slot slot = {NULL, 0, UINT64_MAX, epoch, 0};
	struct oriel_dev_target local;
	enum oriel_status status;

	if (!ORIEL_DEV_OFTEN(ori_dev_ll_is_fast(w, w->rank, at, length, &local))) {
		status = ori_dev_ll_check(w, ORIEL_DEV_WAIT_LL, w->rank, at, length, &local);
		if (status != ORIEL_OK)
			return status;
	}
	slot.base = local.base;
	return ori_dev_ll_read(w, g, &slot, to, length, &aim, timeout_ns);
}

#endif
