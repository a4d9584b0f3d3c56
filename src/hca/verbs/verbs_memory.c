/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers memory of the host and dma-bufs with libibverbs. The tables of
 * verbs and mlx5 call it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "hca/verbs/verbs.h"

/* The verbs interface requires local write permission for memory that peers write. */
static unsigned memory_access(unsigned access)
{
	unsigned flags = 0;

	if (access & (ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_ATOMIC))
		flags |= IBV_ACCESS_LOCAL_WRITE;
	if (access & ORI_HCA_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & ORI_HCA_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & ORI_HCA_REMOTE_ATOMIC)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	return flags;
}

static enum oriel_status memory_finish(const struct verbs_device *d, struct ibv_mr *mr, int error,
				       const void *address, size_t length, struct ori_hca_mr **out,
				       struct ori_hca_keys *keys)
{
	/* The kernel pins all pages, and so finds those that may not be read, or written. */
	if (!mr && error == EFAULT)
		return ori_fail(ORIEL_ERR_ACCESS,
				"%s: cannot register %zu bytes at %p: they are not all mapped, or "
				"lack the permission",
				d->name, length, address);
	if (!mr)
		return ori_verbs_fail(d, error, "cannot register %zu bytes%s", length,
				      error == ENOMEM ? " (is `ulimit -l` too low?)" : "");
	keys->lkey = mr->lkey;
	keys->rkey = mr->rkey;
	*out = (struct ori_hca_mr *)mr;
	return ORIEL_OK;
}

/*
 * Relaxed ordering is a request, and older libraries do not know it. The kernel
 * wants @iova at the same offset in its page as @address.
 */
enum oriel_status ori_verbs_register(struct ori_hca *hca, void *address, size_t length,
				     uint64_t iova, unsigned access, struct ori_hca_mr **out,
				     struct ori_hca_keys *keys)
{
	const struct verbs_device *d = (const struct verbs_device *)hca;
	unsigned flags = memory_access(access);
	struct ibv_mr *mr;

	if (!address || length == 0 || iova > UINT64_MAX - length)
		return ori_fail(ORIEL_ERR_INVALID, "%s: cannot register %zu bytes at iova 0x%llx",
				d->name, length, (unsigned long long)iova);
	if (!ori_ibverbs.reg_mr_iova2 && iova != (uintptr_t)address)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: this libibverbs registers memory at its own address only: it "
				"is older than rdma-core 28",
				d->name);
	if (!ori_ibverbs.reg_mr_iova2) {
		mr = ori_ibverbs.reg_mr(d->pd, address, length, (int)flags);
		return memory_finish(d, mr, errno, address, length, out, keys);
	}
	if (access & ORI_HCA_RELAXED_ORDERING)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	mr = ori_ibverbs.reg_mr_iova2(d->pd, address, length, iova, flags);
	return memory_finish(d, mr, errno, address, length, out, keys);
}

enum oriel_status ori_verbs_register_dmabuf(struct ori_hca *hca, int fd, uint64_t offset,
					    size_t length, uint64_t iova, unsigned access,
					    struct ori_hca_mr **out, struct ori_hca_keys *keys)
{
	const struct verbs_device *d = (const struct verbs_device *)hca;
	unsigned flags = memory_access(access);
	struct ibv_mr *mr;

	if (!ori_ibverbs.reg_dmabuf_mr)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: this libibverbs takes no dma-buf: it is older than "
				"rdma-core 34",
				d->name);
	if (access & ORI_HCA_RELAXED_ORDERING)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	mr = ori_ibverbs.reg_dmabuf_mr(d->pd, offset, length, iova, fd, (int)flags);
	return memory_finish(d, mr, errno, NULL, length, out, keys);
}

void ori_verbs_unregister(struct ori_hca_mr *mr)
{
	ori_ibverbs.dereg_mr((struct ibv_mr *)mr);
}
