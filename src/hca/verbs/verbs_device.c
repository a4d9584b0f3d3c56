/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of libibverbs: the choice among those of the machine, its port and
 * GID, open and close. verbs.c and mlx5.c call it.
 */
#include "hca/verbs/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

#define VERBS_GPU_KEY ";near="
#define VERBS_FILTER_MAX 256u
#define VERBS_PATH PATH_MAX
#define VERBS_CANDIDATES 64u
#define VERBS_WHY 88 /* its error fits a verdict of comm/ */

/* The parsed text of open(). */
struct verbs_request {
	const struct verbs_kind *kind;
	char filter[VERBS_FILTER_MAX];
	char gpu_path[VERBS_PATH]; /* under /sys/devices; "": by NUMA node of this thread */
};

/* A port that may be chosen. */
struct verbs_candidate {
	struct ibv_device *device;
	uint8_t port;
	unsigned distance;
};

enum oriel_status ori_verbs_fail(const struct verbs_device *d, int error, const char *format, ...)
{
	enum oriel_status status = error == ENOMEM ? ORIEL_ERR_NOMEM : ORIEL_ERR_SYSTEM;
	char text[384];
	va_list args;

	if (error == EOPNOTSUPP || error == ENOSYS)
		status = ORIEL_ERR_UNSUPPORTED;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return ori_fail(status, "%s: %s: %s", d->name, text, strerror(error));
}

/* FILTER, or FILTER;near=0000:3b:00.0 */
static enum oriel_status verbs_parse(const char *config, struct verbs_request *request)
{
	const char *text = config ? config : "", *gpu = strstr(text, VERBS_GPU_KEY), *flaw;
	size_t length = gpu ? (size_t)(gpu - text) : strlen(text);
	char link[128];

	if (length >= sizeof(request->filter))
		return ori_fail(ORIEL_ERR_CONFIG, "ORIEL_HCA has more than %u characters",
				VERBS_FILTER_MAX - 1);
	memcpy(request->filter, text, length);
	request->filter[length] = '\0';
	request->gpu_path[0] = '\0';
	flaw = ori_verbs_filter_flaw(request->filter);
	if (flaw)
		return ori_fail(ORIEL_ERR_CONFIG, "ORIEL_HCA is '%s': %s", request->filter, flaw);
	if (!gpu)
		return ORIEL_OK;
	snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", gpu + strlen(VERBS_GPU_KEY));
	if (!realpath(link, request->gpu_path))
		request->gpu_path[0] = '\0';
	return ORIEL_OK;
}

static enum oriel_status verbs_read_byte(enum ori_setting which, uint64_t max, uint8_t *value)
{
	uint64_t number;
	enum oriel_status status = ori_setting_unsigned(which, max, &number);

	if (status == ORIEL_OK)
		*value = (uint8_t)number;
	return status;
}

static enum oriel_status verbs_read_settings(struct verbs_settings *s)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t number = 0;

	s->gid_index = -1;
	if (*ori_setting_text(ORI_SETTING_IB_GID_INDEX)) {
		status = ori_setting_unsigned(ORI_SETTING_IB_GID_INDEX, 255, &number);
		s->gid_index = (int)number;
	}
	if (status == ORIEL_OK)
		status = verbs_read_byte(ORI_SETTING_IB_TC, 255, &s->traffic_class);
	if (status == ORIEL_OK)
		status = verbs_read_byte(ORI_SETTING_IB_SL, 15, &s->service_level);
	if (status == ORIEL_OK)
		status = verbs_read_byte(ORI_SETTING_IB_TIMEOUT, 31, &s->timeout);
	if (status == ORIEL_OK)
		status = verbs_read_byte(ORI_SETTING_IB_RETRY, 7, &s->retry);
	if (status == ORIEL_OK)
		status = verbs_read_byte(ORI_SETTING_IB_RNR_RETRY, 7, &s->rnr_retry);
	if (status == ORIEL_OK)
		status = ori_setting_unsigned(ORI_SETTING_IB_MTU, 4096, &number);
	s->mtu = (uint32_t)number;
	return status;
}

