/* SPDX-License-Identifier: Apache-2.0 */
/* HCAs, their ports, how ports find each other, and memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory_probe.h"
#include "objects.h"

#undef ibv_query_port
#undef ibv_reg_mr

#define DEVICES (sizeof(devices) / sizeof(devices[0]))
#define WORDS_MAX 256u
#define IDS 4000u

pthread_mutex_t fake5_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake5_counters fake5_count;

static struct fake5_device devices[] = {
	{.base = {.name = "other0"}, .is_ethernet = true, .mtu = 4096},
	{.base = {.name = "mlx5_0"}, .is_mlx5 = true, .is_ethernet = true, .mtu = 4096},
	{.base = {.name = "mlx5_1"}, .is_mlx5 = true, .is_ethernet = true, .mtu = 1024},
	{.base = {.name = "mlx5_2"}, .is_mlx5 = true, .mtu = 2048},
	{.base = {.name = "mlx5_3"}, .is_mlx5 = true, .mtu = 4096, .demands_grh = true},
	{.base = {.name = "mlx5_4"}, .is_mlx5 = true, .mtu = 4096, .subnet = 1},
};

static char words[WORDS_MAX]; /* as fake5_without() has set them */
static bool has_words;
static int left;

static struct {
	char call[64];
	unsigned after;
	int error;
} failure;

struct fake5_mr {
	struct ibv_mr base;
	struct ori_hca_mr *soft;
	struct fake5_device *device;
	void *mapped;
};

void fake5_left_add(int change)
{
	left += change;
}

int fake5_left(void)
{
	int found;

	pthread_mutex_lock(&fake5_lock);
	found = left;
	pthread_mutex_unlock(&fake5_lock);
	return found;
}

struct fake5_counters fake5_counters(void)
{
	struct fake5_counters found;

	pthread_mutex_lock(&fake5_lock);
	found = fake5_count;
	pthread_mutex_unlock(&fake5_lock);
	return found;
}

void fake5_without(const char *list)
{
	snprintf(words, sizeof(words), "%s", list);
	has_words = true;
}

bool fake5_lacks(const char *word)
{
	const char *list = has_words ? words : getenv("FAKEMLX5_WITHOUT");
	size_t length = strlen(word), part;

	for (; list && *list; list += part + (list[part] == ',')) {
		part = strcspn(list, ",");
		if (part == length && strncmp(list, word, length) == 0)
			return true;
	}
	return false;
}

void fake5_fail(const char *call, unsigned after, int error)
{
	pthread_mutex_lock(&fake5_lock);
	snprintf(failure.call, sizeof(failure.call), "%s", call);
	failure.after = after;
	failure.error = error;
	pthread_mutex_unlock(&fake5_lock);
}

int fake5_failure(const char *call)
{
	int error = 0;

	if (strcmp(call, failure.call) == 0 && failure.after-- == 0) {
		error = failure.error;
		failure.call[0] = '\0';
	}
	return error;
}

static int device_failure(const char *call)
{
	int error;

	pthread_mutex_lock(&fake5_lock);
	error = fake5_failure(call);
	pthread_mutex_unlock(&fake5_lock);
	return error;
}

const struct ori_hca_ops *fake5_soft(void)
{
	return &ori_hca_soft_ops;
}

struct fake5_context *fake5_context_of(const struct ibv_context *context)
{
	return (struct fake5_context *)(uintptr_t)((const char *)context -
						   offsetof(struct fake5_context, base.context));
}

static struct fake5_device *device_of(const struct ibv_context *context)
{
	return fake5_context_of(context)->device;
}

/*
 * Index 0: RoCE v1. 1: link-local. 2: the one to use. On InfiniBand 0 is that of the port, and 1
 * names the router to its subnet (NCCL, ncclIbExtractFlid()).
 */
void fake5_gid(const struct fake5_device *d, unsigned index, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (!d->is_ethernet) {
		gid[0] = 0xfe, gid[1] = index == 1 ? 0xc0 : 0x80;
		gid[4] = index == 1 ? FAKE5_FLID >> 8 : 0;
		gid[5] = index == 1 ? d->subnet : 0;
		gid[7] = d->subnet;
	} else if (index == 1) {
		gid[0] = 0xfe, gid[1] = 0x80;
	} else {
		gid[10] = gid[11] = 0xff;
		gid[12] = index == 0 ? 9 : 10;
	}
	gid[14] = (uint8_t)(d->id >> 8);
	gid[15] = (uint8_t)d->id;
}

