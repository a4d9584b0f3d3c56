/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WQEs and CQEs of mlx5 as bytes: pure functions, the same on the CPU and in a kernel.
 * dev/detail/mlx5_ring.h, the links and the software HCA call them. Every WQE made here asks for a
 * CQE, and is one basic block of 64 bytes but for the masked compare-and-swap of 8 bytes, which
 * is two.
 *
 * Fields are big-endian on the wire; keys, numbers and addresses are passed in the order of the
 * machine.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_MLX5_H
#define ORIEL_DEV_DETAIL_MLX5_H

#include <string.h>

#include <oriel/dev/detail/order.h>
#include <oriel/dev/detail/queue.h>

/* The byte swaps below are how a little-endian machine writes big-endian. */
#ifndef __CUDACC__
ORIEL_DEV_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
#endif

#define ORIEL_MLX5_BLOCK 64u                  /* bytes of a WQE, and of a CQE */
#define ORIEL_MLX5_INLINE_MAX 28u             /* bytes of data inside a WQE */
#define ORIEL_MLX5_LENGTH_MAX (1u << 30)      /* bytes that one WQE moves */
#define ORIEL_MLX5_DEPTH_MAX (1u << 15)       /* WQEs of a ring: the counter has 16 bits */
#define ORIEL_MLX5_CQE_INDEX_MASK 0x00ffffffu /* the bits that a WAIT compares */
#define ORIEL_MLX5_INLINE_SEGMENT 0x80000000u /* in the byte count of a data segment */

enum ori_dev_mlx5_opcode {
	ORIEL_MLX5_NOP = 0x00,
	ORIEL_MLX5_WRITE = 0x08,
	ORIEL_MLX5_WRITE_IMM = 0x09, /* takes a receive of the peer */
	ORIEL_MLX5_WAIT = 0x0f,
	ORIEL_MLX5_READ = 0x10,
	ORIEL_MLX5_COMPARE_SWAP = 0x11,
	ORIEL_MLX5_FETCH_ADD = 0x12,
	ORIEL_MLX5_MASKED_COMPARE_SWAP = 0x14,
	ORIEL_MLX5_MASKED_FETCH_ADD = 0x15,
	ORIEL_MLX5_DUMP = 0x23,
};

/* Byte 0 of a WQE: the length of the operand of a masked atomic. */
enum ori_dev_mlx5_modifier {
	ORIEL_MLX5_MASKED_32 = 0x08,
	ORIEL_MLX5_MASKED_64 = 0x09,
};

/* Byte 11 of a WQE: the requests for which the HCA waits before it starts this one. */
enum ori_dev_mlx5_fence {
	ORIEL_MLX5_FENCE_NONE = 0x00,
	ORIEL_MLX5_FENCE_SMALL = 0x20,
	ORIEL_MLX5_FENCE_READS = 0x40, /* READs and atomics of this queue */
	ORIEL_MLX5_FENCE_ALL = 0x60,   /* everything before it on this queue */
	ORIEL_MLX5_FENCE_READS_SMALL = 0x80,
};

/* The same byte: when a CQE is written. */
#define ORIEL_MLX5_CQE_ALWAYS 0x08u

#define ORIEL_MLX5_WQE_IMMEDIATE 0x0cu /* the value of a WRITE_IMM, big-endian */

/* Bits 7:4 of the last byte of a CQE. */
enum ori_dev_mlx5_completion {
	ORIEL_MLX5_DONE = 0x0,
	ORIEL_MLX5_RECEIVED = 0x1, /* a WRITE_IMM of the peer */
	ORIEL_MLX5_FAILED = 0xd,
	ORIEL_MLX5_RECEIVE_FAILED = 0xe,
	ORIEL_MLX5_INVALID = 0xf, /* not written yet */
};

/* The queue and index of a WQE, and the requests that it waits for. */
struct ori_dev_mlx5_head {
	uint64_t index; /* the wire has its low 16 bits */
	uint32_t qpn;
	uint32_t fence; /* enum ori_dev_mlx5_fence */
};

/* Memory as an HCA knows it. */
struct ori_dev_rdma_address {
	uint64_t address;
	uint32_t key;
};

ORIEL_DEV uint64_t ori_dev_mlx5_pair(uint32_t first, uint32_t second)
{
	return (uint64_t)ori_dev_swap_bytes32(second) << 32 | ori_dev_swap_bytes32(first);
}

