/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features of this machine, for `oriel info` (oriel_feature_get()). The driver libraries are
 * opened here at run time and stay open: some (libcuda) do not survive dlclose().
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <oriel/comm.h>

#include "base/attr.h"
#include "base/config.h"
#include "base/error.h"
#include "sys/hugepages.h"
#include "sys/ibverbs_built.h"
#include "sys/library.h"
#include "sys/nvml.h"
#include "sys/pmix.h"

#define DETAIL_LENGTH 256
#define PROBE_PCI 32

/*
 * Is the feature present and usable? @detail[DETAIL_LENGTH] gets where it was found, or why it
 * cannot be used.
 */
typedef bool probe_function(char *detail);

static bool probe_memfd(char *detail)
{
	int fd = memfd_create("oriel-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool is_sealed = fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0;

	if (is_sealed)
		snprintf(detail, DETAIL_LENGTH, "memfd_create, sealing");
	else
		snprintf(detail, DETAIL_LENGTH, "%s: %s", fd < 0 ? "memfd_create" : "F_ADD_SEALS",
			 strerror(errno));
	if (fd >= 0)
		close(fd);
	return is_sealed;
}

/* A bare address family makes the kernel choose an abstract name. */
static bool probe_unix(char *detail)
{
	const struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address,
					sizeof(address.sun_family)) == 0;

	snprintf(detail, DETAIL_LENGTH, "%s", is_bound ? "abstract names" : strerror(errno));
	if (fd >= 0)
		close(fd);
	return is_bound;
}

static bool probe_hugetlb(char *detail)
{
	struct ori_hugepages p;

	ori_hugepages_read(&p);
	snprintf(detail, DETAIL_LENGTH, "%" PRIu64 " of %" PRIu64 " pages of %" PRIu64 " KiB free",
		 p.hugetlb_free, p.hugetlb_total, p.hugetlb_size >> 10);
	return p.hugetlb_free > 0;
}

static bool probe_thp(char *detail)
{
	struct ori_hugepages p;

	ori_hugepages_read(&p);
	snprintf(detail, DETAIL_LENGTH, "shmem_enabled is %s, page %" PRIu64 " KiB", p.shmem_mode,
		 p.thp_size >> 10);
	return p.is_thp_usable;
}

static bool probe_shm(char *detail)
{
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs) != 0) {
		snprintf(detail, DETAIL_LENGTH, "%s", strerror(errno));
		return false;
	}
	snprintf(detail, DETAIL_LENGTH, "%ju of %ju MiB free",
		 (uintmax_t)fs.f_bavail * fs.f_frsize >> 20,
		 (uintmax_t)fs.f_blocks * fs.f_frsize >> 20);
	return true;
}

/* Reported as missing if there is a limit, since registration may then fail. */
static bool probe_memlock(char *detail)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
		snprintf(detail, DETAIL_LENGTH, "%s", strerror(errno));
		return false;
	}
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(detail, DETAIL_LENGTH, "no limit");
	else
		snprintf(detail, DETAIL_LENGTH, "limited to %ju KiB (ulimit -l)",
			 (uintmax_t)limit.rlim_cur >> 10);
	return limit.rlim_cur == RLIM_INFINITY;
}

static bool probe_cpus(char *detail)
{
	cpu_set_t sets[8192 / CPU_SETSIZE]; /* the largest set a kernel can have */
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (sched_getaffinity(0, sizeof(sets), sets) != 0) {
		snprintf(detail, DETAIL_LENGTH, "%s", strerror(errno));
		return false;
	}
	snprintf(detail, DETAIL_LENGTH, "%ld online, this process may use %d", online,
		 CPU_COUNT_S(sizeof(sets), sets));
	return true;
}

/* @detail becomes the path of the library, or the reason why it does not load. */
static void *library_open(const char *soname, char *detail)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	struct link_map *map;

	if (!library)
		snprintf(detail, DETAIL_LENGTH, "%s", dlerror());
	else if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
		snprintf(detail, DETAIL_LENGTH, "%s", map->l_name);
	else
		snprintf(detail, DETAIL_LENGTH, "%s", soname);
	return library;
}