static void record_path(uint32_t id, char path[512])
{
	snprintf(path, 512, "%.400s/%04x", getenv("FAKEMLX5_DIR"), id);
}

/* No other process has this id. */
static uint32_t record_take_id(void)
{
	static uint32_t next;
	char path[512];

	if (!getenv("FAKEMLX5_DIR"))
		return ++next;
	for (uint32_t id = 1; id < IDS; id++) {
		int fd;

		record_path(id, path);
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			continue;
		close(fd);
		return id;
	}
	abort();
}

static void record_publish(struct fake5_device *d)
{
	char path[512], temporary[520];
	FILE *file;

	d->record = (struct fake5_record){.lid = (uint16_t)(d->is_ethernet ? 0 : d->id),
					  .mtu = d->mtu,
					  .is_ethernet = d->is_ethernet};
	fake5_soft()->describe(d->soft, &d->record.soft);
	fake5_gid(d, d->is_ethernet ? 2 : 1, d->record.gid);
	memcpy(d->record.mac, (uint8_t[6]){0x02, 0xfa, 0x4e, 0x55, d->id >> 8, d->id}, 6);
	if (!getenv("FAKEMLX5_DIR"))
		return;
	record_path(d->id, path);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	file = fopen(temporary, "we");
	if (!file || fwrite(&d->record, sizeof(d->record), 1, file) != 1 || fclose(file) != 0 ||
	    rename(temporary, path) != 0)
		abort();
}

/* The id of an HCA says where its record is. */
static bool record_find(uint32_t id, struct fake5_record *record)
{
	char path[512];
	bool is_found;
	FILE *file;

	for (size_t i = 0; i < DEVICES; i++)
		if (devices[i].soft && devices[i].id == id) {
			*record = devices[i].record;
			return true;
		}
	if (!getenv("FAKEMLX5_DIR"))
		return false;
	record_path(id, path);
	file = fopen(path, "re");
	if (!file)
		return false;
	is_found = fread(record, sizeof(*record), 1, file) == 1;
	fclose(file);
	return is_found;
}

bool fake5_find_gid(const uint8_t gid[16], struct fake5_record *record)
{
	return record_find((uint32_t)gid[14] << 8 | gid[15], record) &&
	       memcmp(record->gid, gid, 16) == 0;
}

bool fake5_find_lid(uint16_t lid, struct fake5_record *record)
{
	return record_find(lid, record) && record->lid == lid;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(DEVICES + 1, sizeof(*list));

	for (size_t i = 0; i < DEVICES && list; i++) {
		list[i] = &devices[i].base;
		snprintf(devices[i].base.ibdev_path, sizeof(devices[i].base.ibdev_path),
			 "/nowhere/%.20s", devices[i].base.name);
	}
	if (count)
		*count = (int)DEVICES;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return ((struct fake5_device *)device)->is_mlx5;
}

static int device_start(struct fake5_device *d)
{
	if (d->contexts++ > 0)
		return 0;
	if (fake5_soft()->open(getenv("FAKEMLX5_SOFT"), 0, &d->soft) != ORIEL_OK) {
		d->contexts--;
		return EIO;
	}
	if (!d->id)
		d->id = record_take_id();
	record_publish(d);
	return 0;
}

static struct ibv_context *device_open(struct ibv_device *device, bool has_devx)
{
	static uint32_t pdns;
	struct fake5_context *c = calloc(1, sizeof(*c));
	int fds[2];

	if (!c || pipe2(fds, O_CLOEXEC) != 0) {
		free(c);
		return NULL;
	}
	c->device = (struct fake5_device *)device;
	c->has_devx = has_devx;
	c->event_fd = fds[1];
	c->base.sz = sizeof(c->base);
	c->base.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->base.context.device = device;
	c->base.context.async_fd = fds[0];
	c->base.context.ops.post_send = fake5_post_send;
	c->base.context.ops.post_recv = fake5_post_recv;
	c->base.context.ops.poll_cq = fake5_poll_cq;
	pthread_mutex_lock(&fake5_lock);
	c->pdn = 0x100 + ++pdns;
	errno = fake5_failure("open_device");
	if (!errno)
		errno = device_start(c->device);
	if (!errno)
		fake5_left_add(1);
	pthread_mutex_unlock(&fake5_lock);
	if (!errno) {
		fake5_bells_start();
		return &c->base.context;
	}
	close(fds[0]);
	close(fds[1]);
	free(c);
	return NULL;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return device_open(device, false);
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	if (fake5_lacks("devx") || attr->flags != MLX5DV_CONTEXT_FLAGS_DEVX) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return device_open(device, true);
}

