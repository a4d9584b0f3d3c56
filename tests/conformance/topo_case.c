/* SPDX-License-Identifier: Apache-2.0 */
/* Topology: paths, domains and numberings of peers, and the errors of ranks without a path. */
#include "harness.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void self_is_self(struct rank *r)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	enum oriel_path path;

	CHECK_EQ(r, oriel_comm_rank(r->comm), r->rank);
	CHECK_EQ(r, oriel_comm_size(r->comm), r->size);
	CHECK_EQ(r, oriel_comm_timeout(r->comm), LONG_NS);
	CHECK_OK(r, oriel_comm_path(r->comm, r->rank, &path));
	CHECK_EQ(r, path, ORIEL_PATH_SELF);
	CHECK_OK(r, oriel_comm_peer(r->comm, r->rank, &peer));
	CHECK_EQ(r, peer.rank, r->rank);
	CHECK_EQ(r, peer.pid, getpid());
	CHECK(r, peer.is_same_process);
	CHECK(r, peer.host[0] && peer.node && peer.reason);
}

/* T1, T3: both ranks of a pair agree on their path. */
static void paths_are_symmetric(struct rank *r)
{
	uint8_t *mine = calloc(r->size, r->size + 1), *all = mine + r->size;
	enum oriel_path path, between;
	unsigned i, k;

	for (i = 0; i < r->size; i++) {
		CHECK_OK(r, oriel_comm_path(r->comm, i, &path));
		CHECK(r, path != ORIEL_PATH_NONE);
		mine[i] = (uint8_t)path;
	}
	CHECK_OK(r, oriel_comm_all_gather(r->comm, mine, all, r->size));
	for (i = 0; i < r->size; i++) {
		for (k = 0; k < r->size; k++) {
			CHECK_OK(r, oriel_comm_path_between(r->comm, i, k, &between));
			CHECK_EQ(r, between, all[i * r->size + k]);
			CHECK_EQ(r, all[i * r->size + k], all[k * r->size + i]);
		}
	}
	free(mine);
}

/* Both ends name the same rails, as does the handle, and neighbours have different ones. */
static void rails_are_symmetric(struct rank *r)
{
	unsigned *mine = calloc(r->size * (r->size + 1), sizeof(*mine)), *all = mine + r->size;
	struct oriel_nic nic = {.size = sizeof(nic), .rails = 1};
	enum oriel_status status = oriel_comm_nic(r->comm, &nic);
	unsigned i, k, before = 0;
	bool has_before = false;

	CHECK(r, status == ORIEL_OK || status == ORIEL_ERR_NO_PATH);
	CHECK_EQ(r, r->dev.rails, status == ORIEL_OK ? nic.rails : 0);
	for (i = 0; i < r->size; i++) {
		mine[i] = rank_rail(r, i);
		CHECK(r, mine[i] < nic.rails);
		if (rank_is_mapped(r, r->rank, i)) {
			CHECK_EQ(r, mine[i], 0);
			has_before = false;
			continue;
		}
		CHECK_EQ(r, r->dev.peers[i].link->rail, mine[i]);
		CHECK(r, !has_before || nic.rails == 1 || mine[i] != before);
		has_before = true;
		before = mine[i];
	}
	CHECK_OK(r, oriel_comm_all_gather(r->comm, mine, all, r->size * sizeof(*mine)));
	for (i = 0; i < r->size; i++)
		for (k = 0; k < r->size; k++)
			CHECK_EQ(r, all[i * r->size + k], all[k * r->size + i]);
	free(mine);
}

/* T3: A maps B and B maps C, so A maps C; the members agree on the list. */
static void domains_are_transitive(struct rank *r)
{
	unsigned size = oriel_comm_domain_size(r->comm), index, member, found;
	uint64_t mask = 0, *all = calloc(r->size, 8);
	enum oriel_path path;

	for (index = 0; index < size; index++) {
		CHECK_OK(r, oriel_comm_domain_rank(r->comm, index, &member));
		CHECK(r, mask >> member == 0);
		mask |= 1ull << member;
		CHECK_OK(r, oriel_comm_path(r->comm, member, &path));
		CHECK(r, path == (member == r->rank ? ORIEL_PATH_SELF : ORIEL_PATH_MAPPED));
		CHECK_OK(r, oriel_comm_domain_find(r->comm, member, &found));
		CHECK_EQ(r, found, index);
	}
	CHECK_OK(r, oriel_comm_domain_rank(r->comm, oriel_comm_domain_index(r->comm), &member));
	CHECK_EQ(r, member, r->rank);
	CHECK_STATUS(r, oriel_comm_domain_rank(r->comm, size, &member), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_domain_find(r->comm, r->size, &found), ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_comm_all_gather(r->comm, &mask, all, 8));
	for (member = 0; member < r->size; member++)
		CHECK(r, mask >> member & 1 ? all[member] == mask : (all[member] & mask) == 0);
	free(all);
}

