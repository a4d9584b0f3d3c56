/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the NICs of a communicator, with all that their links share: the sink,
 * the key of all memory, the proxy, and the memory for flushes. links.c calls it.
 */
#include "rdma/rdma.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "rdma/rdma_rail.h"

#define RDMA_DEPTH 1024u
#define RDMA_FLUSH_LENGTH 65536u /* bytes that a read flush may read: a page of a GPU */

static enum oriel_status rdma_open_sink(struct rdma_rail *r)
{
	struct ori_hca_keys keys;
	enum oriel_status status;

	/* A page of its own, at address 0 of its key: WQEs carry no address for it. */
	r->sink = aligned_alloc(RDMA_PAGE, RDMA_PAGE);
	if (!r->sink)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for the sink of a NIC");
	memset(r->sink, 0, RDMA_PAGE);
	status = r->ops->register_memory(r->hca, r->sink, RDMA_PAGE, 0, ORI_HCA_LOCAL_WRITE,
					 &r->sink_mr, &keys);
	if (status != ORIEL_OK) {
		free(r->sink);
		return status;
	}
	r->sink_lkey = keys.lkey;
	return ORIEL_OK;
}

/*
 * One key for all memory. A software HCA reaches all of it anyhow, other NICs by
 * on-demand paging: so that any memory may be the source of a put, as on the mapped path.
 */
static enum oriel_status rdma_open_whole(struct rdma_rail *r)
{
	struct ori_hca_keys keys;
	enum oriel_status status;

	status = r->ops->register_memory(r->hca, (void *)(uintptr_t)RDMA_PAGE,
					 ((size_t)1 << 47) - 2 * RDMA_PAGE, RDMA_PAGE,
					 ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY, &r->whole_mr,
					 &keys);
	if (status == ORIEL_OK)
		r->whole_lkey = keys.lkey;
	return status;
}

static void rdma_close_whole(struct rdma_rail *r)
{
	if (r->whole_mr)
		r->ops->unregister_memory(r->whole_mr);
}

/* Chooses the posting thread, for NICs that can do what @caps says. */
static enum oriel_status rdma_choose_post(struct ori_rdma_attr *attr,
					  const struct ori_hca_caps *caps)
{
	if (attr->post == ORI_RDMA_POST_AUTO)
		attr->post = caps->rings ? ORI_RDMA_POST_RINGS : ORI_RDMA_POST_PROXY;
	if (attr->post == ORI_RDMA_POST_RINGS && !caps->rings)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s reads no rings: set ORIEL_POST to proxy or auto", caps->name);
	return ORIEL_OK;
}

static enum oriel_status rdma_open_loopback(struct ori_rdma *rdma, struct rdma_rail *r)
{
	enum oriel_status status = ORIEL_OK;

	if (!rdma->proxy)
		status = ori_proxy_thread_start(r->caps.numa_node, r->caps.name, &rdma->proxy);
	if (status == ORIEL_OK)
		status = ori_loopback_open(r->ops, r->hca, r->sink_lkey, &r->loopback);
	if (status == ORIEL_OK)
		ori_proxy_thread_add_loopback(rdma->proxy, r->loopback);
	return status;
}

static enum oriel_status rdma_open_rail(struct ori_rdma *rdma, unsigned rail)
{
	struct rdma_rail *r = &rdma->rails[rail];
	enum oriel_status status;

