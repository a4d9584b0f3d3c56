/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement among the ranks of a broken communicator that are left. shrink.c calls it.
 *
 * The lowest rank that is not lost leads. It waits until all others that are not lost have joined
 * it, proposes a value, and notifies them once all have accepted it: it is decided then. Where
 * a leader is lost, the ranks join the next one and report what they have accepted, which that one
 * proposes again. All ranks that return a value return the same. It is the agreement of
 * D. Buntinas, "Scalable Distributed Consensus to Support MPI Fault Tolerance" (IPDPS 2012), with a
 * star in place of its tree; tests/model/vote_model.c explores it.
 *
 * A rank is dead if its kernel says that its process has ended, where this one sees it, or that it
 * no longer listens at its addresses; it is suspected if it has not answered for as long as the
 * limit allows. One that accepts at its addresses and does not answer shows nothing: it may be
 * another process, which found them free. A rank that is lost is not listened to: where it comes
 * later it is told so.
 */
#ifndef ORI_COMM_VOTE_H
#define ORI_COMM_VOTE_H

#include "comm/survive.h"

struct ori_vote;

/*
 * At the leader: completes the value, whose lost, suspect and status are set: the latter to the
 * first failure that a rank brought, with its text.
 */
typedef void ori_vote_choose(void *context, struct ori_vote_value *value);

/* For the agreements of one call; @comm has ORIEL_COMM_SHRINK. */
enum oriel_status ori_vote_open(struct oriel_comm *comm, struct ori_vote **vote);
/* NULL is allowed. */
void ori_vote_close(struct ori_vote *vote);

/*
 * Agree once. @status, with the last error of this thread, is what this rank brings. ORIEL_OK: all
 * ranks that are left have *@value. ORIEL_ERR_PEER: the others have removed this rank. Blocks; the
 * limit for each step of a rank is that of the communicator, or ORIEL_HEARTBEAT if it is silent;
 * from the second agreement of a call on twice ori_setting_boot_limit(), if that is less.
 */
enum oriel_status ori_vote_agree(struct ori_vote *vote, enum oriel_status status,
				 ori_vote_choose *choose, void *context,
				 struct ori_vote_value *value);

/* Is @rank alive, or not known to be lost? */
bool ori_vote_is_here(const struct ori_vote *vote, unsigned rank);

/*
 * Opens a descriptor, the caller's, that becomes readable where a rank is lost, or is in the next
 * agreement: at the leader any rank, else the leader.
 */
enum oriel_status ori_vote_watch(struct ori_vote *vote, int *fd);

/*
 * After the last agreement, so that no rank leaves while another one does not know the decision,
 * for a leader was lost. @status is that decision: a rank that comes later learns from it whether
 * the others went on without it. The outcome of this one is of no interest.
 */
void ori_vote_part(struct ori_vote *vote, enum oriel_status status);

#endif
