/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the arguments of a create function, locally and between ranks. gather_make.c calls it.
 */
#include "coll/gather_request.h"

#include <string.h>

#include "base/attr.h"
#include "base/config.h"
#include "base/error.h"
#include "coll/reduction.h"

#define REQUEST_CHUNK ((size_t)1 << 20)
#define REQUEST_CHUNK_MIN 4096u

#define REQUEST_HAS(kind) (1u << ORIEL_VIEW_##kind)

/* A field of a view that some kinds have. */
struct request_field {
	const char *name;
	bool is_set;
	unsigned of;   /* mask of 1 << enum oriel_view_kind: those that have it */
	bool may_be_0; /* in these, too */
};

static const char *const request_kinds[] = {
	[ORIEL_VIEW_WINDOW] = "ORIEL_VIEW_WINDOW",
	[ORIEL_VIEW_BUFFER] = "ORIEL_VIEW_BUFFER",
	[ORIEL_VIEW_TABLE] = "ORIEL_VIEW_TABLE",
};

/* Are those fields set that the kind of @view has? */
static enum oriel_status request_check_fields(const struct oriel_view *view)
{
	const struct request_field fields[] = {
		{"window", view->window, REQUEST_HAS(WINDOW), false},
		{"at", view->at, REQUEST_HAS(WINDOW), true},
		{"buffer", view->buffer, REQUEST_HAS(BUFFER) | REQUEST_HAS(TABLE), false},
		{"peers", view->peers, REQUEST_HAS(TABLE), false},
	};
	const struct request_field *field;
	unsigned i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		field = &fields[i];
		if (!(field->of >> view->kind & 1) && field->is_set)
			return ori_fail(
				ORIEL_ERR_INVALID,
				"oriel_view: kind is %s, which has no field %s: set it to 0",
				request_kinds[view->kind], field->name);
		if (field->of >> view->kind & 1 && !field->is_set && !field->may_be_0)
			return ori_fail(ORIEL_ERR_INVALID, "oriel_view: kind is %s, but %s is NULL",
					request_kinds[view->kind], field->name);
	}
	return ORIEL_OK;
}

static enum oriel_status request_check_view(const struct oriel_view *view)
{
	if (view->flags & ~(unsigned)ORIEL_VIEW_GPU)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_view: unknown flags 0x%x", view->flags);
	if (!view->kind)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_view: kind is 0: set it to ORIEL_VIEW_WINDOW, "
				"ORIEL_VIEW_BUFFER or ORIEL_VIEW_TABLE");
	if (view->kind > ORIEL_VIEW_TABLE)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_view: unknown kind %u", view->kind);
	return request_check_fields(view);
}

/* If the view is a part of a window: checks the memory kind and the range. */
static enum oriel_status request_check_window(const struct ori_gather_request *request)
{
	const struct oriel_view *view = &request->view;
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
				"ORIEL_VIEW_GPU is %s, but window %u lies in %s memory",
				is_gpu ? "set" : "not set", ORIEL_DEV_WINDOW_NUMBER(device.number),
				is_gpu ? "host" : "GPU");
	status = oriel_window_buffer(view->window, (uint32_t)(view->at >> ORIEL_AT_BITS), &address,
				     &length);
	if (status != ORIEL_OK)
		return status;
	offset = view->at & (((uint64_t)1 << ORIEL_AT_BITS) - 1);
	if (offset > length || view->length > length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"view of %zu bytes at offset %llu exceeds the buffer of %zu bytes",
				view->length, (unsigned long long)offset, length);
	return ORIEL_OK;
}

static enum oriel_status request_check_attr(const struct oriel_coll_attr *attr,
					    const struct ori_gather_kind *kind)
{
	if (attr->algorithm >= ORI_ALGORITHMS)
		return ori_fail(ORIEL_ERR_INVALID, "%s: unknown algorithm %u", kind->name,
				attr->algorithm);
	if (attr->chunk < REQUEST_CHUNK_MIN)
		return ori_fail(ORIEL_ERR_INVALID, "%s: chunk is %zu bytes, at least %u",
				kind->name, attr->chunk, REQUEST_CHUNK_MIN);
	return ori_attr_check_reserved("oriel_coll_attr.reserved", attr->reserved);
}