/* PeerIterationHelpers, PeerIndexConversionRoundtrip. */
static void peer_numbers_round_trip(struct rank *r)
{
	unsigned index, peer, back, expected = 0;

	for (index = 0; index + 1 < r->size; index++, expected++) {
		expected += expected == r->rank;
		CHECK_OK(r, oriel_comm_peer_rank(r->comm, index, &peer));
		CHECK_EQ(r, peer, expected);
		CHECK_OK(r, oriel_comm_peer_index(r->comm, peer, &back));
		CHECK_EQ(r, back, index);
	}
	CHECK_STATUS(r, oriel_comm_peer_rank(r->comm, r->size - 1, &peer), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_peer_rank(r->comm, UINT32_MAX, &peer), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_peer_index(r->comm, r->rank, &back), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_peer_index(r->comm, r->size, &back), ORIEL_ERR_RANGE);
}

/* DeviceHandleMetadata, DeviceHandleTypeMap; G6: the handle has all maps, not only one path's. */
static void device_handle_has_the_same_maps(struct rank *r)
{
	const struct oriel_dev_window *device = &r->dev;
	unsigned rank, number;
	enum oriel_path path;

	CHECK_EQ(r, device->domain_size, oriel_comm_domain_size(r->comm));
	CHECK_EQ(r, device->domain_index, oriel_comm_domain_index(r->comm));
	for (rank = 0; rank < r->size; rank++) {
		CHECK_OK(r, oriel_comm_path(r->comm, rank, &path));
		CHECK_EQ(r, device->topology[rank].path, path);
		if (oriel_comm_peer_index(r->comm, rank, &number) != ORIEL_OK)
			number = ORIEL_DEV_NO_INDEX;
		CHECK_EQ(r, device->topology[rank].peer_index, number);
		if (oriel_comm_domain_find(r->comm, rank, &number) != ORIEL_OK)
			number = ORIEL_DEV_NO_INDEX;
		CHECK_EQ(r, device->topology[rank].domain_index, number);
	}
	for (number = 0; number < device->domain_size; number++) {
		CHECK_OK(r, oriel_comm_domain_rank(r->comm, number, &rank));
		CHECK_EQ(r, device->domain[number], rank);
	}
}

static void queries_reject_invalid_ranks(struct rank *r)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	enum oriel_path path;

	CHECK_STATUS(r, oriel_comm_path(r->comm, r->size, &path), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_path(r->comm, UINT32_MAX, &path), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_peer(r->comm, r->size, &peer), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_path_between(r->comm, 0, r->size, &path), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_path_between(r->comm, r->size, 0, &path), ORIEL_ERR_RANGE);
}

/* DisableIbTest: ThrowsWhenPeerNotNvlReachable, ErrorMessageContainsRank, on all ranks. */
static void split_nodes_have_no_path(struct rank *r)
{
	unsigned first_right = r->size / 2;
	char host[256], text[64];

	CHECK_STATUS(r, rank_join(r, r->rank < first_right ? "left" : "right"), ORIEL_ERR_NO_PATH);
	CHECK(r, gethostname(host, sizeof(host)) == 0);
	CHECK_TEXT(r, oriel_last_error(), "rank 0");
	snprintf(text, sizeof(text), "rank %u", first_right);
	CHECK_TEXT(r, oriel_last_error(), text);
	CHECK_TEXT(r, oriel_last_error(), host);
	CHECK_TEXT(r, oriel_last_error(), "mapped");
	CHECK_TEXT(r, oriel_last_error(), "rdma");
	CHECK_TEXT(r, oriel_last_error(), "left");
	CHECK_TEXT(r, oriel_last_error(), "right");
}

/* Ranks whose node names differ are not mapped, but joined by a NIC; both ends agree on it. */
static void split_nodes_are_joined_by_rdma(struct rank *r)
{
	unsigned first_right = r->size / 2, peer;
	bool is_left = r->rank < first_right;
	struct oriel_peer info = {.size = sizeof(info)};

	if (!CHECK_OK(r, rank_join(r, is_left ? "left" : "right")))
		return;
	CHECK_EQ(r, oriel_comm_domain_size(r->comm), is_left ? first_right : r->size - first_right);
	for (peer = 0; peer < r->size; peer++) {
		bool is_same_node = (peer < first_right) == is_left;

		CHECK_OK(r, oriel_comm_peer(r->comm, peer, &info));
		CHECK_EQ(r, info.path,
			 peer == r->rank ? ORIEL_PATH_SELF
			 : is_same_node  ? ORIEL_PATH_MAPPED
					 : ORIEL_PATH_RDMA);
		CHECK(r, strcmp(info.node, peer < first_right ? "left" : "right") == 0);
	}
}

