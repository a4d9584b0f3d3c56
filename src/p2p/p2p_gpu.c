/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs: which pointers are a GPU's, and copies by the engines of the context's
 * GPU. Contexts and endpoints call it.
 */
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/yield.h"
#include "p2p/p2p.h"
#include "topo/overrides.h"

#define GPU_QUERY 256u /* tests between two queries whether the GPU has failed */

enum oriel_status ori_p2p_context_open_gpu(struct oriel_p2p_context *ctx,
					   const struct ori_gpu *like)
{
	enum oriel_status status =
		like ? ori_gpu_open_again(like, &ctx->gpu) : ori_gpu_open(&ctx->gpu);
	uint32_t given;

	if (status == ORIEL_OK && !like)
		status = ori_topology_apply(NULL, &ctx->gpu, &given);
	if (status != ORIEL_OK)
		return status;
	if (!(ctx->gpu.flags & ORI_GPU_STREAM_FLAGS))
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"GPU %s (%s) has no streams that store words of 64 bits: the driver is "
			"older than 11.7",
			ctx->gpu.pci, ctx->gpu.name);
	return ORIEL_OK;
}

enum oriel_status ori_p2p_context_pin(struct oriel_p2p_context *ctx, struct p2p_area *area)
{
	enum oriel_status status;

	if (!ctx->gpu.ops || area->mem->gpu)
		return ORIEL_OK;
	status = ori_mem_pin(&ctx->gpu, area->mem);
	area->is_pinned = status == ORIEL_OK;
	return status;
}

void ori_p2p_context_unpin(struct oriel_p2p_context *ctx, struct p2p_area *area)
{
	if (area->is_pinned)
		ori_mem_unpin(&ctx->gpu, area->mem);
	area->is_pinned = false;
}

enum oriel_status ori_p2p_context_check_flush(const struct oriel_p2p_context *ctx)
{
	if (!ori_rdma_needs_flush(ctx->rdma) || ctx->gpu.flags & ORI_GPU_FLUSHES)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"GPU %s (%s) needs a flush after the writes of a NIC, which its driver "
			"does not have",
			ctx->gpu.pci, ctx->gpu.name);
}

enum oriel_status ori_p2p_context_query(const struct oriel_p2p_context *ctx, const void *address,
					bool *is_gpu)
{
	struct ori_gpu_memory_info info = {.kind = ORI_GPU_PAGEABLE};
	enum oriel_status status = ORIEL_OK;

	if (ctx->gpu.ops)
		status = ctx->gpu.ops->query(&ctx->gpu, address, &info);
	if (status == ORIEL_OK)
		*is_gpu = info.kind != ORI_GPU_PAGEABLE && info.kind != ORI_GPU_PINNED;
	return status;
}

/*
 * For a GPU that this process does not see the answer is yes: the driver rejects it once
 * memory is shared.
 */
bool ori_p2p_context_reaches(const struct oriel_p2p_context *ctx, const uint8_t uuid[ORI_GPU_UUID])
{
	static const uint8_t none[ORI_GPU_UUID];
	struct ori_gpu_reach reach[P2P_REACH];
	unsigned count;

	if (!ctx->gpu.ops || ctx->gpu.flags & ORI_GPU_NO_PEERS ||
	    memcmp(uuid, none, sizeof(none)) == 0)
		return false;
	count = ctx->gpu.ops->list_peers(&ctx->gpu, reach, P2P_REACH);
	for (unsigned i = 0; i < count; i++)
		if (memcmp(reach[i].uuid, uuid, sizeof(reach[i].uuid)) == 0)
			return reach[i].flags & ORI_GPU_ACCESS;
	return true;
}

enum oriel_status ori_copy_streams_open(struct oriel_p2p *p2p)
{
	const struct ori_gpu *gpu = &p2p->ctx->gpu;
	enum oriel_status status = ORIEL_OK;

