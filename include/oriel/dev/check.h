/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of device functions: looked at before anything is done. What is
 * refused leaves a record in the window's fault.
 */
#ifndef ORIEL_DEV_CHECK_H
#define ORIEL_DEV_CHECK_H

#include <oriel/dev/wait.h>

/* Does the handle come from a library that this text understands? */
ORIEL_DEV bool oriel_dev_is_compatible(const struct oriel_dev_window *w)
{
	return w->magic == ORIEL_DEV_MAGIC && w->version == ORIEL_DEV_VERSION &&
	       w->size == sizeof(*w);
}

/* The path to @peer, as far as this translation unit can use it. */
ORIEL_DEV uint32_t oriel_dev_path(const struct oriel_dev_window *w, uint32_t peer)
{
	uint32_t path = w->peers[peer].path;

	return ORIEL_DEV_PATHS >> path & 1 ? path : (uint32_t)ORIEL_PATH_NONE;
}

ORIEL_DEV_COLD enum oriel_status oriel_dev_refuse_id(const struct oriel_dev_window *w,
						     uint32_t what, uint32_t peer, uint32_t id,
						     uint32_t limit)
{
	struct oriel_dev_aim aim = {NULL, limit, ORIEL_LT, what, peer, id};

	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	if (id < limit) {
		aim.operand = w->ranks;
		return oriel_dev_refuse(w, ORIEL_ERR_RANGE, &aim, peer);
	}
	return oriel_dev_refuse(w, ORIEL_ERR_RANGE, &aim, id);
}

/* Is there a @peer, and an @id below @limit? */
ORIEL_DEV enum oriel_status oriel_dev_check_id(const struct oriel_dev_window *w, uint32_t what,
					       uint32_t peer, uint32_t id, uint32_t limit)
{
	if (oriel_dev_is_compatible(w) && peer < w->ranks && id < limit)
		return ORIEL_OK;
	return oriel_dev_refuse_id(w, what, peer, id, limit);
}

/* The same where no single peer is meant. */
ORIEL_DEV enum oriel_status oriel_dev_check_any(const struct oriel_dev_window *w, uint32_t what,
						uint32_t id, uint32_t limit)
{
	if (oriel_dev_is_compatible(w) && id < limit)
		return ORIEL_OK;
	return oriel_dev_refuse_id(w, what, ORIEL_DEV_NO_RANK, id, limit);
}

/* The same where the rank itself would wait for itself. */
ORIEL_DEV enum oriel_status oriel_dev_check_other(const struct oriel_dev_window *w, uint32_t what,
						  uint32_t peer, uint32_t id, uint32_t limit)
{
	enum oriel_status status = oriel_dev_check_id(w, what, peer, id, limit);
	struct oriel_dev_aim aim = {NULL, w->rank, ORIEL_NE, what, peer, id};

	if (status == ORIEL_OK && peer == w->rank)
		return oriel_dev_refuse(w, ORIEL_ERR_INVALID, &aim, peer);
	return status;
}

/* Is @choice, a comparison or an operation, one of those up to @last? */
ORIEL_DEV enum oriel_status oriel_dev_check_choice(const struct oriel_dev_window *w, uint32_t what,
						   uint32_t choice, uint32_t last)
{
	struct oriel_dev_aim aim = {NULL, last, ORIEL_LE, what, ORIEL_DEV_NO_RANK, 0};

	if (choice <= last)
		return ORIEL_OK;
	return oriel_dev_refuse(w, ORIEL_ERR_INVALID, &aim, choice);
}

ORIEL_DEV_COLD enum oriel_status oriel_dev_refuse_place(const struct oriel_dev_window *w,
							uint32_t what, uint32_t peer, uint64_t at,
							uint64_t length)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	struct oriel_dev_aim aim = {NULL, w->ranks, ORIEL_LT, what, peer, (uint32_t)buffer};

	if (!oriel_dev_is_compatible(w))
		return ORIEL_ERR_VERSION;
	if (peer >= w->ranks)
		return oriel_dev_refuse(w, ORIEL_ERR_RANGE, &aim, peer);
	if (buffer >= w->buffers) {
		aim.operand = w->buffers;
		return oriel_dev_refuse(w, ORIEL_ERR_RANGE, &aim, buffer);
	}
	aim.operand = w->table[buffer * w->ranks + peer].length;
	if (buffer && !w->table[buffer * w->ranks + peer].base)
		return oriel_dev_refuse(w, ORIEL_ERR_STATE, &aim, offset);
	/* What the end would have been; all ones where the sum wraps. */
	return oriel_dev_refuse(w, ORIEL_ERR_RANGE, &aim,
				offset + length < length ? UINT64_MAX : offset + length);
}

/* The entry of @peer's buffer if @length bytes at @at exist in it, else NULL. */
ORIEL_DEV const struct oriel_dev_buffer *oriel_dev_find(const struct oriel_dev_window *w,
							uint32_t peer, uint64_t at, uint64_t length)
{
	uint64_t buffer = at >> ORIEL_AT_BITS;
	uint64_t offset = at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	const struct oriel_dev_buffer *place;

	if (!oriel_dev_is_compatible(w) || peer >= w->ranks || buffer >= w->buffers)
		return NULL;
	place = &w->table[buffer * w->ranks + peer];
	if (length > place->length || offset > place->length - length || (buffer && !place->base))
		return NULL;
	return place;
}

/*
 * Do @length bytes at @at exist at @peer? Then *@base is where they are mapped;
 * NULL if they do not exist.
 */
ORIEL_DEV enum oriel_status oriel_dev_check_place(const struct oriel_dev_window *w, uint32_t what,
						  uint32_t peer, uint64_t at, uint64_t length,
						  char **base)
{
	const struct oriel_dev_buffer *place = oriel_dev_find(w, peer, at, length);

	*base = NULL;
	if (!place)
		return oriel_dev_refuse_place(w, what, peer, at, length);
	*base = place->base + (at & (((uint64_t)1 << ORIEL_AT_BITS) - 1));
	return ORIEL_OK;
}

/* The same for one 8-byte word, which must be aligned. */
ORIEL_DEV enum oriel_status oriel_dev_check_word(const struct oriel_dev_window *w, uint32_t what,
						 uint32_t peer, uint64_t at, uint64_t **word)
{
	struct oriel_dev_aim aim = {NULL, 8, ORIEL_EQ, what, peer, (uint32_t)(at >> ORIEL_AT_BITS)};
	enum oriel_status status;
	char *base;

	status = oriel_dev_check_place(w, what, peer, at, 8, &base);
	*word = (uint64_t *)(void *)base;
	if (status != ORIEL_OK)
		return status;
	if (((uintptr_t)base | at) & 7)
		return oriel_dev_refuse(w, ORIEL_ERR_INVALID, &aim, at);
	return ORIEL_OK;
}

#endif
