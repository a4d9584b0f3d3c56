/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of GPUs: from the driver's files, from libcuda, and from the PCI bus. machine.c
 * reads them for `oriel doctor`.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "doctor/files.h"
#include "doctor/inspect.h"
#include "sys/gpus.h"

#define NVIDIA_VENDOR 0x10deu

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release ..." */
static void gpu_inspect_version(const char *root, struct ori_facts *facts)
{
	char line[256], *rest = line, *word;

	if (!ori_file_line(ori_file_path(root, "/proc/driver/nvidia/version"), line, sizeof(line)))
		return;
	facts->nvidia_open = strstr(line, "Open Kernel Module") != NULL;
	while ((word = strsep(&rest, " \t"))) {
		if (!isdigit((unsigned char)*word) || !strchr(word, '.'))
			continue;
		ori_fact_set(&facts->nvidia, word);
		return;
	}
}

/* Facts of the kernel modules, which exist without libcuda too. */
static void gpu_inspect_driver(const char *root, struct ori_facts *facts)
{
	struct ori_file_path params = ori_file_path(root, "/proc/driver/nvidia/params");
	char line[512];

	gpu_inspect_version(root, facts);
	if (ori_file_find(params, "RegistryDwords:", line, sizeof(line)))
		facts->nvidia_override = strstr(line, "PeerMappingOverride=1") != NULL;
	if (ori_file_find(params, "EnableStreamMemOPs:", line, sizeof(line)))
		facts->nvidia_streamops = strstr(line, ": 1") != NULL;
	if (ori_file_exists(ori_file_path(root, "/sys/module")))
		facts->peermem =
			ori_file_exists(ori_file_path(root, "/sys/module/nvidia_peermem")) ||
			ori_file_exists(
				ori_file_path(root, "/sys/kernel/mm/memory_peers/nv_mem")) ||
			ori_file_exists(
				ori_file_path(root, "/sys/kernel/mm/memory_peers/nvidia-peermem"));
}

/* The driver lists the class in /proc/devices; each channel is a device file. */
static void gpu_inspect_imex(const char *root, struct ori_facts *facts)
{
	struct ori_file_path devices = ori_file_path(root, "/proc/devices");
	char line[128], **names;
	int count;

	if (!ori_file_exists(devices))
		return;
	facts->imex = ori_file_find(devices, "nvidia-caps-imex-channels", line, sizeof(line));
	count = ori_file_list(ori_file_path(root, "/dev/nvidia-caps-imex-channels"), &names);
	facts->imex_channels = count < 0 ? 0 : count;
	if (count >= 0)
		ori_file_free(names, count);
}

static void gpu_copy(const char *root, const struct ori_gpus_item *item, struct ori_facts_gpu *gpu)
{
	static const char *const fabrics[] = {"none", "not started", "in progress", "completed",
					      "failed"};

	ori_fact_set(&gpu->pci, item->pci);
	ori_fact_set(&gpu->name, item->name);
	ori_fact_set(&gpu->reach, item->reach);
	if (item->fabric >= 0 && item->fabric < 5)
		ori_fact_set(&gpu->fabric, fabrics[item->fabric]);
	gpu->capability = item->capability;
	gpu->descriptors = item->descriptors;
	gpu->fabric_handles = item->fabric_handles;
	gpu->cluster = item->cluster;
	gpu->rdma = item->rdma;
	gpu->rdma_vmm = item->rdma_vmm;
	gpu->dmabuf = item->dmabuf;
	gpu->stream_memops = item->stream_memops;
	ori_inspect_pci(root, item->pci, &gpu->numa, &gpu->acs, &gpu->iommu);
}

void ori_inspect_gpus(const char *root, struct ori_facts *facts)
{
	static const unsigned display[] = {0x0300, 0x0302};
	struct ori_gpus gpus;

	facts->bus_gpus = ori_inspect_bus(root, NVIDIA_VENDOR, display, 2);
	gpu_inspect_driver(root, facts);
	gpu_inspect_imex(root, facts);
	ori_gpus_query(&gpus);
	facts->cuda = gpus.has_library;
	if (gpus.has_library)
		facts->cuda_result = gpus.result;
	if (gpus.has_library && gpus.result == 0)
		facts->cuda_version = gpus.version;
	facts->gpu_count = gpus.count;
	for (unsigned i = 0; i < gpus.count; i++)
		gpu_copy(root, &gpus.item[i], &facts->gpu[i]);
}