/* Segment @number, 16 bytes, of the WQE at @slot, from two halves in wire order. */
ORIEL_DEV void ori_dev_mlx5_segment(void *slot, uint32_t number, uint64_t low, uint64_t high)
{
#ifdef __CUDA_ARCH__
	((ulonglong2 *)slot)[number] = make_ulonglong2(low, high);
#else
	((uint64_t *)slot)[2 * number] = low;
	((uint64_t *)slot)[2 * number + 1] = high;
#endif
}

/* @units: length of the WQE in 16 bytes. */
ORIEL_DEV void ori_dev_mlx5_control(void *slot, struct ori_dev_mlx5_head head, uint32_t opcode,
				    uint32_t units)
{
	ori_dev_mlx5_segment(slot, 0,
			     ori_dev_mlx5_pair((uint32_t)(head.index & 0xffff) << 8 | opcode,
					       head.qpn << 8 | units),
			     ori_dev_mlx5_pair(head.fence | ORIEL_MLX5_CQE_ALWAYS, 0));
}

ORIEL_DEV void ori_dev_mlx5_remote(void *slot, struct ori_dev_rdma_address remote)
{
	ori_dev_mlx5_segment(slot, 1, ori_dev_swap_bytes(remote.address),
			     ori_dev_mlx5_pair(remote.key, 0));
}

ORIEL_DEV void ori_dev_mlx5_data(void *slot, uint32_t number, struct ori_dev_rdma_address local,
				 uint32_t length)
{
	ori_dev_mlx5_segment(slot, number, ori_dev_mlx5_pair(length, local.key),
			     ori_dev_swap_bytes(local.address));
}

/* A WQE that moves no bytes has no data segment: a byte count of 0 would stand for 2^31. */
ORIEL_DEV void ori_dev_mlx5_move(void *slot, struct ori_dev_mlx5_head head, uint32_t opcode,
				 struct ori_dev_rdma_address remote,
				 struct ori_dev_rdma_address local, uint32_t length)
{
	ori_dev_mlx5_control(slot, head, opcode, length ? 3 : 2);
	ori_dev_mlx5_remote(slot, remote);
	if (length)
		ori_dev_mlx5_data(slot, 2, local, length);
}

/* All of these: @slot is aligned to 64 bytes. One thread. */
ORIEL_DEV void ori_dev_mlx5_wqe_nop(void *slot, struct ori_dev_mlx5_head head)
{
	ori_dev_mlx5_control(slot, head, ORIEL_MLX5_NOP, 1);
}

/* At most ORIEL_MLX5_LENGTH_MAX bytes. */
ORIEL_DEV void ori_dev_mlx5_wqe_write(void *slot, struct ori_dev_mlx5_head head,
				      struct ori_dev_rdma_address remote,
				      struct ori_dev_rdma_address local, uint32_t length)
{
	ori_dev_mlx5_move(slot, head, ORIEL_MLX5_WRITE, remote, local, length);
}

/* At most ORIEL_MLX5_LENGTH_MAX bytes. */
ORIEL_DEV void ori_dev_mlx5_wqe_read(void *slot, struct ori_dev_mlx5_head head,
				     struct ori_dev_rdma_address remote,
				     struct ori_dev_rdma_address local, uint32_t length)
{
	ori_dev_mlx5_move(slot, head, ORIEL_MLX5_READ, remote, local, length);
}

/*
 * @data is copied now and need not be registered; at most
 * ORIEL_MLX5_INLINE_MAX bytes. The count of 4 bytes and the first 12 of the
 * data share a segment.
 */
ORIEL_DEV void ori_dev_mlx5_wqe_write_inline(void *slot, struct ori_dev_mlx5_head head,
					     struct ori_dev_rdma_address remote, const void *data,
					     uint32_t length)
{
	/*
	 * Words of 4 bytes: nvcc would keep 8-byte words that other stores overlap in local
	 * memory.
	 */
	uint32_t word[8] = {ori_dev_swap_bytes32(ORIEL_MLX5_INLINE_SEGMENT | length)};

	ori_dev_mlx5_control(slot, head, ORIEL_MLX5_WRITE, !length ? 2 : length <= 12 ? 3 : 4);
	ori_dev_mlx5_remote(slot, remote);
	if (!length)
		return;
	memcpy(word + 1, data, length);
	ori_dev_mlx5_segment(slot, 2, (uint64_t)word[1] << 32 | word[0],
			     (uint64_t)word[3] << 32 | word[2]);
	if (length > 12)
		ori_dev_mlx5_segment(slot, 3, (uint64_t)word[5] << 32 | word[4],
				     (uint64_t)word[7] << 32 | word[6]);
}