static int verbs_numa_node(const char *ibdev_path)
{
	char path[PATH_MAX];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%.200s/device/numa_node", ibdev_path);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}

/* Bridges to the GPU; without one, whether the device is on the NUMA node of this thread. */
static unsigned verbs_distance(const struct ibv_device *device, const struct verbs_request *request)
{
	char link[PATH_MAX], path[PATH_MAX];
	unsigned cpu, own_node;
	int node;

	if (request->gpu_path[0]) {
		snprintf(link, sizeof(link), "%.200s/device", device->ibdev_path);
		return realpath(link, path) ? ori_verbs_distance(request->gpu_path, path)
					    : ORI_VERBS_UNRELATED;
	}
	node = verbs_numa_node(device->ibdev_path);
	if (node < 0 || getcpu(&cpu, &own_node) != 0)
		return 0;
	return (unsigned)node != own_node;
}

static struct ibv_context *verbs_open_plainly(struct ibv_device *device)
{
	return ori_ibverbs.open_device(device);
}

static bool verbs_is_any(struct ibv_device *device)
{
	(void)device;
	return true;
}

static const struct verbs_kind verbs_kind_any = {verbs_is_any, verbs_open_plainly};

/* The ports of @device that are up and that the filter selects, behind @count others. */
static unsigned verbs_list_ports(struct ibv_device *device, const struct verbs_request *request,
				 struct verbs_candidate *found, unsigned count)
{
	struct ibv_context *context =
		request->kind->is_meant(device) ? ori_ibverbs.open_device(device) : NULL;
	unsigned distance = verbs_distance(device, request);
	struct ibv_device_attr attr;

	if (!context)
		return count;
	if (ori_ibverbs.query_device(context, &attr) != 0)
		attr.phys_port_cnt = 0;
	for (unsigned port = 1; port <= attr.phys_port_cnt && count < VERBS_CANDIDATES; port++) {
		struct ibv_port_attr p;

		memset(&p, 0, sizeof(p));
		if (!ori_verbs_is_meant(request->filter, ori_ibverbs.get_device_name(device),
					port) ||
		    ori_ibverbs.query_port(context, (uint8_t)port,
					   (struct _compat_ibv_port_attr *)(void *)&p) != 0 ||
		    p.state != IBV_PORT_ACTIVE)
			continue;
		found[count++] = (struct verbs_candidate){device, (uint8_t)port, distance};
	}
	ori_ibverbs.close_device(context);
	return count;
}

/* Closest first; ports of equal distance stay in the order of the list. */
static void verbs_sort(struct verbs_candidate *found, unsigned count)
{
	for (unsigned i = 1; i < count; i++)
		for (unsigned k = i; k > 0 && found[k].distance < found[k - 1].distance; k--) {
			struct verbs_candidate other = found[k];

			found[k] = found[k - 1];
			found[k - 1] = other;
		}
}

/* All ports that rails may use, the closest first. */
static unsigned verbs_find(struct ibv_device **list, const struct verbs_request *request,
			   struct verbs_candidate *found)
{
	unsigned count = 0;

	for (unsigned i = 0; list[i]; i++)
		count = verbs_list_ports(list[i], request, found, count);
	verbs_sort(found, count);
	return count;
}

/* 0: not usable. Routable addresses rank above link-local ones. */
static unsigned verbs_gid_worth(const struct ibv_gid_entry *entry)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (memcmp(entry->gid.raw, mapped, sizeof(mapped)) == 0)
		return 3;
	return entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

/* GID 0 is that of the port; where subnets are joined by routers, GID 1 names one. */
static uint8_t verbs_ib_gid(const struct verbs_device *d)
{
	union ibv_gid gid;

	return d->port_attr.gid_tbl_len > 1 &&
	       ori_ibverbs.query_gid(d->context, d->port, 1, &gid) == 0 &&
	       ori_verbs_flid(gid.raw) != 0;
}

static enum oriel_status verbs_choose_gid(struct verbs_device *d)
{
	unsigned best = 0;

	if (d->settings.gid_index >= 0) {
		d->gid_index = (uint8_t)d->settings.gid_index;
		return ORIEL_OK;
	}
	if (d->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
		d->gid_index = verbs_ib_gid(d);
		return ORIEL_OK;
	}
	if (!ori_ibverbs.query_gid_ex)
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"%s: this libibverbs does not report RoCE versions: set ORIEL_IB_GID_INDEX",
			d->name);
	for (int i = 0; i < d->port_attr.gid_tbl_len && i < 256; i++) {
		struct ibv_gid_entry entry;
		unsigned worth;

		if (ori_ibverbs.query_gid_ex(d->context, d->port, (uint32_t)i, &entry, 0,
					     sizeof(entry)) != 0)
			continue;
		worth = verbs_gid_worth(&entry);
		if (worth > best) {
			best = worth;
			d->gid_index = (uint8_t)i;
		}
	}
	if (!best)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"%s: no GID of RoCE v2: has its network interface an address?",
				d->name);
	return ORIEL_OK;
}

