/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the NIC of ORIEL_HCA what it is and tries what the library needs of it, one call after
 * another, for `oriel field-report`. One JSON object a line; tests/hw/field_replay.py reads them.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/status.h>

#include "base/config.h"
#include "hca/hca.h"
#include "hca/mlx5/mlx5.h"
#include "rdma/rdma_choose.h"

#include "field.h"
#include "json.h"
#include "tool.h"

#define PROBE_DEPTH 64u
#define PROBE_BYTES 65536u

struct probe {
	struct ori_hca_choice choice;
	struct ori_hca *hca;
	struct ori_hca_caps caps;
	char *memory;
};

static const char *order_text(enum ori_hca_order order)
{
	static const char *const texts[] = {"unknown", "ordered", "reordered", "multipath"};

	return texts[order];
}

static void probe_write_caps(const struct probe *p)
{
	const struct ori_hca_caps *c = &p->caps;
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

	if (strcmp(p->caps.kind, "mlx5") != 0)
		return;
	ori_mlx5_report(p->hca, &report);
	json_open_object(&json, NULL);
	json_text(&json, "part", "mlx5");
	json_text(&json, "tier", ori_mlx5_tier_text(report.tier));
	json_bool(&json, "is_devx", report.is_devx);
	json_text(&json, "doorbells", report.doorbells);
	json_text(&json, "rings", report.rings);
	json_text(&json, "tried", report.trial);
	json_open_array(&json, "why");
	for (unsigned t = 0; t < ORI_MLX5_TIERS; t++)
		json_text(&json, NULL, report.why[t]);
	json_close_array(&json);
	json_close_object(&json);
	printf("\n");
}

static enum oriel_status try_memory(struct probe *p, char *address, unsigned access)
{
	struct ori_hca_keys keys;
	struct ori_hca_mr *mr;
	enum oriel_status status =
		p->choice.ops->register_memory(p->hca, address, address ? PROBE_BYTES : 0, 0,
					       access, &mr, &keys);

	if (status == ORIEL_OK)
		p->choice.ops->unregister_memory(mr);
	return status;
}

static enum oriel_status try_buffer(struct probe *p)
{
	return try_memory(p, p->memory,
			  ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ |
				  ORI_HCA_REMOTE_ATOMIC);
}

static enum oriel_status try_all_memory(struct probe *p)
{
	return try_memory(p, NULL, ORI_HCA_LOCAL_WRITE | ORI_HCA_ANY_MEMORY);
}

/* A queue that is connected to itself. */
static enum oriel_status try_queue(struct probe *p, bool has_ring, bool is_companion)
{
	const struct ori_hca_ops *ops = p->choice.ops;
	struct ori_hca_cq_attr cq = {.depth = PROBE_DEPTH, .has_own_ring = has_ring};
	struct ori_hca_qp_attr qp = {.depth = PROBE_DEPTH,
				     .has_own_ring = has_ring,
				     .is_companion = is_companion};
	struct ori_hca_qp_address address;
	enum oriel_status status;
	struct ori_hca_qp *made;
	uint32_t cqn;

	status = ops->create_cq(p->hca, &cq, &qp.send_cq, &cqn);
	if (status != ORIEL_OK)
		return status;
	status = ops->create_qp(p->hca, &qp, &made, &address);
	if (status == ORIEL_OK) {
		status = ops->connect_qp(made, &address);
		ops->destroy_qp(made);
	}
	ops->destroy_cq(qp.send_cq);
	return status;
}

static enum oriel_status try_ring(struct probe *p)
{
	return try_queue(p, true, false);
}

static enum oriel_status try_companion(struct probe *p)
{
	return try_queue(p, true, true);
}

static enum oriel_status try_called(struct probe *p)
{
	return try_queue(p, false, false);
}

static const struct probe_trial {
	const char *name;
	enum oriel_status (*try)(struct probe *p);
	bool needs_rings; /* of a ConnectX NIC */
} trials[] = {
	{"register a buffer", try_buffer, false},
	{"register all memory, on demand", try_all_memory, true},
	{"a queue that calls post to", try_called, false},
	{"a queue with a ring", try_ring, true},
	{"a queue that WAITs", try_companion, true},
};

static void probe_try(struct probe *p, const struct probe_trial *trial)
{
	struct json json = {.to = stdout};
	bool is_tried = !trial->needs_rings || (p->caps.rings && strcmp(p->caps.kind, "mlx5") == 0);
	enum oriel_status status = is_tried ? trial->try(p) : ORIEL_OK;

	json_open_object(&json, NULL);
	json_text(&json, "part", "trial");
	json_text(&json, "name", trial->name);
	json_text(&json, "status", is_tried ? oriel_status_name(status) : "not tried");
	json_text(&json, "text",
		  !is_tried            ? "this is no ConnectX NIC with rings"
		  : status == ORIEL_OK ? ""
				       : oriel_last_error());
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

int field_probe(void)
{
	struct probe p = {.hca = NULL};
	enum oriel_status status = ori_choose(NULL, 1, &p.choice);

	p.memory = aligned_alloc(4096, PROBE_BYTES);
	if (status == ORIEL_OK)
		status = p.choice.ops->open(p.choice.config, 0, &p.hca);
	if (status != ORIEL_OK || !p.memory) {
		probe_refuse(p.memory ? oriel_last_error() : "out of memory");
		free(p.memory);
		return TOOL_FAILED;
	}
	p.choice.ops->caps(p.hca, &p.caps);
	probe_write_caps(&p);
	probe_write_mlx5(&p);
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		probe_try(&p, &trials[i]);
	p.choice.ops->close(p.hca);
	free(p.memory);
	return TOOL_OK;
}
