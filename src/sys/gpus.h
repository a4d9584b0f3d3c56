/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All GPUs that the driver lists, and the features it reports, with or without cuda.h at compile
 * time: for `oriel doctor` and the trials of nics.c. An unknown value is -1. Any thread.
 */
#ifndef ORI_SYS_GPUS_H
#define ORI_SYS_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORI_GPUS_MOST 16
#define ORI_GPUS_FABRIC_FAILED 4 /* complete, but with an error status */

struct ori_gpus_item {
	char pci[16]; /* "0000:18:00.0" */
	char name[64];
	char reach[ORI_GPUS_MOST +
		   1];   /* a letter per GPU: S self, A with atomics, N without, - no access */
	int capability;  /* 90 is 9.0 */
	int descriptors; /* 0 or 1, as all that follow: memory is exported as descriptors */
	int fabric_handles;
	int rdma;
	int rdma_vmm;
	int dmabuf;
	int stream_memops; /* stream memory operations */
	int fabric;        /* enum ori_nvml_fabric_state, or ORI_GPUS_FABRIC_FAILED */
	int cluster;       /* the fabric spans machines */
};

struct ori_gpus {
	bool has_library;
	int result; /* CUresult of cuInit() */
	int version;
	unsigned count;
	struct ori_gpus_item item[ORI_GPUS_MOST];
};

void ori_gpus_query(struct ori_gpus *gpus);

/* Can the first GPU map this page of device registers? -1: no GPU to try with. */
int ori_gpus_try_registers(void *page, size_t length);

/* Memory of the first GPU, to try what a NIC accepts. */
struct ori_gpus_memory {
	uint64_t address;
	int dmabuf; /* file descriptor, -1 if the driver exports none */
};

bool ori_gpus_alloc(size_t length, struct ori_gpus_memory *memory);
void ori_gpus_free(struct ori_gpus_memory *memory);

#endif
