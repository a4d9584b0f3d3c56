/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ConnectX HCAs, and their open() and close(). */
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/mlx5.h>

#include "base/config.h"
#include "base/error.h"
#include "hca/mlx5/mlx5_device.h"

static struct mlx5_qp *to_qp(struct ori_hca_qp *qp)
{
	return (struct mlx5_qp *)qp;
}

static bool mlx5_is_meant(struct ibv_device *device)
{
	return ori_mlx5dv.is_supported(device);
}

/*
 * Without permission for DEVX commands a process that may open the device still
 * has the calls of verbs.
 */
static struct ibv_context *mlx5_open_device(struct ibv_device *device)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct ibv_context *context = NULL;

	if (ori_mlx5dv.open_device)
		context = ori_mlx5dv.open_device(device, &attr);
	return context ? context : ori_ibverbs.open_device(device);
}

static const struct verbs_kind mlx5_kind = {mlx5_is_meant, mlx5_open_device};

/* "auto", or "t0" to "t3". */
static void mlx5_read_settings(struct mlx5_device *d)
{
	const char *tier = ori_setting_text(ORI_SETTING_TIER);

	d->best = ORI_MLX5_T0;
	d->worst = ORI_MLX5_T3;
	if (tier[0] == 't')
		d->best = d->worst = (enum ori_mlx5_tier)(tier[1] - '0');
	d->avoids_devx = strcmp(ori_setting_text(ORI_SETTING_DEVX), "off") == 0;
	d->demands_devx = strcmp(ori_setting_text(ORI_SETTING_DEVX), "on") == 0;
}

static void mlx5_close_parts(struct mlx5_device *d)
{
	ori_mlx5_doorbells_stop(d);
	ori_mlx5_arena_close(d);
	ori_mlx5_uars_close(d);
	if (d->events)
		ori_mlx5dv.destroy_event_channel(d->events);
	d->events = NULL;
}

static void mlx5_close(struct ori_hca *hca)
{
	struct mlx5_device *d = to_mlx5(hca);

	if (!d)
		return;
	mlx5_close_parts(d);
	ori_verbs_device_close(&d->verbs);
	pthread_mutex_destroy(&d->bells.lock);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static enum oriel_status mlx5_open(const char *config, unsigned rail, struct ori_hca **hca)
{
	enum oriel_status status = ori_mlx5dv_open();
	struct mlx5_device *d;

	if (status != ORIEL_OK)
		return status;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ori_fail_nomem(sizeof(*d), "a NIC");
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->bells.lock, NULL);
	mlx5_read_settings(d);
	status = ori_verbs_device_open(&d->verbs, config, rail, &mlx5_kind);
	if (status != ORIEL_OK) {
		pthread_mutex_destroy(&d->bells.lock);
		pthread_mutex_destroy(&d->lock);
		free(d);
		return status;
	}
	status = ori_mlx5_find_tier(d);
	if (status != ORIEL_OK) {
		mlx5_close((struct ori_hca *)d);
		return status;
	}
	*hca = (struct ori_hca *)d;
	return ORIEL_OK;
}

/*
 * Memory that was prepared for threads alone is freed: memory that a GPU
 * reaches takes its place.
 */
static enum oriel_status mlx5_use_gpu(struct ori_hca *hca, const struct ori_gpu *gpu)
{
	struct mlx5_device *d = to_mlx5(hca);

	mlx5_close_parts(d);
	d->gpu = gpu;
	return ori_mlx5_find_tier(d);
}

static void mlx5_place(const struct ori_hca_qp *qp, struct ori_hca_queue_memory *place)
{
	*place = ((const struct mlx5_qp *)(const void *)qp)->place;
}

static const struct ori_hca_rings mlx5_rings = {.place = mlx5_place};

static void mlx5_caps(const struct ori_hca *hca, struct ori_hca_caps *caps)
{
	const struct mlx5_device *d = to_mlx5(hca);
	static const char *const tiers[ORI_MLX5_TIERS] = {"T0", "T1", "T2", "T3"};
	bool has_rings = d->report.tier < ORI_MLX5_T3;

	*caps = (struct ori_hca_caps){
		.kind = "mlx5",
		.name = d->verbs.name,
		.tier = tiers[d->report.tier],
		.port = d->verbs.port_text,
		.numa_node = d->verbs.numa_node,
		.depth_max = ori_verbs_depth_max(&d->verbs),
		.mtu = d->verbs.mtu,
		.length_max = d->verbs.port_attr.max_msg_sz,
		.max_rd_atomic = (uint32_t)d->verbs.attr.max_qp_rd_atom,
		.rings = has_rings ? &mlx5_rings : NULL,
		.reaches_all = has_rings && mlx5_reaches_all(d),
		.has_wait = d->report.has_wait,
		.order = d->order,
		/*
		 * Results of calls are always in host order; those of rings as
		 * the HCA writes them.
		 */
		.is_atomic_host_endian =
			!has_rings ||
			(d->report.is_devx ? d->atomic_caps.endianness_mode != 0
					   : d->verbs.attr.atomic_cap == IBV_ATOMIC_HCA),
		.has_masked = has_rings && d->verbs.address_flags & ORI_HCA_ADDRESS_MASKED,
	};
	if (caps->depth_max > ORIEL_MLX5_DEPTH_MAX)
		caps->depth_max = ORIEL_MLX5_DEPTH_MAX;
	if (caps->length_max > ORIEL_MLX5_LENGTH_MAX)
		caps->length_max = ORIEL_MLX5_LENGTH_MAX;
}

