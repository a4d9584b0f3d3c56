/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a GPU that a rank gives instead of its machine: oriel_comm_attr.topology, or else
 * ORIEL_TOPOLOGY. comm/ and p2p/ apply it to a GPU that they have opened, before any rank hears of
 * that GPU. docs/topology.md has the grammar.
 */
#ifndef ORI_TOPO_OVERRIDES_H
#define ORI_TOPO_OVERRIDES_H

#include "sys/gpu.h"

/* The values of a GPU that were given. Sent over the wire. */
enum ori_given_flags {
	ORI_GIVEN_CLUSTER = 1,
	ORI_GIVEN_CLIQUE = 2,
	ORI_GIVEN_NO_PEERS = 4,   /* peer_access=off */
	ORI_GIVEN_NO_RDMA = 8,    /* gpudirect=off */
	ORI_GIVEN_BY_CALLER = 16, /* by the attribute, not by the environment */
};

#define ORI_GIVEN_ALL 31u

/*
 * Apply @attribute, or ORIEL_TOPOLOGY if it is NULL, to @gpu; *@given says what it held. @gpu NULL:
 * there is no GPU, and the text is only checked. ORIEL_ERR_INVALID (attribute) or ORIEL_ERR_CONFIG
 * (environment) names the part that is wrong, and a fabric that @gpu does not have.
 */
enum oriel_status ori_topology_apply(const char *attribute, struct ori_gpu *gpu, uint32_t *given);

#endif
