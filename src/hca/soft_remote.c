/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU as the software HCA accesses it: by copies in a stream of its
 * own, through a pinned bounce buffer, each done before the next begins. So a
 * signal is written after the data before it has arrived.
 *
 * The HCA checks memory that no key vouches for before it reads or writes it: a
 * request that names memory without permission fails, and the process gets no
 * SIGSEGV.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/touch.h"
#include "hca/soft_memory.h"
#include "sys/gpu.h"

#define FAR_BOUNCE ((size_t)SOFT_RUN * SOFT_PAGE)

struct soft_remote {
	struct ori_gpu gpu;
	char *bounce; /* pinned, REMOTE_BOUNCE bytes */
	/*
	 * The range found last. If memory of the host takes its place later,
	 * the GPU copies that as well.
	 */
	const char *base;
	size_t length;
};

enum oriel_status ori_soft_far_open(const struct ori_gpu *gpu, struct soft_remote **out)
{
	struct soft_remote *far = calloc(1, sizeof(*far));
	enum oriel_status status;

	if (!far)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a software HCA with a GPU");
	far->bounce = aligned_alloc(SOFT_PAGE, FAR_BOUNCE);
	if (!far->bounce) {
		status = ori_fail(ORIEL_ERR_NOMEM, "no memory for a software HCA with a GPU");
		goto err_free;
	}
	status = ori_gpu_open_again(gpu, &far->gpu);
	if (status != ORIEL_OK)
		goto err_free_bounce;
	status = gpu->ops->pin(gpu, far->bounce, FAR_BOUNCE);
	if (status != ORIEL_OK)
		goto err_close;
	*out = far;
	return ORIEL_OK;

err_close:
	ori_gpu_close(&far->gpu);
err_free_bounce:
	free(far->bounce);
err_free:
	free(far);
	return status;
}

void ori_soft_far_close(struct soft_remote *far)
{
	if (!far)
		return;
	far->gpu.ops->unpin(&far->gpu, far->bounce);
	ori_gpu_close(&far->gpu);
	free(far->bounce);
	free(far);
}

/*
 * The driver is asked each time about memory not known to be a GPU's: it may
 * have become so.
 */
bool ori_soft_far_has(struct soft_remote *far, const char *at)
{
	struct ori_gpu_memory_info place;

	if ((uintptr_t)at - (uintptr_t)far->base < far->length)
		return true;
	if (far->gpu.ops->query(&far->gpu, at, &place) != ORIEL_OK)
		return false;
	if (place.kind == ORI_GPU_PAGEABLE || place.kind == ORI_GPU_PINNED)
		return false;
	far->base = place.base;
	far->length = place.length;
	return true;
}

bool ori_soft_load(const struct soft_mr *mr, void *to, const char *from, size_t length)
{
	char *target = to;
	struct soft_remote *far;

	if (!ori_soft_is_far(mr, from)) {
		if (!ori_soft_is_vouched(mr) && !ori_touch_may_read(from, length))
			return false;
		ori_soft_copy(to, from, length);
		return true;
	}
	far = mr->node->far;
	while (length > 0) {
		size_t part = length < FAR_BOUNCE ? length : FAR_BOUNCE;

		if (far->gpu.ops->copy(&far->gpu, far->bounce, from, part) != ORIEL_OK)
			return false;
		memcpy(target, far->bounce, part);
		target += part;
		from += part;
		length -= part;
	}
	return true;
}

bool ori_soft_store(const struct soft_mr *mr, char *to, const void *from, size_t length)
{
	const char *source = from;
	struct soft_remote *far;

	if (!ori_soft_is_far(mr, to)) {
		if (!ori_soft_is_vouched(mr) && !ori_touch_may_overwrite(to, length))
			return false;
		ori_soft_copy(to, from, length);
		return true;
	}
	far = mr->node->far;
	while (length > 0) {
		size_t part = length < FAR_BOUNCE ? length : FAR_BOUNCE;

		memcpy(far->bounce, source, part);
		if (far->gpu.ops->copy(&far->gpu, to, far->bounce, part) != ORIEL_OK)
			return false;
		to += part;
		source += part;
		length -= part;
	}
	return true;
}
