/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the path between each pair of ranks, and writes the reason. comm/ calls it with the
 * descriptions of all ranks; `oriel info` prints the reasons.
 */
#include "topo/classify.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* The obstacle that keeps two processes from using a path. */
enum classify_obstacle {
	OBSTACLE_NONE,
	OBSTACLE_NODE,
	OBSTACLE_PATHS,
	OBSTACLE_MACHINE,
	OBSTACLE_PID_NS,
	OBSTACLE_IPC_NS,
	OBSTACLE_NET_NS,
	OBSTACLE_USER_NS,
	OBSTACLE_USER,
	OBSTACLE_GPU_GIVEN,
	OBSTACLE_GPU_ACCESS,
	OBSTACLE_GPU_DOMAIN,
	OBSTACLE_NIC,
};

/* The connection between the GPUs of two ranks. */
enum classify_gpus {
	GPUS_NONE, /* at least one rank has none */
	GPUS_SAME,
	GPUS_NVLINK,
	GPUS_OTHER_BUS, /* another bus than NVLink, with atomics */
	GPUS_UNSEEN,    /* neither process sees the other's GPU, by NVML either */
	GPUS_NO_PEERS,  /* at least one rank has peer_access=off */
	GPUS_NO_ACCESS,
	GPUS_STORES, /* another bus than NVLink, without atomics */
};

/* Two ranks, the lower one first, so that every result is symmetric. */
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

bool ori_hosts_share_network(const struct ori_host *a, const struct ori_host *b)
{
	return hosts_are_one_machine(a, b) && a->net_ns == b->net_ns;
}

bool ori_hosts_share_sockets(const struct ori_host *a, const struct ori_host *b)
{
	return ori_hosts_share_network(a, b) && a->uid == b->uid;
}

/* The access of @a's GPU to @b's GPU; NULL if the process of @a does not see that GPU. */
static const struct ori_gpu_reach *gpu_find_reach(const struct ori_host_gpu *a,
						  const struct ori_host_gpu *b)
{
	for (uint32_t i = 0; i < a->count; i++) {
		if (memcmp(a->reach[i].uuid, b->uuid, sizeof(b->uuid)) == 0)
			return &a->reach[i];
	}
	return NULL;
}

/*
 * One process may see the GPU of the other while the other does not. If neither does
 * (CUDA_VISIBLE_DEVICES, and no NVML), only the driver knows whether they reach each other, and
 * reports it when memory is imported; no source says whether atomics pass, so none are used.
 */
static enum classify_gpus classify_gpus(const struct ori_host_gpu *a, const struct ori_host_gpu *b)
{
	const struct ori_gpu_reach *forth = gpu_find_reach(a, b), *back = gpu_find_reach(b, a);
	uint32_t flags = ORI_GPU_ACCESS | ORI_GPU_ATOMICS | ORI_GPU_NVLINK;

	if (!a->pci[0] || !b->pci[0])
		return GPUS_NONE;
	if ((a->given | b->given) & ORI_GIVEN_NO_PEERS)
		return GPUS_NO_PEERS;
	if (memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0)
		return GPUS_SAME;
	if (!forth && !back)
		return GPUS_UNSEEN;
	if (forth)
		flags &= forth->flags;
	if (back)
		flags &= back->flags;
	if (!(flags & ORI_GPU_ACCESS))
		return GPUS_NO_ACCESS;
	if (!(flags & ORI_GPU_ATOMICS))
		return GPUS_STORES;
	return flags & ORI_GPU_NVLINK ? GPUS_NVLINK : GPUS_OTHER_BUS;
}

/*
 * Windows on GPUs: the obstacle between two ranks of one node. A rank without a GPU has only
 * memory of the host, which the processor of the other reaches.
 */