	r->ops = rdma->attr.hca;
	r->gpu = rdma->attr.gpu;
	status = r->ops->open(rdma->attr.config, rail, &r->hca);
	if (status != ORIEL_OK)
		return status;
	status = r->gpu ? r->ops->use_gpu(r->hca, r->gpu) : ORIEL_OK;
	if (status == ORIEL_OK && rdma->attr.is_remote)
		status = r->ops->listen(r->hca);
	if (status != ORIEL_OK)
		goto err_close_hca;
	r->ops->caps(r->hca, &r->caps);
	status = rdma_choose_post(&rdma->attr, &r->caps);
	if (status != ORIEL_OK)
		goto err_close_hca;
	if (rdma->attr.depth > r->caps.depth_max) {
		status = ori_fail(ORIEL_ERR_RANGE, "%s: queues of %u WQEs, at most %u",
				  r->caps.name, rdma->attr.depth, r->caps.depth_max);
		goto err_close_hca;
	}
	status = rdma_open_sink(r);
	if (status != ORIEL_OK)
		goto err_close_hca;
	status = r->caps.reaches_all ? rdma_open_whole(r) : ORIEL_OK;
	if (status != ORIEL_OK)
		goto err_close_sink;
	/*
	 * Posters that find own keys skip memory whose key is 0; that of the sink is
	 * rejected for all other addresses.
	 */
	rdma->whole_lkeys.rail[rail] = r->whole_mr ? r->whole_lkey : r->sink_lkey;
	if (rdma->attr.post == ORI_RDMA_POST_RINGS)
		return ORIEL_OK;
	rdma->whole_lkeys.rail[rail] = ORIEL_PROXY_LOOKUP;
	status = rdma_open_loopback(rdma, r);
	if (status != ORIEL_OK)
		goto err_close_whole;
	return ORIEL_OK;

err_close_whole:
	rdma_close_whole(r);
err_close_sink:
	r->ops->unregister_memory(r->sink_mr);
	free(r->sink);
err_close_hca:
	r->ops->close(r->hca);
	return status;
}

static void rdma_close_rail(struct ori_rdma *rdma, struct rdma_rail *r)
{
	if (r->loopback)
		ori_proxy_thread_remove_loopback(rdma->proxy, r->loopback);
	ori_loopback_close(r->loopback);
	while (r->page_count)
		r->gpu->ops->unpin(r->gpu, r->pages[--r->page_count]);
	rdma_close_whole(r);
	r->ops->unregister_memory(r->sink_mr);
	r->ops->close(r->hca);
	free(r->pages);
	free(r->free);
	free(r->sink);
}

bool ori_rdma_is_whole(const struct ori_rdma *r)
{
	const struct ori_hca_caps *caps = &r->rails[0].caps;

	return caps->reaches_all && (!r->attr.gpu || caps->reaches_gpu);
}

static enum oriel_status rdma_open_memory(struct ori_rdma *r)
{
	struct ori_memory_attr attr = {
		.ops = r->attr.hca,
		.rails = r->attr.rails,
		.is_whole = ori_rdma_is_whole(r),
		.gpu = r->attr.gpu,
	};
	unsigned rail;

	for (rail = 0; rail < r->attr.rails; rail++)
		attr.hcas[rail] = r->rails[rail].hca;
	return ori_memory_open(&attr, &r->memory);
}

static bool rdma_is_unordered(const struct ori_rdma *r)
{
	const struct ori_gpu *gpu = r->attr.gpu;
	unsigned rail;

	for (rail = 0; rail < r->attr.rails; rail++) {
		const struct ori_hca_caps *caps = &r->rails[rail].caps;

		/* The software HCA writes to a GPU by copies, each done before the next. */
		if (caps->writes_late ||
		    (gpu && !caps->is_software && !(gpu->flags & ORI_GPU_ORDERED)))
			return true;
	}
	return false;
}

/*
 * Registers a piece of unordered memory, which a proxy reads to flush DMA writes to it.
 * NICs that do not reach that GPU never write to it, so that there is nothing to flush.
 */
static enum oriel_status rdma_open_flush(struct ori_rdma *r)
{
	const struct ori_gpu *gpu = r->attr.gpu;
	struct ori_error before;
	enum oriel_status status;

	if (!r->proxy)
		return ORIEL_OK;
	ori_error_save(&before);
	status = gpu ? ori_mem_alloc_gpu(gpu, RDMA_FLUSH_LENGTH, &r->flush_mem)
		     : ori_mem_alloc(RDMA_FLUSH_LENGTH, 0, &r->flush_mem);
	if (status != ORIEL_OK)
		return status;
	status = ori_memory_register(r->memory, r->flush_mem->address, RDMA_FLUSH_LENGTH,
				     ORI_RDMA_SHARED, &r->flush_mr, &r->flush_rkeys);
	if (status == ORIEL_OK)
		return ORIEL_OK;
	ori_mem_unref(r->flush_mem);
	if (!gpu)
		return status;
	ori_log(ORIEL_LOG_INFO, "NICs cannot reach memory of GPU %s: %s", gpu->pci,
		oriel_last_error());
	ori_error_restore(&before);
	ori_memory_reject_gpu(r->memory);
	r->is_unordered = false;
	return ORIEL_OK;
}

