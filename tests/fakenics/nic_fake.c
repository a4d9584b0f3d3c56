/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For nics_test: a ConnectX and a GPU that are not there. One library under the
 * names of libibverbs, libmlx5 and libcuda. FAKE_REFUSES lists what it refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sys/gpus_abi.h"
#include "sys/nics_abi.h"

/* The prototypes are in the headers of others. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define FAKE __attribute__((visibility("default")))
#define NOT_PERMITTED 800

static char registers[8192] __attribute__((aligned(4096)));
static char page_of_gpu[1] __attribute__((aligned(64)));
static struct nics_uar uar = {.reg_addr = registers + 2048, .base_addr = registers};
static void *device = &uar;
static int open_objects, entered;

static bool refuses(const char *what)
{
	const char *word = getenv("FAKE_REFUSES");
	size_t length;

	for (; word && *word; word += length + (word[length] != '\0')) {
		length = strcspn(word, " ");
		if (length == strlen(what) && memcmp(word, what, length) == 0)
			return true;
	}
	return false;
}

/* An object, or NULL with @error. */
static void *make(const char *what, int error)
{
	if (refuses(what)) {
		errno = error;
		return NULL;
	}
	open_objects++;
	return malloc(1);
}

static int drop(void *object)
{
	open_objects--;
	free(object);
	return 0;
}

/* Objects that were not freed, and contexts that are still entered. */
FAKE int fake_open_objects(void)
{
	return open_objects + entered;
}

FAKE void **ibv_get_device_list(int *count)
{
	void **list = calloc(2, sizeof(*list));

	if (!list)
		return NULL;
	open_objects++;
	list[0] = device;
	*count = 1;
	return list;
}

FAKE void ibv_free_device_list(void **list)
{
	open_objects--;
	free(list);
}

FAKE const char *ibv_get_device_name(void *which)
{
	return which == device ? "mlx5_9" : NULL;
}

FAKE void *ibv_open_device(void *which)
{
	return which == device ? make("open", EACCES) : NULL;
}

FAKE int ibv_close_device(void *context)
{
	return drop(context);
}

FAKE int ibv_query_device(void *context, struct nics_device *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->atomic_cap = refuses("atomics") ? 0 : 1;
	return 0;
}

FAKE int ibv_query_port(void *context, uint8_t number, struct nics_port *attr)
{
	(void)context;
	attr->active_mtu = refuses("mtu") ? 0 : 5;
	return number == 1 ? 0 : EINVAL;
}

FAKE void *ibv_alloc_pd(void *context)
{
	(void)context;
	return make("pd", ENOMEM);
}

FAKE int ibv_dealloc_pd(void *pd)
{
	return drop(pd);
}

FAKE void *ibv_reg_mr(void *pd, void *at, size_t length, int access)
{
	(void)pd;
	(void)access;
	return at && length ? make("pin", ENOMEM) : NULL;
}

FAKE int ibv_dereg_mr(void *mr)
{
	return drop(mr);
}

FAKE void *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			     int access)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)access;
	errno = refuses("dmabuf") ? EOPNOTSUPP : refuses("sense") ? EFAULT : EBADF;
	return fd == -1 ? NULL : make("dmabuf", EOPNOTSUPP);
}

FAKE bool mlx5dv_is_supported(void *which)
{
	return which == device && !refuses("mlx5");
}

FAKE void *mlx5dv_open_device(void *which, struct nics_open *how)
{
	return which == device && how->flags == NICS_DEVX && !how->mask ? make("devx", EOPNOTSUPP)
									: NULL;
}

FAKE int mlx5dv_devx_query_eqn(void *context, uint32_t vector, uint32_t *eqn)
{
	(void)context;
	*eqn = vector;
	return refuses("commands") ? EOPNOTSUPP : 0;
}

FAKE struct nics_uar *mlx5dv_devx_alloc_uar(void *context, uint32_t flags)
{
	(void)context;
	if (flags != NICS_UAR_NC || refuses("uar"))
		return NULL;
	open_objects++;
	return &uar;
}

FAKE void mlx5dv_devx_free_uar(struct nics_uar *which)
{
	open_objects -= which == &uar;
}

/* A dma-buf has no address of its own, and memory of a GPU no descriptor. */
FAKE void *mlx5dv_devx_umem_reg_ex(void *context, struct nics_umem *in)
{
	(void)context;
	if (in->mask == NICS_UMEM_DMABUF)
		return in->at || in->dmabuf < 0 ? NULL : make("umem-dmabuf", EFAULT);
	return in->at == page_of_gpu ? make("umem-address", EFAULT) : NULL;
}

FAKE int mlx5dv_devx_umem_dereg(void *umem)
{
	return drop(umem);
}

FAKE int cuInit(unsigned flags)
{
	return (int)flags;
}

FAKE int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

FAKE int cuDeviceGetCount(int *count)
{
	*count = refuses("gpu") ? 0 : 1;
	return 0;
}

FAKE int cuDeviceGet(int *which, int number)
{
	*which = number;
	return refuses("gpu") ? 101 : 0;
}

FAKE int cuDeviceGetName(char *name, int length, int which)
{
	strncpy(name, which == 0 ? "Fake" : "?", (size_t)length);
	return 0;
}

FAKE int cuDeviceGetPCIBusId(char *pci, int length, int which)
{
	strncpy(pci, which == 0 ? "0000:AB:00.0" : "?", (size_t)length);
	return 0;
}

FAKE int cuDeviceGetAttribute(int *value, int attribute, int which)
{
	*value = attribute == GPUS_MAJOR ? 9 : attribute == GPUS_MINOR ? 0 : 1;
	return refuses("attributes") ? 1 : which;
}

FAKE int cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to)
{
	*value = 0;
	return attribute + from + to;
}

FAKE int cuDevicePrimaryCtxRetain(void **context, int which)
{
	if (which != 0 || refuses("context"))
		return 2;
	open_objects++;
	*context = &entered;
	return 0;
}

FAKE int cuDevicePrimaryCtxRelease_v2(int which)
{
	open_objects -= which == 0;
	return 0;
}

FAKE int cuCtxPushCurrent_v2(void *context)
{
	if (context != &entered)
		return 201;
	entered++;
	return 0;
}

FAKE int cuCtxPopCurrent_v2(void **context)
{
	*context = &entered;
	entered--;
	return 0;
}

FAKE int cuMemHostRegister_v2(void *at, size_t length, unsigned flags)
{
	unsigned wanted = GPUS_PIN_PORTABLE | GPUS_PIN_MAPPED | GPUS_PIN_IO;

	if (at != registers || length != 4096 || flags != wanted || entered != 1)
		return 1;
	if (refuses("registers"))
		return NOT_PERMITTED;
	open_objects++;
	return 0;
}

FAKE int cuMemHostUnregister(void *at)
{
	open_objects -= at == registers;
	return 0;
}

FAKE int cuMemAlloc_v2(uint64_t *address, size_t length)
{
	if (refuses("memory") || entered != 1 || !length)
		return 2;
	open_objects++;
	*address = (uintptr_t)page_of_gpu;
	return 0;
}

FAKE int cuMemFree_v2(uint64_t address)
{
	open_objects -= address == (uintptr_t)page_of_gpu && entered == 1;
	return 0;
}

FAKE int cuMemGetHandleForAddressRange(int *fd, uint64_t address, size_t length, int kind,
				       unsigned long long flags)
{
	if (refuses("export") || kind != GPUS_RANGE_DMABUF || flags || !length || !address)
		return 801;
	*fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return 0;
}