static enum classify_obstacle classify_gpu_obstacle(const struct ori_host *a,
						    const struct ori_host *b)
{
	switch (classify_gpus(&a->gpu, &b->gpu)) {
	case GPUS_NO_PEERS:
		return OBSTACLE_GPU_GIVEN;
	case GPUS_NO_ACCESS:
		return OBSTACLE_GPU_ACCESS;
	default:
		return OBSTACLE_NONE;
	}
}

/* Has ori_hosts_join() put two ranks with GPUs in different domains? */
static bool gpus_are_parted(const struct ori_host *a, const struct ori_host *b)
{
	return a->gpu.pci[0] && b->gpu.pci[0] && a->gpu.domain != b->gpu.domain;
}

/*
 * Descriptors pass over an abstract unix socket. Its name is valid in one network namespace, and
 * each side checks the user and the pid of the other.
 */
static enum classify_obstacle classify_mapped(const struct ori_host *a, const struct ori_host *b)
{
	if (strcmp(a->node, b->node) != 0)
		return OBSTACLE_NODE;
	if (!host_may_use(a, ORIEL_PATH_MAPPED) || !host_may_use(b, ORIEL_PATH_MAPPED))
		return OBSTACLE_PATHS;
	if (a->token == b->token)
		return OBSTACLE_NONE;
	if (!hosts_are_one_machine(a, b))
		return OBSTACLE_MACHINE;
	if (a->pid_ns != b->pid_ns)
		return OBSTACLE_PID_NS;
	if (a->ipc_ns != b->ipc_ns)
		return OBSTACLE_IPC_NS;
	if (a->net_ns != b->net_ns)
		return OBSTACLE_NET_NS;
	if (a->user_ns != b->user_ns)
		return OBSTACLE_USER_NS;
	return a->uid != b->uid ? OBSTACLE_USER : OBSTACLE_NONE;
}

static bool fabrics_are_one(const struct ori_gpu_fabric *a, const struct ori_gpu_fabric *b)
{
	return a->state == ORI_FABRIC_READY && b->state == ORI_FABRIC_READY &&
	       a->clique == b->clique && memcmp(a->cluster, b->cluster, sizeof(a->cluster)) == 0;
}

/* Does a fabric map the memory of GPUs of two nodes? */
static bool gpus_are_joined(const struct ori_host *a, const struct ori_host *b)
{
	return host_may_use(a, ORIEL_PATH_MAPPED) && host_may_use(b, ORIEL_PATH_MAPPED) &&
	       fabrics_are_one(&a->gpu.fabric, &b->gpu.fabric);
}

/*
 * A NIC on each side suffices; whether the two networks are connected shows when queue pairs
 * connect.
 */
static enum classify_obstacle classify_rdma(const struct ori_host *a, const struct ori_host *b)
{
	if (!host_may_use(a, ORIEL_PATH_RDMA) || !host_may_use(b, ORIEL_PATH_RDMA))
		return OBSTACLE_PATHS;
	return a->hca_count == 0 || b->hca_count == 0 ? OBSTACLE_NIC : OBSTACLE_NONE;
}

/*
 * "on rank 1 (host1)", or "on ranks 1 (host1) and 2 (host2)", for those of the two that is_a and
 * is_b select.
 */
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

/* The reason for which @path exists, for windows on @gpus. */
static void classify_write_match(const struct classify_pair *p, enum oriel_path path,
				 enum classify_gpus connection, char *text, size_t length)
{
	static const char *const gpus[] = {
		[GPUS_NONE] = "",
		[GPUS_SAME] = ", same GPU",
		[GPUS_NVLINK] = ", GPUs connected by NVLink",
		[GPUS_OTHER_BUS] = ", GPUs connected by another bus than NVLink",
		[GPUS_STORES] = ", GPUs connected by PCIe, without atomics",
		[GPUS_UNSEEN] = ", GPUs that are not visible to each other's process",
	};

