/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements sys/nics.h: queries each RDMA NIC, and tries registrations, DEVX commands, a doorbell
 * mapping and a umem in GPU memory. Every object of a trial is freed again.
 */
#include "sys/nics.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/gpus.h"
#include "sys/library.h"
#include "sys/nics_abi.h"

#define NICS_GPU_PAGE 65536u

static struct {
	void **(*list)(int *);
	void (*free_list)(void **);
	const char *(*name)(void *);
	void *(*open)(void *);
	int (*close)(void *);
	int (*device)(void *, struct nics_device *);
	int (*port)(void *, uint8_t, struct nics_port *);
	void *(*alloc_pd)(void *);
	int (*free_pd)(void *);
	void *(*reg)(void *, void *, size_t, int);
	int (*dereg)(void *);
	void *(*reg_dmabuf)(void *, uint64_t, size_t, uint64_t, int, int);
	bool is_loaded;
} verbs;

static struct {
	bool (*is_ours)(void *);
	void *(*open)(void *, struct nics_open *);
	int (*eqn)(void *, uint32_t, uint32_t *);
	struct nics_uar *(*alloc_uar)(void *, uint32_t);
	void (*free_uar)(struct nics_uar *);
	void *(*reg_umem)(void *, struct nics_umem *);
	int (*dereg_umem)(void *);
	bool is_loaded;
} mlx5;

static const struct ori_library_call verbs_calls[] = {
	{"ibv_get_device_list", &verbs.list, true},
	{"ibv_free_device_list", &verbs.free_list, true},
	{"ibv_get_device_name", &verbs.name, true},
	{"ibv_open_device", &verbs.open, true},
	{"ibv_close_device", &verbs.close, true},
	{"ibv_query_device", &verbs.device, true},
	{"ibv_query_port", &verbs.port, true},
	{"ibv_alloc_pd", &verbs.alloc_pd, true},
	{"ibv_dealloc_pd", &verbs.free_pd, true},
	{"ibv_reg_mr", &verbs.reg, true},
	{"ibv_dereg_mr", &verbs.dereg, true},
	{"ibv_reg_dmabuf_mr", &verbs.reg_dmabuf, false},
};

static const struct ori_library_call mlx5_calls[] = {
	{"mlx5dv_is_supported", &mlx5.is_ours, true},
	{"mlx5dv_open_device", &mlx5.open, true},
	{"mlx5dv_devx_query_eqn", &mlx5.eqn, true},
	{"mlx5dv_devx_alloc_uar", &mlx5.alloc_uar, true},
	{"mlx5dv_devx_free_uar", &mlx5.free_uar, true},
	{"mlx5dv_devx_umem_reg_ex", &mlx5.reg_umem, false},
	{"mlx5dv_devx_umem_dereg", &mlx5.dereg_umem, false},
};

static void nics_load(void)
{
	verbs.is_loaded = ori_library_load("libibverbs.so.1", verbs_calls,
					   sizeof(verbs_calls) / sizeof(verbs_calls[0]));
	mlx5.is_loaded = ori_library_load("libmlx5.so.1", mlx5_calls,
					  sizeof(mlx5_calls) / sizeof(mlx5_calls[0]));
}

static int nic_try_pin(void *pd)
{
	long page = sysconf(_SC_PAGESIZE);
	void *at = aligned_alloc((size_t)page, (size_t)page);
	void *mr = at ? verbs.reg(pd, at, (size_t)page, NICS_LOCAL_WRITE) : NULL;

	if (mr)
		verbs.dereg(mr);
	free(at);
	return mr != NULL;
}

/*
 * Descriptor -1 is invalid: a kernel that supports dma-bufs answers EBADF, any other kernel fails
 * before it reads the descriptor.
 */
static int nic_try_dmabuf(void *pd)
{
	void *mr;

	if (!verbs.reg_dmabuf)
		return 0;
	errno = 0;
	mr = verbs.reg_dmabuf(pd, 0, 4096, 0, -1, NICS_LOCAL_WRITE);
	if (mr) {
		verbs.dereg(mr);
		return 1;
	}
	if (errno == EBADF)
		return 1;
	return errno == EOPNOTSUPP || errno == EPROTONOSUPPORT ? 0 : -1;
}

