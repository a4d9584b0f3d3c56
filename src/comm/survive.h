/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place where the survivors of a broken communicator meet: a listener of each rank, of which
 * all others have the address while all is well, and handles of processes that may be killed.
 * comm.c opens it; vote.c and shrink.c use it.
 */
#ifndef ORI_COMM_SURVIVE_H
#define ORI_COMM_SURVIVE_H

#include <pthread.h>

#include "bootstrap/part.h"
#include "comm/comm.h"
#include "comm/exchange.h"
#include "net/listen.h"

#define ORI_SURVIVE_RANKS                                                       \
	4096u /* of a communicator that may be shrunk: an answer has their bits \
	       */

/* The outcome of an agreement. Goes over the wire as it is. */
struct ori_vote_value {
	uint32_t number; /* of the agreement */
	uint32_t leader; /* that proposed it first */
	/*
	 * ORIEL_AGAIN: a rank of the group was lost meanwhile; a failure: all ranks return it, with
	 * the text.
	 */
	int32_t status;
	uint32_t reserved;
	struct ori_part_offer offer; /* where the group meets */
	char text[ORI_VERDICT_TEXT];
	uint8_t lost[ORI_SURVIVE_RANKS / 8];    /* ranks that are not in the group */
	uint8_t suspect[ORI_SURVIVE_RANKS / 8]; /* those of them that are not known to be dead */
};

static_assert(sizeof(struct ori_vote_value) == 1344, "struct ori_vote_value goes over the wire");

static inline bool ori_vote_has(const uint8_t *bits, unsigned rank)
{
	return bits[rank / 8] >> rank % 8 & 1;
}

static inline void ori_vote_set(uint8_t *bits, unsigned rank)
{
	bits[rank / 8] = (uint8_t)(bits[rank / 8] | 1u << rank % 8);
}

/* Memory of the user that mapped ranks map. */
struct ori_unsafe_piece {
	unsigned rank; /* that maps it; ORIEL_NO_RANK: each that is mapped */
	const void *address;
	size_t length;
	uint64_t id; /* of struct ori_mem */
};

struct ori_survive {
	struct ori_survive *past;           /* of the communicator that was shrunk before */
	struct ori_listen_address *of;      /* [size] */
	struct ori_tls_context *tls;        /* NULL: the job has no key */
	struct ori_net_listener local, tcp; /* served while the rank votes */
	int *pidfds;                        /* [size], -1 where there is none */
	uint64_t *births;                   /* [size], of processes that this one sees, or 0 */
	struct ori_vote_value last;         /* of the agreement before @number */
	uint32_t number;                    /* of the next agreement, from 1 */
	/* The suspects of the last shrink, if it was refused. */
	uint8_t suspects[ORI_SURVIVE_RANKS / 8];
	pthread_mutex_t pieces_lock;     /* of the two below; ahead of that of all memory */
	struct ori_unsafe_piece *pieces; /* [piece_count], of unsafe.c */
	unsigned piece_count;
};

/*
 * This rank listens; @is_remote: ranks of other machines may have to reach it. Does nothing without
 * ORIEL_COMM_SHRINK.
 */
enum oriel_status ori_survive_open(struct oriel_comm *comm, bool is_remote,
				   struct ori_listen_address *address);
/* Takes the addresses of all ranks, @stride bytes apart; hosts are known. */
void ori_survive_join(struct oriel_comm *comm, const void *addresses, size_t stride);
/*
 * Remembers the processes of this machine, and opens handles of those that
 * ORIEL_COMM_KILL_SUSPECTS allows to kill. All of them have still to take part in an agreement, so
 * that no other process has their number.
 */
enum oriel_status ori_survive_watch(struct oriel_comm *comm);
/*
 * @comm was shrunk to @survivors, which keeps its listeners, without serving them, as long as it
 * lives, if @has_fenced: a rank that was removed alive, and comes late, must not take the others
 * for dead.
 */
void ori_survive_bury(struct oriel_comm *comm, struct oriel_comm *survivors, bool has_fenced);
/* @comm was grown to @grown, which keeps what @comm has of communicators before. */
void ori_survive_pass(struct oriel_comm *comm, struct oriel_comm *grown);
/* From now on peers find that no process listens here: this rank has let go of all memory. */
void ori_survive_close(struct oriel_comm *comm);

#define ORI_SURVIVE_ADDRESSES (ORI_HOSTS + 1) /* and loopback */
/* The addresses where @peer listens; returns their number. */
unsigned ori_survive_addresses(const struct oriel_comm *comm, unsigned peer,
			       struct ori_address addresses[ORI_SURVIVE_ADDRESSES]);

/*
 * Has the process of @peer ended, as the kernel that it shares with this one says? False if they
 * share none.
 */
bool ori_survive_has_ended(const struct oriel_comm *comm, unsigned peer);
/* Is @fd, connected to the unix socket of @peer, that of another process, which has its name now?
 */
bool ori_survive_is_another(const struct oriel_comm *comm, unsigned peer, int fd);

/* Do the two ranks map memory of each other, of the host or of GPUs? */
bool ori_survive_maps(const struct oriel_comm *comm, unsigned a, unsigned b);
/* Are the processes of both ranks on one machine, so that one may kill the other? */
bool ori_survive_may_kill(const struct oriel_comm *comm, unsigned rank, unsigned suspect);
/* Kills the process of @suspect and waits until it has ended, and its mappings with it. */
enum oriel_status ori_survive_kill(struct oriel_comm *comm, unsigned suspect);

#endif