	static const char *const hcas[] = {
		[ORI_HOST_HCA_UNKNOWN] = "RDMA",
		[ORI_HOST_HCA_SOFT] = "software HCAs",
		[ORI_HOST_HCA_NIC] = "RDMA NICs",
	};

	/* All ranks drive NICs of one kind: ori_choices_agree(). */
	if (path == ORIEL_PATH_RDMA)
		snprintf(text, length, "%s on both",
			 hcas[p->a->hca_kind <= ORI_HOST_HCA_NIC ? p->a->hca_kind : 0]);
	else
		snprintf(text, length, "same %s%s",
			 p->a->token == p->b->token ? "process" : "machine", gpus[connection]);
}

static void classify_write_obstacle(const struct classify_pair *p, enum oriel_path path,
				    enum classify_obstacle obstacle, enum classify_gpus connection,
				    char *text, size_t length)
{
	const struct ori_host *a = p->a, *b = p->b;
	char ranks[192];

	switch (obstacle) {
	case OBSTACLE_NONE:
		classify_write_match(p, path, connection, text, length);
		break;
	case OBSTACLE_NODE:
		snprintf(text, length, "different virtual nodes (ORIEL_NODE \"%s\", \"%s\")",
			 a->node, b->node);
		break;
	case OBSTACLE_PATHS:
		classify_write_ranks(p, !host_may_use(a, path), !host_may_use(b, path), ranks,
				     sizeof(ranks));
		snprintf(text, length, "not allowed by ORIEL_PATHS %s", ranks);
		break;
	case OBSTACLE_MACHINE:
		snprintf(text, length, "different machines (%s, %s)", a->hostname, b->hostname);
		break;
	case OBSTACLE_PID_NS:
		snprintf(text, length, "different PID namespaces of one machine");
		break;
	case OBSTACLE_IPC_NS:
		snprintf(text, length, "different IPC namespaces of one machine");
		break;
	case OBSTACLE_NET_NS:
		snprintf(text, length, "different network namespaces of one machine");
		break;
	case OBSTACLE_USER_NS:
		snprintf(text, length, "different user namespaces of one machine");
		break;
	case OBSTACLE_USER:
		snprintf(text, length, "different users (%u, %u)", a->uid, b->uid);
		break;
	case OBSTACLE_GPU_GIVEN:
		classify_write_ranks(p, a->gpu.given & ORI_GIVEN_NO_PEERS,
				     b->gpu.given & ORI_GIVEN_NO_PEERS, ranks, sizeof(ranks));
		snprintf(text, length, "no peer access (ORIEL_TOPOLOGY) %s", ranks);
		break;
	case OBSTACLE_GPU_ACCESS:
		snprintf(text, length, "GPUs %s and %s of one machine do not reach each other",
			 a->gpu.pci, b->gpu.pci);
		break;
	case OBSTACLE_GPU_DOMAIN:
		snprintf(
			text, length,
			"GPUs %s and %s reach each other, but not all of the GPUs that are grouped "
			"with one of them",
			a->gpu.pci, b->gpu.pci);
		break;
	case OBSTACLE_NIC:
		classify_write_ranks(p, a->hca_count == 0, b->hca_count == 0, ranks, sizeof(ranks));
		snprintf(text, length, "no RDMA NIC %s", ranks);
		break;
	}
}

/* @connection: of windows on GPUs; GPUS_NONE for memory of the host. */
static void classify_write_reason(const struct classify_pair *p, enum classify_obstacle mapped,
				  enum classify_obstacle rdma, enum classify_gpus connection,
				  char *reason, size_t length)
{
	char why_mapped[224], why_rdma[224];

	classify_write_obstacle(p, ORIEL_PATH_MAPPED, mapped, connection, why_mapped,
				sizeof(why_mapped));
	classify_write_obstacle(p, ORIEL_PATH_RDMA, rdma, connection, why_rdma, sizeof(why_rdma));
	if (mapped == OBSTACLE_NONE)
		snprintf(reason, length, "mapped: %s", why_mapped);
	else
		snprintf(reason, length, "mapped: %s; rdma: %s", why_mapped, why_rdma);
}

