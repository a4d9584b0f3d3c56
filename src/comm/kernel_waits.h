/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waits of kernels. They leave no record of these, which would cost them registers, but the
 * windows that they use have words which show some of them, and which their own process can read
 * from its GPU. When `oriel hang` or ORIEL_HANG_SIGNAL asks (base/wait_page.h), the watcher starts
 * a thread that reads them: a copy may wait for other copies of the GPU, for which the watcher,
 * whose beats show that this rank runs, must not wait.
 */
#ifndef ORI_COMM_KERNEL_WAITS_H
#define ORI_COMM_KERNEL_WAITS_H

#include "comm/comm.h"

/* The member of a window in GPU memory; its file has write(), which adds the waits to the page. */
struct ori_kernel_waits {
	struct ori_kernel_waits *next;
	void (*write)(const struct ori_kernel_waits *waits);
};

/* A window is complete; and it ends: afterwards no thread reads it. */
void ori_kernel_waits_add(struct oriel_comm *comm, struct ori_kernel_waits *waits);
void ori_kernel_waits_remove(struct oriel_comm *comm, struct ori_kernel_waits *waits);

/* The watcher, in each turn. */
void ori_kernel_waits_serve(struct oriel_comm *comm);
/* Waits for that thread: the watcher has stopped. */
void ori_kernel_waits_close(struct oriel_comm *comm);

#endif
