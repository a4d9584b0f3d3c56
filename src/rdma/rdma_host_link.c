/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, connects and destroys the links that rdma_host.c drives. src/p2p calls it for
 * an endpoint whose peer it reaches by RDMA.
 */
#include "rdma/rdma_host_link.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define HOST_DEPTH 128u
#define HOST_OPERATIONS 256u
#define HOST_IMMEDIATES 64u
#define HOST_PIECE (512u << 10)
#define HOST_PAGE 4096u

/*
 * A part on each rail pays from about the bytes on that a rail moves in a round trip: two
 * software HCAs in virtual time, at 1.1 GB/s and a round trip of 10 us, took 13.9 us for
 * 4 KiB instead of 11.3 by one of them, and 18.4 us for 16 KiB instead of 21.4. NICs of
 * 400 Gbit/s move 64 KiB in 1.3 us, a short round trip.
 */
#define HOST_STRIPE (64u << 10)

static void host_set_defaults(struct ori_host_link *link, const struct ori_host_attr *attr)
{
	link->attr = *attr;
	link->calls = attr->ops->calls;
	if (!link->attr.rails)
		link->attr.rails = 1;
	if (link->attr.queues < link->attr.rails)
		link->attr.queues = link->attr.rails;
	if (!link->attr.depth)
		link->attr.depth = HOST_DEPTH;
	if (!link->attr.operations)
		link->attr.operations = HOST_OPERATIONS;
	if (!link->attr.immediates)
		link->attr.immediates = HOST_IMMEDIATES;
	if (link->attr.immediates == ORI_HOST_NONE)
		link->attr.immediates = 0;
	if (!link->attr.piece)
		link->attr.piece = HOST_PIECE;
	if (!link->attr.stripe)
		link->attr.stripe = HOST_STRIPE;
}

/* The limits of a request are those of the NIC that has the lowest. */
static void host_ask_caps(struct ori_host_link *link)
{
	struct ori_hca_caps caps;

	link->attr.ops->caps(link->attr.hcas[link->attr.first_rail], &link->caps);
	for (unsigned rail = 0; rail < link->attr.rails; rail++) {
		link->attr.ops->caps(link->attr.hcas[rail], &caps);
		if (caps.depth_max < link->caps.depth_max)
			link->caps.depth_max = caps.depth_max;
		if (caps.length_max < link->attr.piece)
			link->attr.piece = caps.length_max;
	}
}

/* A power of two, so that the slot of an operation is a mask away. */
static uint64_t host_slots(const struct ori_host_link *link)
{
	uint64_t slots = 1;

	while (slots < link->attr.operations)
		slots *= 2;
	return slots;
}

