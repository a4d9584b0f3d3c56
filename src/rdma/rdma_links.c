/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens what the links of a context share: the sink, the key of all memory, the proxy, and
 * the memory for flushes. src/comm calls it, and rdma.c closes all that.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "rdma/rdma_rail.h"

#define LINKS_DEPTH 1024u
#define LINKS_DEPTH_OF_BLOCK 4u   /* two put_signals of two requests */
#define LINKS_FLUSH_LENGTH 65536u /* bytes that a read flush may read: a page of a GPU */

bool ori_rdma_is_whole(const struct ori_rdma *r)
{
	const struct ori_hca_caps *caps = &r->rails[0].caps;

	return caps->reaches_all && (!r->gpu || caps->reaches_gpu);
}

bool ori_rdma_is_proxied(const struct ori_rdma *r)
{
	return r->links.post == ORI_RDMA_POST_PROXY;
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

bool ori_rdma_is_reordered(const struct ori_rdma *r)
{
	return r->is_reordered;
}

const char *ori_rdma_why_reordered(const struct ori_rdma *r)
{
	return r->why_reordered;
}

const struct oriel_dev_keys *ori_rdma_whole_lkeys(const struct ori_rdma *r)
{
	return &r->whole_lkeys;
}

static enum oriel_status links_open_sink(struct rdma_rail *r)
{
	struct ori_hca_keys keys;
	enum oriel_status status;

	/* A page of its own, at address 0 of its key: WQEs carry no address for it. */
	r->sink = aligned_alloc(RDMA_PAGE, RDMA_PAGE);
	if (!r->sink)
		return ori_fail_nomem(RDMA_PAGE, "the sink of a NIC");
	memset(r->sink, 0, RDMA_PAGE);
	status = r->ops->register_memory(r->hca, r->sink, RDMA_PAGE, 0, ORI_HCA_LOCAL_WRITE,
					 &r->sink_mr, &keys);
	if (status == ORIEL_OK)
		r->sink_lkey = keys.lkey;
	return status;
}

/*
 * One key for all memory. A software HCA reaches all of it anyhow, other NICs by
 * on-demand paging: so that any memory may be the source of a put, as on the mapped path.
 */
static enum oriel_status links_open_whole(struct rdma_rail *r)
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

/* Chooses the posting thread, for NICs that can do what @caps says. */
static enum oriel_status links_choose_post(struct ori_rdma_links_attr *attr,
					   const struct ori_hca_caps *caps)
{
	if (attr->post == ORI_RDMA_POST_AUTO)
		attr->post = caps->rings ? ORI_RDMA_POST_RINGS : ORI_RDMA_POST_PROXY;
	if (attr->post == ORI_RDMA_POST_RINGS && !caps->rings)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s reads no rings: set ORIEL_POST to proxy or auto", caps->name);
	return ORIEL_OK;
}

static enum oriel_status links_open_loopback(struct ori_rdma *rdma, struct rdma_rail *r)
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

static enum oriel_status links_open_rail(struct ori_rdma *rdma, unsigned rail)
{
	struct rdma_rail *r = &rdma->rails[rail];
	enum oriel_status status = rdma->links.is_remote ? r->ops->listen(r->hca) : ORIEL_OK;

	if (status == ORIEL_OK)
		status = links_choose_post(&rdma->links, &r->caps);
	if (status != ORIEL_OK)
		return status;
	if (rdma->links.depth > r->caps.depth_max)
		return ori_fail(ORIEL_ERR_RANGE,
				"%s: its queues hold %u requests at most, not %u (queue_depth of "
				"the communicator)",
				r->caps.name, r->caps.depth_max, rdma->links.depth);
	status = links_open_sink(r);
	if (status == ORIEL_OK && r->caps.reaches_all)
		status = links_open_whole(r);
	/*
	 * Posters that find own keys skip memory whose key is 0; that of the sink is
	 * rejected for all other addresses.
	 */
	rdma->whole_lkeys.rail[rail] = r->whole_mr ? r->whole_lkey : r->sink_lkey;
	if (ori_rdma_is_whole(rdma))
		ori_memory_set_whole_lkey(rdma->memory, rail, r->whole_lkey);
	if (status != ORIEL_OK || rdma->links.post == ORI_RDMA_POST_RINGS)
		return status;
	rdma->whole_lkeys.rail[rail] = ORIEL_PROXY_LOOKUP;
	return links_open_loopback(rdma, r);
}

static void links_close_rail(struct ori_rdma *rdma, struct rdma_rail *r)
{
	if (r->loopback)
		ori_proxy_thread_remove_loopback(rdma->proxy, r->loopback);
	ori_host_destroy(r->loopback);
	while (r->page_count)
		r->gpu->ops->unpin(r->gpu, r->pages[--r->page_count]);
	if (r->whole_mr)
		r->ops->unregister_memory(r->whole_mr);
	if (r->sink_mr)
		r->ops->unregister_memory(r->sink_mr);
	free(r->pages);
	free(r->free);
	free(r->sink);
}

/* May writes of @r to memory here become visible after the word that announces them? */
static bool links_is_late(const struct rdma_rail *r)
{
	return r->caps.writes_late || r->needs_flush;
}

/*
 * Registers a piece of unordered memory, which a proxy reads to flush DMA writes to it.
 * NICs that do not reach that GPU never write to it, so that there is nothing to flush.
 */
static enum oriel_status links_open_flush(struct ori_rdma *r)
{
	const struct ori_gpu *gpu = r->gpu;
	struct ori_error before;
	enum oriel_status status;

	if (!r->proxy)
		return ORIEL_OK;
	ori_error_save(&before);
	status = gpu ? ori_mem_alloc_gpu(gpu, LINKS_FLUSH_LENGTH, &r->flush_mem)
		     : ori_mem_alloc(LINKS_FLUSH_LENGTH, 0, &r->flush_mem);
	if (status != ORIEL_OK)
		return ori_error_end(&before, status);
	status = ori_memory_register(r->memory, r->flush_mem->address, LINKS_FLUSH_LENGTH,
				     ORI_RDMA_SHARED, &r->flush_mr, &r->flush_rkeys);
	if (status == ORIEL_OK)
		return ori_error_end(&before, status);
	ori_mem_unref(r->flush_mem);
	if (!gpu)
		return ori_error_end(&before, status);
	ori_log(ORIEL_LOG_INFO, "NICs cannot reach memory of GPU %s: %s", gpu->pci,
		oriel_last_error());
	ori_error_restore(&before);
	ori_memory_reject_gpu(r->memory);
	r->is_unordered = false;
	return ORIEL_OK;
}

/* Requests for all blocks that post, rounded up to a power of two, as far as each NIC goes. */
static uint32_t links_choose_depth(const struct ori_rdma *r)
{
	uint32_t rail, depth = ORIEL_QUEUE_DEPTH_MIN, most = ORIEL_QUEUE_DEPTH_MAX;

	if (!r->links.blocks)
		return LINKS_DEPTH;
	for (rail = 0; rail < r->count; rail++)
		if (r->rails[rail].caps.depth_max < most)
			most = r->rails[rail].caps.depth_max;
	while (depth / LINKS_DEPTH_OF_BLOCK < r->links.blocks && 2 * depth <= most)
		depth *= 2;
	return depth;
}

uint32_t ori_rdma_depth(const struct ori_rdma *r)
{
	return r->links.depth;
}

enum oriel_status ori_rdma_open_links(struct ori_rdma *r, const struct ori_rdma_links_attr *attr)
{
	enum oriel_status status = ORIEL_OK;
	unsigned rail;

	r->links = *attr;
	if (!r->links.depth)
		r->links.depth = links_choose_depth(r);
	for (rail = 0; rail < r->count && status == ORIEL_OK; rail++) {
		status = links_open_rail(r, rail);
		r->is_unordered |= links_is_late(&r->rails[rail]);
	}
	if (status == ORIEL_OK && r->proxy && !ori_rdma_is_whole(r))
		status = ori_memory_open_blocks(r->memory);
	if (status == ORIEL_OK && r->is_unordered)
		status = links_open_flush(r);
	if (status != ORIEL_OK || !ori_rdma_finds_own(r))
		return status;
	status = ori_posted_open(r->memory, &r->posted);
	if (status != ORIEL_OK || !r->gpu)
		return status;
	r->cells.memory = r->memory;
	return ori_reach_open(r->memory, r->gpu, &r->reach);
}

void ori_rdma_close_links(struct ori_rdma *r)
{
	unsigned rail;

	ori_rdma_cells_close(&r->cells);
	ori_reach_close(r->reach);
	ori_posted_close(r->posted);
	if (r->flush_mr) {
		ori_memory_unregister(r->memory, r->flush_mr);
		ori_mem_unref(r->flush_mem);
	}
	for (rail = 0; rail < r->count; rail++)
		links_close_rail(r, &r->rails[rail]);
	ori_proxy_thread_stop(r->proxy);
}