static uint32_t verbs_mtu(const struct verbs_device *d)
{
	uint32_t active = 128u << d->port_attr.active_mtu;

	return active < d->settings.mtu ? active : d->settings.mtu;
}

static enum oriel_status verbs_query(struct verbs_device *d)
{
	union ibv_gid gid;
	enum oriel_status status;
	int error;

	error = ori_ibverbs.query_device(d->context, &d->attr);
	if (!error)
		error = ori_verbs_query_port(d, &d->port_attr);
	if (error)
		return ori_verbs_fail(d, error, "cannot query its capabilities");
	if (d->attr.max_qp_rd_atom < 1 || d->attr.max_qp_init_rd_atom < 1)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: it has no READs and no atomics",
				d->name);
	status = verbs_choose_gid(d);
	if (status != ORIEL_OK)
		return status;
	error = ori_ibverbs.query_gid(d->context, d->port, d->gid_index, &gid);
	if (error)
		return ori_verbs_fail(d, errno, "cannot read GID %u (ORIEL_IB_GID_INDEX)",
				      d->gid_index);
	d->mtu = verbs_mtu(d);
	d->address = (struct verbs_address){
		.magic = VERBS_MAGIC,
		.version = VERBS_VERSION,
		.lid = d->port_attr.lid,
		.is_ethernet = d->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET,
		.port = d->port,
	};
	memcpy(d->address.gid, gid.raw, sizeof(d->address.gid));
	if (d->address.is_ethernet)
		return ORIEL_OK;
	d->address.needs_grh =
		d->settings.gid_index >= 0 || (d->port_attr.flags & IBV_QPF_GRH_REQUIRED);
	error = ori_verbs_query_pkey(d, &d->address.pkey);
	return error ? ori_verbs_fail(d, error, "cannot read its partition key") : ORIEL_OK;
}

static enum oriel_status verbs_start(struct verbs_device *d, const struct verbs_kind *kind,
				     const struct verbs_candidate *chosen)
{
	enum oriel_status status;

	d->port = chosen->port;
	snprintf(d->name, sizeof(d->name), "%s:%u", ori_ibverbs.get_device_name(chosen->device),
		 chosen->port);
	d->numa_node = (unsigned)(verbs_numa_node(chosen->device->ibdev_path) + 1);
	d->context = kind->open(chosen->device);
	if (!d->context)
		return ori_verbs_fail(d, errno, "cannot open it");
	status = verbs_query(d);
	if (status != ORIEL_OK)
		goto err_close_device;
	d->pd = ori_ibverbs.alloc_pd(d->context);
	if (!d->pd) {
		status = ori_verbs_fail(d, errno, "cannot allocate a protection domain");
		goto err_close_device;
	}
	status = ori_verbs_events_start(d);
	if (status != ORIEL_OK)
		goto err_dealloc_pd;
	return ORIEL_OK;

err_dealloc_pd:
	ori_ibverbs.dealloc_pd(d->pd);
err_close_device:
	ori_ibverbs.close_device(d->context);
	return status;
}

