/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator's own handle for device functions: it carries the link or the mapping to each
 * peer, and kernels put to regions of peers, signal and wait through it, without a window of the
 * program's. Programs create it, at most once for a communicator.
 *
 *   oriel_comm_device_create(comm, &attr);
 *   oriel_region_publish(region, &number);
 *   oriel_comm_device(comm, &device);
 */
#ifndef ORIEL_COMM_DEVICE_H
#define ORIEL_COMM_DEVICE_H

#include <oriel/region.h>
#include <oriel/status.h>
#include <oriel/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Make the handle of @comm. Collective; @attr, its rules and the errors are those of
 * oriel_window_create(): the signals, barriers, counters and channels of the handle, the memory
 * that they lie in (ORIEL_WINDOW_DEVICE: for kernels) and the paths (ORIEL_WINDOW_RDMA). Buffer 0
 * is of @attr and may be empty; the other `buffers` numbers are those of regions. ORIEL_ERR_STATE
 * if @comm has its handle. It ends in oriel_comm_destroy(), which flushes it and waits for the
 * peers as oriel_window_destroy() does, and also where it then reports that something is left.
 */
enum oriel_status oriel_comm_device_create(struct oriel_comm *comm,
					   const struct oriel_window_attr *attr);

/*
 * The handle, to be passed by value; all of oriel/dev.h takes it. Local, any thread that is
 * ordered after the creation; ORIEL_ERR_STATE without one. Version and size as in
 * oriel_window_device_as(), with ORIEL_ERR_VERSION.
 */
enum oriel_status oriel_comm_device_as(const struct oriel_comm *comm, uint32_t version, size_t size,
				       struct oriel_dev_window *device);
static inline enum oriel_status oriel_comm_device(const struct oriel_comm *comm,
						  struct oriel_dev_window *device)
{
	return oriel_comm_device_as(comm, ORIEL_DEV_VERSION, sizeof(*device), device);
}

/* oriel_window_atomics() of the handle; ORIEL_ERR_STATE without one. */
enum oriel_status oriel_comm_device_atomics(const struct oriel_comm *comm,
					    enum oriel_atomics *atomics);

/* oriel_window_fault() of the handle; ORIEL_ERR_STATE without one. */
enum oriel_status oriel_comm_device_fault(struct oriel_comm *comm, struct oriel_dev_fault *fault);

/*
 * Let device functions reach @region by the handle of its communicator: byte @offset of a peer's
 * is oriel_at(*@number, @offset). Collective: each rank passes its own region, lengths may differ,
 * and all get the same status and the same number, the lowest that is free. The memory follows the
 * rules of a buffer of a window with the flags of the handle (oriel_window_create()); the region
 * need not be shared. Copies of the handle from before see it, too, in kernels that are launched
 * afterwards. ORIEL_ERR_STATE: @region is published already, or its communicator has no handle.
 * ORIEL_ERR_RANGE: all numbers are in use.
 *
 * oriel_region_unregister() of the region is collective from then on. It flushes the handle and
 * frees the number: operations on it are rejected (ORIEL_ERR_STATE) until it is another region's.
 * No kernel of any rank uses the region any more.
 */
enum oriel_status oriel_region_publish(struct oriel_region *region, uint32_t *number);

#ifdef __cplusplus
}
#endif

#endif