static size_t host_words_length(const struct ori_host_link *link)
{
	size_t length = (link->slot_mask + 1) * sizeof(uint64_t);

	return (length + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
}

static enum oriel_status host_open_words(struct ori_host_link *link)
{
	size_t length = host_words_length(link);
	struct ori_hca_keys keys;
	enum oriel_status status;

	link->words_lkey = link->attr.sink_lkey;
	if (link->attr.sink_lkey)
		return ORIEL_OK;
	link->words = aligned_alloc(HOST_PAGE, length);
	if (!link->words)
		return ori_fail_nomem(length, "the results of a link of %s", link->caps.name);
	memset(link->words, 0, length);
	status = link->attr.ops->register_memory(link->attr.hcas[link->attr.first_rail],
						 link->words, length, 0, ORI_HCA_LOCAL_WRITE,
						 &link->words_mr, &keys);
	if (status == ORIEL_OK)
		link->words_lkey = keys.lkey;
	return status;
}

static enum oriel_status host_open_memory(struct ori_host_link *link)
{
	link->slot_mask = host_slots(link) - 1;
	link->operations = calloc(link->slot_mask + 1, sizeof(*link->operations));
	/* One more than needed: of none, calloc() might return NULL. */
	link->immediates = calloc(link->attr.immediates + 1, sizeof(*link->immediates));
	if (!link->operations || !link->immediates)
		return ori_fail_nomem((link->slot_mask + 1) * sizeof(*link->operations) +
					      (link->attr.immediates + 1) *
						      sizeof(*link->immediates),
				      "a link of %u operations of %s", link->attr.operations,
				      link->caps.name);
	return host_open_words(link);
}

static unsigned host_rail_of(const struct ori_host_link *link, unsigned queue)
{
	return (link->attr.first_rail + queue) % link->attr.rails;
}

/* The receives are posted before the peer can know of the queue. */
static enum oriel_status host_open_queue(struct ori_host_link *link, struct ori_host_qps *end)
{
	const struct ori_hca_ops *ops = link->attr.ops;
	struct host_queue *queue = &link->queues[link->made];
	unsigned rail = host_rail_of(link, link->made);
	struct ori_hca_qp_attr attr = {
		.depth = link->attr.depth,
		.send_cq = link->cqs[rail],
		.receive_cq = link->cqs[rail],
		.receives = link->attr.immediates,
	};
	struct ori_hca_qp_address address;
	enum oriel_status status;

	status = ops->create_qp(link->attr.hcas[rail], &attr, &queue->qp, &address);
	if (status != ORIEL_OK)
		return status;
	queue->rail = rail;
	queue->qpn = end->of[link->made].qpn = address.qpn;
	end->of[link->made].psn = address.psn;
	link->made++;
	if (!link->attr.immediates)
		return ORIEL_OK;
	return link->calls->post_receives(queue->qp, link->attr.immediates);
}

/* The CQ has room for the completions of all queues of the rail. */
static enum oriel_status host_open_cq(struct ori_host_link *link, unsigned rail)
{
	struct ori_hca_cq_attr attr = {0};
	uint32_t cqn;

	for (unsigned i = 0; i < link->attr.queues; i++)
		if (host_rail_of(link, i) == rail)
			attr.depth += link->attr.depth + link->attr.immediates;
	return link->attr.ops->create_cq(link->attr.hcas[rail], &attr, &link->cqs[rail], &cqn);
}

static enum oriel_status host_check(const struct ori_host_link *link)
{
	if (link->attr.rails > ORIEL_DEV_RAILS || link->attr.first_rail >= link->attr.rails)
		return ori_fail(ORIEL_ERR_RANGE, "a link has 1 to %u rails, not %u from rail %u on",
				ORIEL_DEV_RAILS, link->attr.rails, link->attr.first_rail);
	if (link->attr.queues > ORI_HOST_QUEUES)
		return ori_fail(ORIEL_ERR_RANGE, "a link has %u queues at most, not %u",
				ORI_HOST_QUEUES, link->attr.queues);
	return ORIEL_OK;
}

static enum oriel_status host_open(struct ori_host_link *link, struct ori_host_qps *end)
{
	enum oriel_status status = host_check(link);

	if (status != ORIEL_OK)
		return status;
	host_ask_caps(link);
	/* A put and its signal need two slots. */
	if (link->attr.depth < 2 || link->attr.depth > link->caps.depth_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s: queues of %u requests, not 2 to %u",
				link->caps.name, link->attr.depth, link->caps.depth_max);
	status = host_open_memory(link);
	for (unsigned rail = 0; rail < link->attr.rails && status == ORIEL_OK; rail++)
		status = host_open_cq(link, rail);
	while (status == ORIEL_OK && link->made < link->attr.queues)
		status = host_open_queue(link, end);
	return status;
}

enum oriel_status ori_host_create(const struct ori_host_attr *attr, struct ori_host_link **out,
				  struct ori_host_qps *end)
{
	struct ori_host_link *link = calloc(1, sizeof(*link));
	struct ori_host_qps made = {.version = ORI_HOST_QPS_VERSION};
	enum oriel_status status;

	if (!link)
		return ori_fail_nomem(sizeof(*link), "a link");
	host_set_defaults(link, attr);
	status = host_open(link, &made);
	if (status != ORIEL_OK) {
		ori_host_destroy(link);
		return status;
	}
	made.queues = (uint8_t)link->attr.queues;
	made.rails = (uint8_t)link->attr.rails;
	made.first_rail = (uint8_t)link->attr.first_rail;
	made.is_reordered = link->attr.is_reordered;
	*end = made;
	*out = link;
	return ORIEL_OK;
}

static enum oriel_status host_check_end(const struct ori_host_link *link,
					const struct ori_host_qps *end)
{
	if (end->version != ORI_HOST_QPS_VERSION)
		return ori_fail(ORIEL_ERR_VERSION,
				"%s: the link of the peer has version %u, not %u", link->caps.name,
				end->version, ORI_HOST_QPS_VERSION);
	if (end->rails != link->attr.rails)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the link of the peer has %u rails, this end has %u: set "
				"ORIEL_RAILS to the same for both",
				link->caps.name, end->rails, link->attr.rails);
	if (end->queues != link->attr.queues)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the link of the peer has %u queues, this end has %u",
				link->caps.name, end->queues, link->attr.queues);
	if (end->first_rail != link->attr.first_rail)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the link of the peer begins on rail %u, this end on rail %u",
				link->caps.name, end->first_rail, link->attr.first_rail);
	return ORIEL_OK;
}

enum oriel_status ori_host_connect(struct ori_host_link *link,
				   const struct ori_hca_qp_address *hca_addresses,
				   const struct ori_host_qps *end)
{
	enum oriel_status status = host_check_end(link, end);

	link->attr.is_reordered |= end->is_reordered != 0;
	for (unsigned i = 0; i < link->made && status == ORIEL_OK; i++) {
		struct ori_hca_qp_address address = hca_addresses[link->queues[i].rail];

		address.qpn = end->of[i].qpn;
		address.psn = end->of[i].psn;
		status = link->attr.ops->connect_qp(link->queues[i].qp, &address);
	}
	return status;
}

enum oriel_status ori_host_fail(struct ori_host_link *link, const struct ori_host_failure *why)
{
	if (link->failure.status == ORIEL_OK)
		link->failure = *why;
	for (unsigned i = 0; i < link->made; i++)
		link->attr.ops->fail_qp(link->queues[i].qp);
	return link->failure.status;
}

void ori_host_destroy(struct ori_host_link *link)
{
	if (!link)
		return;
	while (link->made)
		link->attr.ops->destroy_qp(link->queues[--link->made].qp);
	for (unsigned rail = 0; rail < ORIEL_DEV_RAILS; rail++)
		if (link->cqs[rail])
			link->attr.ops->destroy_cq(link->cqs[rail]);
	if (link->words_mr)
		link->attr.ops->unregister_memory(link->words_mr);
	free(link->words);
	free(link->immediates);
	free(link->operations);
	free(link);
}
