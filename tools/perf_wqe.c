/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that time posting one work request to a link: reserve, write, publish, ring the doorbell.
 * A round fills an empty queue; the time in which the HCA then drains it does not count. A sink
 * (ORIEL_SOFT_HCA=sink=1) disturbs least. Each thread of a team posts on its own, except in the
 * cooperative case.
 */
#include <oriel/dev/detail/rdma.h>

#include "perf.h"
#include "perf_pass.h"

#define WQE_BYTES 8u /* written by each work request */

static const struct oriel_dev_link *wqe_link(const struct perf_rep *s)
{
	return s->w.peers[s->peer].link;
}

/* One thread: post @count work requests and ring once. */
static inline enum oriel_status wqe_post(const struct perf_rep *s, uint32_t count)
{
	struct ori_dev_rdma_address to = ori_dev_rdma_remote(&s->w, s->peer, 0);
	struct ori_dev_rdma_address from =
		ori_dev_rdma_local(&s->w, s->peer, s->source, WQE_BYTES, false);
	const struct oriel_dev_link *l = wqe_link(s);
	struct ori_dev_link_post post =
		ori_dev_link_begin(l, ori_dev_link_main(l), ORIEL_DEV_PUT, count);
	uint32_t i;

	if (post.status != ORIEL_OK)
		return post.status;
	for (i = 0; i < count; i++)
		ori_dev_link_add_write(&post, to, from, WQE_BYTES);
	return perf_posted(ori_dev_link_end(l, ORIEL_DEV_PUT, &post));
}

/* Whole group: one work request per thread, one doorbell. */
static enum oriel_status wqe_post_together(const struct perf_rep *s, struct oriel_dev_group g)
{
	uint64_t length = (uint64_t)WQE_BYTES * g.size;

	return perf_posted(ori_dev_link_put_cooperative(
		wqe_link(s), g, ori_dev_rdma_remote(&s->w, s->peer, 0),
		ori_dev_rdma_local(&s->w, s->peer, s->source, length, false), length));
}

/* Empties the queue and excludes the time it takes. */
static enum oriel_status wqe_empty(struct perf_rep *s, struct oriel_dev_group g, uint64_t parts)
{
	double start = tool_now_ns();
	enum oriel_status status = ori_dev_link_fence(wqe_link(s), g, 0);

	if (oriel_dev_is_leader(g)) {
		s->parts = parts;
		s->idle_ns += tool_now_ns() - start;
	}
	return status;
}

/* Each thread fills its part of the queue, @count work requests at a time. */
static inline enum oriel_status wqe_round(struct perf_rep *s, struct oriel_dev_group g,
					  uint32_t count)
{
	uint64_t i, posts = PERF_WQES / g.size / count;
	enum oriel_status status = ORIEL_OK;

	posts = posts ? posts : 1;
	for (i = 0; i < posts && status == ORIEL_OK; i++)
		status = wqe_post(s, count);
	status = oriel_dev_vote(g, status);
	return status == ORIEL_OK ? wqe_empty(s, g, posts * count * g.size) : status;
}

static enum oriel_status wqe_round_together(struct perf_rep *s, struct oriel_dev_group g)
{
	uint64_t i, posts = PERF_WQES / g.size;
	enum oriel_status status = ORIEL_OK;

	for (i = 0; i < posts && status == ORIEL_OK; i++)
		status = wqe_post_together(s, g);
	return status == ORIEL_OK ? wqe_empty(s, g, posts * g.size) : status;
}

/* @count 0 selects the cooperative case. */
static inline enum oriel_status wqe_rounds(struct perf_rep *s, struct oriel_dev_group g,
					   uint64_t begin, uint64_t end, uint32_t count)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			if (s->is_checked && oriel_dev_is_leader(g))
				perf_fill(s->source, WQE_BYTES, round, s->job->rank);
			oriel_dev_sync(g);
			status = count ? wqe_round(s, g, count) : wqe_round_together(s, g);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = perf_verify(s, g, WQE_BYTES, round);
	}
	return status;
}

enum oriel_status perf_wqe_1(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			     uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 1);
}

enum oriel_status perf_wqe_2(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			     uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 2);
}

enum oriel_status perf_wqe_4(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			     uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 4);
}

enum oriel_status perf_wqe_8(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			     uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 8);
}

enum oriel_status perf_wqe_16(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 16);
}

enum oriel_status perf_wqe_32(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 32);
}

enum oriel_status perf_wqe_cooperative(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				       uint64_t end)
{
	return wqe_rounds(s, g, begin, end, 0);
}
