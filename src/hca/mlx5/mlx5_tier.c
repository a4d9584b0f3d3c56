/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tier of an HCA is found by trial: documents promise more than the modules of a kernel and
 * the options of a driver often keep. mlx5.c looks for it at open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/mlx5_ring.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "hca/mlx5/mlx5_device.h"

#define TIER_TRIAL_DEPTH 64u
#define TIER_TRIAL_NS UINT64_C(1000000000)
#define TIER_TRIAL_BYTES 64u

const char *ori_mlx5_tier_text(enum ori_mlx5_tier tier)
{
	static const char *const texts[] = {
		"T0: rings in memory of the GPU, kernels ring the doorbell",
		"T1: rings in memory of the host, the poster rings the doorbell",
		"T2: rings, a thread carries doorbells to the NIC",
		"T3: no rings, requests are posted by calls",
	};

	return texts[tier];
}

static void tier_note(struct mlx5_device *d, enum ori_mlx5_tier tier, const char *why)
{
	char *to = d->report.why[tier];

	if (!*to)
		snprintf(to, sizeof(d->report.why[tier]), "%s", why);
}

/* From @first to @last: none of these tiers works, for the reason @why. */
static void tier_note_all(struct mlx5_device *d, enum ori_mlx5_tier first, enum ori_mlx5_tier last,
			  const char *why)
{
	for (unsigned t = first; t <= last; t++)
		tier_note(d, (enum ori_mlx5_tier)t, why);
}

static const struct oriel_link_wait_limits tier_limits = {NULL, TIER_TRIAL_NS, 100, 0};

/* A NOP, then a WRITE of the first half of @memory to the second, and their CQEs. */
static enum oriel_status tier_post(struct oriel_mlx5_queue *q, const char *memory, uint32_t key)
{
	const struct oriel_rdma_address from = {0, key}, to = {TIER_TRIAL_BYTES, key};
	enum oriel_status status;
	uint64_t base = 0;

	status = oriel_mlx5_reserve(q, 2, &tier_limits, &base);
	if (status != ORIEL_OK)
		return status;
	oriel_mlx5_wqe_nop(oriel_mlx5_slot(q, base), oriel_mlx5_head_of(q, base, 0));
	oriel_mlx5_wqe_write(oriel_mlx5_slot(q, base + 1), oriel_mlx5_head_of(q, base + 1, 0), to,
			     from, TIER_TRIAL_BYTES);
	status = oriel_mlx5_post(q, base, 2, &tier_limits);
	if (status == ORIEL_OK)
		status = oriel_mlx5_wait(q, base, &tier_limits);
	if (status == ORIEL_OK)
		status = oriel_mlx5_wait(q, base + 1, &tier_limits);
	if (status == ORIEL_OK && memcmp(memory, memory + TIER_TRIAL_BYTES, TIER_TRIAL_BYTES) != 0)
		status = ORIEL_ERR_PROTOCOL;
	return status;
}

/*
 * Connect @qp to itself and post to it. Commands that succeed promise little: a doorbell
 * may ring nothing, a ring may be elsewhere, a page fault may stall the queue.
 */
static enum oriel_status tier_try_post(struct mlx5_device *d, struct mlx5_qp *qp,
				       const struct ori_hca_qp_address *self, char *memory,
				       uint32_t key)
{
	struct oriel_mlx5_queue q = {
		.sq = qp->place.sq,
		.cq = qp->place.cq,
		.record = qp->place.record,
		.doorbell = qp->place.doorbell,
		.asleep = qp->place.asleep,
		.qpn = self->qpn,
		.cqn = qp->cq->number,
		.log_depth = (uint32_t)__builtin_ctz(TIER_TRIAL_DEPTH),
	};
	enum oriel_status status =
		qp->object ? ori_mlx5_join(qp, self)
			   : ori_verbs_connect_qp((struct ori_hca_qp *)qp->verbs, self);

	if (status != ORIEL_OK)
		return status;
	if (qp->object)
		d->order = ori_mlx5_ask_order(d, qp);
	memset(memory, 0x5a, TIER_TRIAL_BYTES);
	oriel_mlx5_queue_begin(&q, 0);
	status = tier_post(&q, memory, key);
	if (status == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"%s: a NOP and a WRITE that a queue posts to itself do not complete: %s",
			d->verbs.name, oriel_status_text(status));
}