/*
 * One registration covers the whole address space: the kernel pages in what
 * requests use, if mlx5_reaches_all().
 */
static enum oriel_status mlx5_register(struct ori_hca *hca, void *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				       struct ori_hca_keys *keys)
{
	const struct mlx5_device *d = to_mlx5(hca);
	struct ibv_mr *made;

	if (!(access & ORI_HCA_ANY_MEMORY))
		return ori_verbs_register(hca, address, length, iova, access, mr, keys);
	made = ori_ibverbs.reg_mr(d->verbs.pd, NULL, SIZE_MAX,
				  IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	if (!made)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: no on-demand paging of whole processes",
				d->verbs.name);
	keys->lkey = made->lkey;
	keys->rkey = made->rkey;
	*mr = (struct ori_hca_mr *)made;
	return ORIEL_OK;
}

static enum oriel_status mlx5_connect_qp(struct ori_hca_qp *handle,
					 const struct ori_hca_qp_address *peer)
{
	struct mlx5_qp *qp = to_qp(handle);

	if (qp->object)
		return ori_mlx5_join(qp, peer);
	return ori_verbs_connect_qp((struct ori_hca_qp *)qp->verbs, peer);
}

static void mlx5_fail_qp(struct ori_hca_qp *handle)
{
	struct mlx5_qp *qp = to_qp(handle);

	if (qp->object)
		(void)ori_mlx5_break(qp);
	else
		ori_verbs_fail_qp((struct ori_hca_qp *)qp->verbs);
}

static enum oriel_status mlx5_check_called(const struct mlx5_qp *qp)
{
	if (!qp->has_ring)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_INVALID, "%s: QP 0x%06x has a ring: calls cannot post to it",
			qp->device->verbs.name, qp->number);
}

static enum oriel_status mlx5_post(struct ori_hca_qp *handle, const struct ori_hca_wr *wrs,
				   unsigned count, unsigned *posted)
{
	struct mlx5_qp *qp = to_qp(handle);
	enum oriel_status status = mlx5_check_called(qp);

	*posted = 0;
	if (status != ORIEL_OK)
		return status;
	return ori_verbs_post((struct ori_hca_qp *)qp->verbs, wrs, count, posted);
}

static enum oriel_status mlx5_post_receives(struct ori_hca_qp *handle, unsigned count)
{
	struct mlx5_qp *qp = to_qp(handle);
	enum oriel_status status = mlx5_check_called(qp);

	if (status != ORIEL_OK)
		return status;
	return ori_verbs_post_receives((struct ori_hca_qp *)qp->verbs, count);
}

static enum oriel_status mlx5_poll(struct ori_hca_cq *handle, struct ori_hca_wc *wcs, unsigned room,
				   unsigned *count)
{
	struct mlx5_cq *cq = (struct mlx5_cq *)handle;

	if (!cq->called)
		return ori_fail(ORIEL_ERR_INVALID, "%s: a CQ has a ring: calls cannot poll it",
				cq->device->verbs.name);
	return ori_verbs_poll(cq->called, wcs, room, count);
}

static const struct ori_hca_calls mlx5_calls = {
	.post = mlx5_post,
	.post_receives = mlx5_post_receives,
	.poll = mlx5_poll,
};

static const struct ori_hca_ops mlx5_ops = {
	.kind = "mlx5",
	.calls = &mlx5_calls,
	.open = mlx5_open,
	.close = mlx5_close,
	.caps = mlx5_caps,
	.use_gpu = mlx5_use_gpu,
	.listen = ori_verbs_listen,
	.describe = ori_verbs_describe,
	.register_memory = mlx5_register,
	.register_dmabuf = ori_verbs_register_dmabuf,
	.unregister_memory = ori_verbs_unregister,
	.create_cq = ori_mlx5_create_cq,
	.destroy_cq = ori_mlx5_destroy_cq,
	.create_qp = ori_mlx5_create_qp,
	.connect_qp = mlx5_connect_qp,
	.fail_qp = mlx5_fail_qp,
	.destroy_qp = ori_mlx5_destroy_qp,
	.poll_event = ori_mlx5_poll_event,
};

const struct ori_hca_ops *ori_hca_mlx5(void)
{
	return &mlx5_ops;
}

void ori_mlx5_report(const struct ori_hca *hca, struct ori_mlx5_report *report)
{
	*report = to_mlx5(hca)->report;
}

enum oriel_status ori_mlx5_probe(const char *config, unsigned rail, const struct ori_gpu *gpu,
				 struct ori_mlx5_report *report)
{
	struct ori_hca *hca;
	enum oriel_status status = mlx5_open(config, rail, &hca);

	if (status != ORIEL_OK)
		return status;
	status = gpu ? mlx5_use_gpu(hca, gpu) : ORIEL_OK;
	if (status == ORIEL_OK)
		ori_mlx5_report(hca, report);
	mlx5_close(hca);
	return status;
}
