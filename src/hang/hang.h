/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of waits of the jobs of a process of this host: read from the pages of
 * base/wait_page.h of its processes, which need not run for that. tools/hang.c calls it.
 */
#ifndef ORI_HANG_HANG_H
#define ORI_HANG_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#include "base/wait_page.h"

struct ori_hang_process {
	int pid;
	char state;    /* of its first thread, as /proc/PID/stat has it: R, S, D, T, t, Z; '?' */
	char name[20]; /* of the program */
};

struct ori_hang_wait {
	struct ori_wait_note note;
	uint64_t age_ns;
	int thread; /* 0: a kernel */
	/* Does it need each rank that it waits for? False: any of them may end it. */
	bool is_strict;
};

struct ori_hang_rank {
	const struct ori_hang_process *process; /* NULL: none of this host that can be read */
	struct ori_hang_wait *waits;
	unsigned wait_count;
	struct oriel_dev_fault health; /* FULL: the communicator is broken */
};

/* A communicator that a process of the job has. */
struct ori_hang_comm {
	uint8_t id[ORI_WAIT_ID];
	unsigned size;
	struct ori_hang_rank *ranks; /* [size] */
	unsigned *cycle; /* [size]: each rank waits for the next one, the last for the first */
	unsigned cycle_length; /* 0: there is none */
};

struct ori_hang {
	struct ori_hang_process *processes;
	unsigned process_count;
	struct ori_hang_comm *comms;
	unsigned comm_count;
};

/*
 * All processes of this host that share a communicator with process @pid, or with one that does,
 * and what they wait for. oriel_last_error() says why process @pid cannot be read.
 */
enum oriel_status ori_hang_read(int pid, struct ori_hang *hang);
void ori_hang_free(struct ori_hang *hang);

/* hang_graph.c: does @rank of @comm wait for @peer? @is_strict: and for no other one instead? */
bool ori_hang_awaits(const struct ori_hang_comm *comm, unsigned rank, unsigned peer,
		     bool is_strict);
/* Does the wait of @rank that is its number @index go on until @peer has acted? */
bool ori_hang_wait_is_for(const struct ori_hang_comm *comm, unsigned rank,
			  const struct ori_hang_wait *wait, unsigned peer);
/* Fills in is_strict and the cycle. */
enum oriel_status ori_hang_judge(struct ori_hang_comm *comm);
/* Others wait for @rank, and it waits for none. */
bool ori_hang_is_root(const struct ori_hang_comm *comm, unsigned rank);

/* "barrier: window 1, barrier slot 0: expected >= 5, seen 4" */
void ori_hang_wait_text(const struct ori_hang_wait *wait, char *text, size_t length);

#endif
