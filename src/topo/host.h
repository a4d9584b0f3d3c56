/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of one process as bytes: where it runs and what it may use. It suffices to
 * decide how two processes reach each other. comm/ exchanges it, classify.h compares it.
 */
#ifndef ORI_TOPO_HOST_H
#define ORI_TOPO_HOST_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/dev/types.h>
#include <oriel/status.h>

#include "sys/gpu.h"
#include "topo/overrides.h"

#define ORI_HOST_MAGIC 0x5453484fu /* "OHST", little-endian */
#define ORI_HOST_VERSION 4u
#define ORI_HOST_NAME 64   /* bytes of a name, its NUL included */
#define ORI_HOST_CPUS 1024 /* CPUs beyond are not recorded */
#define ORI_HOST_REACH 16u /* other GPUs; those beyond are not recorded */

/* The paths that ORIEL_PATHS may allow. */
#define ORI_HOST_PATHS (1u << ORIEL_PATH_MAPPED | 1u << ORIEL_PATH_RDMA)

/* The kind of the NICs of a rank, known once they are open. */
enum ori_host_hca {
	ORI_HOST_HCA_UNKNOWN,
	ORI_HOST_HCA_SOFT,
	ORI_HOST_HCA_NIC,
};

/* The GPU of a rank's windows. All zero: the windows are in host memory. */
struct ori_host_gpu {
	uint8_t uuid[ORI_GPU_UUID];
	char pci[ORI_GPU_PCI]; /* for messages; "" without a GPU */
	uint32_t count;        /* entries of @reach; the process does not see any other GPU */
	uint32_t domain;       /* 0 over the wire; of ori_hosts_join() */
	uint32_t given;        /* mask of enum ori_given_flags */
	uint32_t reserved;     /* 0 */
	struct ori_gpu_fabric fabric;
	struct ori_gpu_reach reach[ORI_HOST_REACH];
};

/* Sent over the wire as is: fixed size, no hidden padding, little-endian. */
struct ori_host {
	uint32_t magic;
	uint32_t version;
	uint32_t length; /* of this struct */
	uint32_t paths;  /* mask of 1 << enum oriel_path this rank may use */

	uint8_t boot_id[16]; /* equal: the same running kernel */
	uint64_t pid_ns;     /* inodes of the namespaces; 0: the kernel has none */
	uint64_t ipc_ns;
	uint64_t net_ns; /* abstract unix socket names are local to it */
	uint64_t user_ns;
	uint64_t token; /* equal: the same process */

	uint32_t uid;
	uint32_t pid;
	uint32_t page_size;
	uint16_t hca_count; /* RDMA NICs that this process can use */
	uint16_t hca_kind;  /* enum ori_host_hca; UNKNOWN over the wire, since paths come first */

	char hostname[ORI_HOST_NAME];
	char node[ORI_HOST_NAME]; /* name of the virtual node, "" if none */
	uint64_t cpus[ORI_HOST_CPUS / 64];
	struct ori_host_gpu gpu;
};

static_assert(sizeof(struct ori_host) == 736, "struct ori_host goes over the wire");

/*
 * Describe this process, of which one thread is a rank on @node (NULL: no virtual node) that may
 * use @paths. ORIEL_ERR_INVALID if the name @node is too long.
 */
enum oriel_status ori_host_describe(const char *node, unsigned paths, struct ori_host *host);

/* Record that the windows of this rank are on @gpu, of which the caller has given @given. */
void ori_host_set_gpu(struct ori_host *host, const struct ori_gpu *gpu, uint32_t given);

/* Pure. ORIEL_ERR_VERSION or ORIEL_ERR_PROTOCOL if @bytes is not a valid description. */
enum oriel_status ori_host_parse(const void *bytes, size_t length, struct ori_host *host);

#endif
