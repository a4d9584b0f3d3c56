/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the operations of a link that the host drives into requests, and posts them over its
 * queues in the order that rdma_host.h promises. rdma_host.c calls it.
 */
#include <oriel/dev/detail/queue.h>

#include "rdma/rdma_host_link.h"

static uint64_t host_requests(const struct ori_host_link *link, const struct host_operation *o)
{
	return o->is_counted ? o->pieces + link->attr.queues - 1 : o->pieces + o->has_notify;
}

static struct ori_hca_wr host_piece(const struct ori_host_link *link,
				    const struct host_operation *o, uint64_t k, unsigned queue)
{
	uint64_t at = k * o->piece, rest = o->move.length - at;
	unsigned rail = link->queues[queue].rail;

	return (struct ori_hca_wr){
		.opcode = o->opcode,
		.flags = ORI_HCA_SIGNALED,
		.data = o->opcode == ORI_HCA_WRITE && o->move.data ? (const char *)o->move.data + at
								   : NULL,
		.local = o->move.local.address + at,
		.lkey = o->move.local.keys.rail[rail],
		.remote = o->move.remote.address + at,
		.rkey = o->move.remote.keys.rail[rail],
		.length = (uint32_t)(rest < o->piece ? rest : o->piece),
		.immediate = o->immediate,
	};
}

/* A READ may still take its bytes when the request behind it is done at the target. */
static uint8_t host_fence(const struct ori_host_link *link)
{
	return link->fetched > link->done ? ORI_HCA_FENCE : 0;
}

static struct ori_hca_wr host_notify_wr(const struct ori_host_link *link,
					const struct host_operation *o, uint64_t op)
{
	return (struct ori_hca_wr){
		.opcode = o->notify_opcode,
		.flags = ORI_HCA_SIGNALED | host_fence(link),
		.local = link->words ? host_slot(link, op) * sizeof(uint64_t) : 0,
		.lkey = link->words_lkey,
		.remote = o->remote,
		.rkey = o->rkey,
		.length = o->notify_opcode == ORI_HCA_WRITE_IMM ? 0 : sizeof(uint64_t),
		.operand = o->add,
		.immediate = o->immediate,
	};
}

/*
 * Are all requests of @op and of earlier operations that are in flight on the first queue? Where
 * the network keeps no order none may be, but for the notification itself.
 */
static bool host_may_notify(struct ori_host_link *link, const struct host_operation *o, uint64_t op)
{
	if (link->attr.is_reordered)
		return link->done == op && o->left == 1;
	if (link->attr.queues == 1)
		return true;
	if (link->clear < link->done)
		link->clear = link->done;
	while (link->clear < op && host_operation(link, link->clear)->on_others == 0)
		link->clear++;
	return link->clear == op && o->on_others == 0;
}

/*
 * The last piece goes by the first queue, so that its notification may follow at once
 * when the other pieces are done; of two queues with an equal load the first one is
 * therefore the second choice. Each rail gets one piece of an operation that is striped:
 * by the load, which sinks later than the peer asks for more, two might go by one rail.
 * While a notification waits, nothing overtakes it.
 */
static unsigned host_choose_queue(const struct ori_host_link *link, const struct host_operation *o)
{
	unsigned best = 1;

	if (!link->is_held && o->pieces <= link->attr.rails)
		return (unsigned)((o->next + 1) % o->pieces);
	if (link->attr.queues == 1 || (o->next + 1 == o->pieces && !link->is_held))
		return 0;
	for (unsigned i = 2; i < link->attr.queues; i++)
		if (link->queues[i].load < link->queues[best].load)
			best = i;
	return !link->is_held && link->queues[0].load < link->queues[best].load ? 0 : best;
}

/* Posts one request, or a chain of two of which the first one is unsignaled. */
static enum oriel_status host_hand_over(struct ori_host_link *link, struct host_operation *o,
					uint64_t op, unsigned queue, struct ori_hca_wr *wrs,
					unsigned count)
{
	bool is_piece = o->is_counted ? queue == 0 : o->next < o->pieces;
	struct host_queue *q = &link->queues[queue];
	unsigned posted, unsignaled;
	enum oriel_status status;

	wrs[0].id = wrs[count - 1].id = host_id(op, queue, is_piece);
	status = link->calls->post(q->qp, wrs, count, &posted);
	unsignaled = count > 1 && posted > 0;
	o->left -= unsignaled;
	q->load += is_piece * (posted - unsignaled);
	o->next += posted;
	if (queue > 0)
		o->on_others += posted;
	if (status == ORIEL_OK || status == ORIEL_AGAIN)
		return status;
	return ori_host_fail(link,
			     &(struct ori_host_failure){
				     .status = status,
				     .rail = q->rail,
				     .qpn = q->qpn,
				     .err = ori_dev_queue_err(ORIEL_QUEUE_ABANDONED, 0, 0, op),
			     });
}