/* Turn the WRITE at @slot into a WRITE_IMM, whose @immediate the peer gets in a CQE. */
ORIEL_DEV void ori_dev_mlx5_wqe_immediate(void *slot, uint32_t immediate)
{
	uint32_t value = ori_dev_swap_bytes32(immediate);

	((uint8_t *)slot)[3] = ORIEL_MLX5_WRITE_IMM;
	memcpy((char *)slot + ORIEL_MLX5_WQE_IMMEDIATE, &value, 4);
}

/* Turn the WQE at @slot into one that writes a CQE only if it fails. Not for mlx5_ring.h. */
ORIEL_DEV void ori_dev_mlx5_wqe_unsignaled(void *slot)
{
	((uint8_t *)slot)[11] &= (uint8_t)~ORIEL_MLX5_CQE_ALWAYS;
}

/* The old value goes to the 8 bytes at @result. */
ORIEL_DEV void ori_dev_mlx5_wqe_fetch_add(void *slot, struct ori_dev_mlx5_head head,
					  struct ori_dev_rdma_address remote,
					  struct ori_dev_rdma_address result, uint64_t add)
{
	ori_dev_mlx5_control(slot, head, ORIEL_MLX5_FETCH_ADD, 4);
	ori_dev_mlx5_remote(slot, remote);
	ori_dev_mlx5_segment(slot, 2, ori_dev_swap_bytes(add), 0);
	ori_dev_mlx5_data(slot, 3, result, 8);
}

ORIEL_DEV void ori_dev_mlx5_wqe_compare_swap(void *slot, struct ori_dev_mlx5_head head,
					     struct ori_dev_rdma_address remote,
					     struct ori_dev_rdma_address result, uint64_t compare,
					     uint64_t swap)
{
	ori_dev_mlx5_control(slot, head, ORIEL_MLX5_COMPARE_SWAP, 4);
	ori_dev_mlx5_remote(slot, remote);
	ori_dev_mlx5_segment(slot, 2, ori_dev_swap_bytes(swap), ori_dev_swap_bytes(compare));
	ori_dev_mlx5_data(slot, 3, result, 8);
}

/*
 * Masked atomics, whose old value is returned big-endian if it has 4 bytes. A set bit i of
 * @boundary stops the carry out of bit i: 0 adds, all ones is exclusive or.
 */
ORIEL_DEV void ori_dev_mlx5_wqe_masked_add32(void *slot, struct ori_dev_mlx5_head head,
					     struct ori_dev_rdma_address remote,
					     struct ori_dev_rdma_address result, uint32_t add,
					     uint32_t boundary)
{
	ori_dev_mlx5_control(slot, head,
			     (uint32_t)ORIEL_MLX5_MASKED_32 << 24 | ORIEL_MLX5_MASKED_FETCH_ADD, 4);
	ori_dev_mlx5_remote(slot, remote);
	ori_dev_mlx5_segment(slot, 2, ori_dev_mlx5_pair(add, boundary), 0);
	ori_dev_mlx5_data(slot, 3, result, 4);
}

ORIEL_DEV void ori_dev_mlx5_wqe_masked_add64(void *slot, struct ori_dev_mlx5_head head,
					     struct ori_dev_rdma_address remote,
					     struct ori_dev_rdma_address result, uint64_t add,
					     uint64_t boundary)
{
	ori_dev_mlx5_control(slot, head,
			     (uint32_t)ORIEL_MLX5_MASKED_64 << 24 | ORIEL_MLX5_MASKED_FETCH_ADD, 4);
	ori_dev_mlx5_remote(slot, remote);
	ori_dev_mlx5_segment(slot, 2, ori_dev_swap_bytes(add), ori_dev_swap_bytes(boundary));
	ori_dev_mlx5_data(slot, 3, result, 8);
}

/* If old and @compare agree in @compare_mask, @swap replaces the bits of @swap_mask. */
struct ori_dev_mlx5_swap {
	uint64_t swap, compare;
	uint64_t swap_mask, compare_mask;
};

