/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and contexts of the fake driver. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"

#define DEPTH 16

static struct {
	int count;               /* visible */
	int order[FAKE_DEVICES]; /* their physical numbers */
	int island[FAKE_DEVICES];
	int nvlinks[FAKE_DEVICES];    /* number of the group that NVLink joins */
	unsigned apart[FAKE_DEVICES]; /* masks of GPUs that each does not reach */
	struct CUctx_st primary[FAKE_DEVICES];
} machine; /* written once, in cuInit() */

static atomic_uint peers[FAKE_DEVICES]; /* masks of physical GPUs whose memory a GPU reaches */

static _Thread_local struct {
	CUcontext stack[DEPTH];
	unsigned depth;
	CUstreamCaptureMode mode;
	bool is_forbidden; /* it destroys state of a graph, so the driver may not be called */
	struct fakecuda_posted posted;
} fake_thread;

static struct {
	pthread_mutex_t lock;
	char call[64];
	unsigned after;
} failure = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int left;

void fake_count(int change)
{
	atomic_fetch_add(&left, change);
}

unsigned fakecuda_left(void)
{
	return (unsigned)atomic_load(&left);
}

struct fakecuda_posted fakecuda_posted(void)
{
	struct fakecuda_posted posted = fake_thread.posted;

	fake_thread.posted = (struct fakecuda_posted){0};
	return posted;
}

void fake_count_copies(unsigned copies)
{
	fake_thread.posted.copies += copies;
}

void fake_count_batch(void)
{
	fake_thread.posted.batches++;
}

void fake_count_kernel(unsigned blocks)
{
	fake_thread.posted.kernels++;
	fake_thread.posted.blocks += blocks;
}

void fake_count_early(void)
{
	fake_thread.posted.early++;
}

void fake_forbid_calls(bool is_forbidden)
{
	fake_thread.is_forbidden = is_forbidden;
}

bool fake_may_wait(int device)
{
	return device == fake_current() && fake_thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

void fakecuda_fail(const char *call, unsigned after)
{
	pthread_mutex_lock(&failure.lock);
	snprintf(failure.call, sizeof(failure.call), "%s", call ? call : "");
	failure.after = after;
	pthread_mutex_unlock(&failure.lock);
}

bool fake_fails(const char *call)
{
	bool fails = false;

	pthread_mutex_lock(&failure.lock);
	if (strcmp(failure.call, call) == 0 && failure.after-- == 0) {
		failure.after = 0;
		fails = true;
	}
	pthread_mutex_unlock(&failure.lock);
	return fails;
}

/* Read a list of numbers from the environment; return how many there are. */
static int read_list(const char *name, int numbers[FAKE_DEVICES])
{
	const char *text = getenv(name);
	int count = 0;
	char *end;

	while (text && *text && count < FAKE_DEVICES) {
		numbers[count++] = (int)strtol(text, &end, 10);
		text = *end ? end + 1 : end;
	}
	return count;
}

int fake_number(const char *name, int fallback)
{
	const char *text = getenv(name);

	return text ? atoi(text) : fallback;
}

/* Number the groups whose first members are listed. */
static void read_groups(const char *name, int groups[FAKE_DEVICES])
{
	int starts[FAKE_DEVICES], count = read_list(name, starts), i, k;

	for (i = 0; i < FAKE_DEVICES; i++)
		for (k = 0; k < count; k++)
			if (i >= starts[k])
				groups[i] = k;
}

static void read_apart(void)
{
	const char *text = getenv("FAKECUDA_APART");
	unsigned a, b;
	int used;

	for (; text && sscanf(text, "%u-%u%n", &a, &b, &used) == 2; text++) {
		machine.apart[a % FAKE_DEVICES] |= 1u << b;
		machine.apart[b % FAKE_DEVICES] |= 1u << a;
		text += used;
		if (!*text)
			return;
	}
}

static void machine_open(void)
{
	int all = fake_number("FAKECUDA_DEVICES", 2), i;

	machine.count = read_list("FAKECUDA_ORDER", machine.order);
	if (!machine.count)
		for (machine.count = 0; machine.count < all; machine.count++)
			machine.order[machine.count] = machine.count;
	read_groups("FAKECUDA_ISLANDS", machine.island);
	read_groups("FAKECUDA_NVLINKS", machine.nvlinks);
	read_apart();
	for (i = 0; i < FAKE_DEVICES; i++)
		machine.primary[i].device = i;
}

int fake_physical(int device)
{
	return machine.order[device];
}

int fake_visible(int physical)
{
	int i;

	for (i = 0; i < machine.count; i++)
		if (machine.order[i] == physical)
			return i;
	return -1;
}

bool fake_reaches(int a, int b)
{
	return machine.island[a] == machine.island[b] && !(machine.apart[a] >> b & 1);
}

static CUcontext context_now(void)
{
	return fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1] : NULL;
}