static enum oriel_status verbs_open_one(struct verbs_device *d, const struct verbs_request *request,
					unsigned rail)
{
	struct ibv_device **list = ori_ibverbs.get_device_list(NULL);
	struct verbs_candidate found[VERBS_CANDIDATES];
	char why[VERBS_WHY], host[32] = "";
	enum oriel_status status;
	unsigned count;

	if (!list || !*list) {
		if (list)
			ori_ibverbs.free_device_list(list);
		ori_hca_verbs_lack(rail + 1, why, sizeof(why));
		(void)gethostname(host, sizeof(host) - 1);
		return ori_fail(ORIEL_ERR_NO_PATH,
				"ORIEL_HCA is '%s', but no NIC of host %s is usable: %s (see "
				"oriel doctor)",
				*request->filter ? request->filter : "verbs", host, why);
	}
	count = verbs_find(list, request, found);
	if (rail < count)
		status = verbs_start(d, request->kind, &found[rail]);
	else
		status = ori_fail(ORIEL_ERR_NO_PATH,
				  "rail %u needs a NIC: %u ports are up and selected by ORIEL_HCA "
				  "('%s'); see ibv_devinfo",
				  rail, count, *request->filter ? request->filter : "verbs");
	ori_ibverbs.free_device_list(list);
	return status;
}

unsigned ori_hca_verbs_ports(const char *config)
{
	struct verbs_candidate found[VERBS_CANDIDATES];
	struct ibv_device **list = NULL;
	struct verbs_request request = {.kind = &verbs_kind_any};
	struct ori_error before;
	unsigned count = 0;

	ori_error_save(&before);
	if (verbs_parse(config, &request) == ORIEL_OK && ori_ibverbs_open() == ORIEL_OK)
		list = ori_ibverbs.get_device_list(NULL);
	if (list) {
		count = verbs_find(list, &request, found);
		ori_ibverbs.free_device_list(list);
	}
	ori_error_restore(&before);
	return count;
}

/* Appends a clause to @why. Only the first one may be cut short; another must fit. */
static void __attribute__((format(printf, 3, 4)))
lack_add(char *why, size_t length, const char *format, ...)
{
	size_t used = strlen(why), room = length - used;
	char clause[160];
	va_list args;

	va_start(args, format);
	vsnprintf(clause, sizeof(clause), format, args);
	va_end(args);
	if (!used || strlen(", ") + strlen(clause) < room)
		snprintf(why + used, room, "%s%s", used ? ", " : "", clause);
}