static void nic_query(void *context, struct ori_nics_item *nic)
{
	struct nics_device device;
	struct nics_port port;
	void *pd;

	memset(&device, 0, sizeof(device));
	memset(&port, 0, sizeof(port));
	if (verbs.device(context, &device) == 0)
		nic->atomics = device.atomic_cap > 0;
	/* The enum counts from 1, 256 bytes, to 5, 4096 bytes. */
	if (verbs.port(context, 1, &port) == 0 && port.active_mtu >= 1 && port.active_mtu <= 5)
		nic->mtu = 128 << port.active_mtu;
	pd = verbs.alloc_pd(context);
	if (!pd)
		return;
	nic->pins = nic_try_pin(pd);
	nic->dmabuf = nic_try_dmabuf(pd);
	verbs.free_pd(pd);
}

static int nic_try_doorbell(void *context)
{
	struct nics_uar *uar = mlx5.alloc_uar(context, NICS_UAR_NC);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int is_mapped;

	if (!uar)
		return -1;
	is_mapped = ori_gpus_try_registers((void *)((uintptr_t)uar->base_addr / page * page), page);
	mlx5.free_uar(uar);
	return is_mapped;
}

static bool nic_try_umem_by(void *context, struct nics_umem *in)
{
	void *umem = mlx5.reg_umem(context, in);

	if (umem)
		mlx5.dereg_umem(umem);
	return umem != NULL;
}

/* Tries a dma-buf first, then the address, which needs nvidia_peermem. */
static int nic_try_umem(void *context)
{
	struct nics_umem in = {.length = NICS_GPU_PAGE,
			       .access = NICS_LOCAL_WRITE,
			       .page_sizes = UINT64_MAX};
	struct ori_gpus_memory memory;
	bool is_taken = false;

	if (!mlx5.reg_umem || !mlx5.dereg_umem || !ori_gpus_alloc(NICS_GPU_PAGE, &memory))
		return -1;
	if (memory.dmabuf >= 0) {
		in.mask = NICS_UMEM_DMABUF;
		in.dmabuf = memory.dmabuf;
		is_taken = nic_try_umem_by(context, &in);
	}
	if (!is_taken) {
		in.mask = 0;
		in.at = (void *)(uintptr_t)memory.address;
		is_taken = nic_try_umem_by(context, &in);
	}
	ori_gpus_free(&memory);
	return is_taken;
}

/* A trial command, because DEVX can be compiled in and still be forbidden to this process. */
static void nic_query_mlx5(void *device, struct ori_nics_item *nic)
{
	struct nics_open how = {.flags = NICS_DEVX};
	void *context;
	uint32_t eqn;

	if (!mlx5.is_loaded || !mlx5.is_ours(device))
		return;
	context = mlx5.open(device, &how);
	nic->devx = context && mlx5.eqn(context, 0, &eqn) == 0;
	if (nic->devx) {
		nic->doorbell = nic_try_doorbell(context);
		nic->umem = nic_try_umem(context);
	}
	if (context)
		verbs.close(context);
}

static void nic_query_device(void *device, struct ori_nics_item *nic)
{
	void *context = verbs.open(device);

	*nic = (struct ori_nics_item){.mtu = -1,
				      .opens = context != NULL,
				      .pins = -1,
				      .atomics = -1,
				      .dmabuf = -1,
				      .devx = -1,
				      .doorbell = -1,
				      .umem = -1};
	snprintf(nic->name, sizeof(nic->name), "%s", verbs.name(device));
	if (!context)
		return;
	nic_query(context, nic);
	verbs.close(context);
	nic_query_mlx5(device, nic);
}

void ori_nics_query(struct ori_nics *nics)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void **devices;
	int count = 0;

	pthread_once(&once, nics_load);
	memset(nics, 0, sizeof(*nics));
	nics->has_verbs = verbs.is_loaded;
	nics->has_mlx5 = mlx5.is_loaded;
	devices = verbs.is_loaded ? verbs.list(&count) : NULL;
	if (!devices)
		return;
	for (int i = 0; i < count && nics->count < ORI_NICS_MOST; i++)
		nic_query_device(devices[i], &nics->item[nics->count++]);
	verbs.free_list(devices);
}
