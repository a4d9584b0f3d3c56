/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are reached by rdma report failures to each other, and show each other that
 * they are alive. The watcher posts and polls.
 */
#ifndef ORI_COMM_HEARTBEAT_H
#define ORI_COMM_HEARTBEAT_H

#include "comm/comm.h"

enum oriel_status ori_heartbeat_open(struct oriel_comm *comm);
/* Keys of the table where peers report, once it is open. */
const struct oriel_dev_keys *ori_heartbeat_rkeys(const struct oriel_comm *comm);
/* The link to @peer is ready; @rkeys are of its table. */
void ori_heartbeat_join(struct oriel_comm *comm, unsigned peer, const struct oriel_dev_keys *rkeys);
/*
 * One turn of the watcher; true if the next one should be soon. @is_serving: a peer may use a link
 * that has not begun here, and whose failure it would see without a cause.
 */
bool ori_heartbeat_watch(struct oriel_comm *comm, bool is_serving);
/*
 * Sends no more beats and waits, for a second at most, until none is in flight: peers may
 * close their links then.
 */
void ori_heartbeat_stop(struct oriel_comm *comm);
/* Waits, for a second at most, until the failure of @comm is reported to all peers. */
void ori_heartbeat_await_reports(struct oriel_comm *comm);
/* Links and watcher are closed. */
void ori_heartbeat_close(struct oriel_comm *comm);

#endif
