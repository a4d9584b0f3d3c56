/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where facts come from. @root stands before the paths of /proc, /sys and /dev:
 * "" on a machine, a folder in tests. What cannot be found out stays unknown.
 */
#ifndef ORI_DOCTOR_INSPECT_H
#define ORI_DOCTOR_INSPECT_H

#include "doctor/facts.h"

void ori_inspect_host(const char *root, struct ori_facts *facts);
void ori_inspect_gpus(const char *root, struct ori_facts *facts);
void ori_inspect_nics(const char *root, struct ori_facts *facts);

/* What the PCI bus says of the device @pci ("0000:18:00.0"); outputs may stay unknown. */
void ori_inspect_pci(const char *root, const char *pci, int64_t *numa, int64_t *acs,
		     ori_fact_text *iommu);

/* How many devices of @vendor and a @class, its two upper bytes, the bus has. */
int64_t ori_inspect_bus(const char *root, unsigned vendor, const unsigned *classes, unsigned count);

/*
 * Priorities of the interface @net that are lossless, as a mask; and the same from
 * the bytes of the kernel's answer.
 */
int64_t ori_inspect_pfc(const char *net);
int64_t ori_inspect_pfc_reply(const void *bytes, size_t length);

/* Does a bridge with this configuration space redirect what one device sends to another? */
int64_t ori_inspect_acs(const unsigned char *config, size_t length);

#endif
