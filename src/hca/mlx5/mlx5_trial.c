/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries the queues of a tier from where it posts, a kernel or a thread, before mlx5_tier.c takes
 * the tier. Commands that succeed promise little: a doorbell may ring nothing, a ring may be
 * elsewhere, a page fault may stall the queue, a WAIT may end at once.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "hca/mlx5/mlx5_device.h"
#include "kernels/kernels.h"
#include "kernels/trial.h"

/* A kernel of the program may occupy the GPU for so long, before the trial gives up. */
#define TRIAL_KERNEL_NS UINT64_C(10000000000)

/* A queue pair with its CQ, connected to itself. Zeroed storage is closed. */
struct trial_queue {
	struct ori_hca_cq *cq;
	struct mlx5_qp *qp;
	uint32_t cqn;
};

struct trial_run {
	struct mlx5_device *device;
	struct ori_mem *mem; /* holds @trial */
	struct ori_trial *trial;
	struct ori_hca_mr *mr;
	struct trial_queue main, companion;
	bool is_lost; /* a kernel that was withdrawn may still read @mem */
};

static enum oriel_status trial_open_memory(struct trial_run *r)
{
	struct mlx5_device *d = r->device;
	struct ori_hca_keys keys = {0};
	struct ori_trial *t;
	enum oriel_status status = ori_mem_alloc_pinned(d->gpu, sizeof(*t), &r->mem);

	if (status != ORIEL_OK)
		return status;
	t = r->trial = (struct ori_trial *)(void *)r->mem->address;
	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < ORI_TRIAL_WORDS; i++)
		t->memory.source[i] = ORI_TRIAL_UNSET + i;
	t->memory.old = t->memory.counted = ORI_TRIAL_UNSET;
	t->memory.masked[0] = UINT64_MAX;
	t->memory.masked[1] = ORI_TRIAL_UNSET;
	status = ori_verbs_register((struct ori_hca *)d, &t->memory, sizeof(t->memory), 0,
				    ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE |
					    ORI_HCA_REMOTE_ATOMIC,
				    &r->mr, &keys);
	t->lkey = keys.lkey;
	t->rkey = keys.rkey;
	return status;
}

static enum oriel_status trial_connect(struct mlx5_qp *qp, const struct ori_hca_qp_address *self)
{
	return qp->object ? ori_mlx5_join(qp, self)
			  : ori_verbs_connect_qp((struct ori_hca_qp *)qp->verbs, self);
}

static enum oriel_status trial_open_queue(struct mlx5_device *d, bool is_companion,
					  struct trial_queue *k, struct ori_dev_mlx5_queue *ring)
{
	struct ori_hca_cq_attr cq = {.depth = ORI_TRIAL_DEPTH,
				     .has_own_ring = true,
				     .is_for_gpu = d->gpu != NULL};
	struct ori_hca_qp_attr qp = {.depth = ORI_TRIAL_DEPTH,
				     .has_own_ring = true,
				     .is_for_gpu = d->gpu != NULL,
				     .is_companion = is_companion};
	struct ori_hca *hca = (struct ori_hca *)d;
	struct ori_hca_qp_address self;
	enum oriel_status status;
	struct ori_hca_qp *made;

	status = ori_mlx5_create_cq(hca, &cq, &k->cq, &k->cqn);
	if (status != ORIEL_OK)
		return status;
	qp.send_cq = k->cq;
	status = ori_mlx5_create_qp(hca, &qp, &made, &self);
	if (status != ORIEL_OK)
		return status;
	k->qp = (struct mlx5_qp *)made;
	ring->sq = k->qp->place.sq;
	ring->cq = k->qp->place.cq;
	ring->record = k->qp->place.record;
	ring->doorbell = k->qp->place.doorbell;
	ring->asleep = k->qp->place.asleep;
	ring->qpn = self.qpn;
	ring->cqn = k->cqn;
	ring->log_depth = (uint32_t)__builtin_ctz(ORI_TRIAL_DEPTH);
	ori_dev_mlx5_queue_begin(ring, 0);
	return trial_connect(k->qp, &self);
}

/* Nothing of a queue that stalled may write later. */
static void trial_close_queue(struct trial_queue *k)
{
	if (k->qp && k->qp->object && k->qp->is_connected)
		(void)ori_mlx5_break(k->qp);
	if (k->qp)
		ori_mlx5_destroy_qp((struct ori_hca_qp *)k->qp);
	if (k->cq)
		ori_mlx5_destroy_cq(k->cq);
}

static void trial_close(struct trial_run *r)
{
	trial_close_queue(&r->companion);
	trial_close_queue(&r->main);
	if (r->mr)
		ori_verbs_unregister(r->mr);
	if (!r->is_lost)
		ori_mem_unref_pinned(r->device->gpu, r->mem);
}

/*
 * Wait until the kernel is done. It ends by limits of its own once it has begun; one that does
 * not begin, since others occupy the GPU, is withdrawn, and will read nothing but that.
 */
static enum oriel_status trial_await_kernel(struct trial_run *r)
{
	struct mlx5_device *d = r->device;
	struct ori_trial *t = r->trial;
	uint64_t begin = ori_clock_ns();
	enum oriel_status status;

