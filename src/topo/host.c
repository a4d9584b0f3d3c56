/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes this process as a struct ori_host, and checks the descriptions of peers. comm/
 * exchanges them.
 */
#include "topo/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/process.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_TEXT 36 /* characters of a UUID */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* 32 lower-case digits with dashes anywhere between bytes. */
static bool host_parse_uuid(const char *text, uint8_t id[16])
{
	for (unsigned i = 0; i < 16; i++) {
		int high, low;

		if (*text == '-')
			text++;
		high = hex_digit(text[0]);
		low = high < 0 ? -1 : hex_digit(text[1]);
		if (low < 0)
			return false;
		id[i] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	return true;
}

static enum oriel_status host_read_boot_id(uint8_t id[16])
{
	char text[BOOT_ID_TEXT + 1] = "";
	ssize_t n;
	int fd;

	fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot open %s", BOOT_ID_FILE);
	n = read(fd, text, BOOT_ID_TEXT);
	close(fd);
	if (n != BOOT_ID_TEXT || !host_parse_uuid(text, id))
		return ori_fail(ORIEL_ERR_SYSTEM, "%s holds no UUID", BOOT_ID_FILE);
	return ORIEL_OK;
}

/*
 * If the kernel was built without a kind of namespace the file is missing, and all processes share
 * one.
 */
static enum oriel_status host_read_ns(const char *file, uint64_t *inode)
{
	struct stat st;

	if (stat(file, &st) == 0)
		*inode = st.st_ino;
	else if (errno == ENOENT)
		*inode = 0;
	else
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot stat %s", file);
	return ORIEL_OK;
}

static enum oriel_status host_read_namespaces(struct ori_host *host)
{
	const struct {
		const char *file;
		uint64_t *inode;
	} table[] = {
		{"/proc/self/ns/pid", &host->pid_ns},
		{"/proc/self/ns/ipc", &host->ipc_ns},
		{"/proc/self/ns/net", &host->net_ns},
		{"/proc/self/ns/user", &host->user_ns},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		enum oriel_status status = host_read_ns(table[i].file, table[i].inode);

		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

static enum oriel_status host_read_cpus(uint64_t cpus[ORI_HOST_CPUS / 64])
{
	/* The kernel rejects a set smaller than its own limit, at most 8192 CPUs. */
	cpu_set_t sets[8192 / CPU_SETSIZE];

	static_assert(CPU_SETSIZE == ORI_HOST_CPUS, "the first set is what is kept");
	memset(sets, 0, sizeof(sets));
	if (sched_getaffinity(0, sizeof(sets), sets) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot read the CPU affinity");
	memcpy(cpus, &sets[0], sizeof(sets[0]));
	return ORIEL_OK;
}

/*
 * Does @text end with a NUL within @room, without control characters, which would garble log
 * lines?
 */
static bool host_text_is_clean(const char *text, size_t room)
{
	size_t length = strnlen(text, room);

	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	}
	return length < room;
}

static bool host_name_is_clean(const char name[ORI_HOST_NAME])
{
	return host_text_is_clean(name, ORI_HOST_NAME);
}

static enum oriel_status host_set_node(struct ori_host *host, const char *node)
{
	if (!node)
		node = "";
	if (strlen(node) >= sizeof(host->node))
		return ori_fail(ORIEL_ERR_INVALID, "node name \"%.80s\" has more than %zu bytes",
				node, sizeof(host->node) - 1);
	memcpy(host->node, node, strlen(node) + 1);
	if (!host_name_is_clean(host->node))
		return ori_fail(ORIEL_ERR_INVALID, "node name holds a control character");
	return ORIEL_OK;
}

static enum oriel_status host_read_names(struct ori_host *host)
{
	/* gethostname() truncates a longer name, and then omits the NUL. */
	if (gethostname(host->hostname, sizeof(host->hostname)) != 0 && errno != ENAMETOOLONG)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot read the host name");
	host->hostname[sizeof(host->hostname) - 1] = '\0';
	if (!host_name_is_clean(host->hostname))
		strcpy(host->hostname, "unnamed");
	return ori_process_token(&host->token);
}

enum oriel_status ori_host_describe(const char *node, unsigned paths, struct ori_host *host)
{
	struct ori_host h = {
		.magic = ORI_HOST_MAGIC,
		.version = ORI_HOST_VERSION,
		.length = sizeof(h),
		.paths = paths & ORI_HOST_PATHS,
		.uid = (uint32_t)geteuid(),
		.pid = (uint32_t)getpid(),
		.page_size = (uint32_t)sysconf(_SC_PAGESIZE),
	};
	enum oriel_status status;

	status = host_set_node(&h, node);
	if (status == ORIEL_OK)
		status = host_read_boot_id(h.boot_id);
	if (status == ORIEL_OK)
		status = host_read_namespaces(&h);
	if (status == ORIEL_OK)
		status = host_read_cpus(h.cpus);
	if (status == ORIEL_OK)
		status = host_read_names(&h);
	if (status == ORIEL_OK)
		*host = h;
	return status;
}

void ori_host_set_gpu(struct ori_host *host, const struct ori_gpu *gpu, uint32_t given)
{
	struct ori_host_gpu g = {.given = given};

	memcpy(g.uuid, gpu->uuid, sizeof(g.uuid));
	memcpy(g.pci, gpu->pci, sizeof(g.pci));
	g.fabric = gpu->fabric;
	g.count = gpu->ops->list_peers(gpu, g.reach, ORI_HOST_REACH);
	host->gpu = g;
}

static bool bytes_are_zero(const void *bytes, size_t length)
{
	const unsigned char *b = bytes;

	while (length > 0 && !*b) {
		b++;
		length--;
	}
	return length == 0;
}

/* Returns the error in @f, or NULL. A GPU outside every fabric must have no cluster and no clique.
 */
static const char *host_fabric_flaw(const struct ori_gpu_fabric *f)
{
	bool has_cluster = !bytes_are_zero(f->cluster, sizeof(f->cluster));

	if (f->state >= ORI_FABRIC_STATES)
		return "unknown state of a fabric";
	if (has_cluster != (f->state == ORI_FABRIC_READY) || (!has_cluster && f->clique))
		return "fabric fields without a fabric";
	return NULL;
}

/* Returns the error in @g, or NULL. */
static const char *host_gpu_flaw(const struct ori_host_gpu *g)
{
	if (!g->pci[0])
		return bytes_are_zero(g, sizeof(*g)) ? NULL : "GPU fields without a GPU";
	if (!host_text_is_clean(g->pci, sizeof(g->pci)))
		return "name of its GPU is no text";
	if (g->count > ORI_HOST_REACH)
		return "impossible number of GPUs";
	if (g->given & ~ORI_GIVEN_ALL)
		return "unknown values of its GPU that were given";
	if (g->domain || g->reserved ||
	    !bytes_are_zero(&g->reach[g->count], (ORI_HOST_REACH - g->count) * sizeof(g->reach[0])))
		return "data behind its GPUs";
	for (uint32_t i = 0; i < g->count; i++) {
		if (g->reach[i].flags &
		    ~(uint32_t)(ORI_GPU_ACCESS | ORI_GPU_ATOMICS | ORI_GPU_NVLINK))
			return "unknown flags of a GPU";
	}
	return host_fabric_flaw(&g->fabric);
}

/* Returns the error in @h, or NULL. */
static const char *host_flaw(const struct ori_host *h)
{
	if (h->paths & ~ORI_HOST_PATHS)
		return "unknown paths";
	if (h->token == 0)
		return "no process token";
	if (h->pid == 0 || h->pid > INT32_MAX)
		return "no process number";
	if (h->page_size < 4096 || (h->page_size & (h->page_size - 1)))
		return "impossible page size";
	if (!host_name_is_clean(h->hostname))
		return "host name is no text";
	if (!host_name_is_clean(h->node))
		return "node name is no text";
	return host_gpu_flaw(&h->gpu);
}

enum oriel_status ori_host_parse(const void *bytes, size_t length, struct ori_host *host)
{
	struct ori_host h;
	const char *flaw;

	if (length != sizeof(h))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"description of a process has %zu bytes instead of %zu", length,
				sizeof(h));
	memcpy(&h, bytes, sizeof(h));
	if (h.magic != ORI_HOST_MAGIC)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"description of a process begins with 0x%08x instead of 0x%08x",
				h.magic, ORI_HOST_MAGIC);
	if (h.version != ORI_HOST_VERSION || h.length != sizeof(h))
		return ori_fail(ORIEL_ERR_VERSION,
				"description of a process has version %u (%u bytes), not %u (%zu)",
				h.version, h.length, ORI_HOST_VERSION, sizeof(h));
	flaw = host_flaw(&h);
	if (flaw)
		return ori_fail(ORIEL_ERR_PROTOCOL, "description of a process: %s", flaw);
	*host = h;
	return ORIEL_OK;
}
