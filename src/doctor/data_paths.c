/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the state of each data path from the verdicts of the checks; machine.c calls it. */
#include <stdio.h>
#include <string.h>

#include "doctor/check.h"

static const struct {
	const char *name, *tag;
} data_paths[ORI_DATA_PATH_COUNT] = {
	[ORI_DATA_PATH_MEMORY] = {"mapped, host memory", "memory"},
	[ORI_DATA_PATH_GPU] = {"mapped, GPU memory", "gpu"},
	[ORI_DATA_PATH_FABRIC] = {"mapped, GPU memory of other machines", "fabric"},
	[ORI_DATA_PATH_SOFT] = {"rdma, software HCA", "soft"},
	[ORI_DATA_PATH_T3] = {"rdma, a CPU thread posts (T3)", "T3"},
	[ORI_DATA_PATH_T2] = {"rdma, kernels post, a CPU thread rings the doorbell (T2)", "T2"},
	[ORI_DATA_PATH_T1] = {"rdma, kernels post and ring the doorbell (T1)", "T1"},
	[ORI_DATA_PATH_T0] = {"rdma, as T1 with queues in GPU memory (T0)", "T0"},
};

const char *ori_data_path_name(enum ori_data_path path)
{
	return data_paths[path].name;
}

const char *ori_data_path_tag(enum ori_data_path path)
{
	return data_paths[path].tag;
}

static bool data_path_is_built(const struct ori_facts *f, enum ori_data_path path)
{
	switch (path) {
	case ORI_DATA_PATH_GPU:
		return f->built_gpu == ORI_FACT_YES;
	case ORI_DATA_PATH_FABRIC:
		return f->built_fabric == ORI_FACT_YES;
	case ORI_DATA_PATH_T3:
		return f->built_t3 == ORI_FACT_YES;
	case ORI_DATA_PATH_T2:
	case ORI_DATA_PATH_T1:
	case ORI_DATA_PATH_T0:
		return f->built_posted == ORI_FACT_YES;
	default:
		return true;
	}
}

/* Devices that the driver lists prove the hardware; otherwise the count on the bus decides. */
static int64_t facts_have(int64_t on_bus, unsigned seen)
{
	if (seen > 0)
		return ORI_FACT_YES;
	return on_bus == ORI_FACT_UNKNOWN ? on_bus : on_bus > 0;
}

/* Does the fabric of any GPU span machines? */
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

/* Does the machine have the hardware of the path? If not, @missing names it. */
static int64_t data_path_hardware(const struct ori_facts *f, enum ori_data_path path,
				  const char **missing)
{
	int64_t gpus = facts_have(f->bus_gpus, f->gpu_count);
	int64_t nics = facts_have(f->nics, f->nic_count);

	switch (path) {
	case ORI_DATA_PATH_GPU:
		*missing = "no GPU";
		return gpus;
	case ORI_DATA_PATH_FABRIC:
		*missing = "no NVLink to other machines";
		return facts_have_cluster(f);
	case ORI_DATA_PATH_T3:
		*missing = "no RDMA NIC";
		return nics;
	case ORI_DATA_PATH_T2:
	case ORI_DATA_PATH_T1:
	case ORI_DATA_PATH_T0:
		*missing = nics == ORI_FACT_NO ? "no RDMA NIC" : "no GPU";
		return nics == ORI_FACT_NO ? nics : gpus;
	default:
		return ORI_FACT_YES;
	}
}

/* Do the settings allow the path? If not, @by names the setting. */
static int64_t data_path_allowed(const struct ori_facts *f, enum ori_data_path path,
				 const char **by)
{
	*by = "ORIEL_PATHS excludes it";
	if (path == ORI_DATA_PATH_FABRIC && f->allows_mapped == ORI_FACT_YES) {
		*by = "ORIEL_FABRIC is off";
		return f->allows_fabric;
	}
	if (path <= ORI_DATA_PATH_FABRIC)
		return f->allows_mapped;
	if (f->allows_rdma != ORI_FACT_YES)
		return f->allows_rdma;
	*by = "ORIEL_HCA excludes it";
	if (path == ORI_DATA_PATH_SOFT)
		return f->allows_soft;
	/* Records of older versions lack the fact. */
	return f->allows_nic == ORI_FACT_NO ? ORI_FACT_NO : ORI_FACT_YES;
}

struct data_path_sum {
	unsigned failed, unknown, worse;
	char failed_names[400], unknown_names[400], worse_names[400];
};

static void names_add(char *list, size_t length, unsigned before, const char *name)
{
	size_t used = strlen(list);

	snprintf(list + used, length - used, "%s%s", before ? ", " : "", name);
}