/* T1: names are compared after all ranks have sent theirs, so one node works under any name. */
static void one_node_may_have_any_name(struct rank *r)
{
	struct oriel_peer peer = {.size = sizeof(peer)};

	if (!CHECK_OK(r, rank_join(r, "somewhere")))
		return;
	CHECK_EQ(r, oriel_comm_domain_size(r->comm), r->size);
	CHECK_OK(r, oriel_comm_peer(r->comm, rank_next(r), &peer));
	CHECK(r, strcmp(peer.node, "somewhere") == 0);
}

static void attributes_of_newer_versions_are_rejected(struct rank *r)
{
	struct {
		struct oriel_comm_attr attr;
		uint64_t unknown;
	} later = {{.size = sizeof(later)}, 1};
	struct oriel_comm_attr empty = {0};
	struct oriel_bootstrap closed = {0};

	CHECK_STATUS(r, oriel_comm_create(&r->bootstrap, &later.attr, &r->comm), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_create(&r->bootstrap, &empty, &r->comm), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_create(&closed, NULL, &r->comm), ORIEL_ERR_INVALID);
	later.unknown = 0;
	CHECK_OK(r, oriel_comm_create(&r->bootstrap, &later.attr, &r->comm));
}

/*
 * The table ends before interrupt() and at_fault(): the library must not call what lies behind
 * it.
 */
static void older_bootstraps_work(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .node = r->node};
	struct oriel_bootstrap older = r->bootstrap;
	struct oriel_bootstrap_ops ops;
	char *all = malloc(16 * (size_t)r->size), mine[16] = {0};

	memset(&ops, 0xff, sizeof(ops));
	ops.size = offsetof(struct oriel_bootstrap_ops, interrupt);
	memcpy((char *)&ops + sizeof(ops.size), (const char *)r->bootstrap.ops + sizeof(ops.size),
	       ops.size - sizeof(ops.size));
	older.ops = &ops;
	CHECK_OK(r, oriel_comm_create(&older, &attr, &r->comm));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_STATUS(r, oriel_comm_all_gather(r->comm, mine, all, r->rank ? 8 : 16),
		     ORIEL_ERR_MISMATCH);
	oriel_comm_destroy(r->comm);
	r->comm = NULL;
	free(all);
}

/* One rank alone passes an invalid attribute; all get the error and the number of that rank. */
static void one_bad_attribute_fails_all(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = r->rank == 1 ? 1 : sizeof(attr),
				       .timeout_ns = LONG_NS};

	CHECK_STATUS(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm), ORIEL_ERR_INVALID);
	if (r->rank != 1)
		CHECK_TEXT(r, oriel_last_error(), "rank 1");
}

static void all_gather_keeps_the_order(struct rank *r)
{
	static const size_t lengths[] = {0, 1, 7, 2047, 2048, 2049, 10000};
	char *mine = malloc(10000), *all = malloc(10000 * (size_t)r->size);
	unsigned peer;
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		fill(mine, lengths[i], r->rank + i);
		CHECK_OK(r, oriel_comm_all_gather(r->comm, mine, all, lengths[i]));
		for (peer = 0; peer < r->size; peer++)
			CHECK_EQ(r, wrong(all + peer * lengths[i], lengths[i], peer + i), 0);
	}
	free(mine);
	free(all);
}

static void agree_returns_the_lowest_failure(struct rank *r)
{
	unsigned none;

	CHECK_OK(r, oriel_comm_agree(r->comm, ORIEL_OK));
	if (r->rank > 0)
		CHECK_STATUS(r, oriel_comm_peer_rank(r->comm, UINT32_MAX, &none), ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_comm_agree(r->comm, r->rank == 0   ? ORIEL_OK
					       : r->rank == 1 ? ORIEL_ERR_RANGE
							      : ORIEL_ERR_NOMEM),
		     ORIEL_ERR_RANGE);
	if (r->rank != 1)
		CHECK_TEXT(r, oriel_last_error(), "rank 1");
	CHECK_EQ(r, oriel_last_status(), ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_comm_agree(r->comm, ORIEL_OK));
}

static enum oriel_status lone_gather(void *context, const void *mine, void *all, size_t length,
				     uint64_t timeout_ns)
{
	(void)context;
	(void)timeout_ns;
	memcpy(all, mine, length);
	return ORIEL_OK;
}

static enum oriel_status lone_barrier(void *context, uint64_t timeout_ns)
{
	(void)context;
	(void)timeout_ns;
	return ORIEL_OK;
}

static void lone_close(void *context)
{
	(void)context;
}