/* The library has no kernel to post from: rings of a GPU are created and not posted to. */
static enum oriel_status tier_try_posts(struct mlx5_device *d, struct mlx5_qp *qp,
					const struct ori_hca_qp_address *self)
{
	char *memory = d->gpu ? NULL : aligned_alloc(MLX5_PAGE, MLX5_PAGE);
	struct ori_hca_keys keys;
	enum oriel_status status;
	struct ori_hca_mr *mr;

	if (d->gpu)
		return ORIEL_OK;
	if (!memory)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for a trial", d->verbs.name);
	memset(memory, 0, MLX5_PAGE);
	status = ori_verbs_register((struct ori_hca *)d, memory, MLX5_PAGE, 0,
				    ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE, &mr, &keys);
	if (status == ORIEL_OK) {
		status = tier_try_post(d, qp, self, memory, keys.lkey);
		/* Nothing of a queue that stalled may write later. */
		if (status != ORIEL_OK && qp->object)
			(void)ori_mlx5_break(qp);
		ori_verbs_unregister(mr);
	}
	free(memory);
	return status;
}

/* Create a queue pair with all that belongs to it, and post to it from a thread. */
static enum oriel_status tier_try_queue(struct mlx5_device *d, enum ori_mlx5_tier tier)
{
	struct ori_hca_cq_attr cq = {.depth = TIER_TRIAL_DEPTH,
				     .has_own_ring = true,
				     .is_for_gpu = d->gpu != NULL};
	struct ori_hca_qp_attr qp = {.depth = TIER_TRIAL_DEPTH,
				     .has_own_ring = true,
				     .is_for_gpu = d->gpu != NULL};
	struct ori_hca *hca = (struct ori_hca *)d;
	struct ori_hca_qp_address address;
	enum oriel_status status;
	struct ori_hca_qp *made;
	uint32_t cqn;

	d->report.tier = tier;
	status = ori_mlx5_create_cq(hca, &cq, &qp.send_cq, &cqn);
	if (status != ORIEL_OK)
		return status;
	status = ori_mlx5_create_qp(hca, &qp, &made, &address);
	if (status == ORIEL_OK) {
		status = tier_try_posts(d, (struct mlx5_qp *)made, &address);
		ori_mlx5_destroy_qp(made);
	}
	ori_mlx5_destroy_cq(qp.send_cq);
	return status;
}

static enum oriel_status tier_need(const struct mlx5_device *d, const char *missing)
{
	if (!missing)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: this libmlx5 has no %s", d->verbs.name,
			missing);
}

/* Once: does the device take commands? Objects that it opens stay until close. */
static enum oriel_status tier_open_devx(struct mlx5_device *d)
{
	enum oriel_status status;

	if (d->avoids_devx)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: ORIEL_DEVX is off", d->verbs.name);
	if (d->uars.count)
		return ORIEL_OK;
	status = tier_need(d, ori_mlx5dv_missing_devx());
	if (status == ORIEL_OK)
		status = ori_mlx5_ask(d);
	if (status == ORIEL_OK)
		status = ori_mlx5_uars_open(d);
	return status;
}

/* One key covers the whole memory of this process, so that a put may have any source. */
static enum oriel_status tier_try_whole(struct mlx5_device *d)
{
	struct ibv_mr *mr = ori_ibverbs.reg_mr(d->verbs.pd, NULL, SIZE_MAX,
					       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: no on-demand paging of whole processes, by which rings reach "
				"any source",
				d->verbs.name);
	ori_ibverbs.dereg_mr(mr);
	return ORIEL_OK;
}

/*
 * Find the route by which a queue with a ring can be made at all; without one
 * only the last tier is left.
 */
static bool tier_find_route(struct mlx5_device *d)
{
	enum oriel_status status = tier_open_devx(d);

	d->no_devx[0] = '\0';
	d->report.is_devx = status == ORIEL_OK;
	if (status == ORIEL_OK && tier_try_queue(d, ORI_MLX5_T2) == ORIEL_OK) {
		d->report.has_wait = d->caps.can_wait;
		return true;
	}
	snprintf(d->no_devx, sizeof(d->no_devx), "%s", oriel_last_error());
	tier_note(d, ORI_MLX5_T0, d->no_devx);
	d->report.is_devx = d->report.has_wait = false;
	if (d->demands_devx) {
		tier_note_all(d, ORI_MLX5_T1, ORI_MLX5_T2, d->no_devx);
		return false;
	}
	snprintf(d->report.doorbells, sizeof(d->report.doorbells), "of verbs");
	status = tier_need(d, ori_mlx5dv_missing_objects());
	if (status == ORIEL_OK)
		status = tier_try_queue(d, ORI_MLX5_T2);
	if (status == ORIEL_OK)
		return true;
	/*
	 * Neither failure is more telling than the other; the report gives that
	 * of the usual route.
	 */
	tier_note_all(d, ORI_MLX5_T0, ORI_MLX5_T2,
		      d->avoids_devx ? oriel_last_error() : d->no_devx);
	return false;
}

