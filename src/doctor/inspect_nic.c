/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of RDMA NICs: from /sys/class/infiniband, and from the trials of sys/nics.h.
 * machine.c reads them for `oriel doctor`.
 */
#include <ctype.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/files.h"
#include "doctor/inspect.h"
#include "sys/nics.h"

#define NICS "/sys/class/infiniband"
#define MELLANOX_VENDOR 0x15b3u

/* The last component of the link's target. */
static void nic_inspect_link(struct ori_file_path link, ori_fact_text *fact)
{
	char path[PATH_MAX];

	if (realpath(link.text, path))
		ori_fact_set(fact, basename(path));
}

/* "4: ACTIVE" */
static void nic_inspect_state(const char *root, struct ori_facts_nic *nic)
{
	char line[64], *word;

	if (!ori_file_line(ori_file_path(root, NICS "/%s/ports/1/state", nic->name), line,
			   sizeof(line)))
		return;
	word = strchr(line, ':');
	word = word ? word + 1 : line;
	for (char *c = word; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	ori_fact_set(&nic->port, word);
}

static void nic_inspect_layer(const char *root, struct ori_facts_nic *nic)
{
	char line[64];

	if (!ori_file_line(ori_file_path(root, NICS "/%s/ports/1/link_layer", nic->name), line,
			   sizeof(line)))
		return;
	for (char *c = line; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	ori_fact_set(&nic->link, line);
}

/* Whether, and not which: a LID is an address. */
static int64_t nic_has_lid(struct ori_file_path path)
{
	int64_t lid = ori_file_number(path);

	return lid < 0 ? ORI_FACT_UNKNOWN : lid > 0;
}

/* The subnet manager gives these to a port of InfiniBand. */
static void nic_inspect_subnet(const char *root, struct ori_facts_nic *nic)
{
	char gid[64];

	if (strcmp(nic->link, "infiniband") != 0)
		return;
	nic->lid = nic_has_lid(ori_file_path(root, NICS "/%s/ports/1/lid", nic->name));
	nic->sm = nic_has_lid(ori_file_path(root, NICS "/%s/ports/1/sm_lid", nic->name));
	if (!ori_file_line(ori_file_path(root, NICS "/%s/ports/1/gids/0", nic->name), gid,
			   sizeof(gid)) ||
	    strlen(gid) < strlen("fe80:0000:0000:0000"))
		return;
	gid[strlen("fe80:0000:0000:0000")] = '\0';
	ori_fact_set(&nic->subnet, gid);
}

static bool gid_is_empty(const char *root, const char *nic, const char *index)
{
	char line[64];

	return !ori_file_line(ori_file_path(root, NICS "/%s/ports/1/gids/%s", nic, index), line,
			      sizeof(line)) ||
	       strspn(line, "0:") == strlen(line);
}

/* Empty GID entries have a type too, or one that cannot be read. */
static void nic_inspect_gids(const char *root, struct ori_facts_nic *nic)
{
	char **names, line[64];
	int count =
		ori_file_list(ori_file_path(root, NICS "/%s/ports/1/gid_attrs/types", nic->name),
			      &names);

	if (count < 0)
		return;
	nic->gid_v1 = nic->gid_v2 = 0;
	for (int i = 0; i < count; i++) {
		if (!ori_file_line(ori_file_path(root, NICS "/%s/ports/1/gid_attrs/types/%s",
						 nic->name, names[i]),
				   line, sizeof(line)) ||
		    gid_is_empty(root, nic->name, names[i]))
			continue;
		if (strcmp(line, "RoCE v2") == 0)
			nic->gid_v2++;
		else
			nic->gid_v1++;
	}
	ori_file_free(names, count);
}

/* The interface is that of the first GID; a NIC in software names it as its parent. */
static void nic_inspect_net(const char *root, struct ori_facts_nic *nic)
{
	char line[64];

	if (!ori_file_line(ori_file_path(root, NICS "/%s/ports/1/gid_attrs/ndevs/0", nic->name),
			   line, sizeof(line)) &&
	    !ori_file_line(ori_file_path(root, NICS "/%s/parent", nic->name), line, sizeof(line)))
		return;
	ori_fact_set(&nic->net, line);
	nic->pfc = ori_inspect_pfc(nic->net);
	nic->mtu_net = ori_file_number(ori_file_path(root, "/sys/class/net/%s/mtu", nic->net));
}

/* A NIC in the kernel's software has no device link. */
static void nic_inspect_files(const char *root, struct ori_facts_nic *nic)
{
	if (!ori_file_exists(ori_file_path(root, NICS "/%s/device", nic->name))) {
		ori_fact_set(&nic->driver, "none");
		ori_fact_set(&nic->pci, "none");
	}
	nic_inspect_link(ori_file_path(root, NICS "/%s/device", nic->name), &nic->pci);
	nic_inspect_link(ori_file_path(root, NICS "/%s/device/driver", nic->name), &nic->driver);
	ori_inspect_pci(root, nic->pci, &nic->numa, &nic->acs, &nic->iommu);
	nic_inspect_state(root, nic);
	nic_inspect_layer(root, nic);
	nic_inspect_subnet(root, nic);
	nic_inspect_gids(root, nic);
	nic_inspect_net(root, nic);
}

/* Copy the results of sys/nics.h into the facts of the NIC of this name. */
static void nic_copy(const struct ori_nics *nics, struct ori_facts_nic *nic)
{
	for (unsigned i = 0; i < nics->count; i++) {
		const struct ori_nics_item *item = &nics->item[i];

		if (strcmp(item->name, nic->name) != 0)
			continue;
		nic->mtu = item->mtu;
		nic->opens = item->opens;
		nic->pins = item->pins;
		nic->atomics = item->atomics;
		nic->dmabuf = item->dmabuf;
		nic->devx = item->devx;
		nic->doorbell = item->doorbell;
		nic->umem = item->umem;
		return;
	}
	/* The kernel lists it and libibverbs does not: this user cannot open it. */
	if (nics->has_verbs)
		nic->opens = ORI_FACT_NO;
}

void ori_inspect_nics(const char *root, struct ori_facts *facts)
{
	static const unsigned network[] = {0x0200, 0x0207};
	struct ori_nics nics;
	char **names;
	int count;

	facts->bus_nics = ori_inspect_bus(root, MELLANOX_VENDOR, network, 2);
	ori_nics_query(&nics);
	facts->verbs = nics.has_verbs;
	facts->mlx5 = nics.has_mlx5;
	count = ori_file_list(ori_file_path(root, NICS), &names);
	facts->nics = count < 0 ? 0 : count;
	for (int i = 0; i < count && facts->nic_count < ORI_FACTS_NICS; i++) {
		struct ori_facts_nic *nic = &facts->nic[facts->nic_count++];

		ori_fact_set(&nic->name, names[i]);
		nic_inspect_files(root, nic);
		nic_copy(&nics, nic);
	}
	if (count >= 0)
		ori_file_free(names, count);
}
