/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of a machine, and their text: a line "oriel-doctor 1", then one line "name value"
 * per fact. A fact without a line is unknown. Blank lines and lines that begin with # are
 * ignored. The files inspect_*.c add facts, the checks look them up, and `oriel doctor` prints
 * and reads the text.
 */
#ifndef ORI_DOCTOR_FACTS_H
#define ORI_DOCTOR_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#define ORI_FACTS_VERSION 1u
#define ORI_FACTS_GPUS 16u
#define ORI_FACTS_NICS 32u
#define ORI_FACT_TEXT 64

/* Known numbers and flags are not negative. */
#define ORI_FACT_UNKNOWN (-1)
#define ORI_FACT_NO 0
#define ORI_FACT_YES 1
#define ORI_FACT_UNLIMITED INT64_MAX

/* Known texts are printable and not empty. */
typedef char ori_fact_text[ORI_FACT_TEXT];

/* A GPU that the driver lists. */
struct ori_facts_gpu {
	ori_fact_text pci;
	ori_fact_text name;
	ori_fact_text reach;  /* a letter per GPU: S self, A with atomics, N without, - no access */
	ori_fact_text fabric; /* none, not started, in progress, completed, failed */
	ori_fact_text iommu;  /* none, identity, DMA, DMA-FQ */
	int64_t numa;         /* NUMA node */
	int64_t capability;   /* 90 is 9.0 */
	int64_t descriptors;  /* exports memory as descriptors */
	int64_t fabric_handles; /* exports memory as fabric handles */
	int64_t cluster;        /* its fabric spans machines */
	int64_t rdma;           /* GPUDirect RDMA */
	int64_t rdma_vmm;       /* GPUDirect RDMA of mapped (VMM) memory */
	int64_t dmabuf;         /* exports its memory as dma-buf */
	int64_t stream_memops;  /* stream memory operations */
	int64_t acs;            /* a bridge above it redirects peer-to-peer traffic (ACS) */
};

/* The first port of an RDMA NIC. */
struct ori_facts_nic {
	ori_fact_text name;
	ori_fact_text driver; /* "none" for a NIC in software */
	ori_fact_text pci;    /* PCI address, "none" for a NIC in software */
	ori_fact_text port;   /* active, down, init, armed */
	ori_fact_text link;   /* infiniband, ethernet */
	ori_fact_text subnet; /* InfiniBand: the prefix that its subnet manager set */
	ori_fact_text net;    /* its network interface */
	ori_fact_text iommu;
	int64_t numa;
	int64_t acs;
	int64_t mtu;      /* of the port, in bytes */
	int64_t mtu_net;  /* of the network interface */
	int64_t pfc;      /* mask of lossless priorities */
	int64_t gid_v1;   /* number of RoCE v1 addresses */
	int64_t gid_v2;   /* number of RoCE v2 addresses */
	int64_t lid;      /* InfiniBand: has a LID */
	int64_t sm;       /* InfiniBand: knows a subnet manager */
	int64_t opens;    /* this user can open it through libibverbs */
	int64_t pins;     /* registers a page of memory */
	int64_t atomics;  /* has 64-bit atomics */
	int64_t dmabuf;   /* registers dma-bufs */
	int64_t devx;     /* executes DEVX commands */
	int64_t doorbell; /* a GPU can map its doorbell page */
	int64_t umem;     /* accepts queues in GPU memory */
};

struct ori_facts {
	ori_fact_text kernel;
	ori_fact_text arch;
	ori_fact_text nvidia; /* driver version */
	int64_t container;
	int64_t memfd;
	int64_t sockets;
	int64_t files; /* file descriptors this process may open */
	int64_t files_most;
	int64_t memlock; /* bytes */
	int64_t memlock_exempt;
	int64_t shm;    /* bytes of /dev/shm */
	int64_t ptrace; /* Yama's ptrace_scope, 0 without Yama */
	int64_t allows_mapped, allows_rdma, allows_soft, allows_nic, allows_fabric;
	int64_t built_gpu, built_fabric, built_t3, built_posted;
	int64_t bus_gpus; /* on the PCI bus */
	int64_t bus_nics; /* Mellanox NICs there */
	int64_t nics;     /* RDMA devices that the kernel has a driver for */
	int64_t cuda;
	int64_t cuda_version;
	int64_t cuda_result; /* of cuInit() */
	int64_t nvidia_open; /* open kernel modules */
	int64_t nvidia_override;
	int64_t nvidia_streamops; /* EnableStreamMemOPs, which older drivers need */
	int64_t peermem;
	int64_t imex; /* the driver supports IMEX channels */
	int64_t imex_channels;
	int64_t verbs, mlx5;    /* libibverbs and libmlx5 load */
	int64_t cqe_size;       /* MLX5_CQE_SIZE, 0: unset */
	int64_t cqe_compressed; /* MLX5_ENABLE_CQE_COMPRESSION */

	unsigned gpu_count;
	unsigned nic_count;
	struct ori_facts_gpu gpu[ORI_FACTS_GPUS];
	struct ori_facts_nic nic[ORI_FACTS_NICS];
};

/* Set every fact to unknown. */
void ori_facts_clear(struct ori_facts *facts);

/* Pure. After a failure @facts is undefined and the error text names the line. */
enum oriel_status ori_facts_parse(const char *text, size_t length, struct ori_facts *facts);

/* Pure. Returns the length that was needed, as snprintf() does. */
size_t ori_facts_write(const struct ori_facts *facts, char *buffer, size_t length);

/* Set @fact to @text, without unprintable characters and truncated if too long. */
void ori_fact_set(ori_fact_text *fact, const char *text);

#endif