	while ((status = d->gpu->ops->stream_query(d->gpu, d->gpu->stream)) == ORIEL_AGAIN) {
		if (!t->is_withdrawn && ori_clock_ns() - begin > TRIAL_KERNEL_NS) {
			ori_dev_store_release32(&t->is_withdrawn, 1);
			ori_dev_fence_full();
		}
		if (t->is_withdrawn && !ori_dev_load_acquire32(&t->is_begun)) {
			r->is_lost = true;
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%s: a kernel that tries its queues does not begin within "
					"%u s: other kernels occupy the GPU",
					d->verbs.name, (unsigned)(TRIAL_KERNEL_NS / 1000000000));
		}
		oriel_cpu_back_off(ori_clock_ns() - begin);
	}
	if (status == ORIEL_OK && !ori_dev_load_acquire32(&t->is_done))
		status = ori_fail(ORIEL_ERR_SYSTEM,
				  "%s: a kernel that tries its queues has ended "
				  "without a result",
				  d->verbs.name);
	return status;
}

static enum oriel_status trial_launch(struct trial_run *r, const void *image)
{
	static const char *const names[] = {"stream_trial"};
	const struct ori_gpu *gpu = r->device->gpu;
	struct ori_kernel_call call = {.memory = r->trial};
	static const struct oriel_dev_window none;
	struct oriel_dev_window window = none;
	void *arguments[] = {&window, &call};
	struct ori_gpu_program program = {0};
	enum oriel_status status;

	status = gpu->ops->load(gpu, image, names, 1, &program);
	if (status == ORIEL_OK)
		status = gpu->ops->launch(gpu, &program, 0, 1, 1, arguments, gpu->stream);
	if (status == ORIEL_OK)
		status = trial_await_kernel(r);
	if (!r->is_lost)
		gpu->ops->unload(gpu, &program);
	return status;
}

/* ORIEL_AGAIN: nothing can post, since the library has no kernels. */
static enum oriel_status trial_post(struct trial_run *r)
{
	struct mlx5_device *d = r->device;
	const void *image = ori_kernels_image();

	if (d->gpu && !image) {
		snprintf(d->report.trial, sizeof(d->report.trial),
			 "not at all: the library was built without nvcc");
		return ORIEL_AGAIN;
	}
	snprintf(d->report.trial, sizeof(d->report.trial), "by a %s", d->gpu ? "kernel" : "thread");
	return d->gpu ? trial_launch(r, image) : ori_trial_run(r->trial);
}

/* Judge the requests @what by the status that they @ended with. */
static enum oriel_status trial_judge(const struct mlx5_device *d, const char *what, int32_t ended)
{
	const char *why = ended == ORIEL_ERR_STATE ? "it does not wait"
						   : oriel_status_text((enum oriel_status)ended);

	if (ended == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: %s do not complete: %s", d->verbs.name, what,
			why);
}

static void trial_note_wait(struct mlx5_device *d, enum oriel_status status)
{
	d->no_wait[0] = '\0';
	if (status != ORIEL_OK)
		snprintf(d->no_wait, sizeof(d->no_wait), "%s", oriel_last_error());
}

/* The HCA posts and announces masked atomics if it has executed one. */
static void trial_note_masked(struct mlx5_device *d, const struct ori_trial *t)
{
	bool has_masked = t->has_masked && t->companion_status == ORIEL_OK &&
			  trial_judge(d, "a masked FETCH_ADD", t->masked_status) == ORIEL_OK;

	d->verbs.address_flags = has_masked ? ORI_HCA_ADDRESS_MASKED : 0;
}

static enum oriel_status trial_all(struct trial_run *r)
{
	struct mlx5_device *d = r->device;
	struct ori_trial *t;
	enum oriel_status status = trial_open_memory(r), companion = ORIEL_OK;

	if (status != ORIEL_OK)
		return status;
	t = r->trial;
	status = trial_open_queue(d, false, &r->main, &t->main);
	if (status != ORIEL_OK)
		return status;
	if (r->main.qp->object)
		d->order = ori_mlx5_ask_order(d, r->main.qp);
	if (d->report.has_wait) {
		companion = trial_open_queue(d, true, &r->companion, &t->companion);
		t->has_companion = companion == ORIEL_OK;
		trial_note_wait(d, companion);
	}
	t->has_masked = ori_mlx5_may_mask(d);
	status = trial_post(r);
	if (status != ORIEL_OK)
		return status == ORIEL_AGAIN ? ORIEL_OK : status;
	status = trial_judge(d, "a NOP and a WRITE that a queue posts to itself", t->main_status);
	if (status == ORIEL_OK && t->has_companion)
		trial_note_wait(d, trial_judge(d, "a WAIT and a FETCH_ADD of a companion",
					       t->companion_status));
	if (status == ORIEL_OK)
		trial_note_masked(d, t);
	return status;
}

enum oriel_status ori_mlx5_try_queues(struct mlx5_device *d, enum ori_mlx5_tier tier)
{
	struct trial_run run = {.device = d};
	enum oriel_status status;

	d->report.tier = tier;
	status = trial_all(&run);
	trial_close(&run);
	return status;
}
