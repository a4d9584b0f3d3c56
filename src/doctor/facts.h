/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a machine, and that as text: a line "oriel-doctor 1", then
 * one line "name value" for each fact. What has no line is unknown. Blank
 * lines and those with # are left out.
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

/* Numbers and flags are not negative where they are known. */
#define ORI_FACT_UNKNOWN (-1)
#define ORI_FACT_NO 0
#define ORI_FACT_YES 1
#define ORI_FACT_UNLIMITED INT64_MAX

/* Texts are printable and not empty where they are known. */
typedef char ori_fact_text[ORI_FACT_TEXT];

/* A GPU that the driver shows. */
struct ori_facts_gpu {
	ori_fact_text pci;
	ori_fact_text name;
	ori_fact_text reach;    /* one letter a GPU: S self, A with atomics, N without, - not */
	ori_fact_text fabric;   /* none, not started, in progress, completed, failed */
	ori_fact_text iommu;    /* none, identity, DMA, DMA-FQ */
	int64_t numa;           /* node of its memory */
	int64_t capability;     /* 90 is 9.0 */
	int64_t descriptors;    /* gives memory away by descriptor */
	int64_t fabric_handles; /* and by handles of a fabric */
	int64_t cluster;        /* its fabric spans machines */
	int64_t rdma;           /* GPUDirect RDMA */
	int64_t rdma_vmm;       /* also of mapped memory */
	int64_t dmabuf;         /* exports its memory as dma-buf */
	int64_t stream_memops;  /* its streams write words and wait for them */
	int64_t acs;            /* some bridge above it redirects peer traffic */
};

/* The first port of an RDMA adapter. */
struct ori_facts_nic {
	ori_fact_text name;
	ori_fact_text driver; /* "none" for one in software */
	ori_fact_text pci;    /* the same */
	ori_fact_text port;   /* active, down, init, armed */
	ori_fact_text link;   /* infiniband, ethernet */
	ori_fact_text net;    /* its network interface */
	ori_fact_text iommu;
	int64_t numa;
	int64_t acs;
	int64_t mtu;      /* of the port, in bytes */
	int64_t mtu_net;  /* of the interface */
	int64_t pfc;      /* mask of the priorities that lose nothing */
	int64_t gid_v1;   /* addresses of RoCE v1 */
	int64_t gid_v2;   /* and of RoCE v2 */
	int64_t opens;    /* for this user, through libibverbs */
	int64_t pins;     /* registers a page */
	int64_t atomics;  /* of 64 bits */
	int64_t dmabuf;   /* registers dma-bufs */
	int64_t devx;     /* takes commands of its maker */
	int64_t doorbell; /* a GPU has mapped its registers */
	int64_t umem;     /* takes queues in GPU memory */
};

struct ori_facts {
	ori_fact_text kernel;
	ori_fact_text arch;
	ori_fact_text nvidia; /* version of the driver */
	int64_t container;
	int64_t memfd;
	int64_t sockets;
	int64_t files; /* descriptors this process may have */
	int64_t files_most;
	int64_t memlock; /* bytes */
	int64_t memlock_exempt;
	int64_t shm;    /* bytes of /dev/shm */
	int64_t ptrace; /* scope of Yama, 0 without */
	int64_t allows_mapped, allows_rdma, allows_soft, allows_nic, allows_fabric;
	int64_t built_gpu, built_fabric, built_t3, built_posted;
	int64_t bus_gpus; /* on the PCI bus */
	int64_t bus_nics; /* adapters by Mellanox there */
	int64_t nics;     /* that the kernel has an RDMA driver for */
	int64_t cuda;
	int64_t cuda_version;
	int64_t cuda_result; /* of cuInit() */
	int64_t nvidia_open; /* the open kernel modules */
	int64_t nvidia_override;
	int64_t nvidia_streamops; /* which older drivers want for such words */
	int64_t peermem;
	int64_t imex; /* the driver knows its channels */
	int64_t imex_channels;
	int64_t verbs, mlx5;    /* libraries */
	int64_t cqe_size;       /* MLX5_CQE_SIZE, 0: not set */
	int64_t cqe_compressed; /* MLX5_ENABLE_CQE_COMPRESSION */

	unsigned gpu_count;
	unsigned nic_count;
	struct ori_facts_gpu gpu[ORI_FACTS_GPUS];
	struct ori_facts_nic nic[ORI_FACTS_NICS];
};

/* Nothing is known. */
void ori_facts_clear(struct ori_facts *facts);

/* Pure. @facts is undefined after a failure, whose text names the line. */
enum oriel_status ori_facts_parse(const char *text, size_t length, struct ori_facts *facts);

/* Pure. Returns the length that was needed, as snprintf() does. */
size_t ori_facts_write(const struct ori_facts *facts, char *buffer, size_t length);

/* @text becomes a value: what is not printable goes, and so does what is too long. */
void ori_fact_set(ori_fact_text *fact, const char *text);

#endif