static void rdma_close_flush(struct ori_rdma *r)
{
	if (!r->flush_mr)
		return;
	ori_memory_unregister(r->memory, r->flush_mr);
	ori_mem_unref(r->flush_mem);
}

enum oriel_status ori_rdma_open(const struct ori_rdma_attr *attr, struct ori_rdma **rdma)
{
	struct ori_rdma *r = calloc(1, sizeof(*r));
	enum oriel_status status;
	unsigned rail;

	if (!r)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a NIC");
	r->attr = *attr;
	if (!r->attr.depth)
		r->attr.depth = RDMA_DEPTH;
	if (!r->attr.rails)
		r->attr.rails = 1;
	assert(r->attr.rails <= ORIEL_DEV_RAILS);
	for (rail = 0; rail < r->attr.rails; rail++) {
		status = rdma_open_rail(r, rail);
		if (status != ORIEL_OK)
			goto err_close_rails;
	}
	status = rdma_open_memory(r);
	if (status != ORIEL_OK)
		goto err_close_rails;
	r->is_unordered = rdma_is_unordered(r);
	status = r->is_unordered ? rdma_open_flush(r) : ORIEL_OK;
	if (status != ORIEL_OK)
		goto err_close_memory;
	if (ori_rdma_finds_own(r) && r->attr.gpu) {
		r->cells.memory = r->memory;
		status = ori_reach_open(r->memory, r->attr.gpu, &r->reach);
		if (status != ORIEL_OK)
			goto err_close_flush;
	}
	*rdma = r;
	return ORIEL_OK;

err_close_flush:
	rdma_close_flush(r);
err_close_memory:
	ori_memory_close(r->memory);
err_close_rails:
	while (rail)
		rdma_close_rail(r, &r->rails[--rail]);
	ori_proxy_thread_stop(r->proxy);
	free(r);
	return status;
}

void ori_rdma_close(struct ori_rdma *r)
{
	unsigned rail;

	if (!r)
		return;
	ori_rdma_cells_close(&r->cells);
	ori_reach_close(r->reach);
	rdma_close_flush(r);
	ori_memory_close(r->memory);
	for (rail = 0; rail < r->attr.rails; rail++)
		rdma_close_rail(r, &r->rails[rail]);
	ori_proxy_thread_stop(r->proxy);
	free(r);
}

unsigned ori_rdma_rails(const struct ori_rdma *r)
{
	return r->attr.rails;
}

void ori_rdma_caps(const struct ori_rdma *r, unsigned rail, struct ori_hca_caps *caps)
{
	*caps = r->rails[rail].caps;
}

enum oriel_status ori_rdma_register(struct ori_rdma *r, void *address, size_t length,
				    enum ori_rdma_use use, struct ori_rdma_mr **mr,
				    struct oriel_dev_keys *rkeys)
{
	/* Kernels of this process may name it, too. */
	enum oriel_status status = use == ORI_RDMA_OWN ? ori_rdma_reach(r, address) : ORIEL_OK;

	if (status != ORIEL_OK)
		return status;
	return ori_memory_register(r->memory, address, length, use, mr, rkeys);
}

enum oriel_status ori_rdma_reach(struct ori_rdma *r, const void *address)
{
	return r->reach ? ori_reach_add(r->reach, address) : ORIEL_OK;
}

const struct oriel_dev_keys *ori_rdma_whole_lkeys(const struct ori_rdma *r)
{
	return &r->whole_lkeys;
}

/* Posters of rings find local keys themselves; a proxy looks them up for its posters. */
bool ori_rdma_finds_own(const struct ori_rdma *r)
{
	return !ori_rdma_is_proxied(r) && !ori_rdma_is_whole(r);
}

bool ori_rdma_is_unordered(const struct ori_rdma *r)
{
	return r->is_unordered;
}

bool ori_rdma_is_proxied(const struct ori_rdma *r)
{
	return r->attr.post == ORI_RDMA_POST_PROXY;
}

void ori_rdma_unregister(struct ori_rdma *r, struct ori_rdma_mr *mr)
{
	ori_memory_unregister(r->memory, mr);
}

enum oriel_status ori_rdma_poll_event(struct ori_rdma *r, struct ori_rdma_event *event)
{
	enum oriel_status status = ORIEL_AGAIN;
	unsigned rail;

	for (rail = 0; rail < r->attr.rails && status == ORIEL_AGAIN; rail++) {
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
