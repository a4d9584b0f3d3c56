/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher of a communicator: a thread that sees exited peers, failed queues and failures
 * of kernels. comm.c starts and stops it; ori_comm_wake() makes it poll now.
 */
#ifndef ORI_COMM_WATCHER_H
#define ORI_COMM_WATCHER_H

#include "comm/comm.h"

/* Sockets and links are there. Starts no thread if there is nothing to poll. */
enum oriel_status ori_watcher_start(struct oriel_comm *comm);
/*
 * *@fd becomes readable once @comm is broken, as long as the watcher runs; it is the
 * communicator's. The thread of the collective calls.
 */
enum oriel_status ori_watcher_broken_fd(struct oriel_comm *comm, int *fd);
/* The end of @comm: closes that descriptor, if there is one. The watcher has stopped. */
void ori_watcher_close(struct oriel_comm *comm);
/* Links may be closed afterwards. May be called without a thread. */
void ori_watcher_stop(struct oriel_comm *comm);

#endif
