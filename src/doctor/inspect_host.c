/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of the operating system: limits, files in memory, sockets, and the settings of
 * Oriel and mlx5. machine.c reads them for `oriel doctor`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <oriel/dev/types.h>

#include "base/config.h"
#include "base/error.h"
#include "doctor/files.h"
#include "doctor/inspect.h"

#define CAP_IPC_LOCK_BIT 14

static int64_t host_limit(int which, int64_t *most)
{
	struct rlimit limit;

	if (getrlimit(which, &limit) != 0)
		return ORI_FACT_UNKNOWN;
	if (most)
		*most = limit.rlim_max == RLIM_INFINITY ? ORI_FACT_UNLIMITED
							: (int64_t)limit.rlim_max;
	return limit.rlim_cur == RLIM_INFINITY ? ORI_FACT_UNLIMITED : (int64_t)limit.rlim_cur;
}

/* Sealing is part of the trial: peers import only files that cannot shrink. */
static int64_t host_try_memfd(void)
{
	int fd = memfd_create("oriel-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int64_t is_sealed = fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0;

	if (fd >= 0)
		close(fd);
	return is_sealed;
}

/* A bare address family makes the kernel choose an abstract name. */
static int64_t host_try_socket(void)
{
	const struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int64_t is_bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address,
					   sizeof(address.sun_family)) == 0;

	if (fd >= 0)
		close(fd);
	return is_bound;
}

/*
 * Drivers check for the capability in the initial user namespace; in another one it has no effect.
 */
static int64_t host_is_memlock_exempt(const char *root)
{
	unsigned long long inside, outside, count, caps;
	char line[128];

	if (!ori_file_line(ori_file_path(root, "/proc/self/uid_map"), line, sizeof(line)) ||
	    sscanf(line, "%llu %llu %llu", &inside, &outside, &count) != 3)
		return ORI_FACT_UNKNOWN;
	if (outside != 0 || count != 4294967295u)
		return ORI_FACT_NO;
	if (!ori_file_find(ori_file_path(root, "/proc/self/status"), "CapEff:", line,
			   sizeof(line)) ||
	    sscanf(line, "CapEff: %llx", &caps) != 1)
		return ORI_FACT_UNKNOWN;
	return caps >> CAP_IPC_LOCK_BIT & 1 ? ORI_FACT_YES : ORI_FACT_NO;
}

static int64_t host_shm(const char *root)
{
	struct ori_file_path path = ori_file_path(root, "/dev/shm");
	struct statvfs fs;

	if (!ori_file_exists(path))
		return 0;
	if (statvfs(path.text, &fs) != 0)
		return ORI_FACT_UNKNOWN;
	return (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
}

static int64_t host_ptrace(const char *root)
{
	struct ori_file_path path = ori_file_path(root, "/proc/sys/kernel/yama/ptrace_scope");

	if (!ori_file_exists(ori_file_path(root, "/proc/sys/kernel")))
		return ORI_FACT_UNKNOWN;
	return ori_file_exists(path) ? ori_file_number(path) : 0;
}

static void host_inspect_settings(struct ori_facts *facts)
{
	const char *filter;
	enum ori_hca_request wish;
	unsigned mask;

	if (ori_setting_paths(&mask) != ORIEL_OK)
		return;
	facts->allows_mapped = (mask & 1u << ORIEL_PATH_MAPPED) != 0;
	facts->allows_rdma = (mask & 1u << ORIEL_PATH_RDMA) != 0;
	facts->allows_fabric = strcmp(ori_setting_text(ORI_SETTING_FABRIC), "off") != 0;
	wish = ori_setting_hca(&filter);
	facts->allows_soft = wish == ORI_HCA_REQUEST_AUTO || wish == ORI_HCA_REQUEST_SOFT;
	facts->allows_nic = wish == ORI_HCA_REQUEST_AUTO || wish == ORI_HCA_REQUEST_VERBS;
}

/* The effect of MLX5_ variables of the environment on CQEs, whose format device code relies on. */
static void host_inspect_cqe(struct ori_facts *facts)
{
	const char *size = getenv("MLX5_CQE_SIZE");
	const char *compression = getenv("MLX5_ENABLE_CQE_COMPRESSION");
	uint64_t value = 0;

	if (!size || ori_parse_unsigned("MLX5_CQE_SIZE", size, 1u << 16, &value) == ORIEL_OK)
		facts->cqe_size = (int64_t)value;
	facts->cqe_compressed = compression && *compression && strcmp(compression, "0") != 0;
}

void ori_inspect_host(const char *root, struct ori_facts *facts)
{
	struct ori_error before;
	struct utsname name;

	ori_error_save(&before);
	if (uname(&name) == 0) {
		ori_fact_set(&facts->kernel, name.release);
		ori_fact_set(&facts->arch, name.machine);
	}
	facts->container = ori_file_exists(ori_file_path(root, "/.dockerenv")) ||
			   ori_file_exists(ori_file_path(root, "/run/.containerenv"));
	facts->memfd = host_try_memfd();
	facts->sockets = host_try_socket();
	facts->files = host_limit(RLIMIT_NOFILE, &facts->files_most);
	facts->memlock = host_limit(RLIMIT_MEMLOCK, NULL);
	facts->memlock_exempt = host_is_memlock_exempt(root);
	facts->shm = host_shm(root);
	facts->ptrace = host_ptrace(root);
	host_inspect_settings(facts);
	host_inspect_cqe(facts);
	ori_error_restore(&before); /* an invalid setting is an unknown fact here, not an error */
}
