/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the descriptions (struct ori_host) of two ranks. Every function is pure, and every
 * rank has the same descriptions, so all ranks reach the same result for any two ranks. comm
 * calls them to choose paths.
 */
#ifndef ORI_TOPO_CLASSIFY_H
#define ORI_TOPO_CLASSIFY_H

#include <stdbool.h>

#include "topo/host.h"

#define ORI_REASON_LENGTH 768 /* enough for every reason */

/*
 * Choose the path between @rank_a on @a and @rank_b on @b. @reason (NULL if @length is 0) gets why
 * this path, and why no better one. Path and text do not change if the two are exchanged.
 */
enum oriel_path ori_classify(const struct ori_host *a, unsigned rank_a, const struct ori_host *b,
			     unsigned rank_b, char *reason, size_t length);

/*
 * Is there an rdma path between the two, whatever other path there is? If not, @reason (NULL if
 * @length is 0) gets why.
 */
bool ori_classify_has_rdma(const struct ori_host *a, unsigned rank_a, const struct ori_host *b,
			   unsigned rank_b, char *reason, size_t length);

/*
 * The same for memory of their GPUs: ranks that map each other's host memory do so only if the
 * GPUs reach each other, and an NVLink fabric maps GPUs across nodes as well. ori_hosts_join() has
 * processed the hosts. A rank without a GPU has host memory only.
 */
enum oriel_path ori_classify_gpus(const struct ori_host *a, unsigned rank_a,
				  const struct ori_host *b, unsigned rank_b, char *reason,
				  size_t length);

/* The bus between two GPUs that map each other's memory, by what passes. */
enum ori_bus {
	ORI_BUS_WHOLE,   /* all: NVLink, or one GPU */
	ORI_BUS_ATOMICS, /* loads, stores and atomics, but lines may be split */
	ORI_BUS_STORES,  /* loads and stores: PCIe */
};

enum ori_bus ori_classify_bus(const struct ori_host *a, const struct ori_host *b);

/* The state of a fabric, enum ori_fabric_state, as text. */
const char *ori_fabric_text(uint32_t state);

/*
 * A number for the reasons of the paths between two ranks: reasons with equal numbers differ in
 * names of ranks and hosts only. The same if the two are exchanged.
 */
uint64_t ori_classify_kind(const struct ori_host *a, const struct ori_host *b);

/*
 * Make "maps the memory of that GPU" transitive, since some GPUs of a machine may reach only some
 * others. Each rank with a GPU joins, in rank order, the first domain whose members it all reaches,
 * or begins one: its domain then has the number of its lowest rank. A node whose GPUs are mapped
 * takes part in a fabric with all of them or with none.
 */
void ori_hosts_join(struct ori_host *hosts, unsigned count);

/* Do ranks @a and @b map each other's memory? Never called with @a == @b. */
typedef bool ori_is_mapped(const void *context, unsigned a, unsigned b);

/*
 * The relations by ori_classify() and ori_classify_gpus(); @hosts is an array of struct ori_host,
 * one per rank.
 */
bool ori_hosts_are_mapped(const void *hosts, unsigned a, unsigned b);
bool ori_gpus_are_mapped(const void *hosts, unsigned a, unsigned b);

/*
 * Check that the domain of @rank is consistent. @members are the @count ranks, @rank included,
 * that @rank considers mapped. Every pair is compared both ways; ORIEL_ERR_NO_PATH names the ranks
 * that break symmetry or transitivity. A break that no member of one domain sees is seen by a
 * member of another, so all ranks check.
 */
enum oriel_status ori_domain_check(unsigned rank, const unsigned *members, unsigned count,
				   ori_is_mapped *is_mapped, const void *context);

/* Does loopback, at each of the two, lead to the other? */
bool ori_hosts_share_network(const struct ori_host *a, const struct ori_host *b);
/* Do unix sockets, which take connections of their own user alone, do so? */
bool ori_hosts_share_sockets(const struct ori_host *a, const struct ori_host *b);

/* The ranks and CPUs of one machine, regardless of virtual nodes. */
struct ori_machine_load {
	unsigned ranks;
	unsigned cpus; /* that at least one of these ranks may run on */
	bool is_oversubscribed;
};

/* The load of the machine of @rank. @hosts has an entry for each of @count ranks. */
struct ori_machine_load ori_machine_load_of(const struct ori_host *hosts, unsigned count,
					    unsigned rank);

#endif
