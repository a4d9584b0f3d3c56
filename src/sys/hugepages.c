/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's huge pages from /proc and /sys. mem/memfd.c allocates by it, probe.c reports
 * it.
 */
#include "sys/hugepages.h"

#include <stdio.h>
#include <string.h>

#define THP_DIR "/sys/kernel/mm/transparent_hugepage/"

static void hugepages_read_hugetlb(struct ori_hugepages *p)
{
	unsigned long long value;
	char line[128];
	FILE *file;

	file = fopen("/proc/meminfo", "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "HugePages_Total: %llu", &value) == 1)
			p->hugetlb_total = value;
		else if (sscanf(line, "HugePages_Free: %llu", &value) == 1)
			p->hugetlb_free = value;
		else if (sscanf(line, "Hugepagesize: %llu", &value) == 1)
			p->hugetlb_size = value << 10;
	}
	fclose(file);
}

/* The active value is in brackets: "always [never] advise". */
static void hugepages_read_mode(struct ori_hugepages *p)
{
	char line[128], *open, *close;
	FILE *file;

	file = fopen(THP_DIR "shmem_enabled", "re");
	if (!file)
		return;
	if (fgets(line, sizeof(line), file)) {
		open = strchr(line, '[');
		close = open ? strchr(open, ']') : NULL;
		if (close)
			snprintf(p->shmem_mode, sizeof(p->shmem_mode), "%.*s",
				 (int)(close - open - 1), open + 1);
	}
	fclose(file);
}

static void hugepages_read_thp_size(struct ori_hugepages *p)
{
	unsigned long long value;
	FILE *file;

	file = fopen(THP_DIR "hpage_pmd_size", "re");
	if (!file)
		return;
	if (fscanf(file, "%llu", &value) == 1)
		p->thp_size = value;
	fclose(file);
}

static bool hugepages_mode_is_usable(const char *mode)
{
	static const char *const usable[] = {"always", "within_size", "advise", "force"};

	for (size_t i = 0; i < sizeof(usable) / sizeof(usable[0]); i++) {
		if (strcmp(mode, usable[i]) == 0)
			return true;
	}
	return false;
}

void ori_hugepages_read(struct ori_hugepages *pages)
{
	struct ori_hugepages p = {.shmem_mode = "absent"};

	hugepages_read_hugetlb(&p);
	hugepages_read_mode(&p);
	hugepages_read_thp_size(&p);
	p.is_thp_usable = p.thp_size > 0 && hugepages_mode_is_usable(p.shmem_mode);
	*pages = p;
}
