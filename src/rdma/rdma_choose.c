/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the NICs of a rank from ORIEL_HCA and the NICs that it finds. src/comm and src/p2p
 * call it.
 */
#include "rdma/rdma_choose.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "mem/memory.h"

static void choose_explain_soft(struct ori_hca_choice *choice, enum ori_hca_request wish)
{
	if (wish == ORI_HCA_REQUEST_SOFT)
		snprintf(choice->why, sizeof(choice->why), "ORIEL_HCA is soft");
	else if (*choice->config)
		snprintf(choice->why, sizeof(choice->why), "ORIEL_SOFT_HCA is set");
	else
		snprintf(choice->why, sizeof(choice->why), "no NIC is usable: %s", choice->lack);
}

static enum oriel_status choose_soft(struct ori_hca_choice *choice, enum ori_hca_request wish)
{
	const char *tier = ori_setting_text(ORI_SETTING_TIER);

	if (strcmp(tier, "auto") != 0)
		return ori_fail(ORIEL_ERR_CONFIG,
				"ORIEL_TIER is '%s', but this rank has the software HCA (ORIEL_HCA "
				"is '%s'), which has no tiers: unset ORIEL_TIER, or let ORIEL_HCA "
				"select a ConnectX NIC",
				tier, ori_setting_text(ORI_SETTING_HCA));
	choice->kind = ORI_HCA_KIND_SOFT;
	choice->ops = &ori_hca_soft_ops;
	snprintf(choice->config, sizeof(choice->config), "%s",
		 ori_setting_text(ORI_SETTING_SOFT_HCA));
	choose_explain_soft(choice, wish);
	return ORIEL_OK;
}

/* The NICs NUMA-local to the GPU if there is one, else to this process. */
static void choose_verbs(const struct ori_gpu *gpu, const char *filter,
			 struct ori_hca_choice *choice)
{
	choice->kind = ORI_HCA_KIND_VERBS;
	snprintf(choice->config, sizeof(choice->config), "%s%s%s", filter,
		 gpu && gpu->pci[0] ? ";near=" : "", gpu ? gpu->pci : "");
	choice->ops = ori_hca_choose(choice->config, gpu, choice->why, sizeof(choice->why));
}

/* Requests by calls are what these settings demand not to have. */
static enum oriel_status choose_check_rings(const struct ori_hca_choice *choice)
{
	const char *tier = ori_setting_text(ORI_SETTING_TIER);
	const char *devx = ori_setting_text(ORI_SETTING_DEVX);
	bool demands_tier = tier[0] == 't' && tier[1] < '3', demands_devx = !strcmp(devx, "on");

	if (choice->ops != ori_hca_verbs() || !(demands_tier || demands_devx))
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"ORIEL_HCA '%s' has no rings as ORIEL_TIER '%s' or ORIEL_DEVX '%s' demands "
			"(unset both to post by calls): %s",
			ori_setting_text(ORI_SETTING_HCA), tier, devx, choice->why);
}

/* A scenario requests the software HCA, which alone can play it. */
static bool choose_has_verbs(unsigned rails)
{
	return !*ori_setting_text(ORI_SETTING_SOFT_HCA) && ori_hca_verbs_ports("") >= rails;
}

enum oriel_status ori_choose(const struct ori_gpu *gpu, unsigned rails,
			     struct ori_hca_choice *choice)
{
	const char *filter;
	enum ori_hca_request wish = ori_setting_hca(&filter);

	choice->lack[0] = '\0';
	if (wish == ORI_HCA_REQUEST_SOFT ||
	    (wish == ORI_HCA_REQUEST_AUTO && !choose_has_verbs(rails))) {
		if (wish == ORI_HCA_REQUEST_AUTO && !*ori_setting_text(ORI_SETTING_SOFT_HCA))
			ori_hca_verbs_lack(rails, choice->lack, sizeof(choice->lack));
		return choose_soft(choice, wish);
	}
	choose_verbs(gpu, filter, choice);
	if (choice->ops)
		return choose_check_rings(choice);
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"ORIEL_HCA is '%s', but this library was built without "
			"infiniband/verbs.h",
			ori_setting_text(ORI_SETTING_HCA));
}

static const char *choose_name(uint32_t kind)
{
	return kind == ORI_HCA_KIND_SOFT ? "the software HCA" : "NICs of libibverbs";
}

static uint32_t choose_kind(const void *kinds, size_t stride, unsigned rank)
{
	uint32_t kind;

	memcpy(&kind, (const char *)kinds + rank * stride, sizeof(kind));
	return kind;
}

enum oriel_status ori_choices_agree(const void *kinds, size_t stride, unsigned count)
{
	unsigned first = count, rank;
	uint32_t kind;

	for (rank = 0; rank < count; rank++) {
		kind = choose_kind(kinds, stride, rank);
		if (kind == ORI_HCA_KIND_NONE)
			continue;
		if (kind > ORI_HCA_KIND_VERBS)
			return ori_fail(ORIEL_ERR_PROTOCOL,
					"rank %u drives NICs of unknown kind %u", rank, kind);
		if (first == count)
			first = rank;
		if (kind != choose_kind(kinds, stride, first))
			return ori_fail(ORIEL_ERR_MISMATCH,
					"rank %u drives %s, rank %u %s: set ORIEL_HCA to one of "
					"both on all ranks",
					first, choose_name(choose_kind(kinds, stride, first)), rank,
					choose_name(kind));
	}
	return ORIEL_OK;
}
