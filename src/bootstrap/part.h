/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap of some ranks of a job: rank 0 of a part offers it, the communicator carries the
 * offer to the other ranks of the part, and all of them open it. comm/split.c and comm/shrink.c
 * call it.
 */
#ifndef ORI_BOOTSTRAP_PART_H
#define ORI_BOOTSTRAP_PART_H

#include <stdbool.h>

#include <oriel/bootstrap.h>

#include "bootstrap/body.h"
#include "sys/hosts.h"

/* The extent of a part, which all of its ranks know alike. */
enum ori_part_extent {
	ORI_PART_PROCESS, /* threads of one process */
	ORI_PART_MACHINE, /* processes of one user that share the names of unix sockets */
	ORI_PART_NETWORK,
};

/* The place where the ranks of a part meet. Goes over the wire as it is. */
struct ori_part_offer {
	uint64_t job; /* ORI_PART_PROCESS: struct oriel_local_job in that process */
	union {
		struct ori_hosts hosts;              /* ORI_PART_NETWORK, with a port */
		unsigned char name[ORI_FDSOCK_NAME]; /* ORI_PART_MACHINE: of a unix socket */
		uint32_t number; /* ORI_PART_PROCESS: @job may be the address of a later one */
	};
	uint32_t port;
	unsigned char
		tag[ORI_TAG_LENGTH]; /* random, so that the ranks of other parts are refused */
};

/*
 * Rank 0 of a part keeps it until all ranks of the part have opened the bootstrap, or, once the
 * whole is broken, no longer: a rank that opens it later fails.
 */
struct ori_part_root {
	struct oriel_local_job *job;
	int listen_fd; /* -1: none */
};

/* Rank 0 of a part of @size ranks: make the place. @root is to be closed, also after a failure. */
enum oriel_status ori_part_offer(enum ori_part_extent extent, unsigned size,
				 struct ori_part_root *root, struct ori_part_offer *offer);
void ori_part_close(struct ori_part_root *root);

/* A rank of a part knows this of it. */
struct ori_part_join {
	enum ori_part_extent extent;
	const struct ori_part_offer *offer;
	struct ori_part_root
		*root; /* of rank 0, whose listener the bootstrap takes over; or NULL */
	unsigned rank, size;
	const struct ori_key *key; /* of the job; of length 0 if it has none */
	uint64_t timeout_ns;
	const int *abort_fd; /* of struct ori_tcp_job, or NULL */
};

/* All ranks of a part, together. */
enum oriel_status ori_part_open(const struct ori_part_join *join,
				struct oriel_bootstrap *bootstrap);

#endif