enum oriel_status ori_gather_request_read(struct ori_gather_request *request,
					  const struct ori_gather_kind *kind,
					  const struct oriel_view *view,
					  const struct oriel_reduction *reduction,
					  const struct oriel_coll_attr *attr)
{
	enum oriel_algorithm setting = ORIEL_ALGORITHM_DEFAULT;
	enum oriel_status status;

	if (!view)
		return ori_fail(ORIEL_ERR_INVALID, "%s: view is NULL", kind->name);
	status = ori_attr_read("oriel_view", view, &request->view, sizeof(request->view));
	if (status == ORIEL_OK)
		status = ori_attr_read("oriel_coll_attr", attr, &request->attr,
				       sizeof(request->attr));
	if (status == ORIEL_OK)
		status = request_check_view(&request->view);
	if (status == ORIEL_OK)
		status = request_check_window(request);
	if (status == ORIEL_OK)
		status = ori_gather_setting(kind, &setting);
	if (status == ORIEL_OK && kind->is_reduction)
		status = ori_reduction_read(reduction, kind->name, &request->reduction);
	if (status != ORIEL_OK)
		return status;
	if (!request->attr.chunk)
		request->attr.chunk = REQUEST_CHUNK;
	status = request_check_attr(&request->attr, kind);
	if (status != ORIEL_OK)
		return status;
	request->join.kind = request->view.kind;
	request->join.at = request->view.at;
	request->join.length = request->view.length;
	request->join.chunk = request->attr.chunk;
	request->join.flags = request->view.flags;
	request->join.algorithm = request->attr.algorithm;
	request->join.setting = (uint32_t)setting;
	request->join.collective = (uint32_t)kind->number;
	if (kind->is_reduction && strcmp(ori_setting_text(ORI_SETTING_REDUCE_FAST), "on") == 0)
		request->reduction.flags |= ORIEL_REDUCE_FAST;
	if (kind->is_reduction)
		ori_reduction_join(&request->reduction, &request->join);
	return ORIEL_OK;
}

static enum oriel_status join_mismatch(const char *what, uint64_t first, uint64_t other,
				       unsigned peer)
{
	return ori_fail(ORIEL_ERR_MISMATCH,
			"collective: ranks differ in %s: %llu on rank 0, %llu on rank %u", what,
			(unsigned long long)first, (unsigned long long)other, peer);
}

static enum oriel_status join_setting(const struct ori_gather_join *a,
				      const struct ori_gather_join *b, unsigned peer)
{
	const char *name = ori_gather_setting_name((enum ori_collective)a->collective);

	return ori_fail(
		ORIEL_ERR_MISMATCH,
		"collective: ranks differ in %s (number of the algorithm): %u on rank 0, %u "
		"on rank %u",
		name ? name : "a setting", a->setting, b->setting, peer);
}

enum oriel_status ori_gather_join_compare(const struct ori_gather_join *joins, unsigned size)
{
	const struct ori_gather_join *a = joins, *b;
	unsigned peer;

	for (peer = 1; peer < size; peer++) {
		b = &joins[peer];
		if (a->collective != b->collective)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"ranks create different collectives: %s on rank 0, %s on "
					"rank %u",
					ori_collective_name((enum ori_collective)a->collective),
					ori_collective_name((enum ori_collective)b->collective),
					peer);
		if (a->kind != b->kind)
			return join_mismatch("the kind of view", a->kind, b->kind, peer);
		if (a->flags != b->flags)
			return join_mismatch("the flags of the view", a->flags, b->flags, peer);
		if (a->at != b->at)
			return join_mismatch("the offset of the view", a->at, b->at, peer);
		if (a->algorithm != b->algorithm)
			return join_mismatch("the algorithm", a->algorithm, b->algorithm, peer);
		if (a->setting != b->setting)
			return join_setting(a, b, peer);
		if (a->table != b->table)
			return join_mismatch("the digest of the table of oriel tune (ORIEL_TUNE)",
					     a->table, b->table, peer);
		if (a->chunk != b->chunk)
			return join_mismatch("the chunk", a->chunk, b->chunk, peer);
		if (a->type != b->type)
			return join_mismatch("the type of the elements (enum oriel_type)", a->type,
					     b->type, peer);
		if (a->op != b->op)
			return join_mismatch("the operation (enum oriel_op)", a->op, b->op, peer);
		if (a->block != b->block)
			return join_mismatch("the block", a->block, b->block, peer);
		if (a->reduce_flags != b->reduce_flags)
			return join_mismatch("the flags of the reduction (ORIEL_REDUCE_FAST)",
					     a->reduce_flags, b->reduce_flags, peer);
	}
	return ORIEL_OK;
}