static const char *lack_state(const struct ibv_port_attr *port)
{
	static const char *const states[] = {
		[IBV_PORT_NOP] = "in no state", [IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "init",       [IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active",   [IBV_PORT_ACTIVE_DEFER] = "active_defer",
	};

	/* Both ends of the cable are there. */
	if (port->state == IBV_PORT_INIT && port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return "waiting for a subnet manager";
	return (size_t)port->state < sizeof(states) / sizeof(states[0]) ? states[port->state]
									: "unknown";
}

/* Adds the reason why no port of @device may be used. */
static void lack_add_device(struct ibv_device *device, char *why, size_t length)
{
	const char *name = ori_ibverbs.get_device_name(device);
	struct ibv_context *context = ori_ibverbs.open_device(device);
	struct ibv_device_attr attr;

	if (!context) {
		lack_add(why, length, "%s cannot be opened by this process (%s)", name,
			 strerror(errno));
		return;
	}
	if (ori_ibverbs.query_device(context, &attr) != 0)
		attr.phys_port_cnt = 0;
	if (attr.phys_port_cnt == 0)
		lack_add(why, length, "%s has no port", name);
	for (unsigned port = 1; port <= attr.phys_port_cnt; port++) {
		struct ibv_port_attr p;

		memset(&p, 0, sizeof(p));
		(void)ori_ibverbs.query_port(context, (uint8_t)port,
					     (struct _compat_ibv_port_attr *)(void *)&p);
		lack_add(why, length, "%s:%u is %s", name, port, lack_state(&p));
	}
	ori_ibverbs.close_device(context);
}

/* Does the kernel have a NIC with a driver? Its library may be missing all the same. */
static bool lack_has_device(void)
{
	DIR *directory = opendir("/sys/class/infiniband");
	struct dirent *entry = directory ? readdir(directory) : NULL;

	while (entry && entry->d_name[0] == '.')
		entry = readdir(directory);
	if (directory)
		closedir(directory);
	return entry != NULL;
}

void ori_hca_verbs_lack(unsigned rails, char *why, size_t length)
{
	enum oriel_status status;
	struct ibv_device **list = NULL;
	unsigned ports = ori_hca_verbs_ports("");
	struct ori_error before;

	ori_error_save(&before);
	why[0] = '\0';
	status = ori_ibverbs_open();
	if (status == ORIEL_OK)
		list = ori_ibverbs.get_device_list(NULL);
	if (ports > 0)
		lack_add(why, length, "%u port%s active, ORIEL_RAILS is %u", ports,
			 ports == 1 ? " is" : "s are", rails);
	for (unsigned i = 0; list && list[i] && ports == 0; i++)
		lack_add_device(list[i], why, length);
	if (!why[0] && !lack_has_device())
		lack_add(why, length, "no RDMA NIC with a driver");
	else if (!why[0])
		lack_add(why, length, "%s",
			 status == ORIEL_OK ? "libibverbs has no provider for any NIC"
					    : oriel_last_error());
	if (list)
		ori_ibverbs.free_device_list(list);
	ori_error_restore(&before);
}

enum oriel_status ori_verbs_device_open(struct verbs_device *d, const char *config, unsigned rail,
					const struct verbs_kind *kind)
{
	struct verbs_request request = {.kind = kind ? kind : &verbs_kind_any};
	enum oriel_status status;

	status = verbs_parse(config, &request);
	if (status == ORIEL_OK)
		status = ori_ibverbs_open();
	if (status != ORIEL_OK)
		return status;
	pthread_mutex_init(&d->lock, NULL);
	status = verbs_read_settings(&d->settings);
	if (status == ORIEL_OK)
		status = verbs_open_one(d, &request, rail);
	if (status != ORIEL_OK) {
		pthread_mutex_destroy(&d->lock);
		return status;
	}
	if (d->address.is_ethernet)
		snprintf(d->port_text, sizeof(d->port_text), "RoCE, GID %u", d->gid_index);
	else
		snprintf(d->port_text, sizeof(d->port_text), "InfiniBand, LID %u, GID %u",
			 d->address.lid, d->gid_index);
	ori_log(ORIEL_LOG_DEBUG, "rail %u opens %s, %s, MTU %u", rail, d->name, d->port_text,
		d->mtu);
	return ORIEL_OK;
}

void ori_verbs_device_close(struct verbs_device *d)
{
	ori_verbs_events_stop(d);
	ori_ibverbs.dealloc_pd(d->pd);
	ori_ibverbs.close_device(d->context);
	pthread_mutex_destroy(&d->lock);
}

void ori_verbs_describe(const struct ori_hca *hca, struct ori_hca_qp_address *address)
{
	const struct verbs_device *d = (const struct verbs_device *)hca;

	*address = (struct ori_hca_qp_address){
		.version = ORI_HCA_ADDRESS_VERSION,
		.mtu = d->mtu,
		.max_rd_atomic = (uint32_t)d->attr.max_qp_rd_atom,
		.flags = d->address_flags,
	};
	memcpy(address->hca_address, &d->address, sizeof(d->address));
}

/* The fabric leads to its addresses from every host of the fabric. */
enum oriel_status ori_verbs_listen(struct ori_hca *hca)
{
	(void)hca;
	return ORIEL_OK;
}