/* The path of two different ranks; see classify_write_reason(). */
static enum oriel_path classify_pair(const struct classify_pair *p, enum classify_obstacle mapped,
				     enum classify_gpus connection, char *reason, size_t length)
{
	enum classify_obstacle rdma = classify_rdma(p->a, p->b);

	if (length > 0)
		classify_write_reason(p, mapped, rdma, connection, reason, length);
	if (mapped == OBSTACLE_NONE)
		return ORIEL_PATH_MAPPED;
	return rdma == OBSTACLE_NONE ? ORIEL_PATH_RDMA : ORIEL_PATH_NONE;
}

static enum oriel_path classify_self(char *reason, size_t length)
{
	if (length > 0)
		snprintf(reason, length, "self: the rank itself");
	return ORIEL_PATH_SELF;
}

static struct classify_pair classify_order(const struct ori_host *a, unsigned rank_a,
					   const struct ori_host *b, unsigned rank_b)
{
	if (rank_a > rank_b)
		return (struct classify_pair){b, a, rank_b, rank_a};
	return (struct classify_pair){a, b, rank_a, rank_b};
}

enum oriel_path ori_classify(const struct ori_host *a, unsigned rank_a, const struct ori_host *b,
			     unsigned rank_b, char *reason, size_t length)
{
	struct classify_pair p = classify_order(a, rank_a, b, rank_b);

	if (rank_a == rank_b)
		return classify_self(reason, length);
	return classify_pair(&p, classify_mapped(p.a, p.b), GPUS_NONE, reason, length);
}

bool ori_classify_has_rdma(const struct ori_host *a, unsigned rank_a, const struct ori_host *b,
			   unsigned rank_b, char *reason, size_t length)
{
	struct classify_pair p = classify_order(a, rank_a, b, rank_b);
	enum classify_obstacle obstacle = classify_rdma(p.a, p.b);

	if (obstacle != OBSTACLE_NONE && length)
		classify_write_obstacle(&p, ORIEL_PATH_RDMA, obstacle, GPUS_NONE, reason, length);
	return obstacle == OBSTACLE_NONE;
}

/* The text after "NVLink fabric: ", indexed by enum ori_fabric_state. */
static const char *const fabric_texts[ORI_FABRIC_STATES] = {
	[ORI_FABRIC_NONE] = "none",
	[ORI_FABRIC_READY] = "ready",
	[ORI_FABRIC_OFF] = "ORIEL_FABRIC is off",
	[ORI_FABRIC_UNKNOWN] = "NVML does not report it",
	[ORI_FABRIC_PENDING] = "not joined yet",
	[ORI_FABRIC_LOCAL] = "confined to its node",
	[ORI_FABRIC_NO_HANDLES] = "the driver rejects its handles",
	[ORI_FABRIC_UNEVEN] = "not the same for all ranks of the node",
	[ORI_FABRIC_NO_PEERS] = "no peer access (ORIEL_TOPOLOGY)",
};

enum ori_bus ori_classify_bus(const struct ori_host *a, const struct ori_host *b)
{
	/* GPUs of two nodes are joined by a fabric, whatever else is between them. */
	if (classify_mapped(a, b) != OBSTACLE_NONE)
		return ORI_BUS_WHOLE;
	switch (classify_gpus(&a->gpu, &b->gpu)) {
	case GPUS_STORES:
	case GPUS_UNSEEN:
		return ORI_BUS_STORES;
	case GPUS_OTHER_BUS:
		return ORI_BUS_ATOMICS;
	default:
		return ORI_BUS_WHOLE;
	}
}

const char *ori_fabric_text(uint32_t state)
{
	return fabric_texts[state];
}

