/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of PCI devices: NUMA node, ACS of the bridges above, IOMMU type. The other files
 * inspect_*.c call it.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/files.h"
#include "doctor/inspect.h"

#define PCI_DEVICES "/sys/bus/pci/devices/"
#define PCI_EXTENDED 0x100u /* offset of the extended capabilities */
#define PCI_SPACE 4096u
#define PCI_ACS 0x000du
#define PCI_ACS_CONTROL 6u /* offset in the ACS capability */
#define PCI_ACS_REQUEST_REDIRECT 4u

static unsigned pci_word(const unsigned char *config, size_t at)
{
	return config[at] | (unsigned)config[at + 1] << 8;
}

/* Without privileges the kernel returns only the first 64 bytes. */
int64_t ori_inspect_acs(const unsigned char *config, size_t length)
{
	size_t at = PCI_EXTENDED, left = PCI_SPACE / 4;

	if (length < PCI_EXTENDED + 4)
		return ORI_FACT_UNKNOWN;
	while (at >= PCI_EXTENDED && at + 8 <= length && left-- > 0) {
		unsigned id = pci_word(config, at);

		if (id == PCI_ACS)
			return pci_word(config, at + PCI_ACS_CONTROL) & PCI_ACS_REQUEST_REDIRECT
				       ? ORI_FACT_YES
				       : ORI_FACT_NO;
		at = pci_word(config, at + 2) >> 4;
	}
	return ORI_FACT_NO;
}

static int64_t bridge_inspect_acs(const char *root, const char *bridge)
{
	struct ori_file_path path = ori_file_path(root, PCI_DEVICES "%s/config", bridge);
	unsigned char config[PCI_SPACE];
	FILE *file = fopen(path.text, "rbe");
	size_t length;

	if (!file)
		return ORI_FACT_UNKNOWN;
	length = fread(config, 1, sizeof(config), file);
	fclose(file);
	return ori_inspect_acs(config, length);
}

static bool is_pci_address(const char *text)
{
	unsigned domain, bus, device, function;
	int used = 0;

	return sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &used) == 4 &&
	       !text[used];
}

/* In /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 the bridges precede the device. */
static int64_t bridges_inspect_acs(const char *root, const char *pci)
{
	struct ori_file_path link = ori_file_path(root, PCI_DEVICES "%s", pci);
	int64_t acs = ORI_FACT_NO;
	char path[PATH_MAX], *rest = path, *part;

	if (!realpath(link.text, path))
		return ORI_FACT_UNKNOWN;
	while ((part = strsep(&rest, "/"))) {
		int64_t one;

		if (!rest || !is_pci_address(part))
			continue;
		one = bridge_inspect_acs(root, part);
		if (one == ORI_FACT_YES)
			return one;
		if (one == ORI_FACT_UNKNOWN)
			acs = one;
	}
	return acs;
}

void ori_inspect_pci(const char *root, const char *pci, int64_t *numa, int64_t *acs,
		     ori_fact_text *iommu)
{
	char line[64];

	if (!is_pci_address(pci) || !ori_file_exists(ori_file_path(root, PCI_DEVICES "%s", pci)))
		return;
	*numa = ori_file_number(ori_file_path(root, PCI_DEVICES "%s/numa_node", pci));
	*acs = bridges_inspect_acs(root, pci);
	if (ori_file_line(ori_file_path(root, PCI_DEVICES "%s/iommu_group/type", pci), line,
			  sizeof(line)))
		ori_fact_set(iommu, line);
	else if (!ori_file_exists(ori_file_path(root, PCI_DEVICES "%s/iommu_group", pci)))
		ori_fact_set(iommu, "none");
}

int64_t ori_inspect_bus(const char *root, unsigned vendor, const unsigned *classes, unsigned count)
{
	char **names;
	int entries = ori_file_list(ori_file_path(root, PCI_DEVICES), &names);
	int64_t found = 0;

	if (entries < 0)
		return ORI_FACT_UNKNOWN;
	for (int i = 0; i < entries; i++) {
		int64_t class, maker;

		maker = ori_file_number(ori_file_path(root, PCI_DEVICES "%s/vendor", names[i]));
		class = ori_file_number(ori_file_path(root, PCI_DEVICES "%s/class", names[i]));
		for (unsigned k = 0; k < count; k++)
			found += maker == (int64_t)vendor && class >> 8 == (int64_t)classes[k];
	}
	ori_file_free(names, entries);
	return found;
}
