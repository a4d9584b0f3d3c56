/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the NIC of ORIEL_HCA what it is and tries what the library needs of it, one call after
 * another, for `oriel field-report`. One JSON object a line; tests/hw/field_replay.py reads them.
 */
#include <stdio.h>
#include <string.h>

#include <oriel/status.h>

#include "base/config.h"
#include "hca/hca.h"
#include "hca/mlx5/mlx5.h"
#include "rdma/rdma_choose.h"
#include "sys/gpu.h"

#include "field.h"
#include "field/field_trial.h"
#include "json.h"
#include "tool.h"

struct probe {
	struct ori_hca_choice choice;
	struct field_nic nic;
	struct ori_gpu gpu;
	void *stream; /* keeps the GPU's context current */
	bool has_gpu;
};

static const char *order_text(enum ori_hca_order order)
{
	static const char *const texts[] = {"unknown", "ordered", "reordered", "multipath"};

	return texts[order];
}

static void probe_write_caps(const struct probe *p)
{
	const struct ori_hca_caps *c = &p->nic.caps;
	struct json json = {.to = stdout};

	json_open_object(&json, NULL);
	json_text(&json, "part", "nic");
	json_text(&json, "kind", c->kind);
	json_text(&json, "name", c->name);
	json_text(&json, "tier", c->tier);
	json_text(&json, "port", c->port ? c->port : "");
	json_text(&json, "why", p->choice.why);
	json_unsigned(&json, "mtu", c->mtu);
	json_unsigned(&json, "depth_max", c->depth_max);
	json_unsigned(&json, "length_max", c->length_max);
	json_unsigned(&json, "max_rd_atomic", c->max_rd_atomic);
	json_text(&json, "order", order_text(c->order));
	json_bool(&json, "reaches_all", c->reaches_all);
	json_bool(&json, "has_wait", c->has_wait);
	json_bool(&json, "is_atomic_host_endian", c->is_atomic_host_endian);
	json_close_object(&json);
	printf("\n");
}

static void probe_write_mlx5(const struct probe *p)
{
	struct json json = {.to = stdout};
	struct ori_mlx5_report report;

	if (strcmp(p->nic.caps.kind, "mlx5") != 0)
		return;
	ori_mlx5_report(p->nic.hca, &report);
	json_open_object(&json, NULL);
	json_text(&json, "part", "mlx5");
	json_text(&json, "tier", ori_mlx5_tier_text(report.tier));
	json_bool(&json, "is_devx", report.is_devx);
	json_text(&json, "doorbells", report.doorbells);
	json_text(&json, "rings", report.rings);
	json_text(&json, "tried", report.trial);
	json_bool(&json, "events", !report.has_no_events);
	json_open_array(&json, "refused_events");
	for (unsigned type = 0; type < 32; type++)
		if (report.refused_events >> type & 1)
			json_unsigned(&json, NULL, type);
	json_close_array(&json);
	json_bool(&json, "stamps", !report.has_no_stamps);
	json_bool(&json, "master", !report.has_no_master);
	json_bool(&json, "contexts", !report.has_no_contexts);
	json_open_array(&json, "why");
	for (unsigned t = 0; t < ORI_MLX5_TIERS; t++)
		json_text(&json, NULL, report.why[t]);
	json_close_array(&json);
	json_close_object(&json);
	printf("\n");
}

static void probe_try(struct probe *p, unsigned trial)
{
	struct json json = {.to = stdout};
	const char *lack = field_trial_lack(&p->nic, trial);
	enum oriel_status status = lack ? ORIEL_OK : field_trial_run(&p->nic, trial);

	json_open_object(&json, NULL);
	json_text(&json, "part", "trial");
	json_text(&json, "name", field_trial_name(trial));
	json_text(&json, "status", lack ? "not tried" : oriel_status_name(status));
	json_text(&json, "text", lack ? lack : status == ORIEL_OK ? "" : oriel_last_error());
	json_close_object(&json);
	printf("\n");
	/* A trial that hangs must not take with it the lines before it. */
	fflush(stdout);
}

/* The settings of this part demand what the NIC does not have. */
static void probe_refuse(const char *why)
{
	struct json json = {.to = stdout};

	json_open_object(&json, NULL);
	json_text(&json, "part", "refused");
	json_text(&json, "why", why);
	json_close_object(&json);
	printf("\n");
}

static enum oriel_status probe_open_gpu(struct probe *p)
{
	enum oriel_status status = ori_gpu_primary_open(0, &p->stream);

	if (status == ORIEL_OK)
		status = ori_gpu_open(&p->gpu);
	p->has_gpu = status == ORIEL_OK;
	return status;
}

static enum oriel_status probe_open(struct probe *p, bool is_for_gpu)
{
	enum oriel_status status = is_for_gpu ? probe_open_gpu(p) : ORIEL_OK;

	if (status == ORIEL_OK)
		status = ori_choose(p->has_gpu ? &p->gpu : NULL, 1, &p->choice);
	if (status != ORIEL_OK)
		return status;
	p->nic.ops = p->choice.ops;
	p->nic.why = p->choice.why;
	status = p->nic.ops->open(p->choice.config, 0, &p->nic.hca);
	if (status == ORIEL_OK && p->has_gpu)
		status = p->nic.ops->use_gpu(p->nic.hca, &p->gpu);
	return status;
}

static void probe_close(struct probe *p)
{
	if (p->nic.hca)
		p->nic.ops->close(p->nic.hca);
	if (p->has_gpu)
		ori_gpu_close(&p->gpu);
	if (p->stream)
		ori_gpu_primary_close(p->stream);
}

int field_probe(bool is_for_gpu)
{
	struct probe p = {.stream = NULL};
	enum oriel_status status = probe_open(&p, is_for_gpu);

	if (status != ORIEL_OK) {
		probe_refuse(oriel_last_error());
		probe_close(&p);
		return TOOL_FAILED;
	}
	p.nic.ops->caps(p.nic.hca, &p.nic.caps);
	probe_write_caps(&p);
	probe_write_mlx5(&p);
	for (unsigned i = 0; field_trial_name(i); i++)
		probe_try(&p, i);
	probe_close(&p);
	return TOOL_OK;
}