/* Collect the checks that failed or are unknown, among those the path needs or benefits from. */
static void data_path_sum(enum ori_data_path path, const struct ori_checked *checked,
			  unsigned count, struct data_path_sum *sum)
{
	const unsigned mask = 1u << path;

	memset(sum, 0, sizeof(*sum));
	for (unsigned i = 0; i < count; i++) {
		const struct ori_check *check = checked[i].check;
		enum ori_doctor_verdict verdict = checked[i].answer->verdict;

		if (check->needs & mask && verdict == ORI_DOCTOR_FAIL)
			names_add(sum->failed_names, sizeof(sum->failed_names), sum->failed++,
				  check->name);
		if (check->needs & mask && verdict == ORI_DOCTOR_UNKNOWN)
			names_add(sum->unknown_names, sizeof(sum->unknown_names), sum->unknown++,
				  check->name);
		if (check->helps & mask && verdict == ORI_DOCTOR_FAIL)
			names_add(sum->worse_names, sizeof(sum->worse_names), sum->worse++,
				  check->name);
	}
}

/*
 * Absent hardware and excluding settings come first: they are no failure. Then a failed check
 * decides, then an unknown one.
 */
static void data_path_judge(const struct ori_facts *f, enum ori_data_path path,
			    const struct ori_checked *checked, unsigned count,
			    struct ori_data_path_state *p)
{
	const char *missing = "", *by = "";
	int64_t hardware = data_path_hardware(f, path, &missing),
		allowed = data_path_allowed(f, path, &by);
	const char *elsewhere;
	struct data_path_sum sum;

	p->is_built = data_path_is_built(f, path);
	p->is_used = false;
	elsewhere = p->is_built ? "" : "not in this library; ";
	data_path_sum(path, checked, count, &sum);
	if (hardware == ORI_FACT_NO || allowed == ORI_FACT_NO) {
		p->verdict = ORI_DOCTOR_SKIP;
		snprintf(p->why, sizeof(p->why), "%s%s", elsewhere,
			 hardware == ORI_FACT_NO ? missing : by);
	} else if (sum.failed > 0) {
		p->verdict = ORI_DOCTOR_FAIL;
		snprintf(p->why, sizeof(p->why), "%slacks: %s", elsewhere, sum.failed_names);
	} else if (hardware == ORI_FACT_UNKNOWN || allowed == ORI_FACT_UNKNOWN || sum.unknown) {
		p->verdict = ORI_DOCTOR_UNKNOWN;
		snprintf(p->why, sizeof(p->why), "%sunknown: %s", elsewhere,
			 sum.unknown                    ? sum.unknown_names
			 : hardware == ORI_FACT_UNKNOWN ? "the hardware"
							: "the settings");
	} else {
		p->verdict = ORI_DOCTOR_PASS;
		snprintf(p->why, sizeof(p->why), "%s%s%s",
			 p->is_built ? "" : "not in this library; the machine has all it needs",
			 sum.worse ? p->is_built ? "worse because of: " : ", worse because of: "
				   : "",
			 sum.worse_names);
	}
}

/* An unknown state counts as usable, because a job tries the path. */
static bool state_is_usable(const struct ori_data_path_state *p)
{
	return p->is_built && (p->verdict == ORI_DOCTOR_PASS || p->verdict == ORI_DOCTOR_UNKNOWN);
}

/* Every usable mapped path is used, side by side; of the rdma paths only the best one. */
void ori_data_paths_judge(const struct ori_facts *facts, const struct ori_checked *checked,
			  unsigned count, struct ori_data_path_state states[ORI_DATA_PATH_COUNT])
{
	for (unsigned path = 0; path < ORI_DATA_PATH_COUNT; path++) {
		data_path_judge(facts, (enum ori_data_path)path, checked, count, &states[path]);
		if (path < ORI_DATA_PATH_SOFT)
			states[path].is_used = state_is_usable(&states[path]);
	}
	for (unsigned path = ORI_DATA_PATH_COUNT; path-- > ORI_DATA_PATH_SOFT;) {
		states[path].is_used = state_is_usable(&states[path]);
		if (states[path].is_used)
			return;
	}
}

bool ori_data_paths_are_well(const struct ori_data_path_state states[ORI_DATA_PATH_COUNT])
{
	for (unsigned path = 0; path <= ORI_DATA_PATH_T3; path++)
		if (states[path].is_built && states[path].verdict == ORI_DOCTOR_FAIL)
			return false;
	return true;
}