static bool hosts_allow_mapped(const struct ori_host *a, const struct ori_host *b)
{
	return host_may_use(a, ORIEL_PATH_MAPPED) && host_may_use(b, ORIEL_PATH_MAPPED);
}

/* The reason why no fabric joins the two GPUs; no text if a rank has no GPU. */
static void fabric_write_obstacle(const struct classify_pair *p, char *text, size_t length)
{
	const struct ori_gpu_fabric *a = &p->a->gpu.fabric, *b = &p->b->gpu.fabric;
	bool is_a = a->state != ORI_FABRIC_READY, is_b = b->state != ORI_FABRIC_READY;
	char ranks[192];

	if (!p->a->gpu.pci[0] || !p->b->gpu.pci[0])
		return;
	classify_write_ranks(p, is_a, is_b && (!is_a || a->state == b->state), ranks,
			     sizeof(ranks));
	if (is_a || is_b)
		snprintf(text, length, "; NVLink fabric: %s %s",
			 fabric_texts[is_a ? a->state : b->state], ranks);
	else if (!hosts_allow_mapped(p->a, p->b))
		snprintf(text, length, "; NVLink fabric: not allowed by ORIEL_PATHS");
	else if (memcmp(a->cluster, b->cluster, sizeof(a->cluster)) != 0)
		snprintf(text, length, "; NVLink fabric: different clusters");
	else
		snprintf(text, length, "; NVLink fabric: different cliques (%u, %u) of one cluster",
			 a->clique, b->clique);
}

enum oriel_path ori_classify_gpus(const struct ori_host *a, unsigned rank_a,
				  const struct ori_host *b, unsigned rank_b, char *reason,
				  size_t length)
{
	struct classify_pair p = classify_order(a, rank_a, b, rank_b);
	enum classify_gpus gpus = classify_gpus(&a->gpu, &b->gpu);
	enum classify_obstacle mapped;
	enum oriel_path path;
	size_t used;

	if (rank_a == rank_b)
		return classify_self(reason, length);
	mapped = classify_mapped(p.a, p.b);
	if (mapped == OBSTACLE_NONE) {
		mapped = classify_gpu_obstacle(p.a, p.b);
		if (mapped == OBSTACLE_NONE && gpus_are_parted(a, b))
			mapped = OBSTACLE_GPU_DOMAIN;
		return classify_pair(&p, mapped, gpus, reason, length);
	}
	if (gpus_are_joined(a, b) && !gpus_are_parted(a, b)) {
		if (length > 0)
			snprintf(reason, length, "mapped: one NVLink fabric (clique %u)",
				 a->gpu.fabric.clique);
		return ORIEL_PATH_MAPPED;
	}
	path = classify_pair(&p, mapped, gpus, reason, length);
	used = length > 0 ? strlen(reason) : 0;
	if (used < length)
		fabric_write_obstacle(&p, reason + used, length - used);
	return path;
}

uint64_t ori_classify_kind(const struct ori_host *a, const struct ori_host *b)
{
	uint64_t low = a->gpu.fabric.state, high = b->gpu.fabric.state;

	if (low > high) {
		low = b->gpu.fabric.state;
		high = a->gpu.fabric.state;
	}
	return (uint64_t)(a->token == b->token) | (uint64_t)classify_mapped(a, b) << 8 |
	       (uint64_t)classify_rdma(a, b) << 16 |
	       (uint64_t)classify_gpus(&a->gpu, &b->gpu) << 24 | low << 32 | high << 40 |
	       (uint64_t)gpus_are_joined(a, b) << 48 |
	       (uint64_t)(memcmp(a->gpu.fabric.cluster, b->gpu.fabric.cluster,
				 sizeof(a->gpu.fabric.cluster)) == 0)
		       << 49 |
	       (uint64_t)gpus_are_parted(a, b) << 50;
}

