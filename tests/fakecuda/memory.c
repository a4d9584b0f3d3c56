/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the fake driver. An allocation is a file; the page behind it identifies it. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fakecuda.h"

#define GRANULE 65536u
#define TAIL 4096u
#define RUBBISH 0xee /* the content of fresh memory */

struct file {
	unsigned refs;
	int fd;
	size_t length;
	int physical;
	unsigned types; /* handle types of the allocation; for memory of another process, the
			 * type that imported it */
};

enum kind { FREE, RESERVED, MAPPED, LEGACY, OPENED, PINNED };

/* The attributes of a range of addresses. Mappings lie inside reservations. */
struct range {
	enum kind kind;
	char *at;
	size_t length;
	struct file *file;
	unsigned long long id; /* unique: no other range ever has it */
	unsigned opens;
	bool is_managed;
	bool is_synced;
	unsigned open_to; /* mask of physical GPUs */
	uint8_t handle[CU_IPC_HANDLE_SIZE];
	struct range *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* guarded by @lock, as are the files */

static struct range *range_add(enum kind kind, void *at, size_t length, struct file *file)
{
	static unsigned long long last;
	struct range *r = calloc(1, sizeof(*r));

	*r = (struct range){
		.kind = kind, .at = at, .length = length, .file = file, .id = ++last, .opens = 1};
	r->next = ranges;
	ranges = r;
	fake_count(1);
	return r;
}

static void range_remove(struct range *r)
{
	struct range **link = &ranges;

	while (*link != r)
		link = &(*link)->next;
	*link = r->next;
	free(r);
	fake_count(-1);
}

/* Find the range that @address lies in, of the kinds in the mask @kinds. */
static struct range *range_of(const void *address, unsigned kinds)
{
	struct range *r;

	for (r = ranges; r; r = r->next)
		if (kinds >> r->kind & 1 && (uintptr_t)address - (uintptr_t)r->at < r->length)
			return r;
	return NULL;
}

#define DEVICE_KINDS (1u << MAPPED | 1u << LEGACY | 1u << OPENED)

static struct file *file_take(int fd, unsigned types)
{
	struct file *f = calloc(1, sizeof(*f));
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_size <= TAIL ||
	    pread(fd, &f->physical, sizeof(int), st.st_size - TAIL) != sizeof(int)) {
		free(f);
		return NULL;
	}
	f->refs = 1;
	f->fd = fd;
	f->length = (size_t)st.st_size - TAIL;
	f->types = types;
	fake_count(1);
	return f;
}

static struct file *file_make(size_t length, int physical, unsigned types)
{
	int fd = memfd_create("fakecuda", MFD_CLOEXEC);
	char rubbish[16 * TAIL];
	size_t at, part;

	memset(rubbish, RUBBISH, sizeof(rubbish));
	if (fd < 0 || ftruncate(fd, (off_t)(length + TAIL)) != 0 ||
	    pwrite(fd, &physical, sizeof(physical), (off_t)length) != sizeof(physical))
		abort();
	for (at = 0; at < length; at += part) {
		part = length - at < sizeof(rubbish) ? length - at : sizeof(rubbish);
		if (pwrite(fd, rubbish, part, (off_t)at) != (ssize_t)part)
			abort();
	}
	return file_take(fd, types);
}

static void file_drop(struct file *f)
{
	if (--f->refs)
		return;
	close(f->fd);
	free(f);
	fake_count(-1);
}