/* The low 4 bytes of each field of @s. */
ORIEL_DEV void ori_dev_mlx5_wqe_masked_swap32(void *slot, struct ori_dev_mlx5_head head,
					      struct ori_dev_rdma_address remote,
					      struct ori_dev_rdma_address result,
					      const struct ori_dev_mlx5_swap *s)
{
	ori_dev_mlx5_control(slot, head,
			     (uint32_t)ORIEL_MLX5_MASKED_32 << 24 | ORIEL_MLX5_MASKED_COMPARE_SWAP,
			     4);
	ori_dev_mlx5_remote(slot, remote);
	ori_dev_mlx5_segment(slot, 2, ori_dev_mlx5_pair((uint32_t)s->swap, (uint32_t)s->compare),
			     ori_dev_mlx5_pair((uint32_t)s->swap_mask, (uint32_t)s->compare_mask));
	ori_dev_mlx5_data(slot, 3, result, 4);
}

/*
 * Two blocks: @next is the slot of index + 1, which may be the first of the ring. The WQE has
 * one CQE, which breaks the rule of mlx5_ring.h that CQE i is of block i: it must not go to
 * those queues.
 */
ORIEL_DEV void ori_dev_mlx5_wqe_masked_swap64(void *slot, void *next, struct ori_dev_mlx5_head head,
					      struct ori_dev_rdma_address remote,
					      struct ori_dev_rdma_address result,
					      const struct ori_dev_mlx5_swap *s)
{
	ori_dev_mlx5_control(slot, head,
			     (uint32_t)ORIEL_MLX5_MASKED_64 << 24 | ORIEL_MLX5_MASKED_COMPARE_SWAP,
			     5);
	ori_dev_mlx5_remote(slot, remote);
	ori_dev_mlx5_segment(slot, 2, ori_dev_swap_bytes(s->swap), ori_dev_swap_bytes(s->compare));
	ori_dev_mlx5_segment(slot, 3, ori_dev_swap_bytes(s->swap_mask),
			     ori_dev_swap_bytes(s->compare_mask));
	ori_dev_mlx5_data(next, 0, result, 8);
}

/*
 * Hold back the queue until CQE @cqe, counted from 0 since @cqn was created,
 * has been written. It must lie within 2^23 of the last one written.
 */
ORIEL_DEV void ori_dev_mlx5_wqe_wait(void *slot, struct ori_dev_mlx5_head head, uint32_t cqn,
				     uint64_t cqe)
{
	ori_dev_mlx5_control(slot, head, ORIEL_MLX5_WAIT, 2);
	ori_dev_mlx5_segment(slot, 1, 0,
			     ori_dev_mlx5_pair((uint32_t)cqe & ORIEL_MLX5_CQE_INDEX_MASK, cqn));
}

/* Read @length local bytes, at least 1, so that earlier DMA to them has landed. */
ORIEL_DEV void ori_dev_mlx5_wqe_dump(void *slot, struct ori_dev_mlx5_head head,
				     struct ori_dev_rdma_address local, uint32_t length)
{
	ori_dev_mlx5_control(slot, head, ORIEL_MLX5_DUMP, 2);
	ori_dev_mlx5_data(slot, 1, local, length);
}

/* The doorbell: the index after the last WQE, and the queue. */
ORIEL_DEV uint64_t ori_dev_mlx5_doorbell_value(uint32_t qpn, uint64_t end)
{
	return ori_dev_mlx5_pair((uint32_t)(end & 0xffff) << 8, qpn << 8);
}

/* The doorbell record of the send queue for the same. */
ORIEL_DEV uint32_t ori_dev_mlx5_record_value(uint64_t end)
{
	return ori_dev_swap_bytes32((uint32_t)(end & 0xffff));
}

/* Field of 32 or 64 bits at byte @at of a WQE or CQE. */
ORIEL_DEV uint32_t ori_dev_mlx5_get32(const void *bytes, uint32_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)bytes + at, 4);
	return ori_dev_swap_bytes32(value);
}

ORIEL_DEV uint64_t ori_dev_mlx5_get64(const void *bytes, uint32_t at)
{
	uint64_t value;

	memcpy(&value, (const char *)bytes + at, 8);
	return ori_dev_swap_bytes(value);
}

/* A CQE in the order of the machine. */
struct ori_dev_mlx5_cqe {
	uint64_t index; /* of the CQE in its queue; it determines the owner bit */
	uint64_t wqe;   /* index of the WQE, of which the wire has 16 bits */
	uint32_t qpn;
	uint32_t length;    /* in bytes */
	uint8_t completion; /* enum ori_dev_mlx5_completion */
	uint8_t opcode;     /* of the WQE */
	uint8_t syndrome;   /* enum ori_dev_queue_syndrome, if it failed */
	uint8_t vendor;
	uint32_t immediate; /* of a received WRITE_IMM */
};

