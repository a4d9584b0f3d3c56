/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a communicator: the first failure, as a record that this rank, its peers and
 * its kernels write. Every file that waits checks it; any thread.
 */
#ifndef ORI_COMM_HEALTH_H
#define ORI_COMM_HEALTH_H

#include "comm/comm.h"

/* ORIEL_OK, or the failure that broke @comm, with its text. */
enum oriel_status ori_comm_check(const struct oriel_comm *comm);
bool ori_comm_is_well(const struct oriel_comm *comm);
/* Is it broken since a rank did not run for as long as ORIEL_HEARTBEAT says? */
bool ori_comm_is_silent(const struct oriel_comm *comm);

/*
 * Records a failure of @comm unless there is one already; @peer is ORIEL_DEV_NO_RANK if none.
 * @expected: of the record; of ORIEL_DEV_EXCHANGE the enum ori_call.
 */
void ori_comm_break(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
		    unsigned peer, uint64_t expected);
void ori_comm_break_for(struct oriel_comm *comm, const struct oriel_dev_fault *record);

/* The failure of @comm, which is broken, as a record for other ranks. */
struct oriel_dev_fault ori_comm_record(const struct oriel_comm *comm);

/* As ori_comm_break(), in the health of every rank of the domain, this one included. */
void ori_comm_break_all(struct oriel_comm *comm, enum oriel_status status, enum oriel_dev_what what,
			unsigned peer, uint64_t expected);

/*
 * Passes the failure of this rank on to its domain: without it the peers would only see
 * that this rank exited.
 */
void ori_comm_pass_on(struct oriel_comm *comm);

/*
 * Moves a failure that kernels of a rank reported to its health; any rank that maps
 * @control may call it. False if there is none.
 */
bool ori_health_collect(struct ori_control *control);

/* Any thread: makes the watcher, which finds what broke, poll now. False if there is none. */
bool ori_comm_wake(struct oriel_comm *comm);

#endif
