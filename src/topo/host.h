/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process described as bytes: where it runs and what it may use. Enough
 * to decide, without asking again, how two processes can reach each other.
 */
#ifndef ORI_TOPO_HOST_H
#define ORI_TOPO_HOST_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/dev/types.h>
#include <oriel/status.h>

#include "sys/gpu.h"

#define ORI_HOST_MAGIC 0x5453484fu /* "OHST", little-endian */
#define ORI_HOST_VERSION 3u
#define ORI_HOST_NAME 64   /* bytes of a name, its NUL included */
#define ORI_HOST_CPUS 1024 /* later ones are left out */
#define ORI_HOST_REACH 16u /* other GPUs; later ones are left out */

/* What ORIEL_PATHS may allow. */
#define ORI_HOST_PATHS (1u << ORIEL_PATH_MAPPED | 1u << ORIEL_PATH_RDMA)

/* The GPU of a rank's windows. All zero: they lie in host memory. */
struct ori_host_gpu {
	uint8_t uuid[ORI_GPU_UUID];
	char pci[ORI_GPU_PCI]; /* for texts; "" if there is no GPU */
	uint32_t count;        /* in @reach; what is not there, the process does not see */
	uint32_t reserved;     /* 0 */
	struct ori_gpu_fabric fabric;
	struct ori_gpu_reach reach[ORI_HOST_REACH];
};

/* Goes over the wire as it is: fixed size, no hidden padding, little-endian. */
struct ori_host {
	uint32_t magic;
	uint32_t version;
	uint32_t length; /* of this struct */
	uint32_t paths;  /* mask of 1 << enum oriel_path this rank may use */

	uint8_t boot_id[16]; /* equal: the same running kernel */
	uint64_t pid_ns;     /* inodes of the namespaces; 0: the kernel has none */
	uint64_t ipc_ns;
	uint64_t net_ns; /* abstract unix sockets end here */
	uint64_t user_ns;
	uint64_t token; /* equal: the same process */

	uint32_t uid;
	uint32_t pid;
	uint32_t page_size;
	uint32_t hca_count; /* RDMA adapters this process can use */

	char hostname[ORI_HOST_NAME];
	char node[ORI_HOST_NAME]; /* the virtual node, "" if none */
	uint64_t cpus[ORI_HOST_CPUS / 64];
	struct ori_host_gpu gpu;
};

static_assert(sizeof(struct ori_host) == 728, "struct ori_host goes over the wire");

/*
 * Describe this process, one of whose threads is a rank on @node (NULL: none)
 * that may use @paths. ORIEL_ERR_INVALID for a @node that is too long.
 */
enum oriel_status ori_host_describe(const char *node, unsigned paths, struct ori_host *host);

/* The windows of this rank lie on @gpu. */
void ori_host_set_gpu(struct ori_host *host, const struct ori_gpu *gpu);

/* Pure. ORIEL_ERR_VERSION or ORIEL_ERR_PROTOCOL if @bytes are no description. */
enum oriel_status ori_host_parse(const void *bytes, size_t length, struct ori_host *host);

#endif
