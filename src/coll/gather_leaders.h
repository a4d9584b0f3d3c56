/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of a collective: domains of the host, or of GPUs. The leader of a node is its lowest
 * rank. Called as objects are created and by oriel_tune_find().
 */
#ifndef ORI_COLL_GATHER_LEADERS_H
#define ORI_COLL_GATHER_LEADERS_H

#include <oriel/comm.h>

/*
 * The leader of each rank; the caller frees the array. Local for hosts, collective for GPUs, since
 * a rank only knows which GPUs it has mapped itself.
 */
enum oriel_status ori_leaders_find(struct oriel_comm *comm, bool is_gpu, uint32_t **leaders);

/* The number of nodes: of ranks that lead themselves. */
unsigned ori_leaders_count(const uint32_t *leaders, unsigned ranks);

#endif
