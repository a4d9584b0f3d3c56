/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The management library of the machine that fakecuda.h describes; the library loads it by name.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUS 0x10
#define DEVICES 16
/* enum nvmlGpuP2PCapsIndex_t of nvml.h */
#define READ 0
#define WRITE 1
#define NVLINK 2
#define ATOMICS 3
#define FABRIC_VERSION 0x02000024u

struct device {
	char nothing; /* the handle of a device is the address of its element in @devices */
};

struct fabric {
	uint32_t version;
	uint8_t cluster[16];
	int32_t status;
	uint32_t clique;
	uint8_t state;
	uint32_t health;
};

struct place {
	char legacy[16];
	uint32_t domain, bus, device, device_id, subsystem_id;
	char id[32];
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *text, unsigned length);
const char *nvmlErrorString(int result);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, struct device **device);
int nvmlDeviceGetPciInfo_v3(struct device *device, struct place *place);
int nvmlDeviceGetUUID(struct device *device, char *text, unsigned length);
int nvmlDeviceGetP2PStatus(struct device *a, struct device *b, int what, int *status);
int nvmlDeviceGetGpuFabricInfoV(struct device *device, struct fabric *fabric);

static struct device devices[DEVICES];

static int is_mode(const char *mode)
{
	const char *text = getenv("FAKECUDA_NVML");

	return text && strcmp(text, mode) == 0;
}

/* The number of the group that @device is in, of those whose first members @name lists. */
static int group(const char *name, const struct device *device)
{
	const char *text = getenv(name);
	int number = 0, first, used;

	for (; text && sscanf(text, "%d%n", &first, &used) == 1; text += used + 1) {
		number += device - devices >= first;
		if (!text[used])
			break;
	}
	return number;
}

int nvmlInit_v2(void)
{
	return is_mode("none") ? 9 : 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
	snprintf(text, length, "0.fake");
	return 0;
}

const char *nvmlErrorString(int result)
{
	return result == 9 ? "no fake driver is loaded" : "fake error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	const char *text = getenv("FAKECUDA_DEVICES");

	*count = text ? (unsigned)atoi(text) : 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
	if (index >= DEVICES)
		return 2;
	*device = &devices[index];
	return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, struct device **device)
{
	unsigned domain, bus;

	if (sscanf(pci, "%x:%x:", &domain, &bus) != 2 || bus < FIRST_BUS)
		return 2;
	return nvmlDeviceGetHandleByIndex_v2(bus - FIRST_BUS, device);
}

int nvmlDeviceGetPciInfo_v3(struct device *device, struct place *place)
{
	snprintf(place->id, sizeof(place->id), "00000000:%02x:00.0",
		 (unsigned)(FIRST_BUS + (device - devices)));
	return 0;
}

/* As cuDeviceGetUuid() of device.c, in the form that nvidia-smi prints. */
int nvmlDeviceGetUUID(struct device *device, char *text, unsigned length)
{
	snprintf(text, length, "GPU-fafafafa-fafa-fafa-fafa-fafafafafa%02x",
		 (unsigned)(device - devices));
	return 0;
}

/* As fake_reaches() of device.c. */
static int is_apart(const struct device *a, const struct device *b)
{
	const char *text = getenv("FAKECUDA_APART");
	int one, other, used;

	for (; text && sscanf(text, "%d-%d%n", &one, &other, &used) == 2; text += used + 1) {
		if ((a - devices == one && b - devices == other) ||
		    (a - devices == other && b - devices == one))
			return 1;
		if (!text[used])
			break;
	}
	return group("FAKECUDA_ISLANDS", a) != group("FAKECUDA_ISLANDS", b);
}

int nvmlDeviceGetP2PStatus(struct device *a, struct device *b, int what, int *status)
{
	if (a == b || what > ATOMICS)
		return 2;
	if (what == READ || what == WRITE) {
		*status = is_apart(a, b) ? 2 : 0;
		return 0;
	}
	if (what == ATOMICS) {
		*status = is_apart(a, b) ||
			  group("FAKECUDA_NVLINKS", a) != group("FAKECUDA_NVLINKS", b);
		return 0;
	}
	*status = is_mode("pcie") || group("FAKECUDA_NVLINKS", a) != group("FAKECUDA_NVLINKS", b) ||
				  is_apart(a, b)
			  ? 2
			  : 0;
	return 0;
}

int nvmlDeviceGetGpuFabricInfoV(struct device *device, struct fabric *fabric)
{
	const char *text = getenv("FAKECUDA_FABRIC");
	unsigned cluster = 0, clique = 0, state = 0;

	(void)device;
	if (fabric->version != FABRIC_VERSION)
		return 25;
	if (text && sscanf(text, "%u,%u,%u", &cluster, &clique, &state) < 2)
		return 2;
	if (text && !state)
		state = 3;
	memset(fabric->cluster, 0, sizeof(fabric->cluster));
	fabric->cluster[15] = (uint8_t)cluster;
	fabric->clique = clique;
	fabric->state = (uint8_t)state;
	fabric->status = state == 9 ? 999 : 0;
	if (state == 9)
		fabric->state = 3;
	return 0;
}
