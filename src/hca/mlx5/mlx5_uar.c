/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of doorbell registers. One page can serve all queues of a device, since
 * the doorbell's value names its queue; while registers last each queue has its
 * own, so that posters do not contend for one.
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
	bool has_slots, is_combining;
} uar_kinds[] = {
	{"dedicated", ORI_MLX5DV_UAR_NC_DEDICATED, true, false},
	/* All callers that ask a context for it get the same page. */
	{"uncached", MLX5DV_UAR_ALLOC_TYPE_NC, false, false},
	{"combining", MLX5DV_UAR_ALLOC_TYPE_BF, false, true},
};

static void *uar_page(const struct mlx5_device *d)
{
	char *at = d->uar.dv->reg_addr;

	return at - (uintptr_t)at % MLX5_PAGE;
}

enum oriel_status ori_mlx5_uar_open(struct mlx5_device *d)
{
	int error = 0;

	for (size_t i = 0; i < sizeof(uar_kinds) / sizeof(uar_kinds[0]) && !d->uar.dv; i++) {
		d->uar.dv = ori_mlx5dv.alloc_uar(d->verbs.context, uar_kinds[i].type);
		error = errno;
		d->uar.has_slots = uar_kinds[i].has_slots;
		d->uar.is_combining = uar_kinds[i].is_combining;
		snprintf(d->report.doorbells, sizeof(d->report.doorbells), "%s", uar_kinds[i].name);
	}
	if (!d->uar.dv)
		return ori_verbs_fail(&d->verbs, error,
				      "cannot allocate a doorbell page of any kind");
	/* A forked child that rings would post the parent's unposted WQEs. */
	if (!ori_fork_share(uar_page(d), MLX5_PAGE, -1))
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for doorbells", d->verbs.name);
	return ORIEL_OK;
}

void ori_mlx5_uar_close(struct mlx5_device *d)
{
	if (d->uar.dv) {
		ori_fork_unshare(uar_page(d));
		ori_mlx5dv.free_uar(d->uar.dv);
	}
	d->uar.dv = NULL;
}

static uint64_t *uar_register(const struct mlx5_device *d, unsigned slot)
{
	char *base = d->uar.dv->base_addr;

	return (uint64_t *)(void *)(base + MLX5_DOORBELLS_AT) + slot;
}

uint64_t *ori_mlx5_uar_take(struct mlx5_device *d)
{
	unsigned best = 0;

	if (!d->uar.has_slots)
		return d->uar.dv->reg_addr;
	pthread_mutex_lock(&d->lock);
	for (unsigned i = 1; i < MLX5_REGISTERS; i++)
		if (d->uar.users[i] < d->uar.users[best])
			best = i;
	d->uar.users[best]++;
	pthread_mutex_unlock(&d->lock);
	return uar_register(d, best);
}

void ori_mlx5_uar_give(struct mlx5_device *d, uint64_t *reg)
{
	if (!d->uar.has_slots)
		return;
	pthread_mutex_lock(&d->lock);
	d->uar.users[reg - uar_register(d, 0)]--;
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
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for doorbells", d->verbs.name);
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
	size_t offset = (uintptr_t)address % MLX5_PAGE;
	char *page = (char *)address - offset;
	enum oriel_status status = ORIEL_OK;
	struct mlx5_mapping *m;

	length = (offset + length + MLX5_PAGE - 1) / MLX5_PAGE * MLX5_PAGE;
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
