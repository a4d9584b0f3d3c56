/* SPDX-License-Identifier: Apache-2.0 */
/* From verdicts on checks to what a job gets. */
#include <stdio.h>
#include <string.h>

#include "doctor/check.h"

static const struct {
	const char *name, *tag;
} ways[ORIEL_WAYS] = {
	[ORIEL_WAY_MEMORY] = {"mapped, host memory", "memory"},
	[ORIEL_WAY_GPU] = {"mapped, GPU memory", "gpu"},
	[ORIEL_WAY_FABRIC] = {"mapped, GPUs of other machines", "fabric"},
	[ORIEL_WAY_SOFT] = {"rdma, adapter in software", "soft"},
	[ORIEL_WAY_T3] = {"rdma, a CPU thread posts (T3)", "T3"},
	[ORIEL_WAY_T2] = {"rdma, kernels post, a CPU thread rings (T2)", "T2"},
	[ORIEL_WAY_T1] = {"rdma, kernels post and ring (T1)", "T1"},
	[ORIEL_WAY_T0] = {"rdma, the same, queues on the GPU (T0)", "T0"},
};

const char *ori_way_name(enum oriel_way way)
{
	return ways[way].name;
}

const char *ori_way_tag(enum oriel_way way)
{
	return ways[way].tag;
}

static bool way_is_built(const struct ori_facts *f, enum oriel_way way)
{
	switch (way) {
	case ORIEL_WAY_GPU:
		return f->built_gpu == ORI_FACT_YES;
	case ORIEL_WAY_FABRIC:
		return f->built_fabric == ORI_FACT_YES;
	case ORIEL_WAY_T3:
		return f->built_t3 == ORI_FACT_YES;
	case ORIEL_WAY_T2:
	case ORIEL_WAY_T1:
	case ORIEL_WAY_T0:
		return f->built_posted == ORI_FACT_YES;
	default:
		return true;
	}
}

static int64_t facts_have(int64_t on_bus, unsigned seen)
{
	if (seen > 0)
		return ORI_FACT_YES;
	return on_bus == ORI_FACT_UNKNOWN ? on_bus : on_bus > 0;
}

static int64_t facts_have_cluster(const struct ori_facts *f)
{
	int64_t has = facts_have(f->bus_gpus, f->gpu_count) == ORI_FACT_NO ? ORI_FACT_NO
									   : ORI_FACT_UNKNOWN;

	for (unsigned i = 0; i < f->gpu_count; i++) {
		if (f->gpu[i].cluster == ORI_FACT_YES)
			return ORI_FACT_YES;
		if (f->gpu[i].cluster == ORI_FACT_NO)
			has = ORI_FACT_NO;
	}
	return has;
}

/* Is there what the way is for? @none says what there is not. */
static int64_t way_hardware(const struct ori_facts *f, enum oriel_way way, const char **none)
{
	int64_t gpus = facts_have(f->bus_gpus, f->gpu_count);
	int64_t nics = facts_have(f->nics, f->nic_count);

	switch (way) {
	case ORIEL_WAY_GPU:
		*none = "no GPU";
		return gpus;
	case ORIEL_WAY_FABRIC:
		*none = "no NVLink to other machines";
		return facts_have_cluster(f);
	case ORIEL_WAY_T3:
		*none = "no RDMA adapter";
		return nics;
	case ORIEL_WAY_T2:
	case ORIEL_WAY_T1:
	case ORIEL_WAY_T0:
		*none = nics == ORI_FACT_NO ? "no RDMA adapter" : "no GPU";
		return nics == ORI_FACT_NO ? nics : gpus;
	default:
		return ORI_FACT_YES;
	}
}

/* Do the settings allow the way? @by is the one that does not. */
static int64_t way_allowed(const struct ori_facts *f, enum oriel_way way, const char **by)
{
	*by = "ORIEL_PATHS leaves it out";
	if (way == ORIEL_WAY_FABRIC && f->allows_mapped == ORI_FACT_YES) {
		*by = "ORIEL_FABRIC is off";
		return f->allows_fabric;
	}
	if (way <= ORIEL_WAY_FABRIC)
		return f->allows_mapped;
	if (f->allows_rdma != ORI_FACT_YES)
		return f->allows_rdma;
	*by = "ORIEL_HCA leaves it out";
	if (way == ORIEL_WAY_SOFT)
		return f->allows_soft;
	/* Records of older versions do not say. */
	return f->allows_nic == ORI_FACT_NO ? ORI_FACT_NO : ORI_FACT_YES;
}

