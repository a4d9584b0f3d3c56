/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs in `oriel info --gpu`: what each rank's offers to its peers, and who says so. */
#include <stdio.h>

#include "info.h"
#include "table.h"

#define INFO_UUID 37 /* of 16 bytes in hex, with hyphens and its NUL */
#define INFO_CELL 80

static void cluster_text(const struct oriel_peer_gpu *gpu, char text[INFO_UUID])
{
	unsigned i, used = 0;

	for (i = 0; i < sizeof(gpu->cluster); i++)
		used += (unsigned)snprintf(text + used, INFO_UUID - used, "%s%02x",
					   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					   gpu->cluster[i]);
}

static bool gpu_is_in_fabric(const struct oriel_peer_gpu *gpu)
{
	unsigned any = 0, i;

	for (i = 0; i < sizeof(gpu->cluster); i++)
		any |= gpu->cluster[i];
	return any;
}

static bool gpu_add(struct table *table, unsigned rank, const struct oriel_peer_gpu *gpu)
{
	char number[16], domain[16], cluster[INFO_CELL] = "-", clique[INFO_CELL] = "-";
	char access[INFO_CELL], direct[INFO_CELL], uuid[INFO_UUID];
	const char *cells[] = {number,  gpu->pci, domain, gpu->fabric,
			       cluster, clique,   access, direct};

	if (!gpu->pci[0])
		return true;
	snprintf(number, sizeof(number), "%u", rank);
	snprintf(domain, sizeof(domain), "%u", gpu->domain);
	if (gpu_is_in_fabric(gpu)) {
		cluster_text(gpu, uuid);
		snprintf(cluster, sizeof(cluster), "%s (%s)", uuid, gpu->cluster_source);
		snprintf(clique, sizeof(clique), "%u (%s)", gpu->clique, gpu->clique_source);
	}
	snprintf(access, sizeof(access), "%s (%s)", gpu->is_peer_access_off ? "off" : "on",
		 gpu->peer_access_source);
	snprintf(direct, sizeof(direct), "%s (%s)", gpu->is_gpudirect_off ? "off" : "on",
		 gpu->gpudirect_source);
	return table_add(table, cells);
}

bool info_gpus_print(const struct info_job *job)
{
	static const char *const head[] = {"rank",    "GPU",    "domain",      "NVLink fabric",
					   "cluster", "clique", "peer access", "GPUDirect RDMA"};
	struct table table = {.columns = 8};
	bool is_added = table_add(&table, head);
	struct oriel_peer_gpu gpu = {.size = sizeof(gpu)};
	unsigned i;

	for (i = 0; is_added && oriel_comm_peer_gpu(job->comm, i, &gpu) == ORIEL_OK; i++)
		is_added = gpu_add(&table, i, &gpu);
	printf("\n  GPUs: ranks of one domain map each other's GPU memory, others use rdma\n\n");
	table_print(&table, stdout);
	table_free(&table);
	return is_added;
}

static void gpu_write(struct json *json, unsigned rank, const struct oriel_peer_gpu *gpu)
{
	char uuid[INFO_UUID];

	cluster_text(gpu, uuid);
	json_open_object(json, NULL);
	json_unsigned(json, "rank", rank);
	json_text(json, "pci", gpu->pci);
	json_unsigned(json, "domain", gpu->domain);
	json_text(json, "fabric", gpu->fabric);
	if (gpu_is_in_fabric(gpu)) {
		json_text(json, "cluster", uuid);
		json_text(json, "cluster_source", gpu->cluster_source);
		json_unsigned(json, "clique", gpu->clique);
		json_text(json, "clique_source", gpu->clique_source);
	}
	json_bool(json, "peer_access", !gpu->is_peer_access_off);
	json_text(json, "peer_access_source", gpu->peer_access_source);
	json_bool(json, "gpudirect", !gpu->is_gpudirect_off);
	json_text(json, "gpudirect_source", gpu->gpudirect_source);
	json_close_object(json);
}

void info_gpus_write(const struct info_job *job, struct json *json)
{
	struct oriel_peer_gpu gpu = {.size = sizeof(gpu)};
	unsigned i;

	json_open_array(json, "gpus");
	for (i = 0; oriel_comm_peer_gpu(job->comm, i, &gpu) == ORIEL_OK; i++)
		gpu_write(json, i, &gpu);
	json_close_array(json);
}
