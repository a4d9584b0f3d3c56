/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are a node: a domain of the host, or of GPUs. Its leader is its lowest rank. */
#ifndef ORI_COLL_GATHER_LEADERS_H
#define ORI_COLL_GATHER_LEADERS_H

#include <oriel/comm.h>

/*
 * The leader of each rank, to be freed. Local; of GPUs collective, for each rank knows its
 * own domain alone.
 */
enum oriel_status ori_leaders_find(struct oriel_comm *comm, bool is_gpu, uint32_t **leaders);

/* How many nodes that makes. */
unsigned ori_leaders_count(const uint32_t *leaders, unsigned ranks);

#endif
