/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header that kernels include: the operations of a device window. The same text is compiled
 * for GPUs and for CPU threads. oriel/dev/copy_group.h, for workers of p2p endpoints, is apart.
 *
 * Callers: a function that takes a group is called by all its threads with the same arguments
 * and returns the same to all; one without is called by one thread. Different groups may call
 * anything at once, except that one barrier slot, one end of one channel and one
 * wait_signal_next base belong to one group at a time.
 *
 * Results: functions that can fail return an enum oriel_status, but for the queries
 * oriel_dev_address(), oriel_dev_path(), oriel_dev_domain_size() and oriel_dev_domain_index(),
 * which return NULL, ORIEL_PATH_NONE, 0 or ORIEL_DEV_NO_INDEX. Functions that post something take a
 * @ticket as well: NULL, or where each thread of the group gets the ticket for
 * oriel_dev_wait_local(), which is zero after a failure. Without one are signals to all and
 * arrivals at barriers, which name no memory of the caller, and atomics, send, recv and whole
 * executions, which wait for what they post. Invalid arguments are rejected before anything is done
 * and leave a record for oriel_window_fault().
 *
 * Offsets: @at, @to, @from of a peer are offsets in its window, oriel_at(): a plain byte offset
 * means buffer 0. Zero bytes are legal everywhere, and the rank itself is a peer unless a
 * function says otherwise.
 *
 * Unreachable peers: an operation on a peer of the rdma path to which there is no link yet
 * (oriel_comm_connect(), ORIEL_WINDOW_SPARSE) returns ORIEL_ERR_NO_PATH, which breaks nothing;
 * a function that only waits for such a peer waits.
 *
 * Order: a group's put to a peer comes before its later signal, barrier or send to that peer: a
 * thread that has waited for the latter sees the former. Only flush orders anything else, also
 * operations to one peer of two windows that reach it by different paths (ORIEL_WINDOW_RDMA).
 *
 * Waits take a timeout in ns: 0 is the window's default and breaks the communicator when it
 * passes, since the job is stuck; any other only returns ORIEL_ERR_TIMEOUT, and the call may be
 * made again (a barrier then continues: oriel/dev/barrier.h); ORIEL_TIMEOUT_INFINITE waits for
 * ever. Every wait ends as soon as the communicator is broken, with the status that broke it.
 *
 * Versions: these functions, with the helpers of oriel/dev/detail, are compiled into the program.
 * Where the library makes handles of another version, the call that fills one returns
 * ORIEL_ERR_MISMATCH; device functions return ORIEL_ERR_VERSION for such a handle. The program is
 * then compiled again, with the headers of the library that it runs with.
 */
#ifndef ORIEL_DEV_H
#define ORIEL_DEV_H

#include <oriel/dev/atomic.h>
#include <oriel/dev/barrier.h>
#include <oriel/dev/channel.h>
#include <oriel/dev/counter.h>
#include <oriel/dev/data.h>
#include <oriel/dev/domain.h>
#include <oriel/dev/exchange.h>
#include <oriel/dev/gather.h>
#include <oriel/dev/group.h>
#include <oriel/dev/lines.h>
#include <oriel/dev/ll.h>
#include <oriel/dev/ll128.h>
#include <oriel/dev/message.h>
#include <oriel/dev/reduction.h>
#include <oriel/dev/signal.h>
#include <oriel/dev/types.h>
#include <oriel/dev/wait.h>
#include <oriel/dev/word.h>

#endif