CUresult cuMemGetAllocationGranularity(size_t *granule, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	(void)option;
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	*granule = GRANULE;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t length,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (flags || length == 0 || length % GRANULE || fake_fails("cuMemCreate"))
		return length > 1ull << 40 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC &&
	    (!getenv("FAKECUDA_FABRIC") || !fake_number("FAKECUDA_IMEX", 1)))
		return CUDA_ERROR_NOT_PERMITTED;
	fake_wait_device(prop->location.id);
	pthread_mutex_lock(&lock);
	*handle = (uintptr_t)file_make(length, fake_physical(prop->location.id),
				       prop->requestedHandleTypes);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	pthread_mutex_lock(&lock);
	file_drop((struct file *)(uintptr_t)handle);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t length, size_t alignment, CUdeviceptr hint,
			     unsigned long long flags)
{
	void *room;

	if (alignment || hint || flags || length % GRANULE || fake_fails("cuMemAddressReserve"))
		return CUDA_ERROR_INVALID_VALUE;
	room = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	range_add(RESERVED, room, length, NULL);
	pthread_mutex_unlock(&lock);
	*at = (uintptr_t)room;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t length)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of((void *)at, 1u << RESERVED);
	if (r && (uintptr_t)r->at == at && r->length == length) {
		munmap(r->at, length);
		range_remove(r);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemMap(CUdeviceptr at, size_t length, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct file *f = (struct file *)(uintptr_t)handle;
	struct range *r;

	if (offset || flags || length % GRANULE || length > f->length || fake_fails("cuMemMap"))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	r = range_of((void *)at, 1u << RESERVED);
	if (!r || at + length > (uintptr_t)r->at + r->length ||
	    mmap((void *)at, length, PROT_NONE, MAP_SHARED | MAP_FIXED, f->fd, 0) == MAP_FAILED) {
		pthread_mutex_unlock(&lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	f->refs++;
	range_add(MAPPED, (void *)at, length, f);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* Call @use for the mappings that are exactly [@at, @at + @length). */
static CUresult each_mapping(CUdeviceptr at, size_t length,
			     CUresult (*use)(struct range *r, int device), int device)
{
	CUdeviceptr end = at + length;
	CUresult result = CUDA_SUCCESS;

	while (at < end && result == CUDA_SUCCESS) {
		struct range *r = range_of((void *)at, 1u << MAPPED);
		size_t part = r ? r->length : 0;

		if (!r || (uintptr_t)r->at != at || at + part > end)
			return CUDA_ERROR_INVALID_VALUE;
		result = use(r, device);
		at += part;
	}
	return result;
}

static CUresult mapping_remove(struct range *r, int device)
{
	(void)device;
	fake_show(r->at, r->length);
	if (mmap(r->at, r->length, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	file_drop(r->file);
	range_remove(r);
	return CUDA_SUCCESS;
}

static CUresult mapping_open(struct range *r, int device)
{
	if (r->file->types != CU_MEM_HANDLE_TYPE_FABRIC &&
	    !fake_reaches(fake_physical(device), r->file->physical))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	r->open_to |= 1u << fake_physical(device);
	fake_hide(r->at, r->length);
	return mprotect(r->at, r->length, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
								       : CUDA_ERROR_UNKNOWN;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t length)
{
	CUresult result;

	for (int device = 0; device < FAKE_DEVICES; device++)
		fake_wait_device(device);
	pthread_mutex_lock(&lock);
	result = each_mapping(at, length, mapping_remove, 0);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t length, const CUmemAccessDesc *access, size_t count)
{
	CUresult result;

	if (count != 1 || fake_fails("cuMemSetAccess"))
		return CUDA_ERROR_INVALID_VALUE;
	fake_wait_device(access->location.id);
	pthread_mutex_lock(&lock);
	result = each_mapping(at, length, mapping_open, access->location.id);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *at)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of(at, 1u << MAPPED);
	if (r) {
		r->file->refs++;
		*handle = (uintptr_t)r->file;
	}
	pthread_mutex_unlock(&lock);
	return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	const struct file *f = (const struct file *)(uintptr_t)handle;

	memset(prop, 0, sizeof(*prop));
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->requestedHandleTypes = f->types;
	prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop->location.id = fake_visible(f->physical);
	return CUDA_SUCCESS;
}

/* A fabric handle: it can be opened where the same daemon runs, as long as its maker lives. */
struct fabric {
	int pid, fd, domain;
};

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	struct file *f = (struct file *)(uintptr_t)handle;
	struct fabric fabric = {(int)getpid(), f->fd, fake_number("FAKECUDA_IMEX", 1)};

	if (flags || !(f->types & type) || fake_fails("cuMemExportToShareableHandle"))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		memset(out, 0, sizeof(CUmemFabricHandle));
		memcpy(out, &fabric, sizeof(fabric));
	} else {
		*(int *)out = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	}
	return CUDA_SUCCESS;
}

/* Export the beginning of an allocation, if FAKECUDA_DMABUF is 1: any file can be mapped. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr at, size_t length,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	struct range *r;
	int fd = -1;

	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || at % TAIL || length % TAIL ||
	    !fake_number("FAKECUDA_DMABUF", 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&lock);
	r = range_of((const void *)(uintptr_t)at, 1u << MAPPED);
	if (r && (uintptr_t)r->at == at && length <= r->length)
		fd = fcntl(r->file->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&lock);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}

static int fabric_open(const void *handle)
{
	struct fabric fabric;
	char name[64];

	memcpy(&fabric, handle, sizeof(fabric));
	if (fabric.domain != fake_number("FAKECUDA_IMEX", 1))
		return -1;
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", fabric.pid, fabric.fd);
	return open(name, O_RDWR | O_CLOEXEC);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
					CUmemAllocationHandleType type)
{
	struct file *f = NULL;
	int fd;

	if (fake_fails("cuMemImportFromShareableHandle"))
		return CUDA_ERROR_INVALID_VALUE;
	fd = type == CU_MEM_HANDLE_TYPE_FABRIC
		     ? fabric_open(os_handle)
		     : fcntl((int)(uintptr_t)os_handle, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0) {
		pthread_mutex_lock(&lock);
		f = file_take(fd, type);
		pthread_mutex_unlock(&lock);
	}
	if (!f) {
		close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*handle = (uintptr_t)f;
	return CUDA_SUCCESS;
}

static CUresult legacy_map(struct file *f, enum kind kind, CUdeviceptr *at)
{
	void *base = mmap(NULL, f->length, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);

	if (base == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range_add(kind, base, f->length, f)->open_to = 1u << fake_physical(fake_current());
	fake_hide(base, f->length);
	*at = (uintptr_t)base;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *at, size_t length)
{
	CUresult result;

	if (fake_current() < 0 || length == 0)
		return CUDA_ERROR_INVALID_VALUE;
	fake_wait_device(fake_current());
	pthread_mutex_lock(&lock);
	result = legacy_map(file_make((length + TAIL - 1) / TAIL * TAIL,
				      fake_physical(fake_current()), 0),
			    LEGACY, at);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *at, size_t length, unsigned flags)
{
	CUresult result = flags ? cuMemAlloc(at, length) : CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	if (result == CUDA_SUCCESS) {
		range_of((void *)*at, 1u << LEGACY)->is_managed = true;
		fake_show((void *)*at, length);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult legacy_unmap(CUdeviceptr at, enum kind kind)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of((void *)at, 1u << kind);
	if (r && (uintptr_t)r->at == at && --r->opens == 0) {
		fake_show(r->at, r->length);
		munmap(r->at, r->length);
		file_drop(r->file);
		range_remove(r);
	}
	pthread_mutex_unlock(&lock);
	return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree(CUdeviceptr at)
{
	fake_wait_device(fake_current());
	return legacy_unmap(at, LEGACY);
}

/*
 * The file of another process is found by its number, as long as that process lives. Files that
 * had one number in turn are distinguished by their inode.
 */
struct ipc {
	int pid, fd;
	uint64_t inode;
};

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at)
{
	struct ipc ipc = {(int)getpid(), -1, 0};
	struct range *r;
	struct stat st;

	pthread_mutex_lock(&lock);
	r = range_of((void *)at, 1u << LEGACY);
	if (r)
		ipc.fd = r->file->fd;
	pthread_mutex_unlock(&lock);
	if (!r || fstat(ipc.fd, &st) != 0 || fake_fails("cuIpcGetMemHandle"))
		return CUDA_ERROR_INVALID_VALUE;
	ipc.inode = st.st_ino;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return CUDA_SUCCESS;
}

static CUresult ipc_open(CUipcMemHandle handle, CUdeviceptr *at)
{
	CUresult result;
	struct range *r;
	struct file *f;
	struct ipc ipc;
	char name[64];
	int fd;

	for (r = ranges; r; r = r->next)
		if (r->kind == OPENED && memcmp(r->handle, &handle, sizeof(handle)) == 0) {
			r->opens++;
			*at = (uintptr_t)r->at;
			return CUDA_SUCCESS;
		}
	memcpy(&ipc, &handle, sizeof(ipc));
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
	fd = open(name, O_RDWR | O_CLOEXEC);
	f = fd < 0 ? NULL : file_take(fd, 0);
	if (!f)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_reaches(f->physical, fake_physical(fake_current()))) {
		file_drop(f);
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	}
	result = legacy_map(f, OPENED, at);
	memcpy(ranges->handle, &handle, sizeof(handle));
	return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *at, CUipcMemHandle handle, unsigned flags)
{
	struct ipc ipc;
	CUresult result;

	memcpy(&ipc, &handle, sizeof(ipc));
	/* The real driver does not open a handle in the process that made it. */
	if (ipc.pid == (int)getpid() || !flags || fake_fails("cuIpcOpenMemHandle"))
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_wait_device(fake_current());
	pthread_mutex_lock(&lock);
	result = ipc_open(handle, at);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
	fake_wait_device(fake_current());
	return legacy_unmap(at, OPENED);
}

/* The real driver does not know memory that the current context does not reach by itself. */
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *length, CUdeviceptr at)
{
	struct range *r;

	if (fake_current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	r = range_of((void *)at, DEVICE_KINDS);
	if (r && !(r->open_to >> fake_physical(fake_current()) & 1))
		r = NULL;
	if (r) {
		*base = (uintptr_t)r->at;
		*length = r->length;
	}
	pthread_mutex_unlock(&lock);
	return r ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult attribute_of(const struct range *r, CUpointer_attribute attribute, void *data)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(CUmemorytype *)data =
			r->kind == PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned char *)data = r->is_managed;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned char *)data = r->kind == LEGACY;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = r->file ? fake_visible(r->file->physical) : fake_current();
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = r->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned char *)data = r->is_synced;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		if (r->kind == MAPPED)
			return CUDA_ERROR_INVALID_VALUE;
		return cuDevicePrimaryCtxRetain(data, r->file ? fake_visible(r->file->physical)
							      : fake_current());
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr at)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of((void *)at, DEVICE_KINDS | 1u << PINNED);
	if (r)
		result = attribute_of(r, attribute, data);
	pthread_mutex_unlock(&lock);
	return result;
}

