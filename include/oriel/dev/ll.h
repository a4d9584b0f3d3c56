/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small messages whose words show their own arrival: each word of 8 bytes carries 4 bytes of
 * data and the 4 bytes of a flag, so that nothing has to be ordered and no thread waits for a
 * round trip. Over NVLink a message of a few KiB takes half the time of a put and a signal; it
 * takes twice the room and the bandwidth. Kernels and threads of the CPU call it; see
 * oriel/dev.h for what holds for all device functions.
 *
 * A word is single-copy atomic, so a waiter that finds the flag has the data. The flags order
 * only the message itself: puts before it are not ordered.
 *
 * Peers must be mapped: for others ORIEL_ERR_NO_PATH.
 */
#ifndef ORIEL_DEV_LL_H
#define ORIEL_DEV_LL_H

#include <oriel/dev/detail/ll.h>
#include <oriel/dev/lines.h>

/*
 * Whole group: write @length bytes, at most ORIEL_LL_MAX, at @from in LL form to offset @to of
 * @peer, where they take oriel_dev_ll_length(@length) bytes; @to is a multiple of ORIEL_LL_LINE.
 * The target is the two ranks' own: it must hold no flag @epoch, so count @epoch up from 1 if
 * memory began as zeros, and the peer must have taken the message before.
 */
ORIEL_DEV enum oriel_status oriel_dev_put_ll(const struct oriel_dev_window *w,
					     struct oriel_dev_group g, uint32_t peer, uint64_t to,
					     const void *from, uint64_t length, uint32_t epoch)
{
	struct ori_dev_ll_slot slot = {NULL, 0, UINT64_MAX, epoch, 0};
	struct oriel_dev_target remote;
	enum oriel_status status;

	if (!ORIEL_DEV_OFTEN(ori_dev_ll_is_fast(w, peer, to, length, &remote))) {
		status = ori_dev_ll_check(w, ORIEL_DEV_PUT_LL, peer, to, length, &remote);
		if (status != ORIEL_OK)
			return status;
		if (ori_dev_usable(remote.peer.path) != ORIEL_PATH_SELF &&
		    ori_dev_usable(remote.peer.path) != ORIEL_PATH_MAPPED)
			return ORIEL_ERR_NO_PATH;
	}
	slot.base = remote.base;
	ori_dev_ll_write(g, &slot, from, length);
	return ORIEL_OK;
}

/*
 * Whole group: wait until the message of @length bytes that some peer wrote with @epoch to
 * offset @at of this rank has arrived, and copy it to @to. After a timeout of the caller's own
 * call again; @to is undefined then.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_ll(const struct oriel_dev_window *w,
					      struct oriel_dev_group g, uint64_t at, void *to,
					      uint64_t length, uint32_t epoch, uint64_t timeout_ns)
{
	return oriel_dev_vote(g, ori_dev_ll_await(w, g, at, to, length, epoch, timeout_ns));
}

#endif
