/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: opens and closes the NICs of all rails, and registers memory with them.
 * src/comm and src/p2p call it.
 */
#include "rdma/rdma.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/rdma_choose.h"
#include "rdma/rdma_rail.h"

static enum oriel_status rdma_open_rail(struct ori_rdma *rdma, const struct ori_hca_ops *ops,
					const char *config, unsigned rail)
{
	struct rdma_rail *r = &rdma->rails[rail];
	const struct ori_gpu *gpu = rdma->gpu;
	enum oriel_status status = ops->open(config, rail, &r->hca);

	if (status != ORIEL_OK)
		return status;
	r->ops = ops;
	r->gpu = gpu;
	/* Its capabilities may depend on the posters, and so on the GPU. */
	if (gpu)
		status = ops->use_gpu(r->hca, gpu);
	ops->caps(r->hca, &r->caps);
	/* Links that kernels post to themselves lie in memory of the GPU, and HCAs read it. */
	if (gpu && gpu->flags & ORI_GPU_NO_RDMA) {
		r->caps.reaches_gpu = false;
		r->caps.rings = NULL;
	}
	/* The software HCA writes to a GPU by copies, each done before the next. */
	r->needs_flush = gpu && !r->caps.is_software && !(gpu->flags & ORI_GPU_ORDERED);
	return status;
}

const struct ori_hca_ops *ori_rdma_ops(const struct ori_rdma *r)
{
	return r->rails[0].ops;
}

struct ori_hca *ori_rdma_hca(const struct ori_rdma *r, unsigned rail)
{
	return r->rails[rail].hca;
}

enum oriel_status ori_rdma_listen(struct ori_rdma *r)
{
	enum oriel_status status = ORIEL_OK;
	unsigned rail;

	for (rail = 0; rail < r->count && status == ORIEL_OK; rail++)
		status = r->rails[rail].ops->listen(r->rails[rail].hca);
	return status;
}

bool ori_rdma_needs_flush(const struct ori_rdma *r)
{
	unsigned rail;

	for (rail = 0; rail < r->count; rail++)
		if (r->rails[rail].needs_flush)
			return true;
	return false;
}

static enum oriel_status rdma_open_memory(struct ori_rdma *r)
{
	struct ori_memory_attr attr = {
		.ops = r->rails[0].ops,
		.rails = r->count,
		.is_whole = ori_rdma_is_whole(r),
		.gpu = r->gpu,
	};
	unsigned rail;

	for (rail = 0; rail < r->count; rail++)
		attr.hcas[rail] = r->rails[rail].hca;
	return ori_memory_open(&attr, &r->memory);
}

/* oriel_settings_check() has checked the text. */
static enum ori_rdma_order rdma_order(enum ori_rdma_order order)
{
	const char *text = ori_setting_text(ORI_SETTING_NET_ORDER);

	if (order != ORI_RDMA_ORDER_DEFAULT)
		return order;
	if (strcmp(text, "ordered") == 0)
		return ORI_RDMA_ORDERED;
	return strcmp(text, "relaxed") == 0 ? ORI_RDMA_RELAXED : ORI_RDMA_ORDER_AUTO;
}

/*
 * A flag that passes its data is a wrong answer, which no program notices: several paths without
 * a word from the NIC count as a network that keeps no order.
 */
static void rdma_choose_order(struct ori_rdma *r, enum ori_rdma_order order)
{
	unsigned rail;

	r->is_reordered = order == ORI_RDMA_RELAXED;
	r->why_reordered = "as the settings say";
	for (rail = 0; rail < r->count && order == ORI_RDMA_ORDER_AUTO; rail++)
		switch (r->rails[rail].caps.order) {
		case ORI_HCA_REORDERED:
			r->why_reordered = "as the NIC reports";
			r->is_reordered = true;
			break;
		case ORI_HCA_ORDER_MULTIPATH:
			r->why_reordered = "its port has several paths and the NIC does not report "
					   "their order";
			r->is_reordered = true;
			break;
		case ORI_HCA_ORDERED:
		case ORI_HCA_ORDER_UNKNOWN:
			break;
		}
}

