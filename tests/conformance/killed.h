/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the program killed share the state of a rank, and the places where it may wait. */
#ifndef ORIEL_TESTS_KILLED_H
#define ORIEL_TESTS_KILLED_H

#include <oriel/dev.h>
#include <oriel/oriel.h>

struct rank_state {
	const struct oriel_bootstrap *bootstrap;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	unsigned victim;
	enum oriel_status (*wait)(struct rank_state *p); /* where the test says */
	struct oriel_allgather *allgather;               /* of tests that prepare one */
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	struct oriel_gather *gather;
	struct oriel_scatter *scatter;
	struct oriel_reduce *reduce;
	struct oriel_reduce_scatter *reduce_scatter;
	struct oriel_allreduce *allreduce;
	void *memory; /* of all but the first */
};

struct killed_wait {
	const char *name;
	enum oriel_status (*wait)(struct rank_state *p);
	enum oriel_status (*prepare)(struct rank_state *p); /* by all ranks; NULL: nothing */
	bool is_running; /* the victim does as its peers, until it is killed at some point */
};

/* killed_collectives.c; the last has no name. */
extern const struct killed_wait killed_collectives[];
void killed_collectives_destroy(struct rank_state *p);

#endif
