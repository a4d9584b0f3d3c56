/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of GPUs: whose it is, and copies by the engines of the hub's own. */
#include <string.h>

#include <oriel/dev/order.h>
#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "p2p/p2p.h"

#define GPU_LOOK 256u /* tests in vain between two questions whether the GPU has failed */

enum oriel_status ori_p2p_context_open_gpu(struct oriel_p2p_context *hub,
					   const struct ori_gpu *like)
{
	enum oriel_status st = like ? ori_gpu_open_again(like, &hub->gpu) : ori_gpu_open(&hub->gpu);

	if (st != ORIEL_OK)
		return st;
	if (!(hub->gpu.flags & ORI_GPU_STREAM_FLAGS))
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"GPU %s (%s) has no streams that store words of 64 bits: the driver is "
			"older than 11.7",
			hub->gpu.pci, hub->gpu.name);
	return ORIEL_OK;
}

enum oriel_status ori_p2p_context_pin(struct oriel_p2p_context *hub, struct p2p_area *area)
{
	enum oriel_status st;

	if (!hub->gpu.ops || area->mem->gpu)
		return ORIEL_OK;
	st = ori_mem_pin(&hub->gpu, area->mem);
	area->is_pinned = st == ORIEL_OK;
	return st;
}

void ori_p2p_context_unpin(struct oriel_p2p_context *hub, struct p2p_area *area)
{
	if (area->is_pinned)
		ori_mem_unpin(&hub->gpu, area->mem);
	area->is_pinned = false;
}

enum oriel_status ori_p2p_context_register_gpu(struct oriel_p2p_context *hub, char *address,
					       size_t length, uint64_t iova, struct ori_hca_mr **mr,
					       struct ori_hca_keys *keys)
{
	if (hub->needs_flush && !(hub->gpu.flags & ORI_GPU_FLUSHES))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"what an adapter writes to GPU %s (%s) needs a flush, which its "
				"driver does not have",
				hub->gpu.pci, hub->gpu.name);
	return ori_hca_register_gpu(hub->ops, hub->hca, &hub->gpu, address, length, iova,
				    P2P_ACCESS, mr, keys);
}

enum oriel_status ori_p2p_context_query(const struct oriel_p2p_context *hub, const void *address,
					bool *is_gpu)
{
	struct ori_gpu_memory_info place = {.kind = ORI_GPU_PAGEABLE};
	enum oriel_status st = ORIEL_OK;

	if (hub->gpu.ops)
		st = hub->gpu.ops->query(&hub->gpu, address, &place);
	if (st == ORIEL_OK)
		*is_gpu = place.kind != ORI_GPU_PAGEABLE && place.kind != ORI_GPU_PINNED;
	return st;
}

/* What this process does not see is the driver's to refuse, once memory is shared. */
bool ori_p2p_context_reaches(const struct oriel_p2p_context *hub, const uint8_t uuid[ORI_GPU_UUID])
{
	static const uint8_t none[ORI_GPU_UUID];
	struct ori_gpu_reach reach[P2P_REACH];
	unsigned count;

	if (!hub->gpu.ops || memcmp(uuid, none, sizeof(none)) == 0)
		return false;
	count = hub->gpu.ops->list_peers(&hub->gpu, reach, P2P_REACH);
	for (unsigned i = 0; i < count; i++)
		if (memcmp(reach[i].uuid, uuid, sizeof(reach[i].uuid)) == 0)
			return reach[i].flags & ORI_GPU_ACCESS;
	return true;
}

enum oriel_status ori_copy_streams_open(struct oriel_p2p *p)
{
	const struct ori_gpu *gpu = &p->hub->gpu;
	enum oriel_status st = ORIEL_OK;

	if (!gpu->ops)
		return ORIEL_OK;
	st = ori_p2p_context_pin(p->hub, &p->area);
	for (unsigned i = 0; i < P2P_COPY_STREAMS && st == ORIEL_OK; i++) {
		p->lanes[i].word = &p->segment->flown[i].count;
		st = gpu->ops->open_stream(gpu, &p->lanes[i].stream);
	}
	return st;
}

void ori_copy_streams_close(struct oriel_p2p *p)
{
	for (unsigned i = 0; i < P2P_COPY_STREAMS; i++)
		if (p->lanes[i].stream)
			p->hub->gpu.ops->close_stream(&p->hub->gpu, p->lanes[i].stream);
	ori_p2p_context_unpin(p->hub, &p->area);
}

enum oriel_status ori_copy_stream_copy(struct oriel_p2p *p, enum p2p_copy_use use, void *to,
				       const void *from, size_t length, uint64_t *copy)
{
	const struct ori_gpu *gpu = &p->hub->gpu;
	struct p2p_copy_stream *lane = &p->lanes[use];

	lane->begun++;
	/* Release: a peer that closes and sees nobody inside sees that this may still write. */
	if (use == P2P_COPY_OUT)
		oriel_dev_store_release(&p->segment->flying, lane->begun);
	*copy = lane->begun;
	return gpu->ops->stream_copy_and_flag(gpu, lane->stream, to, from, length, lane->word,
					      lane->begun);
}

enum oriel_status ori_copy_stream_test(struct oriel_p2p *p, enum p2p_copy_use use, uint64_t copy)
{
	struct p2p_copy_stream *lane = &p->lanes[use];
	enum oriel_status st;

	/* Acquire: with what the stream stores after the copy. */
	if (oriel_dev_load_acquire(lane->word) >= copy)
		return ORIEL_OK;
	if (++lane->looks % GPU_LOOK)
		return ORIEL_AGAIN;
	st = p->hub->gpu.ops->stream_query(&p->hub->gpu, lane->stream);
	return st < 0 ? st : ORIEL_AGAIN;
}

static void lane_drain(struct oriel_p2p *p, struct p2p_copy_stream *lane, uint64_t deadline)
{
	const struct ori_gpu *gpu = &p->hub->gpu;

	while (gpu->ops->stream_query(gpu, lane->stream) == ORIEL_AGAIN) {
		if (ori_deadline_passed(deadline)) {
			ori_log(ORIEL_LOG_WARN, "GPU %s has not ended its copies in time",
				gpu->pci);
			return;
		}
		sched_yield();
	}
	/* Also where a copy was never begun, or has failed. */
	oriel_dev_store_release(lane->word, lane->begun);
}

void ori_copy_streams_drain(struct oriel_p2p *p)
{
	uint64_t deadline = ori_deadline(p->hub->timeout_ns);

	for (unsigned i = 0; i < P2P_COPY_STREAMS; i++)
		if (p->lanes[i].stream &&
		    oriel_dev_load_acquire(p->lanes[i].word) < p->lanes[i].begun)
			lane_drain(p, &p->lanes[i], deadline);
}

enum oriel_status ori_p2p_context_flush(struct oriel_p2p_context *hub)
{
	return hub->gpu.ops->flush(&hub->gpu);
}
