/* SPDX-License-Identifier: Apache-2.0 */
/* The huge pages that the kernel reports now: mem/memfd.c and probe.c ask. Any thread. */
#ifndef ORI_SYS_HUGEPAGES_H
#define ORI_SYS_HUGEPAGES_H

#include <stdbool.h>
#include <stdint.h>

struct ori_hugepages {
	uint64_t hugetlb_size; /* bytes of the default size; 0: the kernel has none */
	uint64_t hugetlb_total;
	uint64_t hugetlb_free;
	uint64_t thp_size;   /* bytes of a transparent huge page; 0: none */
	char shmem_mode[16]; /* value of shmem_enabled: "never", "advise" ... */
	bool is_thp_usable;  /* shared memory gets them with madvise() */
};

void ori_hugepages_read(struct ori_hugepages *pages);

#endif
