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
#include "base/memory_probe.h"
#include "hca/soft/soft_memory.h"
#include "sys/gpu.h"

#define REMOTE_BOUNCE ((size_t)SOFT_RUN * SOFT_PAGE)

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

enum oriel_status ori_soft_remote_open(const struct ori_gpu *gpu, struct soft_remote **out)
{
	struct soft_remote *remote = calloc(1, sizeof(*remote));
	enum oriel_status status;

	if (!remote)
		return ori_fail_nomem(sizeof(*remote), "a software HCA with a GPU");
	remote->bounce = aligned_alloc(SOFT_PAGE, REMOTE_BOUNCE);
	if (!remote->bounce) {
		status = ori_fail_nomem(REMOTE_BOUNCE,
					"the bounce buffer of a software HCA with a GPU");
		goto err_free;
	}
	status = ori_gpu_open_again(gpu, &remote->gpu);
	if (status != ORIEL_OK)
		goto err_free_bounce;
	status = gpu->ops->pin(gpu, remote->bounce, REMOTE_BOUNCE);
	if (status != ORIEL_OK)
		goto err_close;
	*out = remote;
	return ORIEL_OK;

err_close:
	ori_gpu_close(&remote->gpu);
err_free_bounce:
	free(remote->bounce);
err_free:
	free(remote);
	return status;
}

void ori_soft_remote_close(struct soft_remote *remote)
{
	if (!remote)
		return;
	remote->gpu.ops->unpin(&remote->gpu, remote->bounce);
	ori_gpu_close(&remote->gpu);
	free(remote->bounce);
	free(remote);
}

/* The driver is asked each time about memory not known to be a GPU's: it may have become so. */
bool ori_soft_remote_has(struct soft_remote *remote, const char *at)
{
	struct ori_gpu_memory_info place;

	if ((uintptr_t)at - (uintptr_t)remote->base < remote->length)
		return true;
	if (remote->gpu.ops->query(&remote->gpu, at, &place) != ORIEL_OK)
		return false;
	if (place.kind == ORI_GPU_PAGEABLE || place.kind == ORI_GPU_PINNED)
		return false;
	remote->base = place.base;
	remote->length = place.length;
	return true;
}

bool ori_soft_is_remote(const struct soft_mr *mr, const char *at)
{
	if (!mr || mr->side != SOFT_EITHER)
		return mr && mr->side == SOFT_REMOTE;
	return ori_soft_remote_has(mr->node->remote, at);
}

static bool remote_is_aligned(const void *a, const void *b, size_t size)
{
	return ((uintptr_t)a | (uintptr_t)b) % size == 0;
}

void ori_soft_copy(void *to, const void *from, size_t length)
{
	if (length == 8 && remote_is_aligned(to, from, 8))
		oriel_dev_store_release(to, oriel_dev_load_acquire(from));
	else if (length == 4 && remote_is_aligned(to, from, 4))
		ori_dev_store_release32(to, ori_dev_load_acquire32(from));
	else if (length)
		memmove(to, from, length);
}

bool ori_soft_load(const struct soft_mr *mr, void *to, const char *from, size_t length)
{
	char *target = to;
	struct soft_remote *remote;

	if (!ori_soft_is_remote(mr, from)) {
		if (!ori_soft_is_vouched(mr) && !ori_probe_may_read(from, length))
			return false;
		ori_soft_copy(to, from, length);
		return true;
	}
	remote = mr->node->remote;
	while (length > 0) {
		size_t part = length < REMOTE_BOUNCE ? length : REMOTE_BOUNCE;

		if (remote->gpu.ops->copy(&remote->gpu, remote->bounce, from, part) != ORIEL_OK)
			return false;
		memcpy(target, remote->bounce, part);
		target += part;
		from += part;
		length -= part;
	}
	return true;
}

bool ori_soft_store(const struct soft_mr *mr, char *to, const void *from, size_t length)
{
	const char *source = from;
	struct soft_remote *remote;

	if (!ori_soft_is_remote(mr, to)) {
		if (!ori_soft_is_vouched(mr) && !ori_probe_may_overwrite(to, length))
			return false;
		ori_soft_copy(to, from, length);
		return true;
	}
	remote = mr->node->remote;
	while (length > 0) {
		size_t part = length < REMOTE_BOUNCE ? length : REMOTE_BOUNCE;

		memcpy(remote->bounce, source, part);
		if (remote->gpu.ops->copy(&remote->gpu, to, remote->bounce, part) != ORIEL_OK)
			return false;
		to += part;
		source += part;
		length -= part;
	}
	return true;
}