int ibv_close_device(struct ibv_context *context)
{
	struct fake5_context *c = fake5_context_of(context);
	struct fake5_device *d = c->device;

	fake5_bells_stop();
	pthread_mutex_lock(&fake5_lock);
	if (c->singleton)
		fake5_uar_close(c->singleton);
	if (--d->contexts == 0) {
		fake5_doorbells_forget(d);
		fake5_soft()->close(d->soft);
		d->soft = NULL;
	}
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
	close(context->async_fd);
	close(c->event_fd);
	free(c);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){
		.max_qp = 1000,
		.max_qp_wr = 32768,
		.max_sge = 4,
		.max_cq = 1000,
		.max_cqe = 65536,
		.max_mr = 1000,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA,
		.phys_port_cnt = 1,
	};
	return device_failure("query_device");
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)compat;
	const struct fake5_device *d = device_of(context);

	if (port != 1)
		return EINVAL;
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = (enum ibv_mtu)(__builtin_ctz(d->mtu) - 7);
	attr->gid_tbl_len = FAKE5_GIDS;
	attr->max_msg_sz = 1u << 30;
	attr->lid = d->record.lid;
	attr->link_layer = d->is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	attr->flags = d->demands_grh ? FAKE5_GRH_REQUIRED : 0;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index < 0 || index >= FAKE5_GIDS) {
		errno = EINVAL;
		return -1;
	}
	fake5_gid(device_of(context), (unsigned)index, gid->raw);
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	(void)flags, (void)port;
	if (index >= FAKE5_GIDS || size != sizeof(*entry))
		return EINVAL;
	memset(entry, 0, sizeof(*entry));
	fake5_gid(device_of(context), index, entry->gid.raw);
	entry->gid_index = index;
	entry->gid_type = index ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
	return 0;
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR ? "CQ error" : "an event of the fake";
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "a failure of the fake";
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	errno = device_failure("alloc_pd");
	if (errno)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	pd->context = context;
	pd->handle = fake5_context_of(context)->pdn;
	pthread_mutex_lock(&fake5_lock);
	fake5_left_add(1);
	pthread_mutex_unlock(&fake5_lock);
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	pthread_mutex_lock(&fake5_lock);
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}

static unsigned memory_access(unsigned access)
{
	return (access & IBV_ACCESS_LOCAL_WRITE ? (unsigned)ORI_HCA_LOCAL_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_WRITE ? (unsigned)ORI_HCA_REMOTE_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_READ ? (unsigned)ORI_HCA_REMOTE_READ : 0) |
	       (access & IBV_ACCESS_REMOTE_ATOMIC ? (unsigned)ORI_HCA_REMOTE_ATOMIC : 0) |
	       (access & IBV_ACCESS_ON_DEMAND ? (unsigned)ORI_HCA_ANY_MEMORY : 0);
}

static struct ibv_mr *memory_register(struct ibv_pd *pd, void *address, size_t length,
				      uint64_t iova, unsigned access, void *mapped)
{
	struct fake5_mr *mr = calloc(1, sizeof(*mr));
	struct ori_hca_keys keys;

	mr->device = device_of(pd->context);
	mr->mapped = mapped;
	if (fake5_soft()->register_memory(mr->device->soft, address, length, iova,
					  memory_access(access), &mr->soft, &keys) != ORIEL_OK) {
		free(mr);
		errno = EINVAL;
		return NULL;
	}
	mr->base = (struct ibv_mr){.context = pd->context,
				   .pd = pd,
				   .addr = address,
				   .length = length,
				   .lkey = keys.lkey,
				   .rkey = keys.rkey};
	pthread_mutex_lock(&fake5_lock);
	fake5_left_add(1);
	if (access & IBV_ACCESS_ON_DEMAND)
		fake5_demand_add(keys.lkey);
	pthread_mutex_unlock(&fake5_lock);
	return &mr->base;
}

/*
 * Linux pins every page, for writing if the NIC may write it (drivers/infiniband/core/umem.c,
 * ib_umem_get()): a page without that permission is EFAULT.
 */
