/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/gather_wish.h"

#include "base/attr.h"
#include "base/error.h"

#define WISH_CHUNK ((size_t)1 << 20)
#define WISH_CHUNK_LEAST 4096u

static enum oriel_status wish_kind(struct ori_wish *wish)
{
	const struct oriel_view *view = &wish->view;

	if (view->flags & ~(unsigned)ORIEL_VIEW_GPU || view->reserved)
		return ori_fail(ORIEL_ERR_INVALID, "a view with unknown flags 0x%x", view->flags);
	if (!view->window == !view->buffer || (view->window && view->peers) ||
	    (!view->window && view->at))
		return ori_fail(ORIEL_ERR_INVALID,
				"a view is part of a window, or a buffer, or a buffer and a table "
				"of all ranks'");
	wish->join.kind = view->window ? ORI_WISH_WINDOW : ORI_WISH_BUFFER;
	if (view->peers)
		wish->join.kind = ORI_WISH_TABLE;
	return ORIEL_OK;
}

/* Does the window of the view, if that is one, lie where the flags say, and reach so far? */
static enum oriel_status wish_window(const struct ori_wish *wish)
{
	const struct oriel_view *view = &wish->view;
	bool is_gpu = view->flags & ORIEL_VIEW_GPU;
	struct oriel_dev_window device;
	enum oriel_status status;
	uint64_t offset;
	void *address;
	size_t length;

	if (!view->window)
		return ORIEL_OK;
	status = oriel_window_device(view->window, &device);
	if (status != ORIEL_OK)
		return status;
	if (is_gpu != (device.blame != device.health))
		return ori_fail(ORIEL_ERR_INVALID,
				"a view %s GPU of window %u, which lies in %s memory",
				is_gpu ? "on a" : "on no", device.number, is_gpu ? "host" : "GPU");
	status = oriel_window_buffer(view->window, (uint32_t)(view->at >> ORIEL_AT_BITS), &address,
				     &length);
	if (status != ORIEL_OK)
		return status;
	offset = view->at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	if (offset > length || view->length > length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"a view of %zu bytes from byte %llu on of a buffer of %zu",
				view->length, (unsigned long long)offset, length);
	return ORIEL_OK;
}

enum oriel_status ori_wish_read(struct ori_wish *wish, const struct ori_gather_kind *kind,
				const struct oriel_view *view,
				const struct oriel_allgather_attr *attr)
{
	enum oriel_algorithm setting = ORIEL_ALGORITHM_DEFAULT;
	enum oriel_status status;

	if (!view)
		return ori_fail(ORIEL_ERR_INVALID, "%s: view is NULL", kind->name);
	status = ori_attr_read("oriel_view", view, &wish->view, sizeof(wish->view));
	if (status == ORIEL_OK)
		status = ori_attr_read("oriel_allgather_attr", attr, &wish->attr,
				       sizeof(wish->attr));
	if (status == ORIEL_OK)
		status = wish_kind(wish);
	if (status == ORIEL_OK)
		status = wish_window(wish);
	if (status == ORIEL_OK && kind->number == ORI_ALLGATHER)
		status = ori_gather_setting(&setting);
	if (status != ORIEL_OK)
		return status;
	if (!wish->attr.chunk)
		wish->attr.chunk = WISH_CHUNK;
	if (wish->attr.algorithm >= ORIEL_ALGORITHMS || wish->attr.reserved ||
	    wish->attr.chunk < WISH_CHUNK_LEAST)
		return ori_fail(ORIEL_ERR_INVALID, "%s: algorithm %u, chunks of %zu bytes",
				kind->name, wish->attr.algorithm, wish->attr.chunk);
	wish->join.at = wish->view.at;
	wish->join.length = wish->view.length;
	wish->join.chunk = wish->attr.chunk;
	wish->join.flags = wish->view.flags;
	wish->join.algorithm = wish->attr.algorithm;
	wish->join.setting = (uint32_t)setting;
	wish->join.collective = (uint32_t)kind->number;
	return ORIEL_OK;
}

static enum oriel_status wish_differ(const char *what, uint64_t first, uint64_t other,
				     unsigned peer)
{
	return ori_fail(ORIEL_ERR_MISMATCH, "collective: %s %llu on rank 0 and %llu on rank %u",
			what, (unsigned long long)first, (unsigned long long)other, peer);
}

enum oriel_status ori_wish_compare(const struct ori_wish_join *joins, unsigned size)
{
	const struct ori_wish_join *a = joins, *b;
	unsigned peer;

	for (peer = 1; peer < size; peer++) {
		b = &joins[peer];
		if (a->collective != b->collective)
			return wish_differ("one of kind", a->collective, b->collective, peer);
		if (a->kind != b->kind)
			return wish_differ("a view of kind", a->kind, b->kind, peer);
		if (a->flags != b->flags)
			return wish_differ("a view with flags", a->flags, b->flags, peer);
		if (a->at != b->at)
			return wish_differ("a view at", a->at, b->at, peer);
		if (a->algorithm != b->algorithm)
			return wish_differ("algorithm", a->algorithm, b->algorithm, peer);
		if (a->setting != b->setting)
			return wish_differ("ORIEL_ALLGATHER, of the algorithms number", a->setting,
					   b->setting, peer);
		if (a->table != b->table)
			return wish_differ("a table of oriel tune (ORIEL_TUNE) of digest", a->table,
					   b->table, peer);
		if (a->chunk != b->chunk)
			return wish_differ("chunks of", a->chunk, b->chunk, peer);
	}
	return ORIEL_OK;
}