	if (!gpu->ops)
		return ORIEL_OK;
	status = ori_p2p_context_pin(p2p->ctx, &p2p->area);
	for (unsigned i = 0; i < P2P_COPY_STREAMS && status == ORIEL_OK; i++) {
		p2p->copy_streams[i].word = &p2p->segment->flown[i].count;
		status = gpu->ops->open_stream(gpu, &p2p->copy_streams[i].stream);
	}
	if (status != ORIEL_OK)
		ori_copy_streams_close(p2p);
	return status;
}

void ori_copy_streams_close(struct oriel_p2p *p2p)
{
	for (unsigned i = 0; i < P2P_COPY_STREAMS; i++) {
		if (p2p->copy_streams[i].stream)
			p2p->ctx->gpu.ops->close_stream(&p2p->ctx->gpu,
							p2p->copy_streams[i].stream);
		p2p->copy_streams[i].stream = NULL;
	}
	ori_p2p_context_unpin(p2p->ctx, &p2p->area);
}

enum oriel_status ori_copy_stream_copy(struct oriel_p2p *p2p, enum p2p_copy_use use, void *to,
				       const void *from, size_t length, uint64_t *copy)
{
	const struct ori_gpu *gpu = &p2p->ctx->gpu;
	struct p2p_copy_stream *copy_stream = &p2p->copy_streams[use];

	copy_stream->begun++;
	/*
	 * Release: a peer that closes and sees busy cleared sees that this copy may still
	 * write.
	 */
	if (use == P2P_COPY_OUT)
		oriel_dev_store_release(&p2p->segment->flying, copy_stream->begun);
	*copy = copy_stream->begun;
	return gpu->ops->stream_copy_and_flag(gpu, copy_stream->stream, to, from, length,
					      copy_stream->word, copy_stream->begun);
}

enum oriel_status ori_copy_stream_test(struct oriel_p2p *p2p, enum p2p_copy_use use, uint64_t copy)
{
	struct p2p_copy_stream *copy_stream = &p2p->copy_streams[use];
	enum oriel_status status;

	/* Acquire: with the word that the stream stores after the copy. */
	if (oriel_dev_load_acquire(copy_stream->word) >= copy)
		return ORIEL_OK;
	/*
	 * The word shows every copy that succeeds; the driver is asked only for failures, since
	 * that call costs far more than a load.
	 */
	if (++copy_stream->tests % GPU_QUERY)
		return ORIEL_AGAIN;
	status = p2p->ctx->gpu.ops->stream_query(&p2p->ctx->gpu, copy_stream->stream);
	return status < 0 ? status : ORIEL_AGAIN;
}

static void copy_stream_drain(struct oriel_p2p *p2p, struct p2p_copy_stream *copy_stream,
			      uint64_t deadline)
{
	const struct ori_gpu *gpu = &p2p->ctx->gpu;

	while (gpu->ops->stream_query(gpu, copy_stream->stream) == ORIEL_AGAIN) {
		if (ori_deadline_passed(deadline)) {
			ori_log(ORIEL_LOG_WARN, "GPU %s has not ended its copies in time",
				gpu->pci);
			return;
		}
		ori_yield();
	}
	/* Also if a copy was never begun, or has failed. */
	oriel_dev_store_release(copy_stream->word, copy_stream->begun);
}

void ori_copy_streams_drain(struct oriel_p2p *p2p)
{
	uint64_t deadline = ori_deadline(p2p->ctx->timeout_ns);

	for (unsigned i = 0; i < P2P_COPY_STREAMS; i++)
		if (p2p->copy_streams[i].stream &&
		    oriel_dev_load_acquire(p2p->copy_streams[i].word) < p2p->copy_streams[i].begun)
			copy_stream_drain(p2p, &p2p->copy_streams[i], deadline);
}

enum oriel_status ori_p2p_context_flush(struct oriel_p2p_context *ctx)
{
	return ctx->gpu.ops->flush(&ctx->gpu);
}
