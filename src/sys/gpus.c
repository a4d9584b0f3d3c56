/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements sys/gpus.h over libcuda without cuda.h, which the build may lack. The constants of
 * gpus_abi.h are cuda.h's; abi_test.c compares them where the header exists.
 */
#include "sys/gpus.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/gpus_abi.h"
#include "sys/library.h"
#include "sys/nvml.h"

/* A pointer is NULL if the library or the call is missing; each use checks. */
static struct {
	int (*init)(unsigned);
	int (*version)(int *);
	int (*count)(int *);
	int (*get)(int *, int);
	int (*name)(char *, int, int);
	int (*pci)(char *, int, int);
	int (*attribute)(int *, int, int);
	int (*p2p)(int *, int, int, int);
	int (*retain)(void **, int);
	int (*release)(int);
	int (*push)(void *);
	int (*pop)(void **);
	int (*pin)(void *, size_t, unsigned);
	int (*unpin)(void *);
	int (*alloc)(uint64_t *, size_t);
	int (*free)(uint64_t);
	int (*dmabuf)(int *, uint64_t, size_t, int, unsigned long long);
	bool is_loaded;
	int result;
} cuda;

static const struct ori_library_call cuda_calls[] = {
	{"cuInit", &cuda.init, true},
	{"cuDriverGetVersion", &cuda.version, true},
	{"cuDeviceGetCount", &cuda.count, true},
	{"cuDeviceGet", &cuda.get, true},
	{"cuDeviceGetName", &cuda.name, true},
	{"cuDeviceGetPCIBusId", &cuda.pci, true},
	{"cuDeviceGetAttribute", &cuda.attribute, true},
	{"cuDeviceGetP2PAttribute", &cuda.p2p, true},
	{"cuDevicePrimaryCtxRetain", &cuda.retain, false},
	{"cuDevicePrimaryCtxRelease_v2", &cuda.release, false},
	{"cuCtxPushCurrent_v2", &cuda.push, false},
	{"cuCtxPopCurrent_v2", &cuda.pop, false},
	{"cuMemHostRegister_v2", &cuda.pin, false},
	{"cuMemHostUnregister", &cuda.unpin, false},
	{"cuMemAlloc_v2", &cuda.alloc, false},
	{"cuMemFree_v2", &cuda.free, false},
	{"cuMemGetHandleForAddressRange", &cuda.dmabuf, false},
};

/* The library stays open: it does not survive being closed. */
static void gpus_load(void)
{
	cuda.is_loaded = ori_library_load("libcuda.so.1", cuda_calls,
					  sizeof(cuda_calls) / sizeof(cuda_calls[0]));
	if (cuda.is_loaded)
		cuda.result = cuda.init(0);
}

static bool gpus_are_usable(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, gpus_load);
	return cuda.is_loaded && cuda.result == 0;
}

static int gpu_attribute(int device, int attribute)
{
	int value = 0;

	return cuda.attribute(&value, attribute, device) == 0 ? value : -1;
}

static int gpu_flag(int device, int attribute)
{
	int value = gpu_attribute(device, attribute);

	return value > 0 ? 1 : value;
}

static char gpu_reach(int device, int other)
{
	int access = 0, atomics = 0;

	if (device == other)
		return 'S';
	if (cuda.p2p(&access, GPUS_P2P_ACCESS, device, other) != 0 || !access)
		return '-';
	if (cuda.p2p(&atomics, GPUS_P2P_ATOMICS, device, other) != 0)
		return 'N';
	return atomics ? 'A' : 'N';
}

static void gpu_query_fabric(struct ori_gpus_item *item)
{
	static const uint8_t zero[sizeof(((struct ori_nvml_fabric *)0)->cluster)];
	struct ori_nvml_fabric fabric;
	char why[ORI_NVML_WHY];

	if (!ori_nvml_fabric(item->pci, &fabric, why))
		return;
	item->fabric = (int)fabric.state;
	if (fabric.state == ORI_NVML_FABRIC_COMPLETE && fabric.status != 0)
		item->fabric = ORI_GPUS_FABRIC_FAILED;
	item->cluster = memcmp(fabric.cluster, zero, sizeof(zero)) != 0;
}