/* Tiers for kernels only are not tried without a GPU. */
static enum ori_mlx5_tier tier_worst(const struct mlx5_device *d)
{
	return d->worst == ORI_MLX5_T0 && !d->gpu ? ORI_MLX5_T1 : d->worst;
}

static bool tier_is_allowed(const struct mlx5_device *d, enum ori_mlx5_tier tier)
{
	return tier >= d->best && tier <= tier_worst(d);
}

/* Take tier @tier if it works; note the reason if it does not. */
static bool tier_try(struct mlx5_device *d, enum ori_mlx5_tier tier)
{
	enum oriel_status status;

	if (!tier_is_allowed(d, tier)) {
		tier_note(d, tier, "ORIEL_TIER demands another tier");
		return false;
	}
	if (*d->report.why[tier])
		return false;
	status = tier_try_queue(d, tier);
	if (status != ORIEL_OK)
		tier_note(d, tier, oriel_last_error());
	return status == ORIEL_OK;
}

/*
 * The features that rings lack, beside a proxy that posts by calls: counters of
 * windows need WAIT, and any memory may be the source of a put. Linux resolves
 * page faults by the kernel's object of a queue, which DEVX queues lack, so that
 * these would stall (odp.c, mlx5_ib_mr_wqe_pfault_handler). CPU threads register
 * such memory when they name it; kernels cannot.
 */
static const char *tier_lack(const struct mlx5_device *d)
{
	if (d->gpu && !mlx5_reaches_all(d))
		return "the device resolves no page faults of its queues (no mem_page_fault), by "
		       "which "
		       "they reach memory that is not registered";
	if (d->report.has_wait)
		return NULL;
	return d->report.is_devx ? "its queues cannot WAIT, which counters need"
				 : "queues of verbs cannot WAIT, which counters need";
}

/*
 * Rings that lack a feature are used only if the setting demands them. Queues of verbs are the
 * second choice: the reason against the first comes before what they lack.
 */
static bool tier_is_whole(struct mlx5_device *d)
{
	const char *lack = d->best == d->worst ? NULL : tier_lack(d);
	char why[sizeof(d->report.why[0])];

	if (!lack)
		return true;
	snprintf(why, sizeof(why), "%s%s%s", d->no_devx, *d->no_devx ? "; " : "", lack);
	tier_note_all(d, ORI_MLX5_T0, ORI_MLX5_T2, why);
	return false;
}

static void tier_search(struct mlx5_device *d)
{
	memset(d->report.why, 0, sizeof(d->report.why));
	snprintf(d->report.name, sizeof(d->report.name), "%s", d->verbs.name);
	snprintf(d->report.rings, sizeof(d->report.rings), "host");
	d->report.has_gpu = d->gpu != NULL;
	if (!d->gpu)
		tier_note(d, ORI_MLX5_T0, "there is no GPU");
	if (tier_try_whole(d) != ORIEL_OK)
		tier_note_all(d, ORI_MLX5_T0, ORI_MLX5_T2, oriel_last_error());
	else if (tier_find_route(d) && tier_is_whole(d))
		for (unsigned t = ORI_MLX5_T0; t <= ORI_MLX5_T2; t++)
			if (tier_try(d, (enum ori_mlx5_tier)t)) {
				d->report.tier = (enum ori_mlx5_tier)t;
				return;
			}
	d->report.tier = ORI_MLX5_T3;
	d->report.has_wait = false;
}

enum oriel_status ori_mlx5_find_tier(struct mlx5_device *d)
{
	struct ori_error before;

	ori_error_save(&before);
	tier_search(d);
	/* The report says what a tier lacks. */
	ori_error_restore(&before);
	if (d->report.tier != ORI_MLX5_T0)
		snprintf(d->report.rings, sizeof(d->report.rings), "host");
	if (d->report.tier > tier_worst(d))
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "ORIEL_TIER demands t%u: %s",
				(unsigned)tier_worst(d), d->report.why[tier_worst(d)]);
	if (d->demands_devx && (d->report.tier == ORI_MLX5_T3 || !d->report.is_devx))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"ORIEL_DEVX demands queues by commands (on): %s",
				d->report.why[ORI_MLX5_T2]);
	ori_log(ORIEL_LOG_DEBUG, "%s reaches %s", d->verbs.name,
		ori_mlx5_tier_text(d->report.tier));
	for (unsigned t = 0; t < d->report.tier; t++)
		ori_log(ORIEL_LOG_DEBUG, "%s: not T%u: %s", d->verbs.name, t, d->report.why[t]);
	return ORIEL_OK;
}
