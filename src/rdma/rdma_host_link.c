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

static void host_set_defaults(struct ori_host_link *link, const struct ori_host_attr *attr)
{
	link->attr = *attr;
	attr->ops->caps(attr->hca, &link->caps);
	link->calls = attr->ops->calls;
	if (!link->attr.queues)
		link->attr.queues = 1;
	if (!link->attr.depth)
		link->attr.depth = HOST_DEPTH;
	if (!link->attr.operations)
		link->attr.operations = HOST_OPERATIONS;
	if (!link->attr.immediates)
		link->attr.immediates = HOST_IMMEDIATES;
	if (!link->attr.piece)
		link->attr.piece = HOST_PIECE;
	if (link->attr.piece > link->caps.length_max)
		link->attr.piece = link->caps.length_max;
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

static enum oriel_status host_open_memory(struct ori_host_link *link)
{
	struct ori_hca_keys keys;
	enum oriel_status status;
	size_t length;

	link->slot_mask = host_slots(link) - 1;
	length = host_words_length(link);
	link->operations = calloc(link->slot_mask + 1, sizeof(*link->operations));
	link->immediates = calloc(link->attr.immediates, sizeof(*link->immediates));
	link->words = aligned_alloc(HOST_PAGE, length);
	if (!link->operations || !link->immediates || !link->words)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for a link of %u operations",
				link->caps.name, link->attr.operations);
	memset(link->words, 0, length);
	status = link->attr.ops->register_memory(link->attr.hca, link->words, length, 0,
						 ORI_HCA_LOCAL_WRITE, &link->words_mr, &keys);
	if (status == ORIEL_OK)
		link->words_lkey = keys.lkey;
	return status;
}

/* The receives are posted before the peer can know of the queue. */
static enum oriel_status host_open_queue(struct ori_host_link *link, struct ori_host_qps *end)
{
	const struct ori_hca_ops *ops = link->attr.ops;
	bool is_first = link->made == 0;
	struct ori_hca_qp_attr attr = {
		.depth = link->attr.depth,
		.send_cq = link->cq,
		.receive_cq = link->cq,
		.receives = is_first ? link->attr.immediates : 0,
	};
	struct ori_hca_qp_address address;
	enum oriel_status status;

	status = ops->create_qp(link->attr.hca, &attr, &link->qps[link->made], &address);
	if (status != ORIEL_OK)
		return status;
	end->of[link->made].qpn = address.qpn;
	end->of[link->made].psn = address.psn;
	link->made++;
	return is_first ? link->calls->post_receives(link->qps[0], link->attr.immediates)
			: ORIEL_OK;
}

static enum oriel_status host_open(struct ori_host_link *link, struct ori_host_qps *end)
{
	struct ori_hca_cq_attr cq = {.depth = link->attr.queues * link->attr.depth +
					      link->attr.immediates};
	enum oriel_status status;
	uint32_t cqn;

	if (link->attr.queues > ORI_HOST_QUEUES)
		return ori_fail(ORIEL_ERR_RANGE, "a link has %u queues at most, not %u",
				ORI_HOST_QUEUES, link->attr.queues);
	/* A put and its signal need two slots. */
	if (link->attr.depth < 2 || link->attr.depth > link->caps.depth_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s: queues of %u requests, not 2 to %u",
				link->caps.name, link->attr.depth, link->caps.depth_max);
	status = host_open_memory(link);
	if (status == ORIEL_OK)
		status = link->attr.ops->create_cq(link->attr.hca, &cq, &link->cq, &cqn);
	while (status == ORIEL_OK && link->made < link->attr.queues)
		status = host_open_queue(link, end);
	return status;
}

enum oriel_status ori_host_create(const struct ori_host_attr *attr, struct ori_host_link **out,
				  struct ori_host_qps *end)
{
	struct ori_host_link *link = calloc(1, sizeof(*link));
	struct ori_host_qps made = {.version = ORI_HOST_VERSION};
	enum oriel_status status;

	if (!link)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a link");
	host_set_defaults(link, attr);
	made.queues = link->attr.queues;
	status = host_open(link, &made);
	if (status != ORIEL_OK) {
		ori_host_destroy(link);
		return status;
	}
	*end = made;
	*out = link;
	return ORIEL_OK;
}

enum oriel_status ori_host_connect(struct ori_host_link *link,
				   const struct ori_hca_qp_address *hca_address,
				   const struct ori_host_qps *end)
{
	enum oriel_status status = ORIEL_OK;

	if (end->version != ORI_HOST_VERSION)
		return ori_fail(ORIEL_ERR_VERSION,
				"%s: the link of the peer has version %u, not %u", link->caps.name,
				end->version, ORI_HOST_VERSION);
	if (end->queues != link->attr.queues)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the link of the peer has %u queues, this end has %u",
				link->caps.name, end->queues, link->attr.queues);
	for (unsigned i = 0; i < link->made && status == ORIEL_OK; i++) {
		struct ori_hca_qp_address address = *hca_address;

		address.qpn = end->of[i].qpn;
		address.psn = end->of[i].psn;
		status = link->attr.ops->connect_qp(link->qps[i], &address);
	}
	return status;
}

void ori_host_destroy(struct ori_host_link *link)
{
	if (!link)
		return;
	while (link->made)
		link->attr.ops->destroy_qp(link->qps[--link->made]);
	if (link->cq)
		link->attr.ops->destroy_cq(link->cq);
	if (link->words_mr)
		link->attr.ops->unregister_memory(link->words_mr);
	free(link->words);
	free(link->immediates);
	free(link->operations);
	free(link);
}