static void gpu_query(int device, struct ori_gpus_item *item)
{
	int major = gpu_attribute(device, GPUS_MAJOR), minor = gpu_attribute(device, GPUS_MINOR);

	memset(item, 0, sizeof(*item));
	item->fabric = item->cluster = -1;
	cuda.name(item->name, sizeof(item->name), device);
	cuda.pci(item->pci, sizeof(item->pci), device);
	for (char *c = item->pci; *c; c++)
		*c = (char)tolower((unsigned char)*c); /* as in sysfs */
	item->capability = major < 0 || minor < 0 ? -1 : major * 10 + minor;
	item->descriptors = gpu_flag(device, GPUS_DESCRIPTORS);
	item->fabric_handles = gpu_flag(device, GPUS_FABRIC_HANDLES);
	item->rdma = gpu_flag(device, GPUS_RDMA);
	item->rdma_vmm = gpu_flag(device, GPUS_RDMA_VMM);
	item->dmabuf = gpu_flag(device, GPUS_DMABUF);
	item->stream_memops = gpu_flag(device, GPUS_STREAM_MEMOPS);
	gpu_query_fabric(item);
}

void ori_gpus_query(struct ori_gpus *gpus)
{
	int devices[ORI_GPUS_MOST] = {0};
	int count = 0;

	memset(gpus, 0, sizeof(*gpus));
	if (!gpus_are_usable()) {
		gpus->has_library = cuda.is_loaded;
		gpus->result = cuda.result;
		return;
	}
	gpus->has_library = true;
	cuda.version(&gpus->version);
	cuda.count(&count);
	for (int i = 0; i < count && gpus->count < ORI_GPUS_MOST; i++) {
		if (cuda.get(&devices[gpus->count], i) != 0)
			continue;
		gpu_query(devices[gpus->count], &gpus->item[gpus->count]);
		gpus->count++;
	}
	for (unsigned i = 0; i < gpus->count; i++)
		for (unsigned k = 0; k < gpus->count; k++)
			gpus->item[i].reach[k] = gpu_reach(devices[i], devices[k]);
}

/* For the trials: the primary context of the first GPU, current only during the trial. */
static bool gpu_enter(int *device)
{
	void *context;

	if (!cuda.retain || !cuda.release || !cuda.push || !cuda.pop || cuda.get(device, 0) != 0 ||
	    cuda.retain(&context, *device) != 0)
		return false;
	if (cuda.push(context) == 0)
		return true;
	cuda.release(*device);
	return false;
}

static void gpu_leave(int device)
{
	void *context;

	cuda.pop(&context);
	cuda.release(device);
}

int ori_gpus_try_registers(void *page, size_t length)
{
	int device, result;

	if (!gpus_are_usable() || !cuda.pin || !cuda.unpin || !gpu_enter(&device))
		return -1;
	result = cuda.pin(page, length, GPUS_PIN_PORTABLE | GPUS_PIN_MAPPED | GPUS_PIN_IO);
	if (result == 0)
		cuda.unpin(page);
	gpu_leave(device);
	return result == 0;
}

/* The context stays retained until ori_gpus_free(), but is not current meanwhile. */
bool ori_gpus_alloc(size_t length, struct ori_gpus_memory *memory)
{
	void *context;
	int device;

	memory->dmabuf = -1;
	if (!gpus_are_usable() || !cuda.alloc || !cuda.free || !gpu_enter(&device))
		return false;
	if (cuda.alloc(&memory->address, length) != 0) {
		gpu_leave(device);
		return false;
	}
	if (cuda.dmabuf &&
	    cuda.dmabuf(&memory->dmabuf, memory->address, length, GPUS_RANGE_DMABUF, 0) != 0)
		memory->dmabuf = -1;
	cuda.pop(&context);
	return true;
}

void ori_gpus_free(struct ori_gpus_memory *memory)
{
	int device;

	if (memory->dmabuf >= 0)
		close(memory->dmabuf);
	if (!gpu_enter(&device))
		return;
	cuda.free(memory->address);
	gpu_leave(device);
	cuda.release(device); /* the reference of ori_gpus_alloc() */
}