/*
 * The notification need not wait: each queue carries a part of it behind what is in flight
 * there. A wait takes a round trip more, in which no later notification is posted: over two
 * software HCAs in virtual time with delay=20us, 4 KiB took 50 us with it and 38 without.
 */
static void host_begin_parts(const struct ori_host_link *link, struct host_operation *o)
{
	uint64_t before = host_requests(link, o);

	o->is_counted = true;
	o->left += host_requests(link, o) - before;
}

static enum oriel_status host_post_part(struct ori_host_link *link, struct host_operation *o,
					uint64_t op)
{
	unsigned queue = (unsigned)(o->next - (o->pieces - 1) + 1) % link->attr.queues;
	struct ori_hca_wr wr = host_notify_wr(link, o, op);

	if (queue == 0) {
		wr = host_piece(link, o, o->pieces - 1, 0);
		wr.opcode = ORI_HCA_WRITE_IMM;
		wr.flags |= host_fence(link);
	}
	return host_hand_over(link, o, op, queue, &wr, 1);
}

/*
 * Posts the next piece, and behind the last one the notification, if it may. Posts nothing
 * if the last one is to be a part of the notification.
 */
static enum oriel_status host_post_piece(struct ori_host_link *link, struct host_operation *o,
					 uint64_t op)
{
	bool notifies = o->has_notify && o->next + 1 == o->pieces;
	unsigned queue = host_choose_queue(link, o), count = 1;
	struct ori_hca_wr wrs[2];

	if (notifies && !host_may_notify(link, o, op)) {
		notifies = false;
		if (o->notify_opcode == ORI_HCA_WRITE_IMM && !link->attr.is_reordered) {
			host_begin_parts(link, o);
			return ORIEL_OK;
		}
	}
	wrs[0] = host_piece(link, o, o->next, queue);
	if (notifies) {
		wrs[count++] = host_notify_wr(link, o, op);
		/*
		 * Only the last request of a chain is signaled: where the queue cuts the
		 * chain, the rest covers all.
		 */
		wrs[0].flags &= ~ORI_HCA_SIGNALED;
	}
	return host_hand_over(link, o, op, queue, wrs, count);
}

static enum oriel_status host_post_notify(struct ori_host_link *link, struct host_operation *o,
					  uint64_t op)
{
	struct ori_hca_wr wr = host_notify_wr(link, o, op);
	enum oriel_status status;

	link->is_held = !host_may_notify(link, o, op);
	link->held = op;
	if (link->is_held)
		return ORIEL_OK;
	status = host_hand_over(link, o, op, 0, &wr, 1);
	link->is_held = status == ORIEL_AGAIN;
	return status;
}

static bool host_waits_for_all(const struct ori_host_link *link, const struct host_operation *o)
{
	return link->attr.is_reordered && o->move.is_flag && o->pieces;
}

static enum oriel_status host_post_operation(struct ori_host_link *link, struct host_operation *o,
					     uint64_t op)
{
	enum oriel_status status = ORIEL_OK;

	if (host_waits_for_all(link, o) && link->done < op)
		return ORIEL_AGAIN;
	while (o->next < o->pieces && !o->is_counted && status == ORIEL_OK)
		status = host_post_piece(link, o, op);
	while (o->is_counted && o->next < host_requests(link, o) && status == ORIEL_OK)
		status = host_post_part(link, o, op);
	if (status == ORIEL_OK && o->next < host_requests(link, o))
		status = host_post_notify(link, o, op);
	return status;
}

enum oriel_status ori_host_post(struct ori_host_link *link)
{
	enum oriel_status status = ORIEL_OK;

	if (link->is_held)
		status = host_post_notify(link, host_operation(link, link->held), link->held);
	while (link->posting < link->begun && status == ORIEL_OK) {
		struct host_operation *o = host_operation(link, link->posting);

		if (link->is_held && o->has_notify)
			break;
		status = host_post_operation(link, o, link->posting);
		link->posting += status == ORIEL_OK;
	}
	return status == ORIEL_AGAIN ? ORIEL_OK : status;
}

/*
 * One piece without a notification, and nothing waits: it goes by the first queue, as
 * host_choose_queue() says.
 */
static bool host_is_plain(const struct ori_host_link *link, const struct host_operation *o)
{
	return o->pieces == 1 && !o->has_notify && !link->is_held &&
	       link->posting + 1 == link->begun && !host_waits_for_all(link, o);
}

enum oriel_status ori_host_post_last(struct ori_host_link *link, struct host_operation *o,
				     uint64_t op)
{
	struct ori_hca_wr wr;
	enum oriel_status status;

	o->left = host_requests(link, o);
	if (!host_is_plain(link, o))
		return ori_host_post(link);
	wr = host_piece(link, o, 0, 0);
	status = host_hand_over(link, o, op, 0, &wr, 1);
	link->posting += status == ORIEL_OK;
	return status == ORIEL_AGAIN ? ORIEL_OK : status;
}
