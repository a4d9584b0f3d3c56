/* SPDX-License-Identifier: Apache-2.0 */
/* A WQE as the software HCA reads it, strictly. Pure. The send queue calls it. */
#ifndef ORI_HCA_SOFT_WQE_H
#define ORI_HCA_SOFT_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_WQE_INLINE 28u /* bytes of data inside a WQE of one block */
#define SOFT_WQE_MOST (UINT32_C(1) << 30)
#define SOFT_WQE_BLOCKS 2u /* of 64 bytes, that a WQE has at most */

struct soft_wqe {
	uint8_t opcode;
	uint8_t fence; /* fm, 0 to 4 */
	bool is_signaled;
	bool is_inline;
	uint32_t rkey, lkey;
	uint64_t remote, local;
	uint32_t length;
	uint64_t operand, compare; /* of an atomic */
	uint64_t mask, swap_mask;  /* of a masked one: compare mask or field boundary */
	uint32_t wait_cqn, wait_index;
	uint32_t immediate;
	uint8_t data[SOFT_WQE_INLINE];
};

/* Number of blocks of the WQE that begins with @first, if it is one. */
unsigned ori_soft_wqe_blocks(const uint8_t first[64]);

/*
 * Read WQE @index of QP @qpn from @blocks blocks. NULL, or the rule that it
 * breaks: then only the opcode is sure to be set.
 */
const char *ori_soft_wqe_parse(const uint8_t *bytes, unsigned blocks, uint64_t index, uint32_t qpn,
			       struct soft_wqe *wqe);

bool ori_soft_wqe_is_masked(const struct soft_wqe *wqe);
/* Has it two blocks? */
bool ori_soft_wqe_is_double(const struct soft_wqe *wqe);

/* A WRITE, with immediate data or without. */
bool ori_soft_wqe_is_writing(const struct soft_wqe *wqe);

/* READs and atomics, which return data. */
bool ori_soft_wqe_is_fetching(const struct soft_wqe *wqe);

/* Does the peer execute it? */
bool ori_soft_wqe_is_remote(const struct soft_wqe *wqe);

/* "0000: 00 12 34 08 ..." in four lines; @text has at least 256 bytes. */
void ori_soft_wqe_dump(const uint8_t bytes[64], char *text, size_t size);

#endif