struct way_sum {
	unsigned failed, unknown, worse;
	char failed_names[400], unknown_names[400], worse_names[400];
};

static void names_add(char *list, size_t length, unsigned before, const char *name)
{
	size_t used = strlen(list);

	snprintf(list + used, length - used, "%s%s", before ? ", " : "", name);
}

static void way_sum(enum oriel_way way, const struct ori_ruling *rulings, unsigned count,
		    struct way_sum *sum)
{
	const unsigned mask = 1u << way;

	memset(sum, 0, sizeof(*sum));
	for (unsigned i = 0; i < count; i++) {
		const struct ori_check *check = rulings[i].check;
		enum oriel_verdict verdict = rulings[i].answer->verdict;

		if (check->needs & mask && verdict == ORIEL_VERDICT_FAIL)
			names_add(sum->failed_names, sizeof(sum->failed_names), sum->failed++,
				  check->name);
		if (check->needs & mask && verdict == ORIEL_VERDICT_UNKNOWN)
			names_add(sum->unknown_names, sizeof(sum->unknown_names), sum->unknown++,
				  check->name);
		if (check->helps & mask && verdict == ORIEL_VERDICT_FAIL)
			names_add(sum->worse_names, sizeof(sum->worse_names), sum->worse++,
				  check->name);
	}
}

static void way_judge(const struct ori_facts *f, enum oriel_way way,
		      const struct ori_ruling *rulings, unsigned count, struct ori_prospect *p)
{
	const char *none = "", *by = "";
	int64_t hardware = way_hardware(f, way, &none), allowed = way_allowed(f, way, &by);
	const char *elsewhere;
	struct way_sum sum;

	p->is_built = way_is_built(f, way);
	p->is_used = false;
	elsewhere = p->is_built ? "" : "not in this library; ";
	way_sum(way, rulings, count, &sum);
	if (hardware == ORI_FACT_NO || allowed == ORI_FACT_NO) {
		p->verdict = ORIEL_VERDICT_SKIP;
		snprintf(p->why, sizeof(p->why), "%s%s", elsewhere,
			 hardware == ORI_FACT_NO ? none : by);
	} else if (sum.failed > 0) {
		p->verdict = ORIEL_VERDICT_FAIL;
		snprintf(p->why, sizeof(p->why), "%slacks: %s", elsewhere, sum.failed_names);
	} else if (hardware == ORI_FACT_UNKNOWN || allowed == ORI_FACT_UNKNOWN || sum.unknown) {
		p->verdict = ORIEL_VERDICT_UNKNOWN;
		snprintf(p->why, sizeof(p->why), "%snot known: %s", elsewhere,
			 sum.unknown                    ? sum.unknown_names
			 : hardware == ORI_FACT_UNKNOWN ? "the hardware"
							: "the settings");
	} else {
		p->verdict = ORIEL_VERDICT_PASS;
		snprintf(p->why, sizeof(p->why), "%s%s%s",
			 p->is_built ? "" : "not in this library; the machine has all it needs",
			 sum.worse ? p->is_built ? "less well because of: "
						 : ", less well because of: "
				   : "",
			 sum.worse_names);
	}
}

static bool prospect_is_open(const struct ori_prospect *p)
{
	return p->is_built &&
	       (p->verdict == ORIEL_VERDICT_PASS || p->verdict == ORIEL_VERDICT_UNKNOWN);
}

/* All mapped ways that are open serve side by side; of the others the best one. */
void ori_ways_judge(const struct ori_facts *facts, const struct ori_ruling *rulings, unsigned count,
		    struct ori_prospect prospects[ORIEL_WAYS])
{
	for (unsigned way = 0; way < ORIEL_WAYS; way++) {
		way_judge(facts, (enum oriel_way)way, rulings, count, &prospects[way]);
		if (way < ORIEL_WAY_SOFT)
			prospects[way].is_used = prospect_is_open(&prospects[way]);
	}
	for (unsigned way = ORIEL_WAYS; way-- > ORIEL_WAY_SOFT;) {
		prospects[way].is_used = prospect_is_open(&prospects[way]);
		if (prospects[way].is_used)
			return;
	}
}

bool ori_ways_are_well(const struct ori_prospect prospects[ORIEL_WAYS])
{
	for (unsigned way = 0; way <= ORIEL_WAY_T3; way++)
		if (prospects[way].is_built && prospects[way].verdict == ORIEL_VERDICT_FAIL)
			return false;
	return true;
}
