/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How GPUs are joined, from NVIDIA's management library, opened at run time. Its
 * absence is no error: whoever asks gets told why there is no answer. GPUs are
 * named by their place on the PCI bus ("0000:17:00.0"). Any thread.
 */
#ifndef ORI_SYS_NVML_H
#define ORI_SYS_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORI_NVML_WHY 200 /* enough for every reason */

/* Of an NVLink fabric, as far as the library tells. */
enum ori_nvml_fabric_state {
	ORI_NVML_FABRIC_NONE,     /* not a GPU for one */
	ORI_NVML_FABRIC_IDLE,     /* has not begun to join it */
	ORI_NVML_FABRIC_JOINING,  /* under way */
	ORI_NVML_FABRIC_COMPLETE, /* has joined, or has failed for good */
};

struct ori_nvml_fabric {
	enum ori_nvml_fabric_state state;
	int status; /* of a complete state: 0 unless it has failed */
	uint32_t clique;
	uint8_t cluster[16]; /* 0: the fabric of one node */
};

/* False: @why [ORI_NVML_WHY] says what is missing. */
bool ori_nvml_open(char *why);
bool ori_nvml_fabric(const char *pci, struct ori_nvml_fabric *fabric, char *why);

/* Do two GPUs of this node reach each other by NVLink? False: nobody knows. */
bool ori_nvml_is_nvlink(const char *a, const char *b, bool *is_nvlink);

/* GPUs that the library sees; 0 if it is not there. */
unsigned ori_nvml_count(void);
/* Where GPU @index is; false if that cannot be told. */
bool ori_nvml_pci(unsigned index, char *pci, size_t length);

#endif