/*
 * The last 4 bytes of a CQE as one word, as loaded: counter, signature, opcode and owner. The
 * HCA writes this word last.
 */
#define ORIEL_MLX5_TAIL 0x3cu
#define ORIEL_MLX5_IMMEDIATE 0x24u
#define ORIEL_MLX5_BYTES 0x2cu
#define ORIEL_MLX5_ERROR 0x34u
#define ORIEL_MLX5_DATA 32u        /* length, lkey and address of the local memory of a WQE */
#define ORIEL_MLX5_ATOMIC_DATA 48u /* ... of an atomic of one block */
#define ORIEL_MLX5_ATOMIC_LKEY 52u
#define ORIEL_MLX5_ORIGIN 0x38u /* opcode and queue of the WQE */

ORIEL_DEV const uint32_t *ori_dev_mlx5_cqe_word(const void *cqe, uint32_t at)
{
	return (const uint32_t *)(const void *)((const char *)cqe + at);
}

ORIEL_DEV uint32_t ori_dev_mlx5_tail_completion(uint32_t tail)
{
	return tail >> 28;
}

ORIEL_DEV uint32_t ori_dev_mlx5_tail_owner(uint32_t tail)
{
	return tail >> 24 & 1;
}

/* Low 16 bits of the index of the WQE. */
ORIEL_DEV uint32_t ori_dev_mlx5_tail_counter(uint32_t tail)
{
	return (tail & 0xff) << 8 | (tail >> 8 & 0xff);
}

/* The argument is the word at ORIEL_MLX5_ERROR, as loaded. */
ORIEL_DEV uint32_t ori_dev_mlx5_error_syndrome(uint32_t error)
{
	return error >> 24;
}

ORIEL_DEV uint32_t ori_dev_mlx5_error_vendor(uint32_t error)
{
	return error >> 16 & 0xff;
}

/* The tail of @cqe in a ring of 2^@log_depth. */
ORIEL_DEV uint32_t ori_dev_mlx5_cqe_tail(const struct ori_dev_mlx5_cqe *cqe, uint32_t log_depth)
{
	uint32_t owner = (uint32_t)(cqe->index >> log_depth) & 1;

	return ((uint32_t)cqe->completion << 4 | owner) << 24 | (uint32_t)(cqe->wqe & 0xff) << 8 |
	       (uint32_t)(cqe->wqe >> 8 & 0xff);
}

/* Write all 64 bytes but the tail. The software HCA writes these first. */
ORIEL_DEV void ori_dev_mlx5_cqe_body(void *slot, const struct ori_dev_mlx5_cqe *cqe)
{
	uint32_t *word = (uint32_t *)slot;
	uint32_t i;

	for (i = 0; i < ORIEL_MLX5_TAIL / 4; i++)
		word[i] = 0;
	word[ORIEL_MLX5_IMMEDIATE / 4] = ori_dev_swap_bytes32(cqe->immediate);
	word[ORIEL_MLX5_BYTES / 4] = ori_dev_swap_bytes32(cqe->length);
	if (cqe->completion == ORIEL_MLX5_FAILED || cqe->completion == ORIEL_MLX5_RECEIVE_FAILED)
		word[ORIEL_MLX5_ERROR / 4] = (uint32_t)cqe->syndrome << 24 | (uint32_t)cqe->vendor
										     << 16;
	word[ORIEL_MLX5_ORIGIN / 4] = ori_dev_swap_bytes32((uint32_t)cqe->opcode << 24 | cqe->qpn);
}

/* One thread per queue. Acquired by any thread that polls the tail. */
ORIEL_DEV void ori_dev_mlx5_cqe_write(void *slot, const struct ori_dev_mlx5_cqe *cqe,
				      uint32_t log_depth)
{
	ori_dev_mlx5_cqe_body(slot, cqe);
	ori_dev_store_release32((uint32_t *)(void *)((char *)slot + ORIEL_MLX5_TAIL),
				ori_dev_mlx5_cqe_tail(cqe, log_depth));
}

/* Mark the CQE at @slot as never written: owner 1, so that lap 0 is not it. */
ORIEL_DEV void ori_dev_mlx5_cqe_clear(void *slot)
{
	memset(slot, 0xff, ORIEL_MLX5_BLOCK);
}

#endif
