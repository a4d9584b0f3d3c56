/* SPDX-License-Identifier: Apache-2.0 */
/* What all ranks do together with a window, beside barriers. */
#include <oriel/dev.h>

#include "base/error.h"
#include "window/window.h"

enum oriel_status oriel_window_put_all(struct oriel_window *w, uint64_t to, const void *from,
				       size_t length, void *stream)
{
	enum oriel_status status = ORIEL_OK;
	void *own = NULL;
	uint32_t i;

	if (w->gpu)
		return ori_window_stream_put_all(w, to, from, length, stream);
	if (oriel_window_peer_address(w, w->device.rank, to, &own) != ORIEL_OK || own != from)
		status = oriel_window_put(w, w->device.rank, to, from, length, stream);
	for (i = 1; i < w->device.ranks && status == ORIEL_OK; i++)
		status = oriel_window_put(w, (w->device.rank + i) % w->device.ranks, to, from,
					  length, stream);
	return status;
}

static enum oriel_status gather_check(const struct oriel_window *w, uint32_t parts,
				      const void *stream)
{
	if (!w->gpu && stream)
		return ori_fail(ORIEL_ERR_INVALID,
				"window %u lies in host memory and takes no stream",
				w->device.number);
	if (parts < 1 || parts > w->device.signals)
		return ori_fail(ORIEL_ERR_RANGE, "a gather in %u parts", parts);
	return w->gpu ? ORIEL_OK : ori_comm_check(w->comm);
}

/* What device functions have returned to a host thread, with a text. */
static enum oriel_status gather_end(struct oriel_window *w, enum oriel_status status)
{
	struct oriel_dev_fault fault;

	if (status == ORIEL_OK)
		return status;
	if (ori_comm_check(w->comm) != ORIEL_OK || oriel_window_fault(w, &fault) == ORIEL_OK)
		return status;
	return ori_fail(status, "window %u: gather: %s", w->device.number,
			oriel_status_text(status));
}

/* A device function of oriel/dev/gather.h. */
typedef enum oriel_status gather_function(const struct oriel_dev_window *w,
					  struct oriel_dev_group g,
					  const struct oriel_dev_gather *c, uint32_t part,
					  uint32_t parts, const void *from, uint64_t length,
					  uint64_t timeout_ns);

/* All parts, by @kernel or one after the other by @run. */
static enum oriel_status gather_parts(struct oriel_window *w, enum ori_kernel kernel,
				      gather_function *run, const struct oriel_dev_gather *gather,
				      uint32_t parts, const void *from, size_t length, void *stream)
{
	enum oriel_status status = gather_check(w, parts, stream);
	uint32_t part;

	if (status != ORIEL_OK)
		return status;
	if (w->gpu)
		return ori_window_stream_gather(w, kernel, gather, parts, from, length, stream);
	for (part = 0; part < parts && status == ORIEL_OK; part++)
		status = run(&w->device, oriel_dev_thread(), gather, part, parts, from, length, 0);
	return gather_end(w, status);
}

enum oriel_status oriel_window_gather_lines(struct oriel_window *w,
					    const struct oriel_dev_gather *gather, uint32_t parts,
					    const void *from, size_t length, void *stream)
{
	return gather_parts(w, ORI_KERNEL_GATHER_LINES, oriel_dev_gather_lines, gather, parts, from,
			    length, stream);
}

enum oriel_status oriel_window_gather_puts(struct oriel_window *w,
					   const struct oriel_dev_gather *gather, uint32_t parts,
					   const void *from, size_t length, void *stream)
{
	return gather_parts(w, ORI_KERNEL_GATHER_PUTS, oriel_dev_gather_puts, gather, parts, from,
			    length, stream);
}
