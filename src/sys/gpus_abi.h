/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of cuda.h, for builds without it. gpus.c and the fake driver of the tests use them. */
#ifndef ORI_SYS_GPUS_ABI_H
#define ORI_SYS_GPUS_ABI_H

enum gpus_abi {
	GPUS_MAJOR = 75,
	GPUS_MINOR = 76,
	GPUS_DESCRIPTORS = 103,
	GPUS_RDMA_VMM = 110,
	GPUS_RDMA = 116,
	GPUS_STREAM_MEMOPS = 122,
	GPUS_DMABUF = 124,
	GPUS_FABRIC_HANDLES = 128,
	GPUS_P2P_ACCESS = 2,
	GPUS_P2P_ATOMICS = 3,
	GPUS_PIN_PORTABLE = 1,
	GPUS_PIN_MAPPED = 2,
	GPUS_PIN_IO = 4,
	GPUS_RANGE_DMABUF = 1,
};

#endif
