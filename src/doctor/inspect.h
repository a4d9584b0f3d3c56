/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspects a machine and fills in its facts. @root precedes the paths of /proc, /sys and /dev: ""
 * for this machine, a directory in tests. Facts that cannot be found stay unknown.
 */
#ifndef ORI_DOCTOR_INSPECT_H
#define ORI_DOCTOR_INSPECT_H

#include "doctor/facts.h"

void ori_inspect_host(const char *root, struct ori_facts *facts);
void ori_inspect_gpus(const char *root, struct ori_facts *facts);
void ori_inspect_nics(const char *root, struct ori_facts *facts);

/* Facts of the PCI device @pci ("0000:18:00.0"); outputs may stay unknown. */
void ori_inspect_pci(const char *root, const char *pci, int64_t *numa, int64_t *acs,
		     ori_fact_text *iommu);

/* Count the PCI devices of @vendor whose class begins with one of the two-byte @classes. */
int64_t ori_inspect_bus(const char *root, unsigned vendor, const unsigned *classes, unsigned count);

/*
 * Mask of the lossless priorities of the interface @net; the second function parses the bytes of
 * the kernel's reply.
 */
int64_t ori_inspect_pfc(const char *net);
int64_t ori_inspect_pfc_reply(const void *bytes, size_t length);

/* Does a bridge with this configuration space redirect peer-to-peer requests (ACS)? */
int64_t ori_inspect_acs(const unsigned char *config, size_t length);

#endif