int fake_current(void)
{
	CUcontext context = context_now();

	return context ? context->device : -1;
}

static bool is_device(CUdevice device)
{
	return device >= 0 && device < machine.count;
}

CUresult cuInit(unsigned flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, machine_open);
	return flags           ? CUDA_ERROR_INVALID_VALUE
	       : machine.count ? CUDA_SUCCESS
			       : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = fake_number("FAKECUDA_DRIVER", CUDA_VERSION);
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
	switch (error) {
	case CUDA_SUCCESS:
		*text = "CUDA_SUCCESS";
		return CUDA_SUCCESS;
	case CUDA_ERROR_INVALID_VALUE:
		*text = "CUDA_ERROR_INVALID_VALUE";
		return CUDA_SUCCESS;
	case CUDA_ERROR_OUT_OF_MEMORY:
		*text = "CUDA_ERROR_OUT_OF_MEMORY";
		return CUDA_SUCCESS;
	case CUDA_ERROR_NOT_PERMITTED:
		*text = "CUDA_ERROR_NOT_PERMITTED";
		return CUDA_SUCCESS;
	case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
		*text = "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED";
		return CUDA_SUCCESS;
	default:
		*text = "CUDA_ERROR_OF_SOME_KIND";
		return CUDA_SUCCESS;
	}
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	(void)error;
	*text = "of the fake driver";
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	*count = machine.count;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!is_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	snprintf(name, (size_t)length, "Fake %d", fake_physical(device));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 0xfa, sizeof(*uuid));
	uuid->bytes[15] = (char)fake_physical(device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	snprintf(text, (size_t)length, "0000:%02x:00.0", 0x10 + fake_physical(device));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	if (!is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = fake_number("FAKECUDA_MAJOR", 9);
		break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = fake_number("FAKECUDA_PROCESSORS", 132);
		break;
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
		*value = getenv("FAKECUDA_FABRIC") != NULL;
		break;
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
		*value = fake_number("FAKECUDA_WORDS", 1);
		break;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
		*value = fake_number("FAKECUDA_ORDERING", 100);
		break;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
		*value = fake_number("FAKECUDA_FLUSHES", 1);
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*value = 0;
		break;
	default:
		*value = 1;
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	*can = device != peer && fake_reaches(fake_physical(device), fake_physical(peer));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device,
				 CUdevice peer)
{
	CUresult result = cuDeviceCanAccessPeer(value, device, peer);

	if (attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED &&
	    machine.nvlinks[fake_physical(device)] != machine.nvlinks[fake_physical(peer)])
		*value = 0;
	return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*context = &machine.primary[device];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	if (fake_thread.is_forbidden) {
		fprintf(stderr, "fakecuda: a destructor of a graph calls the driver\n");
		abort();
	}
	if (fake_fails("cuCtxGetCurrent"))
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = context_now();
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	fake_thread.depth = 1;
	fake_thread.stack[0] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = fake_current();
	return *device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	if (fake_thread.is_forbidden) {
		fprintf(stderr, "fakecuda: a destructor of a graph calls the driver\n");
		abort();
	}
	if (!context || fake_thread.depth == DEPTH || fake_fails("cuCtxPushCurrent"))
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_thread.stack[fake_thread.depth++] = context;
	fake_count(1);
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
	if (!fake_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = fake_thread.stack[--fake_thread.depth];
	fake_count(-1);
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	int device = fake_current();
	unsigned bit;

	if (device < 0 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (device == peer->device ||
	    !fake_reaches(fake_physical(device), fake_physical(peer->device)))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1u << fake_physical(peer->device);
	if (atomic_fetch_or(&peers[fake_physical(device)], bit) & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	return CUDA_SUCCESS;
}

bool fake_is_peer(int a, int b)
{
	return a == b || atomic_load(&peers[b]) >> a & 1;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = fake_thread.mode;

	fake_thread.mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