static bool memory_can_be_pinned(void *address, size_t length, unsigned access)
{
	if (access & IBV_ACCESS_LOCAL_WRITE && !ori_probe_looks_writable(address, length))
		return false;
	return ori_probe_may_read(address, length);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				unsigned access)
{
	bool is_remote = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	int error = device_failure("reg_mr");

	/* The kernel has the same checks. */
	if (!error && (((uintptr_t)address ^ iova) % FAKE5_PAGE ||
		       (is_remote && !(access & IBV_ACCESS_LOCAL_WRITE))))
		error = EINVAL;
	if (!error && !memory_can_be_pinned(address, length, access))
		error = EFAULT;
	errno = error;
	return error ? NULL : memory_register(pd, address, length, iova, access, NULL);
}

/* All memory, on demand: x86 and others can have that, except for page 0. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	if (!(access & IBV_ACCESS_ON_DEMAND))
		return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned)access);
	if (address || length != SIZE_MAX || fake5_lacks("odp")) {
		errno = EINVAL;
		return NULL;
	}
	return memory_register(pd, (void *)(uintptr_t)FAKE5_PAGE,
			       ((size_t)1 << 47) - 2 * (size_t)FAKE5_PAGE, FAKE5_PAGE,
			       (unsigned)access, NULL);
}

/* Any file that can be mapped is accepted. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	void *at;

	errno = device_failure("reg_dmabuf_mr");
	if (errno)
		return NULL;
	at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (at == MAP_FAILED)
		return NULL;
	return memory_register(pd, at, length, iova, (unsigned)access, at);
}

int ibv_dereg_mr(struct ibv_mr *handle)
{
	struct fake5_mr *mr = (struct fake5_mr *)handle;

	fake5_soft()->unregister_memory(mr->soft);
	if (mr->mapped)
		munmap(mr->mapped, mr->base.length);
	pthread_mutex_lock(&fake5_lock);
	fake5_demand_remove(handle->lkey);
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
	free(mr);
	return 0;
}

struct fake5_ah {
	struct ibv_ah base;
	struct mlx5_wqe_av av;
};

/* The kernel would resolve the MAC of the neighbour. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fake5_record record;
	struct fake5_ah *ah;
	bool is_found;

	pthread_mutex_lock(&fake5_lock);
	errno = fake5_failure("create_ah");
	is_found = !errno && fake5_find_gid(attr->grh.dgid.raw, &record);
	pthread_mutex_unlock(&fake5_lock);
	if (!is_found || !attr->is_global || attr->grh.sgid_index >= FAKE5_GIDS) {
		errno = errno ? errno : ETIMEDOUT;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	ah->base.context = pd->context;
	ah->base.pd = pd;
	memcpy(ah->av.rmac, record.mac, sizeof(ah->av.rmac));
	pthread_mutex_lock(&fake5_lock);
	fake5_left_add(1);
	pthread_mutex_unlock(&fake5_lock);
	return &ah->base;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	pthread_mutex_lock(&fake5_lock);
	fake5_left_add(-1);
	pthread_mutex_unlock(&fake5_lock);
	return 0;
}

static int object_init_pd(const struct ibv_pd *in, struct mlx5dv_pd *out)
{
	out->pdn = in->handle;
	return 0;
}

static int object_init_cq(struct ibv_cq *in, struct mlx5dv_cq *out)
{
	const struct fake5_cq *cq = (const struct fake5_cq *)(const void *)in;

	if (!cq->ring)
		return EINVAL;
	*out = (struct mlx5dv_cq){.buf = cq->ring,
				  .dbrec = cq->record,
				  .cqe_cnt = cq->depth,
				  .cqe_size = 64,
				  .cqn = cq->number};
	return 0;
}

static int object_init_qp(struct ibv_qp *in, struct mlx5dv_qp *out)
{
	const struct fake5_qp *qp = (const struct fake5_qp *)(const void *)in;

	if (!qp->ring)
		return EINVAL;
	*out = (struct mlx5dv_qp){.dbrec = qp->record,
				  .sq = {.buf = qp->ring, .wqe_cnt = qp->depth, .stride = 64},
				  .bf = {.reg = qp->page->memory + FAKE5_DOORBELLS_AT,
					 .size = 256}};
	return 0;
}

int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	int error = device_failure("init_obj");

	if (error)
		return error;
	switch (type) {
	case MLX5DV_OBJ_PD:
		return object_init_pd(obj->pd.in, obj->pd.out);
	case MLX5DV_OBJ_CQ:
		return object_init_cq(obj->cq.in, obj->cq.out);
	case MLX5DV_OBJ_QP:
		return object_init_qp(obj->qp.in, obj->qp.out);
	case MLX5DV_OBJ_AH:
		obj->ah.out->av = &((struct fake5_ah *)obj->ah.in)->av;
		return 0;
	default:
		return EINVAL;
	}
}
