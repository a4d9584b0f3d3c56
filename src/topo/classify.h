/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two descriptions compared. All of it is pure: every rank holds the same
 * descriptions and so comes to the same answer about any two ranks.
 */
#ifndef ORI_TOPO_CLASSIFY_H
#define ORI_TOPO_CLASSIFY_H

#include <stdbool.h>

#include "topo/host.h"

#define ORI_REASON_LENGTH 768 /* enough for every reason */

/*
 * How @rank_a on @a and @rank_b on @b reach each other. @reason (NULL if
 * @length is 0) gets why this path and why no better one. Path and text are
 * the same when the two are exchanged.
 */
enum oriel_path ori_classify(const struct ori_host *a, unsigned rank_a, const struct ori_host *b,
			     unsigned rank_b, char *reason, size_t length);

/*
 * The same for memory of their GPUs, which an NVLink fabric maps over nodes as
 * well. The hosts have been through ori_hosts_join_fabrics().
 */
enum oriel_path ori_classify_gpus(const struct ori_host *a, unsigned rank_a,
				  const struct ori_host *b, unsigned rank_b, char *reason,
				  size_t length);

/*
 * Take those out of their fabric of whom some rank that maps their memory is in
 * another one, or in none: what a fabric joins would not be transitive else.
 */
void ori_hosts_join_fabrics(struct ori_host *hosts, unsigned count);

/* Is memory of the one mapped by the other? Never asked for @a == @b. */
typedef bool ori_is_mapped(const void *context, unsigned a, unsigned b);

/* The relations that the above give; @hosts is a struct ori_host per rank. */
bool ori_hosts_are_mapped(const void *hosts, unsigned a, unsigned b);
bool ori_gpus_are_mapped(const void *hosts, unsigned a, unsigned b);

/*
 * Is the domain of @rank one? @members are the @count ranks, itself among
 * them, that @rank takes for mapped. Compares each pair of them both ways;
 * ORIEL_ERR_NO_PATH names the ranks that break symmetry or transitivity. A break
 * seen by no member of one domain is seen by a member of another: all ranks check.
 */
enum oriel_status ori_domain_check(unsigned rank, const unsigned *members, unsigned count,
				   ori_is_mapped *is_mapped, const void *context);

/* The ranks that share the machine of one rank, virtual nodes or not. */
struct ori_machine_load {
	unsigned ranks;
	unsigned cpus; /* that at least one of them may run on */
	bool is_oversubscribed;
};

/* @hosts has one entry for each of @count ranks. */
struct ori_machine_load ori_machine_load_of(const struct ori_host *hosts, unsigned count,
					    unsigned rank);

#endif
