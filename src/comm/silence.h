/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that do not run any more. Each watcher counts a word up, its beat, and others read it
 * through memory or get it by rdma: a limit that passed is blamed on the rank that stood still, and
 * not on one that waited for it as well. The watcher observes; health.c asks.
 */
#ifndef ORI_COMM_SILENCE_H
#define ORI_COMM_SILENCE_H

#include "comm/comm.h"

enum oriel_status ori_silence_open(struct oriel_comm *comm);
/* No thread asks any more. */
void ori_silence_close(struct oriel_comm *comm);
/* One turn of the watcher: this rank's beat, and those of mapped ranks. */
void ori_silence_watch(struct oriel_comm *comm);
/*
 * The watcher: the beat of this turn. It has the rank that this one suspects, too, which is how
 * ranks without a link to the suspect learn of it.
 */
uint64_t ori_silence_beat(const struct oriel_comm *comm);
/* The watcher: @beat is the last one that @peer, which beats by rdma, has sent. */
void ori_silence_see(struct oriel_comm *comm, unsigned peer, uint64_t beat);
/* Has a rank not run for as long as ORIEL_HEARTBEAT says? *@record is of that. */
bool ori_silence_is_over(const struct oriel_comm *comm, struct oriel_dev_fault *record);
/*
 * The watcher has stopped: had @peer not run for as long as ORIEL_HEARTBEAT says, by what this rank
 * saw then, or by the failure that it got?
 */
bool ori_silence_was_over(const struct oriel_comm *comm, unsigned peer);
/* Any thread: a rank that has not run for as long as the limit of @comm, or ORIEL_DEV_NO_RANK. */
unsigned ori_silence_past(const struct oriel_comm *comm);
/* The same as ori_silence_blame(), of a wait whose limit breaks nothing: each answer is new. */
unsigned ori_silence_suspect(const struct oriel_comm *comm, uint64_t age_ns, uint64_t *silent_ns);
/*
 * Any thread, after a limit has passed in a wait of @age_ns: the rank that has not run for longest,
 * if that is half of @age_ns and a second at least, and *@silent_ns; ORIEL_DEV_NO_RANK: all run, as
 * far as this rank sees. The first answer stays, since ranks end one after the other afterwards.
 */
unsigned ori_silence_blame(const struct oriel_comm *comm, uint64_t age_ns, uint64_t *silent_ns);

#endif
