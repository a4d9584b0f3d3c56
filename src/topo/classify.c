/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/classify.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Why two processes cannot use a path. */
enum classify_bar {
	BAR_NONE,
	BAR_NODE,
	BAR_PATHS,
	BAR_MACHINE,
	BAR_PID_NS,
	BAR_IPC_NS,
	BAR_NET_NS,
	BAR_USER_NS,
	BAR_USER,
	BAR_ADAPTER,
};

/* Two ranks, the lower one first, so that all is symmetric. */
struct classify_pair {
	const struct ori_host *a, *b;
	unsigned rank_a, rank_b;
};

static bool host_may_use(const struct ori_host *h, enum oriel_path path)
{
	return h->paths & 1u << path;
}

static bool hosts_are_one_machine(const struct ori_host *a, const struct ori_host *b)
{
	return memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

/*
 * Descriptors pass over an abstract unix socket, whose name is known in one
 * network namespace only and whose ends check each other's user and pid.
 */
static enum classify_bar classify_mapped(const struct ori_host *a, const struct ori_host *b)
{
	if (strcmp(a->node, b->node) != 0)
		return BAR_NODE;
	if (!host_may_use(a, ORIEL_PATH_MAPPED) || !host_may_use(b, ORIEL_PATH_MAPPED))
		return BAR_PATHS;
	if (a->token == b->token)
		return BAR_NONE;
	if (!hosts_are_one_machine(a, b))
		return BAR_MACHINE;
	if (a->pid_ns != b->pid_ns)
		return BAR_PID_NS;
	if (a->ipc_ns != b->ipc_ns)
		return BAR_IPC_NS;
	if (a->net_ns != b->net_ns)
		return BAR_NET_NS;
	if (a->user_ns != b->user_ns)
		return BAR_USER_NS;
	return a->uid != b->uid ? BAR_USER : BAR_NONE;
}

static enum classify_bar classify_rdma(const struct ori_host *a, const struct ori_host *b)
{
	if (!host_may_use(a, ORIEL_PATH_RDMA) || !host_may_use(b, ORIEL_PATH_RDMA))
		return BAR_PATHS;
	return a->hca_count == 0 || b->hca_count == 0 ? BAR_ADAPTER : BAR_NONE;
}

/* "on rank 1 (host1)", "on ranks 1 (host1) and 2 (host2)": those of the two that are meant. */
static void classify_write_ranks(const struct classify_pair *p, bool is_a, bool is_b, char *text,
				 size_t length)
{
	if (is_a && is_b)
		snprintf(text, length, "on ranks %u (%s) and %u (%s)", p->rank_a, p->a->hostname,
			 p->rank_b, p->b->hostname);
	else
		snprintf(text, length, "on rank %u (%s)", is_a ? p->rank_a : p->rank_b,
			 is_a ? p->a->hostname : p->b->hostname);
}

static void classify_write_bar(const struct classify_pair *p, enum oriel_path path,
			       enum classify_bar bar, char *text, size_t length)
{
	const struct ori_host *a = p->a, *b = p->b;
	char who[192];

	switch (bar) {
	case BAR_NONE:
		snprintf(text, length, "%s",
			 path == ORIEL_PATH_RDMA ? "RDMA adapters on both"
			 : a->token == b->token  ? "same process"
						 : "same machine");
		break;
	case BAR_NODE:
		snprintf(text, length, "different virtual nodes (ORIEL_NODE \"%s\", \"%s\")",
			 a->node, b->node);
		break;
	case BAR_PATHS:
		classify_write_ranks(p, !host_may_use(a, path), !host_may_use(b, path), who,
				     sizeof(who));
		snprintf(text, length, "not allowed by ORIEL_PATHS %s", who);
		break;
	case BAR_MACHINE:
		snprintf(text, length, "different machines (%s, %s)", a->hostname, b->hostname);
		break;
	case BAR_PID_NS:
		snprintf(text, length, "different PID namespaces of one machine");
		break;
	case BAR_IPC_NS:
		snprintf(text, length, "different IPC namespaces of one machine");
		break;
	case BAR_NET_NS:
		snprintf(text, length, "different network namespaces of one machine");
		break;
	case BAR_USER_NS:
		snprintf(text, length, "different user namespaces of one machine");
		break;
	case BAR_USER:
		snprintf(text, length, "different users (%u, %u)", a->uid, b->uid);
		break;
	case BAR_ADAPTER:
		classify_write_ranks(p, a->hca_count == 0, b->hca_count == 0, who, sizeof(who));
		snprintf(text, length, "no RDMA adapter %s", who);
		break;
	}
}

static void classify_write_reason(const struct classify_pair *p, enum classify_bar mapped,
				  enum classify_bar rdma, char *reason, size_t length)
{
	char why_mapped[224], why_rdma[224];

	classify_write_bar(p, ORIEL_PATH_MAPPED, mapped, why_mapped, sizeof(why_mapped));
	classify_write_bar(p, ORIEL_PATH_RDMA, rdma, why_rdma, sizeof(why_rdma));
	if (mapped == BAR_NONE)
		snprintf(reason, length, "mapped: %s", why_mapped);
	else
		snprintf(reason, length, "mapped: %s; rdma: %s", why_mapped, why_rdma);
}

enum oriel_path ori_classify(const struct ori_host *a, unsigned rank_a, const struct ori_host *b,
			     unsigned rank_b, char *reason, size_t length)
{
	struct classify_pair p = {a, b, rank_a, rank_b};
	enum classify_bar mapped, rdma;

	if (rank_a == rank_b) {
		if (length > 0)
			snprintf(reason, length, "self: the rank itself");
		return ORIEL_PATH_SELF;
	}
	if (rank_a > rank_b)
		p = (struct classify_pair){b, a, rank_b, rank_a};

	mapped = classify_mapped(p.a, p.b);
	rdma = classify_rdma(p.a, p.b);
	if (length > 0)
		classify_write_reason(&p, mapped, rdma, reason, length);
	if (mapped == BAR_NONE)
		return ORIEL_PATH_MAPPED;
	return rdma == BAR_NONE ? ORIEL_PATH_RDMA : ORIEL_PATH_NONE;
}

bool ori_hosts_are_mapped(const void *hosts, unsigned a, unsigned b)
{
	const struct ori_host *h = hosts;

	return ori_classify(&h[a], a, &h[b], b, NULL, 0) == ORIEL_PATH_MAPPED;
}

enum oriel_status ori_domain_check(unsigned rank, const unsigned *members, unsigned count,
				   ori_is_mapped *is_mapped, const void *context)
{
	for (unsigned i = 0; i < count; i++) {
		for (unsigned j = i + 1; j < count; j++) {
			unsigned a = members[i], b = members[j];
			bool forth = is_mapped(context, a, b);
			bool back = is_mapped(context, b, a);

			if (forth != back)
				return ori_fail(ORIEL_ERR_NO_PATH,
						"domain of rank %u: rank %u maps rank %u, but not "
						"the other way",
						rank, forth ? a : b, forth ? b : a);
			if (!forth)
				return ori_fail(ORIEL_ERR_NO_PATH,
						"domain of rank %u holds ranks %u and %u, "
						"which do not map each other",
						rank, a, b);
		}
	}
	return ORIEL_OK;
}

struct ori_host_load ori_cpus_of_host(const struct ori_host *hosts, unsigned count, unsigned rank)
{
	uint64_t all[ORI_HOST_CPUS / 64] = {0};
	struct ori_host_load load = {0};

	for (unsigned r = 0; r < count; r++) {
		if (!hosts_are_one_machine(&hosts[r], &hosts[rank]))
			continue;
		load.ranks++;
		for (size_t i = 0; i < ORI_HOST_CPUS / 64; i++)
			all[i] |= hosts[r].cpus[i];
	}
	for (size_t i = 0; i < ORI_HOST_CPUS / 64; i++)
		load.cpus += (unsigned)__builtin_popcountll(all[i]);
	load.is_crowded = load.ranks > load.cpus;
	return load;
}
