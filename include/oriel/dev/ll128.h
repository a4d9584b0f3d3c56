/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages whose lines show their own arrival, as in dev/ll.h, with one flag for 56 bytes:
 * nearly all of the bandwidth, and no fence. Kernels and threads of the CPU call it.
 *
 * A line has 128 bytes, in halves of 64, each with its flag in the last word. On a GPU four
 * threads of a warp write a half in one instruction, most often with the four of the other
 * half, and read it in one; they rely on a half never being seen in parts. That holds for
 * memory of a GPU, the rank's own or one that NVLink joins to it; oriel_dev_has_ll128() says
 * for which ranks. (NCCL relies on as much for whole lines, and so did this until one was seen
 * in halves: docs/memory-model.md.) For other ranks, also when only this rank's own memory is
 * on the host, ORIEL_ERR_NO_PATH. Groups of fewer than four threads, and CPUs, write the flags
 * of the same lines after the data.
 *
 * The flags order only the message itself: puts before it are not ordered.
 */
#ifndef ORIEL_DEV_LL128_H
#define ORIEL_DEV_LL128_H

#include <oriel/dev/detail/ll128.h>
#include <oriel/dev/lines.h>

/*
 * One thread: may messages in LL128 form go to @peer, or be waited for if that is this rank?
 */
ORIEL_DEV bool oriel_dev_has_ll128(const struct oriel_dev_window *w, uint32_t peer)
{
	return ori_dev_ll128_suits(w, peer);
}

/*
 * Whole group: write @length bytes, at most ORIEL_LL_MAX, at @from in LL128 form to offset @to
 * of @peer, where they take oriel_dev_ll128_length(@length) bytes; @to is a multiple of
 * ORIEL_LL128_LINE; of buffer 0 if this is a kernel. The rules for the target and for @epoch are
 * those of oriel_dev_put_ll().
 */
ORIEL_DEV enum oriel_status oriel_dev_put_ll128(const struct oriel_dev_window *w,
						struct oriel_dev_group g, uint32_t peer,
						uint64_t to, const void *from, uint64_t length,
						uint64_t epoch)
{
	struct ori_dev_ll128_slot slot = {NULL, 0, UINT64_MAX, epoch, 0};
	struct oriel_dev_target remote;
	enum oriel_status status;

	status = ori_dev_ll128_check(w, ORIEL_DEV_PUT_LL, peer, to, length, &remote);
	if (status != ORIEL_OK)
		return status;
	slot.base = remote.base;
	ori_dev_ll128_write(g, &slot, from, length);
	return ORIEL_OK;
}

/*
 * Whole group: wait until the message of @length bytes that some peer wrote with @epoch to
 * offset @at of this rank has arrived, and copy it to @to. After a timeout of the caller's own
 * call again; @to is undefined then.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_ll128(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint64_t at, void *to,
						 uint64_t length, uint64_t epoch,
						 uint64_t timeout_ns)
{
	return oriel_dev_vote(g, ori_dev_ll128_await(w, g, at, to, length, epoch, timeout_ns));
}

#endif
