/* SPDX-License-Identifier: Apache-2.0 */
/* HCAs, their memory and events. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_objects.h"

#undef ibv_query_port
#undef ibv_reg_mr

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

static const char *const names[FAKE_DEVICES] = {"fake0", "fake1"};

static struct fake_device devices[FAKE_DEVICES] = {
	{.base = {.name = "fake0"}, .ports = 1, .mtu = IBV_MTU_4096},
	{.base = {.name = "fake1"}, .ports = 2, .mtu = IBV_MTU_4096},
};

/* One subnet, whose manager runs at LID 1. The second port has two LIDs. */
struct fake_ib fake_ib_default(unsigned device)
{
	return (struct fake_ib){.lid = device ? 8 : 5,
				.sm_lid = 1,
				.lmc = (uint8_t)device,
				.guid = (uint8_t)(0x11 + device),
				.prefix = UINT64_C(0xfe80000000000000),
				.pkeys = {0xffff, 0x8001},
				.state = IBV_PORT_ACTIVE};
}

void fake_set_ib(unsigned device, const struct fake_ib *ib)
{
	pthread_mutex_lock(&fake_lock);
	devices[device].is_ib = ib != NULL;
	if (ib)
		devices[device].ib = *ib;
	pthread_mutex_unlock(&fake_lock);
}

static void __attribute__((constructor)) fake_begin(void)
{
	const char *link = getenv("FAKEVERBS_LINK");

	for (unsigned i = 0; link && strcmp(link, "infiniband") == 0 && i < FAKE_DEVICES; i++) {
		struct fake_ib ib = fake_ib_default(i);

		fake_set_ib(i, &ib);
	}
}

static atomic_int left;
static atomic_bool are_gids_lost;

static struct {
	char call[64];
	unsigned after;
	int error;
} failure; /* guarded by fake_lock */

static struct fake_mr *mrs; /* guarded by fake_lock */
static uint32_t next_key = 0x1000;

void fake_count(int change)
{
	atomic_fetch_add(&left, change);
}

int fake_left(void)
{
	return atomic_load(&left);
}

void fake_fail(const char *call, unsigned after, int error)
{
	pthread_mutex_lock(&fake_lock);
	snprintf(failure.call, sizeof(failure.call), "%s", call);
	failure.after = after;
	failure.error = error;
	pthread_mutex_unlock(&fake_lock);
}

int fake_failure(const char *call)
{
	int error = 0;

	pthread_mutex_lock(&fake_lock);
	if (strcmp(call, failure.call) == 0 && failure.after-- == 0) {
		error = failure.error;
		failure.call[0] = '\0';
	}
	pthread_mutex_unlock(&fake_lock);
	return error;
}

struct fake_device *fake_device_of(const struct ibv_context *context)
{
	return (struct fake_device *)context->device;
}

void fake_set_mtu(const char *device, enum ibv_mtu mtu)
{
	for (unsigned i = 0; i < FAKE_DEVICES; i++)
		if (strcmp(devices[i].base.name, device) == 0)
			devices[i].mtu = mtu;
}

void fake_lose_gids(bool are_lost)
{
	atomic_store(&are_gids_lost, are_lost);
}

void fake_set_sysfs(const char *directory)
{
	for (unsigned i = 0; i < FAKE_DEVICES; i++)
		snprintf(devices[i].base.ibdev_path, sizeof(devices[i].base.ibdev_path),
			 "%.150s/%s", directory, names[i]);
}

void fake_cut(const char *device, bool is_cut, bool is_down)
{
	for (unsigned i = 0; i < FAKE_DEVICES; i++) {
		if (strcmp(devices[i].base.name, device) != 0)
			continue;
		atomic_store(&devices[i].is_cut, is_cut);
		atomic_store(&devices[i].is_down, is_down);
	}
}

static atomic_bool is_kernel_lost;

void fake_lose_kernel(bool is_lost)
{
	atomic_store(&is_kernel_lost, is_lost);
}

/* ibv_get_device_list(3): NULL and ENOSYS without kernel support for RDMA. */
struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list;

	if (atomic_load(&is_kernel_lost)) {
		errno = ENOSYS;
		return NULL;
	}
	list = calloc(FAKE_DEVICES + 1, sizeof(*list));
	for (unsigned i = 0; i < FAKE_DEVICES && list; i++)
		list[i] = &devices[i].base;
	if (count)
		*count = FAKE_DEVICES;
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

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_context *c;
	int fds[2];

	errno = fake_failure("open_device");
	if (errno)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c || pipe2(fds, O_CLOEXEC) != 0) {
		free(c);
		return NULL;
	}
	c->base.device = device;
	c->base.async_fd = fds[0];
	c->event_fd = fds[1];
	c->base.ops.post_send = fake_post_send;
	c->base.ops.post_recv = fake_post_recv;
	c->base.ops.poll_cq = fake_poll_cq;
	fake_count(1);
	return &c->base;
}