/* Do ranks of one node map each other's memory, that of GPUs too, whatever a fabric does? */
static bool hosts_are_one_node(const struct ori_host *a, const struct ori_host *b)
{
	return classify_mapped(a, b) == OBSTACLE_NONE &&
	       classify_gpu_obstacle(a, b) == OBSTACLE_NONE;
}

/*
 * Remove from its fabric each rank that is mapped by a rank of another fabric, or of none: the
 * relation would not be transitive.
 */
static void hosts_join_fabrics(struct ori_host *hosts, unsigned count)
{
	bool is_uneven;
	unsigned a, b;

	/* A host whose fabric is taken away makes another uneven only if that one already is. */
	for (a = 0; a < count; a++) {
		is_uneven = false;
		for (b = 0; b < count && !is_uneven; b++)
			is_uneven = hosts_are_one_node(&hosts[a], &hosts[b]) &&
				    !fabrics_are_one(&hosts[a].gpu.fabric, &hosts[b].gpu.fabric);
		if (is_uneven && hosts[a].gpu.fabric.state == ORI_FABRIC_READY)
			hosts[a].gpu.fabric = (struct ori_gpu_fabric){ORI_FABRIC_UNEVEN, 0, {0}};
	}
}

/* Within a node a fabric is no detour around GPUs that do not reach each other. */
static bool gpus_may_share_domain(const struct ori_host *a, const struct ori_host *b)
{
	return classify_mapped(a, b) == OBSTACLE_NONE ? hosts_are_one_node(a, b)
						      : gpus_are_joined(a, b);
}

/*
 * The lowest rank of the first domain whose members all map the GPU of @rank; @rank itself if
 * there is none. A member that does not marks the domain in its lowest rank.
 */
static uint32_t hosts_find_domain(struct ori_host *hosts, uint32_t rank)
{
	uint32_t r;

	for (r = 0; r < rank; r++) {
		struct ori_host_gpu *first = &hosts[hosts[r].gpu.domain].gpu;

		if (hosts[r].gpu.pci[0] && first->reserved != rank &&
		    !gpus_may_share_domain(&hosts[r], &hosts[rank]))
			first->reserved = rank;
	}
	for (r = 0; r < rank; r++)
		if (hosts[r].gpu.pci[0] && hosts[r].gpu.domain == r &&
		    hosts[r].gpu.reserved != rank)
			return r;
	return rank;
}

void ori_hosts_join(struct ori_host *hosts, unsigned count)
{
	uint32_t r;

	hosts_join_fabrics(hosts, count);
	for (r = 0; r < count; r++)
		if (hosts[r].gpu.pci[0])
			hosts[r].gpu.domain = hosts_find_domain(hosts, r);
	for (r = 0; r < count; r++)
		hosts[r].gpu.reserved = 0;
}

bool ori_gpus_are_mapped(const void *hosts, unsigned a, unsigned b)
{
	const struct ori_host *h = hosts;

	return ori_classify_gpus(&h[a], a, &h[b], b, NULL, 0) == ORIEL_PATH_MAPPED;
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
						"domain of rank %u contains ranks %u and %u, "
						"which do not map each other",
						rank, a, b);
		}
	}
	return ORIEL_OK;
}

struct ori_machine_load ori_machine_load_of(const struct ori_host *hosts, unsigned count,
					    unsigned rank)
{
	uint64_t all[ORI_HOST_CPUS / 64] = {0};
	struct ori_machine_load load = {0};

	for (unsigned r = 0; r < count; r++) {
		if (!hosts_are_one_machine(&hosts[r], &hosts[rank]))
			continue;
		load.ranks++;
		for (size_t i = 0; i < ORI_HOST_CPUS / 64; i++)
			all[i] |= hosts[r].cpus[i];
	}
	for (size_t i = 0; i < ORI_HOST_CPUS / 64; i++)
		load.cpus += (unsigned)__builtin_popcountll(all[i]);
	load.is_oversubscribed = load.ranks > load.cpus;
	return load;
}