static void detail_add(char *detail, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void detail_add(char *detail, const char *format, ...)
{
	size_t used = strlen(detail);
	va_list args;

	va_start(args, format);
	vsnprintf(detail + used, DETAIL_LENGTH - used, format, args);
	va_end(args);
}

static bool probe_cuda(char *detail)
{
	void *cuda = library_open("libcuda.so.1", detail);
	int (*init)(unsigned), (*version)(int *), (*count)(int *);
	int number = 0, devices = 0, result;

	if (!cuda)
		return false;
	if (!ori_library_find(cuda, "cuInit", &init) ||
	    !ori_library_find(cuda, "cuDriverGetVersion", &version) ||
	    !ori_library_find(cuda, "cuDeviceGetCount", &count)) {
		detail_add(detail, ": not the CUDA driver");
		return false;
	}
	result = init(0);
	if (result != 0) {
		detail_add(detail, ": cuInit() failed with %d", result);
		return false;
	}
	version(&number);
	count(&devices);
	detail_add(detail, ": CUDA %d.%d, %d devices", number / 1000, number % 1000 / 10, devices);
	return devices > 0;
}

static bool probe_nvml(char *detail)
{
	void *nvml = library_open("libnvidia-ml.so.1", detail);
	int (*init)(void), (*finish)(void), (*version)(char *, unsigned);
	char text[80] = "unknown";
	int result;

	if (!nvml)
		return false;
	if (!ori_library_find(nvml, "nvmlInit_v2", &init) ||
	    !ori_library_find(nvml, "nvmlShutdown", &finish) ||
	    !ori_library_find(nvml, "nvmlSystemGetDriverVersion", &version)) {
		detail_add(detail, ": not NVML");
		return false;
	}
	result = init();
	if (result != 0) {
		detail_add(detail, ": nvmlInit() failed with %d", result);
		return false;
	}
	version(text, sizeof(text));
	finish();
	detail_add(detail, ": driver %s", text);
	return true;
}

/* Count the pairs of GPUs of this node that NVLink connects. */
static bool probe_nvlink(char *detail)
{
	unsigned count, a, b, pairs = 0, joined = 0;
	char one[PROBE_PCI], other[PROBE_PCI];
	char why[ORI_NVML_WHY];
	bool is_nvlink;

	if (!ori_nvml_open(why)) {
		snprintf(detail, DETAIL_LENGTH, "%s", why);
		return false;
	}
	count = ori_nvml_count();
	for (a = 0; a < count; a++)
		for (b = a + 1; b < count; b++) {
			pairs++;
			joined += ori_nvml_pci(a, one, sizeof(one)) &&
				  ori_nvml_pci(b, other, sizeof(other)) &&
				  ori_nvml_is_nvlink(one, other, &is_nvlink) && is_nvlink;
		}
	snprintf(detail, DETAIL_LENGTH, "%u GPUs, %u of %u pairs connected", count, joined, pairs);
	return joined > 0;
}

/* State of the first GPU's fabric by NVML. Only an import shows whether fabric handles work. */
static bool probe_fabric(char *detail)
{
	static const char *const states[] = {"none", "not started", "in progress", "completed"};
	struct ori_nvml_fabric fabric;
	char pci[PROBE_PCI], why[ORI_NVML_WHY];
	bool has_cluster = false;
	size_t i;

	if (!ori_nvml_open(why) || !ori_nvml_pci(0, pci, sizeof(pci))) {
		snprintf(detail, DETAIL_LENGTH, "%s", why[0] ? why : "no GPU");
		return false;
	}
	if (!ori_nvml_fabric(pci, &fabric, why)) {
		snprintf(detail, DETAIL_LENGTH, "%s", why);
		return false;
	}
	for (i = 0; i < sizeof(fabric.cluster); i++)
		has_cluster |= fabric.cluster[i] != 0;
	snprintf(detail, DETAIL_LENGTH, "GPU %s: %s, status %d", pci,
		 fabric.state <= ORI_NVML_FABRIC_COMPLETE ? states[fabric.state] : "unknown",
		 fabric.status);
	if (!has_cluster) {
		detail_add(detail, ", confined to this node");
		return false;
	}
	detail_add(detail, ", cluster ");
	for (i = 0; i < sizeof(fabric.cluster); i++)
		detail_add(detail, "%02x", fabric.cluster[i]);
	detail_add(detail, ", clique %u; ORIEL_FABRIC is %s", fabric.clique,
		   ori_setting_text(ORI_SETTING_FABRIC));
	return fabric.state == ORI_NVML_FABRIC_COMPLETE && !fabric.status &&
	       strcmp(ori_setting_text(ORI_SETTING_FABRIC), "off") != 0;
}

static bool probe_ibverbs(char *detail)
{
	void *verbs = library_open("libibverbs.so.1", detail);
	void **(*list)(int *), **devices;
	void (*release)(void **);
	int count = 0;

	if (!verbs)
		return false;
	if (!ori_library_find(verbs, "ibv_get_device_list", &list) ||
	    !ori_library_find(verbs, "ibv_free_device_list", &release)) {
		detail_add(detail, ": not libibverbs");
		return false;
	}
	devices = list(&count);
	if (devices)
		release(devices);
	detail_add(detail, ": %d devices%s", count,
		   ori_ibverbs_is_built() ? "" : ", but Oriel was built without its header");
	return count > 0 && ori_ibverbs_is_built();
}

static bool probe_mlx5(char *detail)
{
	return library_open("libmlx5.so.1", detail) != NULL;
}

static bool probe_pmix(char *detail)
{
	void *pmix = library_open("libpmix.so.2", detail);
	const char *(*version)(void);
	enum oriel_status status;
	struct ori_error before;

	if (!pmix)
		return false;
	if (ori_library_find(pmix, "PMIx_Get_version", &version))
		detail_add(detail, ": %s", version());
	ori_error_save(&before);
	status = ori_pmix_load();
	if (status != ORIEL_OK)
		detail_add(detail, ", but %s", oriel_last_error());
	ori_error_restore(&before);
	return status == ORIEL_OK;
}

/* Always built in; a job opens it if its ranks are on different nodes and no NIC is chosen. */
static bool probe_soft(char *detail)
{
	const char *filter;
	enum ori_hca_request wish = ori_setting_hca(&filter);
	bool is_allowed = wish == ORI_HCA_REQUEST_AUTO || wish == ORI_HCA_REQUEST_SOFT;

	if (is_allowed)
		snprintf(detail, DETAIL_LENGTH, "built in: executes mlx5 queues in software%s",
			 wish == ORI_HCA_REQUEST_SOFT ? ""
						      : "; across hosts by ORIEL_HCA=soft only");
	else
		snprintf(detail, DETAIL_LENGTH, "ORIEL_HCA is %s",
			 ori_setting_text(ORI_SETTING_HCA));
	return is_allowed;
}

static const struct {
	const char *name;
	const char *serves;
	probe_function *probe;
} probes[] = {
	{"memfd", "memory that peers on this machine can map", probe_memfd},
	{"unix sockets", "passing that memory to peers", probe_unix},
	{"huge pages", "ORIEL_MEMORY_HUGE, first choice", probe_hugetlb},
	{"transparent huge pages", "ORIEL_MEMORY_HUGE, second choice", probe_thp},
	{"/dev/shm", "shared memory of other libraries; Oriel needs none of it", probe_shm},
	{"locked memory", "registering memory with an RDMA NIC", probe_memlock},
	{"CPUs", "ranks that poll without yielding to each other", probe_cpus},
	{"libcuda", "windows in GPU memory, kernels", probe_cuda},
	{"libnvidia-ml", "how GPUs are connected (NVLink, fabric)", probe_nvml},
	{"NVLink", "the mapped path between GPUs, with atomics", probe_nvlink},
	{"NVLink fabric", "the mapped path between GPUs of different nodes", probe_fabric},
	{"libibverbs", "the rdma path", probe_ibverbs},
	{"libmlx5", "the rdma path from inside kernels", probe_mlx5},
	{"software HCA", "the rdma path without a NIC: for development and tests", probe_soft},
	{"libpmix", "starting under mpirun of Open MPI, prterun, srun --mpi=pmix", probe_pmix},
};

#define PROBES (sizeof(probes) / sizeof(probes[0]))

static struct {
	bool is_present;
	char detail[DETAIL_LENGTH];
} results[PROBES]; /* written once, in probe_all() */

static void probe_all(void)
{
	for (size_t i = 0; i < PROBES; i++)
		results[i].is_present = probes[i].probe(results[i].detail);
}

enum oriel_status oriel_feature_get(unsigned index, struct oriel_feature *feature)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	enum oriel_status status = ori_info_check("oriel_feature", feature);
	struct oriel_feature found;

	if (status != ORIEL_OK)
		return status;
	if (index >= PROBES)
		return ori_fail_at_end("there is no feature %u, only %zu", index, PROBES);
	pthread_once(&once, probe_all);
	found = (struct oriel_feature){
		.name = probes[index].name,
		.is_present = results[index].is_present,
		.detail = results[index].detail,
		.serves = probes[index].serves,
	};
	ori_info_write(feature, &found, sizeof(found));
	return ORIEL_OK;
}