int ibv_close_device(struct ibv_context *context)
{
	struct fake_context *c = (struct fake_context *)context;

	close(c->base.async_fd);
	close(c->event_fd);
	free(c);
	fake_count(-1);
	return 0;
}

static bool fake_is_of_port(const struct ibv_async_event *event)
{
	return event->event_type == IBV_EVENT_PORT_ERR ||
	       event->event_type == IBV_EVENT_PORT_ACTIVE ||
	       event->event_type == IBV_EVENT_SM_CHANGE ||
	       event->event_type == IBV_EVENT_CLIENT_REREGISTER ||
	       event->event_type == IBV_EVENT_PKEY_CHANGE ||
	       event->event_type == IBV_EVENT_LID_CHANGE ||
	       event->event_type == IBV_EVENT_GID_CHANGE;
}

static void *fake_object_of(const struct ibv_async_event *event)
{
	if (fake_is_of_port(event))
		return NULL;
	return event->event_type == IBV_EVENT_CQ_ERR ? (void *)event->element.cq
						     : (void *)event->element.qp;
}

void fake_push_event(struct ibv_context *context, const struct ibv_async_event *event)
{
	struct fake_context *c = (struct fake_context *)context;

	if (c->count == FAKE_EVENTS)
		return;
	c->events[c->count++] = *event;
	(void)!write(c->event_fd, "", 1);
}

void fake_forget_events(struct ibv_context *context, void *object)
{
	struct fake_context *c = (struct fake_context *)context;
	unsigned remaining = 0;

	for (unsigned i = 0; i < c->count; i++)
		if (fake_object_of(&c->events[i]) != object)
			c->events[remaining++] = c->events[i];
	c->count = remaining;
	while (c->unacknowledged == object)
		pthread_cond_wait(&acknowledged, &fake_lock);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct fake_context *c = (struct fake_context *)context;
	bool is_any;
	char byte;

	if (read(context->async_fd, &byte, 1) != 1)
		return -1;
	pthread_mutex_lock(&fake_lock);
	is_any = c->count > 0;
	if (is_any) {
		*event = c->events[0];
		memmove(c->events, c->events + 1, --c->count * sizeof(c->events[0]));
		c->unacknowledged = fake_object_of(event);
	}
	pthread_mutex_unlock(&fake_lock);
	return is_any ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct fake_context *c = NULL;

	if (event->event_type == IBV_EVENT_CQ_ERR)
		c = (struct fake_context *)event->element.cq->context;
	else if (!fake_is_of_port(event))
		c = (struct fake_context *)event->element.qp->context;
	if (!c)
		return;
	pthread_mutex_lock(&fake_lock);
	c->unacknowledged = NULL;
	pthread_cond_broadcast(&acknowledged);
	pthread_mutex_unlock(&fake_lock);
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_CQ_ERR ? "CQ error" : "an event of the fake";
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "a failure of the fake";
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int error = fake_failure("query_device");

	if (error)
		return error;
	*attr = (struct ibv_device_attr){
		.max_qp = 1000,
		.max_qp_wr = 16384,
		.max_sge = 4,
		.max_cq = 1000,
		/*
		 * Fewer than a queue may hold requests, as of Soft-RoCE: Linux,
		 * drivers/infiniband/sw/rxe, rxe_init_device_param() has
		 * (1 << RXE_MAX_LOG_CQE) - 1 entries, and RXE_MAX_QP_WR is greater.
		 */
		.max_cqe = 8191,
		.max_mr = 1000,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA,
		.phys_port_cnt = fake_device_of(context)->ports,
	};
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)compat;
	int error = fake_failure("query_port");

	if (error)
		return error;
	if (port == 0 || port > fake_device_of(context)->ports)
		return EINVAL;
	attr->state = port == 1 && !atomic_load(&fake_device_of(context)->is_down) ? IBV_PORT_ACTIVE
										   : IBV_PORT_DOWN;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = fake_device_of(context)->mtu;
	attr->gid_tbl_len = FAKE_GIDS;
	attr->max_msg_sz = FAKE_MESSAGE;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	pthread_mutex_lock(&fake_lock);
	if (fake_device_of(context)->is_ib && port == 1)
		fake_ib_query(&fake_device_of(context)->ib, attr);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	const struct fake_device *d = fake_device_of(context);

	errno = fake_failure("query_pkey");
	if (errno || port == 0 || index < 0 || index >= FAKE_PKEYS)
		return -1;
	pthread_mutex_lock(&fake_lock);
	*pkey = htobe16(d->is_ib ? d->ib.pkeys[index] : 0xffff);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

