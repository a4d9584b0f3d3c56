/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens NVML and asks it for NVLink and fabric state. gpu_cuda.c, gpu_fabric.c, gpus.c and probe.c
 * call it.
 */
#include "sys/nvml.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sys/library.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

/* Constants of nvml.h, which comes with the toolkit and not with the driver. */
#define NVML_P2P_READ 0
#define NVML_P2P_WRITE 1
#define NVML_P2P_NVLINK 2
#define NVML_P2P_ATOMICS 3
#define NVML_UUID_TEXT 96
#define NVML_FABRIC_VERSION 0x02000024u /* version 2 of the struct, and its size */

struct nvml_device;

struct nvml_fabric_info {
	uint32_t version;
	uint8_t cluster[16];
	int32_t status;
	uint32_t clique;
	uint8_t state;
	uint32_t health;
};

static_assert(sizeof(struct nvml_fabric_info) == (NVML_FABRIC_VERSION & 0xffff),
	      "as long as its version says");

struct nvml_pci_info {
	char legacy[16];
	uint32_t domain, bus, device, device_id, subsystem_id;
	char id[32];
};

static struct {
	int (*init)(void);
	const char *(*text)(int result);
	int (*count)(unsigned *count);
	int (*by_index)(unsigned index, struct nvml_device **device);
	int (*by_pci)(const char *pci, struct nvml_device **device);
	int (*pci)(struct nvml_device *device, struct nvml_pci_info *info);
	int (*p2p)(struct nvml_device *a, struct nvml_device *b, int what, int *status);
	int (*uuid)(struct nvml_device *device, char *text, unsigned length);
	int (*fabric)(struct nvml_device *device, struct nvml_fabric_info *info);
	char why_not[ORI_NVML_WHY]; /* empty if the library is usable */
} nvml;                             /* written once, in nvml_load() */

/* The library stays open. Drivers before 535 have no fabric query; nvml.fabric is NULL then. */
static void nvml_load(void)
{
	void *library = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	int result;

	if (!library) {
		snprintf(nvml.why_not, sizeof(nvml.why_not), "no NVML: %s", dlerror());
		return;
	}
	if (!ori_library_find(library, "nvmlInit_v2", &nvml.init) ||
	    !ori_library_find(library, "nvmlErrorString", &nvml.text) ||
	    !ori_library_find(library, "nvmlDeviceGetCount_v2", &nvml.count) ||
	    !ori_library_find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.by_index) ||
	    !ori_library_find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_pci) ||
	    !ori_library_find(library, "nvmlDeviceGetPciInfo_v3", &nvml.pci) ||
	    !ori_library_find(library, "nvmlDeviceGetUUID", &nvml.uuid) ||
	    !ori_library_find(library, "nvmlDeviceGetP2PStatus", &nvml.p2p)) {
		snprintf(nvml.why_not, sizeof(nvml.why_not), NVML_LIBRARY " is too old");
		return;
	}
	ori_library_find(library, "nvmlDeviceGetGpuFabricInfoV", &nvml.fabric);
	result = nvml.init();
	if (result)
		snprintf(nvml.why_not, sizeof(nvml.why_not), "NVML cannot be initialised: %s",
			 nvml.text(result));
}

bool ori_nvml_open(char *why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, nvml_load);
	memcpy(why, nvml.why_not, ORI_NVML_WHY);
	return !nvml.why_not[0];
}

bool ori_nvml_fabric(const char *pci, struct ori_nvml_fabric *fabric, char *why)
{
	struct nvml_fabric_info info = {.version = NVML_FABRIC_VERSION};
	struct nvml_device *device;
	int result;

	if (!ori_nvml_open(why))
		return false;
	if (!nvml.fabric) {
		snprintf(why, ORI_NVML_WHY, "this driver's NVML has no fabric query");
		return false;
	}
	result = nvml.by_pci(pci, &device);
	if (!result)
		result = nvml.fabric(device, &info);
	if (result) {
		snprintf(why, ORI_NVML_WHY, "NVML cannot query the fabric of GPU %s: %s", pci,
			 nvml.text(result));
		return false;
	}
	fabric->state = (enum ori_nvml_fabric_state)info.state;
	fabric->status = info.status;
	fabric->clique = info.clique;
	memcpy(fabric->cluster, info.cluster, sizeof(fabric->cluster));
	return true;
}

bool ori_nvml_is_nvlink(const char *a, const char *b, bool *is_nvlink)
{
	struct nvml_device *one, *other;
	char why[ORI_NVML_WHY];
	int status;

	if (!ori_nvml_open(why) || nvml.by_pci(a, &one) || nvml.by_pci(b, &other) ||
	    nvml.p2p(one, other, NVML_P2P_NVLINK, &status))
		return false;
	*is_nvlink = status == 0;
	return true;
}

static bool nvml_passes(struct nvml_device *from, struct nvml_device *to, int what)
{
	int status;

	return nvml.p2p(from, to, what, &status) == 0 && status == 0;
}

bool ori_nvml_reach(const char *from, unsigned index, struct ori_nvml_reach *reach)
{
	struct nvml_device *one, *other;
	char why[ORI_NVML_WHY];

	if (!ori_nvml_open(why) || nvml.by_pci(from, &one) || nvml.by_index(index, &other))
		return false;
	reach->has_access =
		nvml_passes(one, other, NVML_P2P_READ) && nvml_passes(one, other, NVML_P2P_WRITE);
	reach->is_nvlink = nvml_passes(one, other, NVML_P2P_NVLINK);
	reach->has_atomics = reach->is_nvlink || nvml_passes(one, other, NVML_P2P_ATOMICS);
	return true;
}

/* "GPU-8c4e9e3a-7f6b-...": 32 hex digits behind the prefix, with hyphens. */
static bool nvml_read_uuid(const char *text, uint8_t uuid[ORI_NVML_UUID])
{
	unsigned i, byte;

	if (strncmp(text, "GPU-", 4) != 0)
		return false;
	for (text += 4, i = 0; i < ORI_NVML_UUID; i++, text += 2) {
		text += *text == '-';
		if (sscanf(text, "%2x", &byte) != 1 || !text[0] || !text[1])
			return false;
		uuid[i] = (uint8_t)byte;
	}
	return !*text;
}

bool ori_nvml_uuid(unsigned index, uint8_t uuid[ORI_NVML_UUID])
{
	char text[NVML_UUID_TEXT] = "", why[ORI_NVML_WHY];
	struct nvml_device *device;

	return ori_nvml_open(why) && nvml.by_index(index, &device) == 0 &&
	       nvml.uuid(device, text, sizeof(text)) == 0 && nvml_read_uuid(text, uuid);
}

unsigned ori_nvml_count(void)
{
	char why[ORI_NVML_WHY];
	unsigned count;

	return ori_nvml_open(why) && nvml.count(&count) == 0 ? count : 0;
}

bool ori_nvml_pci(unsigned index, char *pci, size_t length)
{
	struct nvml_pci_info info = {.id = ""};
	struct nvml_device *device;
	char why[ORI_NVML_WHY];

	if (!ori_nvml_open(why) || nvml.by_index(index, &device) || nvml.pci(device, &info))
		return false;
	info.id[sizeof(info.id) - 1] = '\0';
	snprintf(pci, length, "%s", info.id);
	return true;
}
