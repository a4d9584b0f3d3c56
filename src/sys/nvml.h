/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How GPUs are connected, by NVIDIA's management library (NVML), opened at run time. A missing
 * library is not an error: the caller gets a text with the reason. GPUs are named by their PCI
 * address ("0000:17:00.0"). Any thread.
 */
#ifndef ORI_SYS_NVML_H
#define ORI_SYS_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORI_NVML_WHY 200 /* enough for every text of a reason */
#define ORI_NVML_UUID 16

/* State of a GPU's NVLink fabric, as NVML reports it. */
enum ori_nvml_fabric_state {
	ORI_NVML_FABRIC_NONE,     /* the GPU does not support a fabric */
	ORI_NVML_FABRIC_IDLE,     /* registration has not started */
	ORI_NVML_FABRIC_JOINING,  /* registration is in progress */
	ORI_NVML_FABRIC_COMPLETE, /* registered, or failed for good */
};

struct ori_nvml_fabric {
	enum ori_nvml_fabric_state state;
	int status; /* of state COMPLETE: 0, or the error */
	uint32_t clique;
	uint8_t cluster[16]; /* 0: the fabric is confined to this node */
};

/* False if NVML cannot be used; @why [ORI_NVML_WHY] then gets the reason. */
bool ori_nvml_open(char *why);
bool ori_nvml_fabric(const char *pci, struct ori_nvml_fabric *fabric, char *why);

/* Does NVLink connect two GPUs of this node? Returns false if NVML does not report it. */
bool ori_nvml_is_nvlink(const char *a, const char *b, bool *is_nvlink);

/* The access of the GPU at @from to GPU @index; false if NVML does not report it. */
struct ori_nvml_reach {
	bool has_access; /* loads and stores */
	bool has_atomics;
	bool is_nvlink;
};

bool ori_nvml_reach(const char *from, unsigned index, struct ori_nvml_reach *reach);

/* GPUs that NVML lists, whatever CUDA_VISIBLE_DEVICES hides from this process; 0 without NVML. */
unsigned ori_nvml_count(void);
/* UUID of GPU @index; false if NVML does not report it. */
bool ori_nvml_uuid(unsigned index, uint8_t uuid[ORI_NVML_UUID]);
/* PCI address of GPU @index; false if NVML does not report it. */
bool ori_nvml_pci(unsigned index, char *pci, size_t length);

#endif
