/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a word of one's own. Kernels and threads of the CPU call it; see oriel/dev.h for what
 * holds for all device functions.
 */
#ifndef ORIEL_DEV_WAIT_H
#define ORIEL_DEV_WAIT_H

#include <oriel/dev/detail/wait.h>

/*
 * One thread of @g: wait until *aim->word compares, at most @timeout_ns (0 = the window's). The
 * thread then sees everything written before the value was released. @aim also names what the
 * record of a failure says: the operation, the peer and the number.
 */
ORIEL_DEV enum oriel_status oriel_dev_wait_word(const struct oriel_dev_window *w,
						struct oriel_dev_group g,
						const struct oriel_dev_aim *aim,
						uint64_t timeout_ns)
{
	uint64_t seen;

	return ori_dev_wait_value(w, g, aim, timeout_ns, &seen);
}

#endif
