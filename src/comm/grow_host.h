/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of rank 0 where a communicator grows: its listener, from the invitation on, and a
 * connection to each process, or group, that joins. grow.c calls it; the thread of the
 * communicator's collective calls.
 */
#ifndef ORI_COMM_GROW_HOST_H
#define ORI_COMM_GROW_HOST_H

#include "comm/grow_frame.h"

/* NULL is allowed: there is no invitation. New ranks that have connected are disconnected. */
void ori_invite_close(struct oriel_comm *comm);

/*
 * Waits until @count new ranks are here. ORIEL_ERR_TIMEOUT: the text has how many came; a failure
 * of @comm ends it, too.
 */
enum oriel_status ori_invite_await(struct oriel_comm *comm, unsigned count, uint64_t deadline);
/* The extent of all ranks: those of @comm have @extent. */
enum ori_part_extent ori_invite_extent(const struct oriel_comm *comm, enum ori_part_extent extent);
/* Sends @welcome to all that are here, each with its ranks. */
void ori_invite_welcome(struct oriel_comm *comm, const struct ori_grow_welcome *welcome);
/* Adds the sockets of those that are here to @epoll: they are readable if one is lost, or fails. */
enum oriel_status ori_invite_watch(const struct oriel_comm *comm, int epoll);
/*
 * Waits for the results of all; the first that has failed, or is lost, is the failure. With a
 * deadline that has passed it only looks.
 */
enum oriel_status ori_invite_results(struct oriel_comm *comm, uint64_t deadline);
/* Notifies all that are here how it has ended: @status, with the last error of this thread. */
void ori_invite_end(struct oriel_comm *comm, enum oriel_status status);

#endif