/* An unknown address leaves the outputs alone, which is no failure. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr at)
{
	CUresult result = CUDA_SUCCESS;
	struct range *r;
	unsigned i;

	pthread_mutex_lock(&lock);
	r = range_of((void *)at, DEVICE_KINDS | 1u << PINNED);
	for (i = 0; i < count && result == CUDA_SUCCESS; i++) {
		/*
		 * The real driver has defaults of its own for each attribute; these are those of
		 * 4 bytes.
		 */
		if (r)
			result = attribute_of(r, attributes[i], data[i]);
		else
			memset(data[i], 0, 4);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuPointerSetAttribute(const void *data, CUpointer_attribute attribute, CUdeviceptr at)
{
	struct range *r;

	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&lock);
	r = range_of((void *)at, DEVICE_KINDS);
	if (r)
		r->is_synced = *(const unsigned *)data != 0;
	pthread_mutex_unlock(&lock);
	return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void *at, size_t length, unsigned flags)
{
	struct range *r;
	bool overlaps = false;

	if (!(flags & CU_MEMHOSTREGISTER_DEVICEMAP) || length == 0 ||
	    fake_fails("cuMemHostRegister"))
		return CUDA_ERROR_INVALID_VALUE;
	fake_wait_device(fake_current());
	pthread_mutex_lock(&lock);
	for (r = ranges; r; r = r->next)
		overlaps |= r->kind == PINNED && (char *)at < r->at + r->length &&
			    r->at < (char *)at + length;
	if (!overlaps)
		range_add(PINNED, at, length, NULL);
	pthread_mutex_unlock(&lock);
	return overlaps ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *at)
{
	struct range *r;

	fake_wait_device(fake_current());
	pthread_mutex_lock(&lock);
	r = range_of(at, 1u << PINNED);
	if (r && r->at == at)
		range_remove(r);
	pthread_mutex_unlock(&lock);
	return r ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *at, void *host, unsigned flags)
{
	(void)flags;
	*at = (uintptr_t)host;
	return CUDA_SUCCESS;
}

bool fakecuda_reaches(int device, const void *address)
{
	int physical = fake_physical(device);
	bool reaches = false;
	struct range *r;

	pthread_mutex_lock(&lock);
	r = range_of(address, DEVICE_KINDS | 1u << PINNED);
	if (r)
		reaches = r->kind == PINNED || r->open_to >> physical & 1 ||
			  (r->kind == LEGACY && fake_is_peer(r->file->physical, physical));
	pthread_mutex_unlock(&lock);
	return reaches;
}
