/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tier of an HCA is found by trial: documents promise more than the modules of a kernel and
 * the options of a driver often keep. mlx5.c looks for it at open.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "hca/mlx5/mlx5_device.h"

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

	d->no_devx[0] = d->no_wait[0] = '\0';
	d->report.is_devx = status == ORIEL_OK;
	d->report.has_wait = status == ORIEL_OK && d->caps.can_wait;
	if (status == ORIEL_OK && ori_mlx5_try_queues(d, ORI_MLX5_T2) == ORIEL_OK) {
		d->report.has_wait = d->caps.can_wait && !*d->no_wait;
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
		status = ori_mlx5_try_queues(d, ORI_MLX5_T2);
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
	status = ori_mlx5_try_queues(d, tier);
	if (status != ORIEL_OK)
		tier_note(d, tier, oriel_last_error());
	else if (d->report.has_wait && *d->no_wait)
		tier_note(d, tier, d->no_wait);
	return !*d->report.why[tier];
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
		       "which they reach unregistered memory";
	if (d->report.has_wait)
		return NULL;
	return d->report.is_devx ? "its queues cannot WAIT, which counters need"
				 : "queues of verbs cannot WAIT, which counters need";
}

/*
 * Rings that lack a feature are used only if the setting demands them. The finding of a trial
 * comes first: why commands make no queues, or that a companion does not WAIT.
 */
static bool tier_is_whole(struct mlx5_device *d)
{
	const char *lack = d->best == d->worst ? NULL : tier_lack(d);
	const char *first = d->report.is_devx ? d->no_wait : d->no_devx;
	char why[sizeof(d->report.why[0])];

	if (!lack)
		return true;
	snprintf(why, sizeof(why), "%s%s%s", first, *first ? "; " : "", lack);
	tier_note_all(d, ORI_MLX5_T0, ORI_MLX5_T2, why);
	return false;
}

static void tier_search(struct mlx5_device *d)
{
	memset(d->report.why, 0, sizeof(d->report.why));
	snprintf(d->report.name, sizeof(d->report.name), "%s", d->verbs.name);
	snprintf(d->report.rings, sizeof(d->report.rings), "host");
	snprintf(d->report.trial, sizeof(d->report.trial), "not at all: there was nothing to try");
	d->report.has_gpu = d->gpu != NULL;
	d->report.has_no_stamps = d->report.has_no_master = d->report.has_no_contexts = false;
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
	d->report.has_no_events = d->has_no_events;
	d->report.refused_events = d->refused_events;
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
	ori_log(ORIEL_LOG_DEBUG, "%s reaches %s; requests posted %s", d->verbs.name,
		ori_mlx5_tier_text(d->report.tier), d->report.trial);
	for (unsigned t = 0; t < d->report.tier; t++)
		ori_log(ORIEL_LOG_DEBUG, "%s: not T%u: %s", d->verbs.name, t, d->report.why[t]);
	return ORIEL_OK;
}
