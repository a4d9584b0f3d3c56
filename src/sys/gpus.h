/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All GPUs that the driver shows, and what it says they can; with or without
 * cuda.h at compile time. What is not known is -1. Any thread.
 */
#ifndef ORI_SYS_GPUS_H
#define ORI_SYS_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORI_GPUS_MOST 16
#define ORI_GPUS_FABRIC_FAILED 4 /* complete, but not with success */

struct ori_gpus_item {
	char pci[16]; /* "0000:18:00.0" */
	char name[64];
	char reach[ORI_GPUS_MOST + 1]; /* a letter each: S self, A with atomics, N without, - not */
	int capability;                /* 90 is 9.0 */
	int descriptors;               /* 0, 1 from here on: memory leaves by descriptor */
	int fabric_handles;
	int rdma;
	int rdma_vmm;
	int dmabuf;
	int stream_memops; /* its streams write words and wait for them */
	int fabric;        /* enum ori_nvml_fabric_state, or the following */
	int cluster;       /* the fabric spans machines */
};

struct ori_gpus {
	bool has_library;
	int result; /* of cuInit(), a CUresult */
	int version;
	unsigned count;
	struct ori_gpus_item item[ORI_GPUS_MOST];
};

void ori_gpus_query(struct ori_gpus *gpus);

/* May the first GPU write to this page, registers of a device? -1: there is no GPU to ask. */
int ori_gpus_try_registers(void *page, size_t length);

/* Memory of the first GPU, as an adapter is to reach it. */
struct ori_gpus_memory {
	uint64_t address;
	int dmabuf; /* a descriptor, -1 where the driver gives none */
};

bool ori_gpus_alloc(size_t length, struct ori_gpus_memory *memory);
void ori_gpus_free(struct ori_gpus_memory *memory);

#endif
