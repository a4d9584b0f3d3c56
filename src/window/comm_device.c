/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator's own handle for device functions: a window that it owns, whose buffers are
 * regions. Public functions of oriel/comm_device.h.
 */
#include <oriel/comm_device.h>

#include "base/error.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/region.h"
#include "window/window.h"

/* Regions that are still published are no more: their numbers were of this window. */
static void comm_device_close(struct oriel_comm *comm)
{
	struct oriel_window *w = comm->window;

	comm->window = NULL;
	comm->close_window = NULL;
	oriel_window_destroy(w);
}

enum oriel_status oriel_comm_device_create(struct oriel_comm *comm,
					   const struct oriel_window_attr *attr)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status != ORIEL_OK)
		return status;
	/* All ranks have it, or none. */
	if (comm->window)
		return ori_fail(ORIEL_ERR_STATE,
				"oriel_comm_device_create: the communicator has its handle");
	status = oriel_window_create(comm, attr, &comm->window);
	if (status == ORIEL_OK)
		comm->close_window = comm_device_close;
	return status;
}

/* The window of @comm, which @call needs; NULL: the reason is the last error. */
static struct oriel_window *comm_device_find(const struct oriel_comm *comm, const char *call)
{
	if (!comm->window)
		(void)ori_fail(ORIEL_ERR_STATE,
			       "%s: the communicator has no handle: all ranks call "
			       "oriel_comm_device_create() before",
			       call);
	return comm->window;
}

enum oriel_status oriel_comm_device_as(const struct oriel_comm *comm, uint32_t version, size_t size,
				       struct oriel_dev_window *device)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	const struct oriel_window *w;

	if (status != ORIEL_OK)
		return status;
	w = comm_device_find(comm, __func__);
	return w ? ori_window_copy_device(w, version, size, device, __func__) : ORIEL_ERR_STATE;
}

enum oriel_status oriel_comm_device_atomics(const struct oriel_comm *comm,
					    enum oriel_atomics *atomics)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	const struct oriel_window *w;

	if (status != ORIEL_OK)
		return status;
	w = comm_device_find(comm, __func__);
	if (!w)
		return ORIEL_ERR_STATE;
	return atomics ? oriel_window_atomics(w, atomics) : ori_fail_null(__func__, "atomics");
}

enum oriel_status oriel_comm_device_fault(struct oriel_comm *comm, struct oriel_dev_fault *fault)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_window *w;

	if (status != ORIEL_OK)
		return status;
	w = comm_device_find(comm, __func__);
	if (!w)
		return ORIEL_ERR_STATE;
	return fault ? oriel_window_fault(w, fault) : ori_fail_null(__func__, "fault");
}

/* The same on all ranks. */
static bool comm_device_has(const struct oriel_window *w, const struct oriel_region *region)
{
	return w && region->unpublish && region->window == w->device.number;
}

static void comm_device_unpublish(struct oriel_region *region)
{
	struct oriel_comm *comm = region->comm;
	struct oriel_window *w = comm->window;

	if (!comm_device_has(w, region))
		return;
	ori_window_quiet(w);
	if (ori_comm_is_well(comm))
		ori_comm_gather(comm, ORI_CALL_REGION_UNREGISTER, NULL, NULL, 0);
	ori_window_clear(w, region->number);
}

/* The lowest free number, the same on all ranks. 0 is the window's own buffer: none is free. */
static uint32_t comm_device_number(const struct oriel_window *w)
{
	uint32_t number;

	for (number = 1; number < w->device.buffers; number++)
		if (!w->buffers[number])
			return number;
	return 0;
}

enum oriel_status oriel_region_publish(struct oriel_region *region, uint32_t *out)
{
	enum oriel_status status = ori_handle_check(region, ORI_HANDLE_REGION, __func__);
	struct oriel_window *w;
	uint32_t number;

	if (status != ORIEL_OK)
		return status;
	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_region_publish: number is NULL");
	w = comm_device_find(region->comm, __func__);
	if (!w)
		return ORIEL_ERR_STATE;
	number = comm_device_number(w);
	if (!number)
		return ori_fail(ORIEL_ERR_RANGE,
				"oriel_region_publish: all %u regions of the handle are in use; "
				"create it with more (buffers)",
				w->device.buffers - 1);
	if (comm_device_has(w, region))
		status =
			ori_fail(ORIEL_ERR_STATE,
				 "oriel_region_publish: the region at %p is published as number %u",
				 region->piece.address, region->number);
	status = ori_window_fill(w, number, status, region->piece.address, region->piece.length);
	if (status != ORIEL_OK)
		return status;
	region->number = number;
	region->window = w->device.number;
	region->unpublish = comm_device_unpublish;
	*out = number;
	return ORIEL_OK;
}