enum oriel_status ori_rdma_open(const struct ori_rdma_attr *attr, struct ori_rdma **rdma)
{
	struct ori_hca_choice choice = {.ops = attr->hca};
	const char *config = attr->config;
	struct ori_rdma *r = calloc(1, sizeof(*r));
	enum oriel_status status = ORIEL_OK;
	unsigned rail;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "a NIC");
	atomic_init(&r->refs, 1);
	r->count = attr->rails ? attr->rails : 1;
	r->gpu = attr->gpu;
	assert(r->count <= ORIEL_DEV_RAILS);
	if (!choice.ops) {
		status = ori_choose(r->gpu, r->count, &choice);
		config = choice.config;
		memcpy(r->lack, choice.lack, sizeof(r->lack));
		memcpy(r->why, choice.why, sizeof(r->why));
	}
	r->kind = choice.ops == &ori_hca_soft_ops ? ORI_HCA_KIND_SOFT : ORI_HCA_KIND_VERBS;
	for (rail = 0; rail < r->count && status == ORIEL_OK; rail++)
		status = rdma_open_rail(r, choice.ops, config, rail);
	if (status == ORIEL_OK)
		rdma_choose_order(r, rdma_order(attr->order));
	if (status == ORIEL_OK)
		status = rdma_open_memory(r);
	if (status != ORIEL_OK) {
		ori_rdma_close(r);
		return status;
	}
	*rdma = r;
	return ORIEL_OK;
}

struct ori_rdma *ori_rdma_ref(struct ori_rdma *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void ori_rdma_close(struct ori_rdma *r)
{
	unsigned rail;

	if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1)
		return;
	ori_rdma_close_links(r);
	ori_memory_close(r->memory);
	for (rail = 0; rail < r->count; rail++)
		if (r->rails[rail].hca)
			r->rails[rail].ops->close(r->rails[rail].hca);
	free(r);
}

enum ori_hca_kind ori_rdma_kind(const struct ori_rdma *r)
{
	return r->kind;
}

const char *ori_rdma_lack(const struct ori_rdma *r)
{
	return r->lack;
}

const char *ori_rdma_why(const struct ori_rdma *r)
{
	return r->why;
}

enum oriel_status ori_rdma_check_remote(const struct ori_rdma *r)
{
	char host[32] = "";

	if (!r->lack[0])
		return ORIEL_OK;
	(void)gethostname(host, sizeof(host) - 1);
	return ori_fail(ORIEL_ERR_NO_PATH,
			"no NIC of host %s is usable: %s (see oriel doctor); ORIEL_HCA=soft on "
			"all ranks takes the software HCA, for development",
			host, r->lack);
}

unsigned ori_rdma_rails(const struct ori_rdma *r)
{
	return r->count;
}

void ori_rdma_caps(const struct ori_rdma *r, unsigned rail, struct ori_hca_caps *caps)
{
	*caps = r->rails[rail].caps;
}

enum oriel_status ori_rdma_register(struct ori_rdma *r, void *address, size_t length,
				    enum ori_rdma_use use, struct ori_rdma_mr **mr,
				    struct oriel_dev_keys *rkeys)
{
	static const char *const uses[] = {
		[ORI_RDMA_OWN] = "for this rank",
		[ORI_RDMA_SHARED] = "for peers too",
		[ORI_RDMA_TARGET] = "for peers to write",
		[ORI_RDMA_PASSING_TARGET] = "for one transfer to it",
		[ORI_RDMA_PASSING_SOURCE] = "for one transfer from it",
	};
	/* Kernels of this process may name it, too. */
	enum oriel_status status = use == ORI_RDMA_OWN ? ori_rdma_reach(r, address) : ORIEL_OK;

	if (status == ORIEL_OK)
		status = ori_memory_register(r->memory, address, length, use, mr, rkeys);
	if (status == ORIEL_OK)
		ori_log(ORIEL_LOG_DEBUG, "registered %zu bytes at %p with %u NIC%s, %s", length,
			address, r->count, r->count == 1 ? "" : "s", uses[use]);
	return status;
}

enum oriel_status ori_rdma_reach(struct ori_rdma *r, const void *address)
{
	return r->reach ? ori_reach_add(r->reach, address) : ORIEL_OK;
}

void ori_rdma_unregister(struct ori_rdma *r, struct ori_rdma_mr *mr)
{
	ori_memory_unregister(r->memory, mr);
}

bool ori_rdma_serves(struct ori_rdma *r, const void *address, size_t length, enum ori_rdma_use use)
{
	return ori_memory_serves(r->memory, address, length, use);
}

enum oriel_status ori_rdma_poll_event(struct ori_rdma *r, struct ori_rdma_event *event)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned rail;

	for (rail = 0; rail < r->count && status == ORIEL_AGAIN; rail++) {
		status = r->rails[rail].ops->poll_event(r->rails[rail].hca, &event->of);
		if (status == ORIEL_OK)
			event->rail = rail;
	}
	return status;
}

void ori_rdma_describe(const struct ori_rdma *r, unsigned rail,
		       struct ori_hca_qp_address *hca_address)
{
	r->rails[rail].ops->describe(r->rails[rail].hca, hca_address);
}
