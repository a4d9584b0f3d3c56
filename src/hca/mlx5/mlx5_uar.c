/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbell registers, and pages that kernels reach. One register can serve all
 * queues of a device, since the doorbell's value names its queue; while
 * registers last each queue has its own, so that posters do not contend for
 * one. Posters store to the address that DEVX names (reg_addr), as the open
 * drivers do: no manual says that other words of the page are doorbells.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "hca/mlx5/mlx5_device.h"

static const struct {
	const char *name;
	uint32_t type;
	bool is_one, is_combining;
} uar_kinds[] = {
	{"dedicated", ORI_MLX5DV_UAR_NC_DEDICATED, false, false},
	/* All callers that ask a context for it get the same page. */
	{"uncached", MLX5DV_UAR_ALLOC_TYPE_NC, true, false},
	{"combining", MLX5DV_UAR_ALLOC_TYPE_BF, true, true},
};

static void *uar_page(const struct mlx5_uar *uar)
{
	char *at = uar->dv->reg_addr;

	return at - (uintptr_t)at % mlx5_host_page();
}

/* One more register; false, with errno, if the device gives none. */
static bool uar_add(struct mlx5_device *d)
{
	struct mlx5_uar *uar = &d->uars.of[d->uars.count];

	uar->users = 0;
	uar->dv = ori_mlx5dv.alloc_uar(d->verbs.context, d->uars.type);
	if (!uar->dv)
		return false;
	/* A forked child that rings would post the parent's unposted WQEs. */
	if (!ori_fork_share(uar_page(uar), mlx5_host_page(), -1)) {
		ori_mlx5dv.free_uar(uar->dv);
		errno = ENOMEM;
		return false;
	}
	d->uars.count++;
	return true;
}

enum oriel_status ori_mlx5_uars_open(struct mlx5_device *d)
{
	for (size_t i = 0; i < sizeof(uar_kinds) / sizeof(uar_kinds[0]); i++) {
		d->uars.type = uar_kinds[i].type;
		d->uars.is_one = uar_kinds[i].is_one;
		d->uars.is_combining = uar_kinds[i].is_combining;
		snprintf(d->report.doorbells, sizeof(d->report.doorbells), "%s", uar_kinds[i].name);
		if (uar_add(d))
			return ORIEL_OK;
	}
	return ori_verbs_fail(&d->verbs, errno, "cannot allocate a doorbell page of any kind");
}

void ori_mlx5_uars_close(struct mlx5_device *d)
{
	while (d->uars.count) {
		struct mlx5_uar *uar = &d->uars.of[--d->uars.count];

		ori_fork_unshare(uar_page(uar));
		ori_mlx5dv.free_uar(uar->dv);
	}
}

struct mlx5_uar *ori_mlx5_uar_take(struct mlx5_device *d)
{
	struct mlx5_uars *uars = &d->uars;
	struct mlx5_uar *best;

	pthread_mutex_lock(&d->lock);
	best = &uars->of[0];
	for (unsigned i = 1; i < uars->count; i++)
		if (uars->of[i].users < best->users)
			best = &uars->of[i];
	if (best->users && !uars->is_one && uars->count < MLX5_UARS_MAX && uar_add(d))
		best = &uars->of[uars->count - 1];
	best->users++;
	pthread_mutex_unlock(&d->lock);
	return best;
}

void ori_mlx5_uar_give(struct mlx5_device *d, struct mlx5_uar *uar)
{
	pthread_mutex_lock(&d->lock);
	uar->users--;
	pthread_mutex_unlock(&d->lock);
}

static enum oriel_status mapping_open(struct mlx5_device *d, struct mlx5_mapping *m)
{
	enum oriel_status status;
	void *at = m->page;

	if (m->is_io)
		status = d->gpu->ops->map_io(d->gpu, m->page, m->length, &at);
	else
		status = d->gpu->ops->pin(d->gpu, m->page, m->length);
	m->is_others = status == ORIEL_AGAIN;
	m->gpu = at;
	return m->is_others ? ORIEL_OK : status;
}

static enum oriel_status mapping_add(struct mlx5_device *d, char *page, size_t length, bool is_io,
				     struct mlx5_mapping **out)
{
	struct mlx5_mapping *m = calloc(1, sizeof(*m));
	enum oriel_status status;

	if (!m)
		return ori_fail_nomem(sizeof(*m), "doorbells of %s", d->verbs.name);
	m->page = page;
	m->length = length;
	m->is_io = is_io;
	status = mapping_open(d, m);
	if (status != ORIEL_OK) {
		free(m);
		return status;
	}
	m->next = d->mappings;
	d->mappings = m;
	*out = m;
	return ORIEL_OK;
}

enum oriel_status ori_mlx5_map(struct mlx5_device *d, void *address, size_t length, bool is_io,
			       struct mlx5_mapping **mapping, void **at)
{
	size_t host_page = mlx5_host_page(), offset = (uintptr_t)address % host_page;
	char *page = (char *)address - offset;
	enum oriel_status status = ORIEL_OK;
	struct mlx5_mapping *m;

	length = (offset + length + host_page - 1) / host_page * host_page;
	pthread_mutex_lock(&d->lock);
	for (m = d->mappings; m && m->page != page; m = m->next)
		;
	if (!m)
		status = mapping_add(d, page, length, is_io, &m);
	if (status == ORIEL_OK) {
		m->refs++;
		*mapping = m;
		*at = m->gpu + offset;
	}
	pthread_mutex_unlock(&d->lock);
	return status;
}

void ori_mlx5_unmap(struct mlx5_device *d, struct mlx5_mapping *m)
{
	struct mlx5_mapping **at = &d->mappings;

	if (!m)
		return;
	pthread_mutex_lock(&d->lock);
	if (--m->refs == 0) {
		while (*at != m)
			at = &(*at)->next;
		*at = m->next;
		if (!m->is_others)
			d->gpu->ops->unpin(d->gpu, m->page);
		free(m);
	}
	pthread_mutex_unlock(&d->lock);
}
