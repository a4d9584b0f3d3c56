/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of its huge pages, as of now. Any thread. */
#ifndef ORI_SYS_HUGEPAGES_H
#define ORI_SYS_HUGEPAGES_H

#include <stdbool.h>
#include <stdint.h>

struct ori_hugepages {
	uint64_t hugetlb_size; /* of the default kind, in bytes; 0: the kernel has none */
	uint64_t hugetlb_total;
	uint64_t hugetlb_free;
	uint64_t thp_size;   /* of a transparent huge page, in bytes; 0: none */
	char shmem_mode[16]; /* setting for shared memory: "never", "advise" ... */
	bool is_thp_usable;  /* shared memory gets them for the asking */
};

void ori_hugepages_read(struct ori_hugepages *pages);

#endif
