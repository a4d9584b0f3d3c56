/* SPDX-License-Identifier: Apache-2.0 */
/* The table of HCAs by libibverbs; hca_choose.c takes it where mlx5.c has no rings. */
#include "hca/verbs/verbs.h"

#include <stdlib.h>

#include "base/error.h"

static enum oriel_status verbs_open(const char *config, unsigned rail, struct ori_hca **hca)
{
	struct verbs_device *d = calloc(1, sizeof(*d));
	enum oriel_status status;

	if (!d)
		return ori_fail_nomem(sizeof(*d), "a NIC");
	status = ori_verbs_device_open(d, config, rail, NULL);
	if (status != ORIEL_OK) {
		free(d);
		return status;
	}
	*hca = (struct ori_hca *)d;
	return ORIEL_OK;
}

static void verbs_close(struct ori_hca *hca)
{
	if (!hca)
		return;
	ori_verbs_device_close((struct verbs_device *)hca);
	free(hca);
}

static void verbs_caps(const struct ori_hca *hca, struct ori_hca_caps *caps)
{
	const struct verbs_device *d = (const struct verbs_device *)hca;

	*caps = (struct ori_hca_caps){
		.kind = "verbs",
		.name = d->name,
		.tier = "T3",
		.port = d->port_text,
		.numa_node = d->numa_node,
		.depth_max = ori_verbs_depth_max(d),
		.mtu = d->mtu,
		.length_max = d->port_attr.max_msg_sz,
		.max_rd_atomic = (uint32_t)d->attr.max_qp_rd_atom,
		.is_atomic_host_endian = true,
	};
}

/* GPU memory is registered through register_dmabuf(), so there is nothing to prepare. */
static enum oriel_status verbs_use_gpu(struct ori_hca *hca, const struct ori_gpu *gpu)
{
	(void)hca, (void)gpu;
	return ORIEL_OK;
}

static const struct ori_hca_calls verbs_calls = {
	.post = ori_verbs_post,
	.post_receives = ori_verbs_post_receives,
	.poll = ori_verbs_poll,
};

static const struct ori_hca_ops verbs_ops = {
	.kind = "verbs",
	.calls = &verbs_calls,
	.open = verbs_open,
	.close = verbs_close,
	.caps = verbs_caps,
	.use_gpu = verbs_use_gpu,
	.listen = ori_verbs_listen,
	.describe = ori_verbs_describe,
	.register_memory = ori_verbs_register,
	.register_dmabuf = ori_verbs_register_dmabuf,
	.unregister_memory = ori_verbs_unregister,
	.create_cq = ori_verbs_create_cq,
	.destroy_cq = ori_verbs_destroy_cq,
	.create_qp = ori_verbs_create_qp,
	.connect_qp = ori_verbs_connect_qp,
	.fail_qp = ori_verbs_fail_qp,
	.destroy_qp = ori_verbs_destroy_qp,
	.poll_event = ori_verbs_poll_event,
};

const struct ori_hca_ops *ori_hca_verbs(void)
{
	return &verbs_ops;
}
