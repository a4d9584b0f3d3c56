/* SPDX-License-Identifier: Apache-2.0 */
/* A WQE as the software adapter reads it, strictly. Pure. */
#ifndef ORI_HCA_SOFT_WQE_H
#define ORI_HCA_SOFT_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_WQE_INLINE 28u /* bytes of data inside a WQE of one block */
#define SOFT_WQE_MOST (UINT32_C(1) << 30)

struct soft_wqe {
	uint8_t opcode;
	uint8_t fence; /* fm, 0 to 4 */
	bool is_signaled;
	bool is_inline;
	uint32_t rkey, lkey;
	uint64_t remote, local;
	uint32_t length;
	uint64_t operand, compare; /* of an atomic */
	uint32_t wait_cqn, wait_index;
	uint8_t data[SOFT_WQE_INLINE];
};

/*
 * Read the 64 bytes of WQE @index of QP @qpn. NULL, or what breaks the rules:
 * then only the opcode is set.
 */
const char *ori_soft_wqe_parse(const uint8_t bytes[64], uint64_t index, uint32_t qpn,
			       struct soft_wqe *wqe);

/* READs and atomics, which bring something back. */
bool ori_soft_wqe_is_fetching(const struct soft_wqe *wqe);

/* Does it travel to the peer? */
bool ori_soft_wqe_is_remote(const struct soft_wqe *wqe);

/* "0000: 00 12 34 08 ..." in four lines; @text has at least 256 bytes. */
void ori_soft_wqe_dump(const uint8_t bytes[64], char *text, size_t size);

#endif