/* The table of a caller may have no context; each rank is a job of its own. */
static void tables_without_a_context_are_closed_last(struct rank *r)
{
	static const struct oriel_bootstrap_ops ops = {.size = sizeof(ops),
						       .all_gather = lone_gather,
						       .barrier = lone_barrier,
						       .close = lone_close};
	struct oriel_bootstrap lone = {.ops = &ops, .size = 1};
	struct oriel_comm *comm;

	if (r->rank || !CHECK_OK(r, oriel_comm_create(&lone, NULL, &comm)))
		return;
	CHECK_STATUS(r, oriel_bootstrap_close(&lone), ORIEL_ERR_STATE);
	CHECK(r, lone.ops == &ops);
	CHECK_OK(r, oriel_comm_destroy(comm));
	CHECK_OK(r, oriel_bootstrap_close(&lone));
}

/* A communicator would go on with a bootstrap that is freed. */
static void bootstraps_are_closed_last(struct rank *r)
{
	struct oriel_bootstrap copy;

	if (!CHECK_OK(r, rank_join(r, NULL)))
		return;
	copy = r->bootstrap;
	CHECK_STATUS(r, oriel_bootstrap_close(&copy), ORIEL_ERR_STATE);
	CHECK_LAST(r, "still has its communicator: destroy that first; the bootstrap stays open");
	CHECK(r, copy.ops == r->bootstrap.ops);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	oriel_comm_destroy(r->comm);
	r->comm = NULL;
}

static void enter_with_another_thread(struct rank *r, unsigned index, void *context)
{
	enum oriel_status status = oriel_comm_barrier(r->comm);

	(void)index;
	if (status == ORIEL_OK)
		return;
	CHECK_EQ(r, status, ORIEL_ERR_STATE);
	CHECK_LAST(r, "oriel_comm_barrier: another thread of rank 0 is in oriel_comm_barrier: one "
		      "thread at a time calls the collectives of a communicator");
	__atomic_fetch_add((unsigned *)context, 1, __ATOMIC_RELAXED);
	/* The first thread waits for the other ranks, and they for this signal. */
	CHECK_OK(r, oriel_window_signal_all(r->window, 0, ORIEL_SIGNAL_ADD, 1));
}

static void collectives_have_one_thread_at_a_time(struct rank *r)
{
	unsigned rejected = 0;

	if (r->rank == 0) {
		rank_fork(r, 2, enter_with_another_thread, &rejected);
		CHECK_EQ(r, rejected, 1);
	} else {
		CHECK_OK(r, oriel_window_wait_signal_from(r->window, 0, 0, ORIEL_GE, 1, LONG_NS));
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

static const struct test_case topo_cases[] = {
	{"self_is_self", self_is_self, NULL, 1, NO_WINDOW},
	{"paths_are_symmetric", paths_are_symmetric, NULL, 1, NO_WINDOW},
	{"rails_are_symmetric", rails_are_symmetric, NULL, 1, 0},
	{"domains_are_transitive", domains_are_transitive, NULL, 1, NO_WINDOW},
	{"peer_numbers_round_trip", peer_numbers_round_trip, NULL, 1, NO_WINDOW},
	{"device_handle_has_the_same_maps", device_handle_has_the_same_maps, NULL, 1, 0},
	{"queries_reject_invalid_ranks", queries_reject_invalid_ranks, NULL, 1, NO_WINDOW},
	{"split_nodes_have_no_path", split_nodes_have_no_path, NULL, 2,
	 OWN_COMM | NEEDS_ONE_MACHINE | NEEDS_NO_HCA},
	{"split_nodes_are_joined_by_rdma", split_nodes_are_joined_by_rdma, NULL, 2,
	 OWN_COMM | NEEDS_ONE_MACHINE | NEEDS_HCA},
	{"one_node_may_have_any_name", one_node_may_have_any_name, NULL, 1,
	 OWN_COMM | NEEDS_ONE_MACHINE},
	{"attributes_of_newer_versions_are_rejected", attributes_of_newer_versions_are_rejected,
	 NULL, 1, OWN_COMM},
	{"older_bootstraps_work", older_bootstraps_work, NULL, 2, OWN_COMM},
	{"one_bad_attribute_fails_all", one_bad_attribute_fails_all, NULL, 2, OWN_COMM},
	{"bootstraps_are_closed_last", bootstraps_are_closed_last, NULL, 1, OWN_COMM},
	{"tables_without_a_context_are_closed_last", tables_without_a_context_are_closed_last, NULL,
	 1, NO_WINDOW},
	{"collectives_have_one_thread_at_a_time", collectives_have_one_thread_at_a_time, NULL, 2,
	 0},
	{"all_gather_keeps_the_order", all_gather_keeps_the_order, NULL, 1, NO_WINDOW},
	{"agree_returns_the_lowest_failure", agree_returns_the_lowest_failure, NULL, 2, NO_WINDOW},
};

const struct suite topo_suite = SUITE(topo);