/* 0: RoCE v1 over IPv4. 1: v2, link-local. 2: v2 over IPv4. */
void fake_gid(const struct ibv_context *context, unsigned index, union ibv_gid *gid)
{
	if (fake_device_of(context)->is_ib) {
		fake_ib_gid(&fake_device_of(context)->ib, index, gid);
		return;
	}
	memset(gid, 0, sizeof(*gid));
	if (index == 1)
		gid->raw[0] = 0xfe, gid->raw[1] = 0x80;
	else
		gid->raw[10] = gid->raw[11] = 0xff, gid->raw[12] = 10;
	gid->raw[14] = (uint8_t)index;
	gid->raw[15] = (uint8_t)(1 + (fake_device_of(context) - devices));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	errno = fake_failure("query_gid");
	if (errno || atomic_load(&are_gids_lost) || port == 0 || index < 0 || index >= FAKE_GIDS)
		return -1;
	pthread_mutex_lock(&fake_lock);
	fake_gid(context, (unsigned)index, gid);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	(void)flags, (void)port;
	if (index >= FAKE_GIDS || size != sizeof(*entry))
		return EINVAL;
	memset(entry, 0, sizeof(*entry));
	pthread_mutex_lock(&fake_lock);
	fake_gid(context, index, &entry->gid);
	entry->gid_index = index;
	entry->gid_type = fake_device_of(context)->is_ib ? IBV_GID_TYPE_IB
			  : index                        ? IBV_GID_TYPE_ROCE_V2
							 : IBV_GID_TYPE_ROCE_V1;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	errno = fake_failure("alloc_pd");
	if (errno)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	pd->context = context;
	fake_count(1);
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	fake_count(-1);
	return 0;
}

static struct ibv_mr *fake_register(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				    unsigned access, bool is_mapped)
{
	struct fake_mr *mr = calloc(1, sizeof(*mr));

	mr->base.context = pd->context;
	mr->base.pd = pd;
	mr->base.addr = address;
	mr->base.length = length;
	mr->iova = iova;
	mr->access = access;
	mr->is_mapped = is_mapped;
	pthread_mutex_lock(&fake_lock);
	next_key += 0x100;
	mr->base.lkey = mr->base.rkey = next_key;
	mr->next = mrs;
	mrs = mr;
	pthread_mutex_unlock(&fake_lock);
	fake_count(1);
	return &mr->base;
}

/*
 * pin_user_pages() of the kernel, by which ib_umem_get() fails with EFAULT,
 * touches each page; this function does so by calls that read a word of it, and
 * add 0 to one.
 */
static bool fake_may_pin(const char *address, size_t length, bool is_written)
{
	const int add = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0);
	const char *at = address - (uintptr_t)address % 4096;
	uint32_t unused = 0;

	for (; at < address + length; at += 4096) {
		if (syscall(SYS_rt_sigprocmask, -1, at, NULL, 8) < 0 && errno == EFAULT)
			return false;
		if (is_written && syscall(SYS_futex, &unused, FUTEX_WAKE_OP, 0, 0, at, add) < 0 &&
		    errno == EFAULT)
			return false;
	}
	errno = 0;
	return true;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				unsigned access)
{
	bool is_remote = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	errno = fake_failure("reg_mr");
	/* The kernel has the same checks. */
	if (!errno && (((uintptr_t)address ^ iova) % 4096 ||
		       (is_remote && !(access & IBV_ACCESS_LOCAL_WRITE))))
		errno = EINVAL;
	if (!errno && !fake_may_pin(address, length, access & IBV_ACCESS_LOCAL_WRITE))
		errno = EFAULT;
	return errno ? NULL : fake_register(pd, address, length, iova, access, false);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned)access);
}

/* Any file that can be mapped is accepted. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	void *at;

	errno = fake_failure("reg_dmabuf_mr");
	if (errno)
		return NULL;
	at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	return at == MAP_FAILED ? NULL
				: fake_register(pd, at, length, iova, (unsigned)access, true);
}

int ibv_dereg_mr(struct ibv_mr *handle)
{
	struct fake_mr *mr = (struct fake_mr *)handle, **at;

	pthread_mutex_lock(&fake_lock);
	fake_release_held();
	for (at = &mrs; *at != mr; at = &(*at)->next)
		;
	*at = mr->next;
	pthread_mutex_unlock(&fake_lock);
	if (mr->is_mapped)
		munmap(mr->base.addr, mr->base.length);
	free(mr);
	fake_count(-1);
	return 0;
}

char *fake_find(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint64_t length,
		unsigned access)
{
	for (struct fake_mr *mr = mrs; mr; mr = mr->next)
		if (mr->base.lkey == key && mr->base.pd == pd && (mr->access & access) == access &&
		    address >= mr->iova && address - mr->iova <= mr->base.length &&
		    length <= mr->base.length - (address - mr->iova))
			return (char *)mr->base.addr + (address - mr->iova);
	return NULL;
}

bool fake_is_dmabuf(const char *at)
{
	for (struct fake_mr *mr = mrs; mr; mr = mr->next)
		if (mr->is_mapped && (uintptr_t)at - (uintptr_t)mr->base.addr < mr->base.length)
			return true;
	return false;
}
